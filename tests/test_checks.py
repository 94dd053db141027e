"""What callers may pass: every refusal names the argument, what would be right and what was found."""

from fractions import Fraction

import numpy as np
import pytest
import scipy.stats

import certeq as ce
from certeq import _checks as checks
from certeq._backend import is_tensor


@pytest.mark.parametrize("good", [1, 2.5, np.float32(3), np.int64(4), Fraction(1, 2), np.array(7.0)])
def test_numbers_come_back_as_floats(good):
    found = checks.check_number("c", good, above=0.0)
    assert type(found) is float
    assert found == float(good)


@pytest.mark.parametrize(
    "bad, error, text",
    [
        ("1", TypeError, "c must be a finite number above 0; found '1'."),
        (True, TypeError, "found True"),
        (None, TypeError, "found None"),
        (1j, TypeError, "found 1j"),
        ([1.0, 2.0], TypeError, r"found \[1.0, 2.0\]"),
        (np.ones(2), TypeError, r"a single number; found an array of shape \(2,\)"),
        (0.0, ValueError, "c must be a finite number above 0; found 0.0."),
        (np.inf, ValueError, "found inf"),
        (np.nan, ValueError, "found NaN"),
    ],
)
def test_what_is_no_number_or_out_of_range_is_refused(bad, error, text):
    with pytest.raises(error, match=text):
        checks.check_number("c", bad, above=0.0)


@pytest.mark.parametrize(
    "refused",
    [
        lambda: ce.minimize(ce.LinearLoss(np.eye(4)), domain=ce.Polyhedron(0, 1, C=np.ones((1, 4)), c=[9.0])),
        lambda: ce.oce(np.float64(3.0), ce.CVaR(0.05)),
        lambda: ce.oce(np.arange(3.0), ce.CVaR(0.05), axis=np.int64(5)),
        lambda: np.float64(-1.0) * ce.CVaR(0.05),
        lambda: ce.Mixture(np.float64(0.5), [ce.CVaR(0.05)]),
        lambda: ce.upper_bound(np.arange(3.0), ce.CVaR(0.05), support=(np.float64(1.0), np.float64(0.0))),
        lambda: ce.estimate(np.arange(3.0), dependence=np.float64(2.5)),
        lambda: ce.estimate(np.arange(3.0)).interval([np.float64(2.0)]),
        lambda: ce.oce(scipy.stats.norm(np.float64(0.0), scale=np.float64(-1.0)), ce.CVaR(0.05)),
        lambda: checks.check_choice("c", {"a": np.float32(2.0)}, ["x"]),
        lambda: checks.check_count("c", np.float64(2.5)),
    ],
)  # fmt: skip
def test_numbers_of_numpy_are_shown_as_numbers(refused):
    with pytest.raises((TypeError, ValueError), match=r"\d") as error:
        refused()
    assert "np." not in str(error.value)


def test_limits_of_numbers():
    assert checks.check_number("c", np.inf, least=0.0, finite=False) == np.inf
    assert checks.check_number("c", 0.0, least=0.0) == 0.0
    with pytest.raises(ValueError, match="c must be a number not below 0; found -1.0"):
        checks.check_number("c", -1, least=0.0, finite=False)
    with pytest.raises(ValueError, match="c must be a share; found 1.0"):
        checks.check_number("c", 1, "a share", below=1.0)
    with pytest.raises(ValueError, match=r"Did you mean 0.05, that is the worst 5 %\?"):
        checks.check_tail_mass("alpha", 5)


def test_a_learned_number_gives_its_value():
    torch = pytest.importorskip("torch")
    tensor = torch.tensor(0.25, requires_grad=True)
    assert is_tensor(tensor)
    assert checks.check_number("alpha", tensor) == 0.25


@pytest.mark.parametrize("bad, error", [(1.0, TypeError), (True, TypeError), ("3", TypeError), (0, ValueError)])
def test_counts(bad, error):
    assert checks.check_count("n", np.int32(3)) == 3
    with pytest.raises(error, match="n must be a whole number of at least 1; found"):
        checks.check_count("n", bad)


def test_choices_suggest_the_nearest():
    assert checks.check_choice("a", True, ("auto", True, False)) is True
    with pytest.raises(ValueError, match=r"a must be one of 'mean', 'last'; found 'laast'. Did you mean 'last'\?"):
        checks.check_choice("a", "laast", ("mean", "last"))
    with pytest.raises(ValueError, match=r"found 1\.$"):  # which is not True
        checks.check_choice("a", 1, ("auto", True))


def test_instances():
    with pytest.raises(TypeError, match=r"f must be an instance; write Fraction\(\) rather than Fraction"):
        checks.check_instance("f", Fraction, Fraction, "a fraction")
    with pytest.raises(TypeError, match="f must be a fraction; found 3; see fractions"):
        checks.check_instance("f", 3, Fraction, "a fraction", "; see fractions")


@pytest.mark.parametrize(
    "bad, error, text",
    [
        ([[1.0], [1.0, 2.0]], ValueError, "rectangular"),
        (["a"], TypeError, "x must hold real numbers; found dtype <U1"),
        ([1j], TypeError, "dtype complex128"),
        ([[1.0]], ValueError, r"x must be a vector; found an array of shape \(1, 1\)"),
        ([], ValueError, "x is empty"),
        ([1.0, 2.0], ValueError, "x must have 3 entries; found 2"),
        ([1.0, np.nan, 2.0], ValueError, r"x must be finite; found nan at \[1\]"),
    ],
)
def test_vectors(bad, error, text):
    with pytest.raises(error, match=text):
        checks.check_array("x", bad, size=3 if bad else None)


def test_arrays_are_copied_only_where_they_must_be():
    x = np.arange(4.0)
    assert checks.check_array("x", x) is x
    assert checks.check_array("x", [True, False]).tolist() == [1.0, 0.0]
    assert checks.as_real("x", np.ones(2, np.float32)).dtype == np.float32
    huge = np.array([1e308, 1e308])  # whose sum overflows
    assert checks.check_array("x", huge) is huge


def test_bounds_are_private_and_read_only():
    given = np.array([0.0, -np.inf])
    bound = checks.check_bound("lower", given, -np.inf)
    given[0] = 5.0
    assert bound.tolist() == [0.0, -np.inf]
    assert not bound.flags.writeable
    assert checks.check_bound("lower", 2) == 2.0
    with pytest.raises(ValueError, match="lower must be finite or -inf; found inf at index 1"):
        checks.check_bound("lower", [0.0, np.inf], -np.inf)


@pytest.mark.parametrize(
    "bad, text",
    [
        ([1.0, -2.0, 1.0], r"w must not be negative; found -2 at \[1\]"),
        ([0.0, 0.0, 0.0], "w must not sum to 0; found zero for every sample"),
        ([1.0, np.inf, 1.0], r"w must be finite; found inf at \[1\]"),
        ([1.0], "w must have one entry per sample, 3; found 1"),
        ([[1.0, 1.0, 1.0]], r"found shape \(1, 3\)"),
    ],
)
def test_weights(bad, text):
    with pytest.raises(ValueError, match=text):
        checks.check_weights("w", bad, 3)


def test_probabilities_of_weights_of_any_size():
    for size in (1e-300, 1.0, 1e308):
        np.testing.assert_allclose(checks.probabilities(size * np.array([1.0, 0.5, 0.5])), [0.5, 0.25, 0.25])

"""What callers may pass to any function: a refusal names the argument, what is expected and what was found."""

from fractions import Fraction

import numpy as np
import pytest
import scipy.stats

import certeq as ce
from tests.messages import messages

X = np.arange(3.0)
U = ce.CVaR(0.05)


def smooth(value):
    return ce.oce(X, ce.Entropic(value))


def linear(samples, **options):
    return ce.LinearLoss(samples, **options)


def least(**options):
    return ce.minimize(ce.LinearLoss(np.eye(3)), U, domain=ce.Simplex(), **options)


def steps(count):
    return least(method="sg", iterations=count)


MESSAGES = {
    # numbers
    "a text": (lambda: smooth("1"), TypeError, "beta must be", "number", "found '1'"),
    "a truth value": (lambda: smooth(True), TypeError, "beta must be", "found True"),
    "nothing": (lambda: smooth(None), TypeError, "found None"),
    "a complex number": (lambda: smooth(1j), TypeError, "found 1j"),
    "a list": (lambda: smooth([1.0, 2.0]), TypeError, "found [1.0, 2.0]"),
    "a vector": (lambda: smooth(np.ones(2)), TypeError, "a single number", "an array of shape (2,)"),
    "zero": (lambda: smooth(0.0), ValueError, "beta must be", "above 0", "found 0.0"),
    "infinity": (lambda: smooth(np.inf), ValueError, "beta must be", "found inf"),
    "no number": (lambda: smooth(np.nan), ValueError, "beta must be", "found NaN"),
    "a confidence level": (lambda: ce.CVaR(5), ValueError, "alpha", "found 5", "Did you mean 0.05", "worst 5 %"),
    # counts
    "a fraction of a count": (lambda: steps(2.5), TypeError, "iterations must be a whole number of at least 1", "2.5"),
    "a truth value for a count": (lambda: steps(True), TypeError, "whole number of at least 1; found True"),
    "a text for a count": (lambda: steps("3"), TypeError, "whole number of at least 1; found '3'"),
    "a count of 0": (lambda: steps(0), ValueError, "whole number of at least 1; found 0"),
    # choices and instances
    "a misspelled choice": (
        lambda: least(method="exakt"),
        ValueError, "method must be one of", "found 'exakt'", "Did you mean 'exact'?",
    ),
    "a class": (lambda: ce.oce(X, ce.Mean), TypeError, "instance", "write Mean() rather than Mean"),
    "no utility": (lambda: ce.oce(X, 0.05), TypeError, "must be a Utility", "found 0.05"),
    # vectors and matrices
    "ragged rows": (lambda: linear([[1.0], [1.0, 2.0]]), ValueError, "A must be a rectangular array"),
    "texts": (lambda: linear([["a"]]), TypeError, "A must hold real numbers", "dtype <U1"),
    "complex numbers": (lambda: linear([[1j]]), TypeError, "A must", "dtype complex128"),
    "a vector for a matrix": (lambda: linear(X), ValueError, "A must be a matrix", "found an array of shape (3,)"),
    "an empty matrix": (lambda: linear(np.ones((0, 2))), ValueError, "A is empty"),
    "no number in a matrix": (lambda: linear([[1.0, 2.0], [np.nan, 1.0]]), ValueError, "A must be finite; found nan"),
    "a matrix for a vector": (
        lambda: linear(np.eye(3), offset=np.eye(3)), ValueError, "offset must be a vector", "an array of shape (3, 3)",
    ),
    "a vector of another size": (
        lambda: linear(np.eye(3), offset=[1.0]), ValueError, "offset must have 3 entries; found 1",
    ),
    "an infinite entry": (
        lambda: linear(np.eye(3), offset=[1.0, np.inf, 2.0]), ValueError, "offset must be finite; found inf at [1]",
    ),
    "an infinite bound": (
        lambda: ce.Box([0.0, np.inf], np.inf), ValueError, "lower must be finite or -inf; found inf at index 1",
    ),
    # weights
    "a negative weight": (lambda: ce.oce(X, U, [1.0, -2.0, 1.0]), ValueError, "weights must not be negative; found -2"),
    "weights of 0": (lambda: ce.oce(X, U, np.zeros(3)), ValueError, "weights", "sum to 0", "every sample"),
    "an infinite weight": (lambda: ce.oce(X, U, [1.0, np.inf, 1.0]), ValueError, "weights must be finite; found"),
    "too few weights": (lambda: ce.oce(X, U, [1.0]), ValueError, "weights must have", "one weight per sample", "(1,)"),
    "a negative weight of a scenario": (
        lambda: least(weights=[1.0, -2.0, 1.0]), ValueError, "weights must not be negative; found -2 at [1]",
    ),
    "weights of scenarios of 0": (lambda: least(weights=np.zeros(3)), ValueError, "weights", "sum to 0"),
    "too few weights of scenarios": (
        lambda: least(weights=[1.0]), ValueError, "weights must have one entry per sample, 3; found 1",
    ),
}  # fmt: skip
test_message = messages(MESSAGES)


@pytest.mark.parametrize("good", [1, 2.5, np.float32(3), np.int64(4), Fraction(1, 2), np.array(7.0)])
def test_any_kind_of_number_is_one(good):
    assert smooth(good) == smooth(float(good))


@pytest.mark.parametrize(
    "refused",
    [
        lambda: ce.minimize(ce.LinearLoss(np.eye(4)), domain=ce.Polyhedron(0, 1, C=np.ones((1, 4)), c=[9.0])),
        lambda: ce.oce(np.float64(3.0), U),
        lambda: ce.oce(X, U, axis=np.int64(5)),
        lambda: np.float64(-1.0) * U,
        lambda: ce.Mixture(np.float64(0.5), [U]),
        lambda: ce.upper_bound(X, U, support=(np.float64(1.0), np.float64(0.0))),
        lambda: ce.estimate(X, dependence=np.float64(2.5)),
        lambda: ce.estimate(X).interval([np.float64(2.0)]),
        lambda: ce.oce(scipy.stats.norm(np.float64(0.0), scale=np.float64(-1.0)), U),
        lambda: least(method={"a": np.float32(2.0)}),
        lambda: steps(np.float64(2.5)),
    ],
)
def test_numbers_of_numpy_are_shown_as_numbers(refused):
    with pytest.raises((TypeError, ValueError), match=r"\d") as error:
        refused()
    assert "np." not in str(error.value)


def test_large_samples_are_not_copied():
    A = np.ones((1000, 3))
    assert np.shares_memory(ce.LinearLoss(A).samples, A)
    huge = np.array([1e308, 1e308])  # whose sum overflows, but which are finite
    assert ce.oce(huge, ce.CVaR(0.5)) == 1e308
    assert ce.oce([True, False], ce.CVaR(0.5)) == 1.0


def test_bounds_are_kept_apart_from_what_was_passed():
    given = np.array([0.0, -np.inf])
    box = ce.Box(given, 1.0)
    given[0] = 0.5
    assert box.project(np.array([-1.0, -1.0])).tolist() == [0.0, -1.0]
    with pytest.raises(ValueError, match="read-only"):
        box.lower[0] = 5.0


@pytest.mark.parametrize("size", [1e-300, 1.0, 1e308])
def test_weights_of_any_size_have_a_sum(size):
    assert ce.oce([1.0, 2.0, 4.0], ce.Mean(), size * np.array([1.0, 0.5, 0.5])) == pytest.approx(2.0, rel=1e-15)

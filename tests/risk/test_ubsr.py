"""Utility-based shortfall risk: any increasing loss, any level inside its range."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import certeq as ce


def test_the_threshold_is_a_special_case(utility):
    if utility.slope_range[0] == utility.slope_range[1]:
        return
    z = np.round(np.random.default_rng(1).standard_normal((5, 21)), 1)
    np.testing.assert_allclose(ce.ubsr(z, utility.slope, 1.0, axis=1), ce.threshold(z, utility, axis=1), atol=1e-7)


@given(st.lists(st.integers(-30, 30), min_size=1, max_size=20), st.floats(0.1, 3.0), st.floats(0.2, 5.0))
def test_exponential_loss_is_entropic(z, beta, level):
    z = np.array(z) / 10
    expected = ce.oce(z, ce.Entropic(beta)) - np.log(level) / beta
    assert ce.ubsr(z, lambda x: np.exp(beta * x), level) == pytest.approx(expected, abs=1e-12)


def test_value_at_risk_as_a_jump():
    z = np.arange(1.0, 11.0)
    assert ce.ubsr(z, lambda x: (x > 0).astype(float), 0.2) == 8.0
    assert ce.ubsr(z, lambda x: (x > 0).astype(float), 0.19) == 9.0


def test_weights_axis_offsets_and_utilities():
    z = np.random.default_rng(2).standard_normal((6, 3))
    w = np.arange(1, 7)
    found = ce.ubsr(z, np.exp, 1.0, weights=w, axis=0)
    np.testing.assert_allclose(found, [ce.ubsr(np.repeat(z[:, j], w), np.exp, 1.0) for j in range(3)], rtol=1e-12)
    assert ce.ubsr(z[:, 0] + 1e9, np.exp, 1.0) == pytest.approx(1e9 + ce.ubsr(z[:, 0], np.exp, 1.0), rel=1e-15)
    assert ce.ubsr(z[:, 0], ce.Entropic(1.0), 0.0) == pytest.approx(ce.ubsr(z[:, 0], np.exp, 1.0), rel=1e-12)


def test_bad_arguments():
    z = [0.0, 1.0]
    for args, error, message in (
        ((z, np.exp, -1.0), ValueError, "inside the range of loss; loss never falls"),
        ((z, np.tanh, 2.0), ValueError, "never rises"),
        ((z, lambda x: -x, 0.5), ValueError, "range|increasing"),
        ((z, 3, 1.0), TypeError, "loss must be"),
        ((z, np.exp, "a"), TypeError, "level"),
        ((z, np.exp, np.nan), ValueError, "level"),
        (([np.nan], np.exp, 1.0), ValueError, "NaN"),
        ((z, lambda x: 1.0, 1.0), ValueError, "elementwise"),
    ):
        with pytest.raises(error, match=message):
            ce.ubsr(*args)


def test_a_jump_where_rounding_hides_the_next_float():
    assert ce.ubsr([0.0, 1.0], lambda x: (x > -1) * 1.0, 0.6) == 1.0


@pytest.mark.parametrize("others", [0, 70_000])
def test_a_loss_that_overflows_to_both_sides_has_no_mean(others):
    z = np.append(np.random.default_rng(0).standard_normal(others), [390.0, -1350.0])
    with pytest.raises(OverflowError, match="not a number at t = .*larger units"):
        ce.ubsr(z, np.sinh, 0.0)

"""Risks with more inner variables than t: limits of their parameters, long samples, and hard searches for the scale."""

import math

import numpy as np
import pytest

import certeq as ce
from certeq.risk.solvers import solve_inner, solve_risk
from certeq.utilities.forms import Inner, Term, form
from tests.blocks import reads_of, short_samples_in_blocks
from tests.problems import PARAMETERS, RISKS, SAMPLES

BALLS = {
    name: entry.risk
    for name, entry in (RISKS | PARAMETERS).items()
    if entry.blocks and len(entry.risk.inner().cost) == 2
}


def test_a_large_radius_is_the_largest_loss_and_bounded_slopes_are_cvar():
    x = np.array([3.0, -1.0, 0.5, 3.0, 2.0])
    for risk in (ce.EVaR(0.1), ce.HMCR(2, 0.3), ce.HMCR(1.1, 0.1), ce.MonotoneMeanVariance(3).ball(50.0)):
        assert ce.oce(x, risk) == 3.0
        assert ce.estimate(x, risk).inner[1] == 0.0
        np.testing.assert_array_equal(ce.tilt(x, risk), [0.5, 0.0, 0.0, 0.5, 0.0])
    for u in (ce.SmoothCVaR(0.3), ce.LeakyCVaR(0.3)):
        assert ce.oce(x, u.ball(100.0)) == pytest.approx(ce.oce(x, ce.CVaR(0.3)), rel=1e-15)
    twenty = np.arange(20.0)  # alpha n = 1, and on either side of it
    assert ce.oce(twenty, ce.EVaR(0.05)) == pytest.approx(19.0, rel=1e-14)
    assert ce.oce(twenty, ce.EVaR(0.0499999)) == 19.0
    assert ce.oce(twenty, ce.EVaR(0.0501)) < 19.0


def test_formulas():
    x = np.random.default_rng(1).normal(size=200)
    assert ce.oce(x, ce.MeanVariance(0.7).ball(0.3)) == pytest.approx(x.mean() + math.sqrt(4 * 0.7 * 0.3 * x.var()))
    assert ce.oce(x, ce.MonotoneMeanVariance(2).ball(1e-3)) == pytest.approx(x.mean() + math.sqrt(2e-3 * x.var()))
    for radius in (0.02, 0.4, 5.0, 60.0):  # half the chi-square distance bounds the second moment of the tilt
        second = ce.oce(x, ce.HMCR(2, 1.0 / math.sqrt(1.0 + 2.0 * radius)))
        assert ce.oce(x, ce.MonotoneMeanVariance(2).ball(radius)) == pytest.approx(second, rel=1e-13)
    for radius in (1e-8, 1e-12, 1e-15):  # any smooth ball is mean and deviation
        for u in (ce.Entropic(), ce.MonotoneMeanVariance(2), ce.MonotoneMeanVariance(3)):
            near = x.mean() + math.sqrt(2.0 * radius * float(u.curvature(0.0)) * x.var())
            assert ce.oce(x, u.ball(radius)) == pytest.approx(near, abs=16.0 * radius + 1e-12)
    assert ce.oce(x, ce.Wang(0)) == pytest.approx(x.mean())
    assert ce.oce(x, ce.Distortion(lambda p: np.minimum(p / 0.05, 1.0))) == pytest.approx(ce.oce(x, ce.CVaR(0.05)))
    assert ce.oce(x, ce.PowerDistortion(2)) == pytest.approx(np.maximum(x[:, None], x[None, :]).mean())


@pytest.mark.parametrize("name", BALLS)
def test_a_guess_and_a_bound_on_the_scale(name):
    """What the exact method asks: from inner variables nearby, and with a least scale."""
    x, inner = SAMPLES["normal"][0], BALLS[name].inner()
    free = solve_risk(x, None, BALLS[name])
    for factor in (0.999, 1.3, 50.0):
        again = solve_inner(x, None, inner, guess=factor * free.inner)
        assert again.value == pytest.approx(free.value, rel=1e-12)
        np.testing.assert_allclose(again.inner, free.inner, rtol=1e-6, atol=1e-9)
    low = 2.0 * free.inner[1] + 0.5
    held = solve_inner(x, None, type(inner)(inner.cost, np.array([-np.inf, low]), inner.high, inner.terms))
    assert held.inner[1] == low
    (term,) = inner.terms

    def objective(t):
        return t + inner.cost[1] * low + term.weight * low * np.mean(term.form.utility.value((x - t) / low))

    assert held.value == pytest.approx(objective(held.inner[0]), rel=1e-12)
    assert held.value <= min(objective(held.inner[0] + away) for away in (-1e-3, 1e-3)) + 1e-14


@pytest.mark.parametrize("alpha", [0.05, 0.001])
def test_evar_of_many_samples_takes_few_reads(alpha):
    rng = np.random.default_rng(6)
    for x in (rng.normal(size=400_000), rng.standard_t(5, size=400_000), rng.exponential(size=400_000)):
        found, reads = reads_of(lambda x=x: ce.oce(x, ce.EVaR(alpha)))
        assert reads <= 6
        assert abs(found - solve_risk(x, None, ce.EVaR(alpha)).value) <= 1e-13 * np.ptp(x)


@pytest.mark.parametrize("risk", [ce.EVaR(0.1), ce.HMCR(2, 0.3), ce.HMCR(3, 0.4), ce.MonotoneMeanVariance(2).ball(0.3)])
def test_short_samples_in_blocks_have_the_risk_of_the_vector(risk):
    """A draw of few losses may miss the largest or hold it twice: the search for the scale then begins far off."""
    rng = np.random.default_rng(0)
    x = np.array([76.919, 76.868, 76.862, 76.363, 75.406, 57.518, 54.101, 45.921, 6.278, -1.408, -8.841, -8.954])
    near = np.append(x, [-10.379, -27.453, -30.138, -34.103, -131.029, -150.305, -219.687, -289.820])
    cases = [(rng.permutation(near), np.ones(len(near))) for _ in range(20)]  # the draw depends on the order
    for k in range(60):
        x = rng.standard_t(3, size=int(rng.integers(5, 40))) * 10.0 ** rng.integers(-3, 3)
        if k % 3 == 0:  # largest losses that tie, or nearly do
            x[:3] = x.max() * (1.0 + rng.choice([0.0, 1e-15, 1e-12, 1e-6], 3))
        cases.append((x, rng.random(len(x)) if k % 2 else np.ones(len(x))))
    for x, weights in cases:
        with short_samples_in_blocks():
            found = ce.oce(x, risk, weights)
        assert abs(found - ce.oce(x, risk, weights)) <= 1e-12 * np.ptp(x)


@pytest.mark.parametrize(
    "cost, low, terms, message",
    [
        ([1.0], [-np.inf], [(0.5, 0, None), (0.5, 0, None)], r"t = \[0, 0\]"),  # 4.5 for the losses 0, 1, 2, 5
        ([0.5, 0.5, 0.1], [-np.inf, -np.inf, 0.0], [(0.5, 0, 2), (0.5, 1, 2)], r"s = \[2, 2\]"),
        ([1.0, 0.1], [-np.inf, -np.inf], [(1.0, 0, 1)], "low must be"),
        ([1.0, 0.1], [-np.inf, 1.0], [(1.0, 0, 1)], "low must be 0"),
        ([1.0], [0.0], [(1.0, 0, None)], "low must be"),
        ([1.0], [-np.inf], [(0.5, 0, None)], "weight must be positive and equal to the cost of t, 1; found 0.5"),
    ],
)
def test_inner_variables_that_no_solver_takes_are_refused(cost, low, terms, message):
    class Own(ce.EVaR):
        def _make_inner(self):
            utilities = (ce.CVaR(0.5), ce.MeanVariance(1.0))
            made = [Term(weight, form(u), t, s) for (weight, t, s), u in zip(terms, utilities, strict=False)]
            return Inner(np.array(cost), np.array(low), np.full(len(cost), np.inf), tuple(made))

    with pytest.raises(ValueError, match=message):
        ce.oce([0.0, 1.0, 2.0, 5.0], Own(0.5))

"""The three regimes: closed forms checked, slopes at least those of theory."""

from __future__ import annotations

import numpy as np
import pytest

import certeq as ce
from certeq.paper import convergence as paper
from certeq.paper._run import LocalJob


def test_optimum_on_the_simplex_is_that_of_the_exact_solver():
    root = np.sqrt(3.0) * np.diag(paper.DEVIATIONS)
    points = np.vstack([paper.MEAN + root, paper.MEAN - root])
    found = ce.minimize(ce.LinearLoss(points), ce.MeanVariance(0.5 * paper.BETA), domain=ce.Simplex())
    np.testing.assert_allclose(paper.simplex_optimum(), found.theta, atol=1e-6)


def test_gradient_of_the_well_is_that_of_a_large_sample():
    theta = np.array([0.7, -0.4])
    losses, gradients = paper._well(theta, paper._cloud(np.random.default_rng(0), 400_000))
    sampled = ce.tilt(losses, ce.Entropic(paper.WELL_BETA)) @ gradients
    np.testing.assert_allclose(paper.well_gradient(theta, *paper.well_rule()), sampled, atol=3e-3)


@pytest.mark.parametrize("loss, sampler, size", [(paper._bowl, paper._signs, 2), (paper._trough, paper._sign, 1)])
def test_the_theorem_is_judged_where_its_assumptions_hold(loss, sampler, size):
    # Bounded gradients, and none of the OCE at its optimum, 0, which is the least value anywhere.
    xi = np.array([[a, b] for a in (-1.0, 1.0) for b in (-1.0, 1.0)]) if size == 2 else np.array([[-1.0], [1.0]])
    assert {tuple(row) for row in sampler(np.random.default_rng(0), 50)} == {tuple(row) for row in xi}
    u, rng = ce.Entropic(paper.BETA), np.random.default_rng(1)
    losses, gradients = loss(np.zeros(size), xi)
    least = ce.oce(losses, u)
    np.testing.assert_allclose(ce.tilt(losses, u) @ gradients, 0.0, atol=1e-15)
    for theta in rng.uniform(-1.0, 1.0, size=(20, size)):
        losses, gradients = loss(theta, xi)
        assert ce.oce(losses, u) > least
        for k, step in enumerate(1e-6 * np.eye(size)):
            difference = ce.oce(loss(theta + step, xi)[0], u) - ce.oce(loss(theta - step, xi)[0], u)
            assert ce.tilt(losses, u) @ gradients[:, k] == pytest.approx(difference / 2e-6, abs=1e-8)
    if size == 1:
        value = paper.convex_as_assumed(0, "printed")[0]
        assert 0.0 < value < ce.oce(loss(np.ones(1), xi)[0], u)


def test_errors_are_never_below_the_optimum():
    assert min(paper.convex(0, "corrected")) > -1e-12
    assert min(paper.strongly_convex(0, "printed")) >= 0.0


def test_a_trial_repeats():
    assert paper.trial(paper.PORTFOLIO, "corrected", 3) == paper.trial(paper.PORTFOLIO, "corrected", 3)


@pytest.mark.slow
def test_slopes_are_those_of_theory_or_steeper():
    with LocalJob(seeds=20, jobs=1) as job:
        outcome = paper.run(job)
    for name, entry in outcome.numbers["slopes"].items():
        assert entry["found"] <= entry["theory"] + 2.0 * entry["spread"], name
    # Constant steps leave noise of variance C/k, no less: here the rate is sharp.
    assert outcome.numbers["slopes"][f"{paper.PORTFOLIO}, corrected"]["found"] == pytest.approx(-1.0, abs=0.2)
    # So flat an optimum makes the theorem's rate for convex risks nearly so: -2/3 in the limit, -1/2 is promised.
    assert outcome.numbers["slopes"]["convex, printed"]["found"] == pytest.approx(-0.6, abs=0.1)
    assert {claim.verdict for claim in outcome.claims} == {"reproduced"}
    assert [claim.whose for claim in outcome.claims].count("paper") == 3
    assert len(outcome.figures[0].panels) == 3

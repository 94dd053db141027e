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


def test_errors_are_never_below_the_optimum():
    assert min(paper.convex(0, "corrected")) > -1e-12
    assert min(paper.strongly_convex(0, "printed")) >= 0.0


def test_a_trial_repeats():
    assert paper.trial("strongly convex", "corrected", 3) == paper.trial("strongly convex", "corrected", 3)


@pytest.mark.slow
def test_slopes_are_those_of_theory_or_steeper():
    with LocalJob(seeds=20, jobs=1) as job:
        outcome = paper.run(job)
    for name, entry in outcome.numbers["slopes"].items():
        assert entry["found"] <= entry["theory"] + 2.0 * entry["spread"], name
    # Constant steps leave noise of variance C/k, no less: here the rate is sharp.
    assert outcome.numbers["slopes"]["strongly convex, corrected"]["found"] == pytest.approx(-1.0, abs=0.2)
    assert {claim.verdict for claim in outcome.claims} == {"reproduced"}
    assert len(outcome.figures[0].panels) == 3

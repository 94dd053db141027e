"""Rates of convergence: the problems tell OCE-SG from runs that minimize something else."""

import csv

import numpy as np
import pytest
from scipy.optimize import minimize

pytest.importorskip("joblib", reason="experiments need experiments/requirements.txt")
pytest.importorskip("matplotlib", reason="experiments need experiments/requirements.txt")

import certeq as ce
from experiments import convergence
from experiments.common import RESULTS
from experiments.convergence import ODDS, REGIMES, VALUES, judged, trial

MAIN = ("strongly convex", "convex", "non-convex")
POINTS = np.array([(a, b) for a in VALUES for b in VALUES])
MASS = np.outer(ODDS, ODDS).ravel()


@pytest.fixture(scope="module", params=MAIN)
def runs(request):
    """Return the name of a regime, its errors and those of risk-neutral runs, over three seeds."""
    errors, neutral = (np.array([trial(request.param, seed, at) for seed in range(3)]) for at in (False, True))
    return request.param, errors, neutral


def test_the_promised_rate_is_kept_and_a_risk_neutral_run_fails(runs):
    regime, errors, neutral = runs
    verdict, why, numbers = judged(regime, errors, neutral)
    assert (verdict, "fails the rule" in why) == ("reproduced", True)
    assert numbers["risk neutral"] > -0.2


@pytest.mark.parametrize("other", [ce.Mean(), ce.CVaR(0.3)], ids=repr)
def test_another_risk_is_not_reproduced(runs, other):
    regime, _, neutral = runs
    function, _, marks, _, _ = REGIMES[regime]
    errors = np.array([function(seed, other, marks) for seed in range(3)])
    assert judged(regime, errors, neutral)[0] == "not reproduced"


def test_a_problem_that_a_risk_neutral_run_solves_is_undecided(runs):
    regime, errors, _ = runs
    assert judged(regime, errors, errors)[0] == "undecided"


def test_first_errors_are_as_stored():
    """Slopes alone do not show other steps, which may fall faster than promised too."""
    with (RESULTS / "convergence" / "slopes.csv").open(newline="", encoding="utf-8") as stream:
        stored = {(row["Regime"], row["Run"]): float(row["first error"]) for row in csv.DictReader(stream)}
    assert len(stored) == 2 * len(REGIMES)
    for (regime, name), error in stored.items():
        function, risk, marks, _, _ = REGIMES[regime]
        risk = risk if name == "OCE-SG" else ce.Mean()
        found = [function(seed, risk, marks[:1])[0] for seed in range(40)]
        assert np.mean(found) == pytest.approx(error, rel=1e-6), (regime, name)


def test_optima():
    """The closed forms are the minimizers that a general optimizer finds, and they are not those of the mean."""

    def value(theta, risk, loss):
        return float(ce.oce(loss(np.asarray(theta), POINTS)[0], risk, MASS))

    star = minimize(value, [0.0, 0.0], (convergence.ENTROPIC, convergence._bowl), tol=1e-10).x
    np.testing.assert_allclose(convergence.bowl_optimum(), star, atol=1e-5)
    neutral = minimize(value, [0.0, 0.0], (ce.Mean(), convergence._bowl)).x
    np.testing.assert_allclose(neutral, [1.2, -0.8], atol=1e-4)
    assert np.linalg.norm(star - neutral) > 0.5
    signs = np.array([(a, s) for a in VALUES for s in (-1.0, 1.0)])
    losses = convergence._trough(np.array([0.3, 0.7]), signs)[0]
    exact = float(ce.oce(losses, convergence.ENTROPIC, np.repeat(ODDS / 2.0, 2)))
    assert convergence.trough_risk(np.array([0.3, 0.7])) == pytest.approx(exact, abs=1e-14)
    theta, h = np.array([0.4, -0.1]), 1e-6
    points = convergence.WELL_SIZE * POINTS
    at = [
        float(ce.oce(convergence._well(theta + step, points)[0], convergence.WELL, MASS))
        for step in (*(h * np.eye(2)), *(-h * np.eye(2)))
    ]
    np.testing.assert_allclose(convergence.well_gradient(theta), np.subtract(at[:2], at[2:]) / (2 * h), atol=1e-8)


def test_gradients_of_the_losses():
    """A sign or factor in a gradient would be another problem than the one whose optimum is known."""
    theta, h = np.array([0.4, -0.7]), 1e-6
    for loss in (convergence._bowl, convergence._trough, convergence._well):
        gradient = loss(theta, POINTS)[1]
        for j, step in enumerate(h * np.eye(2)):
            difference = (loss(theta + step, POINTS)[0] - loss(theta - step, POINTS)[0]) / (2 * h)
            np.testing.assert_allclose(gradient[:, j], difference, atol=1e-7, err_msg=loss.__name__)

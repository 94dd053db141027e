"""Steps that need no constants: how near they come to the optimum, and what is said against a bad point."""

import math

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes

import certeq as ce
from certeq.optimize.losses import Objective
from certeq.optimize.sg import minimize_sg

UTILITIES = {"CVaR": ce.CVaR(0.1), "Entropic": ce.Entropic(1.0), "MMV": ce.MonotoneMeanVariance(2)}


def standardized(columns):
    return (columns - columns.mean(axis=0)) / columns.std(axis=0)


def diabetes(factor=1.0):
    X, y = load_diabetes(return_X_y=True)
    return ce.SquaredLoss(standardized(X), factor * standardized(y)), ce.Free()


def raw_diabetes(intercept=True):
    X, y = load_diabetes(return_X_y=True)
    X = np.column_stack([standardized(X), np.ones(len(X))]) if intercept else standardized(X)
    return ce.SquaredLoss(X, y), ce.Free()


def breast_cancer(domain=None):
    X, y = load_breast_cancer(return_X_y=True)
    return ce.LogisticLoss(standardized(X), 2.0 * y - 1.0), domain or ce.Box(-2.0, 2.0)


# CVaR's optima by an interior-point solver (without bounds to six digits), the others by L-BFGS, to eight digits.
# Without bounds the optimum is 300 to 425 away, along columns that are nearly collinear.
OPTIMA = {
    ("diabetes", "CVaR"): 1.8978125,
    ("diabetes", "Entropic"): 0.77243711,
    ("diabetes", "MMV"): 0.67356239,
    ("breast_cancer", "CVaR"): 0.38681057,
    ("breast_cancer", "Entropic"): 0.072104952,
    ("breast_cancer", "MMV"): 0.063443714,
    ("breast_cancer_free", "CVaR"): 0.2392094,
    ("breast_cancer_free", "Entropic"): 0.040794040,
    ("breast_cancer_free", "MMV"): 0.036743084,
}
TASKS = {"diabetes": diabetes, "breast_cancer": breast_cancer, "breast_cancer_free": lambda: breast_cancer(ce.Free())}


@pytest.mark.parametrize("seeds", [range(1), pytest.param(range(10), marks=pytest.mark.slow)])
@pytest.mark.parametrize("task", OPTIMA, ids="-".join)
def test_five_thousand_batches_of_64_come_within_one_percent(task, seeds):
    loss, domain = TASKS[task[0]]()
    utility, best = UTILITIES[task[1]], OPTIMA[task]
    if not utility.kinks:
        smooth = ce.minimize(loss, utility, domain=domain, method="lbfgs", iterations=10_000, tol=1e-9)
        assert smooth.value == pytest.approx(best, rel=1e-7)
    for seed in seeds:
        found = minimize_sg(loss, utility, domain=domain, batch=64, iterations=5000, rng=seed, log_every=5000)
        assert best * (1.0 - 1e-6) <= found.value <= 1.01 * best
        assert found.value == pytest.approx(Objective(loss, utility).evaluate(found.theta).value, rel=1e-12)
        assert found.warnings == ()


# The unit of y decides how many samples carry the risk: of 442, 168 under Entropic of the standardized y, 9 of twice
# that, 6 to 7 of the raw y. A batch of 64 that is drawn evenly holds one of those on average.
FEW_CARRIERS = {
    "twice": (lambda: diabetes(2.0), "Entropic", 7.2512449),
    "raw": (raw_diabetes, "Entropic", 15817.01),
    "raw, MMV": (raw_diabetes, "MMV", 15784.68),
    "three times": (lambda: diabetes(3.0), "Entropic", 20.798649),
    "raw, no intercept": (lambda: raw_diabetes(False), "Entropic", 74221.97),
    "raw, no intercept, MMV": (lambda: raw_diabetes(False), "MMV", 74194.4),
}


SLOW = [pytest.param(name, range(10), marks=pytest.mark.slow) for name in FEW_CARRIERS]


@pytest.mark.parametrize("name, seeds", [*((name, range(2)) for name in list(FEW_CARRIERS)[:3]), *SLOW])
def test_batches_find_the_few_samples_that_carry_the_risk(name, seeds):
    make, utility, best = FEW_CARRIERS[name]
    loss, domain = make()
    for seed in seeds:
        found = minimize_sg(
            loss, UTILITIES[utility], domain=domain, batch=64, iterations=5000, rng=seed, log_every=5000
        )
        assert best * (1.0 - 1e-4) <= found.value <= 1.01 * best
        assert found.warnings == ()


def test_weights_of_the_samples_do_not_bias_batches_that_follow_the_risk():
    X, y = raw_diabetes()[0].samples
    counts = np.random.default_rng(1).integers(0, 3, len(y))
    weighted, repeated = ce.SquaredLoss(X, y), ce.SquaredLoss(np.repeat(X, counts, axis=0), np.repeat(y, counts))
    best = ce.minimize(repeated, ce.Entropic(1.0), domain=ce.Free(), method="lbfgs", iterations=50_000, tol=1e-9)
    settings = {"domain": ce.Free(), "batch": 64, "iterations": 5000, "rng": 0, "log_every": 5000}
    found = minimize_sg(weighted, ce.Entropic(1.0), weights=counts, **settings)
    assert best.value * (1.0 - 1e-6) <= found.value <= 1.01 * best.value


@pytest.mark.parametrize("utility", [ce.CVaR(0.005), 0.1 * ce.Mean() + 0.9 * ce.CVaR(0.005)], ids=repr)
def test_batches_find_a_tail_of_ten_samples(utility):
    A = np.round(np.random.default_rng(0).standard_t(4, size=(2000, 5)) * [1.0, 1.2, 1.5, 2.0, 3.0], 1)  # with ties
    best = ce.minimize(ce.LinearLoss(A), utility, domain=ce.Simplex()).value
    settings = {"domain": ce.Simplex(), "batch": 64, "iterations": 2000, "log_every": 2000}
    for seed in range(3):
        assert best * (1.0 - 1e-9) <= minimize_sg(ce.LinearLoss(A), utility, rng=seed, **settings).value <= 1.005 * best


# -- what is said against a point -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "factor, options, says",
    [
        (2.0, {"batch": 8}, "the run has not settled"),  # a batch too small, however it is drawn
        (3.0, {"batch": 64, "replace": False}, "the run has not settled"),  # drawn evenly, as asked for
        (2.0, {"batch": 64, "average": "weighted"}, "the gradient of a batch is then biased"),
        (2.0, {"batch": 64, "step": 1e-3}, "the gradient of a batch is then biased"),
    ],
)
def test_a_point_that_batches_cannot_find_is_said_to_be_bad(factor, options, says):
    loss, domain = diabetes(factor)
    with pytest.warns(ce.ReliabilityWarning, match=says):
        found = ce.minimize(loss, ce.Entropic(1.0), domain=domain, method="sg", iterations=3000, rng=0, **options)
    assert found.value > 1.05 * {2.0: 7.2512449, 3.0: 20.798649}[factor]
    (warning,) = found.warnings
    assert f"of a batch of {options['batch']} on average" in warning
    assert "Use a larger batch=" in warning
    assert warning in repr(found)


def gaussian(rng, m):
    return np.array([0.3, 0.0, -0.2]) + rng.normal(size=(m, 3)) * [1.0, 1.5, 2.0]


@pytest.mark.filterwarnings("ignore::certeq.ReliabilityWarning")
def test_nothing_is_said_against_a_certified_point_or_a_risk_that_most_samples_carry():
    A = np.random.default_rng(0).normal(size=(200, 3))

    def warned(loss, utility, batch, **more):
        some = {"average": "weighted", "iterations": 2000, "rng": 0} | more
        return minimize_sg(loss, utility, domain=ce.Simplex(), batch=batch, **some).warnings

    assert warned(ce.LinearLoss(A), ce.Entropic(3.0), 150) == ()
    assert warned(ce.LinearLoss(A), ce.Mean(), 1) == ()
    assert warned(ce.LinearLoss(A + 1e3), ce.CVaR(0.1), 8) == ()
    assert warned(ce.LinearLoss(A), ce.CVaR(0.1), 8) != ()
    # Of a stream the last batch tells.
    stream = {"samples": gaussian, "theta0": np.full(3, 1 / 3), "iterations": 20, "average": None}
    assert warned(ce.LinearLoss(), ce.CVaR(0.1), 64, **stream) == ()
    (warning,) = warned(ce.LinearLoss(), ce.CVaR(0.1), 8, **stream)
    assert warning.endswith("Use a larger batch=.")


# -- hard starts and units --------------------------------------------------------------------------------------------


def test_a_run_that_leaves_for_infinity_comes_back():
    # exp of squares: a step too long multiplies the gradient by e^1000.
    X, y = load_breast_cancer(return_X_y=True)
    loss = ce.SquaredLoss(standardized(X), 2.0 * y - 1.0)
    best = ce.minimize(loss, ce.Entropic(1.0), domain=ce.Free(), method="lbfgs").value
    for seed in range(2):
        found = minimize_sg(loss, ce.Entropic(1.0), domain=ce.Free(), batch=64, iterations=3000, rng=seed)
        assert found.value <= 1.01 * best


@pytest.mark.parametrize("n, seeds", [(256, 12), pytest.param(1024, 20, marks=pytest.mark.slow)])
def test_of_a_stream_the_error_is_nearly_that_of_the_exact_solution_of_the_same_samples(n, seeds):
    mean, curvature = np.array([0.3, 0.0, -0.2]), 0.5 * np.array([1.0, 2.25, 4.0])
    star = ((1.0 + (mean / curvature).sum()) / (1.0 / curvature).sum() - mean) / curvature
    settings, ours, exact = {"domain": ce.Simplex()}, [], []
    for seed in range(seeds):
        stream = {"samples": gaussian, "theta0": np.full(3, 1 / 3), "iterations": n, "rng": seed, "log_every": n}
        found = minimize_sg(ce.LinearLoss(), ce.Entropic(0.5), **stream, **settings)
        rng = np.random.default_rng(seed)
        A = np.vstack([gaussian(rng, k) for k in range(1, n + 1)])
        same = ce.minimize(ce.LinearLoss(A), ce.Entropic(0.5), method="exact", **settings)
        ours.append(np.sum(np.square(found.theta - star)))
        exact.append(np.sum(np.square(same.theta - star)))
    assert np.mean(ours) <= 2.0 * np.mean(exact)


@pytest.mark.filterwarnings("ignore::certeq.ReliabilityWarning")
@pytest.mark.parametrize("batch", [16, "full", None])
@pytest.mark.parametrize("utility", [ce.CVaR(0.2), ce.MeanVariance(1.0), ce.SmoothCVaR(0.2)], ids=repr)
def test_the_unit_of_the_losses_does_not_matter(batch, utility):
    """Steps are a distance over gradients: with losses and utility in another unit the iterates are the same."""
    A = np.random.default_rng(0).normal(size=(100, 4))
    scaled = utility if utility.kinks else utility.scaled(1024.0)
    run = lambda A, u: minimize_sg(ce.LinearLoss(A), u, domain=ce.Simplex(), batch=batch, iterations=60, rng=0).theta
    np.testing.assert_allclose(run(A, utility), run(1024.0 * A, scaled), rtol=1e-9, atol=1e-12)


def test_full_batches_are_accelerated():
    loss, domain = breast_cancer()
    best, values = OPTIMA["breast_cancer", "Entropic"], {}
    for average in (None, "weighted"):
        options = {"batch": "full", "iterations": 1500, "average": average, "log_every": 1500}
        values[average] = minimize_sg(loss, ce.Entropic(1.0), domain=domain, **options).value / best - 1.0
    assert values[None] < 1e-3 < values["weighted"]


@pytest.mark.parametrize("domain", [ce.Free(), ce.NonNegative(), ce.Box(-40.0, 40.0)], ids=repr)
@pytest.mark.parametrize("spread", [1.0, 1e-4])
def test_flat_and_steep_directions_come_equally_near(spread, domain):
    """A quadratic whose axes are not the coordinates, as the squared error of as many samples as columns."""
    turn = np.linalg.qr(np.random.default_rng(3).normal(size=(6, 6)))[0]
    X = np.sqrt(np.geomspace(1.0, spread, 6))[:, None] * turn
    loss = ce.SquaredLoss(X, X @ (turn.T @ np.array([1.0, -2.0, 3.0, -4.0, 5.0, -6.0])))
    found = minimize_sg(loss, ce.Mean(), domain=domain, batch="full", iterations=500, rng=0, log_every=500)
    best = ce.minimize(loss, ce.Mean(), domain=domain, method="lbfgs", iterations=5000, tol=1e-12)
    start = Objective(loss, ce.Mean()).evaluate(np.zeros(6)).value
    assert found.value - best.value <= 1e-6 * start
    if isinstance(domain, ce.Free):
        np.testing.assert_allclose(found.theta, best.theta, atol=1e-3)


@pytest.mark.filterwarnings("ignore::certeq.ReliabilityWarning")
def test_equal_losses_at_the_start_are_no_trap():
    """At theta = 0 all logistic losses are ln 2, and the tail of CVaR is anything; the first passes may go up."""
    X, y = load_breast_cancer(return_X_y=True)
    columns = standardized(X) @ np.linalg.svd(standardized(X))[2].T / np.linalg.svd(standardized(X))[1]
    loss = ce.LogisticLoss(columns * math.sqrt(len(y)), 2.0 * y - 1.0)
    for seed in range(3):
        found = minimize_sg(loss, ce.CVaR(0.1), domain=ce.Free(), batch=64, iterations=1000, rng=seed, log_every=1000)
        assert found.value < 0.4


@pytest.mark.filterwarnings("ignore::certeq.ReliabilityWarning")
def test_short_runs_flat_losses_and_many_columns():
    loss, domain = breast_cancer()
    found = minimize_sg(loss, ce.Entropic(1.0), domain=domain, iterations=20, rng=0)
    assert found.value < 0.9 * Objective(loss, ce.Entropic(1.0)).evaluate(np.zeros(30)).value
    for options in ({"batch": 4}, {"batch": 4, "average": "mean"}, {"batch": "full"}, {"regime": "nonconvex"}):
        found = minimize_sg(ce.LinearLoss(np.zeros((9, 3))), ce.CVaR(0.5), domain=ce.Simplex(), iterations=5, **options)
        np.testing.assert_allclose(found.theta, np.full(3, 1 / 3), rtol=1e-12)
    rng = np.random.default_rng(0)
    wide = ce.SquaredLoss(rng.normal(size=(50, 300)), rng.normal(size=50))  # too many for rotated axes
    found = minimize_sg(wide, ce.Mean(), domain=ce.Free(), batch="full", iterations=300, log_every=300)
    assert found.value <= 1e-3 * Objective(wide, ce.Mean()).evaluate(np.zeros(300)).value


def test_a_batch_that_knows_no_risk_does_not_lead_far_away():
    # The first batches are smaller than theta, and their mean-variance has no minimum.
    sampler = lambda rng, m: 0.5 + rng.normal(size=(m, 6))
    for seed in range(4):
        stream = {"samples": sampler, "theta0": np.zeros(6), "iterations": 200, "rng": seed, "log_every": 200}
        found = minimize_sg(ce.LinearLoss(), ce.MeanVariance(1.0), domain=ce.Free(), **stream)
        np.testing.assert_allclose(found.theta, np.full(6, -0.25), atol=0.05)

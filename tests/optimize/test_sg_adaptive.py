"""Steps that need no constants: how near they come to the optimum, and that nothing but the problem decides them."""

import math

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes

import certeq as ce
from certeq.optimize.losses import Objective
from certeq.optimize.sg import minimize_sg
from certeq.optimize.sg._accelerated import AcceleratedSteps, Correction, accelerated_steps, principal_axes
from certeq.optimize.sg._adaptive import DistanceSteps
from certeq.optimize.sg._checkpoint import Damaged
from certeq.optimize.sg._importance import ImportanceOdds, effective_part
from certeq.optimize.sg._warm import WarmTilt

UTILITIES = {"CVaR": ce.CVaR(0.1), "Entropic": ce.Entropic(1.0), "MMV": ce.MonotoneMeanVariance(2)}


def standardized(columns):
    return (columns - columns.mean(axis=0)) / columns.std(axis=0)


def diabetes():
    X, y = load_diabetes(return_X_y=True)
    return ce.SquaredLoss(standardized(X), standardized(y)), ce.Free()


def scaled_diabetes(factor):
    X, y = load_diabetes(return_X_y=True)
    return ce.SquaredLoss(standardized(X), factor * standardized(y)), ce.Free()


def raw_diabetes(intercept=True):
    X, y = load_diabetes(return_X_y=True)
    X = np.column_stack([standardized(X), np.ones(len(X))]) if intercept else standardized(X)
    return ce.SquaredLoss(X, y), ce.Free()


def breast_cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return ce.LogisticLoss(standardized(X), 2.0 * y - 1.0), ce.Box(-2.0, 2.0)


def breast_cancer_without_bounds():  # the optimum is 300 to 425 away, along columns that are nearly collinear
    return breast_cancer()[0], ce.Free()


TASKS = {"diabetes": diabetes, "breast_cancer": breast_cancer, "breast_cancer_free": breast_cancer_without_bounds}
# CVaR's by an interior-point solver (without bounds to six digits), the others by L-BFGS, to eight digits.
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


@pytest.mark.parametrize("task", OPTIMA, ids="-".join)
def test_five_thousand_batches_of_64_come_within_one_percent(task):
    loss, domain = TASKS[task[0]]()
    utility, best = UTILITIES[task[1]], OPTIMA[task]
    if not utility.kinks:
        smooth = ce.minimize(loss, utility, domain=domain, method="lbfgs", iterations=10_000, tol=1e-9)
        assert smooth.value == pytest.approx(best, rel=1e-7)
    found = minimize_sg(loss, utility, domain=domain, batch=64, iterations=5000, rng=0, log_every=5000)
    assert best * (1.0 - 1e-6) <= found.value <= 1.01 * best
    assert found.value == pytest.approx(Objective(loss, utility).evaluate(found.theta).value, rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("task", OPTIMA, ids="-".join)
def test_so_they_do_with_every_seed(task):
    loss, domain = TASKS[task[0]]()
    for seed in range(10):
        options = {"batch": 64, "iterations": 5000, "rng": seed, "log_every": 5000}
        found = minimize_sg(loss, UTILITIES[task[1]], domain=domain, **options)
        assert found.value <= 1.01 * OPTIMA[task]
        assert found.warnings == ()


# The unit of y decides how many samples carry the risk: of 442, 168 under Entropic of the standardized y, 9 of twice
# that, 6 to 7 of the raw y. A batch of 64 that is drawn evenly holds one of those on average.
FEW_CARRIERS = {
    "twice": (lambda: scaled_diabetes(2.0), "Entropic", 7.2512449),
    "three times": (lambda: scaled_diabetes(3.0), "Entropic", 20.798649),
    "raw": (raw_diabetes, "Entropic", 15817.01),
    "raw, MMV": (raw_diabetes, "MMV", 15784.68),
    "raw, no intercept": (lambda: raw_diabetes(False), "Entropic", 74221.97),
    "raw, no intercept, MMV": (lambda: raw_diabetes(False), "MMV", 74194.4),
}


def check_few_carriers(name, seeds):
    make, utility, best = FEW_CARRIERS[name]
    loss, domain = make()
    exact = ce.minimize(loss, UTILITIES[utility], domain=domain, method="lbfgs", iterations=50_000, tol=1e-9)
    assert exact.value == pytest.approx(best, rel=1e-4)
    for seed in seeds:
        options = {"batch": 64, "iterations": 5000, "rng": seed, "log_every": 5000}
        found = minimize_sg(loss, UTILITIES[utility], domain=domain, **options)
        assert found.value <= 1.01 * exact.value
        assert found.warnings == ()


@pytest.mark.parametrize("name", ["twice", "raw", "raw, MMV"])
def test_batches_find_the_few_samples_that_carry_the_risk(name):
    check_few_carriers(name, range(2))


@pytest.mark.slow
@pytest.mark.parametrize("name", FEW_CARRIERS)
def test_so_they_find_them_with_every_seed(name):
    check_few_carriers(name, range(10))


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
    loss, domain = scaled_diabetes(factor)
    best = {2.0: 7.2512449, 3.0: 20.798649}[factor]
    with pytest.warns(ce.ReliabilityWarning, match=says):
        found = ce.minimize(loss, ce.Entropic(1.0), domain=domain, method="sg", iterations=3000, rng=0, **options)
    assert found.value > 1.05 * best
    (warning,) = found.warnings
    assert f"of a batch of {options['batch']} on average" in warning
    assert "Use a larger batch=" in warning
    assert warning in repr(found)


@pytest.mark.filterwarnings("ignore::certeq.ReliabilityWarning")
def test_nothing_is_said_against_a_point_that_the_gap_certifies_or_a_risk_that_most_samples_carry():
    A = np.random.default_rng(0).normal(size=(200, 3))
    loss, some = ce.LinearLoss(A), {"average": "weighted", "iterations": 2000, "rng": 0}
    good = minimize_sg(loss, ce.Entropic(3.0), domain=ce.Simplex(), batch=150, **some)
    assert good.warnings == ()
    neutral = minimize_sg(loss, ce.Mean(), domain=ce.Simplex(), batch=1, **some)
    assert neutral.warnings == ()
    assert minimize_sg(ce.LinearLoss(A + 1e3), ce.CVaR(0.1), domain=ce.Simplex(), batch=8, **some).warnings == ()
    assert minimize_sg(ce.LinearLoss(A), ce.CVaR(0.1), domain=ce.Simplex(), batch=8, **some).warnings != ()


@pytest.mark.filterwarnings("ignore::certeq.ReliabilityWarning")
def test_of_a_stream_the_last_batch_tells():
    run = lambda m: minimize_sg(
        ce.LinearLoss(), ce.CVaR(0.1), domain=ce.Simplex(), samples=gaussian, theta0=np.full(3, 1 / 3), batch=m,
        iterations=20, rng=0,
    )  # fmt: skip
    assert run(64).warnings == ()
    (warning,) = run(8).warnings
    assert warning.endswith("Use a larger batch=.")


@pytest.mark.parametrize("shares", [None, np.array([0.4, 0.0, 0.1, 0.2, 0.3])], ids=["equal", "weights"])
def test_importance_odds_stand_for_the_whole_set(shares):
    odds = ImportanceOdds(5, shares)
    assert not odds.needed
    odds.learn(np.array([0.0, 0.0, 0.97, 0.0, 0.03]))
    assert odds.needed
    assert odds.ratio.max() <= 4.0
    probability = np.diff(odds.cumulative, prepend=0.0)
    own = np.full(5, 0.2) if shares is None else shares
    np.testing.assert_allclose(probability * odds.ratio, own, rtol=1e-12)
    index, weights = odds.draw(np.random.default_rng(0), 40_000)
    assert weights.sum() == pytest.approx(1.0)
    assert np.mean(index == 2) == pytest.approx(probability[2], abs=0.01)
    np.testing.assert_allclose(np.bincount(index, weights, minlength=5), own, atol=0.01)
    again = ImportanceOdds(5, shares)
    again.restore(odds.state())
    np.testing.assert_array_equal(again.cumulative, odds.cumulative)
    for wrong in ({}, {"tilt": np.zeros(4)}, {"tilt": np.full(5, np.nan)}, {"tilt": np.full(5, -1.0)}):
        with pytest.raises(Damaged, match="the odds of its samples"):
            again.restore(wrong)


def test_odds_stay_even_where_many_samples_carry_the_risk():
    odds = ImportanceOdds(8, None)
    odds.learn(np.array([0.3, 0.2, 0.2, 0.1, 0.1, 0.1, 0.0, 0.0]))
    assert not odds.needed
    assert effective_part(np.full(8, 0.125), None) == pytest.approx(1.0)
    shares = np.array([0.5, 0.5, 0.0])
    assert effective_part(np.array([1.0, 0.0, 0.0]), shares) == pytest.approx(0.5)


@pytest.mark.parametrize(
    "utility", [ce.CVaR(0.1), ce.CVaR(0.4), 0.3 * ce.Mean() + 0.7 * ce.CVaR(0.2), ce.SmoothCVaR(0.2), ce.Entropic(2.0)],
    ids=repr,
)  # fmt: skip
@pytest.mark.parametrize("ties", [False, True])
def test_the_tilt_of_a_batch_with_weights_is_exact(utility, ties):
    rng = np.random.default_rng(1)
    engine = WarmTilt(utility)
    for size in (1, 2, 30):
        z = rng.normal(size=size)
        z = np.round(z) if ties else z
        weights = rng.random(size) + 0.01
        weights /= weights.sum()
        with np.errstate(all="ignore"):
            q, mass = engine.weigh(z, False, weights)
            assert math.isnan(engine.weigh(np.full(size, np.nan), False, weights)[1])
        np.testing.assert_allclose(q / mass, ce.tilt(z, utility, weights), atol=1e-9)


@pytest.mark.parametrize("utility", UTILITIES.values(), ids=UTILITIES)
@pytest.mark.parametrize("factor", [1.0, 2.0])
@pytest.mark.filterwarnings("ignore::certeq.ReliabilityWarning")
def test_a_run_along_principal_axes_with_importance_odds_is_resumed_bitwise(tmp_path, utility, factor):
    loss, domain = scaled_diabetes(factor)
    options = {"domain": domain, "batch": 64, "rng": 0, "log_every": 50}
    whole = minimize_sg(loss, utility, iterations=200, **options)
    path = tmp_path / "run.npz"
    minimize_sg(loss, utility, iterations=103, checkpoint=path, **options)
    resumed = minimize_sg(loss, utility, iterations=200, checkpoint=path, **options)
    assert resumed.theta.tobytes() == whole.theta.tobytes()
    assert resumed.warnings == whole.warnings


def test_a_run_that_leaves_for_infinity_comes_back():
    # exp of squares: a step too long multiplies the gradient by e^1000.
    X, y = load_breast_cancer(return_X_y=True)
    loss = ce.SquaredLoss(standardized(X), 2.0 * y - 1.0)
    best = ce.minimize(loss, ce.Entropic(1.0), domain=ce.Free(), method="lbfgs").value
    for seed in range(2):
        found = minimize_sg(loss, ce.Entropic(1.0), domain=ce.Free(), batch=64, iterations=3000, rng=seed)
        assert found.value <= 1.01 * best


def gaussian(rng, m):
    return np.array([0.3, 0.0, -0.2]) + rng.normal(size=(m, 3)) * [1.0, 1.5, 2.0]


@pytest.mark.parametrize("n, seeds", [(256, 12), pytest.param(1024, 20, marks=pytest.mark.slow)])
def test_of_a_stream_the_error_is_nearly_that_of_the_exact_solution_of_the_same_samples(n, seeds):
    curvature = 0.5 * np.array([1.0, 2.25, 4.0])
    level = (1.0 + (np.array([0.3, 0.0, -0.2]) / curvature).sum()) / (1.0 / curvature).sum()
    star = (level - np.array([0.3, 0.0, -0.2])) / curvature
    ours, exact = [], []
    for seed in range(seeds):
        found = minimize_sg(
            ce.LinearLoss(), ce.Entropic(0.5), domain=ce.Simplex(), samples=gaussian, theta0=np.full(3, 1 / 3),
            iterations=n, rng=seed, log_every=n,
        )  # fmt: skip
        rng = np.random.default_rng(seed)
        A = np.vstack([gaussian(rng, k) for k in range(1, n + 1)])
        same = ce.minimize(ce.LinearLoss(A), ce.Entropic(0.5), domain=ce.Simplex(), method="exact")
        ours.append(np.sum(np.square(found.theta - star)))
        exact.append(np.sum(np.square(same.theta - star)))
    assert np.mean(ours) <= 2.0 * np.mean(exact)


@pytest.mark.parametrize("batch", [16, "full", None])
@pytest.mark.parametrize("utility", [ce.CVaR(0.2), ce.MeanVariance(1.0), ce.SmoothCVaR(0.2)], ids=repr)
def test_a_unit_of_the_losses_is_no_matter(batch, utility):
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


def bowl(eigenvalues, center):
    """A quadratic whose axes are not the coordinates, as the squared error of as many samples as columns."""
    turn = np.linalg.qr(np.random.default_rng(3).normal(size=(len(center), len(center))))[0]
    X = np.sqrt(eigenvalues)[:, None] * turn
    return ce.SquaredLoss(X, X @ (turn.T @ center)), turn.T @ center


@pytest.mark.parametrize("domain", [ce.Free(), ce.NonNegative(), ce.Box(-40.0, 40.0)], ids=repr)
def test_the_bound_of_theorem_5_holds_along_the_way(domain):
    """Value less minimum <= 4 sum_j D_j^2/r_1j sqrt(S_nj)/W_n, with the distances that were met."""
    loss = bowl(np.geomspace(1.0, 1e-4, 6), np.full(6, 3.0))[0]
    least = ce.minimize(loss, ce.Mean(), domain=domain, method="lbfgs", iterations=5000, tol=1e-12)
    objective, project = Objective(loss, ce.Mean()), domain._stepper()
    steps = accelerated_steps(np.zeros(6), domain, loss, loss.samples)
    first, farthest, theta = steps.distance, np.zeros(np.size(steps.widths)), np.zeros(6)
    for k in range(1, 400):
        reached, mass = objective.evaluate(theta), k * (k + 1) * (2 * k + 1) / 6
        theta = steps.move(k, theta, reached.gradient, project)
        farthest = np.maximum(farthest, steps._sizes(steps.base - least.theta))
        farthest = np.maximum(farthest, np.maximum(steps.distance, 2.0 * steps._sizes(theta - least.theta)))
        bound = 4.0 / mass * np.sum(farthest**2 / first * np.sqrt(steps.total))
        assert reached.value - least.value <= bound
    assert reached.value - least.value < 1e-2 * objective.evaluate(np.zeros(6)).value


@pytest.mark.parametrize("spread", [1.0, 1e-4])
def test_directions_forget_how_unlike_they_are(spread):
    """Along principal axes, with lengths of their own, flat and steep directions come equally near."""
    loss, best = bowl(np.geomspace(1.0, spread, 6), np.array([1.0, -2.0, 3.0, -4.0, 5.0, -6.0]))
    found = minimize_sg(loss, ce.Mean(), domain=ce.Free(), batch="full", iterations=500, rng=0, log_every=500)
    np.testing.assert_allclose(found.theta, best, atol=1e-3)


@pytest.mark.filterwarnings("ignore::certeq.ReliabilityWarning")
def test_equal_losses_at_the_start_are_no_trap():
    """At theta = 0 all logistic losses are ln 2, and the tail of CVaR is anything; the first passes may go up."""
    X, y = load_breast_cancer(return_X_y=True)
    columns = standardized(X) @ np.linalg.svd(standardized(X))[2].T / np.linalg.svd(standardized(X))[1]
    loss = ce.LogisticLoss(columns * math.sqrt(len(y)), 2.0 * y - 1.0)
    for seed in range(3):
        found = minimize_sg(loss, ce.CVaR(0.1), domain=ce.Free(), batch=64, iterations=1000, rng=seed, log_every=1000)
        assert found.value < 0.4


def test_many_columns_have_no_rotated_axes():
    rng = np.random.default_rng(0)
    wide = ce.SquaredLoss(rng.normal(size=(50, 300)), rng.normal(size=50))
    narrow = ce.SquaredLoss(rng.normal(size=(5, 30)), rng.normal(size=5))
    assert principal_axes(wide, wide.samples) is None
    axes = principal_axes(narrow, narrow.samples)
    np.testing.assert_allclose(axes.T @ axes, np.eye(30), atol=1e-12)
    assert principal_axes(ce.CallableLoss(lambda theta, xi: None, samples=np.zeros((4, 2))), np.zeros((4, 2))) is None


def test_a_short_run_does_not_return_its_start():
    loss, domain = breast_cancer()
    found = minimize_sg(loss, ce.Entropic(1.0), domain=domain, iterations=20, rng=0)
    assert found.value < 0.9 * Objective(loss, ce.Entropic(1.0)).evaluate(np.zeros(30)).value


def test_a_batch_that_knows_no_risk_does_not_lead_far_away():
    # The first batches are smaller than theta, and their mean-variance has no minimum.
    sampler = lambda rng, m: 0.5 + rng.normal(size=(m, 6))
    for seed in range(4):
        found = minimize_sg(
            ce.LinearLoss(), ce.MeanVariance(1.0), domain=ce.Free(), samples=sampler, theta0=np.zeros(6),
            iterations=200, rng=seed, log_every=200,
        )  # fmt: skip
        np.testing.assert_allclose(found.theta, np.full(6, -0.25), atol=0.05)


def test_a_flat_loss_stays_where_it_is():
    for options in ({"batch": 4}, {"batch": 4, "average": "mean"}, {"batch": "full"}, {"regime": "nonconvex"}):
        found = minimize_sg(ce.LinearLoss(np.zeros((9, 3))), ce.CVaR(0.5), domain=ce.Simplex(), iterations=5, **options)
        np.testing.assert_allclose(found.theta, np.full(3, 1 / 3), rtol=1e-12)


def test_the_distance_is_bounded_by_the_diameter():
    steps = DistanceSteps(np.zeros(2), 3.0, 2)
    assert steps.distance == pytest.approx(0.3)
    for k in range(1, 50):
        steps.move(k, np.zeros(2), np.array([1.0, 0.0]), lambda x, before: 1e3 * x)
    assert steps.distance == 3.0
    assert DistanceSteps(np.array([3.0, 4.0]), math.inf, 0).distance == pytest.approx(0.06)


@pytest.mark.parametrize(
    "steps", [DistanceSteps(np.zeros(2), math.inf, 2), AcceleratedSteps(np.zeros(2), np.full(2, math.inf), np.eye(2))]
)
def test_steps_that_no_run_has_written_are_refused(steps):
    good = steps.state()
    steps.restore(good)
    for change in (
        {"numbers": good["numbers"][:1]},
        {"numbers": -good["numbers"]},
        {"numbers": good["numbers"] * np.nan},
    ):
        with pytest.raises(Damaged, match="the state of its steps"):
            steps.restore(good | change)
    correction = Correction(5, 2)
    correction.restore(correction.state())
    with pytest.raises(Damaged, match="the state of its correction"):
        correction.restore(correction.state() | {"points": np.full((4, 2), np.nan)})
    with pytest.raises(Damaged, match="the state of its correction"):
        correction.restore({})

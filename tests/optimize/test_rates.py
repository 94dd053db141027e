"""The rates of docs/theory/rates.rst, seen: slopes of error against n and m on logarithmic axes, seeds fixed."""

import numpy as np
import pytest

import certeq as ce
from certeq.optimize.losses import CallableLoss, LinearLoss, Objective
from certeq.optimize.sg import inverse, minimize_sg

# Entropic risk of Gaussian losses is mean + beta/2 variance, so everything below has a closed form.
DEVIATIONS, MEAN, BETA = np.array([1.0, 1.5, 2.0]), np.array([0.3, 0.0, -0.2]), 0.5
CURVATURE = BETA * DEVIATIONS**2
# The minimizer over the simplex is interior: mean + curvature * theta = level.
STAR = ((1.0 + (MEAN / CURVATURE).sum()) / (1.0 / CURVATURE).sum() - MEAN) / CURVATURE


def gaussian(rng, m):
    return MEAN + rng.normal(size=(m, 3)) * DEVIATIONS


def slope(n, error):
    return np.polyfit(np.log(n), np.log(error), 1)[0]


def iterates(horizon, runs, domain=None, theta0=1 / 3, loss=None, samples=gaussian, **options):
    """Return what runs with these seeds would return after each number of iterations."""
    found = np.zeros((runs, len(horizon), np.size(theta0) if np.ndim(theta0) else 3))
    for seed in range(runs):
        seen = {}
        minimize_sg(
            loss or LinearLoss(), ce.Entropic(BETA), domain=domain or ce.Simplex(), samples=samples,
            theta0=np.broadcast_to(theta0, found.shape[-1:]), iterations=horizon[-1], rng=seed, log_every=horizon[0],
            callback=lambda at, seen=seen: seen.update({at.iteration: at.theta.copy()}), **options,
        )  # fmt: skip
        found[seed] = [seen[n] for n in horizon]
    return found


@pytest.mark.parametrize(
    "horizon, runs, options, expected",
    [
        # mu = 0.5 along the simplex at least, L = 2: c > 1/mu and k0 >= c L. Batches grow, so samples are n^2.
        ([32, 64, 128, 256], 30, {"step": inverse(2.2, 4.4), "average": "last", "batch": "growing"}, -2.0),
        ([64, 128, 256, 512], 30, {}, -2.0),  # the default
        # The gradient at the optimum is level 1, not 0: the printed theorem would not apply.
        pytest.param([32, 64, 128, 256, 512, 1024], 60, {"step": 0.5}, -1.0, marks=pytest.mark.slow),
    ],
)
def test_squared_errors_fall_as_one_over_samples(horizon, runs, options, expected):
    regime = {"regime": "strongly_convex"} if options else {}
    errors = np.square(iterates(horizon, runs, **regime, **options) - STAR).sum(axis=2)
    assert slope(horizon, errors.mean(axis=0)) == pytest.approx(expected, abs=0.3)


@pytest.mark.parametrize("domain", [ce.Free(), ce.Ball(2.0)], ids=repr)
def test_default_steps_are_as_good_if_the_gradient_vanishes_at_the_optimum(domain):
    # Theorem 3b proves a slope of -1 on the ball, and nothing beforehand without it; about -2 is measured.
    risk = lambda theta: theta @ MEAN + 0.5 * np.square(theta) @ CURVATURE
    horizon, star = [64, 128, 256], -MEAN / CURVATURE
    errors = risk(iterates(horizon, 10, domain, 0.5)) - risk(star)
    assert slope(horizon, errors.mean(axis=0)) < -1.5


def test_a_drift_hidden_in_noise_costs_one_over_sqrt_n():
    # No method does better: the sign of a drift of 1/sqrt(n) is not to be told from n samples.
    horizon, runs, errors = [64, 256, 1024], 40, []
    for n in horizon:
        drift = n**-0.5
        sampler = lambda rng, m, drift=drift: drift + rng.normal(size=(m, 1))
        ends = [
            minimize_sg(
                LinearLoss(), ce.Mean(), domain=ce.Box(-1.0, 1.0), samples=sampler, theta0=np.zeros(1), batch=1,
                iterations=n, rng=seed, log_every=n,
            ).theta[0]
            for seed in range(runs)
        ]  # fmt: skip
        errors.append(drift * (1.0 + np.mean(ends)))
    assert slope(horizon, errors) == pytest.approx(-0.5, abs=0.15)


def well(theta, xi):
    """Return a bounded, non-convex loss, 1 - exp(-|theta - xi|^2 / 2)."""
    gap = theta - xi
    rest = np.exp(-0.5 * np.square(gap).sum(axis=1))
    return 1.0 - rest, rest[:, None] * gap


@pytest.mark.parametrize("options", [{}, {"regime": "nonconvex", "step": 1.0 / (1.0 + BETA * np.exp(-1.0))}], ids=repr)
def test_the_least_gradient_on_a_well_keeps_the_promise(options):
    # Promised is O(ln n/sqrt(n)) for the least gradient so far; no instance is known on which it is no better.
    cloud = lambda rng, m: 0.5 * rng.normal(size=(m, 2))
    judge = Objective(CallableLoss(well, samples=cloud(np.random.default_rng(99), 20_000)), ce.Entropic(BETA))
    horizon = [16, 32, 64, 128, 256]
    loss = CallableLoss(well, smoothness=1.0, lipschitz=np.exp(-0.5)) if options else CallableLoss(well)
    paths = iterates(horizon, 8, ce.Free(), np.array([1.5, -1.0]), loss, cloud, **options)
    norms = [[np.linalg.norm(judge.evaluate(theta).gradient) for theta in path] for path in paths]
    assert slope(horizon, np.mean(np.minimum.accumulate(norms, axis=1), axis=0)) < -0.4


def test_full_batches_are_at_least_as_fast_as_promised():
    loss, horizon = LinearLoss(gaussian(np.random.default_rng(0), 200)), [25, 50, 100, 200]
    best = ce.minimize(loss, ce.Entropic(BETA), domain=ce.Simplex(), method="exact").value
    run = lambda n: minimize_sg(loss, ce.Entropic(BETA), domain=ce.Simplex(), batch="full", iterations=n).value - best
    assert slope(horizon, [run(n) + 1e-15 for n in horizon]) <= -1.5


def test_a_kinked_objective_shows_the_square_root():
    # OCE = abs(theta) with steps 1/sqrt(k): the mean of theta_{k-1} oscillates at the rate the bound allows.
    def distance(theta, xi):
        return np.full(len(xi), abs(theta[0])), np.full((len(xi), 1), np.sign(theta[0] or 1.0))

    loss, horizon, errors = (
        CallableLoss(distance, samples=np.zeros((1, 1)), convex=True),
        [2**k for k in range(6, 12)],
        [],
    )
    for n in horizon:
        settings = {"batch": "full", "step": lambda k: 1.0 / np.sqrt(k), "average": "weighted", "log_every": n}
        errors.append(minimize_sg(loss, ce.Mean(), domain=ce.Free(), theta0=[3.0], iterations=n, **settings).value)
        sums = np.arange(1, n + 1)
        assert errors[-1] <= (9.0 / 2 + 0.5 * (1.0 / sums).sum()) / (1.0 / np.sqrt(sums)).sum()
    assert -1.2 < slope(horizon, errors) < -0.4


@pytest.mark.slow
@pytest.mark.parametrize("utility", [ce.Entropic(BETA), ce.MonotoneMeanVariance(2), ce.CVaR(0.25)], ids=repr)
def test_gradients_of_batches_have_errors_and_biases_of_one_over_m(utility):
    theta, rng, sizes, errors, biases = np.array([0.5, 0.3, 0.2]), np.random.default_rng(17), [16, 32, 64, 128], [], []
    truth = Objective(LinearLoss(), utility, gaussian(np.random.default_rng(5), 4_000_000)).evaluate(theta).gradient
    if utility == ce.Entropic(BETA):
        truth = MEAN + CURVATURE * theta
    for m in sizes:
        total, square, runs = np.zeros(3), 0.0, 1000 * (125_000 // m // 1000 + 1)
        for _ in range(runs // 1000):
            batch = MEAN + rng.normal(size=(1000, m, 3)) * DEVIATIONS
            # The antithetic batch has the same law; their mean has the same bias and less noise.
            g, h = (np.einsum("ij,ijk->ik", ce.tilt(x @ theta, utility, axis=1), x) for x in (batch, 2 * MEAN - batch))
            total += (0.5 * (g + h) - truth).sum(axis=0)
            square += 0.5 * (np.square(g - truth).sum() + np.square(h - truth).sum())
        errors.append(square / runs)
        biases.append(np.linalg.norm(total / runs))
    assert slope(sizes, errors) == pytest.approx(-1.0, abs=0.15)
    assert slope(sizes, biases) == pytest.approx(-1.0, abs=0.35)

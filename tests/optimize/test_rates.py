"""The rates of the corrected theory, seen: slopes of error against n and m on logarithmic axes, seeds fixed."""

import numpy as np
import pytest

import certeq as ce
from certeq.optimize.domains import Ball, Box, Free, Simplex
from certeq.optimize.losses import CallableLoss, LinearLoss, Objective
from certeq.optimize.sg import inverse, minimize_sg

# Entropic risk of Gaussian losses is mean + beta/2 variance, so everything below has a closed form.
DEVIATIONS = np.array([1.0, 1.5, 2.0])
MEAN = np.array([0.3, 0.0, -0.2])
BETA = 0.5


def gaussian(rng, m):
    return MEAN + rng.normal(size=(m, 3)) * DEVIATIONS


def optimum():
    """The minimizer over the simplex, interior here: mean + beta S theta = lambda 1."""
    S = BETA * DEVIATIONS**2
    lam = (1.0 + (MEAN / S).sum()) / (1.0 / S).sum()
    theta = (lam - MEAN) / S
    assert theta.min() > 0
    return theta


def risk(theta):
    return MEAN @ theta + 0.5 * BETA * (DEVIATIONS**2) @ theta**2


def slope(n, error):
    return np.polyfit(np.log(n), np.log(error), 1)[0]


@pytest.mark.slow
def test_strongly_convex_squared_error_falls_as_one_over_n():
    # The gradient at the optimum is lambda 1, not 0: the printed theorem would not apply.
    horizon, runs = [32, 64, 128, 256, 512, 1024], 60
    L = BETA * DEVIATIONS.max() ** 2
    star, errors = optimum(), np.zeros((runs, len(horizon)))
    for seed in range(runs):
        iterates = {}
        minimize_sg(
            LinearLoss(), ce.Entropic(BETA), domain=Simplex(), samples=gaussian, theta0=np.full(3, 1 / 3),
            regime="strongly_convex", step=1.0 / L, iterations=horizon[-1], rng=seed, log_every=32,
            callback=lambda at, seen=iterates: seen.update({at.iteration: at.theta.copy()}),
        )  # fmt: skip
        errors[seed] = [np.sum((iterates[n] - star) ** 2) for n in horizon]
    assert slope(horizon, errors.mean(axis=0)) == pytest.approx(-1.0, abs=0.2)


@pytest.mark.slow
@pytest.mark.parametrize("utility", [ce.CVaR(0.2), ce.Entropic(BETA)], ids=repr)
def test_convex_suboptimality_falls_at_least_as_one_over_sqrt_n(utility):
    # CVaR of a Gaussian portfolio is mean + c * deviation: not smooth, not strongly convex in this direction.
    from scipy.optimize import minimize_scalar
    from scipy.stats import norm

    deviations, horizon, runs = np.array([1.0, 1.2]), [64, 128, 256, 512, 1024, 2048], 40
    tail = norm.pdf(norm.isf(0.2)) / 0.2

    def value(theta):
        deviation = np.sqrt(((deviations * theta) ** 2).sum())
        return tail * deviation if utility.kinks else 0.5 * BETA * deviation**2

    best = minimize_scalar(lambda a: value(np.array([a, 1 - a])), bounds=(0, 1), method="bounded").fun
    errors = np.zeros((runs, len(horizon)))
    for seed in range(runs):
        iterates = {}
        minimize_sg(
            LinearLoss(), utility, domain=Simplex(), samples=lambda rng, m: rng.normal(size=(m, 2)) * deviations,
            theta0=[0.0, 1.0], regime="convex", step=lambda k: 1.0 / np.sqrt(k), iterations=horizon[-1], rng=seed,
            log_every=64, callback=lambda at, seen=iterates: seen.update({at.iteration: at.theta.copy()}),
        )  # fmt: skip
        errors[seed] = [value(iterates[n]) - best for n in horizon]
    found = slope(horizon, errors.mean(axis=0))
    assert found < -0.4  # O(ln n / sqrt n), or better: with m_k = k averages may converge faster
    assert errors.min() > -1e-12


@pytest.mark.slow
def test_a_kinked_objective_shows_the_square_root():
    # OCE = abs(theta) with steps 1/sqrt(k): the mean of theta_{k-1} oscillates at the rate the bound allows.
    def distance(theta, xi):
        return np.full(len(xi), abs(theta[0])), np.full((len(xi), 1), np.sign(theta[0] or 1.0))

    loss = CallableLoss(distance, samples=np.zeros((1, 1)), convex=True)
    horizon = [2**k for k in range(6, 15)]
    errors = []
    for n in horizon:
        found = minimize_sg(
            loss, ce.Mean(), domain=Free(), theta0=[3.0], batch="full", step=lambda k: 1.0 / np.sqrt(k),
            average="weighted", iterations=n, log_every=n,
        )  # fmt: skip
        errors.append(found.value)
        sums = np.arange(1, n + 1)
        bound = (9.0 / 2 + 0.5 * (1.0 / sums).sum()) / (1.0 / np.sqrt(sums)).sum()
        assert found.value <= bound
    assert -1.2 < slope(horizon, errors) < -0.4


@pytest.mark.slow
def test_nonconvex_gradient_norm_falls_as_one_over_n():
    # F(theta, xi) = 1 - exp(-(theta - xi)^2 / 2): a bounded, non-convex well; OCE is smooth with L = 1 + beta M^2.
    def well(theta, xi):
        gap = theta - xi
        rest = np.exp(-0.5 * (gap**2).sum(axis=1))
        return 1.0 - rest, rest[:, None] * gap

    beta = 1.0
    L = 1.0 + beta * np.exp(-1.0)  # norm of grad F is at most exp(-1/2)
    law = lambda rng, m: 0.5 * rng.normal(size=(m, 2))
    loss = CallableLoss(well, smoothness=1.0, lipschitz=np.exp(-0.5))
    judge = Objective(CallableLoss(well, samples=law(np.random.default_rng(99), 40000)), ce.Entropic(beta))
    horizon, runs = [16, 32, 64, 128, 256], 30
    norms = np.zeros((runs, len(horizon)))
    for seed in range(runs):
        seen = []
        minimize_sg(
            loss, ce.Entropic(beta), domain=Free(), samples=law, theta0=[1.5, -1.0], regime="nonconvex", step=1.0 / L,
            iterations=horizon[-1], rng=seed, log_every=4, callback=lambda at, seen=seen: seen.append(at.theta.copy()),
        )  # fmt: skip
        squares = np.array([np.sum(judge.evaluate(theta).gradient ** 2) for theta in seen])
        least = np.minimum.accumulate(squares)
        norms[seed] = [least[n // 4 - 1] for n in horizon]
    assert slope(horizon, norms.mean(axis=0)) < -0.8  # promised: -1 up to a logarithm


SIZES = [16, 32, 64, 128, 256, 512]


@pytest.mark.parametrize(
    "utility, sizes",
    [(ce.Entropic(BETA), SIZES), (ce.MonotoneMeanVariance(2), SIZES), (ce.CVaR(0.25), SIZES)],
    ids=repr,
)
@pytest.mark.slow
def test_gradient_estimate_mean_squared_error_and_bias_fall_as_one_over_m(utility, sizes):
    theta, rng = np.array([0.5, 0.3, 0.2]), np.random.default_rng(17)
    loss = LinearLoss()
    truth = Objective(loss, utility, gaussian(np.random.default_rng(5), 4_000_000)).evaluate(theta).gradient
    if utility == ce.Entropic(BETA):
        truth = MEAN + BETA * DEVIATIONS**2 * theta
    errors, biases = [], []
    from certeq.optimize.sg._warm import WarmTilt

    for m in sizes:
        runs = 40_000_000 // (m * 32)
        total, square = np.zeros(3), 0.0
        engine = WarmTilt(utility)
        for _ in range(runs // 10):
            batch = gaussian(rng, m)
            q, mass = engine.weigh(batch @ theta, False)
            # The antithetic batch has the same law; their mean has the same bias and less noise.
            mirrored = 2 * MEAN - batch
            p, other = engine.weigh(mirrored @ theta, False)
            g, h = q @ batch / mass, p @ mirrored / other
            total += 0.5 * (g + h) - truth
            square += 0.5 * (np.sum((g - truth) ** 2) + np.sum((h - truth) ** 2))
        errors.append(square / (runs // 10))
        biases.append(np.linalg.norm(total / (runs // 10)))
    assert slope(sizes, errors) == pytest.approx(-1.0, abs=0.15)
    assert slope(sizes[:4], biases[:4]) == pytest.approx(-1.0, abs=0.35)


# -- default steps, and c/(k + k0): instances on which the rates of docs/theory/rates.rst are attained ----------------


def distances(horizon, runs, **options):
    """Mean squared distance from the optimum, of what would be returned after each number of iterations."""
    star, errors = optimum(), np.zeros((runs, len(horizon)))
    for seed in range(runs):
        seen = {}
        minimize_sg(
            LinearLoss(), ce.Entropic(BETA), domain=Simplex(), samples=gaussian, theta0=np.full(3, 1 / 3),
            iterations=horizon[-1], rng=seed, log_every=horizon[0],
            callback=lambda at, seen=seen: seen.update({at.iteration: at.theta.copy()}), **options,
        )  # fmt: skip
        errors[seed] = [np.sum((seen[n] - star) ** 2) for n in horizon]
    return errors.mean(axis=0)


def test_steps_c_over_k_plus_k0_have_a_squared_error_of_one_over_samples():
    # mu = 0.5 along the simplex at least, L = 2: c > 1/mu and k0 >= c L.
    horizon = [32, 64, 128, 256]
    found = distances(horizon, 30, regime="strongly_convex", step=inverse(2.2, 4.4), average="last", batch="growing")
    assert slope(horizon, found) == pytest.approx(-2.0, abs=0.3)


def test_default_steps_have_a_squared_error_of_one_over_samples():
    horizon = [64, 128, 256, 512]
    assert slope(horizon, distances(horizon, 30)) == pytest.approx(-2.0, abs=0.3)


@pytest.mark.parametrize("domain", [Free(), Ball(2.0)], ids=repr)
def test_default_steps_are_as_good_where_the_gradient_vanishes_at_the_optimum(domain):
    # Theorem 3b proves a slope of -1 on the ball, and nothing beforehand without it; about -2 is measured.
    star, horizon, errors = -MEAN / (BETA * DEVIATIONS**2), [64, 128, 256], []
    for seed in range(10):
        seen = {}
        minimize_sg(
            LinearLoss(), ce.Entropic(BETA), domain=domain, samples=gaussian, theta0=np.full(3, 0.5),
            iterations=horizon[-1], rng=seed, log_every=horizon[0],
            callback=lambda at, seen=seen: seen.update({at.iteration: at.theta.copy()}),
        )  # fmt: skip
        errors.append([risk(seen[n]) - risk(star) for n in horizon])
    assert slope(horizon, np.mean(errors, axis=0)) < -1.5


def test_a_drift_hidden_in_noise_costs_one_over_sqrt_n():
    # No method does better: the sign of a drift of 1/sqrt(n) is not to be told from n samples.
    horizon, runs, errors = [64, 256, 1024], 40, []
    for n in horizon:
        drift = n**-0.5
        sampler = lambda rng, m, drift=drift: drift + rng.normal(size=(m, 1))
        ends = [
            minimize_sg(
                LinearLoss(), ce.Mean(), domain=Box(-1.0, 1.0), samples=sampler, theta0=np.zeros(1), batch=1,
                iterations=n, rng=seed, log_every=n,
            ).theta[0]
            for seed in range(runs)
        ]  # fmt: skip
        errors.append(drift * (1.0 + np.mean(ends)))
    assert slope(horizon, errors) == pytest.approx(-0.5, abs=0.15)


def test_default_steps_on_a_well_keep_the_promise_for_gradients():
    # Promised is O(ln n/sqrt(n)) for the least gradient so far; no instance is known on which it is no better.
    from certeq.paper import convergence

    rule, horizon, least = convergence.well_rule(), [16, 32, 64, 128, 256], []
    for seed in range(8):
        seen = []
        found = minimize_sg(
            CallableLoss(convergence._well), ce.Entropic(convergence.WELL_BETA), domain=Free(),
            samples=convergence._cloud, theta0=[1.5, -1.0], iterations=horizon[-1], rng=seed, log_every=horizon[0],
            callback=lambda at, seen=seen: seen.append(np.linalg.norm(convergence.well_gradient(at.theta, *rule))),
        )  # fmt: skip
        assert "ln n/sqrt n" in found.promise
        least.append(np.minimum.accumulate(seen)[[n // horizon[0] - 1 for n in horizon]])
    assert slope(horizon, np.mean(least, axis=0)) < -0.5


def test_full_batches_are_at_least_as_fast_as_promised():
    A = gaussian(np.random.default_rng(0), 200)
    loss, horizon = LinearLoss(A), [25, 50, 100, 200]
    best = ce.minimize(loss, ce.Entropic(BETA), domain=Simplex(), method="exact").value
    run = lambda n: minimize_sg(loss, ce.Entropic(BETA), domain=Simplex(), batch="full", iterations=n).value - best
    assert slope(horizon, [run(n) + 1e-15 for n in horizon]) <= -1.5

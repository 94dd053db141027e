"""Entropic risk of Gaussian losses, estimated from samples and minimized by OCE-SG, beside what theory gives for both.

**Estimation** of the risk of N(-1, 4): the true value at beta = 0.5 is mean + beta variance / 2 = 0. With
Y = exp(beta (X - t*)), log-normal of mean 1, m MSE tends to Var(Y)/beta**2 and m times the bias to -Var(Y)/(2 beta).

**Optimization** of a Gaussian portfolio: for xi ~ N(mu, Sigma) the entropic risk of -theta.xi is
-theta.mu + beta/2 theta.Sigma theta, so theta* is that of a quadratic program. With steps 1/sqrt(k) and batches of k
samples, step k adds noise of variance C/k**2 and the distance shrinks by 1 - mu_0/sqrt(k): its mean square settles at
C k**(-3/2) / (2 mu_0). Theory thus asks for a slope of -3/2 (MSE) and -3/4 (MAE), better than the theorem's 1/n.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

import certeq as ce
from certeq.paper._experiment import Claim, Experiment, Figure, Job, Outcome, Panel, ResultTable, Series, Whose
from certeq.paper._quotes import quoted
from certeq.paper._statistics import RATE, REACH, SLOPE, STATEMENT, band, jackknife, slope, unchecked, verdict_of
from certeq.paper.bounds import BETA, DEVIATION, MEAN, gaussian_errors

Floats = NDArray[np.float64]
TRUE = MEAN + 0.5 * BETA * DEVIATION**2
MSE_LIMIT = math.expm1((BETA * DEVIATION) ** 2) / BETA**2
BIAS_LIMIT = -0.5 * BETA * MSE_LIMIT
SIZES = (25, 49, 100, 225, 400, 900, 1600, 2500, 4900, 10_000)
ASSETS, AVERSION, MARKET = 5, 1.0, 0
ITERATIONS, RUNS = 500, 20  # the paper's
MARKS = (1, 2, 5, 10, 20, 50, 100, 150, 200, 300, 400, 500)


def errors(m: int, repetitions: int, seed: int) -> dict[str, list[float]]:
    """Mean and standard error of the absolute error, the squared error and the error itself."""
    error = gaussian_errors(ce.Entropic(BETA), TRUE, m, repetitions, seed)
    kinds = {"mae": np.abs(error), "mse": np.square(error), "bias": error}
    return {name: [float(x.mean()), float(x.std(ddof=1) / math.sqrt(len(x)))] for name, x in kinds.items()}


def run_estimation(job: Job) -> Outcome:
    """Errors for every m, their slopes on logarithmic axes, and the constants beside the theory's.

    The table and the figure are of seed 0, with the paper's number of repetitions; each further seed is the whole
    experiment once more, and gives the spread of the slopes.
    """
    repetitions, seeds = 200 if job.quick else 1000, max(2, job.seeds)
    asked = [{"m": m, "repetitions": repetitions, "seed": seed} for seed in range(seeds) for m in SIZES]
    found = job.map(errors, asked)
    again = [found[k * len(SIZES) : (k + 1) * len(SIZES)] for k in range(seeds)]
    answers = again[0]
    slopes = {
        name: [slope(SIZES, [one[name][0] for one in each]) for each in again] for name in ("mae", "mse")
    }  # fmt: skip
    scaled = [[SIZES[-1] * x for x in each[-1]["mse"]] for each in again]  # with its standard error
    rows = tuple(
        (m, a["mae"][0], a["mae"][1], a["mse"][0], a["mse"][1], m * a["mse"][0], m * a["bias"][0], m * a["bias"][1])
        for m, a in zip(SIZES, answers, strict=True)
    )
    columns = ("m", "MAE", "se", "MSE", "se of MSE", "m MSE", "m bias", "se of m bias")
    spread = tuple((seed, slopes["mae"][seed], slopes["mse"][seed], scaled[seed][0]) for seed in range(seeds))
    return Outcome(
        tables=(
            ResultTable("errors", f"{repetitions} repetitions for each m, seed 0", columns, rows),
            ResultTable("slopes", "Slopes by seed", ("Seed", "slope of MAE", "slope of MSE", "last m MSE"), spread),
        ),
        figures=(_estimation_figure(answers),),
        claims=tuple(_estimation_claims(slopes, scaled, job.quick)),
        notes=(
            f"X is N({MEAN:g}, {DEVIATION**2:g}), beta is {BETA:g}, the true risk is {TRUE:g}. "
            f"Theory: m MSE tends to {MSE_LIMIT:.4f} and m times the bias to {BIAS_LIMIT:.4f}. "
            f"{repetitions} repetitions for each m, all of it once for each of {seeds} seeds.",
        ),
        numbers={
            "slopes": {name: float(np.mean(values)) for name, values in slopes.items()},
            "slopes_sd": {name: float(np.std(values, ddof=1)) for name, values in slopes.items()},
            "m": list(SIZES),
            "mse": [a["mse"][0] for a in answers],
            "mae": [a["mae"][0] for a in answers],
        },
        seeds=tuple(range(seeds)),
    )


def _estimation_figure(answers: list[dict[str, list[float]]]) -> Figure:
    roots = [math.sqrt(m) for m in SIZES]
    ideal = {"mae": [math.sqrt(2.0 * MSE_LIMIT / (math.pi * m)) for m in SIZES], "mse": [MSE_LIMIT / m for m in SIZES]}

    def panel(log: bool) -> Panel:
        series = []
        for name, label in (("mae", "MAE"), ("mse", "MSE")):
            value, error = zip(*(a[name] for a in answers), strict=True)
            series += [band(f"{label}, one standard error", roots, value, error, "errorbars")]
            series += [Series(f"{label}, theory", roots, ideal[name], "dashed")]
        title = "logarithmic axes" if log else "as in the paper"
        return Panel(tuple(series), title, "sqrt(m)", "error", log_x=log, log_y=log)

    alt = (
        "Mean absolute and mean squared error of the entropic estimate against sqrt(m), with error bars of one "
        "standard error, beside the limits of theory."
    )
    return Figure("errors", "Estimation error of entropic risk", alt, (panel(False), panel(True)))


def _estimation_claims(slopes: dict[str, list[float]], scaled: list[list[float]], quick: bool) -> list[Claim]:
    claims, seeds = [], len(scaled)
    for name, text, theory, printed, why in (
        ("mse", "The estimate converges fast: MSE falls as 1/m", -1.0, "a figure only; the lemma has 1/sqrt(m)",
         "The rate is 1/m, faster than the lemma's bound."),
        ("mae", "MAE falls as 1/sqrt(m)", -0.5, "a figure only",
         "The rate of an average, as for every estimate with a central limit theorem."),
    ):  # fmt: skip
        mean, deviation = float(np.mean(slopes[name])), float(np.std(slopes[name], ddof=1))
        verdict = verdict_of(abs(mean - theory) <= SLOPE)
        spread = f"sd {deviation:.3f} over {seeds} seeds"
        whose: Whose = "paper" if name == "mse" else "ours"
        claims.append(
            Claim(
                text, f"{printed}; {theory:g} in theory", f"slope {mean:.3f}", verdict, spread, why, RATE, whose,
                **quoted("estimation"),
            )
        )  # fmt: skip
    mean, error = float(np.mean(scaled, axis=0)[0]), float(np.linalg.norm([x[1] for x in scaled])) / seeds
    near = verdict_of(abs(mean - MSE_LIMIT) <= REACH * error)
    limit = f"{MSE_LIMIT:.3f} (theory, not printed)"
    spread = f"standard error {error:.3f} over {seeds} seeds"
    text = f"m MSE at m = {SIZES[-1]} is the variance of u(X - t*)"
    why = f"{abs(mean - MSE_LIMIT) / error:.1f} standard errors from theory; {REACH:g} are allowed."
    constant = Claim(text, limit, f"{mean:.3f}", near, spread, why, RATE, "ours")
    short = "A quick run: too few repetitions to tell a constant from its noise."
    return [*claims, unchecked(constant, short) if quick else constant]


def market() -> tuple[Floats, Floats]:
    """Mean and covariance by scikit-learn's ``make_spd_matrix``: the mean is a fifth of a second one's diagonal."""
    from sklearn.datasets import make_spd_matrix

    covariance = np.asarray(make_spd_matrix(ASSETS, random_state=MARKET))
    return np.asarray(0.2 * np.diag(make_spd_matrix(ASSETS, random_state=MARKET + 1))), covariance


def optimum(mean: Floats, covariance: Floats) -> tuple[Floats, float]:
    """theta* and its certified gap, by the exact solver on 2d points that have this very mean and covariance."""
    root = math.sqrt(len(mean)) * np.linalg.cholesky(covariance)
    points = np.vstack([mean + root.T, mean - root.T])
    found = ce.minimize(ce.LinearLoss(-points), ce.MeanVariance(0.5 * AVERSION), domain=ce.Simplex())
    assert found.gap is not None
    return found.theta, found.gap


def iterate(seed: int, iterations: int) -> list[list[float]]:
    """theta_k for k = 1, 2, ... of one run of OCE-SG from equal weights."""
    mean, covariance = market()
    root = np.linalg.cholesky(covariance)

    def sampler(rng: np.random.Generator, m: int) -> Floats:
        return -(mean + rng.normal(size=(m, ASSETS)) @ root.T)

    seen: list[list[float]] = []

    def keep(at: Any) -> None:
        seen.append(at.theta.tolist())

    ce.minimize(
        ce.LinearLoss(), ce.Entropic(AVERSION), domain=ce.Simplex(), samples=sampler, method="sg",
        theta0=np.full(ASSETS, 1.0 / ASSETS), step=_step, batch="growing", average="last", iterations=iterations,
        rng=seed, log_every=1, callback=keep, progress=False,
    )  # fmt: skip
    return seen


def _step(k: int) -> float:
    return 1.0 / math.sqrt(k)


def predicted_mse(theta: Floats, mean: Floats, covariance: Floats) -> Floats:
    """What linear theory gives for E norm(theta_k - theta*)^2, k = 1, 2, ..., from equal weights.

    Near theta* a step is e_k = (1 - a_k H) e_(k-1) - a_k zeta_k within the face that theta* lies on, H = beta Sigma and
    zeta_k of covariance G/k. For Gaussian xi the tilt w has E w^2 (xi - E w xi)(xi - E w xi)^T = exp(beta^2 v)
    (Sigma + beta^2 Sigma theta theta^T Sigma), v the variance of theta.xi: that is G.
    """
    positive = theta > 1e-9
    face = (
        np.diag(positive.astype(float)) - np.outer(positive, positive) / positive.sum()
    )  # projects onto the face's directions
    hessian = face @ (AVERSION * covariance) @ face
    shift = covariance @ theta
    noise = face @ (math.exp(AVERSION**2 * theta @ shift) * (covariance + AVERSION**2 * np.outer(shift, shift))) @ face
    gap = np.full(ASSETS, 1.0 / ASSETS) - theta
    moment, errors = np.outer(gap, gap), []
    for k in range(1, ITERATIONS + 1):
        step = np.eye(ASSETS) - _step(k) * hessian
        if k == 1:  # the first projections reach the face; from there on the assets it leaves out stay at 0
            moment = face @ moment @ face
        moment = step @ moment @ step.T + _step(k) ** 2 / k * noise
        errors.append(float(np.trace(moment)))
    return np.array(errors)


def run_optimization(job: Job) -> Outcome:
    """Errors of the iterates over the paper's 20 runs, the slopes over more of them, one run's composition."""
    everyone = 5 * max(2, job.seeds)
    runs = min(RUNS, everyone)
    mean, covariance = market()
    theta, gap = optimum(mean, covariance)
    paths = np.array(job.map(iterate, [{"seed": seed, "iterations": ITERATIONS} for seed in range(everyone)]))
    distances = np.linalg.norm(paths - theta, axis=2)  # (runs, iterations)
    k = np.arange(1, ITERATIONS + 1)
    shown = {"mae": distances[:runs], "mse": np.square(distances[:runs])}
    value = {name: part.mean(axis=0) for name, part in shown.items()}
    error = {name: part.std(axis=0, ddof=1) / math.sqrt(runs) for name, part in shown.items()}
    late = k >= ITERATIONS // 5  # the start, still on its way, is no part of a rate
    powers = {"mae": distances[:, late], "mse": np.square(distances)[:, late]}
    slopes = {name: slope(k[late], part.mean(axis=0)) for name, part in powers.items()}
    errors = {name: jackknife(k[late], part) for name, part in powers.items()}
    forecast = predicted_mse(theta, mean, covariance)
    theory = {"mse": slope(k[late], forecast[late]), "limit": -1.5}
    rows = tuple(
        (mark, *(float(x[mark - 1]) for x in (value["mae"], error["mae"], value["mse"], error["mse"], forecast)))
        for mark in MARKS
    )
    head = ("k", "MAE", "se", "MSE", "se of MSE", "MSE in linear theory")
    table = ResultTable("iterates", f"{runs} runs", head, rows, digits=6)
    where = (("theta*", theta.tolist()), ("mean theta_500", paths[:runs, -1].mean(axis=0).tolist()))
    weights = ResultTable(
        "weights", "Optimum and last iterates", ("Portfolio", *(f"asset {j + 1}" for j in range(ASSETS))),
        tuple((name, *values) for name, values in where),
    )  # fmt: skip
    return Outcome(
        tables=(table, weights),
        figures=(_error_figure(k, value, error, forecast, runs), _weight_figure(k, paths[0], theta)),
        claims=tuple(_optimization_claims(value["mse"], error["mse"], slopes, errors, theory, everyone)),
        notes=(
            f"beta = {AVERSION:g} and the market (make_spd_matrix, random states {MARKET} and {MARKET + 1}) are our "
            f"choice: the paper states neither. theta* is certified to {gap:.1g}. The figure is of {runs} runs, the "
            f"paper's {RUNS} or all there are; slopes are of {everyone}, five for each seed.",
        ),
        numbers={
            "slopes": slopes,
            "slopes_se": errors,
            "slope_in_theory": theory,
            "theta": theta.tolist(),
            "gap": gap,
            "mse": [float(value["mse"][mark - 1]) for mark in MARKS],
        },
        seeds=tuple(range(everyone)),
    )


def _optimization_claims(
    mse: Floats, error: Floats, slopes: dict[str, float], errors: dict[str, float], theory: dict[str, float], runs: int
) -> list[Claim]:
    arrives = verdict_of(mse[-1] < 1e-3 * mse[0])
    steep = verdict_of(abs(slopes["mse"] - theory["mse"]) <= REACH * errors["mse"])
    return [
        Claim(
            "The iterates approach theta* (MSE falls a thousandfold)", "a figure only",
            f"MSE falls {mse[0] / mse[-1]:.0f}-fold over {ITERATIONS} steps", arrives,
            f"last MSE {mse[-1]:.2g}, standard error {error[-1]:.1g}",
            f"A thousandfold is asked for, from {mse[0]:.2g} at the start.", STATEMENT, **quoted("optimization"),
        ),
        Claim(
            f"MSE falls at the rate of theory, k from {ITERATIONS // 5} to {ITERATIONS}",
            f"a figure only; slope {theory['mse']:.2f} in theory on this range, {theory['limit']:g} in the limit",
            f"slope {slopes['mse']:.2f}", steep, f"standard error {errors['mse']:.2f} over {runs} runs (jackknife)",
            f"MAE has slope {slopes['mae']:.2f}, standard error {errors['mae']:.2f} (-0.75 in the limit).", RATE,
            "ours",
        ),
    ]  # fmt: skip


def _error_figure(k: Any, value: dict[str, Any], error: dict[str, Any], forecast: Floats, runs: int) -> Figure:
    bands, theory = [], []
    for name, label, ideal in (
        ("mae", "MAE", value["mae"][-1] * (k / k[-1]) ** -0.75),
        ("mse", "MSE", forecast),
    ):
        bands.append(band(label, k.tolist(), value[name], error[name], floor=0.2 * value[name]))
        words = "slope -0.75" if name == "mae" else "MSE in linear theory"
        theory.append(Series(words, k[20:].tolist(), ideal[20:].tolist(), "dashed"))
    panels = (
        Panel(tuple(bands), "as in the paper", "iteration k", "distance to theta*"),
        Panel((*bands, *theory), "logarithmic axes", "iteration k", "distance to theta*", log_x=True, log_y=True),
    )
    alt = f"Mean absolute and mean squared distance of the iterates to theta* against the iteration, over {runs} runs."
    return Figure("errors", "OCE-SG on entropic risk: distance to the optimum", alt, panels)


def _weight_figure(k: Any, path: Floats, theta: Floats) -> Figure:
    series: list[Series] = []
    for j in range(ASSETS):
        series += [Series(f"asset {j + 1}", k.tolist(), path[:, j].tolist(), "line")]
        series += [Series(f"theta* of asset {j + 1}", [1, int(k[-1])], [float(theta[j])] * 2, "dashed")]
    alt = "The five weights of one run against the iteration, each with its optimum as a dashed line."
    return Figure("weights", "Iterates of one run", alt, (Panel(tuple(series), "", "iteration k", "weight"),))


EXPERIMENTS = (
    Experiment(
        name="entropic-estimation",
        title="Entropic risk: estimation",
        where="Supplement, figure of estimation errors",
        run=run_estimation,
    ),
    Experiment(
        name="entropic-optimization",
        title="Entropic risk: optimization",
        where="Supplement, figure of the iterates",
        run=run_optimization,
    ),
)

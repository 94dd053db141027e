"""Entropic risk of N(-1, 4) from m samples: errors against sqrt(m), and the constants theory gives for them.

The true value at beta = 0.5 is mean + beta variance / 2 = 0. With Y = exp(beta (X - t*)), log-normal of mean 1,
m MSE tends to Var(Y)/beta**2 and m times the bias to -Var(Y)/(2 beta).
"""

from __future__ import annotations

import math

import numpy as np

import certeq as ce
from certeq.paper._experiment import Claim, Experiment, Figure, Job, Outcome, Panel, Series, Table, Verdict
from certeq.paper._statistics import REACH, SLOPE, slope

MEAN, DEVIATION, BETA = -1.0, 2.0, 0.5
TRUE = MEAN + 0.5 * BETA * DEVIATION**2
MSE_LIMIT = math.expm1((BETA * DEVIATION) ** 2) / BETA**2
BIAS_LIMIT = -0.5 * BETA * MSE_LIMIT
SIZES = (25, 49, 100, 225, 400, 900, 1600, 2500, 4900, 10_000)


def errors(m: int, repetitions: int, seed: int) -> dict[str, list[float]]:
    """Mean and standard error of the absolute error, the squared error and the error itself."""
    rng = np.random.default_rng([seed, m])
    found = []
    for start in range(0, repetitions, 100):  # a hundred rows at a time: memory for m = 10,000 stays small
        rows = rng.normal(MEAN, DEVIATION, size=(min(100, repetitions - start), m))
        found.append(ce.oce(rows, ce.Entropic(BETA), axis=1) - TRUE)
    error = np.concatenate(found)
    kinds = {"mae": np.abs(error), "mse": np.square(error), "bias": error}
    return {name: [float(x.mean()), float(x.std(ddof=1) / math.sqrt(len(x)))] for name, x in kinds.items()}


def run(job: Job) -> Outcome:
    """Errors for every m, their slopes on logarithmic axes, and the constants beside the theory's.

    The table and the figure are of seed 0, with the paper's number of repetitions; each further seed is the whole
    experiment once more, and gives the spread of the slopes.
    """
    repetitions, seeds = 200 if job.quick else 1000, max(2, job.seeds)
    asked = [{"m": m, "repetitions": repetitions, "seed": seed} for seed in range(seeds) for m in SIZES]
    found = job.map(errors, asked)
    again = [found[place * len(SIZES) : (place + 1) * len(SIZES)] for place in range(seeds)]
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
            Table("errors", f"{repetitions} repetitions for each m, seed 0", columns, rows),
            Table("slopes", "Slopes by seed", ("Seed", "slope of MAE", "slope of MSE", "last m MSE"), spread),
        ),
        figures=(_figure(answers),),
        claims=tuple(_claims(slopes, scaled)),
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


def _figure(answers: list[dict[str, list[float]]]) -> Figure:
    roots = [math.sqrt(m) for m in SIZES]
    ideal = {"mae": [math.sqrt(2.0 * MSE_LIMIT / (math.pi * m)) for m in SIZES], "mse": [MSE_LIMIT / m for m in SIZES]}

    def panel(log: bool) -> Panel:
        series = []
        for name, label in (("mae", "MAE"), ("mse", "MSE")):
            value, error = (np.array([a[name][place] for a in answers]) for place in (0, 1))
            low, high = (value - error).tolist(), (value + error).tolist()
            series += [Series(f"{label}, one standard error", roots, value.tolist(), "errorbars", low, high)]
            series += [Series(f"{label}, theory", roots, ideal[name], "dashed")]
        title = "logarithmic axes" if log else "as in the paper"
        return Panel(tuple(series), title, "sqrt(m)", "error", log_x=log, log_y=log)

    alt = (
        "Mean absolute and mean squared error of the entropic estimate against sqrt(m), with error bars of one "
        "standard error, beside the limits of theory."
    )
    return Figure("errors", "Estimation error of entropic risk", alt, (panel(False), panel(True)))


def _claims(slopes: dict[str, list[float]], scaled: list[list[float]]) -> list[Claim]:
    claims, seeds = [], len(scaled)
    for name, text, theory, printed, why in (
        ("mse", "The estimate converges fast: MSE falls as 1/m", -1.0, "a figure only; the lemma has 1/sqrt(m)",
         "The rate is 1/m, faster than the lemma's bound."),
        ("mae", "MAE falls as 1/sqrt(m)", -0.5, "a figure only", ""),
    ):  # fmt: skip
        mean, deviation = float(np.mean(slopes[name])), float(np.std(slopes[name], ddof=1))
        verdict: Verdict = "reproduced" if abs(mean - theory) <= SLOPE else "not reproduced"
        spread = f"sd {deviation:.3f} over {seeds} seeds"
        claims.append(Claim(text, f"{printed}; {theory:g} in theory", f"slope {mean:.3f}", verdict, spread, why))
    mean, error = float(np.mean(scaled, axis=0)[0]), float(np.linalg.norm([x[1] for x in scaled])) / seeds
    near: Verdict = "reproduced" if abs(mean - MSE_LIMIT) <= REACH * error else "not reproduced"
    limit = f"{MSE_LIMIT:.3f} (theory, not printed)"
    spread = f"standard error {error:.3f} over {seeds} seeds"
    claims.append(Claim(f"m MSE at m = {SIZES[-1]} is the variance of u(X - t*)", limit, f"{mean:.3f}", near, spread))
    return claims


EXPERIMENTS = (
    Experiment(
        name="entropic-estimation",
        title="Entropic risk: estimation",
        where="Supplement, figure of estimation errors",
        run=run,
    ),
)

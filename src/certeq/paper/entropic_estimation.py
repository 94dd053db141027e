"""Entropic risk of N(-1, 4) from m samples: errors against sqrt(m), and the constants theory gives for them.

The true value at beta = 0.5 is mean + beta variance / 2 = 0. With Y = exp(beta (X - t*)), log-normal of mean 1,
m MSE tends to Var(Y)/beta**2 and m times the bias to -Var(Y)/(2 beta).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import certeq as ce
from certeq.paper._experiment import Claim, Experiment, Figure, Job, Outcome, Panel, Series, Table, Verdict

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
        found.append(ce.oce(rows, ce.Entropic(BETA)) - TRUE)
    error = np.concatenate(found)
    kinds = {"mae": np.abs(error), "mse": np.square(error), "bias": error}
    return {name: [float(x.mean()), float(x.std(ddof=1) / math.sqrt(len(x)))] for name, x in kinds.items()}


def slope(x: Any, y: Any) -> float:
    """Slope of a straight line through the logarithms."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def run(job: Job) -> Outcome:
    """Errors for every m, their slopes on logarithmic axes, and the constants beside the theory's."""
    repetitions = 200 if job.quick else 1000
    answers = job.map(errors, [{"m": m, "repetitions": repetitions, "seed": 0} for m in SIZES])
    roots = [math.sqrt(m) for m in SIZES]
    value = {name: [a[name][0] for a in answers] for name in ("mae", "mse", "bias")}
    error = {name: [a[name][1] for a in answers] for name in ("mae", "mse", "bias")}
    slopes = {"mae": slope(SIZES, value["mae"]), "mse": slope(SIZES, value["mse"])}
    rows = tuple(
        (m, a["mae"][0], a["mae"][1], a["mse"][0], a["mse"][1], m * a["mse"][0], m * a["bias"][0], m * a["bias"][1])
        for m, a in zip(SIZES, answers, strict=True)
    )
    columns = ("m", "MAE", "se", "MSE", "se of MSE", "m MSE", "m bias", "se of m bias")
    ideal = {"mae": [math.sqrt(2.0 * MSE_LIMIT / (math.pi * m)) for m in SIZES], "mse": [MSE_LIMIT / m for m in SIZES]}

    def panel(log: bool) -> Panel:
        series = []
        for name, label in (("mae", "MAE"), ("mse", "MSE")):
            low = [a - b for a, b in zip(value[name], error[name], strict=True)]
            high = [a + b for a, b in zip(value[name], error[name], strict=True)]
            series += [Series(label, roots, value[name], "band", low, high)]
            series += [Series(f"{label}, theory", roots, ideal[name], "dashed")]
        title = "logarithmic axes" if log else "as in the paper"
        return Panel(tuple(series), title, "sqrt(m)", "error", log_x=log, log_y=log)

    alt = "Mean absolute and mean squared error of the entropic estimate against sqrt(m), with one standard error."
    return Outcome(
        tables=(Table("errors", f"{repetitions} repetitions for each m", columns, rows),),
        figures=(Figure("errors", "Estimation error of entropic risk", alt, (panel(False), panel(True))),),
        claims=tuple(_claims(slopes, answers)),
        notes=(
            f"X is N({MEAN:g}, {DEVIATION**2:g}), beta is {BETA:g}, the true risk is {TRUE:g}. "
            f"Theory: m MSE tends to {MSE_LIMIT:.4f} and m times the bias to {BIAS_LIMIT:.4f}.",
        ),
        numbers={"slopes": slopes, "m": list(SIZES), "mse": value["mse"], "mae": value["mae"]},
        seeds=(0,),
    )


def _claims(slopes: dict[str, float], answers: list[dict[str, list[float]]]) -> list[Claim]:
    steep: Verdict = "reproduced" if abs(slopes["mse"] + 1.0) < 0.1 else "not reproduced"
    half: Verdict = "reproduced" if abs(slopes["mae"] + 0.5) < 0.05 else "not reproduced"
    last, m = answers[-1], SIZES[-1]
    scaled, error = m * last["mse"][0], m * last["mse"][1]
    near: Verdict = "reproduced" if abs(scaled - MSE_LIMIT) < 3.0 * error else "not reproduced"
    return [
        Claim(
            "The estimate converges fast: MSE falls as 1/m",
            "a figure only; the lemma has 1/sqrt(m)",
            f"slope {slopes['mse']:.3f}",
            steep,
            why="The rate is 1/m, faster than the lemma's bound.",
        ),
        Claim("MAE falls as 1/sqrt(m)", "a figure only", f"slope {slopes['mae']:.3f}", half),
        Claim(
            f"m MSE at m = {m} is the variance of u(X - t*)",
            f"{MSE_LIMIT:.3f} (theory, not printed)",
            f"{scaled:.3f}",
            near,
            f"standard error {error:.3f}",
        ),
    ]


EXPERIMENTS = (
    Experiment(
        name="entropic-estimation",
        title="Entropic risk: estimation",
        where="Supplement, figure of estimation errors",
        run=run,
    ),
)

"""Tables and figure of the calibration experiment, and the row the paper prints."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from certeq.paper._experiment import Figure, Panel, Series, Table
from certeq.paper.uncertainty._training import DATA, grid

Floats = NDArray[np.float64]
METRICS = ("MACE", "RMSCE", "MA")
PRINTED = {
    "Deep ensembles": (0.0772, 0.0883, 0.0780),
    "MVE": (0.0718, 0.0815, 0.0724),
    "MVE with OCE": (0.0285, 0.0367, 0.0283),
}
Runs = list[dict[str, list[float]]]


def scores_of(runs: Runs, where: str) -> Floats:
    """(runs, metrics) of those that did not diverge."""
    return np.array([one[where] for one in runs if one]).reshape(-1, len(METRICS))


def seed_table(
    first: dict[str, dict[str, list[float]]],
    over_seeds: dict[str, Runs],
    true: dict[str, list[float]],
    more: dict[str, Runs],
) -> Table:
    """The paper's data set: the truth, the printed rows, the benchmarks at seed 0, everything over seeds."""
    none = (None,) * 6
    rows: list[tuple[Any, ...]] = [("The truth itself", *true["test"], *none[:4], true["fresh"][0], None)]
    rows += [(f"{kind}, printed", *figures, *none) for kind, figures in PRINTED.items()]
    for kind, found in first.items():
        if found:
            rows.append((f"{kind}, seed 0", *found["test"], *none[:4], found["fresh"][0], None))
    for model, runs in {**over_seeds, **more}.items():
        test, fresh = scores_of(runs, "test"), scores_of(runs, "fresh")[:, 0]
        if len(test) < 2:
            rows.append((f"{model}: diverged", *(None,) * 9))
            continue
        mace = test[:, 0]
        rows.append((
            f"{model}, mean over {len(test)} seeds", *test.mean(axis=0).tolist(), float(mace.std(ddof=1)),
            float(mace.min()), float(mace.max()), float((mace <= PRINTED["MVE with OCE"][0]).mean()),
            float(fresh.mean()), float(fresh.std(ddof=1)),
        ))  # fmt: skip
    head = ("Model", *METRICS, "MACE sd", "least", "most", "share <= 0.0285", "MACE fresh", "MACE fresh sd")
    return Table("seeds", "Calibration on the paper's data set, over seeds", head, tuple(rows))


def set_table(over_sets: dict[str, Runs], truths: Runs, fresh: int) -> Table:
    """Other data sets of the same law, a seed each, on points none of them was trained on."""
    rows: list[tuple[Any, ...]] = []
    for model, runs in {"The truth itself": truths, **over_sets}.items():
        values = scores_of(runs, "fresh")
        spread = float(values[:, 0].std(ddof=1)) if len(values) > 1 else None
        means = values.mean(axis=0).tolist() if len(values) else [None] * 3
        rows.append((model, *means, spread, len(values)))
    columns = ("Model", *METRICS, "MACE sd", "data sets")
    return Table("data-sets", f"Calibration on {fresh} fresh points, over data sets", columns, tuple(rows))


def band_figure(bands: dict[str, dict[str, list[float]]]) -> Figure:
    """Mean and two deviations at seed 0, in the paper's form: a panel for each model."""
    from certeq.learn import toy_heteroscedastic

    sample = toy_heteroscedastic(random_state=DATA)
    x = grid(sample)
    true = sample.truth(x)[0].tolist()
    panels = []
    for name, found in bands.items():
        series = [Series("training points", sample.X_train[:, 0].tolist(), sample.y_train.tolist(), "points")]
        if found:
            mean, reach = np.array(found["mean"]), 2.0 * np.array(found["deviation"])
            low, high = (mean - reach).tolist(), (mean + reach).tolist()
            series.append(Series("mean, two deviations", x[:, 0].tolist(), found["mean"], "band", low, high))
        series.append(Series("true mean", x[:, 0].tolist(), true, "dashed"))
        panels.append(Panel(tuple(series), name, "x (standardised)", "y (standardised)"))
    alt = "Predicted mean and band of two standard deviations of deep ensembles, MVE and MVE with OCE over the data."
    return Figure("bands", "Mean and uncertainty band", alt, tuple(panels))

"""Tables and figures of the classification experiments."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from certeq.paper._experiment import Figure, Panel, Series, Table
from certeq.paper.classification._data import METRICS, NEUTRAL, PRINTED, SPLIT
from certeq.paper.classification._differences import Difference
from certeq.paper.classification._models import LOSSES

Scores = dict[tuple[str, str], NDArray[Any]]


def exact_table(data: str, exact: dict[str, list[float]]) -> Table:
    """The deterministic benchmarks beside their printed cells."""
    columns = ("Model", *(f"{metric}{tail}" for metric in METRICS for tail in ("", " printed")))
    rows: list[tuple[Any, ...]] = [
        (name, *(x for pair in zip(exact[name], PRINTED[data][name], strict=True) for x in pair)) for name in exact
    ]
    return Table("benchmarks", "Deterministic benchmarks", columns, tuple(rows))


def network_table(data: str, last: Scores, seeds: int) -> Table:
    """Mean and deviation of every network over seeds, beside the printed row."""
    columns = ("Activation", "Loss", *(f"{metric}{tail}" for metric in METRICS for tail in ("", " sd", " printed")))
    rows = []
    for (bend, loss), values in last.items():
        mean, deviation = values[:seeds].mean(axis=0), values[:seeds].std(axis=0, ddof=1)
        cells = zip(mean.tolist(), deviation.tolist(), PRINTED[data][loss], strict=True)
        rows.append((bend, loss, *(x for triple in cells for x in triple)))
    return Table("networks", f"Networks over {seeds} seeds, split {SPLIT}", columns, tuple(rows))


def paired_table(differences: dict[tuple[str, str, str, str], Difference]) -> Table:
    """Every difference: to the risk-neutral network and to each benchmark, over seeds and over splits."""
    words = ("sd", "low", "high", "p")
    heads = ("Over seeds", *words, "share above", "Over splits", *(f"{word} splits" for word in words))
    rows: list[tuple[Any, ...]] = []
    for key, both in differences.items():
        s, t = both.seeds, both.splits
        seeds = (s.mean, s.deviation, s.low, s.high, s.p, both.above)
        rows.append((*key, *seeds, t.mean, t.deviation, t.low, t.high, t.p))
    columns = ("Activation", "Loss", "Less", "Metric", *heads)
    title = "Differences to the risk-neutral network and to the benchmarks, with 95 % intervals"
    return Table("paired", title, columns, tuple(rows))


def spread_figure(data: str, last: Scores, seeds: int) -> Figure:
    """One point for each seed, beside the printed figures."""
    panels = []
    for metric in ("ECE", "AUROC"):
        column = METRICS.index(metric)
        clouds = []
        for bend in dict.fromkeys(bend for bend, _ in last):
            x = [loss for loss in LOSSES for _ in range(seeds)]
            y = [float(v) for loss in LOSSES for v in last[bend, loss][:seeds, column]]
            clouds.append(Series(f"{bend}, one seed", x, y, "points"))
        printed = Series("printed", list(LOSSES), [PRINTED[data][loss][column] for loss in LOSSES], "points")
        panels.append(Panel((*clouds, printed), metric, "loss", metric))
    alt = f"ECE and AUROC of every network on the {data} test set, one point per seed, beside the printed figures."
    return Figure("networks", f"Networks over seeds: {data}", alt, tuple(panels))


def epoch_figure(data: str, scores: Scores, seeds: int, marks: list[int]) -> Figure:
    """Test scores while training goes on (tanh)."""
    panels = []
    for metric in ("ECE", "AUROC"):
        column, series = METRICS.index(metric), []
        for loss in (NEUTRAL, "Entropic", "CVaR", "S-CVaR"):
            values = scores["tanh", loss][:seeds, :, column]
            mean, deviation = values.mean(axis=0), values.std(axis=0, ddof=1)
            low, high = (mean - deviation).tolist(), (mean + deviation).tolist()
            series.append(Series(loss, marks, mean.tolist(), "band", low, high))
        panels.append(Panel(tuple(series), f"{metric}, tanh", "epochs", metric, log_x=True))
    alt = f"ECE and AUROC on the {data} test set against epochs of training, mean and standard deviation over seeds."
    return Figure("epochs", f"Test scores while training: {data}", alt, tuple(panels))

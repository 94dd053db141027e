"""What the paper says of its classifiers, judged for each activation, as it does not state which it used."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from certeq.paper._experiment import Claim
from certeq.paper._paired import Paired
from certeq.paper._verdicts import MARGIN, ROUNDING, of_difference, of_likeness, of_row, weakest
from certeq.paper.classification._data import BENCHMARKS, METRICS, NEUTRAL, PRINTED
from certeq.paper.classification._differences import Difference
from certeq.paper.classification._models import LOSSES

Differences = dict[tuple[str, str, str, str], Difference]
Scores = dict[tuple[str, str], NDArray[Any]]
# The metrics the text draws a conclusion from, and in which direction; on the others it calls OCE comparable.
BETTER = {"breast-cancer": (("ECE", -1.0),), "heart": (("Acc", 1.0), ("F1", 1.0), ("AUROC", 1.0))}
LIKE = {"breast-cancer": ("Acc", "F1", "AUROC"), "heart": ("Acc", "F1", "AUROC")}


def exact_claim(data: str, exact: dict[str, list[float]]) -> Claim:
    """The cells without randomness."""
    off = max(abs(a - b) for name in exact for a, b in zip(exact[name], PRINTED[data][name], strict=True))
    return Claim(
        "All 12 cells of the deterministic benchmarks",
        "4 digits",
        f"greatest difference {off:.1e}",
        "reproduced" if off <= ROUNDING else "not reproduced",
        "deterministic",
    )


def network_claims(
    data: str, found: Differences, last: Scores, scores: Scores, seeds: int, marks: list[int]
) -> list[Claim]:
    """Against the risk-neutral network, against the benchmarks, comparable or not, and each printed row."""
    claims = []
    for bend in dict.fromkeys(bend for bend, _ in last):
        for metric, sign in BETTER[data]:
            claims += [_better(data, found, bend, loss, NEUTRAL, metric, sign) for loss in _claimed(data, metric, sign)]
            best = _best(data, metric, sign)
            claims += [_better(data, found, bend, best, other, metric, sign) for other in BENCHMARKS]
        claims += [_comparable(data, found, bend, other) for other in (NEUTRAL, *BENCHMARKS)]
        claims += [_row(data, bend, loss, last, scores, seeds, marks) for loss in LOSSES]
    return claims


def _claimed(data: str, metric: str, sign: float) -> list[str]:
    """The losses whose printed figure is on the claimed side of the risk-neutral network's."""
    column = METRICS.index(metric)
    own = PRINTED[data][NEUTRAL][column]
    return [loss for loss in list(LOSSES)[1:] if sign * (PRINTED[data][loss][column] - own) > 0]


def _best(data: str, metric: str, sign: float) -> str:
    """The OCE loss with the best printed figure."""
    return max(list(LOSSES)[1:], key=lambda loss: sign * PRINTED[data][loss][METRICS.index(metric)])


def _better(data: str, found: Differences, bend: str, loss: str, other: str, metric: str, sign: float) -> Claim:
    entry, column = found[bend, loss, other, metric], METRICS.index(metric)
    verdicts = [of_difference(part.mean, part.low, part.high, sign) for part in (entry.seeds, entry.splits)]
    why = f"Over seeds on the paper's split {_words(entry.seeds, sign)}; over splits {_words(entry.splits, sign)}."
    return Claim(
        f"{loss}: {metric} {'higher' if sign > 0 else 'lower'} than {_whose(other)} ({bend})",
        f"{PRINTED[data][loss][column] - PRINTED[data][other][column]:+.4f}",
        f"{entry.seeds.mean:+.4f} over seeds, {entry.splits.mean:+.4f} over splits",
        weakest(verdicts),
        f"95 % {entry.seeds.low:+.4f} to {entry.seeds.high:+.4f} and {entry.splits.low:+.4f} to "
        f"{entry.splits.high:+.4f}; sd {entry.seeds.deviation:.4f} and {entry.splits.deviation:.4f}",
        why,
    )


def _words(part: Paired, sign: float) -> str:
    verdict = of_difference(part.mean, part.low, part.high, sign)
    if verdict != "not reproduced":
        return "it holds beyond the noise" if verdict == "reproduced" else "the sign agrees, within the noise"
    if max(sign * part.low, sign * part.high) < 0.0:
        return "it is the other way round, beyond the noise"
    return "there is no gain on average, within the noise"


def _comparable(data: str, found: Differences, bend: str, other: str) -> Claim:
    """Two one-sided tests over splits, for six losses and three metrics."""
    entries = {
        f"{loss} {metric}": found[bend, loss, other, metric].splits
        for loss in list(LOSSES)[1:]
        for metric in LIKE[data]
    }
    verdict = of_likeness([(part.floor, part.ceiling) for part in entries.values()], MARGIN)
    sure = sum(part.floor > -MARGIN for part in entries.values())
    worse = [name for name, part in entries.items() if part.ceiling < -MARGIN]
    lowest = min(entries, key=lambda name: entries[name].floor)
    text = f"OCE networks are comparable to {_whose(other)} on {', '.join(LIKE[data])}, or better ({bend})"
    undecided = len(entries) - sure - len(worse)
    why = f"Worse beyond the margin: {', '.join(worse)}. " if worse else ""
    why += f"Undecided: {undecided} of {len(entries)}." if undecided else ""
    return Claim(
        text,
        "comparable" if data == "breast-cancer" else "higher, which is more",
        f"{sure} of {len(entries)} differences over splits are above -{MARGIN:g} with 95 % confidence",
        verdict,
        f"lowest: {lowest} {entries[lowest].mean:+.4f}, 90 % {entries[lowest].floor:+.4f} to "
        f"{entries[lowest].ceiling:+.4f}",
        why.strip(),
    )


def _row(data: str, bend: str, loss: str, last: Scores, scores: Scores, seeds: int, marks: list[int]) -> Claim:
    """A printed row against its spread over seeds, and when in training a missed figure was nearest."""
    printed = np.array(PRINTED[data][loss])
    values = last[bend, loss][:seeds]
    verdict, beyond = of_row(printed, values)
    why = ""
    if beyond.any():
        path = scores[bend, loss][:seeds]  # (seeds, marks, metrics)
        mean, deviation = path.mean(axis=0), path.std(axis=0, ddof=1)
        near = []
        for column in np.flatnonzero(beyond):
            at = int(np.abs(mean[:, column] - printed[column]).argmin())
            near.append(
                f"{METRICS[column]} (printed {printed[column]:.4f}) after {marks[at]} epochs with "
                f"{mean[at, column]:.4f}, sd {deviation[at, column]:.4f}"
            )
        why = f"Further off than 2 sd: {', '.join(METRICS[c] for c in np.flatnonzero(beyond))}. Nearest on average, of "
        why += f"{', '.join(map(str, marks))} epochs: {'; '.join(near)}."
    return Claim(
        f"{loss}: the printed row ({', '.join(METRICS)}), {bend}",
        " ".join(f"{x:.4f}" for x in printed),
        " ".join(f"{x:.4f}" for x in values.mean(axis=0)),
        verdict,
        "sd " + " ".join(f"{x:.4f}" for x in values.std(axis=0, ddof=1)) + f" over {seeds} seeds",
        why,
    )


def _whose(other: str) -> str:
    return {NEUTRAL: "the risk-neutral network", "SVC": "the support vector machine"}.get(other, other.lower())

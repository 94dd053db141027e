"""Classification on breast cancer and heart disease: deterministic benchmarks, and networks under OCE losses.

The benchmarks have no free choice and must match the printed cells. The networks depend on their seed and on the split,
so they are judged by both: the same seeds (initial weights, order of batches) for every loss, differences to the
risk-neutral network and to the benchmarks in pairs. The activation is not stated: tanh, which is nearer to the printed
rows, carries the claims, ReLU repeats them. S-CVaR as printed is risk neutral, and is judged as that network.
"""

from __future__ import annotations

import csv
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from importlib.resources import files
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

import certeq as ce
from certeq.paper._experiment import Claim, Experiment, Figure, Job, Outcome, Panel, ResultTable, Series, Whose
from certeq.paper._printed import CLASSIFICATION as PRINTED
from certeq.paper._quotes import quoted, row_of
from certeq.paper._statistics import (
    BETTER,
    FIXED,
    LIKE,
    MARGIN,
    RANKING_RUNS,
    ROUNDING,
    ROW,
    Paired,
    agreed,
    band,
    controlled,
    digits,
    likeness,
    needs_more_runs,
    of_differences,
    of_row,
    paired,
    scatter,
    verdict_of,
    with_evidence,
    with_more_runs,
    with_rank,
)
from certeq.utilities import Utility

Floats = NDArray[np.float64]
METRICS = ("Acc", "F1", "ECE", "AUROC")
SPLIT = 42
NEUTRAL = "NN BCE"
BENCHMARKS = ("Logistic regression", "SVC", "Random forest")
BATCH, STEP, HIDDEN = 64, 3e-3, (32, 16)
LOSSES: dict[str, Utility] = {
    NEUTRAL: ce.Mean(),
    "Entropic": ce.Entropic(0.5),
    "CVaR": ce.CVaR(0.1),
    "L-CVaR": ce.LeakyCVaR(0.1),
    "S-CVaR": ce.SmoothCVaR(0.1),
    "MMV": ce.MonotoneMeanVariance(2),
    "Quartic": ce.Quartic(),
}
OVERLAP = 3.0 / 7.0  # test over training patients: random splits share both
Scores = dict[tuple[str, str], NDArray[Any]]
SMOOTH, CORRECTED = "S-CVaR", "S-CVaR, corrected"
# The metrics the text draws a conclusion from, and in which direction; on the others it calls OCE comparable.
CLAIMED = {"breast-cancer": (("ECE", -1.0),), "heart": (("Acc", 1.0), ("F1", 1.0), ("AUROC", 1.0))}
ALIKE = {"breast-cancer": ("Acc", "F1", "AUROC"), "heart": ("Acc", "F1", "AUROC")}


def run(data: str, job: Job) -> Outcome:
    """One of the two tables."""
    seeds = max(2, job.seeds)
    splits = [state for state in range(seeds + SPLIT) if state != SPLIT][:seeds]
    epochs = 40 if job.quick else 500
    marks = [mark for mark in (5, 10, 20, 50, 100, 200) if mark < epochs] + [epochs]
    pairs = [[SPLIT, seed] for seed in range(seeds)] + [[state, state] for state in splits]
    asked = [{"data": data, "model": model, "state": state} for model in BENCHMARKS for state in (SPLIT, *splits)]
    fixed = np.array(job.map(benchmark, asked)).reshape(len(BENCHMARKS), 1 + len(splits), -1)
    exact = {model: fixed[k, 0].tolist() for k, model in enumerate(BENCHMARKS)}
    benchmarks = dict(zip(BENCHMARKS, fixed, strict=True))
    item = {"data": data, "pairs": pairs, "epochs": epochs, "marks": marks}
    scores: Scores = {}  # (pairs, marks, metrics)
    claims: list[Claim] = []
    for activation in ("tanh",) if job.quick else ("tanh", "relu"):
        trained = _trained(job, item, activation, vectors=True)
        scores |= trained
        if job.quick:
            continue
        said = _claims(job, item, activation, trained, benchmarks, seeds)
        if activation == "tanh":
            without = _trained(job, item, activation, vectors=False)
            said = agreed(said, _claims(job, item, activation, without, benchmarks, seeds, vectors=False))
        claims += said
    last = {key: values[:, -1] for key, values in scores.items()}
    notes = [
        f"{seeds} initializations on split {SPLIT} and {len(splits)} further splits with a seed each, {epochs} epochs; "
        "a difference is to the risk-neutral network with the same initial weights, batches and split, or to a "
        "benchmark on the same split. Over splits the t-test allows for overlapping test sets.",
        "The paper states neither the risk parameters nor the activation: beta 0.5, alpha 0.1, a 2. Claims are judged "
        "with tanh and repeated with ReLU. S-CVaR as printed has slopes below 1 and its OCE is the mean: its claims "
        "are judged by the risk-neutral network; the corrected one stands beside it. Against the benchmarks the loss "
        "is the one with the best printed figure, so that the choice is the paper's.",
    ]
    if job.quick:
        notes.append("A quick run: too few epochs and seeds, and no ReLU, to judge the claims on networks.")
    return Outcome(
        tables=(
            exact_table(data, exact),
            network_table(data, last, seeds),
            paired_table(differences(last, benchmarks, seeds)),
        ),
        figures=(spread_figure(data, last, seeds), epoch_figure(data, scores, seeds, marks)),
        claims=(exact_claim(data, exact), *claims),
        notes=tuple(notes),
        numbers={"benchmarks": exact, "splits": splits},
        seeds=tuple(range(seeds)),
    )


def _trained(
    job: Job, item: dict[str, Any], activation: str, vectors: bool, losses: Iterable[str] = tuple(LOSSES)
) -> Scores:
    chosen = list(losses)
    answers = job.map(train, [{**item, "activation": activation, "loss": loss} for loss in chosen], vectors)
    return {(activation, loss): np.array(answer) for loss, answer in zip(chosen, answers, strict=True)}


def _claims(
    job: Job,
    item: dict[str, Any],
    activation: str,
    trained: Scores,
    benchmarks: dict[str, Floats],
    seeds: int,
    *,
    vectors: bool = True,
) -> list[Claim]:
    """The claims on networks, after more seeds for the rows that none of the first comes near."""
    data, marks = item["data"], item["marks"]
    wanted = {
        _judge(loss): None
        for loss in LOSSES
        if needs_more_runs(PRINTED[data][loss], trained[activation, _judge(loss)][:seeds, -1])
    }
    further = {**item, "pairs": [[SPLIT, seed] for seed in range(seeds, RANKING_RUNS)]}
    more = _trained(job, further, activation, vectors, wanted)
    return network_claims(data, activation, trained, more, benchmarks, seeds, marks)


def _judge(loss: str) -> str:
    """The network that a printed row is judged by: the printed S-CVaR has slopes below 1, and its OCE is the mean."""
    return NEUTRAL if loss == SMOOTH else loss


def load(data: str) -> tuple[Floats, NDArray[np.int64]]:
    """Features and labels; of the heart table the 297 rows without a missing value."""
    if data == "breast-cancer":
        from sklearn.datasets import load_breast_cancer

        X, y = load_breast_cancer(return_X_y=True)
        return np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.int64)
    text = files("certeq.paper").joinpath("data/heart_cleveland.csv").read_text(encoding="utf-8")
    rows = [row for row in csv.reader(text.splitlines()[1:]) if "" not in row]
    table = np.array(rows, dtype=np.float64)
    return table[:, :-1], table[:, -1].astype(np.int64)


def split(data: str, state: int) -> tuple[Floats, Floats, NDArray[np.int64], NDArray[np.int64]]:
    """Seven tenths to train on, stratified; features standardized on them."""
    from sklearn.model_selection import train_test_split
    from sklearn.preprocessing import StandardScaler

    X, y = load(data)
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.3, random_state=state, stratify=y)
    scaler = StandardScaler().fit(X_train)
    return scaler.transform(X_train), scaler.transform(X_test), y_train, y_test


def calibration_error(y: NDArray[Any], p: Floats) -> float:
    """Expected calibration error over ten bins (lo, hi] of the probability of class 1."""
    bin_of = np.searchsorted(np.linspace(0.0, 1.0, 11), p, side="left")
    error = 0.0
    for b in range(1, 11):
        inside = bin_of == b
        if inside.any():
            error += inside.mean() * abs(p[inside].mean() - y[inside].mean())
    return float(error)


def score(y: NDArray[Any], p: Floats, label: NDArray[Any] | None = None) -> list[float]:
    """Accuracy, F1, ECE and AUROC; a model that decides otherwise than by p > 1/2 brings its own labels."""
    from sklearn.metrics import accuracy_score, f1_score, roc_auc_score

    label = (p > 0.5).astype(np.int64) if label is None else label
    return [
        float(accuracy_score(y, label)),
        float(f1_score(y, label)),
        calibration_error(y, p),
        float(roc_auc_score(y, p)),
    ]


def benchmark(data: str, model: str, state: int = SPLIT) -> list[float]:
    """The four figures of a deterministic benchmark, on the paper's split or another."""
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.svm import SVC

    X, X_test, y, y_test = split(data, state)
    models: dict[str, Any] = {
        "Logistic regression": lambda: LogisticRegression(solver="liblinear"),
        "SVC": lambda: SVC(probability=True, random_state=SPLIT),
        "Random forest": lambda: RandomForestClassifier(random_state=SPLIT),
    }
    with warnings.catch_warnings():  # newer versions advise against SVC's own probabilities; the printed row is of them
        warnings.filterwarnings("ignore", "The `probability` parameter", FutureWarning)
        chosen = models[model]().fit(X, y)
    # SVC's labels come from its margin, not from its (separately fitted) probabilities.
    return score(y_test, chosen.predict_proba(X_test)[:, 1], chosen.predict(X_test))


def train(
    data: str, loss: str, activation: str, pairs: list[list[int]], epochs: int, marks: list[int]
) -> list[list[list[float]]]:
    """Train one network per (split, seed), all side by side; their test scores after each of the marked epochs.

    Each is what ``OCENetworkClassifier(LOSSES[loss], activation=activation, random_state=seed)`` trains, up to
    rounding: the networks of a stack share every matrix product and no number.
    """
    import torch

    from certeq.torch import oce

    parts = [split(data, state) for state, _ in pairs]
    X, X_test = (torch.tensor(np.array([part[i] for part in parts]), dtype=torch.float32) for i in (0, 1))
    y = torch.tensor(np.array([part[2] for part in parts]), dtype=torch.float32)
    n, sizes = X.shape[1], (X.shape[2], *HIDDEN, 1)
    started = [_start(seed, sizes, n, epochs) for _, seed in pairs]
    weights = [torch.stack(layer).requires_grad_() for layer in zip(*(layers for layers, _ in started), strict=True)]
    orders: Any = torch.stack([order for _, order in started])  # (networks, epochs, n)
    curve = {"tanh": torch.tanh, "relu": torch.relu}[activation]
    adam, rows = torch.optim.Adam(weights, lr=STEP), torch.arange(len(pairs))[:, None]

    def logits(inputs: Any) -> Any:
        for k in range(0, len(weights), 2):
            inputs = torch.baddbmm(weights[k + 1], inputs if k == 0 else curve(inputs), weights[k])
        return inputs[:, :, 0]

    found = []
    for epoch in range(epochs):
        for batch in orders[:, epoch].split(BATCH, dim=1):
            adam.zero_grad()
            losses = torch.nn.functional.binary_cross_entropy_with_logits(
                logits(X[rows, batch]), y[rows, batch], reduction="none"
            )
            total: Any = oce(losses, LOSSES[loss], dim=1).sum()
            total.backward()
            adam.step()
        if epoch + 1 in marks:
            with torch.no_grad():
                p = torch.sigmoid(logits(X_test).double()).numpy()
            found.append([score(part[3], p[k]) for k, part in enumerate(parts)])
    return [[scores[k] for scores in found] for k in range(len(pairs))]


def _start(seed: int, sizes: tuple[int, ...], n: int, epochs: int) -> tuple[list[Any], Any]:
    """Initial weights and the order of samples in each epoch, drawn as the estimators of `certeq.learn` do."""
    import torch
    from sklearn.utils import check_random_state

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(check_random_state(seed).randint(2**31 - 1)))
        layers = [torch.nn.Linear(a, b) for a, b in pairwise(sizes)]
        orders = torch.stack([torch.randperm(n) for _ in range(epochs)])
    tensors = [part for one in layers for part in (one.weight.detach().T.contiguous(), one.bias.detach()[None])]
    return tensors, orders


@dataclass(frozen=True)
class SeedsAndSplits:
    """Over seeds on the paper's split, over other splits with a seed each, and the share of seeds above 0."""

    seeds: Paired
    splits: Paired
    above: float


Differences = dict[tuple[str, str, str, str], SeedsAndSplits]


def differences(last: dict[tuple[str, str], Floats], benchmarks: dict[str, Floats], seeds: int) -> Differences:
    """By activation, loss, what it is compared with, and metric.

    ``last`` holds scores of (seeds, then splits) for each network; ``benchmarks`` those of (the paper's split, then the
    same splits): without randomness of their own, one row serves all seeds. S-CVaR is that of the paper, the
    risk-neutral network; the corrected one has a name of its own.
    """
    found = {}
    networks = {
        (activation, CORRECTED if loss == SMOOTH else loss): values for (activation, loss), values in last.items()
    }
    networks |= {(activation, SMOOTH): values for (activation, loss), values in last.items() if loss == NEUTRAL}
    for (activation, loss), values in networks.items():
        if loss == NEUTRAL:
            continue
        others: dict[str, Any] = {NEUTRAL: last[activation, NEUTRAL]}
        for name, scores in benchmarks.items():
            others[name] = np.vstack([np.repeat(scores[:1], seeds, axis=0), scores[1:]])
        for other, theirs in others.items():
            for column, metric in enumerate(METRICS):
                part = values[:, column] - theirs[:, column]
                found[activation, loss, other, metric] = SeedsAndSplits(
                    paired(part[:seeds]), paired(part[seeds:], OVERLAP), float((part[:seeds] > 0).mean())
                )
    return found


def exact_claim(data: str, exact: dict[str, list[float]]) -> Claim:
    """The cells without randomness."""
    off = max(abs(a - b) for name in exact for a, b in zip(exact[name], PRINTED[data][name], strict=True))
    return Claim(
        "All 12 cells of the deterministic benchmarks",
        "4 digits",
        f"greatest difference {off:.1e}",
        verdict_of(off <= ROUNDING),
        "deterministic",
        "Half of the last printed digit is 5e-05.",
        FIXED,
        **row_of(data, "Logistic regression"),
    )


def network_claims(
    data: str,
    activation: str,
    scores: Scores,
    more: Scores,
    benchmarks: dict[str, Floats],
    seeds: int,
    marks: list[int],
) -> list[Claim]:
    """Against the risk-neutral network, against the benchmarks, comparable or not, and each printed row."""
    last = {key: values[:, -1] for key, values in scores.items()}
    found = differences(last, benchmarks, seeds)
    claims = []
    for metric, sign in CLAIMED[data]:
        chosen = _claimed(data, metric, sign)
        claims += [_better(data, found, activation, loss, NEUTRAL, metric, sign) for loss in chosen]
        if SMOOTH in chosen:
            claims.append(_better(data, found, activation, CORRECTED, NEUTRAL, metric, sign))
        best = _best(data, metric, sign)
        claims += [_better(data, found, activation, best, other, metric, sign) for other in BENCHMARKS]
    claims += [_comparable(data, found, activation, other) for other in (NEUTRAL, *BENCHMARKS)]
    claims += [_row(data, activation, loss, scores, more, seeds, marks) for loss in LOSSES]
    whose: Whose = "paper" if activation == "tanh" else "again"
    return controlled(replace(claim, whose=whose if claim.whose == "paper" else claim.whose) for claim in claims)


def _claimed(data: str, metric: str, sign: float) -> list[str]:
    """The losses whose printed figure is on the claimed side of the risk-neutral network's."""
    column = METRICS.index(metric)
    own = PRINTED[data][NEUTRAL][column]
    return [loss for loss in list(LOSSES)[1:] if sign * (PRINTED[data][loss][column] - own) > 0]


def _best(data: str, metric: str, sign: float) -> str:
    """The OCE loss with the best printed figure."""
    return max(list(LOSSES)[1:], key=lambda loss: sign * PRINTED[data][loss][METRICS.index(metric)])


def _better(data: str, found: Differences, activation: str, loss: str, other: str, metric: str, sign: float) -> Claim:
    entry, column = found[activation, loss, other, metric], METRICS.index(metric)
    why = {
        SMOOTH: "As printed it is the risk-neutral network: the difference is 0 by construction."
        if other == NEUTRAL
        else "As printed it is risk neutral.",
        CORRECTED: "The corrected utility, which is not the paper's.",
    }.get(loss, "")
    claim = Claim(
        f"{loss}: {metric} {'higher' if sign > 0 else 'lower'} than {_whose(other)} ({activation})",
        "not printed" if loss == CORRECTED else f"{PRINTED[data][loss][column] - PRINTED[data][other][column]:+.4f}",
        f"{entry.seeds} over seeds, {entry.splits} over splits",
        "within noise",
        f"{entry.seeds.interval} and {entry.splits.low:+.4f} to {entry.splits.high:+.4f}; "
        f"sd {entry.seeds.deviation:.4f} and {entry.splits.deviation:.4f}",
        why,
        BETTER,
        "ours" if loss == CORRECTED else "paper",
        **quoted(data),
    )
    return with_evidence(claim, of_differences((part, sign) for part in (entry.seeds, entry.splits)))


def _comparable(data: str, found: Differences, activation: str, other: str) -> Claim:
    """Two one-sided tests over splits, for six losses and three metrics."""
    entries = {
        f"{loss} {metric}": found[activation, loss, other, metric].splits
        for loss in list(LOSSES)[1:] for metric in ALIKE[data]
        if not (loss == SMOOTH and other == NEUTRAL)  # one and the same network
    }  # fmt: skip
    sure, evidence, lowest = likeness(entries, MARGIN)
    worse = [name for name, part in entries.items() if part.ceiling < -MARGIN]
    undecided = len(entries) - sure - len(worse)
    why = f"Below the margin at 5 %: {', '.join(worse)}. " if worse else ""
    why += f"Undecided at 5 %: {undecided} of {len(entries)}." if undecided else ""
    claim = Claim(
        f"OCE networks are comparable to {_whose(other)} on {', '.join(ALIKE[data])}, or better ({activation})",
        "comparable" if data == "breast-cancer" else "higher, which is more",
        f"{sure} of {len(entries)} differences over splits are above -{MARGIN:g} with 95 % confidence",
        "within noise",
        lowest,
        why.strip(),
        LIKE,
        **quoted(data),
    )
    return with_evidence(claim, evidence)


def _row(data: str, activation: str, loss: str, scores: Scores, more: Scores, seeds: int, marks: list[int]) -> Claim:
    """A printed row by its rank among the seeds, and when in training a missed figure was nearest."""
    printed = np.array(PRINTED[data][loss])
    path, further = scores[activation, _judge(loss)][:seeds], more.get((activation, _judge(loss)))
    values = with_more_runs(printed, path[:, -1], None if further is None else further[:, -1])
    if len(values) > len(path) and further is not None:
        path = np.concatenate([path, further])  # (seeds, marks, metrics)
    ranked = of_row(printed, values)
    why = "The printed utility is risk neutral, and the row is judged as such." if loss == SMOOTH else ""
    if ranked.outside.any():
        mean, deviation = path.mean(axis=0), path.std(axis=0, ddof=1)
        near = []
        for column in np.flatnonzero(ranked.outside):
            at = int(np.abs(mean[:, column] - printed[column]).argmin())
            near.append(
                f"{METRICS[column]} (printed {printed[column]:.4f}) after {marks[at]} epochs with "
                f"{mean[at, column]:.4f}, sd {deviation[at, column]:.4f}"
            )
        names = ", ".join(METRICS[c] for c in np.flatnonzero(ranked.outside))
        why += f" Outside the range of all seeds: {names}. Nearest on average, of {', '.join(map(str, marks))} "
        why += f"epochs: {'; '.join(near)}."
    claim = Claim(
        f"{loss}: the printed row ({', '.join(METRICS)}), {activation}",
        digits(printed),
        digits(values.mean(axis=0)),
        ranked.verdict,
        scatter(values, "seeds"),
        why.strip(),
        ROW,
        **row_of(data, loss),
    )
    return with_rank(claim, ranked)


def _whose(other: str) -> str:
    return {NEUTRAL: "the risk-neutral network", "SVC": "the support vector machine"}.get(other, other.lower())


def exact_table(data: str, exact: dict[str, list[float]]) -> ResultTable:
    """The deterministic benchmarks beside their printed cells."""
    columns = ("Model", *(f"{metric}{tail}" for metric in METRICS for tail in ("", " printed")))
    rows: list[tuple[Any, ...]] = [
        (name, *(x for pair in zip(exact[name], PRINTED[data][name], strict=True) for x in pair)) for name in exact
    ]
    return ResultTable("benchmarks", "Deterministic benchmarks", columns, tuple(rows))


def network_table(data: str, last: Scores, seeds: int) -> ResultTable:
    """Mean and deviation of every network over seeds, beside the printed row."""
    columns = ("Activation", "Loss", *(f"{metric}{tail}" for metric in METRICS for tail in ("", " sd", " printed")))
    rows = []
    for (activation, loss), values in last.items():
        mean, deviation = values[:seeds].mean(axis=0), values[:seeds].std(axis=0, ddof=1)
        cells = zip(mean.tolist(), deviation.tolist(), PRINTED[data][loss], strict=True)
        rows.append((activation, loss, *(x for triple in cells for x in triple)))
    return ResultTable("networks", f"Networks over {seeds} seeds, split {SPLIT}", columns, tuple(rows))


def paired_table(differences: Differences) -> ResultTable:
    """Every difference: to the risk-neutral network and to each benchmark, over seeds and over splits."""
    words = ("sd", "low", "high", "p")
    heads = ("Over seeds", *words, "share above", "Over splits", *(f"{word} splits" for word in words))
    rows: list[tuple[Any, ...]] = []
    for key, both in differences.items():
        s, t = both.seeds, both.splits
        seeds = (s.value, s.deviation, s.low, s.high, s.p, both.above)
        rows.append((*key, *seeds, t.value, t.deviation, t.low, t.high, t.p))
    columns = ("Activation", "Loss", "Less", "Metric", *heads)
    title = "Differences to the risk-neutral network and to the benchmarks, with 95 % intervals"
    return ResultTable("paired", title, columns, tuple(rows))


def spread_figure(data: str, last: Scores, seeds: int) -> Figure:
    """One point for each seed, beside the printed figures."""
    panels = []
    for metric in ("ECE", "AUROC"):
        column = METRICS.index(metric)
        clouds = []
        for activation in dict.fromkeys(activation for activation, _ in last):
            x = [loss for loss in LOSSES for _ in range(seeds)]
            y = [float(v) for loss in LOSSES for v in last[activation, loss][:seeds, column]]
            clouds.append(Series(f"{activation}, one seed", x, y, "points"))
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
            series.append(band(loss, marks, values.mean(axis=0), values.std(axis=0, ddof=1)))
        panels.append(Panel(tuple(series), f"{metric}, tanh", "epochs", metric, log_x=True))
    alt = f"ECE and AUROC on the {data} test set against epochs of training, mean and standard deviation over seeds."
    return Figure("epochs", f"Test scores while training: {data}", alt, tuple(panels))


EXPERIMENTS = (
    Experiment(
        name="classification-breast-cancer",
        title="Classification: breast cancer",
        where="Breast-cancer tables, main text and supplement",
        run=partial(run, "breast-cancer"),
    ),
    Experiment(
        name="classification-heart",
        title="Classification: heart disease",
        where="Heart-disease tables, main text and supplement",
        run=partial(run, "heart"),
    ),
)

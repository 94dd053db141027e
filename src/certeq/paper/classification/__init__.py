"""Classification on breast cancer and heart disease: deterministic benchmarks, and networks under OCE losses.

The benchmarks have no free choice and must match the printed cells. The networks depend on their seed and on the split,
so they are judged by both: the same seeds (initial weights, order of batches) for every loss, differences to the
risk-neutral network and to the benchmarks in pairs.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from certeq.paper._experiment import Experiment, Job, Outcome
from certeq.paper.classification._claims import exact_claim, network_claims
from certeq.paper.classification._data import BENCHMARKS, SPLIT
from certeq.paper.classification._differences import differences
from certeq.paper.classification._models import LOSSES, benchmark, train
from certeq.paper.classification._tables import epoch_figure, exact_table, network_table, paired_table, spread_figure


def run(data: str, job: Job) -> Outcome:
    """One of the two tables."""
    seeds = max(2, job.seeds)
    splits = [state for state in range(seeds + SPLIT) if state != SPLIT][:seeds]
    epochs = 40 if job.quick else 500
    marks = [mark for mark in (5, 10, 20, 50, 100, 200) if mark < epochs] + [epochs]
    pairs = [[SPLIT, seed] for seed in range(seeds)] + [[state, state] for state in splits]
    keys = [(bend, loss) for bend in (("tanh",) if job.quick else ("tanh", "relu")) for loss in LOSSES]
    item = {"data": data, "pairs": pairs, "epochs": epochs, "marks": marks}
    answers = job.map(train, [{**item, "activation": bend, "loss": loss} for bend, loss in keys])
    scores = {key: np.array(answer) for key, answer in zip(keys, answers, strict=True)}  # (pairs, marks, metrics)
    asked = [{"data": data, "model": model, "state": state} for model in BENCHMARKS for state in (SPLIT, *splits)]
    fixed = np.array(job.map(benchmark, asked)).reshape(len(BENCHMARKS), 1 + len(splits), -1)
    exact = {model: fixed[k, 0].tolist() for k, model in enumerate(BENCHMARKS)}
    last = {key: values[:, -1] for key, values in scores.items()}
    found = differences(last, dict(zip(BENCHMARKS, fixed, strict=True)), seeds)
    notes = [
        f"{seeds} initialisations on split {SPLIT} and {len(splits)} further splits with a seed each, {epochs} epochs; "
        "a difference is to the risk-neutral network with the same initial weights, batches and split, or to a "
        "benchmark on the same split. Over splits the t-test allows for overlapping test sets.",
        "The paper states neither the risk parameters nor the activation: beta 0.5, alpha 0.1, a 2, and every claim is "
        "judged once with tanh and once with ReLU. S-CVaR is the corrected form; the printed one is the mean. Against "
        "the benchmarks the loss is the one with the best printed figure, so that the choice is the paper's.",
    ]
    if job.quick:
        notes.append("A quick run: too few epochs and seeds, and no ReLU, to judge the claims on networks.")
    return Outcome(
        tables=(exact_table(data, exact), network_table(data, last, seeds), paired_table(found)),
        figures=(spread_figure(data, last, seeds), epoch_figure(data, scores, seeds, marks)),
        claims=(
            exact_claim(data, exact),
            *([] if job.quick else network_claims(data, found, last, scores, seeds, marks)),
        ),
        notes=tuple(notes),
        numbers={"benchmarks": exact, "splits": splits},
        seeds=tuple(range(seeds)),
    )


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

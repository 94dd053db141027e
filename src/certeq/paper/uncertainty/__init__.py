"""Uncertainty quantification on the heteroscedastic toy data: deep ensembles, mean-variance networks, and OCE.

The two benchmarks must match the printed digits at seed 0 of their library's notebooks. Fifty test points cannot tell
good calibration from luck (the truth itself scores 0.066 there), so every model is trained over seeds, and judged on
ten thousand fresh points over several data sets too.
"""

from __future__ import annotations

from certeq.paper._experiment import Experiment, Job, Outcome
from certeq.paper.uncertainty._claims import OURS, RECIPE, claims, seed_claim
from certeq.paper.uncertainty._tables import band_figure, scores_of, seed_table, set_table
from certeq.paper.uncertainty._training import DATA, MODELS, train, truth

KINDS = ("Deep ensembles", "MVE")
LATER = 100  # a second batch of seeds, to see how much a spread over the first is worth
ACROSS = (*KINDS, RECIPE, "MVE, paper's budget", OURS)


def run(job: Job) -> Outcome:
    """The table of calibration errors, over seeds and over data sets, and the three bands."""
    seeds = max(2, job.seeds)
    shorten, fresh = (10, 2_000) if job.quick else (1, 10_000)
    rest = {"shorten": shorten, "fresh": fresh}
    shown = (*KINDS, OURS)
    items = [
        {"model": model, "seed": k, "data": DATA, **rest, "band": k == 0 and model in shown}
        for model in MODELS for k in range(seeds)
    ]  # fmt: skip
    items += [{"model": model, "seed": k, "data": k, **rest} for model in ACROSS for k in range(seeds)]
    answers = job.map(train, items)
    later = [] if job.quick else [{"model": "MVE", "seed": LATER + k, "data": DATA, **rest} for k in range(seeds)]
    more = job.map(train, later)
    truths = job.map(truth, [{"data": k, "fresh": fresh} for k in (DATA, *range(seeds))])
    over_seeds = {model: answers[i * seeds : (i + 1) * seeds] for i, model in enumerate(MODELS)}
    first = {kind: over_seeds[kind][0] for kind in KINDS}
    if job.quick:  # the benchmarks at seed 0 are cheap and carry a claim on digits: they are trained to the end
        whole = [{"model": kind, "seed": 0, "data": DATA, "shorten": 1, "fresh": fresh, "band": True} for kind in KINDS]
        first = dict(zip(KINDS, job.map(train, whole), strict=True))
    others = answers[len(MODELS) * seeds :]
    over_sets = {model: others[i * seeds : (i + 1) * seeds] for i, model in enumerate(ACROSS)}
    notes = [
        f"{seeds} seeds on the paper's data set and {seeds} data sets, a seed each; fresh means {fresh} new points.",
        "beta is not stated in the paper; the paper's budget is 1000 epochs of full batches at a rate of 0.03.",
        "Every model is trained on the notebooks' own stream of random numbers, that of seed_everything at 0, 1, ...",
    ]
    if more:
        here, there = (float(scores_of(runs, "test")[:, 0].std(ddof=1)) for runs in (over_seeds["MVE"], more))
        notes.append(
            f"A spread over {seeds} seeds is itself a sample: the deviation of MVE's MACE is {here:.4f} over seeds 0 "
            f"to {seeds - 1} and {there:.4f} over seeds {LATER} to {LATER + seeds - 1}, all else being equal."
        )
    gone = {model: sum(not one for one in runs) for model, runs in over_seeds.items()}
    notes += [f"{model}: {count} of {seeds} runs diverged and are left out." for model, count in gone.items() if count]
    if job.quick:
        notes.append("A quick run: networks over seeds get a tenth of the epochs, too few to judge the claims on OCE.")
    return Outcome(
        tables=(
            seed_table(first, over_seeds, truths[0], {f"MVE, seeds from {LATER}": more} if more else {}),
            set_table(over_sets, truths[1:], fresh),
        ),
        figures=(band_figure({**first, "MVE with OCE, beta 0.1": over_seeds[OURS][0]}),),
        claims=(
            *(seed_claim(kind, first[kind], over_seeds[kind], job.quick) for kind in KINDS),
            *([] if job.quick else claims(over_seeds, over_sets, truths[0]["test"][0])),
        ),
        notes=tuple(notes),
        numbers={
            "seed 0": {kind: found.get("test") for kind, found in first.items()},
            "truth": truths[0],
            "diverged": gone,
        },
        seeds=tuple(range(seeds)),
    )


EXPERIMENTS = (
    Experiment(
        name="uncertainty",
        title="Uncertainty quantification",
        where="Calibration table of the main text and the figure of the three bands",
        run=run,
    ),
)

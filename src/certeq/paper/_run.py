"""`reproduce`: run the experiments by name, one after the other, each over all processes, and write what they found.

Their modules are imported when they are asked for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from shutil import rmtree

from certeq._files import write_text
from certeq.paper._experiment import Experiment, Outcome
from certeq.paper._job import LocalJob, one_thread
from certeq.paper._output import write_failure, write_index, write_outcome

_MODULES = {
    "portfolio-sp500": "portfolios",
    "portfolio-ftse100": "portfolios",
    "portfolio-nasdaq": "portfolios",
    "cvar-solver": "cvar_solver",
    "classification-breast-cancer": "classification",
    "classification-heart": "classification",
    "uncertainty": "uncertainty",
    "entropic-estimation": "entropic_estimation",
    "entropic-optimization": "entropic_optimization",
    "convergence": "convergence",
    "bounds": "bounds",
    "errata": "errata",
}
EXPERIMENTS = tuple(_MODULES)
"""The names `reproduce` takes, in the order of the report: the paper's tables and figures, and its errata.

Not the experiments themselves: their modules are imported when they are asked for, and may need an extra.

Examples
--------
>>> from certeq.paper import EXPERIMENTS
>>> EXPERIMENTS[0], EXPERIMENTS[-1]
('portfolio-sp500', 'errata')
"""
_STARTS = "random starts of OCE-SG, one for each seed"
_DEAR = "on more than 500 assets at most 5 (2 on synthetic data or in a quick run), as each takes half a minute"
_TABLE = "initial weights on the paper's split, and as many further splits"
# What --seeds N does in each experiment; where a spread is needed, N = 1 counts as 2.
SEEDING = {
    "portfolio-sp500": _STARTS,
    "portfolio-ftse100": _STARTS,
    "portfolio-nasdaq": f"{_STARTS}; {_DEAR}",
    "cvar-solver": f"{_STARTS}; on Nasdaq as in portfolio-nasdaq; none in a quick run, which does not judge rows",
    "classification-breast-cancer": _TABLE,
    "classification-heart": _TABLE,
    "uncertainty": "seeds of every network on the paper's data set, and as many further data sets",
    "entropic-estimation": "repetitions of the whole experiment",
    "entropic-optimization": "five runs of OCE-SG for each seed; the figure shows the paper's 20, or all if fewer",
    "convergence": "two runs of OCE-SG for each seed, schedule and regime",
    "bounds": "repetitions of what is simulated; the other rows are exact sums without randomness",
    "errata": "does not apply: each check has a fixed seed, as its answer is yes or no and has no spread",
}
SEEDS = 20
QUICK_SEEDS = 3
_TAG = "CACHEDIR.TAG"
_TAG_TEXT = (  # the first line is fixed by the standard that backup programs know
    "Signature: 8a477f597d28d172789f06886806bc55\n"
    "# Answers kept by `certeq reproduce`, so that an interrupted run goes on where it stopped. Safe to delete.\n"
)
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Result:
    """What became of one experiment: its folder, and its outcome or the reason there is none.

    Examples
    --------
    >>> from pathlib import Path
    >>> from certeq.paper import Result
    >>> Result("errata", Path("certeq-paper/errata"), None, "no data", 0.1).failure
    'no data'
    """

    name: str
    folder: Path
    outcome: Outcome | None
    failure: str | None
    seconds: float


def reproduce(
    names: Iterable[str] | None = None,
    *,
    quick: bool = False,
    seeds: int | None = None,
    out: str | Path = "certeq-paper",
    jobs: int | None = None,
    fresh: bool = False,
    progress: Progress | None = None,
) -> tuple[Result, ...]:
    """Run the paper's experiments and write their tables, figures and verdicts.

    Parameters
    ----------
    names : iterable of str, optional
        Some of `EXPERIMENTS`; all of them if left out.
    quick : bool
        Fewer seeds, shorter runs: does everything work? The verdicts are those of the full run only by luck.
    seeds : int, optional
        Seeds for what is random; 20 by default, 3 in a quick run. What a seed is in an experiment, where their number
        is capped and where it does not apply is written as ``seeds_are`` into its ``result.json``.
    out : path
        The folder to write to. It is made if need be. A folder with other people's files in it is refused.
    jobs : int, optional
        Processes; as many as there are cores by default. They are spawned, so a script that calls this needs the
        usual ``if __name__ == "__main__":``. 1 runs everything in this process.
    fresh : bool
        Forget the answers kept from earlier runs. Otherwise a run that was interrupted goes on where it stopped.
    progress : callable, optional
        Called as ``progress(name, done, total)``, where total may still grow.

    Returns
    -------
    tuple of Result
        In the order of the report. An experiment that could not run has a ``failure`` and does not stop the others.
        ``out/index.html`` joins all experiments the folder holds, those of earlier calls too.

    Notes
    -----
    Not to be judged by a quick run, and not quick otherwise: a full one takes the better part of an hour.

    Examples
    --------
    >>> import tempfile
    >>> from certeq.paper import reproduce
    >>> reproduce(["no such table"], out=tempfile.mkdtemp())  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    ValueError: ...
    """
    wanted = check_names(names)
    count = seeds if seeds is not None else QUICK_SEEDS if quick else SEEDS
    if count < 1:
        raise ValueError(f"seeds must be at least 1, found {count}.")
    folder = _prepared(Path(out), fresh)
    results = []
    with LocalJob(quick=quick, seeds=count, cache=folder / ".cache", jobs=jobs) as job:
        for name in wanted:
            results.append(_run(name, job, folder / name, progress))
            write_index(folder, EXPERIMENTS)
    return tuple(results)


def check_names(names: Iterable[str] | None) -> tuple[str, ...]:
    """The experiments asked for, in the order of the report and each once; all of them if none is named."""
    if isinstance(names, str):
        names = (names,)
    wanted = tuple(names or ())
    for name in wanted:
        if name not in _MODULES:
            close = get_close_matches(str(name).lower(), EXPERIMENTS, n=1, cutoff=0.4)
            hint = f"did you mean {close[0]!r}? " if close else ""
            raise ValueError(f"there is no experiment {name!r}; {hint}There are: {', '.join(EXPERIMENTS)}.")
    return tuple(name for name in EXPERIMENTS if name in wanted) if wanted else EXPERIMENTS


def find_experiment(name: str) -> Experiment:
    """The experiment of that name; ImportError, in one line, where its module or an extra it needs is missing."""
    (name,) = check_names((name,))
    where = f"certeq.paper.{_MODULES[name]}"
    try:
        module = import_module(where)
    except ModuleNotFoundError as error:
        if error.name == where:
            raise ImportError(f"{name} is not part of this installation: {where} is missing.", name=where) from None
        raise ImportError(f"{name} needs {error.name}: pip install 'certeq[paper]'.", name=error.name) from error
    for experiment in module.EXPERIMENTS:
        if experiment.name == name:
            found: Experiment = experiment
            return found
    raise ImportError(f"{where} has no experiment {name!r}.", name=where)


def _run(name: str, job: LocalJob, folder: Path, progress: Progress | None) -> Result:
    def tell(done: int, total: int) -> None:
        if progress is not None:
            progress(name, done, total)

    began = time.perf_counter()
    job.reporting_to(tell)
    tell(0, 0)
    try:
        experiment = find_experiment(name)
        with one_thread():
            outcome = experiment.run(job)
    except Exception as error:  # whatever it was, the other experiments can still be run
        failure = f"{type(error).__name__}: {error}"
        seconds = time.perf_counter() - began
        write_failure(folder, name, failure, job, seconds)
        return Result(name, folder, None, failure, seconds)
    seconds = time.perf_counter() - began
    write_outcome(folder, experiment, outcome, SEEDING.get(name, ""), job, seconds)
    return Result(name, folder, outcome, None, seconds)


def _prepared(folder: Path, fresh: bool) -> Path:
    """The folder, with a place for answers in it; one that holds something else is left alone."""
    cache = folder / ".cache"
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"{folder} is a file; name a folder.")
    if folder.is_dir() and any(folder.iterdir()) and not (cache / _TAG).is_file():
        raise FileExistsError(f"{folder} holds files that are not of `certeq reproduce`; name another folder.")
    if fresh and cache.is_dir():
        rmtree(cache)
    cache.mkdir(parents=True, exist_ok=True)
    for left in folder.rglob(".*.part"):  # of a run that was killed while it wrote
        left.unlink(missing_ok=True)
    write_text(cache / _TAG, _TAG_TEXT, force=True)
    return folder

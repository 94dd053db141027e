"""`reproduce`: run experiments one after the other, each over all processes, and write what they found."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree

from certeq.paper._experiment import Outcome
from certeq.paper._job import LocalJob, one_thread
from certeq.paper._output import write_failure, write_index, write_outcome
from certeq.paper._registry import check_names, find_experiment
from certeq.report import write_text

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

    Not a verdict: those are the claims of its outcome.

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
            write_index(folder)
    return tuple(results)


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
    write_outcome(folder, experiment, outcome, job, seconds)
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

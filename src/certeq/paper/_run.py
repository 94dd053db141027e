"""`reproduce`: run the experiments by name, and write what they found; and how their many pieces run.

Modules of experiments are imported when they are asked for. Pieces run over processes, one thread each. An answer is
kept on disk under everything it depends on: the function, its arguments, the code and the versions of the
libraries. So a run that was interrupted goes on where it stopped, and one after a change of the code starts anew.
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import json
import multiprocessing
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from pathlib import Path
from shutil import rmtree
from typing import Any

from certeq._files import write_text
from certeq._threads import one_thread
from certeq.paper._experiment import Experiment, Outcome
from certeq.paper._output import versions, write_index, write_outcome, write_without_outcome
from certeq.paper._sources import sources_digest
from certeq.risk import UnitWarning

_MODULES = {
    "portfolio-sp500": "portfolios",
    "portfolio-ftse100": "portfolios",
    "portfolio-nasdaq": "portfolios",
    "cvar-solver": "cvar_solver",
    "entropic-estimation": "entropic",
    "entropic-optimization": "entropic",
    "convergence": "convergence",
    "bounds": "bounds",
    "errata": "errata",
}
# The markets an experiment judges portfolios on: one whose data are not there is left out. `errata` needs none of
# them: of a market without its file it checks what skfolio states.
_MARKETS = {
    "portfolio-sp500": ("sp500",),
    "portfolio-ftse100": ("ftse100",),
    "portfolio-nasdaq": ("nasdaq",),
    "cvar-solver": ("sp500", "ftse100", "nasdaq"),
}
_PATIENCE, _QUICK_PATIENCE = 20.0, 5.0  # seconds a server may keep silent
EXPERIMENTS = tuple(_MODULES)
"""The names `reproduce` takes, in the order of the report: the paper's tables and figures, and its errata.

Not the experiments themselves: their modules are imported when they are asked for, and may need an extra.

See Also
--------
reproduce
    Run the paper's experiments.
check_names
    Experiments in the order of the report.

Examples
--------
>>> from certeq.paper import EXPERIMENTS
>>> EXPERIMENTS[0], EXPERIMENTS[-1]
('portfolio-sp500', 'errata')
"""
_STARTS = "random starts of OCE-SG, one for each seed"
_DEAR = "at most 5, as each takes half a minute there (2 if quick)"
# What --seeds N does in each experiment; where a spread is needed, N = 1 counts as 2.
SEEDING = {
    "portfolio-sp500": _STARTS,
    "portfolio-ftse100": _STARTS,
    "portfolio-nasdaq": f"{_STARTS}; {_DEAR}",
    "cvar-solver": f"{_STARTS}; none in a quick run, which judges no rows",
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
_PACKAGES = ("utilities", "risk", "optimize", "torch", "portfolio", "learn", "report")  # all that are below this one
_WITHOUT_VECTORS = {"ATEN_CPU_CAPABILITY": "default"}  # PyTorch reads it when it is first imported
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
Progress = Callable[[str, int, int], None]
PieceProgress = Callable[[int, int], None]


@dataclass(frozen=True)
class Result:
    """What became of one experiment: its folder, and its outcome or the reason there is none.

    Attributes
    ----------
    name : str
        Name of the experiment.
    folder : Path
        Where its files are.
    outcome : Outcome or None
        What it has to say.
    failure : str or None
        Why there is no outcome.
    seconds : float
        Time that it took.
    left_out : tuple of str
        Markets whose data are not there, with the reason. Where no market is left, there is neither an outcome nor a
        failure.

    See Also
    --------
    reproduce
        Run the paper's experiments.
    Outcome
        All that an experiment has to say.

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
    left_out: tuple[str, ...] = ()


def reproduce(
    names: Iterable[str] | None = None,
    *,
    quick: bool = False,
    seeds: int | None = None,
    sensitivity: bool = False,
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
    sensitivity : bool
        Also vary what the paper does not state (beta, alpha, burn-in, step, start) in tables of their own: hours
        instead of minutes.
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
        In the order of the report. An experiment that could not run has a ``failure`` and does not stop the others. A
        market whose data are neither cached nor to be had by a download is named in ``left_out``.
        ``out/index.html`` joins all experiments the folder holds, those of earlier calls too.

    See Also
    --------
    check_names
        Experiments in the order of the report.
    EXPERIMENTS
        The names of the experiments.
    Result
        What became of an experiment.

    Notes
    -----
    Not to be judged by a quick run, and not quick otherwise: a full one takes half an hour on two cores.

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
    missing: dict[str, str] = {}
    with LocalJob(quick=quick, seeds=count, sensitivity=sensitivity, cache=folder / ".cache", jobs=jobs) as job:
        for name in wanted:
            results.append(_run(name, job, folder / name, missing, progress))
            write_index(folder, EXPERIMENTS)
    return tuple(results)


def check_names(names: Iterable[str] | None) -> tuple[str, ...]:
    """The experiments asked for, in the order of the report and each once; all of them if none is named.

    Parameters
    ----------
    names : iterable of str or None
        Names of experiments.

    Returns
    -------
    tuple of str
        The names; an unknown one is refused.

    See Also
    --------
    reproduce
        Run the paper's experiments.
    EXPERIMENTS
        The names of the experiments.

    Examples
    --------
    >>> from certeq.paper import check_names
    >>> check_names(["errata", "bounds", "errata"])
    ('bounds', 'errata')
    """
    if isinstance(names, str):
        names = (names,)
    wanted = tuple(names or ())
    for name in wanted:
        if name not in _MODULES:
            close = get_close_matches(str(name).lower(), EXPERIMENTS, n=1, cutoff=0.4)
            hint = f"; did you mean {close[0]!r}?" if close else "."
            raise ValueError(f"there is no experiment {name!r}{hint} There are: {', '.join(EXPERIMENTS)}.")
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


def _run(name: str, job: LocalJob, folder: Path, missing: dict[str, str], progress: Progress | None) -> Result:
    """``missing`` says why a market is not there, "" if it is; markets that were not asked for yet are added."""

    def tell(done: int, total: int) -> None:
        if progress is not None:
            progress(name, done, total)

    began = time.perf_counter()
    job.reporting_to(tell)
    tell(0, 0)
    left_out: tuple[str, ...] = ()
    try:
        experiment = find_experiment(name)
        with one_thread(), _units_of_the_paper(), _markets_there(name, job.quick, missing) as left_out:
            outcome = experiment.run(job) if len(left_out) < max(1, len(_MARKETS.get(name, ()))) else None
    except Exception as error:  # whatever it was, the other experiments can still be run
        failure = f"{type(error).__name__}: {error}"
        seconds = time.perf_counter() - began
        write_without_outcome(folder, name, {"failure": failure}, job.facts(seconds))
        return Result(name, folder, None, failure, seconds, left_out)
    seconds = time.perf_counter() - began
    facts = {"sources": sources_digest(experiment.run), **job.facts(seconds)}
    if outcome is None:
        write_without_outcome(folder, name, {"left_out": list(left_out)}, facts)
    else:
        write_outcome(folder, experiment, outcome, SEEDING.get(name, ""), {**facts, "left_out": list(left_out)})
    return Result(name, folder, outcome, None, seconds, left_out)


@contextlib.contextmanager
def _units_of_the_paper() -> Iterator[None]:
    """Its parameters are what is judged, whether or not they suit the unit: nobody who runs it could change them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnitWarning)
        yield


@contextlib.contextmanager
def _markets_there(name: str, quick: bool, missing: dict[str, str]) -> Iterator[tuple[str, ...]]:
    """While an experiment runs, there are only the markets that have data; the others are named, with the reason."""
    if name not in _MARKETS:
        yield ()
        return
    from certeq.paper._markets import MARKETS, why_missing, without_markets

    for key in _MARKETS[name]:
        if key not in missing:
            missing[key] = why_missing(key, _QUICK_PATIENCE if quick else _PATIENCE)
    absent = [key for key in _MARKETS[name] if missing[key]]
    left_out = tuple(
        f"{MARKETS[key].title}, whose file skfolio neither finds (SKFOLIO_DATA) nor can download ({missing[key]})"
        for key in absent
    )
    with without_markets(absent):
        yield left_out


def _prepared(folder: Path, fresh: bool) -> Path:
    """The folder, with a folder for answers in it; one that holds something else is left alone."""
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


class LocalJob:
    """The `Job` of this machine; use it in a ``with`` block, which ends its processes.

    ``cache`` is the folder answers are kept in (None keeps nothing), ``jobs`` the number of processes (as many as there
    are cores if left out; 1 runs everything in this process), ``progress`` is told how many pieces are done of how many
    are known so far.
    """

    def __init__(
        self,
        *,
        quick: bool = False,
        seeds: int = 3,
        sensitivity: bool = False,
        cache: str | Path | None = None,
        jobs: int | None = None,
        progress: PieceProgress | None = None,
    ) -> None:
        if seeds < 1:
            raise ValueError(f"seeds must be at least 1, found {seeds}.")
        if jobs is not None and jobs < 1:
            raise ValueError(f"jobs must be at least 1, found {jobs}.")
        self.quick = quick
        self.seeds = seeds
        self.sensitivity = sensitivity
        self.jobs = jobs or _cores()
        self._cache = None if cache is None else Path(cache)
        self._progress = progress
        self._done = self._total = 0
        self.work_seconds = 0.0  # of a processor, for all pieces, in this run or an earlier one
        self.kept = 0  # pieces taken from an earlier run
        self._pools: dict[bool, ProcessPoolExecutor] = {}  # with vector instructions, and without

    def map(self, function: Callable[..., Any], items: Sequence[Mapping[str, Any]], vectors: bool = True) -> list[Any]:
        """``[function(**item) for item in items]`` in this order, whatever order they were finished in.

        Without ``vectors`` they run in processes whose PyTorch uses no vector instructions beyond its baseline, so that
        training in single precision rounds as it does on another machine.

        Answers pass through JSON whether they are fresh or kept, so a resumed run sees the very same values (and lists
        where the function gave tuples).
        """
        paths = [self._path(function, item, vectors) for item in items]
        answers: list[Any] = [None] * len(items)
        missing = []
        for index, path in enumerate(paths):
            kept = _kept(path)
            if kept is None:
                missing.append(index)
            else:
                answers[index] = self._counted(kept)
                self.kept += 1
        self._total += len(items)
        self._tick(len(items) - len(missing))
        for index, text in self._computed(function, items, missing, vectors):
            path = paths[index]
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                write_text(path, text, force=True)
            answers[index] = self._counted(json.loads(text))
            self._tick(1)
        return answers

    def reporting_to(self, progress: PieceProgress | None) -> LocalJob:
        """Count from nought again, for another listener; the processes stay."""
        self._progress, self._done, self._total = progress, 0, 0
        self.work_seconds, self.kept = 0.0, 0
        return self

    def facts(self, seconds: float) -> dict[str, Any]:
        """How the pieces were run, for `result.json`."""
        return {
            "quick": self.quick,
            "seeds_asked": self.seeds,
            "sensitivity": self.sensitivity,
            "jobs": self.jobs,
            "seconds": round(seconds, 3),
            "work_seconds": round(self.work_seconds, 3),
            "pieces_kept_from_an_earlier_run": self.kept,
        }

    def close(self) -> None:
        """End the processes, at once."""
        pools, self._pools = self._pools, {}
        for pool in pools.values():
            workers = list((getattr(pool, "_processes", None) or {}).values())
            pool.shutdown(wait=False, cancel_futures=True)
            for worker in workers:
                worker.terminate()
            pool.shutdown(wait=True)

    def __enter__(self) -> LocalJob:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _computed(
        self, function: Callable[..., Any], items: Sequence[Mapping[str, Any]], missing: list[int], vectors: bool
    ) -> Iterator[tuple[int, str]]:
        """Indices and answers as they come."""
        if (self.jobs == 1 and vectors) or not missing:
            yield from ((index, _answered(function, dict(items[index]))) for index in missing)
            return
        if vectors not in self._pools:
            spawn = multiprocessing.get_context("spawn")
            settings = {} if vectors else _WITHOUT_VECTORS
            self._pools[vectors] = ProcessPoolExecutor(
                self.jobs, mp_context=spawn, initializer=_prepare_worker, initargs=(settings,)
            )
        pool = self._pools[vectors]
        with _ctrl_c_later():
            waiting = {pool.submit(_answered, function, dict(items[index])): index for index in missing}
        try:
            for future in as_completed(waiting):
                yield waiting[future], future.result()
        except BaseException:
            self.close()  # what is half done will be done again; what was finished is kept
            raise

    def _counted(self, record: dict[str, Any]) -> Any:
        self.work_seconds += float(record.get("seconds", 0.0))
        return record["answer"]

    def _path(self, function: Callable[..., Any], item: Mapping[str, Any], vectors: bool) -> Path | None:
        name = f"{function.__module__}.{function.__qualname__}"
        if "<" in name:
            raise ValueError(f"function must be defined at the top of a module, found {name}.")
        try:
            arguments = json.dumps(item, sort_keys=True, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise TypeError(f"items of {name} must be JSON values: {error}.") from None
        if self._cache is None:
            return None
        code = [sources_digest(function), below_digest()]
        key = json.dumps([name, arguments, *code, versions(), *([] if vectors else ["no vectors"])])
        folder = name.removeprefix("certeq.paper.")
        return self._cache / folder / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.json"

    def _tick(self, pieces: int) -> None:
        self._done += pieces
        if self._progress is not None:
            self._progress(self._done, self._total)


@contextlib.contextmanager
def _ctrl_c_later() -> Iterator[None]:
    """Workers that start in here never hear of Ctrl-C, not even while they import; we do, a moment later."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@cache
def below_digest() -> str:
    """Of the code of every package below this one, on which any answer may depend."""
    import certeq

    root = Path(inspect.getfile(certeq)).parent
    below = [path for package in _PACKAGES for end in ("*.py", "*.c") for path in (root / package).rglob(end)]
    digest = hashlib.sha256()
    for path in sorted({*root.glob("*.py"), *below}):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def _answered(function: Callable[..., Any], item: dict[str, Any]) -> str:
    """What is kept: the answer as JSON, with the question beside it for whoever opens the file."""
    name = f"{function.__module__}.{function.__qualname__}"
    began = time.process_time()
    try:
        with one_thread(), _units_of_the_paper():
            answer = function(**item)
    except Exception as error:
        error.add_note(f"(while computing {name} for {_short(item)})")
        raise
    try:
        seconds = round(time.process_time() - began, 3)
        record = {"function": name, "item": item, "seconds": seconds, "answer": answer}
        return json.dumps(record, allow_nan=False) + "\n"
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} must answer with finite JSON values; for {_short(item)}: {error}.") from None


def _kept(path: Path | None) -> dict[str, Any] | None:
    """An answer of an earlier run; a file somebody damaged counts as none."""
    if path is None or not path.is_file():
        return None
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        return None
    return kept if isinstance(kept, dict) and "answer" in kept else None


def _prepare_worker(settings: Mapping[str, str]) -> None:
    """One thread, no answer to Ctrl-C (the parent ends us), and no life without the parent."""
    os.environ.update(dict.fromkeys(_THREADS, "1"))  # for libraries that a piece loads; `one_thread` sees to the others
    os.environ.update(settings)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_follow, args=(parent,), daemon=True).start()


def _follow(parent: Any) -> None:
    """A parent that was killed cannot end its workers: they see it go and end themselves."""
    parent.join()
    os._exit(1)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _short(item: Mapping[str, Any]) -> str:
    text = json.dumps(item)
    return text if len(text) <= 200 else text[:199] + "…"

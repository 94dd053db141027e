"""How an experiment runs its many pieces: over processes, one thread each, every answer kept on disk.

An answer is kept under everything it depends on: the function, its arguments, the code and the versions of the
libraries. So a run that was interrupted goes on where it stopped, and one after a change of the code starts anew.
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import json
import multiprocessing
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from certeq._files import write_text

LIBRARIES = ("certeq", "numpy", "scipy", "pandas", "scikit-learn", "skfolio", "torch", "skorch", "uncertainty-toolbox")
_ROOMS = ("utilities", "risk", "optimize", "torch", "portfolio", "learn", "report")  # all that is below this one
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
Progress = Callable[[int, int], None]


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
        cache: str | Path | None = None,
        jobs: int | None = None,
        progress: Progress | None = None,
    ) -> None:
        if seeds < 1:
            raise ValueError(f"seeds must be at least 1, found {seeds}.")
        if jobs is not None and jobs < 1:
            raise ValueError(f"jobs must be at least 1, found {jobs}.")
        self.quick = quick
        self.seeds = seeds
        self.jobs = jobs or _cores()
        self._cache = None if cache is None else Path(cache)
        self._progress = progress
        self._done = self._total = 0
        self.work_seconds = 0.0  # of a processor, for all pieces, in this run or an earlier one
        self.kept = 0  # pieces taken from an earlier run
        self._pool: ProcessPoolExecutor | None = None

    def map(self, function: Callable[..., Any], items: Sequence[Mapping[str, Any]]) -> list[Any]:
        """``[function(**item) for item in items]`` in this order, whatever order they were finished in.

        Answers pass through JSON whether they are fresh or kept, so a resumed run sees the very same values (and lists
        where the function gave tuples).
        """
        places = [self._place(function, item) for item in items]
        answers: list[Any] = [None] * len(items)
        missing = []
        for index, place in enumerate(places):
            kept = _kept(place)
            if kept is None:
                missing.append(index)
            else:
                answers[index] = self._taken(kept)
                self.kept += 1
        self._total += len(items)
        self._tick(len(items) - len(missing))
        for index, text in self._computed(function, items, missing):
            place = places[index]
            if place is not None:
                place.parent.mkdir(parents=True, exist_ok=True)
                write_text(place, text, force=True)
            answers[index] = self._taken(json.loads(text))
            self._tick(1)
        return answers

    def _taken(self, record: dict[str, Any]) -> Any:
        self.work_seconds += float(record.get("seconds", 0.0))
        return record["answer"]

    def reporting_to(self, progress: Progress | None) -> LocalJob:
        """Count from nought again, for another listener; the processes stay."""
        self._progress, self._done, self._total = progress, 0, 0
        self.work_seconds, self.kept = 0.0, 0
        return self

    def close(self) -> None:
        """End the processes, at once."""
        pool, self._pool = self._pool, None
        if pool is not None:
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
        self, function: Callable[..., Any], items: Sequence[Mapping[str, Any]], missing: list[int]
    ) -> Iterator[tuple[int, str]]:
        """Places and answers as they come."""
        if self.jobs == 1 or len(missing) == 0:
            with one_thread():
                for index in missing:
                    yield index, _answered(function, dict(items[index]))
            return
        if self._pool is None:
            self._pool = ProcessPoolExecutor(
                self.jobs, mp_context=multiprocessing.get_context("spawn"), initializer=_prepare_worker
            )
        with _ctrl_c_later():
            waiting: dict[Future[str], int] = {
                self._pool.submit(_answered, function, dict(items[index])): index for index in missing
            }
        try:
            for future in as_completed(waiting):
                yield waiting[future], future.result()
        except BaseException:
            self.close()  # what is half done will be done again; what was finished is kept
            raise

    def _place(self, function: Callable[..., Any], item: Mapping[str, Any]) -> Path | None:
        name = f"{function.__module__}.{function.__qualname__}"
        if "<" in name:
            raise ValueError(f"function must be defined at the top of a module, found {name}.")
        try:
            arguments = json.dumps(item, sort_keys=True, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise TypeError(f"items of {name} must be JSON values: {error}.") from None
        if self._cache is None:
            return None
        key = json.dumps([name, arguments, code_hash(function.__module__), versions()])
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


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Linear algebra with one thread: sums come out in the same order, and processes do not fight over the cores."""
    try:
        from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]
    except ImportError:
        raise ImportError(
            "experiments need threadpoolctl: pip install 'certeq[paper]'.", name="threadpoolctl"
        ) from None
    torch = sys.modules.get("torch")
    before = torch.get_num_threads() if torch is not None else None
    if torch is not None:
        torch.set_num_threads(1)
    try:
        with threadpool_limits(limits=1):
            yield
    finally:
        if torch is not None:
            torch.set_num_threads(before)


@cache
def code_hash(module: str) -> str:
    """A digest of the code an answer of this module may depend on.

    That is the module, what it imports from `certeq.paper`, and every room below. The other experiments and the
    writing of files are left out, so that work on those does not repeat this one.
    """
    import certeq

    root = Path(inspect.getfile(certeq)).parent
    rooms = [path for room in _ROOMS for path in (root / room).rglob("*.py")]
    own = inspect.getsourcefile(sys.modules[module])
    used = _imported(Path(own), root / "paper") if own else set()
    digest = hashlib.sha256()
    for path in sorted({*rooms, *used}):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def _imported(module: Path, folder: Path) -> set[Path]:
    """The module and, through each other, the modules of the folder that it names in its imports."""
    found, waiting = set(), [module]
    while waiting:
        path = waiting.pop()
        if path in found or not path.is_file():
            continue
        found.add(path)
        for name in re.findall(r"certeq\.paper\.([\w.]+)", path.read_text(encoding="utf-8")):
            place = folder.joinpath(*name.split("."))
            waiting += [place.with_suffix(".py"), *place.glob("*.py")]  # a module, or a package with all it holds
    return found


def _answered(function: Callable[..., Any], item: dict[str, Any]) -> str:
    """What is kept: the answer as JSON, with the question beside it for whoever opens the file."""
    name = f"{function.__module__}.{function.__qualname__}"
    began = time.process_time()
    try:
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


def _kept(place: Path | None) -> dict[str, Any] | None:
    """An answer of an earlier run; a file somebody damaged counts as none."""
    if place is None or not place.is_file():
        return None
    try:
        kept = json.loads(place.read_text(encoding="utf-8"))
    except ValueError:
        return None
    return kept if isinstance(kept, dict) and "answer" in kept else None


def _prepare_worker() -> None:
    """One thread, no answer to Ctrl-C (the parent ends us), and no life without the parent."""
    for name in _THREADS:
        os.environ[name] = "1"
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_follow, args=(parent,), daemon=True).start()
    import numpy  # noqa: F401  (its library must be loaded before it can be limited)
    import scipy.linalg  # noqa: F401
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    threadpool_limits(limits=1)


def _follow(parent: Any) -> None:
    """A parent that was killed cannot end its workers: they see it go and end themselves."""
    parent.join()
    os._exit(1)


def versions() -> dict[str, str]:
    """Of the libraries that are installed."""
    found = {"python": sys.version.split()[0]}
    for name in LIBRARIES:
        with contextlib.suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _short(item: Mapping[str, Any]) -> str:
    text = json.dumps(item)
    return text if len(text) <= 200 else text[:199] + "…"

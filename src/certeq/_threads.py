"""Threads: a pool for passes over blocks, and linear algebra that stays on the thread that asks for it.

NumPy's loops release the interpreter lock, so that blocks are worked on in parallel. A BLAS with threads of its own
would fight for the same cores: a step of a solver makes dozens of products that take microseconds each, and where the
cores are busy (a test runner, a pool of workers) its threads wait for one another. A hundred
times slower has been seen.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import copy_context
from functools import cache
from typing import Any, TypeVar

import numpy as np

Result = TypeVar("Result")

_lock = threading.Lock()
_pools: dict[int, ThreadPoolExecutor] = {}


def thread_count() -> int:
    """Cores this process may use, or CERTEQ_NUM_THREADS."""
    asked = os.environ.get("CERTEQ_NUM_THREADS")
    if asked:
        if not asked.isdigit() or int(asked) < 1:
            raise ValueError(f"CERTEQ_NUM_THREADS must be a whole number above 0; found {asked!r}.")
        return int(asked)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _pool() -> ThreadPoolExecutor:
    pid = os.getpid()  # a pool does not survive a fork
    with _lock:
        if pid not in _pools:
            _pools.clear()
            _pools[pid] = ThreadPoolExecutor(max_workers=thread_count(), thread_name_prefix="certeq")
        return _pools[pid]


class _Queue:
    """Positions 0, 1, ... that several threads take one by one, each of them once."""

    def __init__(self, count: int) -> None:
        self._lock, self._next, self._count = threading.Lock(), 0, count

    def take(self) -> int | None:
        with self._lock:
            taken = self._next
            self._next += 1
        return taken if taken < self._count else None

    def stop(self) -> None:
        with self._lock:
            self._count = 0


def run_all(task: Callable[[Any], Result], items: Sequence[Any], parallel: bool) -> list[Result]:
    """[task(item) for item in items], on all cores if ``parallel``; the order, and so every bit, is the same.

    The caller works too: it is awake already, and to wake as many threads as there are cores costs milliseconds.
    """
    count = min(thread_count(), len(items)) if parallel else 1
    if count < 2 or threading.current_thread().name.startswith("certeq"):
        return [task(item) for item in items]
    found: list[Result | None] = [None] * len(items)
    queue = _Queue(len(items))

    def work() -> None:
        try:
            while (position := queue.take()) is not None:
                found[position] = task(items[position])
        except BaseException:
            queue.stop()  # nobody needs to begin another
            raise

    # What a caller says of floating-point errors holds in its threads too.
    others = [_pool().submit(copy_context().run, work) for _ in range(count - 1)]
    try:
        work()
    finally:
        begun = [other for other in others if not other.cancel()]
        wait(begun)  # they read the caller's memory
    for other in begun:
        other.result()
    return found  # type: ignore[return-value]


@cache
def _blas_libraries() -> list[Any]:
    try:
        from threadpoolctl import ThreadpoolController  # type: ignore
    except ImportError:
        return []
    return list(ThreadpoolController().select(user_api="blas").lib_controllers)


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """A context in which every product runs on the thread that asks for it.

    threadpoolctl is used where it is installed, as it is beside scikit-learn; without it nothing changes.
    """
    # The controller's own context looks up every property of every library: as long as a step on a small table.
    threaded = [(library, count) for library in _blas_libraries() if (count := library.num_threads) != 1]
    for library, _ in threaded:
        library.set_num_threads(1)
    try:
        yield
    finally:
        for library, count in threaded:
            library.set_num_threads(count)


def keep_pages() -> None:
    """Teach the C library's allocator to keep the memory of temporaries instead of handing it back each time.

    glibc raises its thresholds to the largest block it has seen freed; without this, every temporary of a block is
    mapped, zeroed and unmapped again, which costs several times the arithmetic. Nothing is touched, so it is free.
    """
    np.empty(3 << 20)

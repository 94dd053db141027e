"""Two cores are better than one: a pool for block-wise passes. NumPy's loops release the interpreter lock."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextvars import copy_context
from typing import Any, TypeVar

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


def run_all(task: Callable[[Any], Result], items: Sequence[Any], parallel: bool) -> list[Result]:
    """[task(item) for item in items], on all cores if ``parallel``; the order, and so every bit, is the same.

    The caller works too: it is awake already, and to wake as many threads as there are cores costs milliseconds.
    """
    count = min(thread_count(), len(items)) if parallel else 1
    if count < 2 or threading.current_thread().name.startswith("certeq"):
        return [task(item) for item in items]
    found: dict[int, Result] = {}
    left = iter(range(len(items)))  # shared: whoever is free takes the next one

    def work() -> None:
        try:
            for place in left:
                found[place] = task(items[place])
        except BaseException:
            deque(left, maxlen=0)  # nobody needs to begin another
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
    return [found[place] for place in range(len(items))]

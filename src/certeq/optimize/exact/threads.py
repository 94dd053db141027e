"""One BLAS thread at a time.

A step makes dozens of products that take microseconds each. A threaded BLAS splits them all the same, and where
the cores are busy (a test runner, a pool of workers) its threads wait for one another: a hundred times slower has
been seen. Large tables are worked on by blocks of rows in parallel instead, which need not wait. threadpoolctl is
used where it is installed, as it is beside scikit-learn; without it nothing changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any


@cache
def _libraries() -> list[Any]:
    try:
        from threadpoolctl import ThreadpoolController  # type: ignore
    except ImportError:
        return []
    return list(ThreadpoolController().select(user_api="blas").lib_controllers)


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """A context in which every product runs on the thread that asks for it."""
    # The controller's own context looks up every property of every library: as long as a step on a small table.
    threaded = [(library, count) for library in _libraries() if (count := library.num_threads) != 1]
    for library, _ in threaded:
        library.set_num_threads(1)
    try:
        yield
    finally:
        for library, count in threaded:
            library.set_num_threads(count)

"""One BLAS thread at a time.

A step makes dozens of products that take microseconds each. A threaded BLAS splits them all the same, and where
the cores are busy (a test runner, a pool of workers) its threads wait for one another: a hundred times slower has
been seen. Large tables are worked on by blocks of rows in parallel instead, which need not wait. threadpoolctl is
used where it is installed, as it is beside scikit-learn; without it nothing changes.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any


@cache
def _controller() -> Any:
    try:
        from threadpoolctl import ThreadpoolController  # type: ignore
    except ImportError:
        return None
    return ThreadpoolController()


def one_blas_thread() -> AbstractContextManager[Any]:
    """A context in which every product runs on the thread that asks for it."""
    controller = _controller()
    return nullcontext() if controller is None else controller.limit(limits=1, user_api="blas")

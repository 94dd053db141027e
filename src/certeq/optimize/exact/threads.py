"""One BLAS thread for small problems.

A step makes dozens of products that take microseconds each. A threaded BLAS splits them all the same, and where
the cores are busy (a test runner, a pool of workers) its threads wait for one another: a hundred times slower has
been seen. threadpoolctl is used where it is installed, as it is beside scikit-learn; without it nothing changes.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

_SMALL = 4_000_000  # numbers in the table


@cache
def _controller() -> Any:
    try:
        from threadpoolctl import ThreadpoolController  # type: ignore
    except ImportError:
        return None
    return ThreadpoolController()


def threads_for(size: int) -> AbstractContextManager[Any]:
    """A context in which products of a table of this size run on as many threads as they are worth."""
    controller = _controller() if size <= _SMALL else None
    return nullcontext() if controller is None else controller.limit(limits=1, user_api="blas")

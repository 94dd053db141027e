"""Samples that are read in blocks whatever their size, and a count of how often they are read.

The library reads small tables as a whole. This file alone changes that, so that small problems test the way of large
ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from certeq._table import ArrayTable
from certeq.optimize.exact import _panel


class Counted(ArrayTable):
    """A table in memory that counts how often any such table is read."""

    reads = 0

    def reduce(self, *args: Any, **kwargs: Any) -> Any:
        Counted.reads += 1
        return super().reduce(*args, **kwargs)

    def with_weights(self, weights: Any) -> Counted:
        return Counted(super().with_weights(weights).values, weights)


def reads_of(call: Callable[[], Any]) -> tuple[Any, int]:
    """Return what a call returns, and how often it read tables."""
    Counted.reads = 0
    return call(), Counted.reads


@contextmanager
def small_tables_in_blocks() -> Iterator[None]:
    """Read tables of any size in blocks."""
    with mock.patch.object(_panel, "_WHOLE", 0):
        yield

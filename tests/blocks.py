"""Samples that are read in blocks whatever their size, and a count of how often they are read.

The library reads small tables as a whole. This file alone changes that, so that small problems test what large ones
need.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from certeq import _table
from certeq.optimize.exact import _panel


class Counted(_table.ArrayTable):
    """A table in memory that is read in blocks."""

    def with_weights(self, weights: Any) -> Counted:
        return Counted(super().with_weights(weights).values, weights)


def reads_of(call: Callable[[], Any]) -> tuple[Any, int]:
    """Return what a call returns, and how often it read samples and tables from end to end."""
    reads, reduce = 0, _table.ArrayTable.reduce

    def counting(table: _table.ArrayTable, *args: Any, **kwargs: Any) -> Any:
        nonlocal reads
        reads += 1
        return reduce(table, *args, **kwargs)

    with mock.patch.object(_table.ArrayTable, "reduce", counting):
        return call(), reads


@contextmanager
def short_samples_in_blocks() -> Iterator[None]:
    """Read samples of any size as those of 65,536 losses or more are read, if they have weights."""
    with mock.patch("certeq.risk._api.LONG", 1):
        yield


@contextmanager
def dask_samples_in_blocks() -> Iterator[None]:
    """Read Dask losses of any number chunk by chunk."""
    with mock.patch("certeq.scale.DaskSample.near", 0):
        yield


@contextmanager
def small_tables_in_blocks(numbers: int = 1000) -> Iterator[None]:
    """Read tables and memory-mapped matrices of any size in blocks of so many numbers."""
    with (
        mock.patch.object(_panel, "_WHOLE", 0),
        mock.patch.object(_table, "LARGE", 0),
        mock.patch.object(_table, "_PIECE", numbers),
    ):
        yield

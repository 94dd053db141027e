"""Dask, untyped: it ships type hints for a part of itself only, which strict checks take for errors of the caller."""

from __future__ import annotations

from importlib import import_module
from typing import Any, TypeAlias

DaskArray: TypeAlias = Any  # a dask.array.Array

dask: Any = import_module("dask")
da: Any = import_module("dask.array")
delayed: Any = import_module("dask.delayed").delayed
Delayed: Any = import_module("dask.delayed").Delayed
HighLevelGraph: Any = import_module("dask.highlevelgraph").HighLevelGraph
get_scheduler: Any = import_module("dask.base").get_scheduler
threaded_get: Any = import_module("dask.threaded").get
sync_get: Any = import_module("dask.local").get_sync
tokenize: Any = import_module("dask.base").tokenize

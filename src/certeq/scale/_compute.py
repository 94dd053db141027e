"""Where a graph runs is Dask's to say; what is said when the cluster goes away is ours.

Dask comes untyped: it ships type hints for a part of itself only, which strict checks take for errors of the caller.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any, TypeAlias
from uuid import uuid4

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

_LOOK = 2.0  # seconds between looks at a cluster that has not answered yet
_GRACE = 30.0  # seconds without any worker, or without the scheduler, after which the cluster counts as lost


class ClusterLost(RuntimeError):
    """The cluster went away before the answer was complete; there is no partial one.

    Not raised for an error of the data, such as a NaN or a missing file: that is passed on as it is.

    See Also
    --------
    as_sample
        Losses in Dask as a sample.

    Examples
    --------
    >>> from certeq.scale import ClusterLost
    >>> issubclass(ClusterLost, RuntimeError)
    True
    """


class Scheduler:
    """Where Dask would run a graph now, held on to: what begins there ends there or not at all.

    Dask itself asks anew each time, so that a client closed between two passes would hand the second to this process
    or to an older client, and one opened between them would draw the second away.
    """

    def __init__(self) -> None:
        self._get = get_scheduler(cls=da.Array)
        owner = getattr(self._get, "__self__", None)
        self.client: Any = owner if type(owner).__module__.partition(".")[0] == "distributed" else None
        self._where = "" if self.client is None else _address(self.client)  # a client that is closed forgets it

    def __reduce__(self) -> tuple[type[Scheduler], tuple[()]]:
        return Scheduler, ()  # a client does not travel; what is unpickled runs where Dask runs there

    @property
    def closed(self) -> bool:
        """Whether there was a client that is no longer to be had; one that looks for its scheduler still is."""
        return self.client is not None and self.client.status in ("closing", "closed")

    @property
    def here(self) -> bool:
        """Whether tasks run in this process: what they return has not travelled."""
        return self._get in (threaded_get, sync_get)

    def run(self, tasks: dict[Any, Any], keys: Any, arrays: Sequence[DaskArray]) -> Any:
        """The values of some keys of a graph of tasks which depend on each other and on the chunks of ``arrays``."""
        if self.here:
            # Straight to the scheduler: to look for what might be optimized takes longer than a short pass.
            graph = dict(tasks)
            for array in arrays:
                graph.update(array.dask)
            # Nor is a thread woken for a single task.
            return (sync_get if len(graph) == 1 else self._get)(graph, keys)
        name = f"certeq-{uuid4().hex}"
        graph = HighLevelGraph.from_collections(name, tasks, dependencies=arrays)
        return self.compute(Delayed(keys, graph, layer=name))

    def compute(self, task: Any) -> Any:
        """The value of a delayed task, or `ClusterLost`."""
        if self.client is None:
            return dask.compute(task, scheduler=self._get)[0]
        if self.closed:
            raise self.lost("its client is closed")
        return self._on_cluster(task)

    def lost(self, reason: str) -> ClusterLost:
        """What to raise where the cluster is gone."""
        text = " ".join(reason.split()).rstrip(".")
        return ClusterLost(f"The Dask cluster{self._where} was lost: {text}. Nothing was computed in part.")

    def _on_cluster(self, task: Any) -> Any:
        from distributed import CancelledError, KilledWorker
        from distributed.client import ClosedClientError
        from distributed.comm.core import CommClosedError
        from distributed.scheduler import NoWorkerError

        try:
            with _out_of_the_way():
                return self._wait(self.client.compute(task))
        except KilledWorker as error:
            raise self.lost(_killed(error)) from error
        except (CancelledError, CommClosedError, NoWorkerError, ClosedClientError) as error:
            closed = "its client is closed; " if self.closed else ""
            raise self.lost(closed + (str(error) or type(error).__name__)) from error
        except OSError as error:
            if self.client.status == "running":  # the task's own, for instance a file that is not there
                raise
            raise self.lost(str(error) or type(error).__name__) from error

    def _wait(self, future: Any) -> Any:
        alive = time.monotonic()
        while not future.done():
            try:
                return future.result(timeout=_LOOK)
            except TimeoutError:
                if future.done():
                    break
            if self.closed:  # a task that was sent while the client was closing is never answered
                raise self.lost("its client is closed")
            workers = _workers_of(self.client)
            if workers:
                alive = time.monotonic()
            elif time.monotonic() - alive > _GRACE:
                if workers is None:  # nor would it answer to a word of farewell
                    raise self.lost(f"its scheduler has not answered for {_GRACE:.0f} s")
                future.cancel()
                raise self.lost(f"no worker has been there for {_GRACE:.0f} s")
        return future.result()


@contextmanager
def _out_of_the_way() -> Iterator[None]:
    """Inside a task of Dask, give its thread back while waiting: the tasks waited for may need it."""
    pool: Any = import_module("distributed")
    inside = bool(getattr(pool.worker.thread_state, "key", False))
    if inside:
        pool.secede()
    try:
        yield
    finally:
        if inside:
            pool.rejoin()


def _workers_of(client: Any) -> int | None:
    """How many workers there are; None where the scheduler does not say."""
    if client.status != "running":
        return None
    try:
        return len(client.nthreads(callback_timeout=_LOOK))
    except Exception:  # the scheduler does not answer, in whatever way
        return None


def _address(client: Any) -> str:
    known = getattr(getattr(client, "scheduler", None), "address", None)
    known = known or getattr(getattr(client, "cluster", None), "scheduler_address", None)
    return f" at {known}" if known else ""


def _killed(error: Any) -> str:
    """Why Dask gives a task up; it counts the deaths of workers task by task, however far apart they are."""
    times = error.allowed_failures + 1
    return (
        f"the worker that had one and the same task died {times} times, the last at {error.last_worker.address}, and "
        f"Dask allows {error.allowed_failures} (distributed.scheduler.allowed-failures). Workers that die of their "
        "memory need smaller chunks; where they are taken away on purpose, raise that setting on the scheduler"
    )

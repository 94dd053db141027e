"""Where a graph runs is Dask's to say; what is said when the cluster goes away is ours."""

from __future__ import annotations

import time
from typing import Any

from certeq.scale._dask import dask, get_scheduler

_LOOK = 2.0  # seconds between looks at a cluster that has not answered yet
_GRACE = 30.0  # seconds without any worker, or without the scheduler, after which the cluster counts as lost


class ClusterLost(RuntimeError):
    """The cluster went away before the answer was complete; there is no partial one.

    Not raised for an error of the data, such as a NaN or a missing file: that is passed on as it is.

    Examples
    --------
    >>> from certeq.scale import ClusterLost
    >>> issubclass(ClusterLost, RuntimeError)
    True
    """


def compute(task: Any) -> Any:
    """The value of a delayed task, on the active ``distributed.Client`` or else on the local scheduler."""
    client = active_client()
    if client is None:
        return dask.compute(task)[0]
    return _on_cluster(client, task)


def active_client() -> Any | None:
    """The ``distributed.Client`` that Dask would use now, if any."""
    owner = getattr(get_scheduler(), "__self__", None)
    return owner if type(owner).__module__.partition(".")[0] == "distributed" else None


def _on_cluster(client: Any, task: Any) -> Any:
    from distributed import CancelledError, KilledWorker
    from distributed.comm.core import CommClosedError
    from distributed.scheduler import NoWorkerError

    where = _address(client)  # a client that is closed forgets it
    try:
        future = client.compute(task)
        alive = time.monotonic()
        while not future.done():
            try:
                return future.result(timeout=_LOOK)
            except TimeoutError:
                if future.done():
                    break
            if _has_workers(client):
                alive = time.monotonic()
            elif time.monotonic() - alive > _GRACE:
                future.cancel()
                raise ClusterLost(_lost(where, f"no worker has been there for {_GRACE:.0f} s"))
        return future.result()
    except KilledWorker as error:
        raise ClusterLost(_lost(where, _killed(error))) from error
    except (CancelledError, CommClosedError, NoWorkerError) as error:
        closed = "" if client.status == "running" else "its client is closed; "
        raise ClusterLost(_lost(where, closed + (str(error) or type(error).__name__))) from error
    except OSError as error:
        if client.status == "running":  # the task's own, for instance a file that is not there
            raise
        raise ClusterLost(_lost(where, str(error) or type(error).__name__)) from error


def _has_workers(client: Any) -> bool:
    if client.status != "running":
        return False
    try:
        return bool(client.nthreads())
    except Exception:  # the scheduler does not answer, in whatever way
        return False


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


def _lost(where: str, reason: str) -> str:
    return f"The Dask cluster{where} was lost: {' '.join(reason.split()).rstrip('.')}. Nothing was computed in part."

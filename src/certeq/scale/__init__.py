"""The same numbers when the data outgrow one machine: losses in Dask arrays and columns of Dask DataFrames.

Nothing here needs to be called by name: ``ce.oce``, ``ce.threshold``, ``ce.estimate``, ``ce.tilt`` and ``ce.ubsr`` take
Dask losses as they take arrays. They run where Dask runs: on a ``distributed.Client`` if one is active, else on the
local scheduler.
"""

try:
    import dask.array  # noqa: F401
except ImportError as error:
    raise ImportError("certeq.scale needs Dask: pip install 'certeq[dask]'") from error

from certeq.scale._collections import as_sample
from certeq.scale._collections import as_table as as_table  # what `certeq._table` calls for matrices
from certeq.scale._compute import ClusterLost
from certeq.scale._dask_table import DaskSample
from certeq.scale._files import open_npy

__all__ = ["ClusterLost", "DaskSample", "as_sample", "open_npy"]

# Pickles and tracebacks name this package, not the file that a class happens to be written in.
for _class in (ClusterLost, DaskSample):
    _class.__module__ = __name__

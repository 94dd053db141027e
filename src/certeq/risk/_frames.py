"""Tables with labels: a pandas DataFrame of losses is read column by column, and answers carry its labels.

pandas is not imported here: where it is not loaded, nothing passed in can be one of its tables.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from certeq.risk._input import Axis, Floats


def is_frame(x: Any) -> bool:
    """Whether x is a pandas DataFrame."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(x, pandas.DataFrame)


def is_series(x: Any) -> bool:
    """Whether x is a pandas Series."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(x, pandas.Series)


def series_like(x: Any, values: Floats) -> Any:
    """One number for each entry of a Series, under its labels."""
    return sys.modules["pandas"].Series(values, index=x.index)


def columns_of(frame: Any) -> str:
    """The first columns of a table, for a message."""
    names = [repr(name) for name in frame.columns[:8]]
    return ", ".join(names) + (", ..." if len(frame.columns) > 8 else "")


def by_label(
    function: Callable[[Floats, Any, Axis], Any], x: Any, weights: Any, axis: Axis, *, keeps_shape: bool = False
) -> Any:
    """function(losses, weights, axis) of the numbers in a DataFrame, with its labels put back.

    ``axis`` None is 0, one answer for each column, as ``DataFrame.mean`` has it. With ``keeps_shape`` the function
    returns one number for each entry.
    """
    pandas = sys.modules["pandas"]
    reduced = _reduced(axis)
    answer = function(_numbers(x), _paired(x, weights, reduced), reduced)
    if keeps_shape:
        return pandas.DataFrame(answer, index=x.index, columns=x.columns)
    if isinstance(answer, float):
        return answer
    return pandas.Series(answer, index=x.columns if reduced == 0 else x.index)


def _reduced(axis: Any) -> int | tuple[int, ...]:
    """The axis of a table that is reduced, 0 or 1, or both."""
    if axis is None:
        return 0
    if not isinstance(axis, (int, np.integer, tuple, list)):
        raise TypeError(f"axis must be 0, 1, (0, 1) or None for a DataFrame; found {axis!r}.")
    axes = (axis,) if isinstance(axis, (int, np.integer)) else tuple(axis)
    try:
        found = tuple(int(each) for each in np.lib.array_utils.normalize_axis_tuple(axes, 2))
    except (ValueError, TypeError) as error:
        raise ValueError(f"axis must be 0, 1, (0, 1) or None for a DataFrame; found {axis!r} ({error}).") from error
    return found[0] if len(found) == 1 else found


def _numbers(x: Any) -> Floats:
    """The entries of a table as an array of numbers."""
    wrong = [name for name, dtype in x.dtypes.items() if getattr(dtype, "kind", "O") not in "fiubc"]
    if wrong:
        raise TypeError(
            f"x must hold numbers in every column; found {x.dtypes[wrong[0]]} in column {wrong[0]!r}. Choose the "
            "columns that do, for instance x.select_dtypes('number')."
        )
    if all(isinstance(dtype, np.dtype) for dtype in x.dtypes):
        return np.asarray(x.to_numpy())
    return np.asarray(x.to_numpy(dtype=np.float64, na_value=np.nan))  # a missing number is refused as NaN is


def _paired(x: Any, weights: Any, axis: int | tuple[int, ...]) -> Any:
    """The weights, if their labels, where they have any, are those of the losses they belong to."""
    if is_frame(weights):
        if not (weights.index.equals(x.index) and weights.columns.equals(x.columns)):
            raise ValueError(
                "weights must have the index and the columns of x; found other labels, or the same ones in another "
                "order. Pass weights.reindex_like(x), or weights.to_numpy() to pair them by place."
            )
        return weights.to_numpy()
    if is_series(weights):
        labels, name = (x.columns, "columns") if axis == 1 else (x.index, "index")
        if not weights.index.equals(labels):
            raise ValueError(
                f"weights must have the labels of x.{name}; found other labels, or the same ones in another order. "
                f"Pass weights.reindex(x.{name}), or weights.to_numpy() to pair them by place."
            )
        return weights.to_numpy()
    return weights

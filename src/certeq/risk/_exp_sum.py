"""The sum of exponentials of a block, twice as fast as adding up ``np.exp``: a table of cells, a parabola in each.

exp(x) = exp(c) exp(r) with c the center of x's cell, of width 1/8192. In the cell exp(r) is (1 + r)**2 / 2 + 1/2 up to
r**3 / 6, of which all but a quarter is taken by stretching the parabola by 1 + R**2 / 8, R the half-width: what
is left is below R**3 / 24 = 1e-14. No exponential has to be formed one by one, only the sums of the table's entries and
of their products with (1 + r)**2.
"""

from __future__ import annotations

import threading
from functools import cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_CELLS = 8192.0  # per unit
_BITS = 18
# The table covers [-REACH, REACH]; its last cell is left out, for what rounds up from it would come in again below.
REACH = (2.0 ** (_BITS - 1) - 1.0) / _CELLS
# Adding this rounds a number to a multiple of 1 / _CELLS and leaves the multiple in the low bits of the sum.
_ROUNDER = 1.5 * 2.0**52 / _CELLS
_STRETCH = 0.5 * (1.0 + (0.5 / _CELLS) ** 2 / 8.0)
_ROW = 8000  # BLAS uses threads of its own for longer dot products, and they would fight with ours

_own = threading.local()


@cache
def _table() -> Floats:
    cell = np.arange(1 << _BITS)
    return np.exp(np.where(cell < 1 << (_BITS - 1), cell, cell - (1 << _BITS)) / _CELLS)


def sum_exp(x: Floats, w: Floats | None, reach: float) -> float:
    """Sum of w * exp(x), to about 1e-14 of its size; ``reach`` bounds all abs(x), +inf or NaN where nothing does.

    Where that is further than the table's, plain exponentials are added up.
    """
    if not reach <= REACH:
        power = np.exp(x)
        return float(power.sum()) if w is None else float((w * power).sum())
    near, entry = _scratch(x.size)
    cell = near.view(np.int64)  # one array for both: to round twice is cheaper than a third array in the cache
    np.add(x, _ROUNDER, out=near)
    np.bitwise_and(cell, (1 << _BITS) - 1, out=cell)
    np.take(_table(), cell, out=entry, mode="clip")  # nothing is clipped; the other modes make a copy
    np.add(x, _ROUNDER, out=near)
    np.subtract(near, _ROUNDER + 1.0, out=near)
    np.subtract(x, near, out=near)  # 1 + r
    if w is not None:
        np.multiply(entry, w, out=entry)
    flat = float(entry.sum())
    np.multiply(entry, near, out=entry)
    return _STRETCH * _dot(entry, near) + (1.0 - _STRETCH) * flat


def _dot(a: Floats, b: Floats) -> float:
    whole = a.size // _ROW * _ROW
    rows = np.vecdot(a[:whole].reshape(-1, _ROW), b[:whole].reshape(-1, _ROW)) if whole else np.zeros(1)
    return float(rows.sum() + np.vecdot(a[whole:], b[whole:]))


def _scratch(size: int) -> tuple[Floats, Floats]:
    """Two arrays of this thread's own, kept from block to block."""
    kept = getattr(_own, "arrays", None)
    if kept is None or kept[0].size < size:
        kept = _own.arrays = (np.empty(size), np.empty(size))
    return kept[0][:size], kept[1][:size]

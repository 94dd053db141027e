"""OCE, threshold and tilt of arrays, along any axis, with weights."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from certeq._checks import check_weight_sums
from certeq._table import BLOCK, ArrayTable, Block, Sums, Table, as_sample
from certeq._threads import run_all
from certeq.risk._bisect import bisect_long, bisect_rows
from certeq.risk._frames import by_label, is_frame, is_series, series_like
from certeq.risk._input import (
    Axis,
    Floats,
    as_array,
    as_axis_last,
    as_weights,
    check_aligned,
    check_answer,
    check_not_empty,
    check_utility,
    complain_not_finite,
    free_to_overflow,
    locating,
)
from certeq.risk._long import LongSolved, solve_long, solve_sample, tilt_long, tilting
from certeq.risk._rows import Solved, solve_rows, tilt_rows
from certeq.risk._survey import LONG, NotFinite, raise_not_finite
from certeq.risk._vector import solve_vector, value_of_vector
from certeq.utilities import Exponential, Utility
from certeq.utilities.forms import Form, form


@free_to_overflow
def oce(
    x: ArrayLike,
    utility: Utility,
    weights: ArrayLike | None = None,
    axis: Axis = None,
    *,
    method: str = "auto",
    delta: float = 1e-6,
    epsilon: float = 1e-6,
) -> Any:
    r"""Optimized certainty equivalent of losses: :math:`\min_t\, t + \sum_i w_i u(x_i - t)`.

    Use it as ``np.mean``: an array in, a number out, or an array over the axes that are left. A pandas DataFrame gives
    a Series with one number for each column, as its own ``mean`` does.

    Parameters
    ----------
    x : array_like
        Losses: lower is better. Any real dtype, computed in float64; a memory-mapped array is read in blocks. A Dask
        array, or a column of a Dask DataFrame, is reduced where its chunks live.
    utility : Utility
        What risk means, for instance ``CVaR(0.05)``.
    weights : array_like, optional
        Non-negative weights, of the shape of x or one per sample; they are normalized to sum 1. A Series must have
        the labels of the samples: the index of x, or its columns where a DataFrame is reduced along axis 1.
    axis : int, tuple of int or None
        Where the samples run; all axes by default. Of a DataFrame None is 0: the samples are its rows, and 1 gives a
        number for each row. A Dask array of several dimensions is reduced as a whole, axis=None, and not along one.
    method : {"auto", "bisect"}
        "auto" is exact: a closed form, or Newton in a guaranteed bracket to rounding. "bisect" is the paper's OCE-SB,
        corrected, which stops at a bracket of width ``delta`` and a residual of ``epsilon``; its answer exceeds the
        exact one by at most ``delta * |residual|``.
    delta, epsilon : float
        Tolerances of "bisect".

    Returns
    -------
    float, ndarray or Series
        OCE, in the units of x.

    Notes
    -----
    Not for gains: pass ``-returns``. Not where the error matters, which `estimate` adds; nor inside a PyTorch graph,
    where `certeq.torch.oce` carries the gradient.

    Examples
    --------
    >>> import certeq as ce
    >>> float(ce.oce([1.0, 2.0, 3.0, 4.0], ce.CVaR(0.25)))
    4.0
    >>> ce.oce([[0.0, 1.0], [2.0, 2.0]], ce.MeanVariance(0.5), axis=1)
    array([0.625, 2.   ])
    """
    if type(x) is np.ndarray and weights is None and method == "auto":
        short = _short_vector(x, utility, axis)
        value = None if short is None else value_of_vector(*short)
        if value is not None and math.isfinite(value):
            return value
    if is_frame(x):
        settings: dict[str, Any] = {"method": method, "delta": delta, "epsilon": epsilon}
        return by_label(lambda z, w, along: oce(z, utility, w, along, **settings), x, weights, axis)
    far = as_sample(x, weights, axis)
    if method == "bisect":
        if far is not None:
            return _bisect_far(far, utility, delta, epsilon)
        problem = _Problem(x, utility, weights, axis)
        problem.takes_low = False
        return check_answer("OCE", problem.shaped(problem.bisect(delta, epsilon)), utility)
    _check_method(method)
    if far is not None:
        return check_answer("OCE", solve_sample(far, utility, value_only=True).value, utility)
    value = _Problem(x, utility, weights, axis).collect(lambda solved: solved.value, value_only=True)
    return check_answer("OCE", value, utility)


@free_to_overflow
def threshold(x: ArrayLike, utility: Utility, weights: ArrayLike | None = None, axis: Axis = None) -> Any:
    r"""The minimizer t* of :math:`t + E[u(X - t)]`: the smallest t with :math:`E[u'(X - t)] \le 1`.

    For CVaR it is the value at risk. Parameters are those of `oce`.

    Not to be compared digit by digit where the mean curvature nearly vanishes: t* is ill-conditioned there although
    OCE is not.

    Examples
    --------
    >>> import certeq as ce
    >>> float(ce.threshold([1.0, 2.0, 3.0, 4.0], ce.CVaR(0.5)))
    2.0
    """
    if type(x) is np.ndarray and weights is None:
        short = _short_vector(x, utility, axis)
        solved = None if short is None else solve_vector(short[0], None, short[1])
        if solved is not None and math.isfinite(solved.threshold):
            return solved.threshold
    if is_frame(x):
        return by_label(lambda z, w, along: threshold(z, utility, w, along), x, weights, axis)
    far = as_sample(x, weights, axis)
    if far is not None:
        return solve_sample(far, utility).threshold
    return _Problem(x, utility, weights, axis).collect(lambda solved: solved.threshold)


@free_to_overflow
def tilt(x: ArrayLike, utility: Utility, weights: ArrayLike | None = None, axis: Axis = None) -> Any:
    r"""The worst-case weights :math:`q_i = w_i u'(x_i - t^*)`; they sum to 1 over the axes reduced.

    The tilt solves the dual problem, and the gradient of OCE of losses F(theta) is ``sum_i q_i grad F_i``. Losses that
    tie at a kink share the fractional mass, so that for CVaR the sum is 1 whatever n * alpha. Parameters are
    those of `oce`.

    Has the shape of x, and the labels of a pandas Series or DataFrame; each column of a DataFrame sums to 1, unless
    ``axis`` is 1. For Dask losses it is a Dask array, chunked as they are and computed when asked for.

    Not a forecast: it says which of these samples matter, and nothing of how likely they are.

    Examples
    --------
    >>> import certeq as ce
    >>> ce.tilt([1.0, 2.0, 3.0, 4.0], ce.CVaR(0.5))
    array([0. , 0. , 0.5, 0.5])
    """
    if type(x) is np.ndarray and weights is None:
        short = _short_vector(x, utility, axis)
        solved = None if short is None else solve_vector(short[0], None, short[1])
        if solved is not None and np.isfinite(solved.tilt).all():
            return solved.tilt.reshape(x.shape)
    if is_frame(x):
        return by_label(lambda z, w, along: tilt(z, utility, w, along), x, weights, axis, keeps_shape=True)
    far = as_sample(x, weights, axis)
    if far is not None:
        return _tilt_far(far, utility)
    problem = _Problem(x, utility, weights, axis)
    rows = problem.tilts()
    return series_like(x, rows[0]) if is_series(x) else problem.restore(rows)


def _short_vector(x: Floats, utility: Any, axis: Axis) -> tuple[Floats, Form] | None:
    """One short sample in memory as the solver of vectors takes it; None where it is something else."""
    if not 0 < x.size < LONG or x.ndim == 0 or x.dtype.kind not in "fiu" or x.dtype.itemsize > 8:
        return None
    if axis is not None and (x.ndim != 1 or not (axis == -1 or axis == 0)):
        return None
    return np.ascontiguousarray(x, dtype=np.float64).reshape(-1), form(check_utility(utility))


def _check_method(method: object) -> None:
    if method != "auto":
        raise ValueError(f'method must be "auto" or "bisect"; found {method!r}.')


def _tilt_far(sample: Table, utility: Utility) -> Any:
    solved = solve_sample(sample, utility)
    tilt_of = tilting(solved, utility)
    if utility.is_monotone:
        (total,) = sample.reduce(Sums(lambda z, w: (float(tilt_of(z, w).sum()),)))
    else:  # slopes of both signs: their sum has fewer digits than the mass it should be
        total = solved.extent.mass

    def kernel(block: Block) -> Floats:
        return np.asarray(tilt_of(block.rows, block.weights) / total)

    return sample.elementwise(kernel)


def _bisect_far(sample: Table, utility: Utility, delta: float, epsilon: float) -> float:
    try:
        return float(bisect_long(sample, check_utility(utility), delta, epsilon).value[0])
    except NotFinite:
        raise_not_finite(sample, False)
        raise


class _Problem:
    """Losses as rows of samples, with the shape to give back."""

    def __init__(self, x: Any, utility: Utility, weights: Any, axis: Axis) -> None:
        self.utility = check_utility(utility)
        self.utility.anchor  # noqa: B018  (a sum whose slopes never reach 1 says so here)
        self.x = as_array("x", x)
        self.axis = axis
        self.rows, self.lead = as_axis_last(self.x, axis)
        check_not_empty(self.rows)
        check_aligned(x, weights)
        self.weights = as_weights(weights, self.x, axis)
        self.takes_low = isinstance(self.utility.shape, Exponential)
        self.locate = locating(self.x, axis)

    @property
    def is_long(self) -> bool:
        return bool(self.rows.shape[1] >= LONG)

    def weights_of(self, part: slice) -> Floats | None:
        if self.weights is None:
            return None
        chosen = self.weights if self.weights.shape[0] == 1 else self.weights[part]
        w = np.array(np.broadcast_to(chosen, self.rows[part].shape), dtype=np.float64)
        total = w.sum(axis=1, keepdims=True)
        check_weight_sums(float(w.min()), float(total.min()) if np.all(np.isfinite(total)) else np.nan, float(w.max()))
        return np.asarray(w / total)

    def losses_of(self, part: slice) -> Floats:
        z = np.ascontiguousarray(self.rows[part], dtype=np.float64)
        low, high = z.min(), z.max()
        if (
            np.isnan(low)
            or high == np.inf
            or (low == -np.inf and not self.takes_low)
            or np.any(z.max(axis=1) == -np.inf)
        ):
            allow_low = self.takes_low and not np.any(z.max(axis=1) == -np.inf)
            complain_not_finite(z, allow_low, lambda row, place: self.locate(part.start + row, place))
        return z

    def solve_blocks(self, use: Callable[[Solved], Floats]) -> list[Floats]:
        count, samples = self.rows.shape
        height = max(1, BLOCK // samples)

        def task(start: int) -> Floats:
            part = slice(start, start + height)
            return use(solve_rows(self.losses_of(part), self.weights_of(part), self.utility))

        starts = range(0, count, height)
        if count == 0:
            return []
        # Look at every block before complaining of one: NaN is reported with the row it has in x.
        try:
            return run_all(task, starts, count * samples >= 4 * BLOCK)
        except ValueError:
            complain_not_finite(self.rows, self.takes_low, self.locate)
            raise

    def samples(self) -> list[ArrayTable]:
        if self.weights is None:
            return [ArrayTable(row) for row in self.rows]
        return [ArrayTable(row, self.weights[min(i, len(self.weights) - 1)]) for i, row in enumerate(self.rows)]

    def long_rows(self, value_only: bool = False) -> list[LongSolved]:
        try:
            return [solve_long(sample, self.utility, value_only) for sample in self.samples()]
        except NotFinite:
            complain_not_finite(self.rows, self.takes_low, self.locate)
            complain_not_finite(self.rows, False, self.locate)  # nothing but -inf
            raise

    def collect(self, use: Callable[[Any], Any], value_only: bool = False) -> Any:
        if self.is_long:
            return self.shaped(np.array([use(solved) for solved in self.long_rows(value_only)]))
        blocks = self.solve_blocks(use)
        return self.shaped(np.concatenate(blocks) if blocks else np.empty(0))

    def bisect(self, delta: float, epsilon: float) -> Floats:
        if self.is_long:
            try:
                return np.concatenate(
                    [bisect_long(sample, self.utility, delta, epsilon).value for sample in self.samples()]
                )
            except NotFinite:
                complain_not_finite(self.rows, False, self.locate)
                raise
        height = max(1, BLOCK // self.rows.shape[1])
        parts = [slice(start, start + height) for start in range(0, self.rows.shape[0], height)]
        found = [
            bisect_rows(self.losses_of(part), self.weights_of(part), self.utility, delta, epsilon) for part in parts
        ]
        return np.concatenate([part.value for part in found]) if found else np.empty(0)

    def tilts(self) -> Floats:
        if not self.is_long:
            blocks = self.solve_blocks(lambda solved: tilt_rows(solved, self.utility))
            return np.concatenate(blocks) if blocks else np.empty(self.rows.shape)
        result = np.empty(self.rows.shape)
        for row, solved in zip(result, self.long_rows(), strict=True):
            tilt_long(solved, self.utility, row)
        return result

    def shaped(self, answers: Floats) -> Any:
        if self.lead == ():
            return float(answers[0])
        return answers.reshape(self.lead)

    def restore(self, rows: Floats) -> Floats:
        if self.axis is None:
            return rows.reshape(self.x.shape)
        axes = (self.axis,) if isinstance(self.axis, (int, np.integer)) else tuple(self.axis)
        axes = tuple(np.lib.array_utils.normalize_axis_tuple(axes, self.x.ndim))
        tail = tuple(self.x.shape[a] for a in axes)
        return np.ascontiguousarray(np.moveaxis(rows.reshape(self.lead + tail), range(-len(tail), 0), axes))

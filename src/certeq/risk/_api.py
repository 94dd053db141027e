"""OCE, threshold, tilt and shortfall risk of arrays, along any axis, with weights; of DataFrames and remote tables."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from certeq._checks import check_number, check_weight_sums, shown
from certeq._table import BLOCK, ArrayTable, Table, as_sample
from certeq._threads import run_all
from certeq.risk._distortion import SolvedInner
from certeq.risk._distribution_risks import risk_of_distribution, thresholds_of_distribution
from certeq.risk._distributions import is_distribution, refuse_sample_arguments
from certeq.risk._inner import solve_risk, solve_risk_rows
from certeq.risk._input import (
    Axis,
    Floats,
    as_array,
    as_axis_last,
    as_weights,
    axes_of,
    check_aligned,
    check_answer,
    check_not_empty,
    check_risk,
    check_utility,
    free_to_overflow,
    locating,
    raise_not_finite_rows,
)
from certeq.risk._long import (
    LONG,
    NotFinite,
    raise_not_finite,
    solve_long,
    solve_rising,
    solve_table,
)
from certeq.risk._long_inner import solve_long_risk, solve_sample
from certeq.risk._rows import solve_rising_rows, solve_rows, values_of_rows
from certeq.risk._search import Rising
from certeq.risk._vector import few_passes, is_selection, solve_vector, value_of_vector
from certeq.utilities import Mixture, Risk, Utility
from certeq.utilities.forms import form

_FURTHEST = 1e150
_ONE_THREAD = 1 << 18  # losses up to which one compiled call is faster than blocks on all cores
_ONE_SELECTION = 1 << 20  # the same for a quantile, which blocks begin with a random draw


def oce(
    x: ArrayLike,
    utility: Risk,
    weights: ArrayLike | None = None,
    axis: Axis = None,
) -> Any:
    r"""Optimized certainty equivalent of losses: :math:`\min_t\, t + \sum_i w_i u(x_i - t)`.

    Use it as ``np.mean``: an array in, a number out, or an array over the axes that are left. A pandas DataFrame gives
    a Series with one number for each column, as its own ``mean`` does.

    Parameters
    ----------
    x : array_like
        Losses: lower is better. Any real dtype, computed in float64; a memory-mapped array is read in blocks. A Dask
        array, or a column of a Dask DataFrame, is reduced where its chunks live. A distribution of scipy.stats, such
        as ``scipy.stats.norm(0, 1)``, gives its own OCE to ten digits (of OCE, or of E|u(X - t)| where that is larger),
        +inf where its tail is too heavy, or an error that says why it cannot be had.
    utility : Risk
        Risk measure: a `Utility` such as ``CVaR(0.05)``, or a risk with more inner variables, ``EVaR(0.05)``.
    weights : array_like, optional
        Non-negative weights, of the shape of x or one per sample; they are normalized to sum 1. A Series must have
        the labels of the samples: the index of x, or its columns where a DataFrame is reduced along axis 1.
    axis : int, tuple of int or None
        Where the samples run; all axes by default. Of a DataFrame None is 0: the samples are its rows, and 1 gives a
        number for each row. A Dask array of several dimensions is reduced as a whole, axis=None, and not along one.

    Returns
    -------
    float, ndarray or Series
        OCE, in the units of x.

    See Also
    --------
    estimate
        OCE of losses with standard error and confidence interval.
    threshold
        The minimizer t* of OCE; the value at risk for CVaR.
    tilt
        The worst-case weights of the losses.
    certeq.reference.oce_sb
        The paper's OCE-SB, a bisection with tolerances for t and for its equation.
    certeq.torch.oce
        OCE of a tensor of losses, with gradients.

    Notes
    -----
    Not for gains: pass ``-returns``. Not where the error matters, which `estimate` adds; nor inside a PyTorch graph,
    where `certeq.torch.oce` carries the gradient.

    References
    ----------
    Ben-Tal and Teboulle (2007), An old-new concept of convex risk measures: the optimized certainty equivalent,
    doi:10.1111/j.1467-9965.2007.00311.x.

    Examples
    --------
    >>> import certeq as ce
    >>> float(ce.oce([1.0, 2.0, 3.0, 4.0], ce.CVaR(0.25)))
    4.0
    >>> ce.oce([[0.0, 1.0], [2.0, 2.0]], ce.MeanVariance(0.5), axis=1)
    array([0.625, 2.   ])
    >>> from scipy import stats
    >>> round(ce.oce(stats.norm(), ce.CVaR(0.05)), 10)
    2.0627128075
    >>> ce.oce(stats.lognorm(1.0), ce.Entropic())
    inf
    """
    if type(x) is np.ndarray and weights is None:
        found = _of_vector(x, utility, axis)
        if found is not None and math.isfinite(found[0]):
            return found[0]
    return _oce(x, utility, weights, axis)


@free_to_overflow
def _oce(x: Any, utility: Risk, weights: Any, axis: Axis) -> Any:
    if is_distribution(x):
        refuse_sample_arguments(weights=weights, axis=axis)
        return risk_of_distribution(x, check_risk(utility))
    if is_frame(x):
        return by_label(lambda z, w, along: oce(z, utility, w, along), x, weights, axis)
    table = as_sample(x, weights, axis)
    known = check_risk(utility)
    if not isinstance(known, Utility):
        return check_answer("risk", _of_risk(x, known, weights, axis, table, lambda found: found.value), known)
    if table is not None:
        return check_answer("OCE", solve_table(table, known).value, known)
    _check_slopes(known)
    samples = _Samples(x, weights, axis)
    value = samples.collect(lambda z, w: values_of_rows(z, w, known)[0], lambda row: solve_long(row, known).value)
    return check_answer("OCE", value, known)


def threshold(x: ArrayLike, utility: Risk, weights: ArrayLike | None = None, axis: Axis = None) -> Any:
    r"""The minimizer t* of :math:`t + E[u(X - t)]`: the smallest t with :math:`E[u'(X - t)] \le 1`.

    For CVaR it is the value at risk. Of a ball it is the t of its inner minimum; a mixture has one for each of its
    risks, along a last axis; a distortion has none.

    Parameters
    ----------
    x : array_like
        Losses: lower is better. A memory-mapped array, a Dask array and a distribution of scipy.stats are taken as by
        `oce`. A distribution may have a threshold where its OCE is +inf, such as the value at risk of a Cauchy
        distribution.
    utility : Risk
        The risk measure, a `Utility` such as ``CVaR(0.05)``, a ball or a mixture.
    weights : array_like, optional
        Non-negative weights, of the shape of x or one per sample; they are normalized to sum 1.
    axis : int, tuple of int or None
        Where the samples run; all axes by default. Of a DataFrame None is 0.

    Returns
    -------
    float, ndarray or Series
        The threshold, in the units of x.

    See Also
    --------
    oce
        OCE of losses, without its error.
    tilt
        The worst-case weights of the losses.
    ubsr
        Utility-based shortfall risk.

    Notes
    -----
    Not to be compared digit by digit where the mean curvature nearly vanishes: t* is ill-conditioned there although
    OCE is not.

    References
    ----------
    Ben-Tal and Teboulle (2007), An old-new concept of convex risk measures: the optimized certainty equivalent,
    doi:10.1111/j.1467-9965.2007.00311.x.

    Rockafellar and Uryasev (2000), Optimization of conditional value-at-risk, doi:10.21314/JOR.2000.038.

    Hamm, Salfeld and Weber (2013), Stochastic root finding for optimized certainty equivalents.

    Examples
    --------
    >>> import certeq as ce
    >>> float(ce.threshold([1.0, 2.0, 3.0, 4.0], ce.CVaR(0.5)))
    2.0
    """
    if type(x) is np.ndarray and weights is None:
        found = _of_vector(x, utility, axis)
        if found is not None and math.isfinite(found[1]):
            return found[1]
    return _threshold(x, utility, weights, axis)


@free_to_overflow
def _threshold(x: Any, utility: Risk, weights: Any, axis: Axis) -> Any:
    if is_distribution(x):
        refuse_sample_arguments(weights=weights, axis=axis)
        return thresholds_of_distribution(x, check_risk(utility))
    if is_frame(x):
        return by_label(lambda z, w, along: threshold(z, utility, w, along), x, weights, axis)
    table = as_sample(x, weights, axis)
    if not isinstance(utility := check_risk(utility), Utility):
        thresholds = [term.t for term in utility.inner().terms]
        which: Any = thresholds if len(thresholds) > 1 or isinstance(utility, Mixture) else thresholds[0]
        return _of_risk(x, utility, weights, axis, table, lambda found: found.inner[which])
    if table is not None:
        return solve_table(table, utility).threshold
    _check_slopes(utility)
    return _Samples(x, weights, axis).collect(
        lambda z, w: values_of_rows(z, w, utility)[1], lambda row: solve_long(row, utility).threshold
    )


@free_to_overflow
def tilt(x: ArrayLike, utility: Risk, weights: ArrayLike | None = None, axis: Axis = None) -> Any:
    r"""The worst-case weights :math:`q_i = w_i u'(x_i - t^*)`; they sum to 1 over the axes reduced.

    The tilt solves the dual problem, and the gradient of OCE of losses F(theta) is ``sum_i q_i grad F_i``. Losses that
    tie at a kink share the fractional mass, so that for CVaR the sum is 1 whatever n * alpha.

    Parameters
    ----------
    x : array_like
        Losses: lower is better. A memory-mapped array and a Dask array are taken as by `oce`.
    utility : Risk
        The risk measure, a `Utility` such as ``CVaR(0.05)`` or any other risk.
    weights : array_like, optional
        Non-negative weights, of the shape of x or one per sample; they are normalized to sum 1.
    axis : int, tuple of int or None
        Where the samples run; all axes by default. Of a DataFrame None is 0.

    Returns
    -------
    ndarray, Series, DataFrame or Dask array
        Of the shape of x, with the labels of a pandas Series or DataFrame; each column of a DataFrame sums to 1, unless
        ``axis`` is 1. For Dask losses it is a Dask array, chunked as they are and computed when asked for.

    See Also
    --------
    oce
        OCE of losses, without its error.
    threshold
        The minimizer t* of OCE; the value at risk for CVaR.

    Notes
    -----
    Not a forecast: it says which of these samples matter, and nothing of how likely they are.

    References
    ----------
    Ben-Tal and Teboulle (2007), An old-new concept of convex risk measures: the optimized certainty equivalent,
    doi:10.1111/j.1467-9965.2007.00311.x.

    Examples
    --------
    >>> import certeq as ce
    >>> ce.tilt([1.0, 2.0, 3.0, 4.0], ce.CVaR(0.5))
    array([0. , 0. , 0.5, 0.5])
    """
    if type(x) is np.ndarray and weights is None and _is_vector(x, axis) and x.size < LONG:
        z = np.ascontiguousarray(x, dtype=np.float64).reshape(-1)
        known = check_risk(utility)
        solved: Any = solve_vector(z, None, form(known)) if isinstance(known, Utility) else solve_risk(z, None, known)
        if solved is not None and np.isfinite(solved.tilt).all():
            return solved.tilt.reshape(x.shape)
    if is_frame(x):
        return by_label(lambda z, w, along: tilt(z, utility, w, along), x, weights, axis, keeps_shape=True)
    table = as_sample(x, weights, axis)
    if table is not None:
        solver: Any = solve_table if isinstance(check_risk(utility), Utility) else solve_long_risk
        return table.elementwise(solver(table, utility).tilt())
    _check_slopes(utility)
    samples = _Samples(x, weights, axis)
    rows = samples.tilts(utility)
    return _series_like(x, rows[0]) if is_series(x) else samples.restore(rows)


def ubsr(
    x: ArrayLike,
    loss: Callable[[Any], Any] | Utility,
    level: float,
    weights: ArrayLike | None = None,
    axis: Axis = None,
) -> Any:
    r"""Utility-based shortfall risk :math:`\inf\{t : E[l(X - t)] \le \lambda\}`.

    Parameters
    ----------
    x : array_like
        Losses.
    loss : callable or Utility
        An increasing function l, elementwise on NumPy arrays; of a `Utility` its value is taken. The threshold of
        OCE is the special case ``loss=utility.slope, level=1``.
    level : float
        The level lambda, strictly inside the range of l.
    weights : array_like, optional
        Non-negative weights, of the shape of x or one per sample; they are normalized to sum 1.
    axis : int, tuple of int or None
        Where the samples run; all axes by default. Of a DataFrame None is 0.

    Returns
    -------
    float, ndarray or Series
        The shortfall risk, in the units of x.

    See Also
    --------
    threshold
        The minimizer t* of OCE; the value at risk for CVaR.
    oce
        OCE of losses, without its error.

    Notes
    -----
    If x0 is the largest point with l(x0) <= level, the answer lies in [min x - x0, max x - x0]; it is found there by
    a secant method safeguarded by bisection, to rounding, for continuous and for jumping l alike; a mean within
    rounding of the level counts as level. Not for a decreasing l: it is refused where the sample shows it. A long
    sample takes three to six passes as a rule, also where l jumps at a few points, and some twenty-five where it
    jumps everywhere, as a rounded loss does.

    References
    ----------
    Föllmer and Schied (2016), Stochastic Finance: An Introduction in Discrete Time, fourth edition, section 4.9.

    Examples
    --------
    >>> import numpy as np, certeq as ce
    >>> round(ce.ubsr([0.0, 1.0], np.exp, 1.0), 12)  # with l = exp it is the entropic risk
    0.620114506958
    """
    function: Callable[[Any], Any] = loss.value if isinstance(loss, Utility) else loss
    if not callable(function):
        raise TypeError(f"loss must be an increasing function or a Utility; found {loss!r}.")
    level = check_number("level", level)
    if is_frame(x):
        return by_label(lambda z, w, along: ubsr(z, function, level, w, along), x, weights, axis)
    table = as_sample(x, weights, axis)
    samples = _Samples(x, weights, axis) if table is None else None
    rising = Rising(function, level, _crossing(function, level))
    if table is not None:
        return _named_by_table(lambda: solve_rising(table, rising), table)
    assert samples is not None
    return samples.collect(
        lambda z, w: solve_rising_rows(z, w, function, level, rising.anchor),
        lambda row: solve_rising(row, rising),
        parallel=False,  # nobody said that the function may be called from several threads
    )


def _at(function: Callable[[Any], Any], point: float) -> float:
    with np.errstate(all="ignore"):
        result = np.asarray(function(np.array([point])), dtype=float)
    if result.shape != (1,) or np.isnan(result[0]):
        raise ValueError(f"loss must map an array elementwise to numbers; at x = {point:g} it gave {result!r}.")
    return float(result[0])


def _crossing(function: Callable[[Any], Any], level: float) -> float:
    """The largest point with l <= level; an error where l never passes it."""
    a, b = -1.0, 1.0
    while _at(function, a) > level:
        a *= 2.0
        if a < -_FURTHEST:
            raise ValueError(f"level must lie inside the range of loss; loss never falls to {level:g}.")
    while _at(function, b) <= level:
        b *= 2.0
        if b > _FURTHEST:
            raise ValueError(f"level must lie inside the range of loss; loss never rises above {level:g}.")
    while a < (middle := 0.5 * (a + b)) < b:
        a, b = (middle, b) if _at(function, middle) <= level else (a, middle)
    return a


# -- one vector, many rows, one long sample ---------------------------------------------------------------------------


def _is_vector(x: Floats, axis: Axis) -> bool:
    """Whether x is one sample of numbers in memory."""
    if x.size == 0 or x.ndim == 0 or x.dtype.kind not in "fiu" or x.dtype.itemsize > 8:
        return False
    return axis is None or (x.ndim == 1 and (axis == -1 or axis == 0))


def _of_vector(x: Floats, utility: Any, axis: Axis) -> tuple[float, float] | None:
    """OCE and threshold of one sample in memory that is not long; None where it is something else."""
    if not _is_vector(x, axis) or x.size > _ONE_SELECTION or not isinstance(found := check_risk(utility), Utility):
        return None
    known = form(found)
    if x.size >= LONG and not (few_passes(known) if x.size <= _ONE_THREAD else is_selection(known)):
        return None
    return value_of_vector(np.ascontiguousarray(x, dtype=np.float64).reshape(-1), known)


def _of_risk(x: Any, risk: Risk, weights: Any, axis: Axis, table: Table | None, pick: Callable[[Any], Any]) -> Any:
    """What is picked of the answer under a risk with more inner variables, of a table or of every sample."""
    if table is not None:
        return pick(solve_long_risk(table, risk))
    samples = _Samples(x, weights, axis)

    def of_rows(z: Floats, w: Floats | None) -> Floats:
        return np.array([pick(found) for found in solve_risk_rows(z, w, risk)])

    return samples.collect(of_rows, lambda row: pick(solve_sample(row, risk)))


def _check_slopes(utility: Risk) -> None:
    """Refuse what is no risk, or a sum whose slopes never reach 1."""
    if isinstance(check_risk(utility), Utility):
        check_utility(utility).anchor  # noqa: B018


def _named_by_table(answer: Callable[[], float], table: Table) -> float:
    """The answer, or an error that names the loss of a table which is not finite."""
    try:
        return answer()
    except NotFinite:
        raise_not_finite(table)
        raise


def _write_tilt(row: ArrayTable, risk: Risk, out: Floats) -> None:
    found: Any = solve_long(row, risk) if isinstance(risk, Utility) else solve_sample(row, risk)
    if isinstance(found, SolvedInner):
        out[:] = found.tilt
    else:
        row.elementwise(found.tilt(), out=out)


class _Samples:
    """Losses as rows of samples, with the shape to give back."""

    def __init__(self, x: Any, weights: Any, axis: Axis) -> None:
        self.x, self.axis = as_array("x", x), axis
        self.rows, self.lead = as_axis_last(self.x, axis)
        check_not_empty(self.rows)
        check_aligned(x, weights)
        self.weights = as_weights(weights, self.x, axis)
        self.locate = locating(self.x, axis)

    def collect(
        self,
        of_rows: Callable[[Floats, Floats | None], Floats],
        of_long: Callable[[ArrayTable], Any],
        parallel: bool = True,
    ) -> Any:
        """One number for every row, in the shape that is left: by blocks of rows, or row by row where they are long."""
        if self.rows.shape[1] >= LONG:
            answers = np.array(self._long(of_long))
        else:
            blocks = self._blocks(of_rows, parallel)
            answers = np.concatenate(blocks) if blocks else np.empty(0)
        if self.lead == () and answers.ndim == 1:
            return float(answers[0])
        return answers.reshape(self.lead + answers.shape[1:])

    def tilts(self, utility: Risk) -> Floats:
        """The tilt of every row."""

        def tilts_of_rows(z: Floats, w: Floats | None) -> Floats:
            if isinstance(utility, Utility):
                return solve_rows(z, w, utility).tilt()
            return np.array([found.tilt for found in solve_risk_rows(z, w, utility)])

        if self.rows.shape[1] < LONG:
            blocks = self._blocks(tilts_of_rows, True)
            return np.concatenate(blocks) if blocks else np.empty(self.rows.shape)
        result = np.empty(self.rows.shape)
        unwritten = iter(result)
        self._long(lambda row: _write_tilt(row, utility, next(unwritten)))
        return result

    def restore(self, rows: Floats) -> Floats:
        """Rows in the shape of x."""
        if self.axis is None:
            return rows.reshape(self.x.shape)
        axes = axes_of(self.axis, self.x.ndim)
        tail = tuple(self.x.shape[a] for a in axes)
        return np.ascontiguousarray(np.moveaxis(rows.reshape(self.lead + tail), range(-len(tail), 0), axes))

    def _long(self, solve: Callable[[ArrayTable], Any]) -> list[Any]:
        try:
            return [solve(ArrayTable(row, self._weights_of_row(i))) for i, row in enumerate(self.rows)]
        except NotFinite:
            raise_not_finite_rows(self.rows, self.locate)
            raise

    def _weights_of_row(self, row: int) -> Floats | None:
        return None if self.weights is None else self.weights[min(row, len(self.weights) - 1)]

    def _blocks(self, solve: Callable[[Floats, Floats | None], Floats], parallel: bool) -> list[Floats]:
        count, samples = self.rows.shape
        height = max(1, BLOCK // samples)

        def task(start: int) -> Floats:
            part = slice(start, start + height)
            return solve(self._losses(part), self._weights(part))

        if count == 0:
            return []
        # Look at every block before an error is raised for one: NaN is reported with the row it has in x.
        try:
            return run_all(task, range(0, count, height), parallel and count * samples >= 4 * BLOCK)
        except ValueError:
            raise_not_finite_rows(self.rows, self.locate)
            raise

    def _weights(self, part: slice) -> Floats | None:
        if self.weights is None:
            return None
        chosen = self.weights if self.weights.shape[0] == 1 else self.weights[part]
        w = np.array(np.broadcast_to(chosen, self.rows[part].shape), dtype=np.float64)
        total = w.sum(axis=1, keepdims=True)
        check_weight_sums(float(w.min()), float(total.min()) if np.all(np.isfinite(total)) else np.nan, float(w.max()))
        return np.asarray(w / total)

    def _losses(self, part: slice) -> Floats:
        z = np.ascontiguousarray(self.rows[part], dtype=np.float64)
        if not (z.min() > -np.inf and z.max() < np.inf):
            raise_not_finite_rows(z, lambda row, position: self.locate(part.start + row, position))
        return z


# -- labels: a pandas DataFrame is read column by column, and answers carry its labels ---------------------------------
# pandas is not imported here: where it is not loaded, nothing passed in can be one of its tables.


def is_frame(x: Any) -> bool:
    """Whether x is a pandas DataFrame."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(x, pandas.DataFrame)


def is_series(x: Any) -> bool:
    """Whether x is a pandas Series."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(x, pandas.Series)


def _series_like(x: Any, values: Floats) -> Any:
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
    labels = x.columns if reduced == 0 else x.index
    return pandas.Series(answer, index=labels) if answer.ndim == 1 else pandas.DataFrame(answer, index=labels)


def _reduced(axis: Any) -> int | tuple[int, ...]:
    """The axis of a table that is reduced, 0 or 1, or both."""
    if axis is None:
        return 0
    if not isinstance(axis, (int, np.integer, tuple, list)):
        raise TypeError(f"axis must be 0, 1, (0, 1) or None for a DataFrame; found {shown(axis)}.")
    try:
        found = axes_of(axis, 2)
    except (ValueError, TypeError) as error:
        raise ValueError(
            f"axis must be 0, 1, (0, 1) or None for a DataFrame; found {shown(axis)} ({error})."
        ) from error
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
                "order. Pass weights.reindex_like(x), or weights.to_numpy() to pair them by position."
            )
        return weights.to_numpy()
    if is_series(weights):
        labels, name = (x.columns, "columns") if axis == 1 else (x.index, "index")
        if not weights.index.equals(labels):
            raise ValueError(
                f"weights must have the labels of x.{name}; found other labels, or the same ones in another order. "
                f"Pass weights.reindex(x.{name}), or weights.to_numpy() to pair them by position."
            )
        return weights.to_numpy()
    return weights

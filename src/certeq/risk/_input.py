"""What a caller may pass as losses and weights, and what is said when it is something else."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from certeq._checks import check_instance, check_number, shown
from certeq.utilities import Risk, Utility

Floats = NDArray[Any]
Locate = Callable[[int, int], tuple[int, ...]]  # (row, position in it) -> index in the caller's array
Axis = int | tuple[int, ...] | None
Function = TypeVar("Function", bound=Callable[..., Any])
AnyRisk = TypeVar("AnyRisk", bound=Risk)


def free_to_overflow(function: Function) -> Function:
    """Run a function without floating-point warnings: squares of huge losses may overflow on the way to a sane answer.

    Whether the answer is sane is for `check_answer`.
    """

    @wraps(function)
    def quiet(*args: Any, **kwargs: Any) -> Any:
        with np.errstate(all="ignore"):
            return function(*args, **kwargs)

    return quiet  # type: ignore[return-value]


def check_answer(name: str, answer: Any, utility: Risk) -> Any:
    """The answer, if it is finite; losses that are finite may still be too large for their risk to be a float."""
    if np.all(np.isfinite(answer)):
        return answer
    raise OverflowError(
        f"the {name} under {utility!r} is beyond float64 (1.8e308) for losses of this size; give them in a larger "
        "unit, for instance x / 1e100."
    )


def check_utility(utility: object) -> Utility:
    """The utility, or an error that says what to write instead."""
    hint = "; wrap a function of your own with certeq.utility(u)" if callable(utility) else ""
    if isinstance(utility, Risk):
        hint = ", which has more inner variables than the threshold and is not supported here"
    found: Utility = check_instance("utility", utility, Utility, "a Utility such as certeq.CVaR(0.05)", hint)
    return _not_learned(found)


def check_risk(risk: object) -> Risk:
    """The utility, or the risk with other inner variables; whoever cannot take the latter calls `check_utility`."""
    return _not_learned(risk) if isinstance(risk, Risk) else check_utility(risk)


def _not_learned(found: AnyRisk) -> AnyRisk:
    if _is_learned(found):
        raise TypeError(
            f"a parameter of utility requires a gradient, which is lost here; found {found!r}. Use certeq.torch.oce, "
            "or pass the parameter's number."
        )
    return found


def _is_learned(risk: Risk) -> bool:
    for item in vars(risk).values():
        for part in item if isinstance(item, tuple) else (item,):
            if getattr(part, "requires_grad", False) or (isinstance(part, Risk) and _is_learned(part)):
                return True
    return False


def as_array(name: str, x: Any) -> Floats:
    """x as a real array of at least one dimension, not copied where it need not be."""
    if getattr(x, "requires_grad", False):
        raise TypeError(f"{name} is a tensor that requires a gradient; use certeq.torch.oce, or pass {name}.detach().")
    if isinstance(x, np.ma.MaskedArray):
        if np.ma.is_masked(x):
            raise TypeError(f"{name} has masked entries; pass {name}.compressed(), and the weights of what is left.")
        x = x.data
    try:
        array = np.asarray(x) if not isinstance(x, np.memmap) else x
    except ValueError as error:
        raise TypeError(f"{name} must be a rectangular array of numbers; NumPy says: {error}.") from error
    kind = array.dtype.kind
    if kind == "c":
        raise TypeError(f"{name} must be real; found complex numbers ({array.dtype}).")
    if kind == "O":
        found = next(
            (type(item).__name__ for item in array.flat if not isinstance(item, (int, float))), "numbers as objects"
        )
        if array.ndim == 0:
            advice = "Try list(...)."
            if any(kind.__module__.startswith("scipy.stats") for kind in type(x).__mro__):
                advice = (
                    "Of scipy.stats, certeq.oce and certeq.threshold take distributions with their parameters, such as "
                    "scipy.stats.norm(0, 1); of anything else there, and for other functions, pass a sample that it "
                    "draws."
                )
            raise TypeError(f"{name} must be an array or a list of numbers; found a {type(x).__name__}. {advice}")
        raise TypeError(
            f"{name} must be an array of numbers; found an object array (holding {found}). Convert it first, for "
            f"instance np.asarray({name}, dtype=float)."
        )
    if kind not in "fiub":
        raise TypeError(f"{name} must be an array of numbers; found dtype {array.dtype}.")
    if array.ndim == 0:
        raise ValueError(
            f"{name} must be an array of samples; found the single number {shown(array[()])}. Pass [{name}]."
        )
    return array


def as_vector(name: str, x: Any, advice: str = "") -> Floats:
    """x as a real array of one dimension, with at least one entry."""
    array = as_array(name, x)
    if array.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional; found shape {array.shape}.{advice}")
    check_not_empty(array)
    return array


def axes_of(axis: Any, ndim: int) -> tuple[int, ...]:
    """The dimensions that an axis names, counted from the first."""
    axes = (axis,) if isinstance(axis, (int, np.integer)) else tuple(axis)
    return tuple(int(each) for each in np.lib.array_utils.normalize_axis_tuple(axes, ndim))


def as_axis_last(x: Floats, axis: Axis) -> tuple[Floats, tuple[int, ...]]:
    """x as a 2-d array (problems, samples), and the shape the answers are to have."""
    if axis is None:
        flat = x if x.ndim == 1 else x.reshape(-1)
        return flat[None, :], ()
    if not isinstance(axis, (int, np.integer, tuple, list)):
        raise TypeError(f"axis must be a whole number, a tuple of them, or None; found {shown(axis)}.")
    try:
        axes = axes_of(axis, x.ndim)
    except (ValueError, TypeError) as error:
        raise ValueError(
            f"axis must name dimensions of x, which has {x.ndim}; found {shown(axis)} ({error})."
        ) from error
    moved = np.moveaxis(x, axes, range(x.ndim - len(axes), x.ndim))
    lead = moved.shape[: x.ndim - len(axes)]
    size = int(np.prod(moved.shape[len(lead) :]))
    if moved.ndim == 2 and len(lead) == 1:
        return moved, lead
    return moved.reshape(int(np.prod(lead)), size), lead


def locating(x: Floats, axis: Axis) -> Locate:
    """The index in x of a row and a position in it, as `as_axis_last` lays them out."""

    def locate(row: int, position: int) -> tuple[int, ...]:
        if axis is None:
            return tuple(int(k) for k in np.unravel_index(position, x.shape))
        axes = axes_of(axis, x.ndim)
        rest = [k for k in range(x.ndim) if k not in axes]
        index = dict(zip(rest, np.unravel_index(row, [x.shape[k] for k in rest]) if rest else (), strict=True))
        index |= dict(zip(axes, np.unravel_index(position, [x.shape[k] for k in axes]), strict=True))
        return tuple(int(index[k]) for k in range(x.ndim))

    return locate


def check_not_empty(x: Floats) -> None:
    """At least one sample per problem."""
    if x.shape[-1] == 0:
        raise ValueError("x is empty: at least one sample is needed.")


def check_aligned(x: Any, other: Any, name: str = "weights") -> None:
    """Refuse a Series whose labels are not those of the losses: they would be paired by position."""
    labels: Any = getattr(x, "index", None)
    others: Any = getattr(other, "index", None)
    if hasattr(labels, "equals") and hasattr(others, "equals") and not labels.equals(others):
        raise ValueError(
            f"{name} must have the index of x; found other labels, or the same ones in another order. Pass "
            f"{name}.reindex(x.index), or {name}.to_numpy() to pair them by position."
        )


def check_level(level: Any) -> float:
    """A confidence level."""
    return check_number("level", level, "a number strictly between 0 and 1 (0.95 for 95 %)", above=0.0, below=1.0)


def span_of(weights: Floats | None, size: int) -> slice:
    """From the first of ``size`` samples to the last that count: those before and after are as if never seen."""
    if weights is None or (weights[0] != 0 and weights[-1] != 0):
        return slice(0, size)
    counts = weights != 0
    if not counts.any():  # an error of its own
        return slice(0, size)
    return slice(int(counts.argmax()), size - int(counts[::-1].argmax()))


def as_weights(weights: Any, x: Floats, axis: Axis) -> Floats | None:
    """Weights as an array shaped like the 2-d losses, or one row for all; None for equal weights."""
    if weights is None:
        return None
    w = as_array("weights", weights)
    top = float(w.max()) if w.size else 0.0
    if np.isfinite(top) and top > 0.0 and not 1e-100 < top < 1e100:
        w = np.asarray(w, dtype=np.float64) / top  # squares and sums of weights must neither overflow nor vanish
    if w.shape == x.shape:
        rows, _ = as_axis_last(w, axis)
    else:
        samples = x.size if axis is None else as_axis_last(x, axis)[0].shape[-1]
        if w.ndim != 1 or w.shape[0] != samples:
            raise ValueError(
                f"weights must have the shape of x, {x.shape}, or one weight per sample, ({samples},); found {w.shape}."
            )
        rows = w[None, :]
    return rows


def raise_not_finite_rows(rows: Floats, locate: Locate | None = None) -> None:
    """Say which loss is NaN or infinite, and what that means.

    ``locate`` turns a row and a position in it into the index that the caller's array has there.
    """
    for i in range(rows.shape[0]):
        for start in range(0, rows.shape[1], 1 << 16):
            block = np.asarray(rows[i, start : start + (1 << 16)])
            bad = ~np.isfinite(block)
            if not np.any(bad):
                continue
            position = start + int(np.argmax(bad))
            where = (position,) if locate is None else locate(i, position)
            where_text = f"index {where[0]}" if len(where) == 1 else f"index {where}"
            raise not_finite(float(block[position - start]), f"at {where_text}")


def not_finite(found: float, where: str, name: str = "x") -> ValueError:
    """What is wrong with a loss that is NaN or infinite."""
    if np.isnan(found):
        return ValueError(f"{name} holds NaN {where}; drop or fill missing losses first.")
    if found > 0:
        return ValueError(f"{name} holds +inf {where}: its OCE is +inf, and no threshold or tilt exists.")
    return ValueError(f"{name} holds -inf {where}, a gain without end; drop it, or replace it by a finite loss.")

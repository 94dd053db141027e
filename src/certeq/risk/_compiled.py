"""The compiled passes of ``_fused.c``: which utilities they know, and the same sums by NumPy where they were not built.

A slope is compiled when it is one of five curves, whatever the scale, shift or normalization around it. Of a sum of
such curves and of straight lines with kinks the threshold is compiled too. Utilities that a user writes are NumPy's.
"""

from __future__ import annotations

import zlib
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from certeq.utilities import Arctangent, Exponential, Logistic, Pieces, Power, Quadratic, Utility
from certeq.utilities.forms import Form

_fused: Any
try:
    _fused = import_module("certeq.risk._fused")
except ModuleNotFoundError:  # installed without a compiler; a build that is there and does not load is an error
    _fused = None


def _check_source(build: Any, source: Path) -> None:
    """Refuse a build of another source than the one beside it, whose functions may have other names and arguments."""
    if build is None or not source.exists():
        return
    found = getattr(build, "SOURCE", None)
    if found != 0 and (found is None or found & 0xFFFFFFFF != zlib.crc32(source.read_bytes())):
        raise ImportError(
            f"{build.__file__} was built from another version of {source.name}: build it again "
            "(python setup.py build_ext --inplace, or pip install -e .), or delete it to run without compiled code."
        )


_check_source(_fused, Path(__file__).with_name("_fused.c"))
AVAILABLE = _fused is not None
Floats = NDArray[np.float64]


class CurveCode(NamedTuple):
    """A slope in the words of ``_fused.c``."""

    kind: int
    a: float
    b: float


def code_of(utility: Utility) -> CurveCode | None:
    """The compiled curve that the slope of a utility is; None where it is none, or nothing is compiled."""
    if _fused is None:
        return None
    curve: Any = utility.shape or utility.curve
    match curve:
        case Exponential(rate):
            return CurveCode(_fused.EXPONENTIAL, rate, 0.0)
        case Quadratic(curvature):
            return CurveCode(_fused.LINEAR, curvature, 0.0)
        case Logistic(rate, high):
            return CurveCode(_fused.LOGISTIC, rate, high)
        case Arctangent(width, high):
            return CurveCode(_fused.ARCTANGENT, width, high)
        case Power(degree, width):
            return CurveCode(_fused.POWER, width, degree)
    return None


def scaled_code(code: CurveCode, scale: float) -> CurveCode:
    """The code of s*u(x/s): a rate or a curvature is divided by s, a width multiplied."""
    by_width = code.kind in (_fused.ARCTANGENT, _fused.POWER)
    return CurveCode(code.kind, code.a * scale if by_width else code.a / scale, code.b)


def rows_code_of(utility: Utility) -> CurveCode | None:
    """What `value` and `solve_rows` take: a curve, or two linear pieces whose kink is the anchor."""
    shape = utility.shape
    if (
        _fused is not None
        and isinstance(shape, Pieces)
        and shape.low < 1.0 < shape.high
        and shape.kink == utility.anchor
    ):
        return CurveCode(_fused.PIECES, shape.low, shape.high)
    return code_of(utility)


class MixedCode(NamedTuple):
    """Curves, straight lines and kinks together: rows of (weight, kind, a, b, offset) and of (location, jump)."""

    curves: Floats
    kinks: Floats
    level: float  # the slope of the straight lines left of all kinks


def mixed_code_of(form: Form) -> MixedCode | None:
    """A sum of compiled curves and of straight lines with kinks; None where an atom is neither. Kept with the form."""
    if "mixed" not in form.facts:
        form.facts["mixed"] = _mixed_code_of(form)
    kept: MixedCode | None = form.facts["mixed"]
    return kept


def _mixed_code_of(form: Form) -> MixedCode | None:
    curves: list[float] = []
    level = 0.0
    for atom in form.atoms:
        part = atom.base.scaled(atom.scale) if atom.scale != 1.0 else atom.base
        code = code_of(part)
        if isinstance(part.shape, Pieces):
            level += atom.weight * part.shape.low
        elif code is not None and not part.kinks:
            curves += [atom.weight, *code, part.anchor - atom.shift]
        else:
            return None
    kinks = [number for kink in form.kinks for number in (kink.at, kink.jump)]
    return None if _fused is None else MixedCode(np.array(curves, float), np.array(kinks, float), level)


def kinked(
    code: MixedCode,
    z: Floats,
    weights: Floats | None,
    low: float,
    high: float,
    guess: float,
    width: float,
    slopes: Floats | None = None,
) -> tuple[float, float] | None:
    """The threshold in (low, high], and the mean of the slopes, which are written if wanted; None where it finds none.

    It is looked for within ``width`` of the guess at first. Weights, if any, sum to 1. Losses that the threshold puts
    on a kink share what is missing from a mean slope of 1.
    """
    found: tuple[float, float] | None = _fused.kinked(*code, z, weights, low, high, guess, width, slopes)
    return found


def solve_rows(code: CurveCode, x: NDArray[Any], tilt: NDArray[Any] | None) -> tuple[Floats, Floats] | None:
    """What `solve` returns, of every row of x without weights; the tilts are written, if wanted (else x is float64)."""
    values, thresholds = np.empty(x.shape[0]), np.empty(x.shape[0])
    good: bool = _fused.solve_rows(*code, x.reshape(-1), None if tilt is None else tilt.reshape(-1), values, thresholds)
    return (values, thresholds) if good else None


def solve(code: CurveCode, x: NDArray[Any], weights: Floats | None, tilt: NDArray[Any]) -> tuple[float, float] | None:
    """OCE less that of a constant loss of 0, and the threshold plus the anchor, of one vector; the tilt is written.

    ``x`` and ``tilt`` are contiguous, float32 or float64. None where a loss is not finite, or an answer does not fit
    among the floats: what to say of that is the caller's.
    """
    found: tuple[float, float] | None = _fused.solve(*code, x, weights, tilt)
    return found


def newton_from(
    code: CurveCode, z: Floats, s: float, q: Floats, curvature: Floats
) -> tuple[float, float, float] | None:
    """The threshold plus the anchor from an ``s`` nearby, and the sums of the slopes and curvatures that are written.

    Slopes are good to abs(mean - 1) <= 1e-12. None where a few steps of Newton's method do not do.
    """
    found: tuple[float, float, float] | None = _fused.newton_from(*code, z, s, q, curvature)
    return found


def slopes(code: CurveCode, z: Floats, s: float, q: Floats, curvature: Floats | None = None) -> tuple[float, float]:
    """The sums of slopes at z - s plus the anchor, and of curvatures where they are wanted; both are written."""
    found: tuple[float, float] = _fused.slopes(*code, z, s, q, curvature)
    return found


def value(code: CurveCode, x: Floats) -> tuple[float, float] | None:
    """What `solve` returns, of contiguous float64 losses without weights; no tilt is made."""
    found: tuple[float, float] | None = _fused.value(*code, x)
    return found


def sums(
    code: CurveCode, z: Floats, w: Floats | None, center: float, s: float, low: float | None
) -> tuple[float, float, float]:
    """Sums of slopes and curvatures at (z - center) - s, with s the threshold plus the anchor, of one block.

    With ``low``, the least z - center of all blocks, also that of u less its value at the anchor.
    """
    found: tuple[float, float, float] = _fused.sums(*code, z, w, center, s, low)
    return found


def sum_exp(z: Floats, w: Floats | None, rate: float, center: float) -> float:
    """Sum of exp(rate (z - center)), weighted."""
    if _fused is not None:
        return float(_fused.sums(_fused.EXPONENTIAL, rate, 0.0, z, w, center, 0.0, None)[0])
    with np.errstate(under="ignore", over="ignore"):
        power = z - center
        power *= rate
        np.exp(power, out=power)
        return float(power.sum()) if w is None else float((w * power).sum())


def exponential_moments(z: Floats, w: Floats | None, rate: float, out: Floats) -> tuple[float, float, float]:
    """Means of e, z e and z**2 e with e = exp(rate z), which is written; weights sum to 1."""
    if _fused is not None:
        sums: tuple[float, float, float] = _fused.moments(_fused.EXPONENTIAL, rate, z, w, out)
    else:
        np.multiply(z, rate, out=out)
        np.exp(out, out=out)
        weighted = out if w is None else out * w
        first = weighted * z
        sums = float(weighted.sum()), float(first.sum()), float((first * z).sum())
    return sums if w is not None else _over(sums, z.shape[0])


def entropy_root(
    z: Floats,
    w: Floats | None,
    b: float,
    radius: float,
    ends: tuple[float, float, float],
    tolerance: float,
    out: Floats,
) -> tuple[float, float] | None:
    """b at which the tilt exp(b z), which is written, has the relative entropy ``radius``, and ln E exp(b z).

    ``ends`` are the largest relative entropy there is, -ln(1 - radius/largest), and a bound on b. None where nothing is
    compiled: `TermSolver` then takes the same steps itself.
    """
    if _fused is None:
        return None
    found: tuple[float, float] = _fused.entropy_root(z, w, b, radius, *ends, tolerance, out)
    return found


def positive_moments(z: Floats, w: Floats | None, h: float) -> tuple[float, float, float]:
    """Means of 1, v and v**2 over the losses with v = z - h > 0; weights sum to 1."""
    if _fused is not None:
        sums: tuple[float, float, float] = _fused.moments(_fused.POWER, h, z, w, None)
    else:
        above = np.maximum(z - h, 0.0)
        weighted = above if w is None else above * w
        counted = (above > 0.0) if w is None else w[above > 0.0]
        sums = float(counted.sum()), float(weighted.sum()), float((weighted * above).sum())
    return sums if w is not None else _over(sums, z.shape[0])


def centered_sums(z: Floats, w: Floats | None, center: float) -> tuple[float, float]:
    """Sums of z - center and of its square."""
    if _fused is not None:
        return _fused.moments(_fused.LINEAR, center, z, w, None)[1:]  # type: ignore[no-any-return]
    x = z - center
    weighted = x if w is None else w * x
    return float(weighted.sum()), float((weighted * x).sum())


def _over(sums: tuple[float, float, float], size: int) -> tuple[float, float, float]:
    return sums[0] / size, sums[1] / size, sums[2] / size


def window(z: Floats, a: float, b: float, most: int) -> tuple[float, float, float, float, float, Floats | None] | None:
    """Range of the losses, number and excess of those above b, number of those in [a, b], and a list of these.

    The list is None where there are more than ``most``. None where nothing is compiled, or a loss is not finite.
    """
    if _fused is None:
        return None
    inside = np.empty(most)
    found = _fused.window(z, a, b, inside)
    if found is None:
        return None
    *known, count = found
    return *known, float(count), inside[:count].copy() if count <= most else None

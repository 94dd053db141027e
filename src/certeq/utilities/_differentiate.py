"""Second-order forward differentiation of a NumPy function: value, slope and curvature, exact to rounding.

A `Jet` carries (v, d, dd) = (f, f', f'') through NumPy's ufuncs. It exists so that a user may write only u and have
derivatives that are as good as hand-written ones; a function it does not know is refused, never approximated.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from certeq._backend import NUMPY

Chain = Callable[[Any], tuple[Any, Any, Any]]


def _tanh(v: Any) -> tuple[Any, Any, Any]:
    t = np.tanh(v)
    return t, 1 - t * t, -2 * t * (1 - t * t)


def _exp_like(f: Callable[[Any], Any]) -> Chain:
    return lambda v: (f(v), np.exp(v), np.exp(v))


_UNARY: dict[Any, Chain] = {
    np.exp: _exp_like(np.exp),
    np.expm1: _exp_like(np.expm1),
    np.exp2: lambda v: (np.exp2(v), np.exp2(v) * np.log(2), np.exp2(v) * np.log(2) ** 2),
    np.log: lambda v: (np.log(v), 1 / v, -1 / v**2),
    np.log1p: lambda v: (np.log1p(v), 1 / (1 + v), -1 / (1 + v) ** 2),
    np.sqrt: lambda v: (np.sqrt(v), 0.5 / np.sqrt(v), -0.25 / v**1.5),
    np.square: lambda v: (v * v, 2 * v, 2.0),
    np.negative: lambda v: (-v, -1.0, 0.0),
    np.positive: lambda v: (v + 0.0, 1.0, 0.0),
    np.reciprocal: lambda v: (1 / v, -1 / v**2, 2 / v**3),
    np.sin: lambda v: (np.sin(v), np.cos(v), -np.sin(v)),
    np.cos: lambda v: (np.cos(v), -np.sin(v), -np.cos(v)),
    np.sinh: lambda v: (np.sinh(v), np.cosh(v), np.sinh(v)),
    np.cosh: lambda v: (np.cosh(v), np.sinh(v), np.cosh(v)),
    np.tanh: _tanh,
    np.arctan: lambda v: (np.arctan(v), 1 / (1 + v * v), -2 * v / (1 + v * v) ** 2),
    np.arcsinh: lambda v: (np.arcsinh(v), 1 / np.sqrt(1 + v * v), -v / (1 + v * v) ** 1.5),
}


@cache
def _rules_of_scipy() -> dict[Any, Chain]:
    """Rules for functions of scipy.special; its import takes 0.2 s, and whoever hands one in has waited for it."""
    from scipy import special

    def expit(v: Any) -> tuple[Any, Any, Any]:
        s, r = special.expit(v), special.expit(-v)
        return s, s * r, s * r * (1 - 2 * s)

    def erf(v: Any) -> tuple[Any, Any, Any]:
        slope = 2 / np.sqrt(np.pi) * np.exp(-v * v)
        return special.erf(v), slope, -2 * v * slope

    return {
        special.expit: expit,
        special.log_expit: lambda v: (special.log_expit(v), special.expit(-v), -special.expit(v) * special.expit(-v)),
        special.erf: erf,
        special.ndtr: lambda v: (special.ndtr(v), _phi(v), -v * _phi(v)),
    }


def _rule(ufunc: Any) -> Chain | None:
    found = _UNARY.get(ufunc)
    return _rules_of_scipy().get(ufunc) if found is None and "scipy.special" in sys.modules else found


def _phi(v: Any) -> Any:
    return np.exp(-0.5 * v * v) / np.sqrt(2 * np.pi)


class Jet(np.lib.mixins.NDArrayOperatorsMixin):
    """A value with its first two derivatives with respect to one variable.

    A derivative that is the same everywhere is a plain number: those of constants are 0, and cost nothing.
    """

    def __init__(self, v: Any, d: Any, dd: Any) -> None:
        self.v, self.d, self.dd = v, d, dd

    @classmethod
    def variable(cls, x: Any) -> Jet:
        """The variable itself: slope 1, curvature 0."""
        return cls(np.asarray(x, dtype=float), 1.0, 0.0)

    @classmethod
    def lift(cls, x: Any) -> Jet:
        """A constant, or x if it is a jet already."""
        if isinstance(x, Jet):
            return x
        return cls(np.asarray(x, dtype=float), 0.0, 0.0)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the value."""
        return tuple(np.shape(self.v))

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if method != "__call__" or kwargs:
            return NotImplemented
        if ufunc in _COMPARISONS:
            return ufunc(*(Jet.lift(item).v for item in inputs))
        rule = _rule(ufunc)
        if rule is not None:
            (x,) = inputs
            f, f1, f2 = rule(x.v)
            return Jet(f, _times(f1, x.d), _plus(_times(f2, _times(x.d, x.d)), _times(f1, x.dd)))
        if ufunc in _BINARY:
            return _BINARY[ufunc](*(Jet.lift(item) for item in inputs))
        if ufunc in (np.absolute, np.fabs):
            return np.maximum(inputs[0], -inputs[0])
        return NotImplemented

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if function is np.where and len(args) == 3:
            condition, first, second = args[0], Jet.lift(args[1]), Jet.lift(args[2])
            return _select(condition, first, second)
        if function is np.clip:
            low = args[1] if len(args) > 1 else kwargs.get("a_min", kwargs.get("min"))
            high = args[2] if len(args) > 2 else kwargs.get("a_max", kwargs.get("max"))
            result = args[0] if low is None else np.maximum(args[0], low)
            return result if high is None else np.minimum(result, high)
        if function in (np.zeros_like, np.ones_like):
            return Jet.lift(function(args[0].v))
        return NotImplemented


def _select(condition: Any, first: Jet, second: Jet) -> Jet:
    pairs = zip(_parts(first), _parts(second), strict=True)
    return Jet(*(a if _is_number(a) and _is_number(b) and a == b else np.where(condition, a, b) for a, b in pairs))


def _parts(jet: Jet) -> tuple[Any, Any, Any]:
    return jet.v, jet.d, jet.dd


def _is_number(a: Any) -> bool:
    return type(a) is float


def _plus(a: Any, b: Any) -> Any:
    """a + b, at no cost where one is the number 0."""
    if _is_number(a) and a == 0:
        return b
    return a if _is_number(b) and b == 0 else a + b


def _times(a: Any, b: Any) -> Any:
    """a*b where a vanished derivative beats an overflown value: 0 * inf is 0 here."""
    for one, other in ((a, b), (b, a)):
        if np.ndim(one) == 0 and np.isfinite(one):
            return 0.0 if one == 0 else other if _is_number(one) and one == 1 else one * other
    return np.where((np.asarray(a) == 0) | (np.asarray(b) == 0), 0.0, a * b)


def _multiply(a: Jet, b: Jet) -> Jet:
    first = _plus(_times(a.d, b.v), _times(a.v, b.d))
    mixed = _times(2.0, _times(a.d, b.d))
    return Jet(a.v * b.v, first, _plus(_plus(_times(a.dd, b.v), mixed), _times(a.v, b.dd)))


def _power(a: Jet, b: Jet) -> Jet:
    if np.any(b.d) or np.any(b.dd):
        exponent = np.log(a)
        return Jet.lift(np.exp(_multiply(b, exponent)))
    p = b.v
    # At p = 1 or 2 the missing factors are 0; a base of 0 must not turn them into 0 * inf.
    first = np.where(p == 0, 0.0, p * a.v ** np.where(p == 0, 1.0, p - 1))
    flat = (p == 0) | (p == 1)
    second = np.where(flat, 0.0, p * (p - 1) * a.v ** np.where(flat, 1.0, p - 2))
    return Jet(a.v**p, _times(first, a.d), _plus(_times(second, _times(a.d, a.d)), _times(first, a.dd)))


def _maximum(a: Jet, b: Jet) -> Jet:
    # At a tie the left derivative of a maximum is the smaller of the two slopes.
    return _select((a.v > b.v) | ((a.v == b.v) & (a.d <= b.d)), a, b)


def _minimum(a: Jet, b: Jet) -> Jet:
    return _select((a.v < b.v) | ((a.v == b.v) & (a.d >= b.d)), a, b)


def _logaddexp(a: Jet, b: Jet) -> Jet:
    s, r = NUMPY.sigmoid(a.v - b.v), NUMPY.sigmoid(b.v - a.v)
    d = s * a.d + r * b.d
    return Jet(np.logaddexp(a.v, b.v), d, s * a.dd + r * b.dd + s * r * (a.d - b.d) ** 2)


_BINARY: dict[Any, Callable[[Jet, Jet], Jet]] = {
    np.add: lambda a, b: Jet(a.v + b.v, _plus(a.d, b.d), _plus(a.dd, b.dd)),
    np.subtract: lambda a, b: Jet(a.v - b.v, _plus(a.d, -b.d), _plus(a.dd, -b.dd)),
    np.multiply: _multiply,
    np.divide: lambda a, b: _multiply(a, Jet.lift(np.reciprocal(b))),
    np.power: _power,
    np.float_power: _power,
    np.maximum: _maximum,
    np.fmax: _maximum,
    np.minimum: _minimum,
    np.fmin: _minimum,
    np.logaddexp: _logaddexp,
}
_COMPARISONS = (np.greater, np.greater_equal, np.less, np.less_equal, np.equal, np.not_equal)


def differentiate(f: Callable[[Any], Any], x: Any) -> Jet:
    """f, f' and f'' at x; TypeError where f uses a function that has no rule here."""
    x = np.asarray(x, dtype=float)
    with np.errstate(all="ignore"):
        try:
            result = f(Jet.variable(x))
        except ValueError as error:  # np.asarray(x) makes an array of objects, which many functions stumble over
            raise TypeError(f"derivatives cannot be carried through the function: {error}") from error
    if not isinstance(result, Jet):
        result = Jet.lift(result)
    return Jet(*(np.broadcast_to(part, x.shape) for part in _parts(result)))

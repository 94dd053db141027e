"""Whether a utility sees the risk of losses at all, at the scale that they have.

A utility that depends on the unit compares losses with 1, or with the inverse of its parameter. Losses that are much
smaller than that lie where u is nearly a line: OCE is their mean, exact to rounding, and minimizing it a search for the
largest mean. That is a mistake in the unit far more often than it is meant.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certeq.risk._api import oce
from certeq.risk._vector import value_of_vector
from certeq.utilities import CVaR, Normalized, Pieces, Quadratic, Scaled, Sum, Utility
from certeq.utilities.forms import form

Floats = NDArray[np.float64]
_LEAST = 0.04  # of the standard deviation that OCE must add to the mean: Entropic(10) adds 6 % to daily returns
_LEAST_OF_CVAR = 0.25  # of what CVaR adds, where a utility is meant to be near it
_LARGEST = 0.01  # share of the distance from mean to maximum, below which OCE is said to be the maximum
_STEEP = 0.16  # standard deviation of the tilt, relative to the weights, from which on no utility is blind


class UnitWarning(UserWarning):
    """A utility does not suit the size of the losses: OCE is nearly their mean, or nearly the largest of them.

    Not about the number, which is exact, but about the question: choose the parameter in the unit of the losses, or
    use ``scaled``. Each text is shown once per process, unless a filter of ``warnings`` says otherwise. The attribute
    ``scale`` is the number to scale by for these losses.

    See Also
    --------
    ReliabilityWarning
        Warning about an interval that the sample cannot support.
    Utility
        Base class of utilities.

    Examples
    --------
    >>> import warnings, numpy as np, certeq as ce
    >>> returns = np.random.default_rng(0).normal(0.0005, [0.01, 0.02], size=(500, 2))
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     _ = ce.minimize(ce.LinearLoss(-returns), ce.Entropic(), domain=ce.Simplex())
    >>> caught[0].category is ce.UnitWarning
    True
    """

    scale: float = np.nan

    def with_scale(self) -> str:
        """Return the text and the number to scale by.

        Returns
        -------
        str
            For the command line.
        """
        return f"{self} Here s = {self.scale:g} (on the command line --scale {self.scale:g})."


_shown: set[str] = set()


def warn_of_unit(reason: UnitWarning | None, stacklevel: int) -> None:
    """Show a warning once per process for each text; with a filter of the user's, as often as the filter allows.

    Python alone would show the text again after every change of the filters, and scikit-learn changes them in each fit.
    ``stacklevel`` counts from the caller, as in `warnings.warn`.
    """
    filtered = any(issubclass(UnitWarning, f[2]) and f[1] is None and f[3] is None for f in warnings.filters)
    if reason is not None and (filtered or str(reason) not in _shown):
        _shown.add(str(reason))
        warnings.warn(reason, UnitWarning, stacklevel=stacklevel + 1)


def depends_on_unit(utility: Utility) -> bool:
    """Whether a utility may be blind: not one of two linear pieces, nor the mean and variance, which are what they say.

    >>> import certeq as ce
    >>> tuple(map(depends_on_unit, (ce.Entropic(), ce.CVaR(0.05), ce.MeanVariance(0.1))))
    (True, False, False)
    """
    facts = form(utility).facts
    if "depends_on_unit" not in facts:
        shapes = [atom.base.shape for atom in form(utility).plain.atoms]
        curved = [shape for shape in shapes if not (isinstance(shape, Pieces) and shape.low == shape.high)]
        facts["depends_on_unit"] = not (
            isinstance(utility.shape, Pieces) or all(isinstance(shape, Quadratic) for shape in curved)
        )
    return bool(facts["depends_on_unit"])


def blindness(
    utility: Utility, excess: float, deviation: float, tail_excess: Callable[[float], float]
) -> UnitWarning | None:
    """Return a warning that losses are too small for a utility that `depends_on_unit`; None where they are not.

    ``excess`` is OCE less the mean and OCE(0), ``tail_excess`` CVaR less the mean for a tail mass.
    """
    if not (0.0 < deviation < np.inf and np.isfinite(excess)):
        return None
    alpha = _tail_mass(utility)
    if alpha is None:
        if excess >= _LEAST * deviation:
            return None
    else:
        # CVaR exceeds the mean by at most sqrt((1 - alpha)/alpha) standard deviations: mostly there is no need to sort.
        if excess >= _LEAST_OF_CVAR * np.sqrt((1.0 - alpha) / alpha) * deviation:
            return None
        if not excess < _LEAST_OF_CVAR * tail_excess(alpha):
            return None
    return _scaling(utility, "hardly sees the risk of losses this small: OCE is hardly more than their mean", deviation)


def _scaling(utility: Utility, why: str, deviation: float) -> UnitWarning:
    """Return a warning that recommends a scale."""
    plain, present, suffix = _unwrapped(utility)
    factor = _curvature(utility) * present * (1.0 if _tail_mass(utility) is None else 0.25)
    found = UnitWarning(
        f"{utility!r} {why}. Its parameters are in the unit of the losses: try {plain}.scaled(s){suffix} with s = "
        f"{factor:.2g} times the standard deviation of the losses."
    )
    found.scale = float(f"{factor * deviation:.2g}")
    return found


def sharpness_of(losses: Floats, weights: Any, utility: Utility, value: float, most: float) -> UnitWarning | None:
    """Return a warning that these losses, up to ``most``, are so large that OCE is their maximum; None if it is not."""
    mean = float(np.average(losses, weights=weights))
    deviation = float(np.sqrt(np.average(np.square(losses - mean), weights=weights)))
    limit = (1.0 - _LARGEST) * (most - mean)
    if not (deviation > 1e-7 * abs(mean) and limit < value - utility.oce_of_zero - mean < np.inf):
        return None
    found = _scaling(utility, "sees only the largest of losses this large: OCE is hardly less than that", deviation)
    better = utility.scaled(found.scale / _unwrapped(utility)[1])  # no help where few losses are the tail itself
    return found if _value(losses, weights, better) - better.oce_of_zero - mean < limit else None


def blindness_of(losses: Any, weights: Any, utility: Utility, value: float) -> UnitWarning | None:
    """`blindness` for losses in memory, of which OCE is ``value``; weights sum to 1."""
    x = np.asarray(losses, dtype=np.float64)
    middle = float(x[x.size // 2])  # sums of squares from there do not cancel, whatever the offset
    away = x - middle
    mean = float(away.mean() if weights is None else weights @ away)
    square = float(away @ away / x.size if weights is None else weights @ (away * away))
    deviation = float(np.sqrt(max(square - mean * mean, 0.0)))
    if deviation <= 1e-7 * abs(middle):  # then the digits of a float are too few to tell
        return None
    excess = value - middle - mean - utility.oce_of_zero
    return blindness(utility, excess, deviation, lambda alpha: _value(away, weights, _cvar(alpha)) - mean)


@lru_cache(maxsize=16)
def _cvar(alpha: float) -> CVaR:
    return CVaR._of(alpha)  # kept with its form, which takes longer to make than CVaR to compute


def _value(x: Floats, weights: Floats | None, utility: Utility) -> float:
    """OCE, by the shortest way there is."""
    found = value_of_vector(x, form(utility)) if weights is None and x.dtype == np.float64 else None
    return float(oce(x, utility, weights)) if found is None else found[0]


def blindness_at(
    table: Any, theta: Floats, weights: Floats | None, utility: Utility, tilt: Floats
) -> UnitWarning | None:
    """That a utility is blind to the losses ``table @ theta``, judged by equal shares of the columns as large as theta.

    At a minimum they may be small for a good reason, as where a column without risk was allowed, or large for a bad
    one, as where nothing but the mean was seen: equal shares tell the scale that theta was chosen at.
    """
    if not depends_on_unit(utility) or tilt_is_steep(utility, tilt, weights):
        return None
    x = table @ np.full(theta.size, float(np.abs(theta).sum() or 1.0) / theta.size)
    return blindness_of(x, weights, utility, _value(x, weights, utility))


def tilt_is_steep(utility: Utility, tilt: Floats, weights: Floats | None) -> bool:
    """Whether the tilt differs so much from the weights that a look at the losses is not needed.

    OCE less the mean and OCE(0) is about half of what the tilt adds to the mean, which is at most its standard
    deviation times that of the losses.
    """
    if weights is None:
        square = float(tilt @ tilt) * tilt.size
    else:  # the tilt is 0 where the weight is
        square = float(tilt @ np.divide(tilt, weights, out=np.zeros_like(tilt), where=weights > 0.0))
    alpha = _tail_mass(utility)
    least = _STEEP if alpha is None else 0.5 * np.sqrt((1.0 - alpha) / alpha)
    return bool(square - 1.0 >= least * least)


def _tail_mass(utility: Utility) -> float | None:
    """alpha of the CVaR that a utility is meant to be near, however scaled."""
    atoms = form(utility).plain.atoms
    return atoms[0].base.tail_mass if len(atoms) == 1 else None


def _curvature(utility: Utility) -> float:
    found = float(form(utility).plain.curvature(np.array([utility.anchor]))[0]) if utility.has_curvature else 1.0
    return found if 0.0 < found < np.inf else 1.0


def _unwrapped(utility: Utility) -> tuple[str, float, str]:
    """What is scaled, by how much, and what is done to it after that."""
    scale, suffix = 1.0, ""
    while isinstance(utility, (Scaled, Normalized)):
        if isinstance(utility, Scaled):
            scale *= float(utility.scale)
        else:
            suffix = ".normalized()"
        utility = utility.utility
    return (f"({utility.expression()})" if isinstance(utility, Sum) else repr(utility)), scale, suffix

"""The smallest t at which a decreasing function is at most 0, when a look at several t costs one pass over the data.

Each pass tries a fan of points: where interpolation expects the root, and a little to either side, so that a good
guess becomes a tight bracket at once. Where the function jumps and guesses fail, the fan spreads evenly.
"""

from __future__ import annotations

import math
from collections.abc import Callable

Known = dict[float, float]  # t -> the function there
Look = Callable[[tuple[float, ...]], list[float]]

_EVEN = 15  # points of an even fan: four bits a pass
_MOST_PASSES = 600


def smallest(look: Look, low: float, high: float, known: Known) -> float:
    """The smallest t in (low, high] with f(t) <= 0, to neighbouring floats; f(low) > 0 >= f(high) is taken as given."""
    trusting = True
    for _ in range(_MOST_PASSES):
        above = max((t for t, f in known.items() if f > 0.0), default=low)
        low, high = max(low, above), min((t for t, f in known.items() if f <= 0.0 and t > low), default=high)
        if not low < 0.5 * (low + high) < high:
            return high
        if high - low <= _EVEN * math.ulp(high):
            trusting = False  # so few floats are left that an even fan tries them all
        points = _around_guess(low, high, known) if trusting else ()
        points = tuple(sorted({t for t in points or _even(low, high) if low < t < high}))
        width = high - low
        known |= dict(zip(points, look(points), strict=True))
        above = max((t for t, f in known.items() if f > 0.0 and t < high), default=low)
        below = min((t for t, f in known.items() if f <= 0.0 and t > above), default=high)
        # An even fan is what a guess has to beat.
        trusting = not trusting or below - max(low, above) <= width / _EVEN
    raise RuntimeError(f"No root found in {_MOST_PASSES} passes; the function does not decrease.")


def _even(low: float, high: float) -> tuple[float, ...]:
    return tuple(low + (high - low) * (k / (_EVEN + 1)) for k in range(1, _EVEN + 1)) + (0.5 * (low + high),)


def _around_guess(low: float, high: float, known: Known) -> tuple[float, ...]:
    """The root of the inverse parabola through three neighbours, and points on either side by its likely error."""
    if low not in known or high not in known:
        return ()
    f0, f1 = known[low], known[high]
    if not math.isfinite(f0) or not math.isfinite(f1):
        return ()
    chord = high - f1 * (high - low) / (f1 - f0)
    third = min((t for t in known if t not in (low, high)), key=lambda t: abs(t - chord), default=None)
    guess, error = chord, 0.25 * (high - low)
    if third is not None and math.isfinite(known[third]) and known[third] not in (f0, f1):
        f2 = known[third]
        parabola = (
            low * f1 * f2 / ((f0 - f1) * (f0 - f2))
            + high * f0 * f2 / ((f1 - f0) * (f1 - f2))
            + third * f0 * f1 / ((f2 - f0) * (f2 - f1))
        )
        if low <= parabola <= high:
            guess, error = parabola, 0.05 * abs(parabola - chord)
    fine = 7.0 * math.ulp(guess)
    error = max(error, fine)
    # The inner pair serves when the guess was better than feared.
    return guess - error, guess - fine, guess, guess + fine, guess + error

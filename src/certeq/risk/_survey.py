"""A first look at a long sample: its range and weight in one pass, and a small random part to start from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from certeq.risk._input import check_weights
from certeq.risk._sample import Floats, Sample
from certeq.risk._sketch import Sketch

DRAW = 1 << 17  # at most so many losses are drawn for the start


class NotFinite(ValueError):
    """A sample holds NaN or an infinity that its utility cannot take; whoever knows the caller's array says where.

    Where nobody finds one, the message is right: it was the sums.
    """

    def __init__(self, message: str = "") -> None:
        super().__init__(
            message
            or "Sums of these losses and weights are beyond float64. Divide the losses by their size, and the weights "
            "by the largest of them."
        )


@dataclass
class Extent:
    """Range and total weight of a sample; ``square`` is the sum of squared weights over the squared total."""

    low: float
    high: float
    mass: float
    square: float


Extra = Callable[..., tuple[float, ...]]  # (losses, weights), and the losses' range where that is asked for


def survey(
    sample: Sample, extra: Extra | None = None, ranged: bool = False, wide: bool = False
) -> tuple[Extent, Floats]:
    """One pass: the range of losses of positive weight, the total weight, and means of whatever ``extra`` sums up.

    With ``ranged``, ``extra`` is told the least and greatest loss of its block, and the least may be -inf.
    ``wide`` is for an ``extra`` of few temporaries; see `Sample.fold`.
    """

    def sums_of(z: Floats, w: Floats | None, low: float, high: float) -> tuple[float, ...]:
        if extra is None:
            return ()
        return extra(z, w, low, high) if ranged else extra(z, w)

    def kernel(z: Floats, w: Floats | None) -> tuple[float, ...]:
        with np.errstate(invalid="ignore", over="ignore"):
            if w is None:
                low, high = float(z.min()), float(z.max())
                return low, high, float(z.size), float(z.size), 0.0, 0.0, *sums_of(z, w, low, high)
            held = z[w > 0]
            low, high = (float(held.min()), float(held.max())) if held.size else (np.inf, -np.inf)
            more = sums_of(held, w[w > 0], low, high)
            if not np.isfinite(z.sum()):  # NaN and infinities are refused whatever their weight
                low, high = float(z.min()), float(z.max())
            return low, high, float(w.sum()), float((w * w).sum()), float(w.min()), float(w.max()), *more

    low, high, mass, square, lightest, heaviest, *sums = sample.fold(kernel, _merge_survey, every=True, wide=wide)
    if sample.weighted:
        check_weights(lightest, mass, heaviest)
    if not np.isfinite(high) or not (np.isfinite(low) or (ranged and low == -np.inf)):
        raise NotFinite
    return Extent(low, high, mass, square / mass**2), np.array(sums) / mass


def _merge_survey(parts: list[tuple[float, ...]]) -> tuple[float, ...]:
    table = np.array(parts)
    low, high, lightest, heaviest = table[:, 0].min(), table[:, 1].max(), table[:, 4].min(), table[:, 5].max()
    with np.errstate(invalid="ignore", over="ignore"):
        mass, square, *sums = table[:, [2, 3, *range(6, table.shape[1])]].sum(axis=0)
    return tuple(float(number) for number in (low, high, mass, square, lightest, heaviest, *sums))


@dataclass
class Draw:
    """A small random part of the sample."""

    z: Floats
    weights: Floats | None

    @property
    def center(self) -> float:
        """0, unless the losses lie so far from 0, compared with their spread, that t* - center must be kept apart."""
        if self.z.size == 0:
            return 0.0
        low, high = float(self.z.min()), float(self.z.max())
        return 0.0 if max(abs(low), abs(high)) <= 16.0 * (high - low) else high

    @property
    def mean(self) -> float:
        """The weighted mean, 0 of nothing."""
        return float(np.average(self.z, weights=self.weights)) if self.z.size else 0.0

    def sketch(self) -> Sketch:
        """A part of the draw as a sketch, which knows no more than where the losses are dense."""
        z, w = self.z[:: max(1, self.z.size >> 17)], self.weights
        w = np.ones(z.size) if w is None else w[:: max(1, self.z.size >> 17)]
        if not z.size:
            return Sketch(np.zeros(1), np.ones(1), np.ones(1))
        return Sketch(z - self.center, w / w.sum(), np.full(z.size, 1.0 / z.size))


def drawn_from(sample: Sample, most: int = DRAW) -> Draw:
    """Finite losses of positive weight at random places."""
    z, w = sample.draw(min(most, max(sample.size // 32, 1 << 12)))
    held = np.isfinite(z) if w is None else np.isfinite(z) & (w > 0)
    return Draw(z[held], None if w is None else w[held])

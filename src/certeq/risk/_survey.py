"""A first look at a long sample: its range and weight in one pass, and a small random part to start from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from certeq._checks import check_weight_sums
from certeq._table import Summary, Sums, Table, first_bad, summary
from certeq.risk._input import not_finite
from certeq.risk._sketch import Floats, Sketch

LONG = 1 << 16  # a row at least this long is read in blocks rather than copied
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


def survey(sample: Table, extra: Sums | None = None, allow_low: bool = False) -> tuple[Summary, Floats]:
    """One pass: range and weight of the sample, and means of what ``extra`` sums up; the least loss may be -inf."""
    found = summary(sample, extra)
    if sample.weighted:
        check_weight_sums(found.lightest, found.mass, found.heaviest)
    if not np.isfinite(found.high) or not (np.isfinite(found.low) or (allow_low and found.low == -np.inf)):
        raise NotFinite
    return found, np.array(() if extra is None else found.extra) / found.mass


def raise_not_finite(sample: Table, allow_low: bool) -> None:
    """Raise a ValueError that says which loss is NaN or infinite, if any is; ``allow_low`` lets -inf pass."""
    bad = first_bad(sample, allow_low)
    if bad is not None:
        row, _, found = bad
        raise not_finite(found, sample.where(row))


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


def drawn_from(sample: Table, most: int = DRAW) -> Draw:
    """Finite losses of positive weight at random."""
    block = sample.draw(min(most, max(len(sample) // 32, 1 << 12))).positive()
    finite = np.isfinite(block.rows)
    return Draw(block.rows[finite], None if block.weights is None else block.weights[finite])

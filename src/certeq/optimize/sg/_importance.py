"""Batches from a fixed set in which the samples that carry the risk are drawn more often, and weigh less.

A batch that is drawn evenly says little where few samples carry the risk: of 442 squared errors under entropic risk it
may be six, and a batch of 64 then holds one of them on average, often none. A pass over all samples shows which they
are.
"""

from __future__ import annotations

import numpy as np

from certeq.optimize.losses._base import Floats

_EVEN = 0.25  # part of the draws that follow the samples' own odds, so that no sample weighs more than four shares
_FEW = 0.25  # part of the samples below which the risk counts as carried by few: above it the odds would gain nothing
_MEMORY = 0.8  # of the mean of tilts, from one pass to the next: near the optimum risk moves between samples


class ImportanceOdds:
    r"""Odds of the samples, a quarter their own and the rest by a mean of the tilts of earlier passes.

    .. math:: o_i = \tfrac14 p_i + \tfrac38 \bar q_i + \tfrac38 \frac{\sqrt{p_i \bar q_i}}{\sum_j \sqrt{p_j \bar q_j}},
              \qquad \text{weight of sample i in a batch} \propto p_i/o_i \le 4

    with p the samples' own weights, 1/n by default. Weighted so, a batch stands for the whole set as one that is drawn
    by p does. The roots belong to a milder tilt, whose samples are those that the risk moves to with the next steps.
    """

    STATE = ("tilt",)  # the odds follow from the tilt

    def __init__(self, size: int, shares: Floats | None) -> None:
        self.size, self.shares = size, shares
        self.tilt: Floats = np.zeros(size)  # the mean of tilts; all 0 before the first pass
        self.needed = False  # whether the risk is carried by few samples
        self.cumulative: Floats = np.zeros(0)
        self.ratio: Floats = np.zeros(0)  # p/o

    def learn(self, tilt: Floats) -> None:
        """Take in the tilt over all samples at the point of a pass."""
        tilt = np.abs(tilt)  # that of a utility which is not monotone has signs
        tilt = tilt / np.add.reduce(tilt)
        self.use(_MEMORY * self.tilt + (1.0 - _MEMORY) * tilt if self.tilt.any() else tilt)

    def use(self, tilt: Floats) -> None:
        """Set the mean of tilts, and the odds if few samples carry the risk."""
        self.tilt = tilt
        self.needed = effective_part(tilt, self.shares) < _FEW
        if not self.needed:
            return
        own: Floats | float = 1.0 / self.size if self.shares is None else self.shares
        milder = np.sqrt(own * tilt)
        odds = _EVEN * own + 0.5 * (1.0 - _EVEN) * (tilt + milder / np.add.reduce(milder))
        self.cumulative = odds.cumsum()
        self.cumulative /= self.cumulative[-1]  # ends at 1, which no random number reaches
        self.ratio = own / np.where(odds > 0.0, odds, 1.0)  # a sample without odds is not drawn

    def draw(self, rng: np.random.Generator, m: int) -> tuple[np.ndarray, Floats]:
        """Return the numbers of m samples, drawn independently, and their weights in the batch, which sum to 1."""
        index = self.cumulative.searchsorted(rng.random(m), side="right")
        weights = self.ratio[index]
        return index, weights / np.add.reduce(weights)


def effective_part(tilt: Floats, shares: Floats | None) -> float:
    """The part of the samples that carry the risk, 1/(sum q^2/p): alpha for CVaR(alpha), 1 for the mean."""
    square = float(tilt.size * np.dot(tilt, tilt))
    if shares is not None:
        kept = shares > 0.0
        square = float(np.sum(np.square(tilt[kept]) / shares[kept]))
    return 1.0 / square if square > 0.0 else 1.0

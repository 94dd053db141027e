"""The tilt of a batch, fast: what OCE-SG needs at every iteration, and nothing else.

Each engine returns weights q and their sum, so that q/sum is the tilt: the division is left to the gradient, which is
shorter. On the same samples as last time (a full batch) the engines start from where they were; a short step then
costs one evaluation of the utility.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from certeq.optimize.losses._base import Floats
from certeq.optimize.sg._checkpoint import refuse
from certeq.risk._compiled import Coded, Slopes, coded, settle, solve
from certeq.risk._rows import solve_rows, tail_count, tilt_rows
from certeq.utilities import Exponential, Pieces, Quadratic, Utility

State = dict[str, Floats]  # "numbers", and "bend" of the full sample's length
_INTERCHANGEABLE = {"NewtonTilt", "CompiledTilt"}


class Tilt(ABC):
    """The exact tilt of one batch after another."""

    def __init__(self, utility: Utility, weights: Floats | None = None) -> None:
        self.utility = utility
        self.weights = weights  # of the full sample, summing to 1; None for equal weights
        self.rows: Any = None  # the samples that q belongs to, where it is 0 for all others; None for all of them
        self._ones: Floats = np.ones(0)

    def _sum(self, q: Floats) -> float:
        """Return the sum of q, in half the time of q.sum(); it is not finite unless every entry is."""
        if self._ones.size != q.size:
            self._ones = np.ones(q.size)
        return float(np.dot(q, self._ones))

    @abstractmethod
    def weigh(self, z: Floats, same: bool) -> tuple[Floats, float]:
        """Return q and its sum, NaN where z is not finite.

        ``same`` says that z are losses of the samples of last time, so that memory helps; it never changes the result
        beyond rounding. The caller silences floating-point warnings, once for all calls.
        """

    def state(self, same: bool = True) -> State:
        """Return what the next call depends on, so that a resumed run gives the same bits.

        ``same`` says whether the samples may be the same next time; what was remembered of them is else left out.
        """
        return {}

    def restore(self, state: State) -> None:
        """Put back what `state` returned."""
        if state:
            raise ValueError(f"{type(self).__name__} keeps no state; found {', '.join(state)}.")

    def resume(self, path: str, kind: str, state: State, same: bool) -> None:
        """Continue from the state that an engine of the given kind has left in a checkpoint.

        One of the two engines for smooth slopes belongs to builds with the compiled file, the other to builds
        without. What the one knows does not help the other: it then starts from scratch, which changes the result
        by no more than rounding.
        """
        own = type(self).__name__
        if kind != own and not {kind, own} <= _INTERCHANGEABLE:
            raise refuse(path, f"its tilt is by {kind!r:.40}, not {own}")
        wanted = self.state(False)
        if kind != own:
            return
        if not set(wanted) <= set(state) or any(state[name].shape != wanted[name].shape for name in wanted):
            raise refuse(path, f"the state of its {own} is incomplete")
        if not set(state) <= (set(wanted) | ({"bend"} if wanted and same else set())):
            raise refuse(path, f"the state of its {own} is of another batch")
        self.restore(state)


class ColdTilt(Tilt):
    """The general solver of `certeq.risk`, from scratch every time: kinks beside curvature, weighted quantiles."""

    def weigh(self, z: Floats, same: bool) -> tuple[Floats, float]:
        """Return the tilt and 1."""
        if not math.isfinite(self._sum(z)):
            return z, math.nan
        weights = None if self.weights is None else self.weights[None, :]
        solved = solve_rows(np.ascontiguousarray(z)[None, :], weights, self.utility)
        return tilt_rows(solved, self.utility)[0], 1.0


class PiecesTilt(Tilt):
    """Two linear pieces (CVaR): 1 above the quantile, a shared fraction at it, so that the tail has its exact mass.

    On the same samples the selection is made among the losses above a guess from last time. Whatever the guess, the
    quantile found is exact; which zeros are added to the gradient depends on it, and so its last bits.

    With ``sparse`` a q that is 0 outside the losses looked at is returned for these ``rows`` alone: the gradient of a
    linear loss then needs no other row.
    """

    def __init__(self, utility: Utility, pieces: Pieces, sparse: bool = False) -> None:
        super().__init__(utility)
        self.pieces = pieces
        self.sparse = sparse and pieces.low == 0.0 < pieces.high
        self.guess = -math.inf

    def weigh(self, z: Floats, same: bool) -> tuple[Floats, float]:
        """Return q by one selection."""
        pieces, m = self.pieces, z.size
        if not math.isfinite(self._sum(z)):
            return z, math.nan
        if pieces.low == pieces.high:
            return np.ones(m), float(m)
        above = tail_count(pieces.tail, m)
        place = (z >= self.guess).nonzero()[0] if same else None
        if place is None or not above < place.size < 0.5 * m:
            place = None
        upper = z if place is None else z[place]
        ranked = np.partition(upper, upper.size - 1 - above)
        t = ranked[upper.size - 1 - above]
        if place is None or place.size > above + above // 2 + 16:
            # Next time a quarter more than the tail is looked at: enough for some steps, few enough to be quick.
            spare = upper.size - 1 - min(above + above // 4 + 8, upper.size - 1)
            self.guess = float(np.partition(ranked[: upper.size - above], spare)[spare])
        whole, tie = upper > t, upper == t
        tail = pieces.tail * m
        share = min(max((tail - np.count_nonzero(whole)) / np.count_nonzero(tie), 0.0), 1.0)
        part = np.add(whole, share * tie, dtype=np.float64)
        self.rows = place if self.sparse else None
        if place is None or self.sparse:
            q = part
        else:
            q = np.zeros(m)
            q[place] = part
        if pieces.low == 0.0:
            return q, tail
        q *= pieces.high - pieces.low
        q += pieces.low
        return q, float(m)

    def state(self, same: bool = True) -> State:
        """Return the guess."""
        return {"numbers": np.array([self.guess])}

    def restore(self, state: State) -> None:
        """Put it back."""
        self.guess = float(state["numbers"][0])


class QuadraticTilt(Tilt):
    """A linear slope: q = 1 + bend (z - mean). Not monotone, so q may be negative."""

    def __init__(self, utility: Utility, bend: float, weights: Floats | None) -> None:
        super().__init__(utility, weights)
        self.bend = bend

    def weigh(self, z: Floats, same: bool) -> tuple[Floats, float]:
        """Return q in three passes."""
        mean = self._sum(z) / z.size if self.weights is None else float(np.dot(self.weights, z))
        q: Floats = z - mean
        q *= self.bend
        q += 1.0
        if self.weights is not None:
            q *= self.weights
        return q, self._sum(q)


class ExponentialTilt(Tilt):
    """An exponential slope: q proportional to exp(rate z), taken about the largest loss."""

    def __init__(self, utility: Utility, weights: Floats | None) -> None:
        super().__init__(utility, weights)
        self.slopes = Slopes(utility)

    def weigh(self, z: Floats, same: bool) -> tuple[Floats, float]:
        """Return q and its sum."""
        z = np.ascontiguousarray(z)
        q, total = self.slopes.at(z, float(z.max()) - self.slopes.anchor)
        if self.weights is None:
            return q, total
        q *= self.weights
        return q, self._sum(q)


class NewtonTilt(Tilt):
    r"""Any smooth slope: the threshold by Newton's method from the last one, to abs(mean slope - 1) <= 1e-12.

    On the same samples the start is moved along the derivative of the threshold,
    :math:`dt^* = \sum_i c_i\,dz_i / \sum_i c_i` with c the curvatures u'', and by what this missed last time. The
    curvatures are those of an earlier iteration as long as they serve, so that a short step costs one evaluation of
    the slope alone. Where eight evaluations do not do, `certeq.risk` solves the batch from scratch.
    """

    TOLERANCE = 1e-12
    EVALUATIONS = 8

    def __init__(self, utility: Utility, weights: Floats | None) -> None:
        super().__init__(utility, weights)
        self.growth = utility.growth
        self.slopes = Slopes(utility)
        self.t = math.nan
        self.bend = np.ones(0)  # curvatures of some earlier time
        self.rise = 0.0  # their sum
        self.level = 0.0  # sum of curvatures times losses of last time
        self.drift = self.trend = 0.0  # by how much the straight prediction was off, and how that changes
        self.stale = True  # whether the curvatures are to be computed anew

    def weigh(self, z: Floats, same: bool) -> tuple[Floats, float]:
        """Return q = u'(z - t*), times the weights."""
        z = np.ascontiguousarray(z)
        if self.weights is not None and self._ones.size != z.size:
            self._ones = np.full(z.size, float(z.size)) * self.weights
        known = same and self.bend.size == z.size and self.rise > 0.0
        straight = t = self.t
        if known:
            level = float(np.dot(self.bend, z))
            straight += (level - self.level) / self.rise
            self.level, t = level, straight + self.drift + self.trend
        self.stale = self.stale or not known
        last, fresh = math.inf, self.stale
        for trial in range(self.EVALUATIONS if math.isfinite(t) else 0):
            slope, total = self._slopes(z, t)
            mean = total / z.size
            error = abs(mean - 1.0)
            if not (self.rise > 0.0 and error < math.inf and math.isfinite(self.level)):
                break
            move = self._step(mean, self.rise / z.size)
            if error <= self.TOLERANCE or t + move == t:
                # The slopes are good at t; what is remembered is the better t + move, or errors would add up.
                self._remember(t + move, t + move - straight, fresh, trial)
                return slope, total
            self.stale = error > 0.1 * last
            fresh = fresh or self.stale
            last, t = error, t + move
        return self._cold(z)

    def _remember(self, t: float, drift: float, fresh: bool, trial: int) -> None:
        # With curvatures that grow old the miss grows evenly; new ones break the pattern.
        self.trend = 0.0 if fresh else drift - self.drift
        self.t, self.drift, self.stale = t, drift, trial > 1

    def _slopes(self, z: Floats, t: float) -> tuple[Floats, float]:
        """Return slopes, times the weights, and their sum; renew the curvatures if they are stale."""
        if self.stale:
            slope, total, self.bend, self.rise = self.slopes.both(z, t)
        else:
            slope, total = self.slopes.at(z, t)
        if self.weights is not None:
            slope = slope * self._ones
            total = float(np.add.reduce(slope))
        if self.stale:
            if self.weights is not None:
                self.bend = self.bend * self._ones
                self.rise = float(np.add.reduce(self.bend))
            self.level = float(np.dot(self.bend, z))
        return slope, total

    def _step(self, mean: float, rise: float) -> float:
        if self.growth == 1.0 or mean <= 0.0:
            return (mean - 1.0) / rise
        # On the growth-th root of the mean slope: far out, a plain step on a power gains a factor 1 - 1/p only.
        return self.growth * mean * float(1.0 - mean ** (-1.0 / self.growth)) / rise

    def _cold(self, z: Floats) -> tuple[Floats, float]:
        self.stale = True
        if not math.isfinite(np.add.reduce(z)):
            return z, math.nan
        weights = None if self.weights is None else self.weights[None, :]
        solved = solve_rows(np.ascontiguousarray(z)[None, :], weights, self.utility)
        self.t, self.drift, self.trend = float(solved.threshold[0]), 0.0, 0.0
        self.bend = np.ones(0)
        return tilt_rows(solved, self.utility)[0], 1.0

    def state(self, same: bool = True) -> State:
        """Return t, and what predicts the next t."""
        numbers = np.array([self.t, self.rise, self.level, self.drift, self.trend, float(self.stale)])
        return {"numbers": numbers, "bend": self.bend} if same and self.bend.size else {"numbers": numbers}

    def restore(self, state: State) -> None:
        """Put them back."""
        self.t, self.rise, self.level, self.drift, self.trend, stale = (float(number) for number in state["numbers"])
        self.stale, self.bend = bool(stale), state.get("bend", np.ones(0))


class CompiledTilt(Tilt):
    r"""A compiled slope of equally likely losses: the threshold from a prediction, in one call.

    The prediction is that of `NewtonTilt`, with the curvatures of last time, which cost nothing here. What it misses
    by is small and changes slowly, so it is continued on a straight line.
    """

    def __init__(self, utility: Utility, code: Coded) -> None:
        super().__init__(utility)
        self.code = code
        self.s = math.nan  # the threshold, plus the anchor
        self.bend = self.spare = np.ones(0)  # curvatures of last time, and room for the next
        self.rise = self.level = 0.0  # their sum, and that of their products with the losses
        self.miss = self.trend = 0.0  # by how much the prediction was off, and how that changes

    def weigh(self, z: Floats, same: bool) -> tuple[Floats, float]:
        """Return q = u'(z - t*)."""
        z = np.ascontiguousarray(z)
        known = same and self.rise > 0.0
        straight = s = self.s
        if known:
            straight += (float(np.dot(self.bend, z)) - self.level) / self.rise
            s = straight + self.miss + self.trend
        if self.spare.size != z.size:
            self.spare = np.empty(z.size)
        q = np.empty(z.size)
        found = settle(self.code, z, s, q, self.spare) if math.isfinite(s) else None
        if found is None:
            return self._cold(z, q)
        self.s, total, self.rise = found
        self.bend, self.spare = self.spare, self.bend
        self.level = float(np.dot(self.bend, z))
        if not math.isfinite(self.level):  # an infinite loss may have a slope all the same
            self.rise = 0.0
            return z, math.nan
        miss = self.s - straight if known else 0.0
        self.trend, self.miss = miss - self.miss, miss
        return q, total

    def _cold(self, z: Floats, q: Floats) -> tuple[Floats, float]:
        """Solve from scratch; the next search starts from there."""
        self.rise = self.miss = self.trend = 0.0
        found = solve(self.code, z, None, q)
        if found is None:
            self.s = math.nan
            return ColdTilt(self.utility).weigh(z, False)
        self.s = found[1]
        return q, 1.0

    def state(self, same: bool = True) -> State:
        """Return s, and what predicts the next one."""
        numbers = np.array([self.s, self.rise, self.level, self.miss, self.trend])
        return {"numbers": numbers, "bend": self.bend} if same and self.rise > 0.0 else {"numbers": numbers}

    def restore(self, state: State) -> None:
        """Put them back."""
        self.s, self.rise, self.level, self.miss, self.trend = (float(number) for number in state["numbers"])
        self.bend = state.get("bend", np.ones(0))
        if not self.bend.size:
            self.rise = 0.0  # there are no curvatures to go by


def make_tilt(utility: Utility, weights: Floats | None = None, sparse: bool = False) -> Tilt:
    """Return the engine for a utility, chosen by the closed form it declares; ``sparse`` allows it to set ``rows``."""
    shape: Any = utility.shape
    match shape:
        case Exponential():
            return ExponentialTilt(utility, weights)
        case Quadratic(bend):
            return QuadraticTilt(utility, bend, weights)
        case Pieces() if weights is None:
            return PiecesTilt(utility, shape, sparse)
    if utility.kinks or shape is not None or utility.kappa == 0.0:
        return ColdTilt(utility, weights)
    code = coded(utility) if weights is None else None
    return NewtonTilt(utility, weights) if code is None else CompiledTilt(utility, code)

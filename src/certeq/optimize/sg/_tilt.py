"""The tilt of a batch, fast: what OCE-SG needs at every iteration, and nothing else.

Each engine returns weights q and their sum, so that q/sum is the tilt: the division is left to the gradient, which is
shorter. On the same samples as last time (a full batch) the engines start from where they were; a short step then
costs one evaluation of the utility, or for an exponential none.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_left
from typing import Any

import numpy as np
from numpy.polynomial.chebyshev import cheb2poly
from scipy.linalg.blas import daxpy, idamax

from certeq.optimize.losses._samples import Floats
from certeq.risk._rows import solve_rows, tail_count, tilt_rows
from certeq.utilities import Exponential, Logistic, Pieces, Quadratic, Utility

State = dict[str, Floats]


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

    def state(self) -> State:
        """Return what the next call depends on, so that a resumed run gives the same bits."""
        return {}

    def restore(self, state: State) -> None:
        """Put back what `state` returned."""
        if state:
            raise ValueError(f"{type(self).__name__} keeps no state; found {', '.join(state)}.")


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

    def state(self) -> State:
        """Return the guess."""
        return {"guess": np.array([self.guess])}

    def restore(self, state: State) -> None:
        """Put it back."""
        if state:
            self.guess = float(state["guess"][0])


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
    r"""An exponential slope: q proportional to exp(rate z).

    An exponential costs as much as twenty multiplications, so on the same samples it is seldom taken: with
    y = z - z_last small, exp(rate z) = exp(rate z_last) * exp(rate y) and a short polynomial of the second factor
    does. Each such step adds an error of about 1e-12 at most; after thirty-two the exponentials are taken afresh, so q
    stays good to 4e-11, far below what a step of a first-order method is worth.
    """

    AGE = 32

    def __init__(self, utility: Utility, rate: float, weights: Floats | None) -> None:
        super().__init__(utility, weights)
        self.rate = rate
        self.last = self.powers = np.ones(0)
        self.age = self.AGE

    def weigh(self, z: Floats, same: bool) -> tuple[Floats, float]:
        """Return q and its sum."""
        q = self.carry(z, same)
        return q, self._sum(q)

    def carry(self, z: Floats, same: bool) -> Floats:
        """Return q from that of last time, or by exponentials about the largest loss."""
        if same and self.age < self.AGE:
            y: Floats = z - self.last
            degree = bisect_left(REACH, self.rate * abs(float(y[idamax(y)])))
            if degree < len(REACH):
                self.powers = _times(self.powers, y, self.rate, SHORT_EXP[degree])
                self.last, self.age = z, self.age + 1
                return self.powers
        q: Floats = z - z.max()
        q *= self.rate
        np.exp(q, out=q)
        if self.weights is not None:
            q *= self.weights
        # A batch seen once is not worth remembering.
        self.last, self.powers, self.age = (z, q, 0) if same else (self.last, self.powers, self.AGE)
        return q

    def state(self) -> State:
        """Return the losses and powers of last time."""
        if self.age == self.AGE:
            return {}
        return {"last": self.last, "powers": self.powers, "age": np.array([float(self.age)])}

    def restore(self, state: State) -> None:
        """Put them back."""
        if state:
            self.last, self.powers, self.age = state["last"], state["powers"], int(state["age"][0])


def _short_exp(reach: float, degree: int) -> list[float]:
    """Return a_1, a_2, ... with 1 + a_1 x + a_2 x^2 + ... = exp(x) up to a factor, for abs(x) <= reach, to 1e-12 or so.

    Taylor's polynomial one degree higher, whose last power is replaced by the best polynomial of lower degree that
    there is on the interval, Chebyshev's: a degree less for the same error.
    """
    whole = degree + 1
    found = [1.0 / math.factorial(k) for k in range(whole)]
    for k, part in enumerate(cheb2poly([0.0] * whole + [1.0])[:-1]):
        found[k] -= float(part) / 2.0**degree / math.factorial(whole) * reach ** (whole - k)
    return [coefficient / found[0] for coefficient in found[1:]]


def _times(p: Floats, y: Floats, rate: float, polynomial: list[float]) -> Floats:
    """Return p, overwritten, times 1 + a_1 (rate y) + a_2 (rate y)^2 + ...: two passes per degree."""
    term: Floats = y * p
    p = daxpy(term, p, a=rate * polynomial[0])
    for k, coefficient in enumerate(polynomial[1:], start=2):
        term *= y
        p = daxpy(term, p, a=rate**k * coefficient)
    return p


#: size of x up to which the short exponential of degree 1, 2, ... is good to about 1e-12, and its coefficients
REACH = tuple((1e-12 * 2.0**p * math.factorial(p + 1)) ** (1.0 / (p + 1)) for p in range(1, 7))
SHORT_EXP = tuple(_short_exp(reach, degree) for degree, reach in enumerate(REACH, start=1))


class NewtonTilt(Tilt):
    r"""Any smooth slope: the shortfall by Newton's method from the last one, to abs(mean slope - 1) <= 1e-12.

    On the same samples the start is moved along the derivative of the shortfall,
    :math:`dt^* = \sum_i c_i\,dz_i / \sum_i c_i` with c the curvatures u'', and by what this missed last time. The
    curvatures are those of an earlier iteration as long as they serve, so that a short step costs one evaluation of
    the slope alone. Where eight evaluations do not do, `certeq.risk` solves the batch from scratch.
    """

    TOLERANCE = 1e-12
    EVALUATIONS = 8

    def __init__(self, utility: Utility, weights: Floats | None) -> None:
        super().__init__(utility, weights)
        self.growth = utility.growth
        self.height = 1.0  # by which `_slopes` leaves the slopes too small
        self.t = math.nan
        self.bend = np.ones(0)  # curvatures of some earlier time
        self.rise = 0.0  # their sum
        self.level = 0.0  # sum of curvatures times losses of last time
        self.drift = self.trend = 0.0  # by how much the straight prediction was off, and how that changes
        self.stale = True  # whether the curvatures are to be computed anew

    def weigh(self, z: Floats, same: bool) -> tuple[Floats, float]:
        """Return q = u'(z - t*), times the weights."""
        if self._ones.size != z.size:
            self._ones = np.ones(z.size) if self.weights is None else np.full(z.size, float(z.size)) * self.weights
        known = same and self.bend.size == z.size and self.rise > 0.0
        straight = t = self.t
        if known:
            level = float(np.dot(self.bend, z))
            straight += (level - self.level) / self.rise
            self.level, t = level, straight + self.drift + self.trend
        self.stale = self.stale or not known
        last, fresh = math.inf, self.stale
        for trial in range(self.EVALUATIONS if math.isfinite(t) else 0):
            slope = self._slopes(z, t)
            total = float(np.dot(slope, self._ones))
            mean = self.height * total / z.size
            error = abs(mean - 1.0)
            if not (self.rise > 0.0 and error < math.inf and math.isfinite(self.level)):
                break
            move = self._step(mean, self.rise / z.size)
            if error <= self.TOLERANCE or t + move == t:
                # The slopes are good at t; what is remembered is the better t + move, or errors would add up.
                self._remember(t + move, t + move - straight, fresh, trial)
                return (slope if self.weights is None else slope * self._ones), total
            self.stale = error > 0.1 * last
            fresh = fresh or self.stale
            last, t = error, t + move
        return self._cold(z)

    def _remember(self, t: float, drift: float, fresh: bool, trial: int) -> None:
        # With curvatures that grow old the miss grows evenly; new ones break the pattern.
        self.trend = 0.0 if fresh else drift - self.drift
        self.t, self.drift, self.stale = t, drift, trial > 1

    def _slopes(self, z: Floats, t: float) -> Floats:
        if not self.stale:
            return np.asarray(self.utility.slope(z - t))
        slope, bend = self.utility.derivatives(z - t)
        self._renew(bend, z)
        return np.asarray(slope)

    def _renew(self, bend: Floats, z: Floats) -> None:
        """Take new curvatures for the prediction of t."""
        self.bend = bend if self.weights is None else bend * self._ones
        self.rise = float(np.add.reduce(self.bend))
        self.level = float(np.dot(self.bend, z))

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
        self.t, self.drift, self.trend = float(solved.shortfall[0]), 0.0, 0.0
        self.bend = np.ones(0)
        return tilt_rows(solved, self.utility)[0], 1.0

    def state(self) -> State:
        """Return t, and what predicts the next t."""
        numbers = np.array([self.t, self.rise, self.level, self.drift, self.trend, float(self.stale)])
        return {"numbers": numbers, "bend": self.bend}

    def restore(self, state: State) -> None:
        """Put them back."""
        self.t, self.rise, self.level, self.drift, self.trend, stale = (float(number) for number in state["numbers"])
        self.stale, self.bend = bool(stale), state["bend"]


class LogisticTilt(NewtonTilt):
    r"""A logistic slope: p/(p + c) times its height, with p = exp(rate z), so that t enters through the number c alone.

    The powers p are carried from step to step by `ExponentialTilt`; an evaluation of the slope then costs a division
    per loss, and no exponential.
    """

    def __init__(self, utility: Utility, curve: Logistic, weights: Floats | None) -> None:
        super().__init__(utility, weights)
        self.curve, self.height = curve, curve.high
        self.powers = ExponentialTilt(utility, curve.rate, None)
        self.p: Floats = np.ones(0)
        self.centre = math.nan

    def weigh(self, z: Floats, same: bool) -> tuple[Floats, float]:
        """Return q = u'(z - t*) / high, times the weights."""
        self.p = self.powers.carry(z, same)
        if not same or self.powers.age == 0:  # the powers are taken about the largest loss
            self.centre = float(z.max())
        return super().weigh(z, same)

    def _slopes(self, z: Floats, t: float) -> Floats:
        high, rate = self.curve.high, self.curve.rate
        q: Floats = self.p + (high - 1.0) * math.exp(min(rate * (t - self.centre + self.utility.anchor), 700.0))
        np.divide(self.p, q, out=q)
        if self.stale:
            bend = q * q
            np.subtract(q, bend, out=bend)
            bend *= high * rate
            self._renew(bend, z)
        return q

    def state(self) -> State:
        """Return t, what predicts the next one, and the powers."""
        return {**super().state(), "centre": np.array([self.centre]), **self.powers.state()}

    def restore(self, state: State) -> None:
        """Put them back."""
        super().restore(state)
        self.centre = float(state["centre"][0])
        self.powers.restore({key: state[key] for key in ("last", "powers", "age") if key in state})


def make_tilt(utility: Utility, weights: Floats | None = None, sparse: bool = False) -> Tilt:
    """Return the engine for a utility, chosen by the closed form it declares; ``sparse`` allows it to set ``rows``."""
    shape: Any = utility.shape
    match shape:
        case Exponential(rate):
            return ExponentialTilt(utility, rate, weights)
        case Quadratic(bend):
            return QuadraticTilt(utility, bend, weights)
        case Pieces() if weights is None:
            return PiecesTilt(utility, shape, sparse)
    if utility.kinks or shape is not None or utility.kappa == 0.0:
        return ColdTilt(utility, weights)
    curve = utility.curve
    if isinstance(curve, Logistic):
        return LogisticTilt(utility, curve, weights)
    return NewtonTilt(utility, weights)

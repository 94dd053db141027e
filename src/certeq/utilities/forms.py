"""The form of a utility: what a solver reads. Scaling, shifting and adding are flattened once into atoms.

A kink of a scaled or shifted utility has no exact location in floating point: s*k/s may round to either side of k. Here
every kink has one location, and the losses themselves decide the side. With y a loss, t a trial threshold and ``at``
the location of a kink, the *breakpoint* y - at is compared with t:

    y - at > t: right of the kink;    y - at < t: left of it;    y - at == t: on it.

A threshold that puts a loss on a kink is such a breakpoint, made by the same subtraction, so a tie is a tie bit for
bit and nobody needs a tolerance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from certeq._backend import NUMPY, Array, as_float, is_compiling, is_tensor, torch_backend

if TYPE_CHECKING:
    from certeq.utilities._base import Utility

_EPS = float(np.finfo(np.float64).eps)
_MANY = 6  # kinks from which on they are counted by bisection and not one by one


# -- curves: a slope that solvers know more of. Stated relative to the anchor x0 (1 in the subdifferential of u at x0),
# -- so that shifting keeps them and scaling changes their unit only.


@dataclass(frozen=True)
class Exponential:
    """u'(x) = exp(rate * (x - x0)): the threshold is a log-mean-exp."""

    rate: float

    def scaled(self, by: float) -> Exponential:
        """In units of loss that are ``by`` times smaller."""
        return Exponential(self.rate / by)


@dataclass(frozen=True)
class Quadratic:
    """u'(x) = 1 + bend * (x - x0): the threshold is the mean, shifted by x0."""

    bend: float

    def scaled(self, by: float) -> Quadratic:
        """In units of loss that are ``by`` times smaller."""
        return Quadratic(self.bend / by)


@dataclass(frozen=True)
class Pieces:
    """u' = low left of the kink and high right of it: the threshold is a quantile."""

    low: float
    high: float
    kink: float

    @property
    def tail(self) -> float:
        """Mass above the threshold: low + (high - low) * tail = 1."""
        if self.high == self.low:
            return 1.0
        return (1.0 - self.low) / (self.high - self.low)


@dataclass(frozen=True)
class Logistic:
    """u'(x) = high / (1 + (high - 1) exp(-rate * (x - x0))): no closed form, but shifting t only scales a constant."""

    rate: float
    high: float

    def scaled(self, by: float) -> Logistic:
        """In units of loss that are ``by`` times smaller."""
        return Logistic(self.rate / by, self.high)


@dataclass(frozen=True)
class Arctangent:
    """u'(x) = high / (1 + min((x - x0)/width - sqrt(high - 1), 0)**2): level right of a point, an arctangent's left."""

    width: float
    high: float

    def scaled(self, by: float) -> Arctangent:
        """In units of loss that are ``by`` times smaller."""
        return Arctangent(self.width * by, self.high)


@dataclass(frozen=True)
class Power:
    """u'(x) = (1 + (x - x0)/width)**degree where that is positive, else 0: power sums of ranked losses give t."""

    degree: float
    width: float

    def scaled(self, by: float) -> Power:
        """In units of loss that are ``by`` times smaller."""
        return Power(self.degree, self.width * by)


Shape = Exponential | Quadratic | Pieces
Curve = Logistic | Arctangent | Power


# -- the form --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Kink:
    """A point where the slope of u jumps, and both slopes of the whole u there."""

    at: float
    left: float
    right: float

    @property
    def jump(self) -> float:
        """By how much the slope rises."""
        return self.right - self.left


class Atom:
    """weight * scale * base((x + shift) / scale), base a utility that is not made of others.

    The numbers are tensors where they are learned. ``kinks`` are those of the base: the location in the base's own
    argument, the height of the jump, and which kink of the form it became.
    """

    def __init__(
        self, base: Utility, weight: Any, scale: Any, shift: Any, kinks: tuple[tuple[float, float, int], ...] = ()
    ) -> None:
        self.base, self.weight, self.scale, self.shift, self.kinks = base, weight, scale, shift, kinks
        self.shifts = is_tensor(shift) or shift != 0.0
        self.moves = self.shifts or is_tensor(scale) or scale != 1.0  # whether the base's argument differs from x
        # Kinks whose side the base might mistake. Not one at 0 without a shift: x / scale has the sign of x.
        self.moved_kinks = tuple(kink for kink in kinks if self.shifts or kink[0] != 0.0)

    def argument(self, x: Array) -> Array:
        """(x + shift) / scale."""
        if not self.moves:
            return x
        return (x + self.shift if self.shifts else x) / self.scale


class Form:
    """A utility as a sum of atoms, with its kinks in rising order; made by `form`.

    Functions of (y, t) are those of u and its derivatives at y - t. Losses and threshold stay apart, because only
    together do they say on which side of a kink a loss lies.
    """

    def __init__(self, utility: Utility, atoms: tuple[Atom, ...], kinks: tuple[Kink, ...] | None = None) -> None:
        self.utility = utility
        self.atoms = atoms
        self.kinks: tuple[Kink, ...] = ()
        self.facts: dict[Any, Any] = {}  # found by search, and kept
        self.plain = self  # without learned parameters: what everything that needs no gradient is found from
        self.unscaled: tuple[Form, float] | None = None  # whose facts need not be searched for again
        if kinks is None:
            self._locate_kinks()
        else:
            self.kinks = kinks

    @classmethod
    def of_learned(cls, utility: Utility, plain: Form) -> Form:
        """The form whose atoms hold the learned parameters as they are now, part of the graph being recorded."""
        atoms = tuple(
            Atom(atom.base, atom.weight, atom.scale, atom.shift, fixed.kinks)
            for atom, fixed in zip(utility._atoms(), plain.atoms, strict=True)
        )
        found = cls(utility, atoms, plain.kinks)
        found.facts, found.plain = plain.facts, plain
        return found

    def __getstate__(self) -> dict[str, Any]:  # what can be found again does not travel
        return {**self.__dict__, "facts": {}}

    def _locate_kinks(self) -> None:
        """Give every kink of every atom one location; those that only rounding tells apart are one kink."""
        only = self.atoms[0]
        if len(self.atoms) == 1 and not only.moves and only.weight == 1.0:
            slopes = only.base._slopes_at_kinks()  # nothing to flatten, and no arithmetic: a graph may be being made
            jumps = only.base.kinks
            self._own(
                [(Kink(at, left, left + jump), [(0, at, jump)]) for (at, jump), left in zip(jumps, slopes, strict=True)]
            )
            return
        found: list[tuple[float, float, tuple[int, float, float]]] = []
        for index, atom in enumerate(self.atoms):
            for location, jump in atom.base.kinks:
                rounding = 4.0 * _EPS * (abs(atom.scale * location) + abs(atom.shift)) if atom.moves else 0.0
                found.append((atom.scale * location - atom.shift + 0.0, rounding, (index, location, jump)))
        if not found:
            return
        locations: dict[float, list[tuple[int, float, float]]] = {}
        at, least = math.nan, 0.0
        for location, rounding, kink in sorted(found):
            if not location - at <= rounding + least:  # a new one
                at, least = location, rounding
                locations[at] = []
            elif rounding < least:  # the location that was rounded least is the one that was meant
                locations[location] = locations.pop(at)
                at, least = location, rounding
            locations[at].append(kink)
        # The locations alone decide the sides.
        self._own([(Kink(at, 0.0, 0.0), locations[at]) for at in sorted(locations)])
        with np.errstate(all="ignore"):
            slopes = self.left_slope(self.kink_locations).tolist()
        del self.kink_locations
        kinks = []
        for at, left in zip(sorted(locations), slopes, strict=True):
            right = left + sum(self.atoms[i].weight * jump for i, _, jump in locations[at])
            if right - left > 4.0 * _EPS * abs(left):  # a jump below the rounding of the slope is none
                kinks.append((Kink(at, left, right), locations[at]))
        self._own(kinks)

    def _own(self, kinks: list[tuple[Kink, list[tuple[int, float, float]]]]) -> None:
        """Take these kinks, each with the atoms that it belongs to."""
        owned: list[list[tuple[float, float, int]]] = [[] for _ in self.atoms]
        for which, (_, parts) in enumerate(kinks):
            for index, location, jump in parts:
                owned[index].append((location, jump, which))
        self.atoms = tuple(
            Atom(atom.base, atom.weight, atom.scale, atom.shift, tuple(own))
            for atom, own in zip(self.atoms, owned, strict=True)
        )
        self.kinks = tuple(kink for kink, _ in kinks)

    # -- slopes and curvature, with exact sides -----------------------------------------------------------------------

    def left_slope(self, y: Array, t: Any = 0.0, xp: SimpleNamespace = NUMPY) -> Array:
        """The left derivative of u at y - t."""
        x = y - t
        total: Array = None
        for atom in self.atoms:
            own = atom.argument(x)
            slope = atom.base._slope(own, xp)
            total = _plus(total, atom.weight, self._on_its_side(slope, own, y, t, atom, xp))
        return total

    def derivatives(self, y: Array, t: Any = 0.0, xp: SimpleNamespace = NUMPY) -> tuple[Array, Array]:
        """The left derivative and the curvature of u at y - t."""
        x = y - t
        slopes: Array = None
        curvatures: Array = None
        for atom in self.atoms:
            own = atom.argument(x)
            slope, curvature = atom.base._derivatives(own, xp)
            slopes = _plus(slopes, atom.weight, self._on_its_side(slope, own, y, t, atom, xp))
            curvatures = _plus(curvatures, atom.weight, curvature / atom.scale if atom.moves else curvature)
        return slopes, curvatures

    def slopes(self, y: Array, t: Any = 0.0, xp: SimpleNamespace = NUMPY) -> tuple[Array, Array]:
        """Left and right derivative of u at y - t; they differ only where y sits on a kink."""
        left = right = self.left_slope(y, t, xp)
        if len(self.kinks) > _MANY and xp is NUMPY:
            return self._at_ties(left, y, t)
        ties = [(kink, y - kink.at == t) for kink in self.kinks]
        if xp is NUMPY:
            ties = [(kink, tie) for kink, tie in ties if tie.any()]
        for kink, tie in ties:
            right = xp.where(tie, kink.right, right)
        for kink, tie in reversed(ties):  # two kinks may lie closer than y and t can tell apart: the outer slopes hold
            left = xp.where(tie, kink.left, left)
        return left, right

    def curvature(self, y: Array, t: Any = 0.0, xp: SimpleNamespace = NUMPY) -> Array:
        """The curvature of u at y - t, away from the kinks."""
        x = y - t
        total: Array = None
        for atom in self.atoms:
            curvature = atom.base._curvature(atom.argument(x), xp)
            total = _plus(total, atom.weight, curvature / atom.scale if atom.moves else curvature)
        return total

    def smooth_slope(self, y: Array, t: Any = 0.0) -> Array:
        """The left derivative at y - t less all jumps to the left of it: a continuous function."""
        return self.left_slope(y, t) - np.append(0.0, np.cumsum(self.jumps))[self.passed(y, t)]

    # -- many kinks: their number, not their list, decides ------------------------------------------------------------

    def passed(self, y: Array, t: Any = 0.0) -> Array:
        """How many kinks lie to the left of y - t, by the rule of breakpoints."""
        at = self.kink_locations
        last = len(at) - 1
        count = np.searchsorted(at, y - t)
        if last < 0:
            return count
        while True:  # y - t was rounded, and may name a neighbor
            up = (count <= last) & (y - at[np.minimum(count, last)] > t)
            down = (count > 0) & ~(y - at[np.maximum(count - 1, 0)] > t)
            if not (up | down).any():
                return count
            count = count + up - (down & ~up)

    def _jumps_missed(self, own: Array, y: Array, t: Any, atom: Atom) -> Array:
        """What the base's slope lacks, or has too much, because its own argument was rounded past a kink."""
        locations, jumps, which = (np.array(column) for column in zip(*atom.kinks, strict=True))
        total = np.append(0.0, np.cumsum(jumps))
        of_form = total[np.searchsorted(which, np.arange(len(self.kinks) + 1))]
        return of_form[self.passed(y, t)] - total[np.searchsorted(locations, own)]

    def _at_ties(self, slope: Array, y: Array, t: Any) -> tuple[Array, Array]:
        """Left and right slopes where ``slope`` is right for losses that sit on no kink."""
        last = len(self.kinks) - 1
        first = np.minimum(self.passed(y, t), last)
        tie = y - self.kink_locations[first] == t
        if not tie.any():
            return slope, slope
        end = first
        while True:  # kinks may lie closer than y and t can tell apart
            more = tie & (end < last) & (y - self.kink_locations[np.minimum(end + 1, last)] == t)
            if not more.any():
                break
            end = end + more
        left, right = (np.array([getattr(kink, side) for kink in self.kinks]) for side in ("left", "right"))
        return np.where(tie, left[first], slope), np.where(tie, right[end], slope)

    def _on_its_side(self, slope: Array, own: Array, y: Array, t: Any, atom: Atom, xp: SimpleNamespace) -> Array:
        """The base's slope, moved to the side of each kink that the breakpoint says."""
        if len(atom.moved_kinks) > _MANY and xp is NUMPY:
            return slope + self._jumps_missed(own, y, t, atom)
        for location, jump, which in atom.moved_kinks:
            right, own_right = y - self.kinks[which].at > t, own > location
            if xp is NUMPY and np.array_equal(right, own_right):  # nearly always: one step in 1e16 is rounded so far
                continue
            slope = slope + jump * (xp.indicator(right, own) - xp.indicator(own_right, own))
        return slope

    # -- learned parameters: what moves with them, attached to the graph ----------------------------------------------

    @property
    def is_learned(self) -> bool:
        """Whether a parameter is a tensor, and may get a gradient."""
        return self.plain is not self

    def kink_location(self, which: int, like: Array) -> Array:
        """Where a kink is, as a tensor like another: its value is the stored location, its derivative the true one."""
        location = self.kinks[which].at + like.new_zeros(())
        for atom in self.atoms:
            for own, _, index in atom.kinks:
                moves = atom.scale * own - atom.shift
                if index == which and is_tensor(moves):
                    return location + (moves - moves.detach()).to(like)
        return location

    def anchor(self) -> Array:
        """x0, the point of unit slope; a tensor that moves with the learned parameters where there are any.

        u'(x0, p) = 1 defines x0(p): two steps of Newton's method from its value have its first and second derivative.
        """
        x0: float = self.utility.anchor
        if not self.is_learned:
            return x0
        learned = self.utility._learned_parameter()
        for which, kink in enumerate(self.kinks):
            if kink.left <= 1.0 + 8.0 * _EPS and kink.right >= 1.0 - 8.0 * _EPS:  # x0 is the kink, and moves with it
                return _moving(x0, self.kink_location(which, learned))
        at = learned.new_zeros(()) + x0
        for _ in range(2):
            slope, curvature = self.derivatives(at, 0.0, torch_backend())
            if not as_float(curvature) > 0.0:  # the slope is 1 on a stretch, of which x0 is any point
                return x0
            at = at - (slope - 1.0) / curvature
        return _moving(x0, at)

    # -- facts --------------------------------------------------------------------------------------------------------

    def scaled(self, scale: float) -> Form:
        """The form of s*u(x/s), kink by kink: as many as here, in the same order, with the same slopes."""
        if scale == 1.0:
            return self
        atoms = tuple(
            Atom(atom.base, atom.weight, atom.scale * scale, atom.shift * scale, atom.kinks) for atom in self.atoms
        )
        kinks = tuple(replace(kink, at=kink.at * scale) for kink in self.kinks)
        utility = self.utility.scaled(scale)
        found = Form(utility, atoms, kinks)
        utility.__dict__["_form"] = (utility._state(), found)  # what it would flatten into again
        found.unscaled = (self, scale)
        return found

    @cached_property
    def shape(self) -> Shape | None:
        """A formula for the threshold, where u has one; in other units, that of the form it was scaled from."""
        if self.unscaled is None:
            return self.utility.shape
        known, scale = self.unscaled[0].shape, self.unscaled[1]
        if isinstance(known, Pieces):
            return Pieces(known.low, known.high, self.kinks[0].at if self.kinks else 0.0)
        return None if known is None else known.scaled(scale)

    @cached_property
    def offsets(self) -> tuple[float, float]:
        """What shifting adds to the numbers that a value is computed from: sizes of u at 0, and of the shifts.

        u(x + x0) - u(x0) is as exact as its two parts are, however small their difference.
        """
        shifted = [atom for atom in self.atoms if atom.shifts]
        sizes = [abs(a.weight * a.scale * float(a.base.value(a.shift / a.scale))) for a in shifted]
        return sum(sizes), max((abs(atom.shift) for atom in shifted), default=0.0)

    @cached_property
    def kink_locations(self) -> Array:
        """Where the kinks are, as an array."""
        return np.array([kink.at for kink in self.kinks])

    @cached_property
    def jumps(self) -> Array:
        """How high the kinks are, as an array."""
        return np.array([kink.jump for kink in self.kinks])


# -- risk measures: utilities under a minimum over a few inner variables ---------------------------------------------


@dataclass(frozen=True)
class Term:
    """weight * E[s u((X - t)/s)], with t and s entries of the inner variables; s = 1 where it is None.

    Where losses of several samples lie one after the other, ``sample`` says which of them X is.
    """

    weight: float
    form: Form
    t: int
    s: int | None = None
    sample: int = 0


@dataclass(frozen=True, eq=False)
class Inner:
    r"""A risk measure as a minimum over inner variables v, jointly convex in v and the losses X:

    .. math:: \rho(X) = \min_{low \le v \le high} cost^\top v + \sum_k weight_k\, E[s_k u_k((X - t_k)/s_k)].

    For an optimized certainty equivalent v is the threshold t alone, free and of cost 1. Where s is 0, s u(x/s) is its
    limit, the recession function: x times the largest slope of u for x > 0, and the least for x < 0. Each term must
    have inner variables of its own: a free t whose cost is the weight of the term, and perhaps an s >= 0.
    """

    cost: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    terms: tuple[Term, ...]

    def __post_init__(self) -> None:
        t, s = [term.t for term in self.terms], [term.s for term in self.terms if term.s is not None]
        if sorted([*t, *s]) != list(range(len(self.cost))):
            raise ValueError(f"terms must each have a t, and perhaps an s, of their own; found t = {t} and s = {s}.")
        if not ((self.low[t] == -np.inf).all() and (self.low[s] >= 0.0).all() and (self.high == np.inf).all()):
            found = f"found low = {self.low} and high = {self.high} for t = {t} and s = {s}."
            raise ValueError(f"low must be -inf for each t and 0 for each s, and high inf; {found}")
        for term in self.terms:
            cost, weight = float(self.cost[term.t]), term.weight
            # Solvers search the t at which u' is 1 on average; the scale of a power makes up for another weight.
            free = term.s is not None and isinstance(term.form.utility.curve, Power)
            if not (cost > 0.0 and (weight > 0.0 if free else weight == cost)):
                raise ValueError(f"weight must be positive and equal to the cost of t, {cost:g}; found {weight:g}.")


def _moving(number: float, tensor: Array) -> Array:
    """The number in double precision, with the derivatives of a tensor; on the host, from where any device takes it."""
    return number + (tensor - tensor.detach()).cpu().double()


def _plus(total: Array, weight: Any, part: Array) -> Array:
    if is_tensor(weight) or weight != 1.0:
        part = weight * part
    return part if total is None else total + part


def form(utility: Utility) -> Form:
    """The form of a utility, kept with it for as long as its parameters have the same values.

    Of a learned utility the plain form is kept; the tensors belong to one graph, and are made part of it at each call.
    """
    kept = getattr(utility, "_form", None)
    state = utility._state()
    if kept is None or kept[0] != state:
        plain = utility if utility._learned_parameter() is None else utility._without_gradients()
        kept = (state, Form(plain, plain._atoms()))
        if not is_compiling():  # a graph being made must change nothing outside it
            utility.__dict__["_form"] = kept
    found: Form = kept[1]
    return found if found.utility is utility else Form.of_learned(utility, found)

"""The portfolio problem in weights, and the same in segments.

In weights: scenarios, costs, and constraints that know their names. In segments, between the points where a cost has a
kink, nothing is left but OCE, a linear term and a polyhedron.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from certeq.optimize.domains import CappedSimplex, Domain, Polyhedron
from certeq.risk import oce
from certeq.utilities import Risk

if TYPE_CHECKING:
    from certeq.portfolio._inputs import Assets

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class PortfolioProblem:
    r"""What is minimized over the weights w, with A minus the returns:

    .. math:: \sigma\,\mathrm{OCE}_u\big(A w + \kappa(w)\big) - \rho\,\big(\mu \cdot w - \kappa(w)\big)
              + l_1 \|w\|_1 + l_2 \|w\|_2^2

    over bounds, rows, limits on the long and the short side, on the expected return mu.w - kappa(w) and on risks.

    OCE moves with a constant loss, OCE(A w + k) = OCE(A w) + k, so costs inside the risk are a cost beside it, exactly.
    sigma is 1, or 0 where the expected return alone is maximized; ``reward`` is rho: 0 to minimize risk,
    1/risk_aversion to weigh it against the mean. With ``hurdle`` the ratio of the expected return above it to the risk
    is maximized instead.
    """

    assets: Assets
    A: Floats
    weights: Floats | None
    utility: Risk
    mu: Floats
    costs: Costs
    lower: Floats
    upper: Floats
    rows: tuple[Row, ...] = ()
    max_long: float | None = None
    max_short: float | None = None
    reward: float = 0.0
    l1: float = 0.0
    l2: float = 0.0
    scale: float = 1.0  # objective in the caller's units = scale * this one
    turnover: float | None = None  # already in the bounds; kept to name it
    counts_risk: bool = True  # sigma
    hurdle: float | None = None
    limits: tuple[RiskLimit, ...] = ()

    def expected_return(self, w: Floats) -> float:
        """mu.w less costs and fees."""
        return float(self.mu @ w) - self.costs.at(w)

    def risk(self, w: Floats, losses: Floats | None = None) -> float:
        """OCE of the losses net of costs and fees; ``losses`` are A w, where they are known."""
        losses = self.A @ w if losses is None else losses
        return float(oce(losses, self.utility, self.weights)) + self.costs.at(w)

    def regularization(self, w: Floats) -> float:
        """The two penalties."""
        return self.l1 * float(np.abs(w).sum()) + self.l2 * float(w @ w)

    def objective(self, w: Floats, risk: float | None = None) -> float:
        """What is minimized; ``risk`` is that of w, where it is known."""
        risk = 0.0 if not self.counts_risk else self.risk(w) if risk is None else risk
        return risk - self.reward * self.expected_return(w) + self.regularization(w)


@dataclass(frozen=True)
class Costs:
    r"""What a portfolio pays per period whatever the scenario.

    .. math:: \kappa(w) = f \cdot w + \sum_j c_j |w_j - w^0_j| + \ell

    with fees f, transaction costs c, previous weights w0 and the cost l of selling what can no longer be held.
    """

    fees: Floats
    trading: Floats
    previous: Floats
    liquidation: float = 0.0

    def at(self, w: Floats) -> float:
        """The total at w."""
        moved = float(self.trading @ np.abs(w - self.previous))
        return float(self.fees @ w) + moved + self.liquidation

    def by_asset(self, w: Floats) -> Floats:
        """The change of each asset's own costs from holding nothing to holding w."""
        moved = np.abs(w - self.previous) - np.abs(self.previous)
        return np.asarray(self.fees * w + self.trading * moved)


@dataclass(frozen=True, eq=False)
class RiskLimit:
    r"""A limit on a risk of the losses net of costs, or of what is lost against a benchmark y.

    .. math:: \rho\big(A w + y + \kappa(w)\big) \le \text{level}, \qquad \text{y = 0 where there is no benchmark}

    Without a risk it is the tracking error, the root of the sum of (A w + y)^2 over n - 1, or of their weighted mean.
    """

    name: str
    risk: Risk | None
    level: float
    A: Floats
    y: Floats | None
    weights: Floats | None

    @property
    def unit(self) -> float:
        """What a root mean square is multiplied by for a tracking error."""
        n = len(self.A)
        return 1.0 if self.risk is not None or self.weights is not None else float(np.sqrt(n / (n - 1.0)))

    def losses(self, w: Floats) -> Floats:
        """A w + y."""
        x = self.A @ w
        return x if self.y is None else x + self.y

    def value(self, w: Floats, costs: Costs) -> float:
        """What is limited, at w."""
        x = self.losses(w)
        if self.risk is None:
            return self.unit * float(np.sqrt(np.average(x * x, weights=self.weights)))
        return float(oce(x, self.risk, self.weights)) + costs.at(w)


@dataclass(frozen=True)
class Row:
    """One linear constraint, row.w = side or row.w <= side, under the name the caller knows it by."""

    name: str
    row: Floats
    side: float
    equal: bool = False


# -- in segments ------------------------------------------------------------------------------------------------------


def to_segments(problem: PortfolioProblem) -> SegmentedProblem:
    """Cut every weight at the kinks of its costs and write costs and constraints as rows."""
    costs, n = problem.costs, problem.assets.count
    kinks = []
    if np.any(costs.trading > 0.0):
        kinks.append(np.where(costs.trading > 0.0, costs.previous, np.nan))
    if problem.l1 > 0.0 or problem.max_long is not None or problem.max_short is not None:
        kinks.append(np.zeros(n))
    segments = split(problem.lower, problem.upper, kinks)
    each = problem.counts_risk + problem.reward  # costs count in the risk and again in the mean
    traded, constant = segments.distance(each * costs.trading, costs.previous)
    size, _ = segments.distance(np.full(n, problem.l1), np.zeros(n))
    linear = segments.row(each * costs.fees - problem.reward * problem.mu) + traded + size

    equal = [row for row in problem.rows if row.equal]
    below = [row for row in problem.rows if not row.equal]
    G = [segments.row(row.row) for row in below]
    b = [row.side for row in below]
    names = [row.name for row in below]
    for name, limit, sign in (("max_long", problem.max_long, 1.0), ("max_short", problem.max_short, -1.0)):
        if limit is not None:
            G.append(segments.part(sign))
            b.append(limit)
            names.append(f"{name}={limit:g}")
    whole = len(segments.asset) == n
    return SegmentedProblem(
        problem=problem,
        segments=segments,
        A=problem.A if whole else problem.A[:, segments.asset],
        linear=linear,
        constant=constant + each * costs.liquidation,
        C=np.array([segments.row(row.row) for row in equal]).reshape(len(equal), len(segments.asset)),
        c=np.array([row.side for row in equal]),
        G=np.array(G).reshape(len(G), len(segments.asset)),
        b=np.array(b),
        equalities=tuple(row.name for row in equal),
        inequalities=tuple(names),
    )


@dataclass(frozen=True)
class SegmentedProblem:
    """Minimize OCE(A v) + linear.v + constant + l2 |fold(v)|^2 over the segments' bounds, C v = c and G v <= b."""

    problem: PortfolioProblem
    segments: Segments
    A: Floats
    linear: Floats
    constant: float
    C: Floats
    c: Floats
    G: Floats
    b: Floats
    equalities: tuple[str, ...]  # what the caller calls each row
    inequalities: tuple[str, ...]
    target: float | None = None  # the least expected return, in the rows already

    def with_row(self, name: str, row: Floats, side: float) -> SegmentedProblem:
        """The same with one more inequality."""
        return replace(
            self,
            G=np.vstack([self.G, row]),
            b=np.append(self.b, side),
            inequalities=(*self.inequalities, name),
        )

    def with_levels(self, levels: Sequence[float]) -> SegmentedProblem:
        """The same with other levels of the limits on risks."""
        limits = [replace(limit, level=level) for limit, level in zip(self.problem.limits, levels, strict=True)]
        return replace(self, problem=replace(self.problem, limits=tuple(limits)))

    def with_target(self, target: float) -> SegmentedProblem:
        """The same with the expected return, net of costs and fees, at least ``target``."""
        row, constant = self.minus_return()
        return replace(self.with_row(f"min_return={target:g}", row, -target - constant), target=target)

    def quadratic(self) -> Floats | None:
        """The L2 penalty as `solve_exact` takes it: a diagonal, or one row per asset over its segments."""
        l2, asset = self.problem.l2, self.segments.asset
        if l2 == 0.0:
            return None
        if len(asset) == self.segments.count:
            return np.full(len(asset), 2.0 * l2)
        rows: Floats = np.sqrt(2.0 * l2) * (np.arange(self.segments.count)[:, None] == asset)
        return rows

    def cost_slopes(self) -> tuple[Floats, float]:
        """Slopes and constant of costs and fees."""
        costs = self.problem.costs
        moved, constant = self.segments.distance(costs.trading, costs.previous)
        return self.segments.row(costs.fees) + moved, constant + costs.liquidation

    def minus_return(self) -> tuple[Floats, float]:
        """Slopes and constant of minus the expected return, net of costs and fees."""
        slopes, constant = self.cost_slopes()
        return slopes - self.segments.row(self.problem.mu), constant

    def domain(self) -> Domain:
        """The feasible set, with a quick projection where there is one."""
        s = self.segments
        if len(self.c) == 1 and not len(self.b) and np.all(self.C == 1.0):
            return CappedSimplex(s.lower, s.upper, float(self.c[0]))
        return self.polyhedron()

    def polyhedron(self) -> Polyhedron:
        """The feasible set by its bounds and rows."""
        s = self.segments
        rows = {"C": self.C, "c": self.c} if len(self.c) else {}
        more = {"A": self.G, "b": self.b} if len(self.b) else {}
        return Polyhedron(s.lower, s.upper, **rows, **more)


@dataclass(frozen=True)
class Segments:
    r"""Variables v with :math:`w_j = \sum_{k \in j} v_k`, one per stretch of w_j between two kinks.

    A convex cost :math:`\varphi(w_j)` that is linear between the kinks costs the same as the cheapest way to make up
    w_j of its segments,

    .. math:: \varphi(w_j) = c_0 + \min\Big\{\sum_k s_k v_k : \sum_k v_k = w_j,\ l_k \le v_k \le h_k\Big\},

    because its slopes s_k rise from one segment to the next. So minimizing over v, or bounding the cost by a row,
    is exact and needs neither new rows nor columns for the costs themselves.
    """

    asset: NDArray[np.intp]
    lower: Floats
    upper: Floats
    center: Floats  # a point of w_j strictly inside the segment: tells the slope of any cost there
    first: NDArray[np.bool_]  # the lowest segment holds w_j itself, the others what is above their kink
    count: int

    def fold(self, v: Floats) -> Floats:
        """The weights that the segments make up."""
        if len(v) == self.count:
            return v
        return np.bincount(self.asset, weights=v, minlength=self.count).astype(np.float64)

    def unfold(self, w: Floats) -> Floats:
        """The cheapest segments for given weights within the bounds: each is full before the next is begun."""
        if len(self.asset) == self.count:
            return w
        v = np.empty(len(self.asset))
        left = w.astype(float)
        for k, j in enumerate(self.asset):
            v[k] = min(max(left[j], self.lower[k]), self.upper[k])
            left[j] -= v[k]
        return v

    def row(self, by_asset: Floats) -> Floats:
        """A linear function of the weights as one of the segments."""
        return by_asset[self.asset]

    def distance(self, scale: Floats, kink: Floats) -> tuple[Floats, float]:
        r"""Slopes and constant of :math:`\sum_j \text{scale}_j |w_j - \text{kink}_j|`."""
        slopes = scale[self.asset] * np.sign(self.center - kink[self.asset])
        return slopes, float(np.sum(np.where(self.first, -slopes * kink[self.asset], 0.0)))

    def part(self, sign: float) -> Floats:
        r"""Slopes of :math:`\sum_j (\text{sign} \cdot w_j)^+`: the long (1) or the short (-1) side."""
        return np.where(np.sign(self.center) == sign, sign, 0.0)


def split(lower: Floats, upper: Floats, kinks: list[Floats]) -> Segments:
    """Cut each [lower_j, upper_j] at the kinks inside it; NaN stands for no kink.

    >>> import numpy as np
    >>> cut = split(np.array([-1.0, 0.0]), np.array([1.0, 1.0]), [np.zeros(2)])
    >>> cut.asset, cut.lower, cut.upper
    (array([0, 0, 1]), array([-1.,  0.,  0.]), array([0., 1., 1.]))
    """
    asset: list[int] = []
    ends: list[tuple[float, float]] = []
    table = np.array(kinks).reshape(len(kinks), len(lower))
    for j in range(len(lower)):
        inside = np.unique(table[:, j][(table[:, j] > lower[j]) & (table[:, j] < upper[j])])
        points = [float(lower[j]), *inside.tolist(), float(upper[j])]
        for low, high in itertools.pairwise(points):
            asset.append(j)
            ends.append((low, high))
    index = np.array(asset, dtype=np.intp)
    low, high = np.array(ends, dtype=float).reshape(-1, 2).T
    first = np.append(True, np.diff(index) > 0) if len(index) else np.zeros(0, dtype=bool)
    with np.errstate(invalid="ignore"):
        center = np.where(np.isinf(low), np.where(np.isinf(high), 0.0, high - 1.0), low + 1.0)
        center = np.where(np.isfinite(low) & np.isfinite(high), 0.5 * (low + high), center)
    return Segments(index, np.where(first, low, 0.0), np.where(first, high, high - low), center, first, len(lower))

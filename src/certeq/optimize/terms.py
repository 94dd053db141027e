"""Terms of an objective and limits on risks, as callers write them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certeq._checks import check_array, check_instance, check_number, check_weights, probabilities, shown
from certeq._table import Table
from certeq.optimize.domains import Domain
from certeq.optimize.domains._polyhedron import ExtendedForm, extended_form
from certeq.optimize.domains._rows import Constraints
from certeq.optimize.exact._solve import check_limits
from certeq.optimize.functions import RiskFunction, SquareFunction, WeightedSum, root_mean_square
from certeq.optimize.gaps import proved_gap
from certeq.optimize.limited import LimitedResult, solve_limited
from certeq.optimize.losses import Loss
from certeq.optimize.losses._linear import split_offset
from certeq.optimize.sg._minimize import check_start
from certeq.optimize.solution import Solution, Trace
from certeq.utilities import Risk

Vector = NDArray[np.float64]


class RootMeanSquare:
    r"""The root mean square of losses, :math:`\sqrt{E[X^2]}`, as a limit: a tracking error.

    It is convex but no risk measure, as gains count as much as losses; only `Limit` takes it.

    See Also
    --------
    Limit
        A limit on a risk.
    certeq.portfolio.MinimumOCE
        Portfolios of least OCE, and of largest return or ratio.

    Examples
    --------
    >>> import certeq as ce
    >>> ce.Limit(ce.LinearLoss([[0.1, -0.2], [0.0, 0.3]]), ce.RootMeanSquare(), 0.15)
    Limit(LinearLoss(A=<2x2>), RootMeanSquare(), 0.15)
    """

    def __repr__(self) -> str:
        return "RootMeanSquare()"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self)

    def __hash__(self) -> int:
        return hash(type(self))


@dataclass(frozen=True, eq=False)
class RiskTerm:
    r"""A weighted risk of linear losses, :math:`c\,\rho(A\theta + b)`: one term of an objective with several.

    Parameters
    ----------
    loss : LinearLoss
        The losses, with samples of their own. All terms and limits of a problem share theta.
    risk : Risk
        Risk measure for them.
    weight : float
        A positive factor.
    weights : array (n,), optional
        Probabilities of the samples, up to a factor; those that `minimize` is given if not given.

    See Also
    --------
    Limit
        A limit on a risk.
    minimize
        Minimize the OCE of losses over a feasible set.

    Examples
    --------
    >>> import certeq as ce
    >>> ce.RiskTerm(ce.LinearLoss([[1.0, 2.0], [2.0, 0.0]]), ce.CVaR(0.5), weight=0.3)
    RiskTerm(LinearLoss(A=<2x2>), CVaR(alpha=0.5), weight=0.3)
    """

    loss: Loss
    risk: Risk
    weight: float = 1.0
    weights: Any = None

    def __post_init__(self) -> None:
        _check_loss(self)
        check_instance("risk", self.risk, Risk, "a risk such as CVaR(0.05)")
        check_number("weight", self.weight, above=0.0)

    def __repr__(self) -> str:
        return f"RiskTerm({self.loss!r}, {self.risk!r}, weight={shown(self.weight)})"


@dataclass(frozen=True, eq=False)
class Limit:
    r"""A limit on a risk of linear losses, :math:`\rho(A\theta + b) \le` level.

    Parameters
    ----------
    loss : LinearLoss
        The losses, with samples of their own; ``LinearLoss(-X, offset=y)`` for what is lost against a benchmark y.
    risk : Risk or RootMeanSquare
        What is limited.
    level : float
        The largest value allowed.
    weights : array (n,), optional
        Probabilities of the samples, up to a factor; those that `minimize` is given if not given. Losses of other
        samples than the objective's then need weights of their own.

    See Also
    --------
    RiskTerm
        One term of an objective with several risks.
    RootMeanSquare
        Root mean square of losses, for a limit on the tracking error.
    minimize
        Minimize the OCE of losses over a feasible set.
    certeq.optimize.InfeasibleLimitsError
        Error raised for limits that no point keeps.

    Examples
    --------
    >>> import numpy as np, certeq as ce
    >>> draws = np.random.default_rng(0).normal([0.05, 0.1], [1.0, 2.0], size=(1000, 2))
    >>> returns = 0.01 * draws
    >>> losses = ce.LinearLoss(-returns)
    >>> limit = ce.Limit(losses, ce.CVaR(0.05), 0.025)
    >>> found = ce.minimize(losses, ce.Mean(), domain=ce.Simplex(), limits=[limit])
    >>> found.limit_values.round(6), found.binding
    (array([0.025]), (0,))
    """

    loss: Loss
    risk: Risk | RootMeanSquare
    level: float
    weights: Any = None

    def __post_init__(self) -> None:
        _check_loss(self)
        if not isinstance(self.risk, RootMeanSquare):
            check_instance("risk", self.risk, Risk, "a risk such as CVaR(0.05), or RootMeanSquare()")
        check_number("level", self.level)
        if isinstance(self.risk, RootMeanSquare) and not self.level > 0.0:
            raise ValueError(
                f"level must be above 0 for a root mean square; found {self.level:g}. Losses that must vanish are "
                "equality rows of a Polyhedron."
            )

    def __repr__(self) -> str:
        return f"Limit({self.loss!r}, {self.risk!r}, {shown(self.level)})"


def _check_loss(term: RiskTerm | Limit) -> None:
    """Refuse a loss that is not linear or holds no samples, and weights that do not fit it."""
    loss = check_instance("loss", term.loss, Loss, "a LinearLoss")
    if not loss.linear:
        raise ValueError(f"loss must be linear: only the exact method takes several terms and limits; found {loss!r}.")
    if loss.samples is None:
        raise ValueError(f"loss must hold its samples, as in LinearLoss(A); found {loss!r}.")
    if term.weights is not None:
        given = probabilities(check_weights("weights", term.weights, loss.samples.shape[0]))
        object.__setattr__(term, "weights", np.array(given))


# -- a problem with several terms and limits, as the solver takes it -----------------------------------------------


@dataclass(frozen=True, eq=False)
class Decision:
    """WeightedSum, limits and feasible set in the variables v of a polyhedron, with theta = center + S v."""

    objective: WeightedSum
    limits: list[tuple[RiskFunction | SquareFunction, float]]
    names: list[str]
    rows: Constraints
    start: Vector | None
    extended: ExtendedForm
    plain: WeightedSum  # in theta itself
    plain_limits: list[RiskFunction | SquareFunction]
    size: int
    count: int  # scenarios of the objective

    def theta(self, v: Vector) -> Vector:
        """The point that v stands for."""
        return v if self.extended.is_plain else self.extended.theta(v)

    def lifted(self, slope: Vector) -> tuple[Vector, float]:
        """A linear function of theta as one of v, and its constant."""
        if self.extended.is_plain:
            return slope, 0.0
        return slope[self.extended.index] * self.extended.sign, float(slope @ self.extended.center)


def read_decision(
    loss: Any, risk: Any, limits: Sequence[Limit], domain: Domain, weights: Any, theta0: Any, linear: Any = None
) -> Decision:
    """Check the terms and limits; all are functions of one theta in the feasible set."""
    terms = _read_terms(loss, risk)
    if isinstance(limits, Limit) or not isinstance(limits, Sequence):
        raise TypeError(f"limits must be a list of Limit; found {shown(limits)}.")
    for j, limit in enumerate(limits):
        check_instance(f"limits[{j}]", limit, Limit, "a Limit(loss, risk, level)")
    check_instance("domain", domain, Domain, "a feasible set such as Simplex()")
    d = int(terms[0].loss.dimension() or 0)
    every: list[tuple[str, RiskTerm | Limit]] = [(f"loss[{k}]", term) for k, term in enumerate(terms)]
    every += [(f"limits[{j}]", limit) for j, limit in enumerate(limits)]
    for name, one in every:
        found = one.loss.dimension()
        if found != d:
            raise ValueError(f"{name}.loss must have {d} columns, as the first term has; found {found}.")
    try:
        extended = extended_form(domain, d)
    except TypeError as error:
        raise ValueError(f"domain must be a polyhedron for several terms and limits; found {error}.") from None
    slope = np.zeros(d) if linear is None else check_array("linear", linear, size=d)
    plain, plain_limits = _functions(terms, limits, slope, weights, None)
    objective, functions = plain, plain_limits
    if not extended.is_plain:
        objective, functions = _functions(terms, limits, slope, weights, extended)
    read = [(function, float(limit.level)) for function, limit in zip(functions, limits, strict=True)]
    names = [f"limits[{j}] ({limit.risk!r} <= {limit.level:g})" for j, limit in enumerate(limits)]
    start = None if theta0 is None else check_start(theta0, terms[0].loss, terms[0].loss.samples, domain)
    if start is not None and not extended.is_plain:
        start = extended.parts(start)
    rows, count = extended.rows._constraints(), sum(int(term.loss.samples.shape[0]) for term in terms)
    return Decision(objective, read, names, rows, start, extended, plain, plain_limits, d, count)


def _functions(
    terms: list[RiskTerm], limits: Sequence[Limit], linear: Vector, weights: Any, extended: ExtendedForm | None
) -> tuple[WeightedSum, list[RiskFunction | SquareFunction]]:
    """WeightedSum and limits as functions of theta, or of v."""
    shared: dict[Any, Any] = {}
    constant = 0.0
    risks = [(float(term.weight), _function(term, term.risk, weights, extended, shared)) for term in terms]
    functions = [_limit_function(limit, weights, extended, shared) for limit in limits]
    if extended is not None:
        linear, constant = linear[extended.index] * extended.sign, float(linear @ extended.center)
    return WeightedSum(risks, linear, constant=constant), functions


def _read_terms(loss: Any, risk: Any) -> list[RiskTerm]:
    if isinstance(loss, RiskTerm):
        loss = [loss]
    if isinstance(loss, Sequence):
        if risk is not None:
            raise TypeError(
                f"utility must be left out beside a list of RiskTerm, which have their own; found {risk!r}."
            )
        for k, term in enumerate(loss):
            check_instance(f"loss[{k}]", term, RiskTerm, "a RiskTerm(loss, risk, weight)")
        if not loss:
            raise ValueError("loss must hold at least one RiskTerm; found none.")
        return list(loss)
    return [RiskTerm(loss, risk)]


def _function(
    one: RiskTerm | Limit, risk: Any, weights: Any, extended: ExtendedForm | None, shared: dict[Any, Any]
) -> RiskFunction:
    """The function of v; terms of the same loss share its table."""
    key = id(one.loss)
    if key not in shared:
        A, offset = one.loss.samples, None
        if getattr(one.loss, "has_offset", False):  # the last column
            A, offset = split_offset(A)
            A, offset = A if isinstance(A, Table) else np.ascontiguousarray(A), np.ascontiguousarray(offset)
        if extended is not None:
            if np.any(extended.center):
                in_blocks = isinstance(A, Table)
                at_center = A.take(np.arange(len(A)), extended.center) if in_blocks else np.asarray(A @ extended.center)
                offset = at_center if offset is None else offset + at_center
            A = A.mapped(extended.matrix()) if isinstance(A, Table) else A[:, extended.index] * extended.sign
        shared[key] = (A, offset)
    A, offset = shared[key]
    p = one.weights
    if p is None and weights is not None:
        if ("weights", A.shape[0]) not in shared:
            if np.ndim(weights) == 1 and len(weights) != A.shape[0]:
                raise ValueError(
                    "weights are those of every term and limit that has none of its own, and must have one entry per "
                    f"sample; found {len(weights)} for {A.shape[0]} samples of {one!r}. Pass weights of its own there."
                )
            shared[("weights", A.shape[0])] = probabilities(check_weights("weights", weights, A.shape[0]))
        p = shared[("weights", A.shape[0])]
    return RiskFunction(A, risk, p, offset)


def _limit_function(
    limit: Limit, weights: Any, extended: ExtendedForm | None, shared: dict[Any, Any]
) -> RiskFunction | SquareFunction:
    one = _function(limit, limit.risk, weights, extended, shared)
    if isinstance(limit.risk, RootMeanSquare):
        return root_mean_square(one, float(limit.level))
    return one


def minimize_terms(
    loss: Any,
    risk: Any,
    *,
    domain: Domain,
    limits: Sequence[Limit] = (),
    weights: Any = None,
    theta0: Any = None,
    linear: Any = None,
    tol: float = 1e-9,
    max_iter: int = 60,
    time_limit: float | None = None,
) -> Solution:
    """Minimize a weighted sum of risks over a polyhedron under limits on risks; see `minimize`."""
    began = time.perf_counter()
    check_limits(tol, max_iter, time_limit)
    read = read_decision(loss, risk, limits, domain, weights, theta0, linear)
    settings: dict[str, Any] = {"tol": tol, "max_iter": max_iter, "time_limit": time_limit}
    found = solve_limited(read.objective, read.limits, read.rows, names=read.names, theta0=read.start, **settings)
    if not read.extended.is_plain:
        found = _in_theta(read, found, tol)
    trace = np.array([row[:3] for row in found.trace], dtype=np.float64).reshape(-1, 3)
    length = len(trace)
    batch = np.full(length, read.count, dtype=np.int64)
    return Solution(
        theta=found.theta,
        value=found.value,
        gap=found.gap,
        status="converged" if found.status == "optimal" else found.status,
        trace=Trace(np.arange(1, length + 1), trace[:, 0], trace[:, 1], np.full(length, np.nan), batch, trace[:, 2]),
        iterations=found.iterations,
        seconds=time.perf_counter() - began,
        method="exact",
        radius=found.radius,
        limit_values=found.limit_values if limits else None,
        limit_multipliers=found.limit_multipliers if limits else None,
        binding=found.binding if limits else None,
    )


def _in_theta(read: Decision, found: LimitedResult, tol: float) -> LimitedResult:
    """The result at theta itself, whose roundings are others than those of v."""
    theta = read.theta(found.theta)
    at, each = read.plain.at(theta), [function.at(theta) for function in read.plain_limits]
    levels, prices = np.array([level for _, level in read.limits]), found.limit_multipliers
    over = np.maximum([one.value for one in each] - levels, 0.0) if len(levels) else levels
    errors = np.array([one.error for one in each])
    gap = proved_gap(at.value, found.lower_bound, 2.0 * (at.error + float(prices @ errors)) + float(prices @ over))
    values = [
        one.norm(theta) if isinstance(one, SquareFunction) else x.value
        for one, x in zip(read.plain_limits, each, strict=True)
    ]
    # What the gap is relative to stays; multiplied by a large price, a limit that rounding breaks may open it again.
    relative = gap * (found.relative_gap / found.gap) if found.gap > 0.0 else 0.0
    return replace(
        found,
        theta=theta,
        value=at.value,
        gap=gap,
        lower_bound=at.value - gap,
        relative_gap=relative,
        status="stalled" if found.status == "optimal" and relative > tol else found.status,
        limit_values=np.array(values),
    )

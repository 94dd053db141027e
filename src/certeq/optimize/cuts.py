r"""Minimize a distortion of linear losses by cuts: its own tilts bound it from below, and prove the answer.

For every tilt q_k that was found, at losses x_k = A theta_k,

.. math:: \rho(A\theta) \;\ge\; \rho(x_k) + q_k^\top A(\theta - \theta_k) \qquad\text{for every } \theta,

so that the largest of these lines is a model of the risk from below. The model is the largest loss of a small table
with a row for each cut, and the exact solver minimizes it: its certificate is the proof. On the way a square around the
best point is added, in the metric of the losses' covariance: a distortion is nearly mean + c * deviation, and its
minimum is reached in some tens of cuts where the model alone needs thousands.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certeq.optimize.domains import UnboundedError
from certeq.optimize.domains._rows import implied_box
from certeq.optimize.exact import ExactResult, RiskPart, solve_exact, solve_parts
from certeq.optimize.exact._certificate import closed_box, l1_reach
from certeq.optimize.exact._problem import Problem, read_problem, read_start
from certeq.optimize.exact._solve import check_limits, status_of
from certeq.optimize.gaps import proved_gap
from certeq.risk.solvers import SolvedInner, needs_sorting, solve_risk
from certeq.utilities import CVaR, Mean, MeanVariance, Mixture, Risk, SortedRisk, Utility

Vector = NDArray[np.float64]
_EPS = float(np.finfo(np.float64).eps)
_SORTED = 64.0 * _EPS  # by how much distorted weights may miss g, as a share of the losses' size
_THRESHOLD = 1e-12  # as much for the tilt of a utility in a mixture, whose threshold is found to rounding
_SEARCHED = 2e-10  # and of a ball, whose scale is
_SERIOUS = 0.1  # the share of the predicted fall that makes a point the new center
_KEPT = 4  # cuts per variable
_RAYS = 100  # directions in which the model may fall for ever before the risk is taken to do so
_OFTEN = 8  # steps between two proofs where the model does not ask for one


def solve_by_cuts(
    A: Any,
    utility: Risk,
    *,
    weights: Any = None,
    linear: Any = None,
    quadratic: Any = None,
    lower: Any = None,
    upper: Any = None,
    C: Any = None,
    c: Any = None,
    G: Any = None,
    b: Any = None,
    theta0: Any = None,
    tol: float = 1e-7,
    max_iter: int = 500,
    time_limit: float | None = None,
) -> ExactResult:
    """Minimize a distortion, or a mixture with one in it, of A theta, plus linear.theta, over a polyhedron.

    Parameters and result are those of `solve_exact`. The relative gap is proved to 1e-7 as a rule and not to 1e-9, and
    there is no threshold: ``threshold`` is NaN and ``inner`` empty. Iterations are cuts.

    Examples
    --------
    >>> import numpy as np, certeq as ce
    >>> from certeq.optimize.cuts import solve_by_cuts
    >>> losses = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5], [-1.0, -1.0]])
    >>> found = solve_by_cuts(losses, ce.Wang(0.5), lower=0.0, C=[1, 1], c=1)
    >>> found.theta.round(4), found.status
    (array([0.5, 0.5]), 'optimal')
    """
    began = time.perf_counter()
    problem = read_problem(A, Mean(), weights, linear, lower, upper, C, c, G, b, quadratic)
    check_limits(tol, max_iter, time_limit)
    given = read_start(theta0, problem.table.shape[1])
    model = _CutModel(problem, utility, began)
    return model.run(given, tol, max_iter, np.inf if time_limit is None else began + time_limit)


def solver_for(risk: Risk) -> Callable[..., ExactResult]:
    """The function that minimizes this risk of a table in memory: `solve_exact`, or `solve_by_cuts`.

    Examples
    --------
    >>> import certeq as ce
    >>> from certeq.optimize.cuts import solver_for
    >>> solver_for(ce.EVaR(0.05)).__name__, solver_for(ce.Wang(0.5)).__name__
    ('solve_exact', 'solve_by_cuts')
    """
    return solve_by_cuts if needs_sorting(risk) else solve_exact


@dataclass
class _CutModel:
    """The cuts so far, and the problem that they bound from below."""

    problem: Problem
    risk: Risk
    began: float
    points: list[Vector] = field(default_factory=list)
    slopes: list[Vector] = field(default_factory=list)
    levels: list[float] = field(default_factory=list)  # of the cuts at theta = 0; 0 for a coherent risk
    best: tuple[float, Vector] = (np.inf, np.zeros(0))
    largest: float = 0.0  # the largest entry of a point on the way
    rounding: float = 0.0  # what the latest proof allowed for; no gap is less

    def __post_init__(self) -> None:
        p = self.problem
        self.even = bool((p.weights == p.weights[0]).all())
        self.mean = p.weights @ p.table
        away = (p.table - self.mean) * np.sqrt(p.weights)[:, None]
        self.metric = np.linalg.qr(away, mode="r") if len(away) > away.shape[1] else away
        self.deviation = np.sqrt(np.square(self.metric).sum(axis=0))
        self.limits = p.polyhedron.as_arguments()

    def run(self, given: Vector | None, tol: float, max_iter: int, deadline: float) -> ExactResult:
        """Add cuts until the gap is proved."""
        center = self._start(given)
        value, trace, proof = self.add(center), [], None
        stiffness, since = 1.0, 0
        for iteration in range(1, max_iter + 1):
            theta, model = self._step(center, value, stiffness)
            found, self.largest = self.add(theta), max(self.largest, float(np.abs(theta).max()))
            predicted, since = value - model, since + 1
            if found < value - _SERIOUS * predicted:
                center, value = theta, found
            late = time.perf_counter() > deadline
            last = late or iteration == max_iter
            aim = tol * self._size(value)
            if last or predicted <= aim or since >= _OFTEN:
                proof, since = self._prove(), 0
                center, value = self.best[1], self.best[0]
                relative = proof.gap / self._size(proof.value)
                trace.append((proof.value, proof.gap, time.perf_counter() - self.began, len(self.slopes)))
                if last or relative <= tol or self.rounding > aim:
                    break
                # The square keeps the step short of what the model alone sees.
                stiffness = max(0.3 * stiffness, 1e-6) if predicted <= aim else stiffness
        assert proof is not None
        status = status_of(relative <= tol, iteration >= max_iter, late)
        return replace(proof, relative_gap=relative, status=status, iterations=iteration, trace=trace)

    def add(self, theta: Vector) -> float:
        """The objective at theta, and its cut."""
        p = self.problem
        found = self._tilt(theta)
        slope = found.tilt @ p.table
        self.points.append(theta)
        self.slopes.append(slope)
        self.levels.append(0.0 if self.risk.is_coherent else found.value - float(slope @ theta))
        value = found.value + self._beside(theta)
        if value < self.best[0]:
            self.best = (value, theta)
        return value

    def _tilt(self, theta: Vector) -> SolvedInner:
        p = self.problem
        found = solve_risk(np.asarray(p.table @ theta), None if self.even else p.weights, self.risk)
        if found is None:
            raise OverflowError(f"Losses of {self.risk!r} are beyond float64 at a point of the feasible set.")
        return found

    def _beside(self, theta: Vector) -> float:
        p = self.problem
        return float(p.linear @ theta) + (0.0 if p.squares is None else p.squares.value(theta))

    def _size(self, value: float) -> float:
        """What a gap is compared with: the value, or a hundredth of one asset's spread times theta's size."""
        return max(abs(value), 1e-2 * float(self.deviation.mean()) * self.largest, 1e-300)

    # -- the model: the largest loss of a table with a row for each cut -----------------------------------------------

    def _solve(self, linear: Vector, squares: list[Vector], start: Vector, tol: float) -> ExactResult:
        """The model's minimum, with a linear term and squares."""
        table, limits = np.array(self.slopes), self.limits
        rows = np.vstack(squares) if squares else None
        largest = CVaR(0.5 / len(table))
        if self.risk.is_coherent:
            return solve_exact(table, largest, linear=linear, quadratic=rows, theta0=start, tol=tol, **limits)
        part = RiskPart(table, largest, offset=np.array(self.levels))
        found = solve_parts([part], linear=linear, quadratic=rows, theta0=start, tol=tol, **limits)
        assert isinstance(found, ExactResult)  # the cuts are in memory
        return found

    def _squares(self) -> list[Vector]:
        squares = self.problem.squares
        if squares is None:
            return []
        return [np.diag(squares.rows) if squares.is_diagonal else squares.rows]

    def _step(self, center: Vector, value: float, stiffness: float) -> tuple[Vector, float]:
        """Where the model plus a square around the center is least, and the model there, less the square."""
        p = self.problem
        spread = float(np.linalg.norm(self.metric @ center))
        floor = 1e-3 * float(self.deviation.max()) * float(np.abs(center).max()) or 1.0
        spread = max(spread, floor)
        curvature = max(value - self._beside(center) - float(self.mean @ center), 1e-3 * spread) / spread**2
        F = np.sqrt(stiffness * curvature) * np.vstack([self.metric, 1e-4 * np.diag(self.deviation)])
        found = self._solve(p.linear - F.T @ (F @ center), [*self._squares(), F], center, 1e-10)
        self._prune(found.tilt)
        theta = np.clip(found.theta, p.polyhedron.lower, p.polyhedron.upper)
        model = float((np.array(self.slopes) @ theta + self.levels).max())
        return theta, model + self._beside(theta)

    def _prune(self, shares: Vector) -> None:
        """Forget cuts that carry nothing, the oldest first, where there are many."""
        spare = len(self.slopes) - _KEPT * len(self.mean) - 20
        if spare > 0:
            drop = set(np.flatnonzero(shares <= 1e-12)[:spare].tolist())
            for name in ("points", "slopes", "levels"):
                setattr(self, name, [item for i, item in enumerate(getattr(self, name)) if i not in drop])

    def _start(self, given: Vector | None) -> Vector:
        """A point of the set: where mean and variance are least, or the nearest to what was given."""
        p = self.problem
        unit = float(self.deviation.max()) or 1.0
        squares = None if p.squares is None else p.squares.given()
        fixed: dict[str, Any] = {"linear": p.linear, "quadratic": squares, **self.limits}
        if given is not None:  # projected where it is outside
            nearest = solve_exact(
                -given[None, :], Mean(), quadratic=np.ones(len(given)), theta0=given, tol=1e-6, **self.limits
            )
            return nearest.theta
        try:
            utility = MeanVariance(0.5 / unit)
            return solve_exact(p.table, utility, weights=p.weights, tol=1e-3, **fixed).theta
        except UnboundedError as error:
            raise self._unbounded(error) from None

    def _unbounded(self, error: UnboundedError) -> UnboundedError:
        """The error of another risk, said of this one."""
        text = str(error)
        return UnboundedError(
            f"The problem is unbounded under {self.risk!r}: {text[text.find(': ') + 2 :]}", error.direction
        )

    # -- the proof ----------------------------------------------------------------------------------------------------

    def _prove(self) -> ExactResult:
        """The best point so far with the bound that all cuts prove; the minimum of the model is one more cut."""
        p, theta = self.problem, self.best[1]
        found = self._solve_bounded(theta)
        value, theta = self.best
        shares = found.tilt
        tilt = sum(
            share * self._tilt(point).tilt for share, point in zip(shares, self.points, strict=True) if share > 0.0
        )
        cut = self.problem.polyhedron
        low, high, radius = closed_box(implied_box(cut), theta, float(np.abs(theta).max()) or 1.0, np.zeros(len(theta)))
        rounding = _accuracy(self.risk) + _EPS * (len(p.weights) + len(theta) + 8.0)
        rounding *= p.largest * l1_reach(cut, low, high)
        self.rounding = rounding + 16.0 * _EPS * (abs(value) + abs(self._beside(theta)))
        self.add(np.clip(found.theta, cut.lower, cut.upper))
        gap = proved_gap(value, found.lower_bound, self.rounding)
        share = p.shares[0]
        full = np.zeros(share.count)
        full[slice(None) if share.kept is None else share.kept] = tilt
        return ExactResult(
            theta=theta,
            value=value,
            gap=gap,
            lower_bound=value - gap,
            relative_gap=np.inf,
            threshold=np.nan,
            inner=np.empty(0),
            tilt=full / float(full.sum()),
            status="",
            iterations=0,
            trace=[],
            multipliers=found.multipliers,
            radius=min(radius, found.radius),
        )

    def _solve_bounded(self, theta: Vector) -> ExactResult:
        """The minimum of the model; where it falls for ever along a ray, the risk far along that says who is right."""
        p = self.problem
        unit = 1.0 + float(np.abs(theta).max())
        for attempt in range(_RAYS):
            try:
                return self._solve(p.linear, self._squares(), theta, 1e-11)
            except UnboundedError as error:
                unbounded = error
            ray = unbounded.direction
            ray = ray * (unit * 10.0 ** (1 + attempt % 6) / float(np.abs(ray).max()))
            before = self.add(theta + ray)
            if self.add(theta + 2.0 * ray) < before - 1e-9 * abs(before):
                raise self._unbounded(unbounded)
        raise self._unbounded(unbounded)


def _accuracy(risk: Risk) -> float:
    """By how much a tilt may miss those that the risk allows, as a share of the losses' size."""
    if isinstance(risk, Mixture):
        return max(map(_accuracy, risk.risks))
    return _SORTED if isinstance(risk, SortedRisk) else _THRESHOLD if isinstance(risk, Utility) else _SEARCHED

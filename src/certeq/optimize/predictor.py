"""Risk of the losses of a linear predictor plus half a ridge, with exact first and second derivatives.

A loss is a convex function of the scores X theta: squared error, logistic, softmax. `lower_bound` bounds the minimum of
the whole objective from below; the gap of a fit is the value less that bound. `certeq.optimize.newton` minimizes it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr

from certeq._threads import run_all
from certeq.optimize.exact._risk import plain_form
from certeq.optimize.gaps import proved_gap
from certeq.optimize.losses._base import Floats
from certeq.optimize.losses._predictor import LogisticScore, ScoreLoss, SoftmaxScore, SquaredScore
from certeq.risk.solvers import SolvedInner, solve_inner, solve_rows
from certeq.utilities.forms import Form, Inner

__all__ = [
    "DENSE",
    "At",
    "Curvature",
    "Floats",
    "LinearObjective",
    "LogisticScore",
    "ScoreLoss",
    "SoftmaxScore",
    "SquaredScore",
    "gap_of",
    "lower_bound",
    "row_products",
    "second_derivative",
    "smooth_gap",
]

_ROWS = 1024  # rows of X that are scaled at a time: they stay in the cache until they are multiplied
_NARROW = 32  # columns up to which the product of two matrices is faster than that of one with itself
_PARTS = 16  # parts of X that threads share
_MANY = 1 << 24  # multiplications below which one thread does it all
DENSE = 5000  # parameters up to which a Hessian is formed (200 MB) and factored; beyond, conjugate gradients
ROUNDING = 64.0 * float(np.finfo(np.float64).eps)  # of sums over samples, relative to the sizes of their terms
_SUM = 1e-12  # how far a tilt's sum may be from 1 before it is no tilt


class LinearObjective:
    r"""theta -> rho(F_i(X theta)) + (penalty/2) norm(coef)**2, rho a risk whose inner variables are eliminated.

    theta has one row per output: the coefficients and, last, the intercept if there is one. The derivatives are

    .. math:: \nabla = \sum_i q_i \nabla F_i, \qquad \nabla^2 = \sum_i q_i \nabla^2 F_i + J^\top \nabla^2\rho(F)\, J,

    q the tilt, J the gradients of the losses and the second derivative of the risk that of `Curvature`. For an OCE they
    are E[u' F''] + E[u''] Cov_w(grad F), w = u''/E[u''] at F - t*. Weights sum to 1; None means equal ones.
    """

    def __init__(
        self, X: Floats, loss: ScoreLoss, weights: Floats | None, inner: Inner, penalty: float, intercept: bool
    ) -> None:
        self.X, self.loss, self.weights, self.inner = X, loss, weights, inner
        self.penalty, self.intercept = penalty, intercept
        self.columns = X.shape[1]
        self.shape = (loss.outputs, self.columns + intercept)
        self.size = self.shape[0] * self.shape[1]
        self._plain = plain_form(inner)
        self._shares = weights

    def with_inner(self, inner: Inner) -> LinearObjective:
        """Return the same losses under another risk."""
        return LinearObjective(self.X, self.loss, self.weights, inner, self.penalty, self.intercept)

    def take(self, rows: NDArray[np.intp]) -> LinearObjective:
        """Return the objective on some of the samples."""
        weights = None if self.weights is None else self.weights[rows] / self.weights[rows].sum()
        loss = self.loss.take(rows)
        return LinearObjective(self.X[rows], loss, weights, self.inner, self.penalty, self.intercept)

    def in_row_space(self) -> tuple[LinearObjective, Floats]:
        """Return the objective over coefs in the row space of X, and an orthonormal basis of it.

        A penalized minimum lies there. With more columns than rows, the problem is as small as the number of rows.
        """
        basis, triangle = qr(self.X.T, mode="economic", check_finite=False)
        X = np.ascontiguousarray(triangle.T)
        return LinearObjective(X, self.loss, self.weights, self.inner, self.penalty, self.intercept), basis

    # -- first order --------------------------------------------------------------------------------------------

    def ridge(self, theta: Floats) -> float:
        """Return (penalty/2) norm(coef)**2."""
        coef = theta[:, : self.columns]
        return 0.5 * self.penalty * float(np.vdot(coef, coef))

    def gradient(self, theta: Floats, slopes: Floats, tilt: Floats) -> Floats:
        """Return sum_i tilt_i grad F_i and the ridge's part."""
        gradient = self.weighted_sum(tilt[:, None] * slopes)
        gradient[:, : self.columns] += self.penalty * theta[:, : self.columns]
        return gradient

    def shares(self) -> Floats:
        """Return the sample weights, equal ones written out."""
        if self._shares is None:
            self._shares = np.full(len(self.X), 1.0 / len(self.X))
        return self._shares

    def risk(self, losses: Floats) -> SolvedInner:
        """Return the risk of losses under the sample weights, its inner variables and its tilt."""
        if self._plain is None:
            found = solve_inner(losses, self.weights, self.inner)
            if found is not None:
                return found
            far = np.full(len(losses), np.nan)  # losses that are not finite, or too far apart
            return SolvedInner(np.inf, np.full(len(self.inner.cost), np.nan), far)
        # Not `solve_vector`: where every t on a stretch is as good, this one stays near the quantile, where u has the
        # curvature that Newton's method needs.
        weights = None if self.weights is None else self.weights[None, :]
        solved = solve_rows(losses[None, :], weights, self._plain.utility)
        return SolvedInner(float(solved.value[0]), np.array(solved.threshold), solved.tilt()[0])

    def evaluate(self, theta: Floats) -> At:
        """Return value, gradient, tilt and inner variables at theta."""
        losses, slopes = self.loss.evaluate(self.scores(theta))
        solved = self.risk(losses)
        value = solved.value + self.ridge(theta)
        gradient = self.gradient(theta, slopes, solved.tilt)
        return At(theta, value, gradient, losses, slopes, solved.tilt, solved.inner)

    def scores(self, theta: Floats) -> Floats:
        """Return the linear scores (n, k)."""
        coef = theta[:, : self.columns]
        # A vector is read once by the right kernel; a matrix of one column is not.
        scores = (self.X @ coef[0])[:, None] if len(coef) == 1 else self.X @ coef.T
        if self.intercept:
            scores += theta[:, self.columns]
        return np.asarray(scores)

    def weighted_sum(self, a: Floats) -> Floats:
        """Return sum_i a_ik (x_i, 1)."""
        sums = np.empty((a.shape[1], self.shape[1]))
        if a.shape[1] == 1:
            sums[0, : self.columns] = a[:, 0] @ self.X
        else:
            sums[:, : self.columns] = a.T @ self.X
        if self.intercept:
            sums[:, self.columns] = a.sum(axis=0)
        return sums

    # -- second order -------------------------------------------------------------------------------------------

    def curvature(self, at: At) -> Curvature:
        """The second derivative of the risk at a point; a scale at its lower bound stays there."""
        found = Curvature.zero(len(at.losses), len(at.inner))
        for term in self.inner.terms:
            t, s = at.inner[term.t], 1.0 if term.s is None else at.inner[term.s]
            z = at.losses if term.s is None else (at.losses - t) / s
            diagonal = second_derivative(term.form, z, t if term.s is None else 0.0) * (term.weight / s)
            diagonal = diagonal / diagonal.size if self.weights is None else self.weights * diagonal
            ways: list[tuple[int, Floats | float]] = [(term.t, 1.0)]
            if term.s is not None and s > self.inner.low[term.s]:
                ways.append((term.s, z))
            found.add(diagonal, ways)
        return found

    def hessian(self, slopes: Floats, tilt: Floats, curvature: Curvature | None) -> Floats:
        """Return the Hessian as a matrix over theta.ravel(); a direction that changes nothing is made definite."""
        outputs, width = self.shape
        H = np.empty((outputs, width, outputs, width))
        for k in range(outputs):
            for l in range(k + 1):
                weight = tilt * self.loss.curvature(slopes, k, l)
                if curvature is not None:
                    weight += curvature.total * slopes[:, k] * slopes[:, l]
                H[k, :, l, :] = self._gram(weight)
                H[l, :, k, :] = H[k, :, l, :]
        if curvature is not None:
            mixed = np.array([self.weighted_sum(column[:, None] * slopes).ravel() for column in curvature.mixed])
            H -= (mixed.T @ curvature.solve(mixed)).reshape(H.shape)
        penalized = np.arange(self.columns)
        for k in range(outputs):
            H[k, penalized, k, penalized] += self.penalty
        if outputs > 1:
            # Adding one number to all scores changes nothing. The gradient has no part along it, so any height will do.
            free = np.arange(width) if self.penalty == 0.0 else np.arange(self.columns, width)
            height = max(float(np.abs(H[0, :, 0, :].diagonal()).max()), 1e-300)
            for j in free:
                H[:, j, :, j] += height / outputs
        return H.reshape(self.size, self.size)

    def hessian_product(self, slopes: Floats, tilt: Floats, curvature: Curvature | None, v: Floats) -> Floats:
        """Return the Hessian times v (both in the shape of theta): two passes over X, no matrix."""
        change = self.scores(v)
        sums = np.zeros_like(slopes)
        if curvature is not None:
            along = row_products(slopes, change)
            weighed = curvature.total * along - curvature.solve(curvature.mixed @ along) @ curvature.mixed
            sums += weighed[:, None] * slopes
        sums += tilt[:, None] * self.loss.curvature_product(slopes, change)
        product = self.weighted_sum(sums)
        product[:, : self.columns] += self.penalty * v[:, : self.columns]
        return product

    def block(self, slopes: Floats, tilt: Floats, curvature: Curvature | None, k: int) -> Floats:
        """Return the part of the Hessian in one output, inner variables fixed; of more than DENSE, its diagonal."""
        weight = tilt * self.loss.curvature(slopes, k, k)
        if curvature is not None:
            weight += curvature.total * np.square(slopes[:, k])
        if self.columns > DENSE:
            diagonal = np.einsum("i,ij,ij->j", weight, self.X, self.X) + self.penalty
            return np.append(diagonal, weight.sum()) if self.intercept else diagonal
        H = self._gram(weight)
        H[np.arange(self.columns), np.arange(self.columns)] += self.penalty
        return H

    def _gram(self, weight: Floats) -> Floats:
        """sum_i weight_i (x_i, 1)(x_i, 1)^T, by blocks of rows on all cores; the blocks depend on n alone."""
        d, n = self.columns, len(self.X)
        root = np.sqrt(weight) if d > _NARROW and float(weight.min()) >= 0.0 else None
        height = max(_ROWS, -(-n // _PARTS))

        def part(start: int) -> tuple[Floats, Floats]:
            inner, edge = np.zeros((d, d)), np.zeros(d)
            buffer = np.empty((min(_ROWS, n), d))
            for first in range(start, min(start + height, n), _ROWS):
                rows = slice(first, min(first + _ROWS, start + height, n))
                X = self.X[rows]
                scaled = buffer[: len(X)]
                if root is None:
                    np.multiply(X, weight[rows, None], out=scaled)
                    inner += scaled.T @ X
                    edge += weight[rows] @ X
                else:  # one matrix times itself is half the work
                    np.multiply(X, root[rows, None], out=scaled)
                    inner += scaled.T @ scaled
                    edge += root[rows] @ scaled
            return inner, edge

        parts = run_all(part, range(0, n, height), n * d * d > _MANY)
        gram = np.zeros((self.shape[1], self.shape[1]))
        for inner, edge in parts:
            gram[:d, :d] += inner
            if self.intercept:
                gram[:d, d] += edge
        if self.intercept:
            gram[d, :d] = gram[:d, d]
            gram[d, d] = weight.sum()
        return gram


@dataclass(frozen=True)
class At:
    """The objective at theta: value and gradient, and what the second derivatives are made of."""

    theta: Floats
    value: float
    gradient: Floats
    losses: Floats
    slopes: Floats
    tilt: Floats
    inner: Floats


@dataclass
class Curvature:
    r"""Second derivatives of a risk in the losses F and its inner variables v, before v is eliminated.

    A term weight * E[s u((F - t)/s)] has u''/s times those of F - t - s z in (F, t, s), z its argument. So with D their
    sum on the diagonal (``total``), M the mixed ones (``mixed``, one row per variable, with the opposite sign) and K
    those in v (``inner``), the risk itself, a minimum over v, has D - M^T K^-1 M.
    """

    total: Floats
    mixed: Floats
    inner: Floats
    _inverse: Floats | None = None

    @classmethod
    def zero(cls, samples: int, variables: int) -> Curvature:
        """Of a linear risk."""
        return cls(np.zeros(samples), np.zeros((variables, samples)), np.zeros((variables, variables)))

    def add(self, diagonal: Floats, ways: list[tuple[int, Floats | float]]) -> None:
        """Add the curvature of a function of F - sum_j way_j v_j, given which variables move it and how."""
        self.total += diagonal
        for j, way in ways:
            moved = diagonal * way
            self.mixed[j] += moved
            for l, other in ways:
                self.inner[j, l] += float(moved.sum()) * other if isinstance(other, float) else float(moved @ other)

    def solve(self, right: Floats) -> Floats:
        """K^-1 times a vector or matrix; a variable without curvature stays where it is."""
        if self._inverse is None and len(self.inner) == 1:
            only = float(self.inner[0, 0])
            self._inverse = np.array([[1.0 / only if only > 0.0 else 0.0]])
        if self._inverse is None:
            diagonal = self.inner.diagonal()
            free = np.flatnonzero(diagonal > 0.0)
            scale = 1.0 / np.sqrt(diagonal[free])
            # A multiple of rounding keeps variables apart whose curvature is that of one sample.
            K = self.inner[np.ix_(free, free)] * scale[:, None] * scale + 1e-14 * np.eye(len(free))
            self._inverse = np.zeros_like(self.inner)
            self._inverse[np.ix_(free, free)] = np.linalg.inv(K) * scale[:, None] * scale
        return np.asarray(self._inverse @ right)


def row_products(a: Floats, b: Floats) -> Floats:
    """sum_k a_ik b_ik for every i."""
    return np.asarray(a[:, 0] * b[:, 0] if a.shape[1] == 1 else np.einsum("ik,ik->i", a, b))


def second_derivative(form: Form, losses: Floats, t: float) -> Floats:
    """u''(losses - t), by differences of the slope where the utility does not know it."""
    utility = form.utility
    if utility.has_curvature:
        return np.asarray(form.curvature(losses, t))
    x = losses - t
    step = 1e-5 * (1.0 + np.abs(x))
    difference = np.asarray(utility.slope(x + step)) - np.asarray(utility.slope(x - step))
    return np.asarray(np.maximum(difference / (2.0 * step), 0.0))


# -- how far above the minimum ----------------------------------------------------------------------------------------


def smooth_gap(objective: LinearObjective, at: At, further: Floats | None) -> float:
    """The gap of a fit under a risk without kinks; ``further`` is a step that may lead to a better bound."""
    bound = lower_bound(objective, at.tilt, at.value - objective.ridge(at.theta), at.losses, at.slopes)
    if further is not None and np.isfinite(bound):
        with np.errstate(over="ignore", invalid="ignore"):
            there = objective.evaluate(at.theta + further)
        if np.isfinite(there.value):
            plane = there.value - objective.ridge(there.theta)
            bound = max(bound, lower_bound(objective, there.tilt, plane, there.losses, there.slopes))
    return gap_of(objective, at.value, bound, at.losses)


def gap_of(objective: LinearObjective, value: float, bound: float, losses: Floats) -> float:
    """The value less the bound; +inf where there is none."""
    size = abs(value) + float(objective.shares() @ np.abs(losses)) + objective.loss.unit
    return proved_gap(value, bound, ROUNDING * size)


def lower_bound(objective: LinearObjective, q: Floats, plane: float, losses: Floats, slopes: Floats) -> float:
    r"""A lower bound of the whole objective, by weak duality, from a tilt q and the losses and slopes at some theta.

    OCE has supporting planes: for a tilt q with q_i/w_i in the subdifferential of u at x_i and sum q = 1,

    .. math:: \mathrm{OCE}_u(F) \ge K + \sum_i q_i F_i, \qquad K = \sum_i w_i u(x_i) - q_i x_i,

    for losses F of any kind. Losses are convex functions of the scores, so with conjugates F* and any slopes a_i in
    their domains :math:`F_i(s) \ge a_i \cdot s - F_i^*(a_i)`. Where q >= 0 the two go together: for every coefficient
    matrix c and intercept b, with Z = sum_i q_i a_i x_i^T,

    .. math:: \mathrm{OCE}_u(F(c, b)) + \tfrac\mu2 |c|^2 \ge K - \sum_i q_i F_i^*(a_i)
              + \Big(\sum_i q_i a_i\Big) \cdot b + \langle Z, c\rangle + \tfrac\mu2 |c|^2 .

    The slopes are moved within their domains until sum q_i a_i = 0, so that b plays no part, and the rest is at least
    :math:`-|Z|^2/(2\mu)`. Nothing asks that theta is near the minimum; there the bound is tight. It holds for every
    utility whose tilt is not negative, monotone or not. Without a penalty, and squared errors, the minimum of the
    weighted squares stands in place of the last steps: their value less |g|^2 over twice the least eigenvalue of their
    Hessian. Losses are not negative, so K is a bound in any case, and a tight one where all samples are fitted.

    ``plane`` is the supporting plane K + q.F at those losses. -inf where nothing is proved.
    """
    if not (float(q.min()) >= 0.0 and abs(1.0 - float(q.sum())) <= _SUM):
        return -np.inf
    size = abs(plane) + float(q @ np.abs(losses)) + objective.loss.unit
    least = plane - float(q @ losses) - ROUNDING * size  # no loss is below 0
    if objective.penalty > 0.0:
        a, conjugate = objective.loss.dual(slopes, q, objective.intercept)
        Z = objective.weighted_sum(q[:, None] * a)[:, : objective.columns]
        quadratic = float(np.vdot(Z, Z)) / (2.0 * objective.penalty)
        bound = plane - float(q @ (losses + conjugate)) - quadratic
        return max(least, bound - ROUNDING * (size + float(q @ np.abs(conjugate)) + quadratic))
    if isinstance(objective.loss, SquaredScore) and objective.size <= DENSE:
        return max(least, plane - ROUNDING * size - _below(objective, q, slopes))
    return least


def _below(objective: LinearObjective, q: Floats, slopes: Floats) -> float:
    """How far the q-weighted squares can fall from where their slopes are given: |g|^2 / (2 least eigenvalue)."""
    g = objective.weighted_sum(q[:, None] * slopes).ravel()
    H = objective.hessian(slopes, q, None)
    scale = 1.0 / np.sqrt(np.where(H.diagonal() > 0.0, H.diagonal(), 1.0))
    values = np.linalg.eigvalsh(H * scale[:, None] * scale)
    least = float(values[0]) - 1e-13 * len(values) * float(values[-1])  # what eigenvalues are known to
    if not least > 0.0:  # a column that others make up: some direction has no curvature to rely on
        return np.inf
    return float(np.sum(np.square(scale * g))) / (2.0 * least)

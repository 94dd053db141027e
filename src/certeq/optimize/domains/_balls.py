"""The Euclidean ball, and the l1 ball: few large coordinates, or a limit on leverage."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from certeq._backend import FloatArray, backend_of
from certeq._checks import check_bound, check_number

from ._base import Domain
from ._budget import project_simplex
from ._polyhedron import Polyhedron

__all__ = ["Ball", "L1Ball", "project_ball", "project_l1_ball"]


class Centered(Domain):
    """What the balls share: a radius of at least 0 and a center, the origin when None."""

    radius: float
    center: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "radius", check_number("radius", self.radius, least=0.0))
        if self.center is not None:
            object.__setattr__(self, "center", check_bound("center", self.center))

    def middle(self, d: int) -> FloatArray:
        """Return the center as a vector of size d."""
        return np.zeros(d) if self.center is None else np.array(np.broadcast_to(self.center, d))

    def _start(self, d: int) -> FloatArray:
        return self.middle(d)

    def _diameter(self, d: int) -> float:
        return 2.0 * self.radius


def project_ball(x: Any, radius: float, center: ArrayLike = 0.0) -> Any:
    r"""Project onto a Euclidean ball.

    .. math:: \arg\min_v \|v - x\| \ \text{s.t.}\ \|v - c\|_2 \le r \;=\; c + (x - c)\, \min(1, r / \|x - c\|_2)
    """
    xp = backend_of(x)
    c = xp.constant(center, x)
    u = x - c
    # Scaled by the largest entry the squares neither overflow nor vanish. The scale is a constant to the derivative:
    # it cancels from the norm.
    size = xp.max(abs(xp.detach(u)))
    scale = xp.where(size > 0, size, 1.0 + 0.0 * size)
    scaled = u / scale
    norm2 = xp.sum(scaled * scaled)
    outside = xp.detach(norm2) ** 0.5 * scale > radius
    # Inside, the root is taken of 1 instead: at the center its derivative would be infinite.
    norm = scale * xp.sqrt(xp.where(outside, norm2, 1.0 + 0.0 * xp.detach(norm2)))
    # x itself inside, so that a point of the ball comes back bit for bit.
    return xp.where(outside, c + u * (radius / norm), x)


def _unit(g: FloatArray) -> FloatArray:
    """Return g / ||g||, and 0 for 0."""
    largest = float(np.abs(g).max())
    if largest == 0.0:
        return np.zeros(g.size)
    scaled = g / largest
    return np.asarray(scaled / np.linalg.norm(scaled))


@dataclass(frozen=True, eq=False, repr=False)
class Ball(Centered):
    """The Euclidean ball {theta: ||theta - center||_2 <= radius}.

    Parameters
    ----------
    radius : float
        At least 0; 0 is the single point ``center``.
    center : float or array (d,), optional
        A vector, a number for all coordinates, or None for the origin.

    See Also
    --------
    L1Ball
        The l1 ball.
    Box
        Bounds on each coordinate.
    Domain
        Base class of feasible sets.

    Notes
    -----
    ``diameter`` is exact. Not a polyhedron.

    Examples
    --------
    >>> from certeq import Ball
    >>> Ball(1.0).project([3.0, 4.0])
    array([0.6, 0.8])
    >>> Ball(2.0, center=[1.0, 0.0]).minimize_linear([0.0, 5.0])
    array([ 1., -2.])
    """

    radius: float = 1.0
    center: Any = None

    def _project(self, x: Any) -> Any:
        return project_ball(x, self.radius, 0.0 if self.center is None else self.center)

    def _residuals(self, x: FloatArray) -> Iterator[tuple[FloatArray, str]]:
        norms = np.linalg.norm(x - self.middle(x.shape[-1]), axis=-1, keepdims=True)
        yield norms - self.radius, f"||theta - center|| is {float(norms.max())!r}, must be at most {self.radius!r}"

    def _minimize_linear(self, g: FloatArray) -> FloatArray:
        return self.middle(g.size) - self.radius * _unit(g)

    def _support_gap(self, theta: FloatArray, g: FloatArray) -> float:
        # ||g|| (r + n.u) with n = g/||g||, u = theta - center, where near the optimum r and n.u cancel. Completing
        # the square, r + n.u = (||r n + u||^2 + r^2 - ||u||^2) / 2r, which does not.
        if self.radius == 0:
            return 0.0
        n, u = _unit(g), theta - self.middle(theta.size)
        inside = max(0.0, self.radius - float(np.linalg.norm(u)))
        square = float(np.sum((self.radius * n + u) ** 2)) + inside * (2.0 * self.radius - inside)
        return float(np.linalg.norm(g)) * square / (2.0 * self.radius) if g.any() else 0.0


def project_l1_ball(x: Any, radius: float, center: ArrayLike = 0.0) -> Any:
    r"""Project onto an l1 ball.

    .. math:: \arg\min_v \|v - x\|^2 \ \text{s.t.}\ \|v - c\|_1 \le r
              \;=\; c + \mathrm{sign}(x - c)\; P_{\Delta(r)}(|x - c|) \quad\text{outside, } x \text{ inside}
    """
    xp = backend_of(x)
    u = x - xp.constant(center, x)
    fixed = xp.detach(u)
    sign = xp.where(fixed < 0, -1.0 + 0.0 * fixed, 1.0 + 0.0 * fixed)
    on_sphere = sign * project_simplex(sign * u, radius)
    outside = xp.sum(abs(fixed)) > radius
    return xp.where(outside, xp.constant(center, x) + on_sphere, x)


@dataclass(frozen=True, eq=False, repr=False)
class L1Ball(Centered):
    """The l1 ball {theta: sum |theta - center| <= radius}.

    Parameters
    ----------
    radius : float
        At least 0; 0 is the single point ``center``.
    center : float or array (d,), optional
        A vector, a number for all coordinates, or None for the origin.

    See Also
    --------
    Ball
        The Euclidean ball.
    LongShort
        Budgets of long and of short positions.

    Notes
    -----
    ``diameter`` is exact. As a polyhedron in theta alone the set needs 2^d inequalities; `split` gives it with twice
    the variables.

    Not where every coordinate should stay in play: its corners set many of them to exactly 0. See `Ball`.

    Examples
    --------
    >>> from certeq import L1Ball
    >>> L1Ball(1.0).project([1.0, -1.0, 0.1])
    array([ 0.5, -0.5,  0. ])
    >>> L1Ball(2.0).minimize_linear([1.0, -3.0])
    array([0., 2.])
    """

    radius: float = 1.0
    center: Any = None

    def split(self, d: int) -> Polyhedron:
        """Return the polyhedron of all (p, n) in R^2d, both >= 0, whose center + p - n are this set.

        Parameters
        ----------
        d : int
            The dimension of theta.

        Returns
        -------
        Polyhedron
            A set of dimension 2 d.
        """
        d = self.validate(d)
        return Polyhedron(np.zeros(2 * d), np.inf, A=np.ones((1, 2 * d)), b=[self.radius])

    def _project(self, x: Any) -> Any:
        return project_l1_ball(x, self.radius, 0.0 if self.center is None else self.center)

    def _residuals(self, x: FloatArray) -> Iterator[tuple[FloatArray, str]]:
        norms = np.sum(np.abs(x - self.middle(x.shape[-1])), axis=-1, keepdims=True)
        yield norms - self.radius, f"sum of |theta - center| is {float(norms.max())!r}, must be at most {self.radius!r}"

    def _minimize_linear(self, g: FloatArray) -> FloatArray:
        v = self.middle(g.size)
        j = int(np.argmax(np.abs(g)))
        v[j] -= self.radius * np.sign(g[j])
        return v

    def _support_gap(self, theta: FloatArray, g: FloatArray) -> float:
        u = theta - self.middle(theta.size)
        largest = float(np.abs(g).max())
        # r max|g| + g.u, split so that nothing cancels: what each coordinate of u earns less than the best one
        # would, and the part of the radius that is not used.
        unused = self.radius - float(np.sum(np.abs(u)))
        unused = unused if abs(unused) > 64 * np.finfo(float).eps * self.radius else 0.0
        return float(np.abs(u) @ (largest + np.sign(u) * g)) + largest * unused

    def _as_polyhedron(self, d: int) -> Polyhedron:
        raise TypeError(
            "L1Ball is a polyhedron only with 2^d inequalities or twice the variables; "
            "split(d) returns the latter, over (p, n) with theta = center + p - n"
        )

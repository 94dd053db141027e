"""The l1 ball: few large coordinates, or a limit on leverage."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ._backend import FloatArray, backend_of
from ._ball import Centered
from ._simplex import project_simplex

if TYPE_CHECKING:
    from ._polyhedron import Polyhedron

__all__ = ["L1Ball", "project_l1_ball"]


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
    radius
        At least 0; 0 is the single point `center`.
    center
        A vector, a number for all coordinates, or None for the origin.

    Notes
    -----
    `diameter` is exact. As a polyhedron in theta alone the set needs 2^d inequalities; `split` gives it with twice
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
        """Return the polyhedron of all (p, n) in R^2d, both >= 0, whose center + p - n are this set."""
        from ._polyhedron import Polyhedron

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

"""The Euclidean ball."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ._backend import FloatArray, backend_of
from ._base import Domain
from ._checks import bounds_argument, scalar_argument

__all__ = ["Ball", "Centered", "project_ball"]


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
    # Inside, the root is taken of 1 instead: at the centre its derivative would be infinite.
    norm = scale * xp.sqrt(xp.where(outside, norm2, 1.0 + 0.0 * xp.detach(norm2)))
    # x itself inside, so that a point of the ball comes back bit for bit.
    return xp.where(outside, c + u * (radius / norm), x)


class Centered(Domain):
    """What the balls share: a radius of at least 0 and a center, the origin when None."""

    radius: float
    center: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "radius", scalar_argument(self.radius, "radius", minimum=0.0))
        if self.center is not None:
            object.__setattr__(self, "center", bounds_argument(self.center, "center"))

    def middle(self, d: int) -> FloatArray:
        """Return the center as a vector of size d."""
        return np.zeros(d) if self.center is None else np.array(np.broadcast_to(self.center, d))

    def _start(self, d: int) -> FloatArray:
        return self.middle(d)

    def _diameter(self, d: int) -> float:
        return 2.0 * self.radius


@dataclass(frozen=True, eq=False, repr=False)
class Ball(Centered):
    """The Euclidean ball {theta: ||theta - center||_2 <= radius}.

    Parameters
    ----------
    radius
        At least 0; 0 is the single point `center`.
    center
        A vector, a number for all coordinates, or None for the origin.

    Notes
    -----
    `diameter` is exact. Not a polyhedron.

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


def _unit(g: FloatArray) -> FloatArray:
    """Return g / ||g||, and 0 for 0."""
    largest = float(np.abs(g).max())
    if largest == 0.0:
        return np.zeros(g.size)
    scaled = g / largest
    return np.asarray(scaled / np.linalg.norm(scaled))

"""`Loss`: what the optimizers ask of F(theta, xi)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from certeq.optimize.losses._samples import Floats

Product = Callable[[Floats], Floats]


class Loss(ABC):
    r"""Per-sample losses F_i(theta) and what can be done with their derivatives.

    A batch is the sample data itself: rows of a matrix, a tuple ``(X, y)``, whatever the loss is a function of. A
    loss may hold samples of its own, and a batch of None means all of them. With q the tilt,
    grad OCE = sum_i q_i grad F_i is ``gradient(theta, batch, q)``, so nothing larger than a batch is ever formed.

    Not to be subclassed for a single experiment: `CallableLoss` and `TorchLoss` make one from a function.

    Examples
    --------
    >>> import certeq as ce
    >>> loss = ce.LinearLoss([[1.0, 0.0], [0.0, 1.0]])
    >>> isinstance(loss, ce.Loss), loss.linear, loss.convex
    (True, True, True)
    """

    #: the samples this loss holds, or None
    samples: Any = None
    #: whether theta -> F(theta, xi) is convex for every xi; a certificate exists only then
    convex: bool = False
    #: whether F is linear in theta
    linear: bool = False

    @abstractmethod
    def evaluate(self, theta: Floats, batch: Any = None) -> tuple[Floats, Product]:
        """Return the losses, and q -> sum_i q_i grad F_i at the same theta: work that both need is done once."""

    def losses(self, theta: Floats, batch: Any = None) -> Floats:
        """Return F_i(theta) for every sample of the batch."""
        return self.evaluate(theta, batch)[0]

    def gradient(self, theta: Floats, batch: Any, q: Floats) -> Floats:
        """Return sum_i q_i grad F_i(theta), the vector-Jacobian product."""
        return self.evaluate(theta, batch)[1](q)

    def jacobian(self, theta: Floats, batch: Any = None) -> Floats:
        """Return the matrix whose rows are grad F_i(theta)."""
        raise TypeError(f"{self!r} offers no Jacobian; second-order methods need one. Use method='sg'.")

    def jacobian_product(self, theta: Floats, batch: Any, v: Floats) -> Floats:
        """Return grad F_i(theta).v for every sample."""
        return np.asarray(self.jacobian(theta, batch) @ v)

    def hessian_product(self, theta: Floats, batch: Any, q: Floats, v: Floats) -> Floats:
        """Return sum_i q_i F_i''(theta) v."""
        raise TypeError(f"{self!r} offers no second derivative; TorchLoss or a built-in loss does.")

    def hessian(self, theta: Floats, batch: Any, q: Floats) -> Floats:
        """Return sum_i q_i F_i''(theta), as a matrix."""
        columns = [self.hessian_product(theta, batch, q, unit) for unit in np.eye(theta.size)]
        total: Floats = np.stack(columns, axis=1)
        return 0.5 * (total + total.T)

    # -- constants of the theory, where they exist --------------------------------------------------------------

    def smoothness(self, batch: Any = None) -> float:
        """L_F, a Lipschitz constant of every grad F_i; +inf where none is known."""
        return float("inf")

    def lipschitz(self, batch: Any = None, theta: Floats | None = None, diameter: float = float("inf")) -> float:
        """M, a bound on every norm of grad F_i within ``diameter`` of ``theta``; +inf where none is known."""
        return float("inf")

    def spread(self, batch: Any = None, theta: Floats | None = None, diameter: float = float("inf")) -> float:
        """A bound on norm(grad F_i - c) for one common c: what the curvature of OCE feels. Never above `lipschitz`."""
        return self.lipschitz(batch, theta, diameter)

    # -- checks -------------------------------------------------------------------------------------------------

    def dimension(self, batch: Any = None) -> int | None:
        """Return the size of theta where the samples determine it, else None."""
        return None

    def check_samples(self, samples: Any) -> Any:
        """Return samples as this loss wants them, or say what is wrong with them."""
        return samples

    def lay_out(self, samples: Any) -> Any:
        """Return samples in the memory layout that is quickest to go through again and again as a whole."""
        return samples

    def _own(self, batch: Any) -> Any:
        if batch is not None:
            return batch
        if self.samples is None:
            raise ValueError(f"{self!r} holds no samples; pass a batch.")
        return self.samples

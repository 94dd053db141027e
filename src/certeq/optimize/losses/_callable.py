"""A loss somebody else writes, with its derivative."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from certeq.optimize.losses._base import Loss, Product
from certeq.optimize.losses._samples import Floats, count_samples

Function = Callable[[Floats, Any], tuple[Any, Any]]


class CallableLoss(Loss):
    r"""Any :math:`(\theta, \xi) \mapsto (F_i)_i, J` with J the Jacobian or the map :math:`q \mapsto J^\top q`.

    Parameters
    ----------
    function : callable
        Takes theta (d,) and a batch of samples; returns the losses (m,) and either the Jacobian (m, d), row i being
        the gradient of loss i, or a function that takes q (m,) and returns sum_i q_i grad F_i (d,).
    samples : array or tuple of arrays, optional
        The samples it is a function of, if they are to be held here.
    convex : bool
        Whether every loss is convex in theta. Only then is a gap a certificate; nothing here can check it.
    smoothness, lipschitz : float, optional
        L_F and M, if you know them: the step sizes of the regimes need them.

    Notes
    -----
    For a PyTorch function without a derivative use `TorchLoss`.

    Not with a derivative you are unsure of: its shape is checked, its values are not.

    Examples
    --------
    >>> from certeq import CallableLoss
    >>> import numpy as np
    >>> def distance(theta, xi):
    ...     error = theta - xi
    ...     return (error**2).sum(axis=1), 2 * error
    >>> loss = CallableLoss(distance, samples=np.array([[0.0, 0.0], [2.0, 2.0]]), convex=True)
    >>> loss.losses(np.array([1.0, 0.0]))
    array([1., 5.])
    >>> loss.gradient(np.array([1.0, 0.0]), None, np.array([0.5, 0.5]))
    array([ 0., -2.])
    """

    def __init__(
        self,
        function: Function,
        *,
        samples: Any = None,
        convex: bool = False,
        smoothness: float = float("inf"),
        lipschitz: float = float("inf"),
    ) -> None:
        if not callable(function):
            raise TypeError(f"function must be callable as function(theta, xi); found {function!r}.")
        for name, constant in (("smoothness", smoothness), ("lipschitz", lipschitz)):
            if not constant >= 0:
                raise ValueError(f"{name} must be a number not below 0; found {constant!r}.")
        self.function = function
        self.samples = None if samples is None else self.check_samples(samples)
        self.convex = convex
        self._smoothness, self._lipschitz = float(smoothness), float(lipschitz)

    def evaluate(self, theta: Floats, batch: Any = None) -> tuple[Floats, Product]:
        """Return the losses and their vector-Jacobian product, shapes checked."""
        losses, derivative = self._call(theta, self._own(batch))
        if callable(derivative):
            return losses, lambda q: _vector(derivative(q), theta.size)
        jacobian = self._matrix(derivative, losses.size, theta.size)
        return losses, lambda q: np.dot(q, jacobian)

    def jacobian(self, theta: Floats, batch: Any = None) -> Floats:
        """Return the Jacobian; one product per sample where only products are offered."""
        losses, derivative = self._call(theta, self._own(batch))
        if callable(derivative):
            return np.stack([_vector(derivative(unit), theta.size) for unit in np.eye(losses.size)])
        return self._matrix(derivative, losses.size, theta.size)

    def smoothness(self, batch: Any = None) -> float:
        """L_F as declared."""
        return self._smoothness

    def lipschitz(self, batch: Any = None, theta: Floats | None = None, diameter: float = float("inf")) -> float:
        """M as declared."""
        return self._lipschitz

    def check_samples(self, samples: Any) -> Any:
        """Return samples unchanged; they must have a first axis, one entry per sample."""
        if count_samples(samples) == 0:
            raise ValueError("samples is empty: at least one sample is needed.")
        return samples

    def _call(self, theta: Floats, batch: Any) -> tuple[Floats, Any]:
        answer = self.function(theta, batch)
        if not isinstance(answer, tuple) or len(answer) != 2:
            raise TypeError(
                "function must return a pair (losses, jacobian) or (losses, vector-Jacobian product); found "
                f"{type(answer).__name__}. A PyTorch function without derivative goes into TorchLoss."
            )
        losses = np.asarray(answer[0], dtype=np.float64)
        m = count_samples(batch)
        if losses.shape != (m,):
            raise ValueError(f"function must return one loss per sample, shape ({m},); found shape {losses.shape}.")
        return losses, answer[1]

    def _matrix(self, jacobian: Any, m: int, d: int) -> Floats:
        matrix = np.asarray(jacobian, dtype=np.float64)
        if matrix.shape != (m, d):
            raise ValueError(f"function must return a Jacobian of shape ({m}, {d}); found shape {matrix.shape}.")
        return matrix

    def __repr__(self) -> str:
        return f"{type(self).__name__}({getattr(self.function, '__qualname__', repr(self.function))})"


def _vector(product: Any, d: int) -> Floats:
    vector = np.asarray(product, dtype=np.float64)
    if vector.shape != (d,):
        raise ValueError(f"the vector-Jacobian product must have shape ({d},); found shape {vector.shape}.")
    return vector

"""Losses somebody else writes: a function with its derivative, or one of PyTorch that autograd differentiates.

torch is imported when a `TorchLoss` is made, not before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from certeq._checks import check_number, shown
from certeq.optimize.losses._base import Floats, Loss, Product, count_samples


class _FunctionLoss(Loss):
    """What the two share: the function, its samples, and the constants its author knows."""

    def __init__(
        self,
        function: Callable[[Any, Any], Any],
        *,
        samples: Any = None,
        convex: bool = False,
        smoothness: float = float("inf"),
        lipschitz: float = float("inf"),
    ) -> None:
        if not callable(function):
            raise TypeError(f"function must be callable as function(theta, xi); found {shown(function)}.")
        self.function = function
        self.samples = None if samples is None else self.check_samples(samples)
        self.convex = convex
        self._smoothness = check_number("smoothness", smoothness, least=0.0, finite=False)
        self._lipschitz = check_number("lipschitz", lipschitz, least=0.0, finite=False)

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

    def __repr__(self) -> str:
        return f"{type(self).__name__}({getattr(self.function, '__qualname__', repr(self.function))})"


class CallableLoss(_FunctionLoss):
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

    See Also
    --------
    TorchLoss
        A loss given by a PyTorch function.
    Loss
        Base class of losses.
    minimize
        Minimize the OCE of losses over a feasible set.

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
    >>> points = np.array([[0.0, 0.0], [2.0, 2.0]])
    >>> loss = CallableLoss(distance, samples=points, convex=True)
    >>> loss.losses(np.array([1.0, 0.0]))
    array([1., 5.])
    >>> loss.gradient(np.array([1.0, 0.0]), None, np.array([0.5, 0.5]))
    array([ 0., -2.])
    """

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


def _vector(product: Any, d: int) -> Floats:
    vector = np.asarray(product, dtype=np.float64)
    if vector.shape != (d,):
        raise ValueError(f"the vector-Jacobian product must have shape ({d},); found shape {vector.shape}.")
    return vector


class TorchLoss(_FunctionLoss):
    r"""Per-sample losses :math:`F(\theta, \xi)` from a torch function; every derivative comes from autograd.

    Parameters
    ----------
    function : callable
        Takes theta, a float64 tensor (d,), and the batch as tensors (a tuple of tensors for a tuple of samples);
        returns the losses, a tensor (m,).
    samples : array or tuple of arrays, optional
        The samples it is a function of, if they are to be held here.
    convex : bool
        Whether every loss is convex in theta. Only then is a gap a certificate; nothing here can check it.
    smoothness, lipschitz : float, optional
        L_F and M, if you know them: the step sizes of the regimes need them.

    See Also
    --------
    CallableLoss
        A loss given by a function with its derivative.
    certeq.torch.OCELoss
        OCE as a criterion for training.

    Notes
    -----
    theta is one flat vector; a network is used through ``torch.func.functional_call`` and
    ``torch.nn.utils.vector_to_parameters``. Everything runs in float64 on the CPU.

    Not where a closed form exists: `LinearLoss`, `SquaredLoss` and `LogisticLoss` are many times faster.

    Examples
    --------
    >>> from certeq import TorchLoss
    >>> import numpy as np
    >>> def distance(theta, xi):
    ...     return ((theta - xi) ** 2).sum(dim=1)
    >>> loss = TorchLoss(distance, samples=np.zeros((2, 3)))
    >>> loss.gradient(np.ones(3), None, np.array([0.5, 0.5]))
    array([2., 2., 2.])
    """

    def __init__(
        self,
        function: Callable[[Any, Any], Any],
        *,
        samples: Any = None,
        convex: bool = False,
        smoothness: float = float("inf"),
        lipschitz: float = float("inf"),
    ) -> None:
        super().__init__(function, samples=samples, convex=convex, smoothness=smoothness, lipschitz=lipschitz)
        try:
            import torch
        except ImportError as error:
            raise ImportError("TorchLoss needs PyTorch: pip install 'certeq[torch]'.") from error
        self._torch: Any = torch

    def evaluate(self, theta: Floats, batch: Any = None) -> tuple[Floats, Product]:
        """Return the losses and their vector-Jacobian product; the graph is built once."""
        point = self._tensor(theta).requires_grad_(True)
        losses = self._call(point, self._own(batch))

        def product(q: Floats) -> Floats:
            # The graph is kept: a caller may ask for several products at one theta.
            (gradient,) = self._torch.autograd.grad(losses, point, self._tensor(q), retain_graph=True)
            return np.asarray(gradient.numpy())

        return np.asarray(losses.detach().numpy()), product

    def jacobian(self, theta: Floats, batch: Any = None) -> Floats:
        """Return the Jacobian, by reverse mode."""
        own = self._own(batch)
        jacobian = self._torch.autograd.functional.jacobian(lambda point: self._call(point, own), self._tensor(theta))
        return np.asarray(jacobian.numpy())

    def jacobian_product(self, theta: Floats, batch: Any, v: Floats) -> Floats:
        """Return J v, by differentiating q -> J^T q, so that every operation with a backward pass will do."""
        point = self._tensor(theta).requires_grad_(True)
        losses = self._call(point, self._own(batch))
        q = self._torch.zeros_like(losses, requires_grad=True)
        (gradient,) = self._torch.autograd.grad(losses, point, q, create_graph=True)
        (product,) = self._torch.autograd.grad(gradient, q, self._tensor(v))
        return np.asarray(product.numpy())

    def hessian_product(self, theta: Floats, batch: Any, q: Floats, v: Floats) -> Floats:
        """Return sum_i q_i F_i'' v, by differentiating the gradient once more."""
        point = self._tensor(theta).requires_grad_(True)
        total = self._call(point, self._own(batch)) @ self._tensor(q)
        (gradient,) = self._torch.autograd.grad(total, point, create_graph=True)
        if not gradient.requires_grad:  # linear in theta
            return np.zeros_like(v)
        (product,) = self._torch.autograd.grad(gradient, point, self._tensor(v), allow_unused=True)
        return np.zeros_like(v) if product is None else np.asarray(product.numpy())

    def _tensor(self, array: Any) -> Any:
        if isinstance(array, self._torch.Tensor):
            return array.detach().to(self._torch.float64).clone()
        # A copy: torch would otherwise share memory with, and warn about, an array that must not be written.
        array = np.array(array)
        return self._torch.from_numpy(array.astype(np.float64) if array.dtype.kind == "f" else array)

    def _call(self, point: Any, batch: Any) -> Any:
        parts = tuple(self._tensor(part) for part in batch) if isinstance(batch, tuple) else self._tensor(batch)
        losses = self.function(point, parts)
        m = count_samples(batch)
        if not isinstance(losses, self._torch.Tensor) or losses.shape != (m,):
            found = tuple(losses.shape) if isinstance(losses, self._torch.Tensor) else type(losses).__name__
            raise ValueError(f"function must return one loss per sample, a tensor of shape ({m},); found {found}.")
        if not losses.requires_grad:
            raise ValueError("function must depend on theta through torch operations; its result has no gradient.")
        return losses

"""`Loss`, what the optimizers ask of F(theta, xi); `Objective`, its OCE as a function of theta; and samples.

Samples are one array, or several arrays that share their first axis. Each refusal says what would do.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certeq._checks import check_weights, probabilities
from certeq.risk.solvers import needs_sorting, solve_risk, solve_rows, solve_vector
from certeq.utilities import Risk, Utility
from certeq.utilities.forms import Form, form

Floats = NDArray[np.float64]
Product = Callable[[Floats], Floats]


class Loss(ABC):
    r"""Per-sample losses F_i(theta) and what can be done with their derivatives.

    A batch is the sample data itself: rows of a matrix, a tuple ``(X, y)``, whatever the loss is a function of. A
    loss may hold samples of its own, and a batch of None means all of them. With q the tilt,
    grad OCE = sum_i q_i grad F_i is ``gradient(theta, batch, q)``, so nothing larger than a batch is ever formed.

    Not to be subclassed for a single experiment: `CallableLoss` and `TorchLoss` make one from a function.

    See Also
    --------
    LinearLoss
        Linear losses, such as those of a portfolio.
    CallableLoss
        A loss given by a function with its derivative.
    TorchLoss
        A loss given by a PyTorch function.

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
        """Return the losses, and q -> sum_i q_i grad F_i at the same theta: work that both need is done once.

        Parameters
        ----------
        theta : array (d,)
            The point.
        batch : array or tuple of arrays, optional
            Samples; those that the loss holds if None.

        Returns
        -------
        losses : array (m,)
            F_i(theta) for every sample of the batch.
        product : callable
            Takes q (m,) and returns sum_i q_i grad F_i(theta) (d,).
        """

    def losses(self, theta: Floats, batch: Any = None) -> Floats:
        """Return F_i(theta) for every sample of the batch.

        Parameters
        ----------
        theta : array (d,)
            The point.
        batch : array or tuple of arrays, optional
            Samples; those that the loss holds if None.

        Returns
        -------
        array (m,)
            One loss per sample.
        """
        return self.evaluate(theta, batch)[0]

    def gradient(self, theta: Floats, batch: Any, q: Floats) -> Floats:
        """Return sum_i q_i grad F_i(theta), the vector-Jacobian product.

        Parameters
        ----------
        theta : array (d,)
            The point.
        batch : array, tuple of arrays or None
            Samples; those that the loss holds if None.
        q : array (m,)
            Weights of the samples, such as the tilt.

        Returns
        -------
        array (d,)
            The weighted sum of gradients.
        """
        return self.evaluate(theta, batch)[1](q)

    def jacobian(self, theta: Floats, batch: Any = None) -> Floats:
        """Return the matrix whose rows are grad F_i(theta).

        Parameters
        ----------
        theta : array (d,)
            The point.
        batch : array or tuple of arrays, optional
            Samples; those that the loss holds if None.

        Returns
        -------
        array (m, d)
            The Jacobian.
        """
        raise TypeError(f"{self!r} offers no Jacobian; second-order methods need one. Use method='sg'.")

    def jacobian_product(self, theta: Floats, batch: Any, v: Floats) -> Floats:
        """Return grad F_i(theta).v for every sample.

        Parameters
        ----------
        theta : array (d,)
            The point.
        batch : array, tuple of arrays or None
            Samples; those that the loss holds if None.
        v : array (d,)
            A direction.

        Returns
        -------
        array (m,)
            The derivatives of the losses along v.
        """
        return np.asarray(self.jacobian(theta, batch) @ v)

    def hessian_product(self, theta: Floats, batch: Any, q: Floats, v: Floats) -> Floats:
        """Return sum_i q_i F_i''(theta) v.

        Parameters
        ----------
        theta : array (d,)
            The point.
        batch : array, tuple of arrays or None
            Samples; those that the loss holds if None.
        q : array (m,)
            Weights of the samples, such as the tilt.
        v : array (d,)
            A direction.

        Returns
        -------
        array (d,)
            The weighted sum of Hessians, times v.
        """
        raise TypeError(f"{self!r} offers no second derivative; TorchLoss or a built-in loss does.")

    def hessian(self, theta: Floats, batch: Any, q: Floats) -> Floats:
        """Return sum_i q_i F_i''(theta), as a matrix.

        Parameters
        ----------
        theta : array (d,)
            The point.
        batch : array, tuple of arrays or None
            Samples; those that the loss holds if None.
        q : array (m,)
            Weights of the samples, such as the tilt.

        Returns
        -------
        array (d, d)
            The weighted sum of Hessians.
        """
        columns = [self.hessian_product(theta, batch, q, unit) for unit in np.eye(theta.size)]
        total: Floats = np.stack(columns, axis=1)
        return 0.5 * (total + total.T)

    # -- constants of the theory, where they exist --------------------------------------------------------------

    def smoothness(self, batch: Any = None) -> float:
        """The constant L_F, a Lipschitz constant of every grad F_i.

        Parameters
        ----------
        batch : array or tuple of arrays, optional
            Samples; those that the loss holds if None.

        Returns
        -------
        float
            The constant; +inf where none is known.
        """
        return float("inf")

    def lipschitz(self, batch: Any = None, theta: Floats | None = None, diameter: float = float("inf")) -> float:
        """The constant M, a bound on every norm of grad F_i within ``diameter`` of ``theta``.

        Parameters
        ----------
        batch : array or tuple of arrays, optional
            Samples; those that the loss holds if None.
        theta : array (d,), optional
            Center of the region in which the bound holds.
        diameter : float
            Largest distance from theta.

        Returns
        -------
        float
            The bound; +inf where none is known.
        """
        return float("inf")

    def spread(self, batch: Any = None, theta: Floats | None = None, diameter: float = float("inf")) -> float:
        """A bound on norm(grad F_i - c) for one common c, on which the curvature of OCE depends.

        Parameters
        ----------
        batch : array or tuple of arrays, optional
            Samples; those that the loss holds if None.
        theta : array (d,), optional
            Center of the region in which the bound holds.
        diameter : float
            Largest distance from theta.

        Returns
        -------
        float
            The bound, never above that of `lipschitz`.
        """
        return self.lipschitz(batch, theta, diameter)

    # -- checks -------------------------------------------------------------------------------------------------

    def dimension(self, batch: Any = None) -> int | None:
        """Return the size of theta where the samples determine it, else None.

        Parameters
        ----------
        batch : array or tuple of arrays, optional
            Samples; those that the loss holds if None.

        Returns
        -------
        int or None
            The size of theta.
        """
        return None

    def features(self, batch: Any = None) -> Floats | None:
        """Return the matrix X where the losses depend on X theta alone, else None.

        Parameters
        ----------
        batch : array or tuple of arrays, optional
            Samples; those that the loss holds if None.

        Returns
        -------
        array (m, d) or None
            The matrix X.
        """
        return None

    def check_samples(self, samples: Any) -> Any:
        """Return samples as this loss takes them, or say what is wrong with them.

        Parameters
        ----------
        samples : array or tuple of arrays
            Samples as the caller gave them.

        Returns
        -------
        array or tuple of arrays
            Samples that `evaluate` takes as a batch.
        """
        return samples

    def lay_out(self, samples: Any) -> Any:
        """Return samples in the memory layout that is quickest to go through again and again as a whole.

        Parameters
        ----------
        samples : array or tuple of arrays
            Samples that have been checked.

        Returns
        -------
        array or tuple of arrays
            The same samples, copied where that pays.
        """
        return samples

    def _own(self, batch: Any) -> Any:
        if batch is not None:
            return batch
        if self.samples is None:
            raise ValueError(f"{self!r} holds no samples; pass a batch.")
        return self.samples


class Objective:
    r""":math:`\theta \mapsto \mathrm{OCE}_u(F(\theta, \xi))` over all samples, with optional sample weights.

    Where OCE has a kink (CVaR at a tie) the gradient is one subgradient.

    Examples
    --------
    >>> import numpy as np, certeq as ce
    >>> from certeq.optimize.losses import LinearLoss
    >>> at = Objective(LinearLoss([[0.0, 2.0], [1.0, 1.0]]), ce.CVaR(0.5)).evaluate(
    ...     np.array([0.5, 0.5])
    ... )
    >>> at.value, at.gradient
    (1.0, array([0.5, 1.5]))
    """

    def __init__(self, loss: Loss, utility: Risk, samples: Any = None, weights: Any = None) -> None:
        self.loss, self.utility = loss, utility
        self.samples = loss.samples if samples is None else loss.check_samples(samples)
        if self.samples is None:
            raise ValueError(f"{loss!r} holds no samples; pass samples=.")
        self.count = count_samples(self.samples)
        self.weights = None if weights is None else probabilities(check_weights("weights", weights, self.count))

    def evaluate(self, theta: Floats) -> Evaluation:
        """Return value, gradient, tilt and threshold at theta."""
        losses, product = self.loss.evaluate(theta, self.samples)
        if not np.isfinite(losses).all():
            i = int(np.argmin(np.isfinite(losses)))
            where = f"sample {i} at theta = {_short(theta)}"
            raise ValueError(f"losses must be finite; found {losses[i]} for {where}.")
        value, threshold, q = solve_losses(losses, self.weights, as_solvers_read(self.utility))
        return Evaluation(value, product(q), q, threshold, losses)


@dataclass(frozen=True)
class Evaluation:
    """OCE at one theta: its value, gradient sum_i q_i grad F_i, the tilt q and the threshold t*."""

    value: float
    gradient: Floats
    tilt: Floats
    threshold: float | Floats
    losses: Floats


def solve_losses(losses: Floats, weights: Floats | None, risk: Form | Risk) -> tuple[float, float | Floats, Floats]:
    """Return risk, threshold and tilt of losses; the risk is NaN where one is not finite. Weights, if any, sum to 1.

    A utility is given by its form. A mixture has a threshold for each part, and a distortion none: NaN.
    """
    row = np.ascontiguousarray(losses, dtype=np.float64)
    if isinstance(risk, Risk):
        found = solve_risk(row, weights, risk)
        if found is None:
            return math.nan, math.nan, row
        if not found.inner.size or needs_sorting(risk):
            return found.value, math.nan, found.tilt
        thresholds = found.inner[[term.t for term in risk.inner().terms]]
        return found.value, thresholds if len(thresholds) > 1 else float(thresholds[0]), found.tilt
    solved = solve_vector(row, weights, risk)
    if solved is not None and math.isfinite(solved.value):
        return solved.value, solved.threshold, np.asarray(solved.tilt, dtype=np.float64)
    if not np.isfinite(row).all():
        return math.nan, math.nan, row
    # They lie too far apart for their differences.
    rows = solve_rows(row[None, :], None if weights is None else weights[None, :], risk.utility)
    return float(rows.value[0]), float(rows.threshold[0]), rows.tilt()[0]


def as_solvers_read(risk: Risk) -> Form | Risk:
    """The form of a utility, which solvers of one threshold take; another risk as it is."""
    return form(risk) if isinstance(risk, Utility) else risk


def _short(theta: Floats) -> str:
    with np.printoptions(precision=4, threshold=6, edgeitems=2):
        return str(theta)


def count_samples(samples: Any, name: str = "samples") -> int:
    """Return how many samples there are: the common length of the first axis.

    >>> count_samples((np.zeros((3, 2)), np.zeros(3)))
    3
    """
    parts = samples if isinstance(samples, tuple) else (samples,)
    lengths = []
    for part in parts:
        shape = getattr(part, "shape", None)
        if shape is None:
            raise TypeError(f"{name} must be an array or a tuple of arrays; found {type(part).__name__}.")
        if len(shape) == 0:
            raise ValueError(f"{name} must have one entry per sample on its first axis; found a single number.")
        lengths.append(int(shape[0]))
    if not lengths:
        raise ValueError(f"{name} is an empty tuple; pass at least one array.")
    if len(set(lengths)) > 1:
        raise ValueError(f"{name} must share the length of their first axis; found {', '.join(map(str, lengths))}.")
    return lengths[0]


def refuse_width(name: str, matrix: Floats, theta: Floats) -> None:
    """Refuse a matrix whose rows are not as long as theta."""
    if matrix.shape[1] != theta.size:
        raise ValueError(
            f"{name} must have {theta.size} columns, one per entry of theta; found shape {matrix.shape}. "
            "A sampler or an iterator passed as samples must give rows as long as theta0."
        )


def take_samples(samples: Any, index: Any) -> Any:
    """Return the samples at ``index`` (whole numbers or a slice), of every array where there are several."""
    if isinstance(samples, tuple):
        return tuple(take_samples(part, index) for part in samples)
    if type(samples) is np.ndarray and isinstance(index, np.ndarray) and samples.flags.c_contiguous:
        return samples.take(index, axis=0)  # of rows that lie together, several times faster than indexing
    return samples[index]


def join_samples(chunks: list[Any]) -> Any:
    """Return chunks of samples as one, in order."""
    if len(chunks) == 1:
        return chunks[0]
    shapes = [_row_shapes(chunk) for chunk in chunks]
    for shape in shapes:
        if shape != shapes[0]:
            raise ValueError(f"chunks of the iterator must have rows of one shape; found {shapes[0]} and then {shape}.")
    if isinstance(chunks[0], tuple):
        return tuple(np.concatenate([np.asarray(chunk[i]) for chunk in chunks]) for i in range(len(chunks[0])))
    return np.concatenate([np.asarray(chunk) for chunk in chunks])


def _row_shapes(chunk: Any) -> Any:
    if isinstance(chunk, tuple):
        return tuple(tuple(part.shape[1:]) for part in chunk)
    return tuple(chunk.shape[1:])

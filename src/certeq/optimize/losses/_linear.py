"""Linear losses: portfolios, and everything else that pays out in proportion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from certeq._checks import check_array, check_number
from certeq._table import Array, Block, Table, as_table, summary
from certeq.optimize.losses._base import Floats, Loss, Product, refuse_width

_SPARE_MEMORY = 1 << 26  # bytes that may be spent on a second copy of the samples


class LinearLoss(Loss):
    r"""Linear losses :math:`F_i(\theta) = a_i^\top\theta + b_i`; a portfolio passes minus its returns.

    Parameters
    ----------
    A : array (n, d), optional
        One row per sample. Leave it out when samples come from a sampler or a stream. A Dask array, and a
        memory-mapped array of 256 MB or more, is read in blocks of rows and never held as a whole; `minimize` takes
        it with method "exact" and "sg".
    offset : float or array (n,), optional
        Losses b that theta has no part in, one per sample; none if not given. For the losses of a portfolio beside
        those of a benchmark with returns y, ``LinearLoss(-X, offset=y)``. Other samples and batches of such a loss have
        the offset as their last column.

    See Also
    --------
    SquaredLoss
        Squared errors of a linear model.
    CallableLoss
        A loss given by a function with its derivative.
    minimize
        Minimize the OCE of losses over a feasible set.

    Notes
    -----
    The gradient of OCE is :math:`A^\top q`. L_F = 0, and the curvature of OCE is at most
    kappa * max norm(a_i - mean a)**2: a common shift of the rows moves OCE without changing its curvature.

    Not for returns as they are: a return is a gain, and minimizing it would pick the worst portfolio.

    Examples
    --------
    >>> from certeq import LinearLoss
    >>> import numpy as np
    >>> loss = LinearLoss([[1.0, 2.0], [3.0, -1.0]])
    >>> loss.losses(np.array([0.5, 0.5]))
    array([1.5, 1. ])
    >>> loss.gradient(np.array([0.5, 0.5]), None, np.array([1.0, 0.0]))
    array([1., 2.])
    """

    convex = True
    linear = True

    #: whether the last column of the samples is an offset, which theta has no part in
    has_offset: bool = False

    def __init__(self, A: Any = None, offset: Any = None) -> None:
        self.samples = None if A is None else self.check_samples(A)
        if offset is not None:
            if self.samples is None:
                raise ValueError("offset belongs to the rows of A, which are not given.")
            self.samples = with_offset(self.samples, offset)
            self.has_offset = True

    def evaluate(self, theta: Floats, batch: Any = None) -> tuple[Floats, Product]:
        """Return A theta + b, and q -> A^T q."""
        A, theta = self._in_memory(batch), self.extended(theta)
        refuse_width("A", A, theta)
        if self.has_offset:
            return np.dot(A, theta), lambda q: np.dot(q, A)[:-1]
        return np.dot(A, theta), lambda q: np.dot(q, A)

    def extended(self, theta: Floats) -> Floats:
        """Append to theta the 1 that an offset is multiplied by, where the loss has one.

        Parameters
        ----------
        theta : array (d,)
            The point.

        Returns
        -------
        array (d,) or (d + 1,)
            The vector that rows of the samples are multiplied by.
        """
        return np.append(theta, 1.0) if self.has_offset else theta

    def jacobian(self, theta: Floats, batch: Any = None) -> Floats:
        """Return A."""
        return np.asarray(self._without_offset(self._in_memory(batch)))

    def hessian_product(self, theta: Floats, batch: Any, q: Floats, v: Floats) -> Floats:
        """Return 0: a linear loss has no curvature of its own."""
        return np.zeros_like(v)

    def hessian(self, theta: Floats, batch: Any, q: Floats) -> Floats:
        """Return the zero matrix."""
        return np.zeros((theta.size, theta.size))

    def smoothness(self, batch: Any = None) -> float:
        """The constant 0: the gradients do not depend on theta."""
        return 0.0

    def lipschitz(self, batch: Any = None, theta: Floats | None = None, diameter: float = float("inf")) -> float:
        """Largest norm(a_i)."""
        A = self._without_offset(self._own(batch))
        if isinstance(A, Table):
            return largest_norm(A, False)
        return float(np.sqrt(np.einsum("ij,ij->i", A, A).max()))

    def spread(self, batch: Any = None, theta: Floats | None = None, diameter: float = float("inf")) -> float:
        """Largest norm(a_i - mean a)."""
        A = self._without_offset(self._own(batch))
        if isinstance(A, Table):
            return min(largest_norm(A, True), largest_norm(A, False))
        centered = A - A.mean(axis=0)
        return min(float(np.sqrt(np.einsum("ij,ij->i", centered, centered).max())), self.lipschitz(batch))

    def dimension(self, batch: Any = None) -> int | None:
        """Return the number of columns of A."""
        if batch is None and self.samples is None:
            return None
        return int(self._own(batch).shape[1]) - self.has_offset

    def features(self, batch: Any = None) -> Floats | None:
        """Return A."""
        return np.asarray(self._without_offset(self._in_memory(batch)))

    def check_samples(self, samples: Any) -> Any:
        """Return A as a finite matrix of floats, or as a panel that is read in blocks."""
        panel = as_table(samples)
        found = check_array("A", samples, 2) if panel is None else panel
        if self.has_offset and found.shape[1] != self.samples.shape[1]:
            wanted = self.samples.shape[1]
            raise ValueError(f"samples must have {wanted} columns, the last an offset; found {found.shape[1]}.")
        return found

    def lay_out(self, samples: Any) -> Any:
        """Return A by columns, if that does not cost too much memory: both products then run a fifth faster."""
        if isinstance(samples, Table):
            return samples
        return np.asfortranarray(samples) if samples.nbytes <= _SPARE_MEMORY else samples

    def _in_memory(self, batch: Any) -> Any:
        """The batch, which must be in memory."""
        A = self._own(batch)
        if isinstance(A, Table):
            raise TypeError(
                f"{self!r} is read in blocks and never held as a whole, so its losses are not to be had one by one. "
                "Use minimize with method='exact' or 'sg', or pass a batch of rows."
            )
        return A

    def _without_offset(self, A: Any) -> Any:
        if not self.has_offset:
            return A
        return split_offset(A)[0]

    def __repr__(self) -> str:
        if self.samples is None:
            return "LinearLoss()"
        count, columns = self.samples.shape
        if self.has_offset:
            return f"LinearLoss(A=<{count}x{columns - 1}>, offset=<{count}>)"
        return f"LinearLoss(A=<{count}x{columns}>)"


def with_offset(A: Any, offset: Any) -> Any:
    """The samples A with the offset as a last column; that of a table is brought into memory, eight bytes a row."""
    count = len(A)
    if np.ndim(offset) == 0 and not hasattr(offset, "dask"):
        column = np.full(count, check_number("offset", offset))
    else:
        column = check_array("offset", offset, size=count)
    return A.with_column(column) if isinstance(A, Table) else np.column_stack([A, column])


def split_offset(samples: Any) -> tuple[Any, Any]:
    """A and the offset, which is the last column of the samples."""
    return samples.without_column() if isinstance(samples, Table) else (samples[:, :-1], samples[:, -1])


def largest_norm(table: Table, centered: bool) -> float:
    """Largest norm(a_i), or norm(a_i - mean a), of all rows whatever their weight."""
    center = np.zeros(table.shape[1])
    if centered:
        center = np.asarray(summary(table).mean)
    return float(np.sqrt(table.reduce(_Largest(center), every=True)))


@dataclass(frozen=True)
class _Largest:
    """Greatest squared distance of a row from a point."""

    center: Array
    wide: ClassVar[bool] = False

    def __call__(self, block: Block) -> float:
        apart = block.rows - self.center
        return float(np.einsum("ij,ij->i", apart, apart).max())

    def join(self, parts: Sequence[float]) -> float:
        return float(np.max(parts))

"""Products: one set for each block of coordinates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ._backend import FloatArray, backend_of
from ._base import Domain
from ._checks import dimension_argument
from ._errors import InfeasibleError, UnboundedError

if TYPE_CHECKING:
    from ._polyhedron import Polyhedron

__all__ = ["Product"]


@dataclass(frozen=True, eq=False, repr=False)
class Product(Domain):
    r"""The product {theta: block i of theta lies in domains[i]}.

    .. math:: \Theta = \Theta_1 \times \cdots \times \Theta_k

    Parameters
    ----------
    domains
        The sets, in the order of their blocks.
    sizes
        How many coordinates each block has.

    Notes
    -----
    `diameter` is exact when those of all the blocks are.

    Not for constraints that tie blocks together: use `Polyhedron` for those.

    Examples
    --------
    >>> from certeq import Product
    >>> from certeq.optimize.domains import Box, Simplex
    >>> Product([Simplex(), Box(-1.0, 1.0)], sizes=[2, 1]).project([2.0, 0.0, 5.0])
    array([1., 0., 1.])
    """

    domains: Sequence[Domain]
    sizes: Sequence[int]

    def __post_init__(self) -> None:
        domains = tuple(self.domains)
        sizes = tuple(dimension_argument(size) for size in self.sizes)
        if not domains:
            raise ValueError("domains must hold at least one Domain, got none")
        if len(domains) != len(sizes):
            raise ValueError(f"sizes must have one entry per domain, got {len(sizes)} for {len(domains)} domains")
        for i, domain in enumerate(domains):
            if not isinstance(domain, Domain):
                raise TypeError(f"domains[{i}] must be a Domain, got {type(domain).__name__}")
        object.__setattr__(self, "domains", domains)
        object.__setattr__(self, "sizes", sizes)

    def _dimension(self) -> int | None:
        return sum(self.sizes)

    def _validate(self, d: int) -> None:
        for i, (domain, size) in enumerate(zip(self.domains, self.sizes, strict=True)):
            try:
                domain.validate(size)
            except InfeasibleError as error:
                raise InfeasibleError(f"Product is empty in block {i}: {error}") from None
            except ValueError as error:
                raise ValueError(f"Product does not fit in block {i}: {error}") from None

    def _blocks(self) -> Iterator[tuple[Domain, slice]]:
        stop = 0
        for domain, size in zip(self.domains, self.sizes, strict=True):
            yield domain, slice(stop, stop + size)
            stop += size

    def _project(self, x: Any) -> Any:
        return backend_of(x).concatenate([domain._project(x[..., block]) for domain, block in self._blocks()])

    def _residuals(self, x: FloatArray) -> Iterator[tuple[FloatArray, str]]:
        for i, (domain, block) in enumerate(self._blocks()):
            for amounts, template in domain._residuals(x[..., block]):
                yield amounts, f"block {i}: {template}"

    def _minimize_linear(self, g: FloatArray) -> FloatArray:
        parts = []
        for i, (domain, block) in enumerate(self._blocks()):
            try:
                parts.append(domain._minimize_linear(g[block]))
            except UnboundedError as error:
                direction = np.zeros(g.size)
                direction[block] = error.direction
                raise UnboundedError(f"in block {i}: {error}", direction) from None
        return np.concatenate(parts)

    def _support_gap(self, theta: FloatArray, g: FloatArray) -> float:
        return sum(domain._support_gap(theta[block], g[block]) for domain, block in self._blocks())

    def _start(self, d: int) -> FloatArray:
        return np.concatenate([domain._start(block.stop - block.start) for domain, block in self._blocks()])

    def _diameter(self, d: int) -> float:
        return float(np.linalg.norm([domain._diameter(block.stop - block.start) for domain, block in self._blocks()]))

    def _as_polyhedron(self, d: int) -> Polyhedron:
        return side_by_side([domain._as_polyhedron(block.stop - block.start) for domain, block in self._blocks()])


def side_by_side(parts: Sequence[Polyhedron]) -> Polyhedron:
    """Return the product of polyhedra, each in a block of coordinates of its own."""
    from ._polyhedron import Polyhedron

    ends = np.cumsum([part.d for part in parts])

    def stacked(rows: str) -> FloatArray:
        blocks = []
        for part, end in zip(parts, ends, strict=True):
            matrix: FloatArray = getattr(part, rows)
            wide = np.zeros((matrix.shape[0], int(ends[-1])))
            wide[:, end - part.d : end] = matrix
            blocks.append(wide)
        return np.concatenate(blocks)

    def joined(name: str) -> FloatArray:
        return np.concatenate([getattr(part, name) for part in parts])

    return Polyhedron(joined("lower"), joined("upper"), C=stacked("C"), c=joined("c"), A=stacked("A"), b=joined("b"))

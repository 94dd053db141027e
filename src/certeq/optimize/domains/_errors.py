"""The two ways a problem over a set can have no answer."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["InfeasibleError", "UnboundedError"]


class InfeasibleError(ValueError):
    """The set is empty; the message names the constraints to blame.

    Not raised for a set that is merely small, nor for a point outside of it, which is projected.

    Examples
    --------
    >>> from certeq.optimize.domains import CappedSimplex
    >>> CappedSimplex(upper=0.2).validate(4)
    Traceback (most recent call last):
    certeq.optimize.domains._errors.InfeasibleError: CappedSimplex is empty: sum of upper bounds 0.8 < total 1.0
    """


class UnboundedError(ValueError):
    """A linear function has no minimum over the set; `direction` is a ray along which it falls for ever.

    Not raised by `support_gap`, which is +inf then, nor by `project`, which is defined on every set here.

    Examples
    --------
    >>> from certeq import UnboundedError
    >>> from certeq.optimize.domains import NonNegative
    >>> try:
    ...     NonNegative().minimize_linear([1.0, -2.0])
    ... except UnboundedError as error:
    ...     print(error.direction)
    [0. 1.]
    """

    def __init__(self, message: str, direction: NDArray[Any]) -> None:
        super().__init__(message)
        self.direction = np.asarray(direction, dtype=np.float64)

    def __reduce__(self) -> tuple[Any, ...]:
        # The default reduction would call the class with the message alone.
        return type(self), (self.args[0], self.direction)

"""The caller's numbers and names, checked and lined up with the assets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certeq._checks import check_number, did_you_mean

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Assets:
    """The assets to choose from, and how an input given per asset is read.

    Parameters
    ----------
    names
        Names of all columns of X, or None where X has none.
    size
        Number of columns of X.
    mask
        Which of them can be held; None for all.
    strict
        Whether a name that is no asset is refused (or else passed over).
    """

    names: NDArray[Any] | None
    size: int
    mask: NDArray[np.bool_] | None = None
    strict: bool = True

    @property
    def count(self) -> int:
        """Number of assets that can be held."""
        return self.size if self.mask is None else int(self.mask.sum())

    @property
    def held(self) -> NDArray[Any] | None:
        """Names of the assets that can be held."""
        return self.names if self.names is None or self.mask is None else self.names[self.mask]

    def label(self, j: int) -> str:
        """How a message speaks of the j-th asset that can be held."""
        return f"asset {j}" if self.held is None else repr(str(self.held[j]))

    def worst(self, broken: NDArray[np.bool_]) -> tuple[int, str]:
        """The first asset where something is broken, and how a message speaks of all of them."""
        where = np.flatnonzero(broken)
        more = f" (and {len(where) - 1} more)" if len(where) > 1 else ""
        return int(where[0]), self.label(int(where[0])) + more

    def values(self, name: str, found: Any, absent: float, default: float, beyond: Iterable[str] = ()) -> Floats:
        """One number per asset from a number, an array, or a mapping by asset name.

        ``absent`` is what None means, ``default`` what an asset missing from a mapping gets. Names in ``beyond`` are
        let pass although no column has them.
        """
        if found is None:
            return np.full(self.count, absent)
        if isinstance(found, Mapping) or _has_names(found):
            array = self._by_name(name, dict(found.items()), default, set(beyond))
        else:
            array = self._by_place(name, found)
        if np.isnan(array).any():
            raise ValueError(f"{name} must not be NaN; found NaN for {self.worst(np.isnan(array))[1]}.")
        return array

    def _by_place(self, name: str, found: Any) -> Floats:
        wanted = f"a number, {self.size} numbers (one per asset) or a dict by asset name"
        if isinstance(found, (bool, str, bytes)):
            raise TypeError(f"{name} must be {wanted}; found {found!r}.")
        array = np.asarray(found)
        if array.dtype.kind not in "fiu":
            raise TypeError(f"{name} must be {wanted}; found {found!r}.")
        if array.ndim == 0:
            return np.full(self.count, float(array))
        if array.shape == (self.size,) and self.mask is not None:
            array = array[self.mask]
        if array.shape != (self.count,):
            raise ValueError(f"{name} must be {wanted}; found an array of shape {array.shape}.")
        return array.astype(np.float64)

    def _by_name(self, name: str, found: dict[Any, Any], default: float, beyond: set[str]) -> Floats:
        if self.names is None:
            raise ValueError(f"{name} is given by asset name, but X has no names; pass X as a DataFrame.")
        self.refuse_strangers(name, set(found) - beyond)
        array = np.array(
            [check_number(f"{name}[{key!r}]", found.get(key, default), finite=False) for key in self.names], dtype=float
        )
        return array if self.mask is None else array[self.mask]

    def refuse_strangers(self, name: str, keys: Iterable[Any]) -> None:
        """Raise where a key is no asset, with the nearest name that is one."""
        if not self.strict or self.names is None:
            return
        known = set(self.names)
        for key in keys:
            if key not in known:
                hint = did_you_mean(str(key), map(str, self.names))
                raise ValueError(
                    f"{name} names {key!r}, which is no column of X.{hint} With unknown_names='ignore' such names are "
                    "passed over."
                )


def _has_names(found: Any) -> bool:
    """Whether this is a pandas Series indexed by names rather than by place."""
    return hasattr(found, "to_dict") and any(isinstance(key, str) for key in getattr(found, "index", ()))

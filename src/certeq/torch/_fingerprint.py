"""Is it the same utility on every rank? Its parameters to the last digit, its functions by what they answer."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from torch import Tensor

from certeq.utilities import Utility

_OCTAVES = 2.0 ** np.arange(-10.0, 20.0, 0.25)
_PROBES = np.unique(np.concatenate([-_OCTAVES, np.linspace(-40.0, 40.0, 321), _OCTAVES]))
_known: WeakKeyDictionary[Any, str] = WeakKeyDictionary()  # functions already probed: this runs on every step


def spell(utility: Utility) -> str:
    """A utility in full, for instance ``CVaR(alpha=0.05)``; learned parameters as their present values."""
    items = [f"{name}={_spell(item)}" for name, item in vars(utility).items() if not name.startswith("_")]
    return f"{type(utility).__name__}({', '.join(items)})"


def fingerprint(text: str) -> int:
    """63 bits of a text."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little") >> 1


def _spell(item: Any) -> str:
    if isinstance(item, Utility):
        return spell(item)
    if isinstance(item, (Tensor, np.ndarray, np.generic)):
        return repr(item.tolist())
    if isinstance(item, (tuple, list)):
        return f"({', '.join(_spell(part) for part in item)})"
    return _probe(item) if callable(item) else repr(item)


def _probe(function: Callable[..., Any]) -> str:
    """A function has no parameters to compare, so its answers are: to nine digits, as libraries differ in the last."""
    with suppress(TypeError):  # no weak reference, or no hash: asked again each time
        if function in _known:
            return _known[function]
    name = getattr(function, "__name__", type(function).__name__)
    with suppress(TypeError, ValueError, RuntimeError), np.errstate(all="ignore"):  # else known by its name alone
        values = np.asarray(function(_PROBES), dtype=float)
        # What is left of a difference of large numbers has no nine digits.
        values = np.where(np.abs(values) < 1e-7 * (1.0 + np.abs(_PROBES)), 0.0, values)
        answers = ",".join(f"{value:.9g}" for value in np.ravel(values))
        name = f"{name}#{fingerprint(answers):016x}"
    with suppress(TypeError):
        _known[function] = name
    return str(name)

"""Losses that live elsewhere: which room reads the arrays of another package.

Rooms above this one cannot be imported from here, and their packages need not be installed; so they are known by name
only, and imported when such an array turns up.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from certeq.risk._sample import Sample

_ROOMS: dict[str, str] = {}  # the package an array's type comes from -> the module whose `as_sample` reads it


def read_with(package: str, module: str) -> None:
    """From now on ``module.as_sample(x, weights, axis)`` reads arrays of ``package``."""
    _ROOMS[package] = module


def elsewhere(x: Any, weights: Any = None, axis: Any = None) -> Sample | None:
    """Losses and weights as a `Sample` where either is no array in memory; None where both are."""
    module = _room_of(x) or _room_of(weights)
    if module is None:
        return None
    sample: Sample = import_module(module).as_sample(x, weights, axis)
    return sample


def lives_elsewhere(*arrays: Any) -> bool:
    """Whether one of these is no array in memory."""
    return any(_room_of(array) is not None for array in arrays)


def _room_of(array: Any) -> str | None:
    for kind in type(array).__mro__:
        module = _ROOMS.get(kind.__module__.partition(".")[0])
        if module is not None:
            return module
    return None

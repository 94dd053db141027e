"""What a checkpoint belongs to: the problem, part by part, so that another one is refused and the difference named.

Data and parameters are compared to the last bit. What is a function (a loss, a utility, a projection, a sampler, a
schedule) is compared by its answers to fixed questions, which are kept in the checkpoint: names say nothing, and the
last digits of an answer differ from one processor to the next.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certeq.optimize.losses._base import Floats
from certeq.optimize.sg._checkpoint import Refused
from certeq.utilities import Utility

TOLERANCE = 1e-9  # of the size of the numbers an answer is made of


@dataclasses.dataclass(frozen=True)
class Answers:
    """Numbers a function gave, how far off each may be on another machine, and what the i-th is."""

    values: Floats
    slack: Floats
    label: Callable[[int], str]

    def difference(self, saved: Floats) -> str | None:
        """Say where answers in a file differ from these, if they do; a shorter list is compared as far as it goes."""
        count = min(len(saved), len(self.values))
        a, b = saved[:count], self.values[:count]
        with np.errstate(invalid="ignore", over="ignore"):
            near = np.abs(a - b) <= self.slack[:count] + TOLERANCE * np.minimum(np.abs(a), np.abs(b))
        near |= (a == b) | (np.isnan(a) & np.isnan(b))
        if near.all():
            return None
        i = int(np.argmin(near))
        return f"{self.label(i)} is {float(a[i])!r} in the file, {float(b[i])!r} now"


@dataclasses.dataclass(frozen=True)
class Part:
    """One part of a problem: how it is shown, what must be equal to the letter, and what to within rounding."""

    shown: str
    key: str
    answers: Answers | None = None
    growing: bool = False  # whether a longer run has more answers

    @property
    def numbers(self) -> Floats:
        """The answers, none where there are no questions."""
        return np.zeros(0) if self.answers is None else self.answers.values

    def difference(self, shown: str, key: str, numbers: Floats) -> str | None:
        """Say what differs from the part in a file, if anything does."""
        apart = f"{shown} in the file, {self.shown} now"
        if key != self.key:
            # Two functions of one name, of which only one could be asked, or parameters the display leaves out.
            return apart if shown != self.shown else f"{apart}: {key or 'nothing':.200} against {self.key:.200}"
        if not self.growing and len(numbers) != len(self.numbers):
            return apart if shown != self.shown else f"{apart}: they answer to different questions"
        found = None if self.answers is None else self.answers.difference(numbers)
        return None if found is None else f"{apart}: {found}"


Problem = Mapping[str, Part]


def text(shown: str) -> Part:
    """A part that is what it says."""
    return Part(shown, shown)


def exact(value: Any) -> Part:
    """A part that is data: an array, or a tuple of arrays."""
    return text(digest(value))


def digest(value: Any) -> str:
    """Return a short fingerprint of an array, or of a tuple of arrays, that changes when any bit does."""
    parts = value if isinstance(value, tuple) else (value,)
    total = hashlib.blake2b(digest_size=8)
    shapes = []
    for part in parts:
        array = np.ascontiguousarray(part)
        if array.dtype.hasobject:
            raise TypeError(f"a checkpoint cannot be kept of samples with dtype {array.dtype}; pass arrays of numbers.")
        shapes.append("x".join(map(str, array.shape)))
        total.update(f"{array.dtype}{array.shape}".encode())
        total.update(array.reshape(-1).view(np.uint8).data)
    return f"{' and '.join(shapes)} #{total.hexdigest()}"


def spell(value: Any) -> str:
    """Return a value with all its parameters, to the last digit; a function, which has none, as the word."""
    if isinstance(value, (bool, str, type(None))):
        return repr(value)
    if isinstance(value, (int, float, np.number)):
        return repr(float(value))
    if isinstance(value, np.ndarray):
        return f"array {digest(value)}"
    if isinstance(value, (tuple, list)):
        return f"({', '.join(map(spell, value))})"
    if isinstance(value, Utility):
        items = value.get_params(deep=False)
        if any(callable(item) and not isinstance(item, Utility) for item in items.values()):
            items = {}  # made of functions: its name and declarations are no part of what it does
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        items = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    elif callable(value):
        return "function"
    else:
        return type(value).__qualname__
    return f"{type(value).__qualname__}({', '.join(f'{name}={spell(item)}' for name, item in items.items())})"


def refuse_other_problem(path: str, saved: Mapping[str, tuple[str, str, NDArray[Any]]], present: Problem) -> None:
    """Raise, naming what differs, when a checkpoint belongs to another problem."""
    found = {name: part.difference(*saved.get(name, ("missing", "", np.zeros(0)))) for name, part in present.items()}
    apart = "; ".join(f"{name}: {detail}" for name, detail in found.items() if detail is not None)
    if apart:
        raise Refused(
            f"checkpoint {path!r} belongs to a different problem: {apart}. Use another file, or pass resume=False to "
            "overwrite it."
        )

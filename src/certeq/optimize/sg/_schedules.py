"""Schedules: how long the step and how large the batch at iteration k = 1, 2, ...

Each is one small function that returns a `Schedule`: a pure function of k with a name, so that a checkpoint can say
which schedule it belongs to.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

FULL = -1  # a batch size that means all samples


@dataclass(frozen=True)
class Schedule:
    """A named function of the iteration; equal to another when the names are."""

    name: str
    at: Callable[[int], float]

    def __call__(self, k: int) -> float:
        """Return the schedule at iteration k >= 1."""
        return self.at(k)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schedule) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return self.name


# -- steps ------------------------------------------------------------------------------------------------------------


def constant(c: float) -> Schedule:
    """alpha_k = c.

    Not for CVaR or another risk that is not smooth: the iterates then hover instead of settling.

    >>> from certeq.optimize import constant
    >>> [constant(0.5)(k) for k in (1, 2, 4)]
    [0.5, 0.5, 0.5]
    """
    c = _positive("c", c)
    return Schedule(f"constant({c!r})", lambda k: c)


def inverse(c: float) -> Schedule:
    """alpha_k = c / k.

    Not without strong convexity, nor with a guess of c: if it is below 1/(2 mu) convergence is arbitrarily slow.

    >>> from certeq.optimize import inverse
    >>> [inverse(1.0)(k) for k in (1, 2, 4)]
    [1.0, 0.5, 0.25]
    """
    c = _positive("c", c)
    return Schedule(f"inverse({c!r})", lambda k: c / k)


def inverse_sqrt(c: float) -> Schedule:
    """alpha_k = c / sqrt(k).

    Not for smooth problems with full batches, where a constant step is much faster.

    >>> from certeq.optimize import inverse_sqrt
    >>> [inverse_sqrt(1.0)(k) for k in (1, 4, 16)]
    [1.0, 0.5, 0.25]
    """
    c = _positive("c", c)
    return Schedule(f"inverse_sqrt({c!r})", lambda k: c / math.sqrt(k))


# -- batches ----------------------------------------------------------------------------------------------------------


def growing_batch(first: int = 1) -> Schedule:
    """m_k = first + k - 1, so m_k = k by default: what the any-time rates ask for.

    Not with few samples and many steps: beyond their number a larger batch only repeats them.

    >>> from certeq.optimize import growing_batch
    >>> [growing_batch()(k) for k in (1, 2, 3)]
    [1, 2, 3]
    """
    first = _whole("first", first)
    return Schedule(f"growing_batch({first})", lambda k: first + k - 1)


def constant_batch(m: int) -> Schedule:
    """m_k = m.

    Not where the last digits matter: the bias of the gradient estimate, of order 1/m, then never goes away.

    >>> from certeq.optimize import constant_batch
    >>> constant_batch(64)(1000)
    64
    """
    m = _whole("m", m)
    return Schedule(f"constant_batch({m})", lambda k: m)


def full_batch() -> Schedule:
    """m_k = n, all samples at every iteration; needs a fixed set of samples.

    Not for streams, which have no end.

    Examples
    --------
    >>> from certeq.optimize import full_batch
    >>> full_batch()
    full_batch()
    """
    return Schedule("full_batch()", lambda k: FULL)


# -- what a caller may write ------------------------------------------------------------------------------------------


def as_step(step: Any) -> Schedule:
    """Return a step schedule from a number, a schedule or a function of k."""
    if isinstance(step, Schedule):
        return step
    if callable(step):
        return Schedule(_spell(step), step)
    return constant(_positive("step", step))


def as_batch(batch: Any) -> Schedule:
    """Return a batch schedule from a whole number, "full", "growing", a schedule or a function of k."""
    if isinstance(batch, Schedule):
        return batch
    if callable(batch):
        return Schedule(_spell(batch), batch)
    if isinstance(batch, str):
        named = {"full": full_batch, "growing": growing_batch}
        return named[choose("batch", batch, named)]()
    return constant_batch(_whole("batch", batch))


def choose(name: str, found: Any, known: Any) -> str:
    """Return ``found`` if it is one of the known words, else say which are, the nearest first."""
    words = list(known)
    if isinstance(found, str) and found in words:
        return found
    near = difflib.get_close_matches(str(found), words, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise ValueError(f"{name} must be one of {', '.join(map(repr, words))}; found {found!r}.{hint}")


def _spell(function: Any) -> str:
    return f"<function {getattr(function, '__qualname__', type(function).__name__)}>"


def _positive(name: str, found: Any) -> float:
    if isinstance(found, (bool, str)) or not hasattr(found, "__float__"):
        raise TypeError(f"{name} must be a number above 0; found {found!r}.")
    number = float(found)
    if not 0.0 < number < math.inf:
        raise ValueError(f"{name} must be a finite number above 0; found {number!r}.")
    return number


def _whole(name: str, found: Any) -> int:
    if isinstance(found, (bool, str)) or not hasattr(found, "__index__"):
        raise TypeError(f"{name} must be a whole number of at least 1; found {found!r}.")
    number = int(found)
    if number < 1:
        raise ValueError(f"{name} must be a whole number of at least 1; found {number}.")
    return number

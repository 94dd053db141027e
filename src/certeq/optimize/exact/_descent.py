"""The outer method: models of a step on a working set, until the evidence closes the gap of the whole problem."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

from certeq.optimize.exact._risk import TermAt
from certeq.utilities.forms import Inner

TraceRow = tuple[float, float, float, int]  # value, gap, seconds, size of what the step looked at


class Evident(Protocol):
    """A point with the evidence for it, and the gap that it proves up to rounding."""

    @property
    def point(self) -> Any:
        """Where it is, with its ``value``."""

    @property
    def gap(self) -> float:
        """What the evidence proves."""

    @property
    def size(self) -> int:
        """How many assets, or rows, the step looked at one by one."""


Found = TypeVar("Found", bound=Evident)


class Oracle(Protocol[Found]):
    """What the method asks of the scenarios, wherever they are: `MemoryOracle`, `BlockOracle`.

    An oracle knows the point that was reached. In memory the losses there are at hand: the best inner variables are
    found at every trial, and assets and hinges are a working set that grows. On blocks inner variables are variables of
    the step, every trial is one read, and the rows near a kink alone are kept.
    """

    deadline: float
    began: float
    iterations: int
    trace: list[TraceRow]
    best: Found | None
    progress: float  # a gap that is not below this multiple of the best one so far is no progress

    def step(self, tolerance: float) -> Found:
        """Solve the model of a step, move, and say what proves the point that was reached."""

    def prepare(self, answer: Found, tolerance: float, stalls: int) -> bool:
        """Choose what the next step looks at; False where no step would help."""


def descend(oracle: Oracle[Found], tolerance: float, max_iter: int) -> Found:
    """Steps until the gap of the best answer is below ``tolerance``, relative to a loss of size 1."""
    stalls = 0
    for _ in range(max_iter):
        oracle.iterations += 1
        answer, best = oracle.step(tolerance), oracle.best
        oracle.trace.append((answer.point.value, answer.gap, time.perf_counter() - oracle.began, answer.size))
        stalls = 0 if best is None or answer.gap < oracle.progress * best.gap else stalls + 1
        if best is None or answer.gap < best.gap:
            oracle.best = best = answer
        if best.gap <= tolerance or time.perf_counter() > oracle.deadline:
            break
        if not oracle.prepare(answer, tolerance, stalls):
            break
    assert oracle.best is not None
    return oracle.best


def bound_constant(
    inner: Inner, parts: Sequence[TermAt], constants: Sequence[float], slopes: Sequence[float], furthest: list[float]
) -> float:
    """The constant K of the bound, less what tilts that do not sum to 1 may cost, from those of the terms."""
    cost, total = inner.cost.tolist(), 0.0
    for part, constant, slope in zip(parts, constants, slopes, strict=True):
        term, constant = part.term, part.weight * constant
        if term.s is not None:
            coefficient = cost[term.s] + constant / part.s
            constant = coefficient * (furthest[term.s] if coefficient < 0.0 else float(inner.low[term.s]))
        drift = abs(cost[term.t] - part.weight * slope)
        total += constant - (drift * furthest[term.t] if drift > 0.0 else 0.0)
    return total

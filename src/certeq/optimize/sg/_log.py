"""What a run says about itself: the trace, the snapshot a callback sees, and a progress bar for people."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from certeq.optimize.losses._base import Floats
from certeq.optimize.solution import Trace

COLUMNS = ("iteration", "value", "gap", "step", "batch", "seconds")


@dataclass(frozen=True)
class Snapshot:
    """A run at one logged iteration, as handed to the callback; return True from it to stop.

    ``theta`` is the iterate that would be returned now (the average, where one is asked for) and must not be changed.
    ``gap`` is None where there is no certificate.
    """

    iteration: int
    theta: Floats
    value: float
    gap: float | None
    step: float
    batch: int
    seconds: float


class Log:
    """Rows of the trace, kept as a plain list while the run lasts."""

    STATE = ("rows",)

    def __init__(self) -> None:
        self.rows: list[Sequence[float]] = []

    def add(self, at: Snapshot) -> None:
        """Append a row."""
        gap = np.nan if at.gap is None else at.gap
        self.rows.append((at.iteration, at.value, gap, at.step, at.batch, at.seconds))

    def table(self) -> Floats:
        """Return the rows as one array."""
        return np.array(self.rows, dtype=np.float64).reshape(-1, len(COLUMNS))

    def trace(self) -> Trace:
        """Return the rows as a trace."""
        iteration, value, gap, step, batch, seconds = self.table().T
        return Trace(iteration.astype(np.int64), value, gap, step, batch.astype(np.int64), seconds)


class Progress:
    """tqdm where it is installed and wanted; ``shown`` of None means when stderr is a terminal."""

    def __init__(self, shown: bool | None, total: int, done: int) -> None:
        self.bar: Any = None
        if shown is None:
            shown = sys.stderr is not None and sys.stderr.isatty()
        if not shown:
            return
        try:
            from tqdm import tqdm
        except ImportError:
            return
        self.bar = tqdm(total=total, initial=done, desc="OCE-SG", unit="it", file=sys.stderr)

    def update(self, iteration: int, value: float) -> None:
        """Move the bar to an iteration."""
        if self.bar is not None:
            self.bar.set_postfix(value=f"{value:.6g}", refresh=False)
            self.bar.update(iteration - self.bar.n)

    def close(self) -> None:
        """Leave the line as it is."""
        if self.bar is not None:
            self.bar.close()

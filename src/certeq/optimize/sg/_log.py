"""What a run says about itself: the trace, and the snapshot a callback sees."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

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

    def __init__(self) -> None:
        self.rows: list[tuple[float, ...]] = []

    def add(self, at: Snapshot) -> None:
        """Append a row."""
        gap = np.nan if at.gap is None else at.gap
        self.rows.append((at.iteration, at.value, gap, at.step, at.batch, at.seconds))

    def table(self) -> Floats:
        """Return the rows as one array, for a checkpoint."""
        return np.array(self.rows, dtype=np.float64).reshape(-1, len(COLUMNS))

    def restore(self, table: NDArray[np.float64]) -> None:
        """Put back what `table` returned."""
        self.rows = [tuple(float(entry) for entry in row) for row in table]

    def trace(self) -> Trace:
        """Return the rows as a trace."""
        iteration, value, gap, step, batch, seconds = self.table().T
        return Trace(iteration.astype(np.int64), value, gap, step, batch.astype(np.int64), seconds)

"""A progress bar for people: shown on a terminal, silent elsewhere, never required."""

from __future__ import annotations

import sys
from typing import Any


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

"""Small plots in braille: two dots across and four down in each character."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_DOTS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]])


def braille(values: NDArray[np.float64], rows: int, low: float, high: float) -> list[str]:
    """A curve as ``rows`` lines of text, one value per dot column; above ``high`` it runs along the edge."""
    columns = values.size // 2
    cells = np.zeros((rows, columns), dtype=int)
    heights = (np.minimum(values[: 2 * columns], high) - low) / (high - low) * (4 * rows - 1)
    before: int | None = None
    for x, height in enumerate(heights):
        if not -0.5 <= height <= 4 * rows - 0.5:
            before = None
            continue
        top = 4 * rows - 1 - round(float(height))
        # A steep piece is filled in, or it would fall apart into dots.
        start, end = (top, top) if before is None else sorted((before, top))
        for y in range(start, end + 1):
            cells[y // 4, x // 2] |= _DOTS[y % 4, x % 2]
        before = top
    return ["".join(chr(0x2800 + dots) for dots in line) for line in cells]

"""Six measured ratios as bars, from docs/_data/benchmarks.json: to the right certeq is faster, to the left slower."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import look
import matplotlib.pyplot as plt
import numpy as np

DOCS = Path(look.__file__).resolve().parents[1]
sys.path.insert(0, str(DOCS / "_ext"))
from measured import HEADLINES, faster  # noqa: E402

look.style()
groups = json.loads((DOCS / "_data" / "benchmarks.json").read_text())["groups"]
figure, axis = plt.subplots(figsize=(8.6, 3.9), layout="constrained")
for row, line in enumerate(HEADLINES):
    ours, theirs = line.times(groups)
    height = np.log10(theirs / ours)
    color = look.BLUE if height > 0 else look.RUST
    axis.barh(
        row, height, 0.62, color=color if line.like else "white", edgecolor=color, hatch=None if line.like else "//"
    )
    words = faster(ours, theirs) + ("" if line.like else " (solver against fit)")
    axis.text(max(height, 0.0) + 0.03, row, words, va="center", color=look.INK)
axis.axvline(0.0, color=look.INK, lw=1)
axis.set_yticks(range(len(HEADLINES)), [f"{line.task}\nagainst {line.other}" for line in HEADLINES], color=look.INK)
axis.invert_yaxis()
axis.set_xlim(-0.5, 2.75)
axis.set_xticks([np.log10(x) for x in (0.5, 1, 3, 10, 30, 100)], ["½", "1", "3", "10", "30", "100"])
axis.set_xlabel("their time over certeq's")
axis.grid(visible=False, axis="y")
axis.tick_params(axis="y", length=0)

"""What a run of the referee found: counts by class, and for each class the shortest case that reproduces it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class Report:
    checked: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    worst: dict[str, float] = field(default_factory=dict)
    snippets: dict[str, str] = field(default_factory=dict)
    notes: Counter[str] = field(default_factory=Counter)  # counted, and no fault

    def fail(self, kind: str, size: float, snippet: str) -> None:
        self.failed[kind] += 1
        self.worst[kind] = max(self.worst.get(kind, 0.0), float(size))
        if kind not in self.snippets or len(snippet) < len(self.snippets[kind]):
            self.snippets[kind] = snippet

    def slow(self, kind: str, seconds: float, snippet: str) -> None:
        """Not a failure, for a busy machine is slow too; the slowest is shown."""
        if seconds > self.worst.get(kind, 0.0):
            self.worst[kind], self.snippets[kind] = seconds, f"{snippet}  # took {seconds:.2f} s"

    def summary(self) -> str:
        lines = [f"checked: {dict(self.checked)}", f"noted: {dict(self.notes)}"]
        lines += [f"  {kind}: {count} failures, worst {self.worst[kind]:.3g}" for kind, count in self.failed.items()]
        return "\n".join(lines)

    def __str__(self) -> str:
        shown = [
            f"# {kind}: {self.failed[kind]} failures; the shortest:\n{self.snippets[kind]}" for kind in self.failed
        ]
        shown += [f"# {kind}\n{self.snippets[kind]}" for kind in self.snippets if kind not in self.failed]
        return "\n".join([self.summary(), *shown])


def array_code(values: object) -> str:
    """Source text of an array, with every digit."""
    import numpy as np

    array = np.asarray(values)
    text = repr(array.tolist())
    return f"np.array({text}, dtype=np.float32)" if array.dtype == np.float32 else f"np.array({text})"

"""How things are timed here: interleaved repeats, so that a busy moment hurts both sides alike."""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any


def interleaved(calls: dict[str, Callable[[], Any]], repeats: int = 5) -> dict[str, float]:
    """Best time of each call in seconds, the calls taking turns."""
    best = dict.fromkeys(calls, float("inf"))
    for call in calls.values():
        call()
    for _ in range(repeats):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def machine() -> dict[str, Any]:
    """What the figures were taken on."""
    name = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        name = next(
            (line.split(":")[1].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line), name
        )
    packages = {}
    for package in ("numpy", "scipy", "torch", "cvxpy", "clarabel", "skfolio", "riskfolio-lib", "sqwash", "pfhedge"):
        try:
            packages[package] = version(package)
        except PackageNotFoundError:
            continue
    return {
        "cpu": name,
        "cores": os.cpu_count(),
        "python": sys.version.split()[0],
        "packages": packages,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def table(rows: list[dict[str, Any]]) -> str:
    """Rows as an aligned text table."""
    if not rows:
        return "(nothing measured)"
    heads = list(dict.fromkeys(key for row in rows for key in row))
    cells = [[_spell(row.get(head, "")) for head in heads] for row in rows]
    widths = [max(len(head), *(len(line[i]) for line in cells)) for i, head in enumerate(heads)]
    lines = ["  ".join(head.ljust(width) for head, width in zip(heads, widths, strict=True))]
    lines.append("  ".join("-" * width for width in widths))
    lines += ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in cells]
    return "\n".join(lines)


def _spell(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def write_json(path: Path, content: Any) -> None:
    """Whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(content, indent=1, default=float))
    os.replace(temporary, path)

"""What a run of OCE-SG leaves in a checkpoint beside its arrays, checked when it is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from certeq.optimize.losses._base import Floats
from certeq.optimize.sg._checkpoint import ANSWERS, Checkpoint, is_count, refuse

STATUSES = ("iteration limit", "time limit", "converged", "stopped by callback")


@dataclass(frozen=True)
class Values:
    """Plain values of a run."""

    iteration: int
    seconds: float
    status: str
    seed: int | None
    weight: float
    source: dict[str, Any]
    same: bool
    tilt: list[str]


def check_values(path: str, saved: Checkpoint, engines: int) -> Values:
    """Return the values of a checkpoint; what no run can have written is refused."""
    values, arrays = saved.values, saved.arrays
    for name in ("theta", "mean", "trace"):
        if name not in arrays:
            raise refuse(path, f"array {name!r} is missing")
    for name in ("theta", "mean"):
        if not np.isfinite(arrays[name]).all():
            raise refuse(path, f"{name} is not finite")
    at = values.get("iteration")
    if not is_count(at):
        raise refuse(path, f"iteration is {at!r:.40}")
    _check_trace(path, arrays["trace"], at)
    for name in ("seconds", "weight"):
        found = values.get(name)
        if isinstance(found, bool) or not isinstance(found, (int, float)) or not 0 <= found <= 1e300:
            raise refuse(path, f"{name} is {found!r:.40}")
    if values.get("status") not in STATUSES:
        raise refuse(path, f"status is {values.get('status')!r:.40}")
    seed = values.get("seed")
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int) or seed < 0):
        raise refuse(path, f"seed is {seed!r:.40}")
    if not isinstance(values.get("same"), bool) or not isinstance(values.get("source"), dict):
        raise refuse(path, "the state of its samples is missing")
    tilt = values.get("tilt")
    if not isinstance(tilt, list) or len(tilt) != engines or not all(isinstance(name, str) for name in tilt):
        raise refuse(path, "the state of its tilt is missing")
    return Values(
        at, float(values["seconds"]), values["status"], seed, float(values["weight"]), values["source"],
        values["same"], tilt,
    )  # fmt: skip


def check_answers(path: str, saved: Checkpoint) -> dict[str, Floats]:
    """Return the answers of a checkpoint's problem, by part."""
    lengths, numbers = saved.values.get("answers"), saved.arrays.get(ANSWERS)
    if not isinstance(lengths, dict) or set(lengths) != set(saved.problem) or numbers is None:
        raise refuse(path, "the answers of its problem are missing")
    if not all(length == 0 or is_count(length) for length in lengths.values()) or sum(lengths.values()) != numbers.size:
        raise refuse(path, "the answers of its problem are incomplete")
    ends = np.cumsum([0, *lengths.values()])
    return {name: numbers[ends[i] : ends[i + 1]] for i, name in enumerate(lengths)}


def _check_trace(path: str, trace: Floats, last: int) -> None:
    at = trace[:, 0]
    rising = (
        np.isfinite(at).all() and bool((np.diff(at, prepend=0.0) >= 1.0).all()) and bool((at == np.floor(at)).all())
    )
    if at.size and not (rising and at[-1] <= last):
        raise refuse(path, "the iterations of its trace are not in order")
    if not (np.isfinite(trace[:, 3:]).all() and bool((np.abs(trace[:, 3:]) <= 1e300).all())):
        raise refuse(path, "a step, batch or time of its trace is not finite")

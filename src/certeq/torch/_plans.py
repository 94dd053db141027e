"""What is known of a utility before any loss is seen: worked out once, since every batch of a run has the same."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from certeq.risk._compiled import Coded, coded
from certeq.torch._vector import SMALL
from certeq.utilities import Pieces, Power, Utility


class Tail(NamedTuple):
    """CVaR of n losses: so many whole ones, a share of the next, and what is added at the end."""

    whole: int
    looked_at: int
    share: Tensor
    shift: float


class Plan(NamedTuple):
    """The short ways that a utility has, for n losses of a dtype."""

    tail: Tail | None
    code: Coded | None
    of_zero: float  # OCE of a sure loss of 0
    any_length: bool  # whether the compiled solver is the better one of long batches too


_last: list[tuple[Any, Plan]] = [(None, Plan(None, None, 0.0, False))]  # what the last plan was for, and the plan


def plan_for(utility: Utility, size: int, dtype: torch.dtype) -> Plan:
    """The plan for a batch of a utility without tensors."""
    key = utility._state()
    known, plan = _last[0]  # read at once: another thread may be training too
    if known == (key, size, dtype):
        return plan
    code = coded(utility)
    plan = Plan(_tail(utility, size, dtype), code, utility.oce_of_zero, code is not None and _any_length(utility))
    _last[0] = ((key, size, dtype), plan)
    return plan


def _any_length(utility: Utility) -> bool:
    """A closed form of many losses is as good and faster in their own precision, and so is NumPy's general power."""
    curve = utility.curve
    return utility.shape is None and not (isinstance(curve, Power) and curve.degree not in (1.0, 2.0, 3.0))


def _tail(utility: Utility, size: int, dtype: torch.dtype) -> Tail | None:
    """How to average the tail of a short batch; None where u is not two linear pieces of which the lower is flat."""
    pieces = utility.shape
    if size > SMALL or not (isinstance(pieces, Pieces) and pieces.low == 0.0):
        return None
    mass = size * pieces.tail
    whole = min(int(mass * (1.0 + 1e-15)), size - 1)
    count = min(whole + 2, size)  # one more than CVaR needs: the next loss tells whether the last one ties
    parts = [1.0 / mass] * whole + [max(1.0 - whole / mass, 0.0)] + [0.0] * (count - whole - 1)
    with torch.inference_mode(False):  # it outlives this call, and may be part of a graph later
        share = torch.tensor(parts, dtype=dtype, device="cpu")
    return Tail(whole, count, share, float(utility.value(pieces.kink)) - pieces.kink)

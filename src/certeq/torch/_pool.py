"""The losses of all ranks as one batch: what is here stays differentiable, what came from elsewhere is a constant.

Every rank then solves the same problem, so t* and the value are the same bits everywhere, and the gradient that
reaches a rank's own losses is its part of the global tilt. Gathering costs one round of talk, two for longer shards;
a search for t* by reduced sums needs several, and pays only for a very long batch: see ``_sums``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, cast

import torch
from torch import Tensor

from certeq.torch._checks import Dim, as_weights, check_losses, check_values, check_weights, normalize_dim
from certeq.torch._fingerprint import fingerprint, spell
from certeq.torch._group import Message, Ranks
from certeq.torch._rows import as_rows
from certeq.utilities import Utility

F = TypeVar("F", bound=Callable[..., Any])


class Pooled(NamedTuple):
    """Losses and weights of all ranks, samples last, and where this rank's own lie among them."""

    losses: Tensor
    weight: Tensor | None
    own: slice


class Shard(NamedTuple):
    """This rank's losses and weights, samples last."""

    losses: Tensor
    weight: Tensor | None


class Meeting(NamedTuple):
    """What is known after the first round: this rank's shard, everybody's message, and the ranks."""

    shard: Shard
    found: list[Message]
    ranks: Ranks
    payload: Tensor


def uncompiled(function: F) -> F:
    """Ranks talk in the midst of it: it is left out of compiled code, what stands around it stays compiled."""
    return cast(F, torch.compiler.disable(function))  # type: ignore[no-untyped-call]


@uncompiled
def pool(
    losses: Tensor,
    utility: Utility,
    weight: Tensor | None,
    dim: Dim,
    allow_inf: bool,
    validate: bool,
    process_group: Any,
    asked: str,
) -> Pooled:
    """Both rounds: see `meet` and `gather`."""
    return gather(meet(losses, utility, weight, dim, allow_inf, validate, process_group, asked))


def meet(
    losses: Tensor,
    utility: Utility,
    weight: Tensor | None,
    dim: Dim,
    allow_inf: bool,
    validate: bool,
    process_group: Any,
    asked: str,
) -> Meeting:
    """The first round; raises the same error on every rank where any of them has cause to.

    ``asked`` names the call, so that ranks that make different ones notice.
    """
    if torch._C._are_functorch_transforms_active():  # refused for good: a transform would call the ranks out of step
        raise NotImplementedError(
            "process_group cannot be used inside a transform of torch.func: the ranks talk in the midst of it. "
            "Transform the network and leave the loss outside."
        )
    ranks = Ranks(process_group)
    text = spell(utility)
    mine = Message({"call": asked}, fingerprint(text))
    shard = None
    try:
        shard = _shard(losses, utility, weight, dim, allow_inf, validate)
    except (TypeError, ValueError, IndexError) as error:
        mine.complaint = error  # the others are told, or they would wait for this rank until their timeout
    else:
        mine.question |= {
            "dtype": str(losses.dtype).removeprefix("torch."),
            "other dimensions": str(tuple(shard.losses.shape[:-1])),
            "allow_inf": str(allow_inf),
        }
        mine.samples, mine.weighted = shard.losses.shape[-1], shard.weight is not None
        mine.summable = utility._learned_parameter() is None and not (weight is not None and weight.requires_grad)
        mine.payload = _as_bytes(shard)
    mine.question["utility"] = text  # last: where there is no room for all of it the fingerprint still is complete
    found = ranks.exchange(mine)
    _check_complaints(found, mine.complaint)
    _check_same_question(found)
    assert shard is not None  # or there was a complaint
    return Meeting(shard, found, ranks, mine.payload)


def _shard(losses: Tensor, utility: Utility, weight: Tensor | None, dim: Dim, allow_inf: bool, validate: bool) -> Shard:
    check_losses(losses, may_be_empty=True)
    dims = normalize_dim(dim, losses.ndim)
    if validate:
        check_values(losses, utility, allow_inf)
    if weight is None:
        return Shard(as_rows(losses, dims), None)
    w = as_weights(weight, losses, dims, dim, False)
    if validate:
        check_weights(w)  # not their sum: a shard may have none of the weight
    return Shard(as_rows(losses, dims), as_rows(w, dims).double())


def gather(meeting: Meeting) -> Pooled:
    """The shards of all ranks, one after the other.

    Backward multiplies the gradient of this rank's losses and weights by the number of ranks, which the average over
    the ranks undoes.
    """
    shard, found, ranks, payload = meeting
    ranks.fetch(found, payload)
    weighted = any(one.weighted for one in found)
    parts = [_from_bytes(one, shard.losses) for one in found]
    own = None if shard.weight is None else for_average(shard.weight, ranks.count)
    parts[ranks.rank] = Shard(for_average(shard.losses, ranks.count), own)
    losses = torch.cat([part.losses for part in parts], dim=-1)
    if losses.numel() == 0:
        raise ValueError("losses is empty on every rank: no OCE of no losses exists.")
    weight = None
    if weighted:  # a shard without losses may come without weights, and needs none
        weight = torch.cat([part.losses.double() if part.weight is None else part.weight for part in parts], dim=-1)
        if not bool((weight.detach().sum(-1) > 0).all()):
            raise ValueError("weight sums to 0 over all ranks; at least one sample must have a weight above 0.")
    start = sum(one.samples for one in found[: ranks.rank])
    return Pooled(losses, weight, slice(start, start + shard.losses.shape[-1]))


# -- agreement ---------------------------------------------------------------------------------------------------------


def _check_complaints(found: list[Message], own: Exception | None) -> None:
    bad = [(rank, one.complaint) for rank, one in enumerate(found) if one.complaint is not None]
    if not bad:
        return
    said = " ".join(f"Rank {rank} of {len(found)}: {complaint}" for rank, complaint in bad)
    raise type(bad[0][1])(said) from own


def _check_same_question(found: list[Message]) -> None:
    def refuse(what: str, answers: list[str]) -> None:
        listed = ", ".join(f"rank {rank} has {answer}" for rank, answer in enumerate(answers))
        raise ValueError(f"{what} must be the same on every rank of process_group; {listed}.")

    if len({one.fingerprint for one in found}) > 1:
        refuse("utility", [one.question["utility"] for one in found])
    for what in found[0].question:
        answers = [one.question.get(what, "none") for one in found]
        if what != "utility" and len(set(answers)) > 1:
            refuse(what if what != "dtype" else "the dtype of losses", answers)
    if len({one.weighted for one in found if one.samples > 0}) > 1:
        answers = ["no losses" if one.samples == 0 else "weights" if one.weighted else "none" for one in found]
        refuse("weight, given or not,", answers)


# -- bytes: every backend can send them, whatever the dtype ------------------------------------------------------------


def _as_bytes(shard: Shard) -> Tensor:
    parts = [part.detach().movedim(-1, 0).reshape(-1).contiguous() for part in shard if part is not None]
    return torch.cat([part.view(torch.uint8) for part in parts])


def _from_bytes(one: Message, like: Tensor) -> Shard:
    shape = (one.samples, *like.shape[:-1])
    size = like.element_size() * torch.Size(shape).numel()

    def read(raw: Tensor, dtype: torch.dtype) -> Tensor:
        # A copy is aligned, and keeps no message alive.
        return raw.clone().view(dtype).reshape(shape).movedim(0, -1).to(like.device)

    losses = read(one.payload[:size], like.dtype)
    return Shard(losses, read(one.payload[size:], torch.float64) if one.weighted else None)


class _ForAverage(torch.autograd.Function):
    """The identity, with its gradient multiplied by the number of ranks."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, count: int) -> Tensor:
        ctx.count = count
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        if torch.is_grad_enabled():  # refused for good: half of a second derivative would be a wrong one
            raise NotImplementedError(
                "second derivatives are not offered across a process_group: t* moves with the losses of other ranks, "
                "which have no graph here. Leave out create_graph=True."
            )
        return grads[0] * ctx.count, None


def for_average(x: Tensor, count: int) -> Tensor:
    """x, whose gradient will be averaged over so many ranks that each have a part of it."""
    scaled: Tensor = _ForAverage.apply(x, count) if x.requires_grad else x  # type: ignore[no-untyped-call]
    return scaled

"""The losses of all ranks of a process group as one batch.

What is here stays differentiable, what came from other ranks is a constant. Every rank then solves the same problem, so
t* and the value are bitwise the same on each, and the gradient that reaches a rank's own losses is its part of the
global tilt.

Every rank sends one message, always of the same length, so that one communication round is enough to learn the sizes of
all shards, whether every rank was asked the same question, and what went wrong on which rank. Short shards travel along
with it; longer ones take a second round.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from certeq.torch._checks import Dim, as_weights, check_losses, check_values, check_weights, normalize_dim
from certeq.torch._risks import solve_row
from certeq.torch._tensor import as_rows
from certeq.utilities import Risk, Utility
from certeq.utilities.forms import form

F = TypeVar("F", bound=Callable[..., Any])

_MAGIC = 0x6365727465710002  # tells a message from whatever else may be under way when ranks are out of step
_NUMBERS = 6 * 8
_TEXT = 336
INLINE = 8192 - _NUMBERS - _TEXT  # bytes of payload that ride along: a round costs the same with and without them
_ERRORS: tuple[type[Exception], ...] = (ValueError, TypeError, IndexError)
_PROBES = np.concatenate([-(2.0 ** np.arange(-10.0, 20.0)), np.linspace(-40.0, 40.0, 321), 2.0 ** np.arange(-10, 20.0)])


class Pooled(NamedTuple):
    """Losses and weights of all ranks, samples last, and where this rank's own lie among them."""

    losses: Tensor
    weight: Tensor | None
    own: slice


class Shard(NamedTuple):
    """This rank's losses and weights, samples last."""

    losses: Tensor
    weight: Tensor | None


def uncompiled(function: F) -> F:
    """Ranks communicate in the midst of it: it is left out of compiled code, what stands around it stays compiled."""
    return cast(F, torch.compiler.disable(function))  # type: ignore[no-untyped-call]


@uncompiled
def pool(
    losses: Tensor,
    utility: Risk,
    weight: Tensor | None,
    dim: Dim,
    allow_inf: bool,
    validate: bool,
    process_group: Any,
    asked: str,
) -> Pooled:
    """The shards of all ranks, one after the other; raises the same error on every rank where one has cause to.

    ``asked`` names the call, so that ranks that make different ones notice. Backward multiplies the gradient of this
    rank's losses and weights by the number of ranks, which the average over the ranks undoes.
    """
    if torch._C._are_functorch_transforms_active():  # refused for good: a transform would call the ranks out of step
        raise NotImplementedError(
            "process_group cannot be used inside a transform of torch.func: the ranks communicate in the midst of it. "
            "Transform the network and leave the loss outside."
        )
    ranks = Ranks(process_group)
    mine = Message({"call": asked})
    shard, text = None, ""
    try:
        shard = _shard(losses, weight, dim, allow_inf, validate)
        plain = form(utility).plain.utility if isinstance(utility, Utility) else utility
        text = re.sub(" at 0x[0-9a-fA-F]+", "", repr(plain))  # where a function is differs from rank to rank
        mine.digest = _digest(plain, text)
    except _ERRORS as error:
        mine.error = error  # the others are told, or they would wait for this rank until their timeout
    else:
        mine.question |= {
            "dtype": str(losses.dtype).removeprefix("torch."),
            "other dimensions": str(tuple(shard.losses.shape[:-1])),
            "allow_inf": str(allow_inf),
        }
        mine.samples, mine.weighted = shard.losses.shape[-1], shard.weight is not None
        mine.payload = _as_bytes(shard)
    mine.question["utility"] = text  # last: where not all of it fits the digest still is complete
    found = ranks.exchange(mine)
    _raise_errors(found, mine.error)
    _check_same_question(found)
    assert shard is not None  # or there was an error
    ranks.fetch(found, mine.payload)
    parts = [_from_bytes(one, shard.losses) for one in found]
    own = None if shard.weight is None else _for_average(shard.weight, ranks.count)
    parts[ranks.rank] = Shard(_for_average(shard.losses, ranks.count), own)
    every = torch.cat([part.losses for part in parts], dim=-1)
    if every.numel() == 0:
        raise ValueError("losses is empty on every rank: no OCE of no losses exists.")
    weights = None
    if any(one.weighted for one in found):  # a shard without losses may come without weights, and needs none
        weights = torch.cat([part.losses.double() if part.weight is None else part.weight for part in parts], dim=-1)
        if not bool((weights.detach().sum(-1) > 0).all()):
            raise ValueError("weight sums to 0 over all ranks; at least one sample must have a weight above 0.")
    start = sum(one.samples for one in found[: ranks.rank])
    return Pooled(every, weights, slice(start, start + shard.losses.shape[-1]))


def _shard(losses: Tensor, weight: Tensor | None, dim: Dim, allow_inf: bool, validate: bool) -> Shard:
    check_losses(losses, may_be_empty=True)
    dims = normalize_dim(dim, losses.ndim)
    if weight is None:
        if validate:
            check_values(losses, allow_inf)
        return Shard(as_rows(losses, dims), None)
    w = as_weights(weight, losses, dims)
    if validate:
        check_weights(w, None)  # not their sum: a shard may have none of the weight
        check_values(losses, allow_inf, w)
    return Shard(as_rows(losses, dims), as_rows(w, dims).double())


# -- agreement ---------------------------------------------------------------------------------------------------------


def _digest(plain: Risk, text: str) -> int:
    """63 bits that differ where utilities do: parameters to the last digit, functions by what they answer.

    Answers to nine digits, as libraries differ in the last; what is left of a difference of large numbers has fewer.
    """
    facts = form(plain).facts if isinstance(plain, Utility) else {}
    if "digest" not in facts:
        with np.errstate(all="ignore"):
            values = np.asarray(
                plain.value(_PROBES) if isinstance(plain, Utility) else solve_row(_PROBES, None, plain).tilt
            )
        values = np.where(np.abs(values) < 1e-7 * (1.0 + np.abs(_PROBES)), 0.0, values)
        answers = text + ",".join(f"{value:.9g}" for value in values)
        facts["digest"] = int.from_bytes(hashlib.blake2b(answers.encode(), digest_size=8).digest(), "little") >> 1
    return int(facts["digest"])


def _raise_errors(found: list[Message], own: Exception | None) -> None:
    bad = [(rank, one.error) for rank, one in enumerate(found) if one.error is not None]
    if not bad:
        return
    said = " ".join(f"Rank {rank} of {len(found)}: {error}" for rank, error in bad)
    raise type(bad[0][1])(said) from own


def _check_same_question(found: list[Message]) -> None:
    def refuse(what: str, answers: list[str]) -> None:
        listed = ", ".join(f"rank {rank} has {answer}" for rank, answer in enumerate(answers))
        raise ValueError(f"{what} must be the same on every rank of process_group; {listed}.")

    if len({one.digest for one in found}) > 1:
        names = [one.question["utility"] for one in found]
        if len(set(names)) == 1:  # functions of the same name that answer differently
            names = [f"{name}#{one.digest:016x}" for name, one in zip(names, found, strict=True)]
        refuse("utility", names)
    for what in found[0].question:
        answers = [one.question.get(what, "none") for one in found]
        if what != "utility" and len(set(answers)) > 1:
            refuse(what if what != "dtype" else "the dtype of losses", answers)
    if len({one.weighted for one in found if one.samples > 0}) > 1:
        answers = ["no losses" if one.samples == 0 else "weights" if one.weighted else "none" for one in found]
        refuse("weight, given or not,", answers)


# -- messages ----------------------------------------------------------------------------------------------------------


@dataclass
class Message:
    """What one rank tells the others: its question, the size of its shard, and a payload or an error."""

    question: dict[str, str]
    digest: int = 0
    samples: int = 0
    weighted: bool = False
    payload: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.uint8))
    error: Exception | None = None
    size: int = 0  # of the payload in bytes, also where it did not fit

    def pack(self) -> Tensor:
        """One row of bytes, of the same length on every rank."""
        row = np.zeros(_NUMBERS + _TEXT + INLINE, dtype=np.uint8)
        kind = 0
        if self.error is not None:
            kind = 1 + next(i for i, known in enumerate(_ERRORS) if isinstance(self.error, known))
        size = self.payload.numel()
        numbers = [_MAGIC, kind, self.digest, self.samples, int(self.weighted), size]
        row[:_NUMBERS] = np.array(numbers, dtype=np.int64).view(np.uint8)
        _write(row[_NUMBERS : _NUMBERS + _TEXT], "\n".join(f"{key}={text}" for key, text in self.question.items()))
        rest = row[_NUMBERS + _TEXT :]
        if self.error is not None:
            _write(rest, str(self.error))
        elif size <= INLINE:
            rest[:size] = self.payload.cpu().numpy()
        return torch.from_numpy(row)

    @classmethod
    def unpack(cls, row: Tensor) -> Message:
        """The message a rank sent; its payload is empty where it did not fit."""
        found = row.numpy()
        magic, kind, digest, samples, weighted, size = found[:_NUMBERS].view(np.int64).tolist()
        if magic != _MAGIC:
            raise RuntimeError(
                "the ranks of process_group are out of step: what arrived is not a message of this loss. Every rank "
                "must make the same calls in the same order, with an empty shard as well."
            )
        lines = _read(found[_NUMBERS : _NUMBERS + _TEXT]).split("\n")
        question = {key: text for key, _, text in (line.partition("=") for line in lines)}
        message = cls(question, digest, samples, bool(weighted), size=size)
        if kind:
            message.error = _ERRORS[kind - 1](_read(found[_NUMBERS + _TEXT :]))
        else:
            message.payload = row[_NUMBERS + _TEXT :][: size if size <= INLINE else 0]
        return message


def _write(bytes_: Any, text: str) -> None:
    raw = text.encode()
    if len(raw) > bytes_.size:
        raw = raw[: bytes_.size - 3].decode(errors="ignore").encode() + b"..."
    bytes_[: len(raw)] = np.frombuffer(raw, dtype=np.uint8)


def _read(bytes_: Any) -> str:
    return str(bytes_.tobytes().rstrip(b"\0").decode(errors="replace"))


def _as_bytes(shard: Shard) -> Tensor:
    """Every backend can send bytes, whatever the dtype."""
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


def _for_average(x: Tensor, count: int) -> Tensor:
    """x, whose gradient will be averaged over so many ranks that each have a part of it."""
    scaled: Tensor = _ForAverage.apply(x, count) if x.requires_grad else x  # type: ignore[no-untyped-call]
    return scaled


# -- the group --------------------------------------------------------------------------------------------------------


class Ranks:
    """A process group, asked politely: its failures say what happened and what to do."""

    def __init__(self, process_group: Any) -> None:
        self.group = _resolve(process_group)
        self.count: int = dist.get_world_size(self.group)
        self.rank: int = dist.get_rank(self.group)
        devices = {device.type for device in self.group._device_types}
        # The host has to read the messages; only a group that cannot carry host memory gets them on its device.
        self.device = torch.device("cpu" if "cpu" in devices or not devices else sorted(devices)[0])

    def exchange(self, message: Message) -> list[Message]:
        """Every rank's message, the same list on every rank; payloads that did not fit are to be fetched."""
        return [Message.unpack(row) for row in self.gather(message.pack())]

    def fetch(self, found: list[Message], payload: Tensor) -> None:
        """Complete the payloads, in a second round if any of them did not fit."""
        longest = max(one.size for one in found)
        if longest > INLINE:
            padded = torch.zeros(longest, dtype=torch.uint8)
            padded[: payload.numel()] = payload.cpu()
            for one, row in zip(found, self.gather(padded), strict=True):
                one.payload = row[: one.size]

    def gather(self, row: Tensor) -> list[Tensor]:
        """A tensor of the same shape from every rank, in host memory."""
        sent = row.to(self.device)
        parts = list(torch.empty((self.count, *row.shape), dtype=row.dtype, device=self.device).unbind(0))
        try:
            dist.all_gather(parts, sent, group=self.group)
            return [part.cpu() for part in parts]
        except RuntimeError as error:
            raise RuntimeError(
                f"a rank of process_group did not answer: rank {self.rank} of {self.count} waited for the losses of "
                f"the others, {self._timeout()}. A rank has ended, has stalled, or does not call the loss as often as "
                "the others do (each must, with an empty shard as well); its own log says which. "
                f"torch.distributed reported: {error}"
            ) from error

    def _timeout(self) -> str:
        try:
            seconds = self.group._get_backend(self.device).options._timeout.total_seconds()
        except (AttributeError, RuntimeError):  # a backend that does not tell
            return "at most for the group's timeout"
        return f"at most for the group's timeout of {seconds:g} s"


def check_process_group(process_group: object) -> None:
    """None, "world" or a ProcessGroup, as far as can be seen before the group is used."""
    if process_group is None or process_group == "world":
        return
    if dist.is_available() and process_group is dist.GroupMember.NON_GROUP_MEMBER:  # what new_group gives outsiders
        raise RuntimeError("process_group does not contain this process; only its members may call the loss.")
    if not dist.is_available() or not isinstance(process_group, dist.ProcessGroup):
        raise TypeError(
            'process_group must be None, "world" or a torch.distributed ProcessGroup; '
            f"found {type(process_group).__name__} {process_group!r}."
        )


def _resolve(process_group: Any) -> Any:
    check_process_group(process_group)
    if not dist.is_available():
        raise RuntimeError("process_group needs torch.distributed, which this build of PyTorch does not have.")
    if not dist.is_initialized():
        raise RuntimeError(
            "process_group was given but torch.distributed is not initialized. Call "
            "torch.distributed.init_process_group first, in a script started by torchrun for instance; a single "
            "process needs no process_group."
        )
    group = dist.group.WORLD if process_group == "world" else process_group
    try:
        member = dist.get_rank(group) >= 0
    except (RuntimeError, ValueError) as error:
        raise RuntimeError(f"process_group is not known to torch.distributed; was it destroyed? ({error})") from error
    if not member:
        raise RuntimeError("process_group does not contain this process; only its members may call the loss.")
    return group

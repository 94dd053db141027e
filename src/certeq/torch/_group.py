"""The ranks of a process group: which group is meant, and one message to and from every rank of it.

A message always has the same length, so that one round of talk is enough to learn the sizes of all shards, whether
every rank was asked the same question, and what went wrong on which rank. A short payload travels along with it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

_MAGIC = 0x6365727465710001  # tells a message from whatever else may be under way when ranks are out of step
_NUMBERS = 8 * 8
_TEXT = 320
INLINE = 8192 - _NUMBERS - _TEXT  # bytes of payload that ride along: a round costs the same with and without them
_KINDS: tuple[type[Exception], ...] = (ValueError, TypeError, IndexError)


@dataclass
class Message:
    """What one rank tells the others: its question, the size of its shard, and a payload or a complaint."""

    question: dict[str, str]
    fingerprint: int = 0
    samples: int = 0
    weighted: bool = False
    summable: bool = False
    payload: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.uint8))
    complaint: Exception | None = None

    def pack(self) -> Tensor:
        """One row of bytes, of the same length on every rank."""
        row = np.zeros(_NUMBERS + _TEXT + INLINE, dtype=np.uint8)
        kind = 0
        if self.complaint is not None:
            kind = 1 + next(i for i, known in enumerate(_KINDS) if isinstance(self.complaint, known))
        size = self.payload.numel()
        numbers = [_MAGIC, kind, self.fingerprint, self.samples, int(self.weighted), size, int(self.summable), 0]
        row[:_NUMBERS] = np.array(numbers, dtype=np.int64).view(np.uint8)
        _write(row[_NUMBERS : _NUMBERS + _TEXT], "\n".join(f"{key}={text}" for key, text in self.question.items()))
        rest = row[_NUMBERS + _TEXT :]
        if self.complaint is not None:
            _write(rest, str(self.complaint))
        elif size <= INLINE:
            rest[:size] = self.payload.cpu().numpy()
        return torch.from_numpy(row)

    @classmethod
    def unpack(cls, row: Tensor) -> Message:
        """The message a rank sent; its payload is empty where it did not fit."""
        found = row.numpy()
        numbers = found[:_NUMBERS].view(np.int64).tolist()
        if numbers[0] != _MAGIC:
            raise RuntimeError(
                "the ranks of process_group are out of step: what arrived is not a message of this loss. Every rank "
                "must make the same calls in the same order, with an empty shard as well."
            )
        _, kind, fingerprint, samples, weighted, size, summable, _ = numbers
        lines = _read(found[_NUMBERS : _NUMBERS + _TEXT]).split("\n")
        question = {key: text for key, _, text in (line.partition("=") for line in lines)}
        rest = found[_NUMBERS + _TEXT :]
        message = cls(question, fingerprint, samples, bool(weighted), bool(summable))
        if kind:
            message.complaint = _KINDS[kind - 1](_read(rest))
        else:
            message.payload = row[_NUMBERS + _TEXT :][: size if size <= INLINE else 0]
        message.size = size
        return message

    size: int = 0  # of the payload in bytes, also where it did not fit


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


def _write(place: Any, text: str) -> None:
    raw = text.encode()
    if len(raw) > place.size:
        raw = raw[: place.size - 3].decode(errors="ignore").encode() + b"..."
    place[: len(raw)] = np.frombuffer(raw, dtype=np.uint8)


def _read(place: Any) -> str:
    return str(place.tobytes().rstrip(b"\0").decode(errors="replace"))

"""Where batches come from: an array, a sampler, or an endless iterator. Memory for one batch is all a stream needs."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

import numpy as np

from certeq.optimize.losses import Loss
from certeq.optimize.losses._base import Floats, count_samples, join_samples, take_samples
from certeq.optimize.sg._checkpoint import Damaged, is_count
from certeq.optimize.sg._importance import ImportanceOdds
from certeq.optimize.sg._schedules import FULL

_HEAD = 8
Sampler = Callable[[np.random.Generator, int], Any]


class Source(ABC):
    """Batches of samples, and the state from which the next ones follow."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.weights: Floats | None = None  # of the samples of the last batch, summing to 1; None for equal weights

    @abstractmethod
    def draw(self, m: int) -> tuple[Any, int]:
        """Return the next batch and its size; ``m`` of FULL means all samples."""

    def state(self) -> dict[str, Any]:
        """Return what a resumed run needs, as plain JSON values."""
        return {"rng": json.loads(json.dumps(self.rng.bit_generator.state, default=_plain))}

    def restore(self, state: dict[str, Any]) -> None:
        """Put back what `state` returned, as it was found in a checkpoint."""
        here, saved = self.rng.bit_generator, state.get("rng")
        name = here.state["bit_generator"]
        found = saved.get("bit_generator") if isinstance(saved, dict) else None
        if not isinstance(saved, dict) or not isinstance(found, str):
            raise Damaged("the state of its generator is missing")
        if found != name:
            raise ValueError(f"rng must be of the kind the checkpoint was made with, {found:.40}; found {name}.")
        before = here.state
        try:
            _check_position(saved)
            here.state = saved
            if json.loads(json.dumps(here.state, default=_plain)) != saved:
                raise ValueError("it is not a state of such a generator")
        except Exception as error:  # NumPy meets what is wrong in its own ways
            here.state = before
            raise Damaged(f"the state of its generator is damaged ({error or type(error).__name__})") from error


def _check_position(state: dict[str, Any]) -> None:
    """Refuse a position outside the buffer of a generator, which NumPy would believe and read there."""
    for inside in (state, state.get("state")):
        for name, last in (("pos", 624), ("buffer_pos", 4)):
            at = inside.get(name, 0) if isinstance(inside, dict) else 0
            if isinstance(at, bool) or not isinstance(at, int) or not 0 <= at <= last:
                raise ValueError(f"{name} is {at!r:.40}")


def _plain(value: Any) -> Any:
    return value.tolist()


class ArraySource(Source):
    """Batches from a fixed set of samples; a batch as large as the set is the set itself, in order."""

    def __init__(self, samples: Any, rng: np.random.Generator, replace: bool, weights: Floats | None) -> None:
        super().__init__(rng)
        self.samples, self.size, self.replace = samples, count_samples(samples), replace
        self.cumulative = None if weights is None else np.cumsum(weights)
        self.importance: ImportanceOdds | None = None  # other odds, where passes tell which samples carry the risk

    def draw(self, m: int) -> tuple[Any, int]:
        """Return m samples, drawn independently or as a set without repetition."""
        self.weights = None
        if m == FULL or m >= self.size:
            return self.samples, self.size
        if self.importance is not None and self.importance.needed:
            index, self.weights = self.importance.draw(self.rng, m)
        elif not self.replace:
            if self.cumulative is not None:
                raise ValueError("weights need batches drawn with replacement (replace=True), or batch='full'.")
            index = self.rng.choice(self.size, m, replace=False, shuffle=False)
        elif self.cumulative is None:
            index = self.rng.integers(0, self.size, m)
        else:
            index = np.searchsorted(self.cumulative, self.rng.random(m) * self.cumulative[-1], side="right")
            index = np.minimum(index, self.size - 1)
        return take_samples(self.samples, index), m


class SamplerSource(Source):
    """Batches from a function f(rng, m) that returns m fresh samples."""

    def __init__(self, sampler: Sampler, loss: Loss, rng: np.random.Generator) -> None:
        super().__init__(rng)
        self.sampler, self.loss = sampler, loss

    def draw(self, m: int) -> tuple[Any, int]:
        """Return what the sampler gives, checked."""
        _refuse_full(m, "a sampler")
        batch = self.sampler(self.rng, m)
        found = count_samples(batch, "what the sampler returned")
        if found != m:
            what = "an empty batch" if found == 0 else f"{found} samples"
            raise ValueError(f"the sampler was asked for {m} samples and returned {what}.")
        try:
            return self.loss.check_samples(batch), m
        except ValueError as error:  # it speaks of A or X, which the caller has not passed
            raise ValueError(f"what the sampler returned does not do: {error}") from None


class IteratorSource(Source):
    """Batches cut from an endless iterator of chunks; a chunk is an array, or a tuple of arrays, of any length.

    What is left of a chunk opens the next batch. A run is resumed with an iterator that gives the same chunks from
    the beginning: those already used are passed over.
    """

    def __init__(self, iterator: Iterator[Any], loss: Loss, rng: np.random.Generator) -> None:
        super().__init__(rng)
        self.iterator, self.loss = iterator, loss
        self.used = 0
        self.rest: Any = None
        self.head: Any = None  # the first few samples, by which a checkpoint knows the stream

    def draw(self, m: int) -> tuple[Any, int]:
        """Return the next m samples of the stream."""
        _refuse_full(m, "an iterator")
        batch = self._cut(m)
        if self.used == 0:
            self.head = deepcopy(take_samples(batch, slice(0, _HEAD)))
        self.used += m
        return self.loss.check_samples(batch), m

    def _cut(self, m: int) -> Any:
        chunks: list[Any] = []
        missing = m
        while missing > 0:
            chunk = self._chunk() if self.rest is None else self.rest
            size = count_samples(chunk, "a chunk of the iterator")
            self.rest = take_samples(chunk, slice(missing, None)) if size > missing else None
            chunks.append(take_samples(chunk, slice(0, missing)) if size > missing else chunk)
            missing -= size
        return join_samples(chunks)

    def _chunk(self) -> Any:
        try:
            chunk = next(self.iterator)
        except StopIteration:
            raise ValueError(
                f"samples ended after {self.used} used samples; the iterator must be endless. Use itertools.cycle, "
                "or pass the samples as an array."
            ) from None
        if count_samples(chunk, "a chunk of the iterator") == 0:
            raise ValueError("the iterator gave an empty chunk; each must hold at least one sample.")
        return deepcopy(chunk)  # an iterator may fill one and the same array again, while parts of it still wait here

    def state(self) -> dict[str, Any]:
        """Return the generator's state, how many samples were used, and how many of them are the head."""
        return super().state() | {"used": self.used, "head": 0 if self.head is None else count_samples(self.head)}

    def restore(self, state: dict[str, Any]) -> None:
        """Pass over the samples that were used; the first of them are kept, to be compared."""
        used, head = state.get("used"), state.get("head")
        if not (is_count(used) and is_count(head) and head <= min(used, _HEAD)):
            raise Damaged(f"it cannot have used {used!r:.40} samples")
        super().restore(state)
        self.head, self.used = self._cut(head), head
        while self.used < used:
            chunk = self._chunk() if self.rest is None else self.rest
            size, left = count_samples(chunk), used - self.used
            self.rest = take_samples(chunk, slice(left, None)) if size > left else None
            self.used += min(size, left)


def _refuse_full(m: int, what: str) -> None:
    if m == FULL:
        raise ValueError(f"batch='full' needs a fixed set of samples; {what} has no last one. Give a batch size.")


def make_source(samples: Any, loss: Loss, rng: np.random.Generator, replace: bool, weights: Floats | None) -> Source:
    """Return the source for whatever ``samples`` is; None means the samples the loss holds."""
    if samples is None:
        samples = loss.samples
        if samples is None:
            raise ValueError(f"samples is missing: {loss!r} holds none. Pass an array, a sampler or an iterator.")
        return ArraySource(samples, rng, replace, weights)
    stream = callable(samples) or hasattr(samples, "__next__")
    if stream and weights is not None:
        raise ValueError("weights belong to a fixed set of samples; a sampler or an iterator cannot have them.")
    if callable(samples):
        return SamplerSource(samples, loss, rng)
    if hasattr(samples, "__next__"):
        return IteratorSource(samples, loss, rng)
    return ArraySource(loss.check_samples(samples), rng, replace, weights)

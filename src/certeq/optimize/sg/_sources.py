"""Where batches come from: an array, a sampler, or an endless iterator. Memory for one batch is all a stream needs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

import numpy as np

from certeq.optimize.losses import Loss
from certeq.optimize.losses._base import Floats, count_samples, join_samples, take_samples
from certeq.optimize.sg._importance import ImportanceOdds
from certeq.optimize.sg._schedules import FULL

Sampler = Callable[[np.random.Generator, int], Any]


class Source(ABC):
    """Source of batches; the generator is the only state that a checkpoint stores, beside the samples used."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.weights: Floats | None = None  # of the samples of the last batch, summing to 1; None for equal weights

    @abstractmethod
    def draw(self, m: int) -> tuple[Any, int]:
        """Return the next batch and its size; ``m`` of FULL means all samples."""


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

    def draw(self, m: int) -> tuple[Any, int]:
        """Return the next m samples of the stream."""
        _refuse_full(m, "an iterator")
        batch = self._cut(m)
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

    def skip(self, count: int) -> None:
        """Pass over the first ``count`` samples of the stream, which an interrupted run has used."""
        while self.used < count:
            chunk = self._chunk()
            size, left = count_samples(chunk), count - self.used
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

"""Batches that grow: m_k = k, so that the bias of an OCE gradient falls as the iterates settle."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sized

import torch
from torch.utils.data import Sampler

from certeq._checks import check_count


class GrowingBatchSampler(Sampler[list[int]]):
    r"""Batches of size :math:`m_k` drawn with replacement, for ``DataLoader(batch_sampler=...)``.

    Parameters
    ----------
    data : Sized
        The data set, of which only the length is used.
    steps : int
        How many batches.
    size : callable, optional
        Batch size at step k = 1, 2, ...; ``k`` itself by default, as in the paper. ``lambda k: max(k, 64)`` skips the
        first batches, which are risk neutral: the OCE of one sample is that sample.
    largest : int, optional
        A cap on the batch size; the length of the data by default, where a larger batch would only repeat samples.
    generator : torch.Generator, optional
        Source of randomness; the same seed gives the same batches.

    Notes
    -----
    Not for training by epochs: it draws with replacement, and no sample is sure to be seen. Not for long runs on large
    data either, where a constant batch with `MemoryOCELoss` costs less.

    Examples
    --------
    >>> from certeq.torch import GrowingBatchSampler
    >>> [len(batch) for batch in GrowingBatchSampler(range(4), steps=6)]
    [1, 2, 3, 4, 4, 4]
    """

    def __init__(
        self,
        data: Sized,
        steps: int,
        size: Callable[[int], int] | None = None,
        largest: int | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        if len(data) == 0:
            raise ValueError("data is empty: no batch can be drawn from it.")
        self.data = data
        self.steps = check_count("steps", steps)
        self.size = size
        self.largest = None if largest is None else check_count("largest", largest)
        self.generator = generator

    def batch_size(self, k: int) -> int:
        """m_k, for k = 1, 2, ..."""
        wanted = k if self.size is None else int(self.size(k))
        if wanted < 1:
            raise ValueError(f"size must give at least 1 sample; it gave {wanted} at step {k}.")
        return min(wanted, len(self.data) if self.largest is None else self.largest)

    def __iter__(self) -> Iterator[list[int]]:
        for k in range(1, self.steps + 1):
            yield torch.randint(len(self.data), (self.batch_size(k),), generator=self.generator).tolist()

    def __len__(self) -> int:
        return self.steps

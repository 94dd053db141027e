"""The pieces of a network: layers, a criterion that takes sample weights, batches. skorch does the training."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from certeq.learn._checks import check_choice, check_count
from certeq.torch import OCELoss
from certeq.utilities import Utility

ACTIVATIONS: dict[str, type[nn.Module]] = {
    "elu": nn.ELU,
    "gelu": nn.GELU,
    "identity": nn.Identity,
    "relu": nn.ReLU,
    "sigmoid": nn.Sigmoid,
    "silu": nn.SiLU,
    "softplus": nn.Softplus,
    "tanh": nn.Tanh,
}


class Perceptron(nn.Sequential):
    """Linear layers with an activation between them, initialised as PyTorch does by default."""

    def __init__(self, inputs: int, outputs: int, hidden_sizes: tuple[int, ...], activation: str) -> None:
        layers: list[nn.Module] = []
        for size in hidden_sizes:
            layers += [nn.Linear(inputs, size), ACTIVATIONS[activation]()]
            inputs = size
        super().__init__(*layers, nn.Linear(inputs, outputs))


class PackedRisk(nn.Module):
    """OCE of ``base(output, y)`` under sample weights; y and the weights come packed in the columns of one target."""

    def __init__(self, utility: Utility, base: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.base = base
        self.risk = OCELoss(utility, validate=False)

    def forward(self, output: Tensor, packed: Tensor) -> Tensor:
        """Return OCE of the batch."""
        losses = self.base(output, packed[:, 0])
        if not bool(torch.isfinite(losses).all()):
            raise ValueError(
                "Training has diverged: a loss is no longer finite. Standardise the features (and a real target), or "
                "lower learning_rate."
            )
        found: Tensor = self.risk(losses, weight=packed[:, 1])
        return found


def one_output(base: nn.Module) -> Callable[[Tensor, Tensor], Tensor]:
    """Return base for networks with a single output, whose column it drops."""
    return _OneOutput(base)


class _OneOutput(nn.Module):
    def __init__(self, base: nn.Module) -> None:
        super().__init__()
        self.base = base

    def forward(self, output: Tensor, y: Tensor) -> Tensor:
        found: Tensor = self.base(output[:, 0], y)
        return found


class ClassEntropy(nn.Module):
    """Cross-entropy of each sample; labels come as floats."""

    def forward(self, output: Tensor, y: Tensor) -> Tensor:
        """Return -ln p_y."""
        return nn.functional.cross_entropy(output, y.long(), reduction="none")


class Batches:
    """Batches of a data set, shuffled anew each time round; whole batches are indexed at once, not row by row."""

    def __init__(self, dataset: Any, batch_size: int, shuffle: bool = False) -> None:
        self.X = torch.as_tensor(np.asarray(dataset.X))
        # A data set without targets is one to predict; skorch wants something in their place.
        self.y = torch.zeros(len(self.X)) if dataset.y is None else torch.as_tensor(np.asarray(dataset.y))
        self.batch_size, self.shuffle = batch_size, shuffle

    def __len__(self) -> int:
        return -(-len(self.X) // self.batch_size)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        order = torch.randperm(len(self.X)) if self.shuffle else None
        for start in range(0, len(self.X), self.batch_size):
            part: Any = slice(start, start + self.batch_size)
            if order is not None:
                part = order[part]
            yield self.X[part], self.y[part]


def check_hidden_sizes(hidden_sizes: Any) -> tuple[int, ...]:
    """Whole numbers above 0; none for a linear model."""
    if isinstance(hidden_sizes, (str, bytes)) or not hasattr(hidden_sizes, "__iter__"):
        raise TypeError(f"hidden_sizes must be a tuple such as (32, 16); found {hidden_sizes!r}.")
    return tuple(check_count("hidden_sizes", size) for size in hidden_sizes)


def check_activation(activation: Any) -> str:
    """One of the known activations."""
    return check_choice("activation", activation, ACTIVATIONS)

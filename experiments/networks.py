"""Small networks in plain PyTorch: perceptrons, many of them side by side, and their random numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

torch.set_num_threads(1)  # sums in one order, whatever the number of cores

ACTIVATIONS: dict[str, type[nn.Module]] = {"tanh": nn.Tanh, "relu": nn.ReLU}


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Draw PyTorch's random numbers from this seed, and restore its generator afterwards."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def perceptron(sizes: Sequence[int], activation: str = "tanh") -> nn.Sequential:
    """Return linear layers of these widths with an activation between them, initialized as PyTorch does by default."""
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(sizes):
        layers += [nn.Linear(inputs, outputs), ACTIVATIONS[activation]()]
    return nn.Sequential(*layers[:-1])


class Stack(nn.Module):
    """Perceptrons of equal sizes, evaluated together: they share each matrix product and no number."""

    def __init__(self, networks: Sequence[nn.Sequential]) -> None:
        super().__init__()
        layers: list[Any] = list(zip(*networks, strict=True))
        linear = [copies for copies in layers if isinstance(copies[0], nn.Linear)]
        self.weights = nn.ParameterList(torch.stack([layer.weight.detach().T for layer in copies]) for copies in linear)
        self.biases = nn.ParameterList(
            torch.stack([layer.bias.detach()[None] for layer in copies]) for copies in linear
        )
        self.activation = networks[0][1]

    def forward(self, inputs: Tensor) -> Tensor:
        """Return outputs (networks, samples, outputs) for inputs (networks, samples, features)."""
        output = inputs
        for index, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            output = torch.baddbmm(bias, output if index == 0 else self.activation(output), weight)
        return output

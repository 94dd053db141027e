"""The networks of the calibration table, trained as the notebooks of the benchmarks' library do, draw by draw.

All models share one loop and one stream of random numbers, that of Lightning after ``seed_everything(seed)``: so the
benchmarks meet the printed digits at seed 0, and what is told over seeds is told of the very same recipe.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

import certeq as ce

Floats = NDArray[np.float64]
DATA = 42  # the seed of the paper's data set


@dataclass(frozen=True)
class Recipe:
    """How a model is trained; ``beta`` None is the mean, ``batch`` None all points at once."""

    beta: float | None = None
    hidden: tuple[int, ...] = (50, 50, 50)
    members: int = 1
    rate: float = 1e-3
    epochs: int = 250
    burn_in: int = 5
    batch: int | None = 100
    validates: bool = True


def budget(beta: float | None = None, burn_in: int = 5) -> Recipe:
    """What the paper says of its own model: 1000 epochs of full batches at a rate of 0.03; beta is not stated."""
    return Recipe(beta, rate=0.03, epochs=1000, burn_in=burn_in, batch=None)


MODELS = {
    "Deep ensembles": Recipe(hidden=(50, 50), members=5, rate=1e-2, epochs=150, burn_in=20, validates=False),
    "MVE": Recipe(),
    "OCE, beta 0.1, recipe of MVE": Recipe(0.1),
    "OCE, beta 0.5, recipe of MVE": Recipe(0.5),
    "MVE, paper's budget": budget(),
    "OCE, beta 0.1, paper's budget": budget(0.1),
    "OCE, beta 0.1, paper's budget, no burn-in": budget(0.1, burn_in=0),
    "OCE, beta 0.5, paper's budget": budget(0.5),
    "OCE, beta 1, paper's budget": budget(1.0),
}


def train(model: str, seed: int, data: int, shorten: int, fresh: int, band: bool = False) -> dict[str, list[float]]:
    """MACE, RMSCE and MA on the 50 test points and on fresh ones; {} if training diverged.

    ``shorten`` divides the epochs; ``band`` adds mean and deviation on a grid.
    """
    from certeq.learn import calibration, toy_heteroscedastic

    sample = toy_heteroscedastic(random_state=data)
    X, y = sample.draw(fresh, random_state=10_000 + data)
    inputs = {"test": sample.X_test, "fresh": X, "grid": grid(sample)}
    found = _predictions(MODELS[model], seed, shorten, sample, inputs)
    if found is None:
        return {}
    answer = {}
    for name, targets in (("test", sample.y_test), ("fresh", y)):
        scores = calibration(targets, *found[name])
        answer[name] = [scores.mace, scores.rmsce, scores.ma]
    if band:
        mean, deviation = found["grid"]
        answer |= {"mean": mean.tolist(), "deviation": deviation.tolist()}
    return answer


def truth(data: int, fresh: int) -> dict[str, list[float]]:
    """What the true mean and deviation score."""
    from certeq.learn import calibration, toy_heteroscedastic

    sample = toy_heteroscedastic(random_state=data)
    parts = {"test": (sample.X_test, sample.y_test), "fresh": sample.draw(fresh, random_state=10_000 + data)}
    found = {name: calibration(y, *sample.truth(X)) for name, (X, y) in parts.items()}
    return {name: [c.mace, c.rmsce, c.ma] for name, c in found.items()}


def grid(sample: Any) -> Floats:
    """Where the bands are drawn."""
    return np.linspace(sample.X_train.min() - 0.2, sample.X_train.max() + 0.2, 200)[:, None]


def _predictions(
    recipe: Recipe, seed: int, shorten: int, sample: Any, inputs: dict[str, Floats]
) -> dict[str, tuple[Floats, Floats]] | None:
    """Mean and deviation at the inputs; None if a loss or a prediction is no longer finite."""
    import torch
    from torch import nn

    from certeq.learn import GaussianNLL
    from certeq.torch import oce

    utility = ce.Mean() if recipe.beta is None else ce.Entropic(recipe.beta)
    nll = GaussianNLL()
    X, y = (torch.tensor(part, dtype=torch.float32) for part in (sample.X_train, sample.y_train))
    points = {name: torch.tensor(part, dtype=torch.float32) for name, part in inputs.items()}
    outputs: dict[str, list[Floats]] = {name: [] for name in inputs}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for _ in range(recipe.members):
            layers = [part for a, b in pairwise((1, *recipe.hidden)) for part in (nn.Linear(a, b), nn.Tanh())]
            net = nn.Sequential(*layers, nn.Linear(recipe.hidden[-1], 2))
            adam = torch.optim.Adam(net.parameters(), lr=recipe.rate)
            for epoch in range(recipe.epochs // shorten):
                for batch in _loader_order(len(y)).split(recipe.batch or len(y)):
                    adam.zero_grad()
                    output = net(X[batch])
                    if epoch < recipe.burn_in:
                        loss: Any = torch.square(output[:, 0] - y[batch]).mean()
                    else:
                        losses = nll(output, y[batch])
                        if not bool(torch.isfinite(losses).all()):
                            return None
                        loss = losses.mean() if recipe.beta is None else oce(losses, utility)
                    loss.backward()
                    adam.step()
                if recipe.validates:
                    _whole_number()
            with torch.no_grad():
                for name, part in points.items():
                    outputs[name].append(net(part).double().numpy())
    with np.errstate(over="ignore"):
        found = {name: _mixture(np.array(parts)) for name, parts in outputs.items()}
    return found if all(np.isfinite(part).all() for pair in found.values() for part in pair) else None


def _whole_number() -> int:
    import torch

    return int(torch.empty((), dtype=torch.int64).random_())


def _loader_order(n: int) -> Any:
    """The permutation a shuffling ``torch.utils.data.DataLoader`` would take next, from the same draws.

    It draws two whole numbers an epoch, one for its workers and one to seed the permutation; a validation loop (on for
    MVE, off for the ensemble) draws one more.
    """
    import torch

    _whole_number()
    return torch.randperm(n, generator=torch.Generator().manual_seed(_whole_number()))


def _mixture(outputs: Floats) -> tuple[Floats, Floats]:
    """Mean and deviation of the mixture of Gaussians; outputs are (members, n, mean and log-variance)."""
    means, variances = outputs[:, :, 0], 1e-6 + np.exp(outputs[:, :, 1])
    return means.mean(axis=0), np.sqrt(variances.mean(axis=0) + means.var(axis=0))

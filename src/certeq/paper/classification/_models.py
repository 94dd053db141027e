"""The models: deterministic benchmarks, and a stack of small networks trained side by side under an OCE loss."""

from __future__ import annotations

import warnings
from itertools import pairwise
from typing import Any

import numpy as np

import certeq as ce
from certeq.paper.classification._data import NEUTRAL, SPLIT, score, split
from certeq.utilities import Utility

BATCH, STEP, HIDDEN = 64, 3e-3, (32, 16)
LOSSES: dict[str, Utility] = {
    NEUTRAL: ce.Mean(),
    "Entropic": ce.Entropic(0.5),
    "CVaR": ce.CVaR(0.1),
    "L-CVaR": ce.LeakyCVaR(0.1),
    "S-CVaR": ce.SmoothCVaR(0.1),
    "MMV": ce.MonotoneMeanVariance(2),
    "Quartic": ce.Quartic(),
}


def benchmark(data: str, model: str, state: int = SPLIT) -> list[float]:
    """The four figures of a deterministic benchmark, on the paper's split or another."""
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.svm import SVC

    X, X_test, y, y_test = split(data, state)
    models: dict[str, Any] = {
        "Logistic regression": lambda: LogisticRegression(solver="liblinear"),
        "SVC": lambda: SVC(probability=True, random_state=SPLIT),
        "Random forest": lambda: RandomForestClassifier(random_state=SPLIT),
    }
    with warnings.catch_warnings():  # newer versions advise against SVC's own probabilities; the printed row is of them
        warnings.filterwarnings("ignore", "The `probability` parameter", FutureWarning)
        chosen = models[model]().fit(X, y)
    # SVC's labels come from its margin, not from its (separately fitted) probabilities.
    return score(y_test, chosen.predict_proba(X_test)[:, 1], chosen.predict(X_test))


def train(
    data: str, loss: str, activation: str, pairs: list[list[int]], epochs: int, marks: list[int]
) -> list[list[list[float]]]:
    """Train one network per (split, seed), all side by side; their test scores after each of the marked epochs.

    Each is what ``OCENetworkClassifier(LOSSES[loss], activation=activation, random_state=seed)`` trains, up to
    rounding: the networks of a stack share every matrix product and no number.
    """
    import torch

    from certeq.torch import oce

    parts = [split(data, state) for state, _ in pairs]
    X, X_test = (torch.tensor(np.array([part[i] for part in parts]), dtype=torch.float32) for i in (0, 1))
    y = torch.tensor(np.array([part[2] for part in parts]), dtype=torch.float32)
    n, sizes = X.shape[1], (X.shape[2], *HIDDEN, 1)
    started = [_start(seed, sizes, n, epochs) for _, seed in pairs]
    weights = [torch.stack(layer).requires_grad_() for layer in zip(*(layers for layers, _ in started), strict=True)]
    orders: Any = torch.stack([order for _, order in started])  # (networks, epochs, n)
    bend = {"tanh": torch.tanh, "relu": torch.relu}[activation]
    adam, rows = torch.optim.Adam(weights, lr=STEP), torch.arange(len(pairs))[:, None]

    def logits(inputs: Any) -> Any:
        for k in range(0, len(weights), 2):
            inputs = torch.baddbmm(weights[k + 1], inputs if k == 0 else bend(inputs), weights[k])
        return inputs[:, :, 0]

    found = []
    for epoch in range(epochs):
        for batch in orders[:, epoch].split(BATCH, dim=1):
            adam.zero_grad()
            losses = torch.nn.functional.binary_cross_entropy_with_logits(
                logits(X[rows, batch]), y[rows, batch], reduction="none"
            )
            total: Any = oce(losses, LOSSES[loss], dim=1).sum()
            total.backward()
            adam.step()
        if epoch + 1 in marks:
            with torch.no_grad():
                p = torch.sigmoid(logits(X_test).double()).numpy()
            found.append([score(part[3], p[k]) for k, part in enumerate(parts)])
    return [[scores[k] for scores in found] for k in range(len(pairs))]


def _start(seed: int, sizes: tuple[int, ...], n: int, epochs: int) -> tuple[list[Any], Any]:
    """Initial weights and the order of samples in each epoch, drawn as the estimators of `certeq.learn` do."""
    import torch
    from sklearn.utils import check_random_state

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(check_random_state(seed).randint(2**31 - 1)))
        layers = [torch.nn.Linear(a, b) for a, b in pairwise(sizes)]
        orders = torch.stack([torch.randperm(n) for _ in range(epochs)])
    tensors = [part for one in layers for part in (one.weight.detach().T.contiguous(), one.bias.detach()[None])]
    return tensors, orders

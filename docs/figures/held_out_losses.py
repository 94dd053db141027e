"""Held-out losses of two models, trained on the mean and on an entropic risk: the picture of the start page.

``python docs/figures/held_out_losses.py`` writes docs/_static/held_out_losses.png.
"""

from __future__ import annotations

from pathlib import Path

import look
import matplotlib.pyplot as plt
import numpy as np
import torch

import certeq as ce
from certeq.torch import OCELoss

STATIC = Path(__file__).resolve().parents[1] / "_static"


def held_out() -> dict[str, np.ndarray]:
    """Cross-entropies of 20,000 new samples, as docs/start/ml.rst trains."""
    torch.manual_seed(0)
    y, rare = torch.randint(2, (22_000, 1)), torch.rand(22_000, 1) < 1 / 16
    center = torch.where(rare, torch.tensor([0.4, 1.6]), torch.tensor([1.0, -1.0]))
    x = (2 * y - 1) * center + 0.6 * torch.randn(22_000, 2)
    each = torch.nn.CrossEntropyLoss(reduction="none")
    found = {}
    criteria = {"mean": torch.nn.CrossEntropyLoss(), "entropic risk": OCELoss(ce.Entropic(beta=1.5), base=each)}
    for name, criterion in criteria.items():
        model = torch.nn.Linear(2, 2)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
        for _ in range(300):
            optimizer.zero_grad()
            criterion(model(x[:2000]), y[:2000, 0]).backward()
            optimizer.step()
        found[name] = each(model(x[2000:]), y[2000:, 0]).detach().numpy()
    return found


if __name__ == "__main__":
    look.style()
    figure, axis = plt.subplots(figsize=(7.2, 3.8), layout="constrained")
    for (name, losses), color in zip(held_out().items(), (look.MUTED, "#0072b2"), strict=True):
        share = 100 * (1.0 - (np.arange(losses.size) + 0.5) / losses.size)
        worst = ce.oce(losses, ce.CVaR(0.05))
        label = f"trained on the {name}: mean {losses.mean():.2f}, worst 5 % {worst:.2f}"
        axis.plot(share, np.sort(losses), color=color, lw=2.4, label=label)
    axis.set(xscale="log", xlim=(100, 0.05), ylim=(0, 7), ylabel="held-out cross-entropy")
    axis.set_xticks([100, 10, 5, 1, 0.1], ["100", "10", "5", "1", "0.1"])
    axis.set_xlabel("the worst ... % of new samples")
    axis.minorticks_off()
    axis.legend(loc="upper left")
    figure.savefig(STATIC / "held_out_losses.png", dpi=110)

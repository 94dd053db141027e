"""Tail risk and return of held-out days in a walk-forward, for equal weights and five risk measures."""

from __future__ import annotations

import look
import matplotlib.pyplot as plt
from skfolio.datasets import load_sp500_dataset
from skfolio.model_selection import WalkForward, cross_val_predict
from skfolio.optimization import EqualWeighted
from skfolio.preprocessing import prices_to_returns

import certeq as ce
from certeq.portfolio import MinimumOCE, portfolio_oce

MODELS = {
    "equal weights": EqualWeighted(),
    "CVaR(0.05)": MinimumOCE(ce.CVaR(0.05)),
    "Entropic(30)": MinimumOCE(ce.Entropic(beta=30.0)),
    "MeanVariance(15)": MinimumOCE(ce.MeanVariance(beta=15.0)),
    "EVaR(0.05)": MinimumOCE(ce.EVaR(0.05)),
    "CVaR(0.05), at most 10 % each": MinimumOCE(ce.CVaR(0.05), max_weights=0.1),
}
returns = prices_to_returns(load_sp500_dataset()).loc["2005":]
look.style()
figure, axis = plt.subplots(figsize=(8.2, 4.4), layout="constrained")
for name, model in MODELS.items():
    path = cross_val_predict(model, returns, cv=WalkForward(train_size=504, test_size=126))
    risk, gain = 100 * portfolio_oce(path, ce.CVaR(0.05)), 100 * 252 * path.mean
    color = look.MUTED if name == "equal weights" else look.BLUE
    axis.plot(risk, gain, "o", ms=9, color=color)
    right, down = risk > 3.0, name.startswith("MeanVariance")
    axis.annotate(
        name,
        (risk, gain),
        (-9 if right else 9, -9 if down else -2),
        textcoords="offset points",
        ha="right" if right else "left",
    )
axis.set(xlabel="CVaR 95 % of held-out days, % a day", ylabel="return, % a year", xlim=(2.3, 3.2), ylim=(8, 16))

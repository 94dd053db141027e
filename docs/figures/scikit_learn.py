"""What a risk-averse logistic regression changes on held-out samples: the worst tenth and the mean, on three data."""

from __future__ import annotations

import look
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import certeq as ce
from certeq.learn import OCEClassifier, sample_losses

rng = np.random.default_rng(0)


def two_rules(n: int = 3000) -> tuple[np.ndarray, np.ndarray]:
    """Nine samples in ten follow one rule, the tenth another."""
    X = rng.normal(size=(n, 5))
    score = np.where(rng.random(n) < 0.1, -3 * X[:, 1], 2 * X[:, 0] + 2 * X[:, 1])
    return X, (score + 0.5 * rng.logistic(size=n) > 0).astype(int)


def turned() -> tuple[np.ndarray, np.ndarray]:
    """Digits, even or odd, a tenth of the pictures turned by 90 degrees."""
    pictures, digits = load_digits(return_X_y=True)
    which = rng.random(len(digits)) < 0.1
    pictures[which] = np.rot90(pictures[which].reshape(-1, 8, 8), axes=(1, 2)).reshape(-1, 64)
    return pictures, digits % 2


def changes(X: np.ndarray, y: np.ndarray, splits: int = 5) -> tuple[float, float]:
    """By how many per cent worst tenth and mean of held-out cross-entropies change, over the splits."""
    found = []
    for split in range(splits):
        A, B, a, b = train_test_split(X, y, test_size=0.5, stratify=y, random_state=split)
        models = (make_pipeline(StandardScaler(), OCEClassifier(u)) for u in (ce.Mean(), ce.Entropic(1.0)))
        plain, averse = (sample_losses(model.fit(A, a), B, b) for model in models)
        found.append(
            [[ce.oce(x, ce.CVaR(0.1)) for x in (plain, averse)], [plain.mean(), averse.mean()]],
        )
    before, after = np.moveaxis(np.mean(found, axis=0), 1, 0)
    return tuple(100 * (after / before - 1.0))


look.style()
figure, axis = plt.subplots(figsize=(8.2, 4.0), layout="constrained")
data = {
    "a tenth of the samples\nfollows another rule": two_rules(),
    "digits, a tenth\nof them turned": turned(),
    "breast cancer,\nas it is": load_breast_cancer(return_X_y=True),
}
both = np.array([changes(*each) for each in data.values()])
for k, (label, color) in enumerate((("worst tenth", look.BLUE), ("mean", look.MUTED))):
    bars = axis.bar(np.arange(3) + 0.38 * (k - 0.5), both[:, k], width=0.36, color=color, label=label)
    axis.bar_label(bars, fmt="%+.0f %%", padding=2)
axis.axhline(0.0, color=look.INK, lw=1)
axis.set_xticks(np.arange(3), list(data), color=look.INK)
axis.set_ylabel("change of held-out cross-entropy, %")
axis.margins(y=0.15)
axis.legend(loc="lower right", title="Entropic(1) instead of the mean")

"""Applications, batches and the tables of portfolios."""

from __future__ import annotations

import math

import numpy as np

import certeq as ce
from certeq.paper.errata._data_sets import data_sets
from certeq.paper.errata._finding import Finding

STEPS = 15_000


def uncertainty() -> Finding:
    """The entropic risk of a Gaussian log-likelihood is infinite where the model is too sure."""
    beta, y = 0.5, np.linspace(-200.0, 200.0, 400_001)
    base = -0.5 * y * y - 0.5 * math.log(2.0 * math.pi)

    def log_mean(variance: float, reach: float) -> float:
        """ln E exp(beta y^2/(2 v)) over |y| <= reach, y standard normal."""
        held = np.abs(y) <= reach
        power = base[held] + 0.5 * beta * y[held] ** 2 / variance
        top = power.max()
        return float(top + math.log(np.exp(power - top).sum() * (y[1] - y[0])))

    sure = [log_mean(0.8 * beta, reach) for reach in (20.0, 100.0, 200.0)]
    wide = [log_mean(2.0 * beta, reach) for reach in (20.0, 100.0, 200.0)]
    exact = -0.5 * math.log(0.5)
    return Finding(
        "Examples of regression and uncertainty",
        "y must be bounded too: the risk is +inf where sigma_theta^2 <= beta sigma^2",
        "bounded x and theta suffice",
        f"v = 0.8 beta sigma^2: the log of the mean grows as {sure[0]:.0f}, {sure[1]:.0f}, {sure[2]:.0f}; v = 2 beta "
        f"sigma^2: {wide[-1]:.6f}, in closed form {exact:.6f}",
        sure[0] < sure[1] < sure[2] and sure[2] > 1e3 and abs(wide[-1] - exact) < 1e-6,
    )


def small_batches() -> Finding:
    """One sample is risk neutral; printed CVaR weights vanish below 1/alpha samples and never quite sum to 1."""
    alpha, rng, printed, ours = 0.05, np.random.default_rng(4), {}, 0.0
    for m in (1, 10, 19, 64, 175):
        z = rng.normal(size=m)
        t = float(ce.shortfall(z, ce.CVaR(alpha)))
        printed[m] = float(np.sum(z > t)) / (m * alpha)
        ours = max(ours, abs(float(np.sum(ce.tilt(z, ce.CVaR(alpha)))) - 1.0))
    alone = [
        float(ce.oce([2.5], u)) - float(ce.oce([0.0], u)) for u in (ce.Entropic(3.0), ce.Quartic(), ce.CVaR(alpha))
    ]
    return Finding(
        "Batches of k samples",
        "a batch of one is risk neutral; the mass that is left goes to the losses on the quantile",
        "m_k = k from k = 1, weights u'(z - t)",
        f"printed CVaR 0.05 weights sum to {', '.join(f'{v:.4f} at m = {m}' for m, v in printed.items())}; ours to 1 "
        f"within {ours:.0e}",
        printed[1] == printed[10] == printed[19] == 0.0
        and abs(printed[64] - 0.9375) < 1e-12
        and abs(printed[175] - 8 / 8.75) < 1e-12
        and ours < 1e-12
        and max(abs(x - 2.5) for x in alone) < 1e-12,
    )


def portfolio_tables() -> Finding:
    """How much of the way from equal weights to the optimum 15,000 full-batch steps of 1/sqrt(15000) go."""
    from certeq.paper._panels import load_panel

    losses, share = ce.LinearLoss(load_panel("sp500").losses), {}
    n = losses.samples.shape[1]
    start = np.full(n, 1.0 / n)
    for utility in (ce.CVaR(0.05), ce.MonotoneMeanVariance(2)):
        best = ce.minimize(losses, utility, domain=ce.Simplex())
        walk = ce.minimize(
            losses, utility, domain=ce.Simplex(), method="sg", theta0=start, batch="full", step=STEPS**-0.5,
            average="last", iterations=STEPS, log_every=STEPS, progress=False,
        )  # fmt: skip
        first = float(ce.oce(losses.samples @ start, utility))
        share[utility] = (first - walk.value) / (first - best.value)
    cvar, mmv = share.values()
    return Finding(
        "Tables of portfolios",
        "from equal weights only CVaR is near its optimum after 15,000 steps; other rows are early iterates",
        "OCE-SG converges",
        f"share of the possible gain: CVaR {100 * cvar:.2f} %, MMV {100 * mmv:.1f} %",
        cvar > 0.99 and mmv < 0.9,
    )


CHECKS = (uncertainty, small_batches, data_sets, portfolio_tables)

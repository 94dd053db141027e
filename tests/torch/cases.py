"""Utilities and samples shared by the tests of `certeq.torch`."""

import numpy as np

import certeq as ce

PLAIN = {
    "entropic": ce.Entropic(1.3),
    "mean-variance": ce.MeanVariance(0.5),
    "mmv2": ce.MonotoneMeanVariance(2),
    "mmv3": ce.MonotoneMeanVariance(3),
    "mmv2.5": ce.MonotoneMeanVariance(2.5),
    "quartic": ce.Quartic(),
    "cvar": ce.CVaR(0.07),
    "leaky": ce.LeakyCVaR(0.1),
    "smooth": ce.SmoothCVaR(0.1),
}
COMPOSED = {
    "mean": ce.Mean(),
    "entropic, tiny beta": ce.Entropic(1e-9),
    "entropic, scaled": ce.Entropic(2.0).scaled(3.0),
    "quartic, normalized": ce.Quartic().normalized(),
    "leaky, normalized and scaled": ce.LeakyCVaR(0.2).normalized().scaled(0.5),
    "smooth, sharp": ce.SmoothCVaR(0.1, 1e-3),
    "smooth, wide": ce.SmoothCVaR(0.3, 5.0),
    "mean + cvar": 0.3 * ce.Mean() + 0.7 * ce.CVaR(0.05),
    "entropic + cvar": 0.5 * ce.Entropic(1.0) + 0.5 * ce.CVaR(0.1),
    "two kinks": 0.5 * ce.CVaR(0.1) + 0.5 * ce.CVaR(0.3).normalized().scaled(2.0),
    "mean + smooth": 0.2 * ce.Mean() + 0.8 * ce.SmoothCVaR(0.1),
}
EVERY = PLAIN | COMPOSED


def samples():
    """(name, losses, weights): signs, ties, scales, offsets, one loss, constants."""
    rng = np.random.default_rng(0)
    cases = []
    for n in (1, 2, 7, 64, 100):
        x = rng.standard_normal(n)
        w = rng.random(n) * (rng.random(n) > 0.3) + 1e-6
        cases += [
            (f"normal {n}", x, None),
            (f"ties {n}", np.round(x), None),
            (f"weighted ties {n}", np.round(x), w),
            (f"constant {n}", np.full(n, -2.5), w),
            (f"small {n}", 1e-3 * x, w),
            (f"large {n}", 1e2 * x, None),
            (f"offset {n}", x + 1e4, w),
        ]
    return cases


SAMPLES = samples()

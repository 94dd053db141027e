"""Every erratum's check, by name, and the page they make together."""

from __future__ import annotations

import importlib.util
import math

import numpy as np
import pytest

import certeq as ce
from certeq.paper import bounds, constants, convergence, errata
from certeq.paper._quotes import ERRATA
from certeq.paper._run import LocalJob
from certeq.paper.errata import _measures, _optimization
from certeq.risk import bounds as risk_bounds

NEEDS_DATA = {"data-sets", "portfolio-tables"}
SLOW = {"data-sets", "portfolio-tables"}  # the first may have to download its files


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in errata.CHECKS]
)
def test_correction_holds(name):
    if name in NEEDS_DATA and importlib.util.find_spec("skfolio") is None:
        pytest.skip("the panels are skfolio's")
    found = errata.CHECKS[name]()
    if found.holds is None:
        pytest.skip(found.found)
    assert found.holds, found.found
    assert all((found.where, found.printed, found.right, found.found))


def test_the_trading_days_are_those_of_a_panel_that_is_at_hand():
    pytest.importorskip("skfolio")
    from certeq.paper._markets import load_panel

    panel = load_panel("sp500")
    days = panel.train.index.append(panel.test.index)
    days = days[days >= "2018-01-02"]
    assert list(errata.trading_days("2018-01-02", "2022-12-28")) == list(days)


def test_data_sets_are_checked_without_their_files(monkeypatch):
    pytest.importorskip("skfolio")
    from certeq.paper import _markets

    absent = type("Panel", (), {"synthetic": True})
    monkeypatch.setattr(_markets, "find_panel", lambda key: absent)
    found = errata.data_sets()
    assert found.holds is True
    assert "FTSE 100, without its file: skfolio describes 5960 prices of 64 assets to 2023-05-31" in found.found
    assert "traded on 1362 days" in found.found
    monkeypatch.setattr(errata, "description", lambda loader: ("2000-01-04", "2026-05-26", 5960, 64))
    assert errata.data_sets().holds is False


def test_there_are_thirty_six():
    assert len(errata.CHECKS) == len(ERRATA) == 36
    assert set(errata.CHECKS) == set(ERRATA)


def test_a_failed_correction_is_shouted(monkeypatch):
    bad = errata.Finding("somewhere", "right", "printed", "found", False)
    gone = errata.Finding("missing", "right", "printed", "no file", None)
    loose = errata.Finding("there", "sharper", "loose", "found", True, stands=True)
    false = errata.Finding("where", "right", "false", "found", np.bool_(True))  # as a comparison of arrays gives it
    checks = {"bad": lambda: bad, "gone": lambda: gone, "loose": lambda: loose, "false": lambda: false}
    monkeypatch.setattr(errata, "CHECKS", checks)
    monkeypatch.setattr(errata, "ERRATA", dict.fromkeys(checks, (7, "words")))
    with LocalJob(quick=True, jobs=1) as job:
        outcome = errata.run(job)
    assert [claim.verdict for claim in outcome.claims] == ["not reproduced", "not checked", "reproduced", "corrected"]
    assert "FAILS" in outcome.claims[0].why
    assert all(claim.why and claim.spread.startswith("none: ") for claim in outcome.claims)
    assert outcome.claims[1].ours == "no file"
    assert [row[-1] for row in outcome.tables[0].rows] == ["no", "not checked", "yes", "yes"]
    assert outcome.numbers == {"checks": 4, "corrections that hold": 2}


def off(function, by=1e-2):
    """The same function with an answer that is wrong by so much of itself and of 1."""
    return lambda *args, **options: function(*args, **options) * (1.0 + by) + by


def times(factor):
    """The corrected form of a bound, too small by a factor; the printed one as it is."""

    def mistaken(function):
        def bound(*args, **options):
            words = [x for x in (*args, *options.values()) if isinstance(x, str)]
            return (1.0 if "printed" in words else factor) * function(*args, **options)

        return bound

    return mistaken


def entry(key, factor):
    """Of a dictionary of an error and its bounds: one of them times a factor."""
    return lambda function: lambda *args: {**function(*args), key: factor * function(*args)[key]}


def instead(function):
    """Another function in the place of the right one."""
    return lambda _: function


def same(key, entry):
    """A dictionary of an error and its two bounds, with one of them put in the place of another."""
    return lambda function: lambda *args: {**function(*args), key: function(*args)[entry]}


class Steep(ce.CVaR):
    """A CVaR whose slopes from both sides agree, which they do not."""

    def right_slope(self, x):
        return self.slope(x)


# What is planted in each check: where, which name, and the mistake.
PLANTED = {
    "smooth-cvar": (ce, "SmoothCVaR", lambda _: lambda alpha: ce.CVaR(1e-3)),
    "assumption-one": (ce, "MeanVariance", lambda _: ce.MonotoneMeanVariance),
    "mean-variance": (ce, "oce", off),
    "quartic": (ce, "oce", off),
    "leaky-cvar": (ce, "oce", off),
    "units": (ce, "oce", lambda function: lambda z, u: function(z, ce.CVaR(0.05))),
    "shortfall-risk": (ce, "ubsr", off),
    "derivative-signs": (ce, "threshold", lambda function: lambda z, u: 100.0),
    "threshold-is-a-minimizer": (ce, "threshold", off),
    "subadditivity": (ce, "Entropic", lambda _: lambda beta: ce.CVaR(0.5)),
    "bisection-sign": (ce, "threshold", off),
    "bisection-bracket": (_measures, "_residual", lambda function: lambda u, z, t: function(u, z, t + 1.0)),
    "bisection-stop": (_measures, "oce_sb", lambda function: lambda *given: (function(*given)[0] + 1e-3, 0.0)),
    "bisection-value": (bounds, "bisection", lambda function: lambda seed: [1.5, 0.0]),
    "gradient-theorem": (ce, "tilt", off),
    "domination": (_optimization.math, "log1p", lambda function: lambda x: x * x),
    "smoothness": (_optimization, "oce_smoothness", lambda _: lambda loss, u: loss.smoothness(None)),
    "strong-convexity-of-mean-variance": (ce, "MeanVariance", lambda _: lambda beta: ce.MonotoneMeanVariance(2)),
    "portfolio-remark": (ce, "tilt", lambda function: lambda z, u, axis: np.full(z.shape, 1.0 / z.shape[1])),
    "listing": (ce, "threshold", off),
    "gradient-at-the-optimum": (
        convergence, "simplex_optimum", lambda _: lambda: -convergence.MEAN / convergence.CURVATURE
    ),
    "cvar-validates": (ce, "CVaR", lambda _: Steep),
    "uncertainty": (errata.math, "log", lambda function: lambda x: 0.1 + function(x)),
    "small-batches": (ce, "tilt", off),
    "data-sets": (errata, "description", lambda _: lambda loader: ("2000-01-04", "2026-05-26", 5960, 64)),
    "portfolio-tables": (ce, "minimize", lambda function: lambda *args, **rest: function(*args, domain=ce.Simplex())),
}  # fmt: skip


ZETA = constants.ZETA


def k4(start=1.0, log=2.0, square=2.0, variance=1.0):
    """K4/sqrt(n) with other coefficients; those of the paper are 1, 2, 2 and pi^2/6."""

    def bound(n, L, C1, C2, distance):
        logarithm = 1.0 + math.log(n)
        terms = start * L * distance**2 + log * C1 * distance * logarithm + square * (C1 * logarithm) ** 2 / L
        return (terms + variance * C2 * math.pi**2 / (6.0 * L)) / math.sqrt(n)

    return bound


def k123(first=1.0, third=1.0, power=1.0):
    """The strongly convex bound with K1 or K3 changed, or another power of n in the last term."""

    def bound(n, mu, L, c, C1, C2, distance, form="corrected"):
        K1, K2, K3 = constants.strongly_convex_constants(mu, L, c, C1, C2)
        top = (distance**2 + first * K1) / (n + 1) ** 2 + K2 * distance / (n + 1) ** 1.5
        top += third * K3 / (n + 1) ** power
        return top * (1.0 if form == "printed" else math.exp((c * L * math.pi) ** 2 / 6.0))

    return bound


def no_logarithm(diameter=1.0, bias=1.0, variance=1.0):
    """The bound without logarithms with a coefficient changed."""
    return lambda n, L, b, C2, D: (
        (diameter * L * D**2 + bias * 2 * ZETA * D * b + variance * C2 * math.pi**2 / (6 * L)) / math.sqrt(n)
    )


def not_convex(start=2.0, variance=ZETA):
    """The non-convex bound with a coefficient changed."""
    right = constants.non_convex_bound
    return lambda n, L, C1, C2, distance, excess, form="corrected": (
        right(n, L, C1, C2, distance, excess, form)
        if form == "printed"
        else (start * L * excess + variance * C2) / math.sqrt(n)
    )


def lemma_two(factor=1.0, power=0.5, T=1.0, fourth=1.0):
    """The corrected MSE bound of the second lemma with a factor, a power or a term changed."""

    def bound(m, variance, mu4, largest, deviation):
        second = math.sqrt(3.0 * variance**2 + fourth * mu4 / m)
        first = (largest * math.sqrt(math.log(m))) ** power * second
        return factor * 2.0 * (first + T * deviation**2) / m

    return bound


def not_lipschitz(value=1.0, slope=1.0, factor=1.0):
    """The bound of a utility that is not Lipschitz with a term dropped or all of it smaller."""
    right = risk_bounds.mse_bound

    def bound(m, slope_variance, moment=None, *, value_variance=None, q=5.0, form="corrected"):
        if form == "printed":
            return right(m, slope_variance, moment, form=form)
        return factor * right(m, slope * slope_variance, moment, value_variance=value * value_variance, q=q)

    return bound


def subgradient(start=0.5, noise=1.0, size=0.5):
    """The bound for convex risks, smooth or not, with a coefficient changed."""
    return lambda steps, errors, D, M: (
        (start * D**2 + noise * D * float(steps @ errors) + size * M**2 * float(steps @ steps)) / float(steps.sum())
    )


# Mistakes in bounds: a term dropped, a factor, an exponent. Where a bound is loose the factor is the smallest seen.
TOO_SMALL = (
    ("wasserstein", risk_bounds, "wasserstein_bound", times(0.99)),
    ("wasserstein", bounds, "wasserstein_jump", same("corrected", "printed")),
    ("lipschitz", risk_bounds, "mse_bound_lipschitz", times(0.99)),
    ("lipschitz", risk_bounds, "mae_bound", times(0.75)),
    ("lipschitz", bounds, "dispersion", times(0.5)),
    ("lipschitz", risk_bounds, "dispersion", times(0.9)),
    ("non-lipschitz", risk_bounds, "mse_bound", instead(not_lipschitz(factor=0.35))),
    ("non-lipschitz", risk_bounds, "mse_bound", instead(not_lipschitz(slope=0.0))),
    ("non-lipschitz", risk_bounds, "mse_bound", instead(not_lipschitz(value=0.0))),
    ("non-lipschitz", bounds, "rare_jump", same("corrected", "printed")),
    ("gradient-error", risk_bounds, "gradient_mse_bound", times(0.99)),
    ("gradient-error", bounds, "gradient_error", same("corrected", "printed")),
    ("second-gradient-lemma", constants, "unbounded_gradient_mse_bound", instead(lemma_two(factor=0.99))),
    ("second-gradient-lemma", constants, "unbounded_gradient_mse_bound", instead(lemma_two(power=1.0))),
    ("second-gradient-lemma", constants, "unbounded_gradient_mse_bound", instead(lemma_two(T=0.0))),
    ("second-gradient-lemma", constants, "unbounded_gradient_mse_bound", instead(lemma_two(fourth=0.0))),
    ("second-gradient-lemma", constants, "unbounded_gradient_mae_bound", times(0.91)),
    ("second-gradient-lemma", bounds, "rare_gradient", entry("printed", 100.0)),
    ("strongly-convex", _optimization.math, "exp", lambda _: lambda x: 1.0),
    ("strongly-convex", constants, "strongly_convex_bound", times(1 / 38)),
    ("strongly-convex", constants, "strongly_convex_bound", instead(k123(first=0.0))),
    ("strongly-convex", constants, "strongly_convex_bound", instead(k123(third=0.0))),
    ("strongly-convex", constants, "strongly_convex_bound", instead(k123(power=2.0))),
    ("convex", constants, "subgradient_bound", times(0.9)),
    ("convex", constants, "subgradient_bound", instead(subgradient(start=0.25))),
    ("convex", constants, "subgradient_bound", instead(subgradient(size=0.25))),
    ("convex", constants, "convex_bound", instead(k4(start=0.99))),
    ("convex", constants, "convex_bound", instead(k4(log=1.0))),
    ("convex", constants, "convex_bound", instead(k4(square=0.9))),
    ("convex", constants, "convex_bound", instead(k4(variance=0.99))),
    ("convex", constants, "convex_bound", instead(k4(log=0.2, square=0.2))),
    ("logarithms", constants, "convex_bound_without_logarithm", instead(constants.convex_bound)),
    ("logarithms", constants, "convex_bound_without_logarithm", instead(lambda *args: 0.0)),
    ("logarithms", constants, "convex_bound_without_logarithm", instead(lambda n, *args: -1.0 / math.sqrt(n))),
    ("logarithms", constants, "convex_bound_without_logarithm", instead(no_logarithm(diameter=0.49))),
    ("logarithms", constants, "convex_bound_without_logarithm", instead(no_logarithm(bias=0.0))),
    ("logarithms", constants, "convex_bound_without_logarithm", instead(no_logarithm(variance=0.0))),
    ("fixed-batch", constants, "subgradient_bound", instead(subgradient(noise=0.99))),
    ("fixed-batch", constants, "subgradient_bound", instead(lambda steps, noise, D, M: float(noise[0]) ** 2)),
    ("non-convex", constants, "non_convex_bound", instead(not_convex(start=1.99))),
    ("non-convex", constants, "non_convex_bound", instead(not_convex(variance=0.0))),
    ("non-convex", constants, "non_convex_bound", instead(not_convex(variance=0.2))),
    ("non-convex", constants, "non_convex_bound", lambda function: lambda *args: function(*args[:6], "printed")),
)


@pytest.mark.parametrize("name, where, what, mistake", TOO_SMALL, ids=[f"{i}-{x[0]}" for i, x in enumerate(TOO_SMALL)])
def test_a_bound_that_is_too_small_is_seen(name, where, what, mistake, monkeypatch):
    monkeypatch.setattr(where, what, mistake(getattr(where, what)))
    assert not errata.CHECKS[name]().holds


def test_every_check_has_a_mistake_planted_in_it():
    assert set(PLANTED) | {mistake[0] for mistake in TOO_SMALL} == set(errata.CHECKS)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in PLANTED]
)
@pytest.mark.filterwarnings("ignore::certeq.UnitWarning")  # the paper's own units
def test_a_planted_mistake_is_found(name, monkeypatch):
    if name in NEEDS_DATA:
        pytest.importorskip("skfolio")
        from certeq.paper import _markets

        if name == "data-sets":
            monkeypatch.setattr(_markets, "find_panel", lambda key: type("Panel", (), {"synthetic": True}))
    where, what, mistake = PLANTED[name]
    monkeypatch.setattr(where, what, mistake(getattr(where, what)))
    try:
        found = errata.CHECKS[name]()
    except (ValueError, ZeroDivisionError):
        return  # a mistake that stops the check is found as well
    assert not found.holds, found.found

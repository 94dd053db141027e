"""Every erratum's check, by name, and the page they make together."""

from __future__ import annotations

import importlib.util

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
    assert outcome.claims[1].ours == "no file"
    assert [row[-1] for row in outcome.tables[0].rows] == ["no", "not checked", "yes", "yes"]
    assert outcome.numbers == {"checks": 4, "corrections that hold": 2}


def off(function, by=1e-2):
    """The same function with an answer that is wrong by so much of itself and of 1."""
    return lambda *args, **options: function(*args, **options) * (1.0 + by) + by


def half(function):
    """Of a bound: half of it, whatever the form."""
    return lambda *args, **options: 1e-3 * function(*args, **options)


def printed(function):
    """The printed form where the corrected one was asked for."""
    return lambda *args, **options: function(*args, **{**options, "form": "printed"})


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
    "wasserstein": (bounds, "wasserstein_jump", same("corrected", "printed")),
    "lipschitz": (risk_bounds, "mae_bound", half),
    "non-lipschitz": (bounds, "rare_jump", same("corrected", "printed")),
    "bisection-sign": (ce, "threshold", off),
    "bisection-bracket": (_measures, "_residual", lambda function: lambda u, z, t: function(u, z, t + 1.0)),
    "bisection-stop": (ce, "oce", lambda function: lambda z, u, **rest: function(z, u) + 1e-3 * len(rest)),
    "bisection-value": (bounds, "bisection", lambda function: lambda seed: [1.5, 0.0]),
    "gradient-theorem": (ce, "tilt", off),
    "domination": (_optimization.math, "log1p", lambda function: lambda x: x * x),
    "smoothness": (_optimization, "oce_smoothness", lambda _: lambda loss, u: loss.smoothness(None)),
    "strong-convexity-of-mean-variance": (ce, "MeanVariance", lambda _: lambda beta: ce.MonotoneMeanVariance(2)),
    "gradient-error": (bounds, "gradient_error", same("corrected", "printed")),
    "second-gradient-lemma": (bounds, "unbounded_bounds", lambda function: lambda m: {"mse corrected": 1e-3}),
    "portfolio-remark": (ce, "tilt", lambda function: lambda z, u, axis: np.full(z.shape, 1.0 / z.shape[1])),
    "listing": (ce, "threshold", off),
    "strongly-convex": (_optimization.math, "exp", lambda _: lambda x: 1.0),
    "convex": (constants, "subgradient_bound", half),
    "logarithms": (constants, "convex_bound_without_logarithm", lambda _: constants.convex_bound),
    "fixed-batch": (constants, "subgradient_bound", lambda _: lambda steps, noise, D, M: float(noise[0]) ** 2),
    "non-convex": (constants, "non_convex_bound", lambda function: lambda *args: function(*args[:-1], "printed")),
    "gradient-at-the-optimum": (
        convergence, "simplex_optimum", lambda _: lambda: -convergence.MEAN / convergence.CURVATURE
    ),
    "cvar-validates": (ce, "CVaR", lambda _: Steep),
    "uncertainty": (errata.math, "log", lambda function: lambda x: 0.1 + function(x)),
    "small-batches": (ce, "tilt", off),
    "data-sets": (errata, "description", lambda _: lambda loader: ("2000-01-04", "2026-05-26", 5960, 64)),
    "portfolio-tables": (ce, "minimize", lambda function: lambda *args, **rest: function(*args, domain=ce.Simplex())),
}  # fmt: skip


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in errata.CHECKS]
)
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

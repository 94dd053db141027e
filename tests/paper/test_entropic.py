"""Entropic estimation and optimization: slopes, limits and the optimum, each against an independent account."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from certeq.paper import entropic
from certeq.paper._run import LocalJob
from certeq.paper._statistics import jackknife, slope

pytest.importorskip("sklearn")


@pytest.fixture(scope="module")
def estimation():
    with LocalJob(seeds=4, jobs=1) as job:
        return entropic.run_estimation(job)


def test_mean_squared_error_falls_as_one_over_m(estimation):
    assert estimation.numbers["slopes"]["mse"] == pytest.approx(-1.0, abs=0.1)
    assert estimation.numbers["slopes"]["mae"] == pytest.approx(-0.5, abs=0.05)
    assert [claim.verdict for claim in estimation.claims] == ["reproduced"] * 3
    assert all(len(row) == len(table.columns) for table in estimation.tables for row in table.rows)


def test_every_seed_is_the_experiment_once_more(estimation):
    assert estimation.seeds == (0, 1, 2, 3)
    slopes = [row[2] for row in estimation.tables[1].rows]
    assert len(set(slopes)) == 4
    assert estimation.numbers["slopes"]["mse"] == pytest.approx(np.mean(slopes))
    assert estimation.numbers["slopes_sd"]["mse"] == pytest.approx(np.std(slopes, ddof=1))
    assert "over 4 seeds" in estimation.claims[0].spread


def test_errors_have_bars_of_one_standard_error_in_the_figure(estimation):
    from certeq.paper._figures import as_png

    (figure,) = estimation.figures
    errors = {row[0]: row[1:5] for row in estimation.tables[0].rows}
    for panel in figure.panels:
        mae, mse = (curve for curve in panel.series if curve.kind == "errorbars")
        for curve, column in ((mae, 0), (mse, 2)):
            for m, y, low, high in zip(errors, curve.y, curve.low, curve.high, strict=True):
                assert y == errors[m][column]
                assert (y - low, high - y) == pytest.approx((errors[m][column + 1],) * 2)
    assert as_png(figure).startswith(b"\x89PNG")


def test_limits_of_the_estimate_are_those_of_the_log_normal():
    x = entropic.MEAN + entropic.DEVIATION * np.random.default_rng(0).normal(size=2_000_000)
    value = (np.exp(entropic.BETA * (x - entropic.TRUE)) - 1) / entropic.BETA
    assert value.var() == pytest.approx(entropic.MSE_LIMIT, rel=0.03)


def test_errors_repeat_with_the_seed():
    assert entropic.errors(50, 20, 1) == entropic.errors(50, 20, 1)
    assert entropic.errors(50, 20, 1) != entropic.errors(50, 20, 2)


def test_optimum_solves_the_quadratic_program():
    """All 31 supports tried: the one whose weights are positive and whose other assets do not pay."""
    mean, covariance = entropic.market()
    theta, gap = entropic.optimum(mean, covariance)
    assert 0 <= gap < 1e-10
    found = []
    for size in range(1, 6):
        for support in combinations(range(5), size):
            matrix = np.zeros((size + 1, size + 1))
            matrix[:size, :size] = entropic.AVERSION * covariance[np.ix_(support, support)]
            matrix[:size, size] = matrix[size, :size] = 1.0
            solved = np.linalg.solve(matrix, np.append(mean[list(support)], 1.0))
            weights = np.zeros(5)
            weights[list(support)] = solved[:size]
            gradient = entropic.AVERSION * covariance @ weights - mean
            if weights.min() >= 0 and gradient.min() >= -solved[size] - 1e-12:
                found.append(weights)
    assert len(found) == 1
    np.testing.assert_allclose(theta, found[0], atol=1e-6)


@pytest.fixture(scope="module")
def optimization():
    with LocalJob(quick=True, seeds=4, jobs=1) as job:
        return entropic.run_optimization(job)


def test_iterates_approach_the_optimum(optimization):
    mse = optimization.numbers["mse"]
    assert mse[-1] < 1e-3 * mse[0]
    assert optimization.claims[0].verdict == "reproduced"
    np.testing.assert_allclose(optimization.tables[1].rows[0][1:], optimization.tables[1].rows[1][1:], atol=0.01)


def test_slope_of_the_iterates_is_that_of_theory(optimization):
    numbers = optimization.numbers
    assert abs(numbers["slopes"]["mse"] - numbers["slope_in_theory"]["mse"]) <= 2.0 * numbers["slopes_se"]["mse"]
    assert 0.0 < numbers["slopes_se"]["mse"] < 0.2
    assert numbers["slopes"]["mae"] == pytest.approx(-0.75, abs=0.13)
    assert optimization.claims[1].verdict == "reproduced"
    assert "standard error" in optimization.claims[1].spread
    assert len(optimization.seeds) == 20


def test_the_slope_in_theory_tends_to_its_limit(monkeypatch):
    """Much later than 500 steps the recursion falls as k^(-3/2)."""
    mean, covariance = entropic.market()
    theta, _ = entropic.optimum(mean, covariance)
    monkeypatch.setattr(entropic, "ITERATIONS", 20_000)
    mse = entropic.predicted_mse(theta, mean, covariance)
    k = np.arange(1, len(mse) + 1)
    assert slope(k[10_000:], mse[10_000:]) == pytest.approx(-1.5, abs=0.01)


def test_theory_gives_the_size_of_the_error_too(optimization):
    mse, head = optimization.numbers["mse"], entropic.MARKS
    mean, covariance = entropic.market()
    forecast = entropic.predicted_mse(np.array(optimization.numbers["theta"]), mean, covariance)
    for mark in (100, 300, 500):
        assert mse[head.index(mark)] == pytest.approx(forecast[mark - 1], rel=0.5)


def test_standard_error_of_a_slope_is_the_spread_of_slopes():
    rng = np.random.default_rng(0)
    x = np.array([1.0, 2.0, 4.0, 8.0, 16.0])

    def runs():
        return x**-1.0 * np.exp(0.2 * rng.normal(size=(40, 5)))

    spread = np.std([slope(x, runs().mean(axis=0)) for _ in range(400)])
    assert jackknife(x, runs()) == pytest.approx(spread, rel=0.3)


def test_a_constant_is_no_matter_for_a_quick_run():
    """Two standard errors of 600 repetitions are a tenth of the constant, and missed by chance one time in twenty."""
    slopes, scaled = {"mse": [-1.0, -0.99], "mae": [-0.5, -0.49]}, [[6.0, 0.3], [6.2, 0.3]]
    for quick, verdict in ((True, "not checked"), (False, "not reproduced")):
        said = entropic._estimation_claims(slopes, scaled, quick)
        assert [claim.verdict for claim in said] == ["reproduced", "reproduced", verdict]

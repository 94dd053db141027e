"""A quadratic utility is solved at once; its bound is compared with the optimum in exact arithmetic."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import certeq.utilities as ce
from certeq.optimize.exact import solve_exact
from certeq.optimize.exact._evidence import _by_runs, evidence_in_memory
from certeq.optimize.exact._problem import read_problem
from certeq.optimize.exact._scenarios import Scenarios
from certeq.utilities.forms import form

BETA = 0.5


def eliminated(rows, right):
    """The solution of a square system of Fractions."""
    table = [[*row, value] for row, value in zip(rows, right, strict=True)]
    size = len(table)
    for k in range(size):
        pivot = next(i for i in range(k, size) if table[i][k] != 0)
        table[k], table[pivot] = table[pivot], table[k]
        table[k] = [entry / table[k][k] for entry in table[k]]
        for i in range(size):
            if i != k and table[i][k] != 0:
                factor = table[i][k]
                table[i] = [a - factor * b for a, b in zip(table[i], table[k], strict=True)]
    return [row[-1] for row in table]


def exact_optimum(losses, support):
    """The least mean + beta variance over the simplex, as a Fraction: solved on its support, then proved."""
    rows = [[Fraction(float(entry)) for entry in row] for row in losses]
    count, assets = len(rows), len(rows[0])
    mean = [sum(row[j] for row in rows) / count for j in range(assets)]
    cov = [
        [sum((row[i] - mean[i]) * (row[j] - mean[j]) for row in rows) / count for j in range(assets)]
        for i in range(assets)
    ]
    beta = Fraction(BETA)
    system = [[*(2 * beta * cov[i][j] for j in support), Fraction(-1)] for i in support]
    system.append([Fraction(1)] * len(support) + [Fraction(0)])
    *weights, price = eliminated(system, [-mean[i] for i in support] + [Fraction(1)])
    assert all(weight >= 0 for weight in weights)
    slopes = [
        mean[i] + 2 * beta * sum(cov[i][j] * w for j, w in zip(support, weights, strict=True)) for i in range(assets)
    ]
    assert all(slope >= price for slope in slopes)  # no asset left out would pay
    variance = sum(
        a * b * cov[i][j] for i, a in zip(support, weights, strict=True) for j, b in zip(support, weights, strict=True)
    )
    return sum(mean[i] * w for i, w in zip(support, weights, strict=True)) + beta * variance


@pytest.mark.parametrize("offset", [0.0, 1.0, 1e6])
@pytest.mark.parametrize("seed", range(4))
def test_the_bound_holds_in_exact_arithmetic(seed, offset):
    rng = np.random.default_rng(seed)
    losses = offset + rng.standard_t(4, size=(60, 6)) * rng.uniform(0.5, 2.0, 6)
    found = solve_exact(losses, ce.MeanVariance(BETA), lower=0.0, C=np.ones(6), c=1.0)
    optimum = exact_optimum(losses, [int(j) for j in np.flatnonzero(found.theta)])
    assert found.status == "optimal"
    assert found.iterations == 1
    assert Fraction(found.lower_bound) <= optimum
    assert abs(float(Fraction(found.value) - optimum)) <= found.gap
    assert found.gap <= 1e-9 * max(abs(found.value), 1e-2)


@pytest.mark.parametrize("weights", [None, np.arange(1.0, 401.0)], ids=["even", "weighted"])
def test_every_layout_of_a_table_gives_the_same_answer(weights):
    rng = np.random.default_rng(0)
    losses = rng.standard_normal((400, 7)).astype(np.float32)
    wide = np.zeros((800, 14), dtype=np.float64)
    wide[::2, ::2] = losses
    tables = [losses, losses.astype(float), np.asfortranarray(losses, dtype=float), wide[::2, ::2]]
    answers = [
        solve_exact(table, ce.MeanVariance(2.0), weights=weights, lower=0.0, C=np.ones(7), c=1.0) for table in tables
    ]
    for answer in answers:
        assert answer.relative_gap <= 1e-9
        assert answer.theta == pytest.approx(answers[0].theta, abs=1e-12)
        assert answer.value == pytest.approx(answers[0].value, abs=1e-13)


class Hidden(ce.MeanVariance):
    """Mean-variance that does not say what it is, so that the general method solves it."""

    shape = None


def test_other_sets_and_linear_terms_agree_with_the_general_method():
    rng = np.random.default_rng(3)
    losses, linear = rng.standard_normal((300, 8)), 0.1 * rng.standard_normal(8)
    sets = [
        {"lower": -1.0, "upper": 1.0},
        {"lower": 0.0, "upper": 0.3, "C": np.ones(8), "c": 1.0},
        {"lower": -0.5, "upper": 1.0, "C": np.ones(8), "c": 1.0, "G": np.eye(8)[:2], "b": [0.05, 0.1]},
        {"lower": np.r_[0.1, np.zeros(7)], "upper": np.r_[0.1, np.ones(7)], "C": np.ones(8), "c": 1.0},
        {"C": np.ones(8), "c": 1.0},
    ]
    for limits in sets:
        at_once = solve_exact(losses, ce.MeanVariance(0.7), linear=linear, **limits)
        general = solve_exact(losses, Hidden(0.7), linear=linear, **limits)
        assert at_once.status == general.status == "optimal"
        assert at_once.value == pytest.approx(general.value, rel=1e-9)
        assert at_once.theta == pytest.approx(general.theta, abs=1e-6)
        assert at_once.threshold == pytest.approx(general.threshold, abs=1e-6)


def test_equal_assets_leave_a_choice_and_the_proof_stands():
    rng = np.random.default_rng(5)
    losses = np.repeat(rng.standard_normal((50, 3)), 2, axis=1)
    found = solve_exact(losses, ce.MeanVariance(1.0), lower=0.0, C=np.ones(6), c=1.0)
    apart = solve_exact(losses[:, ::2], ce.MeanVariance(1.0), lower=0.0, C=np.ones(3), c=1.0)
    assert found.relative_gap <= 1e-9
    assert found.value == pytest.approx(apart.value, rel=1e-10)


def test_the_trace_of_one_step_is_the_proof():
    losses = np.random.default_rng(1).standard_normal((40, 4))
    found = solve_exact(losses, ce.MeanVariance(1.0), lower=0.0, C=np.ones(4), c=1.0)
    ((value, gap, seconds, support),) = found.trace
    assert (value, gap, support) == (found.value, found.gap, 4)
    assert seconds >= 0.0


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("count", [1, 5, 128, 700])
def test_sums_by_runs(order, count):
    rng = np.random.default_rng(count)
    block, q = np.asarray(rng.standard_normal((count, 3)), order=order), rng.standard_normal(count)
    assert _by_runs(q, block, 128) == pytest.approx(q @ block, abs=1e-12)


@pytest.mark.parametrize("peak", [False, True], ids=["an even tilt", "one scenario carries the tilt"])
@pytest.mark.parametrize("offset", [0.0, 100.0])
def test_what_stands_for_the_size_of_the_sums_is_never_less(peak, offset):
    rng = np.random.default_rng(0)
    losses = offset + rng.standard_t(3, size=(500, 4))
    utility = ce.CVaR(1e-4)  # at its kink every tilt of this sample is a subgradient
    problem = read_problem(losses, utility, None, None, 0.0, 1.0, None, None, None, None)
    tilt = rng.random(500)
    tilt[0] += 1e4 * peak
    tilt /= tilt.sum()
    spread = Scenarios(losses, problem.samples).root_mean_square()
    assert np.all(spread >= np.sqrt(np.mean(np.square(losses), axis=0)))
    sums = evidence_in_memory(
        problem, problem.inner.terms[0], form(utility), np.ones(4), 0.0, np.zeros(500), tilt, spread
    )
    size = np.abs(tilt) @ np.abs(losses)
    assert np.all(sums.gradient_size >= (1.0 - 1e-12) * size)
    assert np.all(sums.gradient_size <= 4.1 * size)
    assert sums.largest == np.abs(losses).max()
    assert sums.value == pytest.approx(np.mean(1e4 * np.maximum(losses.sum(axis=1), 0.0)), rel=1e-12)
    assert sums.gradient == pytest.approx(tilt @ losses, abs=1e-10)

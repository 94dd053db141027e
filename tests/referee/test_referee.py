"""The referee itself: it knows values found by hand, and faults that are planted do not pass."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import certeq as ce
from tests.referee import exact, values
from tests.referee.reference import exact_minimum, minimum_by_thirds, reference
from tests.referee.regions import draw_region
from tests.referee.report import Report
from tests.referee.specification import Draw, custom, cvar, entropic, leaky, mean, weighted


def test_values_by_hand():
    x = np.array([[1.0, 2.0, 3.0, 4.0]])
    ref = reference(x, None, cvar(0.5).form)
    assert float(ref.center[0] + ref.value[0]) == 3.5
    assert exact_minimum(x[0], None, cvar(0.5).form) == Fraction(7, 2)
    ref = reference(x, None, entropic(1.0).form)
    assert float(ref.center[0] + ref.value[0]) == pytest.approx(np.log(np.mean(np.exp(x))), abs=1e-15)
    three = custom("C", 0.2, [(-0.7, 0.7), (0.4, 1.6)], None, "u").scaled(1.58)
    ref = reference(np.array([[-0.5, -0.2]]), None, three.form)
    # One line has slope 0.9, the other 2.5: 1 is between them at x = 0.4*1.58 of the larger loss.
    t = Fraction(-0.2) - Fraction(0.4) * Fraction(1.58)
    by_hand = t + sum(three.form.exact_value(Fraction(a) - t) for a in (-0.5, -0.2)) / 2
    assert float(ref.center[0] + ref.value[0]) == pytest.approx(float(by_hand), abs=1e-15)


def test_long_double_agrees_with_fractions():
    draw, rng, seen = Draw(3, 8), np.random.default_rng(3), 0
    while seen < 40:
        spec = draw(rng)
        if not spec.form.is_linear:
            continue
        seen += 1
        batch = values.draw_batch(rng, 1, int(rng.integers(1, 15)))
        x = batch.x.astype(float)
        ref = reference(x, batch.weights, spec.form)
        right = exact_minimum(x[0], None if batch.weights is None else batch.weights[0], spec.form)
        size = float(np.abs(ref.y).max()) + spec.form.size
        assert abs(float(right - Fraction(float(ref.center[0]))) - float(ref.value[0])) <= 1e-16 * size


def test_breakpoints_agree_with_a_search_that_knows_none():
    draw, rng = Draw(3, 8), np.random.default_rng(4)
    for _ in range(60):
        spec, batch = draw(rng), values.draw_batch(rng, 4, int(rng.integers(1, 40)))
        ref = reference(batch.x.astype(float), batch.weights, spec.form)
        size = 1e-15 * (float(np.abs(ref.y).max()) + float(np.abs(ref.value).max()) + spec.form.width)
        for i in range(len(batch.x)):
            assert abs(ref.value[i] - minimum_by_thirds(ref, spec.form, i)) <= size


def test_normalized_is_zero_at_zero_and_the_order_of_scaling_does_not_matter():
    inner = weighted([0.3, 0.2, 0.5], [leaky(0.2), mean(), cvar(0.4)])
    for spec in (inner.normalized(), inner.scaled(3.7).normalized(), inner.normalized().scaled(3.7)):
        ref = reference(np.zeros((1, 1)), None, spec.form)
        assert abs(float(ref.value[0])) < 1e-18
    x = np.random.default_rng(0).normal(size=(3, 9))
    one, other = inner.normalized().scaled(3.7), inner.scaled(3.7).normalized()
    assert np.allclose(
        reference(x, None, one.form).value.astype(float), reference(x, None, other.form).value.astype(float), 0, 1e-15
    )


def faults(change):
    """Classes of failures where the answers on a plain sample are changed."""
    x = np.array([[0.3, -1.0, 2.0, 0.1, 0.7]])
    report = Report()
    judge = values.Judge(cvar(0.4), values.Batch(x, None, False), report)
    value, t, q = change(np.array([1.35]), np.array([0.3]), np.array([[0, 0, 0.5, 0, 0.5]]))
    rows = np.array([0])
    judge.value(value, rows)
    judge.threshold(t, rows)
    judge.tilt(q, rows)
    return set(report.failed)


def test_planted_faults_of_values():
    move = np.array([[0, 0, 1e-9, 0, -1e-9]])
    assert faults(lambda v, t, q: (v, t, q)) == set()
    assert faults(lambda v, t, q: (v, t + 0.3, q)) == set()  # every t from 0.3 to 0.7 is a minimizer
    assert faults(lambda v, t, q: (v + 1e-9, t, q)) == {"oce"}
    assert faults(lambda v, t, q: (v, t - 1e-3, q)) == {"threshold"}
    assert faults(lambda v, t, q: (v, t, q * (1 + 1e-9))) == {"tilt sum", "tilt entry"}
    assert faults(lambda v, t, q: (v, t, q + move)) == {"tilt entry"}


def test_planted_faults_of_solutions():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(30, 4))
    region = next(r for r in (draw_region(rng, 4) for _ in range(100)) if r.code == "ce.Simplex(1.0)")
    for spec in (cvar(0.3), entropic(0.7), weighted([0.5, 0.5], [leaky(0.3), cvar(0.2)])):
        problem = exact.Problem(spec, A, None, region)
        good = exact.solve(problem, spec.make(exact.NAMES, {}), A)
        other = np.full(4, 0.25)
        worse = {"theta": other, "value": problem.oce(other)[0], "tilt": None}

        def classes(problem=problem, good=good, **changes):
            report = Report()
            exact.judge(problem, replace(good, **changes), report, "memory", None, False)
            return {kind.removesuffix(" (memory)") for kind in report.failed}

        assert classes() == set()
        assert classes(value=good.value + 1e-8) == {"value"}
        assert classes(theta=good.theta * (1 + 4e-12)) == {"broken constraint"}
        assert classes(tilt=good.tilt * (1 + 1e-10)) == {"tilt sum"}
        assert classes(**worse) == {"false certificate"}
        assert classes(**worse, gap=worse["value"] - good.value + 1e-9) == {"status", "worse than known"}
        assert classes(status="stalled") == {"not converged"}


def test_a_false_certificate_is_proved():
    """A problem on which this package once claimed a gap of 2e-14 at a value 1 % above the minimum."""
    spec = custom("C", 0.3, [(-1.75, 0.5), (-1.0, 0.7), (0.5, 1.5)], None, "u")
    A = np.array(
        [
            [-1.3, 0.3, 0, 1.3],
            [0.7, 0.1, -1.2, 0.1],
            [-0.4, 0.6, 0.3, 0.3],
            [-1, -1.3, 0.7, -0.2],
            [0.4, -1.8, -0.2, -1.1],
            [1.5, -0.3, -1, 0.3],
        ]
    )
    rng = np.random.default_rng(0)
    region = next(r for r in (draw_region(rng, 4) for _ in range(100)) if r.code == "ce.Simplex(1.0)")
    problem = exact.Problem(spec, A, None, region)
    theta = np.array([4, 9.5, 5.5, 0]) / 19
    value, _ = problem.oce(theta)
    assert value == pytest.approx(0.88316, abs=1e-5)
    start = np.full(4, 0.25)
    best, _, _ = exact.better_point(problem, start, problem.oce(start)[1], (region.lower, region.upper))
    assert best <= value + 1e-12
    claimed = ce.optimize.Solution(theta=start, value=problem.oce(start)[0], gap=2e-14, status="converged")
    report = Report()
    exact.judge(problem, claimed, report, "memory", None, False)
    assert set(report.failed) == {"false certificate (memory)"}

"""Certified bounds and risk control."""

import numpy as np
import pandas as pd
import pytest

import certeq as ce

X = np.random.default_rng(0).beta(2, 5, size=400)


@pytest.mark.parametrize(
    "u",
    [ce.CVaR(0.1), ce.Entropic(2.0), ce.MonotoneMeanVariance(2), ce.Quartic(), ce.SmoothCVaR(0.1), ce.Mean()],
    ids=repr,
)
def test_bounds_lie_above_the_estimate_and_below_the_worst_case(u):
    loose, tight = ce.upper_bound(X, u, support=(0, 1)), ce.upper_bound(X, u, 0.8, support=(0, 1))
    assert ce.oce(X, u) < tight < loose <= ce.oce([1.0], u) + 1e-12
    assert ce.upper_bound(X, u, support=(0, 2)) >= loose


def test_units_few_losses_and_wide_supports():
    bound = ce.upper_bound(X, ce.CVaR(0.1), support=(0, 1))
    assert ce.upper_bound(100 * X + 1e6, ce.CVaR(0.1), support=(1e6, 1e6 + 100)) == pytest.approx(1e6 + 100 * bound)
    assert ce.upper_bound(X, ce.Entropic(1.0), support=(0, 2000)) == pytest.approx(2000.0)  # nothing is known
    for n in (1, 2, 3, 7):
        assert ce.upper_bound(np.full(n, 0.1), ce.CVaR(0.1), support=(0, 1)) == pytest.approx(1.0, abs=1e-9)


def test_control_stops_at_the_first_failure():
    losses = np.stack([0.2 * X, 0.5 * X, X, 0.1 * X], axis=1)
    names = ["a", "b", "c", "d"]
    found = ce.control(losses, names, ce.CVaR(0.1), limit=0.45, support=(0, 1))
    assert (found.candidate, found.index, len(found.bounds)) == ("b", 1, 3)
    none = ce.control(losses, names, ce.CVaR(0.1), limit=0.01, support=(0, 1))
    assert (none.candidate, none.index, len(none.bounds)) == (None, None, 1)
    every = ce.control(losses, names, ce.CVaR(0.1), limit=1.0, support=(0, 1))
    assert (every.candidate, len(every.bounds)) == ("d", 4)
    assert found.bounds[0] == ce.upper_bound(losses[:, 0], ce.CVaR(0.1), support=(0, 1))


def test_candidates_come_in_an_order():
    losses = np.stack([0.2 * X, 0.5 * X, X], axis=1)

    def chosen(candidates, losses=losses):
        return ce.control(losses, candidates, ce.CVaR(0.1), limit=0.45, support=(0, 1)).candidate

    assert chosen(["a", "b", "c"]) == chosen(name for name in "abc") == chosen(np.array(["a", "b", "c"])) == "b"
    table = pd.DataFrame(losses, columns=["a", "b", "c"])
    assert chosen(["a", "b", "c"], table) == chosen(["x", "b", "z"], table) == "b"

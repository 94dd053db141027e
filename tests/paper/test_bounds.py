"""The bounds experiment: exact sums against simulation, and which bounds stand."""

from __future__ import annotations

import math

import numpy as np
import pytest

import certeq as ce
from certeq.paper import bounds as paper
from certeq.paper import constants
from certeq.paper._run import LocalJob


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """Where simulated pieces are kept, so that runs with other bounds do not repeat them."""
    return tmp_path_factory.mktemp("kept")


@pytest.fixture(scope="module")
def outcome(kept):
    with LocalJob(quick=True, jobs=1, cache=kept) as job:
        return paper.run(job)


def test_corrected_bounds_hold_in_every_row(outcome):
    rows = outcome.numbers["rows"]
    assert {row[7] for row in rows} == {"yes"}
    broken = {row[0] for row in rows if row[6] == "no"}
    assert "MSE, MMV 3, a rare jump" in broken
    assert "MSE of the gradient, M = 100" in broken
    assert "Strongly convex, steps c/k, diag(1, 4)" in broken
    assert "Non-convex, 50 theta^2" in broken
    assert not any("Lipschitz" in name or name.startswith(("MAE", "Convex")) for name in broken)


def test_simulated_rows_have_a_spread_over_seeds_and_exact_ones_none(outcome):
    assert outcome.seeds == (0, 1, 2)
    for row in outcome.numbers["rows"]:
        simulated = (
            row[0].startswith(("MAE, ", "MSE, Lipschitz", "MSE, entropic")) or "without" in row[0] or "s_hat" in row[0]
        )
        assert (row[3] is not None and row[3] > 0.0) if simulated else row[3] is None


def test_verdicts(outcome):
    verdicts = {claim.text.split(":")[0]: claim.verdict for claim in outcome.claims}
    corrected = {"Non-Lipschitz lemma, MSE", "Gradient estimate, MSE", "Wasserstein remark"}
    corrected |= {"OCE-SG, strongly convex", "OCE-SG, non-convex", "Gradients without a bound, MSE"}
    assert {text for text, verdict in verdicts.items() if verdict == "corrected"} == corrected
    assert all(verdict == "reproduced" for text, verdict in verdicts.items() if text not in corrected)
    assert all("corrected bound holds in every row" in claim.why for claim in outcome.claims[:-1])
    assert {claim.whose for claim in outcome.claims} == {"paper", "again"}
    assert all(claim.line and claim.quote for claim in outcome.claims)


def test_a_bound_that_is_too_small_is_seen(outcome, kept, monkeypatch):
    """The mistakes planted: each corrected bound, made far smaller, must be broken by some row of its claim."""
    planted = {
        "gradient_mae_bound": "Gradient estimate, MAE",
        "unbounded_gradient_mae_bound": "Gradients without a bound, MAE",
        "unbounded_gradient_mse_bound": "Gradients without a bound, MSE",
        "strongly_convex_bound": "OCE-SG, strongly convex",
        "convex_bound": "OCE-SG, convex",
        "non_convex_bound": "OCE-SG, non-convex",
        "bisection_mae_bound": "OCE-SB, MAE of s_hat",
        "bisection_mse_bound": "OCE-SB, MSE of s_hat",
    }
    for name in planted:
        whole = getattr(constants, name)
        monkeypatch.setattr(constants, name, lambda *a, whole=whole, **k: 1e-13 * whole(*a, **k))
    with LocalJob(quick=True, jobs=1, cache=kept) as job:
        broken = {claim.text.split(":")[0] for claim in paper.run(job).claims if "fails too" in claim.why}
    assert broken == set(planted.values())


def test_constants_of_the_appendix():
    """By hand: mu = c = 2, so that mu c = 4; and the recursion of constant steps has the promised limit."""
    K1, K2, K3 = constants.strongly_convex_constants(2.0, 3.0, 2.0, 0.5, 0.25)
    assert pytest.approx(2**8 * 4 * 0.25 / 6) == K1
    assert pytest.approx(2**10 * 7 * 2 * 0.5 * math.exp(36 * math.pi**2 / 12)) == K2
    assert pytest.approx(2**4 * 2 * 0.5 * K2) == K3
    n = 4000
    assert n * constants.constant_step_bound(n, 0.5, 2.0, 1.0, 1.0) == pytest.approx(1.0 / 0.5**2, rel=0.01)
    logs = [math.sqrt(n) * constants.convex_bound(n, 1.0, 1.0, 0.0, 0.0) for n in (1, math.e, math.e**2)]
    assert logs == pytest.approx([2.0, 8.0, 18.0])


def test_known_figures():
    assert paper.rare_jump(10**8)["mse"] == pytest.approx(0.0672, abs=5e-5)
    assert paper.rare_jump(10**8)["printed"] == pytest.approx(0.0217, abs=5e-5)
    assert paper.gradient_error(50, 100.0)["mse"] == pytest.approx(13.08, abs=5e-3)
    assert paper.gradient_error(50, 8.0)["mse"] == pytest.approx(0.0837, abs=5e-5)
    assert paper.dispersion() == pytest.approx(3.23, abs=5e-3)
    assert 39 * paper.norm_of(3.0) == pytest.approx(101.5, abs=0.1)


def test_exact_gradient_error_is_what_sampling_gives():
    rng, m, c = np.random.default_rng(0), 50, 4.0
    slopes = np.where(rng.random((20_000, m)) < 0.5, 0.5, 1.5)
    q = ce.tilt(np.log(slopes), ce.Entropic(1.0), axis=1)
    error = np.mean((np.sum(q * c / slopes, axis=1) - c) ** 2)
    assert error == pytest.approx(paper.gradient_error(m, 8.0)["mse"], rel=0.05)


def test_rare_jump_is_what_sampling_gives_where_jumps_are_not_rare():
    m = 4  # h = 6, odds 6**-4
    h = 3.0 * math.sqrt(m)
    law, z = [1.0 - h**-4, h**-4], [0.0, h]
    rng = np.random.default_rng(1)
    jumps = rng.binomial(m, h**-4, size=2_000_000)
    utility = ce.MonotoneMeanVariance(3)
    true = ce.oce(z, utility, law)
    errors = np.array([ce.oce(z, utility, [m - k, k]) - true for k in range(m + 1)])
    assert np.mean(errors[jumps] ** 2) == pytest.approx(paper.rare_jump(m)["mse"], rel=0.05)


def test_quadrature_of_the_gaussian():
    x, w = paper._grid()
    assert w @ x == pytest.approx(-1.0)
    assert w @ x**2 == pytest.approx(5.0)
    assert paper.norm_of(2.0) == pytest.approx(math.sqrt(5.0))

"""The paper's algorithms as printed and as corrected, against the fast paths."""

import numpy as np
import pytest

import certeq as ce
from certeq.reference import oce_sb, oce_sg
from tests.problems import SAMPLES, UTILITIES, tolerance


@pytest.mark.parametrize("sample", [name for name, (_, weights) in SAMPLES.items() if weights is None])
@pytest.mark.parametrize("name", UTILITIES)
def test_oce_sb_is_the_exact_value(name, sample):
    x, utility = SAMPLES[sample][0], UTILITIES[name]
    exact = ce.oce(x, utility)
    rounding = tolerance(x, exact)
    s, t = oce_sb(x, utility, 0.0, 0.0)
    assert abs(s - exact) <= 10.0 * rounding
    s, t = oce_sb(x, utility, 1e-2, 1e-3)
    residual = abs(float(np.mean(utility.slope(np.asarray(x, float) - t))) - 1.0)
    assert -rounding <= s - exact <= 2e-2 * residual + rounding + 1e-15


def test_printed_oce_sb_never_ends():
    with pytest.raises(RuntimeError, match="line 2 never ends"):
        oce_sb([-1.0, -2.0], ce.Entropic(1.0), corrected=False)
    with pytest.raises(RuntimeError, match="line 3 never ends"):
        oce_sb([1.0, 2.0], ce.Entropic(1.0), corrected=False)
    for corrected in (False, True):
        with pytest.raises(ValueError, match="samples must be finite; found nan"):
            oce_sb([1.0, np.nan], ce.CVaR(0.1), corrected=corrected)
    assert oce_sb([0.0], ce.Entropic(1.0), corrected=False) == pytest.approx((0.0, 0.0), abs=1e-5)


@pytest.mark.parametrize("m", [7, 64])
@pytest.mark.parametrize("name", UTILITIES)
def test_weights_of_oce_sg_are_the_tilt(name, m):
    utility, x = UTILITIES[name], np.random.default_rng(m).standard_t(4, size=m)
    x[: m // 3] = 0.7 * np.round(x[: m // 3] / 0.7)  # ties, and no t that lies at two kinks
    run = oce_sg(
        [2.0], lambda m: x, lambda theta, Z: Z + 0.0 * theta, lambda theta, Z: np.ones((m, 1)), utility,
        step=lambda k: 0.5, batch=lambda k: m, iterations=1,
    )  # fmt: skip
    (only,) = run
    np.testing.assert_allclose(only.q, ce.tilt(x, utility), atol=1e-9)
    assert only.t == pytest.approx(ce.threshold(x, utility), abs=1e-7) or name == "mean"
    assert only.theta == pytest.approx([1.5])


def test_printed_weights_of_cvar_do_not_sum_to_one():
    def weights(m, corrected):
        x = np.arange(float(m))
        run = oce_sg(
            [0.0], lambda m: x, lambda theta, Z: Z, lambda theta, Z: Z[:, None], ce.CVaR(0.05),
            step=lambda k: 1.0, batch=lambda k: m, iterations=1, corrected=corrected,
        )  # fmt: skip
        return next(run).q.sum()

    assert [weights(m, False) for m in (10, 64)] == pytest.approx([0.0, 0.9375])
    assert [weights(m, True) for m in (10, 64)] == pytest.approx([1.0, 1.0])


def test_oce_sg_makes_the_steps_of_minimize():
    """Full batches and the same steps lead to the same points."""
    A = np.random.default_rng(0).standard_t(4, size=(50, 3))
    simplex = ce.Simplex()
    run = oce_sg(
        np.full(3, 1 / 3), lambda m: A, lambda theta, Z: Z @ theta, lambda theta, Z: Z, ce.Entropic(1.0),
        step=lambda k: 0.3 / k, batch=lambda k: 50, iterations=40, project=simplex.project,
    )  # fmt: skip
    *_, last = run
    found = ce.minimize(
        ce.LinearLoss(A), ce.Entropic(1.0), domain=simplex, method="sg", theta0=np.full(3, 1 / 3),
        step=lambda k: 0.3 / k, batch="full", iterations=40, average="last", rng=0,
    )  # fmt: skip
    np.testing.assert_allclose(last.theta, found.theta, atol=1e-10)
    assert (last.k, last.m, last.q.shape) == (40, 50, (50,))


def test_newsvendor():
    """Order theta of a good that costs 1 and sells for 3, demand exponential; minimize the CVaR of the loss."""
    rng = np.random.default_rng(3)
    demand = rng.exponential(10.0, size=4000)
    run = oce_sg(
        theta=[20.0],
        sample=lambda m: rng.choice(demand, m),
        loss=lambda theta, D: theta - 3.0 * np.minimum(theta, D),
        gradient=lambda theta, D: 1.0 - 3.0 * (theta < D)[:, None],
        utility=ce.CVaR(0.3),
        step=lambda k: 20.0 / k,
        batch=lambda k: 200,
        iterations=400,
        project=lambda theta: np.clip(theta, 0.0, 50.0),
    )
    *_, last = run
    orders = np.linspace(0.0, 10.0, 401)
    risks = [ce.oce(order - 3.0 * np.minimum(order, demand), ce.CVaR(0.3)) for order in orders]
    at = ce.oce(last.theta - 3.0 * np.minimum(last.theta, demand), ce.CVaR(0.3))
    assert at <= min(risks) + 0.02

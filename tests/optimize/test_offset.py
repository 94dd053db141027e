"""Linear losses beside others that theta has no part in: LinearLoss(A, offset=b), wherever a linear loss goes."""

from __future__ import annotations

import numpy as np
import pytest

import certeq as ce
from certeq._table import ArrayTable
from certeq.optimize import hessian, hessian_product
from certeq.optimize.sg import minimize_sg
from tests.optimize.test_exact_risks import sample

A = sample(21, 400, 5)
Y = -A @ np.array([0.6, 0.1, 0.1, 0.1, 0.1]) + 0.002 * np.random.default_rng(21).normal(size=400)
DOMAINS = [ce.Simplex(), ce.Box(-0.5, 0.8), ce.L1Ball(1.0, center=np.full(5, 0.1)), ce.LongShort(1.5)]
UTILITIES = [ce.CVaR(0.1), ce.Entropic(30.0), ce.EVaR(0.1), ce.Mixture([0.5, 0.5], [ce.CVaR(0.1), ce.HMCR(2, 0.3)])]


def test_losses_gradient_and_facts():
    loss, theta, q = ce.LinearLoss(A, offset=Y), np.arange(5.0), np.full(400, 1 / 400)
    losses, product = loss.evaluate(theta)
    assert losses == pytest.approx(A @ theta + Y, abs=1e-15)
    assert product(q) == pytest.approx(A.mean(axis=0), abs=1e-15)
    assert repr(loss) == "LinearLoss(A=<400x5>, offset=<400>)"
    plain = ce.LinearLoss(A)
    assert loss.dimension() == 5
    assert loss.lipschitz() == plain.lipschitz()
    assert loss.spread() == plain.spread()
    assert np.array_equal(loss.jacobian(theta), A)
    assert ce.LinearLoss(A, offset=2.0).losses(theta) == pytest.approx(A @ theta + 2.0, abs=1e-14)
    fixed = ce.LinearLoss(np.column_stack([A, Y]))
    longer = np.append(theta, 1.0)
    for u in (ce.Entropic(20.0), ce.SmoothCVaR(0.1, 0.01)):
        assert hessian(loss, u, theta) == pytest.approx(hessian(fixed, u, longer)[:5, :5], abs=1e-12)
        v = np.array([1.0, -1.0, 0.0, 2.0, 0.0])
        assert hessian_product(loss, u, theta, v) == pytest.approx(hessian(loss, u, theta) @ v, abs=1e-9)


def test_a_bad_offset_is_named():
    with pytest.raises(ValueError, match="offset must have 400 entries; found 3"):
        ce.LinearLoss(A, offset=np.zeros(3))
    with pytest.raises(ValueError, match="offset belongs to the rows of A"):
        ce.LinearLoss(offset=1.0)
    with pytest.raises(ValueError, match="offset must be finite"):
        ce.LinearLoss(A, offset=np.where(np.arange(400) == 3, np.nan, 0.0))
    with pytest.raises(ValueError, match="samples must have 6 columns, the last an offset; found 5"):
        ce.minimize(ce.LinearLoss(A, offset=Y), ce.CVaR(0.1), domain=ce.Simplex(), samples=A)


@pytest.mark.parametrize("domain", DOMAINS, ids=repr)
@pytest.mark.parametrize("utility", UTILITIES, ids=repr)
def test_exact(utility, domain):
    """As with one more asset of which 1 is held."""
    found = ce.minimize(ce.LinearLoss(A, offset=Y), utility, domain=domain, linear=0.001 * np.arange(5.0))
    fixed = ce.minimize(
        ce.LinearLoss(np.column_stack([A, Y])),
        utility,
        domain=ce.Product([domain, ce.Box(1.0, 1.0)], [5, 1]),
        linear=np.append(0.001 * np.arange(5.0), 0.0),
    )
    assert found.converged
    assert fixed.converged
    assert abs(found.value - fixed.value) <= found.gap + fixed.gap + 1e-14
    at = float(ce.oce(A @ found.theta + Y, utility)) + 0.001 * float(np.arange(5.0) @ found.theta)
    assert abs(found.value - at) <= 1e-11
    assert found.tilt.shape == (400,)


@pytest.mark.parametrize("whole", [True, False], ids=["small", "blocks"])
@pytest.mark.parametrize("domain", DOMAINS[:3], ids=repr)
@pytest.mark.parametrize("utility", [ce.CVaR(0.1), ce.Entropic(30.0)], ids=repr)
def test_blocks(monkeypatch, utility, domain, whole):
    if not whole:
        monkeypatch.setattr("certeq.optimize.exact._panel._WHOLE", 0)
    weights = np.random.default_rng(3).integers(0, 3, 400).astype(float)
    known = ce.minimize(ce.LinearLoss(A, offset=Y), utility, domain=domain, weights=weights)
    found = ce.minimize(ce.LinearLoss(ArrayTable(A), offset=Y), utility, domain=domain, weights=weights)
    assert found.converged
    assert abs(found.value - known.value) <= found.gap + known.gap + 1e-14


def test_dask():
    da = pytest.importorskip("dask.array")
    import certeq.scale  # noqa: F401

    lazy, y = da.from_array(A, chunks=(150, 5)), da.from_array(Y, chunks=150)
    found = ce.minimize(ce.LinearLoss(lazy, offset=y), ce.CVaR(0.1), domain=ce.Simplex())
    known = ce.minimize(ce.LinearLoss(A, offset=Y), ce.CVaR(0.1), domain=ce.Simplex())
    assert abs(found.value - known.value) <= found.gap + known.gap + 1e-14


@pytest.mark.parametrize("batch", ["full", 32])
@pytest.mark.parametrize("utility", [ce.CVaR(0.1), ce.Entropic(30.0)], ids=repr)
def test_oce_sg(utility, batch):
    known = ce.minimize(ce.LinearLoss(A, offset=Y), utility, domain=ce.Simplex())
    for data in (A, ArrayTable(A)):
        found = minimize_sg(
            ce.LinearLoss(data, offset=Y), utility, domain=ce.Simplex(), batch=batch, iterations=500, rng=0
        )
        assert known.value - known.gap <= found.value <= known.value + 2e-3
        assert found.value - found.gap <= known.value + 1e-12


def test_lbfgs():
    loss, box = ce.LinearLoss(A, offset=Y), ce.Box(-1.0, 1.0)
    known = ce.minimize(loss, ce.Entropic(30.0), domain=box)
    found = ce.minimize(loss, ce.Entropic(30.0), domain=box, method="lbfgs")
    assert abs(found.value - known.value) <= found.gap + known.gap
    assert found.gap <= 1e-6


def test_a_checkpoint_of_another_offset_is_refused(tmp_path):
    path = tmp_path / "run.npz"
    options = {"domain": ce.Simplex(), "rng": 0, "batch": 16, "checkpoint": path}
    first = minimize_sg(ce.LinearLoss(A, offset=Y), ce.CVaR(0.1), iterations=20, **options)
    again = minimize_sg(ce.LinearLoss(A, offset=Y), ce.CVaR(0.1), iterations=20, **options)
    assert np.array_equal(first.theta, again.theta)
    for other in (ce.LinearLoss(A, offset=Y + 1.0), ce.LinearLoss(A)):
        with pytest.raises(ValueError, match="belongs to a different problem"):
            minimize_sg(other, ce.CVaR(0.1), iterations=40, **options)

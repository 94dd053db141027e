"""Identities with other libraries; where a peer is inexact the test says so."""

import math

import numpy as np
import pytest
import torch

import certeq as ce
from certeq.torch import oce

GENERATOR = torch.Generator().manual_seed(0)


def losses(n):
    return torch.randn(n, dtype=torch.float64, generator=GENERATOR)


def l2_smooth_cvar(alpha, c):
    """sup over y in [0, 1/alpha] of x*y - c/2 (y - 1)^2: what sqwash smooths the superquantile with."""

    def slope(x):
        return (1 + x / c).clip(0, 1 / alpha)

    def value(x):
        return x * slope(x) - 0.5 * c * (slope(x) - 1) ** 2

    def curvature(x):
        return ((1 + x / c > 0) & (1 + x / c < 1 / alpha)) / c

    return ce.utility(value, slope, curvature, name=f"l2_smooth_cvar({alpha}, {c})")


def test_superquantile():
    sqwash = pytest.importorskip("sqwash")
    for n, fraction in ((11, 0.5), (64, 0.3), (101, 0.05)):
        x = losses(n)
        theirs, ours = sqwash.reduce_superquantile(x, fraction), oce(x, ce.CVaR(fraction))
        # Their quantile is interpolated between order statistics: t + E(x - t)^+/alpha lies above the minimum where
        # it is not a minimizer. Their tail mass is a float32: 1e-7.
        assert theirs >= ours - 1e-6
        assert theirs.item() == pytest.approx(ours.item(), abs=2.0 / (n * fraction))
    x = losses(101)  # 0.9 * (101 - 1) is whole: no interpolation
    assert sqwash.reduce_superquantile(x, 0.1).item() == pytest.approx(oce(x, ce.CVaR(0.1)).item(), abs=1e-6)


@pytest.mark.parametrize("nu", [0.5, 5.0, 200.0])
def test_smooth_superquantile(nu):
    sqwash = pytest.importorskip("sqwash")
    n, fraction = 50, 0.3
    x = losses(n).requires_grad_()
    y = x.detach().clone().requires_grad_()
    ours = oce(x, l2_smooth_cvar(fraction, nu / n**2))
    theirs = sqwash.reduce_superquantile_smooth(y, fraction, nu)
    ours.backward()
    theirs.backward()
    assert ours.item() == pytest.approx(theirs.item(), abs=1e-12)
    assert torch.allclose(x.grad, y.grad, atol=1e-10)


def test_pfhedge():
    functional, x = pytest.importorskip("pfhedge.nn.functional"), losses(60)
    theirs = functional.entropic_risk_measure(-x, a=2.0)
    assert oce(x, ce.Entropic(2.0)).item() == pytest.approx(theirs.item(), abs=1e-12)
    theirs = functional.expected_shortfall(-x, 0.1)  # the tail is whole
    assert oce(x, ce.CVaR(0.1)).item() == pytest.approx(theirs.item(), abs=1e-12)
    theirs = functional.expected_shortfall(-x, 0.06)  # 3.6 samples: theirs averages the worst 4
    assert theirs < oce(x, ce.CVaR(0.06))
    assert theirs.item() == pytest.approx(oce(x, ce.CVaR(4 / 60)).item(), abs=1e-12)
    for lam in (1.0, 2.0, 10.0):
        # t + lam E((x - t)^+)^2 is monotone mean-variance in units of 1/(2 lam), less 1/(4 lam). Theirs finds t by
        # bisection to about 1e-6, so it lies above ours by the square of that.
        theirs = functional.quadratic_cvar(-x, lam)
        ours = oce(x, ce.MonotoneMeanVariance(2).scaled(1 / (2 * lam))) - 1 / (4 * lam)
        assert theirs.item() == pytest.approx(ours.item(), abs=1e-9)
        assert theirs >= ours - 1e-14


def test_skfolio():
    measures, x, theta, beta = pytest.importorskip("skfolio.measures"), losses(64), 0.7, 0.9
    assert oce(x, ce.CVaR(0.05)).item() == pytest.approx(measures.cvar(-x.numpy(), beta=0.95), abs=1e-12)
    theirs = measures.entropic_risk_measure(-x.numpy(), theta=theta, beta=beta)  # with a constant of its own
    ours = oce(x, ce.Entropic(1 / theta)).item() - theta * math.log(1 - beta)
    assert ours == pytest.approx(float(np.asarray(theirs)), abs=1e-12)

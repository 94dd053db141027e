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


class TestSqwash:
    sqwash = pytest.importorskip("sqwash")

    @pytest.mark.parametrize("n, fraction", [(11, 0.5), (64, 0.3), (101, 0.05)])
    def test_superquantile(self, n, fraction):
        x = losses(n)
        theirs = self.sqwash.reduce_superquantile(x, fraction)
        # Their quantile is interpolated between order statistics; with it t + E(x - t)^+/alpha is exact only where t
        # is a minimizer, and above the minimum otherwise. (Their tail mass is a float32: 1e-7.)
        assert theirs >= oce(x, ce.CVaR(fraction)) - 1e-6
        assert theirs.item() == pytest.approx(oce(x, ce.CVaR(fraction)).item(), abs=2.0 / (n * fraction))

    def test_superquantile_where_its_quantile_is_a_loss(self):
        x = losses(101)  # 0.9 * (101 - 1) is whole: no interpolation
        assert self.sqwash.reduce_superquantile(x, 0.1).item() == pytest.approx(oce(x, ce.CVaR(0.1)).item(), abs=1e-6)

    @pytest.mark.parametrize("nu", [0.5, 5.0, 200.0])
    def test_smooth_superquantile(self, nu):
        n, fraction = 50, 0.3
        x = losses(n).requires_grad_()
        y = x.detach().clone().requires_grad_()
        ours = oce(x, l2_smooth_cvar(fraction, nu / n**2))
        theirs = self.sqwash.reduce_superquantile_smooth(y, fraction, nu)
        ours.backward()
        theirs.backward()
        assert ours.item() == pytest.approx(theirs.item(), abs=1e-12)
        assert torch.allclose(x.grad, y.grad, atol=1e-10)


class TestPfhedge:
    functional = pytest.importorskip("pfhedge.nn.functional")

    def test_entropic(self):
        x = losses(64)
        theirs = self.functional.entropic_risk_measure(-x, a=2.0)
        assert oce(x, ce.Entropic(2.0)).item() == pytest.approx(theirs.item(), abs=1e-12)

    def test_expected_shortfall_where_the_tail_is_whole(self):
        x = losses(60)
        assert oce(x, ce.CVaR(0.1)).item() == pytest.approx(
            self.functional.expected_shortfall(-x, 0.1).item(), abs=1e-12
        )

    def test_expected_shortfall_rounds_the_tail_up(self):
        x = losses(64)  # 3.2 samples: theirs averages the worst 4
        theirs = self.functional.expected_shortfall(-x, 0.05)
        assert theirs < oce(x, ce.CVaR(0.05))
        assert theirs.item() == pytest.approx(oce(x, ce.CVaR(4 / 64)).item(), abs=1e-12)

    @pytest.mark.parametrize("lam", [1.0, 2.0, 10.0])
    def test_quadratic_cvar(self, lam):
        """t + lam E((x - t)^+)^2 is monotone mean-variance in units of 1/(2 lam), less 1/(4 lam).

        Theirs finds t by bisection to about 1e-6, so it lies above ours by the square of that.
        """
        x = losses(64)
        theirs = self.functional.quadratic_cvar(-x, lam)
        ours = oce(x, ce.MonotoneMeanVariance(2).scaled(1 / (2 * lam))) - 1 / (4 * lam)
        assert theirs.item() == pytest.approx(ours.item(), abs=1e-9)
        assert theirs >= ours - 1e-14


class TestSkfolio:
    measures = pytest.importorskip("skfolio.measures")

    def test_cvar(self):
        x = losses(64)
        assert oce(x, ce.CVaR(0.05)).item() == pytest.approx(self.measures.cvar(-x.numpy(), beta=0.95), abs=1e-12)

    def test_entropic_has_an_extra_constant(self):
        x = losses(64)
        theta, beta = 0.7, 0.9
        theirs = self.measures.entropic_risk_measure(-x.numpy(), theta=theta, beta=beta)
        extra = -theta * math.log(1 - beta)
        assert oce(x, ce.Entropic(1 / theta)).item() + extra == pytest.approx(float(np.asarray(theirs)), abs=1e-12)

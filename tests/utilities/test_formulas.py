"""Utilities on torch and in single precision, and constants of the paper."""

import numpy as np
import pytest

import certeq as ce
from tests.problems import UTILITIES


@pytest.mark.parametrize("name", ["leaky", "smooth", "mmv3", "quartic", "entropic"])
def test_torch_gradients_are_finite_far_out(name):
    torch = pytest.importorskip("torch")
    far = 50.0 if name == "entropic" else 800.0
    x = torch.tensor([-far, -1.0, 0.0, far], dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(UTILITIES[name].value(x).sum(), x)
    np.testing.assert_allclose(gradient.numpy(), UTILITIES[name].slope(x.detach().numpy()), rtol=1e-12, atol=1e-15)


def test_constants_of_the_paper():
    assert ce.Quartic().anchor == pytest.approx(4 ** (-1 / 3) - 1, abs=1e-16)
    assert ce.Quartic().oce_of_zero == pytest.approx(-0.75 * 4 ** (-1 / 3), abs=1e-15)
    assert ce.LeakyCVaR(0.05).oce_of_zero == pytest.approx(-1.12734, abs=1e-5)
    assert ce.LeakyCVaR(0.1).oce_of_zero == pytest.approx(-0.94905, abs=1e-5)
    tau, alpha = 0.3, 0.1
    entropy = -alpha * np.log(alpha) - (1 - alpha) * np.log(1 - alpha)
    assert ce.SmoothCVaR(alpha, tau).oce_of_zero == pytest.approx(tau / alpha * entropy, rel=1e-14)
    x = np.linspace(-2, 2, 41)
    np.testing.assert_allclose(ce.Quartic().value(x), 4 * ce.MonotoneMeanVariance(4).value(x), rtol=1e-14, atol=1e-15)


def test_slopes_and_their_bounds():
    mixed = 0.5 * ce.Entropic(1.0) + 0.5 * ce.CVaR(0.2)
    assert (mixed.slope(0.0), mixed.right_slope(0.0)) == (0.5, 3.0)
    assert (ce.CVaR(0.05).lipschitz, ce.Entropic(1).lipschitz) == (pytest.approx(20), np.inf)


def test_float32_stays_float32():
    x = np.linspace(-1, 1, 5, dtype=np.float32)
    for name in ("entropic", "mmv3", "quartic", "cvar", "leaky", "smooth"):
        assert UTILITIES[name].value(x).dtype == np.float32

"""Risks with more inner variables than t: training, compiled code."""

import numpy as np
import pytest
import torch

import certeq as ce
from certeq.torch import OCELoss, oce
from tests.problems import RISKS


def exp(x):
    return torch.exp(x) if isinstance(x, torch.Tensor) else np.exp(x)


# The custom utilities of the registry have no formulas for tensors.
KINDS = {name: entry.risk for name, entry in RISKS.items() if name not in ("custom", "two_kinks")} | {
    "custom": ce.utility(lambda x: 2 * (exp(x / 2) - 1), lambda x: exp(x / 2), lambda x: exp(x / 2) / 2),
    "cvar_and_wang": ce.Mixture([0.5, 0.5], [ce.Wang(0.6), ce.CVaR(0.5)]),
    "largest": ce.HMCR(1.5, 0.05),
}


def losses(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def differences(function, at, step=1e-6):
    return np.array([(function(at + e) - function(at - e)) / (2 * step) for e in step * np.eye(len(at))])


@pytest.mark.parametrize("name", KINDS)
def test_derivatives_in_losses_and_weights(name):
    """Against central differences of `certeq.oce`, by gradcheck, and second ones unless they are refused."""
    risk, x, w = KINDS[name], losses(7, seed=1), losses(7, seed=2).abs() + 0.1
    x.requires_grad_(), w.requires_grad_()
    array, weights = x.detach().numpy(), w.detach().numpy()
    (slope,) = torch.autograd.grad(oce(x, risk), x)
    np.testing.assert_allclose(slope, differences(lambda z: ce.oce(z, risk), array), atol=1e-6)
    assert torch.autograd.gradcheck(lambda z: oce(z, risk), x)
    if name == "distortion":  # of a function whose derivative nobody gave
        with pytest.raises(NotImplementedError, match="weight must not require a gradient"):
            oce(x, risk, weight=w)
        return
    both = torch.autograd.grad(oce(x, risk, weight=w), (x, w))
    np.testing.assert_allclose(both[0], differences(lambda z: ce.oce(z, risk, weights=weights), array), atol=1e-6)
    np.testing.assert_allclose(both[1], differences(lambda z: ce.oce(array, risk, weights=z), weights), atol=1e-6)
    assert torch.autograd.gradcheck(lambda z, v: oce(z, risk, weight=v), (x, w))
    if name == "kinked_ball":
        with pytest.raises(NotImplementedError, match="has kinks"):
            torch.autograd.grad(oce(x, risk, weight=w), w, create_graph=True)
    else:
        assert torch.autograd.gradgradcheck(lambda z, v: oce(z, risk, weight=v), (x, w), atol=1e-5, rtol=1e-3)


def test_weights_that_are_0_and_losses_that_tie_have_gradients():
    x, w = losses(8, seed=3).round(), losses(8, seed=4).abs()
    w[2] = 0.0
    for risk in (ce.Wang(0.6), ce.PowerDistortion(1.5), KINDS["cvar_and_wang"], ce.EVaR(0.3)):
        leaf = w.clone().requires_grad_()
        (slope,) = torch.autograd.grad(oce(torch.where(w == 0.0, torch.nan, x), risk, weight=leaf), leaf)
        expected = differences(lambda v, r=risk: ce.oce(x.numpy(), r, weights=np.where(w == 0.0, 0.0, v)), w.numpy())
        np.testing.assert_allclose(slope, expected, atol=1e-6)


def test_a_ball_whose_risk_is_cvar():
    x, mask = losses(30), losses(30, seed=1) > -0.5
    for risk in (ce.SmoothCVaR(0.2).ball(5.0), ce.CVaR(0.2)):
        assert oce(x, risk).item() == pytest.approx(ce.oce(x.numpy(), ce.CVaR(0.2)), rel=1e-12)
        assert oce(x, risk, weight=mask).item() == pytest.approx(ce.oce(x[mask].numpy(), ce.CVaR(0.2)), rel=1e-12)


def test_loss_module_trains_and_compiles():
    torch.manual_seed(0)
    x, y = torch.randn(64, 3), torch.randn(64)
    for risk in (ce.EVaR(0.1), ce.MonotoneMeanVariance(2).ball(0.2)):
        model = torch.nn.Linear(3, 1)
        criterion = OCELoss(risk, torch.nn.MSELoss(reduction="none"))
        optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
        values = []
        for _ in range(30):
            optimizer.zero_grad()
            value = criterion(model(x).squeeze(-1), y)
            value.backward()
            optimizer.step()
            values.append(value.item())
        assert values[-1] < values[0]

    def step(z):
        return oce(z.square(), ce.EVaR(0.1)) * 2.0

    leaf = losses(16).requires_grad_()
    (plain,) = torch.autograd.grad(step(leaf), leaf)
    (compiled,) = torch.autograd.grad(torch.compile(step, backend="eager")(leaf), leaf)
    np.testing.assert_allclose(compiled, plain)

"""Risks with more inner variables than t: training, compiled code."""

import numpy as np
import pytest
import torch

import certeq as ce
from certeq.torch import OCELoss, oce


def losses(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


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

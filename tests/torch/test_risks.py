"""Risks with more inner variables than t, as losses to train on: values, first and second derivatives, masks."""

import numpy as np
import pytest
import torch

import certeq as ce
from certeq.torch import MemoryOCELoss, OCELoss, oce, threshold, tilt
from tests.problems import RISKS

SMOOTH = [
    ce.EVaR(0.2),
    ce.Entropic(2.0).ball(0.3),
    ce.MonotoneMeanVariance(2).ball(0.05),
    ce.MonotoneMeanVariance(3).ball(0.4),
    ce.HMCR(3, 0.6),
    ce.SmoothCVaR(0.2).ball(0.02),
    ce.MeanVariance(0.5).ball(0.2),
    ce.Mixture([0.5, 0.5], [ce.EVaR(0.3), ce.Entropic(0.7)]),
]
OTHERS = [
    ce.HMCR(1, 0.2),
    ce.CVaR(0.3).ball(1.0),
    (0.5 * ce.Entropic() + 0.5 * ce.CVaR(0.2)).ball(0.2),
    ce.EVaR(0.01),  # the largest loss
    ce.SmoothCVaR(0.2).ball(5.0),  # CVaR
    ce.Wang(0.5),
    ce.Mixture([0.5, 0.5], [ce.Wang(0.5), ce.CVaR(0.1)]),
]


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


@pytest.mark.parametrize("risk", [*SMOOTH, *OTHERS], ids=repr)
def test_value_and_gradient_are_those_of_arrays(risk):
    x = losses(30).requires_grad_()
    for weight in (None, torch.rand(30, dtype=torch.float64, generator=torch.Generator().manual_seed(1))):
        w = None if weight is None else weight.numpy()
        value = oce(x, risk, weight=weight)
        (gradient,) = torch.autograd.grad(value, x)
        assert value.item() == pytest.approx(ce.oce(x.detach().numpy(), risk, weights=w), rel=1e-12)
        np.testing.assert_allclose(gradient, ce.tilt(x.detach().numpy(), risk, weights=w), atol=1e-12)
        np.testing.assert_allclose(tilt(x.detach(), risk, weight=weight), gradient, atol=1e-12)
        # The same by tensors, as on a device.
        from certeq.torch._risks import reduce_risk

        again = reduce_risk("oce", x, risk, weight, (0,), False)
        assert again.item() == pytest.approx(value.item(), rel=1e-12)
        np.testing.assert_allclose(torch.autograd.grad(again, x)[0], gradient, atol=1e-9)


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


@pytest.mark.parametrize("risk", SMOOTH, ids=repr)
def test_second_derivatives_are_those_of_differences(risk):
    x = losses(9, seed=3).requires_grad_()
    direction = losses(9, seed=4)
    (gradient,) = torch.autograd.grad(oce(x, risk), x, create_graph=True)
    (product,) = torch.autograd.grad(gradient @ direction, x)
    step = 1e-5
    with torch.no_grad():
        difference = (tilt(x + step * direction, risk) - tilt(x - step * direction, risk)) / (2 * step)
        moves = (threshold(x + step * direction, risk) - threshold(x - step * direction, risk)) / (2 * step)
    np.testing.assert_allclose(product, difference, atol=1e-7)
    assert torch.autograd.gradcheck(lambda z: oce(z, risk), x, atol=1e-6)
    (slope,) = torch.autograd.grad(tilt(x, risk) @ direction, x)
    np.testing.assert_allclose(slope, difference, atol=1e-7)
    t = threshold(x, risk)
    (of_threshold,) = torch.autograd.grad(t.sum(), x)
    assert float(of_threshold @ direction) == pytest.approx(float(moves.sum()), abs=1e-6)


def test_distortions_and_cvar_have_no_second_derivative():
    x = losses(9).requires_grad_()
    for risk in (ce.Wang(0.5), ce.EVaR(0.01)):
        (gradient,) = torch.autograd.grad(oce(x, risk), x, create_graph=True)
        if gradient.requires_grad:
            assert torch.autograd.grad(gradient.sum(), x)[0].abs().max() == 0.0
    with pytest.raises(NotImplementedError, match="has kinks"):
        torch.autograd.grad(oce(x, OTHERS[2]), x, create_graph=True)


@pytest.mark.parametrize("risk", [SMOOTH[0], SMOOTH[2], SMOOTH[-1], OTHERS[5]], ids=repr)
def test_dimensions_masks_and_short_floats(risk):
    x = losses(4, 5, 6)
    by_row = oce(x, risk, dim=-1)
    assert by_row.shape == (4, 5)
    assert by_row[2, 3].item() == pytest.approx(oce(x[2, 3], risk).item(), rel=1e-12)
    assert oce(x, risk, dim=(0, 2), keepdim=True).shape == (1, 5, 1)
    leaf = x.clone().requires_grad_()
    oce(leaf, risk, dim=1).sum().backward()
    np.testing.assert_allclose(leaf.grad, tilt(x, risk, dim=1), atol=1e-12)
    mask = torch.rand(4, 5, 6, generator=torch.Generator().manual_seed(1)) < 0.7
    spoiled = torch.where(mask, x, torch.nan).requires_grad_()
    value = oce(spoiled, risk, weight=mask)
    assert value.item() == pytest.approx(oce(x[mask], risk).item(), rel=1e-12)
    value.backward()
    assert (spoiled.grad[~mask] == 0).all()
    assert spoiled.grad.sum().item() == pytest.approx(1.0)
    for dtype in (torch.float32, torch.bfloat16):
        short = x.to(dtype).requires_grad_()
        found = oce(short, risk)
        assert found.dtype is dtype
        digits = 1e-2 if dtype is torch.bfloat16 else 1e-6
        assert found.item() == pytest.approx(oce(short.double(), risk).item(), rel=digits)
        found.backward()
        assert short.grad.double().sum().item() == pytest.approx(1.0, rel=10 * digits)


def test_loss_module_trains_and_compiles():
    torch.manual_seed(0)
    x, y = torch.randn(64, 3), torch.randn(64)
    for risk in (ce.EVaR(0.1), ce.MonotoneMeanVariance(2).ball(0.2)):
        model = torch.nn.Linear(3, 1)
        criterion = OCELoss(risk, torch.nn.MSELoss(reduction="none"))
        assert repr(risk) in repr(criterion)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
        values = []
        for _ in range(30):
            optimizer.zero_grad()
            value = criterion(model(x).squeeze(-1), y)
            value.backward()
            optimizer.step()
            values.append(value.item())
        assert values[-1] < values[0]

        def step(z, risk=risk):
            return oce(z.square(), risk) * 2.0

        leaf = losses(16).requires_grad_()
        (plain,) = torch.autograd.grad(step(leaf), leaf)
        (compiled,) = torch.autograd.grad(torch.compile(step, backend="eager")(leaf), leaf)
        np.testing.assert_allclose(compiled, plain)


def test_refusals():
    x = losses(5)
    with pytest.raises(TypeError, match="cannot be learned"):
        oce(x, ce.Entropic(torch.tensor(1.0, requires_grad=True)).ball(0.1))
    with pytest.raises(TypeError, match="utility must be a Utility: the memory"):
        MemoryOCELoss(ce.EVaR(0.1))
    with pytest.raises(NotImplementedError, match=r"torch\.func"):
        torch.func.grad(lambda z: oce(z, ce.EVaR(0.1)))(x)
    with pytest.raises(TypeError, match="no finite number of inner variables"):
        threshold(x, ce.Wang(0.1))
    with pytest.raises(ValueError, match="holds NaN at index 2"):
        oce(torch.where(torch.arange(5) == 2, torch.nan, x), ce.EVaR(0.1))


def test_ranks_agree_on_the_risk():
    """One process is a group too: losses are gathered, and the risk is compared by its answers."""
    distributed = torch.distributed
    if not distributed.is_available() or distributed.is_initialized():
        pytest.skip("needs torch.distributed, and no group yet")
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    try:
        for risk in (ce.EVaR(0.2), ce.Wang(0.5), ce.Mixture([0.5, 0.5], [ce.EVaR(0.3), ce.CVaR(0.3)])):
            x = losses(20).requires_grad_()
            value = oce(x, risk, process_group="world")
            value.backward()
            assert value.item() == pytest.approx(oce(x.detach(), risk).item(), rel=1e-13)
            np.testing.assert_allclose(x.grad, tilt(x.detach(), risk), atol=1e-13)
            np.testing.assert_allclose(tilt(x.detach(), risk, process_group="world"), x.grad, atol=1e-13)
    finally:
        distributed.destroy_process_group()

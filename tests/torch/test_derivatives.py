"""Second derivatives at kinks and far away, and compiled code."""

import warnings

import pytest
import torch
from torch import nn
from torch.autograd import gradgradcheck

import certeq as ce
from certeq.torch import OCELoss, oce, threshold, tilt
from tests.problems import UTILITIES

SMOOTH = ["entropic", "mean_variance", "mmv3", "quartic", "leaky", "smooth"]


def losses(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).requires_grad_()


@pytest.mark.parametrize(
    "mixed", [0.5 * ce.Entropic(1.0) + 0.5 * ce.CVaR(0.3), 0.4 * ce.CVaR(0.2) + 0.6 * ce.Quartic()]
)
def test_second_derivatives_with_a_loss_on_a_kink(mixed):
    for seed in range(4):
        assert gradgradcheck(lambda x: oce(x, mixed), losses(7, seed=seed), atol=1e-6, rtol=1e-4)


def test_risks_without_a_second_derivative():
    for risk in (ce.CVaR(0.3), ce.Wang(0.5), ce.EVaR(0.01)):
        x = losses(9)
        (gradient,) = torch.autograd.grad(oce(x, risk), x, create_graph=True)
        if gradient.requires_grad:
            assert torch.autograd.grad(gradient.sum(), x)[0].abs().max() == 0.0
    hessian = torch.autograd.functional.hessian(lambda x: oce(x, ce.CVaR(0.3)), losses(8))
    assert torch.equal(hessian, torch.zeros(8, 8, dtype=torch.float64))


@pytest.mark.parametrize("name", SMOOTH)
def test_hessian_is_the_formula(name):
    """diag(w u'') - (w u'')(w u'')^T / E u'' at x - t*."""
    x, smooth = losses(9).detach(), UTILITIES[name]
    t = threshold(x, smooth)
    h = smooth.curvature(x - t) / 9
    wanted = torch.diag(h) - torch.outer(h, h) / h.sum()
    for hessian in (
        torch.func.hessian(lambda x: oce(x, smooth))(x),
        torch.autograd.functional.hessian(lambda x: oce(x, smooth), x),
    ):
        assert torch.allclose(hessian, wanted, atol=1e-9)


def test_far_losses_have_finite_second_derivatives():
    x = torch.tensor([0.0, 1.0, 500.0], dtype=torch.float64)
    for u in (ce.SmoothCVaR(0.5, 0.1), ce.Entropic(10.0), ce.LeakyCVaR(0.2)):
        assert torch.isfinite(torch.autograd.functional.hessian(lambda x, u=u: oce(x, u), x)).all()


def test_cvar_shares_the_fraction_among_ties():
    x = torch.tensor([0.0, 1.0, 1.0, 1.0, 2.0], dtype=torch.float64)
    wanted = torch.tensor([0.0, 0.2, 0.2, 0.2, 0.4], dtype=torch.float64)
    assert torch.allclose(tilt(x, ce.CVaR(0.5)), wanted)
    assert torch.allclose(torch.func.vmap(lambda x: tilt(x, ce.CVaR(0.5)))(x[None])[0], wanted)


class TestCompile:
    @staticmethod
    def check(utility, backend):
        torch._dynamo.reset()
        base = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 5.0, 0.0], dtype=torch.float64), reduction="none")
        criterion = OCELoss(utility, base)
        scores, target = losses(40, 3), torch.arange(40) % 3
        target[::5] = -100
        compiled = torch.compile(criterion, fullgraph=True, backend=backend)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            value, wanted = compiled(scores, target), criterion(scores, target)
            (gradient,), (slope,) = (torch.autograd.grad(each, scores) for each in (value, wanted))
        assert value.item() == pytest.approx(wanted.item(), abs=1e-12)
        assert torch.allclose(gradient, slope, atol=1e-9)
        torch._dynamo.reset()

    @pytest.mark.parametrize("name", ["cvar", "entropic_cvar"])
    def test_no_graph_break(self, name):
        self.check(UTILITIES[name], "aot_eager")

    @pytest.mark.slow
    @pytest.mark.parametrize("name", [name for name in UTILITIES if name not in ("custom", "two_kinks")])
    def test_every_utility_with_inductor(self, name):
        self.check(UTILITIES[name], "inductor")

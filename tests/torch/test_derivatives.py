"""First and second derivatives, transforms, compilation, learned parameters."""

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

import certeq as ce
from certeq.torch import OCELoss, oce, threshold, tilt
from tests.torch.cases import PLAIN

SMOOTH = ["entropic", "mean-variance", "mmv3", "quartic", "leaky", "smooth"]


def losses(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).requires_grad_()


@pytest.fixture(params=SMOOTH)
def smooth(request):
    return PLAIN[request.param]


def test_gradcheck(utility):
    assert gradcheck(lambda x: oce(x, utility), losses(9), atol=1e-6, rtol=1e-4)
    assert gradcheck(lambda x: oce(x, utility, dim=1), losses(2, 7), atol=1e-6, rtol=1e-4)


def test_gradgradcheck(smooth):
    assert gradgradcheck(lambda x: oce(x, smooth), losses(6), atol=1e-6, rtol=1e-4)
    assert gradgradcheck(lambda x: oce(x, smooth, dim=0), losses(6, 2), atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize(
    "mixed", [0.5 * ce.Entropic(1.0) + 0.5 * ce.CVaR(0.3), 0.4 * ce.CVaR(0.2) + 0.6 * ce.Quartic()]
)
@pytest.mark.parametrize("seed", range(4))
def test_second_derivatives_with_a_loss_on_a_kink(mixed, seed):
    assert gradgradcheck(lambda x: oce(x, mixed), losses(7, seed=seed), atol=1e-6, rtol=1e-4)


def test_cvar_has_no_curvature():
    hessian = torch.autograd.functional.hessian(lambda x: oce(x, ce.CVaR(0.3)), losses(8))
    assert torch.equal(hessian, torch.zeros(8, 8, dtype=torch.float64))


def test_threshold_and_tilt_are_differentiable(smooth):
    assert gradcheck(lambda x: threshold(x, smooth), losses(7), atol=1e-6, rtol=1e-4)
    assert gradcheck(lambda x: tilt(x, smooth), losses(7), atol=1e-6, rtol=1e-4)


def test_weights_get_gradients(smooth):
    w = torch.rand(7, dtype=torch.float64, generator=torch.Generator().manual_seed(1)).add_(0.1).requires_grad_()
    assert gradcheck(lambda x, w: oce(x, smooth, weight=w), (losses(7), w), atol=1e-6, rtol=1e-4)


def test_forward_mode(utility):
    assert gradcheck(lambda x: oce(x, utility), losses(7), check_forward_ad=True, atol=1e-6, rtol=1e-4)


def test_hessian_is_the_formula(smooth):
    """diag(w u'') - (w u'')(w u'')^T / E u''  at x - t*."""
    x = losses(9).detach()
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


def test_vmap_and_grad(utility):
    x = losses(5, 12).detach()
    assert torch.allclose(torch.func.vmap(lambda r: oce(r, utility))(x), oce(x, utility, dim=1), atol=1e-12)
    per_row = torch.func.vmap(torch.func.grad(lambda r: oce(r, utility)))(x)
    assert torch.allclose(per_row, tilt(x, utility, dim=1), atol=1e-7)


class TestCompile:
    @staticmethod
    def check(utility, backend, dtype=torch.float64):
        utility.anchor  # found beforehand, as OCELoss does
        torch._dynamo.reset()
        x = losses(64)
        compiled = torch.compile(lambda x: oce(x * x, utility), fullgraph=True, backend=backend)
        value = compiled(x)
        (gradient,) = torch.autograd.grad(value, x)
        wanted = oce(x * x, utility)
        assert value.item() == pytest.approx(wanted.item(), abs=1e-12)
        assert torch.allclose(gradient, torch.autograd.grad(wanted, x)[0], atol=1e-9)

    @pytest.mark.parametrize("name", ["entropic", "mean-variance", "cvar", "smooth"])
    def test_no_graph_break(self, name):
        self.check(PLAIN[name], "aot_eager")

    @pytest.mark.slow
    def test_every_utility_with_inductor(self, plain):
        self.check(plain, "inductor")

    @pytest.mark.slow
    def test_a_training_step_with_inductor(self):
        torch._dynamo.reset()
        net, criterion = torch.nn.Linear(3, 1), OCELoss(ce.CVaR(0.1), torch.nn.MSELoss(reduction="none"))
        x, y = torch.randn(64, 3), torch.randn(64, 1)
        step = torch.compile(lambda x, y: criterion(net(x), y), fullgraph=True)
        loss = step(x, y)
        loss.backward()
        assert loss.item() == pytest.approx(criterion(net(x), y).item(), rel=1e-5)


class TestLearnedParameters:
    def test_envelope_theorem(self):
        x = losses(20).detach()

        def at(value):
            return oce(x, ce.Entropic(value))

        beta = torch.tensor(1.5, dtype=torch.float64, requires_grad=True)
        at(beta).backward()
        assert beta.grad.item() == pytest.approx((at(1.5 + 1e-6) - at(1.5 - 1e-6)).item() / 2e-6, rel=1e-6)

    @pytest.mark.parametrize(
        "make",
        [
            ce.CVaR,
            lambda a: ce.SmoothCVaR(a, 0.2),
            ce.LeakyCVaR,
            lambda a: ce.MeanVariance(a),
            lambda a: ce.Quartic().scaled(a),
        ],
    )
    def test_gradcheck(self, make):
        alpha = torch.tensor(0.33, dtype=torch.float64, requires_grad=True)
        assert gradcheck(lambda x, a: oce(x, make(a)), (losses(7), alpha), atol=1e-6, rtol=1e-4)

    def test_second_derivatives_mix(self):
        beta = torch.tensor(0.8, dtype=torch.float64, requires_grad=True)
        assert gradgradcheck(lambda x, b: oce(x, ce.Entropic(b)), (losses(6), beta), atol=1e-6, rtol=1e-4)

    def test_a_module_learns_its_risk_aversion(self):
        beta = torch.nn.Parameter(torch.tensor(1.0))
        criterion = OCELoss(ce.Entropic(beta))
        assert list(criterion.parameters()) == [beta]
        criterion(torch.randn(50)).backward()
        assert beta.grad > 0  # entropic risk grows with beta
        assert torch.isfinite(beta.grad)

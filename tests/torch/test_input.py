"""Bad input: each a clear error that names the argument, what was found and what would be right."""

import importlib
import sys

import pytest
import torch

import certeq as ce
from certeq.torch import OCESG, GrowingBatchSampler, MemoryOCELoss, OCELoss, oce, threshold, tilt

U = ce.CVaR(0.5)


@pytest.mark.parametrize("bad", [torch.arange(4), torch.tensor([True]), torch.zeros(2, dtype=torch.complex64)])
def test_losses_must_be_floating(bad):
    with pytest.raises(TypeError, match="losses must be floating; found dtype"):
        oce(bad, U)


def test_losses_must_be_a_tensor():
    with pytest.raises(TypeError, match=r"losses must be a torch tensor; found list.*certeq.oce"):
        oce([1.0, 2.0], U)


def test_empty_batch():
    with pytest.raises(ValueError, match=r"losses is empty, with shape \(0, 3\)"):
        oce(torch.zeros(0, 3), U)


@pytest.mark.parametrize("utility", [U, ce.Entropic(1.0), ce.Quartic(), ce.SmoothCVaR(0.1), ce.MeanVariance(1.0)])
def test_nan_and_inf_are_named(utility):
    x = torch.zeros(5)
    x[3] = torch.nan
    with pytest.raises(ValueError, match="losses holds NaN at index 3.*allow_inf=True"):
        oce(x, utility)
    x[3] = torch.inf
    with pytest.raises(ValueError, match=r"losses holds \+inf at index 3.*allow_inf=True"):
        oce(x, utility)
    with pytest.raises(ValueError, match=r"losses holds \+inf at index \(0, 3\)"):
        oce(x[None], utility, dim=1)


def test_minus_inf():
    x = torch.tensor([0.0, -torch.inf], requires_grad=True)
    with pytest.raises(ValueError, match="losses holds -inf at index 1"):
        oce(x, ce.Quartic())
    lower = torch.tensor([3.0, -torch.inf, 2.0, 1.0, 0.5, 0.0])  # once CVaR looked at its tail alone
    for call in (
        lambda: oce(lower, ce.CVaR(0.3)),
        lambda: oce(lower, ce.CVaR(0.3), keepdim=True),
        lambda: threshold(lower, ce.CVaR(0.3)),
        lambda: tilt(lower, ce.CVaR(0.3)),
        lambda: ce.oce(lower.numpy(), ce.CVaR(0.3)),
    ):
        with pytest.raises(ValueError, match="-inf at index 1"):
            call()
    with pytest.raises(ValueError, match=r"-inf at index \(0, 1\)"):
        oce(lower[None], ce.CVaR(0.3), dim=1)


@pytest.mark.parametrize("utility", [U, ce.Entropic(1.0), ce.Mean(), ce.SmoothCVaR(0.1)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("size", [3, 5000])
def test_minus_inf_is_refused_on_every_path(utility, dtype, size):
    x = torch.linspace(-1.0, 1.0, size, dtype=dtype)
    x[1] = -torch.inf
    rows = x.expand(2, size)
    learned = ce.Entropic(torch.nn.Parameter(torch.tensor(1.0)))
    for call in (
        lambda: oce(x, utility),
        lambda: oce(x.requires_grad_(), utility, allow_inf=True),
        lambda: oce(x, utility, weight=torch.arange(1, size + 1)),
        lambda: oce(rows, utility, dim=1),
        lambda: oce(rows, utility, dim=1, weight=torch.arange(1, size + 1)),
        lambda: threshold(x, utility),
        lambda: tilt(x, utility),
        lambda: oce(x, learned),
        lambda: OCELoss(utility)(x),
        lambda: MemoryOCELoss(utility)(x),
    ):
        with pytest.raises(ValueError, match=r"holds -inf at index (1|\(0, 1\))"):
            call()


@pytest.mark.parametrize("utility", [U, ce.Entropic(1.0), ce.Quartic(), ce.SmoothCVaR(0.1), ce.EVaR(0.2), ce.Wang(0.5)])
@pytest.mark.parametrize("bad", [torch.inf, torch.nan])
def test_inf_and_nan_may_pass(utility, bad):
    x = torch.tensor([[1.0, bad], [1.0, 2.0]], requires_grad=True)
    bad = torch.tensor(bad)
    torch.testing.assert_close(oce(x, utility, allow_inf=True).detach(), bad, equal_nan=True)
    rows = oce(x, utility, allow_inf=True, dim=1)
    torch.testing.assert_close(rows[0].detach(), bad, equal_nan=True)
    assert rows[1].item() == pytest.approx(oce(x[1], utility).item())
    oce(x, utility, allow_inf=True).backward()
    assert not torch.isfinite(x.grad).all()  # so that a GradScaler skips the step


def test_without_validation_nan_comes_out():
    assert oce(torch.tensor([1.0, torch.nan]), U, validate=False).isnan()


def test_weight():
    x = torch.zeros(3)
    with pytest.raises(ValueError, match=r"weight must have the shape of losses, \(3,\); found \(2,\)"):
        oce(x, U, weight=torch.ones(2))
    with pytest.raises(ValueError, match=r"\(2, 3\) or, one per sample, \(3,\); found \(2,\)"):
        oce(torch.zeros(2, 3), U, weight=torch.ones(2), dim=1)
    with pytest.raises(ValueError, match=r"weight must be finite and not negative; found -1.0 at index 1"):
        oce(x, U, weight=torch.tensor([1.0, -1.0, 1.0]))
    with pytest.raises(ValueError, match="weight sums to 0"):
        oce(x, U, weight=torch.zeros(3))
    with pytest.raises(TypeError, match="weight must be a torch tensor; found list"):
        oce(x, U, weight=[1.0, 1.0, 1.0])
    with pytest.raises(TypeError, match="weight must hold real numbers or be a mask; found dtype torch.complex64"):
        tilt(x, U, weight=torch.zeros(3, dtype=torch.complex64))
    with pytest.raises(ValueError, match="weight sums to 0 at index 1 of the other dimensions"):
        oce(torch.zeros(2, 3), U, weight=torch.tensor([[1, 1, 1], [0, 0, 0]]), dim=1)


def test_dim():
    with pytest.raises(IndexError, match="dim must name dimensions of losses, which have 1; found 2"):
        oce(torch.zeros(3), U, dim=2)
    with pytest.raises(ValueError, match="dim must not name a dimension twice"):
        oce(torch.zeros(3, 2), U, dim=(0, -2))


def test_utility():
    with pytest.raises(TypeError, match=r"utility must be an instance; write CVaR\(\) rather than CVaR"):
        oce(torch.zeros(3), ce.CVaR)
    with pytest.raises(TypeError, match="utility must be a certeq Utility such as"):
        OCELoss("cvar")
    with pytest.raises(ValueError, match="1 must lie strictly between"):
        OCELoss(0.2 * ce.Mean())


def test_base_that_reduces():
    with pytest.raises(ValueError, match=r"MSELoss has reduction='mean'. Construct it with reduction='none'"):
        OCELoss(U, torch.nn.MSELoss())
    with pytest.raises(TypeError, match="found the class MSELoss"):
        OCELoss(U, torch.nn.MSELoss)
    with pytest.raises(TypeError, match=r"base must be a loss that is called as base\(input, target\)"):
        OCELoss(U, "mse")
    silent = OCELoss(U, torch.nn.functional.mse_loss)
    with pytest.raises(ValueError, match=r"mse_loss returned a single number. It already reduces"):
        silent(torch.zeros(3), torch.ones(3))
    with pytest.raises(TypeError, match="target but has no base"):
        OCELoss(U)(torch.zeros(3), torch.ones(3))


def test_optimizer_sampler_memory():
    p = torch.zeros(1, requires_grad=True)
    with pytest.raises(ValueError, match='schedule must be one of "constant"'):
        OCESG([p], schedule="1/k^2")
    with pytest.raises(TypeError, match="project must be a function of a tensor or have a method project"):
        OCESG([p], project=3)
    with pytest.raises(ValueError, match="lr must be a finite number above 0"):
        OCESG([p], lr=-1.0)
    with pytest.raises(ValueError, match="data is empty"):
        GrowingBatchSampler([], 3)
    with pytest.raises(ValueError, match="steps must be a whole number"):
        GrowingBatchSampler([1], 0)
    with pytest.raises(ValueError, match="size must give at least 1"):
        list(GrowingBatchSampler([1], 1, size=lambda k: 0))
    with pytest.raises(ValueError, match="memory must be a whole number"):
        MemoryOCELoss(U, memory=0)


def test_without_torch_one_line_says_what_to_install(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("certeq.torch")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r"pip install 'certeq\[torch\]'"):
        importlib.import_module("certeq.torch")


@pytest.mark.parametrize("bad", [0.5, "a", (0, 0.5), True])
def test_dim_must_be_whole(bad):
    with pytest.raises(TypeError, match="dim must be a whole number, a tuple of them, or None; found"):
        oce(torch.zeros(3), U, dim=bad)


def test_losses_must_be_dense():
    with pytest.raises(TypeError, match=r"losses must be a dense tensor; found layout .*\.to_dense\(\)"):
        oce(torch.ones(3).to_sparse(), U)


@pytest.mark.parametrize("bad", [torch.inf, torch.nan])
def test_a_grad_scaler_survives_losses_that_are_not_finite(bad):
    """It skips the step and halves its scale; nothing of the batch is stored."""
    for criterion in (OCELoss(U, allow_inf=True), MemoryOCELoss(U, memory=8, allow_inf=True)):
        w = torch.nn.Parameter(torch.ones(()))
        optimizer, scaler = torch.optim.SGD([w], lr=0.1), torch.amp.GradScaler("cpu", init_scale=4.0)
        for x, scale, step in ((1.0, 4.0, True), (bad, 2.0, False), (3.0, 2.0, True)):
            before = w.item()
            optimizer.zero_grad()
            scaler.scale(criterion(w * torch.tensor([0.0, 1.0, x]))).backward()
            scaler.step(optimizer)
            scaler.update()
            assert scaler.get_scale() == scale
            assert (w.item() != before) == step
    assert torch.isfinite(criterion.bank).all()
    assert criterion.filled == 6
    with pytest.raises(ValueError, match="at index 1.*allow_inf=True"):
        MemoryOCELoss(U)(torch.tensor([1.0, bad]))
    unchecked = MemoryOCELoss(U, validate=False)
    unchecked(torch.full((4,), bad))
    assert unchecked.filled == 0
    assert torch.isfinite(unchecked(torch.rand(4)))


def test_the_core_refuses_a_parameter_that_is_learned():
    rate = torch.tensor(2.0, requires_grad=True)
    for utility in (ce.Entropic(rate), 0.5 * ce.Mean() + 0.5 * ce.Entropic(rate), ce.Entropic(rate).normalized()):
        for ask in (ce.oce, ce.estimate, ce.tilt):
            with pytest.raises(TypeError, match=r"requires a gradient, which is lost here.*certeq\.torch\.oce"):
                ask([1.0, 2.0], utility)

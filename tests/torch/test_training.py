"""Training with plain PyTorch and skorch; OCE-SG, growing batches, the memory of a loss."""

import pytest
import torch
from torch import nn

import certeq as ce
from certeq.torch import OCESG, GrowingBatchSampler, MemoryOCELoss, OCELoss, oce


def toy(n=256, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 3, generator=generator)
    noise = torch.randn(n, 1, generator=generator) * (0.1 + 0.4 * x[:, :1].abs())
    return x, x @ torch.tensor([[1.0], [-1.0], [0.5]]) + noise


def test_skorch():
    skorch = pytest.importorskip("skorch")
    torch.manual_seed(0)  # the network begins anywhere, and from a few places falls by less than half
    x, y = toy()
    net = skorch.NeuralNetRegressor(
        nn.Linear(3, 1),
        criterion=OCELoss,
        criterion__utility=ce.SmoothCVaR(0.2),
        criterion__base=nn.MSELoss(reduction="none"),
        max_epochs=15,
        lr=0.05,
        train_split=None,
        verbose=0,
    )
    net.fit(x.numpy(), y.numpy())
    assert net.history[-1, "train_loss"] < 0.5 * net.history[0, "train_loss"]


class TestOCESG:
    def test_schedules(self):
        sums = {"constant": 3, "1/sqrt(k)": 1 + 2**-0.5 + 3**-0.5, "1/k": 1 + 1 / 2 + 1 / 3, lambda k: k: 6}
        for schedule, total in sums.items():
            p = torch.zeros(1, dtype=torch.float64, requires_grad=True)
            optimizer = OCESG([p], lr=0.1, schedule=schedule)
            for _ in range(3):
                p.grad = torch.ones_like(p)
                optimizer.step()
            assert p.item() == pytest.approx(-0.1 * total), schedule

    def test_projection_and_average(self):
        class Half:
            def project(self, p):
                return p.clamp(max=0.5)

        p = torch.zeros(1, requires_grad=True)
        optimizer = OCESG([p], lr=1.0, schedule="constant", project=Half(), average=True)
        for _ in range(2):
            p.grad = -torch.ones_like(p)
            optimizer.step()
        assert p.item() == 0.5
        assert optimizer.averages()[0].item() == 0.25  # theta_0 = 0 and theta_1 = 0.5

    def test_finds_the_best_portfolio_of_two(self):
        """Entropic risk of two independent normals with variances 1 and 4: the minimum variance weights .8 and .2."""
        torch.manual_seed(0)
        data = torch.randn(20000, 2, dtype=torch.float64) * torch.tensor([1.0, 2.0], dtype=torch.float64)
        theta = torch.full((2,), 0.5, dtype=torch.float64, requires_grad=True)
        optimizer = OCESG([theta], lr=0.2, schedule="constant", project=ce.Simplex())
        batches = GrowingBatchSampler(data, steps=400, generator=torch.Generator().manual_seed(1))
        for batch in torch.utils.data.DataLoader(data, batch_sampler=batches):
            theta.grad = None
            oce(-batch @ theta, ce.Entropic(1.0)).backward()
            optimizer.step()
        assert theta.detach().tolist() == pytest.approx([0.8, 0.2], abs=0.05)


class TestGrowingBatchSampler:
    def test_sizes_and_seed(self):
        def batches():
            return list(GrowingBatchSampler(range(50), 60, generator=torch.Generator().manual_seed(0)))

        first = batches()
        assert [len(b) for b in first] == [min(k, 50) for k in range(1, 61)]
        assert first == batches()
        assert len(GrowingBatchSampler(range(50), 60)) == 60
        assert [len(b) for b in GrowingBatchSampler(range(9), 3, size=lambda k: 10 * k, largest=15)] == [10, 15, 15]


class TestMemory:
    @pytest.mark.parametrize(
        "utility, exact, dtype",
        [(ce.CVaR(0.1), 1.754983, torch.float32), (ce.Entropic(1.0), 0.5, torch.float64)],
    )
    def test_reduces_the_bias_of_small_batches(self, utility, exact, dtype):
        generator = torch.Generator().manual_seed(0)
        plain, remedy = OCELoss(utility), MemoryOCELoss(utility, memory=512)
        values, gradients = {"plain": [], "memory": []}, {"plain": [], "memory": []}
        for step in range(1500):
            batch = torch.randn(16, generator=generator, dtype=torch.float64).to(dtype)
            for name, criterion in {"plain": plain, "memory": remedy}.items():
                scale = torch.ones((), dtype=dtype, requires_grad=True)
                value = criterion(scale * batch)
                value.backward()
                if step >= 32:
                    values[name].append(value.item())
                    gradients[name].append(scale.grad.item())
        slope = 1.754983 if isinstance(utility, ce.CVaR) else 1.0  # d/ds of OCE(s X) at 1
        for found, true in ((values, exact), (gradients, slope)):
            bias = {name: abs(sum(v) / len(v) - true) for name, v in found.items()}
            assert bias["memory"] < 0.4 * bias["plain"]

    def test_state(self):
        criterion = MemoryOCELoss(ce.CVaR(0.5), memory=3)
        for value in (1.0, 2.0, 3.0, 4.0):
            criterion(torch.tensor([value]))
        assert sorted(criterion.bank.tolist()) == [2.0, 3.0, 4.0]
        twin = MemoryOCELoss(ce.CVaR(0.5), memory=3)
        twin.load_state_dict(criterion.state_dict())
        assert twin(torch.tensor([9.0])) == criterion(torch.tensor([9.0]))
        criterion.eval()
        assert criterion(torch.tensor([1.0, 3.0])) == 3.0
        criterion.forget()
        assert criterion.train()(torch.tensor([1.0, 3.0])) == 3.0

    def test_float64_losses_keep_their_digits_in_the_memory(self):
        generator, utility = torch.Generator().manual_seed(0), ce.CVaR(0.3)
        batches = torch.randn(4, 64, generator=generator, dtype=torch.float64)
        near, far = MemoryOCELoss(utility, memory=256), MemoryOCELoss(utility, memory=256)
        for batch in batches:
            value, moved = near(batch), far(batch + 1e9)
            assert float(moved - 1e9) == pytest.approx(float(value), abs=1e-6)

    def test_double_precision_survives_a_state_dict(self):
        first = MemoryOCELoss(ce.CVaR(0.5), memory=4)
        first(torch.tensor([1e9 + 1.0, 1e9 + 2.0], dtype=torch.float64))
        second = MemoryOCELoss(ce.CVaR(0.5), memory=4)
        second.load_state_dict(first.state_dict())
        assert second.bank.dtype == torch.float64
        assert second.bank[:2].tolist() == [1e9 + 1.0, 1e9 + 2.0]
        x = torch.tensor([1e9 + 3.0, 1e9 + 4.0], dtype=torch.float64)
        assert second(x).item() == first(x).item()
        again = MemoryOCELoss(ce.CVaR(0.5), memory=4)
        again.load_state_dict(MemoryOCELoss(ce.CVaR(0.5), memory=4).state_dict())
        assert again.bank.dtype == torch.float32

    def test_a_batch_larger_than_the_memory(self):
        criterion = MemoryOCELoss(ce.CVaR(0.5), memory=2)
        criterion(torch.arange(5.0))
        assert sorted(criterion.bank.tolist()) == [3.0, 4.0]


@pytest.mark.parametrize("bad", [torch.inf, torch.nan])
def test_a_grad_scaler_survives_losses_that_are_not_finite(bad):
    """It skips the step and halves its scale; nothing of the batch is stored."""
    for criterion in (OCELoss(ce.CVaR(0.5), allow_inf=True), MemoryOCELoss(ce.CVaR(0.5), memory=8, allow_inf=True)):
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
        MemoryOCELoss(ce.CVaR(0.5))(torch.tensor([1.0, bad]))
    unchecked = MemoryOCELoss(ce.CVaR(0.5), validate=False)
    unchecked(torch.full((4,), bad))
    assert unchecked.filled == 0
    assert torch.isfinite(unchecked(torch.rand(4)))

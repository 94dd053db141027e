"""Learned parameters inside mixtures, parameters that leave their range, and mixtures in one compiled graph."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import certeq as ce  # noqa: E402
from certeq.torch import OCELoss, oce  # noqa: E402


def _learned(value: float) -> torch.nn.Parameter:
    return torch.nn.Parameter(torch.tensor(value, dtype=torch.float64))


@pytest.mark.parametrize(
    "make, at",
    [
        (lambda p: 0.5 * ce.Mean() + 0.5 * ce.Entropic(p), 1.0),
        (lambda p: 0.5 * ce.Mean() + 0.5 * ce.SmoothCVaR(p), 0.1),
        (lambda p: 0.5 * ce.Mean() + 0.5 * ce.LeakyCVaR(p), 0.1),
        (lambda p: 0.5 * ce.Mean() + 0.5 * ce.SmoothCVaR(0.1, p), 0.4),
    ],
)
def test_a_learned_term_of_a_mixture(make, at: float) -> None:
    x = torch.randn(30, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    learned = _learned(at)
    value = OCELoss(make(learned))(x)
    value.backward()
    step = 1e-5
    difference = (ce.oce(x.numpy(), make(at + step)) - ce.oce(x.numpy(), make(at - step))) / (2 * step)
    assert value.item() == pytest.approx(ce.oce(x.numpy(), make(at)), rel=1e-12)
    assert learned.grad.item() == pytest.approx(difference, rel=1e-6)


@pytest.mark.parametrize(
    "make, good, bad, name",
    [
        (ce.Entropic, 1.0, -1.0, "beta"),
        (ce.CVaR, 0.1, 1.7, "alpha"),
        (ce.CVaR, 0.1, float("nan"), "alpha"),
        (lambda p: 0.5 * ce.Mean() + 0.5 * ce.Entropic(p), 1.0, -2.0, "beta"),
    ],
)
def test_a_parameter_that_left_its_range_is_refused(make, good: float, bad: float, name: str) -> None:
    learned = _learned(good)
    criterion = OCELoss(make(learned))
    criterion(torch.tensor([1.0, 2.0], dtype=torch.float64))
    learned.data.fill_(bad)
    with pytest.raises(ValueError, match=name):
        criterion(torch.tensor([1.0, 2.0], dtype=torch.float64))


def test_second_derivative_in_a_power() -> None:
    x = torch.randn(11, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    power = _learned(2.5)

    def slope(at: torch.Tensor) -> torch.Tensor:
        return torch.autograd.grad(oce(x, ce.MonotoneMeanVariance(at)), at, create_graph=True)[0]

    second = torch.autograd.grad(slope(power), power)[0]
    step = 1e-5
    difference = (slope(_learned(2.5 + step)) - slope(_learned(2.5 - step))) / (2 * step)
    assert second.item() == pytest.approx(difference.item(), rel=1e-4)


@pytest.mark.parametrize(
    "utility",
    [
        0.3 * ce.Mean() + 0.7 * ce.CVaR(0.05),
        0.5 * ce.Entropic(1.0) + 0.5 * ce.CVaR(0.1),
        (0.5 * ce.Mean() + 0.5 * ce.Entropic(2.0)).normalized(),
    ],
    ids=repr,
)
def test_mixtures_compile(utility: ce.Utility) -> None:
    x = torch.randn(40, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    compiled = torch.compile(OCELoss(utility), fullgraph=True, backend="aot_eager")
    assert compiled(x).item() == pytest.approx(ce.oce(x.numpy(), utility), rel=1e-12)


def test_a_base_without_a_target_is_refused() -> None:
    with pytest.raises(TypeError, match="needs a target"):
        OCELoss(ce.CVaR(0.1), base=torch.nn.MSELoss(reduction="none"))(torch.zeros(3))

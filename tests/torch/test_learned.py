"""Learned parameters: gradients of risk, threshold and tilt against differences of the core, nested, with kinks."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import certeq as ce  # noqa: E402
from certeq.torch import OCELoss, oce, threshold, tilt  # noqa: E402

Make = Callable[[Any], ce.Utility]

ONE = 0.5 * ce.LeakyCVaR(0.1) + 0.5 * ce.CVaR(0.1)  # its kink is off 0 once it is normalized

SMOOTH: dict[str, tuple[Make, float]] = {
    "entropic": (lambda p: ce.Entropic(p).normalized(), 1.3),
    "mean_variance": (ce.MeanVariance, 0.33),
    "leaky": (lambda p: ce.LeakyCVaR(p).normalized(), 0.1),
    "smooth_alpha": (lambda p: ce.SmoothCVaR(p, 0.5).normalized(), 0.1),
    "smooth_tau": (lambda p: ce.SmoothCVaR(0.1, p).normalized(), 0.5),
    "power": (lambda p: ce.MonotoneMeanVariance(p).normalized(), 2.5),
    "scaled_quartic": (lambda p: ce.Quartic().scaled(p).normalized(), 0.7),
    "scale_of_a_curve": (lambda p: ce.LeakyCVaR(0.1).normalized().scaled(p), 0.7),
    "mixed_entropic": (lambda p: 0.5 * ce.Mean() + 0.5 * ce.Entropic(p), 1.0),
    "mixed_smooth": (lambda p: 0.5 * ce.Mean() + 0.5 * ce.SmoothCVaR(p), 0.1),
    "mixed_leaky": (lambda p: 0.5 * ce.Mean() + 0.5 * ce.LeakyCVaR(p), 0.1),
    "mixed_tau": (lambda p: 0.5 * ce.Mean() + 0.5 * ce.SmoothCVaR(0.1, p), 0.4),
    "normalized_term": (lambda p: 0.5 * ce.Entropic(0.5) + 0.5 * ce.SmoothCVaR(p, 0.5).normalized(), 0.1),
    "normalized_scaled_term": (lambda p: 0.6 * ce.Entropic(0.5) + 0.5 * ce.LeakyCVaR(0.2).scaled(p).normalized(), 0.7),
    "normalized_sum_in_a_sum": (
        lambda p: 0.5 * ce.Entropic(0.5) + 0.5 * (p * ce.LeakyCVaR(0.2) + 0.4 * ce.Quartic()).normalized().scaled(1.7),
        0.6,
    ),
    "normalized_twice": (
        lambda p: 0.5 * ce.Quartic() + 0.5 * ce.LeakyCVaR(p).normalized().scaled(2.0).normalized(),
        0.2,
    ),
}
KINKED: dict[str, tuple[Make, float]] = {
    "cvar": (ce.CVaR, 0.13),
    "inner": (lambda p: (0.5 * ce.LeakyCVaR(p) + 0.5 * ce.CVaR(0.1)).normalized().scaled(0.7), 0.1),
    "kinked": (lambda p: (0.5 * ce.LeakyCVaR(0.1) + 0.5 * ce.CVaR(p)).normalized().scaled(0.7), 0.13),
    "weight": (lambda p: (p * ce.LeakyCVaR(0.1) + 0.5 * ce.CVaR(0.1)).scaled(1.3), 0.4),
    "scale": (lambda p: ONE.scaled(p), 0.7),
    "scale_outside": (lambda p: ONE.scaled(p).normalized(), 0.7),
    "moving_kink": (lambda p: ONE.normalized().scaled(p), 0.7),
    "moving_kink_in_a_sum": (lambda p: 0.4 * ce.Entropic(0.5) + 0.6 * ONE.normalized().scaled(p), 0.7),
    "moving_pieces": (lambda p: (0.4 * ce.Mean() + 0.6 * ce.CVaR(0.1)).scaled(p).normalized().scaled(0.8), 0.7),
    "moving_anchor": (lambda p: 0.4 * ce.Entropic(0.5) + 0.6 * (ONE + p * ce.Entropic(0.3)).normalized(), 0.2),
    "two_kinks": (lambda p: 0.5 * ONE.normalized().scaled(p) + 0.5 * ONE.normalized().scaled(1.9), 0.7),
    "scaled_twice": (lambda p: ONE.normalized().scaled(p).scaled(0.3).normalized().scaled(p), 0.7),
}
ALL = SMOOTH | KINKED
COMPILED = "normalized_sum_in_a_sum"  # a few seconds: the others are slow tests


@pytest.fixture
def fresh_compiler():
    """So many utilities are compiled here that `torch.compile` would take them for one that never settles."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def learned(value: float, dtype: torch.dtype = torch.float64) -> torch.nn.Parameter:
    return torch.nn.Parameter(torch.tensor(value, dtype=dtype))


def sample(ties: bool) -> np.ndarray[Any, Any]:
    """Return 61 losses; with ties three or more share each value, and where a kink pins t they share its jump."""
    x = np.random.default_rng(4).normal(size=61)
    return x.round(0) if ties else x


def difference(of: Callable[[float], Any], at: float, step: float = 1e-5) -> Any:
    return (of(at + step) - of(at - step)) / (2.0 * step)


def gradient(value: Any, p: Any, **options: Any) -> float:
    return torch.autograd.grad(value, p, **options)[0].item() if value.requires_grad else 0.0


@pytest.mark.parametrize("name", ALL)
def test_gradient_of_the_risk(name: str) -> None:
    make, at = ALL[name]
    for ties in (False, True):
        x, p = sample(ties), learned(at)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            value = OCELoss(make(p))(torch.tensor(x))
        assert value.item() == pytest.approx(ce.oce(x, make(at)), rel=1e-12)
        wanted = difference(lambda p, x=x: ce.oce(x, make(p)), at)
        assert gradient(value, p) == pytest.approx(wanted, rel=1e-6, abs=1e-9)
    rng = np.random.default_rng(5)
    x, w, p = rng.normal(size=(2, 31)), rng.uniform(size=31), learned(at)
    values = oce(torch.tensor(x), make(p), weight=torch.tensor(w), dim=-1)
    found = [gradient(value, p, retain_graph=True) for value in values]
    wanted = difference(lambda p: ce.oce(x, make(p), weights=w, axis=-1), at)
    assert found == pytest.approx(wanted, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("name", ALL)
def test_gradients_of_threshold_and_tilt(name: str) -> None:
    make, at = ALL[name]
    x, p = sample(False), learned(at)
    found = gradient(threshold(torch.tensor(x), make(p)), p)
    assert found == pytest.approx(difference(lambda p: ce.threshold(x, make(p)), at), rel=1e-5, abs=1e-7)
    c = np.random.default_rng(6).normal(size=x.size)
    found = gradient((torch.tensor(c) * tilt(torch.tensor(x), make(p))).sum(), p)
    assert found == pytest.approx(difference(lambda p: c @ ce.tilt(x, make(p)), at), rel=1e-5, abs=1e-7)


@pytest.mark.parametrize("name", ALL)
def test_second_derivatives(name: str) -> None:
    """In the parameter, and mixed ones of losses and parameter."""
    make, at = ALL[name]
    x, p = torch.tensor(sample(False), requires_grad=True), learned(at)

    def slopes(p: Any) -> Any:
        return torch.autograd.grad(oce(x, make(p)), (p, x), create_graph=True)

    of_p, of_x = slopes(p)
    wanted = difference(lambda p: slopes(learned(p))[0].item(), at)
    assert gradient(of_p, p, retain_graph=True) == pytest.approx(wanted, rel=1e-5, abs=1e-7)
    c = torch.tensor(np.random.default_rng(6).normal(size=x.numel()))
    wanted = difference(lambda p: float(c @ slopes(learned(p))[1].detach()), at)
    assert gradient(c @ of_x, p) == pytest.approx(wanted, rel=1e-5, abs=1e-7)


@pytest.mark.parametrize("name", ["moving_kink", "normalized_term", "weight", "moving_anchor"])
def test_a_utility_serves_any_number_of_graphs(name: str) -> None:
    """Its form is kept, and must not keep the graph it was first made in, nor be without one."""
    make, at = ALL[name]
    x, p = torch.tensor(sample(False)), learned(at)
    utility = make(p)
    with torch.no_grad():
        oce(x, utility)
    for function in (oce, threshold):
        first, second = (torch.autograd.grad(function(x, utility), p)[0].item() for _ in range(2))
        assert first == second
        assert first != 0.0
    with torch.no_grad():
        p.add_(0.01)
    fresh = learned(p.item())
    assert torch.autograd.grad(oce(x, utility), p) == torch.autograd.grad(oce(x, make(fresh)), fresh)


@pytest.mark.parametrize("name", ALL)
def test_a_parameter_of_single_precision(name: str) -> None:
    make, at = ALL[name]
    x, p, fine = sample(False), learned(at, torch.float32), learned(float(np.float32(at)))
    value, same = oce(torch.tensor(x), make(p)), oce(torch.tensor(x), make(fine))
    assert value.dtype == torch.float64
    assert value.item() == pytest.approx(same.item(), rel=1e-6)
    assert gradient(value, p) == pytest.approx(gradient(same, fine), rel=1e-4)


@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.parametrize("name", ["cvar", "moving_kink", "normalized_term"])
def test_transforms_and_compiled_code(name: str) -> None:
    make, at = ALL[name]
    x = torch.tensor(np.random.default_rng(7).normal(size=(3, 20)))
    wanted = [difference(lambda p, row=row: ce.oce(row, make(p)), at) for row in x.numpy()]
    p = learned(at)
    utility = make(p)
    together = torch.func.vmap(lambda row: oce(row, utility))(x)
    assert together.tolist() == pytest.approx(ce.oce(x.numpy(), make(at), axis=-1), rel=1e-9)
    assert torch.autograd.grad(together.sum(), p)[0].item() == pytest.approx(sum(wanted), rel=1e-6)
    slope = torch.func.grad(lambda p: oce(x[0], make(p)))
    assert slope(p.detach()).item() == pytest.approx(wanted[0], rel=1e-6)
    compiled = torch.compile(lambda z: oce(2.0 * z, utility), backend="eager")  # not one graph, but the right answer
    for value in (at, 1.1 * at):
        with torch.no_grad():
            p.fill_(value)
        step = torch.autograd.grad(compiled(0.5 * x[0]), p)[0].item()
        assert step == pytest.approx(difference(lambda p: ce.oce(x[0].numpy(), make(p)), value), rel=1e-6)


@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.parametrize(
    "name", [name if name == COMPILED else pytest.param(name, marks=pytest.mark.slow) for name in SMOOTH]
)
def test_fixed_parameters_compile_without_a_graph_break(name: str) -> None:
    make, at = SMOOTH[name]
    utility = make(at)
    x = torch.randn(40, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    compiled = torch.compile(OCELoss(utility), fullgraph=True, backend="aot_eager")
    assert compiled(x).item() == pytest.approx(ce.oce(x.numpy(), utility), rel=1e-12)


@pytest.mark.parametrize(
    "name, bad, text", [("entropic", -1.0, "beta"), ("cvar", float("nan"), "alpha"), ("mixed_entropic", -2.0, "beta")]
)
def test_a_parameter_that_left_its_range(name: str, bad: float, text: str) -> None:
    make, good = ALL[name]
    p = learned(good)
    criterion = OCELoss(make(p))
    criterion(torch.tensor([1.0, 2.0], dtype=torch.float64))
    p.data.fill_(bad)
    with pytest.raises(ValueError, match=text):
        criterion(torch.tensor([1.0, 2.0], dtype=torch.float64))

"""Learned parameters of a normalized utility: u(x0) counts in the gradient, and nothing warns or breaks a graph."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pytest

torch = pytest.importorskip("torch")

import certeq as ce  # noqa: E402
from certeq.torch import oce  # noqa: E402

CASES: list[tuple[Callable[[object], ce.Utility], float]] = [
    (lambda p: ce.Entropic(p).normalized(), 1.3),
    (lambda p: ce.LeakyCVaR(p).normalized(), 0.1),
    (lambda p: ce.SmoothCVaR(p, 0.5).normalized(), 0.1),
    (lambda p: ce.SmoothCVaR(0.1, p).normalized(), 0.5),
    (lambda p: ce.MonotoneMeanVariance(p).normalized(), 2.5),
    (lambda p: ce.Quartic().scaled(p).normalized(), 0.7),
]


@pytest.mark.parametrize("make, at", CASES)
def test_gradient_in_the_parameter(make: Callable[[object], ce.Utility], at: float) -> None:
    x = torch.randn(60, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    learned = torch.tensor(at, dtype=torch.float64, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        value = oce(x, make(learned))
        value.backward()
    step = 1e-5
    difference = (ce.oce(x.numpy(), make(at + step)) - ce.oce(x.numpy(), make(at - step))) / (2 * step)
    assert value.item() == pytest.approx(ce.oce(x.numpy(), make(at)), rel=1e-12)
    assert learned.grad.item() == pytest.approx(difference, rel=1e-6)


@pytest.mark.parametrize("make, at", CASES)
def test_compiles_without_a_graph_break(make: Callable[[object], ce.Utility], at: float) -> None:
    utility = make(at)
    x = torch.randn(40, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    compiled = torch.compile(lambda z: oce(z, utility), fullgraph=True, backend="aot_eager")
    assert compiled(x).item() == pytest.approx(ce.oce(x.numpy(), utility), rel=1e-12)

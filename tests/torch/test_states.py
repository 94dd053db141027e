"""States: a learned parameter is the registered one, whoever has put it there; what is saved can be loaded."""

from __future__ import annotations

import copy
import io
import pickle
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrize

import certeq as ce
from certeq.torch import OCESG, MemoryOCELoss, OCELoss, oce

LOSSES = torch.randn(20, generator=torch.Generator().manual_seed(0), dtype=torch.float64)

# Utilities of one parameter, and the name it is registered under.
LEARNED: dict[str, Any] = {
    "entropic": (lambda p: ce.Entropic(p), "utility_beta", 9.0, 1.0),
    "cvar": (lambda p: ce.CVaR(p), "utility_alpha", 0.37, 0.13),
    "scaled": (lambda p: ce.Quartic().scaled(p), "utility_scale", 3.0, 0.5),
    "inside": (lambda p: ce.LeakyCVaR(p).normalized().scaled(0.7), "utility_utility__utility__alpha", 0.37, 0.13),
    "term": (lambda p: 0.5 * ce.Mean() + 0.5 * ce.Entropic(p), "utility_term_1__beta", 9.0, 1.0),
    "weight": (lambda p: 0.7 * ce.Mean() + p * ce.Entropic(2.0), "utility_weight_1", 0.9, 0.6),
}


def learned(value: float) -> nn.Parameter:
    return nn.Parameter(torch.tensor(value, dtype=torch.float64))


@pytest.fixture(params=list(LEARNED))
def case(request: pytest.FixtureRequest) -> Any:
    return LEARNED[request.param]


def check(criterion: OCELoss, case: Any, value: float) -> None:
    """Check the risk at a value of the registered parameter, and its gradient."""
    make, name, *_ = case
    p = learned(value)
    wanted = oce(LOSSES, make(p))
    wanted.backward()
    for each in criterion.parameters():
        each.grad = None
    found = criterion(LOSSES)
    found.backward()
    assert [known for known, _ in criterion.named_parameters()] == [name]
    assert found.item() == pytest.approx(wanted.item(), rel=1e-12)
    assert criterion.get_parameter(name).grad.item() == pytest.approx(p.grad.item(), rel=1e-12)


class TestRegisteredParameters:
    def test_load_state_dict(self, case):
        make, name, first, second = case
        for assign in (False, True):
            criterion = OCELoss(make(learned(first)))
            criterion(LOSSES)
            criterion.load_state_dict({name: torch.tensor(second, dtype=torch.float64)}, assign=assign)
            check(criterion, case, second)
            assert repr(make(second))[:6] in repr(criterion)

    def test_functional_call(self, case):
        make, name, first, second = case
        criterion = OCELoss(make(learned(first)))
        for _ in range(2):
            other = learned(second)
            value = torch.func.functional_call(criterion, {name: other}, (LOSSES,))
            (gradient,) = torch.autograd.grad(value, other)
            wanted = oce(LOSSES, make(other))
            assert value.item() == pytest.approx(wanted.item(), rel=1e-12)
            assert gradient.item() == pytest.approx(torch.autograd.grad(wanted, other)[0].item(), rel=1e-12)
        slope = torch.func.grad(lambda p: torch.func.functional_call(criterion, {name: p}, (LOSSES,)))
        assert slope(torch.tensor(second, dtype=torch.float64)).item() == pytest.approx(gradient.item(), rel=1e-9)
        check(criterion, case, first)  # nothing is left of it

    @pytest.mark.parametrize("overwrite", [False, True])
    def test_conversions(self, case, overwrite):
        make, name, first, _ = case
        torch.__future__.set_overwrite_module_params_on_conversion(overwrite)
        try:
            criterion = OCELoss(make(nn.Parameter(torch.tensor(first)))).double()
        finally:
            torch.__future__.set_overwrite_module_params_on_conversion(False)
        assert criterion.get_parameter(name).dtype == torch.float64
        check(criterion, case, float(torch.tensor(first)))

    def test_made_without_storage(self, case):
        make, name, _, second = case
        with torch.device("meta"):
            criterion = OCELoss(make(nn.Parameter(torch.tensor(0.5, dtype=torch.float64))))
        state = {name: torch.tensor(second, dtype=torch.float64)}
        for fill in ("assign", "empty"):
            twin = copy.deepcopy(criterion)
            if fill == "empty":
                twin.to_empty(device="cpu")
            twin.load_state_dict(state, assign=fill == "assign")
            check(twin, case, second)

    def test_copies_and_pickles(self, case):
        make, name, first, second = case
        criterion = OCELoss(make(learned(first)))
        for twin in (copy.deepcopy(criterion), pickle.loads(pickle.dumps(criterion))):
            with torch.no_grad():
                twin.get_parameter(name).fill_(second)
            check(twin, case, second)
        check(criterion, case, first)

    def test_a_parametrization(self):
        class Positive(nn.Module):
            def forward(self, x):
                return nn.functional.softplus(x)

        criterion = OCELoss(ce.Entropic(learned(1.0)))
        parametrize.register_parametrization(criterion, "utility_beta", Positive(), unsafe=True)
        raw = criterion.parametrizations.utility_beta.original
        with torch.no_grad():
            raw.fill_(-2.0)
        value = criterion(LOSSES)
        value.backward()
        beta = nn.functional.softplus(torch.tensor(-2.0, dtype=torch.float64)).item()
        assert value.item() == pytest.approx(ce.oce(LOSSES.numpy(), ce.Entropic(beta)), rel=1e-12)
        assert raw.grad.item() != 0.0

    def test_training_goes_on_after_a_state_was_assigned(self):
        criterion = OCELoss(ce.Entropic(learned(9.0)))
        criterion.load_state_dict({"utility_beta": torch.tensor(1.0, dtype=torch.float64)}, assign=True)
        optimizer = torch.optim.SGD(criterion.parameters(), lr=0.5)
        criterion(LOSSES).backward()
        optimizer.step()
        beta = criterion.utility_beta.item()
        assert beta < 1.0
        assert criterion(LOSSES).item() == pytest.approx(ce.oce(LOSSES.numpy(), ce.Entropic(beta)), rel=1e-12)
        assert criterion.utility.beta is criterion.utility_beta

    def test_the_utility_may_be_another_one_later(self):
        criterion = OCELoss(ce.Entropic(learned(9.0)))
        criterion.utility = ce.CVaR(0.5)
        assert list(criterion.parameters()) == []
        assert criterion(LOSSES).item() == pytest.approx(ce.oce(LOSSES.numpy(), ce.CVaR(0.5)), rel=1e-12)
        criterion.utility = ce.CVaR(learned(0.2))
        assert [name for name, _ in criterion.named_parameters()] == ["utility_alpha"]


def saved_and_loaded(state: Any) -> Any:
    buffer = io.BytesIO()
    torch.save(state, buffer)
    buffer.seek(0)
    return torch.load(buffer, weights_only=True)


class TestMemory:
    def test_with_a_learned_parameter(self):
        first, second = (MemoryOCELoss(ce.Entropic(learned(beta)), memory=8) for beta in (9.0, 1.0))
        for criterion in (first, second):
            criterion(LOSSES[:4])
        first.load_state_dict(copy.deepcopy(second.state_dict()), assign=True)
        assert first(LOSSES[4:8]).item() == copy.deepcopy(second)(LOSSES[4:8]).item()

    def test_loads_with_weights_only(self):
        inputs = torch.randn(6, 3), torch.tensor([0, 1, 2, -100, 1, 0])
        criterion, twin = (
            MemoryOCELoss(ce.CVaR(0.5), nn.CrossEntropyLoss(weight=weight, reduction="none"), memory=4)
            for weight in (torch.rand(3), torch.ones(3))
        )
        criterion(*inputs)
        twin.load_state_dict(saved_and_loaded(criterion.state_dict()))
        assert twin(*inputs) == criterion(*inputs)


def halved(k: int) -> float:
    return 0.5**k


SCHEDULES = ["constant", "1/k", "1/sqrt(k)", lambda k: 1.0 / (k + 3), ce.optimize.inverse_sqrt(0.3)]
RUNS = [
    (schedule, project, average)
    for number, schedule in enumerate(SCHEDULES)
    for project, average in ((None, number % 2 == 0), (ce.Simplex(), number % 2 == 1))
] + [(halved, lambda p: p.clamp(min=0.2), True)]


class TestOCESG:
    @pytest.mark.parametrize("schedule, project, average", RUNS)
    def test_a_run_goes_on_bit_for_bit(self, schedule, project, average):
        """Saved after some steps, loaded by ``torch.load(weights_only=True)`` into a new optimizer."""
        slopes = torch.randn(9, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)

        def made(p):
            return OCESG([p], lr=0.4, schedule=schedule, project=project, average=average)

        def steps(p, optimizer, which):
            for slope in slopes[which]:
                p.grad = slope.clone()
                optimizer.step()

        whole = torch.full((3,), 1 / 3, dtype=torch.float64, requires_grad=True)
        first = whole.detach().clone().requires_grad_()
        optimizer, begun = made(whole), made(first)
        steps(whole, optimizer, slice(None))
        steps(first, begun, slice(0, 4))
        second = first.detach().clone().requires_grad_()
        resumed = made(second)
        resumed.load_state_dict(saved_and_loaded(begun.state_dict()))
        steps(second, resumed, slice(4, None))
        assert torch.equal(second, whole)
        assert torch.equal(resumed.averages()[0], optimizer.averages()[0])
        assert resumed.param_groups[0]["k"] == 9
        assert begun.param_groups[0]["project"] is project  # saving changes nothing

    def test_a_state_holds_plain_things(self):
        p = torch.zeros(2, requires_grad=True)
        group = OCESG([p], schedule=halved, project=ce.Simplex()).state_dict()["param_groups"][0]
        assert group["schedule"] == group["project"] == "function"
        optimizer = OCESG([p], lr=0.7, schedule="constant")
        optimizer.load_state_dict(OCESG([p], lr=0.1, schedule="1/k").state_dict())
        assert optimizer.param_groups[0]["schedule"] == "1/k"
        assert optimizer.param_groups[0]["lr"] == 0.1

    def test_groups_and_pickles(self):
        p, q = (torch.zeros(2, requires_grad=True) for _ in range(2))
        groups = [{"params": [p], "project": ce.Simplex()}, {"params": [q], "schedule": "1/k"}]
        optimizer = OCESG(groups, lr=0.1)
        other = OCESG([dict(group) for group in groups], lr=0.1)
        other.load_state_dict(saved_and_loaded(optimizer.state_dict()))
        assert [group["project"] for group in other.param_groups] == [groups[0]["project"], None]
        assert [group["schedule"] for group in other.param_groups] == ["1/sqrt(k)", "1/k"]
        assert pickle.loads(pickle.dumps(optimizer)).param_groups[0]["project"].project(torch.ones(2)).sum() == 1.0

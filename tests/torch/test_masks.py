"""Ignored targets and class weights: under the mean PyTorch's own reductions; criteria with masks and weights."""

from __future__ import annotations

import copy
from functools import partial

import pytest
import torch
from torch import nn
from torch.nn import functional

import certeq as ce
from certeq.torch import MemoryOCELoss, OCELoss, oce, tilt

CLASSES = 5
SHAPES = {"N": (12,), "NT": (6, 7), "NTU": (3, 4, 5)}
CLASS_WEIGHT = torch.tensor([1.0, 5.0, 0.25, 0.0, 2.0])
POSITIVE = torch.tensor([1.0, 5.0, 0.25, 0.5, 2.0])
each_shape = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)


def batch(shape, ignore=None, dtype=torch.float32, seed=0):
    """Return scores (N, C, ...) and classes (N, ...), a third of which are to be ignored."""
    generator = torch.Generator().manual_seed(seed)
    scores = 2.0 * torch.randn(shape[0], CLASSES, *shape[1:], generator=generator, dtype=torch.float64)
    target = torch.randint(CLASSES, shape, generator=generator)
    if ignore is not None:
        target = torch.where(torch.rand(shape, generator=generator) < 1 / 3, ignore, target)
    return scores.to(dtype), target


def value_and_gradient(criterion, scores, *others, **named):
    scores = scores.clone().requires_grad_()
    value = criterion(scores, *others, **named)
    value.backward()
    return value.detach(), scores.grad


def check_mean(mean, each, *inputs):
    """Check that under the mean an unreduced loss has the value and gradient of PyTorch's own reduction."""
    wanted, slope = value_and_gradient(mean, *inputs)
    found, gradient = value_and_gradient(OCELoss(ce.Mean(), each), *inputs)
    assert found.item() == pytest.approx(wanted.item(), rel=1e-6)
    torch.testing.assert_close(gradient, slope, rtol=1e-5, atol=1e-7)


OPTIONS = {
    "plain": {},
    "ignore_index": {"ignore_index": 1},
    "class weights": {"weight": CLASS_WEIGHT},
    "both": {"weight": CLASS_WEIGHT, "ignore_index": 2},
    "smoothing": {"label_smoothing": 0.1},
    "smoothing and weights": {"label_smoothing": 1.0, "weight": POSITIVE},
}


@each_shape
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_classes(options, shape):
    scores, target = batch(shape, options.get("ignore_index", -100))
    check_mean(nn.CrossEntropyLoss(**options), nn.CrossEntropyLoss(reduction="none", **options), scores, target)
    mean, each = (partial(functional.cross_entropy, reduction=how, **options) for how in ("mean", "none"))
    check_mean(mean, each, scores, target)
    if "label_smoothing" not in options:
        log_scores = functional.log_softmax(scores, dim=1)
        check_mean(nn.NLLLoss(**options), nn.NLLLoss(reduction="none", **options), log_scores, target)
    if "ignore_index" not in options and options.get("weight") is not POSITIVE:
        shares = torch.softmax(batch(shape, seed=1)[0], dim=1)  # probabilities are never ignored
        each = nn.CrossEntropyLoss(reduction="none", **options)
        check_mean(nn.CrossEntropyLoss(**options), each, scores, shares)


BASES = {
    "factors": (partial(nn.BCEWithLogitsLoss, pos_weight=torch.tensor(3.0)), 2),
    "weights": (
        partial(nn.BCEWithLogitsLoss, weight=torch.ones(9, 1), pos_weight=torch.tensor([2.0, 0.5, 1.0, 1.5])),
        2,
    ),
    "triplet": (nn.TripletMarginLoss, 3),
    "gaussian": (nn.GaussianNLLLoss, 3),
    "full_gaussian": (partial(nn.GaussianNLLLoss, full=True), 3),
    "ranking": (nn.MarginRankingLoss, 3),
    "distance": (partial(nn.TripletMarginWithDistanceLoss, distance_function=nn.PairwiseDistance(1.0)), 3),
}


@pytest.mark.parametrize("name", BASES)
def test_other_bases(name):
    """Weights of other bases are factors of the losses; bases may take more than two arguments."""
    kind, inputs = BASES[name]
    generator = torch.Generator().manual_seed(0)
    given = [torch.rand(9, 4, generator=generator) + 0.1 for _ in range(inputs)]
    check_mean(kind(), kind(reduction="none"), *given)
    each = kind(reduction="none")(*given)
    assert OCELoss(ce.CVaR(0.3), kind(reduction="none"))(*given) == oce(each, ce.CVaR(0.3))


def test_a_margin_loss_and_bytes_as_targets():
    scores, target = batch((12,))
    options = {"weight": CLASS_WEIGHT}
    check_mean(nn.MultiMarginLoss(**options), nn.MultiMarginLoss(reduction="none", **options), scores, target)
    scores, target = torch.randn(4, 200), torch.tensor([3, 156, 0, 199], dtype=torch.uint8)  # 156 = -100 + 256
    check_mean(nn.CrossEntropyLoss(), nn.CrossEntropyLoss(reduction="none"), scores, target)


def test_a_batch_without_padding_keeps_its_weights():
    criterion = OCELoss(ce.CVaR(0.5), nn.CrossEntropyLoss(reduction="none"))
    scores, target = batch((6,))
    losses, weights = criterion.samples(scores, target)
    assert weights is not None
    assert weights.all()
    assert criterion(scores, target) == oce(losses, ce.CVaR(0.5))
    for least in (0, -100):  # one target of the smallest index, one ignored
        target[0] = least
        alone = oce(losses[1:], ce.CVaR(0.5)) if least < 0 else oce(criterion.losses(scores, target), ce.CVaR(0.5))
        assert torch.isclose(criterion(scores, target), alone)


def test_a_custom_base_with_an_ignore_index():
    class Focal(nn.Module):
        ignore_index, reduction = 255, "none"

        def forward(self, scores, target):
            each = functional.cross_entropy(scores, target, reduction="none", ignore_index=self.ignore_index)
            return (1 - torch.exp(-each)) ** 2 * each

    scores, target = batch((8, 6), 255)
    each = Focal()(scores, target)
    assert OCELoss(ce.Mean(), Focal())(scores, target).item() == pytest.approx(each[target != 255].mean().item())
    cvar = OCELoss(ce.CVaR(0.2), Focal())(scores, target)
    assert cvar.item() == pytest.approx(oce(each[target != 255], ce.CVaR(0.2)).item(), rel=1e-6)
    summed = Focal()
    summed.forward = lambda scores, target: Focal()(scores, target).sum(1)
    assert OCELoss(ce.Mean(), summed)(scores, target).item() == pytest.approx(each.sum(1).mean().item())


def test_weights_are_multiplied_with_those_of_the_base():
    scores, target = batch((6, 7), -100, torch.float64)
    base = nn.CrossEntropyLoss(weight=POSITIVE.double(), reduction="none")
    mine = torch.rand(6, 7, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    each = functional.cross_entropy(scores, target, reduction="none")
    both = mine * torch.where(target == -100, 0.0, POSITIVE.double()[target.clamp(min=0)])
    for dim in (None, 0, 1):
        criterion = OCELoss(ce.CVaR(0.3), base, dim=dim)
        wanted = oce(each, ce.CVaR(0.3), weight=both, dim=dim)
        torch.testing.assert_close(criterion(scores, target, weight=mine), wanted, rtol=1e-12, atol=1e-12)
    per_sample = OCELoss(ce.CVaR(0.3), base, dim=1)(scores, target, weight=torch.arange(7))
    wanted = oce(each, ce.CVaR(0.3), weight=both / mine * torch.arange(7), dim=1)
    torch.testing.assert_close(per_sample, wanted, rtol=1e-12, atol=1e-12)


def test_losses_and_samples():
    scores, target = batch((6, 7), -100)
    base = nn.CrossEntropyLoss(weight=CLASS_WEIGHT, reduction="none")
    losses, weight = OCELoss(ce.Mean(), base).samples(scores, target)
    plain = functional.cross_entropy(scores, target, reduction="none")
    counts = (target != -100) & (target != 3)
    torch.testing.assert_close(losses[counts], plain[counts])
    torch.testing.assert_close(OCELoss(ce.Mean(), base).losses(scores, target), losses)
    assert torch.equal(weight > 0, counts)
    assert OCELoss(ce.Mean()).samples(plain) == (plain, None)


def test_accumulated_gradients():
    """The tilt of the whole batch, then part by part; a sum of the parts' values is something else."""
    scores, target = batch((12, 5), -100, torch.float64)
    utility = ce.CVaR(0.3)
    criterion = OCELoss(utility, nn.CrossEntropyLoss(weight=POSITIVE.double(), reduction="none"))
    _, wanted = value_and_gradient(criterion, scores, target)
    scores.requires_grad_()
    parts = list(zip(scores.split(4), target.split(4), strict=True))
    with torch.no_grad():
        found = [criterion.samples(x, y) for x, y in parts]
    losses, weights = (torch.cat(of_parts) for of_parts in zip(*found, strict=True))
    q = tilt(losses, utility, weight=weights)
    for (x, y), q_part in zip(parts, q.split([len(part) for part, _ in found]), strict=True):
        (q_part * criterion.losses(x, y)).sum().backward(retain_graph=True)
    torch.testing.assert_close(scores.grad, wanted, rtol=1e-10, atol=1e-12)
    naive = sum(criterion(x, y) / 3 for x, y in parts)
    assert not torch.allclose(torch.autograd.grad(naive, scores)[0], wanted, atol=1e-3)


def test_nothing_left_without_validation():
    base = nn.CrossEntropyLoss(reduction="none")
    scores, target = batch((4, 3))
    target[2] = -100
    rows = OCELoss(ce.CVaR(0.3), base, dim=1, validate=False)
    assert rows(scores, target).isnan().tolist() == [False, False, True, False]


def test_learned_weights_and_parameters():
    x = torch.tensor([1.0, 4.0, torch.nan, 2.0], dtype=torch.float64)
    weight = torch.tensor([1.0, 2.0, 0.0, 0.5], dtype=torch.float64, requires_grad=True)
    beta = nn.Parameter(torch.tensor(1.5, dtype=torch.float64))
    value = oce(x, ce.Entropic(beta), weight=weight)
    same = oce(x[weight > 0], ce.Entropic(beta), weight=weight[weight > 0])
    assert value.item() == pytest.approx(same.item(), rel=1e-12)
    found, wanted = (torch.autograd.grad(value, (beta, weight)) for value in (value, same))
    assert found[0].item() == pytest.approx(wanted[0].item(), rel=1e-12)
    torch.testing.assert_close(found[1][weight > 0], wanted[1][weight > 0], rtol=1e-12, atol=1e-12)
    assert torch.isfinite(found[1]).all()


def test_autocast_and_conversions():
    scores, target = batch((6, 7), -100)
    layer = nn.Conv1d(CLASSES, CLASSES, 1)
    criterion = OCELoss(ce.CVaR(0.3), nn.CrossEntropyLoss(weight=CLASS_WEIGHT, reduction="none"))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value = criterion(layer(scores), target)
    value.backward()
    assert value.dtype == torch.float32
    assert torch.isfinite(layer.weight.grad).all()
    criterion = criterion.double()
    assert criterion(scores.double(), target).dtype == torch.float64
    assert copy.deepcopy(criterion)(scores.double(), target) == criterion(scores.double(), target)


def test_large_batches_at_an_offset():
    """More losses than are solved in double precision; masked ones far away."""
    generator = torch.Generator().manual_seed(8)
    x = 100.0 + torch.randn(20_000, generator=generator)
    mask = torch.rand(20_000, generator=generator) < 0.5
    x[~mask] = 3e38
    for utility in (ce.CVaR(0.07), ce.Entropic(1.3), ce.Quartic(), ce.SmoothCVaR(0.1), ce.MonotoneMeanVariance(2.5)):
        wanted = ce.oce(x[mask].double().numpy(), utility)
        assert oce(x, utility, weight=mask).item() == pytest.approx(wanted, rel=1e-6)


class TestMemory:
    def test_ignored_targets_are_not_stored(self):
        scores, target = batch((6, 7), -100)
        criterion = MemoryOCELoss(ce.CVaR(0.2), nn.CrossEntropyLoss(reduction="none"), memory=100)
        plain = MemoryOCELoss(ce.CVaR(0.2), memory=100)
        each = functional.cross_entropy(scores, target, reduction="none")[target != -100]
        for _ in range(3):
            assert criterion(scores, target).item() == plain(each).item()
        assert int(criterion.filled) == min(100, 3 * int((target != -100).sum()))

    def test_class_weights_count_as_repetitions(self):
        times = torch.tensor([1, 3, 2, 0, 4])
        base = nn.CrossEntropyLoss(weight=times.double(), reduction="none")
        weighted, plain = MemoryOCELoss(ce.Entropic(1.0), base, memory=1000), MemoryOCELoss(ce.Entropic(1.0))
        for seed in range(3):
            scores, target = batch((6, 7), None, torch.float64, seed)
            each = functional.cross_entropy(scores, target, reduction="none").flatten()
            found, gradient = value_and_gradient(weighted, scores, target)
            assert found.item() == pytest.approx(plain(each.repeat_interleave(times[target.flatten()])).item())
            assert torch.isfinite(gradient).all()

    def test_a_state_without_weights(self):
        criterion = MemoryOCELoss(ce.CVaR(0.5), memory=4)
        criterion(torch.tensor([1.0, 2.0]))
        state = {name: value for name, value in criterion.state_dict().items() if name != "bank_weight"}
        twin = MemoryOCELoss(ce.CVaR(0.5), memory=4)
        twin.load_state_dict(state)
        assert twin(torch.tensor([3.0, 4.0])) == 5.0

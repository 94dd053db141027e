"""Masks, ignored targets and class weights: under the mean PyTorch's own reductions, and the same samples under all."""

from __future__ import annotations

import copy
import warnings
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import certeq as ce
from certeq.torch import MemoryOCELoss, OCELoss, oce, threshold, tilt

CLASSES = 5
SHAPES = {"N": (12,), "NT": (6, 7), "NTU": (3, 4, 5)}
CLASS_WEIGHT = torch.tensor([1.0, 5.0, 0.25, 0.0, 2.0])
POSITIVE = torch.tensor([1.0, 5.0, 0.25, 0.5, 2.0])


def batch(shape, ignore=None, dtype=torch.float32, seed=0):
    """Scores (N, C, ...) and classes (N, ...), a third of which are to be ignored."""
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


def log_scores(scores):
    return functional.log_softmax(scores, dim=1)


OPTIONS = {
    "plain": {},
    "ignore_index": {"ignore_index": 1},
    "class weights": {"weight": CLASS_WEIGHT},
    "both": {"weight": CLASS_WEIGHT, "ignore_index": 2},
}


class TestPyTorchsOwnMean:
    """Under `Mean` value and gradient are those of ``reduction="mean"``."""

    @pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
    @pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
    @pytest.mark.parametrize("kind", [nn.CrossEntropyLoss, nn.NLLLoss, partial])
    def test_classes(self, kind, options, shape):
        scores, target = batch(shape, options.get("ignore_index", -100))
        if kind is partial:
            mean, each = (partial(functional.cross_entropy, reduction=how, **options) for how in ("mean", "none"))
        else:
            mean, each = kind(**options), kind(reduction="none", **options)
        scores = log_scores(scores) if kind is nn.NLLLoss else scores
        wanted, slope = value_and_gradient(mean, scores, target)
        found, gradient = value_and_gradient(OCELoss(ce.Mean(), each), scores, target)
        assert found.item() == pytest.approx(wanted.item(), rel=1e-6)
        torch.testing.assert_close(gradient, slope, rtol=1e-5, atol=1e-7)

    @pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
    @pytest.mark.parametrize("weight", [None, POSITIVE], ids=["alike", "weighted"])
    @pytest.mark.parametrize("smoothing", [0.1, 1.0])
    def test_label_smoothing(self, smoothing, weight, shape):
        scores, target = batch(shape, -100)
        options = {"label_smoothing": smoothing, "weight": weight}
        wanted, slope = value_and_gradient(nn.CrossEntropyLoss(**options), scores, target)
        base = nn.CrossEntropyLoss(reduction="none", **options)
        found, gradient = value_and_gradient(OCELoss(ce.Mean(), base), scores, target)
        assert found.item() == pytest.approx(wanted.item(), rel=1e-6)
        torch.testing.assert_close(gradient, slope, rtol=1e-5, atol=1e-7)

    def test_label_smoothing_with_a_class_that_weighs_nothing_is_refused(self):
        base = nn.CrossEntropyLoss(reduction="none", weight=CLASS_WEIGHT, label_smoothing=0.1)
        with pytest.raises(ValueError, match=r"label_smoothing and a class weight of 0, at index 3.*small weight"):
            OCELoss(ce.Mean(), base)

    @pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
    @pytest.mark.parametrize(
        "options", [{}, {"weight": CLASS_WEIGHT}, {"weight": CLASS_WEIGHT, "label_smoothing": 0.0}]
    )
    def test_probabilities_as_targets(self, options, shape):
        scores, _ = batch(shape)
        target = torch.softmax(batch(shape, seed=1)[0], dim=1)
        wanted, slope = value_and_gradient(nn.CrossEntropyLoss(**options), scores, target)
        base = nn.CrossEntropyLoss(reduction="none", **options)
        found, gradient = value_and_gradient(OCELoss(ce.Mean(), base), scores, target)
        assert found.item() == pytest.approx(wanted.item(), rel=1e-6)
        torch.testing.assert_close(gradient, slope, rtol=1e-5, atol=1e-7)

    @pytest.mark.parametrize(
        "base",
        [
            partial(nn.BCEWithLogitsLoss, pos_weight=torch.tensor(3.0)),
            partial(nn.BCEWithLogitsLoss, weight=POSITIVE[:, None], pos_weight=torch.tensor([2.0, 0.5, 1.0])),
            partial(nn.BCEWithLogitsLoss, weight=CLASS_WEIGHT[:, None]),
        ],
    )
    def test_weights_that_are_factors_remain_factors(self, base):
        generator = torch.Generator().manual_seed(0)
        scores, target = torch.randn(5, 3, generator=generator), torch.rand(5, 3, generator=generator)
        wanted, slope = value_and_gradient(base(), scores, target)
        found, gradient = value_and_gradient(OCELoss(ce.Mean(), base(reduction="none")), scores, target)
        assert found.item() == pytest.approx(wanted.item(), rel=1e-6)
        torch.testing.assert_close(gradient, slope)

    def test_a_margin_loss_with_class_weights(self):
        scores, target = batch((12,))
        wanted = nn.MultiMarginLoss(weight=CLASS_WEIGHT)(scores, target)
        found = OCELoss(ce.Mean(), nn.MultiMarginLoss(weight=CLASS_WEIGHT, reduction="none"))(scores, target)
        assert found.item() == pytest.approx(wanted.item(), rel=1e-6)

    @pytest.mark.parametrize(
        "kind, inputs",
        [
            (nn.TripletMarginLoss, 3),
            (nn.GaussianNLLLoss, 3),
            (partial(nn.GaussianNLLLoss, full=True), 3),
            (nn.MarginRankingLoss, 3),
            (partial(nn.TripletMarginWithDistanceLoss, distance_function=nn.PairwiseDistance(1.0)), 3),
        ],
    )
    def test_bases_of_three_arguments(self, kind, inputs):
        generator = torch.Generator().manual_seed(0)
        given = [torch.rand(9, 4, generator=generator) + 0.1 for _ in range(inputs)]
        wanted, slope = value_and_gradient(kind(), *given)
        found, gradient = value_and_gradient(OCELoss(ce.Mean(), kind(reduction="none")), *given)
        assert found.item() == pytest.approx(wanted.item(), rel=1e-6)
        torch.testing.assert_close(gradient, slope)
        each = kind(reduction="none")(*given)
        assert OCELoss(ce.CVaR(0.3), kind(reduction="none"))(*given) == oce(each, ce.CVaR(0.3))

    def test_a_batch_without_padding_keeps_its_weights_for_parts_that_have_some(self):
        criterion = OCELoss(ce.CVaR(0.5), nn.CrossEntropyLoss(reduction="none"))
        scores, target = batch((6,))
        losses, weights = criterion.samples(scores, target)
        assert weights is not None
        assert weights.all()
        assert criterion(scores, target) == oce(losses, ce.CVaR(0.5))
        for least in (0, -100):  # one target of the least index, one ignored
            target[0] = least
            alone = oce(losses[1:], ce.CVaR(0.5)) if least < 0 else oce(criterion.losses(scores, target), ce.CVaR(0.5))
            assert torch.isclose(criterion(scores, target), alone)

    def test_a_base_of_ones_own_with_an_ignore_index(self):
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

    def test_bytes_as_targets(self):
        scores, target = torch.randn(4, 200), torch.tensor([3, 156, 0, 199], dtype=torch.uint8)  # 156 = -100 + 256
        wanted = nn.CrossEntropyLoss()(scores, target)
        assert OCELoss(ce.Mean(), nn.CrossEntropyLoss(reduction="none"))(scores, target).item() == pytest.approx(
            wanted.item(), rel=1e-6
        )


class TestSamplesThatCount:
    """Under every utility the risk is that of the samples left when the others are taken away."""

    @pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    def test_ignored_targets(self, utility, shape, dtype):
        scores, target = batch(shape, -100, dtype)
        each = nn.CrossEntropyLoss(reduction="none")
        counts = target != -100
        scores.requires_grad_()
        wanted = oce(each(scores, target)[counts], utility)
        (slope,) = torch.autograd.grad(wanted, scores)
        found = OCELoss(utility, each)(scores, target)
        (gradient,) = torch.autograd.grad(found, scores)
        assert found.item() == wanted.item()
        torch.testing.assert_close(gradient, slope, rtol=1e-6, atol=1e-7)
        assert (gradient.movedim(1, -1)[~counts] == 0).all()

    @pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
    def test_class_weights_count_as_repetitions(self, utility, shape):
        scores, target = batch(shape, -100, torch.float64)
        times = torch.tensor([1, 3, 2, 0, 4])
        base = nn.CrossEntropyLoss(weight=times.double(), reduction="none")
        each = functional.cross_entropy(scores, target, reduction="none")[target != -100]
        repeated = each.repeat_interleave(times[target[target != -100]])
        found = OCELoss(utility, base)(scores, target).item()
        assert found == pytest.approx(oce(repeated, utility).item(), rel=1e-12, abs=1e-12)

    @pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), 1e38])
    @pytest.mark.parametrize("kind", ["mask", "weights", "whole numbers"])
    @pytest.mark.parametrize("dim", [None, 1])
    def test_what_has_no_weight_may_be_anything(self, utility, value, kind, dim):
        generator = torch.Generator().manual_seed(3)
        x = torch.randn(4, 15, generator=generator)
        mask = torch.rand(4, 15, generator=generator) < 0.6
        x[~mask] = value
        weight = {"mask": mask, "weights": mask * 0.7, "whole numbers": mask.int()}[kind]
        values, thresholds, tilts = (reduce(x, utility, weight=weight, dim=dim) for reduce in (oce, threshold, tilt))
        assert (tilts[~mask] == 0).all()
        if dim is None:
            x, mask, tilts = x.reshape(1, -1), mask.reshape(1, -1), tilts.reshape(1, -1)
        for row, counts, v, t, q in zip(x, mask, values.reshape(-1), thresholds.reshape(-1), tilts, strict=True):
            held = row[counts].double().numpy()
            exact = pytest.approx(ce.oce(held, utility), rel=1e-5, abs=1e-6)
            assert v.item() == exact
            assert t.item() + utility.value(held - t.item()).mean() == exact  # t* itself need not be unique
            np.testing.assert_allclose(q[counts], ce.tilt(held, utility), rtol=1e-5, atol=1e-6)

    @pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
    @pytest.mark.parametrize("dim", [None, 1, 0])
    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
    def test_gradients_are_finite_0_where_masked_and_sum_to_1(self, utility, value, dim, dtype):
        generator = torch.Generator().manual_seed(4)
        x = torch.randn(6, 9, generator=generator).to(dtype)
        mask = torch.rand(6, 9, generator=generator) < 0.7
        x[~mask] = value
        x.requires_grad_()
        result = oce(x, utility, weight=mask, dim=dim)
        assert torch.isfinite(result).all()
        assert result.dtype == dtype
        result.sum().backward()
        assert torch.isfinite(x.grad).all()
        assert (x.grad[~mask] == 0).all()
        sums = x.grad.double().sum() if dim is None else x.grad.double().sum(dim)
        loose = 4.0 if isinstance(utility, ce.MeanVariance) else 1.0  # slopes of both signs
        size = {torch.float32: 1e-6, torch.float64: 1e-12, torch.bfloat16: 1e-2}[dtype]
        np.testing.assert_allclose(sums.numpy(), 1.0, rtol=0, atol=loose * size)

    def test_a_mask_that_leaves_all_is_no_mask(self, utility):
        x = torch.randn(20, generator=torch.Generator().manual_seed(5), requires_grad=True)
        for dim, losses in ((None, x), (1, x.reshape(4, 5))):
            plain, masked = (
                oce(losses, utility, weight=w, dim=dim) for w in (None, torch.ones_like(losses, dtype=torch.bool))
            )
            assert torch.equal(plain, masked)
            slopes = [torch.autograd.grad(value.sum(), x, retain_graph=True)[0] for value in (plain, masked)]
            assert torch.equal(*slopes)

    def test_one_sample_left_is_its_own_risk(self, utility):
        x, mask = torch.tensor([[3.0, 7.0], [torch.nan, 5.0]], requires_grad=True), torch.zeros(2, 2, dtype=torch.bool)
        mask[0, 1] = True
        value = oce(x, utility, weight=mask)
        value.backward()
        assert value.item() == pytest.approx(ce.oce([7.0], utility), rel=1e-6)
        assert x.grad.tolist() == [[0.0, 1.0], [0.0, 0.0]]

    def test_second_derivatives(self, utility):
        generator = torch.Generator().manual_seed(6)
        x = torch.randn(12, generator=generator, dtype=torch.float64)
        mask = torch.arange(12) % 3 != 0
        masked = x.clone()
        masked[~mask] = torch.nan
        results = []
        for losses, weight in ((masked, mask), (x[mask], None)):
            losses = losses.clone().requires_grad_()
            (slope,) = torch.autograd.grad(oce(losses, utility, weight=weight), losses, create_graph=True)
            if not slope.requires_grad:
                results.append(torch.zeros(int(mask.sum()), dtype=torch.float64))
                continue
            kept = slope if weight is None else slope[mask]
            (second,) = torch.autograd.grad((kept * torch.arange(len(kept))).sum(), losses)
            assert weight is None or (second[~mask] == 0).all()
            results.append(second if weight is None else second[mask])
        torch.testing.assert_close(*results, rtol=1e-9, atol=1e-10)

    def test_weights_are_multiplied_with_those_of_the_base(self):
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
        with pytest.raises(ValueError, match=r"weight must have the shape of losses, \(6, 7\); found \(3,\)"):
            OCELoss(ce.Mean(), base)(scores, target, weight=torch.ones(3))
        with pytest.raises(TypeError, match="weight must be a torch tensor; found list"):
            OCELoss(ce.Mean(), base)(scores, target, weight=[1.0])

    def test_losses_and_samples(self):
        scores, target = batch((6, 7), -100)
        base = nn.CrossEntropyLoss(weight=CLASS_WEIGHT, reduction="none")
        losses, weight = OCELoss(ce.Mean(), base).samples(scores, target)
        plain = functional.cross_entropy(scores, target, reduction="none")
        counts = (target != -100) & (target != 3)
        torch.testing.assert_close(losses[counts], plain[counts])
        torch.testing.assert_close(OCELoss(ce.Mean(), base).losses(scores, target), losses)
        assert torch.equal(weight > 0, counts)
        assert OCELoss(ce.Mean()).samples(plain) == (plain, None)

    def test_accumulated_gradients(self):
        """The recipe of the docstring: the tilt of the whole batch, then part by part."""
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

    @pytest.mark.parametrize("validate", [True, False])
    def test_nothing_left(self, validate):
        scores, target = batch((4,))
        criterion = OCELoss(ce.CVaR(0.3), nn.CrossEntropyLoss(reduction="none"), validate=validate)
        if validate:
            with pytest.raises(ValueError, match=r"weight sums to 0; .*and a target that is not ignored"):
                criterion(scores, torch.full((4,), -100))
        else:
            assert criterion(scores, torch.full((4,), -100)).isnan()
        rows = OCELoss(ce.CVaR(0.3), nn.CrossEntropyLoss(reduction="none"), dim=1, validate=validate)
        scores, target = batch((4, 3))
        target[2] = -100
        if validate:
            with pytest.raises(ValueError, match="weight sums to 0 at index 2 of the other dimensions"):
                rows(scores, target)
        else:
            assert rows(scores, target).isnan().tolist() == [False, False, True, False]

    def test_a_learned_utility(self):
        beta = nn.Parameter(torch.tensor(1.5, dtype=torch.float64))
        x, mask = torch.tensor([1.0, torch.nan, 3.0, 2.0], dtype=torch.float64), torch.tensor([True, False, True, True])
        value = oce(x, ce.Entropic(beta), weight=mask)
        same = oce(x[mask], ce.Entropic(beta))
        assert value.item() == pytest.approx(same.item(), rel=1e-12)
        (found,), (wanted,) = torch.autograd.grad(value, beta), torch.autograd.grad(same, beta)
        assert found.item() == pytest.approx(wanted.item(), rel=1e-12)

    def test_weights_that_are_learned(self):
        x = torch.tensor([1.0, 4.0, torch.nan, 2.0], dtype=torch.float64)
        weight = torch.tensor([1.0, 2.0, 0.0, 0.5], dtype=torch.float64, requires_grad=True)
        oce(x, ce.Entropic(1.0), weight=weight).backward()
        assert torch.isfinite(weight.grad).all()


class TestWhereItRuns:
    def masked(self):
        generator = torch.Generator().manual_seed(7)
        x = torch.randn(3, 20, generator=generator, dtype=torch.float64)
        mask = torch.rand(3, 20, generator=generator) < 0.6
        return torch.where(mask, x, torch.nan), mask

    def test_vmap(self, utility):
        x, mask = self.masked()
        together = torch.func.vmap(lambda row, m: oce(row, utility, weight=m))(x, mask)
        torch.testing.assert_close(together, oce(x, utility, weight=mask, dim=1), rtol=1e-9, atol=1e-9)
        slopes = torch.func.vmap(torch.func.grad(lambda row, m: oce(row, utility, weight=m)))(x, mask)
        torch.testing.assert_close(slopes, tilt(x, utility, weight=mask, dim=1), rtol=1e-7, atol=1e-8)
        assert (slopes[~mask] == 0).all()

    @pytest.mark.parametrize("name", ["cvar", "entropic + cvar", pytest.param("quartic", marks=pytest.mark.slow)])
    def test_compiled(self, name):
        from tests.torch.cases import EVERY

        torch._dynamo.reset()
        scores, target = batch((6, 7), -100, torch.float64)
        base = nn.CrossEntropyLoss(weight=CLASS_WEIGHT.double(), reduction="none")
        criterion = OCELoss(EVERY[name], base)
        compiled = torch.compile(criterion, fullgraph=True, backend="aot_eager")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found, gradient = value_and_gradient(compiled, scores, target)
        wanted, slope = value_and_gradient(criterion, scores, target)
        assert found.item() == pytest.approx(wanted.item(), rel=1e-9)
        torch.testing.assert_close(gradient, slope, rtol=1e-6, atol=1e-8)
        x, mask = self.masked()
        direct = torch.compile(lambda x, m: oce(x, EVERY[name], weight=m), fullgraph=True, backend="aot_eager")
        assert direct(x, mask).item() == pytest.approx(oce(x, EVERY[name], weight=mask).item(), rel=1e-9)
        torch._dynamo.reset()

    @pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
    def test_half_precision(self, utility, dtype):
        x, mask = self.masked()
        half = x.to(dtype)
        found = oce(half, utility, weight=mask)
        assert found.dtype == dtype
        wanted = ce.oce(half[mask].double().numpy(), utility)
        assert found.item() == pytest.approx(wanted, rel=2 * torch.finfo(dtype).eps, abs=2 * torch.finfo(dtype).eps)

    def test_autocast(self):
        scores, target = batch((6, 7), -100)
        layer = nn.Conv1d(CLASSES, CLASSES, 1)
        criterion = OCELoss(ce.CVaR(0.3), nn.CrossEntropyLoss(weight=CLASS_WEIGHT, reduction="none"))
        with torch.autocast("cpu", dtype=torch.bfloat16):
            value = criterion(layer(scores), target)
        value.backward()
        assert value.dtype == torch.float32
        assert torch.isfinite(layer.weight.grad).all()

    def test_large_batches_and_offsets(self, utility):
        """More losses than are solved in double precision, at an offset; masked ones far away."""
        generator = torch.Generator().manual_seed(8)
        x = 100.0 + torch.randn(20_000, generator=generator)
        mask = torch.rand(20_000, generator=generator) < 0.5
        x[~mask] = 3e38
        found = oce(x, utility, weight=mask)
        assert found.item() == pytest.approx(ce.oce(x[mask].double().numpy(), utility), rel=1e-6)

    @pytest.mark.parametrize("size", [1e-300, 1e-40, 1.0, 1e300])
    def test_weights_of_any_size(self, utility, size):
        generator = torch.Generator().manual_seed(9)
        x = torch.randn(30, generator=generator, dtype=torch.float64)
        w = torch.rand(30, generator=generator, dtype=torch.float64) * (torch.arange(30) % 4 > 0)
        wanted = ce.oce(x.numpy(), utility, weights=w.numpy())
        assert oce(x, utility, weight=w * size).item() == pytest.approx(wanted, rel=1e-11, abs=1e-12)
        assert oce(x[None], utility, weight=w[None] * size, dim=1).item() == pytest.approx(wanted, rel=1e-11, abs=1e-12)

    def test_moves_with_its_base(self):
        criterion = OCELoss(ce.CVaR(0.3), nn.CrossEntropyLoss(weight=POSITIVE, reduction="none")).double()
        scores, target = batch((6,), -100, torch.float64)
        assert criterion(scores, target).dtype == torch.float64
        assert copy.deepcopy(criterion)(scores, target) == criterion(scores, target)


class TestMemory:
    def test_ignored_targets_are_not_remembered(self):
        scores, target = batch((6, 7), -100)
        criterion = MemoryOCELoss(ce.CVaR(0.2), nn.CrossEntropyLoss(reduction="none"), memory=100)
        plain = MemoryOCELoss(ce.CVaR(0.2), memory=100)
        each = functional.cross_entropy(scores, target, reduction="none")[target != -100]
        for _ in range(3):
            assert criterion(scores, target).item() == plain(each).item()
        assert int(criterion.filled) == min(100, 3 * int((target != -100).sum()))

    def test_class_weights_count_as_repetitions(self):
        times = torch.tensor([1, 3, 2, 0, 4])
        weighted = MemoryOCELoss(
            ce.Entropic(1.0), nn.CrossEntropyLoss(weight=times.double(), reduction="none"), memory=1000
        )
        plain = MemoryOCELoss(ce.Entropic(1.0), memory=1000)
        for seed in range(3):
            scores, target = batch((6, 7), None, torch.float64, seed)
            each = functional.cross_entropy(scores, target, reduction="none")
            found, gradient = value_and_gradient(weighted, scores, target)
            assert found.item() == pytest.approx(
                plain(each.flatten().repeat_interleave(times[target.flatten()])).item()
            )
            assert torch.isfinite(gradient).all()

    def test_a_mask(self):
        criterion, plain = MemoryOCELoss(ce.CVaR(0.5), memory=4), MemoryOCELoss(ce.CVaR(0.5), memory=4)
        mask = torch.tensor([True, False, True])
        for x in (torch.tensor([1.0, torch.nan, 2.0]), torch.tensor([3.0, torch.inf, 4.0])):
            x.requires_grad_()
            value = criterion(x, weight=mask)
            value.backward()
            assert value.item() == plain(x[mask].detach()).item()
            assert torch.isfinite(x.grad).all()
            assert x.grad[1] == 0
        with pytest.raises(ValueError, match="weight sums to 0"):
            criterion(torch.zeros(3), weight=~torch.ones(3, dtype=torch.bool))
        criterion.eval()
        assert criterion(torch.tensor([1.0, torch.nan, 2.0]), weight=mask) == 2.0

    def test_a_state_without_weights_is_read(self):
        """Once the memory kept none."""
        criterion = MemoryOCELoss(ce.CVaR(0.5), memory=4)
        criterion(torch.tensor([1.0, 2.0]))
        state = {name: value for name, value in criterion.state_dict().items() if name != "bank_weight"}
        twin = MemoryOCELoss(ce.CVaR(0.5), memory=4)
        twin.load_state_dict(state)
        assert twin(torch.tensor([3.0, 4.0])) == 5.0

"""Every risk as a PyTorch loss, along every way in which tensors are computed: the vector's values and tilts."""

import copy

import numpy as np
import pytest

import certeq as ce
from tests.problems import RISKS, SAMPLES, UTILITIES, tolerance

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402 - needs PyTorch
from torch.autograd import forward_ad, gradcheck, gradgradcheck  # noqa: E402
from torch.nn import functional  # noqa: E402

from certeq.torch import MemoryOCELoss, OCELoss, oce, threshold, tilt  # noqa: E402

NAMES = [name for name, entry in RISKS.items() if entry.torch]
# A custom utility written with NumPy's functions is computed as arrays only.
TENSORS = [name for name in NAMES if not isinstance(RISKS[name].risk, type(UTILITIES["custom"]))]
SMOOTH = [name for name in TENSORS if RISKS[name].smooth and name not in ("mean", "evar.01")]  # of the largest loss
each_risk = pytest.mark.parametrize("name", NAMES)


# -- ways to compute: as arrays, row by row, as tensors, and as tensors whose values may not be read -------------------


def on_host(function, x, risk, weight=None):
    return function(x, risk, weight=weight)


def in_rows(function, x, risk, weight=None):
    return function(x[None], risk, weight=None if weight is None else weight[None], dim=1)[0]


def as_tensors(function, x, risk, weight=None):
    """Forward derivatives need every operation: losses on the CPU are then computed as on a device."""
    with forward_ad.dual_level():
        return function(x, risk, weight=weight)


def in_vmap(function, x, risk, weight=None):
    if weight is None:
        return torch.func.vmap(lambda x: function(x, risk))(x[None])[0]
    return torch.func.vmap(lambda x, w: function(x, risk, weight=w))(x[None], weight[None])[0]


WAYS = {"host": on_host, "rows": in_rows, "tensors": as_tensors, "vmap": in_vmap}


def ways_of(name):
    """Return the ways that a risk can be computed."""
    tensors = ("tensors", "vmap") if name in UTILITIES else ("tensors",)
    return ("host", "rows", *(tensors if name in TENSORS else ()))


SPOILED = torch.tensor([torch.nan, torch.inf, -torch.inf, 1e300, -1e300], dtype=torch.float64)
KINDS = (torch.bool, torch.float64, torch.int32)  # of a mask


def samples():
    """Yield losses and weights, and the same tensors with losses of no weight in their midst."""
    for number, (sample, (x, w)) in enumerate(SAMPLES.items()):
        losses = torch.tensor(np.asarray(x, dtype=float))
        weight = None if w is None else torch.tensor(w)
        yield sample, losses, weight, slice(None)
        kept = torch.cat([torch.ones(len(x)), torch.zeros(5)]).roll(3) > 0
        if weight is None:
            mask = kept.to(KINDS[number % 3])
        else:
            mask = torch.zeros(len(kept), dtype=weight.dtype).masked_scatter(kept, weight)
        yield f"{sample} spoiled", torch.cat([losses, SPOILED]).roll(3), mask, kept


@pytest.mark.parametrize("name, way", [(name, way) for name in NAMES for way in ways_of(name)])
def test_values_gradients_and_tilts(name, way):
    compute, entry = WAYS[way], RISKS[name]
    for sample, losses, weight, kept in samples():
        x, w = SAMPLES[sample.removesuffix(" spoiled")]
        wanted, q = ce.oce(x, entry.risk, w), ce.tilt(x, entry.risk, w)
        losses.requires_grad_()
        value = compute(oce, losses, entry.risk, weight)
        # A utility has a unit, and so has its rounding.
        near = tolerance(x, wanted, 1e-12) + 2e-15 * (not entry.coherent)
        assert abs(value.item() - wanted) <= near, sample
        (gradient,) = torch.autograd.grad(3.0 * value, losses)
        found = compute(tilt, losses.detach(), entry.risk, weight)
        for each in (gradient / 3.0, found):
            np.testing.assert_allclose(each[kept], q, atol=1e-8, err_msg=sample)
            assert abs(each.sum().item() - 1.0) <= 1e-12 * each.abs().sum()
            assert not each[~kept].any() if isinstance(kept, torch.Tensor) else True


@each_risk
def test_thresholds(name):
    risk = RISKS[name].risk
    for sample, losses, weight, _ in samples():
        x, w = SAMPLES[sample.removesuffix(" spoiled")]
        for way in ways_of(name):
            try:
                wanted = ce.threshold(x, risk, w)
            except TypeError:
                with pytest.raises(TypeError, match="no finite number of inner variables"):
                    WAYS[way](threshold, losses, risk, weight)
                continue
            t = WAYS[way](threshold, losses, risk, weight)
            near = 1e-9 * (1.0 + float(np.ptp(x))) + 1e-14 * float(np.abs(x).max())
            if np.ptp(x) < 1e-5:  # the slopes of so small losses are nearly the same
                near = 1e-5
            np.testing.assert_allclose(t, wanted, atol=near, err_msg=f"{sample} {way}")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@each_risk
def test_short_floats(name, dtype):
    """The result has the dtype of the losses and nearly its digits, at an offset too; so have gradients."""
    entry, eps = RISKS[name], torch.finfo(dtype).eps
    losses, weight = torch.tensor(SAMPLES["normal"][0]).to(dtype), torch.arange(60) % 4 > 0
    for x in (losses, losses + 100.0):
        exact = x[weight].double().numpy()
        wanted, q = ce.oce(exact, entry.risk), ce.tilt(exact, entry.risk)
        for way in ways_of(name):
            spoiled = torch.where(weight, x, torch.nan).requires_grad_()
            value = WAYS[way](oce, spoiled, entry.risk, weight)
            value.backward()
            assert value.dtype == spoiled.grad.dtype == dtype
            assert value.item() == pytest.approx(wanted, rel=2 * eps, abs=2 * eps), way
            assert not spoiled.grad[~weight].any()
            assert spoiled.grad.double().sum().item() == pytest.approx(1.0, abs=60 * eps)
            if dtype is torch.float32 and entry.smooth:
                np.testing.assert_allclose(spoiled.grad[weight], q, rtol=1e-3, atol=1e-6)


# -- derivatives -------------------------------------------------------------------------------------------------------


def normal(*shape, seed=60):
    return torch.tensor(np.random.default_rng(seed).normal(size=shape), requires_grad=True)


NEAR = {"atol": 1e-6, "rtol": 1e-4}


@each_risk
def test_first_derivatives(name):
    risk = RISKS[name].risk
    assert gradcheck(lambda x: oce(x, risk), normal(14), **NEAR)  # no ties, off kinks
    assert gradcheck(lambda x: oce(x, risk, dim=1), normal(2, 7), **NEAR)
    if name in UTILITIES and name in TENSORS:
        w = normal(7, seed=62).detach().abs().requires_grad_()
        assert gradcheck(lambda x, w: oce(x, risk, weight=w), (normal(7), w), **NEAR)
        assert gradcheck(lambda x: oce(x, risk), normal(7), check_forward_ad=True, **NEAR)
        together = torch.func.vmap(torch.func.grad(lambda x: oce(x, risk)))(normal(5, 12).detach())
        np.testing.assert_allclose(together, tilt(normal(5, 12).detach(), risk, dim=1), atol=1e-8)


@pytest.mark.parametrize("name", SMOOTH)
def test_second_derivatives(name):
    risk, w = RISKS[name].risk, torch.arange(8) % 4
    assert gradgradcheck(lambda x: oce(x, risk), normal(7), **NEAR)
    assert gradgradcheck(lambda x: oce(x, risk, dim=0), normal(6, 2), **NEAR)
    assert gradgradcheck(lambda x: oce(torch.where(w > 0, x, torch.nan), risk, weight=w), normal(8), **NEAR)


@pytest.mark.parametrize("name", [name for name in TENSORS if name in {*SMOOTH, *UTILITIES}])
def test_derivatives_of_threshold_and_tilt(name):
    risk = RISKS[name].risk
    for function in (threshold, tilt):
        assert gradcheck(lambda x, function=function: function(x, risk), normal(7), **NEAR)
        assert gradcheck(lambda x, function=function: function(x, risk, dim=(0, 2)), normal(2, 2, 3), **NEAR)


# -- dimensions, weights and bad losses --------------------------------------------------------------------------------


@each_risk
def test_dimensions(name):
    risk, x = RISKS[name].risk, normal(3, 9, 2).detach()
    x[0] = x[0].round(decimals=1)  # ties
    for dim, axis in ((1, 1), (-1, 2), ((0, 2), (0, 2)), ((2, 0), (0, 2)), (None, None)):
        found = oce(x, risk, dim=dim)
        np.testing.assert_allclose(found, ce.oce(x.numpy(), risk, axis=axis), rtol=1e-11, atol=1e-12)
        kept = oce(x, risk, dim=dim, keepdim=True)
        assert kept.shape == x.mean(axis or (0, 1, 2) if axis is None else axis, keepdim=True).shape
        assert torch.equal(kept.squeeze(), found.squeeze())
        q = tilt(x, risk, dim=dim)
        np.testing.assert_allclose(q, ce.tilt(x.numpy(), risk, axis=axis), atol=1e-8)
        leaf = x.clone().requires_grad_()
        oce(leaf, risk, dim=dim).sum().backward()
        np.testing.assert_allclose(leaf.grad, q, atol=1e-8)
        assert torch.equal(leaf.detach(), x)  # losses are left alone
    w = torch.arange(9) % 5
    per_sample = oce(x, risk, dim=1, weight=w)
    assert per_sample[2, 1].item() == pytest.approx(ce.oce(x[2, :, 1].numpy(), risk, w.numpy()), rel=1e-11)


@each_risk
def test_weights_of_any_size_and_masks_of_ones(name):
    risk, (x, w) = RISKS[name].risk, SAMPLES["zero_weights"]
    wanted = ce.oce(x, risk, w)
    for size in (1e-300, 1e-40, 1e39, 1e300):
        weight, losses = size * torch.tensor(w), torch.tensor(x)
        for compute in (on_host, in_rows, *((as_tensors,) if name in TENSORS else ())):
            assert compute(oce, losses, risk, weight).item() == pytest.approx(wanted, rel=1e-11, abs=1e-11)
    for ones in (torch.ones(60, dtype=torch.bool), torch.full((60,), 0.3)):
        for compute in (on_host, in_rows):
            for function in (oce, tilt):
                found, plain = compute(function, losses, risk, ones), compute(function, losses, risk)
                torch.testing.assert_close(found, plain, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("size", [3, 5000])
@each_risk
def test_bad_losses(name, size):
    risk, x = RISKS[name].risk, torch.linspace(-1.0, 1.0, size)
    rows, w = x.expand(2, size), torch.arange(1, size + 1)  # the same memory
    for value, text in ((torch.nan, "NaN"), (torch.inf, r"\+inf"), (-torch.inf, "-inf")):
        x[1] = value
        calls = [
            lambda: oce(x, risk),
            lambda: oce(x.double().requires_grad_(), risk, weight=w),
            lambda: oce(rows, risk, dim=1),
            lambda: tilt(rows.bfloat16(), risk, dim=1, weight=w),
            lambda: OCELoss(risk)(x),
        ]
        calls += [lambda: oce(x, risk, allow_inf=True)] if value == -torch.inf else []
        if name in UTILITIES:
            calls += [lambda: threshold(x, risk), lambda: MemoryOCELoss(risk)(x)]
        calls += [lambda: as_tensors(oce, x, risk)] if name in TENSORS else []
        for call in calls:
            with pytest.raises(ValueError, match=rf"losses holds {text} at index (1|\(0, 1\))"):
                call()


@pytest.mark.parametrize("bad", [np.inf, np.nan])
@each_risk
def test_losses_that_are_not_finite_and_allowed(name, bad):
    risk, w = RISKS[name].risk, torch.tensor([1.0, 0.0])
    x = torch.tensor([[1.0, bad], [1.0, 2.0]], requires_grad=True)
    value = oce(x, risk, allow_inf=True)
    assert value.item() == pytest.approx(bad, nan_ok=True)
    assert oce(x[0], risk, allow_inf=True, weight=w).item() == pytest.approx(ce.oce([1.0], risk), rel=1e-6)
    assert not torch.isfinite(oce(x.detach(), risk, validate=False))
    if name in TENSORS:
        value.backward()
        assert not torch.isfinite(x.grad).all()  # so that a GradScaler skips the step
    if name in {*TENSORS} & {*UTILITIES}:
        for dim, rows in ((1, [[1.0, bad], [1.0, 2.0]]), (0, [[1.0, 1.0], [bad, 2.0]])):
            wanted = [ce.oce(row, risk) if np.isfinite(row).all() else bad for row in rows]
            for weight in (None, torch.ones(2)):
                found = oce(x, risk, allow_inf=True, dim=dim, weight=weight)
                assert found.tolist() == pytest.approx(wanted, rel=1e-5, abs=1e-6, nan_ok=True)
        found = oce(x, risk, allow_inf=True, dim=1, weight=w)
        assert found.tolist() == pytest.approx([ce.oce([1.0], risk)] * 2, rel=1e-6)
        with forward_ad.dual_level():
            assert oce(x.detach(), risk, allow_inf=True).item() == pytest.approx(bad, nan_ok=True)


# -- criteria ----------------------------------------------------------------------------------------------------------


@each_risk
def test_criterion_of_a_model(name):
    risk = RISKS[name].risk
    x, y = normal(30, seed=61).detach(), normal(30, seed=63).detach()
    parameter = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
    criterion = OCELoss(risk, base=nn.MSELoss(reduction="none"))
    criterion(parameter * x, y).backward()
    errors = 0.3 * x.numpy() - y.numpy()
    losses, slope = np.square(errors), ce.tilt(np.square(errors), risk) @ (2.0 * errors * x.numpy())
    assert float(parameter.grad) == pytest.approx(slope, rel=1e-7, abs=1e-9)
    assert float(copy.deepcopy(criterion)(0.3 * x, y)) == pytest.approx(ce.oce(losses, risk), rel=1e-12)
    weight = x.abs()
    assert criterion(0.3 * x, y, weight=weight) == oce(torch.tensor(losses), risk, weight=weight)
    assert torch.equal(OCELoss(risk, dim=0)(x.reshape(5, 6)), oce(x.reshape(5, 6), risk, dim=0))
    assert repr(risk) in repr(criterion)


def scores(seed=3):
    """Return scores of 5 classes for 6 sequences of 7 tokens, and classes, a third of which are to be ignored."""
    generator = torch.Generator().manual_seed(seed)
    target = torch.randint(5, (6, 7), generator=generator)
    target = torch.where(torch.rand(6, 7, generator=generator) < 1 / 3, -100, target)
    return 2.0 * torch.randn(6, 5, 7, generator=generator, dtype=torch.float64), target


@each_risk
def test_ignored_targets_and_class_weights(name):
    """Ignored targets are no samples, and weights of classes count as repetitions."""
    risk, (found, target) = RISKS[name].risk, scores()
    times, counts = torch.tensor([1, 3, 2, 0, 4]), target != -100
    each = functional.cross_entropy(found, target, reduction="none")[counts].numpy()
    repeated = np.repeat(each, times[target[counts]].numpy())
    found.requires_grad_()
    for weight, losses in ((None, each), (times.double(), repeated)):
        value = OCELoss(risk, nn.CrossEntropyLoss(weight=weight, reduction="none"))(found, target)
        assert value.item() == pytest.approx(ce.oce(losses, risk), rel=1e-11)
        (gradient,) = torch.autograd.grad(value, found)
        assert not gradient.movedim(1, -1)[~counts].any()
        assert gradient.abs().sum() > 0.1


@pytest.mark.parametrize("name", [name for name in TENSORS if name in UTILITIES])
def test_memory(name):
    """The threshold is that of this batch and those before, without what has no weight."""
    risk, past = RISKS[name].risk, []
    for weighted in (False, True):
        criterion, past = MemoryOCELoss(risk, memory=24), np.empty((0, 2))
        for seed in range(4):
            x = normal(10, seed=seed)
            w = torch.arange(10.0, dtype=torch.float64) % 4 if weighted else torch.arange(10) % 4 > 0
            value = criterion(torch.where(w > 0, x, torch.nan), weight=w)
            value.backward()
            new = np.c_[x.detach().numpy(), w.numpy()][w.numpy() > 0]
            past = np.concatenate([past, new])[-24 - 8 :]
            known = np.concatenate([new, past[: -len(new)][-24:]])
            t = ce.threshold(known[:, 0], risk, known[:, 1])
            wanted = t + np.average(risk.value(new[:, 0] - t), weights=new[:, 1])
            if name != "mean":  # its t is any number
                assert value.item() == pytest.approx(wanted, rel=1e-9)
            assert not x.grad[w == 0].any()
            assert torch.isfinite(x.grad).all()
        criterion.eval()
        assert criterion(x, weight=w).item() == pytest.approx(ce.oce(new[:, 0], risk, new[:, 1]), rel=1e-11)

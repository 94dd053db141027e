"""Values, thresholds and tilts are those of `certeq.oce`, along both ways of computing them."""

import copy

import numpy as np
import pytest
import torch

import certeq as ce
from certeq.torch import _tensor, oce, threshold, tilt
from certeq.torch._tensor import oce_rows, tilt_rows
from tests.torch.cases import SAMPLES


def tensors(x, w):
    return torch.tensor(x, requires_grad=True), None if w is None else torch.tensor(w)


def reference(x, u, w):
    """OCE by the definition: bisection of the mean left slope, then t + E u(x - t)."""
    w = np.full(len(x), 1 / len(x)) if w is None else w / w.sum()
    c = x.max()
    z = x - c
    low, high = np.nextafter(z.min() - u.anchor, -np.inf), -u.anchor
    with np.errstate(all="ignore"):
        while low < (t := 0.5 * (low + high)) < high:
            low, high = (t, high) if (w * u.slope(z - t)).sum() > 1 else (low, t)
        return c + min(t + (w * u.value(z - t)).sum() for t in (low, high))


def size(x, u):
    return 1.0 + abs(x).max() + abs(reference(x, u, None))


def test_oce_is_the_minimum(utility):
    for name, x, w in SAMPLES:
        t, v = tensors(x, w)
        assert abs(oce(t, utility, weight=v).item() - reference(x, utility, w)) <= 1e-12 * size(x, utility), name


def test_oce_is_that_of_numpy(utility):
    for name, x, w in SAMPLES:
        t, v = tensors(x, w)
        assert abs(oce(t, utility, weight=v).item() - ce.oce(x, utility, w)) <= 1e-12 * size(x, utility), name


def test_gradient_is_the_tilt_and_sums_to_one(utility):
    for name, x, w in SAMPLES:
        t, v = tensors(x, w)
        oce(t, utility, weight=v).backward()
        q = ce.tilt(x, utility, w)
        assert torch.allclose(t.grad, torch.tensor(q), rtol=1e-8, atol=1e-9), name
        assert abs(t.grad.sum().item() - 1) <= 1e-9, name
        assert torch.allclose(tilt(t, utility, weight=v), t.grad, rtol=1e-8, atol=1e-9), name


def test_rows_agree_with_the_vector(utility):
    for name, x, w in SAMPLES:
        t, v = tensors(np.stack([x, x[::-1], x + 3.0]), None if w is None else np.stack([w, w[::-1], w]))
        found = oce(t, utility, weight=v, dim=1)
        one = oce(t[0], utility, weight=None if v is None else v[0])
        assert torch.allclose(found, torch.stack([one, one, one + 3.0]), rtol=0, atol=1e-12 * size(x, utility)), name


@pytest.mark.parametrize("traced", [True, False])
def test_tensors_alone_find_the_same(utility, monkeypatch, traced):
    """What compiled code runs, without the compiler (a fixed number of rounds), and what accelerators run."""
    monkeypatch.setattr(_tensor, "is_traced", lambda: traced)
    for name, x, w in SAMPLES:
        t, v = tensors(x, None if w is None else w / w.sum())
        assert abs(oce_rows(t, v, utility).item() - reference(x, utility, w)) <= 1e-12 * size(x, utility), name
        q = tilt_rows(t, v, utility)
        assert abs(q.sum().item() - 1) <= 1e-12, name
        assert torch.allclose(q, torch.tensor(ce.tilt(x, utility, w)), rtol=1e-5, atol=1e-7), name


def test_threshold(utility):
    x = np.random.default_rng(1).standard_normal(50)
    found = threshold(torch.tensor(x), utility).item()
    with np.errstate(all="ignore"):
        best = found + utility.value(x - found).mean()
    assert best <= ce.oce(x, utility) + 1e-12


def test_cvar_shares_the_fraction_among_ties():
    q = tilt(torch.tensor([0.0, 1.0, 1.0, 1.0, 2.0], dtype=torch.float64), ce.CVaR(0.5))
    assert torch.allclose(q, torch.tensor([0.0, 0.2, 0.2, 0.2, 0.4], dtype=torch.float64))


@pytest.mark.parametrize("n", [5000, 70001])
def test_long_vectors(plain, n):
    x = np.random.default_rng(2).exponential(size=n)
    assert oce(torch.tensor(x), plain).item() == pytest.approx(reference(x, plain, None), rel=1e-12)
    short = torch.tensor(x, dtype=torch.float32, requires_grad=True)
    value = oce(short, plain)
    value.backward()
    assert value.item() == pytest.approx(reference(x, plain, None), rel=3e-6)
    assert short.grad.sum().item() == pytest.approx(1.0, abs=1e-5)


class TestAxioms:
    x = torch.randn(40, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    y = torch.rand(40, dtype=torch.float64, generator=torch.Generator().manual_seed(4))

    def test_cash_additive(self, utility):
        assert oce(self.x + 7.5, utility).item() == pytest.approx(oce(self.x, utility).item() + 7.5, abs=1e-11)

    def test_monotone(self, utility):
        if utility.is_monotone:
            assert oce(self.x + self.y, utility) >= oce(self.x, utility) - 1e-12

    def test_convex(self, utility):
        mixed = oce(0.3 * self.x + 0.7 * self.y, utility)
        assert mixed <= 0.3 * oce(self.x, utility) + 0.7 * oce(self.y, utility) + 1e-12

    def test_at_least_the_mean(self, utility):
        assert oce(self.x, utility) >= self.x.mean() + utility.oce_of_zero - 1e-12

    def test_weights_are_repetitions(self, utility):
        twice = torch.cat([self.x, self.x[:10]])
        weight = torch.ones(40, dtype=torch.float64)
        weight[:10] = 2.0
        assert oce(self.x, utility, weight=weight).item() == pytest.approx(oce(twice, utility).item(), abs=1e-11)


class TestDtypes:
    @pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
    def test_follows_the_losses(self, plain, dtype):
        x = torch.randn(200, generator=torch.Generator().manual_seed(5)).to(dtype).requires_grad_()
        value = oce(x, plain)
        value.backward()
        exact = ce.oce(x.detach().double().numpy(), plain)
        assert value.dtype == dtype
        assert x.grad.dtype == dtype
        assert value.item() == pytest.approx(exact, rel=2 * torch.finfo(dtype).eps, abs=2 * torch.finfo(dtype).eps)
        rows = oce(x.reshape(2, 100), plain, dim=1)
        assert rows.dtype == dtype

    def test_offset_in_float32(self, plain):
        x = torch.randn(64, generator=torch.Generator().manual_seed(6)) + 1e6
        for found in (oce(x, plain), oce(x[None], plain, dim=1)[0]):
            assert found.item() == pytest.approx(ce.oce(x.double().numpy(), plain), abs=0.07)  # one float at 1e6

    def test_autocast(self, plain):
        layer = torch.nn.Linear(4, 1)
        data = torch.randn(64, 4, generator=torch.Generator().manual_seed(7))
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = layer(data)
            assert out.dtype == torch.bfloat16
            values = oce(out, plain), oce(out.T, plain, dim=1)[0]
            for value in values:
                assert value.item() == pytest.approx(ce.oce(out.detach().double().numpy().ravel(), plain), rel=0.01)
            sum(values).backward()

    def test_losses_are_not_changed(self, utility):
        x = torch.randn(30, dtype=torch.float64, requires_grad=True)
        before = x.detach().clone()
        oce(x, utility).backward()
        oce(x[None], utility, dim=1).sum().backward()
        assert torch.equal(x.detach(), before)


class TestDimensions:
    x = torch.randn(3, 4, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(8))

    @pytest.mark.parametrize("dim", [None, 0, 1, -1, (0, 2), (1, 2), (2, 0), (0, 1, 2)])
    @pytest.mark.parametrize("keepdim", [False, True])
    def test_as_torch_mean(self, dim, keepdim):
        for function in (oce, threshold):
            found = function(self.x, ce.Mean(), dim=dim, keepdim=keepdim)
            wanted = self.x.mean(dim=dim, keepdim=keepdim) if dim is not None else self.x.mean()
            assert torch.allclose(found.squeeze(), wanted.squeeze())
            if dim is not None:
                assert found.shape == wanted.shape

    def test_tilt_has_the_shape_of_the_losses(self):
        q = tilt(self.x, ce.Entropic(1.0), dim=(2, 0))
        assert q.shape == self.x.shape
        assert torch.allclose(q.sum((0, 2)), torch.ones(4, dtype=torch.float64))
        assert torch.allclose(q[:, 1], torch.softmax(self.x[:, 1].reshape(-1), 0).reshape(3, 5))

    def test_one_weight_per_sample(self):
        w = torch.rand(4, dtype=torch.float64)
        found = oce(self.x, ce.Quartic(), dim=1, weight=w)
        assert torch.allclose(found[2, 3], oce(self.x[2, :, 3], ce.Quartic(), weight=w))

    def test_a_scalar_loss(self):
        x = torch.tensor(2.0, requires_grad=True)
        oce(x, ce.Quartic().normalized()).backward()
        assert x.grad == 1.0


@pytest.mark.parametrize("n", [1, 2, 7, 64, 1000, 4096])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0, 1e4])
def test_slopes_on_a_known_curve_agree_with_the_core_in_float32(n, scale):
    """Powers and logistic slopes of a small float32 batch have a way of their own."""
    utilities = [ce.MonotoneMeanVariance(2), ce.MonotoneMeanVariance(3), ce.MonotoneMeanVariance(4), ce.Quartic()]
    utilities += [ce.SmoothCVaR(0.05), ce.SmoothCVaR(0.3, tau=2.0), ce.Quartic().normalized().scaled(0.1)]
    generator = torch.Generator().manual_seed(n)
    for x in (torch.randn(n, generator=generator), torch.randn(n, generator=generator).exp(), torch.ones(n)):
        losses = (scale * x).requires_grad_()
        for utility in utilities:
            (q,) = torch.autograd.grad(oce(losses, utility), losses)
            wanted = losses.detach().double().numpy()
            size = 1.0 + np.abs(wanted).max()
            assert oce(losses, utility).item() == pytest.approx(ce.oce(wanted, utility), abs=1e-6 * size)
            assert q.numpy() == pytest.approx(ce.tilt(wanted, utility), abs=2e-6, rel=2e-5)


def test_what_is_kept_between_calls_may_be_made_in_inference_mode():
    x = torch.tensor([3.0, 1.0, 2.0, 5.0, 4.0, 0.0, 7.0], requires_grad=True)
    with torch.inference_mode():
        before = oce(x.detach(), ce.CVaR(0.31))
    after = oce(x, ce.CVaR(0.31))
    after.backward()
    assert before == after
    assert x.grad.sum() == pytest.approx(1.0)


def test_plans_kept_for_one_utility_are_not_used_for_another():
    x = torch.randn(40, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    first = ce.CVaR(0.1)
    for _ in range(2):
        for utility in (first, ce.CVaR(0.3), ce.CVaR(0.3).scaled(2.0), 1.0 * ce.CVaR(0.2), ce.Mean()):
            assert oce(x, utility).item() == pytest.approx(ce.oce(x.numpy(), utility), rel=1e-12)
            assert oce(x.float(), utility).item() == pytest.approx(ce.oce(x.numpy(), utility), rel=1e-6)
    first.set_params(alpha=0.5)
    assert oce(x, first).item() == pytest.approx(ce.oce(x.numpy(), ce.CVaR(0.5)), rel=1e-12)


def test_without_the_compiled_solver_values_and_gradients_are_the_same(monkeypatch, utility):
    x = torch.randn(64, dtype=torch.float64, generator=torch.Generator().manual_seed(3)).requires_grad_()
    value = oce(x, utility)
    (q,) = torch.autograd.grad(value, x)
    monkeypatch.setattr("certeq.risk._compiled.code_of", lambda utility: None)
    plain = oce(x, copy.deepcopy(utility))  # without what was worked out for the first one
    (p,) = torch.autograd.grad(plain, x)
    assert plain.item() == pytest.approx(value.item(), rel=1e-12, abs=1e-12)
    np.testing.assert_allclose(p, q, rtol=1e-8, atol=1e-12)


def test_a_parameter_set_in_place_is_seen_by_the_next_batch():
    inner = ce.Entropic(1.0)
    for outer in (inner.scaled(2.0), inner.normalized()):
        x = torch.arange(5.0, dtype=torch.float64)
        inner.set_params(beta=1.0)
        first = float(oce(x, outer))
        inner.set_params(beta=3.0)
        assert float(oce(x, outer)) == pytest.approx(ce.oce(x.numpy(), outer), rel=1e-13)
        assert float(oce(x, outer)) != first


def weightless(n: int = 64) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    weight = torch.rand(n, dtype=torch.float64, generator=generator)
    weight[:10] = 0.0
    return torch.randn(n, dtype=torch.float64, generator=generator), weight


@pytest.mark.parametrize(
    ("utility", "scale"),
    [
        (0.5 * ce.Mean() + 0.5 * ce.Entropic(1.0), 500.0),
        (ce.MonotoneMeanVariance(50), 1e7),
        (ce.Quartic(), 1e70),
        (ce.SmoothCVaR(0.1), 1e9),
    ],
    ids=str,
)
def test_a_loss_without_weight_overflows_nothing(utility, scale):
    x, weight = weightless()
    x = x * scale
    x[3] = 4.0 * x.max()  # the greatest loss is one that does not count
    wanted = ce.oce(x[10:].numpy(), utility, weights=weight[10:].numpy())
    assert ce.oce(x.numpy(), utility, weights=weight.numpy()) == pytest.approx(wanted, rel=1e-12)
    assert float(oce(x, utility, weight=weight)) == pytest.approx(wanted, rel=1e-12)
    assert float(oce(x[None], utility, weight=weight[None], dim=1)) == pytest.approx(wanted, rel=1e-12)
    live = x.clone().requires_grad_()
    (q,) = torch.autograd.grad(oce(live, utility, weight=weight), live)
    assert not q[:10].any()
    assert float(q.sum()) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("size", [1e-300, 1e-50, 1e39, 1e300])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("utility", [ce.Entropic(1.0), ce.SmoothCVaR(0.1), ce.CVaR(0.1)], ids=repr)
def test_weights_of_any_size_are_weights(utility, dtype, size):
    x, weight = weightless()
    x, close = x.to(dtype), {"rel": 1e-5 if dtype is torch.float32 else 1e-12}
    wanted = ce.oce(x.double().numpy(), utility, weights=weight.numpy())
    assert float(oce(x, utility, weight=size * weight)) == pytest.approx(wanted, **close)
    assert float(oce(x[None], utility, weight=size * weight, dim=1)) == pytest.approx(wanted, **close)
    live = x.clone().requires_grad_()
    (q,) = torch.autograd.grad(oce(live, utility, weight=size * weight), live, create_graph=True)
    np.testing.assert_allclose(q.detach(), ce.tilt(x.double().numpy(), utility, weights=weight.numpy()), atol=1e-5)


def test_losses_too_far_apart_for_their_floats():
    far = torch.tensor([1e308, -1e308, 5.0, 3.0], dtype=torch.float64)
    for utility in (ce.LeakyCVaR(0.1), ce.SmoothCVaR(0.1)):
        assert float(oce(far, utility)) == ce.oce(far.numpy(), utility) == 1e308
    with pytest.raises(OverflowError, match="larger unit"):
        oce(far, ce.MeanVariance(1.0))
    long = torch.zeros(5000)
    long[0], long[1] = 3e38, -3e38
    for utility in (ce.Mean(), ce.CVaR(0.3), ce.SmoothCVaR(0.1), ce.LeakyCVaR(0.1)):
        wanted = ce.oce(long.double().numpy(), utility)
        assert float(oce(long, utility)) == pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize(
    "utility",
    [
        *(ce.SmoothCVaR(alpha, 1.0) for alpha in (1e-4, 1e-6, 1e-9, 1e-12)),
        ce.SmoothCVaR(0.05, 1e6),
        ce.LeakyCVaR(1e-6),
    ],
    ids=repr,
)
def test_curves_much_wider_or_higher_than_the_losses(utility):
    x = torch.randn(64, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    assert float(oce(x, utility)) == pytest.approx(ce.oce(x.numpy(), utility), rel=1e-12, abs=1e-13)


def test_losses_a_millionth_of_the_unit_keep_all_their_digits():
    mpmath = pytest.importorskip("mpmath")
    x = torch.randn(64, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    with mpmath.workdps(40):
        alpha, unit, losses = mpmath.mpf(0.05), mpmath.mpf(10) ** 6, [mpmath.mpf(v) for v in x.tolist()]

        def u(y):
            return unit * (y / unit / alpha if y >= 0 else mpmath.atan(y / unit / alpha))

        def excess(t):
            return sum(1 / (1 + min((v - t) / unit / alpha, 0) ** 2) for v in losses) / (64 * alpha) - 1

        anchor = -unit * mpmath.sqrt(alpha * (1 - alpha))
        t = mpmath.findroot(excess, (min(losses) - anchor, max(losses) - anchor), solver="anderson")
        wanted = float(t + sum(u(v - t) for v in losses) / 64 - (u(anchor) - anchor))
    assert float(oce(x, ce.LeakyCVaR(0.05).scaled(1e6).normalized())) == pytest.approx(wanted, rel=1e-9)


def test_a_slope_steeper_than_floats_are_dense_is_shared_between_neighbors():
    x = torch.randn(64, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    live = (1e16 * x).requires_grad_()
    (q,) = torch.autograd.grad(oce(live, ce.LeakyCVaR(0.05)), live)
    np.testing.assert_allclose(q, ce.tilt(x.numpy(), ce.CVaR(0.05)), atol=1e-9)
    for dtype, scale, tau in ((torch.float32, 1e3, 1e-6), (torch.float64, 1.0, 1e-20)):
        row = (scale * x).to(dtype)[None]
        wanted = ce.oce(row[0].double().numpy(), ce.CVaR(0.3))
        assert float(oce(row, ce.SmoothCVaR(0.3, tau), dim=1)) == pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize("utility", [ce.LeakyCVaR(0.05), ce.SmoothCVaR(0.05)], ids=repr)
@pytest.mark.parametrize("n", [4096, 4097])
def test_long_float32_batches_have_the_gradients_of_short_ones(utility, n):
    x = (1e6 * torch.randn(n, generator=torch.Generator().manual_seed(0))).requires_grad_()
    (q,) = torch.autograd.grad(oce(x, utility), x)
    wanted = ce.tilt(x.detach().double().numpy(), utility)
    np.testing.assert_allclose(q, wanted, atol=1e-3 * wanted.max())


@pytest.mark.filterwarnings("ignore:CVaR.alpha=.* is the mean of the worst")
def test_a_gradient_of_cvar_is_never_negative():
    x = torch.randn(12, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    (q,) = torch.autograd.grad(oce(x, ce.CVaR(11 / 12)), x)
    assert float(q.min()) >= 0.0


@pytest.mark.parametrize("utility", [ce.Entropic(1.0), ce.SmoothCVaR(0.1), ce.CVaR(0.1)], ids=repr)
def test_whoever_records_a_graph_gets_no_constant(utility):
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.proxy_tensor import make_fx

    x = torch.randn(32, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    recorded = make_fx(lambda a: oce(1.0 * a, utility))(x)
    assert float(recorded(3 * x)) == pytest.approx(ce.oce(3 * x.numpy(), utility), rel=1e-9)
    with FakeTensorMode():
        assert oce(torch.zeros(5), utility).shape == ()


def test_infinite_losses_give_inf_where_they_are_let_through():
    inf = torch.inf
    x, weight = torch.tensor([inf, 2.0, 1.0]), torch.tensor([1.0, 0.0, 1.0])
    assert float(oce(x, ce.Entropic(1.0), weight=weight, allow_inf=True)) == inf
    assert float(oce(x[None], ce.Entropic(1.0), weight=weight, dim=1, allow_inf=True)) == inf
    weight = torch.tensor([0.0, 1.0, 1.0])  # one that does not count makes nothing infinite
    exact = pytest.approx(ce.oce([2.0, 1.0], ce.Entropic(1.0)), rel=1e-6)
    assert float(oce(x, ce.Entropic(1.0), weight=weight, allow_inf=True)) == exact
    assert float(oce(x[None], ce.Entropic(1.0), weight=weight, dim=1, allow_inf=True)) == exact


def test_negated_views_and_weights_that_mean_nothing():
    z = torch.randn(8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    lazy = torch.complex(z, z).conj().imag
    assert lazy.is_neg()
    assert float(oce(lazy, ce.Entropic(1.0))) == pytest.approx(ce.oce(-z.numpy(), ce.Entropic(1.0)), rel=1e-13)
    assert np.isnan(float(oce(z, ce.Entropic(1.0), weight=torch.zeros(8), validate=False)))


def test_slopes_of_both_signs_beside_a_power():
    """A mean slope below 0 has no cube root: the search goes on by bisection there."""
    rng = np.random.default_rng(0)
    utility = 0.5 * ce.MeanVariance(3.0) + 0.5 * ce.Quartic()
    for _ in range(50):
        x = rng.standard_t(2, size=int(rng.integers(2, 50))) * 10.0 ** rng.uniform(-2, 3)
        assert float(oce(torch.tensor(x), utility)) == pytest.approx(ce.oce(x, utility), rel=1e-11)


# -- on the CPU all of these are solved by the core, and differentiated by tensors when asked -------------------------


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_threshold_tilt_and_kept_dimensions_are_those_of_the_core(utility, dtype):
    for name, x, w in SAMPLES:
        t = torch.tensor(x, dtype=dtype)
        v = None if w is None else torch.tensor(w)
        x = t.double().numpy()
        near = (1e-9 if dtype == torch.float64 else 1e-5) * size(x, utility)
        assert oce(t, utility, weight=v, keepdim=True).shape == (1,), name
        assert oce(t, utility, weight=v, keepdim=True) == oce(t, utility, weight=v), name
        if w is None and utility.curve is not None:
            found = threshold(t, utility).item()
            # Where n * alpha is whole the mean slope is 1 on a stretch, to the digits of float32: any of it is right.
            flat = dtype == torch.float32 and abs(float(np.mean(utility.slope(x - found))) - 1.0) <= 1e-6
            assert flat or found == pytest.approx(ce.threshold(x, utility), abs=near), name
        assert tilt(t, utility, weight=v).double().numpy() == pytest.approx(ce.tilt(x, utility, w), abs=1e-5), name


@pytest.mark.parametrize("rows, columns", [(1, 300), (4, 16), (40, 16), (3, 5000)])
def test_rows_are_solved_one_by_one(utility, rows, columns):
    generator = torch.Generator().manual_seed(rows)
    x = torch.randn(rows, columns, dtype=torch.float64, generator=generator)
    x[0] = x[0].round(decimals=1)  # ties
    along, across = oce(x, utility, dim=1), oce(x.T, utility, dim=0)
    assert torch.equal(along, across)
    assert along.numpy() == pytest.approx(ce.oce(x.numpy(), utility, axis=1), rel=1e-12)
    q = tilt(x, utility, dim=1)
    assert q.numpy() == pytest.approx(ce.tilt(x.numpy(), utility, axis=1), abs=1e-9)
    assert torch.equal(tilt(x.T, utility, dim=0), q.T)
    cube = oce(x.reshape(rows, columns, 1).expand(rows, columns, 2), utility, dim=1, keepdim=True)
    assert torch.equal(cube[:, 0, 1], along)
    single = oce(x.float(), utility, dim=1)
    assert single.dtype == torch.float32
    assert torch.allclose(single.double(), along, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("function", [oce, threshold, tilt])
@pytest.mark.parametrize("dim", [None, 1, (0, 2)])
def test_derivatives_are_those_of_tensors(utility, function, dim, monkeypatch):
    x = torch.randn(3, 7, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(3)).requires_grad_()
    found = function(x, utility, dim=dim)
    c = torch.randn(found.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
    (slope,) = torch.autograd.grad((c * found).sum(), x)
    monkeypatch.setattr("certeq.torch._functional.reduce_on_host", lambda *arguments: None)
    other = function(x, utility, dim=dim)
    assert torch.allclose(found, other, rtol=1e-10, atol=1e-8)
    wanted = torch.autograd.grad((c * other).sum(), x)[0] if other.requires_grad else torch.zeros_like(x)
    assert torch.allclose(slope, wanted, rtol=1e-6, atol=1e-6)


def test_odd_tensors_of_rows():
    x = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
    wanted = oce(x, ce.CVaR(0.3), dim=1)
    assert torch.allclose(oce(x.half(), ce.CVaR(0.3), dim=1).float(), wanted, atol=1e-2)
    assert torch.equal(oce(x[:, ::2].contiguous(), ce.CVaR(0.3), dim=1), oce(x[:, ::2], ce.CVaR(0.3), dim=1))
    assert torch.equal(oce(x, ce.CVaR(0.3), dim=()), x)
    custom = ce.utility(lambda y: np.expm1(y))  # written for arrays
    assert oce(x, custom, dim=1).numpy() == pytest.approx(oce(x, ce.Entropic(1.0), dim=1).numpy(), rel=1e-6)


def test_a_parameter_may_be_a_numpy_number():
    x = torch.randn(50, generator=torch.Generator().manual_seed(0))
    assert oce(x, ce.CVaR(np.float64(0.1))) == oce(x, ce.CVaR(0.1))
    assert repr(ce.CVaR(np.float64(0.1)).scaled(np.float64(2.0)) + ce.Mean()) == (
        "1.0*CVaR(alpha=0.1).scaled(2.0) + 1.0*Mean()"
    )

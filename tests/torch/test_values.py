"""Values and gradients where floats run out: scales, sharp curves, weights of 0, what is kept between calls."""

import numpy as np
import pytest
import torch
from torch.autograd import forward_ad

import certeq as ce
from certeq.torch import oce
from tests.problems import MIXED, UTILITIES, tolerance

NAMES = [name for name in UTILITIES if not isinstance(UTILITIES[name], type(UTILITIES["custom"]))]


def normal(n, seed, dtype=torch.float64):
    return torch.randn(n, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def on_every_path(x, utility, weight=None):
    """Yield the OCE of a vector, of a row, of tensors as on a device, and of tensors whose values may not be read."""
    yield oce(x, utility, weight=weight)
    yield oce(x[None], utility, weight=None if weight is None else weight[None], dim=1)[0]
    with forward_ad.dual_level():
        yield oce(x, utility, weight=weight)
    w = torch.ones_like(x) if weight is None else weight
    yield torch.func.vmap(lambda x, w: oce(x, utility, weight=w))(x[None], w[None])[0]


CURVES = {
    "tiny_rate": ce.Entropic(1e-9),
    "sharp": ce.SmoothCVaR(0.1, 1e-3),
    "wide": ce.SmoothCVaR(0.3, 5.0),
    "wider": ce.SmoothCVaR(0.05, 1e6),
    "scaled": ce.LeakyCVaR(0.2).normalized().scaled(0.5),
    "two_kinks": 0.5 * ce.CVaR(0.1) + 0.5 * ce.CVaR(0.3).normalized().scaled(2.0),
    "mean_smooth": 0.2 * ce.Mean() + 0.8 * ce.SmoothCVaR(0.1),
    "steep_leaky": ce.LeakyCVaR(1e-6),
    **{f"alpha_{alpha}": ce.SmoothCVaR(alpha, 1.0) for alpha in (1e-4, 1e-6, 1e-9, 1e-12)},
    **{name: u for name, u in MIXED.items() if not isinstance(u, type(UTILITIES["custom"]))},
}


@pytest.mark.parametrize("name", CURVES)
def test_curves_that_are_hard_to_search(name):
    utility, rng = CURVES[name], np.random.default_rng(0)
    for n in (2, 7, 64, 100):
        x = rng.standard_normal(n)
        w = rng.random(n) * (rng.random(n) > 0.3) + 1e-6
        for losses, weight in ((x, None), (np.round(x), w), (1e-3 * x, w), (100.0 * x, None), (x + 1e4, w)):
            with np.errstate(over="ignore"):
                wanted = ce.oce(losses, utility, weight)
            size = 1e-13 * (1.0 + abs(wanted) + np.abs(losses).max())
            tensors = torch.tensor(losses), None if weight is None else torch.tensor(weight)
            for found in on_every_path(tensors[0], utility, tensors[1]):
                assert abs(found.item() - wanted) <= tolerance(losses, wanted, 1e-11) + 10 * size, (n, found.item())


@pytest.mark.parametrize("n", [5000, 70_001])
@pytest.mark.parametrize("name", NAMES)
def test_long_vectors(name, n):
    x, utility = np.random.default_rng(2).exponential(size=n), UTILITIES[name]
    wanted = ce.oce(x, utility)
    assert oce(torch.tensor(x), utility).item() == pytest.approx(wanted, rel=1e-12)
    short = torch.tensor(x, dtype=torch.float32, requires_grad=True)
    value = oce(short, utility)
    value.backward()
    assert value.item() == pytest.approx(wanted, rel=3e-6)
    assert short.grad.sum().item() == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize("n", [1, 2, 7, 64, 1000, 4096])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0, 1e4])
def test_powers_and_logistic_slopes_in_float32(n, scale):
    """Small float32 batches of these utilities are computed in float32."""
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


def test_values_kept_between_calls():
    x = torch.tensor([3.0, 1.0, 2.0, 5.0, 4.0, 0.0, 7.0], requires_grad=True)
    with torch.inference_mode():
        before = oce(x.detach(), ce.CVaR(0.31))
    after = oce(x, ce.CVaR(0.31))
    after.backward()
    assert before == after
    assert x.grad.sum() == pytest.approx(1.0)
    x, first = normal(40, 1), ce.CVaR(0.1)
    for _ in range(2):
        for utility in (first, ce.CVaR(0.3), ce.CVaR(0.3).scaled(2.0), 1.0 * ce.CVaR(0.2), ce.Mean()):
            assert oce(x, utility).item() == pytest.approx(ce.oce(x.numpy(), utility), rel=1e-12)
            assert oce(x.float(), utility).item() == pytest.approx(ce.oce(x.numpy(), utility), rel=1e-6)
    first.set_params(alpha=0.5)
    assert oce(x, first).item() == pytest.approx(ce.oce(x.numpy(), ce.CVaR(0.5)), rel=1e-12)
    inner = ce.Entropic(1.0)
    for outer in (inner.scaled(2.0), inner.normalized()):
        for beta in (1.0, 3.0):
            inner.set_params(beta=beta)
            assert float(oce(x, outer)) == pytest.approx(ce.oce(x.numpy(), outer), rel=1e-13)
    assert oce(x, ce.CVaR(np.float64(0.1))) == oce(x, ce.CVaR(0.1))


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
    x, weight = scale * normal(64, 1), torch.rand(64, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    weight[:10] = 0.0
    x[3] = 4.0 * x.max()  # the largest loss has no weight
    wanted = ce.oce(x[10:].numpy(), utility, weights=weight[10:].numpy())
    for found in on_every_path(x, utility, weight):
        assert float(found) == pytest.approx(wanted, rel=1e-12)
    live = x.clone().requires_grad_()
    (q,) = torch.autograd.grad(oce(live, utility, weight=weight), live)
    assert not q[:10].any()
    assert float(q.sum()) == pytest.approx(1.0, abs=1e-12)


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


def test_slopes_steeper_than_floats_are_dense():
    """Neighboring losses share what the slope jumps by between them."""
    x = normal(64, 2)
    live = (1e16 * x).requires_grad_()
    (q,) = torch.autograd.grad(oce(live, ce.LeakyCVaR(0.05)), live)
    np.testing.assert_allclose(q, ce.tilt(x.numpy(), ce.CVaR(0.05)), atol=1e-9)
    for dtype, scale, tau in ((torch.float32, 1e3, 1e-6), (torch.float64, 1.0, 1e-20)):
        row = (scale * x).to(dtype)
        wanted = ce.oce(row.double().numpy(), ce.CVaR(0.3))
        for found in on_every_path(row, ce.SmoothCVaR(0.3, tau)):
            assert float(found) == pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize("utility", [ce.LeakyCVaR(0.05), ce.SmoothCVaR(0.05)], ids=repr)
@pytest.mark.parametrize("n", [4096, 4097])
def test_long_float32_batches_have_the_gradients_of_short_ones(utility, n):
    x = (1e6 * normal(n, 0, torch.float32)).requires_grad_()
    (q,) = torch.autograd.grad(oce(x, utility), x)
    wanted = ce.tilt(x.detach().double().numpy(), utility)
    np.testing.assert_allclose(q, wanted, atol=1e-3 * wanted.max())


@pytest.mark.filterwarnings("ignore:CVaR.alpha=.* is the mean of the worst")
def test_a_gradient_of_cvar_is_never_negative():
    x = normal(12, 0).requires_grad_()
    (q,) = torch.autograd.grad(oce(x, ce.CVaR(11 / 12)), x)
    assert float(q.min()) >= 0.0


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::torch.jit.TracerWarning")
@pytest.mark.parametrize("utility", [ce.Entropic(1.0), ce.SmoothCVaR(0.1), ce.CVaR(0.1)], ids=repr)
def test_recorded_graphs_hold_no_constant(utility):
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.proxy_tensor import make_fx

    x = normal(32, 0)
    for recorded in (make_fx(lambda a: oce(1.0 * a, utility))(x), torch.jit.trace(lambda a: oce(a, utility), x)):
        assert float(recorded(3 * x)) == pytest.approx(ce.oce(3 * x.numpy(), utility), rel=1e-9)
    with FakeTensorMode():
        assert oce(torch.zeros(5), utility).shape == ()


def test_odd_tensors():
    z = normal(8, 0)
    lazy = torch.complex(z, z).conj().imag
    assert lazy.is_neg()
    assert float(oce(lazy, ce.Entropic(1.0))) == pytest.approx(ce.oce(-z.numpy(), ce.Entropic(1.0)), rel=1e-13)
    assert np.isnan(float(oce(z, ce.Entropic(1.0), weight=torch.zeros(8), validate=False)))
    x = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
    assert torch.equal(oce(x[:, ::2].contiguous(), ce.CVaR(0.3), dim=1), oce(x[:, ::2], ce.CVaR(0.3), dim=1))
    assert torch.equal(oce(x, ce.CVaR(0.3), dim=()), x)
    scalar = torch.tensor(2.0, requires_grad=True)
    oce(scalar, ce.Quartic().normalized(), keepdim=True).backward()
    assert scalar.grad == 1.0


@pytest.mark.parametrize("rows, columns", [(1, 300), (4, 16), (40, 16), (3, 5000)])
def test_rows_are_solved_one_by_one(rows, columns):
    generator = torch.Generator().manual_seed(rows)
    x = torch.randn(rows, columns, dtype=torch.float64, generator=generator)
    for name in ("cvar.3", "entropic", "quartic", "leaky", "smooth", "entropic_cvar", "custom"):
        utility = UTILITIES[name]
        along = oce(x, utility, dim=1)
        assert along.numpy() == pytest.approx(ce.oce(x.numpy(), utility, axis=1), rel=1e-12)
        assert torch.equal(along, oce(x.T, utility, dim=0))
        cube = oce(x.reshape(rows, columns, 1).expand(rows, columns, 2), utility, dim=1, keepdim=True)
        assert torch.equal(cube[:, 0, 1], along)
        single = oce(x.float(), utility, dim=1)
        assert single.dtype == torch.float32
        assert torch.allclose(single.double(), along, rtol=1e-5, atol=1e-5)


def test_slopes_of_both_signs_together_with_a_power():
    """A mean slope below 0 has no cube root: the search goes on by bisection there."""
    rng = np.random.default_rng(0)
    utility = 0.5 * ce.MeanVariance(3.0) + 0.5 * ce.Quartic()
    for _ in range(50):
        x = rng.standard_t(2, size=int(rng.integers(2, 50))) * 10.0 ** rng.uniform(-2, 3)
        for found in on_every_path(torch.tensor(x), utility):
            assert float(found) == pytest.approx(ce.oce(x, utility), rel=1e-11)

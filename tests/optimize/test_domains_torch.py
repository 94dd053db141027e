"""The same projections on tensors: values, devices' dtypes, derivatives, vmap."""

from __future__ import annotations

import numpy as np
import pytest

from certeq.optimize.domains import Ball, Simplex
from tests.optimize.test_domains import CASES, D, each_case

torch = pytest.importorskip("torch")


def generic(*shape: int, seed: int = 12) -> torch.Tensor:
    return 2 * torch.randn(*shape, D, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@each_case
def test_values_equal_numpy(domain):
    x = generic(3, 2)
    kept = x.clone()
    np.testing.assert_allclose(domain.project(x).numpy(), domain.project(x.numpy()), rtol=0, atol=1e-14)
    assert torch.equal(x, kept)
    assert domain.contains(domain.project(x))


@each_case
def test_gradcheck(domain):
    x = generic(2).requires_grad_()
    assert torch.autograd.gradcheck(domain.project, (x,), eps=1e-7, atol=1e-6, check_forward_ad=True)
    inside = (torch.as_tensor(domain.start(D)) + 1e-3 * generic()).requires_grad_()
    assert torch.autograd.gradcheck(domain.project, (inside,), eps=1e-7, atol=1e-6)


@each_case
def test_gradgradcheck(domain):
    assert torch.autograd.gradgradcheck(domain.project, (generic(2).requires_grad_(),), eps=1e-7, atol=1e-5)


@each_case
def test_vmap_and_jacobians(domain):
    x = generic(4)
    torch.testing.assert_close(torch.func.vmap(domain.project)(x), domain.project(x), rtol=0, atol=1e-13)
    torch.testing.assert_close(torch.func.vmap(domain.project, in_dims=1)(x.T.contiguous()), domain.project(x))
    jacobians = torch.func.vmap(torch.func.jacrev(domain.project))(x)
    for row, jacobian in zip(x, jacobians, strict=True):
        expected = torch.autograd.functional.jacobian(domain.project, row)
        torch.testing.assert_close(jacobian, expected, rtol=0, atol=1e-12)
        torch.testing.assert_close(jacobian, jacobian.T, rtol=0, atol=1e-12)  # a projection's Jacobian is symmetric
        assert torch.linalg.eigvalsh(jacobian).min() >= -1e-12
        assert torch.linalg.eigvalsh(jacobian).max() <= 1 + 1e-12
    torch.testing.assert_close(torch.func.jacfwd(domain.project)(x[0]), jacobians[0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_dtype_is_kept(dtype):
    x = generic(2).to(dtype).requires_grad_()
    p = Simplex().project(x)
    assert p.dtype == dtype
    p[..., 0].sum().backward()
    assert x.grad.dtype == dtype
    assert Simplex().project(torch.arange(3)).dtype == torch.float64


def test_offsets_on_tensors():
    for name in ("simplex", "capped", "capped-short", "long-short"):
        x = generic() * 2.0**-10
        x = torch.round(x * 2**20) / 2**20
        torch.testing.assert_close(CASES[name].project(x + 2.0**30), CASES[name].project(x), rtol=0, atol=1e-15)


def test_ball_has_a_gradient_at_its_center():
    x = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    Ball().project(x).sum().backward()
    assert torch.equal(x.grad, torch.ones(3, dtype=torch.float64))


def test_bad_tensors():
    with pytest.raises(ValueError, match=r"x must be finite; found nan at \[1\]"):
        Simplex().project(torch.tensor([1.0, float("nan")]))
    with pytest.raises(TypeError, match=r"real numbers; found dtype torch\.complex64"):
        Simplex().project(torch.tensor([1.0 + 1j]))
    with pytest.raises(ValueError, match=r"shape \(\.\.\., d\)"):
        Simplex().project(torch.tensor(1.0))
    out = torch.func.vmap(Simplex().project)(torch.tensor([[1.0, float("nan")], [0.0, 1.0]]))
    assert torch.isnan(out[0]).any()
    assert torch.equal(out[1], torch.tensor([0.0, 1.0]))

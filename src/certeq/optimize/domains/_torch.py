"""The torch side of the backend: the same operations, with a derivative attached.

The derivative is attached rather than traced. A projection is differentiable almost everywhere and its Jacobian is
known in closed form once the active constraints are, so the search for them (a sort, a bisection) runs on detached
values and the result is

    value + J (x - detach(x)),

whose second term is exactly zero and carries the exact Jacobian J through backward, forward mode, vmap and jacrev.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike

from ._backend import Backend, HostSolver

__all__ = ["TORCH", "TorchBackend"]


class _OnHost(torch.autograd.Function):
    """Run a NumPy solver row by row; its own vmap rule lets it run under `torch.func.vmap`."""

    @staticmethod
    def forward(x: Any, solve: HostSolver) -> Any:
        rows = x.detach().cpu().numpy().reshape(-1, x.shape[-1])
        values, jacobians = solve(rows)
        d = x.shape[-1]
        return (
            torch.as_tensor(values, device=x.device).reshape(x.shape),
            torch.as_tensor(jacobians(), device=x.device).reshape(*x.shape, d),
        )

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.mark_non_differentiable(*output)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return None, None

    @staticmethod
    def vmap(info: Any, in_dims: Any, x: Any, solve: Any) -> Any:
        return _on_host(x.movedim(in_dims[0], 0), solve), (0, 0)


_on_host: Callable[[Any, HostSolver], Any] = _OnHost.apply


class TorchBackend(Backend):
    """PyTorch, on the tensor's own device and in float64."""

    def constant(self, value: ArrayLike, like: Any) -> Any:
        # The copy keeps torch from warning about the read-only arrays that the sets hold.
        return torch.as_tensor(np.array(value, dtype=np.float64), device=like.device)

    def detach(self, x: Any) -> Any:
        return x.detach()

    def attach(self, value: Any, x: Any, tangent: Callable[[Any], Any]) -> Any:
        return value + tangent(x - x.detach())

    def on_host(self, solve: HostSolver, x: Any) -> Any:
        value, jacobian = _on_host(x.detach(), solve)
        return self.attach(value, x, lambda v: (jacobian @ v.unsqueeze(-1)).squeeze(-1))

    def sort(self, x: Any) -> Any:
        return torch.sort(x, dim=-1).values

    def cumsum(self, x: Any) -> Any:
        return torch.cumsum(x, dim=-1)

    def sum(self, x: Any) -> Any:
        return torch.sum(x, dim=-1, keepdim=True, dtype=torch.float64)

    def max(self, x: Any) -> Any:
        return torch.amax(x, dim=-1, keepdim=True)

    def take(self, x: Any, index: Any) -> Any:
        return torch.gather(x, -1, index)

    def floats(self, mask: Any) -> Any:
        return mask.to(torch.float64)

    def integers(self, x: Any) -> Any:
        return x.to(torch.int64)

    def where(self, mask: Any, x: Any, y: Any) -> Any:
        return torch.where(mask, x, y)

    def clip(self, x: Any, lower: Any, upper: Any) -> Any:
        # Two clamps, because one takes two tensors or two numbers but not one of each.
        return torch.clamp(torch.clamp(x, min=lower), max=upper)

    def sqrt(self, x: Any) -> Any:
        return torch.sqrt(x)

    def concatenate(self, parts: Sequence[Any]) -> Any:
        return torch.cat(list(parts), dim=-1)


TORCH = TorchBackend()

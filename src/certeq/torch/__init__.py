"""Optimized certainty equivalents as PyTorch losses."""

try:
    import torch as _torch  # noqa: F401
except ImportError as error:  # pragma: no cover
    raise ImportError("certeq.torch needs PyTorch; install it with: pip install certeq[torch]") from error

from certeq.torch._functional import oce, shortfall, tilt

__all__ = ["oce", "shortfall", "tilt"]

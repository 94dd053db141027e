"""Optimized certainty equivalents as PyTorch losses: write them where ``losses.mean()`` stands."""

try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    raise ImportError("certeq.torch needs PyTorch; install it with: pip install certeq[torch]") from error

from certeq.torch._functional import oce, threshold, tilt
from certeq.torch._loss import OCELoss
from certeq.torch._memory import MemoryOCELoss
from certeq.torch._sampler import GrowingBatchSampler
from certeq.torch._sg import OCESG

__all__ = ["OCESG", "GrowingBatchSampler", "MemoryOCELoss", "OCELoss", "oce", "threshold", "tilt"]

"""Optimized certainty equivalents as PyTorch losses: write them where ``losses.mean()`` stands."""

try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    raise ImportError("certeq.torch needs PyTorch; install it with: pip install 'certeq[torch]'") from error

from certeq.torch._functional import oce, threshold, tilt
from certeq.torch._loss import MemoryOCELoss, OCELoss
from certeq.torch._optimizer import OCESG, GrowingBatchSampler

__all__ = ["OCESG", "GrowingBatchSampler", "MemoryOCELoss", "OCELoss", "oce", "threshold", "tilt"]

for _kind in (OCESG, GrowingBatchSampler, MemoryOCELoss, OCELoss):
    _kind.__module__ = __name__  # pickles name the package, whose modules may move
del _kind

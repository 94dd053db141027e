"""certeq: optimized certainty equivalents, estimated and minimized from samples.

``import certeq as ce`` gives the utilities, the estimates and the optimizers; PyTorch, portfolios, scikit-learn
estimators and the rest live in packages of their own (``certeq.torch``, ``certeq.portfolio``, ``certeq.learn``).
"""

from importlib import import_module as _import_module
from importlib.metadata import version as _version
from typing import TYPE_CHECKING, Any

from certeq._table import register as _register
from certeq.risk import Estimate, ReliabilityWarning, bounds, estimate, oce, threshold, tilt, ubsr
from certeq.utilities import (
    CustomUtility,
    CVaR,
    Entropic,
    LeakyCVaR,
    Mean,
    MeanVariance,
    MonotoneMeanVariance,
    Quartic,
    SmoothCVaR,
    Utility,
    utility,
)

if TYPE_CHECKING:
    from certeq.optimize import (
        Ball,
        Box,
        CallableLoss,
        CappedSimplex,
        Domain,
        Free,
        InfeasibleError,
        L1Ball,
        LinearLoss,
        LogisticLoss,
        LongShort,
        Loss,
        NonNegative,
        Polyhedron,
        Product,
        Simplex,
        Solution,
        SquaredLoss,
        TorchLoss,
        UnboundedError,
        hessian,
        hessian_product,
        minimize,
    )

__version__ = _version("certeq")

for _package in ("dask", "dask_expr"):
    _register(_package, "certeq.scale")

# The optimizers stand on scipy.optimize, which takes half a second to import: it waits until one is asked for.
_FROM_OPTIMIZE = (
    "Ball",
    "Box",
    "CallableLoss",
    "CappedSimplex",
    "Domain",
    "Free",
    "InfeasibleError",
    "L1Ball",
    "LinearLoss",
    "LogisticLoss",
    "Loss",
    "LongShort",
    "NonNegative",
    "Polyhedron",
    "Product",
    "Simplex",
    "Solution",
    "SquaredLoss",
    "TorchLoss",
    "UnboundedError",
    "hessian",
    "hessian_product",
    "minimize",
)


def __getattr__(name: str) -> Any:
    if name in _FROM_OPTIMIZE:
        return getattr(_import_module("certeq.optimize"), name)
    raise AttributeError(f"module 'certeq' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_FROM_OPTIMIZE])


__all__ = [
    "Ball",
    "Box",
    "CVaR",
    "CallableLoss",
    "CappedSimplex",
    "CustomUtility",
    "Domain",
    "Entropic",
    "Estimate",
    "Free",
    "InfeasibleError",
    "L1Ball",
    "LeakyCVaR",
    "LinearLoss",
    "LogisticLoss",
    "LongShort",
    "Loss",
    "Mean",
    "MeanVariance",
    "MonotoneMeanVariance",
    "NonNegative",
    "Polyhedron",
    "Product",
    "Quartic",
    "ReliabilityWarning",
    "Simplex",
    "SmoothCVaR",
    "Solution",
    "SquaredLoss",
    "TorchLoss",
    "UnboundedError",
    "Utility",
    "bounds",
    "estimate",
    "hessian",
    "hessian_product",
    "minimize",
    "oce",
    "threshold",
    "tilt",
    "ubsr",
    "utility",
]

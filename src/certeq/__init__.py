"""certeq: optimized certainty equivalents, estimated and minimized from samples.

``import certeq as ce`` gives the utilities, the estimates and the optimizers; PyTorch, portfolios, scikit-learn
estimators and the rest live in packages of their own (``certeq.torch``, ``certeq.portfolio``, ``certeq.learn``).
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from certeq.optimize import *  # noqa: F403
    from certeq.risk import *  # noqa: F403
    from certeq.utilities import *  # noqa: F403

    __version__: str

# Every name and the package it is imported from when it is first asked for: the optimizers stand on scipy.optimize,
# which takes half a second.
_NAMES = {
    "certeq.utilities": (
        "CVaR CustomUtility Distortion DivergenceBall EVaR Entropic HMCR LeakyCVaR Mean MeanVariance Mixture "
        "MonotoneMeanVariance PowerDistortion ProportionalHazard Quartic Risk SmoothCVaR Utility Wang utility"
    ),
    "certeq.risk": (
        "Control Difference Estimate ReliabilityWarning UnitWarning bounds control difference estimate oce threshold "
        "tilt ubsr upper_bound"
    ),
    "certeq.optimize": (
        "Ball Box BudgetingResult CallableLoss CappedSimplex Domain Free InfeasibleError L1Ball Limit LinearLoss "
        "LogisticLoss LongShort Loss NonNegative Polyhedron Product RatioSolution RiskTerm RootMeanSquare Simplex "
        "Solution SquaredLoss TorchLoss UnboundedError hessian hessian_product maximize_ratio minimize risk_budgeting"
    ),
}
_HOMES = {name: package for package, names in _NAMES.items() for name in names.split()}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        found = getattr(_import_module(_HOMES[name]), name)
    elif f"certeq.{name}" in _NAMES:
        return _import_module(f"certeq.{name}")
    elif name == "__version__":
        from importlib.metadata import version

        found = version("certeq")
    else:
        raise AttributeError(f"module 'certeq' has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})

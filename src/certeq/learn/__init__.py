"""Risk-averse learning: scikit-learn estimators whose losses are judged by an OCE instead of their mean.

The linear estimators need scikit-learn alone; the networks and uncertainty models need PyTorch and skorch as well
and are imported when they are first asked for.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

try:
    import sklearn as _sklearn  # noqa: F401
except ImportError as error:
    raise ImportError("certeq.learn needs scikit-learn: pip install 'certeq[learn]'") from error

from certeq.learn._calibration import Calibration, ToyData, calibration, toy_heteroscedastic
from certeq.learn._linear import OCEClassifier, OCERegressor
from certeq.learn._scoring import OCEScorer, oce_scorer, sample_losses

if TYPE_CHECKING:
    from certeq.learn._network_estimators import OCENetworkClassifier, OCENetworkRegressor
    from certeq.learn._uncertainty import DeepEnsembleRegressor, GaussianNLL, MVERegressor

__all__ = [
    "Calibration",
    "DeepEnsembleRegressor",
    "GaussianNLL",
    "MVERegressor",
    "OCEClassifier",
    "OCENetworkClassifier",
    "OCENetworkRegressor",
    "OCERegressor",
    "ToyData",
    "calibration",
    "oce_scorer",
    "sample_losses",
    "toy_heteroscedastic",
]

_TORCH = {
    "DeepEnsembleRegressor": "_uncertainty",
    "GaussianNLL": "_uncertainty",
    "MVERegressor": "_uncertainty",
    "OCENetworkClassifier": "_network_estimators",
    "OCENetworkRegressor": "_network_estimators",
}

# Pickles name this package, not the file that a class happens to be written in.
for _class in (Calibration, OCEClassifier, OCERegressor, OCEScorer, ToyData):
    _class.__module__ = __name__


def __getattr__(name: str) -> Any:
    if name not in _TORCH:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        import skorch as _skorch  # noqa: F401
        import torch as _torch  # noqa: F401
    except ImportError as error:
        raise ImportError(f"certeq.learn.{name} needs PyTorch and skorch: pip install 'certeq[learn]'") from error
    return getattr(importlib.import_module(f"{__name__}.{_TORCH[name]}"), name)


def __dir__() -> list[str]:
    return __all__

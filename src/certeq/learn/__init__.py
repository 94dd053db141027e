"""Risk-averse learning: scikit-learn estimators that minimize an OCE of their losses instead of the mean.

Linear models and a scorer. Networks are trained by `certeq.torch.OCELoss`.
"""

from __future__ import annotations

try:
    import sklearn as _sklearn  # noqa: F401
except ImportError as error:
    raise ImportError("certeq.learn needs scikit-learn: pip install 'certeq[learn]'") from error

from certeq.learn._linear import OCEClassifier, OCERegressor
from certeq.learn._scoring import OCEScorer, oce_scorer, sample_losses

__all__ = ["OCEClassifier", "OCERegressor", "oce_scorer", "sample_losses"]

# Pickles name this package, not the file that a class happens to be written in.
for _class in (OCEClassifier, OCERegressor, OCEScorer):
    _class.__module__ = __name__

"""The risk of held-out losses as a score: of any scikit-learn estimator, through pipelines and searches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import is_classifier, is_regressor
from sklearn.pipeline import Pipeline

from certeq.learn._checks import as_risk, check_sample_weight
from certeq.learn._linear import positions
from certeq.optimize.predictor import Floats
from certeq.risk import oce
from certeq.utilities import Risk


def sample_losses(estimator: Any, X: Any, y: Any) -> Floats:
    r"""One loss per sample of a fitted estimator: the ``losses`` of those of ``certeq.learn``, else the usual ones.

    .. math:: F_i = -\ln p_{y_i}(x_i) \quad\text{or}\quad F_i = (y_i - f(x_i))^2

    Parameters
    ----------
    estimator : estimator
        Fitted. A ``Pipeline`` transforms X by its steps and asks the last of them, a search asks its best estimator.
    X, y : array-like
        Samples and targets that the estimator was preferably not fitted on.

    Returns
    -------
    ndarray (n,)
        What the estimator's own method ``losses`` returns. Without one: cross-entropies of a classifier that predicts
        probabilities, clipped as ``sklearn.metrics.log_loss`` does, and squared errors of a regressor, in the units of
        y (added up over several outputs).

    See Also
    --------
    oce_scorer
        Minus OCE of held-out losses as a scorer.
    certeq.estimate
        OCE of losses with standard error and confidence interval.

    Notes
    -----
    Not for a pipeline whose last step does not predict.

    Examples
    --------
    >>> import numpy as np, certeq as ce
    >>> from sklearn.linear_model import LinearRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from certeq.learn import OCERegressor, sample_losses
    >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0.0, 0.0, 0.0, 4.0])
    >>> for model in (OCERegressor(ce.CVaR(0.5), alpha=0.0), LinearRegression()):
    ...     model = make_pipeline(StandardScaler(), model).fit(X, y)
    ...     print(sample_losses(model, X, y).round(2) + 0.0)
    [1.78 0.   1.78 1.78]
    [0.64 0.16 2.56 1.44]
    """
    while True:
        if isinstance(estimator, Pipeline):
            if len(estimator.steps) > 1:
                X = estimator[:-1].transform(X)
            estimator = estimator.steps[-1][1]
        elif hasattr(estimator, "best_estimator_"):
            estimator = estimator.best_estimator_
        else:
            break
    if callable(getattr(estimator, "losses", None)):
        return np.asarray(estimator.losses(X, y), dtype=np.float64)
    if is_classifier(estimator) and hasattr(estimator, "predict_proba"):
        p = np.asarray(estimator.predict_proba(X))
        p = p if p.dtype.kind == "f" else p.astype(np.float64)
        p = p[np.arange(len(p)), positions(y, estimator.classes_, len(p))]
        eps = np.finfo(p.dtype).eps
        return np.asarray(-np.log(np.clip(p, eps, 1 - eps)), dtype=np.float64)
    if is_regressor(estimator):
        predicted = np.asarray(estimator.predict(X), dtype=np.float64)
        target = np.asarray(y, dtype=np.float64).reshape(predicted.shape)
        errors = np.square(predicted - target)
        return np.asarray(errors if errors.ndim == 1 else errors.sum(axis=1))
    raise TypeError(
        "estimator must have a method losses, or be a regressor or a classifier with predict_proba; found "
        f"{type(estimator).__name__}."
    )


class OCEScorer:
    """What `oce_scorer` returns: a function of an estimator, X and y that can be pickled and printed."""

    def __init__(self, utility: Risk, losses: Callable[..., Any]) -> None:
        self.utility = utility
        self.losses = losses

    def __call__(self, estimator: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Minus the OCE of the estimator's losses."""
        losses = np.asarray(self.losses(estimator, X, y), dtype=np.float64)
        if losses.ndim != 1:
            raise ValueError(f"losses must return one loss per sample, of shape (n,); found shape {losses.shape}.")
        weights = check_sample_weight(sample_weight, len(losses))
        if (losses == np.inf).any():  # whatever the utility, the risk is infinite
            return -np.inf
        return -float(oce(losses, self.utility, weights))

    def __repr__(self) -> str:
        own = "" if self.losses is sample_losses else f", losses={self.losses!r}"
        return f"oce_scorer({self.utility!r}{own})"


def oce_scorer(utility: Any = None, *, losses: Callable[..., Any] = sample_losses) -> OCEScorer:
    r"""A scorer for ``GridSearchCV``, ``cross_val_score`` and the like: minus the OCE of held-out losses.

    .. math:: -\mathrm{OCE}_u(F_1, \dots, F_n)

    Choosing by accuracy, log-loss or R2 chooses by the mean, and so for ``Mean()``; what is to be small should be what
    is compared.

    Parameters
    ----------
    utility : Risk, optional
        Risk measure; ``Entropic(beta=1.0)`` by default. It need not be the one that models are fitted with.
    losses : callable, optional
        ``losses(estimator, X, y)`` with one loss per sample, instead of `sample_losses`.

    Returns
    -------
    callable
        ``scorer(estimator, X, y)``; greater is better, and -inf where a loss is infinite.

    See Also
    --------
    sample_losses
        One loss per sample of a fitted estimator.
    certeq.portfolio.oce_scorer
        Minus OCE of a predicted portfolio as a scorer.

    Notes
    -----
    Not with folds of a few samples: CVaR(0.1) of 30 samples is the mean of three, and the risk of a small sample is too
    low (see "Small batches are too optimistic"); choose folds of several times 1/alpha samples.

    Examples
    --------
    >>> import numpy as np, certeq as ce
    >>> from sklearn.model_selection import GridSearchCV
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from certeq.learn import OCEClassifier, oce_scorer
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((600, 3))
    >>> rare = rng.random(600) < 0.1  # follow another rule
    >>> score = np.where(rare, -3.0 * X[:, 1], 2.0 * X[:, 0] + 2.0 * X[:, 1])
    >>> y = score + 0.5 * rng.logistic(size=600) > 0
    >>> grid = {"oceclassifier__utility": [ce.Mean(), ce.Entropic(1.0)]}
    >>> model = make_pipeline(StandardScaler(), OCEClassifier())
    >>> for scoring in ("neg_log_loss", oce_scorer(ce.CVaR(0.1))):
    ...     print(GridSearchCV(model, grid, scoring=scoring, cv=3).fit(X, y).best_params_)
    {'oceclassifier__utility': Mean()}
    {'oceclassifier__utility': Entropic(beta=1.0)}
    """
    if not callable(losses):
        raise TypeError(f"losses must be a function of an estimator, X and y; found {losses!r}.")
    return OCEScorer(as_risk(utility), losses)

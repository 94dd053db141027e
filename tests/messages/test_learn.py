"""Errors and warnings of estimators and scores: the argument, what was found, and the remedy."""

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.svm import SVC

import certeq as ce
from certeq.learn import OCEClassifier, OCERegressor, oce_scorer, sample_losses
from tests.messages import messages

pytestmark = pytest.mark.filterwarnings("ignore::certeq.ReliabilityWarning")  # samples are few here

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 3))
REAL = X @ [1.0, -0.5, 0.3] + RNG.standard_t(4, size=300)
LABEL = np.where(REAL > 0, "yes", "no")
LARGE = 80.0 * (REAL - REAL.mean()) / REAL.std()  # squared errors in the thousands


def classify(y=LABEL, weight=None, **params):
    return OCEClassifier(**params).fit(X, y, sample_weight=weight)


def regress(y=REAL, weight=None, utility=None, x=X, **params):
    return OCERegressor(**params if utility is None else {"utility": utility, **params}).fit(x, y, sample_weight=weight)


WANG, PART = ce.Wang(0.5), ce.Mixture([0.5, 0.5], [ce.Mean(), ce.Wang(0.5)])
HALF_NAN = np.where(np.arange(3) == 1, np.nan, X)
NEGATIVE = np.where(np.arange(300) == 7, -1.0, 1.0)
YES = (LABEL == "yes").astype(float)

MESSAGES = {
    # Parameters
    "name_of_a_risk": (lambda: classify(utility="cvar"), TypeError, "utility must be a Utility", "'cvar'"),
    "class_of_a_risk": (lambda: classify(utility=ce.CVaR), TypeError, "CVaR()"),
    "slopes_below_1": (lambda: classify(utility=0.1 * ce.Mean()), ValueError, "1 must lie strictly between"),
    "C": (lambda: classify(C=0.0), ValueError, "C must be a number above 0", "0"),
    "C_text": (lambda: classify(C="big"), TypeError, "C must be a number", "'big'"),
    "tol": (lambda: classify(tol=-1.0), ValueError, "tol must be", "-1"),
    "max_iter": (lambda: classify(max_iter=0), ValueError, "max_iter must be", "0"),
    "class_weight": (lambda: classify(class_weight="balance"), ValueError, "class_weight", "'balanced'"),
    "class_weight_of_no_class": (lambda: classify(class_weight={"maybe": 1.0}), ValueError, "not among the classes"),
    "distortion": (
        lambda: regress(utility=WANG),
        TypeError,
        "utility must have inner variables",
        "Mixture of a few CVaRs",
    ),
    "part_of_a_mixture": (
        lambda: regress(utility=PART),
        TypeError,
        "utility must have inner variables",
        "Mixture of a few",
    ),
    # Data
    "not_fitted": (lambda: OCEClassifier().predict(X), NotFittedError, "fit"),
    "losses_before_fit": (lambda: OCERegressor().losses(X, REAL), NotFittedError, "fit"),
    "one_class": (lambda: classify(np.full(300, "yes")), ValueError, "one class only", "'yes'"),
    "one_class_of_weight": (lambda: classify(weight=YES), ValueError, "one class only"),
    "nan": (lambda: regress(x=HALF_NAN), ValueError, "NaN"),
    "short_weights": (lambda: regress(weight=[1.0, 2.0, 3.0]), ValueError, "sample_weight", "per sample, 300; found 3"),
    "negative_weight": (
        lambda: regress(weight=NEGATIVE),
        ValueError,
        "sample_weight",
        "not be negative; found -1 at [7]",
    ),
    "no_weight": (lambda: regress(weight=np.zeros(300)), ValueError, "sample_weight", "not sum to 0", "every sample"),
    "unknown_class": (lambda: classify().losses(X[:1], ["maybe"]), ValueError, "'maybe'", "not among the classes"),
    # Warnings
    "stopped": (lambda: regress(max_iter=1), ConvergenceWarning, "stopped after 1 iterations"),
    "stopped_with_a_gap": (lambda: regress(utility=ce.CVaR(0.1), max_iter=3), ConvergenceWarning, "gap"),
    "too_sharp": (
        lambda: regress(LARGE, utility=ce.Entropic(1.0)),
        ce.UnitWarning,
        "fewer samples than",
        "standardize y",
    ),
    "blind": (lambda: regress(1e-6 * LARGE, utility=ce.Entropic(1.0)), ce.UnitWarning, "hardly sees the risk"),
    # Scores
    "score_of_a_name": (lambda: oce_scorer("cvar"), TypeError, "utility must be"),
    "score_of_no_function": (lambda: oce_scorer(ce.Mean(), losses="squared"), TypeError, "losses must be a function"),
    "score_of_a_number": (
        lambda: oce_scorer(ce.Mean(), losses=lambda model, X, y: 1.0)(LinearRegression(), X, REAL),
        ValueError,
        "one loss per sample",
        "(n,)",
        "found shape ()",
    ),
    "no_predictor": (
        lambda: sample_losses(KMeans(2, n_init=1).fit(X), X, REAL),
        TypeError,
        "method losses",
        "found KMeans",
    ),
    "no_probabilities": (lambda: sample_losses(SVC().fit(X, LABEL), X, LABEL), TypeError, "found SVC"),
    "score_of_an_unknown_class": (
        lambda: sample_losses(LogisticRegression().fit(X, LABEL), X, np.full(300, "maybe")),
        ValueError,
        "not among the classes",
    ),
}
test_message = messages(MESSAGES)

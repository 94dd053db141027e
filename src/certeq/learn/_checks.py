"""What estimators may be given, and what is said when it is something else."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certeq._checks import check_choice, check_instance, check_number, check_weights, shown
from certeq.optimize.predictor import Floats
from certeq.risk.solvers import needs_sorting
from certeq.utilities import CVaR, Entropic, Mean, Risk, Utility

# Squared errors often have a heavy tail, which a few samples would decide: slopes from 0.9 to 1.9 bound their share.
OF_SQUARED_ERRORS: Risk = 0.9 * Mean() + 0.1 * CVaR(0.1)


def as_risk(utility: Any, default: Risk | None = None) -> Risk:
    """Return the risk, or the default (Entropic(1.0)) for None; raise for a class or a name."""
    if utility is None:
        return default or Entropic(beta=1.0)
    check_instance("utility", utility, Risk, "a Utility such as certeq.CVaR(0.05), another risk, or None")
    own: Risk = copy.deepcopy(utility)  # a utility may remember facts about itself; a parameter must not change
    if isinstance(own, Utility):
        own.anchor  # noqa: B018  (a sum whose slopes never reach 1 says so here)
    return own


def as_linear_risk(utility: Any, default: Risk | None = None) -> Risk:
    """The same for a linear model, whose method needs inner variables: a distortion is refused."""
    risk = as_risk(utility, default)
    if needs_sorting(risk):
        raise TypeError(
            f"utility must have inner variables; found {risk!r}, an average of all CVaRs, whose second derivatives a "
            "linear model has no use for. A certeq.Mixture of a few CVaRs comes near it; oce_scorer takes it as it is."
        )
    return risk


def check_sample_weight(sample_weight: Any, n: int) -> Floats | None:
    """One weight per sample, or one number for all; None where they are all alike and 1."""
    if sample_weight is None:
        return None
    if np.isscalar(sample_weight):
        sample_weight = np.full(n, sample_weight)
    return check_weights("sample_weight", sample_weight, n)


def check_classes(classes: NDArray[Any]) -> None:
    """At least two of them."""
    if len(classes) < 2:
        found = ", ".join(repr(label) for label in classes.tolist())
        raise ValueError(f"y must hold at least 2 classes; found one class only: {found}.")


def combine_weights(sample_weight: Floats | None, class_weight: Any, classes: NDArray[Any], y: Any) -> Floats | None:
    """Sample weights times class weights ("balanced" or a dict from label to weight)."""
    if class_weight is None:
        return sample_weight
    from sklearn.utils.class_weight import compute_sample_weight

    if isinstance(class_weight, str):
        check_choice("class_weight", class_weight, ["balanced"])
    elif isinstance(class_weight, dict):
        for label, weight in class_weight.items():
            check_number(f"class_weight[{shown(label)}]", weight, least=0.0)
            if label not in classes:
                raise ValueError(
                    f"class_weight names {shown(label)}, which is not among the classes {classes.tolist()}."
                )
    if isinstance(class_weight, str) and sample_weight is not None:
        # Balanced means that every class has the same total weight, the samples' own weights included.
        index = np.searchsorted(classes, y)
        totals = np.bincount(index, weights=sample_weight, minlength=len(classes))
        positive = totals > 0
        per_class = np.where(positive, totals.sum() / (positive.sum() * np.where(positive, totals, 1.0)), 0.0)
        return np.asarray(sample_weight * per_class[index])
    per_sample = compute_sample_weight(class_weight, y)
    return np.asarray(per_sample if sample_weight is None else sample_weight * per_sample)

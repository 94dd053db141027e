"""What estimators may be given, and what is said when it is something else."""

from __future__ import annotations

import copy
import difflib
import math
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certeq.learn._scores import Floats
from certeq.utilities import Entropic, Utility


def as_utility(utility: Any) -> Utility:
    """Return the utility, Entropic(1.0) for None; a class or a name is refused with what to write instead."""
    if utility is None:
        return Entropic(beta=1.0)
    if isinstance(utility, Utility):
        own = copy.deepcopy(utility)  # a utility may remember facts about itself; a parameter must not change
        own.anchor  # noqa: B018  (a sum whose slopes never reach 1 says so here)
        return own
    if isinstance(utility, type) and issubclass(utility, Utility):
        raise TypeError(f"utility must be an instance; write {utility.__name__}() rather than {utility.__name__}.")
    raise TypeError(f"utility must be a Utility such as certeq.CVaR(0.05), or None; found {utility!r}.")


def check_number(name: str, found: Any, *, above: float | None = None, least: float | None = None) -> float:
    """A real number, above or not below a limit; +inf is let through where the limit allows it."""
    wanted = f"a number above {above:g}" if above is not None else f"a number not below {least:g}"
    if isinstance(found, bool) or not isinstance(found, Real):
        raise TypeError(f"{name} must be {wanted}; found {found!r}.")
    number = float(found)
    if math.isnan(number) or (above is not None and number <= above) or (least is not None and number < least):
        raise ValueError(f"{name} must be {wanted}; found {found!r}.")
    return number


def check_count(name: str, found: Any, least: int = 1) -> int:
    """A whole number not below ``least``."""
    if isinstance(found, bool) or not isinstance(found, Integral):
        raise TypeError(f"{name} must be a whole number not below {least}; found {found!r}.")
    if int(found) < least:
        raise ValueError(f"{name} must be a whole number not below {least}; found {found!r}.")
    return int(found)


def check_choice(name: str, found: Any, choices: Iterable[str]) -> str:
    """One of some names; the nearest is suggested."""
    known = list(choices)
    if isinstance(found, str) and found in known:
        return found
    near = difflib.get_close_matches(str(found).lower(), known, n=1, cutoff=0.5)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise ValueError(f"{name} must be one of {', '.join(map(repr, known))}; found {found!r}.{hint}")


def check_sample_weight(sample_weight: Any, n: int) -> Floats | None:
    """One weight per sample, finite, not negative, not all 0; None where they are all alike and 1."""
    if sample_weight is None:
        return None
    if np.isscalar(sample_weight):
        sample_weight = np.full(n, sample_weight)
    try:
        weight = np.asarray(sample_weight, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"sample_weight must hold numbers; found {sample_weight!r}.") from error
    if weight.shape != (n,):
        raise ValueError(f"sample_weight must have one entry per sample, shape ({n},); found shape {weight.shape}.")
    bad = np.flatnonzero(~np.isfinite(weight) | (weight < 0.0))
    if bad.size:
        i = int(bad[0])
        raise ValueError(f"sample_weight must be finite and not negative; found {float(weight[i])!r} at index {i}.")
    if not weight.any():
        raise ValueError("sample_weight is zero for every sample; at least one must count.")
    return weight


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
            check_number(f"class_weight[{label!r}]", weight, least=0.0)
            if label not in classes:
                raise ValueError(f"class_weight names {label!r}, which is not among the classes {classes.tolist()}.")
    if isinstance(class_weight, str) and sample_weight is not None:
        # Balanced means that every class has the same total weight, the samples' own weights included.
        places = np.searchsorted(classes, y)
        totals = np.bincount(places, weights=sample_weight, minlength=len(classes))
        held = totals > 0
        per_class = np.where(held, totals.sum() / (held.sum() * np.where(held, totals, 1.0)), 0.0)
        return np.asarray(sample_weight * per_class[places])
    per_sample = compute_sample_weight(class_weight, y)
    return np.asarray(per_sample if sample_weight is None else sample_weight * per_sample)

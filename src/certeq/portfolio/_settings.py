"""What a fit checks before it starts: the table of returns, the prior, and settings that must agree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from skfolio.optimization import ObjectiveFunction
from skfolio.prior import BasePrior, ReturnDistribution
from sklearn.base import clone
from sklearn.utils.validation import validate_data

from certeq.portfolio._assets import check_choice, check_number
from certeq.portfolio._prior import ScenarioPrior
from certeq.risk._input import check_utility

if TYPE_CHECKING:
    from certeq.portfolio._minimum_oce import MinimumOCE

SOLVER_PARAMS = {
    "exact": ("max_iter", "time_limit"),
    "sg": (
        *("regime", "step", "batch", "average", "replace", "iterations", "tol", "time_limit", "rng"),
        *("log_every", "callback", "progress", "checkpoint", "checkpoint_every", "resume"),
    ),
}


def read_objective(found: Any) -> str:
    """The objective by name, from skfolio's enumeration or from the name itself."""
    text = found.value if isinstance(found, ObjectiveFunction) else found
    text = text.lower() if isinstance(text, str) else text
    if text in ("maximize_return", "maximize_ratio"):
        raise ValueError(
            f"objective_function must be MINIMIZE_RISK or MAXIMIZE_UTILITY; found {found!r}, for which skfolio's "
            "MeanRisk is there."
        )
    return str(check_choice("objective_function", text, ("minimize_risk", "maximize_utility")))


def check_settings(model: MinimumOCE, method: str) -> None:
    """Refuse parameters that are wrong whatever the returns are."""
    if model.utility is not None:
        check_utility(model.utility).anchor  # noqa: B018 - a sum whose slopes never reach 1 says so here
    read_objective(model.objective_function)
    check_choice("solver", model.solver, ("exact", "sg"))
    check_number("tol", model.tol, "a number above 0", above=0.0)
    if not (model.solver_params is None or isinstance(model.solver_params, dict)):
        raise TypeError(f"solver_params must be a dict or None; found {model.solver_params!r}.")
    for name in model.solver_params or {}:
        check_choice(f"a key of solver_params for solver={model.solver!r}", name, SOLVER_PARAMS[model.solver])
    if method == "partial_fit":
        model._validate_partial_fit_fallback()
    size = model.efficient_frontier_size
    if size is None:
        return
    if isinstance(size, bool) or not hasattr(size, "__index__") or int(size) < 2:
        raise ValueError(f"efficient_frontier_size must be a whole number of at least 2; found {size!r}.")
    for needed, wrong in (
        ("min_return=None", model.min_return is not None),
        ("objective_function=MINIMIZE_RISK", model.maximizes_utility),
        ("fit, not partial_fit", method == "partial_fit"),
    ):
        if wrong:
            raise ValueError(f"efficient_frontier_size needs {needed}.")


def make_prior(found: Any) -> Any:
    """A fresh prior: a clone of the one given, or the scenarios as they are."""
    if found is None:
        return ScenarioPrior()
    if isinstance(found, BasePrior):
        return clone(found)
    hint = f"; write {found.__name__}()" if isinstance(found, type) else ""
    raise TypeError(f"prior_estimator must be a skfolio prior such as EmpiricalPrior(); found {found!r}{hint}.")


def check_table(model: MinimumOCE, X: Any, first: bool) -> Any:
    """Return what the prior is to see; refuse what it could not use, saying where it is.

    Names and number of the assets are recorded. A prior passed in gets X itself, which it may read the names from.
    """
    if hasattr(X, "columns") and len(set(X.columns)) < len(X.columns):
        twice = next(name for name in X.columns if list(X.columns).count(name) > 1)
        raise ValueError(f"X must name each asset once; found {twice!r} more than once. Rename or drop a column.")
    table = validate_data(model, X, reset=first, dtype=np.float64, ensure_all_finite=False)
    if first and len(table) < 2:
        raise ValueError(f"X must have at least 2 rows, one per period; found n_samples={len(table)}.")
    if model.prior_estimator is not None:  # it may know what to do with gaps
        return X
    if np.isfinite(table).all():
        return table
    bad = ~np.isfinite(table)
    row, column = np.argwhere(bad)[0]
    what = "NaN" if np.isnan(table[row, column]) else "inf"
    when = X.index[row] if hasattr(X, "index") else f"row {row}"
    name = X.columns[column] if hasattr(X, "columns") else f"column {column}"
    raise ValueError(
        f"X must be finite; found {what} for {name} at {when} ({int(bad.sum())} such entries in all). Fill or drop "
        "them, or use a prior that takes gaps, such as EmpiricalPrior(EWMu(), EWCovariance())."
    )


def check_scenarios(distribution: ReturnDistribution) -> None:
    """Refuse scenarios of a prior that are not finite."""
    bad = ~np.isfinite(distribution.returns)
    if bad.any():
        raise ValueError(f"The prior's scenarios must be finite; found {int(bad.sum())} entries that are not.")

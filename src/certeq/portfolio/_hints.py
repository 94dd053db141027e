"""What to write here instead of parameters that are skfolio's, or those of a utility."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from certeq._checks import did_you_mean, shown

_TAIL = "The tail is a parameter of the risk, as the mass alpha = 1 - beta of the worst cases: "
_BESIDE_A_BUDGET = (
    *("min_weights", "max_weights", "max_short", "max_long", "transaction_costs", "groups", "linear_constraints"),
    *("left_inequality", "right_inequality", "min_return", "max_turnover", "risk_limits", "max_tracking_error"),
    *("l1_coef", "l2_coef", "max_cvar", "max_evar"),
)
_OF_A_UTILITY = {
    "alpha": "ce.CVaR(alpha={})",
    "beta": "ce.Entropic(beta={})",
    "tau": "ce.SmoothCVaR(0.05, tau={})",
    "scale": "ce.Quartic().scaled({})",
}
_BELONGS_TO_SKFOLIO = {
    "integers": (
        ("cardinality", "group_cardinalities", "threshold_long", "threshold_short"),
        "It takes integer programming, which skfolio's MeanRisk has.",
    ),
    "drawdowns": (
        ("max_max_drawdown", "max_average_drawdown", "max_cdar", "max_edar", "max_ulcer_index"),
        "Drawdowns depend on the order of the days, which no risk here does; skfolio's MeanRisk has them.",
    ),
    "moments": (
        (
            *("max_mean_absolute_deviation", "max_first_lower_partial_moment", "max_semi_variance"),
            *("max_semi_deviation", "max_gini_mean_difference", "min_acceptable_return"),
        ),
        "skfolio's MeanRisk has it; the limits here are on risks such as risk_limits=[(ce.CVaR(0.05), 0.02)].",
    ),
    "sets": (
        ("mu_uncertainty_set_estimator", "covariance_uncertainty_set_estimator"),
        "skfolio's MeanRisk has it; here a ball around the data does that, such as utility=ce.MonotoneMeanVariance(2)"
        ".ball(0.1) or ce.EVaR(0.05).",
    ),
    "cvxpy": (
        (
            *("scale_objective", "scale_constraints", "save_problem", "add_objective", "add_constraints"),
            "overwrite_expected_return",
        ),
        "It belongs to cvxpy, which is not used here; linear_constraints and left_inequality add constraints.",
    ),
}


def with_hints(owner: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A constructor that says what to write instead of skfolio's parameters; its signature stays as it is."""

    def decorate(init: Callable[..., None]) -> Callable[..., None]:
        @wraps(init)
        def checked(self: Any, *args: Any, **given: Any) -> None:
            known = init.__code__.co_varnames[: init.__code__.co_argcount + init.__code__.co_kwonlyargcount]
            for name, value in given.items():
                if name in known:
                    continue
                hint = hint_for(owner, name, value)
                hint = did_you_mean(name, known) if hint is None else f" {hint}"
                raise TypeError(f"{owner} has no parameter {name!r}; found {shown(value)}.{hint}")
            init(self, *args, **given)

        return checked

    return decorate


def hint_for(owner: str, name: str, value: Any) -> str | None:
    """What to write instead of a parameter of skfolio's or of a utility; None for any other name.

    >>> hint_for("MinimumOCE", "max_evar", 0.03)
    'Limits on risks are pairs: risk_limits=[(ce.EVaR(0.05), 0.03)].'
    """
    if owner == "RiskBudgetingOCE" and name in _BESIDE_A_BUDGET:
        return (
            "With bounds, groups, costs or limits contributions cannot follow a budget; skfolio's RiskBudgeting takes "
            "some, and its contributions then follow the budget no more. MinimumOCE takes them without a budget."
        )
    if name == "risk_measure":
        return _risk_of(owner, value)
    if name in _OF_A_UTILITY:
        return f"It is a parameter of the risk: {owner}({_OF_A_UTILITY[name].format(shown(value))})."
    if name in ("cvar_beta", "evar_beta", "cdar_beta", "edar_beta"):
        alpha = 1.0 - value if isinstance(value, float) and 0.0 < value < 1.0 else 0.05
        if name.startswith("c"):
            return f"{_TAIL}{owner}(ce.CVaR({alpha:.6g}))."
        return f"{_TAIL}{owner}(ce.EVaR({alpha:.6g}))."
    if name in ("max_cvar", "max_evar"):
        return f"Limits on risks are pairs: risk_limits=[(ce.{'CE'['e' in name]}VaR(0.05), {shown(value)})]."
    if name in ("max_variance", "max_standard_deviation"):
        return (
            "A variance is no risk here; skfolio's MeanRisk has that limit. Near it: the mean loss and beta times the "
            "variance, risk_limits=[(ce.MeanVariance(beta), level)]."
        )
    if name == "max_worst_realization":
        return f"The largest loss is CVaR of less than one day: risk_limits=[(ce.CVaR(1e-6), {shown(value)})]."
    if name == "target_weights":
        return (
            "Risk against a benchmark is limited here: benchmark_limits=[(risk, level)] or max_tracking_error=..., "
            "with its returns as y of fit(X, y)."
        )
    if name == "risk_budget":
        return "Risk budgets are those of RiskBudgetingOCE(utility, risk_budget=...)."
    for names, reason in _BELONGS_TO_SKFOLIO.values():
        if name in names:
            return reason
    return None


def _risk_of(owner: str, value: Any) -> str:
    """What an entry of skfolio's `RiskMeasure` is called here."""
    measure = str(getattr(value, "value", value)).lower()
    words = "What risk means is its utility: "
    here = {
        "cvar": "ce.CVaR(0.05)",
        "evar": "ce.EVaR(0.05)",
        "variance": "ce.MeanVariance(25.0)",
        "standard_deviation": "ce.MonotoneMeanVariance(2.0).ball(1.0)",
        "worst_realization": "ce.CVaR(1e-6)",
        "entropic_risk_measure": "ce.Entropic(50.0)",
    }.get(measure)
    if owner == "RiskBudgetingOCE" and measure in ("variance", "entropic_risk_measure"):
        return (
            f"{words}{owner}(ce.CVaR(0.05)), {owner}(ce.EVaR(0.05)), ... A budget needs a coherent one, which "
            f"{measure.replace('_', ' ')} is not; skfolio's RiskBudgeting has it."
        )
    if here is not None:
        return f"{words}{owner}({here})."
    second = "ce.EVaR(0.05)" if owner == "RiskBudgetingOCE" else "ce.Entropic(50.0)"
    other = f" {measure.replace('_', ' ')} is none of them; skfolio's optimizers have it." if measure else ""
    return f"{words}{owner}(ce.CVaR(0.05)), {owner}({second}), ...{other}"

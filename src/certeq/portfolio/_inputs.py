"""From an estimator's parameters and a return distribution to a problem: what a fit is given, read and checked.

Numbers given per asset are lined up with the assets, settings must agree with each other, the table of returns and the
prior's scenarios must be finite.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from skfolio.exceptions import EquationToMatrixError, GroupNotFoundError, OptimizationError
from skfolio.optimization import ObjectiveFunction
from skfolio.prior import BasePrior, ReturnDistribution
from skfolio.utils.equations import equations_to_matrix
from sklearn.base import clone
from sklearn.utils.validation import validate_data

from certeq._checks import check_choice, check_count, check_number, did_you_mean, shown
from certeq.portfolio._limits import benchmark_limits, read_levels, risk_limits
from certeq.portfolio._prior import ScenarioPrior
from certeq.portfolio._problem import Costs, PortfolioProblem, RiskLimit, Row
from certeq.risk.solvers import check_risk, needs_sorting
from certeq.utilities import Risk, Utility

if TYPE_CHECKING:
    from certeq.portfolio._base import BaseOCE
    from certeq.portfolio._minimum_oce import MinimumOCE

Floats = NDArray[np.float64]
_SHARE_BEYOND_ALL = 0.02  # of returns below -1 from which on they are taken for percentages
OBJECTIVES = ("minimize_risk", "maximize_utility", "maximize_return", "maximize_ratio")
SOLVER_PARAMS = {
    "exact": ("max_iter", "time_limit"),
    "sg": (
        *("regime", "step", "batch", "average", "replace", "iterations", "tol", "time_limit", "rng"),
        *("log_every", "callback", "progress", "checkpoint", "checkpoint_every", "resume"),
    ),
}


@dataclass(frozen=True)
class Assets:
    """The assets to choose from, and how an input given per asset is read.

    Parameters
    ----------
    names
        Names of all columns of X, or None where X has none.
    size
        Number of columns of X.
    mask
        Which of them can be held; None for all.
    strict
        Whether a name that is no asset is refused (or else passed over).
    """

    names: NDArray[Any] | None
    size: int
    mask: NDArray[np.bool_] | None = None
    strict: bool = True

    @property
    def count(self) -> int:
        """Number of assets that can be held."""
        return self.size if self.mask is None else int(self.mask.sum())

    @property
    def held(self) -> NDArray[Any] | None:
        """Names of the assets that can be held."""
        return self.names if self.names is None or self.mask is None else self.names[self.mask]

    def label(self, j: int) -> str:
        """How a message speaks of the j-th asset that can be held."""
        return f"asset {j}" if self.held is None else repr(str(self.held[j]))

    def worst(self, broken: NDArray[np.bool_]) -> tuple[int, str]:
        """The first asset where something is broken, and how a message speaks of all of them."""
        where = np.flatnonzero(broken)
        more = f" (and {len(where) - 1} more)" if len(where) > 1 else ""
        return int(where[0]), self.label(int(where[0])) + more

    def values(self, name: str, found: Any, absent: float, default: float, beyond: Iterable[str] = ()) -> Floats:
        """One number per asset from a number, an array, or a mapping by asset name.

        ``absent`` is what None means, ``default`` what an asset missing from a mapping gets. Names in ``beyond`` are
        let pass although no column has them.
        """
        if found is None:
            return np.full(self.count, absent)
        if isinstance(found, Mapping) or has_names(found):
            array = self._by_name(name, dict(found.items()), default, set(beyond))
        else:
            array = self._by_position(name, found)
        if np.isnan(array).any():
            raise ValueError(f"{name} must not be NaN; found NaN for {self.worst(np.isnan(array))[1]}.")
        return array

    def _by_position(self, name: str, found: Any) -> Floats:
        wanted = f"a number, {self.size} numbers (one per asset) or a dict by asset name"
        if isinstance(found, (bool, str, bytes)):
            raise TypeError(f"{name} must be {wanted}; found {shown(found)}.")
        array = np.asarray(found)
        if array.dtype.kind not in "fiu":
            raise TypeError(f"{name} must be {wanted}; found {shown(found)}.")
        if array.ndim == 0:
            return np.full(self.count, float(array))
        if array.shape == (self.size,) and self.mask is not None:
            array = array[self.mask]
        if array.shape != (self.count,):
            raise ValueError(f"{name} must be {wanted}; found an array of shape {array.shape}.")
        return array.astype(np.float64)

    def _by_name(self, name: str, found: dict[Any, Any], default: float, beyond: set[str]) -> Floats:
        if self.names is None:
            raise ValueError(f"{name} is given by asset name, but X has no names; pass X as a DataFrame.")
        self.refuse_strangers(name, set(found) - beyond)
        array = np.array(
            [check_number(f"{name}[{key!r}]", found.get(key, default), finite=False) for key in self.names], dtype=float
        )
        return array if self.mask is None else array[self.mask]

    def refuse_strangers(self, name: str, keys: Iterable[Any]) -> None:
        """Raise where a key is no asset, with the nearest name that is one."""
        if not self.strict or self.names is None:
            return
        known = set(self.names)
        for key in keys:
            if key not in known:
                hint = did_you_mean(str(key), map(str, self.names))
                raise ValueError(
                    f"{name} names {key!r}, which is no column of X.{hint} With unknown_names='ignore' such names are "
                    "passed over."
                )


def has_names(found: Any) -> bool:
    """Whether this is a pandas Series indexed by names rather than by position."""
    return hasattr(found, "to_dict") and any(isinstance(key, str) for key in getattr(found, "index", ()))


def read_problem(
    model: MinimumOCE, distribution: ReturnDistribution, assets: Assets, utility: Risk, y: Any = None
) -> PortfolioProblem:
    """Check every parameter of the model against the distribution of the assets that can be held.

    ``y`` is the benchmark. Limits that may be several have the first of their levels.
    """
    as_given = np.asarray(distribution.returns, dtype=np.float64)
    returns, mu, weights = read_scenarios(model.recenter, distribution)
    objective = read_objective(model.objective_function)
    costs = _costs(model, assets)
    lower = assets.values("min_weights", model.min_weights, -np.inf, 0.0)
    upper = assets.values("max_weights", model.max_weights, np.inf, 1.0)
    _refuse_infinite("min_weights", lower, np.inf, assets)
    _refuse_infinite("max_weights", upper, -np.inf, assets)
    turnover = _optional("max_turnover", model.max_turnover, "a number not below 0", least=0.0)
    _narrow(lower, upper, costs.previous, turnover, assets)
    budget, budgets = _budgets(model, assets.count)
    aversion = check_number("risk_aversion", model.risk_aversion, "a number above 0", above=0.0)
    scale = aversion if objective == "maximize_utility" else 1.0
    A = -returns
    limits = [RiskLimit(name, risk, levels[0], A, None, weights) for name, risk, levels in risk_limits(model)]
    beside = benchmark_limits(model)
    if beside:
        if y is not None and isinstance(model.prior_estimator_, ScenarioPrior):
            y = np.asarray(y)[-len(returns) :]  # the rows that max_history keeps
        benchmark = _benchmark(y, len(returns), f"{beside[0][0]} is")
        apart = A if returns is as_given else -as_given  # views on the means say nothing of the benchmark
        limits += [RiskLimit(name, risk, levels[0], apart, benchmark, weights) for name, risk, levels in beside]
    problem = PortfolioProblem(
        assets=assets,
        A=A,
        weights=weights,
        utility=utility,
        mu=mu,
        costs=costs,
        lower=lower,
        upper=upper,
        rows=(*budgets, *_equations(model, assets, distribution), *_inequalities(model, assets)),
        max_long=_optional("max_long", model.max_long, "a number above 0", above=0.0),
        max_short=_optional("max_short", model.max_short, "a number above 0", above=0.0),
        reward={"maximize_utility": 1.0 / aversion, "maximize_return": 1.0}.get(objective, 0.0),
        l1=check_number("l1_coef", model.l1_coef, "a number not below 0", least=0.0) / scale,
        l2=check_number("l2_coef", model.l2_coef, "a number not below 0", least=0.0) / scale,
        scale=scale,
        turnover=turnover,
        counts_risk=objective != "maximize_return",
        hurdle=check_number("risk_free_rate", model.risk_free_rate) if objective == "maximize_ratio" else None,
        limits=tuple(limits),
    )
    _check_bounds(problem, budget)
    return problem


def _benchmark(y: Any, count: int, needed: str) -> Floats:
    """The returns of the benchmark in every scenario."""
    if y is None:
        raise ValueError(f"{needed} a limit against a benchmark: pass its returns as y, as in fit(X, y).")
    table = np.asarray(y, dtype=np.float64)
    if table.ndim == 2 and table.shape[1] == 1:
        table = table[:, 0]
    if table.shape != (count,):
        raise ValueError(
            f"y must hold one return of the benchmark for each of the {count} scenarios; found shape {np.shape(y)}. A "
            "prior that makes scenarios of its own says nothing of the benchmark in them."
        )
    if not np.isfinite(table).all():
        raise ValueError(f"y must be finite; found {int((~np.isfinite(table)).sum())} entries that are not.")
    return table


def _check_bounds(problem: PortfolioProblem, budget: float | None) -> None:
    """Say which bounds leave no portfolio, where adding them up is enough to see it."""
    if budget is None:
        return
    lower, upper = problem.lower, problem.upper
    slack = 64.0 * np.finfo(float).eps * len(lower)
    least, most = float(lower.sum()), float(upper.sum())
    within = "" if problem.turnover is None else f" (with max_turnover={problem.turnover:g})"
    if least > budget + slack * max(1.0, abs(least)):
        raise OptimizationError(f"min_weights{within} add up to {least:.6g}, more than budget={budget:g}.")
    if most < budget - slack * max(1.0, abs(most)):
        raise OptimizationError(f"max_weights{within} add up to {most:.6g}, less than budget={budget:g}.")


def _narrow(lower: Floats, upper: Floats, previous: Floats, turnover: float | None, assets: Assets) -> None:
    """Put a limit on each asset's change into its bounds, in place, and refuse bounds that cross."""
    broken = lower > upper
    if broken.any():
        j, label = assets.worst(broken)
        raise ValueError(f"min_weights must not exceed max_weights; found {lower[j]:g} > {upper[j]:g} for {label}.")
    if turnover is None:
        return
    low, high = previous - turnover, previous + turnover
    broken = (low > upper) | (high < lower)
    if broken.any():
        j, label = assets.worst(broken)
        raise OptimizationError(
            f"max_turnover={turnover:g} keeps {label} within [{low[j]:g}, {high[j]:g}], but its weight must lie in "
            f"[{lower[j]:g}, {upper[j]:g}]."
        )
    np.maximum(lower, low, out=lower)
    np.minimum(upper, high, out=upper)


def read_scenarios(recenter: Any, distribution: ReturnDistribution) -> tuple[Floats, Floats, Floats | None]:
    """The scenarios, moved so that their mean is mu where that is asked for, mu, and the scenarios' weights."""
    returns = np.asarray(distribution.returns, dtype=np.float64)
    mu = np.asarray(distribution.mu, dtype=np.float64)
    weights = None if distribution.sample_weight is None else np.asarray(distribution.sample_weight)
    choice = check_choice("recenter", recenter, ("auto", True, False))
    shift = None if choice is False else _away_from_mean(returns, mu, weights)
    if shift is None:
        return returns, mu, weights
    if choice == "auto":
        warnings.warn(
            f"The prior's mu differs from the mean of its scenarios, by up to {np.abs(shift).max():.3g}; the scenarios "
            "were moved so that their mean is mu. Their spread is unchanged: the prior's covariance plays no part in "
            "OCE. Say recenter=True to agree, recenter=False to keep the scenarios as they are.",
            UserWarning,
            stacklevel=2,
        )
    return returns + shift, mu, weights


def _away_from_mean(returns: Floats, mu: Floats, weights: Floats | None) -> Floats | None:
    """mu less the mean of the scenarios; None where that is no more than the rounding of a mean."""
    shift: Floats = mu - np.average(returns, axis=0, weights=weights)
    size: Any = np.abs(returns).mean(axis=0) + np.abs(returns).max()
    return shift if np.any(np.abs(shift) > 1e-10 * size) else None


def _costs(model: MinimumOCE, assets: Assets) -> Costs:
    known = set() if assets.names is None else set(assets.names)
    gone: dict[Any, float] = {}
    if isinstance(model.previous_weights, dict):  # positions in assets that X no longer has are sold
        gone = {key: float(held) for key, held in model.previous_weights.items() if key not in known}
    previous = assets.values("previous_weights", model.previous_weights, 0.0, 0.0, beyond=gone)
    trading = assets.values("transaction_costs", model.transaction_costs, 0.0, 0.0, beyond=gone)
    fees = read_fees(model.management_fees, assets)
    for name, found in (("previous_weights", previous), ("transaction_costs", trading)):
        if not np.isfinite(found).all():
            raise ValueError(f"{name} must be finite; found infinity for {assets.worst(np.isinf(found))[1]}.")
    if (trading < 0.0).any():
        j, label = assets.worst(trading < 0.0)
        raise ValueError(f"transaction_costs must not be negative; found {trading[j]:g} for {label}.")
    return Costs(fees, trading, previous, _liquidation(model, assets, gone))


def read_fees(found: Any, assets: Assets) -> Floats:
    """Fees by asset, which must be finite."""
    fees = assets.values("management_fees", found, 0.0, 0.0)
    if not np.isfinite(fees).all():
        raise ValueError(f"management_fees must be finite; found infinity for {assets.worst(np.isinf(fees))[1]}.")
    return fees


def _liquidation(model: MinimumOCE, assets: Assets, gone: dict[Any, float]) -> float:
    """The cost of selling positions that can no longer be held: gone from X, or not investable."""
    full = Assets(assets.names, assets.size, None, assets.strict)
    total = 0.0
    if assets.mask is not None and np.shape(model.previous_weights) in ((), (assets.size,)):
        previous = full.values("previous_weights", model.previous_weights, 0.0, 0.0, beyond=gone)
        trading = full.values("transaction_costs", model.transaction_costs, 0.0, 0.0, beyond=gone)
        total += float(np.sum((trading * np.abs(previous))[~assets.mask]))
    rates = model.transaction_costs
    if gone and np.ndim(rates) != 0:
        raise ValueError(
            "transaction_costs must be one number or a dict by asset name where previous_weights holds assets that X "
            f"lacks ({', '.join(map(repr, list(gone)[:3]))}); found {np.size(rates)} numbers."
        )
    for key, held in gone.items():
        rate = rates.get(key, 0.0) if isinstance(rates, dict) else rates
        total += float(rate or 0.0) * abs(held)
    return total


def _budgets(model: MinimumOCE, count: int) -> tuple[float | None, list[Row]]:
    ones, wanted = np.ones(count), "a number or None"
    budget = _optional("budget", model.budget, wanted)
    least = _optional("min_budget", model.min_budget, wanted)
    most = _optional("max_budget", model.max_budget, wanted)
    if budget is not None:
        if least is not None or most is not None:
            name = "min_budget" if least is not None else "max_budget"
            raise ValueError(f"{name} needs budget=None; found budget={budget:g}.")
        return budget, [Row(f"budget={budget:g}", ones, budget, equal=True)]
    if least is not None and most is not None and least > most:
        raise ValueError(f"min_budget must not exceed max_budget; found {least:g} > {most:g}.")
    rows = [] if least is None else [Row(f"min_budget={least:g}", -ones, -least)]
    return None, rows + ([] if most is None else [Row(f"max_budget={most:g}", ones, most)])


def _equations(model: MinimumOCE, assets: Assets, distribution: ReturnDistribution) -> list[Row]:
    equations = model.linear_constraints
    groups = _groups(model.groups, assets)
    if equations is None:
        return []
    if isinstance(equations, str) or not all(isinstance(each, str) for each in equations):
        hint = f"; write [{equations!r}]" if isinstance(equations, str) else ""
        raise TypeError(f"linear_constraints must be a list of strings; found {shown(equations)}{hint}.")
    if groups is None:
        if assets.held is None:
            raise ValueError("linear_constraints need names: pass groups, or X as a DataFrame.")
        groups = np.asarray([assets.held])
    factors = distribution.factor_model
    extra: dict[str, Any] = {}
    if factors is not None:
        families = factors.factor_families
        names = [factors.factor_names] if families is None else [factors.factor_names, families]
        extra = {"loading_matrix": factors.loading_matrix, "factor_groups": np.array(names)}
    rows = []
    for text in equations:
        try:
            C, c, G, b = equations_to_matrix(groups, [text], raise_if_group_missing=assets.strict, **extra)
        except (EquationToMatrixError, GroupNotFoundError) as error:
            known = [*np.ravel(groups), *np.ravel(extra.get("factor_groups", []))]
            raise ValueError(f"linear_constraints: {_misread(text, [str(name) for name in known])}") from error
        name = f"linear_constraints {text!r}"
        rows += [Row(name, row, float(side), equal=True) for row, side in zip(C, c, strict=True)]
        rows += [Row(name, row, float(side)) for row, side in zip(G, b, strict=True)]
    return rows


def _misread(text: str, known: list[str]) -> str:
    """What is wrong with a constraint that cannot be read: a percent sign, a decimal comma, a name, or its form."""
    names = [name for name in dict.fromkeys(known) if not name.startswith("\0")]
    rest = text
    for name in sorted(names, key=len, reverse=True):  # names may hold signs and blanks, as BRK-B does
        rest = re.sub(rf"(?<![\w.,]){re.escape(name)}(?![\w.,])", " ", rest)
    if percent := re.search(r"(\d+(?:\.\d+)?)\s*%", rest):
        return f"write {float(percent[1]) / 100.0:g} for {percent[1]} %, in {text!r}."
    if comma := re.search(r"(?<![\w.,])(\d+),(\d+)(?![\w.,])", rest):
        return f"write {comma[1]}.{comma[2]} for {comma[0]}, in {text!r}."
    rest = re.sub(r"(?<![\w.])(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?(?![\w.])", " ", rest)
    if strangers := re.findall(r"[^\s+*<>=-]+", rest):
        hint = did_you_mean(strangers[0], names)
        return (
            f"there is no asset or group {strangers[0]!r}, in {text!r}.{hint} It must be an asset, or a group named in "
            "groups; with unknown_names='ignore' such a constraint is passed over."
        )
    return (
        f"one of <=, >= and ==, with terms on both sides, must be in {text!r}. A constraint reads like 'Equity <= 0.5' "
        "or 'A >= 2 * B'."
    )


def _groups(groups: Any, assets: Assets) -> NDArray[Any] | None:
    """One row of labels per level, one column per asset; the assets' own names are the first level of a dict."""
    if groups is None:
        return None
    if isinstance(groups, dict):
        if assets.names is None:
            raise ValueError("groups are given by asset name, but X has no names; pass X as a DataFrame.")
        assets.refuse_strangers("groups", groups)
        labels = {key: [found] if isinstance(found, str) else list(found) for key, found in groups.items()}
        depth = max((len(found) for found in labels.values()), default=0)
        # An asset without a label gets one that no equation can name, and no other level shares.
        blank = [f"\0{level}" for level in range(depth)]
        columns = [[name, *labels.get(name, []), *blank[len(labels.get(name, [])) :]] for name in assets.names]
        table = np.array(columns, dtype=object).T
    else:
        table = np.asarray(groups, dtype=object)
        if table.ndim != 2 or table.shape[1] not in (assets.size, assets.count):
            raise ValueError(
                f"groups must have shape (levels, {assets.size}) or be a dict by asset name; found {table.shape}."
            )
    return table[:, assets.mask] if assets.mask is not None and table.shape[1] == assets.size else table


def _inequalities(model: MinimumOCE, assets: Assets) -> list[Row]:
    left, right = model.left_inequality, model.right_inequality
    if left is None and right is None:
        return []
    if left is None or right is None:
        missing = "left_inequality" if left is None else "right_inequality"
        raise ValueError(f"left_inequality and right_inequality go together; {missing} is None.")
    table, sides = np.asarray(left, dtype=np.float64), np.asarray(right, dtype=np.float64)
    if table.ndim != 2 or table.shape[1] != assets.size:
        raise ValueError(f"left_inequality must have shape (n, {assets.size}); found {table.shape}.")
    if sides.shape != (len(table),):
        raise ValueError(f"right_inequality must have shape ({len(table)},) as left_inequality; found {sides.shape}.")
    if not (np.isfinite(table).all() and np.isfinite(sides).all()):
        raise ValueError("left_inequality and right_inequality must be finite.")
    table = table if assets.mask is None else table[:, assets.mask]
    return [Row(f"left_inequality[{i}]", row, float(sides[i])) for i, row in enumerate(table)]


def _optional(name: str, found: Any, wanted: str, least: float = -np.inf, above: float = -np.inf) -> float | None:
    return None if found is None else check_number(name, found, wanted, least=least, above=above)


def _refuse_infinite(name: str, bound: Floats, wrong: float, assets: Assets) -> None:
    if (bound == wrong).any():
        label = assets.worst(bound == wrong)[1]
        raise ValueError(f"{name} must not be {wrong}; found it for {label}. None stands for no bound.")


# -- settings and scenarios -------------------------------------------------------------------------------------------


def read_objective(found: Any) -> str:
    """The objective by name, from skfolio's enumeration or from the name itself."""
    text = found.value if isinstance(found, ObjectiveFunction) else found
    text = text.lower() if isinstance(text, str) else text
    return str(check_choice("objective_function", text, OBJECTIVES))


def check_settings(model: MinimumOCE, method: str) -> None:
    """Refuse parameters that are wrong whatever the returns are."""
    if model.utility is not None:
        risk = check_risk(model.utility)
        if isinstance(risk, Utility):
            risk.anchor  # noqa: B018 - a sum whose slopes never reach 1 says so here
    objective, levels = read_objective(model.objective_function), read_levels(model)
    check_choice("solver", model.solver, ("exact", "sg"))
    check_number("tol", model.tol, "a number above 0", above=0.0)
    if not (model.solver_params is None or isinstance(model.solver_params, dict)):
        raise TypeError(f"solver_params must be a dict or None; found {shown(model.solver_params)}.")
    for name in model.solver_params or {}:
        check_choice(f"a key of solver_params for solver={model.solver!r}", name, SOLVER_PARAMS[model.solver])
    if model.solver == "sg" and (levels or objective in ("maximize_return", "maximize_ratio")):
        what = "limits on risks" if levels else f"objective_function={objective!r}"
        raise ValueError(f"solver='sg' takes no {what}; use solver='exact'.")
    if (levels or objective == "maximize_ratio") and objective != "maximize_return":
        refuse_sorting("utility", model.utility, "beside limits and in ratios")
    for name, limited, _ in (*risk_limits(model), *benchmark_limits(model)):
        refuse_sorting(name, limited, "as a limit")
    for name in ("l1_coef", "l2_coef"):
        if objective == "maximize_ratio" and getattr(model, name) != 0.0:
            raise ValueError(
                f"maximize_ratio takes no {name}, which has no place in a ratio; found {shown(getattr(model, name))}."
            )
    if method == "partial_fit" and benchmark_limits(model):
        raise ValueError("limits against a benchmark need fit: partial_fit does not keep the benchmark's past.")
    if method == "partial_fit":
        model._validate_partial_fit_fallback()
    size = model.efficient_frontier_size
    if size is None:
        return
    check_count("efficient_frontier_size", size, least=2)
    for needed, wrong in (
        ("min_return=None", model.min_return is not None),
        ("objective_function=MINIMIZE_RISK", objective != "minimize_risk"),
        ("limits of one level each", any(len(each) > 1 for each in levels)),
        ("fit, not partial_fit", method == "partial_fit"),
    ):
        if wrong:
            raise ValueError(f"efficient_frontier_size needs {needed}.")


def refuse_sorting(name: str, risk: Risk | None, where: str) -> None:
    """Refuse a distortion where the exact method takes risks with a few inner variables alone."""
    if risk is not None and needs_sorting(risk):
        raise ValueError(
            f"{name}: {risk!r} needs all losses sorted and is not taken {where}. A Mixture of a few CVaRs comes near "
            "it."
        )


def make_prior(found: Any) -> Any:
    """A fresh prior: a clone of the one given, or the scenarios as they are."""
    if found is None:
        return ScenarioPrior()
    if isinstance(found, BasePrior):
        return clone(found)
    hint = f"; write {found.__name__}()" if isinstance(found, type) else ""
    raise TypeError(f"prior_estimator must be a skfolio prior such as EmpiricalPrior(); found {shown(found)}{hint}.")


def check_table(model: BaseOCE, X: Any, first: bool) -> Any:
    """Return what the prior is to see; refuse what it could not use, saying where it is.

    Names and number of the assets are recorded. A prior passed in gets X itself, which it may read the names from.
    """
    if hasattr(X, "columns") and len(set(X.columns)) < len(X.columns):
        twice = next(name for name in X.columns if list(X.columns).count(name) > 1)
        raise ValueError(f"X must name each asset once; found {twice!r} more than once. Rename or drop a column.")
    table = validate_data(model, X, reset=first, dtype=np.float64, ensure_all_finite=False)
    if first and len(table) < 2:
        raise ValueError(f"X must have at least 2 rows, one per period; found n_samples={len(table)}.")
    _warn_of_prices(table)
    _warn_of_percentages(table)
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


def align_target(X: Any, y: Any) -> Any:
    """Return y with one row for each row of X, matched by index if both are pandas objects, else by position."""
    if y is None:
        return None
    if not (hasattr(X, "iloc") and hasattr(y, "iloc")):
        if np.shape(y)[:1] != (len(X),):
            raise ValueError(f"y must have one row for each of the {len(X)} rows of X; found shape {np.shape(y)}.")
        return y
    for name, index in (("X", X.index), ("y", y.index)):
        if index.has_duplicates:
            twice = index[index.duplicated()][0]
            raise ValueError(
                f"{name} must have each date once, so that y can be matched to X; found {twice} more than once. To "
                "match rows by position, pass y.to_numpy()."
            )
    missing = X.index[~X.index.isin(y.index)]
    if len(missing):
        named = ", ".join(map(str, missing[:3])) + ", ..." * (len(missing) > 3)
        what = "no date in common" if len(missing) == len(X) else f"{len(missing)} of {len(X)} dates missing"
        raise ValueError(f"y must have every date of X in its index, {y.index.dtype}; found {what}: {named}.")
    return y.reindex(X.index)


def _warn_of_prices(table: Floats) -> None:
    """Warn of what looks like prices, or gross returns 1 + r, in place of returns.

    Returns that never lose, of which half are above 50 %, and which hardly change from one period to the next, hardly
    occur; rates of interest, which never lose either, are far smaller.
    """
    known = table[np.isfinite(table)]
    if len(table) < 2 or not known.size or known.min() <= 0.0 or np.median(known) < 0.5:
        return
    changes = np.abs(np.diff(table, axis=0)) / table[:-1]
    if not np.isfinite(changes).any() or np.nanmedian(changes) > 0.2:
        return
    warnings.warn(
        "X looks like prices, and is taken for returns: every entry is above 0, half of them are above "
        f"{np.median(known):.3g}, and rows differ little. Fit on prices_to_returns(X), from skfolio.preprocessing; "
        "from gross returns 1 + r subtract 1.",
        UserWarning,
        stacklevel=6,
    )


def _warn_of_percentages(table: Floats) -> None:
    """Warn of returns in per cent: one in fifty of them would lose more than everything."""
    known = table[np.isfinite(table)]
    if not known.size or (known < -1.0).mean() < _SHARE_BEYOND_ALL:
        return
    warnings.warn(
        f"X looks like returns in per cent, and is taken as it is: {(known < -1.0).mean():.0%} of its entries are "
        "below -1, a loss of more than 100 %. Fit on X / 100.",
        UserWarning,
        stacklevel=6,
    )


def warn_of_covariance(distribution: ReturnDistribution, recenter: Any) -> bool:
    """Warn where a prior's covariance is not that of its scenarios, as OCE is a function of the scenarios alone.

    Covariances are compared by their diagonals and by their products with one vector, which costs a read of the
    scenarios.
    """
    covariance, returns, weights = distribution.covariance, distribution.returns, distribution.sample_weight
    if covariance is None or len(returns) < 2:
        return False
    if recenter == "auto" and _away_from_mean(returns, distribution.mu, weights) is not None:
        return True  # what was said of mu speaks of the covariance as well
    away = returns - np.average(returns, axis=0, weights=weights)
    p = np.full(len(away), 1.0 / len(away)) if weights is None else weights / weights.sum()
    vector = np.cos(np.arange(away.shape[1]))  # not orthogonal to anything in particular
    # n or n - 1, and repairs of a matrix that is not quite positive definite, are no choice of the caller's.
    slack = 1e-3 + 2.0 * float(p @ p)
    alike = np.allclose(np.diag(covariance), p @ (away * away), rtol=slack, atol=0.0)
    product = (p * (away @ vector)) @ away
    scale = float(np.abs(product).max())
    if alike and np.abs(covariance @ vector - product).max() <= slack * scale:
        return False
    warnings.warn(
        "The prior's covariance differs from that of its scenarios, and plays no part: OCE, that of MeanVariance "
        "included, is a function of the scenarios. skfolio's MeanRisk uses the covariance; to change the scenarios "
        "themselves use a prior that does (EntropyPooling, SyntheticData, FactorModel).",
        UserWarning,
        stacklevel=7,
    )
    return True


def check_scenarios(distribution: ReturnDistribution) -> None:
    """Refuse scenarios of a prior that are not finite."""
    bad = ~np.isfinite(distribution.returns)
    if bad.any():
        raise ValueError(f"The prior's scenarios must be finite; found {int(bad.sum())} entries that are not.")

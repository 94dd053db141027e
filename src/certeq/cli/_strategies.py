"""What the portfolio commands fit: the minimum of an OCE, and the three benchmarks of the paper."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from certeq.cli._choices import Choice
from certeq.cli._console import BadData

if TYPE_CHECKING:
    import pandas as pd

    from certeq.report import Strategy

MANY_ASSETS = 2500  # a covariance matrix beyond this takes minutes and gigabytes


def minimizer(choice: Choice, given: dict[str, float], *, normalized: bool = False, **settings: Any) -> Any:
    """`certeq.portfolio.MinimumOCE` for a choice and its parameters."""
    try:
        from certeq.portfolio import MinimumOCE
    except ImportError as error:
        raise _named(error) from None
    return MinimumOCE(choice.build(given, normalized=normalized), **settings)


def benchmarks(assets: int) -> dict[str, tuple[Any, str | None]]:
    """Equal weights, hierarchical risk parity and the largest Sharpe ratio: an estimator, or why it is left out."""
    try:
        from skfolio.optimization import EqualWeighted, HierarchicalRiskParity, MeanRisk, ObjectiveFunction
    except ImportError as error:
        raise _named(error) from None
    reason = f"left out: {assets} assets are more than {MANY_ASSETS}" if assets > MANY_ASSETS else None
    return {
        "Equal weights": (EqualWeighted(), None),
        "Risk parity (HRP)": (HierarchicalRiskParity(), reason),
        "Maximum Sharpe": (MeanRisk(objective_function=ObjectiveFunction.MAXIMIZE_RATIO), reason),
    }


def fitted(name: str, estimator: Any, returns: pd.DataFrame, *, contributions: bool = True) -> Strategy:
    """Fit, with whatever goes wrong turned into one sentence about this strategy."""
    from certeq.report import fit_strategy

    with in_one_line(name):
        return fit_strategy(name, estimator, returns, contributions=contributions)


@contextmanager
def in_one_line(what: str) -> Iterator[None]:
    """Turn what a fit may raise into one sentence about it."""
    try:
        yield
    except (ValueError, TypeError, ArithmeticError, RuntimeError) as error:
        raise BadData(f"{what}: {error}") from error
    except Exception as error:  # skfolio and its solvers have exceptions of their own
        if type(error).__module__.split(".")[0] in {"skfolio", "cvxpy", "certeq", "numpy", "sklearn"}:
            raise BadData(f"{what}: {error}") from error
        raise


def _named(error: ImportError) -> ImportError:
    return ImportError(f"portfolios need {error.name or 'skfolio'}: pip install 'certeq[portfolio]'", name=error.name)

"""The linear estimators against scikit-learn's risk-neutral ones, and against the same problem in cvxpy.

    python -m benchmarks.bench_learn [--quick] [--json FILE]

Entropic utility, beta = 1. ``gradient`` is the largest entry of the gradient that was reached. Calls take turns and the
best of each is kept, so that a busy moment hurts both sides alike.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import certeq as ce
from benchmarks.timing import interleaved, table, write_json
from certeq.learn import OCEClassifier, OCERegressor


def data(n: int, d: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    line = X @ (rng.normal(size=d) / np.sqrt(d))
    return X, (line + 0.5 * rng.logistic(size=n) > 0).astype(int), line + 0.5 * rng.normal(size=n)


def row(task: str, size: str, times: dict[str, float], wanted: str, model: Any, **more: Any) -> dict[str, Any]:
    (_, ours), (other, theirs) = times.items()
    return {
        "task": task,
        "size": size,
        "against": other,
        "ours": ours,
        "theirs": theirs,
        "ratio": ours / theirs,
        "wanted": wanted,
        "steps": model.n_iter_,
        "gradient": model.gradient_norm_,
        **more,
    }


def against_scikit_learn(n: int, d: int, repeats: int) -> list[dict[str, Any]]:
    from sklearn.linear_model import LogisticRegression, Ridge

    X, y, target = data(n, d)
    size, rows = f"{n}x{d}", []
    for tol in (1e-4, 1e-6):
        ours = OCEClassifier(ce.Entropic(1.0), tol=tol, random_state=0)
        theirs = LogisticRegression(solver="lbfgs", tol=tol, max_iter=1000)
        times = interleaved(
            {"ours": lambda m=ours: m.fit(X, y), "LogisticRegression": lambda m=theirs: m.fit(X, y)}, repeats
        )
        rows.append(row("classifier", size, times, "<= 3", ours, tol=tol))
    for tol in (1e-4, 1e-6, 1e-10):  # Ridge is solved directly, to rounding
        ours = OCERegressor(ce.Entropic(1.0), tol=tol, random_state=0)
        theirs = Ridge(solver="cholesky")
        times = interleaved(
            {"ours": lambda m=ours: m.fit(X, target), "Ridge": lambda m=theirs: m.fit(X, target)}, repeats
        )
        rows.append(row("regressor", size, times, "<= 10", ours, tol=tol))
    ours = OCERegressor(ce.CVaR(0.1))
    times = interleaved({"ours": lambda: ours.fit(X, target), "Ridge": lambda: theirs.fit(X, target)}, 1)
    rows.append(row("regressor CVaR(0.1)", size, times, "", ours, tol=ours.tol, gap=ours.gap_))
    return rows


def against_cvxpy(n: int, d: int, repeats: int) -> list[dict[str, Any]]:
    import cvxpy as cp

    X, y, target = data(n, d)
    c, b = cp.Variable(d), cp.Variable()
    sign = np.where(y == 1, -1.0, 1.0)
    rows = []
    for task, losses, model, labels, ridge in (
        ("classifier", cp.logistic(cp.multiply(sign, X @ c + b)), OCEClassifier(ce.Entropic(1.0)), y, 0.5),
        ("regressor", cp.square(X @ c + b - target), OCERegressor(ce.Entropic(1.0)), target, 1.0),
    ):
        problem = cp.Problem(cp.Minimize(cp.log_sum_exp(losses) - np.log(n) + (ridge / n) * cp.sum_squares(c)))

        def solve(problem: Any = problem) -> None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                problem.solve(solver="CLARABEL")

        calls = {"ours": lambda m=model, t=labels: m.fit(X, t), "cvxpy (Clarabel)": solve}
        times = interleaved(calls, repeats)
        excess = model.objective_ - problem.value
        rows.append(row(task, f"{n}x{d}", times, "<= 0.2", model, excess=excess, status=problem.status))
    return rows


def run(quick: bool = False) -> list[dict[str, Any]]:
    if quick:
        return [*against_scikit_learn(20_000, 20, 2), *against_cvxpy(1000, 10, 1)]
    return [*against_scikit_learn(100_000, 50, 5), *against_cvxpy(10_000, 20, 1)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="smaller problems, fewer repeats")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows there as well")
    args = parser.parse_args()
    rows = run(quick=args.quick)
    print(table(rows))
    if args.json:
        write_json(args.json, rows)


if __name__ == "__main__":
    main()

"""The linear estimators against scikit-learn's risk-neutral ones, the same problem in cvxpy, and robust models of dro.

    python -m benchmarks.bench_learn [--quick] [--json FILE]

Entropic utility, beta = 1, but for the rows against ``dro``: balls and CVaR without a penalty, as dro has them. Where
dro is not installed they run the programs that it solves, written in cvxpy. ``excess`` is our objective less theirs; in
the rows of dro relative, both evaluated at the coefficients found: below 0 ours is the better. ``gradient`` is the
largest entry of the gradient that was reached. Calls take turns and the best of each is kept, so that a busy moment
hurts both sides alike.
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


RADIUS, TAIL = 0.5, 0.1
ROBUST = {
    "KL ball": ce.Entropic(1.0).ball(RADIUS),
    "chi-square ball": ce.MonotoneMeanVariance(2).ball(RADIUS),
    "CVaR": ce.CVaR(TAIL),
}


def dro_model(name: str, kind: str, d: int) -> Any:
    """The model of dro with the same risk; its chi-square distance is twice ours."""
    from dro.linear_model.chi2_dro import Chi2DRO
    from dro.linear_model.cvar_dro import CVaRDRO
    from dro.linear_model.kl_dro import KLDRO

    if name == "CVaR":
        return CVaRDRO(d, kind, solver="CLARABEL", alpha=TAIL)
    if name == "KL ball":
        return KLDRO(d, kind, solver="CLARABEL", eps=RADIUS)
    model = Chi2DRO(d, kind, solver="CLARABEL")
    model.update({"eps": 2.0 * RADIUS})
    return model


def conic_model(name: str, kind: str, X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, float]:
    """What dro solves, in cvxpy: coefficients and intercept."""
    import cvxpy as cp

    n, d = X.shape
    c, b, t = cp.Variable(d), cp.Variable(), cp.Variable()
    losses = cp.power(y - X @ c - b, 2) if kind == "ols" else cp.logistic(-cp.multiply(y, X @ c + b))
    constraints: list[Any] = []
    if name == "CVaR":
        risk = t + cp.sum(cp.pos(losses - t)) / (n * TAIL)
    elif name == "chi-square ball":
        risk = t + np.sqrt((1.0 + 2.0 * RADIUS) / n) * cp.norm(cp.pos(losses - t), 2)
    else:
        s, each, above = cp.Variable(nonneg=True), cp.Variable(n), cp.Variable(n)
        constraints = [cp.sum(above) <= n * s, cp.ExpCone(each - t, s * np.ones(n), above), each >= losses]
        risk = t + RADIUS * s
    cp.Problem(cp.Minimize(risk), constraints).solve(solver=cp.CLARABEL)
    return c.value, float(b.value)


def against_dro(n: int, d: int) -> list[dict[str, Any]]:
    """KL and chi-square balls and CVaR, squared and logistic; the other side takes half a minute in some, or fails."""
    try:
        import dro.linear_model.kl_dro  # noqa: F401

        other = "dro"
    except ImportError:
        other = "cvxpy (Clarabel), as dro has it"
    X, labels, target = data(n, d)
    rows = []
    for kind, y in (("ols", target), ("logistic", np.where(labels == 1, 1.0, -1.0))):
        for name, risk in ROBUST.items():
            ours: Any = OCERegressor(risk, alpha=0.0) if kind == "ols" else OCEClassifier(risk, C=np.inf)
            found: dict[str, Any] = {}

            def theirs(name: str = name, kind: str = kind, y: np.ndarray = y, found: dict[str, Any] = found) -> None:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    try:
                        if other == "dro":
                            model = dro_model(name, kind, d)
                            model.fit(X, y)
                            found.update(c=model.theta, b=model.b, status="solved")
                        else:
                            found.update(zip("cb", conic_model(name, kind, X, y), strict=True), status="solved")
                    except (
                        Exception
                    ) as error:  # Clarabel gives up on some: the row says so, its time is that until then
                        found.update(status=type(error).__name__)

            times = interleaved({"ours": lambda m=ours, y=y: m.fit(X, y), other: theirs}, 1)
            excess = float("nan")
            if found["status"] == "solved":
                score = X @ found["c"] + found["b"]
                losses = np.square(score - y) if kind == "ols" else np.logaddexp(0.0, -y * score)
                value = float(ce.oce(losses, risk))
                excess = (ours.objective_ - value) / abs(value)
            more = {"excess": excess, "status": found["status"]}
            rows.append(row(f"{name}, {kind}", f"{n}x{d}", times, "<= 0.05", ours, **more))
    return rows


def run(quick: bool = False) -> list[dict[str, Any]]:
    if quick:
        return [*against_scikit_learn(20_000, 20, 2), *against_cvxpy(1000, 10, 1), *against_dro(500, 5)]
    return [*against_scikit_learn(100_000, 50, 5), *against_cvxpy(10_000, 20, 1), *against_dro(5000, 20)]


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

"""Random fits of `MinimumOCE`, judged by the user's constraints and by the same bounds as the exact solver's.

The referee writes each problem as a linear one of its own: weights, distances from the previous weights, absolute
values, long and short parts are variables, tied by rows.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
from sklearn.exceptions import ConvergenceWarning

import certeq as ce
from tests.referee.exact import PATIENCE, Problem, judge
from tests.referee.reference import confirm
from tests.referee.regions import Region
from tests.referee.report import Report, array_code
from tests.referee.specification import LD, Draw, Spec, cvar, mean, weighted

NAMES = {"ce": ce, "np": np}
COSTS = "transaction_costs"


@dataclass
class Case:
    """What the user says (``given``, keywords of MinimumOCE) and what it means (the rest)."""

    spec: Spec
    X: np.ndarray
    given: dict[str, Any]
    lower: np.ndarray
    upper: np.ndarray
    equal: list[tuple[str, np.ndarray, float]] = field(default_factory=list)
    below: list[tuple[str, np.ndarray, float]] = field(default_factory=list)

    @property
    def snippet(self) -> str:
        def text(value: Any) -> str:
            return array_code(value).replace("inf", "np.inf") if isinstance(value, np.ndarray) else repr(value)

        given = "".join(f", {name}={text(value)}" for name, value in self.given.items())
        return (
            "import numpy as np, pandas as pd, certeq as ce\nfrom certeq.portfolio import MinimumOCE\n"
            f"{self.spec.source}\nX = {array_code(self.X)}\n"
            f"X = pd.DataFrame(X, columns=[f'A{{i}}' for i in range({self.X.shape[1]})])\n"
            f"m = MinimumOCE(u{given}).fit(X)"
        )

    def get(self, name: str) -> Any:
        return self.given.get(name, 0.0)

    @property
    def previous(self) -> np.ndarray:
        return np.asarray(self.given.get("previous_weights", np.zeros(self.X.shape[1])))

    def paid(self, w: np.ndarray) -> Any:
        w = w.astype(LD)
        fees = np.broadcast_to(self.get("management_fees"), w.shape).astype(LD) @ w
        return fees + np.broadcast_to(self.get("transaction_costs"), w.shape).astype(LD) @ np.abs(w - self.previous)

    def broken(self, w: np.ndarray) -> list[tuple[str, float]]:
        """Constraints that do not hold, with the violation relative to the size of their terms."""
        x, out = w.astype(LD), []

        def look(name: str, excess: Any, size: Any) -> None:
            if float(excess) > 1e-10 * float(size):
                out.append((name, float(excess / size)))

        for j in range(len(w)):
            look(
                "min_weights", self.lower[j] - x[j], max(abs(self.lower[j]), 1e-2) if np.isfinite(self.lower[j]) else 1
            )
            look(
                "max_weights", x[j] - self.upper[j], max(abs(self.upper[j]), 1e-2) if np.isfinite(self.upper[j]) else 1
            )
        for name, row, level in self.equal:
            look(name, abs(row.astype(LD) @ x - level), np.abs(row) @ (np.abs(w) + 1e-3) + abs(level))
        for name, row, level in self.below:
            look(name, row.astype(LD) @ x - level, np.abs(row) @ (np.abs(w) + 1e-3) + abs(level))
        if "max_turnover" in self.given:
            look("max_turnover", np.abs(x - self.previous).max() - self.given["max_turnover"], 1.0)
        if "max_long" in self.given:
            look("max_long", np.maximum(x, 0).sum() - self.given["max_long"], self.given["max_long"])
        if "max_short" in self.given:
            look("max_short", np.maximum(-x, 0).sum() - self.given["max_short"], self.given["max_short"])
        if "min_return" in self.given:
            mu = self.X.astype(LD).mean(axis=0)
            net = mu @ x - self.paid(w)
            size = np.abs(mu) @ np.abs(w) + abs(self.given["min_return"]) + float(abs(self.paid(w)))
            look("min_return", self.given["min_return"] - net, size)
        return out

    def linear_problem(self, w: np.ndarray) -> tuple[Problem, np.ndarray, float]:
        """As a problem in (w, |w - w0|, |w|, long part, short part), the point there, the factor of its objective."""
        n = self.X.shape[1]
        zero, eye = np.zeros(n), np.eye(n)
        costs = np.broadcast_to(np.asarray(self.get("transaction_costs"), float), n)
        fees = np.broadcast_to(np.asarray(self.get("management_fees"), float), n)
        previous = self.previous
        mu = self.X.mean(axis=0)

        def wide(*blocks: np.ndarray) -> np.ndarray:
            rows = np.atleast_2d(blocks[0]).shape[0]
            full = [np.broadcast_to(np.atleast_2d(each), (rows, n)) for each in blocks]
            return np.hstack(full + [np.zeros((rows, n))] * (5 - len(blocks)))

        lower, upper = self.lower, self.upper
        if "max_turnover" in self.given:
            lower = np.maximum(lower, previous - self.given["max_turnover"])
            upper = np.minimum(upper, previous + self.given["max_turnover"])
        G = [wide(eye, -eye), wide(-eye, -eye), wide(eye, 0 * eye, -eye), wide(-eye, 0 * eye, -eye)]
        b = [previous, -previous, zero, zero]
        G += [wide(eye, 0 * eye, 0 * eye, -eye), wide(-eye, 0 * eye, 0 * eye, 0 * eye, -eye)]
        b += [zero, zero]
        for name, part in (("max_long", 3), ("max_short", 4)):
            if name in self.given:
                row = np.zeros((1, 5 * n))
                row[0, part * n : (part + 1) * n] = 1.0
                G.append(row)
                b.append(np.array([self.given[name]]))
        if "min_return" in self.given:
            G.append(wide(fees - mu, costs))
            b.append(np.array([-self.given["min_return"]]))
        for _, row, level in self.below:
            G.append(wide(row))
            b.append(np.array([level]))
        C = [np.zeros((0, 5 * n))] + [wide(row) for _, row, _ in self.equal]
        region = Region(
            5 * n,
            "",
            np.concatenate((lower, np.zeros(4 * n))),
            np.concatenate((upper, np.full(4 * n, np.inf))),
            np.vstack(C),
            np.array([level for _, _, level in self.equal]),
            np.vstack(G),
            np.concatenate(b),
        )
        A = np.hstack([fees - self.X, np.broadcast_to(costs, self.X.shape), np.zeros((len(self.X), 3 * n))])
        aversion = self.given.get("risk_aversion", 1.0) if "objective_function" in self.given else None
        scale = 1.0 if aversion is None else aversion
        linear = np.concatenate((zero, zero, np.full(n, self.get("l1_coef") / scale), zero, zero))
        if aversion is not None:
            linear = linear + wide(fees - mu, costs)[0] / scale
        ridge = np.concatenate((np.full(n, self.get("l2_coef") / scale), np.zeros(4 * n)))
        # The size of w is that of all of them; the point is where the weights put it.
        point = np.concatenate((w, np.abs(w - previous), np.abs(w), np.maximum(w, 0), np.maximum(-w, 0)))
        problem = Problem(self.spec, A, None, region, linear, ridge if ridge.any() else None)
        return problem, point, scale


def draw_plain(rng: np.random.Generator) -> Case:
    """What most people fit: CVaR, alone or beside the mean, long only, a return to reach, a ridge, a row or two."""
    n, count = int(rng.integers(2, 7)), int(rng.choice([30, 60, 120, 300]))
    X = rng.normal(0.0005, 0.01, size=(count, n)).round(4)
    alpha = float(rng.choice([0.05, 0.1, 0.2, 0.3]))
    spec = cvar(alpha) if rng.random() < 0.7 else weighted([0.3, 0.7], [mean(), cvar(alpha)])
    given: dict[str, Any] = {"l2_coef": float(rng.choice([0.0, 1e-5, 1e-3, 1e-2]))}
    mu = X.mean(axis=0)
    below, inside = [], np.zeros(n)
    inside[np.argmax(mu)] = 0.5
    inside += 0.5 / n
    if rng.random() < 0.8:
        given["min_return"] = float(mu @ inside - rng.uniform(0.0, 0.5) * (mu @ inside - mu.mean()))
    if rng.random() < 0.5:
        G = rng.normal(size=(int(rng.integers(1, 3)), n)).round(1)
        G = G * rng.choice([1e-3, 1.0, 1e3], size=(len(G), 1))
        level = G @ inside + rng.uniform(0, 0.05, len(G)) * np.abs(G).max(axis=1)
        given |= {"left_inequality": G, "right_inequality": level}
        below += [(f"left_inequality[{i}]", G[i], float(level[i])) for i in range(len(G))]
    return Case(spec, X, given, np.zeros(n), np.ones(n), [("budget", np.ones(n), 1.0)], below)


def draw_case(rng: np.random.Generator, draw: Draw) -> Case:
    if rng.random() < 0.3:
        return draw_plain(rng)
    n, count = int(rng.integers(2, 8)), int(rng.integers(12, 70))
    if rng.random() < 0.2:
        count *= 6
    unit = float(rng.choice([0.01, 0.01, 0.01, 1.0]))
    X = rng.normal(0.05, 1.0, size=(count, n)) * rng.uniform(0.5, 2, n) * unit
    if rng.random() < 0.4:
        X = (X / unit).round(1) * unit
    spec = draw(rng)
    if rng.random() < 0.6:
        spec = spec.scaled(float(f"{unit * rng.uniform(0.1, 3):.2g}"))
    given: dict[str, Any] = {}
    long_only = rng.random() < 0.65
    inside = rng.dirichlet(np.ones(n)).round(2)
    if not long_only:
        inside = (inside + 0.3 * rng.normal(size=n)).round(2)
    lower, upper = np.zeros(n), np.ones(n)
    if long_only:
        if rng.random() < 0.3:
            upper = np.maximum(inside, rng.uniform(0.2, 0.8, n).round(2))
            lower = np.minimum(inside, rng.uniform(0, 0.1, n).round(2))
            given |= {"min_weights": lower, "max_weights": upper}
    else:
        lower, upper = np.full(n, -1.0), np.full(n, 2.0)
        lower, upper = np.minimum(lower, inside), np.maximum(upper, inside)
        given |= {"min_weights": lower, "max_weights": upper}
    ones, total = np.ones(n), float(inside.sum())
    equal, below = [], []
    if rng.random() < 0.75:
        given["budget"] = total
        equal.append(("budget", ones, total))
    else:
        given["budget"] = None
        given["min_budget"], given["max_budget"] = round(total - 0.3, 2), round(total + 0.2, 2)
        below += [("min_budget", -ones, -given["min_budget"]), ("max_budget", ones, given["max_budget"])]
    if not long_only and rng.random() < 0.6:
        given["max_short"] = round(float(np.maximum(-inside, 0).sum()) + 0.1, 2)
        given["max_long"] = round(float(np.maximum(inside, 0).sum()) + 0.1, 2)
    if rng.random() < 0.3:
        given["l1_coef"] = round(float(rng.choice([1e-4, 1e-3, 1e-2])) * unit * 100, 6)
    if rng.random() < 0.4:
        given["l2_coef"] = round(float(rng.choice([1e-5, 1e-3, 1e-1])) * unit * 100, 8)
    if rng.random() < 0.3:
        costs = (rng.uniform(0, 0.02, n) * unit).round(6)
        given["transaction_costs"] = costs if rng.random() < 0.5 else float(costs[0])
    if rng.random() < 0.3:
        given["management_fees"] = (rng.uniform(0, 0.02, n) * unit).round(6)
    if rng.random() < 0.5:
        given["previous_weights"] = (inside + (rng.uniform(-0.1, 0.1, n) if rng.random() < 0.7 else 0)).round(3)
        if rng.random() < 0.5:
            given["max_turnover"] = round(float(np.abs(inside - given["previous_weights"]).max()) + 0.05, 3)
    if rng.random() < 0.3:
        G = rng.normal(size=(int(rng.integers(1, 3)), n)).round(2)
        G = G * rng.choice([1e-3, 1e-1, 1.0, 1e3], size=(len(G), 1))
        level = G @ inside + rng.uniform(0.005, 0.1, len(G)) * np.abs(G).max(axis=1)
        given |= {"left_inequality": G, "right_inequality": level}
        below += [(f"left_inequality[{i}]", G[i], float(level[i])) for i in range(len(G))]
    if n >= 4 and rng.random() < 0.25:
        given["groups"] = {f"A{i}": ["g0" if i % 2 else "g1"] for i in range(n)}
        odd = (np.arange(n) % 2).astype(float)
        cap = round(float(odd @ inside) + 0.05, 3)
        floor = round(float(inside[0] - 0.5 * inside[1]) - 0.02, 3)
        sign = "+" if floor >= 0 else "-"
        given["linear_constraints"] = [f"g0 <= {cap!r}", f"A0 >= 0.5 * A1 {sign} {abs(floor)!r}"]
        row = np.zeros(n)
        row[0], row[1] = -1.0, 0.5
        below += [("g0", odd, cap), ("A0 against A1", row, -floor)]
    if rng.random() < 0.2:
        given |= {"objective_function": "maximize_utility", "risk_aversion": float(rng.choice([0.5, 1.0, 3.0]))}
    given["solver_params"] = {"time_limit": PATIENCE}
    case = Case(spec, X, given, lower, upper, equal, below)
    if rng.random() < 0.4:
        net = float(X.mean(axis=0) @ inside - case.paid(inside))
        problem, _, _ = case.linear_problem(inside)
        fees, costs = (np.broadcast_to(np.asarray(case.get(key), float), n) for key in ("management_fees", COSTS))
        found = problem.region.rows().minimize(np.concatenate((fees - X.mean(axis=0), costs, np.zeros(3 * n))))
        most = net if found is None else -found[0]
        given["min_return"] = net + float(rng.uniform(-0.2, 0.95)) * (most - net)
    return case


def run(seed: int, fits: int, customs: int, search_every: int = 50) -> Report:
    from certeq.portfolio import MinimumOCE

    draw, rng, report = Draw(seed, customs, kinked=True), np.random.default_rng([seed, 4]), Report()
    slowest = 0.0
    for number in range(fits):
        case = draw_case(rng, draw)
        utility = draw.make(case.spec, NAMES)
        table = pd.DataFrame(case.X, columns=[f"A{i}" for i in range(case.X.shape[1])])
        model = MinimumOCE(utility, **case.given)
        began = time.perf_counter()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                model.fit(table)
            except Exception as error:  # whatever it is, it is a finding: the problem has a solution
                kind = f"error {type(error).__name__}"
                report.fail(kind, 0.0, f"{case.snippet}  # raised: {str(error)[:300]}")
                continue
        seconds = time.perf_counter() - began
        slowest = max(slowest, seconds)
        if seconds > 1.0:
            report.notes["over 1 s"] += 1
            report.slow("slow (fit)", seconds, case.snippet)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warned = any(issubclass(each.category, ConvergenceWarning) for each in caught)
            judge_fit(case, model, warned, report, number % search_every == 0)
    report.notes["slowest, ms"] = int(1000 * slowest)
    return report


def judge_fit(case: Case, model: Any, warned: bool, report: Report, always: bool) -> None:
    w = np.asarray(model.weights_)
    for name, size in case.broken(w):
        name = "left_inequality" if name.startswith("left") else name
        with_l2 = ", l2" if case.get("l2_coef") else ""
        report.fail(f"broken {name}{with_l2}", size, f"{case.snippet}  # {name} is violated by {size:.3g} of its size")
    problem, point, scale = case.linear_problem(w)
    risk, ref = Problem(case.spec, problem.A, None, problem.region).oce(point)
    if not abs(model.risk_ - risk) <= 1e-10 * problem.size(point):
        losses = (problem.A.astype(LD) @ point.astype(LD)).astype(float)
        confirm(ref, case.spec.form, 0, losses, None, 1e-12 * problem.size(point))
        said = f"{case.snippet}  # risk_ {model.risk_!r}; right: {risk!r}"
        report.fail("risk_", abs(model.risk_ - risk) / problem.size(point), said)
    value = -model.objective_ / scale if "objective_function" in case.given else model.objective_
    found = SimpleNamespace(
        theta=point,
        value=float(value),
        gap=float(model.gap_) / scale,
        tilt=np.asarray(model.tilt_),
        status="stalled" if warned else "converged",
    )
    if not case.broken(w):  # else there is nothing to prove
        judge(problem, found, report, "fit", None, always, case.snippet, feasible=1e-9)

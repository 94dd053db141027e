"""Feasible sets as the referee describes them: bounds, rows and sums of absolute values, with their source text."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from tests.referee.report import array_code

LD = np.longdouble
_TIGHT = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


@dataclass
class Region:
    """lower <= theta <= upper, C theta = c, G theta <= b, sum |theta[part] - center| <= radius in each norm."""

    d: int
    code: str
    lower: np.ndarray
    upper: np.ndarray
    C: np.ndarray
    c: np.ndarray
    G: np.ndarray
    b: np.ndarray
    norms: list[tuple[np.ndarray, np.ndarray, float]] = field(default_factory=list)  # (indices, center, radius)

    def violation(self, theta: np.ndarray) -> tuple[float, str]:
        """The largest violation relative to the size of its row's terms, in long double, and of what."""
        x = theta.astype(LD)
        worst, what = 0.0, ""

        def look(excess: np.ndarray, size: np.ndarray, name: str) -> None:
            nonlocal worst, what
            if excess.size:
                relative = np.maximum(excess, 0) / np.maximum(size, 1e-300)
                if float(relative.max()) > worst:
                    worst, what = float(relative.max()), f"{name}[{int(relative.argmax())}]"

        with np.errstate(invalid="ignore"):
            look(self.lower - x, np.maximum(np.abs(np.nan_to_num(self.lower, posinf=0, neginf=0)), 1e-3), "lower")
            look(x - self.upper, np.maximum(np.abs(np.nan_to_num(self.upper, posinf=0, neginf=0)), 1e-3), "upper")
        look(np.abs(self.C.astype(LD) @ x - self.c), np.abs(self.C) @ (np.abs(theta) + 1e-3) + np.abs(self.c), "C")
        look(self.G.astype(LD) @ x - self.b, np.abs(self.G) @ (np.abs(theta) + 1e-3) + np.abs(self.b), "G")
        for part, center, radius in self.norms:
            total = np.abs(x[part] - center).sum()
            look(np.array([total - radius]), np.array([max(radius, float(np.abs(center).sum()), 1e-3)]), "norm")
        return worst, what

    def rows(self, lower: np.ndarray | None = None, upper: np.ndarray | None = None) -> LinearRows:
        return LinearRows(self, self.lower if lower is None else lower, self.upper if upper is None else upper)


class LinearRows:
    """The region for linear programs: variables theta, then the parts p and n of each norm."""

    def __init__(self, region: Region, lower: np.ndarray, upper: np.ndarray) -> None:
        d = region.d
        extra = sum(2 * len(part) for part, _, _ in region.norms)
        n = d + extra
        eq, ub = [np.zeros((0, n))], [np.zeros((0, n))]
        eq.append(np.pad(region.C, ((0, 0), (0, extra))))
        ub.append(np.pad(region.G, ((0, 0), (0, extra))))
        b_eq, b_ub = [region.c], [region.b]
        at = d
        for part, center, radius in region.norms:
            k = len(part)
            rows = np.zeros((k, n))
            rows[np.arange(k), part] = 1.0
            rows[np.arange(k), at + np.arange(k)] = -1.0
            rows[np.arange(k), at + k + np.arange(k)] = 1.0
            eq.append(rows)
            b_eq.append(center)
            total = np.zeros((1, n))
            total[0, at : at + 2 * k] = 1.0
            ub.append(total)
            b_ub.append(np.array([radius]))
            at += 2 * k
        self.d, self.n = d, n
        self.A_eq, self.b_eq = np.vstack(eq), np.concatenate(b_eq)
        self.A_ub, self.b_ub = np.vstack(ub), np.concatenate(b_ub)
        self.bounds = np.vstack(
            (
                np.column_stack((lower, upper)),
                np.column_stack((np.zeros(extra), np.full(extra, np.inf))),
            )
        )

    def minimize(self, g: np.ndarray) -> tuple[float, np.ndarray] | None:
        """The least g.theta and where; None where there is none."""
        size = float(np.abs(g).max()) or 1.0
        cost = np.concatenate((g / size, np.zeros(self.n - self.d)))
        found = linprog(cost, self.A_ub, self.b_ub, self.A_eq, self.b_eq, self.bounds, "highs", options=_TIGHT)
        if found.status != 0:
            return None
        return float(found.fun) * size, found.x[: self.d]

    def minimize_with(self, cost, theta_rows, other_rows, rhs, other_cost, other_bounds):
        """Minimize cost.theta + other_cost.y where theta_rows theta + other_rows y <= rhs, too; scipy's result."""
        k = len(other_cost)
        more = self.n - self.d
        top = sparse.hstack(
            [
                sparse.csr_matrix(theta_rows),
                sparse.csr_matrix((theta_rows.shape[0], more)),
                sparse.csr_matrix(other_rows),
            ]
        )
        A_ub = sparse.vstack(
            [top, sparse.hstack([sparse.csr_matrix(self.A_ub), sparse.csr_matrix((len(self.b_ub), k))])]
        )
        A_eq = sparse.hstack([sparse.csr_matrix(self.A_eq), sparse.csr_matrix((len(self.b_eq), k))])
        return linprog(
            np.concatenate((cost, np.zeros(more), other_cost)),
            A_ub.tocsr(),
            np.concatenate((rhs, self.b_ub)),
            A_eq.tocsr(),
            self.b_eq,
            np.vstack((self.bounds, other_bounds)),
            "highs",
            options=_TIGHT,
        )


def _plain(d: int, code: str, lower=-np.inf, upper=np.inf, C=None, c=None, G=None, b=None, norms=()) -> Region:
    empty = np.zeros((0, d))
    return Region(
        d,
        code,
        np.array(np.broadcast_to(np.asarray(lower, float), d)),
        np.array(np.broadcast_to(np.asarray(upper, float), d)),
        empty if C is None else np.atleast_2d(C),
        np.zeros(0) if c is None else np.atleast_1d(c),
        empty if G is None else np.atleast_2d(G),
        np.zeros(0) if b is None else np.atleast_1d(b),
        list(norms),
    )


def _short(rng: np.random.Generator, values: np.ndarray) -> np.ndarray:
    return np.asarray(values).round(2) if rng.random() < 0.7 else np.asarray(values)


def draw_region(rng: np.random.Generator, d: int, bounded: bool = True) -> Region:
    """One of every kind of set that the exact solver takes; never empty."""
    kind = str(
        rng.choice(
            ["simplex", "capped", "box", "long_short", "polyhedron", "polyhedron", "product", "l1"]
            + ([] if bounded else 8 * ["free", "nonnegative", "half"])
        )
    )
    ones, every = np.ones((1, d)), np.arange(d)
    match kind:
        case "simplex":
            total = float(rng.choice([1.0, 1.0, 1.0, 2.5, 0.1]))
            return _plain(d, f"ce.Simplex({total!r})", 0.0, np.inf, ones, [total])
        case "capped":
            lower = _short(rng, rng.uniform(-0.2, 0.3, d) / d) if rng.random() < 0.5 else np.zeros(d)
            upper = lower + _short(rng, rng.uniform(0.1, 1.5, d) * 2 / d) + 0.01
            total = float(np.round(lower.sum() + rng.uniform(0.05, 0.95) * (upper - lower).sum(), 2))
            total = min(max(total, lower.sum()), upper.sum())
            code = f"ce.CappedSimplex(lower={array_code(lower)}, upper={array_code(upper)}, total={total!r})"
            return _plain(d, code, lower, upper, ones, [total])
        case "box":
            lower = _short(rng, rng.uniform(-1, 0.5, d))
            upper = lower + np.where(rng.random(d) < 0.1, 0.0, _short(rng, rng.uniform(0, 2, d)))
            return _plain(d, f"ce.Box({array_code(lower)}, {array_code(upper)})", lower, upper)
        case "long_short":
            long, short = round(float(rng.uniform(0.5, 2)), 1), round(float(rng.uniform(0, 1)), 1)
            lower, upper = (-np.inf, np.inf) if rng.random() < 0.5 else (-1.0, 2.0)
            code = f"ce.LongShort({long!r}, {short!r}, lower={lower!r}, upper={upper!r})".replace("inf", "np.inf")
            norms = [(every, np.zeros(d), long + short)]
            return _plain(d, code, lower, upper, ones, [long - short], norms=norms)
        case "l1":
            center = np.zeros(d) if rng.random() < 0.5 else _short(rng, rng.normal(size=d))
            radius = round(float(rng.uniform(0.2, 2)), 1)
            norms = [(every, center, radius)]
            return _plain(d, f"ce.L1Ball({radius!r}, center={array_code(center)})", norms=norms)
        case "product" if d >= 2:
            cut = int(rng.integers(1, d))
            parts = [draw_region(rng, cut), draw_region(rng, d - cut)]
            return _product(parts)
        case "free":
            return _plain(d, "ce.Free()")
        case "nonnegative":
            return _plain(d, "ce.NonNegative()", 0.0)
        case "half":
            lower = np.where(rng.random(d) < 0.5, -np.inf, _short(rng, rng.normal(size=d)))
            code = f"ce.Box({array_code(lower)}, np.inf)".replace("-inf", "-np.inf")
            return _plain(d, code, lower, np.inf)
    return _polyhedron(rng, d)


def _polyhedron(rng: np.random.Generator, d: int) -> Region:
    inside = _short(rng, rng.dirichlet(np.ones(d)))
    long_only = rng.random() < 0.6
    lower = np.zeros(d) if long_only else np.full(d, -1.0)
    upper = np.full(d, float(rng.choice([1.0, 2.0])))
    C, c, parts = np.zeros((0, d)), np.zeros(0), []
    if rng.random() < 0.7:
        C = np.ones((1, d)) * float(rng.choice([1.0, 1.0, 1e-2, 1e2]))
        if d > 3 and rng.random() < 0.3:
            C = np.vstack((C, _short(rng, rng.normal(size=(1, d)))))
        c = C @ inside
        parts += [f"C={array_code(C)}", f"c={array_code(c)}"]
    count = int(rng.integers(0, 4))
    G = _short(rng, rng.normal(size=(count, d))) * rng.choice([1.0, 1.0, 1e-3, 1e3], size=(count, 1))
    slack = rng.uniform(0.01, 0.3, count)
    if count and rng.random() < 0.3:
        slack[0] = 0.0  # one row may be tight at the point inside; two could leave no interior but for rounding
    b = G @ inside + slack * np.abs(G).max(axis=1, initial=0.0)
    if count:
        parts += [f"A={array_code(G)}", f"b={array_code(b)}"]
    code = f"ce.Polyhedron({', '.join([array_code(lower), array_code(upper), *parts])})"
    return _plain(d, code, lower, upper, C, c, G, b)


def _product(parts: list[Region]) -> Region:
    sizes = [part.d for part in parts]
    d, starts = sum(sizes), np.concatenate(([0], np.cumsum(sizes)[:-1]))
    norms = [(idx + s, center, r) for part, s in zip(parts, starts, strict=True) for idx, center, r in part.norms]

    def spread(name: str) -> np.ndarray:
        blocks = [
            np.pad(getattr(part, name), ((0, 0), (int(s), d - int(s) - part.d)))
            for part, s in zip(parts, starts, strict=True)
        ]
        return np.vstack(blocks)

    return Region(
        d,
        f"ce.Product([{', '.join(part.code for part in parts)}], sizes={sizes!r})",
        np.concatenate([part.lower for part in parts]),
        np.concatenate([part.upper for part in parts]),
        spread("C"),
        np.concatenate([part.c for part in parts]),
        spread("G"),
        np.concatenate([part.b for part in parts]),
        norms,
    )

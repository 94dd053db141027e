"""Random linear problems for the exact solver, judged by the referee's own values, bounds and better points.

The bound is judged without trust in any solver's tolerance. From the tilt that the package returns the referee makes
its own lower bound by weak duality (one line per scenario that lies below u, by the referee's slopes) and one small
linear program. Only where that does not reach the package's bound is a better point looked for, by linear programs
whose cuts lie below u; a feasible point whose value is below the bound proves the certificate false.
"""

from __future__ import annotations

import tempfile
import time
import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import sparse

import certeq as ce
from certeq.optimize.exact import solve_exact
from tests.blocks import small_tables_in_blocks
from tests.referee.reference import Reference, confirm, reference
from tests.referee.regions import Region, draw_region
from tests.referee.report import Report, array_code
from tests.referee.specification import LD, Draw, Form, Spec

NAMES = {"ce": ce, "np": np}
PATIENCE = 10.0  # seconds: a problem this small that takes longer is a failure, and need not be waited for
_REL = 1e-9  # of the size of the losses: what the checks of bounds allow


@dataclass
class Problem:
    spec: Spec
    A: np.ndarray
    weights: np.ndarray | None
    region: Region
    linear: np.ndarray | None = None
    ridge: np.ndarray | None = None  # factors of the squares of the variables

    @property
    def form(self) -> Form:
        return self.spec.form

    @property
    def snippet(self) -> str:
        lines = ["import numpy as np, certeq as ce", self.spec.source, f"A = {array_code(self.A)}"]
        more = ""
        if self.weights is not None:
            lines.append(f"w = {array_code(self.weights)}")
            more = ", weights=w"
        if self.linear is not None:
            r = self.region
            lines.append("from certeq.optimize.exact import solve_exact")
            given = {"linear": self.linear, "lower": r.lower, "upper": r.upper}
            if len(r.c):
                given |= {"C": r.C, "c": r.c}
            if len(r.b):
                given |= {"G": r.G, "b": r.b}
            text = ", ".join(f"{name}={array_code(each)}".replace("inf", "np.inf") for name, each in given.items())
            return "\n".join([*lines, f"found = solve_exact(A, u, {text}{more})"])
        lines.append(f"found = ce.minimize(ce.LinearLoss(A), u, domain={self.region.code}{more})")
        return "\n".join(lines)

    def oce(self, theta: np.ndarray) -> tuple[float, Reference]:
        """The objective at theta in long double, and the solution for t behind it."""
        losses = self.A.astype(LD) @ theta.astype(LD)
        # The reference takes doubles; what rounding took from the losses is given back by the tilt, which is 1 in sum.
        rounded = losses.astype(np.float64)
        ref = reference(rounded[None, :], None if self.weights is None else self.weights[None, :], self.form)
        value = ref.center[0] + ref.value[0]
        if self.linear is not None:
            value = value + self.linear.astype(LD) @ theta.astype(LD)
        if self.ridge is not None:
            value = value + self.ridge.astype(LD) @ theta.astype(LD) ** 2
        return float(value), ref

    def size(self, theta: np.ndarray) -> float:
        """The size of the losses: what 'small' is measured by. All regions are about 1 large, also where theta is 0."""
        counted = slice(None) if self.weights is None else self.weights > 0
        losses = float((np.abs(self.A[counted]) @ np.abs(theta)).max()) + float(np.abs(self.A[counted]).max())
        extra = 0.0 if self.linear is None else float(np.abs(self.linear) @ (np.abs(theta) + 1))
        if self.ridge is not None:
            extra += float(self.ridge @ (theta**2 + np.abs(theta)))
        return losses + extra + 1e-3 * self.form.size


def draw_problem(rng: np.random.Generator, draw: Draw, large: bool) -> Problem:
    if not large and rng.random() < 0.35:  # few losses of one digit: ties everywhere, and short reports
        d, m = int(rng.integers(1, 5)), int(rng.integers(1, 9))
        A = rng.normal(size=(m, d)).round(1)
        return Problem(draw.simple(rng), A, None, draw_region(rng, d))
    if large:
        d, m = 60, 3000
    else:
        d, m = int(rng.integers(1, 13)), int(np.exp(rng.uniform(0, np.log(80))))
    A = rng.normal(size=(m, d)) if rng.random() < 0.6 else rng.standard_t(3, size=(m, d))
    if rng.random() < 0.4:
        A = A.round(1)
    A = A * rng.choice([0.01, 0.3, 1.0, 1.0, 1.0, 1.0, 5.0, 100.0]) + rng.choice([0.0, 0.0, 0.1, -2.0])
    if rng.random() < 0.3:
        A = A + rng.normal(size=d).round(2) * np.abs(A).max() * 0.2
    weights = None
    if rng.random() < 0.25:
        weights = np.where(rng.random(m) < 0.2, 0.0, rng.uniform(0.1, 2, m).round(2))
        weights[0] = 1.0
    region = draw_region(rng, d, bounded=rng.random() < 0.92)
    linear = None
    if not region.norms and rng.random() < 0.15:
        linear = (rng.normal(size=d) * 0.1).round(2)
    return Problem(draw(rng), A, weights, region, linear)


@contextmanager
def on_blocks(A: np.ndarray):
    """The table as a mapped file that counts as large, read in some hundred blocks."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "A.npy"
        np.save(path, A)
        width = A.shape[1] * max(1, len(A) // 1000)
        with small_tables_in_blocks(11 * width):
            yield np.load(path, mmap_mode="r")


def solve(problem: Problem, utility: object, A: np.ndarray):
    if problem.linear is not None:
        r = problem.region
        return solve_exact(
            A, utility, weights=problem.weights, linear=problem.linear, lower=r.lower, upper=r.upper,
            C=r.C, c=r.c, G=r.G, b=r.b, time_limit=PATIENCE,
        )  # fmt: skip
    domain = eval(problem.region.code, NAMES)
    return ce.minimize(ce.LinearLoss(A), utility, domain=domain, weights=problem.weights, time_limit=PATIENCE)


def limits(problem: Problem, theta: np.ndarray, radius: float) -> tuple[np.ndarray, np.ndarray]:
    """The bounds; where a variable has none on a side, as far from theta as the certificate reaches."""
    lower, upper = problem.region.lower, problem.region.upper
    if not np.isfinite(radius):
        return lower, upper
    return np.where(np.isinf(lower), theta - radius, lower), np.where(np.isinf(upper), theta + radius, upper)


def own_bound(problem: Problem, tilt: np.ndarray, theta: np.ndarray, ref: Reference, box) -> float:
    """A lower bound on the minimum from the tilt: lines below u at the losses of theta, and a linear program."""
    form = problem.form
    w, z = ref.w[0], ref.y[0] - ref.t[0]
    with np.errstate(all="ignore"):
        p = np.where(w > 0, tilt / np.where(w > 0, w, 1), 1)
        # Ties at a kink may be off by the rounding of z.
        near = 1e-12 * (np.abs(z) + abs(ref.t[0]) + form.width) + 4 * np.spacing(float(np.abs(ref.y).max()))
        p = np.clip(p, form.slope(z - near), form.slope(z + near, "right"))
        support = np.where(w > 0, form.value(z) - p * z, 0)
        for at in form.kink_locations:  # of a slope between those at a kink the line touches there
            tie = np.abs(z - at) <= near
            support = np.where(tie & (w > 0), form.value(at) - p * at, support)
    known = np.where(w > 0, w * p, 0)
    rest = 1 - known.sum()
    if not abs(rest) <= 1e-9:
        return -np.inf
    # t + sum w (support + p (x - t)) = t*rest + ...: rest is rounding, paid for at the t of theta.
    g = (known @ problem.A.astype(LD)).astype(float)
    if problem.linear is not None:
        g = g + problem.linear
    constant = LD(0)
    if problem.ridge is not None:  # a square lies above its tangent
        g = g + 2 * problem.ridge * theta
        constant = -(problem.ridge.astype(LD) @ theta.astype(LD) ** 2)
    found = problem.region.rows(*box).minimize(g)
    if found is None:
        return -np.inf
    least, _ = found
    t = ref.t[0] + ref.center[0]
    return float((w * np.where(w > 0, support, 0)).sum() + LD(least) + rest * t + constant)


def better_point(problem: Problem, theta: np.ndarray, ref: Reference, box, rounds: int = 12):
    """The best point that cuts find: (value, theta), the referee's own value. Exact for piecewise linear utilities."""
    form, A = problem.form, problem.A
    w = ref.w[0].astype(float)
    counted = w > 0
    A, w = A[counted], w[counted]
    m = len(A)
    rows = problem.region.rows(*box)
    cost = np.zeros(problem.region.d) if problem.linear is None else problem.linear
    z = (ref.y[0] - ref.t[0])[counted]
    if form.is_linear:
        ends = [float(at) for at, _ in form.hinges]
        spots = [np.full(m, LD(ends[0]) - 1)] if ends else [np.zeros(m, dtype=LD)]
        spots += [np.full(m, LD(a)) for a in ends]
        sides = ["left"] + ["right"] * len(ends)
        rounds = 1 if problem.ridge is None else rounds
    else:
        spread = np.linspace(-3, 3, 7)
        unit = max(float(np.abs(z).max()), 1e-9)
        x0 = LD(float(form.anchor))
        spots = [z] + [np.full(m, x0 + LD(s) * unit / 3) for s in spread]
        spots += [np.full(m, LD(float(at))) for at, _ in form.hinges]
        sides = ["left"] * (1 + len(spread)) + ["right"] * len(form.hinges)
    cuts_theta, cuts_other, rhs = [], [], []
    best, where = np.inf, theta
    # Beside theta: t, the sum of squares, and one height per scenario.
    other_cost = np.concatenate(([1.0, float(problem.ridge is not None)], w))
    bounds = np.tile([-np.inf, np.inf], (m + 2, 1))
    bounds[1, 0] = 0.0
    points = [theta]
    for _ in range(rounds):
        for point in points if problem.ridge is not None else []:
            cuts_theta.append((2 * problem.ridge * point)[None, :])
            cuts_other.append(sparse.csr_matrix(([-1.0], ([0], [1])), shape=(1, m + 2)))
            rhs.append(np.array([float(problem.ridge @ point**2)]))
        for spot, side in zip(spots, sides, strict=True):
            with np.errstate(all="ignore"):
                slope, level = form.slope(spot, side).astype(float), form.value(spot)
                offset = (level - slope * spot).astype(float)
            keep = np.isfinite(slope) & np.isfinite(offset) & (slope < 1e5) & (np.abs(offset) < 1e9)
            k = np.flatnonzero(keep)
            cuts_theta.append(slope[k, None] * A[k])
            cuts_other.append(
                sparse.hstack(
                    [
                        sparse.csr_matrix(np.column_stack((-slope[k], np.zeros(len(k))))),
                        sparse.csr_matrix((-np.ones(len(k)), (np.arange(len(k)), k)), shape=(len(k), m)),
                    ]
                )
            )
            rhs.append(-offset[k])
        found = rows.minimize_with(
            cost, np.vstack(cuts_theta), sparse.vstack(cuts_other), np.concatenate(rhs), other_cost, bounds
        )
        if found.status != 0 or found.x is None:
            return best, where, found.status
        point = np.clip(found.x[: problem.region.d], *box)
        value, at = problem.oce(point)
        if value < best:
            best, where = value, point
        if best - found.fun <= 1e-11 * problem.size(point):
            break
        points = [point]
        spots, sides = ([], []) if form.is_linear else ([(at.y[0] - at.t[0])[counted]], ["left"])
    return best, where, 0


def judge(
    problem: Problem,
    found,
    report: Report,
    kind: str,
    known: float | None,
    always: bool,
    note: str | None = None,
    feasible: float = 1e-12,
) -> float:
    """All checks of one answer; returns the referee's own lower bound, or what was known."""
    if note is None:
        note = problem.snippet if kind == "memory" else f"# A memory-mapped and read in blocks\n{problem.snippet}"

    def fail(what: str, size: float, said: str) -> None:
        report.fail(f"{what} ({kind})", size, f"{note}  # {said}")

    theta = np.asarray(found.theta, dtype=float)
    size = problem.size(theta)
    value, ref = problem.oce(theta)
    report.checked[kind] += 1
    rounded = (problem.A.astype(LD) @ theta.astype(LD)).astype(float)
    if not abs(found.value - value) <= 1e-11 * size + 8 * np.spacing(size):
        confirm(ref, problem.form, 0, rounded, problem.weights, 1e-12 * size)
        fail("value", abs(found.value - value) / size, f"value {found.value!r}; the OCE of its theta is {value!r}")
    worst, what = problem.region.violation(theta)
    if not worst <= feasible:
        fail("broken constraint", worst, f"{what} is violated by {worst:.3g} of its size; theta {theta.tolist()}")
    radius = float(getattr(found, "radius", np.inf))
    box = limits(problem, theta, radius)
    optimal = found.status in ("converged", "optimal")
    gap = float(found.gap)
    bound = -np.inf if known is None else known
    if found.tilt is not None:
        off = abs(float(np.sum(found.tilt)) - 1.0)
        if not off <= 1e-12 * max(1.0, float(np.abs(found.tilt).sum())):
            fail("tilt sum" if optimal else "tilt sum, not converged", off, f"the tilt sums to {np.sum(found.tilt)!r}")
        bound = max(bound, own_bound(problem, np.asarray(found.tilt), theta, ref, box))
    if not optimal:
        what = "not converged, unbounded set" if radius < np.inf else "not converged"
        fail(what, gap / size, f"status {found.status!r}, gap {gap:.3g}, value {found.value:.6g}")
    elif not gap <= 1e-8 * max(size, abs(value)):
        fail("status", gap / size, f"status {found.status!r} with a gap of {gap:.3g}")
    tolerance = _REL * size
    assert bound <= value + tolerance, (bound, value, note)  # the referee contradicts itself
    if bound < value - gap - tolerance or always:
        best, where, _ = better_point(problem, theta, ref, box)
        report.notes["searches"] += 1
        confirm(ref, problem.form, 0, rounded, problem.weights, 1e-12 * size)
        assert best >= bound - 100 * tolerance, ("own bound", best, bound, note)
        out, _ = problem.region.violation(where)
        if best < found.value - gap - tolerance and out <= 1e-9:
            said = f"value {found.value!r}, gap {gap:.3g}; but theta = {where.tolist()} has {best!r}"
            fail("false certificate", (found.value - gap - best) / size, said)
        elif optimal and best < found.value - 1e-7 * size:
            fail(
                "worse than known", (found.value - best) / size, f"value {found.value!r}; {where.tolist()} has {best!r}"
            )
    return bound


def run(seed: int, problems: int, customs: int, large_every: int = 0, search_every: int = 25) -> Report:
    draw, rng, report = Draw(seed, customs, kinked=True), np.random.default_rng([seed, 3]), Report()
    slowest = 0.0
    for number in range(problems):
        problem = draw_problem(rng, draw, bool(large_every) and number % large_every == large_every - 1)
        utility = draw.make(problem.spec, NAMES)
        blocks = rng.random() < 0.2
        always = number % search_every == 0 and problem.A.shape[0] <= 80
        bound = None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for kind in ("memory", "blocks")[: 2 if blocks else 1]:
                began = time.perf_counter()
                try:
                    if kind == "memory":
                        found = solve(problem, utility, problem.A)
                    else:
                        with on_blocks(problem.A) as table:
                            found = solve(problem, utility, table)
                except ce.UnboundedError:
                    judge_unbounded(problem, report, kind)
                    continue
                except (ValueError, TypeError, ArithmeticError, IndexError) as error:
                    said = f"{problem.snippet}  # {kind}: raised {type(error).__name__}: {error}"
                    report.fail(f"error ({kind})", 0.0, said)
                    continue
                seconds = time.perf_counter() - began
                slowest = max(slowest, seconds)
                report.notes[f"over 1 s ({kind})"] += seconds > 1.0
                if seconds > 1.0:
                    report.slow(f"slow ({kind})", seconds, problem.snippet)
                bound = judge(problem, found, report, kind, bound, always)
    report.notes["slowest, ms"] = int(1000 * slowest)
    return report


def judge_unbounded(problem: Problem, report: Report, kind: str) -> None:
    """The claim that the objective falls for ever: of piecewise linear utilities a linear program decides."""
    report.notes["unbounded claimed"] += 1
    box = problem.region.lower, problem.region.upper
    if np.isfinite(box[0]).all() and np.isfinite(box[1]).all():
        report.fail(f"unbounded on a bounded set ({kind})", 0.0, problem.snippet)
    if problem.form.is_linear:
        theta = np.clip(np.zeros(problem.region.d), *box)
        _, ref = problem.oce(theta)
        status = better_point(problem, theta, ref, box)[2]
        if status == 0:
            report.fail(f"unbounded claimed ({kind})", 0.0, f"{problem.snippet}  # the linear program has a solution")

"""Random samples of random utilities, judged: OCE, threshold and tilt of `certeq` against the referee's reference."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

import certeq as ce
from tests.referee.reference import Reference, confirm, reference
from tests.referee.report import Report, array_code
from tests.referee.specification import LD, Draw, Spec

NAMES = {"ce": ce, "np": np}


@dataclass(frozen=True)
class Batch:
    """Rows of samples of one size, with weights of theirs, and whether one loss lies far from the others."""

    x: np.ndarray
    weights: np.ndarray | None
    far: bool


def draw_batch(rng: np.random.Generator, rows: int, size: int) -> Batch:
    x = rng.normal(size=(rows, size)) if rng.random() < 0.6 else rng.standard_t(3, size=(rows, size))
    if rng.random() < 0.45:
        x = x.round(1)  # ties
    if rng.random() < 0.05:
        x[:] = x[:, :1]  # constant
    x = x * float(rng.choice([0.01, 0.1, 0.3, 1.0, 1.0, 1.0, 7.0, 100.0]))
    far = size > 2 and rng.random() < 0.08
    if far:
        x[:, rng.integers(size)] = rng.choice([1e9, -1e9, 1e6])
    x = x + float(rng.choice([0, 0, 0, 0, 1.0, -30.0, 1e6, 1e9]))
    weights = None
    if rng.random() < 0.4:
        weights = rng.uniform(0.1, 2.0, size=x.shape if rng.random() < 0.5 else (1, size))
        if rng.random() < 0.4:
            weights = weights.round(1)
        if size > 1:
            weights = np.where(rng.random(weights.shape) < 0.2, 0.0, weights)
            weights[:, 0] = 1.0
    if rng.random() < 0.1:
        x = x.astype(np.float32)
    return Batch(x, weights, far)


class Judge:
    """Compares answers with the reference of one batch, row by row, and writes failures to the report."""

    def __init__(self, spec: Spec, batch: Batch, report: Report) -> None:
        self.spec, self.form, self.batch, self.report = spec, spec.form, batch, report
        self.x = batch.x.astype(np.float64)
        self.confirmed: set[int] = set()
        self.ref: Reference = reference(self.x, batch.weights, self.form)
        counted = self.ref.w > 0
        ulp = np.spacing(np.where(counted, np.abs(self.x), 0).max(axis=1))
        self.spread = np.where(counted, np.abs(self.ref.y), 0).max(axis=1)
        # Of t and of points relative to it: a loss far from the others must not cost the others their digits.
        close = counted & (np.abs(self.ref.y) < 1e5) if batch.far else counted
        self.ulp = np.spacing(np.where(close, np.abs(self.x), 0).max(axis=1))
        self.ulp = np.maximum(self.ulp, np.spacing(np.abs(self.ref.t + self.ref.center).astype(float)))
        # The last term is the rounding of u itself, in its own units: what is left where all losses are 0.
        self.tolerance = 1e-11 * (self.spread + self.form.size + np.abs(self.ref.value)) + 4 * ulp
        self.tolerance += 1e-15 * self.form.width

    def _row(self, i: int) -> tuple[str, str]:
        w = self.batch.weights
        text = f"import numpy as np, certeq as ce\n{self.spec.source}\nx = {array_code(self.batch.x[i])}\n"
        if w is None:
            return text, ""
        return text + f"w = {array_code(w[min(i, len(w) - 1)])}\n", ", weights=w"

    def fail(self, kind: str, size: float, i: int, call: str, should: str) -> None:
        text, more = self._row(i)
        if i not in self.confirmed:
            w = self.batch.weights
            w = None if w is None else w[min(i, len(w) - 1)]
            confirm(self.ref, self.form, i, self.x[i], w, 0.1 * self.tolerance[i])
            self.confirmed.add(i)
        self.report.fail(kind, size, f"{text}{call.replace('MORE', more)}  # {should}")

    def value(self, found: np.ndarray, rows: np.ndarray, kind: str = "oce", call: str = "ce.oce(x, uMORE)") -> None:
        self.report.checked[kind] += len(rows)
        off = np.abs((LD(0) + found - self.ref.center[rows]) - self.ref.value[rows])
        for j in np.flatnonzero(~(off <= self.tolerance[rows])):
            i = int(rows[j])
            right = float(self.ref.center[i] + self.ref.value[i])
            self.fail(kind, off[j] / max(self.spread[i], 1e-300), i, call, f"{float(found[j])!r}; right: {right!r}")

    def threshold(self, found: np.ndarray, rows: np.ndarray, kind: str = "threshold") -> None:
        if self.spec.level:
            return
        self.report.checked[kind] += len(rows)
        t = LD(0) + found - self.ref.center[rows]
        ref, y = self.ref, self.ref.y[rows]
        part = Reference(y, ref.w[rows], ref.center[rows], ref.value[rows], ref.t[rows])
        # Right where 1 lies between the mean slopes on both sides of a point that near.
        near = 1e-11 * (np.abs(part.t) + np.abs(t) + self.form.width) + 4 * self.ulp[rows]
        good = part.mean_slope(self.form, t + near, "left") <= 1 + 1e-11
        good &= part.mean_slope(self.form, t - near, "right") >= 1 - 1e-11
        excess = part.objective(self.form, t) - part.value
        suffix = " far" if self.batch.far else ""
        for j in np.flatnonzero(~good):
            i = int(rows[j])
            # Where the value there is the minimum all the same, only digits of t itself are lost.
            name = kind + suffix + ("" if excess[j] > self.tolerance[i] else " digits")
            right = float(ref.center[i] + ref.t[i])
            should = f"{float(found[j])!r}; right: {right!r}, where the objective is {float(excess[j]):.3g} lower"
            self.fail(name, abs(right - found[j]), i, "ce.threshold(x, uMORE)", should)

    def tilt(self, found: np.ndarray, rows: np.ndarray, kind: str = "tilt", call: str = "ce.tilt(x, uMORE)") -> None:
        self.report.checked[kind] += len(rows)
        ref, form = self.ref, self.form
        y, w, t = ref.y[rows], ref.w[rows], ref.t[rows][:, None]
        size = np.maximum(np.abs(found).sum(axis=1), 1.0)
        suffix = " far" if self.batch.far else ""
        off = np.abs(found.sum(axis=1) - 1.0)
        for j in np.flatnonzero(~(off <= 1e-12 * size)):
            self.fail(f"{kind} sum{suffix}", off[j], int(rows[j]), f"({call}).sum()", f"{found[j].sum()!r}; right: 1")
        if form.ends[0] >= 0:
            for j in np.flatnonzero(found.min(axis=1) < 0):
                self.fail(f"{kind} negative", -found[j].min(), int(rows[j]), call, "has negative entries")
        near = 1e-11 * (np.abs(y - t) + np.abs(t) + form.width)
        near = near + 4 * np.maximum(self.ulp[rows][:, None], np.spacing(np.abs(self.x[rows])))
        with np.errstate(all="ignore"):
            low = np.where(w > 0, w * form.slope(y - t - near), 0)
            high = np.where(w > 0, w * form.slope(y - t + near, "right"), 0)
        beyond = np.maximum(np.maximum(low - found, found - high), 0).max(axis=1)
        for j in np.flatnonzero(~(beyond <= 1e-11 * size)):
            k = int(np.argmax(np.maximum(low[j] - found[j], found[j] - high[j])))
            should = f"entry {k} is {float(found[j, k])!r}; right: {float(low[j, k]):.17g} to {float(high[j, k]):.17g}"
            self.fail(f"{kind} entry{suffix}", float(beyond[j] / size[j]), int(rows[j]), call, should)


def judge_batch(rng: np.random.Generator, spec: Spec, utility: object, batch: Batch, report: Report) -> None:
    judge = Judge(spec, batch, report)
    x, w, every = batch.x, batch.weights, np.arange(len(batch.x))
    one = np.array([int(rng.integers(len(x)))])
    w1 = None if w is None else w[min(one[0], len(w) - 1)]
    wide = None if w is None else w if len(w) > 1 else w[0]
    where = "ce.oce(x, uMORE)"
    try:
        judge.value(np.asarray(ce.oce(x, utility, weights=wide, axis=-1)), every)
        judge.value(np.array([ce.oce(x[one[0]], utility, weights=w1)]), one)
        where = "ce.threshold(x, uMORE)"
        judge.threshold(np.asarray(ce.threshold(x, utility, weights=wide, axis=-1)), every)
        judge.threshold(np.array([ce.threshold(x[one[0]], utility, weights=w1)]), one)
        where = "ce.tilt(x, uMORE)"
        judge.tilt(np.asarray(ce.tilt(x, utility, weights=wide, axis=-1)), every)
        judge.tilt(ce.tilt(x[one[0]], utility, weights=w1)[None, :], one)
        if rng.random() < 0.2 and x.shape[1] > 1:
            where = "ce.estimate(x, uMORE)"
            found = ce.estimate(x[one[0]], utility, weights=w1)
            judge.value(np.array([found.value]), one, "estimate", f"{where}.value")
            judge.tilt(np.asarray(found.tilt)[None, :], one, "estimate tilt", f"{where}.tilt")
        if rng.random() < 0.2 and x.dtype == np.float64:
            where = "import torch, certeq.torch as ct; ct.oce(torch.tensor(x), u)"
            judge_torch(spec, utility, judge, int(one[0]), w1)
    except (ValueError, TypeError, ArithmeticError, IndexError) as error:
        # Of a call on all rows the row is not known; the first is shown.
        judge.fail(f"error {type(error).__name__}", 0.0, int(one[0]), where, f"raised: {error}")


def judge_torch(spec: Spec, utility: object, judge: Judge, i: int, w1: np.ndarray | None) -> None:
    torch, ct = _torch()
    if torch is None:
        return
    one = np.array([i])
    losses = torch.tensor(judge.x[i], requires_grad=True)
    weight = None if w1 is None else torch.tensor(w1)
    more = "" if w1 is None else ", weight=torch.tensor(w)"
    call = f"import torch, certeq.torch as ct; z = torch.tensor(x, requires_grad=True); v = ct.oce(z, u{more}); "
    value = ct.oce(losses, utility, weight=weight)
    judge.value(np.array([float(value)]), one, "torch oce", call + "v")
    value.backward()
    judge.tilt(losses.grad.numpy()[None, :], one, "torch tilt", call + "v.backward(); z.grad")
    if not spec.definitions:  # tensors cannot go through NumPy functions row by row
        rows = torch.tensor(judge.x[: min(3, len(judge.x))])
        w = judge.batch.weights
        weight = None if w is None else torch.tensor(np.broadcast_to(w, judge.x.shape)[: len(rows)].copy())
        found = ct.oce(rows, utility, dim=-1, weight=weight).numpy()
        judge.value(found, np.arange(len(rows)), "torch rows", call.replace("u)", "u, dim=-1)") + "v")


def _torch():
    try:
        import torch

        import certeq.torch as ct
    except ImportError:
        return None, None
    return torch, ct


def run(seed: int, samples: int, customs: int, rows: int = 10, batches_each: int = 2) -> Report:
    """So many samples, ``rows`` at a time; a utility is kept for some batches."""
    draw, rng, report = Draw(seed, customs), np.random.default_rng([seed, 2]), Report()
    done = batches = 0
    while done < samples:
        spec = draw.simple(rng) if rng.random() < 0.2 else draw(rng)
        try:
            utility = draw.make(spec, NAMES)
        except ValueError as error:
            report.fail("utility refused", 0.0, f"import numpy as np, certeq as ce\n{spec.source}  # raised: {error}")
            continue
        for _ in range(batches_each):
            batches += 1
            long = batches % 60 == 0
            size = 1000 if long else int(rng.choice([1, 2, 3, 5, 8, 12, 20, 33, 60]))
            batch = draw_batch(rng, 2 if long else rows, size)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                judge_batch(rng, spec, utility, batch, report)
            done += len(batch.x)
    report.notes["samples"] += done
    return report

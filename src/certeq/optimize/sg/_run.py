"""OCE-SG, the loop:  theta_k = project(theta_{k-1} - alpha_k sum_i q_i grad F_i(theta_{k-1}))."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from certeq._table import Table
from certeq.optimize.domains import Domain
from certeq.optimize.losses import Evaluation, LinearLoss, Loss, Objective
from certeq.optimize.losses._base import Floats, solve_losses
from certeq.optimize.sg._accelerated import AcceleratedSteps, Correction, accelerated_steps
from certeq.optimize.sg._adaptive import AdaptiveSteps, DistanceSteps
from certeq.optimize.sg._checkpoint import load, restore_generator, save
from certeq.optimize.sg._doubts import is_certified, thin_batches, unsettled
from certeq.optimize.sg._importance import ImportanceOdds, effective_part
from certeq.optimize.sg._log import Log, Progress, Snapshot
from certeq.optimize.sg._schedules import FULL, Average, ScheduleChoice, full_batch
from certeq.optimize.sg._sources import ArraySource, IteratorSource, Source
from certeq.optimize.sg._warm import WarmTilt
from certeq.optimize.solution import Solution, frank_wolfe_gap, solution_at
from certeq.utilities import Risk


@dataclass(frozen=True)
class Limits:
    """When to stop, and how often to look."""

    iterations: int
    seconds: float
    gap: float  # relative to max(1, abs(value)); below 0 for never
    log_every: int
    checkpoint_every: int


class Run:
    """One run of OCE-SG, with everything that changes during the run."""

    STATE = ("iteration", "seconds", "theta")

    def __init__(
        self,
        loss: Loss,
        utility: Risk,
        domain: Domain,
        source: Source,
        objective: Objective | None,
        theta: Floats,
        choice: ScheduleChoice,
        seed: int | None,
    ) -> None:
        self.loss, self.utility, self.domain = loss, utility, domain
        self.source, self.objective, self.choice, self.seed = source, objective, choice, seed
        self.theta = theta
        self.iteration = 0
        self.seconds = 0.0
        self.average = Average(choice.average, theta.size)
        self.steps: AdaptiveSteps | None = None
        self.correction: Correction | None = None
        if choice.step is None and choice.accelerated:
            assert objective is not None
            self.steps = accelerated_steps(theta, domain, loss, objective.samples)
            self.correction = Correction(objective.count, theta.size)
            # The tilt of samples in blocks is not kept; batches without repetition are asked for as they are.
            blocks = isinstance(objective.samples, Table)
            if isinstance(source, ArraySource) and source.replace and not blocks and choice.batch != full_batch():
                source.importance = ImportanceOdds(objective.count, objective.weights)
        elif choice.step is None:
            self.steps = DistanceSteps(theta, domain.diameter(theta.size), choice.power)
        # The rows of a batch are the gradients; a subclass may add to them, and an offset is no part of them.
        sparse = type(loss) is LinearLoss and not loss.has_offset
        self.tilt = WarmTilt(utility, None if objective is None else objective.weights, sparse=sparse)
        # Weights belong to the full sample; a drawn batch has them in its odds already.
        shared = objective is None or objective.weights is None
        self.plain = self.tilt if shared else WarmTilt(utility, sparse=sparse)
        self.full = source.samples if isinstance(source, ArraySource) else None
        self.log = Log()
        self.last_losses: Floats = np.zeros(0)
        self.status = "iteration limit"
        self.errors: Any = {}

    @property
    def _importance(self) -> ImportanceOdds | None:
        return self.source.importance if isinstance(self.source, ArraySource) else None

    # -- the loop -----------------------------------------------------------------------------------------------

    def go(
        self,
        limits: Limits,
        callback: Callable[[Snapshot], Any] | None = None,
        progress: bool | None = None,
        keep: Callable[[Run], None] | None = None,
    ) -> None:
        """Iterate to a limit; ``keep`` is called when a checkpoint is due, and once at the end."""
        bar = Progress(progress, limits.iterations, self.iteration)
        self.status = "iteration limit"
        self.errors = np.geterr()
        try:
            # What overflows is found by its result, at no cost per iteration; the callback gets its own settings back.
            with np.errstate(all="ignore"):
                self._iterate(limits, callback, bar, keep)
        finally:
            bar.close()
        if keep is not None:
            keep(self)

    def _iterate(
        self,
        limits: Limits,
        callback: Callable[[Snapshot], Any] | None,
        bar: Progress,
        keep: Callable[[Run], None] | None,
    ) -> None:
        step_at, batch_at, average, steps = self.choice.step, self.choice.batch, self.average, self.steps
        self.domain.validate(self.theta.size)  # so that no step has to
        evaluate, project = self.loss.evaluate, self.domain._stepper()
        averaging = self.choice.average != "last"
        blocks = isinstance(self.full, Table)
        start, before = time.perf_counter(), self.seconds
        while self.iteration < limits.iterations:
            k = self.iteration + 1
            step, m = 1.0 if step_at is None else step_at(k), int(batch_at(k))
            if not (0.0 < step < math.inf and (m > 0 or m == FULL)):
                raise ValueError(f"step and batch must be above 0; found {float(step)!r} and {m} at iteration {k}.")
            if self.correction is not None and self.correction.due:
                m = FULL
            batch, size = self.source.draw(m)
            if blocks and batch is self.full:
                losses, mass, slope = self.last_losses, 1.0, self._slope_of_blocks()
            else:
                losses, product = evaluate(self.theta, batch)
                whole = batch is self.full
                tilt = self.tilt if whole else self.plain
                q, mass = tilt.weigh(losses, whole, self.source.weights)
                if not 0.0 < mass < math.inf:
                    raise self._not_finite(k, losses)
                slope = product(q) if tilt.rows is None else np.dot(q, batch.take(tilt.rows, axis=0))
            if not math.isfinite(np.add.reduce(slope)):
                raise self._no_gradient(k, slope)
            if steps is None:
                if averaging:
                    average.add(self.theta, step)
                self.theta = project(self.theta - (step / mass) * slope, self.theta)
            else:
                gradient = slope / mass
                if self.correction is not None:
                    gradient = self._corrected(self.correction, gradient, batch, losses)
                last = self.theta
                self.theta = steps.move(k, last, gradient, project)
                step = steps.step
                if averaging:
                    average.add(last, steps.weight)
            self.iteration, self.last_losses = k, losses
            elapsed = time.perf_counter() - start
            self.seconds = before + elapsed
            if k % limits.log_every == 0 or k == limits.iterations:
                self._look(step, size, limits, callback, bar)
            if elapsed >= limits.seconds and k < limits.iterations and self.status == "iteration limit":
                self.status = "time limit"
            if self.status != "iteration limit":
                return
            if keep is not None and k % limits.checkpoint_every == 0 and k < limits.iterations:
                keep(self)

    def _corrected(self, correction: Correction, gradient: Floats, batch: Any, at_theta: Floats) -> Floats:
        """The gradient of a batch, corrected by its error at a point where that over all samples is known."""
        if batch is not self.full:
            losses, product = self.loss.evaluate(correction.point, batch)
            q, mass = self.plain.weigh(losses, False, self.source.weights)
            correction.drawn += losses.size
            return np.asarray(gradient - product(q) / mass + correction.gradient)
        if not correction.due:  # a full batch needs no correction; its value is looked at once in twenty
            correction.drawn += max(correction.size // 20, 1)
            return gradient
        assert self.objective is not None
        assert isinstance(self.steps, AcceleratedSteps)
        if isinstance(self.full, Table):
            value = self.objective.evaluate(self.theta).value
        else:
            value, _, tilt = solve_losses(at_theta, self.objective.weights, self.tilt.form)
            if self._importance is not None:
                self._importance.learn(tilt)
        if correction.take(self.theta, value, gradient):
            self.steps.keep()
        elif correction.go_back(value):
            self.theta, gradient = correction.best, correction.slope
            self.steps.return_to(self.theta, 0.5**correction.returns)
        return gradient

    def _slope_of_blocks(self) -> Floats:
        """The gradient over samples that are read in blocks: tilt and losses stay where those are."""
        assert self.objective is not None
        return self.objective.evaluate(self.theta).gradient

    def _look(
        self,
        step: float,
        size: int,
        limits: Limits,
        callback: Callable[[Snapshot], Any] | None,
        bar: Progress,
    ) -> None:
        theta = self._point()
        value, gap = self._value(theta)
        view = theta.view()
        view.flags.writeable = False
        at = Snapshot(self.iteration, view, value, gap, step, size, self.seconds)
        self.log.add(at)
        bar.update(self.iteration, value)
        if gap is not None and gap <= limits.gap * max(1.0, abs(value)):
            self.status = "converged"
        elif callback is not None:
            with np.errstate(**self.errors):
                stop = callback(at)
            if isinstance(stop, (bool, np.bool_)) and stop:
                self.status = "stopped by callback"

    def _point(self) -> Floats:
        """What would be returned now: the average, the iterate, or the best point of a pass where it is better."""
        if self.correction is None or self._is_best(self.correction.value):
            return self.average.pick(self.theta)
        return self.correction.best

    def _is_best(self, value: float) -> bool:
        """Say whether the iterate has a lower value over all samples than this one."""
        assert self.objective is not None
        samples = self.objective.samples
        if not (isinstance(samples, Table) or np.isfinite(self.loss.losses(self.theta, samples)).all()):
            return False  # a step too long, which the next pass takes back
        return self.objective.evaluate(self.theta).value < value

    def _value(self, theta: Floats) -> tuple[float, float | None]:
        """Return OCE and gap at theta over all samples; over the last batch and without a gap for a stream."""
        if self.objective is None:
            return solve_losses(self.last_losses, None, self.tilt.form)[0], None
        at = self.objective.evaluate(theta)
        return at.value, frank_wolfe_gap(at, theta, self.loss, self.utility, self.domain)

    def _not_finite(self, k: int, losses: Floats) -> ValueError:
        bad = np.flatnonzero(~np.isfinite(losses))
        what = f"the loss of sample {bad[0]} of the batch is {losses[bad[0]]}" if bad.size else "the tilt overflows"
        return ValueError(f"at iteration {k} {what}: the step is too long, or theta0 or the samples are out of range.")

    def _no_gradient(self, k: int, slope: Floats) -> ValueError:
        bad = np.flatnonzero(~np.isfinite(slope))
        what = f"entry {bad[0]} of the gradient is {slope[bad[0]]}" if bad.size else "the gradient overflows"
        return ValueError(f"at iteration {k} {what}: look at the jacobian of the loss, or take a shorter step.")

    # -- the result ---------------------------------------------------------------------------------------------

    def solution(self) -> Solution:
        """Return the iterate asked for, with its certificate."""
        theta = self._point().copy()
        rest: dict[str, Any] = {
            "status": self.status,
            "trace": self.log.trace(),
            "iterations": self.iteration,
            "seed": self.seed,
            "seconds": self.seconds,
            "method": "sg",
            "promise": self.choice.promise,
        }
        if self.objective is None:
            value, warnings = self.log.rows[-1][1] if self.log.rows else math.nan, self._doubts_of_a_stream()
            return Solution(theta, value, None, warnings=warnings, **rest)
        at = self.objective.evaluate(theta)
        found = solution_at(at, theta, self.objective, self.domain, **rest)
        return found if is_certified(found.value, found.gap) else replace(found, warnings=self._doubts(at))

    def _doubts_of_a_stream(self) -> tuple[str, ...]:
        """What the last batch says, which is all there is; nothing of a finished run that was read again."""
        if not self.last_losses.size:
            return ()
        tilt = solve_losses(self.last_losses, None, self.tilt.form)[2]
        return thin_batches(effective_part(tilt, None), self.last_losses.size, "Use a larger batch=.")

    def _doubts(self, at: Evaluation) -> tuple[str, ...]:
        """What speaks against a point that no gap proves to be good."""
        assert self.objective is not None
        m = int(self.choice.batch(max(self.iteration, 1)))
        whole = m == FULL or m >= self.objective.count
        part = effective_part(at.tilt, self.objective.weights) if at.tilt.size else None  # none of samples in blocks
        if self.correction is not None:
            return unsettled(self.correction, at.value, part, None if whole else m)
        return () if whole or part is None else thin_batches(part, m)

    # -- checkpoints --------------------------------------------------------------------------------------------

    def save(self, path: str, problem: Mapping[str, str]) -> None:
        """Write everything the next iteration depends on."""
        values = {"status": self.status, "seed": self.seed, "rng": self.source.rng.bit_generator.state}
        if isinstance(self.source, IteratorSource):
            values["used"] = self.source.used
        save(path, problem, values, self._parts())

    def resume(self, path: str, problem: Mapping[str, str]) -> None:
        """Continue from a checkpoint of the same problem."""
        values = load(path, problem, self._parts())
        self.status, self.seed = values["status"], values["seed"]
        restore_generator(self.source.rng, values["rng"])
        if isinstance(self.source, IteratorSource):
            self.source.skip(values["used"])
        if self._importance is not None and self._importance.tilt.any():
            self._importance.use(self._importance.tilt)

    def _parts(self) -> dict[str, Any]:
        """Return the objects that change during a run, by the names they have in a checkpoint."""
        parts = {"run": self, "average": self.average, "log": self.log, "tilt": self.tilt}
        rest: dict[str, Any] = {"steps": self.steps, "correction": self.correction, "odds": self._importance}
        rest["plain"] = None if self.plain is self.tilt else self.plain
        return parts | {name: part for name, part in rest.items() if part is not None}

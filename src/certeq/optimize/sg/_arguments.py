"""What `minimize_sg` may be given, checked once before the first iteration."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from certeq.optimize.domains import Domain
from certeq.optimize.losses import Loss
from certeq.optimize.losses._base import Floats, as_floats
from certeq.optimize.sg._regimes import ANY_STEP, Constants, Plan, oce_smoothness, plan
from certeq.optimize.sg._schedules import as_batch, as_step, choose
from certeq.optimize.sg._sources import ArraySource, Source
from certeq.utilities import Utility


def check_problem(loss: Any, utility: Any, domain: Any) -> None:
    """Refuse what is not a loss, a utility and a feasible set."""
    if not isinstance(loss, Loss):
        hint = "; wrap it: LinearLoss(A), or CallableLoss(function)"
        raise TypeError(f"loss must be a Loss; found {type(loss).__name__}{hint}.")
    if not isinstance(utility, Utility):
        hint = f"; write {utility.__name__}()" if isinstance(utility, type) else ""
        raise TypeError(f"utility must be a Utility such as CVaR(0.05); found {utility!r}{hint}.")
    if not isinstance(domain, Domain):
        hint = f"; write {domain.__name__}()" if isinstance(domain, type) else ""
        raise TypeError(f"domain must be a feasible set such as Simplex() or Free(); found {domain!r}{hint}.")


def check_start(theta0: Any, loss: Loss, samples: Any, domain: Domain) -> Floats:
    """Return a starting point in the feasible set: the one given, which must lie in it, or the domain's own."""
    d = loss.dimension(samples)
    if theta0 is None:
        if d is None:
            raise ValueError(f"theta0 is missing: {loss!r} does not tell the size of theta.")
        return domain.start(d)
    theta = as_floats("theta0", theta0, 1).copy()
    if d is not None and theta.size != d:
        raise ValueError(f"theta0 must have {d} entries, one per column of the samples; found {theta.size}.")
    if not domain.contains(theta):
        raise ValueError(f"theta0 must lie in {domain!r}, but {domain.explain(theta)}. Use domain.project(theta0).")
    return theta


def check_rng(rng: Any) -> tuple[np.random.Generator, int | None]:
    """Return a generator and the seed that reproduces it (None when a generator was passed in)."""
    if isinstance(rng, np.random.Generator):
        return rng, None
    if rng is None:
        entropy = np.random.SeedSequence().entropy
        assert isinstance(entropy, int)
        return np.random.default_rng(entropy), entropy
    if isinstance(rng, bool) or not hasattr(rng, "__index__"):
        raise TypeError(f"rng must be a seed, a numpy Generator or None; found {rng!r}.")
    if int(rng) < 0:
        raise ValueError(f"rng must be a seed not below 0; found {rng}.")
    return np.random.default_rng(int(rng)), int(rng)


def check_count(name: str, found: Any) -> int:
    """Return a whole number of at least 1."""
    if isinstance(found, bool) or not hasattr(found, "__index__"):
        raise TypeError(f"{name} must be a whole number of at least 1; found {found!r}.")
    if int(found) < 1:
        raise ValueError(f"{name} must be a whole number of at least 1; found {found}.")
    return int(found)


def check_limit(name: str, found: Any) -> float:
    """Return a number above 0, infinite for None."""
    if found is None:
        return math.inf
    if isinstance(found, (bool, str)) or not hasattr(found, "__float__"):
        raise TypeError(f"{name} must be a number above 0 or None; found {found!r}.")
    if not float(found) > 0.0:
        raise ValueError(f"{name} must be a number above 0 or None; found {found!r}.")
    return float(found)


def choose_plan(
    loss: Loss,
    utility: Utility,
    domain: Domain,
    source: Source,
    theta: Floats,
    regime: str | None,
    step: Any,
    batch: Any,
    average: str | None,
) -> Plan:
    """Return schedules and average: those given, the rest from the regime."""
    if regime is None:
        regime = "convex" if loss.linear or (loss.convex and utility.is_monotone) else "nonconvex"
    given = None if step is None else as_step(step)
    constants = Constants(math.inf, math.inf, math.inf)
    if given is None and isinstance(source, ArraySource):
        diameter = domain.diameter(theta.size)
        smoothness = oce_smoothness(loss, utility, source.samples, theta, diameter)
        lipschitz = loss.lipschitz(source.samples, theta, diameter) if utility.is_monotone else math.inf
        constants = Constants(smoothness, lipschitz, diameter)
    chosen = plan(regime, constants, given)
    if batch is None and average is None:
        return chosen
    sizes = chosen.batch if batch is None else as_batch(batch)
    which = chosen.average if average is None else choose("average", average, ("last", "mean", "weighted"))
    promise = chosen.promise
    if batch is not None:  # the rates count on batches that grow
        promise = ANY_STEP if promise is not None and promise.startswith(ANY_STEP) else None
    return Plan(chosen.step, sizes, which, promise if which == chosen.average else None)

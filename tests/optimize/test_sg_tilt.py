"""OCE-SG takes the gradient at the exact tilt of every batch: against `certeq.tilt`, iterate by iterate."""

import numpy as np
import pytest

import certeq as ce
from tests.problems import UTILITIES

pytestmark = [
    pytest.mark.filterwarnings("ignore::certeq.ReliabilityWarning"),
    pytest.mark.filterwarnings("ignore::certeq.UnitWarning"),
]
each_utility = pytest.mark.parametrize("name", UTILITIES)
START = np.array([0.25, 0.5, 0.25])


def follow(loss, utility, steps, batches, w=None, **options):
    """Run OCE-SG without constraints and check each of its steps, on a table or on one batch after another."""
    seen, steps = [START], np.asarray(steps, dtype=float)
    ce.minimize(
        loss, utility, domain=ce.Free(), method="sg", theta0=START, step=lambda k: steps[k - 1], average="last",
        iterations=len(steps), log_every=1, callback=lambda at: seen.append(at.theta.copy()), **options,
    )  # fmt: skip
    for k, step in enumerate(steps):
        x = batches[k] if isinstance(batches, list) else batches
        moved, gradient = seen[k] - seen[k + 1], ce.tilt(x @ seen[k], utility, w) @ x
        np.testing.assert_allclose(moved, step * gradient, rtol=1e-7, atol=1e-8 * step + 1e-14)


@pytest.mark.parametrize("kind", ["plain", "ties", "weighted", "offset"])
@each_utility
def test_steps_of_all_lengths_on_the_same_samples(name, kind):
    """The threshold of the step before is the start: it must do no harm, however far the losses have moved."""
    rng, utility = np.random.default_rng(3), UTILITIES[name]
    A, w = 0.3 * rng.standard_t(4, size=(397, 3)), None
    if kind == "ties":
        A = np.round(8.0 * A) / 8.0  # so that ties at the start are exact
    elif kind == "weighted":
        w = rng.random(len(A)) * (np.arange(len(A)) % 7 > 0)
    loss = ce.LinearLoss(A, offset=1e6 if kind == "offset" else None)
    steps = [1e-9, 1e-7, 1e-7, 1e-7, 1e-5, 1e-5, 1e-3, 1e-2, 0.1, 0.3, 1e-6, *[1e-4] * 8]
    follow(loss, utility, steps, A, w, batch="full", weights=w)


@each_utility
def test_batches_of_changing_size(name):
    rng, utility, batches = np.random.default_rng(4), UTILITIES[name], []
    sizes = (1, 2, 3, 19, 20, 21, 64, 500, 7, 250)

    def sampler(_, m):
        batches.append(rng.normal(size=(2 * m, 3))[::2] if m > 100 else rng.normal(size=(m, 3)))
        return batches[-1]

    steps = [0.01] * len(sizes)
    follow(ce.LinearLoss(), utility, steps, batches, samples=sampler, batch=lambda k: sizes[k - 1])


@pytest.mark.parametrize("utility", [ce.CVaR(0.07), ce.CVaR(0.29), 0.3 * ce.Mean() + 0.7 * ce.CVaR(0.1)], ids=repr)
def test_the_tail_alone_gives_the_same_gradient(utility):
    A = np.round(8.0 * np.random.default_rng(5).normal(size=(4000, 3))) / 8.0  # with ties
    steps = [0.01, 0.01, 0.3, 1e-5, *[0.01] * 6]
    follow(ce.LinearLoss(A), utility, steps, A, batch="full")


@pytest.mark.parametrize("utility", [ce.CVaR(0.3), 0.3 * ce.Mean() + 0.7 * ce.CVaR(0.3)], ids=repr)
def test_losses_whose_sum_and_differences_overflow_have_a_tilt(utility):
    z = np.array([1.5e308, 1.7e308, -1.7e308, 1.2e308, 0.0, 1.0, 2.0])
    loss = ce.CallableLoss(lambda theta, xi: (xi[:, 0], xi[:, 1:]), samples=np.column_stack([z, np.eye(7, 3)]))
    ranks = np.argsort(np.argsort(z)).astype(float)
    found = ce.minimize(
        loss, utility, domain=ce.Free(), method="sg", theta0=START, step=0.1, average="last", iterations=1, batch="full"
    )
    np.testing.assert_allclose(START - found.theta, 0.1 * ce.tilt(ranks, utility) @ np.eye(7, 3), rtol=1e-12)


@pytest.mark.parametrize("batch", ["full", 60])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
@each_utility
def test_losses_that_are_not_finite_end_the_run(name, bad, batch):
    A = np.random.default_rng(6).normal(size=(100, 3))

    def later(theta, xi):
        return np.where((xi == A[7]).all(axis=1) & (theta != START).any(), bad, xi @ theta), xi

    with pytest.raises(ValueError, match=f"the loss of sample .* of the batch is {bad}"):
        ce.minimize(
            ce.CallableLoss(later, samples=A), UTILITIES[name], domain=ce.Free(), method="sg", theta0=START, step=1e-3,
            batch=batch, iterations=50, log_every=50, rng=0,
        )  # fmt: skip

"""OCE-SG: what it averages, draws, streams and promises, and when it stops.

tests/general runs it under every risk and over every feasible set.
"""

import itertools
import tracemalloc

import numpy as np
import pytest

import certeq as ce
from certeq.optimize.losses import CallableLoss, LinearLoss, LogisticLoss, Objective, SquaredLoss
from certeq.optimize.sg import (
    constant,
    constant_batch,
    full_batch,
    growing_batch,
    inverse,
    inverse_sqrt,
    minimize_sg,
)

pytestmark = pytest.mark.filterwarnings("ignore::certeq.ReliabilityWarning")  # batches are tiny to be quick
A = np.random.default_rng(0).standard_t(4, size=(300, 5)) * [1.0, 1.2, 1.5, 2.0, 3.0] + [0.0, -0.1, -0.1, 0.1, 0.0]
LOSS, SIMPLEX, FREE, ENTROPIC = LinearLoss(A), ce.Simplex(), ce.Free(), ce.Entropic(0.5)
WEIGHTS = np.random.default_rng(2).random(300)


def run(utility=ENTROPIC, loss=LOSS, domain=SIMPLEX, **settings):
    return minimize_sg(loss, utility, domain=domain, **settings)


# -- full and drawn batches -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("utility", [ENTROPIC, ce.MeanVariance(0.2), ce.MonotoneMeanVariance(2)], ids=repr)
def test_a_smooth_problem_converges_to_the_tolerance(utility):
    found = run(utility, batch="full", step=0.1, average="last", iterations=20000, tol=1e-9)
    assert found.status == "converged"
    assert found.gap <= 1e-9 * max(1.0, abs(found.value))
    assert found.iterations < 20000


@pytest.mark.parametrize("average", ["last", "mean", "weighted"])
def test_averages_are_of_the_points_before_each_step(average):
    steps = inverse(0.5)
    theta, mean, weight = np.full(5, 0.2), np.zeros(5), 0.0
    for k in range(1, 26):
        w = {"mean": 1.0, "weighted": steps(k)}.get(average, 0.0)
        mean, weight = mean + w * theta, weight + w
        theta = SIMPLEX.project(theta - steps(k) * ce.tilt(A @ theta, ENTROPIC) @ A)
    found = run(batch="full", step=steps, average=average, iterations=25)
    np.testing.assert_allclose(found.theta, theta if average == "last" else mean / weight, atol=1e-12)


def test_sample_weights_on_full_and_drawn_batches():
    settings = {"weights": WEIGHTS, "average": "last", "iterations": 2000}
    full = run(batch="full", step=0.1, **settings)
    assert full.value == pytest.approx(ce.oce(A @ full.theta, ENTROPIC, weights=WEIGHTS), rel=1e-12)
    assert full.gap < 1e-7
    assert run(batch=100, step=inverse_sqrt(0.1), rng=0, **settings).value == pytest.approx(full.value, abs=0.02)


@pytest.mark.parametrize("utility", [ce.CVaR(0.1), ce.SmoothCVaR(0.1), 0.5 * ce.Mean() + 0.5 * ce.Entropic(3.0)])
def test_samples_of_weight_0_may_lose_anything(utility):
    table, weights = np.random.default_rng(0).normal(size=(50, 3)), np.ones(50)
    table[7], weights[7] = 1e5, 0.0
    settings = {"batch": "full", "step": 0.01, "iterations": 40}
    found = run(utility, LinearLoss(table), weights=weights, **settings)
    without = run(utility, LinearLoss(np.delete(table, 7, axis=0)), **settings)
    np.testing.assert_allclose(found.theta, without.theta, atol=1e-12)
    assert found.value == pytest.approx(without.value, rel=1e-12)
    assert found.gap == pytest.approx(without.gap, rel=1e-6)
    assert found.tilt[7] == 0.0


@pytest.mark.parametrize("replace", [True, False])
def test_batches_from_an_array(replace):
    seen = []

    def spy(theta, xi):
        seen.append(xi[:, 0].copy())
        return xi @ theta, xi

    loss = CallableLoss(spy, samples=np.arange(40.0).reshape(20, 2), convex=True)
    settings = {"theta0": [0.0, 0.0], "step": 1e-3, "batch": 15, "iterations": 50}
    run(ce.CVaR(0.5), loss, FREE, replace=replace, **settings)
    batches = [batch for batch in seen if len(batch) == 15]
    assert len(batches) == 50
    assert all(len(set(batch)) == 15 for batch in batches) != replace
    assert {entry for batch in batches for entry in batch} == set(np.arange(0.0, 40.0, 2.0))


def test_growing_batches_become_the_whole_sample():
    found = run(ce.CVaR(0.1), LinearLoss(A[:30]), batch="growing", step=0.01, iterations=50, log_every=1, rng=0)
    np.testing.assert_array_equal(found.trace.batch, np.minimum(np.arange(1, 51), 30))


def test_a_loss_that_adds_to_the_gradient_keeps_its_own_product():
    class Ridge(ce.LinearLoss):
        def evaluate(self, theta, batch=None):
            losses, product = super().evaluate(theta, batch)
            return losses + 10.0 * theta @ theta, lambda q: product(q) + q.sum() * 20.0 * theta

    table = np.random.default_rng(1).normal(size=(300, 4))
    found = run(ce.CVaR(0.1), Ridge(table), batch="full", step=0.01, iterations=500)
    assert found.theta == pytest.approx(np.full(4, 0.25), abs=0.05)


@pytest.mark.parametrize(
    "step, size, total", [(0.1, 1e10, 1.0), (1e20, 1e10, 1.0), (0.3, 1, 30.0), (0.3, 1, 0.5), (1, 1, 0.0)]
)
def test_steps_of_any_length_end_in_a_simplex_of_any_total(step, size, total):
    table, domain, seen = size * np.random.default_rng(0).normal(size=(9, 5)), ce.Simplex(total), []
    options = {"batch": "full", "iterations": 12, "average": "last", "log_every": 1}
    run(ENTROPIC, LinearLoss(table), domain, step=step, callback=lambda at: seen.append(at.theta.copy()), **options)
    theta = domain.start(5)
    for found in seen:
        theta = domain.project(theta - step * ce.tilt(table @ theta, ENTROPIC) @ table)
        np.testing.assert_allclose(found, theta, atol=1e-9 * max(1.0, total))
        assert found.sum() == pytest.approx(total, abs=1e-12 * max(1.0, total))
        assert found.min() >= 0.0


# -- streams ----------------------------------------------------------------------------------------------------------


def test_a_sampler_reaches_the_minimum_of_the_law():
    # Entropic risk of a Gaussian is mean + beta/2 variance: min over the simplex of theta' S theta is at S^-1 1.
    sampler = lambda rng, m: rng.normal(size=(m, 2)) * [1.0, 2.0]
    found = run(
        loss=LinearLoss(),
        samples=sampler,
        theta0=[0.5, 0.5],
        regime="strongly_convex",
        step=0.3,
        iterations=1500,
        rng=1,
    )
    np.testing.assert_allclose(found.theta, [0.8, 0.2], atol=0.02)
    assert found.gap is None
    assert found.tilt is None
    assert np.isnan(found.trace.gap).all()
    assert found.value == pytest.approx(0.2, abs=0.1)


def test_an_iterator_is_cut_into_the_same_batches_whatever_its_chunks():
    rows = np.random.default_rng(3).normal(size=(6000, 2)) * [1.0, 2.0]

    def again(length):
        buffer = np.empty((length, 2))  # filled again and again
        for i in range(0, len(rows) - length + 1, length):
            buffer[:] = rows[i : i + length]
            yield buffer

    thetas = set()
    for chunks in ((rows[i : i + 7] for i in range(0, 6000, 7)), again(3), again(1), iter([rows])):
        found = run(
            loss=LinearLoss(), samples=chunks, theta0=[0.5, 0.5], step=0.3, batch="growing", iterations=100,
            average="last",
        )  # fmt: skip
        thetas.add(found.theta.tobytes())
    assert len(thetas) == 1


def test_iterators_of_pairs_and_cycles():
    rng = np.random.default_rng(4)

    def stream():
        while True:
            X = rng.normal(size=(16, 2))
            yield X, X @ [1.0, -2.0] + 0.1 * rng.normal(size=16)

    found = run(
        ce.CVaR(0.5), SquaredLoss(), ce.Ball(5.0), samples=stream(), theta0=[0.0, 0.0], step=inverse_sqrt(0.2),
        batch=64, iterations=800, average="weighted",
    )  # fmt: skip
    np.testing.assert_allclose(found.theta, [1.0, -2.0], atol=0.1)
    found = run(
        ce.CVaR(0.1), LinearLoss(), samples=itertools.cycle([A]), theta0=np.full(5, 0.2), batch=300,
        step=inverse_sqrt(0.3), iterations=2000, average="last",
    )  # fmt: skip
    assert ce.oce(A @ found.theta, ce.CVaR(0.1)) == pytest.approx(found.value, abs=1e-3)


def test_a_stream_needs_memory_for_one_batch():
    def stream():
        rng = np.random.default_rng(5)
        while True:
            yield rng.normal(size=(500, 50))

    def peak(iterations):
        tracemalloc.start()
        run(
            loss=LinearLoss(), samples=stream(), theta0=np.full(50, 0.02), step=0.01, batch=1000, iterations=iterations,
            average="last", log_every=1000,
        )  # fmt: skip
        used = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return used

    assert peak(50) <= 1.2 * peak(10)


# -- a run from outside -----------------------------------------------------------------------------------------------


def test_same_seed_same_bits_and_the_seed_is_recorded():
    draw = lambda rng: run(ce.CVaR(0.1), batch=20, iterations=50, rng=rng)
    a, free = draw(12), draw(None)
    for rng, seed in ((12, 12), (np.random.default_rng(12), None)):
        assert draw(rng).theta.tobytes() == a.theta.tobytes()
        assert draw(rng if seed else np.random.default_rng(12)).seed == seed
    assert draw(free.seed).theta.tobytes() == free.theta.tobytes()


@pytest.mark.parametrize("utility", [ce.SmoothCVaR(0.1, tau=0.02), ce.CVaR(0.1)])
def test_the_same_bits_wherever_the_samples_lie_in_memory(utility):
    """Some sums of a BLAS depend on how far an array is from a multiple of 32 bytes."""
    samples, found = np.random.default_rng(5).standard_normal((1001, 4)) * 0.1, set()
    for shift in range(5):
        buffer = np.empty(samples.size + 8)
        moved = buffer[shift : shift + samples.size].reshape(samples.shape)
        moved[:] = samples
        for spoil in range(3):  # what is allocated in between moves what the run allocates
            kept = [np.empty(17 * spoil + 3) for _ in range(spoil)]
            found.add(run(utility, LinearLoss(moved), batch="full", iterations=40).theta.tobytes())
            del kept
    assert len(found) == 1


def test_the_callback_sees_the_run_and_can_stop_it(capsys):
    seen = []

    def callback(at):
        seen.append(at)
        with pytest.raises(ValueError, match="read-only"):
            at.theta[0] = 1.0
        return np.bool_(at.iteration >= 30)

    found = run(ce.CVaR(0.1), callback=callback, batch=20, iterations=1000, log_every=10, rng=5)
    assert [at.iteration for at in seen] == [10, 20, 30]
    assert (found.status, found.iterations) == ("stopped by callback", 30)
    assert not found.converged
    assert found.value == seen[-1].value
    # What is returned allows for every rounding; what is shown along the way does not.
    assert seen[-1].gap <= found.gap == pytest.approx(seen[-1].gap, rel=1e-9)
    np.testing.assert_array_equal(found.trace.iteration, [10, 20, 30])
    for part in ("stopped by callback after 30 iterations", "theta", "gap", "seed: 5", "Trace(3 entries"):
        assert part in repr(found)
    assert capsys.readouterr().err == ""  # progress is silent without a terminal, and shown on demand
    run(iterations=20, progress=True)
    assert "OCE-SG" in capsys.readouterr().err


def test_limits_and_nothing_is_changed():
    found = run(ce.CVaR(0.1), batch=20, iterations=10**9, time_limit=0.2)
    assert found.status == "time limit"
    assert 0.2 <= found.seconds < 2.0
    theta0, rows = np.full(5, 0.2), A.copy()
    assert run(loss=LinearLoss(rows), theta0=theta0, batch="full", iterations=50).status == "iteration limit"
    np.testing.assert_array_equal(theta0, np.full(5, 0.2))
    np.testing.assert_array_equal(rows, A)


def test_there_is_no_certificate_without_convexity():
    loss = SquaredLoss(A, A[:, 0])
    settings = {"domain": ce.Box(-1.0, 1.0), "batch": "full", "step": 1e-3, "iterations": 20}
    assert run(ce.MeanVariance(0.1), loss, **settings).gap is None
    assert run(ce.Entropic(0.1), loss, **settings).gap >= 0.0
    assert run(ce.MeanVariance(0.1), LOSS, **settings).gap >= 0.0
    unbounded = run(ce.Entropic(0.1), loss, **(settings | {"domain": FREE}))
    assert unbounded.gap == np.inf
    assert unbounded.residual > 0.0


# -- regimes and what they promise ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "domain, options, says, does_not_say",
    [
        (ce.Ball(2.0), {}, "= O(1/sqrt n)", "iterates stay bounded"),
        (FREE, {}, "as long as the iterates stay bounded", "bounded set"),
        (FREE, {"regime": "convex"}, "O(", "constraint"),
        (ce.NonNegative(), {"batch": "full"}, "as long as the iterates stay bounded", "bounded set"),
        (ce.Ball(2.0), {"regime": "nonconvex"}, None, ""),  # theorem 4 has no projection
        (FREE, {"regime": "nonconvex"}, "O(ln n/sqrt n)", "constraint"),
        (SIMPLEX, {"regime": "strongly_convex", "average": "weighted"}, "norm(mean - theta*) = O(1/n) where", "OCE("),
        (FREE, {"regime": "strongly_convex", "average": "weighted"}, "= 0, as long as the iterates", "away"),
        (ce.Ball(2.0), {"regime": "strongly_convex", "average": "weighted"}, "theta*)^2 = O(1/n)", "iterates"),
        (FREE, {"step": "theory", "regime": "nonconvex"}, "grad OCE(theta_k))^2 <= (2 L", "mapping"),
        (ce.Ball(2.0), {"step": "theory", "regime": "nonconvex"}, "(8 L (OCE(theta_0) - inf) + 10 C2", "grad OCE"),
        (FREE, {"step": "theory", "regime": "convex"}, "O(ln^2 n/sqrt n)", "where"),
        (ce.NonNegative(), {"step": "theory", "regime": "convex"}, "where grad OCE = 0 at the minimizer", "D^2"),
        (ce.Ball(2.0), {"step": "theory", "regime": "convex"}, "D^2", "where"),
        (ce.Ball(2.0), {"step": 0.1, "regime": "convex"}, "D^2", "O("),
        (FREE, {"step": 0.1, "regime": "convex"}, None, ""),  # D is infinite
    ],
)
def test_a_promise_is_that_of_a_theorem_for_the_feasible_set(domain, options, says, does_not_say):
    found = run(loss=LogisticLoss(A, np.sign(A[:, 0])), domain=domain, iterations=3, rng=0, **options).promise
    if says is None:
        assert found is None
    else:
        assert says in found
        assert does_not_say not in found


@pytest.mark.parametrize("regime", ["strongly_convex", "convex", "nonconvex"])
def test_regimes_lead_down(regime):
    loss = LogisticLoss(A, np.sign(A[:, 0]))
    found = run(loss=loss, domain=FREE, regime=regime, iterations=200, rng=0)
    assert found.value < Objective(loss, ENTROPIC).evaluate(np.zeros(5)).value


def test_steps_of_any_length_have_no_promise_without_a_monotone_utility():
    """The bound needs gradients of batches that are means of gradients; mean-variance has negative weights."""
    for utility, promised in ((ENTROPIC, True), (ce.MeanVariance(1.0), False)):
        assert (run(utility, step=0.1, iterations=3, rng=0).promise is not None) == promised


@pytest.mark.parametrize("theta0", [-1.0, 0.3])
def test_the_bound_for_the_gradient_mapping_holds_if_steps_are_projected(theta0):
    """The example of theorem 8, -cos(4 (theta - 1/2)) on [-1, 1], without noise, so that C2 = 0."""

    def wave(theta, xi):
        angle = 4.0 * (theta[0] - 0.5)
        return np.full(len(xi), -np.cos(angle)), np.full((len(xi), 1), 4.0 * np.sin(angle))

    L, seen = 16.0, []
    loss = CallableLoss(wave, samples=np.zeros((1, 1)), smoothness=L, lipschitz=4.0)
    run(
        ce.Mean(), loss, ce.Box(-1.0, 1.0), theta0=[theta0], step="theory", regime="nonconvex", iterations=40,
        log_every=1, callback=lambda at: seen.append(float(at.theta[0])),
    )  # fmt: skip
    points = np.array([theta0, *seen])
    mapping = L * (points - np.clip(points - 4.0 * np.sin(4.0 * (points - 0.5)) / L, -1.0, 1.0))
    least = np.minimum.accumulate(mapping**2)[:-1]
    assert (least <= 8.0 * L * (1.0 - np.cos(4.0 * (theta0 - 0.5))) / np.arange(1, 41)).all()


def test_regimes_choose_the_steps_of_the_corrected_theory():
    lipschitz = np.linalg.norm(A, axis=1).max()
    spread = np.linalg.norm(A - A.mean(axis=0), axis=1).max()
    settings = {"iterations": 4, "log_every": 1, "rng": 0, "step": "theory"}
    trace = run(regime="strongly_convex", **settings).trace
    np.testing.assert_allclose(trace.step, 1 / (0.5 * spread**2), rtol=1e-12)
    np.testing.assert_array_equal(trace.batch, [1, 2, 3, 4])
    trace = run(ce.CVaR(0.1), regime="convex", **settings).trace
    np.testing.assert_allclose(trace.step, np.sqrt(2) / lipschitz / np.sqrt(np.arange(1, 5)), rtol=1e-12)


def test_schedules_are_pure_functions_with_names():
    batches = (growing_batch(3), constant_batch(5), full_batch())
    for schedule in (constant(0.1), inverse(0.1), inverse(0.1, 10.0), inverse_sqrt(0.1), *batches):
        assert schedule(7) == schedule(7)
        assert schedule == eval(repr(schedule))
        assert hash(schedule) == hash(eval(repr(schedule)))
    assert inverse(1.0) != inverse(2.0)
    assert growing_batch(3)(2) == 4

"""OCE-SG: it converges, averages what the theory averages, streams, stops when told, and refuses nonsense."""

import itertools
import tracemalloc

import numpy as np
import pytest

import certeq as ce
from certeq.optimize.domains import Ball, Box, Free, NonNegative, Simplex
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

A = np.random.default_rng(0).standard_t(4, size=(300, 5)) * [1.0, 1.2, 1.5, 2.0, 3.0] + [0.0, -0.1, -0.1, 0.1, 0.0]
LOSS = LinearLoss(A)
UTILITIES = [
    ce.CVaR(0.1),
    0.5 * ce.Mean() + 0.5 * ce.CVaR(0.1),
    ce.Entropic(0.5),
    ce.MeanVariance(0.2),
    ce.MonotoneMeanVariance(2),
    ce.MonotoneMeanVariance(3),
    ce.Quartic(),
    ce.LeakyCVaR(0.1),
    ce.SmoothCVaR(0.1, tau=0.3),
    0.5 * ce.CVaR(0.2) + 0.5 * ce.Entropic(0.5),
]


@pytest.mark.parametrize("utility", UTILITIES, ids=repr)
def test_full_batches_on_the_simplex_reach_a_small_certified_gap(utility):
    # Where OCE has kinks one subgradient does not vanish at the minimum, so its gap stays away from 0.
    rough = bool(utility.kinks)
    found = minimize_sg(
        LOSS, utility, domain=Simplex(), batch="full", step=inverse_sqrt(0.3), average="last",
        iterations=300 if rough else 4000,
    )  # fmt: skip
    assert Simplex().contains(found.theta)
    assert 0.0 <= found.gap < (0.2 if rough else 2e-2)
    assert found.value == pytest.approx(ce.oce(A @ found.theta, utility), rel=1e-12)
    best = min(float(ce.oce(A @ theta, utility)) for theta in np.random.default_rng(1).dirichlet(np.ones(5), 300))
    assert found.value <= best + found.gap


@pytest.mark.parametrize("utility", [ce.Entropic(0.5), ce.MeanVariance(0.2), ce.MonotoneMeanVariance(2)], ids=repr)
def test_a_smooth_problem_converges_to_the_tolerance(utility):
    settings = {"batch": "full", "step": 0.1, "average": "last", "iterations": 20000}
    found = minimize_sg(LOSS, utility, domain=Simplex(), tol=1e-9, **settings)
    assert found.status == "converged"
    assert found.gap <= 1e-9 * max(1.0, abs(found.value))
    assert found.iterations < 20000


def test_the_cvar_linear_program_is_solved():
    from scipy.optimize import linprog

    alpha, (n, d) = 0.1, A.shape
    cost = np.concatenate([np.zeros(d), [1.0], np.full(n, 1 / (alpha * n))])
    rows = np.hstack([A, -np.ones((n, 1)), -np.eye(n)])
    equal = np.concatenate([np.ones(d), [0.0], np.zeros(n)])[None]
    bounds = [(0, None)] * d + [(None, None)] + [(0, None)] * n
    exact = linprog(cost, rows, np.zeros(n), equal, [1.0], bounds).fun
    found = minimize_sg(LOSS, ce.CVaR(alpha), domain=Simplex(), batch="full", iterations=20000, average="last")
    assert exact - 1e-9 <= found.value <= exact + 1e-3
    assert found.value - exact <= found.gap


def by_hand(steps, n, average):
    theta, mean, weight = np.full(5, 0.2), np.zeros(5), 0.0
    for k in range(1, n + 1):
        w = {"mean": 1.0, "weighted": steps(k)}.get(average, 0.0)
        mean, weight = mean + w * theta, weight + w
        gradient = ce.tilt(A @ theta, ce.Entropic(0.5)) @ A
        theta = Simplex().project(theta - steps(k) * gradient)
    return theta if average == "last" else mean / weight


@pytest.mark.parametrize("average", ["last", "mean", "weighted"])
def test_averages_are_of_the_points_before_each_step(average):
    steps = inverse(0.5)
    found = minimize_sg(
        LOSS, ce.Entropic(0.5), domain=Simplex(), batch="full", step=steps, average=average, iterations=25
    )
    np.testing.assert_allclose(found.theta, by_hand(steps, 25, average), atol=1e-12)


def test_sample_weights_on_full_and_drawn_batches():
    weights = np.random.default_rng(2).random(300)
    settings = {"domain": Simplex(), "weights": weights, "average": "last"}
    full = minimize_sg(LOSS, ce.Entropic(0.5), batch="full", step=0.1, iterations=3000, **settings)
    assert full.value == pytest.approx(ce.oce(A @ full.theta, ce.Entropic(0.5), weights=weights), rel=1e-12)
    assert full.gap < 1e-8
    drawn = minimize_sg(LOSS, ce.Entropic(0.5), batch=100, step=inverse_sqrt(0.1), iterations=3000, rng=0, **settings)
    assert drawn.value == pytest.approx(full.value, abs=0.02)
    with pytest.raises(ValueError, match="weights need batches drawn with replacement"):
        minimize_sg(LOSS, ce.Entropic(0.5), batch=100, step=0.1, replace=False, iterations=2, **settings)


@pytest.mark.parametrize("replace", [True, False])
def test_batches_from_an_array(replace):
    seen = []

    def spy(theta, xi):
        seen.append(xi[:, 0].copy())
        return xi @ theta, xi

    loss = CallableLoss(spy, samples=np.arange(40.0).reshape(20, 2), convex=True)
    settings = {"theta0": [0.0, 0.0], "step": 1e-3, "batch": 15, "iterations": 50}
    minimize_sg(loss, ce.CVaR(0.5), domain=Free(), replace=replace, **settings)
    batches = [batch for batch in seen if len(batch) == 15]
    assert len(batches) == 50
    assert all(len(set(batch)) == 15 for batch in batches) != replace
    assert {entry for batch in batches for entry in batch} == set(np.arange(0.0, 40.0, 2.0))


def test_growing_batches_become_the_whole_sample():
    settings = {"batch": "growing", "step": 0.01, "iterations": 50, "log_every": 1, "rng": 0}
    found = minimize_sg(LinearLoss(A[:30]), ce.CVaR(0.1), domain=Simplex(), **settings)
    np.testing.assert_array_equal(found.trace.batch, np.minimum(np.arange(1, 51), 30))


def test_a_sampler_reaches_the_minimum_of_the_law():
    # Entropic risk of a Gaussian is mean + beta/2 variance: min over the simplex of theta' S theta is at S^-1 1.
    deviations = np.array([1.0, 2.0])
    sampler = lambda rng, m: rng.normal(size=(m, 2)) * deviations
    found = minimize_sg(
        LinearLoss(), ce.Entropic(0.5), domain=Simplex(), samples=sampler, theta0=[0.5, 0.5], regime="strongly_convex",
        step=0.3, iterations=1500, rng=1,
    )  # fmt: skip
    np.testing.assert_allclose(found.theta, [0.8, 0.2], atol=0.02)
    assert found.gap is None
    assert found.tilt is None
    assert np.isnan(found.trace.gap).all()
    assert found.value == pytest.approx(0.2, abs=0.1)


@pytest.mark.parametrize("chunk", [1, 7, 1000])
def test_an_iterator_is_cut_into_the_same_batches_whatever_its_chunks(chunk):
    rows = np.random.default_rng(3).normal(size=(6000, 2)) * [1.0, 2.0]
    chunks = (rows[i : i + chunk] for i in range(0, len(rows), chunk))
    found = minimize_sg(
        LinearLoss(), ce.Entropic(0.5), domain=Simplex(), samples=chunks, theta0=[0.5, 0.5], step=0.3, batch="growing",
        iterations=100, average="last",
    )  # fmt: skip
    whole = iter([rows])
    again = minimize_sg(
        LinearLoss(), ce.Entropic(0.5), domain=Simplex(), samples=whole, theta0=[0.5, 0.5], step=0.3, batch="growing",
        iterations=100, average="last",
    )  # fmt: skip
    assert found.theta.tobytes() == again.theta.tobytes()


def test_an_iterator_of_pairs_feeds_a_regression():
    rng = np.random.default_rng(4)

    def stream():
        while True:
            X = rng.normal(size=(16, 2))
            yield X, X @ [1.0, -2.0] + 0.1 * rng.normal(size=16)

    found = minimize_sg(
        SquaredLoss(), ce.CVaR(0.5), domain=Ball(5.0), samples=stream(), theta0=[0.0, 0.0], step=inverse_sqrt(0.2),
        batch=64, iterations=800, average="weighted",
    )  # fmt: skip
    np.testing.assert_allclose(found.theta, [1.0, -2.0], atol=0.1)


def test_a_stream_needs_memory_for_one_batch():
    def stream():
        rng = np.random.default_rng(5)
        while True:
            yield rng.normal(size=(500, 50))

    def peak(iterations):
        tracemalloc.start()
        minimize_sg(
            LinearLoss(), ce.Entropic(1.0), domain=Simplex(), samples=stream(), theta0=np.full(50, 0.02), step=0.01,
            batch=1000, iterations=iterations, average="last", log_every=1000,
        )  # fmt: skip
        used = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return used

    assert peak(100) <= 1.2 * peak(10)


def test_same_seed_same_bits_and_the_seed_is_recorded():
    run = lambda rng: minimize_sg(LOSS, ce.CVaR(0.1), domain=Simplex(), batch=20, iterations=50, rng=rng)
    a, b = run(12), run(12)
    assert a.theta.tobytes() == b.theta.tobytes()
    assert a.seed == 12
    free = run(None)
    assert run(free.seed).theta.tobytes() == free.theta.tobytes()
    assert run(np.random.default_rng(12)).theta.tobytes() == a.theta.tobytes()
    assert run(np.random.default_rng(12)).seed is None


def test_the_callback_sees_the_run_and_can_stop_it():
    seen = []

    def callback(at):
        seen.append(at)
        with pytest.raises(ValueError, match="read-only"):
            at.theta[0] = 1.0
        return at.iteration >= 30

    settings = {"batch": 20, "iterations": 1000, "log_every": 10}
    found = minimize_sg(LOSS, ce.CVaR(0.1), domain=Simplex(), callback=callback, **settings)
    assert [at.iteration for at in seen] == [10, 20, 30]
    assert found.status == "stopped by callback"
    assert found.iterations == 30
    assert found.value == seen[-1].value
    # What is returned allows for every rounding; what is shown along the way does not.
    assert seen[-1].gap <= found.gap == pytest.approx(seen[-1].gap, rel=1e-9)
    np.testing.assert_array_equal(found.trace.iteration, [10, 20, 30])


def test_limits():
    found = minimize_sg(LOSS, ce.CVaR(0.1), domain=Simplex(), batch=20, iterations=10**9, time_limit=0.2)
    assert found.status == "time limit"
    assert 0.2 <= found.seconds < 2.0
    assert minimize_sg(LOSS, ce.CVaR(0.1), domain=Simplex(), iterations=3).status == "iteration limit"


def test_there_is_no_certificate_where_there_is_no_convexity():
    loss = SquaredLoss(A, A[:, 0])
    settings = {"domain": Box(-1.0, 1.0), "batch": "full", "step": 1e-3, "iterations": 20}
    assert minimize_sg(loss, ce.MeanVariance(0.1), **settings).gap is None
    assert minimize_sg(loss, ce.Entropic(0.1), **settings).gap >= 0.0
    assert minimize_sg(LOSS, ce.MeanVariance(0.1), **settings).gap >= 0.0
    unbounded = minimize_sg(loss, ce.Entropic(0.1), **(settings | {"domain": Free()}))
    assert unbounded.gap == np.inf
    assert unbounded.residual > 0.0


def test_progress_is_silent_without_a_terminal_and_shown_on_demand(capsys):
    minimize_sg(LOSS, ce.CVaR(0.1), domain=Simplex(), iterations=20)
    assert capsys.readouterr().err == ""
    minimize_sg(LOSS, ce.CVaR(0.1), domain=Simplex(), iterations=20, progress=True)
    assert "OCE-SG" in capsys.readouterr().err


@pytest.mark.parametrize("regime", ["strongly_convex", "convex", "nonconvex"])
def test_regimes_state_their_promise(regime):
    loss = LogisticLoss(A, np.sign(A[:, 0]))
    found = minimize_sg(loss, ce.Entropic(0.5), domain=Free(), regime=regime, iterations=200, rng=0)
    assert "O(" in found.promise
    assert found.value < Objective(loss, ce.Entropic(0.5)).evaluate(np.zeros(5)).value


@pytest.mark.parametrize(
    "domain, options, says, does_not_say",
    [
        (Ball(2.0), {}, "= O(1/sqrt n)", "iterates stay bounded"),
        (Free(), {}, "as long as the iterates stay bounded", "bounded set"),
        (NonNegative(), {"batch": "full"}, "as long as the iterates stay bounded", "bounded set"),
        (Ball(2.0), {"regime": "nonconvex"}, None, ""),  # theorem 4 has no projection
        (Free(), {"regime": "nonconvex"}, "O(ln n/sqrt n)", "constraint"),
        (Simplex(), {"regime": "strongly_convex", "average": "weighted"}, "norm(mean - theta*) = O(1/n) where", "OCE("),
        (Free(), {"regime": "strongly_convex", "average": "weighted"}, "= 0, as long as the iterates", "away"),
        (Ball(2.0), {"regime": "strongly_convex", "average": "weighted"}, "norm(mean - theta*)^2 = O(1/n)", "iterates"),
        (Free(), {"step": "theory", "regime": "nonconvex"}, "grad OCE(theta_k))^2 <= (2 L", "mapping"),
        (Ball(2.0), {"step": "theory", "regime": "nonconvex"}, "(8 L (OCE(theta_0) - inf) + 10 C2", "grad OCE"),
        (Free(), {"step": "theory", "regime": "convex"}, "O(ln^2 n/sqrt n)", "where"),
        (NonNegative(), {"step": "theory", "regime": "convex"}, "where grad OCE = 0 at the minimizer", "D^2"),
        (Ball(2.0), {"step": "theory", "regime": "convex"}, "D^2", "where"),
        (Ball(2.0), {"step": 0.1, "regime": "convex"}, "D^2", "O("),
        (Free(), {"step": 0.1, "regime": "convex"}, None, ""),  # D is infinite
    ],
)
@pytest.mark.filterwarnings("ignore::certeq.ReliabilityWarning")
def test_a_promise_is_that_of_a_theorem_for_the_feasible_set(domain, options, says, does_not_say):
    loss = LogisticLoss(A, np.sign(A[:, 0]))
    found = minimize_sg(loss, ce.Entropic(0.5), domain=domain, iterations=3, rng=0, **options).promise
    if says is None:
        assert found is None
    else:
        assert says in found
        assert does_not_say not in found


@pytest.mark.filterwarnings("ignore::certeq.ReliabilityWarning")
def test_steps_of_any_length_have_no_promise_without_a_monotone_utility():
    """The bound needs gradients of batches that are means of gradients; mean-variance has negative weights."""
    for utility, promised in ((ce.Entropic(0.5), True), (ce.MeanVariance(1.0), False)):
        found = minimize_sg(LOSS, utility, domain=Simplex(), step=0.1, iterations=3, rng=0)
        assert (found.promise is not None) == promised


@pytest.mark.parametrize("theta0", [-1.0, 0.3])
def test_the_bound_for_the_gradient_mapping_holds_where_steps_are_projected(theta0):
    """The example of theorem 8, -cos(4 (theta - 1/2)) on [-1, 1], without noise, so that C2 = 0."""

    def wave(theta, xi):
        return np.full(len(xi), -np.cos(4.0 * (theta[0] - 0.5))), np.full(
            (len(xi), 1), 4.0 * np.sin(4.0 * (theta[0] - 0.5))
        )

    L, seen = 16.0, []
    loss = CallableLoss(wave, samples=np.zeros((1, 1)), smoothness=L, lipschitz=4.0)
    minimize_sg(
        loss, ce.Mean(), domain=Box(-1.0, 1.0), theta0=[theta0], step="theory", regime="nonconvex", iterations=40,
        log_every=1, callback=lambda at: seen.append(float(at.theta[0])),
    )  # fmt: skip
    points = np.array([theta0, *seen])
    mapping = L * (points - np.clip(points - 4.0 * np.sin(4.0 * (points - 0.5)) / L, -1.0, 1.0))
    least = np.minimum.accumulate(mapping**2)[:-1]
    excess = 1.0 - np.cos(4.0 * (theta0 - 0.5))
    assert (least <= 8.0 * L * excess / np.arange(1, 41)).all()


@pytest.mark.filterwarnings("ignore::certeq.ReliabilityWarning")
def test_regimes_choose_the_steps_of_the_corrected_theory():
    lipschitz = np.linalg.norm(A, axis=1).max()
    spread = np.linalg.norm(A - A.mean(axis=0), axis=1).max()
    settings = {"domain": Simplex(), "iterations": 4, "log_every": 1, "rng": 0, "step": "theory"}
    trace = minimize_sg(LOSS, ce.Entropic(0.5), regime="strongly_convex", **settings).trace
    np.testing.assert_allclose(trace.step, 1 / (0.5 * spread**2), rtol=1e-12)
    np.testing.assert_array_equal(trace.batch, [1, 2, 3, 4])
    trace = minimize_sg(LOSS, ce.CVaR(0.1), regime="convex", **settings).trace
    np.testing.assert_allclose(trace.step, np.sqrt(2) / lipschitz / np.sqrt(np.arange(1, 5)), rtol=1e-12)


def test_schedules_are_pure_functions_with_names():
    for schedule in (
        constant(0.1),
        inverse(0.1),
        inverse(0.1, 10.0),
        inverse_sqrt(0.1),
        growing_batch(3),
        constant_batch(5),
        full_batch(),
    ):
        assert schedule(7) == schedule(7)
        assert schedule == eval(repr(schedule))
        assert hash(schedule) == hash(eval(repr(schedule)))
    assert inverse(1.0) != inverse(2.0)
    assert growing_batch(3)(2) == 4


RUN = {"domain": Simplex(), "iterations": 5}


@pytest.mark.parametrize(
    "change, error, message",
    [
        ({"regime": "convexx"}, ValueError, r"regime must be one of .* found 'convexx'. Did you mean 'convex'\?"),
        ({"average": "lst"}, ValueError, r"Did you mean 'last'\?"),
        ({"batch": "ful"}, ValueError, r"Did you mean 'full'\?"),
        ({"batch": 0}, ValueError, "batch must be a whole number of at least 1; found 0"),
        ({"batch": lambda k: 0}, ValueError, "step and batch must be above 0"),
        ({"step": -1.0}, ValueError, "step must be a finite number above 0"),
        ({"step": "x"}, ValueError, "step must be one of 'adaptive', 'theory'; found 'x'"),
        ({"step": [0.1]}, TypeError, "step must be a finite number above 0"),
        ({"step": lambda k: float("nan")}, ValueError, "step and batch must be above 0"),
        ({"iterations": 0}, ValueError, "iterations must be a whole number of at least 1"),
        ({"iterations": 1.5}, TypeError, "iterations must be a whole number"),
        ({"time_limit": 0}, ValueError, "time_limit must be a number above 0"),
        ({"rng": "seed"}, TypeError, "rng must be a seed"),
        ({"theta0": [1.0, 0.0]}, ValueError, "theta0 must have 5 entries"),
        ({"theta0": [1.0, 1.0, 0.0, 0.0, 0.0]}, ValueError, "theta0 must lie in Simplex"),
        ({"theta0": [1.0, np.nan, 0.0, 0.0, 0.0]}, ValueError, r"theta0 must be finite; found nan at \[1\]"),
        ({"checkpoint_every": 3}, ValueError, "checkpoint_every is given but checkpoint is not"),
        ({"callback": 3}, TypeError, "callback must be callable"),
        ({"domain": Simplex}, TypeError, r"domain must be an instance; write Simplex\(\) rather than Simplex"),
        ({"samples": lambda rng, m: np.zeros((0, 5)), "theta0": np.full(5, 0.2), "step": 1}, ValueError, "empty batch"),
        ({"samples": lambda rng, m: np.zeros((9, 5)), "theta0": np.full(5, 0.2), "step": 1}, ValueError, "returned 9"),
        ({"samples": lambda rng, m: [1], "theta0": np.full(5, 0.2), "step": 1}, TypeError, "sampler returned must"),
        (
            {"samples": lambda rng, m: np.zeros((m, 4)), "theta0": np.full(5, 0.2), "step": 1},
            ValueError,
            r"A must have 5 columns, one per entry of theta; found shape \(1, 4\)\. A sampler .* as long as theta0",
        ),
        (
            {"samples": lambda rng, m: np.zeros(m), "theta0": np.full(5, 0.2), "step": 1},
            ValueError,
            r"what the sampler returned does not do: A must be a matrix, .* found an array of shape \(1,\)",
        ),
        (
            {"samples": iter([np.zeros((1, 5)), np.zeros((1, 4))]), "theta0": np.full(5, 0.2), "step": 1, "batch": 2},
            ValueError,
            r"chunks of the iterator must have rows of one shape; found \(5,\) and then \(4,\)",
        ),
        ({"samples": iter([A[:2]]), "theta0": np.full(5, 0.2), "step": 1}, ValueError, "samples ended after 1 used"),
        ({"samples": iter([A[:0]]), "theta0": np.full(5, 0.2), "step": 1}, ValueError, "gave an empty chunk"),
        ({"samples": iter([A]), "theta0": np.full(5, 0.2), "step": 1, "batch": "full"}, ValueError, "has no last one"),
        ({"samples": iter([A]), "step": 1}, ValueError, "samples is not a fixed set|theta0 is missing"),
        (
            {"samples": iter([A]), "theta0": np.full(5, 0.2), "step": "theory"},
            ValueError,
            "step is missing.*D = 1.41421, M = inf",
        ),
        ({"samples": iter([A]), "weights": np.ones(3)}, ValueError, "weights belong to a fixed set"),
        ({"weights": -np.ones(300)}, ValueError, "weights must not be negative"),
    ],
)
def test_bad_input_is_refused_with_the_reason(change, error, message):
    loss = LinearLoss() if "samples" in change else LOSS
    with pytest.raises(error, match=message):
        minimize_sg(loss, ce.CVaR(0.1), **(RUN | change))


def test_bad_problems_are_refused_with_the_reason():
    with pytest.raises(TypeError, match="loss must be a Loss; found ndarray"):
        minimize_sg(A, ce.CVaR(0.1), domain=Simplex())
    with pytest.raises(TypeError, match=r"utility must be an instance; write CVaR\(\) rather than CVaR"):
        minimize_sg(LOSS, ce.CVaR, domain=Simplex())
    with pytest.raises(ValueError, match="samples is missing"):
        minimize_sg(LinearLoss(), ce.CVaR(0.1), domain=Simplex())
    loss = CallableLoss(lambda t, x: (x @ t, x), samples=A)
    with pytest.raises(ValueError, match="regime='nonconvex' takes 1/L_OCE"):
        minimize_sg(loss, ce.CVaR(0.1), domain=Free(), theta0=np.zeros(5), step="theory")
    with pytest.raises(ValueError, match=r"regime='strongly_convex' takes 1/L_OCE"):
        minimize_sg(LOSS, ce.CVaR(0.1), domain=Simplex(), regime="strongly_convex", step="theory")


def test_a_step_that_is_too_long_is_named():
    loss = SquaredLoss(A, A[:, 0])
    with pytest.raises(ValueError, match=r"at iteration \d+ .*the step is too long"):
        minimize_sg(loss, ce.Mean(), domain=Free(), batch="full", step=1e3, iterations=500, log_every=10**6)


def test_the_result_reads_well():
    found = minimize_sg(LOSS, ce.CVaR(0.1), domain=Simplex(), iterations=20, rng=5)
    text = repr(found)
    for part in ("iteration limit after 20 iterations", "theta", "gap", "seed: 5", "Trace(20 entries"):
        assert part in text
    assert not found.converged


def test_nothing_passed_in_is_changed():
    theta0, rows = np.full(5, 0.2), A.copy()
    minimize_sg(LinearLoss(rows), ce.Entropic(1.0), domain=Simplex(), theta0=theta0, batch="full", iterations=50)
    np.testing.assert_array_equal(theta0, np.full(5, 0.2))
    np.testing.assert_array_equal(rows, A)


def test_an_endless_iterator_may_be_a_cycle():
    found = minimize_sg(
        LinearLoss(), ce.CVaR(0.1), domain=Simplex(), samples=itertools.cycle([A]), theta0=np.full(5, 0.2), batch=300,
        step=inverse_sqrt(0.3), iterations=2000, average="last",
    )  # fmt: skip
    assert ce.oce(A @ found.theta, ce.CVaR(0.1)) == pytest.approx(found.value, abs=1e-3)


@pytest.mark.parametrize("utility", [ce.Entropic(20.0), ce.SmoothCVaR(0.1, tau=0.02), ce.CVaR(0.1), ce.Quartic()])
def test_the_same_bits_wherever_the_samples_lie_in_memory(utility):
    """Some sums of a BLAS depend on how far an array is from a multiple of 32 bytes."""
    samples = np.random.default_rng(5).standard_normal((1001, 4)) * 0.1
    found = set()
    for shift in range(5):
        buffer = np.empty(samples.size + 8)
        moved = buffer[shift : shift + samples.size].reshape(samples.shape)
        moved[:] = samples
        for spoil in range(3):  # what is allocated in between moves what the run allocates
            kept = [np.empty(17 * spoil + 3) for _ in range(spoil)]
            run = ce.minimize(
                ce.LinearLoss(moved), utility, domain=ce.Simplex(), method="sg", batch="full", iterations=60
            )
            found.add(run.theta.tobytes())
            del kept
    assert len(found) == 1


@pytest.mark.parametrize("step", [0.1, 1.0, 1e20])
def test_a_step_far_too_long_still_ends_in_the_simplex(step):
    A = 1e10 * np.random.default_rng(0).normal(size=(9, 3))
    options = {"method": "sg", "batch": "full", "iterations": 5, "average": "last", "rng": 0}
    found = ce.minimize(ce.LinearLoss(A), ce.MeanVariance(1.0), domain=ce.Simplex(), step=step, **options)
    assert found.theta.sum() == pytest.approx(1.0, abs=1e-12)
    assert found.theta.min() >= 0.0


@pytest.mark.parametrize("utility", [ce.SmoothCVaR(0.2), ce.Quartic(), ce.CVaR(0.2), ce.Entropic(1.0)], ids=repr)
def test_a_sampler_that_returns_the_same_array_resumes_to_the_same_bits(tmp_path, utility):
    X = np.random.default_rng(0).normal(size=(40, 4))

    def run(iterations, **more):
        options = {"method": "sg", "batch": 40, "step": 0.3, "rng": 0, "average": "last", "log_every": 10} | more
        return ce.minimize(
            ce.LinearLoss(X), utility, domain=ce.Simplex(), samples=lambda rng, m: X, theta0=np.full(4, 0.25),
            iterations=iterations, **options,
        )  # fmt: skip

    run(20, checkpoint=tmp_path / "half")
    np.testing.assert_array_equal(run(40, checkpoint=tmp_path / "half").theta, run(40).theta)


def test_an_iterator_may_fill_one_array_again_and_again():
    X = np.random.default_rng(1).normal(size=(3000, 3))

    def chunks(again):
        buffer = np.empty((3, 3))
        for i in range(0, len(X), 3):
            buffer[:] = X[i : i + 3]
            yield buffer if again else buffer.copy()

    def run(samples):
        options = {"method": "sg", "batch": 5, "step": 0.1, "iterations": 100, "rng": 0}
        return ce.minimize(
            ce.LinearLoss(X), ce.MeanVariance(1.0), domain=ce.Simplex(), samples=samples, theta0=np.full(3, 1 / 3),
            **options,
        ).theta  # fmt: skip

    np.testing.assert_array_equal(run(chunks(True)), run(chunks(False)))


def test_a_gradient_that_is_none_is_refused_at_once():
    def loss(theta, xi):
        return xi @ theta, np.full((len(xi), 3), np.nan)

    X = np.random.default_rng(1).normal(size=(50, 3))
    options = {"method": "sg", "batch": 10, "step": 0.1, "iterations": 1, "rng": 0, "theta0": np.full(3, 1 / 3)}
    with pytest.raises(ValueError, match="at iteration 1 entry 0 of the gradient is nan"):
        ce.minimize(
            ce.CallableLoss(loss), ce.Entropic(1.0), domain=ce.Simplex(), samples=lambda rng, m: X[:m], **options
        )


@pytest.mark.parametrize(
    "utility",
    [
        ce.CVaR(0.1),
        ce.Entropic(1.0),
        ce.SmoothCVaR(0.1),
        ce.Quartic(),
        ce.MeanVariance(1.0),
        0.5 * ce.Mean() + 0.5 * ce.Entropic(3.0),
        0.5 * ce.CVaR(0.2) + 0.5 * ce.Entropic(3.0),
    ],
    ids=repr,
)
def test_samples_of_weight_0_may_lose_anything(utility):
    rng = np.random.default_rng(0)
    table, weights = rng.normal(size=(50, 3)), np.ones(50)
    table[7], weights[7] = 1e5, 0.0
    settings = {"domain": Simplex(), "batch": "full", "step": 0.01, "iterations": 40}
    found = minimize_sg(LinearLoss(table), utility, weights=weights, **settings)
    without = minimize_sg(LinearLoss(np.delete(table, 7, axis=0)), utility, **settings)
    np.testing.assert_allclose(found.theta, without.theta, atol=1e-12)
    assert found.value == pytest.approx(without.value, rel=1e-12)
    assert found.gap == pytest.approx(without.gap, rel=1e-6)
    assert found.tilt[7] == 0.0

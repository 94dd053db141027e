"""Checkpoints: a resumed run has the bits of one that never stopped, and a kill never leaves half a file."""

import os
import pickle
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import certeq as ce
from certeq.optimize.domains import Box, Simplex
from certeq.optimize.losses import LinearLoss
from certeq.optimize.sg import inverse_sqrt, minimize_sg
from certeq.optimize.sg._checkpoint import Checkpoint, load, save

A = np.random.default_rng(0).normal(size=(200, 4))
LOSS = LinearLoss(A)
UTILITIES = [
    ce.CVaR(0.1),
    ce.Entropic(1.0),
    ce.MeanVariance(0.5),
    ce.MonotoneMeanVariance(2),
    ce.SmoothCVaR(0.1, tau=0.2),
]


class Crash(Exception):
    pass


def crash_at(k):
    def callback(at):
        if at.iteration >= k:
            raise Crash

    return callback


def chunks():
    rng = np.random.default_rng(9)
    while True:
        yield rng.normal(size=(rng.integers(1, 30), 4))


KINDS = {
    "full": {"batch": "full", "step": 0.01},
    "drawn": {"batch": 16, "step": inverse_sqrt(0.1), "rng": 3},
    "without": {"batch": "growing", "step": 0.05, "rng": 3, "replace": False, "average": "weighted"},
    "weighted": {"batch": 16, "step": 0.05, "rng": 3, "weights": np.arange(1.0, 201.0), "average": "mean"},
    "sampler": {"samples": lambda rng, m: rng.normal(size=(m, 4)), "batch": 10, "step": 0.05, "rng": 4},
    "iterator": {"batch": 25, "step": 0.05, "average": "mean"},
}


@pytest.mark.parametrize("utility", UTILITIES, ids=repr)
@pytest.mark.parametrize("kind", KINDS)
def test_a_resumed_run_has_the_same_bits(tmp_path, kind, utility):
    def run(**more):
        settings = KINDS[kind] | ({"samples": chunks()} if kind == "iterator" else {})
        loss = LinearLoss() if "samples" in settings else LOSS
        settings = {"theta0": np.full(4, 0.25), "domain": Simplex(), "iterations": 120, "log_every": 5} | settings
        return minimize_sg(loss, utility, **(settings | more))

    whole = run()
    path = tmp_path / "run.npz"
    for k in (37, 80):  # two crashes, the first between checkpoints
        with pytest.raises(Crash):
            run(checkpoint=path, checkpoint_every=9, callback=crash_at(k))
    resumed = run(checkpoint=path, checkpoint_every=9)
    assert resumed.theta.tobytes() == whole.theta.tobytes()
    assert resumed.value == whole.value
    assert resumed.iterations == 120
    for column in ("iteration", "value", "gap", "step", "batch"):
        np.testing.assert_array_equal(getattr(resumed.trace, column), getattr(whole.trace, column))


def test_the_same_call_again_gives_the_same_result_at_once(tmp_path):
    settings = {"domain": Simplex(), "batch": 8, "iterations": 50, "checkpoint": tmp_path / "run.npz"}
    first = minimize_sg(LOSS, ce.CVaR(0.1), rng=1, **settings)
    again = minimize_sg(LOSS, ce.CVaR(0.1), rng=1, callback=crash_at(0), **settings)
    assert again.theta.tobytes() == first.theta.tobytes()
    assert again.seconds == first.seconds


def test_a_finished_run_can_be_continued(tmp_path):
    settings = {"domain": Simplex(), "batch": 8, "rng": 1}
    whole = minimize_sg(LOSS, ce.Entropic(1.0), iterations=80, **settings)
    minimize_sg(LOSS, ce.Entropic(1.0), iterations=50, checkpoint=tmp_path / "run.npz", **settings)
    more = minimize_sg(LOSS, ce.Entropic(1.0), iterations=80, checkpoint=tmp_path / "run.npz", **settings)
    assert more.theta.tobytes() == whole.theta.tobytes()


def test_an_unseeded_run_keeps_its_seed(tmp_path):
    settings = {"domain": Simplex(), "batch": 8, "iterations": 40, "log_every": 4, "checkpoint": tmp_path / "run.npz"}
    with pytest.raises(Crash):
        minimize_sg(LOSS, ce.CVaR(0.1), callback=crash_at(20), **settings)
    resumed = minimize_sg(LOSS, ce.CVaR(0.1), **settings)
    whole = minimize_sg(LOSS, ce.CVaR(0.1), **(settings | {"rng": resumed.seed, "checkpoint": None}))
    assert whole.theta.tobytes() == resumed.theta.tobytes()


@pytest.mark.parametrize(
    "field, change",
    [
        ("utility", {"utility": ce.CVaR(0.2)}),
        ("domain", {"domain": Box(0.0, 1.0)}),
        ("samples", {"samples": A + 1e-16 * (np.arange(800).reshape(200, 4) == 5) + 1e-9}),
        ("theta0", {"theta0": np.array([1.0, 0.0, 0.0, 0.0])}),
        ("step", {"step": 0.02}),
        ("batch", {"batch": 9}),
        ("average", {"average": "last"}),
        ("seed", {"rng": 2}),
        ("replace", {"replace": False}),
        ("weights", {"weights": np.arange(1.0, 201.0)}),
    ],
)
def test_a_checkpoint_of_another_problem_is_refused_and_says_what_differs(tmp_path, field, change):
    settings = {
        "utility": ce.CVaR(0.1), "domain": Simplex(), "batch": 8, "step": 0.01, "rng": 1, "iterations": 5,
        "checkpoint": tmp_path / "run.npz",
    }  # fmt: skip
    minimize_sg(LOSS, **settings)
    with pytest.raises(ValueError, match=rf"different problem: .*\b{field}: "):
        minimize_sg(LOSS, **(settings | change))
    fresh = minimize_sg(LOSS, **(settings | change), resume=False)
    assert fresh.iterations == 5


def test_another_kind_of_generator_is_refused(tmp_path):
    settings = {"domain": Simplex(), "batch": 8, "iterations": 5, "checkpoint": tmp_path / "run.npz"}
    minimize_sg(LOSS, ce.CVaR(0.1), rng=np.random.Generator(np.random.MT19937(0)), **settings)
    minimize_sg(LOSS, ce.CVaR(0.1), rng=np.random.Generator(np.random.MT19937(0)), **(settings | {"iterations": 9}))
    with pytest.raises(ValueError, match="rng must be of the kind the checkpoint was made with, MT19937"):
        minimize_sg(LOSS, ce.CVaR(0.1), rng=np.random.default_rng(0), **settings)


def test_a_file_that_is_not_a_checkpoint_is_refused(tmp_path):
    for content in (b"", b"not a zip", pickle.dumps({"a": 1})):
        (tmp_path / "run.npz").write_bytes(content)
        with pytest.raises(ValueError, match="is not a whole checkpoint file"):
            load(tmp_path / "run.npz")
    np.savez(tmp_path / "run.npz", theta=np.zeros(3))
    with pytest.raises(ValueError, match="is not a whole checkpoint file"):
        load(tmp_path / "run.npz")


def test_nothing_is_pickled(tmp_path):
    path = tmp_path / "run.npz"
    save(path, Checkpoint({"loss": ("x", "x")}, {"iteration": 3}, {"theta": np.arange(3.0)}))
    with np.load(path, allow_pickle=False) as file:
        assert all(file[name].dtype != object for name in file.files)
    with pytest.raises(ValueError, match="bject"):
        save(path, Checkpoint({}, {}, {"theta": np.array([object()])}))
    assert load(path).values == {"iteration": 3}  # the failed save left the old one in place


# One child imports everything once; its own children are killed at random moments and the file is read each time.
SCRIPT = textwrap.dedent(
    """
    import os, random, signal, sys, time
    import numpy as np, certeq as ce
    from certeq.optimize.domains import Simplex
    from certeq.optimize.losses import LinearLoss
    from certeq.optimize.sg import minimize_sg
    from certeq.optimize.sg._checkpoint import load

    path, kills = sys.argv[1], int(sys.argv[2])
    loss = LinearLoss(np.random.default_rng(0).normal(size=(400, 4)))

    def run(iterations, checkpoint):
        return minimize_sg(
            loss, ce.Entropic(1.0), domain=Simplex(), batch=50, step=1e-3, average="last", rng=7,
            iterations=iterations, log_every=10**6, checkpoint=checkpoint,
            checkpoint_every=None if checkpoint is None else 1,
        )

    def reached():
        return load(path).values["iteration"] if os.path.exists(path) else 0

    random.seed(123)
    before = 0
    for _ in range(kills):
        child = os.fork()
        if child == 0:
            run(10**7, path)
            os._exit(0)
        deadline = time.monotonic() + 60
        while reached() == before:
            assert time.monotonic() < deadline
            time.sleep(0.001)
        time.sleep(random.uniform(0.0, 0.02))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        now = reached()
        assert now > before, (now, before)
        before = now
    assert run(before + 20, path).theta.tobytes() == run(before + 20, None).theta.tobytes()
    print("whole", before)
    """
)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL")
def test_a_kill_at_any_moment_leaves_a_whole_checkpoint(tmp_path):
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, os.fspath(tmp_path / "run.npz"), "40"],
        env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("whole")


@pytest.mark.parametrize("utility", [ce.CVaR(0.1), ce.CVaR(0.05), ce.Entropic(5.0), ce.SmoothCVaR(0.1), ce.Quartic()])
@pytest.mark.parametrize("average", ["last", "mean"])
def test_a_full_batch_run_resumes_to_the_same_bits(utility, average, tmp_path):
    samples = np.random.default_rng(0).standard_normal((300, 5)) * [1, 2, 3, 1, 1]
    settings = {"domain": ce.Simplex(), "method": "sg", "batch": "full", "average": average, "rng": 7}
    whole = ce.minimize(ce.LinearLoss(samples), utility, iterations=200, **settings)

    def stop(at):
        return np.bool_(at.iteration >= 61)

    place = {"checkpoint": tmp_path / "run.npz", "checkpoint_every": 7}
    first = ce.minimize(
        ce.LinearLoss(samples), utility, iterations=200, callback=stop, log_every=1, **place, **settings
    )
    assert first.status == "stopped by callback"
    assert first.iterations == 61
    second = ce.minimize(ce.LinearLoss(samples), utility, iterations=200, **place, **settings)
    assert second.iterations == 200
    assert second.theta.tobytes() == whole.theta.tobytes()

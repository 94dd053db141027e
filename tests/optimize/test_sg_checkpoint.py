"""Checkpoints: a resumed run has the bits of one that never stopped, and a kill never leaves half a file."""

import copy
import errno
import functools
import io
import itertools
import json
import os
import pickle
import random
import subprocess
import sys
import textwrap
import threading
import zipfile

import numpy as np
import pytest

import certeq as ce
from certeq.optimize.domains import Box, Simplex
from certeq.optimize.losses import CallableLoss, LinearLoss
from certeq.optimize.sg import inverse_sqrt, minimize_sg
from certeq.optimize.sg._checkpoint import Checkpoint, load, save
from certeq.risk._compiled import AVAILABLE

pytestmark = pytest.mark.filterwarnings("ignore::certeq.ReliabilityWarning")  # batches are tiny to be quick

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
    "grown": {"batch": lambda k: 5 * k, "step": 0.01, "rng": 3, "weights": np.arange(1.0, 201.0)},  # to the full sample
    "sampler": {"samples": lambda rng, m: rng.normal(size=(m, 4)), "batch": 10, "step": 0.05, "rng": 4},
    "iterator": {"batch": 25, "step": 0.05, "average": "mean"},
    "accelerated": {"batch": "full"},
    "corrected": {"batch": 16, "rng": 3, "weights": np.arange(1.0, 201.0)},
    "distances": {"batch": 16, "rng": 3, "average": "mean"},
    "nonconvex": {"batch": 16, "rng": 3, "regime": "nonconvex"},
    "stream": {"samples": lambda rng, m: rng.normal(size=(m, 4)), "rng": 4},
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
    assert load(path).values == {"iteration": 3}  # the failed save left the old one in path


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

    saved = {"checkpoint": tmp_path / "run.npz", "checkpoint_every": 7}
    first = ce.minimize(
        ce.LinearLoss(samples), utility, iterations=200, callback=stop, log_every=1, **saved, **settings
    )
    assert first.status == "stopped by callback"
    assert first.iterations == 61
    second = ce.minimize(ce.LinearLoss(samples), utility, iterations=200, **saved, **settings)
    assert second.iterations == 200
    assert second.theta.tobytes() == whole.theta.tobytes()


# -- functions are known by their answers ------------------------------------------------------------------------------


def linear(theta, xi):
    return xi @ theta, xi


def curved(scale=1.0):
    return ce.utility(lambda x: np.expm1(scale * x) / scale, name="mine")


def run_with(path, **change):
    settings = {
        "loss": CallableLoss(linear), "utility": ce.CVaR(0.1), "samples": A, "domain": Simplex(), "batch": 8,
        "step": 0.01, "rng": 1, "iterations": 20, "theta0": np.full(4, 0.25), "checkpoint": path,
        "checkpoint_every": None if path is None else 20,
    } | change  # fmt: skip
    return minimize_sg(settings.pop("loss"), settings.pop("utility"), **settings)


class Sampler:
    """A sampler with a parameter and a count of its calls."""

    def __init__(self, shift):
        self.shift, self.calls = shift, 0

    def __call__(self, rng, m):
        self.calls += 1
        return rng.normal(size=(m, 4)) + self.shift


class Shrunk(Box):
    """Half as large as it says."""

    def _project(self, x):
        return 0.5 * super()._project(x)


def table(steps):
    return lambda k: steps[k - 1]


@pytest.mark.parametrize(
    "part, first, other",
    [
        ("loss", {"loss": CallableLoss(lambda t, z: (z @ t, z))}, {"loss": CallableLoss(lambda t, z: (-(z @ t), -z))}),
        ("loss", {"loss": CallableLoss(lambda t, z: (z @ t, z))}, {"loss": CallableLoss(lambda t, z: (z @ t, 2 * z))}),
        (
            "loss",
            {"loss": CallableLoss(functools.partial(lambda c, t, z: (c * (z @ t), c * z), 1.0))},
            {"loss": CallableLoss(functools.partial(lambda c, t, z: (c * (z @ t), c * z), 1.001))},
        ),
        ("utility", {"utility": curved()}, {"utility": curved(1.001)}),
        ("utility", {"utility": curved().scaled(2.0)}, {"utility": curved(1.001).scaled(2.0)}),
        ("utility", {"utility": ce.Entropic(1.0)}, {"utility": ce.Entropic(1.0 + 1e-13)}),
        (
            "utility",
            {"utility": ce.utility(lambda x: np.maximum(2 * x, 0.5 * x))},
            {"utility": ce.utility(lambda x: np.maximum(2 * x, 0.5001 * x))},
        ),
        ("samples", {"samples": lambda rng, m: rng.random((m, 4))}, {"samples": lambda rng, m: -rng.random((m, 4))}),
        ("samples", {"samples": Sampler(0.0)}, {"samples": Sampler(1e-6)}),
        ("samples", {"samples": itertools.repeat(A)}, {"samples": itertools.repeat(A + 1e-6)}),
        (
            "loss",
            {"samples": itertools.repeat(A)},
            {"samples": itertools.repeat(A), "loss": CallableLoss(lambda t, z: (-(z @ t), -z))},
        ),
        ("step", {"step": lambda k: 0.01 / k}, {"step": lambda k: 0.01 / k**1.001}),
        ("step", {"step": table([0.1] * 20)}, {"step": table([0.1] * 19 + [0.2])}),
        # Between the iterations that are asked about, the trace knows.
        ("step", {"step": lambda k: 0.1, "iterations": 60}, {"step": lambda k: 0.1 + (k == 55), "iterations": 60}),
        ("batch", {"batch": lambda k: 8}, {"batch": lambda k: 8 + (k > 10)}),
        ("domain", {"domain": Box(0.0, 1.0)}, {"domain": Shrunk(0.0, 1.0)}),
        (
            "domain",
            {"domain": ce.optimize.domains.Product((Simplex(0.5), Box([0.0, 0.0], [0.5, 0.5])), (2, 2))},
            {"domain": ce.optimize.domains.Product((Simplex(0.5), Box([0.0, 0.0], [0.5, 0.6])), (2, 2))},
        ),
    ],
)  # fmt: skip
def test_functions_are_told_apart_by_what_they_answer(tmp_path, part, first, other):
    path = tmp_path / "run.npz"
    done = run_with(path, **first)
    stream = {"samples": itertools.repeat(A)} if hasattr(first.get("samples"), "__next__") else {}  # from its beginning
    again = run_with(path, **(first | stream))
    assert again.theta.tobytes() == done.theta.tobytes()
    with pytest.raises(ValueError, match=rf"run.npz' belongs to a different problem: (.*; )?{part}: .* in the file, "):
        run_with(path, **other)


def test_what_is_the_same_function_by_another_name_is_accepted(tmp_path):
    path = tmp_path / "run.npz"
    run_with(path, step=0.01)
    run_with(path, step=lambda k: 0.01, loss=CallableLoss(lambda theta, xi: (theta @ xi.T, xi)), iterations=25)
    run_with(path, loss=CallableLoss(functools.partial(linear)), iterations=30)
    # Last digits differ between machines, and with the order of a sum.
    assert run_with(path, loss=CallableLoss(lambda t, z: ((1 + 1e-13) * (z @ t), z)), iterations=35).iterations == 35


def test_a_table_of_steps_may_grow(tmp_path):
    path = tmp_path / "run.npz"
    run_with(path, step=table([0.1] * 20))
    assert run_with(path, step=table([0.1] * 40), iterations=40).iterations == 40


def test_a_difference_is_shown_with_both_numbers(tmp_path):
    path = tmp_path / "run.npz"
    run_with(path, step=lambda k: 0.5)
    with pytest.raises(ValueError, match=r"step: .*<lambda>.* now: iteration 1 is 0.5 in the file, 0.25 now"):
        run_with(path, step=lambda k: 0.25)


own = np.random.default_rng(5)
calls = 0


def with_own_generator(rng, m):
    global calls
    calls += 1
    return own.normal(size=(m, 4))


def test_asking_leaves_no_trace(tmp_path):
    """A run with a checkpoint has the bits of one without, whatever generators and counters its functions use."""
    counted, noise, kept = Sampler(0.5), np.random.default_rng(2), []

    def noisy(theta, xi):
        kept.append(len(xi))
        return xi @ theta + noise.normal(size=len(xi)) * np.random.random() + random.random(), xi  # noqa: NPY002

    def run(samples, **more):
        global calls
        counted.calls = calls = 0
        kept.clear()
        np.random.seed(3)  # noqa: NPY002
        random.seed(3)
        own.bit_generator.state = noise.bit_generator.state = np.random.default_rng(7).bit_generator.state
        found = run_with(more.pop("checkpoint", None), samples=samples, loss=CallableLoss(noisy), **more)
        return found.theta.tobytes(), counted.calls, calls, list(kept), np.random.random(), random.random()  # noqa: NPY002

    for i, samples in enumerate((A, counted, with_own_generator)):
        assert run(samples, checkpoint=tmp_path / f"{i}.npz") == run(samples)


def test_what_has_a_state_of_its_own_is_known_by_its_name(tmp_path):
    stream = iter(np.random.default_rng(0).normal(size=(10**4, 1, 4)))

    def reading(rng, m):
        return np.concatenate([next(stream) for _ in range(m)])

    def other(rng, m):
        return reading(rng, m)

    for i, (sampler, another) in enumerate(((with_own_generator, Sampler(0.0)), (reading, other))):
        path = tmp_path / f"{i}.npz"
        run_with(path, samples=sampler)
        assert run_with(path, samples=sampler, iterations=25).iterations == 25
        with pytest.raises(ValueError, match="samples: sampler "):
            run_with(path, samples=another)
    assert len(list(stream)) == 10**4 - 8 * 25  # nothing was read but what the runs used


@pytest.mark.parametrize("batch", ["full", 16])
@pytest.mark.parametrize("compiled_first", [True, False])
@pytest.mark.parametrize("utility", [ce.SmoothCVaR(0.1), ce.LeakyCVaR(0.1), ce.MonotoneMeanVariance(2), ce.Quartic()])
def test_builds_with_and_without_the_compiled_file_read_each_other(
    tmp_path, monkeypatch, utility, compiled_first, batch
):
    if not AVAILABLE:
        pytest.skip("there is no compiled file")
    settings = {"loss": LOSS, "batch": batch, "samples": None, "step": 1e-3}
    whole = run_with(None, iterations=60, utility=utility, **settings)
    for i, compiled in enumerate((compiled_first, not compiled_first)):
        with monkeypatch.context() as build:
            if not compiled:
                build.setattr("certeq.risk._compiled._fused", None)
            fresh = copy.deepcopy(utility)  # which remembers nothing of what was compiled
            half = run_with(tmp_path / "run.npz", iterations=30 * (i + 1), utility=fresh, **settings)
    assert half.iterations == 60
    np.testing.assert_allclose(half.theta, whole.theta, rtol=0, atol=1e-11)


# -- damaged and hostile files -----------------------------------------------------------------------------------------

SAMPLED = {"loss": LOSS, "samples": None, "utility": ce.SmoothCVaR(0.1), "batch": "full", "step": 1e-3}


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    path = tmp_path_factory.mktemp("good") / "run.npz"
    return run_with(path, **SAMPLED).theta.tobytes(), path.read_bytes()


def resumes(path, content):
    """Whether a file is accepted; if it is not, by the one refusal that names it."""
    path.write_bytes(content)
    refused = ""
    try:
        found = run_with(path, iterations=20, **SAMPLED)
    except ValueError as error:
        refused = str(error)
    if not refused:
        return found.theta.tobytes()
    assert refused.startswith(f"checkpoint {os.fspath(path)!r} ")
    assert "is not a whole checkpoint file" in refused or "has format" in refused or "different problem" in refused
    return None


def members(content):
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {info.filename: archive.read(info) for info in archive.infolist()}


def packed(parts, how=zipfile.ZIP_STORED):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", how) as archive:
        for name, part in parts.items():
            archive.writestr(name, part)
    return file.getvalue()


def npy(array, **options):
    file = io.BytesIO()
    np.save(file, array, **options)
    return file.getvalue()


def with_header(content, change):
    parts = members(content)
    header = json.loads(np.load(io.BytesIO(parts["header.npy"])).tobytes())
    change(header)
    return packed(parts | {"header.npy": npy(np.frombuffer(json.dumps(header).encode(), np.uint8))})


def put(part, name, value, header):
    (header if part is None else header[part])[name] = value


def with_array(content, name, array):
    """A file in which an array was changed by somebody who knows the format."""
    from certeq.optimize.sg._checkpoint import _hash

    parts = members(content) | {f"{name}.npy": npy(array)}
    return with_header(packed(parts), lambda header: header["arrays"].update({name: _hash(array)}))


def test_no_truncation_and_no_flipped_bit_is_believed(tmp_path, good):
    theta, content = good
    assert resumes(tmp_path / "run.npz", content) == theta
    rng = np.random.default_rng(0)
    for cut in {*range(0, 64), *rng.integers(0, len(content), 60).tolist()}:
        assert resumes(tmp_path / "run.npz", content[:cut]) is None
    for bit in rng.integers(0, 8 * len(content), 250):
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << (bit % 8)
        assert resumes(tmp_path / "run.npz", bytes(damaged)) in (None, theta)  # dates and the like carry nothing
    for length in (1, 10, 300):
        for _ in range(20):
            damaged = bytearray(content)
            at = int(rng.integers(0, len(content) - length))
            damaged[at : at + length] = rng.bytes(length)
            assert resumes(tmp_path / "run.npz", bytes(damaged)) in (None, theta)


def test_members_swapped_missing_and_added(tmp_path, good):
    _, content = good
    parts = members(content)
    path = tmp_path / "run.npz"
    for a, b in itertools.combinations(parts, 2):
        assert resumes(path, packed(parts | {a: parts[b], b: parts[a]})) is None
    for name in parts:
        assert resumes(path, packed({key: part for key, part in parts.items() if key != name})) is None
    assert resumes(path, packed(parts | {"more.npy": npy(np.zeros(3))})) is None
    assert resumes(path, packed(parts | {"more": b"text"})) is None
    run_with(tmp_path / "other.npz", **(SAMPLED | {"rng": 2, "iterations": 19}))
    other = members((tmp_path / "other.npz").read_bytes())
    for name in set(parts) - {"answers.npy", "reached.npy"}:  # those are the same
        assert resumes(path, packed(parts | {name: other[name]})) is None


@pytest.mark.parametrize("value", [-5, 0, float("nan"), 10**18, 1e18, 2.5, True, None, "7", [], {}, 10**400])
def test_hostile_values_are_refused(tmp_path, good, value):
    _, content = good
    length = not isinstance(value, bool) and isinstance(value, (int, float)) and 0 <= value <= 1e300
    seed = value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 0)
    possible = {"seconds": length, "weight": length, "seed": seed}
    for name in ("iteration", "seconds", "status", "seed", "weight", "source", "answers"):
        if possible.get(name):
            continue
        damaged = with_header(content, functools.partial(put, "values", name, value))
        assert resumes(tmp_path / "run.npz", damaged) is None, name
    for name in ("version", "problem", "values", "arrays"):
        damaged = with_header(content, functools.partial(put, None, name, value))
        assert resumes(tmp_path / "run.npz", damaged) is None, name


def test_hostile_headers_and_generators(tmp_path, good):
    _, content = good
    path = tmp_path / "run.npz"
    parts = members(content)
    for text in (b"", b"[]", b"3", b"{", b"[" * 100_000, b"\xff\xfe", b'{"version": 2}', b'{"version": 1}', b"null"):
        assert resumes(path, packed(parts | {"header.npy": npy(np.frombuffer(text, np.uint8))})) is None
    for state in (
        None,
        3,
        {},
        {"bit_generator": 3},
        {"bit_generator": "PCG64"},
        {"bit_generator": "PCG64", "state": 1},
    ):
        assert resumes(path, with_header(content, lambda header: header["values"]["source"].update(rng=state))) is None  # noqa: B023
    path = tmp_path / "twister.npz"
    run_with(path, **(SAMPLED | {"rng": np.random.Generator(np.random.MT19937(0))}))
    for position in (-1, 625, 10**6, 1.5, True):

        def move(header, position=position):
            header["values"]["source"]["rng"]["state"]["pos"] = position

        (tmp_path / "moved.npz").write_bytes(with_header(path.read_bytes(), move))
        fresh = np.random.Generator(np.random.MT19937(3))
        with pytest.raises(ValueError, match="the state of its generator is damaged"):
            run_with(tmp_path / "moved.npz", **(SAMPLED | {"rng": fresh, "iterations": 30}))
        assert fresh.random() == np.random.Generator(np.random.MT19937(3)).random()  # as it was


def test_hostile_arrays(tmp_path, good):
    _, content = good
    path = tmp_path / "run.npz"
    trace = np.load(io.BytesIO(members(content)["trace.npy"]))
    disorder, ahead, infinite = trace[::-1].copy(), trace.copy(), trace.copy()
    ahead[-1, 0], infinite[0, 3] = 10**6, np.inf
    hostile = {
        "theta": [np.zeros(3), np.zeros((4, 1)), np.full(4, np.nan), np.zeros(0), np.full(4, np.inf)],
        "mean": [np.full(4, -np.inf), np.zeros(5)],
        "trace": [disorder, ahead, infinite, np.zeros((3, 5)), np.zeros(6), np.full((1, 6), np.nan)],
        "tilt.curvature": [np.zeros(199), np.zeros(0)],
        "tilt.numbers": [np.zeros(4), np.zeros(0), np.zeros((5, 1))],
        "answers": [np.zeros(3), np.zeros((1, 1))],
    }
    for name, arrays in hostile.items():
        for array in arrays:
            assert resumes(path, with_array(content, name, array)) is None, (name, array)
    parts = members(content)
    for array in (
        np.zeros(4, np.float32),
        np.zeros(4, np.int64),
        np.zeros(4, "c16"),
        np.zeros(4, "U5"),
        np.zeros(4, ">f8"),
    ):
        assert resumes(path, packed(parts | {"theta.npy": npy(array)})) is None
    assert resumes(path, packed(parts | {"theta.npy": npy(np.array([{}] * 4), allow_pickle=True)})) is None
    lying = npy(np.zeros(4)).replace(b"(4,)", b"(9,)").replace(b"(9,), }   ", b"(9**9,), }")
    for bytes_of in (lying, lying.replace(b"(9", b"(-"), b"", npy(np.zeros(4))[:-1], npy(np.zeros(4)) + b"x"):
        assert resumes(path, packed(parts | {"theta.npy": bytes_of})) is None


def test_a_small_file_cannot_fill_the_memory(tmp_path, good):
    _, content = good
    parts = members(content)
    path = tmp_path / "run.npz"
    bomb = npy(np.zeros(2 << 20))
    for name in parts:
        assert resumes(path, packed(parts | {name: bomb}, zipfile.ZIP_DEFLATED)) is None
        assert resumes(path, packed(parts | {name: bomb})) is None  # nor is a large one read that no run has written
    promise = npy(np.zeros(4)).replace(b"(4,), }            ", b"(4000000000000,), }")
    assert b"4000000000000" in promise
    assert resumes(path, packed(parts | {"theta.npy": promise})) is None


def test_a_file_of_the_old_format_is_refused(tmp_path):
    header = {"version": 1, "problem": {"loss": "LinearLoss()"}, "values": {"iteration": 3}}
    np.savez(tmp_path / "run.npz", header=np.frombuffer(json.dumps(header).encode(), np.uint8), theta=np.zeros(4))
    with pytest.raises(ValueError, match=r"run.npz' has format 1; this version of certeq reads format 5. Delete it"):
        run_with(tmp_path / "run.npz")


# -- paths -------------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_what_is_no_file_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, "/dev/zero", "/dev/null"):
        for resume in (True, False):
            with pytest.raises(ValueError, match="is not a file"):
                run_with(path, resume=resume)
        if path != tmp_path:  # which the system itself does not open
            with pytest.raises(ValueError, match="is not a file"):
                load(path)
    with pytest.raises(TypeError, match="checkpoint must be a path; found 3"):
        run_with(3)


def test_a_place_that_cannot_be_written_is_found_before_the_work(tmp_path):
    def sampler(rng, m):
        raise AssertionError("the work has begun")

    with pytest.raises(FileNotFoundError, match=r"no/run.npz"):
        run_with(tmp_path / "no" / "run.npz", samples=sampler)
    if os.path.isdir("/proc/self"):  # where nobody can make a file
        with pytest.raises(OSError, match=r"/proc/run.npz"):
            run_with("/proc/run.npz", samples=sampler)


def test_a_finished_run_is_read_from_where_nothing_can_be_written(tmp_path, monkeypatch):
    done = run_with(tmp_path / "run.npz")

    def read_only(path):
        raise PermissionError(errno.EACCES, "read only", path)

    monkeypatch.setattr("certeq.optimize.sg._checkpoint.check_folder", read_only)
    assert run_with(tmp_path / "run.npz").theta.tobytes() == done.theta.tobytes()
    with pytest.raises(PermissionError, match=r"run.npz"):
        run_with(tmp_path / "run.npz", iterations=30)


def test_a_full_disk_keeps_the_earlier_file_and_names_it(tmp_path):
    resource = pytest.importorskip("resource")
    path = tmp_path / "run.npz"
    run_with(path)
    before, limits = path.read_bytes(), resource.getrlimit(resource.RLIMIT_FSIZE)
    large = Checkpoint({}, {}, {"theta": np.zeros(1 << 20)})
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, limits[1]))
    try:
        with pytest.raises(OSError, match="run.npz") as caught:
            save(path, large)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert caught.value.errno == errno.EFBIG
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["run.npz"]


@pytest.mark.parametrize("where", ["os.fsync", "os.replace", "numpy.lib.format.write_array"])
def test_ctrl_c_in_the_middle_leaves_the_earlier_file(tmp_path, monkeypatch, where):
    path = tmp_path / "run.npz"
    run_with(path)
    before = path.read_bytes()

    def interrupt(*arguments, **options):
        raise KeyboardInterrupt

    with monkeypatch.context() as moment:
        moment.setattr(where, interrupt)
        with pytest.raises(KeyboardInterrupt):
            run_with(path, iterations=40)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["run.npz"]
    assert run_with(path, iterations=40).theta.tobytes() == run_with(None, iterations=40).theta.tobytes()


def test_links_in_the_way_are_not_followed_by_drafts(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / "run.npz.tmp").symlink_to(victim)
    run_with(tmp_path / "run.npz")
    assert victim.read_text() == "mine"
    assert sorted(os.listdir(tmp_path)) == ["run.npz", "run.npz.tmp", "victim"]


def test_a_link_stays_and_what_it_points_to_is_replaced(tmp_path):
    (tmp_path / "there").mkdir()
    link, target = tmp_path / "run.npz", tmp_path / "there" / "kept.npz"
    link.symlink_to(target)
    run_with(link)  # which points to nothing yet
    assert link.is_symlink()
    first = target.read_bytes()
    assert run_with(link, iterations=30).iterations == 30
    assert link.is_symlink()
    assert target.read_bytes() != first
    assert os.listdir(tmp_path / "there") == ["kept.npz"]


def test_several_writers_of_one_file(tmp_path):
    """Each file is that of one of them, whole."""
    path, faults = tmp_path / "run.npz", []

    def work(number):
        try:
            for _ in range(30):
                save(path, Checkpoint({}, {"number": number}, {"theta": np.full(500, float(number))}))
                seen = load(path)
                assert (seen.arrays["theta"] == seen.values["number"]).all()
        except BaseException as error:
            faults.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults
    assert os.listdir(tmp_path) == ["run.npz"]


def test_a_long_name_leaves_space_for_its_draft(tmp_path):
    path = tmp_path / ("n" * 251 + ".npz")
    run_with(path)
    assert path.is_file()


def late(cost, probability=0.01):
    """A sampler whose parameter shows in few of its samples."""

    def draw(rng, m):
        late = rng.random((m, 2)) < [0.1, probability]
        return [10.0, 12.0] + np.where(late, rng.exponential(cost, (m, 2)), 0.0)

    return draw


@pytest.mark.parametrize("batch, other", [(256, late(2.0)), (32, late(2.0)), (256, late(20.0, 0.02))])
def test_a_sampler_that_differs_in_few_samples_is_refused(tmp_path, batch, other):
    settings = {"domain": ce.Simplex(), "theta0": [0.5, 0.5], "iterations": 300, "batch": batch, "rng": 0}
    settings["checkpoint"] = tmp_path / "run.npz"
    first = ce.minimize(ce.LinearLoss(), ce.CVaR(0.1), samples=late(20.0), **settings)
    again = ce.minimize(ce.LinearLoss(), ce.CVaR(0.1), samples=late(20.0), **settings)
    assert np.array_equal(first.theta, again.theta)
    with pytest.raises(ValueError, match="belongs to a different problem: samples"):
        ce.minimize(ce.LinearLoss(), ce.CVaR(0.1), samples=other, **settings)


@pytest.mark.parametrize("average", ["last", "mean"])
@pytest.mark.parametrize("start", [0.3, 0.5, 0.9])
def test_a_loss_that_differs_only_far_from_the_start_is_refused(tmp_path, start, average):
    samples = np.random.default_rng(0).normal(size=(200, 4)) + [-1.0, 0.0, 0.5, 0.5]

    def penalized(price):
        def function(theta, z):
            over = max(theta[0] - start, 0.0)
            return z @ theta + price * over**2, z + 2.0 * price * over * np.eye(4)[0]

        return ce.CallableLoss(function, samples=samples, convex=True)

    settings = {"domain": ce.Simplex(), "theta0": np.full(4, 0.25), "iterations": 300, "batch": 32, "rng": 0}
    settings |= {"method": "sg", "checkpoint": tmp_path / "run.npz", "average": average}
    first = ce.minimize(penalized(0.0), ce.Entropic(1.0), **settings)
    assert first.theta[0] > start
    assert np.array_equal(ce.minimize(penalized(0.0), ce.Entropic(1.0), **settings).theta, first.theta)
    with pytest.raises(ValueError, match="different problem: loss: .* at (theta of the checkpoint|its average|probe)"):
        ce.minimize(penalized(20.0), ce.Entropic(1.0), **settings)


def test_another_start_is_named_and_nothing_else(tmp_path):
    samples = np.random.default_rng(0).normal(size=(200, 3))
    settings = {"domain": ce.Simplex(), "iterations": 20, "batch": 32, "rng": 0, "method": "sg"}
    settings["checkpoint"] = tmp_path / "run.npz"
    ce.minimize(ce.LinearLoss(samples), ce.CVaR(0.1), theta0=[0.2, 0.3, 0.5], **settings)
    with pytest.raises(ValueError, match="a different problem: theta0: ") as caught:
        ce.minimize(ce.LinearLoss(samples), ce.CVaR(0.1), theta0=[0.5, 0.3, 0.2], **settings)
    assert "domain" not in str(caught.value)


def test_another_rule_for_steps_is_named(tmp_path):
    rng = np.random.default_rng(0)
    loss = ce.SquaredLoss(rng.normal(size=(400, 3)), rng.normal(size=400))
    settings = {"iterations": 40, "batch": 32, "rng": 0, "method": "sg", "checkpoint": tmp_path / "run.npz"}
    ce.minimize(loss, ce.CVaR(0.1), domain=ce.Free(), **settings)
    with pytest.raises(ValueError, match="belongs to a different problem: .*(step|average)"):
        ce.minimize(loss, ce.CVaR(0.1), domain=ce.Free(), average="last", **settings)

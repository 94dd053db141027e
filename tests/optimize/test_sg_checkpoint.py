"""Checkpoints: a resumed run has the bits of one that never stopped, and a kill never leaves half a file."""

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
from certeq.optimize.losses import CallableLoss, LinearLoss, SquaredLoss
from certeq.optimize.sg import inverse_sqrt, minimize_sg

pytestmark = pytest.mark.filterwarnings("ignore::certeq.ReliabilityWarning")  # batches are tiny to be quick

A = np.random.default_rng(0).normal(size=(200, 4))
COUNTS = np.arange(1.0, 201.0)
LOSS, SIMPLEX = LinearLoss(A), ce.Simplex()
FEW = SquaredLoss(A, A @ [3.0, -2.0, 1.0, 0.0] + np.random.default_rng(1).standard_t(3, 200))  # few carry the risk
UTILITIES = [ce.CVaR(0.1), ce.Entropic(1.0), ce.MeanVariance(0.5), ce.SmoothCVaR(0.1, tau=0.2), ce.EVaR(0.2)]


def gaussian(rng, m):
    return rng.normal(size=(m, 4))


def run(path=None, **change):
    """Run OCE-SG with these changes of the settings, with a checkpoint every ninth iteration if there is a path."""
    settings = {
        "loss": LinearLoss() if "samples" in change else LOSS, "utility": ce.CVaR(0.1), "domain": SIMPLEX, "rng": 3,
        "batch": 16, "iterations": 60, "log_every": 5, "theta0": np.full(4, 0.25), "checkpoint": path,
        "checkpoint_every": None if path is None else 9,
    } | change  # fmt: skip
    return minimize_sg(settings.pop("loss"), settings.pop("utility"), **settings)


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


# Settings whose runs are resumed; a function makes those that a run uses up.
KINDS = {
    "full": {"batch": "full", "step": 0.01},
    "last": {"batch": "full", "step": 0.05, "average": "last"},
    "drawn": {"step": inverse_sqrt(0.1)},
    "without": {"batch": "growing", "step": 0.05, "replace": False, "average": "weighted"},
    "weighted": {"step": 0.05, "weights": COUNTS, "average": "mean"},
    "grown": {"batch": lambda k: 5 * k, "step": 0.01, "weights": COUNTS},  # to the full sample
    "sampler": {"samples": gaussian, "batch": 10, "step": 0.05},
    "same array": {"samples": lambda rng, m: A[:40], "batch": 40, "step": 0.3, "average": "last"},
    "iterator": lambda: {"samples": chunks(), "batch": 25, "step": 0.05, "average": "mean"},
    "accelerated": {"batch": "full"},
    "corrected": {"weights": COUNTS},
    "distances": {"average": "mean"},
    "nonconvex": {"regime": "nonconvex"},
    "stream": {"samples": gaussian, "batch": None},
    "few carriers": {"loss": FEW, "domain": ce.Free(), "batch": 64},
}


@pytest.mark.parametrize(
    ("kind", "utility"),
    [(kind, UTILITIES[(2 * i + k) % 5]) for i, kind in enumerate(KINDS) for k in range(2)],
    ids=repr,
)
def test_a_resumed_run_has_the_same_bits(tmp_path, kind, utility):
    def again(path=None, **more):
        settings = KINDS[kind]() if callable(KINDS[kind]) else KINDS[kind]
        return run(path, utility=utility, iterations=120, **settings, **more)

    whole, path = again(), tmp_path / "run.npz"
    for k in (37, 80):  # two crashes, the first between checkpoints
        with pytest.raises(Crash):
            again(path, callback=crash_at(k))
    resumed = again(path)
    assert resumed.theta.tobytes() == whole.theta.tobytes()
    assert resumed.value == whole.value
    assert resumed.iterations == 120
    assert resumed.warnings == whole.warnings or resumed.gap is None  # of a stream the last batch is not kept
    for column in ("iteration", "value", "gap", "step", "batch"):
        np.testing.assert_array_equal(getattr(resumed.trace, column), getattr(whole.trace, column))


def test_finished_runs_are_returned_continued_and_keep_their_seed(tmp_path):
    path = tmp_path / "run.npz"
    first = run(path)
    again = run(path, callback=crash_at(0))
    assert again.theta.tobytes() == first.theta.tobytes()
    assert again.seconds == first.seconds
    assert run(path, iterations=80).theta.tobytes() == run(iterations=80).theta.tobytes()
    with pytest.raises(Crash):
        run(tmp_path / "unseeded", rng=None, callback=crash_at(20))
    resumed = run(tmp_path / "unseeded", rng=None)
    assert run(rng=resumed.seed).theta.tobytes() == resumed.theta.tobytes()


def test_the_kind_of_generator_is_part_of_the_problem(tmp_path):
    twister = lambda: np.random.Generator(np.random.MT19937(0))
    run(tmp_path / "run", rng=twister(), iterations=5)
    assert run(tmp_path / "run", rng=twister(), iterations=9).iterations == 9
    with pytest.raises(ValueError, match="rng must be of the kind the checkpoint was made with, MT19937"):
        run(tmp_path / "run", rng=np.random.default_rng(0))


# -- other problems ---------------------------------------------------------------------------------------------------


def curved(scale=1.0):
    return ce.utility(lambda x: np.expm1(scale * x) / scale, name="mine")


class Sampler:
    """A sampler with a parameter and a count of its calls."""

    def __init__(self, shift):
        self.shift, self.calls = shift, 0

    def __call__(self, rng, m):
        self.calls += 1
        return rng.normal(size=(m, 4)) + self.shift


class Shrunk(ce.Box):
    """Half as large as it says."""

    def _project(self, x):
        return 0.5 * super()._project(x)


def table(steps):
    return lambda k: steps[k - 1]


def product(upper):
    return {"domain": ce.Product((ce.Simplex(0.5), ce.Box([0.0, 0.0], [0.5, upper])), (2, 2))}


def own(sign=1.0, factor=1.0, samples=A):
    return {"loss": CallableLoss(lambda t, z: (sign * factor * (z @ t), sign * z)), "samples": samples}


def penalized(price, start=0.5):
    """Return a loss that differs only far from the start."""

    def function(theta, z):
        over = max(theta[0] - start, 0.0)
        return z @ theta + price * over**2, z + 2.0 * price * over * np.eye(4)[0]

    return {"loss": CallableLoss(function, samples=A + [-1.0, 0.0, 0.5, 0.5], convex=True), "iterations": 300}


OTHERS = {
    "utility": ({}, {"utility": ce.CVaR(0.2)}),
    "digits of the utility": ({"utility": ce.Entropic(1.0)}, {"utility": ce.Entropic(1.0 + 1e-13)}, "utility"),
    "own utility": ({"utility": curved()}, {"utility": curved(1.001)}, "utility"),
    "scaled utility": ({"utility": curved().scaled(2.0)}, {"utility": curved(1.001).scaled(2.0)}, "utility"),
    "kinked utility": (
        {"utility": ce.utility(lambda x: np.maximum(2 * x, 0.5 * x))},
        {"utility": ce.utility(lambda x: np.maximum(2 * x, 0.5001 * x))}, "utility",
    ),
    "domain": ({}, {"domain": ce.Box(0.0, 1.0)}),
    "own domain": ({"domain": ce.Box(0.0, 1.0)}, {"domain": Shrunk(0.0, 1.0)}, "domain"),
    "bound within": (product(0.5), product(0.6), "domain"),
    "samples": ({}, {"loss": LinearLoss(A + 1e-9)}),
    "offset": ({}, {"loss": LinearLoss(A, offset=1.0)}, "samples"),
    "weights": ({}, {"weights": COUNTS}),
    "theta0": ({}, {"theta0": np.array([0.4, 0.2, 0.2, 0.2])}),
    "seed": ({}, {"rng": 2}),
    "step": ({"step": 0.01}, {"step": 0.02}),
    "last step of a table": ({"step": table([0.1] * 60)}, {"step": table([0.1] * 59 + [0.2])}, "step"),
    # Between the iterations that are asked about, the trace shows the steps.
    "a step within": ({"step": lambda k: 0.1}, {"step": lambda k: 0.1 + (k == 55)}, "step"),
    "batch": ({"step": 0.01}, {"step": 0.01, "batch": 9}),
    "own batch": ({"step": 0.1, "batch": lambda k: 8}, {"step": 0.1, "batch": lambda k: 8 + (k > 10)}, "batch"),
    "average": ({"step": 0.01}, {"step": 0.01, "average": "last"}),
    "replace": ({"step": 0.01}, {"step": 0.01, "replace": False}),
    "sign of the loss": (own(), own(-1.0), "loss"),
    "values of the loss": (own(), own(factor=2.0), "loss"),
    "loss of a stream": (own(samples=None) | {"samples": gaussian}, own(-1.0) | {"samples": gaussian}, "loss"),
    "sampler": ({"samples": lambda r, m: r.random((m, 4))}, {"samples": lambda r, m: -r.random((m, 4))}, "samples"),
    "state of a sampler": ({"samples": Sampler(0.0)}, {"samples": Sampler(1e-6)}, "samples"),
    "loss far from the start": (penalized(0.0), penalized(20.0), "loss"),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_a_checkpoint_of_another_problem_names_what_differs(tmp_path, name):
    first, change, *part = OTHERS[name]
    path = tmp_path / "run.npz"
    done = run(path, **first)
    assert run(path, **first).theta.tobytes() == done.theta.tobytes()
    with pytest.raises(ValueError, match=rf"run.npz' belongs to a different problem: (.*; )?{(*part, name)[0]}: ") as e:
        run(path, **(first | change))
    assert "in the file, " in str(e.value)
    assert name != "theta0" or "domain" not in str(e.value)
    assert run(path, **(first | change), resume=False).iterations == first.get("iterations", 60)


def test_a_function_by_another_name_is_accepted_and_tables_may_grow(tmp_path):
    path = tmp_path / "run.npz"
    first = {"samples": A, "loss": CallableLoss(lambda theta, xi: (xi @ theta, xi)), "step": 0.01}
    run(path, **first)
    linear = lambda theta, xi: (theta @ xi.T, xi)
    rounded = lambda theta, xi: ((1 + 1e-13) * (xi @ theta), xi)  # last digits differ between machines
    for k, loss in enumerate((linear, functools.partial(linear), rounded)):
        more = first | {"loss": CallableLoss(loss), "step": lambda k: 0.01, "iterations": 65 + 5 * k}
        assert run(path, **more).iterations == 65 + 5 * k
    run(tmp_path / "table", step=table([0.5] * 60))
    assert run(tmp_path / "table", step=table([0.5] * 80), iterations=80).iterations == 80
    with pytest.raises(ValueError, match=r"step: .*<lambda>.* now: iteration 1 is 0.5 in the file, 0.25 now"):
        run(tmp_path / "table", step=table([0.25] * 80))


OWN = np.random.default_rng(5)


def with_own_generator(rng, m):
    return OWN.normal(size=(m, 4))


def test_a_checkpoint_leaves_generators_and_counters_alone(tmp_path):
    """A run with a checkpoint has the bits of one without, whatever generators and counters its functions use."""
    counted, noise, kept = Sampler(0.5), np.random.default_rng(2), []

    def noisy(theta, xi):
        kept.append(len(xi))
        return xi @ theta + noise.normal(size=len(xi)) * np.random.random() + random.random(), xi  # noqa: NPY002

    def traced(path, samples):
        counted.calls = 0
        kept.clear()
        np.random.seed(3)  # noqa: NPY002
        random.seed(3)
        OWN.bit_generator.state = noise.bit_generator.state = np.random.default_rng(7).bit_generator.state
        found = run(path, samples=samples, loss=CallableLoss(noisy), step=0.01)
        return found.theta.tobytes(), counted.calls, list(kept), np.random.random(), random.random()  # noqa: NPY002

    for i, samples in enumerate((A, counted, with_own_generator)):
        assert traced(tmp_path / f"{i}.npz", samples) == traced(None, samples)


# -- damaged and hostile files -----------------------------------------------------------------------------------------

SAMPLED = {"utility": ce.SmoothCVaR(0.1), "batch": "full", "step": 1e-3, "iterations": 20}


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    path = tmp_path_factory.mktemp("good") / "run.npz"
    return run(path, **SAMPLED).theta.tobytes(), path.read_bytes()


def resumes(path, content):
    """Return what a file leads to, None if it is refused; every refusal names the file."""
    path.write_bytes(content)
    refused = ""
    try:
        found = run(path, **SAMPLED)
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


def test_no_truncation_and_no_flipped_bit_is_believed(tmp_path, good):
    (theta, content), path = good, tmp_path / "run.npz"
    assert resumes(path, content) == theta
    rng = np.random.default_rng(0)
    for cut in {*range(0, 64, 3), *rng.integers(0, len(content), 40).tolist()}:
        assert resumes(path, content[:cut]) is None
    for length in (0, 1, 10, 300):
        for _ in range(60 if length == 0 else 15):
            damaged = bytearray(content)
            at = int(rng.integers(0, len(content) - length))
            if length:
                damaged[at : at + length] = rng.bytes(length)
            else:
                damaged[at] ^= 1 << int(rng.integers(8))
            assert resumes(path, bytes(damaged)) in (None, theta)  # dates and the like carry nothing
    for other in (b"not a zip", pickle.dumps({"a": 1}), packed({"theta.npy": npy(np.zeros(3))})):
        assert resumes(path, other) is None
    with np.load(io.BytesIO(content), allow_pickle=False) as file:
        assert all(file[name].dtype != object for name in file.files)


def test_members_swapped_missing_added_and_of_other_types(tmp_path, good):
    content, path = good[1], tmp_path / "run.npz"
    parts = members(content)
    for a, b in itertools.combinations(parts, 2):
        assert resumes(path, packed(parts | {a: parts[b], b: parts[a]})) is None
    for name in parts:
        assert resumes(path, packed({key: part for key, part in parts.items() if key != name})) is None
    run(tmp_path / "other.npz", **(SAMPLED | {"rng": 2, "iterations": 19}))
    other = members((tmp_path / "other.npz").read_bytes())
    for name in set(parts) - {"answers.npy", "reached.npy"}:  # those are the same
        assert resumes(path, packed(parts | {name: other[name]})) is None
    for more in ({"more.npy": npy(np.zeros(3))}, {"more": b"text"}):
        assert resumes(path, packed(parts | more)) is None
    for array in (np.zeros(4, np.float32), np.zeros(4, "c16"), np.zeros(4, "U5"), np.full(4, np.nan), np.zeros((4, 1))):
        assert resumes(path, packed(parts | {"theta.npy": npy(array)})) is None
    assert resumes(path, packed(parts | {"theta.npy": npy(np.array([{}] * 4), allow_pickle=True)})) is None
    lying = npy(np.zeros(4)).replace(b"(4,)", b"(9,)").replace(b"(9,), }   ", b"(9**9,), }")
    for bytes_of in (lying, lying.replace(b"(9", b"(-"), b"", npy(np.zeros(4))[:-1], npy(np.zeros(4)) + b"x"):
        assert resumes(path, packed(parts | {"theta.npy": bytes_of})) is None


@pytest.mark.parametrize("value", [-5, 0, float("nan"), 10**18, 2.5, True, None, "7", [], {}, 10**400])
def test_hostile_values_are_refused(tmp_path, good, value):
    content, path = good[1], tmp_path / "run.npz"
    length = not isinstance(value, bool) and isinstance(value, (int, float)) and 0 <= value <= 1e300
    seed = value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 0)
    possible = {"seconds": length, "weight": length, "seed": seed}
    for name in ("iteration", "seconds", "status", "seed", "weight", "source", "answers"):
        if not possible.get(name):
            damaged = with_header(content, lambda header, name=name: header["values"].update({name: value}))
            assert resumes(path, damaged) is None, name
    for name in ("version", "problem", "values", "arrays"):
        damaged = with_header(content, lambda header, name=name: header.update({name: value}))
        assert resumes(path, damaged) is None, name


def test_hostile_headers_and_generators(tmp_path, good):
    content, path = good[1], tmp_path / "run.npz"
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
        damaged = with_header(content, lambda header, state=state: header["values"]["source"].update(rng=state))
        assert resumes(path, damaged) is None
    twister = lambda seed: np.random.Generator(np.random.MT19937(seed))
    run(path, **(SAMPLED | {"rng": twister(0), "resume": False}))
    written = path.read_bytes()
    for position in (-1, 625, 10**6, 1.5, True):

        def move(header, position=position):
            header["values"]["source"]["rng"]["state"]["pos"] = position

        path.write_bytes(with_header(written, move))
        fresh = twister(3)
        with pytest.raises(ValueError, match="the state of its generator is damaged"):
            run(path, **(SAMPLED | {"rng": fresh, "iterations": 30}))
        assert fresh.random() == twister(3).random()  # as it was


def test_a_small_file_cannot_fill_the_memory(tmp_path, good):
    parts, path, bomb = members(good[1]), tmp_path / "run.npz", npy(np.zeros(2 << 20))
    for name in parts:
        for how in (zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED):  # nor is a large one read that no run has written
            assert resumes(path, packed(parts | {name: bomb}, how)) is None
    promise = npy(np.zeros(4)).replace(b"(4,), }            ", b"(4000000000000,), }")
    assert b"4000000000000" in promise
    assert resumes(path, packed(parts | {"theta.npy": promise})) is None


def test_a_file_of_the_old_format_is_refused(tmp_path):
    header = {"version": 1, "problem": {"loss": "LinearLoss()"}, "values": {"iteration": 3}}
    np.savez(tmp_path / "run.npz", header=np.frombuffer(json.dumps(header).encode(), np.uint8), theta=np.zeros(4))
    with pytest.raises(ValueError, match=r"run.npz' has format 1; this version of certeq reads format \d+. Delete it"):
        run(tmp_path / "run.npz")


# -- kills, full disks and paths --------------------------------------------------------------------------------------

# One child imports everything once; its own children are killed at random moments and the file is read each time.
SCRIPT = textwrap.dedent(
    """
    import os, random, signal, sys, time
    import numpy as np, certeq as ce

    path, kills = sys.argv[1], int(sys.argv[2])
    loss = ce.LinearLoss(np.random.default_rng(0).normal(size=(400, 4)))

    def run(iterations, checkpoint):
        return ce.minimize(
            loss, ce.Entropic(1.0), domain=ce.Simplex(), method="sg", batch=50, step=1e-3, average="last", rng=7,
            iterations=iterations, log_every=10**6, checkpoint=checkpoint,
            checkpoint_every=None if checkpoint is None else 1,
        )

    def reached():
        return run(1, path).iterations if os.path.exists(path) else 0

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
    (tmp_path / "file").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, os.fspath(tmp_path / "file" / "run.npz"), "25"],
        env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("whole")


def test_a_full_disk_keeps_the_earlier_file_and_names_it(tmp_path):
    """A finished run is returned all the same: nothing has to be written."""
    resource, path = pytest.importorskip("resource"), tmp_path / "run.npz"
    done = run(path)
    before, limits = path.read_bytes(), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (256, limits[1]))
    try:
        assert run(path).theta.tobytes() == done.theta.tobytes()
        with pytest.raises(OSError, match="run.npz") as caught:
            run(path, iterations=90)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert caught.value.errno == errno.EFBIG
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["run.npz"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_what_is_no_file_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, "/dev/zero", "/dev/null"):
        for resume in (True, False):
            with pytest.raises(ValueError, match="is not a file"):
                run(path, resume=resume)


def test_a_place_that_cannot_be_written_is_found_before_the_work(tmp_path):
    def sampler(rng, m):
        raise AssertionError("the work has begun")

    with pytest.raises(FileNotFoundError, match=r"no/run.npz"):
        run(tmp_path / "no" / "run.npz", samples=sampler)
    if os.path.isdir("/proc/self"):  # where nobody can make a file
        with pytest.raises(OSError, match=r"/proc/run.npz"):
            run("/proc/run.npz", samples=sampler)


def test_links_and_long_names(tmp_path):
    """A link in the way of a draft is not followed; a link to the file stays, and its target is replaced."""
    victim, there = tmp_path / "victim", tmp_path / "there"
    victim.write_text("mine")
    there.mkdir()
    (tmp_path / "run.npz.tmp").symlink_to(victim)
    link, target = tmp_path / "run.npz", there / "kept.npz"
    link.symlink_to(target)
    run(link)  # which points to nothing yet
    first = target.read_bytes()
    assert run(link, iterations=70).iterations == 70
    assert link.is_symlink()
    assert target.read_bytes() != first
    assert os.listdir(there) == ["kept.npz"]
    assert victim.read_text() == "mine"
    assert sorted(os.listdir(tmp_path)) == ["run.npz", "run.npz.tmp", "there", "victim"]
    run(there / ("n" * 251 + ".npz"))
    assert (there / ("n" * 251 + ".npz")).is_file()


def test_several_writers_of_one_file(tmp_path):
    """The file is always that of one of them, whole."""
    path, faults = tmp_path / "run.npz", []
    whole = {n: run(iterations=n).theta.tobytes() for n in range(9, 14)}

    def work(n):
        try:
            for _ in range(8):
                assert run(path, iterations=n, resume=False).theta.tobytes() == whole[n]
                found = run(path, iterations=1)
                assert found.theta.tobytes() == whole[found.iterations]
        except BaseException as error:
            faults.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(10, 14)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults
    assert os.listdir(tmp_path) == ["run.npz"]

"""Checkpoints: a resumed run has the bits of one that never stopped, and a kill never leaves half a file."""

import errno
import io
import json
import os
import pickle
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
SMOOTH = ce.SmoothCVaR(0.1, tau=0.2)
UTILITIES = [ce.CVaR(0.1), ce.Entropic(1.0), ce.MeanVariance(0.5), SMOOTH, ce.EVaR(0.2)]


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
    "unsettled": {"loss": FEW, "domain": ce.Free(), "batch": 16},
}


@pytest.mark.parametrize(
    ("kind", "utility"),
    [*((kind, UTILITIES[(2 * i + k) % 5]) for i, kind in enumerate(KINDS) for k in range(2)), ("corrected", SMOOTH)],
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
    with pytest.raises(ValueError, match="different problem: rng: MT19937 in the file, PCG64 now"):
        run(tmp_path / "run", rng=np.random.default_rng(0))


# -- other problems ---------------------------------------------------------------------------------------------------

LONG = np.random.default_rng(6).normal(size=(5, 1500))  # repr abbreviates bounds of this length


def changed(values, at=100):
    """Return an array that differs in the last digit of one entry."""
    values = values.copy()
    values[at] = np.nextafter(values[at], 2.0)
    return values


def long(domain):
    return {"loss": LinearLoss(LONG), "domain": domain, "theta0": np.full(1500, 1 / 1500), "iterations": 2}


def product(upper):
    return {"domain": ce.Product((ce.Simplex(0.5), ce.Box([0.0, 0.0], [0.5, upper])), (2, 2))}


def mixture(alpha):
    return ce.Mixture(np.full(10, 0.1), [ce.CVaR(alpha if k == 8 else 0.1) for k in range(9)] + [ce.EVaR(0.2)])


class Scaled(LinearLoss):
    """A loss with a parameter."""

    def __init__(self, A, scale):
        super().__init__(A)
        self.parameters = {"scale": scale}
        self._calls = 0  # not part of the description

    def evaluate(self, theta, batch=None):
        self._calls += 1
        scale = self.parameters["scale"][0]
        losses, product = super().evaluate(theta, batch)
        return scale * losses, lambda q: scale * product(q)


class Shrunk(ce.Box):
    """Half as large as the bounds."""

    def _project(self, x):
        return 0.5 * super()._project(x)


def other(rng, m):
    return rng.normal(size=(m, 4))


ONES = np.ones(1500)
OTHERS = {
    "utility": ({}, {"utility": ce.CVaR(0.2)}),
    "digits of the utility": ({"utility": ce.Entropic(1.0)}, {"utility": ce.Entropic(1.0 + 1e-13)}, "utility"),
    "one of many utilities": ({"utility": mixture(0.11)}, {"utility": mixture(0.12)}, "utility"),
    "domain": ({}, {"domain": ce.Box(0.0, 1.0)}),
    "own domain": ({"domain": ce.Box(0.0, 1.0)}, {"domain": Shrunk(0.0, 1.0)}, "domain"),
    "bound within": (product(0.5), product(0.6), "domain"),
    "long upper bound": (long(ce.Box(-ONES, ONES)), long(ce.Box(-ONES, changed(ONES))), "domain"),
    "long lower bound": (long(ce.Box(-ONES, ONES)), long(ce.Box(changed(-ONES), ONES)), "domain"),
    "long row": (
        long(ce.Polyhedron(-1.0, 1.0, A=np.ones((1, 1500)), b=[9.0])),
        long(ce.Polyhedron(-1.0, 1.0, A=changed(np.ones((1, 1500)), (0, 700)), b=[9.0])), "domain",
    ),
    "loss": ({"loss": Scaled(A, ONES)}, {"loss": Scaled(A, changed(ONES))}),
    "samples": ({}, {"loss": LinearLoss(changed(A, (7, 2)))}),
    "offset": ({}, {"loss": LinearLoss(A, offset=1.0)}, "loss: [^;]*; samples"),
    "sampler": ({"samples": gaussian}, {"samples": other}, "samples"),
    "weights": ({}, {"weights": COUNTS}),
    "one weight": ({"weights": COUNTS}, {"weights": changed(COUNTS)}, "weights"),
    "theta0": ({}, {"theta0": np.array([0.4, 0.2, 0.2, 0.2])}),
    "seed": ({}, {"rng": 2}),
    "step": ({"step": 0.01}, {"step": 0.02}),
    "digits of the step": ({"step": inverse_sqrt(0.1)}, {"step": inverse_sqrt(0.1 + 1e-15)}, "step"),
    "regime": ({"average": "mean"}, {"average": "mean", "regime": "nonconvex"}, "step"),
    "batch": ({"step": 0.01}, {"step": 0.01, "batch": 9}),
    "average": ({"step": 0.01}, {"step": 0.01, "average": "last"}),
    "replace": ({"step": 0.01}, {"step": 0.01, "replace": False}),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_a_checkpoint_of_another_problem_names_what_differs(tmp_path, name):
    first, change, *part = OTHERS[name]
    path = tmp_path / "run.npz"
    done = run(path, **first)
    assert run(path, **first).theta.tobytes() == done.theta.tobytes()
    named = (*part, name)[0]
    message = rf"run.npz' belongs to a different problem: {named}: [^;]* in the file, [^;]* now\. Use another file"
    with pytest.raises(ValueError, match=message):
        run(path, **(first | change))
    assert run(path, **(first | change), resume=False).iterations == first.get("iterations", 60)


def test_functions_are_compared_by_their_names(tmp_path):
    def table(steps):
        return lambda k: steps[k - 1]

    path = tmp_path / "run.npz"
    loss = CallableLoss(lambda theta, xi: (xi @ theta, xi), samples=A)
    run(path, loss=loss, step=table([0.5] * 60))
    assert run(path, loss=loss, step=table([0.5] * 60 + [0.25] * 20), iterations=80).iterations == 80
    with pytest.raises(
        ValueError, match=r"problem: step: <function .*table.*<lambda>> in the file, <function .*gaussian"
    ):
        run(path, loss=loss, step=gaussian)


# -- damaged files -----------------------------------------------------------------------------------------------------

SAMPLED = {"utility": ce.SmoothCVaR(0.1), "batch": "full", "step": 1e-3, "iterations": 20}


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    path = tmp_path_factory.mktemp("good") / "run.npz"
    return run(path, **SAMPLED).theta.tobytes(), path.read_bytes()


def resumes(path, content):
    """Return theta, or None if the file is refused by a message with the path."""
    path.write_bytes(content)
    refused = ""
    try:
        return run(path, **SAMPLED).theta.tobytes()
    except ValueError as error:
        refused = str(error)
    assert refused.startswith(f"checkpoint {os.fspath(path)!r} is damaged or not a checkpoint: ")
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


def test_truncated_and_damaged_files_are_refused(tmp_path, good):
    (theta, content), path = good, tmp_path / "run.npz"
    assert resumes(path, content) == theta
    rng = np.random.default_rng(0)
    for cut in {0, 1, 30, *rng.integers(0, len(content), 40).tolist()}:
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
    for foreign in (b"not a zip", pickle.dumps({"a": 1}), packed({"theta.npy": npy(np.zeros(3))})):
        assert resumes(path, foreign) is None


def test_a_trace_that_declares_fewer_rows_is_refused(tmp_path):
    path = tmp_path / "run.npz"
    run(path, iterations=400, log_every=1)
    path.write_bytes(path.read_bytes().replace(b"(400, 6)", b"(100, 6)"))
    with pytest.raises(ValueError, match="is damaged"):
        run(path, iterations=410)


def test_nothing_is_pickled(tmp_path, good):
    content, path = good[1], tmp_path / "run.npz"
    with np.load(io.BytesIO(content), allow_pickle=False) as file:
        assert all(file[name].dtype != object for name in file.files)
    for name in ("header.npy", "run.theta.npy"):
        pickled = packed(members(content) | {name: npy(np.array([{}] * 4), allow_pickle=True)})
        assert resumes(path, pickled) is None


def test_missing_arrays_and_unexpected_sizes_are_refused(tmp_path, good):
    parts, path, large = members(good[1]), tmp_path / "run.npz", npy(np.zeros(2 << 20))
    for name in parts:
        assert resumes(path, packed({key: part for key, part in parts.items() if key != name})) is None
        assert resumes(path, packed(parts | {name: large}, zipfile.ZIP_DEFLATED)) is None  # 16 MB in a small file
    for array in (np.zeros(4, np.float32), np.zeros(5), np.zeros((4, 1))):
        assert resumes(path, packed(parts | {"run.theta.npy": npy(array)})) is None
    declared = npy(np.zeros(4)).replace(b"(4,), }            ", b"(4000000000000,), }")
    assert b"4000000000000" in declared
    for name in ("run.theta.npy", "log.rows.npy"):
        assert resumes(path, packed(parts | {name: declared})) is None


def test_positions_outside_the_buffer_of_a_generator_are_refused(tmp_path):
    """NumPy would read memory there."""
    path, twister = tmp_path / "run.npz", lambda: np.random.Generator(np.random.MT19937(0))
    run(path, rng=twister())
    parts = members(path.read_bytes())
    header = json.loads(np.load(io.BytesIO(parts["header.npy"])).tobytes())
    for position in (-1, 625, 10**6):
        header["values"]["rng"]["state"]["pos"] = position
        path.write_bytes(packed(parts | {"header.npy": npy(np.frombuffer(json.dumps(header).encode(), np.uint8))}))
        with pytest.raises(ValueError, match=f"pos is {position}"):
            run(path, rng=twister(), iterations=90)


def test_a_file_of_another_format_is_refused(tmp_path):
    header = {"version": 5, "problem": {"loss": ["LinearLoss()", ""]}, "values": {"iteration": 3}}
    np.savez(tmp_path / "run.npz", header=np.frombuffer(json.dumps(header).encode(), np.uint8), theta=np.zeros(4))
    with pytest.raises(ValueError, match=r"run.npz' has format 5; this version of certeq reads format \d+\. Use anot"):
        run(tmp_path / "run.npz")


# -- kills, full disks and paths --------------------------------------------------------------------------------------

# One child imports everything once; its own children are killed at random moments and the file is read each time.
SCRIPT = textwrap.dedent(
    """
    import mmap, os, random, signal, sys, time
    import numpy as np, certeq as ce

    path, every, kills = sys.argv[1], 5, 12
    loss = ce.LinearLoss(np.random.default_rng(0).normal(size=(400, 4)))
    last = mmap.mmap(-1, 8)  # last iteration of the child, in memory shared with this process

    def note(at):
        last[:] = at.iteration.to_bytes(8, "little")

    def run(iterations, checkpoint, callback=None):
        return ce.minimize(
            loss, ce.Entropic(1.0), domain=ce.Simplex(), method="sg", batch=50, step=1e-3, average="last", rng=7,
            iterations=iterations, log_every=1 if callback else 10**6, callback=callback, checkpoint=checkpoint,
            checkpoint_every=None if checkpoint is None else every,
        )

    def reached():
        return run(1, path).iterations if os.path.exists(path) else 0

    random.seed(123)
    before = 0
    for _ in range(kills):
        child = os.fork()
        if child == 0:
            run(10**7, path, note)
            os._exit(0)
        deadline = time.monotonic() + 60
        while reached() <= before + every:
            assert time.monotonic() < deadline
            time.sleep(0.001)
        time.sleep(random.uniform(0.0, 0.02))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        now = reached()
        lost = int.from_bytes(last[:], "little") - now
        assert now > before and 0 <= lost <= every, (before, now, lost)
        before = now
    assert run(before + 20, path).theta.tobytes() == run(before + 20, None).theta.tobytes()
    print("whole", before)
    """
)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL")
def test_a_killed_run_loses_at_most_one_interval(tmp_path):
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, os.fspath(tmp_path / "run.npz")],
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

"""Mapped files are read, not kept: memory and resident pages, measured in a process of its own."""

import os
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest

import certeq as ce
from tests.conftest import ROOT
from tests.problems import UTILITIES

needs_proc = pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="needs /proc to see resident pages")

SETUP = """
import sys, numpy as np, certeq as ce

def resident():
    "MB of mapped files, the libraries' included"
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("RssFile")) / 1024

path, size = sys.argv[1], int(sys.argv[2])
"""

TILT = """
losses = np.memmap(path, mode="r", dtype=float, shape=(size // 2,))
weights = np.memmap(path, mode="r", dtype=float, shape=(size // 2,), offset=size // 2 * 8)
for utility in (ce.CVaR(0.1), ce.Quartic()):
    ce.tilt(losses[:100_000], utility, weights=weights[:100_000])
before = resident()
for utility in (ce.CVaR(0.1), ce.Quartic()):
    tilt = ce.tilt(losses, utility, weights=weights)
    print(resident() - before)
"""

BATCHES = """
from tests.blocks import small_tables_in_blocks
panel = np.memmap(path, mode="r", dtype=float, shape=(size // 50, 50))
def minimize(rows, batch):
    ce.minimize(ce.LinearLoss(rows), ce.CVaR(0.1), domain=ce.Simplex(), method="sg", batch=batch, iterations=20, rng=0)
with small_tables_in_blocks(1 << 18):
    minimize(panel[:1000], 4)
    before = resident()
    for batch in (64, 5000):
        minimize(panel, batch)
        print(resident() - before)
"""


@needs_proc
@pytest.mark.parametrize(("code", "most"), [(TILT, 8.0), (BATCHES, 33.6)], ids=["tilt", "batches"])
def test_a_mapped_file_does_not_become_resident(tmp_path, code, most):
    size = 8_000_000  # 64 MB
    np.random.default_rng(1).random(size).tofile(tmp_path / "file")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SETUP + code, os.fspath(tmp_path / "file"), str(size)],
        capture_output=True, text=True, timeout=300, check=False, cwd=ROOT,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert max(map(float, done.stdout.split())) <= most, f"MB of the file that are resident: {done.stdout}"


@pytest.fixture(scope="module")
def mapped(tmp_path_factory):
    path = tmp_path_factory.mktemp("mapped") / "losses.npy"
    np.save(path, np.random.default_rng(0).standard_normal(1_500_000).astype(np.float32))
    return np.load(path, mmap_mode="r")


def peak_of(call):
    tracemalloc.start()
    found = call()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return found, peak


@pytest.mark.parametrize("name", UTILITIES)
def test_memory_of_a_risk(name, mapped):
    """The file is 6 MB, and 12 MB in float64; a derived slope carries three arrays through every operation."""
    found, peak = peak_of(lambda: ce.oce(mapped, UTILITIES[name]))
    assert found == ce.oce(np.array(mapped), UTILITIES[name])
    assert peak < (20e6 if isinstance(UTILITIES[name], ce.CustomUtility) else 12e6)


def test_memory_of_other_functions(mapped):
    for name, call, limit in (
        ("estimate", lambda: ce.estimate(mapped, ce.CVaR(0.05)), 16e6),
        ("ubsr", lambda: ce.ubsr(mapped, np.exp, 1.0), 8e6),
        ("tilt", lambda: ce.tilt(mapped, ce.CVaR(0.05)), 12e6 + 12e6),  # the answer itself is 12 MB
    ):
        assert peak_of(call)[1] < limit, name


def test_a_copy_on_write_map_keeps_what_was_written(tmp_path):
    np.save(tmp_path / "losses.npy", np.zeros(200_000))
    mapped = np.load(tmp_path / "losses.npy", mmap_mode="c")
    mapped[0] = 5.0
    assert ce.oce(mapped, ce.Mean()) == pytest.approx(5.0 / 200_000)
    assert mapped[0] == 5.0

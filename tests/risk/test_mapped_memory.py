"""Mapped files are read, not kept: their resident pages, measured in a process of its own."""

import os
import subprocess
import sys

import numpy as np
import pytest

pytestmark = pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="needs /proc to see resident pages")

SETUP = """
import sys, numpy as np, certeq as ce
from certeq._table import ArrayTable

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

TAKE = """
rows = size // 50
panel = ArrayTable(np.memmap(path, mode="r", dtype=float, shape=(rows, 50)))
rng = np.random.default_rng(0)
before = resident()
for count in (64,) * 20 + (5000,):
    indices = rng.integers(0, rows, count)
    found = panel.take(indices)
    print(resident() - before)
assert np.array_equal(found, np.fromfile(path).reshape(rows, 50)[indices])
"""


@pytest.mark.parametrize("code", [TILT, TAKE], ids=["tilt of weighted losses", "rows of a panel"])
def test_a_mapped_file_does_not_become_resident(tmp_path, code):
    size = 8_000_000  # 64 MB
    np.random.default_rng(1).random(size).tofile(tmp_path / "file")
    done = subprocess.run(
        [sys.executable, "-c", SETUP + code, os.fspath(tmp_path / "file"), str(size)],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    most = max(map(float, done.stdout.split()))
    assert most < 8.0, f"{most:.0f} MB of a file of 64 MB are resident"

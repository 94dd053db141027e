"""The exact solver on 5e6 x 50 scenarios out of core: 2 GB on disk, from a memory-mapped file and through Dask.

    python -m benchmarks scale_exact            # writes 2 GB into a temporary folder, deletes them at the end
    python -m benchmarks scale_exact --quick    # 2e5 x 50

Each solve has a process of its own, so that its peak resident memory (ru_maxrss, of the process and, for a cluster, of
its workers) is its own. The panel is a seeded heavy-tailed factor model; it is not read by anything else.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

Row = dict[str, Any]
CASES = ("entropic", "mmv", "cvar")
SOURCES = ("memmap", "dask")
ASSETS = 50


def write_panel(path: Path, scenarios: int, seed: int = 0) -> None:
    """Losses of a factor model with Student tails, deviations of one to two per cent, written block by block."""
    rng = np.random.default_rng(seed)
    loading = rng.normal(0.0, 0.5, (ASSETS, 10))
    loading[:, 0] = rng.uniform(0.4, 1.6, ASSETS)
    own, drift = rng.uniform(0.006, 0.016, ASSETS), rng.normal(0.0004, 0.0003, ASSETS)
    strength = 0.006 * np.r_[1.5, np.full(9, 0.6)]
    header = np.lib.format.open_memmap(path, "w+", np.float64, (scenarios, ASSETS))
    offset = header.offset
    del header
    with open(path, "r+b") as file:
        file.seek(offset)
        for start in range(0, scenarios, 100_000):
            count = min(100_000, scenarios - start)
            common = rng.standard_t(5, size=(count, 10)) * strength
            block = -(common @ loading.T + rng.standard_t(5, size=(count, ASSETS)) * own + drift)
            file.write(np.ascontiguousarray(block).tobytes())


def in_chunks(path: str, scenarios: int, height: int = 100_000) -> Any:
    """The file as a Dask array whose chunks are read when they are needed (`from_array` would copy them all)."""
    import dask
    import dask.array as da

    def read(start: int, stop: int) -> np.ndarray:
        return np.load(path, mmap_mode="r")[start:stop]

    parts = []
    for start in range(0, scenarios, height):
        stop = min(start + height, scenarios)
        parts.append(da.from_delayed(dask.delayed(read)(start, stop), (stop - start, ASSETS), np.float64))
    return da.concatenate(parts)


def solve(path: str, case: str, source: str) -> Row:
    """One solve, in the process that calls this."""
    import resource
    import time

    import certeq as ce

    utility = {
        "entropic": ce.Entropic(50.0),
        "mmv": ce.MonotoneMeanVariance(2).scaled(0.02),
        "cvar": ce.CVaR(0.05),
    }[case]
    table: Any = np.load(path, mmap_mode="r")
    if source == "dask":
        table = in_chunks(path, int(table.shape[0]))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begin = time.perf_counter()
    found = ce.minimize(ce.LinearLoss(table), utility, domain=ce.Simplex(), tol=1e-8)
    seconds = time.perf_counter() - begin
    assert found.gap is not None
    return {
        "case": case,
        "from": source,
        "scenarios": int(table.shape[0]),
        "seconds": round(seconds, 2),
        "status": found.status,
        "value": found.value,
        "relative gap": found.gap / abs(found.value),
        "steps": found.iterations,
        "held": int(np.sum(found.theta > 0.0)),
        "peak RSS (MB)": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        "at the start (MB)": round(before / 1024),
    }


def run(quick: bool = False) -> list[Row]:
    scenarios = 200_000 if quick else 5_000_000
    rows = []
    with tempfile.TemporaryDirectory(prefix="certeq-bench-") as folder:
        path = Path(folder) / "panel.npy"
        write_panel(path, scenarios)
        for case in CASES:
            for source in SOURCES:
                command = [sys.executable, "-m", "benchmarks.bench_scale_exact", "--solve", str(path), case, source]
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                if done.returncode:
                    raise RuntimeError(f"{case} from {source} failed:\n{done.stderr}")
                rows.append(json.loads(done.stdout.splitlines()[-1]))
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--solve", nargs=3, metavar=("PATH", "CASE", "SOURCE"), help="one solve; prints a line of JSON")
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args()
    if args.solve:
        print(json.dumps(solve(*args.solve), default=float))
    else:
        from benchmarks.timing import table

        print(table(run(quick=args.quick)))

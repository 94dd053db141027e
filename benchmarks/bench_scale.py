"""Samples on disk, up to 1.6 GB: time per sample, passes and peak memory, read directly and through Dask.

Every route and size runs in a process of its own, whose peak resident memory is that of the worst utility. Processor
time is printed beside the time on the clock: on a machine that others use as well it is the steadier of the two. Every
figure is the best of the runs that fit half a second, and of two at least: the first also imports and maps.
The shorter samples are measured before and after the longest, which takes minutes: a machine's speed may wander.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

CHART = Path(__file__).parent / "results" / "scale.png"
CHUNK = 2_000_000  # losses in a Dask chunk: 16 MB
SIZES = (1_000_000, 10_000_000, 200_000_000)
ROUTES = ("memory map", "Dask")

WORKER = """
import json, resource, sys, time
import numpy as np
import certeq as ce

path, route, seconds, chunk = sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4])
z = np.load(path, mmap_mode="r")

def sample():
    if route != "Dask":
        return z
    from certeq.scale import as_sample, open_npy
    return as_sample(open_npy(path, chunk))

def peak():
    # Not ru_maxrss where it can be helped: on Linux a process starts with that of the one that started it.
    try:
        with open("/proc/self/status") as lines:
            return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

utilities = [
    ce.Mean(), ce.Entropic(1.0), ce.MeanVariance(1.0), ce.MonotoneMeanVariance(2), ce.MonotoneMeanVariance(2.5),
    ce.Quartic(), ce.CVaR(0.05), ce.LeakyCVaR(0.05), ce.SmoothCVaR(0.05), 0.3 * ce.Mean() + 0.7 * ce.CVaR(0.05),
    0.5 * ce.Entropic(0.5) + 0.5 * ce.CVaR(0.2),
]
ce.oce(np.arange(1e5), ce.Mean())  # imports and threads are not what is timed
sample()
for utility in utilities:
    best = busy = float("inf")
    begin, runs = time.perf_counter(), 0
    while runs < 2 or time.perf_counter() - begin < seconds:
        runs += 1
        start, worked = time.perf_counter(), time.process_time()
        read = sample()
        ce.oce(read, utility)
        best, busy = min(best, time.perf_counter() - start), min(busy, time.process_time() - worked)
    passes = getattr(read, "passes", 0)  # counted through Dask only
    found = {"case": repr(utility), "seconds": best, "busy": busy, "passes": passes, "peak MB": peak()}
    print(json.dumps(found), flush=True)
"""


def run(quick: bool = False) -> list[dict[str, Any]]:
    sizes = SIZES[:2] if quick else SIZES
    found: dict[tuple[str, str, int], dict[str, Any]] = {}
    with tempfile.TemporaryDirectory(prefix="certeq-scale-") as folder:
        files = {n: Path(folder) / f"losses-{n}.npy" for n in sizes}
        for n, path in files.items():
            write_normals(path, n)
        for n in (*sizes, *sizes[-2::-1]):
            for route in ROUTES:
                for row in measure(files[n], n, route, seconds=0.5):
                    key = row["case"], route, n
                    found[key] = better(found[key], row) if key in found else row
    rows = list(found.values())
    draw_chart(rows, CHART)
    print(f"chart: {CHART.name}; passes: at most {max(row['passes'] for row in rows)}")
    return rows + growth(rows)


def write_normals(path: Path, n: int) -> None:
    """A file of standard normals, written a piece at a time."""
    rng = np.random.default_rng(0)
    with path.open("wb") as file:
        header = np.lib.format.header_data_from_array_1_0(np.empty(0))
        np.lib.format.write_array_header_1_0(file, header | {"shape": (n,)})
        for start in range(0, n, CHUNK):
            rng.standard_normal(min(CHUNK, n - start)).tofile(file)


def measure(path: Path, n: int, route: str, seconds: float) -> list[dict[str, Any]]:
    command = [sys.executable, "-c", WORKER, str(path), route, str(seconds), str(CHUNK)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{route}, n = {n}: {done.stderr.strip().splitlines()[-1]}")
    rows = []
    for line in done.stdout.splitlines():
        found = json.loads(line)
        rows.append(
            {
                "case": found["case"],
                "route": route,
                "n": n,
                "ms": 1e3 * found["seconds"],
                "ns per sample": 1e9 * found["seconds"] / n,
                "cpu ns per sample": 1e9 * found["busy"] / n,
                "passes": found["passes"],
                "peak MB": found["peak MB"],
                "wanted": "<= 8 passes, < 500 MB",
            }
        )
    return rows


def better(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """The lesser times of two measurements, and the larger needs."""
    return {
        name: max(one[name], other[name]) if name in ("passes", "peak MB") else min(one[name], other[name])
        for name in one
    }


def growth(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Time per sample of the largest size over that of the smallest.

    Below 1 a fixed cost (the draw, a task graph) weighs on the smallest; "per further sample" leaves that out: what a
    sample more costs between the two largest sizes, over the same between the two smallest.
    """
    sizes = sorted({row["n"] for row in rows})
    found = []
    for case, route in dict.fromkeys((row["case"], row["route"]) for row in rows):
        line = {row["n"]: row for row in rows if (row["case"], row["route"]) == (case, route)}
        small, large = line[sizes[0]], line[sizes[-1]]
        more = {"case": case, "route": route, "n": f"{sizes[-1]:.0e} / {sizes[0]:.0e}", "wanted": "0.7 to 1.3"}
        for clock in ("ns per sample", "cpu ns per sample"):
            more[clock] = large[clock] / small[clock]
            if len(sizes) > 2:
                total = [n * line[n][clock] for n in sizes]
                steps = np.diff(total) / np.diff(sizes)
                more[clock.replace("sample", "further sample")] = float(steps[-1] / steps[0])
        found.append(more)
    return found


def draw_chart(rows: list[dict[str, Any]], path: Path) -> None:
    """Time and peak memory against n, a line per utility and route."""
    try:
        import matplotlib
    except ImportError:
        print("matplotlib is not installed: no chart")
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(2, 2, figsize=(12, 8), sharex=True)
    for column, route in enumerate(ROUTES):
        time_axis, memory_axis = axes[0][column], axes[1][column]
        chosen = [row for row in rows if row["route"] == route]
        time_axis.set_prop_cycle(color=plt.get_cmap("tab20").colors)
        for case in dict.fromkeys(row["case"] for row in chosen):
            line = [row for row in chosen if row["case"] == case]
            time_axis.loglog([row["n"] for row in line], [row["ms"] / 1e3 for row in line], "o-", label=case)
        sizes = sorted({row["n"] for row in chosen})
        peaks = [max(row["peak MB"] for row in chosen if row["n"] == n) for n in sizes]
        memory_axis.semilogx(sizes, peaks, "o-", label="the worst utility")
        memory_axis.semilogx(sizes, [8e-6 * n for n in sizes], ":", label="the losses themselves")
        memory_axis.axhline(500.0, color="grey", linewidth=0.8)
        memory_axis.set(xlabel="losses", ylabel="peak resident memory, MB", ylim=(0.0, 700.0))
        time_axis.set(title=route, ylabel="seconds")
        memory_axis.legend()
    axes[0][0].legend(fontsize=6)
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp.png")
    figure.savefig(temporary, dpi=120)
    plt.close(figure)
    temporary.replace(path)


if __name__ == "__main__":
    from benchmarks.timing import table

    print(table(run()))

"""A small experiment whose pieces any process can import, and a way to run it as a program of its own."""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from pathlib import Path

import numpy as np

from certeq.paper import _run
from certeq.paper._experiment import Claim, Experiment, Figure, Job, Outcome, Panel, ResultTable, Series
from certeq.risk import UnitWarning


def spectrum(seed: int, size: int = 60) -> dict:
    """Linear algebra whose last bits depend on how many threads add it up."""
    matrix = np.random.default_rng(seed).normal(size=(size, 400))
    return {"seed": seed, "values": np.linalg.eigvalsh(matrix @ matrix.T)[:3].tolist(), "pair": (seed, seed + 1)}


def slow_spectrum(seed: int, seconds: float) -> dict:
    time.sleep(seconds)
    return spectrum(seed)


def capability(seed: int) -> str | None:
    return os.environ.get("ATEN_CPU_CAPABILITY")


def faint(seed: int) -> float:
    warnings.warn("hardly sees the risk", UnitWarning, stacklevel=1)
    return float(seed)


def ill(seed: int) -> float:
    if seed == 3:
        raise ArithmeticError("three is too many")
    return float(seed)


def not_finite(seed: int) -> float:
    return float("nan")


def run(job: Job) -> Outcome:
    found = job.map(spectrum, [{"seed": seed} for seed in range(job.seeds)])
    return outcome_of(found)


def run_slowly(job: Job) -> Outcome:
    return outcome_of(job.map(slow_spectrum, [{"seed": seed, "seconds": 0.25} for seed in range(job.seeds)]))


def run_badly(job: Job) -> Outcome:
    return outcome_of(job.map(ill, [{"seed": seed} for seed in range(5)]))


def outcome_of(found: list) -> Outcome:
    rows = tuple((f"seed {each['seed']}", *each["values"], None) for each in found)
    x = [1.0, 10.0, 100.0]
    line = Series("a <b>line</b>", x, [3.0, 2.0, 1.0])
    band = Series("band", x, [1.0, 2.0, 3.0], "band", [0.5, 1.0, 2.0], [2.0, 3.0, 4.0])
    panel = Panel((line, band), "Left", "m", "error", True)
    return Outcome(
        tables=(ResultTable("eigenvalues", "Least <eigenvalues>", ("Seed", "1st", "2nd", "3rd", "none"), rows),),
        figures=(Figure("curve", "A curve & a band", 'Falls "fast".', (panel,)),),
        claims=(
            Claim("they <script>alert(1)</script> agree", "1.0", "1.0", "reproduced"),
            Claim("they differ", "2.0", "1.0", "not reproduced", "± 0.1", "too far"),
            Claim("nobody knows", "3.0", "1.0", "not checked", why="synthetic"),
        ),
        notes=("A note.",),
        numbers={"first": found[0]["values"][0], "nothing": float("nan")},
        seeds=tuple(range(len(found))),
    )


EXPERIMENTS = (
    Experiment("toy", "Toy", "Table 0", run),
    Experiment("slow", "Slow toy", "Table 1", run_slowly),
    Experiment("bad", "Bad toy", "", run_badly),
)


def register(patch=None) -> None:
    """Replace the paper's experiments by the toys; with pytest's monkeypatch, for one test."""
    names = {"toy": "toy", "slow": "slow", "bad": "bad", "absent": "absent"}
    for module, name, value in (
        (_run, "_MODULES", names),
        (_run, "EXPERIMENTS", tuple(names)),
        (_run, "import_module", _import_toy),
    ):
        patch.setattr(module, name, value) if patch is not None else setattr(module, name, value)


def _import_toy(where: str):
    if where.endswith("absent"):
        raise ModuleNotFoundError(f"No module named {where!r}", name=where)
    return sys.modules[__name__]


def main() -> None:
    """`python -m tests.paper.toy FOLDER NAME SEEDS`, with two processes; or `... certeq FOLDER ARGUMENTS`."""
    import tests.paper.toy as me
    from certeq.paper import reproduce

    me.register()
    if sys.argv[1] == "certeq":
        from certeq.cli import main as certeq

        certeq(["reproduce", "--out", sys.argv[2], *sys.argv[3:]])
    folder, name, seeds = sys.argv[1:]
    (result,) = reproduce([name], seeds=int(seeds), out=folder, jobs=2)
    facts = json.loads((Path(folder) / name / "result.json").read_text())
    print(json.dumps({"failure": result.failure, "kept": facts["pieces_kept_from_an_earlier_run"]}))


if __name__ == "__main__":
    main()

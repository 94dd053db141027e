"""Compiled and portable code give the same answers: another process makes the same calls without the compiled file."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
import sysconfig
import tracemalloc
import warnings
from pathlib import Path

import numpy as np
import pytest

import certeq as ce
from certeq.risk.solvers import AVAILABLE
from tests.portable import WITHOUT_COMPILED
from tests.problems import MIXED, RISKS, SAMPLES, SCALED, TABLES, tolerance

compiled = pytest.mark.skipif(not AVAILABLE, reason="certeq was installed without a C compiler")
pytestmark = [
    pytest.mark.xdist_group("compiled"),  # one process makes the calls of the other
    pytest.mark.filterwarnings("ignore::certeq.UnitWarning"),
    pytest.mark.filterwarnings("ignore::certeq.ReliabilityWarning"),
]
RISKS_HERE: dict[str, ce.Risk] = {name: entry.risk for name, entry in RISKS.items()} | MIXED | SCALED
# Beyond a few thousand losses a part of them gives the start; beyond 2,048 quantiles are found in another way.
SIZES = (3, 511, 2049, 4097, 20_000)


def samples(i: int) -> dict[str, tuple[np.ndarray, np.ndarray | None]]:
    """Return the samples of the i-th risk: those of the registry, and one kind of each size."""
    found = {name: (np.asarray(x, float), w) for name, (x, w) in SAMPLES.items()}
    for k, size in enumerate(SIZES):
        rng = np.random.default_rng(size)
        normal = rng.standard_normal(size)
        kind, x = (
            ("normal", normal),
            ("offset", 1e9 + normal),
            ("ties", np.round(normal, 1)),
            ("sorted", np.sort(normal)),
            ("one far loss", np.r_[50.0, normal[1:]]),
            ("constant", np.full(size, 0.1)),
        )[(i + k) % 6]
        w = rng.exponential(size=size) * (rng.random(size) < 0.8) if (i + k) % 5 == 0 else None
        found[f"{kind} {size}"] = x, w if w is None else np.r_[0.1, w[1:]]
    return found


def answers() -> dict[str, np.ndarray]:
    """Return all answers by risk, call and sample; both processes call it."""
    found: dict[str, np.ndarray] = {}
    for i, (name, risk) in enumerate(RISKS_HERE.items()):
        sorts = name in RISKS and not RISKS[name].blocks
        for sample, (x, w) in samples(i).items():
            found[f"{name}/oce/{sample}"] = np.float64(ce.oce(x, risk, w))
            if not sorts:
                found[f"{name}/threshold/{sample}"] = np.asarray(ce.threshold(x, risk, w))
            found[f"{name}/tilt/{sample}"] = ce.tilt(x, risk, w)
        for k, shape in enumerate([(1, 1), (3, 2), (5, 8), (2, 300), (3, 2500)]):
            rows = (
                np.random.default_rng(k).standard_normal(shape).round(1).astype((np.float64, np.float32)[(i + k) % 2])
            )
            rows[0] += 1000.0
            found[f"{name}/oce/rows {shape}"] = ce.oce(rows, risk, axis=1)
            found[f"{name}/tilt/rows {shape}"] = ce.tilt(rows, risk, axis=1)
        x = np.random.default_rng(1).normal(size=150)
        one = ce.estimate(x, risk)
        found[f"{name}/estimate/normal"] = np.array([one.value, one.stderr, one.bias, one.ess])
        if name in RISKS and not sorts:  # each step of the exact method starts from the threshold before
            solved = ce.minimize(ce.LinearLoss(100.0 * TABLES["returns"][0]), risk, domain=ce.Simplex())
            found[f"{name}/minimum/returns"] = np.array([solved.value, solved.gap])
    return found


@pytest.fixture(scope="module")
def portable(tmp_path_factory):
    """Return the answers of a process that has no compiled file."""
    file = tmp_path_factory.mktemp("portable") / "answers.npz"
    code = (
        f"{WITHOUT_COMPILED}\nimport warnings; warnings.simplefilter('ignore')\nimport numpy\n"
        "from certeq.risk.solvers import AVAILABLE\nassert not AVAILABLE\n"
        f"from tests.risk.test_compiled import answers\nnumpy.savez({str(file)!r}, **answers())"
    )
    root = Path(__file__).parents[2]
    path = os.pathsep.join(filter(None, (str(root), os.environ.get("PYTHONPATH"))))
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=root, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    with np.load(file) as found:
        return dict(found)


@pytest.fixture(scope="module")
def here():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return answers()


@compiled
@pytest.mark.parametrize("name", RISKS_HERE)
def test_answers_are_those_of_portable_code(name, here, portable):
    risk, known = RISKS_HERE[name], samples(list(RISKS_HERE).index(name))
    own = [label for label in portable if label.startswith(f"{name}/")]
    assert len(own) > 40
    for label in own:
        _, call, sample = label.split("/")
        found, wanted = here[label], portable[label]
        x = known[sample][0] if sample in known else np.zeros(2)
        if call == "oce" and sample in known:
            assert abs(found - wanted) <= tolerance(x, wanted, 1e-12) + 1e-14, label
        elif call == "threshold":
            if isinstance(risk, ce.Utility) and risk.kappa < 20:  # sharper ones are flat between two losses
                np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9 * (1.0 + np.ptp(x)), err_msg=label)
        elif call == "tilt":
            np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=2e-9, err_msg=label)
        elif call == "minimum":
            assert abs(found[0] - wanted[0]) <= found[1] + wanted[1], label
        else:
            np.testing.assert_allclose(found, wanted, rtol=1e-7 if call == "estimate" else 1e-11, err_msg=label)


def test_it_was_compiled_wherever_a_compiler_is():
    headers = Path(sysconfig.get_path("include")) / "Python.h"
    if shutil.which("cc") is None or not headers.exists():
        pytest.skip("no C compiler here, or no Python.h")
    if any(finder.__class__ is type and finder.__name__ == "WithoutCompiled" for finder in sys.meta_path):
        pytest.skip("kept out on purpose, by tests/portable.py")
    assert AVAILABLE, "certeq.risk._fused was not built; `pip install -v -e .` says why"


@compiled
def test_a_build_of_another_source_is_refused(tmp_path):
    package = Path(ce.__file__).parent
    if not (package / "risk" / "_fused.c").exists():
        pytest.skip("installed without the source of the compiled file")
    shutil.copytree(package, tmp_path / "certeq", ignore=shutil.ignore_patterns("__pycache__", "paper", "report"))
    source = tmp_path / "certeq" / "risk" / "_fused.c"

    def run():
        use = [sys.executable, "-c", "import certeq; print(certeq.oce([1.0, 3.0], certeq.Mean()))"]
        environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
        return subprocess.run(use, cwd=tmp_path, env=environment, capture_output=True, text=True)

    assert run().stdout == "2.0\n"
    source.write_text(source.read_text() + "\n")
    assert "was built from another version of _fused.c: build it again" in run().stderr
    source.unlink()
    assert run().stdout == "2.0\n"


def test_the_exponential_is_good_to_the_last_digits_and_0_far_out():
    x = np.concatenate([np.linspace(-708.0, 0.0, 2001), [-1e-300, -1e-17, -0.34657, -0.34658, -1e4]])
    for z in (x, np.tile(x, 10)):  # short and long samples
        q = ce.tilt(z, ce.Entropic(1.0))
        np.testing.assert_allclose(q / q[2000], np.exp(z), rtol=3e-15)
        assert q[len(x) - 1] == 0.0


@compiled
def test_memory_is_given_back():
    x, u = np.random.default_rng(0).standard_normal(4096), ce.SmoothCVaR(0.1)
    tracemalloc.start()
    for k in range(300):
        ce.tilt(x, u)
        if k == 10:
            before = tracemalloc.get_traced_memory()[0]
    assert tracemalloc.get_traced_memory()[0] - before < 4096
    tracemalloc.stop()


Z, O, T = np.zeros(3), np.ones(3), np.zeros(2)
ARGUMENTS = {
    "solve of integers": (
        "solve",
        (0, 1.0, 0.0, np.zeros(3, int), None, Z),
        TypeError,
        "x must be a vector of float64",
    ),
    "solve of a matrix": ("solve", (0, 1.0, 0.0, np.zeros((3, 1)), None, Z), TypeError, "x must be a vector"),
    "short weights": ("solve", (0, 1.0, 0.0, Z, T, Z), ValueError, "weights must have one entry for each of"),
    "rough weights": ("solve", (0, 1.0, 0.0, Z, np.zeros(3, np.float32), Z), TypeError, "weights must be a vector"),
    "long tilt": (
        "solve",
        (0, 1.0, 0.0, Z, None, np.zeros(4)),
        ValueError,
        "tilt must have one entry for each of the 3",
    ),
    "strides": ("solve", (0, 1.0, 0.0, np.zeros(6)[::2], None, Z), ValueError, "contiguous"),
    "kind": ("solve", (99, 1.0, 0.0, Z, None, Z), ValueError, "kind must be one of the 5 curves"),
    "text": ("solve", (0, "1", 0.0, Z, None, Z), TypeError, "real number"),
    "five": ("solve", (0, 1.0, 0.0, Z, None), TypeError, "takes 6 arguments; found 5"),
    "rows": ("solve_rows", (0, 0.0, 2.0, Z, Z, T, T), ValueError, "x must have one entry for each of"),
    "rows of tilts": ("solve_rows", (0, 0.0, 2.0, np.zeros(4), Z, T, T), ValueError, "tilt must have one entry"),
    "thresholds": (
        "solve_rows",
        (0, 0.0, 2.0, np.zeros(4), np.zeros(4), T, np.zeros(1)),
        ValueError,
        "thresholds must",
    ),
    "rows of integers": ("solve_rows", (0, 0.0, 2.0, np.zeros(4, int), np.zeros(4), T, T), TypeError, "x must be a"),
    "kind of rows": ("solve_rows", (99, 0.0, 2.0, np.zeros(4), np.zeros(4), T, T), ValueError, "one of the 5"),
    "four": ("solve_rows", (0, 0.0, 2.0, Z), TypeError, "takes 7 arguments; found 4"),
    "root": (
        "entropy_root",
        (Z, None, 1, 0.5, 1.6, 0.37, 9, 0.0, T),
        ValueError,
        "out must have one entry for each of",
    ),
    "weights of root": (
        "entropy_root",
        (Z, T, 1, 0.5, 1.6, 0.37, 9, 0.0, Z),
        ValueError,
        "weights must have one entry",
    ),
    "rough losses": ("entropy_root", (np.zeros(3, "f4"), None, 1, 1, 1, 1, 1, 1, Z), TypeError, "z must be a vector"),
    "eight": ("entropy_root", (Z, None, 1, 0.5, 1.6, 0.37, 9, 0.0), TypeError, "takes 9 arguments; found 8"),
}


@compiled
@pytest.mark.parametrize("name", ARGUMENTS)
def test_arguments_of_the_compiled_functions(name):
    """Arrays of the wrong type or length are errors, not memory that is not theirs."""
    function, arguments, error, text = ARGUMENTS[name]
    with pytest.raises(error, match=text):
        getattr(importlib.import_module("certeq.risk._fused"), function)(*arguments)

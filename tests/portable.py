"""`make test-portable`: the suite as other machines would run it, one line a run.

A run changes what differs between machines: the kernel of the linear algebra, vector instructions, the number of
threads, the compiled file, signals, locale and time zone. Settings that have nothing to do with each other share a run.
What this machine cannot do is skipped and said.

    python -m tests.portable --list
    python -m tests.portable kernel-haswell no-vectors
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# Kernels change how sums of NumPy's and SciPy's linear algebra are ordered; only these tests do any that matters.
ALGEBRA = ("tests/optimize", "tests/portfolio", "tests/learn", "tests/risk", "tests/golden")
# As OPENBLAS_CORETYPE, and as the library names it. The wheels of NumPy and SciPy hold these; other names run as one of
# them (Zen as Haswell, Cooperlake as SkylakeX).
X86 = {
    "SkylakeX": "SkylakeX",
    "Haswell": "Haswell",
    "Sandybridge": "Sandybridge",
    "Nehalem": "Nehalem",
    "Prescott": "Katmai",
}
ARM = {name: name for name in ("NEOVERSEV1", "NEOVERSEN2", "NEOVERSEN1", "CORTEXA57", "ARMV8")}
KERNELS = X86 if platform.machine().lower() in {"x86_64", "amd64", "i686"} else ARM
LEAST = list(KERNELS)[-1]  # the one that every processor executes
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
LOCALES = ("tr_TR.UTF-8", "de_DE.UTF-8", "fr_FR.UTF-8")  # other capitals of i, a comma for the point
# A finder that comes before the others, for which the package has no compiled modules.
WITHOUT_COMPILED = """
import sys
from importlib.machinery import EXTENSION_SUFFIXES, PathFinder


class WithoutCompiled:
    def find_spec(name, path=None, target=None):
        if name.startswith("certeq."):
            found = PathFinder.find_spec(name, path)
            if found is not None and str(found.origin).endswith(tuple(EXTENSION_SUFFIXES)):
                raise ModuleNotFoundError(f"{name} is kept out", name=name)


sys.meta_path.insert(0, WithoutCompiled)
"""


@dataclass(frozen=True)
class Run:
    """Settings that share a run of the tests."""

    name: str
    what: str
    environment: dict[str, str] = field(default_factory=dict)
    kernel: str = ""
    vectors: bool = True
    compiled: bool = True
    background: bool = False
    abroad: bool = False
    tests: tuple[str, ...] = ()


def threads(count: int) -> dict[str, str]:
    return dict.fromkeys(THREADS, str(count))


def kernel(name: str, count: int) -> Run:
    what = f"BLAS kernel {name}, {count} thread{'s' if count > 1 else ''}; {', '.join(ALGEBRA)}"
    return Run(f"kernel-{name.lower()}", what, threads(count), kernel=name, tests=ALGEBRA)


RUNS = (
    Run(
        "background",
        "as a background job: SIGINT ignored, no input, no terminal; LC_ALL=C, TZ=Asia/Kolkata",
        {"LC_ALL": "C", "TZ": "Asia/Kolkata"},
        background=True,
    ),
    Run(
        "not-compiled",
        "without the compiled file; one thread; a locale with other capitals and a decimal comma; TZ=Pacific/Apia",
        {**threads(1), "TZ": "Pacific/Apia"},
        compiled=False,
        abroad=True,
    ),
    Run(
        "no-vectors",
        "NumPy and PyTorch without vector instructions beyond their baseline; BLAS kernel " + LEAST,
        {"ATEN_CPU_CAPABILITY": "default"},
        kernel=LEAST,
        vectors=False,
    ),
    *(kernel(name, 4 if i % 2 == 0 else 1) for i, name in enumerate(KERNELS) if name != LEAST),
)


class Skipped(Exception):
    """This machine cannot do it; the text says why."""


def main() -> int:
    """Run what was asked for; the exit code is 1 if anything failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.portable", description="The suite as other machines run it.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="runs; all of them if none is named")
    parser.add_argument("--workers", type=int, default=2, help="processes of pytest-xdist (default 2)")
    parser.add_argument("--list", action="store_true", help="list the runs and exit")
    asked = parser.parse_args()
    if unknown := set(asked.names) - {run.name for run in RUNS}:
        parser.error(f"no such run: {', '.join(sorted(unknown))}; there are {', '.join(run.name for run in RUNS)}.")
    if asked.list:
        print("\n".join(f"{run.name:<20} {run.what}" for run in RUNS))
        return 0
    began = time.perf_counter()
    outcomes: dict[str, int] = {"passed": 0, "failed": 0, "skipped": 0}
    folder = Path(tempfile.mkdtemp(prefix="certeq-portable-"))
    for run in RUNS:
        if asked.names and run.name not in asked.names:
            continue
        print(f"{run.name:<20} ", end="", flush=True)
        try:
            outcome, line = carried_out(run, folder, asked.workers)
        except Skipped as reason:
            outcome, line = "skipped", f"skipped: {reason}"
        outcomes[outcome] += 1
        print(line, flush=True)
    counts = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.items() if count)
    print(
        f"{sum(outcomes.values())} runs in {(time.perf_counter() - began) / 60.0:.1f} min: {counts}; logs in {folder}"
    )
    return 1 if outcomes["failed"] else 0


def carried_out(run: Run, folder: Path, workers: int) -> tuple[str, str]:
    """Run the tests; the outcome, and a line with the time, the counts and what part of the settings was skipped."""
    environment, missing = settled(run, folder)
    command = [sys.executable, "-m", "pytest", "-n", str(workers), "--dist", "loadgroup", "-p", "no:cacheprovider"]
    log = folder / f"{run.name}.log"
    began = time.perf_counter()
    with log.open("wb") as out:
        job = subprocess.Popen(
            [*command, *run.tests],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL if run.background else None,
            stdout=out,
            stderr=subprocess.STDOUT,
            preexec_fn=ignore_interrupts if run.background and os.name == "posix" else None,
        )
        try:
            code = job.wait()
        except BaseException:
            job.terminate()  # it may not have heard of Ctrl-C
            job.wait()
            raise
    text = log.read_text(encoding="utf-8", errors="replace")
    counts = re.findall(r"^(?:=+ )?((?:\d+ \w+(?:, )?)+) in [\d.]+s", text, re.MULTILINE)
    found = counts[-1] if counts else f"pytest ended with {code} and no count"
    line = f"{'ok    ' if code == 0 else 'FAILED'} {time.perf_counter() - began:5.0f} s  {found}"
    line += "".join(f"\n{'':21}(skipped: {reason})" for reason in missing)
    if code:
        line += "".join(f"\n    {failure}" for failure in re.findall(r"^(?:FAILED|ERROR) .*", text, re.MULTILINE))
    return ("passed" if code == 0 else "failed"), line


def settled(run: Run, folder: Path) -> tuple[dict[str, str], list[str]]:
    """The environment of a run, and which of its lesser settings this machine does not have."""
    environment = {**os.environ, **run.environment}
    missing = []
    if run.kernel:
        environment["OPENBLAS_CORETYPE"] = run.kernel
        try:
            check_kernel(run.kernel, environment)
        except Skipped as reason:
            if run.tests:
                raise
            missing.append(str(reason))  # the run is about more than the kernel
            del environment["OPENBLAS_CORETYPE"]
    if not run.vectors:
        environment["NPY_DISABLE_CPU_FEATURES"] = vector_features()
    if not run.compiled:
        hook = folder / "without-compiled"
        hook.mkdir(exist_ok=True)
        (hook / "sitecustomize.py").write_text(WITHOUT_COMPILED)  # every Python process imports it first
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, (str(hook), environment.get("PYTHONPATH"))))
        if "not compiled" not in (probe("from certeq.cli import main; main(['--version'])", environment) or ""):
            raise Skipped("the compiled file could not be kept out: PYTHONPATH or sitecustomize is not heeded")
    if run.abroad:
        missing += list(go_abroad(environment))
    return environment, missing


def go_abroad(environment: dict[str, str]) -> Iterator[str]:
    for name in LOCALES:
        if (
            probe("import locale; locale.setlocale(locale.LC_ALL, ''); print(1)", {**environment, "LC_ALL": name})
            == "1"
        ):
            environment["LC_ALL"] = name
            return
    environment["LC_ALL"] = "C"
    yield f"locales {', '.join(LOCALES)} are not installed; LC_ALL=C instead"


def check_kernel(name: str, environment: dict[str, str]) -> None:
    """Multiply and factor with it, in a process of its own: an instruction the processor lacks would end this one."""
    code = (
        "import numpy, scipy.linalg, threadpoolctl\n"
        "a = numpy.random.default_rng(0).random((65, 65)); scipy.linalg.cholesky(a @ a.T + numpy.eye(65))\n"
        "print(*{i['architecture'] for i in threadpoolctl.threadpool_info() if i['internal_api'] == 'openblas'})"
    )
    ran_as = probe(code, environment)
    if ran_as is None:
        raise Skipped(f"this processor cannot execute kernel {name}")
    if ran_as.lower() != KERNELS[name].lower():
        raise Skipped(f"NumPy and SciPy here have no kernel {name}: it runs as {ran_as or 'no OpenBLAS at all'}")


def vector_features() -> str:
    """What NumPy may be told to do without: all that it was not compiled to need."""
    code = (
        "from numpy._core._multiarray_umath import __cpu_dispatch__ as d, __cpu_features__ as f\n"
        "print(*[name for name in d if f[name]])"
    )
    return probe(code, dict(os.environ)) or ""


def probe(code: str, environment: dict[str, str]) -> str | None:
    """What a small program prints; None if it failed."""
    done = subprocess.run([sys.executable, "-c", code], env=environment, cwd=ROOT, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else None


def ignore_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


if __name__ == "__main__":
    sys.exit(main())

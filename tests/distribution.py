"""`make dist`: source distribution and wheel are built, checked and used as a stranger would, one line a step.

The suite runs from the unpacked source distribution, without its ``src``, against the installed wheel. Each extra is
installed alone; what it does not bring must be asked for in one line. Last, without a network and from an empty folder:
the README and ``certeq compare``.

    python -m tests.distribution --list
    python -m tests.distribution build check extras
    python -m tests.distribution build suite --tests tests/risk tests/cli
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
CONSTRAINTS = ("-c", str(ROOT / "constraints.txt"))
# What each extra brings, and what a package says that needs another one. "" is the wheel alone.
SMOKE = {
    "": "import certeq as ce; print(ce.oce([1.0, 2.0, 3.0], ce.CVaR(0.5)), ce.minimize.__name__)",
    "torch": "import torch, certeq as ce; from certeq.torch import OCELoss; OCELoss(ce.CVaR(0.1))(torch.ones(9))",
    "portfolio": "from skfolio.datasets import load_sp500_dataset\n"
    "from skfolio.preprocessing import prices_to_returns\n"
    "import certeq as ce; from certeq.portfolio import MinimumOCE\n"
    "MinimumOCE(ce.CVaR(0.05)).fit(prices_to_returns(load_sp500_dataset()[-300:]))",
    "learn": "import certeq as ce, numpy as np; from certeq.learn import OCERegressor\n"
    "OCERegressor(ce.CVaR(0.5)).fit(np.arange(20.0)[:, None], np.arange(20.0))",
    "dask": "import dask.array as da, certeq as ce; print(ce.oce(da.ones(100, chunks=10), ce.CVaR(0.1)))",
    "cli": "from certeq.cli import main; main(['utilities'])",
    "all": "import certeq.torch, certeq.portfolio, certeq.learn, certeq.scale, certeq.report, certeq.cli",
}
# The import that needs an extra, the package it stands on, and the line that names the extra.
NEEDS = {
    "certeq.torch": ("torch", "certeq[torch]"),
    "certeq.portfolio": ("skfolio", "certeq[portfolio]"),
    "certeq.learn": ("sklearn", "certeq[learn]"),
    "certeq.scale": ("dask", "certeq[dask]"),
    "certeq.cli": ("typer", "certeq[cli]"),
}
# Files in a checkout that a source distribution leaves out.
NOT_SHIPPED = re.compile(r"\.(gitignore|gitattributes|pre-commit-config\.yaml)$")


class Failed(Exception):
    """What was wrong; the text says it."""


def run(*command: str | Path, cwd: Path | None = None, env: dict[str, str] | None = None, quiet: bool = True) -> str:
    """What a command printed; Failed, with the end of it, where it did not end with 0."""
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    if done.returncode:
        raise Failed(f"{' '.join(map(str, command[:6]))} ended with {done.returncode}:\n{done.stdout[-6000:]}")
    return done.stdout


def clean_environment(folder: Path) -> dict[str, str]:
    """Without what points to this checkout; a home of its own, so that no cache of data helps."""
    dropped = ("PYTHONPATH", "VIRTUAL_ENV", "SKFOLIO_DATA")
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    return {**kept, "HOME": str(folder), "PYTHONNOUSERSITE": "1"}


class Distribution:
    """The two files, the environments they are installed into, and the steps."""

    def __init__(self, folder: Path, workers: int, tests: list[str]) -> None:
        self.folder = folder
        self.workers = workers
        self.tests = tests
        self.made: dict[str, Path] = {}

    @property
    def wheel(self) -> Path:
        return newest("*.whl")

    @property
    def source(self) -> Path:
        return newest("*.tar.gz")

    def unpacked(self) -> Path:
        """The source distribution without the package, so that only the installed one can be imported."""
        target = self.folder / "unpacked"
        if not target.exists():
            with tarfile.open(self.source) as archive:
                archive.extractall(target, filter="data")
            (tree,) = target.iterdir()
            shutil.rmtree(tree / "src")
        return next(target.iterdir())

    def environment(self, extras: str, *more: str) -> Path:
        """The interpreter of a fresh environment with the wheel and these extras."""
        name = extras or "bare"
        if name not in self.made:
            home = self.folder / f"venv-{name.replace(',', '-')}"
            run(sys.executable, "-m", "venv", "--without-pip", home)
            python = home / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
            pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(python), "install", "-q"]
            if re.search("torch|all", extras):
                run(*pip, *CONSTRAINTS, "torch")  # pinned, as in the Makefile
            run(*pip, *CONSTRAINTS, f"certeq[{extras}] @ {self.wheel.as_uri()}" if extras else str(self.wheel))
            for requirement in more:
                run(*pip, *CONSTRAINTS, "--no-deps", requirement)
            self.made[name] = python
        return self.made[name]

    def build(self) -> str:
        """Build both, the wheel from the source distribution."""
        shutil.rmtree(DIST, ignore_errors=True)
        run(sys.executable, "-m", "build", "--outdir", DIST, ROOT)
        return f"{self.source.name}, {self.wheel.name}"

    def check(self) -> str:
        """Metadata, contents, the limited API, and that nothing tracked is left out."""
        run(sys.executable, "-m", "twine", "check", "--strict", self.wheel, self.source)
        run(Path(sys.executable).with_name("check-wheel-contents"), self.wheel)
        tags = self.wheel.stem.split("-")
        if tags[2:4] != ["cp311", "abi3"]:
            raise Failed(f"the wheel must be tagged cp311-abi3; found {self.wheel.name}: was there no compiler?")
        said = run(sys.executable, "-m", "abi3audit", "--strict", "--verbose", self.wheel)
        with zipfile.ZipFile(self.wheel) as archive:
            inside = set(archive.namelist())
        with tarfile.open(self.source) as source:
            shipped = {name.partition("/")[2] for name in source.getnames()}
        tracked = run("git", "ls-files", cwd=ROOT).split("\n")
        missing = [name for name in tracked if name and name not in shipped and not NOT_SHIPPED.search(name)]
        packaged = [name.removeprefix("src/") for name in tracked if name.startswith("src/") and name[-2:] != ".c"]
        missing += [name for name in packaged if name not in inside]
        if missing:
            raise Failed(f"not shipped: {', '.join(missing[:20])}")
        found = re.search(r"\d+ ABI version mismatches and \d+ ABI violations", " ".join(said.split()))
        if found is None:
            raise Failed(f"abi3audit was not understood: {said}")
        return f"{len(inside)} files in the wheel, {len(shipped)} in the source; {found[0]}"

    def suite(self) -> str:
        """The whole suite, doctests included, against the installed wheel."""
        python = self.environment("all,test,lint,docs", "pfhedge")
        tree, environment = self.unpacked(), clean_environment(self.folder)
        where = run(python, "-c", "import certeq; print(certeq.__path__[0])", cwd=tree, env=environment).strip()
        if "site-packages" not in where or self.folder.resolve() not in Path(where).resolve().parents:
            raise Failed(f"certeq is imported from {where}, not from the wheel.")
        asked = self.tests or ["tests", where]
        said = run(
            python, "-m", "pytest", "-n", str(self.workers), "--dist", "loadgroup", "-p", "no:cacheprovider",
            *asked, cwd=tree, env=environment,
        )  # fmt: skip
        return said.strip().splitlines()[-1]

    def extras(self) -> str:
        """Each extra alone: it works, and what it does not bring is asked for in one line."""
        empty = self.folder / "empty-extras"
        empty.mkdir(exist_ok=True)
        environment = clean_environment(self.folder)
        for extra, code in SMOKE.items():
            python = self.environment(extra)
            run(python, "-c", code, cwd=empty, env=environment)
            for module, (needed, named) in NEEDS.items():
                has = f"import importlib.util as u; print(u.find_spec({needed!r}) is not None)"
                if run(python, "-c", has, env=environment).strip() == "True":
                    continue
                code = "from certeq.cli import main; main([])" if module == "certeq.cli" else f"import {module}"
                asked = subprocess.run([python, "-c", code], capture_output=True, text=True, cwd=empty, env=environment)
                last = (asked.stderr.strip().splitlines() or [""])[-1]
                if asked.returncode == 0 or named not in last:
                    raise Failed(f"with certeq[{extra}] alone, {module} says {last!r}, which does not name {named}.")
        return f"{len(SMOKE)} environments"

    def offline(self) -> str:
        """Without a network, from an empty folder, with the wheel and its extras: README and compare."""
        python, readme = self.environment("all"), self.unpacked() / "README.md"
        snippets = re.findall(r"```python\n(.*?)```", readme.read_text(encoding="utf-8"), flags=re.DOTALL)
        empty = Path(tempfile.mkdtemp(prefix="empty-", dir=self.folder))
        environment = clean_environment(empty) | dict.fromkeys(("http_proxy", "https_proxy"), "http://127.0.0.1:9")
        alone = without_network()
        began = time.perf_counter()
        run(*alone, python, "-c", "\n".join(snippets), cwd=empty, env=environment)
        run(*alone, python, "-m", "certeq", "compare", cwd=empty, env=environment)
        if not (empty / "certeq-report.html").exists():
            raise Failed("certeq compare wrote no report.")
        network = "" if alone else " (the network was there)"
        return f"{len(snippets)} snippets and compare in {time.perf_counter() - began:.0f} s{network}"


def newest(pattern: str) -> Path:
    """The one file of that kind."""
    found = sorted(DIST.glob(pattern))
    if len(found) != 1:
        raise Failed(f"dist must hold one {pattern}; found {len(found)}. Run the step build first.")
    return found[0]


def without_network() -> list[str]:
    """A prefix that takes the network from a command, where the system has one."""
    prefix = ["unshare", "--net", "--map-root-user"]
    try:
        subprocess.run([*prefix, "true"], check=True, capture_output=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return []
    return prefix


def main() -> int:
    """Take the steps asked for, in order; the exit code is 1 as soon as one fails."""
    parser = argparse.ArgumentParser(prog="python -m tests.distribution", description="The wheel as strangers use it.")
    parser.add_argument("names", nargs="*", metavar="STEP", help="steps; all of them if none is named")
    parser.add_argument("--workers", type=int, default=2, help="processes of pytest-xdist (default 2)")
    parser.add_argument(
        "--tests", nargs="+", default=[], metavar="PATH", help="the step suite runs these only; all of them by default"
    )
    parser.add_argument("--list", action="store_true", help="list the steps and exit")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="certeq-dist-") as folder:
        made = Distribution(Path(folder), asked.workers, asked.tests)
        steps: dict[str, Callable[[], str]] = {
            step.__name__: step for step in (made.build, made.check, made.extras, made.offline, made.suite)
        }
        if unknown := set(asked.names) - set(steps):
            parser.error(f"no such step: {', '.join(sorted(unknown))}; there are {', '.join(steps)}.")
        if asked.list:
            print("\n".join(f"{name:<10} {step.__doc__}" for name, step in steps.items()))
            return 0
        for name, step in steps.items():
            if asked.names and name not in asked.names:
                continue
            began = time.perf_counter()
            print(f"{name:<10} ", end="", flush=True)
            try:
                line = step()
            except Failed as error:
                print(f"failed after {time.perf_counter() - began:.0f} s\n{error}")
                return 1
            print(f"{line} ({time.perf_counter() - began:.0f} s)", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

"""Mutation testing: plant small mistakes in one file, and count those that the tests find.

    python -m tests.mutation --trace                  # once: which test executes which line (pip install pytest-cov)
    python -m tests.mutation --count 100 FILE ...     # relative to src/certeq; all of FILES without a name

For each mutant only the tests that execute its line run, the fastest first, up to 60 seconds of their usual time. The
run stops at the first failure; one that takes three times as long does not end because of the mutant, which counts as
found. Mutants are drawn by a hash of their text, so that a change of the file leaves the others in the sample.
Missed mutants are printed. When a file is done, its figures go to stderr and to tests/mutation.csv, where they replace
earlier ones of the file and seed.
"""

from __future__ import annotations

import argparse
import ast
import csv
import functools
import hashlib
import importlib
import io
import json
import multiprocessing
import os
import re
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
TRACE = ROOT / ".mutation"  # results of --trace
FILES = (
    "portfolio/_problem.py",
    "torch/_tensor.py",
    "torch/_ranks.py",
    "optimize/exact/_certificate.py",
    "optimize/sg/_run.py",
    "optimize/domains/_budget.py",
    "risk/_vector.py",
    "risk/_estimate.py",
    "utilities/forms.py",
    "data/_prices.py",
)
# Tests that run the file in processes of their own, where the trace sees nothing: they count for all of its lines.
ELSEWHERE = {"torch/_ranks.py": "tests.torch.test_distributed"}
FORK = multiprocessing.get_context("fork")
SECONDS = 60.0  # usual time of the tests that run for one mutant
PRELOADED = (
    "numpy",
    "scipy.optimize",
    "scipy.stats",
    "torch",
    "pandas",
    "sklearn.linear_model",
    "skfolio",
    "hypothesis",
)
NOT_IN: type = type(ast.parse("a not in b", mode="eval").body.ops[0])
OTHER: dict[type, type] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: NOT_IN, NOT_IN: ast.In, ast.And: ast.Or, ast.Or: ast.And,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Pow: ast.Mult, ast.MatMult: ast.Mult,
    ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip
NAMES = {"min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum", "any": "all", "all": "any"}


# -- mutants ----------------------------------------------------------------------------------------------------------


def mutations(node: ast.AST) -> Iterator[ast.expr]:
    """Yield the expressions that may stand in place of an expression."""
    match node:
        case ast.Compare(left, [op, *ops], comparators):
            yield ast.Compare(left, [OTHER[type(op)](), *ops], comparators)
        case ast.BoolOp(op, values):
            yield ast.BoolOp(OTHER[type(op)](), values)
        case ast.BinOp(left, op, right) if type(op) in OTHER:
            yield ast.BinOp(left, OTHER[type(op)](), right)
        case ast.UnaryOp(ast.Not() | ast.USub(), operand):
            yield operand
        case ast.Constant(bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(int(value) | float(value)):
            yield ast.Constant(value + 1)
        case ast.IfExp(_, body, orelse):
            yield from (body, orelse)
        case ast.Call(ast.Name(name), args, keywords) if name in NAMES:
            yield ast.Call(ast.Name(NAMES[name]), args, keywords)
        case ast.Call(ast.Attribute(value, name), args, keywords) if name in NAMES:
            yield ast.Call(ast.Attribute(value, NAMES[name]), args, keywords)


def mutants(path: Path, count: int, seed: int) -> list[tuple[int, str, str]]:
    """Return line, description and source of up to `count` mutants of a file."""
    source = path.read_text()
    lines, found = source.splitlines(keepends=True), []
    seen: Counter[str] = Counter()

    def visit(node: ast.AST, where: str) -> None:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            where = f"{where}.{node.name}"
        for field, child in ast.iter_fields(node):
            for part in child if isinstance(child, list) else [child]:
                if isinstance(part, ast.AST) and field not in ("annotation", "returns", "decorator_list"):
                    visit(part, where)
        for other in mutations(node):
            text, new = ast.unparse(node), ast.unparse(other)
            label = f"{where}: {text} -> {new}"
            seen[label] += 1
            key = hashlib.sha1(f"{seed} {label} {seen[label]}".encode()).hexdigest()
            first, last = node.lineno - 1, node.end_lineno - 1
            head = lines[first].encode()[: node.col_offset].decode()
            tail = lines[last].encode()[node.end_col_offset :].decode()
            changed = [*lines[:first], f"{head}({new}){tail}", *lines[last + 1 :]]
            found.append((key, node.lineno, label.lstrip("."), "".join(changed)))

    visit(ast.parse(source), "")
    return [mutant[1:] for mutant in sorted(found)[:count]]


# -- tests ------------------------------------------------------------------------------------------------------------


def plain(nodeid: str) -> str:
    """Return a test's name without the group that pytest-xdist appends."""
    return re.sub(r"@[\w-]+$", "", nodeid)


def trace(workers: int) -> None:
    """Record which test executes which lines of FILES, and the time of each test."""
    shutil.rmtree(TRACE, ignore_errors=True)
    TRACE.mkdir()
    include = ",".join(str(ROOT / "src" / "certeq" / name) for name in FILES)
    (TRACE / "rc").write_text(f"[run]\ndata_file = {TRACE / 'coverage'}\ninclude = {include}\n")
    coverage = ["--cov", f"--cov-config={TRACE / 'rc'}", "--cov-context=test", "--cov-report="]
    report = f"--junit-xml={TRACE / 'times.xml'}"
    command = [sys.executable, "-m", "pytest", "tests", "-n", str(workers), "--dist", "loadgroup", *coverage, report]
    subprocess.run(command, cwd=ROOT, check=False)


@functools.cache
def times() -> dict[tuple[str, str], float]:
    """Return the time of each test by its class name and name in the report."""
    from xml.etree import ElementTree

    cases = ElementTree.parse(TRACE / "times.xml").iter("testcase")
    return {(plain(c.attrib["classname"]), plain(c.attrib["name"])): float(c.attrib["time"]) for c in cases}


def tests_of(path: Path, line: int) -> list[str]:
    """Return the tests that execute a line, the fastest first, up to SECONDS in all."""
    with sqlite3.connect(TRACE / "coverage") as data:
        rows = data.execute(
            "select context, numbits from line_bits join file on file.id = file_id join context on context.id = "
            "context_id where path = ?",
            (str(path),),
        ).fetchall()
    tests = {
        plain(name.rpartition("|")[0])
        for name, bits in rows
        if line // 8 < len(bits) and bits[line // 8] >> line % 8 & 1
    }

    own = ELSEWHERE.get(path.relative_to(ROOT / "src" / "certeq").as_posix())
    tests |= {f"{file.replace('.', '/')}.py::{name}" for file, name in times() if file == own}

    def taken(test: str) -> float:
        file, _, name = test.partition("::")
        return times().get((file.removesuffix(".py").replace("/", "."), name), 1.0)

    chosen, total = [], 0.0
    for test in sorted(tests - {""}, key=lambda test: (taken(test), test)):
        total += taken(test)
        if total > SECONDS:
            break
        chosen.append(test)
    return chosen


class Selection:
    """A plugin of pytest that keeps the given tests, in their order."""

    def __init__(self, tests: list[str]) -> None:
        self.order = {test: number for number, test in enumerate(tests)}

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        items[:] = sorted((i for i in items if i.nodeid in self.order), key=lambda i: self.order[i.nodeid])


def run(tests: list[str], scratch: Path) -> None:
    """Run tests against a copy of the source, in a forked process; exit with pytest's code."""
    import pytest

    sys.path.insert(0, str(scratch))
    os.environ["PYTHONPATH"] = str(scratch)
    os.chdir(ROOT)
    resource.setrlimit(resource.RLIMIT_CPU, (int(3 * SECONDS), int(3 * SECONDS)))
    with open(os.devnull, "w") as nothing:
        os.dup2(nothing.fileno(), 1)
        os.dup2(nothing.fileno(), 2)
    files = sorted({test.partition("::")[0] for test in tests})
    os._exit(
        int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-p", "no:cov", *files], plugins=[Selection(tests)]))
    )


def caught(job: tuple[str, int, str, str]) -> tuple[str, str, bool]:
    """Return file, description and whether a test fails with the mutant of a file in place."""
    name, line, label, source = job
    path = ROOT / "src" / "certeq" / name
    tests = tests_of(path, line)
    if not tests:
        return name, label, False
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT / "src", folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
        (Path(folder) / "certeq" / name).write_text(source)
        child = FORK.Process(target=run, args=(tests, Path(folder)))
        child.start()
        child.join(10 * SECONDS)
        ended = child.exitcode is not None
        child.kill()
        child.join()
    return name, label, not ended or child.exitcode not in (0, 4, 5)  # 4 and 5: no such test


def work(jobs: list[tuple[str, int, str, str]], results: Any) -> None:
    """Put the result of each job into a queue."""
    for job in jobs:
        results.put(caught(job))


def store(name: str, seed: int, count: int, found: int) -> None:
    """Write the figures of one file to tests/mutation.csv, in place of earlier ones with its name and seed."""
    path = ROOT / "tests" / "mutation.csv"
    with open(path, newline="") if path.exists() else io.StringIO() as file:
        rows = [row for row in csv.reader(file) if row[:2] not in (["file", "seed"], [name, str(seed)])]
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([["file", "seed", "mutants", "caught"], *rows, [name, seed, count, found]])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", metavar="FILE", default=FILES)
    parser.add_argument("--trace", action="store_true")
    parser.add_argument("--count", type=int, default=100, help="mutants of each file")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()
    if args.trace:
        return trace(args.workers)
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[variable] = "1"
    for module in PRELOADED:
        importlib.import_module(module)
    drawn = {name: mutants(ROOT / "src" / "certeq" / name, args.count, args.seed) for name in args.files}
    jobs = [(name, *mutant) for name in args.files for mutant in drawn[name]]
    left, found = Counter(job[0] for job in jobs), Counter[str]()
    missed = []
    results: Any = FORK.Queue()
    for part in range(args.workers):
        FORK.Process(target=work, args=(jobs[part :: args.workers], results)).start()
    for _ in jobs:
        name, label, was_caught = results.get()
        left[name] -= 1
        found[name] += was_caught
        if not was_caught:
            missed.append(f"{name} {label}")
            print("missed", missed[-1], flush=True)
            (TRACE / "missed.json").write_text(json.dumps(sorted(missed), indent=1))
        if not left[name]:
            print(f"{name}: {found[name]} of {len(drawn[name])} caught", file=sys.stderr, flush=True)
            store(name, args.seed, len(drawn[name]), found[name])


if __name__ == "__main__":
    main()

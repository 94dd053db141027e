"""The source as text: one name for one thing, and the ordinary words of the field for it."""

from __future__ import annotations

import ast
import re
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest

import certeq

ROOT = Path(__file__).resolve().parents[1]
SOURCE = Path(certeq.__file__).parent
READ = ("*.py", "*.c", "*.rst", "*.md", "Makefile")

# Words that had a meaning of their own in this project, and what to say instead.
WORDS = {
    "room": "package; space, slack, tolerance",
    "bend": "curvature",
    "bent": "curved, kinked",
    "pull": "gradient, column_sums",
    "fan": "evenly spaced trial points",
    "elsewhere": "otherwise; remote",
    "worth": "value, cost",
    "lever": "slope_times_point",
    "idle": "zero weight; stalled",
    "hug": "same point",
    "zoom": "rescaled interior method",
    "lift": "extended form; correction",
}
# Names only, as both are ordinary English in a sentence.
NAMES = {"place": "index, rank, position, location", "held": "counted, kept, nonzero, support"}
ALLOWED = {
    "bend": {
        "certeq/utilities/forms.py",
        "certeq/risk/_vector.py",
        "certeq/optimize/exact/_risk.py",
        "certeq/risk/_inner.py",
    },  # Quadratic.bend
    "lift": {"certeq/utilities/_differentiate.py"},  # a number as a jet: what automatic differentiation calls it
    "zoom": {"certeq/report/_charts_holdings.py"},  # of a chart
    "room": {"certeq/cli/_console.py", "tests/cli/test_widths.py"},  # on the screen
    "pull": {"Makefile"},
    "idle": {"benchmarks/bench_sg.py", "tests/optimize/test_exact_hard.py"},  # a machine
}


def tracked() -> list[Path]:
    """The files that are written by hand."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *READ],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    if listed.returncode:
        pytest.skip("not a checkout")
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def parts(name: str) -> list[str]:
    """The words of an identifier, without a plural s."""
    words = re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)
    return [word.lower().removesuffix("s") for word in words]


def names_in(tree: ast.Module) -> set[str]:
    """Every name that a file gives to something."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
    return found


def test_no_class_name_is_used_twice():
    found = defaultdict(list)
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                found[node.name.lstrip("_")].append(f"{path.relative_to(SOURCE)}:{node.lineno}")
    assert {name: where for name, where in found.items() if len(where) > 1} == {}


def test_ordinary_words():
    found = []
    for path in tracked():
        if path == Path(__file__):
            continue
        where = path.relative_to(ROOT).as_posix()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            for word in {word for name in re.findall(r"[A-Za-z_]+", line) for word in parts(name)} & set(WORDS):
                if not any(where.endswith(end) for end in ALLOWED.get(word, ())):
                    found.append(f"{where}:{number}: {word} (say {WORDS[word]})")
    assert not found, "\n".join(found)


# What a portfolio holds is held, and these names are public.
HOLDINGS = ("portfolio", "report", "cli", "paper")
PUBLIC = {"places": "report/_study.py", "place": "torch/_loss.py"}


def test_ordinary_names():
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        where = path.relative_to(SOURCE).as_posix()
        for name in names_in(ast.parse(path.read_text(encoding="utf-8"))):
            for word in set(parts(name)) & set(NAMES):
                if word == "held" and where.startswith(HOLDINGS):
                    continue
                if PUBLIC.get(name) != where:
                    found.append(f"{where}: {name} (say {NAMES[word]})")
    assert not found, "\n".join(found)

"""Names in the source: one name for one thing, and the ordinary words of the field for it."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

import certeq

SOURCE = Path(certeq.__file__).parent
TREES = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(SOURCE.rglob("*.py"))}

# Words that had a meaning of their own in this project, and what to write instead.
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
    "place": "index, rank, position, location",
    "held": "counted, kept, nonzero, support",
}
# Quadratic.bend, a number lifted to a jet, places on a torch loss and in a study, and what a portfolio holds.
ALLOWED = {"bend", "lift", "lifted", "place", "places"}
HOLDINGS = ("portfolio", "report", "cli")


def names_in(tree: ast.Module) -> set[str]:
    """Return every name that a file gives to something."""
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
    for path, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                found[node.name.lstrip("_")].append(f"{path.relative_to(SOURCE)}:{node.lineno}")
    assert {name: where for name, where in found.items() if len(where) > 1} == {}


def test_ordinary_names():
    found = []
    for path, tree in TREES.items():
        where = path.relative_to(SOURCE).as_posix()
        for name in names_in(tree) - ALLOWED:
            words = {word.lower().removesuffix("s") for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}
            for word in words & set(WORDS) - ({"held"} if where.startswith(HOLDINGS) else set()):
                found.append(f"{where}: {name} (say {WORDS[word]})")
    assert not found, "\n".join(found)

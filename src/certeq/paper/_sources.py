"""What a result was computed from: a digest of the definitions of `certeq.paper` that a function reaches.

A definition counts where a function names it, through other definitions and across modules. Docstrings, comments and
layout do not count, nor does what nothing names: a change to another experiment leaves a result as it is. A file of
data that a definition names counts with its contents.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import sys
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

PACKAGE = "certeq.paper"
DATA = Path(__file__).parent / "data"


def sources_digest(function: Callable[..., Any]) -> str:
    """Of the definitions that a function reaches; of ``partial(f, ...)`` those of f."""
    while isinstance(function, partial):
        function = function.func
    return _digest(function.__module__, function.__qualname__)


@cache
def _digest(module: str, name: str) -> str:
    digest = hashlib.sha256()
    for where, what in sorted(reached(module, name)):
        node = _definitions(where)[what]
        digest.update(f"{where}.{what}\n{ast.unparse(node)}\n".encode())
        for path in _data_files(node):
            digest.update(path.name.encode() + b"\n" + path.read_bytes())
    return digest.hexdigest()[:16]


def _data_files(node: ast.AST) -> list[Path]:
    """The files of this package whose paths a definition spells out."""
    names = {part.value for part in ast.walk(node) if isinstance(part, ast.Constant) and isinstance(part.value, str)}
    found = (DATA.parent / name for name in sorted(names) if name.startswith(f"{DATA.name}/"))
    return [path for path in found if path.is_file()]


def reached(module: str, name: str) -> set[tuple[str, str]]:
    """The definitions, as (module, name), that one of them names directly or through others."""
    found: set[tuple[str, str]] = set()
    waiting = [(module, name)]
    while waiting:
        where, what = waiting.pop()
        if (where, what) in found or what not in _definitions(where):
            continue
        found.add((where, what))
        waiting += _named(where, _definitions(where)[what])
    return found


def _named(module: str, node: ast.AST) -> Iterator[tuple[str, str]]:
    """What a definition names: of its own module, and of those that it imports."""
    imports = {**_imports(module), **dict(_imported(node))}
    for part in ast.walk(node):
        if isinstance(part, ast.Name) and part.id in imports:
            yield imports[part.id]
        elif isinstance(part, ast.Name):
            yield module, part.id
        elif isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name):
            where, what = imports.get(part.value.id, ("", ""))
            if _is_ours(f"{where}.{what}"):  # a module of ours by its name: bounds.two_points
                yield f"{where}.{what}", part.attr


@cache
def _definitions(module: str) -> dict[str, ast.AST]:
    """The functions, classes and assignments at the top of a module, without docstrings."""
    found: dict[str, ast.AST] = {}
    for node in _tree(module).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found[node.name] = node
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                for part in ast.walk(target):
                    if isinstance(part, ast.Name):
                        found[part.id] = node
    return found


@cache
def _imports(module: str) -> dict[str, tuple[str, str]]:
    """Names at the top of a module that stand for something of this package: (module, name)."""
    return {alias: where for node in _tree(module).body for alias, where in _imported(node)}


def _imported(node: ast.AST) -> Iterator[tuple[str, tuple[str, str]]]:
    for part in ast.walk(node):
        if isinstance(part, ast.ImportFrom) and part.module and f"{part.module}.".startswith(f"{PACKAGE}."):
            for alias in part.names:
                yield alias.asname or alias.name, (part.module, alias.name)


@cache
def _tree(module: str) -> ast.Module:
    path = _path(module)
    tree = ast.parse(path.read_text(encoding="utf-8")) if path else ast.Module([], [])
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return tree


def _is_ours(module: str) -> bool:
    return f"{module}.".startswith(f"{PACKAGE}.") and _path(module) is not None


@cache
def _path(module: str) -> Path | None:
    """The file of a module of this package, or of one that is loaded already (a test's); nothing is imported."""
    known = getattr(sys.modules.get(module), "__file__", None)
    if known:
        return Path(known)
    if not f"{module}.".startswith(f"{PACKAGE}."):
        return None
    try:
        spec = importlib.util.find_spec(module)
    except ModuleNotFoundError:
        return None
    return Path(spec.origin) if spec and spec.origin else None

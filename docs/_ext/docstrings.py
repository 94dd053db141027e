"""Docstrings as read in a terminal, made fit for Sphinx: |x| is an absolute value there, not a substitution.

A constant has no docstring of its own (that of a tuple is the tuple type's): it is documented by the string under its
assignment, which is looked up here. A method that overrides a documented one of a public class shows its Parameters and
Returns. Base classes are shown where a reader can look them up, and signatures where a reader calls something.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

from api_pages import public_classes
from sphinx.application import Sphinx

_LITERAL = re.compile(r"(``.+?``|:math:`[^`]*`|`[^`]*`)", re.DOTALL)  # may run over the end of a line
_NOT_OURS = re.compile(r"set_\w+_request$")  # scikit-learn writes these onto every estimator, with its own references


def escape_bars(lines: list[str]) -> None:
    """Escape bars outside of literals, formulas and examples, in place."""
    formula: int | None = None  # indentation of the math directive we are inside of
    start = 0
    while start < len(lines):
        stop = next((i for i in range(start, len(lines)) if not lines[i].strip()), len(lines))
        block = lines[start:stop]
        if block:
            depth = len(block[0]) - len(block[0].lstrip())
            first = block[0].lstrip()
            formula = (
                depth if first.startswith(".. math::") else formula if formula is not None and depth > formula else None
            )
            if formula is None and not first.startswith(">>>"):
                parts = _LITERAL.split("\n".join(block))
                joined = "".join(part if k % 2 else part.replace("|", r"\|") for k, part in enumerate(parts))
                lines[start:stop] = joined.split("\n")
        start = stop + 1


def documentation(package: str, name: str) -> str:
    """What is said of a public name: its docstring, or for a constant the string under its assignment."""
    thing = getattr(importlib.import_module(package), name)
    if inspect.isclass(thing) or inspect.isroutine(thing) or inspect.ismodule(thing):
        return inspect.getdoc(thing) or ""
    return _under_assignment(package, name)


def members(thing: type) -> list[str]:
    """Methods and properties that a class writes itself: what its page shows."""
    kinds = (property, classmethod, staticmethod)
    return [
        name
        for name, member in vars(thing).items()
        if not name.startswith("_") and (inspect.isfunction(member) or isinstance(member, kinds))
    ]


def overridden(thing: type, name: str) -> Any:
    """The method or property of a public class that a member overrides; None where there is none."""
    found = (vars(base)[name] for base in thing.__mro__[1:] if base in public_classes() and name in vars(base))
    return next(found, None)


def inherited_sections(doc: str, of_base: str) -> str:
    """A docstring, with the Parameters and Returns of the one that it overrides where it has none."""
    said = [part for part in ("Parameters", "Returns") if f"\n{part}\n{'-' * len(part)}\n" not in f"\n{doc}"]
    blocks = re.split(r"\n\n(?=[A-Z][A-Za-z ]+\n---+\n)", inspect.cleandoc(of_base))[1:]
    return "\n\n".join([doc.rstrip(), *(block for block in blocks if block.split("\n")[0] in said)])


def _under_assignment(package: str, name: str) -> str:
    where = Path(str(importlib.import_module(package).__file__))
    for path in [where, *sorted(where.parent.glob("*.py"))] if where.name == "__init__.py" else [where]:
        body = ast.parse(path.read_text(encoding="utf-8")).body
        for statement, following in pairwise(body):
            targets = getattr(statement, "targets", [getattr(statement, "target", None)])
            said = isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant)
            if said and any(isinstance(target, ast.Name) and target.id == name for target in targets):
                return inspect.cleandoc(str(following.value.value))
    return ""


def _constants(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    if what == "data":
        lines[:] = _under_assignment(*name.rsplit(".", 1)).split("\n")


def _overrides(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    if what not in ("method", "property"):
        return
    for owner, public in public_classes().items():
        if name == f"{public}.{name.rsplit('.', 1)[1]}":
            base = overridden(owner, name.rsplit(".", 1)[1])
            if inspect.isfunction(base) and base.__doc__:
                lines[:] = inherited_sections("\n".join(lines), base.__doc__).split("\n")


def _bases(app: Sphinx, name: str, thing: type, options: Any, bases: list[Any]) -> None:
    """Public classes as links, those of libraries by name; private ones and mixins of ours by what they are made of."""
    shown: list[str] = []
    for base in thing.__mro__[1:]:
        if base in public_classes():
            shown.append(f":py:class:`{public_classes()[base]}`")
            break
        if base.__module__.split(".")[0] not in ("certeq", "builtins", "abc", "typing", "collections"):
            # Of a library: by the name that its own pages have, without private modules.
            public = ".".join(part for part in base.__module__.split(".") if not part.startswith("_"))
            shown.append(f"``{public}.{base.__qualname__}``")
            break
        if base.__module__ == "builtins" and base is not object:
            shown.append(f"``{base.__qualname__}``")
            break
    bases[:] = shown or ["``object``"]


def _signature(
    app: Sphinx, what: str, name: str, thing: Any, options: Any, signature: str | None, returns: str | None
) -> tuple[str, None] | None:
    """No signature where calls make the object (it has Attributes alone), or where only a library's takes arguments."""
    if what != "class" or not inspect.isclass(thing):
        return None
    doc = inspect.getdoc(thing) or ""
    return ("", None) if "Parameters\n----------\n" not in doc else None


def _process(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    escape_bars(lines)


def _skip(app: Sphinx, what: str, name: str, thing: Any, skip: bool, options: Any) -> bool | None:
    return True if _NOT_OURS.match(name) else None


def true_backlinks(body: str, prefix: str, used: dict[str, str], pages: dict[str, str]) -> str:
    """Source page whose links back lead to where its names are documented.

    viewcode looks for all names of a module under one prefix; some are under another (``certeq``, ``certeq.optimize``).
    ``used`` has the page of each name and ``pages`` that of each documented object.
    """
    for name, page in used.items():
        if f"{prefix}.{name}" not in pages:
            for full in (full for full, where in pages.items() if where == page and full.endswith(f".{name}")):
                body = body.replace(f'#{prefix}.{name}"', f'#{full}"')
    return body


def _source_page(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    entry = getattr(app.env, "_viewcode_modules", {}).get(page.removeprefix("_modules/").replace("/", "."))
    if page.startswith("_modules/") and entry:
        pages = {name: found.docname for name, found in app.env.get_domain("py").objects.items()}
        context["body"] = true_backlinks(context["body"], entry[3], entry[2], pages)


def setup(app: Sphinx) -> dict[str, Any]:
    """Constants and overrides before numpydoc lays the sections out, bars after it has."""
    app.connect("autodoc-process-docstring", _constants, priority=100)
    app.connect("autodoc-process-docstring", _overrides, priority=200)
    app.connect("autodoc-process-bases", _bases)
    app.connect("autodoc-process-signature", _signature)
    app.connect("autodoc-process-docstring", _process, priority=900)
    app.connect("autodoc-skip-member", _skip)
    app.connect("html-page-context", _source_page)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

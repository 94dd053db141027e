"""Every public docstring by numpydoc's own checks: ``python -m tests.docs.validation``, a part of ``make lint``.

Which checks are on is said in pyproject.toml, with the reasons. What the pages of the reference show is looked at: the
public names, and the methods and properties that a public class writes itself.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from numpydoc.docscrape import ClassDoc
from numpydoc.hooks.validate_docstrings import parse_config
from numpydoc.validate import validate

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "docs" / "_ext"))  # as docs/conf.py does

import api_pages as pages  # noqa: E402
import docstrings  # noqa: E402

CHECKS: set[str] = parse_config(ROOT)["checks"]
# Related names and an example stand once on the page of a class, not at each of its methods.
ONCE_A_PAGE = {"SA01", "EX01"}
# A method that overrides a documented one of a public class has its parameters and its result; the page repeats them.
OF_THE_BASE = {"PR01", "RT01"}


def complaints(package: str, name: str) -> Iterator[str]:
    """What numpydoc finds missing in the docstring of a public name and of its members."""
    thing = getattr(importlib.import_module(package), name)
    if not inspect.isclass(thing) and not inspect.isroutine(thing):
        yield from _of_constant(f"{package}.{name}", docstrings.documentation(package, name))
        return
    off = {"PR01"} if inspect.isclass(thing) and not _undocumented(thing) else set()
    yield from _checked(f"{package}.{name}", off)
    for member in docstrings.members(thing) if inspect.isclass(thing) else ():
        inherited = OF_THE_BASE if docstrings.overridden(thing, member) is not None else set()
        yield from _checked(f"{package}.{name}.{member}", ONCE_A_PAGE | inherited)


def _checked(name: str, off: set[str]) -> Iterator[str]:
    return (f"{name}: {code} {text}" for code, text in validate(name)["errors"] if code in CHECKS - off)


def _undocumented(thing: type) -> set[str]:
    """Arguments of a class that neither its Parameters nor, where calls of functions make it, its Attributes name.

    Private fields are not asked for, nor what a library's constructor takes that the class does not replace.
    """
    if not getattr(thing.__init__, "__module__", "").startswith("certeq"):
        return set()
    doc: Any = ClassDoc(thing)
    named = {
        one.lstrip("*") for part in ("Parameters", "Attributes") for each in doc[part] for one in each.name.split(", ")
    }
    return {name for name in inspect.signature(thing).parameters if not name.startswith("_")} - named


def _of_constant(name: str, doc: str) -> Iterator[str]:
    """A constant has no arguments: it is said what it is, what is related, and how it is used."""
    for part in ("See Also", "Examples"):
        if f"{part}\n{'-' * len(part)}\n" not in doc:
            yield f"{name}: no {part} section found"


def main() -> int:
    """Print every complaint; 1 where there is any."""
    names = [(package, name) for package in pages.PACKAGES for name in pages.public_names(package)]
    found = [text for package, name in names for text in complaints(package, name)]
    print("\n".join(found) or "Every public docstring has its sections.")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())

"""Docstrings as read in a terminal, made fit for Sphinx: |x| is an absolute value there, not a substitution."""

from __future__ import annotations

import re
from typing import Any

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


def _process(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    escape_bars(lines)


def _skip(app: Sphinx, what: str, name: str, thing: Any, skip: bool, options: Any) -> bool | None:
    return True if _NOT_OURS.match(name) else None


def setup(app: Sphinx) -> dict[str, Any]:
    """After numpydoc has laid the sections out."""
    app.connect("autodoc-process-docstring", _process, priority=900)
    app.connect("autodoc-skip-member", _skip)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

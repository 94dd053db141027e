"""``.. changelog::``: CHANGELOG.md of the repository as a page, so that there is one list of changes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective


def as_rst(text: str) -> str:
    """The Markdown that a changelog is made of: headings of two levels, lists, literals."""
    lines = []
    for line in text[text.index("\n## ") :].split("\n"):
        title = line.lstrip("#").strip()
        level = len(line) - len(line.lstrip("#"))
        if level:
            lines += [title, {2: "-", 3: "^"}[level] * len(title), ""]
        else:
            lines.append(re.sub(r"`([^`]+)`|\*", lambda m: f"``{m[1]}``" if m[1] else r"\*", line))
    return "\n".join(lines)


class Changelog(SphinxDirective):
    """Everything below the head of the file."""

    def run(self) -> list[nodes.Node]:
        """Sections, one for each version."""
        path = Path(self.env.srcdir).parent / "CHANGELOG.md"
        self.env.note_dependency(str(path))
        return list(self.parse_text_to_nodes(as_rst(path.read_text(encoding="utf-8")), allow_section_headings=True))


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive."""
    app.add_directive("changelog", Changelog)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

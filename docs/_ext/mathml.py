"""Formulas as MathML, converted while the site is built: nothing to fetch, and they print, copy and scale as text."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging

logger = logging.getLogger(__name__)

# MathML sizes its own delimiters and sums; the converter does not know LaTeX's manual sizes, nor this one synonym.
_SIZES = re.compile(r"\\(?:(?:big|Big|bigg|Bigg)[lrm]?|textstyle|displaystyle)(?![A-Za-z])")
_DOTS = re.compile(r"\\dots(?![A-Za-z])")


def convert(formula: str, *, block: bool, where: Any = None) -> str:
    """One formula; a mistake in it is a warning, which fails the build."""
    source = _DOTS.sub(r"\\ldots", _SIZES.sub("", formula.strip()))
    if block and (r"\\" in source or "&" in source) and r"\begin" not in source:
        source = rf"\begin{{aligned}}{source}\end{{aligned}}"
    try:
        return tex2mathml(source, as_block=block)
    except (MathError, AttributeError, IndexError, KeyError, SyntaxError) as error:
        logger.warning("formula not understood: %s (%s)", formula, error, location=where)
        return f"<code>{nodes.unescape(formula)}</code>"


def _inline(self: Any, node: nodes.Element) -> None:
    self.body.append(convert(node.astext(), block=False, where=node))
    raise nodes.SkipNode


def _block(self: Any, node: nodes.Element) -> None:
    self.body.append(self.starttag(node, "div", CLASS="math-block"))
    parts = [part for part in node.astext().split("\n\n") if part.strip()]
    self.body.extend(convert(part, block=True, where=node) for part in parts)
    self.body.append("</div>\n")
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the renderer that ``html_math_renderer = "mathml"`` names."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

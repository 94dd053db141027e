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
# Without braces an argument is one digit; the converter would take both of \frac12 for the numerator.
_FRACTION = re.compile(r"\\([dt]?frac)\s*(\d)\s*(\d?)")
_DIGIT = re.compile(r"(\\sqrt|[\^_])\s*(\d)(?=\d)")


def convert(formula: str, *, block: bool, where: Any = None) -> str:
    """One formula; a mistake in it is a warning, which fails the build."""
    source = _DOTS.sub(r"\\ldots", _SIZES.sub("", formula.strip()))
    source = _FRACTION.sub(
        lambda found: rf"\{found[1]}{{{found[2]}}}" + (f"{{{found[3]}}}" if found[3] else ""), source
    )
    source = _DIGIT.sub(r"\1{\2}", source)
    if block and (r"\\" in source or "&" in source) and r"\begin" not in source:
        source = rf"\begin{{aligned}}{source}\end{{aligned}}"
    try:
        # As an accent Chromium draws a bar or a hat through the letter, where there is no font for formulas.
        return tex2mathml(source, as_block=block).replace(' accent="true"', "")
    except (MathError, AttributeError, IndexError, KeyError, SyntaxError) as error:
        logger.warning("formula not understood: %s (%s)", formula, error, location=where)
        return f"<code>{nodes.unescape(formula)}</code>"


def _inline(self: Any, node: nodes.Element) -> None:
    self.body.append(convert(node.astext(), block=False, where=node))
    raise nodes.SkipNode


def side_by_side(formula: str) -> list[str]:
    """The statements that stand beside each other, ``a, \\qquad b``; on a narrow screen they go below each other."""
    if r"\begin" in formula or r"\left" in formula or r"\\" in formula:
        return [formula]
    parts, depth = [""], 0
    for piece in re.split(r"(\\qquad(?![A-Za-z])|[{}])", formula):
        depth += (piece == "{") - (piece == "}")
        if piece == r"\qquad" and depth == 0:
            parts.append("")
        else:
            parts[-1] += piece
    return [part for part in parts if part.strip()]


def _block(self: Any, node: nodes.Element) -> None:
    opening = self.starttag(node, "div", CLASS="math-block")
    for formula in node.astext().split("\n\n"):
        if formula.strip():
            self.body.append(opening)
            self.body.extend(convert(part, block=True, where=node) for part in side_by_side(formula))
            self.body.append("</div>\n")
            opening = '<div class="math-block">'  # an id belongs to the first alone
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the renderer that ``html_math_renderer = "mathml"`` names."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

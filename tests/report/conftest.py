"""A study with hostile asset names, small enough to draw in a moment, and a reader of the page."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("plotly", reason="reports need the extra [cli]")

import certeq as ce
from certeq.report import Strategy, Study, Sweep

HOSTILE = [
    '</script><script>document.title="pwned"</script>',
    "<img src=x onerror=\"document.title='pwned'\">",
    "=cmd()|A1",
    "a\"b'c&d",
    "two\nlines\u2028and\u202emore",
    "%{customdata} <b>bold</b> <a href='javascript:alert(1)'>x</a>",
    "[red]x[/red] $x^2$ {{x}} ${x}",
    "2024",
]


def study(names: list[str] | None = None, days: int = 500, seed: int = 0, held_out: bool = True) -> Study:
    names = names or HOSTILE
    rng, n = np.random.default_rng(seed), len(names)
    table = pd.DataFrame(
        0.0004 + 0.01 * rng.standard_t(5, size=(days, n)),
        index=pd.bdate_range("2020-01-01", periods=days),
        columns=names,
    )
    fit_on, judge_on = (table.iloc[: days // 2], table.iloc[days // 2 :]) if held_out else (table, table)
    share = rng.dirichlet(np.ones(n), size=4)
    values = np.array([0.01, 0.05, 0.2, 0.5])
    strategies = (
        Strategy("CVaR", share[0], ce.CVaR(0.05), 0.02, 1e-12, 4),
        Strategy("Entropic", share[1], ce.Entropic(50.0), 0.003, 1e-12, 6),
        Strategy("Equal weights", np.full(n, 1.0 / n)),
        Strategy("<b>Broken</b>", None, ce.Quartic(), failure="failed: <i>no luck</i>"),
    )
    return Study(
        "A <b>study</b> & its title",
        "prices '<x>'.csv",
        fit_on,
        judge_on,
        strategies,
        "CVaR",
        Sweep("mean return", values, share, gap=1e-9),
        Sweep("alpha", values, share, 0.05),
        {"Utility": "<script>", "Bounds": "0 & 1"},
        ("a <note>",),
    )


@pytest.fixture(scope="session")
def hostile() -> Study:
    return study()


class Page(HTMLParser):
    """What a reader of a page finds: every element, words, rows of tables by the id of their section, and figures."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.rows: dict[str, list[list[str]]] = {}
        self.data: dict[str, Any] = json.loads(re.search(r'id="study">(.*?)</script>', text, re.S)[1])
        self._inside: str | None = None
        self._section = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        self._inside = tag
        if tag in ("section", "figure"):
            self._section = str(dict(attrs)["id"])
        elif tag == "tr":
            self.rows.setdefault(self._section, []).append([])
        elif tag in ("td", "th"):
            self.rows[self._section][-1].append("")

    def handle_endtag(self, tag: str) -> None:
        self._inside = None

    def handle_data(self, data: str) -> None:
        if self._inside in {"script", "style"}:
            return
        self.words.append(data)
        if self._inside in {"td", "th", "span", "small"} and self.rows.get(self._section):
            cells = self.rows[self._section][-1]
            cells[-1] = f"{cells[-1]} {data.strip()}".strip()

    @property
    def said(self) -> str:
        """All words on one line."""
        return " ".join(" ".join(self.words).split())

    def table(self, section: str) -> dict[str, dict[str, str]]:
        """Cells by the heading of their row and of their column."""
        head, *rows = self.rows[section]
        return {row[0]: dict(zip(head, row, strict=True)) for row in rows}

    def chart(self, key: str) -> dict[str, Any]:
        (found,) = (chart for chart in self.data["charts"] if chart["key"] == key)
        return found

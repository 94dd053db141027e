"""A study with hostile asset names, small enough to draw in a moment."""

from __future__ import annotations

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

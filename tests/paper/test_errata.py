"""Every erratum's check, by name, and the page they make together."""

from __future__ import annotations

import importlib.util

import pytest

from certeq.paper import errata
from certeq.paper._run import LocalJob

NEEDS_DATA = {"data-sets", "portfolio-tables"}
SLOW = {"data-sets", "portfolio-tables"}  # the first may have to download its files


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in errata.CHECKS]
)
def test_correction_holds(name):
    if name in NEEDS_DATA and importlib.util.find_spec("skfolio") is None:
        pytest.skip("the panels are skfolio's")
    found = errata.CHECKS[name]()
    if found.holds is None:
        pytest.skip(found.found)
    assert found.holds, found.found
    assert all((found.where, found.printed, found.right, found.found))


def test_the_trading_days_are_those_of_a_panel_that_is_at_hand():
    pytest.importorskip("skfolio")
    from certeq.paper._markets import load_panel

    panel = load_panel("sp500")
    days = panel.train.index.append(panel.test.index)
    days = days[days >= "2018-01-02"]
    assert list(errata.trading_days("2018-01-02", "2022-12-28")) == list(days)


def test_data_sets_are_checked_without_their_files(monkeypatch):
    pytest.importorskip("skfolio")
    from certeq.paper import _markets

    absent = type("Panel", (), {"synthetic": True})
    monkeypatch.setattr(_markets, "find_panel", lambda key: absent)
    found = errata.data_sets()
    assert found.holds is True
    assert "FTSE 100, without its file: skfolio describes 5960 prices of 64 assets to 2023-05-31" in found.found
    assert "traded on 1362 days" in found.found
    monkeypatch.setattr(errata, "description", lambda loader: ("2000-01-04", "2026-05-26", 5960, 64))
    assert errata.data_sets().holds is False


def test_there_are_thirty():
    assert len(errata.CHECKS) == 30


def test_a_failed_correction_is_shouted(monkeypatch):
    bad = errata.Finding("somewhere", "right", "printed", "found", False)
    gone = errata.Finding("missing", "right", "printed", "no file", None)
    loose = errata.Finding("there", "sharper", "loose", "found", True, stands=True)
    checks = {"bad": lambda: bad, "gone": lambda: gone, "loose": lambda: loose}
    monkeypatch.setattr(errata, "CHECKS", checks)
    with LocalJob(quick=True, jobs=1) as job:
        outcome = errata.run(job)
    assert [claim.verdict for claim in outcome.claims] == ["not reproduced", "not checked", "reproduced"]
    assert "FAILS" in outcome.claims[0].why
    assert outcome.claims[1].ours == "no file"
    assert [row[-1] for row in outcome.tables[0].rows] == ["no", "not checked", "yes"]
    assert outcome.numbers == {"checks": 3, "corrections that hold": 1}

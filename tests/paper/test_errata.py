"""Every erratum's check, by name, and the page they make together."""

from __future__ import annotations

import importlib.util

import pytest

from certeq.paper import errata
from certeq.paper._job import LocalJob

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


def test_there_are_thirty():
    assert len(errata.CHECKS) == 30


def test_a_failed_correction_is_shouted(monkeypatch):
    bad = errata.Finding("somewhere", "right", "printed", "found", False)
    gone = errata.Finding("elsewhere", "right", "printed", "no file", None)
    loose = errata.Finding("there", "sharper", "loose", "found", True, stands=True)
    checks = {"bad": lambda: bad, "gone": lambda: gone, "loose": lambda: loose}
    monkeypatch.setattr(errata, "CHECKS", checks)
    with LocalJob(quick=True, jobs=1) as job:
        outcome = errata.run(job)
    assert [claim.verdict for claim in outcome.claims] == ["not reproduced", "reproduced"]
    assert "FAILS" in outcome.claims[0].why
    assert "elsewhere: no file." in outcome.notes
    assert [row[-1] for row in outcome.tables[0].rows] == ["no", "not checked", "yes"]
    assert outcome.numbers == {"checks": 3, "corrections that hold": 1}

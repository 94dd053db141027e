"""Values, gaps and statuses are those of the record, up to rounding.

A failure after a change of the inside is a fault of that change until shown otherwise; `python -m tests.golden` shows
what changed, also in reads and iterations.
"""

from __future__ import annotations

import pytest

from tests.golden import cases
from tests.golden.record import costlier, recorded, worse


def check(part: str, found: dict[str, cases.Entry]) -> None:
    known = recorded()[part]
    faults = [f"{case}: {fault}" for case, entry in found.items() for fault in worse(entry, known[case])]
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("utility", cases.RISKS)
def test_samples(utility):
    check("long", {f"{sample} {utility}": cases.long_sample(sample, utility) for sample in cases.samples()})
    check("short", {f"{sample} {utility}": entry for sample, entry in cases.short_samples(utility).items()})


@pytest.mark.parametrize("name", cases.names())
def test_exact_problems(name):
    check("exact", {name: cases.exact_problem(name)})


def test_the_record_is_of_these_cases():
    assert {part: len(entries) for part, entries in recorded().items()} == {"long": 500, "short": 500, "exact": 60}
    assert list(recorded()["exact"]) == cases.names()


GOOD = {"value": 2.0, "scale": 4.0, "gap": 1e-13, "iterations": 4, "status": "converged", "reads": 5, "largest": 9.0}


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"value": 2.0 + 1e-11}, "value"),
        ({"value": float("nan")}, "value"),
        ({"gap": 5e-12}, "gap"),
        ({"gap": float("inf")}, "gap"),
        ({"status": "stalled"}, "status"),
    ],
)
def test_what_is_worse_is_shown(change, fault):
    assert any(text.startswith(fault) for text in worse(GOOD | change, GOOD))


def test_what_is_no_fault():
    assert not list(worse(GOOD | {"reads": 9, "iterations": 9, "gap": 0.0}, GOOD))
    assert list(costlier(GOOD | {"reads": 9, "iterations": 3}, GOOD)) == ["reads 9, was 5"]
    # A result near 0 is judged by the size of the losses, not by its own.
    tiny = {"value": 4.5e-18, "scale": 0.0, "largest": 0.1}
    assert not list(worse(tiny, tiny | {"value": -4.5e-18}))
    assert list(worse(tiny | {"value": 1e-15}, tiny))

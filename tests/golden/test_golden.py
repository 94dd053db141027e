"""Answers and costs as they were recorded: reads, iterations, gaps and values are no worse.

A failure here after a change of the inside is a fault of that change until shown otherwise; `python -m tests.golden`
says when the record may be written anew.
"""

from __future__ import annotations

import pytest

from tests.golden import cases
from tests.golden.record import recorded, worse


def check(part: str, found: dict[str, cases.Entry]) -> None:
    known = recorded()[part]
    faults = [f"{case}: {fault}" for case, entry in found.items() for fault in worse(entry, known[case])]
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("utility", cases.RISKS)
def test_long_samples(utility):
    check("long", {f"{sample} {utility}": cases.long_sample(sample, utility) for sample in cases.samples()})


@pytest.mark.parametrize("utility", cases.RISKS)
def test_short_samples(utility):
    check("short", {f"{sample} {utility}": entry for sample, entry in cases.short_samples(utility).items()})


@pytest.mark.parametrize("name", cases.names())
def test_exact_problems(name):
    check("exact", {name: cases.exact_problem(name)})


def test_the_record_is_of_these_cases():
    assert {part: len(entries) for part, entries in recorded().items()} == {"long": 500, "short": 500, "exact": 60}
    assert list(recorded()["exact"]) == cases.names()


GOOD = {"value": 2.0, "scale": 4.0, "gap": 1e-13, "iterations": 4, "status": "converged", "reads": 5}


@pytest.mark.parametrize(
    "change, fault",
    [
        ({"value": 2.0 + 1e-11}, "value"),
        ({"value": float("nan")}, "value"),
        ({"gap": 2e-12}, "relative gap"),
        ({"gap": float("inf")}, "relative gap"),
        ({"iterations": 7}, "iterations"),
        ({"reads": 8}, "reads"),
        ({"status": "stalled"}, "status"),
    ],
)
def test_what_is_worse_is_said(change, fault):
    (said,) = worse(GOOD | change, GOOD)
    assert said.startswith(fault)
    assert not list(worse(GOOD | {"reads": 1, "iterations": 1, "gap": 0.0}, GOOD))
    assert list(worse({"value": 2.0, "reads": 2}, {"value": 2.0, "scale": 1.0, "reads": 1})) == ["reads 2, was 1"]

"""What the paper prints and what is right: every erratum as a check that runs.

A check is a small function without arguments; it computes, and comes back with a `Finding`.
"""

from __future__ import annotations

from collections.abc import Callable

from certeq.paper._experiment import Claim, Experiment, Job, Outcome, Table, Verdict
from certeq.paper.errata import _measures, _optimization, _practice
from certeq.paper.errata._finding import Finding

CHECKS: dict[str, Callable[[], Finding]] = {
    check.__name__.replace("_", "-"): check for part in (_measures, _optimization, _practice) for check in part.CHECKS
}


def run(job: Job) -> Outcome:
    """All checks, each as a claim: the printed statement, what was found, what is right."""
    findings = {name: check() for name, check in CHECKS.items()}
    columns = ("Check", "Where", "Printed", "Right", "Found", "Correction holds")
    words = {True: "yes", False: "no", None: "not checked"}
    rows = tuple((name, f.where, f.printed, f.right, f.found, words[f.holds]) for name, f in findings.items())
    held = sum(f.holds is True for f in findings.values())
    return Outcome(
        tables=(Table("errata", "What is printed, what is right", columns, rows),),
        claims=tuple(_claim(f) for f in findings.values()),
        notes=(
            "A printed statement that is false or misprinted is 'not reproduced'; one that is true but loose or silent "
            "is 'reproduced'. The reason names the correction, which was checked as well.",
        ),
        numbers={"checks": len(findings), "corrections that hold": held},
    )


def _claim(finding: Finding) -> Claim:
    if finding.holds is None:
        why = f"The data were not to be had. Right: {finding.right}."
        return Claim(f"{finding.where}: {finding.printed}", "as stated", finding.found, "not checked", why=why)
    why = f"Right: {finding.right}." if finding.holds else f"THE CORRECTION FAILS ITS CHECK: {finding.right}."
    verdict: Verdict = "reproduced" if finding.stands and finding.holds else "not reproduced"
    return Claim(f"{finding.where}: {finding.printed}", "as stated", finding.found, verdict, why=why)


EXPERIMENTS = (Experiment(name="errata", title="Errata, each with a check", where="The whole paper", run=run),)

__all__ = ["CHECKS", "EXPERIMENTS", "Finding", "run"]

"""The results in the documentation were made at an ancestor, and every claim says what it rests on."""

import json
import subprocess

import pytest

pytest.importorskip("skfolio", reason="experiments need the extra [paper]")
pytest.importorskip("matplotlib", reason="experiments need the extra [paper]")

from certeq.paper import _quotes, bounds
from certeq.paper._statistics import RULES
from tests.conftest import ROOT, SHARED

RESULTS = ROOT / "docs" / "paper" / "results"
EXPERIMENTS = sorted(path.parent.name for path in RESULTS.glob("*/result.json"))


def result(name):
    return json.loads((RESULTS / name / "result.json").read_text())


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_result_was_made_at_an_ancestor(name):
    commit = result(name)["commit"]
    assert not commit.endswith("-dirty")
    if not (ROOT / ".git").exists():
        pytest.skip("no repository")
    known = subprocess.run(["git", "cat-file", "-e", commit], cwd=ROOT, capture_output=True)
    shallow = subprocess.run(["git", "rev-parse", "--is-shallow-repository"], cwd=ROOT, capture_output=True, text=True)
    if shallow.stdout.strip() != "false":
        pytest.skip("a repository without its history")
    assert known.returncode == 0, f"commit {commit} of {name} is unknown here"
    asked = subprocess.run(["git", "merge-base", "--is-ancestor", commit, "HEAD"], cwd=ROOT, capture_output=True)
    assert asked.returncode == 0, f"{name} was run at {commit}, which is no ancestor"


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_claim_has_its_rule_its_figure_and_its_reason(name):
    rules = {kind for kind, _ in RULES}
    claims = result(name)["claims"]
    assert claims
    for claim in claims:
        assert claim["rule"] in rules, claim["text"]
        assert claim["whose"] in ("paper", "again", "ours")
        assert (claim["line"] and claim["quote"]) or claim["whose"] == "ours", claim["text"]
        if claim["verdict"] == "not checked":
            assert claim["why"], claim["text"]
            continue
        assert claim["ours"], claim["text"]
        assert claim["spread"], claim["text"]
        assert claim["why"], claim["text"]


def test_the_quotes_are_in_the_paper_at_their_lines():
    source = SHARED / "paper" / "paper.tex"
    if not source.is_file():
        pytest.skip("the paper's source is not at hand")
    lines = source.read_text().split("\n")
    stated = [(line, quote) for _, _, line, quote in bounds.STATED]
    for line, quote in [*_quotes.QUOTES.values(), *_quotes.ERRATA.values(), *stated]:
        assert quote in lines[line - 1], (line, quote)
    numbers = {row: line for table in _quotes.TABLES.values() for row, line in table.items()}
    assert numbers
    for table in _quotes.TABLES.values():
        for row, line in table.items():
            assert lines[line - 1].strip().startswith(f"{_quotes.ROWS[row]} "), (row, line)
            assert "&" in lines[line - 1], (row, line)

"""Taking a run into the documentation: the command and the commit are those of the run."""

import importlib.util
import json

import pytest

from tests.conftest import ROOT


@pytest.fixture
def taker():
    spec = importlib.util.spec_from_file_location("certeq_docs_take_paper", ROOT / "docs" / "paper" / "take.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def result(**facts):
    return {"quick": False, "seeds_asked": 20, "commit": "abc", "environment": {}, **facts}


@pytest.mark.parametrize(
    "facts, command",
    [
        ({}, "certeq reproduce"),
        ({"environment": {"SKFOLIO_DATA": "set"}}, "SKFOLIO_DATA=... certeq reproduce"),
        ({"seeds_asked": 5}, "certeq reproduce --seeds 5"),
        ({"quick": True, "seeds_asked": 3}, "certeq reproduce --quick"),
    ],
)
def test_the_command_is_the_one_the_results_record(taker, facts, command):
    assert taker.command_of([result(**facts), result(**facts)]) == command


def test_the_commit_is_the_one_of_the_run(taker):
    assert taker.commit_of([result(), result()]) == "abc"
    assert taker.commit_of([result(), result(commit="def-dirty")]) == "abc, def-dirty"
    assert taker.commit_of([result(commit=None)]) == "unknown"


def test_a_run_is_taken_with_both(taker, tmp_path, monkeypatch):
    folder = tmp_path / "run" / "toy"
    folder.mkdir(parents=True)
    (folder / "result.json").write_text(json.dumps(result(environment={"SKFOLIO_DATA": "set"})))
    (folder / "notes.md").write_text("large")
    monkeypatch.setattr(taker, "HERE", tmp_path / "docs")
    monkeypatch.setattr("sys.argv", ["take.py", str(tmp_path / "run")])
    taker.main()
    taken = tmp_path / "docs" / "results"
    assert json.loads((taken / "run.json").read_text()) == {
        "command": "SKFOLIO_DATA=... certeq reproduce",
        "commit": "abc",
    }
    assert [path.name for path in (taken / "toy").iterdir()] == ["result.json"]

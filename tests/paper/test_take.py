"""Taking a run into the documentation: whole runs at a commit, and only the experiments that were run."""

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


def leave(folder, **facts):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "result.json").write_text(json.dumps({"quick": False, "commit": "abc", **facts}))


def test_an_experiment_that_was_left_out_keeps_its_earlier_result(taker, tmp_path):
    leave(tmp_path / "run" / "toy", claims=[])
    leave(tmp_path / "run" / "absent", left_out=["Nasdaq"])
    leave(tmp_path / "results" / "absent", commit="old")
    assert taker.take(tmp_path / "run", tmp_path / "results") == ["toy"]
    assert json.loads((tmp_path / "results" / "absent" / "result.json").read_text())["commit"] == "old"


def test_a_run_replaces_its_own_experiments_and_no_others(taker, tmp_path, monkeypatch, capsys):
    leave(tmp_path / "run" / "toy", commit="new")
    (tmp_path / "run" / "toy" / "notes.md").write_text("large")
    leave(tmp_path / "docs" / "results" / "other")
    leave(tmp_path / "docs" / "results" / "toy", commit="old")
    (tmp_path / "docs" / "results" / "toy" / "gone.csv").write_text("of the old run")
    monkeypatch.setattr(taker, "HERE", tmp_path / "docs")
    monkeypatch.setattr("sys.argv", ["take.py", str(tmp_path / "run")])
    taker.main()
    taken = tmp_path / "docs" / "results"
    assert capsys.readouterr().out == "toy\n"
    assert [path.name for path in (taken / "toy").iterdir()] == ["result.json"]
    assert json.loads((taken / "toy" / "result.json").read_text())["commit"] == "new"
    assert (taken / "other" / "result.json").is_file()


@pytest.mark.parametrize(
    "facts, found",
    [
        ({"commit": "abc-dirty"}, "commit abc-dirty"),
        ({"commit": None}, "commit None"),
        ({"quick": True}, "a quick run"),
        ({"failure": "no data"}, "no data"),
    ],
)
def test_what_nobody_could_repeat_is_refused(taker, tmp_path, facts, found):
    leave(tmp_path / "run" / "toy", **facts)
    with pytest.raises(ValueError, match=found):
        taker.take(tmp_path / "run", tmp_path / "results")
    assert not (tmp_path / "results").exists()
    with pytest.raises(FileNotFoundError, match="no experiment"):
        taker.take(tmp_path / "results", tmp_path)

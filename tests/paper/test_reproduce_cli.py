"""``certeq reproduce``: names, exit codes, what is said and where."""

import json

import pytest

pytest.importorskip("typer", reason="the command needs the extra [cli]")
pytest.importorskip("matplotlib", reason="figures need the extra [paper]")
pytest.importorskip("plotly", reason="figures need the extra [paper]")
pytest.importorskip("threadpoolctl", reason="jobs need the extra [paper]")

from typer.testing import CliRunner

from certeq.cli._app import app
from certeq.paper import EXPERIMENTS
from tests.paper import toy


def certeq(*arguments, code=0):
    found = CliRunner().invoke(app, ["reproduce", *map(str, arguments)])
    assert found.exit_code == code, (found.stdout, found.stderr, found.exception)
    return found


def test_help_has_examples():
    said = certeq("--help").stdout
    assert "Examples:\n    certeq reproduce --quick" in said
    for option in ("--quick", "--seeds", "--out", "--jobs", "--fresh", "--json"):
        assert option in said


def test_the_list():
    assert certeq("--list").stdout.split() == list(EXPERIMENTS)


def test_a_wrong_name_lists_the_right_ones_and_writes_nothing(tmp_path):
    said = " ".join(certeq("portfolio-sp5000", "--out", tmp_path / "out", code=2).stderr.split())
    assert "did you mean 'portfolio-sp500'" in said
    assert all(name in said for name in EXPERIMENTS)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("arguments", [("--seeds", "0"), ("--jobs", "0"), ("--seeds", "many")])
def test_bad_usage(arguments, tmp_path):
    assert arguments[0] in certeq("--out", tmp_path / "out", *arguments, code=2).stderr
    assert not (tmp_path / "out").exists()


def test_a_run(tmp_path, monkeypatch):
    toy.register(monkeypatch)
    found = certeq("toy", "--seeds", 2, "--jobs", 1, "--out", tmp_path / "out")
    assert "toy" in found.stdout
    assert f"report written to {tmp_path / 'out' / 'index.html'}" in found.stdout.replace("\n", "")
    assert (tmp_path / "out" / "index.html").is_file()
    assert (tmp_path / "out" / "toy" / "eigenvalues.csv").is_file()


def test_json_alone_on_standard_output(tmp_path, monkeypatch):
    toy.register(monkeypatch)
    found = json.loads(certeq("toy", "--seeds", 2, "--jobs", 1, "--out", tmp_path / "out", "--json").stdout)
    (experiment,) = found["experiments"]
    assert experiment["verdicts"] == {"reproduced": 1, "not reproduced": 1}
    assert experiment["claims"][1]["why"] == "too far"
    assert experiment["failure"] is None


def test_an_experiment_that_cannot_run_is_an_error_after_the_others(tmp_path, monkeypatch):
    toy.register(monkeypatch)
    found = certeq("toy", "bad", "--seeds", 2, "--jobs", 1, "--out", tmp_path / "out", code=1)
    assert "error: bad could not run (ArithmeticError: three is too many" in found.stderr
    assert (tmp_path / "out" / "toy" / "result.json").is_file()


def test_a_folder_with_other_files_is_left_alone(tmp_path, monkeypatch):
    toy.register(monkeypatch)
    (tmp_path / "thesis.tex").write_text("do not touch")
    found = certeq("toy", "--jobs", 1, "--out", tmp_path, code=1)
    assert "name another folder" in found.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]

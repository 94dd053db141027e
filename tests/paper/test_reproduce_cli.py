"""``certeq reproduce``: names, exit codes, what is said and where."""

import json
import os
import signal
import subprocess
import sys
import time
from fnmatch import fnmatch

import pytest

pytest.importorskip("typer", reason="the command needs the extra [cli]")
pytest.importorskip("matplotlib", reason="figures need the extra [paper]")
pytest.importorskip("threadpoolctl", reason="jobs need the extra [paper]")

from typer.testing import CliRunner

from certeq.cli._app import app
from certeq.cli._reproduce import SEEDS
from certeq.paper import EXPERIMENTS
from tests.conftest import ROOT
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


def test_help_says_what_a_seed_is_where_it_is_capped_and_where_it_does_not_apply():
    said = certeq("--help").stdout
    patterns = [name.strip() for names, _ in SEEDS for name in names.split(",")]
    assert all(sum(fnmatch(name, pattern) for pattern in patterns) == 1 for name in EXPERIMENTS)
    for pattern in patterns:
        assert pattern in said
    assert "at most 5" in said
    assert "does not apply" in said


def test_the_list():
    assert [line.split()[0] for line in certeq("--list").stdout.splitlines()] == list(EXPERIMENTS)


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
    assert experiment["not_checked"] == 1
    assert experiment["seeds"] == [0, 1]
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


# A shell starts background jobs with SIGINT ignored, tests among them, and a program inherits that; so each of these
# says which it wants. The process stays the same one, with the same id.
START = "import os, signal, sys; signal.signal(signal.SIGINT, signal.{}); os.execv(sys.executable, sys.argv[1:])"


def toys(out, seeds):
    toy_and_slow = ["toy", "slow", "--seeds", str(seeds), "--jobs", "2"]
    return [sys.executable, "-m", "tests.paper.toy", "certeq", str(out), *toy_and_slow]


def interrupted(command, out, handler, early):
    """The command after a SIGINT. As from a terminal, the signal goes to the workers too; both streams are pipes."""
    start = [sys.executable, "-c", START.format(handler), *command]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "start_new_session": True}
    victim = subprocess.Popen(start, cwd=ROOT, **pipes)
    slow, first = out / ".cache" / "tests.paper.toy.slow_spectrum", out / ".cache" / "CACHEDIR.TAG"
    end = time.monotonic() + 60.0
    while not (first.exists() if early else len(list(slow.glob("*.json"))) >= 2):
        assert victim.poll() is None, victim.communicate()
        assert time.monotonic() < end, "nothing was begun"
        time.sleep(0.02)
    time.sleep(0.5 if early else 0.0)  # early: while workers are still importing
    os.killpg(victim.pid, signal.SIGINT)
    return victim


@pytest.mark.skipif(os.name != "posix", reason="sends SIGINT")
@pytest.mark.parametrize("early", [False, True])
def test_ctrl_c_is_told_in_one_line_and_the_same_command_goes_on(tmp_path, early):
    out = tmp_path / "out"
    command = toys(out, 12)
    victim = interrupted(command, out, "SIG_DFL", early)
    said, told = victim.communicate(timeout=60)
    assert victim.returncode == 130, (said, told)
    assert said == ""
    (line,) = told.strip().splitlines()  # rich 13.0 ends with an empty line
    assert "the same command goes on from there" in line
    if early:
        assert line.startswith("interrupted: ")
        return
    assert line.startswith("interrupted: 1 of 2 experiments are whole: toy;")
    again = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=True)
    assert "slow" in again.stdout
    assert json.loads((out / "slow" / "result.json").read_text())["pieces_kept_from_an_earlier_run"] >= 2


@pytest.mark.skipif(os.name != "posix", reason="sends SIGINT")
def test_in_the_background_ctrl_c_is_ignored_by_the_command_and_its_workers(tmp_path):
    out = tmp_path / "out"
    job = interrupted(toys(out, 6), out, "SIG_IGN", early=False)
    said, told = job.communicate(timeout=120)
    assert job.returncode == 0, (said, told)
    assert "failure" not in json.loads((out / "slow" / "result.json").read_text())

"""Streams and names that a user may bring: closed, full, interrupted, and names that would talk to the terminal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from certeq.cli._console import guarded, safe_text

ESCAPE = "losses\x1b[31m\u202e.csv"
posix = pytest.mark.skipif(os.name != "posix", reason="streams of a POSIX shell")


def shell(line: str, folder: os.PathLike[str], **more: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "CERTEQ": f"{sys.executable} -m certeq", **more}
    command = ["sh", "-c", line]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment, timeout=120)


@posix
@pytest.mark.parametrize("line", ["$CERTEQ utilities >&-", "$CERTEQ utilities --json >&-", "$CERTEQ --version 2>&-"])
def test_closed_streams(tmp_path, line):
    done = shell(line, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


@posix
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="/dev/full is Linux's")
@pytest.mark.parametrize("command", ["utilities", "utilities --json", "--help"])
def test_a_full_disk_is_told_in_one_line(tmp_path, command):
    done = shell(f"$CERTEQ {command} > /dev/full", tmp_path)
    assert done.returncode == 1
    (line,) = done.stderr.strip().splitlines()
    assert line.startswith("error: ")
    assert "No space left" in line


@posix
def test_a_reader_that_leaves_is_no_error(tmp_path):
    done = shell("$CERTEQ utilities | head -1", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


@posix
def test_ctrl_c_while_importing(tmp_path):
    (tmp_path / "numpy.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    code = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from certeq.cli import main; main(['utilities'])"  # NumPy is imported once a command is called
    )
    paths = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": paths},
        timeout=120,
    )
    assert done.returncode in (128 + signal.SIGINT, -signal.SIGINT)
    assert "Traceback" not in done.stderr


def test_names_cannot_talk_to_the_terminal(certeq):
    said = certeq.refused("estimate", ESCAPE)
    assert r"losses\x1b[31m\u202e.csv" in said
    path = certeq.folder / ESCAPE
    path.write_text("loss\n1\n2\nn/k\n")
    assert "\x1b" not in certeq.refused("estimate", path)
    path.write_text("a\x1b[2Jb\n1\n2\n3\n")
    result = certeq("estimate", path)
    assert "\x1b[2J" not in result.stdout + result.stderr


def test_text_for_a_terminal_keeps_letters_of_every_language():
    assert safe_text("Größe 価格 α\nnext") == "Größe 価格 α\nnext"
    assert safe_text("\x07\x9b\u2066") == r"\x07\x9b\u2066"


@posix
def test_a_name_that_is_not_utf_8(certeq, prices, tmp_path):
    name = os.fsdecode(b"prices\xff.csv")
    try:
        prices.to_csv(tmp_path / name)
    except OSError:
        pytest.skip("this file system takes UTF-8 names only")
    certeq("portfolio", name, "--report", "report.html", "--output", "weights.json")
    assert "udcff" in (tmp_path / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["=1+1", "＝1+1", "＋1", "－1", "＠x", " =1"])
def test_names_a_spreadsheet_would_run_are_guarded(name):
    assert guarded(name) == f"'{name}"


@pytest.mark.parametrize("command", ["portfolio", "compare"])
def test_places_are_checked_before_the_work(certeq, prices, csv, monkeypatch, command):
    import certeq.cli._portfolio as module

    monkeypatch.setattr(module, "fitted", None)  # would be a TypeError
    path = csv(prices)
    assert "does not exist" in certeq.refused(command, path, "--report", certeq.folder / "none" / "report.html")
    assert "is a directory" in certeq.refused(command, path, "--report", named_as_report(certeq.folder))


def named_as_report(folder):
    target = folder / "folder.html"
    target.mkdir()
    return target


@posix
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="/dev/full is Linux's")
def test_a_full_disk_under_a_result(tmp_path):
    (tmp_path / "losses.csv").write_text("loss\n" + "\n".join(str(i % 7) for i in range(60)))
    done = shell("$CERTEQ estimate losses.csv > /dev/full", tmp_path)
    assert done.returncode == 1
    assert "error: cannot write to standard output: No space left on device." in done.stderr
    assert "Errno" not in done.stderr


@posix
def test_a_reader_that_leaves_before_the_result(tmp_path):
    (tmp_path / "losses.csv").write_text("loss\n" + "\n".join(str(i % 7) for i in range(60)))
    done = shell("$CERTEQ estimate losses.csv --json | true", tmp_path)
    assert "error" not in done.stderr

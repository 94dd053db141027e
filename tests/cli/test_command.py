"""The command as a whole: help, completion, exit codes, missing extras, streams, and what it does not import."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys

import pytest

posix = pytest.mark.skipif(os.name != "posix", reason="streams of a POSIX shell")
full = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="/dev/full is Linux's")


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *(arguments if arguments[0] == "-c" else ("-m", "certeq", *arguments))]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment}, timeout=120)


def shell(line: str, folder: os.PathLike[str]) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "CERTEQ": f"{sys.executable} -m certeq"}
    command = ["sh", "-c", line]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment, timeout=120)


def test_help_has_examples(certeq):
    assert "compare" in certeq("--help").out
    for name in ("estimate", "portfolio", "compare", "utilities"):
        assert f"Examples:\n    certeq {name}" in certeq(name, "--help").out
    said = " ".join(certeq("portfolio", "--help").out.split())
    assert "--scale 0.02" in said
    assert "risk for the least risk; return, ratio (of return to risk) or utility for the largest" in said


def test_utilities_are_listed_and_drawn(certeq):
    said, found = certeq("utilities").out, certeq.json("utilities")
    assert all(row["name"] in said for row in found)
    assert any(0x2800 < ord(char) < 0x2900 for char in said)
    others = ["entropic", "mean-variance", "monotone-mean-variance", "quartic", "leaky-cvar", "smooth-cvar"]
    assert [row["name"] for row in found if not row["coherent"]] == others
    assert len(found) == 14


def test_whole_process_on_a_poor_terminal():
    done = run("utilities", PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert "Traceback" not in done.stderr
    assert "cvar" in done.stdout


def test_the_nearest_command_is_named(certeq):
    assert "utilities" in certeq.refused("utilitees", code=2)


def test_completion():
    script = run("--show-completion", "bash", SHELL="/bin/bash")
    if script.returncode:
        pytest.skip("this shell has no completion")
    assert "certeq" in script.stdout
    words = run("estimate", _CERTEQ_COMPLETE="complete_bash", COMP_WORDS="certeq estimate --utility sm", COMP_CWORD="3")
    assert "smooth-cvar" in words.stdout


@pytest.mark.parametrize(("missing", "extra", "arguments"), [
    ("typer", "certeq[cli]", ["utilities"]),
    ("skfolio", "certeq[portfolio]", ["portfolio"]),
    ("pandas", "certeq[cli]", ["estimate", "pyproject.toml"]),
])  # fmt: skip
def test_a_missing_extra_is_one_line_that_names_it(missing, extra, arguments):
    done = run("-c", f"import sys; sys.modules[{missing!r}] = None; from certeq.cli import main; main({arguments!r})")
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.strip().splitlines()
    assert extra in line


def test_the_version_is_told_without_extras():
    missing = "import sys; sys.modules['typer'] = sys.modules['rich'] = None; "
    done = run("-c", f"{missing}from certeq.cli import main; main(['--version'])")
    assert (done.returncode, done.stderr) == (0, "")
    assert re.match(r"certeq \d+\.\d+", done.stdout)


def test_help_is_quick():
    done = run(
        "-c",
        "import sys\nfrom certeq.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass\n"
        "heavy = 'numpy', 'scipy', 'pandas', 'skfolio', 'plotly', 'torch', 'sklearn', 'rich.table', 'certeq.data'\n"
        "print([name for name in heavy if name in sys.modules], file=sys.stderr)",
    )
    assert done.stderr.strip() == "[]"


# -- streams that are closed, full, or interrupted ---------------------------------------------------------------------


@posix
@pytest.mark.parametrize("line", ["$CERTEQ utilities --json >&-", "$CERTEQ --version 2>&-", "$CERTEQ utilities | true"])
def test_streams_that_nobody_reads(tmp_path, line):
    done = shell(line, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


@posix
@full
@pytest.mark.parametrize("command", ["utilities --json", "--help", "estimate losses.csv"])
def test_a_full_disk_is_told_in_one_line(tmp_path, command):
    (tmp_path / "losses.csv").write_text("loss\n" + "\n".join(str(i % 7) for i in range(60)))
    done = shell(f"$CERTEQ {command} > /dev/full", tmp_path)
    assert done.returncode == 1
    line = done.stderr.strip().splitlines()[-1]
    assert line == "error: cannot write to standard output: No space left on device."


@posix
def test_ctrl_c_while_importing(tmp_path, monkeypatch):
    (tmp_path / "numpy.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    code = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from certeq.cli import main; main(['utilities'])"  # NumPy is imported once a command is called
    )
    done = run("-c", code, PYTHONPATH=os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    assert done.returncode in (128 + signal.SIGINT, -signal.SIGINT)
    assert "Traceback" not in done.stderr


# -- names that would talk to the terminal or run in a spreadsheet -----------------------------------------------------

ESCAPE = "losses\x1b[31m\u202e.csv"


def test_names_cannot_talk_to_the_terminal(certeq, prices, csv):
    assert r"losses\x1b[31m\u202e.csv" in certeq.refused("estimate", ESCAPE)
    path = certeq.folder / ESCAPE
    path.write_text("loss\n1\n2\nn/k\n")
    assert "\x1b" not in certeq.refused("estimate", path)
    path.write_text("a\x1b[2Jb\n1\n2\n3\n")
    estimated = certeq("estimate", path)
    compared = certeq("compare", csv(prices).rename(path), "--no-report")
    for ended in (estimated, compared):
        assert not re.search("[\x1b\u202e]", ended.out + ended.err)


def test_names_are_shown_as_they_are(certeq, prices, csv):
    names = ["[red]A[/red]", "[bold", "C[/]", "\x1b[31mD", "Größe 価格 α", "F\nG"]
    said = certeq("portfolio", csv(prices.set_axis(names, axis=1)), "--min-weight", "0.1").out
    for name in ("[red]A[/red]", "[bold", "C[/]", "Größe 価格 α", "F G"):  # no markup, and letters of every language
        assert name in said
    assert "\x1b" not in said


@posix
def test_a_name_that_is_not_utf_8(certeq, prices, tmp_path):
    name = os.fsdecode(b"prices\xff.csv")
    try:
        prices.to_csv(tmp_path / name)
    except OSError:
        pytest.skip("this file system takes UTF-8 names only")
    certeq("portfolio", name, "--report", "report.html", "--output", "weights.json")
    assert "udcff" in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert json.loads((tmp_path / "weights.json").read_text())["weights"].keys() == set("ABCDEF")

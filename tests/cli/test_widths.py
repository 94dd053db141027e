"""Tables on terminals of every width: columns are left out and texts broken, but no number is cut."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
from rich.cells import cell_len

WIDTHS = [40, 80, 120]
NUMBER = re.compile(r"[-+]?\d+\.\d+(?:e[-+]?\d+)?%?|[-+]?\de[-+]\d+")
COMMANDS = {
    "compare": ["compare", "p.csv", "--no-report"],
    "portfolio": ["portfolio", "p.csv"],
    "walk": ["portfolio", "p.csv", "--refit-every", 100, "--train-size", 200],
    "estimate": ["estimate", "losses.csv", "-c", "C", "-u", "smooth-cvar", "--tau", 0.005],
    "normalized": ["estimate", "losses.csv", "-c", "C", "-u", "quartic", "--scale", 0.02, "--normalized"],
}


def numbers(text: str) -> list[str]:
    """Return the numbers without the digit of a gap, which is rounding, and without the seconds that were taken."""
    return [re.sub(r"\de-\d\d", "gap", number) for number in NUMBER.findall(re.sub(r"[\d.]+ s(econds)?\b", "", text))]


@pytest.fixture
def files(certeq, prices, returns, csv):
    csv(prices.rename(columns={"A": "An asset with a rather long name, Inc.", "B": "A" * 39}), "p.csv")
    csv(-returns, "losses.csv")


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", COMMANDS)
def test_no_number_is_cut(certeq, files, monkeypatch, name, width):
    whole = certeq(*COMMANDS[name]).out
    monkeypatch.setenv("COLUMNS", str(width))
    ended = certeq(*COMMANDS[name])
    assert "…" not in ended.out
    assert max(map(cell_len, ended.out.splitlines())) <= width
    assert max(map(cell_len, ended.err.splitlines()), default=0) <= width
    found = numbers(ended.out)
    assert found
    assert set(found) <= set(numbers(whole))
    if name in ("portfolio", "estimate", "normalized") or width == 120:  # all columns fit
        assert found == numbers(whole)


def test_columns_of_a_comparison_are_left_out_from_the_right(certeq, files, monkeypatch):
    def row(text):
        (found,) = [numbers(line) for line in text.splitlines() if line.strip("│ ").startswith("Entropic")]
        return found

    command = COMMANDS["compare"]
    whole = row(certeq(*command).out)
    assert len(whole) == 8
    monkeypatch.setenv("COLUMNS", "40")
    narrow = certeq(*command)
    assert row(narrow.out) == whole[:3]  # return, risk and the gap
    told = re.search(r"left out: .*, Sortino; shown in a terminal of (\d+) columns", " ".join(narrow.err.split()))
    assert "and in the report." in " ".join(certeq(*command[:2]).err.split())
    monkeypatch.setenv("COLUMNS", told[1])
    ended = certeq(*command)
    assert "left out" not in ended.err
    assert row(ended.out) == whole


@pytest.mark.parametrize("columns", [None, "", "wide"])
def test_a_pipe_gets_everything(certeq, files, monkeypatch, columns):
    whole = certeq(*COMMANDS["compare"])
    monkeypatch.delenv("COLUMNS") if columns is None else monkeypatch.setenv("COLUMNS", columns)
    ended = certeq(*COMMANDS["compare"])
    assert numbers(ended.out) == numbers(whole.out)
    assert "left out" not in ended.err


@pytest.mark.parametrize("width", WIDTHS)
def test_utilities(certeq, monkeypatch, width):
    names = [row["name"] for row in certeq.json("utilities")]
    monkeypatch.setenv("COLUMNS", str(width))
    result = certeq("utilities")
    table = result.out[: result.out.rstrip().rindex("\n")]
    assert "…" not in table
    assert max(map(cell_len, table.splitlines())) <= width
    assert all(name in table for name in names)
    drawn = [line for line in table.splitlines() if any(0x2800 <= ord(char) < 0x2900 for char in line)]
    assert len(drawn) == (3 * len(names) if width >= 80 else 0)
    assert ("shown in a terminal of 75 columns" in " ".join(result.err.split())) == (width < 80)


@pytest.mark.parametrize("command", [(), ("estimate",), ("portfolio",), ("compare",), ("utilities",)])
def test_help_fits_the_terminal(certeq, monkeypatch, command):
    monkeypatch.setenv("COLUMNS", "80")
    said = certeq(*command, "--help").out
    assert max(map(len, said.splitlines())) <= 80
    assert "…" not in said
    monkeypatch.setenv("COLUMNS", "40")
    said = certeq(*command, "--help").out
    options = said[said.index("Options:") if command else 0 :]  # examples are lines to copy, and stay whole
    assert max(map(len, options.splitlines())) <= 40


@pytest.mark.skipif(sys.platform == "win32", reason="a terminal of POSIX")
def test_messages_fit_the_terminal_of_standard_error(tmp_path):
    import fcntl
    import pty
    import struct
    import termios

    try:
        ours, theirs = pty.openpty()
    except OSError as error:  # a container may have none
        pytest.skip(f"no terminal to be had: {error}")
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 40, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    code = f"from certeq.cli import main; main(['estimate', {'missing ' * 12 + '.csv'!r}])"
    with open(tmp_path / "out", "wb") as out:  # standard output is no terminal, and has no width
        subprocess.run([sys.executable, "-c", code], stdout=out, stderr=theirs, env=environment, timeout=120)
    os.close(theirs)
    said = os.read(ours, 1 << 16).decode().splitlines()
    os.close(ours)
    assert len(said) > 1
    assert max(map(len, said)) <= 40

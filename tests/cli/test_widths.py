"""Tables on terminals of every width: columns are left out and texts broken, but no number is cut."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import numpy as np
import pytest
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table

from certeq.cli import _reproduce
from certeq.cli._console import PAGE, cell, fit, print_table
from certeq.cli._options import CHOICES, RISKS
from certeq.paper import Claim, Outcome, Result

WIDTHS = [40, 60, 80, 120, 200]
NUMBER = re.compile(r"[-+]?\d+\.\d+(?:e[-+]?\d+)?%?|[-+]?\de[-+]\d+")


def check(said: str, width: int, whole: str) -> None:
    """Nothing is wider than the terminal, nothing cut, and every number is one that the widest table has."""
    assert "…" not in said
    assert max(map(cell_len, said.splitlines())) <= width
    assert NUMBER.findall(said)
    assert rounded(said) <= rounded(whole)


def rounded(table: str) -> set[str]:
    """The numbers without the digit of a gap: it is rounding, and need not be the same in two runs."""
    return {re.sub(r"\de-\d\d", "gap", number) for number in NUMBER.findall(table)}


def numbers(table: str) -> str:
    """Without the last line, which tells the seconds."""
    return table[: table.rstrip().rindex("\n")]


def joined(text: str) -> str:
    """Without the breaks between lines."""
    return " ".join(text.split())


@pytest.mark.parametrize("width", WIDTHS)
def test_compare(certeq, prices, csv, monkeypatch, width):
    path = csv(prices)
    whole = numbers(certeq("compare", path, "--no-report").stdout)
    monkeypatch.setenv("COLUMNS", str(width))
    result = certeq("compare", path, "--no-report")
    said = numbers(result.stdout)
    check(said, width, whole)
    words = said.split()
    assert words.index("Return") < words.index("CVaR") < words.index("Gap")  # in the headings
    rows = [NUMBER.findall(line) for line in said.splitlines() if line.strip("│ ").startswith("Entropic")]
    (row,) = rows
    (full,) = [NUMBER.findall(line) for line in whole.splitlines() if "Entropic" in line]
    assert len(full) == 8
    assert row[:2] == full[:2]  # return and risk, then the gap
    assert re.fullmatch(r"\de-\d\d", row[2])
    assert row[3:] == full[3 : len(row)]
    assert len(row) == 8 or width < 80
    told = re.search(r"columns left out: .*, Sortino; shown in a terminal of (\d+) columns and with --json.",
                     joined(result.stderr))  # fmt: skip
    assert max(map(cell_len, result.stderr.splitlines()), default=0) <= width
    assert (told is not None) == (len(row) < 8)
    if told is not None:
        monkeypatch.setenv("COLUMNS", told[1])
        assert "columns left out" not in certeq("compare", path, "--no-report").stderr


def test_compare_names_the_report(certeq, prices, csv, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    assert "and in the report." in joined(certeq("compare", csv(prices)).stderr)


@pytest.mark.parametrize("width", WIDTHS)
def test_portfolio(certeq, prices, csv, monkeypatch, width):
    path = csv(prices.rename(columns={"A": "An asset with a rather long name, Inc.", "B": "A" * 39}))
    whole = certeq("portfolio", path).stdout
    monkeypatch.setenv("COLUMNS", str(width))
    said = certeq("portfolio", path).stdout
    table = said[: said.index("in sample;")]
    check(table, width, whole)
    assert NUMBER.findall(table) == NUMBER.findall(whole[: whole.index("in sample;")])  # three columns fit at 40


@pytest.mark.parametrize("width", WIDTHS)
def test_a_walk_has_the_columns_of_a_comparison(certeq, prices, csv, monkeypatch, width):
    walk = ("portfolio", csv(prices), "--refit-every", 100, "--train-size", 200)
    whole = certeq(*walk).stdout
    monkeypatch.setenv("COLUMNS", str(width))
    said = certeq(*walk)
    check(said.stdout, width, whole)
    headings = said.stdout[: said.stdout.index("Equal")].partition("days")[2].split()  # below the title
    assert headings.index("Return") < headings.index("CVaR")
    if "Gini" in headings:
        assert headings.index("CVaR") < headings.index("Gini")
    assert max(map(cell_len, said.stderr.splitlines()), default=0) <= width


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


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("more", [(), ("--scale", 0.02, "--normalized")])
def test_estimate(certeq, prices, csv, monkeypatch, width, more):
    path = csv(-prices.pct_change().dropna())
    arguments = ("estimate", path, "-c", "A", "-u", "smooth-cvar", "--tau", 0.005, *more)
    whole = certeq(*arguments).stdout
    monkeypatch.setenv("COLUMNS", str(width))
    said = certeq(*arguments).stdout
    check(said, width, whole)
    assert NUMBER.findall(said) == NUMBER.findall(whole)


@pytest.mark.parametrize("width", WIDTHS)
def test_utilities(certeq, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    result = certeq("utilities")
    table = result.stdout[: result.stdout.rstrip().rindex("\n")]
    assert "…" not in table
    assert max(map(cell_len, table.splitlines())) <= width
    for choice in (CHOICES | RISKS).values():
        assert choice.key in table
        assert choice.says.split()[-1] in table
    drawn = [line for line in table.splitlines() if any(0x2800 <= ord(char) < 0x2900 for char in line)]
    assert len(drawn) == (3 * len(CHOICES | RISKS) if width >= 80 else 0)
    assert ("Weight of a loss; shown in a terminal of 75 columns." in joined(result.stderr)) == (width < 80)


@pytest.mark.parametrize("width", WIDTHS)
def test_reproduce(capsys, monkeypatch, tmp_path, width):
    claims = tuple(Claim("it holds", "1", "1", verdict) for verdict in _reproduce.VERDICTS)
    outcome = Outcome(claims=claims, synthetic=True)
    names = ("classification-breast-cancer", "errata")
    results = tuple(Result(name, tmp_path, outcome, None, 1234.5) for name in names)
    monkeypatch.setenv("COLUMNS", str(width))
    print_table(_reproduce._table(results), "in index.html")
    said, told = capsys.readouterr()
    assert "…" not in said
    assert max(map(cell_len, said.splitlines())) <= width
    assert "Reproduced" in said
    assert ("1234.5" in said) == ("in index.html" not in joined(told))


def test_a_pipe_gets_everything():
    code = (
        "from rich.table import Table; from certeq.cli._console import cell, print_table\n"
        "table = Table()\n"
        "for i in range(40): table.add_column(f'Column {i}', justify='right')\n"
        "table.add_row(*[cell(f'{i}.123456') for i in range(40)])\n"
        "table.add_column('Name'); table.add_row(*['1'] * 40, cell('n' * 50))\n"
        "print_table(table)"
    )
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, encoding="utf-8", check=True,
        env={**environment, "PYTHONIOENCODING": "utf-8"},
    )  # fmt: skip
    assert NUMBER.findall(done.stdout) == [f"{i}.123456" for i in range(40)]
    assert "n" * 50 in done.stdout
    assert done.stderr == ""


@pytest.mark.parametrize("seed", range(30))
def test_numbers_stay_whole_in_tables_of_any_shape(seed):
    rng = np.random.default_rng(seed)
    columns, rows, space = int(rng.integers(1, 12)), int(rng.integers(1, 5)), int(rng.integers(10, 150))
    table = Table(title="A title that is longer than some of the tables")
    table.add_column("Name of the thing")
    for i in range(columns):
        table.add_column(" ".join(["Heading", "of", "it"][: rng.integers(1, 4)]) + str(i), justify="right")
    values = [[f"{10 ** rng.uniform(-5, 5):.{rng.integers(1, 9)}f}" for _ in range(columns)] for _ in range(rows)]
    for row in values:
        table.add_row(cell("word " * rng.integers(1, 9) + "w" * rng.integers(1, 40)), *map(cell, row))
    left_out, width, whole = fit(table, space)
    console = Console(width=width)
    with console.capture() as captured:
        console.print(table)
    said = captured.get()
    kept = columns - len(left_out)
    assert kept >= 1
    assert NUMBER.findall(said) == [value for row in values for value in row[:kept]]
    assert not left_out or whole > space
    assert width == space or kept == 1  # one number and eight letters of a name: no less
    assert max(map(cell_len, said.splitlines())) <= width


@pytest.mark.parametrize("columns, width", [("", PAGE), ("wide", PAGE), ("70", 70)])
def test_columns_is_heeded_without_a_terminal(monkeypatch, capsys, columns, width):
    monkeypatch.setenv("COLUMNS", columns)
    table = Table()
    table.add_column("Text")
    table.add_row(cell("word " * 100))
    print_table(table)
    assert width - 5 < max(map(cell_len, capsys.readouterr().out.splitlines())) <= width


@pytest.mark.parametrize("command", [(), ("estimate",), ("portfolio",), ("compare",), ("utilities",), ("reproduce",)])
def test_help_fits_eighty_columns_examples_too(certeq, monkeypatch, command):
    monkeypatch.setenv("COLUMNS", "80")
    said = certeq(*command, "--help").stdout
    assert max(map(len, said.splitlines())) <= 80
    assert "…" not in said


def test_a_long_sentence_takes_no_width_from_the_labels(certeq, csv, prices, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    said = certeq("estimate", csv(-prices.pct_change().dropna()), "-c", "A", "-u", "entropic", "--beta", 50).stdout
    assert "Assumptions" in said
    assert "95 % confidence interval" in said


@pytest.mark.parametrize("command", [(), ("estimate",), ("portfolio",), ("compare",), ("utilities",), ("reproduce",)])
def test_help_fits_forty_columns(certeq, monkeypatch, command):
    monkeypatch.setenv("COLUMNS", "40")
    said = certeq(*command, "--help").stdout
    options = said[said.index("Options:") :]  # the examples before them are lines to copy, and stay whole
    assert max(map(len, options.splitlines())) <= 40
    if not command:
        assert max(map(len, said.splitlines())) <= 40


def test_a_percent_sign_stays_with_its_number(monkeypatch, capsys):
    table = Table()
    for heading in ("Strategy", "CDaR 95 %"):
        table.add_column(heading, justify="right")
    table.add_row(cell("A" * 20), cell("17.80 %"))  # as wide as "CDaR 95", and no wider
    monkeypatch.setenv("COLUMNS", "34")
    print_table(table)
    said = capsys.readouterr().out
    assert re.search(r"CDaR +[│┃|]?\n", said)
    assert re.search(r"95 % *[│┃|]?\n", said)

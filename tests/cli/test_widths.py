"""Tables on terminals of every width: columns are left out and texts broken, but no number is cut."""

from __future__ import annotations

import re

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


@pytest.mark.parametrize("columns", [None, "", "wide"])
def test_a_pipe_gets_everything(certeq, files, monkeypatch, columns):
    whole = certeq(*COMMANDS["compare"])
    monkeypatch.delenv("COLUMNS") if columns is None else monkeypatch.setenv("COLUMNS", columns)
    ended = certeq(*COMMANDS["compare"])
    assert numbers(ended.out) == numbers(whole.out)
    assert "left out" not in ended.err


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

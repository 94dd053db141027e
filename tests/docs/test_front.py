"""The README shows what its snippets print."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

README = Path(__file__).resolve().parents[2] / "README.md"
BLOCKS = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.DOTALL)


def results() -> dict[str, object]:
    """The value of every line that is an expression, by the line."""
    names: dict = {}
    found: dict[str, object] = {}
    for block in BLOCKS:
        for node in ast.parse(block).body:
            source = ast.get_source_segment(block, node) or ""
            if isinstance(node, ast.Expr):
                found[source] = eval(source, names)
            else:
                exec(source, names)
    return found


def test_what_is_printed_is_what_the_readme_shows():
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    found = results()
    lines = [line for block in BLOCKS for line in block.split("\n")]
    shown = {
        line.split("  #")[0].rstrip(): line.split("  #")[1].split(";")[0].strip() for line in lines if "  #" in line
    }
    for line, said in shown.items():
        if re.fullmatch(r"-?[\d.]+", said):
            assert found[line] == pytest.approx(float(said), abs=5e-5), line
    assert sum(bool(re.fullmatch(r"-?[\d.]+", said)) for said in shown.values()) >= 2
    (estimate,) = (line.removeprefix("# ") for line in lines if line.startswith("# Estimate("))
    assert estimate in [repr(value) for value in found.values()]
    theta, value, gap = next(value for line, value in found.items() if line.startswith("best."))
    assert (len(theta), round(value, 7)) == (20, 8.64e-05)
    assert gap < 1e-13


def commands() -> list[str]:
    """What the pages and the README tell a reader to type, of our own command."""
    pages = [README, *(path for path in (README.parent / "docs").rglob("*.rst") if "_build" not in path.parts)]
    text = "\n".join(path.read_text(encoding="utf-8") for path in pages)
    return sorted(set(re.findall(r"^ *\$? ?(certeq [a-z]+ .*)$", text, flags=re.MULTILINE)))


def test_every_command_shown_has_its_options():
    typing = pytest.importorskip("typer.testing")
    from certeq.cli._app import app

    shown = [command for command in commands() if "--" in command]
    assert len(shown) >= 8
    for command in shown:
        name = command.split()[1]
        asked = typing.CliRunner().invoke(app, [name, "--help"], env={"COLUMNS": "200", "TERM": "dumb"})
        assert asked.exit_code == 0, command
        for option in re.findall(r"(?<=\s)--[a-z-]+", command):
            assert option in asked.output, f"{command}: {name} has no {option}"

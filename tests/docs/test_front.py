"""Every command that the README and the pages show has the options they show."""

from __future__ import annotations

import re
from pathlib import Path

from tests.command import certeq

README = Path(__file__).resolve().parents[2] / "README.md"


def commands() -> list[str]:
    """What the pages and the README tell a reader to type, of our own command."""
    pages = [README, *(path for path in (README.parent / "docs").rglob("*.rst") if "_build" not in path.parts)]
    text = "\n".join(path.read_text(encoding="utf-8") for path in pages)
    return sorted(set(re.findall(r"^ *\$? ?(certeq [a-z]+ .*)$", text, flags=re.MULTILINE)))


def test_every_command_shown_has_its_options(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    shown = [command for command in commands() if "--" in command]
    assert len(shown) >= 8
    for command in shown:
        name = command.split()[1]
        said = certeq(name, "--help").out
        for option in re.findall(r"(?<=\s)--[a-z-]+", command):
            assert option in said, f"{command}: {name} has no {option}"

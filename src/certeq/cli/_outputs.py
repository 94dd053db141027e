"""Weights as files that a spreadsheet may open safely."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import typer

from certeq.cli._console import BadData
from certeq.report import check_writable, write_text

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def check_output(path: Path | None, suffixes: tuple[str, ...], option: str, *, force: bool) -> None:
    """Refuse a name of another format (bad usage) or one that is taken (bad data) before any work is done."""
    if path is None:
        return
    if path.suffix.lower() not in suffixes:
        raise typer.BadParameter(f"{path.name!r} must end in {' or '.join(suffixes)}.", param_hint=option)
    try:
        check_writable(path, force=force)
    except OSError as error:
        raise BadData(str(error)) from None


def guarded(name: object) -> str:
    """A name a spreadsheet will not run: one that could begin a formula gets an apostrophe in front."""
    text = str(name)
    return f"'{text}" if text.lstrip(" ").startswith(_FORMULA) or text.startswith(_FORMULA) else text


def write_weights(path: Path, weights: dict[str, float], about: dict[str, Any], *, force: bool) -> None:
    """``.json`` with what was run, or ``.csv`` with two columns."""
    if path.suffix.lower() == ".json":
        text = json.dumps({**about, "weights": weights}, indent=2, allow_nan=False) + "\n"
    else:
        stream = io.StringIO()
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(["asset", "weight"])
        writer.writerows([guarded(name), repr(weight)] for name, weight in weights.items())
        text = stream.getvalue()
    write_text(path, text, force=force)


def free_name(path: Path) -> Path:
    """The path itself, or with a number that makes it new."""
    candidate, number = path, 1
    while candidate.exists():
        number += 1
        candidate = path.with_stem(f"{path.stem}-{number}")
    return candidate

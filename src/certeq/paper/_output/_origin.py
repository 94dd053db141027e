"""What a result was made by: the commit of the code, and what of the environment it depended on."""

from __future__ import annotations

import os
import subprocess
from functools import cache
from pathlib import Path

# Recorded as set or not, never by value: a path says where somebody's files lie and nothing about the result.
_VARIABLES = ("SKFOLIO_DATA",)


@cache
def commit() -> str | None:
    """The commit the code is at, with -dirty where it was changed since; None for an installed copy or without git."""
    import certeq

    package = Path(certeq.__file__).resolve().parent
    top = _git(package, "rev-parse", "--show-toplevel")
    if top is None or Path(top).resolve() / "src" / "certeq" != package:
        return None  # a copy that merely lies within somebody's repository is not of that repository's commit
    return _git(package, "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*")


def environment() -> dict[str, str]:
    """The variables that were set, without their values."""
    return {name: "set" for name in _VARIABLES if os.environ.get(name)}


def _git(where: Path, *arguments: str) -> str | None:
    try:
        asked = subprocess.run(["git", *arguments], cwd=where, capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return asked.stdout.strip() or None

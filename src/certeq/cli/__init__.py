"""The ``certeq`` command."""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> Any:
    """Run the command; ends the process with 0 when all went well, 1 on bad data, 2 on bad usage."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character gets a question mark, not a traceback.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    try:
        from certeq.cli._app import app
    except ImportError as error:
        if (error.name or "").split(".")[0] not in {"typer", "rich"}:
            raise
        print("error: the certeq command needs typer and rich: pip install 'certeq[cli]'", file=sys.stderr)
        raise SystemExit(1) from None
    app(arguments, prog_name="certeq")

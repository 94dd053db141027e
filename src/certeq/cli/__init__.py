"""The ``certeq`` command."""

from __future__ import annotations

import os
import sys
from typing import Any

__all__ = ["main"]

INTERRUPTED = 130  # 128 + SIGINT, as shells have it


def main(arguments: list[str] | None = None) -> Any:
    """Run the command; ends the process with 0 when all went well, 1 on bad data, 2 on bad usage, 130 on Ctrl-C."""
    _prepare_streams()
    try:
        _run(arguments)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        raise SystemExit(INTERRUPTED) from None
    except OSError as error:  # those of files are told where they occur: this one is of standard output
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - what is left to write would fail again at exit
        print(f"error: cannot write to standard output: {error.strerror or error}.", file=sys.stderr)
        raise SystemExit(1) from None


def _run(arguments: list[str] | None) -> None:
    try:
        if (sys.argv[1:] if arguments is None else arguments)[:1] == ["--version"]:
            print_version()  # here: that needs neither typer nor rich, which a plain installation does not have
            raise SystemExit(0)
        from certeq.cli._app import app

        app(arguments, prog_name="certeq")
    except ImportError as error:
        if (error.name or "").split(".")[0] not in {"typer", "rich"}:
            raise
        print("error: the certeq command needs typer and rich: pip install 'certeq[cli]'", file=sys.stderr)
        raise SystemExit(1) from None
    except SystemExit as end:
        try:
            sys.stdout.flush()  # here, where a full disk can be told in one line
        except OSError:
            if not end.code:
                raise
            sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - the reason was given
        raise


def print_version() -> None:
    """The version that is installed, and whether its compiled part is."""
    from importlib.metadata import PackageNotFoundError, version  # here: help must not wait for it

    from certeq.risk.solvers import AVAILABLE

    try:
        print(f"certeq {version('certeq')} ({'compiled' if AVAILABLE else 'not compiled: NumPy alone'})")
    except PackageNotFoundError:
        print("certeq (not installed)")


def _prepare_streams() -> None:
    """A character that a terminal cannot show becomes a question mark; a stream that is closed takes nothing."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - it stays open as long as the process
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")

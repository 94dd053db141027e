"""The command as a user runs it, in this process."""

from __future__ import annotations

import contextlib
import io
import json
from dataclasses import dataclass
from typing import Any

import pytest


@dataclass(frozen=True)
class Ended:
    """Exit code and text of a run of the command."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)


def certeq(*arguments: object, code: int | None = 0) -> Ended:
    """Run ``certeq`` with these arguments; check its exit code unless `code` is None."""
    pytest.importorskip("typer", reason="the command needs the extra [cli]")
    from certeq.cli import main

    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        try:
            main([str(argument) for argument in arguments])
            found = 0
        except SystemExit as end:
            found = int(end.code or 0)
    ended = Ended(found, out.getvalue(), err.getvalue())
    assert code is None or found == code, ended
    return ended

"""Errors and warnings: one table per package, of calls and of the parts that the message must contain.

The parts are the argument, the value found and the remedy, not whole sentences, so that a message can be reworded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


def messages(table: dict[str, tuple[Any, ...]]) -> Callable[[str], None]:
    """Return the test of a table of (call, type of error or warning, parts of the message) by name."""

    @pytest.mark.parametrize("name", table)
    def test_message(name: str) -> None:
        call, kind, *parts = table[name]
        if issubclass(kind, Warning):
            with pytest.warns(kind) as warned:
                call()
            text = "\n".join(str(warning.message) for warning in warned)
        else:
            with pytest.raises(kind) as raised:
                call()
            text = str(raised.value)
        missing = [part for part in parts if part not in text]
        assert not missing, f"{missing} not in: {text}"

    return test_message

"""The README's snippets run, and its two commands are what the Makefile offers."""

import re
import warnings
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SNIPPETS = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)


def test_snippets_run():
    pytest.importorskip("torch")
    names: dict = {}
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # a front page shows no doubts
        for snippet in SNIPPETS:
            exec(snippet, names)
    assert len(SNIPPETS) == 3
    assert 0 <= names["best"].gap <= 1e-9 * abs(names["best"].value)


def test_commands_exist():
    makefile = (ROOT / "Makefile").read_text()
    for target in ("run", "test", "lint", "bench", "test-slow"):
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE)
    run = (ROOT / ".ci" / "run").read_text()
    assert "make test" in run
    assert "make lint" in run


def test_torch_is_pinned_exactly():
    assert "torch==2.13.0" in (ROOT / "constraints.txt").read_text().splitlines()

"""What is said if PyTorch is missing."""

import importlib
import sys

import pytest


def test_without_torch_one_line_says_what_to_install(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("certeq.torch")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r"pip install 'certeq\[torch\]'"):
        importlib.import_module("certeq.torch")

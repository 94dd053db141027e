"""A missing PyTorch, and an infinite loss that the memory must not store."""

import importlib
import sys

import pytest
import torch

import certeq as ce
from certeq.torch import MemoryOCELoss


def test_without_torch_one_line_says_what_to_install(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("certeq.torch")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r"pip install 'certeq\[torch\]'"):
        importlib.import_module("certeq.torch")


def test_the_memory_does_not_advise_what_it_cannot_do():
    with pytest.raises(ValueError, match=r"\+inf at index 1") as error:
        MemoryOCELoss(ce.CVaR(0.5))(torch.tensor([1.0, torch.inf]))
    assert "allow_inf" not in str(error.value)

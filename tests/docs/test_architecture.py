"""The architecture page names modules that exist, and every package of the library."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

import certeq

ROOT = Path(__file__).resolve().parents[2]
SOURCE = Path(certeq.__file__).parent
PAGE = ROOT / "docs" / "development" / "index.rst"


@pytest.fixture(scope="module")
def flows():
    pytest.importorskip("matplotlib")
    folder = str(ROOT / "docs" / "figures")
    sys.path.insert(0, folder)
    spec = importlib.util.spec_from_file_location("data_flow", Path(folder, "data_flow.py"))
    module = importlib.util.module_from_spec(spec)
    sys.modules["data_flow"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module.FLOWS
    sys.path.remove(folder)
    del sys.modules["data_flow"]


@pytest.mark.parametrize("name", ["oce", "estimate", "minimize", "OCELoss", "MinimumOCE"])
def test_every_module_in_a_picture_exists(flows, name):
    missing = [
        module.path
        for step in flows[name]
        for module in step.modules
        if not (SOURCE / f"{module.path}.py").is_file() and not (SOURCE / module.path / "__init__.py").is_file()
    ]
    assert not missing


def test_the_page_names_every_package_and_every_shared_module():
    text = PAGE.read_text(encoding="utf-8")
    packages = {f"certeq.{path.parent.name}" for path in SOURCE.glob("*/__init__.py")}
    shared = {path.stem for path in SOURCE.glob("_*.py")} - {"__init__", "__main__"}
    assert {name for name in packages | shared if f"``{name}``" not in text} == set()

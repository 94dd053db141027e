"""The architecture page names modules that exist, and every package of the library."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

import certeq

ROOT = Path(__file__).resolve().parents[2]
SOURCE = Path(certeq.__file__).parent
PAGE = ROOT / "docs" / "development" / "index.rst"


def test_every_module_in_a_picture_exists(monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "figures"))
    flows = importlib.import_module("data_flow").FLOWS
    assert {"oce", "estimate", "minimize", "OCELoss", "MinimumOCE"} <= set(flows)
    paths = {module.path for steps in flows.values() for step in steps for module in step.modules}
    assert [
        path
        for path in sorted(paths)
        if not (SOURCE / f"{path}.py").is_file() and not (SOURCE / path / "__init__.py").is_file()
    ] == []


def test_the_page_names_every_package_and_every_shared_module():
    text = PAGE.read_text(encoding="utf-8")
    packages = {f"certeq.{path.parent.name}" for path in SOURCE.glob("*/__init__.py")}
    shared = {path.stem for path in SOURCE.glob("_*.py")} - {"__init__", "__main__"}
    assert {name for name in packages | shared if f"``{name}``" not in text} == set()

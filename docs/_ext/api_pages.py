"""The reference's pages, written from each package's ``__all__`` before Sphinx reads anything: no name is forgotten."""

from __future__ import annotations

import importlib
import inspect
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from sphinx.application import Sphinx

# Package, heading, what it is for. A package that is not installed is left out of the build with a clear error instead.
PACKAGES = {
    "certeq": ("certeq: risk and its minimization", "``import certeq as ce``. Needs NumPy and SciPy alone."),
    "certeq.risk.bounds": (
        "certeq.bounds: finite-sample bounds",
        "The paper's bounds, corrected. Also reachable as ``ce.bounds``.",
    ),
    "certeq.reference": (
        "certeq.reference: the paper's two algorithms",
        "OCE-SB and OCE-SG in about fifteen lines each, to be read and built on.",
    ),
    "certeq.optimize": (
        "certeq.optimize: solvers and schedules",
        "What `certeq.minimize` is made of. Feasible sets, losses and the function itself are under :doc:`certeq`.",
    ),
    "certeq.torch": ("certeq.torch: losses for PyTorch", "Needs ``certeq[torch]``."),
    "certeq.learn": ("certeq.learn: scikit-learn estimators", "Needs ``certeq[learn]``."),
    "certeq.portfolio": ("certeq.portfolio: skfolio optimizers", "Needs ``certeq[portfolio]``."),
    "certeq.data": ("certeq.data: dates and files", "Needs pandas, as ``certeq[cli]`` and ``certeq[portfolio]`` do."),
    "certeq.report": ("certeq.report: one-file HTML reports", "Needs ``certeq[cli]``."),
    "certeq.scale": ("certeq.scale: Dask and long files", "Needs ``certeq[dask]``."),
    "certeq.paper": ("certeq.paper: the paper's experiments", "Needs ``certeq[all]``; ``certeq reproduce`` runs them."),
}
GROUPS = ("Utilities", "Estimates", "Minimization", "Losses", "Feasible sets", "Errors and warnings")


def public_names(package: str) -> list[str]:
    """What a package offers, less what `certeq` itself already lists."""
    module = importlib.import_module(package)
    names = list(getattr(module, "__all__", ()))
    if package == "certeq.optimize":
        names = [name for name in names if name not in importlib.import_module("certeq").__all__]
    return sorted(name for name in names if not inspect.ismodule(getattr(module, name)))


@cache
def public_classes() -> dict[type, str]:
    """The classes of the reference, and the name that each has there."""
    found = {}
    for package in available():
        module = importlib.import_module(package)
        things = {name: getattr(module, name) for name in public_names(package)}
        found.update({thing: f"{package}.{name}" for name, thing in things.items() if inspect.isclass(thing)})
    return found


def group_of(module: ModuleType, name: str) -> str:
    """Under which heading of the first page a name belongs; asked of the thing itself."""
    thing = getattr(module, name)
    if inspect.isclass(thing):
        if issubclass(thing, Exception):
            return "Errors and warnings"
        for base, group in (("Utility", "Utilities"), ("Loss", "Losses"), ("Domain", "Feasible sets")):
            if issubclass(thing, getattr(module, base)):
                return group
    if name == "utility":
        return "Utilities"
    return "Minimization" if thing.__module__.startswith("certeq.optimize") else "Estimates"


def page(package: str) -> str:
    """One page of the reference."""
    title, intro = PACKAGES[package]
    module = importlib.import_module(package)
    names = public_names(package)
    lines = [
        title,
        "=" * len(title),
        "",
        inspect.getdoc(module) or "",
        "",
        intro,
        "",
        f".. currentmodule:: {package}",
        "",
    ]
    if package == "certeq":
        for group in GROUPS:
            members = [name for name in names if group_of(module, name) == group]
            lines += [group, "-" * len(group), "", *_listing(members)]
    else:
        lines += _listing(names)
    return "\n".join(lines) + "\n"


def _listing(names: list[str]) -> list[str]:
    return [".. autosummary::", "   :toctree: generated", "", *[f"   {name}" for name in names], ""]


def available() -> list[str]:
    """Packages that exist and list public names."""
    found = []
    for package in PACKAGES:
        try:
            names = public_names(package)
        except ModuleNotFoundError as error:
            if error.name != package:  # a missing extra must be heard of, not skipped
                raise
            continue
        if names:
            found.append(package)
    return found


def write(folder: Path) -> None:
    """Write what changed, so that an incremental build reads no more than it must."""
    packages = available()
    folder.mkdir(exist_ok=True)
    index = ["API reference", "=============", ""]
    index += [
        "Every public name has its parameters, what it returns, related names and an example that the tests run; what "
        "computes something has its formula."
    ]
    index += ["", ".. toctree::", "   :maxdepth: 1", "", *[f"   {package}" for package in packages], ""]
    pages = {"index": "\n".join(index), **{package: page(package) for package in packages}}
    for name, text in pages.items():
        target = folder / f"{name}.rst"
        if not target.exists() or target.read_text() != text:
            target.write_text(text)
    for stale in set(folder.glob("*.rst")) - {folder / f"{name}.rst" for name in pages}:
        stale.unlink()


def setup(app: Sphinx) -> dict[str, Any]:
    """Before autosummary looks for its tables."""
    write(Path(app.srcdir) / "api")
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

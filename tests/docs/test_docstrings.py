"""Every name of the reference teaches: a formula where it computes, and a runnable example."""

from __future__ import annotations

import doctest
import importlib
import importlib.util
import inspect
import re
from pathlib import Path

import pytest

pytest.importorskip("sphinx", reason="the docs extra is not installed (make docs)")
EXTENSIONS = Path(__file__).resolve().parents[2] / "docs" / "_ext"


def extension(name):
    spec = importlib.util.spec_from_file_location(f"certeq_docs_{name}", EXTENSIONS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


pages, docstrings = extension("api_pages"), extension("docstrings")
NEEDS = {
    "certeq.torch": "torch",
    "certeq.learn": "skorch",
    "certeq.portfolio": "skfolio",
    "certeq.report": "plotly",
    "certeq.data": "pandas",
    "certeq.scale": "dask",
    "certeq.paper": "skfolio",
}
PACKAGES = list(pages.PACKAGES)
# What computes something says what, in symbols; what only carries results, or goes wrong, need not.
FORMULA = re.compile(r":math:|\.\. math::|\w\(.*\) ?=|[<>]=|= |sqrt\(|\|g|R\^d|\^2")
COMPUTES = ("certeq", "certeq.risk.bounds", "certeq.optimize", "certeq.torch", "certeq.learn", "certeq.portfolio")
CARRIES = {
    *("CustomUtility", "Estimate", "Solution", "Frontier", "ScenarioPrior", "Calibration", "ToyData"),
    *("BudgetingResult", "ExactResult", "RatioSolution", "Trace", "Control", "Difference"),
    *("InfeasibleError", "InfeasibleLimitsError", "ReliabilityWarning", "UnboundedError", "UnitWarning"),
}


def documented(package: str) -> dict[str, str]:
    """What the reference says of each name of a package."""
    if package in NEEDS:
        pytest.importorskip(NEEDS[package])
    try:
        names = pages.public_names(package)
    except ModuleNotFoundError as error:
        pytest.skip(f"{package} needs {error.name}")
    return {name: docstrings.documentation(package, name) for name in names}


def prose(doc: str) -> str:
    """The docstring less its examples, where code is no formula."""
    return "\n".join(line for line in doc.split("\n") if not line.lstrip().startswith((">>>", "...")))


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_has_an_example(package):
    assert [name for name, doc in documented(package).items() if ">>> " not in doc] == []


@pytest.mark.parametrize("package", COMPUTES)
def test_what_computes_has_a_formula(package):
    found = documented(package).items()
    assert [name for name, doc in found if name not in CARRIES and not FORMULA.search(prose(doc))] == []


@pytest.mark.parametrize("package", PACKAGES)
def test_examples_of_constants_run(package):
    """Those of functions and classes are collected with the modules; a string under an assignment is not."""
    complaints: list[str] = []
    for name, doc in documented(package).items():
        thing = getattr(importlib.import_module(package), name)
        if not inspect.isclass(thing) and not inspect.isroutine(thing):
            test = doctest.DocTestParser().get_doctest(doc, {}, f"{package}.{name}", None, 0)
            doctest.DocTestRunner(verbose=False).run(test, out=complaints.append)
    assert not complaints, "\n".join(complaints)


@pytest.mark.parametrize("package", PACKAGES)
def test_examples_of_methods_run(package):
    """A class that names its package is collected with it, its methods are not: doctest asks where they are written."""
    complaints: list[str] = []
    for name in documented(package):
        thing = getattr(importlib.import_module(package), name)
        for key, method in vars(thing).items() if inspect.isclass(thing) else ():
            function = getattr(method, "fget", None) or getattr(method, "__func__", method)
            if inspect.isfunction(function) and function.__module__ != thing.__module__:
                doc, names = function.__doc__ or "", dict(function.__globals__)
                test = doctest.DocTestParser().get_doctest(doc, names, f"{package}.{name}.{key}", None, 0)
                doctest.DocTestRunner(verbose=False).run(test, out=complaints.append)
    assert not complaints, "\n".join(complaints)

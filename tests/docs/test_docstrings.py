"""Every name of the reference teaches: a formula where it computes, and examples that run and fit their column."""

from __future__ import annotations

import doctest
import importlib
import inspect
import re

import pytest

import certeq

pytest.importorskip("sphinx", reason="the docs extra is not installed (make docs)")
pytest.importorskip("numpydoc", reason="the docs extra is not installed (make docs)")
from . import validation

NEEDS = {
    "certeq.torch": "torch",
    "certeq.learn": "sklearn",
    "certeq.portfolio": "skfolio",
    "certeq.report": "plotly",
    "certeq.data": "pandas",
    "certeq.scale": "dask",
}
PACKAGES = list(validation.pages.PACKAGES)
# What computes something says what, in symbols; what only carries results, or goes wrong, need not.
FORMULA = re.compile(r":math:|\.\. math::|\w\(.*\) ?=|[<>]=|= |sqrt\(|\|g|R\^d|\^2")
COMPUTES = ("certeq", "certeq.risk.bounds", "certeq.optimize", "certeq.torch", "certeq.learn", "certeq.portfolio")
CARRIES = {
    *("CustomUtility", "Estimate", "Solution", "Frontier", "ScenarioPrior"),
    *("BudgetingResult", "ExactResult", "RatioSolution", "Trace", "Control", "Difference"),
    *("InfeasibleError", "InfeasibleLimitsError", "ReliabilityWarning", "UnboundedError", "UnitWarning"),
}


def documented(package: str) -> dict[str, str]:
    """What the reference says of each name of a package."""
    if package in NEEDS:
        pytest.importorskip(NEEDS[package])
    try:
        names = validation.pages.public_names(package)
    except ModuleNotFoundError as error:
        pytest.skip(f"{package} needs {error.name}")
    return {name: validation.docstrings.documentation(package, name) for name in names}


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
def test_examples_of_constants_and_methods_run(package):
    """Those of functions and classes are collected with the modules.

    A string under an assignment is not, nor are methods of a class that names its package: doctest looks for them where
    they are written.
    """
    complaints: list[str] = []

    def run(doc: str, names: dict, name: str) -> None:
        test = doctest.DocTestParser().get_doctest(doc, names, f"{package}.{name}", None, 0)
        doctest.DocTestRunner(verbose=False).run(test, out=complaints.append)

    for name, doc in documented(package).items():
        thing = getattr(importlib.import_module(package), name)
        if not inspect.isclass(thing) and not inspect.isroutine(thing):
            run(doc, {}, name)
        for key, method in vars(thing).items() if inspect.isclass(thing) else ():
            function = getattr(method, "fget", None) or getattr(method, "__func__", method)
            if inspect.isfunction(function) and function.__module__ != thing.__module__:
                run(function.__doc__ or "", dict(function.__globals__), f"{name}.{key}")
    assert not complaints, "\n".join(complaints)


@pytest.mark.parametrize("package", PACKAGES)
def test_examples_fit_their_column(package):
    """What ruff cannot break: long strings, comments and printed answers."""
    wide = []
    for name, doc in documented(package).items():
        thing = getattr(importlib.import_module(package), name)
        methods = validation.docstrings.members(thing) if inspect.isclass(thing) else ()
        for text in (doc, *(inspect.getdoc(vars(thing)[method]) or "" for method in methods)):
            for example in doctest.DocTestParser().get_examples(text):
                shown = [f">>> {line}" for line in example.source.splitlines()] + example.want.splitlines()
                wide += [f"{name}: {line}" for line in shown if len(line) > 88]
    assert not wide, "\n".join(wide)


@pytest.mark.parametrize(
    ("name", "old", "new", "code"),
    [
        ("oce", "See Also\n    --------\n", "", "SA01"),
        ("oce", "weights : array_like", "burdens : array_like", "PR01"),
        ("oce", "weights : array_like, optional", "weights", "PR04"),
        ("oce", "Returns\n    -------\n", "", "RT01"),
        ("oce", "Examples\n    --------\n", "", "EX01"),
        ("Estimate", "threshold : float", "level : float", "PR01"),  # made by a call: its Attributes count
        ("Loss.gradient", "q : array (m,)", "p : array (m,)", "PR01"),
        ("Utility.scaled", "Returns\n        -------\n", "", "RT01"),
    ],
)
def test_a_missing_section_is_found(monkeypatch, name, old, new, code):
    thing = importlib.import_module("certeq")
    for part in name.split("."):
        thing = getattr(thing, part)
    assert list(validation.complaints("certeq", name.split(".")[0])) == []
    assert thing.__doc__.count(old) == 1
    monkeypatch.setattr(thing, "__doc__", thing.__doc__.replace(old, new))
    assert [text for text in validation.complaints("certeq", name.split(".")[0]) if f"{name}: {code}" in text]


def test_an_overriding_method_shows_what_it_takes():
    found = validation.docstrings.inherited_sections("Return A.", certeq.Loss.jacobian.__doc__)
    assert found.startswith("Return A.\n\nParameters\n----------\ntheta : array (d,)")
    assert found.endswith("The Jacobian.")
    own = "Return A.\n\nReturns\n-------\narray\n    A."
    assert validation.docstrings.inherited_sections(own, certeq.Loss.jacobian.__doc__).count("Returns") == 1

"""Every public name teaches: a runnable example, and a word on when not to use it."""

from __future__ import annotations

import importlib
import inspect
import re

import pytest

ROOMS = {
    "certeq": None,
    "certeq.risk.bounds": None,
    "certeq.optimize": None,
    "certeq.torch": "torch",
    "certeq.learn": "skorch",
    "certeq.portfolio": "skfolio",
    "certeq.report": "plotly",
    "certeq.scale": "dask",
    "certeq.paper": "skfolio",
}
# A limit is stated in plain words; these are how one is stated in English.
LIMIT = re.compile(
    r"\b(not|never|no|nothing|none|nor|cannot|only|refused|false|instead|unless|rather)\b",
    re.IGNORECASE,
)

# What computes something says what, in symbols; what only carries results, or goes wrong, need not.
FORMULA = re.compile(r":math:|\.\. math::|\w\(.*\) ?=|[<>]=|= |sqrt\(|\|g|R\^d|\^2")
COMPUTES = ("certeq", "certeq.risk.bounds", "certeq.torch", "certeq.portfolio")
CARRIES = {
    *("CustomUtility", "Estimate", "Loss", "Solution", "Frontier", "ScenarioPrior"),
    *("InfeasibleError", "ReliabilityWarning", "UnboundedError"),
}


def public(room: str) -> list[str]:
    extra = ROOMS[room]
    if extra is not None:
        pytest.importorskip(extra)
    try:
        module = importlib.import_module(room)
    except ModuleNotFoundError as error:
        pytest.skip(f"{room} needs {error.name}")
    things = {name: getattr(module, name) for name in getattr(module, "__all__", ())}
    return [name for name, thing in things.items() if inspect.isclass(thing) or inspect.isfunction(thing)]


def documented(room: str, name: str) -> str:
    return inspect.getdoc(getattr(importlib.import_module(room), name)) or ""


def prose(doc: str) -> str:
    """The docstring less its examples: a "not" inside an example is no advice."""
    return "\n".join(line for line in doc.split("\n") if not line.lstrip().startswith((">>>", "...")))


@pytest.mark.parametrize("room", ROOMS)
def test_every_public_name_has_an_example(room):
    lacking = [name for name in public(room) if ">>> " not in documented(room, name)]
    assert lacking == []


@pytest.mark.parametrize("room", ROOMS)
def test_every_public_name_says_when_not_to_use_it(room):
    lacking = [name for name in public(room) if not LIMIT.search(prose(documented(room, name)))]
    assert lacking == []


@pytest.mark.parametrize("room", COMPUTES)
def test_what_computes_has_a_formula(room):
    lacking = [
        name for name in public(room) if name not in CARRIES and not FORMULA.search(prose(documented(room, name)))
    ]
    assert lacking == []

"""The public names, pinned: adding or dropping one is a decision, not an accident."""

import importlib
import inspect

import pytest

import certeq as ce


def test_every_public_name_is_there_and_documented():
    for name in ce.__all__:
        thing = getattr(ce, name)
        if inspect.isclass(thing) or inspect.isfunction(thing):
            assert inspect.getdoc(thing), f"certeq.{name} has no docstring"
    assert set(ce.__all__) <= set(dir(ce))


@pytest.mark.parametrize("room", ["utilities", "risk", "optimize", "torch", "portfolio", "learn", "report"])
def test_rooms_list_what_they_hold(room):
    extra = {"torch": "torch", "portfolio": "skfolio", "learn": "sklearn", "report": "plotly"}.get(room)
    if extra:
        pytest.importorskip(extra)
    module = importlib.import_module(f"certeq.{room}")
    for name in module.__all__:
        assert hasattr(module, name), f"certeq.{room}.{name} is listed but missing"


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'cvar'"):
        ce.cvar

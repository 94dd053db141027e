"""The public names, pinned: adding or dropping one is a decision, not an accident."""

import importlib
import importlib.metadata
import inspect
import subprocess
import sys

import pytest

import certeq as ce


def test_every_public_name_is_there_and_documented():
    for name in ce.__all__:
        thing = getattr(ce, name)
        if inspect.isclass(thing) or inspect.isfunction(thing):
            assert inspect.getdoc(thing), f"certeq.{name} has no docstring"
    assert set(ce.__all__) <= set(dir(ce))


@pytest.mark.parametrize("package", ["utilities", "risk", "optimize", "torch", "portfolio", "learn", "report", "data"])
def test_packages_list_what_they_hold(package):
    extra = {"torch": "torch", "portfolio": "skfolio", "learn": "skorch", "report": "plotly", "data": "pandas"}.get(
        package
    )
    if extra:
        pytest.importorskip(extra)
    module = importlib.import_module(f"certeq.{package}")
    for name in module.__all__:
        assert hasattr(module, name), f"certeq.{package}.{name} is listed but missing"


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'cvar'"):
        ce.cvar


@pytest.mark.parametrize(
    "use",
    [
        "import certeq",
        "import certeq as ce; ce.oce([1.0, 2.0, 3.0], ce.SmoothCVaR(0.1)); ce.tilt([1.0, 2.0], ce.CVaR(0.5))",
        "import certeq as ce, numpy as np; ce.utility(lambda x: np.logaddexp(0.0, x) + np.maximum(x, 0.0)).kappa",
    ],
)
def test_importing_and_estimating_take_no_slow_part_of_scipy(use):
    """Each of them takes longer to import than all that is needed here."""
    slow = {"scipy.optimize", "scipy.special", "scipy.stats", "scipy.sparse", "scipy.linalg", "torch", "pandas"}
    loaded = f"{use}\nimport sys; print(*({slow!r} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == ""


def test_packages_and_version_are_attributes():
    found = subprocess.run(
        [sys.executable, "-c", "import certeq as ce; print(ce.utilities.Pieces, ce.risk.oce, ce.__version__)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert importlib.metadata.version("certeq") in found.stdout

"""Settings and fixtures of all tests, and reference values where they are available."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

import certeq as ce
from tests.problems import UTILITIES

settings.register_profile(
    "steady", max_examples=25, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("steady")

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared"


@pytest.fixture(params=UTILITIES, ids=str)
def utility(request: pytest.FixtureRequest) -> ce.Utility:
    return UTILITIES[request.param]


def reference_rows() -> list[dict]:
    path = SHARED / "oracle" / "reference_values.json"
    if not path.exists():
        return []
    return json.loads(path.read_text())


def reference_utility(row: dict) -> ce.Utility:
    params = {key: float(value) for key, value in row["utility_params"].items()}
    kinds = {
        "entropic": ce.Entropic,
        "mean_variance": ce.MeanVariance,
        "monotone_mean_variance": ce.MonotoneMeanVariance,
        "quartic": ce.Quartic,
        "cvar": ce.CVaR,
        "leaky_cvar": ce.LeakyCVaR,
        "scvar_fixed_log1pexp": ce.SmoothCVaR,
        "softplus_cvar": ce.SmoothCVaR,
    }
    return kinds[row["utility"]](**params)


def ftse_folder() -> str | None:
    """A folder with skfolio's FTSE 100 file, if one is to be had without a network."""
    for folder in (os.environ.get("SKFOLIO_DATA"), str(SHARED / "data")):
        if folder and (Path(folder) / "ftse100_dataset.csv.gz").exists():
            return folder
    return None

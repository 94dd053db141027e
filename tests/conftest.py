"""What every test file may use: the utilities under test, and the reference values where they are to be had."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

import certeq as ce

settings.register_profile(
    "steady", max_examples=25, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("steady")

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared"

# One of each, and what can be made of them: the axioms hold for all or the exception is written in the test.
UTILITIES = {
    "mean": ce.Mean(),
    "entropic": ce.Entropic(0.5),
    "mean_variance": ce.MeanVariance(0.5),
    "mmv2": ce.MonotoneMeanVariance(2),
    "mmv3": ce.MonotoneMeanVariance(3),
    "mmv2.5": ce.MonotoneMeanVariance(2.5),
    "quartic": ce.Quartic(),
    "cvar": ce.CVaR(0.05),
    "cvar.3": ce.CVaR(0.3),
    "leaky": ce.LeakyCVaR(0.1),
    "leaky.7": ce.LeakyCVaR(0.7),
    "smooth": ce.SmoothCVaR(0.1),
    "smooth_tau": ce.SmoothCVaR(0.05, 1.0),
    "scaled": ce.Quartic().scaled(2.0),
    "normalized": ce.LeakyCVaR(0.2).normalized(),
    "mean_cvar": 0.3 * ce.Mean() + 0.7 * ce.CVaR(0.05),
    "entropic_leaky": 0.5 * ce.Entropic(1.0) + 0.5 * ce.LeakyCVaR(0.2),
    "entropic_cvar": 0.5 * ce.Entropic(0.5) + 0.5 * ce.CVaR(0.2),
    "two_kinks": ce.utility(lambda x: np.where(x > 0, 3 * x, 0.5 * x) + 2.5 * np.maximum(x - 1, 0), name="two_kinks"),
    "custom": ce.utility(lambda x: np.expm1(0.5 * x) / 0.5, name="custom_entropic"),
}
SMOOTH = {name: u for name, u in UTILITIES.items() if not u.kinks and name != "mean"}


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

"""The public names: adding or dropping one is a decision that changes this file."""

import importlib
import importlib.metadata
import subprocess
import sys

import pytest

import certeq as ce

# The package that a module needs beyond NumPy and SciPy, and the public names of the module.
NAMES = {
    "certeq": (
        None,
        "Ball Box BudgetingResult CVaR CallableLoss CappedSimplex Control CustomUtility Difference Distortion "
        "DivergenceBall Domain EVaR Entropic Estimate Free HMCR InfeasibleError L1Ball LeakyCVaR Limit LinearLoss "
        "LogisticLoss LongShort Loss Mean MeanVariance Mixture MonotoneMeanVariance NonNegative Polyhedron "
        "PowerDistortion Product ProportionalHazard Quartic RatioSolution ReliabilityWarning Risk RiskTerm "
        "RootMeanSquare Simplex SmoothCVaR Solution SquaredLoss TorchLoss UnboundedError UnitWarning Utility Wang "
        "bounds control difference estimate hessian hessian_product maximize_ratio minimize oce risk_budgeting "
        "threshold tilt ubsr upper_bound utility",
    ),
    "certeq.risk.bounds": (
        None,
        "bisect_bound central_moment dispersion dispersion_bound gradient_mse_bound mae_bound mse_bound "
        "mse_bound_lipschitz samples_needed wasserstein_bound",
    ),
    "certeq.optimize": (
        None,
        "Ball Box BudgetingResult CallableLoss CappedSimplex Domain ExactResult Free InfeasibleError "
        "InfeasibleLimitsError L1Ball Limit LinearLoss LogisticLoss LongShort Loss NonNegative Polyhedron Product "
        "RatioSolution RiskTerm RootMeanSquare Simplex Solution SquaredLoss TorchLoss Trace UnboundedError constant "
        "constant_batch full_batch growing_batch hessian hessian_product inverse inverse_sqrt maximize_ratio minimize "
        "oce_smoothness risk_budgeting solve_exact",
    ),
    "certeq.torch": ("torch", "GrowingBatchSampler MemoryOCELoss OCELoss OCESG oce threshold tilt"),
    "certeq.learn": ("sklearn", "OCEClassifier OCERegressor oce_scorer sample_losses"),
    "certeq.portfolio": (
        "skfolio",
        "Frontier MinimumOCE OCEMeasure RiskBudgetingOCE ScenarioPrior oce_scorer portfolio_oce",
    ),
    "certeq.data": ("pandas", "BadData Frequency LossData PriceData frequency_of read_losses read_prices"),
    "certeq.report": (
        "plotly",
        "HeldLimit METRICS Metric Strategy Study Sweep Walk WalkStudy check_writable differences differences_sentence "
        "figures fit_strategy frontier gain_in_words intervals measure render save sensitivity walk_forward walk_of "
        "why_not_compared write_text",
    ),
    "certeq.scale": ("dask", "ClusterLost DaskSample as_sample open_npy"),
    "certeq.cli": (None, "main"),
}


@pytest.mark.parametrize("module", NAMES)
def test_names_are_those_that_were_decided(module):
    extra, names = NAMES[module]
    if extra:
        pytest.importorskip(extra)
    found = importlib.import_module(module)
    assert sorted(found.__all__) == names.split()
    for name in names.split():
        assert getattr(found, name) is not None
        assert name in dir(found)


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
    """Each of the modules takes longer to import than all that is needed here."""
    slow = {"scipy.optimize", "scipy.special", "scipy.stats", "scipy.sparse", "scipy.linalg", "torch", "pandas"}
    assert printed(f"{use}\nimport sys; print(*({slow!r} & set(sys.modules)))") == ""


def test_packages_and_version_are_attributes():
    found = printed("import certeq as ce; print(ce.utilities.CVaR is ce.CVaR, ce.risk.oce is ce.oce, ce.__version__)")
    assert found == f"True True {importlib.metadata.version('certeq')}"


def printed(code: str) -> str:
    """Return what a program prints."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()

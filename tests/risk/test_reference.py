"""Reference values at 40 digits, of samples and of distributions."""

import numpy as np
import pytest
from scipy import stats

import certeq as ce
from tests.conftest import reference_rows, reference_utility

ROWS = reference_rows()
NAMED = [row for row in ROWS if row["utility"] != "scvar_as_printed"]
EMPIRICAL = [row for row in NAMED if row["distribution"] == "empirical"]
LAWS = [row for row in NAMED if row["distribution"] != "empirical" and row["finite"]]
needs_rows = pytest.mark.skipif(not ROWS, reason="the reference values lie beside the repository, not in it")


def label(row):
    return f"{row['distribution']}-{row['utility']}-{'-'.join(row['utility_params'].values())}"


@needs_rows
@pytest.mark.parametrize("row", EMPIRICAL, ids=label)
def test_empirical_rows(row):
    z = [float(value) for value in row["dist_params"]["z"]]
    utility = reference_utility(row)
    true = float(row["oce_str"])
    assert ce.oce(z, utility) == pytest.approx(true, rel=1e-13)
    assert ce.oce(np.repeat(z, 20_000), utility) == pytest.approx(true, rel=1e-13)
    assert ce.threshold(z, utility) == pytest.approx(row["t_star"], rel=1e-10)
    np.testing.assert_allclose(ce.tilt(z, utility), [float(q) for q in row["weights"]], atol=1e-12)


def _law(row):
    if row["distribution"] == "normal":
        return stats.norm(float(row["dist_params"]["mean"]), float(row["dist_params"]["var"]) ** 0.5)
    return stats.expon(scale=1 / float(row["dist_params"]["rate"]))


@needs_rows
@pytest.mark.parametrize("row", LAWS, ids=label)
def test_distribution_rows(row):
    assert ce.oce(_law(row), reference_utility(row)) == pytest.approx(float(row["oce_str"]), rel=1e-9, abs=1e-9)
    assert ce.threshold(_law(row), reference_utility(row)) == pytest.approx(row["t_star"], rel=1e-8, abs=1e-8)


@needs_rows
@pytest.mark.parametrize("row", [row for row in LAWS if row.get("var_u")], ids=label)
def test_standard_error_and_bias_of_the_reference(row):
    """The plug-in standard error and bias converge to the reference limits, where the moments allow it."""
    if row["utility"] in ("quartic",) or row["utility_params"].get("a") in ("3.0", "4.0"):
        pytest.skip("the fourth moment of u is too heavy for a sample of this size")
    if row["distribution"] == "exponential" and row["utility"] == "entropic" and row["utility_params"]["beta"] == "0.5":
        pytest.skip("Var u is infinite")
    law, utility = _law(row), reference_utility(row)
    z = law.ppf((np.arange(200_000) + 0.5) / 200_000)  # a sample without noise
    found = ce.estimate(z, utility)
    assert found.stderr**2 * found.n == pytest.approx(float(row["var_u"]), rel=0.05)
    if row.get("bias_coef") is not None and not utility.kinks:
        assert found.bias * found.n == pytest.approx(float(row["bias_coef"]), rel=0.05)

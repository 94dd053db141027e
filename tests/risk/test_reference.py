"""Reference values at 40 digits: empirical rows exactly, distribution rows by quadrature and by closed forms."""

import numpy as np
import pytest
from scipy import integrate, stats

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
def test_distribution_rows_by_quadrature(row):
    """A law discretized by Gauss-Legendre quadrature is a weighted sample like any other."""
    if row["utility"] == "entropic" and row["utility_params"]["beta"] == "0.9":
        pytest.skip("the integrand falls like exp(-x/10); the next test takes the closed form")
    law, utility = _law(row), reference_utility(row)
    low, high = law.support()
    center, spread = law.mean(), law.std()
    low, high = (
        max(low, center - 14 * spread),
        min(high, center + (14 if row["distribution"] == "normal" else 80) * spread),
    )
    t = row["t_star"]
    kinks = sorted({*np.linspace(low, high, 400), *(t + k for k, _ in utility.kinks), t, t - 1.0})
    nodes, weights = np.polynomial.legendre.leggauss(40)
    edges = np.array([k for k in kinks if low <= k <= high])
    half = 0.5 * np.diff(edges)[:, None]
    z = (0.5 * (edges[1:] + edges[:-1])[:, None] + half * nodes).ravel()
    w = (half * weights).ravel() * law.pdf(z)
    assert ce.oce(z, utility, weights=w) == pytest.approx(float(row["oce_str"]), rel=1e-9, abs=1e-9)


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


def test_the_printed_smooth_cvar_is_the_mean():
    """u = alpha ln(1 + e^{x/alpha}) has slopes below 1: t + E u(X - t) falls for ever, towards the mean."""
    z = np.array([0.0, 1.0, 5.0])
    alpha = 0.05
    g = [t + np.mean(alpha * np.logaddexp(0, (z - t) / alpha)) for t in (0.0, -1.0, -10.0)]
    assert g[0] > g[1] >= g[2] == pytest.approx(z.mean(), abs=1e-12)
    with pytest.raises(ValueError, match="printed smooth CVaR"):
        ce.utility(lambda x: alpha * np.logaddexp(0, x / alpha))


@pytest.mark.parametrize("sigma, mu", [(1.0, 0.0), (2.0, -1.0)])
def test_closed_forms_of_the_normal(sigma, mu):
    law = stats.norm(mu, sigma)
    z = law.ppf((np.arange(400_000) + 0.5) / 400_000)
    assert ce.oce(z, ce.Entropic(0.5)) == pytest.approx(mu + 0.25 * sigma**2, abs=2e-4)
    assert ce.oce(z, ce.MeanVariance(0.5)) == pytest.approx(mu + 0.5 * sigma**2, abs=2e-4)
    tail = stats.norm.isf(0.05)
    assert ce.oce(z, ce.CVaR(0.05)) == pytest.approx(mu + sigma * stats.norm.pdf(tail) / 0.05, abs=2e-4)


def test_exponential_closed_form_by_integration():
    value, _ = integrate.quad(lambda x: np.exp(0.9 * x - x), 0, np.inf)
    assert np.log(value) / 0.9 == pytest.approx(2.558427881104495, rel=1e-9)

"""The table of docs/guide/conversions.rst, row by row: against the library itself, or its definition solved anew."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

import certeq as ce

N = 64
RETURNS = np.random.default_rng(5).standard_t(5, size=N)
LOSSES = -RETURNS


def ball(x, utility, radius, widest=1e3):
    """The worst case within a divergence of ``radius``: one more minimization, over the scale."""

    def price(log_s):
        s = float(np.exp(log_s))
        return s * radius + ce.oce(x, utility.scaled(s))

    return minimize_scalar(price, bounds=(-12, np.log(widest)), method="bounded", options={"xatol": 1e-9}).fun


def kl_cvar(size, reg):
    """Relative entropy at price ``reg``, weights capped at 1/size."""
    bound = reg * np.log(1 / size)
    return ce.utility(
        lambda x: reg * np.expm1(np.minimum(x, bound) / reg) + np.maximum(x - bound, 0.0) / size,
        lambda x: np.exp(np.minimum(x, bound) / reg),
        lambda x: np.where(x < bound, np.exp(np.minimum(x, bound) / reg) / reg, 0.0),
    )


class TestSkfolio:
    measures = pytest.importorskip("skfolio.measures")

    @pytest.mark.parametrize("beta", [0.9, 0.95])
    def test_cvar_beta_is_one_minus_alpha(self, beta):
        assert ce.oce(-RETURNS, ce.CVaR(1 - beta)) == pytest.approx(self.measures.cvar(RETURNS, beta), abs=1e-12)

    def test_value_at_risk_is_the_threshold(self):
        beta = 0.9  # 6.4 samples in the tail
        theirs = self.measures.value_at_risk(RETURNS, beta)
        assert ce.threshold(-RETURNS, ce.CVaR(1 - beta)) == pytest.approx(theirs, abs=1e-12)

    @pytest.mark.parametrize("theta, beta", [(1.0, 0.95), (0.7, 0.8)])
    def test_entropic_theta_is_one_over_beta_and_beta_a_constant(self, theta, beta):
        ours = ce.oce(-RETURNS, ce.Entropic(1 / theta)) - theta * math.log(1 - beta)
        assert ours == pytest.approx(self.measures.entropic_risk_measure(RETURNS, theta, beta), abs=1e-12)

    def test_evar_is_a_ball_of_relative_entropy(self):
        ours = ce.oce(-RETURNS, ce.EVaR(0.1))
        assert ours == pytest.approx(ball(-RETURNS, ce.Entropic(1.0), math.log(1 / 0.1)), abs=1e-9)
        assert ours == pytest.approx(self.measures.evar(RETURNS, 0.9), abs=1e-7)


class TestSkfolioOptimizers:
    optimization = pytest.importorskip("skfolio.optimization")
    X = np.random.default_rng(0).normal([0.0005, 0.0008, 0.001], [0.01, 0.015, 0.02], size=(800, 3))

    def test_mean_risk_cvar(self):
        from skfolio import RiskMeasure

        from certeq.portfolio import MinimumOCE, portfolio_oce

        theirs = self.optimization.MeanRisk(risk_measure=RiskMeasure.CVAR, cvar_beta=0.95).fit(self.X)
        ours = MinimumOCE(ce.CVaR(0.05)).fit(self.X)
        assert ours.risk_ == pytest.approx(portfolio_oce(theirs.predict(self.X), ce.CVaR(0.05)), abs=1e-7)

    def test_mean_risk_variance(self):
        from skfolio import RiskMeasure

        from certeq.portfolio import MinimumOCE

        g, n = 4.0, len(self.X)
        theirs = self.optimization.MeanRisk(
            risk_measure=RiskMeasure.VARIANCE,
            objective_function=self.optimization.ObjectiveFunction.MAXIMIZE_UTILITY,
            risk_aversion=g,
        ).fit(self.X)
        utility = ce.MeanVariance(g * n / (n - 1))  # their variance divides by n - 1
        ours = MinimumOCE(utility).fit(self.X)
        assert ours.weights_ == pytest.approx(theirs.weights_, abs=1e-3)
        excess = ce.oce(-self.X @ theirs.weights_, utility) - ours.objective_
        assert -1e-12 <= excess < 1e-9  # the same minimum, to their solver's tolerance


class TestRiskfolio:
    @pytest.fixture
    def functions(self):
        return pytest.importorskip("riskfolio", reason="riskfolio-lib is an extra of the benchmarks").RiskFunctions

    def test_cvar(self, functions):
        assert ce.oce(-RETURNS, ce.CVaR(0.05)) == pytest.approx(float(functions.CVaR_Hist(RETURNS, 0.05)), abs=1e-12)

    @pytest.mark.parametrize("alpha", [0.05, 0.3])
    def test_evar(self, functions, alpha):
        theirs, _ = functions.EVaR_Hist(RETURNS, alpha)
        assert ce.oce(-RETURNS, ce.EVaR(alpha)) == pytest.approx(float(theirs), abs=1e-6)

    def test_entropic(self, functions):
        z, alpha = 0.7, 0.1
        ours = ce.oce(-RETURNS, ce.Entropic(1 / z)) - z * math.log(alpha)
        assert ours == pytest.approx(float(functions.Entropic_RM(RETURNS[:, None], z, alpha)), abs=1e-10)


@pytest.mark.parametrize("alpha", [0.05, 0.3])
def test_riskfolio_evar_by_its_published_definition(alpha):
    """EVaR_Hist: the minimum over z of z ln(M(1/z)/alpha), M the moment generating function of the losses."""
    price = lambda log_z: math.exp(log_z) * (logsumexp(-RETURNS / math.exp(log_z)) - math.log(RETURNS.size * alpha))
    theirs = minimize_scalar(price, bounds=(-9.0, 6.0), method="bounded", options={"xatol": 1e-9}).fun
    assert ce.oce(-RETURNS, ce.EVaR(alpha)) == pytest.approx(theirs, abs=1e-9)


class TestPfhedge:
    @property
    def nn(self):
        return pytest.importorskip("pfhedge.nn", reason="pfhedge asks for NumPy 1 and is installed on its own")

    @property
    def torch(self):
        return pytest.importorskip("torch")

    @property
    def returns(self):
        return self.torch.tensor(RETURNS)

    @pytest.mark.parametrize("a", [0.5, 1.0])
    def test_entropic(self, a):
        theirs = self.nn.functional.entropic_risk_measure(self.returns, a).item()
        assert ce.oce(-RETURNS, ce.Entropic(a)) == pytest.approx(theirs, abs=1e-12)
        loss = self.nn.EntropicLoss(a)(self.returns).item()
        assert math.exp(a * ce.oce(-RETURNS, ce.Entropic(a))) == pytest.approx(loss, rel=1e-12)

    @pytest.mark.parametrize("p", [0.05, 0.25])
    def test_expected_shortfall_rounds_up(self, p):
        theirs = self.nn.functional.expected_shortfall(self.returns, p).item()
        assert ce.oce(-RETURNS, ce.CVaR(math.ceil(p * N) / N)) == pytest.approx(theirs, abs=1e-12)

    @pytest.mark.parametrize("lam", [1.0, 10.0])
    def test_quadratic_cvar(self, lam):
        theirs = self.nn.functional.quadratic_cvar(self.returns, lam).item()
        ours = ce.oce(-RETURNS, ce.MonotoneMeanVariance(2).scaled(1 / (2 * lam))) - 1 / (4 * lam)
        assert ours == pytest.approx(theirs, abs=1e-9)

    def test_oce_with_its_w_optimized(self):
        # Their v takes gains and is concave; ours takes losses and is convex: u(x) = -v(-x).
        def v(x):
            return 1 - self.torch.exp(-x)

        measure = pytest.importorskip("pfhedge.nn.modules.loss").OCE(v)

        def at(w):
            measure.w.data.fill_(w)
            return measure(self.returns).item()

        theirs = minimize_scalar(at, bounds=(-10, 10), method="bounded", options={"xatol": 1e-8}).fun
        ours = ce.oce(-RETURNS, ce.utility(lambda x: -(1 - np.exp(x))))
        assert ours == pytest.approx(theirs, abs=1e-6)
        assert ours <= theirs + 1e-6  # a t left to the optimizer is never better than the solved one


class TestSqwash:
    def test_superquantile(self):
        sqwash, torch = pytest.importorskip("sqwash"), pytest.importorskip("torch")
        x = torch.tensor(np.random.default_rng(1).standard_normal(101))  # 0.9 * (101 - 1) is whole
        theirs = sqwash.reduce_superquantile(x, 0.1).item()
        assert ce.oce(x.numpy(), ce.CVaR(0.1)) == pytest.approx(theirs, abs=1e-6)


class TestFastDro:
    """It is a paper's repository, not a package: its published definitions, solved by a conic solver."""

    cp = pytest.importorskip("cvxpy")

    def worst(self, size=None, penalty=None, ball_of=None):
        p = self.cp.Variable(N, nonneg=True)
        constraints = [self.cp.sum(p) == 1]
        chi2 = self.cp.sum_squares(N * p - 1) / (2 * N)
        kl = -self.cp.sum(self.cp.entr(p)) + math.log(N)
        gain = LOSSES @ p
        if size is not None:
            constraints.append(p <= 1 / (size * N))
        if penalty is not None:
            kind, reg = penalty
            gain = gain - reg * (chi2 if kind == "chi-square" else kl)
        if ball_of is not None:
            constraints.append(chi2 <= ball_of)
        return self.cp.Problem(self.cp.Maximize(gain), constraints).solve(solver=self.cp.CLARABEL)

    def test_cvar_size_is_alpha(self):
        assert ce.oce(LOSSES, ce.CVaR(0.1)) == pytest.approx(self.worst(size=0.1), abs=1e-6)

    @pytest.mark.parametrize("reg", [0.1, 1.0])
    def test_cvar_with_entropy(self, reg):
        ours = ce.oce(LOSSES, kl_cvar(0.1, reg))
        assert ours == pytest.approx(self.worst(size=0.1, penalty=("kl", reg)), abs=1e-5)

    @pytest.mark.parametrize("reg", [0.3, 2.0])
    def test_chi_square_penalty(self, reg):
        ours = ce.oce(LOSSES, ce.MonotoneMeanVariance(2).scaled(reg))
        assert ours == pytest.approx(self.worst(penalty=("chi-square", reg)), abs=1e-6)

    @pytest.mark.parametrize("size", [0.1, 1.0])
    def test_chi_square_ball(self, size):
        ours = ce.oce(LOSSES, ce.MonotoneMeanVariance(2).ball(size))
        assert ours == pytest.approx(ball(LOSSES, ce.MonotoneMeanVariance(2), size), abs=1e-9)
        assert ours == pytest.approx(self.worst(ball_of=size), abs=1e-5)


def dro_module(name):
    """A module of dro's linear models, without what the rest of that package imports."""
    return pytest.importorskip(f"dro.linear_model.{name}", reason="dro is no dependency of the tests")


def robust_risk(kind, n):
    """The risk of dro's model of that kind with 0.4, or 0.7 for total variation, on n samples."""
    return {
        "kl": ce.Entropic(1.0).ball(0.4),
        "chi2": ce.MonotoneMeanVariance(2).ball(0.4 / 2.0),
        "cvar": ce.CVaR(0.4),
        "tv": ce.Mixture([0.3, 0.7], [ce.CVaR(0.3), ce.CVaR(1.0 / n)]),
    }[kind]


class TestDro:
    """The divergences of dro's linear models as its sources have them, and its own fits where it is installed."""

    cp = pytest.importorskip("cvxpy")
    X = np.random.default_rng(3).standard_normal((40, 2))
    y = X @ [1.0, -0.5] + 0.5 * np.random.default_rng(4).standard_t(5, size=40)

    def worst(self, kind):
        """The largest mean under probabilities q/n that are so near to equal ones, or below 1/(0.4 n)."""
        q = self.cp.Variable(N, nonneg=True)
        constraints = [self.cp.sum(q) == N]
        if kind == "kl":
            constraints.append(-self.cp.sum(self.cp.entr(q)) / N <= 0.4)
        elif kind == "chi2":
            constraints.append(self.cp.sum_squares(q - 1.0) / N <= 0.4)
        elif kind == "cvar":
            constraints.append(q <= 1.0 / 0.4)
        else:
            constraints.append(0.5 * self.cp.norm1(q - 1.0) / N <= 0.7)
        return self.cp.Problem(self.cp.Maximize(LOSSES @ q / N), constraints).solve(solver=self.cp.CLARABEL)

    @pytest.mark.parametrize("kind", ["kl", "chi2", "cvar", "tv"])
    def test_the_divergence(self, kind):
        assert ce.oce(LOSSES, robust_risk(kind, N)) == pytest.approx(self.worst(kind), abs=1e-6)

    def test_relative_entropy_is_evar(self):
        assert ce.oce(LOSSES, robust_risk("kl", N)) == pytest.approx(ce.oce(LOSSES, ce.EVaR(math.exp(-0.4))), rel=1e-13)

    @pytest.mark.parametrize("kind", ["kl", "chi2", "cvar", "tv"])
    def test_its_linear_models(self, kind):
        from certeq.learn import OCERegressor

        if kind == "kl":
            model = dro_module("kl_dro").KLDRO(2, "ols", solver="CLARABEL", eps=0.4)
        elif kind == "chi2":
            model = dro_module("chi2_dro").Chi2DRO(2, "ols", solver="CLARABEL")
            model.update({"eps": 0.4})
        elif kind == "cvar":
            model = dro_module("cvar_dro").CVaRDRO(2, "ols", solver="CLARABEL", alpha=0.4)
        else:
            model = dro_module("tv_dro").TVDRO(2, "ols", solver="CLARABEL", eps=0.7)
        model.fit(self.X, self.y)
        theirs = ce.oce(np.square(self.X @ model.theta + model.b - self.y), robust_risk(kind, 40))
        ours = OCERegressor(robust_risk(kind, 40), alpha=0.0).fit(self.X, self.y)
        assert ours.objective_ == pytest.approx(float(theirs), rel=1e-6)
        assert ours.objective_ <= theirs + 1e-9


class TestModelingLanguages:
    def test_log_sum_exp(self):
        cp = pytest.importorskip("cvxpy")
        beta = 0.8
        ours = beta * ce.oce(LOSSES, ce.Entropic(beta)) + math.log(N)
        assert ours == pytest.approx(float(cp.log_sum_exp(beta * LOSSES).value), abs=1e-12)

    def test_sum_largest(self):
        cp = pytest.importorskip("cvxpy")
        assert 7 * ce.oce(LOSSES, ce.CVaR(7 / N)) == pytest.approx(float(cp.sum_largest(LOSSES, 7).value), abs=1e-12)

    def test_scipy_logsumexp_with_weights(self):
        w = np.random.default_rng(2).random(N)
        w /= w.sum()
        assert ce.oce(LOSSES, ce.Entropic(1.0), weights=w) == pytest.approx(float(logsumexp(LOSSES, b=w)), abs=1e-12)


def test_every_row_of_the_table_names_a_library_tested_here():
    page = (Path(__file__).resolve().parents[2] / "docs" / "guide" / "conversions.rst").read_text()
    rows = [line.strip()[4:].split()[0] for line in page.splitlines() if line.strip().startswith("* - ")][1:]
    assert set(rows) == {"skfolio", "Riskfolio-Lib", "pfhedge", "sqwash", "fast-dro", "dro", "cvxpy", "SciPy"}
    assert len(rows) == 25

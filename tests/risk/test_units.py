"""Utilities that are blind at the scale of the losses: where it is said, where it is not, and that the remedy works."""

import re
import subprocess
import sys
import warnings

import numpy as np
import pytest

import certeq as ce

RNG = np.random.default_rng(3)
DAILY = 0.0004 - 0.01 * (RNG.standard_t(6, size=(1500, 1)) + RNG.standard_t(6, size=(1500, 8)))
LOSSES = DAILY @ RNG.dirichlet(np.ones(8))
LOSSES *= 0.012 / LOSSES.std()
BLIND = {
    "entropic": ce.Entropic(1.0),
    "monotone mean-variance": ce.MonotoneMeanVariance(2),
    "quartic": ce.Quartic(),
    "leaky": ce.LeakyCVaR(0.05),
    "smooth": ce.SmoothCVaR(0.05),
    "normalized": ce.Quartic().normalized(),
    "scaled by too much": ce.Entropic(1.0).scaled(3.0),
    "sum": 0.5 * ce.Mean() + 0.5 * ce.Entropic(2.0),
    "custom": ce.utility(np.expm1, np.exp, np.exp),
}
SEEING = {
    "entropic 10": ce.Entropic(10.0),
    "entropic 50": ce.Entropic(50.0),
    "leaky": ce.LeakyCVaR(0.05).scaled(0.02),
    "smooth": ce.SmoothCVaR(0.05, tau=0.005),
    "mmv": ce.MonotoneMeanVariance(2).scaled(0.02),
    "quartic": ce.Quartic().scaled(0.02).normalized(),
    "cvar": ce.CVaR(0.05),
    "mean": ce.Mean(),
    "mean-variance": ce.MeanVariance(1e-6),
    "mean and variance": 0.5 * ce.Mean() + 0.5 * ce.MeanVariance(1e-3).scaled(7.0),
    "mean and cvar": 0.999 * ce.Mean() + 0.001 * ce.CVaR(0.05),
}


def unit_of(found):
    return [reason for reason in found.warnings if "hardly sees" in reason]


def remedied(utility, text):
    """The utility that a warning recommends."""
    inner = utility
    while hasattr(inner, "utility"):
        inner = inner.utility
    better = inner.scaled(float(re.search(r"--scale ([\d.e-]+)\)", text).group(1)))
    return better.normalized() if ".scaled(s).normalized()" in text else better


def excess(x, utility, w=None):
    """By what OCE exceeds the mean and OCE(0), in standard deviations: from the definitions alone."""
    mean = np.average(x, weights=w)
    return (ce.oce(x, utility, w) - mean - ce.oce([0.0], utility)) / np.sqrt(np.average((x - mean) ** 2, weights=w))


@pytest.mark.parametrize("name", BLIND)
def test_an_estimate_says_so_and_its_remedy_works(name):
    utility = BLIND[name]
    (text,) = unit_of(ce.estimate(LOSSES, utility))
    better = remedied(utility, text)
    assert not unit_of(ce.estimate(LOSSES, better)), text
    assert 0.1 < excess(LOSSES, better) < 3.0
    with pytest.warns(ce.ReliabilityWarning, match="hardly sees"):
        ce.estimate(LOSSES, utility).interval()


@pytest.mark.parametrize("name", SEEING)
def test_what_sees_the_losses_is_not_doubted(name):
    assert not unit_of(ce.estimate(LOSSES, SEEING[name]))
    with warnings.catch_warnings():
        warnings.simplefilter("error", ce.UnitWarning)
        ce.minimize(ce.LinearLoss(DAILY), SEEING[name], domain=ce.Simplex())


@pytest.mark.parametrize("weighted", [False, True])
def test_the_limit_is_four_percent_of_the_standard_deviation(weighted):
    w = np.random.default_rng(0).uniform(0.0, 2.0, LOSSES.size) if weighted else None
    betas = np.linspace(3.0, 12.0, 40)
    for offset in (0.0, 1e3):
        shown = [bool(unit_of(ce.estimate(LOSSES + offset, ce.Entropic(beta), w))) for beta in betas]
        assert shown == [excess(LOSSES, ce.Entropic(beta), w) < 0.04 for beta in betas]
    assert 5 < sum(shown) < 35


@pytest.mark.parametrize("make", [ce.SmoothCVaR, ce.LeakyCVaR])
def test_near_cvar_the_limit_is_a_quarter_of_it(make):
    scales = np.geomspace(0.01, 3.0, 40)
    of_cvar = excess(LOSSES, ce.CVaR(0.05))
    shown = [bool(unit_of(ce.estimate(LOSSES, make(0.05).scaled(scale)))) for scale in scales]
    assert shown == [excess(LOSSES, make(0.05).scaled(scale)) < 0.25 * of_cvar for scale in scales]
    assert 5 < sum(shown) < 35


@pytest.mark.parametrize("name", BLIND)
@pytest.mark.parametrize("method", ["exact", "sg"])
def test_minimizing_warns(name, method):
    options = {"iterations": 5, "batch": "full"} if method == "sg" else {}
    with pytest.warns(ce.UnitWarning, match=r"hardly sees.*\.scaled\(") as caught:
        ce.minimize(ce.LinearLoss(DAILY), BLIND[name], domain=ce.Simplex(), method=method, **options)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error", ce.UnitWarning)
        better = remedied(BLIND[name], caught[0].message.with_scale())
        ce.minimize(ce.LinearLoss(DAILY), better, domain=ce.Simplex(), method=method, **options)


def test_one_text_for_all_folds():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for fold in np.array_split(DAILY, 5):
            ce.minimize(ce.LinearLoss(fold), ce.Entropic(1.0), domain=ce.Simplex())
    assert len(caught) == 1
    assert caught[0].message.scale == pytest.approx(0.01, rel=0.5)


@pytest.mark.parametrize(
    "utility", [ce.Entropic(1.0), ce.Entropic(1.0).scaled(0.1), ce.Quartic().scaled(1e-3)], ids=repr
)
def test_losses_that_are_too_large_are_pointed_out_and_the_remedy_works(utility):
    profits = 1e5 * np.random.default_rng(0).standard_normal(500)
    found = ce.estimate(profits, utility)
    (text,) = [reason for reason in found.warnings if "largest of losses this large" in reason]
    assert found.value > 0.99 * profits.max()
    better = ce.estimate(profits, remedied(utility, text))
    assert not any("largest of losses" in reason for reason in better.warnings)
    assert better.value < 0.7 * profits.max()
    assert not any("largest of losses" in reason for reason in ce.estimate(LOSSES, ce.CVaR(1e-4)).warnings)


def test_small_losses_for_a_good_reason_are_not_doubted():
    """With something like cash allowed, risk aversion holds it, and the losses left are too small to fear."""
    with_cash = np.column_stack([DAILY, 1e-5 * RNG.standard_normal(len(DAILY))])
    with warnings.catch_warnings():
        warnings.simplefilter("error", ce.UnitWarning)
        found = ce.minimize(ce.LinearLoss(with_cash), ce.Entropic(50.0), domain=ce.Simplex())
    assert found.theta[-1] > 0.9


def test_other_losses_are_judged_at_the_minimum():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 3))
    loss = ce.SquaredLoss(X, X @ [1.0, -1.0, 0.5] + 0.05 * rng.standard_normal(300))
    with pytest.warns(ce.UnitWarning, match="hardly sees"):
        ce.minimize(loss, ce.Entropic(1.0), domain=ce.Free(), method="lbfgs")
    with warnings.catch_warnings():
        warnings.simplefilter("error", ce.UnitWarning)
        ce.minimize(loss, ce.Entropic(200.0), domain=ce.Free(), method="lbfgs")


def test_a_warning_is_shown_once_per_process():
    code = """if True:
        import numpy as np, certeq as ce
        from certeq.learn import OCERegressor
        from sklearn.model_selection import cross_val_score
        X = np.random.default_rng(0).normal(size=(200, 3))
        cross_val_score(OCERegressor(ce.Entropic()), X, 1e-3 * X.sum(axis=1))
    """
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stderr.count("UnitWarning: Entropic") == 1


def test_what_says_nothing_of_the_unit_is_left_alone():
    for x in ([0.01], [0.02, 0.02, 0.02], 1e9 + np.arange(3.0) * 1e-6):
        assert not unit_of(ce.estimate(x, ce.Entropic(1.0)))


def test_a_confidence_level_is_taken_with_one_warning():
    with pytest.warns(UserWarning, match=r"mean of the worst 95 % of losses.*write CVaR\(0.05\)") as caught:
        utility = ce.CVaR(0.95)
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ce.oce(np.arange(1.0, 21.0), utility) == pytest.approx(11.0)  # without the best of twenty
        ce.CVaR(0.5)


def test_a_sum_that_shares_t_says_what_it_is():
    both = 0.5 * ce.CVaR(0.05) + 0.5 * ce.CVaR(0.01)
    assert repr(both).endswith("# which share one t: CVaR(alpha=1/60), not the average, ce.Mixture")
    x = np.random.default_rng(1).standard_t(4, size=5000)
    average = 0.5 * ce.oce(x, ce.CVaR(0.05)) + 0.5 * ce.oce(x, ce.CVaR(0.01))
    assert ce.oce(x, both) == pytest.approx(ce.oce(x, ce.CVaR(1 / 60)))
    assert ce.oce(x, both) > average * 1.01
    three = 0.3 * ce.Mean() + 0.4 * ce.CVaR(0.05) + 0.3 * ce.CVaR(0.1)
    assert "0.3*Mean() + 0.7*CVaR(alpha=7/110)" in repr(three)
    assert ce.oce(x, three) == pytest.approx(ce.oce(x, 0.3 * ce.Mean() + 0.7 * ce.CVaR(7 / 110)))
    assert "not the average" in repr(0.5 * ce.Entropic(1.0) + 0.5 * ce.CVaR(0.05))
    assert repr(both.scaled(2.0)) == "(0.5*CVaR(alpha=0.05) + 0.5*CVaR(alpha=0.01)).scaled(2.0)"
    assert eval(repr(three), {"CVaR": ce.CVaR, "Mean": ce.Mean}) == three

"""`minimize`: each method by its name, what they agree on, and what they refuse."""

import numpy as np
import pytest

import certeq as ce
from certeq.optimize.domains import Ball, Box, Free, NonNegative, Simplex
from certeq.optimize.losses import CallableLoss, LinearLoss, LogisticLoss, Objective, SquaredLoss, TorchLoss
from certeq.optimize.minimize import minimize

rng = np.random.default_rng(21)
X = rng.normal(size=(200, 4))
Y = X @ [1.0, -0.5, 0.0, 2.0] + rng.standard_t(5, size=200)
A = rng.standard_t(5, size=(250, 4)) * [1.0, 1.5, 2.0, 2.5]
SMOOTH = [ce.Entropic(0.3), ce.MonotoneMeanVariance(2).scaled(5.0), ce.SmoothCVaR(0.2, tau=1.0), ce.LeakyCVaR(0.2)]


STATE = rng.bit_generator.state


@pytest.fixture(autouse=True)
def same_draws():
    """Whatever ran before: workers take tests in any order."""
    rng.bit_generator.state = STATE


@pytest.mark.parametrize("utility", SMOOTH, ids=repr)
@pytest.mark.parametrize("loss", [SquaredLoss(X, Y), LogisticLoss(X, np.sign(Y))], ids=repr)
@pytest.mark.filterwarnings("ignore::certeq.UnitWarning")
def test_lbfgs_finds_a_point_without_gradient(utility, loss):
    found = minimize(loss, utility, domain=Free(), method="lbfgs", tol=1e-7)
    assert found.converged
    assert found.residual <= 1e-6
    assert found.gap == np.inf  # convex, but nothing bounds theta
    assert found.value == pytest.approx(ce.oce(loss.losses(found.theta), utility), rel=1e-12)
    for _ in range(20):
        theta = found.theta + 0.1 * rng.normal(size=4)
        assert Objective(loss, utility).evaluate(theta).value >= found.value
    assert found.trace.value[-1] <= found.trace.value[0]


def test_lbfgs_in_a_box_has_a_certificate():
    found = minimize(SquaredLoss(X, Y), ce.Entropic(0.3), domain=Box(-0.7, 0.7), method="lbfgs", tol=1e-7)
    assert found.converged
    assert 0.0 <= found.gap < 1e-6
    assert np.abs(found.theta).max() == 0.7
    assert minimize(SquaredLoss(X, Y), ce.Entropic(0.3), domain=NonNegative(), method="lbfgs").theta.min() == 0.0


def test_lbfgs_and_sg_and_weights_agree():
    weights = rng.random(200)
    settings = {"domain": Box(-3.0, 3.0), "weights": weights}
    loss = LogisticLoss(X, np.sign(Y))
    a = minimize(loss, ce.Entropic(0.3), method="lbfgs", **settings)
    steps = {"batch": "full", "step": 1.0, "average": "last", "iterations": 3000}
    b = minimize(loss, ce.Entropic(0.3), method="sg", **steps, **settings)
    np.testing.assert_allclose(a.theta, b.theta, atol=1e-6)
    assert b.gap < 1e-5


def test_lbfgs_takes_torch_functions():
    torch = pytest.importorskip("torch")
    loss = TorchLoss(lambda theta, xi: torch.nn.functional.huber_loss(xi[0] @ theta, xi[1], reduction="none"),
                     samples=(X, Y), convex=True)  # fmt: skip
    found = minimize(loss, ce.Entropic(1.0), domain=Free(), method="lbfgs", theta0=np.zeros(4), tol=1e-6)
    assert found.converged
    np.testing.assert_allclose(found.theta, [1.0, -0.5, 0.0, 2.0], atol=0.4)


def test_lbfgs_says_why_it_stopped():
    loss = SquaredLoss(X, Y)
    assert minimize(loss, ce.Entropic(0.3), domain=Free(), method="lbfgs", iterations=2).status == "iteration limit"
    assert minimize(loss, ce.Entropic(0.3), domain=Free(), method="lbfgs", time_limit=1e-9).status == "time limit"


@pytest.mark.parametrize("utility", [ce.Entropic(0.5), ce.MeanVariance(0.3), ce.Quartic(), ce.CVaR(0.1)], ids=repr)
def test_exact_and_sg_agree_on_portfolios(utility):
    exact = minimize(LinearLoss(A), utility, domain=Simplex())
    assert exact.method == "exact"
    assert 0.0 <= exact.gap <= 1e-6
    sg = minimize(LinearLoss(A), utility, domain=Simplex(), method="sg", batch="full", iterations=4000, step=0.01)
    assert exact.value - 1e-9 <= sg.value <= exact.value + 2e-2
    assert sg.value - exact.value <= sg.gap + 1e-9


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: minimize(LinearLoss(A), ce.CVaR(0.1), domain=Simplex(), method="exacto"), r"Did you mean 'exact'\?"),
        (lambda: minimize(LinearLoss(A), ce.CVaR(0.1), domain=Free(), method="sg", iteration=3), "mean .iterations."),
        (lambda: minimize(LinearLoss(A), ce.CVaR(0.1), domain=Simplex(), C=1), "an option of method='exact' must be"),
        (
            lambda: minimize(LinearLoss(A), ce.CVaR(0.1), domain=Simplex(), iteration=3),
            "an option of method='exact' must",
        ),
        (
            lambda: minimize(SquaredLoss(X, Y), ce.CVaR(0.1), domain=Simplex(), method="exact"),
            "loss must be linear for method='exact'",
        ),
        (
            lambda: minimize(LinearLoss(A), ce.CVaR(0.1), domain=Ball(1.0), method="exact"),
            "domain must be a polyhedron",
        ),
        (lambda: minimize(LinearLoss(), ce.CVaR(0.1), domain=Simplex()), "samples is missing"),
        (
            lambda: minimize(LinearLoss(), ce.CVaR(0.1), domain=Simplex(), samples=iter([A]), method="exact"),
            "needs method='sg'",
        ),
        (lambda: minimize(LinearLoss(A), ce.CVaR(0.1), domain=Free(), method="lbfgs"), "utility must be smooth"),
        (lambda: minimize(SquaredLoss(X, Y), ce.Mean(), domain=Simplex(), method="lbfgs"), r"domain must be Free\(\)"),
        (lambda: minimize(SquaredLoss(X, Y), ce.Mean(), domain=Ball(1.0), method="lbfgs"), r"domain must be Free\(\)"),
        (lambda: minimize(SquaredLoss(), ce.Mean(), domain=Free(), method="lbfgs"), "holds no samples"),
        (
            lambda: minimize(CallableLoss(print, samples=X), ce.Mean(), domain=Free(), method="lbfgs"),
            "theta0 is missing",
        ),
    ],
)
def test_what_does_not_fit_is_refused_with_the_reason(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def _quick(theta, batch):
    return batch @ theta, batch


@pytest.mark.parametrize(
    "loss, utility, domain, options, method, reason",
    [
        (LinearLoss(A), ce.CVaR(0.1), Simplex(), {}, "exact", "linear, the feasible set a polyhedron"),
        (LinearLoss(A), ce.Entropic(1.0), Free(), {"tol": 1e-6}, "exact", "linear"),
        (LinearLoss(A), ce.CVaR(0.1), Ball(1.0), {}, "sg", "no polyhedron"),
        (LinearLoss(A), ce.CVaR(0.1), Simplex(), {"batch": 20}, "sg", "batch is an option of OCE-SG"),
        (LinearLoss(), ce.CVaR(0.1), Simplex(), {"samples": lambda rng, m: A[:m]}, "sg", "a stream"),
        (SquaredLoss(X, Y), ce.Entropic(0.3), Free(), {}, "lbfgs", "smooth"),
        (LogisticLoss(X, np.sign(Y)), ce.Entropic(0.3), Box(-1.0, 1.0), {}, "lbfgs", "bounds at most"),
        (SquaredLoss(X, Y), ce.CVaR(0.1), Free(), {}, "sg", "kinks"),
        (SquaredLoss(X, Y), ce.Entropic(0.3), Ball(1.0), {}, "sg", "more than bounds"),
        (SquaredLoss(X, Y), ce.Entropic(0.3), Free(), {"rng": 0}, "sg", "rng is an option of OCE-SG"),
        (CallableLoss(_quick, samples=X), ce.Entropic(0.3), Free(), {}, "sg", "not known to be smooth"),
        (CallableLoss(_quick, samples=X, smoothness=0.0), ce.Entropic(0.3), Box(-1, 1), {}, "lbfgs", "smooth"),
    ],
)
@pytest.mark.filterwarnings("ignore::certeq.UnitWarning")
@pytest.mark.filterwarnings("ignore::certeq.ReliabilityWarning")
def test_auto_takes_the_first_method_that_can_and_says_why(loss, utility, domain, options, method, reason):
    options = dict(options)
    if method == "sg":
        options.setdefault("iterations", 5)
    found = minimize(loss, utility, domain=domain, theta0=domain.start(4), **options)
    assert found.method == method
    assert found.reason.startswith("method='auto': ")
    assert reason in found.reason
    assert f"({method})" in repr(found)
    assert found.reason in repr(found)
    by_name = minimize(loss, utility, domain=domain, theta0=domain.start(4), method=method, **options)
    assert by_name.reason is None
    if method != "sg" or "rng" in options:
        np.testing.assert_array_equal(found.theta, by_name.theta)


def test_auto_says_why_with_limits_and_with_terms():
    loss = ce.LinearLoss([[0.0, 1.0], [1.0, 0.0], [2.0, -1.0]])
    limited = {"domain": ce.Simplex(), "limits": [ce.Limit(loss, ce.CVaR(0.5), 0.6)]}
    assert ce.minimize(loss, ce.Mean(), **limited).reason == "method='auto': no other method takes limits on risks"
    assert ce.minimize(loss, ce.Mean(), method="exact", **limited).reason is None
    terms = [ce.RiskTerm(loss, ce.Mean()), ce.RiskTerm(loss, ce.CVaR(0.5))]
    found = ce.minimize(terms, domain=ce.Simplex())
    assert (found.method, found.reason) == ("exact", "method='auto': no other method takes an objective of terms")


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("kind", ["fixed", "groups", "dense"])
def test_equality_rows_that_fix_assets_keep_the_certificate(seed, kind):
    """Rows that leave no asset, or a single point, to choose: no multiplier may grow out of nothing."""
    rng = np.random.default_rng(seed)
    assets = int(rng.integers(1, 12))
    count = int(rng.integers(1, assets + 1))
    rows = {
        "fixed": np.eye(assets)[:count],
        "groups": (rng.random((count, assets)) < 0.5).astype(float),
        "dense": rng.standard_normal((count, assets)),
    }[kind]
    table, inside = rng.standard_normal((int(rng.integers(2, 80)), assets)), rng.uniform(0.1, 1.5, assets)
    domain = ce.Polyhedron(0.0, 2.0, C=rows, c=rows @ inside)
    mixtures = [0.3 * ce.Mean() + 0.7 * ce.CVaR(0.1), 0.5 * ce.LeakyCVaR(0.1) + 0.5 * ce.CVaR(0.1)]
    for utility in [ce.CVaR(0.1), ce.Mean(), ce.Entropic(1.0), ce.Quartic(), *mixtures]:
        found = ce.minimize(ce.LinearLoss(table), utility, domain=domain)
        assert found.status == "converged", (utility, found)
        assert found.gap <= 1e-9 * max(abs(found.value), 1e-2)


def test_a_gap_that_holds_nearby_only_says_how_near():
    table = np.random.default_rng(0).standard_normal((200, 4))
    free = ce.minimize(ce.LinearLoss(table), ce.Entropic(1.0), domain=ce.Free())
    assert np.isfinite(free.radius)
    assert "radius" in repr(free)
    bounded = ce.minimize(ce.LinearLoss(table), ce.Entropic(1.0), domain=ce.Simplex())
    assert bounded.radius == np.inf
    assert "radius" not in repr(bounded)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("weights", [None, np.arange(1.0, 21.0)])
def test_losses_whose_squares_overflow_are_refused_with_the_remedy(weights):
    table = 1e300 * np.random.default_rng(0).standard_normal((20, 3))
    with pytest.raises(OverflowError, match=r"A holds losses as large as .*e\+300.*larger unit"):
        minimize(LinearLoss(table), ce.CVaR(0.1), domain=Simplex(), weights=weights)

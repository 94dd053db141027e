"""`minimize`: L-BFGS, what "auto" takes and why, and what the methods agree on."""

import numpy as np
import pytest

import certeq as ce
from certeq.optimize.losses import CallableLoss, LinearLoss, LogisticLoss, SquaredLoss, TorchLoss

_RNG = np.random.default_rng(21)
X = _RNG.normal(size=(200, 4))
Y = X @ [1.0, -0.5, 0.0, 2.0] + _RNG.standard_t(5, size=200)
A = _RNG.standard_t(5, size=(250, 4)) * [1.0, 1.5, 2.0, 2.5]
SQUARED, LOGISTIC = SquaredLoss(X, Y), LogisticLoss(X, np.sign(Y))
pytestmark = [
    pytest.mark.filterwarnings("ignore::certeq.UnitWarning"),
    pytest.mark.filterwarnings("ignore::certeq.ReliabilityWarning"),
]


def test_lbfgs_in_a_box_has_a_certificate():
    found = ce.minimize(SQUARED, ce.Entropic(0.3), domain=ce.Box(-0.7, 0.7), method="lbfgs", tol=1e-7)
    assert found.converged
    assert 0.0 <= found.gap < 1e-6
    assert np.abs(found.theta).max() == 0.7
    assert ce.minimize(SQUARED, ce.Entropic(0.3), domain=ce.NonNegative(), method="lbfgs").theta.min() == 0.0
    beside = ce.minimize(LinearLoss(A, offset=A[:, 0]), ce.Entropic(0.3), domain=ce.Box(-1.0, 1.0), method="lbfgs")
    known = ce.minimize(LinearLoss(A, offset=A[:, 0]), ce.Entropic(0.3), domain=ce.Box(-1.0, 1.0))
    assert abs(beside.value - known.value) <= beside.gap + known.gap
    assert beside.gap <= 1e-5


def test_lbfgs_takes_torch_functions_and_states_why_it_stopped():
    torch = pytest.importorskip("torch")
    huber = lambda theta, xi: torch.nn.functional.huber_loss(xi[0] @ theta, xi[1], reduction="none")
    loss = TorchLoss(huber, samples=(X, Y), convex=True)
    settings = {"domain": ce.Free(), "method": "lbfgs"}
    found = ce.minimize(loss, ce.Entropic(1.0), theta0=np.zeros(4), tol=1e-6, **settings)
    assert found.converged
    np.testing.assert_allclose(found.theta, [1.0, -0.5, 0.0, 2.0], atol=0.4)
    assert ce.minimize(SQUARED, ce.Entropic(0.3), iterations=2, **settings).status == "iteration limit"
    assert ce.minimize(SQUARED, ce.Entropic(0.3), time_limit=1e-9, **settings).status == "time limit"


def quick(theta, batch):
    return batch @ theta, batch


SIMPLEX, FREE, BALL, SHARP, FLAT = ce.Simplex(), ce.Free(), ce.Ball(1.0), ce.CVaR(0.1), ce.Entropic(0.3)
AUTO = {
    "linear": (LinearLoss(A), SHARP, SIMPLEX, {}, "exact", "linear, the feasible set a polyhedron"),
    "free": (LinearLoss(A), FLAT, FREE, {"tol": 1e-6}, "exact", "linear"),
    "ball": (LinearLoss(A), SHARP, BALL, {}, "sg", "no polyhedron"),
    "batch": (LinearLoss(A), SHARP, SIMPLEX, {"batch": 20}, "sg", "batch is an option of OCE-SG"),
    "stream": (LinearLoss(), SHARP, SIMPLEX, {"samples": lambda rng, m: A[:m]}, "sg", "a stream"),
    "smooth": (SQUARED, FLAT, FREE, {}, "lbfgs", "smooth"),
    "smooth risk": (SQUARED, ce.EVaR(0.1), FREE, {}, "lbfgs", "smooth"),
    "box": (LOGISTIC, FLAT, ce.Box(-1.0, 1.0), {}, "lbfgs", "bounds at most"),
    "kinks": (SQUARED, SHARP, FREE, {}, "sg", "kinks"),
    "kinks of a risk": (SQUARED, ce.Wang(0.5), FREE, {}, "sg", "kinks"),
    "smooth in a ball": (SQUARED, FLAT, BALL, {}, "sg", "more than bounds"),
    "rng": (SQUARED, FLAT, FREE, {"rng": 0}, "sg", "rng is an option of OCE-SG"),
    "own loss": (CallableLoss(quick, samples=X), FLAT, FREE, {}, "sg", "not known to be smooth"),
    "own smooth": (CallableLoss(quick, samples=X, smoothness=0.0), FLAT, ce.Box(-1, 1), {}, "lbfgs", "smooth"),
}


@pytest.mark.parametrize("name", AUTO)
def test_auto_takes_the_first_method_that_can_and_states_why(name):
    loss, utility, domain, options, method, reason = AUTO[name]
    options = options | ({"iterations": 5} if method == "sg" else {}) | {"theta0": domain.start(4)}
    found = ce.minimize(loss, utility, domain=domain, **options)
    assert found.method == method
    assert found.reason.startswith("method='auto': ")
    assert reason in found.reason
    assert f"({method})" in repr(found)
    assert found.reason in repr(found)
    by_name = ce.minimize(loss, utility, domain=domain, method=method, **options)
    assert by_name.reason is None
    if method != "sg" or "rng" in options:
        np.testing.assert_array_equal(found.theta, by_name.theta)


def test_auto_states_why_with_limits_and_with_terms():
    loss = ce.LinearLoss([[0.0, 1.0], [1.0, 0.0], [2.0, -1.0]])
    limited = {"domain": ce.Simplex(), "limits": [ce.Limit(loss, ce.CVaR(0.5), 0.6)]}
    assert ce.minimize(loss, ce.Mean(), **limited).reason == "method='auto': no other method takes limits on risks"
    assert ce.minimize(loss, ce.Mean(), method="exact", **limited).reason is None
    terms = [ce.RiskTerm(loss, ce.Mean()), ce.RiskTerm(loss, ce.CVaR(0.5))]
    found = ce.minimize(terms, domain=ce.Simplex())
    assert (found.method, found.reason) == ("exact", "method='auto': no other method takes an objective of terms")

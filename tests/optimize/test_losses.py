"""Losses: derivatives against differences, constants against samples, and what is refused."""

import numpy as np
import pytest

from certeq.optimize.losses import CallableLoss, LinearLoss, LogisticLoss, Objective, SquaredLoss, TorchLoss

torch = pytest.importorskip("torch")
rng = np.random.default_rng(7)
X, Y = rng.normal(size=(12, 3)), rng.normal(size=12)
LABELS = np.where(Y > 0, 1.0, -1.0)


def quartic_numpy(theta, xi):
    s = xi @ theta
    return s**4 + np.sin(s), (4 * s**3 + np.cos(s))[:, None] * xi


def quartic_product(theta, xi):
    s = xi @ theta
    return s**4 + np.sin(s), lambda q: (q * (4 * s**3 + np.cos(s))) @ xi


def quartic_torch(theta, xi):
    s = xi @ theta
    return s**4 + torch.sin(s)


LOSSES = {
    "linear": LinearLoss(X),
    "squared": SquaredLoss(X, Y),
    "logistic": LogisticLoss(X, LABELS),
    "jacobian": CallableLoss(quartic_numpy, samples=X),
    "product": CallableLoss(quartic_product, samples=X),
    "torch": TorchLoss(quartic_torch, samples=X),
}
TWICE = ("linear", "squared", "logistic", "torch")


STATE = rng.bit_generator.state


@pytest.fixture(autouse=True)
def same_draws():
    """Whatever ran before: workers take tests in any order."""
    rng.bit_generator.state = STATE


@pytest.fixture(params=LOSSES)
def loss(request):
    return LOSSES[request.param]


def difference(f, theta, h=1e-6):
    return np.stack([(f(theta + h * e) - f(theta - h * e)) / (2 * h) for e in np.eye(theta.size)], axis=-1)


def test_the_gradient_is_the_derivative_of_the_losses(loss):
    theta, q = rng.normal(size=3), rng.dirichlet(np.ones(12))
    expected = difference(lambda t: loss.losses(t), theta)
    np.testing.assert_allclose(loss.jacobian(theta), expected, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(loss.gradient(theta, None, q), q @ expected, rtol=1e-6, atol=1e-7)
    v = rng.normal(size=3)
    np.testing.assert_allclose(loss.jacobian_product(theta, None, v), expected @ v, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", TWICE)
def test_the_hessian_is_the_derivative_of_the_gradient(name):
    loss, theta, q = LOSSES[name], rng.normal(size=3), rng.dirichlet(np.ones(12))
    expected = difference(lambda t: loss.gradient(t, None, q), theta)
    np.testing.assert_allclose(loss.hessian(theta, None, q), expected, rtol=1e-6, atol=1e-6)
    v = rng.normal(size=3)
    np.testing.assert_allclose(loss.hessian_product(theta, None, q, v), expected @ v, rtol=1e-6, atol=1e-6)


def test_three_ways_to_write_one_loss_agree():
    theta, q = rng.normal(size=3), rng.dirichlet(np.ones(12))
    for name in ("product", "torch"):
        # Near its zeros the loss is a difference of terms of about 1, whose rounding it has.
        np.testing.assert_allclose(LOSSES[name].losses(theta), LOSSES["jacobian"].losses(theta), rtol=1e-14, atol=1e-14)
        np.testing.assert_allclose(
            LOSSES[name].gradient(theta, None, q), LOSSES["jacobian"].gradient(theta, None, q), rtol=1e-12
        )


def test_a_batch_is_the_samples_it_holds(loss):
    theta = rng.normal(size=3)
    samples = loss.samples
    batch = tuple(part[2:5] for part in samples) if isinstance(samples, tuple) else samples[2:5]
    np.testing.assert_allclose(loss.losses(theta, batch), loss.losses(theta)[2:5], rtol=1e-14)


@pytest.mark.parametrize("name", ["linear", "squared", "logistic"])
def test_constants_hold_where_they_are_claimed(name):
    loss, center, reach = LOSSES[name], np.zeros(3), 2.0
    M = loss.lipschitz(None, center, reach)
    spread = loss.spread(None, center, reach)
    L = loss.smoothness()
    assert spread <= M
    for _ in range(50):
        a, b = (reach * d / np.linalg.norm(d) * rng.random() for d in rng.normal(size=(2, 3)))
        Ja, Jb = loss.jacobian(a), loss.jacobian(b)
        assert np.linalg.norm(Ja, axis=1).max() <= M * (1 + 1e-12)
        assert np.linalg.norm(Ja - Jb, axis=1).max() <= L * np.linalg.norm(a - b) * (1 + 1e-9) + 1e-12
    middle = X.mean(axis=0) if name == "linear" else np.zeros(3)
    assert np.linalg.norm(loss.jacobian(center) - middle, axis=1).max() <= spread * (1 + 1e-12)


def test_unknown_constants_are_infinite_and_declared_ones_are_kept():
    assert LOSSES["torch"].smoothness() == np.inf
    assert SquaredLoss(X, Y).lipschitz() == np.inf
    loss = CallableLoss(quartic_numpy, samples=X, smoothness=3.0, lipschitz=2.0)
    assert (loss.smoothness(), loss.lipschitz()) == (3.0, 2.0)


def test_logistic_takes_zero_one_labels_and_does_not_overflow():
    a, b = LogisticLoss(X, LABELS), LogisticLoss(X, LABELS > 0)
    theta = np.array([1e4, -1e4, 1e4])
    np.testing.assert_array_equal(a.losses(theta), b.losses(theta))
    assert np.isfinite(a.losses(theta)).all()


def test_a_torch_loss_that_is_linear_has_no_curvature():
    loss = TorchLoss(lambda theta, xi: xi @ theta, samples=X)
    np.testing.assert_array_equal(loss.hessian_product(np.ones(3), None, np.ones(12), np.ones(3)), np.zeros(3))


def test_what_is_passed_in_is_not_changed():
    A = X.copy()
    A.flags.writeable = False
    theta = np.ones(3)
    theta.flags.writeable = False
    loss = TorchLoss(quartic_torch, samples=A)
    loss.gradient(theta, None, np.ones(12))
    loss.hessian_product(theta, None, np.ones(12), theta)
    LinearLoss(A).gradient(theta, None, np.ones(12))


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: LinearLoss([[1.0, np.nan]]), r"A must be finite; found nan at \[0, 1\]"),
        (lambda: LinearLoss([1.0, 2.0]), "A must be a matrix, one row per sample; found an array of shape"),
        (lambda: LinearLoss(np.zeros((0, 3))), "A is empty"),
        (lambda: SquaredLoss(X), "y is missing"),
        (lambda: SquaredLoss(X, Y[:-1]), "X has 12 rows, y has 11 entries"),
        (lambda: LogisticLoss(X, Y), "y must hold the labels -1 and 1"),
        (lambda: CallableLoss(quartic_numpy, samples=np.zeros((0, 2))), "samples is empty"),
        (lambda: CallableLoss(quartic_numpy, smoothness=-1.0), "smoothness must be a number not below 0"),
        (lambda: LinearLoss().losses(np.ones(2)), "holds no samples"),
        (lambda: CallableLoss(lambda t, x: (x[:2, 0], x), samples=X).losses(np.ones(3)), r"one loss per sample, shape"),
        (
            lambda: CallableLoss(lambda t, x: (x[:, 0], x.T), samples=X).gradient(np.ones(3), None, np.ones(12)),
            r"Jacobian of shape \(12, 3\)",
        ),
        (lambda: TorchLoss(lambda t, x: x[:, 0], samples=X).losses(np.ones(3)), "has no gradient"),
        (lambda: TorchLoss(lambda t, x: t.sum(), samples=X).losses(np.ones(3)), "one loss per sample"),
    ],
)
def test_bad_input_is_refused_with_the_reason(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: LinearLoss([["a"]]), "A must hold real numbers"),
        (lambda: CallableLoss(3), "function must be callable"),
        (lambda: TorchLoss(3), "function must be callable"),
        (lambda: CallableLoss(lambda t, x: x[:, 0], samples=X).losses(np.ones(3)), "goes into TorchLoss"),
        (lambda: SquaredLoss().check_samples(X), r"must be a pair \(X, y\)"),
        (lambda: CallableLoss(quartic_numpy, samples=[1, 2]), "must be an array or a tuple of arrays"),
        (lambda: LOSSES["jacobian"].hessian_product(np.ones(3), None, np.ones(12), np.ones(3)), "no second derivative"),
    ],
)
def test_bad_types_are_refused_with_the_reason(make, message):
    with pytest.raises(TypeError, match=message):
        make()


def test_the_objective_refuses_losses_that_are_not_finite():
    import certeq as ce

    loss = CallableLoss(lambda t, x: (np.where(x[:, 0] > 0, np.inf, 0.0), x), samples=X)
    with pytest.raises(ValueError, match="losses must be finite; found inf for sample"):
        Objective(loss, ce.CVaR(0.5)).evaluate(np.ones(3))


def test_repr_names_sizes_not_numbers():
    assert repr(LOSSES["linear"]) == "LinearLoss(A=<12x3>)"
    assert repr(LOSSES["squared"]) == "SquaredLoss(X=<12x3>, y=<12>)"
    assert repr(LinearLoss()) == "LinearLoss()"
    assert repr(LOSSES["torch"]) == "TorchLoss(quartic_torch)"


@pytest.mark.parametrize("loss", [LinearLoss(np.ones((4, 3))), SquaredLoss(np.ones((4, 3)), np.ones(4))], ids=repr)
def test_a_theta_of_another_length_is_refused_in_words(loss):
    with pytest.raises(ValueError, match=r"must have 2 columns, one per entry of theta; found shape \(4, 3\)"):
        loss.losses(np.zeros(2))

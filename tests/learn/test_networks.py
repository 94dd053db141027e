"""The networks: seeds, weights, stopping, and that their criterion is the OCE it claims to be."""

from __future__ import annotations

import pickle
from functools import partial

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import certeq as ce

pytest.importorskip("skorch", reason="networks need the extra [learn]")

import torch

from certeq.learn import (
    MVERegressor,
    OCEClassifier,
    OCENetworkClassifier,
    OCENetworkRegressor,
    oce_scorer,
)
from tests.learn.test_held_out import classification, regression

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def two():
    return classification(0, 200)


@pytest.fixture(scope="module")
def real():
    return regression(0, 200)


ALL = [OCENetworkClassifier, OCENetworkRegressor, MVERegressor]


def answers(model, X):
    return model.predict_proba(X) if hasattr(model, "predict_proba") else model.predict(X)


@pytest.mark.parametrize("estimator", ALL)
def test_same_seed_same_bits(estimator, two):
    X, y = two
    torch.manual_seed(5)
    before = torch.get_rng_state()
    one, again = (estimator(epochs=4, random_state=1).fit(X, y) for _ in range(2))
    assert torch.equal(before, torch.get_rng_state())
    np.testing.assert_array_equal(answers(one, X), answers(again, X))
    other = estimator(epochs=4, random_state=2).fit(X, y)
    assert not np.array_equal(answers(one, X), answers(other, X))


@pytest.mark.parametrize("estimator", ALL)
def test_epochs_in_parts_are_epochs_at_once(estimator, two):
    X, y = two
    estimator = partial(estimator, early_stopping=False)  # with it, one part is held out and another is not
    whole = estimator(epochs=4, random_state=1).fit(X, y)
    parts = estimator(random_state=1)
    for _ in range(4):
        parts.partial_fit(X, y)
    warm = estimator(epochs=2, warm_start=True, random_state=1).fit(X, y).fit(X, y)
    np.testing.assert_array_equal(answers(whole, X), answers(parts, X))
    np.testing.assert_array_equal(answers(whole, X), answers(warm, X))
    assert whole.n_iter_ == parts.n_iter_ == warm.n_iter_ == len(whole.history_) == 4
    copy = pickle.loads(pickle.dumps(parts))
    np.testing.assert_array_equal(answers(copy.partial_fit(X, y), X), answers(parts.partial_fit(X, y), X))


@pytest.mark.parametrize("utility", [ce.CVaR(0.3), ce.Entropic(1.0), ce.MonotoneMeanVariance(2)])
def test_without_hidden_layers_it_is_the_linear_classifier(two, utility):
    X, y = two
    weight = np.random.default_rng(0).random(len(y)) + 0.5
    net = OCENetworkClassifier(utility, hidden_sizes=(), batch_size=-1, epochs=400, learning_rate=0.02, random_state=0)
    net.fit(X, y, sample_weight=weight)
    exact = OCEClassifier(utility, C=np.inf, tol=1e-10).fit(X, y, sample_weight=weight)
    reached = ce.oce(net.losses(X, y), utility, weight)
    best = ce.oce(exact.losses(X, y), utility, weight)
    # Scores in float32 may round the losses down a little.
    assert best - 1e-7 <= reached <= best + 2e-3
    assert net.history_[-1, "train_loss"] == pytest.approx(reached, abs=2e-3)


def test_more_than_two_classes(two):
    X = two[0]
    y = np.array(["a", "b", "c"])[np.argmax(X[:, :3], axis=1)]
    model = OCENetworkClassifier(epochs=60, class_weight="balanced", random_state=0).fit(X, y)
    assert model.score(X, y) > 0.9
    assert model.decision_function(X).shape == (200, 3)
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
    np.testing.assert_allclose(
        model.losses(X, y), -np.log(model.predict_proba(X)[np.arange(200), np.searchsorted(model.classes_, y)])
    )


def test_weights_of_samples_and_classes(two):
    X, y = two
    flat = OCENetworkClassifier(epochs=20, random_state=0).fit(X, y)
    same = OCENetworkClassifier(epochs=20, random_state=0).fit(X, y, sample_weight=np.full(200, 3.0))
    np.testing.assert_array_equal(flat.predict_proba(X), same.predict_proba(X))
    heavy = OCENetworkClassifier(epochs=20, class_weight={0: 1.0, 1: 20.0}, random_state=0).fit(X, y)
    assert heavy.predict_proba(X)[:, 1].mean() > flat.predict_proba(X)[:, 1].mean() + 0.05
    half = np.arange(200) < 100
    part = OCENetworkRegressor(epochs=3, random_state=0).fit(X, y, sample_weight=half.astype(float))
    alone = OCENetworkRegressor(epochs=3, random_state=0).fit(X[half], y[half])
    np.testing.assert_array_equal(part.predict(X), alone.predict(X))


@pytest.mark.parametrize("estimator", ALL)
def test_early_stopping(estimator, two):
    X, y = two
    model = estimator(epochs=400, learning_rate=0.03, early_stopping=True, patience=3, random_state=0).fit(X, y)
    assert model.n_iter_ < 400
    valid = model.history_[:, "valid_loss"]
    assert len(valid) == model.n_iter_
    assert min(valid[-3:]) >= min(valid) - 1e-3


def test_a_stable_network_learns_a_curve(real):
    X = np.linspace(-2, 2, 100)[:, None]
    y = np.sin(2 * X[:, 0])
    model = make_pipeline(
        StandardScaler(), OCENetworkRegressor(ce.CVaR(0.2), epochs=300, learning_rate=0.01, random_state=0)
    )
    assert np.abs(model.fit(X, y).predict(X) - y).max() < 0.2


def test_a_lower_tail_than_the_mean_network(real):
    """On the training data, where it must be so."""
    X, y = real
    options = {"epochs": 150, "batch_size": -1, "learning_rate": 0.01, "random_state": 0}
    plain = OCENetworkRegressor(ce.Mean(), hidden_sizes=(), **options).fit(X, y).losses(X, y)
    averse = OCENetworkRegressor(ce.CVaR(0.1), hidden_sizes=(), **options).fit(X, y).losses(X, y)
    assert ce.oce(averse, ce.CVaR(0.1)) < 0.95 * ce.oce(plain, ce.CVaR(0.1))
    assert averse.mean() > plain.mean()


BAD = [
    ({"activation": "rulu"}, ValueError, "Did you mean 'relu'"),
    ({"activation": None}, ValueError, "activation must be one of"),
    ({"hidden_sizes": 32}, TypeError, r"a tuple such as \(32, 16\)"),
    ({"hidden_sizes": (32, 0)}, ValueError, "hidden_sizes must be"),
    ({"learning_rate": 0.0}, ValueError, "learning_rate must be"),
    ({"epochs": 1.5}, TypeError, "epochs must be"),
    ({"batch_size": 0}, ValueError, "batch_size must be"),
    ({"weight_decay": -1.0}, ValueError, "weight_decay must be"),
    ({"early_stopping": True, "validation_fraction": 1.0}, ValueError, "validation_fraction must lie"),
    ({"utility": "cvar"}, TypeError, "utility must be a Utility"),
]


@pytest.mark.parametrize("params, error, message", BAD)
def test_bad_parameters(two, params, error, message):
    with pytest.raises(error, match=message):
        OCENetworkClassifier(**{"epochs": 1, **params}).fit(*two)


def test_bad_data(two):
    X, y = two
    with pytest.raises(NotFittedError):
        OCENetworkClassifier().predict(X)
    with pytest.raises(NotFittedError):
        OCENetworkRegressor().history_
    with pytest.raises(ValueError, match="one class only: 0"):
        OCENetworkClassifier().fit(X, np.zeros(200))
    with pytest.raises(ValueError, match="one class only"):
        OCENetworkClassifier().partial_fit(X, np.zeros(200))
    with pytest.raises(ValueError, match=r"sample_weight must not be negative; found -1 at \[0\]"):
        OCENetworkRegressor().fit(X, y, sample_weight=np.full(200, -1.0))
    with pytest.raises(ValueError, match="fit into float32"):
        OCENetworkRegressor(epochs=1).fit(1e200 * X, y)
    model = OCENetworkClassifier().partial_fit(X, y, classes=[0, 1])
    with pytest.raises(ValueError, match="not among the classes"):
        model.partial_fit(X, np.full(200, 2))
    with pytest.raises(ValueError, match="those of the first call"):
        model.partial_fit(X, y, classes=[0, 1, 2])
    with pytest.raises(ValueError, match="Training has diverged"):
        OCENetworkRegressor(epochs=200, learning_rate=1e30, random_state=0).fit(X, y)
    assert clone(model).get_params() == model.get_params()


@pytest.mark.parametrize("risk", [ce.EVaR(0.3), ce.MonotoneMeanVariance(2).ball(0.2), ce.Wang(0.5)], ids=repr)
def test_networks_and_scores_take_risks_with_more_inner_variables(risk):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    y = X @ [1.0, 2.0] + rng.normal(size=60)
    model = OCENetworkRegressor(utility=risk, epochs=3).fit(X, y)
    squared = np.square(y - model.predict(X))
    assert oce_scorer(risk)(model, X, y) == pytest.approx(-ce.oce(squared, risk), rel=1e-6)

"""Mean-variance networks, ensembles, the toy data and the calibration figures."""

from __future__ import annotations

import numpy as np
import pytest

import certeq as ce

pytest.importorskip("skorch", reason="networks need the extra [learn]")

import torch

from certeq.learn import DeepEnsembleRegressor, GaussianNLL, MVERegressor, calibration, toy_heteroscedastic
from certeq.torch import OCELoss

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def data():
    return toy_heteroscedastic()


def test_toy_data_is_the_paper_s(data):
    sizes = [len(y) for y in (data.y_train, data.y_valid, data.y_calibration, data.y_test)]
    assert sizes == [175, 15, 10, 50]
    assert data.X_train.shape == (175, 1)
    np.testing.assert_allclose([data.X_train.mean(), data.y_train.mean()], 0.0, atol=1e-12)
    np.testing.assert_allclose([data.X_train.std(), data.y_train.std()], 1.0)
    pytest.importorskip("uncertainty_toolbox")
    truth = calibration(data.y_test, *data.truth(data.X_test))
    assert (round(truth.mace, 4), round(truth.rmsce, 4), round(truth.ma, 4)) == (0.0656, 0.0817, 0.0660)
    X, y = data.draw(5000, random_state=1)
    assert calibration(y, *data.truth(X)).mace < 0.01


def test_gaussian_nll_is_torch_s(data):
    rng = np.random.default_rng(0)
    out, y = torch.tensor(rng.normal(size=(20, 2))), torch.tensor(rng.normal(size=20))
    theirs = torch.nn.GaussianNLLLoss(reduction="none")(out[:, 0], y, 1e-6 + out[:, 1].exp())
    torch.testing.assert_close(GaussianNLL()(out, y), theirs)
    torch.testing.assert_close(GaussianNLL()(out, y[:, None]), theirs)
    with pytest.raises(ValueError, match=r"shape \(N, 2\)"):
        GaussianNLL()(out[:, :1], y)
    with pytest.raises(ValueError, match="target must have shape"):
        GaussianNLL()(out, y[:5])


def test_the_hook_of_lightning_uq_box():
    """loss_fn(out, target) with out (N, 2) and target (N, 1) gives a scalar that trains both heads."""
    loss_fn = OCELoss(ce.Entropic(0.1), base=GaussianNLL())
    out = torch.zeros(8, 2, requires_grad=True)
    loss_fn(out, torch.arange(8.0)[:, None]).backward()
    assert torch.isfinite(out.grad).all()
    assert (out.grad.abs().sum(dim=0) > 0).all()


def test_burn_in_fits_the_mean_alone(data):
    pure = MVERegressor(epochs=5, burn_in=5, random_state=0).fit(data.X_train, data.y_train)
    head = pure.net_.module_[-1].weight[1].detach().clone()
    start = MVERegressor(epochs=1, burn_in=1, random_state=0, learning_rate=1e-30).fit(data.X_train, data.y_train)
    torch.testing.assert_close(head, start.net_.module_[-1].weight[1])
    later = MVERegressor(epochs=6, burn_in=5, random_state=0).fit(data.X_train, data.y_train)
    assert not torch.equal(head, later.net_.module_[-1].weight[1])


def test_losses_are_what_was_trained(data):
    model = MVERegressor(epochs=30, burn_in=0, batch_size=-1, random_state=0, utility=ce.Entropic(0.1))
    model.fit(data.X_train, data.y_train)
    now = ce.oce(model.losses(data.X_train, data.y_train), ce.Entropic(0.1))
    assert now == pytest.approx(model.history_[-1, "train_loss"], abs=0.02)
    mean, std = model.predict(data.X_test, return_std=True)
    np.testing.assert_array_equal(mean, model.predict(data.X_test))
    assert (std > 1e-3).all()


def test_ensemble_is_the_mixture(data):
    member = MVERegressor(hidden_sizes=(8,), epochs=5, burn_in=1)
    model = DeepEnsembleRegressor(member, n_members=3, random_state=0).fit(data.X_train, data.y_train)
    mean, std = model.predict(data.X_test, return_std=True)
    parts = [one.predict(data.X_test, return_std=True) for one in model.members_]
    np.testing.assert_allclose(mean, np.mean([m for m, _ in parts], axis=0))
    np.testing.assert_allclose(std**2 + mean**2, np.mean([s**2 + m**2 for m, s in parts], axis=0))
    again = DeepEnsembleRegressor(member, n_members=3, random_state=0).fit(data.X_train, data.y_train)
    np.testing.assert_array_equal(mean, again.predict(data.X_test))
    assert len({one.random_state for one in model.members_}) == 3
    with pytest.raises(TypeError, match="must be an MVERegressor"):
        DeepEnsembleRegressor(ce.Mean()).fit(data.X_train, data.y_train)
    with pytest.raises(ValueError, match="n_members"):
        DeepEnsembleRegressor(member, n_members=0).fit(data.X_train, data.y_train)


def test_calibration_refuses(data):
    pytest.importorskip("uncertainty_toolbox")
    with pytest.raises(ValueError, match="same length"):
        calibration([1.0, 2.0], [1.0], [1.0])
    with pytest.raises(ValueError, match="std must be above 0"):
        calibration([1.0], [1.0], [0.0])
    with pytest.raises(ValueError, match="mean must be finite"):
        calibration([1.0], [np.nan], [1.0])


@pytest.mark.slow
def test_the_recipes_of_the_paper_are_calibrated(data):
    """Over seeds, by the recipes of the benchmarks, on the paper's 50 test points (printed: .0772 and .0718)."""
    pytest.importorskip("uncertainty_toolbox")
    ensemble = [score(DeepEnsembleRegressor(random_state=seed), data) for seed in range(4)]
    single = [score(MVERegressor(random_state=seed), data) for seed in range(10)]
    assert np.mean(ensemble) == pytest.approx(0.070, abs=0.01)
    assert np.mean(single) == pytest.approx(0.074, abs=0.01)


def score(model, data):
    return calibration(data.y_test, *model.fit(data.X_train, data.y_train).predict(data.X_test, return_std=True)).mace

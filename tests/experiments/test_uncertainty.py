"""Uncertainty: printed figures at the known seed, the random numbers of a data loader, and the verdicts."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("joblib", reason="experiments/requirements.txt is not installed")

import certeq as ce  # noqa: E402
from certeq.torch import oce  # noqa: E402
from experiments import uncertainty as paper  # noqa: E402
from experiments.common import printed  # noqa: E402
from experiments.networks import perceptron, seeded  # noqa: E402

SEED_0 = {"Deep ensembles": [0.0772, 0.0883, 0.0780], "MVE": [0.0708, 0.0809, 0.0715]}


def test_the_truth_is_calibrated_on_new_points_only():
    true = paper.truth(42, 2_000)
    assert true["test"].round(4).tolist() == [0.0656, 0.0817, 0.0660]  # by uncertainty-toolbox
    assert true["fresh"][0] < 0.01


@pytest.mark.parametrize("model", SEED_0)
def test_benchmarks_at_seed_0(model):
    # One point that crosses a quantile moves a figure by 0.0002; another processor moves a few, another seed 0.005.
    np.testing.assert_allclose(paper.train(model, 0, 42, 500)["test"], SEED_0[model], rtol=0.0, atol=0.001)


def test_the_protocol():
    """Runs of the model with OCE differ too much for a short one to show another beta or rate."""
    expected = paper.Recipe(ce.Entropic(0.1), (50, 50, 50), 1, 0.03, 1000, 5, None, True, torch.optim.SGD)
    assert paper.MODELS[paper.OURS] == expected
    assert (paper.DATA, paper.FLOOR, paper.FRESH) == (42, 1e-6, 10_000)


def test_the_first_step_descends_on_the_risk():
    toy, recipe = paper.Toy(42), paper.Recipe(ce.Entropic(0.5), (4,), 1, 0.1, 1, 0, None, optimizer=torch.optim.SGD)
    ((mean, deviation),) = paper.trained(recipe, 3, toy, [toy.X_test])
    with seeded(3):
        net = perceptron((1, 4, 2))
    rule = torch.optim.SGD(net.parameters(), lr=0.1)
    output, y = net(torch.tensor(toy.X).float()), torch.tensor(toy.y).float()
    losses = torch.nn.GaussianNLLLoss(reduction="none")(output[:, 0], y, 1e-6 + output[:, 1].exp())
    oce(losses, ce.Entropic(0.5)).backward()
    rule.step()
    with torch.no_grad():
        output = net(torch.tensor(toy.X_test).float()).double().numpy()
    np.testing.assert_allclose(mean, output[:, 0], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(deviation, np.sqrt(1e-6 + np.exp(output[:, 1])), rtol=1e-4)


def made_up(level, ours):
    """Return 20 runs of each model that are off the printed row of MVE by so much on average."""
    noise, row = 0.005 * np.random.default_rng(5).normal(size=(20, 3)), np.array(printed("uncertainty")["MVE"])
    off = {model: ours if model == paper.OURS else level for model in paper.MODELS}
    return {m: [{"test": row + off[m] + x, "fresh": np.full(3, 0.02)} for x in noise] for m in off}


def test_verdicts():
    for level, wanted in ((0.0, "within noise"), (0.2, "not reproduced")):
        runs = made_up(level, 0.0)
        said = paper.row_claims({model: runs[model][0] for model in paper.BENCHMARKS}, runs, 0.0656)
        assert [claim.verdict for claim in said] == [wanted, wanted, "undecided"]  # beta is not stated
        assert "0 of 20 runs reach the printed MACE" in said[-1].why
    first = {model: {"test": np.array(printed("uncertainty")[model])} for model in paper.BENCHMARKS}
    assert {claim.verdict for claim in paper.row_claims(first, runs, 0.0656)[:2]} == {"reproduced"}
    for ours, favors in ((-0.03, True), (0.03, False)):
        for claim in paper.comparisons(made_up(0.001, ours), 20):
            assert (claim.favors, claim.p < 1e-3) == (favors, True)

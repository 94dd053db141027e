"""Classification: data, printed benchmark cells, training of the networks, and what the verdicts rest on."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("joblib", reason="experiments/requirements.txt is not installed")

import certeq as ce  # noqa: E402
from certeq.torch import oce  # noqa: E402
from experiments import classification as paper  # noqa: E402
from experiments.common import Job, printed  # noqa: E402
from experiments.networks import perceptron, seeded  # noqa: E402


@pytest.mark.parametrize("table", ["breast-cancer", "heart"])
@pytest.mark.parametrize("model", paper.BENCHMARKS)
def test_benchmark_cells_are_the_printed_ones(table, model):
    assert [round(x, 4) for x in paper.benchmark(table, model)] == list(printed(table)[model])


@pytest.mark.parametrize("loss, activation", [("CVaR", "tanh"), ("Entropic", "relu"), ("NN BCE", "tanh")])
def test_networks_side_by_side_are_trained_as_one_alone(loss, activation):
    epochs, pairs = 6, [(42, 0), (3, 5)]
    found = paper.train("heart", loss, activation, pairs, epochs)
    for (state, seed), scores in zip(pairs, found[:, -1], strict=True):
        X, X_test, y, y_test = paper.split("heart", state)
        inputs, target = torch.tensor(X, dtype=torch.float32), torch.tensor(y, dtype=torch.float32)
        with seeded(np.random.RandomState(seed).randint(2**31 - 1)):
            net = perceptron((13, 32, 16, 1), activation)
            orders = [torch.randperm(len(y)) for _ in range(epochs)]
        adam = torch.optim.Adam(net.parameters(), lr=0.003)
        for order in orders:
            for batch in order.split(64):
                adam.zero_grad()
                margin = net(inputs[batch])[:, 0] * (2.0 * target[batch] - 1.0)
                oce(torch.nn.functional.softplus(-margin), paper.LOSSES[loss]).backward()
                adam.step()
        with torch.no_grad():
            p = torch.sigmoid(net(torch.tensor(X_test, dtype=torch.float32))[:, 0]).double().numpy()
        np.testing.assert_allclose(scores, paper.score(y_test, p, p > 0.5), atol=1e-5)


def test_the_protocol():
    assert (paper.SPLIT, paper.BATCH, paper.STEP, paper.HIDDEN, paper.EPOCHS) == (42, 64, 0.003, (32, 16), 500)
    expected = {
        "NN BCE": ce.Mean(), "Entropic": ce.Entropic(0.5), "CVaR": ce.CVaR(0.1), "L-CVaR": ce.LeakyCVaR(0.1),
        "S-CVaR": ce.SmoothCVaR(0.1), "MMV": ce.MonotoneMeanVariance(2), "Quartic": ce.Quartic(),
    }  # fmt: skip
    assert expected == paper.LOSSES


def test_errors_over_splits_allow_for_overlapping_test_sets():
    last = {("tanh", loss): np.random.default_rng(k).normal(size=(30, 4)) for k, loss in enumerate(paper.LOSSES)}
    for both in paper.differences(last, {"SVC": np.zeros((11, 4))}, 20).values():
        assert both.seeds.error == pytest.approx(both.seeds.deviation * 20**-0.5)
        assert both.splits.error == pytest.approx(both.splits.deviation * (1 / 10 + 3 / 7) ** 0.5)


def judged(table, gain_seeds, gain_splits, column, noise=1e-3):
    """Claims on made-up scores of 20 seeds and 10 splits, in which each OCE loss changes a metric by so much."""
    rng, last = np.random.default_rng(0), {}
    for loss in paper.LOSSES:
        last["tanh", loss] = np.array(printed(table)["NN BCE"]) + rng.normal(0, noise, (30, 4))
        gain = 0.0 if loss == "NN BCE" else np.repeat([gain_seeds, gain_splits], [20, 10])
        last["tanh", loss][:, column] += gain
    fixed = {name: np.tile(printed(table)[name], (11, 1)) for name in paper.BENCHMARKS}
    rows = {loss: last["tanh", paper.judge(loss)][:20] for loss in paper.LOSSES}
    return {
        claim.text: claim for claim in paper.network_claims(table, "tanh", rows, paper.differences(last, fixed, 20))
    }


@pytest.mark.parametrize(
    "gains, stated, unstated",
    [
        ((-0.01, -0.01), "reproduced", "reproduced"),
        ((-0.01, 0.01), "not reproduced", "undecided"),
        ((0.01, -0.01), "not reproduced", "undecided"),
        ((-0.0001, -0.0001), "undecided", "undecided"),
    ],
)
def test_better_needs_seeds_and_splits_and_is_refuted_only_at_stated_parameters(gains, stated, unstated):
    said = judged("breast-cancer", *gains, column=2)
    lower = {loss: said[f"{loss}: ECE lower than the risk-neutral network (tanh)"] for loss in ("MMV", "Entropic")}
    assert (lower["MMV"].verdict, lower["Entropic"].verdict) == (stated, unstated)
    # The printed S-CVaR is the risk-neutral network, whatever the corrected one does.
    assert said["S-CVaR: ECE lower than the risk-neutral network (tanh)"].verdict == "not reproduced"
    smooth, neutral = (said[f"{loss}: the printed row (Acc, F1, ECE, AUROC), tanh"] for loss in ("S-CVaR", "NN BCE"))
    assert smooth.ours == neutral.ours


def test_rows_that_no_run_reaches_are_not_within_noise():
    said = judged("heart", 0.0, 0.0, column=2, noise=2e-5)
    rows = {loss: said[f"{loss}: the printed row (Acc, F1, ECE, AUROC), tanh"] for loss in paper.LOSSES}
    assert (rows["NN BCE"].verdict, rows["Quartic"].verdict) == ("reproduced", "not reproduced")
    assert {rows[loss].verdict for loss in paper.UNSTATED} == {"undecided"}
    assert "reached by none of 20 runs" in rows["Quartic"].why


def test_quick_run():
    outcome = paper.run("heart", Job(quick=True, seeds=2, processes=1))
    assert [table.name for table in outcome.tables] == ["benchmarks", "networks", "paired"]
    assert [claim.verdict for claim in outcome.claims] == ["reproduced"]  # a quick run does not judge networks

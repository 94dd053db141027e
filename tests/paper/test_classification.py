"""The classification experiments: printed cells of the benchmarks, the stack of networks, the paired test."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import ttest_rel

from certeq.paper import classification as paper
from certeq.paper._job import LocalJob

pytest.importorskip("sklearn")


def test_heart_table_is_whole():
    X, y = paper.load("heart")
    assert X.shape == (297, 13)
    assert y.sum() == 137
    assert set(X[:, 2]) == {1, 2, 3, 4}
    assert set(X[:, 12]) == {3, 6, 7}
    assert X[0].tolist() == [63, 1, 1, 145, 233, 1, 2, 150, 0, 2.3, 3, 0, 6]


@pytest.mark.parametrize("data", ["breast-cancer", "heart"])
@pytest.mark.parametrize("model", ["Logistic regression", "SVC", "Random forest"])
def test_every_benchmark_cell_is_the_printed_one(data, model):
    found = paper.benchmark(data, model)
    assert [round(x, 4) for x in found] == list(paper.PRINTED[data][model])


def test_calibration_error_by_hand():
    y, p = np.array([0, 1, 1, 1]), np.array([0.2, 0.2, 0.95, 0.15])
    # 0.2 belongs to (0.1, 0.2] with 0.15: mean p 0.55/3, mean y 2/3; 0.95 stands alone.
    assert paper.calibration_error(y, p) == pytest.approx(0.75 * (2 / 3 - 0.55 / 3) + 0.25 * 0.05)
    assert paper.calibration_error(np.array([0, 1]), np.array([0.0, 1.0])) == 0.0


@pytest.mark.parametrize("loss", ["NN BCE", "CVaR", "S-CVaR"])
@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_a_stack_trains_what_the_estimator_trains(loss, activation):
    pytest.importorskip("skorch")
    from certeq.learn import OCENetworkClassifier

    stack = paper.train("heart", loss, activation, [[42, 0], [3, 5]], 4, [2, 4])
    for (state, seed), scores in zip([(42, 0), (3, 5)], stack, strict=True):
        X, X_test, y, y_test = paper.split("heart", state)
        for epochs, found in zip((2, 4), scores, strict=True):
            model = OCENetworkClassifier(paper.LOSSES[loss], activation=activation, epochs=epochs, random_state=seed)
            p = model.fit(X, y).predict_proba(X_test)[:, 1]
            np.testing.assert_allclose(found, paper.score(y_test, p), atol=1e-6)


def test_paired_test_is_scipy_s():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=12), rng.normal(0.5, 1.0, size=12)
    mean, deviation, p = paper.paired(a - b)
    assert (mean, deviation) == pytest.approx(((a - b).mean(), (a - b).std(ddof=1)))
    assert p == pytest.approx(ttest_rel(a, b).pvalue)
    assert paper.paired(a - b, overlap=3 / 7)[2] > p
    assert paper.paired(np.zeros(5)) == (0.0, 0.0, 1.0)


def made_up(gain_seeds, gain_splits):
    """Scores of 20 seeds and 10 splits at two marks, in which every OCE loss lowers ECE by so much."""
    rng, scores = np.random.default_rng(0), {}
    for loss in paper.LOSSES:
        values = np.broadcast_to(paper.PRINTED["breast-cancer"]["NN BCE"], (30, 2, 4)) + rng.normal(0, 1e-3, (30, 2, 4))
        gain = 0.0 if loss == "NN BCE" else np.repeat([gain_seeds, gain_splits], [20, 10])[:, None]
        values[:, :, 2] -= gain
        scores["tanh", loss] = values
    return scores


@pytest.mark.parametrize(
    "gains, verdict",
    [((0.01, 0.01), "reproduced"), ((0.01, -0.01), "within noise"), ((-0.01, -0.01), "not reproduced")],
)
def test_verdicts_ask_for_seeds_and_splits(gains, verdict):
    scores = made_up(*gains)
    last = {key: values[:, -1] for key, values in scores.items()}
    tests = paper._tests(last, 20)
    claims = paper._claims("breast-cancer", tests, last, scores, 20, [5, 500])
    assert [claim.verdict for claim in claims[:4]] == [verdict] * 4
    assert tests["tanh", "MMV", "ECE"]["seeds"] == pytest.approx(-gains[0], abs=1e-3)
    rows = {claim.text.split(":")[0]: claim for claim in claims[5:]}
    assert rows["NN BCE"].verdict == "within noise"
    assert rows["CVaR"].verdict == "not reproduced"
    assert "ECE" in rows["CVaR"].why


@pytest.mark.parametrize(
    "experiment",
    [pytest.param(paper.EXPERIMENTS[0], marks=pytest.mark.slow), paper.EXPERIMENTS[1]],
    ids=lambda experiment: experiment.name,
)
def test_quick_run_is_complete(experiment):
    pytest.importorskip("torch")
    with LocalJob(quick=True, seeds=2, jobs=1) as job:
        outcome = experiment.run(job)
    assert [table.name for table in outcome.tables] == ["benchmarks", "networks", "paired"]
    assert all(len(row) == len(table.columns) for table in outcome.tables for row in table.rows)
    assert outcome.claims[0].verdict == "reproduced"
    assert len(outcome.claims) == 1  # a quick run does not judge networks
    assert outcome.seeds == (0, 1)

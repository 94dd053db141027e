"""The uncertainty experiment: printed figures at the stated seed, the random stream of a loader, honest verdicts."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("skorch")
pytest.importorskip("uncertainty_toolbox")

from certeq.paper import uncertainty as paper  # noqa: E402
from certeq.paper._job import LocalJob  # noqa: E402


def test_deep_ensembles_are_the_printed_figures():
    found = paper.notebook("Deep ensembles", 0)["scores"]
    assert [round(x, 4) for x in found] == list(paper.PRINTED["Deep ensembles"])


def test_mve_at_seed_0_is_within_its_spread_of_the_printed_figures():
    found = paper.notebook("MVE", 0)["scores"]
    np.testing.assert_allclose(found, paper.PRINTED["MVE"], atol=0.0045)  # the deviation over seeds


def test_order_is_that_of_a_shuffling_data_loader():
    from torch.utils.data import DataLoader, TensorDataset

    loader = DataLoader(TensorDataset(torch.arange(175)), batch_size=100, shuffle=True)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        theirs = [torch.cat([batch for (batch,) in loader]) for _ in range(3)]
        torch.manual_seed(0)
        ours = [paper._loader_order(175) for _ in range(3)]
    for a, b in zip(ours, theirs, strict=True):
        assert torch.equal(a, b)


def test_the_stream_is_that_of_lightning():
    """Weights after three epochs of Lightning's own loop, with and without validation."""
    pytest.importorskip("lightning")
    import logging
    import warnings

    from lightning.pytorch import LightningModule, Trainer, seed_everything
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset

    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    X = torch.linspace(-1, 1, 175)[:, None]
    data = TensorDataset(X, X.square())

    class Net(LightningModule):
        def __init__(self):
            super().__init__()
            self.net = nn.Linear(1, 1)

        def training_step(self, batch, _):
            return (self.net(batch[0]) - batch[1]).square().mean()

        def validation_step(self, batch, _):
            pass

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), lr=0.1)

    for validates in (False, True):
        with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            seed_everything(0, verbose=False)
            theirs = Net()
            quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
            trainer = Trainer(max_epochs=3, accelerator="cpu", enable_model_summary=False, **quiet)
            loaders = [DataLoader(data, batch_size=100, shuffle=True)]
            trainer.fit(theirs, *loaders, DataLoader(data, batch_size=100) if validates else None)
            torch.manual_seed(0)
            net = nn.Linear(1, 1)
            adam = torch.optim.Adam(net.parameters(), lr=0.1)
            for _ in range(3):
                for batch in paper._loader_order(175).split(100):
                    adam.zero_grad()
                    (net(X[batch]) - X[batch].square()).square().mean().backward()
                    adam.step()
                if validates:
                    paper._whole_number()
        torch.testing.assert_close(theirs.net.weight, net.weight)


def test_truth_scores_more_than_the_printed_oce():
    true = paper.truth(42, 2_000)
    assert [round(x, 4) for x in true["test"]] == [0.0656, 0.0817, 0.0660]
    assert true["test"][0] > paper.PRINTED["MVE with OCE"][0]
    assert true["fresh"][0] < 0.01


def test_a_run_is_repeatable():
    once = paper.train("OCE, beta 0.1", 1, 42, 50, 500)
    assert once == paper.train("OCE, beta 0.1", 1, 42, 50, 500)
    assert once != paper.train("OCE, beta 0.1", 2, 42, 50, 500)


@pytest.mark.parametrize("shift, verdict", [(-0.02, "reproduced"), (-0.001, "within noise"), (0.02, "not reproduced")])
def test_verdicts_are_paired(shift, verdict):
    rng = np.random.default_rng(3)
    base = 0.07 + 0.02 * rng.normal(size=10)
    noise = 0.005 * rng.normal(size=10)
    table = {
        "MVE": [{"test": [x, 0.0, 0.0]} for x in base],
        "OCE": [{"test": [x, 0.0, 0.0]} for x in base + shift + noise - noise.mean()],
    }
    table["OCE"][3] = {}  # diverged: its pair is left out
    claim = paper._compared("somehow", table, "test", "MVE", "OCE", "seeds")
    assert claim.verdict == verdict
    assert "over 9 seeds" in claim.spread


@pytest.mark.slow
def test_quick_run_is_complete():
    with LocalJob(quick=True, seeds=2, jobs=1) as job:
        outcome = paper.run(job)
    assert all(len(row) == len(table.columns) for table in outcome.tables for row in table.rows)
    assert outcome.claims[0].verdict == "reproduced"
    assert len(outcome.claims) == 2  # a quick run does not judge OCE
    assert len(outcome.figures[0].panels) == 3

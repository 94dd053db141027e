"""Process groups that others start: torchrun, and Lightning's ddp."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

import certeq as ce
from certeq.torch import OCELoss

ROOT = Path(__file__).resolve().parents[2]


def run(*command, cwd=ROOT):
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, *map(str, command)], capture_output=True, text=True, timeout=400, cwd=cwd, env=environment
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 3])
def test_the_example(count):
    out = run("-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={count}", "examples/torchrun_oce.py")
    lines = re.findall(
        r"rank (\d) of (\d): (\d+) samples, CVaR of all ([\d.]+) -> ([\d.]+), norm of the gradient ([\d.]+), "
        r"furthest from a single process ([\d.e+-]+)",
        out,
    )
    assert sorted(int(line[0]) for line in lines) == list(range(count))
    assert len({line[2] for line in lines}) == count  # unequal shards
    assert len({line[3:6] for line in lines}) == 1  # one value and one gradient
    for line in lines:
        assert float(line[4]) < 0.7 * float(line[3])
        assert float(line[6]) <= 1e-10


SCRIPT = """
import sys
import torch
import lightning
from tests.torch.test_distributed_tools import Regression

torch.set_num_threads(1)
lightning.seed_everything(0)
model = Regression("world")
trainer = lightning.Trainer(
    max_epochs=3, accelerator="cpu", devices=2, strategy="ddp", logger=False, enable_checkpointing=False,
    enable_progress_bar=False, enable_model_summary=False, default_root_dir=sys.argv[1], use_distributed_sampler=False,
)
trainer.fit(model)
if trainer.is_global_zero:
    torch.save({"values": model.seen, "state": model.net.state_dict()}, sys.argv[1] + "/found.pt")
"""


def samples():
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(64, 3, dtype=torch.float64, generator=generator)
    return x, x.sum(1, keepdim=True) + torch.randn(64, 1, dtype=torch.float64, generator=generator)


def network():
    net = nn.Linear(3, 1).double()
    nn.init.zeros_(net.weight)
    nn.init.zeros_(net.bias)
    return net


try:
    import lightning
except ImportError:
    lightning = None
else:

    class Regression(lightning.LightningModule):
        def __init__(self, process_group):
            super().__init__()
            self.net = network()
            self.criterion = OCELoss(ce.SmoothCVaR(0.2), nn.MSELoss(reduction="none"), process_group=process_group)
            self.seen = []

        def training_step(self, batch, _):
            loss = self.criterion(self.net(batch[0]), batch[1])
            self.seen.append(loss.item())
            return loss

        def train_dataloader(self):
            """Of each 32 samples 20 go to rank 0 and 12 to rank 1."""
            first, last = (0, 20) if self.trainer.global_rank == 0 else (20, 32)
            batches = [range(start + first, start + last) for start in (0, 32)]
            data = torch.utils.data.TensorDataset(*samples())
            return torch.utils.data.DataLoader(data, batch_sampler=batches, num_workers=0)

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.05)


@pytest.mark.slow
@pytest.mark.skipif(lightning is None, reason="lightning is not installed")
def test_lightning_ddp(tmp_path):
    """Two ranks with 20 and 12 samples step as one process does with their 32."""
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    run(script, tmp_path, cwd=tmp_path)
    found = torch.load(tmp_path / "found.pt")
    x, y = samples()
    net, loss = network(), OCELoss(ce.SmoothCVaR(0.2), nn.MSELoss(reduction="none"))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    values = []
    for _ in range(3):
        for step in range(2):
            batch = slice(32 * step, 32 * (step + 1))
            optimizer.zero_grad()
            value = loss(net(x[batch]), y[batch])
            value.backward()
            optimizer.step()
            values.append(value.item())
    assert found["values"] == pytest.approx(values, abs=1e-12)
    for name, p in net.state_dict().items():
        assert torch.allclose(found["state"][name], p, rtol=0, atol=1e-10)

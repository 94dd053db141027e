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
pytestmark = pytest.mark.slow


def run(*command, cwd=ROOT):
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}"}
    done = subprocess.run(
        [sys.executable, *map(str, command)], capture_output=True, text=True, timeout=400, cwd=cwd, env=environment
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


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
import lightning
import torch
from tests.torch.test_distributed_tools import batches, made

class Regression(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net, self.criterion = made("world")
        self.seen = []

    def training_step(self, batch, _):
        loss = self.criterion(self.net(batch[0]), batch[1])
        self.seen.append(loss.item())
        return loss

    def train_dataloader(self):
        # Of each 32 samples 20 go to rank 0 and 12 to rank 1.
        part = slice(0, 20) if self.trainer.global_rank == 0 else slice(20, 32)
        return torch.utils.data.DataLoader([(x[part], y[part]) for x, y in batches()], batch_size=None)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05)

torch.set_num_threads(1)
model = Regression()
trainer = lightning.Trainer(
    max_epochs=3, accelerator="cpu", devices=2, strategy="ddp", logger=False, enable_checkpointing=False,
    enable_progress_bar=False, enable_model_summary=False, default_root_dir=sys.argv[1], use_distributed_sampler=False,
)
trainer.fit(model)
if trainer.is_global_zero:
    torch.save({"values": model.seen, "state": model.net.state_dict()}, sys.argv[1] + "/found.pt")
"""


def batches():
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(64, 3, dtype=torch.float64, generator=generator)
    y = x.sum(1, keepdim=True) + torch.randn(64, 1, dtype=torch.float64, generator=generator)
    return list(zip(x.split(32), y.split(32), strict=True))


def made(process_group=None):
    net = nn.Linear(3, 1).double()
    nn.init.zeros_(net.weight)
    nn.init.zeros_(net.bias)
    return net, OCELoss(ce.SmoothCVaR(0.2), nn.MSELoss(reduction="none"), process_group=process_group)


def test_lightning_ddp(tmp_path):
    """Two ranks with 20 and 12 samples step as one process does with their 32."""
    pytest.importorskip("lightning")
    (tmp_path / "train.py").write_text(SCRIPT)
    run(tmp_path / "train.py", tmp_path, cwd=tmp_path)
    found = torch.load(tmp_path / "found.pt")
    (net, loss), values = made(), []
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    for x, y in 3 * batches():
        optimizer.zero_grad()
        value = loss(net(x), y)
        value.backward()
        optimizer.step()
        values.append(value.item())
    assert found["values"] == pytest.approx(values, abs=1e-12)
    for name, p in net.state_dict().items():
        assert torch.allclose(found["state"][name], p, rtol=0, atol=1e-10)

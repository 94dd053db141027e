"""
Distributed training on one CVaR with torchrun
==============================================

Data-parallel training gives each process a shard and averages the gradients. For a mean loss that is exact. For a risk
it is not: each process would look at the worst tenth of *its* shard, and the mean of those is another objective.
``OCELoss(process_group="world")`` solves for one threshold over all shards, and then the averaged gradient is that of
one process holding everything. This page runs it on two processes, and then shows what goes wrong without.
"""

# %%
# ``examples/torchrun_oce.py`` trains a small network on shards of 200 and 400 samples and compares every gradient
# with that of a single process. It runs on the gloo backend, so a laptop will do:
#
# .. code-block:: console
#
#     $ torchrun --nproc-per-node 2 examples/torchrun_oce.py
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch

import certeq as ce
from certeq.torch import OCELoss

plt.rcParams.update({"axes.spines.top": False, "axes.spines.right": False, "figure.dpi": 110})
BLUE, ORANGE, GREY = "#0072b2", "#d55e00", "#8a94a0"

here = Path.cwd()
paths = [folder / "examples" / "torchrun_oce.py" for folder in (here, *here.parents)]
script = next(path for path in paths if path.is_file())
run = subprocess.run(
    [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(script)],
    capture_output=True,
    text=True,
    check=True,
    timeout=120,
    env={**os.environ, "OMP_NUM_THREADS": "1"},
)
print(run.stdout)
furthest = [float(found) for found in re.findall(r"single process ([\d.e+-]+)", run.stdout)]
assert len(furthest) == 2
assert max(furthest) < 1e-12

# %%
# **What goes wrong without.** The same data and network, in this process, with shards that are not alike: the 300
# samples with little noise on rank 0, the 300 with much on rank 1. Two ways to train: on the risk of all, as above, or
# on the mean of the two shards' own risks, which is what averaging plain ``OCELoss`` gradients amounts to.
parts = runpy.run_path(str(script))  # its functions; nothing starts
x, y = parts["regression"]()
order = torch.argsort(x[:, 0].abs())
x, y = x[order], y[order]
shards = [slice(0, 300), slice(300, 600)]
risk = ce.CVaR(alpha=0.1)
criterion = OCELoss(risk, torch.nn.MSELoss(reduction="none"))


def train(objective, steps=300):
    """Train on an objective; return the CVaR over all samples after each step, and the last losses."""
    net = parts["network"]()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.02)
    course = []
    for _ in range(steps):
        optimizer.zero_grad()
        output = net(x)
        objective(output).backward()
        optimizer.step()
        course.append(float(criterion(output.detach(), y)))
    return np.array(course), ((output.detach() - y) ** 2)[:, 0].numpy()


together, losses = train(lambda output: criterion(output, y))
apart, _ = train(lambda output: sum(criterion(output[part], y[part]) for part in shards) / 2)

# %%
# Left, the losses at the end, by rank: thresholds of their own would count a tenth of each shard, the common one takes
# the worst tenth wherever it is. Right, the risk over all samples while training on the one or the other.
figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.5), layout="constrained")
common = ce.threshold(losses, risk)
jitter = np.random.default_rng(0).uniform(-0.3, 0.3, 600)
for rank, part in enumerate(shards):
    mine = losses[part]
    own = ce.threshold(mine, risk)
    counted = mine > common
    left.scatter(rank + jitter[part], mine, s=14, color=np.where(counted, BLUE, GREY), alpha=0.7, lw=0)
    left.plot(
        [rank - 0.38, rank + 0.38], [own, own], color=ORANGE, lw=2, label="threshold of its own" if rank == 0 else None
    )
    left.text(rank, 40, f"{counted.sum()} of the worst 60", ha="center", color=BLUE)
left.axhline(common, color=BLUE, lw=2, label="common threshold")
left.set(yscale="log", ylim=(1e-4, 100), xlim=(-0.5, 1.5), ylabel="squared error")
left.set_xticks([0, 1], ["rank 0", "rank 1"])
left.set_title("Whose losses are the worst?", loc="left")
left.legend(frameon=False, loc="lower right")

right.plot(apart, color=ORANGE, lw=2.5, label="mean of the ranks' own risks")
right.plot(together, color=BLUE, lw=2.5, label="one risk over all ranks")
right.set(ylim=(6.5, 10), xlabel="step", ylabel="CVaR of the worst tenth, all samples")
right.set_title("Training on the wrong objective", loc="left")
right.legend(frameon=False)
plt.show()

# %%
# Nearly all of the worst tenth is on rank 1; a threshold of its own makes rank 0 spend half of the gradient on samples
# that are not bad at all.
print(f"after 300 steps: {together[-1]:.3f} together, {apart[-1]:.3f} apart")
assert np.sum(losses[shards[0]] > common) <= 3
assert together[-1] < 0.95 * apart[-1]

"""Train on several ranks with the risk of the whole batch:  torchrun --nproc-per-node 2 examples/torchrun_oce.py

Each rank holds a shard of its own size. The loss asks for the conditional value at risk of all shards together, and
what DistributedDataParallel makes of the gradients is compared with one process that holds all samples. Runs on the
gloo backend, so no accelerator is needed.
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import certeq as ce
from certeq.torch import OCELoss

SAMPLES, FEATURES, STEPS = 600, 5, 20


def regression() -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs and targets whose noise grows with the first input: the same on every rank."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(SAMPLES, FEATURES, dtype=torch.float64, generator=generator)
    noise = torch.randn(SAMPLES, dtype=torch.float64, generator=generator) * (0.1 + x[:, 0].abs())
    return x, (x.sum(1) + noise)[:, None]


def shard(rank: int, count: int) -> slice:
    """Rank r gets a part proportional to r + 1: nothing needs equal shards."""
    edges = [SAMPLES * r * (r + 1) // (count * (count + 1)) for r in range(count + 1)]
    return slice(edges[rank], edges[rank + 1])


def network() -> nn.Module:
    """A small network with the same start on every rank."""
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(FEATURES, 8), nn.Tanh(), nn.Linear(8, 1)).double()


def main() -> None:
    """Train, printing on every rank how its gradient compares with that of a single process."""
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    rank, count = dist.get_rank(), dist.get_world_size()
    x, y = regression()
    own = shard(rank, count)

    utility, base = ce.CVaR(alpha=0.1), nn.MSELoss(reduction="none")
    net = DistributedDataParallel(network())
    criterion = OCELoss(utility, base, process_group="world")
    optimizer = torch.optim.SGD(net.parameters(), lr=0.02)

    first = last = furthest = 0.0
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = criterion(net(x[own]), y[own])
        loss.backward()

        alone = network()  # a single process with all samples, at the same parameters
        alone.load_state_dict(net.module.state_dict())
        OCELoss(utility, base)(alone(x), y).backward()
        pairs = zip(net.parameters(), alone.parameters(), strict=True)
        furthest = max(furthest, *(float((p.grad - q.grad).abs().max()) for p, q in pairs))

        optimizer.step()
        last = loss.item()
        first = first if step else last

    mine = float(torch.cat([p.grad.reshape(-1) for p in net.parameters()]).norm())
    print(
        f"rank {rank} of {count}: {own.stop - own.start} samples, CVaR of all {first:.6f} -> {last:.6f}, "
        f"norm of the gradient {mine:.12f}, furthest from a single process {furthest:.1e}",
        flush=True,
    )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

"""A batch spread over the ranks of a process group is one batch: values, gradients, complaints.

One set of processes runs everything; the tests look at what came back. Rank processes build their shards from the
same seed as the test does, so that only answers travel.
"""

import copy
import pickle
from contextlib import nullcontext

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import certeq as ce
from certeq.torch import MemoryOCELoss, OCELoss, oce, threshold, tilt
from tests.conftest import UTILITIES
from tests.torch.ranks import complaint, launch

pytestmark = pytest.mark.xdist_group("ranks")  # one set of processes, not one for each worker

SIZES = {2: [(9, 14), (0, 23)], 3: [(5, 0, 18), (11, 3, 9)]}
LONG = (1500, 0, 2300)  # too long to ride along with the first message
LEARNED = {
    "entropic": lambda a: ce.Entropic(a),
    "smooth": lambda a: ce.SmoothCVaR(0.3, a),
    "cvar": lambda a: ce.CVaR(a),
    "sum": lambda a: 0.5 * ce.Entropic(a) + 0.5 * ce.CVaR(0.4),
}


def data(n, seed=0):
    rng = np.random.default_rng(seed)
    x, y, w = rng.standard_normal((n, 3)), rng.standard_normal(n), rng.random(n) * (rng.random(n) > 0.2) + 1e-3
    return torch.tensor(x), torch.tensor(y), torch.tensor(w)


def part(tensor, sizes, rank):
    start = sum(sizes[:rank])
    return tensor[start : start + sizes[rank]]


def theta():
    return torch.tensor([0.5, -1.0, 0.3], dtype=torch.float64, requires_grad=True)


def losses_of(p, x, y):
    return (x @ p - y).abs()


def average(gradient, group):
    """What DistributedDataParallel does to gradients."""
    total = gradient.clone()
    dist.all_reduce(total, group=group)
    return total / dist.get_world_size(group)


# -- what a rank does --------------------------------------------------------------------------------------------------


def work(rank, count, folder):
    pair = dist.new_group([0, 1])
    groups = {3: dist.group.WORLD} | ({2: pair} if rank < 2 else {})
    found = {"gradients": {}, "not a member": complaint(lambda: oce(torch.ones(2), ce.Mean(), process_group=pair))}
    if rank < 2:  # the others' call, which rank 2 must not join
        found["not a member"] = None
    for size, group in groups.items():
        for sizes in SIZES[size]:
            for name, utility in UTILITIES.items():
                for weighted in (False, True):
                    x, y, w = (part(a, sizes, rank) for a in data(sum(sizes)))
                    p = theta()
                    value = oce(losses_of(p, x, y), utility, weight=w if weighted else None, process_group=group)
                    value.backward()
                    found["gradients"][sizes, name, weighted] = value.item(), average(p.grad, group)
    for scenario in (
        tied,
        long_shards,
        wrapped,
        learned,
        weights,
        halves,
        columns,
        shares,
        remember,
        accumulate,
        masked,
        complaints,
    ):
        found[scenario.__name__] = scenario(rank)
    return found


def tied(rank):
    """Some losses tie, and one shard has a part of the tail; odd losses; more of them than anyone trains on at once."""
    found = {}
    for name, utility in UTILITIES.items():
        for weighted in (False, True):
            x, _, w = (part(a, SIZES[3][0], rank) for a in ties(23))
            x.requires_grad_()
            value = oce(x, utility, weight=w if weighted else None, process_group="world")
            value.backward()
            found[name, weighted] = value.item(), x.grad / 3
    x = torch.arange(4.0, dtype=torch.float64)
    found["inf"] = oce((x + 1) / (1 - (rank == 1)), ce.Quartic(), allow_inf=True, process_group="world").item()
    found["no weight"] = complaint(lambda: oce(x, ce.Quartic(), weight=0 * x, process_group="world"))
    found["many"] = oce(many()[rank::3], ce.SmoothCVaR(0.1), process_group="world").item()
    x = x.float().requires_grad_()
    value = oce(x, ce.Quartic(), process_group="world")
    value.backward()
    found["float32"] = value.dtype, value.item(), x.grad
    return found


def many():
    """300,000 losses."""
    return torch.randn(300_000, dtype=torch.float64, generator=torch.Generator().manual_seed(5))


def ties(n):
    """Losses of which many tie, rising from rank to rank, and weights of which some are 0."""
    x, y, w = data(n)
    return torch.round(2 * y) / 2 + torch.linspace(0, 1, n, dtype=torch.float64).round(), x, w * (w > 0.1)


def long_shards(rank):
    found = {}
    for name in ("cvar", "quartic", "entropic_cvar"):
        for weighted in (False, True):
            x, y, w = (part(a, LONG, rank) for a in data(sum(LONG)))
            p = theta()
            value = oce(losses_of(p, x, y), UTILITIES[name], weight=w if weighted else None, process_group="world")
            value.backward()
            found[name, weighted] = value.item(), average(p.grad, None)
    return found


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)).double()


def criterion(process_group=None):
    return OCELoss(ce.SmoothCVaR(0.2), nn.MSELoss(reduction="none"), process_group=process_group)


def wrapped(rank):
    """Three steps of a network in DistributedDataParallel; rank 1 has no samples."""
    net = DistributedDataParallel(network())
    x, y, _ = (part(a, SIZES[3][0], rank) for a in data(23))
    values = train(net, x, y[:, None], criterion("world"))
    return values, [p.detach() for p in net.parameters()]


def train(net, x, y, loss):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.3)
    values = []
    for _ in range(3):
        optimizer.zero_grad()
        value = loss(net(x), y)
        value.backward()
        optimizer.step()
        values.append(value.item())
    return values


def learned(rank):
    found = {}
    for name, make in LEARNED.items():
        x, y, _ = (part(a, SIZES[3][0], rank) for a in data(23))
        p, a = theta(), torch.tensor(0.37, dtype=torch.float64, requires_grad=True)
        oce(losses_of(p, x, y), make(a), process_group="world").backward()
        found[name] = average(p.grad, None), a.grad, average(a.grad, None)
    return found


def weights(rank):
    x, y, w = (part(a, SIZES[3][1], rank) for a in data(23))
    w.requires_grad_()
    oce(losses_of(theta(), x, y), ce.Quartic(), weight=w, process_group="world").backward()
    return w.grad / 3


def halves(rank):
    layer = network()[0].float()
    x, _, _ = (part(a, SIZES[3][0], rank) for a in data(23))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = layer(x.float())
        value = oce(out, ce.CVaR(0.3), process_group="world")
        value.backward()
    return out.dtype, value, average(layer.weight.grad, None)


def columns(rank):
    x = part(data(23)[0], SIZES[3][0], rank).requires_grad_()
    value = oce(x, ce.Quartic(), dim=0, keepdim=True, process_group="world")
    value.sum().backward()
    return value.detach(), x.grad / 3


def shares(rank):
    x, y, w = (part(a, SIZES[3][0], rank) for a in data(23))
    found = losses_of(theta(), x, y)
    return {
        name: (tilt(found, u, weight=w, process_group="world"), float(threshold(found, u, process_group="world")))
        for name, u in (("cvar", ce.CVaR(0.3)), ("quartic", ce.Quartic()))
    }, tilt(x, ce.Quartic(), dim=0, process_group="world")


def remember(rank):
    loss = MemoryOCELoss(ce.CVaR(0.2), memory=30, process_group="world")
    found = []
    for seed in range(3):
        x, y, _ = (part(a, SIZES[3][0], rank) for a in data(23, seed))
        p = theta()
        value = loss(losses_of(p, x, y))
        value.backward()
        found.append((value.item(), average(p.grad, None)))
    return found, loss.bank


def accumulate(rank):
    """The recipe of OCELoss: two passes over parts of the batch, of unequal number on the ranks."""
    net, loss = DistributedDataParallel(network()), criterion("world")
    x, y, _ = (part(a, SIZES[3][1], rank) for a in data(23))
    parts = list(zip(x.split(3 + rank), y[:, None].split(3 + rank), strict=True))
    with torch.no_grad():
        losses = [loss.losses(net(x), y) for x, y in parts]
    q = tilt(torch.cat(losses), loss.utility, process_group="world")
    for i, ((x, y), q_part) in enumerate(zip(parts, q.split([len(part) for part in losses]), strict=True)):
        with net.no_sync() if i + 1 < len(parts) else nullcontext():
            (3 * (q_part * loss.losses(net(x), y)).sum()).backward()
    return [p.grad for p in net.parameters()]


def sequences():
    """Scores of 23 sequences of 4 tokens, and targets, all of rank 2's and some of the others' to be ignored."""
    generator = torch.Generator().manual_seed(3)
    scores = torch.randn(23, 5, 4, generator=generator, dtype=torch.float64)
    target = torch.where(
        torch.rand(23, 4, generator=generator) < 0.3, -100, torch.randint(5, (23, 4), generator=generator)
    )
    target[14:] = -100
    return scores, target


def over_classes(utility, process_group=None, kind=OCELoss):
    weight = torch.tensor([1.0, 2.0, 0.0, 0.5, 3.0], dtype=torch.float64)
    return kind(utility, nn.CrossEntropyLoss(weight=weight, reduction="none"), process_group=process_group)


def masked(rank):
    """Ignored targets and class weights; NaN where a mask is; a rank that has nothing left."""
    found = {}
    for name in ("cvar", "quartic", "entropic_cvar"):
        scores, target = (part(a, (9, 5, 9), rank) for a in sequences())
        scores.requires_grad_()
        value = over_classes(UTILITIES[name], "world")(scores, target)
        value.backward()
        losses = torch.where(target == -100, torch.nan, scores.detach().amax(1))
        masked = oce(losses, UTILITIES[name], weight=target != -100, process_group="world")
        remembering = over_classes(UTILITIES[name], "world", MemoryOCELoss)
        remembered = [remembering(scores.detach() + shift, target).item() for shift in (0.0, 1.0)]
        bad = complaint(
            lambda scores=scores, target=target: over_classes(ce.Mean(), "world")(
                scores, target, weight=torch.ones(3) if rank == 1 else None
            )
        )
        found[name] = value.item(), scores.grad / 3, masked.item(), remembered, bad
    return found


def complaints(rank):
    x = torch.arange(4.0, dtype=torch.float64)
    bad = x.clone()
    bad[2] = torch.nan
    negative = torch.ones(4, dtype=torch.float64)
    negative[3] = -1.0
    nothing = torch.zeros(4, dtype=torch.float64)
    first, second = rank == 0, rank == 1
    custom = ce.utility(lambda z: np.expm1(0.5 * z) / 0.5 if first else np.expm1(0.6 * z) / 0.6, name="mine")
    far = ce.utility(lambda z: np.where(z > 0, z + z**2, 0.5 * z) + first * np.maximum(z - 10.0, 0.0) ** 2, name="far")
    deep = torch.ones(2, dtype=torch.float64, requires_grad=True)

    def call(losses=x, utility=ce.CVaR(0.5), **more):  # noqa: B008
        return lambda: oce(losses, utility, process_group="world", **more)

    found = {
        "nan": complaint(call(bad if second else x)),
        "inf": complaint(call(bad.nan_to_num(torch.inf) if second else x)),
        "not floating": complaint(call(torch.arange(3) if second else x)),
        "not a tensor": complaint(call([1.0] if second else x)),
        "weight": complaint(call(weight=negative if rank == 2 else negative.abs())),
        "two complaints": complaint(call(bad if not first else x)),
        "utility": complaint(call(utility=ce.Entropic(1.0) if second else ce.CVaR(0.5))),
        "parameter": complaint(call(utility=ce.CVaR(0.5 + 1e-12 * second))),
        "function": complaint(call(utility=custom)),
        "function far out": complaint(call(utility=far)),
        "dtype": complaint(call(x.float() if second else x)),
        "some weights": complaint(call(weight=nothing + 1 if second else None)),
        "call": complaint(lambda: (oce if first else threshold)(x, ce.CVaR(0.5), process_group="world")),
        "columns": complaint(call(torch.ones(2, 2 + second), dim=0)),
        "all empty": complaint(call(x[:0])),
        "no weight": complaint(call(weight=nothing)),
        "create_graph": complaint(lambda: torch.autograd.grad(call(deep)(), deep, create_graph=True)),
        "vmap": complaint(lambda: torch.func.grad(lambda z: call(z)())(x)),
    }
    # A shard without weight is fine, and so is one without losses that was given no weights.
    found["part of the weight"] = call(weight=nothing if second else nothing + 1)().item()
    found["empty without weights"] = oce(
        x[:0] if second else x, ce.CVaR(0.5), weight=None if second else nothing + 1, process_group="world"
    ).item()
    found["allowed inf"] = call(bad.nan_to_num(torch.inf) if second else x, allow_inf=True)().item()
    found["unchecked nan"] = call(bad if second else x, validate=False)().item()
    return found


# -- what came back ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    found = launch(3, work, tmp_path_factory.mktemp("ranks"))
    assert None not in found, "a rank ended early; its traceback is above"
    return found


def alone(utility, n, weighted):
    x, y, w = data(n)
    p = theta()
    losses = losses_of(p, x, y)
    value = oce(losses, utility, weight=w if weighted else None)
    value.backward()
    return ce.oce(losses.detach().numpy(), utility, w.numpy() if weighted else None), p.grad


def check(found, utility, n, weighted):
    value, gradient = alone(utility, n, weighted)
    assert abs(found[0] - value) <= 1e-12 * (1 + abs(value))
    assert torch.allclose(found[1], gradient, rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", UTILITIES)
@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_gradients_are_those_of_one_process(answers, name, count, weighted):
    for sizes in SIZES[count]:
        every = [answers[rank]["gradients"][sizes, name, weighted] for rank in range(count)]
        for found in every:
            check(found, UTILITIES[name], sum(sizes), weighted)
            assert found[0] == every[0][0]  # the same bits everywhere


@pytest.mark.parametrize("name", UTILITIES)
def test_losses_that_tie_across_ranks(answers, name):
    utility = UTILITIES[name]
    for weighted in (False, True):
        x, _, w = ties(23)
        x.requires_grad_()
        oce(x, utility, weight=w if weighted else None).backward()
        value = ce.oce(x.detach().numpy(), utility, w.numpy() if weighted else None)
        found = [answer["tied"][name, weighted] for answer in answers]
        assert all(abs(one[0] - value) <= 1e-12 * (1 + abs(value)) for one in found)
        assert torch.allclose(torch.cat([one[1] for one in found]), x.grad, rtol=0, atol=1e-10)


def test_odd_losses_and_many(answers):
    x = torch.arange(4.0).repeat(3).requires_grad_()
    wanted = oce(x, ce.Quartic())
    wanted.backward()
    for answer in answers:
        assert answer["tied"]["inf"] == np.inf
        assert "weight sums to 0 over all ranks" in answer["tied"]["no weight"][1]
        assert answer["tied"]["many"] == pytest.approx(ce.oce(many().numpy(), ce.SmoothCVaR(0.1)), rel=1e-12)
        dtype, value, gradient = answer["tied"]["float32"]
        assert dtype == torch.float32
        assert value == pytest.approx(wanted.item(), rel=1e-6)
        assert torch.allclose(gradient, 3 * x.grad[:4], atol=1e-5)


def test_long_shards(answers):
    for answer in answers:
        for (name, weighted), found in answer["long_shards"].items():
            check(found, UTILITIES[name], sum(LONG), weighted)


@pytest.mark.parametrize("name", [name for name in UTILITIES if name != "mean"])
def test_the_average_of_the_ranks_own_values_is_too_low(name):
    """min over t of a mean is at least the mean of the minima; the two agree only where the shards share a t*."""
    x, y, _ = data(46)
    losses = losses_of(theta(), x, y).detach()
    parts = [oce(part(losses, (23, 23), rank), UTILITIES[name]).item() for rank in range(2)]
    assert sum(parts) / 2 < oce(losses, UTILITIES[name]).item() - 1e-6


def test_distributed_data_parallel(answers):
    x, y, _ = data(23)
    net = network()
    values = train(net, x, y[:, None], criterion())
    for answer in answers:
        assert answer["wrapped"][0] == pytest.approx(values, abs=1e-12)
        for found, wanted in zip(answer["wrapped"][1], net.parameters(), strict=True):
            assert torch.allclose(found, wanted, rtol=0, atol=1e-10)


def test_learned_parameters_are_complete_on_every_rank(answers):
    x, y, _ = data(23)
    for name, make in LEARNED.items():
        p, a = theta(), torch.tensor(0.37, dtype=torch.float64, requires_grad=True)
        oce(losses_of(p, x, y), make(a)).backward()
        for answer in answers:
            gradient, own, averaged = answer["learned"][name]
            assert torch.allclose(gradient, p.grad, rtol=0, atol=1e-10)
            assert own.item() == pytest.approx(a.grad.item(), abs=1e-10)
            assert averaged.item() == pytest.approx(a.grad.item(), abs=1e-10)


def test_weights_get_gradients(answers):
    x, y, w = data(23)
    w.requires_grad_()
    oce(losses_of(theta(), x, y), ce.Quartic(), weight=w).backward()
    assert torch.allclose(torch.cat([answer["weights"] for answer in answers]), w.grad, rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", ["cvar", "quartic", "entropic_cvar"])
def test_masks_and_class_weights(answers, name):
    scores, target = sequences()
    scores.requires_grad_()
    value = over_classes(UTILITIES[name])(scores, target)
    value.backward()
    counts = target != -100
    alone = ce.oce(scores.detach().amax(1)[counts].numpy(), UTILITIES[name])
    memory = over_classes(UTILITIES[name], kind=MemoryOCELoss)
    remembered = [memory(scores.detach() + shift, target).item() for shift in (0.0, 1.0)]
    for answer in answers:
        found = answer["masked"][name]
        assert found[0] == pytest.approx(value.item(), abs=1e-12)
        assert found[2] == pytest.approx(alone, abs=1e-12)
        assert found[3] == pytest.approx(remembered, abs=1e-12)
        assert "Rank 1 of 3: weight must have the shape of losses" in found[4][1]
    gradient = torch.cat([answer["masked"][name][1] for answer in answers])
    assert torch.allclose(gradient, scores.grad, rtol=0, atol=1e-10)
    assert (gradient.movedim(1, -1)[~counts] == 0).all()


def test_autocast(answers):
    layer = network()[0].float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value = oce(layer(data(23)[0].float()), ce.CVaR(0.3))
        value.backward()
    for answer in answers:
        dtype, found, gradient = answer["halves"]
        assert dtype == found.dtype == torch.bfloat16
        assert found.item() == value.item()
        assert torch.allclose(gradient, layer.weight.grad, atol=0.01)


def test_columns(answers):
    x = data(23)[0].requires_grad_()
    value = oce(x, ce.Quartic(), dim=0, keepdim=True)
    value.sum().backward()
    for answer in answers:
        assert torch.allclose(answer["columns"][0], value, rtol=0, atol=1e-12)
    assert torch.allclose(torch.cat([answer["columns"][1] for answer in answers]), x.grad, rtol=0, atol=1e-10)


def test_tilt_and_threshold(answers):
    x, y, w = data(23)
    losses = losses_of(theta(), x, y).detach()
    for name, utility in (("cvar", ce.CVaR(0.3)), ("quartic", ce.Quartic())):
        found = torch.cat([answer["shares"][0][name][0] for answer in answers])
        assert torch.allclose(found, tilt(losses, utility, weight=w), rtol=0, atol=1e-10)
        assert found.sum().item() == pytest.approx(1.0, abs=1e-12)
        for answer in answers:
            assert answer["shares"][0][name][1] == pytest.approx(threshold(losses, utility).item(), abs=1e-10)
    found = torch.cat([answer["shares"][1] for answer in answers])
    assert torch.allclose(found, tilt(x, ce.Quartic(), dim=0), rtol=0, atol=1e-10)


def test_memory(answers):
    loss = MemoryOCELoss(ce.CVaR(0.2), memory=30)
    for step in range(3):
        x, y, _ = data(23, step)
        p = theta()
        value = loss(losses_of(p, x, y))
        value.backward()
        for answer in answers:
            found, gradient = answer["remember"][0][step]
            assert found == pytest.approx(value.item(), abs=1e-12)
            assert torch.allclose(gradient, p.grad, rtol=0, atol=1e-10)
    for answer in answers:
        assert torch.equal(answer["remember"][1], loss.bank)


def test_accumulated_gradients(answers):
    x, y, _ = data(23)
    net = network()
    criterion()(net(x), y[:, None]).backward()
    for answer in answers:
        for found, p in zip(answer["accumulate"], net.parameters(), strict=True):
            assert torch.allclose(found, p.grad, rtol=0, atol=1e-10)


def test_accumulated_gradients_of_one_process():
    """The same recipe without ranks; the sum of the parts' OCEs is something else."""
    x, y, _ = data(23)
    net, loss = network(), criterion()
    loss(net(x), y[:, None]).backward()
    wanted = [p.grad.clone() for p in net.parameters()]
    parts = list(zip(x.split(5), y[:, None].split(5), strict=True))
    with torch.no_grad():
        losses = [loss.losses(net(x), y) for x, y in parts]
    q = tilt(torch.cat(losses), loss.utility)
    net.zero_grad()
    for (x, y), q_part in zip(parts, q.split([len(part) for part in losses]), strict=True):
        (q_part * loss.losses(net(x), y)).sum().backward()
    for p, gradient in zip(net.parameters(), wanted, strict=True):
        assert torch.allclose(p.grad, gradient, rtol=0, atol=1e-10)
    net.zero_grad()
    for x, y in parts:
        (loss(net(x), y) * len(x) / 23).backward()
    assert not torch.allclose(net[0].weight.grad, wanted[0], atol=1e-3)


# -- complaints, the same on every rank --------------------------------------------------------------------------------

SAID = {
    "nan": ("ValueError", ["Rank 1 of 3: losses holds NaN at index 2"]),
    "inf": ("ValueError", ["Rank 1 of 3: losses holds +inf at index 2", "allow_inf=True"]),
    "not floating": ("TypeError", ["Rank 1 of 3: losses must be floating; found dtype torch.int64"]),
    "not a tensor": ("TypeError", ["Rank 1 of 3: losses must be a torch tensor; found list"]),
    "weight": ("ValueError", ["Rank 2 of 3: weight must be finite and not negative; found -1.0 at index 3"]),
    "two complaints": ("ValueError", ["Rank 1 of 3: losses holds NaN", "Rank 2 of 3: losses holds NaN"]),
    "utility": (
        "ValueError",
        ["utility must be the same", "rank 0 has CVaR(alpha=0.5), rank 1 has Entropic(beta=1.0)"],
    ),
    "parameter": ("ValueError", ["rank 0 has CVaR(alpha=0.5), rank 1 has CVaR(alpha=0.500000000001)"]),
    "function": ("ValueError", ["utility must be the same on every rank", "rank 0 has mine#", "rank 1 has mine#"]),
    "function far out": ("ValueError", ["utility must be the same on every rank", "rank 0 has far#"]),
    "dtype": ("ValueError", ["the dtype of losses must be the same", "rank 0 has float64, rank 1 has float32"]),
    "some weights": ("ValueError", ["weight", "rank 0 has none, rank 1 has weights, rank 2 has none"]),
    "call": ("ValueError", ["call must be the same", "rank 0 has oce, rank 1 has threshold"]),
    "columns": ("ValueError", ["other dimensions must be the same", "rank 0 has (2,), rank 1 has (3,)"]),
    "all empty": ("ValueError", ["losses is empty on every rank"]),
    "no weight": ("ValueError", ["weight sums to 0 over all ranks"]),
    "create_graph": ("NotImplementedError", ["second derivatives are not offered across a process_group"]),
    "vmap": ("NotImplementedError", ["Transform the network and leave the loss outside"]),
}


@pytest.mark.parametrize("case", SAID)
def test_complaints_reach_every_rank(answers, case):
    kind, texts = SAID[case]
    for answer in answers:
        found, said = answer["complaints"][case]
        assert found == kind, said
        for text in texts:
            assert text in said


def test_what_may_pass(answers):
    for answer in answers:
        assert answer["complaints"]["part of the weight"] == 2.5  # two shards of 0, 1, 2, 3
        assert answer["complaints"]["empty without weights"] == 2.5
        assert answer["complaints"]["allowed inf"] == np.inf
        assert np.isnan(answer["complaints"]["unchecked nan"])


def test_only_members_may_call(answers):
    kind, said = answers[2]["not a member"]
    assert kind == "RuntimeError"
    assert "process_group" in said


def test_group_that_is_not_initialized():
    assert not dist.is_initialized()
    for call in (oce, threshold, tilt):
        with pytest.raises(RuntimeError, match=r"not initialized. Call torch.distributed.init_process_group first"):
            call(torch.ones(3), ce.CVaR(0.5), process_group="world")
    loss = OCELoss(ce.CVaR(0.5), process_group="world")  # may be written before the group exists
    assert "process_group='world'" in repr(loss)
    for twin in (loss, copy.deepcopy(loss), pickle.loads(pickle.dumps(loss))):
        with pytest.raises(RuntimeError, match="not initialized"):
            twin(torch.ones(3))


def test_what_is_no_group():
    for bad in ("gloo", 3, True):
        with pytest.raises(TypeError, match=r'process_group must be None, "world" or a torch.distributed ProcessGroup'):
            OCELoss(ce.CVaR(0.5), process_group=bad)
        with pytest.raises(TypeError, match="process_group must be None"):
            oce(torch.ones(3), ce.CVaR(0.5), process_group=bad)

"""A batch spread over the ranks of a process group is one batch: values, gradients, errors.

One set of processes runs all scenarios, and the tests compare what came back with the same scenario in one process.
Every process builds its shard from the same seed.
"""

import copy
import datetime
import os
import pickle
import time
from contextlib import nullcontext

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import certeq as ce
from certeq.torch import MemoryOCELoss, OCELoss, oce, threshold, tilt
from tests.problems import RISKS, UTILITIES
from tests.torch.ranks import complaint, launch

pytestmark = pytest.mark.xdist_group("ranks")  # one set of processes, not one for each worker

WORLD, PAIR = (5, 0, 18), (0, 23)  # sizes of the shards
LONG = (1500, 0, 2300)  # too long to travel with the first message
NAMES = [name for name, entry in RISKS.items() if entry.torch]
WAIT = 2.0  # seconds until a rank that does not answer is an error


def data(n=23, seed=0):
    rng = np.random.default_rng(seed)
    x, y, w = rng.standard_normal((n, 3)), rng.standard_normal(n), rng.random(n) * (rng.random(n) > 0.2) + 1e-3
    return torch.tensor(x), torch.tensor(y), torch.tensor(w)


def theta():
    return torch.tensor([0.5, -1.0, 0.3], dtype=torch.float64, requires_grad=True)


def losses_of(p, x, y):
    return (x @ p - y).abs()


class Shard:
    """The part of a tensor that a rank has; everything for a group that is None."""

    def __init__(self, sizes, rank, group):
        self.part, self.rank, self.group = slice(sum(sizes[:rank]), sum(sizes[: rank + 1])), rank, group
        self.count = len(sizes)

    def __call__(self, tensor):
        return tensor[self.part]

    def average(self, gradient):
        """Do what DistributedDataParallel does to gradients."""
        if self.group is None:
            return gradient
        total = gradient.clone()
        dist.all_reduce(total, group=None if self.group == "world" else self.group)
        return total / self.count


def whole(sizes):
    return Shard((sum(sizes),), 0, None)


# -- scenarios: what is the same on every rank, and what are parts of one tensor ---------------------------------------


def risk(name, shard):
    """A model, and losses of which many tie, rising from rank to rank, with weights of which some are 0."""
    same, parts, utility = [], [], RISKS[name].risk
    x, y, w = data()
    ties = torch.round(2 * y) / 2 + torch.linspace(0, 1, 23, dtype=torch.float64).round()
    for weight in (None, shard(w * (w > 0.1))):
        p, z = theta(), shard(ties).clone().requires_grad_()
        values = [
            oce(losses, utility, weight=weight, process_group=shard.group)
            for losses in (losses_of(p, shard(x), shard(y)), z)
        ]
        sum(values).backward()
        same += [*(value.detach() for value in values), shard.average(p.grad)]
        parts += [z.grad / shard.count, tilt(z, utility, weight=weight, process_group=shard.group)]
        if name in UTILITIES:
            same.append(threshold(z, utility, weight=weight, process_group=shard.group).detach())
    return same, parts


def long_shards(shard):
    same = []
    x, y, w = map(shard, data(sum(LONG)))
    for name in ("cvar", "quartic", "entropic_cvar"):
        for weight in (None, w):
            p = theta()
            value = oce(losses_of(p, x, y), UTILITIES[name], weight=weight, process_group=shard.group)
            value.backward()
            same += [value.detach(), shard.average(p.grad)]
    return same, []


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)).double()


def criterion(shard):
    return OCELoss(ce.SmoothCVaR(0.2), nn.MSELoss(reduction="none"), process_group=shard.group)


def wrapped(shard):
    """Three steps of a network in DistributedDataParallel; rank 1 has no samples."""
    net = network() if shard.group is None else DistributedDataParallel(network())
    x, y, _ = map(shard, data())
    optimizer, values = torch.optim.SGD(net.parameters(), lr=0.3), []
    for _ in range(3):
        optimizer.zero_grad()
        value = criterion(shard)(net(x), y[:, None])
        value.backward()
        optimizer.step()
        values.append(value.detach())
    return [*values, *(p.detach() for p in net.parameters())], []


def accumulated(shard):
    """The recipe of OCELoss: two passes over parts of the batch, of unequal number on the ranks."""
    net, loss, (x, y, _) = network(), criterion(shard), map(shard, data())
    if shard.group is None:
        loss(net(x), y[:, None]).backward()
    else:
        net = DistributedDataParallel(net)
        parts = list(zip(x.split(3 + shard.rank), y[:, None].split(3 + shard.rank), strict=True))
        with torch.no_grad():
            losses = [loss.losses(net(x), y) for x, y in parts]
        q = tilt(torch.cat(losses), loss.utility, process_group="world")
        for i, ((x, y), q_part) in enumerate(zip(parts, q.split([len(part) for part in losses]), strict=True)):
            with net.no_sync() if i + 1 < len(parts) else nullcontext():
                (shard.count * (q_part * loss.losses(net(x), y)).sum()).backward()
    return [p.grad for p in net.parameters()], []


def learned(shard):
    """Gradients of parameters of a utility are complete on every rank."""
    same = []
    x, y, _ = map(shard, data())
    for make in (
        ce.Entropic,
        lambda a: ce.SmoothCVaR(0.3, a),
        ce.CVaR,
        lambda a: 0.5 * ce.Entropic(a) + 0.5 * ce.CVaR(0.4),
    ):
        p, a = theta(), torch.tensor(0.37, dtype=torch.float64, requires_grad=True)
        oce(losses_of(p, x, y), make(a), process_group=shard.group).backward()
        same += [shard.average(p.grad), a.grad, shard.average(a.grad)]
    return same, []


def weights(shard):
    x, y, w = map(shard, data())
    w = w.clone().requires_grad_()
    oce(losses_of(theta(), x, y), ce.Quartic(), weight=w, process_group=shard.group).backward()
    return [], [w.grad / shard.count]


def columns(shard):
    x = shard(data()[0]).clone().requires_grad_()
    value = oce(x, ce.Quartic(), dim=0, keepdim=True, process_group=shard.group)
    value.sum().backward()
    return [value.detach()], [x.grad / shard.count, tilt(x, ce.Quartic(), dim=0, process_group=shard.group).detach()]


def memory(shard):
    loss, same = MemoryOCELoss(ce.CVaR(0.2), memory=30, process_group=shard.group), []
    for seed in range(3):
        x, y, _ = map(shard, data(23, seed))
        p = theta()
        value = loss(losses_of(p, x, y))
        value.backward()
        same += [value.detach(), shard.average(p.grad)]
    return [*same, loss.bank], []


def classes(shard):
    """Ignored targets and class weights; NaN where a mask is; a rank that has nothing left."""
    same, parts, generator = [], [], torch.Generator().manual_seed(3)
    scores = torch.randn(23, 5, 4, generator=generator, dtype=torch.float64)
    ignored = torch.rand(23, 4, generator=generator) < 0.3
    target = torch.where(ignored, -100, torch.randint(5, (23, 4), generator=generator))
    target[5:] = -100
    weight = torch.tensor([1.0, 2.0, 0.0, 0.5, 3.0], dtype=torch.float64)
    base = nn.CrossEntropyLoss(weight=weight, reduction="none")
    for name in ("cvar", "quartic", "entropic_cvar"):
        found, y = shard(scores).clone().requires_grad_(), shard(target)
        value = OCELoss(UTILITIES[name], base, process_group=shard.group)(found, y)
        value.backward()
        losses = torch.where(y == -100, torch.nan, found.detach().amax(1))
        masked = oce(losses, UTILITIES[name], weight=y != -100, process_group=shard.group)
        remembering = MemoryOCELoss(UTILITIES[name], base, process_group=shard.group)
        same += [value.detach(), masked, *(remembering(found.detach() + shift, y) for shift in (0.0, 1.0))]
        parts.append(found.grad / shard.count)
    return same, parts


def short_floats(shard):
    layer, x = network()[0].float(), shard(data()[0]).float().requires_grad_()
    value = oce(x, ce.Quartic(), process_group=shard.group)
    value.backward()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = layer(x.detach())
        half = oce(out, ce.CVaR(0.3), process_group=shard.group)
        half.backward()
    return [value.detach(), half.detach(), shard.average(layer.weight.grad)], [x.grad / shard.count]


SCENARIOS = (wrapped, accumulated, learned, weights, columns, memory, classes, short_floats)

# -- errors: a call that a rank makes, and the error that every rank gets ----------------------------------------------

X, U = torch.arange(4.0, dtype=torch.float64), ce.CVaR(0.5)
NAN, INF = (torch.where(X == 2, bad, X) for bad in (torch.nan, torch.inf))
ONES, NONE = torch.ones(4), torch.zeros(4)
NEGATIVE = torch.tensor([1.0, 1.0, 1.0, -1.0])
FAR = ce.utility(lambda z: np.where(z > 0, z + z**2, 0.5 * z), name="far")
FARTHER = ce.utility(lambda z: np.where(z > 0, z + z**2, 0.5 * z) + np.maximum(z - 10, 0) ** 2, name="far")
SLOW, FAST = (ce.utility(lambda z, rate=rate: np.expm1(rate * z) / rate, name="mine") for rate in (0.5, 0.6))


def ask(losses=X, utility=U, function=oce, **more):
    return function(losses, utility, process_group="world", **more)


def by_rank(**different):
    """Return a call with arguments that differ from rank to rank."""
    return lambda rank: ask(**{name: values[rank] for name, values in different.items()})


def differentiate_twice(rank):
    x = torch.ones(2, dtype=torch.float64, requires_grad=True)
    torch.autograd.grad(ask(x), x, create_graph=True)


def weigh_classes(rank):
    loss = OCELoss(ce.Mean(), nn.CrossEntropyLoss(reduction="none"), process_group="world")
    loss(torch.zeros(4, 2), torch.arange(4) % 2, weight=torch.ones(3) if rank == 1 else None)


VALUE, TYPE, REFUSED = "ValueError", "TypeError", "NotImplementedError"
ERRORS = {
    "nan": (by_rank(losses=(X, NAN, X)), VALUE, "Rank 1 of 3: losses holds NaN at index 2"),
    "inf": (by_rank(losses=(X, INF, X)), VALUE, "Rank 1 of 3: losses holds +inf at index 2", "allow_inf=True"),
    "integers": (by_rank(losses=(X, X.int(), X)), TYPE, "Rank 1 of 3: losses must be floating", "torch.int32"),
    "list": (by_rank(losses=(X, [1.0], X)), TYPE, "Rank 1 of 3: losses must be a torch tensor", "list"),
    "dim": (by_rank(dim=(0, 1, 2)), "IndexError", "Rank 1 of 3: dim", "Rank 2 of 3: dim"),
    "weight": (by_rank(weight=(ONES, ONES, NEGATIVE)), VALUE, "Rank 2 of 3: weight", "-1.0 at index 3"),
    "weight_of_a_criterion": (weigh_classes, VALUE, "Rank 1 of 3: weight must have the shape of losses"),
    "two_errors": (
        by_rank(losses=(X, NAN, NAN)),
        VALUE,
        "Rank 1 of 3: losses holds NaN",
        "Rank 2 of 3: losses holds NaN",
    ),
    "utility": (
        by_rank(utility=(U, ce.Entropic(1.0), U)),
        VALUE,
        "utility must be the same",
        "rank 0 has CVaR(alpha=0.5), rank 1 has Entropic(beta=1.0)",
    ),
    "risk": (
        by_rank(utility=[ce.EVaR(a) for a in (0.2, 0.3, 0.2)]),
        VALUE,
        "EVaR(alpha=0.2), rank 1 has EVaR(alpha=0.3)",
    ),
    "parameter": (
        by_rank(utility=[ce.CVaR(0.25 + 1e-12 * k) for k in range(3)]),
        VALUE,
        "rank 1 has CVaR(alpha=0.250000000001)",
    ),
    "function": (by_rank(utility=(SLOW, FAST, SLOW)), VALUE, "utility must be", "rank 0 has mine#", "rank 1 has mine#"),
    "function_far_out": (by_rank(utility=(FARTHER, FAR, FAR)), VALUE, "utility must be the same", "rank 0 has far#"),
    "dtype": (by_rank(losses=(X, X.float(), X)), VALUE, "dtype of losses", "rank 0 has float64, rank 1 has float32"),
    "allow_inf": (by_rank(allow_inf=(False, True, False)), VALUE, "allow_inf", "rank 0 has False, rank 1 has True"),
    "some_weights": (by_rank(weight=(None, ONES, None)), VALUE, "weight", "rank 0 has none, rank 1 has weights"),
    "weights_and_no_losses": (
        by_rank(losses=(X, X, X[:0]), weight=(None, ONES, None)),
        VALUE,
        "rank 0 has none, rank 1 has weights, rank 2 has no losses",
    ),
    "call": (
        by_rank(function=(oce, threshold, tilt)),
        VALUE,
        "call must be the same",
        "rank 0 has oce, rank 1 has threshold",
    ),
    "columns": (
        lambda rank: ask(torch.ones(2, 2 + (rank == 1)), dim=0),
        VALUE,
        "other dimensions must be the same",
        "rank 0 has (2,), rank 1 has (3,)",
    ),
    "all_empty": (lambda rank: ask(X[:0]), VALUE, "losses is empty on every rank"),
    "no_weight": (lambda rank: ask(weight=NONE), VALUE, "weight sums to 0 over all ranks"),
    "create_graph": (differentiate_twice, REFUSED, "second derivatives", "process_group"),
    "vmap": (lambda rank: torch.func.grad(ask)(X), REFUSED, "Transform the network and leave the loss outside"),
}
# A shard without weight is fine, and so is one without losses that was given no weights: two shards of 0, 1, 2, 3.
PASSES = {
    "part_of_the_weight": (by_rank(weight=(ONES, NONE, ONES)), 2.5),
    "empty_without_weights": (by_rank(losses=(X, X[:0], X), weight=(ONES, None, ONES)), 2.5),
    "allowed_inf": (by_rank(losses=(X, INF, X), allow_inf=[True] * 3), np.inf),
    "unchecked_nan": (by_rank(losses=(X, NAN, X), validate=[False] * 3), np.nan),
}


# -- what a rank does --------------------------------------------------------------------------------------------------


def work(rank, count, folder):
    pair = dist.new_group([0, 1])
    world, found = Shard(WORLD, rank, "world"), {}
    for name in NAMES:
        found[name] = risk(name, world)
    for name in UTILITIES if rank < 2 else ():
        found["pair", name] = risk(name, Shard(PAIR, rank, pair))
    found["not a member"] = complaint(lambda: oce(X, ce.Mean(), process_group=pair)) if rank == 2 else None
    found["long_shards"] = long_shards(Shard(LONG, rank, "world"))
    for scenario in SCENARIOS:
        found[scenario.__name__] = scenario(world)
    found["errors"] = {name: complaint(lambda call=call: call(rank)) for name, (call, *_) in ERRORS.items()}
    found["passes"] = {name: call(rank).item() for name, (call, _) in PASSES.items()}
    return found


def break_the_group(rank, count, folder):
    """Rank 1 answers once, then not at all; in a second group it ends."""
    stalled, dying = (dist.new_group([0, 1], timeout=datetime.timedelta(seconds=WAIT)) for _ in range(2))
    if rank == 2:
        return None
    x = torch.arange(3.0, dtype=torch.float64) + rank
    assert all(oce(x, ce.Mean(), process_group=group).item() == 1.5 for group in (stalled, dying))
    if rank == 1:
        while not (folder / "waited").exists():
            time.sleep(0.05)
        os._exit(3)
    found = {}
    for name, group in {"stalled": stalled, "dead": dying}.items():
        start = time.monotonic()
        kind, said = complaint(lambda group=group: oce(x, ce.Mean(), process_group=group))
        found[name] = kind, said, time.monotonic() - start
        (folder / "waited").touch()
    return found


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    found, broken = launch(3, work, tmp_path_factory.mktemp("ranks"), break_the_group)
    assert None not in found, "a rank ended early; its traceback is above"
    return found, broken


@pytest.fixture(scope="module")
def answers(both):
    return both[0]


# -- what came back ----------------------------------------------------------------------------------------------------


def check(found, alone, near=1e-10):
    """Check what all ranks have against one process, and that the first number is the same on every rank."""
    same, parts = alone
    for one, *_ in found:
        for value, first, wanted in zip(one, found[0][0], same, strict=True):
            assert value.dtype == wanted.dtype
            assert torch.equal(value, first)
            assert torch.allclose(value, wanted, rtol=near, atol=near)
    for number, wanted in enumerate(parts):
        together = torch.cat([each[1][number] for each in found])
        assert torch.allclose(together, wanted, rtol=0, atol=near)


@pytest.mark.parametrize("name", NAMES)
def test_risks(answers, name):
    check([answer[name] for answer in answers], risk(name, whole(WORLD)))
    if name in UTILITIES:
        check([answer["pair", name] for answer in answers[:2]], risk(name, whole(PAIR)))


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_scenarios(answers, scenario):
    near = 0.01 if scenario is short_floats else 1e-10
    check([answer[scenario.__name__] for answer in answers], scenario(whole(WORLD)), near)


def test_long_shards(answers):
    check([answer["long_shards"] for answer in answers], long_shards(whole(LONG)))


@pytest.mark.parametrize("case", ERRORS)
def test_errors_reach_every_rank(answers, case):
    _, kind, *texts = ERRORS[case]
    for answer in answers:
        found, said = answer["errors"][case]
        assert found == kind, said
        assert not [text for text in texts if text not in said], said


def test_what_may_pass(answers):
    for answer in answers:
        for name, (_, wanted) in PASSES.items():
            np.testing.assert_equal(answer["passes"][name], wanted)
    kind, said = answers[2]["not a member"]
    assert kind == "RuntimeError"
    assert "process_group" in said


@pytest.mark.parametrize("case", ["stalled", "dead"])
def test_a_rank_that_does_not_answer(both, case):
    """A clear error within the group's timeout, never a hang."""
    assert both[1][1] is None
    kind, said, seconds = both[1][0][case]
    assert kind == "RuntimeError"
    assert "a rank of process_group did not answer: rank 0 of 2 waited" in said
    assert "the group's timeout of 2 s" in said
    assert seconds < WAIT + 10.0  # a busy machine may be late, but nothing hangs


def test_a_criterion_made_before_the_group():
    loss = OCELoss(ce.CVaR(0.5), process_group="world")
    assert "process_group='world'" in repr(loss)
    for twin in (loss, copy.deepcopy(loss), pickle.loads(pickle.dumps(loss))):
        with pytest.raises(RuntimeError, match="not initialized"):
            twin(torch.ones(3))

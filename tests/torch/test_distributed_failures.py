"""A rank that stalls, and one that dies: a clear error within the group's timeout, never a hang."""

import datetime
import os
import time

import pytest
import torch
import torch.distributed as dist

import certeq as ce
from certeq.torch import oce
from tests.torch.ranks import complaint, launch

pytestmark = pytest.mark.xdist_group("ranks")

WAIT = 2.0


def work(rank, count, folder):
    """Rank 1 answers once, then not at all; in a second group it ends in the midst."""
    stalled, dying = (dist.new_group(timeout=datetime.timedelta(seconds=WAIT)) for _ in range(2))
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
def answers(tmp_path_factory):
    return launch(2, work, tmp_path_factory.mktemp("ranks"), leave=True)


@pytest.mark.parametrize("case", ["stalled", "dead"])
def test_a_rank_that_does_not_answer(answers, case):
    assert answers[1] is None
    kind, said, seconds = answers[0][case]
    assert kind == "RuntimeError"
    assert "a rank of process_group did not answer: rank 0 of 2 waited" in said
    assert "the group's timeout of 2 s" in said
    assert seconds < WAIT + 10.0  # a busy machine may be late, but nothing hangs

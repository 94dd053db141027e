"""Processes that form a gloo process group, for tests: what every rank returned, in order."""

import datetime
import pickle
import time

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def launch(count, work, folder, then, *, seconds=300.0, timeout=60.0):
    """Run ``work(rank, count, folder)`` and then ``then`` on so many processes, and return the answers of both.

    A rank that ends without an answer has None. ``then`` may break the group: nobody waits for the others at the end.
    """
    if not (dist.is_available() and dist.is_gloo_available()):
        pytest.skip("this build of PyTorch has no gloo")
    context = mp.get_context("spawn")
    ranks = [
        context.Process(target=_rank, args=(rank, count, (work, then), folder, timeout), daemon=True)
        for rank in range(count)
    ]
    for process in ranks:
        process.start()
    end = time.monotonic() + seconds
    for process in ranks:
        process.join(max(0.1, end - time.monotonic()))
    hung = [rank for rank, process in enumerate(ranks) if process.is_alive()]
    for rank in hung:
        ranks[rank].kill()
    assert not hung, f"ranks {hung} still ran after {seconds} s"
    paths = [[folder / f"{stage}-{rank}" for rank in range(count)] for stage in range(2)]
    return [[pickle.loads(path.read_bytes()) if path.exists() else None for path in row] for row in paths]


def _rank(rank, count, stages, folder, timeout):
    import os

    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        init_method=f"file://{folder}/meet",
        rank=rank,
        world_size=count,
        timeout=datetime.timedelta(seconds=timeout),
    )
    for stage, work in enumerate(stages):
        answer = work(rank, count, folder)
        partial = folder / f"partial-{stage}-{rank}"
        partial.write_bytes(pickle.dumps(answer))
        partial.rename(folder / f"{stage}-{rank}")
    os._exit(0)  # a broken group cannot be taken down in an orderly way


def complaint(call):
    """Return the error a call raises, as (type, text)."""
    try:
        call()
    except Exception as error:
        return type(error).__name__, str(error)
    return "none", ""

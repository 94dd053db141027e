"""Processes that form a gloo process group, for tests: what every rank returned, in order."""

import datetime
import pickle
import time

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def launch(count, work, folder, *, seconds=300.0, timeout=60.0, leave=False):
    """Run ``work(rank, count, folder)`` on so many processes; a rank that ends without an answer has None.

    ``leave`` is for work after which the group may be broken: nobody waits for the others at the end.
    """
    if not (dist.is_available() and dist.is_gloo_available()):
        pytest.skip("this build of PyTorch has no gloo")
    context = mp.get_context("spawn")
    ranks = [
        context.Process(target=_rank, args=(rank, count, work, str(folder), timeout, leave), daemon=True)
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
    answers = []
    for rank in range(count):
        path = folder / f"answer{rank}"
        answers.append(pickle.loads(path.read_bytes()) if path.exists() else None)
    return answers


def _rank(rank, count, work, folder, timeout, leave):
    import os
    from pathlib import Path

    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        init_method=f"file://{folder}/meet",
        rank=rank,
        world_size=count,
        timeout=datetime.timedelta(seconds=timeout),
    )
    answer = work(rank, count, Path(folder))
    partial = Path(folder) / f"partial{rank}"
    partial.write_bytes(pickle.dumps(answer))
    partial.rename(Path(folder) / f"answer{rank}")
    if leave:
        os._exit(0)  # a broken group cannot be taken down in an orderly way
    dist.destroy_process_group()


def complaint(call):
    """The error a call raises, as (type, text)."""
    try:
        call()
    except Exception as error:
        return type(error).__name__, str(error)
    return "none", ""

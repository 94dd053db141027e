"""A sample is read where Dask ran when it was made: there, or not at all."""

import pickle
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
import pytest

pytest.importorskip("distributed", reason="needs the extra [dask]")

import dask
import dask.array as da
from dask.base import get_scheduler
from distributed import Client, get_worker

import certeq as ce
from certeq.risk.solvers import solve_table
from certeq.scale import ClusterLost, DaskSample, as_sample
from tests.blocks import dask_samples_in_blocks

LOSSES = np.random.default_rng(22).standard_normal(60_000)


@pytest.fixture(autouse=True)
def _no_other_scheduler():
    with dask.config.set(scheduler=None):
        yield


def start_client():
    """A cluster in this process, which takes a fraction of a second to start."""
    return Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=None)


@dataclass(frozen=True)
class OnWorker:
    """A kernel that returns for every block whether it was read on a worker."""

    wide = False

    def __call__(self, block):
        try:
            get_worker()
        except ValueError:
            return [False]
        return [True]

    def join(self, parts):
        return [one for part in parts for one in part]


def on_workers(sample):
    return sample.reduce(OnWorker())


class ClosingSample(DaskSample):
    """A client is closed before one of its passes."""

    client, left = None, 0

    def _close_in_time(self):
        if self.left == 0:
            self.client.close()
        self.left -= 1

    def reduce(self, *args, **options):
        self._close_in_time()
        return super().reduce(*args, **options)

    def draw(self, *args):
        self._close_in_time()
        return super().draw(*args)


@pytest.mark.parametrize("before", [0, 1, 2, 3])
def test_a_client_closed_between_two_passes_ends_it(before):
    """With no client left Dask would go on in this process."""
    client = start_client()
    address = client.scheduler.address
    sample = ClosingSample(da.from_array(LOSSES, chunks=20_000))
    sample.client, sample.left = client, before
    for _ in range(2):
        with pytest.raises(ClusterLost, match=f"at {address} was lost: its client is closed. Nothing was computed in"):
            solve_table(sample, ce.Quartic())
    assert client.status == "closed"
    assert get_scheduler() is None
    assert ce.oce(sample.values, ce.Quartic()) == pytest.approx(ce.oce(LOSSES, ce.Quartic()), rel=1e-12)


def test_a_client_closed_between_two_passes_does_not_hand_over_to_an_older_one():
    older, newer = start_client(), start_client()
    try:
        address = newer.scheduler.address
        panel = ce.LinearLoss(da.from_array(LOSSES.reshape(-1, 3), chunks=(5_000, 3)))
        ce.minimize(panel, ce.Entropic(), domain=ce.Simplex())
        sample = ClosingSample(da.from_array(LOSSES, chunks=20_000))
        sample.client, sample.left = newer, 2
        with pytest.raises(ClusterLost, match=f"at {address} was lost"):
            solve_table(sample, ce.Quartic())
        assert Client.current() is older
        with pytest.raises(ClusterLost, match=f"at {address} was lost.*Make a new LinearLoss"):
            ce.minimize(panel, ce.Entropic(), domain=ce.Simplex())
        assert all(on_workers(as_sample(sample.values)))
    finally:
        newer.close()
        older.close()


@pytest.mark.parametrize("context", [dask_samples_in_blocks, nullcontext])
def test_a_client_opened_after_a_sample_was_made_does_not_draw_it_away(context):
    with context():
        here = as_sample(da.from_array(LOSSES, chunks=20_000))
        with start_client():
            assert not any(on_workers(here))
            assert on_workers(as_sample(here.values)) == [True] * 3
            assert on_workers(pickle.loads(pickle.dumps(here))) == [True] * 3
        assert not any(on_workers(here))


def test_a_client_that_is_closed_when_the_sample_is_made_is_an_error_too():
    client = start_client()
    with client.as_current():
        client.close()
        with pytest.raises(ClusterLost, match="its client is closed"):
            ce.oce(da.from_array(LOSSES, chunks=20_000), ce.CVaR(0.05))


def test_sizes_of_chunks_are_counted_where_the_sample_runs():
    z = da.from_array(LOSSES, chunks=20_000)
    with start_client():
        sample = as_sample(z[z > 0])
        assert sample.size == np.count_nonzero(LOSSES > 0)
        assert all(on_workers(sample))

"""A real cluster of two worker processes: the same numbers, a killed worker, a cluster that goes away."""

import os
import signal
import threading
import time

import numpy as np
import pytest

pytest.importorskip("distributed", reason="needs the extra [dask]")

import dask
import dask.array as da
from distributed import Client, LocalCluster

import certeq as ce
from certeq.scale import ClusterLost
from tests.blocks import small_tables_in_blocks
from tests.problems import UTILITIES

RNG = np.random.default_rng(21)
LOSSES = RNG.standard_normal(60_000)
WEIGHTS = RNG.random(60_000)
TABLE = RNG.standard_t(5, size=(1200, 5))

pytestmark = pytest.mark.slow


def start_cluster():
    return LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None)


@pytest.fixture(scope="module")
def client():
    with start_cluster() as cluster:
        # Not entered: the client of a ``with`` is the current one of its thread whatever is opened after it.
        found = Client(cluster)
        yield found
        found.close()


@pytest.mark.parametrize("name", UTILITIES)
def test_two_processes_give_the_numbers_of_one(client, name):
    utility = UTILITIES[name]
    z, w = da.from_array(LOSSES, chunks=7_000), da.from_array(WEIGHTS, chunks=20_000)
    found, wanted = ce.estimate(z, utility, w), ce.estimate(LOSSES, utility, WEIGHTS)
    for fact in ("value", "threshold", "stderr", "bias", "ess"):
        assert getattr(found, fact) == pytest.approx(getattr(wanted, fact), rel=1e-12, abs=1e-12), fact
    np.testing.assert_allclose(found.tilt.compute(), wanted.tilt, rtol=1e-12, atol=1e-15)
    A, v = TABLE, WEIGHTS[: len(TABLE)]
    lazy = da.from_array(A, chunks=(200, 5))
    with small_tables_in_blocks(1 << 18):
        found = ce.minimize(ce.LinearLoss(lazy), utility, domain=ce.Simplex(), weights=v)
    known = ce.minimize(ce.LinearLoss(A), utility, domain=ce.Simplex(), weights=v)
    assert found.status == "converged"
    assert found.value == pytest.approx(known.value, rel=1e-9, abs=1e-9)


def test_stochastic_steps_of_two_processes(client):
    settings = {"domain": ce.Simplex(), "method": "sg", "batch": 30, "iterations": 4, "rng": 3}
    here, there = (
        ce.minimize(ce.LinearLoss(A), ce.CVaR(0.1), **settings).theta
        for A in (TABLE, da.from_array(TABLE, chunks=(200, 5)))
    )
    assert there == pytest.approx(here, abs=1e-12)


def test_errors_come_back_as_they_are(client):
    losses = LOSSES.copy()
    losses[50_001] = np.nan
    with pytest.raises(ValueError, match="NaN in partition 5 of 6 .*at its row 1"):
        ce.oce(da.from_array(losses, chunks=10_000), ce.Quartic())


def slowly(block, seconds):
    time.sleep(seconds)
    return block


@pytest.mark.parametrize("name", ["cvar", "quartic", "entropic_cvar"])
def test_a_worker_killed_in_the_middle_changes_nothing(name):
    utility = UTILITIES[name]
    wanted = ce.oce(LOSSES, utility, WEIGHTS)
    with start_cluster() as cluster, Client(cluster) as client:
        z = da.from_array(LOSSES, chunks=3_000).map_blocks(slowly, 0.1, dtype=float)
        before = set(client.run(os.getpid).values())
        killer = threading.Timer(1.0, os.kill, (min(before), signal.SIGKILL))
        killer.start()
        found = ce.oce(z, utility, da.from_array(WEIGHTS, chunks=3_000))
        killer.join()
        client.wait_for_workers(2, timeout=60)
        assert set(client.run(os.getpid).values()) != before  # somebody did die
    assert found == pytest.approx(wanted, rel=1e-12)


def minimize(z):
    table = z.reshape(-1, 5).rechunk((600, 5))
    with small_tables_in_blocks(1 << 18):
        return ce.minimize(ce.LinearLoss(table), ce.Quartic(), domain=ce.Simplex())


@pytest.mark.parametrize("after", [1.0, 2.5])
@pytest.mark.parametrize("call", [lambda z: ce.oce(z, ce.Quartic()), minimize], ids=["oce", "minimize"])
def test_a_lost_cluster_is_one_clear_error(call, after):
    """Whether it goes in the middle of a pass or between two: nothing goes on in other processes."""
    cluster = start_cluster()
    client = Client(cluster, timeout=5)
    z = da.from_array(LOSSES, chunks=3_000).map_blocks(slowly, 0.2, dtype=float)
    closer = threading.Timer(after, cluster.close)
    closer.start()
    try:
        with pytest.raises(ClusterLost, match=r"was lost.*Nothing was computed in part"):
            call(z)
    finally:
        closer.join()
        client.close(timeout=1)


def test_a_closed_client_is_named_with_its_address():
    with start_cluster() as cluster:
        client = Client(cluster)
        address = client.scheduler.address
        z = da.from_array(LOSSES, chunks=3_000).map_blocks(slowly, 0.2, dtype=float)
        closer = threading.Timer(1.5, client.close)
        closer.start()
        with pytest.raises(ClusterLost) as caught:
            ce.oce(z, ce.Quartic())
        closer.join()
    text = str(caught.value)
    assert f"The Dask cluster at {address} was lost: its client is closed" in text
    assert ".." not in text


def deadly(block):
    os.kill(os.getpid(), signal.SIGKILL)
    return block


def test_a_task_that_kills_its_workers_names_the_setting_that_counts():
    with start_cluster() as cluster, Client(cluster):
        z = da.from_array(LOSSES, chunks=30_000).map_blocks(deadly, dtype=float, meta=np.empty(0))
        with pytest.raises(ClusterLost, match="died 4 times.*Dask allows 3 .*allowed-failures") as caught:
            ce.oce(z, ce.CVaR(0.05))
    assert ".." not in str(caught.value)


def test_no_worker_left_is_one_clear_error():
    with start_cluster() as cluster, Client(cluster):
        z = da.from_array(LOSSES, chunks=3_000)
        cluster.scale(0)
        with pytest.raises(ClusterLost, match="no worker"):
            ce.oce(z, ce.Quartic())


def test_a_scheduler_asked_for_by_name_wins_over_the_client(client):
    with dask.config.set(scheduler="sync"):
        found = ce.oce(da.from_array(LOSSES, chunks=7_000), ce.CVaR(0.05))
    assert found == pytest.approx(ce.oce(LOSSES, ce.CVaR(0.05)), rel=1e-12)


def test_chunks_that_the_cluster_holds_already(client):
    x = np.random.default_rng(5).standard_normal(20_000)
    losses = da.from_array(x, chunks=3_000).persist()
    weights = da.from_array(np.abs(x), chunks=3_000).persist()
    for utility in (ce.Quartic(), ce.CVaR(0.05), ce.Entropic(1.0)):
        assert ce.oce(losses, utility) == pytest.approx(ce.oce(x, utility), rel=1e-12)
        wanted = ce.oce(x, utility, weights=np.abs(x))
        assert ce.oce(losses, utility, weights=weights) == pytest.approx(wanted, rel=1e-12)
    np.testing.assert_allclose(ce.tilt(losses, ce.CVaR(0.1)).compute(), ce.tilt(x, ce.CVaR(0.1)), rtol=1e-12)


def _estimate_in_a_task() -> float:
    return float(ce.oce(da.arange(1000.0, chunks=300), ce.CVaR(0.05)))


def test_estimates_inside_as_many_tasks_as_there_are_threads(client):
    tasks = [client.submit(_estimate_in_a_task, pure=False) for _ in range(4)]
    assert [task.result(timeout=60) for task in tasks] == [974.5] * 4

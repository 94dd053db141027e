"""Portfolios whose scenarios are a Dask array: the answer of the solver in memory, whatever the chunks."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

import certeq as ce
from certeq.optimize.exact import solve_exact
from tests.conftest import UTILITIES

da = pytest.importorskip("dask.array", reason="Dask is not installed")

N, D = 1200, 5
CHUNKS = {
    "one": (N, D),
    "rows": (250, D),
    "uneven, some empty": ((1, 0, 599, 0, 600), (D,)),
    "columns too": (500, 2),
}


@pytest.fixture(autouse=True)
def not_in_memory(monkeypatch):
    """Small panels would be read as a whole; here they stand for large ones."""
    monkeypatch.setattr("certeq.optimize.exact._panel._WHOLE", 0)


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(8)
    return rng.standard_t(5, size=(N, D)) * rng.uniform(0.5, 1.5, D) + rng.normal(0.0, 0.1, D)


@pytest.fixture(scope="module")
def weights():
    w = np.random.default_rng(9).uniform(0.0, 1.0, N)
    w[::5] = 0.0
    return w


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    import dask

    with dask.config.set(scheduler="synchronous"):
        yield


def agree(found, known):
    assert found.status == "converged"
    assert found.value == pytest.approx(known.value, rel=1e-9, abs=1e-9)
    assert found.value - found.gap <= known.value + 1e-13
    assert found.gap <= 1e-9 * max(abs(found.value), 0.1)


@pytest.mark.filterwarnings("ignore::certeq.UnitWarning")
def test_every_utility(utility, table, weights):
    lazy = da.from_array(table, chunks=CHUNKS["uneven, some empty"])
    agree(
        ce.minimize(ce.LinearLoss(lazy), utility, domain=ce.Simplex(), weights=weights),
        ce.minimize(ce.LinearLoss(table), utility, domain=ce.Simplex(), weights=weights),
    )


@pytest.mark.parametrize("chunks", CHUNKS.values(), ids=CHUNKS)
@pytest.mark.parametrize("name", ["entropic", "mmv2", "cvar.3", "entropic_cvar"])
def test_whatever_the_chunks(name, chunks, table):
    agree(
        ce.minimize(ce.LinearLoss(da.from_array(table, chunks=chunks)), UTILITIES[name], domain=ce.Simplex()),
        ce.minimize(ce.LinearLoss(table), UTILITIES[name], domain=ce.Simplex()),
    )


def test_weights_may_be_a_dask_vector_of_other_chunks(table, weights):
    lazy = da.from_array(table, chunks=(333, D))
    found = ce.minimize(
        ce.LinearLoss(lazy), ce.CVaR(0.2), domain=ce.Simplex(), weights=da.from_array(weights, chunks=100)
    )
    agree(found, ce.minimize(ce.LinearLoss(table), ce.CVaR(0.2), domain=ce.Simplex(), weights=weights))


def test_unknown_chunk_sizes_are_counted(table):
    lazy = da.from_array(table, chunks=(300, D))
    some = lazy[lazy[:, 0] > -1.0]
    found = ce.minimize(ce.LinearLoss(some), ce.CVaR(0.2), domain=ce.Simplex())
    agree(found, ce.minimize(ce.LinearLoss(table[table[:, 0] > -1.0]), ce.CVaR(0.2), domain=ce.Simplex()))
    assert np.isnan(some.shape[0])  # the caller's own is left alone


def test_a_data_frame(table):
    pd = pytest.importorskip("pandas")
    dd = pytest.importorskip("dask.dataframe")
    frame = dd.from_pandas(pd.DataFrame(table, columns=list("abcde")), npartitions=3)
    found = ce.minimize(ce.LinearLoss(frame), ce.Entropic(0.5), domain=ce.Simplex())
    agree(found, ce.minimize(ce.LinearLoss(table), ce.Entropic(0.5), domain=ce.Simplex()))


@pytest.mark.parametrize("batch", ["full", 40])
@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
def test_sg_takes_the_steps_it_takes_in_memory(batch, weighted, table, weights):
    """As long as many samples carry the risk: samples in blocks are drawn evenly where few do, arrays are not."""
    runs = [
        ce.minimize(
            ce.LinearLoss(A),
            ce.CVaR(0.1 if batch == "full" else 0.4),
            domain=ce.Simplex(),
            method="sg",
            batch=batch,
            iterations=4,
            log_every=2,
            rng=3,
            weights=weights if weighted else None,
        )
        for A in (da.from_array(table, chunks=(500, 2)), table)
    ]
    assert runs[0].theta == pytest.approx(runs[1].theta, abs=1e-12)
    assert runs[0].value == pytest.approx(runs[1].value, rel=1e-12)
    assert runs[0].gap == pytest.approx(runs[1].gap, rel=1e-9, abs=1e-12)


def test_sg_takes_weights_that_are_a_dask_vector(table, weights):
    options = {"method": "sg", "batch": 64, "iterations": 20, "rng": 1, "domain": ce.Simplex()}
    lazy = ce.LinearLoss(da.from_array(table, chunks=(300, -1)))
    found = ce.minimize(lazy, ce.CVaR(0.4), weights=da.from_array(weights, chunks=700), **options)
    known = ce.minimize(ce.LinearLoss(table), ce.CVaR(0.4), weights=weights, **options)
    np.testing.assert_allclose(found.theta, known.theta, rtol=0, atol=1e-13)


@pytest.mark.parametrize("name", ["cvar", "cvar.3", "mean_cvar", "entropic_cvar"])
def test_a_solution_that_holds_nothing_is_proved_too(name):
    """At theta = 0 every loss is 0, and all scenarios lie on the kink."""
    A = np.random.default_rng(3).standard_t(4, size=(3000, 4))
    found = ce.minimize(ce.LinearLoss(da.from_array(A, chunks=(1000, 4))), UTILITIES[name], domain=ce.L1Ball(1.0))
    assert found.status == "converged"
    assert found.gap < 1e-9
    assert found.theta == pytest.approx(np.zeros(4), abs=1e-9)


@pytest.mark.parametrize("utility", [ce.Entropic(100.0), ce.SmoothCVaR(0.05, 5e-4)])
def test_steep_utilities_that_a_draw_knows_too_little_of(utility):
    """The worst few scenarios decide; the draw holds a quarter of them."""
    A = 100.0 * np.random.default_rng(2).standard_t(4, size=(20_000, 5))
    found = ce.minimize(ce.LinearLoss(da.from_array(A, chunks=(5_000, 5))), utility, domain=ce.Simplex())
    known = ce.minimize(ce.LinearLoss(A), utility, domain=ce.Simplex())
    assert found.status == "converged"
    assert found.value == pytest.approx(known.value, rel=1e-9)
    assert found.value == pytest.approx(ce.oce(A @ found.theta, utility), rel=1e-12)


def test_only_summaries_and_few_rows_come_back(monkeypatch):
    """What the client is given in all passes is a small part of the panel."""
    import pickle

    from certeq.scale._compute import Scheduler

    rng = np.random.default_rng(4)
    table = rng.normal(size=(40_000, 4))
    sizes = []
    plain = Scheduler.run

    def counted(scheduler, *task):
        found = plain(scheduler, *task)
        sizes.append(len(pickle.dumps(found)))
        return found

    monkeypatch.setattr(Scheduler, "run", counted)
    for utility, part in ((ce.Entropic(1.0), 0.3), (ce.CVaR(0.05), 0.6)):
        sizes.clear()
        found = ce.minimize(ce.LinearLoss(da.from_array(table, chunks=(8000, 4))), utility, domain=ce.Simplex())
        assert found.status == "converged"
        assert 0 < sum(sizes) < part * table.nbytes


@pytest.mark.parametrize(
    "deliver",
    [lambda part: part[:, :3], lambda part: part[1:], lambda part: part + 0j],
    ids=["thin", "short", "complex"],
)
def test_chunks_that_are_not_what_they_say_are_refused(deliver, table):
    rows = da.from_array(table, chunks=(100, -1))
    other = da.map_blocks(deliver, rows, dtype=float, chunks=rows.chunks, meta=np.empty((0, 0)))
    with pytest.raises(TypeError, match="as its Dask array declares; found"):
        ce.minimize(ce.LinearLoss(other), ce.CVaR(0.1), domain=ce.Simplex(table.shape[1]))


def test_refusals(table, weights):
    lazy = da.from_array(table, chunks=(300, D))
    broken = table.copy()
    broken[1000, 3] = np.nan
    with pytest.raises(ValueError, match=r"found nan at scenario 1000 \(row 100 of chunk 3\), asset 3"):
        ce.minimize(ce.LinearLoss(da.from_array(broken, chunks=(300, D))), ce.CVaR(0.2), domain=ce.Simplex())
    with pytest.raises(ValueError, match=r"found nan at scenario 1000 \(row 100 of chunk 3\), asset 3"):
        ce.minimize(
            ce.LinearLoss(da.from_array(broken, chunks=(300, D))), ce.CVaR(0.2), domain=ce.Simplex(), method="sg"
        )
    with pytest.raises(ValueError, match="weights must have one entry per sample, 1200; found 7"):
        ce.minimize(ce.LinearLoss(lazy), ce.CVaR(0.2), domain=ce.Simplex(), weights=np.ones(7))
    with pytest.raises(ValueError, match="weights must be non-negative"):
        ce.minimize(ce.LinearLoss(lazy), ce.CVaR(0.2), domain=ce.Simplex(), weights=weights - 0.5)
    with pytest.raises(ValueError, match="must be a matrix"):
        ce.LinearLoss(lazy[:, 0])
    with pytest.raises(TypeError, match="real numbers"):
        ce.LinearLoss(lazy.astype(complex))
    with pytest.raises(ValueError, match="empty"):
        ce.LinearLoss(lazy[:0])
    with pytest.raises(TypeError, match="never held as a whole"):
        ce.LinearLoss(lazy).losses(np.ones(D) / D)
    with pytest.raises(TypeError, match="minimize"):
        solve_exact(lazy, ce.CVaR(0.2), lower=0.0, C=np.ones(D), c=1.0)


@pytest.mark.slow
def test_a_cluster_of_two_processes(table, weights):
    distributed = pytest.importorskip("distributed")
    import dask

    lazy = da.from_array(table, chunks=(200, D))
    with (
        dask.config.set({"scheduler": None}),
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        distributed.Client(cluster),
    ):
        for name, utility in UTILITIES.items():
            found = ce.minimize(ce.LinearLoss(lazy), utility, domain=ce.Simplex(), weights=weights)
            known = ce.minimize(ce.LinearLoss(table), utility, domain=ce.Simplex(), weights=weights)
            assert found.value == pytest.approx(known.value, rel=1e-9, abs=1e-9), name
            assert found.status == "converged", name
        sg = [
            ce.minimize(
                ce.LinearLoss(A), ce.CVaR(0.1), domain=ce.Simplex(), method="sg", batch=30, iterations=4, rng=3
            ).theta
            for A in (lazy, table)
        ]
        assert sg[0] == pytest.approx(sg[1], abs=1e-12)


def slowly(block):
    time.sleep(0.05)
    return block


@pytest.mark.slow
@pytest.mark.parametrize("after", [1.0, 2.5])
def test_a_lost_cluster_is_one_clear_error(table, after):
    """Whether it goes in the middle of a pass or between two: nothing goes on in other processes."""
    distributed = pytest.importorskip("distributed")
    import dask

    from certeq.scale import ClusterLost

    lazy = da.from_array(table, chunks=(100, D)).map_blocks(slowly, dtype=float)
    with dask.config.set({"scheduler": None}):
        cluster = distributed.LocalCluster(n_workers=1, threads_per_worker=1, processes=True, dashboard_address=None)
        client = distributed.Client(cluster, timeout=5)
        closer = threading.Timer(after, cluster.close)
        closer.start()
        try:
            with pytest.raises(ClusterLost, match=r"was lost.*Nothing was computed in part"):
                ce.minimize(ce.LinearLoss(lazy), ce.Quartic(), domain=ce.Simplex())
        finally:
            closer.join()
            client.close(timeout=1)

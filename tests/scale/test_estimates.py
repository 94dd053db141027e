"""Dask losses: few reads, few numbers that travel, hard samples, and the kinds of collections."""

import pickle

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("dask.array", reason="needs the extra [dask]")
pytest.importorskip("dask.dataframe", reason="needs the extra [dask]")

import dask
import dask.array as da
import dask.dataframe as dd
from dask.local import get_sync

import certeq as ce
from certeq.risk.solvers import solve_table
from certeq.scale import as_sample
from tests.blocks import dask_samples_in_blocks, small_tables_in_blocks
from tests.problems import HARD, UTILITIES, hostile_samples

RNG = np.random.default_rng(11)
N = 20_000
LOSSES = RNG.standard_t(5, size=N) * 0.8 + 0.1
WEIGHTS = RNG.random(N) * (RNG.random(N) > 0.2)
U = ce.CVaR(0.05)


def close(found, wanted):
    assert found == pytest.approx(wanted, rel=1e-12, abs=1e-12)


@pytest.fixture(autouse=True)
def _one_thread():
    with dask.config.set(scheduler="sync"):
        yield


@pytest.fixture(params=["in_chunks", "kept"])
def kept(request):
    """Yield whether a sample this short is read once and kept; how longer ones are read is tested on it too."""
    if request.param == "kept":
        yield True
    else:
        with dask_samples_in_blocks():
            yield False


def test_long_samples_draw_the_same_places_as_in_memory():
    losses = np.random.default_rng(1).standard_normal(300_001)
    weights = np.random.default_rng(2).random(300_001)
    z, w = da.from_array(losses, chunks=70_000), da.from_array(weights, chunks=100_000)
    with dask_samples_in_blocks():
        for utility in (U, UTILITIES["entropic_cvar"]):  # the bias uses a density from the draw
            found, wanted = ce.estimate(z, utility, w), ce.estimate(losses, utility, weights)
            close([found.value, found.bias, found.ess], [wanted.value, wanted.bias, wanted.ess])
            assert found.warnings == wanted.warnings
            assert found.tilt.chunks == z.chunks


HOSTILE = ["normal", "coin", "sorted", "integers", "far_from_0", "half_an_atom", "clusters", "pareto"]
NAMES = ["cvar", "cvar.3", "mean_cvar", "entropic_cvar", "two_kinks", "quartic", "leaky", "sharp"]


@pytest.mark.parametrize("sample", HOSTILE)
def test_hard_samples(sample):
    """Ties fill every window, the tail lies in one chunk, losses are far from 0."""
    x = hostile_samples(50_000)[sample]
    weights = np.random.default_rng(10).integers(0, 4, size=x.size).astype(float)
    with dask_samples_in_blocks():
        for name in UTILITIES if sample == "normal" else NAMES:
            utility = (UTILITIES | HARD)[name]
            for w in (None, weights):
                lazy = as_sample(da.from_array(x, chunks=15_000), w)
                lazy.keep = 1_000  # so that a window is soon too crowded to be listed
                found = solve_table(lazy, utility)
                p = np.full(len(x), 1 / len(x)) if w is None else w / w.sum()
                near = 1e-12 * (1.0 + np.ptp(x) + np.abs(x).max())
                short = np.unique(x) if len(np.unique(x)) < 100 else x  # read as a whole
                masses = p if short is x else np.bincount(np.searchsorted(short, x), p)
                assert abs(found.value - ce.oce(short, utility, masses)) <= near, name
                assert lazy.passes <= 8, name


def test_ubsr(kept):
    z, w = da.from_array(LOSSES, chunks=3_000), da.from_array(WEIGHTS, chunks=3_000)
    for loss, level in ((np.exp, 1.0), (ce.Quartic(), 0.3), (lambda x: (x > 0).astype(float), 0.1)):
        close(ce.ubsr(z, loss, level), ce.ubsr(LOSSES, loss, level))
        close(ce.ubsr(z, loss, level, weights=w), ce.ubsr(LOSSES, loss, level, weights=WEIGHTS))


@pytest.mark.parametrize("chunks", [(700, 8), (1_000, 3)], ids=["rows", "rows and columns"])
def test_several_dimensions_are_reduced_as_a_whole(chunks):
    table, table_weights = LOSSES.reshape(-1, 8), WEIGHTS.reshape(-1, 8)
    x, w = da.from_array(table, chunks=chunks), da.from_array(table_weights, chunks=chunks)
    for weights, same in ((None, None), (w, WEIGHTS), (table_weights, WEIGHTS), (WEIGHTS, WEIGHTS)):
        close(ce.oce(x, U, weights), ce.oce(LOSSES, U, same))
        close(ce.threshold(x, U, weights), ce.threshold(LOSSES, U, same))
        found = ce.tilt(x, U, weights)
        assert found.shape == table.shape
        np.testing.assert_allclose(found.compute(), ce.tilt(LOSSES, U, same).reshape(-1, 8), rtol=1e-9, atol=1e-15)
    close(ce.oce(table, U, w), ce.oce(LOSSES, U, WEIGHTS))
    close(ce.ubsr(x, np.exp, 1.0), ce.ubsr(LOSSES, np.exp, 1.0))


def test_kinds_of_columns_and_chunks(kept):
    table = pd.DataFrame({"loss": LOSSES, "weight": WEIGHTS, "count": np.arange(N) % 7, "name": "a"})
    frame = dd.from_pandas(table, npartitions=5)
    close(ce.oce(frame["loss"], ce.Quartic(), frame["weight"]), ce.oce(LOSSES, ce.Quartic(), WEIGHTS))
    close(ce.oce(frame["count"], U), ce.oce(table["count"], U))
    close(ce.oce(frame["count"].astype("Int64"), U), ce.oce(table["count"], U))
    few = frame[frame["loss"] > 3.0]["loss"]  # some partitions may hold nothing
    close(ce.oce(few, ce.Entropic(0.5)), ce.oce(LOSSES[LOSSES > 3.0], ce.Entropic(0.5)))
    close(ce.threshold(LOSSES, U, frame["weight"]), ce.threshold(LOSSES, U, WEIGHTS))
    z = da.from_array(LOSSES, chunks=4_000)
    positive = z[z > 0]
    close(ce.oce(positive, U), ce.oce(LOSSES[LOSSES > 0], U))
    assert np.isnan(positive.shape[0])  # the sizes of the chunks are counted, and the array is left alone
    boxed = da.map_blocks(lambda part: part.astype(object), z, meta=np.empty(0))
    close(ce.oce(boxed, U), ce.oce(LOSSES, U))
    for dtype in (np.int16, np.float32, bool):
        losses = (LOSSES * 100).astype(dtype)
        close(ce.oce(da.from_array(losses, chunks=7_000), ce.LeakyCVaR(0.1)), ce.oce(losses, ce.LeakyCVaR(0.1)))
    masked = da.ma.masked_greater(z, 1.0)
    found = ce.oce(da.ma.filled(masked, 0), U, weights=~da.ma.getmaskarray(masked))
    close(found, ce.oce(LOSSES[LOSSES <= 1.0], U))


def counted(block, seen):
    seen.append(len(block))
    return block


def test_short_samples_are_read_once_and_long_ones_once_a_pass(kept):
    seen = []
    z = da.from_array(LOSSES, chunks=5_000).map_blocks(counted, seen, dtype=float, meta=np.empty(0))
    sample = as_sample(z)
    solved = solve_table(sample, ce.Quartic())
    close(solved.value, ce.oce(LOSSES, ce.Quartic()))
    assert len(seen) == 4 * sample.passes
    assert sample.passes == (1 if kept else 1 + solved.passes)
    seen.clear()
    part = da.from_array(LOSSES, chunks=1_000).map_blocks(counted, seen, dtype=float, meta=np.empty(0))[:2_000]
    close(ce.oce(part, ce.Mean()), ce.oce(LOSSES[:2_000], ce.Mean()))
    assert set(seen) == {1_000}
    assert len(seen) <= 2 * 2  # two chunks, of the draw and of the sums


def test_only_summaries_and_few_rows_travel():
    """The results of all tasks are a small part of the data, of losses and of a table of scenarios."""
    sizes = []

    def elsewhere(graph, keys, **options):
        found = get_sync(graph, keys, **options)
        sizes.append(len(pickle.dumps(found)))
        return found

    x = np.random.default_rng(4).normal(size=(40_000, 4))
    with dask.config.set(scheduler=elsewhere), small_tables_in_blocks(1 << 18):
        for utility, part in ((ce.Entropic(1.0), 0.3), (ce.CVaR(0.05), 0.6)):
            sizes.clear()
            found = ce.minimize(ce.LinearLoss(da.from_array(x, chunks=(8000, 4))), utility, domain=ce.Simplex())
            assert found.status == "converged"
            assert 0 < sum(sizes) < part * x.nbytes
        sizes.clear()
        x = np.random.default_rng(4).normal(size=300_000)
        close(ce.oce(da.from_array(x, chunks=60_000), ce.Quartic()), ce.oce(x, ce.Quartic()))
        assert 0 < sum(sizes) < 0.5 * x.nbytes

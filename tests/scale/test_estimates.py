"""Dask losses: the numbers of the same losses in memory, whatever the chunks."""

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("dask.array", reason="needs the extra [dask]")
pytest.importorskip("dask.dataframe", reason="needs the extra [dask]")

import dask
import dask.array as da
import dask.dataframe as dd

import certeq as ce
from certeq._table import ArrayTable
from certeq.risk._long import solve_long
from certeq.risk._rows import solve_rows
from certeq.scale import DaskSample, as_sample
from tests.conftest import UTILITIES

RNG = np.random.default_rng(11)
N = 20_000
LOSSES = RNG.standard_t(5, size=N) * 0.8 + 0.1
WEIGHTS = RNG.random(N) * (RNG.random(N) > 0.2)
CHUNKINGS = [N, 3_000, (0, 1, 9_999, 0, N - 10_000, 0)]


def close(found, wanted):
    assert found == pytest.approx(wanted, rel=1e-12, abs=1e-12)


@pytest.fixture(autouse=True, params=[0, DaskSample.near], ids=["in_chunks", "kept"])
def near(request, monkeypatch):
    """A sample this short is read once and kept; how longer ones are read is tested on it too."""
    monkeypatch.setattr(DaskSample, "near", request.param)
    with dask.config.set(scheduler="sync"):
        yield request.param


@pytest.mark.parametrize("chunks", CHUNKINGS, ids=["one", "even", "uneven_and_empty"])
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["equal", "weighted"])
def test_oce_and_threshold_are_those_in_memory(utility, chunks, weights):
    z = da.from_array(LOSSES, chunks=(chunks,))
    w = None if weights is None else da.from_array(weights, chunks=4_567)
    close(ce.oce(z, utility, w), ce.oce(LOSSES, utility, weights))
    close(ce.threshold(z, utility, w), ce.threshold(LOSSES, utility, weights))


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["equal", "weighted"])
def test_estimates_and_tilts_are_those_in_memory(utility, weights):
    z = da.from_array(LOSSES, chunks=6_000)
    found, wanted = ce.estimate(z, utility, weights), ce.estimate(LOSSES, utility, weights)
    for name in ("value", "threshold", "stderr", "bias", "ess", "n"):
        close(getattr(found, name), getattr(wanted, name))
    assert found.warnings == wanted.warnings
    tilt = found.tilt
    assert isinstance(tilt, da.Array)
    assert tilt.chunks == z.chunks
    np.testing.assert_allclose(tilt.compute(), wanted.tilt, rtol=1e-12, atol=1e-15)


def test_long_samples_draw_the_same_places_as_in_memory():
    losses = np.random.default_rng(1).standard_normal(300_001)
    weights = np.random.default_rng(2).random(300_001)
    z, w = da.from_array(losses, chunks=70_000), da.from_array(weights, chunks=100_000)
    for utility in (ce.CVaR(0.05), UTILITIES["entropic_cvar"]):  # the bias uses a density from the draw
        found, wanted = ce.estimate(z, utility, w), ce.estimate(losses, utility, weights)
        close([found.value, found.bias, found.ess], [wanted.value, wanted.bias, wanted.ess])


@pytest.mark.parametrize("weighted", [False, True])
def test_at_most_eight_passes_over_the_data(utility, weighted):
    losses = np.random.default_rng(3).standard_normal(200_000)
    weights = np.random.default_rng(4).random(200_000)
    sample = as_sample(da.from_array(losses, chunks=50_000), weights if weighted else None)
    solve_long(sample, utility)
    assert sample.passes <= 8
    assert solve_long(ArrayTable(losses, weights if weighted else None), utility).passes <= 8


@pytest.mark.parametrize(
    "losses",
    [
        np.repeat([1.0, 2.0, 7.0], [60_000, 30_000, 10_000]),  # ties fill every window
        np.sort(np.random.default_rng(5).standard_normal(100_000)),  # all of the tail in one chunk
        np.random.default_rng(6).integers(0, 30, size=100_000),
        1e9 + np.random.default_rng(7).standard_normal(100_000),
        np.where(np.random.default_rng(8).random(100_000) < 0.7, 0.0, np.random.default_rng(9).lognormal(size=100_000)),
    ],
    ids=["ties", "sorted", "integers", "far_from_0", "half_atom"],
)
@pytest.mark.parametrize("name", ["cvar", "cvar.3", "mean_cvar", "entropic_cvar", "two_kinks", "quartic", "leaky"])
@pytest.mark.parametrize("weighted", [False, True])
def test_hard_samples(losses, name, weighted):
    utility = UTILITIES[name]
    weights = np.random.default_rng(10).integers(0, 4, size=losses.size) if weighted else None
    sample = as_sample(da.from_array(losses, chunks=30_000), weights)
    sample.keep = 1_000  # so that a window is soon too crowded to be listed
    solved = solve_long(sample, utility)
    rows = losses[None, :].astype(float)
    share = None if weights is None else (weights / weights.sum())[None, :]
    wanted = solve_rows(rows, share, utility)
    close(solved.value, float(wanted.value[0]))
    assert solved.threshold == pytest.approx(float(wanted.threshold[0]), rel=1e-12, abs=1e-11)
    assert sample.passes <= 8


def test_weights_of_any_size():
    z = da.from_array(LOSSES, chunks=5_000)
    for factor in (1e-200, 1e200):
        found = ce.estimate(z, ce.CVaR(0.1), da.from_array(WEIGHTS * factor, chunks=5_000))
        wanted = ce.estimate(LOSSES, ce.CVaR(0.1), WEIGHTS)
        close([found.value, found.stderr, found.ess], [wanted.value, wanted.stderr, wanted.ess])


def test_ubsr_and_bisection():
    z, w = da.from_array(LOSSES, chunks=3_000), da.from_array(WEIGHTS, chunks=3_000)
    for loss, level in ((np.exp, 1.0), (ce.Quartic(), 0.3), (lambda x: (x > 0).astype(float), 0.1)):
        close(ce.ubsr(z, loss, level), ce.ubsr(LOSSES, loss, level))
        close(ce.ubsr(z, loss, level, weights=w), ce.ubsr(LOSSES, loss, level, weights=WEIGHTS))
    found = ce.oce(z, ce.Quartic(), w, method="bisect")
    assert found == pytest.approx(ce.oce(LOSSES, ce.Quartic(), WEIGHTS), abs=1e-9)


@pytest.mark.parametrize("chunks", [(700, 8), (1_000, 3)], ids=["rows", "rows and columns"])
def test_several_dimensions_are_reduced_as_a_whole(chunks):
    table, table_weights = LOSSES.reshape(-1, 8), WEIGHTS.reshape(-1, 8)
    x, w = da.from_array(table, chunks=chunks), da.from_array(table_weights, chunks=chunks)
    u = ce.CVaR(0.05)
    for weights, same in ((None, None), (w, WEIGHTS), (table_weights, WEIGHTS), (WEIGHTS, WEIGHTS)):
        close(ce.oce(x, u, weights), ce.oce(LOSSES, u, same))
        close(ce.threshold(x, u, weights), ce.threshold(LOSSES, u, same))
        found = ce.tilt(x, u, weights)
        assert found.shape == table.shape
        np.testing.assert_allclose(found.compute(), ce.tilt(LOSSES, u, same).reshape(-1, 8), rtol=1e-9, atol=1e-15)
    close(ce.oce(table, u, w), ce.oce(LOSSES, u, WEIGHTS))
    close(ce.ubsr(x, np.exp, 1.0), ce.ubsr(LOSSES, np.exp, 1.0))


def test_a_column_of_a_dataframe():
    table = pd.DataFrame({"loss": LOSSES, "weight": WEIGHTS, "count": np.arange(N) % 7, "name": "a"})
    frame = dd.from_pandas(table, npartitions=5)
    close(ce.oce(frame["loss"], ce.CVaR(0.05)), ce.oce(LOSSES, ce.CVaR(0.05)))
    close(ce.oce(frame["loss"], ce.Quartic(), frame["weight"]), ce.oce(LOSSES, ce.Quartic(), WEIGHTS))
    close(ce.oce(frame["count"], ce.CVaR(0.1)), ce.oce(table["count"], ce.CVaR(0.1)))
    close(ce.oce(frame["count"].astype("Int64"), ce.CVaR(0.1)), ce.oce(table["count"], ce.CVaR(0.1)))
    empty = frame[frame["loss"] > 3.0]["loss"]  # some partitions may hold nothing
    close(ce.oce(empty, ce.Entropic(0.5)), ce.oce(LOSSES[LOSSES > 3.0], ce.Entropic(0.5)))
    close(ce.threshold(LOSSES, ce.CVaR(0.05), frame["weight"]), ce.threshold(LOSSES, ce.CVaR(0.05), WEIGHTS))


def test_unknown_chunk_sizes_are_counted_and_the_array_is_left_alone():
    z = da.from_array(LOSSES, chunks=4_000)
    positive = z[z > 0]
    close(ce.oce(positive, ce.CVaR(0.05)), ce.oce(LOSSES[LOSSES > 0], ce.CVaR(0.05)))
    assert np.isnan(positive.shape[0])


def test_a_bad_loss_of_small_files_is_named_by_the_caller_s_partition(tmp_path):
    pytest.importorskip("pyarrow", reason="needs the extra [dask]")
    for i in range(8):
        table = pd.DataFrame(RNG.normal(size=(100, 20)), columns=[f"c{j}" for j in range(20)])
        if i == 6:
            table.loc[5, "c3"] = np.nan
        table.to_parquet(tmp_path / f"{i}.parquet")
    read = dd.read_parquet(tmp_path)
    with pytest.raises(ValueError, match="NaN in partition 6 of 8 .*, at its row 5;"):
        ce.oce(read["c3"], ce.CVaR(0.05))
    with pytest.raises(ValueError, match=r"scenario 605 \(row 5 of chunk 6\), asset 0"):
        ce.minimize(ce.LinearLoss(read[["c3", "c4"]]), ce.CVaR(0.1), domain=ce.Simplex())


def test_integers_and_single_precision_are_computed_in_double():
    for dtype in (np.int16, np.float32, bool):
        losses = (LOSSES * 100).astype(dtype)
        close(ce.oce(da.from_array(losses, chunks=7_000), ce.LeakyCVaR(0.1)), ce.oce(losses, ce.LeakyCVaR(0.1)))


@pytest.mark.parametrize(("bad", "says"), [(np.nan, "NaN"), (np.inf, r"\+inf"), (-np.inf, "-inf")])
@pytest.mark.parametrize("name", ["cvar", "mean", "quartic", "entropic_cvar", "mean_variance"])
def test_a_bad_loss_is_named_by_partition_and_row(bad, says, name):
    losses = LOSSES.copy()
    losses[17_005] = bad
    z = da.from_array(losses, chunks=2_000)
    for function in (ce.oce, ce.estimate, ce.tilt):
        with pytest.raises(ValueError, match=f"holds {says} in partition 8 of 10 .*at its row 1005"):
            function(z, UTILITIES[name])
    with pytest.raises(ValueError, match="partition 8"):
        ce.ubsr(z, np.exp, 1.0)


@pytest.mark.parametrize(
    ("bad", "says"),
    [(np.nan, "finite; found NaN"), (np.inf, r"finite; found \+inf"), (-2.0, "not be negative; found -2")],
)
@pytest.mark.parametrize("name", ["cvar", "entropic", "quartic", "entropic_cvar", "mean_variance"])
def test_a_bad_weight_is_named_by_partition_and_row(bad, says, name):
    weights = WEIGHTS.copy()
    weights[17_005] = bad
    z, w = da.from_array(LOSSES, chunks=2_000), da.from_array(weights, chunks=5_000)
    for function in (ce.oce, ce.estimate, ce.tilt):
        with pytest.raises(ValueError, match=f"weights must .*{says} in partition 8 of 10 .*at its row 1005"):
            function(z, UTILITIES[name], w)


def test_the_advice_on_masked_losses_works():
    z = da.from_array(LOSSES, chunks=4_000)
    x = da.ma.masked_greater(z, 1.0)
    with pytest.raises(TypeError, match=r"masked.*ma.filled\(x, 0\) with weights=~dask.array.ma.getmaskarray\(x\)"):
        ce.oce(x, ce.CVaR(0.1))
    found = ce.oce(da.ma.filled(x, 0), ce.CVaR(0.1), weights=~da.ma.getmaskarray(x))
    close(found, ce.oce(LOSSES[LOSSES <= 1.0], ce.CVaR(0.1)))
    with pytest.raises(TypeError, match=r"weights is a masked Dask array.*ma.filled\(weights, 0\)"):
        ce.oce(z, ce.CVaR(0.1), weights=x)


def test_minus_infinity_is_refused_under_entropic_as_in_memory():
    losses = LOSSES.copy()
    losses[5] = -np.inf
    for x in (da.from_array(losses, chunks=2_000), da.full(10, -np.inf, chunks=3)):
        with pytest.raises(ValueError, match="-inf in partition 0"):
            ce.oce(x, ce.Entropic(0.5))


def test_refusals_say_what_would_be_right():
    z = da.from_array(LOSSES, chunks=4_000)
    u = ce.CVaR(0.05)
    table = dd.from_pandas(pd.DataFrame({"loss": LOSSES, "name": "a"}), npartitions=2)
    cases = [
        (lambda: ce.oce(da.ones((4, 3)), u, axis=0), ValueError, r"one-dimensional.*x\[:, j\]"),
        (lambda: ce.estimate(da.ones((4, 3)), u), ValueError, r"one-dimensional.*x\[:, j\].*x.ravel\(\)"),
        (
            lambda: ce.oce(da.ones((4, 3)), u, weights=da.ones((3, 4))),
            ValueError,
            r"shape of x, \(4, 3\).*found \(3, 4\)",
        ),
        (lambda: ce.oce(z, u, axis=1), ValueError, "axis must be None, 0 or -1"),
        (lambda: ce.oce(z[:0], u), ValueError, "x is empty"),
        (lambda: ce.oce(table, u), TypeError, "found a Dask DataFrame. Pick one.*'loss', 'name'"),
        (lambda: ce.oce(table["name"], u), TypeError, "must hold numbers"),
        (lambda: ce.oce(z.astype(object), u), TypeError, "must hold numbers; found dtype object"),
        (lambda: ce.oce(z + 1j, u), TypeError, "must be real"),
        (lambda: ce.oce(table["loss"].sum(), u), TypeError, "must be a Dask array or a column|must be a column"),
        (lambda: ce.oce(z, u, weights=da.ones(N - 1)), ValueError, "one weight per sample"),
        (lambda: ce.oce(z, u, weights=-da.ones(N)), ValueError, "must not be negative"),
        (lambda: ce.oce(z, u, weights=da.zeros(N, chunks=100)), ValueError, "sum to 0"),
        (lambda: ce.oce(z, u, weights=da.full(N, np.nan)), ValueError, "must be finite"),
        (lambda: ce.oce(da.ma.masked_greater(z, 1.0), u), TypeError, "masked"),
        (lambda: ce.oce(z, "cvar"), TypeError, "utility must be a Utility"),
        (lambda: ce.estimate(z, u).interval(0.9, "bootstrap"), TypeError, "resamples the losses in memory"),
    ]
    for call, kind, says in cases:
        with pytest.raises(kind, match=says):
            call()


def counted(block, seen):
    seen.append(len(block))
    return block


def test_short_samples_are_read_once_and_long_ones_once_a_pass(near):
    seen = []
    z = da.from_array(LOSSES, chunks=5_000).map_blocks(counted, seen, dtype=float, meta=np.empty(0))
    sample = as_sample(z)
    solved = solve_long(sample, ce.Quartic())
    close(solved.value, ce.oce(LOSSES, ce.Quartic()))
    assert len(seen) == 4 * sample.passes
    assert sample.passes == (1 if near else 1 + solved.passes)


def test_a_short_sample_of_other_processes_is_not_fetched(near):
    with dask.config.set(scheduler="processes"):
        sample = as_sample(da.from_array(LOSSES, chunks=10_000))
    assert not sample.scheduler.here
    assert sample._in_memory() is None
    assert sample.keep == 1 << 19


def test_a_part_of_a_graph_is_all_that_is_computed():
    seen = []
    z = da.from_array(LOSSES, chunks=1_000).map_blocks(counted, seen, dtype=float, meta=np.empty(0))
    close(ce.oce(z[:2_000], ce.Mean()), ce.oce(LOSSES[:2_000], ce.Mean()))
    assert set(seen) == {1_000}
    assert len(seen) <= 2 * 2  # two chunks, of the draw and of the sums


@pytest.mark.parametrize("last", [4_000, 6_000])
@pytest.mark.parametrize("utility", [ce.CVaR(0.05), ce.Mean(), ce.Quartic()])
def test_chunks_that_are_not_what_they_say_are_an_error(last, utility):
    z = da.from_array(LOSSES, chunks=5_000)[:15_000]
    other = da.Array(z.dask, z.name, ((5_000, 5_000, last),), meta=z._meta)
    with pytest.raises(TypeError, match=rf"in the shape \({last},\), as its Dask array declares; .*shape \(5000,\)"):
        ce.oce(other, utility)


@pytest.mark.parametrize(
    ("deliver", "says"),
    [
        (lambda part: np.ma.masked_greater(part, 0.5), "a masked array of shape"),
        (lambda part: part + 1j, "dtype complex128"),
        (lambda part: part[:, None], r"shape \(5000, 1\)"),
        (lambda part: part.astype(str), "dtype <U"),
    ],
    ids=["masked", "complex", "two_dimensions", "text"],
)
@pytest.mark.parametrize("name", ["cvar", "mean", "quartic"])
def test_chunks_that_are_no_vectors_of_numbers_are_refused(deliver, says, name):
    declared = da.from_array(LOSSES, chunks=5_000)
    other = da.map_blocks(deliver, declared, dtype=np.float64, meta=np.empty(0))
    with pytest.raises(TypeError, match=f"as its Dask array declares; found .*{says}"):
        ce.oce(other, UTILITIES[name])
    with pytest.raises(TypeError, match=f"as its Dask array declares; found .*{says}"):
        ce.oce(declared, UTILITIES[name], weights=da.map_blocks(deliver, abs(declared), dtype=float, meta=np.empty(0)))


def test_numbers_in_boxes_are_numbers():
    boxed = da.map_blocks(lambda part: part.astype(object), da.from_array(LOSSES, chunks=5_000), meta=np.empty(0))
    close(ce.oce(boxed, ce.CVaR(0.1)), ce.oce(LOSSES, ce.CVaR(0.1)))

"""Errors of Dask losses and tables: the argument, the partition and row, and the remedy."""

import numpy as np
import pandas as pd
import pytest

import certeq as ce
from tests.blocks import dask_samples_in_blocks
from tests.messages import messages

pytest.importorskip("dask.dataframe", reason="needs the extra [dask]")

import dask
import dask.array as da
import dask.dataframe as dd

from certeq.optimize.exact import solve_exact
from certeq.scale import open_npy

N, D = 20_000, 5
RNG = np.random.default_rng(11)
LOSSES, WEIGHTS = RNG.standard_t(5, size=N), RNG.random(N)
TABLE = RNG.standard_t(5, size=(1200, D))
U = ce.CVaR(0.05)
Z, LAZY = da.from_array(LOSSES, chunks=2_000), da.from_array(TABLE, chunks=(300, D))
FRAME = dd.from_pandas(pd.DataFrame({"loss": LOSSES, "name": "a"}), npartitions=2)
RISKS = {
    "cvar": U,
    "mean": ce.Mean(),
    "quartic": ce.Quartic(),
    "entropic_cvar": 0.5 * ce.Entropic(0.5) + 0.5 * ce.CVaR(0.2),
    "mean_variance": ce.MeanVariance(0.5),
    "evar": ce.EVaR(0.2),
}


def spoiled(bad, x=LOSSES, chunks=2_000):
    return da.from_array(np.where(np.arange(N) == 17_005, bad, x), chunks=chunks)


def broken(**options):
    return lambda: minimize(
        da.from_array(np.where(np.arange(1200)[:, None] == 1000, np.nan, TABLE), chunks=(300, D)), **options
    )


def minimize(table, **options):
    return ce.minimize(ce.LinearLoss(table), U, domain=ce.Simplex(), **options)


def delivered(deliver, declared=Z):
    """Return an array whose chunks are not what it declares."""
    return da.map_blocks(deliver, declared, dtype=float, chunks=declared.chunks, meta=np.empty((0,) * declared.ndim))


def of_small_files(read):
    """Call with a table read from eight small files, the seventh of which has a bad loss."""

    def call():
        pytest.importorskip("pyarrow", reason="needs the extra [dask]")
        import tempfile

        with tempfile.TemporaryDirectory() as folder:
            for i in range(8):
                table = pd.DataFrame(RNG.normal(size=(100, 20)), columns=[f"c{j}" for j in range(20)])
                table.loc[5, "c3"] = np.nan if i == 6 else 0.0
                table.to_parquet(f"{folder}/{i}.parquet")
            read(dd.read_parquet(folder))

    return call


DECLARED = "as its Dask array declares; found "
NUMBERS = {
    "nan": (np.nan, "finite", "NaN"),
    "inf": (np.inf, "finite", "+inf"),
    "minus_inf": (-np.inf, "finite", "-inf"),
    "negative": (-2.0, "not be negative", "-2"),
}
CHUNKS = {
    "masked": (lambda part: np.ma.masked_greater(part, 0.5), "a masked array of shape"),
    "complex": (lambda part: part + 1j, "dtype complex128"),
    "two_dimensions": (lambda part: part[:, None], "shape (2000, 1)"),
    "text": (lambda part: part.astype(str), "dtype <U"),
    "short": (lambda part: part[1:], "shape (1999,)"),
}
PLACE = ("in partition 8 of 10", "at its row 1005")

MESSAGES = {
    f"{kind}_under_{name}": (
        lambda call=(ce.oce, ce.estimate, ce.tilt)[i % 3], bad=bad, u=u: call(spoiled(bad), u),
        ValueError,
        f"holds {text}",
        *PLACE,
    )
    for kind, (bad, _, text) in NUMBERS.items()
    if kind != "negative"
    for i, (name, u) in enumerate(RISKS.items())
}
MESSAGES |= {
    f"{kind}_weight_under_{name}": (
        lambda call=(ce.tilt, ce.oce, ce.estimate)[i % 3], bad=bad, u=u: call(Z, u, spoiled(bad, WEIGHTS, 5_000)),
        ValueError,
        "weights must",
        words,
        f"found {text}",
        *PLACE,
    )
    for kind, (bad, words, text) in NUMBERS.items()
    for i, (name, u) in enumerate(RISKS.items())
}
MESSAGES |= {
    f"{kind}_chunks_under_{name}": (lambda f=f, u=u: ce.oce(delivered(f), u), TypeError, DECLARED, text)
    for kind, (f, text) in CHUNKS.items()
    for name, u in RISKS.items()
}
MESSAGES |= {
    f"{kind}_chunks_of_weights": (lambda f=f: ce.oce(Z, U, delivered(f, abs(Z))), TypeError, DECLARED, text)
    for kind, (f, text) in CHUNKS.items()
}
MESSAGES |= {
    # Losses
    "ubsr": (lambda: ce.ubsr(spoiled(np.nan), np.exp, 1.0), ValueError, *PLACE),
    "all_minus_inf": (
        lambda: ce.oce(da.full(10, -np.inf, chunks=3), ce.Entropic(0.5)),
        ValueError,
        "-inf in partition 0",
    ),
    "file_of_a_column": (
        of_small_files(lambda table: ce.oce(table["c3"], U)),
        ValueError,
        "NaN in partition 6 of 8",
        "at its row 5;",
    ),
    "file_of_a_table": (
        of_small_files(lambda table: minimize(table[["c3", "c4"]])),
        ValueError,
        "scenario 605 (row 5 of chunk 6), asset 0",
    ),
    "axis_of_a_table": (lambda: ce.oce(da.ones((4, 3)), U, axis=0), ValueError, "one-dimensional", "x[:, j]"),
    "estimate_of_a_table": (lambda: ce.estimate(da.ones((4, 3)), U), ValueError, "one-dimensional", "x.ravel()"),
    "axis": (lambda: ce.oce(Z, U, axis=1), ValueError, "axis must be None, 0 or -1", "1"),
    "empty": (lambda: ce.oce(Z[:0], U), ValueError, "x is empty"),
    "frame": (lambda: ce.oce(FRAME, U), TypeError, "a Dask DataFrame", "Pick one", "'loss', 'name'"),
    "column_of_text": (lambda: ce.oce(FRAME["name"], U), TypeError, "must hold numbers"),
    "objects": (lambda: ce.oce(Z.astype(object), U), TypeError, "must hold numbers; found dtype object"),
    "complex": (lambda: ce.oce(Z + 1j, U), TypeError, "must be real", "complex"),
    "number": (lambda: ce.oce(FRAME["loss"].sum(), U), TypeError, "x must be", "column"),
    "masked": (
        lambda: ce.oce(da.ma.masked_greater(Z, 1.0), U),
        TypeError,
        "masked",
        "ma.filled(x, 0)",
        "weights=~dask.array.ma.getmaskarray(x)",
    ),
    "name_of_a_risk": (lambda: ce.oce(Z, "cvar"), TypeError, "utility must be a Utility", "'cvar'"),
    "bootstrap": (lambda: ce.estimate(Z, U).interval(0.9, "bootstrap"), TypeError, "resamples the losses in memory"),
    "chunk_of_none": (lambda: open_npy("losses.npy", 0), ValueError, "chunk must be at least 1", "0"),
    # Weights
    "weights_of_another_shape": (
        lambda: ce.oce(da.ones((4, 3)), U, da.ones((3, 4))),
        ValueError,
        "shape of x, (4, 3)",
        "found (3, 4)",
    ),
    "short_weights": (lambda: ce.oce(Z, U, da.ones(N - 1)), ValueError, "one weight per sample", "(19999,)"),
    "no_weight": (lambda: ce.oce(Z, U, da.zeros(N, chunks=100)), ValueError, "sum to 0"),
    "masked_weights": (
        lambda: ce.oce(Z, U, da.ma.masked_greater(Z, 1.0)),
        TypeError,
        "weights is a masked",
        "ma.filled(weights, 0)",
    ),
    # Tables of scenarios
    "table_nan": (broken(), ValueError, "found nan at scenario 1000 (row 100 of chunk 3), asset 0"),
    "table_nan_sg": (broken(method="sg"), ValueError, "found nan at scenario 1000 (row 100 of chunk 3), asset 0"),
    "table_weights": (lambda: minimize(LAZY, weights=np.ones(7)), ValueError, "weights", "per sample, 1200; found 7"),
    "table_negative_weights": (
        lambda: minimize(LAZY, weights=np.linspace(-1, 1, 1200)),
        ValueError,
        "weights must be non-negative",
    ),
    "table_of_one_dimension": (lambda: ce.LinearLoss(LAZY[:, 0]), ValueError, "must be a matrix", "1 dimension"),
    "table_complex": (lambda: ce.LinearLoss(LAZY.astype(complex)), TypeError, "real numbers"),
    "table_empty": (lambda: ce.LinearLoss(LAZY[:0]), ValueError, "empty"),
    "table_as_a_whole": (lambda: ce.LinearLoss(LAZY).losses(np.ones(D) / D), TypeError, "never held as a whole"),
    "table_solved_directly": (lambda: solve_exact(LAZY, U, lower=0.0, C=np.ones(D), c=1.0), TypeError, "minimize"),
    "table_thin_chunks": (lambda: minimize(delivered(lambda part: part[:, :3], LAZY)), TypeError, DECLARED),
    "table_short_chunks": (lambda: minimize(delivered(lambda part: part[1:], LAZY)), TypeError, DECLARED),
    "table_complex_chunks": (lambda: minimize(delivered(lambda part: part + 0j, LAZY)), TypeError, DECLARED),
}
test_message = messages(MESSAGES)


@pytest.fixture(autouse=True, params=[True, False], ids=["in_chunks", "kept"])
def _chunks(request):
    """A sample this short is read once and kept, a longer one chunk by chunk."""
    with dask.config.set(scheduler="sync"):
        if request.param:
            with dask_samples_in_blocks():
                yield
        else:
            yield

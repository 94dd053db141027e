"""Portfolios whose scenarios are a Dask array: the answer of the solver in memory, whatever the chunks."""

from __future__ import annotations

import numpy as np
import pytest

import certeq as ce
from tests.blocks import small_tables_in_blocks
from tests.problems import UTILITIES

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array", reason="Dask is not installed")

N, D = 1200, 5
A = np.random.default_rng(8).standard_t(5, size=(N, D)) * np.linspace(0.5, 1.5, D) + np.linspace(-0.1, 0.1, D)
WEIGHTS = np.random.default_rng(9).uniform(0.0, 1.0, N) * (np.arange(N) % 5 > 0)
SIMPLEX = ce.Simplex()


@pytest.fixture(autouse=True)
def not_in_memory():
    with small_tables_in_blocks(1 << 18), dask.config.set(scheduler="synchronous"):
        yield


def minimum(table, utility=ce.CVaR(0.2), domain=SIMPLEX, **options):  # noqa: B008
    return ce.minimize(ce.LinearLoss(table), utility, domain=domain, **options)


def agree(found, known):
    assert found.status == "converged"
    assert found.value == pytest.approx(known.value, rel=1e-9, abs=1e-9)
    assert found.value - found.gap <= known.value + 1e-13
    assert found.gap <= 1e-9 * max(abs(found.value), 0.1)


def test_kinds_of_tables_and_weights():
    lazy = da.from_array(A, chunks=(333, D))
    agree(minimum(lazy, weights=da.from_array(WEIGHTS, chunks=100)), minimum(A, weights=WEIGHTS))
    some = lazy[lazy[:, 0] > -1.0]
    agree(minimum(some), minimum(A[A[:, 0] > -1.0]))
    assert np.isnan(some.shape[0])  # chunk sizes are counted, and the caller's array is left alone
    pd, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    agree(minimum(dd.from_pandas(pd.DataFrame(A, columns=list("abcde")), npartitions=3)), minimum(A))


@pytest.mark.parametrize("batch", ["full", 40])
@pytest.mark.parametrize("weights", [None, WEIGHTS, da.from_array(WEIGHTS, chunks=700)], ids=["equal", "array", "dask"])
def test_sg_takes_the_steps_it_takes_in_memory(batch, weights):
    """If many samples carry the risk: samples in blocks are drawn evenly where few do, arrays are not."""
    options = {"method": "sg", "batch": batch, "iterations": 6, "log_every": 2, "rng": 3}
    utility = ce.CVaR(0.1 if batch == "full" else 0.4)
    found = minimum(da.from_array(A, chunks=(500, 2)), utility, weights=weights, **options)
    known = minimum(A, utility, weights=None if weights is None else WEIGHTS, **options)
    assert found.theta == pytest.approx(known.theta, abs=1e-12)
    assert found.value == pytest.approx(known.value, rel=1e-12)
    assert found.gap == pytest.approx(known.gap, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("name", ["cvar", "cvar.3", "mean_cvar", "entropic_cvar"])
def test_a_solution_that_holds_nothing_is_proved_too(name):
    """At theta = 0 every loss is 0, and all scenarios lie on the kink."""
    table = np.random.default_rng(3).standard_t(4, size=(3000, 4))
    found = minimum(da.from_array(table, chunks=(1000, 4)), UTILITIES[name], ce.L1Ball(1.0))
    assert found.status == "converged"
    assert found.gap < 1e-9
    assert found.theta == pytest.approx(np.zeros(4), abs=1e-9)

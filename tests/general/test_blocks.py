"""Every risk of samples that are read in blocks: Dask arrays, memory-mapped files and tables equal the vector."""

import numpy as np
import pytest

import certeq as ce
from tests.blocks import Counted, dask_samples_in_blocks, short_samples_in_blocks, small_tables_in_blocks
from tests.problems import RISKS, UTILITIES, returns

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")

BLOCKS = [name for name, entry in RISKS.items() if entry.blocks]
EXACT = [name for name in BLOCKS if RISKS[name].minimized]
each_risk = pytest.mark.parametrize("name", BLOCKS)
pytestmark = [
    pytest.mark.filterwarnings("ignore::certeq.UnitWarning"),
    pytest.mark.filterwarnings("ignore::certeq.ReliabilityWarning"),
]
_RNG = np.random.default_rng(70)
X = {
    "normal": _RNG.normal(size=900),
    "ties": np.round(_RNG.standard_t(4, size=900)),
    "offset": 1e6 + _RNG.pareto(2.0, size=900),
}
WEIGHTS = {"normal": None, "ties": 1e-200 * _RNG.integers(0, 4, 900), "offset": 1e200 * _RNG.random(900)}
CHUNKS = {"normal": 137, "ties": (0, 1, 499, 0, 400), "offset": 300}


@pytest.fixture(autouse=True)
def _one_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


def near(x):
    return 1e-10 * float(np.ptp(x)) + 1e-14 * float(np.abs(x).max())


def check(name, lazy, weights, x, w):
    """Check values, tilts and estimates of lazy losses."""
    risk = RISKS[name].risk
    assert abs(ce.oce(lazy, risk, weights) - ce.oce(x, risk, w)) <= near(x)
    np.testing.assert_allclose(np.asarray(ce.tilt(lazy, risk, weights)), ce.tilt(x, risk, w), atol=1e-7)
    here, there = ce.estimate(x, risk, w), ce.estimate(lazy, risk, weights)
    assert abs(there.value - here.value) <= near(x)
    assert there.stderr == pytest.approx(here.stderr, rel=1e-5)
    assert there.ess == pytest.approx(here.ess, rel=1e-6)
    assert there.n == here.n
    if name in UTILITIES:
        assert there.bias == pytest.approx(here.bias, rel=1e-6, abs=1e-9)
        assert abs(there.threshold - here.threshold) <= near(x)


@pytest.mark.parametrize("kept", [False, True], ids=["in_chunks", "kept"])
@pytest.mark.parametrize("sample", X)
@each_risk
def test_dask_arrays(name, sample, kept):
    """Short ones are read once and kept, long ones chunk by chunk."""
    x, w = X[sample], WEIGHTS[sample]
    lazy, weights = da.from_array(x, chunks=(CHUNKS[sample],)), None if w is None else da.from_array(w, chunks=200)
    if kept:
        check(name, lazy, weights, x, w)
    else:
        with dask_samples_in_blocks():
            check(name, lazy, weights, x, w)


@each_risk
def test_mapped_files_and_long_arrays(name, tmp_path):
    """70,000 losses are read in blocks wherever they are; as 700 copies of 100 they are the vector."""
    risk, x = RISKS[name].risk, X["normal"][:100]
    long, wanted = np.tile(x, 700), ce.oce(x, risk)
    np.save(tmp_path / "x.npy", long)
    assert abs(ce.oce(long, risk) - wanted) <= near(x)
    assert abs(ce.oce(np.load(tmp_path / "x.npy", mmap_mode="r"), risk) - wanted) <= near(x)
    q = ce.tilt(long, risk)
    np.testing.assert_allclose(700.0 * q[:100], ce.tilt(x, risk), atol=1e-7)
    for sample in ("ties", "offset"):
        x, w = X[sample], WEIGHTS[sample]
        wanted, q = ce.oce(x, risk, w), ce.tilt(x, risk, w)
        with short_samples_in_blocks():
            assert abs(ce.oce(x, risk, w) - wanted) <= near(x)
            np.testing.assert_allclose(ce.tilt(x, risk, w), q, atol=1e-7)


KINDS = ["table", "mapped", "dask"]


def stored(kind, A, tmp_path):
    if kind == "table":
        return Counted(A)
    if kind == "dask":
        return da.from_array(A, chunks=((1, 0, 400, 899), (3, 1)))
    np.save(tmp_path / "A.npy", A)
    return np.load(tmp_path / "A.npy", mmap_mode="r")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", EXACT)
def test_exact_minimum(name, kind, tmp_path):
    risk, A = RISKS[name].risk, 100.0 * returns(1300, 4)
    w = np.random.default_rng(71).integers(0, 4, 1300).astype(float) if kind != "table" else None
    domain = ce.LongShort(1.3, 0.3) if kind == "dask" else ce.Simplex()
    known = ce.minimize(ce.LinearLoss(A), risk, domain=domain, weights=w)
    with small_tables_in_blocks():
        found = ce.minimize(ce.LinearLoss(stored(kind, A, tmp_path)), risk, domain=domain, weights=w)
    assert found.converged
    assert domain.contains(found.theta, 1e-12)
    assert found.gap <= 1e-8 * max(abs(found.value), 1.0)
    assert abs(found.value - known.value) <= found.gap + known.gap + 1e-12
    assert found.value == pytest.approx(float(ce.oce(A @ found.theta, risk, w)), rel=1e-9, abs=1e-9)
    assert np.shape(found.inner) == np.shape(known.inner)


@pytest.mark.parametrize("name", [name for name in BLOCKS if RISKS[name].stochastic])
def test_stochastic_steps(name):
    risk, A = RISKS[name].risk, np.random.default_rng(72).normal(size=(900, 4))
    settings = {"domain": ce.Simplex(), "method": "sg", "batch": "full", "iterations": 4, "step": 0.05}
    for table, w in ((Counted(A), None), (da.from_array(A, chunks=(250, 2)), np.arange(900.0) % 5)):
        here = ce.minimize(ce.LinearLoss(A), risk, weights=w, average="last", **settings)
        with small_tables_in_blocks():
            there = ce.minimize(ce.LinearLoss(table), risk, weights=w, average="last", **settings)
        np.testing.assert_allclose(there.theta, here.theta, atol=1e-7)
        assert there.value == pytest.approx(here.value, rel=1e-9)


@pytest.mark.parametrize("name", [name for name, entry in RISKS.items() if not entry.blocks])
def test_risks_that_need_all_losses_sorted(name):
    for call in (
        lambda: ce.oce(da.from_array(X["normal"], chunks=100), RISKS[name].risk),
        lambda: ce.minimize(ce.LinearLoss(da.ones((50, 3), chunks=10)), RISKS[name].risk, domain=ce.Simplex()),
    ):
        with pytest.raises(TypeError, match="sorted"):
            call()

"""Values, tilts and facts of every risk on every sample, against its definition and the axioms."""

import copy
import pickle

import numpy as np
import pytest

import certeq as ce
from tests.problems import EXTREME, PARAMETERS, RISKS, SAMPLES, UTILITIES, defined, tolerance

each_risk = pytest.mark.parametrize("name", RISKS)
each_utility = pytest.mark.parametrize("name", UTILITIES)
X = np.linspace(-3.0, 3.0, 121) + 0.0131  # off every kink


def drawn(seed, n=25):
    """Return two samples in tenths, so that ties are common, and weights."""
    rng = np.random.default_rng(seed)
    return (*rng.integers(-40, 40, (2, n)) / 10.0, rng.integers(1, 5, n).astype(float))


@pytest.mark.parametrize("sample", SAMPLES)
@each_risk
def test_value_is_the_definition(name, sample):
    x, w = SAMPLES[sample]
    found = ce.oce(x, RISKS[name].risk, w)
    assert isinstance(found, float)
    assert abs(found - defined(name, sample)) <= tolerance(x, found)


@pytest.mark.parametrize("sample", EXTREME)
@pytest.mark.parametrize("name", [name for name, entry in RISKS.items() if entry.coherent])
def test_value_of_extreme_samples(name, sample):
    x, w = EXTREME[sample]
    assert abs(ce.oce(x, RISKS[name].risk, w) - defined(name, sample)) <= 1e-11 * np.ptp(x)


@pytest.mark.parametrize("name", PARAMETERS)
def test_value_near_the_limits_of_the_parameters(name):
    for sample in ("ties", "weighted"):
        x, w = SAMPLES[sample]
        assert abs(ce.oce(x, PARAMETERS[name].risk, w) - defined(name, sample)) <= tolerance(x, 0.0), sample


@pytest.mark.parametrize("sample", SAMPLES)
@each_risk
def test_tilt_is_the_gradient(name, sample):
    entry, (x, w) = RISKS[name], SAMPLES[sample]
    q, value = ce.tilt(x, entry.risk, w), ce.oce(x, entry.risk, w)
    x = np.asarray(x, dtype=float)
    assert q.shape == x.shape
    assert abs(q.sum() - 1.0) <= 1e-13 * max(1.0, np.abs(q).sum())
    if w is not None:
        assert not q[np.asarray(w) == 0].any()
    if entry.monotone:
        assert q.min() >= -1e-15
    if w is None:
        for tie in np.unique(x):
            assert np.ptp(q[x == tie]) <= 1e-15
    if entry.coherent:
        assert abs(x.max() + q @ (x - x.max()) - value) <= tolerance(x, value, 1e-10)
    # The tangent plane lies below the risk, and touches it.
    direction = np.random.default_rng(7).normal(size=x.size)
    for step in (1e-3, 0.5):
        at = x + step * direction
        assert ce.oce(at, entry.risk, w) >= value + q @ (at - x) - tolerance(x, value, 1e-9) - 1e-11
    if entry.smooth and np.ptp(x) > 0.1 and sample != "offset":
        step = 1e-5
        ends = [ce.oce(x + sign * step * direction, entry.risk, w) for sign in (1, -1)]
        assert (ends[0] - ends[1]) / (2 * step) == pytest.approx(q @ direction, abs=2e-5)


@pytest.mark.parametrize("seed", range(4))
@each_risk
def test_axioms(name, seed):
    entry, (x, y, w) = RISKS[name], drawn(seed)
    near = {"rel": 1e-10, "abs": 1e-10}
    for weights in (None, w):

        def rho(z, weights=weights):
            return ce.oce(z, entry.risk, weights)

        at_x, at_y = rho(x), rho(y)
        assert rho(x + 12.5) == pytest.approx(at_x + 12.5, **near)
        for cash in (2.0**30, -1e9):
            moved = x + cash  # what is left of its digits is the sample that is meant
            assert abs(rho(moved) - cash - rho(moved - cash)) <= 1e-6
            tilts = [ce.tilt(z, entry.risk, weights) for z in (moved, moved - cash)]
            np.testing.assert_allclose(*tilts, atol=1e-6)
        assert rho(0.3 * x + 0.7 * y) <= 0.3 * at_x + 0.7 * at_y + 1e-10
        assert at_x >= np.average(x, weights=weights) + rho(np.zeros(1) if weights is None else 0.0 * x) - 1e-10
        if entry.monotone:
            assert rho(np.maximum(x, y)) >= max(at_x, at_y) - 1e-10
        if entry.coherent:
            assert rho(x + y) <= at_x + at_y + 1e-10
            assert rho(7.0 * x) == pytest.approx(7.0 * at_x, **near)
            assert at_x <= x.max() + 1e-10
    order = np.random.default_rng(seed).permutation(len(x))
    assert ce.oce(x[order], entry.risk, w[order]) == pytest.approx(ce.oce(x, entry.risk, w), **near)
    repeated, parts = np.repeat(x, w.astype(int)), np.cumsum(w.astype(int))[:-1]
    assert ce.oce(repeated, entry.risk) == pytest.approx(ce.oce(x, entry.risk, w), **near)
    merged = [part.sum() for part in np.split(ce.tilt(repeated, entry.risk), parts)]
    np.testing.assert_allclose(ce.tilt(x, entry.risk, w), merged, atol=1e-8)
    assert ce.oce(x, entry.risk, 1e-300 * w) == pytest.approx(ce.oce(x, entry.risk, w), **near)
    spoiled, more = np.r_[x, 1e9], np.r_[w, 0.0]
    assert ce.oce(spoiled, entry.risk, more) == pytest.approx(ce.oce(x, entry.risk, w), **near)


@each_risk
def test_facts(name):
    entry = RISKS[name]
    assert entry.risk.is_coherent == entry.coherent
    assert entry.risk.is_monotone == entry.monotone
    assert entry.risk.is_smooth == entry.smooth


@each_risk
def test_rows_are_vectors(name):
    risk = RISKS[name].risk
    x = np.random.default_rng(11).standard_normal((2, 3, 20))
    w = np.random.default_rng(12).integers(0, 4, 20).astype(float)
    for weights in (None, w):
        rows = [[ce.oce(row, risk, weights) for row in part] for part in x]
        np.testing.assert_allclose(ce.oce(x, risk, weights, axis=-1), rows, rtol=1e-12, atol=1e-13)
        tilts = [[ce.tilt(row, risk, weights) for row in part] for part in x]
        np.testing.assert_allclose(ce.tilt(x, risk, weights, axis=2), tilts, atol=1e-9)
    turned = np.moveaxis(x, -1, 0)
    np.testing.assert_allclose(ce.oce(turned, risk, axis=0), ce.oce(x, risk, axis=2), rtol=1e-13)
    assert ce.oce(x, risk) == pytest.approx(ce.oce(x.ravel(), risk), rel=1e-13)
    assert ce.oce(x, risk, axis=(0, 2))[1] == pytest.approx(ce.oce(x[:, 1].ravel(), risk), rel=1e-12)


@each_risk
def test_sources_and_types(name):
    risk, pandas = RISKS[name].risk, pytest.importorskip("pandas")
    x = np.round(np.random.default_rng(13).standard_normal(40), 2)
    kept, wanted = x.copy(), ce.oce(x, risk)
    for source in (list(x), np.repeat(x, 3)[::3], x[::-1][::-1], pandas.Series(x), x.astype(">f8")):
        assert ce.oce(source, risk) == pytest.approx(wanted, rel=1e-13)
    whole = (100 * x).astype(int)
    assert ce.oce(whole, risk) == pytest.approx(ce.oce(whole.astype(float), risk), rel=1e-14)
    single = x.astype(np.float32)
    assert ce.oce(single, risk) == pytest.approx(ce.oce(single.astype(float), risk), rel=1e-13)
    frame = pandas.DataFrame({"a": x, "b": x + 1.0})
    assert ce.oce(frame, risk)["b"] == pytest.approx(wanted + 1.0, rel=1e-12)
    np.testing.assert_array_equal(x, kept)


@each_risk
@pytest.mark.filterwarnings("ignore::certeq.ReliabilityWarning")
def test_estimate(name):
    """The standard error is that of the derivatives in the weights, which are the influence of each loss."""
    entry = RISKS[name]
    x = np.random.default_rng(14).normal(size=150)
    found = ce.estimate(x, entry.risk)
    assert found.value == pytest.approx(ce.oce(x, entry.risk), rel=1e-12)
    np.testing.assert_allclose(found.tilt, ce.tilt(x, entry.risk), atol=1e-9)
    assert found.ess == pytest.approx(1.0 / np.square(found.tilt).sum(), rel=1e-9)
    low, high = found.interval(0.9)
    assert low < found.value < high
    if found.tilt.max() == 1.0:  # the largest loss: no first derivative
        return
    step, one = 1e-3, np.eye(len(x))
    weights = np.concatenate([1.0 + step * one, 1.0 - step * one, 1.0 - one])
    up, down, without = np.split(ce.oce(np.tile(x, (len(weights), 1)), entry.risk, weights, axis=1), 3)
    influence = len(x) * (up - down) / (2 * step)
    assert found.stderr == pytest.approx(np.std(influence) / np.sqrt(len(x)), rel=0.05)
    if entry.smooth:
        jackknife = (len(x) - 1) * (np.mean(without) - found.value)
        assert found.bias == pytest.approx(max(jackknife, -0.5 * found.stderr), rel=0.3, abs=1e-12)
    moved = ce.estimate(x + 100.0, entry.risk)
    assert moved.stderr == pytest.approx(found.stderr, rel=1e-6)
    if entry.coherent:
        assert ce.estimate(3.0 * x, entry.risk).stderr == pytest.approx(3.0 * found.stderr, rel=1e-6)


@each_risk
def test_copies_are_equal(name):
    risk, clone = RISKS[name].risk, pytest.importorskip("sklearn.base").clone
    for copied in (clone(risk), copy.deepcopy(risk)):
        assert copied == risk
        assert hash(copied) == hash(risk)
        assert repr(copied) == repr(risk)
    key, value = next(iter(risk.get_params().items()), (None, None))
    if isinstance(value, float) and not isinstance(risk, ce.Mixture):  # weights of a mixture have sum 1
        changed = clone(risk).set_params(**{key: 0.5 * value if value < 1.0 else value + 1.0})
        assert changed != risk
        assert risk == clone(risk)
    if "lambda" not in repr(risk) and not isinstance(risk, ce.CustomUtility):
        assert pickle.loads(pickle.dumps(risk)) == risk
        if name != "distortion":
            assert eval(repr(risk), {name: getattr(ce, name) for name in ce.__all__}) == risk
    with pytest.raises(ValueError, match="has no parameter 'gamma'"):
        risk.set_params(gamma=1)


# -- utilities ---------------------------------------------------------------------------------------------------------


@each_utility
def test_utility_is_its_formula(name):
    risk, u = UTILITIES[name], RISKS[name].u
    np.testing.assert_allclose(risk.value(X), u(X).astype(float), rtol=1e-13, atol=1e-13)
    h = 1e-6
    np.testing.assert_allclose(risk.slope(X), (u(X + h) - u(X - h)) / (2 * h), rtol=2e-7, atol=2e-7)
    numeric = (risk.slope(X + h) - risk.slope(X - h)) / (2 * h)
    np.testing.assert_allclose(risk.curvature(X), numeric, rtol=1e-5, atol=1e-5)
    slope, curvature = risk.derivatives(X)
    np.testing.assert_allclose(slope, risk.slope(X), rtol=1e-14)
    np.testing.assert_allclose(curvature, risk.curvature(X), rtol=1e-14, atol=1e-300)


@each_utility
def test_kinks_are_where_the_slope_jumps(name):
    risk, u, kinks = UTILITIES[name], RISKS[name].u, RISKS[name].kinks
    np.testing.assert_allclose([at for at, _ in risk.kinks], kinks, atol=1e-12)
    for at, jump in risk.kinks:
        h = np.longdouble(1e-7)
        left, right = (float(((u(np.array([at + s * h])) - u(np.array([at])))[0]) / (s * h)) for s in (-1, 1))
        assert risk.slope(at) == pytest.approx(left, rel=1e-5, abs=1e-5)
        assert risk.right_slope(at) == pytest.approx(right, rel=1e-5)
        assert jump == pytest.approx(right - left, rel=1e-5)


@each_utility
def test_conjugate_anchor_and_constants(name):
    risk = UTILITIES[name]
    slope = np.asarray(risk.slope(X))
    gap = risk.value(X) + risk.conjugate(slope) - X * slope
    np.testing.assert_allclose(gap, 0.0, atol=1e-11 * (1 + np.abs(X * slope).max()))
    low, high = risk.slope_range
    assert np.isinf(low) or risk.conjugate(low - 0.5) == np.inf
    assert np.isinf(high) or risk.conjugate(high + 0.5) == np.inf
    assert np.all((low <= slope) & (slope <= high))
    nearby = 1e-12 * (1.0 + abs(risk.anchor))
    assert risk.slope(risk.anchor - nearby) <= 1.0 + 1e-9
    assert risk.right_slope(risk.anchor + nearby) >= 1.0 - 1e-9
    assert risk.oce_of_zero == pytest.approx(float(RISKS[name].definition(np.zeros(1), None)), abs=1e-12)
    assert risk.is_normalized == (abs(risk.oce_of_zero) < 1e-12)
    if RISKS[name].smooth:  # E u''(X - t*) <= kappa for every law
        z = np.geomspace(1e-2, 30, 40)[:, None, None] * np.random.default_rng(5).standard_normal((40, 40, 3))
        t = ce.threshold(z, risk, axis=2)
        mean = risk.curvature(z - t[..., None]).mean(axis=2).max()
        assert 0.25 * risk.kappa <= mean <= risk.kappa * (1 + 1e-3)


@pytest.mark.parametrize("sample", SAMPLES)
@each_utility
def test_threshold_is_the_smallest_minimizer_and_the_tilt_maximizes_the_dual(name, sample):
    risk, (x, w) = UTILITIES[name], SAMPLES[sample]
    t, q, value = ce.threshold(x, risk, w), ce.tilt(x, risk, w), ce.oce(x, risk, w)
    x = np.asarray(x, dtype=float)
    p = np.full(len(x), 1 / len(x)) if w is None else np.asarray(w) / np.sum(w)
    # The dual: the mean under the tilt less the mean of the conjugate.
    dual = q @ (x - x.max()) - p[p > 0] @ np.asarray(risk.conjugate(q[p > 0] / p[p > 0]))
    assert x.max() + dual == pytest.approx(value, abs=tolerance(x, value, 1e-10) + 1e-10)
    off = 1e-9 * (1.0 + np.ptp(x)) + 16 * np.spacing(np.abs(x).max())
    assert x[p > 0].min() - risk.anchor - off <= t <= x[p > 0].max() - risk.anchor + off
    assert p @ np.asarray(risk.slope(x - t - off)) <= 1.0 + 1e-6
    assert p @ np.asarray(risk.right_slope(x - t + off)) >= 1.0 - 1e-6


@each_utility
def test_scaling_shifting_and_adding(name):
    risk, u = UTILITIES[name], RISKS[name].u
    np.testing.assert_allclose(risk.scaled(3.0).value(X), (3.0 * u(X / 3.0)).astype(float), rtol=1e-12, atol=1e-12)
    x = SAMPLES["ties"][0]
    assert ce.oce(x, risk.scaled(3.0)) == pytest.approx(3.0 * ce.oce(x / 3.0, risk), rel=1e-11)
    assert ce.threshold(x, risk.scaled(4.0)) == pytest.approx(4.0 * ce.threshold(x / 4.0, risk), rel=1e-9)
    normalized = risk.normalized()
    np.testing.assert_allclose(ce.tilt(x, normalized), ce.tilt(x, risk), atol=1e-9)
    assert ce.oce(np.zeros(3), normalized) == pytest.approx(0.0, abs=1e-12)
    assert ce.oce(x, normalized) == pytest.approx(ce.oce(x, risk) - risk.oce_of_zero, rel=1e-11)
    total = 0.5 * risk + 0.5 * ce.Entropic(0.7)
    wanted = 0.5 * u(X) + 0.5 * np.expm1(0.7 * X) / 0.7
    np.testing.assert_allclose(total.value(X), wanted.astype(float), rtol=1e-12, atol=1e-12)

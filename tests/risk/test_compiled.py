"""The compiled passes against NumPy's formulas, and their solver against the core's."""

from __future__ import annotations

import shutil
import sys
import sysconfig
import zlib
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import certeq as ce
from certeq.risk import _compiled
from certeq.risk._compiled import CurveCode, code_of, rows_code_of, slopes, solve, solve_rows
from certeq.risk._rows import solve_rows as solve_rows_by_numpy
from certeq.risk._rows import values_of_rows
from certeq.risk._vector import facts_of, solve_vector
from certeq.utilities import Pieces
from certeq.utilities.forms import form
from tests.conftest import UTILITIES

compiled = pytest.mark.skipif(not _compiled.AVAILABLE, reason="certeq was installed without a C compiler")
CODED = {name: u for name, u in UTILITIES.items() if code_of(u) is not None}
CODED |= {
    "entropic_scaled": ce.Entropic(2.0).scaled(0.3),
    "smooth_sharp": ce.SmoothCVaR(0.01, 1e-3),
    "smooth_normalized": ce.SmoothCVaR(0.2).scaled(3.0).normalized(),
    "leaky_scaled": ce.LeakyCVaR(0.05).scaled(0.02),
    "mmv4": ce.MonotoneMeanVariance(4).scaled(0.5),
}


def test_it_was_compiled_wherever_a_compiler_is():
    headers = Path(sysconfig.get_path("include")) / "Python.h"
    if shutil.which("cc") is None or not headers.exists():
        pytest.skip("no C compiler here, or no Python.h")
    if sys.modules.get("certeq.risk._fused", "not kept out") is None:
        pytest.skip("kept out on purpose, by tests/portable.py")
    assert _compiled.AVAILABLE, "certeq.risk._fused was not built; `pip install -v -e .` says why"


def test_a_build_of_another_source_is_refused(tmp_path):
    source = tmp_path / "_fused.c"
    source.write_text("int main(void) { return 0; }")
    old = SimpleNamespace(__file__="_fused.so", SOURCE=zlib.crc32(b"int main(void) { return 1; }"))
    older = SimpleNamespace(__file__="_fused.so")
    for build in (old, older):
        with pytest.raises(ImportError, match="_fused.so was built from another version of _fused.c: build it again"):
            _compiled._check_source(build, source)
    for known in (zlib.crc32(source.read_bytes()), zlib.crc32(source.read_bytes()) - 2**32, 0):  # a long of 32 bits
        _compiled._check_source(SimpleNamespace(__file__="_fused.so", SOURCE=known), source)
    _compiled._check_source(old, tmp_path / "missing.c")
    _compiled._check_source(None, source)


@compiled
def test_the_curves_of_all_single_smooth_utilities_are_known():
    smooth = ("entropic", "mean_variance", "mmv2", "mmv3", "mmv2.5", "quartic", "leaky", "leaky.7", "smooth", "scaled")
    assert {*smooth, "smooth_tau", "normalized"} == {name for name, u in UTILITIES.items() if code_of(u) is not None}


@compiled
@pytest.mark.parametrize("name", CODED)
@pytest.mark.parametrize("size", [1, 3, 8, 64, 1001])
def test_slopes_and_curvatures_are_those_of_the_utility(name, size):
    utility = CODED[name]
    z, t = 2.0 * np.random.default_rng(size).standard_normal(size), 0.3
    slope, curvature, code = np.empty(z.size), np.empty(z.size), code_of(utility)
    total, total_curvature = slopes(code, z, t + utility.anchor, slope, curvature)
    np.testing.assert_allclose(slope, utility.slope(z - t), rtol=1e-11, atol=1e-13 * np.max(abs(slope)))
    np.testing.assert_allclose(
        curvature, utility.curvature(z - t), rtol=1e-9, atol=1e-12 * (1e-3 + np.max(abs(curvature)))
    )
    assert total == pytest.approx(slope.sum(), rel=1e-13)
    assert total_curvature == pytest.approx(curvature.sum(), rel=1e-13)
    again = np.empty(z.size)
    same_total, _ = slopes(code, z, t + utility.anchor, again)
    np.testing.assert_array_equal(again, slope)
    assert same_total == pytest.approx(total, rel=1e-14)


def exponential(x):
    out = np.empty(x.size)
    return out, slopes(code_of(ce.Entropic(1.0)), x, ce.Entropic(1.0).anchor, out)[0]


@compiled
def test_the_exponential_is_good_to_two_roundings_and_0_far_out():
    exponent = np.concatenate([np.linspace(-708, 709, 200_001), [0.0, -0.0, 1e-300, -1e-17, 0.34657, -0.34658]])
    found, _ = exponential(exponent)
    np.testing.assert_allclose(found, np.exp(exponent), rtol=5e-16)
    far, _ = exponential(np.array([-709.0, -1e4, -np.inf]))
    assert not far.any()
    spoilt, total = exponential(np.array([0.0, np.nan, 1.0]))
    assert np.isnan(spoilt[1])
    assert np.isnan(total)


def answer(utility, x, weights=None, dtype=np.float64):
    tilt = np.empty(len(x), dtype)
    found = solve(code_of(utility), x, weights, tilt)
    assert found is not None
    return found[0] + utility.oce_of_zero, found[1] - utility.anchor, tilt


@compiled
@pytest.mark.parametrize("name", CODED)
@pytest.mark.parametrize("size", [1, 2, 7, 64, 1000])
@pytest.mark.parametrize("case", ["normal", "heavy", "ties", "constant", "weights"])
def test_the_solver_agrees_with_the_core(name, size, case):
    utility, rng = CODED[name], np.random.default_rng(size)
    x = {
        "heavy": np.clip(rng.standard_t(2, size), -20, 20),
        "ties": rng.integers(0, 3, size).astype(float),
        "constant": np.full(size, 1.7),
    }.get(case, rng.standard_normal(size))
    weights = None
    if case == "weights":
        weights = rng.random(size) * (rng.random(size) < 0.7)
        weights[0] = 0.5
        weights /= weights.sum()
    value, threshold, tilt = answer(utility, x, weights)
    estimate = ce.estimate(x, utility, weights=weights)
    assert value == pytest.approx(estimate.value, rel=1e-12, abs=1e-12)
    np.testing.assert_allclose(tilt, ce.tilt(x, utility, weights=weights), rtol=1e-9, atol=1e-12)
    assert tilt.sum() == pytest.approx(1.0, abs=1e-13)
    if utility.kappa < 100:  # a sharper one is flat between two losses, and t anywhere there
        assert threshold == pytest.approx(estimate.threshold, rel=1e-9, abs=1e-9)


@compiled
@pytest.mark.parametrize("name", CODED)
def test_an_offset_moves_the_answer_and_nothing_else(name):
    utility = CODED[name]
    x = np.round(np.random.default_rng(4).standard_normal(64) * 2**20) / 2**20  # exact beside 1e9
    value, threshold, tilt = answer(utility, x)
    moved, moved_threshold, moved_tilt = answer(utility, x + 1e9)
    assert moved - 1e9 == pytest.approx(value, abs=3e-7)
    assert moved_threshold - 1e9 == pytest.approx(threshold, abs=3e-7)
    np.testing.assert_allclose(moved_tilt, tilt, rtol=1e-12, atol=1e-300)


@compiled
@pytest.mark.parametrize("scale", [1e-150, 1e-12, 1e8, 1e30])
@pytest.mark.parametrize("name", ["entropic", "smooth", "leaky", "quartic", "mmv2.5"])
def test_losses_of_any_size(name, scale):
    utility, x = CODED[name], scale * np.random.default_rng(7).standard_normal(50)
    value, _, tilt = answer(utility, x)
    assert value == pytest.approx(ce.oce(x, utility), rel=1e-12, abs=1e-14)
    assert tilt.sum() == pytest.approx(1.0, abs=1e-12)


@compiled
def test_short_floats_in_and_out():
    x = np.random.default_rng(8).standard_normal(64).astype(np.float32)
    for utility in CODED.values():
        value, _, tilt = answer(utility, x, dtype=np.float32)
        assert value == pytest.approx(ce.oce(x.astype(float), utility), rel=1e-12, abs=1e-12)
        np.testing.assert_allclose(tilt, ce.tilt(x.astype(float), utility), rtol=1e-6, atol=1e-7)


@compiled
def test_a_loss_without_weight_counts_for_nothing_even_where_it_is_none():
    weights = np.array([0.5, 0.0, 0.5])
    for utility in (ce.Quartic(), ce.Entropic(1.0), ce.SmoothCVaR(0.1)):
        plain = answer(utility, np.array([1.0, 2.0]))
        odd = answer(utility, np.array([1.0, np.nan, 2.0]), weights)
        assert odd[:2] == pytest.approx(plain[:2], rel=1e-13)
        np.testing.assert_allclose(odd[2], [plain[2][0], 0.0, plain[2][1]], rtol=1e-12)


@compiled
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_losses_that_are_not_finite_have_no_answer(bad):
    x, tilt = np.array([0.0, bad, 1.0]), np.empty(3)
    for utility in (*(UTILITIES[name] for name in ("smooth", "leaky", "quartic", "mean_variance")), ce.Entropic(1.0)):
        assert solve(code_of(utility), x, None, tilt) is None
    assert solve(code_of(ce.Entropic(1.0)), np.empty(0), None, np.empty(0)) is None


@compiled
@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ((0, 1.0, 0.0, np.zeros(3, int), None, np.zeros(3)), TypeError, "x must be a vector of float64 or float32"),
        ((0, 1.0, 0.0, np.zeros((3, 1)), None, np.zeros(3)), TypeError, "x must be a vector"),
        ((0, 1.0, 0.0, np.zeros(3), np.zeros(3, np.float32), np.zeros(3)), TypeError, "weights must be a vector"),
        ((0, 1.0, 0.0, np.zeros(3), np.zeros(2), np.zeros(3)), ValueError, "weights must have one entry for each of"),
        ((0, 1.0, 0.0, np.zeros(3), None, np.zeros(4)), ValueError, "tilt must have one entry for each of the 3"),
        ((0, 1.0, 0.0, np.zeros(6)[::2], None, np.zeros(3)), ValueError, "contiguous"),
        ((99, 1.0, 0.0, np.zeros(3), None, np.zeros(3)), ValueError, "kind must be one of the 5 curves"),
        ((0, "1", 0.0, np.zeros(3), None, np.zeros(3)), TypeError, "real number"),
        ((0, 1.0, 0.0, np.zeros(3), None), TypeError, "takes 6 arguments; found 5"),
    ],
)
def test_arguments_of_the_wrong_kind_are_named(arguments, error, text):
    from certeq.risk import _fused

    with pytest.raises(error, match=text):
        _fused.solve(*arguments)


ROWS = CODED | {"cvar": ce.CVaR(0.3), "mean + cvar": 0.4 * ce.Mean() + 0.6 * ce.CVaR(0.25)}


@compiled
@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize(("rows", "size"), [(1, 1), (3, 2), (5, 8), (2, 300)])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rows_are_solved_one_by_one(name, rows, size, dtype):
    """Tied losses, tails of a whole number of losses, offsets."""
    utility = ROWS[name]
    x = np.random.default_rng(size).standard_normal((rows, size)).round(1).astype(dtype)
    x[0] += dtype(1e3)
    tilt = np.empty((rows, size), dtype)
    found = solve_rows(rows_code_of(utility), x, tilt)
    assert found is not None
    fine = x.astype(np.float64)
    assert found[0] + utility.oce_of_zero == pytest.approx(ce.oce(fine, utility, axis=1), rel=1e-12)
    wanted = ce.tilt(fine, utility, axis=1)
    np.testing.assert_allclose(tilt, wanted, rtol=1e-5 if dtype == np.float32 else 1e-8, atol=1e-9)
    if isinstance(utility.shape, Pieces):
        assert (found[1] - utility.anchor).tolist() == ce.threshold(fine, utility, axis=1).tolist()


@compiled
def test_rows_that_have_no_answer():
    from certeq.risk import _fused

    tilt = np.empty((2, 3))
    for bad in (np.nan, np.inf, -np.inf):
        x = np.array([[0.0, 1.0, 2.0], [0.0, bad, 2.0]])
        assert solve_rows(rows_code_of(ce.CVaR(0.3)), x, tilt) is None
        assert solve_rows(rows_code_of(ce.Quartic()), x, tilt) is None
    kind = (_fused.PIECES, 0.0, 2.0)
    for arguments, error, text in (
        ((*kind, np.zeros(3), np.zeros(3), np.zeros(2), np.zeros(2)), ValueError, "x must have one entry for each of"),
        ((*kind, np.zeros(4), np.zeros(3), np.zeros(2), np.zeros(2)), ValueError, "tilt must have one entry for each"),
        ((*kind, np.zeros(4), np.zeros(4), np.zeros(2), np.zeros(1)), ValueError, "thresholds must have one entry"),
        ((*kind, np.zeros(4, int), np.zeros(4), np.zeros(2), np.zeros(2)), TypeError, "x must be a vector"),
        ((99, 0.0, 2.0, np.zeros(4), np.zeros(4), np.zeros(2), np.zeros(2)), ValueError, "kind must be one of the 5"),
        ((*kind, np.zeros(4)), TypeError, "takes 7 arguments; found 4"),
    ):
        with pytest.raises(error, match=text):
            _fused.solve_rows(*arguments)
    assert not _fused.solve_rows(*kind, np.zeros(0), np.zeros(0), np.zeros(0), np.zeros(0))


@compiled
def test_arguments_of_the_search_for_a_scale():
    from certeq.risk import _fused

    z, numbers = np.linspace(-1.0, 0.0, 5), (1.0, 0.5, 1.6, 0.37, np.inf, 0.0)
    for arguments, error, text in (
        ((z, None, *numbers, np.zeros(4)), ValueError, "out must have one entry for each of the 5"),
        ((z, np.ones(4), *numbers, np.zeros(5)), ValueError, "weights must have one entry"),
        ((z.astype(np.float32), None, *numbers, np.zeros(5)), TypeError, "z must be a vector"),
        ((z, None, "1", *numbers[1:], np.zeros(5)), TypeError, "real number"),
        ((z, None, *numbers), TypeError, "takes 9 arguments; found 8"),
    ):
        with pytest.raises(error, match=text):
            _fused.entropy_root(*arguments)
    assert np.isnan(_fused.entropy_root(np.full(5, np.nan), None, *numbers, np.zeros(5))[1])  # and it ends


@compiled
def test_memory_is_given_back():
    import tracemalloc

    x, tilt, code = np.random.default_rng(0).standard_normal(4096), np.empty(4096), code_of(ce.SmoothCVaR(0.1))
    tracemalloc.start()
    for k in range(300):
        solve(code, x, None, tilt)
        if k == 10:
            before = tracemalloc.get_traced_memory()[0]
    assert tracemalloc.get_traced_memory()[0] - before < 4096
    tracemalloc.stop()


@compiled
@pytest.mark.parametrize("name", [name for name, u in CODED.items() if u.shape is None and u.kappa < 100])
def test_from_nearby_the_threshold_converges_where_it_is_and_from_afar_it_says_so(name):
    utility, z = CODED[name], np.random.default_rng(9).standard_normal(400)
    q, curvature, code = np.empty(400), np.empty(400), code_of(utility)
    known = answer(utility, z)[1] + utility.anchor
    near = _compiled.newton_from(code, z, known + 1e-4 * min(1.0, 1.0 / utility.kappa), q, curvature)
    assert near is not None
    s, total, total_curvature = near
    assert total == pytest.approx(400.0, abs=400 * 1.1e-12)
    assert s == pytest.approx(known, abs=1e-9)
    t = s - utility.anchor
    np.testing.assert_allclose(q, utility.slope(z - t), rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(curvature, utility.curvature(z - t), rtol=1e-6, atol=1e-6 * np.max(curvature))
    assert total_curvature == pytest.approx(curvature.sum(), rel=1e-12)
    far = _compiled.newton_from(code, z, known + 1e8, q, curvature)
    assert far is None or far[1] == pytest.approx(400.0, abs=400 * 1.1e-12)
    z[3] = np.nan
    assert _compiled.newton_from(code, z, known, q, curvature) is None


# -- values, block sums and quantiles that write nothing --------------------------------------------------------------

LENGTHS = [1, 3, 20, 511, 1025, 4097, 20_000]  # from 4,097 on a part of the losses gives the start


def losses_of(size):
    rng = np.random.default_rng(size)
    normal = rng.standard_normal(size)
    return {
        "normal": normal,
        "offset": 1e9 + normal,
        "ties": np.round(normal, 1),
        "constant": np.full(size, 0.1),
        "sorted": np.sort(normal),
        "one far loss": np.r_[1e4, normal[1:]],
    }


@compiled
@pytest.mark.parametrize("name", CODED)
@pytest.mark.parametrize("size", LENGTHS)
def test_values_without_a_tilt_are_those_with_one(name, size):
    utility = CODED[name]
    for kind, x in losses_of(size).items():
        if kind == "one far loss" and utility.growth == np.inf:
            continue  # exp(1e4) is no number
        value, threshold, _ = answer(utility, x)
        found = _compiled.value(code_of(utility), x)
        assert found is not None, kind
        tolerance = 1e-13 * (1.0 + np.abs(x - threshold).max())
        assert found[0] + utility.oce_of_zero == pytest.approx(value, rel=4e-16, abs=tolerance), kind
        assert found[1] - utility.anchor == pytest.approx(threshold, rel=4e-16, abs=1e3 * tolerance), kind
        bad = x.copy()
        bad[size // 2] = np.nan
        assert _compiled.value(code_of(utility), bad) is None


@compiled
@pytest.mark.parametrize("name", CODED)
@pytest.mark.parametrize("weighted", [False, True])
def test_sums_over_a_block_are_those_of_the_utility(name, weighted):
    utility, code = CODED[name], code_of(CODED[name])
    rng = np.random.default_rng(5)
    z = 3.0 + rng.standard_normal(5_003)
    w = rng.random(z.size) if weighted else None
    t = 3.1
    slope, curvature, risen = _compiled.sums(code, z, w, 3.0, t - 3.0 + utility.anchor, float(z.min()) - 3.0)
    mass = np.ones(z.size) if w is None else w
    y = z - t
    assert slope == pytest.approx((mass * utility.slope(y)).sum(), rel=1e-12)
    assert curvature == pytest.approx((mass * utility.curvature(y)).sum(), rel=1e-11)
    if not isinstance(utility.shape, ce.utilities.Exponential | ce.utilities.Quadratic):
        wanted = (mass * (utility.value(y) - utility.value(utility.anchor))).sum()
        assert risen == pytest.approx(wanted, rel=1e-12, abs=1e-11)
    assert _compiled.sums(code, z, w, 3.0, t - 3.0 + utility.anchor, None) == pytest.approx((slope, curvature, 0.0))


@compiled
@pytest.mark.parametrize("size", [1, 2, 7, 2_048, 2_049, 5_000, 70_001])
def test_quantiles_and_windows_are_those_of_sorted_losses(size):
    for kind, x in losses_of(size).items():
        ranked = np.sort(x)
        for rank in {0, size // 20, size // 2, size - 1 - size // 20, size - 1}:
            low, tail = 0.3, (size - 1 - rank + 0.5) / size  # pieces whose threshold is the loss of this rank
            pieces = CurveCode(_compiled._fused.PIECES, low, low + (1.0 - low) / tail)
            value, at = _compiled.value(pieces, x)
            assert at == ranked[rank], kind
            tolerance = 1e-12 * (1.0 + np.abs(x - at).max()) / tail
            wanted = (1.0 - low) / tail * np.maximum(x - at, 0.0).mean() + low * (x - at).mean()
            assert value - at == pytest.approx(wanted, abs=tolerance + 4e-16 * abs(at)), kind
        a, b = ranked[size // 2], ranked[size - 1 - size // 20]
        a, b = min(a, b), max(a, b)
        least, greatest, above, excess, count, inside = _compiled.window(x, a, b, size)
        assert (least, greatest, above) == (ranked[0], ranked[-1], np.count_nonzero(x > b))
        assert excess == pytest.approx(np.maximum(x - b, 0.0).sum(), abs=1e-12 * size * (1.0 + np.ptp(x)))
        np.testing.assert_array_equal(inside, x[(x >= a) & (x <= b)])
        assert _compiled.window(x, a, b, int(count) - 1)[-1] is None
        for bad in (np.nan, np.inf, -np.inf):
            y = x.copy()
            y[size // 2] = bad
            assert _compiled.value(pieces, y) is None
            assert _compiled.window(y, a, b, size) is None


@pytest.mark.parametrize("name", UTILITIES)
@pytest.mark.parametrize("shape", [(1, 1), (3, 2), (40, 100), (3, 2_500)])
def test_rows_without_weights_are_those_of_the_general_solver(name, shape):
    utility = UTILITIES[name]
    z = np.random.default_rng(shape).standard_normal(shape)
    z[0] = np.round(z[0], 1)
    solved = solve_rows_by_numpy(z, None, utility)
    values, thresholds = values_of_rows(z, None, utility)
    np.testing.assert_allclose(values, solved.value, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(thresholds, solved.threshold, rtol=1e-8, atol=1e-8)


MIXED = {
    "entropic_and_cvar": ce.Entropic(1.0) + ce.CVaR(0.1),
    "halves": 0.5 * ce.Entropic(0.3).scaled(2.0) + 0.5 * ce.CVaR(0.05).normalized(),
    "two_cvars_and_leaky": 0.3 * ce.CVaR(0.3) + 0.3 * ce.CVaR(0.01).scaled(0.1) + 0.4 * ce.LeakyCVaR(0.1),
    "mean_variance": (0.5 * ce.MeanVariance(1.0) + 0.5 * ce.CVaR(0.2)).scaled(3.0),
    "quartic": 0.7 * ce.Quartic() + 0.3 * ce.CVaR(0.02) + 0.2 * ce.SmoothCVaR(0.1),
}


@compiled
@pytest.mark.parametrize("size", [1, 2, 7, 60, 3000])
@pytest.mark.parametrize("kind", ["normal", "ties", "heavy", "weights", "offset", "constant"])
@pytest.mark.parametrize("name", MIXED)
def test_thresholds_of_sums_with_kinks_are_those_of_numpy(name, kind, size, monkeypatch):
    rng = np.random.default_rng([size, len(name), len(kind)])
    x = rng.standard_normal(size)
    if kind == "ties":
        x = np.round(x, 1)
    elif kind == "heavy":
        x = 3.0 * rng.standard_t(2, size)
    elif kind == "constant":
        x = np.full(size, 0.3)
    elif kind == "offset":
        x = x + 1e6
    weights = None
    if kind == "weights":
        weights = rng.exponential(size=size) * (rng.random(size) < 0.8)
        weights[0] += 0.1
        weights /= weights.sum()
    u = form(MIXED[name])
    assert _compiled.mixed_code_of(u) is not None
    found = solve_vector(x, weights, u)
    with monkeypatch.context() as without:
        without.setattr(_compiled, "mixed_code_of", lambda _: None)
        expected = solve_vector(x, weights, u)
    size_of_losses = np.abs(x).max() + 1.0
    assert found.value == pytest.approx(expected.value, rel=0, abs=1e-13 * size_of_losses)
    assert found.threshold == pytest.approx(expected.threshold, rel=0, abs=1e-12 * size_of_losses)
    assert found.tilt.sum() == pytest.approx(1.0, abs=1e-13)
    np.testing.assert_allclose(found.tilt, expected.tilt, rtol=0, atol=1e-10 + 1e-15 * size_of_losses)


@compiled
def test_many_ties_on_a_kink_and_a_poor_guess():
    code = _compiled.mixed_code_of(form(ce.Entropic(1.0) + ce.CVaR(0.1)))
    x = np.repeat(np.arange(3.0), 5000)  # more breakpoints than are kept, at three points
    slopes = np.empty(x.size)
    t, mean = _compiled.kinked(code, x, None, -1e3, 1e3, -900.0, 1e-6, slopes)
    assert mean == pytest.approx(slopes.mean(), abs=1e-13)
    assert t == 2.0  # a third of the losses is more than the tail: the mean slope passes 1 at the largest
    left, right = form(ce.Entropic(1.0) + ce.CVaR(0.1)).slopes(x, t)
    assert left.mean() <= 1.0 <= right.mean()


@pytest.mark.parametrize("name", UTILITIES)
@pytest.mark.parametrize("scale", [0.03, 1.7, 400.0])
def test_facts_in_other_units_are_those_of_the_scaled_utility(name, scale):
    u = UTILITIES[name]
    derived, found = facts_of(form(u).scaled(scale)), facts_of(form(u.scaled(scale)))
    for one, other in zip(derived, found, strict=True):
        if isinstance(one, CurveCode):
            np.testing.assert_allclose(one, other, rtol=1e-15)
        elif isinstance(one, float):
            assert one == pytest.approx(other, rel=1e-14, abs=1e-300)
        else:
            assert type(one) is type(other)
            assert repr(one)[:6] == repr(other)[:6]

"""Errors and warnings of estimates: the argument, what was found, and the remedy."""

from functools import partial

import numpy as np
import pandas as pd
from scipy import stats

import certeq as ce
from certeq.risk import bounds
from tests.messages import messages

CVAR, EXP = ce.CVaR(0.1), ce.Entropic(1.0)
X = np.random.default_rng(0).beta(2, 5, size=400)
PAIR = np.stack([X, X], axis=1)
FRAME = pd.DataFrame(np.random.default_rng(1).normal(size=(40, 3)), columns=["a", "b", "c"])
SERIES = pd.Series(X, pd.bdate_range("2020-01-01", periods=400))
SHUFFLED = SERIES.sample(frac=1.0, random_state=0)
LONG = np.zeros(80_000)
NAN = np.where(np.arange(60).reshape(3, 4, 5) == 48, np.nan, 0.0)
UBSR = partial(ce.ubsr, loss=np.exp, level=1.0)
HUGE = 1e200 * np.random.default_rng(0).standard_normal(100)


def at(index, bad, x=LONG):
    return np.where(np.arange(len(x)) == index, bad, x)


def bound(x=X, utility=CVAR, level=0.95, support=(0, 1)):
    return ce.upper_bound(x, utility, level, support=support)


def control(losses=PAIR, candidates=(1, 2), utility=CVAR, limit=0.5):
    return ce.control(losses, candidates, utility, limit, support=(0, 1))


class NotNormal(stats.rv_continuous):
    def _pdf(self, x):
        return 1.0 / (np.pi * (1.0 + x * x))


class FiveTimes(stats.rv_continuous):
    def _pdf(self, x):
        return 5.0 + 0.0 * x


# Losses that every function refuses, under every risk.
LOSSES = {
    "nan": ([1.0, np.nan], ValueError, "x", "NaN at index 1"),
    "inf": ([1.0, np.inf], ValueError, "x", "+inf at index 1"),
    "minus_inf": ([1.0, -np.inf], ValueError, "x", "-inf at index 1"),
    "long_nan": (at(70_000, np.nan), ValueError, "NaN at index 70000"),
    "long_inf": (at(70_000, np.inf), ValueError, "+inf at index 70000"),
    "long_minus_inf": (at(70_000, -np.inf), ValueError, "-inf at index 70000"),
    "nothing": ([], ValueError, "empty"),
    "no_columns": (np.empty((3, 0)), ValueError, "empty"),
    "number": (3.0, ValueError, "single number", "3"),
    "array_of_no_dimension": (np.array(3.0), ValueError, "single number"),
    "texts": (["a", "b"], TypeError, "dtype"),
    "text": ([1.0, "b"], TypeError, "numbers"),
    "none_within": ([1.0, None], TypeError, "object array", "dtype=float"),
    "objects": (np.array([1.0, 2.0], dtype=object), TypeError, "object array"),
    "complex": ([1 + 2j], TypeError, "complex"),
    "ragged": ([[1.0], [1.0, 2.0]], TypeError, "rectangular"),
    "dates": (np.array(["2020-01-01"], dtype="datetime64[D]"), TypeError, "dtype"),
    "masked": (np.ma.array([1.0, 2.0], mask=[True, False]), TypeError, "masked", "compressed()"),
    "none": (None, TypeError, "found a NoneType"),
    "set": ({1.0, 2.0}, TypeError, "found a set"),
    "dict": ({"a": 1.0}, TypeError, "found a dict"),
    "generator": ((value for value in (1.0, 2.0)), TypeError, "found a generator"),
}
FUNCTIONS = {"oce": ce.oce, "threshold": ce.threshold, "tilt": ce.tilt, "estimate": ce.estimate}
RISKS = (CVAR, EXP, ce.Quartic(), ce.MeanVariance(1.0), ce.EVaR(0.1), 0.5 * CVAR + 0.5 * EXP)
WEIGHTS = {
    "negative": ([1, -1, 1], ValueError, "weights", "negative", "-1"),
    "sum_0": ([0, 0, 0], ValueError, "weights", "sum to 0"),
    "nan": ([1, np.nan, 1], ValueError, "weights", "finite"),
    "inf": ([1, np.inf, 1], ValueError, "weights", "finite"),
    "short": ([1, 1], ValueError, "weights", "shape", "(2,)"),
    "matrix": ([[1, 1, 1]], ValueError, "weights", "shape"),
}
LAWS = {
    "unknown_tail": (stats.gengamma(1.0, 2.0), EXP, ValueError, "gengamma(1.0, 2.0)", "cannot be told"),
    "unknown_growth": (stats.norm(), ce.utility(lambda x: np.expm1(x)), ValueError, "cannot be told"),
    "no_mean_of_gains": (stats.cauchy(), ce.Mean(), ValueError, "not defined"),
    "too_many_values": (stats.zipf(3.5), ce.MeanVariance(0.1), ValueError, "more values that matter"),
    "small_masses": (stats.poisson(5.0), 0.5 * CVAR + 0.5 * ce.Entropic(9.0), ValueError, "1e-308"),
    "not_integrated": (stats.beta(1.0, 0.01), CVAR, ValueError, "could not be integrated"),
    "no_sum": (stats.zipf(2.5), ce.ProportionalHazard(1.2), ValueError, "summed up"),
    "arrays": (stats.norm([0.0, 1.0]), CVAR, ValueError, "arrays as parameters"),
    "no_parameters": (stats.t, CVAR, TypeError, "df", "scipy.stats.t"),
    "name_of_another": (NotNormal(name="norm"), CVAR, ValueError, "norm()", "cannot be told"),
    "not_a_density": (FiveTimes(a=0.0, b=1.0), CVAR, ValueError, "FiveTimes()", "contradict"),
    "new_classes": (stats.Normal(), CVAR, TypeError, "found a ", "scipy.stats.norm"),
    "kernels": (stats.gaussian_kde([0.0, 1.0, 3.0]), CVAR, TypeError, "found a ", "scipy.stats.norm"),
    "mixtures": (stats.Mixture([stats.Normal()]), CVAR, TypeError, "found a ", "scipy.stats.norm"),
}
FEW = ce.estimate(np.random.default_rng(0).normal(size=100), ce.Mean())

MESSAGES = {
    f"{name}_{function}": (partial(call, x, RISKS[(i + k) % len(RISKS)]), *message)
    for i, (name, (x, *message)) in enumerate(LOSSES.items())
    for k, (function, call) in enumerate(FUNCTIONS.items())
    if not (function == "estimate" and name == "no_columns")
}
MESSAGES |= {
    f"weights_{name}_{i}": (partial(ce.oce, [1.0, 2.0, 3.0], u, w), *message)
    for name, (w, *message) in WEIGHTS.items()
    for i, u in enumerate(RISKS)
}
MESSAGES |= {
    f"nan_along_{axis}_{name}": (partial(call, NAN, axis=axis), ValueError, "NaN at index (2, 1, 3)")
    for axis in (-1, 0, 1, None, (0, 2))
    for name, call in {
        "oce": partial(ce.oce, utility=CVAR),
        "tilt": partial(ce.tilt, utility=EXP),
        "ubsr": UBSR,
    }.items()
}
MESSAGES |= {f"distribution_{name}": (partial(ce.oce, x, u), *message) for name, (x, u, *message) in LAWS.items()}
MESSAGES |= {
    # Losses, weights and risks of oce, threshold, tilt and ubsr
    "minus_inf_without_weight": (lambda: ce.oce([0.0, -np.inf], EXP, [2.0, 0.0]), ValueError, "-inf at index 1"),
    "nan_in_a_row": (lambda: ce.oce([[0, 1], [1, 2], [3, np.nan]], CVAR, axis=1), ValueError, "index (2, 1)"),
    "nan_under_distortion": (lambda: ce.oce(at(70_000, np.nan), ce.Wang(0.2)), ValueError, "NaN at index 70000"),
    "weights_of_a_long_sample": (lambda: ce.oce(LONG, CVAR, at(70_000, -1.0)), ValueError, "weights", "negative"),
    "name_of_a_risk": (lambda: ce.oce([1.0], "cvar"), TypeError, "certeq.CVaR"),
    "class_of_a_risk": (lambda: ce.oce([1.0], ce.CVaR), TypeError, "write CVaR()"),
    "function": (lambda: ce.oce([1.0], np.exp), TypeError, "certeq.utility"),
    "no_risk": (lambda: ce.oce([1.0], None), TypeError, "Utility", "None"),
    "slopes_below_1": (lambda: ce.oce([1.0], 0.3 * ce.Mean()), ValueError, "slopes between 0.3 and 0.3"),
    "slopes_above_1": (lambda: ce.oce([1.0], 2 * ce.Mean() + CVAR), ValueError, "slopes between 2 and"),
    "axis": (lambda: ce.oce([1.0, 2.0], CVAR, axis=3), ValueError, "axis", "3"),
    "axis_is_no_integer": (lambda: ce.oce([[1.0]], CVAR, axis=1.0), TypeError, "axis", "whole number", "1.0"),
    "overflow": (lambda: ce.oce(HUGE, ce.MeanVariance(0.5)), OverflowError, "MeanVariance(beta=0.5)", "larger unit"),
    "overflow_of_evar": (lambda: ce.oce([-1.7e308, 1.7e308], ce.EVaR(0.9)), OverflowError, "beyond float64"),
    "overflow_of_errors": (lambda: ce.estimate(5e107 * HUGE, CVAR), OverflowError, "standard error", "CVaR"),
    "threshold_of_distortion": (lambda: ce.threshold(X, ce.Wang(0.3)), TypeError, "inner variables"),
    "threshold_of_distorted_law": (lambda: ce.threshold(stats.norm(), ce.Wang(0.5)), TypeError, "sorted"),
    "weighted_law": (lambda: ce.oce(stats.norm(), CVAR, [1.0]), TypeError, "weights", "left out"),
    "weighted_law_of_evar": (lambda: ce.oce(stats.norm(), ce.EVaR(0.1), [1.0]), TypeError, "left out"),
    "estimate_of_a_law": (lambda: ce.estimate(stats.norm(), CVAR), TypeError, "certeq.oce", "take distributions"),
    "ubsr_below": (lambda: ce.ubsr([0.0], np.exp, -1.0), ValueError, "level", "never falls to -1"),
    "ubsr_above": (lambda: ce.ubsr([0.0], np.tanh, 2.0), ValueError, "level", "never rises above 2"),
    "ubsr_decreasing": (lambda: ce.ubsr([0.0, 1.0], lambda x: -x, 0.5), ValueError, "loss"),
    "ubsr_loss": (lambda: ce.ubsr([0.0], 3, 1.0), TypeError, "loss must be", "3"),
    "ubsr_level": (lambda: ce.ubsr([0.0], np.exp, "a"), TypeError, "level"),
    "ubsr_level_nan": (lambda: ce.ubsr([0.0], np.exp, np.nan), ValueError, "level"),
    "ubsr_nan": (lambda: ce.ubsr([[0.0], [np.nan]], np.exp, 1.0, axis=1), ValueError, "NaN at index (1, 0)"),
    "ubsr_long_nan": (lambda: ce.ubsr(at(70_000, np.nan), np.exp, 1.0), ValueError, "NaN at index 70000"),
    "ubsr_elementwise": (lambda: ce.ubsr([0.0], lambda x: 1.0, 1.0), ValueError, "elementwise"),
    "ubsr_overflow": (lambda: ce.ubsr([390.0, -1350.0], np.sinh, 0.0), OverflowError, "not a number", "larger units"),
    "ubsr_long_overflow": (
        lambda: ce.ubsr([*LONG, 390.0, -1350.0], np.sinh, 0.0), OverflowError, "not a number", "larger units",
    ),
    # Tables of pandas
    "frame_weights": (lambda: ce.oce(FRAME, CVAR, FRAME.abs()[::-1]), ValueError, "index and the columns of x"),
    "frame_series": (lambda: ce.oce(FRAME, CVAR, FRAME["a"].abs()[::-1]), ValueError, "weights.reindex(x.index)"),
    "frame_rows": (lambda: ce.oce(FRAME, CVAR, FRAME["a"].abs(), axis=1), ValueError, "labels of x.columns"),
    "frame_shape": (lambda: ce.oce(FRAME, CVAR, np.ones(3)), ValueError, "(40, 3)", "(40,)", "found (3,)"),
    "frame_column": (lambda: ce.oce(FRAME.assign(name="x"), CVAR), TypeError, "column 'name'", "select_dtypes"),
    "frame_missing": (
        lambda: ce.oce(FRAME.assign(n=pd.array([*range(39), None], dtype="Int64")), CVAR),
        ValueError, "NaN at index (39, 3)",
    ),
    "frame_axis_2": (lambda: ce.threshold(FRAME, CVAR, axis=2), ValueError, "axis must be 0, 1, (0, 1) or None"),
    "frame_axis_text": (lambda: ce.threshold(FRAME, CVAR, axis="rows"), TypeError, "axis must be 0, 1", "rows"),
    "frame_axis_twice": (lambda: ce.threshold(FRAME, CVAR, axis=(0, 0)), ValueError, "axis must be 0, 1"),
    "frame_estimate": (lambda: ce.estimate(FRAME, CVAR), ValueError, "columns 'a', 'b', 'c'", "x['a']"),
    "series_weights": (lambda: ce.oce(SERIES, CVAR, SERIES[::-1]), ValueError, "weights", "index of x", "reindex"),
    "series_tilt": (lambda: ce.tilt(SERIES, CVAR, SERIES[::-1]), ValueError, "weights", "index of x", "reindex"),
    "series_estimate": (lambda: ce.estimate(SERIES, CVAR, SERIES[::-1]), ValueError, "weights", "index of x"),
    # Estimates
    "estimate_matrix": (lambda: ce.estimate([[1.0, 2.0]], CVAR), ValueError, "one-dimensional", "(1, 2)"),
    "level": (lambda: FEW.interval(95), ValueError, "level", "95"),
    "level_text": (lambda: FEW.interval("0.95"), TypeError, "level must be a number strictly between 0 and 1"),
    "level_none": (lambda: FEW.interval(None), TypeError, "level must be a number strictly between 0 and 1"),
    "level_list": (lambda: FEW.interval([0.9]), TypeError, "level must be a number strictly between 0 and 1"),
    "interval_method": (lambda: FEW.interval(method="magic"), ValueError, "magic", "normal", "bootstrap"),
    "replicates": (lambda: FEW.interval(method="bootstrap", replicates=1), ValueError, "replicates"),
    "samples_for": (lambda: FEW.samples_for(0), ValueError, "halfwidth"),
    "samples_for_constants": (lambda: ce.estimate([1.0] * 9, CVAR).samples_for(0.1), ValueError, "width"),
    "dependent_bootstrap": (
        lambda: ce.estimate(np.cumsum(X), CVAR, dependence="auto").interval(method="bootstrap"),
        ValueError, "bootstrap", "independent",
    ),
    "dependence_text": (lambda: ce.estimate(X, CVAR, dependence="yes"), TypeError, "dependence", "auto", "yes"),
    "dependence_true": (lambda: ce.estimate(X, CVAR, dependence=True), TypeError, "dependence", "True"),
    "dependence_float": (lambda: ce.estimate(X, CVAR, dependence=2.5), TypeError, "dependence", "2.5"),
    "dependence_0": (lambda: ce.estimate(X, CVAR, dependence=0), ValueError, "dependence", "0"),
    "overlap": (lambda: ce.estimate(X, CVAR, dependence=400), ValueError, "number of losses, 400", "found 400"),
    "overlap_of_two": (lambda: ce.difference(X, X, CVAR, dependence=10**9), ValueError, "400", "found 1000000000"),
    "dates": (lambda: ce.estimate(SHUFFLED, CVAR, dependence="auto"), ValueError, "order of its dates", "sort_index"),
    "periods": (lambda: ce.estimate(SHUFFLED.to_period("D"), CVAR, dependence=9), ValueError, "order of its dates"),
    "dates_of_two": (lambda: ce.difference(SHUFFLED, SHUFFLED, CVAR, dependence=9), ValueError, "order of its dates"),
    "nan_at_an_end": (
        lambda: ce.estimate(at(3, np.nan, X), CVAR, np.arange(400) > 9, dependence=9), ValueError, "NaN at index 3",
    ),
    # Warnings of estimates
    "few_samples": (lambda: ce.estimate(X[:10], ce.Mean()).interval(), ce.ReliabilityWarning, "Only 10 samples"),
    "few_weights": (
        lambda: ce.estimate(X, ce.Mean(), np.arange(400) < 5).interval(), ce.ReliabilityWarning, "Only 5 samples",
    ),
    "few_in_the_tail": (lambda: ce.estimate(X[:100], ce.CVaR(0.04)).interval(), ce.ReliabilityWarning, "carry the"),
    "less_than_one": (lambda: ce.estimate(X[:90], ce.CVaR(0.01)).interval(), ce.ReliabilityWarning, "fewer than one"),
    "constant": (lambda: ce.estimate(np.ones(100), CVAR).interval(), ce.ReliabilityWarning, "nothing of its own error"),
    "constant_series": (
        lambda: ce.estimate(np.ones(100), CVAR, dependence="auto").interval(), ce.ReliabilityWarning, "its own error",
    ),
    "one_pair": (lambda: ce.difference([1.0], [2.0], CVAR).pvalue, ce.ReliabilityWarning, "One sample"),
    "random_walks": (
        lambda: ce.difference(np.cumsum(X), np.cumsum(X[::-1]), CVAR).interval(),
        ce.ReliabilityWarning, "depend on those before",
    ),
    # Differences
    "two_lengths": (lambda: ce.difference(X, X[:-1], CVAR), ValueError, "found 400 and 399"),
    "second_matrix": (lambda: ce.difference(X, X[:, None], CVAR), ValueError, "y must be one-dimensional"),
    "second_index": (lambda: ce.difference(SERIES, SERIES[::-1], CVAR), ValueError, "y must have the index of x"),
    "second_nan": (lambda: ce.difference(X, at(4, np.nan, X), CVAR), ValueError, "y holds NaN at index 4"),
    "second_inf": (lambda: ce.difference(X, at(4, np.inf, X), CVAR), ValueError, "y holds +inf at index 4"),
    "second_minus_inf": (lambda: ce.difference(X, at(4, -np.inf, X), EXP), ValueError, "y holds -inf at index 4"),
    "first_nan": (lambda: ce.difference(at(3, np.nan, X), X, CVAR), ValueError, "NaN at index 3"),
    "difference_weights": (lambda: ce.difference(X, X, CVAR, weights=-X), ValueError, "weights must not be negative"),
    "difference_level": (lambda: ce.difference(X, X, CVAR).interval(95), ValueError, "level", "95"),
    # Certified bounds
    "support": (lambda: bound(support=(0, 0.5)), ValueError, "support, between 0 and 0.5", "found 0.", "at index"),
    "support_order": (lambda: bound(support=(1, 0)), ValueError, "support must be"),
    "support_inf": (lambda: bound(support=(0, np.inf)), ValueError, "support must be"),
    "support_number": (lambda: bound(support=1.0), TypeError, "support must be"),
    "support_three": (lambda: bound(support=(0, 1, 2)), TypeError, "support must be"),
    "bound_nan": (lambda: bound([0.0, np.nan]), ValueError, "x holds NaN at index 1"),
    "bound_matrix": (lambda: bound(PAIR), ValueError, "one-dimensional"),
    "bound_decreasing": (lambda: bound(utility=ce.MeanVariance(0.5)), ValueError, "utility must be increasing"),
    "bound_evar": (lambda: bound(utility=ce.EVaR(0.1)), TypeError, "EVaR", "one t chosen before"),
    "bound_wang": (lambda: bound(utility=ce.Wang(0.5)), TypeError, "Wang", "one t chosen before"),
    "bound_level": (lambda: bound(level=95), ValueError, "level", "95"),
    "bound_level_text": (lambda: bound(level="a"), TypeError, "level must be a number strictly between 0 and 1"),
    "bound_level_true": (lambda: bound(level=True), TypeError, "level must be a number strictly between 0 and 1"),
    "control_evar": (lambda: control(utility=ce.EVaR(0.1)), TypeError, "EVaR", "one t chosen before"),
    "control_count": (lambda: control(candidates=[1, 2, 3]), ValueError, "as many as losses has columns, 2; found 3"),
    "control_vector": (lambda: control(X, [1]), ValueError, "one column per candidate"),
    "control_nan": (
        lambda: control(np.where(PAIR[3, 1] == PAIR, np.nan, PAIR)), ValueError, "losses holds NaN at index (3, ",
    ),
    "control_limit": (lambda: control(limit="a"), TypeError, "limit must be a number", "a"),
    "control_limit_nan": (lambda: control(limit=np.nan), ValueError, "limit must be a number"),
    "control_set": (lambda: control(candidates={1, 2}), TypeError, "in the order", "found a set"),
    "control_dict": (lambda: control(candidates={1: 1, 2: 2}), TypeError, "in the order", "found a dict"),
    "control_number": (lambda: control(candidates=3), TypeError, "in the order", "found a int"),
    "control_columns": (
        lambda: control(pd.DataFrame(PAIR, columns=["a", "b"]), ["b", "a"]), ValueError, "losses[candidates]",
    ),
    # Bounds of the error
    "bound_q": (lambda: bounds.mae_bound(10, 1.0, 1.0, q=2), ValueError, "q must exceed 2", "found 2"),
    "bound_moment": (lambda: bounds.mae_bound(10, 1.0), TypeError, "moment"),
    "bound_constant": (lambda: bounds.samples_needed(lambda m: 1.0, 0.5), ValueError, "does not fall"),
    "moment_matrix": (lambda: bounds.central_moment([[1.0]], 5.0), ValueError, "one-dim"),
    "moment_nan": (lambda: bounds.central_moment([1.0, np.nan], 5.0), ValueError, "NaN"),
    "moment_q": (lambda: bounds.central_moment([1.0], 1.0), ValueError, "q must exceed 1", "found 1"),
}  # fmt: skip

test_message = messages(MESSAGES)

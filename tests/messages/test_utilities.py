"""Errors of utilities and risks: the argument, what was found, and the remedy."""

import math

import numpy as np
from scipy import special

import certeq as ce
from tests.messages import messages

SUM = 0.5 * ce.Mean() + 0.5 * ce.CVaR(0.1)
OPAQUE = ce.utility(np.expm1, lambda x: np.asarray(np.vectorize(math.exp)(np.minimum(x, 700.0))))
TWO = [ce.CVaR(0.1), ce.Mean()]

MESSAGES = {
    # Parameters
    "alpha_0": (lambda: ce.CVaR(0), ValueError, "alpha", "strictly between 0 and 1"),
    "alpha_1": (lambda: ce.CVaR(1.0), ValueError, "alpha", "strictly between 0 and 1"),
    "alpha_5": (lambda: ce.CVaR(5), ValueError, "alpha", "Did you mean 0.05, that is the worst"),
    "alpha_95": (lambda: ce.CVaR(95), ValueError, "Did you mean 0.05, that is the worst"),
    "alpha_99": (lambda: ce.CVaR(99), ValueError, "Did you mean 0.01, that is the worst"),
    "alpha_97.5": (lambda: ce.CVaR(97.5), ValueError, "Did you mean 0.025, that is the worst"),
    "alpha_95_of_evar": (lambda: ce.EVaR(95), ValueError, "Did you mean 0.05"),
    "alpha_95_of_hmcr": (lambda: ce.HMCR(2, 95), ValueError, "Did you mean 0.05"),
    "alpha_negative": (lambda: ce.CVaR(-0.1), ValueError, "alpha", "found -0.1"),
    "alpha_nan": (lambda: ce.CVaR(np.nan), ValueError, "alpha", "found NaN"),
    "alpha_of_leaky": (lambda: ce.LeakyCVaR(2), ValueError, "alpha"),
    "alpha_text": (lambda: ce.CVaR("0.1"), TypeError, "alpha must be", "0.1"),
    "alpha_text_of_evar": (lambda: ce.EVaR("5%"), TypeError, "alpha must be a tail mass"),
    "alpha_complex": (lambda: ce.CVaR(1j), TypeError, "alpha must be", "1j"),
    "alpha_.95": (lambda: ce.CVaR(0.95), UserWarning, "worst 95 % of losses", "write CVaR(0.05)"),
    "beta_0": (lambda: ce.Entropic(0), ValueError, "beta must be a finite number above 0", "found 0"),
    "beta_negative": (lambda: ce.Entropic(-1), ValueError, "beta", "found -1"),
    "beta_inf": (lambda: ce.Entropic(np.inf), ValueError, "beta", "inf"),
    "beta_of_mean_variance": (lambda: ce.MeanVariance(-2), ValueError, "beta", "found -2"),
    "beta_none": (lambda: ce.Entropic(None), TypeError, "beta must be"),
    "beta_list": (lambda: ce.Entropic([1, 2]), TypeError, "beta must be"),
    "a": (lambda: ce.MonotoneMeanVariance(1.9), ValueError, "a must be a finite number not below 2", "1.9"),
    "tau_0": (lambda: ce.SmoothCVaR(0.1, 0), ValueError, "tau", "found 0"),
    "tau_negative": (lambda: ce.SmoothCVaR(0.1, -1), ValueError, "tau", "found -1"),
    "scale": (lambda: ce.CVaR(0.1).scaled(0), ValueError, "scale", "found 0"),
    "p": (lambda: ce.HMCR(0.5, 0.1), ValueError, "p must be the order of a norm", "0.5"),
    "radius_0": (lambda: ce.Entropic().ball(0), ValueError, "radius must be a finite number above 0"),
    "radius_inf": (lambda: ce.Entropic().ball(math.inf), ValueError, "radius must be a finite number"),
    "ball_of_evar": (lambda: ce.DivergenceBall(ce.EVaR(0.1), 1), TypeError, "utility must be a Utility"),
    "shift": (lambda: ce.Wang(-1), ValueError, "shift must be", "-1"),
    "rho": (lambda: ce.ProportionalHazard(0.5), ValueError, "rho must be", "0.5"),
    "k": (lambda: ce.PowerDistortion(0.5), ValueError, "k must be", "0.5"),
    "g_number": (lambda: ce.Distortion(0.5), TypeError, "g must be a function"),
    "g_convex": (lambda: ce.Distortion(np.square), ValueError, "g must be concave"),
    "g_waves": (lambda: ce.Distortion(lambda p: p + 0.1 * np.sin(40 * np.pi * p)), ValueError, "g must be concave"),
    "g_of_0": (lambda: ce.Distortion(np.exp), ValueError, "g(0) = 1"),
    "g_elementwise": (lambda: ce.Distortion(lambda p: 0.5), ValueError, "elementwise"),
    # Sums and mixtures
    "weight_negative": (lambda: -1 * ce.Mean(), ValueError, "weight", "-1"),
    "weight_nan": (lambda: np.nan * ce.Mean(), ValueError, "weight"),
    "weight_inf": (lambda: np.inf * ce.Mean(), ValueError, "weight"),
    "factor_text": (lambda: "2" * ce.Mean(), TypeError, "by a number only", "2"),
    "factor_none": (lambda: None * ce.Mean(), TypeError, "by a number only", "None"),
    "factor_utility": (lambda: ce.Mean() * ce.Mean(), TypeError, "Mean"),
    "factor_true": (lambda: True * ce.Mean(), TypeError, "by a number only", "True"),
    "sum_with_a_number": (lambda: ce.Mean() + 1, TypeError, "int"),
    "weight_of_evar": (lambda: 0.5 * ce.EVaR(0.1), TypeError, "certeq.Mixture"),
    "float64_of_wang": (lambda: np.float64(2.0) * ce.Wang(0.1), TypeError, "certeq.Mixture"),
    "utility_and_evar": (lambda: ce.CVaR(0.1) + ce.EVaR(0.1), TypeError, "certeq.Mixture"),
    "evar_and_utility": (lambda: ce.EVaR(0.1) + ce.CVaR(0.1), TypeError, "certeq.Mixture"),
    "mixture_of_none": (lambda: ce.Mixture([1], []), ValueError, "found 1 weights and 0 risks"),
    "mixture_sum": (lambda: ce.Mixture([1, 2], TWO), ValueError, "Did you mean [0.3333, 0.6667]"),
    "mixture_negative": (lambda: ce.Mixture([1.5, -0.5], TWO), ValueError, "weights[1] must be"),
    "mixture_number": (lambda: ce.Mixture([1], [0.05]), TypeError, "risks[0] must be a risk"),
    "mixture_no_list": (lambda: ce.Mixture(1, ce.CVaR(0.1)), TypeError, "weights must be a list"),
    "set_unknown": (lambda: ce.SmoothCVaR(0.1).set_params(beta=1), ValueError, "'beta'", "it has: alpha, tau"),
    "set_alpha": (lambda: ce.SmoothCVaR(0.1).set_params(alpha=2.0), ValueError, "alpha must be a tail mass"),
    "set_utility": (lambda: ce.CVaR(0.1).scaled(2.0).set_params(utility="x"), TypeError, "made of utilities", "x"),
    "set_normalized": (lambda: ce.Quartic().normalized().set_params(utility=3), TypeError, "made of utilities", "3"),
    "set_term": (lambda: SUM.set_params(term_1="x"), TypeError, "made of utilities", "x"),
    "set_terms": (lambda: SUM.set_params(terms=("a", "b")), TypeError, "made of utilities", "a"),
    "set_weights": (lambda: SUM.set_params(weights=(0.5,)), ValueError, "one weight per term", "1 weights and 2 terms"),
    # Custom utilities
    "printed": (lambda: ce.utility(lambda x: 0.05 * np.logaddexp(0, x / 0.05)), ValueError, "printed smooth CVaR"),
    "log1p": (lambda: ce.utility(lambda x: 0.05 * np.log1p(np.exp(x / 0.05))), ValueError, "printed smooth CVaR"),
    "concave": (lambda: ce.utility(lambda x: -np.exp(-x)), ValueError, "convex"),
    "square": (lambda: ce.utility(lambda x: x**2), ValueError, "increasing"),
    "decreasing": (lambda: ce.utility(lambda x: -x), ValueError, "increasing"),
    "slope_1": (lambda: ce.utility(lambda x: x), ValueError, "strictly inside its range"),
    "slopes_above": (lambda: ce.utility(lambda x: 2 * x + np.maximum(x, 0)), ValueError, "strictly inside its range"),
    "slopes_below": (lambda: ce.utility(lambda x: 0.5 * x + 0.3 * np.maximum(x, 0)), ValueError, "strictly inside"),
    "barrier": (lambda: ce.utility(lambda x: -np.log(1 - x)), ValueError, "finite for every loss"),
    "overflow": (lambda: ce.utility(lambda x: 5 * np.log1p(np.exp(x))), ValueError, "overflows"),
    "nan": (lambda: ce.utility(lambda x: np.full_like(np.asarray(x, dtype=float), np.nan)), ValueError, "not a number"),
    "math": (lambda: ce.utility(lambda x: math.exp(x)), TypeError, "np.exp rather than math.exp"),
    "no_derivative": (
        lambda: ce.utility(lambda x: np.expm1(x) + 0 * special.ndtri_exp(-np.abs(x) - 1)), TypeError, "Pass du=",
    ),
    "square_root": (lambda: ce.utility(lambda x: (x + np.sqrt(x**2)) / 2 / 0.3), ValueError, "pass du="),
    "no_function": (lambda: ce.utility(3), TypeError, "u must be a function", "3"),
    "kinks": (lambda: ce.utility(np.expm1, kinks=(2.0,)), ValueError, "kinks names x = 2"),
    "du": (lambda: ce.utility(np.expm1, lambda x: np.exp(0.9 * x)), ValueError, "du is not the derivative of u"),
    "du_slightly": (
        lambda: ce.utility(np.expm1, lambda x: np.exp(x) * (1 + 0.02 * x / (1 + x * x))),
        ValueError, "du is not the derivative",
    ),
    "d2u": (lambda: ce.utility(np.expm1, np.exp, lambda x: 2 * np.exp(x)), ValueError, "d2u is not the derivative of"),
    "d2u_0": (
        lambda: ce.utility(lambda x: 20 * 0.01 * np.logaddexp(0, x / 0.01), d2u=lambda x: 0 * x),
        ValueError, "d2u is not the derivative",
    ),
    "writes": (lambda: ce.utility(lambda x: np.expm1(x, out=x)), ValueError, "u writes into the array it is given"),
    "no_curvature": (lambda: OPAQUE.curvature(0.0), TypeError, "pass d2u="),
}  # fmt: skip

test_message = messages(MESSAGES)

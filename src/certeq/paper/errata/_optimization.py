"""Gradient, smoothness and the convergence of OCE-SG."""

from __future__ import annotations

import math

import numpy as np

import certeq as ce
from certeq.optimize import inverse_sqrt, oce_smoothness
from certeq.paper import bounds as paper
from certeq.paper import convergence
from certeq.paper._statistics import slope
from certeq.paper.errata._measures import Finding


def gradient_theorem() -> Finding:
    """MMV with a = 2 has a kink in its slope, and the gradient formula holds all the same."""
    utility, A = ce.MonotoneMeanVariance(2), np.random.default_rng(1).normal(size=(300, 3)) * 3.0
    theta, h = np.array([0.5, 0.3, 0.2]), 1e-5
    curved = float(np.mean(A @ theta - float(ce.threshold(A @ theta, utility)) < -1.0))
    gradient = ce.tilt(A @ theta, utility) @ A
    steps = h * np.eye(3)
    difference = np.array([ce.oce(A @ (theta + s), utility) - ce.oce(A @ (theta - s), utility) for s in steps]) / (
        2 * h
    )
    off = float(np.max(np.abs(gradient - difference)))
    return Finding(
        "Theorem 1",
        "a continuous slope and a dominated gradient suffice",
        "u is twice differentiable",
        f"MMV 2, {100 * curved:.0f} % of the losses beyond the kink: formula and differences agree to {off:.1e}",
        0.05 < curved < 0.95 and off < 1e-6,
        stands=True,
    )


def smoothness() -> Finding:
    """A linear loss has L_F = 0, and its risk is curved."""
    beta, xi = 3.0, np.array([[1.0], [-1.0]])
    loss, h = ce.LinearLoss(xi), 1e-3

    def risk(theta: float) -> float:
        return float(ce.oce(xi[:, 0] * theta, ce.Entropic(beta)))

    curvature = (risk(h) - 2.0 * risk(0.0) + risk(-h)) / h**2
    constant = oce_smoothness(loss, ce.Entropic(beta))
    return Finding(
        "Smoothness lemma",
        "L_OCE = L_F + kappa_u M^2; the printed chain of inequalities gives weak convexity",
        "OCE is as smooth as F",
        f"F = theta xi, xi = +-1, entropic 3: L_F = {loss.smoothness(None):g}, curvature at 0 {curvature:.4f}, L_OCE "
        f"{constant:g}",
        loss.smoothness(None) == 0.0 and abs(curvature - beta) < 1e-3 and constant >= curvature - 1e-3,
    )


def gradient_error() -> Finding:
    """The bound scales with M where the error scales with M^2."""
    found = paper.gradient_error(50, 100.0)
    return Finding(
        "Gradient estimate, MSE",
        "2 (M^2 sigma_1^2 + T^2)/m",
        "2 (M sigma_1^2 + T^2)/m",
        f"M = 100, m = 50: MSE {found['mse']:.2f}, printed {found['printed']:g}, corrected {found['corrected']:g}",
        found["printed"] < found["mse"] <= found["corrected"],
    )


def portfolio_remark() -> Finding:
    """Linear losses are smooth, Gaussian returns have no sub-Gaussian square, and the rate is 1/m all the same."""
    z = np.linspace(0.0, 60.0, 600_001)
    tails = []
    for reach in (20.0, 40.0, 60.0):  # log of E exp(0.01 xi^4) up to |xi| = reach; -z^2/2 loses to any multiple of z^4
        tails.append(float(np.max(0.01 * z[z <= reach] ** 4 - 0.5 * z[z <= reach] ** 2)))
    rng, theta, sizes, errors = np.random.default_rng(2), np.array([0.6, 0.4]), (32, 128, 512), []
    for m in sizes:
        xi = rng.normal(size=(1500, m, 2))
        q = ce.tilt(xi @ theta, ce.Entropic(1.0), axis=1)
        estimate = np.einsum("rm,rmd->rd", q, xi)  # the true gradient of |theta|^2/2 is theta
        errors.append(float(np.mean(np.sum(np.square(estimate - theta), axis=1))))
    rate = slope(sizes, errors)
    return Finding(
        "Remark on portfolios",
        "F is smooth with L = 0, and the MSE of the gradient is O(polylog/m) for Gaussian returns",
        "F is not smooth; the square of the norm of xi is sub-Gaussian; O(1/sqrt(m))",
        f"Gaussian xi: log integrand of E exp(0.01 xi^4) reaches {tails[0]:.0f}, {tails[1]:.0f}, {tails[2]:.0f} within "
        f"20, 40, 60; slope of the MSE {rate:.2f}",
        tails[0] < tails[1] < tails[2] and tails[2] > 1e4 and rate < -0.85 and ce.LinearLoss().smoothness(None) == 0.0,
    )


def listing() -> Finding:
    """One step of OCE-SG, by hand."""
    A, theta, step = np.random.default_rng(3).normal(size=(50, 3)), np.full(3, 1.0 / 3.0), 0.1
    utility = ce.Entropic(2.0)
    found = ce.minimize(
        ce.LinearLoss(A), utility, domain=ce.Free(), method="sg", theta0=theta, batch="full", step=step, average="last",
        iterations=1, progress=False,
    ).theta  # fmt: skip
    weight = np.asarray(utility.slope(A @ theta - float(ce.threshold(A @ theta, utility)))) / len(A)
    off = float(np.max(np.abs(found - (theta - step * weight @ A))))
    return Finding(
        "OCE-SG, listing",
        "Q by the gradient estimator, at theta_(k-1)",
        "Q by the equation of OCE_m, a number",
        f"one step differs from theta_0 - alpha Q(theta_0) by {off:.1e}",
        off < 1e-14,
    )


def strongly_convex() -> Finding:
    """Without noise, on diag(1, 4), the printed bound is broken after three steps; a constant step keeps its word."""
    curvature, c, n, z = np.array([1.0, 4.0]), 1.1, 3, np.array([0.0, 1.0])
    steady = np.ones(2)
    for k in range(1, n + 1):
        z = z - c / k * curvature * z
        steady = steady - curvature * steady / curvature.max()
    error, printed = float(z @ z), (n + 1.0) ** (-2.0 * curvature.min() * c)
    B = (c * curvature.max()) ** 2 * math.pi**2 / 6.0
    corrected = math.exp(B) * (n + 1.0) ** (-2.0 * curvature.min() * c)
    promise = (1.0 - curvature.min() / curvature.max()) ** (2 * n) * 2.0
    return Finding(
        "Convergence, strongly convex",
        "a factor e^B, B = c^2 L^2 pi^2/6, is missing; constant steps 1/L_OCE contract by 1 - mu/L instead",
        "the product of contractions is at most (n + 1)^(-2 mu c)",
        f"c = {c}, n = {n}, no noise: squared error {error:.3f} > {printed:.4f}; with e^B {corrected:.1e}; constant "
        f"step {float(steady @ steady):.2g} <= {promise:.2g}",
        printed < error <= corrected and float(steady @ steady) <= promise,
    )


def convex() -> Finding:
    """OCE = |theta|: no smoothness constant, and the bound for the weighted mean of theta_(k-1) holds."""

    def distance(theta: np.ndarray, xi: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.full(len(xi), abs(theta[0])), np.full((len(xi), 1), np.sign(theta[0] or 1.0))

    loss, worst = ce.CallableLoss(distance, samples=np.zeros((1, 1)), convex=True), 0.0
    for n in (10, 100, 1000):
        found = ce.minimize(
            loss, ce.Mean(), domain=ce.Free(), method="sg", theta0=[3.0], batch="full", step=inverse_sqrt(1.0),
            average="weighted", iterations=n, log_every=n, progress=False,
        )  # fmt: skip
        k = np.arange(1, n + 1)
        worst = max(worst, found.value / ((4.5 + 0.5 * np.sum(1.0 / k)) / np.sum(k**-0.5)))
    linear = ce.LinearLoss(np.array([[1.0], [-1.0]]))
    K = linear.smoothness(None)
    return Finding(
        "Convergence, convex",
        "L_OCE in the step; the mean of theta_(k-1); C_2 grows as ln^2 n, or [D^2/2 + ... + M^2/2 sum a^2]/sum a",
        "steps 1/(K sqrt(k)) with K the constant of F; the mean of theta_k; C_2 constant",
        f"linear F: K = {K:g}, so the printed step is infinite, L_OCE = {oce_smoothness(linear, ce.Entropic(1.0)):g}; "
        f"|theta|: error over the corrected bound at most {worst:.2f}",
        K == 0.0 and worst <= 1.0,
    )


def non_convex() -> Finding:
    """A projection may hold an iterate where the gradient is not small; and a factor L is lost."""
    theta = -1.0
    for k in range(1, 101):
        theta = min(1.0, max(-1.0, theta - 4.0 * math.sin(4.0 * (theta - 0.5)) / (16.0 * math.sqrt(k))))
    stuck = (4.0 * math.sin(4.0 * (theta - 0.5))) ** 2
    mapping = theta - min(1.0, max(-1.0, theta - 4.0 * math.sin(4.0 * (theta - 0.5)) / 16.0))
    L, gap = 100.0, 50.0  # f = L theta^2/2 from theta_0 = 1, n = 1: the squared gradient is L^2
    return Finding(
        "Convergence, non-convex",
        "(2 L Delta + 2.612 C_2)/sqrt(n) without constraints; the gradient mapping with them",
        "C_3/sqrt(n), with a projection, C_3 the constant of the convex case",
        f"-cos(4 (theta - 1/2)) on [-1, 1]: stuck at {theta:g}, squared gradient {stuck:.3f}, mapping {mapping:g}; "
        f"L theta^2/2, n = 1: {L**2:g} > {L:g}, corrected {2 * L * gap:g}",
        theta == -1.0 and abs(stuck - 1.249) < 1e-3 and mapping == 0.0 and L < L**2 <= 2.0 * L * gap,
    )


def gradient_at_the_optimum() -> Finding:
    """On the simplex an interior optimum has equal partial derivatives, not zero ones."""
    theta = convergence.simplex_optimum()
    gradient = convergence.MEAN + convergence.CURVATURE * theta
    return Finding(
        "Convergence, assumption",
        "the projected step does not move theta*: the gradient is lambda (1, ..., 1)",
        "the gradient at theta* is 0",
        f"theta* = ({', '.join(f'{x:.3f}' for x in theta)}), gradient ({', '.join(f'{x:.3f}' for x in gradient)})",
        bool(theta.min() > 0.0) and float(np.ptp(gradient)) < 1e-12 and abs(float(gradient[0])) > 0.1,
    )


CHECKS = (
    gradient_theorem,
    smoothness,
    gradient_error,
    portfolio_remark,
    listing,
    strongly_convex,
    convex,
    non_convex,
    gradient_at_the_optimum,
)

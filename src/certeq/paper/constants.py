r"""The bounds of the gradient estimate and of OCE-SG, with every constant, as printed and as corrected.

C1 and C2 are those of the gradient: E norm(error) <= C1/sqrt(m), E norm(error)^2 <= C2/m. The paper's theorem names C1,
C2 and C3 once more, for its three regimes; they are the brackets of its appendix in K1 to K5, and are called by those
here. The proofs of the corrected forms are on the page Proofs of the documentation.

Below the bounds are runs that come as near to them as any that were found: the noise of every step is as large as C1
and C2 allow and points away from the optimum, so that a bound with a term missing is broken.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

Form = Literal["printed", "corrected"]
ZETA = 2.6123753486854883  # sum of k^(-3/2)


def gradient_mae_bound(m: int, gradient_bound: float, slope_deviation: float, gradient_deviation: float) -> float:
    """(M sigma_1 + T)/sqrt(m), true as printed (line 421) wherever u' is continuous."""
    return (gradient_bound * slope_deviation + gradient_deviation) / math.sqrt(m)


def unbounded_gradient_mae_bound(
    m: int, slope_deviation: float, largest: float, gradient_deviation: float, form: Form = "corrected"
) -> float:
    """Appendix, second gradient lemma: gradients without a bound, E max norm^2 <= S1 sqrt(ln m) with S1 = ``largest``.

    Printed (line 889) with S1 ln m, where its own proof has S1 sqrt(ln m).
    """
    power = 1.0 if form == "printed" else 0.5
    return (slope_deviation * math.sqrt(largest * math.log(m) ** power) + gradient_deviation) / math.sqrt(m)


def unbounded_gradient_mse_bound(
    m: int, slope_variance: float, slope_fourth: float, largest_fourth: float, gradient_deviation: float
) -> float:
    """Corrected: 2 [sqrt(S2 sqrt(ln m)) sqrt(3 sigma^4 + mu4/m) + T^2]/m, S2 sqrt(ln m) >= E max norm^4.

    mu4 is the fourth central moment of u'. `unbounded_gradient_mse_printed` is the printed form (line 893).
    """
    second = math.sqrt(3.0 * slope_variance**2 + slope_fourth / m)
    return 2.0 * (math.sqrt(largest_fourth * math.sqrt(math.log(m))) * second + gradient_deviation**2) / m


def unbounded_gradient_mse_printed(
    m: int, slope_deviation: float, largest: float, largest_fourth: float, lipschitz: float, moment: float,
    gradient_deviation: float,
) -> float:  # fmt: skip
    """Line 893: (sigma_1 S1 + 2 sqrt(2) S2^2 L1^3 M1^3) ln(m)/sqrt(m) + 2 T^2/m, u' with the Lipschitz constant L1.

    M1 = ``moment`` is the fourth central moment of F. Its proof rests on E[AB] <= E[A^2] E[B^2], has S2^2 where the
    assumption gives S2, and bounds a sixth moment by M1^3; a rare gradient breaks it (`bounds.rare_gradient`).
    """
    first = slope_deviation * largest + 2.0 * math.sqrt(2.0) * largest_fourth**2 * (lipschitz * moment) ** 3
    return first * math.log(m) / math.sqrt(m) + 2.0 * gradient_deviation**2 / m


def strongly_convex_constants(mu: float, L: float, c: float, C1: float, C2: float) -> tuple[float, float, float]:
    """K1, K2 and K3 as printed (line 1055), for steps c/k and batches of k, c > 1/mu."""
    K1 = 2.0 ** (2.0 * mu * c) * c**2 * C2 / (2.0 * mu * c - 2.0)
    K2 = 2.0 ** (2.0 * mu * c + 2.0) * (1.0 + c * L) * c * C1 * math.exp((c * L * math.pi) ** 2 / 12.0)
    return K1, K2, 2.0 ** (mu * c) * c * C1 * K2


def strongly_convex_bound(
    n: int, mu: float, L: float, c: float, C1: float, C2: float, distance: float, form: Form = "corrected"
) -> float:
    """E norm(theta_n - theta*)^2 with steps c/k: the printed bound (line 935), or e^B times it, B = (c L pi)^2/6.

    L is that of F as printed, that of OCE where corrected. ``distance`` is that of theta_0.
    """
    K1, K2, K3 = strongly_convex_constants(mu, L, c, C1, C2)
    printed = (distance**2 + K1) / (n + 1.0) ** 2 + K2 * distance / (n + 1.0) ** 1.5 + K3 / (n + 1.0)
    return printed if form == "printed" else float(math.exp((c * L * math.pi) ** 2 / 6.0) * printed)


def constant_step_bound(n: int, mu: float, L: float, C2: float, distance: float) -> float:
    """E norm(theta_n - theta*)^2 with steps 1/L_OCE and batches of k: r_n <= (1 - mu/L) r_{n-1} + sqrt(C2/n)/L."""
    r = distance
    for k in range(1, n + 1):
        r = (1.0 - mu / L) * r + math.sqrt(C2 / k) / L
    return r * r


def convex_bound(n: int, L: float, C1: float, C2: float, distance: float) -> float:
    """K4/sqrt(n) of the appendix (line 1115), for the mean of theta_0 to theta_{n-1}: right with L = L_OCE.

    It holds 1 + ln n and its square, which the theorem of the main text (line 445) calls a constant C2.
    """
    log = 1.0 + math.log(n)
    K4 = L * distance**2 + 2.0 * C1 * distance * log + 2.0 * (C1 * log) ** 2 / L + C2 * math.pi**2 / (6.0 * L)
    return K4 / math.sqrt(n)


def convex_bound_without_logarithm(n: int, L: float, bias: float, C2: float, diameter: float) -> float:
    """The same schedule and mean, where the bias of the gradient is at most ``bias``/m: no ln n is left."""
    return (L * diameter**2 + 2.0 * ZETA * diameter * bias + C2 * math.pi**2 / (6.0 * L)) / math.sqrt(n)


def convex_bound_fixed_batch(n: int, m: int, L: float, C1: float, C2: float, distance: float) -> float:
    """The appendix's chain of inequalities (line 1107) with m_k = m: its double sum grows as sqrt(n)/m."""
    steps = 1.0 / (L * np.sqrt(np.arange(1, n + 1)))
    total, noise = float(steps.sum()), C1 / math.sqrt(m)
    squares = float(np.square(steps).sum())
    pairs = 0.5 * (total**2 - squares)
    terms = distance**2 + 2.0 * distance * noise * total + 2.0 * noise**2 * pairs + C2 / m * squares
    return L / math.sqrt(n) * terms


def subgradient_bound(steps: np.ndarray, noise: np.ndarray, diameter: float, gradient_bound: float) -> float:
    """Convex, smooth or not, for the step-weighted mean of theta_{k-1}: the corrected form."""
    top = 0.5 * diameter**2 + diameter * float(steps @ noise) + 0.5 * gradient_bound**2 * float(steps @ steps)
    return top / float(steps.sum())


def non_convex_bound(
    n: int, L: float, C1: float, C2: float, distance: float, excess: float, form: Form = "corrected"
) -> float:
    """E min norm(gradient)^2 with steps 1/(L sqrt(k)): printed K5 = K4 (line 1141), corrected 2 L Delta + 2.613 C2.

    ``excess`` is Delta = OCE(theta_0) - inf OCE. No projection.
    """
    if form == "printed":
        return convex_bound(n, L, C1, C2, distance)
    return (2.0 * L * excess + ZETA * C2) / math.sqrt(n)


def bisection_mae_bound(m: int, lipschitz: float, residual: float, size: float, form: Form = "corrected") -> float:
    """E |s_hat - OCE|, delta = 1/sqrt(m), epsilon = d2 = ``residual``: (d2 + 39 K T)/sqrt(m), or (d2 + K J1)/sqrt(m).

    ``size`` is T as printed (line 772), J1 where corrected.
    """
    return (residual + (39.0 if form == "printed" else 1.0) * lipschitz * size) / math.sqrt(m)


def bisection_mse_bound(m: int, lipschitz: float, residual: float, size: float, form: Form = "corrected") -> float:
    """E (s_hat - OCE)^2 likewise: (2 d2^2 + 216 K^2 T^2)/sqrt(m) (line 773), or 2 (d2^2 + K^2 J1^2)/m."""
    if form == "printed":
        return (2.0 * residual**2 + 216.0 * (lipschitz * size) ** 2) / math.sqrt(m)
    return 2.0 * (residual**2 + (lipschitz * size) ** 2) / m


def strongly_convex_run(n: int, curvature: float, c: float, C1: float, distance: float) -> float:
    """(theta_n - theta*)^2 of steps c/k on curvature theta^2/2; noise of C1/sqrt(k) away from 0, so that C2 = C1^2."""
    z = distance
    for k in range(1, n + 1):
        z = abs(1.0 - c / k * curvature) * z + c / k * C1 / math.sqrt(k)
    return z * z


def strongly_convex_recursion(
    n: int, mu: float, L: float, c: float, C1: float, C2: float, distance: float
) -> tuple[float, float]:
    """The two recursions of the proof, unrolled: E norm(z_n)^2 and E norm(z_n), which K1 to K3 are to cover.

    With C1 = 0 and L = mu they are exact for rare noise: it is 0 but for odds p, so that C1 is sqrt(p C2).
    """
    square, size = distance**2, distance
    for k in range(1, n + 1):
        a = c / k
        contraction = 1.0 - 2.0 * a * mu + (a * L) ** 2
        square = contraction * square + 2.0 * a * (1.0 + c * L) * C1 / math.sqrt(k) * size + a * a * C2 / k
        size = math.sqrt(contraction) * size + a * C1 / math.sqrt(k)
    return square, size


def convex_run(n: int, slope: float, C1: float, distance: float) -> float:
    """f(mean of theta_0 to theta_(n-1)), steps 1/sqrt(k), f = theta^2/2 up to ``slope`` and linear beyond: L = 1.

    The noise is C1/sqrt(k) and points away from the optimum 0, so that C2 = C1^2.
    """
    z, total = distance, 0.0
    for k in range(1, n + 1):
        total += z
        z += (C1 / math.sqrt(k) - min(z, slope)) / math.sqrt(k)
    mean = total / n
    return 0.5 * mean**2 if mean < slope else slope * (mean - 0.5 * slope)


def convex_run_rare(n: int, curvature: float, C2: float) -> float:
    """E f(mean) of steps 1/sqrt(k) from the optimum of curvature theta^2/2, noise of mean 0 and variance C2/k.

    The noise may be 0 but for tiny odds, so that C1 is as small as one likes. L = 1 serves any curvature up to 1.
    """
    steps = np.arange(1, n + 1) ** -0.5
    reach, weights = 0.0, np.zeros(n)  # of the noise of step k in the sum of theta_0 to theta_(n-1)
    for k in range(n - 1, 0, -1):
        reach = 1.0 + (1.0 - steps[k] * curvature) * reach
        weights[k - 1] = steps[k - 1] * reach
    return float(0.5 * curvature * C2 * np.sum(np.square(weights) / np.arange(1, n + 1)) / n**2)


def convex_sums(n: int, L: float, C1: float, C2: float, distance: float) -> tuple[float, float, float, float]:
    """The four sums of the proof (line 1107, with 1/k and 1/j in the double one) that the four terms of K4 cover."""
    k = np.arange(1, n + 1)
    harmonic, squares = float(np.sum(1.0 / k)), float(np.sum(1.0 / k**2))
    return (
        L * distance**2,
        2.0 * C1 * distance * harmonic,
        C1**2 / L * (harmonic**2 - squares),  # twice the sum over j < k
        C2 / L * squares,
    )


def held_run(n: int, bias: float) -> float:
    """f(mean) of theta^2/2 on [0, 1] from 1, steps 1/sqrt(k), a bias of -``bias``/k.

    With a bias of n the iterate stays at 1, as the bias outweighs the gradient up to step n.
    """
    theta, total = 1.0, 0.0
    for k in range(1, n + 1):
        total += theta
        theta = min(1.0, max(0.0, theta - (theta - bias / k) / math.sqrt(k)))
    return 0.5 * (total / n) ** 2


def coin_run(n: int) -> tuple[float, float]:
    """E f(mean) of theta^2/2 on [0, 1] from 1, noise of +-2 sqrt(k) with equal odds, and C2 = 4 n^2 that allows it.

    A step of either sign ends at an end of the set, so that every iterate but the first is 0 or 1 by a fair coin.
    """
    mean = (1.0 + 0.5 * (n - 1)) / n
    return 0.5 * (mean**2 + 0.25 * (n - 1) / n**2), 4.0 * n**2


def non_convex_run(n: int, C2: float) -> float:
    """Least squared gradient of theta^2/2 from 1 over n steps of 1/sqrt(k); the noise cancels what it can of it."""
    theta, least = 1.0, math.inf
    for k in range(1, n + 1):
        least = min(least, theta**2)
        theta -= max(0.0, theta - math.sqrt(C2 / k)) / math.sqrt(k)
    return least

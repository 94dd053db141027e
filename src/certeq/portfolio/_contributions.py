"""Who carries the risk: a share for each asset, and the shares add up."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from certeq.risk import oce, tilt
from certeq.utilities import Utility

Floats = NDArray[np.float64]
_NODES = (4, 8, 16, 32, 64, 128)


def risk_contributions(A: Floats, w: Floats, utility: Utility, weights: Floats | None, at_w: Floats) -> Floats:
    r"""Aumann-Shapley shares of the assets in OCE(A w) - OCE(0).

    .. math:: \mathrm{RC}_j = w_j \int_0^1 \partial_j\,\mathrm{OCE}(A\,s w)\,ds
                            = w_j \int_0^1 \sum_t q_t(s) A_{tj}\,ds, \qquad
              \sum_j \mathrm{RC}_j = \mathrm{OCE}(A w) - \mathrm{OCE}(0)

    with q(s) the tilt at s w. A coherent risk has the same tilt all along the ray, and then this is Euler's
    :math:`w_j \partial_j \mathrm{OCE}`; for it ``at_w``, a tilt at w, says which of the subgradients is meant.

    The integral is taken by Gauss-Legendre rules until the shares add up to 1e-12 of their size; what a rule leaves
    over, because q(s) has kinks, is spread in proportion to the shares' size.
    """
    total = float(oce(A @ w, utility, weights)) - utility.oce_of_zero
    losses = A @ w
    if utility.is_coherent:
        shares = w * (at_w @ A)
    else:
        for count in _NODES:
            place, mass = np.polynomial.legendre.leggauss(count)
            mean_tilt = np.zeros(len(losses))
            for s, m in zip(0.5 * (place + 1.0), 0.5 * mass, strict=True):
                mean_tilt += m * tilt(s * losses, utility, weights)
            shares = w * (mean_tilt @ A)
            if abs(total - shares.sum()) <= 1e-12 * np.abs(shares).sum():
                break
    size = np.abs(shares).sum()
    return shares + (total - shares.sum()) * np.abs(shares) / size if size > 0.0 else shares

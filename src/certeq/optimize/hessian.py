"""Second derivatives of OCE for smooth utilities: the matrix, and its product with a vector."""

from __future__ import annotations

from typing import Any

import numpy as np

from certeq._checks import check_array
from certeq.optimize.losses import Loss, Objective
from certeq.optimize.losses._base import Floats
from certeq.utilities import Utility


def hessian(loss: Loss, utility: Utility, theta: Any, samples: Any = None, weights: Any = None) -> Floats:
    r"""Hessian of :math:`\theta \mapsto \mathrm{OCE}_u(F(\theta, \xi))`.

    .. math:: \nabla^2 = E[u'\,F''] + E[u'']\,\mathrm{Cov}_w(\nabla F), \qquad w = u''/E[u''],

    all at F - t*. Exact, not a difference quotient; for a convex loss and a monotone utility it is positive
    semidefinite up to rounding, because the covariance is formed from centered gradients.

    Parameters
    ----------
    loss : Loss
        F, with a Jacobian and second derivatives.
    utility : Utility
        The utility u, without kinks.
    theta : array (d,)
        The point.
    samples : array or tuple of arrays, optional
        Other samples than the loss's own.
    weights : array (n,), optional
        Weights of the samples, scaled to sum to 1.

    Returns
    -------
    array (d, d)
        The Hessian, symmetric.

    Raises
    ------
    ValueError
        If u has a kink: OCE then has no Hessian in general.

    See Also
    --------
    hessian_product
        Hessian of OCE times a vector.
    minimize
        Minimize the OCE of losses over a feasible set.

    Notes
    -----
    Monotone mean-variance with a = 2 has a curvature that jumps; the matrix is then an element of the generalized
    Hessian.

    Not for thousands of variables: `hessian_product` needs no d x d matrix.

    Examples
    --------
    >>> from certeq import hessian
    >>> import numpy as np, certeq as ce
    >>> from certeq.optimize.losses import LinearLoss
    >>> A = np.array([[1.0, 0.0], [-1.0, 2.0]])
    >>> hessian(LinearLoss(A), ce.MeanVariance(beta=0.5), [0.0, 0.0])
    array([[ 1., -1.],
           [-1.,  1.]])
    """
    second = _SecondOrder(loss, utility, theta, samples, weights)
    J = loss.jacobian(second.theta, second.samples)
    inner = loss.hessian(second.theta, second.samples, second.tilt)
    if second.curvature_sum == 0.0:
        return inner
    centered = J - (second.curvature @ J) / second.curvature_sum
    total = inner + centered.T @ (second.curvature[:, None] * centered)
    return np.asarray(0.5 * (total + total.T))


def hessian_product(
    loss: Loss, utility: Utility, theta: Any, v: Any, samples: Any = None, weights: Any = None
) -> Floats:
    r"""Hessian of OCE times v, without forming a matrix: two passes over the samples for linear losses.

    .. math:: \nabla^2 v = E[u'\,F'' v] + E[u'']\,\mathrm{Cov}_w(\nabla F, \nabla F \cdot v), \qquad w = u''/E[u'']

    Parameters
    ----------
    loss : Loss
        F, with a Jacobian and second derivatives.
    utility : Utility
        The utility u, without kinks.
    theta : array (d,)
        The point.
    v : array (d,)
        The vector.
    samples : array or tuple of arrays, optional
        Other samples than the loss's own.
    weights : array (n,), optional
        Weights of the samples, scaled to sum to 1.

    Returns
    -------
    array (d,)
        The product.

    Raises
    ------
    ValueError
        If u has a kink: OCE then has no Hessian in general.

    See Also
    --------
    hessian
        Hessian of OCE, as a matrix.
    minimize
        Minimize the OCE of losses over a feasible set.

    Notes
    -----
    For few variables `hessian` is as fast.

    Examples
    --------
    >>> from certeq import hessian_product
    >>> import numpy as np, certeq as ce
    >>> from certeq.optimize.losses import LinearLoss
    >>> A = np.array([[1.0, 0.0], [-1.0, 2.0]])
    >>> hessian_product(LinearLoss(A), ce.MeanVariance(beta=0.5), [0.0, 0.0], [1.0, 0.0])
    array([ 1., -1.])
    """
    second = _SecondOrder(loss, utility, theta, samples, weights)
    direction = check_array("v", v)
    if direction.size != second.theta.size:
        raise ValueError(f"v must have as many entries as theta, {second.theta.size}; found {direction.size}.")
    inner = loss.hessian_product(second.theta, second.samples, second.tilt, direction)
    if second.curvature_sum == 0.0:
        return inner
    slopes = loss.jacobian_product(second.theta, second.samples, direction)
    slopes = slopes - float(second.curvature @ slopes) / second.curvature_sum
    return np.asarray(inner + loss.gradient(second.theta, second.samples, second.curvature * slopes))


class _SecondOrder:
    """The tilt q, and the curvature w_i u''(z_i - t*) with its sum: all that both forms of the Hessian need."""

    def __init__(self, loss: Loss, utility: Utility, theta: Any, samples: Any, weights: Any) -> None:
        if utility.kinks:
            where = ", ".join(f"{kink:g}" for kink, _ in utility.kinks)
            raise ValueError(
                f"utility must be smooth; {utility!r} has a kink at {where}, so its OCE has no Hessian. Use SmoothCVaR "
                "or LeakyCVaR, or minimize(method='exact'), which needs none."
            )
        objective = Objective(loss, utility, samples, weights)
        self.theta, self.samples = check_array("theta", theta), objective.samples
        d = loss.dimension(self.samples)
        if d is not None and d != self.theta.size:
            raise ValueError(f"theta must have {d} entries, one per column of the samples; found {self.theta.size}.")
        at = objective.evaluate(self.theta)
        self.tilt = at.tilt
        with np.errstate(over="ignore", invalid="ignore"):
            curvature = np.asarray(utility.curvature(at.losses - at.threshold))
            shares = np.full(curvature.size, 1.0 / curvature.size) if objective.weights is None else objective.weights
            # Of a loss that cannot happen the curvature may overflow, and 0 * inf is not 0.
            self.curvature: Floats = np.where(shares > 0.0, shares * curvature, 0.0)
        self.curvature_sum = float(self.curvature.sum())

"""Gaussian negative log-likelihood with a log-variance head."""

from __future__ import annotations

import torch
from torch import Tensor, nn

FLOOR = 1e-6


class GaussianNLL(nn.Module):
    r"""Negative log-likelihood of y under N(m, v), one per sample.

    .. math:: F = \tfrac12\Big(\ln v + \frac{(y - m)^2}{v}\Big), \qquad v = 10^{-6} + e^s

    for a network that outputs (m, s). The constant ln(2 pi)/2 is left out. Being a loss that does not reduce, it is a
    ``base`` for `certeq.torch.OCELoss`.

    Shape:
        - output: :math:`(N, 2)`
        - target: :math:`(N)` or :math:`(N, 1)`
        - result: :math:`(N)`

    Notes
    -----
    *lightning-uq-box.* Its mean-variance models keep their criterion in the attribute ``loss_fn`` and call
    ``loss_fn(out, target)`` with ``out`` of shape (N, 2) holding the mean and the log-variance, after their own
    burn-in of squared errors. That is the interface of this base under an OCE, so the recipe is one line::

        model = MVERegression(network, burnin_epochs=20, optimizer=...)
        model.loss_fn = OCELoss(ce.Entropic(beta=0.1), base=GaussianNLL())

    The same assignment works on the members of a deep ensemble before they are trained, and models that take
    ``loss_fn`` as an argument (``DeterministicRegression(network, loss_fn=OCELoss(...))``) take any ``OCELoss`` whose
    base fits their output. That package is not a dependency and is not needed here.

    Not with a large beta of an entropic utility: the risk of the population is infinite where
    v(x) <= beta * Var(y | x), so a small beta is safe, and a large one asks for variances that are too large.

    Examples
    --------
    >>> import torch, certeq as ce
    >>> from certeq.learn import GaussianNLL
    >>> from certeq.torch import OCELoss
    >>> out, y = torch.tensor([[0.0, 0.0], [1.0, 0.0]]), torch.tensor([[1.0], [1.0]])
    >>> GaussianNLL()(out, y)
    tensor([5.0000e-01, 4.7684e-07])
    >>> OCELoss(ce.CVaR(0.5), base=GaussianNLL())(out, y)
    tensor(0.5000)
    """

    def forward(self, output: Tensor, target: Tensor) -> Tensor:
        """Return one loss per sample."""
        if output.ndim != 2 or output.shape[1] != 2:
            raise ValueError(f"output must have shape (N, 2), mean and log-variance; found {tuple(output.shape)}.")
        y = target[:, 0] if target.ndim == 2 and target.shape[1] == 1 else target
        if y.shape != output.shape[:1]:
            raise ValueError(f"target must have shape ({len(output)},); found {tuple(target.shape)}.")
        variance = FLOOR + torch.exp(output[:, 1])
        return 0.5 * (torch.log(variance) + torch.square(y - output[:, 0]) / variance)

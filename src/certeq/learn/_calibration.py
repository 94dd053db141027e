"""How honest are predicted standard deviations? Three figures from uncertainty-toolbox."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Calibration:
    """Mean absolute and root mean squared calibration error, and miscalibration area; 0 is perfect.

    Not a measure of accuracy: a forecast that is vague everywhere can be perfectly calibrated.

    Examples
    --------
    >>> import numpy as np
    >>> from certeq.learn import calibration
    >>> y = np.random.default_rng(0).standard_normal(2000)
    >>> found = calibration(y, np.zeros(2000), np.ones(2000))
    >>> type(found).__name__, found.mace < 0.02, found.ma < 0.02
    ('Calibration', True, True)
    """

    mace: float
    rmsce: float
    ma: float

    def __repr__(self) -> str:
        return f"Calibration(mace={self.mace:.4f}, rmsce={self.rmsce:.4f}, ma={self.ma:.4f})"


def calibration(y: Any, mean: Any, std: Any) -> Calibration:
    r"""Compare the share of y inside each central interval of N(mean, std**2) with the share that should be.

    .. math:: \mathrm{MACE} = \frac1K \sum_k |\hat p_k - p_k|, \quad
              \mathrm{RMSCE} = \sqrt{\tfrac1K \sum_k (\hat p_k - p_k)^2}, \quad
              \mathrm{MA} = \int_0^1 |\hat p(p) - p|\,dp

    over K = 100 levels p. Needs uncertainty-toolbox: ``pip install certeq[uq]``.

    Parameters
    ----------
    y, mean, std : array (n,)
        Targets, predicted means and predicted standard deviations (above 0).

    Notes
    -----
    Not to be held against 0: a perfectly calibrated model scores about 0.044 (MACE) on 50 points.

    Examples
    --------
    >>> import numpy as np
    >>> from certeq.learn import calibration
    >>> y = np.random.default_rng(0).normal(size=1000)
    >>> calibration(y, np.zeros(1000), np.full(1000, 2.0))
    Calibration(mace=0.2098, rmsce=0.2356, ma=0.2119)
    """
    try:
        import uncertainty_toolbox as toolbox
    except ImportError as error:
        raise ImportError("calibration needs uncertainty-toolbox: pip install certeq[uq]") from error
    parts = [np.asarray(part, dtype=np.float64).ravel() for part in (mean, std, y)]
    if len({part.size for part in parts}) > 1 or parts[0].size == 0:
        sizes = ", ".join(str(part.size) for part in (parts[2], parts[0], parts[1]))
        raise ValueError(f"y, mean and std must have the same length, at least 1; found {sizes}.")
    for name, part in zip(("mean", "std", "y"), parts, strict=True):
        if not np.isfinite(part).all():
            raise ValueError(f"{name} must be finite; found {part[~np.isfinite(part)][0]}.")
    if parts[1].min() <= 0.0:
        raise ValueError(f"std must be above 0; found {parts[1].min():g} at index {int(parts[1].argmin())}.")
    return Calibration(
        float(toolbox.mean_absolute_calibration_error(*parts)),
        float(toolbox.root_mean_squared_calibration_error(*parts)),
        float(toolbox.miscalibration_area(*parts)),
    )

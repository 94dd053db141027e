"""How honest are predicted standard deviations? Three figures, and the toy data on which the paper compares models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from certeq.optimize.predictor import Floats


@dataclass(frozen=True)
class Calibration:
    """Mean absolute and root mean squared calibration error, and miscalibration area; 0 is perfect.

    Not a measure of accuracy: a forecast that is vague everywhere can be perfectly calibrated.

    Attributes
    ----------
    mace : float
        Mean absolute calibration error.
    rmsce : float
        Root mean squared calibration error.
    ma : float
        Miscalibration area.

    See Also
    --------
    calibration
        Calibration errors of predicted means and deviations.

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

    over K = 100 levels p. Needs uncertainty-toolbox: ``pip install 'certeq[uq]'``.

    Parameters
    ----------
    y, mean, std : array (n,)
        Targets, predicted means and predicted standard deviations (above 0).

    Returns
    -------
    Calibration
        The three errors.

    See Also
    --------
    Calibration
        What `certeq.learn.calibration` returns.
    MVERegressor
        A network that predicts mean and standard deviation.

    Notes
    -----
    Not to be compared with 0: a perfectly calibrated model scores about 0.044 (MACE) on 50 points.

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
        raise ImportError("calibration needs uncertainty-toolbox: pip install 'certeq[uq]'") from error
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


# -- toy data: the truth is known -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ToyData:
    """Training, validation, calibration and test parts, standardized on the training part, and the truth.

    Attributes
    ----------
    X_train, X_valid, X_calibration, X_test : array (n, 1)
        Standardized points of the four parts.
    y_train, y_valid, y_calibration, y_test : array (n,)
        Standardized targets of the four parts.

    See Also
    --------
    toy_heteroscedastic
        Data with noise that depends on x.

    Examples
    --------
    >>> from certeq.learn import toy_heteroscedastic
    >>> type(toy_heteroscedastic(random_state=0)).__name__
    'ToyData'
    """

    X_train: Floats
    y_train: Floats
    X_valid: Floats
    y_valid: Floats
    X_calibration: Floats
    y_calibration: Floats
    X_test: Floats
    y_test: Floats
    _x: StandardScaler
    _y: StandardScaler

    def truth(self, X: Any) -> tuple[Floats, Floats]:
        """Return the true mean and standard deviation at standardized X, in standardized units of y.

        Parameters
        ----------
        X : array (n, 1)
            Standardized points.

        Returns
        -------
        mean : array (n,)
            Mean of y given X.
        std : array (n,)
            Standard deviation of y given X.
        """
        x = self._x.inverse_transform(np.asarray(X, dtype=np.float64).reshape(-1, 1))[:, 0]
        mean = (_mean(x) - self._y.mean_[0]) / self._y.scale_[0]
        return np.asarray(mean), np.asarray(_deviation(x) / self._y.scale_[0])

    def draw(self, n: int, random_state: Any = None) -> tuple[Floats, Floats]:
        """Return n fresh points of the same distribution, in the same standardized units.

        Parameters
        ----------
        n : int
            How many.
        random_state : int, RandomState or None
            Seed or generator.

        Returns
        -------
        X : array (n, 1)
            Points.
        y : array (n,)
            Targets.
        """
        x, y = _points(n, np.random.RandomState(random_state))
        return self._x.transform(x[:, None]), self._y.transform(y[:, None])[:, 0]

    def __repr__(self) -> str:
        sizes = [len(part) for part in (self.y_train, self.y_valid, self.y_calibration, self.y_test)]
        return "ToyData({} training, {} validation, {} calibration, {} test points)".format(*sizes)


def toy_heteroscedastic(n: int = 250, *, random_state: int = 42, split_state: int = 42) -> ToyData:
    r"""Three clusters on a line with noise that depends on where they are.

    x is N(-4, 0.4), N(0, 0.9) or N(4, 0.4) with equal odds (standard deviations), and
    :math:`y = 7\sin x + 3\,|\cos(x/2)|\,\varepsilon`. A fifth is for testing and a tenth for validation, 60/40 into
    validation and calibration; both axes are standardized on the training part.

    Parameters
    ----------
    n : int
        Points in all. With 250 there are 175, 15, 10 and 50.
    random_state, split_state : int
        Seeds of the points, by NumPy's legacy generator, and of the splits. The paper's are 42.

    Returns
    -------
    ToyData
        The four parts and the truth.

    See Also
    --------
    ToyData
        What `certeq.learn.toy_heteroscedastic` returns.
    calibration
        Calibration errors of predicted means and deviations.
    MVERegressor
        A network that predicts mean and standard deviation.

    Notes
    -----
    On the 50 test points of the default the *true* mean and deviation score MACE 0.0656, RMSCE 0.0817 and MA 0.0660:
    a model that scores less is lucky, not better calibrated. Judge on ``draw(10_000)`` as well.

    Not for ranking models on its test points alone, which are too few.

    Examples
    --------
    >>> from certeq.learn import calibration, toy_heteroscedastic
    >>> data = toy_heteroscedastic()
    >>> data
    ToyData(175 training, 15 validation, 10 calibration, 50 test points)
    >>> calibration(data.y_test, *data.truth(data.X_test))
    Calibration(mace=0.0656, rmsce=0.0817, ma=0.0660)
    """
    x, y = _points(n, np.random.RandomState(random_state))
    X_rest, X_test, y_rest, y_test = train_test_split(x[:, None], y[:, None], test_size=0.2, random_state=split_state)
    X_train, X_others, y_train, y_others = train_test_split(X_rest, y_rest, test_size=0.125, random_state=split_state)
    X_valid, X_cal, y_valid, y_cal = train_test_split(X_others, y_others, test_size=0.4, random_state=split_state)
    in_x, in_y = StandardScaler().fit(X_train), StandardScaler().fit(y_train)
    parts: list[Any] = []
    for X, target in ((X_train, y_train), (X_valid, y_valid), (X_cal, y_cal), (X_test, y_test)):
        parts += [in_x.transform(X), in_y.transform(target)[:, 0]]
    parts += [in_x, in_y]
    return ToyData(*parts)


def _mean(x: Any) -> Any:
    return 7.0 * np.sin(x)


def _deviation(x: Any) -> Any:
    return 3.0 * np.abs(np.cos(x / 2.0))


def _points(n: int, rng: np.random.RandomState) -> tuple[Floats, Floats]:
    x, y = np.empty(n), np.empty(n)
    for i in range(n):  # one point at a time: the order of the draws is part of the recipe
        r = rng.rand()
        if r < 1.0 / 3.0:
            x[i] = rng.normal(-4.0, 0.4)
        elif r < 2.0 / 3.0:
            x[i] = rng.normal(0.0, 0.9)
        else:
            x[i] = rng.normal(4.0, 0.4)
        y[i] = _mean(x[i]) + _deviation(x[i]) * rng.randn()
    return x, y

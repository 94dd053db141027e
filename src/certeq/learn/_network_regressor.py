"""A network regressor under an OCE."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_consistent_length, validate_data
from torch import nn

from certeq.learn._checks import check_sample_weight
from certeq.learn._net import one_output
from certeq.learn._network import NetworkOCE
from certeq.learn._scores import Floats


class OCENetworkRegressor(RegressorMixin, NetworkOCE):  # type: ignore[misc]
    r"""A perceptron that minimises an OCE of squared errors by Adam on mini-batches, trained by skorch.

    .. math:: \min_\theta\; \mathrm{OCE}_u\big((y_i - f(x_i; \theta))^2\big)

    Parameters
    ----------
    utility : Utility, optional
        What risk means; ``Entropic(beta=1.0)`` by default. Squared errors have the squared units of y: standardise y,
        or choose the size of an error that matters by ``utility.scaled``.
    hidden_sizes, activation, learning_rate, epochs, batch_size, weight_decay
        As in `OCENetworkClassifier`.
    early_stopping, validation_fraction, patience, warm_start, device, verbose, random_state
        As in `OCENetworkClassifier`; the held-out part is a plain random one.

    Attributes
    ----------
    net_, n_iter_, history_, n_features_in_, feature_names_in_
        As in `OCENetworkClassifier`.

    Notes
    -----
    Not for a few hundred samples or a linear truth, where `OCERegressor` is exact and faster.

    Examples
    --------
    >>> import numpy as np, certeq as ce
    >>> from certeq.learn import OCENetworkRegressor
    >>> X = np.linspace(-1, 1, 50)[:, None]
    >>> model = OCENetworkRegressor(ce.CVaR(0.2), epochs=200, random_state=0).fit(X, np.abs(X[:, 0]))
    >>> bool(model.losses(X, np.abs(X[:, 0])).max() < 0.02)
    True
    """

    def __init__(
        self,
        utility: Any = None,
        *,
        hidden_sizes: tuple[int, ...] = (32, 16),
        activation: str = "tanh",
        learning_rate: float = 3e-3,
        epochs: int = 500,
        batch_size: int = 64,
        weight_decay: float = 0.0,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        patience: int = 20,
        warm_start: bool = False,
        device: str = "cpu",
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        self.utility = utility
        self.hidden_sizes = hidden_sizes
        self.activation = activation
        self.learning_rate = learning_rate
        self.epochs = epochs
        self.batch_size = batch_size
        self.weight_decay = weight_decay
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.warm_start = warm_start
        self.device = device
        self.verbose = verbose
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> OCENetworkRegressor:
        """Fit on X (n, d) and y (n,)."""
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        weight = check_sample_weight(sample_weight, len(y))
        self._train(X, y, weight, self._base(), self._outputs, proceed=self.warm_start, strata=np.zeros(len(y)))
        return self

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> OCENetworkRegressor:
        """Train for one epoch on X and y."""
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True, reset=not hasattr(self, "net_"))
        weight = check_sample_weight(sample_weight, len(y))
        self._train(X, y, weight, self._base(), self._outputs, proceed=True, epochs=1)
        return self

    _outputs = 1

    def _base(self) -> Any:
        return one_output(nn.MSELoss(reduction="none"))

    def predict(self, X: Any) -> Floats:
        """Return the network's output."""
        return self._scores(X)[:, 0]

    def losses(self, X: Any, y: Any) -> Floats:
        """Return the squared errors, for `certeq.estimate` or a histogram."""
        predicted = self._scores(X)[:, 0]
        y = np.asarray(y, dtype=np.float64)
        check_consistent_length(predicted, y)
        return np.asarray(np.square(predicted - y))

"""A network classifier and a network regressor under an OCE."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, validate_data
from torch import nn

from certeq._checks import shown
from certeq.learn._checks import OF_SQUARED_ERRORS, check_classes, check_sample_weight, combine_weights
from certeq.learn._linear import ScoreClassifier, positions
from certeq.learn._network import ClassEntropy, NetworkOCE, one_output
from certeq.learn._scoring import sample_losses
from certeq.optimize.predictor import Floats

_FAR = 20.0  # means and deviations of y beyond it, or deviations below its inverse, are far from unit size


class OCENetworkClassifier(ScoreClassifier, NetworkOCE):
    r"""A perceptron that minimizes an OCE of cross-entropies by Adam on mini-batches, trained by skorch.

    .. math:: \min_\theta\; \mathrm{OCE}_u\big(-\ln p_{y_i}(x_i; \theta)\big)

    Parameters
    ----------
    utility : Utility, optional
        Risk measure; ``Entropic(beta=1.0)`` by default.
    hidden_sizes : tuple of int
        Widths of the hidden layers; () for a linear model.
    activation : {"tanh", "relu", "gelu", "silu", "elu", "sigmoid", "softplus", "identity"}
        Between the layers.
    learning_rate : float
        Step of Adam.
    epochs : int
        Passes over the samples.
    batch_size : int
        Samples in a batch; -1 takes all of them.
    weight_decay : float
        Factor of the squared norm of the weights that Adam adds to the loss, at least 0.
    class_weight : None, "balanced" or dict
        Weights of the classes, multiplied with the samples' own.
    early_stopping : bool
        Whether to hold out a (stratified) fraction and stop when its OCE has not improved for ``patience`` epochs; the
        best weights are kept then.
    validation_fraction : float
        Share of the samples that is held out for early stopping, in (0, 1).
    patience : int
        Epochs without improvement after which training stops.
    warm_start : bool
        Train on from the previous fit.
    device : str
        As in PyTorch.
    verbose : int
        1 prints a line per epoch.
    random_state : int, RandomState or None
        Initial weights, order of samples and the held-out part; the same number makes it bitwise reproducible.
        PyTorch's own generator is left alone.

    Attributes
    ----------
    classes_ : array
        The labels.
    net_, history_ : skorch.NeuralNet, skorch.History
        The trained net, and losses and times of every epoch.
    n_iter_ : int
        Epochs trained.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : array of str
        Their names, where X has any.

    See Also
    --------
    OCEClassifier
        Logistic regression on an OCE of cross-entropies.
    OCENetworkRegressor
        A neural network for regression on an OCE.
    certeq.torch.OCELoss
        OCE as a criterion for training.

    Notes
    -----
    Features should be standardized (``make_pipeline(StandardScaler(), ...)``). Sample weights are relative to the
    batch a sample falls into. The OCE of a batch is a little below that of the data, the more so the smaller the
    batch: with CVaR(alpha) use batches of several times 1/alpha. Training is in float32, prediction in float64. A
    weight of 2 and two copies of a sample differ in the last digit of the first step, and by more with every step that
    follows: 3e-7 of the predictions after the default epochs, but some per cent for `MVERegressor`.

    Not for a linear boundary or a few hundred samples, where `OCEClassifier` is exact.

    Examples
    --------
    >>> import numpy as np, certeq as ce
    >>> from certeq.learn import OCENetworkClassifier
    >>> X = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]] * 5)
    >>> y = np.array(["same", "other", "other", "same"] * 5)
    >>> model = OCENetworkClassifier(
    ...     ce.CVaR(0.5), epochs=100, learning_rate=0.03, random_state=0
    ... )
    >>> model.fit(X, y).predict(X[:4])
    array(['same', 'other', 'other', 'same'], dtype='<U5')
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
        class_weight: Any = None,
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
        self.class_weight = class_weight
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.warm_start = warm_start
        self.device = device
        self.verbose = verbose
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> OCENetworkClassifier:
        """Train the network.

        Parameters
        ----------
        X : array-like (n, d)
            Samples.
        y : array-like (n,)
            Labels.
        sample_weight : array-like (n,), optional
            Weights of the samples, relative to the batch that a sample falls into.

        Returns
        -------
        OCENetworkClassifier
            The fitted classifier itself.
        """
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        weight = check_sample_weight(sample_weight, len(y))
        classes, labels = np.unique(y, return_inverse=True)
        check_classes(classes if weight is None else np.unique(y[weight > 0.0]))
        weight = combine_weights(weight, self.class_weight, classes, y)
        proceed = self.warm_start and hasattr(self, "classes_") and np.array_equal(self.classes_, classes)
        self.classes_ = classes
        base, outputs = _base(len(classes))
        self._train(X, labels, weight, base, outputs, proceed=proceed, strata=labels)
        self._warn_of_few_samples(sample_losses(self, X, y), weight)
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> OCENetworkClassifier:
        """Train for one epoch on X and y.

        Parameters
        ----------
        X : array-like (n, d)
            Samples.
        y : array-like (n,)
            Labels.
        classes : array-like, optional
            All labels; the first call needs them, unless y holds them.
        sample_weight : array-like (n,), optional
            Weights of the samples, relative to the batch that a sample falls into.

        Returns
        -------
        OCENetworkClassifier
            The classifier itself.
        """
        first = not hasattr(self, "net_")
        X, y = validate_data(self, X, y, dtype=np.float64, reset=first)
        check_classification_targets(y)
        if first:
            self.classes_ = np.unique(y if classes is None else classes)
            check_classes(self.classes_)
        elif classes is not None and not np.array_equal(np.unique(classes), self.classes_):
            raise ValueError(
                f"classes must be those of the first call, {self.classes_.tolist()}; found {shown(classes)}."
            )
        labels = positions(y, self.classes_, len(y))
        weight = check_sample_weight(sample_weight, len(y))
        weight = combine_weights(weight, self.class_weight, self.classes_, y)
        base, outputs = _base(len(self.classes_))
        self._train(X, labels, weight, base, outputs, proceed=True, epochs=1)
        return self


def _base(count: int) -> tuple[Any, int]:
    """The loss of a sample and the number of outputs: one logit for two classes, else one per class."""
    if count == 2:
        return one_output(nn.BCEWithLogitsLoss(reduction="none")), 1
    return ClassEntropy(), count


class OCENetworkRegressor(RegressorMixin, NetworkOCE):  # type: ignore[misc]
    r"""A perceptron that minimizes an OCE of squared errors by Adam on mini-batches, trained by skorch.

    .. math:: \min_\theta\; \mathrm{OCE}_u\big((y_i - f(x_i; \theta))^2\big)

    Parameters
    ----------
    utility : Utility, optional
        Risk measure; ``0.9*Mean() + 0.1*CVaR(0.1)`` by default, as in `OCERegressor`. Squared errors have the squared
        units of y: standardize y, or choose the size of an error that matters by ``utility.scaled``. Targets far from
        unit size, which a network may not reach, are warned of.
    hidden_sizes : tuple of int
        Widths of the hidden layers; () for a linear model.
    activation : {"tanh", "relu", "gelu", "silu", "elu", "sigmoid", "softplus", "identity"}
        Between the layers.
    learning_rate : float
        Step of Adam.
    epochs : int
        Passes over the samples.
    batch_size : int
        Samples in a batch; -1 takes all of them.
    weight_decay : float
        Factor of the squared norm of the weights that Adam adds to the loss, at least 0.
    early_stopping : bool
        Whether to hold out a random fraction and stop when its OCE has not improved for ``patience`` epochs; the best
        weights are kept then.
    validation_fraction : float
        Share of the samples that is held out for early stopping, in (0, 1).
    patience : int
        Epochs without improvement after which training stops.
    warm_start : bool
        Train on from the previous fit.
    device : str
        As in PyTorch.
    verbose : int
        1 prints a line per epoch.
    random_state : int, RandomState or None
        Initial weights, order of samples and the held-out part; the same number makes it bitwise reproducible.
        PyTorch's own generator is left alone.

    Attributes
    ----------
    net_, history_ : skorch.NeuralNet, skorch.History
        The trained net, and losses and times of every epoch.
    n_iter_ : int
        Epochs trained.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : array of str
        Their names, where X has any.

    See Also
    --------
    OCERegressor
        Linear regression on an OCE of squared errors.
    OCENetworkClassifier
        A neural network for classification on an OCE.
    MVERegressor
        A network that predicts mean and standard deviation.

    Notes
    -----
    Not for a few hundred samples or a linear truth, where `OCERegressor` is exact and faster.

    Examples
    --------
    >>> import numpy as np, certeq as ce
    >>> from certeq.learn import OCENetworkRegressor
    >>> X = np.linspace(-1, 1, 50)[:, None]
    >>> y = np.abs(X[:, 0])
    >>> model = OCENetworkRegressor(ce.CVaR(0.2), epochs=200, random_state=0).fit(X, y)
    >>> bool(model.losses(X, y).max() < 0.02)
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
        """Train the network.

        Parameters
        ----------
        X : array-like (n, d)
            Samples.
        y : array-like (n,)
            Targets.
        sample_weight : array-like (n,), optional
            Weights of the samples, relative to the batch that a sample falls into.

        Returns
        -------
        OCENetworkRegressor
            The fitted regressor itself.
        """
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        weight = check_sample_weight(sample_weight, len(y))
        self._warn_of_units(y)
        self._train(X, y, weight, self._base(), self._outputs, proceed=self.warm_start, strata=np.zeros(len(y)))
        self._warn_of_few_samples(self.losses(X, y), weight)
        return self

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> OCENetworkRegressor:
        """Train for one epoch on X and y.

        Parameters
        ----------
        X : array-like (n, d)
            Samples.
        y : array-like (n,)
            Targets.
        sample_weight : array-like (n,), optional
            Weights of the samples, relative to the batch that a sample falls into.

        Returns
        -------
        OCENetworkRegressor
            The regressor itself.
        """
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True, reset=not hasattr(self, "net_"))
        weight = check_sample_weight(sample_weight, len(y))
        self._train(X, y, weight, self._base(), self._outputs, proceed=True, epochs=1)
        return self

    def _warn_of_units(self, y: Floats) -> None:
        mean, deviation = float(np.mean(y)), float(np.std(y))
        if not (abs(mean) <= _FAR and (deviation == 0.0 or 1.0 / _FAR <= deviation <= _FAR)):
            warnings.warn(
                f"y has mean {mean:.3g} and standard deviation {deviation:.3g}; {type(self).__name__} begins near 0 "
                "and learns targets of about unit size. Standardize y, and take predictions back to its units "
                "(scikit-learn's TransformedTargetRegressor does both).",
                UserWarning,
                stacklevel=3,
            )

    _outputs = 1
    _default = OF_SQUARED_ERRORS

    def _base(self) -> Any:
        return one_output(nn.MSELoss(reduction="none"))

    def predict(self, X: Any) -> Floats:
        """Return the network's output.

        Parameters
        ----------
        X : array-like (n, d)
            Samples.

        Returns
        -------
        array (n,)
            Predictions.
        """
        return self._scores(X)[:, 0]

    def losses(self, X: Any, y: Any) -> Floats:
        """Return the squared errors, for `certeq.estimate` or a histogram.

        Parameters
        ----------
        X : array-like (n, d)
            Samples.
        y : array-like (n,)
            Targets.

        Returns
        -------
        array (n,)
            One loss per sample.
        """
        predicted = self._scores(X)[:, 0]
        y = np.asarray(y, dtype=np.float64)
        check_consistent_length(predicted, y)
        return np.asarray(np.square(predicted - y))

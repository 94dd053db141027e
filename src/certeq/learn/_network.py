"""What the network estimators share: parameters, the skorch net inside, seeds and early stopping.

The pieces of the net follow: layers, a criterion that takes sample weights, batches. skorch does the training.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from skorch import NeuralNet
from skorch.callbacks import Callback, EarlyStopping
from skorch.dataset import Dataset
from skorch.helper import predefined_split
from torch import Tensor, nn

from certeq._checks import check_choice, check_count, check_number, shown
from certeq.learn._checks import as_risk
from certeq.optimize.predictor import Floats
from certeq.risk import tilt
from certeq.risk.solvers import warn_of_few_samples
from certeq.torch import OCELoss
from certeq.utilities import Risk

_AT_ONCE = 65536  # rows predicted, or validated on, in one go
ACTIVATIONS: dict[str, type[nn.Module]] = {
    "elu": nn.ELU,
    "gelu": nn.GELU,
    "identity": nn.Identity,
    "relu": nn.ReLU,
    "sigmoid": nn.Sigmoid,
    "silu": nn.SiLU,
    "softplus": nn.Softplus,
    "tanh": nn.Tanh,
}


class NetworkOCE(BaseEstimator):  # type: ignore[misc]
    """A perceptron trained by Adam on an OCE of its losses. Not for use by itself."""

    utility: Any
    hidden_sizes: tuple[int, ...]
    activation: str
    learning_rate: float
    epochs: int
    batch_size: int
    weight_decay: float
    early_stopping: Any
    validation_fraction: float
    patience: int
    warm_start: bool
    device: str
    verbose: int
    random_state: Any
    net_: Any
    _random: Tensor
    _default: Risk | None = None  # risk for utility=None; None for that of `as_risk`

    def _criterion(self, utility: Risk, base: Callable[[Tensor, Tensor], Tensor]) -> nn.Module:
        return PackedRisk(utility, base)

    def _callbacks(self) -> list[tuple[str, Callback]]:
        return []

    def _train(
        self,
        X: Floats,
        y: NDArray[Any],
        weight: Floats | None,
        base: Callable[[Tensor, Tensor], Tensor],
        outputs: int,
        *,
        proceed: bool,
        epochs: int | None = None,
        strata: NDArray[Any] | None = None,
    ) -> None:
        """Train for some epochs, on from where the net stands if ``proceed``, else from a new one."""
        epochs = check_count("epochs", self.epochs) if epochs is None else epochs
        if weight is not None and not weight.all():  # a sample without weight is no sample
            positive = weight > 0.0
            X, y, weight = X[positive], y[positive], weight[positive]
            strata = None if strata is None else strata[positive]
        weight = np.ones(len(y)) if weight is None else weight / weight.mean()
        inputs = _as_float32(X)
        packed = np.column_stack([y, weight]).astype(np.float32)
        valid = None
        if strata is not None and self._stops_early(*X.shape):
            inputs, packed, valid = self._hold_out(inputs, packed, strata)
        proceed = proceed and hasattr(self, "net_")
        with self._seeded(proceed):
            if not proceed:
                self.net_ = self._net(X.shape[1], outputs, base, valid is not None)
                self.net_.initialize()
            self.net_.train_split = None if valid is None else predefined_split(valid)
            self.net_.partial_fit(inputs, packed, epochs=epochs)
        self.n_iter_ = len(self.net_.history)

    def _warn_of_few_samples(self, losses: Floats, weight: Floats | None) -> None:
        if np.isfinite(losses).all():
            q = tilt(losses, as_risk(self.utility, self._default), weight)
            warn_of_few_samples(q, type(self).__name__, stacklevel=3)

    def _stops_early(self, n: int, d: int) -> bool:
        """Whether to hold out some of n samples with d features."""
        return bool(self.early_stopping)

    def _net(self, inputs: int, outputs: int, base: Callable[[Tensor, Tensor], Tensor], stops: bool) -> NeuralNet:
        callbacks: list[tuple[str, Any]] = self._callbacks()
        if stops:
            patience = check_count("patience", self.patience)
            callbacks.append(("early_stopping", EarlyStopping(patience=patience, load_best=True)))
        quiet = {} if self.verbose else {"callbacks__print_log": None}
        batch = self.batch_size if self.batch_size == -1 else check_count("batch_size", self.batch_size)
        return NeuralNet(
            Perceptron,
            self._criterion(as_risk(self.utility, self._default), base),
            module__inputs=inputs,
            module__outputs=outputs,
            module__hidden_sizes=check_hidden_sizes(self.hidden_sizes),
            module__activation=check_activation(self.activation),
            optimizer=torch.optim.Adam,
            lr=check_number("learning_rate", self.learning_rate, above=0.0),
            optimizer__weight_decay=check_number("weight_decay", self.weight_decay, least=0.0),
            batch_size=batch,
            iterator_train=Batches,
            iterator_train__shuffle=True,
            iterator_valid=Batches,
            iterator_valid__batch_size=_AT_ONCE,
            train_split=None,
            callbacks=callbacks,
            verbose=int(self.verbose),
            device=self.device,
            **quiet,
        )

    def _hold_out(self, X: Any, packed: Any, strata: NDArray[Any]) -> tuple[Any, Any, Dataset]:
        fraction = check_number("validation_fraction", self.validation_fraction, above=0.0)
        if not fraction < 1.0:
            raise ValueError(f"validation_fraction must lie strictly between 0 and 1; found {shown(fraction)}.")
        state = self._seed()
        counts = np.unique(strata, return_counts=True)[1]
        few = counts.min() < 2 or round(fraction * len(X)) < len(counts)
        X, X_valid, packed, packed_valid = train_test_split(
            X, packed, test_size=fraction, random_state=state, stratify=None if few else strata
        )
        return X, packed, Dataset(X_valid, packed_valid)

    def _seed(self) -> int:
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    @contextmanager
    def _seeded(self, proceed: bool) -> Iterator[None]:
        """Random numbers of our own: the caller's generator is left as it was, and a later call goes on from here."""
        with torch.random.fork_rng(devices=[]):
            if proceed and hasattr(self, "_random"):
                torch.set_rng_state(self._random)
            else:
                torch.manual_seed(self._seed())
            yield
            self._random = torch.get_rng_state()

    def _scores(self, X: Any) -> Floats:
        """The network's output at X. In float64, so that it does not depend on what else is predicted along with it."""
        check_is_fitted(self, "net_")
        X = _as_float32(validate_data(self, X, reset=False, dtype=np.float64))
        module = self.net_.module_.eval()
        device = next(module.parameters()).device
        dtype = torch.float32 if device.type == "mps" else torch.float64  # Metal has no float64
        state = {name: item.to(dtype) for name, item in module.state_dict().items()}
        with torch.no_grad():
            parts = [
                torch.func.functional_call(module, state, torch.as_tensor(X[i : i + _AT_ONCE]).to(device, dtype)).cpu()
                for i in range(0, len(X), _AT_ONCE)
            ]
        return np.asarray(torch.cat(parts).numpy(), dtype=np.float64)

    @property
    def history_(self) -> Any:
        """skorch's history: losses and times of every epoch."""
        check_is_fitted(self, "net_")
        return self.net_.history


def _as_float32(X: Floats) -> Any:
    with np.errstate(over="ignore"):
        small = X.astype(np.float32)
    if not np.isfinite(small).all():
        i, j = (int(k) for k in np.argwhere(~np.isfinite(small))[0])
        raise ValueError(f"X must fit into float32; found {shown(X[i, j])} at row {i}, column {j}. Scale the features.")
    return small


# -- pieces of the net ------------------------------------------------------------------------------------------------


class Perceptron(nn.Sequential):
    """Linear layers with an activation between them, initialized as PyTorch does by default."""

    def __init__(self, inputs: int, outputs: int, hidden_sizes: tuple[int, ...], activation: str) -> None:
        layers: list[nn.Module] = []
        for size in hidden_sizes:
            layers += [nn.Linear(inputs, size), ACTIVATIONS[activation]()]
            inputs = size
        super().__init__(*layers, nn.Linear(inputs, outputs))


class PackedRisk(nn.Module):
    """OCE of ``base(output, y)`` under sample weights; y and the weights come packed in the columns of one target."""

    def __init__(self, utility: Risk, base: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.base = base
        self.risk = OCELoss(utility, validate=False)

    def forward(self, output: Tensor, packed: Tensor) -> Tensor:
        """Return OCE of the batch."""
        losses = self.base(output, packed[:, 0])
        if not bool(torch.isfinite(losses).all()):
            raise ValueError(
                "Training has diverged: a loss is no longer finite. Standardize the features (and a real target), or "
                "lower learning_rate."
            )
        found: Tensor = self.risk(losses, weight=packed[:, 1])
        return found


def one_output(base: nn.Module) -> Callable[[Tensor, Tensor], Tensor]:
    """Return base for networks with a single output, whose column it drops."""
    return _OneOutput(base)


class _OneOutput(nn.Module):
    def __init__(self, base: nn.Module) -> None:
        super().__init__()
        self.base = base

    def forward(self, output: Tensor, y: Tensor) -> Tensor:
        found: Tensor = self.base(output[:, 0], y)
        return found


class ClassEntropy(nn.Module):
    """Cross-entropy of each sample; labels come as floats."""

    def forward(self, output: Tensor, y: Tensor) -> Tensor:
        """Return -ln p_y."""
        return nn.functional.cross_entropy(output, y.long(), reduction="none")


class Batches:
    """Batches of a data set, shuffled anew each time round; whole batches are indexed at once, not row by row."""

    def __init__(self, dataset: Any, batch_size: int, shuffle: bool = False) -> None:
        self.X = torch.as_tensor(np.asarray(dataset.X))
        # A data set without targets is one to predict; skorch wants something in their place.
        self.y = torch.zeros(len(self.X)) if dataset.y is None else torch.as_tensor(np.asarray(dataset.y))
        self.batch_size, self.shuffle = batch_size, shuffle

    def __len__(self) -> int:
        return -(-len(self.X) // self.batch_size)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        order = torch.randperm(len(self.X)) if self.shuffle else None
        for start in range(0, len(self.X), self.batch_size):
            part: Any = slice(start, start + self.batch_size)
            if order is not None:
                part = order[part]
            yield self.X[part], self.y[part]


def check_hidden_sizes(hidden_sizes: Any) -> tuple[int, ...]:
    """Whole numbers above 0; none for a linear model."""
    if isinstance(hidden_sizes, (str, bytes)) or not hasattr(hidden_sizes, "__iter__"):
        raise TypeError(f"hidden_sizes must be a tuple such as (32, 16); found {shown(hidden_sizes)}.")
    return tuple(check_count("hidden_sizes", size) for size in hidden_sizes)


def check_activation(activation: Any) -> str:
    """One of the known activations."""
    return str(check_choice("activation", activation, ACTIVATIONS))

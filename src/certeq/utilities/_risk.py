"""What every risk measure answers, and its parameters, as scikit-learn expects them."""

from __future__ import annotations

import copy
import inspect
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cache
from typing import Any, Self

import numpy as np

from certeq._backend import as_float, is_tensor
from certeq.utilities.forms import Inner


class Risk(ABC):
    r"""A risk measure: a `Utility`, whose risk is its OCE, or one with more inner variables v than the threshold.

    .. math:: \rho(X) = \min_v\; c^\top v + \sum_k w_k\, E[s_k u_k((X - t_k)/s_k)], \qquad t_k, s_k
              \text{ entries of } v.

    Whatever takes a utility takes any of them, or says why not. A subclass stores its constructor's arguments under
    their own names, unchanged (scikit-learn's ``clone`` relies on it).

    See Also
    --------
    Utility
        Base class of utilities.
    EVaR
        Entropic value at risk.
    Mixture
        Weighted average of risks.
    Distortion
        Distortion (spectral) risk.

    Examples
    --------
    >>> import certeq as ce
    >>> risks = (ce.CVaR(0.05), ce.EVaR(0.05), ce.Wang(0.5))
    >>> [isinstance(risk, ce.Risk) for risk in risks]
    [True, True, True]
    """

    __array_ufunc__ = None  # so that np.float64(0.3) * risk reaches __rmul__

    @property
    @abstractmethod
    def is_monotone(self) -> bool:
        """Whether larger losses never have a smaller risk."""

    @property
    @abstractmethod
    def is_coherent(self) -> bool:
        """Whether it is monotone, subadditive, positively homogeneous, and moves with a constant that is added."""

    @property
    @abstractmethod
    def is_smooth(self) -> bool:
        """Whether no term has a kink."""

    @abstractmethod
    def _make_inner(self) -> Inner: ...

    def inner(self) -> Inner:
        """The risk as a minimum over inner variables, kept for as long as the parameters are the same.

        Returns
        -------
        Inner
            Costs and bounds of the inner variables and the terms of the sum, as solvers read them.
        """
        kept = self.__dict__.get("_inner")
        state = self._state()
        if kept is None or kept[0] != state:
            kept = (state, self._make_inner())
            if (kept[1].low > 0.0).any():  # only solvers may raise this bound
                raise ValueError(f"low must be 0 for each s; found low = {kept[1].low} in {self!r}.")
            if self._learned_parameter() is None:  # tensors belong to one graph
                self.__dict__["_inner"] = kept
        found: Inner = kept[1]
        return found

    def _refuse_arithmetic(self, other: Any) -> Any:
        raise TypeError(
            f"{self!r} cannot be added or multiplied; found {other!r} beside it. The weighted average of risks is "
            "certeq.Mixture(weights, risks)."
        )

    __mul__ = __rmul__ = __add__ = __radd__ = _refuse_arithmetic

    # -- parameters ---------------------------------------------------------------------------------------------------

    def _without_gradients(self) -> Self:
        """The same risk with plain numbers for learned parameters, checked as at construction."""
        return self._with_parameters(lambda item: as_float(item) if is_tensor(item) else item)

    def _with_parameters(self, change: Callable[[Any], Any]) -> Self:
        """The same risk with every parameter changed, of risks inside too; itself where none is another."""
        own = self.get_params(deep=False)
        new = {name: _changed(item, change) for name, item in own.items()}
        return self if all(new[name] is item for name, item in own.items()) else type(self)(**new)

    def _learned_parameter(self) -> Any:
        """A parameter, of this risk or of one inside it, that is a tensor; None where there is none."""
        for name, item in self.__dict__.items():
            # Numbers, and what is kept beside parameters, come first: this is asked at every training step.
            if isinstance(item, (float, int)) or name.startswith("_"):
                continue
            for part in item if isinstance(item, tuple) else (item,):
                found = part._learned_parameter() if isinstance(part, Risk) else part
                if is_tensor(found):
                    return found
        return None

    def _state(self) -> tuple[Any, ...]:
        """Class and parameters by value, of risks inside too: parameters may be set in place."""
        parts: list[Any] = [self.__class__]
        for name, item in self.__dict__.items():
            if isinstance(item, (float, int)):
                parts.append(item)
            elif name[0] != "_":
                parts.append(_state_of(item))
        return tuple(parts)

    def __getstate__(self) -> dict[str, Any]:
        return {name: item for name, item in self.__dict__.items() if name not in ("_form", "_inner")}

    @classmethod
    def _parameter_names(cls) -> tuple[str, ...]:
        return tuple(_arguments_of(cls.__init__))

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The constructor's arguments by name; with ``deep``, also those of risks inside this one.

        Parameters
        ----------
        deep : bool
            Whether to add the parameters of risks inside this one, as ``utility__alpha``.

        Returns
        -------
        dict
            Arguments by name.
        """
        params: dict[str, Any] = {}
        for name in self._parameter_names():
            params[name] = inner = getattr(self, name)
            if deep and isinstance(inner, Risk):
                params.update({f"{name}__{key}": item for key, item in inner.get_params().items()})
        return params

    def set_params(self, **params: Any) -> Self:
        """Change parameters in place, checked as at construction; unknown names are refused.

        Parameters
        ----------
        **params : Any
            New values by name, as `get_params` lists them.

        Returns
        -------
        Risk
            This risk itself.
        """
        own = self.get_params(deep=False)
        nested: dict[str, dict[str, Any]] = {}
        for key, item in params.items():
            name, _, rest = key.partition("__")
            if name not in own or (rest and not isinstance(own[name], Risk)):
                known = ", ".join(self.get_params()) or "none"
                raise ValueError(f"{type(self).__name__} has no parameter {key!r}; it has: {known}.")
            if rest:
                nested.setdefault(name, {})[rest] = item
            else:
                own[name] = item
        for name, changes in nested.items():  # on copies: a refusal further on must leave everything as it was
            own[name] = copy.deepcopy(own[name]).set_params(**changes)
        fresh = type(self)(**own)  # refuses bad values before anything here is touched
        self.__dict__.clear()
        self.__dict__.update(fresh.__dict__)
        return self

    def __repr__(self) -> str:
        defaults = _arguments_of(type(self).__init__)
        inside = ", ".join(
            f"{name}={plain_number(getattr(self, name))!r}"
            for name in self._parameter_names()
            if not (defaults.get(name) is None and getattr(self, name) is None)
        )
        return f"{type(self).__name__}({inside})"

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return bool(self.get_params(deep=False) == other.get_params(deep=False))

    def __hash__(self) -> int:
        return hash((type(self), tuple(self.get_params(deep=False).items())))  # 1 and 1.0 hash alike, as they compare


class CoherentRisk(Risk):
    """Monotone, convex, positively homogeneous and moving with a constant, whatever its parameters."""

    @property
    def is_monotone(self) -> bool:
        """Always."""
        return True

    @property
    def is_coherent(self) -> bool:
        """Always."""
        return True


class WeightedRisks(Risk):
    """Weights, and as many risks: the parameters of a sum and of a mixture."""

    _parts = "risks"  # what they are called, and one of them with the number it has: risk_0

    @abstractmethod
    def _check_parts(self, weights: Any, parts: Any) -> None:
        """Refuse what cannot be combined."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Weights and parts; with ``deep``, each weight as ``weight_0``, and the parameters of each part.

        Those of a sum are called ``term_0__alpha``, those of a mixture ``risk_0__alpha``.
        """
        weights, parts = self.__dict__["weights"], self.__dict__[self._parts]
        params: dict[str, Any] = {"weights": weights, self._parts: parts}
        if deep:
            one = self._parts[:-1]
            for i, (weight, part) in enumerate(zip(weights, parts, strict=True)):
                params[f"weight_{i}"] = weight
                params[f"{one}_{i}"] = part
                params.update({f"{one}_{i}__{key}": item for key, item in part.get_params().items()})
        return params

    def set_params(self, **params: Any) -> Self:
        """Change weights or the parts' own parameters in place; unknown names are refused."""
        known = self.get_params()
        weights = list(params.pop("weights", known["weights"]))
        parts = list(params.pop(self._parts, known[self._parts]))
        for key, item in params.items():
            if key not in known:
                raise ValueError(f"{type(self).__name__} has no parameter {key!r}; it has: {', '.join(known)}.")
            kind, _, index = key.partition("__")[0].partition("_")
            rest = key.partition("__")[2]
            if kind == "weight":
                weights[int(index)] = item
            elif rest:
                parts[int(index)] = copy.deepcopy(parts[int(index)]).set_params(**{rest: item})
            else:
                parts[int(index)] = item
        self._check_parts(weights, parts)
        fresh = type(self)(**{"weights": tuple(weights), self._parts: tuple(parts)})
        self.__dict__.clear()
        self.__dict__.update(fresh.__dict__)
        return self


def _changed(item: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(item, Risk):
        return item._with_parameters(change)
    if isinstance(item, tuple):
        new = tuple(_changed(part, change) for part in item)
        return item if all(map(operator.is_, new, item)) else new
    return change(item)


def _state_of(item: Any) -> Any:
    if isinstance(item, Risk):
        return item._state()
    if isinstance(item, tuple):
        return tuple(map(_state_of, item))
    if is_tensor(item):  # which tensor it is decides where gradients go
        return id(item), as_float(item)
    if isinstance(item, np.ndarray):
        return item.dtype.str, item.shape, item.tobytes()
    return item


@cache
def _arguments_of(constructor: Callable[..., None]) -> dict[str, Any]:
    """A constructor's arguments and their defaults; kept, as a risk is asked for its name at every step."""
    if constructor is object.__init__:  # a risk without parameters
        return {}
    return {name: kind.default for name, kind in inspect.signature(constructor).parameters.items() if name != "self"}


def plain_number(value: Any) -> Any:
    """A NumPy scalar as the Python number it is, so that a repr can be evaluated without NumPy."""
    return value.item() if isinstance(value, np.generic) else value

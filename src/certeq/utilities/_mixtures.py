"""Averages of risks: mixtures of a few, each with inner variables of its own, and distortions, averages of CVaRs."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certeq._backend import NUMPY
from certeq._checks import check_number, shown
from certeq.utilities._risk import CoherentRisk, Risk, WeightedRisks, plain_number
from certeq.utilities.forms import Inner, Term

Floats = NDArray[np.float64]


class Mixture(WeightedRisks):
    r"""The weighted average of risks, :math:`\sum_k w_k \rho_k(X)`, each with inner variables of its own.

    Parameters
    ----------
    weights : sequence of float
        Positive, and of sum 1.
    risks : sequence of Risk
        Utilities, balls, distortions, or mixtures, which are opened up.

    See Also
    --------
    CVaR
        Mean of the worst losses.
    Distortion
        Distortion (spectral) risk.

    Notes
    -----
    Not a sum of utilities, which is one utility with one threshold: ``0.5*CVaR(0.05) + 0.5*CVaR(0.01)`` is CVaR(1/60),
    and never less than the mixture.

    Examples
    --------
    >>> import certeq as ce
    >>> tails = ce.Mixture([0.5, 0.5], [ce.CVaR(0.05), ce.CVaR(0.01)])
    >>> tails.inner().cost, tails.is_coherent
    (array([0.5, 0.5]), True)
    >>> ce.Mixture([0.2, 0.8], [ce.Mean(), tails])
    Mixture((0.2, 0.4, 0.4), (Mean(), CVaR(alpha=0.05), CVaR(alpha=0.01)))
    """

    def __init__(self, weights: Sequence[float], risks: Sequence[Risk]) -> None:
        for name, given in (("weights", weights), ("risks", risks)):
            if isinstance(given, (str, bytes, Risk)) or not hasattr(given, "__iter__"):
                raise TypeError(f"{name} must be a list, one entry for each risk; found {shown(given)}.")
        self._check_parts(tuple(weights), tuple(risks))
        self.weights: tuple[float, ...] = tuple(weights)
        self.risks: tuple[Risk, ...] = tuple(risks)
        if any(isinstance(risk, Mixture) for risk in self.risks):
            pairs = [pair for weight, risk in zip(weights, risks, strict=True) for pair in _opened(weight, risk)]
            self.weights, self.risks = tuple(weight for weight, _ in pairs), tuple(risk for _, risk in pairs)

    def _check_parts(self, weights: Any, parts: Any) -> None:
        if len(weights) != len(parts) or not len(parts):
            raise ValueError(
                f"weights must hold one number for each risk; found {len(weights)} weights and {len(parts)} risks."
            )
        for i, (weight, risk) in enumerate(zip(weights, parts, strict=True)):
            check_number(f"weights[{i}]", weight, above=0.0)
            if not isinstance(risk, Risk):
                raise TypeError(f"risks[{i}] must be a risk, such as certeq.CVaR(0.05); found {shown(risk)}.")
        total = float(sum(weights))
        if abs(total - 1.0) > 1e-9:
            shares = ", ".join(f"{weight / total:.4g}" for weight in weights)
            raise ValueError(
                f"weights must sum to 1, or a constant loss would not be its own risk; found a sum of {total:g}. Did "
                f"you mean [{shares}]?"
            )

    @property
    def is_monotone(self) -> bool:
        """Whether every risk in it is."""
        return all(risk.is_monotone for risk in self.risks)

    @property
    def is_coherent(self) -> bool:
        """Whether every risk in it is."""
        return all(risk.is_coherent for risk in self.risks)

    @property
    def is_smooth(self) -> bool:
        """Whether every risk in it is."""
        return all(risk.is_smooth for risk in self.risks)

    def _make_inner(self) -> Inner:
        parts = [risk.inner() for risk in self.risks]
        terms, first = [], 0
        for weight, part in zip(self.weights, parts, strict=True):
            for term in part.terms:
                s = None if term.s is None else first + term.s
                terms.append(Term(float(weight) * term.weight, term.form, first + term.t, s))
            first += len(part.cost)
        cost = np.concatenate([float(w) * part.cost for w, part in zip(self.weights, parts, strict=True)])
        low, high = (np.concatenate([getattr(part, end) for part in parts]) for end in ("low", "high"))
        return Inner(cost, low, high, tuple(terms))

    def __repr__(self) -> str:
        return f"Mixture({tuple(map(plain_number, self.weights))!r}, {self.risks!r})"


def _opened(weight: float, risk: Risk) -> list[tuple[float, Risk]]:
    """The parts of a mixture with the weights they have in another; a risk of another kind is one part."""
    if not isinstance(risk, Mixture):
        return [(weight, risk)]
    return [(weight * inside, part) for inside, part in zip(risk.weights, risk.risks, strict=True)]


class SortedRisk(CoherentRisk):
    """A distortion: what it weighs a loss by depends on its rank alone."""

    @abstractmethod
    def _distorted(self, p: Any, xp: Any = NUMPY) -> Any:
        """Return g(p) for an array, or for a tensor with its derivatives in p."""

    def distorted(self, p: Any) -> Floats:
        """g(p), the weight of the worst share p of the losses."""
        return np.asarray(self._distorted(np.asarray(p, dtype=np.float64)), dtype=np.float64)

    @property
    def is_smooth(self) -> bool:
        """Never: it has a kink wherever two losses tie."""
        return False

    def _make_inner(self) -> Inner:
        raise TypeError(
            f"{self!r} is an average of all CVaRs, and has no finite number of inner variables: it needs all losses "
            "sorted. A certeq.Mixture of a few CVaRs comes near it, and can be had in blocks."
        )


class Distortion(SortedRisk):
    r"""Distortion (spectral) risk: the worst share p of the losses has the weight g(p).

    On n equally likely losses in rising order the i-th has the weight g((n-i+1)/n) - g((n-i)/n), exactly; losses that
    tie share theirs.

    Parameters
    ----------
    g : callable
        Concave and rising on [0, 1] with g(0) = 0 and g(1) = 1, elementwise on NumPy arrays; checked on a grid. Its
        argument is the share of losses *above*: ``min(p/0.05, 1)`` is CVaR(0.05), ``p`` the mean.

    See Also
    --------
    Wang
        Wang's transform.
    ProportionalHazard
        Distortion by a power of the probability above.
    PowerDistortion
        Distortion by a power of the probability below.
    Mixture
        Weighted average of risks.

    Notes
    -----
    An average of CVaRs, of which there may be infinitely many: it is found by sorting the losses in memory, so a Dask
    array or a minimization in blocks is refused.

    References
    ----------
    Wang (2000), A class of distortion operators for pricing financial and insurance risks, doi:10.2307/253675.

    Föllmer and Schied (2016), Stochastic Finance: An Introduction in Discrete Time, fourth edition.

    Examples
    --------
    >>> import numpy as np, certeq as ce
    >>> square_root = ce.Distortion(np.sqrt)
    >>> square_root.distorted([0.0, 0.25, 1.0])
    array([0. , 0.5, 1. ])
    >>> ce.Distortion(np.square)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    ValueError: g must be concave; found g(0.5) = 0.25 below the chord ...
    """

    def __init__(self, g: Callable[[Any], Any]) -> None:
        if not callable(g):
            raise TypeError(f"g must be a function on [0, 1], such as numpy.sqrt; found {shown(g)}.")
        _check_distortion(g)
        self.g = g

    def _distorted(self, p: Any, xp: Any = NUMPY) -> Any:
        if xp is not NUMPY:
            refused = f"weight must not require a gradient for {self!r}: the derivative of g is not known."
            raise NotImplementedError(f"{refused} Pass weight.detach(), or a distortion such as certeq.Wang.")
        return self.g(p)


class Wang(SortedRisk):
    r"""Wang's transform: :math:`g(p) = \Phi(\Phi^{-1}(p) + \mathrm{shift})`, p the share of losses above.

    Parameters
    ----------
    shift : float
        The market price of risk, not below 0: a normal loss has the risk mean + shift * standard deviation.

    See Also
    --------
    Distortion
        Distortion (spectral) risk.
    ProportionalHazard
        Distortion by a power of the probability above.

    References
    ----------
    Wang (2000), A class of distortion operators for pricing financial and insurance risks, doi:10.2307/253675.

    Examples
    --------
    >>> import certeq as ce
    >>> ce.Wang(0.5).distorted([0.0, 0.5, 1.0]).round(6)
    array([0.      , 0.691462, 1.      ])
    """

    def __init__(self, shift: float) -> None:
        check_number("shift", shift, least=0.0)
        self.shift = shift

    def _distorted(self, p: Any, xp: Any = NUMPY) -> Any:
        if xp is not NUMPY:
            return xp.ndtr(xp.ndtri(p) + self.shift)
        from scipy.special import ndtr, ndtri  # slow to import

        return ndtr(ndtri(p) + self.shift)


class ProportionalHazard(SortedRisk):
    r"""Proportional hazard transform: :math:`g(p) = p^{1/\rho}`, p the share of losses above.

    Parameters
    ----------
    rho : float
        Risk aversion, at least 1, which is the mean.

    See Also
    --------
    Distortion
        Distortion (spectral) risk.
    PowerDistortion
        Distortion by a power of the probability below.
    Wang
        Wang's transform.

    Examples
    --------
    >>> import certeq as ce
    >>> ce.ProportionalHazard(2).distorted([0.0, 0.25, 1.0])
    array([0. , 0.5, 1. ])
    """

    def __init__(self, rho: float) -> None:
        check_number("rho", rho, least=1.0)
        self.rho = rho

    def _distorted(self, p: Any, xp: Any = NUMPY) -> Any:
        return p ** (1.0 / self.rho)


class PowerDistortion(SortedRisk):
    r"""Power distortion: :math:`g(p) = 1 - (1 - p)^k`, p the share of losses above.

    Parameters
    ----------
    k : float
        At least 1, which is the mean. For a whole k it is the mean of the largest of k independent losses.

    See Also
    --------
    Distortion
        Distortion (spectral) risk.
    ProportionalHazard
        Distortion by a power of the probability above.
    Wang
        Wang's transform.

    Examples
    --------
    >>> import certeq as ce
    >>> ce.PowerDistortion(2).distorted([0.0, 0.5, 1.0])
    array([0.  , 0.75, 1.  ])
    """

    def __init__(self, k: float) -> None:
        check_number("k", k, least=1.0)
        self.k = k

    def _distorted(self, p: Any, xp: Any = NUMPY) -> Any:
        with np.errstate(divide="ignore"):
            return -xp.expm1(self.k * xp.log1p(-p))


def _check_distortion(g: Callable[[Any], Any]) -> None:
    """Refuse a g that is not concave from (0, 0) to (1, 1), on a grid that is finer near both ends."""
    ends = np.geomspace(1e-12, 1e-3, 37)
    p = np.unique(np.concatenate([[0.0, 1.0], np.linspace(0.0, 1.0, 1025), ends, 1.0 - ends]))
    with np.errstate(all="ignore"):
        found = np.asarray(g(p), dtype=np.float64)
    if found.shape != p.shape or not np.all(np.isfinite(found)):
        raise ValueError(
            "g must map an array of numbers in [0, 1] elementwise to finite numbers; found "
            + (f"the shape {found.shape} for {p.shape}." if found.shape != p.shape else "NaN or infinities.")
        )
    if abs(found[0]) > 1e-12 or abs(found[-1] - 1.0) > 1e-12:
        raise ValueError(f"g must have g(0) = 0 and g(1) = 1; found g(0) = {found[0]:.6g} and g(1) = {found[-1]:.6g}.")
    # Chords first from end to end, then between neighbors: the message names the plainest failure.
    middle = int(np.searchsorted(p, 0.5))
    triples = [(0, middle, len(p) - 1), *zip(range(len(p) - 2), range(1, len(p) - 1), range(2, len(p)), strict=True)]
    left, at, right = np.array(triples).T
    share = (p[at] - p[left]) / (p[right] - p[left])
    chord = found[left] + share * (found[right] - found[left])
    below = np.flatnonzero(found[at] < chord - 1e-12)
    if below.size:
        i = below[0]
        raise ValueError(
            f"g must be concave; found g({p[at[i]]:.6g}) = {found[at[i]]:.6g} below the chord from {p[left[i]]:.6g} to "
            f"{p[right[i]]:.6g}, {chord[i]:.6g}. Is p the share of losses above?"
        )

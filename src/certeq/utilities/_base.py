"""What every utility answers: its value, slope, curvature, conjugate, and the facts a solver or a theorem needs."""

from __future__ import annotations

from abc import abstractmethod
from types import SimpleNamespace
from typing import TYPE_CHECKING

import numpy as np

from certeq._backend import Array, backend, is_tensor
from certeq.utilities._risk import Risk
from certeq.utilities.forms import Atom, Curve, Inner, Pieces, Shape, Term, form

if TYPE_CHECKING:
    from certeq.utilities._algebra import Normalized, Scaled, Sum
    from certeq.utilities._balls import DivergenceBall


class Utility(Risk):
    r"""A convex function u that defines a risk measure:  OCE_u(X) = inf_t  t + E[u(X - t)].

    A subclass writes each formula once, against the namespace ``xp`` it is handed.

    Not to be subclassed for a single experiment: `utility` makes one from a function, and checks it.

    See Also
    --------
    utility
        Make a utility from a function.
    Risk
        Base class of risk measures.
    CVaR
        Mean of the worst losses.
    Entropic
        Entropic risk, of an exponential utility.

    References
    ----------
    Ben-Tal and Teboulle (1986), Expected utility, penalty functions, and duality in stochastic nonlinear programming,
    doi:10.1287/mnsc.32.11.1445.

    Ben-Tal and Teboulle (2007), An old-new concept of convex risk measures: the optimized certainty equivalent,
    doi:10.1111/j.1467-9965.2007.00311.x.

    Examples
    --------
    >>> import certeq as ce
    >>> u = 0.5 * ce.Mean() + 0.5 * ce.CVaR(alpha=0.1).scaled(2.0)
    >>> float(u.value(1.0)), float(u.slope(1.0)), u.lipschitz, u.is_coherent
    (5.5, 5.5, 5.5, True)
    """

    # -- formulas, written once for NumPy and torch -------------------------------------------------------------

    @abstractmethod
    def _value(self, x: Array, xp: SimpleNamespace) -> Array: ...

    @abstractmethod
    def _slope(self, x: Array, xp: SimpleNamespace) -> Array: ...

    @abstractmethod
    def _curvature(self, x: Array, xp: SimpleNamespace) -> Array: ...

    @abstractmethod
    def _conjugate(self, y: Array, xp: SimpleNamespace) -> Array: ...

    def _derivatives(self, x: Array, xp: SimpleNamespace) -> tuple[Array, Array]:
        """Slope and curvature together; overridden where they share work."""
        return self._slope(x, xp), self._curvature(x, xp)

    def value(self, x: Array) -> Array:
        """Value u(x), elementwise.

        Parameters
        ----------
        x : array_like or Tensor
            Losses less a threshold.

        Returns
        -------
        ndarray or Tensor
            Of the shape of x.
        """
        xp, x = backend(x)
        return self._value(x, xp)

    def slope(self, x: Array) -> Array:
        """Slope u'(x), the left derivative where u has a kink.

        Parameters
        ----------
        x : array_like or Tensor
            Losses less a threshold.

        Returns
        -------
        ndarray or Tensor
            Of the shape of x.
        """
        xp, x = backend(x)
        return self._slope(x, xp)

    def right_slope(self, x: Array) -> Array:
        """The right derivative of u: the slope plus its jump at a kink.

        Parameters
        ----------
        x : array_like or Tensor
            Losses less a threshold.

        Returns
        -------
        ndarray or Tensor
            Of the shape of x.
        """
        xp, x = backend(x)
        return form(self).slopes(x, 0.0, xp)[1]

    def curvature(self, x: Array) -> Array:
        """Curvature u''(x) away from the kinks, where it exists.

        Parameters
        ----------
        x : array_like or Tensor
            Losses less a threshold.

        Returns
        -------
        ndarray or Tensor
            Of the shape of x.
        """
        xp, x = backend(x)
        return self._curvature(x, xp)

    def derivatives(self, x: Array) -> tuple[Array, Array]:
        """Slope and curvature in one go: cheaper than the two apart.

        Parameters
        ----------
        x : array_like or Tensor
            Losses less a threshold.

        Returns
        -------
        slope : ndarray or Tensor
            What `slope` returns.
        curvature : ndarray or Tensor
            What `curvature` returns.
        """
        xp, x = backend(x)
        return self._derivatives(x, xp)

    def conjugate(self, y: Array) -> Array:
        """Conjugate u*(y) = sup_x  x*y - u(x); +inf outside its domain.

        Parameters
        ----------
        y : array_like or Tensor
            Slopes.

        Returns
        -------
        ndarray or Tensor
            Of the shape of y.
        """
        xp, y = backend(y)
        return self._conjugate(y, xp)

    # -- facts --------------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def slope_range(self) -> tuple[float, float]:
        """Infimum and supremum of the slope."""

    @property
    @abstractmethod
    def anchor(self) -> float:
        """The point x0 with 1 in the subdifferential of u: the threshold of a constant c is c - x0."""

    @property
    @abstractmethod
    def kappa(self) -> float:
        """Largest E[u''(X - t*)] over all X, +inf where there is none: OCE is (L_F + kappa * M**2)-smooth."""

    @property
    def lipschitz(self) -> float:
        """The least K with |u(x) - u(y)| <= K * |x - y|; +inf where there is none."""
        return max(abs(bound) for bound in self.slope_range)

    @property
    def kinks(self) -> tuple[tuple[float, float], ...]:
        """Where the slope jumps, and by how much."""
        return ()

    @property
    def has_curvature(self) -> bool:
        """Whether the curvature is known; without it the threshold is found by bisection."""
        return True

    @property
    def shape(self) -> Shape | None:
        """The closed form this utility admits, if any."""
        return None

    @property
    def curve(self) -> Curve | None:
        """A known curve that the slope is: no closed form, but a help to whoever searches the threshold."""
        return None

    @property
    def tail_mass(self) -> float | None:
        """Tail mass alpha of the CVaR that this utility is meant to be near; None where there is none."""
        return None

    @property
    def growth(self) -> float:
        """Power p such that the slope grows like x**p; Newton's method works on the p-th root of the mean slope."""
        return 1.0

    @property
    def is_monotone(self) -> bool:
        """Whether u never decreases, so that a larger loss is never preferred."""
        return self.slope_range[0] >= 0.0

    @property
    def oce_of_zero(self) -> float:
        """OCE(0) = u(x0) - x0 = -u*(1)."""
        return float(self.value(self.anchor)) - self.anchor

    @property
    def is_normalized(self) -> bool:
        """Whether u(0) = 0 and 1 is in the subdifferential at 0, so that a constant c has OCE and threshold c."""
        return self.anchor == 0.0 and float(self.value(0.0)) == 0.0

    @property
    def is_coherent(self) -> bool:
        """Whether OCE is positively homogeneous as well: true only of two linear pieces that meet at 0."""
        shape = self.shape
        return isinstance(shape, Pieces) and shape.low >= 0.0 and shape.kink == 0.0 and float(self.value(0.0)) == 0.0

    @property
    def is_smooth(self) -> bool:
        """Whether the slope of u jumps nowhere."""
        return not self.kinks

    def _make_inner(self) -> Inner:
        """OCE has the threshold alone."""
        free = np.array([np.inf])
        return Inner(np.ones(1), -free, free, (Term(1.0, form(self), 0),))

    # -- algebra ------------------------------------------------------------------------------------------------

    def scaled(self, scale: float) -> Scaled:
        """The utility s*u(x/s), whose OCE is s*OCE(X/s).

        Parameters
        ----------
        scale : float
            The factor s, above 0: the size of a loss that matters, in the unit of the losses.

        Returns
        -------
        Utility
            The scaled utility.
        """
        from certeq.utilities._algebra import Scaled

        return Scaled(self, scale)

    def normalized(self) -> Normalized:
        """The utility u(x + x0) - u(x0), whose OCE is shifted so that OCE(0) = 0; the tilt is unchanged.

        Returns
        -------
        Utility
            The normalized utility.
        """
        from certeq.utilities._algebra import Normalized

        return Normalized(self)

    def ball(self, radius: float) -> DivergenceBall:
        """The largest mean loss under weights whose divergence from the given ones is at most ``radius``.

        The divergence is the conjugate of this utility, normalized: relative entropy for `Entropic`, chi-square for
        `MonotoneMeanVariance`. See `DivergenceBall`.

        Parameters
        ----------
        radius : float
            The largest divergence, above 0.

        Returns
        -------
        DivergenceBall
            A risk measure, coherent where this utility is monotone.
        """
        from certeq.utilities._balls import DivergenceBall

        return DivergenceBall(self, radius)

    def __rmul__(self, weight: float) -> Sum:
        from certeq.utilities._algebra import weighted

        return weighted(weight, self)

    def __mul__(self, weight: float) -> Sum:
        return self.__rmul__(weight)

    def __add__(self, other: Utility) -> Sum:
        from certeq.utilities._algebra import Sum, weighted

        if not isinstance(other, Utility):
            return NotImplemented
        left, right = weighted(1.0, self), weighted(1.0, other)
        weights, terms = left.weights + right.weights, left.terms + right.terms
        # A term of weight 0 adds nothing, and 0 times an unbounded slope would be no number.
        kept = [i for i, weight in enumerate(weights) if is_tensor(weight) or weight != 0] or [0]
        return Sum(tuple(weights[i] for i in kept), tuple(terms[i] for i in kept))

    def __radd__(self, other: object) -> Sum:
        from certeq.utilities._algebra import weighted

        if isinstance(other, (int, float)) and other == 0:  # so that the built-in sum() works
            return weighted(1.0, self)
        return NotImplemented

    # -- how solvers read it: see certeq.utilities.forms ----------------------------------------------------------

    def _atoms(self) -> tuple[Atom, ...]:
        """This utility as a sum of atoms."""
        return (Atom(self, 1.0, 1.0, 0.0),)

    def _slopes_at_kinks(self) -> tuple[float, ...]:
        """The left slope at every kink."""
        return tuple(float(self.slope(point)) for point, _ in self.kinks)

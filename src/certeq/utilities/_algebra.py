"""Utilities made of utilities: scaled, normalized, and weighted sums."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from types import SimpleNamespace
from typing import Any, Self

import numpy as np

from certeq._backend import Array, as_float, is_tensor
from certeq._checks import check_number, shown
from certeq.utilities._base import Utility
from certeq.utilities._numeric import conjugate_by_search, curvature_bound, find_anchor
from certeq.utilities._risk import WeightedRisks, plain_number
from certeq.utilities.forms import Atom, Curve, Form, Pieces, Shape, form


class _Composite(Utility):
    """A utility made of others: what a solver asks is read from its form, which has flattened them into atoms."""

    def _slope(self, x: Array, xp: SimpleNamespace) -> Array:
        return form(self).left_slope(x, 0.0, xp)

    def _curvature(self, x: Array, xp: SimpleNamespace) -> Array:
        return form(self).curvature(x, 0.0, xp)

    def _derivatives(self, x: Array, xp: SimpleNamespace) -> tuple[Array, Array]:
        return form(self).derivatives(x, 0.0, xp)

    @property
    def kinks(self) -> tuple[tuple[float, float], ...]:
        """Those of the utilities inside, where scale and shift have put them; jumps at one point added."""
        return tuple((kink.at, kink.jump) for kink in form(self).kinks)

    @property
    def slope_range(self) -> tuple[float, float]:
        """The ends of the utilities inside, weighted and added."""
        pairs = [(atom.weight, atom.base.slope_range) for atom in form(self).plain.atoms if atom.weight > 0.0]
        return sum(w * low for w, (low, _) in pairs), sum(w * high for w, (_, high) in pairs)

    @property
    def growth(self) -> float:
        """The fastest of the utilities inside."""
        return max(atom.base.growth for atom in form(self).atoms)

    @property
    def has_curvature(self) -> bool:
        """Only if every utility inside has one."""
        return all(atom.base.has_curvature for atom in form(self).atoms)

    @property
    def shape(self) -> Shape | None:
        """Linear pieces with one kink at most, of however many utilities; of one utility, its shape in the new units.

        Any other sum has none, also where a formula exists (means and quadratics, say).
        """
        found = form(self).plain
        if "shape" not in found.facts:
            found.facts["shape"] = self._find_shape(found)
        shape: Shape | None = found.facts["shape"]
        return shape

    def _find_shape(self, found: Form) -> Shape | None:
        pieces = [(atom.weight, atom.base.shape) for atom in found.atoms]
        if len(found.kinks) <= 1 and all(isinstance(piece, Pieces) for _, piece in pieces):
            low, high = (sum(w * getattr(piece, end) for w, piece in pieces) for end in ("low", "high"))
            return Pieces(low, high, found.kinks[0].at if found.kinks else 0.0)
        only = self._only_atom()
        if only is None or only.base.shape is None or isinstance(only.base.shape, Pieces):
            return None
        return only.base.shape.scaled(only.scale)

    @property
    def curve(self) -> Curve | None:
        """Of one utility inside, its curve in the new units."""
        only = self._only_atom()
        return None if only is None or only.base.curve is None else only.base.curve.scaled(only.scale)

    def _only_atom(self) -> Atom | None:
        """The atom that this utility is, scaled and shifted and nothing more."""
        atoms = form(self).plain.atoms
        return atoms[0] if len(atoms) == 1 and atoms[0].weight == 1.0 else None


class Scaled(_Composite):
    """s*u(x/s), made by ``u.scaled(s)``: OCE(X) = s*OCE_u(X/s)."""

    def __init__(self, utility: Utility, scale: Any) -> None:
        _check_inner(utility)
        check_number("scale", scale, above=0.0)
        self.utility = utility
        self.scale = scale

    def _value(self, x: Array, xp: SimpleNamespace) -> Array:
        return self.scale * self.utility._value(x / self.scale, xp)

    def _atoms(self) -> tuple[Atom, ...]:
        return tuple(
            Atom(atom.base, atom.weight, self.scale * atom.scale, self.scale * atom.shift)
            for atom in self.utility._atoms()
        )

    def _conjugate(self, y: Array, xp: SimpleNamespace) -> Array:
        return self.scale * self.utility._conjugate(y, xp)

    @property
    def anchor(self) -> float:
        """s*x0."""
        return as_float(self.scale) * self.utility.anchor

    @property
    def kappa(self) -> float:
        """kappa/s."""
        return self.utility.kappa / as_float(self.scale)

    def __repr__(self) -> str:
        return f"{in_brackets(self.utility)}.scaled({plain_number(self.scale)!r})"


class Normalized(_Composite):
    """u(x + x0) - u(x0), made by ``u.normalized()``: OCE(X) = OCE_u(X) - OCE_u(0), with the same tilt."""

    def __init__(self, utility: Utility) -> None:
        _check_inner(utility)
        self.utility = utility

    def _atoms(self) -> tuple[Atom, ...]:
        anchor = form(self.utility).anchor()
        return tuple(Atom(atom.base, atom.weight, atom.scale, atom.shift + anchor) for atom in self.utility._atoms())

    def _value(self, x: Array, xp: SimpleNamespace) -> Array:
        anchor = form(self.utility).anchor()
        # On tensors u(x0) is a tensor too: its gradient in a learned parameter counts.
        level = self.utility._value(x.new_zeros(()) + anchor, xp) if is_tensor(x) else self.utility.value(anchor)
        return self.utility._value(x + anchor, xp) - level

    def _conjugate(self, y: Array, xp: SimpleNamespace) -> Array:
        anchor = self.utility.anchor
        return self.utility._conjugate(y, xp) - anchor * y + as_float(self.utility.value(anchor))

    @property
    def anchor(self) -> float:
        """0, by construction."""
        return 0.0

    @property
    def is_normalized(self) -> bool:
        """Always."""
        return True

    @property
    def oce_of_zero(self) -> float:
        """0, by construction."""
        return 0.0

    @property
    def kappa(self) -> float:
        """That of the utility inside."""
        return self.utility.kappa

    def __repr__(self) -> str:
        return f"{in_brackets(self.utility)}.normalized()"


class Sum(WeightedRisks, _Composite):
    r"""Weights times utilities, made by arithmetic: ``0.3*Mean() + 0.7*CVaR(0.05)``.

    The sum is one utility with one threshold: :math:`\min_t\, t + E[w_1 u_1(X-t) + w_2 u_2(X-t)]`. With the mean that
    is the weighted sum of the risks, ``0.3 * mean + 0.7 * CVaR``, because the mean has no threshold of its own. Of two
    other utilities it is **not**: they share t. ``0.5*CVaR(0.05) + 0.5*CVaR(0.01)`` has the slopes 0 and
    0.5/0.05 + 0.5/0.01 = 60, and is CVaR(1/60). The average of the two risks, each with a threshold of its own, is
    ``ce.Mixture([0.5, 0.5], [ce.CVaR(0.05), ce.CVaR(0.01)])``, never more than that. Such a sum says in its repr
    what it is.

    The weights need not sum to 1, but 1 must lie inside the range of the weighted slope, or no threshold exists; that
    is checked when the sum is used, so that parts of a sum may be built freely.

    Examples
    --------
    >>> import certeq as ce
    >>> 0.3 * ce.Mean() + 0.7 * ce.CVaR(0.05)
    0.3*Mean() + 0.7*CVaR(alpha=0.05)
    >>> 0.5 * ce.CVaR(0.05) + 0.5 * ce.CVaR(0.01)
    0.5*CVaR(alpha=0.05) + 0.5*CVaR(alpha=0.01)  # which share one t: CVaR(alpha=1/60), not the average, ce.Mixture
    """

    _parts = "terms"

    def __init__(self, weights: tuple[Any, ...], terms: tuple[Utility, ...]) -> None:
        self.weights = weights
        self.terms = terms

    def _atoms(self) -> tuple[Atom, ...]:
        return tuple(
            Atom(atom.base, weight * atom.weight, atom.scale, atom.shift)
            for weight, term in zip(self.weights, self.terms, strict=True)
            for atom in term._atoms()
        )

    def _with_parameters(self, change: Callable[[Any], Any]) -> Self:
        new = super()._with_parameters(change)
        if new is not self:
            for weight in new.weights:
                _check_weight(weight)
        return new

    def _combined(self, parts: list[Array]) -> Array:
        total = self.weights[0] * parts[0]
        for weight, part in zip(self.weights[1:], parts[1:], strict=True):
            total = total + weight * part
        return total

    def _value(self, x: Array, xp: SimpleNamespace) -> Array:
        return self._combined([term._value(x, xp) for term in self.terms])

    def _conjugate(self, y: Array, xp: SimpleNamespace) -> Array:
        shape = self.shape
        if isinstance(shape, Pieces):
            slack = 1e-12 * (1.0 + shape.high)
            inside = (y >= shape.low - slack) & (y <= shape.high + slack)
            return xp.where(inside, shape.kink * y - float(self.value(shape.kink)), xp.zeros_like(y) + float("inf"))
        if len(self.terms) == 1:
            weight = self.weights[0]
            return weight * self.terms[0]._conjugate(y / weight, xp)
        if is_tensor(y):
            raise TypeError("The conjugate of a sum of utilities is found by search, on NumPy arrays only.")
        return conjugate_by_search(self, y)

    @property
    def anchor(self) -> float:
        """Where the weighted slope passes 1; an error where it never does."""
        facts = form(self).facts
        if "anchor" not in facts:
            low, high = self.slope_range
            if low == high and abs(low - 1.0) <= 1e-12:  # a multiple of the mean that adds up to the mean
                facts["anchor"] = 0.0
            elif not low < 1.0 < high:
                raise ValueError(
                    f"{self!r} has slopes between {low:g} and {high:g}, but 1 must lie strictly between them: "
                    "otherwise no threshold exists. Choose weights whose sum is about 1."
                )
            else:
                facts["anchor"] = find_anchor(self._without_gradients())
        return float(facts["anchor"])

    @property
    def kappa(self) -> float:
        """Largest mean curvature at mean slope 1, found numerically on a fine grid (relative error about 1e-4)."""
        facts = form(self).facts
        if "kappa" not in facts:
            facts["kappa"] = float("inf") if self.kinks else curvature_bound(self._without_gradients())
        return float(facts["kappa"])

    def _check_parts(self, weights: Any, parts: Any) -> None:
        if len(weights) != len(parts) or not parts:
            raise ValueError(f"A sum needs one weight per term; found {len(weights)} weights and {len(parts)} terms.")
        for weight, term in zip(weights, parts, strict=True):
            _check_weight(weight)
            _check_inner(term)

    def __repr__(self) -> str:
        shared = self._shared()
        return f"{self.expression()}  # {shared}" if shared else self.expression()

    def _shared(self) -> str:
        """What a sum is where more than one term depends on t, as a comment that leaves a repr what it evaluates to."""
        if sum(term.slope_range[0] < term.slope_range[1] for term in self.terms) < 2:
            return ""
        shape = self.shape
        if not isinstance(shape, Pieces) or shape.kink != 0.0 or not 0.0 <= shape.low < 1.0 < shape.high:
            return "which share one t: not the average, ce.Mixture"
        tail = f"CVaR(alpha={_fraction((1.0 - shape.low) / (shape.high - shape.low))})"
        if shape.low > 0.0:
            tail = f"{shape.low:.6g}*Mean() + {1.0 - shape.low:.6g}*{tail}"
        return f"which share one t: {tail}, not the average, ce.Mixture"

    def expression(self) -> str:
        """The sum as it was written."""
        return " + ".join(
            f"{plain_number(weight)!r}*{in_brackets(term)}"
            for weight, term in zip(self.weights, self.terms, strict=True)
        )


def weighted(weight: Any, utility: Utility) -> Sum:
    """weight*utility as a sum, sums inside sums opened up."""
    _check_weight(weight)
    weight = weight.item() if isinstance(weight, np.generic) else weight
    if isinstance(utility, Sum):
        if isinstance(weight, (int, float)) and weight == 1:
            return utility
        return Sum(tuple(weight * inner for inner in utility.weights), utility.terms)
    return Sum((weight,), (utility,))


def _check_inner(utility: Any) -> None:
    if not isinstance(utility, Utility):
        raise TypeError(f"A sum, a scaled or a normalized utility is made of utilities; found {utility!r}.")


def _check_weight(weight: Any) -> None:
    if isinstance(weight, (Utility, str, bool, complex)) or not (np.isscalar(weight) or is_tensor(weight)):
        raise TypeError(f"A utility can be multiplied by a number only; found {shown(weight)}.")
    if is_tensor(weight) and weight.is_meta:  # has no value yet; it is checked again where it is used
        return
    if not 0.0 <= as_float(weight) < np.inf:
        raise ValueError(f"The weight of a utility must be a finite number, not negative; found {shown(weight)}.")


def in_brackets(utility: Utility) -> str:
    return f"({utility.expression()})" if isinstance(utility, Sum) else repr(utility)


def _fraction(number: float) -> str:
    """A number in few digits where it has few, else as a fraction where it is one of small numbers."""
    short = f"{number:.4g}"
    if abs(float(short) - number) <= 1e-12 * number:
        return short
    ratio = Fraction(number).limit_denominator(1000)
    return str(ratio) if abs(float(ratio) - number) <= 1e-12 * number else f"{number:.6g}"

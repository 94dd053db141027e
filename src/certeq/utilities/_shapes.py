"""Shapes of a utility for which the threshold has a closed form.

A utility may declare one of these; the solver asks for the shape and never for the utility's name. All are
stated relative to the anchor x0 (1 in the subdifferential of u at x0), so scaling and shifting keep them.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Exponential:
    """u'(x) = exp(rate * (x - x0)): the threshold is a log-mean-exp."""

    rate: float


@dataclass(frozen=True)
class Quadratic:
    """u'(x) = 1 + bend * (x - x0): the threshold is the mean, shifted by x0."""

    bend: float


@dataclass(frozen=True)
class Pieces:
    """u' = low left of the kink and high right of it: the threshold is a quantile."""

    low: float
    high: float
    kink: float

    @property
    def tail(self) -> float:
        """Mass above the threshold: low + (high - low) * tail = 1."""
        if self.high == self.low:
            return 1.0
        return (1.0 - self.low) / (self.high - self.low)


@dataclass(frozen=True)
class Logistic:
    """u'(x) = high / (1 + (high - 1) exp(-rate * (x - x0))): no closed form, but shifting t only scales a constant."""

    rate: float
    high: float

    def scaled(self, by: float) -> Logistic:
        """In units of loss that are ``by`` times smaller."""
        return Logistic(self.rate / by, self.high)


@dataclass(frozen=True)
class Arctangent:
    """u'(x) = high / (1 + min((x - x0)/width - sqrt(high - 1), 0)**2): level right of a point, an arctangent's left."""

    width: float
    high: float

    def scaled(self, by: float) -> Arctangent:
        """In units of loss that are ``by`` times smaller."""
        return Arctangent(self.width * by, self.high)


@dataclass(frozen=True)
class Power:
    """u'(x) = (1 + (x - x0)/width)**degree where that is positive, else 0: power sums of ranked losses give t."""

    degree: float
    width: float

    def scaled(self, by: float) -> Power:
        """In units of loss that are ``by`` times smaller."""
        return Power(self.degree, self.width * by)


Shape = Exponential | Quadratic | Pieces
Curve = Logistic | Arctangent | Power

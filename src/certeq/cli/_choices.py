"""The utilities by the names one types, with parameters that make sense for daily returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from difflib import get_close_matches

import numpy as np

import certeq.utilities as ce
from certeq.utilities import Utility

_TAILS = (0.01, 0.015, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5)


@dataclass(frozen=True)
class Choice:
    """A utility as the command line offers it.

    ``takes`` are its constructor's parameters; ``daily`` the values for daily returns, where a loss that matters is a
    percent or two; ``turned`` the parameter that sets how much risk is feared, swept in reports.
    """

    key: str
    title: str
    make: type[Utility]
    formula: str
    says: str
    takes: tuple[str, ...] = ()
    daily: dict[str, float] = field(default_factory=dict)
    turned: str = "scale"
    aliases: tuple[str, ...] = ()

    @property
    def depends_on_units(self) -> bool:
        """Whether the size of the losses changes what kind of risk it is, beyond a single rate."""
        return "scale" in self.daily or "tau" in self.takes

    def build(self, given: dict[str, float], *, normalized: bool = False) -> Utility:
        """The utility with these parameters; the rest as its class has them."""
        utility = self.make(**{name: value for name, value in given.items() if name in self.takes})
        scale = given.get("scale", 1.0)
        if scale != 1.0:
            utility = utility.scaled(scale)
        return utility.normalized() if normalized and not utility.is_normalized else utility

    def cases(self, given: dict[str, float], points: int = 13) -> list[tuple[float, dict[str, float]]]:
        """The turned parameter over a sensible range around its value, with the other parameters as given."""
        now = given[self.turned]
        if self.turned == "alpha":
            places = np.unique([*_TAILS, now])
        else:
            places = now * np.geomspace(0.1, 10.0, points)
        return [(float(place), {**given, self.turned: float(place)}) for place in places]


CHOICES: dict[str, Choice] = {
    choice.key: choice
    for choice in (
        Choice(
            "cvar", "CVaR", ce.CVaR, "u(x) = x⁺/α", "The mean of the worst fraction alpha of losses.", ("alpha",),
            {"alpha": 0.05}, "alpha", ("es", "expectedshortfall", "avar"),
        ),
        Choice(
            "entropic", "Entropic", ce.Entropic, "u(x) = (e^(βx) − 1)/β",
            "Fear grows exponentially with the loss; about mean + β/2 variance for small losses.", ("beta",),
            {"beta": 50.0}, "beta", ("erm", "exponential"),
        ),
        Choice(
            "mean-variance", "Mean-variance", ce.MeanVariance, "u(x) = x + βx²",
            "The classic: mean + β variance. Not monotone: dislikes gains too.", ("beta",), {"beta": 25.0}, "beta",
            ("mv", "markowitz"),
        ),
        Choice(
            "monotone-mean-variance", "Monotone mean-variance", ce.MonotoneMeanVariance, "u(x) = (((1+x)⁺)ᵃ − 1)/a",
            "Mean-variance that never dislikes a gain; larger powers fear the tail more.", ("a",),
            {"a": 2.0, "scale": 0.02}, "scale", ("mmv",),
        ),
        Choice(
            "quartic", "Quartic", ce.Quartic, "u(x) = ((1+x)⁺)⁴ − 1", "A fourth power: the largest losses dominate.",
            (), {"scale": 0.02}, "scale",
        ),
        Choice(
            "leaky-cvar", "Leaky CVaR", ce.LeakyCVaR, "u(x) = x/α, arctan(x/α) below 0",
            "CVaR that still sees the days below its quantile.", ("alpha",), {"alpha": 0.05, "scale": 0.02}, "alpha",
            ("lcvar",),
        ),
        Choice(
            "smooth-cvar", "Smooth CVaR", ce.SmoothCVaR, "u(x) = (τ/α) ln(1 + e^(x/τ))",
            "CVaR with its corner rounded over a width tau.", ("alpha", "tau"), {"alpha": 0.05, "tau": 0.005}, "alpha",
            ("scvar",),
        ),
    )
}  # fmt: skip

UNITS_HELP = (
    "monotone-mean-variance, quartic, leaky-cvar and smooth-cvar depend on the unit of the losses: they compare "
    "a loss with 1 "
    "(smooth-cvar with tau). For daily returns the portfolio commands use --scale 0.02 (a loss of 2 % matters) "
    "for the first "
    "three and --tau 0.005 for smooth-cvar, with beta 50 for entropic and 25 for mean-variance; estimate uses no scale."
)


class UnknownChoice(ValueError):
    """A name or parameter that is not on offer, with the nearest that is."""


def find(name: str) -> Choice:
    """The choice of that name, however it is spelled."""
    wanted = _squashed(name)
    names = {_squashed(key): key for key in CHOICES}
    for key, choice in CHOICES.items():
        names.update(dict.fromkeys(choice.aliases, key))
    if wanted in names:
        return CHOICES[names[wanted]]
    close = get_close_matches(wanted, names, n=1, cutoff=0.5)
    hint = f"did you mean {names[close[0]]!r}? " if close else ""
    raise UnknownChoice(f"there is no utility {name!r}; {hint}There are: {', '.join(CHOICES)}.")


def settle(choice: Choice, asked: dict[str, float | None], *, daily: bool) -> dict[str, float]:
    """Parameters as asked for, over the defaults; one the utility does not take is refused."""
    given = {name: value for name, value in asked.items() if value is not None}
    for name in given:
        if name not in (*choice.takes, "scale"):
            takers = [key for key, other in CHOICES.items() if name in other.takes]
            takes = ", ".join(f"--{own}" for own in (*choice.takes, "scale"))
            raise UnknownChoice(
                f"{choice.key} has no parameter --{name}; it takes {takes}. --{name} belongs to {', '.join(takers)}."
            )
    settled = {**(choice.daily if daily else {}), **given}
    if daily and choice.turned not in settled:
        settled[choice.turned] = 1.0
    return settled


def complete(incomplete: str) -> list[tuple[str, str]]:
    """Names for the shell to complete, with what they mean."""
    return [(key, choice.says) for key, choice in CHOICES.items() if key.startswith(incomplete.lower())]


def _squashed(name: str) -> str:
    return "".join(char for char in name.casefold() if char.isalnum())

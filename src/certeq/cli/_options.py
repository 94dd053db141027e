"""Options that several commands share, and what they name: utilities with their parameters, bounds on weights."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, cast

import numpy as np
import typer
from numpy.typing import NDArray

import certeq.utilities as ce
from certeq._checks import check_number, did_you_mean
from certeq.cli._console import BadData
from certeq.utilities import Risk, Utility

_TAILS = (0.01, 0.015, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5)


@dataclass(frozen=True)
class Choice:
    """A utility as the command line offers it.

    ``takes`` are its constructor's parameters; ``daily`` the values for daily returns, where a loss that matters is a
    percent or two; ``turned`` the parameter that sets the aversion to risk, swept in reports.
    """

    key: str
    title: str
    make: Callable[..., Risk]
    formula: str
    says: str
    takes: tuple[str, ...] = ()
    daily: dict[str, float] = field(default_factory=dict)
    turned: str = "scale"
    aliases: tuple[str, ...] = ()
    least: float = 0.0  # of the turned parameter

    @property
    def depends_on_units(self) -> bool:
        """Whether the size of the losses changes what kind of risk it is, beyond a single rate."""
        return "scale" in self.daily or "tau" in self.takes

    @property
    def options(self) -> tuple[str, ...]:
        """All parameters: a utility may be scaled, other risks have no unit."""
        return (*self.takes, "scale") if isinstance(self.make, type) and issubclass(self.make, Utility) else self.takes

    def build(self, given: dict[str, float], *, normalized: bool = False) -> Risk:
        """The utility or risk with these parameters; the rest as its class has them."""
        utility = self.make(**{name: value for name, value in given.items() if name in self.takes})
        if not isinstance(utility, Utility):  # a ball or a distortion of 0 is 0
            return utility
        scale = given.get("scale", 1.0)
        if scale != 1.0:
            utility = utility.scaled(scale)
        return utility.normalized() if normalized and not utility.is_normalized else utility

    def cases(self, given: dict[str, float], points: int = 13) -> list[tuple[float, dict[str, float]]]:
        """The turned parameter over a sensible range around its value, with the other parameters as given."""
        if not self.turned:
            return []
        now = given[self.turned]
        if self.turned == "alpha":
            values = np.unique([*_TAILS, now])
        else:
            values = self.least + (now - self.least) * np.geomspace(0.1, 10.0, points)
        return [(float(value), {**given, self.turned: float(value)}) for value in values]


CHOICES: dict[str, Choice] = {
    choice.key: choice
    for choice in (
        Choice(
            "cvar", "CVaR", ce.CVaR, "u(x) = x⁺/α", "The mean of the worst fraction alpha of losses.", ("alpha",),
            {"alpha": 0.05}, "alpha", ("es", "expectedshortfall", "avar"),
        ),
        Choice(
            "entropic", "Entropic", ce.Entropic, "u(x) = (e^(βx) − 1)/β",
            "Weights grow exponentially with the loss; about mean + β/2 variance for small losses.", ("beta",),
            {"beta": 50.0}, "beta", ("erm", "exponential"),
        ),
        Choice(
            "mean-variance", "Mean-variance", ce.MeanVariance, "u(x) = x + βx²",
            "The classic: mean + β variance. Not monotone: dislikes gains too.", ("beta",), {"beta": 25.0}, "beta",
            ("mv", "markowitz"),
        ),
        Choice(
            "monotone-mean-variance", "Monotone mean-variance", ce.MonotoneMeanVariance, "u(x) = (((1+x)⁺)ᵃ − 1)/a",
            "Mean-variance that never dislikes a gain; larger powers weigh the tail more.", ("a",),
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


def _ball(utility: Utility) -> Callable[..., Risk]:
    return lambda radius: utility.ball(radius)


#: risks with more inner variables than t, and distortions; `compare` takes those it is asked for
RISKS: dict[str, Choice] = {
    choice.key: choice
    for choice in (
        Choice(
            "evar", "EVaR", ce.EVaR, "min over s of s ln(E e^(X/s)/α)",
            "The tightest bound on CVaR(alpha) of Chernoff's kind.", ("alpha",), {"alpha": 0.05}, "alpha",
        ),
        Choice(
            "hmcr", "Higher-moment risk", ce.HMCR, "min over t of t + ‖(X − t)⁺‖ₚ/α",
            "CVaR with a norm of order p in place of the mean.", ("p", "alpha"), {"p": 2.0, "alpha": 0.2}, "alpha",
        ),
        Choice(
            "chi-square", "Chi-square ball", _ball(ce.MonotoneMeanVariance(2)), "max E[qX], E(q−1)²/2 ≤ radius",
            "The worst mean over weights within a chi-square radius.", ("radius",), {"radius": 0.5}, "radius",
            ("chi2", "chisquareball"),
        ),
        Choice(
            "kl", "Relative-entropy ball", _ball(ce.Entropic()), "max E[qX], E[q ln q] ≤ radius",
            "The worst mean over weights within a radius of relative entropy.", ("radius",), {"radius": 0.5},
            "radius", ("klball", "relativeentropy"),
        ),
        Choice(
            "wang", "Wang", ce.Wang, "g(p) = Φ(Φ⁻¹(p) + shift)", "The actuaries' transform: normal losses shifted.",
            ("shift",), {"shift": 0.5}, "shift",
        ),
        Choice(
            "proportional-hazard", "Proportional hazard", ce.ProportionalHazard, "g(p) = p^(1/ρ)",
            "The hazard rate of the losses divided by rho.", ("rho",), {"rho": 2.0}, "rho", ("ph",), 1.0,
        ),
        Choice(
            "power-distortion", "Power distortion", ce.PowerDistortion, "g(p) = 1 − (1 − p)ᵏ",
            "The mean of the largest of k losses.", ("k",), {"k": 5.0}, "k", ("power", "maxvar"), 1.0,
        ),
    )
}  # fmt: skip
_ALL = CHOICES | RISKS

UNITS_HELP = (
    "monotone-mean-variance, quartic, leaky-cvar and smooth-cvar depend on the unit of the losses: they compare a loss "
    "with 1 (smooth-cvar with tau). For daily returns the portfolio commands use --scale 0.02 (a loss of 2 % matters) "
    "for the first three and --tau 0.005 for smooth-cvar, with beta 50 for entropic and 25 for mean-variance; estimate "
    "uses no scale."
)


class UnknownChoice(ValueError):
    """A name or parameter that is not on offer, with the nearest that is."""


def find(name: str) -> Choice:
    """The choice of that name, however it is written."""
    wanted = _squashed(name)
    names = {_squashed(key): key for key in _ALL}
    for key, choice in _ALL.items():
        names.update(dict.fromkeys(choice.aliases, key))
    if wanted in names:
        return _ALL[names[wanted]]
    close = get_close_matches(wanted, names, n=1, cutoff=0.5)
    hint = f"; did you mean {names[close[0]]!r}?" if close else "."
    raise UnknownChoice(f"there is no utility {name!r}{hint} There are: {', '.join(_ALL)}.")


def parse(text: str) -> tuple[Choice, dict[str, float | None]]:
    """The choice and the parameters of a text such as ``wang shift=0.5``; a radius makes a ball of any utility.

    Of ``0.5 cvar alpha=0.05 + 0.5 evar alpha=0.01`` it is the mixture, each part with its own threshold.
    """
    head, _, rest = text.strip().partition(" ")
    try:
        float(head)
    except ValueError:
        pass
    else:
        return _mixture(text), {}
    pairs = []
    choice = find(head)
    for entry in rest.split():
        name, equals, number = entry.partition("=")
        try:
            pairs.append((name, float(number)))
        except ValueError:
            equals = ""
        if not equals:
            raise UnknownChoice(f"parameters are written NAME=NUMBER, as in 'wang shift=0.5'; found {entry!r}.")
    given = once(pairs)
    if "radius" in given and "radius" not in choice.takes and "scale" in choice.options:
        own = {name: value for name, value in choice.daily.items() if name in ("alpha", "a")}  # those without a unit
        title, build = f"{choice.title} ball", cast(Callable[..., Utility], choice.make)
        make = lambda radius, **parameters: ce.DivergenceBall(build(**parameters), radius)
        takes = (*choice.takes, "radius")
        choice = replace(choice, title=title, make=make, takes=takes, daily={**own, "radius": 0.5}, turned="radius")
    return choice, given


def _mixture(text: str) -> Choice:
    weights, risks = [], []
    for part in text.split("+"):
        weight, _, rest = part.strip().partition(" ")
        choice, given = parse(rest) if rest else (None, {})
        try:
            weights.append(float(weight))
        except ValueError:
            choice = None
        if choice is None or (not choice.options and given):
            raise UnknownChoice(
                f"a mixture is written '0.5 cvar alpha=0.05 + 0.5 evar alpha=0.01'; found {part.strip()!r}."
            )
        risks.append(choice.build(settle(choice, given, daily=False)))
    return Choice(
        "mixture", "Mixture", lambda: ce.Mixture(weights, risks), text, "The weighted average of risks.", turned=""
    )


def settle(choice: Choice, asked: dict[str, float | None], *, daily: bool) -> dict[str, float]:
    """Parameters as asked for, over the defaults; one the utility does not take is refused."""
    given = {name: value for name, value in asked.items() if value is not None}
    for name in given:
        if name not in choice.options:
            takers = [key for key, other in _ALL.items() if name in other.options]
            takes = ", ".join(f"--{own}" for own in choice.options) or "none"
            belongs = f" --{name} belongs to {', '.join(takers)}." if takers else ""
            hint = "" if takers else did_you_mean(name, choice.options)
            raise UnknownChoice(f"{choice.key} has no parameter --{name}; it takes {takes}.{belongs}{hint}")
    # A constructor without a default, as that of a distortion, takes the value for daily returns, which has no unit.
    base = choice.daily if daily or "scale" not in choice.options else {}
    settled = {**base, **given}
    if daily and choice.turned and choice.turned not in settled:
        settled[choice.turned] = 1.0
    return settled


def complete(incomplete: str) -> list[tuple[str, str]]:
    """Names for the shell to complete, with what they mean."""
    return [(key, choice.says) for key, choice in _ALL.items() if key.startswith(incomplete.lower())]


UtilityName = Annotated[
    str,
    typer.Option(
        "--utility",
        "-u",
        help="A utility or another risk, with parameters if need be: 'wang shift=0.5'; `certeq utilities` lists them. "
        "'0.5 cvar alpha=0.05 + 0.5 evar alpha=0.01' is a mixture.",
        autocompletion=complete,
    ),
]


def _parameter(text: str, *names: str) -> Any:
    """Return an option for a parameter of the utility; it collects all values, so that `once` can raise for two."""
    return typer.Option(*names, metavar="NUMBER", help=text)


Numbers = list[str] | None
Alpha = Annotated[Numbers, _parameter("Tail mass: 0.05 is the worst 5 % (cvar, leaky-cvar, smooth-cvar, evar, hmcr).")]
Beta = Annotated[Numbers, _parameter("Risk aversion per unit of loss (entropic, mean-variance).")]
Power = Annotated[Numbers, _parameter("Power, at least 2 (monotone-mean-variance).", "--a")]
Tau = Annotated[Numbers, _parameter("Width of the smoothing, in units of the loss (smooth-cvar).")]
Scale = Annotated[Numbers, _parameter("The size of a loss that matters, in units of the loss.")]
Normalized = Annotated[bool, typer.Option("--normalized", help="Shift the utility so that a loss of 0 has OCE 0.")]
AsJson = Annotated[bool, typer.Option("--json", help="Machine-readable result on standard output, and nothing else.")]
Force = Annotated[bool, typer.Option("--force", help="Replace output files that exist.")]
Prices = Annotated[
    Path | None,
    typer.Argument(
        help="CSV, Parquet or Excel: dates first, then a column of prices per asset; or a long table. skfolio's S&P "
        "500 panel if left out.",
        show_default=False,
    ),
]
PeriodsPerYear = Annotated[
    float | None,
    typer.Option(help="How many rows make a year: 252, 52, 12, ...", show_default="told by the dates"),
]
AreReturns = Annotated[bool, typer.Option("--returns", help="The file holds returns (0.01 is +1 %), not prices.")]
Decimal = Annotated[
    str | None, typer.Option(help="Decimal sign, '.' or ','.", show_default="told by the numbers", metavar="SIGN")
]
Sheet = Annotated[str | None, typer.Option(help="Sheet of an Excel file.", show_default="the first")]
Field = Annotated[
    str | None, typer.Option(help="Field of two rows of headings.", show_default="the adjusted or plain close")
]
AssetColumn = Annotated[
    str | None, typer.Option(help="Column of a long table that names the assets.", show_default="its only names")
]
ValueColumn = Annotated[
    str | None, typer.Option(help="Column of a long table with their prices.", show_default="its numbers, or close")
]


def read_layout(
    are_returns: bool,
    decimal: str | None,
    sheet: str | None,
    field: str | None,
    asset_column: str | None,
    value_column: str | None,
) -> dict[str, Any]:
    """The layout of a price file, as `certeq.data.read_prices` takes it."""
    return {
        "returns": are_returns,
        "decimal": check_decimal(decimal),
        "sheet": sheet,
        "field": field,
        "asset_column": asset_column,
        "value_column": value_column,
    }


def check_decimal(decimal: str | None) -> str | None:
    """The decimal sign; another one is bad usage (exit code 2)."""
    if decimal not in (None, ".", ","):
        raise typer.BadParameter(f"must be '.' or ','; found {decimal!r}.", param_hint="--decimal")
    return decimal


def check_value(option: str, value: float | None, **limits: float) -> None:
    """Refuse a number that no data would make right, as bad usage (exit code 2)."""
    with bad_usage(option):
        if value is not None:
            check_number("", value, **limits)  # type: ignore[arg-type]


@contextmanager
def bad_usage(option: str) -> Iterator[None]:
    """Turn a ValueError into bad usage of the option (exit code 2)."""
    try:
        yield
    except ValueError as error:
        raise typer.BadParameter(str(error).strip(), param_hint=option) from None


def once(pairs: Iterable[tuple[str, Any]]) -> dict[str, float | None]:
    """Return the values by name; raise UnknownChoice if a name is given twice."""
    found: dict[str, float | None] = {}
    for name, value in pairs:
        if name in found:
            raise UnknownChoice(f"{name} is given twice: {found[name]:g} and {value:g}.")
        found[name] = value
    return found


def check_entries(option: str, entries: list[str] | None, *, least: float = -np.inf) -> None:
    """Raise bad usage, before any file is read, unless each entry is a number or NAME=NUMBER, and each name new."""
    pairs = []
    for entry in entries or []:
        name, _, number = entry.rpartition("=")
        pairs.append((name or "the number for all assets", _number(option, number, entry)))
        if pairs[-1][1] < least:
            raise typer.BadParameter(f"must not be below {least:g}; found {entry!r}.", param_hint=option)
    with bad_usage(option):
        once(pairs)


def chosen(
    name: str, alpha: Numbers, beta: Numbers, a: Numbers, tau: Numbers, scale: Numbers,
    *, daily: bool, option: str = "--utility",
) -> tuple[Choice, dict[str, float]]:  # fmt: skip
    """The utility asked for and its parameters; a bad name, parameter or value is bad usage (exit code 2)."""
    try:
        choice, inside = parse(name)
        asked = {"alpha": alpha, "beta": beta, "a": a, "tau": tau, "scale": scale}
        apart = [(key, _number(f"--{key}", text)) for key, texts in asked.items() for text in texts or []]
        given = settle(choice, once([*inside.items(), *apart]), daily=daily)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they are said when it is built for use
            choice.build(given)
    except UnknownChoice as error:
        raise typer.BadParameter(str(error), param_hint=option) from None
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=None if option == "--utility" else option) from None
    return choice, given


def described(choice: Choice, given: dict[str, float]) -> dict[str, Any]:
    """The utility for a JSON result."""
    return {"name": choice.key, **given}


def _squashed(name: str) -> str:
    return "".join(char for char in name.casefold() if char.isalnum())


def read_bounds(option: str, entries: list[str], default: float, assets: list[str]) -> NDArray[np.float64]:
    """One number per asset from entries such as ``0.2`` and ``AAPL=0.1``; a named one wins, wherever it stands."""
    everywhere, single = default, {}
    for entry in entries:
        name, equals, number = entry.rpartition("=")
        value = _number(option, number, entry)
        if not equals:
            everywhere = value
        elif name in assets:
            single[name] = value
        else:
            shown = ", ".join(assets[:8]) + (", ..." if len(assets) > 8 else "")
            hint = did_you_mean(name, assets) or f" The assets are {shown}."
            raise BadData(f"{option}: there is no asset {name!r}.{hint}")
    return np.array([single.get(asset, everywhere) for asset in assets])


def check_bounds(low: NDArray[np.float64], high: NDArray[np.float64], budget: float, assets: list[str]) -> None:
    """Refuse bounds that no weights can meet, and say which and what would do."""
    if (low > high).any():
        worst = int(np.argmax(low > high))
        raise BadData(
            f"infeasible bounds: --min-weight {low[worst]:g} exceeds --max-weight {high[worst]:g} for "
            f"{assets[worst]!r}."
        )
    n, slack = low.size, 1e-12 * max(1.0, abs(budget))
    if high.sum() < budget - slack:
        raise BadData(
            f"infeasible bounds: with --max-weight the {n} assets hold at most {high.sum():g} together, less than the "
            f"budget {budget:g}; one maximum for all must be at least {budget / n:.4g}."
        )
    if low.sum() > budget + slack:
        raise BadData(
            f"infeasible bounds: with --min-weight the {n} assets hold at least {low.sum():g} together, more than the "
            f"budget {budget:g}; one minimum for all must be at most {budget / n:.4g}."
        )


def _number(option: str, text: str, entry: str | None = None) -> float:
    """Return the number in `text`, which is all of an option or the end of an entry NAME=NUMBER."""
    try:
        value = float(text)
    except ValueError:
        bare = text.strip().removesuffix("%").strip()
        percent = text.strip().endswith("%") and bare.replace(".", "", 1).isdigit()
        hint = f" {bare} % is {float(bare) / 100.0:g}." if percent else ""
        raise typer.BadParameter(
            f"must be a number{' or NAME=NUMBER' if entry else ''}; found {entry or text!r}.{hint}", param_hint=option
        ) from None
    if not np.isfinite(value):
        raise typer.BadParameter(f"must be finite; found {entry or text!r}.", param_hint=option)
    return value

"""Utilities as the referee describes them: a small tree, its source text for certeq, and its own exact form.

Nothing here calls the package. `Form` holds u as offset + line*x + hinges + smooth atoms. Hinges are at fractions found
by exact arithmetic from the floats of the description, so that no rounding decides a side.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import numpy as np

LD = np.longdouble
INF = float("inf")


def ld(number: Fraction | float | int) -> np.longdouble:
    """A fraction or a float as the nearest long double, or within one unit of its last place."""
    if isinstance(number, Fraction):
        high = LD(float(number))
        rest = number - Fraction(*high.as_integer_ratio())
        return high + LD(float(rest))
    return LD(number)


def exact(number: float | np.longdouble | Fraction) -> Fraction:
    return number if isinstance(number, Fraction) else Fraction(*number.as_integer_ratio())


# -- smooth atoms: value and slope on long doubles, and the ends of the range of the slope ------------------------


@dataclass(frozen=True)
class Smooth:
    """A differentiable convex function phi by name: ``exp`` and ``power`` and so on, with its parameter."""

    kind: str
    p: float = 1.0
    q: float = 1.0

    def value(self, x: np.ndarray) -> np.ndarray:
        p, q = LD(self.p), LD(self.q)
        match self.kind:
            case "exp":  # (exp(p x) - 1)/p
                return np.expm1(p * x) / p
            case "square":  # p x^2
                return p * x * x
            case "power":  # ((x+1)^+**p - 1) / q
                return (np.maximum(x + 1, 0) ** p - 1) / q
            case "arctan":  # x/p right of 0, arctan(x/p) left of it
                return np.where(x >= 0, x / p, np.arctan(np.minimum(x, 0) / p))
            case "softplus":  # (q/p) log(1 + exp(x/q))
                z = x / q
                return q / p * (np.maximum(z, 0) + np.log1p(np.exp(-np.abs(z))))
        raise AssertionError(self.kind)

    def slope(self, x: np.ndarray) -> np.ndarray:
        p, q = LD(self.p), LD(self.q)
        match self.kind:
            case "exp":
                return np.exp(p * x)
            case "square":
                return 2 * p * x
            case "power":
                return p / q * np.maximum(x + 1, 0) ** (p - 1)
            case "arctan":
                z = np.minimum(x, 0) / p
                return 1 / (p * (1 + z * z))
            case "softplus":
                z = x / q
                e = np.exp(-np.abs(z))
                return np.where(z >= 0, 1 / (1 + e), e / (1 + e)) / p
        raise AssertionError(self.kind)

    @property
    def ends(self) -> tuple[float, float]:
        match self.kind:
            case "exp" | "power":
                return 0.0, INF
            case "square":
                return -INF, INF
        return 0.0, 1.0 / self.p

    @property
    def width(self) -> float:
        """The unit of loss that the function has built in."""
        return {"exp": 1 / self.p, "square": 1 / self.p, "power": 1.0, "arctan": self.p, "softplus": self.q}[self.kind]


# -- the exact form -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Form:
    """u(x) = offset + line*x + sum of jump*(x - at)^+ + sum of w*s*phi((x + b)/s)."""

    offset: Fraction
    line: Fraction
    hinges: tuple[tuple[Fraction, Fraction], ...]  # (at, jump), sorted, one per location
    atoms: tuple[tuple[Fraction, Fraction, Fraction, Smooth], ...]  # (w, s, b, phi)

    @cached_property
    def _long(self):
        return (
            ld(self.offset),
            ld(self.line),
            [(ld(at), ld(jump)) for at, jump in self.hinges],
            [(ld(w), ld(s), ld(b), phi) for w, s, b, phi in self.atoms],
        )

    @property
    def is_linear(self) -> bool:
        return not self.atoms

    @cached_property
    def kink_locations(self) -> np.ndarray:
        return np.array([at for at, _ in self._long[2]], dtype=LD)

    @cached_property
    def ends(self) -> tuple[float, float]:
        """Infimum and supremum of the slope."""
        low = float(self.line) + sum(float(w) * phi.ends[0] for w, _, _, phi in self.atoms)
        high = float(self.line) + sum(float(j) for _, j in self.hinges)
        return low, high + sum(float(w) * phi.ends[1] for w, _, _, phi in self.atoms)

    @cached_property
    def size(self) -> float:
        """The largest distance of a kink from 0."""
        return max((abs(float(at)) for at, _ in self.hinges), default=0.0)

    @cached_property
    def width(self) -> float:
        """Like size, with the units and shifts of the smooth parts."""
        return max([self.size, *(float(s) * phi.width + abs(float(b)) for _, s, b, phi in self.atoms)])

    def value(self, x: np.ndarray) -> np.ndarray:
        offset, line, hinges, atoms = self._long
        x = np.asarray(x, dtype=LD)
        total = offset + line * x
        for at, jump in hinges:
            total = total + jump * np.maximum(x - at, 0)
        for w, s, b, phi in atoms:
            total = total + w * s * phi.value((x + b) / s)
        return total

    def slope(self, x: np.ndarray, side: str = "left") -> np.ndarray:
        _, line, hinges, atoms = self._long
        x = np.asarray(x, dtype=LD)
        total = np.zeros_like(x) + line
        for at, jump in hinges:
            total = total + jump * ((x > at) if side == "left" else (x >= at))
        for w, s, b, phi in atoms:
            total = total + w * phi.slope((x + b) / s)
        return total

    def exact_value(self, x: Fraction) -> Fraction:
        """For piecewise linear forms only."""
        assert self.is_linear
        return self.offset + self.line * x + sum(j * (x - at) for at, j in self.hinges if x > at)

    # Algebra, exact.

    def scaled(self, s: Fraction) -> Form:
        return Form(
            s * self.offset,
            self.line,
            tuple((s * at, j) for at, j in self.hinges),
            tuple((w, s * inner, s * b, phi) for w, inner, b, phi in self.atoms),
        )

    def times(self, weight: Fraction) -> Form:
        return Form(
            weight * self.offset,
            weight * self.line,
            tuple((at, weight * j) for at, j in self.hinges),
            tuple((weight * w, s, b, phi) for w, s, b, phi in self.atoms),
        )

    def plus(self, other: Form) -> Form:
        merged: dict[Fraction, Fraction] = {}
        for at, j in (*self.hinges, *other.hinges):
            merged[at] = merged.get(at, Fraction(0)) + j
        return Form(
            self.offset + other.offset,
            self.line + other.line,
            tuple(sorted(merged.items())),
            self.atoms + other.atoms,
        )

    def normalized(self) -> Form:
        """u(x + x0) - u(x0), x0 the anchor."""
        x0 = self.anchor
        level = self.exact_value(x0) if self.is_linear else exact(LD(self.value(ld(x0))))
        return Form(
            self.offset + self.line * x0 - level,
            self.line,
            tuple((at - x0, j) for at, j in self.hinges),
            tuple((w, s, b + x0, phi) for w, s, b, phi in self.atoms),
        )

    @cached_property
    def level_stretch(self) -> bool:
        """Whether the slope is 1, but for rounding, along a stretch: the anchor is then a matter of rounding."""
        if not self.is_linear:
            x0 = ld(self.anchor)
            near = LD(1e-7) * (1 + abs(x0))
            return bool(self.slope(x0 + near) - self.slope(x0 - near, "right") < 1e-11)
        slope, found = self.line, [self.line]
        for _, j in self.hinges:
            slope += j
            found.append(slope)
        return any(abs(float(each - 1)) < 1e-12 for each in found)

    @cached_property
    def anchor(self) -> Fraction:
        """The largest x whose left slope is at most 1."""
        for at, _ in self.hinges:
            x = ld(at)
            if self.slope(x) <= 1 + LD(1e-15) and self.slope(x, "right") >= 1 - LD(1e-15):
                return at
        assert not self.is_linear, "the slope passes 1 in no kink"
        x = LD(0)
        if not self.hinges and abs(self.slope(x) - 1) < 1e-18:
            return Fraction(0)
        a, b = LD(-1), LD(1)
        with np.errstate(all="ignore"):
            while self.slope(a) > 1:
                a *= 2
            while self.slope(b) <= 1:
                b *= 2
            for _ in range(200):
                middle = (a + b) / 2
                if not a < middle < b:
                    break
                a, b = (middle, b) if self.slope(middle) <= 1 else (a, middle)
        return exact(a)


# -- the tree -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Spec:
    """A utility: ``code`` makes certeq's object of it (names ce and np), ``form`` is what the referee believes."""

    code: str
    form: Form = field(repr=False)
    definitions: tuple[tuple[str, str], ...] = ()  # custom utilities that the code names
    level: bool = False  # somewhere inside an anchor is a matter of rounding, and with it the threshold
    atomic: bool = False
    kinds: frozenset[str] = frozenset()

    def scaled(self, s: float) -> Spec:
        return Spec(
            f"{self._bracketed}.scaled({s!r})",
            self.form.scaled(exact(s)),
            self.definitions,
            level=self.level,
            atomic=True,
            kinds=self.kinds | {"scaled"},
        )

    def normalized(self) -> Spec:
        return Spec(
            f"{self._bracketed}.normalized()",
            self.form.normalized(),
            self.definitions,
            level=self.level or self.form.level_stretch,
            atomic=True,
            kinds=self.kinds | {"normalized"},
        )

    @property
    def source(self) -> str:
        """Lines that make the utility u, given the names ce and np."""
        return "".join(f"{name} = {code}\n" for name, code in self.definitions) + f"u = {self.code}"

    def make(self, names: dict[str, object], made: dict[str, object]) -> object:
        """The package's object; custom utilities, slow to check, are made once and kept in ``made``."""
        for name, code in self.definitions:
            if name not in made:
                made[name] = eval(code, dict(names))
        return eval(self.code, {**names, **made})

    @property
    def _bracketed(self) -> str:
        return self.code if self.atomic else f"({self.code})"


def _form(line: float = 0.0, hinges=(), atoms=(), offset: float = 0.0) -> Form:
    merged: dict[Fraction, Fraction] = {}
    for at, jump in hinges:
        merged[exact(at)] = merged.get(exact(at), Fraction(0)) + exact(jump)
    return Form(exact(offset), exact(line), tuple(sorted(merged.items())), tuple(atoms))


def _atom(phi: Smooth, weight: Fraction | float = 1.0) -> tuple[Fraction, Fraction, Fraction, Smooth]:
    return exact(weight), Fraction(1), Fraction(0), phi


def mean() -> Spec:
    return Spec("ce.Mean()", _form(1.0), atomic=True, kinds=frozenset({"mean"}))


def cvar(alpha: float) -> Spec:
    form = _form(hinges=[(0.0, 1 / exact(alpha))])
    return Spec(f"ce.CVaR({alpha!r})", form, atomic=True, kinds=frozenset({"cvar"}))


def leaky(alpha: float) -> Spec:
    form = _form(atoms=[_atom(Smooth("arctan", alpha))])
    return Spec(f"ce.LeakyCVaR({alpha!r})", form, atomic=True, kinds=frozenset({"leaky"}))


def smooth(alpha: float, tau: float) -> Spec:
    form = _form(atoms=[_atom(Smooth("softplus", alpha, tau))])
    return Spec(f"ce.SmoothCVaR({alpha!r}, {tau!r})", form, atomic=True, kinds=frozenset({"smooth"}))


def entropic(beta: float) -> Spec:
    return Spec(
        f"ce.Entropic({beta!r})",
        _form(atoms=[_atom(Smooth("exp", beta))]),
        atomic=True,
        kinds=frozenset({"entropic"}),
    )


def mean_variance(beta: float) -> Spec:
    form = _form(1.0, atoms=[_atom(Smooth("square", beta))])
    return Spec(f"ce.MeanVariance({beta!r})", form, atomic=True, kinds=frozenset({"mean_variance"}))


def monotone_mean_variance(a: float) -> Spec:
    form = _form(atoms=[_atom(Smooth("power", a, a))])
    return Spec(f"ce.MonotoneMeanVariance({a!r})", form, atomic=True, kinds=frozenset({"mmv"}))


def quartic() -> Spec:
    form = _form(atoms=[_atom(Smooth("power", 4.0, 1.0))])
    return Spec("ce.Quartic()", form, atomic=True, kinds=frozenset({"quartic"}))


def custom(
    name: str, line: float, hinges: list[tuple[float, float]], curve: tuple[str, float, float] | None, given: str
) -> Spec:
    """line*x + sum of jump*(x - at)^+, and w times a curve; ``given`` says which derivatives are passed to certeq."""
    value = f"{line!r}*x" + "".join(f" + {j!r}*np.maximum(x - {at!r}, 0)" for at, j in hinges)
    slope = f"{line!r} + 0*x" + "".join(f" + {j!r}*(x > {at!r})" for at, j in hinges)
    curvature, atoms = "0*x", []
    if curve is not None:
        kind, weight, p = curve
        if kind == "exp":
            value += f" + {weight!r}*np.expm1({p!r}*x)/{p!r}"
            slope += f" + {weight!r}*np.exp({p!r}*x)"
            curvature = f"{weight!r}*{p!r}*np.exp({p!r}*x)"
            atoms = [_atom(Smooth("exp", p), weight)]
        else:  # softplus, slopes up to weight
            value += f" + {weight!r}*{p!r}*np.logaddexp(0, x/{p!r})"
            slope += f" + {weight!r}/(1 + np.exp(-x/{p!r}))"
            curvature = f"{weight!r}/{p!r}/(2 + np.exp(-np.abs(x)/{p!r}) + np.exp(np.abs(x)/{p!r}))"
            atoms = [_atom(Smooth("softplus", 1.0, p), weight)]
    parts = [f"lambda x: {value}"]
    if given in ("du", "d2u"):
        parts.append(f"lambda x: {slope}")
    if given == "d2u":
        parts.append(f"lambda x: {curvature}")
    if given == "kinks" and hinges:
        parts.append(f"kinks=({', '.join(repr(at) for at, _ in sorted(hinges))},)")
    return Spec(
        name,
        _form(line, hinges, atoms),
        ((name, f"ce.utility({', '.join(parts)})"),),
        atomic=True,
        kinds=frozenset({"custom_curve" if curve else "custom"}),
    )


def weighted(weights: list[float], terms: list[Spec]) -> Spec:
    form = terms[0].form.times(exact(weights[0]))
    for weight, term in zip(weights[1:], terms[1:], strict=True):
        form = form.plus(term.form.times(exact(weight)))
    code = " + ".join(f"{w!r}*{t._bracketed}" for w, t in zip(weights, terms, strict=True))
    kinds = frozenset({"sum"}).union(*(t.kinds for t in terms))
    definitions = dict(pair for t in terms for pair in t.definitions)
    return Spec(code, form, tuple(definitions.items()), level=any(t.level for t in terms), kinds=kinds)


# -- random utilities ---------------------------------------------------------------------------------------------


def _number(rng: np.random.Generator, low: float, high: float) -> float:
    """Log-uniform; half of them are short decimals, as people write them."""
    value = float(np.exp(rng.uniform(np.log(low), np.log(high))))
    return float(f"{value:.2g}") if rng.random() < 0.5 else value


def _built_in(rng: np.random.Generator, kinked: bool) -> Spec:
    alpha = min(_number(rng, 0.02, 0.9), 0.95)
    if kinked:
        return cvar(alpha)
    match rng.integers(8):
        case 0:
            return cvar(alpha)
        case 1 | 2:
            return leaky(alpha)
        case 3:
            return smooth(alpha, _number(rng, 0.01, 3.0))
        case 4:
            return entropic(_number(rng, 0.05, 5.0))
        case 5:
            return mean_variance(_number(rng, 0.05, 5.0))
        case 6:
            return monotone_mean_variance(float(rng.choice([2, 3, 2.5])))
    return quartic()


def draw_custom(rng: np.random.Generator, name: str, given: str) -> Spec:
    count = int(rng.integers(1, 7))
    rounded = rng.random() < 0.6
    points = rng.normal(0.0, rng.choice([0.3, 1.0, 3.0]), count)
    if rng.random() < 0.4:
        points[rng.integers(count)] = 0.0
    jumps = rng.uniform(0.05, 2.0, count)
    line = rng.uniform(0.0, 0.9) * (rng.random() < 0.8)
    if rounded:
        points, jumps, line = points.round(2), jumps.round(1) + 0.1, round(line, 1)
    merged = {float(at) + 0.0: float(j) for at, j in zip(points, jumps, strict=True)}
    curve = None
    if rng.random() < 0.35:
        kind = str(rng.choice(["exp", "softplus"]))
        curve = (kind, round(float(rng.uniform(0.1, 0.6)), 2), round(float(rng.uniform(0.2, 2.0)), 2))
    hinges = list(merged.items())
    if any(0 < abs(a - b) < 1e-3 for a in merged for b in merged):
        return draw_custom(rng, name, given)
    total = line + sum(merged.values())
    if total < 1.2 and (curve is None or curve[0] != "exp"):
        hinges[-1] = (hinges[-1][0], hinges[-1][1] + 2.0)
    low = line + 0.0
    if low > 0.95:
        return draw_custom(rng, name, given)
    return custom(name, line, hinges, curve, given)


_GIVEN = ("d2u", "du", "d2u", "u", "d2u", "d2u", "d2u", "d2u", "d2u", "kinks", *(10 * ["d2u"]))


_MADE: dict[int, dict[str, object]] = {}  # the package's custom utilities by seed and name, shared by all runs


class Draw:
    """Random utilities. Custom ones come from a pool of ``customs``, because the package's checks of them are slow."""

    def __init__(self, seed: int, customs: int, kinked: bool = False) -> None:
        rng = np.random.default_rng([seed, 1])
        # Derivatives found by the package itself are slow: one custom utility in ten leaves them to it.
        self.pool = [draw_custom(rng, f"C{i}", _GIVEN[i % len(_GIVEN)]) for i in range(customs)]
        self.made = _MADE.setdefault(seed, {})
        self.kinked = kinked

    def make(self, spec: Spec, names: dict[str, object]) -> object:
        return spec.make(names, self.made)

    def term(self, rng: np.random.Generator) -> Spec:
        if rng.random() < 0.4:
            return self.pool[int(rng.integers(len(self.pool)))]
        return _built_in(rng, self.kinked and rng.random() < 0.7)

    def simple(self, rng: np.random.Generator) -> Spec:
        """A custom utility or a sum of two, scaled and normalized at most once each, by numbers of two digits."""
        spec = self.pool[int(rng.integers(len(self.pool)))]
        if rng.random() < 0.3:
            spec = weighted([0.5, 0.5], [leaky(0.2), cvar(0.5)]).normalized()
        if rng.random() < 0.4:
            spec = spec.normalized()
        return spec.scaled(float(rng.choice([0.3, 0.7, 1.1, 1.18, 1.7]))) if rng.random() < 0.6 else spec

    def __call__(self, rng: np.random.Generator) -> Spec:
        """Built in or custom, in sums, scaled and normalized in any order, up to three levels deep."""
        while True:
            spec = self.term(rng)
            if rng.random() < 0.55:
                terms = [spec, *(self.term(rng) for _ in range(int(rng.integers(1, 3))))]
                if rng.random() < 0.2:
                    terms.append(mean())
                terms = [_wrapped(rng, t, 2) if t.kinds != {"mean"} else t for t in terms]
                shares = rng.dirichlet(np.ones(len(terms)) * 2) * rng.choice([1.0, 1.0, 1.0, 0.9, 1.2])
                if rng.random() < 0.5:
                    shares = shares.round(2) + 0.01
                spec = weighted([float(each) for each in shares], terms)
            if not _fits(spec.form):
                continue
            spec = _wrapped(rng, spec, 2)
            if rng.random() < 0.15:
                other = _wrapped(rng, self.term(rng), 1)
                spec = weighted([0.5, 0.5], [spec, other])
                if not _fits(spec.form):
                    continue
                spec = _wrapped(rng, spec, 2)
            return spec


def _wrapped(rng: np.random.Generator, spec: Spec, most: int) -> Spec:
    for _ in range(int(rng.integers(0, most + 1))):
        spec = spec.scaled(_number(rng, 0.1, 10.0)) if rng.random() < 0.55 else spec.normalized()
    return spec


def _fits(form: Form) -> bool:
    low, high = form.ends
    return low < 1 - 1e-3 and high > 1 + 1e-3

"""Risks of the families of scipy.stats against closed forms in forty digits, up to the edge of what is finite."""

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

import certeq as ce

mp.mp.dps = 40
F = mp.mpf

# -- ln E exp(r X), of standard members; rates up to the largest that is finite ----------------------------------------

CUMULANTS = {
    "norm": ([()], [1e-8, 1e-3, 1.0, 50.0, 2000.0], lambda r: r**2 / 2),
    "halfnorm": ([()], [1e-8, 1e-3, 1.0, 30.0], lambda r: r**2 / 2 + mp.log(2 * mp.ncdf(r))),
    "skewnorm": (
        [(3.0,), (-2.0,), (40.0,)],
        [1e-3, 1.0, 20.0],
        lambda r, a: r**2 / 2 + mp.log(2 * mp.ncdf(r * a / mp.sqrt(1 + a**2))),
    ),
    "rayleigh": (
        [()],
        [1e-4, 0.1, 2.0, 25.0],
        lambda r: mp.log(1 + r * mp.exp(r**2 / 2) * mp.sqrt(mp.pi / 2) * (mp.erf(r / mp.sqrt(2)) + 1)),
    ),
    "expon": ([()], [1e-9, 0.5, 0.999, 1 - 1e-9, 1 - 1e-15], lambda r: -mp.log(1 - r)),
    "gamma": (
        [(0.01,), (0.1,), (3.0,), (1e6,)],
        [1e-9, 0.5, 0.97, 1 - 1e-6, 1 - 1e-14],
        lambda r, a: -a * mp.log(1 - r),
    ),
    "chi2": ([(0.5,), (7.0,)], [1e-6, 0.2, 0.49, 0.5 - 1e-9], lambda r, df: -df / 2 * mp.log(1 - 2 * r)),
    "ncx2": (
        [(3.0, 2.0)],
        [1e-3, 0.2, 0.45, 0.49],
        lambda r, df, nc: nc * r / (1 - 2 * r) - df / 2 * mp.log(1 - 2 * r),
    ),
    "laplace": ([()], [1e-9, 0.3, 0.98, 0.9999, 1 - 1e-12], lambda r: -mp.log(1 - r**2)),
    "laplace_asymmetric": ([(0.7,), (2.0,)], [1e-3, 0.5, 0.69], lambda r, k: -mp.log((1 - r / k) * (1 + r * k))),
    "logistic": ([()], [1e-4, 0.3, 0.9, 0.999, 1 - 1e-8], lambda r: mp.loggamma(1 - r) + mp.loggamma(1 + r)),
    "hypsecant": ([()], [1e-4, 0.3, 0.9, 0.99, 1 - 1e-8], lambda r: -mp.log(mp.cos(mp.pi * r / 2))),
    "gumbel_r": ([()], [1e-4, 0.3, 0.9, 0.999, 1 - 1e-8], lambda r: mp.loggamma(1 - r)),
    "gumbel_l": ([()], [1e-4, 0.3, 2.0, 20.0, 200.0], lambda r: mp.loggamma(1 + r)),
    "genlogistic": (
        [(0.3,), (4.0,)],
        [1e-4, 0.3, 0.99, 1 - 1e-6],
        lambda r, c: mp.loggamma(1 - r) + mp.loggamma(c + r) - mp.loggamma(c),
    ),
    "loggamma": ([(0.4,), (5.0,)], [1e-3, 1.0, 30.0], lambda r, c: mp.loggamma(c + r) - mp.loggamma(c)),
    "moyal": (
        [()],
        [1e-3, 0.3, 0.49, 0.4999],
        lambda r: -r * mp.log(2) + mp.loggamma(F(1) / 2 - r) - mp.log(mp.pi) / 2,
    ),
    "dgamma": (
        [(0.5,), (1.1,), (4.0,)],
        [1e-3, 0.5, 0.99, 0.9999],
        lambda r, a: mp.log(((1 - r) ** -a + (1 + r) ** -a) / 2),
    ),
    "exponnorm": ([(0.5,), (2.0,)], [1e-3, 0.3, 0.49, 0.4999], lambda r, k: r**2 / 2 - mp.log(1 - k * r)),
    "invgauss": (
        [(0.5,), (1.0,), (3.0,)],
        [1e-6, 0.03, 0.055, 0.49, 0.5, 1.95, 2.0],
        lambda r, mu: (1 - mp.sqrt(1 - 2 * mu**2 * r)) / mu,
    ),
    "wald": ([()], [1e-6, 0.3, 0.49, 0.5], lambda r: 1 - mp.sqrt(1 - 2 * r)),
    "norminvgauss": (
        [(1.0, 0.2), (2.0, -1.5), (1.0, 0.0)],
        [1e-6, 0.3, 0.79, 1.0],
        lambda r, a, b: mp.sqrt(a**2 - b**2) - mp.sqrt(a**2 - (b + r) ** 2),
    ),
    "uniform": ([()], [1e-6, 1.0, 300.0], lambda r: mp.log(mp.expm1(r) / r)),
    "beta": ([(0.5, 0.5), (2.0, 5.0), (0.1, 3.0)], [1e-3, 1.0, 50.0], lambda r, a, b: mp.log(mp.hyp1f1(a, a + b, r))),
    "poisson": ([(1e-3,), (1.0,), (1000.0,), (1e6,)], [1e-6, 0.1, 1.0, 8.0, 50.0], lambda r, m: m * mp.expm1(r)),
    "skellam": ([(3.0, 8.0)], [1e-3, 0.5, 4.0], lambda r, m, n: m * mp.expm1(r) + n * mp.expm1(-r)),
    "bernoulli": ([(0.03,), (0.9,)], [1e-6, 1.0, 30.0, 800.0], lambda r, p: mp.log(1 - p + p * mp.exp(r))),
    "binom": (
        [(1000, 0.01), (10000, 0.5), (10**6, 0.5), (10**9, 1e-9), (5, 1.0)],
        [1e-6, 0.1, 1.0, 5.0, 800.0],
        lambda r, n, p: n * mp.log(1 - p + p * mp.exp(r)),
    ),
    "nbinom": (
        [(2.0, 0.01), (3.0, 0.4), (0.3, 0.9)],
        [1e-6, 0.01, 0.5, 2.3],
        lambda r, n, p: n * mp.log(p / (1 - (1 - p) * mp.exp(r))),
    ),
    "geom": ([(0.3,), (0.01,)], [1e-6, 0.01, 0.35, 0.3566], lambda r, p: r + mp.log(p / (1 - (1 - p) * mp.exp(r)))),
    "logser": ([(0.3,), (0.95,)], [1e-3, 0.04, 1.0], lambda r, p: mp.log(mp.log(1 - p * mp.exp(r)) / mp.log(1 - p))),
    "planck": ([(0.5,)], [1e-3, 0.3, 0.45], lambda r, k: mp.log(mp.expm1(-k) / mp.expm1(r - k))),
    "dlaplace": (
        [(0.8,)],
        [1e-3, 0.3, 0.7],
        lambda r, a: mp.log(mp.tanh(a / 2) * mp.sinh(a) / (mp.cosh(a) - mp.cosh(r))),
    ),
}


def _cases(table):
    return [(name, shapes, rate) for name, (members, rates, _) in table.items() for shapes in members for rate in rates]


def _exact(function, *numbers):
    """A closed form of float64 numbers as they are; None where it is infinite or no real number."""
    try:
        found = function(*map(F, numbers))
    except (ZeroDivisionError, ValueError):
        return None
    return found if isinstance(found, mp.mpf) and mp.isfinite(found) else None


def _check(distribution, utility, value, size=0.0):
    """Ten digits, of the value or of the size of the losses where that is larger; or a refusal that says so."""
    try:
        found = ce.oce(distribution, utility)
    except ValueError as error:
        if "ten digits" in str(error) or "more values that matter" in str(error):
            return False
        raise
    assert abs(F(found) - value) <= 1e-10 * max(abs(value), size), (found, value)
    return True


REFUSED = {(name, (), 1 - 1e-8) for name in ("logistic", "hypsecant", "gumbel_r")}  # x of 1e9: exp(x) has no digits


@pytest.mark.parametrize(("name", "shapes", "rate"), _cases(CUMULANTS))
def test_log_mean_exp(name, shapes, rate):
    value = _exact(CUMULANTS[name][2], rate, *shapes)
    distribution = getattr(stats, name)(*shapes)
    if value is None:
        assert ce.oce(distribution, ce.Entropic(rate)) == np.inf
    else:
        assert _check(distribution, ce.Entropic(rate), value / F(rate)) != ((name, shapes, rate) in REFUSED)


# -- the k-th moment of losses above q, by incomplete beta and gamma functions; tails up to infinite moments -----------


def _above(a, b, q, scale=1):
    """E[Y**k; Y > q] of a beta prime distribution, as a function of k."""
    return lambda k: mp.beta(a + k, b - k) / mp.beta(a, b) * mp.betainc(b - k, a + k, 0, 1 / (1 + q), regularized=True)


def _t(df, q):
    """Of |X|**k, where X**2/df is beta prime; half of it lies to the right."""
    return lambda k: df ** (k / F(2)) * _above(F(1) / 2, df / 2, q**2 / df)(k / F(2)) / 2


def _burr12(c, d, q):
    return lambda k: _above(F(1), d, q**c)(k / c)


def _burr(c, d, q):
    return lambda k: _above(d, F(1), q**c)(k / c)


def _inverse_gamma(a, q, c=1):
    """Of Y**(1/c), Y inverse gamma."""
    return lambda k: mp.gammainc(a - k / F(c), 0, q**-c if q > 0 else mp.inf) / mp.gamma(a)


def _pareto(b, q):
    return lambda k: b / (b - k) * q ** (k - b)


MOMENTS = {
    "pareto": (lambda p: (p,), _pareto),
    "lomax": (lambda p: (p,), lambda c, q: _burr12(F(1), c, q)),
    "genpareto": (lambda p: (1 / p,), lambda c, q: lambda k: c**-k * _burr12(F(1), 1 / c, c * q)(k)),
    "t": (lambda p: (p,), _t),
    "burr": (lambda p: (p, 0.7), _burr),
    "burr12": (lambda p: (0.5, 2 * p), _burr12),
    "fisk": (lambda p: (p,), lambda c, q: _burr(c, F(1), q)),
    "betaprime": (lambda p: (0.3, p), _above),
    "f": (lambda p: (3.0, 2 * p), lambda m, n, q: lambda k: (n / m) ** k * _above(m / 2, n / 2, m * q / n)(k)),
    "invgamma": (lambda p: (p,), _inverse_gamma),
    "invweibull": (lambda p: (p,), lambda c, q: _inverse_gamma(F(1), q, c)),
    "genextreme": (
        lambda p: (-1 / p,),
        lambda c, q: lambda k: (-c) ** -k * sum(
            (-1) ** (k - j) * mp.binomial(k, j) * _inverse_gamma(F(1), 1 - c * q, -1 / c)(j) for j in range(k + 1)
        ),
    ),
    "loglaplace": (lambda p: (p,), lambda c, q: lambda k: _pareto(c, q)(k) / 2),
}  # fmt: skip
MARGINS = [1e-4, 1e-3, 0.01, 0.05, 0.5, 3.0, 20.0]  # of the power of the tail above the moment that is needed


def _quantile(distribution, moments, shapes, tail):
    """Where the mass above is ``tail``, to forty digits."""
    guess = F(float(distribution.isf(tail)))
    return mp.findroot(lambda q: moments(*shapes, q)(0) / F(tail) - 1, (guess, guess * (1 + F(10) ** -12)))


@pytest.mark.parametrize("margin", MARGINS)
@pytest.mark.parametrize("name", MOMENTS)
def test_cvar_of_power_laws(name, margin):
    parameters, moments = MOMENTS[name]
    distribution = getattr(stats, name)(*parameters(1.0 + margin))
    shapes = tuple(map(F, parameters(1.0 + margin)))
    for alpha in (0.05, 0.3):
        q = _quantile(distribution, moments, shapes, alpha)
        assert _check(distribution, ce.CVaR(alpha), moments(*shapes, q)(1) / F(alpha)), alpha
        assert ce.threshold(distribution, ce.CVaR(alpha)) == pytest.approx(float(q), rel=1e-10)


@pytest.mark.parametrize("margin", MARGINS)
@pytest.mark.parametrize("name", MOMENTS)
def test_variance_of_power_laws(name, margin):
    parameters, moments = MOMENTS[name]
    distribution = getattr(stats, name)(*parameters(2.0 + margin))
    shapes = tuple(map(F, parameters(2.0 + margin)))
    c = shapes[0]
    if name == "t":
        mean, square = F(0), c / (c - 2)
    elif name == "loglaplace":  # 1/X has the distribution of X
        mean, square = (c**2 / (c**2 - k**2) for k in (1, 2))
    elif name == "genextreme":
        mean = (1 - mp.gamma(1 + c)) / c
        square = (1 - 2 * mp.gamma(1 + c) + mp.gamma(1 + 2 * c)) / c**2
    else:
        low = F(1) if name == "pareto" else F(0)
        mean, square = (moments(*shapes, low)(k) for k in (1, 2))
    for beta in (0.5, 1e-3):
        assert _check(distribution, ce.MeanVariance(beta), mean + F(beta) * (square - mean**2)), beta


# -- losses above q of other families ----------------------------------------------------------------------------------

ABOVE = {  # E[X; X > q]
    "norm": ([()], lambda q: mp.npdf(q)),
    "expon": ([()], lambda q: (1 + q) * mp.exp(-q)),
    "laplace": ([()], lambda q: (1 + q) * mp.exp(-q) / 2),
    "logistic": ([()], lambda q: q * mp.exp(-q) / (1 + mp.exp(-q)) + mp.log1p(mp.exp(-q))),
    "lognorm": ([(0.1,), (1.0,), (4.0,)], lambda s, q: mp.exp(s**2 / 2) * mp.ncdf(s - mp.log(q) / s)),
    "gamma": ([(0.05,), (2.0,), (40.0,)], lambda a, q: a * mp.gammainc(a + 1, q, regularized=True)),
    "weibull_min": ([(0.3,), (1.0,), (5.0,)], lambda c, q: mp.gammainc(1 + 1 / c, q**c)),
    "rayleigh": ([()], lambda q: q * mp.exp(-(q**2) / 2) + mp.sqrt(2 * mp.pi) * mp.ncdf(-q)),
    "uniform": ([()], lambda q: (1 - q**2) / 2),
    "beta": ([(0.3, 0.5), (2.0, 5.0), (4.5, 0.7)], lambda a, b, q: a / (a + b) * mp.betainc(a + 1, b, q, 1, True)),
    "invgauss": (
        [(0.5,), (3.0,)],
        lambda mu, q: mu
        * (mp.ncdf((1 - q / mu) / mp.sqrt(q)) + mp.exp(2 / mu) * mp.ncdf(-(1 + q / mu) / mp.sqrt(q))),
    ),
}  # fmt: skip


@pytest.mark.parametrize("alpha", [1e-9, 0.01, 0.05, 0.4])
@pytest.mark.parametrize(
    ("name", "shapes"), [(name, shapes) for name, (members, _) in ABOVE.items() for shapes in members]
)
def test_cvar(name, shapes, alpha):
    """t + E(X - t)^+ / alpha, with the quantile and the mass above it from scipy: an error there cancels."""
    distribution = getattr(stats, name)(*shapes)
    if name == "beta" and shapes[1] < 1.0 and alpha == 1e-9:  # rounded to 1, where it is infinite
        with pytest.raises(ValueError, match="ten digits"):
            ce.threshold(distribution, ce.CVaR(alpha))
        return
    t = ce.threshold(distribution, ce.CVaR(alpha))
    value = F(t) + (ABOVE[name][1](*map(F, shapes), F(t)) - F(t) * F(distribution.sf(t))) / F(alpha)
    assert distribution.sf(t) == pytest.approx(alpha, rel=1e-9)
    assert _check(distribution, ce.CVaR(alpha), value)


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9, 0.99, 0.9999])
def test_sums_with_an_exponential_near_its_limit(rate):
    """Of an exponential distribution: the mean slope is (exp(-t)/alpha + exp(-rate t)/(1 - rate)) / 2 for t >= 0."""
    alpha, r = F(0.1), F(rate)
    t = mp.findroot(lambda t: (mp.exp(-t) / alpha + mp.exp(-r * t) / (1 - r)) / 2 - 1, (F(0), F(20)), solver="ridder")
    value = t + (mp.exp(-t) / alpha + (mp.exp(-r * t) / (1 - r) - 1) / r) / 2
    u = 0.5 * ce.CVaR(0.1) + 0.5 * ce.Entropic(rate)
    assert _check(stats.expon(), u, value)
    assert _check(stats.gamma(1.0, 2.0, 1.0), u, value + 2)
    assert ce.threshold(stats.expon(), u) == pytest.approx(float(t), rel=1e-9)

"""Distributions of ``scipy.stats``: parameters by likelihood, and values for numbers.

As SciPy computes them: by a formula or a root where there is one, else by the simplex method on the
likelihood, to which data outside the support add a penalty. `special` is ``scipy.special``. What
SciPy raises for, warns of or answers with NaN raises here, so that it does that itself.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

PENALTY = float(np.log(np.finfo(float).max))
TINY = float(np.finfo(float).tiny)


def checked(data: Any) -> None:
    """Raise for data that are not all finite, or none."""
    if len(data) == 0:
        raise ValueError
    for x in data:
        if not math.isfinite(x):
            raise ValueError


# --- supports, and logarithms of densities there: of a shape `c`, which some do not have ----------


def whole(c: Any) -> Any:
    """All numbers."""
    return -math.inf, math.inf


def positive(c: Any) -> Any:
    """Numbers from zero on."""
    return 0.0, math.inf


def extreme_ends(c: Any) -> Any:
    """The support of ``genextreme``."""
    high = np.float64(1.0 / max(c, TINY) if c > 0 else math.inf)
    low = np.float64(1.0 / min(c, -TINY) if c < 0 else -math.inf)
    return low, high


def pareto_ends(c: Any) -> Any:
    """The support of ``genpareto``."""
    return 0.0, np.float64(-1.0 / c if c < 0 else math.inf)


def extreme_logs(x: Any, c: Any, special: Any) -> Any:
    """Of ``genextreme``."""
    if c == 0 or c == 1:
        raise ValueError
    inner = special.log1p(-(c * x))
    outer = special.log1p(-c * x) / c
    return -np.exp(outer) + outer - inner


def pareto_logs(x: Any, c: Any, special: Any) -> Any:
    """Of ``genpareto``."""
    if c == 0:
        raise ValueError
    return -special.xlog1py(c + 1.0, c * x) / c


def weibull_logs(x: Any, c: Any, special: Any) -> Any:
    """Of ``weibull_min``."""
    return np.log(c) + special.xlogy(c - 1, x) - x**c


def gamma_logs(x: Any, c: Any, special: Any) -> Any:
    """Of ``gamma``."""
    return special.xlogy(c - 1.0, x) - x - special.gammaln(c)


def allows(any_sign: Any, c: Any) -> Any:
    """Whether a shape is one; `any_sign`: any finite number is, else positive ones are."""
    return math.isfinite(c) if any_sign else c > 0


# --- likelihoods --------------------------------------------------------------------------


def unlikelihood(
    logs: Any, ends: Any, any_sign: Any, special: Any, c: Any, loc: Any, scale: Any, data: Any
) -> Any:
    """The negative logarithm of the likelihood, with a penalty for data outside of the support."""
    if not (scale > 0 and allows(any_sign, c)):
        return math.inf
    x = (data - loc) / scale
    low, high = ends(c)
    inside = (low <= x) & (x <= high)
    bad = len(x) - np.count_nonzero(inside)
    if bad > 0:
        x = x[inside]
    terms = logs(x, c, special)
    finite = np.isfinite(terms)
    more = len(terms) - np.count_nonzero(finite)
    if more > 0:
        terms = terms[finite]
    total = np.sum(terms) + 0.0
    return -total + (bad + more) * PENALTY * 100 + len(data) * np.log(scale)


def by_simplex(
    logs: Any, ends: Any, any_sign: Any, special: Any, fmin: Any,
    c: Any, loc: Any, scale: Any, floc: Any, data: Any,
) -> Any:  # fmt: skip
    """The shape, the location and the scale that are the likeliest, from a guess of them.

    `floc`: a location that is given; None: it is looked for too.
    """

    def of_three(theta: Any) -> Any:
        return unlikelihood(logs, ends, any_sign, special, theta[0], theta[1], theta[2], data)

    def of_two(theta: Any) -> Any:
        return unlikelihood(logs, ends, any_sign, special, theta[0], floc, theta[1], data)

    if floc is None:
        found = fmin(of_three, np.array([c, loc, scale]), disp=0)
        shape, where, wide = found[0], found[1], found[2]
    else:
        found = fmin(of_two, np.array([c, scale]), disp=0)
        shape, where, wide = found[0], floc, found[1]
    if not (wide > 0 and allows(any_sign, shape)):
        raise ValueError
    return shape, where, wide


def guess(ends: Any, c: Any, mean: Any, variance: Any, data: Any) -> Any:
    """A location and a scale by the moments of a distribution of that shape, and by its support."""
    scale = np.sqrt(data.var() / variance)
    loc = data.mean() - scale * mean
    if not math.isfinite(loc):
        loc = np.float64(0.0)
    if not (math.isfinite(scale) and scale > 0):
        scale = np.float64(1.0)
    return within(ends, c, loc, scale, data)


def within(ends: Any, c: Any, loc: Any, scale: Any, data: Any) -> Any:
    """A location and a scale whose support has all data."""
    low, high = ends(c)
    first, last = np.min(data), np.max(data)
    if loc + low * scale < first and last < loc + high * scale:
        return loc, scale
    margin = (last - first) * 0.1
    if high - low < math.inf:
        raise ValueError
    if low > -math.inf:
        return (first - low) - margin, np.float64(1.0)
    return (last - high) + margin, np.float64(1.0)


def skewness(data: Any) -> Any:
    """The third central moment by the variance to the power of 1.5."""
    away = data - data.mean()
    return (away**3).mean() / np.power((away**2).mean(), 1.5)


def genextreme_fit(data: Any, floc: Any, special: Any, fmin: Any, left: Any, right: Any) -> Any:
    """``genextreme.fit(data)``; `left`, `right`: mean and variance for shapes of 0.5 and -0.5."""
    checked(data)
    if skewness(data) < 0:
        c = 0.5
        mean, variance = left
    else:
        c = -0.5
        mean, variance = right
    loc, scale = guess(extreme_ends, c, mean, variance, data)
    return by_simplex(extreme_logs, extreme_ends, True, special, fmin, c, loc, scale, floc, data)


def genpareto_fit(data: Any, floc: Any, special: Any, fmin: Any) -> Any:
    """``genpareto.fit(data)``: a distribution of the first guess has no variance."""
    checked(data)
    if not math.isfinite(data.var()):  # of which SciPy warns, though it does not use it
        raise ValueError
    loc, scale = within(pareto_ends, 1.0, np.float64(0.0), np.float64(1.0), data)
    return by_simplex(pareto_logs, pareto_ends, True, special, fmin, 1.0, loc, scale, floc, data)


def gamma_fit(data: Any, floc: Any, special: Any, fmin: Any) -> Any:
    """``gamma.fit(data)``, where the location is not given."""
    checked(data)
    c = 4 / (1e-8 + skewness(data) ** 2)
    loc, scale = guess(positive, c, c, c, data)
    return by_simplex(gamma_logs, positive, False, special, fmin, c, loc, scale, floc, data)


def gamma_fit_at_zero(data: Any, floc: Any, brentq: Any, special: Any) -> Any:
    """``gamma.fit(data, floc=0)``: the shape by likelihood, then the scale."""
    for x in data:
        if not (x > 0.0 and x < math.inf):
            raise ValueError
    mean = data.mean()
    s = np.log(mean) - np.log(data).mean()
    about = (3 - s + np.sqrt((s - 3) ** 2 + 24 * s)) / (12 * s)
    low = about * (1 - 0.4)
    high = about * (1 + 0.4)
    a = brentq(lambda a: np.log(a) - special.digamma(a) - s, low, high, disp=False)
    return a, floc, mean / a


def weibull_skewness(c: Any, special: Any) -> Any:
    """The skewness of ``weibull_min``."""
    first, second, third = (
        special.gamma(1 + 1 / c),
        special.gamma(1 + 2 / c),
        special.gamma(1 + 3 / c),
    )
    return (2 * first**3 - 3 * first * second + third) / (second - first**2) ** (3 / 2)


def weibull_fit(data: Any, floc: Any, special: Any, fmin: Any, root_scalar: Any, least: Any) -> Any:
    """``weibull_min.fit(data)``; `least`: the skewness below which moments give no guess."""
    checked(data)
    mean = data.mean()
    away = data - mean
    square = away**2
    variance = square.mean()
    if variance <= (2.220446049250313e-16 * mean) ** 2:
        raise ValueError
    if np.max(np.abs(away)) < 2.3e-15 * abs(mean):  # of which SciPy warns
        raise ValueError
    skew = (square * away).mean() / variance**1.5
    if skew < least:
        loc, scale = guess(positive, 1.0, 1.0, 1.0, data)
        return by_simplex(weibull_logs, positive, False, special, fmin, 1.0, loc, scale, floc, data)
    c = root_scalar(
        lambda c: weibull_skewness(c, special) - skew, bracket=[0.02, 1e4], method="bisect"
    ).root
    scale = np.sqrt(np.var(data) / (special.gamma(1 + 2 / c) - special.gamma(1 + 1 / c) ** 2))
    loc = np.mean(data) - scale * special.gamma(1 + 1 / c)
    return by_simplex(weibull_logs, positive, False, special, fmin, c, loc, scale, floc, data)


# --- formulas and roots -----------------------------------------------------------------------


def norm_fit(data: Any) -> Any:
    """``norm.fit(data)``."""
    checked(data)
    loc = data.mean()
    return loc, np.sqrt(((data - loc) ** 2).mean())


def expon_fit(data: Any, floc: Any) -> Any:
    """``expon.fit(data)``."""
    checked(data)
    least = data.min()
    loc = least if floc is None else floc
    if least < loc:
        raise ValueError
    return float(loc), float(data.mean() - loc)


def lognorm_fit(data: Any, floc: Any) -> Any:
    """``lognorm.fit(data, floc=floc)``."""
    checked(data)
    if floc >= np.min(data):
        raise ValueError
    logs = np.log(data - floc)
    scale = np.exp(logs.mean())
    shape = np.sqrt(np.mean((logs - np.log(scale)) ** 2))
    if not (shape > 0 and scale > 0):
        raise ValueError
    return shape, floc, scale


def of_exponentials(a: Any) -> Any:
    """``scipy.special.logsumexp(a)`` of finite numbers: the largest are left out of the sum."""
    most = np.max(a)
    largest = a == most
    count = float(np.count_nonzero(largest))
    terms = np.exp(a - most)
    terms[largest] = 0.0
    rest = np.sum(terms)
    if rest != 0:
        rest = rest / count
    return np.log1p(rest) + np.log(count) + most


def gumbel_fit(data: Any, root_scalar: Any) -> Any:
    """``gumbel_r.fit(data)``: the scale is a root, and gives the location."""
    checked(data)

    def excess(scale: Any) -> Any:
        weights = -data / scale
        weights = np.exp(weights - weights.max())
        weighted = (data * weights).sum() / weights.sum()
        return data.mean() - weighted - scale

    low, high = 0.5, 2.0
    rounds = 0
    while np.sign(excess(low)) == np.sign(excess(high)):
        low /= 2
        high *= 2
        rounds += 1
        if rounds > 1000:
            raise ValueError
    scale = root_scalar(excess, bracket=(low, high), rtol=1e-14, xtol=1e-14).root
    return -scale * (of_exponentials(-data / scale) - np.log(len(data))), scale


# --- values for numbers -----------------------------------------------------------------------


def gamma_cdf(y: Any, c: Any, special: Any) -> Any:
    """The distribution function of ``gamma``."""
    return special.gammainc(c, y)


def gamma_ppf(q: Any, c: Any, special: Any) -> Any:
    """Quantiles of ``gamma``."""
    return special.gammaincinv(c, q)


def extreme_cdf(y: Any, c: Any, special: Any) -> Any:
    """The distribution function of ``genextreme``."""
    return np.exp(-np.exp(special.log1p(-c * y) / c if c != 0 else -y))


def extreme_sf(y: Any, c: Any, special: Any) -> Any:
    """What is above, of ``genextreme``."""
    return -special.expm1(-np.exp(special.log1p(-c * y) / c if c != 0 else -y))


def extreme_ppf(q: Any, c: Any, special: Any) -> Any:
    """Quantiles of ``genextreme``."""
    x = -np.log(-np.log(q))
    return -special.expm1(-c * x) / c if c != 0 else x


def extreme_isf(q: Any, c: Any, special: Any) -> Any:
    """Quantiles from above of ``genextreme``."""
    x = -np.log(-special.log1p(-q))
    return -special.expm1(-c * x) / c if c != 0 else x


def gumbel_cdf(y: Any, c: Any, special: Any) -> Any:
    """The distribution function of ``gumbel_r``."""
    return np.exp(-np.exp(-y))


def gumbel_sf(y: Any, c: Any, special: Any) -> Any:
    """What is above, of ``gumbel_r``."""
    return -special.expm1(-np.exp(-y))


def gumbel_ppf(q: Any, c: Any, special: Any) -> Any:
    """Quantiles of ``gumbel_r``."""
    return -np.log(-np.log(q))


def gumbel_isf(q: Any, c: Any, special: Any) -> Any:
    """Quantiles from above of ``gumbel_r``."""
    return -np.log(-np.log1p(-q))


def weibull_cdf(y: Any, c: Any, special: Any) -> Any:
    """The distribution function of ``weibull_min``."""
    return -special.expm1(-np.power(y, c))


def weibull_sf(y: Any, c: Any, special: Any) -> Any:
    """What is above, of ``weibull_min``."""
    return np.exp(-np.power(y, c))


def weibull_ppf(q: Any, c: Any, special: Any) -> Any:
    """Quantiles of ``weibull_min``."""
    return np.power(-special.log1p(-q), 1.0 / c)


def weibull_isf(q: Any, c: Any, special: Any) -> Any:
    """Quantiles from above of ``weibull_min``."""
    return np.power(-np.log(q), 1 / c)


def lognorm_cdf(y: Any, c: Any, special: Any) -> Any:
    """The distribution function of ``lognorm``."""
    return special.ndtr(np.log(y) / c)


def lognorm_sf(y: Any, c: Any, special: Any) -> Any:
    """What is above, of ``lognorm``."""
    return special.ndtr(-(np.log(y) / c))


def lognorm_ppf(q: Any, c: Any, special: Any) -> Any:
    """Quantiles of ``lognorm``."""
    return np.exp(c * special.ndtri(q))


def expon_cdf(y: Any, c: Any, special: Any) -> Any:
    """The distribution function of ``expon``."""
    return -special.expm1(-y)


def expon_sf(y: Any, c: Any, special: Any) -> Any:
    """What is above, of ``expon``."""
    return np.exp(-y)


def expon_ppf(q: Any, c: Any, special: Any) -> Any:
    """Quantiles of ``expon``."""
    return -special.log1p(-q)


def norm_cdf(y: Any, c: Any, special: Any) -> Any:
    """The distribution function of ``norm``."""
    return special.ndtr(y)


def norm_sf(y: Any, c: Any, special: Any) -> Any:
    """What is above, of ``norm``."""
    return special.ndtr(-y)


def norm_ppf(q: Any, c: Any, special: Any) -> Any:
    """Quantiles of ``norm``."""
    return special.ndtri(q)


def share(
    of: Any, ends: Any, any_sign: Any, special: Any, x: Any, c: Any, loc: Any, scale: Any
) -> Any:
    """What is below a number, or above, by `of`."""
    if not (scale > 0 and allows(any_sign, c)):
        raise ValueError
    y = (x - loc) / scale
    low, high = ends(c)
    if not (low < y and y < high):
        raise ValueError
    return of(y, c, special)


def quantile(
    of: Any, ends: Any, any_sign: Any, special: Any, q: Any, c: Any, loc: Any, scale: Any
) -> Any:
    """The number below which, or above, a share is."""
    if not (scale > 0 and loc == loc and allows(any_sign, c)):
        raise ValueError
    if not (q > 0 and q < 1):
        raise ValueError
    return of(q, c, special) * scale + loc


def is_plain(any_sign: Any, c: Any, loc: Any, scale: Any) -> Any:
    """Whether a distribution with these parameters has values that are no NaN."""
    return scale > 0 and math.isfinite(scale) and math.isfinite(loc) and allows(any_sign, c)


def shares(
    of: Any,
    ends: Any,
    any_sign: Any,
    special: Any,
    x: Any,
    c: Any,
    loc: Any,
    scale: Any,
    sides: Any,
) -> Any:
    """`share` of each element; `sides`: what is given for those beside the support."""
    if not is_plain(any_sign, c, loc, scale):
        raise ValueError
    low, high = ends(c)
    below, above = sides
    out = np.empty(len(x))
    for k in range(len(x)):
        y = (x[k] - loc) / scale
        if low < y and y < high:
            out[k] = of(y, c, special)
        elif y <= low:
            out[k] = below
        elif y >= high:
            out[k] = above
        else:
            out[k] = np.nan
    return out


def quantiles(
    of: Any,
    ends: Any,
    any_sign: Any,
    special: Any,
    q: Any,
    c: Any,
    loc: Any,
    scale: Any,
    sides: Any,
) -> Any:
    """`quantile` of each element; `sides`: which end of the support a share of 0 and of 1 is."""
    if not is_plain(any_sign, c, loc, scale):
        raise ValueError
    found = ends(c)
    first, last = sides
    out = np.empty(len(q))
    for k in range(len(q)):
        p = q[k]
        if p > 0 and p < 1:
            out[k] = of(p, c, special) * scale + loc
        elif p == 0:
            out[k] = found[first] * scale + loc
        elif p == 1:
            out[k] = found[last] * scale + loc
        else:
            out[k] = np.nan
    return out

"""Distributions that a function fits to its slice are compiled."""

import numpy as np
import pytest
from outcomes import check_along_rows as check
from outcomes import outcome

import xpapply
from xpapply.backends.cpu import typed as backend

stats = pytest.importorskip("scipy.stats")
pytestmark = [
    pytest.mark.skipif(backend.why_not() is not None, reason=str(backend.why_not())),
    pytest.mark.usefixtures("by_source"),
]


def standardized(v):
    """The standardized precipitation index, as it is usually written."""
    a, _, scale = stats.gamma.fit(v, floc=0)
    return stats.norm.ppf(stats.gamma.cdf(v[-1], a, scale=scale))


def index(v):
    """The same of all months, some of them dry."""
    v = np.asarray(v, dtype=float)
    wet = v[v > 0]
    a, loc, scale = stats.gamma.fit(wet, floc=0)
    dry = 1 - len(wet) / len(v)
    return stats.norm.ppf(dry + (1 - dry) * stats.gamma.cdf(v, a, loc=loc, scale=scale))


def of_each_month(v):
    out = np.full(v.shape, np.nan)
    for month in range(3):
        a, _, scale = stats.gamma.fit(v[month::3], floc=0)
        out[month::3] = stats.norm.ppf(stats.gamma.cdf(v[month::3], a, scale=scale))
    return np.clip(out, -3, 3)


def parameters(v):
    return np.array(stats.gamma.fit(v, floc=0))


def probability(v):
    total = 0.0
    for x in v:
        total += stats.gamma.cdf(x, v[0], v[1] * 0.1, scale=v[2])
    return total


def or_nothing(v):
    try:
        return stats.gamma.fit(v, floc=0)[0]
    except ValueError:
        return np.nan


def level(v):
    """What is exceeded once in a hundred years."""
    return stats.genextreme.isf(0.01, *stats.genextreme.fit(v))


def rarity(v):
    loc, scale = stats.gumbel_r.fit(v)
    return 1 / stats.gumbel_r.sf(v.max(), loc, scale=scale)


FITS = {
    "genextreme": lambda v: stats.genextreme.fit(v),
    "genextreme at": lambda v: stats.genextreme.fit(v, floc=1.5),
    "genpareto": lambda v: stats.genpareto.fit(v),
    "genpareto at": lambda v: stats.genpareto.fit(v, floc=0),
    "weibull_min": lambda v: stats.weibull_min.fit(v),
    "weibull_min at": lambda v: stats.weibull_min.fit(v, floc=0),
    "gamma": lambda v: stats.gamma.fit(v),
    "lognorm at": lambda v: stats.lognorm.fit(v, floc=0),
    "gumbel_r": lambda v: stats.gumbel_r.fit(v),
    "expon": lambda v: stats.expon.fit(v),
    "expon at": lambda v: stats.expon.fit(v, floc=0),
    "norm": lambda v: stats.norm.fit(v),
    "level": level,
    "rarity": rarity,
}
VALUES = {
    "norm": "cdf sf ppf",
    "expon": "cdf sf ppf",
    "lognorm": "cdf sf ppf",
    "gumbel_r": "cdf sf ppf isf",
    "gamma": "cdf ppf",
    "genextreme": "cdf sf ppf isf",
    "weibull_min": "cdf sf ppf isf",
}
WITH_SHAPE = ("lognorm", "gamma", "genextreme", "weibull_min")


def rain(n=120, m=30):
    return np.random.default_rng(0).gamma(2.0, 3.0, (n, m))


@pytest.mark.parametrize(
    "f", [standardized, index, of_each_month, parameters, probability, or_nothing]
)
def test_results_are_the_loops(f):
    x = rain()
    with xpapply.options(engine="cpu"):
        check(f, x)
        assert "compiled loop" in xpapply.explain(f, 1, x).kernels[0]


@pytest.mark.parametrize(
    "f", [standardized, index, of_each_month, parameters, probability, or_nothing]
)
@pytest.mark.parametrize("odd", [0.0, -1.0, np.nan, np.inf, 1e-310, 1e300, "alike", "few"])
def test_odd_slices_are_the_functions_own(f, odd):
    x = rain(m=5 if odd == "few" else 30)
    if odd == "alike":
        x[40:] = 2.5
    elif odd != "few":
        x[7, 2] = x[9, 0] = x[11, -1] = x[13, 3] = x[15, 1] = odd
    check(f, x)
    if isinstance(outcome(lambda: np.asarray(f(x[0])))[0], tuple):
        with (
            xpapply.options(engine="cpu"),
            pytest.raises(xpapply.UnsupportedError, match="for the first slice it raises Value"),
        ):
            xpapply.apply_along_axis(f, 1, x)
        return
    with xpapply.options(engine="cpu", fallback="silent"):
        check(f, x)


@pytest.mark.parametrize("dtype", ["f4", "i8", "f2"])
@pytest.mark.parametrize("f", [standardized, index, parameters, probability])
def test_other_dtypes(f, dtype):
    check(f, np.ceil(rain()).astype(dtype))


def test_other_arguments_stay_scipys():
    for f in (
        lambda v: stats.gamma.fit(v, floc=-1)[0],
        lambda v: stats.gamma.fit(v, floc=0, method="MM")[0],
        lambda v: stats.gamma.fit(v, 2.0, floc=0)[0],
        lambda v: stats.gamma.fit(v, floc=0, fscale=2.0)[0],
    ):
        check(f, rain(40))


@pytest.mark.parametrize("name", FITS)
def test_fits_are_the_loops(name):
    f, x = FITS[name], rain(24, 20)
    x[5] = -x[5] + x[5].max() + 0.1  # skewed the other way
    x[6] += 100.0
    x[7] *= 1e-3
    with xpapply.options(engine="cpu", fallback="silent"):
        check(f, x)
        assert "compiled loop" in xpapply.explain(f, 1, x).kernels[0]


@pytest.mark.parametrize("name", FITS)
@pytest.mark.parametrize("odd", [0.0, -1.0, np.nan, np.inf, 1e300, "alike", "two", "one"])
def test_fits_of_odd_slices_are_scipys(name, odd):
    x = rain(9, {"two": 2, "one": 1}.get(odd, 12))
    if odd == "alike":
        x[4:] = 2.5
    elif isinstance(odd, float):
        x[7, 2] = x[4, 0] = odd
    raises = isinstance(outcome(lambda: np.apply_along_axis(FITS[name], 1, x))[0], tuple)
    with xpapply.options(engine="" if raises else "cpu", fallback="silent"):
        check(FITS[name], x)


@pytest.mark.parametrize(("name", "methods"), VALUES.items())
def test_values_of_distributions_are_the_loops(name, methods):
    rng = np.random.default_rng(0)
    x = rng.normal(0.5, 1.0, (400, 4))
    x[:, 1:] = np.abs(x[:, 1:])
    x[::7, 0] = [0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 2.0, 0.5, 1e300, 1e-300] * 5 + [0.0] * 8
    x[::11, 1] = [0.0, -1.0, np.nan, np.inf, 1.0, 2.0, 0.5, 1e-3] * 4 + [0.0] * 5
    x[::13, 3] = [0.0, -1.0, np.nan, np.inf, 1e-3, 1.0] * 5 + [0.0]
    for method in methods.split():
        value = getattr(getattr(stats, name), method)

        def whole(v, value=value):
            total = 0.0
            for x in v[:1]:
                total += value(x, v[1], v[2], v[3]) if name in WITH_SHAPE else value(x, v[2], v[3])
            return total

        def scaled(v, value=value):
            total = 0.0
            for x in v[:1]:
                total += value(x, v[1], scale=v[3]) if name in WITH_SHAPE else value(x, scale=v[3])
            return total

        for f in (whole, scaled):
            with xpapply.options(engine="cpu", fallback="silent"):
                check(f, x)
                assert "compiled loop" in xpapply.explain(f, 1, x).kernels[0]


def test_a_fit_under_try_and_what_a_mask_leaves():
    def wet(v):
        try:
            return stats.weibull_min.fit(v[v > 1.0], floc=0)[0]
        except ValueError:
            return -1.0

    x = rain(40)
    x[3] = 0.5  # nothing is left
    x[9, 4] = np.inf
    with xpapply.options(engine="cpu", fallback="silent"):
        check(wet, x)


def test_other_fits_stay_scipys():
    for f in (
        lambda v: stats.lognorm.fit(v)[0],
        lambda v: stats.genextreme.fit(v, 0.1)[0],
        lambda v: stats.norm.fit(v, floc=0)[1],
        lambda v: stats.gumbel_r.fit(v, floc=1)[1],
        lambda v: stats.expon.fit(v, fscale=2.0)[0],
        lambda v: stats.beta.fit(v / (v.max() + 1), floc=0, fscale=1)[0],
    ):
        check(f, rain(6, 12))


@pytest.mark.parametrize("dtype", ["i1", "u1", "i4", "i8", "f4", "?"])
@pytest.mark.parametrize("scale", [3, 2.5, None])
def test_distances_are_of_the_dtypes_of_numbers(dtype, scale):
    """SciPy subtracts before it divides: small integers wrap, and float32 is rounded."""
    x = np.tile(np.array([90, 10, 7], "i8"), (300, 1))
    x[:, 0] += np.arange(300) % 30
    x[222] = (-90, 100, 7) if dtype[0] != "u" else (10, 90, 7)
    if dtype == "i8":
        x[222] = 103, -(2**63), 7
    x = x / np.float32(3) if dtype == "f4" else x

    def f(v):
        total = 0.0
        for y in v[:1]:
            wide = v[2] if scale is None else scale
            total += stats.gumbel_r.cdf(y, v[1], wide)
        return total

    check(f, x.astype(dtype))


@pytest.mark.parametrize("name", VALUES)
def test_values_of_arrays_are_the_loops(name):
    dist, rng = getattr(stats, name), np.random.default_rng(1)
    x = rng.normal(size=(40, 9))
    x[3, :4] = np.nan, np.inf, -np.inf, 0.0
    x[5] = 0.5
    shares = np.clip(x / 2, 0, 1)
    shares[7, :2] = -0.5, 1.5
    for method in VALUES[name].split():
        rows = shares if method in ("ppf", "isf") else x
        rows = np.column_stack([rows, np.abs(x[:, :2]) + 0.1])
        rows[9, -1], rows[10, -1] = 0.0, -1.0

        value = getattr(dist, method)

        def f(v, of=value):
            out = v[:-2] * 0
            for k in v[-1:]:
                if name in WITH_SHAPE:
                    out = of(v[:-2], v[-2], 0.1, scale=k)
                else:
                    out = of(v[:-2], 0.1, k)
            return out

        check(f, rows)
        with xpapply.options(engine="cpu", fallback="silent"):
            check(f, rows)
            assert "compiled loop" in xpapply.explain(f, 1, rows).kernels[0]

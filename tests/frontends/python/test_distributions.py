"""Distributions of SciPy whose parameters are computed of the slice."""

import warnings

import numpy as np
import pytest

import xpapply

stats = pytest.importorskip("scipy.stats")

FUNCTIONS = {
    "norm": lambda v: stats.norm.cdf(v, v.mean(), v.std()),
    "by name": lambda v: stats.norm.sf(1.0, loc=v.mean(), scale=v.std()),
    "density": lambda v: stats.norm.logpdf(v, v.mean(), v.std()).sum(),
    "gamma": lambda v: stats.gamma.cdf(v[-1], v.mean() ** 2, scale=v.std()),
    "standardized": lambda v: stats.norm.ppf(
        stats.gamma.cdf(v[-1], v.mean() ** 2 / v.var(), scale=v.var() / v.mean())
    ),
    "t": lambda v: 2 * stats.t.sf(abs(v.mean() / v.std(ddof=1)), len(v) - 1),
    "binom": lambda v: stats.binom.pmf(3, 20, (v > 0).mean()),
    "count": lambda v: stats.binom.sf((v > 0).sum() - 1, len(v), 0.5),
    "poisson": lambda v: stats.poisson.sf((v > 0.5).sum(), 3 + abs(v[0])),
    "extremes": lambda v: stats.genextreme.ppf(0.9, v[0] * 0.1, v.mean(), v.std()),
    "shape": lambda v: stats.lognorm.cdf(v, v.std(), scale=abs(v[0])),
    "constant": lambda v: stats.weibull_min.sf(np.arange(1.0, 4.0), 1 + abs(v[1]), scale=v.std()),
}


def data(kind, n=60):
    r = np.random.default_rng(0)
    x = r.normal(size=(n, 12))
    if kind == "odd":  # parameters that are none, and slices that NumPy warns of
        x[5], x[7, 3], x[8, 2], x[9] = 0.0, np.nan, np.inf, -x[9]
    if kind == "positive":
        x = np.exp(x)
    return x.astype("f4") if kind == "f4" else x


def outcome(apply, f, x):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        result = apply(f, 1, x)
    told = {(w.category, str(w.message)) for w in said}
    return result, {w for w in told if w[0] is not xpapply.FallbackWarning}


@pytest.mark.parametrize("kind", ["f8", "positive", "odd", "f4"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_and_warnings_are_the_loops(name, kind):
    f, x = FUNCTIONS[name], data(kind)
    want, warned = outcome(np.apply_along_axis, f, x)
    for _ in range(2):
        got, told = outcome(xpapply.apply_along_axis, f, x)
        np.testing.assert_array_equal(got, want)
        assert got.dtype == want.dtype
        assert told == warned
    assert xpapply.explain(f, 1, x).vectorized


def test_parameters_that_raise_raise():
    def f(v):
        return stats.norm.cdf(v, v.mean(), 1.0, 2.0)

    for apply in (np.apply_along_axis, xpapply.apply_along_axis):
        with pytest.raises(TypeError, match=r"argument|positional"):
            apply(f, 1, data("f8"))

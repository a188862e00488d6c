"""Distributions that a function fits to its slice are compiled."""

import warnings

import numpy as np
import pytest

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


def rain(n=120, m=30):
    return np.random.default_rng(0).gamma(2.0, 3.0, (n, m))


def outcome(apply, f, x):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            result = apply(f, 1, x)
        except Exception as error:
            return type(error), str(error)
    told = {(w.category, str(w.message)) for w in said}
    return result, {w for w in told if w[0] is not xpapply.FallbackWarning}


def check(f, x):
    want, got = (outcome(a, f, x) for a in (np.apply_along_axis, xpapply.apply_along_axis))
    np.testing.assert_array_equal(got[0], want[0])
    assert got[1] == want[1]
    if isinstance(want[0], np.ndarray):
        assert got[0].dtype == want[0].dtype


@pytest.mark.parametrize("f", [standardized, parameters, probability, or_nothing])
def test_results_are_the_loops(f):
    x = rain()
    with xpapply.options(engine="cpu"):
        check(f, x)
        assert "compiled loop" in xpapply.explain(f, 1, x).kernels[0]


@pytest.mark.parametrize("f", [standardized, parameters, probability, or_nothing])
@pytest.mark.parametrize("odd", [0.0, -1.0, np.nan, np.inf, 1e-310, 1e300, "alike", "few"])
def test_odd_slices_are_the_functions_own(f, odd):
    x = rain(m=5 if odd == "few" else 30)
    if odd == "alike":
        x[40:] = 2.5
    elif odd != "few":
        x[7, 2] = x[9, 0] = x[11, -1] = x[13, 3] = x[15, 1] = odd
    check(f, x)
    with xpapply.options(engine="cpu", fallback="silent"):
        check(f, x)


@pytest.mark.parametrize("dtype", ["f4", "i8", "f2"])
@pytest.mark.parametrize("f", [standardized, parameters, probability])
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

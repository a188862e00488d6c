"""Shares of values, tests of distributions, distances of one matrix: SciPy's, of all slices."""

import warnings

import numpy as np
import pytest

import xpapply

stats = pytest.importorskip("scipy.stats")
ndimage = pytest.importorskip("scipy.ndimage")
distance = pytest.importorskip("scipy.spatial.distance")
RNG = np.random.default_rng(0)
PLACES = RNG.normal(size=(7, 12))
HALF = RNG.normal(size=(12, 12))
INVERSE = HALF @ HALF.T / 12 + np.eye(12)
T = np.arange(12.0)

SHARES = {
    "of the last": lambda v: stats.percentileofscore(v[:-1], v[-1]),
    "of a number": lambda v: stats.percentileofscore(v, 0.0, kind="weak"),
    "of an integer": lambda v: stats.percentileofscore(v, 1, "strict"),
    "of several": lambda v: stats.percentileofscore(v, [-1.0, 0.0, np.nan], kind="mean"),
    "of each": lambda v: stats.percentileofscore(v, v[::3]),
    "in the same": lambda v: stats.percentileofscore(T - 6, v[0]),
    "omitted": lambda v: stats.percentileofscore(v, 0.0, nan_policy="omit"),
    "score": lambda v: stats.scoreatpercentile(v, 90),
    "scores": lambda v: stats.scoreatpercentile(v, [5, 50.0, 100]),
    "lower": lambda v: stats.scoreatpercentile(v, 33, interpolation_method="lower"),
    "limited": lambda v: stats.scoreatpercentile(v, 33, limit=(-9, 9)),
    "trimmed": lambda v: stats.trimboth(v, 0.2),
    "trimmed once": lambda v: stats.trim1(v, 0.3, "left").sum(),
    "power": lambda v: stats.boxcox(np.abs(v) + 1, 0.3),
    "own power": lambda v: stats.boxcox(np.abs(v) + 1, v[0]),
    "found power": lambda v: stats.boxcox(np.abs(v[:5]) + 1 + T[:5])[0],
    "center": lambda v: ndimage.center_of_mass(v)[0],
    "center in a plane": lambda v: ndimage.center_of_mass(v.reshape(3, 4)),
}
NEAR = {
    "normal": lambda v: np.array(stats.kstest(v, "norm")),
    "with parameters": lambda v: stats.kstest(v, "norm", args=(0.1, 2)).pvalue,
    "of its moments": lambda v: np.array(stats.kstest(v, "norm", (v.mean(), v.std() + 0.1))),
    "greater": lambda v: np.array(stats.ks_1samp(v, stats.norm.cdf, alternative="greater")),
    "less": lambda v: np.array(stats.ks_1samp(v, stats.expon.cdf, alternative="less")),
    "asymptotic": lambda v: np.array(stats.ks_1samp(v, stats.norm.cdf, method="asymp")),
    "own function": lambda v: np.array(stats.ks_1samp(v, lambda x: 1 / (1 + np.exp(-x)))),
    "place": lambda v: stats.ks_1samp(v, stats.norm.cdf).statistic_location,
    "sign": lambda v: stats.ks_1samp(v, stats.norm.cdf).statistic_sign,
    "two": lambda v: np.array(stats.ks_2samp(v[:6], v[6:])),
    "two of others": lambda v: np.array(stats.ks_2samp(v[:4], v[4:])),
    "with the same": lambda v: np.array(stats.kstest(v, T / 3 - 2)),
    "two greater": lambda v: np.array(stats.ks_2samp(v[:5], v[5:], alternative="greater")),
    "two less": lambda v: stats.ks_2samp(v[:5], v[5:], alternative="less", method="exact")[1],
    "two by a formula": lambda v: stats.ks_2samp(v[:5], v[5:], method="asymp").pvalue,
    "place of two": lambda v: stats.ks_2samp(v[:5], v[5:]).statistic_location,
    "by a matrix": lambda v: distance.mahalanobis(v, T / 6, INVERSE),
    "by no matrix": lambda v: distance.mahalanobis(v, v[::-1], -INVERSE),
    "by many zeros": lambda v: distance.mahalanobis(v, np.zeros(12), np.zeros((12, 12))),
    "nearest": lambda v: distance.cdist(v[None], PLACES).argmin(),
    "distances": lambda v: distance.cdist(PLACES[:, :4], v.reshape(3, 4), "cityblock"),
    "of power": lambda v: distance.cdist(v.reshape(3, 4), PLACES[:, 4:8], "minkowski", p=3),
    "of variances": lambda v: distance.cdist(v.reshape(3, 4), PLACES[:, 4:8], "seuclidean"),
}
BASE = RNG.normal(size=(90, 12))
ODD = BASE.copy()
ODD[3], ODD[5, 2], ODD[7, :3], ODD[11, 0], ODD[12] = 0.0, np.nan, 1.5, np.inf, np.abs(T - 5)
ODD[9] *= 1e300
DATA = {
    "floats": BASE,
    "odd": ODD,
    "single": BASE.astype("f4"),
    "integers": RNG.integers(-3, 9, (60, 12)),
    "unsigned": RNG.integers(0, 9, (30, 12)).astype("u1"),
    "alike": np.round(BASE, 1),
}


def both(f, x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return outcome(np.apply_along_axis, f, x), outcome(xpapply.apply_along_axis, f, x)


def outcome(apply, f, x):
    try:
        return apply(f, 1, x)
    except Exception as error:
        return type(error)


@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("name", [*SHARES, *NEAR])
def test_as_the_loop(name, data):
    want, got = both((SHARES | NEAR)[name], DATA[data])
    if isinstance(want, type):
        assert got is want
        return
    assert got.dtype == want.dtype
    if name in SHARES:
        np.testing.assert_array_equal(got, want)
    else:
        np.testing.assert_allclose(got, want, rtol=1e-13 if want.dtype == float else 1e-6)


@pytest.mark.parametrize("name", ["of the last", "score", "normal", "two", "by a matrix", "center"])
def test_no_call_per_slice(name):
    p = xpapply.explain((SHARES | NEAR)[name], 1, np.tile(BASE, (200, 1)))
    assert p.engine != "loop", p.reasons
    assert "slice by slice" not in str(p)


@pytest.mark.parametrize(
    "f",
    [
        lambda v: stats.percentileofscore(v, 0.0, kind="other"),
        lambda v: stats.scoreatpercentile(v, 101),
        lambda v: stats.scoreatpercentile(v, 33, interpolation_method="other"),
        lambda v: stats.trimboth(v, 0.6),
        lambda v: stats.kstest(v, "no such distribution"),
        lambda v: distance.mahalanobis(v, v[:3], INVERSE),
        lambda v: distance.cdist(v[None], PLACES[:, :3]),
        lambda v: distance.cdist(v[None], PLACES, "other"),
    ],
)
def test_errors(f):
    want, got = both(f, BASE)
    assert isinstance(want, type)
    assert got is want

"""Rank correlation with pairs and slopes of all pairs: SciPy's bits, for all slices at once."""

import warnings

import numpy as np
import pytest

import xpapply

stats = pytest.importorskip("scipy.stats")
RNG = np.random.default_rng(0)
T, PLACES, PAIRS = np.arange(24), RNG.normal(size=24), np.repeat(np.arange(12), 2)

FUNCTIONS = {
    "of time": lambda v: np.array(stats.kendalltau(v, T)),
    "less": lambda v: np.array(stats.kendalltau(PLACES, v, alternative="less")),
    "of two": lambda v: np.array(stats.kendalltau(v[:12], v[12:])),
    "asymptotic": lambda v: stats.kendalltau(v, T, method="asymptotic").pvalue,
    "other variant": lambda v: stats.kendalltau(v, T, variant="c")[0],
    "equal places": lambda v: np.array(stats.kendalltau(v, PAIRS)),
    "correlation": lambda v: stats.kendalltau(v, T).correlation,
    "slope": lambda v: stats.theilslopes(v)[0],
    "slopes": lambda v: np.array(stats.theilslopes(v, PLACES)),
    "slopes of pairs": lambda v: np.array(stats.theilslopes(v, PAIRS, 0.9)),
    "joint": lambda v: np.array(stats.theilslopes(v, T, method="joint")),
    "short": lambda v: np.array(stats.theilslopes(v[:5], alpha=0.99)),
    "low": lambda v: stats.theilslopes(v).low_slope,
    "of each": lambda v: stats.theilslopes(v[:12], v[12:]).slope,
    "of each that increase": lambda v: np.array(
        stats.theilslopes(v[:12], np.cumsum(np.abs(v[12:])), method="joint")
    ),
}
BASE = RNG.normal(size=(120, 24))
ODD = BASE.copy()
ODD[3], ODD[5, 2], ODD[7, :3], ODD[11, 0] = 0.0, np.nan, 1.5, np.inf
ODD[9] *= 1e300
DATA = {
    "floats": BASE,
    "odd": ODD,
    "single": BASE.astype("f4"),
    "integers": RNG.integers(0, 9, (60, 24)),
    "permutations": RNG.permuted(np.tile(T, (60, 1)), axis=1),
}


@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_as_the_loop(name, data):
    f, x = FUNCTIONS[name], DATA[data]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        want = np.apply_along_axis(f, 1, x)
        got = xpapply.apply_along_axis(f, 1, x)
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)


def test_what_scipy_is_asked_for(monkeypatch):
    """Once for each number of pairs in the other order, whatever the slices are."""
    real, asked = stats.kendalltau, []

    def kendalltau(x, y, **how):
        asked.append(y)
        return real(x, y, **how)

    from xpapply.batching import Batched
    from xpapply.batching.scipy import trends

    x = RNG.permuted(np.tile(np.arange(9.0), (500, 1)), axis=1)
    trends._by_count.clear()
    for _ in range(2):
        found = trends.kendalltau(np, kendalltau, (Batched(x), np.arange(9)), {})
        want = [real(v, np.arange(9)) for v in x]
        np.testing.assert_array_equal(found.statistic.array, [r.statistic for r in want])
        np.testing.assert_array_equal(found.pvalue.array, [r.pvalue for r in want])
    assert len(asked) <= 9 * 8 // 2 + 1


@pytest.mark.parametrize(
    ("f", "error"),
    [
        (lambda v: stats.kendalltau(v, T[:5])[0], ValueError),
        (lambda v: stats.kendalltau(v, T, method="neither")[0], ValueError),
        (lambda v: stats.theilslopes(v, T[:5])[0], ValueError),
        (lambda v: stats.theilslopes(v, T, method="neither")[0], ValueError),
    ],
)
def test_exceptions_are_scipys(f, error):
    with pytest.raises(error) as theirs:
        np.apply_along_axis(f, 1, BASE)
    with pytest.raises(error) as ours:
        xpapply.apply_along_axis(f, 1, BASE)
    assert str(ours.value) == str(theirs.value)

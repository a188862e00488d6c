"""Functions of SciPy of windows, groups and rows, and Series that are taken apart."""

import numpy as np
import pytest
import scipy.stats as st
from scipy import stats
from scipy.stats import linregress, percentileofscore, skew

import xpapply
from xpapply.limits import LIMITS
from xpapply.pandas.known import OF_SCIPY

pd = pytest.importorskip("pandas")
RNG = np.random.default_rng(0)
WALK = pd.Series(RNG.normal(size=700).cumsum())
WALK[100:103] = np.nan
ROWS = pd.DataFrame(RNG.normal(size=(600, 4)), columns=list("abcd"))
ROWS[::50] = ROWS[::50].mask(RNG.random((12, 4)) < 0.3)
SIDES = WALK.index % 40


@pytest.fixture(autouse=True)
def always_worth(monkeypatch):
    monkeypatch.setattr(LIMITS, "patched_worth", 0.0)


def both(call, engines=True):
    with np.errstate(all="ignore"):
        loop = call()
        with xpapply.patch() as patched, xpapply.options(fallback="silent"):
            ours = [call() for _ in range(4)][-1]
    pd.testing.assert_series_equal(ours, loop, rtol=1e-9)
    reasons = [why for row in patched.report.rows for why in row.reasons]
    refused = ("as a whole", "no constant", "of a Series", "no single column")
    assert not engines or not any(x in why for why in reasons for x in refused), reasons


SAMPLES = "pearsonr spearmanr kendalltau theilslopes siegelslopes ttest_ind ttest_rel".split()
SAMPLES += "mannwhitneyu wilcoxon ks_2samp linregress f_oneway levene".split()
MORE = {"trim_mean": 0.1, "percentileofscore": 0.3, "scoreatpercentile": 40, "ttest_1samp": 0.1}
MORE |= {"pmean": 2}


@pytest.mark.parametrize("name", sorted(OF_SCIPY))
@pytest.mark.parametrize("lacks", [False, True])
def test_a_series_is_an_array_to_scipy(name, lacks):
    f = getattr(st, name)
    one, two = (pd.Series(RNG.gamma(2, size=30), index=range(5, 35)) for _ in range(2))
    if lacks:
        one.iloc[3] = np.nan
    args = (one, two) if name in SAMPLES else (one, *([MORE[name]] if name in MORE else []))
    plain = [x.to_numpy() if isinstance(x, pd.Series) else x for x in args]
    with np.errstate(all="ignore"):
        found, wanted = f(*args), f(*plain)
    assert type(found) is type(wanted)
    np.testing.assert_array_equal(np.asarray(found, float), np.asarray(wanted, float))


def slope_of(w):
    return linregress(range(len(w)), w).slope


WINDOWS = {
    "linregress": slope_of,
    "by its number": lambda w: stats.linregress(np.arange(len(w)), w)[0],
    "skew": lambda w: skew(w),
    "kurtosis": lambda w: st.kurtosis(w, fisher=False),
    "score": lambda w: percentileofscore(w, w.iloc[-1]),
    "of what is there": lambda w: stats.skew(w.dropna()),
    "a set": lambda w: len(set(w.round(0))),
}


@pytest.mark.parametrize("name", WINDOWS)
def test_windows(name):
    f = WINDOWS[name]
    both(lambda: WALK.rolling(20).apply(f))
    both(lambda: WALK.rolling(20, min_periods=5).apply(f), engines=False)


def test_a_function_of_another_name_is_called():
    def skew(w):
        return w.iloc[0]

    both(lambda: WALK.rolling(20).apply(lambda w: skew(w)), engines=False)


def fenced(x):
    low, high = x.quantile([0.25, 0.75])
    return ((x < low) | (x > high + 0.1 / (high - low + 1))).sum()


def test_quantiles_that_are_taken_apart():
    both(lambda: WALK.groupby(SIDES).agg(fenced), engines=False)
    both(lambda: WALK.rolling(20).apply(fenced), engines=False)


def score(a, b, c, d):
    return a + b * 2 if c > d else a - b


def parted(r):
    a, b, c, d = r
    return a * b if c > 0 else d


def parted_of_some(r):
    a, b = r[["d", "a"]]
    return a / b


ROW_FUNCTIONS = {
    "all": lambda r: score(*r),
    "some": lambda r: score(*r[["a", "b"]], r.c, 0.5),
    "taken apart": parted,
    "some taken apart": parted_of_some,
    "beside others": lambda r: max(0.0, *r),
    "a loop over some": lambda r: sum(x for x in r[["d", "a"]] if x > 0),
}


@pytest.mark.parametrize("name", ROW_FUNCTIONS)
def test_rows_that_are_taken_apart(name):
    both(lambda: ROWS.apply(ROW_FUNCTIONS[name], axis=1))


def test_too_few_elements_are_told():
    def f(r):
        a, b = r
        return a + b

    def message():
        with pytest.raises(ValueError, match="too many values to unpack") as error:
            ROWS.apply(f, axis=1)
        return str(error.value)

    loop = message()
    with xpapply.patch(), xpapply.options(fallback="silent"):
        assert message() == loop


def test_a_reason_names_the_method():
    def f(w):
        return np.polyfit(w.shift(1).dropna(), w.diff().dropna(), 1)[0]

    with xpapply.patch() as patched, xpapply.options(fallback="silent"):
        WALK.rolling(20).apply(f)
    (why,) = patched.report.rows[0].reasons
    assert "of a Series, 'shift' is for compiled functions alone" in why
    assert "_xpapply" not in why

"""Methods of Series, and functions of NumPy of several ones, in pandas' own loops."""

# ruff: noqa: B023  # what is written in a loop runs in the same turn

import numpy as np
import pytest
from test_pandas_loops import FLOATS, GAPS, TABLE, N, always, check

from xpapply.limits import LIMITS

pd = pytest.importorskip("pandas", "3")
__all__ = ["always"]  # a fixture


def hurst(w):
    x = np.cumsum(w - np.mean(w))
    return (x.max() - x.min()) / np.std(w)


METHODS = [
    lambda x: x.quantile(0.9),
    lambda x: x.quantile(q=0.75) - x.quantile(0.25),
    lambda x: x.quantile(),
    lambda x: x[x > 0].quantile(0.4),
    lambda x: x.quantile(1.5),
    lambda x: x.quantile([0.2, 0.4]).sum(),
    lambda x: x.quantile(0.4, interpolation="lower"),
    lambda x: x.rank().iloc[-1],
    lambda x: x.rank(pct=True).iloc[-1],
    lambda x: x.rank(ascending=False).iloc[0],
    lambda x: x.autocorr(),
    lambda x: x.autocorr(lag=2),
    lambda x: x.cumsum().max(),
    lambda x: x.cumprod().iloc[-1],
    lambda x: (x.cummax() - x).max(),
    lambda x: (x.cummin() - x).min(),
    lambda x: x.diff().abs().sum(),
    lambda x: x.diff(2).mean(),
    lambda x: x.diff(periods=-1).std(),
    lambda x: x.pct_change().std(),
    lambda x: x.shift(2).mean() - x.shift(-1).mean(),
    lambda x: x.ffill().sum(),
    lambda x: x.bfill().iloc[0],
    lambda x: x.nunique(),
    lambda x: x.mode()[0],
    lambda x: x.mode().iloc[0],
    lambda x: x.mode()[1],
    lambda x: x.sort_values().iloc[0],
    lambda x: x.sort_values(ascending=False).iloc[0],
    lambda x: x.nlargest(3).mean() - x.nsmallest(2).mean(),
    lambda x: x.tail(3).mean() - x.head(2).mean(),
    lambda x: x.clip(0, 1).sum(),
    lambda x: x.clip(lower=0.2).sum(),
    lambda x: x.clip(0.5, upper=-0.5).sum(),
    lambda x: x.clip(x.quantile(0.2), x.quantile(0.8)).mean(),
    lambda x: x.between(0, 1).sum(),
    lambda x: x.isin([1, 2, 5]).mean(),
    lambda x: x.gt(0).mean(),
    lambda x: x.sub(x.mean()).abs().mean(),
    lambda x: x.mul(2).add(1).div(3).sum(),
    lambda x: x.round(1).sum(),
    lambda x: x.where(x > 0).mean(),
    lambda x: x.mask(x > 0, 0).sum(),
    lambda x: x.where(x > 0, x.mean()).sum(),
    lambda x: x.sem(),
    lambda x: (x - x.mean()).abs().max(),
    lambda x: ((x - x.median()) * 2.0 / x.quantile(0.5)).min(),
    lambda x: (x * 1.5).max() + (x - 2 * x.std()).sum(),
    lambda x: np.std(x) + np.var(x, ddof=1),
    lambda x: x[x > 0].max(),
    lambda x: x[x > 0].min(),
    lambda x: x.count(),
    lambda x: x.dropna().astype(float).sum(),
    lambda x: np.average(x, weights=x.abs() + 1),
    lambda x: np.linalg.norm(x),
    lambda x: x.reset_index(drop=True).sum(),
    lambda x: np.where(x > 0, 1, 2).sum(),
    hurst,
]
"""Of which some are pandas' own business."""


@pytest.mark.one_in(3)
@pytest.mark.parametrize("k", range(len(METHODS)))
@pytest.mark.parametrize("name", ["x", "g", "n"])
def test_of_windows_groups_and_rows(k, name):
    f = METHODS[k]
    check(lambda: TABLE[name].rolling(9, min_periods=4).apply(f))
    check(lambda: TABLE.groupby("k")[name].agg(f))
    check(lambda: TABLE[["x", name, "w"]].set_axis(["a", "b", "c"], axis=1).apply(f, axis=1))


def test_run_at_once():
    many = pd.Series(np.tile(FLOATS, 30))
    for f in (METHODS[0], METHODS[16], METHODS[31], hurst):
        check(lambda: many.rolling(9).apply(f), at_once=True)
    gaps = pd.Series(np.tile(GAPS, 30))
    for f in (METHODS[0], METHODS[12]):
        check(lambda: gaps.rolling(9, min_periods=3).apply(f), at_once=True)


TWO = [
    lambda d: np.average(d.x, weights=d.w),
    lambda d: np.average(d.x, weights=d.w * 0),
    lambda d: d.x.corr(d.w),
    lambda d: d.x.corr(d["g"]),
    lambda d: d.x.corr(d.w, method="spearman"),
    lambda d: np.corrcoef(d.x, d.w)[0, 1],
    lambda d: np.cov(d.x, d["w"])[0, 1],
    lambda d: d.x.cov(d.w),
    lambda d: d.x.cov(d.g),
    lambda d: d.x.dot(d.w),
    lambda d: np.dot(d.x, d.w),
    lambda d: np.trapezoid(d.x, x=d.w.cumsum()),
    lambda d: np.polyfit(d.w, d.x, 1)[0],
]


@pytest.mark.parametrize("k", range(len(TWO)))
def test_of_two_columns(k):
    check(lambda: TABLE.groupby("k").apply(TWO[k]))
    check(lambda: TABLE.groupby("n").apply(TWO[k]))


def test_two_columns_run_at_once(monkeypatch):
    monkeypatch.setattr(LIMITS, "typed_worth", 0.0)
    many = pd.concat([TABLE] * 60, ignore_index=True).assign(k=np.arange(60 * N) % 700)
    for k in (0, 2, 3, 5, 7, 10):
        check(lambda: many.groupby("k").apply(TWO[k]), at_once=True, loop="groupby.apply")
    for k in (0, 1, 23, 24):
        check(lambda: many.groupby("k").g.agg(METHODS[k]), at_once=True, loop="groupby.agg")


def summary(d):
    found = {"n": len(d)}
    found["mean"] = d.x.mean()
    found["off"] = d["x"].max() - found["mean"]
    return pd.Series(found, index=["mean", "off", "n"])


def used_again(d):
    found = {}
    found["a"] = d.x.sum()
    found.update(b=1)
    return pd.Series(found)


SERIES = [
    lambda d: pd.Series({"a": d.x.sum(), "b": d.w.max()}),
    lambda d: pd.Series({"n": len(d), "m": d.n.max()}),
    lambda d: pd.Series({"n": len(d), "m": d.x.max()}),
    lambda d: pd.Series({"t": "big" if d.x.sum() > 0 else "small", "m": d.x.max()}),
    lambda d: pd.Series({"t": "big", "s": "small"}),
    lambda d: pd.Series({"a": d.x.sum() > 0, "m": d.x.max()}),
    lambda d: pd.Series([d.x.sum(), d.w.max()], index=["a", "b"]),
    lambda d: pd.Series([d.x.sum(), 2]),
    lambda d: pd.Series({"a": d.x.sum()}, name="named"),
    lambda d: pd.Series({"a": d.x.sum()}) if len(d) > 6 else pd.Series({"b": 1.0}),
    lambda d: pd.Series({"a": d.x.sum()}) if len(d) > 6 else None,
    lambda d: pd.Series({"a": d.x.sum(), "t": d.t.iloc[0]}),
    summary,
    used_again,
]


@pytest.mark.parametrize("k", range(len(SERIES)))
def test_groups_that_become_rows(k):
    for by in ("k", ["k", "n"]):
        check(lambda: TABLE.groupby(by).apply(SERIES[k]))
    check(lambda: TABLE.groupby("k", as_index=False).apply(SERIES[k]))
    check(lambda: TABLE.groupby("k", group_keys=False).apply(SERIES[k]))


def test_groups_of_one_column_that_become_rows():
    for f in (
        lambda x: pd.Series({"a": x.sum(), "b": x.max()}),
        lambda x: pd.Series([x.sum(), x.max()]),
        lambda x: pd.Series({0: x.sum(), 1: len(x)}),
    ):
        check(lambda: TABLE.groupby("k").x.apply(f))
        check(lambda: TABLE.groupby("k", group_keys=False).x.apply(f))
        check(lambda: TABLE.groupby("k").x.apply(f).unstack())
        check(lambda: TABLE[:2].groupby("x").x.apply(f))
        check(lambda: TABLE.groupby("k").x.agg(f))


def test_groups_become_rows_at_once(monkeypatch):
    monkeypatch.setattr(LIMITS, "typed_worth", 0.0)
    many = pd.concat([TABLE] * 60, ignore_index=True).assign(k=np.arange(60 * N) % 700)
    for f in (SERIES[0], SERIES[2], SERIES[3], summary):
        check(lambda: many.groupby("k").apply(f), at_once=True, loop="groupby.apply")
    check(lambda: many.groupby("k").x.apply(lambda x: pd.Series({"a": x.sum()})), at_once=True)


CHOSEN = [
    lambda d: d[d.x > 0].w.sum(),
    lambda d: d[d.x > 0]["w"].mean(),
    lambda d: d.loc[d.x > 0, "w"].max(),
    lambda d: d.loc[(d.x > 0) & (d["w"] < 0.5), "n"].sum(),
    lambda d: d.w[d.x > 0].std(),
    lambda d: len(d[d.x > 0]) / len(d),
    lambda d: d[d.x > d.x.mean()].x.quantile(0.5),
    lambda d: d[d.x > 0].w.iloc[0],
    lambda d: d[d.x > 0].shape[0],
    lambda d: d[d.x > 0][d.w > 0.5].x.sum(),
    lambda d: d.loc[d.x.idxmax(), "w"],
    lambda d: d[["x", "w"]].sum().sum(),
]


@pytest.mark.parametrize("k", range(len(CHOSEN)))
def test_some_rows_of_groups(k):
    check(lambda: TABLE.groupby("k").apply(CHOSEN[k]))
    check(lambda: TABLE.groupby("k")[["x", "w", "n"]].apply(CHOSEN[k]))


def test_some_rows_of_groups_at_once(monkeypatch):
    monkeypatch.setattr(LIMITS, "typed_worth", 0.0)
    many = pd.concat([TABLE] * 60, ignore_index=True).assign(k=np.arange(60 * N) % 700)
    for f in CHOSEN[:7]:
        check(lambda: many.groupby("k").apply(f), at_once=True, loop="groupby.apply")


SPREAD = [
    lambda x: x.shift(),
    lambda x: x.shift(-2),
    lambda x: x.shift(1, fill_value=0),
    lambda x: x.diff(),
    lambda x: x.diff(2) / x.std(),
    lambda x: x.pct_change(),
    lambda x: x.ffill(),
    lambda x: x.bfill().fillna(0),
    lambda x: x.cumsum(),
    lambda x: x.cumsum() / x.sum(),
    lambda x: x.cumprod(),
    lambda x: x.cummax() - x,
    lambda x: x.cummin(),
    lambda x: x.rank(),
    lambda x: x.rank(pct=True),
    lambda x: x.rank(ascending=False),
    lambda x: x.clip(0, 1),
    lambda x: x.clip(x.quantile(0.2), x.quantile(0.8)),
    lambda x: x.clip(lower=x.mean()),
    lambda x: x.clip(1, 0),
    lambda x: x.sub(x.mean()).div(x.std()),
    lambda x: x.gt(x.quantile(0.5)),
    lambda x: x.rolling(3).mean(),
    lambda x: x.rolling(3, min_periods=1).std(),
    lambda x: x.rolling(window=4, center=True).median(),
    lambda x: x.shift(1).rolling(3).sum(),
    lambda x: x.expanding().mean(),
    lambda x: x.expanding(2).max(),
    lambda x: x.ewm(span=3).mean(),
    lambda x: x.ewm(alpha=0.5, adjust=False).mean(),
    lambda x: x - x.rolling(3).mean(),
    lambda x: x.rolling(3).mean().max(),
    lambda x: x - x.rolling(3).mean().mean(),
    lambda x: x.rolling(3).apply(lambda w: w.sum()),
    lambda x: x - x.shift(1).mean(),
    lambda x: x.nlargest(2),
    lambda x: x.sort_values(),
    lambda x: x.reset_index(drop=True),
    lambda x: x.where(x > 0),
    lambda x: np.cumsum(x),
]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("k", range(len(SPREAD)))
@pytest.mark.parametrize("name", ["x", "g", "n"])
def test_what_goes_on_within_groups(k, name):
    table = TABLE.assign(s=TABLE.k.where(TABLE.w > 0.3)).set_index(TABLE.k // 2)
    for how in ({"by": "k", "sort": False}, {"by": "s"}, {"level": 0, "group_keys": False}):
        check(lambda: table.groupby(**how)[name].transform(SPREAD[k]))
    check(lambda: table.groupby("k")[["x", name]].transform(SPREAD[k]))
    one = TABLE.assign(k=1)
    check(lambda: one.groupby("k")[name].transform(SPREAD[k]))


def test_a_group_that_raises_on_the_way():
    def f(x):
        if len(x) < 6:
            raise ValueError("short")
        return x.shift()

    def g(x):
        len(x.iloc[6:7])
        x.iloc[6]
        return x.diff()

    check(lambda: TABLE.groupby("k").x.transform(f))
    check(lambda: TABLE.groupby("k").x.transform(g))
    check(lambda: TABLE.groupby("k").n.agg(lambda x: x.astype(float).diff().sum()))


def test_what_goes_on_within_groups_at_once(monkeypatch):
    monkeypatch.setattr(LIMITS, "typed_worth", 0.0)
    many = pd.concat([TABLE] * 60, ignore_index=True).assign(k=np.arange(60 * N) % 700)
    for k in (0, 3, 5, 6, 9, 13, 17, 20, 22, 28, 30):
        check(lambda: many.groupby("k").g.transform(SPREAD[k]), at_once=True)


RNG = np.random.default_rng(9)
ROWS = RNG.normal(size=(3 * N, 4))
LABELS = [
    lambda r: r.idxmax(),
    lambda r: r.idxmin(),
    lambda r: r.abs().idxmax() if r.sum() > 0 else "none",
    lambda r: (r - r.mean()).idxmin(),
    lambda r: r[["b", "d"]].idxmax(),
    lambda r: pd.Series({"at": r.idxmax(), "of": r.max()}),
    lambda r: r.idxmax(skipna=False),
    lambda r: r.idxmax() + "!",
    lambda r: r[r > 0].idxmax() if (r > 0).any() else None,
]


@pytest.mark.parametrize("kind", ["floats", "gaps", "integers", "nullable", "single", "numbers"])
@pytest.mark.parametrize("k", range(len(LABELS)))
def test_labels_of_extremes(k, kind):
    frame = pd.DataFrame(ROWS, columns=list("abcd"))
    if kind == "gaps":
        frame = frame.mask(RNG.random(frame.shape) < 0.2).assign(a=frame.a)
    elif kind == "integers":
        frame = frame.round().astype(int)
    elif kind == "nullable":
        frame = frame.astype("Float64")
    elif kind == "single":
        frame = frame.astype("f4")
    elif kind == "numbers":
        frame = frame.set_axis([0, 1, 2, 3], axis=1)
    check(lambda: frame.apply(LABELS[k], axis=1))


def test_labels_of_extremes_run_at_once(monkeypatch):
    monkeypatch.setattr(LIMITS, "typed_worth", 0.0)
    many = pd.DataFrame(np.tile(ROWS, (20, 1)), columns=list("abcd"))
    for k in (0, 2, 4, 5):
        check(lambda: many.apply(LABELS[k], axis=1), at_once=True, loop="DataFrame.apply")


def test_a_row_without_numbers_has_no_extreme():
    frame = pd.DataFrame(ROWS, columns=list("abcd"))
    frame.iloc[7] = np.nan
    check(lambda: frame.apply(LABELS[0], axis=1))

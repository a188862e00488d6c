"""Groups of nullable dtypes, of which elements may be missing, under ``xpapply.patch()``."""

# ruff: noqa: B023  # what is written in a loop runs in the same turn

import numpy as np
import pytest
from test_pandas_loops import TABLE, N, always, check

import xpapply
from xpapply.limits import LIMITS

pd = pytest.importorskip("pandas", "3")
__all__ = ["always"]  # a fixture

LACK = np.random.default_rng(1).random(N) < 0.1
COLUMNS = {
    "f": TABLE.x.astype("Float64"),
    "g": TABLE.x.astype("Float64").mask(LACK),
    "i": TABLE.n.astype("Int64"),
    "j": TABLE.n.astype("Int64").mask(LACK),
    "b": (TABLE.x > 0).astype("boolean"),
    "c": (TABLE.x > 0).astype("boolean").mask(LACK),
    "s": TABLE.x.astype("Float32"),
    "t": TABLE.n.astype("Int8"),
}
NULLABLE = TABLE[["k", "w", "x"]].assign(**COLUMNS)
OF_GROUPS = [
    lambda x: x.max() - x.min(),
    lambda x: x.mean(),
    lambda x: x.sum(),
    lambda x: x.std() / x.mean(),
    lambda x: x.std() if len(x) > 6 else 0.0,
    lambda x: x.median(),
    lambda x: x.count(),
    lambda x: x.isna().sum(),
    lambda x: x.dropna().mean(),
    lambda x: x.fillna(0).sum(),
    lambda x: (x > 0).sum(),
    lambda x: (x > 0).mean(),
    lambda x: x[x > 0].sum(),
    lambda x: x[x > 0].max(),
    lambda x: (x - x.mean()).abs().max(),
    lambda x: ((x - x.mean()) ** 2).sum(),
    lambda x: (x / x > 0.5).mean(),
    lambda x: (x / (x - x) > 1).sum(),
    lambda x: x.iloc[0],
    lambda x: x.iloc[-1] - x.iloc[0],
    lambda x: np.percentile(x, 30),
    lambda x: x.quantile(0.5),
    lambda x: x.diff().sum(),
    lambda x: np.log(x).sum(),
    lambda x: np.abs(x).sum(),
    lambda x: x.any(),
    lambda x: "high" if x.mean() > 0 else "low",
    lambda x: "high" if x.std() > 1 else "low",
    lambda x: sum(v for v in x if v > 0),
    lambda x: x.to_numpy().sum(),
    lambda x: x.values[0],
    lambda x: len(x),
    lambda x: None,
    lambda x: x.nunique(),
]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("k", range(len(OF_GROUPS)))
@pytest.mark.parametrize("name", COLUMNS)
def test_groups(k, name):
    for f in (OF_GROUPS[k],):
        check(lambda: NULLABLE.groupby("k")[name].agg(f))
        check(lambda: NULLABLE.groupby("k")[name].apply(f))
    check(lambda: NULLABLE.assign(k=np.arange(N) // 2).groupby("k")[name].agg(OF_GROUPS[k]))


def test_all_of_a_group_is_missing():
    table = NULLABLE.assign(g=NULLABLE.g.mask(NULLABLE.k < 4), j=NULLABLE.j.mask(NULLABLE.k < 4))
    for f in OF_GROUPS[:16]:
        for name in ("g", "j"):
            check(lambda: table.groupby("k")[name].agg(f))


OF_TABLES = [
    lambda d: (d.f * d.w).sum() / d.w.sum(),
    lambda d: (d.g * d.w).sum() / d.w.sum(),
    lambda d: (d.g * d.i).sum(),
    lambda d: d.j.sum() + d.x.sum(),
    lambda d: d.f[d.b].sum(),
    lambda d: d[d.f > 0].w.sum(),
    lambda d: d[d.g > 0].w.sum(),
    lambda d: np.average(d.f, weights=d.w),
    lambda d: d.f.corr(d.w),
    lambda d: pd.Series({"a": d.f.sum(), "b": d.i.sum()}),
    lambda d: pd.Series({"a": d.j.sum(), "b": d.i.sum()}),
]


@pytest.mark.parametrize("k", range(len(OF_TABLES)))
def test_groups_of_tables(k):
    check(lambda: NULLABLE.groupby("k").apply(OF_TABLES[k]))


SPREAD = [
    lambda x: x - x.mean(),
    lambda x: (x - x.mean()) / x.std(),
    lambda x: x.fillna(x.mean()),
    lambda x: x.fillna(0),
    lambda x: x / x,
    lambda x: x > x.mean(),
    lambda x: x.max(),
    lambda x: x.sum() if len(x) > 6 else x.count(),
    lambda x: -x,
    lambda x: x.isna(),
    lambda x: x.shift(),
    lambda x: x.cumsum(),
    lambda x: x.rolling(3).mean(),
    lambda x: x * 2 if x.mean() > 0 else x + 1,
    lambda x: np.log(x),
    lambda x: x.abs(),
]


@pytest.mark.parametrize("k", range(len(SPREAD)))
@pytest.mark.parametrize("name", COLUMNS)
def test_transform(k, name):
    check(lambda: NULLABLE.groupby("k")[name].transform(SPREAD[k]))
    check(lambda: NULLABLE.groupby("k")[[name, "f", "w"]].transform(SPREAD[k]))


def test_filter():
    for f in (
        lambda d: d.f.mean() > 0, lambda d: d.g.mean() > 0, lambda d: d.j.sum() > 20,
        lambda d: d.i.max() > 7, lambda d: d.g.std() > 1, lambda d: d.f.max(),
    ):  # fmt: skip
        check(lambda: NULLABLE.groupby("k").filter(f))
    check(lambda: NULLABLE.groupby("k").j.filter(lambda x: x.mean() > 4))


def test_bits_of_sums():
    """NumPy adds what is there in runs, between what is missing."""
    rng = np.random.default_rng(3)
    x = pd.Series(rng.normal(size=600)).mask(rng.random(600) < 0.1).astype("Float64")
    table = pd.DataFrame({"k": rng.integers(0, 9, 600), "x": x, "y": x.to_numpy()[::-1]})
    for f in (
        lambda x: x.sum(), lambda x: x.mean(), lambda x: x.std(), lambda x: x.var(ddof=0),
        lambda x: (x * 2 + 1).sum(), lambda x: x.sum() - x.max(),
    ):  # fmt: skip
        wanted = table.groupby("k").x.agg(f)
        with xpapply.patch() as patched, LIMITS.set(typed_worth=0.0):
            found = table.groupby("k").x.agg(f)
        assert all("loop" not in row.engines for row in patched.report.rows), patched.report
        assert wanted.to_numpy().tobytes() == found.to_numpy().tobytes()
    with LIMITS.set(typed_worth=0.0):
        check(lambda: table.groupby("k").x.transform(lambda x: x - x.mean()), at_once=True)
        check(lambda: table.groupby("k").apply(lambda d: d.x.sum() / d.y.std()), at_once=True)


def test_nan_that_is_not_missing():
    values = np.where(LACK, np.nan, TABLE.x)
    table = NULLABLE.assign(q=pd.arrays.FloatingArray(values, np.zeros(N, np.bool_)))
    for f in OF_GROUPS[:16]:
        check(lambda: table.groupby("k").q.agg(f))
        check(lambda: table[["f", "q"]].apply(f, axis=1))
    for f in SPREAD:
        check(lambda: table.groupby("k").q.transform(f))


def test_run_at_once(monkeypatch):
    monkeypatch.setattr(LIMITS, "typed_worth", 0.0)
    many = pd.concat([NULLABLE] * 60, ignore_index=True).assign(k=np.arange(60 * N) % 700)
    for k in (0, 1, 3, 7, 9, 10, 14):
        check(lambda: many.groupby("k").f.agg(OF_GROUPS[k]), at_once=True)
    for k in (0, 1, 3, 7, 9, 14):
        check(lambda: many.groupby("k").g.agg(OF_GROUPS[k]), at_once=True)
    for k in (0, 1, 12):
        check(lambda: many.groupby("k").j.agg(OF_GROUPS[k]), at_once=True)
    for k in (0, 1, 5):
        check(lambda: many.groupby("k").apply(OF_TABLES[k]), at_once=True)
    for k in (0, 1, 2, 6):
        check(lambda: many.groupby("k").g.transform(SPREAD[k]), at_once=True)
        check(lambda: many.groupby("k").f.transform(SPREAD[k]), at_once=True)

"""pandas' own loops under ``xpapply.patch()``: rows, elements, windows and groups."""

# ruff: noqa: B023  # what is written in a loop runs in the same turn

import functools
import os
import sys
import types
import warnings

import numpy as np
import pytest
from outcomes import outcome
from thresholds import always_plan

import xpapply
from xpapply.limits import LIMITS
from xpapply.patching import originals, places

pd = pytest.importorskip("pandas", "3")

DEEP = os.environ.get("XPAPPLY_PROFILE") == "deep"
N = 90
RNG = np.random.default_rng(5)
FLOATS = pd.Series(RNG.normal(size=N), name="f")
GAPS = FLOATS.where(RNG.random(N) > 0.15)
TIMES = FLOATS.set_axis(
    pd.date_range("2020", periods=N, freq="min") + pd.to_timedelta(RNG.integers(0, 50, N), unit="s")
)
TABLE = pd.DataFrame(
    {
        "k": RNG.integers(0, 12, N),
        "x": FLOATS,
        "w": RNG.random(N),
        "n": RNG.integers(0, 9, N),
        "g": GAPS,
        "t": RNG.choice(["u", "v"], N),
    }
)


_namespaces = places.namespaces


@functools.cache
def _named():
    """The modules that are loaded, and the names of those that name what is replaced."""
    wanted = {id(originals.apply_along_axis), id(originals.masked_apply_along_axis())}
    found = [x for x in _namespaces() if not wanted.isdisjoint(map(id, list(x.values())))]
    return set(sys.modules), found


def namespaces():
    """Those, and of modules that have been loaded since.

    To look at all 200,000 names takes 0.05 s, of all tests here a minute; `test_patch` does.
    """
    there, found = _named()
    later = [sys.modules[name] for name in sys.modules.keys() - there]
    return [*found, *(vars(x) for x in later if isinstance(x, types.ModuleType))]


@pytest.fixture(autouse=True)
def always(monkeypatch):
    always_plan(monkeypatch)
    monkeypatch.setattr(places, "namespaces", namespaces)
    for name, value in (
        ("few_patched", 0),
        ("patched_worth", -1.0),
        ("patched_again", 0),
    ):
        monkeypatch.setattr(LIMITS, name, value)


def check(run, *, loop=None, at_once=None):
    """The same as without `patch`, twice."""
    wanted, warned = outcome(run)
    with xpapply.patch() as patched:
        outcomes = [outcome(run), outcome(run)]
    for found, also in outcomes:
        if isinstance(wanted, tuple):
            assert found == wanted
        elif isinstance(wanted, pd.DataFrame):
            pd.testing.assert_frame_equal(found, wanted, rtol=1e-12, atol=1e-13)
        elif isinstance(wanted, pd.Series):
            pd.testing.assert_series_equal(found, wanted, rtol=1e-12, atol=1e-13)
        else:
            assert found.equals(wanted)
        assert also == warned
    rows = patched.report.rows
    if loop is not None:
        assert {row.loop for row in rows} == {loop}
    if at_once is not None:
        assert at_once == all("loop" not in row.engines for row in rows), patched.report


def stepped(w):
    x = 0.0
    for v in w:
        x = 0.9 * x + v
    return x


def standard(x):
    off = x - x.mean()
    size = x.std()
    return off / size


WINDOWS = [
    lambda w: w.max() - w.min(),
    lambda w: w.mean(),
    lambda w: w.std() / w.mean(),
    lambda w: np.median(w),
    lambda w: np.percentile(w, 80),
    lambda w: len(w),
    stepped,
    lambda w: (w > 0).sum(),
    lambda w: w[w > 0].sum(),
]
HOW = [
    {"window": 7},
    {"window": 7, "min_periods": 3},
    {"window": 6, "center": True, "min_periods": 1},
    {"window": 5, "closed": "both", "min_periods": 2},
    {"window": 5, "closed": "neither", "min_periods": 2},
    {"window": 8, "step": 3},
    {"window": 1},
    {"window": 200, "min_periods": 1},
]


@pytest.mark.parametrize("k", range(len(WINDOWS)))
@pytest.mark.parametrize("raw", [True, False])
def test_windows(k, raw):
    for how in HOW if DEEP else HOW[k % 3 :: 3]:
        check(lambda: FLOATS.rolling(**how).apply(WINDOWS[k], raw=raw), loop="rolling.apply")
    check(lambda: GAPS.rolling(**HOW[1 + k % 2]).apply(WINDOWS[k], raw=raw))


@pytest.mark.parametrize("k", range(len(WINDOWS)))
@pytest.mark.parametrize("raw", [True, False])
def test_windows_of_many_lengths(k, raw):
    check(lambda: FLOATS.expanding(3).apply(WINDOWS[k], raw=raw))
    check(lambda: TIMES.rolling("5min").apply(WINDOWS[k], raw=raw))


@pytest.mark.parametrize("raw", [True, False])
def test_functions_of_numpy_of_windows(raw):
    functions = [np.mean, np.sum, np.min, np.max, np.median, np.std, np.ptp, np.argmax]
    for f in functions if DEEP else functions[raw::3]:
        check(lambda: FLOATS.rolling(6).apply(f, raw=raw))
        check(lambda: GAPS.rolling(6, min_periods=2).apply(f, raw=raw))


def test_windows_run_at_once():
    many = pd.Series(np.tile(FLOATS, 30))
    for f in WINDOWS[:4]:
        check(lambda: many.rolling(9).apply(f), at_once=True)
        check(lambda: many.rolling(9).apply(f, raw=True), at_once=True)
    check(lambda: many.set_axis(pd.date_range("2020", periods=len(many), freq="s")).rolling(
        "9s").apply(stepped, raw=True), at_once=True)  # fmt: skip


@pytest.mark.parametrize("of_short", [None, "1.5", 2 + 1j, [1.0], np.ones(1), np.float32(2), True])
def test_short_windows_of_another_kind(of_short):
    """An array of floats takes None and texts as numbers; pandas does not."""
    how = {"window": 5, "min_periods": 2, "center": True}
    for raw in (True, False):
        f = lambda s: s.sum() if len(s) == 5 else of_short  # noqa: E731
        check(lambda: FLOATS.rolling(**how).apply(f, raw=raw))
        g = lambda s: s.sum() if s.max() < 2 else of_short  # noqa: E731
        check(lambda: FLOATS.rolling(**how).apply(g, raw=raw))


def test_none_is_no_number_of_compiled_windows(by_source):
    f = lambda s: None if s.min() < 1 else 1.0  # noqa: E731
    some = pd.Series(np.random.default_rng(7).gamma(2.0, 3.0, 60))
    for raw in (True, False):
        with LIMITS.set(few_elements=0, call_in_block=0, unknown_elements=0, unknown_rows=0):
            check(lambda: some.rolling(5, min_periods=2, center=True).apply(f, raw=raw))


def test_other_windows():
    frame = TABLE[["x", "w"]]
    check(lambda: frame.rolling(4).apply(WINDOWS[0]))
    check(lambda: TABLE.groupby("k")[["x", "w"]].rolling(3).apply(WINDOWS[1]))
    check(lambda: FLOATS.rolling(5).apply(lambda w, k, by=1: w[k] * by, raw=True, args=(2,)))
    check(lambda: FLOATS.rolling(5).apply(lambda w, by: w.sum() * by, kwargs={"by": 3}))
    check(lambda: FLOATS.rolling(5).agg(lambda w: w.iloc[-1] - w.iloc[0]))
    check(lambda: TABLE.n.rolling(5).apply(lambda w: w.max(), raw=True))
    check(lambda: FLOATS[:0].rolling(5).apply(WINDOWS[0]))
    for f in (
        lambda w: None, lambda w: "3", lambda w: w, lambda w: w.index[0], lambda w: 1j,
        lambda w: w.iloc[99], lambda w: np.array([1.0]), lambda w: w.name, lambda w: 1 // 0,
    ):  # fmt: skip
        check(lambda: FLOATS.rolling(5).apply(f))


def test_calls_of_windows_are_as_many():
    def calls():
        seen = []

        def f(w):
            seen.append(w[0])
            return w.sum()

        FLOATS.rolling(6, min_periods=2).apply(f, raw=True)
        return seen

    wanted = calls()
    with xpapply.patch():
        assert calls() == wanted


SHORT_WINDOWS = {
    "at the beginning": lambda f: FLOATS.rolling(5, min_periods=2).apply(f, raw=True),
    "in a Series": lambda f: FLOATS.rolling(5, min_periods=1).apply(f),
    "at both ends": lambda f: FLOATS.rolling(5, min_periods=1, center=True).apply(f, raw=True),
    "by time": lambda f: SECONDS.rolling("7s").apply(f, raw=True),
    "here and there": lambda f: SECONDS[np.arange(N) != 50].rolling("7s").apply(f, raw=True),
}
"""Windows of which some are shorter than most."""
SECONDS = FLOATS.set_axis(pd.date_range("2020", periods=N, freq="s"))


def as_without(program):
    """A program gives the same under `patch`, call after call."""
    wanted = [program() for _ in range(3)]
    with xpapply.patch():
        assert [program() for _ in range(3)] == wanted


@pytest.mark.parametrize("name", SHORT_WINDOWS)
def test_windows_come_in_the_order_of_pandas(name):
    rng, seen = np.random.default_rng(), []

    def drawn(w):
        return w.mean() + rng.random()

    def noted(w):
        seen.append(len(w))
        return w.mean() + len(seen)

    def program():
        rng.bit_generator.state = np.random.default_rng(0).bit_generator.state
        seen.clear()
        found = [SHORT_WINDOWS[name](f).dropna().tolist() for f in (drawn, noted)]
        return found, seen.copy(), rng.random()

    as_without(program)


@pytest.mark.parametrize("center", [False, True])
def test_the_first_window_that_raises_is_that_of_pandas(center):
    many = pd.Series(np.arange(3000.0))
    short = 2998.0 if center else 1.0

    def f(w):
        if w[-1] == short:
            raise ValueError("a short one")
        if w[-1] == 100.0 or w[0] == 2996.0:
            raise KeyError("another one")
        return w.mean()

    windows = many.rolling(5, min_periods=1, center=center)
    as_without(lambda: outcome(lambda: windows.apply(f, raw=True).tolist())[0])


def test_what_draws_random_numbers_in_a_loop_is_called_by_pandas():
    """Compiled it would draw once more, for the call of pandas' that results are compared with."""
    rng = np.random.default_rng()

    def walk(w):
        total = 0.0
        for x in w:
            total = total / 2 + x * rng.random()
        return total

    def program():
        rng.bit_generator.state = np.random.default_rng(0).bit_generator.state
        found = FLOATS.rolling(5).apply(walk, raw=True).dropna().tolist()
        found += SHORT_WINDOWS["by time"](walk).tolist()
        found += TABLE[["x", "w", "n"]].apply(walk, axis=1).tolist()
        return found, rng.random()

    as_without(program)
    with xpapply.options(engine="cpu"):
        as_without(program)


def test_an_error_in_a_window():
    def f(w):
        if w[-1] == FLOATS[40]:
            raise ZeroDivisionError("here")
        return w.sum()

    check(lambda: FLOATS.rolling(6).apply(f, raw=True))


OF_ELEMENTS = [
    lambda x: x * 2,
    lambda x: "a" if x > 0 else "b",
    lambda x: None if x > 0 else x,
    lambda x: 1 if x > 0 else 2.5,
    lambda x: x > 0,
    lambda x: (x, x),
]


def test_elements():
    for f in OF_ELEMENTS if DEEP else OF_ELEMENTS[::2]:
        check(lambda: FLOATS.map(f), loop="Series.map")
        check(lambda: GAPS.map(f, na_action="ignore"))
        check(lambda: FLOATS.apply(f))
        check(lambda: TABLE[["x", "n", "g"]].map(f))
        check(lambda: TABLE[["x", "g", "n"]].map(f, na_action="ignore"))
    check(lambda: FLOATS.apply(lambda x, k, by=1: x * k + by, args=(2,), by=3))
    check(lambda: TABLE[["x", "n"]].map(lambda x, by: x + by, by=2))
    check(lambda: FLOATS.map(lambda x, by: x + by, by=2))
    check(lambda: TABLE.t.map(len))
    check(lambda: FLOATS.map({1.0: 2}))
    check(lambda: pd.Index([1.5, 2.5, 3.0]).map(lambda x: x * 2))
    check(lambda: FLOATS.apply(lambda x: pd.Series([x, 1])))
    check(lambda: FLOATS.map(int))


def test_lists_that_become_columns_run_at_once():
    many = pd.concat([TABLE] * 30)
    check(lambda: many.apply(lambda r: (r.x, r.n), axis=1, result_type="expand"), at_once=True)


def test_rows():
    for f in (
        lambda r: r.x + r["w"], lambda r: "a" if r.n > 4 else None, lambda r: pd.Series({"p": r.x}),
        lambda r: [r.x], lambda r: r.x if r["t"] == "u" else 0, lambda r: (r.x, r.n),
        lambda r: [r.n, 2 * r.n], lambda r: [r.x, "a"], lambda r: [None, r.x],
        lambda r: [r.x, r.x > 0],
        lambda r: [r.x] if r.n > 4 else [r.x, 2],
    ):  # fmt: skip
        check(lambda: TABLE.apply(f, axis=1), loop="DataFrame.apply")
        check(lambda: TABLE[["x", "w", "n"]].apply(f, axis=1))
        check(lambda: TABLE.apply(f, axis=1, result_type="expand"))
        check(lambda: TABLE.apply(f, axis=1, result_type="reduce"))
    check(lambda: TABLE[["x", "w"]].apply(lambda r: r - r.mean(), axis=1, result_type="broadcast"))
    check(lambda: TABLE[["x", "w"]].apply(lambda c: c - c.mean()))
    check(lambda: TABLE[["x", "w"]].agg(lambda r: r.sum(), axis=1))
    check(lambda: TABLE[["x", "w"]].apply(lambda v: v[0] - v[1], axis=1, raw=True))


OF_GROUPS = [
    lambda x: x.max() - x.min(),
    lambda x: x.mean() / (x.std() + 1),
    lambda x: (x > 0).sum(),
    lambda x: x.iloc[-1] - x.iloc[0],
    lambda x: "big" if x.sum() > 0 else "small",
    lambda x: len(x),
    lambda x: np.percentile(x, 70),
    lambda x: x[x > 0].mean(),
    stepped,
    lambda x: x.name,
    lambda x: None,
    lambda x: x.nlargest(2).sum(),
]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("k", range(len(OF_GROUPS)))
@pytest.mark.parametrize("name", ["x", "g", "n", "t"])
def test_groups(k, name):
    f = OF_GROUPS[k]
    check(lambda: TABLE.groupby("k")[name].agg(f))
    check(lambda: TABLE.groupby("k")[name].apply(f))
    check(lambda: TABLE.groupby(["k", "t"])[["x", "n"]].agg(f))


def test_groups_of_tables():
    for f in (
        lambda g: (g.x * g["w"]).sum() / g.w.sum(),
        lambda g: len(g) * g["g"].mean(),
        lambda g: "big" if g.n.sum() > 20 else "small",
        lambda g: g.x.max() if g["n"].min() > 0 else 0,
        lambda g: g.shape[0],
        lambda g: g.t.iloc[0],
        lambda g: g,
        lambda g: g[["x", "w"]].sum(),
        lambda g: pd.Series({"a": g.x.sum()}),
        lambda g: g.nowhere,
    ):
        check(lambda: TABLE.groupby("k").apply(f))
    check(lambda: TABLE.groupby("k").apply(lambda g, a, b=1: g.x.sum() * a + b, 2, b=3))
    check(lambda: TABLE.groupby("k").x.agg(lambda x, q: np.percentile(x, q), 90))
    check(lambda: TABLE.groupby("k").x.transform(lambda x: x - x.mean()))
    check(lambda: TABLE.groupby("k").x.agg([("r", OF_GROUPS[0]), ("m", "mean")]))
    check(lambda: TIMES.resample("7min").apply(lambda x: x.sum()))
    check(lambda: TIMES.resample("10s").agg(lambda x: x.max() - x.min()))
    observed = TABLE.assign(c=pd.Categorical(TABLE.t, ["u", "v", "none"]))
    check(lambda: observed.groupby("c", observed=False).x.agg(lambda x: x.sum()))
    check(lambda: observed.groupby("c", observed=False).x.agg(lambda x: x.max()))


SPREAD = [
    lambda x: x - x.mean(),
    lambda x: (x - x.mean()) / x.std(),
    lambda x: x / x.sum() if x.sum() > 0 else -x,
    lambda x: x.max(),
    lambda x: x.max() - x.min() if len(x) > 5 else 0,
    lambda x: x.fillna(x.mean()),
    lambda x: x > x.median(),
    lambda x: np.log(x.abs() + 1) * len(x),
    lambda x: (x > 0).any(),
    lambda x: x[x > 0].mean(),
    lambda x: 2,
    standard,
    # what pandas' own loop does
    lambda x: x.rank(),
    lambda x: x.name,
    lambda x: np.log(x),
    lambda x: x.iloc[:2],
    lambda x: "big" if x.sum() > 0 else "small",
    lambda x: None if len(x) > 7 else x,
    lambda x: x.mean() if len(x) > 7 else x,
    lambda x: np.arange(len(x)),
    lambda x: np.zeros(3),
    lambda x: x.iloc[6],
    lambda x: x.nowhere,
]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("k", range(len(SPREAD)))
@pytest.mark.parametrize("by", ["k", "missing", "both", "category", "index"])
def test_transform(k, by):
    table = TABLE.assign(
        s=TABLE.k.where(TABLE.w > 0.3), c=pd.Categorical(TABLE.t, ["u", "none", "v"])
    ).set_index(TABLE.k // 2)
    how = {
        "k": {"by": "k", "sort": False},
        "missing": {"by": "s", "dropna": True},
        "both": {"by": ["s", "t"], "dropna": False},
        "category": {"by": "c", "observed": False},
        "index": {"level": 0, "as_index": False, "group_keys": False},
    }[by]
    if by == "both":
        table = table.set_index("n", append=True, drop=False).rename_axis(["one", None])
    for name in ("x", "n", "g", "w") if DEEP else ("x", "n", "g", "w")[k % 2 :: 2]:
        check(lambda: table.groupby(**how)[name].transform(SPREAD[k]))
    check(lambda: table.groupby(**how)[["x", "n"]].transform(SPREAD[k]))
    check(lambda: table.groupby(**how)[["g", "w"]].transform(SPREAD[k]))


def test_other_transforms():
    for data in (TABLE[["k", "x", "n"]][:1], TABLE[["k", "x"]][:0], TABLE[["k", "x"]]):
        check(lambda: data.groupby("k").transform(SPREAD[0]))
        check(lambda: data.groupby("k").x.transform(SPREAD[3]))
    one = TABLE.assign(k=1)[["k", "x", "w"]]
    check(lambda: one.groupby("k").transform(lambda x: x - x.mean().max()))
    check(lambda: one.groupby("k").x.transform(SPREAD[3]))
    two = TABLE[["x", "w"]].set_axis(["x", "x"], axis=1)
    check(lambda: two.groupby(TABLE.k).transform(SPREAD[0]))
    check(lambda: TABLE[["x", "w"]].groupby(TABLE.k).transform(lambda x: x - np.sum(x)))
    check(lambda: TABLE.astype({"x": "f4"}).groupby("k").x.transform(SPREAD[0]))
    check(lambda: TABLE.astype({"n": "Int64"}).groupby("k").n.transform(SPREAD[0]))
    check(lambda: TABLE.groupby("k").x.transform(lambda x, a, by=1: x * by - a, 2.5, by=3))
    check(lambda: TABLE.groupby("k")[["x", "w"]].transform(lambda x, a: x - a, a=3))
    check(lambda: TIMES.resample("7min").transform(SPREAD[0]))
    check(lambda: TABLE.assign(x=1 << 62).groupby("k").x.transform(lambda x: x.max()))
    check(lambda: TABLE.groupby("k").transform(lambda x: x.max()))
    for f in (
        lambda x: "high" if x.mean() > 0 else "low", lambda x: "a",
        lambda x: "a" if x.any() else 1.0,
        lambda x: "u" if x.sum() > 0 else None,
    ):  # fmt: skip
        check(lambda: TABLE.groupby("k").x.transform(f))
        check(lambda: TABLE.groupby("k")[["x", "w"]].transform(f))


def test_transforms_run_at_once(monkeypatch):
    monkeypatch.setattr(LIMITS, "typed_worth", 0.0)
    many = pd.concat([TABLE] * 60, ignore_index=True).assign(k=np.arange(60 * N) % 700)
    for f in SPREAD[:12]:
        check(lambda: many.groupby("k").g.transform(f), at_once=True, loop="groupby.transform")
    for f in SPREAD[:2] + SPREAD[3:4]:
        check(lambda: many.groupby("k")[["x", "n", "w"]].transform(f), at_once=True)


def test_functions_of_transforms_are_called_as_often():
    def calls(columns):
        seen = []

        def f(x):
            seen.append(type(x))
            return x - len(seen)

        return TABLE.groupby("k")[columns].transform(f).to_numpy().tolist(), seen

    for columns in ("x", ["x", "w"]):
        as_without(lambda: calls(columns))


OF_FILTERS = [
    lambda x: x.x.mean() > 0,
    lambda x: len(x) > 7,
    lambda x: x.g.sum() > x.w.sum(),
    lambda x: x.x.sum(),
    lambda x: np.nan if len(x) > 7 else True,
    lambda x: None if len(x) > 7 else True,
    lambda x: x.t.iloc[0] == "u",
    lambda x: x.x > 0,
    lambda x: x.nowhere,
    lambda x: False,
]


@pytest.mark.parametrize("k", range(len(OF_FILTERS)))
@pytest.mark.parametrize("dropna", [True, False])
def test_filter(k, dropna):
    table = TABLE.assign(s=TABLE.k.where(TABLE.w > 0.3)).set_index(TABLE.k // 2)
    for by in (["k"], ["s"], ["s", "t"]):
        for keys in (True, False):
            check(lambda: table.groupby(by, dropna=keys).filter(OF_FILTERS[k], dropna=dropna))
    for f in (lambda x: x.max() > 1, lambda x: x.sum(), lambda x: x.iloc[7] > 0, lambda x: x > 0):
        check(lambda: table.groupby("s").x.filter(f, dropna=dropna))


def test_filters_run_at_once(monkeypatch):
    monkeypatch.setattr(LIMITS, "typed_worth", 0.0)
    many = pd.concat([TABLE] * 60, ignore_index=True).assign(k=np.arange(60 * N) % 700)
    for f in OF_FILTERS[:3]:
        check(lambda: many.groupby("k").filter(f), at_once=True, loop="groupby.filter")
    check(lambda: many.groupby("k").x.filter(lambda x: x.mean() > 0), at_once=True)
    check(lambda: many.groupby("k").x.filter(lambda x: x.mean()))  # names the class of what it got
    check(lambda: many.groupby("k").filter(lambda x, a: x.x.mean() > a, a=0.1), at_once=True)


def test_an_error_in_a_group():
    def f(x):
        if len(x) < 6:
            raise ValueError("short")
        return x.sum()

    check(lambda: TABLE.groupby("k").x.agg(f))


def test_warnings_name_the_line_of_the_user():
    def where():
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            TABLE.groupby("k").x.agg(lambda x: x[:1])
        return {x.filename for x in seen}

    wanted = where()
    with xpapply.patch():
        assert where() == wanted == {__file__}
    assert where() == wanted


def test_all_is_put_back():
    from pandas._libs.window import aggregations
    from pandas.core import apply, base
    from pandas.core.groupby import generic, ops

    def now():
        return (
            apply.FrameApply.apply_standard, base.IndexOpsMixin._map_values,
            aggregations.roll_apply, ops.BaseGrouper.apply_groupwise,
            ops.BaseGrouper._aggregate_series_pure_python,
            generic.SeriesGroupBy._transform_general, generic.DataFrameGroupBy._transform_general,
            generic.SeriesGroupBy.filter, generic.DataFrameGroupBy.filter,
        )  # fmt: skip

    before = now()
    with xpapply.patch():
        assert not any(a is b for a, b in zip(now(), before, strict=True))
        with xpapply.patch():
            pass
        assert not any(a is b for a, b in zip(now(), before, strict=True))
    assert all(a is b for a, b in zip(now(), before, strict=True))


def test_pandas_that_is_loaded_later():
    import subprocess

    code = (
        "import xpapply\np = xpapply.patch()\nimport sys\nassert 'pandas' not in sys.modules\n"
        "import pandas as pd\ns = pd.Series(range(50000))\n"
        "y = s.rolling(5).apply(len)\n"
        "assert [r.loop for r in p.report.rows] == ['rolling.apply'], p.report\n"
        "p.undo()"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


def test_a_reason_names_the_line_of_the_users_function():
    """Groups get a function of their own, which cuts their part out of the column."""
    column = pd.Series(np.random.default_rng(0).normal(size=4000))

    def spread(x):
        return x.quantile(0.9) - x.quantile(0.1)

    with xpapply.options(compile=False), xpapply.patch() as patched:
        column.groupby(column.index % 100).agg(spread)
    (row,) = patched.report.rows
    (why,) = row.reasons
    line = spread.__code__.co_firstlineno
    assert f"(test_pandas_loops.py:{line}: def spread(x):)" in why
    assert why.count("test_pandas_loops.py") == 1

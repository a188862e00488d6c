"""``engine=xpapply`` of pandas: what pandas itself gives, whatever the function and the table."""

# ruff: noqa: B023  # what is written in a loop runs in the same turn

import math
import subprocess
import sys

import numpy as np
import outcomes
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from thresholds import always_plan

import xpapply

pd = pytest.importorskip("pandas", "3")

N = 60
RNG = np.random.default_rng(11)
NUMBERS = pd.DataFrame(RNG.normal(size=(N, 4)), columns=list("abcd"))
GAPS = NUMBERS.where(RNG.random((N, 4)) > 0.2)
INTEGERS = pd.DataFrame(RNG.integers(-5, 9, (N, 4)), columns=list("abcd"))
BOTH = NUMBERS.assign(b=INTEGERS.b, d=np.float32(1.5) * INTEGERS.d.astype("f4"))
MIXED = NUMBERS.assign(
    n=INTEGERS.a,
    yes=NUMBERS.a > 0,
    kind=RNG.choice(["x", "y", "zz"], N),
    size=pd.Categorical(RNG.choice(["s", "m"], N)),
)
TABLES = {
    "floats": NUMBERS,
    "gaps": GAPS,
    "integers": INTEGERS,
    "floats and integers": BOTH,
    "named index": NUMBERS.set_axis(pd.date_range("2020", periods=N, name="day"), axis=0),
    "two levels": NUMBERS.set_axis(
        pd.MultiIndex.from_product([range(N // 2), list("uv")], names=["i", None]), axis=0
    ),
    "mixed": MIXED,
    "float32": NUMBERS.astype("f4"),
    "unsigned": INTEGERS.abs().astype("u1"),
}
RATES = {"x": 1.0, "y": 2.5, "zz": -1}


@pytest.fixture(autouse=True)
def always(monkeypatch):
    always_plan(monkeypatch)


def two(row):
    return row["a"] * 2 + row.b


def branch(row):
    if row["a"] > 0.5:
        return row.b - row.c
    return 0


def whole_numbers(row):
    return 1 if row.a > row.b else 2


def loop(row):
    x, steps = abs(row["a"]) + 1, 0
    while x > 0.1 and steps < 50:
        x, steps = x * 0.7, steps + 1
    return steps


def texts(row):
    return "low" if row.a < -0.3 else "high" if row.b > 0.5 else None


def label(row):
    found = "none"
    if row["d"] > 0.7:
        found = "big"
    return found


def compared(row):
    return row.a > row["b"]


def nothing(row):
    if row.a > 0:
        return row.b


def clipped(row, low, *, high=1.0):
    return min(max(row.get("a"), low), high) + row.get("zzz", 3)


def missing(row):
    return -1.0 if pd.isna(row["a"]) else row["a"]


def columns(row):
    return pd.Series({"m": row.a * 2, "one": 1, "b": row["b"]})


def integers(row):
    return pd.Series([1, 2 if row.a > 0 else 3], index=["p", "q"])


def label_and_number(row):
    return pd.Series({"n": row.a, "t": "yes" if row.b > 0 else "no"})


OF_ANY = [
    two, branch, whole_numbers, loop, texts, label, compared, nothing, missing, columns,
    integers, label_and_number,
]  # fmt: skip
OF_NUMBERS = [
    lambda row: row.sum(),
    lambda row: row.mean() - row.median(),
    lambda row: row.std() / row.var(ddof=0),
    lambda row: row.max() - row.min(),
    lambda row: row[["a", "c"]].mean() - row.iloc[0],
    lambda row: np.median(row) + np.mean(row),
    lambda row: len(row) * row.prod(),
    lambda row: row - row.mean(),
    lambda row: row / row.sum(),
    lambda row: row[["b", "a"]] * 2,
    lambda row: row[row > row.mean()].sum(),
    lambda row: (row > 0).sum(),
    lambda row: (row > 0).any(),
    lambda row: row.abs().sum() + np.sqrt(row.abs()).max(),
    lambda row: row.count(),
    lambda row: row.fillna(0.5).sum(),
    lambda row: row.dropna().sum(),
    lambda row: sum(x * x for x in row),
    lambda row: sum(row) + max(row),
    lambda row: row.values[1:].sum(),
    lambda row: row.to_numpy().argmax(),
]
OF_MIXED = [
    lambda row: row["n"] * row["a"] if row["kind"] == "x" else row["b"],
    lambda row: row.n // 2 if row["kind"] in ("x", "y") else -1,
    lambda row: row["a"] * RATES[row["kind"]],
    lambda row: row.a * len(row["kind"]),
    lambda row: row["a"] if row["yes"] and row["size"] == "m" else row["n"] ** 2,
    lambda row: "big " if row["size"] == "s" else "none",
]
OTHERS = [
    lambda row: row.name,
    lambda row: row.index[0],
    lambda row: [row.a, row.b],
    lambda row: (row.a, 1),
    lambda row: {"a": row.a},
    lambda row: str(row["a"]),
    lambda row: row.describe(),
    lambda row: pd.Timestamp(2020, 1, 1),
    lambda row: row,
    lambda row: complex(row["a"]),
    lambda row: 2**60 + 1 if row.a > 0 else 3,
    lambda row: row.to_dict(),
    lambda row: row.a if "a" in row else 0,
]


def same(found, wanted):
    check = pd.testing.assert_series_equal
    if isinstance(wanted, pd.DataFrame):
        check = pd.testing.assert_frame_equal
    check(found, wanted, rtol=1e-12, atol=1e-13)


def outcome(run):
    """What a call gives or raises, and what it warns of, without and with our own warnings."""
    found, shown = outcomes.outcome(run)
    return found, {x for x in shown if x[0] is not xpapply.FallbackWarning}, shown


def check(table, f, *, at_once=None, **how):
    wanted, warned, _ = outcome(lambda: table.apply(f, axis=1, **how))
    told = set()
    for _ in range(2):
        found, also, shown = outcome(lambda: table.apply(f, axis=1, engine=xpapply, **how))
        told |= shown - also
        if isinstance(wanted, tuple):
            assert found == wanted
        else:
            same(found, wanted)
        assert also == warned
    if at_once is not None:
        assert at_once == (not told), told


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("f", OF_ANY, ids=lambda f: f.__name__)
def test_rows(name, f):
    check(TABLES[name], f)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", ["floats", "gaps", "integers", "floats and integers"])
@pytest.mark.parametrize("k", range(len(OF_NUMBERS)))
def test_whole_rows(name, k):
    check(TABLES[name], OF_NUMBERS[k])


@pytest.mark.parametrize("k", range(len(OF_MIXED)))
def test_texts_of_rows(k, monkeypatch):
    monkeypatch.setattr(xpapply.limits.LIMITS, "rows_of_texts", 1)
    check(MIXED, OF_MIXED[k])


@pytest.mark.parametrize("name", ["floats", "mixed"])
@pytest.mark.parametrize("k", range(len(OTHERS)))
def test_what_is_not_known_is_pandas_own(name, k):
    check(TABLES[name], OTHERS[k])


def test_these_run_at_once():
    many = pd.concat([NUMBERS] * 50, ignore_index=True)
    for f in (two, branch, loop, texts, label, compared, missing, columns, *OF_NUMBERS[:4]):
        check(many, f, at_once=True)
    check(pd.concat([MIXED] * 50), OF_MIXED[0], at_once=True)
    check(many, OTHERS[2], at_once=False)


def test_further_arguments():
    check(NUMBERS, clipped, args=(-0.5,), high=0.25)
    check(MIXED, clipped, args=(-0.5,))


def test_it_tells_why_pandas_loops():
    many = pd.concat([NUMBERS] * 50, ignore_index=True)
    with pytest.warns(xpapply.FallbackWarning, match="it returns a container"):
        many.apply(lambda row: [row.a], axis=1, engine=xpapply)
    with xpapply.options(fallback="raise"), pytest.raises(xpapply.UnsupportedError):
        many.apply(lambda row: [row.a], axis=1, engine=xpapply)


@pytest.mark.parametrize("where", [0, 7, N - 1])
def test_what_f_raises(where):
    table = NUMBERS.assign(a=np.where(np.arange(N) == where, 99.0, NUMBERS.a))

    def f(row):
        if row["a"] == 99:
            raise KeyError("ninety-nine")
        return row.b

    check(table, f)
    check(table, lambda row: math.sqrt(98 - row.a) if row.a > 50 else row.b)
    check(table, lambda row: row["nowhere"])


def test_f_is_called_as_often():
    def calls(**how):
        seen = []

        def f(row):
            seen.append(row.a)
            return row.b

        NUMBERS.apply(f, axis=1, **how)
        return seen

    assert calls(engine=xpapply) == calls()


def test_names_twice():
    table = NUMBERS.set_axis(list("abab"), axis=1)
    check(table, lambda row: row["a"].sum())
    check(NUMBERS.set_axis(list("abcc"), axis=1), two)
    check(NUMBERS.set_axis([0, 1, "b", "a"], axis=1), lambda row: row[0] - row["a"])
    check(NUMBERS.set_axis([1.0, 0.0, True, "a"], axis=1), lambda row: row[1.0] - row["a"])


def test_empty_tables():
    for table in (NUMBERS[:0], NUMBERS[[]], pd.DataFrame(), NUMBERS[:1]):
        check(table, lambda row: 1.5)
        check(table, lambda row: row.sum())


def test_columns_of_other_kinds():
    table = NUMBERS.assign(
        when=pd.date_range("2020", periods=N), big=INTEGERS.a.astype("Int64"), o=[[1]] * N
    )
    check(table, two)
    for f in (lambda r: r.when.month, lambda r: r.big + r.a, lambda r: len(r["o"])):
        check(table, f)
    gaps = MIXED.assign(kind=MIXED.kind.where(MIXED.a > 0))
    check(gaps, lambda row: row.a if row["kind"] == "x" else 0)
    check(gaps.astype({"kind": object}), lambda row: row.a if row["kind"] == "x" else 0)


def test_a_name_that_becomes_something_else():
    def f(row):
        row = row["a"] + 1
        return row * 2

    check(NUMBERS, f)

    def g(row):
        part = row[["a", "b"]]
        part = part - part.mean()
        return part.max()

    check(NUMBERS, g)


def test_names_of_series():
    def centred(row):
        off = row - row.mean()
        size = off.abs()
        return off.max() / size.sum()

    def parts(row):
        some = row[["a", "b"]]
        if row.c > 0:
            some = some * 2
        return some.sum()

    def either(row):
        part = row[["a", "b"]] if row.c > 0 else row[["c", "d"]]
        return part.sum()

    def later(row):
        part = row
        row = part * 2
        return part.sum() + row.sum()

    def of_loop(row):
        total = row * 0
        for k in range(3):
            total = total + row * k
        return total.sum()

    def added(row):
        total = row.copy()
        total += 1
        return total.sum() - row.sum()

    for f in (centred, parts, either, later, of_loop, added):
        for table in (NUMBERS, GAPS, INTEGERS, MIXED):
            check(table, f)
    check(pd.concat([NUMBERS] * 50), centred, at_once=True)


def test_elements_of_several_kinds_are_those_of_pandas():
    for f in (
        lambda r: r.n**-1,
        lambda r: r.n // 0,
        lambda r: type(r.n).__name__,
        lambda r: r.n**70,
    ):
        check(MIXED, f)
        check(MIXED.assign(n=2), f)


def test_writing_into_a_row():
    def f(row):
        row["a"] = 5.0
        return row.sum()

    check(NUMBERS.copy(), f)


def test_division_by_zero_warns_as_pandas_does():
    table = NUMBERS.assign(a=np.where(np.arange(N) % 7 == 3, 0.0, NUMBERS.a))
    check(table, lambda row: row.b / row.a)
    check(table, lambda row: (row / row.a).sum())
    check(INTEGERS, lambda row: row / row.b)
    check(MIXED.assign(n=0), lambda row: row.a / row.n if row.kind == "x" else 1)


def test_a_global_that_changes(monkeypatch):
    monkeypatch.setitem(globals(), "FACTOR", 2.0)

    def f(row):
        return row.a * FACTOR  # noqa: F821

    check(NUMBERS, f)
    monkeypatch.setitem(globals(), "FACTOR", -3)
    check(NUMBERS, f)
    for k in range(3):
        check(NUMBERS, lambda row: row.a + k)


@pytest.mark.parametrize("axis", [0, 1, "columns", "index"])
def test_raw(axis):
    many = pd.concat([NUMBERS] * 5, ignore_index=True)
    for table in (many, MIXED):
        for f in (
            lambda v: v[0], lambda v: v * 2, lambda v, k=1: v[k], lambda v: "t", np.ptp,
        ):  # fmt: skip
            wanted, *_ = outcome(lambda: table.apply(f, axis=axis, raw=True))
            found, *_ = outcome(lambda: table.apply(f, axis=axis, raw=True, engine=xpapply))
            if isinstance(wanted, tuple):
                assert found[0] == wanted[0]
            else:
                same(found, wanted)


def test_columns_and_names_of_functions():
    for f in ("sum", ["min", "max"], np.sqrt, lambda x: x.sum()):
        same(NUMBERS.apply(f, engine=xpapply), NUMBERS.apply(f))


@st.composite
def rows(draw):
    kinds = {
        "a": st.sampled_from([0.0, -1.5, math.nan, math.inf, 2.25]),
        "b": st.integers(-3, 3),
        "c": st.booleans(),
        "d": st.sampled_from(["u", "v"]),
    }
    names = draw(st.permutations([*kinds]))[: draw(st.integers(1, 4))]
    count = draw(st.integers(17, 24))
    return pd.DataFrame(
        {x: draw(st.lists(kinds[x], min_size=count, max_size=count)) for x in names}
    )


@settings(max_examples=25, deadline=None)
@given(rows(), st.sampled_from(["first", "both", "kind"]))
def test_any_table(table, what):
    first, last = table.columns[0], table.columns[-1]
    by_name = {
        "first": f"lambda row: row[{first!r}]",
        "both": f"lambda row: 1 if row[{first!r}] == row[{last!r}] else row[{last!r}]",
        "kind": f"lambda row: 'same' if row[{first!r}] != 0 else 0.5",
    }
    text = by_name[what]
    import linecache

    name = f"<row {text}>"
    linecache.cache[name] = len(text), None, [text], name
    f = eval(compile(text, name, "eval"), {})
    with pytest.MonkeyPatch.context() as patch:
        always_plan(patch)
        patch.setattr(xpapply.limits.LIMITS, "rows_of_texts", 1)
        check(table, f)


# --- elements -----------------------------------------------------------------------------------

SERIES = {
    "floats": NUMBERS.a,
    "gaps": GAPS.b.rename("g"),
    "integers": INTEGERS.c,
    "bools": NUMBERS.a > 0,
    "unsigned": INTEGERS.c.abs().astype("u2"),
    "texts": MIXED.kind,
    "dates": pd.Series(pd.date_range("2020", periods=N)),
    "nullable": INTEGERS.c.astype("Int64"),
    "category": MIXED["size"],
    "empty": NUMBERS.a[:0],
}


def mapped(series, f, *, at_once=False, **how):
    wanted, warned, _ = outcome(lambda: series.map(f, **how))
    for _ in range(2):
        found, also, shown = outcome(lambda: series.map(f, engine=xpapply, **how))
        if isinstance(wanted, tuple):
            assert found == wanted
        else:
            same(found, wanted)
        assert also == warned
        assert not (at_once and shown - also)


def shifted(x, by=1):
    return x + by


@pytest.mark.parametrize("name", SERIES)
@pytest.mark.parametrize("action", [None, "ignore"])
def test_map(name, action):
    functions = [
        lambda x: x * 2,
        lambda x: 1 if x == x else None,
        lambda x: "a" if x == 1 else "b",
        lambda x: x / 3 if x > 1 else 0,
        lambda x: x > 0,
        lambda x: None,
        lambda x: (x, 1),
        lambda x: 1 / x,
        lambda x: 2**62 if x == x else 0,
        str,
        math.exp,
    ]
    for f in functions:
        mapped(SERIES[name], f, na_action=action)
    same(SERIES["floats"].map(shifted, engine=xpapply, by=3), SERIES["floats"].map(shifted, by=3))


def test_short_tables_are_pandas_own(monkeypatch):
    """And nothing is looked at: for less than that takes."""
    from xpapply.pandas import engine

    limits = xpapply.limits.LIMITS
    xpapply.functions.cache.clear()
    for name, value in (("unknown_elements", N), ("unknown_rows", N), ("patched_worth", 1.0)):
        monkeypatch.setattr(limits, name, value)
    for wing in (engine.elements, engine.rows):
        monkeypatch.setattr(wing, "apply", None)  # nobody calls it

    def f(x):
        return x + 1

    for _ in range(2):
        same(NUMBERS.a.map(f, engine=xpapply), NUMBERS.a.map(f))
        same(NUMBERS.apply(two, axis=1, engine=xpapply), NUMBERS.apply(two, axis=1))
    many = pd.concat([NUMBERS.a] * 500)
    xpapply.functions.cache.clear()
    monkeypatch.setattr(limits, "patched_worth", 1e-5)
    same(NUMBERS.a.map(f, engine=xpapply), NUMBERS.a.map(f))
    with pytest.raises(TypeError, match="NoneType"):
        many.map(f, engine=xpapply)
    with xpapply.options(fallback="raise"), pytest.raises(TypeError, match="NoneType"):
        NUMBERS.a.map(f, engine=xpapply)


def test_pandas_is_loaded_by_who_uses_it():
    code = "import sys, xpapply; assert 'pandas' not in sys.modules; xpapply.vectorize(abs)([1])"
    code += "; assert 'pandas' not in sys.modules; assert hasattr(xpapply, '__pandas_udf__')"
    subprocess.run([sys.executable, "-c", code], check=True)


# --- what a function means may change -----------------------------------------------------------


def of_whole(function):
    return lambda row: function(row)


def test_functions_of_one_code_that_reach_others(monkeypatch):
    many = pd.concat([NUMBERS] * 20, ignore_index=True)
    first = many.apply(lambda row: row.sum(), axis=1)
    many.iloc[[0, -1]] = 1.0  # where sums and means of a row tell nothing
    for function in (np.mean, np.max, np.median, np.min, len, sum, np.sum):
        check(many, of_whole(function))
    assert len(first) == len(many)
    for function in (np.mean, np.max):
        monkeypatch.setitem(globals(), "SHARED", function)
        check(many, lambda row: SHARED(row))  # noqa: F821
        check(many, of_shared)


def of_shared(row):
    return SHARED(row) * 2  # noqa: F821

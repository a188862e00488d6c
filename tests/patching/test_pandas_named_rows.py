"""pandas' loop over rows without a Series for each, beside pandas' own."""

import contextlib
import datetime
import sys
from functools import partial

import numpy as np
import pytest
from thresholds import always_plan

import xpapply
from xpapply.limits import LIMITS

pd = pytest.importorskip("pandas", "3")
named_rows = pytest.importorskip("xpapply.pandas.named_rows")
through = pytest.importorskip("xpapply.pandas.known").through
N = 300
RNG = np.random.default_rng(0)
MIXED = pd.DataFrame(
    {
        "a": RNG.normal(size=N),
        "k": RNG.integers(0, 9, N),
        "small": RNG.integers(0, 9, N).astype("i2"),
        "f": RNG.normal(size=N).astype("f4"),
        "b": RNG.random(N) > 0.5,
        "s": RNG.choice(["x", "yy", None], N),
        "o": [[1, 2], None, "t", 2.5, datetime.date(2020, 1, 1), (1,)] * (N // 6),
        "kind": pd.Categorical(RNG.choice(["u", "v"], N)),
        "t": pd.date_range("2020", periods=N, freq="7h"),
        "tz": pd.date_range("2020", periods=N, freq="7h", tz="Europe/Paris"),
        "d": pd.to_timedelta(RNG.integers(0, 99, N), "h"),
        "i": pd.array(RNG.integers(0, 9, N), "Int64"),
        "n": pd.array([1.5, None, 2.5] * (N // 3), "Float64"),
        "y": pd.array([True, None, False] * (N // 3), "boolean"),
        "p": pd.period_range("2020", periods=N, freq="D"),
        "c": RNG.normal(size=N) * 1j,
        "count": RNG.integers(0, 9, N),
        7: RNG.integers(0, 9, N),
    }
)
MIXED.loc[5, "t"], MIXED.loc[6, "d"] = pd.NaT, pd.NaT
ALIKE = {
    "floats": MIXED[["a", "a"]].set_axis(["a", "k"], axis=1),
    "integers": MIXED[["k", "count", "small"]],
    "numbers": MIXED[["a", "k", "small"]],
    "singles": MIXED[["f", "f"]].set_axis(["f", "k"], axis=1),
    "truths": MIXED[["b", "b"]].set_axis(["b", "k"], axis=1),
    "complex": MIXED[["c", "k"]],
    "texts": MIXED[["s", "s"]].set_axis(["s", "k"], axis=1),
    "dates": MIXED[["t", "t"]].set_axis(["t", "k"], axis=1),
    "dates in a place": MIXED[["tz", "tz"]].set_axis(["tz", "k"], axis=1),
    "spans": MIXED[["d", "d"]].set_axis(["d", "k"], axis=1),
    "objects": MIXED[["o", "o"]].set_axis(["o", "k"], axis=1),
    "nullable": MIXED[["i", "i"]].set_axis(["i", "k"], axis=1),
    "with gaps": MIXED[["n", "i"]].set_axis(["n", "k"], axis=1),
    "categories": MIXED[["kind", "kind"]].set_axis(["kind", "k"], axis=1),
    "periods": MIXED[["p", "p"]].set_axis(["p", "k"], axis=1),
    "a date and its place": MIXED[["t", "tz"]].set_axis(["t", "k"], axis=1),
    "other units": MIXED[["t", "t"]].set_axis(["t", "k"], axis=1).astype({"k": "M8[s]"}),
}


@pytest.fixture(autouse=True)
def always(monkeypatch):
    """A look at each function, however short the table is."""
    always_plan(monkeypatch)
    values = {"few_patched": 0, "patched_worth": -1.0, "patched_again": 0, "few_slices": 0}
    for name, value in values.items():
        monkeypatch.setattr(LIMITS, name, value)


def no_series(self):
    """In the place of what makes the Series of rows."""
    raise AssertionError("a Series is made of a row")
    yield


def outcome(run):
    try:
        return run()
    except Exception as error:
        return type(error), str(error)


def alike(x, y):
    """Whether two values are the same, of one class."""
    if isinstance(x, (pd.Series, pd.DataFrame)):
        (pd.testing.assert_series_equal if x.ndim == 1 else pd.testing.assert_frame_equal)(x, y)
        return True
    if type(x) is not type(y):
        return False
    if isinstance(x, (list, tuple)):
        return len(x) == len(y) and all(map(alike, x, y))
    missing = x is y or (isinstance(x, float) and x != x and y != y)
    return bool(missing or x == y)


def check(frame, f, monkeypatch=None, seen=None, **how):
    """Check that results, exceptions and what `f` has seen are pandas' own."""
    want = outcome(lambda: frame.apply(f, axis=1, **how))
    own = None if seen is None else [*seen]
    if seen is not None:
        seen.clear()
    made = contextlib.nullcontext() if monkeypatch is None else monkeypatch.context()
    with xpapply.patch(), xpapply.options(fallback="silent"), made as patch:
        if patch is not None:
            of = "pandas.core.apply.FrameColumnApply.series_generator"
            patch.setattr(of, property(no_series))
        found = outcome(lambda: frame.apply(f, axis=1, **how))
    assert alike(found, want), (found, want)
    if seen is not None:
        assert alike([*seen], own)


@pytest.mark.parametrize("name", MIXED.columns)
def test_elements_of_mixed_rows_are_those_of_a_series(name, monkeypatch):
    seen = []
    code = f"def f(row):\n    seen.append((row['k'], row.a, row[{name!r}]))"
    f = written(code, seen=seen)
    check(MIXED, f, monkeypatch, seen)
    assert len(seen) == N


def written(code, **names):
    """A function of a text, with its lines where they are looked for."""
    import linecache

    file = f"<{hash(code)} of a test>"
    linecache.cache[file] = len(code), None, code.splitlines(keepends=True), file
    exec(compile(code, file, "exec"), names)
    return names["f"]


@pytest.mark.parametrize("name", ALIKE)
def test_elements_of_rows_of_one_dtype_are_those_of_a_series(name):
    seen, frame = [], ALIKE[name]
    first = frame.columns[0]
    f = written(f"def f(row):\n    seen.append((row['k'], row.{first}, row.name))", seen=seen)
    check(frame, f, None, seen)
    assert len(seen) == N


INDEXES = {
    "texts": [f"row {k}" for k in range(N)],
    "integers": range(5, N + 5),
    "floats": np.arange(N) / 4,
    "dates": pd.date_range("2020", periods=N),
    "pairs": pd.MultiIndex.from_product([range(N // 3), [*"abc"]]),
    "the same": [1] * N,
}


@pytest.mark.parametrize("name", INDEXES)
@pytest.mark.parametrize("columns", [["a", "s"], ["s"]])
def test_names_of_rows(name, columns, monkeypatch):
    seen = []

    def f(row):
        seen.append((row.name, row.s))

    frame = MIXED[columns].set_axis(INDEXES[name])
    check(frame, f, monkeypatch, seen)


D = {"x": 1.5, "yy": 2}


def with_more(row, by, *, start=0, **rest):
    """Of its elements, with other arguments."""
    found = start
    for x in (row.a, row.k):
        found += x * by
    return found if not rest else str(rest) + str(found)


def guarded(row):
    try:
        return row.t.month + row["d"].days
    except (AttributeError, ValueError):
        return None


def inner(row):
    def of(x):
        return f"{x:.2f}" if row.b else x

    return max([of(row.a)], key=lambda x: str(x) + str(row.s))


@pytest.mark.parametrize(
    "f",
    [
        lambda r: f"{r.k}-{r.s}: {r.a:.3f}",
        lambda r: (r.tz.tz_localize(None) - r.t).days if r.t is not pd.NaT else -1,
        lambda r: D.get(r["s"], "none"),
        lambda r: r.get("a") if r.get("k", 0) > 4 else r.get("s", "no"),
        lambda r: [r.k, r.s],
        lambda r: (r.k, r.a),
        lambda r: {"k": r.k, "s": r.s},
        lambda r: {r.k},
        lambda r: pd.Series({"k": r.k, "s": r.s}),
        lambda r: pd.Series([r.k] * (r.k + 1)),
        lambda r: None if r.b else (np.nan if r.k > 4 else "text"),
        lambda r: r.k if r.b else r.a,
        lambda r: [r.k] * r.k,
        lambda r: r[7] + r.k,
        lambda r: "all",
        lambda r: [x for x in (r.k, r.a, r.b) if x],
        lambda r: row_of_none(r.k),
        lambda r: 1 / r.k,
        lambda r: {"x": 1, "yy": 2}[r.s],
        lambda r: r.s.upper() if isinstance(r.s, str) else r.s,
        guarded,
        inner,
    ],
)
@pytest.mark.parametrize("result_type", [None, "expand", "reduce"])
def test_results_are_pandas(f, result_type, monkeypatch):
    check(MIXED, f, monkeypatch, result_type=result_type)
    check(MIXED[:0], f, result_type=result_type)


def row_of_none(k):
    """A helper that gets an element."""
    return k * 2


@pytest.mark.parametrize(
    "how",
    [
        {"args": (2,)},
        {"by": 2},
        {"by": 2, "start": 1.5},
        {"args": (2,), "start": 1, "more": "x"},
        {},
        {"args": (2, 3)},
    ],
)
def test_other_arguments(how):
    check(MIXED, with_more, **how)


def matched(row):
    match row.k:
        case 3:
            return "three"
        case row:
            return str(row)


def table(row):
    row = row.copy()
    row["k"] = 3
    return row["k"] + row.a


WHOLE = [
    lambda r: len(r),
    lambda r: r.index[0],
    lambda r: str(r),
    lambda r: r[["a", "k"]].sum(),
    lambda r: r.count() + r.k,
    lambda r: r.dtype == object,
    lambda r: r.missing,
    lambda r: r["missing"],
    lambda r: r.get("missing", 5),
    lambda r: r.iloc[0],
    lambda r: sum(r.k for r in [r, r]),
    lambda r: [(r := 3), r][0],
    lambda r: (lambda r: r + 1)(2),
    lambda r: row_of_none(r)["k"],
    lambda r: r[0],
    lambda r: r[True],
    lambda r: eval("r.k"),
    lambda r: sorted(locals()),
    lambda r: "k" in r,
    lambda r: sys._getframe().f_locals["r"].k,
    table,
    matched,
    pd.Series.describe,
]


@pytest.mark.parametrize("f", WHOLE)
def test_what_asks_for_more_of_a_row_is_pandas_own(f):
    check(MIXED, f)


class Labelled:
    """Objects that are called, and their methods."""

    def __init__(self, by):
        self.by, self.seen = by, []

    def label(self, row, more="", /):
        self.seen.append(row.k)
        return f"{row.s}{self.by}{row.k}{more}"

    def __call__(self, row, more=""):
        return self.label_of(row.s, row.k) + more

    def label_of(self, s, k):
        return f"{s}{self.by}{k}"

    @staticmethod
    def plain(row):
        return f"{row.s}{row.k}"

    @classmethod
    def of_class(cls, row):
        return f"{cls.__name__}{row.k}"


def placed(start, row, by=1, *rest, more=2):
    return [start, row.k, by, rest, more]


CALLED = {
    "method": (Labelled("-").label, {}),
    "method with more": (Labelled("-").label, {"args": ("!",)}),
    "object": (Labelled("-"), {"more": "!"}),
    "static": (Labelled.plain, {}),
    "of class": (Labelled.of_class, {}),
    "partial": (partial(placed, 5), {}),
    "partial with names": (partial(placed, 5, more=4), {"args": (3, 4)}),
    "partial by name": (partial(placed, "x", by=3), {"more": 5}),
    "partial of partial": (partial(partial(placed, 5), more=1), {"more": 5}),
    "partial of a method": (partial(Labelled("-").label), {"args": ("?",)}),
}


@pytest.mark.parametrize("name", CALLED)
def test_what_holds_a_function(name, monkeypatch):
    f, how = CALLED[name]
    check(MIXED, f, monkeypatch, **how)


def scored(row, weights, *, more=0.0):
    return f"{row.a * weights['a'] + more:.3f}"


def numbered(row, by):
    return row.a * by if row.k > 4 else -row.a


def counted_up(row, by):
    global _by
    _by = by + 1
    return f"{row.k}{by}"


def counted_on(row, by):
    up()
    return f"{row.k}{by}"


def up():
    global _by, counted_on
    _by += 1
    if _by == 50:
        counted_on = other_count


def other_count(row, by):
    _same()
    return len(row) + by


_same, own_count = (lambda: None), counted_on
WEIGHTS, _by = {"a": 2.0}, 1
MORE = {"weights": WEIGHTS}


def outer_of(by):
    def f(row):
        """Hand a row on."""
        return scored(row, WEIGHTS, more=by)

    return f


@pytest.mark.parametrize(
    ("f", "is_through"),
    [
        (lambda r: scored(r, WEIGHTS), True),
        (lambda r: scored(r, WEIGHTS, more=-1.5), True),
        (lambda r: scored(r, more=2.0, weights=WEIGHTS), True),
        (lambda r: numbered(r, 3), True),
        (outer_of(4.0), True),
        (lambda r: outer_of(1.0)(r), False),
        (lambda r: scored(r, {"a": r.k}), False),
        (lambda r: scored(r, *[WEIGHTS]), False),
        (lambda r: scored(r, **MORE), False),
        (lambda r: numbered(r, r.k), False),
        (lambda r: numbered(r, r), False),
        (lambda r: numbered(r), True),
        (lambda r: numbered(r, _missing), False),  # noqa: F821
        (lambda r: counted_up(r, _by), True),
        (lambda r: counted_on(r, _by), True),
        (lambda r: str(numbered(r, 3)), False),
        (lambda r: str(r), False),
        (lambda r, by=2: numbered(r, by), False),
    ],
)
def test_functions_that_hand_their_row_on(f, is_through, monkeypatch):
    assert (through(f, (), {}).f is not f) == is_through
    for name, value in (("_by", 1), ("counted_on", own_count)):
        monkeypatch.setitem(globals(), name, value)
    want = outcome(lambda: MIXED.apply(f, axis=1))
    with xpapply.patch(), xpapply.options(fallback="silent"):
        for _ in range(2):
            globals().update(_by=1, counted_on=own_count)
            assert alike(outcome(lambda: MIXED.apply(f, axis=1)), want)


def test_variables_outside_are_its_own(monkeypatch):
    count, total = 0, []

    def f(row, by=2):
        nonlocal count
        global _seen
        count, _seen = count + by, row.s
        total.append(count)
        return str(count)

    want = [str(2 * k) for k in range(1, 51)]
    with xpapply.patch(), xpapply.options(fallback="silent"), monkeypatch.context() as patch:
        of = "pandas.core.apply.FrameColumnApply.series_generator"
        patch.setattr(of, property(no_series))
        assert MIXED[:50].apply(f, axis=1).tolist() == want
    assert (count, _seen) == (100, MIXED.s.iloc[49])


_seen = None


def test_rows_that_change_meanwhile():
    def run():
        frame = MIXED[["a", "a"]].set_axis(["a", "b"], axis=1).copy()

        def f(row):
            if row.name + 1 < N:
                frame.iloc[row.name + 1, 1] = row.b + 1.0
            return f"{row.b:.3f}"

        return frame.apply(f, axis=1)

    with xpapply.patch(), xpapply.options(fallback="silent"):
        found = run()
    pd.testing.assert_series_equal(found, run())


def test_it_is_called_as_often_as_by_pandas(monkeypatch):
    seen = []

    def f(row):
        seen.append(row.k)
        if len(seen) == 200:
            raise KeyError(row.s)
        return row.s

    check(MIXED, f, monkeypatch, seen)
    assert len(seen) == 200


def first_of_many(row):
    if row.k == 3:
        return pd.Series({"k": row.k, "s": row.s})
    return pd.Series({"k": row.k, "s": None})


@pytest.mark.parametrize(
    ("f", "at_once"),
    [
        (lambda r: pd.Series({"k": f"{r.k}", "s": str(r.s)}), True),
        (lambda r: pd.Series({"k": r.k, "s": str(r.s), "b": r.b, "a": r.a}), True),
        (lambda r: pd.Series([r.t.month if r.t is not pd.NaT else 0, r.k]), True),
        (lambda r: pd.Series([str(r.k), r.k], index=["q", "w"]), True),
        (lambda r: pd.Series({0: str(r.k), 7: r.k}), True),
        (lambda r: pd.Series({"k": len(str(r.s)), "a": float(r.a)}), True),
        (lambda r: pd.Series({"k": len(str(r.s)), "a": r.k}), True),
        (lambda r: pd.Series({"k": len(str(r.s)) > 1, "a": r.b}), True),
        (lambda r: pd.Series({"k": len(str(r.s)) > 1, "a": r.k}), True),
        (lambda r: pd.Series({"k": 2 ** (r.k * 9) * len(str(r.s))}), False),
        (lambda r: pd.Series({"k": 2**63 if r.name == 0 else len(str(r.s))}), False),
        (lambda r: pd.Series({"k": 2**63 + len(str(r.s))}), False),
        (lambda r: pd.Series({"k": len(str(r.s)), "a": r.k if r.b else r.a}), False),
        (lambda r: pd.Series({"k": r.o, "a": r.k}), False),
        (lambda r: pd.Series({"k": str(r.k)}) if r.b else pd.Series({"q": str(r.k)}), False),
        (lambda r: pd.Series({"k": str(r.k)}) if r.b else None, False),
        (lambda r: pd.Series({"k": str(r.k)}, name=str(r.k)), False),
        (lambda r: pd.Series({"k": str(r.k)}, dtype=object), False),
        (lambda r: [pd.Series({"k": str(r.k)})][0], False),
        (lambda r: pd.Series({str(r.k): r.k}), False),
        (lambda r: pd.Series([str(r.k)]) if r.b else pd.Series({0: str(r.k)}), False),
        (first_of_many, False),
    ],
)
def test_series_of_results_become_columns(f, at_once, monkeypatch):
    made = []
    own = named_rows._series
    monkeypatch.setattr(named_rows, "_series", lambda x: made.append(x) or own(x))
    for frame in (MIXED, MIXED[MIXED.b]):
        for result_type in ("reduce", "expand", None):
            made.clear()
            check(frame, f, monkeypatch, result_type=result_type)
    if at_once:
        assert 0 < len(made) < 10


def test_columns_that_are_there_twice_or_of_levels():
    check(MIXED[["a", "s", "s"]], lambda r: r.a)
    levels = MIXED[["a", "s"]].set_axis(pd.MultiIndex.from_tuples([("p", "a"), ("p", "s")]), axis=1)
    check(levels, lambda r: f"{r['p', 'a']}")
    check(levels, lambda r: f"{r['p']['s']}")


def test_by_the_engine(monkeypatch):
    want = MIXED.apply(lambda r: f"{r.k} {r.t}", axis=1)
    with xpapply.options(fallback="silent"):
        found = MIXED.apply(lambda r: f"{r.k} {r.t}", axis=1, engine=xpapply)
    pd.testing.assert_series_equal(found, want)


def test_why_it_loops_is_told():
    with xpapply.patch() as patched, xpapply.options(fallback="silent"):
        MIXED.apply(lambda r: f"{r.k} {r.t}", axis=1)
    assert "loop" in str(patched.report)

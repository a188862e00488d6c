"""pandas' loops, where what they need is not there, or what they call changes meanwhile."""

from __future__ import annotations

import functools
import linecache
import warnings

import numpy as np
import pytest
from thresholds import always_plan

import xpapply
from xpapply.limits import LIMITS

pd = pytest.importorskip("pandas", "3")
N = 60


@pytest.fixture(autouse=True)
def always(monkeypatch):
    """A look at each function, however short the table is."""
    always_plan(monkeypatch)
    values = {"few_patched": 0, "patched_worth": -1.0, "patched_again": 0, "few_slices": 0}
    for name, value in values.items():
        monkeypatch.setattr(LIMITS, name, value)


def outcome(run):
    try:
        return run()
    except Exception as error:
        return type(error), str(error)


def agree(make):
    """Check results and what was seen; `make` gives a table, a function, and what it saw."""
    frame, f, seen = make()
    want = outcome(lambda: frame.apply(f, axis=1))
    other, f, seen_here = make()
    with xpapply.patch(), xpapply.options(fallback="silent"):
        found = outcome(lambda: other.apply(f, axis=1))
    assert type(found) is type(want)
    if isinstance(want, tuple):
        assert found == want
    else:
        assert type(found.index) is type(want.index)
        same = pd.testing.assert_series_equal if want.ndim == 1 else pd.testing.assert_frame_equal
        same(found, want)
        if want.ndim == 2:
            assert type(found.columns) is type(want.columns)
    assert seen_here == seen
    pd.testing.assert_frame_equal(other, frame)


def numbers(**more):
    return pd.DataFrame({"a": np.arange(N) % 7 - 3.0, "b": np.arange(N) % 5 - 2.0, **more})


class Private:
    def __init__(self):
        self.__by = 2

    def score(self, row):
        return str(row.a * self.__by)


def _of_text():
    names = {}
    exec("def f(row):\n    return row.s + str(row.a)", names)
    return names["f"]


@pytest.mark.parametrize("f", [_of_text(), eval("lambda r: r.s + r['s']"), Private().score])
def test_functions_without_their_source(f):
    agree(lambda: (numbers(s="x"), f, []))


def annotated(row):
    def twice(x: Unknown) -> Unknown:  # noqa: F821
        return x * 2

    return repr(twice.__annotations__) + str(twice(row.a))


def test_annotations_that_are_texts():
    agree(lambda: (numbers(), annotated, []))


def test_labels_of_results():
    for f in (
        lambda r: pd.Series([r.a, r.b], index=[0, 1]),
        lambda r: pd.Series((r.a, r.b), index=(0, 1)),
        lambda r: pd.Series({0: r.a, 1: r.b}),
        lambda r: pd.Series([r.a, r.s], index=[None, 1]),
        lambda r: pd.Series({1: r.a}) if r.a > 0 else pd.Series({True: r.b}),
        lambda r: pd.Series({1: r.s}) if r.a > 0 else pd.Series({1.0: r.s}),
    ):
        agree(lambda f=f: (numbers(s="x"), f, []))


@pytest.mark.parametrize("large", [2**63 - 1, 2**63, 2**64, -(2**63), -(2**63) - 1, 2**70])
@pytest.mark.parametrize("beside", [0.5, 2, True, "t", -1])
def test_large_integers_of_later_rows(large, beside):
    frame = numbers(k=pd.Series([1] * (N - 3) + [large] * 3, dtype=object))
    agree(lambda: (frame, lambda r: pd.Series({"p": r.k, "q": beside}), []))
    agree(lambda: (frame, lambda r: pd.Series([beside, r.k]), []))


KINDS = {
    "numbers": lambda: numbers(),
    "of several kinds": lambda: numbers(s="x"),
    "texts": lambda: pd.DataFrame({"a": ["x"] * N, "b": ["y"] * N}),
    "objects": lambda: pd.DataFrame({"a": ["x"] * N, "b": ["y"] * N}, dtype=object),
    "dates": lambda: pd.DataFrame(dict.fromkeys("ab", pd.date_range("2020", periods=N))),
    "in a place": lambda: pd.DataFrame(
        dict.fromkeys("ab", pd.date_range("2020", periods=N, tz="UTC"))
    ),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", ["loc", "iloc", "at", "column", "index"])
def test_rows_written_to_meanwhile(kind, how):
    def make():
        frame, seen = KINDS[kind](), []

        def f(row):
            k = len(seen)
            seen.append((row.a, row.b, row.name))
            to = min(k + 1, N - 1)
            if how == "iloc":
                frame.iloc[to, 0] = row.b
            elif how == "column":
                frame["a"] = frame["b"]
            elif how == "index":
                frame.index = range(k, k + N)
            else:
                getattr(frame, how)[to, "a"] = frame["b"].iloc[0]
            return f"{row.a}"

        return frame, f, seen

    agree(make)


def test_memory_written_to_meanwhile():
    for dtype in (float, object):

        def make(dtype=dtype):
            memory, seen = np.arange(2.0 * N).reshape(N, 2).astype(dtype), []

            def f(row):
                seen.append(row.a)
                if row.name + 1 < N:
                    memory[row.name + 1, 0] += row.a
                return f"{row.a}"

            return pd.DataFrame(memory, columns=["a", "b"], copy=False), f, seen

        agree(make)


def score(row, by):
    return f"{row.a} {by}"


def test_names_of_what_hands_its_row_on():
    """The row itself, not what has its name outside."""
    for f in (lambda np: score(np, np.pi), lambda score: score(score, 2)):
        agree(lambda f=f: (numbers(), f, []))


class Called:
    def __call__(self, row):
        if row.name == 5:
            self.__class__ = Other
        return f"{row.a}"


class Other:
    def __call__(self, row):
        return f"other {row.b}"


def _defaults():
    def f(row, by=0):
        f.__defaults__ = (by + 1,)
        return f"{row.a} {by}"

    return f


def _by_name():
    def f(row, *, by=0):
        f.__kwdefaults__ = {"by": by + 1}
        return f"{row.a} {by}"

    return f


def _code():
    def later(row):
        return f"later {row.b}"

    def f(row):
        if row.name == 5:
            swap(f, later)
        return f"{row.a}"

    return f


def swap(f, g):
    f.__code__ = g.__code__


def _partial():
    def f(row, by):
        found.keywords["by"] = by + 1
        return f"{row.a} {by}"

    found = functools.partial(f, by=0)
    return found


@pytest.mark.parametrize("make", [Called, _defaults, _by_name, _code, _partial])
def test_what_holds_a_function_changes_meanwhile(make):
    agree(lambda: (numbers(), make(), []))


def missing_or_zero(s):
    """Where a constant stands for what a row does not have, Python would warn of ``is``."""
    return s.a if s.get("zz", 1) is pd.NA else int(s.b) * 2


def _warned_of():
    """A function of a file of which Python has warned."""
    source = "def f(row):\n    return row.a * 2 if (row.b is 1) else 'no'\n"
    linecache.cache["<is>"] = len(source), None, source.splitlines(True), "<is>"
    names = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(compile(source, "<is>", "exec"), names)
    return names["f"]


@pytest.mark.parametrize("f", [missing_or_zero, _warned_of()])
def test_nothing_is_warned_of_code_that_is_written_anew(f):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        agree(lambda: (numbers(), f, []))
    assert not [x for x in seen if issubclass(x.category, SyntaxWarning)]


def outcome_of_calls(run):
    """The result or what is raised, and what the calls have seen."""
    seen = []
    return outcome(lambda: run(seen)), seen


@pytest.mark.parametrize("engine", [{}, {"engine": "cpu"}])
def test_no_call_beyond_one_whose_result_pandas_cannot_take(engine):
    def run(seen):
        def f(s):
            seen.append(len(s))
            return pd.NA if len(seen) == 3 else s.iloc[0] * len(seen)

        return numbers().a.rolling(3).apply(f)

    want = outcome_of_calls(run)
    with xpapply.patch(), xpapply.options(fallback="silent", **engine):
        assert outcome_of_calls(run) == want


@pytest.mark.parametrize("engine", [{}, {"engine": "cpu"}])
@pytest.mark.parametrize("returns", ["a number", "a Series"])
def test_order_of_calls_where_some_groups_lack_something(engine, returns):
    values = pd.Series(pd.array([None, 1, 2, None, 3, 4] * 10, "Int64"))
    keys = np.arange(N) // 6 * 10 + np.tile([0, 0, 1, 1, 2, 2], 10)

    def run(seen):
        def f(s):
            seen.append(len(s) * 100 + int(s.iloc[-1] is pd.NA))
            return s.sum() * len(seen)

        def g(s):
            seen.append(len(s))
            return pd.Series({"sum": s.sum(), "count": len(seen)})

        grouped = (values if returns == "a number" else values.fillna(0)).groupby(keys)
        found = grouped.agg(f) if returns == "a number" else grouped.apply(g)
        return found.astype(object).tolist()

    want = outcome_of_calls(run)
    with xpapply.patch(), xpapply.options(fallback="silent", **engine):
        assert repr(outcome_of_calls(run)) == repr(want)

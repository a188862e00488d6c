"""Functions of rows that go through lists of columns, and call helpers in expressions."""

import functools

import numpy as np
import pytest

import xpapply
from xpapply.limits import LIMITS

pd = pytest.importorskip("pandas")
RNG = np.random.default_rng(0)
N = 900
ROWS = pd.DataFrame(RNG.normal(size=(N, 4)), columns=list("abcd"))
ROWS[::50] = ROWS[::50].mask(RNG.random((N // 50, 4)) < 0.3)
MIXED = ROWS.assign(name=RNG.choice(["x", "y"], N), n=RNG.integers(0, 5, N))
NUMBERED = pd.DataFrame(RNG.normal(size=(N, 3)), columns=["m0", "m1", "m2"])
COLUMNS = ["d", "a"]
PAIR = ("b", "c")
WEIGHTS = {"a": 0.2, "b": 0.5, "d": 2}
FACTORS = [2, 0.5]


@pytest.fixture(autouse=True)
def always_worth(monkeypatch):
    monkeypatch.setattr(LIMITS, "patched_worth", 0.0)


def same(ours, loop):
    check = {"rtol": 1e-12} if loop.dtype.kind == "f" else {}
    pd.testing.assert_series_equal(ours, loop, **check)


def both(frame, f, turns=3):
    with np.errstate(all="ignore"):
        loop = frame.apply(f, axis=1)
        with xpapply.patch() as patched, xpapply.options(fallback="silent"):
            for _ in range(turns):
                same(frame.apply(f, axis=1), loop)
    return patched.report.rows[0]


def is_known(row):
    """Whether it runs at once is a matter of time; that it might is not."""
    assert not any("no constant" in x or "as a whole" in x for x in row.reasons), row


def running(row):
    level = 0.0
    for c in COLUMNS:
        if row[c] > 0:
            level += row[c]
        else:
            level = 0.0
    return level


def numbered(row):
    found = 0.0
    for i in range(1, 3):
        found = found * 0.5 + row[f"m{i}"] - row["m" + f"{i - 1}"]
    return found


def last_name(row):
    for c in COLUMNS:
        found = row[c]
    return found if c == "a" else 0.0


def first_positive(row):
    for c in COLUMNS:
        if row[c] > 0:
            break
    return row[c]


def weighted(row):
    s = 0.0
    for k, (c, w) in enumerate(zip(COLUMNS, FACTORS, strict=False)):
        s += row[c] * w * k
    return s


def own_list(row):
    columns = ["a", "b"]
    columns.append("c")
    return row[columns].sum()


LOOPS = {
    "a list": running,
    "a list in a sum": lambda r: sum(r[c] for c in COLUMNS),
    "a tuple": lambda r: max(r[c] for c in PAIR),
    "a dict": lambda r: sum(w * r[c] for c, w in WEIGHTS.items()),
    "keys of a dict": lambda r: min(r[c] * WEIGHTS[c] for c in WEIGHTS),
    "two lists": lambda r: sum(r[c] * w for c, w in zip(COLUMNS, FACTORS, strict=False)),
    "all": lambda r: 1 if all(r[c] > -1 for c in COLUMNS) else 0,
    "any": lambda r: any(r[c] > 1 for c in PAIR),
    "an array": lambda r: np.mean([r[c] for c in COLUMNS]),
    "in the source": lambda r: sum(r[c] ** 2 for c in ("a", "c")),
    "its index": lambda r: sum(r[c] > 0 for c in r.index),
    "some of them": lambda r: sum(r[c] for c in COLUMNS if r[c] > 0),
    "a part": lambda r: r[COLUMNS].mean(),
    "an array of a part": lambda r: np.nansum(r[COLUMNS].values),
    "pairs": weighted,
    "the last one": last_name,
    "a break": first_positive,
    "a list of its own": own_list,
}


@pytest.mark.parametrize("name", LOOPS)
def test_loops_over_columns(name):
    both(ROWS, LOOPS[name])


def test_loops_over_columns_of_several_kinds():
    for name in ("a list", "a list in a sum", "a dict", "all", "two lists", "a break"):
        both(MIXED, LOOPS[name])


def test_names_with_numbers():
    is_known(both(NUMBERED, numbered))
    both(NUMBERED, lambda r: sum(r[f"m{i}"] > 0 for i in range(3)))


def test_a_part_is_known():
    for name in ("a part", "an array of a part"):
        is_known(both(ROWS, LOOPS[name]))


def test_lists_that_change_between_calls():
    columns, weights = ["a", "b"], {"a": 1.0}

    def f(r):
        return sum(r[c] for c in columns) + sum(w * r[c] for c, w in weights.items())

    both(ROWS, f)
    columns.append("d")
    both(ROWS, f)
    columns[:] = ["c"]
    weights["d"] = 3.0
    both(ROWS, f)
    weights["d"] = 4.0
    both(ROWS, f)
    columns[:] = ["none"]
    with pytest.raises(KeyError, match="none"), xpapply.patch():
        ROWS.apply(f, axis=1)


def test_lists_that_change_within_a_call():
    columns = ["a", "b"]

    def shorter(r):
        found = sum(r[c] for c in columns)
        other = columns
        if len(other) > 1:
            other.pop()
        return found

    loop = ROWS.apply(shorter, axis=1)
    columns[:] = ["a", "b"]
    with xpapply.patch(), xpapply.options(fallback="silent"):
        same(ROWS.apply(shorter, axis=1), loop)


def is_high(row):
    return row["a"] > 0.5 or row.b > 1


def kind(row):
    """What kind."""
    if row["n"] > 3:
        return "many"
    elif is_high(row):
        return "high"
    return "low"


def times(row, factor):
    return row["a"] * factor


def several(row):
    x = row["a"]
    return x * 2


def of_parts(row):
    return sum(row[c] for c in COLUMNS)


def shadow(row):
    is_high = row["c"]  # noqa: F841
    return kind(row)


HELPERS = {
    "a condition": lambda r: 1.0 if is_high(r) else r["c"],
    "a helper of a helper": lambda r: "very " + kind(r),
    "twice": lambda r: times(r, 2) + times(r, 0.5),
    "statements": lambda r: several(r) + 1,
    "a list within": lambda r: of_parts(r) * 2 if is_high(r) else 0.0,
    "a name of its own": shadow,
    "str": lambda r: str(kind(r)).upper(),
}


@pytest.mark.parametrize("name", HELPERS)
def test_helpers_in_expressions(name):
    both(MIXED, HELPERS[name])


def test_closures():
    limit = 0.3

    def high(row):
        return row["a"] > limit

    def made(limit):
        return lambda row: 1 if high(row) and row["b"] > limit else 0

    both(ROWS, lambda row: 1 if high(row) else 0)
    both(ROWS, made(5.0))  # whose limit is another one
    limit = 2.0
    both(ROWS, lambda row: 1 if high(row) else 0)


def test_helpers_that_are_bound_anew():
    calls = []

    def high(row):
        return row["a"] > 0

    def low(row):
        return row["a"] < -1

    def f(row):
        nonlocal high
        found = "up" + str(high(row))
        calls.append(found)
        if len(calls) % 100 == 50:
            high = low
        return found

    first = high
    loop = MIXED.apply(f, axis=1)
    high = first
    calls.clear()
    with xpapply.patch(), xpapply.options(fallback="silent"):
        same(MIXED.apply(f, axis=1), loop)

    def g(row):
        return "x" + str(kind_now(row))

    for helper in (first, low, functools.partial(low), several):
        kind_now = helper
        both(MIXED, g)


def test_a_helper_that_another_one_binds_anew():
    def f(row):
        change(row["n"])
        return "x" + str(bound_here(row))  # noqa: F821

    def change(n):
        if n == 4:
            globals()["bound_here"] = several

    globals()["bound_here"] = is_high
    loop = MIXED.apply(f, axis=1)
    globals()["bound_here"] = is_high
    with xpapply.patch(), xpapply.options(fallback="silent"):
        same(MIXED.apply(f, axis=1), loop)
    del globals()["bound_here"]

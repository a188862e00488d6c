"""`numpy.vectorize` over columns of pandas and arrays of xarray, as people write it."""

import numpy as np
import pytest

import xpapply
from xpapply.limits import LIMITS

pd = pytest.importorskip("pandas")
N = 4000
RNG = np.random.default_rng(0)
TABLE = pd.DataFrame(
    {
        "a": RNG.normal(size=N),
        "n": RNG.integers(0, 9, N),
        "ok": RNG.random(N) < 0.5,
        "name": RNG.choice(["x", "y"], N),
        "lack": pd.array(RNG.integers(0, 9, N), dtype="Int64"),
    }
)


@pytest.fixture(autouse=True)
def always_worth(monkeypatch):
    monkeypatch.setattr(LIMITS, "patched_worth", 0.0)


def rule(a, n, ok):
    if ok and a > 0:
        return a * n
    return a - n if n > 3 else 0.5


def kinds(a, n, ok=True):
    return float(type(a) is float) + 10 * float(type(n) is int) + a


def both(call):
    loop = call()
    with xpapply.patch() as patched:
        ours = [call() for _ in range(3)][-1]
    return loop, ours, patched.report.rows[0]


@pytest.mark.parametrize("kind", [pd.Series, pd.Index])
def test_columns_run_at_once(kind):
    a, n, ok = kind(TABLE.a), kind(TABLE.n), kind(TABLE.ok)
    loop, ours, row = both(lambda: np.vectorize(rule)(a, n, ok))
    assert type(ours) is np.ndarray
    assert ours.dtype == loop.dtype
    np.testing.assert_array_equal(ours, loop)
    assert row.slices == 3 * N
    assert not any("plain arrays of numbers" in why for why in row.reasons)
    assert row.slices >= 3 * N


def test_numbers_beside_columns_and_names():
    loop, ours, row = both(lambda: np.vectorize(rule, otypes=[float])(TABLE.a, n=TABLE.n, ok=True))
    np.testing.assert_array_equal(ours, loop)
    assert not any("plain arrays of numbers" in why for why in row.reasons)
    assert row.slices >= 3 * N


def test_elements_are_those_of_the_loop():
    loop, ours, _ = both(lambda: np.vectorize(kinds)(TABLE.a, TABLE.n))
    np.testing.assert_array_equal(ours, loop)


def test_what_is_excluded_stays_a_series():
    def looked_up(k, table):
        return table.iloc[k] + len(table.index)

    f = np.vectorize(looked_up, excluded={1})
    loop, ours, _ = both(lambda: f(TABLE.n, TABLE.a))
    np.testing.assert_array_equal(ours, loop)


@pytest.mark.parametrize("column", ["name", "lack"])
def test_other_columns_are_left_with_a_reason(column):
    f = np.vectorize(lambda a, b: f"{b}" if a > 0 else "no")
    loop, ours, row = both(lambda: f(TABLE.a, TABLE[column]))
    np.testing.assert_array_equal(ours, loop)
    assert row.slices == 3 * N
    assert any("plain arrays of numbers" in why for why in row.reasons)


def test_arrays_of_xarray():
    xarray = pytest.importorskip("xarray")
    grid = xarray.DataArray(RNG.normal(size=(50, 80)), dims=("y", "x"))
    loop, ours, row = both(lambda: np.vectorize(lambda v: v * 2 if v > 0 else 0.0)(grid))
    assert type(ours) is type(loop) is np.ndarray
    np.testing.assert_array_equal(ours, loop)
    assert not any("plain arrays of numbers" in why for why in row.reasons)
    assert row.slices >= 3 * N

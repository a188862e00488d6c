"""Fits and interpolation of the values of a mask, of which every slice has another number."""

import warnings

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

import xpapply
from xpapply.batching import of_masks
from xpapply.batching.numpy import least_squares
from xpapply.planning.python import python_functions
from xpapply.planning.python.applied import Along

AT = np.arange(9)
UNEVEN = np.array([-3.0, -1, 0, 0.5, 2, 2, 5, 7, 7.5])  # two of them equal
DESIGN = np.stack([np.ones(9), AT / 9, np.cos(AT)], axis=1)
WEIGHTS = 1.0 + AT % 3


def filled(v):
    v = v.copy()
    gone = np.isnan(v)
    if gone.any():
        v[gone] = np.interp(AT[gone], AT[~gone], v[~gone])
    return v


def everywhere(v):
    good = ~np.isnan(v)
    return np.interp(np.linspace(-1, 9, 7), UNEVEN[good], v[good])


def beyond(v):
    good = v == v
    return np.interp(AT, AT[good], v[good], left=-99.0, right=np.nan)


def own_places(v):
    good = np.isfinite(v)
    return np.interp([0.25, 3.0], v[good], AT[good], 0.0)


def inner(v):
    good = v > 0
    bad = ~good
    out = v * 2
    out[bad] = np.interp(v[bad], AT[good], v[good]) + 1
    return out


def sorted_places(v):
    v = np.sort(v)
    good = v > -2
    return np.interp(np.array([0.5, np.nan, -9.0, 2.0]), v[good], (v * v)[good])


def line(v):
    good = np.isfinite(v)
    if good.sum() < 3:
        return np.full(2, np.nan)
    return np.polyfit(AT[good], v[good], 1)


def parabola(v):
    good = ~np.isnan(v)
    return np.polyfit(UNEVEN[good], v[good], 2)


def of_itself(v):
    good = v > 0.5
    return np.polyfit(v[good], AT[good] + v[good], 1)


def solution(v):
    good = np.isfinite(v)
    return np.linalg.lstsq(DESIGN[good], v[good], rcond=None)[0]


def all_of_least_squares(v):
    good = v > -5
    x, rest, rank, sizes = np.linalg.lstsq(DESIGN[good], v[good] - 0.5, rcond=None)
    return (x * rank + rest.sum()).sum() + sizes


def normal_equations(v):
    good = np.isfinite(v)
    some = DESIGN[good]
    return np.linalg.solve(some.T @ some, np.dot(some.T, v[good]))


def normal_equations_of_whatever(v):
    good = v > 0
    try:
        return np.linalg.solve(DESIGN[good].T @ DESIGN[good], DESIGN[good].T @ v[good])
    except np.linalg.LinAlgError:
        return np.full(3, good.sum())


def rows(v):
    some = DESIGN[v > 0]
    return len(some) + some.shape[0] + some.sum() + some.T.shape[1] + some.size


def weighed(v):
    good = np.isfinite(v)
    return np.polyfit(AT[good], v[good], 1, w=WEIGHTS[good])


def weighed_by_itself(v):
    good = v > 0.5
    return np.polyfit(UNEVEN[good], v[good], 1, w=v[good])


def products(v):
    good = v > 0
    return np.dot(AT[good], v[good]) + np.vdot(v[v > 0], v[good])


def correlated(v):
    good = np.isfinite(v)
    return np.corrcoef(AT[good], v[good])[0, 1] if good.sum() > 3 else 0.0


def trend(v):
    good = ~np.isnan(v)
    if good.sum() < 4:
        return np.nan, np.nan
    found = scipy.stats.linregress(AT[good], v[good])
    return found.slope, found.pvalue


def trend_and_error(v):
    good = np.isfinite(v)
    if good.sum() < 4:
        return np.full(3, np.nan)
    found = scipy.stats.linregress(UNEVEN[good], v[good], alternative="less")
    return np.array([found[0], found.intercept, found.intercept_stderr])


def sen(v):
    good = np.isfinite(v)
    return scipy.stats.theilslopes(v[good], AT[good])[0] if good.sum() > 3 else np.nan


def ranks(v):
    good = np.isfinite(v)
    if good.sum() < 4:
        return np.zeros(4)
    tau, p = scipy.stats.kendalltau(AT[good], v[good])
    return [
        tau,
        p,
        scipy.stats.spearmanr(v[good], AT[good]).statistic,
        scipy.stats.mode(v[good])[1],
    ]


def shape(v):
    v = v[np.isfinite(v)]
    if len(v) < 5:
        return np.nan
    return scipy.stats.skew(v) + scipy.stats.iqr(v) + scipy.stats.sem(v) + np.linalg.norm(v)


def onset(v):
    where = np.where(v > 1)[0]
    return where[0] if len(where) else -1


def ends(v):
    big = v[v > 0]
    return big[0] - big[-1] if len(big) else np.nan


def second(v):
    try:
        return np.flatnonzero(v < 1)[1]
    except IndexError:
        return 100


def third_last(v):
    places = np.nonzero(v == v)[0]
    return places[-3] + v[places][0]


FUNCTIONS = [
    onset,
    ends,
    second,
    third_last,
    filled,
    everywhere,
    beyond,
    own_places,
    inner,
    sorted_places,
    line,
    parabola,
    of_itself,
    products,
    correlated,
    solution,
    all_of_least_squares,
    normal_equations,
    normal_equations_of_whatever,
    rows,
    weighed,
    weighed_by_itself,
    trend,
    trend_and_error,
    sen,
    ranks,
    shape,
]
NUMBERS = [0.0, -0.0, 1.0, 1.5, -2.5, 3.25, 4.0, np.nan, np.nan, np.nan, np.inf, 1e200]


def outcome(run, f, x):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            found = run(f, 1, x)
        except (ValueError, TypeError, IndexError, np.linalg.LinAlgError) as error:
            return repr(error), None
    return found, {(w.category, str(w.message)) for w in seen}


def compare(f, x, engine=""):
    want, warned = outcome(np.apply_along_axis, f, x)
    with xpapply.options(fallback="silent", engine=engine):
        for _ in range(2):
            try:
                got, warns = outcome(xpapply.apply_along_axis, f, x)
            except xpapply.UnsupportedError:
                return  # it raises for the slices that it would be traced on
            if isinstance(want, str):
                assert got == want
                continue
            assert (got.shape, got.dtype) == (want.shape, want.dtype)
            np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9)
            assert warns == warned


@pytest.mark.parametrize("f", FUNCTIONS)
def test_many_slices(f):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(400, 9)) + 1
    x[rng.random(x.shape) < 0.25] = np.nan
    x[7], x[0] = [1, 2, np.nan, 4, 5, 6, np.nan, 8, 9], 1 + np.arange(9.0)
    x[np.isfinite(x).sum(1) < 4] = 2
    compare(f, x)


@pytest.mark.parametrize("f", FUNCTIONS)
@given(data=st.data())
def test_special_numbers(f, data):
    rows = st.lists(st.sampled_from(NUMBERS), min_size=9, max_size=9)
    x = np.array(data.draw(st.lists(rows, min_size=17, max_size=30)))
    compare(f, x, "numpy")  # for so few slices the loop would run


@pytest.mark.parametrize(
    "f",
    [
        filled,
        line,
        parabola,
        everywhere,
        onset,
        ends,
        solution,
        normal_equations,
        weighed,
        trend,
        trend_and_error,
        sen,
    ],
)
def test_one_path_for_all_numbers_of_values(f):
    rng = np.random.default_rng(2)
    x = rng.normal(size=(600, 9))
    x[rng.random(x.shape) < 0.2] = np.nan
    x[np.isfinite(x).sum(1) < 4] = 2
    xpapply.apply_along_axis(f, 1, x)
    traced = python_functions.decide(Along(f, 1, x, (), {})).traced
    assert traced.tree.count <= 3, traced.kernels
    assert not traced.blocks.looped


def test_roots_are_found_once():
    f, x = normal_equations, np.random.default_rng(2).normal(size=(600, 9))
    xpapply.apply_along_axis(f, 1, x)
    calls = python_functions.decide(Along(f, 1, x, (), {})).traced.tree.root.calls
    assert [c.row for c in calls].count(of_masks.ROOTS) == 1


@pytest.mark.parametrize("close", [1e-2, 1e-6, 3e-8])
def test_parts_of_least_squares(close):
    """Some slices of which are badly conditioned."""
    a = np.stack([np.ones(60), np.arange(60) / 60, 1 + close * np.sin(np.arange(60))], axis=1)
    a[:50, 2] = 1 + close * (a[:50, 1] + np.cos(np.arange(50)) / 2000)

    def f(v):
        good = v > 0
        x, rest, rank, sizes = np.linalg.lstsq(a[good], v[good], rcond=None)
        return np.concatenate([a[good] @ x - v[good], rest / 100])[-4:], rank, sizes

    def run(part):
        return lambda v: np.atleast_1d(f(v)[part])

    x = np.random.default_rng(2).normal(size=(300, 60)) + 1
    x[:40, 51:] = -1
    for part in range(3):
        want = np.apply_along_axis(run(part), 1, x)
        with xpapply.options(fallback="silent"):
            for _ in range(2):
                got = xpapply.apply_along_axis(run(part), 1, x)
                np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("rows", [3, 300, 5000])
@pytest.mark.parametrize("columns", [1, 8, 136])
def test_small_products_wake_no_threads(rows, columns):
    sizes = []

    class Counted(np.ndarray):
        def __matmul__(self, other):
            sizes.append(len(self) * other.size)
            return np.asarray(self) @ np.asarray(other)

    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(517, rows)), rng.normal(size=(rows, columns))
    found = least_squares.small_products(a.view(Counted), b)
    np.testing.assert_allclose(found, a @ b, rtol=1e-10, atol=1e-10)
    assert max(sizes) <= 2**18
    assert max(sizes) <= 2**14 or columns > 1


@pytest.mark.parametrize("dtype", ["f4", "i4", "?"])
def test_other_dtypes(dtype):
    x = np.random.default_rng(3).integers(-3, 9, (300, 9)).astype(dtype)
    x[:, 3:6] = np.arange(3, 6)
    x[:, :3] = np.arange(3)
    for f in (of_itself, inner, products):
        if f is of_itself and dtype == "?":
            continue  # all of its places are equal
        compare(f, x)


def test_a_write_into_rows_of_a_matrix():
    def f(v):
        out = np.zeros((9, 9))
        good = v > 1
        if good.sum() == 9:
            out[good] = v[good]
        return out

    x = np.random.default_rng(5).normal(size=(300, 9)) + 3.5
    x[0] = 2
    compare(f, x)


def test_a_write_through_another_mask():
    """The masks look alike for the slice that is traced."""

    def f(v):
        out = v.copy()
        a, b = v > 0, v > -1
        out[b] = np.interp(AT[a], AT[a], v[a]) if a.sum() == b.sum() else 0.0
        return out

    compare(f, np.random.default_rng(4).normal(size=(300, 9)) + 1.5)


@pytest.mark.parametrize(
    "write",
    [
        lambda a: a.__imul__(2),
        lambda a: a.__setitem__((0, 1), 5.0),
        lambda a: a[:, 0].__iadd__(1),
        lambda a: a.T.__imul__(2),
        lambda a: a.T.T.__imul__(2),
    ],
)
def test_rows_that_are_written_to_are_others(write):
    def f(v):
        good = v > 0
        a = DESIGN[good]
        write(a)
        return np.linalg.lstsq(a, v[good], rcond=None)[0] + (a.T @ a)[0]

    compare(f, 4 + np.random.default_rng(4).normal(size=(300, 9)))

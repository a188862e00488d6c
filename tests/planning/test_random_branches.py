"""Functions of random nested conditions: every slice has what the loop gives it, and no more."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import xpapply

LENGTH = 5

CONDITIONS = [
    lambda v: v[0] > 1,
    lambda v: v[1] <= v[2],
    lambda v: 0 < v[0] < v[1],
    lambda v: v.max() > 2,
    lambda v: v.min() < -1 or v[3] == 0,
    lambda v: v.sum() > 2.5,
    lambda v: v.mean() < v[1],
    lambda v: (v > 1).any(),
    lambda v: (v != 0).all() and v[4] >= 1,
    lambda v: np.isnan(v).any(),
    lambda v: not np.isfinite(v[2]),
    lambda v: v.argmax() == 2,
    lambda v: len(v[v > 0]) > 2,
    lambda v: np.count_nonzero(v < 0) % 2 == 1,
    lambda v: bool(v[1]),
    lambda v: abs(v[0] - v[1]) < 0.75,
    lambda v: v[0] in (1, 2),
    lambda v: int(v[0]) % 2 == 0,
    lambda v: round(float(v[1])) > 0,
    lambda v: v[0] / v[1] > 1,
    lambda v: np.floor(v[3]) == 1,
]


def refuse(v):
    raise ValueError(f"not of {len(v)}")


NUMBERS = [
    lambda v: v.sum(),
    lambda v: v.max() - v.min(),
    lambda v: v[0] / v[1],
    lambda v: np.log(v[2]),
    lambda v: np.sqrt(np.abs(v)).sum(),
    lambda v: v[v > 0].mean(),
    lambda v: v[v > 1].max(),
    lambda v: v.mean() * 0.5,
    lambda v: 1,
    lambda v: -2.5,
    lambda v: v.argmin(),
    lambda v: float(v[0]) * 2,
    lambda v: v[1] > v[0],
    lambda v: -v[4],
    refuse,
]
VECTORS = [
    lambda v: v,
    lambda v: v / v.max(),
    lambda v: v - v.mean(),
    lambda v: np.exp(v),
    lambda v: np.where(v > 0, v, 0),
    lambda v: np.zeros(len(v)),
    lambda v: v[::-1],
    lambda v: np.clip(v, -1, 1),
    lambda v: [v[0], 1, v[1], 2.0, 3],
    lambda v: v * v[0],
    refuse,
]
ORDINARY = [0.0, 1.0, -1.0, 2.0, 0.5, 3.0, -0.25, 1.75, -3.0, 2.5]
SPECIAL = [*ORDINARY, -0.0, np.nan, np.inf, -np.inf, 1e300, -1e300, 5e-324]


def decided(tree):
    """The function of a tree of conditions."""

    def f(v):
        at = tree
        while isinstance(at, tuple):
            condition, yes, no = at
            at = yes if condition(v) else no
        return at(v)

    return f


def trees(ends, depth):
    leaf = st.sampled_from(ends)
    if depth == 0:
        return leaf
    inner = trees(ends, depth - 1)
    return st.one_of(leaf, st.tuples(st.sampled_from(CONDITIONS), inner, inner))


def arrays(dtype, numbers):
    rows = st.lists(st.sampled_from(numbers), min_size=LENGTH, max_size=LENGTH)
    return st.lists(rows, min_size=2, max_size=30).map(lambda x: _as(x, dtype))


def _as(x, dtype):
    with np.errstate(all="ignore"):
        return np.array(x).astype(dtype)


def outcome(run, f, x):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            found = run(f, 1, x)
        except xpapply.UnsupportedError:
            raise
        except Exception as error:
            return repr(error), None
    return found, {(w.category, str(w.message)) for w in seen}


def compare(f, x, engine):
    want, warned = outcome(np.apply_along_axis, f, x)
    with xpapply.options(engine=engine, fallback="silent"):
        got, warns = outcome(xpapply.apply_along_axis, f, x)
    if isinstance(want, str):
        assert isinstance(got, str)
        assert got == want
        return
    assert not isinstance(got, str), got
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    eps = 1e-4 if x.dtype == np.float32 else 1e-11
    np.testing.assert_allclose(got, want, rtol=eps, atol=eps)
    assert warns == warned


@pytest.mark.parametrize("numbers", [ORDINARY, SPECIAL], ids=["ordinary", "special"])
@pytest.mark.parametrize("ends", [NUMBERS, VECTORS], ids=["numbers", "vectors"])
@given(data=st.data())
def test_nested_conditions(ends, numbers, data):
    tree = data.draw(trees(ends, 4))
    f = decided(tree)
    dtype = data.draw(st.sampled_from(["f8", "f8", "f4", "i4"]))
    if dtype == "i4":
        numbers = ORDINARY
    # without conditions an engine that is asked for runs the graph, and does not warn
    engine = data.draw(st.sampled_from(["", "cpu"])) if isinstance(tree, tuple) else ""
    for _ in range(4):  # the kernel of one array's paths runs on the next
        x = data.draw(arrays(dtype, numbers))
        try:
            compare(f, x, engine)
        except xpapply.UnsupportedError:
            assert engine
            engine = ""


@pytest.mark.parametrize("first", ["argmin", "log"])
def test_results_that_do_not_fit_the_first_dtype_warn_as_in_the_loop(first):
    def f(v):
        return v.argmin() if v[0] > 1 else np.log(v[2])

    x = np.ones((40, LENGTH))
    x[0, 0] = 2 if first == "argmin" else 1
    x[[5, 6, 8], 2], x[7, 2] = -1, 0
    for _ in range(2):
        compare(f, x, "")

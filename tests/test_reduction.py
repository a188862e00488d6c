"""reduction: what a loop over the slices gives, on every library."""

import math

import numpy as np
import pytest
from custom_cases import X, l2norm, online_logsumexp, quiet, small
from hypothesis import assume, given
from hypothesis import strategies as st
from slice_cases import axes_of, close, eps, loop, run, with_axis

from xpapply import InputError, reduction

# --- the tutorials of CuPy --------------------------------------------------------------------


def test_l2norm_of_the_tutorial(any_lib):
    x = np.arange(10, dtype=np.float32).reshape(2, 5)
    expected = np.array([5.477226, 15.9687195], np.float32)
    np.testing.assert_allclose(run(any_lib, l2norm, x, axis=1), expected, rtol=1e-6)
    assert run(any_lib, l2norm, x, axis=1, keepdims=True).shape == (2, 1)
    np.testing.assert_allclose(run(any_lib, l2norm, x), np.linalg.norm(x), rtol=1e-6)


# --- reductions -------------------------------------------------------------------------------

REDUCTIONS = {
    "sum": (reduction(None, lambda a, b: a + b, identity=0), np.sum),
    "prod": (reduction(None, lambda a, b: a * b, identity=1), np.prod),
    "max": (reduction(None, np.maximum), np.max),
    "min": (reduction(None, np.minimum), np.min),
    "where max": (reduction(None, lambda a, b: np.where((a > b) | (a != a), a, b)), np.max),
    "sum of squares": (
        reduction(lambda x: x * x, lambda a, b: a + b, identity=0), lambda s: np.sum(s * s),
    ),
    "mean": (
        reduction(lambda x: (x, 1.0), lambda a, b: (a[0] + b[0], a[1] + b[1]),
                  lambda s: s[0] / s[1], (0, 0)),
        np.mean,
    ),
    "extent": (
        reduction(lambda x: (x, x),
                  lambda a, b: (np.minimum(a[0], b[0]), np.maximum(a[1], b[1])),
                  lambda s: s[1] - s[0]),
        np.ptp,
    ),
}  # fmt: skip


@given(
    case=with_axis(("int32", "int64", "float32", "float64"), exponents=small),
    name=st.sampled_from(sorted(REDUCTIONS)),
    keepdims=st.booleans(),
)
def test_reductions_as_the_loop(lib, case, name, keepdims):
    x, axis = case
    if name == "prod":  # where a part of a product is 0 or infinite its order shows
        sizes = np.log2(np.abs(x[np.isfinite(x) & (x != 0)], dtype=float))
        in_range = np.finfo(x.dtype if x.dtype.kind == "f" else float)
        assume(in_range.minexp < np.minimum(sizes, 0).sum())
        assume(np.maximum(sizes, 0).sum() < in_range.maxexp)
    ours, numpys = REDUCTIONS[name]
    if not math.prod(x.shape[a] for a in axes_of(axis, x.ndim)) and ours._identity is None:
        with pytest.raises(InputError, match="identity"):
            run(lib, ours, x, axis=axis)
        return
    got = run(lib, ours, x, axis=axis, keepdims=keepdims)
    if name in ("sum", "prod", "sum of squares") and x.dtype.kind == "i":  # they wrap around
        y = x * x if name == "sum of squares" else x
        numpys = np.prod if name == "prod" else np.sum
        expected = numpys(y, axis=axis, keepdims=keepdims, dtype=x.dtype)
        np.testing.assert_array_equal(got, expected)
        return
    expected = quiet(lambda: loop(numpys, axis, x.astype(float), keepdims=keepdims))
    largest = float(np.max(np.abs(x[np.isfinite(x)]), initial=0))
    error = (
        64
        * max(eps(got.dtype), eps(x.dtype))
        * (largest + largest**2)
        * (name not in ("max", "min"))
    )
    # both are rounded to the result's dtype, however many numbers were added before
    rounded = {"prod": 64, "max": 0, "min": 0}.get(name, 2) * eps(got.dtype)
    close(got, expected, rounded, max(error, 1e-300))


def welford(a, b):
    (n1, mean1, m1), (n2, mean2, m2) = a, b
    n, apart = n1 + n2, mean2 - mean1
    return n, mean1 + apart * n2 / n, m1 + m2 + apart * apart * n1 * n2 / n


@pytest.mark.parametrize("shape", [(1, 1), (2, 3), (3, 1000), (1, 10001), (5000, 2)])
def test_states_of_several_numbers(lib, shape):
    x = np.random.default_rng(0).standard_normal(shape) * 3 + 100
    lse = reduction(lambda x: (x, 1.0), online_logsumexp, lambda s: s[0] + np.log(s[1]))
    close(run(lib, lse, x, axis=1), np.log(np.exp(x - 100).sum(1)) + 100, 1e-12)
    moments = reduction(lambda x: (1.0, x, 0.0), welford, lambda s: (s[1], s[2] / s[0]))
    mean, var = run(lib, moments, x, axis=1)
    close(mean, x.mean(1), 1e-12)
    close(var, x.var(1), 1e-11, 1e-18)


@pytest.mark.parametrize("axis", [0, 1, 2, (0, 2), None])
def test_the_order_of_combination_does_not_matter(lib, axis):
    x = np.random.default_rng(0).integers(-50, 50, (7, 9, 11))
    gcd_like = reduction(
        lambda x: (x, x * x), lambda a, b: (a[0] + b[0], np.maximum(a[1], b[1])), identity=(0, 0)
    )
    total, largest = run(lib, gcd_like, x, axis=axis)
    np.testing.assert_array_equal(total, x.sum(axis))
    np.testing.assert_array_equal(largest, (x * x).max(axis))


def test_several_arrays_broadcast(lib):
    x = np.random.default_rng(0).standard_normal((2, 1, 5))
    y = np.random.default_rng(1).standard_normal((1, 3, 5))
    dot = reduction(lambda x, y: x * y, lambda a, b: a + b, identity=0)
    close(run(lib, dot, x, y, axis=2), (x * y).sum(2), 1e-13, 1e-14)
    both = reduction(lambda x, y: (x, y), lambda a, b: (a[0] + b[0], np.maximum(a[1], b[1])))
    total, largest = run(lib, both, x, y, axis=2)
    assert total.shape == largest.shape == (2, 3)
    close(total, np.broadcast_to(x.sum(2), (2, 3)), 1e-13, 1e-14)
    close(largest, np.broadcast_to(y.max(2), (2, 3)), 0)
    close(run(lib, dot, x, y, axis=1), (x * y).sum(1), 1e-13, 1e-14)


def test_an_array_that_broadcasts_along_the_slice(lib):
    dot = reduction(lambda x, w: x * w, lambda a, b: a + b, identity=0)
    w = np.array([[2.0], [3.0]])
    close(run(lib, dot, X, w, axis=1), (X * w).sum(1), 1e-14)
    close(run(lib, dot, X, w, axis=0), (X * w).sum(0), 1e-14)
    close(run(lib, dot, X, np.array(2.0)), (X * 2).sum(), 1e-14)


@pytest.mark.parametrize("identity", [0, 0.0, np.float32(0), np.array(0), 7])
def test_an_identity_is_what_empty_slices_give(any_lib, identity):
    total = reduction(None, lambda a, b: a + b, lambda s: s + 1, identity)
    assert run(any_lib, total, np.zeros((2, 0)), axis=1).tolist() == [float(identity) + 1] * 2
    assert run(any_lib, total, np.zeros((0, 2)), axis=1).shape == (0,)


def test_tuples_of_identities(any_lib):
    both = reduction(
        lambda x: (x, x),
        lambda a, b: (np.minimum(a[0], b[0]), np.maximum(a[1], b[1])),
        identity=(np.inf, -np.inf),
    )
    low, high = run(any_lib, both, np.zeros((0, 2)), axis=0)
    assert low.tolist() == [np.inf] * 2
    assert high.tolist() == [-np.inf] * 2


def test_truths_are_combined_as_numpy_has_them(any_lib):
    x = X > 1
    assert run(any_lib, reduction(None, lambda a, b: a | b), x, axis=1).tolist() == [True, True]
    assert run(any_lib, reduction(None, lambda a, b: a & b), x, axis=1).tolist() == [False, False]
    count = reduction(lambda x: (x > 1).astype(int), lambda a, b: a + b, identity=0)
    assert run(any_lib, count, X, axis=1).tolist() == [1, 1]
    for f, numpys in ((np.maximum, np.max), (np.minimum, np.min), (np.add, np.any)):
        got = run(any_lib, reduction(None, f), x, axis=1)
        np.testing.assert_array_equal(got, numpys(x, axis=1))
        assert got.dtype == bool


def test_small_whole_numbers_wrap_around(any_lib):
    x = np.full((2, 3), 100, np.int8)
    got = run(any_lib, reduction(None, lambda a, b: a + b), x, axis=1)
    assert got.dtype == np.int8
    assert got.tolist() == [44, 44]
    wide = reduction(lambda x: x.astype(int), lambda a, b: a + b)
    assert run(any_lib, wide, x, axis=1).tolist() == [300, 300]


def test_the_dtype_widens_until_it_stays(any_lib):
    f = reduction(None, lambda a, b: a + b * 1.0)
    got = run(any_lib, f, np.arange(4, dtype=np.int32))
    assert got.dtype == np.float64
    assert got == 6


def test_the_number_of_elements(any_lib):
    count = reduction(lambda x: 1, lambda a, b: a + b, identity=0)
    got = run(any_lib, count, X, axis=1)
    assert got.dtype == np.int64
    assert got.tolist() == [3, 3]
    assert run(any_lib, count, np.zeros((2, 0)), axis=1).tolist() == [0, 0]


def test_no_axes_map_and_post_every_element(any_lib):
    close(run(any_lib, l2norm, X, axis=()), np.abs(X), 1e-15)

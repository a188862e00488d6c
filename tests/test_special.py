"""xpapply.special is what SciPy and NumPy give for every slice, on every library."""

import functools
import math
import warnings

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from slice_cases import (
    arrays,
    axes_of,
    close,
    eps,
    loop,
    loop_in_place,
    run,
    with_axis,
)
from special_cases import COMPLEX, FLOATS, floating, of_exp, scipy_special

from xpapply import InputError, special


def wide(x):
    return x.astype(complex if x.dtype.kind == "c" else float)


@given(case=with_axis(), keepdims=st.booleans())
def test_logsumexp_as_the_loop(lib, case, keepdims):
    x, axis = case
    with np.errstate(all="ignore"):
        expected = loop(scipy_special.logsumexp, axis, wide(x), keepdims=keepdims)
    got = run(lib, special.logsumexp, x, axis=axis, keepdims=keepdims)
    assert got.dtype == floating(x.dtype)
    close(got, expected, 8 * eps(x.dtype), 8 * eps(x.dtype))


@st.composite
def weighted(draw):
    """An array, an axis, and weights that broadcast with it."""
    x, axis = draw(with_axis())
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shape = [1 if draw(st.booleans()) else n for n in x.shape]
    shape = shape[draw(st.integers(0, len(shape))) :]
    b = rng.standard_normal(shape)
    b[rng.random(shape) < 0.2] = 0
    dtype = draw(st.sampled_from(["float32", "float64", "int32", "uint8", "bool"]))
    b = np.abs(b) * 5 if dtype == "uint8" else b * 5 if dtype == "int32" else b
    return x, axis, b.astype(dtype)


@given(case=weighted())
@example(case=(np.array([999.3, np.inf], "f4"), 0, np.array([0, -0.5], "f4")))
def test_weighted_logsumexp_as_the_loop(lib, case):
    x, axis, b = case

    def signed(a, b):
        if not a.size:
            return -np.inf, 0, 1
        # beside infinity SciPy has NaN for numbers of no weight whose exponential is infinite
        a = np.where((b == 0) & (a > 700) & (a < np.inf), -np.inf, a)
        size, sign = scipy_special.logsumexp(a, b=b, return_sign=True)
        terms = np.where(b == 0, 0, np.abs(b) * np.exp(a - np.max(a)))
        total = np.abs(np.sum(np.where(b == 0, 0, b * np.exp(a - np.max(a)))))
        return size, sign, np.sum(terms) / total if total else np.inf

    with np.errstate(all="ignore"):
        y = wide(x)
        size, sign, condition = (
            loop(lambda *s, k=k: signed(*s)[k], axis, y, b.astype(float)) for k in range(3)
        )
    got = run(lib, lambda a, b: special.logsumexp(a, axis, b, return_sign=True), x, b)
    dtype = floating(np.result_type(x, b))
    assert got[0].dtype == got[1].dtype == dtype
    precision = eps(x.dtype) if x.dtype == dtype else max(eps(x.dtype), eps(b.dtype))
    clear = ~(condition * precision > 1e-3)  # what cancels has no certain sign
    # beside infinity, what overflows in this dtype cancels as well
    most = np.log(np.finfo(np.result_type(dtype, np.float32)).max)

    def overflows(a, b):
        # SciPy has NaN for infinity beside a NaN or infinity of no weight; infinity without that
        nothing = np.any(~(a < np.inf) & (b == 0))
        a = np.where(b == 0, -np.inf, a)
        if nothing and np.any(a == np.inf):
            return True
        return bool(np.any(a == np.inf) and np.any((a > most) & (a < np.inf)))

    clear &= loop(overflows, axis, y, b.astype(float)) == 0
    error = 16 * precision * np.where(np.isfinite(condition), condition, 1)
    close(np.where(clear, got[0], 0), np.where(clear, size, 0), 8 * eps(dtype), error)
    close(np.where(clear, got[1], 0), np.where(clear, sign, 0), 0)
    unsigned = run(lib, lambda a, b: special.logsumexp(a, axis, b), x, b)
    # one of the two may be compiled already
    close(unsigned, np.where(got[1] < 0, np.nan, got[0]), 8 * eps(dtype), error)


@given(case=with_axis(dtypes=COMPLEX, special=False, exponents={"float32": (-2, 1)}))
def test_complex_logsumexp_as_the_loop(lib, case):
    x, axis = case

    def condition(z):
        e = np.exp(z - np.max(z.real)) if z.size else z
        return np.sum(np.abs(e)) / np.abs(np.sum(e)) if z.size else 1

    with np.errstate(all="ignore"):
        expected = loop(scipy_special.logsumexp, axis, x.astype(complex), dtype=complex)
        worst = loop(condition, axis, x.astype(complex))
    got = run(lib, special.logsumexp, x, axis=axis)
    assert got.dtype == x.dtype
    scale = max(1.0, float(np.max(np.abs(x), initial=0)))
    error = 16 * eps(x.dtype) * worst * scale
    close(got.real, expected.real, 8 * eps(x.dtype), error)
    assert np.all(np.abs(np.exp(1j * got.imag) - np.exp(1j * expected.imag)) <= error)
    assert np.all(np.abs(got.imag) <= math.pi * (1 + eps(x.dtype)))


@given(case=with_axis(empty=False))
def test_softmax_as_the_loop(lib, case):
    x, axis = case
    with np.errstate(all="ignore"):
        expected = loop_in_place(scipy_special.softmax, axis, wide(x))
    got = run(lib, special.softmax, x, axis=axis)
    assert got.dtype == of_exp(lib, x.dtype)
    # exp of a difference that is rounded; what is smaller than e**-750 is 0
    close(got, expected, 800 * eps(got.dtype), float(np.finfo(got.dtype).tiny))


@given(case=with_axis(empty=False))
def test_log_softmax_as_the_loop(lib, case):
    x, axis = case
    with np.errstate(all="ignore"):
        expected = loop_in_place(scipy_special.log_softmax, axis, wide(x))
    got = run(lib, special.log_softmax, x, axis=axis)
    assert got.dtype == of_exp(lib, x.dtype)
    close(got, expected, 8 * eps(got.dtype), 8 * eps(got.dtype))


@given(case=with_axis(dtypes=COMPLEX, special=False, exponents={"float32": (-2, 1)}, empty=False))
def test_complex_softmax_as_the_loop(lib, case):
    x, axis = case
    total = loop(
        lambda z: np.sum(np.exp(z - np.max(z.real))),
        axis,
        x.astype(complex),
        dtype=complex,
        keepdims=True,
    )
    top = loop(lambda z: np.max(z.real), axis, x.astype(complex), keepdims=True)
    expected = np.exp(x.astype(complex) - top) / total
    scale = max(1.0, float(np.max(np.abs(x))))
    error = 64 * eps(x.dtype) * scale * x.size / np.abs(total) ** 2 + np.finfo(x.dtype).tiny
    got = run(lib, special.softmax, x, axis=axis)
    assert np.all(np.abs(got - expected) <= error)
    logs = run(lib, special.log_softmax, x, axis=axis)
    assert logs.dtype == got.dtype == x.dtype
    assert np.all(np.abs(np.exp(logs.astype(complex)) - expected) <= error)
    assert np.all(np.abs(logs.imag) <= math.pi * (1 + 4 * eps(x.dtype)))


NORMS = [0, 1, 2, math.inf, -math.inf, 0.5, 3, -1, "l1", "l2", "max"]

NAMED = {"l1": 1, "l2": 2, "max": math.inf}

MODERATE = {"float16": (-1, 1), "float32": (-6, 6), "float64": (-30, 30)}


@given(
    case=with_axis(("bool", "int32", "uint8", *FLOATS, *COMPLEX), exponents=MODERATE),
    ord=st.sampled_from(NORMS),
    keepdims=st.booleans(),
)
def test_norm_as_the_loop(lib, case, ord, keepdims):
    x, axis = case
    slice_size = math.prod(x.shape[a] for a in axes_of(axis, x.ndim))
    if not slice_size and ord in (math.inf, -math.inf, "max"):
        with pytest.raises(InputError, match="no elements"):
            run(lib, special.norm, x, ord=ord, axis=axis)
        return
    with np.errstate(all="ignore"):
        expected = loop(
            lambda s: np.linalg.norm(s, NAMED.get(ord, ord)), axis, wide(x), keepdims=keepdims
        )
    got = run(lib, special.norm, x, ord=ord, axis=axis, keepdims=keepdims)
    assert got.dtype == np.zeros(0, floating(x.dtype)).real.dtype
    close(got, expected, 32 * eps(x.dtype), float(np.finfo(got.dtype).smallest_subnormal))


@given(
    case=with_axis(
        ("bool", "int32", "uint8", *FLOATS, *COMPLEX), exponents=MODERATE, special=False
    ),
    ord=st.sampled_from([0, 1, 2, math.inf, 0.5, 3, "l1", "max"]),
)
def test_normalize_as_the_loop(lib, case, ord):
    x, axis = case

    def unit(s):
        size = np.linalg.norm(s, NAMED.get(ord, ord)) if s.size else 1
        return s / size if size else s

    y = wide(x)
    expected = loop_in_place(unit, axis, y, dtype=y.dtype)
    got = run(lib, special.normalize, x, ord=ord, axis=axis)
    assert got.dtype == floating(x.dtype)
    tiny = 2 * float(np.finfo(got.dtype).smallest_subnormal)
    close(got.real, expected.real, 32 * eps(x.dtype), tiny)
    close(got.imag, expected.imag, 32 * eps(x.dtype), tiny)


def variance_error(y, precision, axis):
    """What two passes may be off by: the mean is rounded, and its error squared is added."""
    largest = loop(lambda s: np.max(np.abs(s), initial=0), axis, y)
    return (64 * precision * largest) ** 2


@given(case=with_axis(), correction=st.sampled_from([0, 1, 1.5, -1, 7]), keepdims=st.booleans())
def test_mean_var_as_the_loop(lib, case, correction, keepdims):
    x, axis = case
    precision = max(eps(x.dtype), eps("float64"))
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        y = wide(x)
        mean, var = (
            loop(f, axis, y) for f in (np.mean, functools.partial(np.var, ddof=correction))
        )
        allowed = variance_error(np.where(np.isfinite(y), y, 0), precision, axis)
        size = loop(lambda s: np.sum(np.abs(s), initial=0) / s.size, axis, np.nan_to_num(y))
    got = run(lib, special.mean_var, x, axis=axis, correction=correction, keepdims=keepdims)
    if keepdims:
        mean, var, size, allowed = (
            np.expand_dims(z, axes_of(axis, x.ndim)) for z in (mean, var, size, allowed)
        )
    assert got[0].dtype == got[1].dtype == floating(x.dtype)
    freedom = math.prod(x.shape[a] for a in axes_of(axis, x.ndim)) - correction
    close(got[0], mean, 8 * precision, np.nan_to_num(32 * precision * size))
    exact = np.where(freedom > 0, True, allowed == 0)  # else 0 or a rounding error over 0
    got_var = np.where(exact, got[1], 0)
    tiny = float(np.finfo(got[1].dtype).smallest_subnormal)
    error = allowed * max(1, 8 / abs(freedom) if freedom else 1) + tiny
    close(got_var, np.where(exact, var, 0), 64 * precision, error)


@given(case=with_axis(dtypes=COMPLEX, special=False), correction=st.sampled_from([0, 1]))
def test_complex_mean_var_as_the_loop(lib, case, correction):
    x, axis = case
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        y = x.astype(complex)
        mean = loop(np.mean, axis, y, dtype=complex)
        var = loop(functools.partial(np.var, ddof=correction), axis, y)
        largest = float(np.max(np.abs(x), initial=0))
    got = run(lib, special.mean_var, x, axis=axis, correction=correction)
    assert got[0].dtype == x.dtype
    assert got[1].dtype == x.real.dtype
    error = 32 * eps(x.dtype) * largest
    close(got[0].real, mean.real, 0, error)
    close(got[0].imag, mean.imag, 0, error)
    if math.prod(x.shape[a] for a in axes_of(axis, x.ndim)) > correction:
        close(got[1], var, 64 * eps(x.dtype), error**2)


@given(case=with_axis(), correction=st.sampled_from([0, 1]), eps_=st.sampled_from([0.0, 1e-5]))
def test_standardize_as_the_loop(lib, case, correction, eps_):
    x, axis = case
    precision = max(eps(x.dtype), eps("float64"))

    def standard(s):
        return (s - np.mean(s)) / np.sqrt(np.var(s, ddof=correction) + eps_)

    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        y = wide(x)
        expected = loop_in_place(standard, axis, y)
        scale = np.broadcast_to(
            np.expand_dims(
                loop(lambda s: np.sqrt(np.var(s, ddof=correction) + eps_), axis, y),
                axes_of(axis, x.ndim),
            ),
            x.shape,
        )
        top = np.broadcast_to(
            np.expand_dims(
                loop(lambda s: np.max(np.abs(s), initial=0), axis, y), axes_of(axis, x.ndim)
            ),
            x.shape,
        )
        error = 64 * precision * top / scale
    got = run(lib, special.standardize, x, axis=axis, correction=correction, eps=eps_)
    assert got.dtype == floating(x.dtype)
    # constant slices but for rounding, and squares that a dtype has no numbers for
    least = np.sqrt(np.finfo(got.dtype).tiny) if got.dtype != "bfloat16" else 0
    clear = ~(error > 0.1) & ~(scale <= least)
    error = np.where(np.isfinite(error), error, 0)
    close(np.where(clear, got, 0), np.where(clear, expected, 0), 64 * precision, error)


@given(case=with_axis(), keepdims=st.booleans())
def test_argmax_and_max_as_the_loop(lib, case, keepdims):
    x, axis = case
    if not math.prod(x.shape[a] for a in axes_of(axis, x.ndim)):
        with pytest.raises(InputError, match="no elements"):
            run(lib, special.argmax_and_max, x, axis=axis)
        return
    position = loop(np.argmax, axis, x, keepdims=keepdims, dtype=np.int64)
    value = loop(np.max, axis, x, keepdims=keepdims, dtype=x.dtype)
    got = run(lib, special.argmax_and_max, x, axis=axis, keepdims=keepdims)
    assert got[0].dtype == np.int64
    assert got[1].dtype == x.dtype
    np.testing.assert_array_equal(got[0], position)
    np.testing.assert_array_equal(got[1], value)


@st.composite
def pairs(draw):
    """Two arrays that broadcast, in any layout."""
    x = draw(arrays(dtypes=("int32", "uint8", *FLOATS, *COMPLEX)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shape = [1 if draw(st.booleans()) else n for n in x.shape]
    y = rng.integers(0, 9, shape[draw(st.integers(0, len(shape))) :])
    return x, y.astype(draw(st.sampled_from(["int32", "float32", "float64", "complex64"])))


@given(case=pairs())
def test_squared_diff_as_numpy(lib, case):
    x, y = case
    with np.errstate(all="ignore"):
        expected = (x - y) * (x - y)
    got = run(lib, special.squared_diff, x, y)
    assert got.dtype == expected.dtype
    precision = 8 * eps(expected.dtype) if expected.dtype.kind in "fc" else 0
    if expected.dtype.kind == "c":  # NaN in either part makes both uncertain
        got, expected = (
            np.nan_to_num(got, posinf=0, neginf=0),
            np.nan_to_num(expected, posinf=0, neginf=0),
        )
        assert np.all(np.abs(got - expected) <= precision * np.abs(expected))
        return
    close(got, expected, precision)

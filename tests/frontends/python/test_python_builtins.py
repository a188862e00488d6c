"""Python's builtins and operators on slices: the answers of NumPy's loop, by the batched way."""

import math
import warnings

import numpy as np
import pytest

import xpapply


def slices(dtype):
    """Ties, both zeros, and one slice each with NaN first, NaN last, infinities."""
    rng = np.random.default_rng(3)
    x = np.round(rng.normal(size=(40, 6)) * 2)
    dtype = np.dtype(dtype)
    if dtype.kind in "iu":
        return np.abs(x).astype(dtype) if dtype.kind == "u" else x.astype(dtype)
    if dtype.kind == "b":
        x = x > 0
        x[3], x[20] = False, True
        return x
    x[5, 0] = x[17, -1] = x[30] = np.nan
    x[8, 2], x[9, 3] = np.inf, -np.inf
    x[12, ::2], x[12, 1::2] = 0.0, -0.0
    x[13, ::2], x[13, 1::2] = -0.0, 0.0
    if dtype.kind == "c":
        real, x = x, np.zeros(x.shape, dtype)
        x.real, x.imag = real, rng.permuted(real, axis=1)
        x[31], x[32, 2] = complex(1, np.nan), complex(np.nan, 1)
    return x.astype(dtype)


FUNCTIONS = {
    "max": lambda v: max(v),
    "min": lambda v: min(v),
    "max of list": lambda v: max([v[2], v[0], v[1]]),
    "min of numbers": lambda v: min(v[2], v[0], v[1]),
    "sum": lambda v: sum(v),
    "sum of a list": lambda v: sum([v[0], v[1], v[2]]),
    "sorted": lambda v: sorted(v),
    "sorted reversed": lambda v: sorted(v, reverse=True)[1],
    "all": lambda v: all(v),
    "any": lambda v: any(v),
    "any of comparisons": lambda v: any(x > 1 for x in v[:3]),
    "abs": lambda v: abs(v[0]),
    "len": lambda v: len(v[v == v]),
    "round": lambda v: round(v[0], 1),
    "float": lambda v: float(v[0]) / 3,
    "bool": lambda v: bool(v[0]),
    "divmod": lambda v: divmod(v[0], 2)[1],
    "pow": lambda v: v[0] ** 2,
    "power of an array": lambda v: v**2,
    "float power": lambda v: v**2.0,
    "reciprocal": lambda v: v**-1,
    "reciprocal of a float": lambda v: v**-1.0,
    "root": lambda v: v**0.5,
}
DTYPES = ("f8", "f4", "f2", "D", "F", "i8", "i1", "u1", "?")


def outcome(apply, f, arr):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return apply(f, -1, arr)
        except xpapply.errors.UnsupportedError:
            raise
        except Exception as error:
            return type(error), str(error)


def same(a, b, ulps=0):
    if isinstance(a, tuple) or isinstance(b, tuple):
        return a == b
    if ulps:  # NumPy has another abs for one complex number than for arrays of them
        near = np.allclose(a, b, rtol=ulps * np.finfo(a.dtype).eps, atol=0, equal_nan=True)
        return near and a.dtype == b.dtype
    if (
        a.shape != b.shape
        or a.dtype != b.dtype
        or not np.array_equal(a, b, equal_nan=a.dtype.kind in "fc")
    ):
        return False
    for part in ("real", "imag") if a.dtype.kind == "c" else ("real",) * (a.dtype.kind == "f"):
        x, y = getattr(a, part), getattr(b, part)
        if (np.isnan(x) != np.isnan(y)).any() or (np.signbit(x) != np.signbit(y))[x == x].any():
            return False
    return True


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("first", [0, 5, 12])
def test_the_answer_is_that_of_the_loop(name, dtype, first):
    f = FUNCTIONS[name]
    arr = np.roll(slices(dtype), -first, axis=0)
    wanted = outcome(np.apply_along_axis, f, arr)
    try:
        with xpapply.options(engine="numpy"):
            found = outcome(xpapply.apply_along_axis, f, arr)
    except xpapply.errors.UnsupportedError:
        with xpapply.options(fallback="silent"):
            found = outcome(xpapply.apply_along_axis, f, arr)
    ulps = 2 if name == "abs" and dtype in "DF" else 0
    assert same(wanted, found, ulps), (wanted, found)


@pytest.mark.parametrize("name", ["max", "min", "sorted", "sum", "all", "any", "abs", "len"])
def test_it_runs_without_the_loop(name):
    f = FUNCTIONS[name]
    arr = np.random.default_rng(0).normal(size=(500, 6))
    plan = xpapply.explain(f, -1, arr)
    assert plan.vectorized, plan
    with xpapply.options(engine="numpy"):
        wanted = np.apply_along_axis(f, -1, arr)
        np.testing.assert_array_equal(xpapply.apply_along_axis(f, -1, arr), wanted)


@pytest.mark.parametrize("exponent", [-1, -1.0, 2, 0.5, 1, 3])
@pytest.mark.parametrize("dtype", ["D", "F"])
def test_elementwise_powers_of_complex_infinities(exponent, dtype):
    parts = [0.0, 1.5, -2.0, np.inf, -np.inf, np.nan]
    z = np.array([complex(a, b) for a in parts for b in parts], dtype)
    with np.errstate(all="ignore"):
        found = xpapply.elementwise(lambda x: x**exponent)(z)
        wanted = z**exponent
    for a, b in ((found.real, wanted.real), (found.imag, wanted.imag)):
        np.testing.assert_allclose(a, b, rtol=4 * np.finfo(a.dtype).eps, atol=0)


def test_math_functions_raise_where_they_do():
    arr = np.abs(np.random.default_rng(0).normal(size=(200, 3)))
    arr[150, 0] = -1
    with pytest.raises(ValueError, match=r"math domain error|nonnegative"):
        xpapply.apply_along_axis(lambda v: math.sqrt(v[0]), -1, arr)

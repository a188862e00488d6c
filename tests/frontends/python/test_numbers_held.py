"""Numbers of CuPy's slices are parts of them: what is written into a number that a name holds."""

import functools
import operator

import numpy as np
import pytest
import standin_cupy

import xpapply


@pytest.fixture
def cp():
    with standin_cupy.installed() as module:
        yield module


def of_slice(v):
    s = v[0]
    s += v[1]
    return s


def of_slice_twice(v):
    s = v[0]
    s *= 2
    return s + v[0]


def through_loop(v):
    for x in v:
        x += 1
    return v.sum()


def unpacked(v):
    a, b, *_ = v
    a -= b
    return a


def of_own(v):
    y = v * 2
    s = y[0]
    s += 1
    return y.sum() + s


def of_own_written_later(v):
    y = v * 2
    s = y[1]
    y[1] = v[2] * 3
    return s * y[0]


def of_part(v):
    y = v * 2
    part = y[1:]
    s = part[0]
    s -= 3
    y[1] = s * s
    return part.sum() + s


def result(v):
    s = v.sum()
    t = s
    s += 1
    return t * s


def summed(v):
    total = 0
    for x in v:
        total += x * x
    return total


def keeps_dtype(v):
    s = v.sum()
    s *= v[0] * 1.0
    return s


def power(v):
    s = v[0] + 1
    s **= 2
    return s


def of_a_float(v):
    s = float(v[0])
    s += 1
    return v * s


def least(v):
    s = min(v[0], v[-1])
    s += 1
    return s


def greatest_of_one_and_a_new_one(v):
    s = max(v[0], v[-1] * 0)
    s -= v[1]
    return s * v[0]


def least_or_not(v):
    s = v[0] + 3 if v[0] < v[-1] else min(v[0], v[1])
    s *= v[1]
    return s


def least_of_all(v):
    s = min(v)
    s -= 1
    return v.sum() + s


def least_of_own(v):
    a, b = v[0] * 2, v[1] * 3
    s = min(a, b)
    s += 1
    return a * b + s


def in_order(v):
    a, *_ = sorted([v[0], v[1], v[2]])
    a += 1
    return v.sum() + a


def in_order_of_all(v):
    a, *_ = sorted(v)
    a += 1
    return v.sum() + a


def by_key(v):
    s = max(v[0], v[1], key=lambda x: -x)
    s += 1
    return s + v.sum()


def either(v):
    s = v[0] or v[1]
    s += 2
    return s + v.sum()


def reshaped(v):
    s = v[0].reshape(())
    s += 2
    return s + v.sum()


def with_an_axis(v):
    s = v[0].ravel()
    s += 2
    return s[0] + v.sum()


def turned(v):
    s = v[0].T
    s += 2
    return s + v.sum()


def as_it_is(v):
    s = v[0].astype(v.dtype, copy=False)
    s += 2
    return s + v.sum()


def all_of_it(v):
    s = v[0][...]
    s += 2
    return s + v.sum()


def squeezed(v):
    s = v[0].squeeze()
    s += 2
    return s + v.sum()


def positive(v):
    s = +v[0]
    s += 2
    return s + v.sum()


def in_a_list(v):
    s = [v[0], v[1]]
    s[0] += 2
    return s[0] + v.sum()


def by_reduce(v):
    s = functools.reduce(min, [v[0], v[1], v[2]])
    s += 2
    return s + v.sum()


def by_operator(v):
    s = v[0]
    operator.iadd(s, 2)
    return s + v.sum()


FUNCTIONS = [
    least, greatest_of_one_and_a_new_one, least_or_not, least_of_all, least_of_own, in_order,
    in_order_of_all, by_key, either, reshaped, squeezed, with_an_axis, turned, as_it_is, all_of_it,
    positive, in_a_list, by_reduce, by_operator,
    of_slice, of_slice_twice, through_loop, unpacked, of_own, of_own_written_later, of_part, result,
    summed, keeps_dtype, power, of_a_float,
]  # fmt: skip


def outcome(run, f, x):
    try:
        return run(f, -1, x), None
    except Exception as error:
        return None, error


@pytest.mark.filterwarnings("ignore::xpapply.FallbackWarning")
@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("dtype", ["float64", "int64"])
@pytest.mark.parametrize("f", FUNCTIONS)
def test_slices_are_what_cupys_loop_leaves(cp, f, dtype, compiled):
    own = np.random.default_rng(0).integers(1, 9, (40, 4)).astype(dtype)
    theirs, ours = cp.asarray(own), cp.asarray(own)
    with xpapply.options(compile=compiled):
        for _ in range(3):
            want, wrong = outcome(cp.apply_along_axis, f, theirs)
            got, error = outcome(xpapply.apply_along_axis, f, ours)
            assert type(error) is type(wrong)
            if wrong is None:
                assert got.dtype == want.dtype
                np.testing.assert_array_equal(got.get(), want.get())
                np.testing.assert_array_equal(ours.get(), theirs.get())
            else:
                theirs, ours = cp.asarray(own), cp.asarray(own)


@pytest.mark.parametrize("f", [of_own, of_own_written_later, of_part, result, summed, power])
def test_what_writes_into_its_own_runs_at_once(cp, f):
    x = cp.asarray(np.random.default_rng(0).normal(size=(40, 4)))
    with xpapply.options(fallback="raise", compile=False):
        got = xpapply.apply_along_axis(f, -1, x)
    np.testing.assert_allclose(got.get(), cp.apply_along_axis(f, -1, x).get())

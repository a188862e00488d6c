"""Numbers of CuPy's slices are parts of them: what is written into a number that a name holds."""

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


FUNCTIONS = [
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

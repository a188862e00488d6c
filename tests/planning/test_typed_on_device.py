"""The way of functions with loops over CuPy's arrays, with a stand-in for CuPy and its device.

What runs a typed function there is its definition in plain Python, slice by slice.
"""

import device_functions
import numpy as np
import pytest
from on_standin import evaluated_on_standin

import xpapply
from xpapply.backends.cpu import host
from xpapply.errors import TraceError
from xpapply.limits import LIMITS
from xpapply.loop.arguments import Arguments, Looped
from xpapply.planning.python import typed_loop, typed_results
from xpapply.planning.python.typed_on_device import TypedOnDevice
from xpapply.planning.python.typed_results import read

pytestmark = pytest.mark.skipif(host.why_not() is not None, reason=str(host.why_not()))

RNG = np.random.default_rng(2)


@pytest.fixture
def cupy():
    with evaluated_on_standin() as found:
        yield found


def numbers(*shape):
    return RNG.standard_normal(shape) * 2


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_results_are_those_of_cupys_loop(cupy, axis):
    x = cupy.asarray(numbers(5, 6, 7))
    for f in (device_functions.longest_run, device_functions.states, device_functions.smoothed):
        got = xpapply.apply_along_axis(f, axis, x)
        want = cupy.apply_along_axis(f, axis, x)
        assert type(got) is cupy.ndarray
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        assert np.array_equal(got.get(), want.get())
        said = str(xpapply.explain(f, axis, x))
        assert "on the GPU, one launch" in said


def test_marked_slices_are_the_functions_own(cupy):
    x = np.clip(numbers(40, 6), -3, 3)
    x[7, 3] = 4.0

    def guarded(v):
        s = 0.0
        for y in v:
            if y > 3.2:
                raise ValueError(f"too large: {float(y)}")
            s = s + y
        return s

    with pytest.raises(ValueError, match=r"too large: 4.0"):
        xpapply.apply_along_axis(guarded, 1, cupy.asarray(x))

    def divides(v):
        n = 0
        for y in v:
            n += int(y > -9)
        return 6.0 // n

    x[9] = -9.0
    with pytest.raises(ZeroDivisionError):
        xpapply.apply_along_axis(divides, 1, cupy.asarray(x))
    x[9] = 1.0
    assert np.array_equal(xpapply.apply_along_axis(divides, 1, cupy.asarray(x)).get(), np.ones(40))


def test_the_first_slice_says_of_which_dtype_results_are(cupy):
    def either(v):
        for y in v:
            if y > 1.5:
                return y
        return 0

    x = np.clip(numbers(20, 4), -1, 1)
    x[3] = 2.0
    for first in (0.0, 2.0):
        x[0] = first
        got = xpapply.apply_along_axis(either, 1, cupy.asarray(x))
        want = cupy.apply_along_axis(either, 1, cupy.asarray(x))
        assert got.dtype == want.dtype
        assert np.array_equal(got.get(), want.get())


def test_another_value_of_a_variable_outside_is_seen(cupy):
    x = cupy.asarray(numbers(20, 4))
    limit = 0.0

    def above(v):
        n = 0
        for y in v:
            if y > limit:
                n += 1
        return n

    first = xpapply.apply_along_axis(above, 1, x)
    limit = 1.0
    second = xpapply.apply_along_axis(above, 1, x)
    assert np.array_equal(first.get(), (x._array > 0).sum(1))
    assert np.array_equal(second.get(), (x._array > 1).sum(1))


def test_what_is_not_compiled_runs_as_before(cupy):
    """Before the function is called it is told that it has complex numbers."""

    def positive(v):
        found = 0j
        for y in v:
            if y > 0:
                found += complex(float(y), 1.0)
        return found.real

    x = cupy.asarray(numbers(20, 4))
    with pytest.raises(TraceError, match="it calls complex"):
        read(TypedOnDevice, positive, Arguments((Looped(0),), {}), x[0])
    got = xpapply.apply_along_axis(positive, 1, x)
    assert "one compiled loop" not in str(xpapply.explain(positive, 1, x))
    assert np.array_equal(got.get(), cupy.apply_along_axis(positive, 1, x).get())


def straight(v):
    """Without a loop; large integers are left to Python."""
    return int(v[0]) ** 15 % 7


def test_a_first_slice_that_is_left_says_nothing_of_the_others(cupy):
    x = np.random.default_rng(3).integers(1, 9, (300, 4)).astype(float)
    x[0, 0] = 500
    there = cupy.asarray(x)
    want = cupy.apply_along_axis(straight, 1, there)
    with LIMITS.set(device_slices=100), xpapply.options(fallback="silent"):
        for _ in range(2):
            got = xpapply.apply_along_axis(straight, 1, there)
            np.testing.assert_array_equal(got.get(), want.get())
        assert "one compiled function on the GPU" in str(xpapply.explain(straight, 1, there))


def test_where_most_are_left_it_is_tried_again(cupy):
    def own(v):
        return int(v[0]) ** 15 % 7

    rng = np.random.default_rng(3)
    x = cupy.asarray(rng.integers(1, 9, (300, 4)) + 500.0)
    few = cupy.asarray(rng.integers(1, 9, (300, 4)).astype(float))
    with LIMITS.set(device_slices=100, typed_again=3), xpapply.options(fallback="silent"):
        for _ in range(2):
            got = xpapply.apply_along_axis(own, 1, x)
            np.testing.assert_array_equal(got.get(), cupy.apply_along_axis(own, 1, x).get())
        assert "one compiled function" not in str(xpapply.explain(own, 1, x))
        for _ in range(4):
            got = xpapply.apply_along_axis(own, 1, few)
            np.testing.assert_array_equal(got.get(), cupy.apply_along_axis(own, 1, few).get())
        assert "one compiled function on the GPU" in str(xpapply.explain(own, 1, few))


def test_a_function_is_read_once(cupy, monkeypatch):
    readings = []
    real = typed_results.typed_of
    for module in (typed_loop, typed_results):
        monkeypatch.setattr(module, "typed_of", lambda *given: readings.append(1) or real(*given))

    def pair(v):
        above = below = 0
        for x in v:
            if x > 0:
                above += 1
            else:
                below += 1
        return above, below

    def either(v):  # the source tells another result than that of the first slice
        if v[0] > 1e9:
            return 1
        return v[0] * 2

    def part_or_pair(v):  # the first way that is read gives an array
        if v[0] > 1e9:
            return v[:2]
        return v[0] * 1, v[1] * 1

    x = cupy.asarray(numbers(20, 5))
    for f, count in ((device_functions.states, 1), (pair, 1), (either, 2), (part_or_pair, 2)):
        readings.clear()
        got = xpapply.apply_along_axis(f, 1, x)
        assert len(readings) <= count
        np.testing.assert_array_equal(got.get(), cupy.apply_along_axis(f, 1, x).get())

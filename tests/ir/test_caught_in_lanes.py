"""Functions that catch exceptions, with slices side by side: some go on where others are caught."""

import math

import numpy as np
import pytest
from loop_functions import typed_function

from xpapply.backends.cpu import typed as backend
from xpapply.backends.cpu.typed import LANES, ONE
from xpapply.limits import LIMITS

RNG = np.random.default_rng(4)

pytestmark = pytest.mark.skipif(backend.why_not() is not None, reason=str(backend.why_not()))


def quotient(v):
    try:
        return float(v[0]) / float(v[1]) + 1.0
    except ZeroDivisionError:
        return float(v[0])


def of_two_kinds(v):
    a, b = float(v[0]), float(v[1])
    try:
        x = math.log(a) + 2.0
        y = x * math.exp(b * 300.0)
    except ValueError:
        y = a - 1.0
    except OverflowError:
        y = b + a
    return y * 2.0


def in_rounds(v):
    total, missed = 0.0, 0
    for k in range(len(v)):
        try:
            total += 1.0 / (float(v[k]) - k)
        except ZeroDivisionError:
            missed += 1
            if missed > 2:
                break
    return total + missed


def nested(v):
    total = 0.0
    for x in v:
        try:
            try:
                total += math.sqrt(float(x) - 1.0)
            except ValueError:
                total += 1.0 / float(x)
        except ZeroDivisionError:
            return -total
    return total


def goes_on(v):
    """What was computed before is read after."""
    a = float(v[0]) * 2.0
    w = v * 2.0
    try:
        b = a / float(v[1])
        return a + b + w[2]
    except ZeroDivisionError:
        return a - w[1]


FUNCTIONS = [quotient, of_two_kinds, in_rounds, nested, goes_on]


@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_results_are_those_of_python(f):
    arr = RNG.integers(-1, 5, (40 * LIMITS.typed_lanes, 6)).astype(float)
    made, _ = typed_function(f, np.array([2.0, 3.0, 5.0, 7.0, 9.0, 4.0]))
    want = np.array([f(v) for v in arr])
    for form in (ONE, LANES):
        out = np.zeros(len(arr))
        marks = backend.Compiled(made).run([arr], [out], 1, form=form)
        done = marks == 0
        assert done.mean() > 0.9
        np.testing.assert_array_equal(out[done], want[done])


def grown(v):
    try:
        return math.exp(v[0]) + math.expm1(v[0])
    except OverflowError:
        return -1.0


def test_where_exponentials_overflow():
    most = math.log(np.finfo(float).max)
    ends = [most, math.nextafter(most, 0.0), math.nextafter(most, 800.0), 800.0, -800.0, 0.5]
    arr = np.tile([*ends, np.inf, -np.inf, np.nan, 709.0], 32)[:, None]
    made, _ = typed_function(grown, np.ones(1))
    for form in (ONE, LANES):
        out = np.zeros(len(arr))
        with np.errstate(all="ignore"):
            assert not backend.Compiled(made).run([arr], [out], 1, form=form).any()
            np.testing.assert_array_equal(out, [grown(v) for v in arr])

"""Calls of NumPy's and SciPy's functions with constants alone, which are made once."""

import functools
import warnings

import numpy as np
import pytest
import scipy.signal
from loop_functions import typed_function
from outcomes import outcome

import xpapply
from xpapply.backends.cpu import typed as backend
from xpapply.errors import TraceError
from xpapply.functions import cache
from xpapply.limits import LIMITS

pytestmark = pytest.mark.skipif(backend.why_not() is not None, reason=str(backend.why_not()))
TIMES = np.linspace(0.0, 1.0, 12)
SINGULAR = np.ones((3, 3))
LARGE = np.ones(100_000)
ROWS = np.random.default_rng(3).standard_normal((40, 12))


def of_a_global(v):
    columns, s = np.vander(TIMES, 3), 0.0
    for i in range(len(v)):
        s = 0.5 * s + columns[i, 1] * v[i] if v[i] > 0 else s + columns[i, 2]
    return s


def of_another(v):
    inverse, out = np.linalg.pinv(np.vander(TIMES, N=3)), np.zeros(3)
    for k in range(3):
        for i in range(len(v)):
            if v[i] > -1:
                out[k] += inverse[k, i] * v[i]
    return out


def several(v):
    nodes, weights = np.polynomial.legendre.leggauss(5)
    s = 0.0
    for i in range(5):
        if v[i] > 0:
            s += weights[i] * nodes[i] * v[i]
    return s


def of_numbers(v):
    s = 0.0
    for x, f in zip(v, np.fft.fftfreq(12, d=0.25), strict=True):
        s += x * f if x > 0 else f
    return s


def of_scipy(v):
    b, a = scipy.signal.butter(2, 0.2)
    y = z = 0.0
    for x in v:
        y = b[0] * x + z
        z = b[1] * x - a[1] * y
        y = min(y, 2.0)
    return y


def a_number(v):
    return v[0] * np.linalg.det(((2.0, 1.0), (0.5, 3.0))) if v[0] > 0 else v[1]


def filled(v):
    change = np.eye(2)
    change[0, 1] = v[0]
    return change[0, 0] + change[0, 1] * v[1] if v[2] > 0 else change[1, 1]


FOLDED = [of_a_global, of_another, several, of_numbers, of_scipy, a_number, filled]


def compiled(f, arr):
    """Results of compiled code, or of the loop where it is not compiled."""
    with LIMITS.set(few_slices=4, plan_worth=0.0, typed_worth=0.0), xpapply.options(engine="cpu"):
        return xpapply.apply_along_axis(f, 1, arr)


@pytest.mark.parametrize("f", FOLDED, ids=lambda f: f.__name__)
def test_results_are_those_of_the_loop(f):
    made, _ = typed_function(f, ROWS[0])
    assert made.size < 120
    np.testing.assert_array_equal(compiled(f, ROWS), np.apply_along_axis(f, 1, ROWS))


def test_the_call_is_made_again_for_other_constants():
    def f(v):
        columns, s = np.vander(times, 3), 0.0
        for i in range(len(v)):
            s += columns[i, 1] * v[i] if v[i] > 0 else 1.0
        return s

    times = TIMES.copy()
    for k in range(3):
        np.testing.assert_array_equal(compiled(f, ROWS), np.apply_along_axis(f, 1, ROWS))
        times[k] += 1.0


def written(v):
    columns = np.vander(TIMES, 3)
    columns[0, 0] = v[0]
    return columns[0, 0] + columns[1, 0] if v[1] > 0 else v[2]


def of_the_slice(v):
    return np.vander(v, 3)[0, 1] if v[0] > 0 else 0.0


def raises(v):
    return np.linalg.inv(SINGULAR)[0, 0] if v[0] > 0 else v[1]


def warns(v):
    s = 0.0
    for c in np.polyfit(TIMES[:1].copy(), TIMES[:1].copy(), 0):
        s += c if v[0] > 0 else 1.0
    return s


def warns_too(v):
    return np.logspace(0, 400, 3)[1] * v[0] if v[0] > 0 else v[1]


def of_much(v):
    return np.vander(LARGE, 2)[0, 0] * v[0] if v[0] > 0 else v[1]


def typed_quietly(f, first):
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return typed_function(f, first)


@pytest.mark.parametrize("f", [written, of_the_slice, raises, warns, warns_too, of_much])
def test_others_are_left_to_the_loop(f):
    arr = ROWS[ROWS[:, 0] > 0]
    if f is not raises:  # which gives no first result
        with pytest.raises(TraceError):
            typed_quietly(f, arr[0])
    ways = np.apply_along_axis, xpapply.apply_along_axis
    want, got = (outcome(lambda way=way: way(f, 1, arr)) for way in ways)
    assert str(want[0]) == str(got[0])
    assert want[1] == {w for w in got[1] if w[0] is not xpapply.FallbackWarning}


def test_a_function_in_the_place_of_numpys(monkeypatch):
    """One of the user's that looks like it is called for each slice."""
    calls, vander = [], np.vander

    @functools.wraps(vander)
    def other(*args):
        calls.append(args)
        return vander(*args)

    monkeypatch.setattr(np, "vander", other)
    with pytest.raises(TraceError):
        typed_function(of_a_global, ROWS[0])
    cache.clear()
    del calls[:]
    xpapply.apply_along_axis(of_a_global, 1, ROWS)
    assert len(calls) == len(ROWS)

"""Repeated calls on CuPy's arrays, which ask little, and slices with gaps, which are read ahead."""

import subprocess
import sys
import threading
import warnings

import numpy as np
import pytest
from loop_functions import peaks_apart

import xpapply

pytestmark = pytest.mark.gpu

RNG = np.random.default_rng(5)
MANY = 2500
"""Slices enough for a thread each."""


def numbers(*shape, dtype="float64"):
    x = RNG.standard_normal(shape) * 3
    if np.dtype(dtype).kind == "f":
        x[RNG.random(shape) < 0.02] = np.nan
        x[RNG.random(shape) < 0.02] = -0.0
        x[RNG.random(shape) < 0.01] = -np.inf
    return x.astype(dtype)


def check(cupy, f, axis, x, rtol=0.0):
    """Compare some slices with calls of the function: each bit, but for NaN's, unless `rtol`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", xpapply.FallbackWarning)
        got = xpapply.apply_along_axis(f, axis, x).get()
    others = x.shape[:axis] + x.shape[axis + 1 :]
    for k in {0, 1, *RNG.integers(0, np.prod(others), 20).tolist(), np.prod(others) - 1}:
        at = np.unravel_index(k, others)
        want = cupy.asarray(f(x[(*at[:axis], slice(None), *at[axis:])])).get()
        assert got.dtype == want.dtype
        own = got[(*at[:axis], *(slice(None),) * want.ndim, *at[axis:])]
        assert own.shape == want.shape
        if rtol:
            np.testing.assert_allclose(own, want, rtol=rtol)
            continue
        assert np.array_equal(own, want, equal_nan=want.dtype.kind == "f"), (k, own, want)
        if want.dtype.kind == "f":
            real = ~np.isnan(want)
            assert np.array_equal(np.signbit(own)[real], np.signbit(want)[real])
    return got


def ratio(v):
    return v / v[0]


def filtered(v):
    level, spread = v[0] * 0, 1.0
    for x in v:
        spread = spread + 0.1
        if x > -2.0:
            gain = spread / (spread + 0.5)
            level = level + gain * (x - level)
            spread = (1.0 - gain) * spread
    return level


def summed(v):
    return v.sum() + v[::-1].sum() + v[1:].sum() * v[::2].sum()


def turned(v):
    return v[::-1] - v[2:].max()


def crossed(v):
    m = v[:4].reshape(2, 2)
    return m[0, 0] * m[1, 1] - m[0, 1] * m[1, 0] + m[1].sum()


LYING = {
    "first axis": lambda cupy, x: (x, 0),
    "middle": lambda cupy, x: (x.reshape(x.shape[0], 5, -1).transpose(1, 0, 2), 1),
    "every second": lambda cupy, x: (cupy.ascontiguousarray(x.T)[:, ::2], 1),
    "from behind": lambda cupy, x: (cupy.ascontiguousarray(x.T)[:, ::-1], 1),
    "every second from behind": lambda cupy, x: (x[::-2], 0),
    "of Fortran": lambda cupy, x: (cupy.asfortranarray(x.T), 1),
}


@pytest.mark.parametrize("how", LYING)
@pytest.mark.parametrize("f", [ratio, filtered, peaks_apart, summed, turned, crossed])
@pytest.mark.parametrize(("dtype", "length"), [("float64", 12), ("float32", 16), ("float64", 30)])
def test_slices_with_gaps(cupy, f, how, dtype, length):
    x, axis = LYING[how](cupy, cupy.asarray(numbers(length, MANY, dtype=dtype)))
    for _ in range(3):
        cupy.full((2, *x.shape), 7, "float64")  # the memory of the next results is of no use
        check(cupy, f, axis, x)
    assert "one launch" in str(xpapply.explain(f, axis, x))


@pytest.mark.parametrize("dtype", ["int8", "int64", "uint16", "bool"])
def test_whole_numbers_with_gaps(cupy, dtype):
    def longest(v):
        best = run = 0
        for x in v:
            run = run + 1 if x > 0 else 0
            best = max(best, run)
        return best

    x = cupy.asarray((numbers(9, MANY) > 0) * 2).astype(dtype)
    check(cupy, longest, 0, x)
    check(cupy, longest, 0, x)


LIMIT = 0.5


def above(v):
    n = 0
    for x in v:
        if x > LIMIT:
            n += 1
    return n


def test_what_changes_between_calls_is_seen(cupy, monkeypatch):
    x = cupy.asarray(RNG.standard_normal((MANY, 9)))
    closed = 2.0

    def times(v, most=1.0):
        return (v * closed).max() - most

    def more(v, most=1.0):
        return (v * closed).min() - most

    def waits(v):  # for marks
        return cupy.linalg.det(v.reshape(3, 3)) * closed

    for _ in range(3):
        for f in (above, times, waits):
            check(cupy, f, 1, x, rtol=1e-9)
    closed = 3.0
    monkeypatch.setattr(sys.modules[__name__], "LIMIT", 1.5)
    for _ in range(3):
        for f in (above, times, waits):
            check(cupy, f, 1, x, rtol=1e-9)
    times.__code__ = more.__code__
    for _ in range(3):
        check(cupy, times, 1, x)
    times.__defaults__ = (4.0,)
    for _ in range(3):
        check(cupy, times, 1, x)


def test_options_are_seen_while_it_waits(cupy):
    x = cupy.asarray(RNG.standard_normal((MANY, 9)))

    def determinant(v):
        return cupy.linalg.det(v.reshape(3, 3))

    for options in ({}, {}, {}, {"compile": False}, {}, {}):
        with xpapply.options(fallback="silent", **options):
            check(cupy, determinant, 1, x, rtol=1e-7)


def test_marks_that_come_and_go(cupy):
    def determinant(v):
        return cupy.linalg.det(v.reshape(3, 3))

    x = RNG.standard_normal((MANY, 9))
    for bad in ((), (), (7, 250), (), (0,), range(0, MANY, 50), (), ()):
        y = x.copy()
        y[list(bad)] = np.nan
        z = cupy.asarray(y)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", xpapply.FallbackWarning)
            got = xpapply.apply_along_axis(determinant, 1, z).get()
        some = [*range(0, MANY, 237), *list(bad)[:4]]
        want = [float(determinant(z[k])) for k in some]
        np.testing.assert_allclose(got[some], want, rtol=1e-7)


def test_threads_that_wait(cupy):
    """Each has marks of its own, whatever its arrays' sizes."""

    def determinant(v):
        return cupy.linalg.det(v.reshape(3, 3))

    arrays = [cupy.asarray(RNG.standard_normal((n, 9))) for n in (MANY, 5000, 20_000)]
    want = [cupy.linalg.det(x.reshape(-1, 3, 3)).get() for x in arrays]
    wrong = []

    def run(seed):
        with cupy.cuda.Stream(non_blocking=True):
            for k in np.random.default_rng(seed).integers(0, 3, 60):
                got = xpapply.apply_along_axis(determinant, 1, arrays[k]).get()
                if not np.allclose(got, want[k], rtol=1e-8, atol=1e-12):
                    wrong.append(k)

    cupy.cuda.Device().synchronize()
    threads = [threading.Thread(target=run, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


_EVENTS = """
import sys

import cupy
import xpapply

def drawdown(v):
    top, worst = v[0] * 1, v[0] * 0
    for x in v:
        if x > top:
            top = x * 1
        if top - x > worst:
            worst = top - x
    return worst

x = cupy.random.standard_normal((5000, 12))
for _ in range(4):
    xpapply.apply_along_axis(drawdown, 1, x)
events, on = [], False
sys.addaudithook(lambda event, given: events.append(event) if on else None)
on = True
for _ in range(10):
    xpapply.apply_along_axis(drawdown, 1, x)
on = False
print(len(events))
"""


def test_audit_hooks_are_told_of_little(cupy, tmp_path):
    """Many libraries have one in Python, and of each event it takes a microsecond."""
    path = tmp_path / "events.py"
    path.write_text(_EVENTS)
    how = {"capture_output": True, "text": True, "check": True}
    ran = subprocess.run([sys.executable, str(path)], **how)
    assert int(ran.stdout) <= 10 * 4, ran.stdout

"""Functions of numbers in rows, and of others: the same results and marks."""

import math

import numpy as np
import pytest
from loop_functions import for_others, machine_code

import xpapply
from xpapply.backends.cpu import typed as backend
from xpapply.backends.cpu.typed import LANES, ONE, QUIET
from xpapply.codegen.llvm.target import TARGETS
from xpapply.codegen.llvm.typed import kernel, kernel_of_lanes
from xpapply.frontends.python.source.typed import Expected, Input, typed
from xpapply.functions.guards import Guards

RNG = np.random.default_rng(11)
needs_cpu = pytest.mark.skipif(backend.why_not() is not None, reason=str(backend.why_not()))


def ones(n, m):
    count = 0
    while n:
        n &= n - 1
        count += 1
    return count + m


def tripled(n, m):
    return 3 * n - m


def is_near(n, m):
    return abs(n - m) < 1000


def divided(n, m):
    return n // m


def both(x, y):
    if x > y:
        return x - y, True
    return x / y, False


def steps(x, y):
    k = 0
    while x < 4.0 and k < 50:
        x = x * x * 0.3 + y
        k += 1
    return k


def turned(x, y):
    return complex(x, y) * 1j


def logarithm(x, y):
    return math.log(x) + y


WHOLE, FLOATS = (ones, tripled, is_near, divided), (both, steps, turned, logarithm)


def made(f):
    a, b = (np.array([3.0, 2.0]) if f in FLOATS else np.array([3, 2])).tolist()
    result = f(a, b)
    parts = [np.asarray(p) for p in (result if isinstance(result, tuple) else (result,))]
    watch = Guards()
    watch.start(f)
    expected = [Expected(p.dtype.name, p.shape) for p in parts]
    kind = "float64" if f in FLOATS else "int64"
    return typed(f, [Input(0, True), Input(1, True)], {}, [kind, kind], expected, watch), parts


def numbers(f, n):
    if f in FLOATS:
        x, y = RNG.standard_normal((2, n)) + 1.5
        x[5::71], y[7::83] = -2.0, 0.0
        return x, y
    x, y = RNG.integers(0, 1 << 40, (2, n))
    x[5::71], y[7::83] = -(1 << 62), 0
    x[3::97] = (1 << 63) - 1
    return x, y


def layouts(x, y):
    """The same numbers, as they follow each other and otherwise: slices, steps, broadcast."""
    yield x, y
    yield np.repeat(x, 2)[::2], y
    yield x[::-1], y[::-1]
    yield x[: len(x) // 7 * 7].reshape(-1, 7)[:, :5], y[: len(x) // 7 * 7].reshape(-1, 7)[:, :5]
    yield x[: len(x) // 70 * 70].reshape(-1, 70), np.broadcast_to(y[:70], (len(x) // 70, 70))
    yield x[: len(x) // 90 * 90].reshape(-1, 90)[:, 3:80], y[:77].reshape(1, 77)


def check(f, compiled, parts, a, b, form):
    a, b = np.broadcast_arrays(a, b)
    outs = [np.full(a.shape, 77, p.dtype) for p in parts]
    marks = compiled.run([a, b], outs, a.ndim, form=form)
    for at in zip(*np.nonzero(marks == 0), strict=True):
        want = f(a[at].item(), b[at].item())
        for out, w in zip(outs, want if len(outs) > 1 else (want,), strict=True):
            np.testing.assert_array_equal(out[at], w)
    return marks == 0


@needs_cpu
@pytest.mark.parametrize("form", [ONE, QUIET, LANES])
@pytest.mark.parametrize("f", [*WHOLE, *FLOATS], ids=lambda f: f.__name__)
def test_wherever_numbers_lie(f, form):
    function, parts = made(f)
    compiled = backend.Compiled(function)
    with xpapply.options(threads=1):
        for a, b in layouts(*numbers(f, 413)):
            done = check(f, compiled, parts, a, b, form)
            assert done.mean() > 0.5
            in_rows = np.array(a), np.array(np.broadcast_to(b, a.shape))
            again = check(f, compiled, parts, *in_rows, form)
            np.testing.assert_array_equal(done, again)
    assert {near for _, near, _ in compiled._forms} == {True, False}


@pytest.mark.parametrize("f", [ones, both, turned], ids=lambda f: f.__name__)
@for_others
def test_for_other_processors(f, name):
    function, _ = made(f)
    for warns in (True, False):
        assert machine_code(kernel(function, TARGETS[name], warns=warns, side_by_side=True), name)
        text = kernel_of_lanes(function, TARGETS[name], 8, warns, False, True)
        assert machine_code(text, name)


@needs_cpu
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("f", [ones, divided, logarithm], ids=lambda f: f.__name__)
def test_no_marks_are_told_in_short(f, threads):
    """Of each slice that it alone is marked is noticed, wherever it is."""
    program, parts = made(f)
    compiled = backend.Compiled(program)
    good, bad = (5, 1), {ones: (-1, 1), divided: (5, 0), logarithm: (0, 1)}[f]
    dtype = "float64" if f in FLOATS else "int64"
    with xpapply.options(threads=threads):
        for count in (3, 130, 1237):
            arrays = [np.full(count, x, dtype) for x in good]
            outs = [np.zeros(count, p.dtype) for p in parts]
            for form in ("", ONE, LANES):
                found = compiled.run(arrays, outs, 1, form=form, short=True)
                assert found is None or not found.any()
                if form == ONE and f is not logarithm and count > 100:
                    assert found is None
                for k in {0, 1, 15, 16, 17, 63, 127, 128, 129, count - 1, count // 2}:
                    if k < count:
                        for x, wrong in zip(arrays, bad, strict=True):
                            x[k] = wrong
                        marks = compiled.run(arrays, outs, 1, form=form, short=True)
                        assert np.flatnonzero(marks).tolist() == [k]
                        for x, right in zip(arrays, good, strict=True):
                            x[k] = right

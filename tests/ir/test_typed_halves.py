"""Floats of 16 bits in typed functions."""

import math

import numpy as np
import pytest
from typed_parity import marked

from xpapply.backends.cpu import typed as backend
from xpapply.frontends.python.source.typed import Expected, Input, typed
from xpapply.functions.guards import Guards
from xpapply.ir.typed import Array

pytestmark = pytest.mark.skipif(backend.why_not() is not None, reason=str(backend.why_not()))
RNG = np.random.default_rng(6)


def slices(dtype):
    x = RNG.normal(size=(60, 6)) * 3
    x[10:20] *= 1000
    x[20:25] *= 1e-6
    x = x.astype(dtype)
    x[3, 2], x[5, 1], x[6, 0], x[7] = np.nan, np.inf, -0.0, 0
    return x


def arithmetic(v):
    s = v[0]
    for x in v:
        s = s * 0.5 + x
        if x > 0.3:
            s -= x / 3
        elif x:
            s += abs(-x) % 0.7
    return s


def powers(v):
    s = np.float16(0)
    for x in v:
        s = s + x**2 - abs(x) ** 0.5 + x // 2
    return s, math.exp(min(s, 5)), np.sqrt(abs(s)), np.isnan(s)


def arrays(v):
    w, kept = np.zeros(len(v), np.float16), []
    for k in range(len(v)):
        w[k] = v[k] * 1.001 + k
    for x in w:
        kept.append(x)
    return w * 2, np.exp(w), kept


def doubles(v):
    w = np.zeros(len(v), np.float16)
    for k, x in enumerate(v):
        w[k] = float(x) * 1.0009765
    return w


def mixed(v):
    s = 0
    for x in v:
        s = max(s, x)
        if x == 0.5 or x <= 1:
            s += 1
    return float(s) + int(v[0]) + round(v[1]), np.float16(v[2]) + v[3], np.float32(v[1]) * v[0]


@pytest.mark.parametrize("dtype", ["float16", "float64", "float32"])
@pytest.mark.parametrize("f", [arithmetic, powers, arrays, doubles, mixed])
def test_as_python(f, dtype):
    assert marked(f, slices(dtype)) == 0


@pytest.mark.parametrize("form", [backend.ONE, backend.LANES])
def test_doubles_are_rounded_once(form):
    """Those beside the middle of two halves, which a float in between would take for it."""

    def last(v):
        s = np.float16(0)
        for x in v:
            s = np.float16(x)
        return s

    half = np.arange(0, 0x7C00, dtype=np.uint16).view(np.float16).astype(float)
    middle = (half[1:] + half[:-1]) / 2
    near = [np.nextafter(middle, 0), middle, np.nextafter(middle, np.inf), half * (1 + 1e-9)]
    some = [65519.999999999, 65520.0, 1e300, 1e-300, 5e-324, 2.0**-25, 2.0**-25 * (1 + 1e-15)]
    x = np.concatenate([*near, some])
    x = np.concatenate([x, -x, [np.nan, np.inf]])
    with np.errstate(all="ignore"):
        want = x.astype(np.float16)
    too_large = np.isinf(want) & np.isfinite(x)
    guards = Guards()
    guards.start(last)
    kinds = [Array("float64", 1)], [Expected("float16", ())]
    made = typed(last, [Input(0)], {}, *kinds, guards)
    out = np.zeros(len(x), np.float16)
    marks = backend.Compiled(made).run([x[:, None].copy()], [out], 1, form=form)
    assert marks[too_large].all()
    if form == backend.ONE:
        np.testing.assert_array_equal(marks != 0, too_large)
    np.testing.assert_array_equal(out[marks == 0], want[marks == 0])


def test_the_quotient_of_a_remainder_may_be_too_large():
    def rest(v):
        x = 4
        x %= v[0]
        return x

    small = np.array([[6e-5], [6.2e-5], [0.7], [-6e-5], [3.0]], np.float16)
    assert marked(rest, small) == 0

"""Sums of counts, as of photons in pixels, are `uint64`, which meets Python's integers."""

import numpy as np
import pytest

import xpapply
from xpapply.backends.cpu import typed as backend

pytestmark = pytest.mark.skipif(backend.why_not() is not None, reason=str(backend.why_not()))
COUNTS = np.random.default_rng(0).poisson(1.0, (200, 40)).astype(np.uint16)
COUNTS[::7] = 0


def lifetime(c):
    early, late = c[:20].sum(), c[20:].sum()
    if early <= late or late == 0:
        return 0.0
    return 4.0 / np.log(early / late)


def in_a_loop(c):
    n = 0
    for k in range(len(c) - 4):
        s = c[k : k + 5].sum()
        if 3 < s <= 9:
            n += 1
        elif s > -1 and s != k:
            n -= 2
        if k >= s or k - 20 > s or -k < s:
            n += 5
        if s == np.int64(4) or np.uint8(2) > s or s == True:  # noqa: E712
            n += 100
    return n


def beyond(c):
    big = np.uint64(2**64 - 1) - c[0]
    n = 0
    for k in range(-3, 3):
        n += 10 * (big > k) + (big == k) + (k < big) * 3 + 7 * (big != -1) + (big < 2**62)
    return n


def at_the_ends(c):
    s = c.sum()
    return [s < -1, s <= -1, s > -1, s >= -1, s == -1, s != -1, s > -1, s >= 0, s >= 0, s < 1]


@pytest.mark.parametrize("f", [lifetime, in_a_loop, beyond, at_the_ends])
@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint64"])
def test_as_the_loop(f, dtype):
    arr = COUNTS.astype(dtype)
    with np.errstate(all="ignore"):
        loop = np.apply_along_axis(f, 1, arr)
        with xpapply.options(engine="cpu"):
            plan = xpapply.explain(f, 1, arr)
            found = xpapply.apply_along_axis(f, 1, arr)
    assert plan.engine == "cpu"
    assert found.dtype == loop.dtype
    if loop.dtype.kind == "f":
        np.testing.assert_allclose(found, loop, rtol=1e-14)
    else:
        np.testing.assert_array_equal(found, loop)

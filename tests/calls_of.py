"""How often a function is called: once per slice by the loop, a few times by anything faster.

Equal values alone do not say that: the loop, to which everything falls back, has them too.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import xpapply


class Calls:
    """A number that counts."""

    number = 0


def _codes(f: Any) -> set[Any]:
    """The code of `f`, behind partials, bound methods, NumPy's dispatchers and ``__call__``."""
    found = set()
    for x in (f, getattr(f, "func", None), getattr(f, "pyfunc", None), type(f).__call__):
        x = getattr(x, "__wrapped__", getattr(x, "__func__", x))
        found.add(getattr(x, "__code__", None))
    found.discard(None)
    assert found, f"{f!r} is not written in Python: nothing can be counted"
    return found


@contextmanager
def calls_of(f: Any) -> Iterator[Calls]:
    """Count the calls of `f` in this thread, traced ones included. `f` itself is not touched."""
    codes, calls = _codes(f), Calls()

    def profile(frame: Any, event: str, _: Any) -> None:
        calls.number += event == "call" and frame.f_code in codes

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        yield calls
    finally:
        sys.setprofile(before)


def assert_at_once(f: Any, axis: int, arr: Any, *args: Any, **kwargs: Any) -> np.ndarray:
    """`f` gives what NumPy's loop gives, and is not called once per slice. Returns the result."""
    want = np.apply_along_axis(f, axis, arr, *args, **kwargs)
    with calls_of(f) as calls:
        got = xpapply.apply_along_axis(f, axis, arr, *args, **kwargs)
    slices = arr.size // arr.shape[axis]
    assert calls.number < slices, f"{calls.number} calls for {slices} slices"
    assert type(got) is type(want)
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-300)
    return got


_SLICES = np.random.default_rng(0).random((200, 12))


def check(f, arr=_SLICES, axis=-1, *, exact=True, vectorized=True):
    """The loop's result, and a plan that is not the loop."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        want = np.apply_along_axis(f, axis, arr)
        plan = xpapply.explain(f, axis, arr)
    assert plan.vectorized == vectorized, str(plan)
    with warnings.catch_warnings(), xpapply.options(fallback="silent"):
        warnings.simplefilter("ignore")
        got = xpapply.apply_along_axis(f, axis, arr)
    after = xpapply.explain(f, axis, arr)
    assert after.vectorized == vectorized, str(after)  # it was not given up
    assert type(got) is type(want)
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    assert got.dtype.byteorder == want.dtype.byteorder
    if exact:
        np.testing.assert_array_equal(got, want)
    else:
        np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-12)


def outcome(call: Any) -> Any:
    """What a call returns or raises, with warnings ignored."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return call()
        except Exception as error:
            return error

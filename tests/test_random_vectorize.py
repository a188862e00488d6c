"""Random functions of several arrays give what numpy.vectorize gives, by every engine."""

import re
import warnings

import numpy as np
import pytest
from hypothesis import given, note
from hypothesis import strategies as st
from random_functions import FunctionOfSeveral
from thresholds import always_plan

import xpapply
from xpapply import testing
from xpapply.functions.cache import cache_of

WAYS = ("", "numpy", "cpu")
"""Whatever runs by itself, and the engines for arrays of NumPy."""


@pytest.fixture(scope="module", autouse=True)
def _always_plan():
    with pytest.MonkeyPatch.context() as patch:
        always_plan(patch)
        yield


def outcome(make, f, signature, arrays, engine=""):
    """The results or the exception, the arrays afterwards, and the categories of warnings."""
    arrays = [x.copy(order="K") if 0 not in x.strides else x for x in arrays]
    with (
        warnings.catch_warnings(record=True) as caught,
        xpapply.options(fallback="silent", engine=engine),
    ):
        warnings.simplefilter("always")
        try:
            found = make(f, signature=signature)(*arrays)
        except Exception as error:
            found = error
    return found, arrays, {w.category for w in caught}


def check(function, arrays):
    """Compare every engine with NumPy; returns why the loop ran, or what did."""
    f, g = function.make(), function.make()
    want, left, expected = outcome(np.vectorize, f, function.signature, arrays)
    for engine in WAYS:
        got, ours, warned = outcome(xpapply.vectorize, g, function.signature, arrays, engine)
        if engine and isinstance(got, xpapply.UnsupportedError):
            continue
        if isinstance(got, Exception) and not isinstance(want, Exception):
            raise AssertionError(f"engine {engine!r} raises {got!r}") from got
        for x, y in zip(ours, left, strict=True):
            np.testing.assert_array_equal(x, y)
        if isinstance(want, Exception):
            assert type(got) is type(want), f"engine {engine!r}: {want!r} became {got!r}"
            continue
        assert isinstance(got, tuple) == isinstance(want, tuple)
        pairs = zip(got, want, strict=True) if isinstance(want, tuple) else [(got, want)]
        for x, y in pairs:
            assert_same(x, y, function, arrays)
        assert warned <= expected, f"engine {engine!r} warns {warned - expected}"
    return next(iter(cache_of(g)[0].traced.values()), None)


def assert_same(got, want, function, arrays):
    assert type(got) is type(want)
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    if function.inexact and want.dtype.kind == "f":
        # some hundred last places of the largest number, or of products of numbers of the slices
        lowest = np.float32 if any(x.dtype == np.float32 for x in arrays) else np.float64
        eps = max(float(np.finfo(want.dtype).eps), float(np.finfo(lowest).eps))
        largest = max(np.abs(x[np.isfinite(x)].astype(float)).max(initial=1.0) for x in arrays)
        np.testing.assert_allclose(got, want, 500 * eps, 500 * eps * largest**2)
        return
    np.testing.assert_array_equal(got, want)
    signs = not re.search(r"max|min|sort|partition|median|percentile|quantile", function.source)
    if want.dtype.kind == "f" and signs:
        zero = want == 0
        np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(want[zero]))


@st.composite
def problems(draw, theme):
    """A function of several arrays, and these."""
    r = draw(st.randoms(use_true_random=False))
    function = FunctionOfSeveral.draw(r, theme)
    arrays = draw(
        testing.operands(
            function.signature,
            sizes=function.sizes,
            loop=r.choice([(17 + r.randrange(44),), (4 + r.randrange(4), 5 + r.randrange(3))]),
            dtypes=[[d] for d in function.dtypes],
            exponents=(0, 0),
            special=not function.inexact,
        )
    )
    return function, arrays


@pytest.mark.parametrize("theme", ["everything", "arithmetic", "branches"])
@given(data=st.data())
def test_functions_of_several_arrays(theme, data):
    function, arrays = data.draw(problems(theme))
    note(f"{function.signature}\n{function.source}")
    note([(x.dtype, x.shape, x.strides) for x in arrays])
    note(f"ran: {check(function, arrays)}")

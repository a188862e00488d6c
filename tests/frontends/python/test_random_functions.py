"""Random Python functions give what NumPy's loop gives, and most of them without the loop."""

import random
import re
import warnings

import numpy as np
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st
from random_functions import DTYPES, THEMES, Function, slices
from thresholds import always_plan

import xpapply
from xpapply.planning.python import python_functions
from xpapply.planning.python.running import Refused
from xpapply.runtime.budget import Budget

SAMPLE = min(1000, 5 * settings.default.max_examples)  # more with a deeper profile
CONTRADICTIONS = (
    "differs from one",
    "two runs of it differ",
    "traced it gives",
    "takes another path alone",
    "for all slices at once it raises",
)
"""Refusals after which the loop saved what a rule or the tracer had got wrong."""


@pytest.fixture(scope="module", autouse=True)
def _always_plan():
    with pytest.MonkeyPatch.context() as patch:
        always_plan(patch)
        yield


def outcome(apply, f, axis, arr):
    """The result or the exception, the array afterwards, and the categories of warnings."""
    arr = arr.copy(order="K")
    with warnings.catch_warnings(record=True) as caught, xpapply.options(fallback="silent"):
        warnings.simplefilter("always")
        try:
            result = apply(f, axis, arr)
        except Exception as error:
            result = error
    return result, arr, {w.category for w in caught}


def how(f):
    """What `f` was run by: its `traced.Traced`, or the reason for the loop; None: not known."""
    known, _ = python_functions.cache_of(f)
    return next((x for x in known.traced.values() if not isinstance(x, Budget)), None)


def check(function, axis, arr):
    """Compare with the loop; returns whether that raised, and how xpapply ran."""
    f, g = function.make(), function.make()
    want, left, expected = outcome(np.apply_along_axis, f, axis, arr)
    got, ours, warned = outcome(xpapply.apply_along_axis, g, axis, arr)
    if isinstance(got, Exception) and not isinstance(want, Exception):
        raise AssertionError(f"raises {got!r}") from got
    if isinstance(want, Exception):
        assert type(got) is type(want), f"{want!r} became {got!r}"
    else:
        # 0.0 and -0.0 are equal: which of them comes first depends on the lanes of the CPU
        signs = (
            re.search(r"max|min|sort|partition|median|percentile|quantile", function.source) is None
        )
        assert_same(got, want, function.inexact, arr, signs)
    np.testing.assert_array_equal(ours, left)
    raised = isinstance(want, Exception)
    if not raised:  # the loop does not come to the slices behind one that raises
        assert warned <= expected, f"warns {warned - expected}"
    return raised, how(g)


def assert_same(got, want, inexact, arr, signs=True):
    assert type(got) is type(want)
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    if inexact and want.dtype.kind == "f":
        assert_close(got, want, arr)
        return
    np.testing.assert_array_equal(got, want)
    if want.dtype.kind == "f" and signs:
        zero = want == 0
        np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(want[zero]))


def assert_close(got, want, arr):
    """Some hundred last places of the largest number, or of products of numbers of the slices."""
    lowest = np.float32 if arr.dtype == np.float32 else np.float64
    eps = max(float(np.finfo(want.dtype).eps), float(np.finfo(lowest).eps))
    numbers = np.abs(arr[np.isfinite(arr)].astype(float))
    largest = max(1.0, numbers.max(initial=0.0)) ** 2
    np.testing.assert_allclose(got, want, 500 * eps, 500 * eps * largest)


@st.composite
def problems(draw, theme, gpu=False):
    """A function, an axis and an array."""
    r = draw(st.randoms(use_true_random=False))
    return problem(r, theme, gpu)


def problem(r, theme, gpu=False):
    dtype = r.choice(DTYPES)
    length = 1 + r.randrange(9)
    function = Function.draw(r, length, dtype, theme, gpu)
    # CuPy has its own ways with NaN; sums that overflow depend on their order
    arr, axis = slices(r, length, dtype, 2 if gpu else 3 if function.inexact else 4)
    return function, axis, arr


def _check(given_problem):
    function, axis, arr = given_problem
    note(function.source)
    note(f"{arr.dtype}{arr.shape} along {axis}, strides {arr.strides}")
    _, ran = check(function, axis, arr)
    note(f"ran: {ran}")


@given(problems("arithmetic"))
def test_arithmetic(p):
    _check(p)


@given(problems("reductions"))
def test_reductions(p):
    _check(p)


@given(problems("indexing"))
def test_indexing_and_masks(p):
    _check(p)


@given(problems("branches"))
def test_branches(p):
    _check(p)


@given(problems("python"))
def test_builtins_and_math(p):
    _check(p)


@given(problems("everything"))
def test_everything(p):
    _check(p)


@pytest.mark.parametrize("theme", THEMES)
def test_most_are_vectorised(theme):
    """What the other tests compare is not the loop with itself."""
    fast, loops = 0, {}
    contradictions = []
    count = SAMPLE if theme == "everything" else SAMPLE // 5
    seed = 0
    while fast + sum(loops.values()) < count:
        function, axis, arr = problem(random.Random(f"{theme} {seed}"), theme)
        seed += 1
        raised, ran = check(function, axis, arr)
        if raised or ran is None:
            continue
        if not isinstance(ran, Refused) and not ran.looped:
            fast += 1
            continue
        why = getattr(ran, "why", "") or "some slices ran alone"
        loops[why] = loops.get(why, 0) + 1
        if any(c in why for c in CONTRADICTIONS):
            contradictions.append((why, function.source))
    assert not contradictions, "\n".join(f"{why}\n{source}" for why, source in contradictions)
    assert fast >= 0.8 * count, loops


# --- torch ------------------------------------------------------------------------------


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_torch(torch, device):
    """Functions that torch can run, of those for any library: as in the loop over tensors."""
    ran = []
    for seed in range(60):
        for theme in ("everything", "arithmetic", "branches"):
            function, axis, arr = problem(random.Random(f"torch {theme} {seed}"), theme, gpu=True)
            ran.append(_check_torch(torch.from_numpy(arr.copy()).to(device), function, axis))
    known = [x for x in ran if x is not None]
    assert len(known) > 20
    assert sum(known) >= 0.5 * len(known)


def _check_torch(arr, function, axis):
    """Whether it ran for all slices at once; None where the loop raises."""
    f = function.make(xpapply=xpapply)
    with warnings.catch_warnings(), xpapply.options(fallback="silent"):
        warnings.simplefilter("ignore")
        try:
            with xpapply.options(engine="loop"):
                want = xpapply.apply_along_axis(f, axis, arr)
        except Exception:
            return None  # torch has few of NumPy's methods
        f = function.make(xpapply=xpapply)
        got = xpapply.apply_along_axis(f, axis, arr)
        vectorized = xpapply.explain(f, axis, arr).vectorized
    assert (got.shape, got.dtype, got.device) == (want.shape, want.dtype, want.device)
    got, want = got.cpu().numpy(), want.cpu().numpy()
    if want.dtype.kind == "f":
        assert_close(got, want, arr.cpu().numpy())
    else:
        np.testing.assert_array_equal(got, want)
    return vectorized


# --- CuPy -----------------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.parametrize("theme", [t for t in THEMES if t != "python"])
def test_cupy(cupy, theme):
    """The same functions, in the namespace of the array, against CuPy's loop."""

    @given(problems(theme, gpu=True))
    def same(p):
        function, axis, arr = p
        note(function.source)
        _check_cupy(cupy, function, axis, arr)

    same()


@pytest.mark.gpu
def test_most_are_vectorised_for_cupy(cupy):
    ran = [
        _check_cupy(cupy, *problem(random.Random(seed), "everything", gpu=True))
        for seed in range(60)
    ]
    known = [x for x in ran if x is not None]
    assert len(known) > 30
    assert sum(known) >= 0.8 * len(known)


def _check_cupy(cupy, function, axis, arr):
    """Whether it ran for all slices at once; None where NumPy's loop or CuPy's raises."""
    f = function.make(xpapply=xpapply)
    by_numpy, _, _ = outcome(np.apply_along_axis, f, axis, arr)
    if isinstance(by_numpy, Exception):
        return None
    f = function.make(xpapply=xpapply)
    there = cupy.asarray(arr)
    with warnings.catch_warnings(), xpapply.options(fallback="silent"):
        warnings.simplefilter("ignore")
        try:
            want = cupy.apply_along_axis(f, axis, there).get()
        except Exception:
            return None  # not all of NumPy is in CuPy
        if not xpapply.explain(f, axis, there).vectorized:
            return False
        got = xpapply.apply_along_axis(f, axis, there)
    assert isinstance(got, cupy.ndarray)
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    got = got.get()
    if want.dtype.kind == "f":
        # CuPy sorts a slice by its bits: NaN with a sign, as 0 / 0 is there, comes first; along an
        # axis of an array it comes last, as with NumPy
        sorts = "sort" in function.source and (np.isnan(got) != np.isnan(want)).any()
        assert_close(got, by_numpy if sorts else want, arr)
    else:
        defined = _defined(function, axis, arr, want.dtype)
        if want.dtype.kind == "i":
            defined &= want != np.iinfo(want.dtype).min
        # where CuPy's loop gives the place of some NaN, xpapply gives that of the first
        different = defined & (got != want)
        np.testing.assert_array_equal(got[different], by_numpy[different])
    return True


def _defined(function, axis, arr, dtype):
    """Where NumPy's result is defined: NaN, infinities and large numbers as integers are not.

    The loop casts what a slice gives to the dtype that the first one gave.
    """
    f = function.make(xpapply=xpapply)

    def one(v):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = np.asarray(f(v))
        if any("invalid value encountered in cast" in str(w.message) for w in caught):
            return np.zeros(result.shape, bool)
        if result.dtype.kind != "f" or dtype.kind not in "iu":
            return np.ones(result.shape, bool)
        whole, info = np.trunc(result.astype(float)), np.iinfo(dtype)
        return (whole >= float(info.min)) & (whole < float(info.max) + 1)

    return np.apply_along_axis(one, axis, arr.copy(order="K"))


@pytest.mark.parametrize("dtype", ["uint8", "int32", "int64"])
def test_what_is_not_defined(dtype):
    arr = np.array([0, 1, 2, 3, 4, 5, 6, 7.0])[:, None] * np.ones(2)
    source = f"""
def f(v):
    if v[0] == 0:
        return np.array([1, 2]).astype(np.{dtype})
    return np.array([1, np.nan, np.inf, 1e300, -1e300, 200.9, -0.5])[int(v[0]) - 1] * v / v[0]
"""
    defined = _defined(Function(source, False, []), 1, arr, np.dtype(dtype))
    np.testing.assert_array_equal(defined[:, 0], [1, 1, 0, 0, 0, 0, 1, 1])
    np.testing.assert_array_equal(defined[:, 1], defined[:, 0])
    inside = "def f(v):\n    return (v / (v - 3)).astype(int)"
    with np.errstate(divide="ignore"):
        defined = _defined(Function(inside, False, []), 1, arr, np.dtype(dtype))
    np.testing.assert_array_equal(defined.all(1), arr[:, 0] != 3)

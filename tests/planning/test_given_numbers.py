"""Compiled functions with other numbers in each call: arguments, closures, globals, attributes."""

import functools
import math
import threading
import warnings

import numpy as np
import pytest

import xpapply
from xpapply.backends.cpu import compiler
from xpapply.backends.cpu import typed as backend
from xpapply.functions.cache import clear
from xpapply.limits import LIMITS

pytestmark = [
    pytest.mark.skipif(backend.why_not() is not None, reason=str(backend.why_not())),
    pytest.mark.usefixtures("by_source"),
]
RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 7))
X[3, 2], X[7, 1], X[9, 4] = np.nan, np.inf, 0.0
FLOATS = (0.3, 0.31, -0.5, 0.0, -0.0, math.inf, -math.inf, math.nan, 1e308, 5e-324, 2.0, 0.3)
INTS = (1, 2, 3, 0, -1, 7, 100, 2**62, -(2**63), 2**63, 2**70, 1)


@pytest.fixture
def made(monkeypatch):
    """How many texts were compiled."""
    clear()
    found = []
    own = compiler.compile
    monkeypatch.setattr(compiler, "compile", lambda *a, **k: found.append(1) or own(*a, **k))
    return found


def outcome(apply, f, *args, **kwargs):
    """The result with its bits, or the exception, and what was warned of."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            result = apply(f, 1, X, *args, **kwargs)
        except Exception as error:
            return type(error), str(error), ()
    told = {str(w.message) for w in said if w.category is not xpapply.FallbackWarning}
    plain = np.where(np.isnan(result), np.nan, result) if result.dtype.kind == "f" else result
    bits = repr(plain.tolist()) if result.dtype.hasobject else plain.tobytes()
    return result.dtype, result.shape, bits, tuple(sorted(told))


def agree(f, *args, **kwargs):
    got = outcome(xpapply.apply_along_axis, f, *args, **kwargs)
    assert got == outcome(np.apply_along_axis, f, *args, **kwargs), (args, kwargs)


def smoothed(v, k):
    s = 0.0
    for a in v:
        s = k * a + (1 - k) * s if a > s else s * 0.9
    return s


def divided(v, k):
    s = 0.0
    for a in v:
        if a > 0:
            s += a / k
        elif k > 0.5:  # decided while a constant is read
            s -= 1.0 / k
    return s


def either(v, k):
    n = 0
    for a in v:
        if a > k:
            n += 1
    return n if k > 0 else float(n)


def signs(v, k):
    s = k
    for a in v:
        s = max(s, a * k) if a < 1 else min(s, k)
    return math.copysign(1.0, s) + s


def powers(v, k):
    s = 0.0
    for a in v:
        if a > 0:
            s += a**k
    return s


def lagged(v, n):
    s = 0.0
    for i in range(n, len(v)):
        if v[i] > v[i - n]:
            s += v[i]
    return s


def counted(v, n):
    m = 0
    for a in v:
        m += n if a > 0 else -1
    return m


def local(v, n):
    kept = np.zeros(n)
    for i, a in enumerate(v):
        kept[i % n] += a
    return kept.max()


def path(v, k):
    out = np.empty(len(v))
    s = 0.0
    for i, a in enumerate(v):
        s = s + k * (a - s)
        out[i] = s
    return out


def pair(v, k, low=0.5):
    s = t = 0.0
    for a in v:
        if a > low:
            s += k * a
        else:
            t -= a / k
    return s, t


OF_FLOATS = (smoothed, divided, either, signs, powers, path, pair)
OF_INTS = (lagged, counted, local, powers, divided, either)


@pytest.mark.parametrize("f", OF_FLOATS)
@pytest.mark.parametrize("kind", [float, np.float64, np.float32])
def test_floats_in_turn(f, kind):
    for k in FLOATS:
        with np.errstate(over="ignore"):
            k = kind(k)
        agree(f, k)
        agree(f, k=k)


@pytest.mark.parametrize("f", OF_INTS)
def test_integers_in_turn(f):
    for n in INTS:
        if f is not local or n < 100:
            agree(f, n)


def test_types_in_turn():
    for k in (0.3, 1, np.float64(0.4), True, np.int64(2), 0.5, None, np.float32(0.3), False, 2, 1j):
        agree(smoothed, k)
    for k in (0.3, 0.4, True, False, 0.5, 2, 3, True, np.int8(3), np.int8(2), np.uint64(2), 0.6):
        agree(_closure(k))
        agree(_default(k))


def _closure(k):
    def f(v):
        s = 0.0
        for a in v:
            s = k * a + (1 - k) * s if a > s else s * 0.9
        return s

    return f


def _default(value):
    def f(v, k=value, *, n=3):
        s = 0.0
        for a in v:
            s = k * a + (n - k) * s if a > s else s * 0.9
        return s

    f.__kwdefaults__["n"] = value * 2
    return f


class Filter:
    def __init__(self, k):
        self.k = k

    def __call__(self, v):
        s = 0.0
        for a in v:
            s = self.k * a + (1 - self.k) * s if a > s else s * 0.9
        return s

    def method(self, v):
        s = 0.0
        for a in v:
            s = self.k * a + (1 - self.k) * s if a > s else s * 0.8
        return s


K = 0.3
PAIR = (0.3, 2.0)


def of_globals(v):
    s = 0.0
    for a in v:
        s = K * a + (PAIR[1] - PAIR[0]) * s if a > s else s * 0.9
    return s


def _set_globals(k):
    global K, PAIR
    K, PAIR = k, (k / 2, k)
    return of_globals


ONE = Filter(0.0)


def _set_attribute(k):
    ONE.k = k
    return ONE


def _set_of_method(k):
    ONE.k = k
    return ONE.method


MADE = {
    "closure": _closure,
    "lambda": lambda k: lambda v: smoothed(v, k),
    "default": _default,
    "partial": lambda k: functools.partial(smoothed, k=k),
    "partial of closure": lambda k: functools.partial(pair, low=k, k=2 * k),
    "globals": _set_globals,
    "attribute": _set_attribute,
    "method": _set_of_method,
    "object": Filter,
}


@pytest.mark.parametrize("make", MADE.values(), ids=MADE.keys())
def test_places_in_turn(make):
    for k in FLOATS:
        agree(make(k))
    for k in (1, 2.0, np.float64(3.0), 2**63, 4):
        agree(make(k))


@pytest.mark.parametrize(
    "name", ["closure", "default", "partial", "globals", "attribute", "method", "object"]
)
def test_a_third_number_compiles_nothing(name, made):
    make = MADE[name]
    with xpapply.options(engine="cpu"):
        for k in (0.3, 0.4):
            agree(make(k))
        if name in ("default", "globals"):  # more of them change
            agree(make(0.45))
        known = len(made)
        for k in (0.5, 0.6, -1.0, math.nan):
            agree(make(k))
    assert len(made) == known


@pytest.mark.parametrize("f", [smoothed, path, either])
def test_a_third_argument_compiles_nothing(f, made):
    with xpapply.options(engine="cpu"):
        for k in (0.3, 0.4):
            agree(f, k)
        known = len(made)
        for k in (0.5, 0.6, 0.7, 0.3):
            agree(f, k)
    assert len(made) == known


def test_numbers_that_stay_are_constants(made):
    """Each that changes is given from then on, and no other."""
    with xpapply.options(engine="cpu"):
        agree(pair, 0.3, 0.5)
        agree(pair, 0.4, 0.5)
        agree(pair, 0.4, 0.6)
        known = len(made)
        for k in (0.1, 0.2, 0.9):
            agree(pair, k, 1 - k)
    assert len(made) == known


def test_threads_have_numbers_of_their_own():
    wanted = {k: np.apply_along_axis(smoothed, 1, X, k) for k in np.linspace(0.1, 0.9, 16).tolist()}
    wrong = []

    def go(some):
        for _ in range(20):
            for k in some:
                mine = _closure(k)
                for got in (
                    xpapply.apply_along_axis(smoothed, 1, X, k),
                    xpapply.apply_along_axis(mine, 1, X),
                ):
                    if not np.array_equal(got, wanted[k], equal_nan=True):
                        wrong.append(k)

    keys = [*wanted]
    threads = [threading.Thread(target=go, args=(keys[n::4],)) for n in range(4)]
    with np.errstate(all="ignore"):
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    assert not wrong


def test_vectorize_with_other_numbers():
    def f(a, b, k=0.3):
        while a > k:
            a = a * 0.5 - b * k
        return a

    for k in FLOATS[:7]:
        if k > 0:
            for excluded in ({}, {"excluded": {"k"}}):
                want = np.vectorize(f, **excluded)(X[:, 0], abs(X[:, 4]), k=k)
                got = xpapply.vectorize(f, **excluded)(X[:, 0], abs(X[:, 4]), k=k)
                np.testing.assert_array_equal(got, want)


def test_plans_say_that_numbers_are_given():
    with xpapply.options(engine="cpu"):
        for k in (0.3, 0.4, 0.5):
            agree(smoothed, k)
        plan = xpapply.explain(smoothed, 1, X, 0.5)
        again = xpapply.explain(smoothed, 1, X, 0.6)
    for p in (plan, again):
        assert "k given" in str(p)
    assert "given" not in str(xpapply.explain(smoothed, 1, X, 1))
    np.testing.assert_array_equal(plan(X), np.apply_along_axis(smoothed, 1, X, 0.5))
    np.testing.assert_array_equal(again(X), np.apply_along_axis(smoothed, 1, X, 0.6))


def test_plans_of_a_closure_that_changes():
    def make():
        k = 0.3

        def f(v):
            s = 0.0
            for a in v:
                s = s * k + a if a > 0 else s - k
            return s

        def put(x):
            nonlocal k
            k = x

        return f, put

    f, put = make()
    for x in (0.3, 0.4, 0.5, 0.6):
        put(x)
        plan = xpapply.explain(f, 1, X)
        np.testing.assert_array_equal(plan(X), np.apply_along_axis(f, 1, X))


def test_long_runs_have_constants(made):
    """Where folding may save more than compiling takes."""
    for k in (0.3, 0.4, 0.5, 0.5, 0.5):
        agree(smoothed, k)
    known = len(made)
    with LIMITS.set(typed_given=1e9):
        agree(smoothed, 0.6)
        assert len(made) > known
    known = len(made)
    agree(smoothed, 0.7)
    assert len(made) == known


def test_a_partial_of_a_function_is_another_function():
    """Its places are others."""

    def made(k):
        def f(v, more=0.0):
            s = more
            for a in v:
                s = k * a + s if a > s else s * 0.9
            return s

        return f

    x = RNG.normal(size=(200, 7))
    for k in (0.5, 0.25, 0.125):
        for g in (made(k), functools.partial(made(k), more=k), functools.partial(made(k))):
            with xpapply.options(engine="cpu"):
                got = xpapply.apply_along_axis(g, 1, x)
            np.testing.assert_array_equal(got, np.apply_along_axis(g, 1, x))

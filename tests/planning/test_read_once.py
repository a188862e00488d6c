"""What waits until compiling pays is not read before: only who asks for a reason needs that."""

import bisect
import functools

import numpy as np
import pytest

import xpapply
from xpapply.backends.cpu import typed as backend
from xpapply.functions.cache import clear
from xpapply.limits import LIMITS
from xpapply.planning.python import python_functions, typed_loop, unplanned

pytestmark = pytest.mark.skipif(backend.why_not() is not None, reason=str(backend.why_not()))
integrate = pytest.importorskip("scipy.integrate")
X = np.linspace(0.0, 1.0, 2000)


@pytest.fixture
def readings(monkeypatch):
    """What was read, or compiled at once, in a process that has loaded what plans."""
    found = []
    for name in ("read", "made"):
        own = getattr(typed_loop, name)
        monkeypatch.setattr(
            typed_loop, name, lambda *given, own=own: found.append(own.__name__) or own(*given)
        )
    assert python_functions.__name__ == unplanned._PLANS
    # what conftest leaves out
    clear()
    with LIMITS.set(first_loops=1e-9, plan_worth=0.0, typed_worth=0.85, vectorize_unknown=0):
        yield found


def integral(a, x):
    return integrate.quad(lambda s: a * s * s, 0.0, x)[0]


def through_a_helper(x):
    return 2.0 * integral(1.0, x)


def in_a_loop(x):
    total = 0.0
    for a in (1.0, 2.0):
        total += integral(a, x)
    return total


def halvings(x):
    k = 0
    while x > 1e-3:
        x, k = x / 2, k + 1
    return k


class Scaled:
    def __init__(self, by):
        self.by = by

    def value(self, x):
        return self.by * integral(1.0, x)


@pytest.mark.parametrize(
    "f",
    [functools.partial(integral, 2.0), through_a_helper, in_a_loop, Scaled(2).value],
    ids=["partial", "helper", "loop", "method"],
)
def test_what_waits_is_read_for_a_reason_alone(readings, f):
    """Calls price it before they read it, and say truly that it waits."""
    with LIMITS.set(typed_compiling=1e6), xpapply.options(fallback="silent"):
        for _ in range(4):
            got = xpapply.vectorize(f)(X)
        assert readings == []
        said = [str(xpapply.vectorize(f).explain(X)) for _ in range(2)]
    assert np.array_equal(got, np.vectorize(f)(X))
    assert all("once loops have taken" in text for text in said)
    assert readings == ["read"]


@pytest.mark.filterwarnings("always::xpapply.FallbackWarning")
def test_calls_say_that_it_waits(readings):
    with LIMITS.set(typed_compiling=1e6):
        with pytest.warns(xpapply.FallbackWarning, match="if it can be"):
            xpapply.vectorize(through_a_helper)(X)
        for _ in range(3):
            xpapply.vectorize(through_a_helper)(X)
    assert readings == []


def test_it_is_compiled_once_loops_have_taken_its_price(readings):
    f = lambda x: integral(1.0, x)  # noqa: E731
    with LIMITS.set(typed_short_solver=0.2), xpapply.options(fallback="silent"):
        got = xpapply.vectorize(f)(X)
        assert readings == []
        for _ in range(1000):
            if readings:
                break
            xpapply.vectorize(f)(X)
    assert readings == ["read", "made"]
    assert np.array_equal(got, np.vectorize(f)(X))


def test_a_first_loop_that_is_longer_than_compiling_is_not_looped_over(readings):
    """It ends after the first of its calls, which are not made again."""

    with LIMITS.set(typed_compiling=0.0, typed_per_byte=0.0, llvm_loading=0.0, typed_loading=0.0):
        got = xpapply.vectorize(halvings)(np.linspace(0.5, 1.0, 20_000))
    assert readings == ["made"]  # what its first calls gave is known
    assert got.dtype == int


def test_names_tell_what_reading_takes():
    optimize = pytest.importorskip("scipy.optimize")
    plain = unplanned.price(halvings)
    assert unplanned.price(lambda v: bisect.bisect(v, 0.5)) < plain + 0.02
    assert unplanned.price(lambda v: optimize.bisect(np.cos, 0, v)) > plain
    assert unplanned.price(lambda v: optimize.curve_fit(np.cos, v, v)) > 1
    assert unplanned.price(through_a_helper) > plain + 0.5
    find = optimize.least_squares
    assert unplanned.price(lambda v: find(np.cos, v)) > 1  # a name of a function around it

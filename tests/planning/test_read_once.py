"""What waits until compiling pays is not read before: only who asks for a reason needs that."""

import bisect
import functools
import os
import subprocess
import sys

import numpy as np
import pytest

import xpapply
from xpapply.backends.cpu import typed as backend
from xpapply.functions.cache import clear
from xpapply.limits import LIMITS
from xpapply.planning.python import python_functions, typed_results, unplanned

pytestmark = pytest.mark.skipif(backend.why_not() is not None, reason=str(backend.why_not()))
integrate = pytest.importorskip("scipy.integrate")
X = np.linspace(0.0, 1.0, 2000)
FREE = dict.fromkeys(
    ("typed_compiling", "typed_per_byte", "llvm_loading", "typed_loading", "typed_page"), 1e-6
)
"""Prices of what costs nothing."""


@pytest.fixture
def readings(monkeypatch):
    """What was read, or compiled at once, in a process that has loaded what plans."""
    found = []
    for name in ("read", "made"):
        own = getattr(typed_results, name)
        monkeypatch.setattr(
            typed_results, name, lambda *given, own=own: found.append(own.__name__) or own(*given)
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
    assert readings in (["read", "made"], ["made"])  # on a busy machine one loop takes as long
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
    within = unplanned.price(lambda v: optimize.curve_fit(np.cos, v, v, bounds=(0, 1)))
    assert within > unplanned.price(lambda v: optimize.curve_fit(np.cos, v, v)) + 0.2
    shortest = unplanned.price(lambda v: optimize.minimize(np.cos, v))
    assert unplanned.price(lambda v: optimize.minimize(np.cos, v, method="Powell")) < shortest - 0.4


IN_A_PROCESS = """
import numpy as np, xpapply
from scipy.integrate import quad

def area(x):
    return quad(lambda t: t * t, 0.0, x)[0]

def halved(v):
    while v > 1.0:
        v = 0.5 * v
    return v

with xpapply.options(engine="cpu"):
    xpapply.vectorize(area)(np.arange(9.0))
    xpapply.vectorize(halved)(np.arange(9.0))
"""


def area(x):
    return integrate.quad(lambda t: t * t, 0.0, x)[0]


def test_what_reading_takes_is_noted_beside_the_machine_code(tmp_path):
    """Of dear functions alone: what is short costs no look at the disk."""
    script = tmp_path / "script.py"
    script.write_text(IN_A_PROCESS)
    env = os.environ | {"XPAPPLY_CACHE_DIR": str(tmp_path)}
    subprocess.run([sys.executable, str(script)], env=env, check=True)
    files = [*(tmp_path / "kernels").iterdir()]
    assert len(files) == 3
    assert sum(x.stat().st_size < 100 for x in files) == 1


def test_its_price_is_what_another_process_noted(monkeypatch, tmp_path):
    other = lambda x: integrate.quad(lambda t: t + t, 0.0, x)[0]  # noqa: E731
    monkeypatch.setenv("XPAPPLY_CACHE_DIR", str(tmp_path))
    before, price = unplanned._earlier, unplanned.price
    try:
        before.cache_clear()
        dear = price(area)
        unplanned.note(area, 0.1)
        assert price(area) == dear  # this one compiles it
        before.cache_clear()
        assert price(area) == pytest.approx(0.1 * LIMITS.typed_written)
        assert abs(price(other) - dear) < 0.1
        unplanned.note(area, 0.05)  # once is enough
        before.cache_clear()
        assert price(area) == pytest.approx(0.1 * LIMITS.typed_written)
    finally:
        before.cache_clear()


def boxed(x):
    class Box:
        value = x

    return Box.value * 2


def digits(x):
    return len(str(int(x * 1000)))


def test_what_is_no_loop_is_not_read_before_it_is_known_what_it_takes(readings):
    """A trace is refused: what a slice takes is known only from the loop."""
    with LIMITS.set(typed_compiling=1e6), xpapply.options(fallback="silent"):
        for _ in range(2):
            got = xpapply.vectorize(boxed)(X[:300])
            xpapply.vectorize(digits)(X)
    assert readings == []
    assert np.array_equal(got, np.vectorize(boxed)(X[:300]))


def test_a_first_loop_without_loops_in_it_that_is_long_is_compiled(readings):
    def f(x):
        return x * x - 1.0 if x > 0.7 else 2.0 * x

    x = np.linspace(0.5, 1.0, 50_000)
    with LIMITS.set(**FREE, trace_steps=1), xpapply.options(fallback="silent"):
        got = xpapply.vectorize(f)(x)
    assert readings == ["made"]  # what its first calls gave is known
    assert np.array_equal(got, np.vectorize(f)(x))


def rounds(v):
    total, text = 0.0, ""
    for x in v:
        if x > 0.5:
            total += x
        else:
            text += str(int(10 * x))
    return total + len(text)


def test_what_is_dearer_than_it_looked_is_read_again_once_loops_have_taken_that(readings):
    """Not in the same call, and not at every further one."""
    rows = np.random.default_rng(0).random((4000, 6))
    with LIMITS.set(**FREE, typed_per_instruction=1e3), xpapply.options(fallback="silent"):
        for _ in range(3):
            got = xpapply.apply_along_axis(rounds, 1, rows)
            assert readings == ["made"]
    assert np.array_equal(got, np.apply_along_axis(rounds, 1, rows))


def test_texts_are_a_page_however_they_are_made():
    plain = unplanned.price(halvings)
    for f in (lambda x: str(x), lambda x: repr(x), lambda x: format(x, ".2f"), lambda x: f"{x}"):
        assert unplanned.price(f) > plain + 0.02

"""Loops that choose texts run compiled, and their results are as long as NumPy's loop has them."""

import numpy as np
import pytest

import xpapply
from xpapply.backends.cpu import typed as backend

RNG = np.random.default_rng(3)

pytestmark = [
    pytest.mark.skipif(backend.why_not() is not None, reason=str(backend.why_not())),
    pytest.mark.usefixtures("by_source"),
]
NAMES = ("low", "middling", "high", "z")
CODES = {"up": 1, "down": -1, "flat": 0}
BACK = {0: "flat", 1: "rises", -1: "falls"}
LEVELS = {"low": 1.5, "high": 2.5, "middling": 0.0, "z": 3.0}


def level(v):
    s = 0.0
    for x in v:
        s += x
    return "high" if s > 3 else "low" if s > 0 else ""


def states(v):
    label, n = "a", 0
    for x in v:
        if label == "a":
            label = "bb" if x > 0 else "a"
        elif x < -1:
            label = "a"
        n += label in ("bb", "c")
    return label if n > 3 else "none at all"


def named(v):
    n = 0
    for x in v:
        n += x > 0
    return NAMES[n % 4]


def trend(v):
    state, t, k = "flat", 0, 0
    for x in v:
        state = "up" if x > 0.5 else "down" if x < -0.5 else state
        t += CODES[state]
        k += x > 0
    name = NAMES[k % 4]
    if name == "low" or len(name) > 4:
        t += 10
    return BACK[0 if t == 0 else 1 if t > 0 else -1]


def pair(v):
    n = 0
    for x in v:
        n += x > 0
    return "abcd"[n % 4], "x" if n > 2 else "yy"


def looked_up(v):
    n = 0
    for x in v:
        n += x > 0
    w = NAMES[n % 4]
    t = LEVELS[w] + (w < "m") * 10 + (w in "middling high") * 100
    t += (w == NAMES[(n + 1) % 3]) * 1000 + CODES.get(w, 7)
    return t + 5 if w else t


def early(v):
    for x in v:
        if x > 1:
            return "big"
    return "no"


@pytest.mark.parametrize(
    "f", [level, states, named, trend, pair, looked_up, early], ids=lambda f: f.__name__
)
def test_as_the_loop(f):
    arr = RNG.normal(size=(300, 7))
    widths = set()
    for first in (0, 1, 2, 5, 9):  # the first slice says how long texts are
        want = np.apply_along_axis(f, -1, arr[first:])
        with xpapply.options(engine="cpu"):
            for _ in range(2):
                got = xpapply.apply_along_axis(f, -1, arr[first:])
                assert got.dtype == want.dtype
                np.testing.assert_array_equal(got, want)
            plan = xpapply.explain(f, -1, arr[first:])
        assert "one compiled loop" in plan.kernels[0]
        widths.add(str(got.dtype))
    assert len(widths) > 1 or f is looked_up or f is trend


WORDS = ["low", "high"]
SAID = {0: "a", 1: "b"}


def test_texts_that_change_between_calls_are_noticed():
    def listed(v):
        n = 0
        for x in v:
            n += x > 0
        return WORDS[n % 2], SAID[n % 2]

    arr = RNG.normal(size=(60, 5))
    for _ in range(3):
        want = np.apply_along_axis(listed, -1, arr)
        with xpapply.options(engine="cpu"):
            got = xpapply.apply_along_axis(listed, -1, arr)
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)
        WORDS[0] += "er"
        SAID[1] += "!"


def test_a_key_that_is_not_there_is_the_functions_own():
    def f(v):
        n = 0
        for x in v:
            n += x > 0
        return CODES[("up", "down", "sideways")[n % 3]]

    arr = RNG.normal(size=(50, 6))
    arr[0] = -1.0
    with pytest.raises(KeyError, match="sideways"), xpapply.options(engine="cpu"):
        xpapply.apply_along_axis(f, -1, arr)


def test_slices_with_another_kind_of_result_are_the_functions_own():
    """NumPy makes a text of the number."""

    def f(v):
        for x in v:
            if x > 2:
                return 5
        return "none"

    arr = RNG.normal(size=(400, 6))
    arr[0] = 0.0
    want = np.apply_along_axis(f, -1, arr)
    assert "5" in want
    with xpapply.options(engine="cpu"):
        got = xpapply.apply_along_axis(f, -1, arr)
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)


def test_complex_results_and_elements():
    def f(v):
        s = 0j
        for z in v:
            s = s * z + 1 if z.real > 0 else s - abs(z)
        return s

    arr = RNG.normal(size=(200, 6)) + 1j * RNG.normal(size=(200, 6))
    want = np.apply_along_axis(f, 0, arr)
    with xpapply.options(engine="cpu"):
        got = xpapply.apply_along_axis(f, 0, arr)
        assert "one compiled loop" in xpapply.explain(f, 0, arr).kernels[0]
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)

    def escape(c):
        z = 0j
        for n in range(30):
            if z.real * z.real + z.imag * z.imag > 4:
                return n
            z = z * z + c
        return 30

    with xpapply.options(engine="cpu"):
        got = xpapply.vectorize(escape)(arr)
    np.testing.assert_array_equal(got, np.vectorize(escape)(arr))


def grade(x, y):
    n = 0
    for k in range(3):
        if x * k > y:
            n += 1
    return ("low", "medium", "high", "very high")[n]


def two(x, y):
    s = "a"
    for k in range(3):
        if x > k:
            s = "bbb" if s == "a" else "cccccc"
    return s, k * x


def number_or_text(x, y):
    for k in range(3):
        if x > 2.5:
            return 5
        if x > k:
            return "some"
    return "n"


@pytest.mark.parametrize("f", [grade, two, number_or_text], ids=lambda f: f.__name__)
@pytest.mark.parametrize("said", [False, True])
def test_vectorize_has_texts_as_long_as_the_longest(f, said):
    x, y = RNG.normal(size=(2, 500))
    otypes = None if not said else [str, float] if f is two else [str]
    for n in (500, 20, 3):
        want = np.vectorize(f, otypes=otypes)(x[:n], y[:n])
        with xpapply.options(engine="cpu"):
            called = xpapply.vectorize(f, otypes=otypes)
            for _ in range(3):
                got = called(x[:n], y[:n])
                for a, b in zip(want, got, strict=True) if f is two else [(want, got)]:
                    assert a.dtype == b.dtype
                    np.testing.assert_array_equal(a, b)
            assert "one compiled loop" in called.explain(x[:n], y[:n]).kernels[0]


def test_a_text_that_is_put_together():
    def f(x):
        for k in range(3):
            if x > k:
                return f"{x:.1f}"
        return ""

    x, called = RNG.normal(size=2000), xpapply.vectorize(f)
    np.testing.assert_array_equal(called(x), np.vectorize(f)(x))
    assert "one compiled loop" in called.explain(x).kernels[0]

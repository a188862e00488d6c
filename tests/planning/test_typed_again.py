"""Repeated calls of compiled loops: what is remembered of one has to hold for the next."""

import numpy as np
import pytest
from in_threads import in_threads

import xpapply
from xpapply.backends.cpu import typed as backend
from xpapply.functions.cache import cache_of
from xpapply.planning.python.ready import Ready

pytestmark = [
    pytest.mark.skipif(backend.why_not() is not None, reason=str(backend.why_not())),
    pytest.mark.usefixtures("by_source"),
]

LEVEL = 0.5


@pytest.fixture(autouse=True)
def compiled():
    with xpapply.options(engine="cpu"):
        yield


def above(v):
    n = 0.0
    for x in v:
        if x > LEVEL:
            n += x
    return n


def inverse(v):
    s = 0.0
    for x in v:
        s += 1.0 / x
    return s


def counts(level):
    def f(v):
        n = 0
        for x in v:
            n += x > level
        return n

    return f


def both(f, arr, axis=-1):
    got = xpapply.apply_along_axis(f, axis, arr)
    np.testing.assert_array_equal(got, np.apply_along_axis(f, axis, arr), strict=True)


def odd(arr):
    """The same numbers where no element is aligned."""
    memory = np.zeros(arr.nbytes + 1, np.uint8)[1:]
    moved = memory.view(arr.dtype).reshape(arr.shape)
    moved[...] = arr
    return moved


def test_arrays_that_lie_in_other_ways():
    arr = np.random.default_rng(0).random((40, 30, 6))
    ways = [arr, arr[::2], arr[::-1], arr[:, ::3], arr[1:], arr.copy("F"), arr[:, :, ::-1]]
    ways += [arr.transpose(1, 0, 2), np.broadcast_to(arr[:1], arr.shape), arr[:7], arr[:7, :5]]
    for _ in range(3):
        for x in ways:
            both(above, x)
            both(above, x, 0)
    with xpapply.options(engine=""):
        for x in (odd(arr), arr):
            both(above, x)


def test_what_changes_between_calls_is_seen(monkeypatch):
    arr = np.random.default_rng(0).random((200, 10))
    for level in (0.5, 0.5, 0.25, 0.75, 0.75):
        monkeypatch.setitem(globals(), "LEVEL", level)
        both(above, arr)
        f = xpapply.vectorize(above, signature="(n)->()")
        np.testing.assert_array_equal(f(arr), np.apply_along_axis(above, 1, arr))
    for level in (0.1, 0.1, 0.6):
        both(counts(level), arr)


def test_the_error_state_is_asked_for_in_each_call():
    arr = np.random.default_rng(0).random((200, 10)) + 0.5
    both(inverse, arr)
    arr[7, 3] = 0.0
    for _ in range(2):
        with pytest.warns(RuntimeWarning, match="divide by zero"):
            xpapply.apply_along_axis(inverse, 1, arr)
        with np.errstate(divide="ignore"):
            both(inverse, arr)
        with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
            xpapply.apply_along_axis(inverse, 1, arr)
    arr[7, 3] = 1.0
    both(inverse, arr)


def test_results_and_marks_of_a_call_are_its_own():
    rng = np.random.default_rng(0)
    arrays = [rng.random((300, 10)) for _ in range(4)]
    want = [np.apply_along_axis(above, 1, x) for x in arrays]
    first = xpapply.apply_along_axis(above, 1, arrays[0])
    xpapply.apply_along_axis(above, 1, arrays[1])
    np.testing.assert_array_equal(first, want[0])
    wrong = []

    def work(k):
        with xpapply.options(engine="cpu", threads=1 + k % 2):
            for _ in range(50):
                found = xpapply.apply_along_axis(above, 1, arrays[k])
                if not np.array_equal(found, want[k]):
                    wrong.append(k)

    in_threads(work, range(4))
    assert not wrong


def digits(n):
    found = 0
    while n:
        n //= 10
        found += 1
    return found


def part(n):
    k = 0
    while n > 9:
        n //= 10
        k += 1
    return n / 2 if k > 2 else n


@pytest.mark.parametrize("f", [digits, part], ids=lambda f: f.__name__)
def test_no_call_tells_a_dtype_that_is_known(f, monkeypatch):
    """Of a loop whose results are of one dtype; else the first slice's says of which all are."""
    asked, was = [], Ready._as_before
    monkeypatch.setattr(
        Ready, "_as_before", lambda self, f, given: asked.append(f) or was(self, f, given)
    )
    arr = np.random.default_rng(2).integers(1, 99999, 3000)
    with xpapply.options(engine=""):
        for k in range(12):
            now = np.roll(arr, k)
            got, want = xpapply.vectorize(f)(now), np.vectorize(f)(now)
            np.testing.assert_array_equal(got, want, strict=True)
    assert [type(x) for x in cache_of(f)[0].ready.values()] == [Ready]
    assert bool(asked) == (f is part)

"""Look-ups in dicts, lists and sets of the user: tables, with the exceptions of the loop."""

import enum

import numpy as np
import pytest

import xpapply


class Phase(enum.IntEnum):
    SOLID = 1
    LIQUID = 2
    GAS = 3


NEAR = {3: 1.5, 4: 2.5, 9: 4.0, -2: -0.0}
FAR = {10**9 * k: k * k for k in range(-20, 20)}
OF_PHASES = {Phase.SOLID: 917, Phase.LIQUID: 1000, Phase.GAS: 1}
TRUTHS = {0: False, 1: True, 2: True}
SINGLE = {k: np.float32(k / 3) for k in range(30)}
WEIGHTS = [1.0, 0.5, 0.25, 0.125]
LONG = [k * k % 101 for k in range(300)]
CHOSEN = {2, 3, 5, 7, 11}
KEYS = np.array([3, 4, 9, -2, 9, 3] * 200)
rng = np.random.default_rng(0)


def caught(k):
    try:
        return NEAR[k]
    except KeyError:
        return -1.0


FUNCTIONS = {
    "near": (lambda k: NEAR[k], KEYS),
    "far": (lambda k: FAR[k], 10**9 * rng.integers(-20, 20, 900)),
    "method": (NEAR.get, KEYS),
    "default": (lambda k: NEAR.get(k, 7.0), rng.integers(-9, 12, 900)),
    "default of far ones": (lambda k: FAR.get(k, 5), rng.integers(-9, 12, 900)),
    "default of another class": (lambda k: NEAR.get(k, 7) * 2.0, rng.integers(-9, 12, 900)),
    "caught": (caught, rng.integers(-9, 12, 900)),
    "enum": (lambda k: OF_PHASES[k], rng.integers(1, 4, 900)),
    "truths": (lambda k: TRUTHS[k], rng.integers(0, 3, 900)),
    "NumPy's numbers": (lambda k: SINGLE[k], rng.integers(0, 30, 900)),
    "list": (lambda k: WEIGHTS[k], rng.integers(-4, 4, 900)),
    "long list": (lambda k: LONG[k] + 0.5, rng.integers(-300, 300, 900)),
    "small integers": (lambda k: LONG[k], rng.integers(-128, 127, 900).astype(np.int8)),
    "in a set": (lambda k: k in CHOSEN, rng.integers(0, 20, 900)),
    "in a dict": (lambda k: 1 if k in NEAR else 0, rng.integers(-9, 20, 900)),
    "truth as a key": (lambda k: TRUTHS[k > 3], rng.integers(0, 9, 900)),
    "float as a key": (lambda k: TRUTHS[k], rng.integers(0, 3, 900) * 1.0),
    "extremes": (lambda k: NEAR.get(k, 0.0), np.array([-(2**62), 2**52, 3, 4] * 99)),
}


def same(got, want):
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)
    if want.dtype.kind == "f":
        np.testing.assert_array_equal(np.signbit(got), np.signbit(want))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_look_ups(name):
    f, keys = FUNCTIONS[name]
    want = np.vectorize(f)(keys)
    v = xpapply.vectorize(f)
    for _ in range(4):
        same(v(keys), want)


@pytest.mark.parametrize("name", ["near", "far", "default", "list", "long list", "in a set"])
def test_they_run_at_once(name):
    f, keys = FUNCTIONS[name]
    with xpapply.options(fallback="raise"):
        same(xpapply.vectorize(f)(keys), np.vectorize(f)(keys))


@pytest.mark.parametrize("name", ["near", "default", "list", "long list", "in a set"])
def test_they_are_kernels(name):
    pytest.importorskip("llvmlite")
    f, keys = FUNCTIONS[name]
    with xpapply.options(engine="cpu"):
        same(xpapply.vectorize(f)(keys), np.vectorize(f)(keys))


@pytest.mark.parametrize("name", ["get", "set", "dict"])
def test_nan_as_a_key(name):
    """Which is equal to nothing: such slices were on no path, and their results never written."""
    whole = {0: 1, 1: 7, 2: 3}
    f = {
        "get": lambda k: whole.get(k, -5),
        "set": lambda k: k in {1.0, float("nan")},
        "dict": lambda k: k in whole,
    }[name]
    keys = rng.integers(0, 4, 2000) * 1.0
    keys[[5, 70, 1900]] = np.nan
    want, v = np.vectorize(f)(keys), xpapply.vectorize(f)
    for _ in range(4):
        same(v(keys), want)
    slices = np.repeat(keys[:, None], 3, axis=1)
    same(xpapply.apply_along_axis(lambda u: f(float(u[0])), 1, slices), want)


def test_in_slices():
    x = rng.integers(0, 300, (500, 6))
    for f in (lambda v: LONG[v[0]] + LONG[v[1]], lambda v: SINGLE[v[2] % 30] * v.sum()):
        for _ in range(4):
            same(xpapply.apply_along_axis(f, 1, x), np.apply_along_axis(f, 1, x))


@pytest.mark.parametrize(
    ("f", "good", "bad", "error", "text"),
    [
        (lambda k: NEAR[k], 3, 5, KeyError, "5"),
        (lambda k: FAR[k], 0, 77, KeyError, "77"),
        (lambda k: WEIGHTS[k], 1, 4, IndexError, "list index out of range"),
        (lambda k: LONG[k], 1, -301, IndexError, "list index out of range"),
    ],
)
def test_what_is_not_there_raises_as_in_the_loop(f, good, bad, error, text):
    keys = np.full(900, good)
    v = xpapply.vectorize(f)
    for _ in range(3):
        v(keys)
    keys = keys.copy()
    keys[[500, 700]] = bad
    with pytest.raises(error, match=text) as info:
        v(keys)
    assert "500" in info.value.__notes__[0]


def test_changes_between_calls_are_noticed():
    table, row = {0: 1.0, 1: 2.0}, [5, 6]
    keys = rng.integers(0, 2, 2000)
    one, other = (lambda k: table[k]), (lambda k: row[k])
    v, w = xpapply.vectorize(one), xpapply.vectorize(other)
    for number in range(6):
        table[number % 2], row[number % 2] = 10.0 * number, 7 * number
        same(v(keys), np.vectorize(one)(keys))
        same(w(keys), np.vectorize(other)(keys))
    table[2] = 8.0
    keys = rng.integers(0, 3, 2000)
    same(v(keys), np.vectorize(one)(keys))
    del table[2]
    with pytest.raises(KeyError):
        v(np.full(2000, 2))

"""Functions of Python's numbers, on all elements at once: what `numpy.vectorize` gives."""

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import xpapply
from xpapply import backends

ENGINES = ["numpy", "cpu" if backends._llvmlite_is_installed() else ""]
SPECIAL = np.array(
    "0 -0 .5 -.5 1.5 -1.5 2.5 nan inf -inf 1e300 -1e300 4503599627370497 9007199254740992 "
    "0.49999999999999994 -0.001 0.005 -0.005 1e-320 2.675 1.005".split(),
    float,
)
NUMBERS = st.floats() | st.integers(-4000, 4000).map(lambda k: k / 1000)


def compare(f, *operands, engine, rtol=0.0):
    """The same numbers, dtype and signs of zeros, computed by this engine."""
    with np.errstate(all="ignore"):  # which reads flags that Python's arithmetic leaves behind
        want = np.vectorize(f)(*operands)
    with xpapply.options(engine=engine):
        for _ in range(1 if engine else 3):
            got = xpapply.vectorize(f)(*operands)
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got, want, rtol=rtol)
    if got.dtype.kind == "f":
        ordinary = ~np.isnan(want)
        np.testing.assert_array_equal(np.signbit(got)[ordinary], np.signbit(want)[ordinary])


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("digits", [0, 1, 2, 3, 10, 15])
def test_round(digits, engine):
    x = np.concatenate([np.random.default_rng(0).normal(size=500), SPECIAL])
    compare(lambda v: round(v, digits), x, engine=engine)


@pytest.mark.filterwarnings("ignore:overflow encountered in multiply")  # NumPy's own round warns
@given(x=st.lists(NUMBERS, min_size=20, max_size=40), digits=st.integers(0, 15))
@example(x=[1.797693134862316e307] + [0.0] * 19, digits=1)
@example(x=[0.285] * 20, digits=2)
@example(x=[0.25, 0.35, -0.25, 0.5] * 5, digits=1)
def test_random_numbers_are_rounded(x, digits):
    for engine in ENGINES:
        compare(lambda v: round(v, digits), np.array(x), engine=engine)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "f",
    [int, round, math.floor, math.ceil, lambda v: int(v * 3) + 1, lambda v: int(v) if v > 0 else 0],
    ids=lambda f: f.__name__,
)
def test_whole_numbers(f, engine):
    x = np.concatenate([np.random.default_rng(0).normal(size=500) * 9, SPECIAL])
    compare(f, x[abs(x) < 1e15], engine=engine)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("odd", [math.nan, math.inf])
def test_what_is_no_whole_number_raises(odd, engine):
    x = np.ones(500)
    x[321] = odd
    with pytest.raises((ValueError, OverflowError)) as raised:
        np.vectorize(int)(x)
    with xpapply.options(engine=engine), pytest.raises(raised.type, match=str(raised.value)):
        xpapply.vectorize(int)(x)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("ufunc", [np.trunc, np.rint])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.filterwarnings("ignore:overflow encountered in cast")
def test_ufuncs_that_make_whole(ufunc, dtype, engine):
    rows = np.concatenate([np.random.default_rng(0).normal(size=500), SPECIAL]).astype(dtype)
    rows = np.stack([rows, rows / 2, rows + 1], 1)

    def f(v):
        return ufunc(v) * v.dtype.type(1)

    want = np.apply_along_axis(f, 1, rows)
    with xpapply.options(engine=engine):
        got = xpapply.apply_along_axis(f, 1, rows)
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got), np.signbit(want))


@pytest.mark.parametrize("engine", ENGINES)
def test_floats_as_integers(engine):
    """Those that do not fit are NumPy's affair, its warning too."""
    rows = np.random.default_rng(0).normal(size=(500, 3)) * 99

    def f(v):
        return v.astype(np.int64).sum()

    want = np.apply_along_axis(f, 1, rows)
    with xpapply.options(engine=engine):
        np.testing.assert_array_equal(xpapply.apply_along_axis(f, 1, rows), want)
        rows[77, 1] = np.inf
        with pytest.warns(RuntimeWarning, match="invalid value encountered in cast"):
            got = xpapply.apply_along_axis(f, 1, rows)
    with pytest.warns(RuntimeWarning, match="invalid value encountered in cast"):
        np.testing.assert_array_equal(got, np.apply_along_axis(f, 1, rows))


# --- % and // -----------------------------------------------------------------------------------

FLOATS = [
    *(0.0, 1.0, 0.5, 0.1, 3.0, 7.0, 360.0, 1e300, 1e-310, 1e-250, np.inf, np.nan, 2.0**53),
    *(2.0**52 - 1, 1 - 2**-53, 1 + 2**-52, 0.3),
]
INTEGERS = [0, 1, 5, 100, 2**52 - 1, 2**52, 2**53]
DIVISIONS = {
    "%": lambda a, b: a % b,
    "//": lambda a, b: a // b,
    "divmod": lambda a, b: sum(divmod(a, b)),
}


def _pairs(numbers):
    numbers = [s * x for x in numbers for s in (1, -1)]
    pairs = [(a, b) for a in numbers for b in numbers if b != 0]
    return [np.array(x) for x in zip(*pairs, strict=True)]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("f", DIVISIONS.values(), ids=DIVISIONS)
def test_divisions_of_floats(f, engine):
    compare(f, *_pairs(FLOATS), engine=engine)
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 900)) * [[100], [1]]
    compare(f, a, b, engine=engine)
    whole = b * rng.choice([3, -7, 1e6], 900)  # quotients beside whole numbers
    compare(f, whole, b, engine=engine)
    compare(f, np.nextafter(whole, 0), b, engine=engine)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("f", DIVISIONS.values(), ids=DIVISIONS)
def test_divisions_of_integers(f, engine):
    rng = np.random.default_rng(0)
    a, b = rng.integers(-(10**6), 10**6, 900), rng.integers(1, 999, 900)
    unlike = _pairs(INTEGERS)
    compare(f, np.r_[a, unlike[0], 2**62], np.r_[b, unlike[1], -3], engine=engine)


@given(st.lists(st.tuples(st.floats(), st.floats().filter(bool)), min_size=5, max_size=20))
@settings(max_examples=max(8, settings().max_examples // 2))
def test_random_divisions(pairs):
    usual = np.random.default_rng(0).normal(size=(60, 2))
    a, b = np.concatenate([usual, np.array(pairs)]).T
    for engine in ENGINES:
        for f in DIVISIONS.values():
            compare(f, a, b, engine=engine)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "f",
    [
        lambda k: (k >> 2) & 15,
        lambda k: k // 100 + (k % 100) / 60,
        lambda k: k % 4 == 0 and (k % 100 != 0 or k % 400 == 0),
        lambda k: (k / 7 + 180) % 360 - 180,
        lambda k: k / 7 // -0.25,
        lambda k: 7 % (k * 2 + 1),
    ],
)
def test_divisions_by_numbers(f, engine):
    compare(f, np.arange(-1000, 1000), engine=engine)


@pytest.mark.parametrize("engine", ENGINES)
def test_divisions_of_what_is_rounded(engine):
    compare(lambda k: math.sin(k) % 0.7, np.arange(-1000, 1000), engine=engine, rtol=1e-12)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("zero", [0, 0.0])
def test_divisions_by_zero_raise(zero, engine):
    b = np.full(500, zero) + 1
    b[321] = 0
    for f in DIVISIONS.values():
        with pytest.raises(ZeroDivisionError) as raised:
            np.vectorize(f)(b + 1, b)
        with xpapply.options(engine=engine), pytest.raises(ZeroDivisionError) as found:
            xpapply.vectorize(f)(b + 1, b)
        assert str(found.value) == str(raised.value)


# --- math ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "f",
    [math.erf, math.erfc, lambda x: 0.5 * (1 + math.erf(x / math.sqrt(2)))],
    ids=["erf", "erfc", "normal cdf"],
)
def test_error_functions(f, engine):
    pytest.importorskip("scipy")
    x = np.concatenate([np.random.default_rng(0).normal(size=500) * 2, SPECIAL])
    compare(f, x, engine=engine, rtol=1e-13)


def test_gcd():
    rng = np.random.default_rng(0)
    a, b = rng.integers(-60, 60, (2, 500))
    compare(math.gcd, a, b, engine="numpy")
    compare(lambda k: math.gcd(k, 12, 2**40), a, engine="numpy")
    a[77] = 2**62
    compare(lambda k: k // math.gcd(k, 12), a, engine="numpy")


# --- powers -------------------------------------------------------------------------------------


def compare_or_raise(f, *operands, engine, rtol=0.0):
    """The same results, or the same exception; where this engine cannot, another one may."""
    with np.errstate(all="ignore"):  # for both: the loop warns before it raises
        want = outcome(np.vectorize(f), *operands)
        with xpapply.options(engine=engine):
            for _ in range(1 if engine else 3):
                got = outcome(xpapply.vectorize(f), *operands)
        if isinstance(got, xpapply.UnsupportedError):
            with xpapply.options(fallback="silent"):
                got = outcome(xpapply.vectorize(f), *operands)
    if isinstance(want, Exception):
        assert (type(got), str(got)) == (type(want), str(want))
        return
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got, want, rtol=rtol)


def outcome(call, *operands):
    """What a call returns, or raises."""
    try:
        return call(*operands)
    except Exception as error:
        return error


POWERS = {
    "x ** y": lambda x, y: x**y,
    "2.718 ** x": lambda x, y: 2.718**x,
    "abs(x) ** y": lambda x, y: abs(x) ** y,
    "x ** 0": lambda x, y: x**0,
    "x ** 1": lambda x, y: x**1,
    "x ** 2": lambda x, y: x**2 + y**2.0,
    "x ** 3": lambda x, y: (x - y) ** 3,
    "x ** 7": lambda x, y: x**7,
    "x ** -2": lambda x, y: (x + y) ** -2,
    "x ** 0.5": lambda x, y: x**0.5,
    "x ** 1.7": lambda x, y: abs(x) ** 1.7,
    "x ** -1.7": lambda x, y: x**-1.7 if x > 0 else y,
    "sin(x) ** 2": lambda x, y: math.sin(x) ** 2 if abs(x) < 9 else 0.0,
    "a branch": lambda x, y: x**2 if y > 0 else 2.0**y if y > -9 else x,
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("f", POWERS.values(), ids=POWERS)
def test_powers(f, engine):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 900)) * 3
    compare_or_raise(f, x, y, engine=engine, rtol=1e-14)
    compare_or_raise(f, abs(x), y, engine=engine, rtol=1e-14)
    compare_or_raise(f, x, rng.integers(-3, 5, 900), engine=engine, rtol=1e-14)
    compare_or_raise(
        f, abs(x), rng.choice([0.5, 2.0, -1.0, 0.0, 3.0], 900), engine=engine, rtol=1e-14
    )


@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=4))
def test_random_powers(pairs):
    usual = np.random.default_rng(0).uniform(0.1, 3, size=(60, 2))
    x, y = np.concatenate([usual, np.array(pairs)]).T
    for engine in ENGINES:
        for f in POWERS.values():
            compare_or_raise(f, x, y, engine=engine, rtol=1e-14)


WHOLE_POWERS = {
    "k ** 0": lambda j, k: k**0,
    "k ** 2": lambda j, k: k**2 - j**2,
    "k ** 5": lambda j, k: k**5,
    "k ** -1": lambda j, k: k**-1,
    "2 ** k": lambda j, k: 2**k,
    "j ** k": lambda j, k: j**k,
    "(j > 0) ** k": lambda j, k: (j > 0) ** k,
    "1.5 ** k": lambda j, k: 1.5**k,
    "a shift": lambda j, k: j << k,
}


@given(
    st.lists(
        st.tuples(st.integers(-(2**60), 2**60) | st.integers(-9, 9), st.integers(-4, 70)),
        min_size=1,
        max_size=4,
    )
)
def test_random_powers_of_integers(pairs):
    rng = np.random.default_rng(0)
    usual = np.stack([rng.integers(1, 9, 60), rng.integers(0, 9, 60)], 1)
    j, k = np.concatenate([usual, np.array(pairs)]).T
    for engine in ENGINES:
        for f in WHOLE_POWERS.values():
            compare_or_raise(f, j, k, engine=engine, rtol=1e-14)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_power_that_decides(engine):
    x = np.r_[np.random.default_rng(0).uniform(0, 3, 900), 2.0**0.5, 2.0, 4.0]
    compare(lambda v: 1 if math.exp(v) ** 2.5 > 9 else 0, x, engine=engine)
    compare(lambda v: 1 if 2.0**v >= 4 else 0, x, engine=engine)
    compare(lambda v: v**0.5 // 1, x**2, engine=engine)


# --- decisions ----------------------------------------------------------------------------------

DECISIONS = {
    "hat": lambda x, y: max(0.0, 1 - abs(x)) + min(y, 0.5),
    "steps": lambda x, y: 1 if x > y else -1 if x < -y else 0,
    "constants": lambda x, y: 2.5 if x * y > 0 else -0.0,
    "the number itself": lambda x, y: x if 0 < x < y else -9999.0,
    "products": lambda x, y: 0.5 * x * x if abs(x) <= y else y * (abs(x) - 0.5 * y),
    "guards": lambda x, y: math.sqrt(x) / y if x >= 0 and y else x - y,
    "whole numbers": lambda x, y: int(x) if abs(x) < 100 else 7,
    "truths": lambda x, y: (x > 0) == (y > 0) if abs(x) > 0.5 else x < y,
    "an exponential": lambda x, y: 1 / (1 + math.exp(-x)) if y > 0 else math.exp(x) + 1,
    "what two share": lambda x, y: (x + y) * 2 if x + y > 0 else (x + y) * 3 if y > 0 else x + y,
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("f", DECISIONS.values(), ids=DECISIONS)
def test_decisions(f, engine):
    x, y = np.random.default_rng(0).normal(size=(2, 4000)).round(2)
    compare_or_raise(f, x, y, engine=engine, rtol=1e-14)
    compare_or_raise(f, np.r_[x, SPECIAL], np.r_[y, SPECIAL[::-1]], engine=engine, rtol=1e-14)
    compare_or_raise(f, x.astype("f4")[::3], y.reshape(-1, 1)[:7], engine=engine, rtol=1e-14)
    compare_or_raise(f, (x * 9).astype(int), y, engine=engine, rtol=1e-14)


@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=6))
def test_random_numbers_decide(pairs):
    usual = np.random.default_rng(0).normal(size=(60, 2)).round(1)
    x, y = np.concatenate([usual, np.array(pairs)]).T
    for engine in ENGINES:
        for f in DECISIONS.values():
            compare_or_raise(f, x, y, engine=engine, rtol=1e-14)

"""Functions of Python numbers inside a function of slices: all of `math` and `cmath`, and more."""

import bisect
import cmath
import math
import operator
import statistics

import numpy as np
import pytest
from calls_of import check
from hypothesis import given
from hypothesis import strategies as st

import xpapply

RNG = np.random.default_rng(1)
A = RNG.random((150, 6)) + 0.01

ARGUMENTS = {
    "acosh": lambda v: (v[0] + 1,),
    "comb": lambda v: (int(v[0] * 9), int(v[1] * 4)),
    "copysign": lambda v: (v[0], v[1] - 0.5),
    "dist": lambda v: (v[:3], v[3:]),
    "factorial": lambda v: (int(v[0] * 9),),
    "fma": lambda v: (v[0], v[1], v[2]),
    "fsum": lambda v: (v,),
    "gcd": lambda v: (int(v[0] * 90), int(v[1] * 90)),
    "isqrt": lambda v: (int(v[0] * 900),),
    "lcm": lambda v: (int(v[0] * 9), int(v[1] * 9), 4),
    "ldexp": lambda v: (v[0], int(v[1] * 9)),
    "perm": lambda v: (int(v[0] * 9), 2),
    "prod": lambda v: ([v[0], v[1], 2.0],),
    "sumprod": lambda v: ([v[0], v[1]], [v[2], v[3]]),
    "isclose": lambda v: (v[0], v[1]),
    "rect": lambda v: (v[0], v[1]),
}
"""Of functions that do not take one number."""

TWO = frozenset("atan2 fmod hypot nextafter pow remainder".split())


def arguments(module, name):
    """The function that makes the arguments out of a slice."""
    if name in ARGUMENTS:
        return ARGUMENTS[name]
    if name in TWO:
        return lambda v: (v[0], v[1])
    return (lambda v: (complex(v[0], v[1]),)) if module is cmath else (lambda v: (v[0],))


def members(module):
    for name in sorted(vars(module)):
        if not name.startswith("_"):
            yield pytest.param(module, name, id=f"{module.__name__}.{name}")


@pytest.mark.parametrize(("module", "name"), [*members(math), *members(cmath)])
def test_every_member(module, name):
    member = getattr(module, name)
    if not callable(member):
        check(lambda v: v * member, A, exact=True)
        return
    given = arguments(module, name)
    check(lambda v: member(*given(v)), A * 0.9, exact=False)


@pytest.mark.parametrize(
    "f",
    [
        lambda v: complex(v[0], v[1]),
        lambda v: complex(v[0]),
        lambda v: complex(real=v[0], imag=2),
        lambda v: complex(v[0], v[1]) * 2 + 1,
        lambda v: complex(v[0], v[1]) ** 2 / (1 + complex(v[2])),
        lambda v: abs(complex(v[0], v[1])),
        lambda v: -complex(v[0], v[1]).conjugate(),
        lambda v: complex(v[0], v[1]).imag + float(v[0]).imag,
        lambda v: complex(v[0], v[1]) == complex(v[0], v[1]),
        lambda v: v.astype(np.float32) * complex(v[0], 1),
        lambda v: 1j * v[0],
        lambda v: 1j * float(v[0]),
        lambda v: math.modf(v[0]),
        lambda v: math.frexp(v[0])[0],
        lambda v: math.hypot(*v),
        lambda v: math.prod(v),
        lambda v: math.fsum(v[v > 0.5]),
        lambda v: round(float(v[0]), 2),
        lambda v: int(v[0] * 9).numerator,
        lambda v: int(v[0] * 100).bit_length(),
        lambda v: 2.0 ** int(v[0] * 5),
        lambda v: statistics.median(v),
        lambda v: statistics.stdev(v.tolist()),
        lambda v: statistics.fmean([v[0], v[1], 3]),
        lambda v: bisect.bisect([0.2, 0.5, 0.8], v[0]),
        lambda v: bisect.bisect_left([0.2, 0.5, 0.8], v.max()),
        lambda v: operator.add(complex(v[0]), v[1]),
    ],
)
def test_python_numbers(f):
    check(f, A)


def test_logarithms_to_a_base():
    """By NumPy's log, whose last digit is another one than C's where the CPU has AVX-512."""
    check(lambda v: math.log(v[0], 2), A, exact=False)


def test_python_numbers_raise_as_in_the_loop():
    data = A.copy()
    data[70, 0] = -1.0
    with pytest.raises(ValueError, match=r"math domain error|expected a"):
        xpapply.apply_along_axis(lambda v: math.gamma(v[0]), -1, data)


def test_python_numbers_may_be_caught():
    def f(v):
        try:
            return math.lgamma(v[0])
        except ValueError:
            return -9.0

    data = A.copy()
    data[70, 0] = 0.0
    check(f, data, exact=False)


def test_large_integers_stay_in_the_loop():
    data = A.copy()
    data[:, 0] = 0.1
    data[77, 0] = 0.99

    def f(v):
        return math.factorial(int(v[0] * 22)) / 2

    want = np.apply_along_axis(f, -1, data)
    with xpapply.options(fallback="silent"):
        np.testing.assert_array_equal(xpapply.apply_along_axis(f, -1, data), want)


# --- look-ups: slices part by what they look up -------------------------------------------------

NAMES = {0: 1.5, 1: 2.5, 2: 4.0}


@pytest.mark.parametrize(
    "f",
    [
        lambda v: {True: 1, False: 2}[bool(v[0] > 0.5)],
        lambda v: {True: 1, False: 2}[v[0] > 0.5],
        lambda v: NAMES[int(v[0] * 2.9)],
        lambda v: NAMES.get(int(v[0] * 5), -1.0),
        lambda v: NAMES[v[:3].argmax()] + v[0],
        lambda v: [10.0, 20.0, 30.0][int(v[0] * 2.9)],
        lambda v: {k: k * 2 for k in range(6)}[v.argmax()],
        lambda v: v.argmax() in {1, 2, 3},
        lambda v: {1.0: 2.0, 0.0: 3.0}.get(np.floor(v[0] * 2), 9.0),
        lambda v: {"0": 1, "1": 2, "2": 3}[str(int(v[0] * 2.9))],
        lambda v: {"k0": 1, "k1": 2, "k2": 3}[f"k{int(v[0] * 2.9)}"],
        lambda v: {(0, 0): 1, (0, 1): 2, (1, 0): 3}.get((int(v[0] * 2), int(v[1] * 2)), 4),
        lambda v: len(set((v * 3).astype(int))),
        lambda v: len(set((v * 3).astype(int).tolist())),
        lambda v: len(set(v)),
        lambda v: sorted(set((v * 3).astype(int)))[0],
        lambda v: len({*(v[:2] * 3).astype(int)}),
        lambda v: 2 in set((v * 3).astype(int)),
        lambda v: bool(set((v[:2] * 2).astype(int)) & {1}),
        lambda v: set((v[:2] * 2).astype(int)) == {0, 1},
        lambda v: len(set()) + v[0],
    ],
)
def test_look_ups(f):
    check(f, A)


def test_a_set_of_nan_counts_each():
    data = A.copy()
    data[5, :3] = np.nan
    check(lambda v: len(set(v)), data)


def test_a_text_of_anything_stays_in_the_loop():
    check(lambda v: len(str(v[0])), A, vectorized=False)
    check(lambda v: hash(v[0]) % 7, A, vectorized=False)
    digits = (A * 9).astype(int)
    check(lambda v: int("".join(map(str, [*v, *v]))) % 7, digits, vectorized=False)


# --- complex numbers ----------------------------------------------------------------------------

COMPLEX = {
    "sums": lambda z, w: (z + w) - 2 * (w - 1.5) + (1 - z) - 2j,
    "products": lambda z, w: z * w * 1.5 - 3 * z + (1j * w) * (2 - 1j),
    "quotients": lambda z, w: z / w + 2 / (w + 3) - z / (1 - 2j),
    "powers": lambda z, w: z**2 + w**3 - (z * w) ** 5.0,
    "other powers": lambda z, w: z**-1 + w**0.5 + 2**z + z**w,
    "modulus": lambda z, w: abs(z) + abs(w - 1) + abs(-z) + abs(+w),
    "parts": lambda z, w: z.real * w.imag - (z * w).imag + z.conjugate().imag + (w + 1j).real,
    "equal": lambda z, w: z == w or z * 1 != z or w == 1.0,
    "decisions": lambda z, w: z * w if abs(z) > abs(w) else (z - w if z.real > 0 else 0j),
    "truth": lambda z, w: z.real if z - w else 7.0,
    "made": lambda z, w: complex(z.real, w.imag) * complex(imag=z.imag, real=2) + complex(w),
    "functions": lambda z, w: cmath.exp(z / (1 + abs(z))) * cmath.sqrt(w) - cmath.phase(z * w),
    "in a list": lambda z, w: sum([z, w, 1]),
}
ROUNDED = {"modulus": 2e-15}
"""hypot, of which a kernel has a form of its own."""
PARTS = st.floats() | st.integers(-3, 3).map(float)


def alike(f, *operands, rtol=0.0):
    """What the loop gives to the last bit, or raises; NaN is NaN whatever its sign.

    `rtol`: of what kernels, and the passes of a graph, compute in their own way.
    """

    def outcome(call):
        try:
            with np.errstate(all="ignore"):
                return call(f)(*operands)
        except Exception as error:
            return error

    want = outcome(np.vectorize)
    with xpapply.options(fallback="silent"):
        got = outcome(xpapply.vectorize)
    if isinstance(want, Exception):
        assert (type(got), str(got)) == (type(want), str(want))
        return
    assert got.dtype == want.dtype
    for a, b in ((got.real, want.real), (got.imag, want.imag)):
        if rtol:
            np.testing.assert_allclose(a, b, rtol)
            continue
        if got.dtype.kind != "b":
            a, b = (np.where(np.isnan(x), np.nan, x).view(np.int64) for x in (a * 1.0, b * 1.0))
        np.testing.assert_array_equal(a, b)


@given(st.lists(st.tuples(PARTS, PARTS, PARTS, PARTS), min_size=1, max_size=5))
def test_random_complex_numbers(odd):
    usual = np.random.default_rng(0).normal(size=(40, 4)).round(1)
    a, b, c, d = np.concatenate([usual, np.array(odd)]).T
    z, w = a.astype(complex), c.astype(complex)
    z.imag, w.imag = b, d
    for name, f in COMPLEX.items():
        rtol = ROUNDED.get(name, 0.0)
        alike(f, z, w, rtol=rtol)
        alike(lambda p, q, f=f: f(complex(p, q), complex(q, 1)), a, b, rtol=rtol)


@pytest.mark.parametrize("name", COMPLEX)
def test_complex_numbers(name):
    f, rtol = COMPLEX[name], ROUNDED.get(name, 0.0)
    rng = np.random.default_rng(0)
    a, b, c, d = rng.normal(size=(4, 400)).round(1)
    alike(f, a + 1j * b, c + 1j * d, rtol=rtol)
    alike(lambda p, q: f(complex(p), complex(q, p)), a, b, rtol=rtol)
    alike(lambda p, q: f(complex(p, q), 0.5), a, b, rtol=rtol)


def escape_time(x, y):
    c = z = complex(x, y)
    for k in range(20):
        if abs(z) > 2:
            return k
        z = z * z + c
    return 20


def test_loops_over_complex_numbers_run_at_once():
    x, y = np.random.default_rng(0).uniform(-2, 1, (2, 5000))
    with xpapply.options(fallback="raise"):
        got = xpapply.vectorize(escape_time)(x, y)
    np.testing.assert_array_equal(got, np.vectorize(escape_time)(x, y))
    assert xpapply.vectorize(escape_time).explain(x, y).vectorized


@pytest.mark.parametrize("large", [1e200, 1.7e308])
def test_a_modulus_that_overflows_raises(large):
    z = np.full(300, 1 + 1j)
    z[77] = complex(large, large)
    alike(abs, z)
    alike(lambda v: abs(v * v) + v.real, z)

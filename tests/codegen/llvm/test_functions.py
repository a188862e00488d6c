"""Functions of floats in LLVM's text: how far they are off, and their special values."""

import host_llvm
import numpy as np
import pytest

from xpapply.codegen.llvm import functions

TARGET = pytest.mark.parametrize("target", host_llvm.HOST)
DTYPE = pytest.mark.parametrize("dtype", ["float32", "float64"])
WIDER = {"float32": "float64", "float64": "longdouble"}

LIMITS = {
    "exp": 1.1,
    "expm1": 2,
    "log": 1,
    "log1p": 1.5,
    "log2": 2,
    "log10": 1.5,
    "tanh": 4,
    "sinh": 2,
    "cosh": 2,
    "sin": 3,
    "cos": 3,
    "tan": 4,
    "arctan": 2.5,
    "arctan2": 2.5,
    "power": 1.5,
}
"""The largest error in units in the last place, by NumPy's names."""
NAMES = {"arctan": "atan", "arctan2": "atan2", "power": "pow"}


@pytest.fixture(autouse=True)
def silent():
    with np.errstate(all="ignore"):
        yield


def numbers(dtype, seed=0):
    """All bit patterns alike, every power of two with its neighbours, and usual numbers."""
    rng = np.random.default_rng(seed)
    info, bits = np.finfo(dtype), 8 * np.dtype(dtype).itemsize
    count = 1_000_000 if dtype == "float32" else 100_000
    anything = rng.integers(0, 1 << bits, count, f"uint{bits}", endpoint=False).view(dtype)
    exponents = np.arange(info.minexp - info.nmant, info.maxexp)
    powers = np.ldexp(np.ones(1, dtype), exponents).astype(dtype)
    edges = [np.nextafter(powers, np.array(to, dtype)) for to in (0, np.inf)]
    usual = [rng.normal(size=20_000) * scale for scale in (0.1, 1, 10, 100)]
    usual += [1 + rng.normal(size=20_000) * 0.01, rng.uniform(-1, 1, 20_000) * info.maxexp]
    found = np.concatenate([powers, *edges, *usual]).astype(dtype)
    return np.concatenate([anything, found, -found])


SPECIAL = [0.0, 1.0, 0.5, 2.0, 3.0, 2.5, 1e300, 1e30, 1e-30, 1e-40, 1e-310, np.inf, np.nan]


def special(dtype):
    x = np.array(SPECIAL).astype(dtype)
    return np.concatenate([x, -x])


def errors(got, want):
    """In units in the last place of `want`, of a wider dtype; infinite where one is not finite."""
    near = want.astype(got.dtype)
    same = (got == near) | (np.isnan(got) & np.isnan(near))
    unit = np.spacing(np.abs(near)).astype(want.dtype)
    apart = np.abs(got.astype(want.dtype) - want) / unit
    return np.where(same & ~np.isfinite(near), 0, np.where(np.isnan(apart), np.inf, apart))


def written(name, dtype, target, operands=1):
    form = getattr(functions, NAMES.get(name, name))
    lanes = target.bits // (8 * np.dtype(dtype).itemsize)

    def body(writer, *given):
        return [form(writer, *given)]

    f = host_llvm.elementwise(body, [dtype] * operands, [dtype], target, lanes)
    return lambda *arrays: f(*arrays)[0]


def check(f, want, arrays, limit):
    found = errors(f(*arrays), want)
    worst = int(np.argmax(found))
    assert found[worst] <= limit, (found[worst], [x[worst] for x in arrays], want[worst])


def check_special(f, want, arrays):
    """NaN, infinities and signs as NumPy has them, but for the sign of NaN."""
    got = f(*arrays)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    np.testing.assert_array_equal(np.isinf(got), np.isinf(want))
    np.testing.assert_array_equal(got == 0, want == 0)
    number = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got[number]), np.signbit(want[number]))


@TARGET
@DTYPE
@pytest.mark.parametrize("name", [n for n in LIMITS if n not in ("arctan2", "power")])
def test_of_one(name, dtype, target):
    f = written(name, dtype, target)
    x = numbers(dtype)
    check(f, getattr(np, name)(x.astype(WIDER[dtype])), [x], LIMITS[name])
    x = special(dtype)
    check_special(f, getattr(np, name)(x), [x])


@TARGET
@DTYPE
@pytest.mark.parametrize("name", ["arctan2", "power"])
def test_of_two(name, dtype, target):
    f = written(name, dtype, target, 2)
    x = numbers(dtype)
    y = np.random.default_rng(1).permutation(x)
    pairs = [(x, y), (np.abs(x), np.clip(y, -20, 20)), (1 + x * 1e-4, y)]
    for x, y in pairs:
        wide = [x.astype(WIDER[dtype]), y.astype(WIDER[dtype])]
        check(f, getattr(np, name)(*wide), [x, y], LIMITS[name])
    x, y = (a.ravel() for a in np.meshgrid(special(dtype), special(dtype)))
    check_special(f, getattr(np, name)(x, y), [x, y])


@TARGET
@DTYPE
def test_exact_results(dtype, target):
    """Powers of two and ten, and what is whole."""
    whole = np.arange(-37, 38)
    twos = np.ldexp(np.ones(1, dtype), whole)
    np.testing.assert_array_equal(written("log2", dtype, target)(twos), whole)
    tens = np.array([float(f"1e{k}") for k in whole], dtype)
    tens = tens[whole >= 0] if dtype == "float64" else tens
    np.testing.assert_array_equal(written("log10", dtype, target)(tens), whole[-len(tens) :])
    power = written("power", dtype, target, 2)
    bases, exponents = (a.ravel() for a in np.meshgrid(np.arange(-9, 10), np.arange(0, 8)))
    want = np.array([b**e for b, e in zip(bases.tolist(), exponents.tolist(), strict=True)], dtype)
    np.testing.assert_array_equal(power(bases.astype(dtype), exponents.astype(dtype)), want)

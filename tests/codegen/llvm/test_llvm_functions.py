"""Functions of floats in LLVM's text: how far they are off, and their special values."""

import host_llvm
import numpy as np
import pytest

from xpapply.codegen.llvm import functions
from xpapply.codegen.llvm.target import TARGETS

DTYPE = pytest.mark.parametrize("dtype", ["float32", "float64"])
WIDER = {"float32": "float64", "float64": "longdouble"}

LIMITS = {
    "exp": 1.2,
    "expm1": 2,
    "log": 0.9,
    "log1p": 1.5,
    "log2": 1.9,
    "log10": 0.8,
    "tanh": 2.5,
    "sinh": 1.7,
    "cosh": 1.6,
    "sin": 2.9,
    "cos": 2,
    "tan": 3.5,
    "arcsin": 2.5,
    "arccos": 2,
    "arctan": 2.3,
    "arctan2": 2.3,
    "power": 1.4,
    "erf": 3,
    "erfc": 4,
    "softplus": 3,
    "log_sigmoid": 3,
    "mish": 4,
}
"""The largest error in units in the last place, by the names of NumPy, SciPy and the op table."""
NAMES = {
    "arcsin": "asin",
    "arccos": "acos",
    "arctan": "atan",
    "arctan2": "atan2",
    "power": "pow",
}


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


def written(name, dtype, operands=1):
    """The function, written for each CPU; functions of arrays for those that can run it here."""
    form = getattr(functions, NAMES.get(name, name))
    given = [dtype] * operands, [dtype]

    def body(writer, *given):
        return [form(writer, *given)]

    found = []
    for target in TARGETS.values():
        lanes = target.bits // (8 * np.dtype(dtype).itemsize)
        text = host_llvm.elementwise_text(body, *given, target, lanes)
        if host_llvm.of_this_machine(target, text) is None:
            host_llvm.assembly(text, target)
        else:
            call = host_llvm.elementwise(body, *given, target, lanes)
            found.append((target.name, lambda *arrays, call=call: call(*arrays)[0]))
    return found


def check(calls, want, arrays, limit):
    for target, call in calls:
        found = errors(call(*arrays), want)
        if want.dtype.itemsize == arrays[0].dtype.itemsize:  # Windows has nothing wider
            found = found - 1
        assert (found <= limit).all(), worst(target, found - limit, [*arrays, want])


def worst(target, found, arrays):
    k = int(np.argmax(found))
    return target, found[k], [x[k] for x in arrays]


def check_special(calls, want, arrays):
    """NaN, infinities and signs as NumPy has them, but for the sign of NaN."""
    for target, call in calls:
        got = call(*arrays)
        np.testing.assert_array_equal(np.isnan(got), np.isnan(want), target)
        np.testing.assert_array_equal(np.isinf(got), np.isinf(want), target)
        np.testing.assert_array_equal(got == 0, want == 0, target)
        number = ~np.isnan(want)
        np.testing.assert_array_equal(np.signbit(got[number]), np.signbit(want[number]), target)


def check_equal(calls, want, arrays):
    for target, call in calls:
        np.testing.assert_array_equal(call(*arrays), want, target)


@DTYPE
@pytest.mark.parametrize(
    "name",
    "exp expm1 log log1p log2 log10 tanh sinh cosh sin cos tan arcsin arccos arctan".split(),
)
def test_of_one(name, dtype):
    calls = written(name, dtype)
    x = numbers(dtype)
    check(calls, getattr(np, name)(x.astype(WIDER[dtype])), [x], LIMITS[name])
    x = special(dtype)
    check_special(calls, getattr(np, name)(x), [x])


@DTYPE
@pytest.mark.parametrize("name", ["arctan2", "power"])
def test_of_two(name, dtype):
    calls = written(name, dtype, 2)
    x = numbers(dtype)
    y = np.random.default_rng(1).permutation(x)
    near = (1 + np.random.default_rng(2).normal(size=len(x)) * 0.1).astype(dtype)
    pairs = [(x, y), (np.abs(x), np.clip(y, -20, 20)), (1 + x * 1e-4, y), (near, y)]
    for x, y in pairs:
        wide = [x.astype(WIDER[dtype]), y.astype(WIDER[dtype])]
        check(calls, getattr(np, name)(*wide), [x, y], LIMITS[name])
    x, y = (a.ravel() for a in np.meshgrid(special(dtype), special(dtype)))
    check_special(calls, getattr(np, name)(x, y), [x, y])


@DTYPE
def test_exact_results(dtype):
    """Powers of two and ten, and what is whole."""
    whole = np.arange(-37, 38)
    twos = np.ldexp(np.ones(1, dtype), whole)
    check_equal(written("log2", dtype), whole, [twos])
    tens = np.array([float(f"1e{k}") for k in whole], dtype)
    check_equal(written("log10", dtype), whole, [tens])
    bases, exponents = (a.ravel() for a in np.meshgrid(np.arange(-9, 10), np.arange(0, 8)))
    want = np.array([b**e for b, e in zip(bases.tolist(), exponents.tolist(), strict=True)], dtype)
    check_equal(written("power", dtype, 2), want, [bases.astype(dtype), exponents.astype(dtype)])


@DTYPE
@pytest.mark.parametrize("name", ["erf", "erfc"])
def test_error_functions(name, dtype):
    special_functions = pytest.importorskip("scipy.special")
    calls = written(name, dtype)
    x = special(dtype)
    check_special(calls, getattr(special_functions, name)(x), [x])
    if dtype == "float32":
        x = numbers(dtype)
        check(calls, getattr(special_functions, name)(x.astype("float64")), [x], LIMITS[name])
        return
    mpmath = pytest.importorskip("mpmath")
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.uniform(-6, 6, 600), rng.uniform(0, 27.3, 600), rng.normal(size=300)])
    x = np.concatenate([x, np.ldexp(rng.uniform(1, 2, 100), np.arange(-1074, 26, 11))])
    with mpmath.workdps(40):
        exact = [getattr(mpmath, name)(mpmath.mpf(v)) for v in x.tolist()]
        # in two doubles: longdouble is made of them exactly
        near = np.array([float(v) for v in exact])
        rest = np.array(
            [float(v - mpmath.mpf(u)) for u, v in zip(near.tolist(), exact, strict=True)]
        )
    check(calls, near.astype("longdouble") + rest, [x], LIMITS[name])


def definition(name, x):
    """What a composite stands for, of numbers of higher precision."""
    if name == "softplus":
        return np.where(x > 20, x, np.logaddexp(x, 0))
    if name == "log_sigmoid":
        return -np.logaddexp(-x, 0)
    n = np.expm1(2 * np.logaddexp(np.minimum(x, 30), 0))
    return x * (n / (n + 2))


@DTYPE
@pytest.mark.parametrize("name", ["softplus", "log_sigmoid", "mish"])
def test_activations(name, dtype):
    calls = written(name, dtype)
    x = numbers(dtype)
    if name == "mish":  # where exp(x) is denormal it has few digits
        x = x[x > np.log(np.finfo(dtype).tiny)]
    check(calls, definition(name, x.astype(WIDER[dtype])), [x], LIMITS[name])
    x = np.array([-np.inf, np.inf, np.nan, 0.0, -0.0], dtype)
    want = {
        "softplus": [0, np.inf, np.nan, np.log(2), np.log(2)],
        "log_sigmoid": [-np.inf, 0, np.nan, -np.log(2), -np.log(2)],
        "mish": [np.nan, np.inf, np.nan, 0.0, -0.0],
    }
    for target, call in calls:
        np.testing.assert_allclose(call(x), np.array(want[name], dtype), 1e-6, err_msg=target)


@DTYPE
def test_gelu(dtype):
    """As far off as the definition is: an error of the square counts as much as the square."""
    special_functions = pytest.importorskip("scipy.special")
    calls = written("gelu", dtype)
    x = np.concatenate([np.linspace(-12, 12, 200_001), np.logspace(-40, 30, 7001)]).astype(dtype)
    wide = x.astype("float64")
    want = wide * 0.5 * special_functions.erfc(-wide * np.sqrt(0.5))
    # scipy's is of doubles, too
    limit = (6 if dtype == "float32" else 16) + np.minimum(wide, 0) ** 2
    check(calls, want, [x], limit)
    x = np.array([-np.inf, np.inf, np.nan, 0.0, -0.0, 30.0], dtype)
    check_special(calls, np.array([np.nan, np.inf, np.nan, 0.0, -0.0, 30.0]), [x])
    for _, call in calls:
        assert -1e-30 < call(np.array([-30.0], dtype)) <= 0


def test_as_many_lanes_as_one_likes():
    """Numbers alone, and vectors that are no register or several."""
    target = TARGETS["AVX-512"]
    x = numbers("float32")[:5000]
    names = "exp tanh log log1p log10 sin pow erfc gelu".split()

    def body(writer, x):
        for name in names:
            given = [x, writer.constant(1.5, x.type)] if name == "pow" else [x]
            yield getattr(functions, name)(writer, *given)

    found = [
        host_llvm.elementwise(body, ["float32"], ["float32"] * len(names), target, lanes)(x)
        for lanes in (1, 2, 4, 8, 16, 32)
    ]
    for results in zip(*found, strict=True):
        for result in results[1:]:
            np.testing.assert_array_equal(result, results[0])

"""What is decided by the last bit of a function of `math`, or of a power, is decided as in f."""

import math

import numpy as np
import pytest

import xpapply
from xpapply.batching import libm

ANY = np.random.default_rng(0).random(20000) * 50 + 1
CUBES = np.arange(1, 200.0) ** 3
WHOLE = np.arange(1, 400.0)

CASES = {
    "power": (lambda a: int(a ** (1 / 3)), CUBES),
    "pow": (lambda a: int(math.pow(a, 1 / 3)), CUBES),
    "exp of log": (lambda a: math.ceil(math.exp(math.log(a))), WHOLE),
    "hypot": (lambda a: 1 if math.hypot(a, a) == a * math.sqrt(2) else -1, WHOLE),
    "tanh": (lambda a: math.floor(math.tanh(a) * 2**53), ANY[:2000]),
    "squares of sines": (lambda a: math.sin(a) ** 2 + math.cos(a) ** 2 <= 1, ANY),
    "squares of NumPy's": (lambda a: np.sin(a) ** 2 + np.cos(a) ** 2 <= 1, ANY),
    "a root": (lambda a: a**0.5 == math.sqrt(a), ANY),
    "an index": (lambda a: (10, 20, 30)[int(math.hypot(a, a) == a * math.sqrt(2))], WHOLE),
    "a remainder": (lambda a: (math.tanh(a) * 2**53) % 3, ANY[:2000]),
    "what raises": (lambda a: 0 if a < 1.1 else math.floor(math.tanh(a) * 2**53), ANY[:2000]),
}


@pytest.mark.parametrize("name", CASES)
def test_decisions_are_those_of_f(name):
    f, x = CASES[name]
    np.testing.assert_array_equal(xpapply.vectorize(f)(x), np.vectorize(f)(x))
    columns = np.repeat(x[:, None], 2, 1)
    own = lambda v: f(v[0])  # noqa: E731
    want = np.apply_along_axis(own, -1, columns)
    np.testing.assert_array_equal(xpapply.apply_along_axis(own, -1, columns), want)


def test_what_a_path_that_is_found_late_decides_is_exact_as_well():
    def f(v):
        y = math.tanh(v[0])
        if v[1] > 0.999:
            return math.floor(y * 2**53)
        return y

    x = np.random.default_rng(1).random((20000, 2)) * [3, 1]
    x[0, 1] = 0
    want = np.apply_along_axis(f, -1, x)
    got = xpapply.apply_along_axis(f, -1, x)
    late = x[:, 1] > 0.999
    np.testing.assert_array_equal(got[late], want[late])
    np.testing.assert_allclose(got, want, rtol=1e-15)


@pytest.mark.parametrize("name", ["exp", "log", "tanh", "arctan2", "hypot", "power", "arccosh"])
def test_functions_have_the_bits_of_pythons(name):
    x = np.random.default_rng(0).random(3000) * 20 + 1
    python = libm._PYTHON[name]
    given = (x, x[::-1].copy()) if name in libm._PAIRS else (x,)
    want = [python(*numbers) for numbers in zip(*(c.tolist() for c in given), strict=True)]
    found = libm.of_floats(name, *map(xpapply.batching.Batched, given))
    np.testing.assert_array_equal(found.array, want)


def test_numbers_for_which_python_raises_do_not_disturb_the_others():
    x = np.array([1.0, 1e6, 2.5])
    found = libm._by_python("exp", [x])
    assert found.tolist() == [math.exp(1.0), math.inf, math.exp(2.5)]


def test_powers_of_numpys_numbers_are_the_operators():
    x = np.random.default_rng(0).random(4000) * 50 + 1
    for exponent in (2, 0.5, -1, 3, 1 / 3):
        found = libm.of_numbers(xpapply.batching.Batched(x), exponent)
        np.testing.assert_array_equal(found.array, [a**exponent for a in x])
        for dtype in (np.float32, np.float16, np.complex64, np.complex128):
            with np.errstate(over="ignore"):
                column = x.astype(dtype)
                found = libm.of_numbers(xpapply.batching.Batched(column), exponent)
                np.testing.assert_array_equal(found.array, [a**exponent for a in column])


def square(v):
    return v[1] if v[0] ** 2 == v[0] * v[0] else -v[1]


def square_of_a_float(v):
    a = float(v[0])
    return v[1] if a**2 == a * a else -v[1]


def root(v):
    return v[1] if v[0] ** 0.5 == math.sqrt(v[0]) else -v[1]


def reciprocal(v):
    return v[1] if v[0] ** -1 == 1 / v[0] else -v[1]


def whole(v):
    return math.floor((v[0] ** 2 / v[0] - v[0]) * 1e20)


def array(v):
    return v[1] if (v**2)[0] == v[0] * v[0] else -v[1]


def hypotenuse(v):
    return math.floor(math.hypot(v[0], v[0]) / v[0] * 1e15)


def numpys_hypotenuse(v):
    return v[1] if np.hypot(v, v)[0] == v[0] * np.sqrt(2) else -v[1]


POWERS = [square, square_of_a_float, root, reciprocal, whole, array, hypotenuse, numpys_hypotenuse]


@pytest.mark.parametrize("engine", ["cpu", "numpy"])
@pytest.mark.parametrize("f", POWERS)
def test_powers_and_hypotenuses_in_kernels_and_in_blocks(f, engine):
    if engine == "cpu":
        pytest.importorskip("llvmlite")
    x = np.stack([ANY, ANY[::-1]], 1)
    x[:10000, 0] = np.arange(1, 10001)
    with xpapply.options(engine=engine):
        got = xpapply.apply_along_axis(f, -1, x)
    np.testing.assert_array_equal(got, np.apply_along_axis(f, -1, x))


# --- what decides nothing has them too -----------------------------------------------------------

NUMBERS = {
    "squares": lambda a: a**2,
    "squares of a float": lambda a: float(a) ** 2,
    "by pow": lambda a: pow(a, 2),
    "cubes": lambda a: a**3,
    "fourths": lambda a: a**4.0,
    "roots": lambda a: a**0.5,
    "inverses": lambda a: a**-1,
    "others": lambda a: a**2.5,
    "exponents": lambda a: 2**a,
    "both": lambda a: a**a,
    "a polynomial": lambda a: 3 * a**2 + 2 * a + 1,
    "a distance": lambda a: ((a - 2) ** 2 + (a + 1) ** 2) ** 0.5,
    "by a float": lambda a: a ** np.float64(2),
    "by a float of 32 bits": lambda a: a ** np.float32(1.5),
    "NumPy's": lambda a: np.power(a, 2.5),
    "NumPy's squares": lambda a: np.square(a),
}


def has_bounds(name, dtype, engine):
    """Whether it is a function of arrays in a kernel, of which the last bits are not promised."""
    of_ufunc = dtype == "int64" and name == "by a float of 32 bits"
    return engine == "cpu" and (name.startswith("NumPy's") or of_ufunc or dtype == "float16")


def gives_integers(name, dtype):
    return "int" in dtype and name in ("inverses", "exponents", "both")


@pytest.mark.no_such_case(lambda name, dtype: gives_integers(name, dtype))
@pytest.mark.no_such_case(lambda name, dtype, engine: has_bounds(name, dtype, engine))
@pytest.mark.parametrize("engine", ["", "cpu", "numpy"])
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int64", "int16"])
@pytest.mark.parametrize("name", NUMBERS)
def test_powers_of_numbers_have_the_bits_of_the_operator(name, dtype, engine):
    if engine == "cpu":
        pytest.importorskip("llvmlite")
    f = NUMBERS[name]
    x = (np.random.default_rng(3).random(3000) * 9 + 0.5).astype(dtype)
    x[:4] = [0.75, 1, 2, 3]

    def own(v):
        return f(v[0])

    columns = np.repeat(x[:, None], 2, 1)
    with np.errstate(all="ignore"):
        wants = np.vectorize(f)(x), np.apply_along_axis(own, -1, columns)
        with xpapply.options(engine=engine):
            for _ in range(3):
                gots = xpapply.vectorize(f)(x), xpapply.apply_along_axis(own, -1, columns)
                for got, want in zip(gots, wants, strict=True):
                    assert got.dtype == want.dtype
                    assert got.tobytes() == want.tobytes()


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("exponent", [2, 3, 4, 0.5, -1])
@pytest.mark.parametrize("engine", ["cpu", "numpy"])
def test_powers_of_special_numbers(exponent, dtype, engine):
    if engine == "cpu":
        pytest.importorskip("llvmlite")
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, -2.0, 1e-320, 1e-170, 1e170, 2.0**80, 1e-30]
    with np.errstate(all="ignore"):
        x = np.r_[np.random.default_rng(4).random(500), special].astype(dtype)

    def f(v):
        return v[0] ** exponent

    columns = np.repeat(x[:, None], 2, 1)
    with np.errstate(all="ignore"), xpapply.options(engine=engine):
        want = np.apply_along_axis(f, -1, columns)
        for _ in range(2):
            got = xpapply.apply_along_axis(f, -1, columns)
            np.testing.assert_array_equal(got, want)
            np.testing.assert_array_equal(np.signbit(got[got == 0]), np.signbit(want[want == 0]))


def gives_up_for_some(x):
    s = 0.0
    while s < 3:
        s += 1 / x
    return s


def test_what_is_left_of_numbers_is_called_with_pythons(by_source):
    """A marked number that is Python's raises, where one of NumPy's would warn."""
    pytest.importorskip("llvmlite")
    x = np.random.default_rng(3).random(3000) + 0.5
    f = xpapply.vectorize(gives_up_for_some)
    np.testing.assert_array_equal(f(x), np.vectorize(gives_up_for_some)(x))
    assert "compiled loop" in f.explain(x).kernels[0]
    x[777] = 0
    with pytest.raises(ZeroDivisionError, match="division by zero"):
        f(x)


def test_what_is_compiled_is_no_engine_of_another_name(by_source):
    pytest.importorskip("llvmlite")
    x = np.random.default_rng(3).random(3000) + 0.5
    f = xpapply.vectorize(gives_up_for_some)
    with xpapply.options(engine="cpu"):
        f(x)
        assert f.explain(x).engine == "cpu"
    with xpapply.options(engine="numpy"):
        f(x)
        assert f.explain(x).engine == "numpy"

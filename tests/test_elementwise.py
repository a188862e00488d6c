"""elementwise: what NumPy gives for the same expression, on every library."""

import operator

import numpy as np
import pytest
from custom_cases import X, quiet, small, squared_diff
from hypothesis import assume, given
from hypothesis import strategies as st
from slice_cases import arrays, close, eps, run

from xpapply import TraceError, elementwise, reduction

# --- the tutorials of CuPy --------------------------------------------------------------------


def test_squared_diff_of_the_tutorial(any_lib):
    x = np.arange(10, dtype=np.float32).reshape(2, 5)
    y = np.arange(5, dtype=np.float32)
    expected = [[0, 0, 0, 0, 0], [25, 25, 25, 25, 25]]
    got = run(any_lib, squared_diff, x, y)
    assert got.dtype == np.float32
    assert got.tolist() == expected
    assert run(any_lib, squared_diff, x, 5).tolist() == [[25, 16, 9, 4, 1], [0, 1, 4, 9, 16]]


def test_squared_diff_of_the_tutorial_into_an_array(lib):  # JAX's cannot be written to
    x = np.arange(10, dtype=np.float32).reshape(2, 5)
    with lib():
        out = lib.array(np.empty_like(x))
        result = squared_diff(lib.array(x), lib.array(x[0]), out=out)
        assert result is out
        assert lib.numpy(out).tolist() == [[0] * 5, [25] * 5]


# --- expressions as NumPy has them ------------------------------------------------------------

DTYPES = (
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "float16",
    "float32",
    "float64",
)

COMPLEX = ("complex64", "complex128")

UNARY = {
    **{
        name: getattr(np, name)
        for name in (
            "negative absolute square sqrt exp expm1 log log1p log2 log10 sin cos tan tanh sinh "
            "cosh arcsin arccos arctan floor ceil trunc rint isfinite isnan isinf sign positive "
            "fabs exp2 conjugate logical_not"
        ).split()
    },
    "-x": operator.neg,
    "abs(x)": abs,
    "x**2": lambda x: x**2,
    "x**2.0": lambda x: x**2.0,
    "x**1": lambda x: x**1,
    "x**0.5": lambda x: x**0.5,
    "power(x, 0.5)": lambda x: np.power(x, 0.5),
    "power(x, 2)": lambda x: np.power(x, 2),
    "power(x, -1.0)": lambda x: np.power(x, -1.0),
    "x.astype(float)": lambda x: x.astype(float),
    "x.astype(float32)": lambda x: x.astype(np.float32),
    "clip": lambda x: np.clip(x, 1, 3),
    "clip below": lambda x: np.clip(x, 1, None),
    "clip by name": lambda x: np.clip(x, min=1, max=3),
    "1 - x": lambda x: 1 - x,
    "1 / x": lambda x: 1 / x,
    "x * True": lambda x: x * True,
    "2.5 * x": lambda x: 2.5 * x,
    "int8 scalar": lambda x: x + np.int8(3),
    "float32 scalar": lambda x: x * np.float32(0.5),
    "float64 scalar": lambda x: np.float64(0.5) * x,
    "where int": lambda x: np.where(x > 0, x, 0),
    "where float": lambda x: np.where(x > 0, 1.5, x),
    "x > 300": lambda x: x > 300,
    "-1 < x": lambda x: x > -1,
    "x == 70000": lambda x: x == 70000,
    "x != -5": lambda x: x != -5,
    "2**70 >= x": lambda x: x <= 2**70,
}

BINARY = {
    **{
        name: getattr(np, name)
        for name in (
            "add subtract multiply divide maximum minimum greater greater_equal less less_equal "
            "equal not_equal arctan2 logical_and logical_or hypot"
        ).split()
    },
    "power of floats": lambda x, y: np.power(abs(x) + 0.5, y / 4),
    "where": lambda x, y: np.where(x > y, x, y),
    "where of numbers": lambda x, y: np.where(x, x, y),
    "truths": lambda x, y: ((x > 1) & (y > 1)) | ~(x == y),
    "-": operator.sub,
    "/": operator.truediv,
}

ROUNDED = {"exp", "expm1", "sinh", "cosh", "tan", "exp2", "power of floats", "hypot"}


def same(got, expected, name=""):
    """Equal dtypes; equal numbers but for rounding."""
    expected = np.asarray(expected)
    assert got.dtype == expected.dtype
    if expected.dtype.kind not in "fc":
        np.testing.assert_array_equal(got, expected)
        return
    factor = 64 if name in ROUNDED else 8
    if expected.dtype.kind == "c":
        np.testing.assert_allclose(got, expected, rtol=factor * eps(expected.dtype))
        return
    tiny = float(np.finfo(expected.dtype).tiny) * (expected.dtype != np.float16)
    close(got, expected, factor * eps(expected.dtype), tiny)


def refused(f, *given):
    """Whether NumPy, or an expression, refuses operands like these."""
    try:
        quiet(f, *given)
    except (TypeError, ValueError, OverflowError):
        return True
    return False


@given(x=arrays(dtypes=DTYPES, exponents=small), name=st.sampled_from(sorted(UNARY)))
def test_one_operand_as_numpy(lib, x, name):
    f = UNARY[name]
    assume(not refused(f, x))
    assume(lib.can(x, f))
    got, expected = run(lib, elementwise(f), x), quiet(f, x)
    torchs = (lib.name, lib.engine) == ("torch", "array_api") and expected.dtype.kind == "f"
    if torchs and name in ("sinh", "cosh"):
        # torch's own for 32 numbers and more overflow where exp does: from half the largest on
        half = np.finfo(expected.dtype).max / 2
        early = np.isinf(got) & (np.abs(expected) > half) & (np.sign(got) == np.sign(expected))
        expected = np.where(early, got, expected)
    same(got, expected, name)


@st.composite
def two(draw, dtypes=DTYPES):
    """Two arrays that broadcast, of any dtypes and layouts."""
    x = draw(arrays(dtypes=dtypes, exponents=small))
    y = draw(arrays(dtypes=dtypes, exponents=small, least=x.ndim))
    shape = [draw(st.sampled_from([1, n])) for n in x.shape][draw(st.integers(0, x.ndim)) :]
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    y = y.ravel()[rng.integers(0, max(y.size, 1), shape)] if y.size else np.ones(shape, y.dtype)
    return (x, np.asarray(y)) if draw(st.booleans()) else (np.asarray(y), x)


@given(case=two(), name=st.sampled_from(sorted(BINARY)))
def test_two_operands_as_numpy(lib, case, name):
    f = BINARY[name]
    assume(not refused(f, *case))
    assume(lib.can(*case, f))
    same(run(lib, elementwise(f), *case), quiet(f, *case), name)


@pytest.mark.parametrize("name", sorted(UNARY))
def test_dtypes_of_one_operand(name):
    f = UNARY[name]
    for dtype in (*DTYPES, *COMPLEX):
        x = np.array([1, 0, 3], dtype)
        try:
            expected = quiet(f, x)
        except (TypeError, ValueError, OverflowError):
            with pytest.raises((TraceError, OverflowError)):
                elementwise(f)(x)
            continue
        try:
            got = elementwise(f)(x)
        except TraceError:
            assert dtype in COMPLEX, dtype
            continue
        same(np.asarray(got), expected, name)


@pytest.mark.parametrize("name", sorted(BINARY))
def test_dtypes_of_two_operands(name):
    f = BINARY[name]
    for left in DTYPES:
        for right in DTYPES:
            x, y = np.array([1, 0, 3], left), np.array([2, 0, 1], right)
            if refused(f, x, y):
                with pytest.raises(TraceError):
                    elementwise(f)(x, y)
            else:
                same(elementwise(f)(x, y), quiet(f, x, y), name)


@st.composite
def expressions(draw, depth=3):
    """A random expression of x, y and numbers, as a function."""
    if not depth or draw(st.integers(0, 3)) == 0:
        leaf = draw(st.sampled_from(["x", "y", 2, 0.5, -1, np.float32(1.5), np.int16(3)]))
        return lambda x, y: {"x": x, "y": y}.get(leaf, leaf) if isinstance(leaf, str) else leaf
    kind = draw(
        st.sampled_from(
            [
                "add",
                "subtract",
                "multiply",
                "maximum",
                "where",
                "tanh",
                "absolute",
                "minimum",
                "arctan",
                "divide",
            ]
        )
    )
    a = draw(expressions(depth=depth - 1))
    if kind in ("tanh", "absolute", "arctan"):
        return lambda x, y: getattr(np, kind)(a(x, y))
    b = draw(expressions(depth=depth - 1))
    if kind == "where":
        c = draw(expressions(depth=depth - 1))
        return lambda x, y: np.where(a(x, y) > 0, b(x, y), c(x, y))
    return lambda x, y: getattr(np, kind)(a(x, y), b(x, y))


@given(
    f=expressions(),
    x=st.sampled_from(["int8", "uint8", "int64", "bool", "float32", "float64"]),
    y=st.sampled_from(["int32", "float16", "float32", "float64"]),
)
def test_random_expressions_as_numpy(f, x, y):
    x = np.array([[1, 0, 3], [2, 1, 5]], x)
    y = np.array([2, 1, 3], y)

    def whole(x, y):  # of both, so that the shape is known
        return np.where(x == x, f(x, y), f(x, y))

    assume(not refused(whole, x, y))
    expected = quiet(whole, x, y)
    try:
        got = quiet(elementwise(whole), x, y)  # NumPy computes with what are numbers at once
    except OverflowError:  # NumPy's `where` wraps numbers around
        return
    assert got.dtype == expected.dtype
    if expected.dtype.kind != "f":
        np.testing.assert_array_equal(got, expected)
    else:
        precision = 64 * max(eps(expected.dtype), eps(y.dtype) if y.dtype.kind == "f" else 0)
        scale = float(np.max(np.abs(expected[np.isfinite(expected)]), initial=1))
        close(got, expected, precision, precision * scale * 8)


@given(x=arrays(dtypes=COMPLEX, special=False))
def test_complex_expressions_as_numpy(lib, x):
    for f in (lambda z: z * z + 1j, lambda z: 2 * z - z / 3, abs, lambda z: z == z):
        got, expected = run(lib, elementwise(f), x), f(x)
        assert got.dtype == expected.dtype
        np.testing.assert_allclose(got, expected, rtol=16 * eps(x.dtype))


def test_numbers_of_python_are_weak_and_those_of_numpy_are_not(any_lib):
    f = elementwise(lambda x, k: x * k)
    x = np.ones(2, np.float32)
    assert run(any_lib, f, x, 2).dtype == np.float32
    assert run(any_lib, f, x, 2.5).dtype == np.float32
    assert run(any_lib, f, x, np.float64(2.5)).dtype == np.float64
    assert run(any_lib, f, x, np.float32(2.5)).dtype == np.float32
    assert run(any_lib, f, np.ones(2, np.int32), 2.5).dtype == np.float64
    assert run(any_lib, f, np.ones(2, bool), 2).dtype == np.int64


def test_arrays_of_no_dims_are_arrays(any_lib):
    f = elementwise(lambda x, k: x * k)
    assert run(any_lib, f, np.ones(2, np.float32), np.array(2.0)).dtype == np.float64
    assert run(any_lib, f, np.array(3.0), np.array(2.0)) == 6


def test_numbers_alone_are_numpys():
    result = elementwise(lambda x, y: x + y)(1, 2.5)
    assert isinstance(result, np.float64)
    assert result == 3.5
    assert elementwise(lambda x: x + 1)([1, 2]).tolist() == [2, 3]


@pytest.mark.parametrize("where", ["first", "second"])
def test_a_number_in_any_place(any_lib, where):
    f = reduction(lambda a, b: a * b, lambda a, b: a + b)
    given = (2.0, X) if where == "first" else (X, 2.0)
    close(run(any_lib, f, *given, axis=1), (2 * X).sum(1), 1e-14)
    close(run(any_lib, f, *given), (2 * X).sum(), 1e-14)


def test_a_whole_number_that_the_dtype_has_not(any_lib):
    x = np.array([1, 2, 250], np.uint8)
    with pytest.raises(OverflowError, match=r"300 out of bounds for uint8.*cast"):
        run(any_lib, elementwise(lambda x: x + 300), x)
    with pytest.raises(OverflowError, match="300 out of bounds for uint8"):
        run(any_lib, elementwise(lambda x, k: x + k), x, 300)
    assert run(any_lib, elementwise(lambda x: x < 300), x).all()


def test_numbers_beyond_float16_are_infinite_in_silence(any_lib):
    x = np.ones(2, np.float16)
    assert run(any_lib, elementwise(lambda x: x * 1e9), x).tolist() == [np.inf] * 2
    assert run(any_lib, elementwise(lambda x, k: x * k), x, -1e9).tolist() == [-np.inf] * 2


def test_a_constant_has_the_shape_of_the_arrays(any_lib):
    got = run(any_lib, elementwise(lambda x, y: 1.5), np.ones((2, 1)), np.ones(3))
    assert got.tolist() == [[1.5] * 3] * 2


def test_several_results(any_lib):
    f = elementwise(lambda x, y: (x + y, x > y, 1))
    total, larger, one = run(any_lib, f, X, X[::-1])
    close(total, X + X[::-1], 1e-15)
    np.testing.assert_array_equal(larger, X[::-1] < X)
    assert (one == 1).all()
    assert one.shape == X.shape


COPIES = {
    "the array": elementwise(lambda x: x),
    "the array twice": elementwise(lambda x: (x, x)),
    "one result twice": elementwise(lambda x: (x + 1, x + 1)),
    "a constant": elementwise(lambda x: 1.5),
    "a cast that is none": elementwise(lambda x: x.astype(float)),
    "every element": lambda x: reduction(None, np.maximum)(x, axis=()),
    "combined by hand": lambda x: reduction(lambda x: (x, x), lambda a, b: a)(x, axis=()),
    "broadcast": lambda x: elementwise(lambda x, y: y)(x, x[0]),
}


# whose arrays take no floats by index
@pytest.mark.no_such_case(lambda lib: lib.name == "array_api_strict")
@pytest.mark.every_case
@pytest.mark.parametrize("f", COPIES.values(), ids=COPIES)
def test_results_are_nobody_elses_memory(lib, f):
    with lib():
        x = lib.array(X.copy())
        results = f(x)
        results = results if isinstance(results, tuple) else (results,)
        for k, y in enumerate(results):
            y[...] = k + 7.0
        got = [lib.numpy(y) for y in results]
    assert [(float(y.min()), float(y.max())) for y in got] == [
        (k + 7, k + 7) for k in range(len(got))
    ]
    np.testing.assert_array_equal(lib.numpy(x), X)


def test_a_tuple_of_one_is_a_tuple():
    result = elementwise(lambda x: (x,))(X)
    assert isinstance(result, tuple)
    assert len(result) == 1


def test_a_ufunc_of_numpy_is_an_expression(any_lib):
    close(run(any_lib, elementwise(np.exp), X), np.exp(X), 1e-14)
    assert run(any_lib, reduction(None, np.maximum), X) == 4


def test_results_lie_in_memory_as_the_arrays():
    x = np.asfortranarray(np.random.default_rng(0).standard_normal((3, 4, 5)))
    assert elementwise(np.exp)(x).strides == x.strides
    y = x.transpose(1, 2, 0)
    assert elementwise(np.exp)(y).strides == y.strides


def test_subclasses_are_arrays(tmp_path):
    x = np.memmap(tmp_path / "x", "f8", "w+", shape=(2, 3))
    x[...] = X
    close(elementwise(np.exp)(x), np.exp(X), 1e-15)
    assert type(elementwise(np.exp)(x)) is np.ndarray


@pytest.mark.parametrize("dtype", [">f8", ">i4", ">f2"])
def test_the_other_byte_order(dtype):
    x = X.astype(dtype)
    got = elementwise(lambda x: x + 1)(x)
    assert got.dtype == np.dtype(dtype).newbyteorder("=")
    np.testing.assert_array_equal(got, x + 1)
    assert reduction(None, np.maximum)(x) == x.max()

"""elementwise and reduction: what NumPy gives for the same expression, on every library."""

import copy
import gc
import math
import operator
import pickle
import warnings
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from slice_cases import arrays, axes_of, close, eps, loop, run, with_axis

import xpapply
from conftest import OF_SLICES, library, parameters, present
from xpapply import InputError, TraceError, elementwise, reduction


def quiet(f, *args):
    """`f` of NumPy's own arrays, without its warnings."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return f(*args)


X = np.array([[1.0, -2.0, 3.0], [0.5, 4.0, -0.25]])

# --- the tutorials of CuPy --------------------------------------------------------------------

squared_diff = elementwise(lambda x, y: (x - y) * (x - y))
l2norm = reduction(lambda x: x * x, lambda a, b: a + b, np.sqrt, 0)


def test_squared_diff_of_the_tutorial(any_lib):
    x = np.arange(10, dtype=np.float32).reshape(2, 5)
    y = np.arange(5, dtype=np.float32)
    expected = [[0, 0, 0, 0, 0], [25, 25, 25, 25, 25]]
    got = run(any_lib, squared_diff, x, y)
    assert got.dtype == np.float32
    assert got.tolist() == expected
    assert run(any_lib, squared_diff, x, 5).tolist() == [[25, 16, 9, 4, 1], [0, 1, 4, 9, 16]]


def test_squared_diff_of_the_tutorial_into_an_array(any_lib):
    if any_lib.name == "jax":
        pytest.skip("JAX's arrays cannot be written to")
    x = np.arange(10, dtype=np.float32).reshape(2, 5)
    with any_lib():
        out = any_lib.array(np.empty_like(x))
        result = squared_diff(any_lib.array(x), any_lib.array(x[0]), out=out)
        assert result is out
        assert any_lib.numpy(out).tolist() == [[0] * 5, [25] * 5]


def test_l2norm_of_the_tutorial(any_lib):
    x = np.arange(10, dtype=np.float32).reshape(2, 5)
    expected = np.array([5.477226, 15.9687195], np.float32)
    np.testing.assert_allclose(run(any_lib, l2norm, x, axis=1), expected, rtol=1e-6)
    assert run(any_lib, l2norm, x, axis=1, keepdims=True).shape == (2, 1)
    np.testing.assert_allclose(run(any_lib, l2norm, x), np.linalg.norm(x), rtol=1e-6)


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
            "cosh arctan floor ceil isfinite isnan isinf sign positive fabs exp2 conjugate "
            "logical_not"
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


small = {"float16": (-1, 0), "float32": (-1, 0), "float64": (-1, 0)}


@given(x=arrays(dtypes=DTYPES, exponents=small), name=st.sampled_from(sorted(UNARY)))
def test_one_operand_as_numpy(lib, x, name):
    f = UNARY[name]
    assume(not refused(f, x))
    assume(lib.can(x, f))
    same(run(lib, elementwise(f), x), quiet(f, x), name)


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


@pytest.mark.parametrize("f", COPIES.values(), ids=COPIES)
def test_results_are_nobody_elses_memory(lib, f):
    if lib.name == "array_api_strict":
        pytest.skip("its arrays take no floats by index")
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


# --- reductions -------------------------------------------------------------------------------

REDUCTIONS = {
    "sum": (reduction(None, lambda a, b: a + b, identity=0), np.sum),
    "prod": (reduction(None, lambda a, b: a * b, identity=1), np.prod),
    "max": (reduction(None, np.maximum), np.max),
    "min": (reduction(None, np.minimum), np.min),
    "where max": (reduction(None, lambda a, b: np.where((a > b) | (a != a), a, b)), np.max),
    "sum of squares": (
        reduction(lambda x: x * x, lambda a, b: a + b, identity=0), lambda s: np.sum(s * s),
    ),
    "mean": (
        reduction(lambda x: (x, 1.0), lambda a, b: (a[0] + b[0], a[1] + b[1]),
                  lambda s: s[0] / s[1], (0, 0)),
        np.mean,
    ),
    "extent": (
        reduction(lambda x: (x, x),
                  lambda a, b: (np.minimum(a[0], b[0]), np.maximum(a[1], b[1])),
                  lambda s: s[1] - s[0]),
        np.ptp,
    ),
}  # fmt: skip


@given(
    case=with_axis(("int32", "int64", "float32", "float64"), exponents=small),
    name=st.sampled_from(sorted(REDUCTIONS)),
    keepdims=st.booleans(),
)
def test_reductions_as_the_loop(lib, case, name, keepdims):
    x, axis = case
    ours, numpys = REDUCTIONS[name]
    if not math.prod(x.shape[a] for a in axes_of(axis, x.ndim)) and ours._identity is None:
        with pytest.raises(InputError, match="identity"):
            run(lib, ours, x, axis=axis)
        return
    got = run(lib, ours, x, axis=axis, keepdims=keepdims)
    if name in ("sum", "prod", "sum of squares") and x.dtype.kind == "i":  # they wrap around
        y = x * x if name == "sum of squares" else x
        numpys = np.prod if name == "prod" else np.sum
        expected = numpys(y, axis=axis, keepdims=keepdims, dtype=x.dtype)
        np.testing.assert_array_equal(got, expected)
        return
    expected = quiet(lambda: loop(numpys, axis, x.astype(float), keepdims=keepdims))
    largest = float(np.max(np.abs(x[np.isfinite(x)]), initial=0))
    error = (
        64
        * max(eps(got.dtype), eps(x.dtype))
        * (largest + largest**2)
        * (name not in ("max", "min"))
    )
    close(got, expected, 64 * eps(got.dtype) if name == "prod" else 0, max(error, 1e-300))


def online_logsumexp(a, b):
    top = np.maximum(a[0], b[0])
    return top, a[1] * np.exp(a[0] - top) + b[1] * np.exp(b[0] - top)


def welford(a, b):
    (n1, mean1, m1), (n2, mean2, m2) = a, b
    n, apart = n1 + n2, mean2 - mean1
    return n, mean1 + apart * n2 / n, m1 + m2 + apart * apart * n1 * n2 / n


@pytest.mark.parametrize("shape", [(1, 1), (2, 3), (3, 1000), (1, 10001), (5000, 2)])
def test_states_of_several_numbers(lib, shape):
    x = np.random.default_rng(0).standard_normal(shape) * 3 + 100
    lse = reduction(lambda x: (x, 1.0), online_logsumexp, lambda s: s[0] + np.log(s[1]))
    close(run(lib, lse, x, axis=1), np.log(np.exp(x - 100).sum(1)) + 100, 1e-12)
    moments = reduction(lambda x: (1.0, x, 0.0), welford, lambda s: (s[1], s[2] / s[0]))
    mean, var = run(lib, moments, x, axis=1)
    close(mean, x.mean(1), 1e-12)
    close(var, x.var(1), 1e-11, 1e-18)


@pytest.mark.parametrize("axis", [0, 1, 2, (0, 2), None])
def test_the_order_of_combination_does_not_matter(lib, axis):
    x = np.random.default_rng(0).integers(-50, 50, (7, 9, 11))
    gcd_like = reduction(
        lambda x: (x, x * x), lambda a, b: (a[0] + b[0], np.maximum(a[1], b[1])), identity=(0, 0)
    )
    total, largest = run(lib, gcd_like, x, axis=axis)
    np.testing.assert_array_equal(total, x.sum(axis))
    np.testing.assert_array_equal(largest, (x * x).max(axis))


def test_several_arrays_broadcast(lib):
    x = np.random.default_rng(0).standard_normal((2, 1, 5))
    y = np.random.default_rng(1).standard_normal((1, 3, 5))
    dot = reduction(lambda x, y: x * y, lambda a, b: a + b, identity=0)
    close(run(lib, dot, x, y, axis=2), (x * y).sum(2), 1e-13, 1e-14)
    both = reduction(lambda x, y: (x, y), lambda a, b: (a[0] + b[0], np.maximum(a[1], b[1])))
    total, largest = run(lib, both, x, y, axis=2)
    assert total.shape == largest.shape == (2, 3)
    close(total, np.broadcast_to(x.sum(2), (2, 3)), 1e-13, 1e-14)
    close(largest, np.broadcast_to(y.max(2), (2, 3)), 0)
    close(run(lib, dot, x, y, axis=1), (x * y).sum(1), 1e-13, 1e-14)


def test_an_array_that_broadcasts_along_the_slice(lib):
    dot = reduction(lambda x, w: x * w, lambda a, b: a + b, identity=0)
    w = np.array([[2.0], [3.0]])
    close(run(lib, dot, X, w, axis=1), (X * w).sum(1), 1e-14)
    close(run(lib, dot, X, w, axis=0), (X * w).sum(0), 1e-14)
    close(run(lib, dot, X, np.array(2.0)), (X * 2).sum(), 1e-14)


@pytest.mark.parametrize("identity", [0, 0.0, np.float32(0), np.array(0), 7])
def test_an_identity_is_what_empty_slices_give(any_lib, identity):
    total = reduction(None, lambda a, b: a + b, lambda s: s + 1, identity)
    assert run(any_lib, total, np.zeros((2, 0)), axis=1).tolist() == [float(identity) + 1] * 2
    assert run(any_lib, total, np.zeros((0, 2)), axis=1).shape == (0,)


def test_tuples_of_identities(any_lib):
    both = reduction(
        lambda x: (x, x),
        lambda a, b: (np.minimum(a[0], b[0]), np.maximum(a[1], b[1])),
        identity=(np.inf, -np.inf),
    )
    low, high = run(any_lib, both, np.zeros((0, 2)), axis=0)
    assert low.tolist() == [np.inf] * 2
    assert high.tolist() == [-np.inf] * 2


def test_truths_are_combined_as_numpy_has_them(any_lib):
    x = X > 1
    assert run(any_lib, reduction(None, lambda a, b: a | b), x, axis=1).tolist() == [True, True]
    assert run(any_lib, reduction(None, lambda a, b: a & b), x, axis=1).tolist() == [False, False]
    count = reduction(lambda x: (x > 1).astype(int), lambda a, b: a + b, identity=0)
    assert run(any_lib, count, X, axis=1).tolist() == [1, 1]
    for f, numpys in ((np.maximum, np.max), (np.minimum, np.min), (np.add, np.any)):
        got = run(any_lib, reduction(None, f), x, axis=1)
        np.testing.assert_array_equal(got, numpys(x, axis=1))
        assert got.dtype == bool


def test_small_whole_numbers_wrap_around(any_lib):
    x = np.full((2, 3), 100, np.int8)
    got = run(any_lib, reduction(None, lambda a, b: a + b), x, axis=1)
    assert got.dtype == np.int8
    assert got.tolist() == [44, 44]
    wide = reduction(lambda x: x.astype(int), lambda a, b: a + b)
    assert run(any_lib, wide, x, axis=1).tolist() == [300, 300]


def test_the_dtype_widens_until_it_stays(any_lib):
    f = reduction(None, lambda a, b: a + b * 1.0)
    got = run(any_lib, f, np.arange(4, dtype=np.int32))
    assert got.dtype == np.float64
    assert got == 6


def test_the_number_of_elements(any_lib):
    count = reduction(lambda x: 1, lambda a, b: a + b, identity=0)
    got = run(any_lib, count, X, axis=1)
    assert got.dtype == np.int64
    assert got.tolist() == [3, 3]
    assert run(any_lib, count, np.zeros((2, 0)), axis=1).tolist() == [0, 0]


def test_no_axes_map_and_post_every_element(any_lib):
    close(run(any_lib, l2norm, X, axis=()), np.abs(X), 1e-15)


# --- out --------------------------------------------------------------------------------------


@pytest.fixture(params=parameters(OF_SLICES, without=["jax"]), scope="session")
def writable(request):
    return present(request.param)


def into(lib, f, given, out, **kwargs):
    """What a call writes into `out`, which may be among what is given."""
    with lib():
        result = f(*given, out=out, **kwargs)
        assert result is out
    return tuple(map(lib.numpy, out)) if isinstance(out, tuple) else lib.numpy(out)


def test_results_go_into_out(writable):
    for order in "CF":
        out = writable.array(np.empty(X.shape, order=order))
        close(into(writable, elementwise(lambda x: x + 1), [writable.array(X)], out), X + 1, 0)


def test_results_are_cast_into_out(writable):
    out = writable.array(np.empty(X.shape, np.float32))
    got = into(writable, elementwise(lambda x: x + 1), [writable.array(X)], out)
    close(got, (X + 1).astype("f4"), 0)
    whole = writable.array(np.arange(3))
    out = writable.array(np.empty(3))
    close(into(writable, elementwise(lambda x: x + 1), [whole], out), [1.0, 2.0, 3.0], 0)


def test_in_place(writable):
    x = writable.array(X.copy())
    close(into(writable, elementwise(lambda x, y: x * y + 1), [x, x], x), X * X + 1, 1e-15)


def test_in_place_with_its_own_transpose(writable):
    square = np.arange(9.0).reshape(3, 3)
    x = writable.array(square.copy())
    close(into(writable, elementwise(lambda x, y: x - y), [x, x.T], x), square - square.T, 0)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (slice(1, None), slice(None, -1)),
        (slice(None, -1), slice(1, None)),
        (slice(None, None, 2), slice(1, None, 2)),
    ],
)
def test_views_that_overlap(writable, source, target):
    if writable.name == "array_api_strict":
        pytest.skip("its views are copies")
    whole = np.arange(200_000.0)
    x = writable.array(whole.copy())
    with writable(), xpapply.options(block_bytes=1 << 12):  # many blocks, on the CPU
        elementwise(lambda x: x * 2 + 0.5)(x[source], out=x[target])
        got = writable.numpy(x)
    expected = whole.copy()
    expected[target] = whole[source] * 2 + 0.5
    close(got, expected, 0)


def test_a_row_that_is_part_of_out(writable):
    if writable.name == "array_api_strict":
        pytest.skip("its views are copies")
    x = writable.array(X.copy())
    close(into(writable, elementwise(lambda x, row: x + row), [x, x[0]], x), X + X[0], 0)


def test_tuples_go_into_tuples(writable):
    f = elementwise(lambda x: (x + 1, x > 0))
    out = writable.array(np.empty(X.shape)), writable.array(np.empty(X.shape, bool))
    first, second = into(writable, f, [writable.array(X)], out)
    close(first, X + 1, 0)
    np.testing.assert_array_equal(second, X > 0)


def test_a_swap_in_place(writable):
    x, y = writable.array(X.copy()), writable.array(X[::-1].copy())
    first, second = into(writable, elementwise(lambda x, y: (y, x)), [x, y], (x, y))
    close(first, X[::-1], 0)
    close(second, X, 0)


def test_reductions_go_into_out(writable):
    for keepdims in (False, True):
        out = writable.array(np.empty(X.sum(1, keepdims=keepdims).shape))
        got = into(writable, l2norm, [writable.array(X)], out, axis=1, keepdims=keepdims)
        close(got, np.linalg.norm(X, axis=1, keepdims=keepdims), 1e-15)


def test_a_reduction_into_a_part_of_its_array(writable):
    if writable.name == "array_api_strict":
        pytest.skip("its views are copies")
    x = writable.array(X.copy())
    close(into(writable, l2norm, [x], x[:, 1], axis=1), np.linalg.norm(X, axis=1), 1e-15)


def test_out_for_a_function_with_a_second_argument():
    f = elementwise(lambda x, y=1: x + y)
    other = np.zeros(X.shape)
    f(X, other)
    np.testing.assert_array_equal(f(X, out=other), X + 1)


def test_out_of_another_shape(writable):
    with writable():
        x, out = writable.array(X), writable.array(np.empty((3, 2)))
        with pytest.raises(InputError, match=r"out has shape \(3, 2\), the result \(2, 3\)"):
            elementwise(np.exp)(x, out=out)
        with pytest.raises(InputError, match=r"out has shape \(3, 2\), the result \(2,\)"):
            l2norm(x, axis=1, out=out)


def test_out_of_a_dtype_that_cannot_hold_it(writable):
    with writable(), pytest.raises(TypeError, match=r"float64 does not go into out of .*int64"):
        elementwise(np.exp)(writable.array(X), out=writable.array(np.empty((2, 3), np.int64)))


def test_out_of_another_library(torch):
    with pytest.raises(TypeError, match=r"out is Tensor.*the arrays are numpy's"):
        elementwise(np.exp)(X, out=torch.empty(2, 3))
    with pytest.raises(TypeError, match=r"out is builtins\.list"):
        elementwise(np.exp)(X, out=[0, 0])


def test_out_that_is_read_only():
    f = elementwise(np.exp)
    out = np.empty(X.shape)
    f(X, out=out)
    out.flags.writeable = False
    with pytest.raises(InputError, match="read-only"):
        f(X, out=out)


def test_out_that_cannot_be_written_to():
    jnp = library("jax").numpy
    with pytest.raises(TypeError, match="cannot be written to"):
        elementwise(np.exp)(jnp.ones(3), out=jnp.ones(3))


@pytest.mark.parametrize("out", [(np.empty(3),), (np.empty(3),) * 3, np.empty(3)])
def test_another_number_of_outs(out):
    with pytest.raises(InputError, match="2 results, out has"):
        elementwise(lambda x: (x, x))(np.ones(3), out=out)


def test_out_on_another_device(torch):
    with pytest.raises((InputError, TypeError), match="meta"):
        elementwise(np.exp)(torch.ones(3), out=torch.ones(3, device="meta"))


# --- errors -----------------------------------------------------------------------------------


def branches(x):
    return x if x > 0 else 0


WRONG = {
    "if": (branches, r"truth of an element.*numpy\.where"),
    "and": (lambda x: (x > 0) and (x < 1), r"truth of an element"),
    "min": (lambda x: min(x, 1), r"truth of an element"),
    "chained": (lambda x: 0 < x < 1, r"truth of an element"),
    "math.exp": (lambda x: math.exp(x), r"not known yet.*NumPy's functions"),
    "float": (lambda x: float(x), r"not known yet"),
    "int": (lambda x: int(x), r"not known yet"),
    "round": (lambda x: round(x), r"not known yet"),
    "range": (lambda x: range(x), r"not known yet"),
    "iteration": (lambda x: list(x), r"one number.*iterated"),
    "index": (lambda x: x[0], r"one number.*indexed"),
    "cbrt": (np.cbrt, r"numpy\.cbrt is no op of the table.*There are .*exp"),
    "//": (lambda x: x // 2, r"numpy\.floor_divide is no op"),
    "1 // x": (lambda x: 1 // x, r"numpy\.floor_divide is no op"),
    "%": (lambda x: x % 2, r"numpy\.remainder is no op"),
    "@": (lambda x: x @ x, r"numpy\.matmul is no op"),
    "xor": (lambda x: (x > 0) ^ (x > 1), r"numpy\.bitwise_xor is no op"),
    "& of numbers": (lambda x: x & 1, r"bitwise_and of numbers: it takes truths"),
    "reduce": (lambda x: np.add.reduce(x), r"numpy\.add\.reduce"),
    "ufunc with where": (lambda x: np.add(x, 1, where=x > 0), r"with where"),
    "sum": (lambda x: np.sum(x), r"numpy\.sum of an element.*reduction"),
    "an array": (lambda x: x + np.ones(1), r"ndarray.*further arguments"),
    "a list": (lambda x: [x, x], r"returned list"),
    "nothing": (lambda x: None, r"returned NoneType"),
    "no values": (lambda x: (), r"returned no values"),
    "an array back": (lambda x: np.ones(3), r"returned ndarray"),
    "astype object": (lambda x: x.astype(object), r"astype\(object\).*numbers"),
    "astype str": (lambda x: x.astype(str), r"astype\(<U0\).*numbers"),
    "subtraction of truths": (lambda x: (x > 0) - (x > 1), r"numpy\.subtract"),
}


@pytest.mark.parametrize(("f", "message"), WRONG.values(), ids=WRONG)
def test_what_an_expression_cannot_do(f, message):
    with pytest.raises(TraceError, match=message):
        elementwise(f)(X)


def test_an_element_has_no_methods_of_arrays():
    with pytest.raises(AttributeError, match=r"no \.sum: it is one number.*reduction"):
        elementwise(lambda x: x.sum())(X)


@pytest.mark.parametrize("f", [np.maximum, np.minimum, np.less, np.floor, np.sign, np.arctan2])
def test_complex_numbers_have_no_order(f):
    with pytest.raises(TraceError, match=r"complex|not supported"):
        elementwise(lambda z: f(z, z) if f.nin == 2 else f(z))(X + 1j)


def test_complex_numbers_do_not_become_real():
    with pytest.raises(TraceError, match="imaginary part"):
        elementwise(lambda z: z.astype(float))(X + 1j)


def test_the_users_own_errors_pass():
    def f(x):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        elementwise(f)(X)


@pytest.mark.parametrize("f", [elementwise(np.exp), l2norm])
@pytest.mark.parametrize(
    "x",
    [np.array([None]), np.array(["a"]), np.array(["2020"], "M8[Y]"), None, "a", {}],
    ids=["object", "str", "datetime", "None", "text", "dict"],
)
def test_what_is_no_number(f, x):
    with pytest.raises(TypeError, match="takes numbers"):
        f(x)


def test_shapes_that_do_not_broadcast(any_lib):
    with pytest.raises(InputError) as caught:
        run(any_lib, squared_diff, np.ones((2, 3)), np.ones(4))
    assert "(2, 3)" in str(caught.value)
    assert "(4,)" in str(caught.value)


def test_arrays_of_two_libraries(torch):
    with pytest.raises(TypeError, match=r"different libraries.*numpy.*torch"):
        squared_diff(X, torch.ones(2, 3))


def test_arrays_on_two_devices(torch):
    with pytest.raises(InputError, match=r"different devices.*cpu.*meta"):
        squared_diff(torch.ones(3), torch.ones(3, device="meta"))


@pytest.mark.gpu
def test_arrays_on_the_host_and_on_a_gpu(torch):
    with pytest.raises(InputError, match=r"different devices"):
        squared_diff(torch.ones(3), torch.ones(3).cuda())


@pytest.mark.parametrize("axis", [2, -3, (0, 5)])
def test_an_axis_out_of_range(any_lib, axis):
    with pytest.raises(np.exceptions.AxisError, match="out of bounds"):
        run(any_lib, l2norm, X, axis=axis)


def test_an_axis_twice(any_lib):
    with pytest.raises(InputError, match="twice"):
        run(any_lib, l2norm, X, axis=(1, -1))


def test_empty_slices_without_an_identity(any_lib):
    with pytest.raises(InputError, match=r"\(2, 0\) along axis 1.*identity"):
        run(any_lib, reduction(None, np.maximum), np.zeros((2, 0)), axis=1)


@pytest.mark.parametrize("given", [(), (X,), (X, X, X)])
def test_another_number_of_arguments(given):
    with pytest.raises(TypeError, match=f"got {len(given)} arguments"):
        squared_diff(*given)


@pytest.mark.parametrize("f", [elementwise(lambda: 1), elementwise(lambda *x: 1), l2norm])
def test_no_arguments(f):
    with pytest.raises(TypeError, match=r"got (no|0) arguments"):
        f()


@pytest.mark.parametrize("f", [None, 3, "x + y"])
def test_what_is_no_function(f):
    with pytest.raises(TypeError, match="give a function"):
        elementwise(f)
    with pytest.raises(TypeError, match="give a function"):
        reduction(None, f)
    if f is not None:
        with pytest.raises(TypeError, match="give a function"):
            reduction(None, np.add, post=f)


def test_reduce_must_return_what_it_takes():
    with pytest.raises(TraceError, match="takes 2 numbers and returns 1"):
        reduction(lambda x: (x, x), lambda a, b: a[0])(X)
    with pytest.raises(TraceError, match="takes 1 numbers and returns 2"):
        reduction(None, lambda a, b: (a, b))(X)
    with pytest.raises(TraceError, match="returned NoneType"):
        reduction(None, lambda a, b: None)(X)
    with pytest.raises(TraceError, match="truth of an element"):
        reduction(None, lambda a, b: a if a > b else b)(X)


@pytest.mark.parametrize("identity", [-np.inf, np.nan, 0.5, 2**63])
def test_an_identity_that_the_dtype_has_not(identity):
    f = reduction(None, np.maximum, identity=identity)
    with pytest.raises(InputError, match=r"identity=.*int64 is combined"):
        f(np.ones((2, 3), np.int64))
    f(X)


@pytest.mark.parametrize("identity", ["0", [0], np.zeros(2), object()])
def test_an_identity_that_is_no_number(identity):
    with pytest.raises(InputError, match=r"identity=.*give a number"):
        reduction(None, np.add, identity=identity)(X)


def test_an_identity_for_each_number():
    with pytest.raises(InputError, match="2 numbers are combined"):
        reduction(lambda x: (x, x), lambda a, b: a, identity=0)(X)


# --- use --------------------------------------------------------------------------------------


def test_a_function_made_anew_in_a_loop(any_lib):
    for k in range(5):
        assert run(any_lib, elementwise(lambda x, k=k: x * 0 + k), X).tolist() == [[k] * 3] * 2


def test_a_closure_is_read_when_it_is_first_called():
    k = 1
    f = elementwise(lambda x: x + k)
    np.testing.assert_array_equal(f(X), X + 1)


def test_a_function_keeps_nothing_of_its_arrays():
    class Mine(np.ndarray):
        pass

    f, x = elementwise(np.exp), np.ones(3).view(Mine)
    there = weakref.ref(x)
    f(x)
    del x
    gc.collect()
    assert there() is None


def test_several_threads(any_lib):
    f = elementwise(lambda x, k: x * k + 1)
    norms = reduction(lambda x, k: x * k, lambda a, b: a + b, lambda s: s + 1, 0)

    def work(k):
        x = np.full((k % 3 + 1, 4), float(k))
        return run(any_lib, f, x, float(k)).tolist() == (x * k + 1).tolist() and run(
            any_lib, norms, x, float(k), axis=1
        ).tolist() == [4.0 * k * k + 1] * len(x)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(60)))


@elementwise
def decorated(x, limit):
    """Shrink."""
    return np.sign(x) * np.maximum(abs(x) - limit, 0)


def sum_of(a, b):
    return a + b


def test_a_decorated_function_keeps_its_name():
    assert decorated.__name__ == "decorated"
    assert decorated.__doc__ == "Shrink."
    assert repr(decorated) == "<xpapply.elementwise decorated>"


@pytest.mark.parametrize(
    "f", [decorated, elementwise(np.exp), elementwise(sum_of)], ids=["decorated", "ufunc", "named"]
)
def test_elementwise_functions_travel(f):
    given = (X,) if f.fn is np.exp else (X, 1)
    expected = f(*given)
    for again in (pickle.loads(pickle.dumps(f)), copy.copy(f), copy.deepcopy(f)):
        np.testing.assert_array_equal(again(*given), expected)


def test_reductions_travel():
    f = reduction(None, sum_of, np.sqrt, 0)
    x = abs(X)
    expected = f(x, axis=1)
    for again in (pickle.loads(pickle.dumps(f)), copy.deepcopy(f)):
        np.testing.assert_array_equal(again(x, axis=1), expected)


def test_an_engine_can_be_forced():
    with xpapply.options(engine="array_api"):
        close(squared_diff(X, 1), (X - 1) ** 2, 0)
    with xpapply.options(engine="cupy"), pytest.raises(xpapply.UnsupportedError, match="cupy"):
        squared_diff(X, 1)


def test_python_callables_of_any_kind():
    class Scaled:
        def __init__(self, k):
            self.k = k

        def __call__(self, x):
            return x * self.k

        def method(self, x):
            return x + self.k

    np.testing.assert_array_equal(elementwise(Scaled(3))(X), X * 3)
    np.testing.assert_array_equal(elementwise(Scaled(3).method)(X), X + 3)


# --- derivatives ------------------------------------------------------------------------------

DIFFERENTIABLE = {
    "squared_diff": squared_diff,
    "soft threshold": decorated,
    "where": elementwise(lambda x, y: np.where(x > y, np.exp(x), np.tanh(y))),
    "power": elementwise(lambda x, y: (abs(x) + 1) ** 1.5 / (y * y + 1)),
    "hypot": elementwise(np.hypot),
    "clip": elementwise(lambda x, y: np.clip(x, -0.5, 0.5) * y),
    "several": elementwise(lambda x, y: (x * y, np.sin(x) - y)),
    "dot": lambda x, y: reduction(lambda x, y: x * y, lambda a, b: a + b)(x, y, axis=1),
    "logsumexp": lambda x, y: reduction(
        lambda x, y: (x * y, 1.0), online_logsumexp, lambda s: s[0] + np.log(s[1])
    )(x, y, axis=0),
    "prod": lambda x, y: reduction(None, lambda a, b: a * b)(x, axis=None) * y.sum(),
    "max": lambda x, y: reduction(lambda x, y: x * y, np.maximum)(x, y, axis=1),
}


@pytest.mark.parametrize("f", DIFFERENTIABLE.values(), ids=DIFFERENTIABLE)
def test_derivatives_as_differences(torch, f):
    torch.manual_seed(0)
    x, y = (torch.randn(2, 5, dtype=torch.float64, requires_grad=True) for _ in range(2))
    assert torch.autograd.gradcheck(f, (x, y))


def test_derivatives_as_torchs(torch):
    torch.manual_seed(0)
    x, y = (torch.randn(2, 5, dtype=torch.float64, requires_grad=True) for _ in range(2))
    ours, torchs = squared_diff(x, y).sum(), ((x - y) ** 2).sum()
    for a, b in zip(*(torch.autograd.grad(z, (x, y)) for z in (ours, torchs)), strict=True):
        torch.testing.assert_close(a, b)


def test_no_derivatives_are_recorded_without_need(torch):
    x = torch.ones(3, requires_grad=True)
    with torch.no_grad():
        assert not squared_diff(x, 1).requires_grad
    assert squared_diff(x, 1).requires_grad
    assert not squared_diff(x.detach(), 1).requires_grad

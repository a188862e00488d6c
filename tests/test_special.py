"""xpapply.special is what SciPy and NumPy give for every slice, on every library."""

import functools
import importlib.util
import inspect
import itertools
import math
import warnings
from contextlib import ExitStack

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from slice_cases import (
    arrays,
    axes_of,
    close,
    eps,
    loop,
    loop_in_place,
    run,
    with_axis,
)

import xpapply
from conftest import OF_SLICES, library
from xpapply import InputError, special

scipy_special = library("scipy.special")

FLOATS = ("float16", "float32", "float64")
COMPLEX = ("complex64", "complex128")


def floating(dtype):
    """The dtype that numbers of a dtype are computed in and returned as."""
    return dtype if np.dtype(dtype).kind in "fc" else np.dtype(np.float64)


def of_exp(lib, dtype):
    """The dtype of `numpy.exp`, where NumPy's arrays are; elsewhere that of all integers."""
    of = np.dtype(dtype)
    if lib.name not in ("numpy", "cupy") or of.kind not in "iu":
        return floating(of)
    return np.exp(np.zeros(1, of)).dtype


def wide(x):
    return x.astype(complex if x.dtype.kind == "c" else float)


# --- SciPy's own tests ------------------------------------------------------------------------

SUITE = "scipy.special.tests.test_logsumexp"
PROMOTED = "an integer counts as float64 in every library; SciPy leaves that to the library"
NOT_C99 = "JAX's own exp, which SciPy's test compares with, has NaN for -inf+infj"


ON_JAX = {
    "test_logsumexp_b_zero",
    "test_logsumexp_sign_zero",
    "test_gh18295",
    "test_gh22903",
    "test_softmax_int_array",
    "test_log_softmax_basic",
    "test_device",
}


def scipy_cases():
    """Every test of SciPy's, with every parameter."""
    suite = pytest.importorskip(SUITE)
    for cls in ("TestLogSumExp", "TestSoftmax", "TestLogSoftmax"):
        for name, f in vars(getattr(suite, cls)).items():
            if not name.startswith("test"):
                continue
            axes = []
            for mark in getattr(f, "pytestmark", ()):
                if mark.name == "parametrize":
                    names = mark.args[0]
                    names = names.replace(" ", "").split(",") if isinstance(names, str) else names
                    values = (v if len(names) > 1 else (v,) for v in mark.args[1])
                    axes.append([dict(zip(names, v, strict=True)) for v in values])
            for combined in itertools.product(*axes):
                kwargs = {k: v for some in combined for k, v in some.items()}
                yield cls, name, kwargs


def scipy_tests():
    found = {}
    for cls, name, kwargs in scipy_cases():
        found.setdefault((cls, name), []).append(kwargs)
    return [pytest.param(*key, v, id=f"{key[0]}-{key[1]}") for key, v in found.items()]


def scipy_skips(name, lib, kwargs):
    """Why a case says nothing about our functions."""
    if name == "test_dtypes_ab" and lib.name in ("torch", "cuda", "jax"):
        whole, bits = (
            [d for d in kwargs.values() if ("int" in d) is kind] for kind in (True, False)
        )
        return PROMOTED if whole and set(bits) & {"float32", "complex64"} else ""
    if name == "test_gh22601_infinite_elements" and lib.name == "jax":
        return NOT_C99
    return ""


@pytest.fixture
def scipys(monkeypatch):
    """SciPy's module of tests, with our functions under SciPy's names."""
    suite = importlib.import_module(SUITE)
    for name in ("logsumexp", "softmax", "log_softmax"):
        monkeypatch.setattr(suite, name, getattr(special, name))
    monkeypatch.setattr("scipy._lib._array_api_override.SCIPY_ARRAY_API", "1")
    return suite


def scipy_namespace(lib):
    # SciPy's own copy, which has moved
    roots = ("scipy._lib", "scipy._external")
    found = (r for r in roots if importlib.util.find_spec(f"{r}.array_api_compat") is not None)
    compat = f"{next(found)}.array_api_compat."
    name = {"cuda": "torch"}.get(lib.name, lib.name)
    module = {"jax": "jax.numpy", "array_api_strict": name}.get(name, compat + name)
    return importlib.import_module(module)


@pytest.mark.parametrize(("cls", "name", "cases"), scipy_tests())
def test_scipys_own_tests(scipys, any_lib, cls, name, cases):
    if any_lib.name == "jax" and name not in ON_JAX:
        pytest.skip("JAX compiles every operation for every shape: a few tests must do")
    array_api = importlib.import_module("scipy._lib._array_api")
    method = getattr(getattr(scipys, cls)(), name)
    needs = inspect.signature(method).parameters
    xp = scipy_namespace(any_lib)
    ran = 0
    with ExitStack() as stack:
        stack.enter_context(any_lib())
        if "xp" in needs:
            stack.enter_context(array_api.default_xp(xp))
        else:
            stack.enter_context(array_api.default_xp(scipy_namespace(ANY_NUMPY)))
        if any_lib.name in ("torch", "cuda"):
            torch = library("torch")
            stack.callback(torch.set_default_dtype, torch.get_default_dtype())
            torch.set_default_dtype(torch.float64)
        if any_lib.name == "cuda":
            stack.enter_context(torch.device("cuda"))
        # the reference in these tests is computed without care
        stack.enter_context(np.errstate(all="ignore"))
        for kwargs in cases:
            if scipy_skips(name, any_lib, kwargs):
                continue
            extra = {"xp": xp} if "xp" in needs else {}
            if "devices" in needs:
                extra["devices"] = [None]
            method(**kwargs, **extra)
            ran += 1
    if not ran:
        pytest.skip(scipy_skips(name, any_lib, cases[0]))


ANY_NUMPY = OF_SLICES[0]


def test_scipys_tests_can_fail(scipys, monkeypatch):
    monkeypatch.setattr(scipys, "logsumexp", lambda a, **_: special.logsumexp(a) + 1e-3)
    with pytest.raises(AssertionError):
        test_scipys_own_tests(scipys, ANY_NUMPY, "TestLogSumExp", "test_array_like", [{}])


# --- CuPy's cases, on every library -----------------------------------------------------------

AXES = [None, 0, 1, -1, (0, 2), (-1, 0, 1)]


@functools.cache
def cube(dtype):
    rng = np.random.default_rng(0)
    if np.dtype(dtype).kind in "iu":
        return rng.integers(0, 9, (2, 3, 4)).astype(dtype)
    x = rng.standard_normal((2, 3, 4))
    return (x + 1j * rng.standard_normal(x.shape) if np.dtype(dtype).kind == "c" else x).astype(
        dtype
    )


@pytest.mark.parametrize("dtype", ["int32", "uint8", *FLOATS, *COMPLEX])
@pytest.mark.parametrize("name", ["logsumexp", "softmax", "log_softmax"])
def test_dtypes_as_scipy(any_lib, name, dtype):
    x = cube(dtype)
    of = floating if name == "logsumexp" else functools.partial(of_exp, any_lib)
    with np.errstate(all="ignore"):
        expected = getattr(scipy_special, name)(x.astype(of(x.dtype)), axis=1)
    got = run(any_lib, getattr(special, name), x, axis=1)
    assert got.dtype == expected.dtype
    if np.dtype(dtype).kind == "c" and name == "log_softmax":  # which turn is a convention
        got, expected = np.exp(got), np.exp(expected)
    close(got, expected, 20 * eps(expected.dtype), 20 * eps(expected.dtype))


@pytest.mark.parametrize("axis", AXES)
def test_axes_and_keepdims_of_logsumexp(any_lib, axis):
    x = cube("float64")
    for keepdims in (False, True):
        expected = scipy_special.logsumexp(x, axis=axis, keepdims=keepdims)
        close(run(any_lib, special.logsumexp, x, axis=axis, keepdims=keepdims), expected, 1e-14)


@pytest.mark.parametrize("axis", AXES)
def test_axes_of_softmax(lib, axis):
    x = cube("float64")
    close(run(lib, special.softmax, x, axis=axis), scipy_special.softmax(x, axis=axis), 1e-13)
    expected = scipy_special.log_softmax(x, axis=axis)
    close(run(lib, special.log_softmax, x, axis=axis), expected, 1e-13, 1e-15)


@pytest.mark.parametrize("shape", [(2, 3, 4), (3, 1), (4,), (), (2, 1, 1)])
def test_weights_broadcast(lib, shape):
    b = np.random.default_rng(1).standard_normal(shape)
    x = cube("float64")
    for kwargs in ({}, {"return_sign": True}):
        expected = scipy_special.logsumexp(x, axis=2, b=b, **kwargs)
        got = run(lib, lambda x, b, kw=kwargs: special.logsumexp(x, 2, b, **kw), x, b)
        for y, e in zip(np.atleast_2d(got), np.atleast_2d(expected), strict=True):
            close(y, e, 1e-12, 1e-13)


INFINITE = {
    "all -inf": [-np.inf, -np.inf],
    "some -inf": [-np.inf, 2.0],
    "inf": [np.inf, 1.0],
    "inf and -inf": [np.inf, -np.inf],
    "nan": [np.nan, 1.0],
    "nan and inf": [np.nan, np.inf],
    "nan and -inf": [-np.inf, np.nan],
    "large": [1e308, 1e308],
    "small": [-1e308, -1e308],
    "zeros": [0.0, -0.0],
}


@pytest.mark.parametrize("values", INFINITE.values(), ids=INFINITE)
@pytest.mark.parametrize("name", ["logsumexp", "softmax", "log_softmax"])
def test_infinite_values_as_scipy(any_lib, name, values):
    x = np.array([values, [1.0, 2.0]])
    with np.errstate(all="ignore"):
        expected = getattr(scipy_special, name)(x, axis=1)
    close(run(any_lib, getattr(special, name), x, axis=1), expected, 1e-14)


@pytest.mark.parametrize("weights", [[1.0, -1.0], [0.0, 1.0], [-1.0, -1.0], [0.0, 0.0]])
@pytest.mark.parametrize("values", INFINITE.values(), ids=INFINITE)
def test_infinite_values_with_weights(lib, values, weights):
    x, b = np.array(values), np.array(weights)
    with np.errstate(all="ignore"):
        some = b != 0  # what has no weight adds nothing
        top = np.max(x[some], initial=-np.inf)
        shift = top if np.isfinite(top) else 0
        total = np.sum(b[some] * np.exp(x[some] - shift))
        expected = np.log(np.abs(total)) + shift, np.sign(total)
    got = run(lib, lambda x, b: special.logsumexp(x, b=b, return_sign=True), x, b)
    for y, e in zip(got, expected, strict=True):
        close(y, e, 1e-14)
    without = np.nan if expected[1] < 0 else expected[0]
    close(run(lib, lambda x, b: special.logsumexp(x, b=b), x, b), without, 1e-14)


def test_numbers_and_lists_are_numpys():
    assert special.logsumexp(3) == 3
    assert isinstance(special.logsumexp([1, 2]), np.float64)
    assert special.softmax(3) == 1
    assert special.logsumexp(1j) == 1j


# --- parity with a loop -----------------------------------------------------------------------


@given(case=with_axis(), keepdims=st.booleans())
def test_logsumexp_as_the_loop(lib, case, keepdims):
    x, axis = case
    with np.errstate(all="ignore"):
        expected = loop(scipy_special.logsumexp, axis, wide(x), keepdims=keepdims)
    got = run(lib, special.logsumexp, x, axis=axis, keepdims=keepdims)
    assert got.dtype == floating(x.dtype)
    close(got, expected, 8 * eps(x.dtype), 8 * eps(x.dtype))


@st.composite
def weighted(draw):
    """An array, an axis, and weights that broadcast with it."""
    x, axis = draw(with_axis())
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shape = [1 if draw(st.booleans()) else n for n in x.shape]
    shape = shape[draw(st.integers(0, len(shape))) :]
    b = rng.standard_normal(shape)
    b[rng.random(shape) < 0.2] = 0
    dtype = draw(st.sampled_from(["float32", "float64", "int32", "uint8", "bool"]))
    b = np.abs(b) * 5 if dtype == "uint8" else b * 5 if dtype == "int32" else b
    return x, axis, b.astype(dtype)


@given(case=weighted())
def test_weighted_logsumexp_as_the_loop(lib, case):
    x, axis, b = case

    def signed(a, b):
        if not a.size:
            return -np.inf, 0, 1
        size, sign = scipy_special.logsumexp(a, b=b, return_sign=True)
        terms = np.where(b == 0, 0, np.abs(b) * np.exp(a - np.max(a)))
        total = np.abs(np.sum(np.where(b == 0, 0, b * np.exp(a - np.max(a)))))
        return size, sign, np.sum(terms) / total if total else np.inf

    with np.errstate(all="ignore"):
        y = wide(x)
        size, sign, condition = (
            loop(lambda *s, k=k: signed(*s)[k], axis, y, b.astype(float)) for k in range(3)
        )
    got = run(lib, lambda a, b: special.logsumexp(a, axis, b, return_sign=True), x, b)
    dtype = floating(np.result_type(x, b))
    assert got[0].dtype == got[1].dtype == dtype
    precision = eps(x.dtype) if x.dtype == dtype else max(eps(x.dtype), eps(b.dtype))
    clear = ~(condition * precision > 1e-3)  # what cancels has no certain sign
    # beside infinity, what overflows in this dtype cancels as well
    most = np.log(np.finfo(np.result_type(dtype, np.float32)).max)

    def overflows(a, b):
        a = np.where(b == 0, -np.inf, a)
        return bool(np.any(a == np.inf) and np.any((a > most) & (a < np.inf)))

    clear &= loop(overflows, axis, y, b.astype(float)) == 0
    error = 16 * precision * np.where(np.isfinite(condition), condition, 1)
    close(np.where(clear, got[0], 0), np.where(clear, size, 0), 8 * eps(dtype), error)
    close(np.where(clear, got[1], 0), np.where(clear, sign, 0), 0)
    unsigned = run(lib, lambda a, b: special.logsumexp(a, axis, b), x, b)
    close(unsigned, np.where(got[1] < 0, np.nan, got[0]), 0)


@given(case=with_axis(dtypes=COMPLEX, special=False, exponents={"float32": (-2, 1)}))
def test_complex_logsumexp_as_the_loop(lib, case):
    x, axis = case

    def condition(z):
        e = np.exp(z - np.max(z.real)) if z.size else z
        return np.sum(np.abs(e)) / np.abs(np.sum(e)) if z.size else 1

    with np.errstate(all="ignore"):
        expected = loop(scipy_special.logsumexp, axis, x.astype(complex), dtype=complex)
        worst = loop(condition, axis, x.astype(complex))
    got = run(lib, special.logsumexp, x, axis=axis)
    assert got.dtype == x.dtype
    scale = max(1.0, float(np.max(np.abs(x), initial=0)))
    error = 16 * eps(x.dtype) * worst * scale
    close(got.real, expected.real, 8 * eps(x.dtype), error)
    assert np.all(np.abs(np.exp(1j * got.imag) - np.exp(1j * expected.imag)) <= error)
    assert np.all(np.abs(got.imag) <= math.pi * (1 + eps(x.dtype)))


@given(case=with_axis(empty=False))
def test_softmax_as_the_loop(lib, case):
    x, axis = case
    with np.errstate(all="ignore"):
        expected = loop_in_place(scipy_special.softmax, axis, wide(x))
    got = run(lib, special.softmax, x, axis=axis)
    assert got.dtype == of_exp(lib, x.dtype)
    # exp of a difference that is rounded; what is smaller than e**-750 is 0
    close(got, expected, 800 * eps(got.dtype), float(np.finfo(got.dtype).tiny))


@given(case=with_axis(empty=False))
def test_log_softmax_as_the_loop(lib, case):
    x, axis = case
    with np.errstate(all="ignore"):
        expected = loop_in_place(scipy_special.log_softmax, axis, wide(x))
    got = run(lib, special.log_softmax, x, axis=axis)
    assert got.dtype == of_exp(lib, x.dtype)
    close(got, expected, 8 * eps(got.dtype), 8 * eps(got.dtype))


@given(case=with_axis(dtypes=COMPLEX, special=False, exponents={"float32": (-2, 1)}, empty=False))
def test_complex_softmax_as_the_loop(lib, case):
    x, axis = case
    total = loop(
        lambda z: np.sum(np.exp(z - np.max(z.real))),
        axis,
        x.astype(complex),
        dtype=complex,
        keepdims=True,
    )
    top = loop(lambda z: np.max(z.real), axis, x.astype(complex), keepdims=True)
    expected = np.exp(x.astype(complex) - top) / total
    scale = max(1.0, float(np.max(np.abs(x))))
    error = 64 * eps(x.dtype) * scale * x.size / np.abs(total) ** 2 + np.finfo(x.dtype).tiny
    got = run(lib, special.softmax, x, axis=axis)
    assert np.all(np.abs(got - expected) <= error)
    logs = run(lib, special.log_softmax, x, axis=axis)
    assert logs.dtype == got.dtype == x.dtype
    assert np.all(np.abs(np.exp(logs.astype(complex)) - expected) <= error)
    assert np.all(np.abs(logs.imag) <= math.pi * (1 + 4 * eps(x.dtype)))


NORMS = [0, 1, 2, math.inf, -math.inf, 0.5, 3, -1, "l1", "l2", "max"]
NAMED = {"l1": 1, "l2": 2, "max": math.inf}
MODERATE = {"float16": (-1, 1), "float32": (-6, 6), "float64": (-30, 30)}


@given(
    case=with_axis(("bool", "int32", "uint8", *FLOATS, *COMPLEX), exponents=MODERATE),
    ord=st.sampled_from(NORMS),
    keepdims=st.booleans(),
)
def test_norm_as_the_loop(lib, case, ord, keepdims):
    x, axis = case
    slice_size = math.prod(x.shape[a] for a in axes_of(axis, x.ndim))
    if not slice_size and ord in (math.inf, -math.inf, "max"):
        with pytest.raises(InputError, match="no elements"):
            run(lib, special.norm, x, ord=ord, axis=axis)
        return
    with np.errstate(all="ignore"):
        expected = loop(
            lambda s: np.linalg.norm(s, NAMED.get(ord, ord)), axis, wide(x), keepdims=keepdims
        )
    got = run(lib, special.norm, x, ord=ord, axis=axis, keepdims=keepdims)
    assert got.dtype == np.zeros(0, floating(x.dtype)).real.dtype
    close(got, expected, 32 * eps(x.dtype), float(np.finfo(got.dtype).smallest_subnormal))


@given(
    case=with_axis(
        ("bool", "int32", "uint8", *FLOATS, *COMPLEX), exponents=MODERATE, special=False
    ),
    ord=st.sampled_from([0, 1, 2, math.inf, 0.5, 3, "l1", "max"]),
)
def test_normalize_as_the_loop(lib, case, ord):
    x, axis = case

    def unit(s):
        size = np.linalg.norm(s, NAMED.get(ord, ord)) if s.size else 1
        return s / size if size else s

    y = wide(x)
    expected = loop_in_place(unit, axis, y, dtype=y.dtype)
    got = run(lib, special.normalize, x, ord=ord, axis=axis)
    assert got.dtype == floating(x.dtype)
    tiny = 2 * float(np.finfo(got.dtype).smallest_subnormal)
    close(got.real, expected.real, 32 * eps(x.dtype), tiny)
    close(got.imag, expected.imag, 32 * eps(x.dtype), tiny)


def variance_error(y, precision, axis):
    """What two passes may be off by: the mean is rounded, and its error squared is added."""
    largest = loop(lambda s: np.max(np.abs(s), initial=0), axis, y)
    return (64 * precision * largest) ** 2


@given(case=with_axis(), correction=st.sampled_from([0, 1, 1.5, -1, 7]), keepdims=st.booleans())
def test_mean_var_as_the_loop(lib, case, correction, keepdims):
    x, axis = case
    precision = max(eps(x.dtype), eps("float64"))
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        y = wide(x)
        mean, var = (
            loop(f, axis, y) for f in (np.mean, functools.partial(np.var, ddof=correction))
        )
        allowed = variance_error(np.where(np.isfinite(y), y, 0), precision, axis)
        size = loop(lambda s: np.sum(np.abs(s), initial=0) / s.size, axis, np.nan_to_num(y))
    got = run(lib, special.mean_var, x, axis=axis, correction=correction, keepdims=keepdims)
    if keepdims:
        mean, var, size, allowed = (
            np.expand_dims(z, axes_of(axis, x.ndim)) for z in (mean, var, size, allowed)
        )
    assert got[0].dtype == got[1].dtype == floating(x.dtype)
    freedom = math.prod(x.shape[a] for a in axes_of(axis, x.ndim)) - correction
    close(got[0], mean, 8 * precision, np.nan_to_num(32 * precision * size))
    exact = np.where(freedom > 0, True, allowed == 0)  # else 0 or a rounding error over 0
    got_var = np.where(exact, got[1], 0)
    tiny = float(np.finfo(got[1].dtype).smallest_subnormal)
    error = allowed * max(1, 8 / abs(freedom) if freedom else 1) + tiny
    close(got_var, np.where(exact, var, 0), 64 * precision, error)


@given(case=with_axis(dtypes=COMPLEX, special=False), correction=st.sampled_from([0, 1]))
def test_complex_mean_var_as_the_loop(lib, case, correction):
    x, axis = case
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        y = x.astype(complex)
        mean = loop(np.mean, axis, y, dtype=complex)
        var = loop(functools.partial(np.var, ddof=correction), axis, y)
        largest = float(np.max(np.abs(x), initial=0))
    got = run(lib, special.mean_var, x, axis=axis, correction=correction)
    assert got[0].dtype == x.dtype
    assert got[1].dtype == x.real.dtype
    error = 32 * eps(x.dtype) * largest
    close(got[0].real, mean.real, 0, error)
    close(got[0].imag, mean.imag, 0, error)
    if math.prod(x.shape[a] for a in axes_of(axis, x.ndim)) > correction:
        close(got[1], var, 64 * eps(x.dtype), error**2)


@given(case=with_axis(), correction=st.sampled_from([0, 1]), eps_=st.sampled_from([0.0, 1e-5]))
def test_standardize_as_the_loop(lib, case, correction, eps_):
    x, axis = case
    precision = max(eps(x.dtype), eps("float64"))

    def standard(s):
        return (s - np.mean(s)) / np.sqrt(np.var(s, ddof=correction) + eps_)

    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        y = wide(x)
        expected = loop_in_place(standard, axis, y)
        scale = np.broadcast_to(
            np.expand_dims(
                loop(lambda s: np.sqrt(np.var(s, ddof=correction) + eps_), axis, y),
                axes_of(axis, x.ndim),
            ),
            x.shape,
        )
        top = np.broadcast_to(
            np.expand_dims(
                loop(lambda s: np.max(np.abs(s), initial=0), axis, y), axes_of(axis, x.ndim)
            ),
            x.shape,
        )
        error = 64 * precision * top / scale
    got = run(lib, special.standardize, x, axis=axis, correction=correction, eps=eps_)
    assert got.dtype == floating(x.dtype)
    clear = ~(error > 0.1) & ~(scale == 0)  # constant slices but for rounding
    error = np.where(np.isfinite(error), error, 0)
    close(np.where(clear, got, 0), np.where(clear, expected, 0), 64 * precision, error)


@given(case=with_axis(), keepdims=st.booleans())
def test_argmax_and_max_as_the_loop(lib, case, keepdims):
    x, axis = case
    if not math.prod(x.shape[a] for a in axes_of(axis, x.ndim)):
        with pytest.raises(InputError, match="no elements"):
            run(lib, special.argmax_and_max, x, axis=axis)
        return
    position = loop(np.argmax, axis, x, keepdims=keepdims, dtype=np.int64)
    value = loop(np.max, axis, x, keepdims=keepdims, dtype=x.dtype)
    got = run(lib, special.argmax_and_max, x, axis=axis, keepdims=keepdims)
    assert got[0].dtype == np.int64
    assert got[1].dtype == x.dtype
    np.testing.assert_array_equal(got[0], position)
    np.testing.assert_array_equal(got[1], value)


@st.composite
def pairs(draw):
    """Two arrays that broadcast, in any layout."""
    x = draw(arrays(dtypes=("int32", "uint8", *FLOATS, *COMPLEX)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shape = [1 if draw(st.booleans()) else n for n in x.shape]
    y = rng.integers(0, 9, shape[draw(st.integers(0, len(shape))) :])
    return x, y.astype(draw(st.sampled_from(["int32", "float32", "float64", "complex64"])))


@given(case=pairs())
def test_squared_diff_as_numpy(lib, case):
    x, y = case
    with np.errstate(all="ignore"):
        expected = (x - y) * (x - y)
    got = run(lib, special.squared_diff, x, y)
    assert got.dtype == expected.dtype
    precision = 8 * eps(expected.dtype) if expected.dtype.kind in "fc" else 0
    if expected.dtype.kind == "c":  # NaN in either part makes both uncertain
        got, expected = (
            np.nan_to_num(got, posinf=0, neginf=0),
            np.nan_to_num(expected, posinf=0, neginf=0),
        )
        assert np.all(np.abs(got - expected) <= precision * np.abs(expected))
        return
    close(got, expected, precision)


# --- what is asked of results -----------------------------------------------------------------

IN_PLACE = ["softmax", "log_softmax", "standardize", "normalize"]
NUMBERS = ["logsumexp", "norm", "mean_var"]


@pytest.mark.parametrize("name", IN_PLACE)
@pytest.mark.parametrize("shape", [(3, 0), (0, 3), (0, 0)])
def test_empty_slices_stay_empty(any_lib, name, shape):
    assert run(any_lib, getattr(special, name), np.zeros(shape), axis=1).shape == shape


def test_empty_slices_have_the_sum_of_nothing(any_lib):
    x = np.zeros((2, 0))
    assert run(any_lib, special.logsumexp, x, axis=1).tolist() == [-np.inf] * 2
    size, sign = run(any_lib, special.logsumexp, x, axis=1, return_sign=True)
    assert (size.tolist(), sign.tolist()) == ([-np.inf] * 2, [0, 0])
    assert run(any_lib, special.norm, x, axis=1).tolist() == [0, 0]
    mean, var = run(any_lib, special.mean_var, x, axis=1)
    assert np.isnan([mean, var]).all()


@pytest.mark.parametrize("name", [*NUMBERS, "argmax_and_max"])
def test_no_slices_have_no_results(lib, name):
    got = run(lib, getattr(special, name), np.zeros((0, 3)), axis=1)
    assert np.shape(got)[-1] == 0


@pytest.mark.parametrize("name", [*IN_PLACE, *NUMBERS, "argmax_and_max"])
def test_arguments_stay_as_they_are(lib, name):
    x = cube("float64").copy()
    with lib():
        own = lib.array(x)
        getattr(special, name)(own, axis=1)
        np.testing.assert_array_equal(lib.numpy(own), cube("float64"))


@pytest.mark.parametrize("name", [*IN_PLACE, *NUMBERS, "argmax_and_max"])
def test_results_are_of_the_arrays_library(any_lib, name):
    with any_lib():
        own = any_lib.array(cube("float32"))
        result = getattr(special, name)(own, axis=1)
        for y in result if isinstance(result, tuple) else (result,):
            assert type(y) is type(own)
            assert str(y.device) == str(own.device)


@pytest.mark.parametrize("name", IN_PLACE)
def test_results_lie_in_memory_as_the_array(name):
    x = np.asfortranarray(cube("float64"))
    assert getattr(special, name)(x, axis=1).strides == x.strides


def test_named_tuples():
    mean, var = result = special.mean_var([1.0, 3.0])
    assert (result.mean, result.var) == (mean, var) == (2, 1)
    result = special.argmax_and_max([1.0, 3.0])
    assert (result.argmax, result.max) == (1, 3)


def test_an_axis_of_zero_axes_is_every_element(lib):
    x = cube("float64")
    close(run(lib, special.logsumexp, x, axis=()), x, 1e-15)
    close(run(lib, special.softmax, x, axis=()), np.ones_like(x), 0)


def test_axis_as_a_list():
    x = cube("float64")
    np.testing.assert_array_equal(special.norm(x, axis=[0, 2]), special.norm(x, axis=(0, 2)))


def test_without_64_bits_jax_has_32():
    jax = library("jax")
    whole = jax.numpy.asarray([[1, 2], [3, 4]])
    assert special.logsumexp(whole, axis=1).dtype == np.float32
    assert special.argmax_and_max(whole, axis=1).argmax.tolist() == [1, 1]


def test_conjugate_views_of_tensors_after_plain_ones(torch):
    z = torch.complex(torch.arange(4.0), torch.arange(1.0, 5.0))
    with torch.no_grad():
        plain = special.logsumexp(z)
        conjugate = special.logsumexp(z.conj())
        np.testing.assert_allclose(conjugate.conj().resolve_conj(), plain)
        assert special.norm(z.imag) == special.norm(z.conj().imag)
        assert special.mean_var(z.conj().imag)[0] == -2.5


def test_bfloat16_tensors_are_returned_as_such(torch):
    x = torch.arange(6.0).reshape(2, 3).to(torch.bfloat16)
    with torch.no_grad():
        y = special.softmax(x, axis=1)
    assert y.dtype == torch.bfloat16
    torch.testing.assert_close(y, torch.softmax(x, 1))


# --- slices that no engine takes at once -----------------------------------------------------

LONG = {
    "logsumexp": (special.logsumexp, lambda s: scipy_special.logsumexp(s)),
    "weighted logsumexp": (
        lambda x, axis: special.logsumexp(x, axis, b=0.5),
        lambda s: scipy_special.logsumexp(s, b=0.5),
    ),
    "norm": (special.norm, np.linalg.norm),
    "norm 1": (functools.partial(special.norm, ord=1), lambda s: np.linalg.norm(s, 1)),
    "norm inf": (functools.partial(special.norm, ord=np.inf), lambda s: np.linalg.norm(s, np.inf)),
    "norm 3": (functools.partial(special.norm, ord=3), lambda s: np.linalg.norm(s, 3)),
    "mean": (lambda x, axis: special.mean_var(x, axis)[0], np.mean),
    "var": (lambda x, axis: special.mean_var(x, axis)[1], np.var),
    "argmax": (lambda x, axis: special.argmax_and_max(x, axis)[0], np.argmax),
    "max": (lambda x, axis: special.argmax_and_max(x, axis)[1], np.max),
    "top of softmax": (
        lambda x, axis: special.softmax(x, axis).max(axis),
        lambda s: scipy_special.softmax(s).max(),
    ),
}


@functools.cache
def long_slices():
    x = np.random.default_rng(0).standard_normal((2, 150_001))
    x[0] += np.linspace(-300, 300, x.shape[1])  # later pieces have other maxima and means
    x[1] += np.linspace(40, 0, x.shape[1])
    return x


@pytest.mark.parametrize("name", LONG)
def test_long_slices(lib, name):
    ours, right = LONG[name]
    if name == "top of softmax" and lib.name not in ("numpy", "cupy"):
        pytest.skip("max is spelled in another way")
    x = long_slices()
    expected = np.array([right(s) for s in x])
    blocks = xpapply.options(block_bytes=1 << 16)
    with blocks:
        close(run(lib, functools.partial(ours, axis=1), x), expected, 1e-12, 1e-11)
        close(run(lib, functools.partial(ours, axis=0), x.T.copy()), expected, 1e-12, 1e-11)
        close(
            run(lib, functools.partial(ours, axis=(0, 2)), x.reshape(1, 2, -1)),
            expected,
            1e-12,
            1e-13,
        )


@pytest.mark.parametrize("at", [0, 1, 70_000, 150_000])
def test_one_nan_in_a_long_slice(lib, at):
    x = long_slices().copy()
    x[0, at] = np.nan
    position, largest = run(lib, special.argmax_and_max, x, axis=1)
    assert position.tolist() == [at, np.argmax(x[1])]
    np.testing.assert_array_equal(largest, x.max(1))
    for f in (special.logsumexp, special.norm, lambda x, axis: special.mean_var(x, axis).var):
        assert np.isnan(run(lib, f, x, axis=1)).tolist() == [True, False]


@pytest.mark.parametrize("ord", [1, math.inf])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_vectors_of_subnormal_numbers_have_a_direction(lib, ord, dtype):
    x = np.array([3, 4, 0]).astype(dtype) * np.finfo(dtype).smallest_subnormal
    expected = np.array([3, 4, 0]) / (7 if ord == 1 else 4)
    close(run(lib, special.normalize, x, ord=ord), expected, 2 * eps(dtype))


# --- accuracy ---------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_what_is_far_below_the_maximum_counts(lib, dtype):
    got = run(lib, special.logsumexp, np.array([0.0, -40.0], dtype))
    assert got.real == pytest.approx(4.248354255291589e-18, rel=1e-14, abs=0)
    got = run(lib, special.log_softmax, np.array([0.0, -40.0], dtype))
    assert got[0].real == pytest.approx(-4.248354255291589e-18, rel=1e-14, abs=0)


def test_variance_where_the_mean_is_large(lib):
    x = np.random.default_rng(0).standard_normal((3, 1000))
    shifted = 1e8 + x
    exact = np.array([np.var((s - 1e8).astype(np.longdouble)) for s in shifted], float)
    mean, var = run(lib, special.mean_var, shifted, axis=1)
    np.testing.assert_allclose(var, exact, rtol=1e-12)
    np.testing.assert_allclose(mean - 1e8, (shifted - 1e8).mean(1), atol=1e-7)


def test_logsumexp_of_a_million_float32(lib):
    x = np.random.default_rng(0).standard_normal(10**6).astype("f4")
    exact = scipy_special.logsumexp(x.astype(float))
    assert run(lib, special.logsumexp, x) == pytest.approx(exact, rel=2e-6)
    assert run(lib, special.logsumexp, x * 100) == pytest.approx(
        scipy_special.logsumexp((x * 100).astype(float)), rel=2e-6
    )


def test_float16_is_computed_in_more_bits(lib):
    x = np.full((2, 100), 1000, np.float16)  # squares and sums overflow
    assert run(lib, special.norm, x, axis=1).tolist() == [10000, 10000]
    mean, var = run(lib, special.mean_var, x, axis=1)
    assert (mean.tolist(), var.tolist()) == ([1000, 1000], [0, 0])
    close(run(lib, special.softmax, x, axis=1), np.full(x.shape, 0.01), 1e-3)
    large = np.array([6e4, 6e4], np.float16)
    assert run(lib, special.logsumexp, large) == np.float16(6e4 + math.log(2))


@pytest.mark.parametrize("scale", [1e30, 1e-30])
@pytest.mark.parametrize("ord", [1, math.inf, 0])
def test_magnitudes_of_complex_numbers_have_no_squares(lib, ord, scale):
    x = (np.array([[3 + 4j, 0], [1j, 2]]) * scale).astype("complex64")
    expected = np.linalg.norm(x.astype(complex), ord, axis=1)
    close(run(lib, special.norm, x, ord=ord, axis=1), expected, 1e-6)


def test_complex_weights_of_any_size(lib):
    x = np.zeros(2, "complex64")
    got = run(lib, lambda a, b: special.logsumexp(a, b=b), x, np.array([1e30, 1e30j], "c8"))
    assert got == pytest.approx(complex(math.log(math.sqrt(2) * 1e30), math.pi / 4), rel=1e-6)


def test_a_complex_sum_of_zero_has_no_sign(lib):
    x, b = np.zeros(2, complex), np.array([1.0, -1.0])
    size, sign = run(lib, lambda a, b: special.logsumexp(a, b=b, return_sign=True), x, b)
    assert (size, sign) == (-np.inf, 0)


def test_an_infinite_part_leaves_the_other_alone(lib):
    if lib.name == "array_api_strict":
        pytest.skip("the standard makes no complex array of two real ones")
    mean, _ = run(lib, special.mean_var, np.array([complex(1, np.inf), complex(3, 1)]))
    assert (mean.real, mean.imag) == (2, np.inf)


def test_imaginary_parts_of_log_softmax_are_principal(lib):
    got = run(lib, special.log_softmax, np.array([10j, 10j]))
    np.testing.assert_allclose(got, [-math.log(2)] * 2, atol=1e-14)


# --- numbers as parameters --------------------------------------------------------------------


@pytest.mark.parametrize("b", [-1, 300, True, 2.5, np.int64(-3), np.float32(2)])
def test_weights_need_not_fit_into_whole_numbers(lib, b):
    x = np.array([1, 2, 250], np.uint8)
    expected = scipy_special.logsumexp(x, b=b, return_sign=True)
    got = run(lib, lambda x: special.logsumexp(x, b=b, return_sign=True), x)
    close(got[0], expected[0], 1e-15)
    assert got[1] == expected[1]


def test_a_number_with_an_array_of_weights(lib):
    b = np.array([1, 2, 250], np.uint8)
    got = run(lib, lambda b: special.logsumexp(1000, b=b), b)
    close(got, scipy_special.logsumexp(1000, b=b), 1e-15)


@pytest.mark.parametrize("correction", [-1, 0, 1, True, np.int64(1), 0.5, np.float32(0.5)])
def test_any_number_is_a_correction(lib, correction):
    x = np.array([1, 2, 250], np.uint8)
    _, var = run(lib, special.mean_var, x, correction=correction)
    assert var == pytest.approx(np.var(x, ddof=correction), rel=1e-14)


def test_eps_is_not_rounded_to_float16(lib):
    x = np.ones(4, np.float16)
    assert run(lib, special.standardize, x, eps=1e-9).tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("ord", [np.int64(3), np.float32(0.5), np.float64(2), True, "inf"])
def test_any_number_is_an_order(lib, ord):
    x = cube("float64")
    expected = np.linalg.norm(x, math.inf if ord == "inf" else float(ord), axis=1)
    close(run(lib, special.norm, x, ord=ord, axis=1), expected, 1e-14)


def test_the_power_of_a_norm_is_not_rounded_to_float16(lib):
    x = np.array([3, 4, 5], np.float16)
    expected = np.linalg.norm(x.astype(float), 2.7)
    assert run(lib, special.norm, x, ord=2.7) == np.float16(expected)


@pytest.mark.parametrize("x", [1e6, -1e6])
def test_numbers_beyond_float16_are_infinite_in_silence(lib, x):
    got = run(lib, lambda a: special.squared_diff(a, x), np.ones(2, np.float16))
    assert got.tolist() == [np.inf, np.inf]


# --- errors -----------------------------------------------------------------------------------

ALL = {
    **{name: getattr(special, name) for name in (*IN_PLACE, *NUMBERS, "argmax_and_max")},
    "norm inf": functools.partial(special.norm, ord=np.inf),
}


@pytest.mark.parametrize("f", ALL.values(), ids=ALL)
@pytest.mark.parametrize("axis", [2, -3, (0, 2)])
def test_an_axis_out_of_range(any_lib, f, axis):
    with pytest.raises(np.exceptions.AxisError, match="out of bounds"):
        run(any_lib, f, np.ones((2, 3)), axis=axis)


@pytest.mark.parametrize("f", ALL.values(), ids=ALL)
def test_an_axis_twice(any_lib, f):
    with pytest.raises(InputError, match="twice"):
        run(any_lib, f, np.ones((2, 3)), axis=(0, -2))


@pytest.mark.parametrize("axis", [1.0, "0", (0, 1.0)])
def test_an_axis_that_is_no_whole_number(axis):
    special.norm(np.ones((2, 3)), axis=1)
    special.norm(np.ones((2, 3)), axis=(0, 1))
    with pytest.raises(TypeError, match="integer"):
        special.norm(np.ones((2, 3)), axis=axis)


@pytest.mark.parametrize("f", ALL.values(), ids=ALL)
@pytest.mark.parametrize(
    "x",
    [
        np.array([1, None], object),
        np.array(["a"]),
        np.array([b"a"]),
        np.array(["2020"], "M8[Y]"),
        np.array([1], "m8[s]"),
        np.zeros(2, "i4,f4"),
        "text",
        None,
    ],
    ids=["object", "str", "bytes", "datetime", "timedelta", "record", "text", "None"],
)
def test_what_is_no_number(f, x):
    with pytest.raises(TypeError, match="it takes numbers"):
        f(x)


@pytest.mark.parametrize("f", ALL.values(), ids=ALL)
def test_masked_arrays(f):
    with pytest.raises(TypeError, match=r"MaskedArray.*fill"):
        f(np.ma.array([1.0, 2.0], mask=[True, False]))


def test_shapes_that_do_not_broadcast(any_lib):
    for f in (special.squared_diff, lambda a, b: special.logsumexp(a, b=b)):
        with pytest.raises(InputError) as caught:
            run(any_lib, f, np.ones((2, 3)), np.ones(4))
        assert "(2, 3)" in str(caught.value)
        assert "(4,)" in str(caught.value)


def test_arrays_of_two_libraries(torch):
    with pytest.raises(TypeError, match=r"different libraries.*numpy.*torch.*Bring them"):
        special.squared_diff(np.ones(3), torch.ones(3))


def test_arrays_on_two_devices(torch):
    with pytest.raises(InputError, match=r"different devices.*cpu.*meta.*Bring them"):
        special.squared_diff(torch.ones(3), torch.ones(3, device="meta"))


@pytest.mark.gpu
def test_arrays_on_the_host_and_on_a_gpu(torch):
    with pytest.raises(InputError, match="different devices"):
        special.logsumexp(torch.ones(3).cuda(), b=torch.ones(3))


@pytest.mark.parametrize("f", [special.argmax_and_max, functools.partial(special.norm, ord=np.inf)])
def test_slices_of_nothing_have_no_maximum(any_lib, f):
    with pytest.raises(InputError, match=r"\(2, 0\) along axis 1: slices of no elements"):
        run(any_lib, f, np.zeros((2, 0)), axis=1)


def test_complex_numbers_have_no_maximum(any_lib):
    with pytest.raises(TypeError, match="no order"):
        run(any_lib, special.argmax_and_max, cube("complex64"))


@pytest.mark.parametrize("ord", ["fro", "nuc", math.nan, None, [1], 1j, "L2"])
def test_an_order_that_is_none(any_lib, ord):
    for f in (special.norm, special.normalize):
        with pytest.raises(InputError, match=r"ord=.*use a number"):
            run(any_lib, f, np.ones(3), ord=ord)


def test_an_engine_that_cannot_run_it():
    with xpapply.options(engine="cupy"), pytest.raises(xpapply.UnsupportedError, match="cupy"):
        special.norm(np.ones(3))


# --- derivatives ------------------------------------------------------------------------------


def differentiable(torch, dtype=None):
    torch.manual_seed(0)
    return torch.randn(2, 3, 4, dtype=dtype or torch.float64, requires_grad=True)


TORCHS = {
    "logsumexp": (lambda x: special.logsumexp(x, 1), lambda t, x: t.logsumexp(x, 1)),
    "logsumexp of all": (special.logsumexp, lambda t, x: t.logsumexp(x, (0, 1, 2))),
    "softmax": (lambda x: special.softmax(x, 1), lambda t, x: t.softmax(x, 1)),
    "log_softmax": (lambda x: special.log_softmax(x, -1), lambda t, x: t.log_softmax(x, -1)),
    **{
        f"norm {p}": (
            lambda x, p=p: special.norm(x, p, 1),
            lambda t, x, p=p: t.linalg.vector_norm(x, p, 1),
        )
        for p in (1, 2, 3, 0.5, math.inf, -math.inf)
    },
    "normalize": (
        lambda x: special.normalize(x, axis=1),
        lambda t, x: t.nn.functional.normalize(x, dim=1),
    ),
    "mean": (lambda x: special.mean_var(x, 1).mean, lambda t, x: t.mean(x, 1)),
    "var": (
        lambda x: special.mean_var(x, (0, 2), 1).var,
        lambda t, x: t.var(x, (0, 2), correction=1),
    ),
    "standardize": (
        lambda x: special.standardize(x, 2, eps=1e-3),
        lambda t, x: t.nn.functional.layer_norm(x, (4,), eps=1e-3),
    ),
    "squared_diff": (lambda x: special.squared_diff(x, x[:1]), lambda t, x: (x - x[:1]) ** 2),
    "max": (lambda x: special.argmax_and_max(x, 1).max, lambda t, x: t.amax(x, 1)),
}


@pytest.mark.parametrize(("ours", "torchs"), TORCHS.values(), ids=TORCHS)
def test_derivatives_as_torchs(torch, ours, torchs):
    x = differentiable(torch)
    y, expected = ours(x), torchs(torch, x)
    torch.testing.assert_close(y, expected)
    g = torch.randn_like(y)
    found, right = (torch.autograd.grad(z, x, g)[0] for z in (y, expected))
    torch.testing.assert_close(found, right, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("ours", [f for f, _ in TORCHS.values()], ids=TORCHS)
def test_derivatives_as_differences(torch, ours):
    assert torch.autograd.gradcheck(ours, differentiable(torch).detach()[:, :, :2].requires_grad_())


def test_derivatives_of_weights(torch):
    x, b = differentiable(torch), differentiable(torch).detach().abs().requires_grad_()
    assert torch.autograd.gradcheck(lambda x, b: special.logsumexp(x, 1, b), (x, b))
    signed = b.detach() * torch.tensor([1.0, -1.0, 3.0])[:, None]
    f = lambda x, b: special.logsumexp(x, 1, b, return_sign=True)[0]  # noqa: E731
    assert torch.autograd.gradcheck(f, (x, signed.requires_grad_()))


@pytest.mark.parametrize("name", ["logsumexp", "softmax", "norm", "standardize", "normalize"])
def test_derivatives_of_complex_functions(torch, name):
    torch.manual_seed(0)
    z = torch.randn(2, 3, dtype=torch.complex128, requires_grad=True)
    assert torch.autograd.gradcheck(lambda z: getattr(special, name)(z, axis=1), z)


@pytest.mark.parametrize("name", ["logsumexp", "softmax", "log_softmax"])
def test_derivatives_beside_masked_elements(torch, name):
    x = torch.tensor([[1.0, -math.inf, 2.0], [0.0, 0.0, -math.inf]], dtype=torch.float64)
    x.requires_grad_()
    y = getattr(special, name)(x, axis=1)
    expected = getattr(torch, name)(x, 1)
    g = torch.where(torch.isfinite(y.detach()), 1.0, 0.0) * torch.arange(1.0, 4)[: y.shape[-1]]
    for z in (y, expected):
        assert torch.isfinite(torch.autograd.grad(z, x, g, retain_graph=True)[0]).all()
    found, right = (torch.autograd.grad(z, x, g)[0] for z in (y, expected))
    torch.testing.assert_close(found, right)


def test_derivatives_of_slices_that_are_masked_whole(torch):
    x = torch.full((2, 3), -math.inf, dtype=torch.float64)
    x[1] = 1.0
    x.requires_grad_()
    g = torch.autograd.grad(special.logsumexp(x, 1).sum(), x)[0]
    assert torch.isfinite(g).all()


@pytest.mark.parametrize("ord", [1, 2, 3, math.inf])
def test_derivatives_at_zero(torch, ord):
    x = torch.zeros(2, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.grad(special.norm(x, ord, 1).sum(), x)[0].isfinite().all()
    assert torch.autograd.grad(special.normalize(x, ord, 1).sum(), x)[0].isfinite().all()


def test_second_derivatives(torch):
    x = differentiable(torch).detach()[0].requires_grad_()
    assert torch.autograd.gradgradcheck(lambda x: special.logsumexp(x, 1), x)


def test_results_of_tensors_without_gradients_have_none(torch):
    assert not special.norm(torch.ones(3)).requires_grad
    with torch.no_grad():
        assert not special.norm(differentiable(torch)).requires_grad

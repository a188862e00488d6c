"""xpapply.special is what SciPy's own tests and CuPy's cases ask for, on every library."""

import functools
import importlib.util
import inspect
import itertools
from contextlib import ExitStack

import numpy as np
import pytest
from slice_cases import (
    close,
    eps,
    run,
)
from special_cases import COMPLEX, FLOATS, cube, floating, of_exp, scipy_special

from conftest import OF_SLICES, library
from xpapply import special

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


# JAX compiles every operation for every shape: a few tests must do
@pytest.mark.no_such_case(lambda any_lib, name: any_lib.name == "jax" and name not in ON_JAX)
@pytest.mark.every_case
@pytest.mark.parametrize(("cls", "name", "cases"), scipy_tests())
def test_scipys_own_tests(scipys, any_lib, cls, name, cases):
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

"""Functions that ask a slice for its namespace, as authors of array-agnostic code write them."""

import numpy as np
import pytest
from calls_of import assert_at_once
from thresholds import always_plan

import xpapply
from conftest import Library, library

compat = pytest.importorskip("array_api_compat")
from array_api_compat import (  # noqa: E402
    array_namespace,
    device,
    is_array_api_obj,
    is_numpy_array,
    is_torch_array,
    size,
)

ARR = np.random.default_rng(3).normal(size=(30, 4, 12))


@pytest.fixture(autouse=True)
def _always_plan(monkeypatch):
    always_plan(monkeypatch)


def z_score(v):
    xp = array_namespace(v)
    return (v - xp.mean(v)) / xp.std(v, correction=1)


def robust(v):
    xp = array_namespace(v)
    ordered = xp.sort(v)
    middle = ordered[size(v) // 2]
    spread = xp.sort(xp.abs(v - middle))[size(v) // 2]
    return xp.clip((v - middle) / spread, -3.0, 3.0)


def logsumexp(v):
    xp = array_namespace(v)
    top = xp.max(v)
    return xp.log(xp.sum(xp.exp(v - top))) + top


def by_its_method(v):
    xp = v.__array_namespace__(api_version="2024.12")
    best = xp.max(v)
    return best - xp.mean(v) if best > 1.5 else xp.sum(v)


def asks(v):
    if not is_array_api_obj(v) or device(v) is None:
        raise TypeError("an array is wanted")
    xp = array_namespace(v)
    return xp.max(v) if is_numpy_array(v) or is_torch_array(v) else xp.min(v)


def made(v):
    xp = array_namespace(v)
    weights = xp.linspace(0.0, 1.0, v.shape[0], dtype=v.dtype)
    return xp.sum(v * weights) + xp.sum(xp.astype(v > 0, v.dtype))


@pytest.mark.parametrize("f", [z_score, robust, logsumexp, asks, made], ids=lambda f: f.__name__)
@pytest.mark.parametrize("name", ["numpy", "torch", pytest.param("cupy", marks=pytest.mark.gpu)])
def test_at_once(f, name):
    library(name)
    lib = Library(name, name)
    arr = lib.array(ARR)
    # what asks for classes, as array-api-compat's clip does, is left to the loop on CuPy arrays:
    # these are traced on the host
    assert xpapply.explain(f, -1, arr).vectorized or (name == "cupy" and f in (asks, robust))
    found = lib.numpy(xpapply.apply_along_axis(f, -1, arr))
    with xpapply.options(engine="loop"):
        expected = lib.numpy(xpapply.apply_along_axis(f, -1, arr))
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_slices_are_asked_by_their_method():
    for name in ("numpy", "array_api_strict"):
        library(name)
        arr = Library(name, name).array(ARR)
        assert xpapply.explain(by_its_method, -1, arr).vectorized == (name == "numpy")
        assert xpapply.explain(lambda v: v.__array_namespace__().sum(v), -1, arr).vectorized
    assert_at_once(by_its_method, -1, ARR)


@pytest.mark.parametrize(
    ("module", "xp"),
    [
        ("sklearn.externals.array_api_compat", "sklearn.externals.array_api_compat.numpy"),
        ("scipy._lib._array_api", ""),
    ],
)
def test_copies_inside_other_packages(module, xp):
    """array-api-compat is made to be copied; SciPy asks in a way of its own."""
    asks = pytest.importorskip(module).array_namespace

    def z(v):
        xp = asks(v)
        return (v - xp.mean(v)) / xp.std(v, correction=1)

    assert asks(ARR).__name__.endswith(xp or "array_api_compat.numpy")
    assert xpapply.explain(z, -1, ARR).vectorized
    assert_at_once(z, -1, ARR)
    if xp:  # SciPy takes tensors only where a variable of the environment says so
        of_torch = library("torch").asarray(ARR)
        assert xpapply.explain(z, -1, of_torch).vectorized
        found = xpapply.apply_along_axis(z, -1, of_torch)
        np.testing.assert_allclose(found, np.apply_along_axis(z, -1, ARR), rtol=1e-10)


def test_tensors_have_no_such_method():
    torch = library("torch")
    if hasattr(torch.Tensor, "__array_namespace__"):
        pytest.skip("they have one")
    some = torch.asarray(ARR)
    most = some.max()

    def in_one(v):
        return v.__array_namespace__().sum(v) if (v == most).any() else v[1]

    for f in (by_its_method, in_one):
        with pytest.raises(AttributeError, match="__array_namespace__") as raised:
            xpapply.apply_along_axis(f, -1, some)
        assert "raised at the slice" in raised.value.__notes__[0]


NAMES = """
abs acos all any argmax argmin argsort astype ceil clip concat cumulative_prod cumulative_sum diff
exp expand_dims flip floor isfinite linalg.vector_norm log1p logical_not max mean min nonzero
ones_like permute_dims prod repeat reshape roll round searchsorted sign sort sqrt square stack std
sum take tensordot tile tril trunc unique_counts unique_inverse unique_values var vecdot where
zeros_like matmul minimum asarray full_like unstack
"""
GIVEN = {
    "astype": lambda f, v: f(v, np.float32),
    "clip": lambda f, v: f(v, -1.0, 1.0),
    "concat": lambda f, v: f([v, v]),
    "stack": lambda f, v: f([v, v]),
    "expand_dims": lambda f, v: f(v, axis=0),
    "logical_not": lambda f, v: f(v > 0),
    "nonzero": lambda f, v: f(v > 0)[0].sum(),
    "acos": lambda f, v: f(v / 10),
    "log1p": lambda f, v: f(v * v),
    "sqrt": lambda f, v: f(v * v),
    "permute_dims": lambda f, v: f(v.reshape(3, 4), (1, 0)),
    "repeat": lambda f, v: f(v, 2),
    "reshape": lambda f, v: f(v, (3, 4)),
    "roll": lambda f, v: f(v, 2),
    "searchsorted": lambda f, v: f(np.arange(5.0), v),
    "take": lambda f, v: f(v, np.array([1, 3])),
    "tensordot": lambda f, v: f(v, v, axes=1),
    "tile": lambda f, v: f(v, (2,)),
    "tril": lambda f, v: f(v.reshape(3, 4)),
    "unique_counts": lambda f, v: f(np.round(v)).counts.max(),
    "unique_inverse": lambda f, v: f(np.round(v)).inverse_indices,
    "unique_values": lambda f, v: f(np.round(v)).shape[0],
    "unstack": lambda f, v: f(v)[2],
    "vecdot": lambda f, v: f(v, v),
    "matmul": lambda f, v: f(v.reshape(3, 4), v.reshape(4, 3)),
    "minimum": lambda f, v: f(v, v[::-1]),
    "where": lambda f, v: f(v > 0, v, -v),
    "full_like": lambda f, v: f(v, 2.5) * v,
}


@pytest.mark.parametrize("name", NAMES.split())
def test_functions_of_the_standard(name):
    import operator

    import array_api_compat.numpy as xp

    f = operator.attrgetter(name)(xp)
    call = GIVEN.get(name, lambda f, v: f(v))
    assert_at_once(lambda v: call(f, v), -1, ARR)


def test_what_a_refused_function_called_has_changed():
    """The reason is that of the helper of now."""
    helper = hash  # of a number, which depends on the slice

    def f(v):
        return helper(v.max())

    assert not xpapply.explain(f, -1, ARR).vectorized
    with xpapply.options(fallback="silent"):
        xpapply.apply_along_axis(f, -1, ARR)
    helper = float
    assert xpapply.explain(f, -1, ARR).vectorized
    found = xpapply.apply_along_axis(f, -1, ARR)
    np.testing.assert_array_equal(found, ARR.max(-1))
    helper = hash
    assert "hash" in xpapply.explain(f, -1, ARR).reasons[0]

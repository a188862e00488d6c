"""`xpapply.array_api`: one contract for every library that follows the standard."""

import functools
import inspect
import warnings

import numpy as np
import pytest

import xpapply
from conftest import library
from xpapply.array_api import apply_along_axis

pytestmark = pytest.mark.filterwarnings("ignore::xpapply.FallbackWarning")

CUBE = np.arange(-11.0, 13.0).reshape(2, 3, 4)
NAMESPACES = {
    "numpy": "numpy",
    "cupy": "cupy",
    "torch": "array_api_compat.torch",
    "dask": "array_api_compat.dask.array",
    "jax": "jax.numpy",
    "array_api_strict": "array_api_strict",
    "sparse": "sparse",
    "ndonnx": "ndonnx",
}


@functools.cache
def namespace(name):
    library(name)
    library("array_api_compat")
    found = NAMESPACES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return __import__(found, fromlist=["asarray"])


@pytest.fixture(
    params=[pytest.param(n, marks=[pytest.mark.gpu] * (n == "cupy")) for n in NAMESPACES]
)
def xp(request):
    return namespace(request.param)


def on_host(x):
    kind = type(x).__module__.partition(".")[0]
    if kind == "dask":
        return x.compute()
    if kind == "sparse":
        return x.todense()
    if kind == "cupy":
        return x.get()
    return x.unwrap_numpy() if kind == "ndonnx" else np.asarray(x)


def compared(xp, f, axis, x=CUBE, *args, **kwargs):
    """The results of a library, which are as from NumPy's loop over arrays of NumPy."""
    arr = xp.asarray(x)
    found = apply_along_axis(lambda v: f(xp, v), axis, arr, *args, xp=xp, **kwargs)
    wanted = np.apply_along_axis(lambda v: np.asarray(f(np, v)), axis, x)
    assert type(found).__module__.partition(".")[0] == type(arr).__module__.partition(".")[0]
    assert str(getattr(found, "device", "")) == str(getattr(arr, "device", ""))
    assert tuple(found.shape) == wanted.shape or type(found).__module__.startswith("dask")
    assert on_host(found).shape == wanted.shape
    np.testing.assert_allclose(on_host(found), wanted, rtol=1e-6)
    return found


FUNCTIONS = {
    "as long as the slice": lambda xp, v: v + 1,
    "a number without axes": lambda xp, v: xp.sum(v),
    "an element": lambda xp, v: v[1],
    "two numbers": lambda xp, v: (v[0], v[1]),
    "a list of Python's numbers": lambda xp, v: [float(v[0]), 2.0],
    "Python's number": lambda xp, v: float(v[1]) / 2,
    "an integer": lambda xp, v: v.shape[0],
    "a truth": lambda xp, v: xp.any(v > 5),
    "a matrix": lambda xp, v: v[:, None] * v[None, :2],
    "shorter": lambda xp, v: v[:-1],
    "a branch": lambda xp, v: v[0] if bool(v[0] > 0) else -v[1],
}

NOT_OF_CUPY = "two numbers", "a list of Python's numbers", "Python's number", "an integer"


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("f", FUNCTIONS.values(), ids=FUNCTIONS)
def test_results_are_the_loops(xp, f, axis):
    if xp.__name__ == "cupy" and f in map(FUNCTIONS.get, NOT_OF_CUPY):
        pytest.skip("its own loop takes fewer kinds of results")
    compared(xp, f, axis)


@pytest.mark.parametrize("dtype", ["float32", "int32", "bool", "complex64"])
def test_dtypes_are_kept(xp, dtype):
    if xp.__name__ == "ndonnx" and dtype == "complex64":
        pytest.skip("it has no complex numbers")
    arr = xp.asarray(CUBE[0] > 0 if dtype == "bool" else CUBE[0].astype(dtype))
    found = apply_along_axis(lambda v: v[1:], 1, arr)
    assert str(found.dtype).rpartition(".")[2] == dtype
    np.testing.assert_array_equal(on_host(found), on_host(arr)[:, 1:])


def test_one_slice_and_slices_of_one(xp):
    compared(xp, lambda xp, v: xp.sum(v), 0, CUBE[0, 0])
    compared(xp, lambda xp, v: v * 2, 1, CUBE[:, :1, 0])


def test_further_arguments_are_those_of_the_function(xp):
    def f(v, factor, *, offset=0.0, xp=None):
        assert xp is None  # it is not passed on
        return v[0] * factor + offset

    arr = xp.asarray(CUBE)
    found = on_host(apply_along_axis(f, 1, arr, 3.0, offset=1.0, xp=xp))
    np.testing.assert_allclose(found, CUBE[:, 0] * 3 + 1)
    by_name = apply_along_axis(func1d=lambda v: v[0], axis=1, arr=arr)
    np.testing.assert_allclose(on_host(by_name), CUBE[:, 0])


def test_what_cannot_be_an_answer(xp):
    arr = xp.asarray(CUBE)
    with pytest.raises(np.exceptions.AxisError):
        apply_along_axis(lambda v: v, 3, arr)
    with pytest.raises(ZeroDivisionError) as raised:
        apply_along_axis(lambda v: 1 // 0, 1, arr)
    if not type(arr).__module__.startswith("dask"):
        assert "raised at the slice arr[0, :, 0]" in raised.value.__notes__
    with pytest.raises(ValueError, match="any iteration dimensions are 0"):
        apply_along_axis(lambda v: v[0], 1, xp.asarray(CUBE[:, :, :0]))


def test_another_namespace_is_told(xp):
    arr = xp.asarray(CUBE)
    other = namespace("numpy" if xp.__name__ != "numpy" else "array_api_strict")
    with pytest.raises(TypeError, match=rf"but xp is {other.__name__}"):
        apply_along_axis(lambda v: v, 0, arr, xp=other)


class Wrapper:
    """A namespace that is no module, such as those that tests of libraries make."""

    def __init__(self, xp):
        self.asarray = xp.asarray


def test_which_namespaces_are_taken(xp):
    arr = xp.asarray(CUBE)
    assert apply_along_axis(lambda v: v[0], 0, arr, xp=Wrapper(xp)).shape == (3, 4)
    found = apply_along_axis(lambda v: v[0], 1, [[1.0, 2.0], [3.0, 4.0]], xp=xp)
    assert type(found) is type(xp.asarray(CUBE))
    compat = pytest.importorskip("array_api_compat")
    assert apply_along_axis(lambda v: v, 0, arr, xp=compat.array_namespace(arr)).shape == (2, 3, 4)


def test_arrays_of_dask_stay_lazy():
    da = namespace("dask")
    dask = library("dask")

    def never(*_, **__):
        raise AssertionError("it was computed")

    arr = da.asarray(CUBE, chunks=(1, 3, 4))
    with dask.config.set(scheduler=never):
        lazy = apply_along_axis(lambda v: v.sum(), 1, arr)
        told = apply_along_axis(
            lambda v: v[0] if v[0] > 0 else v[1], 1, arr, dtype="f8", shape=(), xp=da
        )
        assert lazy.shape == told.shape == (2, 4)
    np.testing.assert_allclose(lazy.compute(), CUBE.sum(1))
    np.testing.assert_allclose(told.compute(), np.where(CUBE[:, 0] > 0, CUBE[:, 0], CUBE[:, 1]))


def test_within_transforms_of_jax():
    jnp, jax = namespace("jax"), library("jax")

    def summed(x):
        return apply_along_axis(lambda v: jnp.sum(v * v), 1, x, xp=jnp)

    x = jnp.asarray(CUBE)
    np.testing.assert_allclose(jax.jit(summed)(x), (CUBE**2).sum(1))
    np.testing.assert_allclose(jax.grad(lambda x: summed(x).sum())(x), 2 * CUBE)


def test_gradients_of_torch():
    torch = namespace("torch")
    x = torch.asarray(CUBE, requires_grad=True)
    apply_along_axis(lambda v: (v * v).sum(), 1, x, xp=torch).sum().backward()
    np.testing.assert_allclose(x.grad, 2 * CUBE)


def test_devices_are_kept():
    strict = namespace("array_api_strict")
    device = strict.Device("device1")
    for f in (lambda v: v[0], lambda v: 1.0, lambda v: [v[0], v[1]], lambda v: v * 2):
        assert apply_along_axis(f, 1, strict.asarray(CUBE, device=device)).device == device
    meta = library("torch").empty(2, 3, device="meta")
    assert apply_along_axis(lambda v: v.sum(), 1, meta).device.type == "meta"


def test_arrays_of_sparse_stay_sparse():
    sparse = namespace("sparse")
    x = np.where(CUBE % 4 == 0, CUBE, 0.0)
    found = apply_along_axis(lambda v: v * 2, 1, sparse.asarray(x))
    assert (found.nnz, found.fill_value) == (np.count_nonzero(x), 0)
    found = apply_along_axis(lambda v: v.max(), 1, sparse.asarray(x))
    np.testing.assert_array_equal(found.todense(), x.max(1))


def test_shapes_that_are_not_known():
    ndonnx = namespace("ndonnx")
    with pytest.raises(xpapply.InputError, match=r"lengths of arr .* found Array \(None, 3\)"):
        apply_along_axis(
            lambda v: v, 1, ndonnx.argument(shape=("N", 3), dtype=ndonnx.float64), xp=ndonnx
        )
    known = ndonnx.argument(shape=(2, 3), dtype=ndonnx.float64)
    assert apply_along_axis(lambda v: v[0], 1, known).shape == (2,)


def test_the_warning_of_the_loop_names_the_caller():
    xp = namespace("array_api_strict")
    with pytest.warns(xpapply.FallbackWarning) as said:
        apply_along_axis(lambda v: v[0] if float(v[0]) > 0 else v[1], 1, xp.ones((2000, 2)))
    assert said[0].filename == __file__


def test_the_shape_of_the_function():
    names = inspect.signature(apply_along_axis).parameters
    assert list(names) == ["func1d", "axis", "arr", "args", "xp", "kwargs"]
    assert names["xp"].kind is inspect.Parameter.KEYWORD_ONLY
    assert names["xp"].default is None
    theirs = pytest.importorskip("array_api_extra")
    if not hasattr(theirs, "apply_along_axis"):
        pytest.skip("this array-api-extra has none yet")
    assert list(inspect.signature(theirs.apply_along_axis).parameters) == list(names)

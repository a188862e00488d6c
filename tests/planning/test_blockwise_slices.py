"""Functions of slices that are written once, on arrays of dask: lazy, one pass over the blocks."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import xpapply
from xpapply import special

da = pytest.importorskip("dask.array")
dask = pytest.importorskip("dask")

X = np.random.default_rng(0).normal(size=(6, 8, 10)) * 3
B = np.random.default_rng(1).normal(size=(8, 10))
CHUNKS = [(6, 8, 10), (2, 3, 4), (6, 1, 3)]

FUNCTIONS = {
    "logsumexp": special.logsumexp,
    "weighted": lambda a, **k: special.logsumexp(a, b=abs(B), **k),
    "signed": lambda a, **k: special.logsumexp(a, b=B, return_sign=True, **k),
    "mean_var": special.mean_var,
    "sample": lambda a, **k: special.mean_var(a, correction=1, **k),
    "norm": special.norm,
    "norm 1": lambda a, **k: special.norm(a, ord=1, **k),
    "norm inf": lambda a, **k: special.norm(a, ord=np.inf, **k),
    "norm 3": lambda a, **k: special.norm(a, ord=3, **k),
    "argmax_and_max": special.argmax_and_max,
}
LIKE = {
    "softmax": special.softmax,
    "log_softmax": special.log_softmax,
    "standardize": special.standardize,
    "normalize": special.normalize,
}
extent = xpapply.reduction(
    lambda x: (x, x),
    lambda a, b: (np.minimum(a[0], b[0]), np.maximum(a[1], b[1])),
    lambda s: s[1] - s[0],
)
squares = xpapply.reduction(lambda x: x * x, lambda a, b: a + b, np.sqrt, 0)


def same(y, want, rtol=1e-12):
    if isinstance(want, tuple):
        assert type(y) is type(want)
        for one, other in zip(y, want, strict=True):
            same(one, other, rtol)
        return
    assert isinstance(y, da.Array)
    assert (y.shape, y.dtype) == (np.shape(want), want.dtype)
    found = y.compute(scheduler="synchronous")
    assert found.dtype == want.dtype
    np.testing.assert_allclose(found, want, rtol=rtol, atol=rtol)


@pytest.mark.parametrize("chunks", CHUNKS)
@pytest.mark.parametrize("axis", [0, 1, -1, (0, 2), None])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_numbers_of_slices(name, axis, chunks):
    f = FUNCTIONS[name]
    same(f(da.from_array(X, chunks=chunks), axis=axis), f(X, axis=axis))
    if name != "argmax_and_max":
        kept = {"axis": axis, "keepdims": True}
        same(f(da.from_array(X, chunks=chunks), **kept), f(X, **kept))


@pytest.mark.parametrize("chunks", CHUNKS)
@pytest.mark.parametrize("axis", [0, 1, -1, (0, 2), None])
@pytest.mark.parametrize("name", LIKE)
def test_slices_of_slices(name, axis, chunks):
    f = LIKE[name]
    same(f(da.from_array(X, chunks=chunks), axis=axis), f(X, axis=axis))


@pytest.mark.parametrize("dtype", ["f4", "i2", "u1", "f2", "?", "c8", "c16"])
@pytest.mark.parametrize("name", ["logsumexp", "mean_var", "norm", "softmax", "normalize"])
def test_dtypes(name, dtype):
    f = (FUNCTIONS | LIKE)[name]
    x = abs(X).astype(dtype) if dtype[0] in "u?" else X.astype(dtype)
    if dtype[0] == "c":
        x = x + np.asarray(1j * X[::-1], dtype)
    for chunks in CHUNKS:
        same(
            f(da.from_array(x, chunks=chunks), axis=-1),
            f(x, axis=-1),
            1e-3 if x.itemsize < 8 else 1e-6,
        )


def reads(x, chunks):
    """An array that counts how often its blocks are read."""
    seen = []

    def read(block):
        seen.append(1)
        return block

    return da.from_array(x, chunks=chunks).map_blocks(read, dtype=x.dtype, meta=x[:0, :0, :0]), seen


@pytest.mark.parametrize("name", FUNCTIONS)
def test_one_pass_over_the_blocks(name):
    d, seen = reads(X, (6, 8, 1))
    found = FUNCTIONS[name](d, axis=-1)
    assert not seen
    dask.compute(found, scheduler="synchronous")
    assert len(seen) == 10
    if name not in ("weighted", "signed"):  # weights are cut as the array is
        parts = found if isinstance(found, tuple) else (found,)
        assert all(not str(k).startswith("('rechunk") for y in parts for k in y.dask)


def test_names_say_what_is_computed():
    d = da.from_array(X, chunks=(2, 3, 4))
    ways = [*FUNCTIONS.values(), *LIKE.values()]
    made = [f(d, axis=axis) for f in ways for axis in (0, 1, (0, 1))]
    found = dask.compute(*made, scheduler="synchronous")
    wanted = [f(X, axis=axis) for f in ways for axis in (0, 1, (0, 1))]
    for y, want in zip(found, wanted, strict=True):
        np.testing.assert_allclose(
            np.stack(y) if isinstance(y, tuple) else y,
            np.stack(want) if isinstance(want, tuple) else want,
            rtol=1e-10,
        )
    assert special.norm(d, axis=0).name == special.norm(d, axis=0).name
    assert special.mean_var(d, axis=0)[1].name != special.mean_var(d, axis=0, correction=1)[1].name


def test_functions_of_elements():
    soft = xpapply.elementwise(lambda x, limit: np.sign(x) * np.maximum(abs(x) - limit, 0))
    for chunks in CHUNKS:
        d = da.from_array(X, chunks=chunks)
        same(soft(d, 0.5), soft(X, 0.5))
        same(soft(d, B), soft(X, B))
        same(soft(d, da.from_array(abs(B), chunks=3)), soft(X, abs(B)))
    with pytest.raises(xpapply.InputError, match="out= of dask arrays"):
        soft(da.from_array(X, chunks=3), 0.5, out=np.empty_like(X))


@pytest.mark.parametrize("chunks", CHUNKS)
def test_own_reductions(chunks):
    d = da.from_array(X, chunks=chunks)
    for axis in (0, -1, (0, 1)):
        same(extent(d, axis=axis), extent(X, axis=axis))
        same(squares(d, axis=axis, keepdims=True), squares(X, axis=axis, keepdims=True))


def test_ties_and_nan_are_where_numpy_finds_them():
    x = np.array([[1.0, 5, 5, 2, 5], [np.nan, 1, 2, np.nan, 9], [3, 3, 3, 3, 3]])
    for n in (1, 2, 3):
        same(
            special.argmax_and_max(da.from_array(x, chunks=n), axis=1),
            special.argmax_and_max(x, axis=1),
        )
        same(special.argmax_and_max(da.from_array(x, chunks=n)), special.argmax_and_max(x))


def test_unusual_numbers():
    x = np.array([[np.inf, 1, 2], [-np.inf] * 3, [np.nan, 1, 2], [1e308, -1e308, 0]])
    for name in ("logsumexp", "mean_var", "softmax", "norm"):
        f = (FUNCTIONS | LIKE)[name]
        with np.errstate(all="ignore"):
            same(f(da.from_array(x, chunks=(2, 1)), axis=1), f(x, axis=1))


def test_empty_chunks_and_unknown_sizes():
    d = da.from_array(X, chunks=((0, 6, 0), (8,), (5, 0, 5)))
    for name in ("logsumexp", "mean_var", "argmax_and_max"):
        f = FUNCTIONS[name]
        same(f(d, axis=0), f(X, axis=0))
        same(f(d, axis=-1), f(X, axis=-1))
    x = X.reshape(48, 10)
    some = da.from_array(x, chunks=(7, 4))
    some = some[some[:, 0] > 1]
    want = special.logsumexp(x[x[:, 0] > 1], axis=1)
    np.testing.assert_allclose(special.logsumexp(some, axis=1).compute(), want)
    want = special.mean_var(x[x[:, 0] > 1], axis=0)
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(
            special.logsumexp(some, axis=0).compute(), special.logsumexp(x[x[:, 0] > 1], axis=0)
        )
    assert want is not None


def test_errors():
    d = da.from_array(X, chunks=(2, 3, 4))
    with pytest.raises(np.exceptions.AxisError):
        special.softmax(d, axis=3)
    with pytest.raises(xpapply.InputError, match="do not broadcast"):
        special.logsumexp(d, b=np.ones(3))
    with pytest.raises(TypeError, match="takes numbers"):
        special.softmax(d.astype(object), axis=0)


def test_what_runs_can_be_sent():
    d = da.from_array(X, chunks=(2, 3, 4))
    for f in (special.mean_var, special.softmax):
        y, want = f(d, axis=-1), f(X, axis=-1)
        y, want = (y[1], want[1]) if isinstance(want, tuple) else (y, want)
        np.testing.assert_allclose(pickle.loads(pickle.dumps(y)).compute(), want)


def test_as_xarray_has_it():
    xr = pytest.importorskip("xarray")
    field = xr.DataArray(X, dims=("x", "y", "t")).chunk(x=2, t=4)
    found = special.logsumexp(field, axis="t")
    assert found.dims == ("x", "y")
    assert found.chunks == ((2, 2, 2), (8,))
    np.testing.assert_allclose(found, special.logsumexp(X, axis=-1))


@given(
    shape=st.tuples(*[st.integers(1, 5)] * 3),
    chunks=st.tuples(*[st.integers(1, 5)] * 3),
    axis=st.sampled_from([0, 1, 2, (0, 1), (2, 1), None]),
    dtype=st.sampled_from(["i4", "f4", "f8", "c16"]),
    name=st.sampled_from(sorted({**FUNCTIONS, **LIKE}.keys() - {"weighted", "signed"})),
)
def test_any_chunks(shape, chunks, axis, dtype, name):
    f = (FUNCTIONS | LIKE)[name]
    x = (np.random.default_rng(0).normal(size=shape) * 5).astype(dtype)
    if dtype == "c16":
        if name in (
            "mean_var",
            "sample",
            "softmax",
            "log_softmax",
            "standardize",
            "argmax_and_max",
        ):
            return
        x = x * (1 + 2j)
    with np.errstate(all="ignore"):
        same(
            f(da.from_array(x, chunks=chunks), axis=axis),
            f(x, axis=axis),
            1e-4 if dtype == "f4" else 1e-9,
        )

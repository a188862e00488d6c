"""What vectorize makes, on arrays of dask: lazy, block by block, as on NumPy's arrays."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import xpapply
from conftest import library

da = pytest.importorskip("dask.array")

X = np.random.default_rng(0).normal(size=(6, 4, 5))
W = np.random.default_rng(1).normal(size=5)


def lazy(x, chunks):
    return da.from_array(x, chunks=chunks)


def unread(x, chunks):
    """An array that must not be computed yet, and what lets it be."""
    may = []

    def read(block):
        assert may, "a block was computed"
        return block

    return da.from_array(x, chunks=chunks).map_blocks(read, dtype=x.dtype, meta=x[:0]), may


def same(y, want, rtol=1e-7):
    if isinstance(want, tuple):
        assert isinstance(y, tuple)
        assert len(y) == len(want)
        for one, other in zip(y, want, strict=True):
            same(one, other)
        return
    assert isinstance(y, da.Array)
    assert (y.shape, y.dtype) == (want.shape, want.dtype)
    found = y.compute()
    assert found.dtype == want.dtype
    np.testing.assert_allclose(found, want, rtol=rtol, atol=1e-12)


def difference(a, b):
    return a - b if a > b else a + b


SIGNATURES = {
    "(n)->()": lambda v: (v * v).sum(),
    "(n)->(n)": lambda v: np.sort(v)[::-1],
    "(n)->(2)": lambda v: np.array([v.min(), v.max()]),
    "(n)->(),(n)": lambda v: (v.max(), v - v.mean()),
    "(n)->(n,n)": lambda v: np.outer(v, v),
    "(n)->(k)": lambda v: v[:3] * 2,
    "(n)->(),(k)": lambda v: (int(v[0] > 0), v[:2]),
    "(m,n)->(n)": lambda p: p.mean(0),
    "(m,n)->(n,m)": lambda p: p.T,
}


@pytest.mark.parametrize("chunks", [(6, 4, 5), (2, 3, 5), (4, 1, 2)])
@pytest.mark.parametrize("signature", SIGNATURES)
def test_one_array(signature, chunks):
    f = xpapply.vectorize(SIGNATURES[signature], signature=signature)
    same(f(lazy(X, chunks)), f(X))


@pytest.mark.parametrize("chunks", [(6, 4, 5), (2, 3, 5), (4, 1, 2)])
def test_several_arrays(chunks):
    weighted = xpapply.vectorize(lambda a, w: (a * w).sum(), signature="(n),(n)->()")
    same(weighted(lazy(X, chunks), W), weighted(X, W))
    same(weighted(lazy(X, chunks), lazy(X[:1], (1, 4, 2))), weighted(X, X[:1]))
    both = xpapply.vectorize(lambda a, b: (a @ b, a[:2]), signature="(m,n),(n,p)->(m,p),(q,n)")
    same(both(lazy(X, chunks), X[0].T), both(X, X[0].T))
    axes = xpapply.vectorize(lambda a, b: a.sum() * b, signature="(m,n),(k)->(k)")
    same(
        axes(lazy(X, chunks), lazy(W, 2), axes=[(0, 1), (0,), (0,)]),
        axes(X, W, axes=[(0, 1), (0,), (0,)]),
    )


def test_axis_and_keepdims():
    f = xpapply.vectorize(lambda v: v.max() - v.min(), signature="(n)->()")
    d = lazy(X, (2, 4, 5))
    for axis in range(3):
        same(f(d, axis=axis), f(X, axis=axis))
        same(f(d, axis=axis, keepdims=True), f(X, axis=axis, keepdims=True))
    with pytest.raises(TypeError, match="for core dimensions"):
        xpapply.vectorize(difference)(d, 1.0, axis=0)


@pytest.mark.parametrize("other", [2, 0.5, W, X[:, :1], "same", "other chunks"])
def test_functions_of_numbers(other):
    f = xpapply.vectorize(difference)
    d = lazy(X, (2, 3, 4))
    if isinstance(other, str):
        mine, theirs = (X[0], lazy(X[0], 3)) if other == "same" else (X[::-1], lazy(X[::-1], 5))
    else:
        mine = theirs = other
    same(f(d, theirs), f(X, mine))
    several = xpapply.vectorize(lambda a, b: (a + b, a > b))
    same(several(d, theirs), several(X, mine))


@pytest.mark.parametrize("otypes", ["f", "d", "D", "O", [np.float32]])
def test_otypes(otypes):
    f = xpapply.vectorize(difference, otypes=otypes)
    d, may = unread(X, (2, 3, 4))
    y = f(d, 0.5)
    may.append(True)
    want = f(X, 0.5)
    assert y.dtype == want.dtype
    np.testing.assert_array_equal(y.compute().astype(complex), want.astype(complex))


def test_what_is_known_computes_no_block():
    d, may = unread(X, (2, 4, 5))
    by_graph = xpapply.vectorize(lambda v, w: v * w - v.mean(), signature="(n),(n)->(n)")
    by_otypes = xpapply.vectorize(
        lambda v: np.sort(v)[:2], signature="(n)->(2)", otypes=[np.float64]
    )
    ways = [lambda x: by_graph(x, W), by_otypes]
    made = [way(d) for way in ways]
    with pytest.raises(AssertionError, match="a block was computed"):
        xpapply.vectorize(lambda v: np.sort(v)[:2], signature="(n)->(k)")(d)
    may.append(True)
    for way, y in zip(ways, made, strict=True):
        same(y, way(X))


def test_where_and_fill():
    f = xpapply.vectorize(difference, otypes="d")
    mask = X > 0
    d = lazy(X, (2, 3, 4))
    same(f(d, 0.5, where=mask, fill=-1.0), f(X, 0.5, where=mask, fill=-1.0))
    same(f(d, 0.5, where=d > 0, fill=-1.0), f(X, 0.5, where=mask, fill=-1.0))
    total = xpapply.vectorize(lambda v: v.sum(), signature="(n)->()", otypes="d")
    mask = X[..., 0] > 0
    d = lazy(X, (2, 3, 5))
    same(total(d, where=mask, fill=0.0), total(X, where=mask, fill=0.0))
    with pytest.raises(xpapply.InputError, match="give otypes"):
        xpapply.vectorize(lambda v: np.sort(v)[0], signature="(n)->()")(d, where=mask)


def test_excluded_and_named_arguments():
    f = xpapply.vectorize(lambda v, k, scale=1.0: np.sort(v)[k] * scale, excluded={1, "k"})
    g = xpapply.vectorize(
        lambda v, k, scale=1.0: np.sort(v)[k] * scale, excluded={1, "scale"}, signature="(n)->()"
    )
    d = lazy(X, (2, 3, 5))
    same(g(d, 2, scale=3.0), np.sort(X, -1)[..., 2] * 3)
    h = xpapply.vectorize(lambda a, b=1.0: a * b)
    same(h(d, b=lazy(W, 2)), X * W)
    assert f is not None


def test_containers():
    ends = xpapply.vectorize(lambda v: {"low": v.min(), "all": np.sort(v)}, signature="(n)->(),(n)")
    found = ends(lazy(X, (2, 3, 5)))
    assert list(found) == ["low", "all"]
    same(found["low"], X.min(-1))
    same(found["all"], np.sort(X, -1))


def test_unknown_and_empty_chunks():
    x = X.reshape(24, 5)
    d = lazy(x, (5, 5))
    some = d[d[:, 0] > 0.3]
    want = x[x[:, 0] > 0.3]
    f = xpapply.vectorize(lambda v, w: np.sort(v) @ w, signature="(n),(n)->()")
    np.testing.assert_allclose(f(some, W).compute(), f(want, W))
    assert xpapply.vectorize(difference)(some, 0.5).compute().shape == want.shape
    with pytest.raises(xpapply.InputError, match="compute_chunk_sizes"):
        f(some.T, np.ones(3))
    d = lazy(X, ((0, 6, 0), (4,), (5,)))
    same(f(d, W), f(X, W))
    same(xpapply.vectorize(difference)(d, 0.5), difference_of(X))


def difference_of(x):
    return xpapply.vectorize(difference)(x, 0.5)


def test_no_slices():
    with pytest.raises(ValueError, match="size 0 inputs unless `otypes` is set"):
        xpapply.vectorize(difference)(da.zeros((0, 3)), 1.0)
    assert xpapply.vectorize(difference, otypes="d")(da.zeros((0, 3)), 1.0).compute().shape == (
        0,
        3,
    )


def test_networks():
    torch = library("torch")
    net = torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.Tanh(), torch.nn.Linear(7, 2))
    f = xpapply.vectorize(net, signature="(n)->(2)")
    x = X.astype("f4")
    with torch.no_grad():
        want = f(x)
        d, may = unread(x, (2, 4, 5))
        y = f(d)
        net[0].weight.zero_()
    may.append(True)
    same(y, want, rtol=1e-4)


def test_words():
    f = xpapply.vectorize(lambda a: "high" if a > 0 else "low")
    y = f(lazy(np.array([1.0, -1.0, 2.0]), 1))
    assert y.compute().tolist() == ["high", "low", "high"]
    y = f(lazy(np.array([-1.0, 1.0]), 1))
    with pytest.raises(ValueError, match="texts longer than the first one"):
        y.compute(scheduler="synchronous")


def test_errors():
    d = lazy(X, (2, 3, 5))
    f = xpapply.vectorize(lambda a, w: (a * w).sum(), signature="(n),(n)->()")
    with pytest.raises(ValueError, match="inconsistent size for core dimension 'n'"):
        f(d, W[:3])
    with pytest.raises(ValueError, match="do not broadcast"):
        f(d, X[:4, :3])
    with pytest.raises(ValueError, match="does not have enough dimensions"):
        f(d, da.zeros(()))
    with pytest.raises(TypeError, match="expected 2, got 1"):
        f(d)
    with pytest.raises(xpapply.InputError, match="out= of dask arrays"):
        f(d, W, out=np.empty((6, 4)))
    with pytest.raises(ValueError, match=r"result 0 of f has the shape \(5,\)"):
        xpapply.vectorize(lambda v: np.sort(v), signature="(n)->()")(d)
    with (
        xpapply.options(rechunk="raise"),
        pytest.raises(xpapply.InputError, match="multiple chunks"),
    ):
        f(lazy(X, (2, 3, 2)), W)

    def picky(v):
        if v[0] == X[5, 3, 0]:
            raise KeyError("this one")
        return v.max()

    y = xpapply.vectorize(picky, signature="(n)->()")(d)
    with pytest.raises(KeyError, match="this one") as raised:
        y.compute(scheduler="synchronous")
    assert "the arguments are blocks of dask arrays" in raised.value.__notes__


def test_explain():
    f = xpapply.vectorize(lambda v, w: np.sort(v) @ w, signature="(n),(n)->()")
    d = lazy(X, (2, 4, 5))
    p = f.explain(d, W)
    assert (p.engine, p.out_shape, p.out_dtype, p.slices) == ("dask", (6, 4), "float64", 24)
    assert "chunk by chunk" in str(p)
    assert "NumPy array: 3" in str(p)
    same(p(d, W), f(X, W))


def test_names_and_pickles():
    d = lazy(X, (2, 4, 5))
    f = xpapply.vectorize(difference)
    assert f(d, 0.5).name == f(d, 0.5).name
    assert f(d, 0.5).name != f(d, 0.25).name
    same(pickle.loads(pickle.dumps(f(d, 0.5))), f(X, 0.5))
    two = xpapply.vectorize(difference, otypes="f")
    assert two(d, 0.5).name != f(d, 0.5).name


def test_as_xarray_has_it():
    xr = pytest.importorskip("xarray")
    field = xr.DataArray(X, dims=("x", "y", "t"), coords={"t": np.arange(5)}).chunk(x=2, y=3)
    f = xpapply.vectorize(lambda v: np.sort(v)[1:3], signature="(t)->(k)")
    y = f(field)
    assert y.chunks == ((2, 2, 2), (3, 1), (2,))
    np.testing.assert_array_equal(y, np.sort(X, -1)[..., 1:3])
    y = xpapply.apply_along_axis(lambda v: (v - v.mean()) / v.std(), "t", field)
    assert y.chunks == ((2, 2, 2), (3, 1), (5,))
    assert y.dims == ("x", "y", "t")
    np.testing.assert_allclose(y, (X - X.mean(-1, keepdims=True)) / X.std(-1, keepdims=True))


@given(
    shape=st.tuples(*[st.integers(1, 4)] * 3),
    chunks=st.tuples(*[st.integers(1, 4)] * 3),
    others=st.tuples(*[st.integers(1, 4)] * 3),
    squeezed=st.tuples(*[st.booleans()] * 2),
    dtype=st.sampled_from(["i2", "f4", "f8", "?"]),
    name=st.sampled_from([*SIGNATURES, "numbers", "weighted"]),
)
def test_any_chunks(shape, chunks, others, squeezed, dtype, name):
    x = np.random.default_rng(0).integers(-3, 7, shape).astype(dtype)
    y = x[tuple(slice(0, 1) if s else slice(None) for s in squeezed)]
    a, b = lazy(x, chunks), lazy(y, others)
    if name == "numbers":
        f, given, mine = xpapply.vectorize(lambda a, b: a + b if a > b else 2 * b), (a, b), (x, y)
    elif name == "weighted":
        f = xpapply.vectorize(lambda a, b: (a * b).sum(), signature="(n),(n)->()")
        given, mine = (a, b), (x, y)
    else:
        if dtype == "?" and name == "(n)->(),(n)":
            return
        f, given, mine = xpapply.vectorize(SIGNATURES[name], signature=name), (a,), (x,)
    with xpapply.options(fallback="silent"):
        want = f(*mine)
        found = f(*given)
        for one, other in zip(
            found if isinstance(found, tuple) else (found,),
            want if isinstance(want, tuple) else (want,),
            strict=True,
        ):
            assert (one.shape, one.dtype) == (other.shape, other.dtype)
            got = one.compute(scheduler="synchronous")
            assert got.dtype == other.dtype
            np.testing.assert_allclose(got, other, rtol=1e-5, atol=1e-6)


COMPILED = {
    "weighted": (lambda a, w: (a * w).sum() / w.sum(), "(n),(n)->()"),
    "vector": (lambda a, w: a * w - w.max(), "(n),(n)->(n)"),
    "both": (lambda a, w: ((a * w).sum(), a + w), "(n),(n)->(),(n)"),
}


@pytest.mark.parametrize("name", COMPILED)
@pytest.mark.parametrize("weights", ["one", "each", "numpy"])
def test_plans_of_several_arrays_run_on_blocks(name, weights):
    f, signature = COMPILED[name]
    p = xpapply.compile(xpapply.vectorize(f, signature=signature), ((5,), (5,)), "float64")
    w = W if weights != "each" else np.random.default_rng(2).random((4, 5)) + 1
    x, may = unread(X, (2, 3, 5))
    y = p(x, w if weights == "numpy" else lazy(w, 2))
    may.append(1)
    same(y, p(X, w))
    first = y[0] if isinstance(y, tuple) else y
    assert first.chunks[0] == (2, 2, 2)
    assert first.name.startswith("compiled-")


def test_plans_of_several_arrays_have_names_of_their_own():
    given = lazy(X, 3), lazy(W, 5)
    names = []
    for k in (2.0, 2.0, 3.0):
        p = xpapply.compile(lambda a, w, k=k: (a * w).sum() * k, ((5,), (5,)), "float64")
        names.append(p(*given).name)
    assert names[0] == names[1] != names[2]


def test_plans_of_several_arrays_and_other_slices():
    p = xpapply.compile(COMPILED["weighted"][0], ((5,), (5,)), "float64")
    with pytest.raises(xpapply.InputError, match=r"slices float64\[5\] of argument 1"):
        p(lazy(X, 3), lazy(W[:4], 4))
    same(p(lazy(X.astype("f4"), 3), lazy(W, 5)), p(X.astype("f4"), W))
    y = pickle.loads(pickle.dumps(p))(lazy(X, 3), W)
    np.testing.assert_allclose(pickle.loads(pickle.dumps(y)).compute(), p(X, W))


@pytest.mark.parametrize(
    ("f", "signature"),
    [
        (lambda v: "high" if v[0] > 0 else "low", "(n)->()"),
        (lambda v: b"high" if v[0] > 0 else b"low", "(n)->()"),
        (lambda v: np.array(["abc", "d"]), "(n)->(k)"),
        (lambda v: np.datetime64("2020-01-02" if v[0] > 0 else "2020-01-01"), "(n)->()"),
        (lambda v: np.timedelta64(5, "s"), "(n)->()"),
        (lambda v: np.array((1, 2.0), dtype="i4,f4")[()], "(n)->()"),
    ],
    ids=["texts", "bytes", "vectors of texts", "dates", "time spans", "records"],
)
def test_dtypes_have_lengths_units_and_fields(f, signature):
    x = np.random.default_rng(0).normal(size=(12, 3))
    x[0, 0] = 1
    want = np.vectorize(f, signature=signature)(x)
    got = xpapply.vectorize(f, signature=signature)(da.from_array(x, chunks=(4, 3)))
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got.compute(scheduler="sync"), want)

"""Arrays of libraries that run a function on all slices by themselves: JAX and dask."""

import functools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import xpapply
from conftest import library
from xpapply.frontends.python.repeatable import why_not_repeatable

X = np.random.default_rng(0).normal(size=(8, 5, 12)).astype("f4")
LOG = []


@pytest.fixture(scope="module")
def jax():
    return library("jax")


@pytest.fixture(scope="module")
def da():
    return library("dask.array")


def appends(v):
    LOG.append(1)
    return v.sum()


def draws(v):
    return v.sum() + np.random.rand()


def masked(v):
    return v[v > 0].mean()


def branches(v):
    return v.sum() if v[0] > 0 else v.max()


def first_int_then_float(v):
    return 1 if v[0] == FIRST else 2.75


def first_float_then_int(v):
    return 2.75 if v[0] == FIRST else 1


FIRST = X[0, 0, 0]

DASK = {
    "mask": masked,
    "branch": branches,
    "median": lambda v: np.median(v),
    "pair": lambda v: (v.min(), np.sort(v)[3]),
    "vector": lambda v: np.sort(v),
    "matrix": lambda v: np.outer(np.sort(v)[:2], v),
    "none left": lambda v: np.sort(v)[:0],
    "bool": lambda v: bool(v[0] > 0 and v[1] > 0),
    "first int": first_int_then_float,
    "first float": first_float_then_int,
}


@pytest.mark.parametrize("name", DASK)
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("chunks", [(8, 5, 12), (3, 2, 12), (4, 5, 5)])
def test_dask_gives_what_the_loop_gives(da, name, axis, chunks):
    x = np.moveaxis(X, -1, axis)
    if name.startswith("first") and axis != -1:
        x = x.copy()
    d = da.from_array(np.ascontiguousarray(x), chunks=chunks if axis == -1 else -1)
    want = np.apply_along_axis(DASK[name], axis, x)
    y = xpapply.apply_along_axis(DASK[name], axis, d)
    assert isinstance(y, da.Array)
    assert (y.shape, y.dtype) == (want.shape, want.dtype)
    found = y.compute()
    assert found.dtype == want.dtype
    np.testing.assert_allclose(found, want, rtol=1e-5)


def test_dask_says_what_runs_and_computes_nothing_but_the_first_slice(da):
    asked = []

    def chunk(block, block_info=None):
        asked.append(block_info[None]["chunk-location"])
        return block

    d = da.from_array(X, chunks=(2, 5, 12)).map_blocks(chunk, dtype=X.dtype, meta=X[:0, :0, :0])
    asked.clear()
    plan = xpapply.explain(masked, -1, d)
    y = xpapply.apply_along_axis(masked, -1, d)
    assert plan.engine == "dask"
    assert plan.vectorized
    assert plan.out_shape == y.shape == (8, 5)
    assert plan.out_dtype == "float32"
    assert "chunk by chunk" in str(plan)
    assert set(asked) == {(0, 0, 0)}
    y.compute()
    assert len(set(asked)) == 4


def test_each_chunk_runs_at_once(da):
    calls = []

    def counted(v):
        return np.median(v) * len(v)

    d = da.from_array(np.tile(X, (50, 1, 1)), chunks=(100, 5, 12))
    y = xpapply.apply_along_axis(counted, -1, d)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(np, "apply_along_axis", lambda *a, **k: calls.append(a))
        with xpapply.options(fallback="raise"):
            y = xpapply.apply_along_axis(counted, -1, d)
        y.compute(scheduler="synchronous")
    assert not calls


def test_arguments_go_along(da):
    d = da.from_array(X, chunks=(3, 5, 12))
    f = lambda v, k, scale=1.0: np.sort(v)[k] * scale  # noqa: E731
    y = xpapply.apply_along_axis(f, -1, d, 2, scale=3.0)
    np.testing.assert_allclose(y.compute(), np.sort(X, -1)[..., 2] * 3)


def test_functions_that_may_not_run_twice_run_in_the_loop(da, jax):
    arrays = [da.from_array(X[:2], chunks=(1, 5, 12)), jax.numpy.asarray(X[:2])]
    with xpapply.options(fallback="silent"):
        for arr in arrays:
            LOG.clear()
            assert xpapply.explain(draws, -1, arr).engine == "loop"
            assert xpapply.explain(appends, -1, arr).engine == "loop"
            xpapply.apply_along_axis(appends, -1, arr)
            assert len(LOG) == 10


def test_functions_of_dask_arrays_are_dasks(da):
    d = da.from_array(X[:2], chunks=(1, 5, 12))
    f = lambda v: da.from_array(np.ones(3)) * v[:3].sum()  # noqa: E731
    with xpapply.options(fallback="silent"):
        y = xpapply.apply_along_axis(f, -1, d)
    np.testing.assert_allclose(y.compute(), X[:2, :, :3].sum(-1, keepdims=True) * np.ones(3))


JAX = {
    "sort": lambda jnp: lambda v: jnp.sort(v),
    "bare": lambda jnp: jnp.sort,
    "median": lambda jnp: lambda v: jnp.median(v) * 2,
    "list": lambda jnp: lambda v: [jnp.sort(v)[0], v.sum()],
    "matrix": lambda jnp: lambda v: jnp.outer(jnp.sort(v)[:2], v),
    "interp": lambda jnp: lambda v: jnp.interp(0.5, jnp.arange(12.0), v),
    "partial": lambda jnp: functools.partial(jnp.quantile, q=0.25),
    "where": lambda jnp: lambda v: jnp.where(v > 0, v, 0).sum(),
    "positions": lambda jnp: lambda v: jnp.argsort(v),
}


@pytest.mark.parametrize("name", JAX)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_functions_of_jax_run_by_vmap(jax, name, axis):
    f = JAX[name](jax.numpy)
    arr = jax.numpy.asarray(np.moveaxis(X[:3, :2], -1, axis))
    plan = xpapply.explain(f, axis, arr)
    assert plan.engine == "jax.vmap"
    y = xpapply.apply_along_axis(f, axis, arr)
    with xpapply.options(engine="loop"):
        want = xpapply.apply_along_axis(f, axis, arr)
    assert (y.shape, y.dtype) == (want.shape, want.dtype)
    assert plan.out_shape == want.shape
    np.testing.assert_allclose(y, want, rtol=1e-5, atol=1e-6)


def test_jitted_functions(jax):
    f = jax.jit(lambda v: jax.numpy.sort(v)[::2])
    arr = jax.numpy.asarray(X[0])
    assert why_not_repeatable(f) is None
    np.testing.assert_allclose(xpapply.apply_along_axis(f, -1, arr), np.sort(X[0], -1)[:, ::2])


@pytest.mark.parametrize("f", [masked, branches, lambda v: np.sort(v)[3]])
def test_what_jax_cannot_trace_runs_in_the_loop_and_says_why(jax, f):
    arr = jax.numpy.asarray(np.abs(X[0]))
    plan = xpapply.explain(f, -1, arr)
    assert plan.engine == "loop"
    assert any(r.startswith("jax.vmap: ") for r in plan.reasons)
    with xpapply.options(fallback="silent"):
        y = xpapply.apply_along_axis(f, -1, arr)
    np.testing.assert_allclose(y, np.apply_along_axis(f, -1, np.abs(X[0])), rtol=1e-5)


def test_inside_a_transform_of_jax(jax):
    f = lambda v: jax.numpy.sort(v)[0]  # noqa: E731
    g = lambda x: xpapply.apply_along_axis(f, -1, x).sum()  # noqa: E731
    with xpapply.options(fallback="silent"):
        found = jax.grad(g)(jax.numpy.asarray(X[0]))
    np.testing.assert_array_equal(np.asarray(found).sum(-1), 1)


def make_harmful():
    rng, seen, box = np.random.default_rng(0), [], {"n": 0}

    class Counter:
        def __call__(self, v):
            return v

    counter = Counter()

    def counts(v):
        box["n"] += 1
        return v

    return {
        "appends": lambda v: seen.append(v),
        "writes to an item": counts,
        "prints": lambda v: print(v),
        "draws": lambda v: v + np.random.normal(),
        "draws from a generator": lambda v: v + rng.normal(),
        "an object": lambda v: counter(v),
        "a helper that appends": lambda v: appends(v),
        "inside": lambda v: [appends(x) for x in v],
        "as an argument": functools.partial(lambda v, g: g(v), g=appends),
        "opens": lambda v: open(v),
        "a vectorized one": np.vectorize(appends),
        "sets an attribute": lambda v: setattr(box, "n", 1),
    }


@pytest.mark.parametrize("name", make_harmful())
def test_what_may_do_anything_is_not_repeated(name):
    assert why_not_repeatable(make_harmful()[name])


@pytest.mark.parametrize(
    "f",
    [
        np.median,
        masked,
        lambda v: np.sort(v)[0],
        lambda v: max(v, key=abs),
        functools.partial(np.quantile, q=0.5),
        lambda v: branches(v) + FIRST,
        lambda v: [np.fft.rfft(v), [x * 2 for x in v]],
    ],
)
def test_what_only_computes_may_be_repeated(f):
    assert why_not_repeatable(f) is None


@given(shape=st.tuples(*[st.integers(1, 5)] * 3), axis=st.integers(-3, 2), chunk=st.integers(1, 5))
def test_any_chunks(shape, axis, chunk):
    da = pytest.importorskip("dask.array")
    x = np.random.default_rng(0).normal(size=shape)
    f = lambda v: v[v > 0].sum() if v[0] > 0 else v.min()  # noqa: E731
    y = xpapply.apply_along_axis(f, axis, da.from_array(x, chunks=chunk))
    with xpapply.options(fallback="silent"):
        np.testing.assert_allclose(y.compute(), np.apply_along_axis(f, axis, x))

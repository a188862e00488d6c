"""Functions of the slices of dask's arrays: lazy, block by block, as NumPy's loop."""

import functools
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import xpapply
from conftest import library
from xpapply.loop import originals

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")

X = np.random.default_rng(0).normal(size=(8, 5, 12)).astype("f4")
LOG = []


def appends(v):
    LOG.append(1)
    return v.sum()


def masked(v):
    return v[v > 0].mean()


def branches(v):
    return v.sum() if v[0] > 0 else v.max()


def standardize(v):
    return (v - v.mean()) / v.std()


def first_int_then_float(v):
    return 1 if v[0] == FIRST else 2.75


def first_float_then_int(v):
    return 2.75 if v[0] == FIRST else 1


FIRST = X[0, 0, 0]

DASK = {
    "arithmetic": standardize,
    "numbers": lambda v: [v.min(), v.max(), v.sum()],
    "nothing of it": lambda v: 3,
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
def test_dask_gives_what_the_loop_gives(name, axis, chunks):
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


def test_dask_says_what_runs_and_computes_nothing_but_the_first_slice():
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


def test_each_chunk_runs_at_once():
    calls = []

    def counted(v):
        return np.median(v) * len(v)

    d = da.from_array(np.tile(X, (50, 1, 1)), chunks=(100, 5, 12))
    with pytest.MonkeyPatch.context() as patch:
        with xpapply.options(fallback="raise"):
            y = xpapply.apply_along_axis(counted, -1, d)
        patch.setattr(originals, "apply_along_axis", lambda *a, **k: calls.append(a))
        y.compute(scheduler="synchronous")
    assert not calls


def test_arguments_go_along():
    d = da.from_array(X, chunks=(3, 5, 12))
    f = lambda v, k, scale=1.0: np.sort(v)[k] * scale  # noqa: E731
    y = xpapply.apply_along_axis(f, -1, d, 2, scale=3.0)
    np.testing.assert_allclose(y.compute(), np.sort(X, -1)[..., 2] * 3)


def test_functions_of_dask_arrays_are_dasks():
    d = da.from_array(X[:2], chunks=(1, 5, 12))
    f = lambda v: da.from_array(np.ones(3)) * v[:3].sum()  # noqa: E731
    with xpapply.options(fallback="silent"):
        y = xpapply.apply_along_axis(f, -1, d)
    np.testing.assert_allclose(y.compute(), X[:2, :, :3].sum(-1, keepdims=True) * np.ones(3))


# --- nothing is computed before dask wants it ---------------------------------------------------


def unread(x, chunks):
    """An array that must not be computed yet, and what lets it be."""
    may = []

    def read(block):
        assert may, "a block was computed"
        return block

    made = da.from_array(x, chunks=chunks).map_blocks(read, dtype=x.dtype, meta=x[:0, :0, :0])
    return made, may


@pytest.mark.parametrize("f", [standardize, lambda v: v.max() - v.min(), np.median, np.tanh])
def test_what_has_a_graph_is_planned_without_a_block(f):
    d, may = unread(X, (3, 5, 12))
    if f is np.median:  # it has none
        with pytest.raises(AssertionError, match="a block was computed"):
            xpapply.apply_along_axis(f, -1, d)
        return
    y = xpapply.apply_along_axis(f, -1, d)
    want = np.apply_along_axis(f, -1, X)
    assert (y.shape, y.dtype) == (want.shape, want.dtype)
    may.append(True)
    np.testing.assert_allclose(y, want, rtol=1e-4, atol=1e-5)


def test_nor_is_what_the_caller_knows():
    d, may = unread(X, (3, 5, 12))
    LOG.clear()
    y = xpapply.apply_along_axis(appends, -1, d, dtype="f4", shape=())
    assert (y.shape, y.dtype) == ((8, 5), "f4")
    may.append(True)
    y.compute()
    assert len(LOG) == 40, "each slice once, and no other"


def test_dtype_and_shape_are_those_of_a_function_that_has_them():
    d = da.from_array(X, chunks=(3, 5, 12))
    y = xpapply.apply_along_axis(np.sum, -1, d, dtype="f8")
    assert y.dtype == "f8"
    np.testing.assert_allclose(y, X.sum(-1, dtype="f8"))
    shaped = lambda v, shape: np.sort(v).reshape(shape)  # noqa: E731
    y = xpapply.apply_along_axis(shaped, -1, d, shape=(3, 4))
    np.testing.assert_array_equal(y, np.sort(X, -1).reshape(8, 5, 3, 4))


def test_a_promise_that_f_does_not_keep():
    d = da.from_array(X, chunks=(3, 5, 12))
    y = xpapply.apply_along_axis(lambda v: np.sort(v)[:2], -1, d, dtype="f4", shape=(3,))
    with pytest.raises(ValueError, match=r"f returned shape \(2,\) .* where \(3,\) was expected"):
        y.compute(scheduler="synchronous")


def test_functions_with_effects_run_once_per_slice_and_once_for_the_dtype():
    d = da.from_array(X[:2], chunks=(1, 5, 12))
    LOG.clear()
    with xpapply.options(fallback="silent"):
        y = xpapply.apply_along_axis(appends, -1, d)
        assert len(LOG) == 1
        y.compute()
    assert len(LOG) == 11


def test_explain_says_what_the_tasks_do():
    d = da.from_array(X, chunks=(3, 5, 4))
    with_graph, without = xpapply.explain(standardize, -1, d), xpapply.explain(masked, -1, d)
    for p in (with_graph, without):
        assert p.engine == "dask"
        assert "each as a NumPy array: 3" in str(p)
        assert p.slices == 40
    assert with_graph.reasons == ()
    assert "the first slice, of the first block, tells" in without.kernels[1]
    assert without.reasons == ()
    looped = xpapply.explain(lambda v: hash(v.max()), -1, da.from_array(X, chunks=(3, 5, -1)))
    assert looped.reasons[0].startswith("in each chunk the loop runs: the hash of a value")
    np.testing.assert_allclose(with_graph(d), np.apply_along_axis(standardize, -1, X), rtol=1e-4)
    with pytest.raises(xpapply.InputError, match=r"slices float32\[12\]: found float32\[8\]"):
        with_graph(d[..., :8])


# --- as NumPy ------------------------------------------------------------------------------------


@pytest.mark.parametrize("axis", [(0, 1), (2, 0), (1,), (0, 1, 2)])
@pytest.mark.parametrize("f", [standardize, lambda p: p[p > 0].sum(), lambda p: p.ravel()[:3]])
def test_slices_with_several_axes(f, axis):
    y = xpapply.apply_along_axis(f, axis, da.from_array(X, chunks=(3, 5, 6)))
    want = xpapply.apply_along_axis(f, axis, X)
    assert (y.shape, y.dtype) == (want.shape, want.dtype)
    np.testing.assert_allclose(y, want, rtol=1e-4, atol=1e-5)


def test_a_vector():
    y = xpapply.apply_along_axis(np.sort, 0, da.from_array(X[0, 0], chunks=5))
    np.testing.assert_array_equal(y, np.sort(X[0, 0]))
    y = xpapply.apply_along_axis(masked, 0, da.from_array(X[0, 0], chunks=5))
    assert y.shape == ()
    np.testing.assert_allclose(y, masked(X[0, 0]))


def test_unknown_sizes_of_chunks():
    d = da.from_array(X.reshape(40, 12), chunks=(7, 12))
    d = d[d[:, 0] > 0.7]  # so that some chunks may be empty
    want = X.reshape(40, 12)
    want = want[want[:, 0] > 0.7]
    for f in (standardize, masked):
        y = xpapply.apply_along_axis(f, 1, d)
        assert np.isnan(y.shape[0])
        str(xpapply.explain(f, 1, d))
        found = y.compute()
        np.testing.assert_allclose(found, np.apply_along_axis(f, 1, want), rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="iteration dimensions are 0"):
        xpapply.apply_along_axis(masked, 1, d[d[:, 0] > 9])
    with pytest.raises(ValueError, match="unknown"):
        xpapply.apply_along_axis(masked, 0, d)


def test_empty_chunks():
    d = da.from_array(X, chunks=((0, 8, 0), (5,), (12,)))
    for f in (standardize, masked):
        y = xpapply.apply_along_axis(f, -1, d)
        np.testing.assert_allclose(y, np.apply_along_axis(f, -1, X), rtol=1e-4, atol=1e-5)


def test_no_slices():
    with pytest.raises(ValueError, match="iteration dimensions are 0"):
        xpapply.apply_along_axis(standardize, -1, da.zeros((0, 3)))


def test_objects_and_texts():
    words = np.array([["a", "bb"], ["ccc", "d"]])
    for x in (words, words.astype(object)):
        y = xpapply.apply_along_axis(lambda v: v[::-1], 1, da.from_array(x, chunks=(1, 2)))
        want = x[:, ::-1]
        assert y.dtype == want.dtype
        np.testing.assert_array_equal(y.compute(), want)


def test_what_f_raises():
    def picky(v):
        if v[0] == X[4, 2, 0]:
            raise KeyError("not this one")
        return v.sum()

    y = xpapply.apply_along_axis(picky, -1, da.from_array(X, chunks=(4, 5, 12)))
    with pytest.raises(KeyError, match="not this one") as raised:
        y.compute(scheduler="synchronous")
    assert "arr is one block of a dask array" in raised.value.__notes__
    d = da.from_array(X[4:, 2:], chunks=(2, 3, 12))
    with pytest.raises(KeyError, match="not this one"):
        xpapply.apply_along_axis(picky, -1, d)


def test_blocks_of_other_libraries():
    sub = type("Blocks", (), {"shape": (), "ndim": 0})
    d = da.from_array(X, chunks=4)
    d._meta = sub()
    with pytest.raises(xpapply.InputError, match=r"blocks of this dask array are .*Blocks, not"):
        xpapply.apply_along_axis(standardize, -1, d)


# --- the graph of tasks ---------------------------------------------------------------------------


def test_names_of_tasks_say_what_is_computed():
    d = da.from_array(X, chunks=(4, 5, 12))
    along = functools.partial(xpapply.apply_along_axis, arr=d, axis=-1)
    assert along(standardize).name == along(standardize).name
    assert along(standardize).name.startswith("standardize-along-axis-")
    assert along(standardize).name != along(masked).name
    scaled = lambda v, k: v * k  # noqa: E731
    assert (
        xpapply.apply_along_axis(scaled, -1, d, 2).name
        != xpapply.apply_along_axis(scaled, -1, d, 3).name
    )
    nets = [xpapply.MLP([np.full((2, 12), w, "f4")]) for w in (1.0, 1.0, 2.0)]
    names = [along(net).name for net in nets]
    assert names[0] == names[1] != names[2]


def test_networks_that_differ_in_one_of_many_weights_have_names_of_their_own():
    w = np.random.default_rng(0).normal(size=(64, 64)).astype("f4")
    other = w.copy()
    other[30, 30] += 100.0  # in the middle, which the text of an array leaves out
    d = da.ones((4, 64), chunks=(2, 64), dtype="f4")
    nets = [xpapply.MLP([w]), xpapply.MLP([other])]
    lazy = [xpapply.apply_along_axis(net, -1, d) for net in nets]
    lazy += [xpapply.compile(net, (64,))(d) for net in nets]
    assert len({y.name for y in lazy}) == 4
    for net, y in zip(nets * 2, da.compute(*lazy), strict=True):
        want = xpapply.apply_along_axis(net, -1, np.ones((4, 64), "f4"))
        np.testing.assert_allclose(y, want, atol=1e-3)  # they differ by 100


def test_one_task_per_block_and_the_function_once():
    d = da.from_array(X, chunks=(2, 5, 12))
    y = xpapply.apply_along_axis(standardize, -1, d)
    assert len(y.dask) - len(d.dask) == 4 + 1


@pytest.mark.parametrize("f", [standardize, lambda v: v[:3]], ids=["v", "3"])
@pytest.mark.parametrize("axis", [0, 2, (1, 2)], ids=str)
def test_one_task_makes_a_block_and_runs_on_it(f, axis):
    d = da.ones((6, 5, 12), chunks=tuple(-1 if a in np.ravel(axis) else 2 for a in range(3))) + 1
    with xpapply.options(fallback="silent"):
        y = xpapply.apply_along_axis(f, axis, d)
    (best,) = dask.optimize(y)
    assert len(dict(best.__dask_graph__())) == np.prod(d.numblocks) + 1, "each, and what runs"


def test_arguments_may_be_of_dask():
    d = da.from_array(X, chunks=(3, 5, 12))
    w = da.arange(12, chunks=5)
    y = xpapply.apply_along_axis(lambda v, w: np.sort(v) @ w, -1, d, w, dtype="f8", shape=())
    np.testing.assert_allclose(y, np.sort(X, -1) @ np.arange(12.0), rtol=1e-5)


def test_a_network_is_what_it_was_when_it_was_called():
    torch = library("torch")
    net = torch.nn.Linear(12, 3)
    d = da.from_array(X, chunks=(3, 5, 12))
    with torch.no_grad():
        want = xpapply.apply_along_axis(net, -1, X)
        y = xpapply.apply_along_axis(net, -1, d)
        net.weight.zero_()
    assert (y.shape, y.dtype) == (want.shape, want.dtype)
    np.testing.assert_allclose(y, want, rtol=1e-4, atol=1e-5)


def test_networks_of_several_axes_and_of_no_graph():
    torch = library("torch")

    class Odd(torch.nn.Module):
        def forward(self, v):
            return torch.fft.rfft(v).abs() if v.sum() > -1e9 else v

    flat = torch.nn.Sequential(torch.nn.Flatten(0), torch.nn.Linear(60, 2)).eval()
    d = da.from_array(X, chunks=(3, 3, 12))
    with torch.no_grad(), xpapply.options(fallback="silent"):
        for net, axis in ((Odd(), -1), (flat, (1, 2))):
            want = xpapply.apply_along_axis(net, axis, X)
            y = xpapply.apply_along_axis(net, axis, d)
            assert (y.shape, y.dtype) == (want.shape, want.dtype)
            np.testing.assert_allclose(y, want, rtol=1e-3, atol=1e-4)


def test_networks_without_a_graph_have_names_of_their_own():
    torch = library("torch")

    class Scaled(torch.nn.Module):
        def __init__(self, by):
            super().__init__()
            self.by = by

        def forward(self, v):
            return torch.fft.rfft(v).abs() * self.by if v.sum() > -1e9 else v

    d = da.from_array(X, chunks=(3, 5, 12))
    f = [xpapply.vectorize(Scaled(by), signature="(n)->(7)", otypes="f") for by in (1.0, 2.0)]
    with torch.no_grad(), xpapply.options(fallback="silent"):
        nets = [xpapply.apply_along_axis(Scaled(by), -1, d) for by in (1.0, 2.0)]
        for one, twice in (nets, [g(d) for g in f]):
            assert one.name != twice.name
            found = dask.compute(one, twice)
            np.testing.assert_allclose(found[0] * 2, found[1], rtol=1e-5)


def test_a_compiled_plan_runs_on_blocks():
    d, may = unread(X, (3, 5, 12))
    p = xpapply.compile(xpapply.MLP([np.ones((2, 12), "f4")]), (12,))
    for plan in (p, pickle.loads(pickle.dumps(p))):
        y = plan(d)
        assert len(y.dask) - len(d.dask) == 3 + 1
        assert y.name == p(d).name
        may.append(True)
        np.testing.assert_allclose(y, p(X), rtol=1e-5)
        may.clear()
    with pytest.raises(xpapply.InputError, match=r"slices float32\[12\]: found float64\[12\]"):
        p(d.astype("f8"))


def test_wrong_numbers_of_features_are_told_at_once():
    d, _ = unread(X, (3, 5, 12))
    with pytest.raises(xpapply.InputError, match="12"):
        xpapply.apply_along_axis(xpapply.MLP([np.ones((2, 8), "f4")]), -1, d)


def test_tasks_can_be_sent():
    d = da.from_array(X, chunks=(4, 5, 12))
    net = xpapply.MLP([np.ones((2, 12), "f4")])
    for f in (net, standardize, masked):
        y = xpapply.apply_along_axis(f, -1, d)
        sent = pickle.loads(pickle.dumps(y))
        np.testing.assert_allclose(sent, xpapply.apply_along_axis(f, -1, X), rtol=1e-4, atol=1e-5)


def test_options_hold_where_the_call_was_made():
    d = da.from_array(np.tile(X, (10, 1, 1)), chunks=(40, 5, 12))
    with xpapply.options(fallback="raise"):
        y = xpapply.apply_along_axis(lambda v: float(str(v.sum())), -1, d, dtype="f8", shape=())
    with pytest.raises(xpapply.UnsupportedError, match="runs slice by slice"):
        y.compute(scheduler="synchronous")
    with xpapply.options(engine="nothing"), pytest.raises(xpapply.UnsupportedError):
        xpapply.apply_along_axis(standardize, -1, d)
    with xpapply.options(engine="loop"):
        LOG.clear()
        y = xpapply.apply_along_axis(appends, -1, d, dtype="f4", shape=())
    y.compute()
    assert len(LOG) == 400


def test_what_runs_slice_by_slice_is_told_at_the_call():
    def spelled(v):
        return float(str(v.sum()))

    d = da.from_array(np.tile(X, (40, 1, 1)), chunks=(40, 5, 12))
    xpapply.explain(spelled, -1, d)
    with pytest.warns(xpapply.FallbackWarning, match=r"spelled runs .* \(1,600 calls\)") as told:
        y = xpapply.apply_along_axis(spelled, -1, d)
    assert told[0].filename == __file__
    y.compute(scheduler="synchronous")  # not a word, or it would be an error
    with (
        xpapply.options(fallback="raise"),
        pytest.raises(xpapply.UnsupportedError, match="runs slice by slice"),
    ):
        xpapply.apply_along_axis(spelled, -1, d)
    xpapply.apply_along_axis(spelled, -1, d[:1])  # few


# --- slices in several chunks --------------------------------------------------------------------


def test_chunks_that_are_merged_stay_as_large_as_dask_makes_them():
    d = da.zeros((1000, 1000, 1000), chunks=(1000, 1000, 10))  # 80 MB each
    with xpapply.options(rechunk="silent"):
        y = xpapply.apply_along_axis(standardize, -1, d)
        assert y.chunksize[2] == 1000
        assert np.prod(y.chunksize) * 8 <= 128 * 2**20
        y = xpapply.apply_along_axis(standardize, -1, d[:10, :100])
    assert y.chunks == ((10,), (100,), (1000,)), "8 MB"


def test_rechunking_is_told_where_it_costs():
    d = da.zeros((1000, 1000, 100), chunks=(1000, 1000, 10))  # 800 MB
    with pytest.warns(
        da.PerformanceWarning, match=r"axis 2 .* 10 chunks, .* all 762.94 MiB .* up to"
    ) as told:
        y = xpapply.apply_along_axis(standardize, -1, d)
    assert told[0].filename == __file__
    assert y.chunks[2] == (100,)
    with xpapply.options(rechunk="silent"):
        xpapply.apply_along_axis(standardize, -1, d)
    with xpapply.options(rechunk="raise"):
        with pytest.raises(xpapply.InputError, match="axis 2 consists of multiple chunks"):
            xpapply.apply_along_axis(standardize, -1, d)
        xpapply.apply_along_axis(standardize, -1, d.rechunk({2: -1}))
    few = da.from_array(X, chunks=(8, 5, 4))
    xpapply.apply_along_axis(standardize, -1, few)  # 2 kB: not a word
    with xpapply.options(rechunk="raise"), pytest.raises(xpapply.InputError):
        xpapply.apply_along_axis(standardize, -1, few)


# --- any chunks ----------------------------------------------------------------------------------


OF_NUMBERS = {
    "arithmetic": lambda v: v * 2 + 1,
    "quotient": lambda v: v / 2,
    "sum": lambda v: v.sum(),
    "mean": lambda v: v.mean(),
    "sort": lambda v: np.sort(v)[::-1],
    "list": lambda v: [v[0], v.max() > 3],
    "decides": lambda v: v[v > 3].sum() if v[0] > 3 else v.min(),
    "number": lambda v: 1 if v[0] > 3 else 2.5,
    "where": lambda v: np.where(v > 3, v, 0),
    "cumulative": lambda v: np.cumsum(v),
    "matrix": lambda v: v[:, None] + v,
    "greatest": lambda v: np.argmax(v),
}


@given(
    shape=st.tuples(*[st.integers(1, 5)] * 3),
    axis=st.integers(-3, 2),
    chunks=st.tuples(*[st.integers(1, 5)] * 3),
    dtype=st.sampled_from(["u1", "i2", "i8", "f4", "f8", "?"]),
    name=st.sampled_from(sorted(OF_NUMBERS)),
)
def test_any_chunks(shape, axis, chunks, dtype, name):
    x = np.random.default_rng(0).integers(0, 7, shape).astype(dtype)
    f = OF_NUMBERS[name]
    want = np.apply_along_axis(f, axis, x)
    y = xpapply.apply_along_axis(f, axis, da.from_array(x, chunks=chunks))
    assert (y.shape, y.dtype) == (want.shape, want.dtype)
    with xpapply.options(fallback="silent"):
        found = y.compute(scheduler="synchronous")
    assert found.dtype == want.dtype
    np.testing.assert_allclose(found, want, rtol=1e-6)


# --- on a GPU ------------------------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.parametrize("chunks", [(3, 5, 12), (4, 2, 5)])
def test_blocks_of_cupy_stay_there(cupy, chunks):
    from xpapply import special

    d = da.from_array(X, chunks=chunks).map_blocks(cupy.asarray)
    net = xpapply.MLP([np.ones((2, 12), "f4")])
    weighted = xpapply.vectorize(lambda v, w: (v * w).sum(), signature="(n),(n)->()")
    ways = [
        lambda x: xpapply.apply_along_axis(standardize, -1, x),
        lambda x: xpapply.apply_along_axis(lambda v: v[v > 0].sum(), -1, x),
        lambda x: xpapply.apply_along_axis(net, -1, x),
        lambda x: weighted(x, x[0]),
        lambda x: special.logsumexp(x, axis=-1),
        lambda x: special.softmax(x, axis=(0, 2)),
        lambda x: special.argmax_and_max(x, axis=-1)[0],
    ]
    for way in ways:
        want, y = way(X), way(d)
        assert type(y._meta) is cupy.ndarray
        assert (y.shape, y.dtype) == (want.shape, want.dtype)
        found = y.compute(scheduler="synchronous")
        assert type(found) is cupy.ndarray
        np.testing.assert_allclose(found.get(), want, rtol=1e-4, atol=1e-5)
    assert "each as a CuPy array" in str(xpapply.explain(net, -1, d))


QUERY_PLANNING = """
import numpy as np, dask.array as da, xpapply
from xpapply import special
d = da.ones((4, 4), chunks=2)
assert hasattr(d, "expr")
calls = {
    "along": lambda: xpapply.apply_along_axis(np.sum, 0, d),
    "vectorize": lambda: xpapply.vectorize(lambda a: a + 1)(d),
    "special": lambda: special.logsumexp(d, axis=0),
    "bincount": lambda: special.bincount(d.astype(int), 0),
    "plan": lambda: xpapply.compile(lambda a, b: a + b, ((4,), (4,)), "float64")(d, d),
}
for name, call in calls.items():
    try:
        call()
    except xpapply.InputError as error:
        assert "query-planning" in str(error), error
    else:
        raise AssertionError(name)
"""


def test_arrays_of_query_planning_are_refused_with_the_way_out():
    env = os.environ | {"DASK_ARRAY__QUERY_PLANNING": "True"}
    command = [sys.executable, "-c", QUERY_PLANNING]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_any_names_of_further_arguments():
    """What runs a block has names of its own."""
    f = lambda v, block=1, self=2, app=3: v.sum() * block + self * app  # noqa: E731
    x = np.arange(40.0).reshape(5, 8)
    lazy = da.from_array(x, chunks=(2, 8))
    more = {"block": 3, "self": 5, "app": 7}
    want = np.apply_along_axis(f, 1, x, **more)
    np.testing.assert_array_equal(xpapply.apply_along_axis(f, 1, lazy, **more).compute(), want)

"""`special.bincount` of arrays of dask: what it gives of all, in one pass over the blocks."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import xpapply
from xpapply import special

da = pytest.importorskip("dask.array")

X = np.random.default_rng(0).integers(0, 9, (6, 8, 10))
W = np.random.default_rng(1).normal(size=(8, 10))
CHUNKS = [(6, 8, 10), (2, 3, 4), (6, 1, 3)]
AXES = [0, 1, -1, (0, 2), (2, 1), None, ()]


def same(y, want):
    assert isinstance(y, da.Array)
    assert y.dtype == want.dtype
    assert all(
        n in (m, "nan") for n, m in zip(map(str, y.shape), map(str, want.shape), strict=True)
    )
    found = y.compute(scheduler="synchronous")
    assert (found.shape, found.dtype) == (want.shape, want.dtype)
    np.testing.assert_allclose(found, want, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("chunks", CHUNKS, ids=str)
@pytest.mark.parametrize("axis", AXES, ids=str)
def test_counts(axis, chunks):
    d = da.from_array(X, chunks=chunks)
    same(special.bincount(d, axis), special.bincount(X, axis))
    same(special.bincount(d, axis, minlength=12), special.bincount(X, axis, minlength=12))


@pytest.mark.parametrize("weights", [W, da.from_array(W, chunks=(3, 4))], ids=["numpy", "dask"])
@pytest.mark.parametrize("axis", AXES, ids=str)
def test_weights(axis, weights):
    d = da.from_array(X, chunks=(2, 3, 4))
    same(special.bincount(d, axis, weights=weights), special.bincount(X, axis, weights=W))


def test_weights_alone_are_of_dask():
    weights = da.from_array(W, chunks=(3, 4))
    same(special.bincount(X, 1, weights=weights), special.bincount(X, 1, weights=W))


@pytest.mark.parametrize("dtype", ["u1", "i2", "u8", "?"])
def test_bins_are_known_where_no_number_can_need_more(dtype):
    x = X.astype(dtype)
    y = special.bincount(da.from_array(x, chunks=4), 1, minlength=256)
    assert y.shape[1] == 256 or dtype in ("i2", "u8")
    same(y, special.bincount(x, 1, minlength=256))
    y = special.bincount(da.from_array(x, chunks=4), 1)
    assert np.isnan(y.shape[1])


class Counted:
    """An array that counts what is read of it."""

    def __init__(self, x):
        self.x, self.shape, self.dtype, self.ndim, self.nbytes = x, x.shape, x.dtype, x.ndim, 0

    def __getitem__(self, at):
        y = self.x[at]
        self.nbytes += y.nbytes
        return y


def test_nothing_is_read_at_the_call_and_all_once():
    counted = Counted(X)
    y = special.bincount(da.from_array(counted, chunks=(2, 3, 4)), 0)
    assert counted.nbytes == 0
    np.testing.assert_array_equal(y.compute(), special.bincount(X, 0))
    assert counted.nbytes == X.nbytes


def test_what_it_refuses():
    d = da.from_array(X, chunks=4)
    with pytest.raises(xpapply.InputError, match="counts numbers that are not negative"):
        special.bincount(d - 1, 0).compute()
    with pytest.raises(TypeError, match="it counts integers"):
        special.bincount(d * 0.5, 0)
    with pytest.raises(xpapply.InputError, match="do not broadcast"):
        special.bincount(d, 0, weights=W[:3])
    with pytest.raises(TypeError, match="complex"):
        special.bincount(d, 0, weights=W * 1j)


def test_chunks_of_unknown_length_and_empty_ones():
    x = X[:, 0, 0]
    d = da.from_array(x, chunks=2)
    same(special.bincount(d[d > 4]), np.bincount(x[x > 4]))
    same(special.bincount(d[d > 99]), np.bincount(x[x > 99]))


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=3),
    st.lists(st.integers(1, 3), min_size=1, max_size=3),
    st.sampled_from(["u1", "i8"]),
    st.integers(0, 5),
    st.data(),
)
def test_any_chunks(rows, columns, dtype, least, data):
    shape = sum(rows), sum(columns)
    seed = data.draw(st.integers(0, 99))
    x = np.random.default_rng(seed).integers(0, 7, shape).astype(dtype)
    axis = data.draw(st.sampled_from([0, 1, (0, 1)]))
    d = da.from_array(x, chunks=(tuple(rows), tuple(columns)))
    same(special.bincount(d, axis, minlength=least), special.bincount(x, axis, minlength=least))

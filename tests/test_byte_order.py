"""Arrays of a foreign byte order: the loop's results, in the byte order of the loop's."""

import numpy as np
import pytest
from calls_of import check

import xpapply

RNG = np.random.default_rng(0)
A = RNG.random((150, 12)) * 9


def branches(v):
    if v[0] > 4:
        return v[:3]
    return v[:3] * 2


def catches(v):
    try:
        return np.linalg.inv(v[:9].reshape(3, 3))[0]
    except np.linalg.LinAlgError:
        return v[:3]


def lengths(v):
    return np.sort(v[v > 2])[:2]


def different(v):
    return np.unique(np.round(v))[:2]


@pytest.mark.parametrize(
    "f",
    [
        lambda v: v,
        lambda v: v.copy(),
        lambda v: v[1:],
        lambda v: v[0],
        lambda v: v * 2,
        lambda v: v.mean(),
        lambda v: np.sort(v),
        lambda v: np.flip(v),
        lambda v: np.median(v),
        lambda v: np.cumsum(v),
        lambda v: np.r_[v, v[0]],
        lambda v: np.concatenate([v, v]),
        lambda v: np.where(v > 3, v, 0),
        lambda v: np.zeros(3, v.dtype) + v[:3],
        lambda v: v[v > 3].sum(),
        lambda v: v.astype(np.float32),
        different,
        lambda v: [v.min(), v.max()],
        lambda v: v.argmax(),
        lambda v: v.tolist()[2],
        branches,
        catches,
        lengths,
    ],
)
@pytest.mark.no_such_case(  # complex numbers have no order
    lambda f, dtype: dtype == ">c8" and f in (branches, lengths, different)
)
@pytest.mark.parametrize("dtype", [">f8", ">f4", ">i2", ">u4", ">c8"])
def test_foreign_bytes(f, dtype):
    data = A.astype(dtype)
    assert not data.dtype.isnative
    exact = f is not catches
    check(f, data, exact=exact)
    check(f, np.ascontiguousarray(data.T), 0, exact=exact)


def test_a_trace_is_of_one_byte_order():
    def f(v):
        return v[1:]

    data = np.tile(A, (10, 1))
    for arr in (data, data.astype(">f8"), data):
        got = xpapply.apply_along_axis(f, -1, arr)
        want = np.apply_along_axis(f, -1, arr)
        assert got.dtype.byteorder == want.dtype.byteorder
        np.testing.assert_array_equal(got, want)


def test_memory_maps(tmp_path):
    np.save(tmp_path / "a.npy", np.tile(A, (10, 1)).astype(">f4"))
    data = np.load(tmp_path / "a.npy", mmap_mode="r")
    got = xpapply.apply_along_axis(lambda v: v.max() - v.mean(), -1, data)
    want = np.apply_along_axis(lambda v: v.max() - v.mean(), -1, np.array(data))
    np.testing.assert_allclose(got, want, rtol=1e-6)

"""The first slice of the whole array says what results are, wherever its blocks begin."""

import numpy as np
import pytest

import xpapply

DATA = np.random.default_rng(0).random((60, 6))
DATA[15:40] = np.nan


def polynomial(v):
    if np.isnan(v).any():
        return np.nan
    return np.polyfit(np.arange(6.0), v, 1)


def two(v):
    if np.isnan(v).any():
        return [np.nan]
    return np.sort(v)[:2]


def matrix(v):
    if np.isnan(v).any():
        return [1, 2, 3]
    return v.reshape(2, 3)


FUNCTIONS = [polynomial, two, matrix]


@pytest.mark.parametrize("f", FUNCTIONS)
@pytest.mark.parametrize("chunk", [1, 7, 15, 20, 60])
def test_blocks_of_dask(f, chunk):
    da = pytest.importorskip("dask.array")
    want = np.apply_along_axis(f, -1, DATA)
    got = xpapply.apply_along_axis(f, -1, da.from_array(DATA, chunks=(chunk, 6)))
    np.testing.assert_allclose(got.compute(scheduler="sync"), want)


@pytest.mark.parametrize("f", FUNCTIONS)
def test_blocks_of_a_file(f, tmp_path):
    np.save(tmp_path / "a.npy", DATA)
    want = np.apply_along_axis(f, -1, DATA)
    out = np.lib.format.open_memmap(tmp_path / "out.npy", "w+", want.dtype, want.shape)
    with xpapply.options(memory="4 kB"):
        arr = np.load(tmp_path / "a.npy", mmap_mode="r")
        xpapply.apply_along_axis(f, -1, arr, out=out)
    np.testing.assert_allclose(out, want)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_blocks_in_several_axes(axis):
    da = pytest.importorskip("dask.array")
    x = np.moveaxis(DATA.reshape(6, 10, 6), -1, axis)
    want = np.apply_along_axis(polynomial, axis, x)
    chunks = tuple(6 if a == axis else 3 for a in range(3))
    got = xpapply.apply_along_axis(polynomial, axis, da.from_array(x, chunks=chunks))
    np.testing.assert_allclose(got.compute(scheduler="sync"), want)


def test_what_does_not_fit_raises_as_in_the_loop():
    da = pytest.importorskip("dask.array")

    def f(v):
        return v[:2] if np.isnan(v).any() else v.sum()

    lazy = xpapply.apply_along_axis(f, -1, da.from_array(DATA, chunks=(15, 6)))
    with pytest.raises(ValueError, match="could not broadcast") as raised:
        lazy.compute(scheduler="sync")
    assert "one block of a dask array" in raised.value.__notes__[-1]


def test_what_f_raises_is_raised_once():
    da = pytest.importorskip("dask.array")

    def f(v):
        if np.isnan(v).any():
            raise ValueError("no data")
        return v.sum()

    lazy = xpapply.apply_along_axis(f, -1, da.from_array(DATA, chunks=(15, 6)))
    with pytest.raises(ValueError, match="no data"):
        lazy.compute(scheduler="sync")

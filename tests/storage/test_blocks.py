"""Arrays in files give what arrays in memory give, each chunk read and written once."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import xpapply
from xpapply.limits import LIMITS
from xpapply.storage import blocks, stores

h5py = pytest.importorskip("h5py")
zarr = pytest.importorskip("zarr")

NET = xpapply.MLP([np.linspace(-1, 1, 15).reshape(3, 5)], [np.array([0.5, 0.0, -1.0])])


def has_no_graph(v):
    return np.sort(v.ravel())[:2] + len(set(v.ravel().tolist()))


def first_decides(v):
    return 1 if v.flat[0] > 0.5 else 0.25


FUNCTIONS = {
    "sum": lambda v: v.sum(),
    "standardize": lambda v: (v - v.mean()) / (v.std() + 1),
    "two": lambda v: np.array([v.min(), v.max()]),
    "matrix": lambda v: np.outer(v, v),
    "no graph": has_no_graph,
    "first decides": first_decides,
}


def as_file(x, kind, folder, chunks, shards):
    """An array with the elements of `x`, and None for one that is only read."""
    if kind == "memory":
        return x.copy()
    if kind in ("memmap", "memmap F"):
        order = "F" if kind.endswith("F") else "C"
        path = folder / f"x{len(list(folder.iterdir()))}"
        found = np.memmap(path, x.dtype, "w+", shape=x.shape, order=order)
    elif kind == "h5py":
        file = h5py.File(folder / f"x{len(list(folder.iterdir()))}.h5", "w")
        found = file.create_dataset("inner/x", shape=x.shape, dtype=x.dtype, chunks=chunks)
    else:
        whole = tuple(c * s for c, s in zip(chunks, shards, strict=True))
        found = zarr.create_array(
            store=folder / f"x{len(list(folder.iterdir()))}.zarr",
            shape=x.shape, dtype=x.dtype, chunks=chunks, shards=whole,
        )  # fmt: skip
    found[...] = x
    return found


@st.composite
def arrays_in_files(draw):
    shape = tuple(draw(st.lists(st.integers(1, 7), min_size=1, max_size=4)))
    x = np.random.default_rng(draw(st.integers(0, 99))).normal(size=shape)
    x = x.astype(draw(st.sampled_from(["f4", "f8"])))
    count = draw(st.integers(1, min(2, len(shape))))
    axes = tuple(draw(st.permutations(range(len(shape))))[:count])
    axis = axes if draw(st.booleans()) and count > 1 else axes[0]
    return x, axis


KINDS = ["memory", "memmap", "memmap F", "h5py", "zarr"]


@pytest.mark.filterwarnings("ignore:chunks of .* do not fit them:RuntimeWarning")
@given(
    given=arrays_in_files(),
    name=st.sampled_from(sorted(FUNCTIONS)),
    kinds=st.tuples(st.sampled_from(KINDS[1:]), st.sampled_from(KINDS)),
    blocks=st.integers(1, 6),
    data=st.data(),
)
def test_the_same_as_in_memory(given, name, kinds, blocks, data, tmp_path_factory):
    x, axis = given
    f = FUNCTIONS[name]
    folder = tmp_path_factory.mktemp("files")
    want = xpapply.apply_along_axis(f, axis, x)
    if not isinstance(axis, tuple):
        np.testing.assert_allclose(want, np.apply_along_axis(f, axis, x), rtol=1e-5, atol=1e-6)

    def cut(n):
        return data.draw(st.integers(1, min(n, 4)))

    arr = as_file(x, kinds[0], folder, tuple(map(cut, x.shape)), tuple(map(cut, x.shape)))
    out = np.full_like(want, 7)
    chunks = tuple(min(map(cut, want.shape), default=1) for _ in want.shape)
    if want.ndim or kinds[1] in ("memory", "memmap"):
        shards = (1,) * want.ndim
        out = as_file(out, kinds[1], folder, chunks or None, shards)
    unit = chunks if kinds[1] in ("h5py", "zarr") else (1,) * want.ndim
    slices = 1
    axes = axis if isinstance(axis, tuple) else (axis,)
    for n, c in zip(want.shape, unit, strict=True):
        slices *= min(n, c)
    one = math.prod(x.shape[a] for a in axes) * x.itemsize + want.nbytes
    with xpapply.options(memory=5 * blocks * slices * one):
        got = xpapply.apply_along_axis(f, axis, arr, out=out)
    assert got is out
    # sums follow the order in memory, which is that of the file
    near = 1e-5 if x.dtype == "f4" else 1e-12
    np.testing.assert_allclose(np.asarray(got[...]), want, rtol=near, atol=near)
    assert not list(folder.glob("*.unfinished"))


class Chunked:
    """Chunks in memory that notice what is read and written."""

    def __init__(self, x, chunks):
        self.x, self.chunks, self.shape, self.dtype, self.ndim = x, chunks, x.shape, x.dtype, x.ndim
        self.nbytes = x.nbytes
        self.read, self.written = [], []

    def _chunks(self, index):
        ranges = [
            range(s.start // c, -(-s.stop // c)) for s, c in zip(index, self.chunks, strict=True)
        ]
        return list(itertools.product(*ranges))

    def __getitem__(self, index):
        self.read += self._chunks(index)
        return self.x[index]

    def __setitem__(self, index, y):
        self.written += self._chunks(index)
        self.x[index] = y

    def counts(self):
        return math.prod(-(-n // c) for n, c in zip(self.shape, self.chunks, strict=True))


def test_each_chunk_is_read_and_written_once():
    x = np.random.default_rng(0).normal(size=(40, 30, 8))
    arr, out = Chunked(x, (4, 6, 8)), Chunked(np.zeros((40, 30)), (8, 10))
    with xpapply.options(memory=5 * 8 * 30 * 9 * 8 * 2):
        assert xpapply.apply_along_axis(lambda v: v.max(), -1, arr, out=out) is out
    np.testing.assert_array_equal(out.x, x.max(-1))
    assert len(out.written) == len(set(out.written)) == out.counts()
    # the first slice is looked at before
    assert len(arr.read) - 1 == len(set(arr.read)) == arr.counts()


def test_chunks_that_are_read_often_are_told_of():
    x = np.random.default_rng(0).normal(size=(64, 64, 4))
    arr, out = Chunked(x, (64, 1, 4)), Chunked(np.zeros((64, 64)), (1, 64))
    with xpapply.options(memory=5 * 64 * 5 * 8), pytest.warns(RuntimeWarning, match="64 times"):
        xpapply.apply_along_axis(lambda v: v.max(), -1, arr, out=out)
    np.testing.assert_array_equal(out.x, x.max(-1))
    with xpapply.options(memory=5 * 64 * 5 * 8):
        p = xpapply.explain(lambda v: v.max(), -1, arr, out=out)
    assert "each chunk read 64 times" in str(p)


def test_a_chunk_that_does_not_fit():
    arr = np.zeros((100, 100, 10))
    out = Chunked(np.zeros((100, 100)), (50, 100))
    with (
        xpapply.options(memory="1 MB"),
        pytest.raises(
            xpapply.InputError,
            match=r"a chunk of out is \(50, 100\).* 440,000 bytes.* allows 1,000,000",
        ),
    ):
        xpapply.apply_along_axis(lambda v: v.sum(), -1, arr, out=out)
    assert not out.x.any()


def test_blocks_follow_the_file(tmp_path):
    """The slices of one block lie side by side, so that a disk reads on."""
    for order, lengths in (("C", (1, 6, 5)), ("F", (4, 1, 5))):
        m = np.memmap(tmp_path / order, "f8", "w+", shape=(8, 6, 5), order=order)
        slices = blocks.SlicesInBlocks(m.shape, (2,), 2, ())
        target = stores.store(np.zeros((8, 6)))
        with xpapply.options(memory=5 * 6 * 48):
            cut = blocks.cut(slices, stores.store(m), target, 48, 5)
        want = {"C": (1, 6, 5), "F": (6, 1, 5)}[order]
        assert cut.lengths == want, lengths
    del m


def test_pages_that_are_read_are_those_of_the_block(tmp_path):
    m = np.memmap(tmp_path / "x", "f8", "w+", shape=(6, 4, 4096))
    found = stores.store(m)
    base = m.__array_interface__["data"][0]
    for index in (
        (slice(1, 3), slice(0, 4), slice(0, 4096)),
        (slice(0, 6), slice(1, 2), slice(0, 4096)),
    ):
        view = m[index]
        runs = [(low - base, high - base) for low, high in found._runs(view)]
        assert sum(high - low for low, high in runs) == view.nbytes
        for k, (low, high) in enumerate(runs):
            assert not low % 8
            flat = np.asarray(m).reshape(-1)[low // 8 : high // 8]
            assert np.shares_memory(flat, view), k
    del found, view, m, flat


def test_memory_that_is_not_there_is_not_asked_for(tmp_path):
    arr = np.memmap(tmp_path / "x", "f4", "w+", shape=(3, 4))
    with xpapply.options(memory=1), pytest.raises(xpapply.InputError, match="one slice is"):
        xpapply.apply_along_axis(lambda v: v.sum(), 1, arr, out=np.zeros(3, "f4"))
    del arr


def test_small_arrays_in_files_without_out(tmp_path):
    x = np.random.default_rng(0).normal(size=(5, 6))
    z = zarr.create_array(store=tmp_path / "z.zarr", shape=x.shape, chunks=(2, 3), dtype="f8")
    z[:] = x
    for f in FUNCTIONS.values():
        np.testing.assert_array_equal(
            xpapply.apply_along_axis(f, 1, z), xpapply.apply_along_axis(f, 1, x)
        )


def test_large_arrays_in_files_without_out(tmp_path, monkeypatch):

    monkeypatch.setattr(LIMITS, "streamed_from", 100)
    x = np.random.default_rng(0).normal(size=(50, 5))
    z = zarr.create_array(store=tmp_path / "z.zarr", shape=x.shape, chunks=(8, 5), dtype="f8")
    z[:] = x
    assert xpapply.explain(NET, 1, z).engine == "stream"
    with xpapply.options(memory=5000):
        got = xpapply.apply_along_axis(NET, 1, z)
    assert type(got) is np.ndarray
    np.testing.assert_allclose(got, xpapply.apply_along_axis(NET, 1, x), rtol=1e-12)


def test_scaled_images(tmp_path):
    """A NIfTI file tells int16, and gives float64."""
    nibabel = pytest.importorskip("nibabel")
    x = np.random.default_rng(0).normal(size=(4, 5, 6, 7))
    image = nibabel.Nifti1Image(x, np.eye(4))
    image.set_data_dtype("i2")
    nibabel.save(image, tmp_path / "x.nii")
    proxy = nibabel.load(tmp_path / "x.nii").dataobj
    assert proxy.dtype == np.int16
    want = np.asarray(proxy).std(-1)
    out = np.memmap(tmp_path / "out", "f8", "w+", shape=want.shape)
    with xpapply.options(memory=5 * 2 * 64 * 5):
        p = xpapply.explain(lambda v: v.std(), -1, proxy, out=out)
        xpapply.apply_along_axis(lambda v: v.std(), -1, proxy, out=out)
    np.testing.assert_allclose(out, want, rtol=1e-12)
    assert "blocks of (10, 1, 1, 7)" in str(p) or "blocks of (4, 2, 1, 7)" in str(p), str(p)
    del out

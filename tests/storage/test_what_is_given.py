"""What may be given as `arr` and `out`, and what is said of what may not."""

import numpy as np
import pytest

import xpapply
from xpapply.limits import LIMITS

h5py = pytest.importorskip("h5py")
zarr = pytest.importorskip("zarr")

X = np.random.default_rng(0).normal(size=(12, 8))
apply = xpapply.apply_along_axis


def total(v):
    return v.sum()


def zarr_of(x, path, **more):
    x = np.asarray(x)
    z = zarr.create_array(store=path, shape=x.shape, dtype=x.dtype, **more)
    z[...] = x
    return z


def hdf5_of(x, path, **more):
    return h5py.File(path, "w").create_dataset("x", data=x, **more)


def memmap_of(x, path, order="C"):
    x = np.asarray(x)
    m = np.memmap(path, x.dtype, "w+", shape=x.shape, order=order)
    m[...] = x
    return m


FILES = {"zarr": zarr_of, "h5py": hdf5_of, "memmap": memmap_of}


class Blocks:
    """The least that has blocks."""

    def __init__(self, x):
        self.x, self.shape, self.dtype = x, x.shape, x.dtype

    def __getitem__(self, index):
        return self.x[index]

    def __setitem__(self, index, y):
        self.x[index] = y


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize("axis", [0, -1])
def test_lists_into_files(kind, axis, tmp_path):
    want = np.apply_along_axis(total, axis, X)
    out = FILES[kind](np.zeros_like(want), tmp_path / "y")
    assert apply(total, axis, X.tolist(), out=out) is out
    np.testing.assert_allclose(out[...], want)


def test_nothing_but_a_shape_a_dtype_and_blocks(monkeypatch):

    out = Blocks(np.zeros(12))
    assert apply(total, -1, Blocks(X), out=out) is out
    np.testing.assert_allclose(out.x, X.sum(-1))
    np.testing.assert_allclose(apply(total, 0, Blocks(X)), X.sum(0))
    np.testing.assert_allclose(apply(total, (0, 1), Blocks(X)), X.sum())
    monkeypatch.setattr(LIMITS, "streamed_from", 100)
    assert xpapply.explain(total, 0, Blocks(X)).engine == "stream"
    np.testing.assert_allclose(apply(total, 0, Blocks(X)), X.sum(0))


def test_images(tmp_path):
    nibabel = pytest.importorskip("nibabel")
    x = X.astype("f4").reshape(3, 4, 8)
    nibabel.save(nibabel.Nifti1Image(x, np.eye(4)), tmp_path / "x.nii.gz")
    image = nibabel.load(tmp_path / "x.nii.gz")
    np.testing.assert_allclose(apply(total, -1, image.dataobj), x.sum(-1), rtol=1e-5)
    for out in ({}, {"out": np.zeros((3, 4), "f4")}):
        with pytest.raises(TypeError, match=r"Nifti1Image, .* arr.dataobj"):
            apply(total, -1, image, **out)


def test_slices_of_no_elements_with_results_of_none(tmp_path):
    z = zarr_of(np.zeros((5, 0)), tmp_path / "z", chunks=(5, 1))
    assert apply(np.copy, 1, z, out=np.zeros((5, 0))).shape == (5, 0)


def test_groups_are_no_arrays(tmp_path):
    group = zarr.open_group(tmp_path / "g", mode="w")
    group.create_array("red", shape=(12,), dtype="f8")
    file = h5py.File(tmp_path / "f", "w")
    file["red"] = X
    for given, kind in ((group, "zarr.Group"), (file, "h5py.File")):
        with pytest.raises(TypeError, match=rf"arr is {kind}, .*: give one of its arrays .*'red'"):
            apply(total, 0, given)
        with pytest.raises(TypeError, match=rf"arr is {kind}"):
            apply(total, 0, given, out=np.zeros(12))
        with pytest.raises(TypeError, match=rf"out is {kind}, .*: give one of its arrays .*'red'"):
            apply(total, 1, X, out=given)


def test_files_that_are_closed(tmp_path):
    with h5py.File(tmp_path / "f", "w") as file:
        file["x"], file["y"] = X, X[:, 0]
        arr, out = file["x"], file["y"]
    for given in ({"arr": arr}, {"arr": arr, "out": np.zeros(12)}, {"arr": X, "out": out}):
        name = "out" if given["arr"] is X else "arr"
        with pytest.raises(xpapply.InputError, match=f"{name} is h5py.Dataset, whose file is clos"):
            apply(total, 1, **given)
        with pytest.raises(xpapply.InputError, match=f"{name} is h5py.Dataset, whose file is clos"):
            xpapply.explain(total, 1, **given)


def test_out_that_is_no_array_of_the_host(tmp_path):
    z = zarr_of(X, tmp_path / "z")
    with pytest.raises(TypeError, match="out must be an array: found list"):
        apply(total, 1, z, out=[0] * 12)
    with pytest.raises(TypeError, match="out must be an array: found str"):
        apply(total, 1, z, out=str(tmp_path / "y"))
    torch = pytest.importorskip("torch")
    for arr in (z, memmap_of(X, tmp_path / "m")):
        with pytest.raises(TypeError, match=r"out is Tensor .*: give an array of"):
            apply(total, 1, arr, out=torch.zeros(12, dtype=torch.float64))


def test_a_copy_of_a_memmap_is_in_memory(tmp_path):
    """It is a numpy.memmap by its type."""
    out = memmap_of(np.zeros(12), tmp_path / "m").copy()
    assert type(out) is np.memmap
    assert apply(total, 1, X, out=out) is out
    np.testing.assert_allclose(out, X.sum(1))


class Masked(Blocks):
    """As netCDF4's variables, which give masked arrays."""

    def __getitem__(self, index):
        return np.ma.masked_greater(self.x[index], self.limit)


def test_missing_values_are_not_taken_for_numbers():
    arr = Masked(X)
    arr.limit = 100
    np.testing.assert_allclose(apply(total, 1, arr), X.sum(1))
    arr.limit = 1
    with pytest.raises(xpapply.InputError, match=r"has missing values.*set_auto_mask"):
        apply(total, 1, arr)
    with pytest.raises(xpapply.InputError, match="has missing values"):
        apply(total, 1, arr, out=np.zeros(12))


DTYPES = ["?", "i1", "u2", ">f4", ">i8", "c8", "f2", "S5", "U7", "M8[s]", "m8[ns]"]


# HDF5 has no such dtypes
@pytest.mark.no_such_case(lambda kind, dtype: kind == "h5py" and dtype[0] in "UMm")
@pytest.mark.every_case
@pytest.mark.filterwarnings("ignore:The data type .* Zarr V3 specification")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", FILES)
def test_dtypes(kind, dtype, tmp_path):
    x = (X * 50).astype("i8").astype(dtype)
    arr = FILES[kind](x, tmp_path / "x")
    for k, f in enumerate((lambda v: v[1], lambda v: v[::-1])):
        want = np.apply_along_axis(f, 1, x)
        got = apply(f, 1, arr)
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)
        out = FILES[kind](np.zeros_like(want), tmp_path / f"y{k}")
        apply(f, 1, arr, out=out)
        np.testing.assert_array_equal(out[...], want)


@pytest.mark.parametrize("offset", [0, 1, 13, 4095, 4096, 5001])
@pytest.mark.parametrize("mode", ["r+", "c"])
def test_views_of_memory_maps(offset, mode, tmp_path):
    """At odd places of the file, backwards, in steps: nothing else is written, nothing is lost."""
    x = np.random.default_rng(0).normal(size=(30, 7, 11))
    whole = np.full((61, 7), 7.0)
    for name, y in (("x", x), ("y", whole)):
        (tmp_path / name).write_bytes(b"\7" * offset + y.tobytes())
    arr = np.memmap(tmp_path / "x", "f8", mode, offset, x.shape)
    out = np.memmap(tmp_path / "y", "f8", mode, offset, whole.shape)
    arr *= 2
    places = (np.s_[:], np.s_[::-1], np.s_[::-2, ::-1, ::-3], np.s_[3:, 1:])
    with xpapply.options(memory=5 * 3 * 7 * 12 * 8):
        for index in places:
            part, want = arr[index], 2 * x[index].sum(-1)
            into = out[1:60:2][::-1][: len(want), : want.shape[1]]
            assert apply(total, -1, part, out=into) is into
            np.testing.assert_allclose(into, want)
            assert (out[::2] == 7).all()
    np.testing.assert_array_equal(arr, 2 * x)
    on_disk = b"\7" * offset + (x if mode == "c" else 2 * x).tobytes()
    assert (tmp_path / "x").read_bytes() == on_disk
    assert (tmp_path / "y").read_bytes()[:offset] == b"\7" * offset
    assert ((tmp_path / "y").read_bytes()[offset:] == whole.tobytes()) == (mode == "c")
    del arr, out, part, into

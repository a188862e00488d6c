"""What once lost data or was wrong without a word: inputs replaced, runs mixed, masks misread."""

import errno
import os
import warnings
from pathlib import Path

import numpy as np
import pytest

import xpapply

pytest.importorskip("click")
pytest.importorskip("nibabel")
pytest.importorskip("safetensors")
import nibabel
from test_run import NET, WEIGHTS, cube, net, nothing_is_left, run, same
from test_run import folder as folder  # a fixture

from conftest import library
from xpapply.cli import files, running
from xpapply.cli.app import commands


def write(name, text):
    Path(name).write_text(text)


RAISES = """
def f(v):
    if v[0] == 7:
        raise ArithmeticError
    return v.sum()
"""


def test_an_output_is_no_input_and_no_mask_and_holds_none():
    zarr = pytest.importorskip("zarr")
    x = cube((20, 6))
    group = zarr.open_group("g.zarr", mode="w")
    group.create_array("bands", data=x)
    group.create_array("other", data=x)
    np.save("mask.npy", np.ones(20))
    np.save("in.npy", x)
    for given in (
        ("g.zarr/bands", "-o", "g.zarr"),
        ("g.zarr/bands", "-o", "g.zarr/bands"),
        ("in.npy", "-o", "mask.npy", "--mask", "mask.npy"),
        ("in.npy", "-o", "g.zarr"),
    ):
        net(*given, "--overwrite", code=2)
    assert {"bands", "other"} == set(zarr.open_group("g.zarr", mode="r"))
    np.testing.assert_array_equal(np.load("mask.npy"), 1)
    zarr.create_array("old.zarr", data=x)
    net("in.npy", "-o", "old.zarr", "--overwrite")
    assert zarr.open_array("old.zarr", mode="r").shape == (20, 3)
    nothing_is_left("old.zarr.old")


@pytest.mark.parametrize("ending", [".npy", ".nii.gz"])
def test_runs_of_two_inputs_are_not_mixed(ending):
    write("f.py", RAISES)
    x = np.ones((6, 1, 1, 4), "f4")

    def save(numbers, name="in"):
        if ending == ".npy":
            np.save(name, numbers)
        else:
            nibabel.Nifti1Image(numbers, np.eye(4)).to_filename(name + ending)

    x[5] = 7
    save(x)
    given = ("f.py:f", "in" + ending, "-o", "out.npy", "--memory", "300")
    run(*given, code=1)
    save(x * 0 + 3)
    assert "is of another run" in run(*given, "--resume", code=2)
    save(x * 0 + 3, "other")
    run("f.py:f", "other" + ending, *given[2:], "--resume", code=2)
    run(*given)
    np.testing.assert_array_equal(np.load("out.npy"), np.full((6, 1, 1), 12))
    nothing_is_left()


def test_what_was_computed_is_kept_where_it_cannot_be_packed(monkeypatch):
    nibabel.Nifti1Image(cube(), np.eye(4)).to_filename("in.nii")

    def full(*given, **how):
        raise OSError("no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("xpapply.cli.files.nifti.gzip.open", full)
        said = net("in.nii", "-o", "out.nii.gz", code=1)
    assert "no space left" in said
    assert "out.nii.gz.part.nii" in said
    found = nibabel.load("out.nii.gz.part.nii").get_fdata()
    wanted = nibabel.load("in.nii").get_fdata(dtype=np.float32)
    same(found, xpapply.apply_along_axis(NET, -1, wanted))
    assert not Path("out.nii.gz").exists()


def test_masks_are_what_is_meant():
    x, inside = cube((7, 8, 5, 6)), np.zeros((7, 8, 5), "f4")
    inside[2:4] = 1
    np.save("in.npy", x)
    image = nibabel.Nifti1Image((inside * 2 - 1).astype("i2"), np.eye(4))
    image.header.set_slope_inter(0.5, 0.5)
    image.to_filename("mask.nii")
    np.testing.assert_array_equal(nibabel.load("mask.nii").get_fdata(), inside)
    net("in.npy", "-o", "out.npy", "--mask", "mask.nii")
    wanted = np.where(inside[..., None], xpapply.apply_along_axis(NET, -1, x), np.nan)
    same(np.load("out.npy"), wanted)
    np.save("mask.npy", np.where(inside, 1, np.nan))
    net("in.npy", "-o", "again.npy", "--mask", "mask.npy")
    same(np.load("again.npy"), wanted)


@pytest.mark.filterwarnings("ignore:Use `@` matmul:PendingDeprecationWarning")
@pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")
def test_missing_values_of_tiff_need_who_knows_them(monkeypatch):
    rasterio = pytest.importorskip("rasterio")
    x = cube((6, 20, 30), "i2")
    x[:, 3, 4] = -999
    with rasterio.open(
        "in.tif", "w", driver="GTiff", count=6, height=20, width=30, dtype="int16", nodata=-999
    ) as file:
        file.write(x)
    net("in.tif", "-o", "out.tif")
    with rasterio.open("out.tif") as file:
        assert np.isnan(file.read()).sum() == 3
    monkeypatch.setattr("xpapply.cli.files.tiff.find_spec", lambda name: None)
    assert "xpapply[geo]" in net("in.tif", "-o", "other.tif", code=2)


def test_scaling_of_zarr():
    zarr = pytest.importorskip("zarr")
    x = cube((20, 6), "i2")
    made = zarr.create_array("in.zarr", data=x)
    made.attrs.update({"scale_factor": 0.5, "add_offset": 5.0, "units": "K", "_FillValue": -9999})
    net("in.zarr", "-o", "out.zarr")
    found = zarr.open_array("out.zarr", mode="r")
    same(found[...], xpapply.apply_along_axis(NET, -1, x.astype("f4") * 0.5 + 5))
    assert set(found.attrs) == {"units", "_FillValue"}
    assert np.isnan(found.attrs["_FillValue"])


@pytest.mark.parametrize("dtype", ["uint8", "object", "U3", "bool", "M8[s]"])
def test_dtypes_that_cut(dtype):
    np.save("in.npy", np.full((5, 4), 300))
    said = run("numpy:max", "in.npy", "-o", "out.npy", "--dtype", dtype, code=2)
    assert "would cut" in said or "no numbers" in said
    run("numpy:max", "in.npy", "-o", "out.npy", "--dtype", "float32")
    assert np.load("out.npy").tolist() == [300.0] * 5


def test_more_labels_than_the_dtype_has():
    write("f.py", "import numpy as np\ndef f(v):\n    return np.arange(200.0) * v[0]\n")
    np.save("in.npy", np.ones((5, 4)))
    given = ("f.py:f", "in.npy", "-o", "out.npy", "--argmax")
    assert "would cut" in run(*given, "--dtype", "int8", code=2)
    run(*given, "--dtype", "int16")
    assert np.load("out.npy").tolist() == [199] * 5


def test_no_label_where_results_are_nan():
    x = cube((20, 6))
    x[3] = np.nan
    np.save("in.npy", x)
    given = ("in.npy", "-o", "out.npy", "--argmax")
    assert "--fill" in net(*given, code=2)
    assert "does not fit" in net(*given, "--fill", "nan", code=2)
    net(*given, "--fill", "255")
    found = np.load("out.npy")
    assert found[3] == 255
    assert (np.delete(found, 3) < 3).all()


def test_nifti_of_the_other_byte_order():
    header = nibabel.Nifti1Header(endianness=">")
    x = cube()
    image = nibabel.Nifti1Image(x, np.eye(4), header)
    image.header.set_data_dtype(">f4")
    image.to_filename("in.nii")
    net("in.nii", "-o", "out.nii")
    same(nibabel.load("out.nii").get_fdata(), xpapply.apply_along_axis(NET, -1, x))


@pytest.mark.parametrize("axis", ["2,0", "0,2", "-1,1"])
def test_axes_in_any_order(axis):
    x = cube((2, 3, 4))
    np.save("in.npy", x)
    write("f.py", "def f(v):\n    return v * 2 + v[0, 1]\n")
    axes = tuple(map(int, axis.split(",")))
    run("f.py:f", "in.npy", "-o", "out.npy", "--axis", axis)
    same(np.load("out.npy"), xpapply.apply_along_axis(lambda v: v * 2 + v[0, 1], axes, x))
    job = running.Job(len, files.read("in.npy"), tuple(a % 3 for a in axes))
    assert job.sample(3)[0].shape[1:] == tuple(x.shape[a] for a in axes)


def test_names_with_signs_of_patterns_are_resumed():
    write("f.py", RAISES)
    x = np.ones((6, 4))
    x[5] = 7
    np.save("in.npy", x)
    said = run("f.py:f", "in.npy", "-o", "s[1].npy", "--memory", "300", code=1)
    assert "--resume" in said
    assert Path("s[1].npy.part").exists()


def test_nothing_stays_in_the_temporary_folder(tmp_path, monkeypatch):
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    nibabel.Nifti1Image(cube(), np.eye(4)).to_filename("in.nii.gz")
    nibabel.Nifti1Image(np.ones((7, 8, 5), "u1"), np.eye(4)).to_filename("mask.nii.gz")
    given = ("in.nii.gz", "-o", "out.nii", "--mask", "mask.nii.gz")
    net(*given, "--dry-run")
    net(*given, "--argmax", code=2)
    net(*given)
    packed = Path("in.nii.gz").read_bytes()
    Path("in.nii.gz").write_bytes(packed[:200] + b"\xff" * 300 + packed[500:])
    assert "unpacked" in net("in.nii.gz", "-o", "other.nii", code=2)
    assert not list((tmp_path / "tmp").iterdir())


def test_slices_along_an_axis_of_space_have_no_place_in_it():
    nibabel.Nifti1Image(cube((6, 8, 5, 4)), np.eye(4)).to_filename("in.nii")
    assert "axis of space" in net("in.nii", "-o", "out.nii", "--axis", "0", code=2)
    net("in.nii", "-o", "out.npy", "--axis", "0")
    assert np.load("out.npy").shape == (3, 8, 5, 4)


def test_tiff_stays_one_image():
    tifffile = pytest.importorskip("tifffile")
    how = {"photometric": "minisblack", "planarconfig": "contig"}
    tifffile.imwrite("in.tif", cube((40, 30, 6)), **how)
    net("in.tif", "-o", "out.tif")
    with tifffile.TiffFile("out.tif") as file:
        assert len(file.pages) == 1
        assert file.series[0].axes == "YXS"
        assert file.series[0].shape == (40, 30, 3)


def test_an_attribute_that_raises_does_not_hide_others():
    write("f.py", "class A:\n    @property\n    def a(self):\n        1 / 0\n    def f(self, v):\n"
                  "        return v.sum()\nof = A()\n")  # fmt: skip
    np.save("in.npy", np.ones((5, 4)))
    run("f.py:of.f", "in.npy", "-o", "out.npy")
    assert np.load("out.npy").tolist() == [4.0] * 5


# --- what stopped a reader of the page --------------------------------------------------


def test_errors_of_models_name_the_options():
    said = run("net.safetensors", "in.npy", "-o", "out.npy", code=2)
    assert "On the command line activation= is --activation" in " ".join(said.split())
    write("net.pkl", "")
    Path("net.pkl").write_bytes(b"\x80\x04N.")
    assert "trust=True is --trust" in " ".join(
        run("net.pkl", "in.npy", "-o", "o.npy", code=1).split()
    )


def test_a_script_needs_the_name_of_a_function():
    write("mine.py", "def f(v): return v.sum()")
    assert "mine.py:NAME" in run("mine.py", "in.npy", "-o", "out.npy", code=2)


def test_one_of_several_outputs():
    onnx = pytest.importorskip("onnx")
    from onnx import helper

    x, y, z = (helper.make_tensor_value_info(k, 1, ["n", 4]) for k in "xyz")
    nodes = [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Neg", ["x"], ["z"])]
    graph = helper.make_graph(nodes, "two", [x], [y, z])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), "two.onnx")
    np.save("in.npy", cube((5, 4)))
    said = run("two.onnx", "in.npy", "-o", "out.npy", code=2)
    assert "output= is --model-output" in " ".join(said.split())
    run("two.onnx", "in.npy", "-o", "out.npy", "--model-output", "z")
    np.testing.assert_array_equal(np.load("out.npy"), -np.load("in.npy"))


def test_one_of_several_sets_of_weights():
    torch = library("torch")
    tensors = {k: torch.tensor(w) for k, w in WEIGHTS.items()}
    torch.save({"a": {k: t * 0 for k, t in tensors.items()}, "b": tensors}, "two.pt")
    np.save("in.npy", cube((5, 6)))
    given = ("two.pt", "in.npy", "-o", "out.npy", "--activation", "relu")
    assert "key= is --key" in " ".join(run(*given, code=2).split())
    run(*given, "--key", "b")
    same(np.load("out.npy"), xpapply.apply_along_axis(NET, -1, np.load("in.npy")))


def test_a_warning_is_a_line():
    write("slow.py", "def f(v): return hash(v.max()) % 7")
    np.save("in.npy", cube((5000, 4)))
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        said = run("slow.py:f", "in.npy", "-o", "out.npy")
        assert said.startswith("Warning: f runs slice by slice")
        assert "return callback" not in said
        assert not run("slow.py:f", "in.npy", "-o", "quiet.npy", "-q")


def test_how_many_slices_are_compared():
    np.save("in.npy", cube((5, 6)))
    assert "0 is not in the range" in net("in.npy", "--slices", 0, command="check", code=2)


def test_help_names_the_commands():
    from xpapply.cli import start

    said = start.parser().format_help()
    for name in commands.commands:
        assert f"\n  {name} " in said
    assert set(commands.commands) == set(start.COMMANDS)


def test_doctor_says_what_is_missing(monkeypatch):
    from xpapply.cli import doctor

    monkeypatch.setattr(doctor, "find_spec", lambda name: None)
    assert "not installed: pip install torch" in doctor.report()


def test_an_engine_of_another_library_says_so():
    said = pytest.raises(xpapply.UnsupportedError, match="it is not an engine for ndarray")
    with xpapply.options(engine="cupy"), said:
        xpapply.explain(NET, -1, np.ones((50, 6), "f4"))


# --- power cuts -------------------------------------------------------------------------


@pytest.mark.parametrize("ending", [".npy", ".npz", ".nii", ".nii.gz", ".tif", ".zarr"])
def test_an_output_is_on_the_disk_before_it_has_its_name(ending, monkeypatch):
    pytest.importorskip("zarr")
    np.save("in.npy", cube((4, 5, 3, 6)) if "nii" in ending else cube((5, 6)))
    seen, fsync, replace = [], os.fsync, os.replace

    def spy(file):
        seen.append(os.fstat(file).st_ino)
        fsync(file)

    def named(old, new, **how):
        if str(new) == "out" + ending:
            inside = [Path(old), *Path(old).rglob("*")]
            assert {p.stat().st_ino for p in inside} <= set(seen)
            seen.clear()
        replace(old, new, **how)

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", spy)
        patch.setattr("os.replace", named)
        net("in.npy", "-o", "out" + ending)
    assert Path("out" + ending).exists()
    assert seen == [Path().absolute().stat().st_ino]


def test_no_output_where_the_disk_fails(monkeypatch):
    np.save("in.npy", cube((5, 6)))

    def fails(file):
        raise OSError(errno.EIO, "input/output error")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", fails)
        assert "input/output error" in net("in.npy", "-o", "out.npy", code=1)
    assert not Path("out.npy").exists()


def contents(part):
    """The bytes of all files of an output."""
    paths = sorted(part.rglob("*")) if part.is_dir() else [part]
    return {path: path.read_bytes() for path in paths if path.is_file()}


@pytest.mark.parametrize("ending", [".npy", ".nii", ".nii.gz", ".tif", ".zarr"])
def test_what_was_cut_since_is_no_run_to_go_on_with(ending):
    """A full disk, a copy that was broken off: maps of files grow them again, with zeros."""
    if ending == ".tif":
        pytest.importorskip("tifffile")
    write("f.py", RAISES)
    x = np.arange(120.0).reshape(30, 1, 1, 4) + 8
    x[25, 0, 0, 0] = 7
    source = "in.npy"
    if ending == ".zarr":
        source = "in.zarr"
        pytest.importorskip("zarr").create_array(source, data=x, chunks=(3, 1, 1, 4))
    else:
        np.save(source, x)
    given = ("f.py:f", source, "-o", "out" + ending, "--memory", "700")
    run(*given, code=1)
    part = Path(f"out{ending}.part" + ".nii" * (ending == ".nii.gz"))
    whole, todo = contents(part), Path(f"{part}.unfinished").read_bytes()
    for path, data in whole.items():
        for length in sorted({0, 1, 9, 70, len(data) // 2, len(data) - 4, len(data) - 1}):
            if length >= len(data):
                continue
            path.write_bytes(data[:length])
            before = contents(part)
            is_chunk = part.is_dir() and path.name != "zarr.json"
            said = " ".join(run(*given, "--resume", code=1 if is_chunk else 2).split())
            if is_chunk:  # is computed again
                assert "the same command with --resume goes on" in said
            else:
                assert f"--resume: {part} was cut or changed" in said
                assert "Begin anew without --resume" in said
                assert contents(part) == before
            path.write_bytes(data)
            Path(f"{part}.unfinished").write_bytes(todo)
    write("f.py", RAISES.replace("7", "-7"))
    said = run(*given, "--resume", code=2)
    assert "MODEL is another one" in " ".join(said.split())


CUT_CHUNKS = {
    "sums": ("v.sum()", [], lambda x: x.sum(-1)),
    "labels": ("v[:3] * 1.0", ["--argmax"], lambda x: x[..., :3].argmax(-1)),
    "another dtype": ("v.sum()", ["--dtype", "float32"], lambda x: x.sum(-1).astype("f4")),
    "a mask": (
        "v.sum()",
        ["--mask", "mask.npy", "--fill", "-1"],
        lambda x: np.where(np.load("mask.npy"), x.sum(-1), -1.0),
    ),
    "no data": (
        "v.sum()",
        ["--nodata", "10", "--fill", "-1"],
        lambda x: np.where((x == 10).any(-1), -1.0, x.sum(-1)),
    ),
}


@pytest.mark.parametrize("spoil", [lambda p: p.write_bytes(p.read_bytes()[:-3]), os.unlink])
@pytest.mark.parametrize("chunk", ["", "c/3/0/0"])
@pytest.mark.parametrize("case", CUT_CHUNKS)
def test_chunks_that_were_cut_since_are_computed_again(case, chunk, spoil):
    zarr = pytest.importorskip("zarr")
    result, more, want = CUT_CHUNKS[case]
    raises = RAISES.replace("raise", "import os\n        if os.path.exists('bad'): raise")
    write("f.py", raises.replace("v.sum()", result))
    write("bad", "")
    x = np.random.default_rng(0).permutation(np.arange(120.0)).reshape(30, 1, 1, 4) + 8
    x[25, 0, 0, 0] = 7
    zarr.create_array("in.zarr", data=x, chunks=(3, 1, 1, 4))
    np.save("mask.npy", np.arange(30).reshape(30, 1, 1) % 7 > 0)
    given = ("f.py:f", "in.zarr", "-o", "out.zarr", "--memory", "900", *more)
    run(*given, code=1)
    found = [p for p in Path("out.zarr.part").rglob("*") if p.is_file() and p.name != "zarr.json"]
    assert len(found) > 5
    for path in found:
        if str(path).endswith(chunk):
            spoil(path)
    os.unlink("bad")
    run(*given, "--resume")
    np.testing.assert_array_equal(zarr.open_array("out.zarr", mode="r")[...], want(x))


def test_a_number_of_a_block_that_was_cut_counts_for_none():
    """12 that was cut to 1 would have block 1 done, which nobody has computed."""
    write("f.py", RAISES.replace("raise", "import os\n        if os.path.exists('bad'): raise"))
    write("bad", "")
    x = np.ones((30, 4))
    x[25, 0] = 7
    np.save("in.npy", x)
    given = ("f.py:f", "in.npy", "-o", "out.npy", "--memory", "300")
    run(*given, code=1)
    listed = Path("out.npy.part.unfinished")
    head, *rest = listed.read_text().split("\n")
    done = [int(n) for n in rest if n]
    assert 12 in done
    left = np.lib.format.open_memmap("out.npy.part", mode="r+")
    left[1] = -99
    left.flush()
    listed.write_text("\n".join([head, *(f"\n{n}\n" for n in done if n not in (1, 12)), "\n1"]))
    os.unlink("bad")
    run(*given, "--resume")
    np.testing.assert_array_equal(np.load("out.npy"), x.sum(-1))


@pytest.mark.parametrize(
    "name", ["in.npy", "in.npz", "in.tif", "packed.tif", "in.nii", "in.nii.gz"]
)
def test_inputs_that_were_cut_are_refused_or_read_whole(name):
    """Half of a TIFF in pages was an image of half of them."""
    x = cube((12, 20, 30, 4))
    if name.endswith(".tif"):
        tifffile = pytest.importorskip("tifffile")
        tifffile.imwrite(
            name, x, photometric="minisblack", compression="zlib" if name == "packed.tif" else None
        )
    elif "nii" in name:
        nibabel.Nifti1Image(x, np.eye(4)).to_filename(name)
    elif name == "in.npz":
        np.savez(name, x=x)
    else:
        np.save(name, x)
    data = Path(name).read_bytes()
    for length in (0, 5, 100, 400, len(data) // 2, len(data) - 40, len(data) - 1):
        Path(name).write_bytes(data[:length])
        try:
            found = files.read(name)
        except xpapply.InputError:
            continue
        np.testing.assert_array_equal(found.array, x)
        found.close()

"""What stopped new users at the command line: dead ends, and things that it did not say."""

import os
import re
import signal
import subprocess
import sys
import time
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import xpapply

pytest.importorskip("click")
pytest.importorskip("nibabel")
pytest.importorskip("safetensors")
import nibabel
from test_faults import write
from test_run import NET, RNG, ROOT, cube, net, nothing_is_left, run, same
from test_run import folder as folder  # a fixture

from xpapply.cli import running
from xpapply.cli.telling import in_options


def plain(said):
    """What was said, on one line: click breaks lines."""
    return " ".join(said.split())


def nan_at(place, shape=(7, 8, 5, 6)):
    x = cube(shape)
    x[place] = np.nan
    return x


# --- --resume where it can go on, and only there ----------------------------------------


def test_labels_of_nan_are_no_run_to_go_on_with():
    np.save("in.npy", nan_at((5, 2, 3)))
    given = ("in.npy", "-o", "out.nii.gz", "--argmax", "--memory", "5 kB")
    said = plain(net(*given, code=2))
    assert "--resume goes on" not in said
    assert "begin anew without --resume" in said
    assert "NaN, first at the slice [5, 2, 3, :] of the input" in said
    assert "--fill 255, or --fill -1" in said
    nothing_is_left("out.nii.gz")
    net(*given, "--fill", "7")
    found = np.asarray(nibabel.load("out.nii.gz").dataobj)
    assert found[5, 2, 3] == 7
    assert found.dtype == np.uint8


def test_labels_of_nan_in_a_dtype_that_has_it():
    np.save("in.npy", nan_at((5, 2, 3)))
    net("in.npy", "-o", "out.npy", "--argmax", "--dtype", "float32")
    found = np.load("out.npy")
    assert found.dtype == np.float32
    assert np.isnan(found[5, 2, 3])
    assert np.isnan(found).sum() == 1


RAISES = """
import os
def f(v):
    if v[0] == 77 and not os.path.exists("calm"):
        raise RuntimeError("bad voxel")
    return v.sum()
"""


UNKNOWN = "import threading\nlock = threading.Lock()\n"
"""What has no contents that another process could know again."""


def interrupted(*more, x=None):
    """A run that has left something to go on with, and its arguments."""
    write("bad.py", RAISES)
    x = np.ones((30, 4), "f4") if x is None else x
    x[25, 0] = 77
    np.save("in.npy", x)
    given = ("bad.py:f", "in.npy", "-o", "out.npy", "--memory", "600", *more)
    return given, plain(run(*given, code=1))


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--nodata", "5"], "--nodata was none, is 5."),
        (["--nodata", "5", "--fill", "3"], "--fill was none, is 3; --nodata was none, is 5"),
        (["--mask", "mask.npy"], "--mask was none, is another one."),
    ],
)
def test_another_run_is_told_in_options(more, says):
    given, said = interrupted()
    assert "blocks are done" in said
    assert "the same command with --resume goes on" in said
    np.save("mask.npy", np.ones(30))
    said = plain(run(*given, *more, "--resume", code=2))
    assert f"out.npy.part is of another run: {says}" in said
    assert "begin anew without --resume" in said
    for word in ("resume=True", "out was", "options(", "goes on"):
        assert word not in said
    assert Path("out.npy.part").exists()
    write("calm", "")
    run(*given, "--resume")
    assert np.load("out.npy").tolist() == np.load("in.npy").sum(-1).tolist()


def test_another_axis_model_or_input_is_told():
    given, _ = interrupted("--memory", "5 kB", x=np.ones((30, 30), "f4"))
    said = plain(run(*given, "--axis", "0", "--resume", code=2))
    assert "--axis was 1, is 0" in said
    write("bad.py", RAISES + "    # another\n")
    said = plain(run("numpy:sum", *given[1:], "--resume", code=2))
    assert "MODEL is another one, or was changed" in said
    np.save("in.npy", np.ones((30, 30), "f4"))
    said = plain(run(*given, "--resume", code=2))
    assert "INPUT is another one, or was changed" in said
    assert "begin anew without --resume" in said


def test_a_function_that_nobody_knows_again_is_told_in_options():
    write("log.py", UNKNOWN + "def f(v):\n    lock\n    return v.sum()\n")
    np.save("in.npy", np.ones((30, 4)))
    np.save("out.npy.part", np.ones(30))
    os.rename("out.npy.part.npy", "out.npy.part")
    said = plain(run("log.py:f", "in.npy", "-o", "out.npy", "--resume", code=2))
    assert "--resume: nobody can tell whether f is the function" in said
    assert "Begin anew without --resume" in said
    assert "resume=True" not in said


def test_a_list_of_an_older_run_is_not_that_of_a_new_one():
    given, _ = interrupted()
    write("calm", "")
    run(*given[:-1], "1", code=2)  # makes an output, and has no room for a block
    assert "there is no out.npy.part" in plain(run(*given, "--resume", code=2))
    run(*given)
    assert np.load("out.npy").tolist() == np.load("in.npy").sum(-1).tolist()


def test_what_has_no_block_is_not_kept():
    write("bad.py", RAISES)
    x = np.ones((30, 4), "f4")
    x[3, 0] = 77
    np.save("in.npy", x)
    said = run("bad.py:f", "in.npy", "-o", "out.npy", code=1)
    assert "--resume" not in said
    nothing_is_left("out.npy")


# --- where it failed --------------------------------------------------------------------


@pytest.mark.parametrize("at", [(0, 0, 0), (0, 3, 2), (6, 1, 4)])
@pytest.mark.parametrize("axis", [3, 1])
def test_where_in_the_file_a_function_failed(at, axis):
    write("bad.py", RAISES)
    x = np.ones((7, 8, 5, 4), "f4")
    x = np.moveaxis(x, -1, axis)
    index = [*at[:axis], slice(None), *at[axis:]]
    x[(*index[:axis], 0, *index[axis + 1 :])] = 77
    np.save("in.npy", x)
    place = ", ".join(":" if isinstance(k, slice) else str(k) for k in index)
    for memory in ("2 kB", "1 GB"):
        said = plain(
            run("bad.py:f", "in.npy", "-o", "out.npy", "--memory", memory, "--axis", axis, code=1)
        )
        assert "RuntimeError: bad voxel" in said
        assert f"raised at the slice [{place}] of in.npy (bad.py:5)" in said
        assert "arr[" not in said


def test_where_in_the_file_slices_of_two_axes_failed():
    write("bad.py", RAISES.replace("v[0]", "v[0, 0]"))
    x = np.ones((2, 30, 3, 5), "f4")
    x[0, 21, 2, 0] = 77
    np.save("in.npy", x)
    given = ("bad.py:f", "in.npy", "-o", "out.npy", "--axis", "0,3", "--memory", "2 kB")
    assert "raised at the slice [:, 21, 2, :] of in.npy" in plain(run(*given, code=1))


def test_where_it_failed_in_blocks_without_a_note_of_the_slice():
    error = ValueError("one")
    for note in ("arr is one block of a thing", "the block is arr[60:90, 0:6]"):
        error.add_note(note)
    running.places.in_file(error, "in.npy")
    assert error.__notes__ == ["raised in the block [60:90, 0:6] of in.npy"]


def test_where_a_check_failed():
    write("bad.py", RAISES)
    x = np.ones((10, 20, 4), "f4")
    x[9, 19] = 77
    np.save("in.npy", x)
    said = plain(run("bad.py:f", "in.npy", command="check", code=1))
    assert "raised at the slice [9, 19, :] of in.npy" in said


STOPS = """
def f(v):
    if v[0] == 77:
        raise KeyboardInterrupt
    return v.sum()
"""


@pytest.mark.parametrize("ending", [".npy", ".nii.gz"])
def test_ctrl_c_says_how_to_go_on(ending):
    write("stops.py", STOPS)
    x = np.ones((30, 1, 1, 4), "f4")
    x[25] = 77
    np.save("in.npy", x)
    given = ("stops.py:f", "in.npy", "-o", "out" + ending, "--memory", "600")
    said = plain(run(*given, code=1))
    assert "Aborted!" in said
    assert "the same command with --resume goes on" in said
    assert Path("out" + ending + ".part").exists()


def test_ctrl_c_leaves_nothing_where_it_cannot_go_on():
    write("stops.py", UNKNOWN + STOPS.replace("    if", "    lock\n    if"))
    x = np.ones((30, 4), "f4")
    x[25] = 77
    np.save("in.npy", x)
    said = run("stops.py:f", "in.npy", "-o", "out.npy", "--memory", "600", code=1)
    assert "--resume" not in said
    nothing_is_left("out.npy")


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="signals of POSIX")
def test_a_real_ctrl_c():
    write("slow.py", "import time\ndef f(v):\n    time.sleep(0.02)\n    return v.sum().item()\n")
    np.save("in.npy", np.ones((900, 4), "f4"))
    command = [sys.executable, "-m", "xpapply", "run", "slow.py:f", "in.npy", "-o", "out.npy"]
    env = os.environ | {"PYTHONPATH": str(ROOT), "XPAPPLY_FALLBACK": "silent"}
    with subprocess.Popen(
        [*command, "--memory", "1 kB"],
        env=env,
        stderr=subprocess.PIPE,
        text=True,
        # where the tests run in the background it is ignored, and that is inherited
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    ) as process:
        for _ in range(400):
            time.sleep(0.05)
            left = Path("out.npy.part.unfinished")
            if left.exists() and len(left.read_text().split("\n")) > 8:
                break
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "the same command with --resume goes on" in plain(said)
    assert "Traceback" not in said


# --- shapes of TIFF ---------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(5, 6, 7, 6), (6, 7, 6), (6, 6), (3, 4, 5, 6, 6)])
def test_tiff_keeps_the_shape(shape):
    tifffile = pytest.importorskip("tifffile")
    x = cube(shape)
    np.save("in.npy", x)
    said = net("in.npy", "-o", "out.tif")
    wanted = xpapply.apply_along_axis(NET, -1, x)
    assert str(wanted.shape) in said
    same(tifffile.imread("out.tif"), wanted)
    run("numpy:sum", "out.tif", "-o", "sums.npy", "--axis", "-1")
    same(np.load("sums.npy"), wanted.sum(-1))


def test_a_tiff_of_several_axes_is_resumed():
    tifffile = pytest.importorskip("tifffile")
    write("bad.py", RAISES)
    x = np.ones((30, 3, 5, 4), "f4")
    x[25, 0, 0, 0] = 77
    np.save("in.npy", x)
    given = ("bad.py:f", "in.npy", "-o", "out.tif", "--memory", "10 kB")
    run(*given, code=1)
    write("calm", "")
    run(*given, "--resume")
    same(tifffile.imread("out.tif"), x.sum(-1))


def test_no_tiff_of_one_axis():
    pytest.importorskip("tifffile")
    np.save("in.npy", cube((5, 6)))
    said = plain(run("numpy:sum", "in.npy", "-o", "out.tif", code=2))
    assert "TIFF has no images of float32 with the shape (5,)" in said
    nothing_is_left("out.tif")


# --- what will run, and what did --------------------------------------------------------


@pytest.mark.parametrize("dry", [False, True])
@pytest.mark.parametrize("ending", [".npy", ".nii"])
def test_the_plan_is_that_of_the_whole_volume(dry, ending):
    x = cube((20, 24, 12, 6))
    if ending == ".npy":
        np.save("in.npy", x)
    else:
        nibabel.Nifti1Image(x.astype("i2"), np.eye(4)).to_filename("in.nii")
    more = ["-o", "out.npy", "--dry-run", "--memory", "200 kB"] if dry else []
    said = net("in" + ending, *more, command="run" if dry else "explain")
    assert f"slices of in{ending} (20, 24, 12, 6) along axis 3" in said
    assert "5,760 slices, out (20, 24, 12, 3)" in said
    assert "207 kB to move, 1.05 MFLOP" in said
    assert re.search(r"time +about \S+ .?s for all of them, from [\d,]+ slices", said)
    assert "1,024" not in said.partition("time ")[0]
    blocks = int(re.search(r"blocks   ([\d,]+) of \(", said)[1])
    assert blocks > 4 if dry else blocks == 1


def test_the_plan_of_a_loop():
    write("slow.py", "def f(v): return hash(v.max()) % 7")
    np.save("in.npy", cube((100, 50, 6)))
    said = run("slow.py:f", "in.npy", command="explain")
    assert "loop" in said
    assert "result   int64[], 5,000 slices, out (100, 50)" in said
    assert "the hash of a value" in said
    assert "time     about" in said


def test_a_plan_where_slices_cannot_be_timed():
    write("bad.py", RAISES)
    x = np.ones((300, 4), "f4")
    x[20] = 77
    np.save("in.npy", x)
    said = run("bad.py:f", "in.npy", command="explain")
    assert "time     not measured: RuntimeError: bad voxel" in said


def test_a_warning_counts_all_slices():
    write("slow.py", "def f(v): return hash(v.max()) % 7")
    np.save("in.npy", cube((20_000, 6)))
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        said = plain(run("slow.py:f", "in.npy", "-o", "out.npy", "--memory", "400 kB"))
    assert "f runs slice by slice in Python (20,000 calls): the hash of" in said
    assert "options(" not in said
    assert "xpapply.explain" not in said
    assert "`xpapply explain` shows the plan; -q hides this warning" in said


def test_a_refused_loop_is_told_in_options(monkeypatch):
    write("slow.py", "def f(v): return hash(v.max()) % 7")
    np.save("in.npy", cube((5_000, 6)))
    with xpapply.options(fallback="raise"):
        said = plain(run("slow.py:f", "in.npy", "-o", "out.npy", code=1))
    assert "(5,000 calls)" in said
    assert "options(" not in said


@pytest.mark.parametrize(
    ("model", "engine"),
    [("net.safetensors", r"(cpu|numpy|torch): "), ("slow.py:f", "loop: one call per slice")],
)
def test_the_last_line_says_what_ran(model, engine):
    write("slow.py", "def f(v): return hash(v.max()) % 7")
    np.save("in.npy", cube((200, 6)))
    more = ["--activation", "relu"] if model.startswith("net") else []
    said = run(model, "in.npy", "-o", "out.npy", *more)
    assert re.search(rf" s, by {engine}", said.splitlines()[-1])


def test_memory_is_told_as_an_option():
    np.save("in.npy", cube((2, 100_000)))
    said = plain(run("numpy:cumsum", "in.npy", "-o", "out.npy", "--memory", "1 kB", code=2))
    assert "--memory allows 1,000" in said
    assert "options(" not in said


# --- check ------------------------------------------------------------------------------


def test_check_looks_inside_only():
    write("bad.py", "def f(v):\n    assert v[0] < 50\n    return v.sum()\n")
    x = np.full((40, 50, 4), 99, "f4")
    x[30:34, 7:9] = 1
    np.save("in.npy", x)
    np.save("mask.npy", x[..., 0] == 1)
    run("bad.py:f", "in.npy", command="check", code=1)
    assert "as the loop: 8 slices" in run("bad.py:f", "in.npy", "--mask", "mask.npy",
                                          command="check")  # fmt: skip
    assert "as the loop: 8 slices" in run("bad.py:f", "in.npy", "--nodata", 99, command="check")
    said = run("bad.py:f", "in.npy", "--nodata", 99, "--slices", "3", command="check")
    assert "as the loop: 3 slices" in said
    np.save("mask.npy", np.zeros((40, 50)))
    said = plain(run("bad.py:f", "in.npy", "--mask", "mask.npy", command="check", code=2))
    assert "no slices to compare" in said
    assert "it must be that of the slices" in plain(
        run("bad.py:f", "in.npy", "--mask", "in.npy", command="check", code=2)
    )


# --- fill -------------------------------------------------------------------------------


def test_what_stands_outside_of_labels():
    np.save("in.npy", cube((20, 30, 6)))
    mask = np.zeros((20, 30), bool)
    mask[3:9] = True
    np.save("mask.npy", mask)
    given = ("in.npy", "-o", "out.npy", "--overwrite", "--argmax", "--mask", "mask.npy")
    said = plain(net(*given, code=2))
    assert "--argmax: labels are uint8, which has no NaN" in said
    for words in re.findall(r"--fill -?\d+", said):
        net(*given, *words.split())
    assert {*re.findall(r"--fill (-?\d+)", said)} == {"255", "-1"}
    for fill, dtype in ((255, "uint8"), (-1, "int16"), (300, "uint16"), (-70_000, "int32")):
        net(*given, "--fill", fill)
        found = np.load("out.npy")
        assert found.dtype == dtype
        assert (found[~mask] == fill).all()
        assert set(np.unique(found[mask])) <= {0, 1, 2}
    for wrong in ("0.5", "nan"):
        assert f"--fill {wrong} does not fit" in plain(net(*given, "--fill", wrong, code=2))
    said = plain(net(*given, "--fill", "-1", "--dtype", "uint8", code=2))
    assert "--dtype int16" in said
    net(*given, "--dtype", "float32")
    assert np.isnan(np.load("out.npy")[~mask]).all()


def test_256_labels_have_no_byte_left():
    write("f.py", "import numpy as np\ndef f(v):\n    return np.arange(256.0) * v[0]\n")
    np.save("in.npy", np.ones((5, 4)))
    np.save("mask.npy", [1, 1, 0, 0, 1])
    given = ("f.py:f", "in.npy", "-o", "out.npy", "--argmax", "--mask", "mask.npy")
    said = plain(run(*given, code=2))
    assert "--fill 255" not in said
    assert "--fill 256" in said
    run(*given, "--fill", "256")
    assert np.load("out.npy").tolist() == [255, 255, 256, 256, 255]


@pytest.mark.parametrize("dtype", ["u1", "i8", "?"])
def test_what_stands_outside_of_whole_numbers(dtype):
    np.save("in.npy", np.ones((5, 4), dtype))
    np.save("mask.npy", [1, 1, 0, 0, 1])
    given = ("numpy:max", "in.npy", "-o", "out.npy", "--mask", "mask.npy", "--overwrite")
    said = plain(run(*given, code=2))
    ways = re.findall(r"(?:--dtype \w+ )?--fill -?\d+|--dtype float\d+", said)
    assert ways
    for way in ways:
        run(*given, *way.split())
    assert "does not fit" in plain(run(*given, "--fill", "1e30", code=2))


# --- masks that lie elsewhere -----------------------------------------------------------


def nifti(name, x, affine):
    nibabel.Nifti1Image(x, affine).to_filename(name)


def test_masks_of_another_place_are_refused():
    x, here = cube((20, 20, 10, 6)), np.diag([2, 2, 3, 1.0])
    there = here.copy()
    there[0] = -2, 0, 0, 38
    mask = np.zeros((20, 20, 10), "u1")
    mask[2:9] = 1
    nifti("in.nii", x, here)
    nifti("mask.nii", mask, there)
    for command, more in (("run", ["-o", "out.nii"]), ("check", [])):
        said = plain(net("in.nii", *more, "--mask", "mask.nii", command=command, code=2))
        assert "mask.nii lies elsewhere than in.nii" in said
        assert "[[2. 0. 0. 0.]" in said
        assert "[[-2. 0. 0. 38.]" in said
        assert "--ignore-place" in said
        nothing_is_left("out.nii")
    net("in.nii", "-o", "out.nii", "--mask", "mask.nii", "--ignore-place")
    there = here.copy()
    there[0, 3] = 0.001  # of headers that are rounded
    nifti("mask.nii", mask, there)
    net("in.nii", "-o", "close.nii", "--mask", "mask.nii")
    nifti("mask.nii", mask, None)  # says nothing of its place
    net("in.nii", "-o", "none.nii", "--mask", "mask.nii")
    np.save("mask.npy", mask)
    net("in.nii", "-o", "npy.nii", "--mask", "mask.npy")


@pytest.mark.filterwarnings("ignore:Use `@` matmul:PendingDeprecationWarning")
def test_masks_of_another_map_are_refused():
    rasterio = pytest.importorskip("rasterio")
    x = cube((6, 20, 30), "i2")

    def save(name, x, east=500_000, crs="EPSG:32632"):
        place = rasterio.transform.from_origin(east, 4_600_000, 10, 10)
        with rasterio.open(
            name, "w", driver="GTiff", count=len(x), height=20, width=30, dtype=x.dtype.name,
            crs=crs, transform=place,
        ) as file:  # fmt: skip
            file.write(x)

    save("in.tif", x)
    given = ("in.tif", "-o", "out.tif", "--overwrite", "--mask", "mask.tif")
    save("mask.tif", np.ones((1, 20, 30), "u1"))
    net(*given)
    save("mask.tif", np.ones((1, 20, 30), "u1"), east=500_010)
    assert "lies elsewhere" in plain(net(*given, code=2))
    save("mask.tif", np.ones((1, 20, 30), "u1"), crs="EPSG:32633")
    assert "EPSG:32633" in plain(net(*given, code=2))
    net(*given, "--ignore-place")


def test_a_mask_may_have_a_trailing_axis():
    x, mask = cube((20, 20, 10, 12)), np.zeros((20, 20, 10), "u1")
    mask[2:9] = 1
    nifti("in.nii", x, np.eye(4))
    nifti("mask.nii", mask[..., None], np.eye(4))
    assert nibabel.load("mask.nii").shape == (20, 20, 10, 1)
    run("numpy:median", "in.nii", "-o", "out.nii", "--mask", "mask.nii")
    found = nibabel.load("out.nii").get_fdata()
    np.testing.assert_array_equal(np.isnan(found), mask == 0)


# --- names ------------------------------------------------------------------------------


def test_a_mistyped_command():
    from xpapply.cli import start

    for wrong, meant in (("check1", "check"), ("xplain", "explain"), ("Run", "run")):
        ran = subprocess.run(
            [sys.executable, "-m", "xpapply", wrong, "in.npy"],
            capture_output=True, text=True, env=os.environ | {"PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        assert ran.returncode == 2
        assert f"Did you mean {meant}?" in ran.stderr
    assert start.main(["missing.py"]) == 2


def test_a_mistyped_script_is_no_command(capsys):
    from xpapply.cli import start

    start.main(["missing.py"])
    said = capsys.readouterr().err
    assert "can't open file 'missing.py'" in said
    assert "Did you mean" not in said


def test_an_output_without_an_ending():
    np.save("in.npy", cube())
    said = plain(net("in.npy", "-o", "out", code=2))
    assert "out: its name has no ending that tells the format" in said
    said = plain(net("in.npy", "-o", "out.xyz", code=2))
    assert "out.xyz: no format with the ending .xyz is known" in said


def test_a_new_group_of_zarr():
    zarr = pytest.importorskip("zarr")
    x = cube((20, 6))
    np.save("in.npy", x)
    for name in ("new.zarr/map", "deep.zarr/a/b", "new.zarr/other"):
        net("in.npy", "-o", name)
        same(zarr.open_array(name, mode="r")[...], xpapply.apply_along_axis(NET, -1, x))
    assert set(zarr.open_group("new.zarr", mode="r")) == {"map", "other"}
    assert set(zarr.open_group("deep.zarr", mode="r")["a"]) == {"b"}
    assert "there is no folder" in plain(net("in.npy", "-o", "no/new.zarr/map", code=2))
    net("in.npy", "-o", "array.zarr")
    said = plain(net("in.npy", "-o", "array.zarr/map", code=2))
    assert "array.zarr is an array, which holds no others" in said


# --- what the page of the command line says ---------------------------------------------


@pytest.mark.parametrize(
    ("stored", "slope", "gets"),
    [("i2", 1, "int16"), ("i2", 0.5, "float32"), ("i4", 0.5, "float64"), ("f4", 1, "float32")],
)
def test_what_a_function_gets_of_nifti(stored, slope, gets):
    write("f.py", f"def f(v):\n    assert v.dtype == '{gets}'\n    return v.sum()\n")
    image = nibabel.Nifti1Image(cube((3, 4, 5, 6)).astype(stored), np.eye(4))
    image.header.set_data_dtype(stored)
    image.header.set_slope_inter(slope, 0)
    image.to_filename("in.nii")
    run("f.py:f", "in.nii", "-o", "out.nii")


def test_one_map_per_file():
    nifti("in.nii", cube(), np.diag([2, 2, 3, 1.0]))
    net("in.nii", "-o", "maps.nii.gz")
    maps = nibabel.load("maps.nii.gz")
    parts = nibabel.four_to_three(maps)
    assert len(parts) == 3
    for k, image in enumerate(parts):
        np.testing.assert_array_equal(image.affine, maps.affine)
        np.testing.assert_array_equal(image.get_fdata(), maps.get_fdata()[..., k])


def test_a_volume_with_a_mask_and_a_background():
    x, mask = cube(), RNG.random((7, 8, 5)) > 0.5
    nifti("volume.nii.gz", x, np.eye(4))
    nifti("brain.nii.gz", mask.astype("u1"), np.eye(4))
    net("volume.nii.gz", "-o", "labels.nii.gz", "--argmax", "--mask", "brain.nii.gz",
        "--fill", 255)  # fmt: skip
    found = np.asarray(nibabel.load("labels.nii.gz").dataobj)
    assert found.dtype == np.uint8
    np.testing.assert_array_equal(found == 255, ~mask)


def test_chunks_of_zarr_fit_in_the_memory():
    """They were made of 16 MB of results, and then refused as too large to compute at once."""
    zarr = pytest.importorskip("zarr")
    x = cube((20, 30, 50))
    np.save("in.npy", x)
    for memory in ("40 kB", "1 MB"):
        run("numpy:sum", "in.npy", "-o", "out.zarr", "--memory", memory, "--overwrite")
        found = zarr.open_array("out.zarr", mode="r")
        same(found[...], x.sum(-1))
        assert np.prod(found.chunks) * x[0, 0].nbytes < 1e6
    given = ("numpy:cumsum", "in.npy", "-o", "out.zarr", "--memory", "40 kB", "--overwrite")
    assert "numpy" in run(*given, "--dry-run")
    run(*given)
    same(zarr.open_array("out.zarr", mode="r")[...], x.cumsum(-1))


def test_advice_about_workers_is_a_variable_of_the_shell():
    said = in_options("use another function, or xpapply.options(workers=...)")
    assert said == "use another function, or XPAPPLY_WORKERS=..."

"""Runs into files that end early: nothing looks finished, and the rest can be computed later."""

import errno
import json
import os
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import xpapply
from xpapply.storage import stores
from xpapply.storage.journal import Journal

zarr = pytest.importorskip("zarr")
h5py = pytest.importorskip("h5py")

X = np.random.default_rng(0).normal(size=(40, 6))
MEMORY = 5 * 10 * 7 * 8  # blocks of ten slices
CALLS = []
FAILS = {"at": None}
sys.of_this_test = CALLS, FAILS
"""Where a function is not known by what they hold: a module counts by its name."""


def largest(v):
    """Has no graph, and is called for each slice."""
    calls, fails = sys.of_this_test
    calls.append(v.tolist())
    if v.tolist() == fails["at"]:
        raise ArithmeticError("this one")
    return np.sort(v)[-1] + len(set(v.tolist()))


WANT = np.sort(X, -1)[:, -1] + 6


@pytest.fixture(params=["memmap", "zarr", "h5py"])
def files(request, tmp_path):
    """An array in a file, one for the results, and where the list of finished blocks lies."""
    if request.param == "memmap":
        arr = np.memmap(tmp_path / "x", "f8", "w+", shape=X.shape)
        out = np.memmap(tmp_path / "y", "f8", "w+", shape=WANT.shape)
        left = tmp_path / "y.unfinished"
    elif request.param == "zarr":
        arr = zarr.create_array(store=tmp_path / "x.zarr", shape=X.shape, chunks=(5, 6), dtype="f8")
        out = zarr.create_array(store=tmp_path / "y.zarr", shape=(40,), chunks=(5,), dtype="f8")
        left = tmp_path / "y.zarr.unfinished"
    else:
        arr = h5py.File(tmp_path / "x.h5", "w").create_dataset("x", X.shape, "f8", chunks=(5, 6))
        out = h5py.File(tmp_path / "y.h5", "w").create_dataset("a/y", (40,), "f8", chunks=(5,))
        left = tmp_path / "y.h5.a.y.unfinished"
    arr[...] = X
    return arr, out, left


@pytest.fixture(autouse=True)
def fresh():
    CALLS.clear()
    FAILS["at"] = None
    xpapply.functions.cache.clear()


def run(arr, out, f=largest, **options):
    with xpapply.options(memory=MEMORY, fallback="silent", **options):
        return xpapply.apply_along_axis(f, -1, arr, out=out)


def test_an_exception_leaves_a_list_of_what_is_done(files):
    arr, out, left = files
    FAILS["at"] = X[27].tolist()
    with pytest.raises(ArithmeticError, match="this one") as error:
        run(arr, out)
    notes = "\n".join(error.value.__notes__)
    assert "the block is arr[20:30, 0:6]" in notes
    assert f"blocks, which {left} lists: options(resume=True) computes the others" in notes
    about, *done = [json.loads(line) for line in left.read_text().split("\n") if line]
    assert about["out"] == "(40,) float64"
    assert set(done) <= {0, 1}
    np.testing.assert_array_equal(out[: 10 * len(done)], WANT[: 10 * len(done)])
    FAILS["at"] = None
    CALLS.clear()
    assert run(arr, out, resume=True) is out
    np.testing.assert_array_equal(out[...], WANT)
    assert not left.exists()
    again = {tuple(v) for v in CALLS}
    assert not again & {tuple(v) for v in X[1 : 10 * len(done)].tolist()}
    assert again >= {tuple(v) for v in X[20:].tolist()}


def test_without_resume_all_is_computed_anew(files):
    arr, out, left = files
    FAILS["at"] = X[35].tolist()
    with pytest.raises(ArithmeticError):
        run(arr, out)
    FAILS["at"] = None
    CALLS.clear()
    run(arr, out)
    np.testing.assert_array_equal(out[...], WANT)
    assert {tuple(v) for v in CALLS} == {tuple(v) for v in X.tolist()}
    assert not left.exists()


def test_a_run_of_another_function_does_not_go_on(files):
    arr, out, left = files
    FAILS["at"] = X[35].tolist()
    with pytest.raises(ArithmeticError):
        run(arr, out)
    before = left.read_text()

    def another(v):
        return np.sort(v)[0] + len(set(v.tolist()))

    with pytest.raises(xpapply.InputError, match=r"is of another run: function was .*, is "):
        run(arr, out, another, resume=True)
    assert left.read_text() == before


def test_memory_may_be_another_when_it_goes_on(files):
    arr, out, _ = files
    FAILS["at"] = X[35].tolist()
    with pytest.raises(ArithmeticError):
        run(arr, out)
    FAILS["at"] = None
    with xpapply.options(memory=2 * MEMORY, fallback="silent", resume=True):
        xpapply.apply_along_axis(largest, -1, arr, out=out)
    np.testing.assert_array_equal(out[...], WANT)


def test_blocks_of_another_size_after_a_run_that_has_done_none(files):
    arr, out, left = files
    FAILS["at"] = X[3].tolist()
    with pytest.raises(ArithmeticError), xpapply.options(memory=2 * MEMORY, fallback="silent"):
        xpapply.apply_along_axis(largest, -1, arr, out=out)
    FAILS["at"] = X[27].tolist()
    with pytest.raises(ArithmeticError):
        run(arr, out, resume=True)
    about, *done = [json.loads(line) for line in left.read_text().split("\n") if line]
    assert about["blocks"][0] == 10
    assert len(done) > 0
    FAILS["at"] = None
    with xpapply.options(memory=2 * MEMORY, fallback="silent", resume=True):
        xpapply.apply_along_axis(largest, -1, arr, out=out)
    np.testing.assert_array_equal(out[...], WANT)


def test_a_number_that_was_cut_counts_for_no_block(tmp_path):
    target = stores.store(np.memmap(tmp_path / "y", "f8", "w+", shape=(40,)))
    about = {"function": "f", "arr": "x", "axis": [0], "out": "y", "blocks": [1], "why": ""}
    left = tmp_path / "y.unfinished"
    left.write_text(json.dumps(about) + "\n\n3\n\n1")  # it was to be 12: the disk was full
    for wanted in ({3}, {3, 5}):
        journal = Journal(target, about, resume=True)
        assert journal.done == wanted
        journal.begin()
        journal.note(5)
        journal.close(finished=False)


def test_a_list_that_is_none_is_no_list(tmp_path):
    target = stores.store(np.memmap(tmp_path / "y", "f8", "w+", shape=(40,)))
    about = {"function": "f", "arr": "x", "axis": [0], "out": "y", "blocks": [1], "why": ""}
    (tmp_path / "y.unfinished").write_text("5\n6\n")
    assert Journal(target, about, resume=True).done == set()


def test_resume_where_nothing_is_left(files):
    arr, out, left = files
    run(arr, out, resume=True)
    np.testing.assert_array_equal(out[...], WANT)
    assert not left.exists()


def test_resume_needs_a_file():
    with pytest.raises(xpapply.InputError, match=r"resume=True: out is .* lies in no file"):
        run(X, zarr.create_array(store={}, shape=(40,), chunks=(5,), dtype="f8"), resume=True)


def test_resume_needs_a_function_that_can_be_known_again(files, tmp_path):
    arr, out, _ = files
    file = open(tmp_path / "log", "w")  # noqa: SIM115

    def logs(v):
        file.write("x")
        return v.max()

    with file, pytest.raises(xpapply.InputError, match="nobody can tell whether f is the function"):
        run(arr, out, logs, resume=True)


SCRIPT = """
    import os, signal, sys
    import numpy as np, xpapply
    kind, folder, kill = sys.argv[1:]
    if kind == "memmap":
        arr = np.memmap(folder + "/x", "f8", "r", shape=(40, 6))
        out = np.memmap(folder + "/y", "f8", "r+", shape=(40,))
    elif kind == "zarr":
        import zarr
        arr = zarr.open_array(folder + "/x.zarr", mode="r")
        out = zarr.open_array(folder + "/y.zarr")
    kill = int(kill)
    end = arr[kill].tolist() if kill >= 0 else None

    def largest(v):
        with open(folder + "/log", "a") as log:
            log.write(f"{v[0]}\\n")
        if v.tolist() == end:
            os.kill(os.getpid(), signal.SIGKILL)
        return np.sort(v)[-1] + len(set(v.tolist()))

    end = globals().pop("end")  # not what the function is known by
    largest.__globals__["end"] = end
    with xpapply.options(memory=MEMORY, fallback="silent", resume=True):
        xpapply.apply_along_axis(largest, -1, arr, out=out)
"""


@pytest.mark.parametrize("kind", ["memmap", "zarr"])
def test_a_process_that_is_killed(kind, tmp_path):
    """SIGKILL in mid-run: what was done stays done, and only the rest is computed."""
    if kind == "memmap":
        arr = np.memmap(tmp_path / "x", "f8", "w+", shape=X.shape)
        out = np.memmap(tmp_path / "y", "f8", "w+", shape=WANT.shape)
    else:
        arr = zarr.create_array(store=tmp_path / "x.zarr", shape=X.shape, chunks=(5, 6), dtype="f8")
        out = zarr.create_array(store=tmp_path / "y.zarr", shape=(40,), chunks=(5,), dtype="f8")
    arr[...] = X
    script = (
        textwrap.dedent(SCRIPT)
        .replace("MEMORY", str(MEMORY))
        .replace("if v.tolist() == end:", "if os.environ.get('KILL') == str(v[0]):")
    )
    command = [sys.executable, "-c", script, kind, str(tmp_path), "-1"]
    log = tmp_path / "log"

    def called(**more):
        log.write_text("")
        found = subprocess.run(command, env={**os.environ, **more}, check=False, timeout=120)
        return found.returncode, set(map(float, log.read_text().split()))

    code, first = called(KILL=str(X[33, 0]))
    assert code == -signal.SIGKILL
    left = next(tmp_path.glob("*.unfinished"))
    done = [int(n) for n in left.read_text().split("\n")[1:] if n]
    assert done, "blocks of ten slices were written before the one that killed it"
    code, second = called()
    assert code == 0
    np.testing.assert_array_equal(np.asarray(out[...]), WANT)
    assert not left.exists()
    of_done = {x for n in done for x in X[10 * n : 10 * n + 10, 0]}
    assert second & of_done <= {X[0, 0]}  # the first slice says what results are
    assert second >= set(X[:, 0]) - of_done
    assert first


def test_ctrl_c(files):
    arr, out, left = files

    def interrupts(v):
        if v[0] == X[25, 0]:
            raise KeyboardInterrupt
        return np.sort(v)[-1] + len(set(v.tolist()))

    with pytest.raises(KeyboardInterrupt):
        run(arr, out, interrupts)
    assert left.exists()


def test_a_full_disk(tmp_path, monkeypatch):
    """Found before the kernel would end the process, in mid-run too."""
    out = np.memmap(tmp_path / "y", "f8", "w+", shape=WANT.shape)
    free = stores.shutil.disk_usage(tmp_path)._replace(free=0)
    holes = os.stat(tmp_path / "y").st_blocks * 512 < os.stat(tmp_path / "y").st_size
    if holes:  # a file system without holes has taken the room already
        with monkeypatch.context() as patched:
            patched.setattr(stores.shutil, "disk_usage", lambda path: free)
            with pytest.raises(OSError, match=r"320 bytes more .* 0 free. Nothing") as e:
                run(X, out)
            assert e.value.errno == errno.ENOSPC
        assert not (tmp_path / "y.unfinished").exists()
    calls = []

    def full(fd, offset, length):
        calls.append((offset, length))
        if len(calls) > 2:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(stores.os, "posix_fallocate", full)
    with pytest.raises(OSError, match="No space left") as error:
        run(X, out)
    assert calls == [(0, 80), (80, 80), (160, 80)]
    notes = "\n".join(error.value.__notes__)
    assert "out has 2 of 4 blocks" in notes
    assert "there is no room for 80 bytes more" in notes
    np.testing.assert_array_equal(out[:20], WANT[:20])
    assert not out[20:].any()
    del out


# --- what cannot be written to ----------------------------------------------------------------


def test_read_only(tmp_path):
    (tmp_path / "y").write_bytes(bytes(320))
    out = np.memmap(tmp_path / "y", "f8", "r", shape=(40,))
    with pytest.raises(xpapply.InputError, match=r"out is numpy.memmap \(40,\) .* read-only"):
        run(X, out)
    zarr.create_array(store=tmp_path / "y.zarr", shape=(40,), chunks=(5,), dtype="f8")
    with pytest.raises(xpapply.InputError, match="its store is read-only: open it with mode='r"):
        run(X, zarr.open_array(tmp_path / "y.zarr", mode="r"))
    with h5py.File(tmp_path / "y.h5", "w") as file:
        file.create_dataset("y", (40,), "f8")
    with (
        h5py.File(tmp_path / "y.h5", "r") as file,
        pytest.raises(xpapply.InputError, match="its file is read-only"),
    ):
        run(X, file["y"])
    assert all(v == X[0].tolist() for v in CALLS)
    assert not list(tmp_path.glob("*.unfinished"))


def test_other_shapes_and_dtypes(tmp_path):
    out = np.memmap(tmp_path / "y", "f8", "w+", shape=(41,))
    with pytest.raises(xpapply.InputError, match=r"\(41,\) .* the result has the shape \(40,\)"):
        run(X, out)
    whole = np.memmap(tmp_path / "z", "i4", "w+", shape=(40,))
    with pytest.raises(TypeError, match="dtype int32 cannot hold results of dtype float64"):
        run(X, whole)
    narrow = np.memmap(tmp_path / "w", "f4", "w+", shape=(40,))
    run(X, narrow)
    np.testing.assert_array_equal(narrow, WANT.astype("f4"))
    del out, whole, narrow


def test_out_where_arr_is(tmp_path):
    m = np.memmap(tmp_path / "x", "f8", "w+", shape=(2, *X.shape))
    m[:] = X
    also = np.memmap(tmp_path / "x", "f8", "r+", shape=(2, *X.shape))
    for out in (m[0], also[0], m[0, ::-1]):
        with pytest.raises(xpapply.InputError, match="out is where arr is"):
            run(m[0], out, np.cumsum)
    run(m[0], also[1], np.cumsum)
    np.testing.assert_allclose(m[1], X.cumsum(-1))
    z = zarr.create_array(store=tmp_path / "x.zarr", shape=X.shape, chunks=(5, 6), dtype="f8")
    with pytest.raises(xpapply.InputError, match="out is where arr is"):
        run(z, zarr.open_array(tmp_path / "x.zarr"), np.cumsum)
    del m, also, out


def test_what_has_no_blocks(tmp_path):
    out = np.memmap(tmp_path / "y", "f8", "w+", shape=(40,))
    with pytest.raises(xpapply.InputError, match="masked array, and blocks have no mask"):
        run(np.ma.masked_greater(X, 1), out)
    torch = pytest.importorskip("torch")
    with pytest.raises(xpapply.InputError, match="out is in a file, arr Tensor"):
        run(torch.zeros(40, 6), out)
    da = pytest.importorskip("dask.array")
    with pytest.raises(xpapply.InputError, match="to_zarr"):
        run(da.from_array(X), out)
    xr = pytest.importorskip("xarray")
    with pytest.raises(xpapply.InputError, match="arrays without labels"):
        run(xr.DataArray(X), out)
    with pytest.raises(ValueError, match="iteration dimensions are 0"):
        run(np.zeros((0, 6)), np.memmap(tmp_path / "z", "f8", "w+", shape=(1,)))
    del out


# --- arrays in memory -------------------------------------------------------------------------


def test_out_in_memory():
    out = np.zeros(40)
    assert xpapply.apply_along_axis(largest, -1, X, out=out) is out
    np.testing.assert_array_equal(out, WANT)
    net = xpapply.MLP([np.ones((2, 6))])
    both = np.zeros((40, 2), "f4")
    assert xpapply.apply_along_axis(net, -1, X, out=both) is both
    np.testing.assert_allclose(both, X.sum(-1, keepdims=True).repeat(2, 1), rtol=1e-5, atol=1e-6)
    with pytest.raises(xpapply.InputError, match="out has shape"):
        xpapply.apply_along_axis(net, -1, X, out=out)
    with pytest.raises(TypeError, match="out must be an array: found list"):
        xpapply.apply_along_axis(net, -1, X, out=[0] * 40)
    torch = pytest.importorskip("torch")
    y = torch.zeros(40, dtype=torch.float64)
    assert xpapply.apply_along_axis(lambda v: v.sum(), -1, torch.tensor(X), out=y) is y
    np.testing.assert_allclose(y.numpy(), X.sum(-1))
    with pytest.raises(TypeError, match=r"out is Tensor .* give an array of the same library"):
        xpapply.apply_along_axis(lambda v: v.sum(), -1, X, out=y)


def test_out_that_is_an_argument_of_f():
    def adds(v, out):
        return v.sum() + out

    np.testing.assert_allclose(
        xpapply.apply_along_axis(adds, -1, X, out=2.0), np.apply_along_axis(adds, -1, X, out=2.0)
    )
    buffer = np.zeros(())
    want = np.apply_along_axis(np.median, -1, X, out=buffer)
    np.testing.assert_allclose(xpapply.apply_along_axis(np.median, -1, X, out=buffer), want)

"""Two runs with one output, and numbers of options that no float has."""

import multiprocessing
import os

import numpy as np
import pytest

pytest.importorskip("click")
from click.testing import CliRunner

from xpapply.cli import fills, locks
from xpapply.cli.app import commands
from xpapply.errors import InputError

N = 2**53 + 1


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text("def top(v):\n    return v.max()\n")
    np.save("x.npy", np.arange(24.0).reshape(4, 2, 3))
    return tmp_path


def run(*given):
    return CliRunner().invoke(commands, ["run", "mine.py:top", "x.npy", *given])


@pytest.mark.parametrize("name", ["o.npy", "o.nii", "o.tif", "o.zarr", "g.zarr/a/o"])
def test_whoever_comes_second_touches_nothing(folder, name):
    before = sorted(os.listdir())
    with locks.alone(folder / name):
        found = run("-o", name)
        assert found.exit_code != 0
        assert "another run is writing" in found.output + str(found.exception)
        assert len(os.listdir()) == len(before) + 1  # the lock
    assert sorted(os.listdir()) == before


def _die(output):
    held = locks.alone(output)
    held.__enter__()
    os._exit(9)


@pytest.mark.skipif(os.name == "nt", reason="forks")
def test_a_crash_leaves_no_lock(folder):
    process = multiprocessing.get_context("fork").Process(target=_die, args=(folder / "o.npy",))
    process.start()
    process.join()
    assert (folder / "o.npy.lock").exists()
    assert run("-o", "o.npy").exit_code == 0
    assert not (folder / "o.npy.lock").exists()


def test_a_lock_of_another_output_says_nothing(folder):
    with locks.alone(folder / "a.npy"), locks.alone(folder / "b.npy"):
        pass
    with locks.alone(folder / "a.npy"), pytest.raises(InputError), locks.alone(folder / "a.npy"):
        pass


@pytest.mark.parametrize("dtype", ["i8", "u8"])
@pytest.mark.parametrize("nodata", [N, N - 1])
def test_long_integers_of_options(dtype, nodata):
    x = np.full((4, 5, 3), N, dtype)
    x[0] = N - 1
    np.save("x.npy", x)
    found = run("-o", "o.npy", "--nodata", str(nodata), "--fill", str(N + 2))
    assert found.exit_code == 0, found.output
    wanted = [N + 2 if n == nodata else n for n in (N - 1, N, N, N)]
    assert np.load("o.npy")[:, 0].tolist() == wanted


def test_numbers_without_loss():
    assert fills.number(str(2**64 - 1)) == 2**64 - 1
    assert fills.number("9007199254740993.0") == N
    assert fills.number("-inf") == -np.inf
    assert np.isnan(fills.number("nan"))
    x = np.array([0.1, np.inf, np.nan], "f4")
    assert fills.where(x, 0.1).tolist() == [True, False, False]
    assert not fills.where(x, 1e300).any()
    assert fills.where(x, np.nan).tolist() == [False, False, True]
    assert not fills.where(np.arange(3), 0.5).any()

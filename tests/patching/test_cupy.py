"""CuPy's function is replaced as well, whether CuPy is loaded or comes later."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import standin_cupy

import xpapply
from xpapply.loop import originals
from xpapply.loop.originals import Replaced

X = np.random.default_rng(0).random((3000, 8))


def above(v):
    return v[v > 0.5].sum()


def test_cupy_that_is_loaded():
    with standin_cupy.installed() as cupy:
        own = cupy.apply_along_axis
        with xpapply.patch() as patched:
            assert type(cupy.apply_along_axis) is Replaced
            assert originals.cupys() is own
            x = cupy.asarray(X)
            got = cupy.apply_along_axis(above, 1, x)
            looped = cupy.apply_along_axis(lambda v: v.get().sum(), 1, x)
            rows = {row.name.rpartition(".")[2]: row for row in patched.report.rows}
        assert cupy.apply_along_axis is own
        assert originals.cupys() is own
    assert type(got) is type(looped) is type(x)
    np.testing.assert_allclose(got.get(), [above(v) for v in X], rtol=1e-13)
    np.testing.assert_allclose(looped.get(), X.sum(1), rtol=1e-13)
    assert rows["above"].loop == "cupy.apply_along_axis"
    assert rows["above"].engines == {"cupy": 1}
    assert rows["<lambda>"].engines == {"loop": 1}


def python(code, folder):
    """A program in a folder of its own."""
    env = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, env=env)


LATER = """
import sys
import numpy as np, xpapply
own = list(sys.meta_path)
with xpapply.patch() as patched:
    import cupy
    from cupy import apply_along_axis as held
    print(type(cupy.apply_along_axis).__name__, cupy.__spec__.name, held is cupy.apply_along_axis)
print(type(cupy.apply_along_axis).__name__, held is cupy.apply_along_axis, sys.meta_path == own)
"""


def test_cupy_that_is_imported_later(tmp_path):
    (tmp_path / "cupy").mkdir()
    (tmp_path / "cupy" / "__init__.py").write_text("def apply_along_axis(f, axis, arr): ...\n")
    ran = python(LATER, tmp_path)
    assert ran.stdout == "Replaced cupy True\nfunction True True\n", ran.stderr


def test_cupy_that_is_missing(tmp_path):
    code = (
        "import sys, xpapply\n"
        "p = xpapply.patch()\n"
        "sys.path.clear()\n"
        "try:\n    import cupy\n"
        "except ModuleNotFoundError as error:\n    print(error)"
    )
    ran = python(code, tmp_path)
    assert ran.stdout == "No module named 'cupy'\n", ran.stderr


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["above", "median", "normalized", "loop"])
def test_on_a_device(name, patched):
    import cupy

    f = {
        "above": above,
        "median": cupy.median,
        "normalized": lambda v: (v - v.mean()) / v.std(),
        "loop": lambda v: hash(float(v.max())) % 7,
    }[name]
    x = cupy.asarray(X[:400].reshape(20, 20, 8))
    for axis in (0, -1):
        got = cupy.apply_along_axis(f, axis, x)
        want = originals.cupys()(f, axis, x)
        assert (type(got), got.dtype, got.shape) == (type(want), want.dtype, want.shape)
        cupy.testing.assert_allclose(got, want, rtol=1e-12)
    (row,) = patched.report.rows
    assert ("loop" in row.engines) == (name == "loop"), row
    assert originals.cupys() is not cupy.apply_along_axis

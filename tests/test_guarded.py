"""The guard pages that kernels are tested with do stop what leaves an array."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from guarded import HERE, PAGE, guarded, intact

pytestmark = pytest.mark.skipif(not HERE, reason="memory is protected on Linux and macOS")

ARRAYS = {
    "float32": np.arange(5, dtype=np.float32),
    "complex128": np.arange(6, dtype=complex).reshape(2, 3),
    "bool": np.array([True, False, True]),
    "a number": np.array(2.5),
    "columns": np.arange(24.0).reshape(4, 6)[:, ::2],
    "transposed": np.arange(24, dtype=np.int16).reshape(4, 6).T,
    "backwards": np.arange(10)[::-3],
    "repeated": np.broadcast_to(np.arange(3.0), (4, 3)),
    "some pages": np.arange(3000.0),
    "nothing": np.zeros((0, 3)),
}


@pytest.mark.parametrize("misaligned", [0, 1, 3])
@pytest.mark.parametrize("end", [True, False])
@pytest.mark.parametrize("name", list(ARRAYS))
def test_the_same_array(name, end, misaligned):
    x = ARRAYS[name]
    found = guarded(x, end, misaligned=misaligned)
    assert found.dtype == x.dtype
    np.testing.assert_array_equal(found, x)
    if x.size:
        assert found.strides == x.strides
        low, high = np.lib.array_utils.byte_bounds(found)
        assert ((-high if end else low) - misaligned) % PAGE == 0
    assert intact(found)


SETUP = """
import ctypes, sys
import numpy as np
from guarded import guarded
x = guarded(np.arange({n}, dtype=np.float32){strided}, {end}, writable={writable})
def number(k):
    return ctypes.c_float.from_address(x.ctypes.data + k * 4)
number({last}).value
print("so far", flush=True)
"""


def ends(access, n=7, end=True, writable=True, strided="", last=None):
    """How a process ends that reaches into such an array."""
    given = {"n": n, "end": end, "writable": writable, "strided": strided}
    code = SETUP.format(last=n - 1 if last is None else last, **given) + access
    ran = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parent,
    )
    assert ran.stdout == "so far\n", ran.stderr
    return ran.returncode


@pytest.mark.parametrize(
    ("access", "given"),
    [
        ("number(7).value", {}),
        ("number(7).value = 1", {}),
        ("number(-1).value", {"end": False}),
        ("number(-1).value = 1", {"end": False}),
        ("number(0).value = 1", {"writable": False}),
        ("number(7).value", {"n": 14, "strided": "[::2][::-1]", "last": 0}),
        ("number(0).value", {"n": 0, "last": -1}),
    ],
)
def test_one_element_beyond_is_a_crash(access, given):
    assert ends(access, **given) < 0


@pytest.mark.parametrize(
    ("access", "given"),
    [
        ("number(6).value = 1", {}),
        ("number(-1).value", {}),  # why both ends are tried
        ("number(7).value", {"end": False}),
    ],
)
def test_what_is_no_crash(access, given):
    assert ends(access, **given) == 0


def test_writes_beside_elements_are_seen():
    x = guarded(np.arange(24.0).reshape(4, 6)[:, ::2])
    x[...] = 7
    assert intact(x)
    between = np.lib.stride_tricks.as_strided(x, (4, 5), (48, 8))
    between[2, 3] = 0
    assert not intact(x)


def test_memory_is_given_back():
    import guarded as module

    x = guarded(np.zeros(3))
    key = id(x)
    assert key in module._made
    del x
    assert key not in module._made

"""Arrays between pages of memory that nobody may touch: a kernel that leaves them crashes.

What it would read beyond an array is there nearly always, and so is what it would write over.
"""

import ctypes
import mmap
import sys
import weakref
from typing import Any

import numpy as np
import pytest

HERE = sys.platform in ("linux", "darwin")
PAGE = mmap.PAGESIZE
_NONE, _READ, _WRITE = 0, 1, 2  # PROT_NONE ... of <sys/mman.h>, the same on Linux and macOS
_FILLED = 0xA5

_made: dict[int, tuple[weakref.ref, np.ndarray]] = {}
"""By the identity of the arrays: the writable memory that each lies in, and nothing else does."""


def guarded(
    array: Any, end: bool = True, *, misaligned: int = 0, writable: bool = True
) -> np.ndarray:
    """A copy of an array, with its strides, that touches a page which cannot be accessed.

    Parameters
    ----------
    array : array_like
        Of any dtype, shape and strides, 0 and negative ones too.
    end : bool
        Whether it ends where its memory ends, or starts where that starts.
    misaligned : int
        So many bytes away from there: less than an element, or the next one is no longer guarded.
    writable : bool
        False: a write into the array itself crashes as well.

    See Also
    --------
    intact : look for writes beside the elements, where there is no page to stop them.
    """
    if not HERE:
        pytest.skip("memory is protected by mprotect, of Linux and macOS")
    x = np.asarray(array)
    steps = [s * (n - 1) for s, n in zip(x.strides, x.shape, strict=True)] if x.size else []
    first = -sum(s for s in steps if s < 0)
    span = first + sum(s for s in steps if s > 0) + (x.itemsize if x.size else 0)
    pages = max(1, -(-(span + misaligned) // PAGE))
    whole = np.frombuffer(mmap.mmap(-1, (pages + 2) * PAGE), np.uint8)
    memory = whole[PAGE : (pages + 1) * PAGE]
    memory[:] = _FILLED
    start = memory.size - span - misaligned if end else misaligned
    place = memory[start:] if start < memory.size else whole[(pages + 1) * PAGE :]
    found = np.ndarray(x.shape, x.dtype, place, first, x.strides)
    if x.size:
        found[...] = x
    for page in (whole[:PAGE], whole[-PAGE:]):
        _protect(page, _NONE)
    if not writable:
        _protect(memory, _READ)
        found.flags.writeable = False
    key = id(found)
    _made[key] = weakref.ref(found, lambda _: _made.pop(key, None)), memory
    return found


def _protect(memory: np.ndarray, how: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    address, size = ctypes.c_void_p(memory.ctypes.data), ctypes.c_size_t(memory.size)
    if libc.mprotect(address, size, how):
        raise OSError(ctypes.get_errno(), "mprotect")


def intact(array: np.ndarray) -> bool:
    """Whether all bytes around and between the elements of what `guarded` gave are as they were.

    Call it with that array itself, not with a view.
    """
    ref, memory = _made[id(array)]
    assert ref() is array
    own = np.zeros(memory.size, bool)
    if array.size:
        start = array.__array_interface__["data"][0] - memory.__array_interface__["data"][0]
        shape, strides = (*array.shape, array.itemsize), (*array.strides, 1)
        # where the elements lie, as the array itself lies
        low = sum(s * (n - 1) for s, n in zip(strides, shape, strict=True) if s < 0)
        np.ndarray(shape, bool, own[start + low :], -low, strides)[...] = True
    return bool(np.all(memory[~own] == _FILLED))

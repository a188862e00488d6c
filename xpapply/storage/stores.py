"""Stores: a common interface to arrays in memory, memory maps and chunked files.

A block is a tuple of slices, one for each dim.
"""

from __future__ import annotations

import errno
import itertools
import mmap
import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import array_utils

from .. import arrays
from ..arrays import masked
from ..arrays.layout import slowest_first
from ..errors import InputError, add_note
from ..limits import LIMITS

Block = tuple[slice, ...]

_POPULATE_READ = 22  # MADV_POPULATE_READ of Linux 5.14, which Python has no name for


class Store:
    """An array in memory; those in files are subclasses.

    Attributes
    ----------
    x : array
        What was given.
    shape : tuple of int
    read_unit, write_unit : tuple of int
        Lengths of what can only be read, or written, as a whole.
    order : tuple of int
        The axes in the order of the storage, slowest first.
    path : str or None
        Where it is in the file system.
    about : str
        What else a run that goes on with another has to find as it was.
    """

    path: str | None = None
    about = ""
    read_unit: tuple[int, ...] = ()
    write_unit: tuple[int, ...] = ()

    def __init__(self, x: Any) -> None:
        self.x, self.shape = x, tuple(x.shape)
        self.read_unit = self.write_unit = (1,) * len(self.shape)
        self.order: tuple[int, ...] = slowest_first(range(x.ndim), [(s,) for s in x.strides])

    @property
    def dtype(self) -> np.dtype:
        """The dtype."""
        return self.x.dtype

    def nbytes(self) -> int:
        """The size of all of it."""
        return int(np.prod(self.shape, dtype=object)) * self.dtype.itemsize

    def describe(self) -> str:
        """A description for messages."""
        kind = type(self.x)
        where = f" in {self.path}" if self.path else ""
        name = f"{kind.__module__.partition('.')[0]}.{kind.__name__}"
        return f"{name} {self.shape} {self.dtype}{where}"

    def layout(self) -> str:
        """The layout that two runs writing to it must share."""
        return f"{self.shape} {self.dtype}{self.about}"

    @property
    def ndim(self) -> int:
        """The number of dims."""
        return len(self.shape)

    def __getitem__(self, block: Block) -> np.ndarray:
        return self.read(block)

    def read(self, block: Block) -> np.ndarray:
        """The elements of a block."""
        return self.x[block]

    def ahead(self, block: Block) -> None:
        """Do what makes reading a block quick, in another thread."""

    def release(self, block: Block) -> None:
        """A block that was read or written is not needed again."""

    def why_read_only(self) -> str:
        """Why it cannot be written to; "" if it can."""
        return "" if self.x.flags.writeable else "it is read-only"

    def check_room(self) -> None:
        """Raise `OSError` if there is no room for it where it lies."""

    def write(self, block: Block, y: np.ndarray) -> None:
        """Put elements into a block."""
        self.x[block] = y

    def can_read(self, block: Block) -> bool:
        """Whether a written block can be read."""
        return True

    def flush(self) -> None:
        """Make written data visible to other readers."""


class MemoryMap(Store):
    """An array of `numpy.memmap`.

    Its pages are read before they are computed with, and given back after: they count as memory
    of this process while they are mapped.
    """

    def __init__(self, x: np.memmap) -> None:
        super().__init__(x)
        base: Any = x
        while isinstance(base.base, np.ndarray):
            base = base.base
        self._plain = np.ndarray.view(x, np.ndarray)
        self._map: Any = x._mmap  # type: ignore[attr-defined]
        self._is_shared = x.mode != "c"
        self.path = str(x.filename) if x.filename is not None and self._is_shared else None
        self._at = np.frombuffer(self._map, np.uint8).ctypes.data
        self._in_file = base.offset - base.offset % mmap.ALLOCATIONGRANULARITY
        self._reserved: int | None = None

    def _view(self, block: Block) -> np.ndarray:
        """The elements of a block, an array even if it is one number."""
        index: Any = (*block, ...)
        return self._plain[index]

    def read(self, block: Block) -> np.ndarray:
        """The elements of a block, where they are."""
        return self._view(block)

    def ahead(self, block: Block) -> None:
        """Read the pages of a block."""
        self._advise(_POPULATE_READ, self._runs(self._view(block)))

    def release(self, block: Block) -> None:
        """Give back the pages of a block; what was written to them is the file's."""
        if not (self._is_shared and hasattr(mmap, "MADV_DONTNEED")):
            return
        found = self._view(block)
        low, high = _span(found)
        self._advise(mmap.MADV_DONTNEED, [(low, high)])
        if self._reserved is not None and high - low <= 2 * found.nbytes:
            # begins to write it to the disk, beside what is computed next
            with suppress(OSError):
                start = low - self._at + self._in_file
                os.posix_fadvise(self._reserved, start, high - low, os.POSIX_FADV_DONTNEED)

    def write(self, block: Block, y: np.ndarray) -> None:
        """Put elements into a block, for which there is room on the disk from now on."""
        target = self._view(block)
        self._reserve(target)
        target[...] = y

    def check_room(self) -> None:
        """Raise `OSError` if the disk has no room for what the file has no memory for yet."""
        if self.path is None or not hasattr(os, "posix_fallocate"):
            return
        with suppress(FileNotFoundError):
            low, high = _span(self._plain)
            found = os.stat(self.path)
            missing = min(high - low, found.st_size - found.st_blocks * 512)
            free = shutil.disk_usage(Path(self.path).resolve().parent).free
            if missing > free:
                raise OSError(
                    errno.ENOSPC,
                    f"out needs {missing:,} bytes more on its disk, which has {free:,} free. "
                    "Nothing was written. Make room, or put out elsewhere",
                    self.path,
                )

    def flush(self) -> None:
        """Do nothing: other processes see written pages of a file."""

    def place(self) -> tuple[int, int]:
        """The bytes of the file between which it lies."""
        low, high = _span(self._plain)
        return low - self._at + self._in_file, high - self._at + self._in_file

    def _reserve(self, target: np.ndarray) -> None:
        """Raise `OSError` if the disk is full: the process would be killed where it writes."""
        if self.path is None or not target.size or not hasattr(os, "posix_fallocate"):
            return
        if self._reserved is None:
            try:
                self._reserved = os.open(self.path, os.O_RDWR)
            except OSError:  # renamed or deleted since
                self.path = None
                return
        low, high = _span(target)
        try:
            os.posix_fallocate(self._reserved, low - self._at + self._in_file, high - low)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                add_note(error, f"there is no room for {high - low:,} bytes more of {self.path}")
                raise

    def __del__(self) -> None:
        if getattr(self, "_reserved", None) is not None:
            os.close(self._reserved)  # type: ignore[arg-type]

    def _runs(self, x: np.ndarray) -> Iterator[tuple[int, int]]:
        """Addresses of contiguous pieces of a view."""
        low, high = _span(x)
        if high - low <= 2 * x.nbytes:
            yield low, high
            return
        order = sorted(range(x.ndim), key=lambda a: abs(x.strides[a]))
        length, whole = x.itemsize, 0
        for a in order:
            if x.strides[a] not in (length, -length) and x.shape[a] > 1:
                break
            length, whole = length * x.shape[a], whole + 1
        first_of_all: Any = (..., *(slice(0, 1),) * whole)
        outer = x.transpose(order[::-1])[first_of_all]
        if length < mmap.PAGESIZE or outer.size > LIMITS.stored_pieces:
            return
        first = outer.__array_interface__["data"][0]
        for index in np.ndindex(outer.shape):
            at = first + sum(i * s for i, s in zip(index, outer.strides, strict=True))
            yield at, at + length

    def _advise(self, how: int, runs: Any) -> None:
        """Tell the kernel what will be done with some pieces of memory."""
        if not hasattr(self._map, "madvise"):
            return
        for low, high in runs:
            start = (low - self._at) // mmap.PAGESIZE * mmap.PAGESIZE
            try:
                self._map.madvise(how, start, high - self._at - start)
            except (OSError, ValueError):  # an older kernel: it is read as it comes
                return


class Chunked(Store):
    """An array of zarr, h5py, or anything else with a shape, a dtype and blocks."""

    def __init__(self, x: Any) -> None:
        self.x, self.shape = x, tuple(x.shape)
        ndim = len(self.shape)
        self._kind = type(x).__module__.partition(".")[0]
        ones = (1,) * ndim
        self.read_unit = _lengths(getattr(x, "chunks", None), ndim) or ones
        self.write_unit = _lengths(getattr(x, "shards", None), ndim) or self.read_unit
        self.order = tuple(range(ndim))
        if self._kind == "nibabel" and getattr(x, "order", "C") == "F":
            self.order = self.order[::-1]
        self.path = _path(x, self._kind)

    def read(self, block: Block) -> np.ndarray:
        """The elements of a block."""
        found = self.x[block]
        if masked.is_masked(found) and np.ma.is_masked(found):
            raise InputError(
                f"{self.describe()} has missing values, and blocks have no mask: fill them, or "
                "read it without one (var.set_auto_mask(False) of netCDF4)"
            )
        found = np.asarray(found)
        wanted = tuple(len(range(*s.indices(n))) for s, n in zip(block, self.shape, strict=True))
        if found.shape != wanted:
            raise InputError(
                f"{self.describe()} gave {found.shape} for a block of {wanted}: it must have the "
                "indices of NumPy. Read it with numpy.asarray, or give a view of it that has"
            )
        return found

    def can_read(self, block: Block) -> bool:
        """Whether a written block can be read: its chunks exist and can be unpacked.

        A chunk of zarr that is absent may have been nothing but fill values, or lost: it counts
        as not there.
        """
        if not all(map(os.path.exists, self._files(block))):
            return False
        try:
            self.x[block]
        except Exception:  # each library has its own kinds
            return False
        return True

    def _files(self, block: Block) -> Iterator[str]:
        """Files of the chunks of a block of zarr."""
        key = getattr(getattr(self.x, "metadata", None), "encode_chunk_key", None)
        if self.path is None or key is None:
            return
        each = (
            range(s.start // n, -(-s.stop // n))
            for s, n in zip(block, self.write_unit, strict=True)
        )
        for index in itertools.product(*each):
            yield os.path.join(self.path, key(index))

    def why_read_only(self) -> str:
        """Why it cannot be written to; "" if it can."""
        if not hasattr(self.x, "__setitem__"):
            return "it has no blocks that can be set (__setitem__)"
        if getattr(self.x, "read_only", False):
            return "its store is read-only: open it with mode='r+'"
        with suppress(AttributeError, ValueError):
            if self._kind == "h5py" and self.x.file.mode == "r":
                return "its file is read-only: open it with mode 'r+'"
        return ""

    def flush(self) -> None:
        """Make written data visible to other readers."""
        if self._kind == "h5py":
            self.x.file.flush()


def store(x: Any) -> Store:
    """The store of `x`, or `x` itself if it is one."""
    if isinstance(x, Store):
        return x
    if isinstance(x, np.memmap) and getattr(x, "_mmap", None) is not None:
        return MemoryMap(x)
    return Store(x) if arrays.library(x) == "numpy" else Chunked(x)


def overlap(a: Store, b: Store) -> bool:
    """Whether two arrays share elements."""
    if isinstance(a, Chunked) or isinstance(b, Chunked):
        return a.x is b.x or (a.path is not None and a.path == b.path)
    if np.may_share_memory(a.x, b.x):
        return True
    if not (isinstance(a, MemoryMap) and isinstance(b, MemoryMap) and a.path and b.path):
        return False
    with suppress(OSError):
        (low, high), (first, last) = a.place(), b.place()
        return os.path.samefile(a.path, b.path) and low < last and first < high
    return False


def _span(x: np.ndarray) -> tuple[int, int]:
    """The addresses between which the elements of an array lie."""
    return array_utils.byte_bounds(x)


def _lengths(found: Any, ndim: int) -> tuple[int, ...] | None:
    """Chunk lengths of an attribute, if it has such."""
    if not isinstance(found, (tuple, list)) or len(found) != ndim:
        return None
    if not all(isinstance(n, (int, np.integer)) and n > 0 for n in found):
        return None
    return tuple(map(int, found))


def _path(x: Any, kind: str) -> str | None:
    """The path of an array; None: in memory, or remote."""
    if kind == "h5py":
        with suppress(AttributeError, ValueError):
            return f"{x.file.filename}{x.name.replace('/', '.')}"
    elif kind == "zarr":
        inner = getattr(x, "store", None)
        root = getattr(inner, "root", None) or getattr(inner, "path", None)
        if isinstance(root, (str, os.PathLike)) and os.path.isdir(root):
            return str(Path(root) / str(getattr(x, "path", "")).strip("/"))
    elif kind == "nibabel":
        name = getattr(getattr(x, "file_like", None), "name", getattr(x, "file_like", None))
        return name if isinstance(name, str) else None
    return None

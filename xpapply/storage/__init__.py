"""Arrays in files: read, computed and written block by block, in the memory that is allowed.

- `stores`: what a memory map, zarr, HDF5 and arrays in memory have in common;
- `blocks`: how the slices are cut, so that each chunk is read and written once;
- `stream`: reading, computing and writing side by side;
- `journal`: which blocks of a result are done, for runs that are interrupted;
- `identity`: whether a function is the one of an earlier run.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from .. import arrays
from ..errors import InputError

_OF_FILES = frozenset(("zarr", "h5py", "nibabel"))
"""Packages of arrays in files, whose other objects are easily given instead of an array."""

_NO_STORES = frozenset(("pandas", "xarray", "scipy", "cupyx", "xpapply"))
"""Packages whose objects have a shape and a dtype as well: labelled or sparse arrays, columns."""


def is_stored(x: Any) -> bool:
    """Whether `x` is an array of zarr, h5py or the like, readable in blocks.

    So is whatever else these have in files: `check` says of it what it is.
    """
    if not _may_be_store(type(x)):  # type: ignore[arg-type]
        return False
    return _has_blocks(x) or _package(type(x)) in _OF_FILES


def check(x: Any, name: str) -> None:
    """Refuse what is in a file, but has no blocks: groups, and what is closed."""
    if not _may_be_store(type(x)) or _has_blocks(x):  # type: ignore[arg-type]
        return
    package, kind = _package(type(x)), type(x).__name__
    if package == "h5py" and not x:
        raise InputError(f"{name} is h5py.{kind}, whose file is closed: open it again")
    if package in _OF_FILES:
        way = f"give one of its arrays, such as {name}['red']"
        if hasattr(x, "dataobj"):
            way = f"give {name}.dataobj"
        elif callable(keys := getattr(x, "keys", None)):
            found = ", ".join(repr(k) for k, _ in zip(keys(), range(5), strict=False))
            way = f"give one of its arrays by its name, of {found}" if found else "it is empty"
        raise TypeError(f"{name} is {package}.{kind}, which is not an array: {way}")


def _has_blocks(x: Any) -> bool:
    try:
        dtype, shape = getattr(x, "dtype", None), getattr(x, "shape", None)
    except ValueError:  # of h5py, if the file is closed
        return False
    return isinstance(dtype, np.dtype) and isinstance(shape, tuple)


def in_file(x: Any) -> bool:
    """Whether `x` is in a file, as a whole or in chunks."""
    # a copy of a memory map is of its type, and has no map
    mapped = isinstance(x, np.memmap) and getattr(x, "_mmap", None) is not None
    return mapped or is_stored(x)


@functools.lru_cache(maxsize=1024)
def _may_be_store(kind: Any) -> bool:
    if hasattr(kind, "read_unit"):  # what `stores` has, and what is written as they are
        return True
    if arrays._library(kind) is not None or not hasattr(kind, "__getitem__"):
        return False
    return not {_package(cls) for cls in kind.__mro__} & _NO_STORES


def _package(kind: type) -> str:
    return kind.__module__.partition(".")[0]

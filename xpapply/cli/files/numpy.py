"""``.npy``: a memory map."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import InputError
from . import Image, Output, Wanted, check_interrupted, interrupted, memory_map, part_of


def read(path: Path) -> Image:
    """A memory map of a file."""
    found = np.load(path, mmap_mode="r", allow_pickle=False)
    if not isinstance(found, np.ndarray):
        raise InputError(f"{path} is an archive and no array: call it .npz")
    return Image(found, -1, "numpy")


def create(path: Path, shape: tuple[int, ...], dtype: np.dtype, how: Wanted) -> Output:
    """A memory map of a new file, in the order of the input."""
    part = part_of(path)
    if how.resume:
        with interrupted(part):
            # a map that may be written to makes a file longer that was cut
            left = np.load(part, mmap_mode="r", allow_pickle=False)
            check_interrupted(part, (left.shape, left.dtype), (shape, dtype))
            return Output(np.load(part, mmap_mode="r+", allow_pickle=False), path, part)
    fortran = in_order_of_fortran(how.like.array)
    head = io.BytesIO()
    about = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": fortran, "shape": shape}
    np.lib.format.write_array_header_2_0(head, about)
    made = memory_map(part, shape, dtype, head.getvalue(), "F" if fortran else "C")
    return Output(made, path, part)


def in_order_of_fortran(x: Any) -> bool:
    """Whether the first axis runs fastest."""
    flags = getattr(x, "flags", None)
    return flags is not None and flags.f_contiguous and not flags.c_contiguous

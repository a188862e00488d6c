"""zarr: chunks in a folder."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import InputError
from ...limits import LIMITS
from . import Image, Output, Wanted, check_interrupted, group_of, interrupted, library, part_of

_PAUSES = (0.0, 0.02, 0.1, 0.3)
"""Seconds before each try to make a group, which another run may be making."""

_OF_NUMBERS = frozenset(
    "_FillValue missing_value scale_factor add_offset valid_min valid_max valid_range "
    "_ARRAY_DIMENSIONS".split()
)
"""Attributes that say something of the numbers of the input, or of its dims."""


def read(path: Path) -> Image:
    """An array of a store; of a group one of its arrays is to be named."""
    zarr = library("zarr", "files")
    found = zarr.open(path, mode="r")
    if not isinstance(found, zarr.Array):
        names = ", ".join(name for name, _ in found.arrays()) or "none"
        raise InputError(f"{path} is a group: name one of its arrays, {path}/NAME ({names})")
    fill = found.attrs.get("_FillValue")
    nodata = fill if isinstance(fill, (int, float)) else None
    slope = float(found.attrs.get("scale_factor", 1.0))
    offset = float(found.attrs.get("add_offset", 0.0))
    return Image(found, -1, "zarr", slope, offset, nodata, found)


def create(path: Path, shape: tuple[int, ...], dtype: np.dtype, how: Wanted) -> Output:
    """An array in a new store, with chunks as the input has them."""
    zarr = library("zarr", "files")
    part = part_of(path)
    if how.resume:
        with interrupted(part):
            left = zarr.open_array(part, mode="r+")
            check_interrupted(part, (left.shape, left.dtype), (shape, dtype))
            return Output(left, path, part)
    _make_group(zarr, path)
    chunks = unit(shape, dtype, how)
    made = zarr.create_array(part, shape=shape, dtype=dtype, chunks=chunks, overwrite=True)
    if how.like.format == "zarr":
        made.attrs.update({k: v for k, v in how.like.about.attrs.items() if k not in _OF_NUMBERS})
    if how.fill is not None:
        made.attrs["_FillValue"] = how.fill
    return Output(made, path, part)


def unit(shape: tuple[int, ...], dtype: np.dtype, how: Wanted) -> tuple[int, ...]:
    """Lengths of its chunks."""
    chunks = how.chunks or _chunks(
        shape, dtype, min(LIMITS.zarr_chunk, how.room or LIMITS.zarr_chunk)
    )
    return tuple(max(1, min(c, n)) for c, n in zip(chunks, shape, strict=True))


def _make_group(zarr: Any, path: Path) -> None:
    """The groups that an array lies in: those of ``volume.zarr/maps/name``."""
    group = group_of(path)
    if group is None:
        return
    inner = "/".join(path.parent.relative_to(group).parts)
    for pause in _PAUSES:
        time.sleep(pause)
        try:
            found = zarr.open_group(group, mode="a")
            if inner:
                found.require_group(inner)
            return
        except (ValueError, TypeError) as error:
            last = error
    raise InputError(
        f"{path}: {group} is an array, which holds no others, or has one on the way: name a "
        f"group, or a new one ({last})"
    )


def _chunks(shape: tuple[int, ...], dtype: np.dtype, nbytes: int) -> tuple[int, ...]:
    """Whole last axes, as many as fit."""
    left, found = max(1, nbytes // dtype.itemsize), []
    for n in shape[::-1]:
        found.append(max(1, min(n, left)))
        left = max(1, left // max(1, n))
    return tuple(found[::-1])

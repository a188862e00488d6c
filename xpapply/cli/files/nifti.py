"""NIfTI: volumes with an affine, read and written where they lie, in Fortran's order."""

from __future__ import annotations

import gzip
import io
import os
import shutil
import tempfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import InputError
from ...limits import LIMITS
from . import (
    Image,
    Output,
    Place,
    Wanted,
    check_interrupted,
    ending,
    interrupted,
    library,
    memory_map,
    part_of,
)


def read(path: Path) -> Image:
    """A memory map of a volume; a compressed one is unpacked into a temporary file first."""
    nibabel = library("nibabel", "cli")
    temporary = []
    if ending(path) == ".nii.gz":
        unpacked = _unpacked(path)
        temporary, path = [unpacked], unpacked
    try:
        image = nibabel.load(path)
        at = image.dataobj
        mapped = np.memmap(path, at.dtype, "r", at.offset, at.shape, "F")
    except Exception as error:
        raise InputError(f"{path} cannot be read as NIfTI: {error}") from error
    finally:
        if os.name == "posix":  # it is there as long as it is mapped, whatever becomes of us
            for made in temporary:
                made.unlink()
            temporary = []
    slope, offset = float(at.slope), float(at.inter)
    head, place = image.header, None
    if head["sform_code"] > 0 or head["qform_code"] > 0:  # otherwise the affine is made up
        place = Place(image.affine, tuple((*at.shape, 1, 1)[:3]))
    return Image(mapped, -1, "nifti", slope, offset, None, head, place, temporary)


def _unpacked(path: Path) -> Path:
    """The contents of a compressed file: blocks of it cannot be read without all before them."""
    number, name = tempfile.mkstemp(".nii", ".xpapply-")
    try:
        with os.fdopen(number, "wb") as file, gzip.open(path) as packed:
            shutil.copyfileobj(packed, file, LIMITS.nifti_piece)
    except (OSError, EOFError, zlib.error) as error:
        os.unlink(name)
        raise InputError(f"{path} cannot be unpacked: {error}") from error
    except BaseException:
        os.unlink(name)
        raise
    return Path(name)


def create(path: Path, shape: tuple[int, ...], dtype: np.dtype, how: Wanted) -> Output:
    """A memory map of a new volume, with the header of the input."""
    nibabel = library("nibabel", "cli")
    packed, part = ending(path) == ".nii.gz", part_of(path)
    plain = part.with_name(part.name + ".nii") if packed else part
    if how.like.format == "nifti" and min(how.axes, default=3) < 3:
        raise InputError(
            "the slices lie along an axis of space, so that results have no place in it: write "
            ".npy, or say --axis 3"
        )
    header = _header(nibabel, shape, dtype, how.like)
    head = io.BytesIO()
    header.write_to(head)
    start = int(header["vox_offset"])
    if how.resume:
        with interrupted(plain):
            made = _left(plain, header, shape)
    else:
        text = head.getvalue().ljust(start, b"\0")
        made = memory_map(plain, shape, header.get_data_dtype(), text, "F")
        if packed:
            part.touch()

    def close() -> None:
        with open(plain, "rb") as file, gzip.open(part, "wb", compresslevel=1) as target:
            shutil.copyfileobj(file, target, LIMITS.nifti_piece)
        plain.unlink()

    return Output(made, path, part, close) if packed else Output(made, path, part)


def _left(plain: Path, header: Any, shape: tuple[int, ...]) -> np.memmap:
    """A memory map of what an interrupted run has left."""
    with open(plain, "rb") as file:
        found = type(header).from_fileobj(file)
    dtype, start = header.get_data_dtype(), int(found["vox_offset"])
    check_interrupted(plain, (found.get_data_shape(), found.get_data_dtype()), (shape, dtype))
    if start != header["vox_offset"]:
        raise ValueError(f"its numbers begin at byte {start}, and not at {header['vox_offset']}")
    np.memmap(plain, dtype, "r", start, shape, "F")  # "r+" makes a file longer that was cut
    return np.memmap(plain, dtype, "r+", start, shape, "F")


def _header(nibabel: Any, shape: tuple[int, ...], dtype: np.dtype, like: Image) -> Any:
    """The header: the input's, if any, for other numbers."""
    if like.format == "nifti":
        header = like.about.copy()
    else:
        header = nibabel.Nifti1Header()
        header.set_sform(np.eye(4), code="scanner")
    try:
        header.set_data_dtype(dtype)
        header.set_data_shape(shape)
    except Exception as error:  # nibabel's own kinds
        raise InputError(
            f"NIfTI has no volumes of {dtype} with the shape {shape}: {error}. Choose --dtype, or "
            "write .npy"
        ) from None
    header.set_slope_inter(1, 0)
    header["cal_min"] = header["cal_max"] = 0
    header["vox_offset"] = 0  # which makes room for the extensions
    header.write_to(io.BytesIO())
    return header

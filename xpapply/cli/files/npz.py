"""``.npz``: arrays in an archive, read as a whole."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ...errors import InputError
from . import Image, Output, Wanted, part_of


def read(path: Path, inner: str = "") -> Image:
    """Read one array of an archive."""
    with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
        names = archive.files
        if inner and inner not in names:
            raise InputError(f"{path} has no array {inner!r}: there are {', '.join(names)}")
        if not inner and len(names) != 1:
            raise InputError(
                f"{path} has {len(names)} arrays ({', '.join(names[:8])}): name one, {path}:NAME"
            )
        return Image(archive[inner or names[0]], -1, "npz")


def create(path: Path, shape: tuple[int, ...], dtype: np.dtype, how: Wanted) -> Output:
    """An array in memory, which goes into an archive at the end."""
    if how.resume:
        raise InputError("--resume: an .npz is written at once at the end. Write an .npy instead")
    part, made = part_of(path), np.zeros(shape, dtype)

    def close() -> None:
        with open(part, "wb") as file:
            np.savez(file, result=made)

    return Output(made, path, part, close)

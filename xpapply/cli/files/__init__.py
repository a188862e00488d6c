"""Volumes and images in files: an array to be read, and what an output of that kind needs.

One file for each format, with ``read(path)`` and ``create(path, shape, dtype, wanted)``. Nothing is
read before it is asked for, where the format allows it.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from ...errors import InputError

FORMATS = {
    ".npy": "numpy",
    ".npz": "npz",
    ".nii": "nifti",
    ".nii.gz": "nifti",
    ".tif": "tiff",
    ".tiff": "tiff",
    ".zarr": "zarr",
}
"""The file of this folder that knows a format, by the end of the name."""

PART = ".part"
"""The end of the name of an output until it is finished."""


@dataclass
class Place:
    """The placement of an image's elements in space.

    Attributes
    ----------
    matrix : ndarray
        From indices, and a 1, to coordinates, and a 1.
    lengths : tuple of int
        How many elements there are along each of these indices.
    system : object
        The reference of the coordinates, if there are several.
    """

    matrix: np.ndarray
    lengths: tuple[int, ...]
    system: Any = None

    def is_that_of(self, other: Place) -> bool:
        """Whether elements lie where those of another image do, within a tenth of one."""
        if self.system and other.system and self.system != other.system:
            return False
        ends = np.array([*itertools.product(*((0, n - 1) for n in self.lengths))])
        gap = (self.matrix - other.matrix) @ np.c_[ends, np.ones(len(ends))].T
        size = np.linalg.norm(self.matrix[:-1, :-1], axis=0).min()
        return bool(np.abs(gap).max() <= size / 10)

    def __str__(self) -> str:
        said = np.array2string(self.matrix, precision=4, suppress_small=True)
        return f"{said} {self.system}" if self.system else said


@dataclass
class Image:
    """The content of a file.

    Attributes
    ----------
    array : array or Store
        Its numbers, as they are stored.
    axis : int or None
        The axis of the features, if the format tells.
    slope, offset : float or ndarray
        ``array * slope + offset`` is meant.
    nodata : float or None
        What stands where nothing was measured.
    format : str
        One of `FORMATS`.
    about : object
        Header, CRS, attributes: for an output of the same format.
    place : Place or None
        Where it lies in space, or on the earth, if the file says so.
    """

    array: Any
    axis: int | None
    format: str
    slope: Any = 1.0
    offset: Any = 0.0
    nodata: float | None = None
    about: Any = None
    place: Place | None = None
    temporary: list[Path] = field(default_factory=list)
    path: Path | None = None

    def check_apart(self, output: Path) -> None:
        """Refuse an output that is what is read, or has it inside."""
        if self.path is None:
            return
        own, new = self.path.resolve(), output.resolve()
        if own == new or new in own.parents or own in new.parents:
            raise InputError(
                f"{output} is the input or the mask, or holds it: give the output another name"
            )

    def state(self) -> str:
        """A key of the file's state; "" if it is in memory."""
        if self.path is None:
            return ""
        paths = sorted(self.path.rglob("*")) if self.path.is_dir() else [self.path]
        digest = hashlib.sha256()
        for path in paths:
            found = path.stat()
            digest.update(f"{path.name} {found.st_size} {found.st_mtime_ns};".encode())
        return f" of {self.path.resolve()} {digest.hexdigest()[:16]}"

    def close(self) -> None:
        """Remove what was made to read it."""
        for path in self.temporary:
            with suppress(OSError):
                path.unlink()


@dataclass
class Wanted:
    """Facts of an output for its format.

    Attributes
    ----------
    like : Image
        The input.
    fill : float or None
        What stands where there is no result.
    resume : bool
        Whether to go on with what an interrupted run has left.
    core : tuple of int
        Axes of the output that are of the result of one slice.
    axes : tuple of int
        Axes of the slices in the input.
    chunks : tuple of int or None
        Lengths of chunks that suit those of the input.
    room : int or None
        Bytes of results that fit in memory beside what they are computed from.
    """

    like: Image
    fill: Any = None
    resume: bool = False
    core: tuple[int, ...] = ()
    axes: tuple[int, ...] = ()
    chunks: tuple[int, ...] | None = None
    room: int | None = None


@dataclass
class Output:
    """A result that is being written; `finish` gives it its name."""

    array: Any
    path: Path
    part: Path
    close: Callable[[], None] = lambda: None

    def finish(self) -> None:
        """All of it is written.

        It is on the disk before it has its name, so that a power cut leaves nothing or all of it.
        """
        self.array = None
        self.close()
        _sync(self.part)
        old = self.path.with_name(self.path.name + ".old")
        if self.path.is_dir():
            os.rename(self.path, old)
        os.replace(self.part, self.path)
        _sync_folder(self.path.absolute().parent)
        if old.is_dir():
            shutil.rmtree(old)


def _sync(path: Path) -> None:
    """Have a file, or all of a folder, on the disk."""
    if path.is_dir():
        for inner in path.iterdir():
            _sync(inner)
        _sync_folder(path)
        return
    with open(path, "r+b") as file:
        os.fsync(file.fileno())


def _sync_folder(path: Path) -> None:
    """Have the names in a folder on the disk, where the system has such a thing."""
    with suppress(OSError):
        folder = os.open(path, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def ending(path: Path) -> str:
    """The end of a name, by which a format is known."""
    name = path.name.lower()
    if name.endswith(".nii.gz"):
        return ".nii.gz"
    for part in [path, *path.parents]:  # an array of a group: volume.zarr/0
        if part.name.lower().endswith(".zarr"):
            return ".zarr"
    return path.suffix.lower()


def of_format(path: Path) -> ModuleType:
    """The file that knows the format of a file."""
    name = FORMATS.get(ending(path))
    if name is None:
        end = ending(path)
        what = "its name has no ending that tells the format"
        if end:
            what = f"no format with the ending {end} is known"
        raise InputError(f"{path}: {what}. Use one of {', '.join(FORMATS)}")
    return import_module(f"{__name__}.{name}")


def library(name: str, extra: str) -> Any:
    """A library that a format needs."""
    try:
        return import_module(name)
    except ImportError as error:
        raise InputError(
            f"this format needs {name}: pip install 'xpapply[{extra}]' ({error})"
        ) from None


def read(text: str) -> Image:
    """Read a file; ``file.npz:name`` is one array of several."""
    path = Path(text)
    inner = ""
    if not path.exists() and ".npz:" in text:
        before, inner = text.rsplit(":", 1)
        path = Path(before)
    if not path.exists():
        raise InputError(f"{text}: there is no such file")
    found = of_format(path)
    try:
        image: Image = found.read(path, inner) if inner else found.read(path)
    except InputError:
        raise
    except Exception as error:  # each library has its own kinds
        raise InputError(f"{text} cannot be read: {error}") from error
    image.path = path
    if image.array.shape == ():
        raise InputError(f"{text} holds one number, and no array")
    return image


def check_new(path: Path, overwrite: bool, resume: bool) -> None:
    """Refuse an output that would replace something, or has nowhere to lie."""
    of_format(path)
    if path.exists() and not overwrite:
        raise InputError(f"{path} exists: say --overwrite, or give another name")
    if path.is_dir() and not _is_zarr_array(path):
        raise InputError(f"{path} is a folder, and no array of zarr: it is not replaced")
    group = group_of(path)
    folder = path.resolve().parent if group is None else group.resolve().parent
    if not folder.is_dir():
        raise InputError(f"{path}: there is no folder {folder}")
    part = part_of(path)
    if resume and not part.exists():
        raise InputError(
            f"--resume: there is no {part}, which an interrupted run leaves. Begin anew without "
            "--resume"
        )


def group_of(path: Path) -> Path | None:
    """The group of zarr that holds an array of this name; None for what is not in one."""
    return next((p for p in path.parents if p.name.lower().endswith(".zarr")), None)


def unit_of(
    path: Path, shape: tuple[int, ...], dtype: np.dtype, wanted: Wanted
) -> tuple[int, ...] | None:
    """Lengths of what can only be written as a whole, in an output that is not there yet."""
    known = getattr(of_format(path), "unit", None)
    return None if known is None else known(shape, dtype, wanted)


def _is_zarr_array(path: Path) -> bool:
    if (path / ".zarray").exists():
        return True
    with suppress(OSError, ValueError):
        return bool(json.loads((path / "zarr.json").read_text())["node_type"] == "array")
    return False


def part_of(path: Path) -> Path:
    """The path of an output until it is finished."""
    return path.with_name(path.name + PART)


@contextmanager
def interrupted(part: Path) -> Iterator[None]:
    """Say of what cannot be read here that an interrupted run has left it otherwise."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:  # each library has its own kinds
        raise InputError(
            f"--resume: {part} was cut or changed since, or the run ended before it was made: "
            f"{error}. Begin anew without --resume"
        ) from error


def check_interrupted(
    part: Path, found: tuple[tuple[int, ...], Any], wanted: tuple[tuple[int, ...], np.dtype]
) -> None:
    """Refuse what an interrupted run has left, if its shape or its dtype is another one."""
    (shape, dtype), (new_shape, new_dtype) = found, wanted
    if tuple(shape) != new_shape or np.dtype(dtype).newbyteorder("=") != new_dtype:
        raise InputError(
            f"--resume: {part} is {tuple(shape)} {dtype}, this run makes {new_shape} {new_dtype}. "
            "Say it all as it was said then; or begin anew without --resume"
        )


def memory_map(
    part: Path, shape: tuple[int, ...], dtype: np.dtype, head: bytes, order: Any
) -> np.memmap:
    """A file of a header and numbers, all zero, to be written to."""
    nbytes = int(np.prod(shape, dtype=object)) * dtype.itemsize
    with open(part, "wb") as file:
        file.write(head)
        file.truncate(len(head) + nbytes)
    return np.memmap(part, dtype, "r+", len(head), shape, order)

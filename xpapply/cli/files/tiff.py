"""TIFF: images by tifffile; with rasterio those that have a place on the earth, and keep it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import InputError
from ...storage.stores import Block, Store
from . import Image, Output, Place, Wanted, check_interrupted, interrupted, library, part_of

_PLACE = (33922, 33550, 34264, 34735, 42112, 42113)
"""Tags of a GeoTIFF: its place, and what GDAL says of scales and of missing values."""


def read(path: Path) -> Image:
    """A memory map of an image; a compressed one is unpacked into a temporary file."""
    tifffile = library("tifffile", "cli")
    with _all_pages(), tifffile.TiffFile(path) as file:
        if not file.series:
            raise InputError(f"{path} has no image")
        first = file.pages[0]
        if any(tag in first.tags for tag in _PLACE):
            if find_spec("rasterio") is None:
                raise InputError(
                    f"{path} says where on earth it is, or which value means no data, and that "
                    "needs rasterio: pip install 'xpapply[geo]'"
                )
            return _raster(path)
        axes = file.series[0].axes
    try:
        array = tifffile.memmap(path, mode="r")
    except ValueError:  # compressed, or in pieces
        array = tifffile.imread(path, out="memmap")
    axis = next((k for k, name in enumerate(axes) if name in "SC"), None)
    return Image(array, axis, "tiff")


def _raster(path: Path) -> Image:
    """The bands of a GeoTIFF, ``(bands, rows, columns)``."""
    import rasterio

    file = rasterio.open(path)
    slope = np.array(file.scales, float)[:, None, None]
    offset = np.array(file.offsets, float)[:, None, None]
    matrix, place = np.array(file.transform, float).reshape(3, 3), None
    if not np.array_equal(matrix, np.eye(3)):  # which stands for none
        place = Place(matrix, (file.width, file.height), file.crs)
    return Image(Raster(file), 0, "raster", slope, offset, file.nodata, file, place)


class Raster(Store):
    """A file of rasterio, whose blocks are windows of it; only one thread may use it at a time."""

    def __init__(self, file: Any) -> None:
        self.x: Any = self
        self.file, self._lock = file, threading.Lock()
        self.shape = (file.count, file.height, file.width)
        self.read_unit = self.write_unit = (1, *file.block_shapes[0])
        self.order = (1, 2, 0)

    @property
    def dtype(self) -> np.dtype:
        """The dtype of all bands."""
        return np.result_type(*self.file.dtypes)

    @property
    def ndim(self) -> int:
        """Three."""
        return 3

    def describe(self) -> str:
        """A description for messages."""
        return f"{self.file.name} {self.shape} {self.dtype}"

    def read(self, block: Block) -> np.ndarray:
        """A window of some bands."""
        bands, window = self._place(block)
        with self._lock:
            found: np.ndarray = self.file.read(bands, window=window)
        return found

    def write(self, block: Block, y: np.ndarray) -> None:
        """Put a window of some bands into the file."""
        bands, window = self._place(block)
        with self._lock:
            self.file.write(y, bands, window=window)

    def why_read_only(self) -> str:
        """ "": it was opened for writing."""
        return ""

    def _place(self, block: Block) -> tuple[list[int], Any]:
        from rasterio.windows import Window

        (k, _, _), (y, _, _), (x, _, _) = (
            (s.indices(n)) for s, n in zip(block, self.shape, strict=True)
        )
        ends = [s.indices(n)[1] for s, n in zip(block, self.shape, strict=True)]
        return list(range(k + 1, ends[0] + 1)), Window(x, y, ends[2] - x, ends[1] - y)


class _Plane(Raster):
    """A band, without the axis of bands."""

    def __init__(self, file: Any) -> None:
        super().__init__(file)
        self.shape = self.shape[1:]
        self.read_unit = self.write_unit = self.read_unit[1:]
        self.order = (0, 1)

    @property
    def ndim(self) -> int:
        """Two."""
        return 2

    def _place(self, block: Block) -> tuple[Any, Any]:
        from rasterio.windows import Window

        y, x = (slice(*s.indices(n)[:2]) for s, n in zip(block, self.shape, strict=True))
        return 1, Window(x.start, y.start, x.stop - x.start, y.stop - y.start)


def unit(shape: tuple[int, ...], dtype: np.dtype, how: Wanted) -> tuple[int, ...] | None:
    """Tiles, or whole rows, of a GeoTIFF."""
    if how.like.format != "raster" or len(shape) not in (2, 3):
        return None
    return (1, *how.like.about.block_shapes[0])[-len(shape) :]


def create(path: Path, shape: tuple[int, ...], dtype: np.dtype, how: Wanted) -> Output:
    """A new image; with the CRS, the transform and the tiles of the input if that has them."""
    part = part_of(path)
    if how.like.format == "raster" and len(shape) in (2, 3):
        return _create_raster(path, part, shape, dtype, how)
    tifffile = library("tifffile", "cli")
    if how.resume:
        with interrupted(part), _all_pages():
            # a map that may be written to makes a file longer that was cut
            left = tifffile.memmap(part, mode="r")
            check_interrupted(part, (left.shape, left.dtype), (shape, dtype))
            return Output(tifffile.memmap(part, mode="r+"), path, part)
    try:
        made = tifffile.memmap(
            part,
            shape=shape,
            dtype=dtype,
            photometric="minisblack",
            metadata={},  # has the shape, where an image has more axes than a page
            planarconfig="contig" if len(shape) == 3 and how.core == (2,) else None,
        )
    except (ValueError, TypeError, IndexError) as error:
        part.unlink(missing_ok=True)
        raise InputError(
            f"TIFF has no images of {dtype} with the shape {shape}: {error}. Choose --dtype, or "
            "write .npy"
        ) from None
    return Output(made, path, part)


@contextmanager
def _all_pages() -> Iterator[None]:
    """Raise where tifffile logs that pages are lost, and goes on with those that it finds."""
    logger, lost = logging.getLogger("tifffile"), []

    def heard(record: logging.LogRecord) -> bool:
        text = record.getMessage()
        if record.levelno >= logging.ERROR and "TiffPages" in text:
            lost.append(text)
        return not lost

    logger.addFilter(heard)
    try:
        yield
    finally:
        logger.removeFilter(heard)
    if lost:
        raise ValueError(f"pages are lost: {lost[0]}")


def _create_raster(
    path: Path, part: Path, shape: tuple[int, ...], dtype: np.dtype, how: Wanted
) -> Output:
    import rasterio

    if how.resume:
        raise InputError("--resume: a GeoTIFF cannot be written on. Write .npy or .zarr instead")
    source = how.like.about
    if shape[-2:] != (source.height, source.width):
        raise InputError(
            f"results of the shape {shape} have no place in a GeoTIFF of {source.height} x "
            f"{source.width} pixels: write .npy or .zarr"
        )
    profile = {
        **{k: source.profile[k] for k in ("crs", "transform")},
        **{k: v for k, v in source.profile.items() if k in ("tiled", "blockxsize", "blockysize")},
        "driver": "GTiff",
        "count": 1 if len(shape) == 2 else shape[0],
        "height": source.height,
        "width": source.width,
        "dtype": dtype,
        "nodata": how.fill,
        "BIGTIFF": "IF_SAFER",
    }
    if not profile.get("tiled"):
        profile.pop("blockxsize", None)
    try:
        file = rasterio.open(part, "w", **profile)
    except Exception as error:  # rasterio's own kinds
        raise InputError(f"rasterio cannot write {dtype} {shape}: {error}") from None
    return Output(_Plane(file) if len(shape) == 2 else Raster(file), path, part, file.close)

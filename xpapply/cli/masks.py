"""Masks in files: for which slices there is something to compute."""

from __future__ import annotations

import numpy as np

from ..errors import InputError
from ..storage import stores
from . import files, fills


def read(
    text: str, image: files.Image, batch: tuple[int, ...], any_place: bool = False
) -> tuple[np.ndarray, files.Image]:
    """The mask that an option names, for the slices of an image: where there is a number but 0.

    Parameters
    ----------
    text : str
        A file.
    image : Image
        The input.
    batch : tuple of int
        The lengths of the dims that are not of a slice.
    any_place : bool
        Whether it may say that it lies elsewhere than the input.
    """
    mask = files.read(text)
    try:
        found = stores.store(mask.array).read(tuple(slice(0, n) for n in mask.array.shape))
        meant = np.asarray(found) * mask.slope + mask.offset
        inside = (meant != 0) & ~np.isnan(meant)
        if mask.nodata is not None:
            inside &= ~fills.where(np.asarray(found), mask.nodata)
    finally:
        mask.close()
    inside = _fitted(inside, batch, text)
    if not any_place:
        _check_place(mask, image)
    return inside, mask


def _fitted(mask: np.ndarray, batch: tuple[int, ...], name: str) -> np.ndarray:
    """A mask for all slices: one of fewer dims is for each of the last ones."""
    shape = mask.shape
    if mask.ndim == len(batch) + 1 and shape[0] == 1 and shape[1:] == batch:  # one band
        mask = mask[0]
    # as many tools write a volume: with an axis of one point in time
    while mask.ndim > 1 and mask.shape[-1] == 1 and mask.shape != batch[: mask.ndim]:
        mask = mask[..., 0]
    if mask.shape == batch:
        return mask
    if mask.shape == batch[: mask.ndim]:
        whole = mask.reshape(*mask.shape, *(1,) * (len(batch) - mask.ndim))
        return np.broadcast_to(whole, batch)
    raise InputError(f"--mask {name} has the shape {shape}: it must be that of the slices, {batch}")


def _check_place(mask: files.Image, image: files.Image) -> None:
    """Refuse a mask that says that it lies elsewhere."""
    here, there = image.place, mask.place
    if here is None or there is None or here.matrix.shape != there.matrix.shape:
        return
    if not here.is_that_of(there):
        raise InputError(
            f"--mask {mask.path} lies elsewhere than {image.path}. From indices to coordinates "
            f"it has\n{there}\nand the input\n{here}\nResample the mask to the input; or say "
            "--ignore-place if its elements are those of the input all the same"
        )

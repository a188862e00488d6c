"""The arrays that a caller gives for results: whether they fit, and writing to them."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from .. import arrays
from ..errors import InputError


def check_count(out: tuple[Any, ...], results: int) -> None:
    """Refuse another number of arrays than of results."""
    if len(out) != results:
        raise ValueError(f"out has {len(out)} arrays, f {results} results")


def how_to_open(path: Any) -> str:
    """How a file is given as an array; "" for what is no path."""
    if not isinstance(path, (str, os.PathLike)):
        return ""
    return ". Open the file: np.lib.format.open_memmap(path, 'w+', dtype, shape), or zarr, h5py"


def check_array(target: Any, like: Any, name: str) -> None:
    """Refuse what is not an array, or not of the arguments' library."""
    if arrays.library(target) is None:
        more = how_to_open(target)
        if hasattr(target, "__setitem__") and hasattr(target, "shape"):
            more = ". Of functions of one array, apply_along_axis(f, axis, arr, out=...) takes it"
        raise TypeError(f"{name} must be an array: found {type(target).__name__}{more}")
    if like is not None and arrays.library(target) != arrays.library(like):
        raise TypeError(
            f"{name} is {arrays.describe(target)}, the arguments are {arrays.library(like)} "
            "arrays: give an array of theirs"
        )


def check_casts(y: Any, target: Any, name: str) -> None:
    """Refuse results of a kind that the array cannot hold."""
    if isinstance(target, np.ndarray):
        fits = np.can_cast(y.dtype, target.dtype, "same_kind")
    elif arrays.library(target) == "torch":
        import torch

        fits = torch.can_cast(y.dtype, target.dtype)
    else:
        fits = True
    if not fits:
        raise TypeError(f"{name} of dtype {target.dtype} cannot hold results of dtype {y.dtype}")


def write_into(target: Any, y: Any, name: str) -> None:
    """Write a result into `out`.

    Raises
    ------
    TypeError, ValueError
        If it does not fit there.
    """
    check_array(target, None, name)
    if arrays.library(target) != arrays.library(y):
        raise TypeError(f"{name} is {arrays.describe(target)}, the result {arrays.describe(y)}")
    if tuple(target.shape) != tuple(y.shape):
        raise InputError(f"{name} has shape {tuple(target.shape)}, the result {tuple(y.shape)}")
    check_casts(y, target, name)
    copied(target, y)


def copied(target: Any, y: Any) -> None:
    """Copy a result into `out`."""
    y = np.asarray(y) if isinstance(y, np.generic) else y
    name = arrays.dtype_name(target)
    if name != arrays.dtype_name(y):  # the standard writes no other dtypes
        xp = arrays.compat(target)
        y = xp.astype(y, arrays.dtype_of(xp, name))
    try:
        target[...] = y
    except TypeError as error:  # arrays that cannot be written to
        raise TypeError(f"out={arrays.describe(target)} cannot be written to") from error

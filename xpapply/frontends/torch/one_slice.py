"""A module on one slice of any library, as the plain loop calls it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from ... import arrays, threads
from ...errors import InputError, TraceError, UnsupportedError
from .flattened import as_taken
from .model import check_mode, device_of, numpy_dtype, parameter_dtype, with_batch_of_one
from .outputs import one_array
from .results import stacked


def slice_function(f: Any) -> Callable[..., Any]:
    """`f` for one slice of any library: NumPy slices become tensors and results arrays."""
    return _of_slice(f, one_array, list)


def several_of_slice(f: Any) -> Callable[..., Any]:
    """The same for several results: what forward returns, a list of them as a tuple."""

    def checked(x: Any, *, any_object: bool) -> Any:
        with contextlib.suppress(TraceError):  # others are as they are
            x = stacked(x, 0)
        return tuple(x) if type(x) is list else x

    return _of_slice(f, checked, tuple)


def _of_slice(f: Any, checked: Callable[..., Any], sequence: type) -> Callable[..., Any]:
    check_mode(f)
    device = device_of(f)
    found: dict[Any, tuple[Any, Any]] = {}

    def run(v: torch.Tensor, name: str, args: tuple, kwargs: dict) -> Any:
        """The result for a tensor, made of a slice of the dtype `name`."""
        key = (v.shape, name)
        if key not in found:
            taken = None if args or kwargs else as_taken(f, tuple(v.shape), name)
            found[key] = taken, with_batch_of_one(taken or f)
        taken, one = found[key]
        v = v.to(parameter_dtype(taken or f, name))
        return one(v.reshape(-1) if taken else v, *args, **kwargs)

    @threads.forkable
    def call(v: Any, *args: Any, **kwargs: Any) -> Any:
        library = arrays.library(v)
        if library == "torch":
            name = str(v.dtype).partition(".")[2]
            return checked(run(v, name, args, kwargs), any_object=False)
        if library == "cupy":
            import cupy

            with torch.no_grad():
                lent = torch.utils.dlpack.from_dlpack
                others = [
                    lent(x).to(device, parameter_dtype(f, x.dtype.name))
                    if arrays.library(x) == "cupy"
                    else x
                    for x in args
                ]
                result = run(lent(v).to(device), v.dtype.name, tuple(others), kwargs)
            place = f"cuda:{v.device.id}"
            given = lambda t: cupy.from_dlpack(numpy_dtype(t).to(place).detach())  # noqa: E731
            return _mapped(given, checked(result, any_object=False), sequence)
        if library != "numpy":
            raise UnsupportedError(f"a torch module on {type(v).__name__} slices")
        v = np.asarray(v)
        with torch.no_grad():
            others = [
                _tensor(x).to(device, parameter_dtype(f, x.dtype.name))
                if type(x) is np.ndarray
                else x
                for x in args
            ]
            result = run(_tensor(v).to(device), v.dtype.name, tuple(others), kwargs)
        return _mapped(_to_numpy, checked(result, any_object=True), sequence)

    return call


def _tensor(v: np.ndarray) -> torch.Tensor:
    """A slice as torch can compute with it."""
    if v.dtype.kind not in "fiub":
        raise InputError(f"slices of dtype {v.dtype}: networks take real numbers")
    native = np.array(v, dtype=v.dtype.newbyteorder("="))
    small = native.dtype.itemsize == 1
    if (native.dtype.kind == "u" and not small) or native.dtype.itemsize > 8:
        native = native.astype(np.float64)  # torch cannot compute with these, or has them not
    return torch.from_numpy(native)


def _mapped(function: Callable[[Any], Any], x: Any, sequence: type) -> Any:
    """What forward returned with a function of each tensor, all else as it is."""
    if isinstance(x, torch.Tensor):
        return function(x)
    if isinstance(x, dict):
        return {k: _mapped(function, y, sequence) for k, y in x.items()}
    if isinstance(x, (tuple, list)):
        parts = [_mapped(function, y, sequence) for y in x]
        named = sequence is tuple and hasattr(x, "_make")
        return x._make(parts) if named else sequence(parts)  # type: ignore[union-attr]
    return x


def _to_numpy(t: torch.Tensor) -> Any:
    return numpy_dtype(t).detach().cpu().numpy()

"""A module on one slice of any library, as the plain loop calls it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from ... import arrays
from ...errors import InputError, TraceError, UnsupportedError
from ...loop.reference import AROUND
from ...runtime import threads
from .lift.flattened import as_taken
from .model import (
    check_mode,
    device_of,
    dtype_asked,
    numpy_dtype,
    parameter_dtype,
    with_batch_of_one,
)
from .outputs import one_array
from .results import stacked


def slice_function(f: Any) -> Callable[..., Any]:
    """`f` for one slice of any library: NumPy slices become tensors and results arrays."""
    return _of_slice(f, one_array, list)


def several_of_slice(f: Any) -> Callable[..., Any]:
    """The same for several results, a list of them as a tuple."""

    def checked(x: Any, *, any_object: bool) -> Any:
        with contextlib.suppress(TraceError):  # others are as they are
            x = stacked(x, 0)
        return tuple(x) if type(x) is list else x

    return _of_slice(f, checked, tuple)


def _of_slice(f: Any, checked: Callable[..., Any], sequence: type) -> Callable[..., Any]:
    check_mode(f)
    device = device_of(f)
    on_host = device.type == "cpu"
    found: dict[Any, tuple[Any, ...]] = {}
    quick: dict[Any, Callable[[np.ndarray], Any]] = {}

    def known(shape: tuple[int, ...], name: str, more: bool) -> tuple[Any, ...]:
        """The run of slices of a shape and dtype, flat or not, and its dtype."""
        taken = None if more else as_taken(f, tuple(shape), name)
        own = taken or f
        return with_batch_of_one(own), taken is not None, dtype_asked(own, name)

    def run(v: torch.Tensor, key: Any, name: str, args: tuple, kwargs: dict) -> Any:
        """The result for a tensor, made of a slice of the dtype `name`; `key`: of such slices."""
        how = found.get(key)
        if how is None:
            how = found[key] = known(tuple(v.shape), name, bool(args or kwargs))
        one, flat, dtype = how
        if v.dtype is not (wanted := dtype()):
            v = v.to(wanted)
        return one(v.reshape(-1) if flat else v, *args, **kwargs)

    def on_plain(key: Any) -> Callable[[np.ndarray], Any]:
        """The run of NumPy slices that torch takes as they are, with the least overhead."""
        one, _, dtype = found[key]
        wanted, copied = dtype(), np.array

        def run(v: np.ndarray) -> Any:
            if dtype() is not wanted or torch.is_grad_enabled():
                return call(v)
            if threads.torch_is_lost and torch.get_num_threads() != 1:
                return call(v)
            result = one(torch.from_numpy(copied(v)))
            if type(result) is not torch.Tensor or not result.is_cpu or result.requires_grad:
                return finished(result)
            return (result.float() if result.dtype is torch.bfloat16 else result).numpy()

        return run

    def finished(result: Any) -> Any:
        """Convert forward's result for a NumPy slice."""
        if type(result) is torch.Tensor:
            return _to_numpy(result)
        return _mapped(_to_numpy, checked(result, any_object=True), sequence)

    def of_slice(v: Any, *args: Any, **kwargs: Any) -> Any:
        if type(v) is np.ndarray and not args and not kwargs:
            known = quick.get((v.shape, v.dtype))
            if known is not None:
                return known(v)
        return call(v, *args, **kwargs)

    @threads.forkable
    def call(v: Any, *args: Any, **kwargs: Any) -> Any:
        library = arrays.library(v)
        key: Any
        if library == "torch":
            name = str(v.dtype).partition(".")[2]
            key = "torch", v.shape, name, not args and not kwargs
            return checked(run(v, key, name, args, kwargs), any_object=False)
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
                key = "cupy", v.shape, v.dtype, not args and not kwargs
                result = run(lent(v).to(device), key, v.dtype.name, tuple(others), kwargs)
            place = f"cuda:{v.device.id}"
            given = lambda t: cupy.from_dlpack(numpy_dtype(t).to(place).detach())  # noqa: E731
            return _mapped(given, checked(result, any_object=False), sequence)
        if library != "numpy":
            raise UnsupportedError(f"a torch module on {type(v).__name__} slices")
        v = np.asarray(v)
        if not args and not kwargs:
            with torch.no_grad():
                tensor = _tensor(v) if on_host else _tensor(v).to(device)
                key = v.shape, v.dtype
                result = run(tensor, key, arrays.dtype_name(v), (), kwargs)
            _, flat, dtype = found[key]
            if on_host and not flat and v.dtype in _AS_IS and tensor.dtype is dtype():
                quick[key] = on_plain(key)
            return finished(result)
        with torch.no_grad():
            others = [
                _tensor(x).to(device, parameter_dtype(f, x.dtype.name))
                if type(x) is np.ndarray
                else x
                for x in args
            ]
            key = v.shape, v.dtype, False
            result = run(_tensor(v).to(device), key, v.dtype.name, tuple(others), kwargs)
        return finished(result)

    setattr(of_slice, AROUND, _around)
    return of_slice


def _around() -> contextlib.AbstractContextManager[Any]:
    """The context of a whole loop, entered once instead of around each slice."""
    return _InChild() if threads.torch_is_lost else torch.no_grad()


class _InChild:
    """The context in a forked process, where torch's threads are lost."""

    def __enter__(self) -> None:
        self._grad, self._threads = torch.no_grad(), torch.get_num_threads()
        self._grad.__enter__()
        if self._threads != 1:
            torch.set_num_threads(1)

    def __exit__(self, *_: object) -> None:
        if self._threads != 1:
            torch.set_num_threads(self._threads)
        self._grad.__exit__(None, None, None)


def _tensor(v: np.ndarray) -> torch.Tensor:
    """A slice as torch can compute with it."""
    if v.dtype in _AS_IS:
        return torch.from_numpy(np.array(v))
    if v.dtype.kind not in "fiub":
        raise InputError(f"slices of dtype {v.dtype}: networks take real numbers")
    native = np.array(v, dtype=v.dtype.newbyteorder("="))
    small = native.dtype.itemsize == 1
    if (native.dtype.kind == "u" and not small) or native.dtype.itemsize > 8:
        native = native.astype(np.float64)  # torch cannot compute with these, or has them not
    return torch.from_numpy(native)


_AS_IS = frozenset(map(np.dtype, "f4 f8 f2 i1 i2 i4 i8 u1 ?".split()))
"""dtypes that torch has as well."""


def _mapped(function: Callable[[Any], Any], x: Any, sequence: type) -> Any:
    """Apply a function to each tensor in forward's result."""
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
    t = numpy_dtype(t)
    return (t.detach() if t.requires_grad else t).cpu().numpy()

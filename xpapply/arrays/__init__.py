"""Facts of arrays: library, device, axes.

The one place that imports array_api_compat, and only once an array is seen
that is neither NumPy's nor CuPy's.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Hashable
from contextlib import AbstractContextManager
from types import ModuleType
from typing import Any

import numpy as np
from numpy.lib import array_utils

__all__ = ["compat", "describe", "device", "get_array_module", "library", "normalize_axis_index"]


def library(x: Any) -> str | None:
    """The root package whose array `x` is ("numpy", "cupy", "torch" ...), or None.

    Looks at the class only, so nothing is imported to answer. Subclasses count
    as the library's own (``numpy.memmap``, ``torch.nn.Parameter``).
    """
    return _library(type(x))  # type: ignore[arg-type]


@functools.lru_cache(maxsize=1024)
def _library(array_type: Any) -> str | None:
    if issubclass(array_type, (np.ndarray, np.generic)):
        return "numpy"
    for cls in array_type.__mro__:
        root = str(cls.__module__).partition(".")[0]  # some of Cython's have a descriptor there
        if root == "cupy" and cls.__name__ == "ndarray":
            return "cupy"
        if root == "torch" and cls.__name__ == "Tensor":
            return "torch"
        if root in ("jax", "jaxlib") and hasattr(array_type, "aval"):
            return "jax"
        if root == "dask" and cls.__name__ == "Array":
            return "dask"
    if hasattr(array_type, "__array_namespace__"):
        return str(array_type.__module__).partition(".")[0]
    return None


def get_array_module(*arrays: Any) -> ModuleType:
    """The array namespace of `arrays`, for code that is written once for every library.

    Like `cupy.get_array_module`, for more libraries and with nothing installed
    but NumPy.

    Parameters
    ----------
    *arrays : array_like
        Arrays of one library. Python numbers, lists and None go with any library.

    Returns
    -------
    module
        ``numpy`` for NumPy arrays, and where no argument is an array; ``cupy``
        for CuPy arrays; for the others the namespace of the array API standard
        (``array_api_compat.torch`` for torch tensors, ``jax.numpy`` ...).

    Raises
    ------
    TypeError
        If the arrays come from different libraries.

    Examples
    --------
    >>> import numpy as np
    >>> from xpapply import get_array_module
    >>> def softplus(x):
    ...     xp = get_array_module(x)
    ...     return xp.maximum(x, 0) + xp.log1p(xp.exp(-abs(x)))
    >>> softplus(np.zeros(2))
    array([0.69314718, 0.69314718])
    """
    found: dict[str, Any] = {}
    for x in arrays:
        name = library(x)
        # NumPy scalars are numbers: cupy.get_array_module(cupy_array, np.float32(2)) is cupy
        if name is not None and not isinstance(x, np.generic):
            found.setdefault(name, x)
    if len(found) > 1:
        which = ", ".join(f"{n} ({describe(x)})" for n, x in found.items())
        raise TypeError(
            f"arrays of different libraries in one call: {which}. "
            "Bring them to one library and device first (cupy.asarray, .to(device), .get() ...)."
        )
    return compat(next(iter(found.values()), None))


def compat(x: Any) -> ModuleType:
    """The namespace of `x`, as the array API standard has it."""
    name = library(x)
    if name is None or name == "numpy":
        return np  # NumPy >= 2 follows the standard by itself
    if name == "cupy":
        return sys.modules["cupy"]
    import array_api_compat

    namespace: ModuleType = array_api_compat.array_namespace(x)
    return namespace


def device(x: Any) -> Any:
    """The device of `x`: "cpu" for NumPy, the library's own device object else."""
    if library(x) in (None, "numpy"):
        return "cpu"
    return getattr(x, "device", None)  # JAX's tracers have none


def beside(x: Any) -> dict[str, Any]:
    """The keywords by which functions of `compat` make an array on the device of `x`.

    CuPy's functions make theirs on the current device, and take none.
    """
    return {} if library(x) == "cupy" else {"device": device(x)}


def place(x: Any) -> Hashable:
    """The device of `x`, as a key (CuPy's device objects have no hash)."""
    return x.device.id if library(x) == "cupy" else device(x)


def elsewhere(*given: Any) -> AbstractContextManager[Any] | None:
    """The device of the first CuPy array, to be entered, where it is not the current one.

    CuPy's functions and kernels run on the current device, wherever their arrays are.
    """
    for x in given:
        if library(x) == "cupy":
            runtime = sys.modules["cupy"].cuda.runtime
            return None if x.device.id == runtime.getDevice() else x.device  # type: ignore[no-any-return]
    return None


def is_asynchronous(x: Any) -> bool:
    """Whether calls on `x` return before the work is done."""
    name = library(x)
    return name == "cupy" or (name == "torch" and x.device.type == "cuda")


def asarray(value: Any, like: Any, dtype: Any = None) -> Any:
    """`value` as an array of the library, and on the device, of `like`."""
    xp = compat(like)
    if library(like) == "cupy":  # has no device=
        with like.device:
            return xp.asarray(value, dtype=dtype)
    return xp.asarray(value, dtype=dtype, device=device(like))


def describe(x: Any) -> str:
    """`x` in an error message: library, shape, dtype and device."""
    shape, dtype = getattr(x, "shape", None), getattr(x, "dtype", None)
    if shape is None:
        return f"{type(x).__module__}.{type(x).__qualname__}"
    where = "" if library(x) == "numpy" else f" on {device(x)}"
    return f"{type(x).__name__} {tuple(shape)} {dtype}{where}"


def as_tuple(x: Any) -> tuple[Any, ...]:
    """Several axes, arrays or results as they are; one alone as a tuple."""
    return x if isinstance(x, tuple) else (x,)


def normalize_axis_index(axis: Any, ndim: int) -> int:
    """`axis` as a number from 0 to ``ndim - 1``; `AxisError` where it is out of range."""
    try:
        return array_utils.normalize_axis_index(axis, ndim)
    except TypeError:
        pass
    found = describe(axis) if hasattr(axis, "shape") else repr(axis)
    text = f"axis={found}: one axis, an integer from {-ndim} to {ndim - 1}"
    if axis is None:
        text += ". For the whole array as one slice, call f(arr.ravel())"
    elif isinstance(axis, list):
        text += f". For slices over several axes, give apply_along_axis a tuple: {tuple(axis)}"
    elif isinstance(axis, tuple):
        text += ". For slices over several axes, join these to one axis first (arr.reshape)"
    raise TypeError(text)


def strides(x: Any) -> tuple[int, ...] | None:
    """The strides of `x`, in units that compare among themselves; None where it has none."""
    if library(x) in ("numpy", "cupy"):
        return tuple(x.strides)
    return tuple(x.stride()) if library(x) == "torch" else None


def signature(x: Any) -> tuple[Hashable, ...]:
    """All that a plan may depend on, of an array: cheap to make and to compare."""
    kind: Any = type(x)
    name = _library(kind)
    if name == "numpy":
        return kind, x.shape, x.dtype, x.strides
    if name == "cupy":
        return kind, x.shape, x.dtype, x.strides, x.device.id
    if name == "torch":
        recorded = sys.modules["torch"].is_grad_enabled(), x.requires_grad
        return kind, x.shape, x.dtype, x.stride(), x.device, recorded
    if name == "jax":
        return kind, x.shape, x.dtype, device(x)
    return kind, tuple(x.shape), str(x.dtype), str(device(x))


def permute(x: Any, axes: tuple[int, ...]) -> Any:
    """`x` with its axes in another order: a view."""
    name = library(x)
    if name in ("numpy", "cupy"):
        return x.transpose(axes)
    return x.permute(axes) if name == "torch" else compat(x).permute_dims(x, axes)


def broadcast_to(x: Any, shape: tuple[int, ...], subok: bool = False) -> Any:
    """A view of `x` in another shape; `subok`: of NumPy's subclasses one of theirs."""
    if isinstance(x, np.ndarray):
        return np.broadcast_to(x, shape, subok=subok)
    return compat(x).broadcast_to(x, shape)


def read_only(x: Any) -> Any:
    """A read-only view, as `numpy.broadcast_to` to the same shape gives it, in a tenth of the time.

    All but arrays of NumPy is given back as it is.
    """
    if not isinstance(x, np.ndarray):
        return x
    view = x.view()
    view.flags.writeable = False
    return view


def plain(arr: Any) -> Any:
    """A NumPy subclass as what it is in memory."""
    subclass = isinstance(arr, np.ndarray) and type(arr) is not np.ndarray
    return arr.view(np.ndarray) if subclass else arr


def is_mixed(x: Any) -> bool:
    """Whether elements of a list change when it becomes an array.

    Theirs are of several types, or NumPy's scalars: the array of ``[1, "a"]`` has two strings, and
    what `ndarray.tolist` gives are Python's numbers.
    """
    if not isinstance(x, (list, tuple)):
        return False
    kinds = set(map(type, x))
    if len(kinds) == 1 and kinds <= _ALIKE:
        return False
    if kinds == {np.ndarray} and len({e.dtype for e in x}) == 1:
        return False
    try:
        found = np.asanyarray(x)
    except ValueError:  # lists of several lengths, which are elements themselves
        return True
    if found.dtype == object:
        return False
    kinds = set(map(type, np.asanyarray(x, dtype=object).ravel().tolist()))
    if len(kinds) > 1 or any(issubclass(kind, np.generic) for kind in kinds):
        return True
    return kinds == {int} and found.dtype.kind not in "iu"


_ALIKE = {float, complex, bool, str, bytes}
"""Types whose lists become arrays of the same: large integers do not."""


def on_host(x: Any) -> Any:
    """An array of any library as NumPy's, which has no bfloat16: that becomes float32."""
    name = library(x)
    if name == "numpy":
        return x
    if name == "cupy":
        return x.get()
    if name == "torch":
        x = x.detach()
        return (x.float() if dtype_name(x) == "bfloat16" else x).cpu().numpy()
    try:
        return np.asarray(x)
    except (TypeError, ValueError, RuntimeError):
        return np.from_dlpack(x)


def dtype_of(xp: ModuleType, name: str) -> Any:
    """A dtype of a library, None where it has none; JAX without x64 has fewer bits for it."""
    dtype = getattr(xp, name, None)
    if dtype is not None and xp.__name__.partition(".")[0] == "jax":
        import jax

        return jax.dtypes.canonicalize_dtype(dtype)
    return dtype


def dtype_name(x: Any) -> str:
    """The name of the dtype of `x`: "float32", "bfloat16" ..."""
    dtype = x.dtype
    if isinstance(dtype, np.dtype):
        return _name_of(dtype)
    return getattr(dtype, "name", None) or str(dtype).rpartition(".")[2]


@functools.lru_cache(maxsize=256)  # NumPy puts it together each time
def _name_of(dtype: Any) -> str:
    return str(dtype.name)

"""A function and the slices that it is applied to: what each call becomes, once."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import arrays, config, frontends
from ..arrays import as_tuple
from ..errors import InputError, UnsupportedError, add_note, warn
from ..functions.cache import cache_of
from ..functions.estimators import BatchOfOne
from ..ir.avals import ShapeDtype
from ..limits import LIMITS
from ..loop import reference
from ..loop.arguments import Arguments, Looped
from .plan import Plan


@dataclass(slots=True, eq=False)  # never changed: not frozen, as that would cost time
class Application:
    """``f(v, *args, **kwargs)`` for the slices `v` of an array along an axis, or along several.

    A block of an array, some of its slices, and the array inside a labelled one are further
    Applications of the same function: see `on`.

    Attributes
    ----------
    f : callable
        The function.
    axis : int or tuple of int
        As the caller gave it; not negative in what `settled` returns.
    arr : array
        As the caller gave it; one of some library in what `settled` returns.
    args, kwargs
        What `f` gets beside a slice.
    """

    f: Any
    axis: Any
    arr: Any
    args: tuple
    kwargs: dict

    def on(self, arr: Any, axis: Any = None) -> Application:
        """Apply the same function to another array, along the same axes or others."""
        return Application(self.f, self.axis if axis is None else axis, arr, self.args, self.kwargs)

    def settled(self) -> Application:
        """Normalize: an array of some library or in a file, and axes that are not negative.

        Raises
        ------
        AxisError, TypeError
            If `axis` is none of the array.
        ValueError
            If it names none, or one twice.
        InputError
            If a length is not known, as in graphs that run later.
        """
        arr = self.arr
        is_array = arrays.library(arr) is not None
        if not is_array:
            from .. import storage  # which few need

            is_array = storage.is_stored(arr)
        if not is_array or isinstance(arr, np.generic):
            arr = np.asanyarray(arr)
        ndim = len(arr.shape)
        if None in arr.shape:
            text = "the lengths of arr are known only when its graph runs: found"
            raise InputError(f"{text} {shown(arr)}. Give it a shape of numbers")
        if not isinstance(self.axis, tuple):
            axis = _axis_of(self.arr, self.axis, ndim, is_array)
            same = arr is self.arr and axis is self.axis
            return self if same else self.on(arr, axis)
        axes = tuple(_axis_of(self.arr, a, ndim, is_array) for a in self.axis)
        if not axes:
            raise ValueError("axis=() names no axis: give an integer, or a tuple of integers")
        if len(set(axes)) < len(axes):
            raise ValueError(f"axis={self.axis} names an axis twice")
        return self.on(arr, axes if len(axes) > 1 else axes[0])

    # --- facts, of what is settled ------------------------------------------------------------

    @property
    def axes(self) -> tuple[int, ...]:
        """The axes, also where there is one."""
        return as_tuple(self.axis)

    @property
    def slice(self) -> ShapeDtype:
        """Shape and dtype of a slice."""
        shape = self.arr.shape
        return ShapeDtype(tuple([shape[a] for a in self.axes]), arrays.dtype_name(self.arr))

    @property
    def batch(self) -> tuple[int, ...]:
        """The lengths of the axes that are left."""
        axes = self.axes
        return tuple([n for a, n in enumerate(self.arr.shape) if a not in axes])

    def check_any(self) -> None:
        """Raise as NumPy does where there are no slices."""
        if 0 in self.batch:
            raise ValueError(reference.EMPTY)

    # --- plans --------------------------------------------------------------------------------

    def plan(self, engine: str, **said: Any) -> Plan:
        """A plan for it; `said`: what else there is to say, and facts that differ."""
        for name, fact in _FACTS.items():
            if name not in said:
                said[name] = fact(self)
        return Plan(engine=engine, **said)

    def in_loop(self, reasons: tuple[str, ...], f: Any = None, **said: Any) -> Plan:
        """The plan that says why `f` runs slice by slice; `f`: what does, if it is another one."""
        f, args, kwargs = self.f if f is None else f, self.args, self.kwargs
        kernels: tuple[str, ...] = (
            (f"one call per slice, {f.says}",) if type(f) is BatchOfOne else ()
        )
        shared = why = ""
        if config.current().worker_count() > 1:
            from ..loop import processes

            given = Arguments((Looped(0), *args), kwargs)
            shared, why = processes.in_words(f, given, [self.arr])
        kernels, reasons = kernels + (shared,) * bool(shared), reasons + (why,) * bool(why)
        run = lambda x, a: reference.apply(f, a, x, args, kwargs)  # noqa: E731
        return self.plan("loop", kernels=kernels, reasons=reasons, _call=run, **said)


_FACTS: dict[str, Callable[[Application], Any]] = {
    "name": lambda a: frontends.name_of(a.f),
    "inputs": lambda a: (a.slice,),
    "library": lambda a: str(arrays.library(a.arr)),
    "device": lambda a: str(arrays.device(a.arr)),
    "shapes": lambda a: (tuple(a.arr.shape),),
    "axis": lambda a: a.axis,
}
"""Facts of an application by the field of `Plan` that reports them."""


def _axis_of(given: Any, axis: Any, ndim: int, is_array: bool) -> int:
    """The axis; where NumPy makes no array of what was `given`, the error says so."""
    try:
        return arrays.normalize_axis_index(axis, ndim)
    except np.exceptions.AxisError as error:
        if ndim == 0 and not (is_array and hasattr(given, "__array__")):
            path = isinstance(given, (str, os.PathLike))
            how = "; open the file: np.load(path, mmap_mode='r'), or zarr, h5py" if path else ""
            add_note(error, f"arr is neither an array nor a list: found {shown(given)}{how}")
        raise


def shown(x: Any) -> str:
    """`x` in a message: arrays by shape, others by their name or class."""
    if hasattr(x, "shape"):
        return arrays.describe(x)
    if x is None or isinstance(x, (str, int, float, complex)):
        return repr(x)
    if isinstance(x, (list, tuple, dict, set)):
        return f"a {type(x).__name__} of {len(x)}"
    if callable(x):
        return f"the function {frontends.name_of(x)}"
    return f"an object of class {type(x).__qualname__}"


# --- the loop, which is never silent ----------------------------------------------------------


def announce(f: Any, slices: int, why: str, like: Any) -> None:
    """Warn once that `f` runs slice by slice on such arrays, or raise, as the options say."""
    how = config.current().fallback
    if how == "silent" or slices < 2 or config.current().engine == "loop":
        return
    expected = (frontends.is_python(f) or frontends.is_compiled(f)) and how != "raise"
    if slices < (LIMITS.warned_slices if expected else 2):
        return
    message = (
        f"{frontends.name_of(f)} runs slice by slice in Python ({slices:,} calls): {why}. "
        "xpapply.explain(...) shows the plan"
    )
    if how == "raise":
        raise UnsupportedError(f"{message}; without options(fallback='raise') the loop runs.")
    known, method = cache_of(f)
    key = method, arrays.library(like)  # elsewhere it may have another reason
    if key not in known.warned:
        known.warned.add(key)
        warn(f"{message}; options(fallback='silent') hides this warning.")


def why_awkward(arr: Any) -> str | None:
    """Why only NumPy's own loop keeps the meaning of this array."""
    if not isinstance(arr, np.ndarray) or type(arr) in (np.ndarray, np.memmap):
        return None
    return f"{type(arr).__name__} is a subclass of ndarray with a meaning of its own"

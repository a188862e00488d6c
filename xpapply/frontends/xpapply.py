"""xpapply's own functions of a slice.

`MLP`, models from files and plans write their graphs themselves; `elementwise` and `reduction` run
on all slices at once, and models from files of which another library has to run a part.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import Any

import numpy as np

from .. import arrays
from ..errors import TraceError
from ..functions.cache import remembered
from ..functions.guards import Guards
from ..functions.reach import reach
from ..functions.snapshots import lives_on
from ..ir.graph import Graph, ShapeDtype
from ..ir.rewrite import with_input
from . import AllAtOnce, FlatFunction, Frontend, owner


@remembered(256)
def _of_flat(shape: tuple[int, ...]) -> Callable[..., Any]:
    """A model of slices of a shape, for the same slices laid flat."""

    def of_flat(model: Any, v: Any) -> Any:
        xp = arrays.compat(v)
        return model(xp.reshape(v, shape))

    of_flat.__qualname__ = f"a model of slices {shape}"
    of_flat.shape_of_slices = shape  # type: ignore[attr-defined]
    return of_flat


class OwnFrontend(Frontend):
    """`MLP`, models from files, plans, `elementwise` and `reduction`."""

    ways = ("slicewise", "onnx.batch")

    def lift(self, f: Any, aval: ShapeDtype, args: tuple, kwargs: dict) -> Graph:
        """The graph that `f` writes."""
        shape = getattr(getattr(f, "__func__", None), "shape_of_slices", None)
        if shape is not None:
            graph = self.lift(f.__self__, ShapeDtype(shape, aval.dtype), args, kwargs)
            return with_input(graph, aval.shape)
        if not hasattr(f, "lift"):
            raise TraceError(f"{type(f).__name__} runs on all slices by itself")
        # what a subclass computes of a slice, its graph has to say as well
        for cls in type(f).__mro__:
            if "lift" in vars(cls):
                break
            if not {"__call__", "_on_slice"}.isdisjoint(vars(cls)):
                raise TraceError(f"{cls.__name__} has a __call__ of its own, and no lift")
        if args or kwargs:
            found = ", ".join([*(f"argument {k}" for k in range(len(args))), *kwargs])
            hint = ""
            if "where" in kwargs:
                hint = ". To leave out slices, call xpapply.vectorize(model, signature='(n)->(k)')"
            raise TypeError(
                f"{type(f).__name__} takes the slice and nothing else: found {found}{hint}"
            )
        written: Graph = f.lift(aval)
        return written

    def watch(self, f: Any, args: tuple, kwargs: dict, sources: tuple = ()) -> Callable[[], bool]:
        """Constantly True for our own models; attributes of subclasses are watched."""
        if lives_on(type(owner(f))):
            return lambda: True
        guards = Guards()
        reach(guards, [f, getattr(f, "lift", None)], lambda x: None)
        return guards

    def slice_function(self, f: Any) -> Callable[..., Any]:
        """The function of a slice, for slices of any library."""

        def call(v: Any, *args: Any, **kwargs: Any) -> Any:
            found = f(v, *args, **kwargs)
            # NumPy's loop would make a plain array of a tuple
            several = isinstance(found, tuple) and isinstance(found[0], np.ma.MaskedArray)
            return np.ma.stack(found) if several else found

        return call if hasattr(f, "along") else f

    def length_of_slices(self, f: Any) -> int | None:
        """The slice length of an `MLP`, or of another model whose first layer determines it."""
        weights = getattr(f, "weights", None)
        if weights is None:
            return getattr(f, "length_of_slices", None)
        return int(weights[0].shape[1])

    def vectorized(
        self,
        f: Any,
        axis: int,
        arr: Any,
        args: tuple,
        kwargs: dict,
        *,
        trusted: bool = False,
        graph: Graph | None = None,
    ) -> AllAtOnce:
        """`elementwise` and `reduction`, which take all slices along an axis; models in batches."""
        if hasattr(owner(f), "all_at_once"):
            shape = getattr(getattr(f, "__func__", None), "shape_of_slices", (arr.shape[axis],))
            found: AllAtOnce = owner(f).all_at_once(axis, arr, shape, graph)
            return found
        if not hasattr(f, "along"):
            raise TraceError(
                f"{type(owner(f)).__name__} has no call of its own for all slices at once"
            )
        if kwargs or any(getattr(x, "ndim", 0) or isinstance(x, (list, tuple)) for x in args):
            raise TraceError("with further arguments that are not numbers")
        run = lambda x, axis: f.along(axis, x, *args)  # noqa: E731
        try:
            call = f.bound(axis, arr, *args)
        except Exception:  # which the call will raise, or of masked elements, which it leaves out
            return AllAtOnce("slicewise", ("one call for all slices",), run)
        kernels = tuple(f"{call.engine}: {what}" for what in call.kernels)
        result, *more = call.results
        inner = result.shape[axis : axis + 1] if len(result.shape) == arr.ndim else ()
        one = None if more else ShapeDtype(inner, result.dtype)
        return AllAtOnce("slicewise", kernels, run, one, call.reasons)

    def flattened(self, f: Any, shape: tuple[int, ...], dtype: str) -> FlatFunction:
        """`elementwise` does not ask for a shape, and `reduction` combines all elements.

        Classes with the attribute ``several_axes = True`` lift slices of any shape.
        """
        if hasattr(f, "along"):
            return FlatFunction(f, alike=f.keeps_shape)
        if not getattr(type(f), "several_axes", False) or not hasattr(f, "lift"):
            raise TraceError(f"{type(f).__name__} takes slices with one axis")
        # as a method it is served and remembered as the model is, and keeps nothing alive
        return FlatFunction(MethodType(_of_flat(shape), f))


FRONTEND = OwnFrontend()

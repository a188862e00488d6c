"""Networks of slices with several axes: these lie flat along one, for which there are plans."""

from __future__ import annotations

import math
from dataclasses import replace
from types import MethodType
from typing import Any

from .. import arrays, frontends
from ..arrays import as_tuple
from ..errors import InputError, TraceError
from ..functions.cache import cache_of
from ..ir.graph import ShapeDtype
from ..limits import LIMITS
from ..loop.signature import Dims
from . import planner
from .application import Application
from .flat import Lay, reshape
from .plan import Plan
from .python import own_apply


class FlatSlices:
    """`f` applied to the slices along several axes, as another function of flat slices.

    Parameters
    ----------
    app : Application
        Along several axes.
    flat : FlatFunction
        `f` for flat slices.

    Attributes
    ----------
    network : Plan
        What runs for the flat slices.
    """

    def __init__(self, app: Application, flat: frontends.FlatFunction) -> None:
        self._app, self._flat = app, flat
        self._lay = Lay(app.axes, tuple(app.arr.shape))
        self._rows = self._lay.flat(app.arr)
        make = _by_the_library if frontends.is_python(flat.call) else planner.plan
        self.network = make(replace(app, f=flat.call, axis=self._lay.at, arr=self._rows))

    @property
    def container(self) -> Any:
        """The container of several results of one slice, without values."""
        structure = self._flat.structure
        return None if structure is None else structure.filled()

    def results(self) -> Any:
        """All of them."""
        app, flat, lay, rows = self._app, self._flat, self._lay, self._rows
        if flat.structure is not None:
            found = planner.again(flat.call, lay.at, rows)
            return self.network(rows, lay.at) if found is None else found
        if app.args or app.kwargs:
            found = self.network(rows, lay.at)
            return lay.back(found) if flat.alike else found
        through = lay.through(flat.alike)
        run = planner.remember(app.f, app.axes, app.arr, (flat.call, lay.at, rows), through)
        if run is not None:
            return run(app.arr)
        found = self.network(rows, lay.at)
        return lay.back(found) if flat.alike else found

    def plan(self) -> Plan:
        """The plan."""
        app, flat = self._app, self._flat
        result = self.network.result
        if flat.alike and result is not None:
            result = ShapeDtype((*result.shape[:-1], *self._lay.slice), result.dtype)

        def call(x: Any, axes: Any) -> Any:
            if tuple(x.shape[a] for a in as_tuple(axes)) != self._lay.slice:
                raise InputError(f"this plan is for slices {self._lay.slice}")
            return FlatSlices(app.on(x, axes), flat).results()

        return replace(
            self.network,
            name=frontends.name_of(app.f),
            inputs=(app.slice,),
            results=None if result is None else (result,),
            shapes=(tuple(app.arr.shape),),
            axis=app.axes,
            _call=call,
        )


def reshaped(f: Any, shape: tuple[int, ...], dtype: str) -> frontends.FlatFunction:
    """A Python function of slices of a shape, for the same slices laid flat.

    It is for libraries with a way of their own to run it on all: tracers stop at our functions.
    """

    def of_flat(v: Any, *args: Any, **kwargs: Any) -> Any:
        return f(v.reshape(shape), *args, **kwargs)

    return frontends.FlatFunction(of_flat)


def _by_the_library(app: Application) -> Plan:
    own = own_apply.find(app.f, app.axis, app.arr, app.args, app.kwargs)
    return app.plan(own.engine, kernels=own.kernels, results=(own.result,), _call=own.call)


class OneAxisSlices:
    """A network applied to the slices along one axis, as `FlatSlices` is to those along several."""

    container = None

    def __init__(self, app: Application) -> None:
        self._given = app.arr, app.axis
        self.network = planner.plan(app)

    def results(self) -> Any:
        """All of them."""
        return self.network(*self._given)


def of_network(
    f: Any, operands: list[Any], dims: Dims, args: tuple, kwargs: dict
) -> OneAxisSlices | FlatSlices:
    """Build the application of a network to slices along the last axes of arrays.

    Raises
    ------
    TraceError
        Where only the loop does: for slices along several axes, of several arrays, or with several
        results.
    """
    arr, results = operands[0], len(dims.signature.outputs)
    shapes = tuple(map(dims.sizes.shape, dims.signature.inputs))
    if len(operands) == results == len(shapes[0]) == 1:
        return OneAxisSlices(Application(f, arr.ndim - 1, arr, args, kwargs))
    if args or kwargs:
        raise TraceError("networks with further arguments run at once on vectors, to one result")
    axes = tuple(range(arr.ndim - len(shapes[0]), arr.ndim))
    several, frontend = len(operands) > 1 or results > 1, frontends.find(f)
    one = "networks run at once on the slices of one array, to one result"
    if not math.prod(map(math.prod, shapes)):
        raise TraceError(one)
    dtype = arrays.dtype_name(arr)
    known, method = cache_of(f)
    key = (method, "flat", shapes, dtype, several)
    flat = known.leaves.get(key)
    if flat is None:
        if several:
            flat = frontend.several(f, shapes, dtype)
        else:
            flat = frontend.flattened(f, shapes[0], dtype)
        if flat is None:
            raise TraceError(one)
        if isinstance(flat.call, MethodType):  # the memory goes with its object: it keeps none
            known.leaves[key] = flat._replace(call=flat.call.__func__)
    else:
        flat = flat._replace(call=MethodType(flat.call, frontends.owner(f)))
    if len(operands) > 1:
        arr = _side_by_side(operands, dims.loop, shapes)
        axes = (arr.ndim - 1,)
    found = FlatSlices(Application(f, axes, arr, (), {}), flat)
    if not found.network.vectorized:
        known.leaves.pop(key, None)
        raise TraceError("; ".join(found.network.reasons))
    return found


def _side_by_side(
    operands: list[Any], loop: tuple[int, ...], shapes: tuple[tuple[int, ...], ...]
) -> Any:
    """Slices of several arrays, each flat, one after the other."""
    names = list(dict.fromkeys(map(arrays.dtype_name, operands)))
    if len(names) > 1:
        raise TraceError(f"networks run at once on arrays of one dtype, not of {', '.join(names)}")
    nbytes = math.prod(loop) * sum(map(math.prod, shapes)) * operands[0].itemsize
    if nbytes > max(LIMITS.beside, LIMITS.beside_times * sum(x.nbytes for x in operands)):
        raise TraceError(f"broadcast arguments side by side would take {nbytes / 1e9:.1f} GB")
    both = zip(operands, shapes, strict=True)
    rows = [reshape(arrays.broadcast_to(x, loop + s), (*loop, math.prod(s))) for x, s in both]
    return arrays.compat(rows[0]).concat(rows, axis=-1)

"""Calls of functions of the slices of several arrays: look, write the graph, choose, run.

What `xpapply.special`, `xpapply.elementwise` and `xpapply.reduction` have in common. A backend
runs them if it has ``slices_why_not(graph, like)``, the reason why it cannot, and
``lower_slices(graph, layout, like)``, which gives ``run(arrays, outs)``. One that has
``slices_lender(like)`` instead lends its arrays to another: ``(name, view)``. All other
libraries run on `backends.array_api`, by one array operation per node.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from . import config, engines, namespace
from .backends import array_api
from .blocks import Layout, Operand
from .errors import InputError, UnsupportedError
from .ir.slicewise import SliceGraph, written
from .memory import Limited


class Slicewise:
    """A function of slices that is written once, for arrays of all libraries and dtypes.

    Parameters
    ----------
    name : str
        For people.
    write : callable
        Gets an `Expression` per argument, returns one or a tuple of them.
    of_nothing : str, optional
        Why a slice of no elements has no result; "" where it has.
    """

    def __init__(self, name: str, write: Callable[..., Any], of_nothing: str = "") -> None:
        self.name = name
        self._write = write
        self._of_nothing = of_nothing
        self._graphs: dict[Any, tuple[SliceGraph, bool]] = {}
        self._known = Limited()

    def __call__(
        self, arrays: Sequence[Any], axis: Any = None, keepdims: bool = False, out: Any = None
    ) -> Any:
        """Run on all slices: one result, or a tuple of them."""
        if axis is not None and type(axis) is not int:  # 1.0 == 1 would be found below
            several = isinstance(axis, (tuple, list))
            axis = tuple(map(operator.index, axis)) if several else operator.index(axis)
        key: Any = (axis, keepdims, config.current().engine, *map(_signature, arrays))
        if out is not None:
            key += ("out", *map(_signature, _tuple(out)))
        found: Call | None = self._known.get(key)
        if found is None:
            found = self._known[key] = self.planned(arrays, axis, keepdims, out)
        return found(arrays, out)

    def planned(
        self, arrays: Sequence[Any], axis: Any = None, keepdims: bool = False, out: Any = None
    ) -> Call:
        """What would run on such arrays."""
        if not arrays:
            raise TypeError(f"{self.name} got no arguments: give at least one array")
        given = [looked_at(self.name, x, alone=_no_arrays(arrays)) for x in arrays]
        own = [x for x in given if not isinstance(x, Number)]
        same_place(self.name, own)
        try:
            shape = np.broadcast_shapes(*(tuple(x.shape) for x in own))
        except ValueError:
            which = ", ".join(map(namespace.describe, own))
            raise InputError(f"{self.name}: shapes that do not broadcast: {which}") from None
        axes = normalize_axes(axis, len(shape))
        kinds = tuple(_kind(x, own) for x in given)
        if kinds not in self._graphs:
            self._graphs[kinds] = written(self._write, kinds)
        graph, several = self._graphs[kinds]
        if self._of_nothing and not math.prod(shape[a] for a in axes):
            raise InputError(
                f"{self.name} of shape {shape} along axis {axis}: slices of no elements: "
                f"{self._of_nothing}"
            )
        as_is = [x is y for x, y in zip(arrays, given, strict=True)]
        return Call(self.name, graph, several, given, as_is, shape, axes, keepdims, out)


class Number(NamedTuple):
    """A number among the arguments: passed by value."""

    value: Any
    dtype: np.dtype[Any] | None
    """None for Python's own, which takes that of the arrays."""


class Call:
    """A function of slices for arguments of one layout: all is decided but the addresses.

    Attributes
    ----------
    graph : SliceGraph
        What is computed.
    engine : str
        What runs.
    kernels, reasons : tuple of str
        What it calls or launches; why faster ones were refused.
    """

    def __init__(
        self,
        name: str,
        graph: SliceGraph,
        several: bool,
        given: Sequence[Any],
        as_is: Sequence[bool],
        shape: tuple[int, ...],
        axes: tuple[int, ...],
        keepdims: bool,
        out: Any,
    ) -> None:
        self.name, self.graph, self.shape, self.axes = name, graph, shape, axes
        self._several = several
        own = [x for x in given if not isinstance(x, Number)]
        like = own[0]
        self._library = namespace.library(like) or "numpy"
        vectors = [graph.is_vector(o) for o in graph.outs]
        self._dtypes = [graph.nodes[o].aval.dtype for o in graph.outs]
        if all(namespace.dtype_name(x) == "bfloat16" for x in own):
            self._dtypes = ["bfloat16" if d == "float32" else d for d in self._dtypes]
        self._squeezed = [() if keepdims or v else axes for v in vectors]
        self._shapes = [
            tuple(1 if a in axes and not v else n for a, n in enumerate(shape) if a not in squeezed)
            for v, squeezed in zip(vectors, self._squeezed, strict=True)
        ]
        self._numbers = [graph.nodes[i].aval.dtype for i in graph.inputs]
        self._first = next(k for k, x in enumerate(given) if not isinstance(x, Number))
        self._converted = [
            (k, self._conversion(x, d))
            for k, (x, d) in enumerate(zip(given, self._numbers, strict=True))
            if not as_is[k]
        ]
        self._check(out)
        self.engine, self.kernels = "array_api", ("one array operation per node",)
        self._run: Any = None
        self._view: Callable[[Any], Any] | None = None
        backend, view, self.reasons = _backend(graph, like, own)
        if backend is None:
            return
        self._own: Any = engines.backend(self._library)
        self._lending = getattr(self._own, "lending", engines._nothing_to_switch)
        self._view = view
        operands = tuple(_operand(x, shape) for x in given)
        order = _memory_order(operands, len(shape))
        self._order: list[tuple[int, ...] | None] = []
        outs = []
        for dtype, squeezed, out_shape in zip(
            self._dtypes, self._squeezed, self._shapes, strict=True
        ):
            kept = [a for a in range(len(shape)) if a not in squeezed]
            mine = tuple(kept.index(a) for a in order if a not in squeezed)
            self._order.append(None if mine == tuple(range(len(mine))) else mine)
            strides, step = [0] * len(shape), 1
            for a in reversed(mine):
                strides[kept[a]] = 0 if out_shape[a] == 1 else step
                step *= out_shape[a]
            outs.append(Operand(dtype, tuple(strides)))
        self._direct = out is not None and self._is_direct(out)
        if self._direct:
            outs = [
                _operand(o, shape, squeezed)
                for o, squeezed in zip(_tuple(out), self._squeezed, strict=True)
            ]
        layout = Layout(shape, axes, operands, tuple(outs))
        self.engine = backend.ENGINE
        self._run, self.kernels = _nothing, ("nothing: there are no slices",)
        if any(map(math.prod, self._shapes)):
            self._run = backend.lower_slices(graph, layout, like)
            self.kernels = self._run.kernels

    def __call__(self, arrays: Sequence[Any], out: Any = None) -> Any:
        """Run on arguments like those that this was made for."""
        for y in () if out is None else _tuple(out):
            if isinstance(y, np.ndarray) and not y.flags.writeable:
                raise InputError(f"{self.name}: out={namespace.describe(y)} is read-only")
        given: Sequence[Any] = arrays
        if self._converted:
            given = list(arrays)
            for k, convert in self._converted:
                given[k] = convert(given[k])
        like = given[self._first]
        if self._run is None:
            return self._on_any_array(given, like, out)
        if out is not None and self._direct and not _overlap(given, _tuple(out)):
            results = list(_tuple(out))
            targets = results
        else:
            results, targets = [], []
            for shape, order, dtype in zip(self._shapes, self._order, self._dtypes, strict=True):
                if order is None:
                    y = self._own.empty(shape, dtype, like)
                else:
                    y = self._own.empty(tuple(shape[a] for a in order), dtype, like)
                    y = namespace.permute(y, tuple(np.argsort(order)))
                results.append(y)
            targets = results
        if self._view is not None:
            view = self._view
            given = [
                view(x) if hasattr(x, "ndim") and not isinstance(x, np.generic) else x
                for x in given
            ]
            targets = [view(y) for y in targets]
        with self._lending(like):
            self._run(given, targets)
        return self._finished(results, out)

    def _conversion(self, x: Any, dtype: str) -> Callable[[Any], Any]:
        """What makes an argument like `x` what runs on it."""
        if isinstance(x, Number):
            return functools.partial(_typed, kind=np.dtype(dtype).type)
        return functools.partial(looked_at, self.name, alone=True)

    def _finished(self, results: list[Any], out: Any) -> Any:
        if out is not None:
            for target, y in zip(_tuple(out), results, strict=True):
                if target is not y:
                    _copied(target, y)
            return out
        if self._library == "numpy":
            results = [y[()] if y.ndim == 0 else y for y in results]
        return tuple(results) if self._several else results[0]

    def _on_any_array(self, given: Sequence[Any], like: Any, out: Any) -> Any:
        xp = namespace.compat(like)
        ndim = len(self.shape)
        inputs = []
        for x, dtype in zip(given, self._numbers, strict=True):
            if isinstance(x, np.generic) or not hasattr(x, "ndim"):
                inputs.append(namespace.asarray(x.item(), like, array_api.dtype_of(xp, dtype)))
                continue
            if namespace.dtype_name(x) != dtype:  # bfloat16
                x = xp.astype(x, array_api.dtype_of(xp, dtype))
            y = xp.reshape(x, (*(1,) * (ndim - x.ndim), *x.shape))
            wide = tuple(self.shape[a] if a in self.axes else n for a, n in enumerate(y.shape))
            inputs.append(y if wide == tuple(y.shape) else xp.broadcast_to(y, wide))
        with np.errstate(all="ignore"):
            found = array_api.evaluate_slices(xp, self.graph, inputs, self.axes)
        results = []
        for k, (y, shape, dtype, squeezed) in enumerate(
            zip(found, self._shapes, self._dtypes, self._squeezed, strict=True)
        ):
            kept = list(shape)
            for a in squeezed:
                kept.insert(a, 1)
            shared = self.graph.nodes[o := self.graph.outs[k]].op == "input"
            shared |= o in self.graph.outs[:k]
            if tuple(y.shape) != tuple(kept):  # it does not depend on all of the arrays
                y, shared = xp.broadcast_to(y, tuple(kept)), True
            if shared:  # a result is nobody else's memory
                y = array_api.fresh(xp, y)
            y = xp.reshape(y, shape)
            wanted = array_api.dtype_of(xp, dtype)
            results.append(y if wanted is None or y.dtype == wanted else xp.astype(y, wanted))
        return self._finished(results, out)

    def _check(self, out: Any) -> None:
        """Whether `out` can take the results."""
        if out is None:
            return
        targets = _tuple(out)
        if len(targets) != len(self._shapes):
            raise InputError(f"{self.name} has {len(self._shapes)} results, out has {len(targets)}")
        for y, shape, dtype in zip(targets, self._shapes, self._dtypes, strict=True):
            if namespace.library(y) != self._library:
                raise TypeError(
                    f"{self.name}: out is {namespace.describe(y)}, the arrays are {self._library}'s"
                )
            if tuple(y.shape) != shape:
                raise InputError(f"{self.name}: out has shape {tuple(y.shape)}, the result {shape}")
            if not np.can_cast(dtype, namespace.dtype_name(y), "same_kind"):
                raise TypeError(
                    f"{self.name}: a result of {dtype} does not go into out of {y.dtype}"
                )

    def _is_direct(self, out: Any) -> bool:
        """Whether results can be written to `out` itself."""
        return all(
            namespace.dtype_name(y) == d and _is_plain(y)
            for y, d in zip(_tuple(out), self._dtypes, strict=True)
        )


def _typed(value: Any, kind: Callable[[Any], Any]) -> Any:
    """A number as a NumPy scalar: infinite where the dtype ends earlier."""
    if abs(value) < 6e4:  # any dtype of floats has it: none of NumPy's warnings to switch off
        return kind(value)
    with np.errstate(over="ignore"):
        return kind(value)


def _nothing(arrays: Any, outs: Any) -> None:
    """What runs where there are no slices."""


def _tuple(out: Any) -> tuple[Any, ...]:
    return out if isinstance(out, tuple) else (out,)


def _copied(target: Any, y: Any) -> None:
    name = namespace.dtype_name(target)
    if name != namespace.dtype_name(y):  # the standard writes no other dtypes
        xp = namespace.compat(target)
        y = xp.astype(y, array_api.dtype_of(xp, name))
    try:
        target[...] = y
    except TypeError as error:  # arrays that cannot be written to
        raise TypeError(f"out={namespace.describe(target)} cannot be written to") from error


def _overlap(given: Sequence[Any], outs: Sequence[Any]) -> bool:
    """Whether writing results could change what is still to be read."""
    for x in given:
        for y in outs:
            if x is y:  # each element is read before it is written
                continue
            if hasattr(x, "ndim") and _may_share_memory(x, y):
                return True
    return len(outs) > 1 and any(_may_share_memory(a, b) for a in outs for b in outs if a is not b)


def _may_share_memory(x: Any, y: Any) -> bool:
    if isinstance(x, np.generic):
        return False
    if isinstance(x, np.ndarray):
        return bool(np.may_share_memory(x, y))
    ends = []
    for a in (x, y):
        size = a.itemsize if hasattr(a, "itemsize") else a.element_size()
        strides = namespace.strides(a) or ()
        unit = 1 if namespace.library(a) == "cupy" else size
        start = a.data.ptr if namespace.library(a) == "cupy" else a.data_ptr()
        reach = [s * unit * (n - 1) for s, n in zip(strides, a.shape, strict=True)]
        low = start + sum(r for r in reach if r < 0)
        ends.append((low, start + sum(r for r in reach if r > 0) + size))
    return ends[0][0] < ends[1][1] and ends[1][0] < ends[0][1]


# --- looking at arguments ---------------------------------------------------------------------


def _signature(x: Any) -> Any:
    """What a call depends on, of an argument."""
    if type(x) in (float, int, bool, complex) or isinstance(x, np.generic):
        return type(x)
    if namespace.library(x) is None:  # nested lists
        x = np.asarray(x)
        return "list", x.shape, x.dtype
    if namespace.library(x) == "torch":  # views that mean other numbers than lie in memory
        return *namespace.signature(x), x.is_neg(), x.is_conj()
    return namespace.signature(x)


def _no_arrays(arrays: Sequence[Any]) -> bool:
    return all(isinstance(x, (bool, int, float, complex, np.generic)) for x in arrays)


def looked_at(name: str, x: Any, alone: bool) -> Any:
    """An argument as an array, or as a `Number`."""
    if not alone:
        if isinstance(x, np.generic):
            return Number(x.item(), x.dtype)
        if type(x) in (bool, int, float, complex):
            return Number(x, None)
    if namespace.library(x) is None or isinstance(x, np.generic):
        x = np.asarray(x)
    if isinstance(x, np.ma.MaskedArray):
        raise TypeError(
            f"{name} of a MaskedArray: fill it, or give weights that are 0 where masked"
        )
    x = engines.plain(x)
    kind = getattr(x.dtype, "kind", "")
    if kind in "OSUVMm" and kind and namespace.dtype_name(x) != "bfloat16":
        raise TypeError(
            f"{name} of dtype {x.dtype}: it takes numbers. Cast the array first: x.astype(float)"
        )
    return x


def same_place(name: str, arrays: Sequence[Any]) -> None:
    """Refuse arrays of different libraries, or on different devices."""
    namespace.get_array_module(*arrays)  # raises for arrays of different libraries
    places = {namespace.place(x) for x in arrays}
    if len(places) > 1:
        which = ", ".join(map(namespace.describe, arrays))
        raise InputError(f"{name}: arrays on different devices: {which}. Bring them to one first.")


def normalize_axes(axis: Any, ndim: int) -> tuple[int, ...]:
    """The axes of a slice, ascending.

    Raises
    ------
    numpy.exceptions.AxisError
        If one is out of range.
    """
    if axis is None:
        return tuple(range(ndim))
    given = axis if isinstance(axis, (tuple, list)) else (axis,)
    axes = tuple(sorted(namespace.normalize_axis_index(operator.index(a), ndim) for a in given))
    if len(set(axes)) < len(axes):
        raise InputError(f"axis={axis} names an axis twice")
    return axes


def _kind(x: Any, own: Sequence[Any]) -> tuple[str, bool]:
    """The dtype that an argument has in the graph, and whether it is an array."""
    if not isinstance(x, Number):
        return _computed(namespace.dtype_name(x)), True
    if x.dtype is not None:
        return x.dtype.name, False
    dtypes = [np.dtype(_computed(namespace.dtype_name(y))) for y in own]
    return np.result_type(*dtypes, x.value).name, False


def _computed(dtype: str) -> str:
    return "float32" if dtype == "bfloat16" else dtype


def _is_plain(x: Any) -> bool:
    """Whether an argument can be used as it is."""
    name = namespace.library(x)
    return type(x) is np.ndarray if name == "numpy" else name is not None


def _backend(
    graph: SliceGraph, like: Any, own: Sequence[Any]
) -> tuple[ModuleType | None, Callable[[Any], Any] | None, tuple[str, ...]]:
    """The backend that runs a graph, how it sees an array, and why not a faster one."""
    library = namespace.library(like)
    assert library is not None
    forced = config.current().engine
    found, view = engines.backend(library), None
    reasons: list[str] = []
    if found is not None and hasattr(found, "slices_lender"):
        loan = found.slices_lender(own)
        if isinstance(loan, str):
            reasons.append(loan)
            found = None
        else:
            found, view = engines.backend(loan[0]), loan[1]
    if found is not None and not hasattr(found, "lower_slices"):
        found = None
    if forced and (found is None or forced != found.ENGINE):
        if forced not in ("array_api", library):
            raise UnsupportedError(f"engine {forced!r} does not run on {namespace.describe(like)}")
        found = None
    if found is not None:
        refusal = found.slices_why_not(graph, own)
        if refusal is not None:
            reasons.append(f"{found.ENGINE}: {refusal}")
            found = None
    if found is None:
        refusal = array_api.slices_why_not(graph, like)
        if refusal is not None:
            raise UnsupportedError("; ".join([*reasons, refusal]))
        return None, None, tuple(reasons)
    return found, view, tuple(reasons)


def _operand(x: Any, shape: tuple[int, ...], squeezed: tuple[int, ...] = ()) -> Operand:
    """How an argument lies in an array of `shape` (which has lost the axes `squeezed`)."""
    if isinstance(x, Number):
        return Operand("" if x.dtype is None else x.dtype.name, None)
    strides = list(namespace.strides(x) or ())
    size = x.itemsize if namespace.library(x) in ("numpy", "cupy") else 1
    steps = [0 if n == 1 else s for s, n in zip(strides, x.shape, strict=True)]
    for a in squeezed:
        steps.insert(a, 0)
    steps = [0] * (len(shape) - len(steps)) + steps
    return Operand(namespace.dtype_name(x), tuple(s // size for s in steps))


def _memory_order(operands: Sequence[Operand], ndim: int) -> tuple[int, ...]:
    """The axes of the arrays, slowest in memory first."""
    steps = [o.strides for o in operands if o.strides is not None]
    return tuple(sorted(range(ndim), key=lambda a: -max((abs(s[a]) for s in steps), default=0)))

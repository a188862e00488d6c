"""A path without decisions as a graph of the op table, for backends that generate code."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ....batching import resolve
from ....batching.rules import bound
from ....errors import UnsupportedError
from ....ir.builder import Value
from ....ir.graph import Graph, ShapeDtype
from ....ir.numpy_builder import NumPyBuilder, dtype_or_type, weak
from ....ir.ops import OPS, Kind
from ..trace.tree import Branch, Call, Path, Ref, references
from . import networks, reductions
from .reductions import FLOATS, of_integers

_INTEGERS = tuple(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))


class _Builder(NumPyBuilder):
    """Writes what the kernels of networks compute: ops of floats; of slices, also of integers."""

    def __init__(self, of_slices: bool) -> None:
        super().__init__()
        self._of_slices = of_slices
        self._numbers = (*FLOATS, *_INTEGERS) if of_slices else FLOATS

    def scalar(self, number: Any, dtype: str) -> Any:
        found = super().scalar(number, dtype)
        if self._of_slices and dtype in FLOATS and np.isfinite(float(number)):
            if abs(float(number)) > float(np.finfo(dtype).max):
                raise UnsupportedError(f"NumPy warns of {number} as {dtype}")
        return found

    def approximate(self, x: Value) -> Value:
        """A value whose last bits may be others than NumPy's."""
        found: Value = super().node("approximate", x) if self._of_slices else x
        return found

    def node(self, name: str, *operands: Value, **attrs: Any) -> Value:
        if OPS[name].kind is Kind.ELEMENTWISE and name != "cast":
            allowed = ("bool",) if name.startswith("logical") else self._numbers
            if name in ("where", "equal", "not_equal") and self._numbers is not FLOATS:
                allowed = (*allowed, "bool")
            for v in operands[1:] if name == "where" else operands:
                if v.aval.dtype not in allowed:
                    raise UnsupportedError(f"{name} of {v.aval.dtype}")
        found: Value = super().node(name, *operands, **attrs)
        return found

    def ufunc(self, ufunc: np.ufunc, *operands: Any) -> Value:
        if ufunc is np.power and not isinstance(operands[1], Value) and not np.ndim(operands[1]):
            x, exponent = operands
            if exponent in (2, 3, 4):
                kinds = (*map(dtype_or_type, operands), None)
                x = self.operand(x, np.power.resolve_dtypes(kinds)[0])
                dtype = x.aval.dtype
                if exponent > 2 and dtype == "float16":  # NumPy rounds once, from float32
                    x = self.cast(x, "float32")
                power: Value = super().node("multiply", x, x)
                if exponent == 2:
                    return power
                power = self.cast(
                    super().node("multiply", power, (x, power)[int(exponent) - 3]), dtype
                )
                return power if dtype not in FLOATS else self.approximate(power)
        found: Value = super().ufunc(ufunc, *operands)
        # C's library computes it in another way
        return self.approximate(found) if ufunc is np.hypot else found


Avals = ShapeDtype | tuple[ShapeDtype, ...]


class _Lowering:
    """Builds the graph of one path."""

    def __init__(self, avals: Avals, of_slices: bool) -> None:
        self.builder, self.of_slices = _Builder(of_slices), of_slices
        each = (avals,) if isinstance(avals, ShapeDtype) else avals
        self.inputs = tuple(map(self.builder.input, each))
        self.results: dict[int, Any] = {0: self.inputs if each is avals else self.inputs[0]}
        self.op, self.operand = self.builder.op, self.builder.operand
        self.marks: list[Value] = []

    def mark(self, condition: Value) -> None:
        """Mark slices for which `condition` holds: NumPy's own calls run for them."""
        axes = tuple(range(len(condition.shape)))
        if axes:
            condition = self.op("max", condition, axis=axes, keepdims=False)
        self.marks.append(condition)

    def value(self, x: Any) -> Any:
        """An argument, with values of the graph for what depends on the slice."""
        if isinstance(x, Ref):
            found = self.results[x.index]
            for k in x.item:
                if (isinstance(k, str) or isinstance(found, dict)) and k not in found:
                    raise UnsupportedError(f"a result called {k}")
                found = found[k]
            return found
        if isinstance(x, tuple):
            return tuple(map(self.value, x))
        if isinstance(x, list):
            return [self.value(y) for y in x]
        return x

    def shaped(self, x: Value, shape: tuple[int, ...]) -> Value:
        """`x` in another shape."""
        found: Value = x if x.shape == shape else self.op("reshape", x, shape=shape)
        return found


@np.errstate(all="ignore")  # what numbers become while a graph is written is no news of the user's
def to_graph(path: Path, aval: Avals, of_slices: bool = False, dtype: Any = None) -> Graph:
    """The graph of a path.

    Parameters
    ----------
    path : Path
        Without decisions, but for kernels of functions of slices.
    aval : ShapeDtype or tuple of ShapeDtype
        Of the slice; of several arrays that of each.
    of_slices : bool
        Whether it is for kernels of functions of slices, which have integers, and whose results
        are marked where NumPy would warn or raise: then the values of a mask can be reduced, and
        the graph has further results, the values that the path depends on, and after them
        conditions that mark a slice.
    dtype : dtype or tuple of dtypes, optional
        Of the result, if it is another one: numbers become it as Python's do. Of several results
        that of each.

    Raises
    ------
    UnsupportedError
        If something in it is not an op of the table; the message says what and where.
    """
    lowering = _Lowering(aval, of_slices)
    used = _used(path)
    if of_slices:
        _check_all_used(path, used)
    conditions: list[Value] = []
    number = 0
    for step in path.steps:
        if isinstance(step, Branch):
            asked = lowering.value(step.ref)
            if not of_slices or not _is_answer(step.value, asked):
                raise UnsupportedError(f"it decides by the data ({step.where})")
            conditions.append(asked)
            continue
        number += 1
        if number not in used and not _tells(step):
            continue
        try:
            lowering.results[number] = _lowered(lowering, step)
        except UnsupportedError as error:
            where = f" ({step.where})" if step.where else ""
            raise UnsupportedError(f"{error}{where}") from None
    if not isinstance(path.result, tuple):
        outs = [_out(lowering, path.result, path.dtype, dtype, bool(conditions))]
    else:
        wanted = dtype or (None,) * len(path.result)
        ends = zip(path.result, path.dtype, wanted, strict=True)
        outs = [_out(lowering, *end, True) for end in ends]
    return lowering.builder.graph(*outs, *conditions, *lowering.marks)


def _out(lowering: _Lowering, found: Any, own: Any, dtype: Any, may_be_constant: bool) -> Value:
    """A result of the path, which has the dtype `own`, as a node."""
    if isinstance(found, Ref):
        out = lowering.value(found)
        if not isinstance(out, Value):  # such as zeros_like
            raise UnsupportedError("its result does not depend on the slice")
    elif may_be_constant and np.ndim(found) == 0 and np.dtype(own).kind in "biuf":
        out = lowering.builder.scalar(found, own.name)
    else:
        raise UnsupportedError("its result does not depend on the slice")
    if out.dtype != own:  # a newer library gives another one than its op here
        raise UnsupportedError(f"its result is of {out.dtype} as a graph, and of {own} as a call")
    if dtype is not None:
        out = _converted(lowering, out, dtype)
    if any(out.index == x.index for x in lowering.inputs):  # a kernel has at least one op
        out = lowering.op("reshape", out, shape=out.shape)
    return out


def _converted(lowering: _Lowering, x: Value, dtype: np.dtype[Any]) -> Value:
    """A result as another dtype; integers that do not fit raise in Python."""
    if x.dtype == dtype:
        return x
    if x.dtype.kind in "iu" and dtype.kind in "iu":
        limits, own = np.iinfo(dtype), np.iinfo(x.dtype)
        if own.max > limits.max:
            lowering.mark(
                lowering.op("greater", x, lowering.builder.scalar(limits.max, x.dtype.name))
            )
        if own.min < limits.min:
            lowering.mark(lowering.op("less", x, lowering.builder.scalar(limits.min, x.dtype.name)))
    elif dtype.kind != "f":
        raise UnsupportedError(f"results of {x.dtype} as {dtype}")
    return lowering.op("cast", x, dtype=dtype.name)


_NEVER_TELL = frozenset(
    ("index", "copy", "math", "Python number", "Python arithmetic", "Python round", "Python sum")
)
"""Calls that neither warn nor raise, once they went well for a slice of that shape; of Python's
numbers for the slices that get there."""


def _tells(step: Call) -> bool:
    """Whether a call may warn or raise for some slices."""
    return not step.row.lazy and step.row.name not in _NEVER_TELL


def _used(path: Path) -> set[int]:
    """The calls whose results something uses."""
    used = {ref.index for ref in references(path.result)}
    number = sum(not isinstance(step, Branch) for step in path.steps)
    for step in reversed(path.steps):
        if isinstance(step, Branch):
            used.add(step.ref.index)
            continue
        if number in used or _tells(step):  # a count of a mask does not look at its values
            used |= {ref.index for ref in references((step.args, step.kwargs))}
        number -= 1
    return used


def _check_all_used(path: Path, used: set[int]) -> None:
    """Refuse unused calls: their warnings and errors would be lost."""
    calls = [step for step in path.steps if not isinstance(step, Branch)]
    for number, step in enumerate(calls, 1):
        if step.errstate is not None:
            raise UnsupportedError("it sets numpy.errstate itself")
        if number not in used and _tells(step):
            raise UnsupportedError(f"the result of {step.row.name} is not used")


def _is_answer(answer: Any, asked: Any) -> bool:
    """Whether a kernel can tell which slices give an answer: a truth, or an integer."""
    if not isinstance(asked, Value) or asked.shape:
        return False
    if isinstance(answer, bool):
        return asked.dtype == bool
    if not isinstance(answer, int) or asked.dtype.kind not in "iu":
        return False
    return bool(np.iinfo(asked.dtype).min <= answer <= np.iinfo(asked.dtype).max)


def _lowered(lowering: _Lowering, call: Call) -> Any:
    name = call.row.name
    args = lowering.value(call.args)
    kwargs = {k: lowering.value(x) for k, x in call.kwargs.items()}
    if (runs := getattr(call.row.rule, "runs", None)) is not None:
        return networks.inlined(lowering, runs, *args)
    operands = map(lowering.value, references((call.args, call.kwargs)))
    if name != "index" and all(isinstance(x, np.ndarray) for x in operands):  # such as zeros_like
        raise UnsupportedError(f"{name} of a constant")
    special = _CALLS.get(name) or (_calls_of_slices().get(name) if lowering.of_slices else None)
    if special is not None:
        return special(lowering, *args, **kwargs)
    if call.row.method == "accumulate" and lowering.of_slices:
        from . import order

        return order.accumulated(lowering, name, *args, **kwargs)
    function = resolve(name) if "." in name else None
    if isinstance(function, np.ufunc) and call.row.kind == "elementwise":
        if not call.of_numbers:
            return _ufunc(lowering, function, *args, **kwargs)
        from . import numbers

        return numbers.power_of_numbers(lowering, *args)
    named = (_functions_of_slices().get(name) if lowering.of_slices else None) or _FUNCTIONS.get(
        name
    )
    if named is None or function is None:
        raise UnsupportedError(f"{name} is not an op of the table")
    given = bound(function, args, kwargs)
    given = {k: x for k, x in given.items() if not _default(k, x)}
    try:
        return named(lowering, **given)
    except TypeError as error:  # what the lowering does not take is no keyword of it
        unknown = [k for k in given if f"keyword argument '{k}'" in str(error)]
        said = f" with {unknown[0]}" if unknown else f": {error}"
        raise UnsupportedError(f"{name}{said}") from None


def _default(name: str, x: Any) -> bool:
    if x is None:
        return name != "axis"  # which means all of them
    return (name == "keepdims" and x is False) or x is np._NoValue


def _ufunc(lowering: _Lowering, ufunc: Any, *operands: Any, **kwargs: Any) -> Value:
    if kwargs:
        raise UnsupportedError(f"{ufunc.__name__} with {', '.join(kwargs)}")
    return lowering.builder.ufunc(ufunc, *operands)


# --- functions ------------------------------------------------------------------------------


def _where(lowering: _Lowering, condition: Any, x: Any, y: Any) -> Value:
    if not isinstance(condition, Value):
        raise UnsupportedError("where of a constant")
    found: Value = lowering.builder.where(condition, x, y)
    return found


def _clip(lowering: _Lowering, a: Any, a_min: Any = None, a_max: Any = None) -> Value:
    found = a
    limits = a_min, a_max
    # with two numbers NumPy keeps the zero of the array where the other sign is a limit
    keeps = None not in limits and _ndim(a_min) == _ndim(a_max) == 0
    if keeps and np.result_type(*map(weak, (a, *limits))) == np.float16:
        keeps = False  # of these the first of two equal numbers is taken anyway
    for name, limit in zip(("maximum", "minimum"), limits, strict=True):
        if limit is not None:
            given = (limit, found) if keeps else (found, limit)
            found = _ufunc(lowering, getattr(np, name), *given)
    return found


def _ndim(x: Any) -> int:
    return len(x.shape) if isinstance(x, Value) else np.ndim(x)


def _matmul(lowering: _Lowering, a: Any, b: Any) -> Value:
    a_dim, b_dim = _ndim(a), _ndim(b)
    dtype = np.result_type(weak(a), weak(b))
    if dtype.name not in FLOATS or not 1 <= a_dim <= 2 or not 1 <= b_dim <= 2:
        raise UnsupportedError(f"a product of {a_dim}- and {b_dim}-dimensional {dtype}")
    if not isinstance(b, Value) and b_dim == 2 and a_dim == 1:
        return lowering.op(
            "einsum",
            lowering.operand(np.ascontiguousarray(np.asarray(b).T), dtype),
            lowering.operand(a, dtype),
            subscripts="nm,m->n",
        )
    left, right = lowering.operand(a, dtype), lowering.operand(b, dtype)
    names = {(2, 1): "nm,m->n", (1, 2): "m,mn->n", (1, 1): "m,m->", (2, 2): "km,mn->kn"}
    return lowering.op("einsum", left, right, subscripts=names[a_dim, b_dim])


def _dot(lowering: _Lowering, a: Any, b: Any) -> Value:
    if 0 in (_ndim(a), _ndim(b)):
        # NumPy makes arrays of numbers first, which decide on the dtype as others do
        a, b = (x if isinstance(x, Value) else np.asarray(x) for x in (a, b))
        return _ufunc(lowering, np.multiply, a, b)
    return _matmul(lowering, a, b)


def _reshaped(name: str) -> Callable[..., Value]:
    function = getattr(np, name)

    def lowered(lowering: _Lowering, a: Any, **given: Any) -> Value:
        if given.get("order", "C") != "C" or not isinstance(a, Value):
            raise UnsupportedError(f"{name} in another order")
        given.pop("order", None)
        return lowering.shaped(a, function(np.empty(a.shape, bool), **given).shape)

    return lowered


def _transpose(lowering: _Lowering, a: Any, axes: Any = None) -> Value:
    ndim = len(a.shape)
    axes = tuple(reversed(range(ndim))) if axes is None else tuple(int(k) % ndim for k in axes)
    return a if ndim < 2 else lowering.op("permute_dims", a, axes=axes)


def _joined(stack: bool) -> Callable[..., Value]:
    def lowered(lowering: _Lowering, arrays: Any, axis: int = 0) -> Value:
        dtype = np.result_type(*map(weak, arrays))
        if dtype.name not in FLOATS and not of_integers(lowering, dtype):
            raise UnsupportedError(f"arrays of {dtype} are joined")
        parts = [lowering.operand(x, dtype) for x in arrays]
        ndim = len(parts[0].shape) + stack
        axis = int(axis) % ndim
        if stack:
            shape = parts[0].shape
            wide = (*shape[:axis], 1, *shape[axis:])
            parts = [lowering.shaped(p, wide) for p in parts]
        return parts[0] if len(parts) == 1 else lowering.op("concat", *parts, axis=axis)

    return lowered


# --- Python's own ---------------------------------------------------------------------------


def _index(lowering: _Lowering, x: Any, key: tuple) -> Any:
    if isinstance(x, np.ndarray):  # of zeros_like
        return x[key]
    if lowering.of_slices and any(isinstance(k, np.ndarray) for k in key):
        from . import places

        return places.picked(lowering, [x], places.places_of(x)[key])
    if any(isinstance(k, (np.ndarray, bool)) for k in key):
        raise UnsupportedError("an index by an array")
    parts = [p for k in key for p in ((k.start, k.stop, k.step) if isinstance(k, slice) else (k,))]
    if any(isinstance(p, (Value, Ref)) for p in parts):
        raise UnsupportedError("an index that is computed from the slice")
    if Ellipsis in [k for k in key if not isinstance(k, Value)]:
        at = next(i for i, k in enumerate(key) if k is Ellipsis)
        used = sum(k is not None and k is not Ellipsis for k in key)
        key = (*key[:at], *(slice(None),) * (len(x.shape) - used), *key[at + 1 :])
    axis = 0
    attrs: list[Any] = []
    for k in key:
        if isinstance(k, slice):
            attrs.append((k.start, k.stop, k.step))
        elif k is None:
            attrs.append(None)
        else:
            attrs.append(int(k) % x.shape[axis] if int(k) < 0 else int(k))
        axis += k is not None
    return lowering.op("index", x, key=tuple(attrs))


def _stacked(lowering: _Lowering, tree: Any, shape: tuple[int, ...], dtype: Any) -> Value:
    if np.dtype(dtype).name not in FLOATS and not of_integers(lowering, dtype):
        raise UnsupportedError(f"a list of {dtype}")
    leaves = list(_flattened(lowering, tree, dtype))
    flat = leaves[0] if len(leaves) == 1 else lowering.op("concat", *leaves, axis=0)
    return lowering.shaped(flat, tuple(shape))


def _flattened(lowering: _Lowering, tree: Any, dtype: Any) -> Iterator[Value]:
    """Flatten nested lists to values with one axis each."""
    if isinstance(tree, (list, tuple)):
        for x in tree:
            yield from _flattened(lowering, x, dtype)
        return
    v = lowering.operand(tree, dtype)
    yield lowering.shaped(v, (int(np.prod(v.shape)),))


def _cast(lowering: _Lowering, x: Any, dtype: Any) -> Value:
    if np.dtype(dtype).name not in FLOATS and not of_integers(lowering, dtype):
        raise UnsupportedError(f"a cast to {dtype}")
    if isinstance(x, Value) and x.dtype.kind == "f" and dtype == np.int64:
        from . import numbers

        return numbers.as_integer(lowering, x)
    found: Value = lowering.operand(x, dtype)
    return found


def _same(lowering: _Lowering, x: Any) -> Any:
    return x


_CALLS: dict[str, Callable[..., Any]] = {
    **networks.calls(_index),
    "index": _index,
    "stack": _stacked,
    "cast": _cast,
    "Python number": _cast,
    "copy": _same,
    "matmul": _matmul,
}

_FUNCTIONS: dict[str, Callable[..., Any]] = {
    **reductions.FUNCTIONS,
    "numpy.where": _where,
    "numpy.clip": _clip,
    "numpy.dot": _dot,
    "numpy.reshape": _reshaped("reshape"),
    "numpy.ravel": _reshaped("ravel"),
    "numpy.squeeze": _reshaped("squeeze"),
    "numpy.expand_dims": _reshaped("expand_dims"),
    "numpy.transpose": _transpose,
    "numpy.permute_dims": _transpose,
    "numpy.concatenate": _joined(False),
    "numpy.concat": _joined(False),
    "numpy.stack": _joined(True),
}

_OF_SLICES = (
    "masks matrices numbers order interpolation places filters ranks statistics transforms"
).split()
"""The topics of what kernels of functions of slices have besides."""


@functools.cache
def _calls_of_slices() -> dict[str, Callable[..., Any]]:
    """Lowerings of steps that are no functions, by name."""
    return {k: f for topic in _OF_SLICES for k, f in getattr(_part(topic), "CALLS", {}).items()}


@functools.cache
def _functions_of_slices() -> dict[str, Callable[..., Any]]:
    """Lowerings of functions, by name."""
    from .lines import by_lines

    return {
        k: by_lines(k, f)
        for topic in _OF_SLICES
        for k, f in getattr(_part(topic), "FUNCTIONS", {}).items()
    }


def _part(topic: str) -> Any:
    return importlib.import_module(f".{topic}", __package__)

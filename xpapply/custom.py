"""Elementwise functions and reductions of one's own, from ordinary Python expressions."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import arrays
from .arrays import masked
from .errors import InputError, TraceError
from .ir.graph import Graph, ShapeDtype
from .ir.slices import accumulators
from .ir.slices.slice_graph import Accumulator, Expression, SliceBuilder, expressions
from .slice_functions.call import BoundKernel
from .slice_functions.function import Slicewise

__all__ = ["elementwise", "reduction"]


def _same(x: Any) -> Any:
    return x


def _name(f: Any) -> str:
    return getattr(f, "__name__", type(f).__name__)


def _stacked(result: Any, axis: int) -> Any:
    """Several results of a slice as one array of them, as NumPy makes of a tuple."""
    if not isinstance(result, tuple):
        return result
    if masked.given(result):
        return np.ma.stack(result, axis=axis)
    return arrays.compat(result[0]).stack(result, axis=axis)


def _check_count(name: str, f: Callable[..., Any], given: Sequence[Any]) -> None:
    """A clear error before the expression is written."""
    try:
        inspect.signature(f).bind(*given)
    except TypeError as error:
        raise TypeError(f"{name} got {len(given)} arguments: {error}") from None
    except ValueError:  # a builtin without a signature
        pass


class elementwise:
    """An elementwise function for arrays of every library, from a Python expression.

    What `cupy.ElementwiseKernel` is on CuPy (and what runs there), written once: on NumPy the
    expression runs in cache-sized blocks, on torch it is differentiable.

    Parameters
    ----------
    fn : callable
        Gets one element per argument and returns one, or a tuple. It may use arithmetic,
        comparisons, ``& | ~``, NumPy's ufuncs, `numpy.where`, `numpy.clip` and ``astype``. It is
        called once per combination of dtypes, with stand-ins for the elements: what it captures
        (closures, globals) stays as it is then. Give what changes as an argument.

    Notes
    -----
    Call it with arrays of one library (they broadcast) and numbers, and ``out=`` for the result.
    dtypes are those that NumPy gives the expression; Python's numbers take that of the arrays.
    Of masked arrays the result is masked where one of them is.

    Raises
    ------
    TraceError
        When it is called, if the expression asks for the truth of an element (``if``, ``and``),
        or uses something that is not an op of the table.
    InputError
        If shapes do not broadcast, devices differ, or `out` has another shape.
    TypeError
        For object arrays, or arrays of different libraries.

    Examples
    --------
    >>> import numpy as np, xpapply
    >>> squared_diff = xpapply.elementwise(lambda x, y: (x - y) * (x - y))
    >>> squared_diff(np.arange(3.0), np.array([[1.0], [2.0]]))
    array([[1., 0., 1.],
           [4., 1., 0.]])
    >>> @xpapply.elementwise
    ... def soft_threshold(x, limit):
    ...     return np.sign(x) * np.maximum(abs(x) - limit, 0)
    >>> soft_threshold(np.array([-3.0, 0.5, 2.0]), 1)
    array([-2.,  0.,  1.])
    """

    def __init__(self, fn: Callable[..., Any]) -> None:
        if not callable(fn):
            raise TypeError(f"elementwise of {type(fn).__name__}: give a function of elements")
        self._fn = fn
        functools.update_wrapper(self, fn, updated=())  # its attributes stay its own
        self._call = Slicewise(_name(fn), self._written)

    @property
    def fn(self) -> Callable[..., Any]:
        """The function of elements. It cannot be set: what was written of it is remembered."""
        return self._fn

    def _written(self, *given: Expression) -> Any:
        return self._fn(*given)

    def __call__(self, *operands: Any, out: Any = None) -> Any:
        """The function of all elements, in `out` if that is given."""
        try:
            return self._call(operands, (), False, out)
        except TypeError:
            if masked.given(operands):
                return self._on_masked(operands, out)
            _check_count(_name(self.fn), self.fn, operands)
            raise

    def _on_masked(self, operands: Sequence[Any], out: Any) -> Any:
        found = self(*masked.data(operands))
        found = masked.dressed(found, masked.union(operands), operands)
        return found if out is None else masked.assigned(_name(self.fn), found, out)

    keeps_shape = True

    def along(self, axis: int, *operands: Any) -> Any:
        """The result of the loop over slices, whatever the axis."""
        return _stacked(self(*operands), axis)

    def bound(self, axis: int, *operands: Any) -> BoundKernel:
        return self._call.bound(operands, ())

    def __reduce__(self) -> Any:
        name = getattr(self, "__qualname__", "")
        found: Any = sys.modules.get(getattr(self, "__module__", None) or "")
        for part in name.split("."):
            found = getattr(found, part, None)
        # a decorated function is found under its name, the function itself is not
        return name if found is self else (elementwise, (self.fn,))

    def __repr__(self) -> str:
        return f"<xpapply.elementwise {_name(self.fn)}>"


class reduction:
    """A reduction for arrays of every library, from Python expressions.

    What `cupy.ReductionKernel` is on CuPy, written once: each element is mapped, the mapped ones
    are combined in pairs, and what is left is mapped once more.

    Parameters
    ----------
    map : callable or None
        Gets one element per array; returns a number, or a tuple of them. None: the element.
    reduce : callable
        Gets two such numbers (or tuples) and returns one. The order in which elements are
        combined is not specified: it must be associative and commutative.
    post : callable or None
        Gets what is left (a tuple as one argument) and returns the result, or a tuple.
    identity : number or tuple, optional
        What an empty slice gives to `post`; it is not combined with anything. Without one empty
        slices are an error.

    Notes
    -----
    Call it with arrays of one library (they broadcast) and numbers, ``axis`` (an integer, a
    tuple, or None for all), ``keepdims`` and ``out``. dtypes are those that NumPy gives the
    expressions: a sum of int8 is int8 unless `map` casts (``x.astype(int)``). Expressions are
    written once per combination of dtypes: what they capture stays as it is then.

    Masked elements are left out, as by `numpy.ma.sum`: the result is a masked array, without axes
    for ``axis=None``, in which slices are masked that have no other elements.

    Raises
    ------
    TraceError
        When it is called, if an expression asks for the truth of an element, uses something that
        is not an op of the table, or `reduce` does not return what it takes.
    InputError
        For empty slices without an identity, shapes that do not broadcast, different devices.
    numpy.exceptions.AxisError
        If `axis` is out of range.
    TypeError
        For object arrays, or arrays of different libraries.

    Examples
    --------
    >>> import numpy as np, xpapply
    >>> l2norm = xpapply.reduction(lambda x: x * x, lambda a, b: a + b, np.sqrt, 0)
    >>> l2norm(np.array([[3.0, 4.0], [6.0, 8.0]]), axis=1)
    array([ 5., 10.])

    Several numbers at once are a tuple:

    >>> extent = xpapply.reduction(
    ...     lambda x: (x, x),
    ...     lambda a, b: (np.minimum(a[0], b[0]), np.maximum(a[1], b[1])),
    ...     lambda s: s[1] - s[0],
    ... )
    >>> extent(np.array([[3, 9, 5], [2, 2, 2]]), axis=1)
    array([6, 0])
    """

    def __init__(
        self,
        map: Callable[..., Any] | None,
        reduce: Callable[[Any, Any], Any],
        post: Callable[[Any], Any] | None = None,
        identity: Any = None,
    ) -> None:
        for name, f in (("map", map), ("reduce", reduce), ("post", post)):
            if not callable(f) and (f is not None or name == "reduce"):
                raise TypeError(f"reduction with {name}={f!r}: give a function of elements")
        self._given = (map, reduce, post, identity)
        self._map, self._reduce, self._post = map or _same, reduce, post or _same
        self._identity = identity
        nothing = "" if identity is not None else "there is no identity; give reduction(identity=)"
        self._call = Slicewise("reduction", self._written, nothing)
        self._call_masked = Slicewise("reduction", self._written_masked, nothing)

    def __call__(
        self, *operands: Any, axis: Any = None, keepdims: bool = False, out: Any = None
    ) -> Any:
        """The reduction of all slices along `axis`, in `out` if that is given."""
        try:
            return self._call(operands, axis, keepdims, out)
        except TypeError:
            if masked.given(operands):
                return self._on_masked(operands, axis, keepdims, out)
            _check_count("reduction", self._map, operands)
            raise

    def _on_masked(self, operands: Sequence[Any], axis: Any, keepdims: bool, out: Any) -> Any:
        mask, data = masked.union(operands), masked.data(operands)
        if mask is np.ma.nomask:
            found = self(*data, axis=axis, keepdims=keepdims)
        else:
            *found, some = self._call_masked((mask, *data), axis, keepdims)
            mask, found = ~some, tuple(found) if len(found) > 1 else found[0]
        found = masked.dressed(found, mask, operands)
        return found if out is None else masked.assigned("reduction", found, out)

    keeps_shape = False

    def along(self, axis: int, *operands: Any) -> Any:
        """The result of the loop over slices along `axis`."""
        return _stacked(self(*operands, axis=axis), axis)

    def bound(self, axis: int, *operands: Any) -> BoundKernel:
        return self._call.bound(operands, axis)

    def __reduce__(self) -> tuple[Any, ...]:
        return reduction, self._given

    def _written(self, *given: Expression) -> Any:
        return self._of(given, None)

    def _written_masked(self, mask: Expression, *given: Expression) -> Any:
        return self._of(given, ~mask)

    def _of(self, given: Sequence[Expression], kept: Expression | None) -> Any:
        """The result; and whether there was an element, if only some are `kept`."""
        builder = given[0].builder
        mapped = self._map(*given)
        several = isinstance(mapped, tuple)
        states = expressions(builder, mapped)
        by = self._accumulator(states, several, some=kept is not None)
        if kept is not None:
            states = [*states, kept]
        vector = next(x for x in given if x.aval.shape)
        states = [builder.cast(s, d) for s, d in zip(states, by.dtypes, strict=True)]
        # a mapped number that is the same for all elements
        states = [
            s if s.aval.shape else builder.op("where", vector == vector, s, s) for s in states
        ]
        found = builder.accumulate(by, *states)
        if kept is None:
            return self._post(found if several else found[0])
        result = self._post(found[:-1] if several else found[0])
        return (*(result if isinstance(result, tuple) else (result,)), found[-1])

    def _accumulator(
        self, states: Sequence[Expression], several: bool, *, some: bool = False
    ) -> Accumulator:
        """The accumulator of mapped elements of these dtypes; `some`: kept elements."""
        dtypes = [s.aval.dtype for s in states] + ["bool"] * some
        for _ in range(3):  # until what is combined has the dtype of what it is combined of
            pair = self._pair(dtypes, several, some)
            found = [pair.nodes[o].aval.dtype for o in pair.outs]
            if len(found) != len(dtypes):
                raise TraceError(
                    f"reduce takes {len(dtypes) - some} numbers and returns "
                    f"{len(found) - some}: it must return "
                    "what it takes"
                )
            if found == dtypes:
                break
            dtypes = [np.result_type(a, b).name for a, b in zip(found, dtypes, strict=True)]
        else:
            raise TraceError(f"reduce turns {', '.join(dtypes)} into {', '.join(found)}")
        identity = self._identity
        if identity is not None:
            identity = identity if isinstance(identity, tuple) else (identity,)
            if len(identity) != len(dtypes) - some:
                raise InputError(
                    f"identity={self._identity!r}: {len(dtypes) - some} numbers are combined"
                )
            identity = tuple(map(_as_identity, (*identity, *[False] * some), dtypes))
        simple = _simple(pair, dtypes)
        if simple is not None and (identity is None or identity == simple.identity):
            return simple
        return Accumulator("reduce", None, pair, identity)

    def _pair(self, dtypes: Sequence[str], several: bool, some: bool) -> Graph:
        builder = SliceBuilder()
        a, b = (tuple(builder.input(ShapeDtype((), d)) for d in dtypes) for _ in range(2))
        if not some:
            result = self._reduce(a, b) if several else self._reduce(a[0], b[0])
            return builder.graph(*expressions(builder, result))
        *a_parts, in_a = a
        *b_parts, in_b = b
        where: Any = np.where
        both: Any = np.logical_and(in_a, in_b)  # type: ignore[call-overload]
        either: Any = np.logical_or(in_a, in_b)  # type: ignore[call-overload]
        result = (
            self._reduce(tuple(a_parts), tuple(b_parts))
            if several
            else self._reduce(a_parts[0], b_parts[0])
        )
        found = expressions(builder, result)
        if len(found) == len(a_parts):
            found = [
                where(both, r, where(in_a, x, y))
                for r, x, y in zip(found, a_parts, b_parts, strict=True)
            ]
        return builder.graph(*found, either)


def _as_identity(value: Any, dtype: str) -> Any:
    """A number of an identity, of the dtype that is combined."""
    given = np.asarray(value)
    if given.ndim or given.dtype.kind not in "biufc":
        raise InputError(f"identity={value!r}: give a number, or a tuple of them")
    with np.errstate(all="ignore"):
        found = given.astype(dtype)
    exact = given.dtype.kind == "f" and found.dtype.kind in "fc"  # but for rounding
    if not (exact or found == given):
        raise InputError(
            f"identity={value!r}, but {dtype} is combined, which has no such number: give another, "
            "or cast in `map` (x.astype(float))"
        )
    return found.item()


def _simple(pair: Graph, dtypes: Sequence[str]) -> Accumulator | None:
    """The reduction of the table that a pair is combined by: libraries have it in one call."""
    if len(dtypes) != 1:
        return None
    for name in ("sum", "prod", "max", "min"):
        by = accumulators.simple(name, dtypes[0])
        if by.combine == pair:
            return by
    return None

"""Iterators that are kept, and ``itertools``: what goes through something else.

What ``itertools`` gives is computed at once. That is the same as long as nothing changes that it
is made of, while it is gone through: the source tells (`Flow`), and where it does not say so, the
loop is refused.
"""

from __future__ import annotations

import builtins
import itertools
from typing import Any

import numpy as np

from .....ir.typed import Array, Literal
from .....library import of_iteration, of_making
from .. import arrays, iterators, lists, places, whole
from ..values import (
    ITERATORS,
    PYTHON,
    Abstract,
    Along,
    Arr,
    Cursor,
    Eager,
    Function,
    Groups,
    Inlined,
    Known,
    Leaves,
    Num,
    Once,
    Range,
    Tup,
    Writes,
    integer,
)
from .arguments import as_array
from .common import Call, exactly, python_int


def _iter(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Abstract:
    exactly(t, args, kwargs, 1)
    if isinstance(args[0], Eager):
        return args[0]
    return iterators.cursor(t, iterators.iterator(t, args[0]))


def _next(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Abstract:
    exactly(t, args, kwargs, 1, 2)
    it = args[0]
    if not isinstance(it, Cursor):
        raise t.refuse(f"next of {places.described(it)}: iter(...) of a list or an array")
    if len(args) == 2:
        return Inlined(of_iteration.next_or, args, {})
    more = iterators.has_more(t, it)
    if isinstance(more, Literal):
        raise Leaves("nothing comes next", StopIteration)
    t.mark(t.op("not", "bool", more), "nothing comes next", StopIteration)
    return iterators.following(t, it)[0]


def _at_once(function: Any, counts: tuple[int, ...], calls: int = -1) -> Call:
    """Something that is computed at once; `calls`: the argument that is called for elements."""

    def call(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Abstract:
        if len(args) not in counts:
            raise t.refuse("itertools with further arguments")
        given = [*args, *kwargs.values()]
        if any(isinstance(x, Cursor) for x in given):
            raise t.refuse("itertools of an iterator that is kept: list(...) makes a list of it")
        called = [x for x in given if isinstance(x, Function)]
        called += [x for x in args[calls : calls + 1] if calls >= 0 and not places.is_none(x)]
        called += [x for name, x in kwargs.items() if name in ("key", "func")]
        if called and t.handles:
            raise t.refuse("itertools calls a function where exceptions are handled")
        return Inlined(function, args, kwargs)

    return call


def _of_so_many(by_count: dict[int, Any]) -> Call:
    """``combinations`` and such, of so many elements as is written in the source."""

    def call(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Abstract:
        r = args[1] if len(args) == 2 else kwargs.pop("r", None)
        n = r.value.value if isinstance(r, Num) and isinstance(r.value, Literal) else None
        if n not in by_count:
            raise t.refuse(f"combinations of so many: {' or '.join(map(str, by_count))}")
        return _at_once(by_count[n], (1,))(t, args[:1], kwargs)

    return call


def _product(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Abstract:
    repeat = kwargs.pop("repeat", integer(1))
    n = repeat.value.value if isinstance(repeat.value, Literal) else 0
    if n > 1 and any(isinstance(x, (*ITERATORS, Eager, Cursor)) for x in args):
        raise t.refuse("the product of an iterator with itself")
    args = args * n
    found = {2: of_iteration.product, 3: of_iteration.product_of_three}.get(len(args))
    if found is None:
        raise t.refuse("the product of so many: 2 or 3")
    return _at_once(found, (2, 3))(t, args, kwargs)


def _islice(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Abstract:
    exactly(t, args, kwargs, 2, 3, 4)
    over, *bounds = args
    if len(bounds) == 1:
        bounds = [integer(0), *bounds]
    default = (integer(0), integer((1 << 62) - 1), integer(1))
    given = [
        d if places.is_none(x) else python_int(t, x) for x, d in zip(bounds, default, strict=False)
    ]
    given += default[len(given) :]
    return _at_once(of_iteration.sliced, (4,))(t, [over, *given], {})


def _pairwise(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Abstract:
    exactly(t, args, kwargs, 1)
    return _at_once(of_iteration.neighbours, (1,))(t, args, kwargs)


def _map(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Abstract:
    exactly(t, args, kwargs, 2, 3)
    how = of_iteration.mapped if len(args) == 2 else of_iteration.mapped_to_two
    return _at_once(how, (2, 3), 0)(t, args, kwargs)


def _along_axis(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Abstract | Inlined:
    """``numpy.apply_along_axis`` over the rows or columns of a matrix."""
    given = dict(zip(("func1d", "axis", "arr"), args, strict=False)) | kwargs
    if {*given} != {"func1d", "axis", "arr"} or len(args) > 4:
        raise t.refuse("numpy.apply_along_axis with further arguments by name, or several")
    axis, rows = given["axis"], arrays.loaded(t, given["arr"])
    known = isinstance(axis, Num) and isinstance(axis.value, Literal) and axis.value.value
    if not isinstance(rows, Arr) or rows.type.ndim != 2 or known not in (-2, -1, 0, 1):
        raise t.refuse("numpy.apply_along_axis of something else than a matrix along an axis")
    if known in (-2, 0):
        rows = arrays.transposed(t, rows)
    page = of_iteration.along_rows_with if args[3:] else of_iteration.along_rows
    return Inlined(page, [given["func1d"], rows, *args[3:]], {})


def _piecewise(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Inlined:
    """``numpy.piecewise`` of an array of one axis: functions of its parts, some may be numbers."""
    exactly(t, args, kwargs, 3)
    x, masks, functions = as_array(t, args[0], "biuf"), _several(t, args[1]), args[2]
    if not all(isinstance(c, Arr) and c.type == Array("bool", 1) for c in masks):
        raise t.refuse("numpy.piecewise by conditions that are no arrays of truth values")
    if not isinstance(functions, Tup):
        raise t.refuse(f"numpy.piecewise with {places.described(functions)}: use np.where")
    n, found = len(masks), functions.items
    if len(found) not in (n, n + 1):
        raise t.refuse(f"numpy.piecewise with {n} conditions and {len(found)} functions")
    given = [x, Tup(masks, True), Tup(found[:n], True)]
    page = of_making.pieces if len(found) == n else of_making.pieces_and_rest
    return Inlined(page, [*given, *found[n:]], {})


def _select(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Inlined:
    """``numpy.select`` of arrays of one axis and numbers."""
    given = dict(zip(("condlist", "choicelist", "default"), args, strict=False)) | kwargs
    default = given.pop("default", integer(0))
    if {*given} != {"condlist", "choicelist"} or len(args) > 3:
        raise t.refuse("numpy.select with other arguments")
    masks, choices = (_several(t, given[name]) for name in ("condlist", "choicelist"))
    if not all(isinstance(c, Arr) and c.type == Array("bool", 1) for c in masks):
        raise t.refuse("numpy.select by conditions that are no arrays of truth values")
    if len(masks) != len(choices):
        raise t.refuse(f"numpy.select with {len(masks)} conditions and {len(choices)} choices")
    kinds = []
    for x in (*choices, default):
        if isinstance(x, Num):
            kinds.append(whole.weak(t, x))
        else:
            kinds.append(np.dtype(as_array(t, x, "biuf").type.dtype))
    dtype = np.result_type(*(whole.AS_WEAK.get(k, k) for k in kinds))
    backwards = [Tup(x[::-1], True) for x in (masks, choices)]
    return Inlined(of_making.selected, [*backwards, default, Known(dtype)], {})


def _several(t: Writes, x: Abstract) -> tuple[Abstract, ...]:
    """What a list or tuple has; what is none stands for itself."""
    return tuple(arrays.loaded(t, y) for y in (x.items if isinstance(x, Tup) else (x,)))


def _once(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Abstract:
    return Eager(Along(args[0], integer(0)))


def _generated(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Abstract:
    if t.handles:
        raise t.refuse("a generator where exceptions are handled: list(...) makes a list of it")
    return Eager(Along(args[0], integer(0)))


def _groups(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Abstract:
    place = lists.new_list(t, (integer(0),), part=21)
    values, keys, bounds = args
    return Eager(Groups(values, keys, bounds, place, integer(0)))


def _count(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Abstract:
    """``itertools.count`` of integers."""
    given = [*args, *(kwargs.pop(n) for n in ("start", "step")[len(args) :] if n in kwargs)]
    exactly(t, given, kwargs, 0, 1, 2)
    if not all(isinstance(x, Num) and x.dtype == "int64" and x.kind == PYTHON for x in given):
        raise t.refuse("itertools.count of something else than Python's integers")
    start, step = (*given, *(integer(0), integer(1))[len(given) :])  # type: ignore[misc]
    if not isinstance(step.value, Literal) or step.value.value < 1:
        raise t.refuse("itertools.count by a step that is not written in the source")
    return Once(Range(start, integer(1 << 62), step))


ROWS: dict[Any, Call] = {
    iter: _iter, next: _next, of_iteration.once: _once,
    of_iteration.generated: _generated, of_iteration.groups: _groups,
    itertools.accumulate: _at_once(of_iteration.accumulated, (1, 2), 1),
    itertools.groupby: _at_once(of_iteration.grouped, (1, 2), 1),
    itertools.combinations: _of_so_many({2: of_iteration.pairs, 3: of_iteration.triples}),
    itertools.combinations_with_replacement: _of_so_many({2: of_iteration.pairs_with_itself}),
    itertools.permutations: _of_so_many(
        {2: of_iteration.ordered_pairs, 3: of_iteration.ordered_triples}
    ),
    itertools.compress: _at_once(of_iteration.compressed, (2,)),
    itertools.product: _product, itertools.islice: _islice, itertools.pairwise: _pairwise,
    itertools.count: _count,
    itertools.chain.from_iterable: _at_once(of_iteration.chained_parts, (1,)),
    itertools.zip_longest: _at_once(of_iteration.zipped_longest, (2,)),
    itertools.chain: _at_once(of_iteration.chained, (1, 2, 3, 4)),
    itertools.takewhile: _at_once(of_iteration.taken_while, (2,), 0),
    itertools.dropwhile: _at_once(of_iteration.dropped_while, (2,), 0),
    itertools.filterfalse: _at_once(of_iteration.filtered_out, (2,), 0),
    itertools.starmap: _at_once(of_iteration.mapped_to_parts, (2,), 0),
    builtins.map: _map, builtins.filter: _at_once(of_iteration.filtered, (2,), 0),
    np.apply_along_axis: _along_axis, np.piecewise: _piecewise, np.select: _select,
}  # fmt: skip
"""A row each."""

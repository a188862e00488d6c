"""Functions of Python's own that are compiled."""

from __future__ import annotations

import abc
import bisect
import builtins
import collections
import heapq
import operator
from typing import Any

import numpy as np

from .....ir.typed import Literal
from .....ir.typed.function import PARTS
from .....library import (
    of_iteration,
    of_keys,
    of_lists,
    of_math,
    of_python,
    of_series,
)
from .....library.texts import of_texts
from .. import arrays, held, iterators, lists, numbers, places, whole
from ..kinds import halves, letters, sets
from ..values import (
    EITHER,
    NO_AXES,
    PYTHON,
    Abstract,
    Along,
    Arr,
    Counted,
    Function,
    Held,
    Inlined,
    Known,
    Leaves,
    Letters,
    Lst,
    Method,
    Num,
    Once,
    Range,
    Rows,
    Span,
    Text,
    Through,
    Tup,
    Writes,
    Zipped,
    integer,
)
from . import mixed
from .common import Call, as_float, as_int, exactly, number, python_int
from .of_math import has_method
from .of_numpy import ufunc_of


def _len(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Num:
    exactly(t, args, kwargs, 1)
    return Num("int64", PYTHON, places.length(t, args[0]))


def _abs(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
    exactly(t, args, kwargs, 1)
    if whole.is_array(*args):
        return whole.elementwise(t, np.absolute, args)
    (x,) = args
    if isinstance(x, Num) and x.kind == NO_AXES and x.dtype in PARTS:  # not hypot, as for a number
        return ufunc_of(np.absolute)(t, args, {})
    return numbers.absolute(t, number(t, x))


def _range(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Range:
    exactly(t, args, kwargs, 1, 2, 3)
    given = [python_int(t, x) for x in args]
    if len(given) == 1:
        given = [integer(0), *given]
    if len(given) == 2:
        given.append(integer(1))
    step = given[2].value
    if not isinstance(step, Literal):
        t.mark(t.op("eq", "bool", step, places.ZERO), "a range with step 0", ValueError)
    return Range(*given)


def _slice(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Span:
    """``slice(5, 30)``."""
    exactly(t, args, kwargs, 1, 2, 3)
    given = [Known(None), *args] if len(args) == 1 else args
    return Span(*given, *[Known(None)] * (3 - len(given)))


def _enumerate(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
    start = kwargs.pop("start", None) or (args[1] if len(args) == 2 else integer(0))
    exactly(t, args[:1], kwargs, 1)
    if sets.is_set(args[0]):
        return Inlined(of_iteration.numbered, [args[0], python_int(t, start)], {})
    return Counted(iterators.iterator(t, args[0]), python_int(t, start))


def _zip(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Zipped:
    strict = kwargs.pop("strict", None)
    value = strict.value if isinstance(strict, Num) else Literal(False, "bool")
    if kwargs or not args or not isinstance(value, Literal):
        raise t.refuse("zip with further arguments")
    return iterators.zipped(t, [iterators.iterator(t, x) for x in args], bool(value.value))


def _reversed(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Abstract:
    exactly(t, args, kwargs, 1)
    (x,) = args
    if isinstance(x, Tup):
        return Through(Tup(x.items[::-1]), 0)
    if isinstance(x, Arr):
        back = Span(Known(None), Known(None), integer(-1))
        return iterators.iterator(t, arrays.item(t, x, back))
    if isinstance(x, (Lst, Rows)):
        last = t.op("sub", "int64", places.length(t, x), places.ONE)
        return Once(Along(x, Num("int64", PYTHON, last), True))
    if isinstance(x, Range) and isinstance(x.step.value, Literal):
        n, step = places.length(t, x), x.step.value.value
        less = t.op("sub", "int64", n, Literal(1, "int64"))
        last = t.op(
            "add", "int64", x.start.value, t.op("mul", "int64", less, Literal(step, "int64"))
        )
        stop = t.op("sub", "int64", x.start.value, Literal(step, "int64"))
        first, end = (Num("int64", PYTHON, y) for y in (last, stop))
        return Once(Range(first, end, integer(-step)))
    raise t.refuse(f"reversed of {places.described(x)}")


def _int(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if args and letters.is_any(args[0]):
        exactly(t, args, kwargs, 1, 2)
        base = python_int(t, args[1]) if len(args) == 2 else integer(10)
        return Inlined(of_texts.to_int, [letters.of(t, args[0]), base], {})
    exactly(t, args, kwargs, 1)
    x = number(t, args[0])
    return Num("int64", PYTHON, as_int(t, x))


def _float(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if args and isinstance(args[0], (Letters, Text)):
        from .....library.texts import of_formats

        exactly(t, args, kwargs, 1)
        return Inlined(of_formats.to_float, [letters.of(t, args[0])], {})
    return as_float(t, args, kwargs)


def _bool(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Num:
    exactly(t, args, kwargs, 1)
    return Num("bool", PYTHON, places.truth(t, args[0]))


def _round(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
    args = [*args, kwargs.pop("ndigits")] if "ndigits" in kwargs else args
    exactly(t, args, kwargs, 1, 2)
    if len(args) == 2 and not places.is_none(args[1]):
        return _rounded(t, number(t, args[0]), python_int(t, args[1]))
    x = number(t, args[0])
    has_method(t, args[0], "__round__")
    if numbers.kind_of(x.dtype) != "f":
        return Num("int64", PYTHON, as_int(t, x))
    value = halves.widened(t, x.value)
    whole = t.op("rint", str(value.type), value)
    why = "a float that is no integer"
    return Num("int64", PYTHON, numbers.to_int(t, whole, "int64", why, raises=True))


def _rounded(t: Writes, x: Num, n: Num) -> Any:
    """``round(x, n)``."""
    letter = numbers.kind_of(x.dtype)
    if x.kind == EITHER or letter == "b" or x.dtype == halves.HALF:
        raise t.refuse(f"round of {places.described(x)}, Python's or NumPy's, to digits")
    if letter != "f":
        return Inlined(of_math.whole, [x, n], {})
    return Inlined(of_math.rounded if x.kind == PYTHON else of_series.rounded, [x, n], {})


def _divmod(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Tup:
    exactly(t, args, kwargs, 2)
    a, b = (number(t, x) for x in args)
    return Tup((numbers.binary(t, "//", a, b), numbers.binary(t, "%", a, b)))


def _pow(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Num:
    exactly(t, args, kwargs, 2)
    return numbers.binary(t, "**", *(number(t, x) for x in args))


def _by_value(args: list[Any], kwargs: dict[str, Any]) -> None:
    """Refuse keys, except `d.get` of the dict itself, whose keys all exist."""
    key = kwargs.get("key")
    if len(args) == 1 and isinstance(key, Method) and key.name == "get" and key.owner == args[0]:
        kwargs["key"] = key._replace(name="__getitem__")


def _extreme(op: str, of_many: Any) -> Call:
    """Python's ``max`` or ``min``: the first one that no other is beyond."""

    def call(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
        _by_value(args, kwargs)
        if not {*kwargs} <= {"key", "default"} or not args:
            raise t.refuse("min or max with further arguments")
        if len(args) == 1:
            args = [sets.in_any_order(t, args[0], kwargs)]
            if isinstance(args[0], (Arr, Lst)) and "default" not in kwargs:
                none = t.op("eq", "bool", places.length(t, args[0]), places.ZERO)
                t.mark(none, "min or max of nothing", ValueError)
            if not isinstance(args[0], Tup) or not args[0].items:
                return Inlined(of_many, args, kwargs)
            args = list(args[0].items)
        elif "default" in kwargs:
            raise Leaves("min or max of several with a default", TypeError)
        if "key" in kwargs:
            return Inlined(of_many, [Tup(tuple(args))], {"key": kwargs["key"]})
        if any(isinstance(x, Num) and x.kind == NO_AXES for x in args):
            raise t.refuse("min or max of arrays without axes")
        if mixed.is_some(args):
            return mixed.extreme(t, op, args)
        found, *others = (number(t, x) for x in args)
        for x in others:
            if x.dtype != found.dtype:
                return Inlined(of_many, [Tup(tuple(args))], {})
            beyond = numbers.compare(t, op, x, found)
            kind = x.kind if x.kind == found.kind else EITHER
            value = t.op("select", x.dtype, beyond.value, x.value, found.value)
            found = Num(x.dtype, kind, value)
        return found

    return call


def _is_python(letters: str) -> Call:
    """A row: whether it is a Python number of such a kind."""

    def call(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Num:
        (x,) = args
        if isinstance(x, Num) and x.kind == EITHER:
            raise t.refuse("a sum of numbers that are Python's or NumPy's, as it comes")
        found = isinstance(x, Num) and x.kind == PYTHON and numbers.kind_of(x.dtype) in letters
        return Num("bool", PYTHON, Literal(found, "bool"))

    return call


def _list(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
    exactly(t, args, kwargs, 0, 1)
    if not args:
        return lists.new_list(t, ())
    return Inlined(of_python.listed, args, {})


def _sorted(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
    exactly(t, args, {}, 1)
    _by_value(args, kwargs)
    x = sets.in_any_order(t, args[0], kwargs)
    return lists.sorted_by(t, of_python.in_order, x, kwargs)


def _sum(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
    if len(args) == 1 and not kwargs and sets.is_set(args[0]):
        return sets.summed(t, args[0])
    adds_up = of_python.compensated_total if of_python.COMPENSATES else of_python.total
    return Inlined(adds_up, args, kwargs)


def _whether(of_many: Any) -> Call:
    """``any`` or ``all``."""
    return lambda t, args, kwargs: Inlined(of_many, [sets.in_any_order(t, x) for x in args], kwargs)


def _tuple(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
    exactly(t, args, kwargs, 1)
    if isinstance(args[0], Tup):
        return Tup(args[0].items)
    raise t.refuse(f"a tuple of {places.described(args[0])}")


def _isinstance(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Num:
    exactly(t, args, kwargs, 2)
    x, kinds = args
    some = _flat(kinds)
    if not all(isinstance(k, Known) and type(k.value) in (type, abc.ABCMeta) for k in some):
        raise t.refuse("isinstance of classes that are not known")
    wanted = tuple(k.value for k in some)
    for k in wanted:
        t.watch.bases(k)
    if isinstance(x, Known):
        t.watch.kind(x.value)
        answers = {isinstance(x.value, wanted)}
    elif isinstance(x, (Num, Arr, Lst, Rows, Held, Tup)):
        answers = {issubclass(c, wanted) for c in arrays.classes(x)}
    else:
        raise t.refuse(f"the class of {places.described(x)}")
    if len(answers) > 1:
        raise t.refuse(f"isinstance of {places.described(x)} of several classes, as it comes")
    return Num("bool", PYTHON, Literal(answers.pop(), "bool"))


def _callable(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Num:
    exactly(t, args, kwargs, 1)
    (x,) = args
    if not isinstance(x, (Num, Arr, Lst, Rows, Held, Tup, Known, Function)):
        raise t.refuse(f"callable of {places.described(x)}")
    if isinstance(x, Known):
        t.watch.kind(x.value)
    is_one = isinstance(x, Function) or (isinstance(x, Known) and callable(x.value))
    return Num("bool", PYTHON, Literal(is_one, "bool"))


def _flat(x: Abstract) -> list[Abstract]:
    is_tuple = isinstance(x, Tup) and not x.is_list
    return [y for z in x.items for y in _flat(z)] if is_tuple else [x]


def _str(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
    exactly(t, args, kwargs, 0, 1)
    return letters.said(t, args[0]) if args else Known("")


def _chr(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
    exactly(t, args, kwargs, 1)
    return letters.letter(t, python_int(t, args[0]).value)


def _in_bits(bits: int, prefix: str) -> Call:
    """``bin``, ``oct`` or ``hex``."""

    def call(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
        exactly(t, args, kwargs, 1)
        if not isinstance(args[0], Num) or numbers.kind_of(args[0].dtype) not in "iub":
            raise Leaves(f"{places.described(args[0])} where an integer has to be", TypeError)
        from ..kinds import formats  # which few functions need

        return formats.in_bits(t, python_int(t, args[0]), bits, prefix)

    return call


def _format(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
    exactly(t, args, kwargs, 1, 2)
    spec = args[1] if len(args) == 2 else Known("")
    if not isinstance(spec, Known) or type(spec.value) is not str:
        raise t.refuse("a format that is computed")
    from ..kinds import formats

    return formats.formatted(t, args[0], spec.value)


def _class(cls: Any) -> Call:
    return lambda t, args, kwargs: held.of_class(t, cls, args, kwargs)


def getter(f: operator.itemgetter[Any]) -> Call:
    """The row of calls of an ``operator.itemgetter``."""
    indices = f.__reduce__()[1]  # type: ignore[index]

    def call(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
        exactly(t, args, kwargs, 1)
        if not all(type(k) in (int, str) for k in indices):
            raise t.refuse("an itemgetter of something else than integers and texts")
        known = [integer(k) if type(k) is int else Known(k) for k in indices]
        found = [arrays.item(t, args[0], k) for k in known]
        return found[0] if len(found) == 1 else Tup(tuple(found))

    return call


def _itemgetter(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Known:
    exactly(t, args, kwargs, 1, 2, 3)
    parts = [x.value if isinstance(x, (Num, Known)) else x for x in args]
    given = [x.value if isinstance(x, Literal) else x for x in parts]
    if not all(type(x) in (int, str) for x in given):
        raise t.refuse("an itemgetter of what is computed")
    return Known(operator.itemgetter(*given))


def _getitem(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
    exactly(t, args, kwargs, 2)
    return arrays.item(t, *args)


def _of_the_ends(written: Any) -> Call:
    """``heapq.nlargest`` or ``nsmallest``."""

    def call(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Inlined:
        key = kwargs.pop("key", args[2] if len(args) == 3 else Known(None))
        exactly(t, args, kwargs, 2, 3)
        return Inlined(written, [python_int(t, args[0]), args[1], key], {})

    return call


def _merged(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
    exactly(t, args, kwargs, 2)
    return Inlined(of_iteration.merged, args, {})


def _first(t: Writes, args: list[Any], kwargs: dict[str, Any]) -> Any:
    return lists.popped(t, args[0], "pop first")


ROWS: dict[Any, Call] = {
    len: _len, abs: _abs, range: _range, slice: _slice, enumerate: _enumerate, zip: _zip,
    reversed: _reversed,
    int: _int, float: _float, bool: _bool, round: _round, divmod: _divmod, pow: _pow,
    list: _list, tuple: _tuple, str: _str, chr: _chr, **letters.ROWS,
    bin: _in_bits(1, "0b"), oct: _in_bits(3, "0o"), hex: _in_bits(4, "0x"), format: _format,
    max: _extreme(">", of_python.largest),
    min: _extreme("<", of_python.smallest),
    builtins.sum: _sum, **sets.ROWS,
    of_python.is_float: _is_python("f"), of_python.is_int: _is_python("ib"),
    builtins.any: _whether(of_python.any_of), builtins.all: _whether(of_python.all_of),
    builtins.sorted: _sorted, isinstance: _isinstance, callable: _callable,
    dict: _class(dict), set: _class(set), collections.deque: _class(collections.deque),
    collections.Counter: _class(collections.Counter),
    collections.defaultdict: _class(collections.defaultdict),
    of_keys.first: _first, of_keys.hashed: lambda t, args, kwargs: held.hashed(t, *args),
    bisect.bisect_left: of_lists.place_left, bisect.bisect: of_lists.place_right,
    bisect.bisect_right: of_lists.place_right, bisect.insort: of_lists.insert_right,
    bisect.insort_right: of_lists.insert_right, bisect.insort_left: of_lists.insert_left,
    heapq.heappush: of_lists.heap_push, heapq.heappop: of_lists.heap_pop,
    heapq.heapify: of_lists.heap_of, heapq.heapreplace: of_lists.heap_replace,
    heapq.heappushpop: of_lists.heap_push_pop, heapq.nlargest: _of_the_ends(of_lists.largest_of),
    heapq.nsmallest: _of_the_ends(of_lists.smallest_of), heapq.merge: _merged,
    operator.index: lambda t, args, kwargs: python_int(t, *args),
    operator.itemgetter: _itemgetter, operator.abs: _abs, operator.getitem: _getitem,
}  # fmt: skip
"""A row each."""
_SIGNS = (
    "add sub mul truediv floordiv mod and_ or_ xor lshift rshift lt le gt ge eq ne neg pos not_ "
    "truth contains"
).split()
ROWS |= {getattr(operator, name): getattr(of_python, name) for name in _SIGNS}
ROWS |= {operator.pow: of_python.pow_}

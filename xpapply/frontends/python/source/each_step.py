"""Handlers of each kind of step that does not branch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....ir.typed import Literal
from ....library import of_python
from . import arrays, exceptions, held, iterators, lists, objects, places, results
from .calls import of_numpy
from .kinds import letters, sets
from .reading.steps import Const
from .values import (
    Abstract,
    Eager,
    Held,
    Inlined,
    Lst,
    Num,
    Record,
    Rows,
    Span,
    Starred,
    Tup,
    Watched,
)  # fmt: skip


def _binary(t: Any, op: str, a: Any, b: Any) -> Abstract:
    return objects.binary(t, op, t.value(a), t.value(b))


def _compare(t: Any, op: str, a: Any, b: Any) -> Abstract:
    return objects.compare(t, op, t.value(a), t.value(b))


def _not(t: Any, a: Any) -> Abstract:
    found = places.truth(t, t.value(a))
    if isinstance(found, Literal):
        return Num("bool", "python", Literal(not found.value, "bool"))
    return Num("bool", "python", t.op("not", "bool", found))


def _formats() -> Any:
    from .kinds import formats  # which few functions need

    return formats


def _listed(t: Any, items: tuple[Any, ...]) -> Inlined | None:
    """``[*x]`` of a list, or of something else that has no length in the source."""
    if len(items) == 1 and isinstance(items[0], Starred):
        (one,) = items[0].items
        if isinstance(one, (Lst, Rows, Held, Eager, Watched)):
            return Inlined(of_python.listed, [one], {})
    return None


def _unary(t: Any, op: str, a: Any) -> Abstract:
    return objects.unary(t, op, t.value(a))


_NO, _YES = Const(False), Const(True)
STEPS: dict[str, Callable[..., Abstract]] = {
    "said": lambda t, x: letters.said(t, t.value(x)),
    "formatted": lambda t, x, spec: _formats().formatted(t, t.value(x), spec.value),
    "percent": lambda t, x, spec: _formats().percent(t, t.value(x), spec.value),
    "text": lambda t, x: letters.as_lists(t, t.value(x)),
    "spell": lambda t, made, x: letters.spell(t, t.value(made), t.value(x)),
    "text of": lambda t, made: letters.whole(t, t.value(made)),
    "result": lambda t, x: results.prepared(t, t.value(x)) if not t.place.callers else t.value(x),
    "copy": lambda t, x: iterators.kept(t, t.value(x)),
    "keep": lambda t, x, is_calm: iterators.kept(t, t.value(x), is_calm.value),
    "read": lambda t, x: t.value(x),
    "free": lambda t, x: t.free(x),
    "global": lambda t, name: objects.global_value(t, t.place.code.function, name),
    "module": lambda t, name: objects.module(t, name.value),
    "attribute": lambda t, name, x, *to: objects.attribute(t, t.value(x), name, *map(t.value, to)),
    "binary": _binary,
    "inplace": lambda t, op, a, b: objects.inplace(t, op, t.value(a), t.value(b)),
    "unary": _unary,
    "compare": _compare,
    "not": _not,
    "star": lambda t, x: Starred((t.value(x),)),
    "tuple": lambda t, items: of_numpy.displayed(t, iterators.kept(t, t.value(items)), Tup),
    "list": lambda t, items, grows=_NO: (
        _listed(t, t.value(items))
        or of_numpy.displayed(
            t, iterators.kept(t, t.value(items)), lambda x: lists.new_list(t, x, grows=grows.value)
        )
    ),
    "record": lambda t, names, values: Record(names.value, t.value(values)),
    "dict": lambda t: held.new(t, "dict"),
    "set": lambda t: held.new(t, "set"),
    "disorder": lambda t, x: sets.disordered(t, t.value(x)),
    "delete": lambda t, x, index: held.delete(t, t.value(x), t.value(index)),
    "append": lambda t, made, x: lists.put_last(t, t.value(made), t.value(x)),
    "slice": lambda t, *bounds: Span(*map(t.value, bounds)),
    "item": lambda t, x, index: objects.item(t, t.value(x), t.value(index)),
    "set item": lambda t, x, i, v: arrays.set_item(t, t.value(x), t.value(i), t.value(v)),
    "unpack": lambda t, x, n: iterators.unpacked(t, t.value(x), n.value),
    "unpack some": lambda t, x, *n: iterators.unpacked_at_ends(
        t, t.value(x), *(k.value for k in n)
    ),
    "rest": lambda t, x, *n: iterators.rest(t, t.value(x), *(k.value for k in n)),
    "part": lambda t, x, k: t.value(x).items[k.value],
    "iterator": lambda t, x, calm=_YES: t.iterator(x, calm.value),
    "next": lambda t, it: iterators.advanced(t, it),
    "is": lambda t, x, of: exceptions.is_own(t, t.value(x), of.value),
    "function": lambda t, inner, defaults, named: t.function(inner, defaults, named),
    "outer": lambda t, level, name: t.outer(level, name),
    "set outer": lambda t, level, name, x: t.set_outer(level, name, t.value(x)),
    "has parts": lambda t, x, n: iterators.has_parts(t, t.value(x), n.value),
    "catches": lambda t, x, kinds: exceptions.catches(t, t.value(x), t.value(kinds)),
    "forget": lambda t, name: t.state.pop((len(t.place.callers), name.value), None),
    "enter": lambda t, x: exceptions.entered(t, t.value(x)),
    "exit": lambda t, before: t.set_errors(t.value(before)),
    "round": lambda t: t.count_round(),
}
"""Writers of steps by kind."""

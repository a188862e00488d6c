"""Deques, dicts and sets of numbers: lists, and where in them a key is.

What is done to them is written in Python, in `xpapply.library.of_keys`. A dict of the user's, which
nothing is put into, is compared key by key.
"""

from __future__ import annotations

import collections
from typing import Any

from ....ir.typed import Literal
from ....ir.typed.function import Value
from ....library import of_keys, of_lists
from ....library.texts import of_texts
from . import lists, numbers
from .kinds import letters, texts
from .places import ZERO, as_index, described, is_none
from .values import (
    DEVICE,
    PYTHON,
    Abstract,
    Along,
    Held,
    Inlined,
    Known,
    Leaves,
    Letters,
    Lst,
    Num,
    Rows,
    Tup,
    Watched,
    Writes,
    Zipped,
    integer,
)

CLASSES: dict[str, type] = {
    "deque": collections.deque, "dict": dict, "counter": collections.Counter, "set": set,
}  # fmt: skip
DICTS = ("dict", "counter")
NOTHING = Known(None)
_PLACES = 32
"""Places for keys that there are at first: a power of two."""
_FEW = 64
"""Keys up to which a dict of the user's is compared key by key."""


def new(t: Writes, what: str, most: Abstract = NOTHING) -> Held:
    """An empty one."""
    if t.element == DEVICE:
        raise t.refuse(f"it makes a {what}, which is not compiled for a GPU")
    items = lists.new_list(t, (), part=11)
    values = lists.new_list(t, (), part=12) if what in DICTS else NOTHING
    state = lists.new_list(t, (integer(0),), part=13)
    places = NOTHING
    if what != "deque":
        one = lists.new_list(t, (integer(-1),), part=14)
        places = lists.repeated(t, one, integer(_PLACES))._replace(site=t.site(15))
    return Held(what, items, values, places, state, most)


def hashed(t: Writes, x: Abstract) -> Any:
    """A number that keys which are equal have in common."""
    if letters.is_any(x):
        return Inlined(of_texts.hashed, [letters.of(t, x)], {})
    if isinstance(x, Tup):
        found: Value = Literal(len(x.items), "int64")
        for y in x.items:
            if not isinstance(y, Num):
                raise t.refuse("a key of tuples of tuples or texts")
            one = t.op("and", "int64", hashed(t, y).value, Literal((1 << 40) - 1, "int64"))
            found = t.op("and", "int64", found, Literal((1 << 40) - 1, "int64"))
            found = t.op("mul", "int64", found, Literal(1000003, "int64"))
            found = t.op("xor", "int64", found, one)
        return Num("int64", PYTHON, found)
    if not isinstance(x, Num):
        raise t.refuse(f"{described(x)} as a key")
    x = numbers.as_python(t, numbers.scalar(x))
    if x.dtype != "float64":
        return Num("int64", PYTHON, _mixed(t, numbers.cast(t, x.value, "int64")))
    if not isinstance(x.value, Literal):
        t.mark(numbers.is_nan(t, x.value), "a NaN is a key by its identity")
    elif x.value.value != x.value.value:
        raise t.refuse("a NaN as a key")
    size = t.op("abs", "float64", x.value)
    small = t.op("lt", "bool", size, Literal(float(1 << 40), "float64"))
    some = t.op("select", "float64", small, x.value, Literal(0.0, "float64"))
    whole = t.op("trunc", "float64", some)
    rest = t.op("sub", "float64", some, whole)
    rest = t.op("mul", "float64", rest, Literal(float(1 << 20), "float64"))
    one, other = (t.op("cast", "int64", y) for y in (whole, rest))
    return Num("int64", PYTHON, t.op("add", "int64", _mixed(t, one), other))


def _mixed(t: Writes, x: Value) -> Value:
    for far in (7, 15):
        x = t.op("xor", "int64", x, t.op("shr", "int64", x, Literal(far, "int64")))
    return x


def _key(t: Writes, x: Held, key: Abstract) -> Abstract:
    """A key as one of those that there are may be, so that equal numbers are found."""
    _no_list(key)
    if not lists.is_typed(x.items):
        return key
    if isinstance(x.items, Rows) and x.items.number == letters.TEXTS:
        if not letters.is_any(key):
            raise t.refuse(f"{described(key)} as a key beside texts")
        return key
    if isinstance(x.items, Rows):
        if not isinstance(key, Tup) or len(key.items) != len(x.items.columns):
            raise t.refuse(f"{described(key)} as a key beside tuples")
        return key
    if not isinstance(key, Num):
        raise t.refuse(f"{described(key)} as a key beside numbers")
    kinds = {numbers.kind_of(y) for y in (key.dtype, x.items.dtype)}
    if "f" in kinds and len(kinds) > 1:  # large ones have other hashes
        size = numbers.absolute(t, numbers.as_python(t, numbers.scalar(key)))
        large = numbers.compare(t, ">=", size, integer(1 << 40))
        t.mark(large.value, "a large integer is looked up among floats, or the other way")
    return key


def _no_list(key: Abstract) -> None:
    if isinstance(key, (Lst, Rows)) or (isinstance(key, Tup) and key.is_list):
        raise Leaves("a list as a key", TypeError)


_PUT = (of_keys.put, of_keys.got_or_put, of_keys.got_or_new, of_keys.add)


def _on_key(t: Writes, x: Held, function: Any, key: Abstract, *others: Abstract) -> Inlined:
    """Call a function of keys: with the keys, where they are, one key and its hash."""
    key = _key(t, x, key)
    if not letters.is_any(key):
        return Inlined(function, [x.items, x.places, key, hashed(t, key), *others], {})
    given = [Known(function), x.items, x.places, letters.of(t, key), *others]
    kept = function in _PUT
    return Inlined(of_texts.with_hash_kept if kept else of_texts.with_hash, given, {})


def item(t: Writes, x: Held, index: Abstract) -> Abstract:
    """``x[index]``."""
    if x.what == "deque":
        return lists.item(t, x.items, index)
    if x.what == "counter":
        return _got(t, x, index, integer(0))
    if x.what != "dict":
        raise t.refuse(f"an element of a {x.what}")
    if isinstance(x.most, Num):
        return _on_key(t, x, of_keys.got_or_put, index, x.values, x.state, x.most)
    if isinstance(x.most, Known) and x.most.value is list:
        return _on_key(t, x, of_keys.got_or_new, index, x.values, x.state)
    if not lists.is_typed(x.items):
        raise Leaves("a key that is not there", KeyError)
    return _on_key(t, x, of_keys.got, index, x.values)


def _got(t: Writes, x: Held, key: Abstract, default: Abstract) -> Abstract:
    if not lists.is_typed(x.items):
        return default
    return _on_key(t, x, of_keys.got_or, key, x.values, default)


def set_item(t: Writes, x: Held, index: Abstract, value: Abstract) -> Inlined | None:
    """``x[index] = value``."""
    if x.what == "deque":
        lists.set_item(t, x.items, index, value)
        return None
    if x.what not in DICTS:
        raise t.refuse(f"it writes into a {x.what}")
    return _on_key(t, x, of_keys.put, index, x.values, x.state, value)


def delete(t: Writes, x: Abstract, index: Abstract) -> Abstract:
    """``del x[index]``."""
    if isinstance(x, (Lst, Rows)):
        return Inlined(of_lists.without, [x, Num("int64", PYTHON, as_index(t, index))], {})
    if isinstance(x, Held) and x.what in DICTS:
        if not lists.is_typed(x.items):
            raise Leaves("a key that is not there", KeyError)
        return _on_key(t, x, of_keys.delete, index, x.values, x.state)
    raise t.refuse(f"it deletes an element of {described(x)}")


def contains(t: Writes, op: str, key: Abstract, x: Held) -> Abstract:
    """``key in x``."""
    if not lists.is_typed(x.items):
        return Num("bool", PYTHON, Literal(op != "in", "bool"))
    if x.what == "deque":
        return lists.contains(t, op, key, x.items)
    return _on_key(t, x, of_keys.has if op == "in" else of_keys.has_not, key)


def iterator(t: Writes, x: Held, what: str = "keys") -> Abstract:
    """``iter(x)``."""
    if x.what == "set":
        raise t.refuse("it goes through a set beside something else: list(...) makes a list of it")
    keys = Along(x.items, integer(0))
    inner: Abstract = keys
    if what == "values":
        inner = Along(x.values, integer(0))
    elif what == "items":
        inner = Zipped((keys, Along(x.values, integer(0))))
    now = Num("int64", PYTHON, t.op("list item", "int64", x.state.value, ZERO))
    return Watched(inner, x.state, now)


def changes(t: Writes, x: Held) -> None:
    """Count a change of what is in it."""
    one = t.op("list item", "int64", x.state.value, ZERO)
    more = t.op("add", "int64", one, Literal(1, "int64"))
    t.do("set list item", x.state.value, ZERO, more)


def method(
    t: Writes, x: Held, name: str, args: list[Abstract], kwargs: dict[str, Abstract]
) -> Abstract:
    """``x.name(...)``."""
    if kwargs:
        raise t.refuse(f"the method {name} of {described(x)}")
    of = {"deque": _of_deque, "dict": _of_dict, "counter": _of_dict, "set": _of_set}[x.what]
    found = of(t, x, name, args)
    if found is None:
        raise t.refuse(f"the method {name} of {described(x)}")
    return found


def _of_deque(t: Writes, x: Held, name: str, args: list[Abstract]) -> Abstract:
    typed = lists.is_typed(x.items)
    if name in ("append", "appendleft") and len(args) == 1:
        changes(t, x)
        if isinstance(x.most, Num):
            put = of_keys.push if name == "append" else of_keys.push_left
            return Inlined(put, [x.items, args[0], x.most], {})
        if name == "append":
            lists.append(t, x.items, args[0])
            return NOTHING
        return Inlined(of_lists.insert, [x.items, integer(0), args[0]], {})
    if name in ("pop", "popleft") and not args:
        changes(t, x)
        return lists.popped(t, x.items, "pop" if name == "pop" else "pop first")
    if name == "extend" and len(args) == 1 and not isinstance(x.most, Num):
        changes(t, x)
        return Inlined(of_lists.extend, [x.items, *args], {})
    if name == "clear" and not args:
        changes(t, x)
        return lists.method(t, x.items, name, [], {})
    if name in ("count", "index", "remove") and len(args) == 1 and typed:
        if name == "remove":
            changes(t, x)
        return lists.method(t, x.items, name, args, {})
    return None


def _of_dict(t: Writes, x: Held, name: str, args: list[Abstract]) -> Abstract:
    if name == "get" and len(args) in (1, 2):
        default = args[1] if len(args) == 2 else NOTHING
        return _got(t, x, args[0], default)
    if name == "__getitem__" and len(args) == 1:
        return item(t, x, args[0])
    if name in ("keys", "values", "items") and not args:
        return iterator(t, x, name)
    if name == "setdefault" and len(args) == 2:
        return _on_key(t, x, of_keys.got_or_put, args[0], x.values, x.state, args[1])
    if name == "pop" and args:
        if not lists.is_typed(x.items):
            if len(args) == 2:
                return args[1]
            raise Leaves("a key that is not there", KeyError)
        given = [args[0], x.values, x.state]
        if len(args) == 2:
            return _on_key(t, x, of_keys.popped_or, *given, args[1])
        return _on_key(t, x, of_keys.popped, *given)
    if name == "clear" and not args:
        return Inlined(of_keys.clear, [x.items, x.places, x.values, x.state], {})
    if name == "most_common" and len(args) == 1 and x.what == "counter" and args[0] == integer(1):
        if not lists.is_typed(x.items):
            return Tup((), True)
        return Inlined(of_keys.commonest, [x.items, x.values], {})
    if name == "most_common" and len(args) < 2 and x.what == "counter":
        if not lists.is_typed(x.items):
            return Tup((), True)
        if args and not is_none(args[0]):
            most = Num("int64", PYTHON, as_index(t, args[0]))
        else:
            most = integer(1 << 40)
        return Inlined(of_keys.commonest_first, [x.items, x.values, most], {})
    return None


def _of_set(t: Writes, x: Held, name: str, args: list[Abstract]) -> Abstract:
    if name == "add" and len(args) == 1:
        return _on_key(t, x, of_keys.add, args[0], x.state)
    if name in ("discard", "remove") and len(args) == 1:
        if not lists.is_typed(x.items):
            if name == "discard":
                return NOTHING
            raise Leaves("a key that is not there", KeyError)
        out = of_keys.discard if name == "discard" else of_keys.remove
        return _on_key(t, x, out, args[0], x.state)
    if name == "clear" and not args:
        return Inlined(of_keys.clear_set, [x.items, x.places, x.state], {})
    return None


# --- dicts of the user's ------------------------------------------------------------------------


def known_item(t: Writes, x: dict[Any, Any], key: Abstract, default: Abstract | None) -> Abstract:
    """``x[key]``, or ``x.get(key, default)``, of a dict that is not written to."""
    if texts.is_text(key):
        return texts.looked_up(t, x, key, default, _value)
    if isinstance(key, Letters):
        return letters.looked_up(t, x, key, default, _value)
    names = [*x.values()] if x and all(type(y) is str for y in x.values()) else []
    if names and (default is None or isinstance(default, Known)):
        if default is not None and type(default.value) is not str:
            raise t.refuse("a default of another type than the values of a dict")
        more = [] if default is None else [default.value]
        code = known_item(
            t,
            dict(zip(x, range(len(x)), strict=True)),
            key,
            integer(len(x)) if more else None,
        )
        return texts.chosen(t, [*names, *more], code.value)
    there, found = _compared(t, x, key)
    if default is None:
        t.mark(t.op("not", "bool", there), "a key that is not there", KeyError)
        return found
    if not isinstance(default, Num) or (default.dtype, default.kind) != (found.dtype, found.kind):
        raise t.refuse("a default of another type than the values of a dict")
    value = t.op("select", found.dtype, there, found.value, default.value)
    return found._replace(value=value)


def known_has(t: Writes, op: str, x: dict[Any, Any], key: Abstract) -> Abstract:
    """``key in x``."""
    if texts.is_text(key):
        found = [(s in x) is (op == "in") for s in texts.texts_of(key)]
        return Num("bool", PYTHON, texts.by_text(t, key, found, "bool"))
    if isinstance(key, Letters):
        return letters.among(t, op, key, Tup(tuple(Known(k) for k in x if type(k) is str)))
    there, _ = _compared(t, x, key, values=False)
    return Num("bool", PYTHON, there if op == "in" else t.op("not", "bool", there))


def _compared(
    t: Writes, x: dict[Any, Any], key: Abstract, *, values: bool = True
) -> tuple[Value, Any]:
    """Whether a key is in the dict, and its value."""
    _no_list(key)
    if not isinstance(key, (Num, Tup)) or not 0 < len(x) <= _FEW:
        raise t.refuse(f"{described(key)} is looked up in a dict of {len(x)} keys")
    there: Value = Literal(False, "bool")
    found: Num | None = None
    for k, y in x.items():
        one, value = _constant(t, k), numbers.number(y)
        if isinstance(one, Tup) != isinstance(key, Tup):
            raise t.refuse("keys that are numbers and tuples")
        if isinstance(key, Tup):
            same = lists.compared(t, "==", key, one).value
        else:
            if numbers.kind_of(key.dtype) == "f" and not isinstance(key.value, Literal):
                t.mark(numbers.is_nan(t, key.value), "a NaN is a key by its identity")
            same = numbers.compare(t, "==", key, one).value
        there = t.op("or", "bool", there, same)
        if not values:
            continue
        if value is None or (found and (value.dtype, value.kind) != (found.dtype, found.kind)):
            raise t.refuse("a dict whose values are no numbers of one type")
        held = value if found is None else found
        found = value._replace(value=t.op("select", value.dtype, same, value.value, held.value))
    return there, found


def of_class(t: Writes, cls: Any, args: list[Abstract], kwargs: dict[str, Abstract]) -> Abstract:
    """``deque(...)``, ``Counter(...)``, ``defaultdict(...)``, ``dict()``, ``set(...)``."""
    args, most = list(args), kwargs.pop("maxlen", NOTHING)
    if kwargs:
        raise t.refuse(f"a {cls.__name__} with further arguments")
    if cls is collections.defaultdict:
        factory = args.pop(0) if args else NOTHING
        if factory == Known(list) and not args:
            return new(t, "dict", factory)
        if not isinstance(factory, Known) or factory.value not in (int, float) or args:
            raise t.refuse("a defaultdict of something else than numbers or lists")
        zero = factory.value()
        return new(t, "dict", numbers.number(zero))
    if cls is collections.deque and len(args) == 2:
        most = args.pop()
    if isinstance(most, Num):
        most = Num("int64", PYTHON, as_index(t, most))
        t.mark(t.op("lt", "bool", most.value, Literal(1, "int64")), "a deque of no elements")
    what = next(name for name, c in CLASSES.items() if c is cls)
    made = new(t, what, most)
    if not args:
        return made
    if what == "set" and len(args) == 1 and isinstance(args[0], Held) and args[0].what == "set":
        changes(t, made)
        return Inlined(of_keys.filled, [made, args[0].items], {})
    if len(args) > 1 or what == "dict" or isinstance(args[0], Held):
        raise t.refuse(f"a {cls.__name__} of {described(args[0])}")
    fill = {"deque": of_keys.pushed, "counter": of_keys.counted, "set": of_keys.filled}[what]
    return Inlined(fill, [made, *args], {})


def _value(t: Writes, x: Any) -> Abstract:
    """The value of an entry in a dict of the user's."""
    found = numbers.number(x)
    if found is not None:
        return found
    if type(x) is not str:
        raise t.refuse("a dict whose values are neither numbers nor texts")
    return Known(x)


def _constant(t: Writes, k: Any) -> Abstract:
    if type(k) is tuple:
        return Tup(tuple(_constant(t, y) for y in k))
    found = numbers.number(k)
    if found is None or found.value.value != found.value.value:  # type: ignore[union-attr]
        raise t.refuse("a dict whose keys are no numbers")
    return found

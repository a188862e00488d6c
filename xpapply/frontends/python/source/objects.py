"""Operations on values of any kind: what they are for Python, before numbers are computed."""

from __future__ import annotations

import builtins
import functools
import itertools
import sys
import types
from typing import Any

import numpy as np

from ....arrays import library
from ....functions.guards import Where
from ....functions.purity import beside_cache
from ....functions.snapshots import MISSING
from ....ir.typed import Literal, Register
from ....ir.typed.function import PARTS
from ....library import of_lists, of_math, of_python, of_random
from ....runtime.registry import of_generator
from . import arrays, calls, held, lists, numbers, places, whole
from .calls import mixed, of_device, of_device_arrays, of_numpy
from .kinds import fetched, generators, letters, sets, texts
from .values import (
    CALLED,
    DEVICE,
    EITHER,
    FRESH,
    NO_AXES,
    NUMPY,
    ON_DEVICE,
    PYTHON,
    Abstract,
    Arr,
    Function,
    Held,
    Inlined,
    Keywords,
    Known,
    Leaves,
    Letters,
    Lst,
    Method,
    Num,
    OnDevice,
    Record,
    Rows,
    Span,
    Tup,
    Writes,
)


def known(t: Writes, x: Any, at: Where | None = None, path: tuple[int, ...] = ()) -> Abstract:
    """An object as a value: numbers as such, tuples of what is in them.

    `at`, `path`: where it was found, if numbers may be given there.
    """
    if t.element == DEVICE and isinstance(x, (np.generic, np.ndarray)):
        if fetched.may_be_so(t):
            raise fetched.Fetches("it fetches its slice")
        raise t.refuse("a number or an array of NumPy's beside those on a device")
    found = numbers.number(x)
    if found is not None:
        return found if at is None else t.given(at, path, found)
    if type(x) is tuple:
        return Tup(tuple(known(t, y, at, (*path, k)) for k, y in enumerate(x)))
    of_device = t.element == DEVICE and library(x) == "cupy"
    if (of_device or isinstance(x, np.ndarray)) and x.ndim:
        t.watch.form(x)
        return t.constant(x)
    if type(x) is list:
        items = tuple(known(t, y, at, (*path, k)) for k, y in enumerate(x))
        if all(isinstance(y, Num) for y in items) or all(map(texts.is_text, items)):
            return Tup(items, True)
        raise t.refuse("it reads a list")
    return Known(x)


def of_dict(t: Writes, f: Any, name: str, x: dict[str, Any]) -> dict[str, Abstract]:
    """The values of a dict that is an attribute of a function."""
    at, first = t.watch.at(f, "attribute", name), len(x)
    return {key: known(t, y, at, (first + k,)) for k, (key, y) in enumerate(x.items())}


_OF_RANDOM = ("numpy.random", of_random.__name__)


def module(t: Writes, name: str) -> Abstract:
    """A module that is imported within the function."""
    found = sys.modules.get(name)
    if found is None:
        t.watch.add(lambda: name not in sys.modules)  # it may be there after a call
        raise t.refuse(f"it imports {name}")
    return Known(found)


def global_value(t: Writes, f: types.FunctionType, name: str) -> Abstract:
    """The value of a name that is no variable of the function's own."""
    if calls.is_ours(f):  # where nothing changes
        found = f.__globals__.get(name, MISSING)
    else:
        free = f.__code__.co_freevars
        at = ("cell", free.index(name)) if name in free else ("global", name)
        if of_generator(t.watch.place(f, *at)(f)) is not None:
            return generators.at_place(t, f, *at)
        found = t.watch.look(f, at[0], at[1], gives=True)
        if found is not MISSING:
            return known(t, found, t.watch.at(f, *at))
    if found is MISSING and name not in f.__code__.co_freevars:
        if f.__builtins__ is not vars(builtins):  # type: ignore[attr-defined]
            raise t.refuse("it has builtins of its own")
        ours = calls.is_ours(f)
        found = getattr(builtins, name, MISSING) if ours else t.watch.look(builtins, "entry", name)
    if found is MISSING:
        raise t.refuse(f"the name {name} has no value")
    return known(t, found)


def attribute(t: Writes, x: Abstract, name: str, *to: Abstract) -> Abstract:
    """``x.name``; `to`: `x` with another value of it."""
    if to:
        return _with_attribute(t, x, name, *to)
    if isinstance(x, OnDevice):
        return fetched.attribute(t, x, name) or Method(x, name)
    if t.element == DEVICE and name == "get" and isinstance(x, (Arr, Num)):
        raise fetched.Fetches("it fetches its slice")
    if isinstance(x, (Arr, Lst, Rows, Held, Num)):
        return arrays.attribute(t, x, name)
    if letters.is_any(x):
        return arrays.attribute(t, x, name)
    if generators.is_made(x):
        return Method(x, name)
    if isinstance(x, Record):
        return _of_record(t, x, name)
    if not isinstance(x, Known):
        is_others = isinstance(x, Tup) and x.is_list
        what = places.described(x) + ", or one that it did not make" * is_others
        raise t.refuse(f"the attribute {name} of {what}")
    holder = x.value
    if generators.is_one(x):
        return generators.attribute(t, holder, name)
    if type(holder) is dict and name in ("get", "keys", "values", "items"):
        return Method(x, name)
    if isinstance(holder, np.ufunc) and name in ("reduce", "accumulate"):
        return Known(getattr(holder, name))
    if holder is itertools.chain and name == "from_iterable":
        return Known(itertools.chain.from_iterable)
    if isinstance(holder, np.dtype) and name in ("kind", "char", "name", "itemsize", "str", "type"):
        return known(t, getattr(holder, name))
    if isinstance(holder, types.ModuleType):
        found = t.watch.look(holder, "attribute", name, gives=True)
        if found is MISSING:
            raise t.refuse(f"{holder.__name__} has no {name}")
        return known(t, found, t.watch.at(holder, "attribute", name))
    return _of_object(t, holder, name)


def _of_record(t: Writes, x: Record, name: Any) -> Abstract:
    """A value of what a solver has given; there may be others."""
    given = dict(zip(x.names, x.values, strict=True))
    if name not in given or name.startswith("is_"):
        raise t.refuse(f"{name} of {places.described(x)}")
    if name == "hess_inv":
        t.mark(given["is_new"].value, "the inverse of a Hessian that is still one of integers")
    if name == "message" and "is_said" in given:
        t.mark(t.op("not", "bool", given["is_said"].value), "a message with a number in it")
    return given[name]


def _of_table(t: Writes, x: Record, k: Any) -> Abstract:
    """A table of one of several: SciPy's has no columns where it has no rows."""
    found = dict(zip(x.names, x.values, strict=True)).get(k)
    if not isinstance(found, Arr):
        raise Leaves("an index is out of bounds", IndexError)
    size = places.length(t, found)
    t.mark(t.op("eq", "bool", size, Literal(0, "int64")), "a table without rows")
    return found


def _of_object(t: Writes, x: Any, name: str) -> Abstract:
    """An attribute of a user's object, if it is found where objects have them."""
    cls = type(x)
    own: Any = cls.__getattribute__
    if own is not object.__getattribute__ or isinstance(x, type):
        raise t.refuse(f"the attribute {name} of a {cls.__name__}")
    in_class = next((vars(c)[name] for c in cls.__mro__ if name in vars(c)), MISSING)
    t.watch.kind(x)
    t.watch.attribute_of_class(cls, name)
    # it may get one of its own, in the place of its class's
    entry = t.watch.look(x, "entry", name, gives=True) if hasattr(x, "__dict__") else MISSING
    if isinstance(in_class, types.FunctionType) and entry is MISSING:
        return Known(types.MethodType(in_class, x))
    if in_class is not MISSING and hasattr(type(in_class), "__get__"):
        raise t.refuse(f"the attribute {name} of a {cls.__name__}, which is computed")
    found = in_class if entry is MISSING else entry
    if found is MISSING:
        raise t.refuse(f"a {cls.__name__} has no attribute {name}")
    return known(t, found, None if entry is MISSING else t.watch.at(x, "entry", name))


def _holds(y: Any, x: Abstract) -> bool:
    """Whether a value is `x`, or contains it."""
    return y == x or (isinstance(y, tuple) and any(_holds(z, x) for z in y))


def _with_attribute(t: Writes, x: Abstract, name: str, value: Abstract) -> Function:
    """A function that is defined here, with an attribute, where it has one name alone."""
    if not isinstance(x, Function) or not isinstance(value, Num):
        raise t.refuse("it sets attributes")
    held_ = [y for (_, own), y in t.state.items() if own[:1] != "." and _holds(y, x)]
    if not isinstance(value.value, Literal) or held_ != [x]:
        raise t.refuse("it sets an attribute of a function that has another name, or one computed")
    return x._replace(attributes=(*x.attributes, (name, value.value.value)))


def callee(
    t: Writes, called: Abstract, args: list[Abstract], kwargs: dict[str, Abstract]
) -> Abstract | Inlined:
    """The result of a call, or the function of Python's that is to be written here."""
    if isinstance(called, Method):
        if isinstance(called.owner, OnDevice):
            return fetched.method(t, called.owner, called.name, args, kwargs)
        table = calls.METHODS if t.element != DEVICE else of_device.methods()
        if generators.is_made(called.owner):
            return generators.of_made(t, called.owner, called.name, args, kwargs)
        if generators.is_one(called.owner):
            return generators.method(t, called.owner.value, called.name, args, kwargs)
        row = table.get(called.name) if isinstance(called.owner, Arr) else None
        if row is not None:
            return row(t, [called.owner, *args], kwargs)
        if isinstance(called.owner, Num) and not args and not kwargs:
            made = calls.of_number(t, called.owner, called.name)
            if made is not None:
                return made
        return arrays.method(t, called.owner, called.name, args, kwargs)
    if isinstance(called, Function):
        return Inlined(called, args, kwargs)
    if isinstance(called, Record) and called.names == (CALLED,):
        f, *own = called.values[0].items
        return callee(t, f, [*own, *args], kwargs)
    if not isinstance(called, Known):
        raise t.refuse(f"a {type(called).__name__.lower()} is called")
    f = called.value
    found = calls.find(f) or generators.find(f)
    if found is None and str(getattr(f, "__module__", "")).startswith(_OF_RANDOM):
        from .kinds import seeds  # which few functions need

        found = seeds.find(f)
    if t.fetches:
        found = fetched.called(f) or found
    if t.element == DEVICE:
        fetched.asked_for(f)
        found = of_device.find(f)
        if found is not None and f not in (max, min):
            args = [arrays.loaded(t, x) for x in args]
    if found is not None:
        if isinstance(found, types.FunctionType) and found.__module__.startswith(calls.LIBRARY):
            return Inlined(found, args, kwargs)
        return found(t, args, kwargs)  # type: ignore[no-any-return]
    if _is_of_library(f):
        from . import folded  # which few functions need

        made = folded.called(t, f, args, kwargs)
        if made is not None:
            return made
    if isinstance(f, functools._lru_cache_wrapper):
        return _cached(t, f, args, kwargs)
    if isinstance(f, types.FunctionType):
        if _is_of_library(f):
            raise t.refuse(f"it calls {f.__module__}.{f.__name__}")
        return Inlined(f, args, kwargs)
    if isinstance(f, types.MethodType) and isinstance(f.__func__, types.FunctionType):
        return Inlined(f.__func__, [known(t, f.__self__), *args], kwargs)
    if isinstance(f, functools.partial):
        inner, fixed, named = (
            t.watch.look(f, "attribute", k, gives=True) for k in ("func", "args", "keywords")
        )
        at = t.watch.at(f, "attribute", "args")
        args = [*(known(t, x, at, (k,)) for k, x in enumerate(fixed)), *args]
        return callee(t, Known(inner), args, of_dict(t, f, "keywords", named) | kwargs)
    method: Any = getattr(type(f), "__call__", None)  # noqa: B004  # not whether, but what
    if not isinstance(f, type) and isinstance(method, types.FunctionType):
        t.watch.kind(f)
        t.watch.attribute_of_class(type(f), "__call__")
        return Inlined(method, [Known(f), *args], kwargs)
    name = getattr(f, "__qualname__", None) or getattr(f, "__name__", type(f).__name__)
    module_ = (getattr(f, "__module__", "") or "").lstrip("_")  # as _io
    raise t.refuse(f"it calls {module_ + '.' if module_ not in ('', 'builtins') else ''}{name}")


def _cached(
    t: Writes, f: Any, args: list[Abstract], kwargs: dict[str, Abstract]
) -> Abstract | Inlined:
    """A function with a cache, which gives what it would give without."""
    inner = t.watch.look(f, "attribute", "__wrapped__")
    why = beside_cache(f)
    if why:
        raise t.refuse(f"a function with a cache: {why}")
    for name, x in (*enumerate(args), *kwargs.items()):
        for k, y in enumerate(x.items if isinstance(x, Tup) and not x.is_list else (x,)):
            _as_key_of_cache(t, (f, name, k), y)
    t.cached[id(inner)] = inner
    return Inlined(inner, args, kwargs)


def _as_key_of_cache(t: Writes, at: Any, x: Abstract) -> None:
    """Refuse what a cache may take for another argument, as numbers of two kinds are equal."""
    if letters.is_any(x) or (isinstance(x, Known) and x.value is None):
        return
    if not isinstance(x, Num) or x.kind not in (PYTHON, NUMPY) or x.dtype == "bool":
        raise t.refuse(f"{places.described(x)} for a function with a cache")
    if t.cached.setdefault(at, x[:2]) != x[:2]:
        raise t.refuse("numbers of several types for a function with a cache")
    if numbers.kind_of(x.dtype) in "fc" and not isinstance(x.value, Literal):
        zero = numbers.compare(t, "==", x, Num(x.dtype, x.kind, Literal(0.0, x.dtype)))
        t.mark(zero.value, "a zero for a function with a cache: signs are not told apart")


def _is_of_library(f: Any) -> bool:
    root = str(getattr(f, "__module__", None) or "").partition(".")[0]
    return root in ("numpy", "scipy", "torch", "cupy", "jax", "sklearn", "pandas")


# --- operators --------------------------------------------------------------------------------


def binary(t: Writes, op: str, a: Abstract, b: Abstract) -> Abstract:
    """An operation of two values."""
    a, b = (arrays.loaded(t, mixed.operand(x)) for x in (a, b))
    if of_device.is_any(a, b):
        return of_device.binary(t, op, a, b)
    if isinstance(a, Num) and isinstance(b, Num):
        if op == "**" and _is_computed_power(a, b):
            of_pairs = a.dtype in PARTS
            return Inlined(of_math.complex_power if of_pairs else of_math.power, [a, b], {})
        return numbers.binary(t, op, a, b)
    if isinstance(a, Tup) and isinstance(b, Tup) and op == "+":
        if a.is_list is not b.is_list:
            raise Leaves("a list and a tuple are added", TypeError)
        return a._replace(items=(*a.items, *b.items))
    if isinstance(a, (Lst, Rows)) and isinstance(b, (Lst, Rows)) and op == "+":
        return Inlined(of_lists.joined, [a, b], {})
    if isinstance(a, Num) and isinstance(b, (Tup, Lst)) and op == "*":
        a, b = b, a
    if isinstance(a, (Tup, Lst, Rows)) and isinstance(b, Num) and op == "*":
        return lists.repeated(t, a, b)
    if whole.is_array(a, b):
        if t.element == DEVICE and op == "@":
            return of_device.library().products(t, [a, b], {})
        if t.element == DEVICE:
            return of_device_arrays.binary(t, op, a, b)
        return whole.binary(t, op, a, b)
    if sets.is_set(a) and sets.is_set(b):
        made = sets.binary(t, op, a, b)
        if made is not None:
            return made
    if op == "+" and letters.is_any(a) and letters.is_any(b):
        return letters.added(t, a, b)
    if op == "*" and isinstance(a, Num) and letters.is_any(b):
        a, b = b, a
    if op == "*" and letters.is_any(a) and isinstance(b, Num):
        return letters.repeated(t, a, Num("int64", PYTHON, places.as_index(t, b)))
    raise t.refuse(f"{places.described(a)} {op} {places.described(b)}")


def _is_computed_power(a: Num, b: Num) -> bool:
    """Whether a Python number is raised to a computed integer."""
    if isinstance(b.value, Literal) or (isinstance(a.value, Literal) and a.value.value == 2):
        return a.dtype in PARTS and isinstance(b.value, Register) and _are_of_python(a, b)
    return _are_of_python(a, b) and numbers.kind_of(a.dtype) in "ic"


def _are_of_python(a: Num, b: Num) -> bool:
    return a.kind == b.kind == PYTHON and numbers.kind_of(b.dtype) == "i"


def inplace(t: Writes, op: str, a: Abstract, b: Abstract) -> Abstract:
    """An operation that writes into its first operand, where that is an array."""
    if isinstance(a, (Lst, Rows)) and op == "+" and not isinstance(b, Num):
        return Inlined(of_lists.extended, [a, b], {})
    if sets.is_set(a) and sets.is_set(b):
        return sets.inplace(t, op, a, b)
    if isinstance(a, (Lst, Rows, Held)) or (isinstance(a, Tup) and a.is_list):
        raise t.refuse(f"{op}= of {places.described(a)}")
    if isinstance(a, Num) and a.kind == NO_AXES:
        raise t.refuse(f"{op}= of an array without axes")
    b = arrays.loaded(t, b)
    if isinstance(a, Num) and a.kind in ON_DEVICE:
        return of_device.inplace(t, op, a, b)
    if isinstance(a, Arr) and not a.type.ndim:  # an element of an array that was made here
        now: Any = arrays.loaded(t, a)
        found = of_device.inplace(t, op, now._replace(kind=FRESH), b)
        t.do("set element", a.value, found.value)
        return a
    if not isinstance(a, Arr):
        return binary(t, op, a, b)
    if t.element == DEVICE:
        return of_device_arrays.inplace(t, op, a, b)
    t.writes(a)
    made = whole.binary(t, op, a, b)
    if not isinstance(made, Arr):
        raise t.refuse(f"{op}= of arrays")
    arrays.set_item(
        t, a, Span(Known(None), Known(None), Known(None)), whole.as_type(t, made, a.type.dtype)
    )
    return a


def keywords(t: Writes, x: Abstract) -> dict[str, Abstract]:
    """The arguments that ``**x`` gives."""
    if isinstance(x, Keywords):
        return dict(zip(x.names, x.values, strict=True))
    if not isinstance(x, Known) or type(x.value) is not dict:
        raise t.refuse(f"** of {places.described(x)}")
    then = [(k, type(y), y) for k, y in x.value.items()]
    if not all(type(k) is str and kind in _SAFE for k, kind, _ in then):
        raise t.refuse("** of a dict of others than texts, numbers and None")
    t.watch.add(lambda: [(k, type(y), y) for k, y in x.value.items()] == then)
    return {k: known(t, y) for k, _, y in then}


_SAFE = (bool, int, float, str, type(None))


def item(t: Writes, x: Abstract, index: Abstract) -> Abstract | Inlined:
    """``x[index]``."""
    if isinstance(x, Keywords) and isinstance(index, Known):
        found = keywords(t, x).get(index.value)
        if found is None:
            raise Leaves("a key that is not there", KeyError)
        return found
    if isinstance(x, Record) and isinstance(index, Known):
        return _of_record(t, x, index.value)
    if isinstance(x, OnDevice):
        return fetched.item(t, x, index)
    if isinstance(x, Record) and isinstance(index, Num) and isinstance(index.value, Literal):
        return _of_table(t, x, index.value.value)
    if isinstance(x, Known) and x.value is np.r_ and isinstance(index, Tup) and t.element != DEVICE:
        return of_numpy.in_a_row(t, index.items)
    if t.element == DEVICE and isinstance(x, Arr) and isinstance(index, Arr):
        return of_device_arrays.item(t, x, index)
    return arrays.item(t, x, index)


def unary(t: Writes, op: str, a: Abstract) -> Abstract:
    """An operation of one value."""
    a = arrays.loaded(t, a)
    if isinstance(a, Num) and a.kind in ON_DEVICE:
        return of_device.unary(t, op, a)
    if isinstance(a, Num):
        return numbers.unary(t, op, a)
    if isinstance(a, Arr):
        return of_device_arrays.unary(t, op, a) if t.element == DEVICE else whole.unary(t, op, a)
    raise t.refuse(f"{op} of {places.described(a)}")


def compare(t: Writes, op: str, a: Abstract, b: Abstract) -> Abstract:
    """A comparison of two values."""
    a, b = mixed.operand(a), mixed.operand(b)
    if op in ("is", "is not"):
        return _is(t, op, a, b)
    a, b = arrays.loaded(t, a), arrays.loaded(t, b)
    if op in ("in", "not in"):
        if isinstance(b, Held):
            return held.contains(t, op, a, b)
        if isinstance(b, Known) and type(b.value) is dict:
            return held.known_has(t, op, b.value, a)
        if texts.is_text(a):
            answer = texts.contains(t, op, a, b)
            if answer is not None:
                return answer
        if letters.is_any(a) and letters.is_any(b):
            return letters.compared(t, op, a, b)
        if isinstance(a, Letters) and isinstance(b, Tup) and all(map(letters.is_any, b.items)):
            return letters.among(t, op, a, b)
        return lists.contains(t, op, a, b)
    if isinstance(a, Tup) and isinstance(b, Tup):
        return lists.compared(t, op, a, b)
    if sets.is_set(a) and sets.is_set(b):
        return sets.compared(t, op, a, b)
    if isinstance(a, (Lst, Rows)) and isinstance(b, (Lst, Rows)) and op in ("==", "!="):
        return Inlined(of_lists.alike if op == "==" else of_lists.unlike, [a, b], {})
    if of_device.is_any(a, b):
        return of_device.compare(t, op, a, b)
    if isinstance(a, Num) and isinstance(b, Num):
        return numbers.compare(t, op, a, b)
    if whole.is_array(a, b):
        if t.element == DEVICE:
            return of_device_arrays.binary(t, op, a, b)
        return whole.binary(t, op, a, b)
    if letters.is_any(a) and letters.is_any(b) and Letters in (type(a), type(b)):
        return letters.compared(t, op, a, b)
    if texts.is_text(a) and texts.is_text(b):
        return texts.compare(t, op, a, b)
    if isinstance(a, Known) and isinstance(b, Known) and op in ("==", "!="):
        kinds = {type(a.value), type(b.value)}
        if kinds <= {str, type(None)} or _are_dtypes(a.value, b.value):
            try:
                return _answer(bool(a.value == b.value) is (op == "=="))
            except TypeError:
                raise Leaves("a dtype that there is not", TypeError) from None
    raise t.refuse(f"{places.described(a)} {op} {places.described(b)}")


def _are_dtypes(a: Any, b: Any) -> bool:
    """Whether two values are compared as dtypes, one of which may be a class or a text."""
    return any(isinstance(x, np.dtype) for x in (a, b)) and all(
        isinstance(x, np.dtype) or type(x) in (type, str) for x in (a, b)
    )


def _is(t: Writes, op: str, a: Abstract, b: Abstract) -> Abstract:
    """Identity of known objects, and of None."""
    if isinstance(a, Known) and isinstance(b, Known):
        same = a.value is b.value
    elif any(isinstance(x, Known) and any(x.value is y for y in _ALONE) for x in (a, b)):
        same = False
    elif all(map(_is_truth, (a, b))):
        return numbers.compare(t, "==" if op == "is" else "!=", a, b)
    elif any(map(_is_truth, (a, b))) and not any(
        isinstance(x, Num) and x.kind == EITHER for x in (a, b)
    ):
        same = False
    else:
        raise t.refuse("it compares identities by is")
    return _answer(same is (op == "is"))


def _is_truth(x: Abstract) -> bool:
    return isinstance(x, Num) and x.dtype == "bool" and x.kind == PYTHON


_ALONE = (None, of_python.NOTHING)
"""Objects that only they themselves are identical to."""


def _answer(x: bool) -> Num:
    return Num("bool", PYTHON, Literal(x, "bool"))

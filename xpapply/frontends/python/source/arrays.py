"""Arrays and tuples: elements, views, attributes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....ir.typed import Array, Literal
from ....ir.typed.function import ARRAYS, PARTS, Value
from . import held, lists, numbers
from .kinds import complexes, letters, sets, texts
from .places import ZERO, bounds, described, is_none, length, within
from .values import (
    DEVICE,
    EITHER,
    FRESH,
    NO_AXES,
    NUMPY,
    OF_SLICE,
    ON_DEVICE,
    PYTHON,
    Abstract,
    Along,
    Arr,
    Held,
    Inlined,
    Known,
    Leaves,
    Lst,
    Method,
    Mixed,
    Num,
    Once,
    Rows,
    Span,
    Tup,
    Writes,
    integer,
)


def item(t: Writes, x: Abstract, index: Abstract) -> Abstract:
    """``x[index]``."""
    if isinstance(x, Tup):
        if isinstance(index, Num) and isinstance(index.value, Literal):
            try:
                return x.items[index.value.value]
            except IndexError:
                raise Leaves("an index is out of bounds", IndexError) from None
        if isinstance(index, Span):
            parts = [_literal(t, b) for b in index]
            return x._replace(items=x.items[slice(*parts)])
        if x.items and all(map(texts.is_text, x.items)):
            if all(isinstance(y, Known) for y in x.items):
                return texts.item(t, [y.value for y in x.items], index, within)
        found = _of_table(t, x, index) if isinstance(index, Num) else None
        return item(t, lists.as_list(t, x), index) if found is None else found
    if isinstance(x, (Lst, Rows)):
        return lists.item(t, x, index)
    if isinstance(x, Held):
        return held.item(t, x, index)
    if isinstance(x, Known) and type(x.value) is dict:
        return held.known_item(t, x.value, index, None)
    if isinstance(x, Known) and type(x.value) is str and isinstance(index, Num):
        if not x.value:
            raise Leaves("a letter of an empty text", IndexError)
        return texts.item(t, x.value, index, within)
    if letters.is_any(x):
        text = letters.of(t, x)
        if isinstance(index, Span):
            return letters.part(t, text, *bounds(t, index, text.size.value))
        return letters.one(t, text, within(t, index, text.size.value))
    if not isinstance(x, Arr):
        raise t.refuse(f"an element of {described(x)}")
    if t.element == DEVICE and isinstance(index, Arr):
        raise t.refuse("an index that is an array of CuPy's")
    if isinstance(index, Arr) and index.type.ndim == 1 and x.type.ndim in (1, 2):
        from ....library import of_numpy

        by = "chosen" if index.type.dtype == "bool" else "taken"
        which = getattr(of_numpy, by if x.type.ndim == 1 else f"{by}_rows")
        return Inlined(which, [x, index], {})
    if isinstance(index, Arr) and index.type.ndim == 2 and x.type.ndim == 1:
        if index.type.dtype != "bool":
            from ....library import of_numpy

            # what is taken lies in memory as the places do
            rows, columns = (t.op("stride", "int64", index.value, what=k) for k in (0, 1))
            t.mark(t.op("lt", "bool", rows, columns), "places of columns before those of rows")
            return Inlined(of_numpy.taken_table, [x, index], {})
    indices = _indices(t, index)
    if len([i for i in indices if not is_none(i)]) > x.type.ndim:
        raise Leaves(f"{len(indices)} indices of {described(x)}", IndexError)
    if len(indices) == x.type.ndim and all(isinstance(i, Num) for i in indices):
        at = [within(t, i, length(t, x, k)) for k, i in enumerate(indices)]
        return element(t, x, at)
    axis = 0
    for i in indices:
        if isinstance(i, Num):
            kind = Array(x.type.dtype, x.type.ndim - 1)
            at_ = within(t, i, length(t, x, axis))
            x = Arr(kind, x.own, t.op("row", kind, x.value, at_, what=axis))
        elif isinstance(i, Span):
            if not all(map(is_none, i)):
                start, step, count = bounds(t, i, length(t, x, axis))
                value = t.op("view", x.type, x.value, start, step, count, what=axis)
                is_packed = x.is_packed and step == Literal(1, "int64")
                x = x._replace(value=value, is_packed=is_packed)
            axis += 1
        elif is_none(i) and x.type.ndim == 1:
            kind = Array(x.type.dtype, 2)
            x = Arr(kind, x.own, t.op("new axis", kind, x.value, what=axis))
            axis += 1
        else:
            raise t.refuse(f"{described(i)} as an index")
    return x


def element(t: Writes, x: Arr, at: Sequence[Value]) -> Num | Arr:
    """An element; of an array that is made on a device the part of it that it is."""
    if t.element != DEVICE or x.own in (False, OF_SLICE):
        return Num(x.type.dtype, t.element, t.op("element", x.type.dtype, x.value, *at))
    for i in at:
        kind = Array(x.type.dtype, x.type.ndim - 1)
        x = Arr(kind, x.own, t.op("row", kind, x.value, i, what=0))
    return x


def loaded(t: Writes, x: Abstract) -> Abstract:
    """The number that an array without axes has now; all else as it is."""
    if isinstance(x, Arr) and not x.type.ndim:
        return Num(x.type.dtype, DEVICE, t.op("element", x.type.dtype, x.value))
    return x


def _of_table(t: Writes, x: Tup, index: Num) -> Num | None:
    """An element of a tuple, or of a list of the user's, of numbers that are known."""
    found = [y for y in x.items if isinstance(y, Num) and isinstance(y.value, Literal)]
    if len(found) < len(x.items) or len({y[:2] for y in found}) != 1:
        return None
    dtype, kind = found[0][:2]
    values = [y.value.value for y in found]  # type: ignore[union-attr]
    table = t.constant(np.array(values, dtype), is_own=True)
    at = within(t, index, Literal(len(values), "int64"))
    return Num(dtype, kind, t.op("element", dtype, table.value, at))


def _indices(t: Writes, index: Abstract) -> list[Abstract]:
    """The index of each axis: those of a tuple, and not of a list, which chooses elements."""
    if isinstance(index, Tup) and index.is_list:
        raise t.refuse(f"{described(index)} as an index")
    return list(index.items) if isinstance(index, Tup) else [index]


def _literal(t: Writes, x: Abstract) -> Any:
    if is_none(x):
        return None
    if isinstance(x, Num) and isinstance(x.value, Literal):
        return x.value.value
    raise t.refuse("a part of a tuple that is computed")


def set_item(t: Writes, x: Abstract, index: Abstract, value: Abstract) -> Inlined | None:
    """``x[index] = value``."""
    if isinstance(x, Held):
        return held.set_item(t, x, index, value)
    if isinstance(x, (Lst, Rows)):
        lists.set_item(t, x, index, value)
        return None
    if not isinstance(x, Arr):
        raise t.refuse(f"it writes into {described(x)}")
    if t.element == DEVICE and (x.own == OF_SLICE or isinstance(index, Arr)):
        raise t.refuse("it writes into its slice, or into chosen elements, on a device")
    t.writes(x)
    value = loaded(t, value)
    if isinstance(value, Mixed):  # into an array of floats
        value = value.as_float
    if not isinstance(value, (Num, Arr)):
        raise t.refuse(f"{described(value)} is put into an array")
    if isinstance(index, Arr):
        return _set_chosen(t, x, index, value)
    indices = _indices(t, index)
    if len(indices) == x.type.ndim and all(isinstance(i, Num) for i in indices):
        if not isinstance(value, Num):
            raise t.refuse("an array is put into an element")
        at = [within(t, i, length(t, x, k)) for k, i in enumerate(indices)]
        t.do("set element", x.value, *at, _stored(t, value, x.type.dtype))
        return None
    part = item(t, x, index)
    if isinstance(value, Num):
        t.do("fill", part.value, _stored(t, value, x.type.dtype))
        return None
    if value.type != part.type:
        raise t.refuse(f"{described(value)} is put into {described(part)}")
    for k in range(part.type.ndim):
        unlike = t.op("ne", "bool", length(t, part, k), length(t, value, k))
        t.mark(unlike, "arrays of different lengths")
    t.do("copy", part.value, value.value, what=(t.mark_number(ARRAYS), False))
    return None


def _stored(t: Writes, value: Num, dtype: str) -> Value:
    """A number as it is put into an array; a mark where the host and a device may differ."""
    found = numbers.stored(t, value, dtype)
    if t.element == DEVICE and value.kind == PYTHON and (value.dtype, dtype) == _NARROWER:
        if isinstance(value.value, Literal):
            odd = value.value.value != 0 and abs(value.value.value) < _LEAST
            t.mark(Literal(bool(odd), "bool"), _SMALL)
        else:
            size = t.op("abs", "float64", value.value)
            small = t.op("lt", "bool", size, Literal(_LEAST, "float64"))
            none = t.op("ne", "bool", size, Literal(0.0, "float64"))
            large = t.op("gt", "bool", size, Literal(float(np.finfo("float32").max), "float64"))
            ends = t.op("lt", "bool", size, Literal(float("inf"), "float64"))
            t.mark(t.op("and", "bool", small, none), _SMALL)
            t.mark(t.op("and", "bool", large, ends), "a float is no float32")
    return found


_NARROWER = "float64", "float32"
_LEAST = float(np.finfo("float32").tiny)
_SMALL = "a very small float is put into an array of float32"


def _set_chosen(t: Writes, x: Arr, index: Arr, value: Abstract) -> Inlined:
    """``x[mask] = value``, or ``x[places] = value``."""
    from ....library import of_numpy

    is_mask = index.type.dtype == "bool"
    dtype = value.type.dtype if isinstance(value, Arr) else value.dtype
    kinds = numbers.kind_of(dtype) + numbers.kind_of(x.type.dtype)
    known = value.value.value if isinstance(value.value, Literal) else 0.5
    cut = kinds in ("fi", "fu", "fb") and known not in range(100)  # which may be said of none
    if x.type.ndim != 1 or index.type.ndim != 1 or cut:
        raise t.refuse(f"{described(value)} is put into chosen elements of {described(x)}")
    if isinstance(value, Arr):
        if value.type.ndim != 1 or not is_mask:
            raise t.refuse("an array is put into chosen elements")
        return Inlined(of_numpy.set_where_each, [x, index, copied(t, value)], {})
    return Inlined(of_numpy.set_where if is_mask else of_numpy.set_places, [x, index, value], {})


def attribute(t: Writes, x: Abstract, name: str) -> Abstract:
    """An attribute of a value."""
    x = loaded(t, x)
    if isinstance(x, Arr):
        dims = range(x.type.ndim)
        if name == "shape":
            return Tup(tuple(Num("int64", PYTHON, length(t, x, k)) for k in dims))
        if name == "strides":
            strides = [t.op("stride", "int64", x.value, what=k) for k in dims]
            return Tup(tuple(Num("int64", PYTHON, n) for n in strides))
        if name == "size":
            found = length(t, x)
            for k in dims[1:]:
                found = t.op("mul", "int64", found, length(t, x, k))
            return Num("int64", PYTHON, found)
        if name == "ndim":
            return integer(x.type.ndim)
        if name == "dtype":
            return Known(np.dtype(x.type.dtype))
        if name == "T":
            return x if x.type.ndim == 1 else transposed(t, x)
        if name in ("real", "imag") and x.type.dtype in PARTS:
            return part_of_all(t, x, name)
        if name == "flat" and x.type.ndim == 1:
            return Once(Along(x, integer(0)))
    if isinstance(x, Num) and x.kind in (NUMPY, NO_AXES, *ON_DEVICE):
        found_ = {"ndim": integer(0), "size": integer(1), "shape": Tup(())}.get(name)
        if name == "dtype":
            return Known(np.dtype(x.dtype))
        if found_ is not None:
            return found_
    if name == "ptp" and isinstance(x, Arr) and t.element == DEVICE:  # NumPy's has it no more
        return Method(x, name)
    have = [hasattr(c, name) for c in classes(x)]
    if not all(have):  # of Python's number or NumPy's, as it comes, nothing is known
        why = f"{described(x)} has no attribute {name}"
        raise Leaves(why, None if any(have) else AttributeError)
    if isinstance(x, Num) and name in ("real", "imag"):
        return part(t, x, name)
    return Method(x, name)


def transposed(t: Writes, x: Arr) -> Arr:
    """An array of two axes, the other way round: a view."""
    return Arr(x.type, x.own, t.op("transpose", x.type, x.value))


def classes(x: Abstract) -> tuple[type, ...]:
    """The classes that a value may have."""
    if isinstance(x, Held):
        return (held.CLASSES[x.what],)
    if isinstance(x, Tup):
        return (list if x.is_list else tuple,)
    if letters.is_any(x):
        return (str,)
    found = _CLASSES[x.kind](x.dtype) if isinstance(x, Num) else _HOLDERS[type(x)]
    return found  # type: ignore[no-any-return]


def part_of_all(t: Writes, x: Arr, name: str) -> Arr:
    """The real or the imaginary parts of an array of complex numbers, which are its own."""
    kind = Array(PARTS[x.type.dtype], x.type.ndim)
    return Arr(kind, x.own, t.op("part", kind, x.value, what=name))


def part(t: Writes, x: Num, name: str) -> Num:
    """``x.real`` or ``x.imag``."""
    if x.kind == NO_AXES:
        raise t.refuse(f"a part of {described(x)}")
    if x.dtype in PARTS:
        real, imag = complexes.parts(t, x.value)
        return Num(PARTS[x.dtype], x.kind, real if name == "real" else imag)
    whole = _itself(t, x)
    if name == "real":
        return whole
    zero = 0.0 if numbers.kind_of(whole.dtype) == "f" else 0
    return whole._replace(value=Literal(zero, whole.dtype))


def _itself(t: Writes, x: Num) -> Num:
    """``x.real``: of a truth value of Python's an integer."""
    if x.kind == NO_AXES or (x.dtype == "bool" and x.kind == EITHER):
        raise t.refuse(f"the real part of {described(x)}")
    return numbers.unary(t, "+", x) if x.dtype == "bool" and x.kind == PYTHON else x


_PYTHONS: dict[str, type] = {"b": bool, "i": int, "f": float, "c": complex}
_CLASSES: dict[str, Any] = {
    PYTHON: lambda dtype: (_PYTHONS[numbers.kind_of(dtype)],),
    NUMPY: lambda dtype: (np.dtype(dtype).type,),
    **dict.fromkeys((NO_AXES, *ON_DEVICE), lambda _: (np.ndarray,)),
    EITHER: lambda dtype: (_PYTHONS[numbers.kind_of(dtype)], np.dtype(dtype).type),
}
_HOLDERS: dict[type, tuple[type, ...]] = {Arr: (np.ndarray,), Lst: (list,), Rows: (list,)}


def method(
    t: Writes, x: Abstract, name: str, args: list[Abstract], kwargs: dict[str, Abstract]
) -> Abstract:
    """``x.name(...)``."""
    if isinstance(x, Known) and name == "get" and len(args) == 2 and not kwargs:
        return held.known_item(t, x.value, *args)
    if sets.is_set(x) and not kwargs:
        other = sets.method(t, x, name, args)
        if other is not None:
            return other
    if isinstance(x, Held):
        return held.method(t, x, name, args, kwargs)
    if isinstance(x, (Lst, Rows)):
        return lists.method(t, x, name, args, kwargs)
    if letters.is_any(x):
        return letters.method(t, x, name, args, kwargs)
    x = loaded(t, x)
    if isinstance(x, Num) and not args and not kwargs:
        if name == "item":
            return numbers.as_python(t, x)
        if x.kind in ON_DEVICE:
            if name == "copy":
                return x._replace(kind=FRESH)
            raise t.refuse(f"the method {name} of a number of CuPy's")
        if name in ("conjugate", "conj") and x.dtype in PARTS and x.kind != NO_AXES:
            return x._replace(value=complexes.conjugate(t, x.value))
        if name in ("conjugate", "conj"):
            return _itself(t, x)
    if isinstance(x, Arr):
        if name == "copy" and not args and not kwargs:
            return copied(t, x)
        if name == "fill" and len(args) == 1 and isinstance(args[0], Num) and not kwargs:
            t.writes(x)
            t.do("fill", x.value, _stored(t, args[0], x.type.dtype))
            return Known(None)
    raise t.refuse(f"the method {name} of {described(x)}")


def copied(t: Writes, x: Arr) -> Arr:
    """An array of the same numbers."""
    made = new(t, x.type.dtype, [length(t, x, k) for k in range(x.type.ndim)], "empty")
    t.do("copy", made.value, x.value, what=(t.mark_number(ARRAYS), True))
    return made


def new(t: Writes, dtype: str, dims: Sequence[Value], how: str) -> Arr:
    """An array that the function makes."""
    for n in dims:
        if not isinstance(n, Literal) or n.value < 0:
            t.mark(t.op("lt", "bool", n, ZERO), "a negative length")
    kind = Array(dtype, len(dims))
    mark = t.mark_number(ARRAYS)
    return Arr(kind, True, t.op("new", kind, *dims, what=(how, mark)))

"""The stand-in for a slice: it computes, and writes down what was computed.

A `Tracer` holds a real value - that of the slice which is traced - and, if it
depends on the slice, a reference to the call that made it. Real values give
shapes, dtypes and the exceptions of the library itself, and decide where ``f``
asks for a truth. Every dunder method either writes a call down or raises.
"""

from __future__ import annotations

import math
import operator
import weakref
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ....batching import syntax
from ....batching.rules import ufunc_row
from ....limits import LIMITS
from .stand_ins import Traced, values
from .tree import Ref


def _binary(ufunc: Any, python: Callable[[Any, Any], Any]) -> tuple[Any, Any]:
    def forward(self: Tracer, other: Any) -> Any:
        return self._operate(ufunc, python, self, other)

    def backward(self: Tracer, other: Any) -> Any:
        return self._operate(ufunc, python, other, self)

    return forward, backward


_PYTHON = (int, float, bool, complex)
_SEQUENCES = (list, tuple, range)
"""Operands of arithmetic with NumPy's arrays, and of all but products with its scalars."""


class Tracer(Traced):
    """A NumPy array, NumPy scalar or Python number that may depend on the slice.

    Attributes
    ----------
    value : ndarray, NumPy scalar or Python number
        What it is for the slice that is traced.
    ref : Ref or None
        The call that made it; None if it is the same for all slices.
    owned : bool
        Whether ``f`` made the array, and so may write into it.
    unset : Tracer or None
        Which elements nothing was written into, of what `numpy.empty` made.
    """

    __slots__ = (
        "__weakref__",
        "_memory",
        "_part",
        "_ref",
        "_seen",
        "_value",
        "owned",
        "recorder",
        "unset",
    )
    __array_priority__ = 1e6

    def __init__(self, recorder: Any, value: Any, ref: Ref | None, *, owned: bool = True) -> None:
        self._memory: Memory | None = None
        self._part: Part | None = None
        self._seen = 0
        self.unset: Tracer | None = None
        self.recorder, self.value, self.ref, self.owned = recorder, value, ref, owned

    @property
    def value(self) -> Any:  # type: ignore[override]
        if self._memory is not None and self._seen != self._memory.version:
            self._refresh()
        return self._value

    @value.setter
    def value(self, value: Any) -> None:
        self._value = value

    @property
    def ref(self) -> Ref | None:  # type: ignore[override]
        if self._memory is not None and self._seen != self._memory.version:
            self._refresh()
        return self._ref  # type: ignore[no-any-return]

    @ref.setter
    def ref(self, ref: Ref | None) -> None:
        self._ref = ref

    # --- NumPy's protocols ----------------------------------------------------------------

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return self.recorder.operations.ufunc_call(self.recorder, ufunc, method, inputs, kwargs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return self.recorder.operations.function_call(self.recorder, function, args, kwargs)

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        self.settle()
        if self.ref is None and not args and not kwargs:
            return np.array(self.value)
        raise self.recorder.refuse("the slice goes into something that makes a NumPy array of it")

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        if self.recorder.library == "torch":
            raise self.recorder.refuse("tensors have no __array_namespace__")
        return self.recorder.operations.namespace_of(self.recorder)

    # --- questions that Python answers with a plain value -----------------------------------

    def __bool__(self) -> bool:
        truth = self._single("truth")
        if np.asarray(self.value).dtype != bool:
            truth = truth != 0
        return bool(self.recorder.ask(truth, bool(self.value)))

    def __index__(self) -> int:
        value = self.recorder.real(operator.index, self.value)
        return int(self.recorder.ask(self._single("index"), value))

    def __int__(self) -> int:
        if self.ref is None:
            return int(self.value)
        if np.asarray(self.value).dtype.kind in "iub":
            return int(self.recorder.ask(self._single("int"), int(self.value)))
        raise self.recorder.refuse("int() of a value that depends on the slice")

    def _single(self, what: str) -> Tracer:
        if np.size(self.value) != 1:
            self.recorder.real(bool if what == "truth" else operator.index, self.value)
            raise self.recorder.refuse(f"the {what} of an array of shape {np.shape(self.value)}")
        return self

    def __float__(self) -> float:
        return float(self._plain("float()"))

    def __complex__(self) -> complex:
        return complex(self._plain("complex()"))

    def __str__(self) -> str:
        return str(self.asked("str()"))

    def __repr__(self) -> str:
        return repr(self.asked("repr()"))

    def __format__(self, spec: str) -> str:
        return format(self.asked("format()"), spec)

    def __bytes__(self) -> bytes:
        return bytes(self._plain("bytes()"))

    def __hash__(self) -> int:
        return hash(self.asked("the hash"))

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise self.recorder.refuse("the slice is pickled")

    def __buffer__(self, flags: int) -> Any:
        raise self.recorder.refuse("the memory of the slice is read")

    def asked(self, what: str) -> Any:
        """The value for a look-up in a dict and the like: slices part by it, if it is a whole one.

        Not if it may be anything, and not for many values: each slice would go its own way.
        """
        self.settle()
        value = self.value
        if self.ref is None:
            if isinstance(value, np.ndarray):
                self.recorder.stage.prints()
            return value
        whole = isinstance(value, (bool, int, np.integer, np.bool_))
        if isinstance(value, (float, np.floating)) and what == "the hash":
            whole = value == np.rint(value)
        self.recorder.looked_up += 1
        if not whole or self.recorder.looked_up > LIMITS.looked_up:
            return self._plain(what)
        self.recorder.ask(self, value.item() if isinstance(value, np.generic) else value)
        return value

    def _plain(self, what: str) -> Any:
        self.settle()
        if self.ref is not None:
            raise self.recorder.refuse(f"{what} of a value that depends on the slice")
        return self.value

    def __len__(self) -> int:
        return int(self.recorder.real(len, self.value))

    def __iter__(self) -> Iterator[Any]:
        n = len(self)  # raises TypeError for numbers
        return (self[i] for i in range(n))

    def __reversed__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self) - 1, -1, -1))

    def __contains__(self, item: Any) -> bool:
        return bool((self == item).any())

    def __copy__(self) -> Any:
        return self.copy()

    def __deepcopy__(self, memo: Any) -> Any:
        return self.copy()

    # --- arithmetic -------------------------------------------------------------------------

    @property
    def weak(self) -> bool:
        """Whether it is a Python number, which takes the dtype of an array beside it."""
        return isinstance(self.value, (bool, int, float, complex)) and not isinstance(
            self.value, np.generic
        )

    def _operate(self, ufunc: Any, python: Any, a: Any, b: Any) -> Any:
        if isinstance(b, Traced) and b.is_choice and not self.is_choice:
            return b._operate(ufunc, python, a, b)  # type: ignore[attr-defined]
        weak = [x.weak if isinstance(x, Tracer) else type(x) in _PYTHON for x in (a, b)]
        if all(weak):
            return self.recorder.operations.python_numbers.arithmetic(
                self.recorder, ufunc, python, a, b
            )
        if isinstance(b if a is self else a, (str, bytes, dict, set, type(None))):
            return NotImplemented
        if isinstance(b if a is self else a, _SEQUENCES) and (
            self.weak or (ufunc is np.multiply and isinstance(self.value, np.generic))
        ):
            return NotImplemented  # Python repeats the sequence, or raises
        if python in _OF_COMPLEX and _complex_numbers(a, b):
            return self.recorder.operations.of_complex(self.recorder, python, a, b)
        return self.__array_ufunc__(ufunc, "__call__", a, b)

    __add__, __radd__ = _binary(np.add, operator.add)
    __sub__, __rsub__ = _binary(np.subtract, operator.sub)
    __mul__, __rmul__ = _binary(np.multiply, operator.mul)
    __truediv__, __rtruediv__ = _binary(np.true_divide, operator.truediv)
    __floordiv__, __rfloordiv__ = _binary(np.floor_divide, operator.floordiv)
    __mod__, __rmod__ = _binary(np.remainder, operator.mod)
    __and__, __rand__ = _binary(np.bitwise_and, operator.and_)
    __or__, __ror__ = _binary(np.bitwise_or, operator.or_)
    __xor__, __rxor__ = _binary(np.bitwise_xor, operator.xor)
    __lshift__, __rlshift__ = _binary(np.left_shift, operator.lshift)
    __rshift__, __rrshift__ = _binary(np.right_shift, operator.rshift)
    __matmul__, __rmatmul__ = _binary(np.matmul, operator.matmul)
    __lt__, _ = _binary(np.less, operator.lt)
    __le__, _ = _binary(np.less_equal, operator.le)
    __gt__, _ = _binary(np.greater, operator.gt)
    __ge__, _ = _binary(np.greater_equal, operator.ge)
    _equal, _ = _binary(np.equal, operator.eq)
    _not_equal, _ = _binary(np.not_equal, operator.ne)

    def __eq__(self, other: object) -> Any:
        if other is None or isinstance(other, (str, bytes)):
            raise self.recorder.refuse(f"a comparison with {other!r}")
        return self._equal(other)

    def __ne__(self, other: object) -> Any:
        if other is None or isinstance(other, (str, bytes)):
            raise self.recorder.refuse(f"a comparison with {other!r}")
        return self._not_equal(other)

    def __pow__(self, other: Any, modulo: Any = None) -> Any:
        if modulo is not None:
            raise self.recorder.refuse("pow() with three arguments")
        return self._power(self, other)

    def __rpow__(self, other: Any) -> Any:
        return self._power(other, self)

    def _power(self, a: Any, b: Any) -> Any:
        if all(x.weak if isinstance(x, Tracer) else type(x) in _PYTHON for x in (a, b)):
            return self.recorder.operations.python_numbers.arithmetic(
                self.recorder, np.power, operator.pow, a, b
            )
        return self.recorder.operations.power(self.recorder, a, b)

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def _unary(self, ufunc: Any, python: Any) -> Any:
        if self.weak:
            if isinstance(self.value, bool):
                return self.recorder.operations.plain(self, int)._unary(ufunc, python)
            if isinstance(self.value, complex):
                return self.recorder.operations.complex_numbers.unary(python, self)
            if isinstance(self.value, int) and ufunc is not np.positive:
                must(self > -(2**63))  # which has no positive counterpart in 64 bits
            return self.recorder.call(ufunc_row(ufunc), python, (self,), check=False)
        if python is operator.abs and isinstance(self.value, np.complexfloating):
            return self.recorder.operations.size(self)
        return self.__array_ufunc__(ufunc, "__call__", self)

    def __neg__(self) -> Any:
        return self._unary(np.negative, operator.neg)

    def __pos__(self) -> Any:
        return self._unary(np.positive, operator.pos)

    def __abs__(self) -> Any:
        return self._unary(np.absolute, operator.abs)

    def __invert__(self) -> Any:
        return self._unary(np.invert, operator.invert)

    def __round__(self, digits: int | None = None) -> Any:
        return self.recorder.operations.rounded(self, digits)

    def __trunc__(self) -> Any:
        raise self.recorder.refuse("math.trunc() of a value that depends on the slice")

    def __floor__(self) -> Any:
        return self.recorder.operations.whole(self, np.floor, math.floor)

    def __ceil__(self) -> Any:
        return self.recorder.operations.whole(self, np.ceil, math.ceil)

    def _in_place(self, ufunc: Any, other: Any) -> Any:
        own = self.recorder.library == "cupy" and not self.weak  # an array without axes
        if not (own or isinstance(self.value, np.ndarray)):  # a number: a new one, as in Python
            return NotImplemented
        return self.recorder.operations.in_place(self, ufunc, other)

    def __iadd__(self, other: Any) -> Any:  # type: ignore[misc]
        return self._in_place(np.add, other)

    def __isub__(self, other: Any) -> Any:  # type: ignore[misc]
        return self._in_place(np.subtract, other)

    def __imul__(self, other: Any) -> Any:  # type: ignore[misc]
        return self._in_place(np.multiply, other)

    def __itruediv__(self, other: Any) -> Any:  # type: ignore[misc]
        return self._in_place(np.true_divide, other)

    def __ifloordiv__(self, other: Any) -> Any:  # type: ignore[misc]
        return self._in_place(np.floor_divide, other)

    def __imod__(self, other: Any) -> Any:  # type: ignore[misc]
        return self._in_place(np.remainder, other)

    def __ipow__(self, other: Any) -> Any:  # type: ignore[misc]
        return self._in_place(np.power, other)

    def __iand__(self, other: Any) -> Any:  # type: ignore[misc]
        return self._in_place(np.bitwise_and, other)

    def __ior__(self, other: Any) -> Any:  # type: ignore[misc]
        return self._in_place(np.bitwise_or, other)

    def __ixor__(self, other: Any) -> Any:  # type: ignore[misc]
        return self._in_place(np.bitwise_xor, other)

    def __ilshift__(self, other: Any) -> Any:  # type: ignore[misc]
        return self._in_place(np.left_shift, other)

    def __irshift__(self, other: Any) -> Any:  # type: ignore[misc]
        return self._in_place(np.right_shift, other)

    def __imatmul__(self, other: Any) -> Any:  # type: ignore[misc]
        return self._in_place(np.matmul, other)

    # --- elements -----------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> Any:
        return self.recorder.operations.getitem(self, key)

    def __setitem__(self, key: Any, item: Any) -> None:
        self.recorder.operations.setitem(self, key, item)

    def __delitem__(self, key: Any) -> None:
        raise self.recorder.refuse("del of elements")

    def __setattr__(self, name: str, item: Any) -> None:
        if name == "flat":
            self.recorder.operations.elements(self)[:] = item
            return
        if name not in _ATTRIBUTES:
            raise self.recorder.refuse(f"the attribute {name} of an array is set")
        object.__setattr__(self, name, item)

    def __delattr__(self, name: str) -> None:
        raise self.recorder.refuse(f"the attribute {name} of an array is deleted")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # a protocol that this is no part of
            raise AttributeError(name)
        return self.recorder.operations.attribute(self, name)

    # --- memory -------------------------------------------------------------------------------

    def is_view_of(self, other: Tracer, key: Any, *, writeable: bool = True) -> None:
        """Note that both are the same memory.

        `key`: which part of the other one this is; None: unknown.
        """
        self.owned = other.owned
        if not other.owned:  # nothing is ever written there
            return
        if other._memory is None:
            other._memory = Memory()
        self._memory = other._memory
        self._seen = other._memory.version
        if key is None:
            self._part, self.owned = None, False
            self._memory.unknown[id(self)] = self
        else:
            self._part, self.owned = Part(other, key), writeable
            self._memory.unknown.pop(id(self), None)
        if other.unset is not None:
            if key is None:
                other.settle()
            else:
                self.unset = other.unset.part(key)

    def part(self, key: tuple[Any, ...]) -> Tracer:
        """A view of a part: `key` has integers, slices, or arrays of places."""
        found = Tracer(self.recorder, self.value[key], None)
        found.is_view_of(self, key)
        if found._memory is None:  # nothing is ever written there
            found._read(self, key)
        else:
            found._seen = -1
        return found

    def is_part_of(self, x: Tracer, key: tuple[Any, ...]) -> bool:
        """Whether it is a view that ``x[key]`` gives."""
        mine = self._part
        if mine is None or mine.whole is not x or len(mine.key) != len(key):
            return False
        return not any(isinstance(k, (np.ndarray, Tracer)) for k in (*mine.key, *key)) and bool(
            mine.key == key
        )

    def _refresh(self) -> None:
        """Read anew what was written through another view."""
        assert self._memory is not None
        self._seen = self._memory.version
        if self._part is None:
            return
        self._read(self._part.whole, self._part.key)

    def _read(self, whole: Tracer, key: tuple[Any, ...]) -> None:
        """Be what a part of another one is now."""
        real = whole.value[key]
        new = self.recorder.structural(
            syntax.INDEX, lambda *_: real, (whole,), batch=((whole, key), {}), is_part=True
        )
        self._value, self._ref = real, getattr(new, "ref", None)

    def settle(self) -> None:
        """Leave slices to ``f`` that read uninitialized elements."""
        if self.unset is not None:
            must_be_set(self.recorder, self.unset)

    def is_set(self, key: Any) -> None:
        """Note that something was written into a part."""
        unset = self.unset
        if unset is not None:
            self.recorder.operations.setitem(unset, key, False)
            if unset.ref is None and not unset.value.any():
                self.unset = None

    def become(self, value: Any, ref: Ref | None) -> None:
        """Write: the array has another value from now on, also in the array it is a part of."""
        if not self.owned:
            raise self.recorder.refuse("it writes into the slice or an array that it did not make")
        memory, inner, held = self._memory, self, [self]
        if memory is not None and any(x is not self for x in [*memory.unknown.values()]):
            raise self.recorder.refuse("it writes into an array while another view of it is held")
        self.value, self.ref = value, ref
        while inner._part is not None:
            outer, key = inner._part.whole, inner._part.key
            changed = outer.value.copy()
            changed[key] = inner.value
            new = self.recorder.structural(
                syntax.SET,
                lambda *_, result=changed: result,
                (outer, inner),
                batch=((outer, key, inner, inner.value.ndim), {}),
            )
            outer.value, outer.ref = new.value, new.ref
            inner = outer
            held.append(inner)
        if memory is not None:
            memory.version += 1  # all others are read anew when they are used
            for x in held:
                x._seen = memory.version


class Memory:
    """State shared by an array and its views."""

    __slots__ = ("unknown", "version")

    def __init__(self) -> None:
        self.version = 0
        """The number of writes."""
        self.unknown: weakref.WeakValueDictionary[int, Tracer] = weakref.WeakValueDictionary()
        """Views whose place in memory is unknown."""


class Part(NamedTuple):
    """The array and the elements of a view: ``whole[key]``."""

    whole: Tracer
    key: tuple[Any, ...]


_ATTRIBUTES = frozenset((*Tracer.__slots__, "value", "ref"))
_OF_COMPLEX = frozenset((operator.lt, operator.le, operator.gt, operator.ge, operator.mul))


def _complex_numbers(a: Any, b: Any) -> bool:
    given = values((a, b))
    single = all(isinstance(x, (int, float, complex, np.generic)) for x in given)
    return single and any(isinstance(x, (complex, np.complexfloating)) for x in given)


def must(condition: Any) -> None:
    """Slices for which the condition does not hold are left to ``f`` itself."""
    if not bool(condition) and isinstance(condition, Tracer):
        condition.recorder.raised(ValueError("a number out of range"), decided=True)


def must_be_set(recorder: Any, unset: Any) -> None:
    """Leave slices to ``f`` that read uninitialized elements.

    The content of uninitialized memory is unknown: if all slices read it, `f` is refused.
    """
    if isinstance(unset, Tracer) and unset.ref is not None:
        must((unset.any() if unset.ndim else unset) == False)  # noqa: E712
    elif np.any(values(unset)):
        raise recorder.refuse("it reads elements that nothing was written into")

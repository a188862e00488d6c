"""A typed function in plain Python, one instruction after the other: the definition of each."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Collection, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from ...runtime.generators import drawn
from ...runtime.ziggurats import started
from .function import (
    KEPT,
    OTHER,
    WARNED,
    Block,
    Instruction,
    Literal,
    Register,
    Slot,
    TypedFunction,
    ufunc_named,
)


def evaluate(
    made: TypedFunction,
    slices: Sequence[Any],
    outs: Sequence[np.ndarray],
    most: int = 10**7,
    *,
    is_first: bool = False,
    gone: Collection[Register] = (),
) -> int:
    """Run it on one slice: 0, or the number of a mark.

    Parameters
    ----------
    made : TypedFunction
        The function.
    slices : sequence of array or number
        What it is called with.
    outs : sequence of array
        Where its results go, each of its shape.
    most : int
        Instructions that it may take.
    is_first : bool
        Whether it is the slice whose result says of which dtype all are.
    gone : collection of Register
        New arrays of which each one takes the memory of the one before: see `lifetimes`.
    """
    run = _Run(made, slices, outs, most, gone)
    how: Any = {"invalid": "call", "divide": "call", "over": "call", "under": "ignore"}
    with np.errstate(**how, call=run.note):
        mark = run.all(made)
    other = OTHER if is_first and run.differs else 0
    return mark or (WARNED if run.warned else other)


class _Run:
    """The evaluation of one slice."""

    def __init__(
        self,
        made: TypedFunction,
        slices: Sequence[Any],
        outs: Sequence[np.ndarray],
        left: int = 10**7,
        gone: Collection[Register] = (),
    ) -> None:
        self.made, self.slices, self.outs, self.left = made, slices, outs, left
        self.slots: dict[Slot, Any] = {}
        self.values: dict[int, Any] = {}
        self.given: list[Any] = []
        self._gone: dict[int, Any] = dict.fromkeys(x.number for x in gone)
        self.warned = self.differs = False

    def all(self, now: TypedFunction) -> int:
        """A function from its beginning: 0, or the number of a mark."""
        block = now.blocks[0]
        while self.left > 0:
            self.left -= 1
            target = self.block(block)
            if target < 0:
                return -target - 1
            block = now.blocks[target]
        raise RuntimeError(f"{self.made.name} takes too many blocks")

    def within(self, now: TypedFunction, args: list[Any]) -> int:
        """A function that this one runs; the same."""
        kept = self.slices, self.slots, self.values
        self.slices, self.slots, self.values = args, {}, {}
        mark = self.all(now)
        self.slices, self.slots, self.values = kept
        return mark

    def note(self, *_: Any) -> None:
        """NumPy would warn."""
        self.warned = True

    def __getitem__(self, x: Any) -> Any:
        if isinstance(x, Literal):
            with np.errstate(all="ignore"):
                return np.dtype(x.type).type(x.value)
        return self.values[x.number]

    def _forget(self, x: Instruction) -> None:
        """Write over the array that lies where an instruction makes the next one."""
        old = None if x.result is None else self._gone.get(x.result.number)
        if isinstance(old, list):
            old[:] = [math.nan] * len(old)
        elif old is not None:
            old.view(np.uint8)[...] = 0xA5 if old.size else 0

    def block(self, block: Block) -> int:
        """The next block, or a negative number: the mark, beyond -1."""
        for x in block.instructions:
            args = [self[a] for a in x.args]
            if x.op == "jump":
                return block.targets[0]
            if x.op == "branch":
                return block.targets[0 if args[0] else 1]
            if x.op == "return":
                self.given = args
                return -1
            if x.op == "run":
                mark = self.within(self.made.functions[x.what], args)
                if mark:
                    return -mark - 1
                continue
            if x.op == "leave" or (x.op == "mark" and args[0]):
                return -int(x.what) - 1
            if x.op == "map" and not _fit(args):
                return -int(x.what[1]) - 1
            if x.op == "catch" and args[0]:
                return int(x.what)
            if x.op not in ("mark", "round", "catch"):
                self._forget(x)
                flushes = self.made.flushes and x.op in _FLUSHED and x.what != KEPT
                args = list(map(_flushed, args)) if flushes else args
                found = _OPS[x.op](self, x, *args)
                found = _flushed(found) if flushes else found
                if x.result is not None:
                    self.values[x.result.number] = found
                    if x.result.number in self._gone:
                        self._gone[x.result.number] = found
        raise AssertionError("a block without an end")


_FLUSHED = frozenset(
    "add sub mul div fma sqrt abs neg floor ceil trunc rint lt le gt ge eq ne cast".split()
)
"""Instructions that take small numbers of float32 for zero, where a function does so."""


def _flushed(x: Any) -> Any:
    """A number of float32 below the least normal one as zero; all else as it is."""
    if isinstance(x, np.float32) and abs(x) < np.finfo(np.float32).tiny:
        return np.copysign(np.float32(0), x)
    return x


def _fma(run: _Run, x: Instruction, a: Any, b: Any, c: Any) -> Any:
    """``a * b + c``, rounded once."""
    if not all(map(math.isfinite, (a, b, c))):
        return a * b + c
    exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
    if not exact:
        return a * b + c
    return _rounded(exact, type(a))


def _rounded(x: Fraction, to: Any) -> Any:
    """The nearest float of a type, of two the even one."""
    if to is np.float64:
        try:
            return to(x.numerator / x.denominator)
        except OverflowError:
            return to(math.copysign(math.inf, x))
    near = to(x.numerator / x.denominator) if abs(x) < 2**128 else to(math.copysign(math.inf, x))
    some = [near, np.nextafter(near, to(-math.inf)), np.nextafter(near, to(math.inf))]
    some = [y for y in some if math.isfinite(y)] or [near]
    if not math.isfinite(near):
        return near

    def far(y: Any) -> tuple[Fraction, int]:
        return abs(Fraction(float(y)) - x), int(np.asarray(y).view(np.int32)) & 1

    return min(some, key=far)


def _number(f: Callable[..., Any]) -> Callable[..., Any]:
    """An instruction on numbers: its result in its own type."""

    def op(run: _Run, x: Instruction, *args: Any) -> Any:
        assert x.result is not None
        return np.dtype(str(x.result.type)).type(f(*args))

    return op


def _wrapped(f: Callable[[int, int], int], of_floats: Callable[..., Any] | None) -> Any:
    """An instruction that of integers keeps the lowest bits."""

    def op(run: _Run, x: Instruction, a: Any, b: Any) -> Any:
        dtype = np.dtype(str(x.args[0].type))
        if dtype.kind == "f":
            assert of_floats is not None
            return of_floats(a, b)
        found = f(int(a), int(b))
        if dtype.kind == "b":
            return np.bool_(found & 1)
        bits = 8 * dtype.itemsize
        found &= (1 << bits) - 1
        if dtype.kind == "i" and found >> (bits - 1):
            found -= 1 << bits
        return dtype.type(found)

    return op


def _overflows(run: _Run, x: Instruction, a: Any, b: Any) -> Any:
    exact = {"add": int(a) + int(b), "sub": int(a) - int(b), "mul": int(a) * int(b)}[x.what]
    info = np.iinfo(str(x.args[0].type))
    return np.bool_(not info.min <= exact <= info.max)


def _cast(run: _Run, x: Instruction, a: Any) -> Any:
    assert x.result is not None
    with np.errstate(invalid="ignore"):
        return np.asarray(a).astype(str(x.result.type))[()]


def _call(run: _Run, x: Instruction, *args: Any) -> Any:
    if run.made.externals[x.what][0] == "cupy":
        return _ufunc(run, x, *args)
    _, name, dtype, _ = run.made.externals[x.what]
    kind = ctypes.c_double if dtype == "float64" else ctypes.c_float
    f = getattr(ctypes.CDLL(None), name)
    f.restype, f.argtypes = kind, [kind] * len(args)
    found = np.dtype(dtype).type(f(*map(float, args)))
    ends = all(math.isfinite(a) for a in args)
    odd = ends and not math.isfinite(found)
    odd |= found != found and not any(a != a for a in args)
    run.warned |= odd and np.geterr()["invalid"] != "ignore"
    return found


def _draw(run: _Run, x: Instruction, *args: Any) -> Any:
    _, name, _, result, *types = run.made.externals[x.what]
    found = drawn(name, result, args, types)
    return None if x.result is None else np.dtype(result).type(found)


def _seed(run: _Run, x: Instruction, words: Any, like: Any, *halves: Any) -> None:
    started(words, like, [int(h) for h in halves])


def _ufunc(run: _Run, x: Instruction, *args: Any) -> Any:
    _, name, *types = run.made.externals[x.what]
    given = [np.dtype(t).type(a) for t, a in zip(types, args, strict=False)]
    return ufunc_named(name)(*given)


def _differs(run: _Run, x: Instruction) -> None:
    run.differs = True


def _store(run: _Run, x: Instruction, value: Any) -> None:
    run.slots[x.what] = value


def _put(run: _Run, x: Instruction, at: Any, value: Any) -> None:
    run.outs[x.what].reshape(-1)[int(at)] = value  # each out is one slice's own


def _put_array(run: _Run, x: Instruction, value: Any) -> None:
    run.outs[x.what[0]][...] = value


def _view(run: _Run, x: Instruction, a: Any, start: Any, step: Any, count: Any) -> Any:
    at = [slice(None)] * a.ndim
    places = int(start) + int(step) * np.arange(int(count))
    if not count:
        at[x.what] = slice(0, 0)
        return a[tuple(at)]
    last = int(places[-1]) + (1 if step > 0 else -1)
    at[x.what] = slice(int(start), last if last >= 0 else None, int(step))
    return a[tuple(at)]


def _row(run: _Run, x: Instruction, a: Any, i: Any) -> Any:
    if a.ndim == 1:  # a part of it, which may be written to
        return a[int(i) : int(i) + 1].reshape(())
    return a[(slice(None),) * x.what + (int(i),)]


def _new(run: _Run, x: Instruction, *dims: Any) -> Any:
    assert x.result is not None
    return np.zeros([int(n) for n in dims], x.result.type.dtype)  # type: ignore[union-attr]


def _set_element(run: _Run, x: Instruction, a: Any, *rest: Any) -> None:
    *at, value = rest
    a[tuple(map(int, at))] = value


def _fill(run: _Run, x: Instruction, a: Any, value: Any) -> None:
    a[...] = value


def _copy(run: _Run, x: Instruction, a: Any, b: Any) -> None:
    a[...] = np.array(b)


def _append(run: _Run, x: Instruction, made: Any, value: Any) -> None:
    made.append(value)


def _set_list_item(run: _Run, x: Instruction, made: Any, at: Any, value: Any) -> None:
    made[int(at)] = value


def _clear(run: _Run, x: Instruction, made: Any) -> None:
    made.clear()


def _fit(args: Sequence[Any]) -> bool:
    """Whether arrays have lengths that go together."""
    try:
        np.broadcast_shapes(*(np.shape(a) for a in args))
    except ValueError:
        return False
    return True


def _map(run: _Run, x: Instruction, *args: Any) -> Any:
    _, name, *types = run.made.externals[x.what[0]]
    # the types of what is given choose the loop: some that NumPy chooses may not be asked for
    found = np.asarray(ufunc_named(name)(*args))
    assert found.dtype == types[-1], (name, types)
    return found


def _reduce(run: _Run, x: Instruction, a: Any, *begins: Any) -> Any:
    assert x.result is not None
    _, name, *_types = run.made.externals[x.what]
    return ufunc_named(name).reduce(a, dtype=str(x.result.type))


def _dot(run: _Run, x: Instruction, a: Any, b: Any) -> Any:
    if not x.what[1]:
        return np.vecdot(a, b)
    with np.errstate(all="ignore"):
        return np.vecdot(a, b)


def _errors(run: _Run, x: Instruction) -> None:
    ignored, marked = x.what
    said = {"divide": "call", "over": "call", "under": "ignore", "invalid": "call"}
    said |= dict.fromkeys(ignored, "ignore") | dict.fromkeys(marked, "call")
    np.seterr(**said)  # type: ignore[arg-type]


_OPS: dict[str, Callable[..., Any]] = {
    "errors": _errors,
    "differs": _differs,
    "map": _map,
    "reduce": _reduce,
    "as type": lambda run, x, a: a.astype(x.result.type.dtype),
    "part": lambda run, x, a: getattr(a, x.what),
    "reshape": lambda run, x, a, m, n: a.reshape(int(m), int(n)),
    "diagonal": lambda run, x, a: np.diagonal(a),
    "transpose": lambda run, x, a: a.T,
    "new axis": lambda run, x, a: np.expand_dims(a, x.what),
    "add": _wrapped(lambda a, b: a + b, np.add),
    "sub": _wrapped(lambda a, b: a - b, np.subtract),
    "mul": _wrapped(lambda a, b: a * b, np.multiply),
    "div": _wrapped(lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1), np.divide),
    "rem": _wrapped(lambda a, b: abs(a) % abs(b) * (-1 if a < 0 else 1), None),
    "and": _wrapped(lambda a, b: a & b, None),
    "or": _wrapped(lambda a, b: a | b, None),
    "xor": _wrapped(lambda a, b: a ^ b, None),
    "shl": _wrapped(lambda a, b: a << b, None),
    "shr": _wrapped(lambda a, b: a >> b, None),
    "fma": _fma,
    "copysign": _number(np.copysign),
    "sqrt": _number(np.sqrt),
    "abs": _number(np.abs),
    "floor": _number(np.floor),
    "ceil": _number(np.ceil),
    "trunc": _number(np.trunc),
    "rint": _number(np.rint),
    "neg": _number(np.negative),
    "lt": _number(lambda a, b: a < b),
    "le": _number(lambda a, b: a <= b),
    "gt": _number(lambda a, b: a > b),
    "ge": _number(lambda a, b: a >= b),
    "eq": _number(lambda a, b: a == b),
    "ne": _number(lambda a, b: a != b),
    "not": _number(lambda a: not a),
    "complex": _number(complex),
    "real": _number(lambda a: a.real),
    "imag": _number(lambda a: a.imag),
    "select": lambda run, x, c, a, b: a if c else b,
    "cast": _cast,
    "overflows": _overflows,
    "call": _call,
    "draw": _draw,
    "seed": _seed,
    "ufunc": _ufunc,
    "input": lambda run, x: run.slices[x.what],
    "given": lambda run, x: run.given[x.what],
    "constant": lambda run, x: run.made.constants[x.what],
    "load": lambda run, x: run.slots[x.what],
    "store": _store,
    "length": lambda run, x, a: np.int64(a.shape[x.what]),
    "stride": lambda run, x, a: np.int64(a.strides[x.what]),
    "dot": _dot,
    "element": lambda run, x, a, *at: a[tuple(map(int, at))],
    "set element": _set_element,
    "row": _row,
    "view": _view,
    "new": _new,
    "fill": _fill,
    "copy": _copy,
    "expected": lambda run, x: np.int64(run.outs[x.what[0]].shape[x.what[1]]),
    "put": _put,
    "put array": _put_array,
    "put list": _put_array,
    "new list": lambda run, x: [],
    "append": _append,
    "repeat": lambda run, x, made, n: made * int(n),
    "list length": lambda run, x, made: np.int64(len(made)),
    "list item": lambda run, x, made, at: made[int(at)],
    "set list item": _set_list_item,
    "push": _append,
    "pull": lambda run, x, stack: stack.pop(),
    "pop first": lambda run, x, made: made.pop(0),
    "pop": lambda run, x, made: made.pop(),
    "clear": _clear,
    "copy list": _copy,
}

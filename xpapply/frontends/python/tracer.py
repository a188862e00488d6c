"""The stand-in for a slice: it computes, and writes down what was computed.

A `Tracer` holds a real value - that of the slice which is traced - and, if it
depends on the slice, a reference to the call that made it. Real values give
shapes, dtypes and the exceptions of the library itself, and decide where ``f``
asks for a truth. Every dunder method either writes a call down or raises.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import operator
import sys
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ...errors import TraceError, located, user_line
from ...known import Known, NoRule, Rows, basic, one_by_one
from ...known.ragged import Ragged
from ...known.rules import leaves, ufunc_row
from ...known.scalars import LARGEST
from ...paths import Call, Decision, Off, Path, Ref, invoke, references

MOST_STEPS = 20_000
_COEFFICIENTS = 8
"""Numbers that an interpolator keeps, or works with, for each that it is made of."""
MOST_LOOKED_UP = 8
"""Values that a run of ``f`` looks up in a dict, or makes a text of."""
MOST_SECONDS = 5.0


_EPS = {"bfloat16": 2**-7, "float16": 2**-10, "float32": 2**-23, "complex64": 2**-23}


_DIFFERENT = object()
"""In the place of a part of a result that for several slices is not what it is for one."""


class Recorder:
    """Writes down one run of ``f``."""

    def __init__(self, operations: Any, library: str = "numpy", home: str = "") -> None:
        self.operations = operations
        """What tracers do when they are used: `operations.py`, which knows of this file."""
        self.library = library
        self.home = home
        """Where ``f`` begins: the line of what happens after it has returned."""
        self.steps: list[Call | Decision] = []
        self.calls = 0
        self.refused: TraceError | None = None
        self.left: tuple[int, Off] | None = None
        """Where the path ends because ``f`` raises."""
        self.errstate: dict[str, str] | None = None
        self.quiet = False
        self.stage: Any = None
        self.looked_up = 0
        self.inside = ""
        """What to say of whatever is refused: of a library's function that calls ``f``'s own."""
        self.eps = 0.0
        """The lowest precision that a call computed in."""
        self.views: list[tuple[np.ndarray, Tracer]] = []
        """Results of calls on a device that are part of an argument's memory there."""
        self.until = time.perf_counter() + MOST_SECONDS

    # --- refusing -----------------------------------------------------------------------

    def refuse(self, what: str) -> TraceError:
        """The error to raise; remembered, since ``f`` may catch it."""
        what = self.inside or what
        has_line = what.endswith(")") and ".py:" in what
        error = TraceError(what if has_line else located(what, self.home))
        if self.refused is None:
            self.refused = error
        return error

    def attempt(self, first: Callable[[], Any], second: Callable[[], Any]) -> Any:
        """What `first` gives or, if that is refused, `second`; then the first reason counts."""
        steps, calls, refused = len(self.steps), self.calls, self.refused
        try:
            return first()
        except TraceError as error:
            if self.left is not None or self.refused is None:
                raise
            del self.steps[steps:]
            self.calls, self.refused = calls, refused
            try:
                return second()
            except TraceError as other:
                self.refused = TraceError(f"{error}; its own code: {other}")
                raise self.refused from None

    # --- writing down -------------------------------------------------------------------

    def call(
        self,
        row: Known,
        function: Callable[..., Any],
        args: tuple = (),
        kwargs: dict | None = None,
        *,
        batch: tuple[tuple, dict] | None = None,
        check: bool = True,
    ) -> Any:
        """Run `function` on the real values and write the call down as `row`.

        `batch`: the arguments of the row, where they are not those of the function.
        """
        kwargs = kwargs or {}
        found = list(tracers((args, kwargs)))
        device = self.operations.native.own(self, function, row)

        def run() -> Any:
            if device is not None:
                return self.operations.native.call(self, device, args, kwargs)
            return function(*values(args), **values(kwargs))

        # every one is asked, since asking may write a step down (`ragged.Selected`)
        if not [t for t in found if t.ref is not None]:
            return self._constant(run(), found)
        real = self.real(run)
        given = batch or (args, kwargs)
        return self._written(row, real, *given, found, check, device is not None)

    def _written(
        self,
        row: Known,
        real: Any,
        args: Any,
        kwargs: Any,
        found: list[Tracer],
        check: bool,
        on_device: bool,
    ) -> Any:
        step = self._step(row, real, args, kwargs)
        structure = None
        if check:
            given = twice(args), twice(kwargs)
            structure = self._check(row, step, real, given, on_device)
            operands = zip(
                leaves(given, (Rows, Ragged)), references((step.args, step.kwargs)), strict=True
            )
            view_of = next((ref.index for x, ref in operands if _is_view(structure, x)), None)
        else:
            view_of = next((t.ref.index for t in found if t.ref and _is_view(real, t.value)), None)
        singly = one_by_one(structure)
        self.steps.append(
            dataclasses.replace(step, nbytes=_nbytes(real), view_of=view_of, singly=singly)
        )
        return self._boxed(real, Ref(self.calls), structure, found)

    def record(self, row: Known, real: Any, args: tuple) -> Ref:
        """Write down a call whose result is an object of a library."""
        step = self._step(row, real, args, {})
        # coefficients, and what solving for them takes
        size = _COEFFICIENTS * sum(_nbytes(t.value) for t in tracers(args))
        self.steps.append(dataclasses.replace(step, nbytes=size))
        return Ref(self.calls)

    def _step(self, row: Known, real: Any, args: Any, kwargs: Any) -> Call:
        if len(self.steps) >= MOST_STEPS or time.perf_counter() > self.until:
            raise self.refuse(f"more than {len(self.steps):,} operations")
        self.calls += 1
        self._note_precision(real)
        errstate = None if self.errstate is None else tuple(sorted(self.errstate.items()))
        array = isinstance(real, (np.ndarray, np.generic))
        return Call(
            row,
            refs(args),
            refs(kwargs),
            user_line() or self.home,
            errstate,
            self.quiet,
            np.shape(real) if array else (),
            real.dtype if array else None,
        )

    def _note_precision(self, real: Any) -> None:
        name = str(getattr(real, "dtype", "")).rpartition(".")[2]
        self.eps = max(self.eps, _EPS.get(name, 0.0))

    def _check(
        self, row: Known, step: Call, real: Any, given: tuple[Any, Any], on_device: bool
    ) -> Any:
        """Run the batching rule on two copies of the slice: it must give what the call gave."""
        try:
            with np.errstate(all="ignore"):
                if on_device:
                    given = self.operations.native.on_device(given)
                    got = self.operations.native.on_host(invoke(sys.modules["cupy"], step, *given))
                else:
                    got = invoke(np, step, *given)
        except NoRule as error:
            raise self.refuse(f"{row.name}: {error}") from None
        except TraceError as error:
            raise self.refuse(str(error)) from None
        except Exception as error:
            raise self.refuse(
                f"{row.name} for several slices raises {type(error).__name__}: {error}"
            ) from None
        why = differs(got, real)
        if why and isinstance(real, tuple) and isinstance(got, (tuple, list)):
            parts = [_DIFFERENT if differs(g, r) else g for g, r in zip(got, real, strict=False)]
            if len(got) == len(real) and any(g is not _DIFFERENT for g in parts):
                return parts  # it is refused if f uses those
        if why:
            raise self.refuse(f"{row.name} for several slices differs from one: {why}")
        return got

    def real(self, function: Callable[..., Any], *args: Any) -> Any:
        """A call on real values. What it raises is the user's; ``f`` may catch it."""
        try:
            return function(*args)
        except TraceError:
            raise
        except Exception as error:
            self.raised(error)
            raise

    def raised(self, error: Exception, *, decided: bool = False) -> None:
        """From here on the slice is left to ``f``; what it does then is only looked at."""
        if self.left is None:
            why = f"it raises {type(error).__name__}: {error}"
            why = located(why, user_line(error) or self.home)
            self.left = (len(self.steps), Off(why, decided))

    def ask(self, tracer: Tracer, value: Any) -> Any:
        """Note that ``f`` went on with `value`, which depends on the slice."""
        if tracer.ref is not None:
            if self.left is not None:
                raise self.refuse(f"{self.left[1].why}, and decides by the data then")
            self.steps.append(Decision(tracer.ref, value, user_line() or self.home))
            if len(self.steps) >= MOST_STEPS:
                raise self.refuse(f"more than {len(self.steps):,} operations")
        return value

    # --- boxing -------------------------------------------------------------------------

    def _constant(self, real: Any, found: list[Tracer]) -> Any:
        return self._boxed(real, None, None, found)

    def _boxed(self, real: Any, ref: Ref | None, structure: Any, found: list[Tracer]) -> Any:
        if structure is _DIFFERENT:
            from .substitutes import Different

            return Different(self.stage, None, "a part of a result")
        if isinstance(real, (tuple, list)):
            parts = []
            for k, x in enumerate(real):
                inner = None if structure is None else structure[k]
                at = None if ref is None else Ref(ref.index, (*ref.item, k))
                parts.append(self._boxed(x, at, inner, found))
            if type(real) in (tuple, list):
                return type(real)(parts)
            return Results(self, real, parts, ref, structure)  # type: ignore[arg-type]
        if structure is not None and not isinstance(structure, Rows):
            ref = None  # the same for all slices
        if ref is None and not isinstance(real, np.ndarray):
            return real
        for t in found:
            if real is t.value and t.ref == ref:
                return t
        if not isinstance(real, (np.ndarray, np.generic, bool, int, float, complex)):
            if type(real).__module__.partition(".")[0] == "torch":
                return self.operations.tensors.box(self, real, ref)
            raise self.refuse(f"a result of type {type(real).__name__}")
        if isinstance(real, np.ndarray) and type(real) is not np.ndarray:
            raise self.refuse(f"a {type(real).__name__}")
        if getattr(real, "dtype", np.dtype(float)).hasobject:
            raise self.refuse("an array of objects")
        # what shares memory with a tensor is not made by f
        owned = all(isinstance(t, Tracer) for t in found)
        result = Tracer(self, real, ref, owned=owned)
        if isinstance(real, np.ndarray):
            for t in found:
                if self._shares(real, t):
                    result._is_view_of(t)
        return result

    def _shares(self, real: np.ndarray, t: Tracer) -> bool:
        """Whether a result is part of the memory of an argument."""
        if any(value is real and other is t for value, other in self.views):
            return True
        if real.base is None or not isinstance(t.value, np.ndarray):
            return False
        return np.may_share_memory(real, t.value)

    def input(self, real: np.ndarray) -> Tracer:
        """The slice."""
        return Tracer(self, real, Ref(0), owned=False)

    def constant(self, real: np.ndarray) -> Tracer:
        """An array that ``f`` did not make."""
        return Tracer(self, real, None, owned=False)

    def path(self, result: Any) -> tuple[Path, Any]:
        """What was written down, and the real result."""
        if self.refused is not None:
            raise self.refused
        if self.left is not None:
            return self.off_path(), None
        if self.library == "torch":
            array = self.operations.tensors.result(self, result)
            if self.refused is not None:
                raise self.refused
            if array.ref is None:
                raise self.refuse("its result does not depend on the slice")
            value = array.value
            return Path(tuple(self.steps), array.ref, tuple(value.shape), value.dtype), value
        array = self.operations.as_array(self, result)
        if self.refused is not None:
            raise self.refused
        value = array.value if isinstance(array, Tracer) else np.asanyarray(array)
        out: Any = array.ref if isinstance(array, Tracer) and array.ref is not None else value
        value = np.asanyarray(value)
        return Path(tuple(self.steps), out, value.shape, value.dtype), value

    def off_path(self) -> Path:
        """The path up to where ``f`` raises."""
        assert self.left is not None
        position, off = self.left
        more = len(self.steps) > position
        # what f catches further on may be other things for other slices
        decided = off.decided and not (more and self.stage.catches)
        return Path(tuple(self.steps[:position]), Off(off.why, decided, more))


class Results(tuple):
    """Named results, such as SciPy's tests give."""

    def __new__(
        cls, recorder: Recorder, real: tuple, parts: list[Any], ref: Ref | None, structure: Any
    ) -> Results:
        return super().__new__(cls, parts)

    def __init__(
        self, recorder: Recorder, real: tuple, parts: list[Any], ref: Ref | None, structure: Any
    ) -> None:
        self._recorder, self._real, self._ref = recorder, real, ref
        # the results of torch have no _fields
        fields: Any = getattr(type(real), "__match_args__", ())
        fields = getattr(structure, "_fields", getattr(real, "_fields", fields))
        self._names = {name: k for k, name in enumerate(fields)}
        self._more = getattr(structure, "__dict__", {})

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._real, name)  # an AttributeError is the user's
        if name in self._names:
            return self[self._names[name]]
        if name in self._more and self._ref is not None:
            ref = Ref(self._ref.index, (*self._ref.item, name))
            return self._recorder._boxed(found, ref, self._more[name], [])
        raise self._recorder.refuse(f"the attribute {name} of {type(self._real).__name__}")


def tracers(tree: Any) -> Iterator[Any]:
    """All tracers in arguments."""
    if isinstance(tree, Traced):
        yield tree
    elif isinstance(tree, (tuple, list)):
        for x in tree:
            yield from tracers(x)
    elif isinstance(tree, dict):
        for x in tree.values():
            yield from tracers(x)
    elif isinstance(tree, slice):
        yield from tracers((tree.start, tree.stop, tree.step))


def replaced(function: Callable[[Any], Any], tree: Any) -> Any:
    """Arguments with another thing for each tracer."""
    if isinstance(tree, Traced):
        return function(tree)
    if isinstance(tree, tuple):
        if hasattr(tree, "_make"):
            return type(tree)._make(replaced(function, x) for x in tree)  # type: ignore[attr-defined]
        return tuple(replaced(function, x) for x in tree)
    if isinstance(tree, list):
        return [replaced(function, x) for x in tree]
    if isinstance(tree, dict):
        return {k: replaced(function, x) for k, x in tree.items()}
    if hasattr(tree, "__xpapply_real__"):
        if type(tree).__name__ == "Object":
            raise tree._xp_stage.recorder.refuse(f"{tree._xp_name} goes into a library's function")
        return tree.__xpapply_real__
    return tree


def values(tree: Any) -> Any:
    """Arguments with real values."""
    return replaced(lambda t: t.value, tree)


def refs(tree: Any) -> Any:
    """Arguments with a `Ref` for what depends on the slice."""
    return replaced(lambda t: t.value if t.ref is None else t.ref, tree)


def twice(tree: Any) -> Any:
    """Arguments with a batch of two for what depends on the slice."""

    def both(t: Any) -> Any:
        if t.ref is None:
            return t.value
        if type(t).__name__ == "Flat":
            return Ragged(np.concatenate([t.value, t.value]), np.array([len(t.value)] * 2))
        if isinstance(t.value, (np.ndarray, np.generic, bool, int, float, complex)):
            return Rows(np.stack([t.value, t.value]))
        return Rows(t.value[None].expand(2, *t.value.shape).clone())

    return replaced(both, tree)


def _nbytes(real: Any) -> int:
    """Bytes of the result of a call, a number counted as 8 at least."""
    if isinstance(real, (tuple, list)):
        return sum(map(_nbytes, real))
    item = getattr(real, "itemsize", 8)
    return math.prod(getattr(real, "shape", ())) * max(8, item if isinstance(item, int) else 8)


def _is_view(result: Any, operand: Any) -> bool:
    """Whether a result lies in the memory of an operand, all of it."""
    if isinstance(result, (tuple, list)):
        return bool(result) and all(_is_view(x, operand) for x in result)
    a, b = (x.array if isinstance(x, Rows) else x for x in (result, operand))
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return np.may_share_memory(a, b)
    if hasattr(a, "untyped_storage") and hasattr(b, "untyped_storage"):
        return bool(a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr())
    return False


def differs(got: Any, real: Any) -> str:
    """Why the rule's result on two copies is not the result on one; "" if it is."""
    if isinstance(real, (tuple, list)):
        if not isinstance(got, (tuple, list)) or len(got) != len(real):
            return f"{len(real)} results"
        return next(filter(None, (differs(g, r) for g, r in zip(got, real, strict=True))), "")
    if not isinstance(got, Rows):
        same = np.array_equal(np.asarray(got), np.asarray(real))
        return "" if same else f"{got!r} instead of {real!r}"
    array = got.array
    if not isinstance(real, (np.ndarray, np.generic, bool, int, float, complex)):
        if tuple(array.shape[1:]) != tuple(real.shape) or array.dtype != real.dtype:
            return f"{array.dtype}{tuple(array.shape[1:])} instead of {real.dtype}"
        return ""
    one = np.asarray(real)
    if array.shape != (2, *one.shape):
        return f"shape {array.shape[1:]} instead of {one.shape}"
    if array.dtype != one.dtype:
        return f"dtype {array.dtype} instead of {one.dtype}"
    if one.dtype.kind in "fc":
        eps = float(np.finfo(one.dtype).eps)
        scale = np.max(np.abs(one[np.isfinite(one)]), initial=0.0)
        close = np.isclose(array, one, rtol=2e3 * eps, atol=2e3 * eps * scale, equal_nan=True)
        return "" if close.all() else "other values"
    return "" if (array == one).all() else "other values"


class Traced:
    """What tracers of every library share."""

    __slots__ = ()
    recorder: Recorder
    value: Any
    ref: Ref | None

    def as_numpy(self) -> Any:
        """The array that NumPy makes of it."""
        return self


def _binary(ufunc: Any, python: Callable[[Any, Any], Any]) -> tuple[Any, Any]:
    def forward(self: Tracer, other: Any) -> Any:
        return self._operate(ufunc, python, self, other)

    def backward(self: Tracer, other: Any) -> Any:
        return self._operate(ufunc, python, other, self)

    return forward, backward


class Counted:
    """What has a length that depends on the slice."""

    __slots__ = ()

    def length(self) -> Any:
        """``len(x)`` as a Python number that depends on the slice."""
        raise NotImplementedError

    def ordered(self) -> list[Any] | None:
        """``sorted(x)``, if that needs no comparisons."""
        return None


_PYTHON = (int, float, bool, complex)
_SEQUENCES = (list, tuple, range)
"""With which NumPy's arrays calculate, and its numbers do all but multiply."""


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
    """

    __slots__ = ("__weakref__", "_aliases", "_key", "_parent", "owned", "recorder", "ref", "value")
    __array_priority__ = 1e6

    def __init__(
        self, recorder: Recorder, value: Any, ref: Ref | None, *, owned: bool = True
    ) -> None:
        self.recorder, self.value, self.ref, self.owned = recorder, value, ref, owned
        self._aliases: weakref.WeakValueDictionary[int, Tracer] | None = None
        self._parent: Tracer | None = None
        self._key: Any = None

    # --- NumPy's protocols ----------------------------------------------------------------

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return self.recorder.operations.ufunc_call(self.recorder, ufunc, method, inputs, kwargs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return self.recorder.operations.function_call(self.recorder, function, args, kwargs)

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        if self.ref is None and not args and not kwargs:
            return np.array(self.value)
        raise self.recorder.refuse("the slice goes into something that makes a NumPy array of it")

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
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
        return str(self._decided("str()"))

    def __repr__(self) -> str:
        return repr(self._decided("repr()"))

    def __format__(self, spec: str) -> str:
        return format(self._decided("format()"), spec)

    def __bytes__(self) -> bytes:
        return bytes(self._plain("bytes()"))

    def __hash__(self) -> int:
        return hash(self._decided("the hash"))

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise self.recorder.refuse("the slice is pickled")

    def __buffer__(self, flags: int) -> Any:
        raise self.recorder.refuse("the memory of the slice is read")

    def _decided(self, what: str) -> Any:
        """The value for a look-up in a dict and the like: slices part by it, if it is a whole one.

        Not if it may be anything, and not for many values: each slice would go its own way.
        """
        value = self.value
        if self.ref is None:
            return value
        whole = isinstance(value, (bool, int, np.integer, np.bool_))
        if isinstance(value, (float, np.floating)) and what == "the hash":
            whole = value == np.rint(value)
        self.recorder.looked_up += 1
        if not whole or self.recorder.looked_up > MOST_LOOKED_UP:
            return self._plain(what)
        self.recorder.ask(self, value.item() if isinstance(value, np.generic) else value)
        return value

    def _plain(self, what: str) -> Any:
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
        """Whether it is a Python number, which takes the dtype of the array beside it."""
        return isinstance(self.value, (bool, int, float, complex)) and not isinstance(
            self.value, np.generic
        )

    def _operate(self, ufunc: Any, python: Any, a: Any, b: Any) -> Any:
        weak = [x.weak if isinstance(x, Tracer) else type(x) in _PYTHON for x in (a, b)]
        if all(weak):
            return python_arithmetic(self.recorder, ufunc, python, a, b)
        if isinstance(b if a is self else a, (str, bytes, dict, set, type(None))):
            return NotImplemented
        if isinstance(b if a is self else a, _SEQUENCES) and (
            self.weak or (ufunc is np.multiply and isinstance(self.value, np.generic))
        ):
            return NotImplemented  # Python repeats the sequence, or raises
        if python in _ORDERS and _complex_numbers(a, b):
            return _complex_order(python, a, b)
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
            return python_arithmetic(self.recorder, np.power, operator.pow, a, b)
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
                return self.recorder.operations.scalars.call(self.recorder, python, (self,), {})
            if isinstance(self.value, int) and ufunc is not np.positive:
                must(self > -(2**63))  # which has no positive counterpart in 64 bits
            return self.recorder.call(ufunc_row(ufunc), python, (self,), check=False)
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
        if not isinstance(self.value, np.ndarray):  # a number: a new one, as in Python
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
        raise self.recorder.refuse("@=")

    # --- elements -----------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> Any:
        return self.recorder.operations.getitem(self, key)

    def __setitem__(self, key: Any, item: Any) -> None:
        self.recorder.operations.setitem(self, key, item)

    def __delitem__(self, key: Any) -> None:
        raise self.recorder.refuse("del of elements")

    def __setattr__(self, name: str, item: Any) -> None:
        if name not in Tracer.__slots__:
            raise self.recorder.refuse(f"the attribute {name} of an array is set")
        object.__setattr__(self, name, item)

    def __delattr__(self, name: str) -> None:
        raise self.recorder.refuse(f"the attribute {name} of an array is deleted")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # a protocol that this is no part of
            raise AttributeError(name)
        return self.recorder.operations.attribute(self, name)

    # --- memory -------------------------------------------------------------------------------

    def _is_view_of(self, other: Tracer, key: Any = None) -> None:
        """Note that both are the same memory; `key`: which part of the other one this is."""
        if other._aliases is None:
            other._aliases = weakref.WeakValueDictionary({id(other): other})
        self._aliases = other._aliases
        self._aliases[id(self)] = self
        self.owned = other.owned
        self._parent, self._key = (other, key) if key is not None else (None, None)

    def become(self, value: Any, ref: Ref | None) -> None:
        """Write: the array has another value from now on, also in the array it is a part of."""
        if not self.owned:
            raise self.recorder.refuse("it writes into the slice or an array that it did not make")
        chain = [self]
        while chain[-1]._parent is not None:
            chain.append(chain[-1]._parent)
        held = {id(t) for t in chain}
        if any(k not in held for k in list(self._aliases or ())):
            raise self.recorder.refuse("it writes into an array while another view of it is held")
        self.value, self.ref = value, ref
        for inner, outer in itertools.pairwise(chain):
            changed = outer.value.copy()
            changed[values(inner._key)] = inner.value
            ndim = inner.value.ndim
            new = self.recorder.call(
                basic.SET,
                lambda *_, result=changed: result,
                (outer, inner),
                batch=((outer, inner._key, inner, ndim), {}),
                check=False,
            )
            outer.value, outer.ref = new.value, new.ref


_ORDERS = frozenset((operator.lt, operator.le, operator.gt, operator.ge))


def _complex_numbers(a: Any, b: Any) -> bool:
    given = values((a, b))
    single = all(isinstance(x, (int, float, complex, np.generic)) for x in given)
    return single and any(isinstance(x, (complex, np.complexfloating)) for x in given)


def _complex_order(python: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
    """By the real part first. NumPy compares single numbers so, and arrays with NaN otherwise."""
    level = a.real == b.real
    return (level & python(a.imag, b.imag)) | (~level & python(a.real, b.real))


def python_arithmetic(recorder: Recorder, ufunc: Any, python: Any, a: Any, b: Any) -> Any:
    """Python numbers: their arithmetic raises where NumPy's warns."""
    name = ufunc.__name__
    real_a, real_b = values(a), values(b)
    if isinstance(real_a, complex) or isinstance(real_b, complex):
        return recorder.operations.scalars.call(recorder, python, (a, b), {})
    result = recorder.real(python, real_a, real_b)
    integers = not isinstance(real_a, float) and not isinstance(real_b, float)
    if name in ("divide", "floor_divide", "remainder") and isinstance(b, Tracer):
        must(b != 0)
    if name == "power":
        if isinstance(b, Tracer) or not isinstance(result, float) or real_b < 0:
            return recorder.operations.scalars.call(recorder, python, (a, b), {})
        must(a >= 0) if real_b != int(real_b) else None
    if name in ("left_shift", "right_shift") and isinstance(b, Tracer):
        must(b >= 0)
        must(b < 32)
    large = name in ("add", "subtract", "multiply", "power", "left_shift")
    if integers and (large or (name == "floor_divide" and (isinstance(b, Tracer) or b == -1))):
        # Python's integers do not overflow
        if not -(2**53) <= result <= 2**53:
            recorder.raised(OverflowError("a large Python integer"))
            raise TraceError("a large Python integer")
        factor, times = b, name
        if name == "left_shift":
            factor, times = python_arithmetic(recorder, np.power, operator.pow, 2.0, b), "multiply"
        big = recorder.call(
            basic.PYTHON, lambda *_: float(result), (times, a, factor, "float64"), check=False
        )
        must(abs(big) <= LARGEST)
    if ufunc in _COMPARISONS and isinstance(real_a, float) != isinstance(real_b, float):
        whole = b if isinstance(real_a, float) else a
        if isinstance(whole, Tracer):  # Python compares all digits, NumPy those of a float
            must(abs(recorder.operations.plain(whole, float)) <= LARGEST)
    dtype = (
        "bool" if isinstance(result, bool) else "int64" if isinstance(result, int) else "float64"
    )
    found = recorder.call(basic.PYTHON, lambda *_: result, (name, a, b, dtype), check=False)
    if name == "power":
        must(abs(found) < math.inf)
    return found


_COMPARISONS = (np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal)


def must(condition: Any) -> None:
    """Slices for which the condition does not hold are left to ``f`` itself."""
    if not bool(condition) and isinstance(condition, Tracer):
        condition.recorder.raised(ValueError("a number out of range"), decided=True)

"""The recorder: library calls of one run of ``f``, and its decisions by the data."""

from __future__ import annotations

import dataclasses
import math
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from ....batching import Batched, BatchingRule, NoRule, one_by_one
from ....batching.ragged import Ragged
from ....batching.rules import leaves
from ....errors import TooLong, TraceError, located, said, user_line
from ....limits import LIMITS
from ....runtime import registry
from ....runtime.error_state import let_pass
from .stand_ins import Results, refs, replaced, tracers, values
from .tracer import Tracer
from .tree import Branch, Call, Path, Ref, SideExit, invoke, references, same

_COEFFICIENTS = 8
"""Numbers that an interpolator keeps, or works with, for each that it is made of."""


_EPS = {"bfloat16": 2**-7, "float16": 2**-10, "float32": 2**-23, "complex64": 2**-23}


_DIFFERENT = object()
"""A stand-in for a part of a result that differs for several slices."""


_READ_ONLY = "buffer source array is read-only"
"""The message of compiled Cython code for read-only memory."""


class Recorder:
    """Writes down one run of ``f``."""

    def __init__(
        self,
        operations: Any,
        library: str = "numpy",
        home: str = "",
        limit: float = math.inf,
        per_step: float = 0.0,
    ) -> None:
        self.operations = operations
        """Operations of tracers: `operations.py`, which imports this file."""
        self.library = library
        self.home = home
        """The line where ``f`` begins, for what happens after it has returned."""
        self.steps: list[Call | Branch] = []
        self.calls = 0
        self.refused: TraceError | None = None
        self.left: tuple[int, SideExit] | None = None
        """The side exit of the path, if ``f`` raises."""
        self.errstate: dict[str, str] | None = None
        self.quiet = False
        self.autocast: tuple[tuple[str, Any, bool], ...] = ()
        """The contexts of `torch.autocast` that ``f`` is in: device, dtype, whether it is on."""
        self.around: tuple[Any, ...] | None = None
        """Contexts around ``f``, if it uses torch."""
        self.stage: Any = None
        self.looked_up = 0
        self.inside = ""
        """A remark for refusals within a library function that calls back."""
        self.eps = 0.0
        """The lowest precision that a call computed in."""
        self.views: list[tuple[np.ndarray, Tracer]] = []
        """Results of calls on a device that are part of an argument's memory there."""
        self.several_axes = False
        """Whether a slice has more than one axis."""
        self.lent: dict[int, np.ndarray] = {}
        """Views of arrays outside ``f`` that it could write to; here they are read-only."""
        self.until = time.perf_counter() + LIMITS.trace_seconds
        self._limit, self._per_step = limit, per_step
        """CPU seconds that it may take, and for each step; `_look`: when to ask for them."""
        self._started = time.thread_time() - registry.seconds()
        self._look = time.perf_counter() + limit

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
        """Try `first`, else `second`; the first reason counts."""
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
        row: BatchingRule,
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
        unset = [
            t for t in tracers((args, kwargs)) if isinstance(t, Tracer) and t.unset is not None
        ]
        if not self._gives_a_view(unset, function, args, kwargs or {}):
            for t in unset:
                t.settle()
        return self.structural(row, function, args, kwargs, batch=batch, check=check)

    def _gives_a_view(
        self, of: list[Tracer], function: Callable[..., Any], args: tuple, kwargs: dict
    ) -> bool:
        """Whether a call reads no element: its result is a view of its argument."""
        if len(of) != 1 or not self.lies_as_it_seems:
            return False
        real = self.real(lambda: function(*values(args), **values(kwargs)))
        if not isinstance(real, np.ndarray) or not self._shares(real, of[0]):
            return False
        return _places(real, of[0].value) is not None

    def structural(
        self,
        row: BatchingRule,
        function: Callable[..., Any],
        args: tuple = (),
        kwargs: dict | None = None,
        *,
        batch: tuple[tuple, dict] | None = None,
        check: bool = False,
        is_part: bool = False,
    ) -> Any:
        """Record a call that moves elements and does not depend on their values.

        `is_part`: the result is a part of an array, which the caller notes.
        """
        kwargs = kwargs or {}
        found = list(tracers((args, kwargs)))
        device = self.operations.native.own(self, function, row)

        def run() -> Any:
            nonlocal args, kwargs, found
            if device is not None:
                return self.operations.native.call(self, device, args, kwargs)
            try:
                return function(*values(args), **values(kwargs))
            except ValueError as error:
                if _READ_ONLY not in str(error) or not any(map(self._lent, found)):
                    raise
            given = found
            args, kwargs = replaced(self._writable, args), replaced(self._writable, kwargs)
            found = list(tracers((args, kwargs)))
            result = function(*values(args), **values(kwargs))
            for t, was in zip(found, given, strict=True):
                if t is not was and t.value.tobytes() != was.value.tobytes():
                    raise self.refuse("it writes into an array that it did not make")
            return result

        # every one is asked, since asking may write a step down (`ragged.Selected`)
        if not [t for t in found if t.ref is not None]:
            with self.stage.of_constants(function):
                made = run()
            if isinstance(made, str):
                self.stage.prints()
            return self._boxed(made, None, None, [] if is_part else found)
        real = self.real(run)
        given = batch or (args, kwargs)
        return self._written(row, real, *given, found, check, device is not None, is_part)

    def _lent(self, t: Any) -> bool:
        """Whether an array is read-only only while ``f`` is traced."""
        if not isinstance(t.value, np.ndarray) or t.ref is not None or t.value.flags.writeable:
            return False
        x: Any = t.value
        while x is not None and id(x) not in self.lent:
            x = getattr(x, "base", None)
        return x is not None

    def _writable(self, t: Any) -> Any:
        """A copy for compiled code that asks for memory to write to, whatever it does with it."""
        return self.constant(t.value.copy(order="K")) if self._lent(t) else t

    def _written(
        self,
        row: BatchingRule,
        real: Any,
        args: Any,
        kwargs: Any,
        found: list[Tracer],
        check: bool,
        on_device: bool,
        is_part: bool,
    ) -> Any:
        nbytes, structure = _nbytes(real), None
        if check:
            step = self._step(row, real, args, kwargs)
            given = twice(args), twice(kwargs)
            structure = self._check(row, step, real, given, on_device)
            operands = zip(
                leaves(given, (Batched, Ragged)), references((step.args, step.kwargs)), strict=True
            )
            view_of = next((ref.index for x, ref in operands if _is_view(structure, x)), None)
            singly = one_by_one(structure)
            step = dataclasses.replace(step, nbytes=nbytes, view_of=view_of, singly=singly)
        else:
            view_of = next((t.ref.index for t in found if t.ref and _is_view(real, t.value)), None)
            step = self._step(row, real, args, kwargs, nbytes=nbytes, view_of=view_of)
        self.steps.append(step)
        made = self._boxed(real, Ref(self.calls), structure, [] if is_part else found)
        if self.library == "cupy" and row.name in _OF_THE_SAME and np.ndim(real) == 0:
            made.owned = False  # an array without axes, as its operand is
        return made

    def of_numbers(self) -> None:
        """Say of the last call that it is an operator of NumPy's numbers, not a ufunc."""
        last = self.steps[-1]
        assert isinstance(last, Call)
        self.steps[-1] = dataclasses.replace(last, of_numbers=True)

    def record(self, row: BatchingRule, real: Any, args: tuple) -> Ref:
        """Write down a call whose result is an object of a library."""
        # coefficients, and what solving for them takes
        size = _COEFFICIENTS * sum(_nbytes(t.value) for t in tracers(args))
        self.steps.append(self._step(row, real, args, {}, nbytes=size))
        return Ref(self.calls)

    def _step(self, row: BatchingRule, real: Any, args: Any, kwargs: Any, **more: Any) -> Call:
        if len(self.steps) >= LIMITS.trace_steps or time.perf_counter() > self.until:
            raise self.refuse(f"more than {len(self.steps):,} operations")
        if time.perf_counter() > self._look:
            self._ask()
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
            **more,
        )

    def _ask(self) -> None:
        """Refuse where writing down has taken as long as it may."""
        left = self._left()
        self._look = time.perf_counter() + left
        if left < 0:
            number = f"{len(self.steps):,} operations so far"
            why = f"to find out what it does would take longer than it could save: {number}"
            raise self._too_long(why)

    def pay(self, seconds: float, what: str) -> None:
        """Refuse what takes longer than is left."""
        if self._left() < seconds:
            raise self._too_long(f"{what} would take longer than it could save")

    def _left(self) -> float:
        may = self._limit + self._per_step * len(self.steps)
        return may + self._started - (time.thread_time() - registry.seconds())

    def _too_long(self, why: str) -> TraceError:
        if self.refused is None:
            self.refused = error = TooLong(located(why, self.home))
            error.steps = len(self.steps)
        return self.refused

    def _note_precision(self, real: Any) -> None:
        name = str(getattr(real, "dtype", "")).rpartition(".")[2]
        self.eps = max(self.eps, _EPS.get(name, 0.0))

    def _check(
        self, row: BatchingRule, step: Call, real: Any, given: tuple[Any, Any], on_device: bool
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
            let_pass(error)
            raise self.refuse(f"{row.name} for several slices raises {said(error)}") from None
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
            let_pass(error)
            self.raised(error)
            raise

    def raised(self, error: Exception, *, decided: bool = False, escapes: bool = False) -> None:
        """Leave the slice to ``f`` from here on; the rest of the run is only observed.

        `escapes`: whether that has left ``f``, raised by no call on real values.
        """
        if self.left is None:
            line = user_line() or user_line(error) or self.home
            why = f"it raises {type(error).__name__}: {error}"
            why = f"{why} ({line})" if line else why
            by_hand = ""
            if escapes:
                by_hand = "it needs the slice itself, as code outside NumPy does, or raises "
                by_hand += f"{type(error).__name__} ({line})"
            self.left = (len(self.steps), SideExit(why, decided, by_hand=by_hand))

    def ask(self, tracer: Tracer, value: Any) -> Any:
        """Note that ``f`` went on with `value`, which depends on the slice."""
        if tracer.ref is not None:
            if self.left is not None:
                raise self.refuse(f"{self.left[1].why}, and decides by the data then")
            self.steps.append(Branch(tracer.ref, value, user_line() or self.home))
            if len(self.steps) >= LIMITS.trace_steps:
                raise self.refuse(f"more than {len(self.steps):,} operations")
        return value

    def alike(self, a: Ref, b: Ref) -> bool:
        """Whether two results are those of the same elementwise call."""
        calls = [step for step in self.steps if isinstance(step, Call)]
        if a.item or b.item or not (a.index and b.index):
            return False
        one, other = calls[a.index - 1], calls[b.index - 1]
        return one.row.kind == "elementwise" and same(one, other)

    # --- boxing -------------------------------------------------------------------------

    def _boxed(self, real: Any, ref: Ref | None, structure: Any, found: list[Tracer]) -> Any:
        if structure is _DIFFERENT:
            return self.operations.Different(self.stage, None, "a part of a result")
        if isinstance(real, (tuple, list)):
            parts = []
            for k, x in enumerate(real):
                inner = None if structure is None else structure[k]
                at = None if ref is None else Ref(ref.index, (*ref.item, k))
                parts.append(self._boxed(x, at, inner, found))
            if type(real) in (tuple, list):
                return type(real)(parts)
            return Results(self, real, parts, ref, structure)  # type: ignore[arg-type]
        if structure is not None and not isinstance(structure, Batched):
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
            whole = [t for t in found if self._shares(real, t)]
            for t in whole:
                key = _places(real, t.value) if t.owned and self.lies_as_it_seems else None
                if key is not None or t is whole[-1]:
                    result.is_view_of(t, key, writeable=real.flags.writeable)
                    break
        return result

    @property
    def lies_as_it_seems(self) -> bool:
        """Whether arrays made by ``f`` have the same layout here as in the loop.

        On the host those made of vectors have; a slice of several axes may have any layout.
        """
        return self.library == "numpy" and not self.several_axes

    def empty(self, real: np.ndarray) -> Tracer:
        """Record an array that ``f`` has made and not yet written to."""
        found = Tracer(self, np.zeros_like(real), None)
        if found.value.size:
            found.unset = Tracer(self, np.ones(real.shape, bool), None)
        return found

    def _shares(self, real: np.ndarray, t: Tracer) -> bool:
        """Whether a result shares memory with an argument."""
        if any(value is real and other is t for value, other in self.views):
            return True
        if real is t.value:  # what some functions give back where there is nothing to do
            return True
        if self.library == "cupy" and isinstance(t.value, np.generic):  # an array without axes
            return bool(real.size == 1 and real.dtype == t.value.dtype)
        if real.base is None or not isinstance(t.value, np.ndarray):
            return False
        return np.may_share_memory(real, t.value)

    def input(self, real: np.ndarray, ref: Ref = Ref(0)) -> Tracer:  # noqa: B008  # it is frozen
        """A slice."""
        self.several_axes |= np.ndim(real) > 1
        return Tracer(self, real, ref, owned=False)

    def constant(self, real: np.ndarray) -> Tracer:
        """An array that ``f`` did not make."""
        return Tracer(self, real, None, owned=False)

    def path(self, result: Any, several: int = 0) -> tuple[Path, Any]:
        """The recorded path and the real result; `several`: number of separate results."""
        if self.refused is not None:
            raise self.refused
        if self.left is not None:
            return self.off_path(), None
        if several:
            return self._parts(result, several)
        if self.library == "torch":
            array = self.operations.tensors.result(self, result)
            if self.refused is not None:
                raise self.refused
            if array.ref is None:
                raise self.refuse("its result does not depend on the slice")
            value = array.value
            return Path(tuple(self.steps), array.ref, tuple(value.shape), value.dtype), value
        array = self.operations.as_array(self, result)
        if isinstance(array, Tracer):
            array.settle()
        if self.refused is not None:
            raise self.refused
        if self.left is not None:
            return self.off_path(), None
        value = array.value if isinstance(array, Tracer) else np.asanyarray(array)
        out: Any = array.ref if isinstance(array, Tracer) and array.ref is not None else value
        value = np.asanyarray(value)
        return Path(tuple(self.steps), out, value.shape, value.dtype), value

    def _parts(self, result: Any, several: int) -> tuple[Path, Any]:
        """The path of a function with several results."""
        if not isinstance(result, (tuple, list)) or len(result) != several:
            raise self.refuse(f"it has not {several} results")
        found = [self.path(x) for x in result]
        ends, values = [p for p, _ in found], tuple(v for _, v in found)
        return Path(
            tuple(self.steps),
            tuple(p.result for p in ends),
            tuple(p.shape for p in ends),  # type: ignore[misc]
            tuple(p.dtype for p in ends),
        ), values

    def off_path(self) -> Path:
        """The path up to where ``f`` raises."""
        assert self.left is not None
        position, off = self.left
        more = len(self.steps) > position
        # what f catches further on may be other things for other slices
        decided = off.decided and not (more and self.stage.catches)
        return Path(tuple(self.steps[:position]), SideExit(off.why, decided, more, off.by_hand))


def twice(tree: Any) -> Any:
    """Arguments with a batch of two for what depends on the slice."""

    def both(t: Any) -> Any:
        if t.ref is None:
            return t.value
        if type(t).__name__ == "Flat":
            return Ragged(np.concatenate([t.value, t.value]), np.array([len(t.value)] * 2))
        if isinstance(t.value, (np.ndarray, np.generic, bool, int, float, complex)):
            return Batched(np.stack([t.value, t.value]))
        return Batched(t.value[None].expand(2, *t.value.shape).clone())

    return replaced(both, tree)


_OF_THE_SAME = frozenset(
    f"numpy.{name}" for name in "reshape squeeze transpose real broadcast_to".split()
)
"""Functions that give views of arrays without axes, which are numbers of NumPy's here."""


def _nbytes(real: Any) -> int:
    """Bytes of the result of a call, a number counted as 8 at least."""
    if isinstance(real, (tuple, list)):
        return sum(map(_nbytes, real))
    item = getattr(real, "itemsize", 8)
    return math.prod(getattr(real, "shape", ())) * max(8, item if isinstance(item, int) else 8)


def _is_view(result: Any, operand: Any) -> bool:
    """Whether a result is a view of an operand, all of it."""
    if isinstance(result, (tuple, list)):
        return bool(result) and all(_is_view(x, operand) for x in result)
    a, b = (x.array if isinstance(x, Batched) else x for x in (result, operand))
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
    if not isinstance(got, Batched):
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


def _places(view: np.ndarray, whole: np.ndarray) -> tuple[np.ndarray, ...] | None:
    """The places of the elements of `view` as an index of `whole`.

    None where they are not elements of it, each once: then nothing can be written through the view.
    """
    if view.dtype != whole.dtype or not whole.ndim or not view.size:
        return None
    there = _addresses(whole).ravel()
    order = np.argsort(there)
    mine = _addresses(view)
    at = np.minimum(np.searchsorted(there, mine, sorter=order), len(there) - 1)
    found = order[at]
    if (there[found] != mine).any() or len(np.unique(found)) != found.size:
        return None
    return tuple(np.unravel_index(found, whole.shape))


def _addresses(x: np.ndarray) -> np.ndarray:
    """The address of each element."""
    found = np.array(x.__array_interface__["data"][0], np.int64)
    for n, step in zip(x.shape, x.strides, strict=True):
        found = found[..., None] + np.arange(n) * step
    return found

"""Functions with loops over elements of CuPy's arrays, compiled from their source for the GPU.

What is different from NumPy's: numbers are arrays without axes, nothing warns, and a call of the
function takes milliseconds, so that as few as possible are made beside the launch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...arrays import on_host
from ...codegen.llvm.typed import device
from ...errors import CompilerError, Differs, TraceError, UnsupportedError
from ...frontends.python.run.account import Account
from ...frontends.python.run.comparison import check_holds
from ...frontends.python.run.rows import Rows
from ...functions.purity import has_loop
from ...ir.avals import ShapeDtype
from ...ir.typed import TypedFunction
from ...ir.typed.function import ARRAYS, LISTS, WARNED
from ...ir.typed.margins import WHY
from ...limits import LIMITS
from ...loop.arguments import Arguments
from ...loop.begun import Begun, Users
from ..ways import Run, Said, Way
from .typed_loop import ForNow, TypedLoop
from .typed_results import results_of, silently
from .unplanned import ENGINES

_OTHER_BITS = "a GPU's last bits tell here"


_OF_PYTHON = (bool, int, float, complex)


class _OtherBits(Exception):
    """Last bits of the device tell."""


def _always() -> bool:
    return True


class TypedOnDevice(TypedLoop):
    """A compiled loop over slices of CuPy arrays."""

    library = "cupy"
    element = "device"
    asks_first = False  # the launch tells
    engines = ENGINES["cupy"]
    guesses = True
    _host: Any = None
    """The compiled code of the host for slices that the device marks."""
    _spent = 0.0
    """Seconds that slices have taken which were marked."""
    _why_host = ""
    """Why code of the host runs all slices; "": it does not."""

    def __init__(self, f: Any, arguments: Arguments, slices: tuple[Any, ...], *more: Any) -> None:
        super().__init__(f, arguments, slices, *more)
        self.has_loop = has_loop(f)
        if device.rounds(self.compiled.made):
            self._rounds = max(self._rounds, LIMITS.typed_rounding)
        with slices[0].device:
            self._try(slices, more[0])

    def _try(self, slices: tuple[Any, ...], first: Any) -> None:
        """Run the first slice, whose result is known.

        Raises
        ------
        TraceError
            If it needs more memory than a thread has, or gives another result.
        """
        import cupy

        made = self.compiled.made
        tells = made.tells and self._may_fetch
        if why := self.compiled.why_not or (_OTHER_BITS if tells else ""):
            self._leave_to_host(why)
            return
        outs = [cupy.empty(r.shape, r.dtype) for r in self.results]
        try:
            marks = self.compiled.run(slices, outs, 0, self.seconds, ())
        except (UnsupportedError, CompilerError) as error:
            self._leave_to_host(str(error))
            return
        if marks is not None:
            known = made.marks
            if 0 < (mark := int(marks)) <= len(known) and known[mark - 1].why in (ARRAYS, LISTS):
                self._leave_to_host("its arrays need more memory than a thread of a GPU has")
                return
            self.doubt = known[mark - 1].why if 0 < mark <= len(known) else "it may warn"
            return
        parts = first if self._arguments.results else (first,)
        for out, part in zip(outs, parts, strict=True):
            mine, real = out.get(), on_host(self._seen(part))
            if not self._are_same(mine, real.astype(mine.dtype)):
                if self._may_fetch:
                    self._why_host = _OTHER_BITS
                    return
                raise TraceError(f"compiled it gives {mine}, a real call gives {real}")

    def _leave_to_host(self, why: str) -> None:
        """Have code of the host run all slices of a function that fetches them, or raise."""
        if not self._may_fetch:
            raise TraceError(why)
        self._why_host = why

    def _is_noted(self) -> bool:
        """Whether NumPy would report errors that a device does not record."""
        return self._may_fetch and np.geterr()["under"] != "ignore"

    @property
    def _may_fetch(self) -> bool:
        """Whether code of the host runs slices that the device marks."""
        return self.compiled.made.fetches

    def _compiled(self, rows: Rows, *more: Any) -> Any:
        if self._why_host or self._is_noted():
            return self._outs(rows), np.full(rows.batch, WARNED, np.uint16)
        return super()._compiled(rows, *more)

    def _are_same(self, mine: np.ndarray, real: np.ndarray) -> bool:
        """Whether results are equal, up to rounding where they round."""
        if not self._rounds or mine.dtype.kind != "f" or np.array_equal(mine, real, equal_nan=True):
            return super()._are_same(mine, real)
        sizes = np.abs(real[np.isfinite(real)])
        share = LIMITS.typed_rounding_short if mine.itemsize < 8 else self._rounds
        least = share * float(sizes.max()) if sizes.size else 0.0
        return np.allclose(mine, real, rtol=share, atol=least, equal_nan=True)

    def settle(self, rows: Rows) -> None:
        """Launch all slices where the first one is left to the function, to see whether more are.

        Of a function without loops few may be left: it has other ways, and a loop has none.
        """
        if self._may_fetch:  # compiled code of the host takes what is left
            self.doubt = ""
            return
        with rows.like.device:
            _, marks = self._compiled(rows)
        left = 0 if marks is None else int(np.count_nonzero(marks))
        count = int(np.prod(rows.batch))
        most = LIMITS.typed_marked if self.has_loop else LIMITS.typed_told
        if left > most * count and left > 1:
            raise ForNow(f"compiled it leaves {left:,} of {count:,} slices to itself: {self.doubt}")
        self.doubt = ""

    @staticmethod
    def array(part: Any) -> Any:
        """Convert a result as CuPy's loop does."""
        import cupy

        return cupy.asarray(part)

    @classmethod
    def _seen(cls, part: Any) -> Any:
        """A result to be looked at alone: for a number of Python's CuPy would compile a kernel."""
        return np.asarray(part) if type(part) in _OF_PYTHON else cls.array(part)

    @classmethod
    def _results(cls, arguments: Arguments, first: Any) -> tuple[ShapeDtype, ...]:
        return results_of(arguments, first, cls._seen)

    @staticmethod
    def copies(slices: Sequence[Any]) -> list[Any]:
        """The slices: what is compiled does not write to them."""
        return list(slices)

    @staticmethod
    def look_at(made: TypedFunction) -> None:
        """Raise `TraceError` for what no backend takes, before the function is called."""
        from ...backends.cpu import host

        why = host.why_not() or (None if made.fetches else device.why_not(made))
        if why:
            raise TraceError(why)

    @staticmethod
    def _backend(made: TypedFunction) -> Any:
        import cupy

        from ...backends.cpu import for_gpus, host
        from ...backends.cupy import typed as backend

        own = cupy.cuda.runtime.getDevice()
        absent = host.why_not()
        why = absent or device.why_not(made) or backend.why_not(made, own)
        if why and (absent or not made.fetches):
            raise TraceError(why)
        return backend.Compiled(made, for_gpus.ptx, for_gpus.architecture, why or "")

    @classmethod
    def calls(cls, called: Callable[..., Any], slices: Sequence[Any]) -> Begun:
        """Call the function for the first slice, and time it."""
        with slices[0].device:
            started = time.perf_counter()
            first = silently(called, slices)
            took = time.perf_counter() - started
        return Begun([first], took, took)

    @staticmethod
    def _is_best(made: TypedFunction, slices: Sequence[Any]) -> bool:
        return True  # a trace takes longer, and so do most of its launches

    def __call__(self, rows: Rows, f: Any, account: Account | None = None) -> Any:
        with rows.like.device:
            try:
                return super().__call__(rows, f, account)
            except _OtherBits:  # of which another slice than the first has told
                self._why_host, self._checked = _OTHER_BITS, True
                return super().__call__(rows, f, account)

    @property
    def state(self) -> Any:  # type: ignore[override]
        """What plans say something else of."""
        return self._why_host

    def _said(self) -> str:
        if self._why_host:
            return f"compiled on the host, for a copy of the array: {self._why_host}"
        return f"one compiled {'loop' if self.has_loop else 'function'} on the GPU, one launch"

    def run_for(self, rows: Rows, told: list[str] | None = None) -> Run:
        return Run(Way(), Said("cupy", self.kernels))

    def _outs(self, rows: Rows) -> list[Any]:
        import cupy

        return [cupy.empty((*rows.batch, *r.shape), r.dtype) for r in self.results]

    def ran(self, rows: Rows) -> tuple[Callable[..., Any], bool] | None:
        """The last run on slices like these; for the same layout no look-up is made again."""
        if self._why_host or self._is_noted():
            return None
        if super().ran(rows) is None:
            return None
        kept = self.compiled.kept(rows.views, self._outs(rows), len(rows.batch))
        if not kept:
            return None
        import cupy

        wanted = [((*rows.batch, *r.shape), np.dtype(r.dtype)) for r in self.results]
        own, current = rows.views[0].device, cupy.cuda.runtime.getDevice
        launched, empty, number = self.compiled.launched, cupy.ndarray, own.id
        may_fetch = self._may_fetch

        def here(rows: Rows, holds: Callable[[], bool]) -> list[Any] | None:
            if may_fetch and self._is_noted():
                return None
            outs = [empty(*x) for x in wanted]
            try:
                marks = launched(kept, rows.views, outs, holds)
            except UnsupportedError:
                return None
            return outs if marks is None else None

        def again(rows: Rows, holds: Callable[[], bool] = _always) -> list[Any] | None:
            if current() == number:  # it is that of these arrays, too
                return here(rows, holds)
            with own:
                return here(rows, holds)

        return again, False

    def _by_itself(self, rows: Rows, f: Any, outs: list[Any], left: np.ndarray) -> None:
        if self._may_fetch:
            tell = [k for k, m in enumerate(self.compiled.made.marks, 1) if m.why == WHY]
            told = sum(self._marked.get(k, 0) for k in tell)
            left = self._on_host(rows, outs, left)
            self.looped = left.size
            # where last bits tell in nearly all slices, the next launch would be for nothing
            if told > LIMITS.typed_marked * int(np.prod(rows.batch)) > 1:
                self._why_host = _OTHER_BITS
        if left.size:
            super()._by_itself(rows, f, outs, left)

    def _on_host(self, rows: Rows, outs: list[Any], left: np.ndarray) -> np.ndarray:
        """Run marked slices, which it fetches, by code of the host; return those left.

        That has NumPy's bits, so that last bits decide as they do there, and knows what warns.
        """
        import cupy

        from ...backends.cpu import typed as backend

        if self._host is None:
            made = self.compiled.made
            self._host = backend.Compiled(made.of_host or made)
        self._spent += left.size * self.seconds  # by the function itself, until compiling pays
        if self._spent < LIMITS.typed_worth * self._host.seconds or not rows.batch:
            return left
        places = np.unravel_index(left, rows.batch)
        there = tuple(map(cupy.asarray, places))
        given = [x[there].get() for x in rows.views]
        found = [np.empty((left.size, *r.shape), r.dtype) for r in self.results]
        try:
            marks = self._host.run(given, found, 1, self.seconds)
        except (UnsupportedError, CompilerError):
            return left
        done = marks == 0
        numbers, counts = np.unique(marks[~done], return_counts=True)
        self._marked = dict(zip(numbers.tolist(), counts.tolist(), strict=True))
        there = tuple(x[cupy.asarray(done)] for x in there)
        for out, own in zip(outs, found, strict=True):
            out[there] = cupy.asarray(own[done])
        return left[~done]

    def _check(
        self,
        rows: Rows,
        f: Any,
        outs: list[Any],
        marks: np.ndarray | None,
        written: Any = None,
        first: int = 0,
    ) -> None:
        """Compare another slice than the first with a real call, once."""
        count = int(np.prod(rows.batch))
        whole = range(count) if marks is None else np.flatnonzero(marks.ravel() == 0)
        call = self._arguments.caller(f)
        some = [int(whole[-1])] if len(whole) else []
        for k in some:
            at = tuple(map(int, np.unravel_index(k, rows.batch)))
            v = rows[at]
            result = call(*self._arguments.given(v)) if isinstance(v, tuple) else call(v)
            parts = result if self._arguments.results else (result,)
            for out, part in zip(outs, parts, strict=True):
                mine, real = out[at].get(), on_host(self._seen(part))
                if not self._are_same(mine, real.astype(mine.dtype)):
                    if self._may_fetch:
                        raise _OtherBits
                    raise Differs(f"compiled it gives {mine}, a real call gives {real}")
        self._checked = bool(some)


class NumbersOnDevice(TypedOnDevice):
    """A compiled loop over single elements, which the function gets as Python's numbers.

    For those that are left to the function, and in the loop, it gets them on the host.
    """

    _may_fetch = False  # type: ignore[assignment]  # the function itself takes few of them

    def __init__(self, f: Any, arguments: Arguments, slices: tuple[Any, ...], *more: Any) -> None:
        super().__init__(f, arguments, slices, *more)
        # the first call, which gets numbers of NumPy's, may tell another dtype than Python's do
        self.asks_first = not {x.dtype.name for x in slices} <= {"float64", "int64"}

    @staticmethod
    def look_at(made: TypedFunction) -> None:
        """Raise `TraceError` for what no backend takes, before the function is called."""
        TypedOnDevice.look_at(made)
        if why := device.why_not(made):
            raise TraceError(why)

    @staticmethod
    def array(part: Any) -> Any:
        """Convert a result as the loop does."""
        return np.asanyarray(part)

    @classmethod
    def calls(cls, called: Callable[..., Any], slices: Sequence[Any]) -> Begun:
        """Call the function for the first elements, and time it."""
        given = [x.item() for x in slices]
        started = time.perf_counter()
        first = silently(called, given)
        took = time.perf_counter() - started
        return Begun([first], took, took)

    def _of_first(self, rows: Rows, f: Any, known: Sequence[Any]) -> TypedLoop:
        return self  # the first call has told of which dtype all are

    def ran(self, rows: Rows) -> tuple[Callable[[Rows], Any], bool] | None:
        """The last run; None also if the first result decides the dtypes."""
        return None if self.compiled.made.differs else super().ran(rows)

    def _by_itself(self, rows: Rows, f: Any, outs: list[Any], left: np.ndarray) -> None:
        """The function itself, for some elements in their order: these are fetched at once."""
        import cupy

        places = np.unravel_index(left, rows.batch) if rows.batch else ()
        there = tuple(map(cupy.asarray, places))
        given = [x[there].get().reshape(-1) for x in rows.views]
        found = [np.empty(left.size, out.dtype) for out in outs]
        call = self._arguments.caller(f)
        for k in range(left.size):
            try:
                result = call(*[x[k].item() for x in given])
                parts = result if self._arguments.results else (result,)
                for own, part in zip(found, parts, strict=True):
                    check_holds(part, own[k : k + 1], self._arguments.numbers)
                    own[k] = self.array(part)
            except TraceError:
                raise
            except Exception as error:
                raise Users(error, tuple(int(p[k]) for p in places)) from None
        for out, own in zip(outs, found, strict=True):
            out[there] = cupy.asarray(own).reshape(out[there].shape)

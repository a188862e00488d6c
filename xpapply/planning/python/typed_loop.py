"""Functions with loops over elements, compiled from their source; what that cannot finish they do.

Compiled code marks the slices for which the function would raise, or NumPy warn, or whose result is
of another kind. The function itself runs for these, in order, after all others.
"""

from __future__ import annotations

import copy
import functools
import time
import weakref
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ...arrays.layout import is_apart, lying_alike, span
from ...errors import CompilerError, Differs, TooManyPaths, TraceError, UnsupportedError
from ...frontends.python.run.account import Account, per_call
from ...frontends.python.run.comparison import cast, check_holds
from ...frontends.python.run.record import AtOnce
from ...frontends.python.run.rows import Block, Rows, RowsOfSeveral
from ...functions.cache import BoundedDict
from ...functions.guards import Guards, Place
from ...functions.snapshots import number_kind
from ...ir.avals import ShapeDtype
from ...ir.typed import TypedFunction
from ...ir.typed.function import WARNED
from ...limits import LIMITS
from ...loop.arguments import Arguments
from ...loop.begun import Begun, Users
from ...runtime.error_state import let_pass, scipy_tells
from ...runtime.generators import Kept, in_order, seconds_of_states
from ..application import announce
from ..ways import Run, Said, Way
from .typed_results import (
    Read,
    are_same,
    as_long_as_wanted,
    copied,
    empty,
    is_text,
    results_of,
    silently,
    typed_of,
    wavers,
    with_texts,
)
from .unplanned import ENGINES, why_not_compiled

if TYPE_CHECKING:
    from ...functions.given import Given


class ForNow(TraceError):
    """Why a function is not compiled, which may be otherwise for other slices."""


_NONE = np.empty(0, np.intp)


class TypedLoop(AtOnce):
    """A function of slices, compiled from its source.

    Parameters
    ----------
    f : callable
        The function.
    arguments : Arguments
        What it is called with.
    slices : tuple of arrays
        The first slice of each array.
    first : object
        What `f` gave for them.
    seconds : float
        What a call of `f` takes.

    Attributes
    ----------
    is_best : bool
        Whether no trace would do better: of a few whole arrays and numbers, a few times, it may.

    Raises
    ------
    TraceError
        If it cannot be compiled; with the reason and the user's line.
    """

    library: Any = "numpy"
    graph = state = None
    why_left = ""
    overhead = 5e-5
    element = "numpy"
    """Whose number an element of a slice is: see `frontends.python.source`."""
    engines: tuple[str, ...] = ENGINES["numpy"]
    """The values of `options(engine=)` under which it runs."""
    guesses = False
    """Whether results are assumed from the source, unless the first slice differs."""
    doubt = ""
    """Why the first slice is left to the function, where that may be so of most."""
    _values: Sequence[Any] = ()
    """The numbers that are given."""
    kinds: Sequence[Any] = ()
    """Their types."""
    _more: dict[str, Any] = {}  # noqa: RUF012  # never written to
    """How compiled code gets them."""

    def __init__(
        self,
        f: Any,
        arguments: Arguments,
        slices: tuple[Any, ...],
        first: Any,
        seconds: float,
        ahead: Read | None = None,
        places: Collection[Place] = (),
    ) -> None:
        super().__init__()
        # arguments are told apart by their content, which may change later
        args, kwargs = copied(arguments.args), copied(arguments.kwargs)
        arguments = replace(arguments, args=args, kwargs=kwargs)
        self._arguments, self.seconds = arguments, seconds
        self.results = self._results(arguments, first)
        if ahead is not None and ahead.made is not None and ahead.fits(f, self.results):
            self._guards: Guards = ahead
            made = ahead.made
        else:
            self._guards = Guards(places)
            made = typed_of(f, arguments, slices, self.results, self._guards, self.element)
        if not any(b.instructions[-1].op == "return" for b in made.blocks):
            raise TraceError(f"compiled, {made.marks[0].why if made.marks else 'it never returns'}")
        self._asks_scipy = any("scipy." in name[1] for name in made.externals)
        if self._asks_scipy and scipy_tells():
            raise TraceError("scipy.special.errstate says more than to ignore errors")
        self.compiled: Any = self._backend(made)
        if made.given:
            self._names = self.given.names(f)
            self._is_given(self.given.values(f, args, kwargs) or [])
        self._texts = any(map(is_text, self.results))
        self.overhead += seconds_of_states(made.sources)
        self.keeps = any(x.nbytes > LIMITS.typed_kept for x in made.constants)
        self._rounds = made.rounds
        self.is_best = self._is_best(made, slices)
        differs = made.differs or made.spells or len({*map(len, made.texts)}) > 1
        self.differs = differs and arguments.dtypes is None
        self.asks_first &= differs
        self._others = BoundedDict()
        self.looped = 0
        self._checked, self._turn = False, 0
        self._marked: dict[int, int] = {}
        self.tree = _OnePath()

    @staticmethod
    def _backend(made: TypedFunction) -> Any:
        """Compile a typed function; the compiler is loaded here."""
        from ...backends.cpu import typed as backend

        why = backend.why_not()
        if why:
            raise TraceError(why)
        return backend.Compiled(made)

    @staticmethod
    def look_at(made: TypedFunction) -> None:
        """Raise `TraceError` for what no backend takes, before the function is called."""

    @staticmethod
    def array(part: Any) -> Any:
        """Convert a result as the loop does."""
        return np.asanyarray(part)

    @classmethod
    def _results(cls, arguments: Arguments, first: Any) -> tuple[ShapeDtype, ...]:
        return results_of(arguments, first, cls.array)

    @staticmethod
    def copies(slices: Sequence[Any]) -> list[Any]:
        """Slices that a function may write to; numbers stay numbers."""
        return [np.array(x) if np.ndim(x) else x for x in slices]

    def unchanged(self, f: Any) -> bool:
        """Whether `f` is unchanged, and compiled functions are enabled."""
        if why_not_compiled() or (self._asks_scipy and scipy_tells()):
            return False
        return self._guards(f) and (not self._values or self.given.are(f, self._values))

    @functools.cached_property
    def given(self) -> Given:
        """What it was read with; few functions are called with other numbers."""
        from ...functions.given import Given

        return Given(self._guards, self._arguments.args, self._arguments.kwargs)

    def with_numbers(self, f: Any, arguments: Arguments) -> TypedLoop | None:
        """The same for other given numbers; None: there are none, or something else has changed."""
        values = self.given.values(f, arguments.args, arguments.kwargs) if self._values else None
        if not values or [*map(number_kind, values)] != self.kinds:
            return None
        found = copy.copy(self)
        args, kwargs = copied(arguments.args), copied(arguments.kwargs)
        found._arguments = replace(arguments, args=args, kwargs=kwargs)
        found.record, found.plans = self.record.for_another(), weakref.WeakSet()
        found.agreed, found.ready = BoundedDict(), BoundedDict()
        found.looped, found._marked, found._turn = 0, {}, self._turn + 1
        found._checked = self._checked and found._turn > LIMITS.typed_given_checked
        found._is_given(values)
        return found

    def _is_given(self, values: Sequence[Any]) -> None:
        made = self.compiled.made
        dtypes = [made.constants[k].dtype for k in made.given]
        arrays = [np.array([x], dtype) for x, dtype in zip(values, dtypes, strict=True)]
        self._values, self.kinds = values, [*map(number_kind, values)]
        self._more = {"given": self.compiled.numbers(arrays)}

    @staticmethod
    def _is_best(made: TypedFunction, slices: Sequence[Any]) -> bool:
        if made.spells:  # which no trace can
            return True
        whole = any(x.op in ("map", "reduce") for x in made.instructions)
        long = sum(np.size(x) for x in slices) > LIMITS.typed_straight or made.nests
        return made.walks if whole else made.decides or (made.walks and long)

    def is_quicker(self, rows: Rows, seconds: float) -> bool:
        """Whether it takes less CPU time than `seconds`, with the slices left to the function."""
        left = np.count_nonzero(self._compiled(rows)[1])  # which compiles it
        return self._within(rows, LIMITS.typed_lanes_gain * seconds - left * self.seconds)

    def _within(self, rows: Rows, seconds: float) -> bool:
        """Whether a run takes less CPU time than `seconds`.

        One may be slow, as something else runs, or helpers are loaded.
        """
        for _ in range(LIMITS.typed_lanes_looks):
            began = time.process_time()
            self._compiled(rows)
            if time.process_time() - began < seconds:
                return True
        return False

    def _is_longer(self, rows: Rows, loop: float) -> bool:
        """Whether some slices tell that it takes longer than the loop, which takes `loop` seconds.

        So do functions of long arrays that NumPy computes by wider instructions.
        """
        part = max(range(len(rows.batch)), key=rows.batch.__getitem__, default=0)
        n = rows.batch[part] if rows.batch else 1
        some = n // LIMITS.typed_tried_share
        if loop < LIMITS.typed_tried or not some:
            return False
        index = (*(slice(None),) * part, slice(some))
        batch = (*rows.batch[:part], some, *rows.batch[part + 1 :])
        chosen = RowsOfSeveral([x[index] for x in rows.views], batch)
        self._compiled(chosen)  # which compiles it
        return not self._within(chosen, LIMITS.given_up_from * loop * some / n)

    def _said(self) -> str:
        from ...backends.cpu import compiler

        said = f"one compiled loop, {compiler.host().name}"
        if (width := self.compiled.width) > 1:
            said += f", {width} slices side by side"
        return f"{said}, with {self._names} given" if self._values else said

    def settle(self, rows: Rows) -> None:
        """Raise `ForNow` if there is a doubt, and most slices are as the first one."""

    @property
    def kernels(self) -> tuple[str, ...]:
        """A description of the run."""
        said = self._said()
        if not self._marked:
            return (said,)
        left = sum(self._marked.values())
        return (
            said,
            f"{left:,} slices of the last call by the function itself: {self._why_marked()}",
        )

    def _why_marked(self) -> str:
        """Why slices were left to the function, the commonest reason first."""
        marks, found = self.compiled.made.marks, []
        for mark, count in sorted(self._marked.items(), key=lambda x: -x[1])[:3]:
            if mark > len(marks):
                found.append(f"NumPy may warn ({count:,})")
            else:
                found.append(f"{marks[mark - 1].why} in line {marks[mark - 1].line} ({count:,})")
        return ", ".join(found)

    @property
    def compiling(self) -> float:
        """Seconds that compiling takes, if that has yet to be done."""
        return self.compiled.seconds

    @property
    def compiles(self) -> bool:
        """Whether the last run compiled a form, so that its time is no estimate of the next."""
        return self.compiled.has_compiled

    @property
    def writes(self) -> bool:
        """Whether the function writes to its slices."""
        return self.compiled.made.writes

    @property
    def draws(self) -> bool:  # type: ignore[override]
        """Whether the function draws random numbers, so that slices run in order."""
        return bool(self.compiled.made.sources)

    def unspent(self, f: Any, alone: bool = True) -> AbstractContextManager[Kept]:
        """A context for one more call of the function, after which generators are restored."""
        return Kept.of(self.compiled.made.sources, f, alone)

    def __call__(self, rows: Rows, f: Any, account: Account | None = None) -> Any:
        """All slices through `f`; the result axes stand where the slices' axis was."""
        self.has_run = True
        if self.differs and self.asks_first:
            other = self._of_first(rows, f, () if account is None else account.known)
            if other is not self:
                return other(rows, f, account)
        if self.draws:
            return self._drawing(rows, f, account)
        if self.writes:
            return rows.placed(self._writing(rows, f, () if account is None else account.known))
        if account is not None and account.tries and self._is_longer(rows, account.loop):
            raise TooManyPaths("compiled it takes longer than the loop")
        outs, marks = self._compiled(rows)
        left = self._noted(marks)
        if not self._checked:
            self._check(rows, f, outs, marks)
        if left.size:
            if left[0] == 0:  # it may be of another shape
                other = self._of_first(rows, f, () if account is None else account.known)
                if other is not self:
                    self.looped, self._marked = 0, {}
                    return other(rows, f, account)
            self._by_itself(rows, f, outs, left)
            self._told(f, marks, rows)
        outs = as_long_as_wanted(outs) if self._texts else outs
        found: Any = Block(outs) if self._arguments.results else outs[0]
        return rows.placed(found)

    def _drawing(self, rows: Rows, f: Any, account: Account | None) -> Any:
        """The results of a function that draws random numbers: slice after slice.

        If anything goes wrong but what the function itself raises, the generators are put back.
        """
        known = () if account is None else account.known
        outs, others = self._outs(rows), []
        n, done = int(np.prod(rows.batch)), len(known)
        for k in range(done):
            self._put(outs, rows, k, known[k])

        def by_itself(k: int) -> None:
            if k == 0:  # it may be of another shape
                other = self._of_first(rows, f, ())
                if other is not self:
                    others.append(other)
                    raise UnsupportedError("its first slice gives something of another shape")
            self._by_itself(rows, f, outs, np.array([k]))

        def compared(k: int) -> None:
            self._check(rows, f, outs, np.zeros(k + 1, np.uint16), first=k)

        places = () if self._checked else {done, max(done, n // 3), max(done, 2 * n // 3), n - 1}
        with self.unspent(f, alone=False) as kept:
            try:
                go, marks = self.compiled.in_order(rows.views, outs, len(rows.batch), **self._more)
                # in one go, where none was marked before
                how = by_itself, compared, [*places], n * (self._checked and not self._marked)
                found = in_order(self.compiled.made.sources, go, marks, done, *how)
            except Users:
                kept.stays()
                raise
            except CompilerError as error:
                raise UnsupportedError(str(error)) from None
            except UnsupportedError:
                if not others:
                    raise
            else:
                kept.stays()
        if others:
            return others[0](rows, f, account)
        self._noted(found)
        self._told(f, found, rows)
        return rows.placed(Block(outs) if self._arguments.results else outs[0])

    def _of_first(self, rows: Rows, f: Any, known: Sequence[Any]) -> TypedLoop:
        """The loop for results like that of the first slice, which says what all are like."""
        v = rows[(0,) * len(rows.batch)]
        slices = v if isinstance(v, tuple) else (v,)
        try:
            called = self._arguments.caller(f)
            with self.unspent(f):
                first = known[0] if known else silently(called, self.copies(slices))
        except Exception as error:
            let_pass(error)
            return self  # which has the function itself raise it
        results = self._results(self._arguments, first)
        if results == self.results:
            return self
        found: TypedLoop | None = self._others.get(results)
        if found is not None and self._values:
            found = found.with_numbers(f, self._arguments)
        if found is None:
            how = f, self._arguments, slices, first, self.seconds, None, [*self._guards.given]
            found = self._others[results] = type(self)(*how)
        return found

    def _noted(self, marks: np.ndarray | None) -> np.ndarray:
        """The marked slices; the reasons are recorded."""
        if marks is None or not np.count_nonzero(marks):
            self.looped, self._marked = 0, {}
            return _NONE
        left = np.flatnonzero(marks)
        self.looped = left.size
        numbers, counts = np.unique(marks.ravel()[left], return_counts=True)
        self._marked = dict(zip(numbers.tolist(), counts.tolist(), strict=True))
        return left

    def _told(self, f: Any, marks: np.ndarray, rows: Rows) -> None:
        """Say that many slices are left, if they are; of very many it is the last call."""
        if self.looped > LIMITS.typed_told * marks.size and not self.compiled.waits:
            why = f"compiled, it leaves these slices to itself: {self._why_marked()}"
            announce(f, self.looped, why, rows.like)
        if self.looped > LIMITS.typed_marked * marks.size and not self.compiled.waits:
            share = self.looped / marks.size
            self.record.refused = (
                f"compiled, {share:.0%} of its slices are left to the function itself: "
                f"{self._why_marked()}"
            )

    def _writing(self, rows: Rows, f: Any, known: Sequence[Any]) -> Any:
        """The results of a function that writes to its slices, and what it has written.

        It does so in a copy, from which slices are written back in their order, up to one that is
        left to the function: so that has what the loop would have given it, and if it raises, the
        slices after it are as they were. `known`: results for the first slices, which are written.
        """
        (view,) = rows.views
        n, done = int(np.prod(rows.batch)), len(known)
        apart = is_apart(view, self.compiled.made.constants)
        copy = self._copy(view) if apart else np.array(view, order="K")
        if apart:
            outs, marks = self._compiled(rows, copy)
        else:  # one slice may see what another one has written
            outs = self._with_texts(self._outs(rows), whole=False)
            marks = np.full(rows.batch, WARNED, np.uint16)
        marks.ravel()[:done] = 0
        left = self._noted(marks)
        if not self._checked:
            self._check(rows, f, outs, marks, copy, done)
        for k in range(done):
            self._put(outs, rows, k, known[k])
        for k in (*left.tolist(), n):
            if k - done == n:
                view[...] = copy
            elif k > done:
                at = np.unravel_index(np.arange(done, k), rows.batch)
                view[at] = copy[at]
            if k < n:
                self._by_itself(rows, f, outs, np.array([k]))
            done = k + 1
        if apart:
            self._told(f, marks, rows)
        return Block(outs) if self._arguments.results else outs[0]

    def _copy(self, view: np.ndarray) -> np.ndarray:
        """A copy of slices, which lies in memory as they do: products of BLAS depend on that."""
        if sum(span(view)) <= LIMITS.typed_apart * view.nbytes:
            return lying_alike(view)
        if any(x.op in ("stride", "dot") for x in self.compiled.made.instructions):
            raise UnsupportedError("slices that it writes to are far apart in memory")
        return np.array(view, order="K")

    def _put(self, outs: list[np.ndarray], rows: Rows, k: int, result: Any) -> None:
        """A result of the function's own, where it belongs."""
        at: Any = np.unravel_index(k, rows.batch)
        for out, part in zip(outs, result if self._arguments.results else (result,), strict=True):
            out[(*at, ...)] = self.array(part)

    def _by_itself(self, rows: Rows, f: Any, outs: list[np.ndarray], left: np.ndarray) -> None:
        """The function itself, for some slices in their order."""
        call = self._arguments.caller(f)
        places = np.unravel_index(left, rows.batch)
        several = self._arguments.results
        for at in zip(*(p.tolist() for p in places), strict=True):
            v = rows[at]
            try:
                result = call(*self._arguments.given(v)) if isinstance(v, tuple) else call(v)
                parts = result if several else (result,)
                if several and not (isinstance(result, tuple) and len(result) == len(outs)):
                    # numpy.vectorize goes on in its own way, and with a signature raises
                    raise TraceError("its results are not as many as those of the first slice")
                for out, part in zip(outs, parts, strict=True):
                    if self._arguments.exactly:
                        check_holds(part, out[(*at, None)], self._arguments.numbers)
                    out[at if self._arguments.exactly else (*at, ...)] = self.array(part)
            except TraceError:
                raise
            except Exception as error:
                raise Users(error, at) from None

    def _check(
        self,
        rows: Rows,
        f: Any,
        outs: list[np.ndarray],
        marks: np.ndarray,
        written: np.ndarray | None = None,
        first: int = 0,
    ) -> None:
        """Compare some slices with real calls, once.

        `written`: what the slices are afterwards, from the first one on that is computed.
        """
        whole = np.flatnonzero(marks.ravel()[first:] == 0) + first
        call = self._arguments.caller(f)
        n = whole.size
        for place in sorted({int(whole[p]) for p in (0, n // 3, 2 * n // 3, n - 1) if n}):
            at = tuple(map(int, np.unravel_index(place, rows.batch)))
            v = rows[at] if written is None else lying_alike(rows[at])
            result = silently(call, self._arguments.given(v) if isinstance(v, tuple) else (v,))
            parts = result if self._arguments.results else (result,)
            pairs = [(out[at], part) for out, part in zip(outs, parts, strict=True)]
            if written is not None:
                pairs.append((written[at], v))
            for k, (mine, part) in enumerate(pairs):
                real = cast(part, mine)
                if self._are_same(mine, real):
                    continue
                if not wavers(self._arguments, self._rounds, call, v, k, mine, real):
                    raise Differs(f"compiled it gives {mine}, a real call gives {real}")
        self._checked = bool(n)

    def _are_same(self, mine: Any, real: Any) -> bool:
        return are_same(mine, real, self._rounds)

    # --- what else a traced function is asked -------------------------------------------------

    def run_for(self, rows: Rows, told: list[str] | None = None) -> Run:
        """The run for any slices: itself."""
        return Run(Way(), Said("cpu", self.kernels))

    def ran(self, rows: Rows) -> tuple[Callable[[Rows], Any], bool] | None:
        """The last run on slices like these, for repeated calls: see `Way.ran`."""
        if self.writes or self.draws or self._marked or not self._checked or self.differs:
            return None
        return self._again, False

    def _again(self, rows: Rows) -> list[np.ndarray] | None:
        outs, marks = self._compiled(rows)
        if marks is not None and np.count_nonzero(marks):
            return None
        return as_long_as_wanted(outs) if self._texts else outs

    @classmethod
    def calls(cls, called: Callable[..., Any], slices: Sequence[Any]) -> Begun:
        """Call the function, with copies, for the first slices, and time it."""
        copies = [cls.copies(slices) for _ in range(4)]
        first = silently(called, copies[0])
        seconds = silently(per_call, (called, copies[1:], 1, 1e-3))
        return Begun([first], seconds, 0.0)

    def _outs(self, rows: Rows) -> list[Any]:
        return empty(self.results, rows.batch, self.compiled.made.spells)

    def _with_texts(self, outs: list[Any], whole: bool) -> list[Any]:
        made = self.compiled.made
        return with_texts(outs, self.results, made.texts, made.spells, whole)

    def _compiled(self, rows: Rows, copy: np.ndarray | None = None) -> tuple[list[np.ndarray], Any]:
        """The results, and the marks of the slices that have none; None: there is no such slice.

        `copy`: of the slices, to which the function writes."""
        outs = self._outs(rows)
        views, originals = (rows.views, ()) if copy is None else ((copy,), rows.views)
        try:
            how = len(rows.batch), self.seconds, originals
            short = self._checked and copy is None
            marks = self.compiled.run(views, outs, *how, short=short, **self._more)
        except CompilerError as error:
            raise UnsupportedError(str(error)) from None
        if self._texts:
            outs = self._with_texts(outs, whole=marks is None or not np.count_nonzero(marks))
        return outs, marks

    def why_given_up(self, rows: Rows, f: Any) -> str:
        """ "": it is not given up."""
        return ""


class _OnePath:
    """A stand-in for the tree of paths."""

    count, branches, catches = 1, 0, False
    singly: tuple[Any, ...] = ()

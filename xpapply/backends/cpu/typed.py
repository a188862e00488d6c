"""Typed functions, compiled, on arrays that lie in any way."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ... import config
from ...arrays.addresses import of_array
from ...arrays.layout import merged
from ...codegen.llvm import typed as text_of
from ...errors import CompilerError, UnsupportedError
from ...functions.cache import BoundedDict
from ...ir.typed import TypedFunction
from ...ir.typed.function import WARNED
from ...limits import LIMITS
from ...runtime import c_library, threads
from . import compiler, externals
from .host import loading
from .typed_calls import (
    ALLOCATE,
    COMPARE,
    LANES,
    NO_NUMBERS,
    ONE,
    QUIET,
    Arena,
    Call,
    Kit,
    Lanes,
    Numbers,
    Prepared,
    alike,
    may_warn,
    noted,
    widths,
    words_of,
)


def why_not() -> str | None:
    """Why no typed function runs here; None: it does."""
    why = compiler.why_not()
    if why is None and compiler.host().name == "SSE2":
        return "this CPU rounds no floats by itself"
    return why


_ODD = "its elements lie at odd places"


class Compiled:
    """A typed function, to be run on all slices of arrays.

    Parameters
    ----------
    made : TypedFunction
        The function.

    Attributes
    ----------
    has_compiled : bool
        Whether the last run compiled something, which further ones need not.
    """

    def __init__(self, made: TypedFunction) -> None:
        self.made = made
        self._forms: dict[tuple[str, bool, int], compiler.Function] = {}
        self.has_compiled = False
        self._of_numbers = text_of.of_numbers(made)
        self._lanes: dict[tuple[str, bool, int], Lanes] = {}
        instructions = [*made.instructions]
        self._size = len(instructions)
        self._calls = any(x.op == "call" for x in instructions)
        self._took = 0.0  # CPU seconds of compiling one slice after the other
        self._waited = 0.0  # seconds that the quiet one might have saved
        self._may_warn = any(may_warn(made, x) for x in instructions)
        self._compares = any(
            x.op in COMPARE and np.dtype(str(x.args[0].type)).kind == "f" for x in instructions
        )
        self._frame = text_of.fields(made)
        self._tables: list[np.ndarray] = []
        self._arenas: list[Arena] = []
        self._layouts = BoundedDict()
        allocates = any(x.op in ALLOCATE for x in instructions)
        self._arena = LIMITS.typed_arena if allocates else 64

    def numbers(self, arrays: Sequence[np.ndarray]) -> Numbers:
        """What `TypedFunction.given` are for a call."""
        return Numbers([self._frame.constants[k][0] for k in self.made.given], arrays)

    @property
    def seconds(self) -> float:
        """Estimated seconds of compiling; 0: compiled."""
        if self._forms:
            return 0.0
        return self.took + loading()

    @property
    def width(self) -> int:
        """The number of slices side by side, as far as known."""
        return max((key[-1] for key, x in self._lanes.items() if x.is_good), default=1)

    @property
    def took(self) -> float:
        """What compiling it takes, about; no less than it has taken."""
        price = LIMITS.typed_compiling + LIMITS.typed_per_instruction * self._size
        return max(price, self._took)

    def _unrolls(self, form: str) -> bool:
        if form != LANES:
            return self._size < LIMITS.typed_unrolled
        return self._size < LIMITS.typed_lanes_unrolled and not self._calls

    def compile(
        self, form: str = ONE, side_by_side: bool = True, width: int = 0
    ) -> compiler.Function:
        """The function in a form, compiled if that has not been done.

        `side_by_side`: whether the elements of slices lie so, which makes no difference to lanes,
        or numbers. `width`: how many lanes; 0: as many as there may be.

        Raises
        ------
        UnsupportedError
            If a library has no function that it calls, or it has no such form.
        CompilerError
            If LLVM does not take it.
        """
        key = self._key(form, side_by_side, width or widths()[0])
        found = self._forms.get(key)
        if found is None:
            self._addresses()
            target = compiler.host()
            began, loads = time.thread_time(), loading() > 0
            if form == LANES:
                how = (key[-1], self._may_warn, c_library.is_near(), side_by_side)
                text = text_of.kernel_of_lanes(self.made, target, *how)
            else:
                text = text_of.kernel(
                    self.made,
                    target,
                    form == QUIET,
                    c_library.is_near(),
                    warns=self._may_warn,
                    side_by_side=side_by_side,
                )
            found = compiler.compile(
                text,
                text_of.NAME,
                target=target,
                passes=True,
                unrolls=self._unrolls(form),
                vectorizes=not self._may_warn and form != LANES,
            )
            self._forms[key], self.has_compiled = found, True
            if form == ONE and not loads:
                self._took = time.thread_time() - began
        return found

    def _function(self, form: str, layout: Prepared) -> compiler.Function:
        """The function in a form, for arrays that lie so."""
        found: compiler.Function | None = layout.functions.get(form)
        if found is None:
            found = self.compile(form, layout.side_by_side, layout.width)
            layout.functions[form] = found
        return found

    def _key(self, form: str, side_by_side: bool, width: int) -> tuple[str, bool, int]:
        if form == LANES:
            return form, side_by_side or not self._of_numbers, width
        return form, side_by_side, 1

    def run(
        self,
        arrays: Sequence[np.ndarray],
        outs: Sequence[np.ndarray],
        batch: int,
        seconds: float = math.inf,
        originals: Sequence[np.ndarray] = (),
        form: str = "",
        short: bool = False,
        given: Numbers = NO_NUMBERS,
    ) -> np.ndarray | None:
        """Run on all slices: the marks, ``(*batch shape)``, 0 where a result was written.

        Parameters
        ----------
        arrays : sequence of array
            Each ``(*batch shape, *slice shape)``; lengths of 1 of the batch are not spread.
        outs : sequence of array
            Each ``(*batch shape, *result shape)``.
        batch : int
            How many axes the batch has.
        seconds : float
            What the function itself takes for a slice that is marked.
        originals : sequence of array
            The arrays as they are, if the function writes to them: those are copies then.
        form : str
            The form to run in, however long others take; what lanes leave runs as `ONE` then.
        short : bool
            Whether to return None where no slice is marked: many marks take long to look at.
        given : Numbers
            See `numbers`.
        """
        layout, everything = self._lying(arrays, outs, batch)
        settled, marks = layout.settled() if short and not form else "", None
        if settled and (workers := self._workers(settled, layout)):
            marks = self._shortly(settled, layout, everything, workers, given)
            if marks is None:
                return None
        else:
            settled = ""
        call, marks = self._begun(layout, everything, outs, marks, given)
        if form:
            is_any = self._go(form, call, 0, layout.count)
            if form == LANES:
                self._go_again(ONE, call, marks, 0, layout.count)
        elif settled == ONE:
            is_any = True
        else:
            is_any = self._in_forms(call, marks, begun=bool(settled))
        if short and not is_any:
            return None
        # a comparison may have noted NaN, of which NumPy says nothing
        left = is_any and call.noted and self._compares and np.count_nonzero(marks)
        if left := left and np.count_nonzero(marks == WARNED):
            self._waited += left * seconds
            if not self.waits:
                for x, was in zip(arrays, originals, strict=False):
                    here_again = marks.reshape(layout.shape) == WARNED
                    x[here_again] = was[here_again]
                self._go_again(QUIET, call, marks, 0, layout.count)
        return marks.reshape(layout.shape)

    def in_order(
        self, arrays: Sequence[Any], outs: Sequence[Any], batch: int, given: Numbers = NO_NUMBERS
    ) -> tuple[Callable[[int, int], Any], np.ndarray]:
        """A function that runs a range of slices, and the array of marks.

        For a function that draws random numbers, which goes through slices as the loop does.
        """
        layout, everything = self._lying(arrays, outs, batch)
        marks = np.zeros(layout.count, np.uint16)
        call, _ = self._begun(layout, everything, outs, marks, given)
        form = QUIET if call.noted and self._compares else ONE
        return lambda begin, end: self._go(form, call, begin, end), marks

    def _lying(
        self, arrays: Sequence[np.ndarray], outs: Sequence[np.ndarray], batch: int
    ) -> tuple[Prepared, list[np.ndarray]]:
        """How all arrays lie, and a list of them."""
        self.has_compiled = False
        everything, places = [*arrays, *outs], [batch]
        for x in everything:  # each has as many axes as in other calls
            if not x.flags.aligned:
                raise UnsupportedError(_ODD)
            places += x.shape
            places += x.strides
        key = tuple(places)
        layout: Prepared | None = self._layouts.get(key)
        if layout is None:
            layout = self._layouts[key] = self._layout(arrays, outs, batch)
        return layout, everything

    def _begun(
        self,
        layout: Prepared,
        everything: list[np.ndarray],
        outs: Sequence[np.ndarray],
        marks: np.ndarray | None,
        given: Numbers,
    ) -> tuple[Call, np.ndarray]:
        """A call, and its marks, which may be there."""
        self._function(ONE, layout)
        if marks is None:
            marks = np.empty(layout.count, np.uint16)
        arguments = [of_array(marks), *layout.axes, *layout.given(everything)]
        kept = [marks, *everything, *given.arrays]
        note = noted() if self._may_warn else 0
        return Call(layout, note, arguments, outs, kept, given), marks

    def _workers(self, form: str, layout: Prepared) -> int:
        """How many threads do all slices in one go; 0: that would take too long."""
        seconds = layout.rates[form] * layout.count
        if seconds < LIMITS.typed_alone:
            return 1
        most = self._at_most()
        if most > 1:
            if not _crew().takes(len(layout.places)):
                return 0
            crowd = layout.crowds.get(form)
            if crowd is None:
                crowd = layout.crowds[form] = _crew().Crowd()
            most = crowd.chosen(threads.worth(seconds, LIMITS.typed_helper), most)
        return most if LIMITS.typed_dearer * seconds < LIMITS.typed_turn * most else 0

    def _at_most(self) -> int:
        """How many threads may share slices."""
        if threads.is_within() or self.made.sources:  # who draws does so in order
            return 1
        return config.current().thread_count()

    def _shortly(
        self, form: str, layout: Prepared, everything: list[Any], workers: int, given: Numbers
    ) -> np.ndarray | None:
        """All slices in one go: their marks, or None if no slice is marked.

        The same as `_go` does, for the calls that take least.
        """
        try:
            kit = layout.kits.pop()  # no other thread has it now
        except IndexError:
            kit = Kit.of(layout, workers)
        if len(kit.frames) < workers:
            kit = Kit.of(layout, workers)
        count, tile = layout.count, layout.tile if form == LANES else 0
        arena = self._memory(layout.tile, workers)
        kit.place(arena, tile, workers)
        if given is not NO_NUMBERS:
            given.into(kit.frames)
        noting, known = noted() if self._may_warn else 0, layout.rates[form]
        function, operands = self._function(form, layout), layout.given(everything)
        began = time.perf_counter()
        if workers == 1:
            kit.drawn.fill(0)
            own = (count, count, count, noting, 0, arena.at)
            function.call(compiler.packed(*kit.before, *own, *kit.after, *operands))
            took, told = time.perf_counter() - began, bool(kit.drawn[1])
            if form in layout.crowds:
                layout.crowds[form].add(1, took)
        else:
            least = max(int(LIMITS.typed_share / known), count // (LIMITS.typed_pieces * workers))
            span = 0, count, max(1, least)
            arguments = (0, 0, 0, 0, 0, noting, 0, 0, *kit.after, *operands)
            width = layout.width if form == LANES else 1
            work = _crew().of_typed(function, arguments, kit.frames, arena[1:], span, width)
            told = _crew().together(work, workers, layout.crowds[form])
            took = time.perf_counter() - began
        # the rate of one thread is between these, whoever has done what
        rate = min(max(known, took / count), took * workers / count)
        layout.rates[form] = min(rate, LIMITS.typed_dearer * known)
        self._arenas.append(arena)
        if told and np.count_nonzero(kit.marks):  # where it may be, some kernels say so
            return kit.marks
        layout.kits.append(kit)
        return None

    def _layout(
        self, arrays: Sequence[np.ndarray], outs: Sequence[np.ndarray], batch: int
    ) -> Prepared:
        everything = [*arrays, *outs]
        if any(s % x.itemsize for x in everything for s in x.strides):
            raise UnsupportedError(_ODD)
        shape = everything[-1].shape[:batch]
        strides = [x.strides[:batch] for x in everything]
        dims = merged(shape, list(zip(*strides, strict=True)), range(batch)) if batch else []
        dims = dims[::-1] if dims and dims[0].axis > dims[-1].axis else dims
        sizes = np.array([d.size for d in dims] or [1], np.int64)
        steps = [np.array([d.steps[k] for d in dims] or [0], np.int64) for k in range(len(strides))]
        own, count = [x.shape[batch:] for x in arrays], math.prod(shape)
        for width in widths():
            tile = text_of.tile_bytes(self.made, own, width)
            fits = tile <= LIMITS.typed_tile and count >= 4 * width
            if fits:
                break
        words = words_of(self.made, self._frame, self._addresses(), (arrays, outs), batch)
        numbers = sum(map(math.prod, own))
        places = [of_array(s) for s in steps]
        near = all(x.strides[-1] == x.itemsize for x in everything if x.ndim > batch)
        if self._of_numbers:
            near = sizes[-1] >= LIMITS.typed_row
            near = near and all(s[-1] == x.itemsize for s, x in zip(steps, everything, strict=True))
        lanes = self._lanes.setdefault(self._key(LANES, near, width), Lanes())
        how = numbers, tile, width, fits, near, lanes
        return Prepared(shape, count, sizes, steps, places, words, *how)

    def _in_forms(self, call: Call, marks: np.ndarray, begun: bool = False) -> bool:
        """All slices: one after the other, or side by side once that is seen to pay.

        Whether any may be marked. `begun`: whether they have run side by side.
        """
        lanes, count = call.layout.lanes, call.layout.count
        if not call.layout.fits or lanes.is_good is False:
            return self._go(ONE, call, 0, count)
        if lanes.is_good:
            again = self._beside(call, marks, 0, count, begun)
            if again > LIMITS.typed_lanes_left * count:
                lanes.again()
            return again > 0
        if self._lanes_key(call) in self._forms:
            self._look(call, marks)
        else:
            self._begin_lanes(call, marks)
        return True

    def _lanes_key(self, call: Call) -> tuple[str, bool, int]:
        return self._key(LANES, call.layout.side_by_side, call.layout.width)

    def _begin_lanes(self, call: Call, marks: np.ndarray) -> None:
        """All slices, and the lanes' first look once one after the other has taken long enough."""
        lanes, count = call.layout.lanes, call.layout.count
        price = LIMITS.typed_lanes_price * self.took
        done = count if count < LIMITS.typed_lanes_tried else -(-count // 8)
        lanes.took += self._timed(ONE, call, marks, 0, done)
        if lanes.took + lanes.one * (count - done) < price:
            lanes.took += self._timed(ONE, call, marks, done, count)
            return
        try:
            self.compile(*self._lanes_key(call))
        except (UnsupportedError, CompilerError):
            lanes.is_good = False
            self._go(ONE, call, done, count)
            return
        if self._same(call, marks, done):
            self._timed(LANES, call, marks, done, count)
        else:
            lanes.is_good = False
            self._go(ONE, call, 0, count)

    def _look(self, call: Call, marks: np.ndarray) -> None:
        """Both ways on half of the slices each, or by turns on all, if they are few."""
        lanes, count, width = call.layout.lanes, call.layout.count, call.layout.width
        forms = (LANES, ONE) if lanes.is_turned else (ONE, LANES)
        lanes.is_turned = not lanes.is_turned
        half = count if count < LIMITS.typed_lanes_tried else -(-count // (2 * width)) * width
        self._timed(forms[0], call, marks, 0, half)
        self._timed(forms[1], call, marks, half, count)

    def _timed(self, form: str, call: Call, marks: np.ndarray, begin: int, end: int) -> float:
        """Run some slices in a form and time them."""
        if begin == end:
            return 0.0
        began = time.process_time()  # other processes may have the processor meanwhile
        if form == LANES:
            self._beside(call, marks, begin, end)
        else:
            self._go(form, call, begin, end)
        took = time.process_time() - began
        call.layout.lanes.add(form, took / (end - begin))
        return took

    def _beside(
        self, call: Call, marks: np.ndarray, begin: int, end: int, begun: bool = False
    ) -> int:
        """Run some slices side by side; return the number run again one by one.

        `begun`: whether they have run, and some are marked.
        """
        if not (begun or self._go(LANES, call, begin, end)):
            return 0
        return self._go_again(ONE, call, marks, begin, end)

    def _go_again(self, form: str, call: Call, marks: np.ndarray, begin: int, end: int) -> int:
        """Run again those marked as warned of; return their number."""
        left = np.flatnonzero(marks[begin:end] == WARNED)
        if left.size:
            first, last = left[[0, -1]].tolist()
            self._go(form, call, begin + first, begin + last + 1, again=True)
        return int(left.size)

    def _same(self, call: Call, marks: np.ndarray, done: int) -> bool:
        """Whether the first slices have the same results side by side."""
        n = min(done, LIMITS.typed_lanes_checked)
        before, good = call.firsts(n), marks[:n] == 0
        self._go(LANES, call, 0, n)
        self._go_again(ONE, call, marks, 0, n)
        if marks[:n][good].any():
            return False
        return all(alike(a[good], b[good]) for a, b in zip(before, call.firsts(n), strict=True))

    @property
    def waits(self) -> bool:
        """Whether slices stay marked until another form, which would not mark them, has paid."""
        return 0.0 < self._waited < LIMITS.typed_worth * self.took

    def _memory(self, tile: int, workers: int = 1) -> Arena:
        """Memory for so many threads, of calls that have ended if that is enough."""
        size = self._arena + tile
        while self._arenas:
            try:
                arena = self._arenas.pop()  # no other thread has it now
            except IndexError:
                break
            if arena.fits(size, workers):
                return arena
        return Arena.of(size, workers)

    def _addresses(self) -> np.ndarray:
        if not self._tables:
            words = [w for name in self.made.externals for w in externals.address(*name)]
            # of threads that come at once each may make one, whose address calls may have then
            self._tables.append(np.array(words or [0], np.uintp))
        return self._tables[0]

    def _go(self, form: str, call: Call, begin: int, end: int, again: bool = False) -> bool:
        """Run some slices in one form; `again`: only those marked as warned of.

        Whether any is marked.
        """
        if begin == end:
            return False
        function = self._function(form, call.layout)
        tile = call.layout.tile if form == LANES else 0
        drawn = np.array((begin, 0), np.int64)  # and whether any is marked
        frames: list[np.ndarray] = []

        def some(until: int, piece: int) -> None:
            """Draw pieces up to a slice; others draw as well."""
            arena, frame = self._memory(tile), call.frames(1)
            frames.append(frame)
            arena.into(frame, tile, 1)
            own = of_array(frame), of_array(drawn), until, end, piece, call.noted, again, arena.at
            function.call(compiler.packed(*own, *call.arguments))
            self._arenas.append(arena)

        rates, began = call.layout.rates, time.perf_counter()
        known = rates.get(form, math.inf)
        seconds, at_most = known * (end - begin), 1
        is_short = seconds < LIMITS.typed_alone
        if not is_short:
            at_most = self._at_most()
        if is_short or (at_most == 1 and LIMITS.typed_dearer * seconds < LIMITS.typed_turn):
            some(end, end - begin)
            if not again:
                took = time.perf_counter() - began
                rates[form] = min(took / (end - begin), LIMITS.typed_dearer * known)
            return bool(drawn[1])
        # the first slices tell how many are done before an interruption is looked for
        width = call.layout.width if form == LANES else 1
        each, first = math.inf, begin
        for _ in range(2):  # where they take very long, something else may have the processor
            some_numbers = 1024 // max(1, call.layout.numbers)
            count = max(1, some_numbers if known == math.inf else int(LIMITS.typed_piece / known))
            before, first = first, min(end, first + -(-count // width) * width)
            since = time.perf_counter()
            some(first, first - before)  # no lane stays empty
            each = min(each, max(1e-9, (time.perf_counter() - since) / (first - before)))
            if first == end:
                if not again:
                    rates[form] = min(each, LIMITS.typed_dearer * known)
                return bool(drawn[1])
            if each < LIMITS.typed_dearer * known:
                break
        count = end - first
        share = min(each, LIMITS.typed_dearer * known) * count
        alone = LIMITS.typed_alone if known < math.inf else LIMITS.typed_alone_first
        shares = at_most > 1 and share > alone
        helped = shares and _crew().takes(len(call.layout.places))
        wake = LIMITS.typed_helper if helped else LIMITS.typed_thread
        workers = min(at_most, threads.worth(share, wake)) if shares else 1
        turn = max(1, int(LIMITS.typed_turn / each))
        piece = turn
        if workers > 1:
            least = max(int(LIMITS.typed_piece / each), count // (LIMITS.typed_pieces * workers))
            piece = min(turn, max(1, least))
        piece = -(-piece // width) * width
        workers = min(workers, -(-count // piece))
        turns = [*range(first + turn, end, turn), end]

        def work(turns: Iterator[int]) -> None:
            for until in turns:
                some(until, piece)

        if workers == 1:
            threads.in_threads(work, iter(turns), 1)
        elif not helped:
            # who is at its last turn goes on to the end, so each thread has to have one
            turns += [end] * (workers - 1)
            threads.in_threads(work, iter(turns), workers, short=True)
        else:
            arena, rows = self._memory(tile, workers), call.frames(workers)
            arena.into(rows, tile, workers)
            arguments = (0, 0, 0, 0, 0, call.noted, int(again), 0, *call.arguments)
            span = first, end, piece
            shared = _crew().of_typed(function, arguments, rows, arena[1:], span, width)
            with _crew().beside(shared, workers) as others:

                def beside(turns: Iterator[int]) -> None:
                    for until in turns:
                        others.turn(until)

                threads.in_threads(beside, iter(turns), 1)
            drawn[1] |= others.told()
            self._arenas.append(arena)
        if not again:
            took = (time.perf_counter() - began) * workers / (end - begin)
            rates[form] = min(took, each, LIMITS.typed_dearer * known)
        return bool(drawn[1])


def _crew() -> Any:
    """Helpers, which a first call need not load."""
    from . import crew

    return crew

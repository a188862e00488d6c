"""Typed functions, compiled, on arrays that lie in any way."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ... import config
from ...arrays.layout import merged
from ...codegen.llvm import typed as text_of
from ...errors import UnsupportedError
from ...ir.typed import TypedFunction
from ...ir.typed.function import NOTED, WARNED
from ...limits import LIMITS
from ...runtime import threads
from . import compiler, externals
from .addresses import of_array
from .host import loading

_ALLOCATE = frozenset("new,map,as type,copy,new list,append,repeat".split(","))
"""Instructions that make arrays and lists."""
_WARN = frozenset("call,ufunc,map,reduce,as type,put array,put list".split(","))
"""Instructions of which NumPy may warn, besides those that say so."""
_COMPARE = frozenset("lt le gt ge eq ne".split())


def why_not() -> str | None:
    """Why no typed function runs here; None: it does."""
    why = compiler.why_not()
    if why is None and compiler.host().name == "SSE2":
        return "this CPU rounds no floats by itself"
    return why


class Compiled:
    """A typed function, to be run on all slices of arrays.

    Parameters
    ----------
    made : TypedFunction
        The function.
    """

    def __init__(self, made: TypedFunction) -> None:
        self.made = made
        self._forms: dict[bool, compiler.Function] = {}  # the quiet one, and the other
        instructions = [x for b in made.blocks for x in b.instructions]
        self._waited = 0.0  # seconds that the quiet one might have saved
        self._may_warn = any(x.op in _WARN or x.what == NOTED for x in instructions)
        self._compares = any(
            x.op in _COMPARE and np.dtype(str(x.args[0].type)).kind == "f" for x in instructions
        )
        self._frame = text_of.fields(made)
        self._table: np.ndarray | None = None
        self._arenas: list[np.ndarray] = []
        allocates = any(x.op in _ALLOCATE for x in instructions)
        self._arena = LIMITS.typed_arena if allocates else 64

    @property
    def seconds(self) -> float:
        """What compiling takes, about; 0: it is done."""
        if self._forms:
            return 0.0
        return self._own_seconds() + loading()

    def _own_seconds(self) -> float:
        return LIMITS.typed_compiling + LIMITS.typed_per_instruction * self.made.size

    def compile(self, quiet: bool = False) -> compiler.Function:
        """The function, compiled if that has not been done; `quiet`: as of `kernel`.

        Raises
        ------
        UnsupportedError
            If a library has no function that it calls.
        CompilerError
            If LLVM does not take it.
        """
        found = self._forms.get(quiet)
        if found is None:
            if self._table is None:
                words = [w for name in self.made.externals for w in externals.address(*name)]
                self._table = np.array(words or [0], np.uintp)
            target = compiler.host()
            text = text_of.kernel(self.made, target, quiet)
            short = self.made.size < LIMITS.typed_unrolled
            found = compiler.compile(text, text_of.NAME, target=target, passes=True, unrolls=short)
            self._forms[quiet] = found
        return found

    def run(
        self,
        arrays: Sequence[np.ndarray],
        outs: Sequence[np.ndarray],
        batch: int,
        seconds: float = math.inf,
        originals: Sequence[np.ndarray] = (),
    ) -> np.ndarray:
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
        """
        function = self.compile()
        everything = [*arrays, *outs]
        shape = outs[0].shape[:batch] if outs else arrays[0].shape[:batch]
        for x in everything:
            if any(s % x.itemsize for s in x.strides) or not x.flags.aligned:
                raise UnsupportedError("its elements lie at odd places")
        strides = [x.strides[:batch] for x in everything]
        dims = merged(shape, list(zip(*strides, strict=True)), range(batch)) if batch else []
        dims = dims[::-1] if dims and dims[0].axis > dims[-1].axis else dims
        sizes = np.array([d.size for d in dims] or [1], np.int64)
        steps = [np.array([d.steps[k] for d in dims] or [0], np.int64) for k in range(len(strides))]
        count = math.prod(shape)
        marks = np.zeros(count, np.uint16)
        arguments = [marks.ctypes.data, len(sizes), sizes.ctypes.data]
        for x, s in zip(everything, steps, strict=True):
            arguments += [of_array(x), s.ctypes.data]
        noted = _noted() if self._may_warn else 0
        self._go(function, arrays, outs, batch, count, [noted, 0, *arguments])
        # a comparison may have noted NaN, of which NumPy says nothing
        left = noted and self._compares and (marks == WARNED).sum()
        if left:
            self._waited += left * seconds
            if not self.waits:
                quiet = self.compile(quiet=True)
                for x, was in zip(arrays, originals, strict=False):
                    again = marks.reshape(shape) == WARNED
                    x[again] = was[again]
                self._go(quiet, arrays, outs, batch, count, [noted, 1, *arguments])
        return marks.reshape(shape)

    @property
    def waits(self) -> bool:
        """Whether slices are marked for what another form would not mark, once that has paid."""
        return 0.0 < self._waited < LIMITS.typed_worth * self._own_seconds()

    def _words(
        self, arrays: Sequence[np.ndarray], outs: Sequence[np.ndarray], batch: int
    ) -> np.ndarray:
        """The frame, but for the memory of a thread."""
        found = np.zeros(self._frame.count, np.int64)
        assert self._table is not None
        found[0] = self._table.ctypes.data
        places = [*self._frame.inputs, *self._frame.results]
        for x, (dims, strides) in zip([*arrays, *outs], places, strict=True):
            found[dims], found[strides] = x.shape[batch:], x.strides[batch:]
        for x, (base, (dims, strides)) in zip(
            self.made.constants, self._frame.constants, strict=True
        ):
            found[base], found[dims], found[strides] = x.ctypes.data, x.shape, x.strides
        return found

    def _go(
        self,
        function: compiler.Function,
        arrays: Sequence[np.ndarray],
        outs: Sequence[np.ndarray],
        batch: int,
        count: int,
        arguments: list[int],
    ) -> None:
        words = self._words(arrays, outs, batch)

        def some(start: int, stop: int) -> None:
            frame = words.copy()
            try:
                arena = self._arenas.pop()  # no other thread has it now
            except IndexError:
                arena = np.empty(self._arena, np.uint8)
            frame[1] = arena.ctypes.data + -arena.ctypes.data % 16
            frame[2] = arena.ctypes.data + arena.nbytes
            packed = compiler.packed(frame.ctypes.data, start, stop, *arguments)
            function.call(packed)
            self._arenas.append(arena)

        # the first slices tell how many are done before an interruption is looked for
        numbers = sum(math.prod(x.shape[batch:]) for x in arrays)
        began, first = time.perf_counter(), min(count, max(1, 4096 // max(1, numbers)))
        some(0, first)
        each = (time.perf_counter() - began) / max(1, first)
        if first == count:
            return
        workers = min(config.current().thread_count(), count - first)
        left = each * (count - first)
        if left < 2e-4:
            some(first, count)
            return
        chunk = max(1, min(int(0.02 / max(each, 1e-9)), -(-(count - first) // (4 * workers))))
        if workers == 1:
            for start in range(first, count, chunk):
                some(start, min(count, start + chunk))
            return
        ends = [*range(first, count, chunk), count]

        def work(ranges: Iterator[tuple[int, int]]) -> None:
            for start, stop in ranges:
                some(start, stop)

        threads.in_threads(work, itertools.pairwise(ends), workers, left < 2e-3)


def _noted() -> int:
    """What the processor notes that NumPy would warn of, or raise, now."""
    arm = compiler.host().triple.startswith("aarch64")
    state: dict[str, Any] = dict(np.geterr())
    said = sum(bits[arm] for name, bits in text_of.BITS.items() if state[name] != "ignore")
    return said | text_of.ALWAYS

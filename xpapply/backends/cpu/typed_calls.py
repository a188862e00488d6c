"""Calls of a compiled typed function: layout of arrays, and forms."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ...arrays.addresses import of_array
from ...codegen.llvm import typed as text_of
from ...codegen.llvm.typed.forms import Frame
from ...ir.typed import Instruction, TypedFunction
from ...ir.typed.function import NOTED
from ...limits import LIMITS
from . import compiler

if TYPE_CHECKING:
    from .crew import Crowd

ONE, QUIET, LANES = "one", "quiet", "lanes"
"""Forms of a function: one slice after the other, the same with quiet comparisons, and slices side
by side."""


def widths() -> tuple[int, ...]:
    """How many slices may go side by side, the most first.

    Two registers each of 512 bits: what waits for one of them goes on with the other.
    """
    few = LIMITS.typed_lanes
    return (2 * few, few) if compiler.host().bits >= 512 else (few,)


@dataclass(slots=True)
class Lanes:
    """The trial of slices side by side: both ways are timed in turn until one is plainly faster.

    Attributes
    ----------
    is_good : bool or None
        Whether that is quicker; None: not known yet.
    took : float
        CPU seconds that one after the other has taken before lanes were compiled.
    one, beside : float
        The least CPU seconds of a slice, one after the other and side by side.
    looks : int
        How often slices were timed side by side.
    is_turned : bool
        Whether the next look begins side by side: what comes first finds colder memory.
    uses : int
        How many short calls there were since it was decided.
    """

    is_good: bool | None = None
    took: float = 0.0
    one: float = math.inf
    beside: float = math.inf
    looks: int = 0
    is_turned: bool = False
    uses: int = 0

    def add(self, form: str, seconds: float) -> None:
        """A timing of a slice in a form, which may decide.

        One timing may be three times too long, where something else has the processor, and one of
        no time at all is that of a clock which has not moved.
        """
        seconds = max(seconds, 1e-12)
        if form != LANES:
            # of those before the first look only the last counts: both ways are timed as often
            self.one = min(self.one, seconds) if self.looks else seconds
            return
        self.beside = min(self.beside, seconds)
        self.looks += 1
        gain, near = LIMITS.typed_lanes_gain, LIMITS.typed_lanes_near
        share = self.beside / self.one
        is_plain = not gain / near < share < gain * near
        if self.looks >= (LIMITS.typed_lanes_looks if is_plain else LIMITS.typed_lanes_most):
            self.is_good = share < gain

    def again(self) -> None:
        """Look again, from now on."""
        self.is_good, self.beside, self.looks = None, math.inf, 0

    def use(self) -> bool:
        """Count a call. Whether it is time to look once more.

        The first calls, in which it was decided, touch memory that the process did not have.
        """
        self.uses += 1
        if self.uses != LIMITS.typed_lanes_later or not self.looks:
            return False
        self.again()
        return True


@dataclass(frozen=True, slots=True)
class Prepared:
    """The part of a call that is shared by the same layout.

    Attributes
    ----------
    shape : tuple of int
        Of the batch.
    count : int
        How many slices there are.
    sizes : array
        The axes that slices are gone through along.
    steps : list of array
        The strides of each array along them.
    places : list of int
        Where these lie.
    words : array
        The frame, but for the memory of a thread.
    numbers, tile, width : int
        How many numbers a slice has, bytes of as many slices as there are lanes, and how many
        lanes.
    fits : bool
        Whether slices may go side by side: there are enough, and they take little memory.
    side_by_side : bool
        Whether the elements of slices and results lie side by side; of a function of numbers,
        whether these follow each other in rows.
    lanes : Lanes
        The trial of slices side by side, which all of such functions share.
    functions : dict
        Machine code, by form, as far as it was wanted.
    rates : dict
        Seconds of one thread for a slice, by form, as they were seen.
    kits : list of Kit
        Memory of calls that have ended.
    crowds : dict
        How many threads did best, by form.
    """

    shape: tuple[int, ...]
    count: int
    sizes: np.ndarray
    steps: list[np.ndarray]
    places: list[int]
    words: np.ndarray
    numbers: int
    tile: int
    width: int
    fits: bool
    side_by_side: bool
    lanes: Lanes
    functions: dict[str, Any] = field(default_factory=dict)
    rates: dict[str, float] = field(default_factory=dict)
    kits: list[Kit] = field(default_factory=list)
    crowds: dict[str, Crowd] = field(default_factory=dict)

    @property
    def axes(self) -> tuple[int, int]:
        """The arguments that say along which axes slices lie."""
        return len(self.sizes), of_array(self.sizes)

    def given(self, everything: Iterable[np.ndarray]) -> list[int]:
        """The arguments for slices and results."""
        found: list[int] = []
        for x, place in zip(everything, self.places, strict=True):
            found += (of_array(x), place)
        return found

    def settled(self) -> str:
        """The form in which all of it is done, if its rate is known; "": not known yet."""
        good = self.lanes.is_good if self.fits else False
        form = ONE if good is False else LANES
        if good is None or form not in self.rates or (self.fits and self.lanes.use()):
            return ""
        return form


class Kit(NamedTuple):
    """Memory that a call needs beside its arrays, which the next one takes over.

    Attributes
    ----------
    frames, drawn, marks : array
        Of each thread; how many slices were drawn, and whether any is marked; of each slice.
    before, after : tuple of int
        Where these lie, as arguments.
    placed : list
        The arena that the frames know, how large the tile before it is, and of how many.
    """

    frames: np.ndarray
    drawn: np.ndarray
    marks: np.ndarray
    before: tuple[int, ...]
    after: tuple[int, ...]
    placed: list[tuple[int, int, int, int]]

    @classmethod
    def of(cls, layout: Prepared, workers: int = 1) -> Kit:
        """One for arrays that lie so."""
        frames, drawn = np.tile(layout.words, (workers, 1)), np.zeros(2, np.int64)
        marks = np.empty(layout.count, np.uint16)
        before, after = (of_array(frames), of_array(drawn)), (of_array(marks), *layout.axes)
        return cls(frames, drawn, marks, before, after, [])

    def place(self, arena: Arena, tile: int, workers: int) -> None:
        """Let each thread's frame know its part of the arena, behind its tile."""
        placed = arena.at, arena.step, tile, workers
        if placed not in self.placed:
            arena.into(self.frames, tile, workers)
            self.placed[:] = (placed,)


class Arena(NamedTuple):
    """Memory of several threads for the arrays that they make.

    Attributes
    ----------
    memory : array
        All of it.
    at, step : int
        Where that of the first thread begins, and how far it is from one to the next.
    """

    memory: np.ndarray
    at: int
    step: int

    @classmethod
    def of(cls, size: int, workers: int) -> Arena:
        """So many bytes for each."""
        step = size + -size % 64
        memory = np.empty(step * workers + 64, np.uint8)
        place = of_array(memory)
        return cls(memory, place + -place % 64, step)

    def fits(self, size: int, workers: int) -> bool:
        """Whether it has so many bytes for so many."""
        return self.step >= size and self.memory.nbytes > self.step * workers

    def into(self, frames: np.ndarray, tile: int, workers: int) -> None:
        """Write down where that of each thread is, behind its tile."""
        if workers == 1:
            frames[0, 1], frames[0, 2] = self.at + tile, self.at + self.step
            return
        begins = np.arange(self.at, self.at + workers * self.step, self.step)
        frames[:workers, 1] = begins + tile
        frames[:workers, 2] = begins + self.step


def words_of(
    made: TypedFunction,
    frame: Frame,
    table: np.ndarray,
    arrays: tuple[Sequence[np.ndarray], Sequence[np.ndarray]],
    batch: int,
) -> np.ndarray:
    """The frame of calls with such slices and results, but for the memory of a thread."""
    found = np.zeros(frame.count, np.int64)
    found[0] = of_array(table)
    places = [*frame.inputs, *frame.results]
    for x, (dims, strides) in zip([*arrays[0], *arrays[1]], places, strict=True):
        found[dims], found[strides] = x.shape[batch:], x.strides[batch:]
    for x, (base, (dims, strides)) in zip(made.constants, frame.constants, strict=True):
        found[base], found[dims], found[strides] = of_array(x), x.shape, x.strides
    return found


class Numbers(NamedTuple):
    """Numbers that a call gives, in the place of constants.

    Attributes
    ----------
    bases : sequence of int
        Where the frame has the addresses of those.
    arrays : sequence of array
        Of one number each; who calls holds them.
    """

    bases: Sequence[int] = ()
    arrays: Sequence[np.ndarray] = ()

    def into(self, frames: np.ndarray) -> None:
        """Write down where they are, for each thread."""
        for base, x in zip(self.bases, self.arrays, strict=True):
            frames[:, base] = of_array(x)


NO_NUMBERS = Numbers()


class Call(NamedTuple):
    """A call, for all forms.

    Attributes
    ----------
    layout : Prepared
        How its arrays lie.
    noted : int
        Which notes of the processor are marks.
    arguments : list of int
        Where marks, slices and results are.
    outs : sequence of array
        The results.
    kept : list of array
        All that threads read and write, which may do so a little longer than who is interrupted.
    numbers : Numbers
        Those that it gives.
    """

    layout: Prepared
    noted: int
    arguments: list[int]
    outs: Sequence[np.ndarray]
    kept: list[np.ndarray]
    numbers: Numbers

    def frames(self, count: int) -> np.ndarray:
        """Frames of so many threads, but for their memory."""
        words = self.layout.words
        found = words.copy()[None] if count == 1 else np.tile(words, (count, 1))
        if self.numbers is not NO_NUMBERS:
            self.numbers.into(found)
        return found

    def firsts(self, count: int) -> list[np.ndarray]:
        """Copies of the results of the first slices."""
        sizes, batch = self.layout.sizes, len(self.layout.shape)
        at = np.unravel_index(np.arange(count), tuple(sizes))
        steps = self.layout.steps[-len(self.outs) :]
        return [
            as_strided(x, (*sizes, *x.shape[batch:]), (*own, *x.strides[batch:]))[at]
            for x, own in zip(self.outs, steps, strict=True)
        ]


_SILENT = frozenset(
    "add,sub,mul,div,rem,and,or,xor,shl,shr,copysign,lt,le,gt,ge,eq,ne,sqrt,abs,floor,ceil,"
    "trunc,rint,neg,not,select,complex,real,imag,cast,overflows,mark,catch,round,input,draw,seed,"
    "constant,load,store,length,stride,element,set element,row,view,new axis,part,diagonal,"
    "transpose,"
    "new,fill,copy,expected,put,new list,append,repeat,list length,list item,set list item,pop,"
    "clear,copy list,push,pull,jump,branch,return,leave,run,given".split(",")
)
"""Instructions of which NumPy never warns, but for those that say so (`NOTED`)."""


ALLOCATE = frozenset("push,new,map,as type,copy,new list,append,repeat".split(","))
"""Instructions that make arrays and lists."""

COMPARE = frozenset("lt le gt ge eq ne".split())


def may_warn(made: TypedFunction, x: Instruction) -> bool:
    """Whether NumPy may warn of an instruction."""
    if x.op in ("put array", "put list"):  # which may convert their elements
        k, dtype = x.what
        return bool(dtype != made.results[k].dtype)
    return x.op not in _SILENT or x.what == NOTED


def alike(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether results have equal bits, NaN aside."""
    if a.dtype.kind == "c":
        return alike(a.real, b.real) and alike(a.imag, b.imag)
    if a.dtype.kind != "f":
        return np.array_equal(a, b)
    nan = np.isnan(a)
    same = np.array_equal(a, b, equal_nan=True)
    return same and bool((np.signbit(a) == np.signbit(b))[~nan].all())


def noted() -> int:
    """The floating-point flags of which NumPy would warn now."""
    arm = compiler.host().triple.startswith("aarch64")
    state: dict[str, Any] = dict(np.geterr())
    said = sum(bits[arm] for name, bits in text_of.BITS.items() if state[name] != "ignore")
    return said | text_of.ALWAYS

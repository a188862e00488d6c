"""Helpers: threads that stay in machine code, and run kernels beside the caller.

A thread of Python's has to get the interpreter's lock twice to run a kernel, which takes 0.1 ms
where many do. A helper never asks for it: see `codegen.llvm.helpers`. One call of a compiled
function calls helpers, works beside them and waits for those that have begun. On Linux alone:
elsewhere `threads.in_threads` serves.
"""

from __future__ import annotations

import ctypes
import functools
import os
import signal
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ... import config
from ...arrays.addresses import of_array
from ...codegen.llvm import helpers as text
from ...errors import CompilerError
from ...limits import LIMITS
from . import compiler
from .machine_code import Function

MOST = text.MOST_ARGUMENTS
"""The most arguments of a kernel for helpers."""
_NO_END = 1 << 62
_order = struct.Struct("23q")


class Order(NamedTuple):
    """Which arguments of a kernel say which slices it shall go through, and which are a worker's.

    Attributes
    ----------
    start, stop, until, size : int
        The first slice of a piece, the one after its last (twice), and how many these are.
    drawn : int
        The address of two numbers of a worker: the first may be `start`, and the second tells
        something, unless it is 0.
    own : tuple of two int
        What each worker has of its own.
    """

    start: int
    stop: int
    until: int = text.NOWHERE
    size: int = text.NOWHERE
    drawn: int = text.NOWHERE
    own: tuple[int, int] = (text.NOWHERE, text.NOWHERE)


TYPED = Order(text.PAIR, 2, 3, 4, drawn=1, own=(0, 7))
"""Of kernels of typed functions: a thread's frame and its tile are its own."""
SLICES = Order(2, 3, own=(1, text.NOWHERE))
"""Of kernels of slice graphs: a thread's scratch is its own."""


class Work(NamedTuple):
    """What is to be done together.

    Attributes
    ----------
    kernel : Function
        What all run.
    order : Order
        Where it is told of its piece.
    arguments : tuple of int
        Of the kernel; those of `order` are replaced.
    own : tuple of int
        Twice the first worker's argument, and the difference between one and the next.
    first, end, piece : int
        The slices, and how many are drawn at a time.
    width : int
        Ranges of workers begin at multiples of it.
    """

    kernel: Function
    order: Order
    arguments: tuple[int, ...]
    own: tuple[int, int, int, int]
    first: int
    end: int
    piece: int
    width: int = 1


def of_typed(
    function: Function,
    arguments: tuple[int, ...],
    frames: np.ndarray,
    arena: tuple[int, int],
    span: tuple[int, int, int],
    width: int,
) -> Work:
    """The work of a typed function.

    `arena`: where the memory of the first thread begins, and how far it is to the next one's;
    `span`: slices, and how many are drawn at a time.
    """
    first, end, piece = span
    piece = -(-piece // width) * width  # no lane stays empty
    own = of_array(frames), frames.strides[0], *arena
    return Work(function, TYPED, arguments, own, first, end, piece, width)


def takes(operands: int) -> bool:
    """Whether there are helpers, for typed functions with so many arrays and results."""
    return is_there() and 11 + 2 * operands <= MOST


class _Team:
    """The caller and some helpers, which wait for work.

    Its memory is never given back, nor the code that helpers run: when the interpreter ends, they
    still wait.
    """

    def __init__(self, start: _Start) -> None:
        at = start.libc.calloc(text.WORDS + 8, 8)
        if not at:
            raise MemoryError("no memory for other threads")
        self._start, self._at = start, at + -at % 64
        self._words = (ctypes.c_int64 * text.WORDS).from_address(self._at)
        for word, of in zip((text.SLEEP, text.WAKE, text.CLOCK), start.functions, strict=True):
            self._words[word] = of
        self.helpers = self.ranges = 0
        self._spins = config.cpus()

    def grow(self, count: int) -> None:
        """Have so many helpers, or as many as there can be."""
        libc, count = self._start.libc, min(count, text.MOST_WORKERS - 1)
        while self.helpers < count:
            number = self.helpers + 1
            slot = text.slot(number)
            self._words[slot + text.TEAM], self._words[slot + text.NUMBER] = self._at, number
            here, thread = self._at + 8 * slot, ctypes.c_ulong()
            for semaphore in (text.GO, text.SAID):
                libc.sem_init(here + 8 * semaphore, 0, 0)
            # signals are for Python's threads
            before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
            try:
                if libc.pthread_create(ctypes.byref(thread), None, self._start.stay, here):
                    return  # fewer do as well
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
            libc.pthread_detach(thread)
            self.helpers = number

    def told(self) -> bool:
        """Whether a worker said so."""
        return bool(self._words[text.TOLD])

    def order(self, work: Work, workers: int, is_short: bool) -> None:
        """Write down what is to be done; `is_short`: in one go, each worker its own part first."""
        order, count = work.order, work.end - work.first
        self.ranges = workers if is_short else 1
        share = -(-count // self.ranges)
        share += -share % work.width
        spin = int(1e9 * LIMITS.typed_spin) if workers <= self._spins else 0
        own = work.own
        _order.pack_into(
            self._words,
            0,
            *(work.kernel.address, len(work.arguments), workers - 1, work.first, work.end),
            *(work.piece, self.ranges, share, order.start, order.stop, order.until, order.size),
            *(order.drawn, order.own[0], own[0], own[1], order.own[1], own[2], own[3]),
            *(spin, 0, _NO_END, 0),
        )
        _packed_into[len(work.arguments)](self._words, 8 * text.ARGUMENTS, *work.arguments)

    def run(self) -> None:
        """All of it at once, unless what interrupts this is raised: see `join`."""
        self._start.run.call(self._at)

    def begin(self) -> None:
        """Call helpers."""
        self._words[text.WAITS] = 1
        self._start.begin.call(self._at)

    def turn(self, until: int) -> None:
        """Work until a slice."""
        self._words[text.MOST] = until
        self._start.turn.call(self._at)

    def join(self) -> None:
        """Wait for helpers. What interrupts this is raised; it can be called again."""
        while self._words[text.WAITS]:
            self._start.join.call(self._at)

    def stop(self) -> None:
        """Let helpers come to their end soon."""
        for k in range(self.ranges):
            at = text.range_of(k)
            self._words[at] = self._words[at + 1]


@dataclass(slots=True)
class Crowd:
    """How many workers do best: what calls with some numbers of them took is remembered.

    Attributes
    ----------
    took : dict
        Seconds of a call, by number of workers: of late, more by those that took less.
    tried : dict
        How often each was tried.
    calls : int
        How many there were.
    """

    took: dict[int, float] = field(default_factory=dict)
    tried: dict[int, int] = field(default_factory=dict)
    calls: int = 0

    def chosen(self, guess: int, most: int) -> int:
        """How many workers the next call shall have; `guess`: before any is known.

        Half as many as did best, and twice as many, are tried a few times, one call after the
        other, as who has slept for long wakes slowly; and again now and then.
        """
        options = (*_powers(most), most)
        known = [n for n in options if n in self.took]
        if not known:
            return max(n for n in options if n <= max(1, guess))
        self.calls += 1
        at = options.index(min(known, key=self.took.__getitem__))
        near = options[at], *options[max(0, at - 1) : at], *options[at + 1 : at + 2]
        for n in near:
            if self.tried.get(n, 0) < LIMITS.crowd_tries:
                return n
        looks, tries = LIMITS.crowd_looks, LIMITS.crowd_tries
        look = self.calls % (looks if self.calls > looks else looks // 4)
        return near[look // tries + 1] if look < tries * (len(near) - 1) else options[at]

    def add(self, count: int, seconds: float) -> None:
        """Note what a call took. One may be far too long, where something else runs."""
        was = self.took.get(count, seconds)
        share, now = (2, seconds) if seconds < was else (8, min(seconds, 2.0 * was))
        self.took[count] = was + (now - was) / share
        self.tried[count] = self.tried.get(count, 0) + 1


@functools.cache
def _powers(most: int) -> tuple[int, ...]:
    """Powers of two below a number."""
    return tuple(1 << k for k in range(max(0, most - 1).bit_length()))


_packed_into = [struct.Struct(f"{count}q").pack_into for count in range(MOST + 1)]
_free: list[_Team] = []
_lock = threading.Lock()


class _Start(NamedTuple):
    """The C library, its functions that helpers call, and our own ones."""

    libc: ctypes.CDLL
    functions: tuple[int, int, int]
    stay: int
    begin: Function
    turn: Function
    join: Function
    run: Function


@functools.cache
def _start() -> _Start | None:
    """What is needed; None: there are no helpers here."""
    if sys.platform != "linux" or ctypes.sizeof(ctypes.c_void_p) != 8:
        return None
    libc = ctypes.CDLL(None)
    try:
        libc.calloc.restype = ctypes.c_void_p
        libc.calloc.argtypes = [ctypes.c_size_t] * 2
        libc.sem_init.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_uint]
        libc.pthread_create.argtypes = [ctypes.c_void_p] * 4
        libc.pthread_detach.argtypes = [ctypes.c_ulong]
        functions = [
            ctypes.cast(of, ctypes.c_void_p).value or 0
            for of in (libc.sem_wait, libc.sem_post, libc.clock_gettime)
        ]
        stay = compiler.compile(text.helpers(compiler.host()), text.STAY)
        others = [stay.beside(x) for x in (text.BEGIN, text.TURN, text.JOIN, text.RUN)]
    except (AttributeError, CompilerError):
        return None
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(stay))  # longer than the interpreter
    return _Start(libc, (functions[0], functions[1], functions[2]), stay.address, *others)


def _taken(helpers: int) -> _Team:
    """Reserve a team with so many helpers, or as many as there can be."""
    start = _start()
    if start is None:
        raise CompilerError("there are no helpers here")
    with _lock:
        team = _free.pop() if _free else None
    if team is None:
        team = _Team(start)
    if team.helpers < helpers:
        team.grow(helpers)
    return team


def is_there() -> bool:
    """Whether helpers are available."""
    return _start() is not None


def together(work: Work, workers: int, crowd: Crowd) -> bool:
    """Have so many workers do something at once, the caller among them.

    Whether a kernel has told something. `crowd`: is told what that took.
    """
    team = _taken(workers - 1)
    began = time.perf_counter()
    try:
        team.order(work, min(workers, team.helpers + 1), is_short=True)
        try:
            team.run()
        except BaseException:
            team.stop()
            raise
        finally:
            _wait(team)
        crowd.add(workers, time.perf_counter() - began)
        return team.told()
    finally:
        with _lock:
            _free.append(team)


class Beside(NamedTuple):
    """Helpers at work.

    Attributes
    ----------
    turn : callable
        Works beside them until a slice.
    told : callable
        Whether a kernel has told something; asked at the end.
    """

    turn: Callable[[int], None]
    told: Callable[[], bool]


@contextmanager
def beside(work: Work, workers: int) -> Iterator[Beside]:
    """Have helpers do something until the caller is through, turn by turn, and they are too."""
    team = _taken(workers - 1)
    try:
        team.order(work, min(workers, team.helpers + 1), is_short=False)
        try:
            team.begin()
            yield Beside(team.turn, team.told)
        except BaseException:
            team.stop()
            raise
        finally:
            _wait(team)
    finally:
        with _lock:
            _free.append(team)


def _wait(team: _Team) -> None:
    """Wait for all, whatever interrupts this."""
    error: BaseException | None = None
    while True:
        try:
            team.join()
            break
        except BaseException as raised:
            error = raised
            team.stop()
    if error is not None:
        raise error


def _in_child() -> None:
    """Reset in a forked process, which has no threads and may have a locked lock."""
    global _lock
    _lock = threading.Lock()
    _free.clear()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_in_child)

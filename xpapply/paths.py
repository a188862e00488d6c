"""What a Python function does to a slice, path by path, and how all slices run through it.

Tracing ``f`` on one slice gives a *path*: the library calls that ``f`` made, and
the decisions (truth values, lengths, indices) that it took from the data. Paths that
begin alike share their beginning, so they form a tree. A block of slices runs
down the tree: calls run for all slices at once, by the batching rules in
`known`; at a decision the slices part, and each goes on only with those that
decide as it does. So no call ever sees a slice that ``f`` would not have shown it.
Where slices decide as none before, ``f`` is traced on one of them and the tree grows.
"""

from __future__ import annotations

import contextlib
import functools
import math
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from . import error_state
from .errors import TraceError
from .known import Known, Rows, in_namespace
from .known.ragged import Ragged
from .known.rules import leaves, mapped, on_device
from .warning_filters import silent


@dataclass(frozen=True, slots=True)
class Ref:
    """The result of call number `index`, or the part `item` of it; number 0 is the slice."""

    index: int
    item: tuple[int | str, ...] = ()


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a library function; `args` and `kwargs` hold a `Ref` for each traced value."""

    row: Known
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    where: str
    """The user's line, "file:line"."""
    errstate: tuple[tuple[str, str], ...] | None = None
    """NumPy's error state that ``f`` has set around the call; None: that of the caller."""
    quiet: bool = False
    """Whether ``f`` ignores warnings around the call."""
    shape: tuple[int, ...] = ()
    dtype: Any = None
    """Shape and dtype of the result for one slice, where it is one NumPy array."""


@dataclass(frozen=True, slots=True)
class Decision:
    """``f`` asked for a value: a truth, a length, an index."""

    ref: Ref
    value: Any
    where: str


@dataclass(frozen=True, slots=True)
class Off:
    """Where a path ends because ``f`` raises, or may: such slices are left to ``f`` itself.

    `decided`: whether the last decision alone tells that. Nothing that ``f`` does afterwards
    depends on the slice or is seen outside, so that it may run for each of them.
    """

    why: str
    decided: bool
    more: bool = False
    """Whether ``f`` makes further calls then, which may raise for other slices."""


@dataclass(frozen=True, slots=True)
class Path:
    """One run of ``f``: its steps in order, and the result (a `Ref`, a constant array or `Off`)."""

    steps: tuple[Call | Decision, ...]
    result: Any
    shape: tuple[int, ...] = ()
    """Shape and dtype of the result."""
    dtype: Any = None


@dataclass(eq=False)
class Segment:
    """Calls without a decision between them."""

    first: int
    """The number of the first call."""
    calls: list[Call] = field(default_factory=list)
    asks: Ref | None = None
    children: dict[Any, Segment] = field(default_factory=dict)
    result: Any = None
    shape: tuple[int, ...] = ()
    dtype: Any = None
    longest: int = 0
    """Calls from here to the end of the longest path."""
    reused: set[int] = field(default_factory=set)
    """Numbers of the calls that may write into the array that they get."""
    needless: set[int] = field(default_factory=set)
    """Numbers of the calls whose results nothing uses."""


class TooManyPaths(TraceError):
    """``f`` takes ever new paths."""


class Differs(TraceError):
    """A run of ``f`` does not fit what earlier runs did, or what the batching rules found."""


MOST_PATHS = 512


class Tree:
    """All paths of a function that have been seen."""

    def __init__(self, first: Path) -> None:
        self.root = Segment(1)
        self.count = 0
        self.lock = threading.RLock()
        self.catches = False
        """Whether ``f`` catches exceptions."""
        self.harmless: set[tuple[Segment, int, type]] = set()
        """Exceptions after which ``f`` is known to do nothing but compute."""
        self.add(first)

    def add(self, path: Path) -> None:
        """Take up a path."""
        with self.lock:
            at, position, fresh = self.root, 0, self.count == 0
            reusing, unused = _reusing(path), _unused(path)
            total = sum(isinstance(step, Call) for step in path.steps)
            for step in path.steps:
                if isinstance(step, Call):
                    number = at.first + position
                    if fresh:
                        at.calls.append(step)
                        at.reused |= reusing & {number}
                        at.needless |= unused & {number}
                    elif position >= len(at.calls) or not same(at.calls[position], step):
                        raise Differs(f"two runs of it differ in what they do at {step.where}")
                    else:
                        at.needless -= {number} - unused
                    position += 1
                    continue
                at.longest = max(at.longest, total - at.first + 1)
                if fresh:
                    at.asks = step.ref
                elif at.asks != step.ref or position != len(at.calls):
                    raise Differs(f"two runs of it differ in what they ask at {step.where}")
                child = at.children.get(step.value)
                if child is None:
                    child = at.children[step.value] = Segment(at.first + len(at.calls))
                    fresh = True
                at, position = child, 0
            if not fresh:
                raise Differs("a slice takes another path alone than among the others")
            at.result, at.shape, at.dtype = path.result, path.shape, path.dtype
            at.longest = max(at.longest, total - at.first + 1)
            self.count += 1

    def segments(self) -> Iterator[Segment]:
        """All segments."""
        todo = [self.root]
        while todo:
            found = todo.pop()
            yield found
            todo += found.children.values()

    def calls(self) -> Iterator[Call]:
        """All calls."""
        for s in self.segments():
            yield from s.calls

    @property
    def masks(self) -> bool:
        """Whether values are taken by a mask."""
        return any(c.row.how in _LAZY for c in self.calls())

    @property
    def branches(self) -> bool:
        """Whether anything depends on the data."""
        return self.root.asks is not None


_WRITES = frozenset(("write", "write by a mask"))
_FRESH = frozenset(("elementwise", "new"))
"""Kinds of rows whose results share no memory with what they get."""
_LAZY = frozenset(("lazy",))
"""Kinds of rows that need not run where nothing uses the result: they cannot raise or warn."""


def _reusing(path: Path) -> set[int]:
    """The writes that may be done in place.

    Those into an array that a write has made and of which nothing else was kept: no view, no copy,
    no selection. That does not depend on what comes later, on this path or on one not yet found.
    """
    calls = [step for step in path.steps if isinstance(step, Call)]
    kept: set[int] = set()  # whose memory something else may look at
    found = set()
    for number, call in enumerate(calls, 1):
        if call.row.name in _WRITES:
            array = call.args[0]
            others = references((call.args[1:], call.kwargs))
            made = isinstance(array, Ref) and array.index and not array.item
            if (
                made
                and calls[array.index - 1].row.name in _WRITES
                and array.index not in kept
                and all(ref.index != array.index for ref in others)
            ):
                found.add(number)
            continue
        number_alone = call.dtype is not None and call.shape == () and call.row.name == "index"
        if call.row.how in _FRESH or number_alone:
            continue
        kept |= {ref.index for ref in references((call.args, call.kwargs))}
    return found


def _unused(path: Path) -> set[int]:
    """Calls that need not run."""
    used = {ref.index for ref in references(path.result)}
    for step in path.steps:
        found = (step.args, step.kwargs) if isinstance(step, Call) else step.ref
        used |= {ref.index for ref in references(found)}
    calls = [step for step in path.steps if isinstance(step, Call)]
    return {k for k, c in enumerate(calls, 1) if c.row.how in _LAZY and k not in used}


def references(tree: Any) -> Iterator[Ref]:
    """Every `Ref` in arguments."""
    return leaves(tree, Ref)


def same(a: Any, b: Any) -> bool:
    """Whether two steps, or parts of them, are the same."""
    if type(a) is not type(b):
        return False
    if isinstance(a, Call):
        return (
            a.row is b.row
            and a.errstate == b.errstate
            and same(a.args, b.args)
            and same(a.kwargs, b.kwargs)
        )
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, np.ndarray):
        if a is b:
            return True
        return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()
    if isinstance(a, slice):
        return same((a.start, a.stop, a.step), (b.start, b.stop, b.step))
    if isinstance(a, (float, complex, np.generic)):
        return repr(a) == repr(b)  # NaN equals itself, 0.0 is not -0.0
    return bool(a is b or a == b)


class _Values:
    """The results of calls for some of the slices of a block; gathered when asked for."""

    __slots__ = ("_index", "_later", "_own", "_parent")

    def __init__(self, parent: _Values | None = None, index: Any = None) -> None:
        self._own: dict[int, Any] = {}
        self._later: dict[int, Callable[[], Any]] = {}
        self._parent, self._index = parent, index

    def __setitem__(self, number: int, value: Any) -> None:
        self._own[number] = value

    def __getitem__(self, number: int) -> Any:
        found = self._own.get(number)
        if found is None:
            later = self._later.get(number)
            if later is not None:
                found = later()
            else:
                assert self._parent is not None
                found = _gathered(self._parent[number], self._index)
            self._own[number] = found
        return found

    def defer(self, number: int, call: Callable[[], Any]) -> None:
        """A result that nothing asks for, as far as is known."""
        self._later[number] = call


def _gathered(value: Any, index: Any) -> Any:
    if isinstance(value, Rows):
        return Rows(value.array[index])
    if isinstance(value, Ragged):
        return value.take(index)
    if isinstance(value, (tuple, list)):
        found = _Parts(_gathered(x, index) for x in value)
        for name, x in getattr(value, "__dict__", {}).items():
            setattr(found, name, _gathered(x, index))
        return found
    return value


class _Parts(list):
    """Several results, some of which may have only a name."""


def filled(tree: Any, values: Any) -> Any:
    """Arguments with every `Ref` replaced by its `Rows`."""

    def found(ref: Ref) -> Any:
        value = values[ref.index]
        for k in ref.item:
            value = vars(value)[k] if isinstance(k, str) else value[k]
        return value

    return mapped(found, tree, Ref)


def invoke(xp: Any, call: Call, args: tuple, kwargs: dict) -> Any:
    """Run a call by its batching rule, under the error state that ``f`` set."""
    function = None if "." not in call.row.name else in_namespace(xp, call.row.name)
    if function is not None and xp.__name__ == "cupy":
        function = on_device(xp, function)
    if call.errstate is None and not call.quiet:
        return call.row.rule(xp, function, args, kwargs)
    with contextlib.ExitStack() as stack:
        if call.quiet:
            stack.enter_context(silent())
        if call.errstate is not None:
            own = error_state.for_notes(call.errstate)
            stack.enter_context(np.errstate(**own))  # type: ignore[arg-type]
        return call.row.rule(xp, function, args, kwargs)


_FEW_TRIES = 64
"""Calls to find out which slices raise, in a block of few."""


@dataclass(slots=True)
class _Block:
    """The slices of a block, where their results go, and which of them are left to ``f``."""

    rows: Any
    out: Any
    off: list[int]
    start: int = 0
    """The number of the first of them."""
    until: float = math.inf
    """When the loop would be done with these slices."""
    end: Segment | None = None
    """Where the last path ended."""
    errors: set[str] = field(default_factory=set)
    """The floating-point errors that NumPy has reported since they were last looked at."""

    def note(self, kind: str, _: int) -> None:
        self.errors.add(kind)

    def leave(self, index: Any) -> None:
        self.off += range(len(self.rows)) if index is None else index.tolist()


SECONDS_PER_CALL = 8e-6
"""What a call takes, however few slices there are."""


class Walk:
    """Run blocks of slices down a tree.

    Parameters
    ----------
    tree : Tree
        Grows where slices decide as none before.
    xp : module
        The namespace of the arrays.
    grow : callable (slice) -> Off or None
        Traces ``f`` on a slice and adds the path; an `Off` for this slice alone is not added.
    seconds : float
        What a call of ``f`` takes.
    patience : float
        Seconds that a block may take beyond those of the loop.

    Attributes
    ----------
    off : list of int
        The slices off all paths, which ``f`` has to be called for, one by one.
    warning : set of int
        Slices for which NumPy has warnings: one for each call and kind.
    """

    def __init__(
        self,
        tree: Tree,
        xp: Any,
        grow: Callable[[Any], Off | None],
        seconds: float,
        patience: float,
    ) -> None:
        self.tree, self.xp = tree, xp
        self._grow, self._seconds, self._patience = grow, seconds, patience
        self.off: list[int] = []
        self.warning: set[int] = set()
        self._warned: set[tuple[Segment, int, str]] = set()
        self._errstate = error_state.noted() if xp is np else None
        self.first: tuple[Any] | None = None
        """The result of ``f`` for the first slice, if that was asked for."""

    def end(self, rows: Any) -> Segment | None:
        """Where the path of one slice ends; None: off all paths."""
        values = _Values()
        values[0] = Rows(rows)
        block = _Block(rows, None, [])
        with np.errstate(all="ignore"):  # the slice runs once more, with the others
            self._down(self.tree.root, values, None, block)
        return block.end

    def __call__(self, rows: Any, out: Any, start: int) -> None:
        """Results of all `rows` ``(B, M)`` into `out` ``(B, *result shape)``.

        `start`: the number of the first of them.
        """
        values = _Values()
        values[0] = Rows(rows)
        off: list[int] = []
        until = time.perf_counter() + self._patience + len(rows) * self._seconds
        block = _Block(rows, out, off, start, until)
        with self._state(block):
            self._down(self.tree.root, values, None, block)
        self.off += [start + k for k in off]

    def _state(self, block: _Block) -> Any:
        """NumPy's error state while a block runs."""
        if self._errstate is None:
            return contextlib.nullcontext()
        return np.errstate(**self._errstate, call=block.note)  # type: ignore[arg-type]

    def _down(self, at: Segment, values: _Values, index: Any, block: _Block) -> None:
        """`index`: which of the rows these are (None: all of them)."""
        while True:
            number = at.first
            for call in at.calls:
                if number in at.needless:
                    values.defer(number, functools.partial(self._invoke, at, number, call, values))
                    number += 1
                    continue
                try:
                    values[number] = self._invoke(at, number, call, values)
                except TraceError:
                    raise
                except Exception:
                    if not self.tree.catches:
                        raise
                    # what f does about an exception, only f knows
                    raised = self._raising(call, values)
                    whole = self.xp.arange(len(block.rows)) if index is None else index
                    self._check_harmless(at, number, raised, whole, block.rows)
                    bad = np.array([e is not None for e in raised])
                    block.leave(whole[np.flatnonzero(bad)])
                    if bad.all():
                        return
                    good = np.flatnonzero(~bad)
                    values, index = _Values(values, good), whole[good]
                    values[number] = self._invoke(at, number, call, values)
                if block.errors:
                    self._reported(at, number, call, values, index, block)
                number += 1
            if at.asks is None:
                self._write(at, values, index, block)
                return
            if time.perf_counter() > block.until:
                raise TooManyPaths(f"its slices go too many ways ({self.tree.count} and more)")
            asked = filled(at.asks, values).array
            parts = self._parts(asked.reshape(asked.shape[0]))
            for answer, part in parts:
                child, skipped = self._child(at, answer, part, index, block)
                if skipped:
                    part = (self.xp.arange(len(asked)) if part is None else part)[skipped:]
                whole = part if index is None else index if part is None else index[part]
                if child is None:
                    continue
                if self._quick(child, len(asked) if part is None else len(part)):
                    block.leave(whole)
                elif part is None:
                    at = child
                    break
                else:
                    self._down(child, _Values(values, part), whole, block)
            else:
                return

    def _parts(self, asked: Any) -> list[tuple[Any, Any]]:
        """The answers, and which slices gave them; None: all."""
        xp = self.xp
        if (asked == asked[0]).all():
            return [(asked[0].item(), None)]
        if asked.dtype == bool or str(asked.dtype) == "torch.bool":
            no = ~asked
            return [(False, _true(xp, no)), (True, _true(xp, asked))]
        if xp is not np:
            asked = np.asarray(asked.get() if hasattr(asked, "get") else asked.cpu())
        answers = np.unique(asked)
        return [(a.item(), np.flatnonzero(asked == a)) for a in answers]

    def _invoke(self, at: Segment, number: int, call: Call, values: _Values) -> Any:
        args, kwargs = filled(call.args, values), filled(call.kwargs, values)
        if number in at.reused:
            kwargs["in_place"] = True
        found = invoke(self.xp, call, args, kwargs)
        if call.dtype is not None and self.xp is np and isinstance(found, Rows):
            array = found.array  # e.g. eigenvalues: complex for some matrices only
            if array.dtype != call.dtype or array.shape[1:] != call.shape:
                raise Differs(f"{call.row.name} has another shape or dtype for some slices")
        return found

    def _reported(
        self, at: Segment, number: int, call: Call, values: _Values, index: Any, block: _Block
    ) -> None:
        """Find a slice for each error that NumPy reported of a call, once."""
        errors, block.errors = block.errors, set()
        for kind in errors:
            if (at, number, kind) in self._warned:
                continue
            self._warned.add((at, number, kind))
            args, kwargs = filled(call.args, values), filled(call.kwargs, values)

            def run(part: Any, args: Any = args, kwargs: Any = kwargs) -> Any:
                return invoke(self.xp, call, _picked(args, part), _picked(kwargs, part))

            k = error_state.first_with(kind, run, _batch(next(leaves((args, kwargs), _BATCHED))))
            if k is not None:
                self.warning.add(block.start + (k if index is None else int(index[k])))

    def _raising(self, call: Call, values: _Values) -> list[type | None]:
        """What a call raises for each slice."""
        args, kwargs = filled(call.args, values), filled(call.kwargs, values)
        batch = _batch(next(leaves((args, kwargs), _BATCHED)))
        found: list[type | None] = [None] * batch
        todo = [np.arange(batch)]
        tries = 0
        while todo:
            part = todo.pop()
            tries += 1
            if tries > _FEW_TRIES + batch // 8:
                raise TooManyPaths(f"many of its slices raise ({call.where})")
            try:
                invoke(self.xp, call, _picked(args, part), _picked(kwargs, part))
            except TraceError:
                raise
            except Exception as error:
                if len(part) == 1:
                    found[part[0]] = type(error)
                else:
                    todo += np.array_split(part, 2)
        return found

    def _check_harmless(
        self, at: Segment, number: int, raised: list[type | None], whole: Any, rows: Any
    ) -> None:
        """Trace ``f`` on one slice for each kind of exception: it may print, or count them."""
        for kind in set(raised) - {None}:
            assert kind is not None
            key = (at, number, kind)
            with self.tree.lock:
                if key in self.tree.harmless:
                    continue
                for k in [k for k, e in enumerate(raised) if e is kind]:
                    off = self._grow(rows[int(whole[k])])
                    if off is None:
                        raise Differs("a call raises for several slices, not for one")
                    if not off.more:
                        self.tree.harmless.add(key)
                        break

    def _child(
        self, at: Segment, answer: Any, part: Any, index: Any, block: _Block
    ) -> tuple[Segment | None, int]:
        """Where slices with this answer go on, and how many of the first of them do not."""
        with self.tree.lock:
            many = len(part) if part is not None else len(block.rows if index is None else index)
            for k in range(many):
                if answer in at.children:
                    return at.children[answer], k
                row = k if part is None else int(part[k])
                row = row if index is None else int(index[row])
                if self._grow(block.rows[row]) is None:
                    if answer not in at.children:
                        raise Differs("a slice takes another path alone than among the others")
                    return at.children[answer], k
                block.off.append(row)
            return None, many

    def _quick(self, child: Segment, many: int) -> bool:
        """Whether calls of ``f`` take less time; only where all that it does is known."""
        if child.asks is not None or isinstance(child.result, Off):
            return False
        return child.longest * SECONDS_PER_CALL > many * self._seconds

    def _write(self, at: Segment, values: _Values, index: Any, block: _Block) -> None:
        block.end, out = at, block.out
        if isinstance(at.result, Off):
            block.end = None
            block.leave(index)
            return
        if out is None:
            return
        result = filled(at.result, values)
        where = slice(None) if index is None else index
        if not isinstance(result, Rows):
            # CuPy does not write what is on the host
            out[where] = self.xp.asarray(result) if self.xp.__name__ == "cupy" else result
            return
        array = result.array
        missing = out.ndim - array.ndim
        if missing > 0:
            array = array.reshape(len(array), *(1,) * missing, *result.shape)
        while missing < 0 and array.shape[1] == 1:
            # as NumPy's assignment does, leading axes of length 1 go
            array, missing = array[:, 0], missing + 1
        if array.shape[1:] != out.shape[1:]:
            if np.broadcast_shapes(array.shape[1:], out.shape[1:]) != out.shape[1:]:
                raise Differs("results have different shapes")
        out[where] = array


def _batch(x: Rows | Ragged) -> int:
    return len(x.array) if isinstance(x, Rows) else len(x.counts)


def _true(xp: Any, mask: Any) -> Any:
    return xp.flatnonzero(mask) if hasattr(xp, "flatnonzero") else mask.nonzero()[:, 0]


_BATCHED = (Rows, Ragged)


def _picked(tree: Any, part: Any) -> Any:
    """Arguments of some of the slices."""
    return mapped(lambda x: _gathered(x, part), tree, _BATCHED)

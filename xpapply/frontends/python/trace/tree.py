"""The tree of paths of a Python function.

Tracing ``f`` on one slice gives a *path*: the library calls that ``f`` made, and
the decisions (truth values, lengths, indices) that it took from the data. Paths that
begin alike share their beginning, so they form a tree, which `executor.py` runs blocks of
slices down. The tree knows how long each value is needed, and with that how many bytes
a slice has alive at once.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ....batching import Batched, BatchingRule, in_namespace, ragged
from ....batching.rules import SINGLY, leaves, on_device
from ....errors import Differs
from ....runtime import error_state
from ....runtime.warning_filters import silent
from .decisions import deciding, exactly, is_power


@dataclass(frozen=True, slots=True)
class Ref:
    """The result of call number `index`, or the part `item` of it; number 0 is the slice."""

    index: int
    item: tuple[int | str, ...] = ()


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a library function; `args` and `kwargs` hold a `Ref` for each traced value."""

    row: BatchingRule
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    where: str
    """The user's line, "file:line"."""
    errstate: tuple[tuple[str, str], ...] | None = None
    """NumPy's error state that ``f`` has set around the call; None: that of the caller."""
    quiet: bool = False
    """Whether ``f`` ignores warnings of the call."""
    shape: tuple[int, ...] = ()
    dtype: Any = None
    """Shape and dtype of the result for one slice, where it is one NumPy array."""
    singly: bool = False
    """Whether its rule runs slice by slice, as far as the trace tells."""
    nbytes: int = 0
    """Bytes of the result for one slice, a number counted as 8 at least."""
    of_numbers: bool = False
    """Whether it is an operator on NumPy scalars, not the ufunc of that name."""
    view_of: int | None = None
    """The number of the call in whose memory the result lies; None: in memory of its own."""
    _uses: frozenset[int] | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def uses(self) -> frozenset[int]:
        """The numbers of the calls whose results it takes; 0 is the slice."""
        if self._uses is None:  # asked many times
            found = frozenset([ref.index for ref in references((self.args, self.kwargs))])
            object.__setattr__(self, "_uses", found)
            return found
        return self._uses


@dataclass(frozen=True, slots=True)
class Branch:
    """A decision: ``f`` has read a truth, a length, an index."""

    ref: Ref
    value: Any
    where: str


@dataclass(frozen=True, slots=True)
class SideExit:
    """A path's end where ``f`` raises, or may: such slices are left to ``f``.

    `decided`: whether the last decision alone tells that. Nothing that ``f`` does afterwards
    depends on the slice or is seen outside, so that it may run for each of them.
    """

    why: str
    decided: bool
    more: bool = False
    """Whether ``f`` makes further calls then, which may raise for other slices."""
    by_hand: str = ""
    """Advice if the exception may come from the tracer rather than from the slice."""


@dataclass(frozen=True, slots=True)
class Path:
    """One run of ``f``: steps in order, and the result: a `Ref`, an array or a `SideExit`."""

    steps: tuple[Call | Branch, ...]
    result: Any
    shape: tuple[int, ...] = ()
    """Shape and dtype of the result."""
    dtype: Any = None

    @property
    def raises_errors(self) -> bool:
        """Whether ``f`` turns NumPy's warnings into errors."""
        calls = [step for step in self.steps if isinstance(step, Call)]
        return any("raise" in dict(step.errstate or ()).values() for step in calls)


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
    seconds: float = 0.0
    """What ``f`` takes for a slice that ends here, if its price does not know of that yet."""
    longest: int = 0
    """Calls from here to the end of the longest path."""
    reused: set[int] = field(default_factory=set)
    """Numbers of the calls that may write into the array that they get."""
    needless: set[int] = field(default_factory=set)
    """Numbers of calls with unused results."""
    needs: frozenset[int] = frozenset()
    """Numbers of the earlier calls whose results are used from here on."""
    exact: set[int] = field(default_factory=set)
    """Numbers of the calls whose last bit may decide something: see `decisions.py`."""
    relies: set[int] = field(default_factory=set)
    """Ancestors, negative: a block that has these keys has the own ones too."""
    frees: list[list[int]] = field(default_factory=list)
    """For each call the numbers of values that are dead after it."""
    nbytes: int = 1
    """Bytes that a slice has alive here at the worst moment."""


class Tree:
    """All paths of a function that have been seen; `nbytes`: the bytes of a slice."""

    def __init__(self, first: Path, nbytes: int = 8) -> None:
        self.root = Segment(1)
        self._nbytes = nbytes
        self.per_call = 0
        """Bytes that a call reads or makes for a slice, on the average."""
        self.count = 0
        self.lock = threading.RLock()
        self.catches = False
        """Whether ``f`` catches exceptions."""
        self.harmless: set[tuple[Segment, int, type]] = set()
        """Exceptions after which ``f`` is known to have no side effects."""
        self.results: set[Any] = set()
        """Shapes and dtypes of the results at the ends of paths; None: the path is `SideExit`."""
        self.singly: set[str] = set()
        """Names of rows that have called their functions slice by slice while blocks ran."""
        self.calls: list[Call] = []
        """All calls."""
        self.exits, self.last_exit = 0, ""
        """Slices for which ``f`` raised when a path was looked for, and what it raised last."""
        self.masks = False
        """Whether masks select values."""
        self.powers = False
        """Whether numbers are raised to powers, which only C's library computes to the last bit."""
        self.add(first)

    @property
    def too_many_in_time(self) -> str:
        """Why looking for further paths ends before there are too many of them."""
        if self.exits >= self.count:
            which = "to find out for which takes longer than the loop"
            return f"{self.last_exit} for some slices, and {which}"
        why = f"its slices go too many ways ({self.count} known) for the time that the loop takes"
        return f"{why}{self.by_counts}"

    @property
    def by_counts(self) -> str:
        """The line where most paths part by the number of values of a mask; "" if none do."""
        parted = [s for s in self.segments() if s.asks is not None and len(s.children) > 2]
        for s in sorted(parted, key=lambda s: -len(s.children)):
            own = s.asks.index - s.first if s.asks is not None else -1
            if 0 <= own < len(s.calls) and s.calls[own].row.name == COUNTED:
                where = s.calls[own].where
                return f": one for each number of values that a mask leaves ({where})"
        return ""

    @property
    def too_long(self) -> str:
        """Why a run ends before all slices have their results."""
        if self.count > 1 or self.exits:
            return self.too_many_in_time
        return "all at once it takes longer than the loop"

    def add(self, path: Path, seconds: float = 0.0) -> None:
        """Take up a path, on which ``f`` takes so many seconds."""
        with self.lock:
            at, position, fresh = self.root, 0, self.count == 0
            along = [at]
            reusing, unused = _reusing(path), _unused(path)
            total = sum(isinstance(step, Call) for step in path.steps)
            for step in path.steps:
                if isinstance(step, Call):
                    number = at.first + position
                    if fresh:
                        at.calls.append(step)
                        self.calls.append(step)
                        self.masks |= step.row.lazy
                        self.powers |= is_power(step)
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
                along.append(at)
            if not fresh:
                raise Differs("a slice takes another path alone than among the others")
            at.result, at.shape, at.dtype = path.result, path.shape, path.dtype
            at.seconds = seconds
            self.results.add(
                None if isinstance(path.result, SideExit) else (path.shape, path.dtype)
            )
            at.longest = max(at.longest, total - at.first + 1)
            self.count += 1
            self._look_ahead(along)
            self._decide(path, along)

    def _look_ahead(self, along: list[Segment]) -> None:
        """Note how long the values on a path are needed, and how many bytes that takes."""
        sizes, views, moved = [self._nbytes], [0], self._nbytes
        for number, call in enumerate((c for s in along for c in s.calls), 1):
            sizes.append(_size(call, sizes))
            views.append(number if call.view_of is None else call.view_of)
            moved += max(sizes[n] for n in (number, *call.uses)) if views[-1] == number else 0
        self.per_call = self.per_call or max(1, moved // len(sizes))
        for s in reversed(along):
            s.needs, s.frees = _liveness(s)
            s.nbytes = _worst(s, sizes, views)

    def _decide(self, path: Path, along: list[Segment]) -> None:
        """Note the calls of a path whose last bit may decide something."""
        found = deciding(path.steps)
        for s in along if found else ():
            s.exact |= found & set(range(s.first, s.first + len(s.calls)))
            s.relies |= {-n for n in found if n < s.first}

    def segments(self) -> Iterator[Segment]:
        """All segments."""
        todo = [self.root]
        while todo:
            found = todo.pop()
            yield found
            todo += found.children.values()

    def paths(self) -> Iterator[Path]:
        """All paths, as they were added."""
        todo: list[tuple[Segment, tuple[Call | Branch, ...]]] = [(self.root, ())]
        while todo:
            at, before = todo.pop()
            steps = (*before, *at.calls)
            if at.asks is None:
                yield Path(steps, at.result, at.shape, at.dtype)
                continue
            for answer, child in at.children.items():
                todo.append((child, (*steps, Branch(at.asks, answer, "a decision"))))

    @property
    def goes_singly(self) -> bool:
        """Whether some call runs slice by slice."""
        return any(
            c.singly or SINGLY in c.row.name or c.row.name in self.singly for c in self.calls
        )

    def in_words(self) -> str:
        """A description of the calls, and whether slices part."""
        names: dict[str, int] = {}
        singly = set(self.singly)
        for call in self.calls:
            names[call.row.name] = names.get(call.row.name, 0) + 1
            if call.singly:
                singly.add(call.row.name)
        shown = []
        for name, k in list(names.items())[:8]:
            notes = [f"{k}x"] * (k > 1) + ["called slice by slice"] * (name in singly)
            shown.append(f"{name} ({', '.join(notes)})" if notes else name)
        text = "in blocks of slices: " + (", ".join(shown) or "a constant")
        if len(names) > 8:
            text += f" and {len(names) - 8} more"
        asked = {s.asks for s in self.segments() if s.asks is not None}
        if asked:
            text += "; slices are grouped by what they decide (paths are found while it runs)"
        return text

    @property
    def branches(self) -> bool:
        """Whether anything depends on the data."""
        return self.root.asks is not None


COUNTED = "count of a mask"
_WRITES = frozenset(("write", "write by a mask"))


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
        if (call.row.fresh and call.view_of is None) or number_alone:
            continue
        kept |= call.uses
    return found


def _unused(path: Path) -> set[int]:
    """Calls that need not run."""
    used = {ref.index for ref in references(path.result)}
    for step in path.steps:
        used |= step.uses if isinstance(step, Call) else {step.ref.index}
    calls = [step for step in path.steps if isinstance(step, Call)]
    return {k for k, c in enumerate(calls, 1) if c.row.lazy and k not in used}


def _liveness(s: Segment) -> tuple[frozenset[int], list[list[int]]]:
    """Earlier values that a segment and its descendants need; values dead after each call."""
    alive = {ref.index for ref in references((s.asks, s.result))}
    alive = alive.union(*(child.needs for child in s.children.values()))
    frees: list[list[int]] = []
    for k in range(len(s.calls) - 1, -1, -1):
        number, call = s.first + k, s.calls[k]
        if number in s.needless:
            frees.append([])
            continue
        frees.append([n for n in {number} | call.uses if n not in alive])
        alive = (alive - {number}) | call.uses
    return frozenset(alive - set(range(s.first, s.first + len(s.calls)))), frees[::-1]


def _worst(s: Segment, sizes: list[int], views: list[int]) -> int:
    """The most bytes that a slice has alive in a segment, by the sizes of values."""
    owner = {n: n for n in s.needs}  # the value in whose memory each lies
    users = dict.fromkeys(s.needs, 1)
    worst = alive = sum(sizes[n] for n in s.needs)
    for k, gone in enumerate(s.frees):
        number = s.first + k
        if number in s.needless:
            continue
        owner[number] = at = owner.get(views[number], number)
        users[at] = users.get(at, 0) + 1
        alive += sizes[number] if at == number else 0
        worst = max(worst, alive)
        for n in gone:
            users[owner[n]] -= 1
            alive -= 0 if users[owner[n]] else sizes[owner[n]]
    return max(worst, 1)


def _size(call: Call, sizes: list[int]) -> int:
    """Bytes of a result, at most: of the values of a mask another slice may have more."""
    if call.row in (ragged.SELECT, ragged.ELEMENTWISE):
        return max(sizes[n] for n in call.uses)
    return call.nbytes


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
    if hasattr(a, "untyped_storage"):
        return a is b or _same_tensors(a, b)
    if isinstance(a, slice):
        return same((a.start, a.stop, a.step), (b.start, b.stop, b.step))
    if isinstance(a, (float, complex, np.generic)):
        return repr(a) == repr(b)  # NaN equals itself, 0.0 is not -0.0
    return bool(a is b or a == b)


def _same_tensors(a: Any, b: Any) -> bool:
    """Whether two torch constants are equal bit for bit: NaN equals itself, 0.0 is not -0.0."""
    if a.shape != b.shape or a.dtype != b.dtype or a.device != b.device:
        return False
    torch = sys.modules["torch"]
    of_bytes = [t.detach().reshape(-1).contiguous().view(torch.uint8) for t in (a, b)]
    return bool(torch.equal(*of_bytes))


def invoke(xp: Any, call: Call, args: tuple, kwargs: dict, is_exact: bool = False) -> Any:
    """Run a call by its batching rule, under the error state that ``f`` set.

    `is_exact`: on NumPy's arrays with the bits of calls for single slices.
    """
    is_exact = is_exact and xp is np
    if xp is not np and "torch" in xp.__name__:  # f may have made a NumPy array of a tensor
        found = next(leaves((args, kwargs), (Batched, ragged.Ragged)), None)
        values = getattr(found, "array" if isinstance(found, Batched) else "flat", None)
        xp = np if isinstance(values, np.ndarray) else xp
    function = None if "." not in call.row.name else in_namespace(xp, call.row.name)
    if function is not None and xp.__name__ == "cupy":
        function = on_device(xp, function)
    if call.errstate is None and not call.quiet:
        return exactly(call, args) if is_exact else call.row.rule(xp, function, args, kwargs)
    with contextlib.ExitStack() as stack:
        if call.quiet:
            stack.enter_context(silent())
        if call.errstate is not None:
            own = error_state.for_notes(call.errstate)
            stack.enter_context(np.errstate(**own))  # type: ignore[arg-type]
        return exactly(call, args) if is_exact else call.row.rule(xp, function, args, kwargs)

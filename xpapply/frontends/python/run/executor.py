"""Run blocks of slices down the tree of a function's paths.

Calls run for all slices of a block at once, by the batching rules in `known`; at a
decision the slices part, and each goes on only with those that decide as it does. So no
call ever sees a slice that ``f`` would not have shown it. Where slices decide as none
before, ``f`` is traced on one of them and the tree grows.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .... import arrays
from ....batching import Batched, RaisesForSome, one_by_one
from ....batching.instances import Instances
from ....batching.ragged import Ragged
from ....batching.rules import leaves, mapped
from ....errors import Differs, TooManyPaths, TraceError
from ....limits import LIMITS
from ....runtime import error_state, progress, threads
from ....runtime.warning_filters import Place
from ..trace.tree import Call, Ref, Segment, SideExit, Tree, invoke
from .account import Account
from .rows import Block

Values = dict[int, Any]
"""The results of calls for some of the slices of a block, by their numbers.

Of those that are exact there is a key that is the number's negative."""


def _root(rows: Any) -> Values:
    """The slices themselves: one batch, or one for each of several arrays."""
    if isinstance(rows, Block):
        return {0: tuple(map(Batched, rows.arrays))}
    return {0: Batched(rows)}


def _selected(values: Values, numbers: Iterable[int], part: Any) -> Values:
    """Select some results for some slices (None: all)."""
    if part is None:
        return {n: values[n] for n in numbers}
    return {n: _gathered(values[n], part) for n in numbers}


def _gathered(value: Any, index: Any) -> Any:
    if isinstance(value, Batched):
        return Batched(value.array[index])
    if isinstance(value, (Ragged, Instances)):
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
    """Arguments with every `Ref` replaced by its `Batched`."""

    def found(ref: Ref) -> Any:
        value = values[ref.index]
        for k in ref.item:
            value = vars(value)[k] if isinstance(k, str) else value[k]
        return value

    if type(tree) is tuple:  # most often of `Ref` and numbers
        return tuple([found(x) if type(x) is Ref else mapped(found, x, Ref) for x in tree])
    return mapped(found, tree, Ref)


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
    """The segment where the last path ended."""
    why: str = ""
    """Why no more paths are looked for."""
    warned: set[Place] = field(default_factory=set)
    """Warnings of NumPy and Python since the last check."""

    def leave(self, index: Any) -> None:
        self.off += range(len(self.rows)) if index is None else index.tolist()


class Executor:
    """Run blocks of slices down a tree.

    Parameters
    ----------
    tree : Tree
        Grows where slices decide as none before.
    xp : module
        The namespace of the arrays.
    grow : callable (slice) -> SideExit or None
        Traces ``f`` on a slice and adds the path; an `SideExit` for this slice alone is not added.
    seconds : float
        What a call of ``f`` takes.
    patience : float
        Seconds that a block may take beyond those of the loop.
    nbytes : int
        Bytes of values that a block may have alive.
    account : Account, optional
        What a run may cost; what is left to `f` then is told by `why`.

    Attributes
    ----------
    off : list of int
        The slices off all paths, which ``f`` has to be called for, one by one.
    warning : set of int
        Slices for which there are warnings: one for each call and place that warns.
    """

    def __init__(
        self,
        tree: Tree,
        xp: Any,
        grow: Callable[[Any], SideExit | None],
        seconds: float,
        patience: float,
        nbytes: int,
        account: Account | None = None,
    ) -> None:
        self.tree, self.xp, self.account = tree, xp, account
        self._grow, self._seconds, self._patience = grow, seconds, patience
        self._nbytes = nbytes
        self.off: list[int] = []
        self.warning: set[int] = set()
        self._warned: set[tuple[Segment, int, Place]] = set()
        self._conversions: set[Place] = set()
        self.most_left = LIMITS.block_left
        self._errstate = error_state.for_slices() if xp is np else None
        self.bar: progress.Bar | None = None
        self.exactly = False
        """Whether results are converted as Python numbers are, which never wrap."""
        self.first: tuple[Any] | None = None
        """The result of ``f`` for the first slice, if required."""
        self.why = ""
        """Why no more ways were looked for, or blocks run."""

    def known(self, k: int) -> tuple[Any] | None:
        """The result of ``f`` for a slice, where it has been called already."""
        if k == 0 and self.first is not None:
            return self.first
        if self.account is None or k >= len(self.account.known):
            return None
        return (self.account.known[k],)

    @property
    def begun(self) -> int:
        """The number of slices for which results of ``f`` may be known."""
        known = 0 if self.account is None else len(self.account.known)
        return max(known, self.first is not None)

    def end(self, rows: Any) -> Segment | None:
        """The end of the path of one slice; None: off all paths."""
        block = _Block(rows, None, [])
        # the slice runs once more, with the others
        with error_state.noting(lambda place: None, error_state.IGNORED):
            self._down(self.tree.root, _root(rows), None, block)
        return block.end

    def __call__(self, rows: Any, out: Any, start: int) -> None:
        """Results of all `rows` ``(B, M)`` into `out` ``(B, *result shape)``.

        `start`: the number of the first of them.
        """
        off: list[int] = []
        until = time.perf_counter() + self._patience + len(rows) * self._seconds
        block = _Block(rows, out, off, start, until)
        started, account = time.thread_time(), self.account
        if account is not None and account.spends(len(rows)):
            block.why = self.tree.too_long
            block.leave(None)
        else:
            with self._state(block):
                self._down(self.tree.root, _root(rows), None, block)
        if block.why:
            self.why = block.why
            if len(off) > self.most_left * len(rows):
                raise TooManyPaths(block.why)
        if account is not None:
            account.noted(len(rows) - len(off), time.thread_time() - started)
        self.off += [start + k for k in off]

    def _state(self, block: _Block) -> Any:
        """NumPy's error state while a block runs."""
        if self._errstate is None:
            return contextlib.nullcontext()
        return error_state.noting(block.warned.add, self._errstate)

    def _down(self, at: Segment, values: Values, index: Any, block: _Block) -> None:
        """Through a segment and on; `index`: which of the rows these are (None: all of them)."""
        account = self.account
        while True:
            if not (at.needs <= values.keys() and at.relies <= values.keys()):
                # a path was found since that needs what was free by then, or was not exact: from
                # the start again
                at = self.tree.root
                values = _root(block.rows if index is None else block.rows[index])
            frees = at.frees
            for number, call in enumerate(at.calls, at.first):
                if number in at.exact:
                    values[-number] = True
                if number in at.needless:
                    continue
                threads.check()
                if account is not None and account.is_overdrawn:
                    block.why = self.tree.too_long
                    block.leave(index)
                    return
                try:
                    values[number] = self._invoke(at, number, call, values)
                except TraceError:
                    raise
                except Exception as error:
                    error_state.let_pass(error)
                    if not self.tree.catches:
                        if isinstance(error, RaisesForSome):
                            raise error.error from None
                        raise
                    # what f does about an exception, only f knows
                    raised = self._raising(call, values, error)
                    whole = self.xp.arange(len(block.rows)) if index is None else index
                    self._check_harmless(at, number, raised, whole, block.rows)
                    bad = np.array([e is not None for e in raised])
                    block.leave(whole[np.flatnonzero(bad)])
                    if bad.all():
                        return
                    good = np.flatnonzero(~bad)
                    values, index = _selected(values, values, good), whole[good]
                    values[number] = self._invoke(at, number, call, values)
                if block.warned:
                    self._reported(at, number, call, values, index, block)
                for n in frees[number - at.first]:
                    values.pop(n, None)
            if at.asks is None:
                self._write(at, values, index, block)
                return
            if account is None and time.perf_counter() > block.until:
                raise TooManyPaths(self.tree.too_many_in_time)
            asked = filled(at.asks, values).array
            asked = asked.reshape(asked.shape[0])
            branches = self._branches(at, asked, index, block)
            for child, part in branches[:-1]:
                self._cut(child, values, part, index, block)
            if not branches:
                return
            # the most slices go last: what only the others needed is free by then
            at, part = branches[-1]
            if len(asked if part is None else part) > self._most(at):
                self._cut(at, values, part, index, block)
                return
            values = _selected(values, (at.needs | at.relies) & values.keys(), part)
            index = part if index is None else index if part is None else index[part]

    def _branches(
        self, at: Segment, asked: Any, index: Any, block: _Block
    ) -> list[tuple[Segment, Any]]:
        """Segments that follow by the answers, with their slices, the fewest first."""
        found = []
        for answer, part in self._parts(asked):
            # no path is found by NaN, and none is looked for where that has taken too long
            if answer != answer or (block.why and answer not in at.children):
                block.leave(part if index is None else index if part is None else index[part])
                continue
            child, skipped = self._child(at, answer, part, index, block)
            if child is None:
                continue
            if skipped:
                part = (self.xp.arange(len(asked)) if part is None else part)[skipped:]
            many = len(asked if part is None else part)
            if self.account is not None and child.seconds:
                self.account.adds(many, child.seconds)
            if self._quick(child, many):
                block.leave(part if index is None else index if part is None else index[part])
            else:
                found.append((many, child, part))
        found.sort(key=lambda branch: branch[0])
        return [branch[1:] for branch in found]

    def _most(self, at: Segment) -> int:
        """Slices that may go through a segment at once."""
        return max(1, self._nbytes // at.nbytes)

    def _cut(self, at: Segment, values: Values, part: Any, index: Any, block: _Block) -> None:
        """Send some slices into a segment, in parts that fit in memory."""
        needs = (at.needs | at.relies) & values.keys()
        if part is None:
            part = self.xp.arange(len(block.rows) if index is None else len(index))
        most = self._most(at)
        for start in range(0, len(part), most):
            piece = part[start : start + most]
            whole = piece if index is None else index[piece]
            self._down(at, _selected(values, needs, piece), whole, block)

    def _parts(self, asked: Any) -> list[tuple[Any, Any]]:
        """The answers, and which slices gave them; None: all."""
        xp = self.xp
        booleans = asked.dtype == bool or str(asked.dtype) == "torch.bool"
        if booleans and xp is not np:  # a device is asked once
            yes = int(xp.count_nonzero(asked))
            if yes in (0, len(asked)):
                return [(yes > 0, None)]
        else:
            if len(asked) <= LIMITS.few_answers:
                asked = arrays.on_host(asked)
            if (asked == asked[0]).all():
                return [(asked[0].item(), None)]
        if booleans:
            return [(False, _true(xp, ~asked)), (True, _true(xp, asked))]
        asked = arrays.on_host(asked)
        answers, which, counts = np.unique(asked, return_inverse=True, return_counts=True)
        order, ends = np.argsort(which, kind="stable"), np.cumsum(counts)
        found = zip(answers.tolist(), ends - counts, ends, strict=True)
        return [(answer, order[start:end]) for answer, start, end in found]

    def _invoke(self, at: Segment, number: int, call: Call, values: Values) -> Any:
        args, kwargs = filled(call.args, values), filled(call.kwargs, values)
        if number in at.reused:
            kwargs["in_place"] = True
        found = invoke(self.xp, call, args, kwargs, number in at.exact)
        if type(found) is not Batched and one_by_one(found):
            self.tree.singly.add(call.row.name)
        if call.dtype is not None and self.xp is np and isinstance(found, Batched):
            array = found.array  # e.g. eigenvalues: complex for some matrices only
            if array.dtype != call.dtype or array.shape[1:] != call.shape:
                raise Differs(f"{call.row.name} has another shape or dtype for some slices")
        return found

    def _reported(
        self, at: Segment, number: int, call: Call, values: Values, index: Any, block: _Block
    ) -> None:
        """Find a slice for each place in a call that warned, once."""
        places = [*block.warned]
        block.warned.clear()
        for place in places:
            if (at, number, place) in self._warned:
                continue
            self._warned.add((at, number, place))
            args, kwargs = filled(call.args, values), filled(call.kwargs, values)

            def run(part: Any, args: Any = args, kwargs: Any = kwargs) -> Any:
                is_exact = number in at.exact
                return invoke(self.xp, call, _picked(args, part), _picked(kwargs, part), is_exact)

            k = error_state.first_with(place, run, _batch(next(leaves((args, kwargs), _BATCHED))))
            if k is not None:
                self.warning.add(block.start + (k if index is None else int(index[k])))

    def _traced(self, v: Any) -> SideExit | None:
        """Trace ``f`` on a slice, which gives the warnings of it."""
        if self._errstate is None:
            return self._grow(v)
        with error_state.noting(None, self._errstate):  # NumPy's come when it runs with others
            return self._grow(v)

    def _raising(self, call: Call, values: Values, first: Exception) -> list[type | None]:
        """Find the exception of a call for each slice; `first`: its exception for all."""
        args, kwargs = filled(call.args, values), filled(call.kwargs, values)
        batch = _batch(next(leaves((args, kwargs), _BATCHED)))
        found: list[type | None] = [None] * batch
        todo = [np.arange(batch)]
        tries = 0
        while todo:
            part = todo.pop()
            tries += 1
            spent = self.account is not None and self.account.is_overdrawn
            if tries > LIMITS.raising_tries + batch // 8 or spent:
                raise TooManyPaths(f"many of its slices raise ({call.where})")
            try:
                if tries == 1:
                    raise first
                invoke(self.xp, call, _picked(args, part), _picked(kwargs, part))
            except TraceError:
                raise
            except RaisesForSome as error:
                which = arrays.on_host(error.which)
                for k in part[which].tolist():
                    found[k] = type(error.error)
                todo += [part[~which]] if not which.all() else []
            except Exception as error:
                error_state.let_pass(error)
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
                    off = self._traced(rows[int(whole[k])])
                    if off is None:
                        raise Differs("a call raises for several slices, not for one")
                    if not off.more:
                        self.tree.harmless.add(key)
                        break

    def _child(
        self, at: Segment, answer: Any, part: Any, index: Any, block: _Block
    ) -> tuple[Segment | None, int]:
        """The segment after this answer, and how many of the first slices do not enter it."""
        with self.tree.lock:
            many = len(part) if part is not None else len(block.rows if index is None else index)
            if answer not in at.children and abs(answer) > LIMITS.largest_answer:
                # it may be a size, of more than there is memory for, and the loop may never get
                # there: f itself runs, after what comes before
                part = self.xp.arange(many) if part is None else part
                block.leave(part if index is None else index[part])
                return None, many
            for k in range(many):
                if answer in at.children:
                    return at.children[answer], k
                row = k if part is None else int(part[k])
                row = row if index is None else int(index[row])
                try:
                    left = self._traced(block.rows[row])
                except TooManyPaths as error:
                    block.why = str(error)
                    rest = self.xp.arange(k, many) if part is None else part[k:]
                    block.leave(rest if index is None else index[rest])
                    return None, many
                if left is None:
                    if answer not in at.children:
                        raise Differs("a slice takes another path alone than among the others")
                    return at.children[answer], k
                block.off.append(row)
            return None, many

    def _quick(self, child: Segment, many: int) -> bool:
        """Whether calls of ``f`` are faster; only where all effects are known."""
        if child.asks is not None or isinstance(child.result, SideExit):
            return False
        return child.longest * LIMITS.call_in_block > many * self._seconds

    def _write(self, at: Segment, values: Values, index: Any, block: _Block) -> None:
        block.end, out = at, block.out
        if isinstance(at.result, SideExit):
            block.end = None
            block.leave(index)
            return
        if out is None:
            return
        result = filled(at.result, values)
        targets = out.arrays if isinstance(out, Block) else (out,)
        each = result if isinstance(out, Block) else (result,)
        if not self.exactly and not all(map(_fits, each, targets)):
            block.leave(index)  # the loop raises when it gets there
            return
        where = slice(None) if index is None else index
        if isinstance(out, Block):
            for target, one in zip(out.arrays, result, strict=True):
                self._put(target, where, one)
        else:
            self._put(out, where, result)
        if block.warned:
            self._converted(out, result, index, block)

    def _converted(self, out: Any, result: Any, index: Any, block: _Block) -> None:
        """Leave one slice to ``f`` for each way in which results do not fit their dtype.

        They are converted as the loop does it, which then warns as the loop does.
        """
        places = [*block.warned]
        block.warned.clear()
        for place in places:
            if place in self._conversions:
                continue
            self._conversions.add(place)
            many = len(block.rows) if index is None else len(index)

            def run(part: Any) -> None:
                some = out[np.zeros(len(part), np.intp)]
                whole = [(some, result)]
                if isinstance(out, Block):
                    whole = list(zip(some.arrays, result, strict=True))
                for target, one in whole:
                    self._put(target, slice(None), _picked(one, part))

            k = error_state.first_with(place, run, many)
            if k is not None:
                block.off.append(k if index is None else int(index[k]))

    def _put(self, out: Any, where: Any, result: Any) -> None:
        """Write the results of some slices."""
        if not isinstance(result, Batched):
            if self.exactly:
                if np.ndim(result) != out.ndim - 1 or not _fits(result, out):
                    raise TraceError("results of several shapes")
                check_converts(np.asarray(result), out.dtype)
            # CuPy does not write what is on the host
            result = self.xp.asarray(result) if self.xp.__name__ == "cupy" else result
            while len(np.shape(result)) >= out.ndim:  # else its first axis is that of the slices
                result = result[0]
            out[where] = result
            return
        array = result.array
        missing = out.ndim - array.ndim
        if self.exactly and (missing or not _fits(result, out)):
            raise TraceError("results of several shapes")
        if missing > 0:
            array = array.reshape(len(array), *(1,) * missing, *result.shape)
        while missing < 0 and array.shape[1] == 1:
            # as NumPy's assignment does, leading axes of length 1 go
            array, missing = array[:, 0], missing + 1
        if self.exactly:
            check_converts(array, out.dtype)
        out[where] = array  # raises where the shapes differ, as the loop does


def _fits(result: Any, out: Any) -> bool:
    """Whether a slice's result can be assigned to its place in `out`, by shape alone.

    NumPy spreads it over the place, and leading axes of length 1 go.
    """
    found = tuple(result.array.shape[1:] if isinstance(result, Batched) else np.shape(result))
    place = tuple(out.shape[1:])
    while len(found) > len(place) and found[0] == 1:
        found = found[1:]
    if len(found) > len(place):
        return False
    own = place[len(place) - len(found) :]
    return all(n in (1, m) for n, m in zip(found, own, strict=True))


def _batch(x: Batched | Ragged | Instances) -> int:
    if isinstance(x, Instances):
        return len(x)
    return len(x.array) if isinstance(x, Batched) else len(x.counts)


def _true(xp: Any, mask: Any) -> Any:
    return xp.flatnonzero(mask) if hasattr(xp, "flatnonzero") else mask.nonzero()[:, 0]


_BATCHED = (Batched, Ragged, Instances)


def _picked(tree: Any, part: Any) -> Any:
    """Arguments of some of the slices."""
    return mapped(lambda x: _gathered(x, part), tree, _BATCHED)


def check_converts(x: Any, dtype: Any) -> None:
    """Refuse numbers that Python does not convert, where NumPy would make others of them."""
    if x.dtype == dtype or not x.size:
        return
    kinds = "biufc"
    have, want = kinds.index(np.dtype(x.dtype).kind), kinds.index(np.dtype(dtype).kind)
    if want == 0 or (have <= want and want >= 3):
        return
    if have == 4:
        raise TraceError(f"results of dtype {x.dtype} for dtype {dtype}")
    limits = np.iinfo(dtype)
    low, high = x.min(), x.max()
    if not (low >= limits.min and high <= limits.max):  # NaN is not
        raise TraceError(f"results beyond {dtype}")

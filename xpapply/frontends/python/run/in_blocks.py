"""Runs in blocks: all slices go through the calls that a function makes."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import numpy as np

from .... import arrays, config
from ....batching import NoRule, in_namespace
from ....errors import Differs, OnlyTraced, Raises, TooLong, TooManyPaths, TraceError
from ....ir.avals import ShapeDtype
from ....limits import LIMITS
from ....loop.arguments import Arguments
from ....loop.begun import Begun, Users
from ....runtime import progress, threads
from ....runtime.error_state import let_pass
from ....runtime.warning_filters import silent
from ..sandbox.tracing import Tracing
from ..trace.tree import Call, Path, SideExit, Tree
from .account import Account, per_call
from .comparison import cast, check_holds, check_same, host
from .executor import Executor
from .rows import Block, Chosen, Rows, flat_of, index_of


class InBlocks:
    """Runs slices down the tree of a function's paths, which grows meanwhile.

    Parameters
    ----------
    f : callable
        It is not kept.
    arguments : Arguments
        What it is called with.
    slice0, sample : array (M,) or tuple of arrays
        The first slice, whose result fixes the dtype, and the one to trace on; of several arrays
        one of each.
    tracing : Tracing
        What runs `f` and writes down what it does.
    begun : Begun, optional
        The first calls of the loop, of which the first is for `slice0`.
    around : float
        Seconds that the loop takes for a slice beside the call.

    Attributes
    ----------
    tree : Tree
        The paths that are known.
    path : Path
        That of the sample.
    result : array, or tuple of them
        The result for `slice0`, as NumPy's.
    seconds : float
        What a call of `f` takes.
    looped : int
        Slices that `f` was called for in the last run.
    why_left : str
        Why, if it was for what anything else would have taken.
    """

    def __init__(
        self,
        f: Any,
        arguments: Arguments,
        slice0: Any,
        sample: Any,
        tracing: Tracing,
        library: str,
        begun: Begun | None = None,
        around: float = 0.0,
    ) -> None:
        self.library, self._arguments, self._tracing = library, arguments, tracing
        with _one_stream(self.library):
            path, value = self._tracing(f, self._seen(sample))
        if isinstance(path.result, SideExit):
            if path.result.by_hand:
                raise OnlyTraced(path.result.by_hand)
            raise Raises(path.result.why)
        self._around = around
        if begun is None:
            result, self.seconds = self._first_calls(f, slice0)
        else:
            result, self.seconds = begun.results[0], begun.seconds
        if sample is slice0:
            self._same(value, result)
        else:
            self._same(value, self._tried(f, sample))
        several = isinstance(slice0, tuple)
        self._like = slice0[0] if several else slice0
        parts = [self._plain(x) for x in (result if arguments.results else (result,))]
        hosts = [np.asanyarray(host(x)) for x in parts]
        if any(type(x) is not np.ndarray or x.dtype.hasobject for x in hosts):
            raise TraceError(f"it returns {type(result).__name__}")
        self.result: Any = tuple(hosts) if arguments.results else hosts[0]
        dtypes = [
            x.dtype if self.library == "torch" else y.dtype
            for x, y in zip(parts, hosts, strict=True)
        ]
        self.dtype: Any = tuple(dtypes) if arguments.results else dtypes[0]
        self.path = path
        nbytes = sum(map(_nbytes, _each(slice0)))
        self.tree = Tree(path, nbytes)
        self._check_names(path)
        self.tree.catches = self._tracing.catches
        self.looped, self.why_left = 0, ""
        self._checked = self._first_differs = self._is_warm = False
        self._spent = 0.0

    @property
    def results(self) -> tuple[ShapeDtype, ...]:
        """Shapes and dtypes of the result, or of all that are kept apart."""
        several = bool(self._arguments.results)
        shapes = [x.shape for x in (self.result if several else (self.result,))]
        dtypes = self._arguments.dtypes or (self.dtype if several else (self.dtype,))
        names = (str(d).rpartition(".")[2] if self.library == "torch" else d.name for d in dtypes)
        return tuple(map(ShapeDtype, shapes, names))

    @property
    def kernels(self) -> tuple[str, ...]:
        """A description of the calls."""
        return (self.tree.in_words(),)

    def _plain(self, result: Any) -> Any:
        if self.library == "torch" and isinstance(result, (list, tuple)):
            result = arrays.compat(self._like).stack([x + 0 for x in result])
        if getattr(result, "requires_grad", False):
            raise TraceError("autograd records this call; under torch.no_grad() it runs at once")
        return result

    def call(self, f: Any, v: Any) -> Any:
        """Call `f` for a slice."""
        return self._arguments.call(f, self._given(v))

    def _given(self, v: Any) -> Sequence[Any]:
        """Arguments of `f` for a slice."""
        return self._arguments.given(_each(v))

    def timed(self, rows: Rows, f: Any, limit: float) -> float:
        """Seconds of a call of `f` in a loop, which takes less than the very first one.

        Calls are made for `limit` seconds, and no more than `LIMITS.timed_calls` of them.
        """
        count = math.prod(rows.batch)
        some = np.linspace(0, count - 1, min(count, LIMITS.timed_calls)).astype(np.intp)
        places = zip(*np.unravel_index(some, rows.batch), strict=True)
        # what is only timed writes into no slice
        slices = [[*map(arrays.read_only, self._given(rows[at]))] for at in places]
        with np.errstate(all="ignore"), silent():
            try:
                each = per_call(self._arguments.caller(f), slices, LIMITS.warm_calls, limit)
            except Exception as error:  # which its own run will tell
                let_pass(error)
                return self.seconds
        return min(self.seconds, each + self._around)

    def _tried(self, f: Any, v: Any) -> Any:
        """A call of `f` that only looks at what it does: it leaves no trace in attributes."""
        with self._tracing.scratch.kept():
            return self._tensor(self.call(f, v), v)

    def _first_calls(self, f: Any, v: Any) -> tuple[Any, float]:
        """The result for a slice, and what a call takes: less than the very first one."""
        times: list[float] = []
        result: Any = None
        most = (
            LIMITS.warm_calls if self.library == "numpy" else 1
        )  # elsewhere a call may be counted, or take long
        while len(times) < most and sum(times) < LIMITS.timed_seconds:
            started = time.perf_counter()
            found = self._tried(f, v)
            times.append(time.perf_counter() - started)
            result = found if len(times) == 1 else result
        return result, min(times) + self._around

    def _tensor(self, result: Any, like: Any) -> Any:
        """Convert a result of `f`: numbers become tensors, as in the loop."""
        numbers = (bool, int, float, complex, np.generic, np.ndarray)
        if self.library == "torch" and isinstance(result, numbers):
            return arrays.asarray(result, _each(like)[0])
        return result

    def _check_names(self, path: Path) -> None:
        """Refuse what the library of the array does not have."""
        if self.library != "cupy":
            return
        xp = arrays.compat(self._like)
        for step in path.steps:
            if isinstance(step, Call) and "." in step.row.name:
                try:
                    in_namespace(xp, step.row.name)
                except NoRule as error:
                    raise TraceError(f"{error} ({step.where})") from None

    def _seen(self, v: Any) -> Any:
        """A slice as it is traced: torch's own, or NumPy's."""
        if isinstance(v, tuple):
            return tuple(map(self._seen, v))
        # a copy: what writes into a slice must not reach the user's array while it is traced
        if self.library == "torch":
            return v.detach().clone()
        own = host(v)
        found = np.array(own, own.dtype.newbyteorder("="))
        return found if found.ndim else found[()]

    def _same(self, traced: Any, real: Any) -> None:
        """Compare what was written down with a real call."""
        if not self._arguments.results:
            check_same(traced, real, self._tracing.eps)
            return
        if not isinstance(real, tuple) or len(real) != len(traced):
            raise Differs(f"a real call has not {len(traced)} results")
        for a, b in zip(traced, real, strict=True):
            check_same(a, b, self._tracing.eps)

    def check(self, f: Any, v: Any, mine: Any) -> None:
        """Compare what was found for a slice with a real call for it."""
        result = self.call(f, v)
        mine = mine.arrays if isinstance(mine, Block) else mine
        if self._arguments.results:
            result = tuple(cast(x, y) for x, y in zip(result, mine, strict=True))
            self._same(tuple(map(host, mine)), result)
        else:
            self._same(host(mine), cast(result, mine))

    # --- running ----------------------------------------------------------------------------

    def __call__(self, rows: Rows, f: Any, account: Account | None = None) -> Any:
        """The results of all slices ``(*batch, *result shape)``; several are a `Block`."""
        xp = np if isinstance(rows, Chosen) else arrays.compat(rows.like)
        slices = math.prod(rows.batch)
        limit = LIMITS.paths_at_least + LIMITS.paths_share * slices * self.seconds
        grow = self._growing(f, limit, account)
        count = config.current().thread_count() if xp is np else 1
        room = self._room(rows, count)
        walk = Executor(self.tree, xp, grow, self.seconds, limit, room, account)
        walk.exactly = self._arguments.exactly
        # the others have their results, or are called as the loop does it
        if isinstance(rows, Chosen) or (account is not None and self._is_thin):
            walk.most_left = 1.0
        elif account is not None:
            account.keeps = False
        at_once = self._rows(room)
        if account is not None and account.tries:
            at_once = min(at_once, self._at_first(slices, account))
        try:
            with _one_stream(self.library), progress.shown(slices) as walk.bar:
                return self._run(walk, rows, slices, xp, f, at_once, count)
        except Exception as error:
            if not isinstance(rows, Chosen):  # those begin at another slice
                error.first = walk.first  # type: ignore[attr-defined]  # not to be called again
            raise

    @property
    def _is_thin(self) -> bool:
        """Whether a slice is the only argument of `f`, and its result one array."""
        given = self._arguments
        one = given.leaves is None and not (given.numbers or given.results or given.exactly)
        return one and self.library == "numpy" and not isinstance(self._like, tuple)

    def _at_first(self, slices: int, account: Account) -> int:
        """The block size of a run that may be given up: one block estimates the others."""
        each = len(self.tree.calls) * LIMITS.call_in_block
        blocks = min(LIMITS.tried_blocks, int(LIMITS.tried_share * account.loop / max(each, 1e-9)))
        return max(1, slices // max(1, blocks))

    def gives_up(self, rows: Rows, f: Any, most: float | None) -> TraceError | None:
        """The error that a run would raise, by some of the slices; None: none.

        The paths of these slices are known then. `most`: seconds that a run may lose by it; None:
        what a run on a device may.
        """
        slices = math.prod(rows.batch)
        limit = (
            LIMITS.paths_at_least + LIMITS.paths_share * slices * self.seconds
            if most is None
            else most
        )
        some = np.linspace(0, slices - 1, min(slices, LIMITS.path_sample)).astype(np.intp)
        chosen = Chosen(rows, np.unravel_index(some, rows.batch), ((), np.dtype(float)))
        grow = self._growing(f, limit, None)
        patience = limit + slices * self.seconds
        walk = Executor(self.tree, np, grow, self.seconds, patience, self._room(rows, 1))
        try:
            walk(next(chosen.blocks(LIMITS.path_sample))[0], None, 0)
        except TraceError as error:
            return error.with_traceback(None)
        except Exception as error:  # as f does then
            let_pass(error)
            return None
        return None

    def tries_all(self, rows: Rows) -> bool:
        """Whether the sample for paths has all slices."""
        return math.prod(rows.batch) <= LIMITS.path_sample

    def _run(
        self,
        walk: Executor,
        rows: Rows,
        slices: int,
        xp: Any,
        f: Any,
        at_once: int,
        count: int,
    ) -> Any:
        """The results of all slices: `at_once` of them in a block, in `count` threads."""
        batch, dtypes = rows.batch, self._arguments.dtypes
        fill = partial(self._filled, walk, rows, xp, at_once, count)
        buffer = None if xp is np or dtypes is not None else self._on_known_paths(walk, fill)
        if buffer is None:
            chosen = isinstance(rows, Chosen)
            shape, dtype = rows.result if chosen else self._shape_dtype(walk, f, rows)  # type: ignore[attr-defined]
            if dtypes is not None:
                dtype = dtypes if self._arguments.results else dtypes[0]
            buffer = fill(shape, dtype)
        flat = flat_of(buffer, slices, len(batch))
        self.looped, self.why_left = len(walk.off), walk.why
        off = set(walk.off)
        if not self._checked:
            with silent():  # their warnings come below, in order
                for k in {slices // 3, slices // 2, 2 * slices // 3, slices - 1} - off:
                    self.check(f, rows[np.unravel_index(k, batch)], flat[int(k)])
            self._checked = True
        # Last of all and in order, so that whatever f does for these slices it does once, as in
        # the loop: for the others it is known to do nothing but compute. NumPy's warnings are given
        # by f itself, and none of slices after one that raises.
        started = time.perf_counter()
        todo = sorted(off | walk.warning)
        if self._is_thin and off:
            self._by_f(f, rows, todo, flat, walk, off)
            todo = []
        for k in todo:
            at = np.unravel_index(k, batch)
            if k not in off:
                self.call(f, rows[at])
                continue
            try:
                known = walk.known(k)
                result = self.call(f, rows[at]) if known is None else known[0]
            except Exception as error:
                raise Users(error, tuple(map(int, at))) from None
            if self._arguments.results:
                if not isinstance(result, tuple) or len(result) != self._arguments.results:
                    raise Differs(f"f has not {self._arguments.results} results for some slices")
                flat[k] = tuple(
                    self._written(x, y, xp) for x, y in zip(result, flat.arrays, strict=True)
                )
            else:
                flat[k] = self._written(result, flat, xp)
        if len(off) >= LIMITS.timed_calls:
            took = time.perf_counter() - started
            self.seconds = min(self.seconds, took / len(off | walk.warning) + self._around)
        return buffer

    def _by_f(
        self, f: Any, rows: Rows, todo: list[int], flat: Any, walk: Executor, off: set[int]
    ) -> None:
        """The results of those that are `off` by `f`, and the warnings of others, with as little
        around each call as the loop has."""
        call, asanyarray = self._arguments.caller(f), np.asanyarray
        if isinstance(rows[index_of(todo[0], rows)], tuple):  # along several axes
            call = partial(_with_each, call)
        begun, warning = walk.begun, walk.warning
        for k, v in zip(todo, rows.at(todo), strict=True):
            try:
                known = walk.known(k) if k < begun and k in off else None
                result = call(v) if known is None else known[0]
            except Exception as error:
                raise Users(error, index_of(k, rows)) from None
            if not warning or k in off:
                flat[k, ...] = asanyarray(result)

    def _written(self, result: Any, like: Any, xp: Any) -> Any:
        """A result of `f` as it can be assigned to a place in an array."""
        if self._arguments.exactly and xp is np:
            check_holds(result, like, self._arguments.numbers)
        result = self._tensor(result, like)
        return xp.asarray(result) if self.library == "cupy" else _array(result)

    def _filled(
        self,
        walk: Executor,
        rows: Rows,
        xp: Any,
        at_once: int,
        count: int,
        shape: Any,
        dtype: Any,
    ) -> Any:
        """The results of all slices that are on a path, each of a shape and dtype."""
        like = {"device": rows.like.device} if self.library == "torch" else {}

        def empty(shape: tuple[int, ...], dtype: Any) -> Any:
            return xp.empty((*rows.batch, *shape), dtype=dtype, **like)

        if self._arguments.results:
            buffer: Any = Block(empty(s, d) for s, d in zip(shape, dtype, strict=True))
        else:
            buffer = empty(shape, dtype)
        slices = math.prod(rows.batch)
        flat = flat_of(buffer, slices, len(rows.batch))
        pieces = rows.blocks(at_once)
        run: Callable[..., None] = partial(self._block, walk, flat)
        run(*next(pieces))
        worth = count > 1 and self._numbers() * slices > LIMITS.python_threads
        long = worth and at_once * self.tree.per_call > LIMITS.python_long_call

        def work(pieces: Iterator[tuple[Any, slice]]) -> None:
            for block, where in pieces:
                run(block, where)

        threads.in_threads(work, pieces, count if long and not self._alone() else 1)
        return buffer

    @staticmethod
    def _block(walk: Executor, flat: Any, block: Any, where: slice) -> None:
        """The results of a block."""
        walk(block, flat[where], where.start)
        if walk.bar is not None:
            walk.bar.step(where.stop - where.start)

    def _on_known_paths(self, walk: Executor, fill: Callable[..., Any]) -> Any:
        """Results of all slices where all paths end alike, so that a device is not asked for the
        first slice's path. None where that matters."""
        if self._first_differs or not self.tree.branches or self.tree.catches:
            return None
        ends = set(self.tree.results)
        one = ends.pop()
        if ends or one is None:
            return None
        try:
            buffer = fill(*one)
        except Differs:
            if self.tree.results == {one}:
                raise
        else:
            if self.tree.results == {one} and 0 not in walk.off:
                return buffer
        self._first_differs = True
        walk.off.clear()
        return None

    def _growing(
        self, f: Any, seconds: float, account: Account | None
    ) -> Callable[[Any], SideExit | None]:
        """A function that finds further paths in a run, within the time that remains."""
        until = self._spent + seconds
        if account is None:
            return lambda v: self._grow(f, v, math.inf if self._spent <= until else -1.0)
        return lambda v: self._grow(f, v, account.left)

    def _grow(self, f: Any, v: Any, most: float) -> SideExit | None:
        """Trace `f` on a slice that goes a new way, in so many seconds: the next one often takes
        as long as the last one."""
        if most < self._tracing.seconds:
            raise TooManyPaths(self.tree.too_many_in_time)
        if self.tree.count >= LIMITS.paths:
            why = f"its slices go too many ways ({self.tree.count} and more){self.tree.by_counts}"
            raise TooManyPaths(why)
        started = time.thread_time()  # whatever else keeps the machine busy
        self._tracing.limit, each = most, 0.0
        try:
            with _one_stream(self.library):
                path, value = self._tracing(f, self._seen(v))
        except TooLong:
            raise TooManyPaths(self.tree.too_many_in_time) from None
        finally:
            self._tracing.limit = math.inf
        if not isinstance(path.result, SideExit):
            called = time.perf_counter()
            self._same(value, self._tried(f, v))
            each = time.perf_counter() - called + self._around
            # what looks at a short call takes longer than that, a long one may load things
            unsure = each < LIMITS.timed_seconds or not self._is_warm
            if each > LIMITS.dear_path * self.seconds and unsure:
                each = self._warmed(f, v)
            self.seconds = min(self.seconds, each)
        self._spent += time.thread_time() - started
        self._check_names(path)
        if isinstance(path.result, SideExit) and not path.result.decided:
            self.tree.exits, self.tree.last_exit = self.tree.exits + 1, path.result.why
            return path.result
        self.tree.add(path, LIMITS.path_price * each)
        return None

    def _warmed(self, f: Any, v: Any) -> float:
        """Seconds of a call on a new way, the first of which may have loaded and made things."""
        self._is_warm = True
        given = [*map(arrays.read_only, self._given(v))]
        with np.errstate(all="ignore"), silent(), self._tracing.scratch.kept():
            return per_call(self._arguments.caller(f), [given, given], 2, 0.0) + self._around

    def learn(self, seconds: float) -> None:
        """Take the average over the paths of a run as what a call of `f` takes."""
        self.seconds = seconds
        for segment in self.tree.segments():
            segment.seconds = 0.0

    def _shape_dtype(self, walk: Executor, f: Any, rows: Rows) -> tuple[Any, Any]:
        """Shape and dtype of the result: those of the first slice's, as in NumPy."""
        several = bool(self._arguments.results)
        if not self.tree.branches and not self.tree.catches:
            return tuple(x.shape for x in self.result) if several else self.result.shape, self.dtype
        index = (0,) * len(rows.batch)
        slice0 = rows[index]
        # of a foreign byte order only f itself knows which results have it as well
        end = walk.end(next(rows.blocks(1))[0]) if rows.is_native else None
        if end is not None:
            return end.shape, end.dtype
        try:
            walk.first = walk.known(0) or (self.call(f, slice0),)
        except Exception as error:
            raise Users(error, index) from None
        if not several:
            return self._kind(walk.first[0])
        kinds = [self._kind(x) for x in walk.first[0]]
        return tuple(s for s, _ in kinds), tuple(d for _, d in kinds)

    @staticmethod
    def _kind(result: Any) -> tuple[tuple[int, ...], Any]:
        """Shape and dtype of a result of `f` itself."""
        if arrays.library(result) == "torch":
            return tuple(result.shape), result.dtype
        found = np.asanyarray(host(result))
        if type(found) is not np.ndarray or found.dtype.kind not in "biufc":
            raise TraceError(f"it returns {found.dtype} for the first slice")
        return found.shape, found.dtype

    def _numbers(self) -> int:
        """Numbers that one slice computes, roughly."""
        return len(self.tree.calls) * max(1, self._tracing.length)

    def _alone(self) -> bool:
        """Whether blocks must run one after the other."""
        # warning filters belong to the process: no other thread may run under them; products of
        # matrices have threads of their own
        return any(c.quiet or c.row.name in _PRODUCTS for c in self.tree.calls)

    def _room(self, rows: Rows, threads: int) -> int:
        """Bytes that the values of a block may take at their worst moment."""
        if not isinstance(rows, Chosen) and arrays.is_asynchronous(rows.like):
            return LIMITS.python_gpu_blocks
        most = LIMITS.python_torch_blocks if self.library == "torch" else LIMITS.python_blocks
        return config.current().block_bytes or max(LIMITS.python_least_block, most // threads)

    def _rows(self, room: int) -> int:
        """Slices in a block."""
        least = LIMITS.python_block if self.library == "numpy" else LIMITS.python_gpu_block
        if self.tree.branches or self.tree.masks:
            least *= 4  # the slices of a block part
        rows = room // self.tree.root.nbytes
        if not config.current().block_bytes:
            rows = min(rows, least // self.tree.per_call)
        return max(1, rows)


def _each(v: Any) -> Sequence[Any]:
    """The slices that a call of ``f`` gets."""
    return v if isinstance(v, tuple) else (v,)


def _with_each(call: Any, slices: tuple[Any, ...]) -> Any:
    return call(*slices)


def _nbytes(x: Any) -> int:
    """Bytes of a slice, a number counted as 8 at least."""
    aval = ShapeDtype(tuple(map(int, x.shape)), arrays.dtype_name(x))
    return max(8 * math.prod(aval.shape), aval.nbytes)


def _array(x: Any) -> Any:
    return x if arrays.library(x) == "torch" else np.asanyarray(x)


_PRODUCTS = frozenset(
    ["matmul"]
    + [
        f"numpy.{n}"
        for n in ("dot inner vdot tensordot einsum convolve correlate polyfit corrcoef cov").split()
    ]
)
"""Calls that are, or have in them, products of matrices."""


def _one_stream(library: str | None) -> AbstractContextManager[Any]:
    """One stream for CuPy and torch, see `arrays.streams`; other libraries have none."""
    if library != "cupy":
        return nullcontext()
    from ....arrays import streams

    return streams.shared(library)

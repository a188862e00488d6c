"""Python functions on NumPy and CuPy arrays: traced on a few slices, run on all in blocks."""

from __future__ import annotations

import math
import time
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np

from ... import arrays, config, registry, streams, threads
from ...batching import NoRule, in_namespace
from ...cache import BoundedDict
from ...errors import TraceError, UnsupportedError
from ...ir.graph import Graph, ShapeDtype
from ...ir.rewrite import compact, fold
from ...layout import boxes
from ...warning_filters import silent
from .comparison import cast, check_same, host
from .executor import SECONDS_PER_CALL, Executor
from .kernel_of_paths import Chosen, KernelOfPaths, rows_of
from .to_graph import to_graph
from .tracing import Tracing
from .tree import MOST_PATHS, Call, Differs, Path, SideExit, TooManyPaths, Tree, Users

_BLOCK_BYTES = 1 << 19
"""Bytes that a call reads or makes in a block, on the average: they stay in cache, and calls
are not so many that their overhead shows."""
_GPU_BLOCK_BYTES = 1 << 26
_MOST_BYTES = 1 << 26
"""Bytes that the values of all blocks at work may take together at their worst moment ..."""
_MOST_GPU_BYTES = 1 << 30
_MOST_TORCH_BYTES = 1 << 24
"""... on CPUs, where the pieces that its allocator leaves free add up to several blocks ..."""
_LEAST_BYTES = 1 << 22
"""... but for the blocks of many threads, which get at least so much each."""
_WORTH_THREADS = 1 << 21
"""Numbers to compute from which waking a second thread pays."""
_LONG_CALL = 1 << 17
"""Bytes from which calls in two threads do not spend their time waiting for each other."""
_PER_RUN = 6e-5
"""Seconds that a run takes, however few slices there are."""
_PATIENCE = 0.1
"""Share of the time of the plain loop that finding further paths may take ..."""
_AT_LEAST = 0.03
"""... and seconds that it may take in any case."""


class Traced:
    """A function whose calls were written down, for slices of one shape and dtype.

    Parameters
    ----------
    slice0, sample : array (M,)
        The first slice, whose result fixes the dtype, and the one to trace on.
    engines : module
        What chooses engines for graphs: a frontend knows none itself.
    first : tuple, optional
        The result for `slice0`, and the seconds it took.
    one_kernel : callable, optional
        What makes one kernel of all paths, for NumPy arrays: see `xpapply.planning.one_kernel`.

    Call it as ``traced(arr, axis, f)``: it holds on to no function.
    """

    def __init__(
        self,
        f: Any,
        args: tuple,
        kwargs: dict,
        slice0: Any,
        sample: Any,
        engines: ModuleType,
        first: Any = None,
        one_kernel: Callable[[Any], Any] | None = None,
    ) -> None:
        self.library = arrays.library(slice0)
        self._args, self._kwargs = args, kwargs
        self._tracing = Tracing(args, kwargs, str(self.library), engines.AnyLibrary)
        self.unchanged: Callable[[Any], bool] = self._tracing.watch
        with streams.shared(self.library):
            path, value = self._tracing(f, self._seen(sample))
        if isinstance(path.result, SideExit):
            raise Raises(path.result.why)
        started_call = time.perf_counter()
        result = self._tried(f, slice0) if first is None else first[0]
        self.seconds = time.perf_counter() - started_call if first is None else first[1]
        if sample is slice0:
            self._same(value, result)
        else:
            self._same(value, self._tried(f, sample))
        if self.library == "torch" and isinstance(result, (list, tuple)):
            result = arrays.compat(slice0).stack([x + 0 for x in result])
        if getattr(result, "requires_grad", False):
            raise TraceError("autograd records this call; under torch.no_grad() it runs at once")
        self.result = np.asanyarray(host(result))
        self._dtype = result.dtype if self.library == "torch" else self.result.dtype
        dtype = arrays.dtype_name(result if self.library == "torch" else self.result)
        if type(self.result) is not np.ndarray or self.result.dtype.hasobject:
            raise TraceError(f"it returns {type(result).__name__}")
        self.result_aval = ShapeDtype(self.result.shape, dtype)
        aval = ShapeDtype(tuple(map(int, slice0.shape)), arrays.dtype_name(slice0))
        self.tree = Tree(path, max(8 * math.prod(aval.shape), aval.nbytes))
        if self.library == "cupy":
            self._check_names(path, arrays.compat(slice0))
        self.tree.catches = self._tracing.catches
        self.keeps = self._tracing.keeps
        """Whether it keeps a large array of the user's alive."""
        self.graph: Graph | None = None
        self.no_graph = ""
        try:
            if self.library == "torch":
                with self._tracing.scratch.kept():
                    self.graph = _torch_graph(f, aval, args, kwargs)
            else:
                self.graph = compact(fold(to_graph(path, aval)))
        except UnsupportedError as error:
            self.no_graph = str(error)
        self._fused = None if self.graph is None else engines.AnyLibrary(self.graph)
        if self.library not in ("numpy", "cupy", "torch") and self._fused is None:
            raise TraceError(f"no graph for {self.library} arrays: {self.no_graph}")
        self._is_half = self._fused is not None and self.library == "torch"
        self._is_half = self._is_half and aval.dtype in ("float16", "bfloat16")
        self._engines, self._chosen = engines, BoundedDict()
        self._kernel = None
        if one_kernel is not None and self.library == "numpy":
            self._kernel = KernelOfPaths(self.tree, aval, one_kernel)
        self._checked = self._graph_checked = False
        self._first_differs = False
        self._spent = 0.0
        self.looped = 0
        self.given_up = 0
        """Calls that found too many paths ..."""
        self.why = ""
        """... and what the last of them said."""
        self.refused = ""
        """Why it runs in the loop from now on."""
        self.plans: weakref.WeakSet[Any] = weakref.WeakSet()
        """The plans that run it, which shall say so."""
        self.slow = 0
        """Runs one after the other that took longer than the loop."""

    def _tried(self, f: Any, v: Any) -> Any:
        """A call of `f` that only looks at what it does: it leaves no trace in attributes."""
        with self._tracing.scratch.kept():
            return self._tensor(f(v, *self._args, **self._kwargs), v)

    def _tensor(self, result: Any, like: Any) -> Any:
        """What `f` returned; numbers for a tensor are a tensor, as in the loop."""
        numbers = (bool, int, float, complex, np.generic, np.ndarray)
        if self.library == "torch" and isinstance(result, numbers):
            return arrays.asarray(result, like)
        return result

    def _leave(self, arr: Any, axis: int, f: Any) -> None:
        """What the loop leaves in attributes: what `f` sets for the last slice."""
        if not self._tracing.scratch:
            return
        last = arr[tuple(slice(None) if k == axis else -1 for k in range(arr.ndim))]
        with np.errstate(all="ignore"), silent():
            f(last, *self._args, **self._kwargs)

    @staticmethod
    def _check_names(path: Path, xp: Any) -> None:
        """Refuse what the library of the array does not have."""
        for step in path.steps:
            if isinstance(step, Call) and "." in step.row.name:
                try:
                    in_namespace(xp, step.row.name)
                except NoRule as error:
                    raise TraceError(f"{error} ({step.where})") from None

    def _seen(self, v: Any) -> Any:
        """A slice as it is traced: torch's own, or NumPy's."""
        # a copy: what writes into a slice must not reach the user's array while it is traced
        if self.library == "torch":
            return v.detach().clone()
        own = host(v)
        return np.array(own, own.dtype.newbyteorder("="))

    def _same(self, traced: Any, real: Any) -> None:
        """Compare what was written down with a real call."""
        check_same(traced, real, self._tracing.eps)

    def _check(self, f: Any, v: Any, mine: Any) -> None:
        """Compare what was found for a slice with a real call for it."""
        result = f(v, *self._args, **self._kwargs)
        self._same(host(mine), cast(result, mine))

    # --- running ----------------------------------------------------------------------------

    @threads.forkable
    def __call__(self, arr: Any, axis: int, f: Any) -> Any:
        """All slices of `arr` through `f`; the result axes stand where `axis` was."""
        call = self.kernel_for(arr, axis)
        if call is not None:
            assert self._kernel is not None
            self.looped = 0
            found = self._kernel(
                call, arr, axis, partial(self._check, f), partial(self._by_calls, f=f)
            )
        elif self.fused_on(arr, axis):
            found = self._by_graph(arr, axis, f)
        else:
            found = self._by_calls(arr, axis, f)
        self._leave(arr, axis, f)
        return found

    def _by_calls(self, arr: Any, axis: int, f: Any) -> Any:
        """By the calls that `f` makes, block by block."""
        xp = np if isinstance(arr, Chosen) else arrays.compat(arr)
        n = arr.ndim
        view = arr if isinstance(arr, Chosen) else rows_of(arr, axis)
        batch = view.shape[:-1]
        slices = math.prod(batch)
        limit = _AT_LEAST + _PATIENCE * slices * self.seconds
        grow = lambda v: self._grow(f, v, limit)  # noqa: E731
        count = config.current().thread_count() if xp is np else 1
        room = self._room(arr, count)
        walk = Executor(self.tree, xp, grow, self.seconds, limit, room)
        try:
            with streams.shared(self.library):
                buffer, shape = self._run(walk, view, slices, xp, f, self._rows(room), count)
        except Exception as error:
            if not isinstance(arr, Chosen):  # those begin at another slice
                error.first = walk.first  # type: ignore[attr-defined]  # not to be called again
            raise
        order = (*range(axis), *range(n - 1, n - 1 + len(shape)), *range(axis, n - 1))
        return arrays.permute(buffer, order)

    def _run(
        self, walk: Executor, view: Any, slices: int, xp: Any, f: Any, rows: int, count: int
    ) -> tuple[Any, tuple[int, ...]]:
        """The results of all slices, and the shape of one: `rows` at once, in `count` threads."""
        batch = view.shape[:-1]
        fill = partial(self._filled, walk, view, xp, rows, count)
        buffer = None if xp is np else self._on_known_paths(walk, fill)
        if buffer is None:
            chosen = isinstance(view, Chosen)
            buffer = fill(*(view.result if chosen else self._shape_dtype(walk, f, view)))
        shape = tuple(buffer.shape[len(batch) :])
        flat = buffer.reshape(slices, *shape)
        self.looped = len(walk.off)
        for k in sorted(walk.warning - set(walk.off)):  # f itself gives NumPy's warnings
            f(view[np.unravel_index(k, batch)], *self._args, **self._kwargs)
        if not self._checked:
            for k in {slices // 3, slices // 2, 2 * slices // 3, slices - 1} - set(walk.off):
                self._check(f, view[np.unravel_index(k, batch)], flat[k])
            self._checked = True
        # Last of all and in order, so that whatever f does for these slices it does once, as in
        # the loop: for the others it is known to do nothing but compute.
        for k in sorted(walk.off):
            at = np.unravel_index(k, batch)
            try:
                if k == 0 and walk.first is not None:
                    result = walk.first[0]
                else:
                    result = f(view[at], *self._args, **self._kwargs)
            except Exception as error:
                raise Users(error, tuple(map(int, at))) from None
            result = self._tensor(result, flat)
            flat[k] = xp.asarray(result) if self.library == "cupy" else _array(result)
        return buffer, shape

    def _filled(
        self,
        walk: Executor,
        view: Any,
        xp: Any,
        rows: int,
        count: int,
        shape: tuple[int, ...],
        dtype: Any,
    ) -> Any:
        """The results of all slices that are on a path, each of a shape and dtype."""
        like = {"device": view.device} if self.library == "torch" else {}
        buffer = xp.empty((*view.shape[:-1], *shape), dtype=dtype, **like)
        slices = math.prod(view.shape[:-1])
        flat = buffer.reshape(slices, *shape)
        pieces = self._pieces(view, rows, xp)
        first = next(pieces)
        walk(first[0], flat[first[1]], first[1].start)
        worth = count > 1 and self._numbers() * slices > _WORTH_THREADS
        long = worth and rows * self.tree.per_call > _LONG_CALL

        def work(pieces: Iterator[tuple[Any, slice]]) -> None:
            for block, where in pieces:
                walk(block, flat[where], where.start)

        threads.in_threads(work, pieces, count if long and not self._alone() else 1)
        return buffer

    def _on_known_paths(self, walk: Executor, fill: Callable[..., Any]) -> Any:
        """The results of all slices, where all paths end alike: a device need not be asked which
        one the first slice takes. None where that matters after all."""
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

    def fused_on(self, arr: Any, axis: int) -> bool:
        """Whether the graph's own engine runs, not call after call."""
        forced = config.current().engine
        if self._fused is None:
            if forced not in ("", self.library):
                why = (forced == "cpu" and self.no_kernel) or self.no_graph
                raise UnsupportedError(f"engine {forced!r} cannot run it: {why}")
            return False
        if self._is_half and self.slower_than_half(arr, axis) is not None:
            return False
        return self.library != "numpy" or forced not in ("", "numpy")

    def slower_than_half(self, arr: Any, axis: int) -> Any:
        """The graph's engine, if it would compute in float32 what `f` computes in 16 bits, and
        take longer than its calls."""
        if not self._is_half or config.current().engine:
            return None
        engine, _ = self.engine_for(arr, axis)
        return engine if engine is not None and engine.slower_than_half else None

    def engine_for(self, arr: Any, axis: int) -> tuple[Any, tuple[str, ...]]:
        """What the graph runs on for arrays like this one, and why not on others."""
        assert self.graph is not None
        now = config.current()
        key = (axis, now.engine, now.precision, *arrays.signature(arr))
        found: tuple[Any, tuple[str, ...]] | None = self._chosen.get(key)
        if found is None:
            refused: list[str] = []
            engine = self._engines.choose(self._engines.Bound(self.graph), arr, axis, refused)
            found = self._chosen[key] = engine, tuple(refused)
        return found

    def _by_graph(self, arr: Any, axis: int, f: Any) -> Any:
        """By the graph, checked against real calls on the first and the last slice once."""
        assert self._fused is not None
        out = self._fused(arr, axis)
        if not self._graph_checked:
            for end in (0, -1):
                index = [end] * arr.ndim
                index[axis] = slice(None)  # type: ignore[call-overload]
                after = arr.ndim - axis - 1
                at = (*(end,) * axis, ..., *(end,) * after)
                self._check(f, arr[tuple(index)], out[at])
            self._graph_checked = True
        return out

    def kernel_for(self, arr: Any, axis: int) -> Any:
        """The one kernel that runs on an array like this one; None: something else does."""
        return None if self._kernel is None else self._kernel.call_for(arr, axis)

    @property
    def no_kernel(self) -> str:
        """Why it does not run as one kernel."""
        return "" if self._kernel is None else self._kernel.why_not

    def _grow(self, f: Any, v: Any, limit: float) -> SideExit | None:
        """Trace `f` on a slice that goes a new way, unless that has taken too long already."""
        if self.tree.count >= MOST_PATHS or self._spent > limit:
            raise TooManyPaths(f"its slices go too many ways ({self.tree.count} and more)")
        started = time.perf_counter()
        with streams.shared(self.library):
            path, value = self._tracing(f, self._seen(v))
        if not isinstance(path.result, SideExit):
            called = time.perf_counter()
            self._same(value, self._tried(f, v))
            self.seconds = min(self.seconds, time.perf_counter() - called)
        self._spent += time.perf_counter() - started
        if self.library == "cupy":
            self._check_names(path, arrays.compat(v))
        if isinstance(path.result, SideExit) and not path.result.decided:
            return path.result
        self.tree.add(path)
        return None

    def _shape_dtype(self, walk: Executor, f: Any, view: Any) -> tuple[tuple[int, ...], Any]:
        """Shape and dtype of the result: those of the first slice's, as in NumPy."""
        if not self.tree.branches and not self.tree.catches:
            return self.result.shape, self._dtype
        index = (0,) * (view.ndim - 1)
        slice0 = view[index]
        # of a foreign byte order only f itself knows which results have it as well
        end = walk.end(slice0[None]) if _native(view) else None
        if end is not None:
            return end.shape, end.dtype
        try:
            walk.first = (f(slice0, *self._args, **self._kwargs),)
        except Exception as error:
            raise Users(error, index) from None
        if arrays.library(walk.first[0]) == "torch":
            return tuple(walk.first[0].shape), walk.first[0].dtype
        found = np.asanyarray(host(walk.first[0]))
        if type(found) is not np.ndarray or found.dtype.kind not in "biufc":
            raise TraceError(f"it returns {found.dtype} for the first slice")
        return found.shape, found.dtype

    def _numbers(self) -> int:
        """Numbers that one slice computes, roughly."""
        return len(self.tree.calls) * max(1, self._tracing.length)

    def _alone(self) -> bool:
        """Whether blocks must not run beside each other."""
        # warning filters belong to the process: no other thread may run under them; products of
        # matrices have threads of their own
        return any(c.quiet or c.row.name in _PRODUCTS for c in self.tree.calls)

    def _room(self, arr: Any, threads: int) -> int:
        """Bytes that the values of a block may take at their worst moment."""
        if not isinstance(arr, Chosen) and arrays.is_asynchronous(arr):
            return _MOST_GPU_BYTES
        most = _MOST_TORCH_BYTES if self.library == "torch" else _MOST_BYTES
        return config.current().block_bytes or max(_LEAST_BYTES, most // threads)

    def _rows(self, room: int) -> int:
        """Slices in a block."""
        least = _BLOCK_BYTES if self.library == "numpy" else _GPU_BLOCK_BYTES
        if self.tree.branches or self.tree.masks:
            least *= 4  # the slices of a block part
        rows = room // self.tree.root.nbytes
        if not config.current().block_bytes:
            rows = min(rows, least // self.tree.per_call)
        return max(1, rows)

    def _pieces(self, view: Any, rows: int, xp: Any) -> Iterator[tuple[Any, slice]]:
        """Blocks of `rows` slices ``(B, M)``, and where their results go."""
        length = view.shape[-1]
        start = 0
        for box in boxes(view.shape, view.ndim - 1, rows):
            block = view[box].reshape(-1, length)
            block = block.contiguous() if self.library == "torch" else xp.ascontiguousarray(block)
            if not _native(block):
                block = block.astype(block.dtype.newbyteorder("="))
            yield block, slice(start, start + len(block))
            start += len(block)

    @property
    def overhead(self) -> float:
        """Seconds that a call takes, however few slices there are."""
        return _PER_RUN + SECONDS_PER_CALL * len(self.tree.calls)

    # --- explaining ---------------------------------------------------------------------------

    @property
    def kernels(self) -> tuple[str, ...]:
        """What runs, in words."""
        names: dict[str, int] = {}
        singly = set(self.tree.singly)
        for call in self.tree.calls:
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
        asked = {s.asks for s in self.tree.segments() if s.asks is not None}
        if asked:
            text += "; slices are grouped by what they decide (paths are found while it runs)"
        return (text,)


def _native(x: Any) -> bool:
    """Whether the bytes of numbers are in the order of this machine."""
    return bool(getattr(x.dtype, "isnative", True))


_PRODUCTS = frozenset(
    ["matmul"]
    + [
        f"numpy.{n}"
        for n in ("dot inner vdot tensordot einsum convolve correlate polyfit corrcoef cov").split()
    ]
)
"""Calls that are, or have in them, products of matrices."""


class Raises(TraceError):
    """`f` raises for the slice that it was to be traced on."""


def _array(x: Any) -> Any:
    return x if arrays.library(x) == "torch" else np.asanyarray(x)


def _torch_graph(f: Any, aval: ShapeDtype, args: tuple, kwargs: dict) -> Graph:
    """The graph of a function of a tensor, which is known to be harmless."""
    frontend: Any = registry.find("frontends", "torch")
    return compact(fold(frontend.lift_function(f, aval, args, kwargs)))  # type: ignore[no-any-return]

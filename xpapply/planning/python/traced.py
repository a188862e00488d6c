"""What runs a traced function on all slices: a kernel, a launch, its graph, or call after call."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ... import arrays, config
from ...errors import InputError, TraceError, UnsupportedError
from ...frontends.python.run.account import Account, Begun
from ...frontends.python.run.rows import Block, Rows
from ...frontends.python.run.runner import Trace
from ...frontends.python.trace.tree import Differs, Path
from ...functions.cache import BoundedDict
from ...ir.avals import ShapeDtype
from ...loop.arguments import Arguments
from ...runtime import registry, threads
from .. import engines
from .kernel_of_paths import KernelOfPaths

if TYPE_CHECKING:
    from ...ir.graph import Graph


class TracedFunction(Trace):
    """A traced function, and the ways to run it that there are.

    Parameters
    ----------
    f, arguments, slice0, sample, begun, **how
        As of `Trace`.

    Call it as ``traced(rows, f)``: it holds on to no function.

    Attributes
    ----------
    plans : set of Plan
        Those that run it, which shall say so if the loop does from now on.
    agreed : dict
        What it gave for arrays of another library, where that was what `f` gives there.
    """

    def __init__(
        self,
        f: Any,
        arguments: Arguments,
        slice0: Any,
        sample: Any,
        begun: Begun | None = None,
        **how: float,
    ) -> None:
        super().__init__(f, arguments, slice0, sample, engines.Deferring, begun, **how)
        several, path = isinstance(slice0, tuple), self._path
        asked = arguments.dtypes
        aval: Any = tuple(map(_aval, slice0)) if several else _aval(slice0)
        self._graph: Graph | None = None
        self._no_graph = ""
        self._as_graph: Callable[[], Graph] | None = None
        """What makes the graph of NumPy's slices, which most calls never need."""
        try:
            if several:
                raise UnsupportedError("its slices are of several arrays or axes")
            if asked is not None:  # the graph's result has its own
                raise UnsupportedError("a dtype is asked for")
            if self.library == "torch":
                with self._tracing.scratch.kept():
                    args = arguments.args[1:]
                    self._graph = _torch_graph(f, aval, args, arguments.kwargs)
            elif self.library != "numpy":
                self._graph = _to_graph(path, aval)
            elif path.raises_errors:
                raise UnsupportedError("numpy.errstate makes errors raise")
            else:
                self._as_graph = lambda: _to_graph(path, aval)
        except UnsupportedError as error:
            self._no_graph = str(error)
        self._runs_graph: Any = None
        if self.library not in ("numpy", "cupy", "torch") and self._fused is None:
            raise TraceError(f"no graph for {self.library} arrays: {self.no_graph}")
        self._is_half = self.library == "torch" and self._fused is not None
        self._is_half = self._is_half and aval.dtype in ("float16", "bfloat16")
        self._chosen = BoundedDict()
        self._kernel = None
        if self.library == "numpy":
            dtype = asked if asked is None or arguments.results else asked[0]
            self._kernel = KernelOfPaths(self.tree, aval, dtype, arguments.results)
        self._launch = None
        if several and self.library in ("cupy", "torch"):
            from .one_launch import OneLaunch

            try:
                self._launch = OneLaunch(self._graph_of_several(f, arguments, aval))
            except (InputError, TraceError, UnsupportedError) as error:
                self._no_graph = str(error)
        self._graph_checked = False
        self.plans: weakref.WeakSet[Any] = weakref.WeakSet()
        self.agreed = BoundedDict()

    @property
    def graph(self) -> Graph | None:
        """The graph of a slice; None: `no_graph` says why there is none."""
        make, self._as_graph = self._as_graph, None
        if make is not None:
            try:
                self._graph = make()
            except UnsupportedError as error:
                self._no_graph = str(error)
        return self._graph

    @property
    def no_graph(self) -> str:
        """Why there is no graph."""
        return "" if self.graph is not None else self._no_graph

    @property
    def _fused(self) -> Any:
        """What runs the graph."""
        if self._runs_graph is None and self.graph is not None:
            self._runs_graph = engines.AnyLibrary(self.graph)
        return self._runs_graph

    def _graph_of_several(self, f: Any, arguments: Arguments, avals: Any) -> Graph:
        if self.library == "cupy":
            return _to_graph(self._path, avals)
        if any(x.dtype in ("float16", "bfloat16") for x in avals):
            raise UnsupportedError("torch computes in 16 bits")
        frontend: Any = registry.find("frontends", "torch")
        with self._tracing.scratch.kept():
            return _compact(frontend.lift_several(f, avals, arguments))

    @property
    def compiles(self) -> bool:
        """Whether the last run has had something compiled: its time tells nothing of the next."""
        return self._kernel is not None and self._kernel.compiles

    # --- running ----------------------------------------------------------------------------

    @threads.forkable
    def __call__(self, rows: Rows, f: Any, account: Account | None = None) -> Any:
        """All slices through `f`; the result axes stand where the slices' axis was.

        `account`: what that may cost beyond the loop; None: whatever it costs.
        """
        self.begin(rows)
        call = self.kernel_for(rows)
        if call is not None:
            assert self._kernel is not None
            self._blocks.looped, self._blocks.why_left = 0, ""
            check, by_calls = partial(self.check, f), partial(self._blocks, f=f)
            found = rows.placed(self._kernel(call, rows, check, by_calls))
        elif (launch := self.launch_for(rows)) is not None:
            found = rows.placed(self._by_launch(launch, rows, f))
        elif self.fused_on(rows):
            found = self._by_graph(rows, f)
        else:
            found = rows.placed(self.by_calls(rows, f, account))
            if self._kernel is not None:
                self._kernel.waited(rows)
        self.end(rows, f)
        return found

    def fused_on(self, rows: Rows) -> bool:
        """Whether the graph's own engine runs, not call after call."""
        forced = config.current().engine
        if self.library == "numpy" and forced in ("", "numpy"):
            return False
        if self._fused is None:
            if forced not in ("", self.library):
                why = (forced == "cpu" and self.no_kernel) or self.no_graph
                raise UnsupportedError(f"engine {forced!r} cannot run it: {why}")
            return False
        return not self._is_half or self.slower_than_half(rows) is None

    def slower_than_half(self, rows: Rows) -> Any:
        """The graph's engine, if it would compute in float32 what `f` computes in 16 bits, and
        take longer than its calls."""
        if not self._is_half or config.current().engine:
            return None
        engine, _ = self.engine_for(rows)
        return engine if engine is not None and engine.slower_than_half else None

    def engine_for(self, rows: Rows) -> tuple[Any, tuple[str, ...]]:
        """What the graph runs on for slices like these, and why not on others."""
        assert self._fused is not None
        bound = self._fused.bound
        arr, axis = rows.like, rows.axis
        now = config.current()
        key = (axis, now.engine, now.precision, self.failed, *arrays.signature(arr))
        found: tuple[Any, tuple[str, ...]] | None = self._chosen.get(key)
        if found is None:
            refused: list[str] = []
            engine = engines.choose(bound, arr, axis, refused)
            found = self._chosen[key] = engine, tuple(refused)
        return found

    def _by_graph(self, rows: Rows, f: Any) -> Any:
        """By the graph, checked against real calls on the first and the last slice once."""
        assert self._fused is not None
        arr, axis = rows.like, rows.axis
        out = self._fused(arr, axis)
        if not self._graph_checked:
            for end in (0, -1):
                index = [end] * arr.ndim
                index[axis] = slice(None)  # type: ignore[call-overload]
                after = arr.ndim - axis - 1
                at = (*(end,) * axis, ..., *(end,) * after)
                self.check(f, arr[tuple(index)], out[at])
            self._graph_checked = True
        return out

    def launch_for(self, rows: Rows) -> Any:
        """What runs slices of several arrays as one function; None: something else does."""
        return None if self._launch is None else self._launch.call_for(rows)

    def _by_launch(self, call: Any, rows: Rows, f: Any) -> Any:
        """As one function of slices, checked against real calls on the first and the last once."""
        assert self._launch is not None
        found = self._launch(call, rows)
        out: Any = Block(found) if isinstance(self._blocks.result, tuple) else found[0]
        if self._graph_checked:
            return out
        try:
            for end in (0, -1):
                at = (end,) * len(rows.batch)
                mine = out[at]
                self.check(f, rows[at], mine.arrays if isinstance(mine, Block) else mine)
        except Differs as error:
            self._launch, self._no_graph = None, str(error)
            return self._blocks(rows, f)
        self._graph_checked = True
        return out

    def kernel_for(self, rows: Rows) -> Any:
        """The one kernel that runs on slices like these; None: something else does.

        None is made of paths that turned out not to be all of them: it would take long, for
        slices that may go further ways.
        """
        if self._kernel is None or self.record.lost:
            return None
        most = math.inf
        if not config.current().engine:
            most = self.record.most(math.prod(rows.batch), self.seconds)
        return self._kernel.call_for(rows, most)

    def ran(self, rows: Rows) -> tuple[Callable[[Rows], Sequence[Any] | None], bool] | None:
        """What ran on slices like these, for further ones, and whether it takes any shapes that
        broadcast; None: nothing that runs again as it is.

        It gives the results, or None where the whole way has to be gone again.
        """
        call = None if self._kernel is None else self._kernel.ran
        if call is not None and call.fits(rows) and self.still_runs(call):
            return partial(self._again_by_kernel, call), call.addresses_only
        call = self.launch_for(rows) if self._graph_checked else None
        if call is None or self._tracing.scratch:
            return None
        return partial(self._again_by_launch, call), False

    def _again_by_kernel(self, call: Any, rows: Rows) -> Sequence[Any] | None:
        if not self.still_runs(call):
            return None
        found, marked = call.kernel(call, rows)
        return None if np.count_nonzero(marked) else found  # type: ignore[no-any-return]

    def _again_by_launch(self, call: Any, rows: Rows) -> Sequence[Any] | None:
        return None if self._launch is None else self._launch(call, rows)  # type: ignore[no-any-return]

    def still_runs(self, call: Any) -> bool:
        """Whether a kernel that ran is still the one that runs."""
        kernel = self._kernel
        return kernel is not None and kernel.made is call.kernel and not kernel.is_due

    @property
    def kernel_made(self) -> Any:
        """The kernel that there is, if any; something else each time while that may change."""
        if self._kernel is None:
            return None
        return object() if self._kernel.may_change else self._kernel.made

    @property
    def failed(self) -> int:
        """How many engines' compilers refused the graph."""
        return 0 if self._runs_graph is None else len(self._runs_graph.bound.failed)

    @property
    def not_compiled(self) -> str:
        """What the compiler said of the one kernel, if it refused."""
        made = None if self._kernel is None else self._kernel.made
        return "" if made is None else made.not_compiled

    @property
    def no_kernel(self) -> str:
        """Why it does not run as one kernel."""
        return "" if self._kernel is None else self._kernel.why_not


def _aval(v: Any) -> ShapeDtype:
    return ShapeDtype(tuple(map(int, v.shape)), arrays.dtype_name(v))


def _to_graph(path: Path, aval: Any) -> Graph:
    """The graph of a path, which short calls never need."""
    from ...frontends.python.graphs.to_graph import to_graph

    return _compact(to_graph(path, aval))


def _torch_graph(f: Any, aval: ShapeDtype, args: tuple, kwargs: dict) -> Graph:
    """The graph of a function of a tensor, which is known to be harmless."""
    frontend: Any = registry.find("frontends", "torch")
    return _compact(frontend.lift_function(f, aval, args, kwargs))


def _compact(graph: Graph) -> Graph:
    from ...ir.rewrite import compact, fold

    return compact(fold(graph))

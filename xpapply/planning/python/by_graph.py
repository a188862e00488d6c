"""The last of the ways to run a traced function: the graph of a slice, and call after call."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ... import arrays, config
from ...backends import choice
from ...errors import UnsupportedError
from ...frontends.python.run.account import Account
from ...frontends.python.run.in_blocks import InBlocks
from ...frontends.python.run.rows import Rows
from ...frontends.python.trace.tree import Path
from ...functions.cache import BoundedDict
from ...ir.avals import ShapeDtype
from ...loop.arguments import Arguments
from ...runtime import registry
from .. import engines
from ..ways import Said, Way

if TYPE_CHECKING:
    from ...ir.graph import Graph


class ByGraph(Way):
    """The graph of a slice.

    Parameters
    ----------
    f, arguments, aval, blocks
        The function, what it is called with, what a slice is, and the calls that it makes.
    scratch
        What keeps attributes as they are while `f` is lifted.
    """

    def __init__(
        self, f: Any, arguments: Arguments, aval: Any, blocks: InBlocks, scratch: Any
    ) -> None:
        self.blocks, self.library = blocks, blocks.library
        self._graph: Graph | None = None
        self._why = ""
        self._make: Callable[[], Graph] | None = None
        """The function that makes the graph of NumPy's slices, which few calls need."""
        path = blocks.path
        try:
            if not isinstance(aval, ShapeDtype):
                raise UnsupportedError("its slices are of several arrays or axes")
            if arguments.dtypes is not None:  # the graph's result has its own
                raise UnsupportedError("a dtype is asked for")
            if self.library == "torch":
                with scratch.kept():
                    args = arguments.args[1:]
                    self._graph = _torch_graph(f, aval, args, arguments.kwargs)
            elif self.library != "numpy":
                self._graph = _to_graph(path, aval)
            elif path.raises_errors:
                raise UnsupportedError("numpy.errstate makes errors raise")
            elif blocks.tree.powers:
                raise UnsupportedError("powers of numbers are those of C's library")
            else:
                self._make = lambda: _to_graph(path, aval)
        except UnsupportedError as error:
            self._why = str(error)
        self._runs: Any = None
        self._is_half = self.library == "torch" and self._graph is not None
        self._is_half = self._is_half and aval.dtype in ("float16", "bfloat16")
        self._chosen = BoundedDict()
        self._checked = False

    @property
    def graph(self) -> Graph | None:
        """The graph of a slice, if there is one."""
        make, self._make = self._make, None
        if make is not None:
            try:
                self._graph = make()
            except UnsupportedError as error:
                self._why = str(error)
        return self._graph

    @property
    def _fused(self) -> Any:
        """The graph's runner."""
        if self._runs is None:
            assert self.graph is not None
            self._runs = engines.AnyLibrary(self.graph)
        return self._runs

    # --- whether it runs --------------------------------------------------------------------

    def why_not(self, rows: Rows | None) -> str | None:
        """Why it does not run on such slices, or, without any, why there is no graph."""
        if self.library == "numpy" and config.current().engine in ("", "numpy"):
            return "NumPy's own calls give the same bits"
        if self.graph is None:
            return self._why
        if rows is not None and self._is_half and not config.current().engine:
            engine, _ = self.engine_for(rows)
            if engine is not None and engine.slower_than_half:
                # which computes in float32 what `f` computes in 16 bits, and takes longer
                return engines.in_float32(engine, arrays.dtype_name(rows.like))
        return None

    def told(self, rows: Rows) -> tuple[str, ...]:
        """Why not in float32."""
        why = self.why_not(rows) if self._is_half else None
        return () if why is None else (why,)

    def engine_for(self, rows: Rows) -> tuple[Any, tuple[str, ...]]:
        """The engine for slices like these, and why others refuse."""
        bound, arr, axis = self._fused.bound, rows.like, rows.axis
        now = config.current()
        key = (axis, now.engine, now.precision, self.state, *arrays.signature(arr))
        found: tuple[Any, tuple[str, ...]] | None = self._chosen.get(key)
        if found is None:
            refused: list[str] = []
            engine = engines.choose(bound, arr, axis, refused)
            found = self._chosen[key] = engine, tuple(refused)
        return found

    @property
    def state(self) -> int:
        """The number of engines whose compiler refused the graph."""
        return 0 if self._runs is None else len(self._runs.bound.failed)

    def says(self, what: Rows) -> Said:
        """The engine for such slices, which a call need not know."""
        engine, reasons = self.engine_for(what)
        if engine is None:
            return Said(self.library, self.blocks.kernels, reasons)
        limits = choice.limits(engine.backend, what.like)
        return Said(engine.name, engine.kernels, reasons, limits)

    # --- running ----------------------------------------------------------------------------

    def call_for(self, rows: Rows) -> Rows | None:
        """Such slices, which tell the engine."""
        return rows if self.why_not(rows) is None else None

    def __call__(self, what: Any, rows: Rows, f: Any, account: Any = None) -> Any:
        """All slices, checked against real calls on the first and the last one once."""
        arr, axis = rows.like, rows.axis
        out = self._fused(arr, axis)
        if not self._checked:
            for end in (0, -1):
                at = (*(end,) * axis, ..., *(end,) * (arr.ndim - axis - 1))
                self.blocks.check(f, rows[(*(end,) * (arr.ndim - 1), ...)], out[at])
            self._checked = True
        return out


class ByCalls(Way):
    """The recorded calls in blocks of slices: the way that runs where no other does."""

    reasons, limits = (), None

    def __init__(self, blocks: InBlocks) -> None:
        self._blocks = blocks
        self.name = self.engine = blocks.library

    @property
    def kernels(self) -> tuple[str, ...]:
        """A description of the calls."""
        return self._blocks.kernels

    def why_not(self, rows: Rows) -> str | None:
        """The refusal where another engine was requested."""
        asked = config.current().engine
        return None if asked in ("", self.name) else f"{asked!r} was asked for"

    def call_for(self, rows: Rows) -> ByCalls | None:
        """The calls, for any slices."""
        return self if self.why_not(rows) is None else None

    def __call__(self, what: Any, rows: Rows, f: Any, account: Account | None = None) -> Any:
        """All slices, block by block."""
        return rows.placed(self._blocks(rows, f, account))


def _to_graph(path: Path, aval: Any) -> Graph:
    """The graph of a path, which short calls never need."""
    from ...frontends.python.graphs.to_graph import to_graph

    return _compact(to_graph(path, aval))


def graph_of_several(
    f: Any, arguments: Arguments, avals: Any, blocks: InBlocks, scratch: Any
) -> Graph:
    """The graph of a function of a slice of each of several arrays, of CuPy or torch."""
    if blocks.library == "cupy":
        return _to_graph(blocks.path, avals)
    if any(x.dtype in ("float16", "bfloat16") for x in avals):
        raise UnsupportedError("torch computes in 16 bits")
    frontend: Any = registry.find("frontends", "torch")
    with scratch.kept():
        return _compact(frontend.lift_several(f, avals, arguments))


def _torch_graph(f: Any, aval: ShapeDtype, args: tuple, kwargs: dict) -> Graph:
    """The graph of a function of a tensor, which is known to be harmless."""
    frontend: Any = registry.find("frontends", "torch")
    return _compact(frontend.lift_function(f, aval, args, kwargs))


def _compact(graph: Graph) -> Graph:
    from ...ir.rewrite import compact, fold

    return compact(fold(graph))

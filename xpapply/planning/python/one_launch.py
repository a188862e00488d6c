"""Traced functions of several arrays as one function of slices, for CuPy and torch.

NumPy's has marks besides, and other ways: see `xpapply.planning.python.one_kernel`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import arrays, config
from ...errors import Differs, InputError, TraceError, UnsupportedError
from ...frontends.python.run.in_blocks import InBlocks
from ...frontends.python.run.rows import Block, Rows
from ...functions.cache import BoundedDict
from ...ir.graph import Graph
from ...ir.slices.to_slice_graph import sliced
from ...slice_functions.arguments import Number, signature
from ...slice_functions.call import BoundKernel
from ..ways import Way


class OneLaunch(Way):
    """A graph of one slice of each of several arrays, for all slices at once.

    Parameters
    ----------
    graph : callable
        ``graph()`` is the graph: its inputs are the slices.
    blocks : InBlocks
        The calls of `f`, which run if results differ from its own.
    scratch
        Attributes that `f` sets. Where there are some, no run is repeated as it is.
    """

    def __init__(self, graph: Callable[[], Graph], blocks: InBlocks, scratch: Any) -> None:
        self._blocks, self._scratch = blocks, scratch
        self._why, self._checked = "", False
        try:
            self._lower(graph())
        except (InputError, TraceError, UnsupportedError) as error:
            self._why = str(error)

    def _lower(self, graph: Graph) -> None:
        found = sliced(graph)
        if found is None:
            raise UnsupportedError("its values are more than one per element or slice")
        self._whole, self._graph = graph, found.graph
        self._consts = [graph.consts[k] for k in found.consts]
        self._vectors = [
            found.graph.is_vector(i)
            for i in found.graph.inputs[len(found.graph.inputs) - len(self._consts) :]
        ]
        (self._length,) = graph.nodes[graph.inputs[0]].aval.shape
        self._known = BoundedDict()
        self._on_device = BoundedDict()

    def why_not(self, rows: Rows) -> str | None:
        """Why kernels for slices of any length cannot run it."""
        return self._why or None

    def ran(self, rows: Rows) -> tuple[Callable[[Rows], Any], bool] | None:
        """The last run on such slices, once it has been checked."""
        call = self.call_for(rows) if self._checked else None
        if call is None or self._scratch:
            return None
        return lambda rows: None if self._why else self.results(call, rows), False

    def call_for(self, rows: Rows) -> BoundKernel | None:
        """The bound kernel for slices of this layout; None: only array operations would run."""
        if self._why:
            return None
        now = config.current()
        key = (now.engine, now.precision, rows.batch, *map(signature, rows.views))
        found: BoundKernel | str | None = self._known.get(key, "")
        if isinstance(found, str):
            found = self._known[key] = self._made(rows)
        return found

    def _made(self, rows: Rows) -> BoundKernel | None:
        given = self._operands(rows)
        as_is = [True] * len(rows.views) + self._vectors
        seen = [
            x if is_array else Number(x.item(), x.dtype)
            for x, is_array in zip(given, as_is, strict=True)
        ]
        shape, at = (*rows.batch, self._length), len(rows.batch)
        try:
            call = BoundKernel("f", self._graph, True, seen, as_is, shape, (at,), False, None)
        except UnsupportedError:
            if config.current().engine:
                raise
            return None
        forced = config.current().engine
        return None if call.engine == "array_api" and not forced else call

    def _operands(self, rows: Rows) -> list[Any]:
        """The arrays, and the constants where they are."""
        if not self._consts:
            return [*rows.views]
        place = arrays.place(rows.like)
        consts = self._on_device.get(place)
        if consts is None:
            consts = self._on_device[place] = [
                arrays.asarray(x.reshape(-1), rows.like) if vector else x.reshape(())[()]
                for x, vector in zip(self._consts, self._vectors, strict=True)
            ]
        return [*rows.views, *consts]

    def __call__(self, call: BoundKernel, rows: Rows, f: Any, account: Any = None) -> Any:
        """All slices, checked against real calls on the first and the last one once."""
        return rows.placed(self._as_checked(call, rows, f))

    def _as_checked(self, call: BoundKernel, rows: Rows, f: Any) -> Any:
        found = self.results(call, rows)
        out: Any = Block(found) if isinstance(self._blocks.result, tuple) else found[0]
        if self._checked:
            return out
        try:
            for end in (0, -1):
                at = (end,) * len(rows.batch)
                self._blocks.check(f, rows[at], out[at])
        except Differs as error:
            self._why = str(error)
            return self._blocks(rows, f)
        self._checked = True
        return out

    def results(self, call: BoundKernel, rows: Rows) -> list[Any]:
        """The results of all slices, each ``(*batch, *result shape)``."""
        found = list(call(self._operands(rows)))
        outs = zip(self._graph.outs, self._whole.outs, strict=True)
        for k, (o, whole) in enumerate(outs):
            if not self._graph.is_vector(o) and self._whole.nodes[whole].aval.shape:
                found[k] = found[k][..., None]
        return found

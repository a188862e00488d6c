"""Traced functions of several arrays as one function of slices, for CuPy and torch.

NumPy's has marks besides, and other ways: see `xpapply.planning.python.one_kernel`.
"""

from __future__ import annotations

from typing import Any

from ... import arrays, config
from ...errors import UnsupportedError
from ...frontends.python.run.rows import Rows
from ...functions.cache import BoundedDict
from ...ir.graph import Graph
from ...ir.slices.to_slice_graph import sliced
from ...slice_functions.arguments import Number, signature
from ...slice_functions.call import BoundKernel


class OneLaunch:
    """A graph of one slice of each of several arrays, for all slices at once.

    Call it as ``one_launch(call, rows)``, with what `call_for` gave: it gives the results, each
    ``(*batch, *result shape)``.

    Parameters
    ----------
    graph : Graph
        Its inputs are the slices.

    Raises
    ------
    UnsupportedError
        If kernels for slices of any length cannot run it.
    """

    def __init__(self, graph: Graph) -> None:
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

    def call_for(self, rows: Rows) -> BoundKernel | None:
        """What runs on slices that lie like these; None: nothing but array operations would."""
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

    def __call__(self, call: BoundKernel, rows: Rows) -> list[Any]:
        """The results of all slices."""
        found = list(call(self._operands(rows)))
        outs = zip(self._graph.outs, self._whole.outs, strict=True)
        for k, (o, whole) in enumerate(outs):
            if not self._graph.is_vector(o) and self._whole.nodes[whole].aval.shape:
                found[k] = found[k][..., None]
        return found

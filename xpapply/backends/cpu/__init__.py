"""CPUs: kernels that are generated as LLVM IR and compiled by llvmlite."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...ir.graph import Graph
from ...layout import Layout
from .. import Backend


class CPU(Backend):
    """Kernels on the memory of host arrays."""

    name = "cpu"

    def why_not(self, graph: Graph, like: Any) -> str | None:
        return "it has no networks"

    def slices_why_not(self, graph: Graph, arrays: Sequence[Any]) -> str | None:
        from . import slices

        return slices.why_not(graph, arrays)

    def lower_slices(self, graph: Graph, layout: Layout, like: Any) -> Any:
        from . import slices

        return slices.LoweredSlices(graph, layout)


BACKEND = CPU()

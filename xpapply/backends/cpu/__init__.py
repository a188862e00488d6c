"""CPUs: kernels that are generated as LLVM IR and compiled by llvmlite.

They work on addresses and strides, so on the memory of every array that lies in the host's: NumPy's
and torch's backends lend them theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ir.graph import Graph
from ...layout import Layout
from .. import Backend
from . import networks


class CPU(Backend):
    """Kernels on the memory of host arrays."""

    name = "cpu"

    def why_not(self, graph: Graph, like: Any) -> str | None:
        return networks.why_not(graph, like)

    def lower(self, graph: Graph) -> networks.NetworkLowered:
        return networks.NetworkLowered(graph)

    def empty(self, shape: tuple[int, ...], dtype: str, like: Any) -> np.ndarray:
        return np.empty(shape, dtype)

    def slices_why_not(self, graph: Graph, arrays: Sequence[Any]) -> str | None:
        from . import slices

        return slices.why_not(graph, arrays)

    def lower_slices(self, graph: Graph, layout: Layout, like: Any) -> Any:
        from . import slices

        return slices.LoweredSlices(graph, layout)


BACKEND = CPU()

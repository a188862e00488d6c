"""Elementwise work of whole arrays as text: what `cupy.ElementwiseKernel` takes."""

from __future__ import annotations

from dataclasses import dataclass

from ..ir.graph import Graph
from ..ir.rewrite import Region
from .cxx import helpers, statements


@dataclass(frozen=True)
class RegionKernel:
    """The text of one elementwise kernel for a region: bias and activation in one pass."""

    in_params: str
    out_params: str
    operation: str
    name: str
    preamble: str


def region_kernel(graph: Graph, region: Region) -> RegionKernel:
    """Write one pass over arrays that broadcast."""
    nodes = graph.nodes
    operation = "\n".join(
        [
            *statements(graph, region.nodes, lambda a: f"a{a}"),
            f"y = t{region.out};",
        ]
    )
    return RegionKernel(
        in_params=", ".join(f"{nodes[a].aval.dtype} a{a}" for a in region.inputs),
        out_params=f"{nodes[region.out].aval.dtype} y",
        operation=operation,
        name="xpapply_" + "_".join(nodes[i].op for i in region.nodes)[:60],
        preamble=helpers(graph),
    )

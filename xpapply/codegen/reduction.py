"""A reduction of slices as text: what `cupy.ReductionKernel` takes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ..ir.graph import Graph
from ..ir.ops import OPS, Kind
from ..ir.rewrite import MATVEC
from .cxx import TYPES, helpers, literal, statements
from .graph_queries import prepare


@dataclass(frozen=True)
class Reduction:
    """The text of one reduction kernel: a graph that maps, reduces to one number, and maps."""

    in_params: str
    out_params: str
    map_expr: str
    reduce_expr: str
    post_expr: str
    identity: str
    reduce_type: str
    preamble: str
    per_slice: tuple[int, ...]
    """const nodes that stand beside the elements of the slice"""
    numbers: tuple[int, ...]
    """const nodes of one number"""

    name = "xpapply_reduction"


def reduction_kernel(graph: Graph) -> Reduction | None:
    """`graph` as map, reduce, post; None if it has another form.

    A product with one row of weights, ``Linear(n, 1)``, is such a graph too.
    """
    graph = prepare(graph)
    nodes = graph.nodes
    if math.prod(graph.result.shape) != 1:
        return None
    dependent = graph.dependent()
    reductions = [
        i
        for i, n in enumerate(nodes)
        if dependent[i] and (n.op == "einsum" or OPS[n.op].kind is Kind.REDUCTION)
    ]
    if len(reductions) != 1:
        return None
    at = reductions[0]
    node = nodes[at]
    row = OPS["sum" if node.op == "einsum" else node.op]
    if not row.join or math.prod(node.aval.shape) != 1:
        return None
    if node.op == "einsum" and node.attr("subscripts") != MATVEC:
        return None
    length = graph.input.shape
    before, after = _upstream(graph, at, dependent), []
    for i, n in enumerate(nodes):
        if not dependent[i] or i in before or i == at or n.op == "input":
            continue
        if n.op not in ("reshape", "index", "broadcast_to") and not OPS[n.op].c:
            return None
        after.append(i)
    seen = {at, *after}  # what is after the reduction must not look at the slice again
    if any(dependent[a] and a not in seen for i in after for a in nodes[i].args):
        return None
    source = node.args[1] if node.op == "einsum" else node.args[0]
    if any(nodes[i].aval.shape != length or not OPS[nodes[i].op].c for i in before):
        return None
    if nodes[source].aval.shape != length:
        return None
    per_slice: list[int] = [node.args[0]] if node.op == "einsum" else []
    numbers: list[int] = []
    for i in (*before, *after):
        for a in nodes[i].args:
            if dependent[a] or nodes[a].op == "scalar" or a in per_slice or a in numbers:
                continue
            if nodes[a].op != "const":
                return None
            if nodes[a].aval.shape == length and i in before and math.prod(length) > 1:
                per_slice.append(a)
            elif math.prod(nodes[a].aval.shape) == 1:
                numbers.append(a)
            else:
                return None
    dtype = nodes[at].aval.dtype
    T = TYPES[dtype]
    # CUB cannot reduce CuPy's class of float16; NumPy adds in float32 as well
    R = "float" if dtype == "float16" else T
    start = graph.entry
    assert row.identity is not None

    def name(a: int) -> str:
        return "in0" if a == start else f"c{a}"

    mapped = statements(graph, before, name, "_map")
    value = "in0" if source == start else f"t{source}_map"
    result = f"{value} * c{node.args[0]}" if node.op == "einsum" else value
    arguments = [
        f"{TYPES[graph.input.dtype]} in0",
        *(f"{TYPES[nodes[a].aval.dtype]} c{a}" for a in (*per_slice, *numbers)),
    ]
    passed = ", ".join(["in0", *(f"c{a}" for a in (*per_slice, *numbers))])
    # layouts of one number change nothing
    alias = {
        i: nodes[i].args[0] for i in after if nodes[i].op in ("reshape", "index", "broadcast_to")
    }

    def post_name(a: int) -> str:
        while a in alias:
            a = alias[a]
        if a == at:
            return "s"
        return f"t{a}_post" if a in after else f"c{a}"

    lines = [
        line for i in after if i not in alias for line in statements(graph, [i], post_name, "_post")
    ]
    OUT = TYPES[graph.result.dtype]
    numbers_in = [f"{TYPES[nodes[a].aval.dtype]} c{a}" for a in numbers]
    # CuPy's own text for long slices, by CUB, takes the names of types for granted
    preamble = f"""{helpers(graph)}
typedef {TYPES[graph.input.dtype]} type_in0_raw;
typedef {OUT} type_out0_raw;
__device__ __forceinline__ {R} xpapply_map({", ".join(arguments)}) {{
  {" ".join(mapped)}
  return {result};
}}
__device__ __forceinline__ {R} xpapply_join({R} s, {R} e) {{
  return {"s + e" if node.op == "einsum" else row.c.format("s", "e")};
}}
__device__ __forceinline__ {OUT} xpapply_post({", ".join([f"{T} s", *numbers_in])}) {{
  {" ".join(lines)}
  return {post_name(graph.out)};
}}
"""
    params = [
        f"{graph.input.dtype} in0",
        *(f"{nodes[a].aval.dtype} c{a}" for a in (*per_slice, *numbers)),
    ]
    post = ", ".join(["a", *(f"c{a}" for a in numbers)])
    return Reduction(
        in_params=", ".join(params),
        out_params=f"{graph.result.dtype} out0",
        map_expr=f"xpapply_map({passed})",
        reduce_expr="xpapply_join(a, b)",
        post_expr=f"out0 = xpapply_post({post})",
        identity=literal(row.identity, "float32" if R == "float" else dtype),
        reduce_type=R,
        preamble=preamble,
        per_slice=tuple(per_slice),
        numbers=tuple(numbers),
    )


def _upstream(graph: Graph, at: int, dependent: Sequence[bool]) -> list[int]:
    """The nodes between the input and node `at`."""
    found: set[int] = set()
    stack = [a for a in graph.nodes[at].args if dependent[a]]
    while stack:
        i = stack.pop()
        if i in found or graph.nodes[i].op == "input":
            continue
        found.add(i)
        stack += [a for a in graph.nodes[i].args if dependent[a]]
    return sorted(found)

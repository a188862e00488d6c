"""The choice of a plan for a network, and refusals."""

from __future__ import annotations

from dataclasses import replace

from ...ir.graph import Graph
from ...ir.ops import OPS, Kind
from ..cxx import TYPES
from ..graph_queries import GraphQueries
from ..tensor_network import Refused, Target
from .maps import Maps
from .plan import Plan
from .steps import Steps

_WARPS = 8
_STAGED = 64 << 10
"""Weights of so many bytes are copied to shared memory; more are read from the cache."""


def planned(maps: Maps, target: Target) -> Plan:
    """The plan that was fastest on an H200: many small slices, or few large ones, or what fits."""
    try:
        return _planned(maps, target, tables=True)
    except Refused:
        return _planned(maps, target, tables=False)


def _planned(maps: Maps, target: Target, tables: bool) -> Plan:
    trial = Steps(maps, target.precision, Plan(1, 1, _WARPS, True, tables=tables))
    for s in maps.steps[1:]:
        trial.write(s)
    one, weights = 4 * trial.pitch, trial.weights.bytes
    fixed = trial.numbers.bytes + 2048
    if target.few:  # each has a multiprocessor, for a turn: weights are read once, where they are
        plans = [Plan(1, 1, 2 * _WARPS, False)]
    else:
        most = weights <= _STAGED
        plans = [Plan(4, 32, _WARPS, staged) for staged in (True, False) if most or not staged]
        plans += [Plan(3, 16, _WARPS, most), Plan(2, 8, _WARPS, most)]
        plans += [Plan(1, 1, 2 * _WARPS, most)]
    for plan in plans:
        images = (plan.room(target.shared) - fixed - weights * plan.staged) // (one + 64)
        if images >= plan.images:
            images = min(1 if target.few else max(16, plan.images), images)
            return replace(plan, images=1 << (images.bit_length() - 1), tables=tables)
    fixed += weights * plans[-1].staged
    room = target.shared - fixed
    raise Refused(f"maps of {one:,} bytes do not fit in {max(0, room):,} of shared memory")


def check(graph: Graph, target: Target) -> None:
    """Raise `Refused` for what no kernel has a form for, or that is by far too large."""
    queries = GraphQueries(graph)
    largest = 4 * max((queries.size(i) for i in _sources(graph, queries)), default=0)
    if largest > target.shared:
        raise Refused(f"maps of {largest:,} bytes do not fit in {target.shared:,} of shared memory")
    if not queries.dependent[graph.out]:
        raise Refused("the result does not depend on the slice")
    for i, n in enumerate(graph.nodes):
        kind = OPS[n.op].kind
        if n.aval.dtype not in TYPES and n.op not in ("input", "reshape"):
            raise Refused(f"dtype {n.aval.dtype} has no C++ type")
        if not queries.dependent[i]:
            if kind is not Kind.LEAF and n.op != "reshape":
                raise Refused(f"{n.op} of constants")
            if kind is Kind.LEAF and n.op != "scalar" and n.aval.dtype != "float32":
                raise Refused(f"{n.aval.dtype} constants")
            continue
        last = i == graph.out
        if (
            n.op not in ("input", "reshape")
            and not last
            and n.aval.dtype not in ("float32", "bool")
        ):
            raise Refused(f"{n.aval.dtype} values")
    if graph.result.dtype not in ("float32", "float16"):
        raise Refused(f"{graph.result.dtype} results")


def _sources(graph: Graph, queries: GraphQueries) -> set[int]:
    """The values that products read, before anything moved their numbers."""
    found = set()
    for n in graph.nodes:
        if n.op != "einsum":
            continue
        for i in n.args:
            while OPS[graph.nodes[i].op].kind is Kind.LAYOUT and len(graph.nodes[i].args) == 1:
                (i,) = graph.nodes[i].args
            if queries.dependent[i]:
                found.add(i)
    return found

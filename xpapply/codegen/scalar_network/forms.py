"""The form that each product of a network takes in its function: what can run how."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...ir.rewrite import Region
from ..graph_queries import GraphQueries


@dataclass(frozen=True)
class Forms:
    """The forms of products; dense by default.

    Attributes
    ----------
    lead : int or None
        The product whose inputs are read one by one.
    source : Region or None
        What lies between the input and that.
    pairs : dict
        The second product of two that are computed at once -> the first, and the region between.
    stream : (int, Region or None) or None
        The last product, and the region after it, if results are stored as they come.
    skipped : set of int
        Nodes between products that are computed within these.
    """

    lead: int | None
    source: Region | None
    pairs: dict[int, tuple[int, Region | None]]
    stream: tuple[int, Region | None] | None
    skipped: set[int]


def forms(q: GraphQueries) -> Forms:
    """The forms of all products."""
    nodes = q.graph.nodes
    products = [i for i in range(len(nodes)) if q.affine(i)]
    lead, source = _leading(q, products)
    pairs: dict[int, tuple[int, Region | None]] = {}
    taken: set[int] = set()
    skipped: set[int] = set()
    for i in products:
        if i in taken or i == lead:
            continue
        follower = _follower(q, i)
        if follower is not None and follower[1] not in taken:
            region, second = follower
            pairs[second] = i, region
            taken |= {i, second}
            skipped |= set(() if region is None else region.nodes)
    if source is not None and lead is not None and q.uses[nodes[lead].args[1]] == [lead]:
        skipped |= set(source.nodes)
    stream = _streamed(q, products, taken, lead)
    if stream is not None and stream[1] is not None:
        skipped |= set(stream[1].nodes)
    return Forms(lead, source, pairs, stream, skipped)


def _leading(q: GraphQueries, products: list[int]) -> tuple[int | None, Region | None]:
    """The first product, and what lies between it and the input, if it may lead."""
    if not products:
        return None, None
    chain, i = 1, products[0]
    while (follower := _follower(q, i)) is not None:
        chain, i = chain + 1, follower[1]
    w = q.graph.nodes[q.graph.nodes[products[0]].args[0]].aval
    narrows = chain > 1 or w.shape[0] <= w.shape[1]
    source = _source(q, products[0])
    if not chain % 2 or not narrows or source is False:
        return None, None
    return products[0], source if isinstance(source, Region) else None


def _private(q: GraphQueries, region: Region, value: int) -> bool:
    """Whether a region maps `value` alone, one to one."""
    shape = q.graph.nodes[value].aval.shape
    for a in region.inputs:
        if a != value and q.dependent[a]:
            return False
        if not q.dependent[a] and q.size(a) not in (1, math.prod(shape)):
            return False
    return q.graph.nodes[region.out].aval.shape == shape


def _follower(q: GraphQueries, i: int) -> tuple[Region | None, int] | None:
    """The region after product `i` and the product after that, if nothing else reads them."""
    users = set(q.uses.get(i, []))
    region: Region | None = None
    out = i
    if users and all(u in q.region_of for u in users):
        found = {q.region_of[u].out for u in users}
        if len(found) != 1:
            return None
        region = q.regions[found.pop()]
        out = region.out
        if not _private(q, region, i):
            return None
    after = q.uses.get(out, [])
    if out == q.graph.out or len(after) != 1 or not q.affine(after[0]):
        return None
    return region, after[0]


def _streamed(
    q: GraphQueries, products: list[int], taken: set[int], lead: int | None
) -> tuple[int, Region | None] | None:
    """The last product, if its results (and a region after it) can be stored as they come."""
    if not products or products[-1] in taken or products[-1] == lead:
        return None
    i, out = products[-1], q.graph.out
    if i == out:
        return i, None
    region = q.region_of.get(out)
    if region is None or region.out != out or i not in region.inputs:
        return None
    only = all(q.region_of.get(u) is region for u in q.uses[i])
    return (i, region) if only and _private(q, region, i) else None


def _source(q: GraphQueries, i: int) -> Region | bool | None:
    """The region between a leading product and its input (None: no region)."""
    x = q.graph.nodes[i].args[1]
    if q.graph.nodes[x].op == "input":
        return None
    region = q.regions.get(x)
    start = q.graph.entry
    if region is None or start not in region.inputs or not _private(q, region, start):
        return False
    return region

"""The order of blocks, liveness of slots, and blocks that run once."""

from __future__ import annotations

from .function import Block, Slot


def in_order(after: list[list[int]]) -> list[int]:
    """The blocks that are come to, each after those that lead to it, but for loops."""
    found: list[int] = []
    seen = {0}
    stack = [(0, iter(after[0]))]
    while stack:
        k, targets = stack[-1]
        t = next(targets, None)
        if t is None:
            stack.pop()
            found.append(k)
        elif t not in seen:
            seen.add(t)
            stack.append((t, iter(after[t])))
    return found[::-1]


def read_later(
    blocks: list[Block], after: list[list[int]], order: list[int]
) -> list[frozenset[Slot]]:
    """Live integer slots at the begin of each block."""
    reads, writes = [], []
    for block in blocks:
        read: set[Slot] = set()
        written: set[Slot] = set()
        for x in block.instructions:
            if x.op == "load" and x.what not in written:
                if x.what.type == "int64":
                    read.add(x.what)
            elif x.op == "store":
                written.add(x.what)
        reads.append(frozenset(read))
        # who goes on where an exception is handled may do so before anything is written
        catches = any(x.op == "catch" for x in block.instructions)
        writes.append(frozenset() if catches else frozenset(written))
    live, changed = list(reads), True
    while changed:
        changed = False
        for k in reversed(order):
            later = frozenset().union(*(live[t] for t in after[k]))
            found = reads[k] | (later - writes[k])
            if found != live[k]:
                live[k], changed = found, True
    return live


def run_once(after: list[list[int]], order: list[int], place: dict[int, int]) -> list[bool]:
    """Whether each block is outside of loops."""
    depth = [0] * (len(order) + 1)  # of places that lie between a jump back and where it leads
    for k in order:
        for t in after[k]:
            if place[t] <= place[k]:
                depth[place[t]] += 1
                depth[place[k] + 1] -= 1
    found, inside = [False] * len(after), 0
    for n, k in enumerate(order):
        inside += depth[n]
        found[k] = inside == 0
    return found

"""Blocks that all lead to each other."""

from __future__ import annotations

from collections.abc import Callable, Iterable


def components(nodes: set[int], after: Callable[[int], Iterable[int]]) -> list[list[int]]:
    """Nodes that lead to each other, a component after those that it leads to (Tarjan, 1972)."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    found: list[list[int]] = []
    for root in sorted(nodes):
        if root in index:
            continue
        work = [(root, iter(after(root)))]
        index[root] = low[root] = len(index)
        stack.append(root)
        while work:
            k, others = work[-1]
            for t in others:
                if t not in index:
                    index[t] = low[t] = len(index)
                    stack.append(t)
                    work.append((t, iter(after(t))))
                    break
                if t in stack:
                    low[k] = min(low[k], index[t])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[k])
                if low[k] == index[k]:
                    at = stack.index(k)
                    found.append(stack[at:])
                    del stack[at:]
    return found

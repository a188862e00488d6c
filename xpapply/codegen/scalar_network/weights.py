"""The constants of a network, in the order in which its function reads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ...ir.graph import Graph


@dataclass
class Weights:
    """The constants of a kernel, packed in the order in which it reads them."""

    lanes: int
    size: int = 0
    pieces: list[tuple[int, tuple[tuple[int, ...], str]]] = field(default_factory=list)

    def add(self, size: int, nodes: tuple[int, ...], how: str) -> int:
        """Reserve `size` values, aligned to a vector; `how` names the packing."""
        offset = self.size
        self.pieces.append((offset, (nodes, how)))
        self.size += -(-size // self.lanes) * self.lanes
        return offset

    def packed(self, graph: Graph, consts: Sequence[np.ndarray], dtype: str) -> np.ndarray:
        """The constants of a graph in this order."""
        lanes = self.lanes
        packed = np.zeros(max(self.size, lanes), dtype)
        value = {i: consts[n.attr("k")] for i, n in enumerate(graph.nodes) if n.op == "const"}
        for i, n in enumerate(graph.nodes):
            if n.op == "reshape" and n.args[0] in value:
                value[i] = value[n.args[0]]
        for offset, (nodes, how) in self.pieces:
            if how == "flat":
                flat = value[nodes[0]].reshape(-1)
            elif how == "columns":  # W by columns, each padded
                w = value[nodes[0]]
                flat = _padded(w.T, lanes).reshape(-1)
            else:  # one record per hidden feature: row of W, its constants, column of V
                w, count = value[nodes[0]], int(how.split()[1])
                own = [value[c].reshape(-1) for c in nodes[1 : 1 + count]]
                tail = [np.broadcast_to(c, (len(w),)) for c in own]
                tail += [v for c in nodes[1 + count :] for v in value[c]]
                parts = [w, np.column_stack(tail)] if tail else [w]
                flat = np.hstack([_padded(part, lanes) for part in parts]).reshape(-1)
            packed[offset : offset + flat.size] = flat
        return packed


def _padded(a: np.ndarray, lanes: int) -> np.ndarray:
    return np.pad(a, ((0, 0), (0, -a.shape[1] % lanes)))

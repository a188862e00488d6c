"""Accumulators in C++: their state of a thread's elements, and of all threads of a slice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ir.ops import OPS
from ...ir.slices.slice_graph import Accumulator
from ..cxx import TYPES
from .elements import Elements, indented, numbers, written_number
from .lanes import halves, in_warps
from .reductions import Merge, Part


def size(by: Accumulator) -> int:
    """Bytes of an accumulator's state, rounded up to what memory is allocated for."""
    at, widest = (1, 1) if _may_be_nothing(by) else (0, 1)
    for d in by.dtypes:
        n = np.dtype(d).itemsize
        at = -(-at // n) * n + n
        widest = max(widest, n)
    return -(-at // widest) * widest


def _stride(by: Accumulator) -> int:
    """Bytes between states in memory."""
    return -(-size(by) // 16) * 16


def _may_be_nothing(by: Accumulator) -> bool:
    """Whether a state may be empty.

    The identity of a user is what an empty slice gives: it need not be neutral.
    """
    return by.identity is None or by.chunk is None


class States:
    """Writes what finds the state ``s<k>`` of accumulator k, of the elements that threads hold."""

    def __init__(self, elements: Elements) -> None:
        self._elements, self._sharing = elements, elements.sharing
        self._by: list[Accumulator] = [by for (by, _), _ in elements.accumulators]

    def at(self, p: int) -> list[int]:
        """The accumulators of a level, by number."""
        e = self._elements
        return [k for k, (_, nodes) in enumerate(e.accumulators) if e.level[nodes[0]] == p]

    # --- types --------------------------------------------------------------------------------

    def declared(self) -> list[str]:
        """The structs of all accumulators, their identities and how two are combined."""
        return [line for k in range(len(self._by)) for line in self._declared(k)]

    def _declared(self, k: int) -> list[str]:
        """The struct of an accumulator, its identity and how two are combined."""
        by = self._by[k]
        fields = [f"{TYPES[d]} f{i};" for i, d in enumerate(by.dtypes)]
        optional = _may_be_nothing(by)
        if optional:
            fields.insert(0, "bool has;")
        identity = by.identity if by.identity is not None else (0,) * len(by.dtypes)
        half = len(by.dtypes)
        names = {i: f"{'ab'[q // half]}.f{q % half}" for q, i in enumerate(by.combine.inputs)}
        lines: list[str] = []
        numbers(by.combine, names, "n", lines.append)
        return [
            f"struct State{k} {{ {' '.join(fields)} }};",
            f"XP_DEVICE State{k} xp_nothing{k}() {{",
            f"  State{k} s;",
            *(["  s.has = false;"] if optional else []),
            *(
                f"  s.f{i} = {written_number(v, d)};"
                for i, (v, d) in enumerate(zip(identity, by.dtypes, strict=True))
            ),
            "  return s;",
            "}",
            f"XP_DEVICE State{k} xp_combine{k}(const State{k} a, const State{k} b) {{",
            *(["  if (!a.has) return b;", "  if (!b.has) return a;"] if optional else []),
            *indented(lines),
            f"  State{k} s;",
            *(["  s.has = true;"] if optional else []),
            *(f"  s.f{i} = {names[o]};" for i, o in enumerate(by.combine.outs)),
            "  return s;",
            "}",
        ]

    # --- of a thread's elements ------------------------------------------------------------------

    def shares_each(self, k: int) -> bool:
        """Whether all lanes hold the state of every reduction of a slice in registers.

        Otherwise each thread has a state of its own, to be merged: of several warps along a
        slice that is faster. Across slices it is not, as exponentials are written once.
        """
        s, chunk = self._sharing, self._by[k].chunk
        if chunk is None or not s.in_registers:
            return False
        if s.across:
            return not any(OPS[n.op].finds_position for n in chunk.nodes)
        return s.lanes <= 32

    def updated(self, ks: Sequence[int], guarded: bool) -> list[str]:
        """Add a thread's elements, in registers, to its states."""
        lines: list[str] = ["{"]
        chunks = [k for k in ks if self._by[k].chunk is not None]
        if guarded and any(self._counts(k) for k in chunks):
            lines.append("int have = 0;")
            self._elements.loop(lines.append, ["++have;"], guarded)
        parts = {k: Part(self._elements, k, self.shares_each(k), guarded) for k in chunks}
        for q in range(1, max((p.depth for p in parts.values()), default=0) + 1):
            inside: list[str] = []
            known: dict[Any, str] = {}
            for part in parts.values():
                part.reductions(q, known, inside, lines.append)
            self._elements.loop(lines.append, inside, guarded)
            for part in parts.values():
                part.shared(q, lines.append)
                part.numbers(q, lines.append)
        for k in ks:
            if k in parts:
                lines += parts[k].state()
            else:
                lines += self._element_by_element(k, guarded)
            whole = self._sharing.in_registers
            lines.append(f"s{k} = piece{k};" if whole else f"s{k} = xp_combine{k}(s{k}, piece{k});")
        return [*lines, "}"]

    def _counts(self, k: int) -> bool:
        chunk = self._by[k].chunk
        assert chunk is not None
        return not self.shares_each(k) and any(n.op == "length" for n in chunk.nodes)

    def _element_by_element(self, k: int, guarded: bool) -> list[str]:
        """An accumulator without a chunk: each element is a state."""
        _, args = self._elements.accumulators[k][0]
        lines = [f"State{k} piece{k} = xp_nothing{k}();"]
        inside = [f"State{k} one{k};", f"one{k}.has = true;"]
        known: dict[Any, str] = {}
        for field, a in enumerate(args):
            value = self._elements.element(a, known, inside)
            inside.append(f"one{k}.f{field} = {value};")
        inside.append(f"piece{k} = xp_combine{k}(piece{k}, one{k});")
        self._elements.loop(lines.append, inside, guarded)
        return lines

    # --- of all lanes -------------------------------------------------------------------------

    def merged(self, p: int) -> list[str]:
        """Merge states over the lanes of a slice: afterwards all of them have the result."""
        if self._sharing.lanes == 1:
            return []
        return [x for k in self.at(p) if not self.shares_each(k) for x in self.merge(k)]

    @property
    def shared_bytes(self) -> int:
        """The shared memory of a block that merging needs."""
        s = self._sharing
        count = s.threads // 32 if s.lanes > 32 else 0
        if s.across:
            count = s.lanes * (s.slices + 1)
        return max((size(by) * count for by in self._by), default=0) if s.lanes > 1 else 0

    def merge(self, k: int) -> list[str]:
        """Merge the states of all lanes."""
        s = self._sharing
        if s.across:
            return in_warps(s, f"State{k}", f"s{k}", self._merge_in_warp(k, s.lanes, "l"))
        lines = self._merge_in_warp(k, min(s.lanes, 32))
        if s.lanes > 32:
            warps = s.lanes // 32
            lines += [
                "{",
                f"  State{k}* const all = reinterpret_cast<State{k}*>(xp_shared);",
                "  __syncthreads();",
                f"  if (lane % 32 == 0) all[(int)local * {warps} + lane / 32] = s{k};",
                "  __syncthreads();",
                f"  s{k} = all[(int)local * {warps} + lane % {warps}];",
                "}",
                *self._merge_in_warp(k, warps),
            ]
        return lines

    def _merge_in_warp(self, k: int, width: int, lane: str = "lane") -> list[str]:
        """Merge the states of neighbouring threads."""
        by = self._by[k]
        if by.merge is not None:
            names = {i: f"s{k}.f{field}" for field, i in enumerate(by.merge.inputs)}
            return Merge(k, by.merge, names, width).text()
        lines = []
        for offset in halves(width):
            lines += [
                "{",
                f"  const State{k} other = xp_shuffle(s{k}, {offset});",
                f"  s{k} = {lane} & {offset} ? xp_combine{k}(other, s{k})"
                f" : xp_combine{k}(s{k}, other);",
                "}",
            ]
        return lines

    # --- of all blocks ------------------------------------------------------------------------

    def stored(self, k: int, block: str) -> str:
        """The address of the state of this slice and a block."""
        before = sum(map(_stride, self._by[:k]))
        return (
            f"reinterpret_cast<State{k}*>(scratch + {before}ll * n_slices_ * n_blocks + "
            f"((long long)row * n_blocks + {block}) * {_stride(self._by[k])})"
        )

    @property
    def bytes(self) -> int:
        """The memory for all states of one slice and block."""
        return sum(map(_stride, self._by))

    def from_memory(self, p: int) -> list[str]:
        """Merge the states that the blocks of a slice have written."""
        lines = []
        for k in self.at(p):
            lines += [
                f"State{k} s{k} = xp_nothing{k}();",
                f"for (int block = lane; block < n_blocks; block += {self._sharing.lanes})",
                f"  s{k} = xp_combine{k}(s{k}, *{self.stored(k, 'block')});",
                *(self.merge(k) if self._sharing.lanes > 1 else []),
            ]
        return lines

"""Accumulators in C++: their state of a thread's piece, and of all threads of a slice together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ..ir.accumulators import identity
from ..ir.graph import Graph, Node, number
from ..ir.ops import OPS, Kind
from ..ir.slice_graph import Accumulator
from .cxx import TYPES
from .elements import Elements, form, indented, numbers, statement, written_number

SHUFFLE = """
template <class T> XP_DEVICE T xp_shuffle(const T x, const int mask) {
  constexpr int N = (sizeof(T) + 3) / 4;
  union { T whole; unsigned words[N]; } from, to;
  from.words[N - 1] = 0;
  from.whole = x;
  XP_UNROLL
  for (int i = 0; i < N; ++i) to.words[i] = __shfl_xor_sync(0xffffffffu, from.words[i], mask);
  return to.whole;
}
"""
_NOWHERE = "9223372036854775807ll"
"""A position that no element has."""


def size(by: Accumulator) -> int:
    """Bytes of an accumulator's state, rounded up to what memory is allocated for."""
    at, widest = (1, 1) if _may_be_nothing(by) else (0, 1)
    for d in by.dtypes:
        n = np.dtype(d).itemsize
        at = -(-at // n) * n + n
        widest = max(widest, n)
    return -(-at // widest) * widest


def _may_be_nothing(by: Accumulator) -> bool:
    """Whether a state may have no numbers yet.

    The identity of a user is what an empty slice gives: it need not be neutral.
    """
    return by.identity is None or by.chunk is None


class States(Elements):
    """Writes what finds the state ``s<k>`` of accumulator k."""

    def at(self, p: int) -> list[int]:
        """The accumulators of a level, by number."""
        return [k for k, (_, nodes) in enumerate(self.accumulators) if self.level[nodes[0]] == p]

    # --- types --------------------------------------------------------------------------------

    def declared(self, k: int) -> list[str]:
        """The struct of an accumulator, its identity and how two are combined."""
        by = self.accumulators[k][0][0]
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

    # --- of a thread's piece ------------------------------------------------------------------

    def shares_each(self, k: int) -> bool:
        """Whether lanes share every reduction of a held slice: then its state is that of all.

        Otherwise each thread has a state of its own, to be merged: of several warps along a
        slice that is faster. Across slices it is not, as exponentials are written once.
        """
        s, chunk = self.s, self.accumulators[k][0][0].chunk
        if chunk is None or not s.held:
            return False
        if s.across:
            return not any(OPS[n.op].finds_position for n in chunk.nodes)
        return s.lanes <= 32

    def piece(self, ks: Sequence[int], guarded: bool) -> list[str]:
        """Add a thread's piece, in registers, to its states."""
        lines: list[str] = ["{"]
        chunks = [k for k in ks if self.accumulators[k][0][0].chunk is not None]
        if guarded and any(self._counts(k) for k in chunks):
            lines.append("int have = 0;")
            self.loop(lines.append, ["++have;"], guarded)
        parts = {k: _Part(self, k, guarded) for k in chunks}
        for q in range(1, max((p.depth for p in parts.values()), default=0) + 1):
            inside: list[str] = []
            known: dict[Any, str] = {}
            for part in parts.values():
                part.reductions(q, known, inside, lines.append)
            self.loop(lines.append, inside, guarded)
            for part in parts.values():
                part.shared(q, lines.append)
                part.numbers(q, lines.append)
        for k in ks:
            if k in parts:
                lines += parts[k].state()
            else:
                lines += self._element_by_element(k, guarded)
            held = self.s.held
            lines.append(f"s{k} = piece{k};" if held else f"s{k} = xp_combine{k}(s{k}, piece{k});")
        return [*lines, "}"]

    def _counts(self, k: int) -> bool:
        chunk = self.accumulators[k][0][0].chunk
        assert chunk is not None
        return not self.shares_each(k) and any(n.op == "length" for n in chunk.nodes)

    def _element_by_element(self, k: int, guarded: bool) -> list[str]:
        """An accumulator without a chunk: each element is a state."""
        _, args = self.accumulators[k][0]
        lines = [f"State{k} piece{k} = xp_nothing{k}();"]
        inside = [f"State{k} one{k};", f"one{k}.has = true;"]
        known: dict[Any, str] = {}
        for field, a in enumerate(args):
            value = self.element(a, known, inside)
            inside.append(f"one{k}.f{field} = {value};")
        inside.append(f"piece{k} = xp_combine{k}(piece{k}, one{k});")
        self.loop(lines.append, inside, guarded)
        return lines

    # --- of all lanes -------------------------------------------------------------------------

    def merged(self, p: int) -> list[str]:
        """Merge states over the lanes of a slice: afterwards all of them have the result."""
        if self.s.lanes == 1:
            return []
        return [x for k in self.at(p) if not self.shares_each(k) for x in self.merge(k)]

    def shared_states(self, k: int) -> int:
        """The states that merging keeps in shared memory."""
        s = self.s
        if s.across:
            return s.lanes * (s.slices + 1)
        return s.threads // 32 if s.lanes > 32 else 0

    def merge(self, k: int) -> list[str]:
        """Merge the states of all lanes."""
        s = self.s
        if s.across:
            return self._merge_across(k)
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

    def _merge_across(self, k: int) -> list[str]:
        return self.in_warps(f"State{k}", f"s{k}", self._merge_in_warp(k, self.s.lanes, "l"))

    def in_warps(self, ctype: str, name: str, body: Sequence[str]) -> list[str]:
        """Lanes of a slice that are far apart: bring what they have together in a warp, and back.

        `body` makes `name` of all lanes ``l`` the same.
        """
        s = self.s
        row = s.slices + 1  # one more than there are: no two lanes of a slice in one bank
        return [
            "{",
            f"  {ctype}* const all = reinterpret_cast<{ctype}*>(xp_shared);",
            "  __syncthreads();",
            f"  all[lane * {row} + (int)local] = {name};",
            "  __syncthreads();",
            f"  const int l = threadIdx.x % {s.lanes}, of = threadIdx.x / {s.lanes};",
            f"  {name} = all[l * {row} + of];",
            *indented(body),
            f"  if (l == 0) all[of] = {name};",  # where nobody else has read
            "  __syncthreads();",
            f"  {name} = all[(int)local];",
            "}",
        ]

    def _merge_in_warp(self, k: int, width: int, lane: str = "lane") -> list[str]:
        """Merge the states of neighbouring threads."""
        by = self.accumulators[k][0][0]
        if by.merge is not None:
            names = {i: f"s{k}.f{field}" for field, i in enumerate(by.merge.inputs)}
            return _Merge(k, by.merge, names, width).text()
        lines = []
        for offset in _halves(width):
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
        before = sum(self.stride(j) for j in range(k))
        return (
            f"reinterpret_cast<State{k}*>(scratch + {before}ll * n_slices_ * n_blocks + "
            f"((long long)row * n_blocks + {block}) * {self.stride(k)})"
        )

    def stride(self, k: int) -> int:
        """Bytes between states in memory."""
        return -(-size(self.accumulators[k][0][0]) // 16) * 16

    def from_memory(self, p: int) -> list[str]:
        """Merge the states that the blocks of a slice have written."""
        lines = []
        for k in self.at(p):
            lines += [
                f"State{k} s{k} = xp_nothing{k}();",
                f"for (int block = lane; block < n_blocks; block += {self.s.lanes})",
                f"  s{k} = xp_combine{k}(s{k}, *{self.stored(k, 'block')});",
                *(self.merge(k) if self.s.lanes > 1 else []),
            ]
        return lines


class _Reductions:
    """A graph from vectors to numbers, reduction by reduction: those that need no other first."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.names: dict[int, str] = {}
        self.levels = graph.levels()
        self.depth = max(self.levels, default=0)

    def at(self, q: int) -> Iterable[tuple[int, Node, str]]:
        """The reductions of a depth: node, and the dtype of what they reduce."""
        for i, n in enumerate(self.graph.nodes):
            if OPS[n.op].kind is Kind.REDUCTION and self.levels[i] == q:
                yield i, n, self.graph.nodes[n.args[0]].aval.dtype

    def numbers_after(self, q: int, prefix: str, emit: Callable[[str], Any]) -> None:
        """Statements for the numbers that are known after the reductions of depth q."""
        for i, n in enumerate(self.graph.nodes):
            if i in self.names or self.graph.is_vector(i) or self.levels[i] > q:
                continue
            if n.args and all(a in self.names for a in n.args):
                dtype = self.graph.nodes[n.args[-1]].aval.dtype
                emit(statement(n, f"{prefix}{i}", [self.names[a] for a in n.args], dtype))
                self.names[i] = f"{prefix}{i}"


class _Part(_Reductions):
    """The chunk of an accumulator over a thread's piece."""

    def __init__(self, states: States, k: int, guarded: bool) -> None:
        (by, self._args), _ = states.accumulators[k]
        assert by.chunk is not None
        super().__init__(by.chunk)
        self._states, self._k = states, k
        self._whole = states.shares_each(k)
        count = "n" if self._whole else "have" if guarded else str(states.s.elements)
        for i, n in enumerate(by.chunk.nodes):
            if n.op == "scalar":
                self.names[i] = written_number(number(n), n.aval.dtype)
            elif n.op == "length":
                self.names[i] = f"({TYPES[n.aval.dtype]}){count}"

    def reductions(
        self, q: int, known: dict[Any, str], inside: list[str], emit: Callable[[str], Any]
    ) -> None:
        """Declare the reductions of depth q, and write how an element joins them."""
        for i, n, dtype in self.at(q):
            value = self._element(n.args[0], known, inside)
            name = f"r{self._k}_{i}"
            ctype = TYPES[dtype]
            emit(f"{ctype} {name} = {_start(n.op, dtype)};")
            if OPS[n.op].finds_position:
                emit(f"long long {name}_at = {_NOWHERE};")
                takes = f"{name}_at == {_NOWHERE} || {OPS[n.op].c.format(name, value)}"
                inside.append(f"if ({takes}) {{ {name} = {value}; {name}_at = (long long)jv; }}")
                self.names[i] = f"{name}_at"
            else:
                inside.append(f"{name} = {form(n.op, dtype).format(name, value)};")
                self.names[i] = name

    def _element(self, i: int, known: dict[Any, str], lines: list[str]) -> str:
        n = self.graph.nodes[i]
        if n.op == "input":
            return self._states.element(self._args[n.attr("k")], known, lines)
        if i in self.names:
            return self.names[i]
        if (self._k, i) not in known:
            given = [self._element(a, known, lines) for a in n.args]
            name = f"c{self._k}_{i}"
            lines.append(statement(n, name, given, self.graph.nodes[n.args[-1]].aval.dtype))
            known[self._k, i] = name
        return known[self._k, i]

    def shared(self, q: int, emit: Callable[[str], Any]) -> None:
        """Share the reductions of depth q over all lanes."""
        states = self._states
        if not self._whole or states.s.lanes == 1:
            return
        for i, n, dtype in self.at(q):
            lines: list[str] = []
            name = f"r{self._k}_{i}"
            _share(n, name, dtype, states.s.lanes, lines.append)
            if states.s.across:
                lines = states.in_warps(TYPES[dtype], name, lines)
            for line in lines:
                emit(line)

    def numbers(self, q: int, emit: Callable[[str], Any]) -> None:
        """The numbers that are known then."""
        self.numbers_after(q, f"m{self._k}_", emit)

    def state(self) -> list[str]:
        """The state of the piece, as ``piece<k>``."""
        fields = enumerate(self.graph.outs)
        k = self._k
        return [f"State{k} piece{k};", *(f"piece{k}.f{f} = {self.names[o]};" for f, o in fields)]


class _Merge(_Reductions):
    """The merge of an accumulator over the states of neighbouring threads, one each."""

    def __init__(self, k: int, merge: Graph, names: dict[int, str], width: int) -> None:
        super().__init__(merge)
        self._k, self._width = k, width
        self.names |= names
        for i, n in enumerate(merge.nodes):
            if n.op == "scalar":
                self.names[i] = written_number(number(n), n.aval.dtype)

    def text(self) -> list[str]:
        """Afterwards ``s<k>`` is the state of all."""
        lines = ["{"]
        for q in range(1, self.depth + 1):
            for i, n, dtype in self.at(q):
                value = self._element(n.args[0], lines)
                name = f"g{i}"
                lines.append(f"{TYPES[dtype]} {name} = {value};")
                _share(n, name, dtype, self._width, lines.append)
                self.names[i] = name
            self.numbers_after(q, "h", lines.append)
        fields = [f"s{self._k}.f{f} = {self.names[o]};" for f, o in enumerate(self.graph.outs)]
        return [*lines, *fields, "}"]

    def _element(self, i: int, lines: list[str]) -> str:
        if i not in self.names:
            n = self.graph.nodes[i]
            given = [self._element(a, lines) for a in n.args]
            lines.append(statement(n, f"v{i}", given, self.graph.nodes[n.args[-1]].aval.dtype))
            self.names[i] = f"v{i}"
        return self.names[i]


def _share(n: Node, name: str, dtype: str, width: int, emit: Callable[[str], Any]) -> None:
    """A reduction of the table over neighbouring threads: afterwards all of them have it."""
    for offset in _halves(width):
        other = f"const {TYPES[dtype]} other = xp_shuffle({name}, {offset});"
        if not OPS[n.op].finds_position:
            emit(f"{{ {other} {name} = {form(n.op, dtype).format(name, 'other')}; }}")
            continue
        same = f"(other == {name} || (other != other && {name} != {name}))"
        emit(f"{{ {other}")
        emit(f"  const long long other_at = xp_shuffle({name}_at, {offset});")
        emit(
            f"  if (other_at != {_NOWHERE} && ({name}_at == {_NOWHERE} || "
            f"({OPS[n.op].c.format(name, 'other')}) || ({same} && other_at < {name}_at)))"
            f" {{ {name} = other; {name}_at = other_at; }} }}"
        )


def _start(op: str, dtype: str) -> str:
    """What a reduction of the table begins with."""
    return written_number(identity(op, dtype), dtype)


def _halves(n: int) -> Iterable[int]:
    while n > 1:
        n //= 2
        yield n

"""The elements that a thread holds, in C++: numbers, the expressions of ops, loops over them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ...ir.graph import Graph, number
from ...ir.ops import OPS
from ..cxx import FLOAT16, TYPES, expression, literal, of_float32
from .sharing import Sharing

PREAMBLE = (
    """
#ifdef __CUDACC_RTC__
#define XP_DEVICE __device__ __forceinline__
#define XP_UNROLL _Pragma("unroll")
"""
    + FLOAT16 % ("XP_DEVICE", "XP_DEVICE")
    + """#else
#define XP_DEVICE inline
#define XP_UNROLL
#endif
template <class T> XP_DEVICE T xp_max(const T a, const T b) { return a > b || a != a ? a : b; }
template <class T> XP_DEVICE T xp_min(const T a, const T b) { return a < b || a != a ? a : b; }
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
// one instruction instead of three; fmaxf would lose NaN
template <> XP_DEVICE float xp_max<float>(const float a, const float b) {
  float y;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}
template <> XP_DEVICE float xp_min<float>(const float a, const float b) {
  float y;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}
#endif
template <class T, int V> struct alignas(sizeof(T) * V) Pack { T a[V]; };
"""
)
"""The preamble of every kernel."""


def form(op: str, dtype: str) -> str:
    """The C++ expression of an op on operands of a dtype."""
    row = OPS[op]
    if np.dtype(dtype).kind in "biu":
        return row.int_c or row.c
    c = row.slice_c or row.c
    return of_float32(c) if dtype in ("float32", "float16") else c


def statement(graph: Graph, i: int, name: str, args: Sequence[str]) -> str:
    """``const T name = ...;`` for an elementwise node, of these operands."""
    node = graph.nodes[i]
    dtype = graph.nodes[node.args[-1]].aval.dtype
    ctype = TYPES[node.aval.dtype]
    if node.op == "cast":
        return f"const {ctype} {name} = ({ctype})({args[0]});"
    return f"const {ctype} {name} = {expression(form(node.op, dtype), args, ctype)};"


def written_number(value: Any, dtype: str) -> str:
    """A number of a dtype."""
    kind = np.dtype(dtype).kind
    if kind in "iu":
        if int(value) == np.iinfo("int64").min:
            return "(-9223372036854775807ll - 1)"
        return f"({TYPES[dtype]})({int(value)}{'ull' if kind == 'u' else 'll'})"
    if dtype == "float16":
        return f"float16({literal(float(value), 'float32')})"
    return literal(value if kind == "b" else float(value), dtype)


def numbers(graph: Graph, names: dict[int, str], prefix: str, emit: Callable[[str], Any]) -> None:
    """Statements for all nodes of a graph of numbers that have no name yet."""
    for i, n in enumerate(graph.nodes):
        if i in names:
            continue
        if n.op == "scalar":
            names[i] = written_number(number(n), n.aval.dtype)
            continue
        emit(statement(graph, i, f"{prefix}{i}", [names[a] for a in n.args]))
        names[i] = f"{prefix}{i}"


def indented(lines: Iterable[str], by: int = 2) -> list[str]:
    """Lines moved to the right."""
    return [" " * by + line for line in lines]


class Elements:
    """The elements that a thread holds, and the expressions on them.

    Input k of the graph is ``x<k>[e]`` for element e of a thread, or the number
    ``p<k>``; accumulator k has the state ``s<k>``.
    """

    def __init__(self, graph: Graph, sharing: Sharing) -> None:
        self.graph, self.sharing = graph, sharing
        self.level = graph.levels()
        self.accumulators = list(graph.accumulations().items())
        self._state_of = {i: k for k, (_, nodes) in enumerate(self.accumulators) for i in nodes}
        self._named: set[int] = set()
        """Numbers that stand in variables by now."""

    def start(self) -> None:
        """A kernel begins: no number stands in a variable."""
        self._named.clear()

    def first(self, base: str, vector: str) -> str:
        """The first element of a vector: those of neighbouring lanes are contiguous."""
        s = self.sharing
        lane = "" if s.lanes == 1 else " + lane" if s.vector == 1 else f" + lane * {s.vector}"
        return f"{base} + {vector} * {s.lanes * s.vector}{lane}"

    def loop(self, emit: Callable[[str], Any], inside: Sequence[str], guarded: bool) -> None:
        """A loop over the elements ``e`` of a thread; ``jv`` is the place in the slice."""
        if not inside:
            return
        s = self.sharing
        emit("XP_UNROLL")
        emit(f"for (int e = 0; e < {s.elements}; ++e) {{")
        if guarded or any("jv" in line for line in inside):
            vector = f"e / {s.vector}" if s.vector > 1 else "e"
            within = f" + e % {s.vector}" if s.vector > 1 else ""
            emit(f"  const I jv = {self.first('base', vector)}{within};")
        if guarded:
            emit("  if (jv < until) {")
        for line in inside:
            emit("    " + line)
        emit("  }}" if guarded else "}")

    def element(self, i: int, known: dict[Any, str], lines: list[str]) -> str:
        """An element of a vector, or a number, of the graph; statements for it go to `lines`."""
        g = self.graph
        n = g.nodes[i]
        if n.op == "input":
            return f"x{n.attr('k')}[e]" if g.is_vector(i) else f"p{n.attr('k')}"
        if n.op == "scalar":
            return written_number(number(n), n.aval.dtype)
        if n.op == "length":
            return f"({TYPES[n.aval.dtype]})n"
        if n.op == "accumulate":
            return f"s{self._state_of[i]}.f{n.attr('field')}"
        if i in self._named:
            return f"t{i}"
        if i not in known:
            given = [self.element(a, known, lines) for a in n.args]
            lines.append(statement(g, i, f"t{i}", given))
            known[i] = f"t{i}"
        return known[i]

    def numbers_of(self, p: int) -> list[str]:
        """Variables for the numbers that are known after level p and that vectors read."""
        lines: list[str] = []
        for i in self._read_by_vectors():
            if self.level[i] == p:
                self.element(i, {}, lines)
                self._named.add(i)
        return lines

    def _read_by_vectors(self) -> list[int]:
        g = self.graph
        wanted: set[int] = set()
        for i in range(len(g.nodes) - 1, -1, -1):
            if g.is_vector(i) or i in wanted:
                wanted.update(a for a in g.nodes[i].args if not g.is_vector(a))
        leaves = ("input", "scalar", "length", "accumulate")
        return [i for i in sorted(wanted) if g.nodes[i].op not in leaves]

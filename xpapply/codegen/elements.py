"""Elements of slices in C++: their types and numbers, the expressions of ops, loops over them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..ir.graph import Graph, Node, number
from ..ir.ops import OPS
from .cxx import FLOAT16, TYPES, expression, literal, of_float32

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
"""What stands before every kernel."""


@dataclass(frozen=True)
class Sharing:
    """How threads share the slices: all that the text of the kernels depends on.

    Attributes
    ----------
    lanes : int
        Threads per slice in a block, a power of two.
    slices : int
        Slices per block.
    vector : int
        Elements that lie side by side in memory and are moved at once.
    pieces : int
        Such vectors that a thread holds at a time.
    across : bool
        Neighbouring threads have neighbouring slices, not neighbouring elements of one.
    held : bool
        The whole slice is held in registers.
    split : bool
        Several blocks share a slice.
    length : int
        Elements of a slice if they are few; 0: told at launch.
    core, batch : int
        Dims of a slice and of the batch, after those that lie together were merged.
    steps : tuple of int
        For each array, inputs first: its step along the slice if that is 0 or 1, -1: told at
        launch.
    wide : bool
        Offsets do not fit in 32 bits.
    """

    lanes: int
    slices: int
    vector: int = 1
    pieces: int = 1
    across: bool = False
    held: bool = False
    split: bool = False
    length: int = 0
    core: int = 1
    batch: int = 1
    steps: tuple[int, ...] = ()
    wide: bool = False

    @property
    def threads(self) -> int:
        """Threads per block."""
        return self.lanes * self.slices

    @property
    def elements(self) -> int:
        """Elements that a thread holds at a time."""
        return self.vector * self.pieces

    @property
    def guarded(self) -> bool:
        """Whether a held slice may be shorter than what its threads hold."""
        return self.length != self.lanes * self.elements


def form(op: str, dtype: str) -> str:
    """The C++ expression of an op on operands of a dtype."""
    row = OPS[op]
    if np.dtype(dtype).kind in "biu":
        return row.int_c or row.c
    c = row.slice_c or row.c
    return of_float32(c) if dtype in ("float32", "float16") else c


def statement(node: Node, name: str, args: Sequence[str], dtype: str) -> str:
    """``const T name = ...;`` for an elementwise op on operands of a dtype."""
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
        dtype = graph.nodes[n.args[-1]].aval.dtype
        emit(statement(n, f"{prefix}{i}", [names[a] for a in n.args], dtype))
        names[i] = f"{prefix}{i}"


def indented(lines: Iterable[str], by: int = 2) -> list[str]:
    """Lines moved to the right."""
    return [" " * by + line for line in lines]


class Elements:
    """The elements that a thread holds, and the expressions on them.

    Input k of the graph is ``x<k>[e]`` for element e of a thread's piece, or the number
    ``p<k>``; accumulator k has the state ``s<k>``.
    """

    def __init__(self, graph: Graph, sharing: Sharing) -> None:
        self.graph, self.s = graph, sharing
        self.level = graph.levels()
        self.accumulators = list(graph.accumulations().items())
        self._state_of = {i: k for k, (_, nodes) in enumerate(self.accumulators) for i in nodes}
        self._named: set[int] = set()
        """Numbers that stand in variables by now."""

    def first(self, base: str, piece: str) -> str:
        """Which element a vector begins with: those of the lanes lie side by side."""
        s = self.s
        lane = "" if s.lanes == 1 else " + lane" if s.vector == 1 else f" + lane * {s.vector}"
        return f"{base} + {piece} * {s.lanes * s.vector}{lane}"

    def loop(self, emit: Callable[[str], Any], inside: Sequence[str], guarded: bool) -> None:
        """A loop over the elements ``e`` of a thread's piece; ``jv`` is the place in the slice."""
        if not inside:
            return
        s = self.s
        emit("XP_UNROLL")
        emit(f"for (int e = 0; e < {s.elements}; ++e) {{")
        if guarded or any("jv" in line for line in inside):
            piece = f"e / {s.vector}" if s.vector > 1 else "e"
            within = f" + e % {s.vector}" if s.vector > 1 else ""
            emit(f"  const I jv = {self.first('base', piece)}{within};")
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
            lines.append(statement(n, f"t{i}", given, g.nodes[n.args[-1]].aval.dtype))
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

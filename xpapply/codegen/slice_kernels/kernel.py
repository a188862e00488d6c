"""Kernels for functions of the slices of several arrays: one read of what they need, one write.

A slice is shared by `lanes` threads, which hold a tile of it in registers: the whole of it,
where it is short enough (``in_registers``), else tile by tile. Accumulators are found of a thread's
elements, combined over tiles and merged over lanes. Where there are few long slices, several
blocks share one (``split``): one launch per level of the graph writes their states to memory,
and the next one merges them.

The text stands alone (no headers), compiles with NVRTC, and with one lane as host C++.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ...ir.graph import Graph
from ...ir.ops import OPS, Kind
from ..cxx import TYPES
from .arrays import Arrays
from .elements import PREAMBLE, Elements, indented
from .lanes import SHUFFLE
from .sharing import Sharing
from .states import States, size

_STATE = 80
"""Bytes of a state, at most: shared memory holds those of all threads, 48 KiB."""


@dataclass(frozen=True)
class SliceKernels:
    """The text of the kernels for a graph.

    Attributes
    ----------
    source : str
        CUDA C++.
    names : tuple of str
        The kernels, in the order of their launches: one, or one per level with `Sharing.split`.
    state_bytes : int
        Memory for the states of one slice and block, for all levels.
    """

    source: str
    names: tuple[str, ...]
    state_bytes: int


def why_not(graph: Graph) -> str | None:
    """Why there are no such kernels for `graph`, or None."""
    parts = [graph]
    for by, _ in graph.accumulations():
        if size(by) > _STATE:
            return f"{size(by)} bytes are reduced at a time: threads share up to {_STATE}"
        parts += [by.combine, *([] if by.chunk is None else [by.chunk])]
    for part in parts:
        for n in part.nodes:
            if n.aval.dtype not in TYPES:
                return f"no kernels for {n.aval.dtype}"
            row = OPS.get(n.op)
            if row is not None and row.kind is Kind.ELEMENTWISE and not row.c:
                return f"{n.op} has no C++"
            given = [part.nodes[a].aval.dtype for a in n.args[n.op == "where" :]]
            if n.op != "accumulate" and len(set(given)) > 1:  # C compares -1 with unsigned wrongly
                return f"{n.op} of {' and '.join(given)}"
    if not graph.accumulations() and not all(map(graph.is_vector, graph.outs)):
        return "a result that does not depend on the elements"
    return None


def slice_kernels(graph: Graph, sharing: Sharing) -> SliceKernels:
    """The kernels that run `graph` on slices that are shared so."""
    return _Writer(graph, sharing).kernels()


class _Writer:
    """Writes the kernels of one graph: of its elements, their states, and where arrays lie."""

    def __init__(self, graph: Graph, sharing: Sharing) -> None:
        self._graph, self._sharing = graph, sharing
        self._elements = Elements(graph, sharing)
        self._states, self._arrays = States(self._elements), Arrays(self._elements)

    # --- the whole ----------------------------------------------------------------------------

    def kernels(self) -> SliceKernels:
        s, top = self._sharing, max(self._elements.level, default=0)
        text = [PREAMBLE, f"typedef {'long long' if s.wide else 'int'} I;"]
        if s.lanes > 1 or s.split:
            text.append(SHUFFLE)
        text += self._states.declared()
        names = ["xpapply_slices"]
        if not s.split:
            text.append(self._kernel(names[0], self._one(top)))
        else:
            names = [*(f"xpapply_level{p}" for p in range(1, top + 1)), "xpapply_last"]
            for p, name in enumerate(names, 1):
                text.append(self._kernel(name, self._level(p) if p <= top else self._last(top)))
        return SliceKernels("\n".join(text), tuple(names), self._states.bytes)

    def _one(self, top: int) -> list[str]:
        """All levels and the results."""
        body = [*self._where(), "const I from = 0, until = n;"]
        if self._sharing.in_registers:
            body += ["const I base = 0;", *self._arrays.load(self._sharing.guarded)]
        for p in range(1, top + 1):
            body += [*self._pass(p), *self._states.merged(p), *self._elements.numbers_of(p)]
        return [*body, *self._results("lane == 0 && live")]

    def _level(self, p: int) -> list[str]:
        """The states of one level, of a block's part of the slices."""
        body = [*self._where(), *self._range()]
        for earlier in range(1, p):
            body += [*self._states.from_memory(earlier), *self._elements.numbers_of(earlier)]
        body += [*self._pass(p), *self._states.merged(p), "if (lane == 0 && live) {"]
        return [
            *body,
            *(f"  *{self._states.stored(k, 'blockIdx.y')} = s{k};" for k in self._states.at(p)),
            "}",
        ]

    def _last(self, top: int) -> list[str]:
        """The results, of the states of all blocks."""
        body = [*self._where(), *self._range()]
        for p in range(1, top + 1):
            body += [*self._states.from_memory(p), *self._elements.numbers_of(p)]
        return [*body, *self._results("lane == 0 && live && blockIdx.y == 0")]

    def _kernel(self, name: str, body: Iterable[str]) -> str:
        s, kept, shared = self._sharing, self._states.shared_bytes, ""
        if kept:
            shared = f"  alignas(16) __shared__ char xp_shared[{kept}];\n"
        text = "\n".join(indented(body))
        # so many blocks that a thread has 64 registers: more leave too few threads to read
        bounds = f"__launch_bounds__({s.threads}, {max(1, 1024 // s.threads)})"
        head = f'extern "C" __global__ void {bounds} {name}({self._parameters()})'
        return f"{head} {{\n{shared}{text}\n}}"

    def _parameters(self) -> str:
        g, s = self._graph, self._sharing
        found = []
        for k, i in enumerate(g.inputs):
            ctype = TYPES[g.nodes[i].aval.dtype]
            found.append(f"const {ctype}* const p{k}" if g.is_vector(i) else f"const {ctype} p{k}")
        found += [f"{TYPES[g.nodes[o].aval.dtype]}* const q{k}" for k, o in enumerate(g.outs)]
        found += ["const long long n_slices_", "const long long n_"]
        found += [f"const long long c{d}" for d in range(s.core)]
        found += [f"const long long b{d}" for d in range(s.batch)]
        for a in self._arrays.names:
            found += [f"const long long {a}_c{d}" for d in range(s.core)]
            found += [f"const long long {a}_b{d}" for d in range(s.batch)]
        if s.split:
            found += ["char* const scratch", "const long long per_block", "const int n_blocks"]
        return ", ".join(found)

    def _where(self) -> list[str]:
        """Declare the slice of this thread, and its start in every array."""
        s = self._sharing
        self._elements.start()
        lane, local = ("/", "%") if s.across else ("%", "/")
        count = s.slices if s.across else s.lanes
        lines = [
            f"const I n = {s.length or '(I)n_'}, n_slices = (I)n_slices_;",
            f"const int lane = {f'threadIdx.x {lane} {count}' if s.lanes > 1 else 0};",
            f"const I local = threadIdx.x{f' {local} {count}' if s.lanes > 1 else ''};",
            f"I row = (I)blockIdx.x * {s.slices} + local;",
            "const bool live = row < n_slices;",
            "if (!live) row = n_slices - 1;",
            *(f"I {a}_at = 0;" for a in self._arrays.names),
        ]
        if s.batch:
            lines += ["{", *indented(self._arrays.places("row", "b", s.batch, "_at")), "}"]
        return lines + self._elements.numbers_of(0)

    def _range(self) -> list[str]:
        """The elements of a slice that a block has."""
        return [
            "const I from = (I)blockIdx.y * (I)per_block;",
            "const I until = from + (I)per_block < n ? from + (I)per_block : n;",
        ]

    # --- passes -------------------------------------------------------------------------------

    def _over_tiles(self, full: list[str], tail: list[str]) -> list[str]:
        """A loop over the tiles of a slice (or of a block's part of it), the last one guarded."""
        step = self._sharing.lanes * self._sharing.elements
        return [
            "{",
            "  I base = from;",
            f"  for (; base + {step} <= until; base += {step}) {{",
            *indented(full, 4),
            "  }",
            "  if (base < until) {",
            *indented(tail, 4),
            "  }",
            "}",
        ]

    def _pass(self, p: int) -> list[str]:
        """``s<k>``: this thread's state of every accumulator of level p."""
        ks = self._states.at(p)
        declared = [f"State{k} s{k} = xp_nothing{k}();" for k in ks]
        if self._sharing.in_registers:
            return [*declared, *self._states.updated(ks, self._sharing.guarded)]
        full, tail = ([*self._arrays.load(g), *self._states.updated(ks, g)] for g in (False, True))
        return [*declared, *self._over_tiles(full, tail)]

    def _results(self, one: str) -> list[str]:
        """Write numbers where `one` is true, and vectors element by element."""
        g = self._graph
        lines: list[str] = []
        known: dict[object, str] = {}
        for k, o in enumerate(g.outs):
            if not g.is_vector(o):
                value = self._elements.element(o, known, lines)
                lines.append(f"q{k}[q{k}_at] = {value};")
        if lines:
            lines = [f"if ({one}) {{", *indented(lines), "}"]
        vectors = [(k, o) for k, o in enumerate(g.outs) if g.is_vector(o)]
        if not vectors:
            return lines
        if self._sharing.in_registers:
            return [*lines, *self._mapped(vectors, self._sharing.guarded)]
        full, tail = ([*self._arrays.load(g), *self._mapped(vectors, g)] for g in (False, True))
        return [*lines, *self._over_tiles(full, tail)]

    def _mapped(self, vectors: Sequence[tuple[int, int]], guarded: bool) -> list[str]:
        """Compute and store a thread's elements of the results."""
        s = self._sharing
        lines = [f"{self._arrays.ctype(f'q{k}')} y{k}[{s.elements}];" for k, _ in vectors]
        inside: list[str] = []
        known: dict[object, str] = {}
        for k, o in vectors:
            value = self._elements.element(o, known, inside)
            inside.append(f"y{k}[e] = {value};")
        self._elements.loop(lines.append, inside, guarded)
        return lines + self._arrays.store([k for k, _ in vectors], guarded)

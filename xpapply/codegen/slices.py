"""Kernels for functions of the slices of several arrays: one read of what they need, one write.

A slice is shared by `lanes` threads, which hold a piece of it in registers: the whole of it,
where it is short enough (``held``), else piece by piece. Accumulators are found of a thread's
piece, combined over pieces and merged over lanes. Where there are few long slices, several
blocks share one (``split``): one launch per level of the graph writes their states to memory,
and the next one merges them.

The text stands alone (no headers), compiles with NVRTC, and with one lane as host C++.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..ir.graph import Graph
from ..ir.ops import OPS, Kind
from .cxx import TYPES
from .elements import PREAMBLE, Sharing, indented
from .states import SHUFFLE, States, size

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


class _Writer(States):
    """Writes the kernels of one graph."""

    # --- the whole ----------------------------------------------------------------------------

    def kernels(self) -> SliceKernels:
        s, top = self.s, max(self.level, default=0)
        text = [PREAMBLE, f"typedef {'long long' if s.wide else 'int'} I;"]
        if s.lanes > 1 or s.split:
            text.append(SHUFFLE)
        for k in range(len(self.accumulators)):
            text += self.declared(k)
        names = ["xpapply_slices"]
        if not s.split:
            text.append(self._kernel(names[0], self._one(top)))
        else:
            names = [*(f"xpapply_level{p}" for p in range(1, top + 1)), "xpapply_last"]
            for p, name in enumerate(names, 1):
                text.append(self._kernel(name, self._level(p) if p <= top else self._last(top)))
        state_bytes = sum(map(self.stride, range(len(self.accumulators))))
        return SliceKernels("\n".join(text), tuple(names), state_bytes)

    def _one(self, top: int) -> list[str]:
        """All levels and the results."""
        body = [*self._where(), "const I from = 0, until = n;"]
        if self.s.held:
            body += ["const I base = 0;", *self._load(self.s.guarded)]
        for p in range(1, top + 1):
            body += [*self._pass(p), *self.merged(p), *self.numbers_of(p)]
        return [*body, *self._results("lane == 0 && live")]

    def _level(self, p: int) -> list[str]:
        """The states of one level, of the piece of a block."""
        body = [*self._where(), *self._range()]
        for earlier in range(1, p):
            body += [*self.from_memory(earlier), *self.numbers_of(earlier)]
        body += [*self._pass(p), *self.merged(p), "if (lane == 0 && live) {"]
        return [*body, *(f"  *{self.stored(k, 'blockIdx.y')} = s{k};" for k in self.at(p)), "}"]

    def _last(self, top: int) -> list[str]:
        """The results, of the states of all blocks."""
        body = [*self._where(), *self._range()]
        for p in range(1, top + 1):
            body += [*self.from_memory(p), *self.numbers_of(p)]
        return [*body, *self._results("lane == 0 && live && blockIdx.y == 0")]

    def _kernel(self, name: str, body: Iterable[str]) -> str:
        s = self.s
        kept = 0
        if s.lanes > 1:
            counts = enumerate(self.accumulators)
            kept = max((size(by) * self.shared_states(k) for k, ((by, _), _) in counts), default=0)
        shared = ""
        if kept:
            shared = f"  alignas(16) __shared__ char xp_shared[{kept}];\n"
        text = "\n".join(indented(body))
        # so many blocks that a thread has 64 registers: more leave too few threads to read
        bounds = f"__launch_bounds__({s.threads}, {max(1, 1024 // s.threads)})"
        head = f'extern "C" __global__ void {bounds} {name}({self._parameters()})'
        return f"{head} {{\n{shared}{text}\n}}"

    def _parameters(self) -> str:
        g, s = self.graph, self.s
        found = []
        for k, i in enumerate(g.inputs):
            ctype = TYPES[g.nodes[i].aval.dtype]
            found.append(f"const {ctype}* const p{k}" if g.is_vector(i) else f"const {ctype} p{k}")
        found += [f"{TYPES[g.nodes[o].aval.dtype]}* const q{k}" for k, o in enumerate(g.outs)]
        found += ["const long long n_slices_", "const long long n_"]
        found += [f"const long long c{d}" for d in range(s.core)]
        found += [f"const long long b{d}" for d in range(s.batch)]
        for a in self._arrays():
            found += [f"const long long {a}_c{d}" for d in range(s.core)]
            found += [f"const long long {a}_b{d}" for d in range(s.batch)]
        if s.split:
            found += ["char* const scratch", "const long long per_block", "const int n_blocks"]
        return ", ".join(found)

    # --- where things are ---------------------------------------------------------------------

    def _arrays(self) -> list[str]:
        """The arrays with strides: inputs that are vectors, then outs."""
        return [*(f"p{k}" for k in self._inputs()), *(f"q{k}" for k in range(len(self.graph.outs)))]

    def _inputs(self) -> list[int]:
        """The inputs that are vectors, by number."""
        return [k for k, i in enumerate(self.graph.inputs) if self.graph.is_vector(i)]

    def _ctype(self, array: str) -> str:
        g, k = self.graph, int(array[1:])
        return TYPES[g.nodes[g.inputs[k] if array[0] == "p" else g.outs[k]].aval.dtype]

    def _where(self) -> list[str]:
        """Which slice this thread works on, and where that starts in every array."""
        s = self.s
        self._named.clear()
        lane, local = ("/", "%") if s.across else ("%", "/")
        count = s.slices if s.across else s.lanes
        lines = [
            f"const I n = {s.length or '(I)n_'}, n_slices = (I)n_slices_;",
            f"const int lane = {f'threadIdx.x {lane} {count}' if s.lanes > 1 else 0};",
            f"const I local = threadIdx.x{f' {local} {count}' if s.lanes > 1 else ''};",
            f"I row = (I)blockIdx.x * {s.slices} + local;",
            "const bool live = row < n_slices;",
            "if (!live) row = n_slices - 1;",
            *(f"I {a}_at = 0;" for a in self._arrays()),
        ]
        if s.batch:
            lines += ["{", *indented(self._places("row", "b", s.batch, "_at")), "}"]
        return lines + self.numbers_of(0)

    def _places(self, index: str, letter: str, dims: int, suffix: str) -> list[str]:
        """Statements that add to every array's place what an index in some dims amounts to."""
        lines = [f"I rest = {index};"]
        for d in range(dims - 1, -1, -1):
            lines.append(f"const I i{d} = rest{f' % (I){letter}{d}' if d else ''};")
            if d:
                lines.append(f"rest /= (I){letter}{d};")
            lines += [f"{a}{suffix} += i{d} * (I){a}_{letter}{d};" for a in self._arrays()]
        return lines

    def _range(self) -> list[str]:
        """The elements of a slice that a block has."""
        return [
            "const I from = (I)blockIdx.y * (I)per_block;",
            "const I until = from + (I)per_block < n ? from + (I)per_block : n;",
        ]

    def _step(self, array: str) -> int:
        """The step of an array along the slice: 0, 1, or -1 for one that is told at launch."""
        s = self.s
        return 0 if not s.core else s.steps[self._arrays().index(array)] if s.core == 1 else -1

    def _offset(self, array: str) -> str:
        """Where element ``jv`` lies, counted from the start of the slice."""
        if self.s.core > 1:
            return f"{array}_in"
        return {0: "0", 1: "jv"}.get(self._step(array), f"jv * (I){array}_c0")

    def _singly(self, body: list[str], guarded: bool) -> list[str]:
        """A loop over the elements ``v`` of a vector, each found by itself."""
        s = self.s
        lines = ["const I jv = j + v;"]
        if s.core > 1:
            lines += [f"I {a}_in = 0;" for a in self._arrays()]
            lines += ["{", *indented(self._places("jv", "c", s.core, "_in")), "}"]
        guard = "if (j + v < until) " if guarded else ""
        head = f"for (int v = 0; v < {s.vector}; ++v) {guard}{{"
        return ["XP_UNROLL", head, *indented([*lines, *body]), "}"] if body else []

    def _in_vectors(self, arrays: Sequence[str], load: bool, guarded: bool) -> list[str]:
        """Move a thread's piece of some arrays between registers and memory."""
        s = self.s
        packed, single = [], []
        every = []
        for a in arrays:
            held = f"{'x' if load else 'y'}{a[1:]}[u * {s.vector} + v]"
            place = f"{a}[{a}_at + {self._offset(a)}]"
            every.append(f"{held} = {place};" if load else f"{place} = {held};")
            if s.vector == 1 or self._step(a) != 1:
                single.append(every[-1])
                continue
            pack = f"Pack<{self._ctype(a)}, {s.vector}>"
            at = f"*reinterpret_cast<{'const ' if load else ''}{pack}*>({a} + {a}_at + j)"
            one = f"{held} = w{a}.a[v]" if load else f"w{a}.a[v] = {held}"
            moved = ["XP_UNROLL", f"for (int v = 0; v < {s.vector}; ++v) {one};"]
            if load:
                packed += [f"const {pack} w{a} = {at};", *moved]
            else:
                packed += [f"{pack} w{a};", *moved, f"{at} = w{a};"]
        whole = [*packed, *self._singly(single, guarded=False)]
        live = "" if load else "live"
        if guarded:
            fits = f"j + {s.vector} <= until" if s.vector > 1 else "j < until"
            live = f"{live} && {fits}" if live else fits
        if live:
            whole = [f"if ({live}) {{", *indented(whole), "}"]
        if guarded and s.vector > 1:
            rest = f"else {'' if load else 'if (live) '}{{"
            whole += [rest, *indented(self._singly(every, guarded=True)), "}"]
        head = f"for (int u = 0; u < {s.pieces}; ++u) {{"
        start = f"  const I j = {self.first('base', 'u')};"
        return ["XP_UNROLL", head, start, *indented(whole), "}"]

    def _load(self, guarded: bool) -> list[str]:
        """A thread's piece of every input into registers, from element ``base``."""
        s = self.s
        arrays = [f"p{k}" for k in self._inputs()]
        lines = [f"{self._ctype(a)} x{a[1:]}[{s.elements}];" for a in arrays]
        return lines + self._in_vectors(arrays, True, guarded)

    # --- passes -------------------------------------------------------------------------------

    def _over_pieces(self, full: list[str], tail: list[str]) -> list[str]:
        """A loop over the pieces of a slice (or of a block's part of it), the last one guarded."""
        step = self.s.lanes * self.s.elements
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
        ks = self.at(p)
        declared = [f"State{k} s{k} = xp_nothing{k}();" for k in ks]
        if self.s.held:
            return [*declared, *self.piece(ks, self.s.guarded)]
        full, tail = ([*self._load(g), *self.piece(ks, g)] for g in (False, True))
        return [*declared, *self._over_pieces(full, tail)]

    def _results(self, one: str) -> list[str]:
        """Write numbers where `one` is true, and vectors element by element."""
        g = self.graph
        lines: list[str] = []
        known: dict[object, str] = {}
        for k, o in enumerate(g.outs):
            if not g.is_vector(o):
                value = self.element(o, known, lines)
                lines.append(f"q{k}[q{k}_at] = {value};")
        if lines:
            lines = [f"if ({one}) {{", *indented(lines), "}"]
        vectors = [(k, o) for k, o in enumerate(g.outs) if g.is_vector(o)]
        if not vectors:
            return lines
        if self.s.held:
            return [*lines, *self._mapped(vectors, self.s.guarded)]
        full, tail = ([*self._load(g), *self._mapped(vectors, g)] for g in (False, True))
        return [*lines, *self._over_pieces(full, tail)]

    def _mapped(self, vectors: Sequence[tuple[int, int]], guarded: bool) -> list[str]:
        """Compute and store a thread's piece of the results."""
        s = self.s
        lines = [f"{self._ctype(f'q{k}')} y{k}[{s.elements}];" for k, _ in vectors]
        inside: list[str] = []
        known: dict[object, str] = {}
        for k, o in vectors:
            value = self.element(o, known, inside)
            inside.append(f"y{k}[e] = {value};")
        self.loop(lines.append, inside, guarded)
        return lines + self._in_vectors([f"q{k}" for k, _ in vectors], False, guarded)

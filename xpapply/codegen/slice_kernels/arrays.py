"""Places of a slice graph's arrays, and a thread's loads and stores, in C++."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.graph import Graph
from ..cxx import TYPES
from .elements import Elements, indented
from .sharing import Sharing


class Arrays:
    """The inputs that are vectors, ``p<k>``, and the results, ``q<k>``: those with strides."""

    def __init__(self, elements: Elements) -> None:
        self._elements = elements
        self._graph: Graph = elements.graph
        self._sharing: Sharing = elements.sharing
        g = self._graph
        self._inputs = [f"p{k}" for k, i in enumerate(g.inputs) if g.is_vector(i)]
        self.names = (*self._inputs, *(f"q{k}" for k in range(len(g.outs))))

    def ctype(self, array: str) -> str:
        """The type of the elements of an array."""
        g, k = self._graph, int(array[1:])
        return TYPES[g.nodes[g.inputs[k] if array[0] == "p" else g.outs[k]].aval.dtype]

    def places(self, index: str, letter: str, dims: int, suffix: str) -> list[str]:
        """Statements that add to every array's place what an index in some dims amounts to."""
        lines = [f"I rest = {index};"]
        for d in range(dims - 1, -1, -1):
            lines.append(f"const I i{d} = rest{f' % (I){letter}{d}' if d else ''};")
            if d:
                lines.append(f"rest /= (I){letter}{d};")
            lines += [f"{a}{suffix} += i{d} * (I){a}_{letter}{d};" for a in self.names]
        return lines

    def _step(self, array: str) -> int:
        """The step of an array along the slice: 0, 1, or -1 for one passed at launch."""
        s = self._sharing
        return 0 if not s.core else s.steps[self.names.index(array)] if s.core == 1 else -1

    def _offset(self, array: str) -> str:
        """The offset of element ``jv`` from the start of the slice."""
        if self._sharing.core > 1:
            return f"{array}_in"
        return {0: "0", 1: "jv"}.get(self._step(array), f"jv * (I){array}_c0")

    def _singly(self, body: list[str], guarded: bool) -> list[str]:
        """A loop over the elements ``v`` of a vector, each found by itself."""
        s = self._sharing
        lines = ["const I jv = j + v;"]
        if s.core > 1:
            lines += [f"I {a}_in = 0;" for a in self.names]
            lines += ["{", *indented(self.places("jv", "c", s.core, "_in")), "}"]
        guard = "if (j + v < until) " if guarded else ""
        head = f"for (int v = 0; v < {s.vector}; ++v) {guard}{{"
        return ["XP_UNROLL", head, *indented([*lines, *body]), "}"] if body else []

    def _in_vectors(self, arrays: Sequence[str], load: bool, guarded: bool) -> list[str]:
        """Move a thread's elements of some arrays between registers and memory."""
        s = self._sharing
        packed, single = [], []
        every = []
        for a in arrays:
            register = f"{'x' if load else 'y'}{a[1:]}[u * {s.vector} + v]"
            place = f"{a}[{a}_at + {self._offset(a)}]"
            every.append(f"{register} = {place};" if load else f"{place} = {register};")
            if s.vector == 1 or self._step(a) != 1:
                single.append(every[-1])
                continue
            pack = f"Pack<{self.ctype(a)}, {s.vector}>"
            at = f"*reinterpret_cast<{'const ' if load else ''}{pack}*>({a} + {a}_at + j)"
            one = f"{register} = w{a}.a[v]" if load else f"w{a}.a[v] = {register}"
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
        head = f"for (int u = 0; u < {s.vectors}; ++u) {{"
        start = f"  const I j = {self._elements.first('base', 'u')};"
        return ["XP_UNROLL", head, start, *indented(whole), "}"]

    def load(self, guarded: bool) -> list[str]:
        """A thread's elements of every input into registers, from element ``base``."""
        s = self._sharing
        lines = [f"{self.ctype(a)} x{a[1:]}[{s.elements}];" for a in self._inputs]
        return lines + self._in_vectors(self._inputs, True, guarded)

    def store(self, outs: Sequence[int], guarded: bool) -> list[str]:
        """A thread's elements of some results from registers, from element ``base``."""
        return self._in_vectors([f"q{k}" for k in outs], False, guarded)

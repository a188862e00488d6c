"""Graphs from vectors to numbers in C++: the chunk of an accumulator, and its merge."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ...ir.graph import Graph, Node, number
from ...ir.ops import OPS, Kind
from ...ir.slices.accumulators import identity
from ..cxx import TYPES
from .elements import Elements, form, statement, written_number
from .lanes import NOWHERE, in_warps, share


class Reductions:
    """A graph from vectors to numbers, reduction by reduction: those that need no other first."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.names = {
            i: written_number(number(n), n.aval.dtype)
            for i, n in enumerate(graph.nodes)
            if n.op == "scalar"
        }
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
                given = [self.names[a] for a in n.args]
                emit(statement(self.graph, i, f"{prefix}{i}", given))
                self.names[i] = f"{prefix}{i}"


class Part(Reductions):
    """The chunk of accumulator `k` over a thread's elements, or, `whole`, over all of the slice."""

    def __init__(self, elements: Elements, k: int, whole: bool, guarded: bool) -> None:
        (by, self._args), _ = elements.accumulators[k]
        assert by.chunk is not None
        super().__init__(by.chunk)
        self._elements, self._k, self._whole = elements, k, whole
        count = "n" if whole else "have" if guarded else str(elements.sharing.elements)
        for i, n in enumerate(by.chunk.nodes):
            if n.op == "length":
                self.names[i] = f"({TYPES[n.aval.dtype]}){count}"

    def reductions(
        self, q: int, known: dict[Any, str], inside: list[str], emit: Callable[[str], Any]
    ) -> None:
        """Declare the reductions of depth q, and write how an element joins them."""
        for i, n, dtype in self.at(q):
            value = self._element(n.args[0], known, inside)
            name = f"r{self._k}_{i}"
            ctype = TYPES[dtype]
            emit(f"{ctype} {name} = {written_number(identity(n.op, dtype), dtype)};")
            if OPS[n.op].finds_position:
                emit(f"long long {name}_at = {NOWHERE};")
                takes = f"{name}_at == {NOWHERE} || {OPS[n.op].c.format(name, value)}"
                inside.append(f"if ({takes}) {{ {name} = {value}; {name}_at = (long long)jv; }}")
                self.names[i] = f"{name}_at"
            else:
                inside.append(f"{name} = {form(n.op, dtype).format(name, value)};")
                self.names[i] = name

    def _element(self, i: int, known: dict[Any, str], lines: list[str]) -> str:
        n = self.graph.nodes[i]
        if n.op == "input":
            return self._elements.element(self._args[n.attr("k")], known, lines)
        if i in self.names:
            return self.names[i]
        if (self._k, i) not in known:
            given = [self._element(a, known, lines) for a in n.args]
            name = f"c{self._k}_{i}"
            lines.append(statement(self.graph, i, name, given))
            known[self._k, i] = name
        return known[self._k, i]

    def shared(self, q: int, emit: Callable[[str], Any]) -> None:
        """Share the reductions of depth q over all lanes."""
        s = self._elements.sharing
        if not self._whole or s.lanes == 1:
            return
        for i, n, dtype in self.at(q):
            lines: list[str] = []
            name = f"r{self._k}_{i}"
            share(n, name, dtype, s.lanes, lines.append)
            if s.across:
                lines = in_warps(s, TYPES[dtype], name, lines)
            for line in lines:
                emit(line)

    def numbers(self, q: int, emit: Callable[[str], Any]) -> None:
        """The numbers that are known then."""
        self.numbers_after(q, f"m{self._k}_", emit)

    def state(self) -> list[str]:
        """The state of the thread's elements, as ``piece<k>``."""
        fields = enumerate(self.graph.outs)
        k = self._k
        return [f"State{k} piece{k};", *(f"piece{k}.f{f} = {self.names[o]};" for f, o in fields)]


class Merge(Reductions):
    """The merge of an accumulator over the states of neighbouring threads, one each."""

    def __init__(self, k: int, merge: Graph, names: dict[int, str], width: int) -> None:
        super().__init__(merge)
        self._k, self._width = k, width
        self.names |= names

    def text(self) -> list[str]:
        """Afterwards ``s<k>`` is the state of all."""
        lines = ["{"]
        for q in range(1, self.depth + 1):
            for i, n, dtype in self.at(q):
                value = self._element(n.args[0], lines)
                name = f"g{i}"
                lines.append(f"{TYPES[dtype]} {name} = {value};")
                share(n, name, dtype, self._width, lines.append)
                self.names[i] = name
            self.numbers_after(q, "h", lines.append)
        fields = [f"s{self._k}.f{f} = {self.names[o]};" for f, o in enumerate(self.graph.outs)]
        return [*lines, *fields, "}"]

    def _element(self, i: int, lines: list[str]) -> str:
        if i not in self.names:
            n = self.graph.nodes[i]
            given = [self._element(a, lines) for a in n.args]
            lines.append(statement(self.graph, i, f"v{i}", given))
            self.names[i] = f"v{i}"
        return self.names[i]

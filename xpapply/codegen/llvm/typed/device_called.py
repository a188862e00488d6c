"""Functions that a typed function runs in several places, on a device: one of LLVM's for each.

One gives the number of a mark, or 0; whether NumPy may have warned; how many rounds of loops were
made after it, if it makes some; and its results. It takes no memory: see `ir.typed.written_out`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from ....ir.typed import Array, Instruction
from ....ir.typed.function import Type, Value
from .called import kinds_of, together
from .device import WRITES, DeviceWriter
from .forms import ROUNDS
from .function import FunctionWriter

_LOOPS = 100_000
"""More than a function has blocks."""


class _OnDevice(NamedTuple):
    """A function that was written: LLVM's type of what it gives; whether it counts rounds."""

    structure: str
    counts: bool


class CallingOnDevice(DeviceWriter):
    """Writes a typed function, and those that it runs."""

    functions: list[_OnDevice]
    given: list[Any]

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._operations = {**self._operations, "run": _run, "given": _given}

    def text(self) -> str:
        """The function, and after it the others."""
        self.functions, others = [], []
        for k in range(len(self.made.functions)):
            others.append(_CalledOnDevice(self, k).text())
        return "\n".join([super().text(), *others])

    def run(self, k: int, values: Sequence[Value]) -> None:
        """Run a function, and leave where it does."""
        f = self.functions[k]
        if any(x.op in WRITES for x in self.made.functions[k].instructions):
            self.flush()
        given = [f"i64 {self.emit(f'load i64, ptr {self.rounds()}')}"] if f.counts else []
        for x in values:
            given += self.apart(x)
        found = self.emit(f"call {f.structure} @f{k}({', '.join(given)})")
        mark, warned = (self.emit(f"extractvalue {f.structure} {found}, {n}") for n in range(2))
        leaves, on = self.label(), self.label()
        is_marked = self.emit(f"icmp ne i32 {mark}, 0")
        self.line(f"br i1 {is_marked}, label %{leaves}, label %{on}, !prof !0")
        self.begin(leaves)
        self.line(f"ret i32 {mark}")
        self.begin(on)
        if self._odd:
            before = self.emit(f"load i1, ptr {self._odd}")
            self.line(f"store i1 {self.emit(f'or i1 {before}, {warned}')}, ptr {self._odd}")
        at = 2
        if f.counts:
            after = self.emit(f"extractvalue {f.structure} {found}, {at}")
            self.line(f"store i64 {after}, ptr {self.rounds()}")
            at += 1
        self.given = []
        for kind in self.made.functions[k].gives:
            parts = []
            for _ in kinds_of(kind):
                parts.append(self.emit(f"extractvalue {f.structure} {found}, {at}"))
                at += 1
            self.given.append(together(kind, parts))

    def apart(self, x: Value) -> list[str]:
        """A value as numbers of LLVM's, with their types."""
        if isinstance(x.type, Array):
            array = self.array(x)
            parts = [array.base, *array.dims, *array.strides]
        else:
            parts = [self.value(x)]
        return [f"{kind} {part}" for kind, part in zip(kinds_of(x.type), parts, strict=True)]


class _CalledOnDevice(CallingOnDevice):
    """Writes a function that another one runs."""

    def __init__(self, outer: CallingOnDevice, k: int) -> None:
        made = replace(outer.made.functions[k], fetches=outer.made.fetches)
        super().__init__(made, outer._known, 0)
        self.frame, self.declared, self._number = outer.frame, outer.declared, k
        self.functions, self.loops, self.unrolls = outer.functions, outer.loops, outer.unrolls
        self.counts_down = outer.counts_down
        self._unrolled = set()  # its arrays are of any length
        self._first_loop = outer._first_loop + _LOOPS * (k + 1)
        self._parameters: list[str] = []
        self._inputs: list[Any] = []
        for n, kind in enumerate(made.inputs):
            kinds = kinds_of(kind)
            names = [f"%p{n}.{i}" for i in range(len(kinds))]
            self._parameters += [f"{how} {name}" for how, name in zip(kinds, names, strict=True)]
            self._inputs.append(together(kind, names))
        self._ends: list[tuple[int, list[str]]] = []

    def text(self) -> str:
        """The function."""
        self.write()
        counts = bool(self._rounds)
        kinds = ["i1", *["i64"] * counts, *(k for x in self.made.gives for k in kinds_of(x))]
        structure = f"{{{', '.join(['i32', *kinds])}}}"
        nothing = "".join(f", {k} poison" for k in kinds)
        self.functions.append(_OnDevice(structure, counts))
        for at, values in self._ends:  # whether it counts is known once all of it is written
            lines, held = [], f"{{i32 0{nothing}}}"
            if counts:
                lines.append(f"  %c{at} = load i64, ptr {self._rounds}")
                values.insert(1, f"i64 %c{at}")
            for n, value in enumerate(values):
                lines.append(f"  %r{at}.{n} = insertvalue {structure} {held}, {value}, {n + 1}")
                held = f"%r{at}.{n}"
            self._lines[at] = "\n".join([*lines, f"  ret {structure} {held}"])
        given = ["i64 %rounds"] * counts + self._parameters
        head = f"{structure} @f{self._number}({', '.join(given)}) noinline nounwind #0"
        return self.whole(head, f"{structure} {{i32 MARK{nothing}}}")

    def begins(self, index: int) -> str:
        """The caller's count."""
        return "%rounds" if index == ROUNDS else super().begins(index)

    def input(self, k: int, kind: Type) -> Any:
        """The given value of an input."""
        return self._inputs[k]

    def returned(self, x: Instruction) -> None:
        """End the function."""
        warned = self.emit(f"load i1, ptr {self._odd}") if self._odd else "false"
        values = [f"i1 {warned}", *(v for a in x.args for v in self.apart(a))]
        self._ends.append((len(self._lines), values))
        self.line("")


def _run(w: FunctionWriter, x: Instruction) -> None:
    assert isinstance(w, CallingOnDevice)
    w.run(x.what, x.args)


def _given(w: FunctionWriter, x: Instruction) -> None:
    assert isinstance(w, CallingOnDevice)
    w.set(x, w.given[x.what])

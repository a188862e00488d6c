"""Functions that a typed function runs in several places: a function of LLVM's for each.

One gives the number of a mark, or 0; how much memory is taken and how many rounds of loops were
made after it, if it takes any or makes some; and its results. All is one structure: so what runs it
keeps its own numbers in registers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ....ir.typed import Array, Instruction, Register, strides
from ....ir.typed.function import PARTS, Type, Value
from .forms import ARENA, ROUNDS, InRegisters, Pair, machine, size
from .function import FunctionWriter


class _Function(NamedTuple):
    """A function that was written.

    Attributes
    ----------
    structure : str
        LLVM's type of what it gives.
    counted : tuple of int
        Which of `ARENA` and `ROUNDS` it goes on counting.
    near : frozenset of int
        The numbers of its inputs whose elements lie side by side.
    """

    structure: str
    counted: tuple[int, ...]
    near: frozenset[int]


class CallingWriter(FunctionWriter):
    """Writes a typed function, and those that it runs."""

    functions: list[_Function]

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.reused, self.waiting = set[Register](), set[Register]()
        self.pending = set[Register]()  # formulas
        if any(x.op in _WHOLE for x in self.made.instructions):
            from ....ir.typed.lifetimes import reused  # which loops over numbers do not need
            from .formulas import waiting

            self.reused = {x for x in reused(self.made) if isinstance(x.type, Array)}
            self.waiting = waiting(self.made.blocks, self.made.externals)

    def formula(self, x: Value) -> Any:
        """The formula of an array that is not in memory; None: it is."""
        return self._values[x] if x in self.pending else None  # type: ignore[index]

    def lengths(self, x: Value) -> tuple[str, ...]:
        found = self.formula(x)
        return found.dims if found else super().lengths(x)

    def strides(self, x: Value) -> tuple[str, ...]:
        found = self.formula(x)
        return (str(size(found.dtype)),) if found else super().strides(x)

    def array(self, x: Value) -> InRegisters:
        """The memory of an array: a formula is put there."""
        found = self.formula(x)
        if found is not None:
            assert isinstance(x, Register)
            site, self._site = self._site, x
            self._values[x] = found.array(self)
            self.pending.discard(x)
            self._site = site
        return super().array(x)

    def allocated(self, bytes_: str, mark: int) -> str:
        """Memory of an array is the same each time, if the last one is dead: so it stays near."""
        if self._site not in self.reused:
            return super().allocated(bytes_, mark)
        place, room = (self.at_entry(f"alloca {kind}, align 8") for kind in ("ptr", "i64"))
        self._entry.append(f"  store i64 -1, ptr {room}")
        more, on = self.label(), self.label()
        held = self.emit(f"load i64, ptr {room}")
        is_more = self.emit(f"icmp sgt i64 {bytes_}, {held}")
        self.line(f"br i1 {is_more}, label %{more}, label %{on}")
        self.begin(more)
        # at whole lines of the cache, of which it has 16 bytes at least
        begin = super().allocated(self.emit(f"add i64 {bytes_}, 48"), mark)
        end = self.emit(f"add i64 {self.emit(f'ptrtoint ptr {begin} to i64')}, 48")
        begin = self.emit(f"inttoptr i64 {self.emit(f'and i64 {end}, -64')} to ptr")
        self.line(f"store ptr {begin}, ptr {place}")
        self.line(f"store i64 {bytes_}, ptr {room}")
        self.line(f"br label %{on}")
        self.begin(on)
        return self.emit(f"load ptr, ptr {place}")

    def text(self) -> str:
        """The function, and after it the others."""
        self.functions, others = [], []
        for k, near in enumerate(self._near_inputs()):
            others.append(_CalledWriter(self, k, near).text())
        return "\n".join([super().text(), *others])

    def _near_inputs(self) -> list[frozenset[int]]:
        """For each function the inputs whose elements are contiguous in every call."""
        functions = self.made.functions
        found = [
            {n for n, x in enumerate(f.inputs) if isinstance(x, Array) and x.ndim}
            for f in functions
        ]
        runs = [*strides.given(self.made, self._side_by_side, self.near)]
        for k in reversed(range(len(functions))):  # after all that run it
            for number, are_near in runs:
                if number == k:
                    found[k] &= {n for n, is_near in enumerate(are_near) if is_near}
            near = strides.side_by_side(functions[k], found[k])
            runs += strides.given(functions[k], found[k], near)
        return [*map(frozenset, found)]

    def counter(self, index: int) -> str:
        """The address of a counter."""
        return self.scratch() if index == ARENA else self.rounds()

    def run(self, k: int, values: list[Value]) -> None:
        """Run a function, and leave where it does."""
        f = self.functions[k]
        counts = [self.emit(f"load i64, ptr {self.counter(c)}") for c in f.counted]
        given = ["ptr %frame", "ptr %also", *(f"i64 {c}" for c in counts)]
        for n, x in enumerate(values):
            given += self.apart(x, n in f.near)
        found = self.emit(f"call {f.structure} @f{k}({', '.join(given)})")
        mark = self.emit(f"extractvalue {f.structure} {found}, 0")
        leaves, on = self.label(), self.label()
        is_marked = self.emit(f"icmp ne i32 {mark}, 0")
        self.line(f"br i1 {is_marked}, label %{leaves}, label %{on}, !prof !0")
        self.begin(leaves)
        self.line(self.passed_on(mark))
        self.begin(on)
        for i, c in enumerate(f.counted):
            after = self.emit(f"extractvalue {f.structure} {found}, {i + 1}")
            self.line(f"store i64 {after}, ptr {self.counter(c)}")
        at = 1 + len(f.counted)
        self.given: list[Any] = []
        for kind in self.made_of(k).gives:
            count = len(kinds_of(kind))
            parts = [
                self.emit(f"extractvalue {f.structure} {found}, {at + i}") for i in range(count)
            ]
            self.given.append(together(kind, parts))
            at += count

    def passed_on(self, mark: str) -> str:
        """Return from this function with the mark of a callee."""
        return f"ret i32 {mark}"

    def made_of(self, k: int) -> Any:
        """A function that is run."""
        return self.made.functions[k]

    def apart(self, x: Value, is_near: bool = False) -> list[str]:
        """A value as numbers of LLVM's, with their types; `is_near`: as of `kinds_of`."""
        kinds = kinds_of(x.type, is_near)
        if isinstance(x.type, Array):
            array = self.array(x)
            parts = [array.base, *array.dims, *array.strides]
        else:
            value = self.value(x)
            parts = [*value] if x.type in PARTS else [value]
        return [f"{kind} {part}" for kind, part in zip(kinds, parts, strict=False)]


class _CalledWriter(CallingWriter):
    """Writes a function that another one runs."""

    def __init__(self, outer: CallingWriter, k: int, near: frozenset[int]) -> None:
        made = outer.made.functions[k]
        super().__init__(made, outer._notes, outer._operations, outer.is_quiet, outer.near_libm)
        self.has_pairs, self.frame, self.declared = outer.has_pairs, outer.frame, outer.declared
        self.functions, self._outer, self._number, self._given_near = (
            outer.functions,
            outer,
            k,
            near,
        )
        self.near = strides.side_by_side(made, near)
        self._parameters: list[str] = []
        self._inputs: list[Any] = []
        for n, kind in enumerate(made.inputs):
            kinds = kinds_of(kind, n in near)
            names = [f"%p{n}.{i}" for i in range(len(kinds))]
            self._parameters += [f"{how} {name}" for how, name in zip(kinds, names, strict=True)]
            if n in near:
                assert isinstance(kind, Array)
                names.append(str(self.element_bytes(kind.dtype)))
            self._inputs.append(together(kind, names))
        self._ends: list[tuple[int, list[str]]] = []
        self._passed: list[tuple[int, str]] = []

    def text(self) -> str:
        """The function."""
        self.write()
        counted = (*[ARENA] * bool(self._scratch), *[ROUNDS] * bool(self._rounds))
        kinds = ["i64"] * len(counted) + [k for x in self.made.gives for k in kinds_of(x)]
        structure = f"{{{', '.join(['i32', *kinds])}}}"
        nothing = "".join(f", {k} poison" for k in kinds)
        self.functions.append(_Function(structure, counted, self._given_near))
        # how it ends is known once all of it is written
        for at, values in self._ends:
            end: list[str] = []
            held = f"{{i32 0{nothing}}}"
            for c in counted:
                values.insert(len(end), f"i64 %c{at}.{c + 1}")
                end.append(f"  %c{at}.{c + 1} = load i64, ptr {self.counter(c)}")
            for n, value in enumerate(values):
                end.append(f"  %r{at}.{n} = insertvalue {structure} {held}, {value}, {n + 1}")
                held = f"%r{at}.{n}"
            self._lines[at] = "\n".join([*end, f"  ret {structure} {held}"])
        for at, mark in self._passed:
            held = f"insertvalue {structure} {{i32 0{nothing}}}, i32 {mark}, 0"
            self._lines[at] = f"  %r{at} = {held}\n  ret {structure} %r{at}"
        given = ["ptr %frame", "ptr %also", *(f"i64 {self.begins(c)}" for c in counted)]
        given += self._parameters
        head = f"{structure} @f{self._number}({', '.join(given)}) nounwind #4"
        return self.whole(head, f"{structure} {{i32 MARK{nothing}}}")

    def begins(self, index: int) -> str:
        """The caller's count."""
        return "%taken" if index == ARENA else "%rounds"

    def made_of(self, k: int) -> Any:
        """A function that is run."""
        return self._outer.made_of(k)

    def input(self, k: int, kind: Type) -> Any:
        """The given value of an input."""
        return self._inputs[k]

    def returned(self, x: Instruction) -> None:
        """End the function."""
        self._ends.append((len(self._lines), [v for a in x.args for v in self.apart(a)]))
        self.line("")

    def passed_on(self, mark: str) -> str:
        """Return from this function with the mark of a callee."""
        self._passed.append((len(self._lines), mark))
        return ""


def kinds_of(kind: Type, is_near: bool = False) -> list[str]:
    """LLVM's types of what a value consists of; `is_near`: its last stride is known."""
    if isinstance(kind, Array):
        return ["ptr", *["i64"] * (2 * kind.ndim - is_near)]
    return [machine(PARTS[kind])] * 2 if kind in PARTS else [machine(kind)]


def together(kind: Type, parts: list[str]) -> Any:
    """A value of its parts."""
    if isinstance(kind, Array):
        n = kind.ndim
        return InRegisters(parts[0], tuple(parts[1 : 1 + n]), tuple(parts[1 + n :]))
    return Pair(*parts) if kind in PARTS else parts[0]


def run(w: FunctionWriter, x: Instruction) -> None:
    """Run a function."""
    assert isinstance(w, CallingWriter)
    w.run(x.what, list(x.args))


def given(w: FunctionWriter, x: Instruction) -> None:
    """Read a result of the last callee."""
    assert isinstance(w, CallingWriter)
    w.set(x, w.given[x.what])


def _map(w: FunctionWriter, x: Instruction) -> None:
    from .formulas import map_

    map_(w, x)


def _copy(w: FunctionWriter, x: Instruction) -> None:
    from .formulas import copy

    copy(w, x)


_WHOLE = frozenset("new,map,as type,copy".split(","))
"""Instructions on whole arrays."""
OPERATIONS = {"run": run, "given": given, "map": _map, "copy": _copy}

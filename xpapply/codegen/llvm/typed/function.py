"""A typed function as a function of LLVM: blocks become blocks, slots the stack's, which LLVM's own
passes turn into registers."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ....ir.typed import Array, Block, Instruction, Literal, Register, Slot, TypedFunction, strides
from ....ir.typed.function import PARTS, Type, Value
from ....ir.typed.repeated import INDEX
from ....limits import LIMITS
from .forms import (
    ARENA,
    ARENA_END,
    ROUNDS,
    Frame,
    InRegisters,
    Pair,
    alignment,
    in_memory,
    literal,
    machine,
    size,
    suffix,
)
from .notes import Notes


class FunctionWriter:
    """Writes one typed function.

    Parameters
    ----------
    made : TypedFunction
        The function.
    notes : Notes
        What writes how the processor's are read.
    operations : mapping
        What writes each instruction.
    quiet : bool
        Whether no comparison may note NaN. LLVM's plain ones may, where they become one
        instruction with what they choose: these are up to three times as fast.
    near_libm : bool
        Whether the C library's functions are as near as `quick` says.
    side_by_side : bool
        Whether the elements of slices and results lie side by side, along their last axis.
    """

    cell = 8
    """Bytes of an element of a list."""
    most_rounds = LIMITS.typed_rounds
    """Rounds of loops after which a slice is marked."""
    within = " nsw"
    """The flag of LLVM for sums that stay in 64 bits."""
    on_vectors = False
    """Whether operations are written for several slices now."""

    def __init__(
        self,
        made: TypedFunction,
        notes: Notes,
        operations: Mapping[str, Callable[..., None]],
        quiet: bool = False,
        near_libm: bool = False,
        side_by_side: bool = False,
    ) -> None:
        self.near_libm, self._side_by_side = near_libm, side_by_side
        self.has_pairs = any(x.op == "complex" for x in made.instructions)
        self.made, self.frame, self._notes = made, Frame(made), notes
        self.is_quiet = quiet
        self._operations = operations
        self.declared: dict[str, str] = {}
        self._entry: list[str] = []
        self._lines: list[str] = []
        self._values: dict[Register, Any] = {}
        self._slots: dict[Slot, Any] = {}
        self._names = itertools.count()
        self.near = strides.side_by_side(made, side_by_side)
        self.checked: dict[tuple[Any, ...], str] = {}  # what an overflow was looked for in
        self.seldom: dict[Value, tuple[Value, ...]] = {}  # conditions whose second part seldom is
        self._marks: set[int] = set()
        self._frame: dict[int, str] = {}
        self._scratch = self._noted = self._rounds = ""
        self._errors: tuple[str, str] | None = None
        self._site: Register | None = None  # of the instruction that is written
        if any(x.op == "errors" for b in made.blocks for x in b.instructions):
            places = [self.at_entry("alloca i64, align 8") for _ in range(2)]
            self._entry += [f"  store i64 0, ptr {p}, align 8" for p in places]
            self._errors = places[0], places[1]

    def text(self) -> str:
        """The function: it gives 0, or the number of a mark."""
        made = self.made
        given = ["ptr %frame", "ptr %also", *(f"ptr %in{k}" for k in range(len(made.inputs)))]
        given += [f"ptr noalias %out{k}" for k in range(len(made.results))]
        self.write()
        return self.whole(f"i32 @slice({', '.join(given)}) noinline nounwind #0")

    def write(self) -> None:
        """Write all blocks."""
        for k, block in enumerate(self.made.blocks):
            self.begin(f"b{k}")
            self._block(block)

    def whole(self, head: str, gives: str = "i32 MARK") -> str:
        """The function of what is written; `gives`: what it gives for a mark."""
        marks = [f"m{m}:\n  ret {gives.replace('MARK', str(m))}" for m in sorted(self._marks)]
        begin = [f"define internal {head} {{", "entry:", *self._entry, "  br label %b0"]
        return "\n".join([*begin, *self._lines, *marks, "}"])

    def returned(self, x: Instruction) -> None:
        """End the function."""
        self.line("ret i32 0")

    # --- writing --------------------------------------------------------------------------

    def emit(self, instruction: str) -> str:
        """The name of what an instruction gives."""
        name = f"%t{next(self._names)}"
        self._lines.append(f"  {name} = {instruction}")
        return name

    def line(self, instruction: str) -> None:
        """An instruction without a value."""
        self._lines.append(f"  {instruction}")

    def at_entry(self, instruction: str) -> str:
        name = f"%e{next(self._names)}"
        self._entry.append(f"  {name} = {instruction}")
        return name

    def label(self) -> str:
        """A name for a place in the function."""
        return f"l{next(self._names)}"

    def begin(self, label: str) -> None:
        """Begin a basic block."""
        self._lines.append(f"{label}:")

    def word(self, index: int) -> str:
        """A number of the frame."""
        found = self._frame.get(index)
        if found is None:
            at = self.at_entry(f"getelementptr i64, ptr %frame, i64 {index}")
            said = ", !range !10" if index in self.frame.lengths else ""
            found = self.at_entry(f"load i64, ptr {at}, align 8, !invariant.load !1{said}")
            self._frame[index] = found
        return found

    def pointer(self, index: int) -> str:
        """An address of the frame."""
        found = self._frame.get(-index - 1)
        if found is None:
            word = self.word(index)
            found = self._frame[-index - 1] = self.at_entry(f"inttoptr i64 {word} to ptr")
        return found

    def value(self, x: Value) -> Any:
        """A number as an operand."""
        if isinstance(x, Literal):
            if x.type in PARTS:
                return Pair(*(literal(p, PARTS[x.type]) for p in (x.value.real, x.value.imag)))
            return literal(x.value, x.type)
        return self._values[x]

    def kind(self, dtype: str) -> str:
        """LLVM's type of what instructions on numbers are written for."""
        return machine(dtype)

    def everywhere(self, value: float, dtype: str) -> str:
        """A constant as such an operand."""
        return self.operand(Literal(value, dtype))

    def operand(self, x: Value, instead: float | None = None, always: bool = False) -> Any:
        """The value of an operand; `instead`: a safe value where it must not be read."""
        return self.value(x)

    def typed(self, x: Value) -> str:
        """The operand with its type."""
        assert isinstance(x.type, str)
        return f"{self.kind(x.type)} {self.operand(x)}"

    def integers(self, value: int, dtype: str) -> str:
        """An integer, as an operand of what is written."""
        return literal(value, dtype)

    def condition(self, x: Value) -> str:
        """A truth value that chooses, with its type before it."""
        return self.typed(x)

    def plain(self, name: str, kind: str, values: list[str], also: Sequence[str] = ()) -> str:
        """Call an LLVM intrinsic; `also`: operands of other types."""
        full = f"llvm.{name}.{suffix(kind)}"
        kinds = [kind] * len(values) + [x.split()[0] for x in also]
        self.declared[full] = f"declare {kind} @{full}({', '.join(kinds)})"
        given = [*(f"{kind} {v}" for v in values), *also]
        return self.emit(f"call {kind} @{full}({', '.join(given)})")

    def strict(self, name: str, kind: str, result: str, values: list[str]) -> str:
        """An operation whose notes count: LLVM neither drops it, nor moves it, nor adds another."""
        of = suffix(kind) if result == kind else f"{suffix(result)}.{suffix(kind)}"
        full = f"llvm.experimental.constrained.{name}.{of}"
        kinds = ", ".join([*[kind] * len(values), "metadata", "metadata"])
        self.declared[full] = f"declare {result} @{full}({kinds})"
        given = ", ".join(f"{kind} {v}" for v in values)
        how = 'metadata !"round.tonearest", metadata !"fpexcept.strict"'
        return self.emit(f"call {result} @{full}({given}, {how}) #2")

    def other_float(self, value: str, from_: str, to: str) -> str:
        """A float in another type of floats.

        A double not by ``fpext``: LLVM looks through it and takes ``x < 0 ? 0 : x`` for a maximum,
        so that minus zero loses its sign. A float as NumPy does alone, which warns of an overflow.
        """
        if {from_, to} == {"float16", "float64"}:
            between = _odd(self, value) if to == "float16" else value
            if to == "float64":
                between = self.other_float(value, from_, "float32")
            return self.other_float(between, "float32", to)
        old, new = self.kind(from_), self.kind(to)
        if size(to) < size(from_):
            return self.strict("fptrunc", old, new, [value])
        name = f"llvm.experimental.constrained.fpext.{suffix(new)}.{suffix(old)}"
        self.declared[name] = f"declare {new} @{name}({old}, metadata)"
        how = 'metadata !"fpexcept.ignore"'
        return self.emit(f"call {new} @{name}({old} {value}, {how}) #2")

    def compared(self, how: str, a: Value, b: Value) -> str:
        """Compare floats without notes, of NaN either."""
        return self.quiet(how, self.kind(str(a.type)), self.operand(a), self.operand(b))

    def quiet(self, how: str, kind: str, a: str, b: str) -> str:
        """Compare written values without notes."""
        truth, full = self.kind("bool"), f"llvm.experimental.constrained.fcmp.{suffix(kind)}"
        self.declared[full] = f"declare {truth} @{full}({kind}, {kind}, metadata, metadata)"
        given = f'metadata !"{how}", metadata !"fpexcept.strict"'
        return self.emit(f"call {truth} @{full}({kind} {a}, {kind} {b}, {given}) #2")

    def array(self, x: Value) -> InRegisters:
        """The memory of an array."""
        assert isinstance(x, Register)
        return self._values[x]  # type: ignore[no-any-return]

    def lengths(self, x: Value) -> tuple[str, ...]:
        """The lengths of an array."""
        return self.array(x).dims

    def strides(self, x: Value) -> tuple[str, ...]:
        """The strides of an array, in bytes."""
        return self.array(x).strides

    def mark_if(self, condition: str, mark: int, also: str = "") -> None:
        """Leave where a condition holds, which seldom is so, and perhaps another one."""
        self._marks.add(mark)
        on, leaves = self.label(), f"m{mark}"
        if also:
            leaves = self.label()
        self.line(f"br i1 {condition}, label %{leaves}, label %{on}, !prof !0")
        if also:
            self.begin(leaves)
            # LLVM must not know what it asks: it would write what follows once for each answer
            one = self.emit(f"zext i1 {also} to i32")
            hidden = self.emit(f'call i32 asm "", "=r,0"(i32 {one})')
            asked = self.emit(f"icmp ne i32 {hidden}, 0")
            self.line(f"br i1 {asked}, label %m{mark}, label %{on}, !prof !0")
        self.begin(on)

    def rounds(self) -> str:
        """The address of the counter of loop rounds."""
        if not self._rounds:
            self._rounds = self.at_entry("alloca i64, align 8")
            self._entry.append(f"  store i64 {self.begins(ROUNDS)}, ptr {self._rounds}")
        return self._rounds

    def keep_notes(self) -> None:
        """Keep what the processor has noted so far: what is called next may forget it."""
        if not self._noted:
            self._noted = self.at_entry("alloca i64, align 8")
            self._entry.append(f"  store i64 0, ptr {self._noted}")
        self._lines += self._notes.kept(self._noted, "%also", self._errors)

    def set_errors(self, ignored: Sequence[str], marked: Sequence[str]) -> None:
        """Say which notes count from now on."""
        self.keep_notes()
        assert self._errors is not None
        for place, kinds in zip(self._errors, (ignored, marked), strict=True):
            self.line(f"store i64 {self._notes.bits(kinds)}, ptr {place}, align 8")

    def forget_notes(self) -> None:
        """Forget what the processor has noted since `keep_notes`."""
        self._lines += self._notes.forgotten(self._noted)

    def loop(self, count: str, body: Callable[[str], None]) -> None:
        """``body(index)`` for each index below a count."""
        at = self.at_entry("alloca i64, align 8")
        head, inside, after = self.label(), self.label(), self.label()
        self.line(f"store i64 0, ptr {at}")
        self.line(f"br label %{head}")
        self.begin(head)
        k = self.emit(f"load i64, ptr {at}")
        more = self.emit(f"icmp slt i64 {k}, {count}")
        self.line(f"br i1 {more}, label %{inside}, label %{after}")
        self.begin(inside)
        body(k)
        further = self.emit(f"add i64 {k}, 1")
        self.line(f"store i64 {further}, ptr {at}")
        self.line(f"br label %{head}")
        self.begin(after)

    # --- memory ---------------------------------------------------------------------------

    def place(self, x: InRegisters, indices: Sequence[str]) -> str:
        """The address of an element, or of the first of those left.

        Where a stride is known, LLVM counts in elements: it sees then that an element is the one
        that was written a round before.
        """
        at = x.base
        for i, stride in zip(indices, x.strides, strict=False):
            if stride.isdigit():
                at = self.emit(f"getelementptr [{stride} x i8], ptr {at}, i64 {i}")
                continue
            far = self.emit(f"mul i64 {i}, {stride}")
            at = self.emit(f"getelementptr i8, ptr {at}, i64 {far}")
        return at

    def halves(self, at: str, dtype: str) -> tuple[str, str]:
        """Addresses of the parts of a complex number."""
        return at, self.emit(f"getelementptr i8, ptr {at}, i64 {alignment(dtype)}")

    def load(self, at: str, dtype: str) -> Any:
        """A number in memory."""
        if dtype in PARTS:
            return Pair(*(self.load(p, PARTS[dtype]) for p in self.halves(at, dtype)))
        found = self.emit(f"load {in_memory(dtype)}, ptr {at}, align {size(dtype)}, !tbaa !5")
        return self.emit(f"icmp ne i8 {found}, 0") if dtype == "bool" else found

    def store(self, value: Any, at: str, dtype: str) -> None:
        """Write a number to memory."""
        if dtype in PARTS:
            for part, place in zip(value, self.halves(at, dtype), strict=True):
                self.store(part, place, PARTS[dtype])
            return
        if dtype == "bool":
            value = self.emit(f"zext i1 {value} to i8")
        where = f"ptr {at}, align {size(dtype)}, !tbaa !5"
        self.line(f"store {in_memory(dtype)} {value}, {where}")

    def load_wide(self, at: str, dtype: str) -> Any:
        """Load a value from memory."""
        return self.load(at, dtype)

    def store_wide(self, value: Any, at: str, dtype: str) -> None:
        """Write what an instruction gives to memory."""
        self.store(value, at, dtype)

    def put_at(self, k: int, indices: Sequence[str], value: Any, dtype: str) -> None:
        """Write an element of a result."""
        self.store(value, self.place(self.result(k), indices), dtype)

    def allocated(self, bytes_: str, mark: int) -> str:
        """Memory that is there until the slice is done; a mark where there is none left."""
        at = self.emit(f"load i64, ptr {self.scratch()}")
        rounded = self.emit(f"add i64 {bytes_}, 15")
        rounded = self.emit(f"and i64 {rounded}, -16")
        after = self.emit(f"add i64 {at}, {rounded}")
        self.mark_if(self.emit(f"icmp ugt i64 {after}, {self.word(ARENA_END)}"), mark)
        self.line(f"store i64 {after}, ptr {self._scratch}")
        return self.emit(f"inttoptr i64 {at} to ptr")

    def scratch(self) -> str:
        """The address of the counter of used memory."""
        if not self._scratch:
            self._scratch = self.at_entry("alloca i64, align 8")
            self._entry.append(f"  store i64 {self.begins(ARENA)}, ptr {self._scratch}")
        return self._scratch

    def begins(self, index: int) -> str:
        """The initial value of a counter: memory in use, or zero rounds."""
        return self.word(index) if index == ARENA else "0"

    def element_bytes(self, dtype: str) -> int:
        """Bytes from one element of an array that is made to the next."""
        return size(dtype)

    def fresh(self, dtype: str, dims: Sequence[str], mark: int) -> InRegisters:
        """Memory for an array, its elements side by side."""
        bytes_, strides = str(self.element_bytes(dtype)), [""] * len(dims)
        for k in reversed(range(len(dims))):
            strides[k] = bytes_
            bytes_ = self.emit(f"mul i64 {dims[k]}, {bytes_}")
        return InRegisters(self.allocated(bytes_, mark), tuple(dims), tuple(strides))

    # --- instructions ---------------------------------------------------------------------

    def _block(self, block: Block) -> None:
        done = 0
        for k, x in enumerate(block.instructions):
            if k < done:
                continue
            if self._index(block.instructions[k : k + len(INDEX)]):
                done = k + len(INDEX)
                continue
            end, self._site = _ENDS.get(x.op), x.result
            if end is not None:
                end(self, x, block)
            else:
                self._operations[x.op](self, x)

    def _index(self, some: Sequence[Instruction]) -> bool:
        """Write an index, if these instructions are one: from the end, if it is below zero.

        That it is within is one comparison, and mostly so; only else it is looked at again. To add
        the length or nothing takes more, and the element waits for it.
        """
        if tuple(x.op for x in some) != INDEX:
            return False
        back, _, chosen, *_, mark = some
        i, n = back.args
        inside, again, on = (self.label() for _ in range(3))
        at, length = self.value(i), self.value(n)
        self.line(f"br label %{inside}")
        self.begin(inside)
        is_in = self.emit(f"icmp ult i64 {at}, {length}")
        self.line(f"br i1 {is_in}, label %{on}, label %{again}, !prof !11")
        self.begin(again)
        other = self.emit(f"add i64 {at}, {length}")
        is_in = self.emit(f"icmp ult i64 {other}, {length}")
        self._marks.add(mark.what)
        self.line(f"br i1 {is_in}, label %{on}, label %m{mark.what}, !prof !11")
        self.begin(on)
        self.set(chosen, self.emit(f"phi i64 [{at}, %{inside}], [{other}, %{again}]"))
        return True

    def slot(self, x: Slot) -> Any:
        """The stack address of a slot; several for an array."""
        found = self._slots.get(x)
        if found is None:
            kind = x.type
            if isinstance(kind, Array):
                base = self.at_entry("alloca ptr, align 8")
                words = [self.at_entry("alloca i64, align 8") for _ in range(2 * kind.ndim)]
                found = base, words
            elif kind in PARTS:
                found = Pair(*(self.at_entry(f"alloca {machine(PARTS[kind])}") for _ in range(2)))
            else:
                llvm = "ptr" if kind == "list" else machine(kind)
                found = self.at_entry(f"alloca {llvm}")
            self._slots[x] = found
        return found

    def load_slot(self, x: Slot) -> Any:
        """The value in a slot."""
        at = self.slot(x)
        if isinstance(x.type, Array):
            n = x.type.ndim
            base = self.emit(f"load ptr, ptr {at[0]}")
            read = at[1][:-1] if x in self.near else at[1]
            words = [self.emit(f"load i64, ptr {w}") for w in read]
            if x in self.near:
                words.append(str(self.element_bytes(x.type.dtype)))
            return InRegisters(base, tuple(words[:n]), tuple(words[n:]))
        if x.type in PARTS:
            return Pair(*(self.emit(f"load {machine(PARTS[x.type])}, ptr {p}") for p in at))
        return self.emit(f"load {'ptr' if x.type == 'list' else machine(x.type)}, ptr {at}")

    def store_slot(self, x: Slot, value: Value) -> None:
        """Leave a value in a slot."""
        at = self.slot(x)
        if isinstance(x.type, Array):
            array = self.array(value)
            self.line(f"store ptr {array.base}, ptr {at[0]}")
            for word, place in zip((*array.dims, *array.strides), at[1], strict=True):
                self.line(f"store i64 {word}, ptr {place}")
        elif x.type in PARTS:
            for part, place in zip(self.value(value), at, strict=True):
                self.line(f"store {machine(PARTS[x.type])} {part}, ptr {place}")
        elif x.type == "list":
            assert isinstance(value, Register)
            self.line(f"store ptr {self._values[value]}, ptr {at}")
        else:
            self.line(f"store {self.typed(value)}, ptr {at}")

    def input(self, k: int, kind: Type) -> Any:
        """A slice; of a number itself."""
        if not isinstance(kind, Array):
            return self.load(f"%in{k}", kind)
        return self._given(f"%in{k}", self.frame.inputs[k], kind.dtype)

    def constant(self, k: int) -> InRegisters:
        """An array of the user's."""
        base, _ = self.frame.constants[k]
        x = self.made.constants[k]
        return InRegisters(self.pointer(base), *(tuple(map(str, y)) for y in (x.shape, x.strides)))

    def result(self, k: int) -> InRegisters:
        """The memory of a result."""
        return self._given(f"%out{k}", self.frame.results[k], self.made.results[k].dtype)

    def _given(self, base: str, words: tuple[list[int], list[int]], dtype: str) -> InRegisters:
        """An array whose lengths and strides the frame has."""
        dims, strides = (list(map(self.word, x)) for x in words)
        if self._side_by_side and strides:
            strides[-1] = str(size(dtype))
        return InRegisters(base, tuple(dims), tuple(strides))

    def back(self, block: Block, target: int) -> str:
        """The label of a jump's target, with loop metadata for a backward jump."""
        return f"%b{target}"

    def set(self, x: Instruction, value: Any) -> None:
        """Give an instruction's register its value."""
        assert x.result is not None
        self._values[x.result] = value


def _branch(w: FunctionWriter, x: Instruction, block: Block) -> None:
    yes, no = block.targets
    w.line(f"br {w.typed(x.args[0])}, label %b{yes}, label %b{no}")


def _leave(w: FunctionWriter, x: Instruction, block: Block) -> None:
    w._marks.add(x.what)
    w.line(f"br label %m{x.what}")


_ENDS: dict[str, Callable[[FunctionWriter, Instruction, Block], None]] = {
    "jump": lambda w, x, block: w.line(f"br label {w.back(block, block.targets[0])}"),
    "branch": _branch,
    "return": lambda w, x, block: w.returned(x),
    "leave": _leave,
}


def _odd(w: FunctionWriter, value: str) -> str:
    """A double as a float that a half is rounded to as if it were of the double.

    It is cut, and its last bit says whether something was cut off: so it is no middle between two
    halves unless the double is.
    """
    double, word = w.kind("float64"), w.kind("int64")
    single, short = w.kind("float32"), w.kind("int32")
    near = w.other_float(value, "float64", "float32")
    back = w.other_float(near, "float32", "float64")
    size_ = []
    for x in (value, back):
        bits = w.emit(f"bitcast {double} {x} to {word}")
        size_.append(w.emit(f"and {word} {bits}, {w.integers((1 << 63) - 1, 'int64')}"))
    away = w.emit(f"icmp ugt {word} {size_[1]}, {size_[0]}")
    unlike = w.emit(f"icmp ne {word} {size_[1]}, {size_[0]}")
    bits = w.emit(f"bitcast {single} {near} to {short}")
    less = w.emit(f"zext {w.kind('bool')} {away} to {short}")
    bits = w.emit(f"sub {short} {bits}, {less}")
    one = w.emit(f"zext {w.kind('bool')} {unlike} to {short}")
    return w.emit(f"bitcast {short} {w.emit(f'or {short} {bits}, {one}')} to {single}")

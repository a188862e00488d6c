"""A typed function for several slices side by side, one in each lane of the vector registers.

What differs between the slices is a vector, what they share a number. Where they part, blocks run
for some of them, which a mask says: what the others have stays as it was. A slice that the function
would mark, and all of a group in which the processor has noted something, are done again, one by
one: these lanes are the result.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ....errors import UnsupportedError
from ....ir.typed import Array, Instruction, Literal, Register, Slot, TypedFunction, strides
from ....ir.typed.divergence import Divergence, Loop
from ....ir.typed.function import PARTS, Type, Value
from . import lists
from .forms import InRegisters, Pair, alignment, in_memory, literal, machine, size, suffix
from .function import FunctionWriter
from .notes import Notes
from .operations import ON_NUMBERS, OPERATIONS

_ALONE = frozenset("length,row,view,new,new axis,reshape,expected,constant,round".split(","))
"""Instructions on values that all slices share, in any context."""
_HEAVY = frozenset(
    "element,set element,new,round,call,ufunc,div,rem,sqrt,put,put array,fill".split(",")
)
"""Instructions before which it is tested whether any lane is active."""
_WIDE = frozenset("put,put array,set element,fill,copy,map,as type".split(","))
"""Instructions that write varying values."""
_SHORT = 16
"""The number of other instructions up to which no such test is made."""


class LanesWriter(FunctionWriter):
    """Writes one typed function for as many slices as there are lanes.

    Parameters
    ----------
    made : TypedFunction
        The function.
    notes : Notes
        What writes how the processor's are read.
    operations : mapping
        What writes instructions on values that differ.
    lanes : int
        How many.
    warns : bool
        Whether what the processor notes counts.
    near_libm : bool
        As of `FunctionWriter`.
    in_rows : bool
        Whether numbers follow each other, those of slices and of results.
    in_bits : bool
        Whether masks are held as bits between blocks: the CPU has registers for them. Else words.

    Raises
    ------
    UnsupportedError
        If slices cannot go side by side through it; with the reason.
    """

    within = ""  # a lane that waits may hold anything

    def __init__(
        self,
        made: TypedFunction,
        notes: Notes,
        operations: Mapping[str, Callable[..., None]],
        lanes: int,
        warns: bool,
        near_libm: bool = False,
        in_rows: bool = False,
        in_bits: bool = False,
    ) -> None:
        super().__init__(made, notes, OPERATIONS, warns, near_libm)
        self.held = f"<{lanes} x i{1 if in_bits else 64}>"
        self.in_rows = in_rows
        self.lanes, self.warns, self._wide = lanes, warns, operations
        self.near = strides.side_by_side(made, True, constants=False)  # which slices share
        if made.writes:
            raise UnsupportedError("it writes to its slices")
        for kind in made.inputs:
            if isinstance(kind, Array) and kind.ndim != 1:
                raise UnsupportedError(f"slices of {kind.ndim} axes")
        self.ways = Divergence(made)
        self.shared = self.ways.shared_arrays
        self.cell = 8 * lanes
        self.differs: set[Register] = set()
        self.part: str | None = None
        self.on_vectors = False
        self._masks: dict[int, str] = {}
        self._left = self._vector_slot("bool")
        self._groups = self.ways.groups()
        self._group_of = {k: g for g, group in enumerate(self._groups) for k in group}

    def text(self) -> str:
        """The function: its result has a bit for each lane whose slice is to be done again."""
        made, ways = self.made, self.ways
        given = ["ptr %frame", "ptr %also", *(f"ptr %in{k}" for k in range(len(made.inputs)))]
        given += [f"ptr %out{k}" for k in range(len(made.results))]
        for k in range(len(ways.blocks)):
            if k not in ways.parts:
                self._lines.append(f"b{k}:")
                self._block_of(k)
        for g, group in enumerate(self._groups):
            self._lines.append(f"r{g}:")
            self._items(ways.order(group))
            self._after(group)
        self._lines.append("done:")
        bits = self.emit(f"bitcast {self.bools} {self._gone()} to i{self.lanes}")
        whole = self.emit(f"zext i{self.lanes} {bits} to i64") if self.lanes < 64 else bits
        self.line(f"ret i64 {whole}")
        head = f"define internal i64 @lanes({', '.join(given)}) noinline nounwind #0 {{"
        if 0 in ways.parts:
            raise UnsupportedError("its first block is part of a loop")
        begin = ["entry:", *self._entry, "  br label %b0"]
        return "\n".join([head, *begin, *self._lines, "giveup:", "  ret i64 -1", "}"])

    # --- vectors ----------------------------------------------------------------------------

    def wide_type(self, dtype: str) -> str:
        return f"<{self.lanes} x {machine(dtype)}>"

    @property
    def bools(self) -> str:
        return f"<{self.lanes} x i1>"

    @property
    def words(self) -> str:
        return f"<{self.lanes} x i64>"

    def all_lanes(self, kind: str, value: str) -> str:
        return f"<{', '.join([f'{kind} {value}'] * self.lanes)}>"

    def spread(self, kind: str, value: str) -> str:
        """Broadcast one number to all lanes."""
        vector = f"<{self.lanes} x {kind}>"
        one = self.emit(f"insertelement {vector} poison, {kind} {value}, i64 0")
        zeros = self.all_lanes("i32", "0")
        return self.emit(
            f"shufflevector {vector} {one}, {vector} poison, <{self.lanes} x i32> {zeros}"
        )

    def wide(self, x: Value) -> Any:
        """A value of each lane."""
        if x.type in PARTS and x not in self.differs:
            kind = machine(PARTS[x.type])
            how = self.all_lanes if isinstance(x, Literal) else self.spread
            return Pair(*(how(kind, p) for p in self.value(x)))
        if x in self.differs:
            return self.value(x)
        kind = machine(str(x.type))
        if isinstance(x, Literal):
            return self.all_lanes(kind, literal(x.value, x.type))
        return self.spread(kind, self.value(x))

    @contextlib.contextmanager
    def vectors(self) -> Iterator[None]:
        """Write operations on vectors meanwhile."""
        before, self.on_vectors = self.on_vectors, True
        try:
            yield
        finally:
            self.on_vectors = before

    def kind(self, dtype: str) -> str:
        """LLVM's type of what instructions on numbers are written for."""
        return self.wide_type(dtype) if self.on_vectors else super().kind(dtype)

    def operand(self, x: Value, instead: float | None = None, always: bool = False) -> Any:
        """The value of an operand; `instead`: in inactive lanes.

        What is done there must not be noted, nor end the process. `always`: also where only lanes
        are missing that are done again.
        """
        if not self.on_vectors:
            return super().operand(x)
        if instead is None or (self.part is None and not always):
            return self.wide(x)
        if isinstance(x, Literal) and np.dtype(x.type).kind in "iu" and x.value not in (0, -1):
            return self.wide(x)  # a division by it is harmless, and quick as it is known
        kind = machine(str(x.type))
        return self.chosen(kind, self.wide(x), self.all_lanes(kind, literal(instead, str(x.type))))

    def integers(self, value: int, dtype: str) -> str:
        """An integer, as an operand of what is written."""
        if not self.on_vectors:
            return super().integers(value, dtype)
        return self.all_lanes(machine(dtype), literal(value, dtype))

    def condition(self, x: Value) -> str:
        """A truth value that chooses: one for all lanes, where they share it."""
        return self.typed(x) if x in self.differs else f"i1 {self.value(x)}"

    def _vector_slot(self, dtype: str) -> str:
        kind = self.held if dtype == "bool" else f"<{self.lanes} x {machine(dtype)}>"
        at = self.at_entry(f"alloca {kind}, align 64")
        self._entry.append(f"  store {kind} zeroinitializer, ptr {at}, align 64")
        return at

    def slot(self, x: Slot) -> Any:
        """The stack address of a slot."""
        if x not in self.ways.varying:
            return super().slot(x)
        found = self._slots.get(x)
        if found is None:
            parts = [PARTS[str(x.type)]] * 2 if x.type in PARTS else [str(x.type)]
            places = [self._vector_slot(p) for p in parts]
            found = self._slots[x] = Pair(*places) if x.type in PARTS else places[0]
        return found

    # --- masks ------------------------------------------------------------------------------

    def load_mask(self, at: str) -> str:
        found = self.emit(f"load {self.held}, ptr {at}, align 64")
        if self.held == self.bools:
            return found
        return self.emit(f"icmp slt {self.words} {found}, zeroinitializer")

    def as_held(self, mask: str) -> str:
        """A mask as it is held."""
        if self.held == self.bools:
            return mask
        return self.emit(f"sext {self.bools} {mask} to {self.words}")

    def _store_mask(self, mask: str, at: str) -> None:
        self.line(f"store {self.held} {self.as_held(mask)}, ptr {at}, align 64")

    def _gone(self) -> str:
        """The lanes whose slices are to be done again."""
        return self.load_mask(self._left)

    def mask(self) -> str:
        """The lanes that are here."""
        if self.part is not None:
            return self.part
        return self.turned(self._gone())

    def both(self, mask: str, condition: str) -> str:
        """Lanes of a mask for which a condition holds; of the others it may be anything."""
        none = self.all_lanes("i1", "false")
        return self.emit(
            f"select {self.bools} {mask}, {self.bools} {condition}, {self.bools} {none}"
        )

    def turned(self, mask: str) -> str:
        return self.emit(f"xor {self.bools} {mask}, {self.all_lanes('i1', 'true')}")

    def any(self, mask: str) -> str:
        """Whether any lane is in a mask."""
        bits = self.emit(f"bitcast {self.bools} {mask} to i{self.lanes}")
        return self.emit(f"icmp ne i{self.lanes} {bits}, 0")

    def _mask_slot(self, k: int) -> str:
        found = self._masks.get(k)
        if found is None:
            found = self._masks[k] = self._vector_slot("bool")
        return found

    def _send(self, k: int, mask: str) -> None:
        """Lanes go on at a block, once all have come that come there."""
        if k in self.ways.parts:
            at = self._mask_slot(k)
            old = self.emit(f"load {self.held}, ptr {at}, align 64")
            both = self.emit(f"or {self.held} {old}, {self.as_held(mask)}")
            self.line(f"store {self.held} {both}, ptr {at}, align 64")

    def chosen(self, kind: str, new: str, old: str) -> str:
        """Select new values in active lanes, old ones in others."""
        vector = f"<{self.lanes} x {kind}>"
        return self.emit(f"select {self.bools} {self.mask()}, {vector} {new}, {vector} {old}")

    def mark_if(self, condition: str, mark: int, also: str = "") -> None:
        """Leave the whole group where a condition holds that all share."""
        if also:
            condition = self.emit(f"and i1 {condition}, {also}")
        on = self.label()
        self.line(f"br i1 {condition}, label %giveup, label %{on}, !prof !0")
        self.begin(on)

    def leave(self, condition: str) -> None:
        """Leave the slices for which a condition holds; where none is left nothing waits for it."""
        mask = self.mask()
        gone = self.both(mask, condition)
        here, some, on = (self.label() for _ in range(3))
        self.line(f"br label %{here}")
        self.begin(here)
        self.line(f"br i1 {self.any(gone)}, label %{some}, label %{on}, !prof !0")
        self.begin(some)
        everyone = self.emit(f"or {self.bools} {self._gone()}, {gone}")
        self._store_mask(everyone, self._left)
        left = self.both(self.turned(gone), mask)
        self.line(f"br label %{on}")
        self.begin(on)
        if self.part is not None:
            self.part = self.emit(f"phi {self.bools} [{mask}, %{here}], [{left}, %{some}]")

    # --- blocks -----------------------------------------------------------------------------

    def _block_of(self, k: int) -> None:
        """A block that all slices are in, or that some are in; and where they go on."""
        self.differs = self.ways.values(k)
        *inside, last = self.ways.blocks[k].instructions
        for x in inside:
            self._instruction(x)
        targets = self.ways.blocks[k].targets
        if self.part is None:
            self._ends_together(last, targets)
            return
        if last.op == "jump":
            self._send(targets[0], self.part)
        elif last.op == "branch":
            self._parted(last.args[0], targets)
        elif last.op == "leave":
            self.leave(self.all_lanes("i1", "true"))

    def _parted(self, asked: Value, targets: tuple[int, ...]) -> None:
        """Split lanes over two targets."""
        mask, condition = self.mask(), self.wide(asked)
        self._send(targets[0], self.both(mask, condition))
        self._send(targets[1], self.both(mask, self.turned(condition)))

    def _ends_together(self, last: Instruction, targets: tuple[int, ...]) -> None:
        if last.op == "return":
            self.line("br label %done")
        elif last.op == "leave":
            self.line("br label %giveup")
        elif last.op == "jump":
            self._go(targets[0])
        elif last.args[0] in self.differs:
            self._parted(last.args[0], targets)
            (g,) = {self._group_of[t] for t in targets if t in self._group_of}
            self.line(f"br label %r{g}")
        else:
            labels = [self.label() for _ in targets]
            places = ", ".join(f"label %{x}" for x in labels)
            self.line(f"br i1 {self.value(last.args[0])}, {places}")
            for label, t in zip(labels, targets, strict=True):
                self.begin(label)
                self._go(t)

    def _go(self, k: int) -> None:
        if k not in self.ways.parts:
            self.line(f"br label %b{k}")
            return
        self._send(k, self.mask())
        self.line(f"br label %r{self._group_of[k]}")

    def _items(self, items: Sequence[int | Loop]) -> None:
        for x in items:
            if isinstance(x, Loop):
                head, body, after = self.label(), self.label(), self.label()
                self.line(f"br label %{head}")
                self.begin(head)
                here = self.load_mask(self._mask_slot(x.header))
                self.line(f"br i1 {self.any(here)}, label %{body}, label %{after}")
                self.begin(body)
                if x.items[0] != x.header:
                    raise UnsupportedError("a loop whose first block comes later")
                self._part(x.header)
                self._items(x.items[1:])
                self.line(f"br label %{head}")
                self.begin(after)
            elif self._looks_first(x):
                some, after = self.label(), self.label()
                here = self.load_mask(self._mask_slot(x))
                self.line(f"br i1 {self.any(here)}, label %{some}, label %{after}")
                self.begin(some)
                self._part(x)
                self.line(f"br label %{after}")
                self.begin(after)
            else:
                self._part(x)

    def _part(self, k: int) -> None:
        at = self._mask_slot(k)
        self.part = self.load_mask(at)
        self.line(f"store {self.held} zeroinitializer, ptr {at}, align 64")
        self._block_of(k)
        self.part = None

    def _looks_first(self, k: int) -> bool:
        ways = self.ways
        differs, code = ways.values(k), ways.blocks[k].instructions
        return len(code) > _SHORT or any(
            x.op in _HEAVY
            or (x.op == "mark" and x.args[0] not in differs)
            or (x.op == "store" and x.what not in ways.varying)  # which those elsewhere may read
            for x in code
        )

    def _after(self, group: list[int]) -> None:
        """Join lanes after a group of blocks."""
        ways = self.ways
        ends = {t for k in group for t in ways.blocks[k].targets if t not in ways.parts}
        # some may have gone there at once, and all others have left
        for targets in ways.partings():
            if not set(group).isdisjoint(targets):
                ends |= set(targets) - ways.parts
        if len(ends) > 1:
            raise UnsupportedError("slices that part meet at several places")
        self.line(f"br label %b{ends.pop()}" if ends else "br label %done")

    # --- instructions -----------------------------------------------------------------------

    def _instruction(self, x: Instruction) -> None:
        writes = self._wide.get(x.op)
        is_known = writes is not None or x.op in ON_NUMBERS
        if x.op in lists.OPERATIONS and "list" in [y.type for y in (x.result, *x.args[1:]) if y]:
            if x.op not in ("new list", "repeat", "copy list"):
                raise UnsupportedError(f"lists of lists, line {x.line}")
        if is_known and self._is_wide(x):
            with self.vectors():
                (writes or ON_NUMBERS[x.op])(self, x)
        elif is_known or x.op in _ALONE:
            if any(a in self.differs for a in x.args):
                raise UnsupportedError(f"{x.op} of what differs between slices")
            OPERATIONS[x.op](self, x)
        else:
            raise UnsupportedError(f"{x.op}, line {x.line}")

    def _is_wide(self, x: Instruction) -> bool:
        """Whether an instruction is one of vectors."""
        if x.op in _WIDE or x.op in lists.OPERATIONS:
            return True
        if x.op in ("load", "store"):
            return x.what in self.ways.varying
        if x.op == "row":
            return x.result in self.ways.gathered
        if x.result is not None:
            return x.result in self.differs
        return any(a in self.differs for a in x.args)

    def input(self, k: int, kind: Type) -> Any:
        """Slices, each element of one beside that of the others."""
        assert isinstance(kind, Array)
        dims, _ = self.frame.inputs[k]
        return InRegisters(f"%in{k}", (self.word(dims[0]),), (str(self.element_bytes(kind.dtype)),))

    def element_bytes(self, dtype: str) -> int:
        """Bytes from one element of an array to the next: the lanes' elements lie between."""
        return self.lanes * size(dtype)

    def load_wide(self, at: str, dtype: str) -> Any:
        """A number of each lane in memory."""
        if dtype in PARTS:  # one after the other, each with both parts
            kind = f"<{2 * self.lanes} x {machine(PARTS[dtype])}>"
            both = self.emit(f"load {kind}, ptr {at}, align {alignment(dtype)}")
            order = [", ".join(f"i32 {2 * k + p}" for k in range(self.lanes)) for p in range(2)]
            mask = f"<{self.lanes} x i32>"
            given = f"{kind} {both}, {kind} poison"
            return Pair(*(self.emit(f"shufflevector {given}, {mask} <{o}>") for o in order))
        kind = f"<{self.lanes} x {in_memory(dtype)}>"
        found = self.emit(f"load {kind}, ptr {at}, align {size(dtype)}")
        return self.emit(f"icmp ne {kind} {found}, zeroinitializer") if dtype == "bool" else found

    def store_wide(self, value: Any, at: str, dtype: str) -> None:
        """Write a number of each lane that is here to memory."""
        if dtype in PARTS:
            self._store_pairs(value, at, dtype)
            return
        kind = f"<{self.lanes} x {in_memory(dtype)}>"
        if dtype == "bool":
            value = self.emit(f"zext {self.bools} {value} to {kind}")
        if self.part is not None:
            old = self.emit(f"load {kind}, ptr {at}, align {size(dtype)}")
            value = self.chosen(in_memory(dtype), value, old)
        self.line(f"store {kind} {value}, ptr {at}, align {size(dtype)}")

    def row_at(self, base: str, index: str, count: int) -> tuple[str, ...]:
        """Floats of a table for each lane: each row read as one, and turned in registers."""
        row, found = f"<{count} x double>", []
        for k in range(self.lanes):
            own = self.emit(f"extractelement {self.words} {index}, i64 {k}")
            at = self.emit(f"getelementptr [{count} x double], ptr {base}, i64 {own}")
            how = f"align {8 * count}, !invariant.load !1"
            found.append(self.emit(f"load {row}, ptr {at}, {how}"))
        width = count
        while len(found) > 1:
            order = ", ".join(f"i32 {k}" for k in range(2 * width))
            found = [
                self.emit(
                    f"shufflevector <{width} x double> {a}, <{width} x double> {b}, "
                    f"<{2 * width} x i32> <{order}>"
                )
                for a, b in zip(found[::2], found[1::2], strict=True)
            ]
            width *= 2
        kind = f"<{width} x double>"
        return tuple(
            self.emit(
                f"shufflevector {kind} {found[0]}, {kind} poison, <{self.lanes} x i32> "
                f"<{', '.join(f'i32 {count * k + j}' for k in range(self.lanes))}>"
            )
            for j in range(count)
        )

    def _store_pairs(self, value: Any, at: str, dtype: str) -> None:
        kind = machine(PARTS[dtype])
        if self.part is not None:
            old = self.load_wide(at, dtype)
            value = [self.chosen(kind, *pair) for pair in zip(value, old, strict=True)]
        given = ", ".join(f"<{self.lanes} x {kind}> {p}" for p in value)
        order = ", ".join(f"i32 {k + p * self.lanes}" for k in range(self.lanes) for p in range(2))
        both = self.emit(f"shufflevector {given}, <{2 * self.lanes} x i32> <{order}>")
        where = f"ptr {at}, align {alignment(dtype)}"
        self.line(f"store <{2 * self.lanes} x {kind}> {both}, {where}")

    def _halves(self, places: str, dtype: str) -> tuple[str, str]:
        """Addresses of the parts of complex numbers."""
        kind = f"<{self.lanes} x ptr>"
        return places, self.emit(f"getelementptr i8, {kind} {places}, i64 {alignment(dtype)}")

    def places(self, x: InRegisters, indices: Sequence[Value], own: bool, dtype: str) -> str:
        """The addresses of elements, each lane's own."""
        far = self.all_lanes("i64", "0")
        for i, stride in zip(indices, x.strides, strict=True):
            one = self.emit(f"mul {self.words} {self.wide(i)}, {self.spread('i64', stride)}")
            far = self.emit(f"add {self.words} {far}, {one}")
        if own:
            lanes = ", ".join(f"i64 {k * size(dtype)}" for k in range(self.lanes))
            far = self.emit(f"add {self.words} {far}, <{lanes}>")
        return self.emit(f"getelementptr i8, ptr {x.base}, {self.words} {far}")

    def gather(self, places: str, dtype: str) -> Any:
        """Numbers at addresses of the lanes that are here."""
        if dtype in PARTS:
            return Pair(*(self.gather(p, PARTS[dtype]) for p in self._halves(places, dtype)))
        kind = f"<{self.lanes} x {in_memory(dtype)}>"
        full = f"llvm.masked.gather.{suffix(kind)}.v{self.lanes}p0"
        self.declared[full] = (
            f"declare {kind} @{full}(<{self.lanes} x ptr>, i32, {self.bools}, {kind})"
        )
        found = self.emit(
            f"call {kind} @{full}(<{self.lanes} x ptr> {places}, i32 {size(dtype)}, "
            f"{self.bools} {self.mask()}, {kind} zeroinitializer)"
        )
        return self.emit(f"icmp ne {kind} {found}, zeroinitializer") if dtype == "bool" else found

    def scatter(self, value: Any, places: str, dtype: str) -> None:
        """Write numbers of the lanes that are here."""
        if dtype in PARTS:
            for part, at in zip(value, self._halves(places, dtype), strict=True):
                self.scatter(part, at, PARTS[dtype])
            return
        kind = f"<{self.lanes} x {in_memory(dtype)}>"
        if dtype == "bool":
            value = self.emit(f"zext {self.bools} {value} to {kind}")
        full = f"llvm.masked.scatter.{suffix(kind)}.v{self.lanes}p0"
        self.declared[full] = (
            f"declare void @{full}({kind}, <{self.lanes} x ptr>, i32, {self.bools})"
        )
        self.line(
            f"call void @{full}({kind} {value}, <{self.lanes} x ptr> {places}, "
            f"i32 {size(dtype)}, {self.bools} {self.mask()})"
        )

    def put_at(self, k: int, indices: Sequence[str], value: Any, dtype: str) -> None:
        """Write an element of the results."""
        far = "0"
        for i, stride in zip(indices, self.result(k).strides, strict=True):
            one = self.emit(f"mul i64 {i}, {stride}")
            far = self.emit(f"add i64 {far}, {one}")
        spread = self.spread("i64", far)
        begin = self.outs(k)
        at = self.emit(f"getelementptr i8, <{self.lanes} x ptr> {begin}, {self.words} {spread}")
        self.scatter(value, at, dtype)

    def outs(self, k: int) -> str:
        """Addresses of the slices' results."""
        words = self.emit(f"load {self.words}, ptr %out{k}, align 8")
        return self.emit(f"inttoptr {self.words} {words} to <{self.lanes} x ptr>")

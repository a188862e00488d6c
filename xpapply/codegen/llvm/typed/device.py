"""A typed function as a kernel for NVIDIA's GPUs: one thread takes one slice."""

from __future__ import annotations

import itertools
import math
import operator
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ....ir.typed import Array, Block, Instruction, Literal, Register, TypedFunction
from ....ir.typed.ending import inside
from ....ir.typed.function import (
    COUNTED,
    COUNTED_OF_OURS,
    KEPT,
    PARTS,
    WARNED,
    Value,
    is_rounded,
)
from ....ir.typed.lifetimes import MADE, reused
from ....ir.typed.margins import is_other
from ..target import Target
from . import device_arrays, lists
from .device_arrays import Formula
from .forms import ARENA, ARENA_END, InRegisters, literal, machine, size
from .function import FunctionWriter
from .notes import Notes
from .operations import ON_NUMBERS, OPERATIONS, WARNS
from .whole_arrays import over

NAME = "typed"
ROUNDS = 1 << 22
"""Rounds of loops that a thread may take: a launch cannot be interrupted."""
UNROLLED = {COUNTED: 16, COUNTED_OF_OURS: 32}
"""Numbers of a slice up to which the rounds of such loops are written one after the other."""
MOST_UNROLLED = 2000
"""Rounds that loops within loops have together, up to which the outer ones are written so too."""
LOOPS = 100
"""The first number of what is said of loops."""
_NOTES = Notes(Target("", "", "", "", 0, True, 0))  # unused here

_ON_SLICES = (
    "mark,catch,errors,round,differs,input,constant,load,store,length,stride,element,row,view,run,"
    "set element,new,fill,copy,expected,put,put array,jump,branch,return,leave,new axis,reshape,"
    "transpose,diagonal,given"
).split(",")
_WITH_UFUNCS = {
    "map": device_arrays.is_written, "ufunc": device_arrays.is_written,
    "reduce": device_arrays.is_reduced,
}  # fmt: skip
"""Operations written for some ufuncs only, with the test."""
KNOWN = frozenset((*ON_NUMBERS, *_ON_SLICES, *lists.OPERATIONS, "as type", "dot", "errors")) - {
    *("complex", "real", "imag")
}
"""The instructions that are written for a device, beside those."""


_ODD = ("float16", *PARTS)
"""Types of numbers that are not written for a device."""


_OF_C = frozenset(
    "exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan atan2 sinh cosh tanh asinh "
    "acosh atanh cbrt erf erfc pow powf".split()
)
"""Functions of the C library that CUDA has by the same names, with other last bits."""


def is_known(external: Sequence[str]) -> bool:
    """Whether a device has a function of a library."""
    return external[0] == "cupy" or (
        external[0] == "libm" and (external[1] in _OF_C or not is_rounded(external))
    )


def rounds(made: TypedFunction) -> bool:
    """Whether a device and the host differ in the last bits of some function."""
    return any(is_other(made, x) for x in made.instructions)


def why_not(made: TypedFunction) -> str | None:
    """Why a typed function is not written for a device; None: it is."""
    bodies = made, *made.functions
    for block in (b for body in bodies for b in body.blocks):
        for x in block.instructions:
            if x.op == "call" and is_known(made.externals[x.what]):
                continue
            if x.op == "errors" and "under" in x.what[1]:
                return f"it asks for underflows, which a GPU does not note (line {x.line})"
            if x.op in _WITH_UFUNCS and made.fetches:  # CuPy's are written otherwise
                of = made.externals[x.what[0] if x.op == "map" else x.what]
                if not _WITH_UFUNCS[x.op](of):
                    name = of[1].removeprefix("scipy.special.")
                    how = f"{name} of numbers of {' and '.join(dict.fromkeys(of[2:]))}"
                    return f"{how}, which is not compiled for a GPU (line {x.line})"
                continue
            if x.op not in KNOWN:
                why = f"it needs {x.op!r}"
                if x.op == "call":
                    why = f"{made.externals[x.what][1]} is a function of the host's library"
                return f"{why}, which is not compiled for a GPU (line {x.line})"
            for y in (*x.args, *(() if x.result is None else (x.result,))):
                dtype = y.type.dtype if isinstance(y.type, Array) else y.type
                if dtype in _ODD:
                    return f"numbers of {dtype}, which are not compiled for a GPU (line {x.line})"
    if made.texts:
        return "it gives texts, which is not compiled for a GPU"
    return None


def elements_read(made: TypedFunction) -> float:
    """How many elements of slices a function reads; infinity: perhaps all.

    It reads few where it names their places: the others need not come from the device's memory.
    """
    found = set()
    for x in made.instructions:
        places = [a.value for a in x.args[1:] if isinstance(a, Literal)]
        if x.op == "element" and len(places) == len(x.args) - 1:
            found.add(tuple(places))
        elif x.op not in _KEPT and any(isinstance(a.type, Array) for a in x.args):
            return math.inf
    return len(found)


_KEPT = frozenset("store length stride".split())
"""Instructions that read no elements of arrays."""


class DeviceWriter(FunctionWriter):
    """A writer for a device, whose processor has no floating-point flags.

    Parameters
    ----------
    made : TypedFunction
        The function.
    known : mapping
        Numbers of the frame that are the same for all calls, by their places: loops over them
        are unrolled, and elements are loaded together.
    memory : int
        Bytes of a thread for arrays that the function makes.
    """

    def __init__(self, made: TypedFunction, known: Mapping[int, int], memory: int) -> None:
        super().__init__(made, _NOTES, _OPERATIONS)
        self._known, self._memory = known, memory
        self._arena = self._used = ""
        self.loops = set[int]()
        self.reused = reused(made)
        self._site: Register | None = None
        self._uses: dict[Value, int] = {}
        self._formulas: list[Register] = []
        self._odd = self.at_entry("alloca i1, align 1") if made.fetches else ""
        if made.fetches:
            self._entry.append(f"  store i1 false, ptr {self._odd}")
        self._static = 0
        self._longest = max((known.get(k, 0) for k in self.frame.lengths), default=0)
        are_known = all(k in known for k in self.frame.lengths)
        self._unrolled = {x for x, n in UNROLLED.items() if are_known and self._longest <= n}
        self._heights: dict[int, int] = {}
        # what runs others is so long that ptxas takes seconds for rounds one after the other; all
        # else is left to LLVM: fits within bounds take a third so, or four times as long
        self.unrolls = not made.functions
        self.counts_down = self.unrolls and bool(self._unrolled)
        self._first_loop = LOOPS
        self.most_rounds = ROUNDS

    def text(self) -> str:
        """The function: it gives 0, or the number of a mark."""
        found = super().text()
        rest = found.partition("{")[2]
        given = ["ptr %differs"]
        given += [f"i64 %w{k}" for k in range(self.frame.count) if k not in self._known]
        given += [f"ptr %in{k}" for k in range(len(self.made.inputs))]
        given += [f"ptr noalias %out{k}" for k in range(len(self.made.results))]
        return f"define internal i32 @slice({', '.join(given)}) alwaysinline nounwind #0 {{{rest}"

    def begins(self, index: int) -> str:
        """The initial value of a counter: memory in use, or rounds, which may be those left."""
        left = index != ARENA and self.counts_down
        return str(ROUNDS + 1) if left else super().begins(index)

    def back(self, block: Block, target: int) -> str:
        """Loops over few elements are written one round after the other, or none is."""
        head, found = self.made.blocks[target], super().back(block, target)
        if head is block:
            return found
        if self.unrolls and not (
            head.instructions[-1].what in self._unrolled
            and self._longest ** self._height(target) <= MOST_UNROLLED
        ):
            return found
        number = self._first_loop + target
        self.loops.add(number)
        return f"{found}, !llvm.loop !{number}"

    def _height(self, head: int) -> int:
        """How deep the user's counted loops are that a loop has, itself among them."""
        found = self._heights.get(head)
        if found is None:
            self._heights[head] = 1  # where loops share blocks
            blocks = inside(self.made, head) or ()
            heads = [k for k in blocks if self.made.blocks[k].instructions[-1].what == COUNTED]
            found = 1 + max((self._height(k) for k in heads if k != head), default=0)
            self._heights[head] = found
        return found

    def word(self, index: int) -> str:
        """A number of the frame."""
        assert index not in (ARENA, ARENA_END)
        return str(self._known.get(index, f"%w{index}"))

    def constant(self, k: int) -> InRegisters:
        """An array of the user's; one of NumPy's lies side by side where it was copied to."""
        found = super().constant(k)
        if not self.made.fetches:
            return found
        x = self.made.constants[k]
        apart = itertools.accumulate((x.itemsize, *x.shape[:0:-1]), operator.mul)
        return found._replace(strides=tuple(map(str, [*apart][::-1])))

    def pointer(self, index: int) -> str:
        """An address of the frame, in the memory that all threads share."""
        found = self._frame.get(-index - 1)
        if found is None:
            shared = self.at_entry(f"inttoptr i64 {self.word(index)} to ptr addrspace(1)")
            found = self.at_entry(f"addrspacecast ptr addrspace(1) {shared} to ptr")
            self._frame[-index - 1] = found
        return found

    def allocated(self, bytes_: str, mark: int) -> str:
        """Memory for an array: where that is known beforehand, it may become registers."""
        if not self._arena:
            self._arena = self.at_entry(f"alloca [{self._memory} x i8], align 16")
            self._used = self.at_entry("alloca i64, align 8")
            self._entry.append(f"  store i64 0, ptr {self._used}")
        used = self.emit(f"load i64, ptr {self._used}")
        rounded = self.emit(f"add i64 {bytes_}, 15")
        after = self.emit(f"add i64 {used}, {self.emit(f'and i64 {rounded}, -16')}")
        self.mark_if(self.emit(f"icmp ugt i64 {after}, {self._memory}"), mark)
        self.line(f"store i64 {after}, ptr {self._used}")
        return self.emit(f"getelementptr i8, ptr {self._arena}, i64 {used}")

    def fresh(self, dtype: str, dims: Sequence[str], mark: int) -> InRegisters:
        """Allocate an array: the same memory each time if the last one is dead."""
        if self._site not in self.reused:
            return super().fresh(dtype, dims, mark)
        strides, bytes_ = [""] * len(dims), str(size(dtype))
        for k in reversed(range(len(dims))):
            strides[k] = bytes_
            is_known = dims[k].isdigit() and bytes_.isdigit()
            bytes_ = (
                str(int(dims[k]) * int(bytes_))
                if is_known
                else self.emit(f"mul i64 {dims[k]}, {bytes_}")
            )
        if bytes_.isdigit() and self._static + int(bytes_) <= _STATIC:
            many = max(16, -(-int(bytes_) // 16) * 16)
            self._static += many
            base = self.at_entry(f"alloca [{many} x i8], align 16")
            return InRegisters(base, tuple(dims), tuple(strides))
        place, room = self.at_entry("alloca ptr, align 8"), self.at_entry("alloca i64, align 8")
        self._entry.append(f"  store i64 -1, ptr {room}")
        more, on = self.label(), self.label()
        held = self.emit(f"load i64, ptr {room}")
        self.line(
            f"br i1 {self.emit(f'icmp sgt i64 {bytes_}, {held}')}, label %{more}, label %{on}"
        )
        self.begin(more)
        self.line(f"store ptr {self.allocated(bytes_, mark)}, ptr {place}")
        self.line(f"store i64 {bytes_}, ptr {room}")
        self.line(f"br label %{on}")
        self.begin(on)
        return InRegisters(self.emit(f"load ptr, ptr {place}"), tuple(dims), tuple(strides))

    # --- whole arrays ---------------------------------------------------------------------

    def _block(self, block: Block) -> None:
        self._uses, self._formulas = Counter(a for x in block.instructions for a in x.args), []
        super()._block(block)

    def before(self, x: Instruction) -> None:
        """Flush formulas before an instruction that writes to what they may read."""
        self._site = x.result
        if x.op in WRITES:
            self.flush()

    def flush(self) -> None:
        """Put all formulas of a block into memory."""
        for register in self._formulas:
            self.array(register)
        self._formulas = []

    def after(self, x: Instruction) -> None:
        """Materialize a value after its instruction if several places read it."""
        if x.op in MADE and x.result is not None and self.formula(x.result) is not None:
            if self._uses[x.result] > 1:
                self.array(x.result)
            else:
                self._formulas.append(x.result)

    def formula(self, x: Value) -> Formula | None:
        """The formula of an array that is not in memory."""
        found = self._values.get(x) if isinstance(x, Register) else None
        return found if isinstance(found, Formula) else None

    def lengths(self, x: Value) -> tuple[str, ...]:
        found = self.formula(x)
        return found.dims if found else self.array(x).dims

    def strides(self, x: Value) -> tuple[str, ...]:
        found = self.formula(x)
        return ("0",) * len(found.dims) if found else self.array(x).strides

    def array(self, x: Value) -> InRegisters:
        """The memory of an array; a formula is materialized."""
        found = self.formula(x)
        if found is not None:
            assert isinstance(x, Register)
            site, self._site = self._site, x
            made = self._values[x] = self.fresh(found.dtype, found.dims, found.mark)
            self._site = site

            def body(at: list[str]) -> None:
                self.store(found.element(at), self.place(made, at), found.dtype)

            over(self, found.dims, body)
        return super().array(x)

    def noted(self, value: str, kind: str, of: Sequence[str], is_called: bool = False) -> str:
        """The result of NumPy's operation on numbers; noted if NumPy may have warned.

        It may where something is infinite of finite numbers, or NaN of numbers. Of what a function
        gives (`is_called`) one of them is enough: 0 to the power of -inf is a division by zero.
        """
        if not self._odd:
            return value
        infinite = literal(float("inf"), "float32" if kind == "float" else "float64")

        def size(x: str) -> str:
            return self.plain("fabs", kind, [x])

        odd, on = self.label(), self.label()
        is_odd = self.emit(f"fcmp ueq {kind} {size(value)}, {infinite}")
        self.line(f"br i1 {is_odd}, label %{odd}, label %{on}, !prof !0")
        self.begin(odd)
        is_nan = self.emit(f"fcmp uno {kind} {value}, {value}")
        warned = self.emit(f"load i1, ptr {self._odd}")
        none, some = "true", "false" if is_called else "true"
        for x in of:
            own = self.emit(f"fcmp ord {kind} {x}, {x}")
            finite = self.emit(f"fcmp olt {kind} {size(x)}, {infinite}")
            none = self.emit(f"and i1 {none}, {own}")
            some = self.emit(f"{'or' if is_called else 'and'} i1 {some}, {finite}")
        known = self.emit(f"select i1 {is_nan}, i1 {none}, i1 {some}")
        self.line(f"store i1 {self.emit(f'or i1 {warned}, {known}')}, ptr {self._odd}")
        self.line(f"br label %{on}")
        self.begin(on)
        return value

    def returned(self, x: Instruction) -> None:
        """End the function; the slice is left if NumPy may have warned."""
        if self._odd:
            odd = self.emit(f"load i1, ptr {self._odd}")
            self.line(f"ret i32 {self.emit(f'select i1 {odd}, i32 {WARNED}, i32 0')}")
        else:
            super().returned(x)

    def called(self, external: Sequence[str], kind: str, given: Sequence[str]) -> str:
        """Call a function of CuPy or of the C library; values include their types."""
        name, kinds = name_of(external), ", ".join(x.split()[0] for x in given)
        self.declared[name] = f"declare {kind} @{name}({kinds}) nounwind willreturn memory(none)"
        return self.emit(f"call {kind} @{name}({', '.join(given)})")

    def strict(self, name: str, kind: str, result: str, values: list[str]) -> str:
        """An operation; of NumPy's it is noted whether it may have warned."""
        if name == "fptrunc":
            return self.other_float(values[0], "float64", "float32")
        if name in ("fadd", "fsub", "fmul", "fdiv"):
            found = self.emit(f"{name} {kind} {', '.join(values)}")
        else:
            found = self.plain(name, kind, values)
        return self.noted(found, result, values)

    def other_float(self, value: str, from_: str, to: str) -> str:
        """A float in the other type of floats."""
        if to == "float32":
            found = self.emit(f"fptrunc double {value} to float")
            if self._odd:
                self.noted(self.emit(f"fpext float {found} to double"), "double", [value])
            return found
        return self.emit(f"fpext float {value} to double")

    def keep_notes(self) -> None:
        """Do nothing: there are no notes."""

    def set_errors(self, ignored: Sequence[str], marked: Sequence[str]) -> None:
        """Do nothing: there are no notes."""


def _cast(w: FunctionWriter, x: Instruction) -> None:
    """Also of small numbers, which an ordinary one takes for zero."""
    if x.what != KEPT:
        ON_NUMBERS["cast"](w, x)
        return
    value = w.value(x.args[0])
    bits = w.emit(f"bitcast float {value} to i32")
    size = w.emit(f"and i32 {bits}, {0x7FFFFFFF}")
    small = w.emit(f"icmp ult i32 {size}, {1 << 23}")
    whole = w.emit(f"uitofp i32 {size} to double")
    scaled = w.emit(f"fmul double {whole}, 0x{(1023 - 149) << 52:016X}")
    plain = w.other_float(value, "float32", "float64")
    signed = w.plain("copysign", "double", [scaled, plain])
    w.set(x, w.emit(f"select i1 {small}, double {signed}, double {plain}"))


def name_of(external: Sequence[str]) -> str:
    """The linked name of a function of CuPy or of the C library."""
    return "_".join(("xpapply", *external))


def _call(w: FunctionWriter, x: Instruction) -> None:
    assert x.result is not None
    external = w.made.externals[x.what]
    if external[1] == "pow" and x.args[1] == Literal(2.0, "float64"):
        value = w.operand(x.args[0])
        w.set(x, w.strict("fmul", "double", "double", [value, value]))
        return
    kind = machine(str(x.result.type))
    assert isinstance(w, DeviceWriter)
    value = w.called(external, kind, [*map(w.typed, x.args)])
    given = [w.value(a) for a in x.args]
    w.set(x, w.noted(value, kind, given, True) if external[1] in WARNS else value)


def _new_list(w: FunctionWriter, x: Instruction) -> None:
    """Reuse the memory of the list before, emptied, if it is dead."""
    assert isinstance(w, DeviceWriter)
    if x.result not in w.reused:
        OPERATIONS["new list"](w, x)
        return
    place = w.at_entry("alloca ptr, align 8")
    w._entry.append(f"  store ptr null, ptr {place}")
    first, on = w.label(), w.label()
    held = w.emit(f"load ptr, ptr {place}")
    w.line(f"br i1 {w.emit(f'icmp eq ptr {held}, null')}, label %{first}, label %{on}")
    w.begin(first)
    OPERATIONS["new list"](w, x)
    w.line(f"store ptr {w._values[x.result]}, ptr {place}")
    w.line(f"br label %{on}")
    w.begin(on)
    w.set(x, w.emit(f"load ptr, ptr {place}"))
    OPERATIONS["clear"](w, x._replace(args=(x.result,)))


def _differs(w: FunctionWriter, x: Instruction) -> None:
    w.line("store i1 true, ptr %differs")


def _round(w: FunctionWriter, x: Instruction) -> None:
    """Count rounds down, so that LLVM sees no number that rises to a bound.

    A loop that is to be unrolled and ends in a way that it does not see would be written out four
    million times: the process hangs. Where none is, adding is quicker.
    """
    assert isinstance(w, DeviceWriter)
    if not w.counts_down:
        OPERATIONS["round"](w, x)
        return
    rounds, least = w.rounds(), "llvm.usub.sat.i64"
    w.declared[least] = f"declare i64 @{least}(i64, i64)"
    left = w.emit(f"load i64, ptr {rounds}")
    left = w.emit(f"call i64 @{least}(i64 {left}, i64 {w.value(x.args[0]) if x.args else 1})")
    w.line(f"store i64 {left}, ptr {rounds}")
    w.mark_if(w.emit(f"icmp eq i64 {left}, 0"), x.what)


WRITES = frozenset(
    (
        *"set element,fill,copy,copy list,append,new,repeat,set list item".split(","),
        *"put,put array,put list,clear,pop,pop first".split(","),
    )
)
"""Instructions that write to memory, or say that it is free."""
_STATIC = 4096
"""Bytes of arrays, of which it is known beforehand how large they are, that have a place each."""


def _hooked(write: Any) -> Any:
    def hooked(w: FunctionWriter, x: Instruction) -> None:
        assert isinstance(w, DeviceWriter)
        w.before(x)
        write(w, x)
        w.after(x)

    return hooked


_OF_DEVICES = {
    "cast": _cast, "call": _call, "differs": _differs, "map": device_arrays.map_,
    "as type": device_arrays.as_type, "reduce": device_arrays.reduce_, "dot": device_arrays.dot,
    "ufunc": device_arrays.ufunc, "new list": _new_list, "round": _round,
}  # fmt: skip
_OPERATIONS = {name: _hooked(write) for name, write in (OPERATIONS | _OF_DEVICES).items()}

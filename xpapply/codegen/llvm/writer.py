"""Writing LLVM's intermediate language as text: functions, loops, memory.

Nothing here knows what is computed, nor compiles it: that is for `xpapply.backends.cpu`, and needs
llvmlite.
"""

from __future__ import annotations

import collections
import itertools
from collections.abc import Callable, Sequence
from typing import Any

from .registers import BITS, INDEX, POINTER, Register, Type, literal
from .target import Target

Carried = Sequence[Register]
"""Values carried from one round of a loop to the next."""


class Writer:
    """Writes functions for one CPU.

    Attributes
    ----------
    target : Target
        What the CPU has.
    """

    def __init__(self, target: Target) -> None:
        self.target = target
        self._declared: dict[str, str] = {}
        self._globals: list[str] = []
        self._functions: list[str] = []
        self._own: set[str] = set()
        self._rare = False
        self._lines: list[str] = []
        self._entry: list[str] = []
        self._shared: dict[tuple[str, int, str], Register] = {}
        self._used: collections.Counter[str] = collections.Counter()
        self._label = ""
        self._leaves = False
        self._names = itertools.count()

    @property
    def written(self) -> int:
        """The instructions of the function so far."""
        return len(self._lines)

    def lanes(self, element: str) -> int:
        """The number of elements in a vector register."""
        return self.target.bits // BITS[element]

    def vector(self, element: str) -> Type:
        """The type of a whole vector register."""
        return Type(element, self.lanes(element))

    # --- functions ----------------------------------------------------------------------

    def function(
        self,
        name: str,
        parameters: Sequence[tuple[str, Type]],
        body: Callable[..., object],
        *,
        noalias: Sequence[str] = (),
    ) -> None:
        """A function without a result that can be called from outside.

        `body` gets a register for each of the `parameters`; nothing else points to the memory
        that those named in `noalias` point to.
        """
        self._lines, self._entry, self._label, self._leaves = [], [], "entry", False
        self._shared, self._used = {}, collections.Counter()
        given = [Register(self, f"%{n}", t) for n, t in parameters]
        body(*given)
        shown = [f"{t} {'noalias ' if n in noalias else ''}%{n}" for n, t in parameters]
        head = f'define void @{name}({", ".join(shown)}) nounwind "stackrealign" {{'
        body_ = [*self._entry, *self._lines, "  ret void"]
        body_ += ["leave:", "  ret void"] if self._leaves else []
        self._functions.append("\n".join([head, "entry:", *body_, "}"]))

    def kernel(
        self,
        name: str,
        parameters: Sequence[tuple[str, Type]],
        body: Callable[..., object],
        *,
        noalias: Sequence[str] = (),
    ) -> None:
        """Write a function called through one pointer to its arguments: 64 bits each, in order.

        So all kernels have one signature, which is called with least effort. The `body` is a
        function of its own, where `noalias` can be said.
        """
        self.function(f"{name}.body", parameters, body, noalias=noalias)
        lines, given = [], []
        for k, (n, kind) in enumerate(parameters):
            lines.append(f"  %at.{n} = getelementptr i64, ptr %arguments, i64 {k}")
            lines.append(f"  %{n} = load {kind}, ptr %at.{n}, align 8")
            given.append(f"{kind} %{n}")
        lines.append(f"  call void @{name}.body({', '.join(given)})")
        head = f"define void @{name}(ptr %arguments) nounwind {{"
        self._functions.append("\n".join([head, *lines, "  ret void", "}"]))

    def call_own(
        self,
        name: str,
        parameters: Sequence[tuple[str, Type]],
        body: Callable[..., object],
        operands: Sequence[Register],
    ) -> None:
        """Call another function of the module, which is written at the first call of this name."""
        if name not in self._own:
            self._own.add(name)
            before = self._lines, self._entry, self._label, self._leaves, self._shared, self._used
            self.function(name, parameters, body)
            self._lines, self._entry, self._label, self._leaves, self._shared, self._used = before
        given = ", ".join(f"{x.type} {x.text}" for x in operands)
        self._lines.append(f"  call void @{name}({given})")

    def text(self) -> str:
        """The module: all that was written."""
        rare = '!0 = !{!"branch_weights", i32 1, i32 1000000}'
        written = [*self._globals, *self._declared.values(), *self._functions]
        return "\n".join([*written, *([rare] if self._rare else []), ""])

    def emit(self, kind: Type, instruction: str) -> Register:
        """The register that an instruction writes."""
        found = self._fresh("r", kind)
        self._lines.append(f"  {found.text} = {instruction}")
        return found

    def _fresh(self, letter: str, kind: Type) -> Register:
        return Register(self, f"%{letter}{next(self._names)}", kind)

    def _begin(self, label: str) -> None:
        self._lines.append(f"{label}:")
        self._label = label

    def _branch(self, label: str) -> None:
        self._lines.append(f"  br label %{label}")

    # --- values -------------------------------------------------------------------------

    def constant(self, value: Any, kind: Type) -> Register:
        """A number, in all lanes."""
        return Register(self, literal(value, kind), kind)

    def _alike(self, *operands: Any) -> list[Register]:
        """Operands as registers of one type: that of the widest; the others fill all lanes."""
        given = [x for x in operands if isinstance(x, Register)]
        kind = max((x.type for x in given), key=lambda t: t.lanes)
        assert all(x.type.element == kind.element for x in given), [str(x.type) for x in given]
        return [
            self.broadcast(x, kind.lanes) if isinstance(x, Register) else self.constant(x, kind)
            for x in operands
        ]

    def binary(self, of_floats: str, of_integers: str, x: Any, y: Any) -> Register:
        """An instruction of two operands, which is another one for integers."""
        x, y = self._alike(x, y)
        name = of_floats if x.type.is_float else of_integers
        assert name, f"no such instruction of {x.type}"
        return self.emit(x.type, f"{name} {x.type} {x.text}, {y.text}")

    def compare(self, of_floats: str, of_integers: str, x: Any, y: Any) -> Register:
        """A mask: the conditions of LLVM's ``fcmp`` or ``icmp``."""
        x, y = self._alike(x, y)
        how = f"fcmp {of_floats}" if x.type.is_float else f"icmp {of_integers}"
        return self.emit(x.type.mask, f"{how} {x.type} {x.text}, {y.text}")

    def is_nan(self, x: Register) -> Register:
        """The mask of NaN."""
        return self.compare("uno", "ne", x, x)

    def select(self, mask: Register, x: Any, y: Any) -> Register:
        """`x` where the mask is true, else `y`."""
        x, y = self._alike(x, y)
        if mask.type.lanes != x.type.lanes:
            if x.type.lanes == 1:
                x, y = self.broadcast(x, mask.type.lanes), self.broadcast(y, mask.type.lanes)
            else:
                mask = self.broadcast(mask, x.type.lanes)
        operands = f"{mask.type} {mask.text}, {x.type} {x.text}, {y.type} {y.text}"
        return self.emit(x.type, f"select {operands}")

    def fma(self, x: Any, y: Any, z: Any) -> Register:
        """``x * y + z``, rounded once where the CPU has that, else twice."""
        given = self._alike(x, y, z)
        if not self.target.fma:
            return given[0] * given[1] + given[2]
        return self.intrinsic("fma", *given)

    def intrinsic(self, name: str, *operands: Register, result: Type | None = None) -> Register:
        """Call an LLVM intrinsic on operands of one type; it must be an instruction here.

        Without SSE4.1 ``floor``, ``ceil``, ``rint`` and ``trunc`` are calls of the C library,
        which kernels cannot make; ``fma`` is one without FMA.
        """
        kind = operands[0].type
        return self.call(f"llvm.{name}.{kind.suffix}", result or kind, *operands)

    def call(self, name: str, result: Type, *operands: Register) -> Register:
        """Call an LLVM intrinsic by its full name, such as those of one CPU."""
        kinds = ", ".join(str(x.type) for x in operands)
        self._declared[name] = f"declare {result} @{name}({kinds})"
        given = ", ".join(f"{x.type} {x.text}" for x in operands)
        return self.emit(result, f"call {result} @{name}({given})")

    def sqrt(self, x: Register) -> Register:
        """The square root, rounded correctly."""
        return self.intrinsic("sqrt", x)

    def abs(self, x: Register) -> Register:
        """The absolute value, also of zero and NaN."""
        if x.type.is_float:
            return self.intrinsic("fabs", x)
        return self.select(x < 0, -x, x)

    def copysign(self, x: Register, y: Register) -> Register:
        """`x` with the sign of `y`."""
        return self.intrinsic("copysign", *self._alike(x, y))

    # --- types ---------------------------------------------------------------------------

    def bitcast(self, x: Register, element: str) -> Register:
        """Reinterpret the bits as another type of the same size."""
        kind = Type(element, x.type.lanes)
        if kind == x.type:
            return x
        return self.emit(kind, f"bitcast {x.type} {x.text} to {kind}")

    def cast(self, x: Register, element: str, *, signed: bool = True) -> Register:
        """The numbers in another type.

        `signed`: whether integers, on either side, have a sign. Floats beyond the range of
        integers give no definite number, so mask them before. Masks are 0 and 1.
        """
        kind, was = Type(element, x.type.lanes), x.type
        if kind == was:
            return x
        if was.is_float and kind.is_float:
            how = "fpext" if kind.bits > was.bits else "fptrunc"
            if kind.bits == was.bits:  # half and bfloat
                return self.cast(self.cast(x, "float"), element)
        elif was.is_float:
            how = "fptosi" if signed else "fptoui"
        elif kind.is_float:
            how = "sitofp" if signed and was.element != "i1" else "uitofp"
        elif kind.bits < was.bits:
            how = "trunc"
        else:
            how = "sext" if signed and was.element != "i1" else "zext"
        return self.emit(kind, f"{how} {was} {x.text} to {kind}")

    def broadcast(self, x: Register, lanes: int) -> Register:
        """A number in all lanes."""
        if lanes == x.type.lanes:
            return x
        assert x.type.lanes == 1
        kind = Type(x.type.element, lanes)
        if not x.text.startswith("%"):
            one = f"{kind.element} {x.text}"
            return Register(self, f"<{', '.join([one] * lanes)}>", kind)
        first = self.emit(kind, f"insertelement {kind} poison, {x.type} {x.text}, i64 0")
        zeros = f"<{lanes} x i32> zeroinitializer"
        return self.emit(kind, f"shufflevector {kind} {first.text}, {kind} poison, {zeros}")

    # --- lanes ---------------------------------------------------------------------------

    def lane(self, x: Register, k: int) -> Register:
        """The number in one lane."""
        if x.type.lanes == 1:
            return x
        return self.emit(Type(x.type.element), f"extractelement {x.type} {x.text}, i64 {k}")

    def with_lane(self, x: Register, k: int, number: Register) -> Register:
        """`x` with another number in one lane."""
        return self.emit(
            x.type, f"insertelement {x.type} {x.text}, {number.type} {number.text}, i64 {k}"
        )

    def shuffle(self, x: Register, y: Register, order: Sequence[int]) -> Register:
        """Lanes of two vectors: `order` counts through those of `x`, then those of `y`."""
        kind = Type(x.type.element, len(order))
        chosen = ", ".join(f"i32 {k}" for k in order)
        pair = f"{x.type} {x.text}, {y.type} {y.text}"
        return self.emit(kind, f"shufflevector {pair}, <{len(order)} x i32> <{chosen}>")

    def concatenated(self, parts: Sequence[Register]) -> Register:
        """Vectors side by side in one; as many as a power of two."""
        found = list(parts)
        while len(found) > 1:
            both = range(2 * found[0].type.lanes)
            found = [self.shuffle(a, b, both) for a, b in zip(found[::2], found[1::2], strict=True)]
        return found[0]

    def transpose(self, rows: Sequence[Register]) -> list[Register]:
        """Squares of numbers, side by side in the vectors, with rows and columns exchanged.

        A square has as many rows as there are vectors, a power of two.
        """
        found, n, lanes = list(rows), len(rows), rows[0].type.lanes
        step = n // 2
        while step:
            low = [k - step + lanes if k & step else k for k in range(lanes)]
            high = [k + lanes if k & step else k + step for k in range(lanes)]
            for i in range(n):
                if not i & step:
                    x, y = found[i], found[i | step]
                    found[i], found[i | step] = self.shuffle(x, y, low), self.shuffle(x, y, high)
            step //= 2
        return found

    def iota(self, kind: Type) -> Register:
        """0, 1, 2 ... in the lanes, of integers."""
        numbers = ", ".join(f"{kind.element} {k}" for k in range(kind.lanes))
        return Register(self, f"<{numbers}>" if kind.lanes > 1 else "0", kind)

    def first_lanes(self, count: Register | int, lanes: int) -> Register:
        """A mask of the first `count` lanes, an i64."""
        numbers = self.iota(Type("i64", lanes))
        return self.compare("", "ult", numbers, count)

    # --- memory --------------------------------------------------------------------------

    def offset(self, pointer: Register, count: Register | int, element: str) -> Register:
        """A pointer `count` elements further on."""
        if isinstance(count, int):
            if count == 0:
                return pointer
            count = self.constant(count, INDEX)
        where = f"{element}, ptr {pointer.text}, i64 {count.text}"
        return self.emit(POINTER, f"getelementptr {where}")

    def load(self, pointer: Register, kind: Type, align: int | None = None) -> Register:
        """Numbers that lie one after the other; `align` in bytes, at least that of one number."""
        align = align or max(1, kind.bits // 8)
        return self.emit(kind, f"load {kind}, ptr {pointer.text}, align {align}")

    def store(self, x: Register, pointer: Register, align: int | None = None) -> None:
        """Write numbers one after the other."""
        align = align or max(1, x.type.bits // 8)
        self._lines.append(f"  store {x.type} {x.text}, ptr {pointer.text}, align {align}")

    def gather_at(self, pointer: Register, places: Register, kind: Type) -> Register:
        """Numbers at places counted from a pointer, one for each lane."""
        where = f"{kind.element}, ptr {pointer.text}, {places.type} {places.text}"
        pointers = Type("ptr", kind.lanes)
        at = self.emit(pointers, f"getelementptr {where}")
        if kind.lanes == 1:
            return self.load(at, kind)
        name = f"llvm.masked.gather.{kind.suffix}.v{kind.lanes}p0"
        self._declared[name] = f"declare {kind} @{name}({pointers}, i32, {kind.mask}, {kind})"
        every = f"{kind.mask} splat (i1 true)"
        given = f"{pointers} {at.text}, i32 {max(1, kind.bits // 8)}, {every}, {kind} poison"
        return self.emit(kind, f"call {kind} @{name}({given})")

    def masked_load(self, pointer: Register, mask: Register, otherwise: Register) -> Register:
        """Like `load`, where the mask is true; the other lanes are not read."""
        kind = otherwise.type
        name = f"llvm.masked.load.{kind.suffix}.p0"
        self._declared[name] = f"declare {kind} @{name}(ptr, i32, {kind.mask}, {kind})"
        given = f"ptr {pointer.text}, i32 {max(1, kind.bits // 8)}"
        mask_ = f"{mask.type} {mask.text}"
        return self.emit(kind, f"call {kind} @{name}({given}, {mask_}, {kind} {otherwise.text})")

    def masked_store(self, x: Register, pointer: Register, mask: Register) -> None:
        """Like `store`, where the mask is true; the other lanes are not written."""
        kind = x.type
        name = f"llvm.masked.store.{kind.suffix}.p0"
        self._declared[name] = f"declare void @{name}({kind}, ptr, i32, {kind.mask})"
        given = f"{kind} {x.text}, ptr {pointer.text}, i32 {max(1, kind.bits // 8)}"
        self._lines.append(f"  call void @{name}({given}, {mask.type} {mask.text})")

    def prefetch(self, pointer: Register) -> None:
        """Say that memory will be read soon; it need not be there."""
        self._declared["prefetch"] = "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)"
        self._lines.append(
            f"  call void @llvm.prefetch.p0(ptr {pointer.text}, i32 0, i32 3, i32 1)"
        )

    def gather(self, pointer: Register, step: Register | int, kind: Type) -> Register:
        """Numbers that lie `step` elements apart."""
        element = Type(kind.element)
        if kind.lanes == 1:
            return self.load(pointer, kind)
        found = Register(self, "poison", kind)
        at = pointer
        for k in range(kind.lanes):
            found = self.with_lane(found, k, self.load(at, element))
            if k + 1 < kind.lanes:
                at = self.offset(at, step, kind.element)
        return found

    def scatter(self, x: Register, pointer: Register, step: Register | int) -> None:
        """Write numbers `step` elements apart."""
        at = pointer
        for k in range(x.type.lanes):
            self.store(self.lane(x, k), at)
            if k + 1 < x.type.lanes:
                at = self.offset(at, step, x.type.element)

    def scratch(self, element: str, count: int, align: int = 64) -> Register:
        """Memory of the function's own, whatever loop asks for it: `count` elements."""
        found = self._fresh("s", POINTER)
        self._entry.append(f"  {found.text} = alloca [{count} x {element}], align {align}")
        return found

    def used_here(self, name: str) -> int:
        """Count a use of a name in the function being written."""
        self._used[name] += 1
        return self._used[name]

    def shared_scratch(self, element: str, count: int, name: str) -> Register:
        """Scratch memory shared by all uses of a name in a function: for values read at once."""
        key = (element, count, name)
        if key not in self._shared:
            self._shared[key] = self.scratch(element, count)
        return self._shared[key]

    def table(self, numbers: Sequence[Any], element: str, align: int = 64) -> Register:
        """Constants in memory: a pointer to the first."""
        name = f"@t{next(self._names)}"
        one = Type(element)
        shown = ", ".join(f"{element} {literal(x, one)}" for x in numbers)
        kind = f"[{len(numbers)} x {element}]"
        self._globals.append(f"{name} = private constant {kind} [{shown}], align {align}")
        return Register(self, name, POINTER)

    # --- what runs when ------------------------------------------------------------------

    def loop(
        self,
        stop: Register | int,
        body: Callable[..., Sequence[Register] | None],
        state: Carried = (),
        *,
        start: Register | int = 0,
        step: int = 1,
    ) -> list[Register]:
        """``for i in range(start, stop, step)``: ``state = body(i, *state)``.

        Returns the last state. Where both ends are Python's numbers the loop is tested at its end
        alone, and not written at all for no round.
        """
        known = isinstance(stop, int) and isinstance(start, int)
        if known and start >= stop:  # type: ignore[operator]
            return list(state)
        begin, end = (self.constant(x, INDEX) if isinstance(x, int) else x for x in (start, stop))
        number = next(self._names)
        head, inside, after = f"loop{number}", f"body{number}", f"after{number}"
        before = self._label
        self._branch(head)
        self._begin(head)
        at = len(self._lines)
        i = self._fresh("i", INDEX)
        carried = [self._fresh("c", x.type) for x in state]
        if not known:
            more = i < end
            self._lines.append(f"  br i1 {more.text}, label %{inside}, label %{after}")
            self._begin(inside)
        found = list(body(i, *carried) or ())
        assert [x.type for x in found] == [x.type for x in state]
        following = i + step
        last = self._label
        if known:
            more = following < end
            self._lines.append(f"  br i1 {more.text}, label %{head}, label %{after}")
        else:
            self._branch(head)
        pairs = [(i, begin, following), *zip(carried, state, found, strict=True)]
        self._lines[at:at] = [
            f"  {c.text} = phi {c.type} [{x.text}, %{before}], [{y.text}, %{last}]"
            for c, x, y in pairs
        ]
        self._begin(after)
        return found if known else carried

    def either(
        self,
        condition: Register,
        then: Callable[[], Sequence[Register] | None],
        otherwise: Callable[[], Sequence[Register] | None] | None = None,
        *,
        rare: bool = False,
    ) -> list[Register]:
        """Write a conditional with two branches; return the joined results.

        `rare`: the condition is hardly ever true, so that the other way comes first in everything.
        """
        number = next(self._names)
        yes, no, after = f"then{number}", f"else{number}", f"join{number}"
        self._rare |= rare
        weights = ", !prof !0" if rare else ""
        self._lines.append(f"  br i1 {condition.text}, label %{yes}, label %{no}{weights}")
        results, ends = [], []
        for label, way in ((yes, then), (no, otherwise)):
            self._begin(label)
            results.append(list(way() or ()) if way is not None else [])
            ends.append(self._label)
            self._branch(after)
        self._begin(after)
        return [
            self.emit(x.type, f"phi {x.type} [{x.text}, %{ends[0]}], [{y.text}, %{ends[1]}]")
            for x, y in zip(*results, strict=True)
        ]

    def new_block(self, never: Register) -> None:
        """Begin a new block of instructions, which LLVM works on one by one.

        Long ones take it a time that grows with the square of their length. `never` is a condition
        that is false, and that LLVM does not know: it would join the blocks otherwise.
        """
        label, self._leaves = f"block{next(self._names)}", True
        self._lines.append(f"  br i1 {never.text}, label %leave, label %{label}")
        self._begin(label)

    def any_lane(self, mask: Register) -> Register:
        """Whether the mask is true in any lane."""
        if mask.type.lanes == 1:
            return mask
        return self.intrinsic("vector.reduce.or", mask, result=Type("i1"))

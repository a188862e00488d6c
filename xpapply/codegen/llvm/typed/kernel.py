"""Going through all slices with a typed function, one after the other.

What the processor noted of a slice (an invalid operation, a division by zero, an overflow) is what
NumPy warns of: such a slice is marked too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ....ir.typed import Array, TypedFunction
from ....ir.typed.function import WARNED, Type
from ..target import Target
from .beside import copies
from .called import OPERATIONS as OF_CALLS
from .called import CallingWriter
from .forms import Frame, alignment, in_memory, size
from .notes import Notes
from .operations import OPERATIONS

NAME = "typed"


def fields(made: TypedFunction) -> Frame:
    """The frame: offsets of the numbers that all slices share."""
    return Frame(made)


def kernel(
    made: TypedFunction,
    target: Target,
    quiet: bool = False,
    near_libm: bool = False,
    *,
    warns: bool = True,
    side_by_side: bool = False,
) -> str:
    """The text of a kernel.

    Its arguments: the address of the frame; that of the index of the first slice not yet drawn,
    which calls in several threads share, and of a word that is set where any slice may be marked;
    the slice until which this call draws, the one after the
    last, and how many are drawn at a time; which notes of the processor are marks, whether only
    those slices are meant of which these were marked (else all), memory (of
    `kernel_of_lanes`), where marks go (16 bits each), how many batch axes there are and where their
    lengths lie; then for each input and result its address and where its strides along the batch
    axes lie, in bytes.

    `quiet`, `near_libm`, `side_by_side`: as of `FunctionWriter`; of a function of numbers the last
    says whether these follow each other in rows. `warns`: whether what the processor notes counts.
    If not, LLVM may write the function into the loop over slices, and do several of them at once.
    """
    notes = Notes(target)
    near_libm = near_libm and target.fma
    operations = {**OPERATIONS, **OF_CALLS}
    writer = CallingWriter(made, notes, operations, quiet, near_libm, side_by_side)
    one = writer.text()
    operands = _operands(made)
    slots = ["  %also = alloca i64, align 8", "  store i64 0, ptr %state, align 8"]
    sizes = _sizes(made, side_by_side)
    places, begins, stores = [f"%{o}.now" for o in operands], [], []
    if sizes and not warns:  # of what is marked any number may be written: no store asks for that
        for k, x in enumerate(made.results):
            kind = f"{in_memory(x.dtype)}, ptr"
            slots.append(f"  %own.{k} = alloca {in_memory(x.dtype)}, align 16")
            begins.append(f"  store {in_memory(x.dtype)} zeroinitializer, ptr %own.{k}, align 16")
            stores.append(f"  %result.{k} = load {kind} %own.{k}, align 16")
            where = f"ptr %out{k}.now, align {alignment(x.dtype)}"
            stores.append(f"  store {in_memory(x.dtype)} %result.{k}, {where}")
            places[len(made.inputs) + k] = f"%own.{k}"
    given = ", ".join(["ptr %p.frame", "ptr %also", *(f"ptr {p}" for p in places)])
    body = [*begins, f"  %mark = call i32 @slice({given})", *stores]
    if warns:
        body = [
            "  store i64 0, ptr %also, align 8",
            *body,
            *_is_noted(notes),
            "  br i1 %is.noted, label %warned, label %noted.not, !prof !0",
            "warned:",
            *notes.forget("%before", "%state"),
            "  br label %noted.not",
            "noted.not:",
            "  %is.plain = icmp eq i32 %mark, 0",
            f"  %why = select i1 %is.plain, i32 {WARNED}, i32 %mark",
            "  %code = select i1 %is.noted, i32 %why, i32 %mark",
            "  %code.short = trunc i32 %code to i16",
        ]
    else:
        body.append("  %code.short = trunc i32 %mark to i16")
        one = one.replace(" noinline ", " ", 1)
    body.append("  store i16 %code.short, ptr %p.mark, align 2")
    is_plain = bool(sizes) and not warns
    if is_plain:
        body.append("  %any.new = zext i16 %code.short to i64")
        body += _ANY
    body.append("  br label %next")
    lines = _through(notes, operands, slots, body, sizes, 1, is_plain)
    return _module([*writer.declared.values(), *notes.declared], one, lines)


def kernel_of_lanes(
    made: TypedFunction,
    target: Target,
    lanes: int,
    warns: bool,
    near_libm: bool = False,
    side_by_side: bool = False,
) -> str:
    """The text of a kernel that runs slices side by side.

    Its arguments are those of `kernel`, and memory for slices (`tile_bytes`). Slices that are to be
    done again, one by one, are marked as `WARNED`. `side_by_side`: whether numbers follow each
    other in rows; of slices it says nothing.

    Raises
    ------
    UnsupportedError
        If slices cannot go side by side.
    """
    # which a first call does not need
    from .lane_operations import LANE_OPERATIONS
    from .lanes import LanesWriter

    notes = Notes(target)
    if made.functions:
        from ....ir.typed.written_out import written_out

        made = written_out(made, whole=True)
    sizes = _sizes(made, side_by_side)
    how = lanes, warns, near_libm and target.fma, bool(sizes), target.bits >= 512
    writer = LanesWriter(made, notes, LANE_OPERATIONS, *how)
    one = writer.text()
    operands = _operands(made)
    slots = ["  %also = alloca i64, align 8", "  store i64 0, ptr %state, align 8"]
    done = [
        "  store i64 0, ptr %also, align 8",
        "  %again.lanes = call i64 @lanes({given})",
        *_is_noted(notes),
        "  br i1 %is.noted, label %warned, label %noted.not, !prof !0",
        "warned:",
        *notes.forget("%before", "%state"),
        "  br label %noted.not",
        "noted.not:",
        "  %again.all = select i1 %is.noted, i64 -1, i64 %again.lanes",
        f"  %again.bits = trunc i64 %again.all to i{lanes}",
        f"  %again.each = bitcast i{lanes} %again.bits to <{lanes} x i1>",
        f"  %again.marks = sext <{lanes} x i1> %again.each to <{lanes} x i16>",
        "  br label %next",
    ]
    if sizes:
        done.insert(-1, f"  store <{lanes} x i16> %again.marks, ptr %p.mark, align 2")
        given = ", ".join(["ptr %p.frame", "ptr %also", *(f"ptr %{o}.now" for o in operands)])
        some = f"  %any.new = zext i{lanes} %again.bits to i64"
        body = [x.format(given=given) for x in [*done[:-1], some, *_ANY, done[-1]]]
        lines = _through(notes, operands, slots, body, sizes, lanes)
        return _module([*writer.declared.values(), *notes.declared], one, lines)
    names = ("lane", "real", "pads")  # lanes that have slices, those of their own, and whether more
    slots += [f"  %{x} = alloca i64, align 8\n  store i64 0, ptr %{x}, align 8" for x in names]
    slots += [f"  %all.{o} = alloca [{lanes} x i64], align 64" for o in operands]
    body = ["  %lane.now = load i64, ptr %lane, align 8"]
    for o in operands:
        body.append(f"  %p.all.{o} = getelementptr i64, ptr %all.{o}, i64 %lane.now")
        body.append(f"  store ptr %{o}.now, ptr %p.all.{o}, align 8")
    tiles, ends = [], "%tiles"
    for k, kind in enumerate(made.inputs):
        tiles += [f"  %tile.{k} = inttoptr i64 {ends} to ptr"]
        dtype, count = _elements(kind, writer.frame.inputs[k])
        if count is None:
            tiles += [f"  %n.{k} = add i64 1, 0", f"  %step.{k} = add i64 0, 0"]
        else:
            tiles += [
                f"  %p.n.{k} = getelementptr i64, ptr %p.frame, i64 {count[0]}",
                f"  %n.{k} = load i64, ptr %p.n.{k}, align 8",
                f"  %p.step.{k} = getelementptr i64, ptr %p.frame, i64 {count[1]}",
                f"  %step.{k} = load i64, ptr %p.step.{k}, align 8",
            ]
        given_tile = f"ptr %tile.{k}, ptr %all.in{k}, i64 %n.{k}, i64 %step.{k}"
        tiles += [f"  call void @beside.{dtype}({given_tile})"]
        tiles += [f"  %bytes.{k} = mul i64 %n.{k}, {lanes * size(dtype)}"]
        tiles += [f"  %up.{k} = add i64 %bytes.{k}, 63", f"  %even.{k} = and i64 %up.{k}, -64"]
        tiles += [f"  %end.{k} = add i64 {ends}, %even.{k}"]
        ends = f"%end.{k}"
    counts, short = ", ".join(f"i64 {k}" for k in range(lanes)), f"<{lanes} x i16>"
    masked = f"llvm.masked.store.v{lanes}i16.p0"
    writer.declared[masked] = f"declare void @{masked}({short}, ptr, i32, <{lanes} x i1>)"
    given_lanes = ["ptr %p.frame", "ptr %also"]
    given_lanes += [f"ptr %tile.{k}" for k in range(len(made.inputs))]
    given_lanes += [f"ptr %all.out{k}" for k in range(len(made.results))]
    body += [
        "  %lane.next = add i64 %lane.now, 1",
        "  %real.was = load i64, ptr %real, align 8",
        "  %pads.was = load i64, ptr %pads, align 8",
        "  %is.own = icmp eq i64 %pads.was, 0",
        "  %real.now = select i1 %is.own, i64 %lane.next, i64 %real.was",
        "  store i64 %real.now, ptr %real, align 8",
        f"  %is.full = icmp eq i64 %lane.next, {lanes}",
        "  br i1 %is.full, label %do, label %more.lanes",
        "more.lanes:",
        "  store i64 %lane.next, ptr %lane, align 8",
        # the last slice fills the lanes that are left
        "  %i.after = add i64 %i, 1",
        "  %is.end = icmp eq i64 %i.after, %n",
        "  %is.stop = icmp sge i64 %k.next, %stop",
        "  %is.padded = and i1 %is.end, %is.stop",
        "  %pads.now = zext i1 %is.padded to i64",
        "  store i64 %pads.now, ptr %pads, align 8",
        "  br i1 %is.padded, label %slice, label %next",
        "do:",
        "  store i64 0, ptr %lane, align 8\n  store i64 0, ptr %pads, align 8",
        *tiles,
        *(x.format(given=", ".join(given_lanes)) for x in done[:-1]),
        f"  %real.one = insertelement <{lanes} x i64> poison, i64 %real.now, i64 0",
        f"  %real.all = shufflevector <{lanes} x i64> %real.one, <{lanes} x i64> poison, "
        f"<{lanes} x i32> zeroinitializer",
        f"  %is.real = icmp ult <{lanes} x i64> <{counts}>, %real.all",
        "  %to.first = sub i64 1, %real.now",
        "  %p.first = getelementptr i16, ptr %p.mark, i64 %to.first",
        f"  call void @{masked}({short} %again.marks, ptr %p.first, i32 2, "
        f"<{lanes} x i1> %is.real)",
        done[-1],
    ]
    lines = _through(notes, operands, slots, body, {})
    kinds = dict.fromkeys(
        _elements(x, f)[0] for x, f in zip(made.inputs, writer.frame.inputs, strict=True)
    )
    tiles = [copies(dtype, lanes) for dtype in kinds]
    return _module([*writer.declared.values(), *notes.declared], one, [*tiles, *lines])


def tile_bytes(made: TypedFunction, arrays: Sequence[Sequence[int]], lanes: int) -> int:
    """Bytes of memory that inputs of these shapes take side by side."""
    total = 0
    for kind, shape in zip(made.inputs, arrays, strict=True):
        dtype = kind.dtype if isinstance(kind, Array) else kind
        total += -(-lanes * size(dtype) * math.prod(shape) // 64) * 64
    return total


def _elements(kind: Type, words: tuple[list[int], list[int]]) -> tuple[str, tuple[int, int] | None]:
    """The dtype of a slice, and where the frame has its length and its step; None: a number."""
    if isinstance(kind, Array):
        return kind.dtype, (words[0][0], words[1][0])
    return kind, None


def of_numbers(made: TypedFunction) -> bool:
    """Whether a function takes and gives numbers alone."""
    arrays = any(isinstance(x, Array) for x in made.inputs)
    return not arrays and not any(x.ndim for x in made.results)


def _sizes(made: TypedFunction, side_by_side: bool) -> dict[str, int]:
    """Bytes of each operand's numbers, where these follow each other in rows."""
    if not (side_by_side and of_numbers(made)):
        return {}
    dtypes = [*map(str, made.inputs), *(x.dtype for x in made.results)]
    return dict(zip(_operands(made), map(size, dtypes), strict=True))


def _operands(made: TypedFunction) -> list[str]:
    found = [f"in{k}" for k in range(len(made.inputs))]
    return found + [f"out{k}" for k in range(len(made.results))]


_ANY = (
    "  %any.was = load i64, ptr %any",
    "  %any.now = or i64 %any.was, %any.new",
    "  store i64 %any.now, ptr %any",
)
"""Keep in mind whether any slice is marked: of numbers alone, which are many."""


def _is_noted(notes: Notes) -> list[str]:
    """Whether the processor has noted something that counts."""
    return [
        *notes.read("%state"),
        "  %flags.all = load i64, ptr %state, align 8",
        "  %flags.also = load i64, ptr %also, align 8",
        "  %flags.both = or i64 %flags.all, %flags.also",
        "  %flags = and i64 %flags.both, %noted",
        "  %is.noted = icmp ne i64 %flags, 0",
    ]


def _module(declared: Sequence[str], one: str, lines: Sequence[str]) -> str:
    tail = [
        'attributes #0 = { "no-builtins" "stackrealign" }',
        "attributes #1 = { nounwind }",
        "attributes #2 = { strictfp }",
        "attributes #3 = { nounwind willreturn memory(none) }",
        'attributes #4 = { "no-builtins" }',
        # of the C library: it notes something, and writes to no array
        "attributes #5 = { nounwind willreturn memory(inaccessiblemem: readwrite) }",
        '!0 = !{!"branch_weights", i32 1, i32 1000000}',
        "!1 = !{}",
        # the loops over slices and axes are called now and then: not worth their code
        "!2 = distinct !{!2, !4}",
        "!3 = distinct !{!3, !4}",
        '!4 = !{!"llvm.loop.unroll.disable"}',
        # what is written to elements changes no head of a list
        "!5 = !{!6, !6, i64 0}",
        '!6 = !{!"element", !9}',
        "!7 = !{!8, !8, i64 0}",
        '!8 = !{!"head of a list", !9}',
        '!9 = !{!"memory"}',
        # nor does it change the state of a generator
        "!13 = !{!14, !14, i64 0}",
        '!14 = !{!"generator", !9}',
        # a call that seldom is: what waits lies in memory there, and in registers elsewhere
        '!12 = !{!"branch_weights", i32 1, i32 20}',
        '!11 = !{!"branch_weights", i32 1000000, i32 1}',
        # a length, so that one comparison tells whether an index is within it
        f"!10 = !{{i64 0, i64 {1 << 47}}}",
    ]
    return "\n".join([*declared, one, *lines, *tail, ""])


def _through(
    notes: Notes,
    operands: Sequence[str],
    slots: Sequence[str],
    body: Sequence[str],
    numbers: Mapping[str, int],
    lanes: int = 1,
    vectors: bool = False,
) -> list[str]:
    """A function that goes through slices: `body` knows where their operands and marks are.

    `numbers`: bytes of the numbers that operands are, where these follow each other in rows;
    `lanes`: how many the body does at once then; `vectors`: whether LLVM may find that it can do
    several at once.
    """
    names = ["frame", "drawn", "until", "end", "piece", "noted", "again", "tiles", "marks"]
    names += ["ndim", "sizes"]
    names += [f"{o}.{what}" for o in operands for what in ("base", "strides")]
    lines = [f"define void @{NAME}(ptr %arguments) nounwind #0 {{", "entry:"]
    for k, name in enumerate(names):
        lines.append(f"  %a.{name} = getelementptr i64, ptr %arguments, i64 {k}")
        lines.append(f"  %{name} = load i64, ptr %a.{name}, align 8")
    pointers = ["frame", "drawn", "marks", "sizes", *(f"{o}.strides" for o in operands)]
    lines += [f"  %p.{n} = inttoptr i64 %{n} to ptr" for n in pointers]
    lines += [f"  %at.{o} = alloca i64, align 8" for o in operands]
    lines += ["  %s = alloca i64, align 8", "  %left = alloca i64, align 8"]
    lines += ["  %d = alloca i64, align 8", "  %rest = alloca i64, align 8"]
    tells = vectors or lanes > 1
    lines += ["  %any = alloca i64, align 8", f"  store i64 {int(not tells)}, ptr %any"]
    lines += ["  %state = alloca i64, align 8", *slots, *notes.read("%state")]
    lines += ["  %before = load i32, ptr %state, align 8", *notes.forget("%before", "%state")]
    lines += [
        "  %is.first = icmp eq i64 %again, 0",
        "  %last = sub i64 %ndim, 1",
        "  %p.last = getelementptr i64, ptr %p.sizes, i64 %last",
        "  %inner = load i64, ptr %p.last, align 8",
    ]
    for o in operands:
        lines.append(f"  %p.{o}.last = getelementptr i64, ptr %p.{o}.strides, i64 %last")
        lines.append(f"  %{o}.inner = load i64, ptr %p.{o}.last, align 8")
    lines += [
        "  br label %draw",
        "draw:",
        "  %start = atomicrmw add ptr %p.drawn, i64 %piece monotonic, align 8",
        "  %is.any = icmp slt i64 %start, %end",
        "  br i1 %is.any, label %piece.of, label %over",
        "piece.of:",
        "  %stop.whole = add i64 %start, %piece",
        "  %is.whole = icmp slt i64 %stop.whole, %end",
        "  %stop = select i1 %is.whole, i64 %stop.whole, i64 %end",
        "  store i64 %start, ptr %s",
        "  br label %head",
        "head:",
        "  %k = load i64, ptr %s",
        "  %more = icmp slt i64 %k, %stop",
        "  br i1 %more, label %find, label %done",
        # where a row of the last batch axis begins, or goes on
        "find:",
        "  store i64 %k, ptr %rest",
        "  store i64 %last, ptr %d",
        *(f"  store i64 %{o}.base, ptr %at.{o}" for o in operands),
        "  br label %axis",
        "axis:",
        "  %d.now = load i64, ptr %d",
        "  %p.size = getelementptr i64, ptr %p.sizes, i64 %d.now",
        "  %size = load i64, ptr %p.size, align 8",
        "  %r.now = load i64, ptr %rest",
        "  %r.at = urem i64 %r.now, %size",
        "  %r.next = udiv i64 %r.now, %size",
        "  store i64 %r.next, ptr %rest",
    ]
    for o in operands:
        lines += [
            f"  %p.{o}.s = getelementptr i64, ptr %p.{o}.strides, i64 %d.now",
            f"  %{o}.s = load i64, ptr %p.{o}.s, align 8",
            f"  %{o}.far = mul i64 %{o}.s, %r.at",
            f"  %{o}.was = load i64, ptr %at.{o}",
            f"  %{o}.is = add i64 %{o}.was, %{o}.far",
            f"  store i64 %{o}.is, ptr %at.{o}",
        ]
    lines += [
        "  %is.last = icmp eq i64 %d.now, %last",
        "  br i1 %is.last, label %count, label %further",
        "count:",
        "  %n.row = sub i64 %inner, %r.at",
        "  %n.stop = sub i64 %stop, %k",
        "  %is.longer = icmp sgt i64 %n.row, %n.stop",
        "  %n.new = select i1 %is.longer, i64 %n.stop, i64 %n.row",
        "  store i64 %n.new, ptr %left",
        "  br label %further",
        "further:",
        "  %d.next = sub i64 %d.now, 1",
        "  store i64 %d.next, ptr %d",
        "  %has.axis = icmp sge i64 %d.next, 0",
        "  br i1 %has.axis, label %axis, label %found, !llvm.loop !3",
        "found:",
        # those that are done again are looked for one by one
        "  %n.all = load i64, ptr %left",
        "  %n = select i1 %is.first, i64 %n.all, i64 1",
        "  %k.next = add i64 %k, %n",
        "  store i64 %k.next, ptr %s",
        "  %p.row = getelementptr i16, ptr %p.marks, i64 %k",
        "  %mark.was = load i16, ptr %p.row, align 2",
        f"  %is.again = icmp eq i16 %mark.was, {WARNED - 65536}",
        "  %is.wanted = or i1 %is.first, %is.again",
        "  br i1 %is.wanted, label %run, label %head",
        "run:",
    ]
    for o in operands:
        lines.append(f"  %{o}.at = load i64, ptr %at.{o}")
        lines.append(f"  %{o}.row = inttoptr i64 %{o}.at to ptr")
    if lanes > 1:
        lines.append(f"  %n.whole = and i64 %n, {-lanes}")
    lines += [
        "  br label %slice.head",
        "slice.head:",
        "  %i = phi i64 [0, %run], [%i.next, %next]",
        f"  %i.more = icmp slt i64 %i, %n{'.whole' * (lanes > 1)}",
        f"  br i1 %i.more, label %slice, label %{'others' if lanes > 1 else 'head'}",
        "slice:",
        "  %p.mark = getelementptr i16, ptr %p.row, i64 %i",
    ]
    for o in operands:
        if o in numbers:
            far = f"getelementptr [{numbers[o]} x i8], ptr %{o}.row, i64 %i"
        else:
            lines.append(f"  %{o}.here = mul i64 %i, %{o}.inner")
            far = f"getelementptr i8, ptr %{o}.row, i64 %{o}.here"
        lines.append(f"  %{o}.now = {far}")
    lines += [
        *body,
        "next:",
        f"  %i.next = add i64 %i, {lanes}",
        f"  br label %slice.head{', !llvm.loop !2' * (not vectors)}",
    ]
    if lanes > 1:  # those that do not fill the lanes
        lines += [
            "others:",
            "  %other = phi i64 [%i, %slice.head], [%other.next, %other.one]",
            "  %other.more = icmp slt i64 %other, %n",
            "  br i1 %other.more, label %other.one, label %head",
            "other.one:",
            "  %p.other = getelementptr i16, ptr %p.row, i64 %other",
            f"  store i16 {WARNED - 65536}, ptr %p.other, align 2",
            "  store i64 1, ptr %any",
            "  %other.next = add i64 %other, 1",
            "  br label %others, !llvm.loop !3",
        ]
    lines += [
        "done:",
        "  %is.turn = icmp slt i64 %stop, %until",
        "  br i1 %is.turn, label %draw, label %over",
        "over:",
        *notes.put("%before", "%state"),
        "  %any.all = load i64, ptr %any",
        "  %is.marked = icmp ne i64 %any.all, 0",
        "  br i1 %is.marked, label %tell, label %end.of.all",
        "tell:",
        "  %p.told = getelementptr i64, ptr %p.drawn, i64 1",
        "  store atomic i64 1, ptr %p.told monotonic, align 8",
        "  br label %end.of.all",
        "end.of.all:",
        "  ret void",
        "}",
    ]
    return lines

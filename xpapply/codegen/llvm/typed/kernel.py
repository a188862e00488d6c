"""Going through all slices with a typed function, one after the other.

What the processor noted of a slice (an invalid operation, a division by zero, an overflow) is what
NumPy warns of: such a slice is marked too.
"""

from __future__ import annotations

from ....ir.typed import TypedFunction
from ....ir.typed.function import WARNED
from ..target import Target
from .function import Frame, FunctionWriter
from .notes import Notes
from .operations import OPERATIONS

NAME = "typed"


def fields(made: TypedFunction) -> Frame:
    """Where the numbers stand that all slices share."""
    return Frame(made)


def kernel(made: TypedFunction, target: Target, quiet: bool = False) -> str:
    """The text of a kernel.

    Its arguments: the address of the frame, the first slice and the one after the last, which
    notes of the processor are marks, whether only those slices are meant of which these were
    marked, where marks go (16 bits each), how many batch axes there are and where their lengths
    lie; then for each input and result its address and where its strides along the batch axes
    lie, in bytes.

    `quiet`: as of `FunctionWriter`.
    """
    notes = Notes(target)
    writer = FunctionWriter(made, notes, OPERATIONS, quiet)
    one = writer.text()
    operands = [f"in{k}" for k in range(len(made.inputs))]
    operands += [f"out{k}" for k in range(len(made.results))]
    names = ["frame", "start", "stop", "noted", "again", "marks", "ndim", "sizes"]
    names += [f"{o}.{what}" for o in operands for what in ("base", "strides")]
    lines = [f"define void @{NAME}(ptr %arguments) nounwind #0 {{", "entry:"]
    for k, name in enumerate(names):
        lines.append(f"  %a.{name} = getelementptr i64, ptr %arguments, i64 {k}")
        lines.append(f"  %{name} = load i64, ptr %a.{name}, align 8")
    pointers = ["frame", "marks", "sizes", *(f"{o}.strides" for o in operands)]
    lines += [f"  %p.{n} = inttoptr i64 %{n} to ptr" for n in pointers]
    lines += [f"  %at.{o} = alloca i64, align 8" for o in operands]
    lines += ["  %s = alloca i64, align 8", "  %left = alloca i64, align 8"]
    lines += [
        "  %also = alloca i64, align 8",
        "  %d = alloca i64, align 8",
        "  %rest = alloca i64, align 8",
    ]
    lines += [
        "  %state = alloca i64, align 8",
        "  store i64 0, ptr %state, align 8",
        *notes.read("%state"),
    ]
    lines += ["  %before = load i32, ptr %state, align 8", *notes.forget("%before", "%state")]
    lines += [
        "  store i64 %start, ptr %s",
        "  store i64 0, ptr %left",
        "  %last = sub i64 %ndim, 1",
        "  %p.last = getelementptr i64, ptr %p.sizes, i64 %last",
        "  %inner = load i64, ptr %p.last, align 8",
    ]
    for o in operands:
        lines.append(f"  %p.{o}.last = getelementptr i64, ptr %p.{o}.strides, i64 %last")
        lines.append(f"  %{o}.inner = load i64, ptr %p.{o}.last, align 8")
    lines += [
        "  br label %head",
        "head:",
        "  %k = load i64, ptr %s",
        "  %more = icmp slt i64 %k, %stop",
        "  br i1 %more, label %row, label %done",
        "row:",
        "  %n.left = load i64, ptr %left",
        "  %is.new = icmp eq i64 %n.left, 0",
        "  br i1 %is.new, label %find, label %slice",
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
        "  %n.new = sub i64 %inner, %r.at",
        "  store i64 %n.new, ptr %left",
        "  br label %further",
        "further:",
        "  %d.next = sub i64 %d.now, 1",
        "  store i64 %d.next, ptr %d",
        "  %has.axis = icmp sge i64 %d.next, 0",
        "  br i1 %has.axis, label %axis, label %slice, !llvm.loop !3",
        "slice:",
        "  %p.mark = getelementptr i16, ptr %p.marks, i64 %k",
        "  %mark.was = load i16, ptr %p.mark, align 2",
        f"  %is.meant = icmp eq i16 %mark.was, {WARNED - 65536}",
        "  %is.first = icmp eq i64 %again, 0",
        "  %is.wanted = or i1 %is.first, %is.meant",
        "  br i1 %is.wanted, label %do, label %next",
        "do:",
    ]
    for o in operands:
        lines.append(f"  %{o}.now = load i64, ptr %at.{o}")
        lines.append(f"  %{o}.p = inttoptr i64 %{o}.now to ptr")
    given = ", ".join(["ptr %p.frame", "ptr %also", *(f"ptr %{o}.p" for o in operands)])
    lines += ["  store i64 0, ptr %also, align 8"]
    lines += [f"  %mark = call i32 @slice({given})", *notes.read("%state")]
    lines += [
        "  %flags.all = load i64, ptr %state, align 8",
        "  %flags.also = load i64, ptr %also, align 8",
        "  %flags.both = or i64 %flags.all, %flags.also",
        "  %flags = and i64 %flags.both, %noted",
        "  %is.noted = icmp ne i64 %flags, 0",
        "  br i1 %is.noted, label %warned, label %noted.not, !prof !0",
        "warned:",
        *notes.forget("%before", "%state"),
        "  br label %noted.not",
        "noted.not:",
        "  %is.plain = icmp eq i32 %mark, 0",
        f"  %why = select i1 %is.plain, i32 {WARNED}, i32 %mark",
        "  %code = select i1 %is.noted, i32 %why, i32 %mark",
        "  %code.short = trunc i32 %code to i16",
        "  store i16 %code.short, ptr %p.mark, align 2",
        "  br label %next",
        "next:",
        "  %n.now = load i64, ptr %left",
        "  %n.next = sub i64 %n.now, 1",
        "  store i64 %n.next, ptr %left",
    ]
    for o in operands:
        lines.append(f"  %{o}.here = load i64, ptr %at.{o}")
        lines.append(f"  %{o}.next = add i64 %{o}.here, %{o}.inner")
        lines.append(f"  store i64 %{o}.next, ptr %at.{o}")
    lines += [
        "  %k.next = add i64 %k, 1",
        "  store i64 %k.next, ptr %s",
        "  br label %head, !llvm.loop !2",
        "done:",
        *notes.put("%before", "%state"),
        "  ret void",
        "}",
    ]
    declared = [*writer.declared.values(), *notes.declared]
    tail = [
        'attributes #0 = { "no-builtins" "stackrealign" }',
        "attributes #1 = { nounwind }",
        "attributes #2 = { strictfp }",
        '!0 = !{!"branch_weights", i32 1, i32 1000000}',
        "!1 = !{}",
        # the loops over slices and axes are called now and then: not worth their code
        "!2 = distinct !{!2, !4}",
        "!3 = distinct !{!3, !4}",
        '!4 = !{!"llvm.loop.unroll.disable"}',
    ]
    return "\n".join([*declared, one, *lines, *tail, ""])

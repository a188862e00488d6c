"""Slices beside each other: each element of one next to the same element of the others."""

from __future__ import annotations

from ....ir.typed.function import PARTS
from .forms import alignment, in_memory, size


def beside(dtype: str, lanes: int) -> str:
    """A function that copies slices so: where to, their addresses, how many numbers, and the step.

    Numbers of 64 bits that follow each other are read four at a time.
    """
    kind, bytes_ = in_memory(dtype), size(dtype)
    head = (
        f"define internal void @beside.{dtype}(ptr %to, ptr %all, i64 %n, i64 %step) "
        "noinline nounwind #0 {"
    )
    lines = [head, "entry:"]
    for k in range(lanes):
        lines += [
            f"  %p{k} = getelementptr i64, ptr %all, i64 {k}",
            f"  %w{k} = load i64, ptr %p{k}, align 8",
            f"  %a{k} = inttoptr i64 %w{k} to ptr",
        ]
    fours = bytes_ == 8 and dtype not in PARTS and lanes % 4 == 0
    if fours:
        lines += [
            "  %even = icmp eq i64 %step, 8",
            "  %quarters = and i64 %n, -4",
            "  %most = select i1 %even, i64 %quarters, i64 0",
            "  br label %four.head",
            "four.head:",
            "  %f = phi i64 [0, %entry], [%f.next, %four]",
            "  %f.more = icmp slt i64 %f, %most",
            "  br i1 %f.more, label %four, label %one.head",
            "four:",
            *_four(kind, lanes),
            "  %f.next = add i64 %f, 4",
            "  br label %four.head",
        ]
    else:
        lines.append("  br label %one.head")
    begin, before = ("%f", "four.head") if fours else ("0", "entry")
    lines += [
        "one.head:",
        f"  %i = phi i64 [{begin}, %{before}], [%i.next, %one]",
        "  %more = icmp slt i64 %i, %n",
        "  br i1 %more, label %one, label %end",
        "one:",
        "  %far = mul i64 %i, %step",
        f"  %row = mul i64 %i, {lanes * bytes_}",
        "  %to.row = getelementptr i8, ptr %to, i64 %row",
    ]
    for k in range(lanes):
        lines += [
            f"  %q{k} = getelementptr i8, ptr %a{k}, i64 %far",
            f"  %v{k} = load {kind}, ptr %q{k}, align {alignment(dtype)}",
            f"  %t{k} = getelementptr {kind}, ptr %to.row, i64 {k}",
            f"  store {kind} %v{k}, ptr %t{k}, align {alignment(dtype)}",
        ]
    lines += ["  %i.next = add i64 %i, 1", "  br label %one.head", "end:", "  ret void", "}"]
    return "\n".join(lines)


def apart(dtype: str, lanes: int) -> str:
    """A function that copies slices back: from where, addresses, how many numbers, and the step.

    Of 64 bits each. Numbers that shall follow each other are written four at a time.
    """
    kind = in_memory(dtype)
    vector = f"<4 x {kind}>"
    lines = [
        f"define internal void @apart.{dtype}(ptr %from, ptr %all, i64 %n, i64 %step) "
        "noinline nounwind #0 {",
        "entry:",
    ]
    for k in range(lanes):
        lines += [
            f"  %p{k} = getelementptr i64, ptr %all, i64 {k}",
            f"  %w{k} = load i64, ptr %p{k}, align 8",
            f"  %a{k} = inttoptr i64 %w{k} to ptr",
        ]
    lines += [
        "  %even = icmp eq i64 %step, 8",
        "  %quarters = and i64 %n, -4",
        "  %most = select i1 %even, i64 %quarters, i64 0",
        "  br label %four.head",
        "four.head:",
        "  %f = phi i64 [0, %entry], [%f.next, %four]",
        "  %f.more = icmp slt i64 %f, %most",
        "  br i1 %f.more, label %four, label %one.head",
        "four:",
        "  %f.far = shl i64 %f, 3",
        f"  %f.row = mul i64 %f, {8 * lanes}",
    ]
    for g in range(0, lanes, 4):
        for j in range(4):
            lines += [
                f"  %fo{g}.{j} = add i64 %f.row, {8 * (j * lanes + g)}",
                f"  %fq{g}.{j} = getelementptr i8, ptr %from, i64 %fo{g}.{j}",
                f"  %fv{g}.{j} = load {vector}, ptr %fq{g}.{j}, align 8",
            ]
        turned, found = _square(vector, g, [f"%fv{g}.{j}" for j in range(4)])
        lines += turned
        for k, value in enumerate(found, g):
            lines += [
                f"  %ft{k} = getelementptr i8, ptr %a{k}, i64 %f.far",
                f"  store {vector} {value}, ptr %ft{k}, align 8",
            ]
    lines += [
        "  %f.next = add i64 %f, 4",
        "  br label %four.head",
        "one.head:",
        "  %i = phi i64 [%f, %four.head], [%i.next, %one]",
        "  %more = icmp slt i64 %i, %n",
        "  br i1 %more, label %one, label %end",
        "one:",
        "  %far = mul i64 %i, %step",
        f"  %row = mul i64 %i, {8 * lanes}",
        "  %from.row = getelementptr i8, ptr %from, i64 %row",
    ]
    for k in range(lanes):
        lines += [
            f"  %t{k} = getelementptr {kind}, ptr %from.row, i64 {k}",
            f"  %v{k} = load {kind}, ptr %t{k}, align 8",
            f"  %q{k} = getelementptr i8, ptr %a{k}, i64 %far",
            f"  store {kind} %v{k}, ptr %q{k}, align 8",
        ]
    lines += ["  %i.next = add i64 %i, 1", "  br label %one.head", "end:", "  ret void", "}"]
    return "\n".join(lines)


def _four(kind: str, lanes: int) -> list[str]:
    """Four numbers of four slices at a time, turned in registers."""
    vector = f"<4 x {kind}>"
    lines = ["  %f.far = shl i64 %f, 3"]
    for g in range(0, lanes, 4):
        for k in range(g, g + 4):
            lines += [
                f"  %fq{k} = getelementptr i8, ptr %a{k}, i64 %f.far",
                f"  %fv{k} = load {vector}, ptr %fq{k}, align 8",
            ]
        turned, found = _square(vector, g, [f"%fv{k}" for k in range(g, g + 4)])
        lines += turned
        for j, value in enumerate(found):
            lines += [
                f"  %fi{g}.{j} = add i64 %f, {j}",
                f"  %fm{g}.{j} = mul i64 %fi{g}.{j}, {8 * lanes}",
                f"  %fs{g}.{j} = add i64 %fm{g}.{j}, {8 * g}",
                f"  %ft{g}.{j} = getelementptr i8, ptr %to, i64 %fs{g}.{j}",
                f"  store {vector} {value}, ptr %ft{g}.{j}, align 8",
            ]
    return lines


def _square(vector: str, g: int, rows: list[str]) -> tuple[list[str], list[str]]:
    """Four rows of four numbers, transposed: the text, and the rows."""
    a, b, c, d = rows
    even, odd, first, last = (0, 4, 2, 6), (1, 5, 3, 7), (0, 1, 4, 5), (2, 3, 6, 7)
    lo, hi, lo2, hi2 = (f"%f{name}.{g}" for name in ("lo", "hi", "lo2", "hi2"))
    lines = [
        f"  {name} = {_turned(vector, *pair, order)}"
        for name, pair, order in (
            (lo, (a, b), even), (hi, (a, b), odd), (lo2, (c, d), even), (hi2, (c, d), odd),
        )
    ]  # fmt: skip
    found = [f"%fr{g}.{j}" for j in range(4)]
    for name, pair, order in zip(
        found, ((lo, lo2), (hi, hi2)) * 2, (first, first, last, last), strict=True
    ):
        lines.append(f"  {name} = {_turned(vector, *pair, order)}")
    return lines, found


def _turned(vector: str, a: str, b: str, order: tuple[int, ...]) -> str:
    mask = ", ".join(f"i32 {k}" for k in order)
    return f"shufflevector {vector} {a}, {vector} {b}, <4 x i32> <{mask}>"

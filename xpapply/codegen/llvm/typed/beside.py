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
        pairs = {}
        for name, a, b, order in (
            ("lo", g, g + 1, (0, 4, 2, 6)), ("hi", g, g + 1, (1, 5, 3, 7)),
            ("lo2", g + 2, g + 3, (0, 4, 2, 6)), ("hi2", g + 2, g + 3, (1, 5, 3, 7)),
        ):  # fmt: skip
            pairs[name] = f"%f{name}.{g}"
            lines.append(f"  {pairs[name]} = {_turned(vector, f'%fv{a}', f'%fv{b}', order)}")
        for j, (a_name, b_name, order) in enumerate(
            (
                ("lo", "lo2", (0, 1, 4, 5)), ("hi", "hi2", (0, 1, 4, 5)),
                ("lo", "lo2", (2, 3, 6, 7)), ("hi", "hi2", (2, 3, 6, 7)),
            )
        ):  # fmt: skip
            lines += [
                f"  %fr{g}.{j} = {_turned(vector, pairs[a_name], pairs[b_name], order)}",
                f"  %fi{g}.{j} = add i64 %f, {j}",
                f"  %fm{g}.{j} = mul i64 %fi{g}.{j}, {8 * lanes}",
                f"  %fs{g}.{j} = add i64 %fm{g}.{j}, {8 * g}",
                f"  %ft{g}.{j} = getelementptr i8, ptr %to, i64 %fs{g}.{j}",
                f"  store {vector} %fr{g}.{j}, ptr %ft{g}.{j}, align 8",
            ]
    return lines


def _turned(vector: str, a: str, b: str, order: tuple[int, ...]) -> str:
    mask = ", ".join(f"i32 {k}" for k in order)
    return f"shufflevector {vector} {a}, {vector} {b}, <4 x i32> <{mask}>"

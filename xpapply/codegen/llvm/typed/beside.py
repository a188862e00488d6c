"""Slices beside each other: each element of one next to the same element of the others."""

from __future__ import annotations

from ....ir.typed.function import PARTS
from .forms import alignment, in_memory, size


def copies(dtype: str, lanes: int, back: bool = False) -> str:
    """A function that copies slices beside each other, or back.

    Where they lie so, the addresses of their own, how many numbers each has, and the step. Numbers
    of 64 bits that follow each other are copied four at a time.
    """
    kind, bytes_ = in_memory(dtype), size(dtype)
    align, row = f"align {alignment(dtype)}", lanes * size(dtype)
    lines = [
        f"define internal void @{'apart' if back else 'beside'}.{dtype}"
        "(ptr %tile, ptr %all, i64 %n, i64 %step) noinline nounwind #0 {",
        "entry:",
    ]
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
            "  %f.far = shl i64 %f, 3",
            f"  %f.row = mul i64 %f, {row}",
            *(line for g in range(0, lanes, 4) for line in _four(f"<4 x {kind}>", g, row, back)),
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
        f"  %row = mul i64 %i, {row}",
        "  %tile.row = getelementptr i8, ptr %tile, i64 %row",
    ]
    for k in range(lanes):
        from_, to = (f"%t{k}", f"%q{k}") if back else (f"%q{k}", f"%t{k}")
        lines += [
            f"  %q{k} = getelementptr i8, ptr %a{k}, i64 %far",
            f"  %t{k} = getelementptr {kind}, ptr %tile.row, i64 {k}",
            f"  %v{k} = load {kind}, ptr {from_}, {align}",
            f"  store {kind} %v{k}, ptr {to}, {align}",
        ]
    lines += ["  %i.next = add i64 %i, 1", "  br label %one.head", "end:", "  ret void", "}"]
    return "\n".join(lines)


def _four(vector: str, g: int, row: int, back: bool) -> list[str]:
    """Four numbers of four slices at a time, turned in registers."""
    own, rows = [f"%fq{k}" for k in range(g, g + 4)], [f"%ft{g}.{j}" for j in range(4)]
    lines = []
    for j in range(4):
        lines += [
            f"  {own[j]} = getelementptr i8, ptr %a{g + j}, i64 %f.far",
            f"  %fr.at{g}.{j} = add i64 %f.row, {j * row + 8 * g}",
            f"  {rows[j]} = getelementptr i8, ptr %tile, i64 %fr.at{g}.{j}",
        ]
    from_, to = (rows, own) if back else (own, rows)
    values = [f"%fv{g}.{j}" for j in range(4)]
    lines += [
        f"  {v} = load {vector}, ptr {p}, align 8" for v, p in zip(values, from_, strict=True)
    ]
    turned, found = _square(vector, g, values)
    lines += turned
    return lines + [
        f"  store {vector} {v}, ptr {p}, align 8" for v, p in zip(found, to, strict=True)
    ]


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

"""The text of a formula as a function of LLVM's: eight elements at once, then what is left."""

from __future__ import annotations

import itertools
from typing import Any

from ..forms import machine, size, suffix
from ..function import FunctionWriter

Tree = Any
"""An operation and its operands: "a" for an array, "n" for a number, or trees."""
_COUNTS = (8, 4, 2, 1)


def letters_of(tree: Tree) -> list[str]:
    """The arrays and numbers of a formula."""
    return [tree] if isinstance(tree, str) else [x for part in tree[1:] for x in letters_of(part)]


def called(w: FunctionWriter, tree: Tree, dtype: str) -> tuple[str, list[str]]:
    """The name of the function, which is written once, and the types of the operands."""
    kind, letters = machine(dtype), letters_of(tree)
    kinds = ["ptr" if x == "a" else kind for x in letters]
    said = str(tree).translate({ord(x): "" for x in "', "} | {ord("("): ".", ord(")"): "_"})
    full = f"@formula.{dtype}{said}"
    if full not in w.declared:
        w.declared[full] = ""  # its place, before what it calls
        names = [f"{of} %x{k}" for k, of in enumerate(kinds)]
        lines = [f"define internal void {full}({', '.join([*names, 'ptr %to', 'i64 %n'])})"]
        lines += [" noinline nounwind #4 {\nentry:\n  br label %head8\nhead8:"]
        lines += ["  %at8 = phi i64 [0, %entry], [%next8, %body8]", "  %far = add i64 %at8, 8"]
        lines += ["  %is8 = icmp sle i64 %far, %n", "  br i1 %is8, label %body8, label %head4"]
        for many, fewer in itertools.pairwise((*_COUNTS, 0)):
            if many < _COUNTS[0]:
                before = [f"[%at{2 * many}, %head{2 * many}]"]
                before += [f"[%next{2 * many}, %body{2 * many}]"] * (many < 4)
                lines += [f"head{many}:", f"  %at{many} = phi i64 {', '.join(before)}"]
                lines += [f"  %left{many} = and i64 %n, {many}"]
                lines += [f"  %is{many} = icmp ne i64 %left{many}, 0"]
                lines += [f"  br i1 %is{many}, label %body{many}, label %head{fewer}"]
            lines += [f"body{many}:", *_Elements(w, tree, dtype, many).lines]
            lines += [f"  %next{many} = add i64 %at{many}, {many}"]
            lines += [f"  br label %head{many if many == _COUNTS[0] else fewer}"]
        w.declared[full] = "\n".join([*lines, "head0:", "  ret void", "}"])
    return full, kinds


class _Elements:
    """Writes so many elements."""

    def __init__(self, w: FunctionWriter, tree: Tree, dtype: str, count: int) -> None:
        self._w, self._count, self._kind = w, count, machine(dtype)
        self._of = f"<{count} x {self._kind}>" if count > 1 else self._kind
        self._where = f"align {size(dtype)}, !tbaa !5"
        self._names, self._operands = itertools.count(), itertools.count()
        self.lines: list[str] = []
        found = self._value(tree)
        place = self._emit(f"getelementptr {self._kind}, ptr %to, i64 %at{count}")
        self.lines.append(f"  store {self._of} {found}, ptr {place}, {self._where}")

    def _emit(self, instruction: str) -> str:
        name = f"%v{self._count}.{next(self._names)}"
        self.lines.append(f"  {name} = {instruction}")
        return name

    def _value(self, tree: Tree) -> str:
        of, kind = self._of, self._kind
        if tree == "a":
            far = f"getelementptr {kind}, ptr %x{next(self._operands)}, i64 %at{self._count}"
            return self._emit(f"load {of}, ptr {self._emit(far)}, {self._where}")
        if tree == "n":
            number = f"%x{next(self._operands)}"
            if self._count == 1:
                return number
            one = self._emit(f"insertelement {of} poison, {kind} {number}, i64 0")
            zeros = f"<{self._count} x i32> zeroinitializer"
            return self._emit(f"shufflevector {of} {one}, {of} poison, {zeros}")
        name, *parts = tree
        values = [self._value(part) for part in parts]
        if name == "fneg":
            return self._emit(f"fneg {of} {values[0]}")
        if name == "square":
            name, values = "fmul", values * 2
        full = f"llvm.experimental.constrained.{name}.{suffix(of)}"
        self._w.declared[full] = f"declare {of} @{full}({of}, {of}, metadata, metadata)"
        how = 'metadata !"round.tonearest", metadata !"fpexcept.strict"'
        given = ", ".join(f"{of} {v}" for v in values)
        return self._emit(f"call {of} @{full}({given}, {how}) #2")

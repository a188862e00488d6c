"""A function's statements as steps."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from .steps import Const, Operand, Writer

BINARY = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%",
    ast.Pow: "**", ast.LShift: "<<", ast.RShift: ">>", ast.BitAnd: "&", ast.BitOr: "|",
    ast.BitXor: "^", ast.MatMult: "@",
}  # fmt: skip
"""Operators of two operands."""


class Statements(Writer):
    """Writes statements; a class that extends it has what writes expressions."""

    def __init__(self) -> None:
        super().__init__()
        self._loops: list[tuple[int, int]] = []

    def expression(self, e: ast.expr) -> Operand:
        """Where the value of an expression is."""
        raise NotImplementedError

    def branch(self, test: ast.expr, yes: int, no: int) -> None:
        """Go on at one of two places."""
        raise NotImplementedError

    def index(self, e: ast.expr) -> Operand:
        """An index: with slices."""
        raise NotImplementedError

    def _name(self, name: str, line: int) -> Operand:
        raise NotImplementedError

    def _renamed_name(self, name: str) -> str:
        raise NotImplementedError

    def body(self, statements: Sequence[ast.stmt]) -> None:
        for s in statements:
            if not self._open:  # what is never reached
                return
            method = getattr(self, f"_{type(s).__name__}", None)
            if method is None:
                raise self._refuse(_STATEMENTS.get(type(s).__name__, type(s).__name__), s)
            method(s)

    def _Pass(self, s: ast.Pass) -> None:
        pass

    def _Expr(self, s: ast.Expr) -> None:
        if not isinstance(s.value, ast.Constant):
            self.expression(s.value)

    def _Assign(self, s: ast.Assign) -> None:
        value = self.expression(s.value)
        for target in s.targets:
            self.assign(target, value)

    def _AnnAssign(self, s: ast.AnnAssign) -> None:
        if s.value is not None:
            self.assign(s.target, self.expression(s.value))

    def _AugAssign(self, s: ast.AugAssign) -> None:
        op = BINARY[type(s.op)]
        if isinstance(s.target, ast.Name):
            before = self._name(s.target.id, s.lineno)
            value = self._step("inplace", s.lineno, op, before, self.expression(s.value))
            self.assign(s.target, value)
        elif isinstance(s.target, ast.Subscript):
            holder = self.expression(s.target.value)
            index = self.index(s.target.slice)
            before = self._step("item", s.lineno, holder, index)
            value = self._step("inplace", s.lineno, op, before, self.expression(s.value))
            self._do("set item", s.lineno, holder, index, value)
        else:
            raise self._refuse("it sets attributes", s)

    def assign(self, target: ast.expr, value: Operand) -> None:
        """Give a value to a name, to several, or to an element."""
        line = target.lineno
        if isinstance(target, ast.Name):
            self._step("copy", line, value, to=self._renamed_name(target.id))
        elif isinstance(target, (ast.Tuple, ast.List)):
            if any(isinstance(t, ast.Starred) for t in target.elts):
                raise self._refuse("it unpacks into a starred name", target)
            count = len(target.elts)
            held = self._step("unpack", line, value, Const(count))
            for k, t in enumerate(target.elts):
                self.assign(t, self._step("part", line, held, Const(k)))
        elif isinstance(target, ast.Subscript):
            holder = self.expression(target.value)
            self._do("set item", line, holder, self.index(target.slice), value)
        else:
            raise self._refuse("it sets attributes", target)

    def _Return(self, s: ast.Return) -> None:
        value = Const(None) if s.value is None else self.expression(s.value)
        self._end("return", s.lineno, value)

    def _If(self, s: ast.If) -> None:
        yes, no, after = self._part(), self._part(), self._part()
        self.branch(s.test, yes, no)
        for at, statements in ((yes, s.body), (no, s.orelse)):
            self._here = at
            self.body(statements)
            self._jump(after)
        self._here = after

    def _While(self, s: ast.While) -> None:
        head, inside, done, after = (self._part() for _ in range(4))
        self._jump(head)
        self._here = head
        self._do("round", s.lineno)
        self.branch(s.test, inside, done)
        self._looped(s, inside, head, done, after)

    def _For(self, s: ast.For) -> None:
        iterator = self._step("iterator", s.lineno, self.expression(s.iter))
        head, inside, done, after = (self._part() for _ in range(4))
        self._jump(head)
        self._here = head
        self._end("more", s.lineno, iterator, to=(inside, done))
        self._here = inside
        self.assign(s.target, self._step("next", s.lineno, iterator))
        self._looped(s, inside, head, done, after)

    def _looped(
        self, s: ast.While | ast.For, inside: int, head: int, done: int, after: int
    ) -> None:
        self._here = inside
        self._loops.append((head, after))
        self.body(s.body)
        self._loops.pop()
        self._jump(head)
        self._here = done
        self.body(s.orelse)
        self._jump(after)
        self._here = after

    def _Break(self, s: ast.Break) -> None:
        self._jump(self._loops[-1][1])

    def _Continue(self, s: ast.Continue) -> None:
        self._jump(self._loops[-1][0])

    def _Raise(self, s: ast.Raise) -> None:
        self._end("leave", s.lineno, "it raises")

    def _Assert(self, s: ast.Assert) -> None:
        good, bad = self._part(), self._part()
        self.branch(s.test, good, bad)
        self._here = bad
        self._end("leave", s.lineno, "an assertion fails")
        self._here = good

    def _Try(self, s: ast.Try) -> None:
        leaves = ast.Return, ast.Break, ast.Continue
        if s.finalbody and any(isinstance(n, leaves) for n in ast.walk(s)):
            raise self._refuse("it leaves a try statement that has a finally", s)
        self.body([*s.body, *s.orelse, *s.finalbody])

    def _ImportFrom(self, s: ast.ImportFrom) -> None:
        if s.level or s.module is None:
            raise self._refuse("it imports from its own package", s)
        for alias in s.names:
            if alias.name == "*":
                raise self._refuse("it imports all names of a module", s)
            module = self._step("module", s.lineno, Const(s.module))
            name = alias.asname or alias.name
            self._step("attribute", s.lineno, alias.name, module, to=self._renamed_name(name))

    def _Import(self, s: ast.Import) -> None:
        for alias in s.names:
            name = alias.name if alias.asname else alias.name.partition(".")[0]
            known = alias.asname or name
            self._step("module", s.lineno, Const(name), to=self._renamed_name(known))


_STATEMENTS = {
    "With": "a with statement", "Delete": "it deletes something", "Global": "it writes a global",
    "Nonlocal": "it writes a variable of an enclosing function", "Match": "a match statement",
    "FunctionDef": "it defines a function", "ClassDef": "it defines a class",
    "AsyncFor": "an asynchronous loop", "TryStar": "except*",
}  # fmt: skip

"""A function's statements as steps."""

from __future__ import annotations

import ast
import copy
import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

from .....library import of_iteration
from .steps import RAISED, YIELDED, Const, Names, Operand, Writer, changes_nothing, is_calm

BINARY = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%",
    ast.Pow: "**", ast.LShift: "<<", ast.RShift: ">>", ast.BitAnd: "&", ast.BitOr: "|",
    ast.BitXor: "^", ast.MatMult: "@",
}  # fmt: skip
"""Operators of two operands."""


class _Loop(NamedTuple):
    """The targets of `continue` and `break`, and what has to be left before."""

    head: int
    after: int
    around: int


class _Around(NamedTuple):
    """A `finally` or handlers around statements."""

    leave: Callable[[], None]
    handler: int | None


class Statements(Writer):
    """Writes statements; a class that extends it has what writes expressions."""

    def __init__(self, tree: ast.FunctionDef | ast.Lambda) -> None:
        super().__init__()
        self._tree, self._names = tree, Names(tree)
        self._loops: list[_Loop] = []
        self._around: list[_Around] = []
        self._exceptions: list[str] = []
        self._growing: frozenset[str] = frozenset()
        self._texts: frozenset[str] = frozenset()
        self._yields = False

    def expression(self, e: ast.expr) -> Operand:
        """Write an expression; return the operand that holds it."""
        raise NotImplementedError

    def branch(self, test: ast.expr, yes: int, no: int) -> None:
        """Go on at one of two places."""
        raise NotImplementedError

    def index(self, e: ast.expr) -> Operand:
        """An index: with slices."""
        raise NotImplementedError

    def set_name(self, name: str, value: Operand, line: int) -> None:
        """Give a name a value."""
        raise NotImplementedError

    def function(self, tree: ast.FunctionDef | ast.Lambda) -> Operand:
        """A function that is defined here."""
        raise NotImplementedError

    def read(self, name: str, line: int) -> Operand:
        """The value of a name."""
        raise NotImplementedError

    def _renamed_name(self, name: str) -> str:
        raise NotImplementedError

    def _is_local(self, name: str) -> bool:
        """Whether a name is one of the function's own."""
        raise NotImplementedError

    def body(self, statements: Sequence[ast.stmt]) -> None:
        some = list(statements)
        for k, s in enumerate(some):
            if not self._open:  # what is never reached
                return
            if k + 1 < len(some) and (joined := self._used_at_once(s, some[k + 1])) is not None:
                some[k + 1] = joined
                continue
            method = getattr(self, f"_{type(s).__name__}", None)
            if method is None:
                raise self._refuse(_STATEMENTS.get(type(s).__name__, type(s).__name__), s)
            method(s)

    def _used_at_once(self, s: ast.stmt, after: ast.stmt) -> ast.stmt | None:
        """The statement after one that names a generator, with that in it, if it uses it up."""
        if not isinstance(s, ast.Assign) or not isinstance(s.value, ast.GeneratorExp):
            return None
        (target, *others), inside = s.targets, {id(n) for n in ast.walk(s)}
        if others or not isinstance(target, ast.Name):
            return None
        uses = [n for n in ast.walk(self._tree) if isinstance(n, ast.Name) and n.id == target.id]
        uses = [n for n in uses if id(n) not in inside]
        plain = isinstance(after, (ast.Assign, ast.AugAssign, ast.Return, ast.Expr))
        calls = [n for n in ast.walk(after) if isinstance(n, ast.Call)]
        if len(uses) != 1 or not plain or len(calls) != 1:
            return None
        (call,) = calls
        if not any(a is uses[0] for a in call.args):
            return None
        joined = copy.deepcopy(after)
        for call in (n for n in ast.walk(joined) if isinstance(n, ast.Call)):
            is_use = [isinstance(a, ast.Name) and a.id == target.id for a in call.args]
            call.args = [s.value if u else a for u, a in zip(is_use, call.args, strict=True)]
        return joined

    def _Pass(self, s: ast.Pass) -> None:
        pass

    def _Expr(self, s: ast.Expr) -> None:
        if isinstance(s.value, ast.Yield):
            given = s.value.value
            value = Const(None) if given is None else self.expression(given)
            self._do("append", s.lineno, YIELDED, value)
        elif isinstance(s.value, ast.YieldFrom):
            self._yield_all(s.value)
        elif not isinstance(s.value, ast.Constant):
            self.expression(s.value)

    def _yield_all(self, e: ast.YieldFrom) -> None:
        iterator = self._step("iterator", e.lineno, self.expression(e.value))
        head, inside, after = (self._part() for _ in range(3))
        self._jump(head)
        self._here = head
        self._end("more", e.lineno, iterator, to=(inside, after))
        self._here = inside
        self._do("append", e.lineno, YIELDED, self._step("next", e.lineno, iterator))
        self._jump(head)
        self._here = after

    def begin_generator(self) -> None:
        """Make the list of what it gives; refuse one that is not the same when it runs at once."""
        inside = [n for s in self._tree.body for n in ast.walk(s)]  # type: ignore[union-attr]
        for n in inside:
            endless = isinstance(n, ast.While) and isinstance(n.test, ast.Constant) and n.test.value
            ends = (ast.Break, ast.Return, ast.Raise)
            if endless and not any(isinstance(x, ends) for x in ast.walk(n)):
                raise self._refuse("a generator without an end", n)
        if not changes_nothing(inside, self._names):
            raise self._refuse("a generator that changes something: a list instead", self._tree)
        self._step("list", self._tree.lineno, (), to=YIELDED)

    def end_generator(self, line: int) -> None:
        """Go back with what goes through it."""
        made = self._step("call", line, ((), ()), Const(of_iteration.generated), YIELDED)
        self._left(0, lambda: self._end("return", line, made))

    def _Assign(self, s: ast.Assign) -> None:
        if isinstance(s.value, ast.List) and any(
            isinstance(x, ast.Name) and x.id in self._growing for x in s.targets
        ):
            items = tuple(map(self.expression, s.value.elts))
            value: Operand = self._step("list", s.lineno, items, Const(True))
        elif (
            isinstance(s.value, ast.Constant)
            and type(s.value.value) is str
            and any(isinstance(x, ast.Name) and x.id in self._texts for x in s.targets)
        ):
            value = self._step("text", s.lineno, Const(s.value.value))
        else:
            value = self.expression(s.value)
        if isinstance(s.value, (ast.Call, ast.GeneratorExp)) and type(s.targets[0]) is ast.Name:
            calm = functools.partial(_stays, s.value, self._tree)
            value = self._step("keep", s.lineno, value, Const(calm))
        for target in s.targets:
            self.assign(target, value)

    def _AnnAssign(self, s: ast.AnnAssign) -> None:
        if s.value is not None:
            self.assign(s.target, self.expression(s.value))

    def _AugAssign(self, s: ast.AugAssign) -> None:
        op = BINARY[type(s.op)]
        if isinstance(s.target, ast.Name):
            before = self.read(s.target.id, s.lineno)
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
            self.set_name(target.id, value, line)
        elif isinstance(target, (ast.Tuple, ast.List)):
            count = len(target.elts)
            before = next((k for k, t in enumerate(target.elts) if type(t) is ast.Starred), None)
            if before is None:
                held = self._step("unpack", line, value, Const(count))
            else:
                after = Const(count - 1 - before)
                held = self._step("unpack some", line, value, Const(before), after)
                rest = self._step("rest", line, value, Const(before), after)
            for k, t in enumerate(target.elts):
                if isinstance(t, ast.Starred):
                    self.assign(t.value, rest)
                    continue
                self.assign(t, self._step("part", line, held, Const(k)))
        elif isinstance(target, ast.Subscript):
            holder = self.expression(target.value)
            self._do("set item", line, holder, self.index(target.slice), value)
        elif isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
            name = target.value.id
            if not self._is_local(name):
                raise self._refuse("it sets attributes", target)
            holder = self.read(name, line)
            self.set_name(name, self._step("attribute", line, target.attr, holder, value), line)
        else:
            raise self._refuse("it sets attributes", target)

    def _Delete(self, s: ast.Delete) -> None:
        for target in s.targets:
            if not isinstance(target, ast.Subscript):
                raise self._refuse("it deletes a name", s)
            holder = self.expression(target.value)
            self._do("delete", s.lineno, holder, self.index(target.slice))

    def _Return(self, s: ast.Return) -> None:
        if self._yields:
            self.end_generator(s.lineno)
            return
        value = Const(None) if s.value is None else self.expression(s.value)
        if self._around and not isinstance(value, Const):
            value = self._step("copy", s.lineno, value)
        self._left(0, lambda: self._end("return", s.lineno, self.result(value, s.lineno)))

    def result(self, value: Operand, line: int) -> Operand:
        """A result: of a text that is put together its letters."""
        if isinstance(value, Const) and type(value.value) is not str:
            return value
        return self._step("result", line, value)

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
        calm = Const(is_calm(s.iter, s.body, self._names))
        iterator = self._step("iterator", s.lineno, self.expression(s.iter), calm)
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
        self._loops.append(_Loop(head, after, len(self._around)))
        self.body(s.body)
        self._loops.pop()
        self._jump(head)
        self._here = done
        self.body(s.orelse)
        self._jump(after)
        self._here = after

    def _Break(self, s: ast.Break) -> None:
        loop = self._loops[-1]
        self._left(loop.around, lambda: self._jump(loop.after))

    def _Continue(self, s: ast.Continue) -> None:
        loop = self._loops[-1]
        self._left(loop.around, lambda: self._jump(loop.head))

    def _Raise(self, s: ast.Raise) -> None:
        if s.exc is None:
            self._raised_again(s.lineno)
        elif isinstance(s.exc, ast.Call):
            self._raised(s.exc.func, s.exc.args, s.exc.keywords, s.cause, s)
        else:
            self._raised(s.exc, [], [], s.cause, s)

    def _raised_again(self, line: int) -> None:
        if self._exceptions:
            self._end("raise", line, self._exceptions[-1])
        else:  # what its caller handles
            self._end("leave", line, "it raises what is handled elsewhere")

    def _raised(
        self,
        what: ast.expr,
        args: Sequence[ast.expr],
        keywords: Sequence[ast.keyword],
        cause: ast.expr | None,
        s: ast.stmt,
    ) -> None:
        """Write an exception; its message is not computed if that has no effects."""
        said = [*args, *([] if cause is None else [cause])]
        if keywords or not all(map(_is_plain, said)):
            self._end("leave", s.lineno, "it raises")
            return
        raised = self.expression(what)
        for n in (n for x in said for n in ast.walk(x)):
            if isinstance(n, ast.Name):  # that it has a value
                self.read(n.id, s.lineno)
        self._end("raise", s.lineno, raised)

    def _Assert(self, s: ast.Assert) -> None:
        if not __debug__:
            return
        good, bad = self._part(), self._part()
        self.branch(s.test, good, bad)
        self._here = bad
        if s.msg is None or _is_plain(s.msg):
            self._end("raise", s.lineno, Const(AssertionError))
        else:
            self._end("leave", s.lineno, "an assertion fails")
        self._here = good

    def _Nonlocal(self, s: ast.Nonlocal) -> None:
        pass

    def _FunctionDef(self, s: ast.FunctionDef) -> None:
        if s.decorator_list:
            raise self._refuse("it defines a function with a decorator", s)
        self.set_name(s.name, self.function(s), s.lineno)

    # --- match ----------------------------------------------------------------------------

    def _Match(self, s: ast.Match) -> None:
        subject = self._step("copy", s.lineno, self.expression(s.subject))
        after = self._part()
        for case in s.cases:
            other = self._part()
            named: dict[str, str] = {}
            self._pattern(case.pattern, subject, other, named)
            for name, value in named.items():
                self.set_name(name, value, case.pattern.lineno)
            if case.guard is not None:
                inside = self._part()
                self.branch(case.guard, inside, other)
                self._here = inside
            self.body(case.body)
            self._jump(after)
            self._here = other
        self._jump(after)
        self._here = after

    def _pattern(self, p: ast.pattern, x: str, other: int, named: dict[str, str]) -> None:
        """Go on where a value is like a pattern, and elsewhere where it is not.

        `named`: gets names, and where their values are.
        """
        if isinstance(p, ast.MatchValue):
            self._tested(
                self._step("compare", p.lineno, "==", x, self.expression(p.value)), p, other
            )
        elif isinstance(p, ast.MatchSingleton):
            self._tested(self._step("compare", p.lineno, "is", x, Const(p.value)), p, other)
        elif isinstance(p, ast.MatchAs):
            if p.pattern is not None:
                self._pattern(p.pattern, x, other, named)
            if p.name is not None:
                named[p.name] = x
        elif isinstance(p, ast.MatchOr):
            self._one_of(p, x, other, named)
        elif isinstance(p, ast.MatchClass) and not (p.patterns or p.kwd_attrs):
            given = (), Const(isinstance), x, self.expression(p.cls)
            self._tested(self._step("call", p.lineno, ((), given[0]), *given[1:]), p, other)
        elif isinstance(p, ast.MatchSequence):
            if any(isinstance(q, ast.MatchStar) for q in p.patterns):
                raise self._refuse("a pattern with *", p)
            count = Const(len(p.patterns))
            self._tested(self._step("has parts", p.lineno, x, count), p, other)
            held = self._step("unpack", p.lineno, x, count)
            for k, q in enumerate(p.patterns):
                self._pattern(q, self._step("part", p.lineno, held, Const(k)), other, named)
        else:
            raise self._refuse("a pattern of a mapping or an object", p)

    def _tested(self, answer: str, p: ast.pattern, other: int) -> None:
        further = self._part()
        self._end("branch", p.lineno, answer, to=(further, other))
        self._here = further

    def _one_of(self, p: ast.MatchOr, x: str, other: int, named: dict[str, str]) -> None:
        after = self._part()
        held: dict[str, str] = {}
        for q in p.patterns:
            last = q is p.patterns[-1]
            none = other if last else self._part()
            own: dict[str, str] = {}
            self._pattern(q, x, none, own)
            for name, value in own.items():
                at = held.setdefault(name, self._new_name())
                self._step("copy", q.lineno, value, to=at)
            self._jump(after)
            self._here = none
        named |= held
        self._here = after

    # --- exceptions -----------------------------------------------------------------------

    def _under(self, handler: int | None) -> None:
        """Go on in a part of which a handler catches the exceptions."""
        self._handler = handler
        part = self._part()
        self._jump(part)
        self._here = part

    def _left(self, depth: int, go: Callable[[], None]) -> None:
        """Do what is around the statements, down to a depth, and go on elsewhere."""
        around, handler = list(self._around), self._handler
        while len(self._around) > depth:
            last = self._around.pop()
            self._under(last.handler)
            last.leave()
        go()
        self._around, self._handler = around, handler

    def _guarded(self, inside: Callable[[], None], leave: Callable[[], None], line: int) -> None:
        """``try: inside() finally: leave()``."""
        outer = self._handler
        failed = self._part()
        self._around.append(_Around(leave, outer))
        self._under(failed)
        inside()
        self._around.pop()
        self._under(outer)
        leave()
        after = self._part()
        self._jump(after)
        self._here = failed
        self._exceptions.append(self._step("copy", line, RAISED))
        leave()
        self._end("raise", line, self._exceptions.pop())
        self._here = after

    def _Try(self, s: ast.Try) -> None:
        if s.finalbody:
            self._guarded(lambda: self._handled(s), lambda: self.body(s.finalbody), s.lineno)
        else:
            self._handled(s)

    def _handled(self, s: ast.Try) -> None:
        """A try statement, but for its finally."""
        if not s.handlers:
            self.body(s.body)
            return
        outer, after, caught = self._handler, self._part(), self._part()
        self._under(caught)
        self.body(s.body)
        self._under(outer)
        self.body(s.orelse)
        self._jump(after)
        self._here = caught
        held = self._step("copy", s.lineno, RAISED)
        for h in s.handlers:
            this, other = self._part(), self._part()
            if h.type is None:
                self._jump(this)
            else:
                kind = self.expression(h.type)
                answer = self._step("catches", h.lineno, held, kind)
                self._end("branch", h.lineno, answer, to=(this, other))
            self._here = this
            self._exceptions.append(held)
            if h.name is not None:
                self._step("copy", h.lineno, held, to=self._renamed_name(h.name))
            self.body(h.body)
            if h.name is not None:
                self._do("forget", h.lineno, Const(self._renamed_name(h.name)))
            self._exceptions.pop()
            self._jump(after)
            self._here = other
        self._end("raise", s.lineno, held)
        self._here = after

    def _With(self, s: ast.With) -> None:
        self._within(list(s.items), s)

    def _within(self, items: list[ast.withitem], s: ast.With) -> None:
        if not items:
            self.body(s.body)
            return
        if items[0].optional_vars is not None:
            raise self._refuse("a with statement that names something", s)
        manager = self.expression(items[0].context_expr)
        before = self._step("enter", s.lineno, manager)
        self._guarded(
            lambda: self._within(items[1:], s),
            lambda: self._do("exit", s.lineno, before),
            s.lineno,
        )

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


def _stays(value: ast.expr, tree: ast.FunctionDef | ast.Lambda) -> bool:
    """Whether a function changes nothing that a kept iterator reads."""
    body = tree.body if isinstance(tree, ast.FunctionDef) else [tree.body]
    if any(isinstance(n, (ast.With, ast.Try)) for s in body for n in ast.walk(s)):
        return False
    return is_calm(value, body, Names(tree))


def _is_plain(e: ast.expr) -> bool:
    """Whether an unused value need not be computed."""
    if isinstance(e, ast.JoinedStr):
        return all(map(_is_plain, e.values))
    if isinstance(e, ast.FormattedValue):
        return e.format_spec is None and _is_plain(e.value)
    return isinstance(e, (ast.Constant, ast.Name))


_STATEMENTS = {
    "Global": "it writes a global", "ClassDef": "it defines a class",
    "AsyncFor": "an asynchronous loop", "TryStar": "except*",
}  # fmt: skip

"""A function's statements as blocks of steps, each on names: how control flows is plain then.

Nothing is known of types here. ``for``, ``while``, ``and``, ``or``, conditional expressions,
chained comparisons and comprehensions become branches. An exception that compiled code would
raise is the Python function's own to raise and to catch: so of ``try`` only its body is left.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable

from .....errors import TraceError
from .....library import of_iteration
from .formats import Formats, constant_of, counts_bits
from .statements import BINARY
from .steps import Const, Flow, Operand, Step, drop_reads, find_live, is_calm


def flow_of(tree: ast.FunctionDef | ast.Lambda, outer: _Reader | None = None) -> Flow:
    """The parts of a function; `outer`: what reads the one that defines it.

    Raises
    ------
    TraceError
        If it has statements that are not read; with the line.
    """
    reader = _Reader(tree, outer)
    drop_reads(reader.parts)
    find_live(reader.parts)
    name = getattr(tree, "name", "<lambda>")
    in_turn = outer is not None and _calls_in_turn(tree, outer)
    return Flow(name, tree.args, reader.parts, frozenset(reader.shared), in_turn)


_COMPARE = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
    ast.Is: "is", ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in",
}  # fmt: skip
_OF_THEIR_OWN = sys.version_info < (3, 12)
"""Whether comprehensions are functions of their own, with free variables."""
_Comprehension = ast.ListComp | ast.GeneratorExp | ast.DictComp | ast.SetComp
_UNARY = {ast.USub: "-", ast.UAdd: "+", ast.Invert: "~"}


class _Reader(Formats):
    """Reads one function."""

    def __init__(self, tree: ast.FunctionDef | ast.Lambda, outer: _Reader | None) -> None:
        super().__init__(tree)
        self._outer = outer
        self.shared: set[str] = set()
        self._renamed: list[dict[str, str]] = []
        self._locals = _assigned(tree)
        self._growing = _growing(tree)
        self._texts = _growing_texts(tree)
        self._walrus = any(isinstance(n, (ast.NamedExpr, ast.Nonlocal)) for n in ast.walk(tree))
        if isinstance(tree, ast.Lambda):
            value = self.expression(tree.body)
            self._end("return", tree.body.lineno, self.result(value, tree.body.lineno))
        else:
            self._yields = _is_generator(tree)
            if self._yields:
                self.begin_generator()
            self.body(tree.body)
            if self._open and self._yields:
                self.end_generator(tree.body[-1].end_lineno or 0)
            elif self._open:
                self._end("return", tree.body[-1].end_lineno or 0, Const(None))

    @property
    def tree(self) -> ast.FunctionDef | ast.Lambda:
        """The outermost function around it, or itself."""
        return self._tree if self._outer is None else self._outer.tree

    # --- conditions -----------------------------------------------------------------------

    def branch(self, test: ast.expr, yes: int, no: int) -> None:
        """Go on at one of two places."""
        if isinstance(test, ast.BoolOp):
            is_and = isinstance(test.op, ast.And)
            for t in test.values[:-1]:
                further = self._part()
                self.branch(t, *((further, no) if is_and else (yes, further)))
                self._here = further
            self.branch(test.values[-1], yes, no)
        elif isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            self.branch(test.operand, no, yes)
        elif isinstance(test, ast.Compare) and len(test.ops) > 1:
            left = self.expression(test.left)
            for op, right_ in zip(test.ops, test.comparators, strict=True):
                right = self.expression(right_)
                held = self._step("compare", test.lineno, _COMPARE[type(op)], left, right)
                further = yes if right_ is test.comparators[-1] else self._part()
                self._end("branch", test.lineno, held, to=(further, no))
                self._here, left = further, right
        else:
            self._end("branch", test.lineno, self.expression(test), to=(yes, no))

    # --- expressions ----------------------------------------------------------------------

    def expression(self, e: ast.expr) -> Operand:
        """Write an expression; return the operand that holds it."""
        method = getattr(self, f"_{type(e).__name__}", None)
        if method is None:
            raise self._refuse(_EXPRESSIONS.get(type(e).__name__, type(e).__name__), e)
        return method(e)  # type: ignore[no-any-return]

    def _Constant(self, e: ast.Constant) -> Operand:
        return Const(e.value)

    def _renamed_name(self, name: str) -> str:
        for names in reversed(self._renamed):
            if name in names:
                return names[name]
        return name

    def _name(self, name: str, line: int) -> str:
        own = self._renamed_name(name)
        if own != name or name in self._locals:
            return own
        found = None if self._outer is None else self._outer.found(name)
        if found is not None:
            return self._step("outer", line, *found)
        return self._step("global", line, name)

    def found(self, name: str) -> tuple[int, str] | None:
        """Whose variable a name is, for a function that is defined here: 1 is this one."""
        own = self._renamed_name(name)
        if own != name or name in self._locals:
            self.shared.add(own)
            return 1, own
        found = None if self._outer is None else self._outer.found(name)
        return None if found is None else (found[0] + 1, found[1])

    def set_name(self, name: str, value: Operand, line: int) -> None:
        """Give a name a value, also one of a function around this one."""
        own = self._renamed_name(name)
        if self._is_local(name):
            self._step("copy", line, value, to=own)
            return
        found = None if self._outer is None else self._outer.found(name)
        if found is None:
            raise TraceError(f"it writes a global (line {line})")
        self._do("set outer", line, *found, value)

    def _is_local(self, name: str) -> bool:
        return self._renamed_name(name) != name or name in self._locals

    def function(self, tree: ast.FunctionDef | ast.Lambda) -> Operand:
        """A function that is defined here."""
        a = tree.args
        defaults = tuple(map(self.expression, a.defaults))
        named = [
            (k.arg, self.expression(x))
            for k, x in zip(a.kwonlyargs, a.kw_defaults, strict=True)
            if x is not None
        ]
        names, values = tuple(n for n, _ in named), tuple(x for _, x in named)
        inner = Const((flow_of(tree, self), names))
        return self._step("function", tree.lineno, inner, defaults, values)

    def _Lambda(self, e: ast.Lambda) -> Operand:
        return self.function(e)

    def _Name(self, e: ast.Name) -> Operand:
        return self.read(e.id, e.lineno)

    def read(self, name: str, line: int) -> Operand:
        """The value that a name has here, whatever is done before that is used."""
        found = self._name(name, line)
        if self._walrus:  # the name may have another one then
            return self._step("copy", line, found)
        if not found.startswith("."):  # a variable, which may have none
            is_free = _OF_THEIR_OWN and self._renamed and found in self._locals
            self._do("free" if is_free else "read", line, found)
        return found

    def _NamedExpr(self, e: ast.NamedExpr) -> Operand:
        value = self.expression(e.value)
        self.assign(e.target, value)
        return value

    def _BinOp(self, e: ast.BinOp) -> Operand:
        form = constant_of(e.left) if isinstance(e.op, ast.Mod) else None
        if form is not None:
            return self.by_percents(e, form)
        left, right = self.expression(e.left), self.expression(e.right)
        return self._step("binary", e.lineno, BINARY[type(e.op)], left, right)

    def _UnaryOp(self, e: ast.UnaryOp) -> Operand:
        value = self.expression(e.operand)
        if isinstance(e.op, ast.Not):
            return self._step("not", e.lineno, value)
        return self._step("unary", e.lineno, _UNARY[type(e.op)], value)

    def _Compare(self, e: ast.Compare) -> Operand:
        left = self.expression(e.left)
        if len(e.ops) == 1:
            right = self.expression(e.comparators[0])
            return self._step("compare", e.lineno, _COMPARE[type(e.ops[0])], left, right)
        held, after = f".{next(self._counter)}", self._part()
        for k, (op, c) in enumerate(zip(e.ops, e.comparators, strict=True)):
            right = self.expression(c)
            self._step("compare", e.lineno, _COMPARE[type(op)], left, right, to=held)
            left = right
            if k + 1 < len(e.ops):
                further = self._part()
                self._end("branch", e.lineno, held, to=(further, after))
                self._here = further
        self._jump(after)
        self._here = after
        return held

    def _BoolOp(self, e: ast.BoolOp) -> Operand:
        held, after = f".{next(self._counter)}", self._part()
        is_and = isinstance(e.op, ast.And)
        for k, v in enumerate(e.values):
            self._step("copy", e.lineno, self.expression(v), to=held)
            if k + 1 < len(e.values):
                further = self._part()
                to = (further, after) if is_and else (after, further)
                self._end("branch", e.lineno, held, to=to)
                self._here = further
        self._jump(after)
        self._here = after
        return held

    def _IfExp(self, e: ast.IfExp) -> Operand:
        held = f".{next(self._counter)}"
        yes, no, after = self._part(), self._part(), self._part()
        self.branch(e.test, yes, no)
        for at, value in ((yes, e.body), (no, e.orelse)):
            self._here = at
            self._step("copy", e.lineno, self.expression(value), to=held)
            self._jump(after)
        self._here = after
        return held

    def _Tuple(self, e: ast.Tuple) -> Operand:
        return self._step("tuple", e.lineno, tuple(map(self.expression, e.elts)))

    def _Dict(self, e: ast.Dict) -> Operand:
        if any(k is None for k in e.keys):
            raise self._refuse("a dict with **", e)
        pairs = [
            (self.expression(k), self.expression(v))
            for k, v in zip(e.keys, e.values, strict=True)
            if k
        ]
        made = self._step("dict", e.lineno)
        for k, v in pairs:
            self._do("set item", e.lineno, made, k, v)
        return made

    def _Set(self, e: ast.Set) -> Operand:
        if any(isinstance(x, ast.Starred) for x in e.elts):
            raise self._refuse("a set with *", e)
        items = [self.expression(x) for x in e.elts]
        made = self._step("set", e.lineno)
        for x in items:
            self._add(made, x, e.lineno)
        if len(items) > 4 and all(isinstance(x, Const) for x in items):  # Python copies another one
            self._do("disorder", e.lineno, made)
        return made

    def _add(self, made: Operand, x: Operand, line: int) -> None:
        self._step("call", line, ((), ()), self._step("attribute", line, "add", made), x)

    def _List(self, e: ast.List) -> Operand:
        return self._step("list", e.lineno, tuple(map(self.expression, e.elts)))

    def _Starred(self, e: ast.Starred) -> Operand:
        return self._step("star", e.lineno, self.expression(e.value))

    def _Attribute(self, e: ast.Attribute) -> Operand:
        return self._step("attribute", e.lineno, e.attr, self.expression(e.value))

    def _Subscript(self, e: ast.Subscript) -> Operand:
        holder = self.expression(e.value)
        return self._step("item", e.lineno, holder, self.index(e.slice))

    def index(self, e: ast.expr) -> Operand:
        """An index: with slices."""
        if isinstance(e, ast.Slice):
            bounds = (e.lower, e.upper, e.step)
            parts = [Const(None) if x is None else self.expression(x) for x in bounds]
            return self._step("slice", e.lineno, *parts)
        if isinstance(e, ast.Tuple):
            return self._step("tuple", e.lineno, tuple(map(self.index, e.elts)))
        return self.expression(e)

    def _Call(self, e: ast.Call) -> Operand:
        if isinstance(e.func, ast.Attribute) and e.func.attr == "format":
            form = constant_of(e.func.value)
            if form is not None:
                return self.in_places(e, form)
        if counts_bits(e):
            return self.bits(e)
        names = tuple(k.arg for k in e.keywords)  # None: **
        spread = tuple(k for k, a in enumerate(e.args) if isinstance(a, ast.Starred))
        called = self.expression(e.func)
        if len(e.args) == 1 and isinstance(e.args[0], ast.GeneratorExp) and not names:
            if isinstance(e.func, ast.Name) and e.func.id in ("any", "all"):
                return self._until(e.func.id == "any", called, e.args[0])
            if isinstance(e.func, ast.Name) and e.func.id == "next":
                return self._first(called, e.args[0], None)
            if _joins_at_once(e.func):
                return self._joined(e.args[0])
        if len(e.args) == 2 and isinstance(e.args[0], ast.GeneratorExp) and not (names or spread):
            if isinstance(e.func, ast.Name) and e.func.id == "next":
                return self._first(called, e.args[0], e.args[1])
        args = [a.value if isinstance(a, ast.Starred) else a for a in e.args]
        given = [self._argument(e.func, a, "key" in names) for a in args]
        given += [self._named(e.func, k, "key" in names) for k in e.keywords]
        return self._step("call", e.lineno, (names, spread), called, *given)

    def _DictComp(self, e: ast.DictComp) -> Operand:
        return self._comprehension(e)

    def _SetComp(self, e: ast.SetComp) -> Operand:
        return self._comprehension(e)

    def _ListComp(self, e: ast.ListComp) -> Operand:
        return self._comprehension(e)

    def _GeneratorExp(self, e: ast.GeneratorExp) -> Operand:
        made = self._comprehension(e)
        return self._step("call", e.lineno, ((), ()), Const(of_iteration.generated), made)

    def _until(self, is_any: bool, called: Operand, e: ast.GeneratorExp) -> Operand:
        """Write ``any`` or ``all`` of a generator, which stops early."""
        self._do("is", e.lineno, called, Const(any if is_any else all))
        held, done = self._new_name(), self._part()
        self._step("copy", e.lineno, Const(not is_any), to=held)

        def each() -> None:
            ends, further = self._part(), self._part()
            self.branch(e.elt, *((ends, further) if is_any else (further, ends)))
            self._here = ends
            self._step("copy", e.lineno, Const(is_any), to=held)
            self._jump(done)
            self._here = further

        self._through(e, each)
        self._jump(done)
        self._here = done
        return held

    def _first(self, called: Operand, e: ast.GeneratorExp, default: ast.expr | None) -> Operand:
        """``next(...)`` of a generator, which goes no further."""
        self._do("is", e.lineno, called, Const(next))
        held, done = self._new_name(), self._part()
        other = None if default is None else self.expression(default)

        def each() -> None:
            self._step("copy", e.lineno, self.expression(e.elt), to=held)
            self._jump(done)
            self._here = self._part()

        self._through(e, each)
        if other is None:
            self._end("raise", e.lineno, Const(StopIteration))
        else:
            self._step("copy", e.lineno, other, to=held)
            self._jump(done)
        self._here = done
        return held

    def _joined(self, e: ast.GeneratorExp) -> Operand:
        """``"".join(...)`` of a generator: a text that grows."""
        made = self._step("list", e.lineno, ())
        self._through(e, lambda: self._do("spell", e.lineno, made, self.expression(e.elt)))
        return self._step("text of", e.lineno, made)

    def _named(self, called: ast.expr, k: ast.keyword, keyed: bool) -> Operand:
        """An argument by name; options in a dict are read by their names alone."""
        e = k.value
        if k.arg == "options" and isinstance(e, ast.Dict):
            names = [x.value if isinstance(x, ast.Constant) else None for x in e.keys]
            if all(isinstance(n, str) for n in names) and len({*names}) == len(names):
                values = tuple(map(self.expression, e.values))
                return self._step("record", e.lineno, Const((*names,)), values)
        return self._argument(called, e, keyed)

    def _argument(self, called: ast.expr, e: ast.expr, keyed: bool) -> Operand:
        """An argument of a call; a generator is gone through at once."""
        if isinstance(e, ast.GeneratorExp):
            if isinstance(called, ast.Attribute) and called.attr == "join":
                return self._comprehension(e)
            if isinstance(called, ast.Name) and called.id in _AT_ONCE:
                if keyed and called.id != "sorted" and not _is_calm(e):  # it goes with the keys
                    raise self._refuse("a generator beside a key", e)
                return self._step("iterator", e.lineno, self._comprehension(e))
        return self.expression(e)

    def _comprehension(self, e: _Comprehension) -> Operand:
        """Write a list that grows in loops, or a generator without other effects."""
        if isinstance(e, (ast.DictComp, ast.SetComp)):
            made = self._step("dict" if isinstance(e, ast.DictComp) else "set", e.lineno)
        else:
            made = self._step("list", e.lineno, ())
        self._through(e, lambda: self._put(e, made))
        return made

    def _put(self, e: _Comprehension, made: Operand) -> None:
        """Write the element of a comprehension."""
        if isinstance(e, ast.DictComp):
            key = self.expression(e.key)
            self._do("set item", e.lineno, made, key, self.expression(e.value))
        elif isinstance(e, ast.SetComp):
            self._add(made, self.expression(e.elt), e.lineno)
        else:
            self._do("append", e.lineno, made, self.expression(e.elt))

    def _through(self, e: _Comprehension, each: Callable[[], None]) -> None:
        """The loops of a comprehension."""
        afters: list[tuple[int, int]] = []
        targets = [n for g in e.generators for n in ast.walk(g.target) if isinstance(n, ast.Name)]
        for g in e.generators:
            if g.is_async:
                raise self._refuse("an asynchronous comprehension", e)
            calm = Const(is_calm(g.iter, [e], self._names))
            iterator = self._step("iterator", e.lineno, self.expression(g.iter), calm)
            if not afters:  # all that follows knows the comprehension's own names
                own = {n.id: f"{n.id}.{next(self._counter)}" for n in targets}
                for name in own.values() if e.generators[1:] else ():
                    self._do("forget", e.lineno, Const(name))
                self._renamed.append(own)
            head, inside, after = self._part(), self._part(), self._part()
            self._jump(head)
            self._here = head
            self._end("more", e.lineno, iterator, to=(inside, after))
            self._here = inside
            self.assign(g.target, self._step("next", e.lineno, iterator))
            for test in g.ifs:
                further = self._part()
                self.branch(test, further, head)
                self._here = further
            afters.append((head, after))
        each()
        for head, after in reversed(afters):
            self._jump(head)
            self._here = after
        self._renamed.pop()


_AT_ONCE = frozenset("sum any all min max sorted list tuple set Counter deque".split())


def _joins_at_once(called: ast.expr) -> bool:
    """Whether it is ``"".join``."""
    if not isinstance(called, ast.Attribute) or called.attr != "join":
        return False
    return isinstance(called.value, ast.Constant) and called.value.value == ""


def _is_calm(e: ast.GeneratorExp) -> bool:
    """Whether a generator of numbers cannot raise and has no effects."""
    kinds = (
        ast.GeneratorExp, ast.comprehension, ast.Name, ast.Constant, ast.Compare, ast.BoolOp,
        ast.expr_context, ast.boolop, ast.cmpop,
    )  # fmt: skip
    return all(isinstance(n, kinds) for n in ast.walk(e))


_EXPRESSIONS = {
    "Yield": "a generator that is sent values", "Await": "await",
    "YieldFrom": "a generator that is sent values",
}  # fmt: skip


def _calls_in_turn(tree: ast.FunctionDef | ast.Lambda, outer: _Reader) -> bool:
    """Whether a function names others around it that name it in turn."""
    defined = {n.name: n for n in ast.walk(outer.tree) if isinstance(n, ast.FunctionDef)}
    own = getattr(tree, "name", None)
    seen: set[str] = set()
    waiting: list[ast.AST] = [tree]
    while waiting:
        for n in ast.walk(waiting.pop()):
            if isinstance(n, ast.Name) and n.id in defined and n.id not in seen:
                seen.add(n.id)
                waiting.append(defined[n.id])
    return own in seen


def _is_generator(tree: ast.FunctionDef) -> bool:
    """Whether a function gives values one by one."""
    stack: list[ast.AST] = list(tree.body)
    for n in stack:
        if isinstance(n, (ast.Yield, ast.YieldFrom)):
            return True
        if not isinstance(n, (ast.FunctionDef, ast.Lambda, ast.ClassDef)):
            stack += ast.iter_child_nodes(n)
    return False


def _assigned(tree: ast.FunctionDef | ast.Lambda) -> frozenset[str]:
    """The names of a function's own variables."""
    a = tree.args
    found = {x.arg for x in (*a.posonlyargs, *a.args, *a.kwonlyargs)}
    found |= {x.arg for x in (a.vararg, a.kwarg) if x is not None}
    others: set[str] = set()
    if isinstance(tree, ast.FunctionDef):
        stack: list[ast.AST] = list(tree.body)
        while stack:
            n = stack.pop()
            if isinstance(n, (ast.FunctionDef, ast.Lambda, ast.ClassDef)):
                found |= {n.name} if not isinstance(n, ast.Lambda) else set()
                continue
            if isinstance(n, (ast.ListComp, ast.GeneratorExp, ast.SetComp, ast.DictComp)):
                stack += [x for x in ast.walk(n) if isinstance(x, ast.NamedExpr)]
                continue
            if isinstance(n, ast.Nonlocal):
                others |= {*n.names}
            elif isinstance(n, (ast.MatchAs, ast.MatchStar)) and n.name is not None:
                found.add(n.name)
            elif isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store):
                found.add(n.id)
            elif isinstance(n, ast.ExceptHandler) and n.name is not None:
                found.add(n.name)
            elif isinstance(n, (ast.Import, ast.ImportFrom)):
                found |= {x.asname or x.name.partition(".")[0] for x in n.names}
            stack += ast.iter_child_nodes(n)
    return frozenset(found - others)


def _growing(tree: ast.AST) -> frozenset[str]:
    """Names of lists that something may be put into: so a list of tuples is not one tuple."""
    found = set()
    for n in ast.walk(tree):
        if isinstance(n, ast.Call):
            if isinstance(n.func, ast.Attribute) and isinstance(n.func.value, ast.Name):
                found.add(n.func.value.id)
            if _name_of(n.func).startswith(("heap", "insort")):
                found |= {a.id for a in n.args[:1] if isinstance(a, ast.Name)}
        elif isinstance(n, ast.AugAssign) and isinstance(n.target, ast.Name):
            found.add(n.target.id)
    return frozenset(found)


def _growing_texts(tree: ast.AST) -> frozenset[str]:
    """Names of texts that something is put to."""
    found = set()
    for n in ast.walk(tree):
        if isinstance(n, ast.AugAssign) and isinstance(n.target, ast.Name):
            found.add(n.target.id)
        elif isinstance(n, ast.Assign) and isinstance(n.value, ast.BinOp):
            read = {x.id for x in ast.walk(n.value) if isinstance(x, ast.Name)}
            found |= read & {x.id for x in n.targets if isinstance(x, ast.Name)}
    return frozenset(found)


def _name_of(f: ast.expr) -> str:
    return f.attr if isinstance(f, ast.Attribute) else f.id if isinstance(f, ast.Name) else ""


__all__ = ["Const", "Flow", "Step", "flow_of"]

"""Steps on names, the parts that they make, and which names are still read where.

Nothing is known of types here.
"""

from __future__ import annotations

import ast
import builtins
import functools
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from .....errors import TraceError


class Const(NamedTuple):
    """An operand that is written in the source."""

    value: Any


Operand = str | Const


class Step(NamedTuple):
    """A step: its kind, operands, and the name of the result."""

    kind: str
    result: str | None
    args: tuple[Any, ...]
    line: int


YIELDED = ".yielded"
"""The name of the list of what a generator gives."""
RAISED = ".raised"
"""The name of an exception where a handler begins."""


@dataclass(slots=True)
class Part:
    """Steps without branches; the last one says where it goes on: see `Flow`.

    Attributes
    ----------
    live : frozenset of str
        Names that are read before they are written, here or in what follows.
    handler : int or None
        The part that goes on where a step raises an exception, which is then in `RAISED`; None:
        the caller's.
    """

    steps: list[Step] = field(default_factory=list)
    targets: tuple[int, ...] = ()
    live: frozenset[str] = frozenset()
    handler: int | None = None


@dataclass
class Flow:
    """A function as parts that follow each other.

    The last step of a part is of kind ``jump``, ``branch`` (to the first target if its operand is
    true), ``more`` (to the first if an iterator has a further element), ``return``, ``raise`` or
    ``leave``. `shared` are its names that functions read which it defines; `in_turn`: whether it is
    one that is defined beside others and calls one of them that calls it in the end.
    """

    name: str
    parameters: ast.arguments
    parts: list[Part]
    shared: frozenset[str] = frozenset()
    in_turn: bool = False
    _after: dict[tuple[int, int], tuple[str, ...]] = field(default_factory=dict)

    def live_after(self, part: int, step: int) -> tuple[str, ...]:
        """Names that are read before they are written, from a step of a part on; in order."""
        found = self._after.get((part, step))
        if found is None:
            p = self.parts[part]
            live = self.shared | _live_before(self.parts, p, p.steps[step:])
            found = self._after[part, step] = tuple(sorted(live))
        return found

    @functools.cached_property
    def plain(self) -> frozenset[str]:
        """Names for which it makes no difference whose floats of 64 bits they are.

        They, and what comes of them, are added, multiplied, compared and returned, and nothing
        else: no division, of which Python raises and arrays do not, no call, no list.
        """
        steps = [s for p in self.parts for s in p.steps]
        readers: dict[str, list[Step]] = {}
        for s in steps:
            for name in _reads(s):
                readers.setdefault(name, []).append(s)
        named = {s.result for s in steps if s.result is not None} - self.shared
        return frozenset(n for n in named if _is_plain(n, readers, self.shared))

    def reads_part(self, part: int, step: int, k: int) -> bool:
        """Whether part `k` of a step's result may be read: false if its name is never used."""
        steps = self.parts[part].steps
        made, after = steps[step].result, steps[step + 1 :]
        if not after or made not in after[0].args:
            return True
        if after[0].kind == "item" and isinstance(after[0].args[1], Const):
            return after[0].args[1].value == k or made in self.live_after(part, step + 2)
        if after[0].kind != "unpack" or after[0].args[0] != made:
            return True
        one = (after[0].result, Const(k))
        at = next((n for n, s in enumerate(after) if s.kind == "part" and s.args == one), None)
        if at is None or at + 1 == len(after) or after[at + 1].kind != "copy":
            return True
        named = after[at + 1]
        if named.args != (after[at].result,):
            return True
        return named.result in self.live_after(part, step + at + 3)


_ARITHMETIC = frozenset("+ - *".split())
_COMPARED = frozenset("< <= > >= == !=".split())


def _is_plain(name: str, readers: dict[str, list[Step]], shared: frozenset[str]) -> bool:
    """Whether a name is read only by steps as in `Flow.plain`, also after copies."""
    todo, seen, answers = [(name, False)], {(name, False)}, 0
    while todo:
        one, is_answer = todo.pop()
        if one in shared:
            return False
        for s in readers.get(one, ()):
            if s.kind in ("read", "return", "branch", "result"):
                answers += is_answer and s.kind in ("return", "result")
                follows = is_answer if s.kind == "result" else None
            elif s.kind in ("copy", "keep"):
                follows = is_answer
            elif s.kind == "not":
                follows = True
            elif is_answer:
                return False
            elif s.kind in ("binary", "inplace") and s.args[0] in _ARITHMETIC:
                follows = False
            elif s.kind == "compare" and s.args[0] in _COMPARED:
                follows = True
            elif s.kind == "unary" and s.args[0] == "-":
                follows = False
            else:
                return False
            if follows is not None and s.result is not None and (s.result, follows) not in seen:
                seen.add((s.result, follows))
                todo.append((s.result, follows))
    return not answers


def _reads(step: Step) -> list[str]:
    """The names that a step reads."""
    return _names(step.args[_PLAIN.get(step.kind, 0) :])


def _names(x: Any) -> list[str]:
    if isinstance(x, str):
        return [x]
    return [name for y in x for name in _names(y)] if type(x) is tuple else []


_PLAIN = {"global": 9, "attribute": 1, "binary": 1, "inplace": 1, "unary": 1, "compare": 1}
_PLAIN |= {"outer": 2, "set outer": 2, "call": 1, "leave": 9, "jump": 9, "method": 1}
"""How many of the first arguments of a step are no operands."""


def drop_reads(parts: list[Part]) -> None:
    """Drop the steps that read a name right before one that does so itself."""
    for p in parts:
        kept: list[Step] = []
        after: list[str] = []
        for s in reversed(p.steps):
            if s.kind != "read":
                after = _reads(s)
            if s.kind != "read" or s.args[0] not in after:
                kept.append(s)
        p.steps = kept[::-1]


def _before(step: Step, live: set[str]) -> set[str]:
    if step.result is not None:
        live.discard(step.result)
    live.update(_reads(step))
    if step.kind == "next":  # which moves the iterator on
        live.add(step.args[0])
    return live


def _live_before(parts: list[Part], p: Part, steps: list[Step]) -> frozenset[str]:
    """The names that are read before they are written, from the first of the last steps on."""
    handler: frozenset[str] = frozenset()
    if p.handler is not None:  # any step may raise
        handler = parts[p.handler].live - {RAISED}
    found = set(handler).union(*(parts[t].live for t in p.targets))
    for s in reversed(steps):
        found = _before(s, found) | handler
    return frozenset(found)


def find_live(parts: list[Part]) -> None:
    """Find the names that are still read at the beginning of each part."""
    changed = True
    while changed:
        changed = False
        for p in reversed(parts):
            found = _live_before(parts, p, p.steps)
            if found != p.live:
                p.live, changed = found, True


class Writer:
    """Writes steps, part by part."""

    def __init__(self) -> None:
        self.parts: list[Part] = []
        self._counter = itertools.count()
        self._handler: int | None = None
        self._here = self._part()

    def _part(self) -> int:
        self.parts.append(Part(handler=self._handler))
        return len(self.parts) - 1

    def _new_name(self) -> str:
        return f".{next(self._counter)}"

    @property
    def _open(self) -> bool:
        """Whether control can reach this point."""
        steps = self.parts[self._here].steps
        return not steps or steps[-1].kind not in (
            "jump",
            "branch",
            "more",
            "return",
            "raise",
            "leave",
        )

    def _step(self, kind: str, line: int, *args: Any, to: str | None = None) -> str:
        result = to or f".{next(self._counter)}"
        if self._open:
            self.parts[self._here].steps.append(Step(kind, result, args, line))
        return result

    def _do(self, kind: str, line: int, *args: Any) -> None:
        if self._open:
            self.parts[self._here].steps.append(Step(kind, None, args, line))

    def _end(self, kind: str, line: int, *args: Any, to: tuple[int, ...] = ()) -> None:
        if self._open:
            self.parts[self._here].steps.append(Step(kind, None, args, line))
            self.parts[self._here].targets = to

    def _jump(self, to: int, line: int = 0) -> None:
        self._end("jump", line, to=(to,))

    def _refuse(self, what: str, node: ast.AST) -> TraceError:
        return TraceError(f"{what} (line {getattr(node, 'lineno', 0)})")


# --- what loops change ----------------------------------------------------------------------------

_FRESH = (ast.List, ast.ListComp, ast.Dict, ast.DictComp, ast.Set, ast.SetComp, ast.Constant)
_MAKES = frozenset(
    "list dict set deque Counter defaultdict zeros empty ones full zeros_like empty_like ones_like "
    "full_like copy".split()
)
"""Functions that give something new."""


def is_calm(iterated: ast.expr, body: Sequence[ast.AST], function: Names) -> bool:
    """Whether a loop's body writes to nothing that its iterable may be made of.

    Names that it gives a value are none that functions read within what is gone through. What it
    writes into is new: it was made by the function, has one name, and is not gone through.
    """
    defined = function.defined
    inside = _with_called([n for s in body for n in ast.walk(s)], defined)
    made = _with_called([*ast.walk(iterated)], defined)
    own = {id(n) for n in made}
    inside = [n for n in inside if id(n) not in own]
    read = {n.id for n in made if isinstance(n, ast.Name)}
    lazy = [n for n in made if isinstance(n, (ast.Lambda, ast.FunctionDef, ast.GeneratorExp))]
    within = frozenset[str]().union(*map(_reads_late, lazy))
    stored = {n.id for n in inside if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    if stored & within or any(isinstance(n, (ast.Nonlocal, ast.Await)) for n in (*inside, *made)):
        return False
    if any(_may_change(n, read) for n in inside):
        return False
    written = list(_written(inside))
    if not all(isinstance(n, ast.Name) for n in written):
        return False
    return {n.id for n in written if isinstance(n, ast.Name)} <= function.fresh - read


def changes_nothing(inside: Sequence[ast.AST], function: Names) -> bool:
    """Whether a function writes only to objects that it makes itself."""
    if any(isinstance(n, (ast.Nonlocal, ast.Global, ast.FunctionDef)) for n in inside):
        return False
    return all(isinstance(n, ast.Name) and n.id in function.fresh for n in _written(inside))


def _reads_late(f: ast.AST) -> set[str]:
    """Names that a function or a generator reads when it runs, but for its own."""
    own = {n.id for g in getattr(f, "generators", ()) for n in ast.walk(g.target)
           if isinstance(n, ast.Name)}  # fmt: skip
    return {n.id for n in ast.walk(f) if isinstance(n, ast.Name)} - own


def _with_called(nodes: list[ast.AST], defined: dict[str, ast.FunctionDef]) -> list[ast.AST]:
    """Parts of a function, and of those that it defines and they name."""
    seen: set[str] = set()
    for n in nodes:  # which grows
        if isinstance(n, ast.Name) and n.id in defined and n.id not in seen:
            seen.add(n.id)
            nodes += ast.walk(defined[n.id])
    return nodes


def _may_change(n: ast.AST, read: set[str]) -> bool:
    """Whether a user's function is called with one of those names."""
    if not isinstance(n, ast.Call) or not isinstance(n.func, ast.Name):
        return False
    if hasattr(builtins, n.func.id):
        return False
    return any(isinstance(a, ast.Name) and a.id in read for a in n.args)


def _written(inside: Sequence[ast.AST]) -> Iterator[ast.AST]:
    """Objects that are written to, or may be by a method or a function."""
    for n in inside:
        if isinstance(n, ast.Subscript) and not isinstance(n.ctx, ast.Load):
            yield _root(n.value)
        elif isinstance(n, ast.Attribute) and not isinstance(n.ctx, ast.Load):
            yield n
        elif isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute):
            if n.func.attr in _CHANGES:
                yield _root(n.func.value)


_CHANGES = frozenset(
    "append appendleft extend extendleft insert pop popleft popitem remove clear sort reverse fill "
    "add discard update setdefault put resize at itemset partition rotate heappush heappop heapify "
    "heapreplace heappushpop insort insort_left insort_right copyto".split()
)
"""Methods that change what they are of, and functions that change an argument."""


def _root(e: ast.AST) -> ast.AST:
    while isinstance(e, (ast.Subscript, ast.Attribute)):
        e = e.value
    return e


class Names:
    """Names of a function, which are looked for once."""

    def __init__(self, function: ast.AST) -> None:
        self._function = function

    @functools.cached_property
    def defined(self) -> dict[str, ast.FunctionDef]:
        """The functions that it defines."""
        return {n.name: n for n in ast.walk(self._function) if isinstance(n, ast.FunctionDef)}

    @functools.cached_property
    def fresh(self) -> frozenset[str]:
        """Those that hold only new objects which no other name holds."""
        made, others = set[str](), set[str]()
        for n in ast.walk(self._function):
            if isinstance(n, (ast.Assign, ast.AnnAssign, ast.NamedExpr)) and n.value is not None:
                for t in n.targets if isinstance(n, ast.Assign) else [n.target]:
                    if isinstance(t, ast.Name):
                        (made if _makes(n.value) else others).add(t.id)
                    else:
                        others |= _stored(t)
                some = n.value.elts if isinstance(n.value, (ast.Tuple, ast.List)) else [n.value]
                others |= {x.id for x in some if isinstance(x, ast.Name)}
            elif isinstance(n, (ast.For, ast.comprehension)):
                others |= _stored(n.target)
            elif isinstance(n, ast.arg):
                others.add(n.arg)
        return frozenset(made - others)


def _stored(target: ast.expr) -> set[str]:
    """The names that a target assigns."""
    names = (n for n in ast.walk(target) if isinstance(n, ast.Name))
    return {n.id for n in names if isinstance(n.ctx, ast.Store)}


def _makes(value: ast.expr) -> bool:
    if isinstance(value, ast.BinOp):
        return True  # a new list, or array
    if isinstance(value, ast.Call):
        f = value.func
        name = f.attr if isinstance(f, ast.Attribute) else f.id if isinstance(f, ast.Name) else ""
        return name in _MAKES
    return isinstance(value, _FRESH)

"""Steps on names, the parts that they make, and which names are still read where.

Nothing is known of types here.
"""

from __future__ import annotations

import ast
import itertools
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ....errors import TraceError


class Const(NamedTuple):
    """An operand that is written in the source."""

    value: Any


Operand = str | Const


class Step(NamedTuple):
    """What is done, to which operands, and the name of what comes out."""

    kind: str
    result: str | None
    args: tuple[Any, ...]
    line: int


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


@dataclass(slots=True)
class Flow:
    """A function as parts that follow each other.

    The last step of a part is of kind ``jump``, ``branch`` (to the first target if its operand is
    true), ``more`` (to the first if an iterator has a further element), ``return``, ``raise`` or
    ``leave``. `shared` are its names that functions read which it defines.
    """

    name: str
    parameters: ast.arguments
    parts: list[Part]
    shared: frozenset[str] = frozenset()

    def live_after(self, part: int, step: int) -> frozenset[str]:
        """Names that are read before they are written, from a step of a part on."""
        p = self.parts[part]
        return self.shared | _live_before(self.parts, p, p.steps[step:])

    def reads_part(self, part: int, step: int, k: int) -> bool:
        """Whether a part of what a step gives may be read: not if its name is never looked at."""
        steps = self.parts[part].steps
        made, after = steps[step].result, steps[step + 1 :]
        if not after or after[0].kind != "unpack" or after[0].args[0] != made:
            return True
        one = (after[0].result, Const(k))
        at = next((n for n, s in enumerate(after) if s.kind == "part" and s.args == one), None)
        if at is None or at + 1 == len(after) or after[at + 1].kind != "copy":
            return True
        named = after[at + 1]
        if named.args != (after[at].result,):
            return True
        return named.result in self.live_after(part, step + at + 3)


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
        """Whether something may still come here."""
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

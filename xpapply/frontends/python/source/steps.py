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


@dataclass(slots=True)
class Part:
    """Steps without branches; the last one says where it goes on: see `Flow`.

    Attributes
    ----------
    live : frozenset of str
        Names that are read before they are written, here or in what follows.
    """

    steps: list[Step] = field(default_factory=list)
    targets: tuple[int, ...] = ()
    live: frozenset[str] = frozenset()


@dataclass(slots=True)
class Flow:
    """A function as parts that follow each other.

    The last step of a part is of kind ``jump``, ``branch`` (to the first target if its operand is
    true), ``more`` (to the first if an iterator has a further element), ``return`` or ``leave``.
    """

    name: str
    parameters: ast.arguments
    parts: list[Part]

    def live_after(self, part: int, step: int) -> frozenset[str]:
        """Names that are read before they are written, from a step of a part on."""
        p = self.parts[part]
        found = set().union(*(self.parts[t].live for t in p.targets))
        for s in reversed(p.steps[step:]):
            found = _before(s, found)
        return frozenset(found)


def _reads(step: Step) -> list[str]:
    """The names that a step reads."""
    return _names(step.args[_PLAIN.get(step.kind, 0) :])


def _names(x: Any) -> list[str]:
    if isinstance(x, str):
        return [x]
    return [name for y in x for name in _names(y)] if type(x) is tuple else []


_PLAIN = {"global": 9, "attribute": 1, "binary": 1, "inplace": 1, "unary": 1, "compare": 1}
_PLAIN |= {"call": 1, "leave": 9, "jump": 9, "method": 1}
"""How many of the first arguments of a step are no operands."""


def _before(step: Step, live: set[str]) -> set[str]:
    if step.result is not None:
        live.discard(step.result)
    live.update(_reads(step))
    if step.kind == "next":  # which moves the iterator on
        live.add(step.args[0])
    return live


def find_live(parts: list[Part]) -> None:
    """Find the names that are still read at the beginning of each part."""
    changed = True
    while changed:
        changed = False
        for p in reversed(parts):
            found = set().union(*(parts[t].live for t in p.targets))
            for s in reversed(p.steps):
                found = _before(s, found)
            if found != p.live:
                p.live, changed = frozenset(found), True


class Writer:
    """Writes steps, part by part."""

    def __init__(self) -> None:
        self.parts: list[Part] = []
        self._counter = itertools.count()
        self._here = self._part()

    def _part(self) -> int:
        self.parts.append(Part())
        return len(self.parts) - 1

    @property
    def _open(self) -> bool:
        """Whether something may still come here."""
        steps = self.parts[self._here].steps
        return not steps or steps[-1].kind not in ("jump", "branch", "more", "return", "leave")

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

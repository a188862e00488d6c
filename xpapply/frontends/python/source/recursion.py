"""Functions that call themselves: a stack keeps what they still need, and where they go on.

A call of itself puts the values of the function's names and the number of the place on the stack
and begins again; a return takes the number off it, and goes on there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ....ir.typed import Array, Block, Literal, Register, Slot
from ....ir.typed.function import Value
from ....limits import LIMITS
from .blocks import Blocks, types_of
from .frames import ERRORS, RESULT, Caller, Code, Place, calls_itself
from .values import Abstract, Inlined, Lst, built, taken_apart

STACK = Slot(".stack", "list")
DEPTH = 200
"""Calls of itself; deeper ones are left to Python, which has a limit of its own."""


class Site(NamedTuple):
    """Where a function goes on after a call of itself.

    Attributes
    ----------
    number : int
        What stands on the stack; 0: the caller goes on.
    place : Place or None
        Where.
    result : str or None
        The name that gets the result.
    keys : tuple
        What is kept on the stack: names, and the keys of their values.
    """

    number: int
    place: Any = None
    result: str | None = None
    keys: tuple[tuple[Any, Any], ...] = ()


@dataclass(slots=True)
class Group:
    """All places where one function goes on, and the blocks to which it returns."""

    sites: list[Site] = field(default_factory=lambda: [Site(0)])
    hubs: list[Any] = field(default_factory=list)
    blocks: dict[tuple[int, int], int] = field(default_factory=dict)

    def pairs(self) -> Iterator[tuple[Any, Site]]:
        """Those of a hub and a site for which there is no block yet."""
        for hub in self.hubs:
            for site in self.sites:
                if (hub.index, site.number) not in self.blocks:
                    yield hub, site


def lists(key: Any) -> Iterator[tuple[Any, str, int]]:
    """The lists in a key: what they are of, whose numbers, and where they were made."""
    if type(key) is tuple:
        if key[:1] == (Lst,):
            yield key[1:4]
        else:
            for k in key:
                yield from lists(k)


def words(kinds: list[Any]) -> int:
    """How many numbers of 64 bits values are on the stack."""
    return sum(1 + 2 * k.ndim if isinstance(k, Array) else 1 for k in kinds)


def of_site(n: int) -> Literal:
    """The number of a place, as it stands on the stack."""
    return Literal(n, "int64")


class RecursiveCalls(Blocks, ABC):
    """Writes calls of functions within themselves, and where their returns go on."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._groups: dict[Any, Group] = {}

    @abstractmethod
    def _bind(self, code: Code, depth: int, call: Inlined) -> None:
        """Give the parameters of a function their values."""

    @abstractmethod
    def _returned(self, all_callers: tuple[Caller, ...], value: Abstract) -> None:
        """Go on in the caller, with a result."""

    def _group(self, place: Place) -> Group:
        key = place._replace(part=0, step=0).key
        return self._groups.setdefault(key, Group())

    def _stack(self) -> Register:
        return self.op("load", "list", what=STACK)

    def _push(self, *values: Value) -> None:
        stack, memory = self._stack(), self.mark_number("its recursion needs much memory")
        for v in values:
            self.do("push", stack, v, what=memory)

    def _recurse(self, result: str | None, call: Inlined) -> None:
        """Begin the function again that is written now."""
        callers, code, _, step = self.place
        depth = len(callers)
        if not callers or not calls_itself(code.flow):
            raise self.refuse(f"{code.flow.name} calls itself")
        self.made.walks = True
        after = self.place._replace(step=step + 1)
        registers: list[Value] = []
        keys: list[tuple[Any, Any]] = []
        for at in self._live(after):
            if at[0] == depth and at[1] != result and at in self.state:
                keys.append((at, taken_apart(self.state[at], registers)))
        if any(not isinstance(dtype, str) for dtype, *_ in lists(tuple(keys))):
            raise self.refuse("a list of lists in a function that calls itself")
        group = self._group(self.place)
        wanted = Site(0, after, result, tuple(keys))
        same = [
            s
            for s in group.sites[1:]
            if (s.place.key, s.result, s.keys) == (after.key, result, wanted.keys)
        ]
        if not same:
            same = [wanted._replace(number=len(group.sites))]
            group.sites += same
        if len(group.sites) > LIMITS.typed_versions:
            raise self.refuse(f"{code.flow.name} calls itself in too many ways")
        most = DEPTH * (1 + words([r.type for r in registers]))
        far = self.op("list length", "int64", self._stack())
        self.do("round", what=self.mark_number("a loop of very many rounds"))
        self.mark(self.op("ge", "bool", far, Literal(most, "int64")), "a deep recursion")
        for at in [at for at in self.state if at[0] >= depth and at != ERRORS]:
            del self.state[at]
        self._bind(code, depth, call)
        self._push(*registers, of_site(same[0].number))
        self._go(Place(callers, code, 0, 0))

    def _resumed(self) -> bool:
        """Write a block where a function goes on after a call of itself; whether there was one."""
        found = [(g, *p) for g in self._groups.values() for p in g.pairs()][:1]
        for group, hub, site in found:
            self.made.blocks.append(Block())
            index = group.blocks[hub.index, site.number] = len(self.made.blocks) - 1
            self._begin(index, hub.keys)
            callers = hub.place.callers
            value = self.state.pop((len(callers), RESULT))
            if site.number == 0:
                self._returned(callers, value)
                continue
            stack = self._stack()
            kinds = [k for _, key in site.keys for k in types_of(key)]
            pulled = [self.op("pull", k, stack) for k in reversed(kinds)][::-1]
            values = iter(pulled)
            for at, key in site.keys:
                self.state[at] = built(key, values)
            if site.result is not None:
                self.state[len(callers), site.result] = value
            self._go(site.place)
        return bool(found)

    def _end_recursion(self) -> None:
        """Write where returns of functions go on that call themselves."""
        if not self._groups:
            return
        self.line = 0
        kept = {
            (site, dtype, kind)
            for g in self._groups.values()
            for s in g.sites
            for dtype, kind, site in lists(s.keys)
        }
        if kept & self._retyped:  # of what is on the stack nobody would know
            raise self.refuse("a list gets its type while a function calls itself")
        memory = self.mark_number("its recursion needs much memory")
        self._block = Block()
        self.do("store", self.op("new list", "list", what=memory), what=STACK)
        self.made.blocks[0].instructions[:0] = self._block.instructions
        for group in self._groups.values():
            for hub in group.hubs:
                self._block = self.made.blocks[hub.index]
                number = self.op("pull", "int64", self._stack())
                ends = [(s.number, group.blocks[hub.index, s.number]) for s in group.sites]
                for n, target in ends[:-1]:
                    slot = Slot(".site", "int64")
                    self.do("store", number, what=slot)
                    same = self.op("eq", "bool", number, of_site(n))
                    self.do("branch", same)
                    self.made.blocks.append(Block())
                    self._block.targets = (target, len(self.made.blocks) - 1)
                    self._block = self.made.blocks[-1]
                    number = self.op("load", "int64", what=slot)
                self.do("jump")
                self._block.targets = (ends[-1][1],)

"""Functions that call themselves: a stack keeps what they still need, and where they go on.

A call of itself puts the values of the function's names and the number of the place on the stack
and begins again; a return takes the number off it, and goes on there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ....ir.typed import Array, Literal, Slot
from .steps import Flow
from .values import Lst

STACK = Slot(".stack", "list")
RESULT = ".result"
"""The name of what a function gives that calls itself, until its caller has it."""
HUB = -1
"""In the place of a part: where such a function goes on from a return."""
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


def calls_itself(flow: Flow) -> bool:
    """Whether a function reads its own name."""
    return any(
        (s.kind == "global" and s.args[0] == flow.name)
        or (s.kind == "outer" and s.args[1] == flow.name)
        for p in flow.parts
        for s in p.steps
    )


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


def number(n: int) -> Literal:
    """The number of a place, as it stands on the stack."""
    return Literal(n, "int64")

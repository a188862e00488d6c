"""Numbers that a function is given anew with each call: arguments, and what it finds in places.

Who looks for the best threshold calls a function a hundred times, each time with another number.
The first one is a constant of what is made for the function. Once another one comes in its place,
that is read by each call: see `Guards.given`. So the third call needs nothing that is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .guards import Guards, Place, Where, argument
from .purity import python_function
from .snapshots import Paths, exact, followed, others, same, snapshot


class Given:
    """What a function was read with: places, arguments, and which numbers of these are given.

    Parameters
    ----------
    guards : Guards
        What it reaches.
    args, kwargs : tuple, dict
        What it is called with.

    Attributes
    ----------
    places : tuple of (place, path)
        Where given numbers are.
    """

    def __init__(self, guards: Guards, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        self._guards = guards
        self.places: tuple[Place, ...] = tuple(p for p, x in guards.given.items() if x is not None)
        self._was = {
            name: snapshot(x, (), self._paths(name))
            for name, x in _named(args, kwargs)
            if not isinstance(x, np.ndarray)  # of which the key has the content
        }

    def names(self, f: Any) -> str:
        """What given numbers are called."""
        return ", ".join(dict.fromkeys(_name(f, *place) for place in self.places))

    def _paths(self, name: int | str) -> Paths:
        return frozenset(path for at, path in self.places if at == argument(name))

    def others(self, f: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> set[Place] | None:
        """Where there are other numbers now; None: something else has changed."""
        found = self._guards.others(f)
        if found is None:
            return None
        given = dict(_named(args, kwargs))
        for name, was in self._was.items():
            some = others(given.get(name), was)
            if some is None:
                return None
            found += [(argument(name), path) for path in some]
        return set(found)

    def values(self, f: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any] | None:
        """The numbers of a call; None: something else has changed."""
        if not self._guards(f):
            return None
        given = dict(_named(args, kwargs))
        if not all(same(given.get(name), was) for name, was in self._was.items()):
            return None
        return [
            followed(given[at[2]], path)
            if at == argument(at[2])
            else self._guards.number(f, at, path)
            for at, path in self.places
        ]

    def are(self, f: Any, values: Sequence[Any]) -> bool:
        """Whether the places of a function have some numbers. (Its arguments are told by keys.)"""
        return all(
            at == argument(at[2]) or exact(self._guards.number(f, at, path)) == exact(x)
            for (at, path), x in zip(self.places, values, strict=True)
        )


def _name(f: Any, at: Where, path: tuple[int, ...]) -> str:
    """What a given number is called."""
    own, (holder, kind, name) = python_function(f), at
    code = None if own is None or holder else own.__code__
    if kind == "cell" or (kind == "argument" and type(name) is int):
        names = () if code is None else code.co_freevars if kind == "cell" else code.co_varnames
        return str(names[name]) if name < len(names) else "a number"
    return "a number" if kind == "attribute" and (path or holder == 0) else str(name)


def _named(args: Sequence[Any], kwargs: dict[str, Any]) -> list[tuple[Any, Any]]:
    return [*enumerate(args), *kwargs.items()]

"""Frames: the functions and the step at which source is read."""

from __future__ import annotations

import contextlib
import functools
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from .reading.steps import Flow
from .values import Abstract, Expected


class Code(NamedTuple):
    """A function whose parts are written, as deep in others as it is called.

    Attributes
    ----------
    flow : Flow
        Its parts.
    function : function
        It; of one that another one defines that one, which has its globals.
    outer : int
        The depth of the one that has defined it.
    """

    flow: Flow
    function: Any
    outer: int = -1

    @property
    def key(self) -> tuple[int, int, int]:
        """The key of the code, by identities."""
        return id(self.flow), id(self.function), self.outer

    def is_of(self, package: str) -> bool:
        """Whether it is defined in a package."""
        return (self.function.__module__ or "").startswith(package)


class Caller(NamedTuple):
    """The frame of a caller, and where it continues."""

    code: Code
    part: int
    step: int
    result: str | None


class Place(NamedTuple):
    """The current place: a function's step, and its callers."""

    callers: tuple[Caller, ...]
    code: Code
    part: int
    step: int

    @property
    def key(self) -> Any:
        """The key of the place, by identities."""
        frames = [(*c.code.key, c.part, c.step) for c in self.callers]
        return (*frames, *self.code.key, self.part, self.step)

    def code_at(self, depth: int) -> Code:
        """The function that lies so deep."""
        return self.callers[depth].code if depth < len(self.callers) else self.code

    def line_of_call(self, package: str) -> int:
        """The line from which something called a package's functions that led here; or 0."""
        for c in reversed(self.callers):
            if not c.code.is_of(package):
                return c.code.flow.parts[c.part].steps[c.step - 1].line
        return 0


ERRORS = 0, ".errors"
"""The key of `Errors` among the values."""
At = tuple[int, str]
"""The depth of a function, and a name."""


class State(dict[At, Abstract]):
    """The values of names; values from other blocks are loaded on first read.

    Parameters
    ----------
    left : mapping
        The keys of those values.
    load : callable
        What writes the loading of one.
    """

    def __init__(self, left: Mapping[At, Any], load: Callable[[At, Any], Abstract]) -> None:
        super().__init__()
        self.left, self._load = dict(left), load

    def __missing__(self, at: At) -> Abstract:
        found = self[at] = self._load(at, self.left[at])
        return found

    def __contains__(self, at: object) -> bool:
        return super().__contains__(at) or at in self.left

    def __iter__(self) -> Iterator[At]:
        return iter([*super().__iter__(), *self.left])

    def __setitem__(self, at: At, value: Abstract) -> None:
        self.left.pop(at, None)
        super().__setitem__(at, value)

    def __delitem__(self, at: At) -> None:
        if self.left.pop(at, None) is None:
            super().__delitem__(at)

    def get(self, at: At, default: Any = None) -> Abstract:  # type: ignore[override]
        """The value, as in a dict."""
        return self[at] if at in self.left else super().get(at, default)

    def pop(self, at: At, default: Any = None) -> Abstract:  # type: ignore[override]
        """Remove a value, as in a dict."""
        found = self.get(at, default)
        super().pop(at, None)
        return found

    def items(self) -> Any:
        """All of them, loaded."""
        for at in [*self.left]:
            self[at]
        return super().items()


@dataclass(slots=True)
class Version:
    """Steps for one set of types."""

    index: int
    place: Place
    keys: dict[tuple[int, str], Any]


RESULT = ".result"
"""The name of what a function gives that calls itself, until its caller has it."""
HUB = -1
"""The pseudo-part where a self-calling function continues after a return."""


def calls_itself(code: Code) -> bool:
    """Whether a function refers to itself, directly or through others."""
    flow = code.flow
    reads = any(
        (s.kind == "global" and s.args[0] == flow.name)
        or (s.kind == "outer" and s.args[1] == flow.name)
        for p in flow.parts
        for s in p.steps
    )
    if reads or flow.in_turn or code.outer >= 0 or code.is_of(_OURS):
        return reads or flow.in_turn
    return _in_turn(code.function)


@functools.lru_cache(256)
def _of_globals(code: types.CodeType) -> tuple[str, ...]:
    """The names that a function's code, and what is defined in it, may read outside."""
    inner = [c for c in code.co_consts if isinstance(c, types.CodeType)]
    return tuple({*code.co_names, *code.co_freevars}.union(*map(_of_globals, inner)))


def _in_turn(f: Any) -> bool:
    """Whether a user's function calls another one by name that calls it in turn."""
    if not isinstance(f, types.FunctionType):
        return False
    seen: list[types.FunctionType] = []
    waiting = [f]
    while waiting and len(seen) < _MANY:
        one = waiting.pop()
        for name in _of_globals(one.__code__):
            found = one.__globals__.get(name)
            if name in one.__code__.co_freevars:
                with contextlib.suppress(ValueError):  # it has no value yet
                    cells = one.__closure__ or ()
                    found = cells[one.__code__.co_freevars.index(name)].cell_contents
            if isinstance(found, types.FunctionType | functools._lru_cache_wrapper):
                found = getattr(found, "__wrapped__", found)
            if found is f:
                return True
            if isinstance(found, types.FunctionType) and found not in seen:
                if found.__module__ == f.__module__:
                    seen.append(found)
                    waiting.append(found)
    return False


_OURS = "xpapply."
"""The prefix of our own functions, none of which is mutually recursive."""
_MANY = 64
"""The most helpers searched for mutual recursion."""


class Guess(list[Expected]):
    """Results as the source implies them, in place of those of the first slice.

    It is filled where the first result is met. Of arrays it has the number of axes, their lengths
    are 0.
    """

    def fits(self, results: Sequence[Any]) -> bool:
        """Whether the results of the first slice have these shapes and dtypes."""
        if len(self) != len(results):
            return False
        for mine, found in zip(self, results, strict=True):
            shape = tuple(found.shape)
            alike = mine.shape == shape or (any(shape) and mine.shape == (0,) * len(shape))
            if mine.dtype != found.dtype or not alike:
                return False
        return True

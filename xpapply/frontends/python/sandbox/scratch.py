"""Attributes that ``f`` sets in every call before it reads them: after the loop, the last slice's.

A hand-written network that keeps its activations (``self.hidden = ...``) computes the same as one
that does not. What the loop leaves in such an attribute depends on the last slice alone, so that
one more call of ``f`` leaves it.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterator
from typing import Any

from ....errors import TraceError
from ..trace.recorder import Recorder

_MISSING = object()
_Place = tuple[weakref.ref[Any], str]


class Writes:
    """Writes and reads of one run of ``f`` in objects that it did not make."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._values: dict[tuple[int, str], Any] = {}
        self._read: set[tuple[int, str]] = set()
        self.places: dict[tuple[int, str], _Place] = {}
        """Objects and attributes written to."""

    def read(self, x: Any, name: str) -> tuple[bool, Any]:
        """Whether the attribute has been set in this run, and its value."""
        key = id(x), name
        if key in self._values:
            return True, self._values[key]
        self._read.add(key)
        return False, None

    def write(self, x: Any, name: str, item: Any) -> None:
        """Set an attribute of an instance, in this run only."""
        key, cls = (id(x), name), type(x)
        kept = (vars(c)[name] for c in cls.__mro__ if name in vars(c))
        own: Any = cls.__setattr__
        if own is not object.__setattr__ or any(hasattr(k, "__set__") for k in kept):
            raise self._recorder.refuse(f"it sets the attribute {name} of {cls.__name__}")
        if key in self._read:
            raise self._recorder.refuse(
                f"it sets the attribute {name}, which it has read before: "
                "each slice depends on the one before it"
            )
        self._values[key] = item
        self.places[key] = weakref.ref(x), name  # what is known of f does not keep it alive


class Scratch:
    """Writes of all runs of ``f``."""

    def __init__(self) -> None:
        self._places: dict[tuple[int, str], _Place] | None = None

    def __bool__(self) -> bool:
        return bool(self._places)

    def add(self, writes: Writes, *, leaves: bool) -> None:
        """A further run; `leaves`: whether ``f`` may raise in it.

        Raises
        ------
        TraceError
            Where what the last slice leaves is not all that the loop leaves.
        """
        if self._places is None:
            self._places = writes.places
        names = sorted({name for _, name in {**writes.places, **self._places}.values()})
        if writes.places.keys() != self._places.keys():
            raise TraceError(f"it sets the attribute {names[0]} for some slices only")
        if writes.places and leaves:
            raise TraceError(f"it sets the attribute {names[0]}, and may raise")

    @contextlib.contextmanager
    def kept(self) -> Iterator[None]:
        """Leave everything as it was: for calls that only look at what ``f`` does."""
        found = [(ref(), name) for ref, name in (self._places or {}).values()]
        places: list[tuple[Any, str]] = [(vars(x), name) for x, name in found if x is not None]
        before = [where.get(name, _MISSING) for where, name in places]
        try:
            yield
        finally:
            for (where, name), value in zip(places, before, strict=True):
                if value is _MISSING:
                    where.pop(name, None)
                else:
                    where[name] = value

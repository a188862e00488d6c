"""``set(v)`` in `f`: how many different values there are is known without looking at them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from ..trace import arrays, functions, python_builtins
from ..trace.recorder import Recorder
from ..trace.stand_ins import Counted, values
from ..trace.tracer import Tracer
from . import shapes


class Distinct(Counted):
    """The set of the values of a vector; it becomes an ordinary set when more than this is used."""

    def __init__(self, values: Tracer | list[Tracer], vector: Tracer) -> None:
        self.values, self.vector = values, vector

    def length(self) -> Any:
        """``len(x)`` as a Python number that depends on the slice."""
        return python_builtins.plain(shapes.distinct(self.vector), int)

    def ordered(self) -> list[Any] | None:
        """``sorted(x)``; None if values can be equal and not the same."""
        if self.vector.dtype.kind == "f":
            return None
        found = functions.function_call(self.vector.recorder, np.unique, (self.vector,), {})
        return found.tolist() if isinstance(self.values, list) else list(found)

    def real(self) -> set[Any]:
        """The set itself, by which slices part."""
        return set(self.values)

    def __len__(self) -> int:
        return int(self.length())

    def __bool__(self) -> bool:
        return bool(self.vector.size)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.real())

    def __contains__(self, item: Any) -> bool:
        return bool((self.vector == item).any())

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.real(), name)

    __hash__ = None  # type: ignore[assignment]


def _operator(name: str) -> Callable[..., Any]:
    def method(self: Distinct, other: Any) -> Any:
        return getattr(self.real(), name)(other.real() if isinstance(other, Distinct) else other)

    return method


for _name in "eq ne lt le gt ge and rand or ror sub rsub xor rxor".split():
    setattr(Distinct, f"__{_name}__", _operator(f"__{_name}__"))


def make(recorder: Recorder, iterable: Iterable[Any] = ()) -> Any:
    """``set(iterable)``."""
    listed: Any = iterable if isinstance(iterable, Tracer) else list(iterable)
    if isinstance(listed, Tracer):
        vector: Any = listed if np.ndim(listed.value) == 1 and listed.ref is not None else None
    else:
        vector = arrays.as_array(recorder, listed) if _numbers(listed) else None
    if vector is None or vector.value.dtype.kind not in "biuf" or not vector.size:
        return set(listed)
    python_builtins.no_nan(recorder, vector)  # each is a value of its own
    if recorder.left is not None:  # off the path: only looked at
        return set(values(list(listed)))
    return Distinct(listed, vector)


def _numbers(listed: list[Any]) -> bool:
    """Whether all are numbers of one class that depend on the slice."""
    if not all(isinstance(x, Tracer) and x.ref is not None for x in listed):
        return False
    return len({type(x.value) for x in listed}) == 1 and not np.ndim(listed[0].value)


CLASSES: dict[type, Callable[..., Any]] = python_builtins.NUMBERS | {set: make}
"""Classes that are replaced; each gets the recorder first."""

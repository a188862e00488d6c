"""Elements: numbers of the slices in lanes, computed on first use."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..registers import Register
from ..writer import Writer

Array = np.ndarray
"""A value: an array of objects with its shape, whose items are `Element`s."""


class Element:
    """One number of each slice, or the source of several.

    Parameters
    ----------
    make : callable
        ``make(*registers)`` of the registers of the operands writes it.
    operands : sequence of Element
        What it is computed from.
    """

    __slots__ = ("make", "operands")

    def __init__(self, make: Callable[..., Any], operands: Sequence[Element] = ()) -> None:
        self.make, self.operands = make, operands


class Stored(Element):
    """A number that is the same for all slices, in a row of such in memory.

    Parameters
    ----------
    row : callable
        ``row(places)`` loads those at other places of the same row, one for each slice.
    """

    __slots__ = ("row",)

    def __init__(self, make: Callable[..., Any], row: Callable[[Register], Register]) -> None:
        super().__init__(make)
        self.row = row


_BLOCK = 100
"""Instructions that LLVM orders together."""


class Scope:
    """The elements that are in registers at this point of the kernel.

    What was computed in a block that need not run is not available after it.

    Parameters
    ----------
    writer : Writer
        What writes the kernel.
    never : Register
        A condition that is false.
    """

    def __init__(self, writer: Writer, never: Register) -> None:
        self._writer, self._never = writer, never
        self._begun = writer.written
        self._found: dict[Element, Any] = {}

    def __call__(self, element: Element) -> Any:
        """The register of an element, which is written here if it is not there yet."""
        stack = [element]
        while stack:
            e = stack[-1]
            missing = [o for o in e.operands if o not in self._found]
            if e in self._found:
                stack.pop()
            elif missing:
                stack += reversed(missing)
            else:
                self._found[e] = e.make(*(self._found[o] for o in e.operands))
                stack.pop()
                if self._writer.written - self._begun > _BLOCK:
                    self._writer.new_block(self._never)
                    self._begun = self._writer.written
        return self._found[element]

    @contextmanager
    def block(self) -> Iterator[None]:
        """A block at whose end its new elements are forgotten."""
        before = len(self._found)
        yield
        for e in list(self._found)[before:]:
            del self._found[e]


def array_of(shape: Sequence[int], elements: Sequence[Element]) -> Array:
    """A value of some shape, of its elements in C order."""
    found = np.empty(len(elements), object)
    found[:] = elements
    return found.reshape(tuple(shape))

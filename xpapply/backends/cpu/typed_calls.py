"""Calls of a compiled typed function: layout of arrays, and forms."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ...arrays.addresses import of_array
from ...limits import LIMITS

ONE, QUIET, LANES = "one", "quiet", "lanes"
"""Forms of a function: one slice after the other, the same with quiet comparisons, and slices side
by side."""


@dataclass(slots=True)
class Lanes:
    """The trial of slices side by side: both ways are timed in turn until one is plainly faster.

    Attributes
    ----------
    is_good : bool or None
        Whether that is quicker; None: not known yet.
    took : float
        CPU seconds that one after the other has taken before lanes were compiled.
    one, beside : float
        The least CPU seconds of a slice, one after the other and side by side.
    looks : int
        How often slices were timed side by side.
    is_turned : bool
        Whether the next look begins side by side: what comes first finds colder memory.
    """

    is_good: bool | None = None
    took: float = 0.0
    one: float = math.inf
    beside: float = math.inf
    looks: int = 0
    is_turned: bool = False

    def add(self, form: str, seconds: float) -> None:
        """A timing of a slice in a form, which may decide.

        One timing may be three times too long, where something else has the processor, and one of
        no time at all is that of a clock which has not moved.
        """
        seconds = max(seconds, 1e-12)
        if form != LANES:
            # of those before the first look only the last counts: both ways are timed as often
            self.one = min(self.one, seconds) if self.looks else seconds
            return
        self.beside = min(self.beside, seconds)
        self.looks += 1
        gain, near = LIMITS.typed_lanes_gain, LIMITS.typed_lanes_near
        share = self.beside / self.one
        is_plain = not gain / near < share < gain * near
        if self.looks >= (LIMITS.typed_lanes_looks if is_plain else LIMITS.typed_lanes_most):
            self.is_good = share < gain

    def again(self) -> None:
        """Look again, from now on."""
        self.is_good, self.beside, self.looks = None, math.inf, 0


@dataclass(frozen=True, slots=True)
class Prepared:
    """The part of a call that is shared by the same layout.

    Attributes
    ----------
    shape : tuple of int
        Of the batch.
    count : int
        How many slices there are.
    sizes : array
        The axes that slices are gone through along.
    steps : list of array
        The strides of each array along them.
    places : list of int
        Where these lie.
    words : array
        The frame, but for the memory of a thread.
    numbers, tile, width : int
        How many numbers a slice has, bytes of as many slices as there are lanes, and how many
        lanes.
    fits : bool
        Whether slices may go side by side: there are enough, and they take little memory.
    side_by_side : bool
        Whether the elements of slices and results lie side by side; of a function of numbers,
        whether these follow each other in rows.
    lanes : Lanes
        The trial of slices side by side, which all of such functions share.
    functions : dict
        Machine code, by form, as far as it was wanted.
    rates : dict
        Seconds of one thread for a slice, by form, as they were seen.
    kits : list of Kit
        Memory of calls that have ended.
    """

    shape: tuple[int, ...]
    count: int
    sizes: np.ndarray
    steps: list[np.ndarray]
    places: list[int]
    words: np.ndarray
    numbers: int
    tile: int
    width: int
    fits: bool
    side_by_side: bool
    lanes: Lanes
    functions: dict[str, Any] = field(default_factory=dict)
    rates: dict[str, float] = field(default_factory=dict)
    kits: list[Kit] = field(default_factory=list)

    @property
    def axes(self) -> tuple[int, int]:
        """The arguments that say along which axes slices lie."""
        return len(self.sizes), of_array(self.sizes)

    def given(self, everything: Iterable[np.ndarray]) -> list[int]:
        """The arguments for slices and results."""
        found: list[int] = []
        for x, place in zip(everything, self.places, strict=True):
            found += (of_array(x), place)
        return found

    def settled(self) -> str:
        """The form in which one thread does all of it, which takes little; "": not known yet."""
        good = self.lanes.is_good if self.fits else False
        form = ONE if good is False else LANES
        rate = None if good is None else self.rates.get(form)
        return form if rate is not None and rate * self.count < LIMITS.typed_alone else ""


class Kit(NamedTuple):
    """Memory that a short call needs beside its arrays, which the next one takes over.

    Attributes
    ----------
    frame, drawn, marks : array
        Of the thread; how many slices were drawn, and whether any is marked; of each slice.
    before, after : tuple of int
        Where these lie, as arguments.
    """

    frame: np.ndarray
    drawn: np.ndarray
    marks: np.ndarray
    before: tuple[int, ...]
    after: tuple[int, ...]

    @classmethod
    def of(cls, layout: Prepared) -> Kit:
        """One for arrays that lie so."""
        frame, drawn = layout.words.copy(), np.zeros(2, np.int64)
        marks = np.empty(layout.count, np.uint16)
        before, after = (of_array(frame), of_array(drawn)), (of_array(marks), *layout.axes)
        return cls(frame, drawn, marks, before, after)


class Call(NamedTuple):
    """A call, for all forms.

    Attributes
    ----------
    layout : Prepared
        How its arrays lie.
    noted : int
        Which notes of the processor are marks.
    arguments : list of int
        Where marks, slices and results are.
    outs : sequence of array
        The results.
    kept : list of array
        All that threads read and write, which may do so a little longer than who is interrupted.
    """

    layout: Prepared
    noted: int
    arguments: list[int]
    outs: Sequence[np.ndarray]
    kept: list[np.ndarray]

    def firsts(self, count: int) -> list[np.ndarray]:
        """Copies of the results of the first slices."""
        sizes, batch = self.layout.sizes, len(self.layout.shape)
        at = np.unravel_index(np.arange(count), tuple(sizes))
        steps = self.layout.steps[-len(self.outs) :]
        return [
            as_strided(x, (*sizes, *x.shape[batch:]), (*own, *x.strides[batch:]))[at]
            for x, own in zip(self.outs, steps, strict=True)
        ]

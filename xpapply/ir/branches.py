"""The paths of a function that decides by the data, as one graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import UnsupportedError
from .builder import Value
from .graph import Graph
from .numpy_builder import NumPyBuilder
from .unusual import copied, with_unusual

Paths = Sequence[tuple[tuple[bool | int, ...], Graph | None]]
"""The decisions of each path, and its graph: results, then decided values in order, then conditions
that mark a slice. None: its slices are left to the function."""


def joined(paths: Paths, results: int = 1) -> Graph:
    """A graph with the results of the path that a slice is on, and a mark.

    `results`: how many there are.

    A slice is marked if it is on no path, or NumPy may have warned of it on its own
    (`xpapply.ir.unusual`). What is computed on another path than a slice's own is not seen.

    Raises
    ------
    UnsupportedError
        If no path has a result.
    """
    builder = NumPyBuilder()
    found: list[Value] = []
    mark: Any = None
    for answers, graph in paths:
        if graph is None:
            continue
        marked = with_unusual(graph)
        places = [_place(builder.consts, x) for x in marked.consts]
        *made, unusual = copied(builder, marked, marked.outs, places)
        outs, made = made[:results], made[results:]
        conditions, marks = made[: len(answers)], made[len(answers) :]
        for condition in marks:
            unusual = builder.op("logical_or", unusual, condition)
        if not answers:
            found, mark = outs, unusual
        else:
            if not found:  # on no path
                found = [builder.scalar(0, x.aval.dtype) for x in outs]
                mark = builder.scalar(True, "bool")
            here = _on_path(builder, conditions, answers)
            several = zip(outs, found, strict=True)
            found = [builder.op("where", here, x, y) for x, y in several]
            mark = builder.op("where", here, unusual, mark)
    if not found:
        raise UnsupportedError("none of its paths has a result")
    return builder.graph(*found, mark).pruned()


def _on_path(
    builder: NumPyBuilder, conditions: Sequence[Value], answers: Sequence[bool | int]
) -> Value:
    """Whether a slice takes these decisions."""
    found: Any = None
    for condition, answer in zip(conditions, answers, strict=True):
        if isinstance(answer, bool):
            one = condition if answer else builder.op("logical_not", condition)
        else:
            one = builder.op("equal", condition, builder.scalar(answer, condition.aval.dtype))
        found = one if found is None else builder.op("logical_and", found, one)
    return found  # type: ignore[no-any-return]


def _place(consts: list[np.ndarray], array: np.ndarray) -> int:
    """The index of a constant among those of other paths; it is appended if new."""
    for k, x in enumerate(consts):
        alike = x.shape == array.shape and x.dtype == array.dtype
        if alike and (x is array or x.tobytes() == array.tobytes()):
            return k
    consts.append(array)
    return len(consts) - 1

"""The paths of a function that decides by the data, as one slice graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import UnsupportedError
from .graph import Graph
from .slice_graph import Expression, SliceBuilder
from .to_slice_graph import sliced
from .unusual import copied, with_unusual

Paths = Sequence[tuple[tuple[bool, ...], Graph | None]]
"""The answers that lead along each path, and its graph: with the result and then the conditions
that were asked, in that order. None: its slices are left to the function itself."""


def joined(paths: Paths) -> tuple[Graph, list[np.ndarray]]:
    """A slice graph with two results: that of the path that a slice is on, and a mark.

    A slice is marked if it is on no path, or NumPy may have warned of it on its own
    (`xpapply.ir.unusual`). All paths are computed for every slice, for the slices of a vector run
    together; what is computed on another path than its own is not seen.

    Returns
    -------
    Graph
        Its inputs are the slice, then constants.
    list of ndarray
        The constants.

    Raises
    ------
    UnsupportedError
        If the values of a path are neither one per element nor one per slice.
    """
    builder = SliceBuilder()
    consts: list[np.ndarray] = []
    inputs: list[Expression] = []
    result: Any = None
    mark: Any = None
    for answers, graph in paths:
        if graph is None:
            continue
        found = sliced(graph)
        if found is None:
            raise UnsupportedError("its values are neither one per element nor one per slice")
        if not inputs:
            inputs.append(builder.input(found.graph.nodes[found.graph.inputs[0]].aval))
        given = [inputs[0]]
        for i, k in zip(found.graph.inputs[1:], found.consts, strict=True):
            at = _place(consts, graph.consts[k])
            if at + 1 == len(inputs):
                inputs.append(builder.input(found.graph.nodes[i].aval))
            given.append(inputs[at + 1])
        marked = with_unusual(found.graph)
        out, *conditions, unusual = copied(builder, marked, given, marked.outs)
        if result is None:
            result, mark = out, builder.scalar(True, "bool") if answers else unusual
        if answers:
            here = _on_path(builder, conditions, answers)
            result = builder.op("where", here, out, result)
            mark = builder.op("where", here, unusual, mark)
    if result is None:
        raise UnsupportedError("none of its paths has a result")
    return builder.graph(result, mark), consts


def _on_path(
    builder: SliceBuilder, conditions: Sequence[Expression], answers: Sequence[bool]
) -> Expression:
    """Whether a slice gives these answers."""
    found: Any = None
    for condition, answer in zip(conditions, answers, strict=True):
        one = condition if answer else builder.op("logical_not", condition)
        found = one if found is None else builder.op("logical_and", found, one)
    return found  # type: ignore[no-any-return]


def _place(consts: list[np.ndarray], array: np.ndarray) -> int:
    """Where a constant is among those of other paths; it is put there."""
    for k, x in enumerate(consts):
        alike = x.shape == array.shape and x.dtype == array.dtype
        if alike and (x is array or x.tobytes() == array.tobytes()):
            return k
    consts.append(array)
    return len(consts) - 1

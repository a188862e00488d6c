"""Runs the kernels of a network that is too deep for one, block by block of slices."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import cupy

from ...arrays.layout import boxes, columns
from ...codegen.graph_queries import prepare
from ...config import current
from ...functions.cache import BoundedDict
from ...ir.batch import batch
from ...ir.tiles.tiles import Tiles
from ...limits import LIMITS
from ...lowering.program import Program
from ...lowering.segments import Segments
from ...runtime.threads import pool
from . import compiler
from .launch import Calls, Tensor
from .weights import Weights

_Call = tuple["Tensor | Passes", Any, Any]
"""A call: kernel, source, target."""


class Passes:
    """A part that is no kernel, but a reduction of whole slices: CuPy's own operations."""

    def __init__(self, tiles: Tiles) -> None:
        self._sources = [(s.start, s.start + math.prod(s.shape)) for s in tiles.sources]
        self._program = Program(batch(prepare(tiles.graph)), Calls())

    def __call__(self, x: Any, at: int, slices: int, bound: Weights, out: Any) -> None:
        """All slices of `x` into `out`; both in memory order."""
        values = bound.values(self, self._program)
        parts = [_part(x, at, source) for source in self._sources]
        x = parts[0] if len(parts) == 1 else cupy.concatenate(parts, at)
        found = self._program.run(columns(x, at), values, self._program.scratch(slices), None)
        ndim = out.ndim - x.ndim + 1
        before, result, behind = out.shape[:at], out.shape[at : at + ndim], out.shape[at + ndim :]
        place = cupy.moveaxis(out, range(at, at + ndim), range(ndim))
        place[...] = found.reshape(*result, *before, *behind)


class SegmentsRun:
    """The kernels, and the records of a block of slices between them."""

    def __init__(self, found: Segments, kernels: Sequence[Tensor | Passes]) -> None:
        self._found, self._kernels = found, kernels
        self._ready = BoundedDict()

    def __call__(self, x: Any, at: int, slices: int, bound: Weights, out: Any) -> None:
        if not slices:
            return
        most = current().block_bytes or LIMITS.cupy_segments_block
        rows = max(1, most // (4 * self._found.numbers))
        inner = (slice(None),) * (out.ndim - x.ndim + 1)
        for box in boxes(x.shape, at, rows):
            target = out[(*box[:at], *inner, *box[at + 1 :], ...)]
            found = target if target.flags.c_contiguous else cupy.empty(target.shape, target.dtype)
            self._block(x[box], at, bound, found)
            if found is not target:
                target[...] = found

    def _block(self, x: Any, at: int, bound: Weights, out: Any) -> None:
        """The slices of a block; their results go to `out`."""
        shape = (*x.shape[:at], self._found.numbers, *x.shape[at + 1 :])
        records = cupy.empty(shape, "float32")
        slices = x.size // x.shape[at]
        if self._found.copied:
            cupy.copyto(_part(records, at, (0, self._found.copied)), x, casting="unsafe")
        calls = list(self._calls(x, at, records, out))
        key = (x.shape, x.strides, at, x.device.id)
        if key not in self._ready:
            self._compile(calls, at, slices)
            self._ready[key] = True
        for kernel, source, target in calls:
            kernel(source, at, slices, bound, target)

    def _calls(self, x: Any, at: int, records: Any, out: Any) -> Iterator[_Call]:
        """Each kernel, with what it reads and what it writes."""
        for part, kernel in zip(self._found.parts, self._kernels, strict=True):
            source = x if part.read is None else _part(records, at, part.read)
            target = out if part.written is None else _part(records, at, part.written)
            yield kernel, source, target

    def _compile(self, calls: Sequence[_Call], at: int, slices: int) -> None:
        """All kernels side by side: one after the other would take several times as long."""
        number = cupy.cuda.Device().id
        texts = [
            kernel.text(x, at, slices, out)[0]
            for kernel, x, out in calls
            if isinstance(kernel, Tensor)
        ]
        different = {(t.source, t.name, t.shared) for t in texts}

        def compile_(text: tuple[str, str, int]) -> None:
            source, name, shared = text
            with cupy.cuda.Device(number):
                compiler.function(source, name, number, shared)

        for done in pool(LIMITS.cupy_compilers).map(compile_, different):
            assert done is None


def _part(records: Any, at: int, places: tuple[int, int]) -> Any:
    """A part of each record."""
    return records[(*(slice(None),) * at, slice(*places))]

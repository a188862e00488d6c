"""Kernels of slice graphs with their geometry, on arrays that lie alike: threads over tiles."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from ... import config
from ...arrays.addresses import of_array
from ...codegen.llvm.slice_kernel import NAME, Form, slice_kernel
from ...functions.cache import Dict, kept
from ...ir.graph import Graph, Node
from ...ir.ops import OPS
from ...limits import LIMITS
from ...runtime import threads
from . import compiler, crew
from .slice_forms import Slices, Way, itemsize, parts, way

_OPERANDS = 4
"""Arguments of a kernel before those of arrays."""
_compiled: Dict = kept(Dict())
"""Compiled kernels, by name, graph, form and target."""


def function(write: Callable[..., str], name: str, graph: Graph, form: Form) -> compiler.Function:
    """The kernel that `write` has for a graph in a form."""
    target = compiler.host()
    found = _compiled.get((name, graph, form, target))
    if found is None:
        key, text = f"{graph.nodes} {graph.outs} {form}", partial(write, graph, form, target)
        found = _compiled[name, graph, form, target] = compiler.compile(text, name, key, target)
    return found  # type: ignore[no-any-return]


def why_not(given: Sequence[Any]) -> str | None:
    """Why no kernels of slices run on such arrays, or numbers; None: they do."""
    refusal = compiler.why_not()
    for x in given if refusal is None else ():
        if not getattr(getattr(x, "dtype", None), "isnative", True):
            return NOT_NATIVE
        if isinstance(x, np.ndarray) and any(s % x.itemsize for s in x.strides):
            return f"strides {x.strides} are no multiples of the {x.itemsize} bytes of an element"
    return refusal


NOT_NATIVE = "the array's numbers have the byte order of other machines"


def is_compiled(graph: Graph, form: Form) -> bool:
    """Whether the kernel for a graph in a form is compiled."""
    return (NAME, graph, form, compiler.host()) in _compiled


class Launch:
    """A kernel that goes through slices, and its geometry, for arrays that lie alike.

    Parameters
    ----------
    way : Way
        How it goes through them.
    function : Function
        The kernel, compiled.
    dtypes : sequence of str
        Of inputs and results.
    cost : float
        Instructions of a tile, about.
    """

    def __init__(
        self, way: Way, function: compiler.Function, dtypes: Sequence[str], cost: float
    ) -> None:
        self.way, self._function, self._cost = way, function, cost
        form = way.form
        self._dtypes = [np.dtype(d) for d in dtypes]
        geometry, at = dict(way.geometry), 0
        for k, (dtype, elements) in enumerate(zip(self._dtypes, way.rows, strict=True)):
            geometry[f"scratch {k}"] = at
            at += -(-elements * dtype.itemsize // 64) * 64
        for m, place in enumerate(way.places):
            geometry[f"kept {m}"] = at
            at += -(-way.kept * itemsize(place) // 64) * 64
        self._scratch_bytes = at
        fields = form.fields(len(way.places))
        behind, leaves = parts(form, way.slices)
        behind[:, 2:] += len(fields) + behind.size  # where leaves are
        numbers = np.array([geometry[f] for f in fields], np.int64)
        self._geometry = np.concatenate([numbers, behind.ravel(), leaves])
        self._at = self._geometry.ctypes.data
        self._crowd = crew.Crowd()
        self._free: list[tuple[np.ndarray, int]] = []
        self._values = [k for k, move in enumerate(form.inputs) if move == "value"]

    def __call__(self, arrays: Sequence[Any], outs: Sequence[Any], count: int = 0) -> None:
        """Write results; with `count` threads, 0: as many as there are and it is worth."""
        several = itertools.chain(arrays, outs)
        if self._values:
            given = [
                _bits(x, self._dtypes[k]) if k in self._values else of_array(x)
                for k, x in enumerate(several)
            ]
        else:
            given = [of_array(x) for x in several]
        tiles = self.way.tiles
        seconds = self._cost * tiles * LIMITS.slices_instruction
        if seconds < LIMITS.typed_alone or threads.is_within():
            self._run(given, 0, tiles)
            return
        most = min(config.current().thread_count(), tiles)
        if seconds < LIMITS.typed_turn and len(given) + _OPERANDS <= crew.MOST and crew.is_there():
            self._together(given, most, seconds)
            return
        most = min(most, threads.worth(seconds, LIMITS.typed_thread))
        count = most if self._cost * tiles >= LIMITS.kernel_pool else 1
        if count == 1:
            self._run(given, 0, tiles)
            return
        ends = [tiles * k // (8 * count) for k in range(8 * count + 1)]

        def work(ranges: Iterator[tuple[int, int]]) -> None:
            for start, stop in ranges:
                self._run(given, start, stop)

        ranges = (r for r in itertools.pairwise(ends) if r[0] < r[1])
        threads.in_threads(work, ranges, count, self._cost * tiles < LIMITS.kernel_short)

    def _together(self, given: Sequence[int], most: int, seconds: float) -> None:
        """All tiles, with helpers if that takes less time."""
        tiles = self.way.tiles
        count = self._crowd.chosen(threads.worth(seconds, LIMITS.typed_helper), most)
        if count == 1:
            began = time.perf_counter()
            self._run(given, 0, tiles)
            self._crowd.add(1, time.perf_counter() - began)
            return
        step = self._scratch_bytes + -self._scratch_bytes % 64
        memory = self._memory(step * count)
        share = int(LIMITS.typed_share / seconds * tiles)
        piece = max(1, tiles // (count * LIMITS.typed_pieces), share)
        arguments, own = (self._at, 0, 0, 0, *given), (memory[1], step, 0, 0)
        work = crew.Work(self._function, crew.SLICES, arguments, own, 0, tiles, piece)
        crew.together(work, count, self._crowd)
        self._free.append(memory)

    def _memory(self, size: int) -> tuple[np.ndarray, int]:
        """Memory for so many bytes of scratch, of calls that have ended if that is enough."""
        while self._free:
            try:
                found = self._free.pop()  # no other thread has it now
            except IndexError:
                break
            if found[0].nbytes >= size + 64:
                return found
        memory = np.empty(size + 64, np.uint8)
        return memory, memory.ctypes.data + -memory.ctypes.data % 64

    def _run(self, given: Sequence[int], start: int, stop: int) -> None:
        scratch = self._memory(self._scratch_bytes)
        self._function.call(compiler.packed(self._at, scratch[1], start, stop, *given))
        self._free.append(scratch)


class Kernel(Launch):
    """Runs a graph of slices, without accumulators."""

    def __init__(self, graph: Graph, slices: Slices) -> None:
        found = way(graph, slices, compiler.host())
        dtypes = [graph.nodes[i].aval.dtype for i in (*graph.inputs, *graph.outs)]
        cost = sum(instructions(n) for n in graph.nodes) * slices.length
        super().__init__(found, function(slice_kernel, NAME, graph, found.form), dtypes, cost)


def instructions(n: Node) -> float:
    """Estimated instructions of a node per element."""
    return OPS[n.op].instructions if n.args and n.op in OPS else 1.0


def _bits(x: Any, dtype: np.dtype[Any]) -> int:
    """A number as 64 bits of which the first hold it."""
    return int.from_bytes(dtype.type(x).tobytes().ljust(8, b"\0"), "little", signed=True)

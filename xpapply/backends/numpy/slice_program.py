"""Part of a slice graph as calls into reused buffers, for one block after the other."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...ir.graph import Graph, number
from ...ir.ops import OPS, Kind
from ...ir.slices.slice_graph import Accumulator
from ...lowering.program import plan_buffers
from . import kernels

VECTOR, NUMBER, CONSTANT = "vector", "number", "constant"
"""Kinds of values in a block: one number per element, per slice, or for all."""


class SliceProgram:
    """The steps of a slice graph that has only elementwise ops, reductions and folds.

    Parameters
    ----------
    graph : Graph
        Made by `ir.subgraph.part`, or of numbers only.
    kinds : sequence of str
        What its inputs are.
    axes : tuple of int
        The axes of a slice in blocks.
    weights : tuple of int
        How far apart neighbours along these axes are in the order of positions.
    loads : container of int
        Inputs to be copied to a buffer first.
    direct : sequence of bool
        For each result whether it can be computed in place.
    aliased : bool
        Whether results may lie in the memory of inputs.
    """

    def __init__(
        self,
        graph: Graph,
        kinds: Sequence[str],
        axes: tuple[int, ...] = (),
        weights: tuple[int, ...] = (),
        loads: Sequence[int] = (),
        direct: Sequence[bool] | None = None,
        aliased: bool = True,
    ) -> None:
        self.graph, self.axes, self._weights = graph, axes, weights
        self.inputs = graph.inputs
        self._start = len(graph.nodes)
        copies = {self.inputs[k] for k in loads}
        if aliased:  # an input that is a result could be written over by another result
            copies.update(set(graph.outs) & set(self.inputs))
        self._loaded = {i: self._start + 1 + n for n, i in enumerate(sorted(copies))}
        self._outs = [self._loaded.get(o, o) for o in graph.outs]
        self._kinds = self._all_kinds(kinds)
        self._steps = self._all_steps()
        self._direct = self._all_direct(direct or [True] * len(graph.outs), aliased)
        self._copied = [(k, i) for k, i in enumerate(self._outs) if self._direct.get(i) != k]
        self._passing = (*self.inputs, *self._direct)
        steps = [(args, [i for i in outs if i not in self._direct]) for args, outs in self._steps]
        self._slots, self._memory = plan_buffers(steps, self._kind, self._replaceable, self._outs)
        sizes = [np.dtype(self._dtype(i)).itemsize for i in range(len(graph.nodes))]
        self.itemsize = max(s for s, k in zip(sizes, self._kinds, strict=False) if k != CONSTANT)

    def _all_kinds(self, given: Sequence[str]) -> list[str]:
        kinds: list[str] = []
        for i, n in enumerate(self.graph.nodes):
            if n.op == "input":
                kinds.append(given[n.attr("k")])
            elif self.graph.is_vector(i):
                kinds.append(VECTOR)
            else:
                constant = all(kinds[a] == CONSTANT for a in n.args)
                kinds.append(CONSTANT if constant else NUMBER)
        return [*kinds, CONSTANT, *(kinds[i] for i in self._loaded)]

    def _dtype(self, i: int) -> str:
        for node, at in self._loaded.items():
            if i == at:
                return self._dtype(node)
        return self.graph.nodes[i].aval.dtype

    def _all_steps(self) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
        """The operands and results of each step."""
        steps: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
        folds = self.graph.accumulations()
        for i, n in enumerate(self.graph.nodes):
            args = tuple(self._loaded.get(a, a) for a in n.args)
            if i in self._loaded:
                steps.append(((i,), (self._loaded[i],)))
            elif n.op == "accumulate":
                fields = folds[n.attr("by"), n.args]
                if i == fields[0]:
                    steps.append((args, tuple(fields)))
            elif n.op in OPS and OPS[n.op].finds_position:
                steps.append(((*args, self._start), (i,)))
            elif n.op not in ("input", "scalar", "length"):
                steps.append((args, (i,)))
        return steps

    def _all_direct(self, wanted: Sequence[bool], aliased: bool) -> dict[int, int]:
        """The steps' results that are computed in the memory of a result of the graph."""
        reads = [n for n, (args, _) in enumerate(self._steps) if set(args) & set(self.inputs)]
        found: dict[int, int] = {}
        for step, (_, outs) in enumerate(self._steps):
            # what is still to be read must not be written over
            safe = not aliased or not reads or step >= reads[-1]
            for i in outs:
                places = [k for k, o in enumerate(self._outs) if o == i and wanted[k]]
                if places and safe and self._kinds[i] != CONSTANT and len(outs) == 1:
                    if aliased and self._fills_first(step):
                        continue
                    found[i] = places[0]
        return found

    def _fills_first(self, step: int) -> bool:
        """Whether a step writes all of its result before it has read an input."""
        args, outs = self._steps[step]
        chooses = outs[0] < len(self.graph.nodes) and self.graph.nodes[outs[0]].op == "where"
        return chooses and bool(set(args[:2]) & set(self.inputs))

    def _kind(self, i: int) -> tuple[str, str]:
        return self._kinds[i], self._dtype(i)

    def _replaceable(self, step: int, i: int) -> tuple[int, ...]:
        """The operands in whose place a result can be written."""
        if i >= self._start or self._kinds[i] == CONSTANT:
            return ()
        op, (args, _) = self.graph.nodes[i].op, self._steps[step]
        if op == "where":
            return args[2:] if args[2] != args[0] else ()
        elementwise = op in OPS and OPS[op].kind is Kind.ELEMENTWISE and op != "cast"
        return args if elementwise else ()

    # --- running ----------------------------------------------------------------------

    def scratch(self, shape: tuple[int, ...]) -> SliceScratch:
        """The buffers for blocks of at most such a shape."""
        return SliceScratch(self, shape)

    def shape(self, i: int, block: tuple[int, ...]) -> tuple[int, ...]:
        if self._kinds[i] == NUMBER:
            return tuple(1 if a in self.axes else n for a, n in enumerate(block))
        return block if self._kinds[i] == VECTOR else ()

    def run(
        self,
        scratch: SliceScratch,
        block: tuple[int, ...],
        arrays: Sequence[Any],
        outs: Sequence[Any],
        start: int = 0,
    ) -> None:
        """Run one block, `start` after the first position of its slices."""
        values, ready = scratch.bound(block)
        for i, x in zip(self.inputs, arrays, strict=True):
            values[i] = x
        for i, k in self._direct.items():
            values[i] = outs[k]
        values[self._start] = start
        for call, args in ready:
            if args is None:
                call()
            else:
                call(*[values[a] for a in args])
        for k, i in self._copied:
            kernels.copied(outs[k], values[i])
        for i in self._passing:  # no array is kept alive
            values[i] = None

    def call(self, step: int, block: tuple[int, ...]) -> Callable[..., Any]:
        """The call of a step, given its operands and outputs."""
        args, outs = self._steps[step]
        if outs[0] > self._start:
            return kernels.load
        node = self.graph.nodes[outs[0]]
        if node.op == "accumulate":
            fields = [self.graph.nodes[o].attr("field") for o in outs]
            return _Folded(Fold(node.attr("by")), fields, self.axes)
        if node.op == "cast":
            return kernels.cast
        if node.op == "where":
            replaced = self._slots.get(outs[0], -1) == self._slots.get(args[2], -2)
            return kernels.chosen_in_place if replaced else kernels.chosen
        if OPS[node.op].finds_position:
            if len(self.axes) == 1 and self._weights == (1,):
                return functools.partial(kernels.position, getattr(np, node.op), self.axes[0])
            order = kernels.positions(block, self.axes, self._weights)
            best = np.maximum if node.op == "argmax" else np.minimum
            return functools.partial(kernels.position_by_order, best, self.axes, order)
        if node.op in ("max", "min") and self._has_short_rows(args[0], block):
            rows = np.arange(math.prod(block[:-1])) * block[-1]
            return functools.partial(kernels.best_of_rows, getattr(np, f"arg{node.op}"), rows)
        if OPS[node.op].kind is Kind.REDUCTION:
            joined = getattr(np, OPS[node.op].join).reduce
            return functools.partial(kernels.reduced, joined, self.axes)
        return kernels.elementwise(node.op)

    def _has_short_rows(self, i: int, block: tuple[int, ...]) -> bool:
        """Whether slices are so short that NumPy's max is mostly overhead."""
        real = np.dtype(self._dtype(i)).kind in "fiu"
        return (
            real and self.axes == (len(block) - 1,) and kernels.ROW[0] <= block[-1] < kernels.ROW[1]
        )

    def is_fixed(self, i: int) -> bool:
        """Whether a value has the same memory in all blocks of one shape."""
        return i != self._start and i not in self._passing


class SliceScratch:
    """The buffers of one worker, and the calls into them by shape of a block."""

    def __init__(self, program: SliceProgram, shape: tuple[int, ...]) -> None:
        self._program = program
        sizes = {VECTOR: math.prod(shape), CONSTANT: 1}
        sizes[NUMBER] = math.prod(n for a, n in enumerate(shape) if a not in program.axes)
        self._flat = [np.empty(sizes[kind], dtype) for kind, dtype in program._memory]
        self.nbytes = sum(x.nbytes for x in self._flat)
        self._bound: dict[tuple[int, ...], tuple[list[Any], list[Any]]] = {}

    def bound(self, block: tuple[int, ...]) -> tuple[list[Any], list[Any]]:
        """The values of all nodes, and the calls: ``(call, None)`` where all is known."""
        found = self._bound.get(block)
        if found is None:
            found = self._bound[block] = self._bind(block)
        return found

    def _bind(self, block: tuple[int, ...]) -> tuple[list[Any], list[Any]]:
        program = self._program
        values: list[Any] = [None] * len(program._kinds)
        fixed = set()
        for i, n in enumerate(program.graph.nodes):
            if n.op == "scalar":
                values[i] = np.array(number(n), n.aval.dtype)
            elif n.op == "length":
                values[i] = np.array(math.prod(block[a] for a in program.axes), n.aval.dtype)
            else:
                continue
            fixed.add(i)
        for i, slot in program._slots.items():
            shape = program.shape(i, block)
            values[i] = self._flat[slot][: math.prod(shape)].reshape(shape)
        ready: list[Any] = []
        for step, (args, outs) in enumerate(program._steps):
            call = program.call(step, block)
            operands = (*args, *outs)
            if not all(map(program.is_fixed, operands)):
                ready.append((call, operands))
                continue
            given = [values[i] for i in operands]
            if fixed.issuperset(args):
                # of constants only: once, in memory of its own
                given[-1] = values[outs[0]] = np.empty((), program._dtype(outs[0]))
                call(*given)
                fixed.add(outs[0])
            else:
                ready += [(known, None) for known in kernels.known(call, given)]
        return values, ready


class Fold:
    """Numbers along an axis combined in pairs, these in pairs, until one is left."""

    def __init__(self, by: Accumulator) -> None:
        self.dtypes = by.dtypes
        self._program = SliceProgram(by.combine, [NUMBER] * (2 * len(by.dtypes)), aliased=False)
        self._scratch: SliceScratch | None = None
        self._most = 0

    def __call__(self, states: Sequence[Any], axis: int) -> Sequence[Any]:
        """The numbers of all, with length 1 along `axis`."""
        while (n := states[0].shape[axis]) > 1:
            half, odd = divmod(n, 2)
            shape = list(states[0].shape)
            shape[axis] = half + odd
            joined = [np.empty(shape, dtype) for dtype in self.dtypes]
            pairs = [_cut(s, axis, a, a + half) for a in (0, half) for s in states]
            targets = [_cut(j, axis, 0, half) for j in joined]
            self._program.run(self._scratch_of(targets[0].shape), targets[0].shape, pairs, targets)
            if odd:
                for j, s in zip(joined, states, strict=True):
                    np.copyto(_cut(j, axis, half, n), _cut(s, axis, n - 1, n))
            states = joined
        return states

    def _scratch_of(self, shape: tuple[int, ...]) -> SliceScratch:
        if self._scratch is None or math.prod(shape) > self._most:
            self._scratch, self._most = self._program.scratch(shape), math.prod(shape)
        return self._scratch


class _Folded:
    """A fold as a step: vectors to numbers."""

    def __init__(self, fold: Fold, fields: Sequence[int], axes: tuple[int, ...]) -> None:
        self._fold, self._fields, self._axes = fold, fields, axes

    def __call__(self, *operands: Any) -> None:
        states: Sequence[Any] = operands[: len(operands) - len(self._fields)]
        for axis in self._axes:
            states = self._fold(states, axis)
        for out, field in zip(operands[-len(self._fields) :], self._fields, strict=True):
            np.copyto(out, states[field])


def _cut(x: np.ndarray, axis: int, start: int, stop: int) -> np.ndarray:
    return x[(*(slice(None),) * axis, slice(start, stop))]

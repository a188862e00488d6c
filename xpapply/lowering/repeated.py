"""A program for blocks of one size, called again and again: what a call of few slices waits for.

`Program.run` looks up operands, buffers and views for each block. With a thousand slices or
fewer that takes longer than the products.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .program import Program, Step


class Repeated:
    """A program with constants of one state and buffers of its own; for one call at a time.

    Only the block and the place of its result differ from call to call. Both have the batch
    axis first, as they lie in memory: ``(B, M)`` and ``(B, *result shape)``. For libraries with
    `batch_first`.
    """

    def __init__(self, program: Program, bound: list[Any], rows: int) -> None:
        self._program = program
        self._values = bound.copy()
        self._buffers = program.scratch(rows).outs(rows)
        self._fixed = [v is not None for v in bound]
        self._calls: list[Callable[[Any, Any], Any]] = []
        self._target: Any = None
        self._passing: list[int] = []
        """Nodes whose values differ from call to call."""
        self._only_rows = False
        """Whether steps use the block and the result only as rows."""

    def __call__(self, x: Any, out: Any) -> Any:
        """None if the result is in `out`; else the result, shape ``(*result shape, B)``."""
        if self._only_rows:
            for call in self._calls:
                call(x, out)
            return None
        program, values = self._program, self._values
        end = program.graph.out
        axes = (*range(1, len(out.shape)), 0)
        values[end] = self._target = target = program.library.transpose(out, axes)
        values[program.input] = x.T  # which may be the result
        if self._calls:
            for call in self._calls:
                call(x, out)
        else:
            made = [self._first(step) for step in program.steps]
            self._calls = [call for call, _ in made]
            self._only_rows = program.steps[-1:] != [] and program.steps[-1].node == end
            self._only_rows &= all(by_rows for _, by_rows in made)
            self._passing = [i for i, fixed in enumerate(self._fixed) if not fixed]
        found = values[end]
        self._target = None
        for i in self._passing:  # nothing of the caller's is held on to
            values[i] = None
        return None if found is target else found

    def _first(self, step: Step) -> tuple[Callable[[Any, Any], Any], bool]:
        """Run a step; how to run it again, and whether that asks for memory as it lies only."""
        program, values, i = self._program, self._values, step.node
        last = i == program.graph.out
        place = self._target if last else self._buffers[i]
        operands = [values[a] if a >= 0 else None for a in step.args]
        values[i] = step.call(*operands, out=place)
        in_place = place is not None and values[i] is place
        self._fixed[i] = in_place and not last
        known = [a < 0 or self._fixed[a] for a in step.args]
        of_input = step.args[0] == program.input
        if program.is_product(step) and in_place and (of_input or known[0]):
            return self._product(operands, place, of_input, last), True
        if all(known) and self._fixed[i]:
            call = step.call
            return lambda x, out: call(*operands, out=place), True

        def general(x: Any, out: Any) -> None:
            operands = [values[a] if a >= 0 else None for a in step.args]
            values[i] = step.call(*operands, out=self._target if last else place)

        return general, False

    def _product(
        self, operands: list[Any], place: Any, of_input: bool, last: bool
    ) -> Callable[[Any, Any], Any]:
        affine, (source, weights, bias) = self._program.library.affine, operands
        rows, target = source.T, place.T
        if of_input and last:
            return lambda x, out: affine(x, weights, bias, out)
        if of_input:
            return lambda x, out: affine(x, weights, bias, target)
        if last:
            return lambda x, out: affine(rows, weights, bias, out)
        return lambda x, out: affine(rows, weights, bias, target)

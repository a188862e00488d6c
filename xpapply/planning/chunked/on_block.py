"""A function of slices, or what runs it, on the slices of one block of a larger array."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ... import arrays, config
from ...arrays import as_tuple
from ...errors import add_note
from ...loop import reference


@dataclass(frozen=True)
class First:
    """The first slice, as an array with all dims, and its result, with as many around it."""

    x: Any
    y: Any


def inner(y: Any, x: Any, axes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of a result for one slice of `x`, among all of them."""
    at = reference.first_place(axes)
    return tuple(y.shape[at : y.ndim - (x.ndim - len(axes) - at)])


class OnBlock:
    """The task of one block.

    Parameters
    ----------
    run : callable
        ``run(block, axis, *args, **kwargs)`` gives the results, on any block.
    axis : int or tuple of int
        As of `xpapply.apply_along_axis`.
    more : tuple
        The further arguments of the function, ``(args, kwargs)``.
    result : numpy dtype and shape
        Of a slice.
    first : First or None
        The first slice of all, where its result says what all are.
    options : dict
        The options in force when the graph of tasks was made.
    of : str
        What blocks are of, in words.
    """

    def __init__(
        self,
        run: Callable[..., Any],
        axis: Any,
        more: tuple[tuple, dict],
        result: tuple[tuple[int, ...], np.dtype],
        first: First | None,
        options: dict[str, Any],
        of: str = "a dask array",
    ) -> None:
        self._of = of
        self._run, self.axis, self.more = run, axis, more
        (self.shape, self.dtype), self._first, self._options = result, first, options
        self._axes, self._at = as_tuple(axis), reference.first_place(as_tuple(axis))

    def __dask_tokenize__(self) -> Any:
        from dask.base import normalize_token

        given = (self.axis, self.more, self.shape, self.dtype, self._options)
        return normalize_token(("xpapply", self._run, *given))

    def __call__(self, more: Any, block: Any) -> Any:
        """The results for the slices of a block; `more`: computed arguments, if not None."""
        if (device := arrays.elsewhere(block)) is not None:
            with device:
                return self(more, block)
        args, kwargs = more or self.more
        shape = self._out_shape(tuple(block.shape))
        if 0 in [n for a, n in enumerate(block.shape) if a not in self._axes]:
            return arrays.compat(block).empty(shape, dtype=self.dtype)
        with config.options(**self._options):
            y = self._on_block(block, args, kwargs)
            if y is None or y.dtype != self.dtype or tuple(y.shape) != shape:
                y = self._as_the_first(y, block, args, kwargs)
        if tuple(y.shape) != shape:
            raise ValueError(
                f"f returned shape {inner(y, block, self._axes)} for the slices of a block, "
                f"where {self.shape} was expected: it must be one shape"
            )
        return y

    def _out_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        rest = [n for a, n in enumerate(shape) if a not in self._axes]
        return (*rest[: self._at], *self.shape, *rest[self._at :])

    def _on_block(self, block: Any, args: tuple, kwargs: dict) -> Any:
        """Results by the block alone; None: its first slice gives too small a dtype or shape."""
        try:
            return self._on(block, args, kwargs)
        except Exception as error:
            if isinstance(error, (TypeError, ValueError)):
                if self._begins_otherwise(block, args, kwargs):
                    return None
            add_note(error, f"arr is one block of {self._of}")
            raise

    def _on(self, block: Any, args: tuple, kwargs: dict) -> Any:
        y = self._run(block, self.axis, *args, **kwargs)
        return y if arrays.library(y) == "cupy" else np.asanyarray(y)

    def _begins_otherwise(self, block: Any, args: tuple, kwargs: dict) -> bool:
        """Whether the first slice of a block has a result of another kind than the first of all.

        The others cannot be assigned to what it tells then, as they could be in NumPy's loop.
        """
        if self._first is None:
            return False
        one = [slice(None) if a in self._axes else slice(0, 1) for a in range(block.ndim)]
        try:
            y = self._on(block[tuple(one)], args, kwargs)
        except Exception:  # as the block did
            return False
        return y.dtype != self.dtype or inner(y, block, self._axes) != self.shape

    def _as_the_first(self, y: Any, block: Any, args: tuple, kwargs: dict) -> Any:
        """Convert results to shape and dtype of the first slice of all.

        `y`: those in what the first slice of the block tells; None: that takes not all of them.
        """
        rest = [a for a in range(block.ndim) if a not in self._axes]
        if self._first is None or not rest:
            return y.astype(self.dtype)
        # with the first slice of all before them the others are assigned as they would be
        first, xp = self._first.x, arrays.compat(block)
        for a in rest[1:]:
            first = xp.repeat(first, block.shape[a], axis=a)
        try:
            y = self._on(xp.concatenate([first, block], axis=rest[0]), args, kwargs)
        except Exception as error:
            add_note(error, f"arr is one block of {self._of}")
            raise
        place = 0 if self._at else len(self.shape)
        return y[(slice(None),) * place + (slice(1, None),)]


def mapped(task: OnBlock, x: Any, name: str) -> Any:
    """An array of dask whose blocks are what a task makes of those of `x`."""
    from ...backends.dask import blocks

    axes = as_tuple(task.axis)
    x = blocks.whole(x, axes)
    rest, at = [a for a in range(x.ndim) if a not in axes], reference.first_place(axes)
    new = {x.ndim + k: n for k, n in enumerate(task.shape)}
    out = (*rest[:at], *new, *rest[at:])
    return blocks.mapped(task, [(x, range(x.ndim))], out, new, task.dtype, name, task.more)

"""Functions of slices that are written once, for arrays of all libraries and dtypes.

What `xpapply.special`, `xpapply.elementwise` and `xpapply.reduction` have in common.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import arrays, config, labelled
from ..arrays import as_tuple
from ..errors import InputError
from ..functions.cache import BoundedDict, Dict, kept
from ..ir.slices.slice_graph import written
from .arguments import Number, kind_of, looked_at, no_arrays, normalize_axes, same_place, signature
from .call import BoundKernel


class Slicewise:
    """A function of slices that is written once, for arrays of all libraries and dtypes.

    Parameters
    ----------
    name : str
        For people.
    write : callable
        Gets an `Expression` per argument, returns one or a tuple of them.
    of_nothing : str, optional
        Why a slice of no elements has no result; "" where it has.
    """

    def __init__(self, name: str, write: Callable[..., Any], of_nothing: str = "") -> None:
        self.name = name
        self._write = write
        self._of_nothing = of_nothing
        self._graphs = kept(Dict())
        self._known = kept(BoundedDict())

    def __call__(
        self, operands: Sequence[Any], axis: Any = None, keepdims: bool = False, out: Any = None
    ) -> Any:
        """Run on all slices: one result, or a tuple of them."""
        try:
            return self.bound(operands, axis, keepdims, out)(operands, out)
        except TypeError:
            if labelled.given(operands) is None:
                raise
            return self._of_labelled(operands, axis, keepdims, out)

    def _of_labelled(self, operands: Sequence[Any], axis: Any, keepdims: bool, out: Any) -> Any:
        if out is not None:
            raise InputError(
                f"{self.name} of labelled arrays into out=: the result has labels of its own. "
                "Give the arrays inside, or leave out= away"
            )
        run = lambda own, axes: self(own, axes, keepdims)  # noqa: E731
        return labelled.given(operands).sliced(run, operands, axis)

    def bound(
        self, operands: Sequence[Any], axis: Any = None, keepdims: bool = False, out: Any = None
    ) -> BoundKernel:
        """The bound kernel for such arrays, made on first use."""
        if axis is not None and type(axis) is not int:  # 1.0 == 1 would be found below
            several = isinstance(axis, (tuple, list))
            axis = tuple(map(operator.index, axis)) if several else operator.index(axis)
        key: Any = (axis, keepdims, config.current().engine, *map(signature, operands))
        if out is not None:
            key += ("out", *map(signature, as_tuple(out)))
        found: BoundKernel | None = self._known.get(key)
        if found is None:
            found = self._known[key] = self.planned(operands, axis, keepdims, out)
        return found

    def planned(
        self, operands: Sequence[Any], axis: Any = None, keepdims: bool = False, out: Any = None
    ) -> BoundKernel:
        """The bound kernel for such arrays, for plans."""
        if not operands:
            raise TypeError(f"{self.name} got no arguments: give at least one array")
        given = [looked_at(self.name, x, alone=no_arrays(operands)) for x in operands]
        own = [x for x in given if not isinstance(x, Number)]
        lazy = any(arrays.library(x) == "dask" for x in own)
        if lazy:  # NumPy's arrays among them become dask's
            shapes = [tuple(1 if n != n else n for n in x.shape) for x in own]  # NaN is unknown
        else:
            same_place(self.name, own)
            shapes = [tuple(x.shape) for x in own]
        try:
            shape = np.broadcast_shapes(*shapes)
        except ValueError:
            which = ", ".join(map(arrays.describe, own))
            raise InputError(f"{self.name}: shapes that do not broadcast: {which}") from None
        axes = normalize_axes(axis, len(shape))
        kinds = tuple(kind_of(x, own) for x in given)
        if kinds not in self._graphs:
            self._graphs[kinds] = written(self._write, kinds)
        graph, several = self._graphs[kinds]
        if self._of_nothing and not math.prod(shape[a] for a in axes):
            raise InputError(
                f"{self.name} of shape {shape} along axis {axis}: slices of no elements: "
                f"{self._of_nothing}"
            )
        if lazy:
            from . import on_dask

            about = (self.name, graph, several, len(shape), axes, keepdims)
            return on_dask.OnDask(*about)  # type: ignore[return-value]
        as_is = [x is y for x, y in zip(operands, given, strict=True)]
        return BoundKernel(self.name, graph, several, given, as_is, shape, axes, keepdims, out)

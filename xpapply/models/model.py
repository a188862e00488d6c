"""A model whose layers are known: a function of a slice that needs no library but NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..arrays import masked
from ..errors import InputError
from ..ir.builder import Builder
from ..ir.graph import Graph, ShapeDtype
from ..ir.rewrite import compact
from ..mlp import by_definition, constant
from .layers import Layer


class Model:
    """Layers one after the other, to be applied to every slice of an array.

    `load_model` makes it.

    Parameters
    ----------
    layers : sequence of Layer
        In their order.
    result_dtype : str
        The dtype of its weights: what it returns. It computes in it, too; of 16 bits in float32.

    Notes
    -----
    It does not change once it is made, and can be pickled. Slices are those of torch's layers,
    without the batch: ``(features,)``, or ``(channels, height, width)``.
    """

    several_axes = True

    def __init__(self, layers: Sequence[Layer], result_dtype: str) -> None:
        self._result_dtype = result_dtype
        half = result_dtype in ("float16", "bfloat16")
        self._dtype = np.dtype("float32" if half else result_dtype)
        self._layers = tuple(self._kept(layer) for layer in layers)

    def _kept(self, layer: Layer) -> Layer:
        weights = {k: constant(x.astype(self._dtype)) for k, x in layer.weights.items()}
        return Layer(layer.kind, layer.name, weights, layer.parameters)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a copy, or one from another process, with constant arrays."""
        vars(self).update(state)
        self._layers = tuple(map(self._kept, self._layers))

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The layers, in order."""
        return self._layers

    @property
    def length_of_slices(self) -> int | None:
        """The slice length, if the first layer determines it."""
        for layer in self._layers:
            if layer.kind == "linear":
                return int(layer.weights["weight"].shape[1])
            if layer.weights or layer.kind in ("reshape", "flatten"):
                return None
        return None

    def __repr__(self) -> str:
        return f"Model({', '.join(map(str, self._layers))}; {self._result_dtype})"

    def lift(self, aval: ShapeDtype) -> Graph:
        """The graph for slices of this shape and dtype."""
        if not aval.dtype.startswith(("float", "int", "uint", "bool", "bfloat")):
            raise InputError(f"{self!r} takes real numbers, the slices are {aval.dtype}")
        builder = Builder()
        x = builder.input(aval)
        if aval.dtype != self._dtype.name:
            x = builder.op("cast", x, dtype=self._dtype.name)
        for k, layer in enumerate(self._layers):
            try:
                x = layer.write(x)
            except InputError as error:
                of = f"slices of shape {aval.shape}"
                hint = " Is `axis` the feature axis?" if not k or not layer.name else ""
                raise InputError(f"{error}; {of}.{hint}") from None
        if self._result_dtype != self._dtype.name:
            x = builder.op("cast", x, dtype=self._result_dtype)
        return compact(builder.graph(x))

    def __call__(self, v: Any) -> Any:
        """The network on one slice of any library."""
        return masked.on_data(self._on_slice)(v, 0)

    def _on_slice(self, v: Any, axis: int) -> Any:
        return by_definition(self, v, self.lift)

"""Functions of a slice that ONNX files are."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import arrays, config
from ...arrays import masked
from ...errors import InputError, TraceError, UnsupportedError
from ...frontends import AllAtOnce
from ...functions.cache import BoundedDict
from ...ir.graph import Graph, ShapeDtype
from ...mlp import by_definition
from . import elementwise, layers, runtime, shapes, trees, writer  # noqa: F401  # the table
from .program import Decoded, parse


class OnnxModel:
    """A model in an ONNX file, to be applied to every slice of an array.

    What it gives for a slice is what the model gives for a batch of this slice alone. `load`
    makes it.

    Notes
    -----
    It does not change once it is made. It is pickled with its weights.
    """

    several_axes = True

    def __init__(self, data: bytes, name: str) -> None:
        self._data, self._name = data, name
        self._graphs: dict[Any, Graph | TraceError] = BoundedDict()
        self._parsed: Decoded | None = None
        self._running: runtime.Session | None = None

    def __reduce__(self) -> Any:
        return OnnxModel, (self._data, self._name)

    @property
    def _program(self) -> Decoded:
        if self._parsed is None:
            self._parsed = parse(self._data)
        return self._parsed

    @property
    def _session(self) -> runtime.Session:
        if self._running is None:
            self._running = runtime.Session(self._data, self._program.dtype)
        return self._running

    @property
    def slice_shape(self) -> tuple[int | None, ...] | None:
        """The shape of a slice: None for lengths, or a shape, that the file leaves open."""
        shape = self._program.shape
        return None if shape is None else shape[1:]

    @property
    def length_of_slices(self) -> int | None:
        """The slice length, if slices have one axis and the file fixes it."""
        shape = self.slice_shape
        return shape[0] if shape is not None and len(shape) == 1 else None

    @property
    def dtype(self) -> str:
        """The dtype of the input, which slices are cast to."""
        return self._program.dtype

    def __repr__(self) -> str:
        shape = self.slice_shape
        dims = "..." if shape is None else ",".join("?" if n is None else str(n) for n in shape)
        p = self._program
        return f"OnnxModel({self._name!r}, {p.dtype}[{dims}] -> {p.output!r})"

    # --- slices ---------------------------------------------------------------------------

    def _taken(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape in which the model takes slices of a shape: with a channel more, maybe."""
        wants = self.slice_shape
        if wants is None or _fits(shape, wants):
            return shape
        if wants[0] == 1 and _fits(shape, wants[1:]):
            return (1, *shape)
        dims = ", ".join("any" if n is None else str(n) for n in wants)
        raise InputError(
            f"{self!r} takes slices of shape ({dims}), these have {shape}. Is `axis` right? "
            "A tuple of axes gives slices with several"
        )

    def _check_dtype(self, dtype: str) -> None:
        wants = self._program.dtype
        kinds = ("float", "bfloat", "int", "uint", "bool")
        if not dtype.startswith(kinds):
            raise InputError(f"{self!r} takes real numbers, the slices are {dtype}")
        if dtype.startswith(kinds[:2]) and not wants.startswith(kinds[:2]):
            raise InputError(f"{self!r} takes {wants}, the slices are {dtype}: cast them first")

    def lift(self, aval: ShapeDtype) -> Graph:
        """The graph for slices of this shape and dtype.

        Raises
        ------
        TraceError
            If there is none, with the node that has none, and onnxruntime is installed.
        InputError
            Where nothing else could run it either.
        """
        return self._lifted(aval, self._taken(aval.shape))

    def _lifted(self, aval: ShapeDtype, shape: tuple[int, ...]) -> Graph:
        """The graph for slices that the model takes in a shape."""
        self._check_dtype(aval.dtype)
        key = (aval, shape)
        found = self._graphs.get(key)
        if found is None:
            try:
                found = writer.graph_of(self._program, aval, shape)
            except InputError as error:
                raise InputError(f"{self._name}: {error}") from None
            except TraceError as error:
                found = error
            self._graphs[key] = found
        if isinstance(found, Graph):
            return found
        if not runtime.is_there():
            raise InputError(f"{self._name}: {found}; {runtime.INSTALL}")
        raise TraceError(f"{self._name}: {found}")

    def why_not(self) -> str | None:
        """The reason of the first node without a graph, as far as known without slices."""
        for node in self._program.body.nodes:
            if why := writer.why_unknown(node):
                return f"{node}: {why}"
        return None

    def all_at_once(
        self, axis: int, arr: Any, given: tuple[int, ...], graph: Graph | None
    ) -> AllAtOnce:
        """onnxruntime on all slices along an axis, of a given shape that lies flat there."""
        forced, shape = config.current().engine, self._taken(given)
        if forced not in ("", runtime.ENGINE):
            raise TraceError(f"{runtime.ENGINE} was not asked for")
        if not runtime.is_there():
            raise TraceError(f"onnxruntime is not installed: {runtime.INSTALL}")
        if graph is not None and arrays.library(arr) != "numpy":
            raise TraceError(f"{runtime.ENGINE}: its graph runs where the array is")
        self._check_dtype(arrays.dtype_name(arr))
        return runtime.on_all(self._session, shape, axis, arr, graph)

    def __call__(self, v: Any) -> Any:
        """The model on one slice of any library."""
        v = v if arrays.library(v) is not None else np.asarray(v)
        shape = self._taken(tuple(v.shape))
        flat = arrays.compat(v).reshape(v, (-1,))
        return masked.on_data(lambda x, axis: self._of(x, shape))(flat, 0)

    def _of(self, v: Any, shape: tuple[int, ...]) -> Any:
        try:
            return by_definition(self, v, lambda aval: self._lifted(aval, shape), shape)
        except UnsupportedError as error:
            refused = str(error)
        if not runtime.is_there():
            raise InputError(f"{self._name}: {refused}; {runtime.INSTALL}")
        found = runtime.one_slice(self._session, arrays.on_host(v).reshape(shape))
        return found if isinstance(v, np.ndarray) else arrays.asarray(found, v)


def _fits(shape: tuple[int, ...], wants: tuple[int | None, ...]) -> bool:
    both = zip(shape, wants, strict=False)
    return len(shape) == len(wants) and all(m in (None, n) for n, m in both)

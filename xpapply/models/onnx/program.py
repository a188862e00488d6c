"""An ONNX file decoded to plain Python: nodes, constants, input and output.

`parse` is the only place beside `files.py` that sees protobuf messages.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from ...errors import InputError, TraceError
from ...ir.graph import ShapeDtype

ML = "ai.onnx.ml"
"""The domain of the operators of classical models."""

DTYPES: dict[int, str] = {
    TensorProto.FLOAT: "float32",
    TensorProto.DOUBLE: "float64",
    TensorProto.FLOAT16: "float16",
    TensorProto.BFLOAT16: "bfloat16",
    TensorProto.BOOL: "bool",
    **{getattr(TensorProto, f"INT{n}"): f"int{n}" for n in (8, 16, 32, 64)},
    **{getattr(TensorProto, f"UINT{n}"): f"uint{n}" for n in (8, 16, 32, 64)},
}
"""Dtypes of graphs."""

HALVES = ("float16", "bfloat16")
"""Computed in float32 and rounded once, at the end, as modules of torch are."""

_FIELDS = {
    TensorProto.FLOAT: "float_data",
    TensorProto.DOUBLE: "double_data",
    TensorProto.INT64: "int64_data",
    TensorProto.UINT32: "uint64_data",
    TensorProto.UINT64: "uint64_data",
    TensorProto.STRING: "string_data",
}
"""Fields of numbers that are not raw; all others are in int32_data."""


@dataclass(frozen=True)
class DecodedNode:
    """An operator applied to named values."""

    op: str
    domain: str
    version: int
    """The version of the operator set."""
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: dict[str, Any] = field(default_factory=dict, repr=False)

    def __str__(self) -> str:
        what = f"{self.domain}.{self.op}" if self.domain not in ("", ML) else self.op
        return f"node {self.name!r} ({what})"

    def attr(self, name: str, default: Any = None) -> Any:
        """An attribute."""
        return self.attrs.get(name, default)

    def number(self, name: str, default: float) -> float:
        """An attribute that is a float32, whose default is one too."""
        return float(np.float32(self.attrs.get(name, default)))


@dataclass(frozen=True)
class Body:
    """The nodes of a graph in their order, and its constants."""

    nodes: tuple[DecodedNode, ...]
    constants: dict[str, np.ndarray]
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class Decoded:
    """A model with one input and one output.

    Attributes
    ----------
    body : Body
        What it computes.
    input, output : str
        Their names.
    shape : tuple of (int or None), or None
        Of the input, with the axis of batches; None for what may be of any length, or shape.
    dtype, result_dtype : str
        Of the input; of the output, "" where the file does not say.
    """

    body: Body
    input: str
    output: str
    shape: tuple[int | None, ...] | None
    dtype: str
    result_dtype: str

    @property
    def nbytes(self) -> int:
        """Bytes of its constants."""
        return sum(c.nbytes for c in self.body.constants.values())


def parse(data: bytes) -> Decoded:
    """The program of a model that `files.read` has made sure of."""
    model = onnx.load_model_from_string(data)
    versions = opsets(model)
    graph = model.graph
    names = {t.name for t in graph.initializer}
    (given,) = (x for x in graph.input if x.name not in names)
    (output,) = graph.output
    body = _body(graph, versions)
    body = Body(_needed(body.nodes, body.outputs), body.constants, body.outputs)
    return Decoded(
        body,
        given.name,
        output.name,
        shape_of(given),
        DTYPES.get(given.type.tensor_type.elem_type, ""),
        DTYPES.get(output.type.tensor_type.elem_type, ""),
    )


def opsets(model: Any) -> dict[str, int]:
    """The version of each set of operators that a model uses."""
    return {domain_of(x): x.version for x in model.opset_import}


def domain_of(x: Any) -> str:
    """The name of a set of operators; that of ONNX itself has two."""
    return "" if x.domain == "ai.onnx" else str(x.domain)


def shape_of(value: Any) -> tuple[int | None, ...] | None:
    """The shape that a file says of a value: None for lengths that are open.

    Some exporters write -1 for those, as onnxruntime reads it.
    """
    kind = value.type.tensor_type
    if not kind.HasField("shape"):
        return None
    known = (d.HasField("dim_value") and d.dim_value >= 0 for d in kind.shape.dim)
    return tuple(d.dim_value if k else None for d, k in zip(kind.shape.dim, known, strict=True))


def tensors(graph: Any) -> Iterator[Any]:
    """All tensors that are written in a graph, or a function."""
    yield from getattr(graph, "initializer", ())
    for node in graph.node:
        for a in node.attribute:
            if a.HasField("t"):
                yield a.t
            yield from a.tensors
            for inner in graphs_of(a):
                yield from tensors(inner)


def graphs_of(attribute: Any) -> Iterator[Any]:
    """The graphs in an attribute: branches and loops have them."""
    if attribute.HasField("g"):
        yield attribute.g
    yield from attribute.graphs


def count_of(tensor: Any, what: str) -> int:
    """The number of elements of a tensor; `InputError` if its bytes cannot hold them."""
    if any(n < 0 for n in tensor.dims):
        raise InputError(f"{what} has the shape {list(tensor.dims)}")
    return math.prod(tensor.dims)


def bytes_of(tensor: Any) -> int | None:
    """The bytes of a tensor's numbers; None for dtypes without graphs."""
    name = DTYPES.get(tensor.data_type)
    return None if name is None else ShapeDtype(tuple(tensor.dims), name).nbytes


def check_tensor(tensor: Any) -> None:
    """Raise `InputError` where a tensor has not the numbers that its shape says."""
    what = f"the tensor {tensor.name!r}"
    need, kind = count_of(tensor, what), tensor.data_type
    if kind not in DTYPES and kind != TensorProto.STRING:
        return  # nothing is made of it here
    if tensor.HasField("raw_data") and kind != TensorProto.STRING:
        found, need = len(tensor.raw_data), bytes_of(tensor) or 0
    else:
        found = len(getattr(tensor, _FIELDS.get(kind, "int32_data")))
    if found != need:
        raise InputError(
            f"{what} of shape {list(tensor.dims)} should have {need:,} bytes or numbers, "
            f"the file has {found:,}: it is damaged"
        )


def array_of(tensor: Any) -> np.ndarray | None:
    """A tensor as an array that is computed with; None for what graphs have not."""
    name = DTYPES.get(tensor.data_type)
    if name is None:
        return None
    check_tensor(tensor)
    found = numpy_helper.to_array(tensor)
    if name in HALVES:
        found = found.astype(np.float32)
    return np.asarray(found, found.dtype.newbyteorder("="))


def _body(graph: Any, versions: dict[str, int]) -> Body:
    constants = {}
    for t in graph.initializer:
        array = array_of(t)
        if array is not None:
            constants[t.name] = array
    nodes = tuple(_node(k, n, versions) for k, n in enumerate(graph.node))
    return Body(nodes, constants, tuple(x.name for x in graph.output))


def _node(k: int, node: Any, versions: dict[str, int]) -> DecodedNode:
    domain = domain_of(node)
    attrs = {a.name: _attribute(a, versions) for a in node.attribute}
    name = node.name or f"#{k}"
    inputs, outputs = tuple(node.input), tuple(node.output)
    return DecodedNode(node.op_type, domain, versions.get(domain, 0), name, inputs, outputs, attrs)


def _attribute(a: Any, versions: dict[str, int]) -> Any:
    kind = onnx.AttributeProto.AttributeType.Name(a.type)
    if kind == "GRAPH":
        return _body(a.g, versions)
    if kind == "TENSOR":
        return array_of(a.t)
    if kind == "STRING":
        return a.s.decode("utf-8", "replace")
    if kind == "STRINGS":
        return tuple(s.decode("utf-8", "replace") for s in a.strings)
    if kind in ("INT", "FLOAT"):
        return a.i if kind == "INT" else a.f
    if kind in ("INTS", "FLOATS"):
        return tuple(a.ints if kind == "INTS" else a.floats)
    return None


def _needed(nodes: Iterable[DecodedNode], outputs: Iterable[str]) -> tuple[DecodedNode, ...]:
    """The nodes that outputs depend on."""
    live, keep = set(outputs), []
    for node in reversed(tuple(nodes)):
        if live.isdisjoint(node.outputs):
            continue
        keep.append(node)
        live.update(_read(node))
    return tuple(reversed(keep))


def _read(node: DecodedNode) -> Iterator[str]:
    yield from node.inputs
    for value in node.attrs.values():
        if isinstance(value, Body):
            yield from value.outputs
            for inner in value.nodes:
                yield from _read(inner)


def ints(x: Any, what: str) -> tuple[int, ...]:
    """Whole numbers that must be known while the graph is written."""
    if not isinstance(x, np.ndarray):
        raise TraceError(f"{what} depends on the numbers of the slice")
    if x.dtype.kind not in "iu":
        raise TraceError(f"{what} of dtype {x.dtype}")
    return tuple(int(k) for k in x.ravel())

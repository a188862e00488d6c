"""Reading an ONNX file: what it is made of is looked at before anything of it is believed.

Nothing in a file is executed, and nothing beside it is read but the files of weights that it
names, in its own folder. Numbers are counted before memory is taken for them.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx
import onnx.checker
import onnx.inliner
from onnx import TensorProto, helper

from ...errors import InputError
from ...limits import LIMITS
from ..programs import batch_of_more
from . import messages
from .program import (
    DTYPES,
    ML,
    bytes_of,
    check_tensor,
    count_of,
    domain_of,
    graphs_of,
    opsets,
    shape_of,
    tensors,
)

DOMAINS = ("", ML, "com.microsoft")
"""Sets of operators: of ONNX, of classical models, and those that onnxruntime adds."""


def read(path: Path, output: str | None = None) -> bytes:
    """A model with one input, one output and all weights, as bytes that `program.parse` takes.

    Raises
    ------
    InputError
        For what is no such model, with the reason.
    """
    with _said_of(path):
        model = _parsed(_content(path))
        _check_size(model)
        _load_weights(model, path.parent)
        for t in _tensors(model):
            check_tensor(t)
        _check_operators(model)
        if model.ByteSize() <= LIMITS.onnx_checked:
            _check(_completed(model))
        _inline(model)
        _choose_input(model)
        _choose_output(model, output)
        return bytes(model.SerializeToString())


@contextlib.contextmanager
def _said_of(path: Path) -> Iterator[None]:
    """Errors name the file."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{path.name}: {error}") from None


# --- the file ---------------------------------------------------------------------------------


def _content(path: Path) -> bytes:
    found = os.stat(path)
    if not stat.S_ISREG(found.st_mode):
        raise InputError("it is not a file")
    if found.st_size > LIMITS.onnx_bytes:
        raise InputError(
            f"{found.st_size:,} bytes, and an ONNX file has {LIMITS.onnx_bytes:,} at most: larger "
            "models have their weights in files beside them"
        )
    return path.read_bytes()


def _parsed(data: bytes) -> Any:
    if not data:
        raise InputError("it is empty")
    messages.check(data, onnx.ModelProto.DESCRIPTOR)
    try:
        model = onnx.load_model_from_string(data)
    except Exception:  # protobuf's own errors, which say nothing more
        raise InputError("it is not an ONNX model, or damaged: protobuf cannot read it") from None
    if not model.HasField("graph") or not model.graph.node:
        raise InputError("it is not an ONNX model: it has no graph, or no nodes")
    return model


def _check_size(model: Any) -> None:
    """Refuse models of more nodes than there are anywhere, with those of functions counted."""
    graph = model.graph
    if max(len(graph.initializer), len(graph.input), len(graph.output)) > LIMITS.onnx_nodes:
        raise InputError(f"it has more than {LIMITS.onnx_nodes:,} constants, inputs or outputs")
    _count(graph, {(domain_of(f), f.name): f for f in model.functions}, {}, ())


def _count(
    body: Any, functions: dict[Any, Any], known: dict[Any, int], above: tuple[Any, ...]
) -> int:
    """The nodes of a graph or function; `known`: of functions that were counted."""
    total = 0
    for node in body.node:
        total += 1
        if len(node.attribute) > LIMITS.onnx_attributes:
            raise InputError(f"node {node.name!r} has {len(node.attribute):,} attributes")
        key = (domain_of(node), node.op_type)
        if key in above:
            raise InputError(f"its function {node.op_type} calls itself")
        if key in functions:
            if key not in known:
                known[key] = _count(functions[key], functions, known, (*above, key))
            total += known[key]
        for a in node.attribute:
            total += sum(_count(g, functions, known, above) for g in graphs_of(a))
        if total > LIMITS.onnx_nodes:
            raise InputError(f"it has more than {LIMITS.onnx_nodes:,} nodes")
    return total


def _check_operators(model: Any) -> None:
    """Refuse sets of operators that are not known."""
    latest = onnx.defs.onnx_opset_version()
    versions = opsets(model)
    for domain, version in versions.items():
        if version < 1 or (domain == "" and version > latest):
            raise InputError(
                f"it is written in version {version} of ONNX's operators: the installed onnx knows "
                f"1 ... {latest}. Export it with opset_version={min(latest, 18)}, or install a "
                "newer onnx"
            )
    functions = {(domain_of(f), f.name) for f in model.functions}
    for body in (model.graph, *model.functions):
        for node in _nodes(body):
            domain = domain_of(node)
            if (domain, node.op_type) in functions:
                continue
            if domain not in DOMAINS:
                raise InputError(
                    f"node {node.name!r} is a {node.op_type} of {domain!r}: the known sets of "
                    "operators are those of ONNX, ai.onnx.ml and com.microsoft"
                )
            if domain not in versions and not model.functions:
                raise InputError(
                    f"node {node.name!r} is a {node.op_type} of {domain or 'ai.onnx'!r}, and the "
                    "file does not say of which version"
                )


def _nodes(body: Any) -> Iterator[Any]:
    for node in body.node:
        yield node
        for a in node.attribute:
            for g in graphs_of(a):
                yield from _nodes(g)


def _inline(model: Any) -> None:
    """Functions of the file's own become nodes."""
    if not model.functions:
        return
    try:
        found = onnx.inliner.inline_local_functions(model)
    except Exception as error:
        raise InputError(f"its functions cannot be inlined: {_first_line(error)}") from None
    model.CopyFrom(found)


def _check(data: bytes) -> None:
    """onnx's own checker: of types, names, attributes and the order of nodes."""
    try:
        onnx.checker.check_model(data)
    except Exception as error:
        raise InputError(f"onnx finds it is not a valid model: {_first_line(error)}") from None


def _completed(model: Any) -> bytes:
    """A model as onnx's checker wants it: with what a file may leave out of its first graph.

    Types and shapes of outputs follow from the nodes, and an input may have any shape.
    """
    graph = model.graph
    added: list[tuple[Any, str]] = []
    for x in graph.output:
        if x.type.WhichOneof("value") is None:
            added.append((x, "type"))
            x.type.tensor_type.SetInParent()
        if x.type.HasField("tensor_type") and not x.type.tensor_type.HasField("elem_type"):
            added.append((x.type.tensor_type, "elem_type"))
            x.type.tensor_type.elem_type = TensorProto.UNDEFINED
    for x in (*graph.output, *graph.input):
        if x.type.HasField("tensor_type") and not x.type.tensor_type.HasField("shape"):
            added.append((x.type.tensor_type, "shape"))
            x.type.tensor_type.shape.SetInParent()
    try:
        return bytes(model.SerializeToString())
    finally:
        for of, name in reversed(added):
            of.ClearField(name)


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]


# --- weights in other files -------------------------------------------------------------------


def _tensors(model: Any) -> Iterator[Any]:
    for body in (model.graph, *model.functions):
        yield from tensors(body)


def _load_weights(model: Any, folder: Path) -> None:
    """Take the weights in files beside the model into it."""
    left: dict[Path, int] = {}
    total = model.ByteSize()
    for t in _tensors(model):
        if t.data_location != TensorProto.EXTERNAL:
            continue
        what = f"the tensor {t.name!r}"
        said = {e.key: e.value for e in t.external_data}
        path = _beside(folder, said.get("location", ""), what)
        size = os.stat(path).st_size
        offset = _whole(said.get("offset", "0"), f"{what}: offset")
        count_of(t, what)  # raises for negative lengths
        need = bytes_of(t)
        length = need or 0
        if "length" in said:
            length = _whole(said["length"], f"{what}: length")
        if need is not None and length != need:
            raise InputError(
                f"{what} of shape {list(t.dims)} has {need:,} bytes, the file says {length:,}"
            )
        if offset + length > size:
            raise InputError(
                f"{what}: bytes {offset:,} ... {offset + length:,} of {path.name!r}, which has "
                f"{size:,}"
            )
        left[path] = left.get(path, size) - length
        total += length
        if left[path] < 0:
            raise InputError(f"its tensors take more bytes of {path.name!r} than there are")
        if total > LIMITS.onnx_bytes:
            raise InputError(
                f"more than {LIMITS.onnx_bytes:,} bytes of weights: that is not supported"
            )
        with open(path, "rb") as f:
            f.seek(offset)
            t.raw_data = f.read(length)
        del t.external_data[:]
        t.data_location = TensorProto.DEFAULT


def _beside(folder: Path, location: str, what: str) -> Path:
    """A file in the model's own folder, or below it."""
    parts = re.split(r"[/\\]", location)
    if not location or "\0" in location or ".." in parts or parts[0] == "" or ":" in parts[0]:
        raise InputError(f"{what} is in {location!r}: weights are in the folder of the model")
    root = folder.resolve()
    path = root.joinpath(*parts).resolve()
    if not path.is_relative_to(root):
        raise InputError(f"{what} is in {location!r}, a link out of the folder of the model")
    if not path.is_file():
        raise InputError(f"{what} is in {location!r}, which is not beside the model")
    return path


def _whole(text: str, what: str) -> int:
    if not re.fullmatch(r"[0-9]{1,18}", text):
        raise InputError(f"{what} {text[:40]!r} is not a number of bytes")
    return int(text)


# --- the input and the output -----------------------------------------------------------------


def _choose_input(model: Any) -> None:
    graph = model.graph
    constants = {t.name for t in graph.initializer}
    given = [x for x in graph.input if x.name not in constants]
    if len(given) != 1:
        names = ", ".join(map(described, given)) or "none"
        raise InputError(f"it has {len(given)} inputs ({names}): a function of a slice has one")
    (x,) = given
    if x.type.tensor_type.elem_type not in DTYPES:
        raise InputError(f"its input {described(x)} is not an array of numbers")
    shape = shape_of(x)
    if shape is None:
        return
    if len(shape) < 2 or 0 in shape[1:]:
        raise InputError(f"its input {described(x)} has no slices: batches of them are wanted")
    if shape[0] not in (None, 1):
        option = "dynamic_shapes or dynamic_axes of torch.onnx.export"
        raise batch_of_more(described(x), shape[0], option)
    x.type.tensor_type.shape.dim[0].dim_param = "slices"  # onnxruntime gets many
    del graph.value_info[:]


def _choose_output(model: Any, wanted: str | None) -> None:
    """Leave one output."""
    graph = model.graph
    there = ", ".join(map(described, graph.output))
    found = [x for x in graph.output if wanted is None or x.name == wanted]
    if wanted is not None and not found:
        raise InputError(f"it has no output {wanted!r}: there are {there}")
    if len(found) > 1:
        raise InputError(
            f"it has {len(found)} outputs: {there}. Say which one: output={found[-1].name!r}"
        )
    if not found:
        raise InputError("it has no outputs")
    name = found[0].name
    zipped = [n for n in graph.node if n.op_type == "ZipMap" and name in n.output]
    if zipped:  # what it makes a dict of for each sample
        source = zipped[0].input[0] if zipped[0].input else ""
        nodes = [n for n in graph.node if n is not zipped[0]]
        del graph.node[:]
        graph.node.extend(nodes)
        graph.node.append(helper.make_node("Identity", [source], [name]))
        found[0].CopyFrom(helper.make_tensor_value_info(name, TensorProto.FLOAT, None))
    elif found[0].type.tensor_type.elem_type not in (*DTYPES, TensorProto.UNDEFINED):
        raise InputError(
            f"its output {described(found[0])} is not an array of numbers"
            + (f": the outputs are {there}" if wanted is None or len(graph.output) > 1 else "")
        )
    chosen = type(found[0])()
    chosen.CopyFrom(found[0])
    if chosen.type.tensor_type.elem_type == TensorProto.UNDEFINED:
        chosen.ClearField("type")  # which onnxruntime infers, where nothing is said
    elif not zipped:
        chosen.type.tensor_type.ClearField("shape")  # it may say a batch of one
    del graph.output[:]
    graph.output.append(chosen)


def described(value: Any) -> str:
    """The name, dtype and shape of an input or output."""
    kind = value.type.tensor_type
    if not value.type.HasField("tensor_type"):
        return f"{value.name!r} ({value.type.WhichOneof('value') or 'of unknown type'})"
    try:
        dtype = DTYPES.get(kind.elem_type) or TensorProto.DataType.Name(kind.elem_type).lower()
    except ValueError:
        dtype = f"dtype {kind.elem_type}"
    shape = shape_of(value)
    dims = "..." if shape is None else ",".join("?" if n is None else str(n) for n in shape)
    return f"{value.name!r} ({dtype}[{dims}])"

"""Graphs in files: a header of JSON and raw arrays. NumPy alone reads them, and no code runs.

Bytes 0-7 say what the file is, 8-11 the version, 12-15 the CRC-32 of the header, 16-23 its length,
all little-endian. The header has the nodes, and for each constant its dtype, its shape, where it
is and its CRC-32. Constants follow one after the other, each at a multiple of 64 bytes.

What is read is not believed: the graph is built again node by node, so that shapes and dtypes are
those of the rules, and each attribute is checked before. No value may be far larger than slices
are, and no number may be taken from a place that need not be there.
"""

from __future__ import annotations

import json
import math
import os
import re
import secrets
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError, UnsupportedError
from ..limits import LIMITS
from . import ranges, trees
from .builder import Builder, Value, infer
from .graph import Graph, Node, ShapeDtype, number
from .ops import OPS, Kind, Op
from .shapes import as_product, broadcast, check_room, einsum_lengths

MAGIC = b"\x93XPAPPLY"
VERSION = 1

_ALIGNED = 64
_START = len(MAGIC) + 16

_CONSTANTS = tuple(
    "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 "
    "complex64 complex128".split()
)
_DTYPES = (*_CONSTANTS, "bfloat16")


class _Refused(InputError):
    """Raised for a graph in a file that requests what no file may, though a user might."""


# --- writing ------------------------------------------------------------------------------------


def write(path: str | os.PathLike[str], graph: Graph, about: dict[str, str]) -> None:
    """Write a graph, and what is said of it, into a file: all of it, or none.

    Raises
    ------
    UnsupportedError
        If it has something that files do not have, or could not be read again.
    """
    consts, blocks, offset = [], [], 0
    for x in graph.consts:
        if x.dtype.name not in _CONSTANTS:
            raise UnsupportedError(f"constants of dtype {x.dtype} are not saved")
        block = np.ascontiguousarray(x, x.dtype.newbyteorder("<")).tobytes()
        consts.append(
            {
                "dtype": x.dtype.name,
                "shape": list(x.shape),
                "offset": offset,
                "crc32": zlib.crc32(block),
            }
        )
        blocks.append(block + bytes(-len(block) % _ALIGNED))
        offset += len(blocks[-1])
    nodes = [
        [n.op, list(n.args), _attributes(n), n.aval.dtype, list(n.aval.shape)] for n in graph.nodes
    ]
    said = {"about": about, "nodes": nodes, "outs": list(graph.outs), "consts": consts}
    header = json.dumps(said, separators=(",", ":"), allow_nan=False).encode()
    lists = header.count(b"[") + header.count(b"{")
    if (
        len(header) > LIMITS.saved_header
        or len(nodes) > LIMITS.saved_nodes
        or lists > LIMITS.saved_lists
    ):
        raise UnsupportedError(
            f"a graph of {len(nodes):,} nodes is too long for a file: at most "
            f"{LIMITS.saved_nodes:,} nodes, {LIMITS.saved_header >> 20} MB of them"
        )
    _check_again(json.loads(header), graph)
    numbers = b"".join(
        n.to_bytes(k, "little")
        for n, k in ((VERSION, 4), (zlib.crc32(header), 4), (len(header), 8))
    )
    start = MAGIC + numbers + header
    _replace(Path(path), [start + bytes(-len(start) % _ALIGNED), *blocks])


def _check_again(said: dict[str, Any], graph: Graph) -> None:
    """Refuse to write what `read` would call damaged: the model may be gone by then.

    Numbers of constants are not looked at, those of trees neither.
    """
    try:
        _graph(said["nodes"], said["outs"], list(graph.consts), own=True)
    except _Refused as error:
        raise UnsupportedError(f"this graph is not saved: {error}") from None
    except Exception as error:
        raise UnsupportedError(
            f"this graph is not saved, as its file could not be read again: {error}. That is a "
            "fault of xpapply: please report it, with what explain() prints of the function"
        ) from None


def _replace(path: Path, blocks: Sequence[bytes]) -> None:
    """Write a file beside, and put it in the place of the old one when it is whole."""
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        with open(beside, "xb") as file:
            for block in blocks:
                file.write(block)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def _attributes(node: Node) -> dict[str, Any]:
    """Attributes of a node as JSON, without defaults."""
    found = {k: _encoded(v) for k, v in node.attrs}
    row = OPS.get(node.op)
    return found if row is None or row.kind is not Kind.REDUCTION else {"keepdims": False} | found


def _encoded(x: Any) -> Any:
    """An attribute as JSON: tuples are lists, and numbers that JSON does not have are texts."""
    if isinstance(x, np.generic):
        x = x.item()
    if x is None or type(x) in (bool, int, str):
        return x
    if type(x) is float:
        return x if math.isfinite(x) else {"float": repr(x)}
    if isinstance(x, (tuple, list)):
        return [_encoded(e) for e in x]
    raise UnsupportedError(f"graphs with a {type(x).__name__} in them are not saved")


# --- reading ------------------------------------------------------------------------------------


def read(path: str | os.PathLike[str]) -> tuple[Graph, dict[str, str]]:
    """The graph in a file that `write` made, and what is said of it.

    Raises
    ------
    InputError
        If the file is damaged, of a later version, or not what it says.
    """
    name = Path(path).name
    try:
        return _read(Path(path).read_bytes())
    except OSError:
        raise
    except _Refused as error:
        raise InputError(f"{name} is not read: {error}") from None
    except InputError as error:
        raise InputError(f"{name} is damaged, or was not made by plan.save: {error}") from None
    except Exception as error:  # whatever nonsense leads to, it is the file's
        what = f"{type(error).__name__}: {str(error)[:200]}"
        raise InputError(f"{name} is damaged, or was not made by plan.save: {what}") from None


def _read(data: bytes) -> tuple[Graph, dict[str, str]]:
    if data[: len(MAGIC)] != MAGIC or len(data) < _START:
        raise InputError("it does not begin as a saved plan does")
    version, crc, length = (
        int.from_bytes(data[a:b], "little") for a, b in ((8, 12), (12, 16), (16, 24))
    )
    if version != VERSION:
        raise InputError(
            f"it has version {version}, this xpapply reads version {VERSION}. Update xpapply, or "
            "save the plan again"
        )
    if length > min(LIMITS.saved_header, len(data) - _START):
        raise InputError(f"a header of {length:,} bytes, more than there are")
    header = data[_START : _START + length]
    if zlib.crc32(header) != crc:
        raise InputError("the header is damaged: its checksum does not fit")
    if header.count(b"[") + header.count(b"{") > LIMITS.saved_lists:
        raise InputError(f"the header has more than {LIMITS.saved_lists:,} lists")
    said = json.loads(header)
    if not isinstance(said, dict) or set(said) != {"about", "nodes", "outs", "consts"}:
        raise InputError("the header has other entries than those of a saved plan")
    about = said["about"]
    if not isinstance(about, dict) or not all(isinstance(x, str) for x in about.values()):
        raise InputError("what the header says about the plan is not text")
    consts = _consts(said["consts"], data, _START + length)
    return _graph(said["nodes"], said["outs"], consts), about


def _consts(entries: Any, data: bytes, end: int) -> list[np.ndarray]:
    """The constants: one after the other, without gaps, to the end of the file."""
    found = []
    start = at = end + -end % _ALIGNED
    for k, entry in enumerate(_list(entries)):
        if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "offset", "crc32"}:
            raise InputError(f"constant {k} is not described")
        if entry["dtype"] not in _CONSTANTS:
            raise InputError(f"constant {k} has no dtype of NumPy")
        shape, dtype = _shape(entry["shape"]), np.dtype(entry["dtype"])
        nbytes = math.prod(shape) * dtype.itemsize
        if _integer(entry["offset"]) != at - start or at + nbytes > len(data):
            raise InputError(f"constant {k} is not where the file has it, or cut off")
        block = memoryview(data)[at : at + nbytes]
        if zlib.crc32(block) != entry["crc32"]:
            raise InputError(f"constant {k} is damaged: its checksum does not fit")
        x = np.frombuffer(block, dtype.newbyteorder("<")).reshape(shape)
        found.append(x.astype(dtype, copy=False))
        at += nbytes + -nbytes % _ALIGNED
    if at != len(data):
        raise InputError(f"the file should have {at:,} bytes, found {len(data):,}")
    return found


def _graph(nodes: Any, outs: Any, consts: list[np.ndarray], own: bool = False) -> Graph:
    """The graph, built again. `own`: the constants are not of a file."""
    builder = Builder()
    done: list[Value] = []
    bounds = _Bounds()
    if len(_list(nodes)) > LIMITS.saved_nodes:
        raise InputError(f"a graph of {len(nodes):,} nodes: at most {LIMITS.saved_nodes:,}")
    for i, entry in enumerate(nodes):
        op, args, attrs, dtype, shape = _list(entry)
        if dtype not in _DTYPES or not isinstance(attrs, dict):
            raise InputError(f"node {i} is not described")
        aval = ShapeDtype(_shape(shape), dtype)
        operands = [done[_integer(a, i)] for a in _list(args)]
        value = _node(
            builder, op, operands, {k: _decoded(v) for k, v in attrs.items()}, aval, consts, own
        )
        if value.aval != aval:
            raise InputError(
                f"node {i}, {op}, says that it is {aval}: by the rule it is {value.aval}"
            )
        bounds.check(value)
        done.append(value)
    if not outs:
        raise InputError("the graph has no result")
    return builder.graph(*(done[_integer(o, len(done))] for o in _list(outs)))


class _Bounds:
    """Limits of nodes in files: memory, and valid indices.

    Some engines would raise at a place that is not there, others would not look: so the file may
    ask for none, and none that is computed may lie there.
    """

    def __init__(self) -> None:
        self._given = 0
        self._ranges: list[ranges.Range | None] = []

    def check(self, value: Value) -> None:
        """Refuse the next node of a graph; those before have been looked at."""
        nodes, consts = value.builder.nodes, value.builder.consts
        for n in nodes[len(self._ranges) :]:
            operands = [nodes[a].aval for a in n.args]
            self._check_size(n, operands)
            if n.op == "take_along_axis":
                _check_places(n, operands, self._ranges[n.args[1]], nodes[n.args[1]].op == "const")
            known = [self._ranges[a] for a in n.args]
            self._ranges.append(ranges.range_of(n, operands, known, consts))

    def _check_size(self, n: Node, operands: list[ShapeDtype]) -> None:
        if n.op == "input":
            self._given += math.prod(n.aval.shape)
            return
        if n.op == "const":  # it is in the file
            return
        try:
            check_room(n.aval.shape, self._given, views=n.op == "windows")
            if n.op == "einsum":
                # what is not a product of matrices is multiplied before it is added
                subscripts = n.attr("subscripts")
                product = as_product(subscripts) if len(operands) == 2 else None
                if product is None or not product.inner or "int" in n.aval.dtype:
                    lengths = einsum_lengths(subscripts, [x.shape for x in operands])
                    check_room(tuple(lengths.values()), self._given, views=True)
        except InputError as error:
            raise _Refused(f"{n.op}: {error}") from None


def _check_places(
    n: Node, operands: list[ShapeDtype], places: ranges.Range | None, constant: bool
) -> None:
    """Refuse places along an axis that are not there, or need not be."""
    length = operands[0].shape[n.attr("axis")]
    if places is None or operands[1].dtype == "bool":
        raise InputError(f"places of dtype {operands[1].dtype}: whole numbers are needed")
    there = ranges.Range(0, length - 1)
    if 0 in operands[1].shape or places.is_within(there):
        return
    if constant:
        raise _Refused(f"the places {places} of an axis of length {length}")
    raise _Refused(
        f"places that are computed, along an axis of length {length}: all that is known of them "
        f"is {places}. Bound them in the graph, by the ops maximum and minimum, to {there}"
    )


def _node(
    builder: Builder,
    op: Any,
    operands: list[Value],
    attrs: dict[str, Any],
    aval: ShapeDtype,
    consts: list[np.ndarray],
    own: bool,
) -> Value:
    row = OPS.get(op) if isinstance(op, str) else None
    if row is None or op == "length":
        raise InputError(f"unknown op {str(op)[:40]!r}. A later xpapply may know it")
    if row.kind is not Kind.LEAF:
        if row.finds_position:  # older files leave it out
            attrs = {"keepdims": False, **attrs}
        _check(row, [x.aval for x in operands], attrs)
        if row.kind is Kind.TREES and not own:
            _check_trees(operands, attrs["depth"])
        return builder.node(op, *operands, **attrs)  # type: ignore[no-any-return]
    if operands or set(attrs) != {"value" if op == "scalar" else "k"}:
        raise InputError(f"{op} has other attributes than it needs")
    if op == "scalar":
        if aval.shape or not isinstance(attrs["value"], str):
            raise InputError("a value that is not a number")
        found = number(Node("scalar", (), tuple(attrs.items()), aval))
        if repr(found) != attrs["value"]:
            raise InputError(f"the number {attrs['value'][:40]!r}")
        return builder.scalar(found, aval.dtype)  # type: ignore[no-any-return]
    if op == "const":
        return builder.const(consts[_integer(attrs["k"], len(consts))])  # type: ignore[no-any-return]
    if attrs["k"] != sum(n.op == "input" for n in builder.nodes):
        raise InputError("the inputs are not in their order")
    return builder.input(aval)  # type: ignore[no-any-return]


def _decoded(x: Any) -> Any:
    if isinstance(x, list):
        return tuple(map(_decoded, x))
    if isinstance(x, dict):
        if set(x) != {"float"} or x["float"] not in ("inf", "-inf", "nan"):
            raise InputError("an attribute that is not a number, text or list of them")
        return float(x["float"])
    return x


# --- attributes that the rules of shapes take as they are ---------------------------------------


def _check(row: Op, avals: list[ShapeDtype], attrs: dict[str, Any]) -> None:
    """Refuse operands and attributes with which no frontend writes such a node."""
    known = _ATTRIBUTES.get(row.name, _OF_KIND.get(row.kind, ()))
    optional: tuple[str, ...] = ("stable",) if row.name == "argsort" else ()
    if row.kind is Kind.COMPOSITE:
        given = set(attrs)
        needed = {n for n, p in row.parameters.items() if p.default is p.empty}
        if len(avals) != 1 + len(needed - given) or not given <= set(row.parameters):
            raise InputError(f"{row.name} with other operands or attributes than it has")
    elif not set(known) <= set(attrs) <= {*known, *optional}:
        raise InputError(f"{row.name} has the attributes {known}, found {sorted(attrs)}")
    count = _operands(row)
    if not avals or (count and len(avals) != count):
        raise InputError(f"{row.name} of {len(avals)} operands")
    first = avals[0]
    for name, x in attrs.items():
        _check_attribute(row, name, x, avals)
    if row.name == "where" and first.dtype != "bool":
        raise InputError(f"where with a condition of dtype {first.dtype}")
    if row.name == "broadcast_to" and broadcast(first.shape, attrs["shape"]) != attrs["shape"]:
        raise InputError(f"{first.shape} is not broadcast to {attrs['shape']}")
    if row.name == "pad" and len(attrs["widths"]) > len(first.shape):
        raise InputError("pad has more widths than axes")


def _check_trees(operands: list[Value], depth: int) -> None:
    """Refuse nodes that lead out of memory, or in circles."""
    nodes = operands[0].builder.nodes
    consts, shapes = operands[0].builder.consts, [x.shape for x in operands]
    given = [nodes[x.index] for x in operands[1:]]
    lengths = [len(s) for s in shapes[1:]]
    if lengths != [1, 1, 1, 1, 2, 1, 1] or len(shapes[0]) != 1:
        raise InputError(f"trees of operands {shapes}")
    if any(n.op != "const" for n in given):
        raise InputError("trees whose nodes are not constants")
    infer("trees", [x.aval for x in operands], {})
    why = trees.why_not([consts[n.attr("k")] for n in given], shapes[0][0], depth)
    if why is not None:
        raise InputError(f"trees that are not valid: {why}")


_ATTRIBUTES: dict[str, tuple[str, ...]] = {
    "cast": ("dtype",),
    "reshape": ("shape",),
    "broadcast_to": ("shape",),
    "permute_dims": ("axes",),
    "concat": ("axis",),
    "index": ("key",),
    "pad": ("number", "widths"),
    "windows": ("axis", "dilation", "size", "step"),
    "take": ("axis", "places"),
}
_OF_KIND: dict[Kind, tuple[str, ...]] = {
    Kind.REDUCTION: ("axis", "keepdims"),
    Kind.ALONG: ("axis",),
    Kind.CONTRACTION: ("subscripts",),
    Kind.TREES: ("depth",),
}


def _operands(row: Op) -> int:
    """The number of operands of an op; 0: its definition or an attribute determines it."""
    if row.kind is Kind.ELEMENTWISE:
        return len(set(re.findall(r"\{(\d)\}", row.c)))
    if row.name == "take_along_axis":
        return 2
    if row.kind is Kind.TREES:
        return 8
    return (
        1 if row.kind in (Kind.REDUCTION, Kind.ALONG, Kind.LAYOUT) and row.name != "concat" else 0
    )


def _check_attribute(row: Op, name: str, x: Any, avals: list[ShapeDtype]) -> None:
    shape = avals[0].shape
    n = len(shape)
    fine = True
    if name == "axis":
        several = row.kind is Kind.REDUCTION or "keepdims" in row.parameters
        if several or row.name == "standardize":
            fine = type(x) is tuple and len({*map(_integer, x)}) == len(x) and all(a < n for a in x)
        else:
            fine = _integer(x) < n
    elif name == "axes":
        fine = type(x) is tuple and sorted(map(_integer, x)) == list(range(n))
    elif name == "shape":
        _shape(x)
    elif name in ("keepdims", "stable"):
        fine = type(x) is bool
    elif name == "dtype":
        fine = x in _DTYPES
    elif name == "subscripts":
        fine = isinstance(x, str) and _is_einsum(x, len(avals))
    elif name == "key":
        fine = type(x) is tuple and _is_key(x, shape)
    elif name == "widths":
        fine = type(x) is tuple and all(len(_shape(pair)) == 2 for pair in x)
    elif name == "number":
        fine = isinstance(x, str) and repr(float(x)) == x
    elif name in ("size", "step", "dilation"):
        fine = _integer(x) > 0
    elif name == "places":
        fine = type(x) is tuple and len(_shape(x)) == len(x)
    elif name == "depth":
        fine = type(x) is int and x >= 0
    elif name == "approximate":
        fine = x in ("none", "tanh")
    else:  # a number of a definition
        fine = type(x) in (int, float)
    if not fine:
        raise InputError(f"{row.name} of {avals[0]} with {name}={str(x)[:60]}")


def _is_einsum(x: str, operands: int) -> bool:
    if not re.fullmatch("[a-z]*(,[a-z]*)*->[a-z]*", x):
        return False
    given, _, result = x.partition("->")
    parts = given.split(",")
    return len(parts) == operands and len(set(result)) == len(result) and set(result) <= {*given}


def _is_key(key: tuple[Any, ...], shape: tuple[int, ...]) -> bool:
    axis = 0
    for k in key:
        if k is None:
            continue
        if axis == len(shape):
            return False
        if type(k) is tuple:
            good = len(k) == 3 and all(e is None or type(e) is int for e in k) and k[2] != 0
        else:
            good = type(k) is int and -shape[axis] <= k < shape[axis]
        if not good:
            return False
        axis += 1
    return True


def _list(x: Any) -> list[Any]:
    if not isinstance(x, list):
        raise InputError(f"a list was expected in the header, found a {type(x).__name__}")
    return x


def _integer(x: Any, below: int = 0) -> int:
    below = below or LIMITS.saved_length
    if type(x) is not int or not 0 <= x < below:
        raise InputError(
            f"a number from 0 to {below - 1} was expected in the header: {str(x)[:40]}"
        )
    return x


def _shape(x: Any) -> tuple[int, ...]:
    if not isinstance(x, (list, tuple)):
        raise InputError(f"a shape was expected in the header: {str(x)[:40]}")
    found = tuple(map(_integer, x))
    if math.prod(found) > 1 << 60:
        raise InputError(f"no array has the shape {str(found)[:60]}")
    return found

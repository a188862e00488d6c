"""Networks inside ``f``, and the tensors that they get and give, as parts of the graph of ``f``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....errors import UnsupportedError
from ....ir.builder import Builder, Value
from ....ir.graph import Graph
from ....ir.ops import OPS, Kind
from .reductions import FLOATS


def inlined(lowering: Any, runs: Any, x: Any) -> Value:
    """The graph of a network, where what `runs` it has one for that."""
    graph: Graph | None = getattr(runs, "inlined", None)
    if graph is None:
        raise UnsupportedError("a network is not an op of the table")
    if not isinstance(x, Value):
        raise UnsupportedError("a network of something that is not a slice")
    builder, found, own = lowering.builder, [], graph.nodes
    consts = [c.view() for c in graph.consts]
    for node in own:
        if node.op == "input":
            found.append(lowering.shaped(x, node.aval.shape))
        elif node.op == "const":
            found.append(builder.const(consts[node.attr("k")]))
        elif OPS[node.op].kind is Kind.LEAF:
            found.append(builder.add(node))
        else:  # its dtypes are right: nothing is cast as NumPy would
            operands = (found[a] for a in node.args)
            found.append(Builder.node(builder, node.op, *operands, **dict(node.attrs)))
    return found[graph.out]  # type: ignore[no-any-return]


def _network(lowering: Any, run: Any, x: Any, shape: tuple[int, ...], batched: bool) -> Value:
    """Inline a torch network."""
    out = inlined(lowering, getattr(run.row.rule, "runs", None), x)
    return lowering.shaped(out, (1, *out.shape)) if batched else out  # type: ignore[no-any-return]


def _tensor(lowering: Any, function: Any, x: Any, args: tuple, kwargs: dict, library: str) -> Value:
    """A tensor of an array."""
    dtype = kwargs.get("dtype")
    on_host = str(kwargs.get("device", "cpu")) in ("cpu", "None")
    if args or not isinstance(x, Value) or kwargs.keys() - {"dtype", "device"} or not on_host:
        raise UnsupportedError("a tensor that is made with more than a dtype")
    return _cast(lowering, x, x.aval.dtype if dtype is None else str(dtype).rpartition(".")[2])


def _cast(lowering: Any, x: Value, dtype: str) -> Value:
    if dtype == x.aval.dtype:
        return x
    if dtype not in FLOATS:
        raise UnsupportedError(f"a tensor of {dtype}")
    return lowering.op("cast", x, dtype=dtype)  # type: ignore[no-any-return]


def _casts(dtype: str) -> Callable[..., Value]:
    """``x.float()`` and the like."""

    def lowered(lowering: Any, function: Any, args: tuple, kwargs: dict) -> Value:
        if len(args) > 1 or kwargs or not isinstance(args[0], Value):
            raise UnsupportedError("a cast of a tensor that is more than its dtype")
        return _cast(lowering, args[0], dtype)

    return lowered


def _array(lowering: Any, x: Any) -> Any:
    """An array of a tensor."""
    return x


def _getitem(index: Callable[..., Value]) -> Callable[..., Value]:
    def lowered(lowering: Any, function: Any, args: tuple, kwargs: dict) -> Value:
        x, key = args
        key = key if isinstance(key, tuple) else (key,)
        plain = all(k is None or k is Ellipsis or type(k) in (int, slice) for k in key)
        if not plain or not isinstance(x, Value):
            raise UnsupportedError("an index of a tensor that is more than integers and slices")
        return index(lowering, x, key)

    return lowered


def calls(index: Callable[..., Value]) -> dict[str, Callable[..., Any]]:
    """Lowerings by the names of steps; `index`: lowers an index."""
    return {
        "torch network": _network,
        "torch tensor": _tensor,
        "numpy array of a tensor": _array,
        "torch __getitem__": _getitem(index),
        "torch float": _casts("float32"),
        "torch double": _casts("float64"),
    }

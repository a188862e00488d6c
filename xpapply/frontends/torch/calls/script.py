"""TorchScript: the code of scripted and traced modules, run again call by call.

torch runs such a module in C++, which takes no stand-in for a slice. What it runs is written
down as a graph of torch's own operations, and that can be walked from here.
"""

from __future__ import annotations

import functools
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch

from ....errors import InputError, TraceError
from ..lift import aten
from ..lift.proxy import Proxy

_WORDS: dict[str, Callable[..., Any]] = {
    "prim::unchecked_cast": lambda x: x,
    "prim::NumToTensor": lambda x: x,
    "prim::ListConstruct": lambda *xs: list(xs),
    "prim::TupleConstruct": lambda *xs: xs,
    "prim::ListUnpack": lambda xs: xs,
    "prim::TupleUnpack": lambda xs: xs,
    "prim::device": lambda x: x.device,
    **{f"aten::{name}": call for name, call in aten.WORDS.items()},
}
"""Operations that are no functions of tensors."""


def is_script(f: Any) -> bool:
    """Whether `f` is a scripted or traced module or function."""
    return isinstance(f, (torch.jit.ScriptModule, torch.jit.ScriptFunction))


def replayed(f: Any) -> Any:
    """`f` as a Python function that takes stand-ins: scripted code, and what was compiled."""
    if isinstance(f, functools.partial):
        return functools.partial(replayed(f.func), *f.args, **f.keywords)
    if hasattr(f, "_orig_mod"):  # of torch.compile
        return replayed(f._orig_mod)
    if not is_script(f):
        return f

    def call(*args: Any) -> Any:
        graph = f.inlined_graph
        given = list(graph.inputs())
        own = [f] if isinstance(f, torch.jit.ScriptModule) else []
        defaults = [a.default_value for a in f.schema.arguments] if own == [] else []
        values = [*own, *args, *defaults[len(args) :]]
        if len(values) != len(given):
            raise InputError(f"it takes {len(given) - len(own)} arguments, not the slice alone")
        known = {v.debugName(): x for v, x in zip(given, values, strict=True)}
        found = _run(graph, known)
        return found[0] if len(found) == 1 else tuple(found)

    return call


def _run(block: Any, known: dict[str, Any]) -> list[Any]:
    """The results of a graph, or of a block in it."""
    for node in block.nodes():
        outs = list(node.outputs())
        found = _result(node, known)
        if len(outs) == 1:
            known[outs[0].debugName()] = found
        else:
            known.update(zip((o.debugName() for o in outs), found or (), strict=True))
    return [known[v.debugName()] for v in block.outputs()]


def _result(node: Any, known: dict[str, Any]) -> Any:
    kind = node.kind()
    if kind == "prim::Constant":
        return node.output().toIValue()
    args = [known[v.debugName()] for v in node.inputs()]
    if kind == "prim::GetAttr":
        return getattr(args[0], node.s("name"))
    if kind == "prim::If":
        blocks = list(node.blocks())
        found = _run(blocks[0] if bool(args[0]) else blocks[1], known)
        return found[0] if len(found) == 1 else found
    if kind == "prim::RaiseException":
        raise TraceError(f"forward raises: {args[0]}")
    if kind in _WORDS:
        return _WORDS[kind](*args)
    namespace, _, name = kind.partition("::")
    if namespace != "aten":
        raise TraceError(f"{kind} in TorchScript code")
    if not any(isinstance(x, Proxy) for x in _flat(args)):
        # of the overload that the code names: torch takes booleans for two integers otherwise
        overload = torch._C.parse_schema(node.schema()).overload_name
        call = getattr(getattr(torch.ops.aten, name), overload or "default", None)
        if call is None:
            raise TraceError(f"{kind}.{overload} in TorchScript code")
        return call(*args)
    return _on_stand_ins(node, name, args)


def _on_stand_ins(node: Any, name: str, args: list[Any]) -> Any:
    """A function of tensors, as the stand-in takes it."""
    first = next(x for x in _flat(args) if isinstance(x, Proxy))
    names = [a.name for a in torch._C.parse_schema(node.schema()).arguments]
    positional, by_name = aten.arranged(name, names, args)
    named: Any = types.SimpleNamespace(__name__=name)
    return first.__torch_function__(named, (Proxy,), positional, by_name)


def _flat(xs: Any) -> Iterator[Any]:
    for x in xs:
        if isinstance(x, (list, tuple)):
            yield from _flat(x)
        else:
            yield x


def watched(others: Callable[[], bool], scripts: list[Any]) -> Callable[[], bool]:
    """``unchanged()``: whether scripted modules, and all `others`, are as they were."""
    known = [(weakref.ref(m), _state(m)) for m in scripts]

    def unchanged() -> bool:
        return others() and all(m() is not None and _state(m()) == s for m, s in known)

    return unchanged


def _state(m: Any) -> list[Any]:
    """Attributes that a scripted module reads: kept in C++, not in a dict."""
    tensors = (*m.parameters(), *m.buffers())
    numbers = [x for x in _reads(m) if isinstance(x, (bool, int, float, str))]
    return [*numbers, *((t.data_ptr(), t._version) for t in tensors)]


def _reads(m: Any) -> Iterator[Any]:
    """The values of the attributes that the code of a module reads."""
    if not m._c._has_method("forward"):
        return
    graph = m.inlined_graph
    known = {next(graph.inputs()).debugName(): m}
    for node in graph.findAllNodes("prim::GetAttr"):
        owner = known.get(node.input().debugName())
        if owner is not None:
            found = known[node.output().debugName()] = getattr(owner, node.s("name"))
            yield found


def why_not(m: Any) -> str | None:
    """Why a scripted module cannot be tried out, by its own code."""
    if m._c._has_method("forward") and m.inlined_graph.findNode("prim::SetAttr"):
        return f"forward of {m.original_name} (TorchScript) writes to its attributes"
    return None

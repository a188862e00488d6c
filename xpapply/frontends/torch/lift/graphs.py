"""Graphs of torch modules and functions: they run once on a stand-in tensor.

The module's own ``forward`` runs with a stand-in for the slice, whose shape is
known, which writes down what happens to it. So loops over layers, nested
modules, shape ``if``s, parametrizations and buffers need no special care:
torch and Python do them as always, and only what touches the slice becomes a
node. (torch.fx does not see through shape ``if``s, and torch.export costs
seconds.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from ....errors import InputError, TraceError, outermost, said
from ....ir.builder import Builder
from ....ir.graph import Graph, ShapeDtype
from ....ir.rewrite import without_batch_of_one
from ....loop.arguments import Arguments
from ....runtime import threads
from ....runtime.error_state import let_pass
from ..autocast import REFUSED, autocast_dtypes
from ..calls import script
from ..calls.snapshot import untouched
from ..model import check, device_of, layers, modules, parameter_dtype
from ..outputs import described
from . import functions
from .flattened import structure_of
from .proxy import Proxy, Recorder

_CLASS_QUESTIONS = frozenset(("isinstance", "is_tensor", "type"))


def _check_classes(f: Any, args: tuple, kwargs: dict) -> None:
    """Refuse a forward that asks for the class of a value."""
    for m in modules(f, args, kwargs):
        if script.is_script(m):
            continue  # its code is walked, and asks of stand-ins what it asks of tensors
        # the stand-in is not a tensor by class: torch's C code would take it for one
        code = getattr(type(m).forward, "__code__", None)
        own = not type(m).__module__.startswith(("torch.nn.", "torch._dynamo."))
        asked = _CLASS_QUESTIONS & set(code.co_names) if code is not None and own else ()
        if code is not None and own and "print" in code.co_names:
            raise TraceError(f"forward of {type(m).__name__} prints")
        if asked:
            raise TraceError(f"forward of {type(m).__name__} asks {min(asked)}() of its values")


def of_function(f: Any, aval: ShapeDtype, args: tuple, kwargs: dict) -> Graph:
    """The graph of a Python function of a tensor that has no side effects."""
    if not aval.dtype.startswith(("float", "bfloat")):
        raise TraceError(f"slices of dtype {aval.dtype}")
    try:
        return _without_windows(_lift_surely(f, aval, args, kwargs, batched=False))
    except (InputError, TraceError):
        raise
    except Exception as error:
        let_pass(error)
        raise TraceError(f"it raises {said(error)}") from error


def several_of_function(f: Any, avals: Sequence[ShapeDtype], arguments: Arguments) -> Graph:
    """The graph of a Python function of several tensors that has no side effects."""
    if not all(x.dtype.startswith(("float", "bfloat")) for x in avals):
        raise TraceError(f"slices of dtypes {', '.join(x.dtype for x in avals)}")

    def lifted() -> Graph:
        recorder = Recorder(Builder(), functions.find)
        inputs = [(recorder.builder.input(x), parameter_dtype(None, x.dtype)) for x in avals]
        device = device_of(f)
        found = arguments.call(
            script.replayed(f), [Proxy(recorder, x, dtype, device) for x, dtype in inputs]
        )
        parts = found if arguments.results else (found,)
        outs = [recorder.round(*recorder.result(x)) for x in parts]
        return replace(recorder.builder.graph(*outs), sources=tuple(recorder.sources))

    try:
        return _without_windows(_same_twice(lifted, f, *arguments.constants()))
    except (InputError, TraceError):
        raise
    except Exception as error:
        let_pass(error)
        raise TraceError(f"it raises {said(error)}") from error


def _without_windows(graph: Graph) -> Graph:
    """A graph of a function of tensors, which torch itself runs faster if it has convolutions."""
    if graph.gathers:
        raise TraceError("torch's own convolutions, pools and padding are faster")
    return graph


def _takes_a_slice(f: Any, aval: ShapeDtype, args: tuple, kwargs: dict) -> bool:
    """Whether torch accepts a slice as it is."""
    zeros = torch.zeros(aval.shape, dtype=parameter_dtype(f, aval.dtype), device=device_of(f))
    try:
        with untouched(modules(f, args, kwargs)):
            f(zeros, *args, **kwargs)
    except Exception as error:
        let_pass(error)
        return False
    return True


def _lift_surely(f: Any, aval: ShapeDtype, args: tuple, kwargs: dict, *, batched: bool) -> Graph:
    return _same_twice(lambda: _lift_once(f, aval, args, kwargs, batched=batched), f, args, kwargs)


def _same_twice(lift: Callable[[], Graph], f: Any, args: tuple, kwargs: dict) -> Graph:
    """Lift twice: what differs between two runs (random draws, counters) is not a graph."""
    with untouched(modules(f, args, kwargs)):
        once, again = lift(), lift()
    same = once == again and all(map(_same, once.consts, again.consts))
    if not same:
        raise TraceError("two runs of forward differ: it draws random numbers or counts its calls")
    return once


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays have equal elements; large weights mostly share memory."""
    if a.__array_interface__ == b.__array_interface__:
        return True
    return np.array_equal(a, b, equal_nan=a.dtype.kind == "f")


@outermost
def _lift_once(f: Any, aval: ShapeDtype, args: tuple, kwargs: dict, *, batched: bool) -> Graph:
    recorder = Recorder(Builder(), functions.find, layers(f))
    x = recorder.builder.input(aval)
    dtype = parameter_dtype(f, aval.dtype)
    x = recorder.cast(x, dtype)
    if batched:
        x = recorder.builder.op("reshape", x, shape=(1, *x.shape))
    result = script.replayed(f)(Proxy(recorder, x, dtype, device_of(f)), *args, **kwargs)
    several = isinstance(result, (tuple, list))
    if batched and several:
        result = [r[0] for r in result]
    out, dtype = recorder.result(result)
    if batched and not several:
        if not out.shape or out.shape[0] != 1:
            raise TraceError(f"a batch of one slice gives shape {out.shape}, not (1, ...)")
        out = recorder.builder.op("reshape", out, shape=out.shape[1:])
    graph = recorder.builder.graph(recorder.round(out, dtype))
    graph = without_batch_of_one(graph) if batched else graph
    return replace(graph, sources=tuple(recorder.sources))


@threads.forkable
def of_module(f: Any, aval: ShapeDtype, args: tuple, kwargs: dict) -> Graph:
    """The graph of ``f(slice, *args, **kwargs)``.

    `f` gets the slice as it is, shape (M,). If that fails it gets a batch of
    one, shape (1, M), and the leading axis is taken off the result: networks
    are often written for batches (``torch.cat(..., dim=1)``, BatchNorm1d).
    """
    check(f, args, kwargs)
    if structure_of(f) is not None:
        raise TraceError("it has several results")
    if autocast_dtypes():
        raise TraceError(REFUSED)
    _check_classes(f, args, kwargs)
    if not aval.dtype.startswith(("float", "int", "uint", "bool", "bfloat")):
        raise InputError(f"slices of dtype {aval.dtype}: networks take real numbers")
    refusals: list[Exception] = []
    for batched in (False, True):
        if batched and _takes_a_slice(f, aval, args, kwargs):
            raise refusals[0]  # a batch of one might mean something else
        try:
            return _lift_surely(f, aval, args, kwargs, batched=batched)
        except (InputError, TraceError) as error:
            refusals.append(error)
        except Exception as error:  # forward itself does not take this shape
            let_pass(error)
            refusals.append(TraceError(f"forward raises {said(error)}"))
            refusals[-1].__cause__ = error
    alone, batch_of_one = refusals
    if isinstance(batch_of_one, InputError):
        # only a batch could have fitted, or neither did
        raise alone if isinstance(alone, InputError) else batch_of_one
    raise TraceError(f"{alone}; as a batch of one: {batch_of_one}") from alone


def several_of_module(f: Any, avals: Sequence[ShapeDtype], arguments: Arguments) -> Graph:
    """The graph of a network of slices of several arrays, or with several results."""
    args, kwargs = arguments.constants()
    check(f, args, kwargs)
    if autocast_dtypes():
        raise TraceError(REFUSED)
    _check_classes(f, args, kwargs)

    def lifted() -> Graph:
        recorder = Recorder(Builder(), functions.find, layers(f))
        inputs, device = [], device_of(f)
        for x in avals:
            dtype = parameter_dtype(f, x.dtype)
            v = recorder.cast(recorder.builder.input(x), dtype)
            inputs.append(Proxy(recorder, v, dtype, device))
        found = arguments.call(script.replayed(f), inputs)
        parts = found if arguments.results else (found,)
        if type(parts) not in (tuple, list) or len(parts) != max(1, arguments.results):
            raise TraceError(f"forward returns {described(found)[0]}")
        outs = [recorder.round(*recorder.result(x)) for x in parts]
        return replace(recorder.builder.graph(*outs), sources=tuple(recorder.sources))

    try:
        return _same_twice(lifted, f, args, kwargs)
    except (InputError, TraceError):
        raise
    except Exception as error:  # forward does not take these slices alone
        let_pass(error)
        raise TraceError(f"forward raises {said(error)}") from error

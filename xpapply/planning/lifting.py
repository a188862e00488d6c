"""The graphs of functions of slices, by any frontend that has them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .. import frontends
from ..errors import InputError, TraceError
from ..ir.graph import Graph, ShapeDtype
from ..ir.rewrite import with_input
from ..loop.arguments import Arguments, Looped
from ..loop.signature import Dims
from . import engines, planner


class Inlined(engines.AnyLibrary):
    """A network called while another function is lifted: its graph is inlined."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.inlined = graph


def of_slice(
    f: Any,
    aval: ShapeDtype,
    args: tuple = (),
    kwargs: dict[str, Any] | None = None,
    remembered: bool = False,
) -> Graph:
    """The graph of a function of one slice, which it may take laid flat or with a channel more.

    `remembered`: it is made again only if the function has changed, as plans are.

    Raises
    ------
    UnsupportedError, InputError
        If there is none, with the reason.
    """
    frontend: Any = frontends.find(f)
    lift: Callable[..., Graph] = frontend.lift
    if frontends.is_python(f):
        return lift(f, aval, args, kwargs or {}, Inlined)
    if remembered:
        lift = lambda *given: planner.graph_of(frontend, *given)  # noqa: E731
    shape, dtype = aval
    more = args, kwargs or {}
    if len(shape) == 1:
        if not (args or kwargs):
            f = frontend.fitted(f, shape, dtype)
        return lift(f, aval, *more)
    try:
        return lift(f, aval, *more)
    except (TraceError, InputError) as error:
        if 0 in shape:
            raise
        try:
            flat = frontend.flattened(f, shape, dtype)
            flat_slice = ShapeDtype((math.prod(shape),), dtype)
            found = None if flat is None else lift(flat.call, flat_slice, *more)
        except (TraceError, InputError):
            raise error from None
        if found is None:
            raise
    return with_input(found, shape)


def of_call(
    f: Any,
    avals: tuple[ShapeDtype, ...],
    arguments: Arguments,
    dims: Dims | None = None,
    remembered: bool = False,
) -> Graph:
    """The graph of a call of a function with slices of several arrays, or for several results.

    Parameters
    ----------
    f : callable
        The function, or network.
    avals : tuple of ShapeDtype
        The slices.
    arguments : Arguments
        What it gets beside them.
    dims : Dims, optional
        What a signature promises of the results: it is checked.
    remembered : bool
        As of `of_slice`.

    Raises
    ------
    UnsupportedError, InputError, ValueError
        If there is none, with the reason, or none that the signature promises.
    """
    frontend: Any = frontends.find(f)
    if frontends.is_python(f):
        graph = frontend.lift_several(f, avals, arguments, Inlined)
    elif arguments.args[:1] == (Looped(0),) and len(avals) == 1 and not arguments.results:
        graph = of_slice(f, avals[0], arguments.args[1:], arguments.kwargs, remembered)
    else:
        graph = frontend.lift_several(f, avals, arguments)
    outputs = () if dims is None else dims.signature.outputs
    for k, (core_dims, node) in enumerate(zip(outputs, graph.outs, strict=False)):
        shape = graph.nodes[node].aval.shape
        if len(shape) != len(core_dims):
            raise ValueError(f"result {k} has the shape {shape}, in {dims and dims.signature}")
        assert dims is not None
        dims.sizes.take(core_dims, shape, f"result {k}")
    return graph  # type: ignore[no-any-return]

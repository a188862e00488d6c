"""Python functions: run on one real slice that writes down what happens to it.

This frontend serves every callable that no other one does. A function of Python is tried out
before it is lifted, so beside the contract of all frontends (`lift`, `watch`, `slice_function`)
there is `run.in_blocks.InBlocks`: what a trace on real slices tells, run on all of them.

- `sandbox/`: what stands for everything that ``f`` can reach, and one run of it on a slice
- `trace/`: the stand-in for the slice, and what is written down of it: calls, and what
  ``if v[0] > 0`` asked (`Tracer.__bool__`, `Recorder.ask`)
- `data_dependent/`: results and masks whose lengths depend on the data
- `graphs/`: a path without decisions as a graph of the op table
- `run/`: blocks of slices on all paths that were seen
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import UnsupportedError
from ...ir.avals import ShapeDtype
from ...loop.arguments import Arguments, Looped
from .. import Frontend, name_of

if TYPE_CHECKING:
    from ...ir.graph import Graph
    from .sandbox.library_calls import Runs
    from .sandbox.tracing import Tracing
    from .trace.tree import Path


def _graph(
    f: Any,
    aval: ShapeDtype | Sequence[ShapeDtype],
    arguments: Arguments,
    networks: Runs | None = None,
) -> Graph:
    tracing, path = _traced(f, aval, arguments, networks)
    if tracing.scratch:
        raise UnsupportedError(f"{name_of(f)}: it sets attributes, which a graph does not")
    from .graphs.to_graph import to_graph
    from .trace.tree import SideExit

    if isinstance(path.result, SideExit):
        raise UnsupportedError(f"{name_of(f)}: {path.result.why}")

    return to_graph(path, aval if isinstance(aval, ShapeDtype) else tuple(aval))


def _traced(
    f: Any,
    aval: ShapeDtype | Sequence[ShapeDtype],
    arguments: Arguments,
    networks: Runs | None = None,
) -> tuple[Tracing, Path]:
    from .sandbox.tracing import Tracing, why_impure  # which a loop that is compiled needs not

    why = why_impure(f)
    if why:
        raise UnsupportedError(f"{name_of(f)}: {why}")
    v = _made_up(aval) if isinstance(aval, ShapeDtype) else tuple(map(_made_up, aval))
    tracing = Tracing(arguments, "numpy", networks or _no_engine)
    try:
        path, _ = tracing(f, v)
    except UnsupportedError as error:
        raise UnsupportedError(f"{name_of(f)}: {error}") from None
    return tracing, path


def _made_up(aval: ShapeDtype) -> np.ndarray:
    n = math.prod(aval.shape)
    found: np.ndarray = np.linspace(0.5, 1.5, n).reshape(aval.shape).astype(aval.dtype)
    return found


def _no_engine(graph: Graph) -> Callable[[Any, int], Any]:
    """A stand-in for the run of a network inside `f`: this trace is not run."""
    from ...batching import NoRule

    def run(arr: Any, axis: int) -> Any:
        raise NoRule("a network inside a function that is only lifted")

    return run


class PythonFrontend(Frontend):
    """Functions of Python."""

    def lift(
        self, f: Any, aval: ShapeDtype, args: tuple, kwargs: dict, networks: Runs | None = None
    ) -> Graph:
        """The graph of `f`, traced on a slice of made-up numbers.

        `networks`: what runs the networks inside `f`, and has their graphs as `inlined`.
        """
        return _graph(f, aval, Arguments((Looped(0), *args), kwargs), networks)

    def lift_several(
        self,
        f: Any,
        avals: Sequence[ShapeDtype],
        arguments: Arguments,
        networks: Runs | None = None,
    ) -> Graph:
        """The graph of a function of a slice of each of several arrays."""
        return _graph(f, avals, arguments, networks)

    def watch(self, f: Any, args: tuple, kwargs: dict, sources: tuple = ()) -> Callable[[], bool]:
        """Notice changes of what `f` reaches: helpers, closures, globals, attributes.

        What that is depends on the slice, so a plan has the guards of all its traces; these are
        for one of made-up numbers.
        """
        aval = ShapeDtype((8,), "float64")
        tracing, _ = _traced(f, aval, Arguments((Looped(0), *args), kwargs))
        return lambda: tracing.watch(f)

    def slice_function(self, f: Any) -> Callable[..., Any]:
        """`f` itself."""
        return f  # type: ignore[no-any-return]


FRONTEND = PythonFrontend()

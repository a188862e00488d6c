"""The plan: what runs and why. `explain` shows it, `apply_along_axis` calls it."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakSet

import numpy as np

from .. import arrays
from ..arrays import as_tuple
from ..errors import InputError, TraceError, UnsupportedError
from ..loop.reference import first_place
from . import engines

if TYPE_CHECKING:
    from ..backends import Later
    from ..ir.avals import ShapeDtype
    from ..ir.graph import Graph


class Timed(NamedTuple):
    """The time of one way."""

    engine: str
    seconds: float
    """Per slice."""


@dataclass(eq=False, repr=False)
class Plan:
    """A function on the slices of one array or several: engine, kernels, reasons.

    Call it with an array, ``plan(arr, axis=-1)``, or with the arrays of a call of
    `xpapply.vectorize`, ``plan(a, b)``.

    Attributes
    ----------
    name : str
        What `f` is.
    engine : str
        What runs: "loop", "numpy", "cpu", "cupy", "torch", "torch.batch", "torch.vmap",
        "array_api";
        "compiled" for a plan that chooses when it is called.
    inputs : tuple of ShapeDtype
        Shape and dtype of one slice of each array; `slice` is that of the only one.
    library, device : str
        The array library and the device that was planned for.
    reasons : tuple of str
        Why each faster way was refused.
    kernels : tuple of str
        What the engine calls or launches.
    graph : Graph or None
        What `f` does to one slice.
    results : tuple of ShapeDtype or None
        Shape and dtype of each result of one slice; None where only the loop will tell. `result`
        is the only one.
    shapes : tuple of tuple of int
        Shapes of the arrays that were planned for; `arr_shape` is that of the only one.
    axis : int, tuple of int or None
        The applied axis, or axes. None: core dims are last, as `vectorize` has them.
    signature : str or None
        The core dims of `vectorize`, "" for a function of numbers; None: it is one array, along
        `axis`.
    count : int or None
        The number of slices.
    out_shapes : tuple of tuple of int or None
        Shapes of the outputs of `vectorize`.
    limits : tuple of float or None
        Bytes and floating-point operations per second of the device, where known.
    floor, expected : float or None
        Seconds below which nothing on the device can be, and what the cost model expects;
        None where the engine does not choose by them.
    compared : tuple of (engine, seconds per slice)
        What each way took on some of the slices, the fastest first, if that was asked for.
    """

    name: str
    engine: str
    inputs: tuple[ShapeDtype, ...]
    library: str
    device: str = "cpu"
    reasons: tuple[str, ...] = ()
    kernels: tuple[str, ...] = ()
    graph: Graph | None = None
    results: tuple[ShapeDtype, ...] | None = None
    shapes: tuple[tuple[int, ...], ...] = ()
    axis: int | tuple[int, ...] | None = None
    signature: str | None = None
    count: int | None = None
    out_shapes: tuple[tuple[int, ...], ...] | None = None
    limits: tuple[float, float] | None = None
    floor: float | None = None
    expected: float | None = None
    compared: tuple[Timed, ...] = ()
    _call: Callable[..., Any] | None = field(default=None, repr=False)
    _of: Any = field(default=None, repr=False)
    """The function, for `_call` to find it alive."""
    _later: Later | None = field(default=None, repr=False)
    """The counter that decides when calls like this one are worth a kernel."""
    _quick: bool = field(default=False, repr=False)
    """Whether the loop runs since it takes less time: then nobody is warned of it."""
    _plans: WeakSet[Plan] | None = field(default=None, repr=False)
    """Plans to notify when the way that they run is given up."""

    several_axes = True  # slices of any shape are lifted: no field

    def __post_init__(self) -> None:
        if self._plans is not None:
            self._plans.add(self)

    @property
    def vectorized(self) -> bool:
        """False only for the loop."""
        return self.engine != "loop"

    def give_up(self, why: str) -> None:
        """Give up: the loop runs from now on, for this reason."""
        self.engine, self.kernels, self.reasons = "loop", (), (why,)
        self.limits = self.floor = self.expected = None

    @property
    def slice(self) -> Any:
        """Shape and dtype of one slice; for `vectorize` a tuple, of one of each array."""
        return self.inputs[0] if self.signature is None else self.inputs

    @property
    def result(self) -> ShapeDtype | None:
        """Shape and dtype of the result of one slice, where that is known, and is one."""
        found = self.results
        return found[0] if found is not None and len(found) == 1 else None

    @property
    def arr_shape(self) -> tuple[int, ...] | None:
        """Shape of the array that was planned for."""
        return self.shapes[0] if self.shapes and self.signature is None else None

    @property
    def slices(self) -> int | None:
        """The number of slices."""
        if self.signature is not None:
            return self.count
        if self.arr_shape is None or self.axis is None:
            return None
        return math.prod(n for a, n in enumerate(self.arr_shape) if a not in self._axes)

    @property
    def _axes(self) -> tuple[int, ...]:
        return () if self.axis is None else as_tuple(self.axis)

    @property
    def out_shape(self) -> Any:
        """Shape of the output, where it is known before running; of several results a tuple."""
        if self.signature is not None:
            return _one(self.out_shapes)
        if self.arr_shape is None or self.axis is None or self.result is None:
            return None
        rest = [n for a, n in enumerate(self.arr_shape) if a not in self._axes]
        at = first_place(self._axes)
        return (*rest[:at], *self.result.shape, *rest[at:])

    @property
    def out_dtype(self) -> Any:
        """dtype of the output, where it is known before running; of several results a tuple."""
        return _one(self.results and tuple(x.dtype for x in self.results))

    def __call__(self, *given: Any, **named: Any) -> Any:
        """Run on all slices of arrays.

        Of one array it is ``plan(arr, axis)``: by default the last, or as many as slices have.
        """
        if (device := arrays.elsewhere(*given, *named.values())) is not None:
            with device:
                return self(*given, **named)
        if self.signature is None:
            return self._along(*given, **named)
        if self._call is None:  # compiled, or come from another process
            from . import compiled

            assert self.graph is not None
            self._call = compiled.OfSeveral(self.graph)
        return self._call(*given, **named)

    def _along(self, arr: Any, axis: Any = None) -> Any:
        """Run on all slices of one array."""
        if arrays.library(arr) is None and self.engine != "stream":
            arr = np.asanyarray(arr)
        dims = len(self.inputs[0].shape)
        if axis is None:
            axis = tuple(range(-dims, 0)) if dims != 1 else -1
        if dims == 1:
            axis = axis[0] if isinstance(axis, tuple) and len(axis) == 1 else axis
            if self._call is None:  # compiled, or come from another process
                assert self.graph is not None
                self._call = engines.AnyLibrary(self.graph)
            return self._call(arr, arrays.normalize_axis_index(axis, len(arr.shape)))
        if len(as_tuple(axis)) != dims:
            raise InputError(f"this plan is for slices {self.slice}: found axis={axis}")
        axes = tuple(arrays.normalize_axis_index(a, len(arr.shape)) for a in as_tuple(axis))
        if len(set(axes)) < dims:
            raise ValueError(f"axis={axis} names an axis twice")
        if self._call is None:
            from . import flat

            assert self.graph is not None
            self._call = flat.FlatGraph(self.graph, self.inputs[0])
        return self._call(arr, axes)

    def prepared(self, arr: Any, axis: int) -> Callable[[Any], Any]:
        """The plan for arrays like `arr` alone, with all that follows from that decided."""
        if self._call is None:
            return lambda x: self(x, axis)
        return engines.prepared(self._call, arr, axis)

    def lift(self, aval: ShapeDtype) -> Graph:
        """The graph, for slices of the shape and dtype that the plan is for."""
        if self.graph is None:
            raise TraceError(self._without_graph("to lift"))
        if aval != self.slice:
            raise InputError(
                f"this plan of {self.name} is for slices {self.slice}: found {aval}. Convert the "
                f"array, arr.astype({self.slice.dtype!r}), or compile the function for such slices"
            )
        return self.graph

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the plan into a file, which `load_model` reads.

        It has the graph and the weights, and needs neither the model's class nor its library:
        NumPy and xpapply are enough to run it. Reading it runs no code. The file appears when it
        is whole: an old one of that name is there until then.

        Parameters
        ----------
        path : str or path
            Any name; ``.xpapply`` is a good end.

        Raises
        ------
        UnsupportedError
            If the plan has no graph, with what to do instead.
        OSError
            If the file cannot be written.

        Examples
        --------
        >>> import tempfile, numpy as np, xpapply
        >>> net = xpapply.MLP([[[1.0, 2.0]]])
        >>> path = tempfile.mkdtemp() + "/net.xpapply"
        >>> xpapply.compile(net, (2,), "float64").save(path)
        >>> xpapply.apply_along_axis(xpapply.load_model(path), -1, np.eye(2))
        array([[1.],
               [2.]])
        """
        if self.graph is None:
            raise UnsupportedError(self._without_graph("to save"))
        from ..ir import saved

        saved.write(path, self.graph, self._about())

    def _about(self) -> dict[str, str]:
        about = {"name": self.name}
        return about if self.signature is None else about | {"signature": self.signature}

    def _without_graph(self, to: str) -> str:
        why = "; ".join(self.reasons)
        return (
            f"the plan of {self.name} has no graph {to}{f': {why}' * bool(why)}. "
            "xpapply.compile(f, shape, dtype) makes one where there can be one, and says why "
            "where not; an xpapply.vectorize of f goes with f itself"
        )

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__ | {"_of": None, "_later": None, "_plans": None}
        if self.graph is not None:
            return state | {"_call": None}
        if self.signature is None:
            raise TypeError(self._without_graph("to pickle"))
        return state  # what `xpapply.vectorize` made is called again there

    def cost(self) -> tuple[int, int] | None:
        """Fewest bytes to move and floating-point operations, for the whole array.

        None where that is not known, and of several arrays.
        """
        if self.graph is None or self.slices is None or self.result is None:
            return None
        if self.signature is not None:
            return None
        one = self.inputs[0].nbytes + self.result.nbytes
        return one * self.slices, self.graph.flops() * self.slices

    def to_dict(self) -> dict[str, Any]:
        """The plan as plain data."""
        cost = self.cost()
        said = {} if self.signature is None else {"signature": self.signature}
        return {
            "name": self.name,
            "engine": self.engine,
            "vectorized": self.vectorized,
            "reasons": list(self.reasons),
            "kernels": list(self.kernels),
            "library": self.library,
            "device": self.device,
            "slice": _listed(self.inputs),
            "slices": self.slices,
            "result": None if self.results is None else _listed(self.results),
            "out_shape": self.out_shape,
            "out_dtype": self.out_dtype,
            "bytes": cost and cost[0],
            "flop": cost and cost[1],
            "floor": self.floor,
            "expected": self.expected,
            "compared": {t.engine: t.seconds for t in self.compared},
            **said,
        }

    def _applied(self) -> str:
        slices = _listed(self.inputs)
        if self.signature is None:
            applied = "" if self.arr_shape is None else f" {self.arr_shape} along axis {self.axis}"
            applied = applied.replace("axis (", "axes (")
            array = "an array" if self.library == "any" else f"a {_where(self)} array"
            return f"{self.name} to {slices} slices of {array}{applied}"
        what = f"slices {slices}"
        if not self.signature and not any(x.shape for x in self.inputs):
            what = f"Python's numbers {slices}"
        shapes = ", ".join(map(str, self.shapes))
        by = f": {self.signature}" * bool(self.signature)
        of = f"a {_where(self)} array" if len(self.shapes) == 1 else f"{_where(self)} arrays"
        return f"{self.name} to {what} of {of} {shapes}".rstrip() + by

    def _lines(self) -> list[tuple[str, str]]:
        lines = [
            ("apply", self._applied()),
            ("engine", f"{self.engine}: {'; '.join(self.kernels) or 'one call per slice'}"),
        ]
        if self.results is None:
            lines.append(("result", "known once the first slice has run"))
        else:
            out = ""
            if self.out_shape is not None:
                out = f", {self.slices:,} slices, out {self.out_shape}"
            lines.append(("result", f"{_listed(self.results)}{out}"))
        cost = self.cost()
        if cost is not None:
            text = f"{_si(cost[0])}B to move, {_si(cost[1])}FLOP"
            if self.floor is not None and self.expected is not None:
                text += (
                    f": at least {self.floor * 1e3:.3g} ms on this device, "
                    f"about {self.expected * 1e3:.2g} ms expected"
                )
            elif self.limits is not None:
                seconds = max(cost[0] / self.limits[0], cost[1] / self.limits[1])
                text += f": at least {seconds * 1e3:.3g} ms on this device"
            elif self.expected is not None:
                text += f": about {self.expected * 1e3:.3g} ms expected"
            lines.append(("floor", text))
        if self.compared:
            took = ", ".join(f"{t.engine} {_si(t.seconds)}s" for t in self.compared)
            lines.append(("took", f"{took} per slice, on a sample"))
        lines.append(("refused", "; ".join(self.reasons)) if self.reasons else ("fallback", "none"))
        return lines

    def __str__(self) -> str:
        return "\n".join(f"{name:9}{text}" for name, text in self._lines())

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self._applied()}, engine {self.engine!r}>"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:  # a notebook shows the text
        printer.text(str(self))


def of_graph(name: str, graph: Graph, signature: str | None = None) -> Plan:
    """A plan that chooses how to run a graph when it is called.

    `signature`: of slices of several arrays, or several results, as of `Plan`.
    """
    runs = "chosen by the array that the plan is called with"
    if signature is not None:
        runs = "one array operation per node, in blocks of slices"
    return Plan(
        name=name,
        engine="compiled",
        inputs=tuple(graph.nodes[i].aval for i in graph.inputs),
        library="any",
        graph=graph,
        results=tuple(graph.nodes[o].aval for o in graph.outs),
        signature=signature,
        kernels=(runs,),
    )


def _one(found: tuple[Any, ...] | None) -> Any:
    """The only one of them, or all."""
    return found[0] if found is not None and len(found) == 1 else found


def _listed(found: tuple[ShapeDtype, ...]) -> str:
    return ", ".join(map(str, found))


def _where(p: Plan) -> str:
    return p.library if p.device == "cpu" else f"{p.library} ({p.device})"


def _si(n: float) -> str:
    for unit in ("", "k", "M", "G", "T"):
        if n < 1000:
            return f"{n:.3g} {unit}"
        n /= 1000
    return f"{n:.3g} P"

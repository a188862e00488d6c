"""Writing the graph of one slice from the nodes of an ONNX model.

The nodes are walked with a batch of one slice, whose axis is taken out at the end. An operator is
a row of `ROWS`: a function of the writer, the node and its inputs, which are values of the graph
or, where no slice is needed to know them, arrays. A node whose inputs are all arrays is computed
at once, by the same row and the definitions of the ops: shapes, transposed weights.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...backends import array_api
from ...errors import InputError, TraceError
from ...ir.builder import Builder, Value
from ...ir.graph import Graph, ShapeDtype
from ...ir.rewrite import compact, expand, without_batch_of_one
from ...ir.shapes import check_room
from ...limits import LIMITS
from .program import HALVES, ML, Body, Decoded, DecodedNode

KNOWN = {"": (7, 26), ML: (1, 5)}
"""The versions of the sets of operators whose meaning is in the rows."""


Given = Any
"""A value of the graph, an array, or None where an input is left out."""
Row = Callable[..., Any]

ROWS: dict[tuple[str, str], Row] = {}
"""Rows by domain and name of the operator."""


def row(*names: str, domain: str = "") -> Callable[[Row], Row]:
    """A function that writes the operators of these names."""

    def decorate(write: Row) -> Row:
        ROWS.update(dict.fromkeys([(domain, name) for name in names], write))
        return write

    return decorate


def why_unknown(node: DecodedNode) -> str | None:
    """Why a node has no row, or None."""
    if node.op == "If" and node.domain == "":
        return None
    if (node.domain, node.op) not in ROWS:
        return "no graph is known of this operator"
    first, last = KNOWN[node.domain]
    if not first <= node.version <= last:
        return f"version {node.version} of the operators, and graphs are known of {first}-{last}"
    return None


def graph_of(program: Decoded, aval: ShapeDtype, shape: tuple[int, ...]) -> Graph:
    """The graph for slices `aval`, which the model takes in a shape.

    Raises
    ------
    TraceError
        If there is none, with the node and the reason.
    InputError
        Where nothing could compute it either.
    """
    w = OnnxWriter(program)
    x = w.input(aval)
    inside = computed_in(program.dtype)
    x = x if aval.dtype == inside else w.op("cast", x, dtype=inside)
    env: dict[str, Given] = {program.input: w.op("reshape", x, shape=(1, *shape))}
    w.run(program.body, env)
    found = w.value(env[program.output])
    if found.shape[:1] != (1,):
        raise TraceError(
            f"the output {program.output!r} of one slice has the shape {found.shape}, "
            "with no axis of batches in front"
        )
    found = w.op("reshape", found, shape=found.shape[1:])
    wanted = program.result_dtype
    if wanted and found.aval.dtype != wanted:
        if computed_in(wanted) != found.aval.dtype:
            raise TraceError(f"the output {program.output!r} is {found.aval.dtype}, not {wanted}")
        found = w.op("cast", found, dtype=wanted)
    return compact(without_batch_of_one(w.graph(found)))


def computed_in(dtype: str) -> str:
    """The dtype in which numbers of a dtype are computed."""
    return "float32" if dtype in HALVES else dtype


class _Spent:
    """The remaining budget of computed constants."""

    def __init__(self, nbytes: int) -> None:
        self.left = nbytes

    def take(self, nbytes: int) -> None:
        self.left -= nbytes
        if self.left < 0:
            raise InputError("its constants take far more memory than the file has weights")


class OnnxWriter(Builder):
    """Builds the graph of a program."""

    def __init__(self, program: Decoded, spent: _Spent | None = None) -> None:
        super().__init__()
        self.program = program
        self.half = program.dtype in HALVES
        self._spent = spent or _Spent(LIMITS.onnx_constant_bytes + 8 * program.nbytes)
        self._made: dict[Any, tuple[np.ndarray, np.ndarray]] = {}

    # --- nodes ----------------------------------------------------------------------------

    def run(self, body: Body, env: dict[str, Given]) -> None:
        """Write the nodes of a graph; what they give goes into `env`, by name."""
        env.update(body.constants)
        for node in body.nodes:
            try:
                found = self._of_node(node, env)
            except InputError as error:
                raise InputError(f"{node}: {error}") from None
            except TraceError as error:
                raise TraceError(f"{node}: {error}") from None
            except Exception as error:  # of attributes and shapes that do not go together
                what = f"{node}: {type(error).__name__}: {error}"
                raise TraceError(what) from error
            env.update(zip(node.outputs, found, strict=False))

    def _of_node(self, node: DecodedNode, env: dict[str, Given]) -> Sequence[Given]:
        if why := why_unknown(node):
            raise TraceError(why)
        if missing := [name for name in node.inputs if name and name not in env]:
            raise TraceError(f"its input {missing[0]!r} is not known here")
        given = [env[name] if name else None for name in node.inputs]
        if node.op == "If":
            return self._branch(node, given[0], env)
        write = ROWS[node.domain, node.op]
        if given and all(x is None or isinstance(x, np.ndarray) for x in given):
            return self._constant(write, node, given)
        return self._checked(write(self, node, *given))

    def _checked(self, found: Any) -> Sequence[Given]:
        several: Sequence[Given] = found if isinstance(found, (tuple, list)) else (found,)
        for x in several:
            if x is not None:
                self.room(*x.shape)
            if isinstance(x, np.ndarray):
                self._spent.take(x.nbytes)
        return several

    def _branch(
        self, node: DecodedNode, condition: Given, env: dict[str, Given]
    ) -> Sequence[Given]:
        """The branch that is taken, where that is known."""
        if not isinstance(condition, np.ndarray) or condition.size != 1:
            raise TraceError("a branch that depends on the numbers of the slice")
        body: Body = node.attr("then_branch" if condition.item() else "else_branch")
        inner = dict(env)
        self.run(body, inner)
        return [inner[name] for name in body.outputs]

    def _constant(self, write: Row, node: DecodedNode, given: Sequence[Given]) -> Sequence[Given]:
        """Evaluate a node on arrays, by its row and the definitions of ops."""
        w = OnnxWriter(self.program, self._spent)
        w.input(ShapeDtype((), "float32"))  # graphs have one
        found = self._checked(write(w, node, *given))
        values = [x for x in found if isinstance(x, Value)]
        if not values:
            return found
        graph = expand(w.graph(*values))
        if graph.flops() > LIMITS.onnx_constant_flops:
            raise TraceError("a long computation with constants only")
        self._spent.take(sum(n.aval.nbytes for n in graph.nodes if n.op != "const"))
        with np.errstate(all="ignore"):
            computed = iter(array_api.evaluate(np, graph, [np.zeros(1, np.float32)], graph.consts))
        return [np.asarray(next(computed)) if isinstance(x, Value) else x for x in found]

    # --- values ---------------------------------------------------------------------------

    def value(self, x: Given) -> Value:
        """An array as a constant of the graph; one number is a part of it."""
        if isinstance(x, Value):
            return x
        if x is None:
            raise TraceError("an input that it needs is left out")
        found = self.const(x) if x.ndim else self.scalar(x.item(), x.dtype.name)
        return found  # type: ignore[no-any-return]

    def alike(self, *operands: Given) -> list[Value]:
        """Operands that broadcast: constants have no more axes than they need."""
        ndim = max((len(x.shape) for x in operands if isinstance(x, Value)), default=-1)
        return [self.value(self._trimmed(x, ndim)) for x in operands]

    def _trimmed(self, x: Given, ndim: int) -> Given:
        if not isinstance(x, np.ndarray) or x.ndim > ndim:
            return x
        shape = x.shape
        while shape[:1] == (1,):
            shape = shape[1:]
        return self.made(x, ("trimmed", ndim), lambda: x.reshape(shape))

    def array(self, x: Any, dtype: str) -> Value:
        """A constant that is made here."""
        return self.const(np.array(x, dtype, order="C"))  # type: ignore[no-any-return]

    def made(self, x: np.ndarray, key: Any, make: Callable[[], np.ndarray]) -> np.ndarray:
        """An array that is made of another one, once: equal constants are one node."""
        found = self._made.get((id(x), key))
        if found is None:
            found = self._made[id(x), key] = (np.asarray(make()), x)  # its id is not used again
        return found[0]

    def known(self, x: Given, what: str) -> np.ndarray:
        """An array; `TraceError` where it depends on the slice."""
        if not isinstance(x, np.ndarray):
            raise TraceError(f"{what} depends on the numbers of the slice")
        return x

    def room(self, *shape: int) -> tuple[int, ...]:
        """A shape, if a value may have it."""
        if any(n < 0 for n in shape):
            raise TraceError(f"a value of shape {shape}")
        check_room(shape)
        return shape


def axis_of(axis: int, ndim: int) -> int:
    """An axis, counted from the front."""
    if not -ndim <= axis < ndim:
        raise TraceError(f"axis={axis} of a value with {ndim} axes")
    return axis % ndim

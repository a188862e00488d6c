"""A multilayer perceptron without torch: weights, biases and the name of an activation."""

from __future__ import annotations

import difflib
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import arrays
from .arrays import masked
from .backends import array_api
from .errors import InputError, UnsupportedError
from .functions.cache import cache_of
from .functions.snapshots import lives_on
from .ir.batch import batch
from .ir.builder import Builder
from .ir.graph import Graph, Node, ShapeDtype
from .ir.ops import OPS, Kind
from .ir.rewrite import MATVEC, compact, expand, with_input


def _fixed(name: str, doc: str) -> Any:
    """A read-only attribute: plans are made once and do not check it again."""

    def refuse(self: MLP, value: Any = None) -> None:
        raise AttributeError(
            f"{name} of an MLP cannot be changed. Make another one: "
            "MLP(weights, biases, activation, output_activation)"
        )

    return property(operator.attrgetter(f"_{name}"), refuse, refuse, doc)


class MLP:
    """A multilayer perceptron, to be applied to every slice of an array.

    Each layer computes ``activation(W @ v + b)``; the last one has an
    activation of its own.

    Parameters
    ----------
    weights : sequence of array_like, shapes (n1, n0), (n2, n1), ...
        One matrix per layer, (outputs, inputs) as in ``torch.nn.Linear``.
        scikit-learn's ``coefs_`` are transposed: pass ``[w.T for w in est.coefs_]``.
    biases : sequence of array_like or None, shapes (n1,), (n2,), ...
        One vector per layer; None (for a layer, or for all) means no bias.
    activation : str or sequence of str, optional
        Of the hidden layers: "relu" (default), "tanh", "sigmoid", "gelu", "silu",
        "identity" ... any activation of the op table; a sequence gives one per hidden layer.
    output_activation : str, optional
        Of the last layer, "identity" by default; "softmax" and "log_softmax" too.

    Raises
    ------
    InputError
        For shapes that do not fit each other, or an unknown activation.

    Notes
    -----
    It does not change once it is made: its attributes cannot be set, and its arrays, which are
    copies, cannot be written to.

    Examples
    --------
    >>> import numpy as np, xpapply
    >>> net = xpapply.MLP([[[1.0, -1.0]], [[2.0], [3.0]]], [None, [0.5, 0.5]])
    >>> volume = np.array([[3.0, 1.0], [1.0, 3.0]])
    >>> xpapply.apply_along_axis(net, -1, volume)
    array([[4.5, 6.5],
           [0.5, 0.5]])
    """

    weights = _fixed("weights", "One matrix per layer, (outputs, inputs).")
    biases = _fixed("biases", "One vector per layer, or None.")
    activations = _fixed("activations", "The name of one per layer, the last one's included.")
    dtype = _fixed("dtype", "What it computes in.")
    result_dtype = _fixed("result_dtype", "What it returns.")

    def __init__(
        self,
        weights: Sequence[Any],
        biases: Sequence[Any] | None = None,
        activation: str | Sequence[str] = "relu",
        output_activation: str = "identity",
    ) -> None:
        if not len(weights):
            raise InputError("MLP without layers: weights is empty")
        matrices = [_floating(w) for w in weights]
        biases = [None] * len(matrices) if biases is None else biases
        vectors = [None if b is None else _floating(b) for b in biases]
        if len(vectors) != len(matrices):
            raise InputError(f"{len(matrices)} weights but {len(vectors)} biases")
        check_names("activation", activation, several=True)
        check_names("output_activation", output_activation)
        hidden = [activation] * (len(matrices) - 1) if isinstance(activation, str) else activation
        self._activations = (*hidden, output_activation)
        if len(self.activations) != len(matrices):
            raise InputError(
                f"{len(self.activations) - 1} activations for {len(matrices) - 1} hidden layers"
            )
        for k, (w, b) in enumerate(zip(matrices, vectors, strict=True)):
            if w.ndim != 2 or (b is not None and b.shape != (w.shape[0],)):
                found = f"{w.shape} and {None if b is None else b.shape}"
                raise InputError(f"layer {k}: expected shapes (n, m) and (n,), found {found}")
            if k and w.shape[1] != matrices[k - 1].shape[0]:
                raise InputError(
                    f"layer {k} takes {w.shape[1]} values, layer {k - 1} gives "
                    f"{matrices[k - 1].shape[0]}; weights have shape (outputs, inputs)"
                )
        # the one for hidden layers is looked at where there are none, too
        given = (activation,) if isinstance(activation, str) else ()
        for name in (*self.activations, *given):
            if name not in known_activations():
                raise InputError(f"unknown activation {name!r}{similar(name)}")
        every = [x for x in (*matrices, *vectors) if x is not None]
        dtype = np.result_type(*every)
        self._dtype = dtype if dtype.itemsize > 2 else np.dtype(np.float32)
        self._result_dtype = dtype
        self._weights = tuple(constant(w.astype(self.dtype)) for w in matrices)
        self._biases = tuple(None if b is None else constant(b.astype(self.dtype)) for b in vectors)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a copy, or one from another process, with constant arrays."""
        vars(self).update(state)
        self._weights = tuple(map(constant, self._weights))
        self._biases = tuple(None if b is None else constant(b) for b in self._biases)

    def __repr__(self) -> str:
        widths = [self.weights[0].shape[1], *(w.shape[0] for w in self.weights)]
        return (
            f"MLP({'-'.join(map(str, widths))}, {', '.join(self.activations)}, {self.result_dtype})"
        )

    def lift(self, aval: ShapeDtype) -> Graph:
        """The graph for slices of this shape and dtype."""
        if aval.shape != (self.weights[0].shape[1],):
            raise InputError(
                f"{self!r} takes {self.weights[0].shape[1]} features, the slices have "
                f"{aval.shape[0] if len(aval.shape) == 1 else f'shape {aval.shape}'}. Is `axis` "
                "the feature axis?"
            )
        if not aval.dtype.startswith(("float", "int", "uint", "bool", "bfloat")):
            raise InputError(f"{self!r} takes real numbers, the slices are {aval.dtype}")
        builder = Builder()
        x = builder.input(aval)
        if aval.dtype != self.dtype.name:
            x = builder.op("cast", x, dtype=self.dtype.name)
        for w, b, name in zip(self.weights, self.biases, self.activations, strict=True):
            x = builder.op("einsum", builder.const(w), x, subscripts=MATVEC)
            if b is not None:
                x = x + builder.const(b)
            if name != "identity" and "axis" in OPS[name].parameters:
                x = builder.op(name, x, axis=0)
            elif name != "identity":
                x = builder.op(name, x)
        if self.result_dtype != self.dtype:
            x = builder.op("cast", x, dtype=self.result_dtype.name)
        return compact(builder.graph(x))

    def __call__(self, v: Any) -> Any:
        """The network on one slice of any library, shape (M,)."""
        return masked.on_data(self._on_slice)(v, 0)

    def _on_slice(self, v: Any, axis: int) -> Any:
        return by_definition(self, v, self.lift)


def by_definition(net: Any, v: Any, lift: Callable[[ShapeDtype], Graph], key: Any = None) -> Any:
    """A network that does not change, on one slice, by the definition of its graph.

    The graph is written and lowered once for each kind of slice: people call networks slice by
    slice, and so does the loop.

    Parameters
    ----------
    net : object
        What it is remembered of.
    v : array_like
        The slice.
    lift : callable
        Gives the graph; what it raises is not remembered.
    key : hashable
        What tells further kinds of slices apart.

    Raises
    ------
    UnsupportedError
        If the library lacks something.
    """
    library = arrays.library(v) or "numpy"
    v = np.asarray(v) if library == "numpy" else v
    xp = arrays.compat(v)
    aval = ShapeDtype(tuple(v.shape), arrays.dtype_name(v))
    rows = xp.reshape(v, (-1, 1))
    # subclasses may have attributes that change
    known = cache_of(net)[0].lifted if lives_on(type(net)) else {}
    place = by_definition, aval, library, key
    found = known.get(place)
    if found is None:
        graph = with_input(lift(aval), (math.prod(aval.shape),))
        refused = array_api.BACKEND.why_not(graph, (v,))
        if refused:
            raise UnsupportedError(refused)
        batched, lowered = batch(expand(graph)), array_api.BACKEND.lower(graph)
        found = known[place] = _ready(batched, rows) if library == "numpy" else batched, lowered
    one, lowered = found
    # NumPy takes constants where they are
    consts = one.consts if library == "numpy" else lowered.bind(one.consts, v)
    with np.errstate(all="ignore"):
        (y,) = array_api.evaluate(xp, one, [rows], consts)
    return xp.reshape(y, y.shape[:-1])


def _ready(graph: Graph, rows: np.ndarray) -> Graph:
    """The graph with what no slice is needed for as constants, made once."""
    depends = graph.dependent()
    used = {a for n, d in zip(graph.nodes, depends, strict=True) if d for a in n.args}
    at = {i: k for k, i in enumerate(sorted(i for i in {*used, *graph.outs} if not depends[i]))}
    part = Graph(graph.nodes, tuple(at), graph.consts).pruned()
    values = array_api.evaluate(np, part, [rows], graph.consts) if at else []
    nodes = tuple(
        Node("const", (), (("k", at[i]),), n.aval) if i in at else n
        for i, n in enumerate(graph.nodes)
    )
    return Graph(nodes, graph.outs, tuple(values)).pruned()


def constant(x: np.ndarray) -> np.ndarray:
    """A copy that cannot be made writable: its flag cannot be set back."""
    return np.ndarray(x.shape, x.dtype, x.tobytes())


_NEEDS = ("keepdims", "eps", "weight", "correction")
"""Parameters of reductions, norms and of what has weights."""


def known_activations() -> list[str]:
    """Names of activations: ops with only an operand, or an axis."""
    rows = (r for r in OPS.values() if r.kind is Kind.COMPOSITE or r.activation)
    return ["identity", *(r.name for r in rows if not {*_NEEDS} & {*r.parameters})]


def check_names(label: str, given: Any, *, several: bool = False) -> None:
    """Refuse activations that are not names, such as functions, with the name to give.

    Raises
    ------
    InputError
    """
    listed = several and isinstance(given, (Sequence, np.ndarray))
    listed = listed and not isinstance(given, (str, bytes))
    each = list(given) if listed else [given]
    wrong = [x for x in each if not isinstance(x, str)]
    if not wrong:
        return
    wants = "a name, such as 'relu'"
    wants += ", or a sequence of names, one for each hidden layer" if several else ""
    names = [x if isinstance(x, str) else _name_of(x) for x in each]
    hint = f"known are {', '.join(known_activations())}"
    if all(names):
        shown = ", ".join(f'"{n}"' for n in names)
        hint = f"give {label}={f'[{shown}]' if listed else shown}"
        odd = [f"{n} has {_defaults_of(n)}" for n in {*names} if _defaults_of(n)]
        hint += f" ({', '.join(sorted(odd))})" if odd else ""
    raise InputError(f"{label}= is {wants}: found {str(wrong[0])[:80]}; {hint}")


def _name_of(x: Any) -> str:
    """The activation that a function or module of torch or NumPy is, by its name, or ""."""
    own = getattr(x, "__name__", None) or type(x).__name__
    for name in known_activations():
        if own in (name, OPS[name].activation if name in OPS else "Identity"):
            return name
    return ""


def _defaults_of(name: str) -> str:
    found = OPS[name].parameters.items() if name in OPS else ()
    return ", ".join(f"{k}={p.default}" for k, p in found if p.default is not p.empty)


def similar(name: str) -> str:
    """Activations whose names are like this one."""
    found = difflib.get_close_matches(str(name).lower(), known_activations(), 3)
    return f": did you mean {' or '.join(map(repr, found))}?" if found else ""


def _floating(x: Any) -> np.ndarray:
    """A copy of `x` as a NumPy array of floats."""
    if arrays.library(x) == "torch":
        x = x.detach().cpu().numpy()
    elif arrays.library(x) == "cupy":
        x = x.get()
    array = np.array(x)
    if array.dtype.kind in "iub":
        return array.astype(np.float64)
    if array.dtype.kind != "f":
        raise InputError(f"weights of dtype {array.dtype}: expected real numbers")
    return array.astype(array.dtype.newbyteorder("="))

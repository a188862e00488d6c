"""One file or folder per kind of function: callable in, graph of one slice out.

Its name is the root package that it serves: an object whose class has
``torch`` among the root packages of its MRO goes to ``frontends/torch/``.
Other packages register a module by the entry point group
``xpapply.frontends``, under the name of their root package.

A frontend module has three functions:

``lift(f, aval, args, kwargs) -> Graph``
    raises `TraceError` with the reason when it cannot;
``watch(f, args, kwargs, sources) -> callable``
    ``unchanged() -> bool``: whether a graph that was lifted just before, with these
    `sources` (`Graph.sources`) of its constants, still holds;
``slice_function(f) -> callable``
    `f` for one slice of any library, as the plain loop calls it.

and may have more:

``differentiable(f, arr, args, kwargs) -> bool``
    whether the library of `f` records this call for its autograd;
``vectorized(f, axis, arr, args, kwargs, trusted=..., graph=...) -> AllAtOnce``
    the library's own way to run all slices at once; raises `TraceError`. With a `graph` `f` is
    known to be a pure function; `trusted` says that this is the way to run it. The module's
    `VECTORIZED` has the names of its ways, by which they can be forced.
``half_dtype(f, arr, args, kwargs) -> str``
    the dtype of 16 bits that the library of `f` itself would compute in for `arr`, where `arr`
    is; "" if it would not, or not there;
``flattened(f, shape, dtype) -> FlatFunction``
    `f` for slices of a shape that lie flat, ``(K,)``; raises `TraceError`;
``several(f, shapes, dtype) -> FlatFunction``
    the same for an `f` of slices of several arrays, which lie one after the other, or with several
    results, which a call of its plan gives as a tuple;
``lift_network(f, avals, arguments) -> Graph``
    as `lift`, of slices of several arrays or with several results;
``length_of_slices(f) -> int or None``
    how long slices are, where `f` alone tells;
``fitted(f, shape, dtype) -> callable``
    `f`, or a function of slices ``(M,)`` that gives `f` what it takes in their place;
``looped(f, arguments, views, loop, signature, note) -> tuple of arrays``
    the same as `vectorized` for slices of several arrays, of a module with ``COMPILED = True``:
    one of functions that compute anything, but are compiled already;
``checked(f, aval, args, kwargs) -> Checked``
    what runs where a graph alone does not say all that `f` does, instead of what `lift` gives;
``WAITS``
    true if a first plan takes so long that the loop runs until loops have taken about as long;
``by_mode(f) -> list of layers``
    those whose attribute `training` decides what they give;
``serves(f) -> bool``
    whether it serves this object of its package; the others are Python functions;
``as_function(f) -> callable``
    what an object that it serves, and that is not a function, stands for where one is wanted.
"""

from __future__ import annotations

import functools
import importlib
import sys
import types
import weakref
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from ..functions.batch_of_one import BatchOfOne
from ..ir.avals import ShapeDtype
from ..runtime import registry

if TYPE_CHECKING:
    from ..ir.graph import Graph


class AllAtOnce(NamedTuple):
    """A library's own way to run all slices, with what a plan says of it."""

    engine: str
    kernels: tuple[str, ...]
    call: Callable[[Any, int], Any]
    """``call(arr, axis)``"""
    result: ShapeDtype | None = None
    """Of one slice, if it is known."""
    reasons: tuple[str, ...] = ()
    """Why not faster."""
    unchanged: Callable[[], bool] | None = None
    """What `watch` asks, but for what this way does not depend on."""


class Checked(NamedTuple):
    """A graph that runs, with what is done around it on each array."""

    graph: Graph
    around: Callable[[Callable[[Any, int], Any]], Callable[[Any, int], Any]]
    """``around(run)(arr, axis)`` is the result, ``run(arr, axis)`` what the graph gives."""
    result: ShapeDtype
    """Of one slice."""
    shown: Graph | None
    """The graph of the whole, which plans show and take to other processes, if there is one."""


class FlatFunction(NamedTuple):
    """A function of slices with several axes, for the same slices laid flat."""

    call: Callable[..., Any]
    """Of a slice ``(K,)``, served by the same frontend; remembered by the same object."""
    alike: bool = False
    """The last axis of its results is flat as well."""
    structure: Any = None
    """Of several results: ``filled()`` is what the function itself returns, without its tensors."""


def owner(f: Any) -> Any:
    """The object behind partials and bound methods: the one whose class chooses the frontend."""
    while True:
        if isinstance(f, functools.partial):
            f = f.func
        elif isinstance(f, types.MethodType):
            f = f.__self__
        else:
            return f


def find(f: Any) -> ModuleType:
    """The frontend that serves `f`: that of Python functions where no other does."""
    return _own(f) or sys.modules.get(_PYTHON) or importlib.import_module(_PYTHON)


def _own(f: Any) -> ModuleType | None:
    """The same; None for Python functions, whose frontend takes a while to load."""
    kind: Any = type(owner(f))
    known = _known.get(weakref.ref(kind))
    if known is None:
        found = _serving(kind)
        known = _known[weakref.ref(kind, _forget)] = found, getattr(found, "serves", None)
    found, serves = known
    return found if serves is None or serves(f) else None


def as_function(f: Any) -> Any:
    """`f`; where it is an object that stands for one of its methods, that.

    Of what no frontend says more, that is `predict`, as estimators have it: of samples in rows.
    """
    if callable(f):
        return f
    make = getattr(find(f), "as_function", None)
    if make is not None:
        return make(f)
    predict = None if isinstance(f, types.ModuleType) else getattr(f, "predict", None)
    return BatchOfOne(predict, row=True) if callable(predict) else f


def is_python(f: Any) -> bool:
    """Whether `f` is tried out on slices, like any Python function: nothing more is known of it."""
    return type(f) in _FUNCTIONS or _own(f) is None


_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType)
"""Of no package that has a frontend."""
_PYTHON = f"{__name__}.python"
_UNSERVED = ("builtins", "numpy", "functools", "__main__")
"""Where nothing has a frontend: plain functions, every class's `object`, NumPy's functions."""
_known: dict[weakref.ref[Any], tuple[ModuleType | None, Callable[[Any], bool] | None]] = {}
"""The frontend and what it asks of each `f`, by class, which may be one that is written in a
function: it is not kept alive."""


def _forget(gone: weakref.ref[Any], known: dict[weakref.ref[Any], Any] = _known) -> None:
    known.pop(gone, None)  # no global: classes may outlive those of this module


def is_network(f: Any) -> bool:
    """Whether a frontend of its own serves `f` as a function of one slice: a network, as a rule."""
    return not is_python(f) and not is_compiled(f) and not hasattr(owner(f), "along")


def is_compiled(f: Any) -> bool:
    """Whether the user has compiled `f`, a function like any other: by numba."""
    return getattr(find(f), "COMPILED", False)


def name_of(f: Any) -> str:
    """What `f` is, in one word."""
    f = f.func if type(f) is BatchOfOne else f
    return str(getattr(f, "__qualname__", None) or type(owner(f)).__qualname__)


def _serving(callable_type: Any) -> ModuleType | None:
    mro = () if callable_type is BatchOfOne else callable_type.__mro__
    for cls in mro:
        root = cls.__module__.partition(".")[0]
        module = None if root in _UNSERVED else registry.find("frontends", root)
        if module is not None:
            return module
    return None

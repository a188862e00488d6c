"""Frontends, one file or folder per kind of function: a callable in, the graph of one slice out.

Its name is the root package that it serves: an object whose class has
``torch`` among the root packages of its MRO goes to ``frontends/torch/``.
Other packages register a module by the entry point group
``xpapply.frontends``, under the name of their root package.

Each has an instance of a subclass of `Frontend` as its ``FRONTEND``.
"""

from __future__ import annotations

import functools
import importlib
import types
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import UnsupportedError
from ..functions.estimators import BatchOfOne
from ..ir.avals import ShapeDtype
from ..runtime import registry

if TYPE_CHECKING:
    from ..ir.graph import Graph
    from ..loop.arguments import Arguments


class AllAtOnce(NamedTuple):
    """A library's own way to run all slices, with what a plan says of it."""

    engine: str
    kernels: tuple[str, ...]
    call: Callable[[Any, int], Any]
    """``call(arr, axis)``"""
    result: ShapeDtype | None = None
    """Shape and dtype of one slice's result, if known."""
    reasons: tuple[str, ...] = ()
    """Why not faster."""
    unchanged: Callable[[], bool] | None = None
    """A narrower `watch`: without what this way does not depend on."""


class Checked(NamedTuple):
    """A graph that runs, with what is done around it on each array."""

    graph: Graph
    around: Callable[[Callable[[Any, int], Any]], Callable[[Any, int], Any]]
    """``around(run)(arr, axis)`` is the result, ``run(arr, axis)`` what the graph gives."""
    result: ShapeDtype
    """Shape and dtype of one slice's result."""
    shown: Graph | None
    """The graph of the whole, which plans show and take to other processes, if there is one."""


class FlatFunction(NamedTuple):
    """A function of slices with several axes, for the same slices laid flat."""

    call: Callable[..., Any]
    """The function of a slice ``(K,)`` for the same frontend, remembered by the same object."""
    alike: bool = False
    """The last axis of its results is flat as well."""
    structure: Any = None
    """Structure of several results: ``filled()`` is the function's container, empty."""


class Frontend:
    """Serves the functions of one package.

    A subclass needs `lift`, `watch` and `slice_function`. `args` and `kwargs` are what the user
    passed after the array.

    Attributes
    ----------
    ways : tuple of str
        Names of its library's own ways to run all slices at once (`vectorized`), by which they can
        be forced.
    waits : bool
        Whether a first plan takes so long that the loop runs until loops have taken about as long.
    is_compiled : bool
        Whether its functions compute anything, but are compiled already: then it has `looped`.
    """

    ways: tuple[str, ...] = ()
    waits = False
    is_compiled = False

    def lift(self, f: Any, aval: ShapeDtype, args: tuple, kwargs: dict) -> Graph:
        """The graph of ``f(slice, *args, **kwargs)``.

        Raises
        ------
        TraceError
            If there is none, with the reason: the loop runs.
        InputError
            If the call can have no answer.
        """
        raise NotImplementedError

    def watch(self, f: Any, args: tuple, kwargs: dict, sources: tuple = ()) -> Callable[[], bool]:
        """``unchanged()``: whether a graph that was lifted just before still holds.

        `sources`: `Graph.sources` of its constants.
        """
        raise NotImplementedError

    def slice_function(self, f: Any) -> Callable[..., Any]:
        """`f` for one slice of any library, as the plain loop calls it."""
        raise NotImplementedError

    # --- which objects it serves ----------------------------------------------------------

    def serves(self, f: Any) -> bool:
        """Whether it serves this object of its package; others are Python functions."""
        return True

    def as_function(self, f: Any) -> Any:
        """A function for an object that is none: its method `predict`, of samples in rows."""
        predict = None if isinstance(f, types.ModuleType) else getattr(f, "predict", None)
        return BatchOfOne(predict, row=True) if callable(predict) else f

    def by_mode(self, f: Any) -> Sequence[Any]:
        """Layers whose attribute `training` decides what they give."""
        return ()

    def length_of_slices(self, f: Any) -> int | None:
        """The length of slices, if `f` alone determines it."""
        return None

    def parameter_dtype(self, f: Any, dtype: str) -> str:
        """The dtype that `f` computes in, for slices of `dtype`."""
        return dtype

    # --- graphs of more than slices (M,) of one array --------------------------------------

    def fitted(self, f: Any, shape: tuple[int, ...], dtype: str) -> Any:
        """`f`, or a function of slices ``(M,)`` that gives `f` what it takes in their place."""
        return f

    def flattened(self, f: Any, shape: tuple[int, ...], dtype: str) -> FlatFunction | None:
        """`f` for slices of a shape that lie flat, ``(K,)``; None where slices have one axis.

        Raises
        ------
        TraceError
            If there is no such function, with the reason.
        """
        return None

    def several(
        self, f: Any, shapes: tuple[tuple[int, ...], ...], dtype: str
    ) -> FlatFunction | None:
        """`f` of slices of several arrays that lie flat one after the other; None as above.

        Or with several results, which a call of its plan gives as a tuple.
        """
        return None

    def several_of_slice(self, f: Any) -> Callable[..., Any]:
        """`f` for one slice of each array, with several results, as the plain loop calls it."""
        return self.slice_function(f)

    def lift_several(self, f: Any, avals: Sequence[ShapeDtype], arguments: Arguments) -> Graph:
        """Lift a function of slices of several arrays, or with several results: as `lift`."""
        what = "slices of one array" if len(avals) > 1 else "one result"
        raise UnsupportedError(f"{name_of(f)}: graphs of such networks are of {what}")

    def checked(self, f: Any, aval: ShapeDtype, args: tuple, kwargs: dict) -> Checked | None:
        """A checked run in place of the graph of `lift`; None: the graph is complete."""
        return None

    @property
    def checks(self) -> bool:
        """Whether it has a `checked` of its own."""
        return type(self).checked is not Frontend.checked

    # --- other ways to run -------------------------------------------------------------------

    def differentiable(self, f: Any, arr: Any, args: tuple, kwargs: dict) -> bool:
        """Whether the library of `f` records this call for autograd."""
        return False

    def half_dtype(self, f: Any, arr: Any, args: tuple, kwargs: dict) -> str:
        """The dtype of 16 bits that the library of `f` would compute in for `arr`; "": none."""
        return ""

    def vectorized(
        self,
        f: Any,
        axis: int,
        arr: Any,
        args: tuple,
        kwargs: dict,
        *,
        trusted: bool = False,
        graph: Graph | None = None,
    ) -> AllAtOnce:
        """The library's own way to run all slices at once; called where it has `ways`.

        With a `graph` `f` is known to be a pure function; `trusted`: this is the way to run it.

        Raises
        ------
        TraceError
            If that is impossible, with the reason.
        """
        raise NotImplementedError

    def looped(
        self,
        f: Any,
        arguments: Arguments,
        views: Sequence[Any],
        loop: tuple[int, ...],
        signature: Any,
    ) -> tuple[Callable[..., Any], str]:
        """The run of `f` on slices of several arrays, with loop dims first, and its name.

        Of functions that are compiled already.
        """
        raise NotImplementedError


def owner(f: Any) -> Any:
    """The object inside partials and bound methods, whose class chooses the frontend."""
    while True:
        if isinstance(f, functools.partial):
            f = f.func
        elif isinstance(f, types.MethodType):
            f = f.__self__
        else:
            return f


def find(f: Any) -> Frontend:
    """The frontend that serves `f`: that of Python functions where no other does."""
    # waits for a thread that imports it
    return _own(f) or importlib.import_module(_PYTHON).FRONTEND  # type: ignore[no-any-return]


def _own(f: Any) -> Frontend | None:
    """The same; None for Python functions, whose frontend takes a while to load."""
    kind: Any = type(owner(f))
    try:
        found = _known[weakref.ref(kind)]
    except KeyError:
        found = _known[weakref.ref(kind, _forget)] = _serving(kind)
    return found if found is None or found.serves(f) else None


def as_function(f: Any) -> Any:
    """`f`; where it is an object that stands for one of its methods, that."""
    return f if callable(f) else find(f).as_function(f)


def is_python(f: Any) -> bool:
    """Whether `f` is run on slices like any Python function: no frontend knows it."""
    return type(f) in _FUNCTIONS or _own(f) is None


_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType)
"""Types of functions without a frontend of their own."""
_PYTHON = f"{__name__}.python"
_UNSERVED = ("builtins", "numpy", "functools", "__main__")
"""Modules whose classes have no frontend: plain functions, `object`, NumPy's functions."""
_known: dict[weakref.ref[Any], Frontend | None] = {}
"""Frontends by class, held weakly, as a class may be local to a function."""


def _forget(gone: weakref.ref[Any], known: dict[weakref.ref[Any], Any] = _known) -> None:
    known.pop(gone, None)  # no global: classes may outlive those of this module


def is_network(f: Any) -> bool:
    """Whether a frontend of its own serves `f` as a function of one slice: a network, as a rule."""
    own = None if type(f) in _FUNCTIONS else _own(f)
    return own is not None and not own.is_compiled and not hasattr(owner(f), "along")


def is_compiled(f: Any) -> bool:
    """Whether `f` is a function compiled by the user, with numba."""
    own = None if type(f) in _FUNCTIONS else _own(f)
    return own is not None and own.is_compiled


def name_of(f: Any) -> str:
    """The name of `f`, in one word."""
    f = f.func if type(f) is BatchOfOne else f
    return str(getattr(f, "__qualname__", None) or type(owner(f)).__qualname__)


def _serving(callable_type: Any) -> Frontend | None:
    mro = () if callable_type is BatchOfOne else callable_type.__mro__
    for cls in mro:
        root = cls.__module__.partition(".")[0]
        module = None if root in _UNSERVED else registry.find("frontends", root)
        if module is not None:
            found = getattr(module, "FRONTEND", None)
            if not isinstance(found, Frontend):
                raise TypeError(
                    f"{module.__name__} serves objects of {root} and has no FRONTEND: give it an "
                    "instance of a subclass of xpapply.frontends.Frontend"
                )
            return found
    return None

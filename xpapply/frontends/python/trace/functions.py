"""Calls of library functions on something traced."""

from __future__ import annotations

import contextlib
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ....batching import find, lapack, syntax
from ....batching.names import CUPY, mirrored, public_names, root_of
from ....errors import CALLS_BACK, TraceError
from ..data_dependent import ragged
from . import writes
from .arrays import as_array, fits, lists_as_arrays
from .indexing import setitem
from .recorder import Recorder
from .stand_ins import Traced, tracers, values
from .tracer import Tracer


@contextlib.contextmanager
def calling_back(recorder: Recorder, function: Any, args: tuple, kwargs: dict) -> Iterator[None]:
    """Name the library's function if something is refused in a function that it calls.

    What is refused is not printed, as compiled code of SciPy's does with exceptions.
    """
    before, shown = recorder.inside, sys.excepthook
    if any(isinstance(x, types.FunctionType) for x in (*args, *kwargs.values())):
        recorder.inside = f"{public_name(function)} {CALLS_BACK}"

        def show(kind: Any, error: Any, trace: Any) -> None:
            if not issubclass(kind, TraceError):
                shown(kind, error, trace)

        sys.excepthook = show
    try:
        yield
    finally:
        recorder.inside, sys.excepthook = before, shown


def into(recorder: Recorder, out: Any, compute: Callable[[], Any], alike: bool = True) -> Any:
    """A call with ``out=``; `alike`: whether it computes in the dtype of `out`."""
    if not isinstance(out, Tracer) or not isinstance(out.value, np.ndarray):
        raise recorder.refuse("out= of several arrays, or of one that is not an array")
    result = as_array(recorder, compute())
    given = np.asarray(values(result))
    if alike and given.dtype != out.value.dtype:  # sums of float32 into float64 are in float64
        raise recorder.refuse(f"out= of {out.value.dtype} for what is {given.dtype} without it")
    changed = out.value.copy()
    changed[...] = given.astype(out.value.dtype, casting="same_kind")
    if isinstance(result, Traced):
        result.settle()
    new = recorder.structural(
        syntax.SET, lambda *_: changed, (out, (Ellipsis,), result, changed.ndim)
    )
    out.become(np.asarray(values(new)), getattr(new, "ref", None))
    out.is_set(Ellipsis)
    return out


_LISTS = frozenset(
    f"numpy.{n}"
    for n in (
        "concatenate concat stack hstack vstack column_stack dstack select choose piecewise "
        "block meshgrid broadcast_arrays ix_ append"
    ).split()
) | {"numpy.linalg.multi_dot", "scipy.linalg.lu_solve", "scipy.linalg.cho_solve"}
"""Functions that take lists of arrays, which must stay lists."""


_SIZED = frozenset(
    "zeros ones empty full arange linspace logspace geomspace eye identity tri indices".split()
)
"""Functions of NumPy whose arguments say how large an array they make."""
_WRITING = frozenset(["copyto", *writes.WRITES])


SPECIAL: dict[str, Callable[..., Any]] = {}
"""Functions that are no one call of a batching rule, by the names of NumPy's and SciPy's."""


def function_call(recorder: Recorder, function: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """A call of a library function on something traced."""
    name = _name(function)
    if name == "numpy.empty_like":
        kwargs = {k: x for k, x in kwargs.items() if k != "device"}
        if any(map(_selected, tracers((args, kwargs)))):
            raise recorder.refuse("numpy.empty_like of what a mask selects")
        # of the prototype only its shape and dtype are taken
        others = {k: x for k, x in kwargs.items() if k != "prototype"}
        _ask_sizes(recorder, function, (args[1:], others))
        return recorder.empty(recorder.real(lambda: np.empty_like(*values(args), **values(kwargs))))
    if name.removeprefix("numpy.") in _WRITING:
        if name == "numpy.copyto" and set(kwargs) <= {"where"} and len(args) == 2:
            _copyto(recorder, *args, **kwargs)
            return None
        write = writes.find(name, args, kwargs)
        if write is None:
            raise recorder.refuse(name)
        given = [a if k == 0 else lists_as_arrays(recorder, a) for k, a in enumerate(args)]
        recorder.real(
            lambda: function(np.copy(values(args[0])), *values(args[1:]), **values(kwargs))
        )
        return write(recorder, *given, **kwargs)
    if not any(t.ref is not None for t in tracers((args, kwargs)) if not _selected(t)):
        if not any(map(_selected, tracers((args, kwargs)))) and "out" not in kwargs:
            with calling_back(recorder, function, args, kwargs):
                return recorder.call(syntax.SAME, function, args, kwargs)
    found = ragged.reduce(recorder, function, args, kwargs)
    if found is not NotImplemented:
        return found
    special = SPECIAL.get(name)
    if special is not None:
        done = special(recorder, *args, **kwargs)
        if done is not NotImplemented:
            return done
    if root_of(function) == "scipy":
        from ..data_dependent import selections

        done = selections.call(recorder, function, args, kwargs)
        if done is not NotImplemented:
            return done
    row = find(function)
    if row is None:
        if not any(t.ref is not None for t in tracers((args, kwargs))):
            with calling_back(recorder, function, args, kwargs):
                return recorder.call(syntax.SAME, function, args, kwargs)
        if name in _OF_SIZES and recorder.library == "numpy":
            return _of_sizes(recorder, function, args, kwargs)
        name = public_name(function)
        if any(callable(x) for x in (*args, *kwargs.values()) if not isinstance(x, Traced)):
            raise recorder.refuse(f"{name} {CALLS_BACK}")
        if name.removeprefix("numpy.") in _SIZED:
            raise recorder.refuse(f"{name} of an array whose size depends on the slice")
        raise recorder.refuse(f"{name} has no batching rule")
    if row.name not in _LISTS:
        args = tuple(lists_as_arrays(recorder, x) for x in args)
        kwargs = {k: lists_as_arrays(recorder, x) for k, x in kwargs.items()}
    out = kwargs.pop("out", None)
    if out is not None:
        return into(recorder, out, lambda: function_call(recorder, function, args, kwargs))
    if lapack.may_not_end(row.name, args, kwargs):
        for x in tracers((args, kwargs)):
            _must_be_finite(x, row.name)
    result = recorder.call(row, function, args, kwargs)
    if row.name in _CONVERTED and isinstance(result, Tracer):
        place, name, to = _CONVERTED[row.name]
        number = kwargs[name] if name in kwargs else dict(enumerate(args)).get(place)
        fits(number, result.dtype if to == "result" else np.asarray(values(args[0])).dtype)
    return result


_CONVERTED = {
    "numpy.full_like": (1, "fill_value", "result"),
    "numpy.insert": (2, "values", "result"),
    "numpy.trapezoid": (2, "dx", "array"),
    **{f"numpy.{n}": (-1, "initial", "result") for n in "sum prod max min amax amin".split()},
}
"""Functions that convert a number that they are given: its place and name, and to which dtype."""


def _name(function: Any) -> str:
    """The name of a function in NumPy or SciPy, "numpy.sort" for `cupy.sort`."""
    if root_of(function) in CUPY:
        names = public_names(function) or (function.__name__,)
        return next((mirrored(n) for n in names if mirrored(n) in SPECIAL), mirrored(names[0]))
    return f"{function.__module__}.{function.__name__}"


def _must_be_finite(x: Any, name: str) -> None:
    """Leave slices to ``f`` itself where there is NaN or infinity."""
    if not isinstance(x, Tracer) or x.ref is None or np.asarray(x.value).dtype.kind not in "fc":
        return
    finite = x.recorder.call(
        syntax.ALL_FINITE, lambda v: np.bool_(np.isfinite(v).all()), (x,), check=False
    )
    if not bool(finite):
        why = f"{name} of NaN or infinity, which LAPACK may never return from"
        x.recorder.raised(ValueError(why), decided=True)
        raise TraceError(why)


_OF_SIZES = frozenset(f"numpy.{n}" for n in "zeros ones full empty arange eye identity tri".split())
"""Functions that make arrays of the sizes that they are given."""


def _of_sizes(recorder: Recorder, function: Any, args: tuple, kwargs: dict) -> Any:
    """An array whose size depends on the slice."""
    _ask_sizes(recorder, function, (args, kwargs))
    if function is np.empty:
        return recorder.empty(recorder.real(lambda: np.empty(*values(args), **values(kwargs))))
    made = recorder.real(lambda: function(*values(args), **values(kwargs)))
    return Tracer(recorder, made, None)


def _ask_sizes(recorder: Recorder, function: Any, tree: Any) -> None:
    """Slices with other sizes take other paths."""
    for x in tracers(tree):
        if isinstance(x, Tracer) and x.ref is None:
            continue
        if (
            not isinstance(x, Tracer)
            or np.asarray(x.value).dtype.kind not in "iu"
            or np.ndim(x.value)
        ):
            raise recorder.refuse(f"{public_name(function)} of what is no whole number")
        recorder.ask(x, int(x.value))


def public_name(function: Any) -> str:
    """The name of a library's function, without the private modules that it is written in."""
    module = [p for p in str(function.__module__).split(".") if not p.startswith("_")]
    name = function.__name__
    while len(module) > 1:
        above = sys.modules.get(".".join(module[:-1]))
        if getattr(above, name, None) is not function:
            break
        module.pop()
    return ".".join([*module, name])


def _selected(x: Any) -> bool:
    return isinstance(x, (ragged.Selected, ragged.SelectedRows))


def _copyto(recorder: Recorder, dst: Any, src: Any, where: Any = True) -> None:
    if not isinstance(dst, Tracer) or not isinstance(dst.value, np.ndarray):
        raise recorder.refuse("numpy.copyto into something that is not an array")
    src = as_array(recorder, src)
    recorder.real(lambda: np.copyto(dst.value.copy(), values(src), where=values(where)))
    if where is True:
        setitem(dst, Ellipsis, src if np.ndim(values(src)) else src.reshape(()))
        return
    wide = function_call(recorder, np.where, (as_array(recorder, where), src, dst), {})
    setitem(dst, Ellipsis, wide)

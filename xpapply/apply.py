"""apply_along_axis: look, plan, run."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from . import arrays, frontends
from .errors import InputError
from .ir.avals import ShapeDtype
from .loop.arguments import Arguments, Looped
from .planning.application import Application, shown
from .planning.direct import directly
from .planning.plan import Plan, of_graph

if TYPE_CHECKING:
    from .ir.graph import Graph
    from .planning.adapters import Adapted

_MISSING: Any = inspect.Parameter.empty  # so that signatures show parameters without a default


def apply_along_axis(
    f: Callable[..., Any] = _MISSING,
    /,
    axis: int | tuple[int, ...] = _MISSING,
    arr: Any = _MISSING,
    *args: Any,
    **kwargs: Any,
) -> Any:
    """Apply a function to the 1-D slices of an array along an axis.

    A drop-in for `numpy.apply_along_axis` and `cupy.apply_along_axis`: the same
    result, on the library and device where `arr` lives, without a Python loop
    wherever xpapply can tell what `f` does.

    Parameters
    ----------
    f : callable (M,) -> (Nj...)
        A function of one slice: a trained ``torch.nn.Module`` (or a method of
        one, or a `functools.partial`), an `xpapply.MLP`, any Python function. Also a fitted
        estimator of scikit-learn, or a method of one, which takes the slice as one sample.
        As a keyword it is ``f``, or ``func1d`` as in NumPy and CuPy.
    axis : int or tuple of int
        The axis that the slices run along. With several, `f` gets slices with as many dims, in
        this order, and results stand where the first of them was. The dims of labelled arrays
        also go by their names.
    arr : array_like (Ni..., M, Nk...)
        A NumPy, CuPy or torch array, any array of the array API standard, or nested lists. Also
        xarray's DataArray and Dataset, and pandas' DataFrame and Series: `f` gets the slices of
        the array inside, and the result has their labels. Of dask arrays each chunk runs when
        dask computes it. Arrays of zarr and h5py are read block by block.
    *args, **kwargs
        Passed on to `f`, as NumPy does, but for a few names, unless `f` has parameters of these
        names. ``out=`` is an array that gets the results: one in memory, or one in a file
        (`numpy.memmap`, zarr, h5py, or anything with a shape, a dtype and blocks that can be set),
        into which they are written block by block, see `options` for ``memory`` and ``resume``.
        For dask arrays, and arrays in files, ``dtype=`` and ``shape=`` say what a result is.

    Returns
    -------
    array (Ni..., Nj..., Nk...)
        Of the library and on the device of `arr`; or `out`, where that was given. A network
        computes and returns in the dtype of its parameters; other functions return what the
        first slice's result says.

    Raises
    ------
    numpy.exceptions.AxisError
        If `axis` is out of range.
    TypeError
        If `f` is not a function, or `axis` neither an integer nor a tuple of them, with what was
        found.
    ValueError
        If any other dimension has length 0, as NumPy does.
    InputError
        For a network with the wrong number of features, in training mode (Dropout,
        BatchNorm), or with arguments on another device.
    UnsupportedError
        Under ``options(fallback="raise")``, if only the loop could run.
    Exception
        What `f` raises, with a note (``add_note``) that says at which slice.

    Warns
    -----
    FallbackWarning
        Once per function that runs slice by slice, with the reason.

    See Also
    --------
    explain : What would run, and why.
    options : Threads, fallback, engine.

    Examples
    --------
    >>> import numpy as np, xpapply
    >>> net = xpapply.MLP([[[1.0, 1.0, 1.0]]], [[0.5]])
    >>> rgb = np.arange(12, dtype=np.uint8).reshape(2, 2, 3)
    >>> xpapply.apply_along_axis(net, -1, rgb)[..., 0]
    array([[ 3.5, 12.5],
           [21.5, 30.5]])

    Any other function gives what it gives under NumPy:

    >>> xpapply.apply_along_axis(sorted, 1, [[8, 1, 7], [4, 3, 9]])
    array([[1, 7, 8],
           [3, 4, 9]])

    Patches instead of vectors:

    >>> patches = np.arange(24).reshape(2, 3, 4)
    >>> xpapply.apply_along_axis(lambda p: p.max() - p.mean(), (1, 2), patches)
    array([5.5, 5.5])
    """
    if f is not _MISSING and (found := directly(f, axis, arr, args, kwargs)) is not None:
        return found
    if type(arr) is not np.ndarray and (device := arrays.elsewhere(arr)) is not None:
        with device:
            return apply_along_axis(f, axis, arr, *args, **kwargs)
    app = _asked(f, axis, arr, args, kwargs)
    if app.f is not f:  # it was named, or stands for a method: how that ran may be known
        return apply_along_axis(app.f, axis, arr, *args, **app.kwargs)
    return _adapted(app).results()


def _adapted(app: Application) -> Adapted:
    """Adapt an application; the adapters are loaded on the first call."""
    global _adapted
    from .planning import adapters

    _adapted = adapters.adapted
    return _adapted(app)


def explain(
    f: Callable[..., Any] = _MISSING,
    /,
    axis: int | tuple[int, ...] = _MISSING,
    arr: Any = _MISSING,
    *args: Any,
    **kwargs: Any,
) -> Plan:
    """The plan of ``apply_along_axis(f, axis, arr, *args, **kwargs)``: what would run, and why.

    Parameters
    ----------
    f, axis, arr, *args, **kwargs
        As for `apply_along_axis`. No result is computed; a Python function runs for the
        first slice, and if it decides by the data for some of those that decide otherwise.
    compare : bool, optional
        Whether each way that can run `f`, the loop too, is timed on some of the slices (up to
        4,096) of an array in memory. They are called for it. Belongs to `f` if that has such a
        parameter.

    Returns
    -------
    Plan
        Print it; it also has `engine`, `vectorized`, `reasons`, `kernels`,
        `out_shape`, `out_dtype` and `to_dict`.

    Raises
    ------
    InputError, TypeError, ValueError
        Where `apply_along_axis` would raise them.

    Examples
    --------
    >>> import numpy as np, xpapply
    >>> net = xpapply.MLP([np.ones((4, 8), np.float32)])
    >>> p = xpapply.explain(net, -1, np.zeros((10, 20, 8), np.float32))
    >>> p.vectorized, p.out_shape, p.out_dtype
    (True, (10, 20, 4), 'float32')
    >>> xpapply.explain(np.median, -1, np.zeros((1000, 8))).kernels
    ('in blocks of slices: numpy.median',)
    >>> xpapply.explain(set, -1, np.zeros((10, 8))).reasons
    ('it returns set; return a number, an array or a list of numbers',)
    """
    app, compare = _asked(f, axis, arr, args, kwargs), False
    if "compare" in kwargs:
        from .loop.vectorize import not_parameters

        if not_parameters(app.f, ("compare",)):
            compare = app.kwargs.pop("compare")
    found = _adapted(app)
    plan = found.plan()
    return replace(plan, compared=found.compared()) if compare else plan


def lift(f: Callable[..., Any], slice_shape: tuple[Any, ...], dtype: Any = "float32") -> Graph:
    """The graph of what `f` does to one slice.

    Parameters
    ----------
    f : callable
        A function that xpapply can lift: a torch module, an `MLP`, a Python function without
        branches whose calls all have an op. Also an `xpapply.vectorize` of one.
    slice_shape : tuple of int, or tuple of them
        Shape of a slice, ``(M,)``; of a function of several arrays one for each.
    dtype : dtype or str, or tuple of them, optional
        dtype of a slice, or of each.

    Returns
    -------
    Graph
        Print it to read it.

    Raises
    ------
    UnsupportedError
        If `f` cannot be lifted; the message says why.

    Examples
    --------
    >>> import xpapply
    >>> print(xpapply.lift(xpapply.MLP([[[1.0, 2.0]]]), (2,), "float64"))
    %0: float64[2] = input
    %1: float64[1,2] = const k=0
    %2: float64[1] = einsum %1 %0 subscripts=nm,m->n
    return %2
    >>> print(xpapply.lift(lambda a, w: (a * w).sum(), ((3,), (3,)), "float64"))
    %0: float64[3] = input k=0
    %1: float64[3] = input k=1
    %2: float64[3] = multiply %0 %1
    %3: float64[] = sum %2 axis=(0,) keepdims=False
    return %3
    """
    f = frontends.as_function(f)
    if not callable(f):
        raise TypeError(_no_function(f))
    if not isinstance(slice_shape, (tuple, list)):
        raise TypeError(f"slice_shape={shown(slice_shape)}: give a tuple, as in (8,) or (28, 28)")
    if _is_vectorize(f) or any(isinstance(n, (tuple, list)) for n in slice_shape):
        return _lift_several(f, slice_shape, dtype)
    from .planning import lifting

    return lifting.of_slice(f, ShapeDtype(tuple(slice_shape), _dtype_name(dtype)))


def _is_vectorize(f: Any) -> bool:
    """Whether it is an `xpapply.vectorize`, which this module does not load."""
    made = sys.modules.get(f"{__package__}.vectorized")
    return made is not None and isinstance(f, made.vectorize)


def _lift_several(f: Any, shapes: tuple[Any, ...], dtypes: Any) -> Graph:
    """The graph of a function of slices of several arrays."""
    from .loop.signature import Signature, resolve
    from .planning import lifting

    shapes = tuple(map(tuple, shapes))
    each = dtypes if isinstance(dtypes, (tuple, list)) else (dtypes,) * len(shapes)
    if len(each) != len(shapes):
        raise InputError(f"{len(shapes)} shapes of slices, {len(each)} dtypes: give one for each")
    avals = tuple(ShapeDtype(s, _dtype_name(d)) for s, d in zip(shapes, each, strict=True))
    numbers, dims = False, None
    if _is_vectorize(f):
        f, numbers, core = f.pyfunc, f.signature is None, f._core
        dims = resolve(core or Signature(((),) * len(shapes), ((),)), shapes)
        if dims.loop:
            raise InputError(f"slices of shapes {shapes} have more dims than {dims.signature}")
    outputs = () if dims is None else dims.signature.outputs
    results = len(outputs) if len(outputs) > 1 else 0
    places = tuple(map(Looped, range(len(avals))))
    return lifting.of_call(f, avals, Arguments(places, {}, numbers=numbers, results=results), dims)


def compile(f: Callable[..., Any], slice_shape: tuple[Any, ...], dtype: Any = "float32") -> Plan:
    """A plan for slices of one shape and dtype, for arrays of any library and size.

    The plan holds a snapshot of the weights and can be pickled, so it can be
    sent to other processes, where the model's own library is not needed.

    Parameters
    ----------
    f : callable
        A function that xpapply can lift: a torch module, an `MLP`, a Python function without
        branches whose calls all have an op. Also an `xpapply.vectorize` of one.
    slice_shape : tuple of int, or tuple of them
        Shape of a slice, ``(M,)``; of a function of several arrays one for each.
    dtype : dtype or str, or tuple of them, optional
        dtype of the arrays that the plan will get, or of each.

    Returns
    -------
    Plan
        Call it as ``plan(arr, axis)``: by default along the last axis, or as many of them as a
        slice has; of several arrays as ``plan(a, b)``, with their core dims last.

    Raises
    ------
    UnsupportedError
        If `f` cannot be lifted; the message says why.

    Examples
    --------
    >>> import numpy as np, pickle, xpapply
    >>> p = xpapply.compile(xpapply.MLP([[[1.0, 2.0]]]), (2,), "float64")
    >>> pickle.loads(pickle.dumps(p))(np.array([[1.0, 1.0], [0.0, 2.0]]))
    array([[3.],
           [4.]])
    >>> p = xpapply.compile(lambda a, w: (a * w).sum(), ((2,), (2,)), "float64")
    >>> p(np.ones((4, 2)), np.array([1.0, 5.0]))
    array([6., 6., 6., 6.])
    """
    from .ir.rewrite import compact, fold

    graph = compact(fold(lift(f, slice_shape, dtype)))
    if _is_vectorize(f):
        made: Any = f
        return of_graph(frontends.name_of(made.pyfunc), graph, made.signature or "")
    several = any(isinstance(n, (tuple, list)) for n in slice_shape)
    return of_graph(frontends.name_of(f), graph, "" if several else None)


def _dtype_name(dtype: Any) -> str:
    name = str(dtype).rpartition(".")[2]
    if name == "bfloat16" or "torch" in str(dtype):
        return name
    try:
        return np.dtype(dtype).name
    except TypeError as error:
        raise TypeError(f"dtype={dtype!r}: {error}. Give one such as 'float32'") from None


# --- what a call gave by other names, or in another order ---------------------------------

_ORDER = "the order is f, axis, arr"


def _asked(f: Any, axis: Any, arr: Any, args: tuple, kwargs: dict) -> Application:
    """The application of a call, which may name `f`; its other keywords are left to `f`.

    As in NumPy, ``apply_along_axis(g, 0, arr, f=1)`` is for ``g(v, f=1)``, and so is
    ``apply_along_axis(func1d=g, axis=0, arr=arr, f=1)``.

    Raises
    ------
    TypeError
        If `f` is no function or given twice, or an argument is missing, or stands in the place of
        another one.
    """
    if f is not _MISSING:
        if "func1d" in kwargs:
            raise TypeError("f is given twice: by position and as func1d=")
        if not callable(function := frontends.as_function(f)):
            raise TypeError(_no_function(f, axis, arr))
        _check_order(function, axis, arr, kwargs)
        return Application(function, axis, arr, args, kwargs)
    for name in ("func1d", "f"):
        if name in kwargs:
            f = frontends.as_function(kwargs.pop(name))
            break
    _check_order(f, axis, arr, kwargs)
    if not callable(f):
        raise TypeError(_no_function(f, axis, arr))
    return Application(f, axis, arr, args, kwargs)


def _check_order(f: Any, axis: Any, arr: Any, named: Iterable[str] = ()) -> None:
    """Raise `TypeError` where an argument is missing, or stands in the place of another one."""
    if f is _MISSING or axis is _MISSING or arr is _MISSING:
        missing = [n for n, x in (("f", f), ("axis", axis), ("arr", arr)) if x is _MISSING]
        others = f"; found others: {', '.join(named)}" if named else ""
        raise TypeError(f"{_ORDER}; missing: {', '.join(missing)}{others}")
    swapped = callable(axis) or (hasattr(axis, "shape") and isinstance(arr, (int, np.integer)))
    no_array = callable(arr) and not hasattr(arr, "__array__") and arrays.library(arr) is None
    if swapped or no_array:
        raise TypeError(f"{_ORDER}; found axis={shown(axis)}, arr={shown(arr)}")


def _no_function(f: Any, axis: Any = None, arr: Any = None) -> str:
    """The message for an `f` that is no function, with advice."""
    text = f"f is not a function: found {shown(f)}"
    if callable(axis) or callable(arr):
        return f"{text}; {_ORDER}"
    if isinstance(f, str) and callable(getattr(np, f, None)):
        return f"{text}. Pass the function itself: np.{f}"
    if isinstance(f, (str, os.PathLike)) and os.path.splitext(f)[1]:
        return f"{text}. A model in a file is loaded first: xpapply.load_model({os.fspath(f)!r})"
    if isinstance(f, (int, float, complex)) or arrays.library(f) is not None:
        return f"{text}. Pass the function itself, not what it returns"
    from .functions import advice  # which few need

    line = advice.for_model(f)
    return f"{text}: {line}" if line else text

"""apply_along_axis: look, plan, run."""

from __future__ import annotations

import inspect
import math
import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from . import arrays, config, frontends, labelled, storage
from .errors import InputError, TraceError, add_note
from .functions import advice
from .ir.avals import ShapeDtype
from .limits import LIMITS
from .loop import reference
from .loop.arguments import Arguments, Looped
from .planning.fallback import announce
from .planning.plan import Plan, PlanOfSeveral, of_graph, of_several_graph

if TYPE_CHECKING:
    from .ir.graph import Graph

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
    if type(arr) is not np.ndarray and (device := arrays.elsewhere(arr)) is not None:
        with device:
            return apply_along_axis(f, axis, arr, *args, **kwargs)
    python = frontends.is_python(f)
    if not python and not args and not kwargs:
        result = _again(f, axis, arr)
        if result is not None:
            return result
    if f is _MISSING or not callable(f) or "func1d" in kwargs:
        return apply_along_axis(*_by_name(f, axis, arr, args, kwargs), **kwargs)
    now = config.current()
    python = python and not now.engine
    if "out" in kwargs or now.device or (type(arr) is not np.ndarray and storage.is_stored(arr)):
        from .planning.chunked import streamed  # and with it what reads and writes files

        kwargs, out = streamed.own_out(f, kwargs)
        if streamed.applies(arr, out):
            p, arr = _in_blocks(f, axis, arr, args, kwargs, out)
            return p(arr, p.axis)
        arr = streamed.whole(arr)
        if out is not None:
            from .arrays import outputs

            streamed.check_in_memory(arr, out)
            outputs.write_into(out, apply_along_axis(f, axis, arr, *args, **kwargs), "out")
            return out
    if python and type(arr) is np.ndarray and type(axis) is int:
        ndim = arr.ndim
        if not -ndim <= axis < ndim:
            arrays.normalize_axis_index(axis, ndim)  # raises
        return _call_python(f, axis % ndim, arr, args, kwargs)
    if (wing := labelled.wing(arr)) is not None:
        _check_order(f, axis, arr, kwargs)
        run = lambda x, a: apply_along_axis(f, a, x, *args, **kwargs)  # noqa: E731
        return wing.along(run, arr, axis, config.current().output_dims)
    if python and not isinstance(axis, tuple) and arrays.library(arr) in (None, "numpy"):
        return _unusual(f, axis, arr, args, kwargs)
    if arrays.library(arr) == "dask":
        p = _blockwise(f, axis, arr, args, kwargs, tell=True)
        return p(arr, p.axis)
    if isinstance(axis, tuple):
        along = _along_axes(f, axis, arr, args, kwargs)
        if along is not None:
            return along.results()
        return apply_along_axis(f, axis[0], arr, *args, **kwargs)
    arr, axis = _look(f, axis, arr)
    from .planning import first_calls, planner

    if not args and not kwargs and (result := first_calls.result(f, axis, arr)) is not None:
        return result
    p = planner.plan(f, axis, arr, args, kwargs)
    if not p.vectorized:
        announce(f, p.slices or 0, "; ".join(p.reasons), arr)
    return p(arr, axis)


def _again(f: Any, axis: Any, arr: Any) -> Any:
    """The result of a repeated call of a network, None where there is more to do."""
    global _again
    from .planning import planner  # no Python function needs it

    _again = planner.again
    return _again(f, axis, arr)


def _call_python(f: Any, axis: int, arr: Any, args: tuple, kwargs: dict) -> Any:
    """A Python function on a NumPy array.

    The tracer takes 30 ms to load: it is for the first array with more than a few
    slices, not for networks.
    """
    global _call_python
    if _TRACER not in sys.modules and math.prod(arr.shape) <= LIMITS.few_slices * arr.shape[axis]:
        if config.current().fallback != "raise":
            return reference.apply(f, axis, arr, args, kwargs)
    from .planning.python import python_functions

    _call_python = python_functions.call
    return _call_python(f, axis, arr, args, kwargs)


_TRACER = f"{__package__}.planning.python.python_functions"


def _along_axes(f: Any, axis: tuple[Any, ...], arr: Any, args: tuple, kwargs: dict) -> Any:
    """What applies `f` to slices along several axes; None: they are one."""
    from .planning.flat_slices import FlatSlices, reshaped
    from .planning.python.several_arrays import AlongAxes

    _check_order(f, axis, arr, kwargs)
    if arrays.library(arr) is None or isinstance(arr, np.generic):
        arr = np.asanyarray(arr)
    axes = _axes_of(axis, arr)
    if len(axes) < 2:
        return None
    python, flatten, why = frontends.is_python(f), frontends.find(f).flattened, ""
    if python and arrays.library(arr) == "jax" and not config.current().engine:
        flatten = reshaped  # what runs there takes slices with one axis
    if 0 not in arr.shape:
        try:
            flat = flatten(f, tuple(arr.shape[a] for a in axes), arrays.dtype_name(arr))
            found = None if flat is None else FlatSlices(f, flat, axes, arr, args, kwargs)
        except TraceError as error:
            found, why = None, str(error)
        if found is not None:
            if found.network.vectorized:
                return found
            why = "; ".join(found.network.reasons)
    return AlongAxes(f, axes, arr, args, kwargs, why)


def _axes_of(axis: tuple[Any, ...], arr: Any) -> tuple[int, ...]:
    """Several axes, as numbers from 0."""
    axes = tuple(_axis_of(arr, a, len(arr.shape)) for a in axis)
    if not axes:
        raise ValueError("axis=() names no axis: give an integer, or a tuple of integers")
    if len(set(axes)) < len(axes):
        raise ValueError(f"axis={axis} names an axis twice")
    return axes


def _in_blocks(
    f: Any, axis: Any, arr: Any, args: tuple, kwargs: dict, out: Any
) -> tuple[Plan, Any]:
    """The plan for an array in a file, or for results that go into one; and the array."""
    from .planning.chunked import streamed

    _check_order(f, axis, arr, kwargs)
    if labelled.wing(arr) is not None:
        raise InputError(
            "out= in a file and device= are for arrays without labels: give the array inside, "
            "da.data or df.to_numpy()"
        )
    if not storage.is_stored(arr) and arrays.library(arr) is None:
        arr = np.asanyarray(arr)
    axes = _axes_of(axis if isinstance(axis, tuple) else (axis,), arr)
    along = axes if len(axes) > 1 else axes[0]
    return streamed.plan(apply_along_axis, f, along, arr, args, kwargs, out), arr


def _blockwise(f: Any, axis: Any, arr: Any, args: tuple, kwargs: dict, *, tell: bool) -> Plan:
    """The plan for an array of dask."""
    from .planning.chunked import blockwise

    _check_order(f, axis, arr, kwargs)
    axes = _axes_of(axis if isinstance(axis, tuple) else (axis,), arr)
    along = axes if len(axes) > 1 else axes[0]
    return blockwise.plan(apply_along_axis, f, along, arr, args, kwargs, tell=tell)


def explain(
    f: Callable[..., Any] = _MISSING,
    /,
    axis: int | tuple[int, ...] = _MISSING,
    arr: Any = _MISSING,
    *args: Any,
    **kwargs: Any,
) -> Plan:
    """What ``apply_along_axis(f, axis, arr, *args, **kwargs)`` would run, and why.

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
    if (device := arrays.elsewhere(arr)) is not None:
        with device:
            return explain(f, axis, arr, *args, **kwargs)
    if f is _MISSING or not callable(f) or "func1d" in kwargs:
        return explain(*_by_name(f, axis, arr, args, kwargs), **kwargs)
    if "compare" in kwargs:
        from .loop.vectorize import not_parameters

        if not_parameters(f, ("compare",)) and kwargs.pop("compare"):
            return _compared(f, axis, arr, args, kwargs)
    if "out" in kwargs or config.current().device or storage.is_stored(arr):
        from .planning.chunked import streamed

        kwargs, out = streamed.own_out(f, kwargs)
        if streamed.applies(arr, out):
            return _in_blocks(f, axis, arr, args, kwargs, out)[0]
        arr = streamed.whole(arr)
    if (wing := labelled.wing(arr)) is not None:
        arr, axis = wing.inside(arr, axis)
    if arrays.library(arr) == "dask":
        return _blockwise(f, axis, arr, args, kwargs, tell=False)
    if isinstance(axis, tuple):
        along = _along_axes(f, axis, arr, args, kwargs)
        if along is not None:
            return along.plan(frontends.name_of(f))  # type: ignore[no-any-return]
        axis = axis[0]
    arr, axis = _look(f, axis, arr)
    from .planning import planner

    p = planner.plan(f, axis, arr, args, kwargs)
    return replace(p, _of=f)  # what is remembered does not keep f alive, what is asked for does


def _compared(f: Any, axis: Any, arr: Any, args: tuple, kwargs: dict) -> Plan:
    """The plan, and what each way takes."""
    from .planning import compared

    plan = explain(f, axis, arr, *args, **kwargs)
    if plan.engine == "stream" or arrays.library(arr) == "dask":
        raise InputError("compare=True is for arrays in memory: give a part of this one")
    if (wing := labelled.wing(arr)) is not None:
        arr, axis = wing.inside(arr, axis)
    if arrays.library(arr) is None:
        arr = np.asanyarray(arr)
    if not isinstance(axis, tuple):
        axis = arrays.normalize_axis_index(axis, arr.ndim)
    else:
        axis = tuple(arrays.normalize_axis_index(a, arr.ndim) for a in axis)
    return replace(plan, compared=compared.compare(apply_along_axis, f, axis, arr, (args, kwargs)))


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
        raise TypeError(f"slice_shape={_shown(slice_shape)}: give a tuple, as in (8,) or (28, 28)")
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
    if _is_vectorize(f) or any(isinstance(n, (tuple, list)) for n in slice_shape):
        return _compiled_several(f, graph)
    return of_graph(frontends.name_of(f), graph)


def _compiled_several(f: Callable[..., Any], graph: Graph) -> PlanOfSeveral:
    """A plan that calls nothing but the graph."""
    if _is_vectorize(f):
        made: Any = f
        return of_several_graph(frontends.name_of(made.pyfunc), graph, made.signature or "")
    return of_several_graph(frontends.name_of(f), graph, "")


def _dtype_name(dtype: Any) -> str:
    name = str(dtype).rpartition(".")[2]
    if name == "bfloat16" or "torch" in str(dtype):
        return name
    try:
        return np.dtype(dtype).name
    except TypeError as error:
        raise TypeError(f"dtype={dtype!r}: {error}. Give one such as 'float32'") from None


def _look(f: Any, axis: int, arr: Any) -> tuple[Any, int]:
    _check_order(f, axis, arr)
    if arrays.library(arr) is None or isinstance(arr, np.generic):
        array = np.asanyarray(arr)
        return array, _axis_of(arr, axis, array.ndim)
    return arr, arrays.normalize_axis_index(axis, arr.ndim)


def _axis_of(given: Any, axis: Any, ndim: int) -> int:
    """The axis; where NumPy makes no array of what was `given`, the error says so."""
    try:
        return arrays.normalize_axis_index(axis, ndim)
    except np.exceptions.AxisError as error:
        if ndim == 0:
            add_note(error, f"arr is neither an array nor a list: found {_shown(given)}")
        raise


def _unusual(f: Any, axis: int, arr: Any, args: tuple, kwargs: dict) -> Any:
    """A Python function on lists, subclasses of ndarray, or along an axis that is no int."""
    _check_order(f, axis, arr, kwargs)
    array = np.asanyarray(arr)
    axis = _axis_of(arr, axis, array.ndim)
    if type(array) in (np.ndarray, np.memmap) and 0 not in array.shape and array.ndim:
        return _call_python(f, axis, array, args, kwargs)
    return reference.apply(f, axis, arr, args, kwargs)


# --- what a call gave by other names, or in another order ---------------------------------

_ORDER = "the order is f, axis, arr"


def _by_name(f: Any, axis: Any, arr: Any, args: tuple, kwargs: dict) -> tuple[Any, ...]:
    """The arguments of a call that names `f`, which is taken from `kwargs`.

    As in NumPy, ``apply_along_axis(g, 0, arr, f=1)`` is for ``g(v, f=1)``, and so is
    ``apply_along_axis(func1d=g, axis=0, arr=arr, f=1)``.
    """
    if f is not _MISSING:
        if "func1d" in kwargs:
            raise TypeError("f is given twice: by position and as func1d=")
        if callable(function := frontends.as_function(f)):
            return function, axis, arr, *args
        raise TypeError(_no_function(f, axis, arr))
    for name in ("func1d", "f"):
        if name in kwargs:
            f = frontends.as_function(kwargs.pop(name))
            break
    _check_order(f, axis, arr, kwargs)
    if not callable(f):
        raise TypeError(_no_function(f, axis, arr))
    return f, axis, arr, *args


def _check_order(f: Any, axis: Any, arr: Any, named: Iterable[str] = ()) -> None:
    """Raise `TypeError` where an argument is missing, or stands in the place of another one."""
    missing = [n for n, x in (("f", f), ("axis", axis), ("arr", arr)) if x is _MISSING]
    if missing:
        others = f"; found others: {', '.join(named)}" if named else ""
        raise TypeError(f"{_ORDER}; missing: {', '.join(missing)}{others}")
    swapped = callable(axis) or (hasattr(axis, "shape") and isinstance(arr, (int, np.integer)))
    no_array = callable(arr) and not hasattr(arr, "__array__") and arrays.library(arr) is None
    if swapped or no_array:
        raise TypeError(f"{_ORDER}; found axis={_shown(axis)}, arr={_shown(arr)}")


def _no_function(f: Any, axis: Any = None, arr: Any = None) -> str:
    """What is wrong with `f`, and what to do."""
    text = f"f is not a function: found {_shown(f)}"
    if callable(axis) or callable(arr):
        return f"{text}; {_ORDER}"
    if isinstance(f, str) and callable(getattr(np, f, None)):
        return f"{text}. Pass the function itself: np.{f}"
    if isinstance(f, (str, os.PathLike)) and os.path.splitext(f)[1]:
        return f"{text}. A model in a file is loaded first: xpapply.load_model({os.fspath(f)!r})"
    if isinstance(f, (int, float, complex)) or arrays.library(f) is not None:
        return f"{text}. Pass the function itself, not what it returns"
    line = advice.for_model(f)
    return f"{text}: {line}" if line else text


def _shown(x: Any) -> str:
    """`x` in a message: arrays by shape, others by their name or class."""
    if hasattr(x, "shape"):
        return arrays.describe(x)
    if x is None or isinstance(x, (str, int, float, complex)):
        return repr(x)
    if isinstance(x, (list, tuple, dict, set)):
        return f"a {type(x).__name__} of {len(x)}"
    if callable(x):
        return f"the function {frontends.name_of(x)}"
    return f"an object of class {type(x).__qualname__}"

"""apply_along_axis: look, plan, run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from . import frontends, namespace, planner
from .ir.graph import Graph, ShapeDtype
from .ir.rewrite import compact, fold
from .plan import Plan


def apply_along_axis(f: Callable[..., Any], axis: int, arr: Any, *args: Any, **kwargs: Any) -> Any:
    """Apply a function to the 1-D slices of an array along an axis.

    A drop-in for `numpy.apply_along_axis` and `cupy.apply_along_axis`: the same
    result, on the library and device where `arr` lives, without a Python loop
    wherever xpapply can tell what `f` does.

    Parameters
    ----------
    f : callable (M,) -> (Nj...)
        A function of one slice: a trained ``torch.nn.Module`` (or a method of
        one, or a `functools.partial`), an `xpapply.MLP`, any Python function.
    axis : int
        The axis that the slices run along.
    arr : array_like (Ni..., M, Nk...)
        A NumPy, CuPy or torch array, any array of the array API standard, or nested lists.
    *args, **kwargs
        Passed on to `f`, as NumPy does.

    Returns
    -------
    array (Ni..., Nj..., Nk...)
        Of the library and on the device of `arr`. A network computes and
        returns in the dtype of its parameters; other functions return what the
        first slice's result says.

    Raises
    ------
    numpy.exceptions.AxisError
        If `axis` is out of range.
    ValueError
        If any other dimension has length 0, as NumPy does.
    InputError
        For a network with the wrong number of features, in training mode (Dropout,
        BatchNorm), or with arguments on another device.
    UnsupportedError
        Under ``options(fallback="raise")``, if only the loop could run.

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
    """
    frontend = frontends.find(f)
    if frontend is not None and not args and not kwargs:
        result = planner.again(f, axis, arr)
        if result is not None:
            return result
    if type(arr) is np.ndarray and type(axis) is int and frontend is None:
        ndim = arr.ndim
        if not -ndim <= axis < ndim:
            return np.apply_along_axis(f, axis, arr, *args, **kwargs)  # raises
        return planner.python_function(f, axis % ndim, arr, args, kwargs)
    if frontend is None and namespace.library(arr) in (None, "numpy"):
        return _unusual(f, axis, arr, args, kwargs)
    arr, axis = _look(axis, arr)
    p = planner.plan(f, axis, arr, args, kwargs)
    if not p.vectorized:
        planner.announce(f, p)
    return p(arr, axis)


def explain(f: Callable[..., Any], axis: int, arr: Any, *args: Any, **kwargs: Any) -> Plan:
    """What ``apply_along_axis(f, axis, arr, *args, **kwargs)`` would run, and why.

    Parameters
    ----------
    f, axis, arr, *args, **kwargs
        As for `apply_along_axis`. No result is computed; a Python function runs for the
        first slice.

    Returns
    -------
    Plan
        Print it; it also has `engine`, `vectorized`, `reasons`, `kernels`,
        `out_shape`, `out_dtype` and `to_dict`.

    Raises
    ------
    InputError, ValueError
        Where `apply_along_axis` would raise them.

    Examples
    --------
    >>> import numpy as np, xpapply
    >>> net = xpapply.MLP([np.ones((4, 8), np.float32)])
    >>> p = xpapply.explain(net, -1, np.zeros((10, 20, 8), np.float32))
    >>> p.vectorized, p.out_shape, p.out_dtype
    (True, (10, 20, 4), 'float32')
    >>> xpapply.explain(np.median, -1, np.zeros((10, 8))).kernels
    ('in blocks of slices: numpy.median',)
    >>> xpapply.explain(set, -1, np.zeros((10, 8))).reasons
    ('the hash of a value that depends on the slice (...)',)
    """
    arr, axis = _look(axis, arr)
    return planner.plan(f, axis, arr, args, kwargs)


def lift(f: Callable[..., Any], slice_shape: tuple[int, ...], dtype: Any = "float32") -> Graph:
    """The graph of what `f` does to one slice.

    Parameters
    ----------
    f : callable
        A function that xpapply can lift: a torch module, an `MLP`, a Python function without
        branches whose calls all have an op.
    slice_shape : tuple of int
        Shape of a slice, ``(M,)``.
    dtype : dtype or str, optional
        dtype of a slice.

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
    """
    frontend = frontends.find(f)
    if frontend is None:
        return planner.function_graph(f, ShapeDtype(tuple(slice_shape), _dtype_name(dtype)))
    graph: Graph = frontend.lift(f, ShapeDtype(tuple(slice_shape), _dtype_name(dtype)), (), {})
    return graph


def compile(f: Callable[..., Any], slice_shape: tuple[int, ...], dtype: Any = "float32") -> Plan:
    """A plan for slices of one shape and dtype, for arrays of any library and size.

    The plan holds a snapshot of the weights and can be pickled, so it can be
    sent to other processes, where the model's own library is not needed.

    Parameters
    ----------
    f : callable
        A function that xpapply can lift: a torch module, an `MLP`, a Python function without
        branches whose calls all have an op.
    slice_shape : tuple of int
        Shape of a slice, ``(M,)``.
    dtype : dtype or str, optional
        dtype of the arrays that the plan will get.

    Returns
    -------
    Plan
        Call it as ``plan(arr, axis=-1)``.

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
    """
    graph = compact(fold(lift(f, slice_shape, dtype)))
    return Plan(
        name=planner.name_of(f),
        engine="compiled",
        slice=graph.input,
        library="any",
        graph=graph,
        result=graph.result,
        kernels=("chosen by the array that the plan is called with",),
    )


def _dtype_name(dtype: Any) -> str:
    name = str(dtype).rpartition(".")[2]
    return name if name == "bfloat16" or "torch" in str(dtype) else np.dtype(dtype).name


def _look(axis: int, arr: Any) -> tuple[Any, int]:
    if namespace.library(arr) is None or isinstance(arr, np.generic):
        arr = np.asanyarray(arr)
    return arr, namespace.normalize_axis_index(axis, arr.ndim)


def _unusual(f: Any, axis: int, arr: Any, args: tuple, kwargs: dict) -> Any:
    """A Python function on lists, subclasses of ndarray, or along an axis that is no integer."""
    array = np.asanyarray(arr)
    if type(array) in (np.ndarray, np.memmap) and 0 not in array.shape and array.ndim:
        try:
            axis = namespace.normalize_axis_index(axis, array.ndim)
        except TypeError:
            pass
        else:
            return planner.python_function(f, int(axis), array, args, kwargs)
    return np.apply_along_axis(f, axis, arr, *args, **kwargs)

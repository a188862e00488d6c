"""`apply_along_axis` for packages written for any library of the array API standard.

`apply_along_axis` has the shape that array-api-extra proposes for its own, so that a package may
take either.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from .. import apply, arrays

__all__ = ["apply_along_axis"]


def apply_along_axis(
    func1d: Callable[..., Any],
    axis: int,
    arr: Any,
    *args: Any,
    xp: Any = None,
    **kwargs: Any,
) -> Any:
    """Apply a function to the 1-D slices of an array of any library, along an axis.

    `xpapply.apply_along_axis` with the names of arguments and the keyword ``xp`` that functions of
    array-api-extra have.

    Parameters
    ----------
    func1d : callable (M,) -> (Nj...)
        A function of one slice, which is an array of the library that `arr` is of. It returns an
        array of that library, of any number of dims, a number, or a list or tuple of those.
    axis : int
        The axis that the slices run along.
    arr : array (Ni..., M, Nk...)
        An array of NumPy, CuPy, torch, JAX, dask, array-api-strict, sparse or any other library
        that follows the standard. With `xp`, lists of numbers as well.
    *args, **kwargs
        Passed on to `func1d`. For arrays of dask ``dtype=`` and ``shape=`` say what a result
        is, unless it has parameters of these names.
    xp : namespace, optional
        The library of `arr`, which is known without it.

    Returns
    -------
    array (Ni..., Nj..., Nk...)
        Of the library and on the device of `arr`; lazy if that is.

    Raises
    ------
    TypeError
        If `xp` is another library than that of `arr`.
    InputError
        If a length of `arr` is not known before it is computed, as with arrays of ndonnx that
        stand for inputs of a model.
    Exception
        What `func1d` raises.

    Examples
    --------
    >>> import numpy as np
    >>> from xpapply.array_api import apply_along_axis
    >>> def share_of_first(v):
    ...     return v[0] / v.__array_namespace__().sum(v)
    >>> apply_along_axis(share_of_first, -1, np.asarray([[1.0, 3.0], [2.0, 2.0]]), xp=np)
    array([0.25, 0.5 ])
    """
    if xp is not None:
        arr = _of(xp, arr)
    return apply.apply_along_axis(func1d, axis, arr, *args, **kwargs)


def _of(xp: Any, arr: Any) -> Any:
    """An array of `xp`; TypeError where it is of another library.

    Namespaces that are no modules are wrappers, whose arrays may be of any library.
    """
    if isinstance(arr, (list, tuple)):
        return xp.asarray(arr)
    library = arrays.library(arr)
    # array_api_compat.torch, and copies of it inside other packages, are for arrays of torch
    name = xp.__name__.rpartition("array_api_compat.")[2] if isinstance(xp, ModuleType) else ""
    if library is not None and name and name.partition(".")[0] != library:
        raise TypeError(f"arr is of {library} ({arrays.describe(arr)}), but xp is {xp.__name__}")
    return arr

"""vectorize: a function of scalars, vectors or matrices, for whole arrays."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from . import arrays
from .bound_call import as_tuple, copied
from .core_dims import Dims, Places, Signature, core_at, core_last, places, resolve
from .errors import InputError
from .looped_call import (
    LoopedCall,
    OnError,
    filler,
    looped_call,
    not_parameters,
    note,
    of_numbers,
    of_slices,
)

_GUFUNC = ("axis", "axes", "keepdims", "out", "where", "fill", "dtype")
"""Keywords of a call that say how it is looped, unless `f` has parameters of these names."""

_SEVERAL = 2
"""Slices from which it is worth to look closer."""


class vectorize(np.vectorize):  # called as a function
    """Make a function of scalars or of core dims a function of whole arrays.

    A drop-in for `numpy.vectorize`, for arrays of every library.

    Parameters
    ----------
    pyfunc : callable
        Without `signature` a function of numbers. It gets Python's own, as from
        `numpy.vectorize`. With one it gets arrays of the core dims.
    otypes : str or list of dtypes, optional
        dtypes of the results. Otherwise those of the results for the first elements.
    doc : str, optional
        Docstring of the new function; that of `pyfunc` otherwise.
    excluded : set of str or int, optional
        Arguments, by name or position, that `pyfunc` gets as they are.
    cache : bool, optional
        Whether the first call, which tells how many results there are and their dtypes, is
        not repeated.
    signature : str, optional
        The core dims of arguments and results, such as ``"(m,n),(n)->(m)"``. A number fixes
        a size, ``?`` marks a dim that may be missing.
    on_error : {"raise", "fill", "warn"}, optional
        What to do where `pyfunc` raises: raise it, with a note that says at which index, or
        put `fill` there, silently or with a `RuntimeWarning` that says where.
    fill : number, optional
        What stands where nothing was computed (`where`, `on_error`). NaN by default,
        which only floating-point and complex results can hold.

    Returns
    -------
    callable
        A call broadcasts its arguments and returns an array, or a tuple of them. Besides the
        arguments of `pyfunc` it takes the keywords of generalized ufuncs, unless `pyfunc` has
        parameters of these names: ``axis``, ``axes`` and ``keepdims`` say where the core dims
        are; ``out`` gets the results; ``where``, booleans of the loop dims, says for which
        slices `pyfunc` is called, and ``fill`` what stands elsewhere; ``dtype`` is that of the
        results.

    Raises
    ------
    TypeError, ValueError
        As `numpy.vectorize` does: arguments whose number or shapes do not fit, results of
        another shape than promised, size 0 without `otypes`.
    Exception
        What `pyfunc` raises, with a note that says at which index.

    Notes
    -----
    Functions of numbers give no floating-point warnings where they run on all elements at once:
    Python's numbers have none. (`numpy.vectorize` tells of some, by the processor's flags.)

    See Also
    --------
    apply_along_axis : One array, one axis, any result.

    Examples
    --------
    >>> import numpy as np, xpapply
    >>> @xpapply.vectorize
    ... def positive_part(a, b):
    ...     return a - b if a > b else 0.0
    >>> positive_part([1.0, 5.0], 2.0)
    array([0., 3.])

    Functions of vectors; the dims before the core dims broadcast:

    >>> distance = xpapply.vectorize(lambda a, b: abs(a - b).max(), signature="(n),(n)->()")
    >>> distance(np.zeros((3, 1, 2)), np.eye(2)).shape
    (3, 2)
    >>> distance(np.zeros((2, 3)), np.ones((2, 3)), axis=0)
    array([1., 1., 1.])
    """

    def __init__(
        self,
        pyfunc: Any = np._NoValue,  # type: ignore[attr-defined]
        otypes: Any = None,
        doc: str | None = None,
        excluded: Iterable[int | str] | None = None,
        cache: bool = False,
        signature: str | None = None,
        *,
        on_error: str = "raise",
        fill: Any = None,
    ) -> None:
        if on_error not in ("raise", "fill", "warn"):
            raise ValueError(f"on_error={on_error!r}: use 'raise', 'fill' or 'warn'")
        super().__init__(pyfunc, otypes, doc, excluded, cache)
        self.signature = signature
        self._core = None if signature is None else Signature.parse(signature)
        self._on_error, self._fill = on_error, fill

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not callable(self.pyfunc):
            return super().__call__(*args, **kwargs)  # the decorator with keywords
        how = {}
        if kwargs:
            named = tuple(k for k in _GUFUNC if k in kwargs)
            how = {k: kwargs.pop(k) for k in not_parameters(self.pyfunc, named)}
        call, operands = looped_call(self.pyfunc, args, kwargs, self.excluded)
        return _Call(self, call, operands, **how).results()


class _Call:
    """One call: what its keywords say, and the way to the results."""

    def __init__(
        self,
        made: vectorize,
        call: LoopedCall,
        operands: list[Any],
        axis: Any = None,
        axes: Any = None,
        keepdims: bool = False,
        out: Any = None,
        where: Any = None,
        fill: Any = None,
        dtype: Any = None,
    ) -> None:
        self._made, self._call = made, call
        self._operands = [_as_array(x) for x in operands]
        arrays.get_array_module(*self._operands)  # raises for arrays of different libraries
        self._out = None if out is None else as_tuple(out)
        self._where = where
        self._on_error = OnError(made._on_error, made._fill if fill is None else fill)
        self._dtype = dtype
        self._places: Places | None = None
        signature = made._core
        if signature is None:
            if axis is not None or axes is not None or keepdims:
                raise TypeError(
                    "axis, axes and keepdims are for core dimensions: give vectorize a "
                    "signature, such as signature='(n)->()'"
                )
            signature = Signature(((),) * len(operands), ((),))
        else:
            ndims = [x.ndim for x in self._operands]
            if axis is not None or axes is not None or keepdims:
                self._places = places(signature, ndims, axis, axes, keepdims)
                moved = zip(self._operands, self._places.inputs, strict=True)
                self._operands = [core_last(x, own) for x, own in moved]
        self._dims = resolve(signature, [tuple(x.shape) for x in self._operands])

    def results(self) -> Any:
        """What the call returns."""
        if self._where is None:
            found = self._looped(self._operands, self._dims)
        else:
            found = self._of_some()
        several = isinstance(found, tuple)
        parts = [self._placed(k, x) for k, x in enumerate(as_tuple(found))]
        if self._out is not None:
            if len(self._out) != len(parts):
                raise ValueError(f"out has {len(self._out)} arrays, f {len(parts)} results")
            for k, (target, x) in enumerate(zip(self._out, parts, strict=True)):
                write_into(target, x, f"out[{k}]" if several else "out")
            parts = [*self._out]
        return tuple(parts) if several else parts[0]

    def _looped(self, operands: list[Any], dims: Dims) -> Any:
        """The results for all slices: one, or a tuple of them."""
        if not operands:
            return self._call() if self._made._core is None else self._by_loop(operands, dims)
        if self._on_error.how != "raise" or math.prod(dims.loop) < _SEVERAL:
            return self._by_loop(operands, dims)
        otypes = self._otypes(dims)
        numbers = self._made._core is None
        results = len(dims.signature.outputs)
        if numbers:
            if self._made.cache or any(type(x) is not np.ndarray for x in operands):
                return self._by_loop(operands, dims)
            if otypes is None:
                otypes, several = self._first(operands, dims)
            else:
                several = len(otypes) > 1
            results = len(otypes)
            dims = replace(dims, signature=Signature(dims.signature.inputs, ((),) * results))
        else:
            several = results > 1
        dtypes = None if otypes is None else tuple(np.dtype(d) for d in otypes)
        how = replace(
            self._call.arguments,
            numbers=numbers,
            results=results if several else 0,
            dtypes=dtypes,
        )
        call = replace(self._call, arguments=how)
        by_loop = partial(self._by_loop, operands, dims, otypes)
        return _at_once(call, operands, dims, by_loop)

    def _by_loop(self, operands: list[Any], dims: Dims, otypes: Any = None) -> Any:
        """The plain loop."""
        otypes = self._otypes(dims) if otypes is None else otypes
        if self._made._core is None:
            return of_numbers(self._call, operands, otypes, self._made.cache, self._on_error)
        found = of_slices(self._call, operands, dims, otypes, self._on_error)
        return found[0] if len(found) == 1 else found

    def _otypes(self, dims: Dims) -> Any:
        """The dtypes that results are asked to have."""
        if self._dtype is None:
            return self._made.otypes
        return [self._dtype] * len(dims.signature.outputs)

    def _first(self, operands: list[Any], dims: Dims) -> tuple[str, bool]:
        """What a call with NumPy's numbers tells, as in NumPy: dtypes of results, if several."""
        try:
            found = self._call(*(x.flat[0] for x in operands))
        except Exception as error:
            note(error, (0,) * len(dims.loop))
            raise
        several = isinstance(found, tuple)
        parts = found if several else (found,)
        return "".join(np.asarray(x).dtype.char for x in parts), several

    # --- where ------------------------------------------------------------------------------

    def _of_some(self) -> Any:
        """The results for the slices that `where` chooses; the others are not computed."""
        like = next((x for x in self._operands if arrays.library(x) != "numpy"), None)
        xp = arrays.compat(like)
        mask = self._where if arrays.library(self._where) else np.asarray(self._where)
        mask = mask if like is None else arrays.asarray(mask, like)
        if arrays.dtype_name(mask) != "bool":
            raise TypeError(f"where must be booleans: found {arrays.describe(mask)}")
        loop = np.broadcast_shapes(self._dims.loop, tuple(mask.shape))
        mask = xp.broadcast_to(mask, loop)
        chosen, shapes = [], []
        for k, x in enumerate(self._operands):
            core = self._dims.sizes.shape(self._dims.signature.inputs[k])
            chosen.append(xp.broadcast_to(x, loop + core)[mask])
            shapes.append(tuple(chosen[-1].shape))
        some = resolve(self._dims.signature, shapes)
        found = self._looped(chosen, some)
        self._dims.sizes.known.update(some.sizes.known)
        parts = [self._spread(k, x, mask, xp) for k, x in enumerate(as_tuple(found))]
        return tuple(parts) if isinstance(found, tuple) else parts[0]

    def _spread(self, k: int, found: Any, mask: Any, xp: Any) -> Any:
        """Results of the chosen slices among all of them."""
        core = (None,) * (found.ndim - 1)
        if self._out is not None and self._on_error.fill is None:
            rest = self._out[k]
            if self._places is not None:
                rest = core_last(rest, self._places.outputs[k])
        else:
            rest = (
                xp.full_like(found[:1], filler(self._on_error.fill, found.dtype))[0]
                if (found.shape[0])
                else xp.zeros(tuple(found.shape[1:]), dtype=found.dtype)
            )
        if isinstance(found, np.ndarray):
            full = np.empty((*mask.shape, *found.shape[1:]), found.dtype)
            full[...] = rest
            full[mask] = found
            return full
        at = xp.reshape(xp.cumulative_sum(xp.astype(xp.reshape(mask, (-1,)), xp.int64)), mask.shape)
        every = xp.take(found, xp.reshape(xp.where(mask, at - 1, 0), (-1,)), axis=0)
        every = xp.reshape(every, (*mask.shape, *found.shape[1:]))
        return xp.where(mask[(..., *core)], every, rest)

    def _placed(self, k: int, x: Any) -> Any:
        """A result with its core dims where `axis` and `axes` want them."""
        if self._places is None:
            return x
        own = self._places.outputs[k]
        if self._places.keepdims:
            x = x[(..., *(None,) * len(own))]
        return core_at(x, own)


def _at_once(*given: Any) -> Any:
    """All slices at once; the tracer is loaded for the first call that may need it."""
    from .planning.several_arrays import Several, for_numbers, run

    call: LoopedCall = given[0]
    return run((for_numbers if call.arguments.numbers else Several)(*given))


def _as_array(x: Any) -> Any:
    return np.asanyarray(x) if arrays.library(x) is None else x


def write_into(target: Any, y: Any, name: str) -> None:
    """Write a result to where it was asked for.

    Raises
    ------
    TypeError, ValueError
        If it does not fit there.
    """
    if arrays.library(target) is None:
        raise TypeError(f"{name} must be an array: found {type(target).__name__}")
    if tuple(target.shape) != tuple(y.shape):
        raise InputError(f"{name} has shape {tuple(target.shape)}, the result {tuple(y.shape)}")
    if isinstance(target, np.ndarray) and not np.can_cast(y.dtype, target.dtype, "same_kind"):
        raise TypeError(f"{name} of dtype {target.dtype} cannot hold results of dtype {y.dtype}")
    copied(target, y)

"""A call of `f` some of whose arguments are looped over, and the plain loop that makes it.

It is the definition that every engine is held to, and what runs where none can.
"""

from __future__ import annotations

import inspect
import itertools
import math
import operator
import sys
from collections.abc import Callable, Collection, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from .. import arrays, config
from ..arrays import masked
from ..errors import InputError, add_note, warn
from ..functions import samples
from . import processes
from .arguments import Arguments, Looped
from .own_vectorize import Place, looped, note
from .reference import as_array
from .signature import Dims, Signature


@dataclass(frozen=True)
class LoopedCall:
    """A function with its arguments."""

    f: Callable[..., Any]
    arguments: Arguments

    def __call__(self, *slices: Any) -> Any:
        """Call it for one slice of each array."""
        return self.arguments.call(self.f, slices)

    def caller(self, *, whole: bool = False) -> Callable[..., Any]:
        """The function to call, with the least overhead; `whole`: as in `Arguments.caller`."""
        return self.arguments.caller(self.f, whole=whole)

    def for_batches(
        self, said: BaseException | str, signature: Signature, ends: samples.Ends
    ) -> LoopedCall | None:
        """The same with ``f`` for batches of one slice, if its error asked for them.

        That is for vectors of one array, the first argument. `ends`: as of `samples.wanted`.
        """
        args, known = self.arguments.args, self.arguments
        if [*map(len, signature.inputs)] != [1] or args[:1] != (Looped(0),):
            return None
        f = samples.wanted_for(self.f, said, ends, args[1:], known.kwargs)
        return None if f is None else replace(self, f=f)


def looped_call(
    f: Callable[..., Any], args: tuple, kwargs: dict, excluded: Collection[int | str]
) -> tuple[LoopedCall, list[Any]]:
    """A call with all arguments but the excluded ones looped over, and those.

    >>> call, operands = looped_call(pow, (2, 5), {"mod": 3}, {"mod"})
    >>> call(4, 5), operands
    (1, [2, 5])
    """
    operands: list[Any] = []

    def place(key: int | str, x: Any) -> Any:
        if key in excluded:
            return x
        operands.append(x)
        return Looped(len(operands) - 1)

    positional = tuple(place(k, x) for k, x in enumerate(args))
    named = {n: place(n, x) for n, x in kwargs.items()}
    return LoopedCall(f, Arguments(positional, named)), operands


# --- the plain loop -----------------------------------------------------------------------------


@dataclass(frozen=True)
class OnError:
    """The reaction to errors of ``f``, and the fill value."""

    how: str = "raise"
    fill: Any = None

    def report(self, error: Exception, index: tuple[int, ...]) -> None:
        """Report that ``f`` raised, as requested."""
        if self.how == "raise":
            note(error, index)
            raise error
        if self.how == "warn":
            text = f"f raised {type(error).__name__}: {error} at the index {index}"
            warn(text, RuntimeWarning)


_RAISE = OnError()
_MASKED = "MaskedConstant"
"""The class of `numpy.ma.masked`, without loading it."""
_ARRAYS = frozenset((np.ndarray,))


def _same(index: tuple[int, ...]) -> tuple[int, ...]:
    return index


def of_numbers(
    call: LoopedCall,
    operands: Sequence[Any],
    otypes: Any = None,
    cache: bool = False,
    on_error: OnError = _RAISE,
    place: Place = _same,
) -> Any:
    """The loop of `numpy.vectorize` without a signature: ``f`` gets Python's numbers.

    Parameters
    ----------
    operands : sequence of numpy.ndarray

    Returns
    -------
    numpy.ndarray or tuple of them
    """
    if config.current().plain_loop or not operands:
        shared: Any = nullcontext(call)
    else:
        operands = [np.asanyarray(x, order="C") for x in operands]  # gone through in order
        shape = np.broadcast_shapes(*(x.shape for x in operands))

        def slices() -> processes.SharedSlices:
            return processes.SharedSlices([np.broadcast_to(x, shape) for x in operands], shape)

        arguments = replace(call.arguments, numbers=True)
        extra = otypes is None and not cache and on_error.how == "raise"  # a call tells the dtypes
        count = math.prod(shape)
        shared = processes.called(call.caller(), call.f, arguments, operands, slices, count, extra)
    run = _of_numbers if on_error.how == "raise" else _of_numbers_that_may_fail
    with shared as calls:
        return run(_Numbers(call, operands, otypes, cache, on_error, place), calls)


class _Numbers(NamedTuple):
    """The arguments of `of_numbers`, on the host."""

    call: LoopedCall
    operands: Sequence[Any]
    otypes: Any
    cache: bool
    on_error: OnError
    place: Place


def _of_numbers(given: _Numbers, calls: Callable[..., Any]) -> Any:
    """NumPy's own loop; `calls`: what is called for the elements in the place of ``f``."""
    call, operands, otypes, cache, _, place = given
    leaves = call.arguments.leaves
    if calls is call and leaves is not None and not leaves.told_plain and leaves.count == 1:
        # what results are is seen when all of them are there
        return looped(call.caller(whole=True), operands, otypes, cache, place, leaves.apart)
    function = call.caller() if calls is call else calls
    found = looped(function, operands, otypes, cache, place)
    if leaves is not None and leaves.are_plain and operands:
        leaves.told_plain = 0 not in np.broadcast_shapes(*map(np.shape, operands))
    return found


def _of_numbers_that_may_fail(given: _Numbers, calls: Callable[..., Any]) -> Any:
    """The loop where ``f`` may raise for some elements, which are filled."""
    call, operands, otypes, cache, on_error, place = given
    views = np.broadcast_arrays(*operands)
    numbers = [x.astype(object) for x in views]
    shape = views[0].shape
    results: dict[tuple[int, ...], tuple[Any, ...]] = {}
    several = False
    skip = getattr(calls, "skip", lambda: None)
    function = call.caller()
    calls = function if calls is call else calls
    for index in np.ndindex(*shape):
        try:
            tells = not results and otypes is None
            found: Any = None
            if tells:
                found = function(*(x[index] for x in views))  # NumPy's numbers tell the dtypes
                several = isinstance(found, tuple)
                otypes = [np.asarray(x).dtype for x in (found if several else (found,))]
        except Exception as error:
            on_error.report(error, place(index))
            skip()
            continue
        try:
            if tells and cache:
                skip()
            else:
                found = calls(*(x[index] for x in numbers))
        except Exception as error:
            on_error.report(error, place(index))
            continue
        several = isinstance(found, tuple)
        results[index] = found if several else (found,)
    if otypes is None:
        raise ValueError("f raised for every element: give otypes, which no call of it tells")
    made = []
    for k, dtype in enumerate(otypes):
        target = np.empty(shape, object)
        for index in np.ndindex(*shape):
            row = results.get(index)
            target[index] = filler(on_error.fill, np.dtype(dtype)) if row is None else row[k]
        made.append(np.asanyarray(target, dtype=dtype))
    return tuple(made) if several else made[0]


def of_slices(
    call: LoopedCall,
    operands: Sequence[Any],
    dims: Dims,
    dtypes: Sequence[Any] | None = None,
    on_error: OnError = _RAISE,
    place: Place = _same,
) -> tuple[Any, ...]:
    """The results of ``f`` for all slices of arrays whose core dims are the last ones.

    Raises
    ------
    ValueError
        If results do not fit the signature.
    """
    cores = map(dims.sizes.shape, dims.signature.inputs)
    shapes = [dims.loop + core for core in cores]
    views: list[Any] = [
        arrays.read_only(x)
        if type(x) is np.ndarray and x.shape == shape
        else arrays.broadcast_to(x, shape, subok=True)
        for x, shape in zip(operands, shapes, strict=True)
    ]

    def slices() -> processes.SharedSlices:
        return processes.SharedSlices(views, dims.loop)

    def ends() -> tuple[Any, Any]:
        last = tuple(n - 1 for n in dims.loop)
        return _slice(views[0], (0,) * len(last)), _slice(views[0], last)

    function = call.caller()
    shared: Any = nullcontext(function)
    if not config.current().plain_loop:
        count = math.prod(dims.loop)
        shared = processes.called(function, call.f, call.arguments, views, slices, count)
    found = _Results(dims, dtypes, views, place)
    several, masked = found.several, _masked()
    # NumPy gives its numbers, not arrays of no dims, which CuPy's functions refuse as well; the
    # standard wants all dims spelled out
    plain = _ARRAYS.issuperset(map(type, views))
    plain = plain or all(isinstance(x, np.ndarray) or arrays.library(x) == "cupy" for x in views)
    failed: list[tuple[int, ...]] = []
    batched: LoopedCall | None = None
    with shared as calls:
        for index in itertools.product(*map(range, dims.loop)):
            try:
                if plain:
                    results = calls(*map(operator.getitem, views, itertools.repeat(index)))
                else:
                    results = calls(*[x[(*index, ...)] for x in views])
            except Exception as error:
                if not any(index):
                    batched = call.for_batches(error, dims.signature, ends)
                if batched is not None:
                    break
                on_error.report(error, place(index))
                failed.append(index)
                continue
            # as a rule results are of the first one's kind
            if several and type(results) is tuple and len(results) == len(several):
                try:
                    for target, x in zip(several, results):  # noqa: B905  # it takes time
                        if x is masked:
                            break
                        target[index] = x
                    else:
                        continue
                except ValueError:
                    pass  # which is said below
            target = found.single
            unusual = isinstance(results, tuple) or type(results).__name__ == _MASKED
            if target is None or unusual:
                found.put(index, results)
                several, masked = found.several, _masked()
                continue
            try:
                target[index] = results
            except ValueError as error:
                add_note(error, found.other_shape(index, 0, results))
                raise
    leaves = call.arguments.leaves
    if leaves is not None and leaves.are_plain and 0 not in dims.loop and not failed:
        leaves.told_plain = True
    if batched is not None:
        return of_slices(batched, operands, dims, dtypes, on_error, place)
    return found.arrays(failed, on_error.fill)


def _masked() -> Any:
    """`numpy.ma.masked`, if anybody has loaded it."""
    return getattr(sys.modules.get("numpy.ma"), "masked", _ARRAYS)


def _slice(x: Any, index: tuple[int, ...]) -> Any:
    # NumPy gives its numbers, not arrays of no dims; the standard wants all dims spelled out
    return x[index] if isinstance(x, np.ndarray) else x[(*index, ...)]


class _Results:
    """Results of all slices; the first ones tell shapes and dtypes."""

    def __init__(
        self, dims: Dims, dtypes: Sequence[Any] | None, views: Sequence[Any], place: Place
    ) -> None:
        self._dims, self._dtypes, self._place = dims, dtypes, place
        self._like = views[0] if views else None
        if not _ARRAYS.issuperset(map(type, views)):
            self._like = next((x for x in views if arrays.library(x) != "numpy"), self._like)
        self._on_host = arrays.library(self._like) in (None, "numpy")
        self._count = len(dims.signature.outputs)
        self._made: list[Any] = []
        self.single: Any = None
        """The array of the only result, which what ``f`` returns is written to."""
        self.several: list[Any] = []
        """Outputs of several results."""

    def put(self, index: tuple[int, ...], results: Any) -> None:
        """Take what ``f`` returned for a slice."""
        found = len(results) if isinstance(results, tuple) else 1
        if found != self._count:
            raise ValueError(
                f"wrong number of outputs from pyfunc: expected {self._count}, got {found} "
                f"(signature {self._dims.signature}, index {self._place(index)}). Several results "
                "are a tuple, one is none"
            )
        parts = results if self._count > 1 else (results,)
        if not self._made:
            self._made = [self._output(k, x, index) for k, x in enumerate(parts)]
            if self._count == 1 and self._on_host:
                self.single = self._made[0]
            elif self._on_host:
                self.several = self._made
        for k, (target, x) in enumerate(zip(self._made, parts, strict=True)):
            if isinstance(target, dict):
                self._keep(target, index, k, x)
                continue
            if type(x).__name__ == _MASKED and not masked.is_masked(target):
                # the slices before had results that are not masked; NumPy would make it NaN
                target = self._made[k] = target.view(np.ma.MaskedArray)
                self.single = target if self._count == 1 else None
            try:
                target[index] = x
            except ValueError as error:
                add_note(error, self.other_shape(index, k, x))
                raise

    def other_shape(self, index: tuple[int, ...], k: int, x: Any) -> str:
        """The message for a result of another shape."""
        try:
            shape: Any = np.asanyarray(x).shape if self._on_host else _shape(x)
        except ValueError:  # rows of several lengths
            shape = "of several lengths"
        core = self._dims.signature.outputs[k]
        return (
            f"at the index {self._place(index)} result {k} of f has the shape {shape}, and should "
            f"have {self._dims.sizes.shape(core)}: the signature is {self._dims.signature}, and "
            "the first result tells the sizes that no argument does"
        )

    def _output(self, k: int, x: Any, index: tuple[int, ...]) -> Any:
        """The output for results like `x`."""
        core, sizes = self._dims.signature.outputs[k], self._dims.sizes
        like = x if isinstance(x, np.ndarray) or not self._on_host else np.asanyarray(x)
        shape = _shape(like)
        try:
            sizes.take(core, shape, f"result {k} of f")
        except ValueError as error:
            add_note(error, f"raised for the first result, at the index {self._place(index)}")
            raise
        if not self._on_host:
            return {}
        dtype = None if self._dtypes is None else self._dtypes[k]
        shape = (*self._dims.loop, *sizes.shape(core))
        return np.empty_like(like, shape=shape, dtype=dtype)

    def _keep(self, target: dict, index: tuple[int, ...], k: int, x: Any) -> None:
        """Take a result of a library whose arrays may not be written into."""
        xp = arrays.compat(self._like)
        x = as_array(xp, x, self._like)
        if tuple(x.shape) != self._dims.sizes.shape(self._dims.signature.outputs[k]):
            raise ValueError(self.other_shape(index, k, x))
        first = next(iter(target.values()), x)
        target[index] = xp.astype(x, first.dtype, copy=False)

    def arrays(self, failed: Sequence[tuple[int, ...]], fill: Any) -> tuple[Any, ...]:
        """All results, with `fill` where there is none."""
        if not self._made:
            self._made = [self._empty(k) for k in range(self._count)]
        if self._on_host:
            for target in self._made:
                if failed:
                    value = filler(fill, target.dtype)
                    for index in failed:
                        target[index] = value
            return tuple(self._made)
        return tuple(self._stacked(k, target, fill) for k, target in enumerate(self._made))

    def _empty(self, k: int) -> Any:
        """The result where ``f`` was never called, or never returned."""
        if self._dtypes is None and 0 not in self._dims.loop:
            raise ValueError("f raised for every slice: give otypes, which no call of it tells")
        if self._dtypes is None:
            raise ValueError(
                "cannot call `vectorize` on size 0 inputs unless `otypes` is set: no call of f "
                "tells the dtype of the result"
            )
        core = self._dims.signature.outputs[k]
        unknown = self._dims.sizes.unknown(core)
        if unknown and 0 not in self._dims.loop:
            raise ValueError(
                f"f raised for every slice: no call of it tells the size of {', '.join(unknown)}"
            )
        if unknown:
            raise ValueError(
                "cannot call `vectorize` with a signature including new output dimensions on "
                f"size 0 inputs: no call of f tells the size of {', '.join(unknown)}"
            )
        shape = (*self._dims.loop, *self._dims.sizes.shape(core))
        if self._on_host:
            return np.empty(shape, self._dtypes[k])
        xp = arrays.compat(self._like)
        return xp.empty(
            shape, dtype=dtype_of(xp, self._dtypes[k]), device=arrays.device(self._like)
        )

    def _stacked(self, k: int, found: Any, fill: Any) -> Any:
        if not isinstance(found, dict):
            return found
        xp = arrays.compat(self._like)
        first = next(iter(found.values()))
        missing: Any = None
        if len(found) < math.prod(self._dims.loop):
            missing = xp.full_like(first, filler(fill, first.dtype))
        rows = [found.get(index, missing) for index in np.ndindex(*self._dims.loop)]
        stacked = xp.reshape(xp.stack(rows), (*self._dims.loop, *first.shape))
        if self._dtypes is None:
            return stacked
        return xp.astype(stacked, dtype_of(xp, self._dtypes[k]), copy=False)


def _shape(x: Any) -> tuple[int, ...]:
    return tuple(x.shape) if hasattr(x, "shape") else np.shape(x)


def dtype_of(xp: Any, dtype: Any) -> Any:
    """A dtype as a library has it."""
    return (
        dtype if type(dtype).__module__.startswith("torch") else getattr(xp, str(np.dtype(dtype)))
    )


def filler(fill: Any, dtype: Any) -> Any:
    """The fill value of a dtype.

    Raises
    ------
    InputError
        If none was given, and `dtype` has no NaN.
    """
    name = str(dtype).rpartition(".")[2]
    if fill is None:
        if "float" in name or "complex" in name:
            return math.nan
        raise InputError(
            f"results of dtype {name} have no NaN for what is not computed: give fill=, "
            "for instance fill=0"
        )
    if isinstance(dtype, np.dtype):
        held: Any = None
        same: Any = False
        try:
            with np.errstate(all="ignore"):
                held = np.asarray(fill).astype(dtype)
            same = held == np.asarray(fill) if dtype.kind not in "fc" else np.isreal(fill)
        except (TypeError, ValueError):  # no number
            held = None
        if not np.all(same) and (held is None or dtype.kind != "c"):
            raise InputError(f"fill={fill!r} is nothing that results of dtype {name} can hold")
    return fill


def not_parameters(
    f: Callable[..., Any], names: tuple[str, ...], any_name: bool = True
) -> tuple[str, ...]:
    """Names that are no parameters of ``f``; `any_name`: ``**kwargs`` accepts all."""
    if isinstance(f, np.ufunc):  # they are not for single slices
        return names
    try:
        # what a torch module is called with, which its `__call__` does not tell
        parameters = inspect.signature(getattr(f, "forward", f)).parameters.values()
    except (TypeError, ValueError):
        return names
    if any_name and any(p.kind is p.VAR_KEYWORD for p in parameters):
        return ()
    own = {p.name for p in parameters}
    return tuple(n for n in names if n not in own)

"""Calls of a `numpy.vectorize` while NumPy is patched.

Its class stays what it is, and so do the classes that were made of it: the method ``__call__`` is
another one, which looks at objects of that very class alone.
"""

from __future__ import annotations

import functools
import math
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from .. import config
from ..functions.cache import remembered
from ..limits import LIMITS
from ..loop import originals
from ..loop.begun import Begun
from ..loop.signature import Signature, resolve
from ..loop.thin import Continued
from ..loop.vectorize import looped_call
from ..planning.python import running
from ..planning.python.several_arrays import Several
from .along_axis import Attempt, busy
from .records import SeenFunction, seen

NAME = "numpy.vectorize"
_NO_ARRAYS = "arguments other than plain arrays of numbers are left to the original"
_WRONG = "the original says what is wrong"
_PLAIN = (int, float, complex, bool)
_KNOWN = (np.ndarray, *_PLAIN)


# what each call looks for, found at once: a call of a few microseconds feels it
_perf = time.perf_counter
_is_busy = busy.get
_call_original, _VECTORIZE, _ARRAY = originals.call_vectorize, originals.vectorize, np.ndarray


@functools.wraps(originals.call_vectorize)
def call(self: Any, /, *args: Any, **kwargs: Any) -> Any:
    """The replacement of ``numpy.vectorize.__call__``."""
    f = self.__dict__.get("pyfunc")
    if type(self) is not _VECTORIZE or _is_busy() or not callable(f):
        return _call_original(self, *args, **kwargs)
    known = seen(f, NAME)
    if not self.excluded and not all(type(x) is _ARRAY for x in args):
        args = tuple(map(_values, args))
        kwargs = {name: _values(x) for name, x in kwargs.items()}
    # how many slices there are at least, and how many numbers one has
    slices, length, shape = 1, 1, ()
    for x in (*args, *kwargs.values()) if kwargs else args:
        if type(x) is _ARRAY and x.size > slices:
            slices, shape = x.size, x.shape
    if shape and self.signature is not None:
        signature, ndim = known.core_ndim
        if signature is not self.signature:
            ndim = _core_ndim(self.signature)
            known.core_ndim = self.signature, ndim
        if ndim:
            length = (shape[-1] if ndim == 1 else math.prod(shape[-ndim:])) or 1
            slices //= length
    why = known.why
    if slices > LIMITS.few_patched and known.python and known.is_worth(slices, length):
        what = _look(self, f, args, kwargs, known)
        if type(what) is tuple:
            return what[0]
        if type(what) is not str:
            return what.attempt.run(what)
        why = what
    started = _perf()
    result = _call_original(self, *args, **kwargs)
    known.fell_back(slices, length, _perf() - started, why)
    return result


def _values(x: Any) -> Any:
    """The array of a Series, an Index or a DataArray of numbers, as NumPy asks for it."""
    if (
        type(x) is _ARRAY
        or type(x) in _PLAIN
        or not isinstance(getattr(x, "dtype", None), np.dtype)
    ):
        return x
    pandas, xarray = (sys.modules.get(name) for name in ("pandas", "xarray"))
    if pandas is not None and isinstance(x, (pandas.Series, pandas.Index)):
        found = x.to_numpy() if x.dtype.kind in "biufc" else x
    elif xarray is not None and type(x) is xarray.DataArray:
        found = x.variable._data
    else:
        return x
    return found if type(found) is _ARRAY else x


@remembered(256)
def _core_ndim(signature: str) -> int:
    """The most core dims of an argument."""
    inputs = Signature.parse(signature).inputs
    return max(map(len, inputs), default=0)


@remembered(256)
def _parsed(signature: str) -> Signature | None:
    """A signature that has the same meaning here; None: it has not."""
    found = Signature.parse(signature)
    dims = (d for core in (*found.inputs, *found.outputs) for d in core)
    return None if any(d.optional or d.size is not None for d in dims) else found


def _look(self: Any, f: Any, args: tuple, kwargs: dict, known: SeenFunction) -> Any:
    """The application of the function; a text: the reason for the original; a tuple: the result."""
    if config.current().engine == "loop" or self.cache:
        return "cache=True counts calls" if self.cache else "options(engine='loop')"
    looped, given = looped_call(f, args, kwargs, self.excluded)
    operands = [x if type(x) is np.ndarray else np.asarray(x) for x in given if _is_taken(x)]
    if len(operands) < len(given) or not any(type(x) is np.ndarray for x in given):
        return _NO_ARRAYS
    if any(x.dtype.kind not in "biufc" for x in operands):
        return _NO_ARRAYS
    numbers = self.signature is None
    promised = Signature(((),) * len(operands), ((),)) if numbers else _parsed(self.signature)
    if promised is None:
        return "its signature has another meaning in xpapply"
    try:
        dims = resolve(promised, [x.shape for x in operands])
    except (TypeError, ValueError):
        return _WRONG
    slices = math.prod(dims.loop)
    length = math.prod(operands[0].shape) // max(1, slices) or 1
    attempt = Attempt(known, slices, length)
    how = replace(looped.arguments, numbers=numbers, exactly=True)
    otypes, several, results = self.otypes, False, len(promised.outputs)
    if numbers and not slices:
        return "the slices are empty"
    if numbers and otypes is None:  # a call tells, as in the original
        started = _perf()
        first = looped(*(x.flat[0] for x in operands))
        took = _perf() - started
        several = isinstance(first, tuple)
        parts = first if several else (first,)
        otypes = "".join(np.asarray(x).dtype.char for x in parts)
        results = len(parts)
        if slices * took <= LIMITS.patched_worth or (several and results == 1):
            return (attempt.told(attempt.loop(lambda: _own(self, f, otypes, args, kwargs))),)
    elif otypes is not None:
        several, results = len(otypes) > 1, len(otypes)
        if not numbers and results != len(promised.outputs):
            return _WRONG
    else:
        several = results > 1
    if numbers:
        dims = replace(dims, signature=Signature(promised.inputs, ((),) * results))
    dtypes = None if otypes is None else tuple(np.dtype(d) for d in otypes)
    how = replace(how, results=results if several else 0, dtypes=dtypes)
    call = replace(looped, arguments=how)
    return OfVectorize(
        call, operands, dims, _never, attempt=attempt, own=self, otypes=otypes, given=(args, kwargs)
    )


def _is_taken(x: Any) -> bool:
    return type(x) is np.ndarray or type(x) in _PLAIN


def _never() -> Any:
    raise AssertionError("the loop of OfVectorize is its own")


def _own(self: Any, f: Any, otypes: Any, args: tuple, kwargs: dict) -> Any:
    """The original's result, with another function, and dtypes that are known by now."""
    made = object.__new__(originals.vectorize)
    vars(made).update(vars(self), pyfunc=f, otypes=otypes, _ufunc={})
    return originals.call_vectorize(made, *args, **kwargs)


@dataclass
class OfVectorize(Several):
    """The application of a patched `numpy.vectorize`; see `along_axis.OfOriginal`."""

    attempt: Attempt = field(kw_only=True, repr=False)
    own: Any = field(kw_only=True, repr=False)
    otypes: Any = field(kw_only=True)
    given: tuple[tuple, dict] = field(kw_only=True, repr=False)
    on_host = True

    def begun(self) -> Begun:
        """The first call."""
        found = self.slice_at((0,) * len(self.dims.loop))
        if self.call.arguments.numbers:
            found = tuple(x.item() for x in found)
        started = _perf()
        result = self.call(*found)
        took = _perf() - started
        return Begun([result], took, took)

    def for_batches(self, said: BaseException | str) -> None:
        """None: no other form is tried."""

    def note(self, error: Exception, index: tuple[int, ...]) -> None:
        """Errors stay as they are."""

    def announce(self, why: str) -> None:
        """Note the reason for the report."""
        self.attempt.why = why

    def around_call(self) -> float:
        """Seconds that a turn of the loop takes beside the call of the function: hardly any."""
        return 0.0

    def loop(self, known: Sequence[Any] = ()) -> Any:
        """The original's loop; `known`: the results for the first slices."""
        f = Continued(self.f, known) if known else self.f
        return self.attempt.loop(lambda: _own(self.own, f, self.otypes, *self.given))

    def at_once(self, traced: Any, begun: Begun | None) -> Any:
        """All slices at once."""
        found = running.at_once(traced, self, begun)
        # one that draws random numbers would draw more than in the original, and others
        if self.call.arguments.numbers and not self.attempt.looped and not traced.draws:
            self._warn(found if isinstance(found, tuple) else (found,))
        return found

    def _warn(self, results: Sequence[np.ndarray]) -> None:
        """Have the original warn of what it would warn of.

        It tells of overflow and the like where the processor's flags say so. It runs for some
        elements: those at the ends of what the arguments have, and those whose result is not
        finite.
        """
        at = _probes(self.operands, results, self.dims.loop)
        some = [np.broadcast_to(x, self.dims.loop).reshape(-1)[at] for x in self.operands]
        call = self.call
        own = originals.vectorize(lambda *x: call(*x), otypes=self.otypes)
        own.pyfunc.__name__ = getattr(self.f, "__name__", "f")
        originals.call_vectorize(own, *some)


def _probes(
    operands: Sequence[np.ndarray], results: Sequence[np.ndarray], loop: tuple[int, ...]
) -> np.ndarray:
    """Places among all elements, laid flat."""
    count = math.prod(loop)
    some = max(1, count // LIMITS.patched_share)
    found = [np.linspace(0, count - 1, min(some, LIMITS.patched_probes)).astype(np.intp)]
    for x in operands:
        if x.size > 1 and x.dtype.kind in "iuf":
            view = np.broadcast_to(x, loop)
            found.append(np.array([view.argmin(), view.argmax()]))
    for y in results:
        if y.dtype.kind in "fc":
            strange = np.flatnonzero(~np.isfinite(y))
            found.append(strange[:: 1 + len(strange) // min(some, LIMITS.patched_most_probes)])
    return np.unique(np.concatenate(found))

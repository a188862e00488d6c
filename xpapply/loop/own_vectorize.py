"""NumPy's own loop over numbers, which calls ``f`` with nothing around it.

To know at which element ``f`` raised costs nothing while all goes well: the array that results go
to is made before the loop, and whatever was not written there was not computed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from ..errors import add_note
from ..functions import advice
from ..limits import LIMITS
from . import originals

Place = Callable[[tuple[int, ...]], tuple[int, ...]]
"""Where a slice is, by its index among those that are looped over."""

_NO_NUMBERS = (
    "raised for the results of all elements, which became no array of the first one's dtype: give "
    "otypes for another. Without a signature f must return a number for each element, or a tuple "
    "of them; for arrays give vectorize a signature, such as signature='()->(n)'"
)
_NUMPYS = {kind for kind in np.sctypeDict.values() if kind is not np.void}
SCALARS: frozenset[Any] = frozenset(_NUMPYS).union(
    [bool, int, float, complex, str, bytes, type(None), Decimal, Fraction],
    [date, datetime, time, timedelta],
)
"""Types of single elements."""
_PLAIN = (np.ndarray, np.memmap)
"""Classes whose results are plain arrays."""


class OwnVectorize(originals.vectorize):  # called as a function
    """`numpy.vectorize`; `tell` finds out at which element what it raised was raised."""

    def _get_ufunc_and_otypes(self, func: Any, args: Sequence[Any]) -> tuple[Any, Any]:
        """As NumPy's method of this name, with a ufunc that tells how far it came."""
        single = True
        for a in args:
            kind = type(a)
            if kind not in SCALARS:
                single = False
                if kind is not np.ndarray and isinstance(a, np.ndarray) and kind not in _PLAIN:
                    func = _Counted(func)
                    break
        count = len(args)
        if self.otypes is None or not count:
            ufunc, otypes = _FIRST(self, func, args)
            if single:
                return ufunc, otypes
            before = func.done if type(func) is _Counted and not self.cache else 0
            return _Noted(ufunc, func, before), otypes
        known = self._ufunc.get(count)  # type: ignore[attr-defined]
        if known is None or known.func is not func:  # pyfunc may be another one now
            known = _Noted(np.frompyfunc(func, count, len(self.otypes)), func)
            if func is self.pyfunc:
                self._ufunc[count] = known  # type: ignore[attr-defined]
        return known.ufunc if single else known, self.otypes


_FIRST: Any = originals.vectorize._get_ufunc_and_otypes  # type: ignore[attr-defined]
_WHOLE: Any = originals.vectorize._vectorize_call  # type: ignore[attr-defined]


def looped(
    f: Callable[..., Any],
    operands: Sequence[Any],
    otypes: Any,
    cache: bool,
    place: Place,
    apart: Callable[[Any], Any] | None = None,
) -> Any:
    """What `numpy.vectorize` gives; `apart`: of the results as objects, where `otypes` is one."""
    made: Any = OwnVectorize(f, otypes=otypes, cache=cache)
    try:
        if apart is None:
            return originals.call_vectorize(made, *operands)
        found = originals.call_vectorize(OwnVectorize(f, otypes=[object]), *operands)
    except Exception as error:
        tell(error, place)
        raise
    try:
        return np.asanyarray(apart(found), dtype=made.otypes[0])
    except Exception as error:
        add_note(error, _NO_NUMBERS)
        raise


class _Noted:
    """A ufunc of Python's objects. While it runs, local variables hold what it writes to.

    Parameters
    ----------
    ufunc : numpy.ufunc
        As `numpy.frompyfunc` makes them.
    func : callable
        What it calls.
    before : int
        How many calls were made before the loop.
    """

    __slots__ = ("before", "func", "nout", "ufunc")

    def __init__(self, ufunc: Any, func: Any, before: int = 0) -> None:
        self.ufunc, self.func, self.nout, self.before = ufunc, func, ufunc.nout, before

    def __call__(self, *args: Any, **out: Any) -> Any:
        wide = [x for x in args if x.ndim]
        results: tuple[Any, ...] = ()
        if wide and self.nout and type(self.func) is not _Counted:
            first = wide[0]
            if self.nout == 1 and first.size <= LIMITS.filled_array and _lie_alike(wide):
                made = first.copy("K")  # which is made sooner than an empty one
                made.fill(_MISSING)
                results = (made,)
            else:  # without an object in it
                nothing = (None,) * self.nout
                results = np.nditer((*args, *nothing), _WALK).operands[len(args) :]
            out["out"] = results
        return self.ufunc(*args, **out)


def _lie_alike(arrays: list[np.ndarray]) -> bool:
    """Whether the ufunc's result would lie as the first of them does."""
    first = arrays[0]
    if type(first) is not np.ndarray:
        return False
    for x in arrays[1:]:
        if x.shape != first.shape or not (x.flags.c_contiguous and first.flags.c_contiguous):
            return False
    return True


_WALK: Any = ("refs_ok", "zerosize_ok")
_MISSING = object()


class _Counted:
    """``f``, with its calls counted: arrays of other classes make results of their own."""

    def __init__(self, f: Any) -> None:
        self._f, self.done, self.inside = f, 0, False
        self.__name__ = getattr(f, "__name__", "f")  # which NumPy's warnings name

    def __call__(self, *numbers: Any) -> Any:
        self.done, self.inside = self.done + 1, True
        found = self._f(*numbers)
        self.inside = False
        return found


def note(error: BaseException, index: tuple[int, ...]) -> None:
    """Say at which index of the loop dims `error` was raised."""
    add_note(error, f"raised at the index {index} of the loop dimensions")
    advice.note(error)


def tell(error: BaseException, place: Place) -> None:
    """Say at which element a call of an `OwnVectorize` raised `error`, by what its frames hold."""
    trace = error.__traceback__
    while trace is not None:
        code, seen = trace.tb_frame.f_code, trace.tb_frame.f_locals
        if code is _Noted.__call__.__code__:
            return _tell_of_loop(error, seen, place)
        if code is _FIRST.__code__ and "inputs" in seen:
            if "outputs" in seen:
                add_note(error, _NO_NUMBERS)
            else:
                note(error, place((0,) * max(np.ndim(x) for x in seen["args"])))
            return None
        if code is _WHOLE.__code__ and "outputs" in seen:
            return add_note(error, _NO_NUMBERS)
        if code is _WHOLE.__code__ and type(seen.get("ufunc")) is np.ufunc:
            return note(error, place(()))
        trace = trace.tb_next
    return None


def _tell_of_loop(error: BaseException, seen: dict[str, Any], place: Place) -> None:
    """The same of an exception within the loop; `seen`: the variables of `_Noted.__call__`."""
    args, results, known = seen["args"], seen["results"], seen["self"]
    counted = known.func if type(known.func) is _Counted else None
    if counted is not None and not counted.inside:
        return add_note(error, _NO_NUMBERS)
    if counted is not None:
        like = [np.empty_like(x, object, subok=False) for x in args]  # as NumPy makes of them
        walk: Any = np.nditer(like, ["multi_index", *_WALK], order="K")
        walk.iterindex = counted.done - 1 - known.before
        return note(error, place(tuple(map(int, walk.multi_index))))
    if not any(x.ndim for x in args):
        return note(error, place(()))
    if results and (index := _first_missing(results[0])) is not None:
        note(error, place(index))
    return None


def _first_missing(results: np.ndarray) -> tuple[int, ...] | None:
    """Where the first element is that was not written, in the order of the memory."""
    order = sorted(range(results.ndim), key=lambda a: -results.strides[a])
    dense = results.transpose(order)
    addresses: Any = np.ndarray((dense.size,), np.intp, dense)  # type: ignore[call-overload]
    missing = np.flatnonzero((addresses == 0) | (addresses == id(_MISSING)))
    if not missing.size:
        return None
    index = [0] * results.ndim
    for a, k in zip(order, np.unravel_index(missing[0], dense.shape), strict=True):
        index[a] = int(k)
    return tuple(index)

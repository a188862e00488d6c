"""NumPy's own loop over numbers, which calls ``f`` directly.

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
"""The index of a slice in the array, from its index among those looped over."""

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

    def _vectorize_call(self, func: Any, args: Sequence[Any]) -> Any:
        """NumPy's method of this name, with result arrays that show how far it came.

        While its ufunc runs, local variables hold what that writes to.
        """
        single = True
        for a in args:
            kind = type(a)
            if kind not in SCALARS:
                single = False
                if kind is not np.ndarray and isinstance(a, np.ndarray) and kind not in _PLAIN:
                    func = _Counted(func)
                    break
        if single:
            return _WHOLE(self, func, args)
        ufunc, otypes = self._get_ufunc_and_otypes(func, args)
        if type(func) is _Counted and not self.cache:
            func.done = 0  # the call that told the dtypes is made again
        objects = [asanyarray(a, dtype=object) for a in args]
        results = _to_fill(objects, ufunc.nout, func)
        outputs = ufunc(*objects, out=results) if results else ufunc(*objects, **_OUT)
        if ufunc.nout == 1:
            return asanyarray(outputs, dtype=otypes[0])
        return tuple([asanyarray(x, dtype=t) for x, t in zip(outputs, otypes, strict=True)])

    def _get_ufunc_and_otypes(self, func: Any, args: Sequence[Any]) -> tuple[Any, Any]:
        """NumPy's method of this name: `pyfunc` may differ from that of the last call."""
        count, otypes = len(args), self.otypes
        if otypes is None:
            if not count or self.cache:
                return _FIRST(self, func, args)  # type: ignore[no-any-return]
            inputs = []
            for a in args:
                a = np.asarray(a)
                if not a.size:
                    return _FIRST(self, func, args)  # type: ignore[no-any-return]
                inputs.append(a.flat[0])
            outputs = func(*inputs)
            if isinstance(outputs, tuple):
                otypes = "".join([np.asarray(x).dtype.char for x in outputs])
            else:
                otypes = _CHARS.get(type(outputs)) or np.asarray(outputs).dtype.char
        known = self._ufunc.get(count)  # type: ignore[attr-defined]
        if known is None or known[0] is not func or known[1].nout != len(otypes):
            known = func, np.frompyfunc(func, count, len(otypes))
            if func is self.pyfunc:
                self._ufunc[count] = known  # type: ignore[attr-defined]
        return known[1], otypes


_CHARS: dict[Any, str] = {kind: np.asarray(kind(0)).dtype.char for kind in (bool, float, complex)}
_CHARS |= {kind: np.dtype(kind).char for kind in (np.float64, np.float32, np.bool_, np.int64)}
"""Of the results that most functions have: asked for, it takes as long as the call of one."""
_FIRST: Any = originals.vectorize._get_ufunc_and_otypes  # type: ignore[attr-defined]
_WHOLE: Any = originals.vectorize._vectorize_call  # type: ignore[attr-defined]
_OUT: dict[str, Any] = {"out": ...} if "out" in _WHOLE.__code__.co_consts else {}
"""Keywords of NumPy's ufunc call: `out=...` matters for 0-d arrays."""
_OF_FIRST = (_FIRST.__code__, OwnVectorize._get_ufunc_and_otypes.__code__)
asanyarray = np.asanyarray


def looped(
    f: Callable[..., Any],
    operands: Sequence[Any],
    otypes: Any,
    cache: bool,
    place: Place,
    apart: Callable[[Any], Any] | None = None,
) -> Any:
    """Run `numpy.vectorize`; `apart`: splits results as objects, where `otypes` is one."""
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


def _to_fill(objects: list[np.ndarray], count: int, func: Any) -> tuple[Any, ...]:
    """Empty arrays for a ufunc's results; (): the ufunc makes them."""
    wide = [x for x in objects if x.ndim]
    if not wide or not count or type(func) is _Counted:
        return ()
    first = wide[0]
    if first.size == 1 == len(wide):
        return ()  # it is that one
    if count == 1 and first.size <= LIMITS.filled_array and (len(wide) < 2 or _lie_alike(wide)):
        made = first.copy("K")  # which is made sooner than an empty one
        made.fill(_MISSING)
        return (made,)
    # without an object in it
    walk = np.nditer((*objects, *(None,) * count), _WALK)
    return walk.operands[len(objects) :]  # type: ignore[no-any-return]


def _lie_alike(arrays: list[np.ndarray]) -> bool:
    """Whether the ufunc's result would have the layout of the first array."""
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
        if code is OwnVectorize._vectorize_call.__code__ and "objects" in seen:
            return _tell_of_loop(error, seen, place)
        if code in _OF_FIRST and "inputs" in seen:
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
    """Add the slice to an error of the loop; `seen`: the method's variables."""
    objects, results, func = seen["objects"], seen.get("results", ()), seen["func"]
    if "outputs" in seen or (type(func) is _Counted and not func.inside):
        return add_note(error, _NO_NUMBERS)
    if type(func) is _Counted:
        like = [np.empty_like(x, object, subok=False) for x in objects]  # as NumPy makes of them
        walk: Any = np.nditer(like, ["multi_index", *_WALK], order="K")
        walk.iterindex = func.done - 1
        return note(error, place(tuple(map(int, walk.multi_index))))
    if all(x.size == 1 for x in objects):
        return note(error, place((0,) * max(x.ndim for x in objects)))
    if results and (index := _first_missing(results[0])) is not None:
        note(error, place(index))
    return None


def _first_missing(results: np.ndarray) -> tuple[int, ...] | None:
    """The index of the first element not written, in memory order."""
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

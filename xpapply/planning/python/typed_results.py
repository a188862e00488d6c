"""Functions that are read from their source, and their results: dtypes, shapes, texts.

And whether they are those of real calls.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from ... import arrays
from ...errors import TraceError
from ...functions.guards import Guards, Place
from ...ir.avals import ShapeDtype
from ...ir.typed import TypedFunction
from ...limits import LIMITS
from ...loop.arguments import Arguments, Looped
from ...loop.begun import Begun
from ...runtime.generators import Source
from ...runtime.warning_filters import paused, silent
from .unplanned import endless

_ANY_TEXT = "str0"
"""The dtype of texts that are as long as the longest one of a call."""


def _letters(x: ShapeDtype) -> int:
    """For how many letters of a text there is place."""
    return LIMITS.typed_letters if x.dtype == _ANY_TEXT else x.itemsize // 4


def dtype_of(x: ShapeDtype) -> np.dtype:
    """The dtype of a result, also of texts of any length, which stand as objects."""
    if x.dtype == _ANY_TEXT:
        return np.dtype(object)
    return np.dtype(f"U{x.itemsize // 4}" if is_text(x) else x.dtype)


def is_text(x: ShapeDtype) -> bool:
    """Whether results of this kind are texts."""
    return x.dtype.startswith("str")


def empty(results: Sequence[ShapeDtype], batch: tuple[int, ...], spells: bool) -> list[Any]:
    """Arrays for the results of all slices; texts are numbers in them.

    `spells`: whether those are the numbers of letters, of all that a slice gives in a row.
    """
    found: list[Any] = []
    for r in results:
        if is_text(r):
            shape = (*batch, math.prod(r.shape) * _letters(r)) if spells else (*batch, *r.shape)
            found.append(np.zeros(shape, np.int64))
        else:
            found.append(np.empty((*batch, *r.shape), r.dtype))
    return found


def with_texts(
    outs: Sequence[Any],
    results: Sequence[ShapeDtype],
    texts: Sequence[str],
    spells: bool,
    whole: bool,
) -> list[Any]:
    """Replace numbers by the texts that they stand for.

    `whole`: whether they are all there; else longer ones may be put among them.
    """
    found: list[Any] = []
    for x, r in zip(outs, results, strict=True):
        longest = whole and r.dtype == _ANY_TEXT
        if not is_text(r):
            found.append(x)
        elif spells:
            y = x.astype(np.uint32).view(f"U{_letters(r)}").reshape(*x.shape[:-1], *r.shape)
            if longest:
                most = int(np.strings.str_len(y).max())
                found.append(y.astype(f"U{most}") if most else _longest(y.astype(object)))
            else:
                found.append(y.astype(dtype_of(r), copy=False))
        else:
            some = [*(texts or [""])]
            if longest:
                used = np.bincount(x.ravel(), minlength=len(some))
                some = [text if n else "" for text, n in zip(some, used, strict=True)]
            table = np.array(some, object if longest else dtype_of(r))
            found.append((_longest(table) if longest else table)[x])
    return found


def as_long_as_wanted(outs: Sequence[Any]) -> list[Any]:
    """Convert texts of any length to the width of the longest."""
    return [_longest(x) if x.dtype == object else x for x in outs]


def _longest(x: np.ndarray) -> Any:
    """Texts as `numpy.vectorize` has them: where all are empty, there is place for letters."""
    return np.asanyarray(x, dtype="U")


def results_of(
    arguments: Arguments, first: Any, array: Callable[[Any], Any]
) -> tuple[ShapeDtype, ...]:
    """The kinds of the results, by the first slice's; `array`: what makes an array of one."""
    parts = first if arguments.results else (first,)
    if arguments.results and (type(first) is not tuple or len(first) != arguments.results):
        raise TraceError("its results are not as many as those of the first slice")
    if arguments.leaves is not None and not arguments.leaves.are_plain:
        raise TraceError("its results are containers")
    from ...frontends.python.source.numbers import DTYPES

    found = []
    for k, part in enumerate(parts):
        x = array(part)
        if type(x) is np.ndarray and x.dtype.kind == "U" and x.ndim < 2 and x.size:
            if x.ndim and not _of_texts(part):
                raise TraceError("it returns texts")
            if arguments.dtypes is not None and arguments.dtypes[k] != np.dtype(str):
                raise TraceError(f"results of {arguments.dtypes[k]} are asked for")
            name = x.dtype.name if arguments.dtypes is None else _ANY_TEXT
            found.append(ShapeDtype(x.shape, name))
            continue
        is_plain = type(x).__name__ == "ndarray"
        if not is_plain or x.dtype.kind not in "biufc" or x.dtype.itemsize > 16:
            raise TraceError(f"it returns {type(part).__name__}")
        if x.dtype.name not in DTYPES or x.ndim > 2 or 0 in x.shape:
            raise TraceError(f"it returns {x.dtype} of shape {x.shape}")
        dtype = x.dtype if arguments.dtypes is None else arguments.dtypes[k]
        # Python's numbers are put into an array one by one
        is_put = arguments.numbers and {x.dtype.kind, dtype.kind} <= set("biuf")
        # so are NumPy's, as floats: nothing wraps
        is_put |= arguments.exactly and not x.ndim and dtype.char == "d" and x.dtype.kind in "biu"
        if arguments.dtypes is not None and dtype != x.dtype and not is_put:
            raise TraceError(f"results of {dtype} are asked for")
        found.append(ShapeDtype(x.shape, dtype.name))
    return tuple(found)


def _of_texts(x: Any) -> bool:
    """Whether it is a list or tuple of texts alone."""
    return type(x) in (list, tuple) and all(type(y) is str for y in x)


# --- beside real calls --------------------------------------------------------------------------


def are_same(mine: Any, real: Any, rounds: float) -> bool:
    """Whether a result equals that of a real call, up to known rounding."""
    kind = np.asarray(mine).dtype.kind
    if rounds and kind in "fc":
        solves = rounds > LIMITS.typed_rounding
        sizes = np.abs(np.nan_to_num(real, posinf=0.0, neginf=0.0))
        near = rounds * np.max(sizes, initial=0.0) if solves else 0.0
        return np.allclose(mine, real, rtol=rounds, atol=near, equal_nan=True)
    return np.array_equal(mine, real, equal_nan=kind in "fc")


def wavers(
    arguments: Arguments, rounds: float, call: Any, v: Any, k: int, mine: Any, real: Any
) -> bool:
    """Whether a real call differs as much from itself when the slice is rounded."""
    if rounds <= LIMITS.typed_rounding:
        return False
    off = np.zeros(np.shape(real))
    for end in (-np.inf, np.inf):
        near = [_next(x, end) for x in (v if isinstance(v, tuple) else (v,))]
        given = arguments.given(tuple(near)) if isinstance(v, tuple) else near
        try:
            result = silently(call, given)
        except Exception:
            return True
        part = result[k] if arguments.results else result
        if np.shape(part) == np.shape(real):
            off = np.maximum(off, np.abs(part - real))
    return bool(np.all(np.abs(mine - real) <= LIMITS.typed_wavering * off))


def silently(call: Callable[..., Any], args: Sequence[Any]) -> Any:
    """Call a function with all warnings off."""
    with np.errstate(all="ignore"), silent():
        return call(*args)


def _next(x: Any, end: float) -> Any:
    """The next numbers to those of a slice."""
    return np.nextafter(x, x.dtype.type(end)) if x.dtype.kind == "f" else x


class Read(Guards):
    """The result of reading a function, and the guards of what was read.

    Attributes
    ----------
    made : TypedFunction or None
        What was read, where that is whole but for what the first slice says.
    results : Guess
        What it gives, if the source tells.
    sources : sequence of Source
        What it draws random numbers from.
    """

    sources: Sequence[Source] = ()

    def __init__(self, results: Any, places: Collection[Place] = ()) -> None:
        super().__init__(places)
        self.results = results
        self.made: TypedFunction | None = None

    def fits(self, f: Any, results: Sequence[ShapeDtype]) -> bool:
        """Whether the first slice fits what was read, and nothing has changed."""
        return self.made is not None and self.results.fits(results) and self(f)


# --- what it is called with ----------------------------------------------------------------------


def copied(x: Any) -> Any:
    """Arguments, with arrays of their own."""
    if type(x) is np.ndarray:
        return np.array(x)
    if type(x) is dict:
        return {name: copied(y) for name, y in x.items()}
    return type(x)(map(copied, x)) if type(x) in (tuple, list) else x


def type_of(x: Any, numbers: bool) -> Any:
    """The type of a slice."""
    from ...frontends.python.source.numbers import DTYPES
    from ...ir.typed import Array

    x = x if arrays.library(x) == "cupy" else np.asarray(x)
    name = x.dtype.name
    if name not in DTYPES or not x.dtype.isnative:
        raise TraceError(f"slices of {x.dtype}")
    if x.ndim == 0 and numbers:
        if name == "uint64":
            raise TraceError("numbers of uint64 may have more than 63 bits")
        return name
    if x.ndim == 0:  # beside slices: a number of NumPy's
        return name
    if x.ndim > 2:
        raise TraceError(f"slices of {x.ndim} axes")
    return Array(name, x.ndim)


def argument_of(x: Any, numbers: bool, slices: Sequence[Any]) -> Any:
    """An argument, or what stands for a slice; those on a device have the same length always."""
    from ...frontends.python.source.typed import Input

    if type(x) is not Looped:
        return x
    own = slices[x.k]
    length = len(own) if arrays.library(own) == "cupy" and own.ndim == 1 else 0
    return Input(x.k, numbers, 0.0 if numbers else endless(own), length)


def typed_of(
    f: Any,
    arguments: Arguments,
    slices: tuple[Any, ...],
    results: Any,
    watch: Guards,
    element: str,
) -> TypedFunction:
    """The typed function of a function; a `TraceError` knows what it has looked at."""
    from ...frontends.python.source import typed as source

    watch.start(f)
    inputs = [type_of(x, arguments.numbers) for x in slices]
    given = [argument_of(x, arguments.numbers, slices) for x in arguments.args]
    named = {n: argument_of(x, arguments.numbers, slices) for n, x in arguments.kwargs.items()}
    expected = results
    if type(results) is tuple:
        expected = [
            source.Expected("text", r.shape, _letters(r), r.dtype == _ANY_TEXT)
            if is_text(r)
            else source.Expected(r.dtype, r.shape)
            for r in results
        ]
    try:
        found = source.typed(f, given, named, inputs, expected, watch, element)
        read_anew(found, watch)
        return found
    except source.Leaves as leaves:
        error = TraceError(leaves.why)
    except TraceError as refused:
        error = refused
    error.unchanged = watch
    raise error


def read_anew(made: TypedFunction, watch: Guards) -> None:
    """Have other numbers come where the function reads those that are given."""
    at = {id(x): k for k, x in enumerate(made.constants)}
    for where, x in watch.given.items():
        if id(x) not in at:
            watch.given[where] = None
    watch.give()
    made.given = tuple(at[id(x)] for x in watch.given.values() if x is not None)


# --- before and after the first calls -------------------------------------------------------------


def tried(loop: Any, f: Any, arguments: Arguments, slices: Any) -> Begun:
    """Call a function that was read for the first slices, and time it.

    `loop`: the class of what runs it. It gets copies, and raises what it raises.
    """
    several = slices if isinstance(slices, tuple) else (slices,)
    return loop.calls(arguments.caller(f), several)


def read(
    loop: Any, f: Any, arguments: Arguments, slices: Any, places: Collection[Place] = ()
) -> Read:
    """Read a function for slices like these without a call.

    `places`: where numbers are given.

    Raises
    ------
    TraceError
        If it cannot be compiled.
    """
    from ...frontends.python.source.frames import Guess

    several, watch = slices if isinstance(slices, tuple) else (slices,), Read(Guess(), places)
    guess = watch.results if loop.guesses else None
    with paused():
        made = typed_of(f, arguments, several, guess, watch, loop.element)
    loop.look_at(made)
    watch.made, watch.sources = made if guess else None, made.sources
    return watch


def made(
    loop: Any,
    f: Any,
    arguments: Arguments,
    slices: Any,
    begun: Begun,
    ahead: Read | None = None,
    places: Collection[Place] = (),
) -> Any:
    """A function compiled from its source, for slices like the first.

    `begun`: its first calls; `ahead`: what was read before; `places`: where numbers are given.
    """
    several = slices if isinstance(slices, tuple) else (slices,)
    with paused():
        return loop(f, arguments, several, begun.results[0], begun.seconds, ahead, places)

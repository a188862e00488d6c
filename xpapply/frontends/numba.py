"""Functions that the user has compiled with numba: a compiled loop calls them for all slices.

What ``@njit`` made is called by a loop that is compiled around it, so nothing goes through the
interpreter for each slice; what ``@vectorize`` and ``@guvectorize`` made loops by itself.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any

import numba
import numpy as np
from numba.core import types as numba_types
from numba.core.errors import NumbaError
from numba.core.registry import CPUDispatcher
from numba.np.ufunc.dufunc import DUFunc
from numba.np.ufunc.gufunc import GUFunc

from ..errors import TraceError
from ..functions.cache import remembered
from ..ir.graph import Graph, ShapeDtype
from ..limits import LIMITS
from ..loop import reference as plain
from ..loop.arguments import Arguments, Looped
from ..loop.signature import Signature
from . import AllAtOnce, Frontend

types: Any = numba_types
Note = Callable[[Exception, tuple[int, ...]], None]


def _in_words(f: Any) -> str:
    return "a compiled loop" if isinstance(f, CPUDispatcher) else "numba's own loop"


def _along(arr: Any, axis: int) -> np.ndarray:
    if type(arr) not in (np.ndarray, np.memmap):
        raise TraceError("functions that numba has compiled take arrays of NumPy")
    rows = np.asarray(arr)
    return rows.transpose(*range(axis), *range(axis + 1, arr.ndim), axis)


def _renamed(signature: str) -> tuple[list[list[str]], ...]:
    """The core dims of a signature, by the order in which they come."""
    parsed, names = Signature.parse(signature), {}  # type: ignore[var-annotated]
    return tuple(
        [[names.setdefault(d.name, str(len(names))) for d in core] for core in side]
        for side in (parsed.inputs, parsed.outputs)
    )


# --- what runs ------------------------------------------------------------------------------------

Run = Callable[[Sequence[np.ndarray], Note], tuple[np.ndarray, ...]]


def _runner(
    f: Any, arguments: Arguments, views: Sequence[Any], ndim: int, count: int, slices: int
) -> Run:
    """The run of `f` on slices with `ndim` loop dims first."""
    if any(type(x) is not np.ndarray or x.dtype.kind not in "biufc" for x in views):
        raise TraceError("a compiled loop takes numbers in arrays of NumPy")
    args = _positional(f, arguments)
    if isinstance(f, CPUDispatcher):
        if slices < LIMITS.numba_worth:
            raise TraceError(f"{slices:,} slices take less time than compiling a loop for them")
        return _Compiled(f, args, views, ndim, count, arguments.numbers)
    if not isinstance(f, (DUFunc, GUFunc)):
        raise TraceError(f"{type(f).__name__} of numba has no compiled loop here")
    if args != [Looped(k) for k in range(len(views))] or count != 1:
        raise TraceError("its other arguments have no compiled loop")
    if isinstance(f, GUFunc) and _cores(f, views, ndim) is None:
        raise TraceError(f"its own signature is {f.signature}")
    cores = {x.shape[ndim:] for x in views}
    if isinstance(f, DUFunc) and len(cores) > 1:
        raise TraceError("its slices have several shapes")

    def run(views: Sequence[np.ndarray], note: Note) -> tuple[np.ndarray, ...]:
        if arguments.numbers:
            views = [*map(_as_python, views)]
        whole: Any = f
        return (np.asarray(whole(*views)),)

    return run


def _cores(f: Any, views: Sequence[Any], ndim: int) -> tuple[int, ...] | None:
    """The core dims of a generalized ufunc, if slices have as many."""
    own = Signature.parse(f.signature)
    wanted = tuple(map(len, own.inputs))
    same = wanted == tuple(x.ndim - ndim for x in views) and len(own.outputs) == 1
    return wanted if same else None


def _positional(f: Any, arguments: Arguments) -> list[Any]:
    """The arguments of a call without keywords, which numba's functions take in loops."""
    if not arguments.kwargs:
        return [*arguments.args]
    try:
        bound = inspect.signature(f.py_func).bind(*arguments.args, **arguments.kwargs)
    except (AttributeError, TypeError, ValueError) as error:
        raise TraceError(f"its keywords: {error}") from None
    if bound.kwargs:
        raise TraceError("it takes keywords")
    return [*bound.args]


def _as_python(x: np.ndarray) -> np.ndarray:
    """Numbers as those of Python that `numpy.vectorize` makes of them."""
    return x.astype(
        {"b": "?", "i": "i8", "u": "i8", "f": "f8", "c": "c16"}[x.dtype.kind], "K", copy=False
    )


class _Compiled:
    """A loop around a function, for slices of some dtypes and numbers of dims."""

    def __init__(
        self, f: Any, args: list[Any], views: Sequence[Any], ndim: int, count: int, numbers: bool
    ) -> None:
        self._f, self._args, self._ndim, self._numbers = f, args, ndim, numbers
        if numbers and any(x.dtype == np.uint64 for x in views):
            raise TraceError("Python's integers may be larger than numba's")
        views = self._given(views)
        typed = [numba.typeof(x) for x in views]
        inner = [_slice_type(t, t.ndim - ndim) for t in typed]
        try:
            constants = [a for a in args if type(a) is not Looped]
            if not all(
                isinstance(a, (int, float, complex, np.generic, np.ndarray)) for a in constants
            ):
                raise TraceError("its other arguments are neither numbers nor arrays")
            called = [inner[a.k] if type(a) is Looped else numba.typeof(a) for a in args]
            found = types.Dispatcher(f).get_call_type(f.typingctx, tuple(called), {})
            if found is None:
                raise TraceError("numba does not compile it for such slices")
            made = found.return_type
            parts = list(made) if isinstance(made, types.BaseTuple) else [made]
            if len(parts) != count or (count > 1) != isinstance(made, types.BaseTuple):
                raise TraceError(f"it returns {made}")
            self._dtypes = [_dtype(t, numbers) for t in parts]
            self._ndims = [getattr(t, "ndim", 0) for t in parts]
            source = _source(
                len(views),
                ["a" if type(a) is Looped else "c" for a in args],
                [a.k for a in args if type(a) is Looped],
                ndim,
                self._ndims,
                count > 1,
            )
            self._loop = _loop(source)
            outs = tuple(
                types.Array(numba.from_dtype(d), ndim + n, "C")
                for d, n in zip(self._dtypes, self._ndims, strict=True)
            )
            place = numba.typeof(np.zeros(1, np.int64))
            shape = types.UniTuple(types.intp, ndim)
            self._loop.compile(
                (types.Dispatcher(f), shape, place, *typed, *map(numba.typeof, constants), *outs)
            )
            self._constants = constants
        except NumbaError as error:
            line = str(error).strip().partition("\n")[0]
            raise TraceError(f"numba does not compile it for such slices: {line}") from None

    def _given(self, views: Sequence[np.ndarray]) -> list[np.ndarray]:
        return [*map(_as_python, views)] if self._numbers else [*views]

    def __call__(self, views: Sequence[np.ndarray], note: Note) -> tuple[np.ndarray, ...]:
        views = self._given(views)
        shape = views[0].shape[: self._ndim]
        first = (0,) * self._ndim
        given = [views[a.k][first] if type(a) is Looped else a for a in self._args]
        if self._numbers:
            given = [x.item() for x in given]
        try:
            found = self._f(*given)
        except Exception as error:
            note(error, first)
            raise
        parts = found if len(self._dtypes) > 1 else (found,)
        outs = []
        for x, dtype, n in zip(map(np.asarray, parts), self._dtypes, self._ndims, strict=True):
            if (x.dtype, x.ndim) != (dtype, n):
                raise TraceError(f"it returns {x.dtype} of shape {x.shape}")
            outs.append(np.empty(shape + x.shape, dtype))
            outs[-1][first] = x
        place = np.zeros(1, np.int64)
        try:
            fits = self._loop(self._f, shape, place, *views, *self._constants, *outs)
        except Exception as error:
            note(error, tuple(map(int, np.unravel_index(int(place[0]), shape))))
            raise
        if not fits:
            raise TraceError("its results have several shapes")
        return tuple(outs)


def _slice_type(t: Any, ndim: int) -> Any:
    """The type of what an array gives for an index of its loop dims."""
    return t.copy(ndim=ndim) if ndim else t.dtype


def _dtype(t: Any, numbers: bool) -> np.dtype:
    """The dtype that NumPy's loop finds in results of a type."""
    if isinstance(t, types.Array) and not numbers:
        return np.dtype(str(t.dtype))
    for kind, name in (
        (types.Boolean, "bool"),
        (types.Float, "float64"),
        (types.Complex, "complex128"),
    ):
        if isinstance(t, kind):  # which are Python's numbers for the interpreter
            return np.dtype(name)
    if isinstance(t, types.Integer) and t != types.uint64:
        return np.dtype("int64")
    raise TraceError(f"it returns {t}")


def _source(
    inputs: int, kinds: list[str], order: list[int], ndim: int, ndims: list[int], several: bool
) -> str:
    """The loop, as text."""
    names = [f"x{k}" for k in range(inputs)]
    constants = [f"c{k}" for k, kind in enumerate(kinds) if kind == "c"]
    looped = iter(order)
    called = [f"x{next(looped)}[ix]" if kind == "a" else f"c{k}" for k, kind in enumerate(kinds)]
    outs = [f"y{k}" for k in range(len(ndims))]
    lines = [
        f"def loop(f, shape, place, {', '.join((*names, *constants, *outs))}):",
        "    n = -1",
        "    for ix in np.ndindex(shape):",
        "        n += 1",
        "        if n == 0:",
        "            continue",
        "        place[0] = n",
        f"        r = f({', '.join(called)})",
    ]
    for k, (out, core) in enumerate(zip(outs, ndims, strict=True)):
        part = f"r[{k}]" if several else "r"
        if core:
            lines += [
                f"        if {part}.shape != {out}.shape[{ndim}:]:",
                "            return False",
            ]
        lines.append(f"        {out}[ix] = {part}")
    return "\n".join((*lines, "    return True", ""))


@remembered(64)
def _loop(source: str) -> Any:
    space = {"np": np}
    exec(compile(source, "<loop of xpapply>", "exec"), space)
    return numba.njit(space["loop"])


class NumbaFrontend(Frontend):
    """Functions that numba compiled; those of any kind, which need no frontend but for speed."""

    ways = ("numba",)
    is_compiled = True

    def lift(self, f: Any, aval: ShapeDtype, args: tuple, kwargs: dict) -> Graph:
        """Refuse: compiled functions have no graph."""
        raise TraceError("it is compiled by numba already")

    def watch(self, f: Any, args: tuple, kwargs: dict, sources: tuple = ()) -> Callable[[], bool]:
        """Constantly True: compiled code does not follow changes of its source."""
        return lambda: True

    def slice_function(self, f: Any) -> Callable[..., Any]:
        """`f` itself."""
        return f  # type: ignore[no-any-return]

    def vectorized(
        self,
        f: Any,
        axis: int,
        arr: Any,
        args: tuple,
        kwargs: dict,
        *,
        trusted: bool = False,
        graph: Graph | None = None,
    ) -> AllAtOnce:
        """All slices of an array, by a compiled loop.

        Raises
        ------
        TraceError
            Where the loop of the interpreter has to run.
        """
        arguments = Arguments((Looped(0), *args), kwargs)
        slices = math.prod(arr.shape) // max(1, arr.shape[axis])
        run = _runner(f, arguments, [_along(arr, axis)], arr.ndim - 1, 1, slices)

        def call(x: Any, a: int) -> Any:
            try:
                (y,) = run([_along(x, a)], lambda error, index: plain.note(error, index, a))
            except TraceError:  # a result has another shape than the first one
                return plain.apply(f, a, x, args, kwargs)
            n = x.ndim - 1
            return y.transpose(*range(a), *range(n, y.ndim), *range(a, n))

        return AllAtOnce("numba", (_in_words(f),), call)

    def looped(
        self,
        f: Any,
        arguments: Arguments,
        views: Sequence[Any],
        loop: tuple[int, ...],
        signature: Signature,
    ) -> tuple[Run, str]:
        """The run of slices of several arrays, with loop dims first, and its description.

        Raises
        ------
        TraceError
            Where the loop of the interpreter has to run.
        """
        if isinstance(f, GUFunc) and _renamed(f.signature) != _renamed(str(signature)):
            raise TraceError(f"its own signature is {f.signature}")
        count = len(signature.outputs)
        return _runner(f, arguments, views, len(loop), count, math.prod(loop)), _in_words(f)


FRONTEND = NumbaFrontend()

"""Functions of Python's numbers on arrays of CuPy's: compiled for the GPU, if they can be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ... import config
from ...functions.cache import cache_of
from ...loop.signature import Dims, Signature
from ...loop.vectorize import LoopedCall
from . import from_source, running
from .ready import Ready
from .running import Refused
from .several_arrays import Several
from .unplanned import ENGINES, why_not_compiled

if TYPE_CHECKING:
    from .typed_loop import TypedLoop


def found(
    call: LoopedCall,
    operands: list[Any],
    dims: Dims,
    by_loop: Callable[..., Any],
    dtypes: Callable[[], tuple[Any, bool]],
    place: Callable[[Exception, tuple[int, ...]], None],
) -> tuple[tuple[Several, TypedLoop] | None, str]:
    """The application of a `vectorize` on a device and its compiled loop; None, and why not.

    Parameters
    ----------
    call, operands, dims, by_loop, place
        As of `Several`.
    dtypes : callable
        Calls the function for the first elements: the dtypes of its results, and whether these
        are a tuple. It is not called for what cannot be compiled.
    """
    what = Several(call, operands, dims, by_loop, place)
    why = _why_not(what) or from_source.is_read(what, cache_of(call.f)[0], what.key)
    if why:
        return None, why
    otypes, several = dtypes()
    count = len(otypes)
    if several and count == 1:
        return None, "f returns a tuple of one"
    how = replace(
        call.arguments,
        results=count if several else 0,
        dtypes=tuple(np.dtype(d) for d in otypes),
    )
    dims = replace(dims, signature=Signature(dims.signature.inputs, ((),) * count))
    what = Several(replace(call, arguments=how), operands, dims, by_loop, place)
    loop, why = compiled(what)
    return (None, why) if loop is None else ((what, loop), "")


def compiled(what: Several) -> tuple[TypedLoop | None, str]:
    """Compile a function of several arrays for a device; None, and why not."""
    if why := _why_not(what):
        return None, why
    known, key = cache_of(what.f)[0], what.key
    loop = known.traced.get(key)
    if loop is not None and not loop.unchanged(what.f):
        loop = None
    if isinstance(loop, Refused):
        return None, loop.why
    if loop is None or running.is_traced(loop):
        loop = from_source.compiled(what, known, key, None, None)
    return loop, "" if loop is not None else from_source.why_not(what, known, key)


def _why_not(what: Several) -> str:
    """Why no function is compiled for such arrays now; "": nothing speaks against it."""
    engine = config.current().engine
    if engine == "loop":
        return "the loop was asked for"
    if off := what.why_not() or why_not_compiled():
        return off
    if engine not in ENGINES.get(what.rules, ()):
        return f"engine={engine!r} is asked for"
    return "its other arguments are not told apart" if what.key is None else ""


def run(what: Several, loop: TypedLoop) -> tuple[Any, Ready | None]:
    """The results for all elements, and what runs such calls again."""
    result: Any = running.at_once(loop, what)
    again = None if loop.record.refused else loop.ran(what.rows())
    if again is None:
        return result, None
    return result, Ready(what.rows(), what.operands, what.arguments, loop, *again)


__all__: Sequence[str] = ("compiled", "found", "run")

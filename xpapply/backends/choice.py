"""The choice of backends, and reasons of those that refuse."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from .. import arrays, config
from ..errors import UnsupportedError
from ..runtime import registry
from . import Backend, Borrower

if TYPE_CHECKING:
    from ..ir.graph import Graph


WAYS = (
    *("cupy-elementwise", "cupy-reduction"),
    *("torch.batch", "torch.vmap", "slicewise", "sklearn.batch", "onnx.batch"),
)
"""Engines that are one way of a backend (`Backend.way`) or of a frontend (`Frontend.ways`) here.

By name, for nothing is loaded to tell what there is; a test compares them.
"""


@functools.cache
def backend(library: str) -> Backend | None:
    """The backend that serves a library's arrays, or None."""
    module = registry.find("backends", library)
    return None if module is None else module.BACKEND


def runner(name: str, library: str) -> Backend:
    """The backend `name` for arrays of a library, whose memory it may borrow."""
    found = backend(name)
    assert found is not None
    return found if name in (library, "array_api") else found.on_borrowed()


@functools.cache
def names() -> tuple[str, ...]:
    """The engines that there are, here and by entry points, whether or not they are installed."""
    found = dict.fromkeys(("loop", "array_api", *registry.names("backends")))
    return (*found, *WAYS)


def check_name(forced: str, own_ways: tuple[str, ...] = ()) -> None:
    """Raise `UnsupportedError` for an engine that does not exist; `own_ways` are a frontend's."""
    if forced and forced not in own_ways and forced not in names():
        there = f"no engine {forced!r}{config.origin('engine')}: there are"
        raise UnsupportedError(f"{there} {', '.join(names())}")


def limits(name: str, arr: Any) -> tuple[float, float] | None:
    """Bytes and operations per second of the device, where the backend knows them."""
    found = backend(name)
    return None if found is None else found.limits(arr)


def candidates(library: str, arr: Any, graph: Graph) -> list[tuple[str, Any]]:
    """Engines to try, fastest first, each with the array as it will see it."""
    own = backend(library)
    found: list[tuple[str, Any]] = []
    if own is not None:
        x = arrays.plain(arr)
        for borrower in own.borrowers(x, graph.result.dtype):
            found.append((borrower.engine, (borrower.view or arrays.plain)(x)))
        found.append((library, arr))
    return [*found, ("array_api", arr)]


def able(
    asked: Iterable[tuple[Backend, Any]],
    why_not: Callable[[Backend, Any], str | None],
    reasons: list[str],
) -> Iterator[tuple[Backend, Any]]:
    """Those that do not refuse their array; reasons of others go to `reasons`."""
    for one, given in asked:
        refusal = why_not(one, given)
        if refusal is None:
            yield one, given
        else:
            reasons.append(f"{one.name}: {refusal}")


def able_for_slices(
    graph: Graph, given: Sequence[Any], reasons: list[str]
) -> list[tuple[Backend, Borrower | None]]:
    """Backends for a function of slices on arrays, each with the borrower of their memory.

    The fastest is the first; the reference is asked where no other can. Why others cannot goes to
    `reasons`. `given` are the arguments that are not numbers.
    """
    library, forced = arrays.library(given[0]), config.current().engine
    assert library is not None
    check_name(forced)
    own = backend(library)
    borrower = None if own is None else own.slices_borrower(given)
    asked: list[tuple[Backend, Borrower | None]] = []
    if isinstance(borrower, str):
        reasons.append(borrower)
    elif own is not None:
        one = own if borrower is None else runner(borrower.engine, borrower.engine)
        others = [runner(name, name) for name in one.slices_engines]
        asked += [(b, borrower) for b in (*others, one)]
    if forced in ("numpy", "cupy", "cpu"):
        asked = list(itertools.dropwhile(lambda found: found[0].name != forced, asked))
        if not asked:
            what = arrays.describe(given[0])
            raise UnsupportedError(f"engine {forced!r} does not run on {what}")
    if forced == "array_api" or (library == "torch" and forced == library):
        asked = []  # others ("loop", "torch.vmap" ...) say how functions of a slice run
    found = [*able(asked, lambda b, _: b.why_not(graph, given), reasons)]
    if not found:
        reference = [(runner("array_api", library), None)]
        found = [*able(reference, lambda b, _: b.why_not(graph, given), reasons)]
    if not found:
        raise UnsupportedError("; ".join(reasons))
    return found

"""NumPy's floating-point error state (`numpy.errstate`) while slices run all at once.

What NumPy would warn of is only noted then. ``f`` itself is called for one of the slices
afterwards, and gives the warning: with its text, at its line, and as often as the filters let it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .errors import TraceError

KINDS = {
    "divide by zero": "divide",
    "overflow": "over",
    "underflow": "under",
    "invalid value": "invalid",
}
"""How NumPy calls an error when it reports one, and when it is told what to do about it."""

_PER_SLICE = frozenset(("call", "print", "log"))


class Handled(TraceError):
    """The user's own handler of floating-point errors counts on being called for each slice."""


def why_per_slice() -> str | None:
    """Why no slices can run together now, whatever the function."""
    found = sorted(_PER_SLICE & set(np.geterr().values()))
    if not found:
        return None
    return f"np.errstate says {found[0]!r}, which is done once per slice and error"


def noted() -> dict[str, str]:
    """The error state, with "call" in the place of "warn".

    Raises
    ------
    Handled
        If errors are printed, logged or given to a function of the user's.
    """
    state = np.geterr()
    if not _PER_SLICE.isdisjoint(state.values()):
        raise Handled(why_per_slice() or "")
    return for_notes(state)


def for_notes(state: Any) -> dict[str, str]:
    """`state` with "call" in the place of "warn"."""
    return {kind: "call" if how == "warn" else how for kind, how in dict(state).items()}


_HUGE = np.array([np.finfo(np.float64).max])


def report_overflow() -> None:
    """Report an overflow to NumPy as a ufunc does: for integers, where ufuncs do not."""
    np.add(_HUGE, _HUGE)


def first_with(kind: str, run: Callable[[Any], Any], n: int) -> int | None:
    """One of `n` slices for which ``run(numbers of slices)`` reports an error; None: no single one.

    Parameters
    ----------
    kind : str
        As NumPy reports it, "overflow".
    run : callable (array of int) -> anything
        Runs some of the slices.
    n : int
        The number of slices.
    """

    def reports(part: Any) -> bool:
        found: set[str] = set()
        quiet = dict.fromkeys(KINDS.values(), "ignore") | {KINDS[kind]: "call"}
        with np.errstate(**quiet, call=lambda name, _: found.add(name)):  # type: ignore[arg-type]
            run(part)
        return kind in found

    part = np.arange(n)
    while len(part) > 1:
        left, right = np.array_split(part, 2)
        part = left if reports(left) else right
    return int(part[0]) if reports(part) else None

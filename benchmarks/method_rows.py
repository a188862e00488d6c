"""The rows of the suite `methods`: what a method is, and the packages that stand beside it.

A method is a function of one pixel, spectrum, series or number as a textbook writes it. Which there
are, how many slices each has and which package stands beside it was written down before the first
of them was timed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .loop_rows import Data, Row

Peer = Callable[..., Any]
"""Of the arrays: what another package finds, in the form of `Method.shown`."""


@dataclass(frozen=True)
class Method(Row):
    """A method of a field.

    Attributes
    ----------
    says : str
        What is computed of what.
    source : str
        Who has written it down.
    sample : int
        So many slices go through NumPy's loop, and are compared with it.
    package : str
        What stands beside it, by its name where it is installed from; "" where nothing does.
    peer : callable or None
        And what calls it.
    part : int
        So many slices go through it.
    near : float
        What it differs by, relatively, in its own accuracy.
    loss : bool
        Whether what is shown is to be small: what is smaller than the package's is no worse.
    begin : callable
        What is called before results are compared: generators begin where they began.
    shown : callable
        Of results and arrays: what it has of them too.
    """

    says: str = ""
    source: str = ""
    sample: int = 500
    package: str = ""
    peer: Peer | None = None
    part: int = 0
    near: float = 1e-9
    loss: bool = False
    begin: Callable[[], None] = lambda: None
    shown: Callable[..., Any] = lambda found, *arrays: found


ROWS: list[Method] = []


def method(
    group: str, count: int, data: Data, signature: str | None = None, **more: Any
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function, which stays what it is."""

    def register(f: Callable[..., Any]) -> Callable[..., Any]:
        says = (f.__doc__ or "").strip().split("\n\n")[0].removesuffix(".")
        ROWS.append(Method(f.__name__, group, f, count, data, signature, says, **more))
        return f

    return register


def rows() -> list[Method]:
    """All of them."""
    from . import method_models, method_pixels, method_series  # noqa: F401

    return ROWS

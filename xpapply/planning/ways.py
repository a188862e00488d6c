"""Ways to run a function on all slices: why one refuses, what it takes, and what it makes ready.

Whoever has ways keeps them in a list, and what runs is chosen from it in one place: `chosen`.
Plans say what that chose. A further way is one more entry of such a list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple


class Said(NamedTuple):
    """What plans say of a run; there are other objects with these attributes.

    `limits`: bytes and floating-point operations per second of the device, where known.
    """

    engine: str
    kernels: tuple[str, ...]
    reasons: tuple[str, ...] = ()
    limits: tuple[float, float] | None = None


class Run(NamedTuple):
    """What runs on slices that lie alike: `what` the `way` has for such."""

    way: Any
    what: Any

    @property
    def says(self) -> Any:
        """What plans say of it, as `Said` has it."""
        return self.way.says(self.what)

    def __call__(self, *given: Any) -> Any:
        """Run on slices."""
        return self.way(self.what, *given)


class Way:
    """One way to run a function on all slices.

    `like` is what stands for slices in the list that a way is in: the rows of a traced function.

    Attributes
    ----------
    name : str
        The engine that is this way alone; "" where what it has for some slices tells.
    """

    name = ""

    def why_not(self, like: Any) -> str | None:
        """Why it does not run on such slices; None: nothing is known that speaks against it."""
        return None

    def seconds(self, like: Any) -> float | None:
        """What it takes for all of them. None: that is not known, and the order of ways tells."""
        return None

    def call_for(self, like: Any) -> Any:
        """What it has for slices that lie like these; None: it refuses."""
        raise NotImplementedError

    def prepare(self, like: Any) -> Run | None:
        """What runs on slices that lie like these; None: it refuses."""
        what = self.call_for(like)
        return None if what is None else Run(self, what)

    def told(self, like: Any) -> tuple[str, ...]:
        """What plans say of it, though nobody has asked for it and something else runs."""
        return ()

    def says(self, what: Any) -> Any:
        """What plans say of what it has for some slices, as `Said` has it."""
        return what

    # --- runs that come after one ---------------------------------------------------------------

    def waited(self, like: Any) -> None:
        """Note that what comes last in the list ran on such slices, in its place."""

    def ran(self, like: Any) -> tuple[Callable[[Any], Any], bool] | None:
        """What ran on such slices, for further ones, and whether it takes any shapes that
        broadcast; None: nothing that runs again as it is.

        It gives the results, or None where the whole way has to be gone again.
        """
        return None

    @property
    def compiles(self) -> bool:
        """Whether the last run has had something compiled: its time tells nothing of the next."""
        return False

    @property
    def state(self) -> Any:
        """What it has made; something else each time while that may change."""
        return None


def chosen(ways: Iterable[Way], like: Any, told: list[str] | None = None) -> Run | None:
    """What the first way that does not refuse has for such slices; None: all refuse.

    `told`: gets what a plan says of that one, and of those before it.
    """
    for way in ways:
        run = way.prepare(like)
        if told is not None:
            told += way.told(like)
        if run is not None:
            if told is not None:
                told += run.says.reasons
            return run
    return None

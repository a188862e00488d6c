"""Ways to run a function on all slices: why one refuses, what it takes, and what it makes ready.

Whoever has ways keeps them in a list, and what runs is chosen from it in one place: `chosen`.
Plans say what that chose. A further way is one more entry of such a list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple


class Said(NamedTuple):
    """Description of a run for plans; other objects have these attributes too.

    `limits`: bytes and floating-point operations per second of the device, where known.
    """

    engine: str
    kernels: tuple[str, ...]
    reasons: tuple[str, ...] = ()
    limits: tuple[float, float] | None = None


class Run(NamedTuple):
    """A prepared run: `what` its `way` made for slices of one layout."""

    way: Any
    what: Any

    @property
    def says(self) -> Any:
        """Its description for plans, with the attributes of `Said`."""
        return self.way.says(self.what)

    def __call__(self, *given: Any) -> Any:
        """Run on slices."""
        return self.way(self.what, *given)


class Way:
    """A strategy to run a function on all slices.

    `like` is what stands for slices in the list that a way is in: the rows of a traced function.

    Attributes
    ----------
    name : str
        The engine that is this way alone; "" where what it has for some slices tells.
    """

    name = ""

    def why_not(self, like: Any) -> str | None:
        """Why such slices are refused; None: they are not."""
        return None

    def seconds(self, like: Any) -> float | None:
        """Estimated seconds for all slices. None: unknown, and the order of ways decides."""
        return None

    def call_for(self, like: Any) -> Any:
        """The prepared call for slices of this layout; None: refused."""
        raise NotImplementedError

    def prepare(self, like: Any) -> Run | None:
        """Prepare a run for slices of this layout; None: refused."""
        what = self.call_for(like)
        return None if what is None else Run(self, what)

    def told(self, like: Any) -> tuple[str, ...]:
        """Remarks for plans though another way runs."""
        return ()

    def says(self, what: Any) -> Any:
        """The description of a prepared call, with the attributes of `Said`."""
        return what

    # --- runs that come after one ---------------------------------------------------------------

    def waited(self, like: Any) -> None:
        """Note that what comes last in the list ran on such slices, in its place."""

    def ran(self, like: Any) -> tuple[Callable[[Any], Any], bool] | None:
        """The last run on such slices, for repeated calls, and whether it takes any shapes that
        broadcast; None: there is none to repeat.

        It gives the results, or None where the whole way has to be gone again.
        """
        return None

    @property
    def compiles(self) -> bool:
        """Whether the last run compiled something, so that its time is no estimate of the next."""
        return False

    @property
    def state(self) -> Any:
        """A key of what has been made; it changes whenever that may have changed."""
        return None


def chosen(ways: Iterable[Way], like: Any, told: list[str] | None = None) -> Run | None:
    """Prepare the first way that does not refuse such slices; None: all refuse.

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

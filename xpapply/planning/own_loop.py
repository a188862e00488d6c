"""The loop over a network or an estimator, as it is remembered with what else is known of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from time import perf_counter
from types import MethodType
from typing import Any
from weakref import proxy, ref

from ..frontends import Frontend
from ..limits import LIMITS
from ..loop import reference
from ..loop.begun import Begun, begun
from ..runtime.budget import Budget


class OwnLoop:
    """Loops over slices along one axis; it does not keep `f` alive.

    A call of an object through a weak reference reaches the object itself. A method would get the
    reference as its `self`: what calls it is made for each loop, of the method that is given.

    Parameters
    ----------
    frontend : Frontend
        Which serves `f`.
    f : callable
        An object, or a method of one.
    axis : int
        Of the slices, not negative.

    Raises
    ------
    TypeError
        If the class of `f` has no weak references.
    """

    def __init__(self, frontend: Frontend, f: Any, axis: int) -> None:
        self._frontend, self.axis = frontend, axis
        self._weak = None if isinstance(f, MethodType) else proxy(f)
        self._one: Callable[..., Any] | None = None
        self._modes: list[ref[Any]] = []
        self.unseen = Budget(0.0)
        """The time that loops may take before the dependencies of `f` are checked again."""
        self.look(f)

    def look(self, f: Any, seconds: float = 0.0) -> None:
        """Make what runs for a slice: it holds for the mode and the device that `f` has now.

        `seconds`: what looking at `f` took besides.
        """
        began = perf_counter()
        if self._weak is not None:
            self._one = self._frontend.slice_function(self._weak)
        self._modes = [ref(m) for m in self._frontend.by_mode(f)]
        self.unseen = Budget(LIMITS.loops_per_look * (seconds + perf_counter() - began))

    @property
    def holds(self) -> bool:
        """Whether no layer with random results is in training mode."""
        layers = [alive() for alive in self._modes]
        return not any(m is not None and m.training for m in layers)

    def begun(self, f: Any, arr: Any, limit: float) -> Begun:
        """Run the first turns of the loop over a plain array, for so many seconds."""
        one = self._one or self._frontend.slice_function(f)
        with (reference.around(one, arr) or nullcontext)():
            return begun(one, self.axis, arr, (), {}, 0.0, limit)

    def __call__(self, f: Any, arr: Any, known: Sequence[Any] = ()) -> Any:
        """Run the loop. `known`: the results of its first turns."""
        began = perf_counter()
        one = self._one or self._frontend.slice_function(f)
        result = reference.apply(one, self.axis, arr, (), {}, known)
        self.unseen.spent += perf_counter() - began
        return result


__all__ = ["OwnLoop"]

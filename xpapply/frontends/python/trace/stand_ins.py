"""Base classes of values that depend on the slice, and their search in arguments.

A stand-in knows the `Recorder` that made it, which is made of stand-ins: so none of this names it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from .tree import Ref


class Results(tuple):
    """Named results, such as SciPy's tests give."""

    def __new__(
        cls, recorder: Any, real: tuple, parts: list[Any], ref: Ref | None, structure: Any
    ) -> Results:
        return super().__new__(cls, parts)

    def __init__(
        self, recorder: Any, real: tuple, parts: list[Any], ref: Ref | None, structure: Any
    ) -> None:
        self._recorder, self._real, self._ref = recorder, real, ref
        # the results of torch have no _fields
        fields: Any = getattr(type(real), "__match_args__", ())
        fields = getattr(structure, "_fields", getattr(real, "_fields", fields))
        self._names = {name: k for k, name in enumerate(fields)}
        self._more = getattr(structure, "__dict__", {})

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._real, name)  # an AttributeError is the user's
        if name in self._names:
            return self[self._names[name]]
        if name in self._more and self._ref is not None:
            ref = Ref(self._ref.index, (*self._ref.item, name))
            return self._recorder._boxed(found, ref, self._more[name], [])
        raise self._recorder.refuse(f"the attribute {name} of {type(self._real).__name__}")


def tracers(tree: Any) -> Iterator[Any]:
    """All tracers in arguments."""
    found: list[Any] = []
    _collect((tree,), found)
    return iter(found)


def _collect(trees: Iterable[Any], found: list[Any]) -> None:
    for x in trees:
        if isinstance(x, Traced):
            found.append(x)
        elif isinstance(x, (tuple, list)):
            _collect(x, found)
        elif isinstance(x, dict):
            _collect(x.values(), found)
        elif isinstance(x, slice):
            _collect((x.start, x.stop, x.step), found)


def replaced(function: Callable[[Any], Any], tree: Any) -> Any:
    """Arguments with another thing for each tracer."""
    if isinstance(tree, Traced):
        return function(tree)
    if isinstance(tree, tuple):
        if hasattr(tree, "_make"):
            return type(tree)._make(replaced(function, x) for x in tree)  # type: ignore[attr-defined]
        return tuple(replaced(function, x) for x in tree)
    if isinstance(tree, list):
        return [replaced(function, x) for x in tree]
    if isinstance(tree, dict):
        return {k: replaced(function, x) for k, x in tree.items()}
    if hasattr(tree, "__xpapply_real__"):
        if type(tree).__name__ == "Object":
            raise tree._xp_stage.recorder.refuse(f"{tree._xp_name} goes into a library's function")
        return tree.__xpapply_real__
    return tree


def values(tree: Any) -> Any:
    """Arguments with real values."""
    return replaced(lambda t: t.value, tree)


def asked(tree: Any, what: str) -> Any:
    """Arguments with real values, of something that no call can be written down for.

    Slices part by whole numbers among them; anything else that depends on the slice is refused.
    """
    return replaced(lambda t: t.asked(what), tree)


def refs(tree: Any) -> Any:
    """Arguments with a `Ref` for what depends on the slice."""
    return replaced(lambda t: t.value if t.ref is None else t.ref, tree)


class Traced:
    """The common base of tracers of all libraries."""

    __slots__ = ()
    recorder: Any
    value: Any
    ref: Ref | None

    is_choice = False
    """Whether it is one of several numbers (`choices.py`)."""

    def settle(self) -> None:
        """Refuse to read uninitialized elements."""

    def asked(self, what: str) -> Any:
        """The value, which other slices that go this way have too."""
        if self.ref is not None:
            raise self.recorder.refuse(f"{what} of a value that depends on the slice")
        return self.value

    def as_numpy(self) -> Any:
        """The array that NumPy makes of it."""
        return self


class Counted:
    """A value whose length depends on the slice."""

    __slots__ = ()

    def length(self) -> Any:
        """``len(x)`` as a Python number that depends on the slice."""
        raise NotImplementedError

    def ordered(self) -> list[Any] | None:
        """``sorted(x)``, if that needs no comparisons."""
        return None

"""The arguments of a call of `f`, some of which are looped over."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from .. import arrays
from .results import Leaves


class Looped(NamedTuple):
    """A placeholder of a looped argument: the index of its array."""

    k: int


def _numbers(result: Any) -> Any:
    """A result, or all of several, as numbers of NumPy if they are arrays of another library."""
    if type(result) is tuple:
        return tuple(map(_numbers, result))
    away = arrays.library(result) in ("cupy", "torch")
    return arrays.on_host(result)[()] if away else result


@dataclass(frozen=True)
class Arguments:
    """The arguments of `f`, with a `Looped` for each that is looped over.

    Attributes
    ----------
    args, kwargs : tuple, dict
        As `f` gets them.
    numbers : bool
        Whether `f` gets single elements as Python's numbers.
    results : int
        How many results are kept apart; 0: what `f` returns becomes one array.
    dtypes : tuple of dtypes, optional
        Of the results, if it is not that of the first slice's.
    exactly : bool
        Whether results become another dtype as Python's numbers do, which never wrap.
    leaves : Leaves, optional
        What takes containers apart.
    on_host : bool
        Whether results may be arrays on a device, of which numbers are made.
    """

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    numbers: bool = False
    results: int = 0
    dtypes: tuple[Any, ...] | None = None
    exactly: bool = False
    leaves: Leaves | None = None
    on_host: bool = False

    def call(self, f: Callable[..., Any], slices: Sequence[Any]) -> Any:
        """Call `f` for one slice of each array."""
        return self.caller(f)(*slices)

    def caller(self, f: Callable[..., Any], *, whole: bool = False) -> Callable[..., Any]:
        """The function that loops call for a slice of each array: `f` if it gets no more.

        `whole`: results that are containers are not taken apart.
        """
        if self.leaves is not None and not whole and not self.leaves.told_plain:
            of, inner = self.leaves.of, self.caller(f, whole=True)
            return lambda *slices: of(inner(*slices))
        if self.on_host:
            of_device = replace(self, on_host=False).caller(f, whole=whole)
            return lambda *slices: _numbers(of_device(*slices))
        args = self.args
        at = [(i, a.k) for i, a in enumerate(args) if type(a) is Looped]
        if not self.kwargs and at == [(i, i) for i in range(len(args))]:
            return f
        given, named = list(args), dict(self.kwargs)
        by_name = [(n, a.k) for n, a in named.items() if type(a) is Looped]

        def called(*slices: Any) -> Any:
            for i, k in at:
                given[i] = slices[k]
            for n, k in by_name:
                named[n] = slices[k]
            return f(*given, **named)

        called.__name__ = getattr(f, "__name__", "f")  # which NumPy's warnings name
        return called

    def given(self, slices: Sequence[Any]) -> Sequence[Any]:
        """Arguments of `f` for one slice of each array, numbers as Python's."""
        return [x.item() for x in slices] if self.numbers else slices

    def replaced(self, function: Callable[[Any], Any]) -> Arguments:
        """The same with a function applied to each argument that is not looped."""

        def other(a: Any) -> Any:
            return a if type(a) is Looped else function(a)

        named = {n: other(a) for n, a in self.kwargs.items()}
        return replace(self, args=tuple(map(other, self.args)), kwargs=named)

    def places(self) -> tuple[Any, ...]:
        """The positions of looped arguments."""
        named = {n: a for n, a in self.kwargs.items() if type(a) is Looped}
        return tuple(a if type(a) is Looped else None for a in self.args), tuple(named.items())

    def constants(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The other arguments."""
        args = tuple(a for a in self.args if type(a) is not Looped)
        return args, {n: a for n, a in self.kwargs.items() if type(a) is not Looped}


@functools.lru_cache(16)
def all_looped(count: int) -> Arguments:
    """So many arguments, all of which are looped over."""
    return Arguments((*map(Looped, range(count)),), {})

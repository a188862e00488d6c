"""Caches: of functions, dropped with them, and of what was compiled for graphs.

`clear` forgets all of it. What is kept elsewhere are facts: about dtypes, names, the functions of
libraries and where modules are.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Collection, Hashable, Sequence
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType
from typing import Any, ParamSpec, TypeVar

import numpy as np

from ..limits import LIMITS
from ..runtime.budget import Budget
from ..runtime.registry import generator_kind, of_generator
from .estimators import BatchOfOne
from .purity import python_function, writes
from .snapshots import Weak, exact, number_kind, same, snapshot

_P = ParamSpec("_P")
_R = TypeVar("_R")
_D = TypeVar("_D", bound="Dict")


class Dict(dict[Hashable, Any]):
    """A dict that can be referenced weakly."""


class BoundedDict(Dict):
    """A dict that starts anew when it is full."""

    def __setitem__(self, key: Hashable, value: Any) -> None:
        if len(self) >= LIMITS.remembered and key not in self:
            self.clear()
        super().__setitem__(key, value)


_results: list[functools._lru_cache_wrapper[Any]] = []
_dicts: weakref.WeakValueDictionary[int, Dict] = weakref.WeakValueDictionary()
"""Caches by identity."""


def remembered(most: int) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """`functools.lru_cache` for so many results, which `clear` forgets."""

    def decorate(f: Callable[_P, _R]) -> Callable[_P, _R]:
        found = functools.lru_cache(maxsize=most)(f)
        _results.append(found)
        return found  # type: ignore[return-value]

    return decorate


def kept(found: _D) -> _D:
    """A dict that is there for as long as something else holds it, and that `clear` empties."""
    _dicts[id(found)] = found
    return found


class Family:
    """What is known of a function for arguments of some kinds, whatever their numbers are.

    Attributes
    ----------
    last : object
        What was made last with constants, or with fewer given numbers; see `functions.given`.
    loop : object
        What runs it with given numbers; None: there is none.
    quick, awaited : Budget or None
        What loops may take, before anything is planned, and before something is compiled.
    """

    def __init__(self) -> None:
        self.last: Any = None
        self.loop: Any = None
        self.quick: Budget | None = None
        self.awaited: Budget | None = None
        self._fixed: set[_Place] = set()

    def join(self, known: dict[Any, Any], key: Hashable, source: Hashable) -> Budget | None:
        """Let loops with these numbers count as those with others: what they are noted in."""
        for own, budget in ((key, self.quick), (source, self.awaited)):
            if budget is not None and own not in known:
                known[own] = budget
        return known.get(key)

    def places(self, f: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Collection[_Place]:
        """Which numbers are to be given from now on: those that were others before."""
        if self.last is None:
            return ()
        found = self.last.given.others(f, args, kwargs)
        known = {*self.last.given.places}
        if found is not None and found and found <= known:  # who reads one has to know it as well
            self._fixed |= found
        return (known | (found or set())) - self._fixed

    def fix(self, places: Collection[_Place]) -> None:
        """Let some numbers be constants, since they have to."""
        known = set() if self.last is None else {*self.last.given.places}
        self._fixed |= {*places} - known or {*places}

    def note(self, found: Any) -> None:
        """Note what was made; with constants, where it runs long, it takes the place of none."""
        if found.kinds:
            self.loop = found
        if found.kinds or self.loop is None:
            self.last = found


_Place = tuple[Any, tuple[int, ...]]
_families: weakref.WeakKeyDictionary[CodeType, BoundedDict]
_families = weakref.WeakKeyDictionary()
"""By the code of a function what serves it whatever numbers it has: see `functions.given`."""


def families(f: Any, is_new: bool = False) -> BoundedDict | None:
    """What is known of functions with the same code, by the kinds of what they are called with.

    `is_new`: whether to begin, if there is nothing.
    """
    own = python_function(f)
    if own is None:
        return None
    found = _families.get(own.__code__)
    if found is None and is_new:
        found = _families[own.__code__] = BoundedDict()
    return found


def clear() -> None:
    """Forget everything that was planned, traced or compiled: the next call is a first one.

    Arrays, weights and buffers that were kept for further calls are freed.
    """
    for results in _results:
        results.cache_clear()
    for found in list(_dicts.values()):
        found.clear()
    _by_object.clear()
    _by_code.clear()
    _families.clear()


def _gone() -> None:
    """A placeholder of a function that does not exist, or no longer."""


class FunctionCache:
    """The cache of a function: graphs and traces by slice, plans by array.

    It holds on to nothing that the function reaches, which may reach the function itself: a
    value that keeps its own key is never freed.
    """

    def __init__(self) -> None:
        self.lifted = BoundedDict()
        self.plans = BoundedDict()
        self.traced = BoundedDict()
        self.leaves = BoundedDict()
        self.looped = BoundedDict()
        """Kinds of arguments for which `vectorize` runs it in the loop."""
        self.ready: weakref.WeakValueDictionary[Hashable, Any] = weakref.WeakValueDictionary()
        """Prepared runs by the layout of a call of `vectorize`."""
        self.batched = BoundedDict()
        """The kinds of slices that it takes in batches alone."""
        self.warned: set[Hashable] = set()
        self.function: Callable[[], Any] = _gone
        """A reference to the function of the last call."""


_by_object: dict[int, tuple[weakref.ref[Any], FunctionCache]] = {}
"""Keys by identity: objects that compare equal may be different functions."""
_by_code: weakref.WeakKeyDictionary[CodeType, list[tuple[int, list[Any], FunctionCache]]]
_by_code = weakref.WeakKeyDictionary()
"""Python functions: a lambda that is written in a loop is made anew each time, and is the same
function as long as what it closes over is the same. What a decorator makes of several functions
has one code, and is another function for each: they are remembered side by side, the last first."""


def cache_of(f: Any) -> tuple[FunctionCache, Hashable]:
    """The cache of `f`, and the key of a method of its object."""
    if type(f) is FunctionType:
        return _of_code(f), None
    if type(f) is BatchOfOne:  # made anew for each call
        known, method = cache_of(f.func)
        return known, (BatchOfOne.says, f.row, method)
    anchor, method = (f.__self__, _weakly(f.__func__)) if type(f) is MethodType else (f, None)
    key = id(anchor)
    found = _by_object.get(key)
    if found is not None and found[0]() is anchor:
        return found[1], method
    made = FunctionCache()
    try:
        ref = weakref.ref(anchor, functools.partial(_forget, key))
    except TypeError:
        builtin = isinstance(anchor, (BuiltinFunctionType, np.ufunc, type(np.sum)))
        if not builtin and not type(anchor).__module__.startswith("cupy."):
            return made, method  # cannot be referenced weakly: remember nothing
        ref = lambda: anchor  # type: ignore[assignment]  # noqa: E731  # it lives for ever
    made.function = ref
    _by_object[key] = ref, made
    return made, method


_prepared: dict[int, tuple[weakref.ref[Any], weakref.ref[CodeType], Any]]
_prepared = kept(BoundedDict())  # type: ignore[assignment]
"""Functions by identity, with the code that they had, and their prepared runs.

Each look at a function's code or defaults is an event that audit hooks are told of, and several
libraries have one: to know a function by those costs more than a launch.
"""


def prepared(f: Any, layout: Hashable) -> Any:
    """The prepared run of a function for some layout, whose guards are to be asked; or None."""
    last = _prepared.get(id(f))
    known: Any = None
    if last is not None and f is last[0]():
        own: Any = f
        known = last[2].get(layout) if own.__code__ is last[1]() else None
    if known is not None:
        return known
    some = cache_of(f)[0].ready
    known = some.get(layout)
    if known is not None and type(f) is FunctionType:
        _prepared[id(f)] = weakref.ref(f), weakref.ref(f.__code__), some
    return known


def unprepared(f: Any) -> None:
    """Have the next call of a function look anew for what is prepared."""
    _prepared.pop(id(f), None)


def _weakly(x: Any) -> Hashable:
    """`x` as a part of a key that does not keep it alive."""
    return weakref.ref(x) if type(x) is FunctionType or isinstance(x, type) else x


def _forget(
    key: int,
    gone: weakref.ref[Any],
    known: dict[int, tuple[weakref.ref[Any], FunctionCache]] = _by_object,
) -> None:
    """Drop what is known of an object that is gone, unless another one has its identity now.

    It asks for no global: objects may outlive those of this module when Python ends.
    """
    if key in known and known[key][0] is gone:
        del known[key]


def _of_code(f: FunctionType) -> FunctionCache:
    # The globals by their address: they are looked at again before anything is used. So are the
    # contents of containers, which are told apart by their class alone.
    place, own = id(f.__globals__), parts(f)
    some = _by_code.get(f.__code__, [])
    for k, (where, was, found) in enumerate(some):
        if where == place and len(was) == len(own) and all(map(same, own, was)):
            known = found
            if k:  # a list of its own: other threads may go through this one
                _by_code[f.__code__] = [some[k], *some[:k], *some[k + 1 :]]
            break
    else:
        known = FunctionCache()
        made = place, [snapshot(x) for x in own], known
        _by_code[f.__code__] = [made, *_beside(some, own)]
    if known.function() is not f:
        known.function = weakref.ref(f)
    return known


def _beside(
    some: list[tuple[int, list[Any], FunctionCache]], own: list[Any]
) -> list[tuple[int, list[Any], FunctionCache]]:
    """What stays remembered beside a function: those of the same code around other objects.

    Where only numbers differ, `families` knows them, and there may be ever new ones.
    """
    if all(x is None or isinstance(x, type) or number_kind(x) is not None for x in own):
        return []
    lives = [x for x in some if not any(type(s) is Weak and s() is None for s in x[1])]
    return lives[: LIMITS.decorated - 1]


def parts(f: FunctionType) -> list[Any]:
    """What tells functions with the same code apart: defaults, and what they close over."""
    found: list[Any] = []
    if f.__defaults__:
        found += map(_part, f.__defaults__)
    if f.__kwdefaults__:
        found += map(_part, f.__kwdefaults__.values())
    if f.__closure__ is None:
        return found
    # a counter that it counts with does not make another function of it, which runs in the loop
    written = writes(f.__code__)
    for name, cell in zip(f.__code__.co_freevars, f.__closure__, strict=True):
        try:
            found.append(None if name in written else _part(cell.cell_contents))
        except ValueError:  # not yet set
            found.append(None)
    return found


def _part(x: Any) -> Any:
    if isinstance(x, (list, tuple, dict, set)):
        return type(x)
    kind = of_generator(x)  # who draws from one draws from another one of its kind
    return x if kind is None else kind


def arguments(args: tuple, kwargs: dict, kinds: bool = False) -> Hashable | None:
    """Further arguments of `f` as a key; None where they cannot be one.

    `kinds`: numbers that may be given are known by their types alone.
    """
    found = [_argument(a, kinds) for a in (*args, *kwargs.values())]
    return None if None in found else (*found, *kwargs)


def _content(x: np.ndarray) -> bytes:
    if x.nbytes <= 1 << 12:
        return x.tobytes()
    import hashlib

    return hashlib.blake2b(np.ascontiguousarray(x).reshape(-1).view(np.uint8).data).digest()


def _argument(x: Any, kinds: bool = False) -> Hashable | None:
    if kinds and (kind := number_kind(x)) is not None:
        return kind, None
    if type(x) in (int, float, bool, str, complex, bytes, type(None), type(np.sum)):
        return type(x), exact(x)
    if type(x) in (tuple, list):
        parts = tuple(_argument(y, kinds) for y in x)
        return None if None in parts else (type(x), parts)
    if isinstance(x, type):
        return type, _weakly(x)
    if isinstance(x, np.dtype):
        return type(x), x
    if isinstance(x, np.generic):
        return None if x.dtype.hasobject else (type(x), exact(x))
    if type(x) is np.ndarray and not x.dtype.hasobject and x.nbytes <= LIMITS.keyed:
        return x.shape, x.strides, x.dtype.str, _content(x)
    if generator_kind(x):
        return type(x), x  # by identity
    return None

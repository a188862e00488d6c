"""Guards: whether what a function depends on is what it was when its plan was made.

A guard looks at *places*: a global of a function, a variable of an enclosing one, an entry of an
object or a module, an attribute of a class. What is found there is compared by identity, plain
values by their bits, lists and dicts by their contents, arrays by their bytes.

Where the number of a place was another one before, any number of its type may come: those are
*given* numbers, which compiled code reads anew for each call.

Nothing that a function reaches is kept alive by what is known of it: places hang on their
holders weakly, and so do values that hold further objects. Otherwise a function, whose globals
reach the function itself, could never be freed.
"""

from __future__ import annotations

import functools
import itertools
import operator
import types
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ..limits import LIMITS
from .snapshots import (
    MISSING,
    Alike,
    Contents,
    Paths,
    Weak,
    followed,
    lives_on,
    others,
    same,
    snapshot,
)

_MISSINGS, _NONES = itertools.repeat(MISSING), itertools.repeat(None)


def _is_same_array(x: np.ndarray, was: tuple[Any, Any]) -> bool:
    """Whether an array has the same form and content."""
    form, content = was
    if _form(x) != form:
        return False
    if isinstance(content, np.ndarray):
        return bool(np.array_equal(_bytes(x), content))
    return bool(_content(x) == content)


def _has_form(x: Any, was: tuple[Any, int]) -> bool:
    return (x.dtype, x.ndim) == was


def _form(x: np.ndarray) -> Any:
    return x.shape, x.dtype, x.strides


def _content(x: np.ndarray) -> Any:
    if x.nbytes <= 1 << 12:
        return x.tobytes()
    if x.nbytes <= LIMITS.copied:
        return _bytes(x).copy()
    import hashlib

    return hashlib.blake2b(_bytes(x).data).digest()


def _bytes(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x).reshape(-1).view(np.uint8)


def _reference(x: Any) -> Callable[[], Any]:
    try:
        return weakref.ref(x)
    except TypeError:
        return lambda: x


# --- places -------------------------------------------------------------------------------------


def _cell(cells: tuple[types.CellType, ...], index: int, default: Any) -> Any:
    try:
        return cells[index].cell_contents
    except (IndexError, ValueError):  # not yet set
        return default


def _entry_of_classes(cls: type, name: str, default: Any) -> Any:
    return next((vars(c)[name] for c in cls.__mro__ if name in vars(c)), default)


def _asks_users(cls: type, name: str, found: Any) -> bool:
    """Whether a class that is asked for an attribute runs a user's code, which may have effects."""
    get = _entry_of_classes(type(found), "__get__", None)
    of_meta = _entry_of_classes(type(cls), name, None)
    return (
        type(get) is types.FunctionType
        or type(cls).__getattribute__ is not type.__getattribute__
        or (of_meta is not None and hasattr(type(of_meta), "__set__"))
    )


_LOOK: dict[str, Callable[[Any], Callable[[Any, Any], Any]]] = {
    "global": lambda f: f.__globals__.get,
    "entry": lambda x: vars(x).get,
    "attribute": lambda x: functools.partial(getattr, x),
    "cell": lambda f: functools.partial(_cell, f.__closure__ or ()),
    "of classes": lambda cls: functools.partial(_entry_of_classes, cls),
    "base": lambda cls: dict(enumerate(cls.__mro__)).get,
}
"""Kinds of places: for a holder, what gives the value for a name."""


class _Places:
    """The places of one kind in one holder.

    Names and values stand in lists by how the values compare, so that `map` does it in C: this
    is what a repeated call waits for.
    """

    __slots__ = ("deep", "look", "plain", "ref", "weak")

    def __init__(self, ref: Callable[[], Any] | None, kind: str) -> None:
        self.ref, self.look = ref, _LOOK[kind]
        # names, and what was found: values, references to values, contents of containers
        self.plain: tuple[list[Any], list[Any]] = ([], [])
        self.weak: tuple[list[Any], list[Any]] = ([], [])
        self.deep: tuple[list[Any], list[Any]] = ([], [])

    def has(self, holder: Any) -> bool:
        """Whether these belong to `holder`, not to an object that had its address before."""
        return self.ref is None or self.ref() is holder

    def add(
        self,
        name: Any,
        value: Any,
        alike: Callable[[Any], Any] | None = None,
        given: Paths = frozenset(),
    ) -> None:
        was = snapshot(value, (), given) if alike is None else Alike(alike, value)
        kind = type(was)
        names, found = self.weak if kind is Weak else self.deep if kind in _DEEP else self.plain
        names.append(name)
        found.append(was)

    def give(self, name: Any, value: Any, paths: Paths) -> None:
        """Let other numbers come in the place of some of a value."""
        for names, found in (self.plain, self.weak, self.deep):
            if name in names:
                k = names.index(name)
                del names[k], found[k]
                break
        self.add(name, value, None, paths)

    def unchanged(self, get: Callable[[Any, Any], Any]) -> bool:
        """Whether all places have the same values."""
        names, values = self.plain
        if len(names) == 1 and get(names[0], MISSING) is values[0]:
            pass
        elif names and not all(map(operator.is_, map(get, names, _MISSINGS), values)):
            now = list(map(get, names, _MISSINGS))
            if not all(map(same, now, values)):
                return False
            values[:] = now
        names, values = self.weak
        if names:
            found = [*map(operator.call, values)]
            if not all(map(operator.is_, map(get, names, _MISSINGS), found)):
                return False
            if any(map(operator.is_, found, _NONES)):  # it is gone, and None is in its place
                return False
        names, values = self.deep
        return not names or all(map(same, map(get, names, _MISSINGS), values))

    def others(self, get: Callable[[Any, Any], Any]) -> list[tuple[Any, tuple[int, ...]]] | None:
        """The names and paths of other numbers; None: something else is another one."""
        found = []
        for names, values in (self.plain, self.weak, self.deep):
            for name, was in zip(names, values, strict=True):
                some = others(get(name, MISSING), was)
                if some is None:
                    return None
                found += [(name, path) for path in some]
        return found


_DEEP = Contents, Alike
_NOT_FOLLOWED = type, types.ModuleType, types.FunctionType, types.MethodType


Where = tuple[int, str, Any]
"""A place: the holder by identity, 0 for the function that runs; its kind; its name."""

Place = tuple[Where, tuple[int, ...]]
"""Where a number is found: a place, and the path in what stands there."""


def argument(name: int | str) -> Where:
    """The place of an argument that it is called with, by its number or name."""
    return 0, "argument", name


class Guards:
    """The places that a function reached, and their values.

    Call it with the function that is about to run: ``guards(f)`` is whether nothing has changed.
    (A lambda in a loop is made anew each time. What stands for it is the one that is called.)

    Parameters
    ----------
    given : collection of (place, path)
        Where numbers are given: another one of its type is no change.

    Attributes
    ----------
    given : dict
        By these, an array of one number, as far as such a number was read.
    """

    def __init__(self, given: Iterable[Place] = ()) -> None:
        self.given: dict[Place, np.ndarray | None] = dict.fromkeys(given)
        self._root: Callable[[], Any] = lambda: None
        self._places: dict[tuple[int, str], _Places] = {}
        self._seen: set[tuple[int, str, Any, bool]] = set()
        self._all: list[_Places] = []
        self._names: dict[int, tuple[Callable[[], Any], tuple[str, ...]]] = {}
        self._checks: list[Callable[[], bool]] = []
        self._arrays: dict[int, weakref.ref[Any]] = {}
        self._forms: dict[int, weakref.ref[Any]] = {}

    def __call__(self, root: Any = None) -> bool:
        """Whether all is unchanged."""
        for places in self._all:
            ref = places.ref
            holder = root if ref is None else ref()
            if holder is None or not places.unchanged(places.look(holder)):
                return False
        if self._names and not self._same_names():
            return False
        return not self._checks or all(check() for check in self._checks)

    def _same_names(self) -> bool:
        """Whether classes and objects have the same entries."""
        for ref, names in self._names.values():
            holder = ref()
            if holder is None or tuple(vars(holder)) != names:
                return False
        return True

    def start(self, root: Any) -> None:
        """Say which function it is that `Guards` are called with."""
        try:
            self._root = weakref.ref(root)
        except TypeError:
            self._root = lambda: None

    def settle(self) -> None:
        """Forget objects that are gone right after a run: it made them, and the next makes its own.

        Its classes and functions, which decide what these objects are, are looked at as ever.
        """
        gone = {k for k, p in self._places.items() if p.ref is not None and p.ref() is None}
        if gone:
            self._all = [p for p in self._all if p.ref is None or p.ref() is not None]
            self._places = {k: p for k, p in self._places.items() if k not in gone}
            self._seen = {seen for seen in self._seen if seen[:2] not in gone}
        for k in [k for k, (ref, _) in self._names.items() if ref() is None]:
            del self._names[k]

    def add(self, check: Callable[[], bool]) -> None:
        """A further question."""
        self._checks.append(check)

    def place(self, holder: Any, kind: str, name: Any) -> Callable[[Any], Any]:
        """A function that reads a place, also of the function about to run."""
        ref = None if holder is self._root() else _reference(holder)
        look = _LOOK[kind]
        return lambda root: look(root if ref is None else ref())(name, MISSING)

    def look(
        self,
        holder: Any,
        kind: str,
        name: Any,
        alike: Callable[[Any], Any] | None = None,
        gives: bool = False,
    ) -> Any:
        """Look at a place from now on; what is there now.

        `alike`: what of a value may not change; None: it stays the same one. `gives`: whether who
        looks reads all numbers of `given` anew for each call.
        """
        value = _LOOK[kind](holder)(name, MISSING)
        is_root = holder is self._root()
        key = (0 if is_root else id(holder), kind)
        places = self._places.get(key)
        if places is None or not places.has(holder):
            if places is not None:  # one that is gone had its address
                self._seen = {seen for seen in self._seen if seen[:2] != key}
            ref = None if is_root else _reference(holder)
            places = self._places[key] = _Places(ref, kind)
            self._all.append(places)
        if (*key, name, gives) not in self._seen:
            self._seen.add((*key, name, gives))
            places.add(name, value, alike)
        return value

    def give(self) -> None:
        """Let other numbers come from now on where those of `given` were read."""
        read = [where for where, x in self.given.items() if x is not None]
        for at in {at for at, _ in read if at[1] != "argument"}:
            paths = frozenset(path for other, path in read if other == at)
            places = self._places[at[:2]]
            holder = self._root() if places.ref is None else places.ref()
            places.give(at[2], places.look(holder)(at[2], MISSING), paths)

    def at(self, holder: Any, kind: str, name: Any) -> Where:
        """A place, as `given` has it."""
        return 0 if holder is self._root() else id(holder), kind, name

    def number(self, root: Any, at: Where, path: Sequence[int]) -> Any:
        """The number that stands at a place now."""
        places = self._places[at[:2]]
        holder = root if places.ref is None else places.ref()
        return followed(places.look(holder)(at[2], MISSING), path)

    def others(self, root: Any) -> list[Place] | None:
        """Where the function about to run has other numbers; None: something else has changed."""
        found: list[Place] = []
        here = {id(places): key for key, places in self._places.items()}
        for places in self._all:
            holder = root if places.ref is None else places.ref()
            if holder is None or id(places) not in here:
                return None
            some = places.others(places.look(holder))
            if some is None:
                return None
            found += [((*here[id(places)], name), path) for name, path in some]
        return found if self._same_names() and all(check() for check in self._checks) else None

    def names(self, x: Any, inside: bool = False) -> None:
        """Guard the set of entries of a class or an object.

        `inside`: whether the function that runs reaches `x`. Unless it reaches itself, nothing
        asks it for attributes.
        """
        known = self._names.get(id(x))
        if x is self._root():
            if inside:
                self.look(x, "attribute", "__dict__")
        elif known is None or known[0]() is not x:  # one that is gone had its address
            self._names[id(x)] = _reference(x), tuple(vars(x))

    def attribute_of_class(self, cls: type, name: str) -> None:
        """An attribute of a class, wherever it is found among its bases; also if there is none."""
        if lives_on(cls):
            return
        found = _entry_of_classes(cls, name, MISSING)
        # a class method is made anew each time; what calls a class belongs to its own class
        quiet = found is not MISSING and not _asks_users(cls, name, found)
        if quiet and getattr(cls, name, MISSING) is found:
            self.look(cls, "attribute", name)
            return
        self.bases(cls)
        for c in cls.__mro__:
            if not lives_on(c):
                self.names(c)
                if name in vars(c):
                    self.look(c, "entry", name)

    def bases(self, cls: type) -> None:
        """The bases of a class, theirs included."""
        for k in range(1, len(cls.__mro__) + 1):
            self.look(cls, "base", k)

    def function(self, f: types.FunctionType, gives: bool = False) -> None:
        """The code and the defaults of a function; `gives`: see `look`."""
        for name in ("__code__", "__defaults__", "__kwdefaults__"):
            # of the root another one with the same code may be called
            if name != "__code__" or f is not self._root():
                self.look(f, "attribute", name, gives=gives)

    def kind(self, x: Any) -> None:
        """The class of an instance, and the bases of the class."""
        self.look(x, "attribute", "__class__")
        if not lives_on(type(x)):
            self.bases(type(x))

    def array(self, x: np.ndarray) -> None:
        """The content of an array."""
        known = self._arrays.get(id(x))
        if known is None or known() is not x:
            was = _form(x), _content(x)
            self._arrays[id(x)] = self.content(x, was, _is_same_array)

    def form(self, x: Any) -> None:
        """The dtype and the number of axes of an array whose content each call reads anew."""
        known = self._forms.get(id(x))
        if known is None or known() is not x:
            self._forms[id(x)] = self.content(x, (x.dtype, x.ndim), _has_form)

    def standard_array(self, x: Any) -> None:
        """An array of the standard, which may be written to: no other guard looks into it."""
        try:
            was = np.from_dlpack(x).tobytes()
            self.content(x, was, lambda now, was: np.from_dlpack(now).tobytes() == was)
        except (AttributeError, BufferError, RuntimeError, TypeError):
            return  # made of tasks, or immutable

    def content(self, x: Any, was: Any, same: Callable[[Any, Any], bool]) -> weakref.ref[Any]:
        """An object that is written to in place: ``same(x, was)``, as long as it is there."""
        ref = weakref.ref(x)

        def unchanged() -> bool:
            now = ref()
            return now is not None and same(now, was)

        self._checks.append(unchanged)
        return ref

    def object(self, x: Any, depth: int = 2) -> None:
        """An object of a library, which its attributes describe.

        Some do so by other objects of the library: SciPy's splines have their coefficients in one,
        from 1.18 on. `depth`: how far these are followed.
        """
        root = type(x).__module__.partition(".")[0]
        for name in (*getattr(x, "__dict__", {}), *getattr(type(x), "__slots__", ())):
            value = self.look(x, "attribute", name)
            if isinstance(value, np.ndarray):
                self.array(value)
            elif depth and hasattr(value, "__dict__") and not isinstance(value, _NOT_FOLLOWED):
                if root == type(value).__module__.partition(".")[0]:
                    self.object(value, depth - 1)

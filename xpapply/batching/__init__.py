"""THE OTHER TABLE: library functions that xpapply knows how to run for all slices at once.

`ir/ops/` has the ops that kernels are generated from. Here are the functions
that people call inside ``f``: one `BatchingRule` row each, with the *batching rule*
that turns one call on a slice into one call on all of them. Rules of a package
are in the folder of that name (``batching/numpy``, ``batching/scipy``); a row is
found by the function object, and nothing is imported that the user has not.

While rules run, what depends on the slice is a `Batched`: an array with the batch
axis first. Everything else is as ``f`` passed it.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import numpy as np

from ..errors import UnsupportedError
from ..functions.snapshots import lives_on
from .names import CUPY, mirrored, public_names, root_of


class Batched:
    """One value per slice: an array ``(B, *shape)``."""

    __slots__ = ("array",)

    def __init__(self, array: Any) -> None:
        self.array = array

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the value of one slice."""
        return tuple(self.array.shape[1:])

    @property
    def ndim(self) -> int:
        return self.array.ndim - 1

    @property
    def dtype(self) -> Any:
        return self.array.dtype

    def __repr__(self) -> str:
        return f"Batched({self.dtype}{self.shape} of {self.array.shape[0]})"


class OneByOne(Batched):
    """`Batched` that a function was called for slice by slice."""

    __slots__ = ()


def one_by_one(found: Any) -> bool:
    """Whether a rule has called its function slice by slice."""
    if isinstance(found, (tuple, list)):
        return any(map(one_by_one, found))
    return type(found) is OneByOne


class NoRule(UnsupportedError):
    """A batching rule does not cover these arguments."""


class RaisesForSome(Exception):
    """A rule knows for which slices its function raises, and what.

    Parameters
    ----------
    error : Exception
        As the function raises it for one of them.
    which : array of bool (B,)
        These slices.
    """

    def __init__(self, error: Exception, which: Any) -> None:
        super().__init__(str(error))
        self.error, self.which = error, which


@dataclass(frozen=True, eq=False)
class BatchingRule:
    """A batching rule: a function, and how it runs on all slices.

    Attributes
    ----------
    name : str
        Qualified name, ``"numpy.convolve"``.
    rule : callable ``rule(xp, call, args, kwargs)``
        The batching rule: `call` is the function in the namespace `xp`; `args` and
        `kwargs` hold `Batched`. Returns `Batched`, a plain value that is the same for all
        slices, or a tuple/list of these.
    kind : str
        What the docs say of it: "elementwise", "axis", "stacked", "own".
    exact : bool
        Whether the rule calls the same function, so that it is not tried out on the
        slice that is traced.
    fresh : bool
        Whether results share no memory with what the call gets, but where a trace finds that
        they do.
    lazy : bool
        Whether it need not run where nothing uses the result: it cannot raise or warn.
    method : str
        Of a method of a ufunc, its name: "accumulate".
    """

    name: str
    rule: Callable[..., Any]
    kind: str = "own"
    exact: bool = False
    fresh: bool = False
    lazy: bool = False
    method: str = ""

    def __str__(self) -> str:
        return self.name


PACKAGES = ("numpy", "scipy", "cupy", "xpapply")
"""Packages that have a module of rows here."""
_NEEDS = {"xpapply": "xpapply.special"}
"""The module that has their functions, where the package alone has none."""

_by_object: dict[int, tuple[Any, BatchingRule | None]] = {}
_by_name: dict[str, BatchingRule] = {}
_functions: dict[str, Any] = {}
"""The functions of the rows: also after a user has put another one in the place of one."""
_loaded: set[str] = set()


def rows() -> Iterable[BatchingRule]:
    """All rows, for the docs and the tests."""
    for package in PACKAGES:
        yield from importlib.import_module(f"{__name__}.{package}").ROWS


def resolve(name: str) -> Any:
    """The object of a qualified name, None if its module is not loaded or does not have it."""
    module_name, _, attribute = name.rpartition(".")
    module = sys.modules.get(module_name)
    if module is None:  # a class: numpy.ufunc.reduce is none of ours, numpy.ndarray.mean is
        parent, _, cls = module_name.rpartition(".")
        # what is there, not what the module would import when it is asked: cupyx.scipy.signal
        module = getattr(sys.modules.get(parent), "__dict__", {}).get(cls)
    return getattr(module, attribute, None)


def find(function: Any) -> BatchingRule | None:
    """The row of a function object, or None."""
    found = _by_object.get(id(function))
    if found is not None and found[0] is function:
        return found[1]
    if isinstance(function, FunctionType) and not lives_on(function):
        return None  # a user's, which is not kept alive
    for package in PACKAGES:
        _load(package)
    found = _by_object.get(id(function))
    if found is not None and found[0] is function:
        return found[1]
    row = _by_public_name(function) if root_of(function) in CUPY else None
    _by_object[id(function)] = function, row  # keeps the function, so that its id stays its own
    return row


def _by_public_name(function: Any) -> BatchingRule | None:
    """The row of a function of CuPy: its own, or that of the function which it is made after."""
    if not _by_name:
        _by_name.update((row.name, row) for row in rows())
    names = public_names(function)
    for name in (*names, *map(mirrored, names)):
        if name in _by_name:
            return _by_name[name]
    kinds = importlib.import_module(f"{__name__}.cupy")
    return kinds.elementwise_row(function, names)  # type: ignore[no-any-return]


def _load(package: str) -> None:
    """Take up the rows whose modules have been loaded since."""
    if _NEEDS.get(package, package) not in sys.modules:
        return
    present = {m for m in tuple(sys.modules) if m.partition(".")[0] == package}
    key = f"{package} {len(present)}"
    if key in _loaded:
        return
    _loaded.add(key)
    for row in importlib.import_module(f"{__name__}.{package}").ROWS:
        function = _functions.get(row.name) or resolve(row.name)
        if function is not None and _is_of(package, function):
            _functions[row.name] = function
            _by_object[id(function)] = (function, row)


def _is_of(package: str, function: Any) -> bool:
    """Whether a function is the library's own, not one set by a user."""
    root = (getattr(function, "__module__", None) or package).partition(".")[0]
    return root == package or not isinstance(function, FunctionType)


def in_namespace(xp: Any, name: str) -> Any:
    """The function `name` ("numpy.median", "scipy.ndimage.sobel") of another array library.

    Raises
    ------
    NoRule
        If that library has no such function.
    """
    package, _, rest = name.partition(".")
    if xp is np or package == "xpapply":  # ours take arrays of every library
        return _functions.get(name) or resolve(name)
    if package in CUPY:
        if xp.__name__ != "cupy" or resolve(name) is None:
            raise NoRule(f"{xp.__name__} has no {name}")
        return resolve(name)
    target = xp.__name__ if package == "numpy" else f"{xp.__name__}x.scipy"
    module_name, _, attribute = f"{target}.{rest}".rpartition(".")
    try:
        return getattr(importlib.import_module(module_name), attribute)
    except (ImportError, AttributeError):
        raise NoRule(f"{target} has no {rest}") from None

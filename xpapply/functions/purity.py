"""Facts by a function's code alone: writes to the outside, loops."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import dis
import functools
import inspect
import opcode
import os
import sys
import types
import weakref
from collections.abc import Iterable, Iterator
from typing import Any

HARMLESS_MODULES = frozenset(
    (
        "operator itertools functools collections collections.abc typing numbers string copy "
        "types enum abc re json cmath fractions statistics __future__ dataclasses zlib "
        "hashlib struct bisect heapq textwrap unicodedata keyword math"
    ).split()
)
"""Modules of the standard library whose functions only compute. (Those of decimal heed a context,
which may change.)"""
OFF_DEVICE = frozenset(
    "asnumpy fuse memoize ElementwiseKernel ReductionKernel RawKernel RawModule".split()
)
"""Functions of CuPy that leave the device, or make others."""
INPUT_OUTPUT = frozenset(
    (
        "save savez savez_compressed savetxt load loadtxt fromfile genfromtxt memmap seterr "
        "seterrcall setbufsize set_printoptions DataSource fromregex show_config info test "
        "get_include frompyfunc fromiter fromfunction apply_along_axis apply_over_axes"
    ).split()
)
"""Functions of NumPy that read, write, set something for all, or call back."""


_WRITES = {
    "STORE_GLOBAL": "it writes the global {}",
    "DELETE_GLOBAL": "it deletes the global {}",
    "DELETE_ATTR": "it deletes the attribute {}",
}


_HARMLESS = ("__name__", "__doc__", "__array_namespace__")
"""Dunder names without side effects: the last one asks an array for its namespace."""
_ASYNC = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_GENERATOR = inspect.CO_GENERATOR | _ASYNC


def impure(code: types.CodeType, free: frozenset[str] | None = None) -> str | None:
    """Why running this code would change something outside, or None."""
    if free is None:
        if code.co_flags & _GENERATOR:
            return "it is a generator or coroutine"
        free = frozenset(code.co_freevars)
    line = code.co_firstlineno
    before: Any = None
    inward = [n for n in code.co_names if n.startswith("__") and n not in _HARMLESS]
    if inward:
        file = code.co_filename.replace("\\", "/").rpartition("/")[2]
        does = "makes a class" if "__qualname__" in inward else f"uses {inward[0]}"
        return f"it {does} ({file}:{line})"
    for step in _instructions(code, _CHANGES):
        if step.starts_line is not None:
            line = step.starts_line if not isinstance(step.starts_line, bool) else line
            line = getattr(step, "line_number", None) or line
        what = _WRITES.get(step.opname)
        if step.opname == "IS_OP" and before not in (None, True, False, Ellipsis):
            what = "it compares identities by `is`"
        before = step.argval if step.opname == "LOAD_CONST" else step.opname
        if step.opcode in _STORES and step.argval in free:
            what = "it writes the variable {} of an enclosing function"
        if what is not None:
            file = code.co_filename.replace("\\", "/").rpartition("/")[2]
            return f"{what.format(step.argval)} ({file}:{line})"
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            if inner.co_flags & _ASYNC:  # one that is made and never awaited would warn
                return f"it defines the coroutine {inner.co_name}"
            # variables of an inner function that are free in the outer one are outside too
            why = impure(inner, free & frozenset(inner.co_freevars))
            if why:
                return why
    return None


def catches(code: types.CodeType) -> bool:
    """Whether code has a ``try`` (or a ``with``)."""
    inner = (c for c in code.co_consts if isinstance(c, types.CodeType))
    return bool(code.co_exceptiontable) or any(map(catches, inner))


_STDLIB = os.path.dirname(os.__file__) + os.sep
_INSTALLED = (os.sep + "site-packages" + os.sep, os.sep + "dist-packages" + os.sep)
OURS = os.path.dirname(os.path.dirname(__file__)) + os.sep
"""A checkout of xpapply is followed as far as an installed one."""


@functools.lru_cache(512)
def of_library(file: str) -> bool:
    """Whether a file belongs to Python or an installed package."""
    return file.startswith((_STDLIB, OURS, "<frozen")) or any(part in file for part in _INSTALLED)


_STANDARD = frozenset(dir(BaseException)) | set(vars(collections.namedtuple("_Standard", "a")))


def own_names(cls: type) -> list[str]:
    """Names in a class beyond those of named tuples and exceptions."""
    known = set(getattr(cls, "_fields", ())) | {"__module__", "__doc__", "__weakref__", "__dict__"}
    known |= {"__orig_bases__", "__annotations__", "__static_attributes__", "__firstlineno__"}
    mro = [c for c in cls.__mro__ if c.__module__ != "builtins"]
    names = {
        name
        for c in mro
        for name, x in vars(c).items()
        if not (name in _STANDARD and not written(x))
    }
    return sorted(names - known)


def is_record(cls: type) -> bool:
    """Whether a class is a dataclass with its fields alone: making one has no effects."""
    if type(cls) is not type or not dataclasses.is_dataclass(cls):
        return False
    factories = {f.default_factory for f in dataclasses.fields(cls)}
    if not factories <= {dataclasses.MISSING, list, dict}:
        return False
    own = [x for c in cls.__mro__[:-1] for x in vars(c).values()]
    hides = property, classmethod, staticmethod, functools.cached_property
    return not any(isinstance(x, hides) or written(x) for x in own)


def written(x: Any) -> bool:
    """Whether a function is defined in a user's file."""
    code = getattr(getattr(x, "__func__", x), "__code__", None)
    return code is not None and not code.co_filename.startswith(("<", _STDLIB))


def stores(code: types.CodeType) -> dict[str, str]:
    """The attributes that code sets, each with the line, "file:line"."""
    found: dict[str, str] = {}
    line = code.co_firstlineno
    for step in _instructions(code, _ATTRIBUTES):
        line = getattr(step, "line_number", None) or (
            line if step.starts_line in (None, True, False) else step.starts_line
        )
        if step.opname == "STORE_ATTR":
            found.setdefault(step.argval, f"{os.path.basename(code.co_filename)}:{line}")
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            found = stores(inner) | found
    return found


_BACK = {k for n, k in opcode.opmap.items() if n == "FOR_ITER" or "JUMP_BACKWARD" in n}
_loops: weakref.WeakKeyDictionary[types.CodeType, bool] = weakref.WeakKeyDictionary()


def python_function(f: Any) -> types.FunctionType | None:
    """The function of Python's that a call of `f` runs: of a partial, a method, an object."""
    while isinstance(f, functools.partial):
        f = f.func
    f = getattr(f, "__func__", f)
    f = f if type(f) is types.FunctionType else vars(type(f)).get("__call__")
    return f if type(f) is types.FunctionType else None


def has_loop(f: Any) -> bool:
    """Whether a function, or a user's function that it calls, has a loop."""
    return any(_has_loop(own.__code__) for own in helpers(f))


def _has_loop(code: types.CodeType) -> bool:
    found = _loops.get(code)
    if found is None:
        found = _loops[code] = _goes_back(code)
    return found


def helpers(f: Any, depth: int = 3) -> Iterator[types.FunctionType]:
    """A function of Python's, and functions of the user's that it calls."""
    own = python_function(f)
    if own is None:
        return
    yield own
    if depth == 0:
        return
    called, held = own.__code__.co_names, (value for _, value in in_cells(own))
    for x in (*map(own.__globals__.get, called), *held):
        of_module = type(x) is types.ModuleType and not of_library(x.__dict__.get("__file__") or "")
        for g in map(vars(x).get, called) if of_module else (x,):
            if type(g) is types.FunctionType and (
                g.__module__ == own.__module__ or not of_library(g.__code__.co_filename)
            ):
                yield from helpers(g, depth - 1)


def in_cells(f: types.FunctionType) -> Iterator[tuple[str, Any]]:
    """The closure of a function, by name."""
    for name, cell in zip(f.__code__.co_freevars, f.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # it is empty
            yield name, cell.cell_contents


def beside_cache(f: Any, callers: tuple[Any, ...] = ()) -> str | None:
    """Why a function with a cache may give something else than it gave without, or None.

    It keeps what it gave before what it reads has changed, and what it drew; and its own calls
    go through the cache, without which they may be too many.
    """
    f = getattr(f, "__wrapped__", f) if isinstance(f, functools._lru_cache_wrapper) else f
    if type(f) is not types.FunctionType or f in callers:
        return "its own calls use it" if f in callers else "it is no function of Python's"
    if of_library(f.__code__.co_filename):
        return None
    of_modules = names(f.__code__)
    if "random" in of_modules:
        return "it draws random numbers"
    defaults = (*(f.__defaults__ or ()), *(f.__kwdefaults__ or {}).values())
    given = (("a default", x) for x in defaults)
    reads = ((name, f.__globals__[name]) for name in of_modules if name in f.__globals__)
    for name, x in (*given, *reads, *in_cells(f)):
        if type(x) in (types.FunctionType, functools._lru_cache_wrapper):
            if why := beside_cache(x, (*callers, f)):
                return why
        elif name == "a default" and isinstance(x, int | float | str | None):
            continue
        elif not of_library(_file(x)):
            return f"it reads {name}, which may change"
    return None


def _file(x: Any) -> str:
    """Where a module stands, or that of a class or of a function that has no state; or ""."""
    if not isinstance(x, types.ModuleType | type) and not (
        callable(x) and isinstance(getattr(x, "__self__", None), types.ModuleType | None)
    ):
        return ""
    module = x if isinstance(x, types.ModuleType) else sys.modules.get(x.__module__)
    return getattr(module, "__file__", None) or _STDLIB * (module is not None)


def names(code: types.CodeType) -> frozenset[str]:
    """The names of globals and attributes in code, those in functions that it defines included."""
    found = _named.get(code)
    if found is None:
        inner = (names(c) for c in code.co_consts if isinstance(c, types.CodeType))
        found = _named[code] = frozenset(code.co_names).union(*inner)
    return found


def opcodes(code: types.CodeType) -> frozenset[int]:
    """The opcodes of code, with those of functions defined in it."""
    found = _steps.get(code)
    if found is None:
        inner = (opcodes(c) for c in code.co_consts if isinstance(c, types.CodeType))
        found = _steps[code] = frozenset(code.co_code[::2]).union(*inner)
    return found


def writes(code: types.CodeType) -> frozenset[str]:
    """The variables of enclosing functions that code writes, as `impure` says of it."""
    found = _written.get(code)
    if found is None:
        found = _written[code] = frozenset(_stored(code, frozenset(code.co_freevars)))
    return found


def _stored(code: types.CodeType, free: frozenset[str]) -> Iterator[str]:
    if not free:
        return
    for step in _instructions(code, _STORES):
        if step.opcode in _STORES and step.argval in free:
            yield step.argval
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from _stored(inner, free & frozenset(inner.co_freevars))


def _instructions(code: types.CodeType, which: frozenset[int]) -> Iterable[dis.Instruction]:
    """The instructions of code, if some are among `which`: to decode them takes a while."""
    return () if which.isdisjoint(code.co_code[::2]) else dis.get_instructions(code)


def steps_of(which: str) -> frozenset[int]:
    """The numbers of steps, by their names in some version of Python."""
    return frozenset(opcode.opmap[n] for n in which.split() if n in opcode.opmap)


_named: weakref.WeakKeyDictionary[types.CodeType, frozenset[str]] = weakref.WeakKeyDictionary()
_steps: weakref.WeakKeyDictionary[types.CodeType, frozenset[int]] = weakref.WeakKeyDictionary()
_written: weakref.WeakKeyDictionary[types.CodeType, frozenset[str]] = weakref.WeakKeyDictionary()
_STORES = steps_of("STORE_DEREF DELETE_DEREF")
_ATTRIBUTES = steps_of("STORE_ATTR")
_CHANGES = steps_of("STORE_GLOBAL DELETE_GLOBAL DELETE_ATTR IS_OP") | _STORES


_GOES = frozenset(
    "map filter accumulate groupby pairwise combinations permutations product takewhile dropwhile "
    "filterfalse starmap islice chain nlargest nsmallest fmean stdev pstdev "
    "pvariance median_low median_high root_scalar minimize_scalar fminbound solve_ivp "
    "fsolve".split()
)
"""Functions that go through something for another one, or call it again and again."""


def _goes_back(code: types.CodeType) -> bool:
    if not _BACK.isdisjoint(code.co_code[::2]) or not _GOES.isdisjoint(code.co_names):
        return True
    return any(_goes_back(c) for c in code.co_consts if isinstance(c, types.CodeType))

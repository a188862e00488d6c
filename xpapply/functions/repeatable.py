"""Repeatability: whether a function may be called more often than in the loop, by its code.

For libraries that run a function in a way of their own, and for other processes, where no tracer of
ours looks on. What cannot be told is a reason, and the loop runs.
"""

from __future__ import annotations

import builtins
import dis
import functools
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .. import arrays
from .purity import HARMLESS_MODULES, impure, written
from .samples import takes_samples

_LIBRARIES = frozenset(
    "numpy scipy jax jaxlib pandas math cmath operator statistics functools re datetime".split()
)
"""Root packages whose functions only compute."""
_BUILTINS = frozenset(
    (
        "abs all any bool bytes chr complex dict divmod enumerate filter float frozenset hash int "
        "isinstance len list map max min ord pow range repr reversed round set slice sorted str "
        "sum tuple type zip"
    ).split()
)
_CHANGES = frozenset(
    (
        "append extend insert pop popitem remove clear update setdefault add discard write fill "
        "put itemset resize setflags __setitem__ __setattr__ random default_rng rvs shuffle seed "
        "now today utcnow"
    ).split()
)
"""Methods that change an object, and names of random draws and of clocks."""
_PLAIN = (bool, int, float, complex, str, bytes, type(None), np.generic, np.dtype, type(...))


@dataclass
class _Look:
    """Results of the search, and packages assumed to only compute."""

    computes: Callable[[str], bool]
    lenient: bool = False
    """Whether users' classes and libraries' models are allowed."""
    seen: set[int] = field(default_factory=set)
    modules: set[str] = field(default_factory=set)
    """Modules of the users' code that was searched."""

    def knows(self, f: Any) -> bool:
        """Whether a function or class comes from a library that only computes."""
        if isinstance(f, np.ufunc):
            return True
        return self.computes(str(getattr(f, "__module__", None) or type(f).__module__))


def why_not_repeatable(f: Any) -> str | None:
    """Why `f` should be called once per slice only, or None."""
    return _why(f, _Look(_computes))


def why_not_elsewhere(given: Sequence[Any]) -> tuple[str, set[str]]:
    """Why a function and its arguments should stay in this process, or "".

    Who asks for several processes trusts the libraries that are installed. Beside it, the modules
    of the user's whose code was looked at.
    """
    look = _Look(_is_installed, lenient=True)
    return next(filter(None, (_why_value(x, look) for x in given)), None) or "", look.modules


def _is_installed(module: str) -> bool:
    """Whether a module is assumed to be a library that only computes."""
    if _computes(module) or module in HARMLESS_MODULES | {"time", "warnings"}:
        return True
    root = module.partition(".")[0]
    if root == __name__.partition(".")[0]:
        return True
    if root in sys.stdlib_module_names or module.startswith("numpy"):
        return False
    file = str(getattr(sys.modules.get(root), "__file__", None) or "")
    return "site-packages" in file or "dist-packages" in file


def _why(f: Any, look: _Look) -> str | None:
    if id(f) in look.seen:
        return None
    look.seen.add(id(f))
    if isinstance(f, functools.partial):
        return _first(_why_value(x, look) for x in (f.func, *f.args, *f.keywords.values()))
    inner = getattr(f, "__wrapped__", getattr(f, "pyfunc", None))
    if inner is not None and look.knows(type(f)):  # jax.jit, numpy.vectorize
        return _why(inner, look)
    if look.lenient and isinstance(f, types.MethodType) and not takes_samples(f):
        return f"it calls the method {f.__qualname__}, which may change its object"
    if look.knows(f):
        return None
    name = str(getattr(f, "__name__", ""))
    if vars(builtins).get(name) is f:
        pure = name in _BUILTINS or (isinstance(f, type) and issubclass(f, Exception))
        return None if pure else f"it uses {name}, which may do anything"
    if isinstance(f, types.FunctionType):
        look.modules.add(f.__module__)
        return impure(f.__code__) or _why_code(f, f.__code__, look)
    if look.lenient and isinstance(f, type):
        return _why_class(f, look)
    return f"it uses {getattr(f, '__qualname__', type(f).__qualname__)}, which may do anything"


def _why_class(cls: type, look: _Look) -> str | None:
    """The reason against a class, whose methods may set attributes of new instances."""
    own = [c for c in cls.__mro__ if c.__module__ != "builtins" and not look.knows(c)]
    look.modules.update(c.__module__ for c in own)
    methods = [
        m
        for c in own
        for x in vars(c).values()
        if isinstance(m := getattr(x, "__func__", x), types.FunctionType)
    ]
    return _first(
        impure(m.__code__) or _why_code(m, m.__code__, look, m.__code__.co_varnames[:1])
        for m in methods
        if written(m)  # not those of dataclasses and named tuples
    )


def _computes(module: str) -> bool:
    parts = module.split(".")
    if "array_api_compat" in parts:  # a copy inside another package, too
        return True
    if "tests" in parts:  # of a library, whose functions do what they test
        return False
    return parts[0] in _LIBRARIES and not module.startswith("numpy.random")


def _why_code(
    f: types.FunctionType, code: types.CodeType, look: _Look, own: Sequence[str] = ()
) -> str | None:
    """The reason against code; `own`: objects whose attributes may be set."""
    steps = [s for s in dis.get_instructions(code) if s.opname != "CACHE"]
    fresh = _fresh(code, steps)
    stores = False
    for k, step in enumerate(steps):
        if step.opname == "DELETE_SUBSCR" or (
            step.opname == "STORE_ATTR" and _local(steps, k - 1) not in own
        ):
            return f"it sets {step.argval}"
        if step.opname == "IMPORT_NAME" and not look.computes(str(step.argval)):
            return f"it imports {step.argval}"
        if step.opname in ("LOAD_ATTR", "LOAD_METHOD") and step.argval in _CHANGES:
            if _local(steps, k - 1) not in fresh:
                return f"it calls {step.argval}"
        if step.opname == "STORE_SUBSCR":
            stores |= _local(steps, _start(steps, k, 1) - 1) not in fresh
    for name, x in _reached(f, code):
        if stores and (isinstance(x, (list, dict, set)) or arrays.library(x) is not None):
            return f"it may write to {name}"
        why = _why_value(x, look)
        if why:
            return why
    inner = (c for c in code.co_consts if isinstance(c, types.CodeType))
    return _first(_why_code(f, c, look) for c in inner)


_NEW = frozenset(
    (
        "list dict set sorted empty zeros ones full empty_like zeros_like ones_like full_like "
        "arange linspace copy array"
    ).split()
)
"""Functions that return something new."""


def _fresh(code: types.CodeType, steps: list[Any]) -> frozenset[str]:
    """The local variables that only ever hold what the code itself has made."""
    made: set[str] = set()
    other = set(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + 2])
    other -= set(code.co_varnames[code.co_argcount + code.co_kwonlyargcount + _stars(code) :])
    for k, step in enumerate(steps):
        if not step.opname.startswith("STORE_FAST"):
            continue
        names = step.argval if isinstance(step.argval, tuple) else (step.argval,)
        (made if _makes(steps, k - 1) and len(names) == 1 else other).update(names)
    return frozenset(made - other)


def _stars(code: types.CodeType) -> int:
    return bool(code.co_flags & 4) + bool(code.co_flags & 8)  # *args, **kwargs


def _makes(steps: list[Any], k: int) -> bool:
    """Whether step `k` leaves a new object."""
    step = steps[k]
    if step.opname.startswith(("BUILD_", "LIST_", "DICT_", "SET_")):
        return True
    if step.opname not in ("CALL", "CALL_KW"):
        return False
    while k > 0 and steps[k - 1].opname in ("PRECALL", "KW_NAMES"):
        k -= 1
    at = _start(steps, k, step.arg + (step.opname == "CALL_KW")) - 1
    if at > 0 and steps[at].opname == "PUSH_NULL":
        at -= 1
    return at >= 0 and steps[at].argval in _NEW


def _start(steps: list[Any], k: int, values: int) -> int:
    """The step before `k` where the last so many values begin to be made; 0 where unclear."""
    while values > 0 and k > 0:
        k -= 1
        step = steps[k]
        if step.is_jump_target or "JUMP" in step.opname:
            return 0
        values -= dis.stack_effect(step.opcode, step.arg, jump=False)
    return k if values == 0 else 0


def _local(steps: list[Any], k: int) -> str:
    """The local variable that step `k` loads, or ""."""
    if k < 0 or not steps[k].opname.startswith("LOAD_FAST"):
        return ""
    found = steps[k].argval
    return str(found[-1] if isinstance(found, tuple) else found)


def _reached(f: types.FunctionType, code: types.CodeType) -> Iterator[tuple[str, Any]]:
    """The objects that code can name: globals, builtins, and variables of outer functions."""
    cells = dict(zip(f.__code__.co_freevars, f.__closure__ or (), strict=True))
    for name in code.co_freevars:
        if name in cells:
            try:
                yield name, cells[name].cell_contents
            except ValueError:  # not yet set
                continue
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            if step.argval in f.__globals__:
                yield step.argval, f.__globals__[step.argval]
            elif step.argval not in _BUILTINS:
                yield step.argval, getattr(builtins, step.argval, None)
    yield from (("a default", x) for x in (f.__defaults__ or ()))
    yield from (f.__kwdefaults__ or {}).items()


def _why_value(x: Any, look: _Look) -> str | None:
    if isinstance(x, (*_PLAIN, slice)) or arrays.library(x) is not None:
        return None
    if isinstance(x, (list, tuple, set, frozenset)):
        return _first(_why_value(y, look) for y in x)
    if isinstance(x, dict):
        return _first(_why_value(y, look) for y in x.values())
    if isinstance(x, types.ModuleType):
        return None if look.computes(x.__name__) else f"it uses the module {x.__name__}"
    return _why(x, look)


def _first(found: Iterator[str | None]) -> str | None:
    return next((why for why in found if why), None)

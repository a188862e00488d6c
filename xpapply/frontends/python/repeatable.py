"""Whether a function may be called once more than the loop would: by its code, without a call.

For libraries that run a function in a way of their own, where no tracer of ours looks on. What
cannot be told is a reason, and the loop runs.
"""

from __future__ import annotations

import builtins
import dis
import functools
import types
from collections.abc import Iterator
from typing import Any

import numpy as np

from ... import arrays
from .purity import impure

_LIBRARIES = frozenset("numpy scipy jax jaxlib math cmath operator statistics functools".split())
"""Root packages whose functions only compute."""
_BUILTINS = frozenset(
    (
        "abs all any bool complex dict divmod enumerate filter float int isinstance len list map "
        "max min pow range reversed round set slice sorted str sum tuple zip ValueError "
        "ZeroDivisionError TypeError IndexError Exception ArithmeticError"
    ).split()
)
_CHANGES = frozenset(
    (
        "append extend insert pop popitem remove clear update setdefault add discard write fill "
        "put itemset resize setflags __setitem__ __setattr__ random default_rng rvs shuffle seed"
    ).split()
)
"""Methods that change an object, and names of random draws."""
_PLAIN = (bool, int, float, complex, str, bytes, type(None), np.generic, np.dtype, type(...))


def why_not_repeatable(f: Any) -> str | None:
    """Why `f` should be called once per slice only, or None."""
    return _why(f, set())


def _why(f: Any, seen: set[int]) -> str | None:
    if id(f) in seen:
        return None
    seen.add(id(f))
    if isinstance(f, functools.partial):
        return _first(_why_value(x, seen) for x in (f.func, *f.args, *f.keywords.values()))
    inner = getattr(f, "__wrapped__", getattr(f, "pyfunc", None))
    if inner is not None and _is_known(type(f)):  # jax.jit, numpy.vectorize
        return _why(inner, seen)
    if _is_known(f):
        return None
    if isinstance(f, types.FunctionType):
        return impure(f.__code__) or _why_code(f, f.__code__, seen)
    return f"it uses {getattr(f, '__qualname__', type(f).__qualname__)}, which may do anything"


def _is_known(f: Any) -> bool:
    """Whether a function or class comes from a library that only computes."""
    if isinstance(f, np.ufunc):
        return True
    return _computes(str(getattr(f, "__module__", None) or type(f).__module__))


def _computes(module: str) -> bool:
    return module.partition(".")[0] in _LIBRARIES and not module.startswith("numpy.random")


def _why_code(f: types.FunctionType, code: types.CodeType, seen: set[int]) -> str | None:
    stores = False
    for step in dis.get_instructions(code):
        if step.opname in ("STORE_ATTR", "DELETE_SUBSCR"):
            return f"it sets {step.argval}"
        if step.opname == "IMPORT_NAME" and str(step.argval).partition(".")[0] not in _LIBRARIES:
            return f"it imports {step.argval}"
        stores |= step.opname == "STORE_SUBSCR"
    changing = sorted(_CHANGES & set(code.co_names))
    if changing:
        return f"it calls {changing[0]}"
    for name, x in _reached(f, code):
        if stores and (isinstance(x, (list, dict, set)) or arrays.library(x) is not None):
            return f"it may write to {name}"
        why = _why_value(x, seen)
        if why:
            return why
    inner = (c for c in code.co_consts if isinstance(c, types.CodeType))
    return _first(_why_code(f, c, seen) for c in inner)


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


def _why_value(x: Any, seen: set[int]) -> str | None:
    if isinstance(x, (*_PLAIN, slice)) or arrays.library(x) is not None:
        return None
    if isinstance(x, (list, tuple, set, frozenset)):
        return _first(_why_value(y, seen) for y in x)
    if isinstance(x, dict):
        return _first(_why_value(y, seen) for y in x.values())
    if isinstance(x, types.ModuleType):
        return None if _computes(x.__name__) else f"it uses the module {x.__name__}"
    return _why(x, seen)


def _first(found: Iterator[str | None]) -> str | None:
    return next((why for why in found if why), None)

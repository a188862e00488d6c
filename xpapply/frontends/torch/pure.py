"""Purity of a module by its code: nothing is printed, counted or kept."""

from __future__ import annotations

import builtins
import dis
import types
from collections.abc import Iterator
from typing import Any

from torch import nn

from ...functions.snapshots import lives_on
from .guards import STANDARD, is_plain

_HARMLESS = frozenset(
    "abs bool dict divmod enumerate float getattr hasattr int isinstance len list map max min "
    "range reversed round set slice sorted str sum super tuple zip".split()
)
"""Builtin functions without side effects."""
_STORES = frozenset("STORE_ATTR DELETE_ATTR STORE_GLOBAL DELETE_GLOBAL".split())
_IMPORTS = frozenset(("IMPORT_NAME", "IMPORT_FROM"))


def is_pure(m: nn.Module) -> bool:
    """Whether calls of a module have no effects beside tensors, by its code.

    True of torch's own modules. Of a user's class the code must store nothing but in variables,
    and reach nothing but torch, modules, numbers and builtin functions that are known.
    """
    kind = type(m)
    if kind.__module__.startswith("torch.nn."):
        return True
    own = [c for c in kind.__mro__ if not lives_on(c)]
    if not own or isinstance(m, nn.modules.lazy.LazyModuleMixin):
        return False
    if not all(k in STANDARD or is_plain(v) for k, v in vars(m).items()):
        return False
    return all(_changes_nothing(x) for c in own for name, x in vars(c).items() if _runs(name, x))


_DATA = (str, bytes, int, float, tuple, list, dict, type(None), types.GetSetDescriptorType)


def _runs(name: str, x: Any) -> bool:
    """Whether an attribute of a class may be called in a forward."""
    return not (name in ("__init__", "__annotate_func__") or isinstance(x, _DATA))


def _changes_nothing(x: Any) -> bool:
    x = x.__func__ if isinstance(x, (staticmethod, classmethod)) else x
    if not isinstance(x, types.FunctionType) or {*x.__code__.co_freevars} - {"__class__"}:
        return False
    found = (i for code in _codes(x.__code__) for i in dis.get_instructions(code))
    return all(_is_harmless(i, x.__globals__) for i in found)


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for x in code.co_consts:
        if isinstance(x, types.CodeType):
            yield from _codes(x)


def _is_harmless(i: dis.Instruction, names: dict[str, Any]) -> bool:
    if i.opname in _STORES or i.opname in _IMPORTS:
        return False
    if i.opname not in ("LOAD_GLOBAL", "LOAD_NAME"):
        return True
    name = str(i.argval)
    if name not in names:
        return name in _HARMLESS and hasattr(builtins, name)
    value = names[name]
    if isinstance(value, types.ModuleType):
        return value.__name__ in ("torch", "torch.nn", "torch.nn.functional", "math")
    root = (getattr(value, "__module__", None) or "").partition(".")[0]
    return is_plain(value) or (lives_on(value) and root in ("torch", "math"))

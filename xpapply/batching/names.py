"""The names of CuPy's functions, and of those of NumPy and SciPy that they are made after.

CuPy keeps a function in a module of its own (``cupy._sorting.sort``) and its ufuncs in none. What
they are is told by the public name: ``cupy.sort`` is `numpy.sort` for arrays on a device, and has
its batching rule.
"""

from __future__ import annotations

import sys
from typing import Any

CUPY = ("cupy", "cupyx")
"""The root packages of CuPy."""

_names: dict[int, tuple[Any, tuple[str, ...]]] = {}
_taken: tuple[int, Any] = (0, None)
"""The number of modules searched for names, and the package, which keeps its id."""


def root_of(x: Any) -> str:
    """The root package of a function, or of its class where it has no module of its own."""
    module = getattr(x, "__module__", None)
    return (module if isinstance(module, str) else type(x).__module__).partition(".")[0]


def public_names(x: Any) -> tuple[str, ...]:
    """All names that a function of CuPy has in modules for everybody, the shortest path first."""
    global _taken
    present = [m for m in tuple(sys.modules) if m.partition(".")[0] in CUPY]
    taken = (len(present), sys.modules.get("cupy"))
    if taken[0] != _taken[0] or taken[1] is not _taken[1]:
        _names.clear()
        for module in sorted((m for m in present if "._" not in m), key=lambda m: m.count(".")):
            for name, value in vars(sys.modules[module]).items():
                if callable(value) and not name.startswith("_"):
                    known = _names.get(id(value), (value, ()))[1]
                    _names[id(value)] = (value, (*known, f"{module}.{name}"))
        _taken = taken
    found = _names.get(id(x))
    return found[1] if found is not None and found[0] is x else ()


def mirrored(name: str) -> str:
    """The name of a CuPy function in NumPy or SciPy: "numpy.sort" for "cupy.sort"."""
    if name.startswith("cupyx.scipy."):
        return name.removeprefix("cupyx.")
    return f"numpy.{name.removeprefix('cupy.')}" if name.startswith("cupy.") else name

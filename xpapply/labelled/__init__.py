"""Arrays with labels: take the array out, run as always, put the labels back.

One file for each library whose containers have names for dims, coordinates or an index: here is
which one it is. Nothing that computes gets to see a label; `f` gets the slices that it gets of the
array inside.

Each file has the same functions. ``run`` computes, and takes nothing but arrays.

- ``along(run, x, axis, names)``: ``run(array, axis)``, for `xpapply.apply_along_axis`
- ``sliced(run, operands, axis, names)``: ``run(arrays, axes)``, for functions of slices that are
  written once, such as those of `xpapply.special`
- ``looped(run, operands, how, signature, names)``: ``run(*arrays, **how)``, for
  `xpapply.vectorize`
- ``inside(x, axis)``: the array, and the axis as a number
- ``dtype(x)``, ``library(x)``: those of the array

Masked arrays are arrays whose mask takes part in what is computed: see `xpapply.arrays.masked`.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from importlib import import_module
from typing import Any

CONTAINERS = {
    "xarray": ("DataArray", "Dataset", "Variable"),
    "pandas": ("DataFrame", "Series"),
}
"""Their classes, by library. Subclasses count as the library's own."""


class Labelled(TypeError):
    """Raised where a function of arrays gets a labelled one."""


class Stop(Exception):
    """Ends what would label results, of who only wanted to see the arrays."""


def wing(x: Any) -> Any:
    """The file that knows the labels of `x`; None where it has none.

    Looks at the class only: no library is imported for arrays that are not of it.
    """
    name = _library(type(x))  # type: ignore[arg-type]
    return None if name is None else _loaded(name)


@functools.cache
def _loaded(name: str) -> Any:
    return import_module(f"{__name__}.{name}")


@functools.lru_cache(maxsize=1024)
def _library(kind: Any) -> str | None:
    for cls in kind.__mro__:
        root = cls.__module__.partition(".")[0]
        if cls.__name__ in CONTAINERS.get(root, ()):
            return root
    return None


def given(operands: Sequence[Any]) -> Any:
    """The file for the first argument that has labels; None where none has."""
    return next((wing(x) for x in operands if _library(type(x))), None)  # type: ignore[arg-type]


def dtype(x: Any) -> Any:
    """The dtype of the array inside; None for what has no labels."""
    found = wing(x)
    return None if found is None else found.dtype(x)


def refuse(x: Any) -> None:
    """Raise `Labelled` where `x` has labels, for who knows how to put them back."""
    if _library(type(x)) is not None:  # type: ignore[arg-type]
        raise Labelled(f"{type(x).__qualname__} where an array was expected")

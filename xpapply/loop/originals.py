"""NumPy's and CuPy's own loops, whatever `xpapply.patch` has put in their places.

Every loop of xpapply that is NumPy's or CuPy's own is called by these names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

apply_along_axis: Callable[..., Any] = np.apply_along_axis
vectorize = np.vectorize
call_vectorize: Callable[..., Any] = np.vectorize.__call__
"""``call_vectorize(np.vectorize(f), *args)``: what calling the object does."""


def masked_apply_along_axis() -> Callable[..., Any]:
    """`numpy.ma.apply_along_axis`; `numpy.ma` is loaded by the first who asks."""
    found = np.ma.apply_along_axis
    return found.original if isinstance(found, Replaced) else found


class Replaced:
    """The replacement of a function while NumPy is patched.

    Parameters
    ----------
    original : callable
        The function, which it looks like.
    call : callable
        ``call(original, given, named)`` is called for it.
    """

    __module__ = "numpy"

    def __init__(
        self, original: Callable[..., Any], call: Callable[[Any, tuple, dict], Any]
    ) -> None:
        self.original, self.__wrapped__ = original, original
        self._call = call
        for name in ("__name__", "__qualname__", "__module__", "__doc__"):
            setattr(self, name, getattr(original, name))

    def __call__(self, /, *given: Any, **named: Any) -> Any:
        return self._call(self.original, given, named)

    def undo(self) -> None:
        """Become the original, for objects that still hold this."""
        self._call = _original

    def __getattr__(self, name: str) -> Any:
        if name == "original":  # of an object that is not yet made
            raise AttributeError(name)
        return getattr(self.original, name)

    def __repr__(self) -> str:
        return f"<{self.original!r}, replaced by xpapply.patch>"

    def __eq__(self, other: object) -> bool:
        # tables of functions (`__array_function__`) find it by the original
        return other is self or other is self.original

    def __hash__(self) -> int:
        return hash(self.original)

    def __reduce__(self) -> Any:
        module, name = self.original.__module__, self.original.__name__
        # as the original says it, where it is found by its name
        return name if by_name(module, name) is self else (by_name, (module, name))


def _original(original: Callable[..., Any], given: tuple, named: dict) -> Any:
    return original(*given, **named)


def by_name(module: str, name: str) -> Any:
    """The object of a name, in the process that reads a pickle."""
    import importlib

    return getattr(importlib.import_module(module), name)


_of_cupy: list[Callable[..., Any]] = []


def keep_cupys(function: Callable[..., Any] | None) -> None:
    """Keep CuPy's own function while it is replaced; None: it is not."""
    _of_cupy[:] = [] if function is None else [function]


def cupys() -> Callable[..., Any]:
    """CuPy's own `apply_along_axis`."""
    if _of_cupy:
        return _of_cupy[0]
    import cupy

    return cupy.apply_along_axis  # type: ignore[no-any-return]

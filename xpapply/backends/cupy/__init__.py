"""CuPy: networks in `networks`, functions that are compiled from their source in `typed`.

What runs networks is loaded when it is asked for: functions need none of it, which takes 0.1 s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .networks import BACKEND

__all__ = ["BACKEND"]


def __getattr__(name: str) -> Any:
    if name != "BACKEND":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .networks import BACKEND

    return BACKEND

"""Results of solvers with more than a number, for the compiler."""

from __future__ import annotations

from typing import Any


class Result(dict[str, Any]):
    """Values by name, read as attributes or as items."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

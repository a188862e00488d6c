"""What can go wrong, and what only means "take the slower way"."""

from __future__ import annotations

import os
import sys
import warnings

_LIBRARY = os.path.dirname(os.__file__) + os.sep
_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep


class XpapplyError(Exception):
    """Base class of every error that xpapply raises itself."""


class InputError(XpapplyError, ValueError):
    """The call cannot have an answer: wrong number of features, a layer in training mode ...

    Raised to the user at once; no slower engine could do better.
    """


class UnsupportedError(XpapplyError, NotImplementedError):
    """A faster engine refuses, and says why. The next slower engine is tried.

    Users see it only under ``options(fallback="raise")``.
    """


class TraceError(UnsupportedError):
    """`f` does something that cannot be written down as a graph of one slice."""


class FallbackWarning(UserWarning):
    """`f` runs slice by slice in Python. The message has the reason and the way out."""


def warn(message: str) -> None:
    """A `FallbackWarning` at the line that called xpapply."""
    frame, level = sys._getframe(1), 2
    while frame is not None and frame.f_code.co_filename.startswith(_HERE):
        frame, level = frame.f_back, level + 1  # type: ignore[assignment]
    warnings.warn(message, FallbackWarning, stacklevel=level)


def user_line() -> str:
    """Where the user's code is now: "file:line", outside xpapply and the libraries it calls."""
    frame = sys._getframe(1)
    while frame is not None:
        path = frame.f_code.co_filename
        inside = (
            path.startswith((_HERE, _LIBRARY, "<frozen", "<__array")) or "site-packages" in path
        )
        if not inside:
            return f"{os.path.basename(path)}:{frame.f_lineno}"
        frame = frame.f_back  # type: ignore[assignment]
    return "?"

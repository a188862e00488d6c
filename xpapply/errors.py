"""Exceptions, and those that only mean "take the slower way"."""

from __future__ import annotations

import functools
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from types import CodeType, FrameType
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

CALLS_BACK = "calls a Python function again and again, for one slice after the other"
"""Why calls of solvers cannot be traced."""
DRAWS = "it draws random numbers"
"""Why functions cannot be traced that do."""

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


class CompilerError(UnsupportedError):
    """A kernel cannot be compiled, or something was made of it that must not run."""


class TraceError(UnsupportedError):
    """`f` does something that cannot be written down as a graph of one slice."""

    unchanged: Callable[[Any], bool] | None = None
    """``unchanged(f)``: whether all that was inspected is unchanged; None: unknown. For networks
    `f` is None."""


def said(error: BaseException) -> str:
    """The message of an exception, without advice of its library to its own users."""
    text = re.sub(r"^vmap: We do not", "vmap does not", str(error))
    text = re.sub(r"\. Attempted to vmap over [\w:]+", "", text)
    text = re.split(r"[.,;]? *Please (?:file|report|open)\b|[.;] [^.;]*https?://", text)[0]
    return f"{type(error).__name__}: {text}"


class TooManyPaths(TraceError):
    """``f`` takes ever new paths."""


class TooLong(TraceError):
    """Raised where tracing ``f`` takes longer than it may save; `steps`: recorded so far."""

    steps = 0


class Differs(TraceError):
    """A run of ``f`` does not fit what earlier runs did, or what the batching rules found."""


class Raises(TraceError):
    """`f` raises for the slice that it was to be traced on."""


class OnlyTraced(Raises):
    """Raised where the tracer, not necessarily the slice, causes an exception."""


class FallbackWarning(UserWarning):
    """`f` runs slice by slice in Python. The message has the reason and the way out."""


def warn(message: str, category: type[Warning] | None = None) -> None:
    """A `FallbackWarning`, or another, at the line that called xpapply."""
    frame, level = sys._getframe(1), 2
    while frame is not None and frame.f_code.co_filename.startswith(_HERE):
        frame, level = frame.f_back, level + 1  # type: ignore[assignment]
    warnings.warn(message, category or FallbackWarning, stacklevel=level)


def add_note(error: BaseException, text: str) -> None:
    """Add a note to an exception, once: it may pass by several places that know it."""
    if text not in getattr(error, "__notes__", ()):
        error.add_note(text)


_outermost: set[CodeType] = set()


def outermost(function: Callable[P, R]) -> Callable[P, R]:
    """Mark a function that calls ``f``: a reason never names a line of who called it."""
    _outermost.add(function.__code__)  # type: ignore[attr-defined]
    return function


def located(what: str, otherwise: str = "") -> str:
    """`what`, followed by the user's line; `otherwise`: the line where ``f`` returns."""
    line = user_line() or otherwise
    return f"{what} ({line})" if line else what


def user_line(error: BaseException | None = None) -> str:
    """The current line of the user's code: "file:line", outside xpapply and libraries.

    "" where none of it runs. Installed packages are the user's as well if ``f`` is in one.
    `error`: where that was raised instead.
    """
    installed = ""
    for frame, line in _raised_at(error) if error is not None else _called_at():
        path = frame.f_code.co_filename
        if not written_at(path):
            continue
        place = f"{os.path.basename(path)}:{frame.f_lineno if line is None else line}"
        if "site-packages" not in path:
            return place
        root = str(frame.f_globals.get("__name__")).partition(".")[0]
        installed = installed if root in _ARRAYS else place
    return installed


def written_at(path: str) -> bool:
    """Whether a file is neither xpapply's nor the standard library's."""
    return not path.startswith((_HERE, _LIBRARY, "<frozen", "<__array"))


def _called_at() -> Iterator[tuple[FrameType, None]]:
    """Frames within ``f``, innermost first, without lines."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code not in _outermost:
        yield frame, None
        frame = frame.f_back


def _raised_at(error: BaseException) -> list[tuple[FrameType, int]]:
    """The frames within ``f`` that an exception has passed, the innermost one first."""
    found: list[tuple[FrameType, int]] = []
    step = error.__traceback__
    while step is not None:
        if step.tb_frame.f_code in _outermost:
            found.clear()
        else:
            found.append((step.tb_frame, step.tb_lineno))
        step = step.tb_next
    return found[::-1]


_ARRAYS = frozenset(("numpy", "scipy", "cupy", "cupyx", "torch", "sklearn", "array_api_compat"))
"""Packages whose lines do not help a user."""


def code_of(f: Any, *, library: bool = False) -> CodeType | None:
    """The code of a Python function of the user's; None for anything else.

    `library`: functions of libraries count as well.
    """
    while not hasattr(f, "__code__") and (inner := _inner(f)) is not None:
        f = inner
    code = getattr(f, "__code__", None) or getattr(type(f).__call__, "__code__", None)
    if not isinstance(code, CodeType) or code.co_filename.startswith(_HERE):
        return None
    root = str(getattr(f, "__module__", None)).partition(".")[0]
    return None if root in _ARRAYS and not library else code


def _inner(f: Any) -> Any:
    """The function wrapped by `f`, if any; mocks make any attribute."""
    return f.func if isinstance(f, functools.partial) else getattr(f, "__dict__", {}).get("func")


def line_of(f: Any, *, library: bool = False) -> str:
    """The first line of a Python function: "file:line"; "" for anything else.

    `library`: also of a library's function.
    """
    code = code_of(f, library=library)
    return "" if code is None else f"{os.path.basename(code.co_filename)}:{code.co_firstlineno}"

"""The place of a failure in a file: indices of blocks and samples, translated."""

from __future__ import annotations

import contextlib
import os
import re
import traceback
from collections.abc import Iterator, Sequence

from ..errors import add_note

_SLICE = re.compile(r"raised at the slice arr\[(.*)\]")
_BLOCK = re.compile(r"the block is arr\[(.*)\]")
_OF = re.compile(r"arr is one block of ")
_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_LIBRARY = os.path.dirname(os.__file__) + os.sep


@contextlib.contextmanager
def told(name: str, sample: Sequence[str] | None = None) -> Iterator[None]:
    """Have exceptions say where in a file they were raised.

    Parameters
    ----------
    name : str
        Of the file.
    sample : sequence of str, optional
        The places of slices that were taken from it, where `f` was applied to those.
    """
    try:
        yield
    except Exception as error:
        in_file(error, name, sample)
        raise


def in_file(error: BaseException, name: str, sample: Sequence[str] | None = None) -> None:
    """Put the place in the file instead of the places in blocks."""
    notes: list[str] = getattr(error, "__notes__", [])
    at, block = _found(_SLICE, notes), _found(_BLOCK, notes)
    if at is None and block is None:
        return
    error.__notes__ = [n for n in notes if not any(p.match(n) for p in (_SLICE, _BLOCK, _OF))]
    line = _line(error)
    where = f" ({line})" if line else ""
    if at is None:
        add_note(error, f"raised in the block [{', '.join(block or ())}] of {name}{where}")
        return
    if sample is not None:
        place = sample[int(at[0])]
    elif block is not None:
        starts = [int(part.partition(":")[0]) for part in block]
        moved = (k if k == ":" else str(int(k) + s) for k, s in zip(at, starts, strict=True))
        place = f"[{', '.join(moved)}]"
    else:
        place = f"[{', '.join(at)}]"
    add_note(error, f"raised at the slice {place} of {name}{where}")


def _found(pattern: re.Pattern[str], notes: list[str]) -> list[str] | None:
    for note in notes:
        if match := pattern.match(note):
            return match[1].split(", ")
    return None


def _line(error: BaseException) -> str:
    """The innermost line of the user's own files, after those of this package."""
    found, inside = "", False
    for frame, line in traceback.walk_tb(error.__traceback__):
        path = frame.f_code.co_filename
        if path.startswith(_HERE):
            inside = True
        elif inside and "site-packages" not in path and not path.startswith((_LIBRARY, "<")):
            found = f"{os.path.basename(path)}:{line}"
    return found

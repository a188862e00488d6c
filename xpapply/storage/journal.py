"""The journal of finished blocks: a file beside the result, until it is complete.

The first line says what is computed, each further one which block is done. It is written after the
block is, so that a process which is killed loses no more than what it was at.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from ..errors import InputError
from .stores import Store

ENDING = ".unfinished"
_CHECKED = ("function", "arr", "axis", "out")


class OtherRun(InputError):
    """Raised where an interrupted run differs from the one that is to resume it.

    Attributes
    ----------
    differ : dict
        What was said of the run that has left it, and what is said now, where these differ.
    """

    differ: dict[str, tuple[Any, Any]]


class Journal:
    """The finished blocks of a run.

    Parameters
    ----------
    target : Store
        The result.
    about : dict
        What is computed, of what and how it is cut: plain data.
    resume : bool
        Whether to go on where an earlier run has ended.
    """

    def __init__(self, target: Store, about: dict[str, Any], resume: bool) -> None:
        self.path = None if target.path is None else target.path + ENDING
        self.done: set[int] = set()
        self.about = about
        self._file: Any = None
        self._lock = threading.Lock()
        if resume:
            if self.path is None:
                raise InputError(
                    f"resume=True: out is {target.describe()}, which lies in no file here, so that "
                    "nothing says what an earlier run has left. Leave resume away"
                )
            if about["function"] is None:
                raise InputError(
                    "resume=True: nobody can tell whether f is the function of the earlier run: "
                    f"{about['why']}. Leave resume away, or give a function of plain values"
                )
            self._read()

    def _read(self) -> None:
        """Read the journal of an earlier run."""
        assert self.path is not None
        try:
            with open(self.path) as file:
                lines = file.read().split("\n")
        except FileNotFoundError:
            return
        was = _parsed(lines[0])
        if not isinstance(was, dict):
            return
        differ = {k: (was.get(k), self.about[k]) for k in _CHECKED if was.get(k) != self.about[k]}
        if differ:
            said = "; ".join(f"{k} was {before}, is {now}" for k, (before, now) in differ.items())
            error = OtherRun(
                f"resume=True: {self.path} is of another run: {said}. Call it as it was called "
                "then, or leave resume away: then all of it is computed anew"
            )
            error.differ = differ
            raise error
        found = map(_parsed, lines[1:-1])  # the last one was not written to its end
        self.done = {n for n in found if isinstance(n, int)}
        if self.done:  # blocks of that run; where none is done, this run has its own
            self.about = was

    @property
    def blocks(self) -> Sequence[int]:
        """The lengths of a block."""
        return self.about["blocks"]

    def begin(self) -> None:
        """Mark the result as unfinished."""
        if self.path is None:
            return
        self._file = open(self.path, "a" if self.done else "w")  # noqa: SIM115  # until `close`
        # a number that an earlier run has begun is none
        self._file.write("null\n" if self.done else json.dumps(self.about) + "\n")
        self._file.flush()

    def note(self, index: int) -> None:
        """Block number `index` is done."""
        with self._lock:
            self.done.add(index)
            if self._file is not None:
                self._file.write(f"\n{index}\n")
                self._file.flush()

    def close(self, finished: bool) -> None:
        """The run has ended."""
        if self._file is not None:
            self._file.close()
            self._file = None
        if finished and self.path is not None:
            with suppress(FileNotFoundError):
                os.unlink(self.path)


def _parsed(line: str) -> Any:
    """A line's content; None for a truncated one."""
    with suppress(ValueError):
        return json.loads(line)
    return None

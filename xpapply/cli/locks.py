"""A lock on each output, so that one run writes to it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..errors import InputError
from . import files


@contextlib.contextmanager
def alone(output: Path) -> Iterator[None]:
    """Hold the lock of an output; raise `InputError` if another run has it.

    The system gives the lock back however a process ends: a file that a crash leaves locks nothing.
    """
    path = _path(output)
    file = _held(path, output)
    try:
        yield
    finally:
        if file is not None:
            with contextlib.suppress(OSError):  # Windows removes no open files
                path.unlink()
            file.close()


def _path(output: Path) -> Path:
    """The file of the lock: beside the output, or beside the group of zarr that it lies in."""
    output = output.resolve()
    group = files.group_of(output)
    if group is None:
        return output.with_name(output.name + ".lock")
    inner = ".".join(output.relative_to(group).parts)
    return group.with_name(f"{group.name}.{inner}.lock")


def _held(path: Path, output: Path) -> Any:
    """The open file whose lock is held; None where there are no locks."""
    while True:
        try:
            file = open(path, "ab")  # noqa: SIM115 (it is held)
        except OSError:
            if path.exists():
                raise InputError(f"{path} cannot be opened: is it another user's run?") from None
            return None  # nothing can be made in this folder: making the output says so
        try:
            _lock(file.fileno())
        except (BlockingIOError, PermissionError):
            file.close()
            raise InputError(
                f"another run is writing {output}, and nothing was touched: wait until it ends, or "
                f"give another name (it holds {path})"
            ) from None
        except OSError:  # a file system without locks
            return file
        with contextlib.suppress(OSError):
            if os.path.samestat(os.fstat(file.fileno()), os.stat(path)):
                return file
        file.close()  # who held it has just removed it


def _lock(number: int) -> None:
    if os.name == "nt":
        import msvcrt

        locking: Any = msvcrt
        locking.locking(number, locking.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)

"""``%load_ext xpapply``: patched in a notebook, with ``%xpapply_report``."""

from __future__ import annotations

from typing import Any

from . import Report, patch

_of: dict[int, tuple[Any, patch]] = {}
"""Shells and their patches, by identity."""


def load(ip: Any) -> None:
    """Patch for a shell of IPython, once."""
    if id(ip) not in _of:
        _of[id(ip)] = ip, patch()
        ip.register_magic_function(_report, magic_name="xpapply_report")


def unload(ip: Any) -> None:
    """Undo it."""
    if id(ip) in _of:
        _of.pop(id(ip))[1].undo()


def _report(line: str) -> Report | None:
    """Show what ran at once and what did not: ``%xpapply_report``; with a file, write it there."""
    if not _of:
        print("xpapply is not loaded: %load_ext xpapply")
        return None
    report = next(iter(_of.values()))[1].report
    path = line.strip().strip("'\"")
    if not path:
        return report
    report.save(path)
    return None

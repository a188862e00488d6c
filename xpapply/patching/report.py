"""The report of patched calls: a short table of text."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from ..limits import LIMITS
from . import records
from .records import Row

_NOTHING = "no call of numpy.apply_along_axis, numpy.vectorize or their like was seen"
ESTIMATE = "Time saved is an estimate, from a few timed calls of each function."


class Report:
    """The report of patched calls, function by function: print it.

    Attributes
    ----------
    left : tuple of str
        What is not replaced, and why.
    """

    def __init__(self, before: dict[Any, Row], left: Iterable[str] = ()) -> None:
        self._before = before
        self._after: dict[Any, Row] | None = None
        self.left = tuple(left)

    def close(self) -> None:
        """Count no more calls."""
        if self._after is None:
            self._after = records.rows()

    @property
    def rows(self) -> list[Row]:
        """The functions, those that took or saved most time first."""
        now = records.rows() if self._after is None else self._after
        found = [row.minus(self._before.get(key)) for key, row in now.items()]
        found = [row for row in found if row.calls]
        return sorted(found, key=lambda row: -max(row.saved, row.seconds))

    @property
    def saved(self) -> float:
        """Seconds that the loops would have taken more: an estimate."""
        return sum(row.saved for row in self.rows)

    def to_dict(self) -> dict[str, Any]:
        """The report as plain data."""
        return {"saved": self.saved, "left": list(self.left), "rows": [vars(r) for r in self.rows]}

    def __str__(self) -> str:
        return table(self)

    __repr__ = __str__

    def save(self, path: Any) -> None:
        """Write the report to a file, as it is printed.

        Parameters
        ----------
        path : str or path-like
            The file. It is there whole or, if writing fails, as it was before.

        Raises
        ------
        OSError
            If it cannot be written.
        """
        write(self, path)


# --- text ---------------------------------------------------------------------------------------


def seconds(s: float) -> str:
    """A time for people."""
    if s < 0.9995e-3:
        return f"{s * 1e6:.3g} us"
    if s < 0.9995:
        return f"{s * 1e3:.3g} ms"
    return f"{s:,.3g} s" if s < 999.5 else f"{s:,.0f} s"


def ran(row: Row) -> str:
    """Engines of the calls: "numpy", or with counts where they differ."""
    if len(row.engines) == 1:
        return next(iter(row.engines))
    often = sorted(row.engines.items(), key=lambda pair: -pair[1])
    return ", ".join(f"{name} {n:,}" for name, n in often)


def why(row: Row) -> list[str]:
    """Why calls looped, the most frequent reason first."""
    return sorted(row.reasons, key=lambda reason: -row.reasons[reason])


def summary(report: Report) -> str:
    """The report in one line."""
    found = report.rows
    calls = sum(row.calls for row in found)
    looped = sum(row.engines.get("loop", 0) for row in found)
    saved = report.saved
    text = f"{calls:,} calls of {len(found):,} functions, {calls - looped:,} of them at once"
    return f"{text}; about {seconds(saved)} saved" if saved else text


def table(report: Report) -> str:
    """The report as a table with spaces."""
    found = report.rows
    if not found:
        return f"xpapply: {_NOTHING}"
    head = ("function", "called by", "calls", "slices", "time", "saved", "ran by")
    lines: list[tuple[str, ...]] = [head]
    for row in found[: LIMITS.shown_functions]:
        name = _short(row.name.rpartition("<locals>.")[2], LIMITS.shown_name)
        name = f"{name} ({row.place})" if row.place else name
        saved = seconds(row.saved) if row.saved else "-"
        count = f"{row.calls:,}", f"{row.slices:,}"
        lines.append((name, row.loop, *count, seconds(row.seconds), saved, ran(row)))
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    texts = ["xpapply: " + summary(report)]
    for k, line in enumerate(lines):
        cells = [
            cell.rjust(width) if 2 <= c < 6 else cell.ljust(width)
            for c, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        texts.append("  ".join(cells).rstrip())
        reasons = why(found[k - 1]) if k else []
        texts += [f"    loop: {_short(reason, LIMITS.shown_reason)}" for reason in reasons[:2]]
    if len(found) > LIMITS.shown_functions:
        texts.append(f"and {len(found) - LIMITS.shown_functions:,} functions more")
    texts += [f"left: {_printable(text)}" for text in _left(report)]
    if report.saved:
        texts.append(ESTIMATE)
    return "\n".join(map(_printable, texts))


def _short(text: str, most: int) -> str:
    text = " ".join(text.split())
    return text if len(text) <= most else text[: most - 3] + "..."


def _printable(text: str) -> str:
    """`text` without what moves the cursor of a terminal."""
    return "".join(c if c.isprintable() else "?" for c in text)


def _left(report: Report) -> tuple[str, ...]:
    """The remarks on functions that are not replaced, if they were called."""
    return report.left if any(".ma." in row.loop for row in report.rows) else ()


def write(report: Report, path: Any) -> None:
    """Write the table to a file, which is replaced when all of it is on disk."""
    path = os.path.realpath(os.fspath(path))
    folder, name = os.path.split(path)
    handle, part = tempfile.mkstemp(prefix=f".{name}.", dir=folder)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(f"{table(report)}\n")
        mode = os.stat(path).st_mode & 0o777 if os.path.exists(path) else 0o666 & ~_umask()
        os.chmod(part, mode)
        os.replace(part, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(part)
        raise


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask

"""The text of the loop over tiles, which is there in two versions."""

from __future__ import annotations

_CARE, _TRUST = "/* care */ ", "/* trust */ "
"""Prefixes of lines that belong to one of the two loops."""


class Text:
    """Lines that take a tile through a network."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def emit(self, *lines: str) -> None:
        """Lines of both loops."""
        self._lines += lines

    def care(self, *lines: str) -> None:
        """Lines for tiles whose range is looked at."""
        self._lines += [_CARE + line for line in lines]

    def trusting(self, *lines: str) -> None:
        """Lines for tiles whose range is not looked at."""
        self._lines += [_TRUST + line for line in lines]

    def taken(self) -> list[str]:
        """The lines so far, which are not in this text any more."""
        lines, self._lines = self._lines, []
        return lines

    def versions(self) -> tuple[list[str], list[str]]:
        """The lines without and with a look at the range."""
        trusting = [s.removeprefix(_TRUST) for s in self._lines if not s.startswith(_CARE)]
        careful = [s.removeprefix(_CARE) for s in self._lines if not s.startswith(_TRUST)]
        return trusting, careful

"""Errors and warnings as lines on stderr, in words of the command line and not of Python."""

from __future__ import annotations

import contextlib
import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import click

from ..errors import FallbackWarning, InputError, XpapplyError

_CALLS = re.compile(r"\([\d,]+ calls\)")


def _option(match: re.Match[str]) -> str:
    name, value = match[1], match[2].strip("'")
    if (name, value) == ("fallback", "silent"):
        return "-q"
    if name in ("memory", "resume"):
        return f"--{name}"
    if name in ("device", "precision"):
        return f"--{name} {value}"
    return f"XPAPPLY_{name.upper()}={value}"


_WORDS: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    (re.compile(r"\bxpapply\.explain\(\.\.\.\) shows"), "`xpapply explain` shows"),
    (re.compile(r"\b(?:xpapply\.)?options\((\w+)=([^()]*)\)"), _option),
    (re.compile(r"\bresume=True\b"), "--resume"),
    (re.compile(r"\bLeave resume away"), "Begin anew without --resume"),
    (re.compile(r"\b(memory|device)=(?=')"), r"--\1 "),
)


def in_options(text: str) -> str:
    """A text of xpapply for Python, with the options that say the same here."""
    for pattern, words in _WORDS:
        text = pattern.sub(words, text)
    return text


@dataclass
class Told:
    """Facts of a running command, for messages.

    Attributes
    ----------
    slices : int or None
        How many there are in the input; blocks, which warn, know of their own only.
    """

    slices: int | None = None

    def words(self, text: str) -> str:
        """A text of xpapply, about the whole input."""
        if self.slices is not None:
            text = _CALLS.sub(f"({self.slices:,} calls)", text)
        return in_options(text)

    def show(self, message: Warning | str, *more: object, **named: object) -> None:
        """A warning, as `warnings.showwarning` gets it."""
        click.echo(f"Warning: {self.words(str(message))}", err=True)


@contextlib.contextmanager
def telling(quiet: bool = False) -> Iterator[Told]:
    """Errors and warnings as one line on stderr, without a traceback."""
    told = Told()
    with warnings.catch_warnings():
        if quiet:
            warnings.simplefilter("ignore", FallbackWarning)
        warnings.showwarning = told.show
        with _errors(told):
            yield told


@contextlib.contextmanager
def _errors(told: Told) -> Iterator[None]:
    try:
        yield
    except click.ClickException:
        raise
    except KeyboardInterrupt as error:
        for note in _notes(error):
            click.echo(f"\nInterrupted: {note}", err=True)
        raise
    except InputError as error:
        text = told.words(str(error))
        raise click.UsageError("\n".join([text, *map(in_options, _notes(error))])) from None
    except Exception as error:
        text = str(error)
        if isinstance(error, (XpapplyError, FallbackWarning)):
            text = told.words(text)
        notes = "".join(f"\n  {note}" for note in _notes(error))
        raise click.ClickException(f"{type(error).__name__}: {text}{notes}") from error


def _notes(error: BaseException) -> list[str]:
    return getattr(error, "__notes__", [])

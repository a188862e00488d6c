"""The slow way is never silent: one warning per function that runs slice by slice, or an error."""

from __future__ import annotations

from typing import Any

from .. import config, frontends
from ..cache import cache_of
from ..errors import UnsupportedError, warn

_WORTH_A_WARNING = 1000
"""Slices from which a plain Python loop is worth a warning."""


def announce(f: Any, slices: int, why: str) -> None:
    """Warn once that `f` runs slice by slice, or raise, as the options say."""
    how = config.current().fallback
    if how == "silent" or config.current().engine == "loop":
        return
    expected = frontends.is_python(f) and how != "raise"
    if slices < (_WORTH_A_WARNING if expected else 2):
        return
    message = (
        f"{frontends.name_of(f)} runs slice by slice in Python ({slices:,} calls): {why}. "
        "xpapply.explain(...) shows the plan; options(fallback='silent') hides this warning."
    )
    if how == "raise":
        raise UnsupportedError(message)
    known, method = cache_of(f)
    if method not in known.warned:
        known.warned.add(method)
        warn(message)

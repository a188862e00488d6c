"""Random short functions of library calls and idioms, compiled from their source."""

from __future__ import annotations

import random

from random_functions.short_loops import ShortProgram

from xpapply.frontends.python.source.numbers import DTYPES

from .loops import case_of, report


def case(r: random.Random) -> str | None:
    """Draw a program, compare, and shorten it where something differs."""
    dtype = r.choice(["float64"] * 6 + ["float32"] * 2 + ["int64"] * 3 + sorted(DTYPES))
    while dtype.startswith("complex"):
        dtype = r.choice(sorted(DTYPES))
    return case_of(r, dtype, ShortProgram)


__all__ = ["case", "report"]

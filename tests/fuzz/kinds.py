"""Random functions of complex numbers, floats of 16 bits and texts, compiled from their source."""

from __future__ import annotations

import random

from random_functions.complex_loops import ComplexProgram
from random_functions.loops import Program
from random_functions.text_loops import TextProgram

from .loops import case_of, report


def case(r: random.Random) -> str | None:
    """Draw a program, compare, and shorten it where something differs."""
    share = r.random()
    if share < 0.25:
        return case_of(r, "float16", Program)
    if share < 0.5:
        return case_of(r, r.choice(["float64", "float64", "float32", "int64"]), TextProgram)
    dtype = r.choice(["float64", "float32", "float16", "int64", "complex128", "complex64"])
    return case_of(r, dtype, ComplexProgram)


__all__ = ["case", "report"]

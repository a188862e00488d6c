"""Random functions of complex numbers and of floats of 16 bits, compiled from their source."""

from __future__ import annotations

import random

from random_functions.complex_loops import ComplexProgram
from random_functions.loops import Program

from .loops import case_of, report


def case(r: random.Random) -> str | None:
    """Draw a program, compare, and shorten it where something differs."""
    if r.random() < 0.3:
        return case_of(r, "float16", Program)
    dtype = r.choice(["float64", "float32", "float16", "int64", "complex128", "complex64"])
    return case_of(r, dtype, ComplexProgram)


__all__ = ["case", "report"]

"""Floats of 16 bits: what is computed is computed with 32, as NumPy does it, and rounded again."""

from __future__ import annotations

from typing import Any

import numpy as np

from .....ir.typed import Literal
from .....ir.typed.function import NOTED, Value
from ..values import Writes

HALF = "float16"


def widened(w: Writes, x: Value) -> Any:
    """A float to compute with: one of 16 bits with 32."""
    if x.type != HALF:
        return x
    if isinstance(x, Literal):
        return Literal(x.value, "float32")
    return w.op("cast", "float32", x)


def narrowed(w: Writes, x: Value) -> Value:
    """A float of 32 bits with 16; NumPy warns where it is too large."""
    if isinstance(x, Literal):
        with np.errstate(all="ignore"):
            return Literal(float(np.float16(x.value)), HALF)
    return w.op("cast", HALF, x, what=NOTED)

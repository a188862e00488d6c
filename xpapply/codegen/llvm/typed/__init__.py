"""Typed functions as LLVM's text: one slice after the other, whatever its length.

`function` writes the typed function itself, for one slice; `kernel` what goes through all of them,
and `device` with `device_kernel`, which only a GPU needs, what does so there.
"""

from .kernel import NAME, fields, kernel, kernel_of_lanes, of_numbers, tile_bytes
from .notes import ALWAYS, BITS

__all__ = [
    "ALWAYS",
    "BITS",
    "NAME",
    "fields",
    "kernel",
    "kernel_of_lanes",
    "of_numbers",
    "tile_bytes",
]

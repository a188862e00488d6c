"""Typed functions as LLVM's text: one slice after the other, whatever its length.

`function` writes the typed function itself, for one slice; `kernel` what goes through all of them,
and `device` what does so on a GPU.
"""

from .device import THREADS, name_of
from .device import kernel as kernel_of_device
from .device_arrays import in_c
from .kernel import NAME, fields, kernel, kernel_of_lanes, of_numbers, tile_bytes
from .notes import ALWAYS, BITS

__all__ = [
    "ALWAYS",
    "BITS",
    "NAME",
    "THREADS",
    "fields",
    "in_c",
    "kernel",
    "kernel_of_device",
    "kernel_of_lanes",
    "name_of",
    "of_numbers",
    "tile_bytes",
]

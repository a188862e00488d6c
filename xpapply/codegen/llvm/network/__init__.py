"""A whole network as one kernel for CPUs: slices in the lanes of vectors, all layers in cache.

`schedule` says what is computed when, `tile` writes that for the slices of a tile, `transfers`
how they come there and results back; `weights` are the constants; `kernel` has it all.
"""

from .kernel import (
    ARGUMENTS,
    NAME,
    Access,
    NetworkKernel,
    compute_dtype,
    network_kernel,
    prepare,
    tile_slices,
    why_not,
)

__all__ = [
    "ARGUMENTS",
    "NAME",
    "Access",
    "NetworkKernel",
    "compute_dtype",
    "network_kernel",
    "prepare",
    "tile_slices",
    "why_not",
]

"""A whole network as one kernel without tensor cores: `kernel` has it, around one function.

`register_network` writes that function, of `values` in registers and `products`, in the `forms`
that keep its text short; `weights` are its constants.
"""

from .kernel import (
    THREADS,
    NetworkKernel,
    network_kernel,
    slices_per_thread,
    why_not,
)

__all__ = ["THREADS", "NetworkKernel", "network_kernel", "slices_per_thread", "why_not"]

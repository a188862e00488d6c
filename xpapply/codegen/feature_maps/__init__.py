"""A convolutional network as one CUDA kernel: feature maps stay in shared memory.

`maps` says where values lie, `terms` which words make the terms of a product, `words` how they are
read and written, `steps` what is computed and `tails` what follows a product; `weights` lays
constants out, `library` has the device functions, `kernel` the frame.
"""

from .kernel import map_kernel, why_not

__all__ = ["map_kernel", "why_not"]

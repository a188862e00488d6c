"""A convolutional network as one CUDA kernel: feature maps stay in shared memory.

`maps` says where values lie, `terms` which words make the terms of a product, `words` how they are
read and written; `steps` writes what is computed, `products` the products among it and `tails`
what follows these; `weights` lays constants out, `library` has the device functions. `plan`
says how slices are spread over the device and `fit` chooses that; `slices` reads and stores them,
`tiled` the tiles of large ones, and `kernel` is the frame.
"""

from .kernel import map_kernel, why_not

__all__ = ["map_kernel", "why_not"]

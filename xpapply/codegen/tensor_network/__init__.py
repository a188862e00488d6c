"""A whole network as one kernel on tensor cores: `kernel` writes it, of the parts beside it.

`fragments` are values in registers, `products` what multiplies them by weights, `packing` how
those are laid out, `transfers` how slices are read and results stored.
"""

from .kernel import TensorKernel, tensor_kernel, why_not
from .target import Refused, Target

__all__ = ["Refused", "Target", "TensorKernel", "tensor_kernel", "why_not"]

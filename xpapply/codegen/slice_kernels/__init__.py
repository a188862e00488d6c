"""Kernels for functions of slices: `kernel` writes them, of the parts beside it.

`sharing` is how threads share slices, `elements` what one of them holds, `arrays` where that lies
in memory, `states` and `reductions` what comes of it, `lanes` what threads tell each other.
"""

from .kernel import SliceKernels, slice_kernels, why_not
from .sharing import Sharing
from .states import size

__all__ = ["Sharing", "SliceKernels", "size", "slice_kernels", "why_not"]

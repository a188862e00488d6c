"""Kernels for functions of slices on CPUs: `slice_kernel` writes them, of the parts beside it.

`form` is how a kernel goes through slices, `staging` moves them between arrays and lanes, `passes`
says what is computed when, `elements` writes it, `folding` and `states` what is reduced.
"""

from .form import ARGUMENTS, Form
from .kernel import NAME, slice_kernel, why_not

__all__ = ["ARGUMENTS", "NAME", "Form", "slice_kernel", "why_not"]

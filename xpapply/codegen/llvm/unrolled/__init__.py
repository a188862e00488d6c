"""Kernels for functions of short slices on CPUs: every number of every value is a register.

Slices lie in lanes. There are no loops over elements, so that what only moves them costs nothing.
`elements` are the numbers, which are computed where they are needed; `values` the nodes of a graph,
`whole_values` the ops that are not elementwise, `along_axis` those that order, add up or pick
numbers, `kernel` goes through slices.
"""

from .kernel import MOST, NAME, constants, instructions, prepare, unrolled_kernel, why_not

__all__ = ["MOST", "NAME", "constants", "instructions", "prepare", "unrolled_kernel", "why_not"]

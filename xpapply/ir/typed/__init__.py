"""Typed functions: what a Python function of a slice does, as blocks of instructions on numbers.

A frontend writes them from source, `evaluate` runs one in plain Python, which is the definition,
and `xpapply.codegen.llvm.typed` writes them as text for a compiler. What a typed function cannot
finish for a slice is a *mark*: the Python function itself runs for that slice.
"""

from .function import Array, Block, Instruction, Literal, Mark, Register, Slot, TypedFunction

__all__ = [
    "Array",
    "Block",
    "Instruction",
    "Literal",
    "Mark",
    "Register",
    "Slot",
    "TypedFunction",
]

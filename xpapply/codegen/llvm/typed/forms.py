"""Numbers and arrays as LLVM has them, and where a kernel finds what all slices share."""

from __future__ import annotations

import itertools
import re
import struct
from typing import Any, NamedTuple

import numpy as np

from ....ir.typed import Array, TypedFunction
from ....ir.typed.function import PARTS, Type

INDEX = "i64"


def machine(dtype: str) -> str:
    """LLVM's type of a number in a register."""
    return _MACHINE.get(dtype) or f"i{8 * np.dtype(dtype).itemsize}"


_MACHINE = {"bool": "i1", "float16": "half", "float32": "float", "float64": "double"}


def in_memory(dtype: str) -> str:
    """The type in memory; a complex number has both parts."""
    if dtype in PARTS:
        return f"<2 x {machine(PARTS[dtype])}>"
    return "i8" if dtype == "bool" else machine(dtype)


def size(dtype: str) -> int:
    """Bytes of a number."""
    return np.dtype(dtype).itemsize


def alignment(dtype: str) -> int:
    """The alignment in bytes."""
    return size(PARTS.get(dtype, dtype))


def literal(value: Any, dtype: str) -> str:
    """A number as LLVM writes it: floats by their bits."""
    if dtype == "bool":
        return "true" if value else "false"
    if dtype == "float64":
        return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
    if dtype == "float16":
        return f"0xH{struct.unpack('<H', struct.pack('<e', value))[0]:04X}"
    if dtype == "float32":  # as the double that has its value
        exact = float(np.float32(value))
        return f"0x{struct.unpack('<Q', struct.pack('<d', exact))[0]:016X}"
    return str(int(value))


def suffix(kind: str) -> str:
    """The type's suffix in names of LLVM intrinsics."""
    found = re.fullmatch(r"<(\d+) x (\w+)>", kind)
    if found:
        return f"v{found[1]}{suffix(found[2])}"
    return {"double": "f64", "float": "f32", "half": "f16"}.get(kind, kind)


class Pair(NamedTuple):
    """A complex number: its parts."""

    real: Any
    imag: Any


class InRegisters(NamedTuple):
    """An array: where it is, its lengths and its strides in bytes."""

    base: str
    dims: tuple[str, ...]
    strides: tuple[str, ...]


class Frame:
    """The numbers that all slices share: where each stands in a table of 64 bits.

    First the tables of functions and of memory for arrays that are made, from where and to where;
    then lengths and strides of inputs, addresses, lengths and strides of constants, and lengths and
    strides of results.
    """

    def __init__(self, made: TypedFunction) -> None:
        at = itertools.count(3)
        self.inputs = [self._dims(x, at) for x in made.inputs]
        self.constants = []
        for x in made.constants:
            base = next(at)
            self.constants.append((base, self._dims(Array(x.dtype.name, x.ndim), at)))
        self.results = [self._dims(x, at) for x in made.results]
        self.count = next(at)
        given = *self.inputs, *(dims for _, dims in self.constants), *self.results
        self.lengths = {k for dims, _ in given for k in dims}

    @staticmethod
    def _dims(kind: Type, at: Any) -> tuple[list[int], list[int]]:
        ndim = kind.ndim if isinstance(kind, Array) else 0
        return [next(at) for _ in range(ndim)], [next(at) for _ in range(ndim)]


FUNCTIONS, ARENA, ARENA_END = range(3)
ROUNDS = -1
"""Beside these: rounds of loops, which no frame has."""

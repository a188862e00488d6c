"""Values of LLVM's intermediate language: types, constants, registers.

A `Register` is a number, or a vector with one number per lane; Python's operators on registers
write instructions, by the `Writer` of the function that they belong to.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

BITS = {
    "i1": 1,
    "i8": 8,
    "i16": 16,
    "i32": 32,
    "i64": 64,
    "i128": 128,
    "half": 16,
    "bfloat": 16,
    "float": 32,
    "double": 64,
    "ptr": 64,
}
"""Bits of element types."""
_FLOATS = ("half", "bfloat", "float", "double")
_LETTERS = {"half": "f16", "bfloat": "bf16", "float": "f32", "double": "f64", "ptr": "p0"}


class Type(NamedTuple):
    """A register type: `lanes` numbers of the type `element`.

    Examples
    --------
    >>> print(Type("float"), Type("i32", 8))
    float <8 x i32>
    """

    element: str
    lanes: int = 1
    """1: a number, no vector."""

    @property
    def bits(self) -> int:
        """Bits of one number."""
        return BITS[self.element]

    @property
    def is_float(self) -> bool:
        """Whether numbers are floats."""
        return self.element in _FLOATS

    @property
    def integer(self) -> Type:
        """Integers as wide as these numbers."""
        return Type(f"i{self.bits}", self.lanes)

    @property
    def mask(self) -> Type:
        """The type of comparisons."""
        return Type("i1", self.lanes)

    @property
    def suffix(self) -> str:
        """The type's suffix in names of LLVM intrinsics."""
        letters = _LETTERS.get(self.element, self.element)
        return letters if self.lanes == 1 else f"v{self.lanes}{letters}"

    def __str__(self) -> str:
        return self.element if self.lanes == 1 else f"<{self.lanes} x {self.element}>"


POINTER = Type("ptr")
INDEX = Type("i64")
DTYPES = {
    "bool": "i8",
    "uint8": "i8",
    "int8": "i8",
    "uint16": "i16",
    "int16": "i16",
    "uint32": "i32",
    "int32": "i32",
    "uint64": "i64",
    "int64": "i64",
    "float16": "half",
    "bfloat16": "bfloat",
    "float32": "float",
    "float64": "double",
}
"""NumPy's dtypes as elements in memory. Integers have no sign here: operations have."""


def literal(value: Any, kind: Type) -> str:
    """A constant, the same in all lanes.

    Examples
    --------
    >>> literal(0.5, Type("double")), literal(-1, Type("i32", 2))
    ('0x3FE0000000000000', '<i32 -1, i32 -1>')
    """
    if kind.is_float:
        number = float(value)
        if kind.element == "float":  # written as a double that a float can be
            number = (
                math.copysign(math.inf, number)
                if abs(number) > 3.4028235677973366e38
                else (struct.unpack("<f", struct.pack("<f", number))[0])
            )
        elif kind.element == "half":
            number = struct.unpack("<e", struct.pack("<e", number))[0]
        bits = struct.unpack("<Q", struct.pack("<d", number))[0]
        if kind.element == "half":
            half = struct.unpack("<H", struct.pack("<e", number))[0]
            text = f"0xH{half:04X}"
        elif kind.element == "bfloat":
            text = f"0xR{struct.unpack('<I', struct.pack('<f', number))[0] >> 16:04X}"
        else:
            text = f"0x{bits:016X}"
    elif kind.element == "i1":
        text = "true" if value else "false"
    else:
        text = str(int(value))
    if kind.lanes == 1:
        return text
    return f"<{', '.join([f'{kind.element} {text}'] * kind.lanes)}>"


class Writes(Protocol):
    """The interface of `Writer`, which writes the instructions of a function."""

    def emit(self, kind: Type, instruction: str) -> Register:
        """The result of an instruction."""

    def binary(self, of_floats: str, of_integers: str, x: Any, y: Any) -> Register:
        """An instruction of two operands, which is another one for integers."""

    def compare(self, of_floats: str, of_integers: str, x: Any, y: Any) -> Register:
        """A mask."""


@dataclass(frozen=True, slots=True, eq=False)
class Register:
    """A value of the function that is being written; operators write instructions.

    Numbers of Python take the type of the other operand. Comparisons are false where one side is
    NaN, but `ne`, which is true. Shifts and divisions to integers are those of signed ones.
    """

    writer: Writes
    text: str
    type: Type

    def __add__(self, other: Any) -> Register:
        return self.writer.binary("fadd", "add", self, other)

    def __radd__(self, other: Any) -> Register:
        return self.writer.binary("fadd", "add", other, self)

    def __sub__(self, other: Any) -> Register:
        return self.writer.binary("fsub", "sub", self, other)

    def __rsub__(self, other: Any) -> Register:
        return self.writer.binary("fsub", "sub", other, self)

    def __mul__(self, other: Any) -> Register:
        return self.writer.binary("fmul", "mul", self, other)

    def __rmul__(self, other: Any) -> Register:
        return self.writer.binary("fmul", "mul", other, self)

    def __truediv__(self, other: Any) -> Register:
        return self.writer.binary("fdiv", "", self, other)

    def __rtruediv__(self, other: Any) -> Register:
        return self.writer.binary("fdiv", "", other, self)

    def __neg__(self) -> Register:
        if self.type.is_float:
            return self.writer.emit(self.type, f"fneg {self.type} {self.text}")
        return self.writer.binary("", "sub", 0, self)

    def __and__(self, other: Any) -> Register:
        return self.writer.binary("", "and", self, other)

    def __or__(self, other: Any) -> Register:
        return self.writer.binary("", "or", self, other)

    def __xor__(self, other: Any) -> Register:
        return self.writer.binary("", "xor", self, other)

    def __invert__(self) -> Register:
        return self.writer.binary("", "xor", self, -1)

    def __lshift__(self, other: Any) -> Register:
        return self.writer.binary("", "shl", self, other)

    def __rshift__(self, other: Any) -> Register:
        """Keeps the sign; see `Writer.binary` with "lshr" for the other."""
        return self.writer.binary("", "ashr", self, other)

    def __lt__(self, other: Any) -> Register:
        return self.writer.compare("olt", "slt", self, other)

    def __le__(self, other: Any) -> Register:
        return self.writer.compare("ole", "sle", self, other)

    def __gt__(self, other: Any) -> Register:
        return self.writer.compare("ogt", "sgt", self, other)

    def __ge__(self, other: Any) -> Register:
        return self.writer.compare("oge", "sge", self, other)

    def eq(self, other: Any) -> Register:
        """Whether both are equal."""
        return self.writer.compare("oeq", "eq", self, other)

    def ne(self, other: Any) -> Register:
        """Whether both differ, or one is NaN."""
        return self.writer.compare("une", "ne", self, other)

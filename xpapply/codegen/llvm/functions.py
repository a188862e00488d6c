"""Functions named in column `llvm` of the op table, as LLVM text.

None calls a library, and none but those of angles has a branch. Coefficients are those of the
least largest error, by Remez's algorithm in 45 digits. What a docstring says of errors was
measured against numbers of higher precision, in units in the last place (ulp), without FMA too.
"""

from __future__ import annotations

from .activations import gelu as gelu
from .activations import log_sigmoid as log_sigmoid
from .activations import mish as mish
from .activations import relu as relu
from .activations import softplus as softplus
from .conversions import ceil as ceil
from .conversions import floor as floor
from .conversions import from_half as from_half
from .conversions import rounded_to_half as rounded_to_half
from .conversions import rounded_to_odd as rounded_to_odd
from .conversions import to_half as to_half
from .conversions import to_uint64 as to_uint64
from .error_functions import erf as erf
from .error_functions import erfc as erfc
from .exponentials import cosh as cosh
from .exponentials import exp as exp
from .exponentials import expm1 as expm1
from .exponentials import sinh as sinh
from .exponentials import tanh as tanh
from .logarithms import log as log
from .logarithms import log1p as log1p
from .logarithms import log2 as log2
from .logarithms import log10 as log10
from .powers import pow as pow
from .registers import Register
from .trigonometry import acos as acos
from .trigonometry import asin as asin
from .trigonometry import atan as atan
from .trigonometry import atan2 as atan2
from .trigonometry import cos as cos
from .trigonometry import sin as sin
from .trigonometry import tan as tan
from .writer import Writer

# --- choice and sign --------------------------------------------------------------------


def negative(writer: Writer, x: Register) -> Register:
    """``-x``."""
    return -x


def absolute(writer: Writer, x: Register) -> Register:
    """``|x|``."""
    return writer.abs(x)


def same(writer: Writer, x: Register) -> Register:
    """``x``."""
    return x


def where(writer: Writer, mask: Register, x: Register, y: Register) -> Register:
    """`x` where the mask is true, else `y`."""
    return writer.select(mask, x, y)


def invert(writer: Writer, x: Register) -> Register:
    """True where `x` is false."""
    return ~x


def maximum(writer: Writer, x: Register, y: Register) -> Register:
    """The larger one; NaN wins, and the second one of equals, as NumPy has it on x86-64."""
    return writer.select(writer.is_nan(x), x, writer.select(x > y, x, y))


def minimum(writer: Writer, x: Register, y: Register) -> Register:
    """The smaller one; NaN wins, and the second one of equals."""
    return writer.select(writer.is_nan(x), x, writer.select(x < y, x, y))


def maximum_of_float16(writer: Writer, x: Register, y: Register) -> Register:
    """The larger one; NaN wins, and the first one of equals: NumPy has no instruction for it."""
    return writer.select(writer.is_nan(x), x, writer.select(x >= y, x, y))


def minimum_of_float16(writer: Writer, x: Register, y: Register) -> Register:
    """The smaller one; NaN wins, and the first one of equals."""
    return writer.select(writer.is_nan(x), x, writer.select(x <= y, x, y))


def isfinite(writer: Writer, x: Register) -> Register:
    """Neither infinite nor NaN."""
    return writer.abs(x) < float("inf")


def signbit(writer: Writer, x: Register) -> Register:
    """Whether the sign bit is set."""
    bits = f"i{x.type.bits}"
    return writer.compare("", "slt", writer.bitcast(x, bits), 0)


def sqrt(writer: Writer, x: Register) -> Register:
    """The square root, rounded correctly."""
    return writer.sqrt(x)

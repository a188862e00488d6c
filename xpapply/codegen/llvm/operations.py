"""The elementwise ops of the table, written for CPUs: the column `llvm` of each row says how.

In memory a boolean is a byte, in registers it is a mask (``i1``). Numbers of float16 and bfloat16
are floats in registers, which every op rounds as NumPy and torch do; whole numbers have no sign
there, so that their dtype goes along.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ...ir.ops import OPS, Kind
from . import functions
from .registers import DTYPES, Register, Type
from .target import Target
from .writer import Writer

_INSTRUCTIONS = frozenset("fadd fsub fmul fdiv add sub mul and or xor".split())


def element(dtype: str) -> str:
    """The register type of a dtype."""
    return {"bool": "i1", "float16": "float", "bfloat16": "float"}.get(dtype, DTYPES[dtype])


def constant(writer: Writer, value: Any, dtype: str, lanes: int = 1) -> Register:
    """A number of a dtype."""
    return writer.constant(value, Type(element(dtype), lanes))


def from_memory(writer: Writer, x: Register, dtype: str) -> Register:
    """Numbers as they are computed with, of those that were loaded."""
    if dtype == "bool":
        return writer.compare("", "ne", x, 0)
    if dtype in ("float16", "bfloat16"):
        return functions.from_half(writer, x)
    return x


def to_memory(writer: Writer, x: Register, dtype: str) -> Register:
    """Numbers as they are stored, of those that were computed with."""
    if dtype == "bool":
        return writer.cast(x, "i8")
    if dtype in ("float16", "bfloat16"):
        return functions.to_half(writer, x, DTYPES[dtype])
    return x


def why_not(op: str, dtype: str, target: Target) -> str | None:
    """Why an op, of operands of a dtype, cannot be written for a CPU; None if it can be."""
    row = OPS[op]
    if dtype not in DTYPES:
        return f"{op} of {dtype}: kernels for CPUs have no such numbers"
    if op == "cast":
        return None
    if not row.llvm:
        return f"{op} has no form for CPUs: the column `llvm` of its row is empty"
    if _form(op, dtype) is None:
        return f"{op} of {dtype} has no form for CPUs"
    return None


def own_composites() -> frozenset[str]:
    """The composites that are not written by their definitions: for `ir.rewrite.expand`."""
    return frozenset(r.name for r in OPS.values() if r.kind is Kind.COMPOSITE and r.llvm)


def _form(op: str, dtype: str) -> str | Callable[..., Register] | None:
    """The row's form for operands of a dtype."""
    form = OPS[op].llvm
    if callable(form):
        return form if "float" in dtype else None
    words = form.split()
    if "float" in dtype:
        k = 0
    else:
        k = min(1 if dtype.startswith("int") else 2, len(words) - 1)
        if k == 0:
            return None
    return None if words[k] == "-" else words[k]


def apply(
    writer: Writer,
    op: str,
    operands: Sequence[Register],
    dtype: str,
    attrs: Iterable[tuple[str, Any]] = (),
) -> Register:
    """Write an elementwise op, or a composite with a form of its own.

    Parameters
    ----------
    writer : Writer
        What writes it.
    op : str
        Name of the row.
    operands : sequence of Register
        Numbers or vectors, or both: numbers go to all lanes.
    dtype : str
        That of the last operand.
    attrs : pairs of str and object
        Attributes of the node.

    Examples
    --------
    >>> from xpapply.codegen.llvm.target import TARGETS
    >>> writer = Writer(TARGETS["AVX2"])
    >>> x = constant(writer, 2.0, "float32", 8)
    >>> print(apply(writer, "less", [x, x], "float32").type)
    <8 x i1>
    """
    if op == "cast":
        return cast(writer, operands[0], dtype, dict(attrs)["dtype"])
    form = _form(op, dtype)
    assert form is not None, f"{op} of {dtype}"
    if not callable(form) and hasattr(functions, f"{form}_of_{dtype}"):
        form = f"{form}_of_{dtype}"
    if callable(form):
        found = form(writer, *operands, **dict(attrs))
    elif OPS[op].compares:
        found = writer.compare(form, form, *operands)
    elif form in _INSTRUCTIONS:
        found = writer.binary(form, form, *operands)
    elif hasattr(functions, form):
        found = getattr(functions, form)(writer, *operands, **dict(attrs))
    else:
        found = writer.intrinsic(form, *operands)
    if dtype in ("float16", "bfloat16") and OPS[op].result == "same":
        return functions.rounded_to_half(writer, found, DTYPES[dtype])
    return found


def cast(writer: Writer, x: Register, was: str, dtype: str) -> Register:
    """Numbers of one dtype in another.

    What is too large for whole numbers becomes what NumPy makes of it on x86-64: their lowest
    bits, where a wider type still has them.
    """
    kind = element(dtype)
    if was == dtype:
        return x
    if dtype == "bool":
        return x if was == "bool" else writer.compare("une", "ne", x, 0)
    if dtype in ("float16", "bfloat16"):
        letters = DTYPES[dtype]
        if was == "float64" and dtype == "float16":
            x = functions.rounded_to_odd(writer, x)
        elif x.type.element != "float":
            x = writer.cast(x, "float", signed=was.startswith("int"))
        return functions.rounded_to_half(writer, x, letters)
    if x.type.is_float and "int" in dtype:
        if dtype == "uint64":
            return functions.to_uint64(writer, x)
        bits = Type(kind).bits
        wide = writer.cast(x, "i64" if bits == 64 or dtype == "uint32" else "i32")
        return writer.cast(wide, kind)
    return writer.cast(x, kind, signed=was.startswith("int"))

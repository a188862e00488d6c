"""Tables of 16 numbers that are kept in registers where a CPU can choose from those."""

from __future__ import annotations

from collections.abc import Sequence

from .registers import Register, Type, literal
from .writer import Writer

_FROM_REGISTERS = {
    (512, "float"): (16, "llvm.x86.avx512.permvar.sf.512"),
    (512, "double"): (8, "llvm.x86.avx512.vpermi2var.pd.512"),
    (256, "float"): (8, "llvm.x86.avx2.permps"),
}
"""Look-up instructions by register bits and element: lanes and name."""


def entry(writer: Writer, numbers: Sequence[float], index: Register) -> Register:
    """Look up one of 16 numbers by the low four bits of integers of their size."""
    element = {32: "float", 64: "double"}[index.type.bits]
    lanes = index.type.lanes
    if lanes == 1 or (writer.target.bits, element) not in _FROM_REGISTERS:
        return _loaded(writer, writer.table(numbers, element), element, index)
    size, name = _FROM_REGISTERS[writer.target.bits, element]
    kind = Type(element, size)
    tables = [
        Register(writer, _vector(numbers[first : first + size], kind), kind)
        for first in range(0, 16, size)
    ]
    found = []
    for first in range(0, lanes, size):
        order = [min(first + k, lanes - 1) for k in range(size)]
        mine = index if lanes == size else writer.shuffle(index, index, order)
        if "vpermi2var" in name:
            chosen = writer.call(name, kind, tables[0], mine, tables[1])
        else:
            chosen, *others = (writer.call(name, kind, t, mine) for t in tables)
            for other in others:
                chosen = writer.select((mine & size).ne(0), other, chosen)
        found.append(chosen)
    if lanes < size:
        return writer.shuffle(found[0], found[0], range(lanes))
    return writer.concatenated(found)


def _vector(numbers: Sequence[float], kind: Type) -> str:
    one = Type(kind.element)
    return f"<{', '.join(f'{one} {literal(x, one)}' for x in numbers)}>"


def _loaded(writer: Writer, table: Register, element: str, index: Register) -> Register:
    found = Register(writer, "poison", Type(element, index.type.lanes))
    for k in range(index.type.lanes):
        place = writer.lane(index, k) & 15
        at = writer.offset(table, writer.cast(place, "i64"), element)
        number = writer.load(at, Type(element))
        found = number if index.type.lanes == 1 else writer.with_lane(found, k, number)
    return found

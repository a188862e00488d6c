"""Object files: what their code calls elsewhere, and the code alone, put together."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

_ELF, _MACH_O = b"\x7fELF\x02\x01", b"\xcf\xfa\xed\xfe"  # both of 64 bits, little-endian
MAGIC = _ELF, _MACH_O
_X86_64 = 62
_PROGRAM, _SYMBOLS, _RELOCATIONS, _UNWINDING = 1, 2, 4, 0x70000001
_WRITABLE, _IN_MEMORY = 1, 2
_NEAR = (2, 4)
"""R_X86_64_PC32 and R_X86_64_PLT32: 32 bits for how far away something is."""
_MACH_O_SYMBOLS = 2


def calls(code: bytes) -> frozenset[str]:
    """The names that an object file takes from elsewhere. A kernel has none.

    What looks like an instruction in LLVM IR may become a call: of a mathematical function for
    each number of a vector, of memset. llvmlite's memory manager ends the process over them.
    """
    if code.startswith(_ELF):
        return frozenset(s.name for s in _Elf(code).symbols if s.name and not s.section)
    if code.startswith(_MACH_O):
        return frozenset(name.removeprefix("_") for name in _mach_o_calls(code))
    raise ValueError("neither ELF nor Mach-O of 64 bits")


def linked(code: bytes) -> bytes | None:
    """The code of an object file as it lies in memory, wherever that is, after a line of names.

    Between its parts there are distances, which are filled in here; no linker or loader is
    needed. None for what has anything else in it, or is for another system.

    Returns
    -------
    bytes or None
        The first line has the names of functions, and after each where in the rest it starts.
    """
    if not code.startswith(_ELF):
        return None
    file = _Elf(code)
    if file.machine != _X86_64:
        return None
    found, starts = bytearray(), {}
    for k, section in enumerate(file.sections):
        if not section.flags & _IN_MEMORY or not section.size or section.type == _UNWINDING:
            continue
        if section.type != _PROGRAM or section.flags & _WRITABLE or section.align > 4096:
            return None
        found += bytes(-len(found) % max(1, section.align))
        starts[k] = len(found)
        found += code[section.offset : section.offset + section.size]
    for section in file.sections:
        if section.type != _RELOCATIONS or section.info not in starts:
            continue
        for at in range(section.offset, section.offset + section.size, 24):
            place, what, more = struct.unpack_from("<QQq", code, at)
            symbol, kind = file.symbols[what >> 32], what & 0xFFFFFFFF
            if kind not in _NEAR or symbol.section not in starts:
                return None
            place += starts[section.info]
            struct.pack_into(
                "<i", found, place, starts[symbol.section] + symbol.value + more - place
            )
    names = (f"{s.name} {starts[s.section] + s.value}" for s in file.symbols if s.is_function)
    return " ".join(names).encode() + b"\n" + found


class _Section(NamedTuple):
    """The header of a section (sh_name ...)."""

    name: int
    type: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    align: int
    entry_size: int


class _Symbol(NamedTuple):
    name: str
    section: int
    """0 for what is elsewhere."""
    value: int
    is_function: bool


class _Elf:
    """ELF-64, as its specification (gABI 4.2) has it."""

    def __init__(self, code: bytes) -> None:
        (self.machine,) = struct.unpack_from("<H", code, 18)  # e_machine
        (start,) = struct.unpack_from("<Q", code, 40)  # e_shoff
        size, count = struct.unpack_from("<HH", code, 58)  # e_shentsize, e_shnum
        self.sections = [
            _Section(*struct.unpack_from("<IIQQQQIIQQ", code, start + size * k))
            for k in range(count)
        ]
        self.symbols = [
            _Symbol(
                _text(code, self.sections[table.link].offset + name), section, value, kind & 15 == 2
            )
            for table in self.sections
            if table.type == _SYMBOLS
            for name, kind, _, section, value, _ in struct.iter_unpack(
                "<IBBHQQ", code[table.offset : table.offset + table.size]
            )
        ]


def _mach_o_calls(code: bytes) -> Iterator[str]:
    """Mach-O, as <mach-o/loader.h> and <mach-o/nlist.h> name the fields."""
    (commands,) = struct.unpack_from("<I", code, 16)  # ncmds
    at = 32
    for _ in range(commands):
        command, length = struct.unpack_from("<II", code, at)
        if command == _MACH_O_SYMBOLS:
            symbols, count, strings, _ = struct.unpack_from("<IIII", code, at + 8)
            for k in range(count):
                name, kind = struct.unpack_from("<IB", code, symbols + 16 * k)
                if kind & 0x0E == 0:  # N_TYPE is N_UNDF
                    yield _text(code, strings + name)
        at += length


def _text(code: bytes, start: int) -> str:
    return code[start : code.index(b"\0", start)].decode("ascii", "replace")

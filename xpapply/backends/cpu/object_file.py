"""What machine code in an object file calls outside of it."""

from __future__ import annotations

import struct
from collections.abc import Iterator

_ELF, _MACH_O = b"\x7fELF\x02\x01", b"\xcf\xfa\xed\xfe"  # both of 64 bits, little-endian
_SYMBOL_TABLE, _LOAD_COMMAND_SYMBOLS = 2, 2


def calls(code: bytes) -> frozenset[str]:
    """The names that an object file takes from elsewhere. A kernel has none.

    What looks like an instruction in LLVM IR may become a call: of a mathematical function for
    each number of a vector, of memset. llvmlite's memory manager ends the process over them.
    """
    if code.startswith(_ELF):
        return frozenset(_elf(code))
    if code.startswith(_MACH_O):
        return frozenset(name.removeprefix("_") for name in _mach_o(code))
    raise ValueError("neither ELF nor Mach-O of 64 bits")


def _elf(code: bytes) -> Iterator[str]:
    """ELF-64, as its specification (gABI 4.2) names the fields."""
    (start,) = struct.unpack_from("<Q", code, 40)  # e_shoff
    size, count = struct.unpack_from("<HH", code, 58)  # e_shentsize, e_shnum
    headers = [struct.unpack_from("<IIQQQQII", code, start + size * k) for k in range(count)]
    for _, kind, _, _, offset, length, link, _ in headers:
        if kind == _SYMBOL_TABLE:
            strings = headers[link][4]
            for at in range(offset, offset + length, 24):
                name, _, _, section = struct.unpack_from("<IBBH", code, at)
                if name and not section:  # SHN_UNDEF
                    yield _text(code, strings + name)


def _mach_o(code: bytes) -> Iterator[str]:
    """Mach-O, as <mach-o/loader.h> and <mach-o/nlist.h> name the fields."""
    (commands,) = struct.unpack_from("<I", code, 16)  # ncmds
    at = 32
    for _ in range(commands):
        command, length = struct.unpack_from("<II", code, at)
        if command == _LOAD_COMMAND_SYMBOLS:
            symbols, count, strings, _ = struct.unpack_from("<IIII", code, at + 8)
            for k in range(count):
                name, kind = struct.unpack_from("<IB", code, symbols + 16 * k)
                if kind & 0x0E == 0:  # N_TYPE is N_UNDF
                    yield _text(code, strings + name)
        at += length


def _text(code: bytes, start: int) -> str:
    return code[start : code.index(b"\0", start)].decode("ascii", "replace")

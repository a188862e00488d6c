"""What `compiler.assembly` says of a kernel: multiply-adds, registers that go to memory."""

import re

_BLOCK = re.compile(r"(?:[.\w]+:|(?:#|//) %bb\.\d+:)")
_DEPTH = re.compile(r"(?:in Loop:|Loop Header:).* ?Depth=(\d+)")
_MOVED = re.compile(r"(\d+)-byte (?:Folded )?(?:Spill|Reload)")
_FMA = {
    "AVX-512": r"vfn?m\w+p[sd]\t.*%zmm",
    "AVX2": r"vfn?m\w+p[sd]\t.*%ymm",
    "SSE2": r"mulp[sd]\t.*%xmm",  # has none
    "NEON": r"fml[as]\tv\d+\.(?:4s|2d)",
}


def instructions(assembly, depth=0):
    """The lines of instructions in loops, of at least this depth; 0: all."""
    now = 0
    for line in assembly.splitlines():
        if _BLOCK.match(line):
            now = 0
        found = _DEPTH.search(line)
        if found and not line.startswith("\t"):
            now = int(found[1])
        if re.match(r"\t\w", line) and now >= depth:
            yield line[1:]


def fmas(assembly, target, depth=0):
    """How many multiply-adds of whole vectors there are (SSE2: multiplications)."""
    return sum(bool(re.match(_FMA[target.name], x)) for x in instructions(assembly, depth))


def spills(assembly, target, depth=1):
    """How many vector registers go to memory or come back, in loops of at least this depth."""
    moved = (_MOVED.search(line) for line in instructions(assembly, depth))
    return sum(max(1, int(m[1]) // (target.bits // 8)) for m in moved if m and int(m[1]) >= 16)

"""Notes: the floating-point flags of a processor, for invalid operations, divisions, overflows.

NumPy warns by these notes, so that those of a slice tell whether it would. Its own loops forget
them at times: before such a call they are kept.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

from ..target import Target

_X86 = (
    "  call void @llvm.x86.sse.stmxcsr(ptr {at})",
    "  store i32 {of}, ptr {at}, align 8\n  call void @llvm.x86.sse.ldmxcsr(ptr {at})",
    "  %c{n} = and i32 {of}, -64\n  store i32 %c{n}, ptr {at}, align 8\n"
    "  call void @llvm.x86.sse.ldmxcsr(ptr {at})",
)
_ARM = (
    "  %g{n} = call i64 @llvm.aarch64.get.fpsr()\n  store i64 %g{n}, ptr {at}, align 8",
    "  %q{n} = zext i32 {of} to i64\n  call void @llvm.aarch64.set.fpsr(i64 %q{n})",
    "  %c{n} = and i32 {of}, -32\n  %q{n} = zext i32 %c{n} to i64\n"
    "  call void @llvm.aarch64.set.fpsr(i64 %q{n})",
)
_DECLARED = (
    ("declare void @llvm.x86.sse.stmxcsr(ptr)", "declare void @llvm.x86.sse.ldmxcsr(ptr)"),
    ("declare i64 @llvm.aarch64.get.fpsr()", "declare void @llvm.aarch64.set.fpsr(i64)"),
)
BITS = {"invalid": (1, 1), "divide": (4, 2), "over": (8, 4), "under": (16, 8)}
"""Bits of the flags on x86, and on ARM."""
ALWAYS = 0xFF << 32
"""Flags that count whatever the caller's error state."""


class Notes:
    """Writes how they are read, put back and forgotten, for one CPU."""

    def __init__(self, target: Target) -> None:
        self._arm = arm = target.triple.startswith("aarch64")
        self._read, self._put, self._forget = _ARM if arm else _X86
        self.declared = _DECLARED[arm]
        self._numbers: Iterator[int] = itertools.count()

    def read(self, at: str) -> list[str]:
        """Write them to 64 bits of memory; those beyond 32 stay as they are."""
        return self._read.format(n=next(self._numbers), at=at).splitlines()

    def put(self, of: str, at: str) -> list[str]:
        """Have the processor note what a number of 32 bits says; `at`: memory to do it with."""
        return self._put.format(n=next(self._numbers), of=of, at=at).splitlines()

    def forget(self, of: str, at: str) -> list[str]:
        """Clear the notes."""
        return self._forget.format(n=next(self._numbers), of=of, at=at).splitlines()

    def forgotten(self, at: str) -> list[str]:
        """Forget those of now; `at`: memory to do it with."""
        n = next(self._numbers)
        return [
            *self.read(at),
            f"  %f{n} = load i32, ptr {at}, align 8",
            *self.forget(f"%f{n}", at),
        ]

    def kept(self, at: str, to: str, errors: tuple[str, str] | None = None) -> list[str]:
        """Add those of now to others in memory, and forget them.

        `errors`: where it lies which are ignored, and which count whatever is said elsewhere:
        these are kept 32 bits higher.
        """
        n = next(self._numbers)
        lines = [*self.read(at), f"  %k{n} = load i64, ptr {at}, align 8"]
        lines.append(f"  %o{n} = load i64, ptr {to}, align 8")
        if errors is None:
            lines.append(f"  %s{n} = or i64 %k{n}, %o{n}")
        else:
            lines += [
                f"  %i{n} = load i64, ptr {errors[0]}, align 8",
                f"  %y{n} = load i64, ptr {errors[1]}, align 8",
                f"  %not{n} = xor i64 %i{n}, -1",
                f"  %a{n} = and i64 %k{n}, %not{n}",
                f"  %x{n} = and i64 %k{n}, %y{n}",
                f"  %h{n} = shl i64 %x{n}, 32",
                f"  %u{n} = or i64 %a{n}, %h{n}",
                f"  %s{n} = or i64 %u{n}, %o{n}",
            ]
        return [
            *lines,
            f"  store i64 %s{n}, ptr {to}, align 8",
            f"  %w{n} = trunc i64 %k{n} to i32",
            *self.forget(f"%w{n}", at),
        ]

    def bits(self, kinds: Iterable[str]) -> int:
        """The bits of some kinds of NumPy's warnings."""
        return sum(BITS[kind][self._arm] for kind in kinds)

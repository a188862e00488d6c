"""CPU features that kernels are written for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Target:
    """A CPU, as far as generated kernels depend on it.

    Attributes
    ----------
    name : str
        Of its vector instructions, for `explain`.
    triple, cpu, features : str
        As LLVM wants them. The CPU "native" is this machine's, with all its features.
    bits : int
        Of a vector register.
    fma : bool
        Whether it multiplies and adds in one instruction. LLVM would call a library otherwise.
    registers : int
        The number of vector registers.
    """

    name: str
    triple: str
    cpu: str
    features: str
    bits: int
    fma: bool
    registers: int


TARGETS = {
    t.name: t
    for t in (
        Target("AVX-512", "x86_64-unknown-linux-gnu", "x86-64-v4", "", 512, True, 32),
        Target("AVX2", "x86_64-unknown-linux-gnu", "x86-64-v3", "", 256, True, 16),
        Target("SSE2", "x86_64-unknown-linux-gnu", "x86-64", "", 128, False, 16),
        Target("NEON", "aarch64-unknown-linux-gnu", "generic", "", 128, True, 32),
    )
}
"""Targets by vector width; tests compile every kernel for each."""

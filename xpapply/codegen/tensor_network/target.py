"""Targets of the kernel on tensor cores, and its refusal."""

from __future__ import annotations

from dataclasses import dataclass


class Refused(Exception):
    """The graph has something that this kernel has no form for."""


@dataclass(frozen=True)
class Target:
    """Instructions and precision of the kernel.

    Attributes
    ----------
    core : str
        "wgmma" (sm_90a) or "mma" (sm_80 and later).
    precision : str
        "highest", "high" or "medium", as `xpapply.options` says.
    shared : int
        Bytes of shared memory that a block may have.
    few : bool
        There are hardly more slices than multiprocessors.
    """

    core: str
    precision: str
    shared: int = 227 << 10
    few: bool = False

    @property
    def warps(self) -> int:
        """Warps that take a tile together."""
        return 4 if self.core == "wgmma" else 1

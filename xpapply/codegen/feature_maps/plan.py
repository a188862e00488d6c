"""The plan: how the slices of a network are spread over a device."""

from __future__ import annotations

from dataclasses import dataclass, replace

_RESERVED = 1024
"""Bytes of shared memory that a block takes beyond what it asks for."""


@dataclass(frozen=True)
class Plan:
    """Slices and threads per block, and blocks.

    Attributes
    ----------
    blocks : int
        Blocks of a multiprocessor.
    images : int
        Slices that a block takes at a time.
    warps : int
        Warps of a block.
    staged : bool
        Whether the weights are in shared memory.
    shared : bool
        Whether warps share the terms of a product where they would have nothing to do.
    tables : bool
        Whether there are tables of places that could be computed.
    """

    blocks: int
    images: int
    warps: int
    staged: bool
    shared: bool = True
    tables: bool = True

    def room(self, shared: int) -> int:
        """Bytes of shared memory that each block may ask for, of those that one may."""
        return min((shared + _RESERVED) // self.blocks, shared) - _RESERVED

    def smaller(self) -> Plan | None:
        """The next one that takes less shared memory, if there is one."""
        if self.shared:
            return replace(self, shared=False)
        if self.tables:
            return replace(self, tables=False)
        if self.images > 1:
            return replace(self, images=self.images // 2, shared=True, tables=True)
        return replace(self, staged=False) if self.staged else None

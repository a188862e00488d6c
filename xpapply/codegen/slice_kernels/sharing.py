"""The sharing of slices among threads: what a slice kernel's text depends on besides its graph."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Sharing:
    """A sharing of slices among threads: all that the kernels' text depends on.

    Attributes
    ----------
    lanes : int
        Threads per slice in a block, a power of two.
    slices : int
        Slices per block.
    vector : int
        Elements that lie side by side in memory and are moved at once.
    vectors : int
        How many of them a thread holds at a time.
    across : bool
        Neighbouring threads have neighbouring slices, not neighbouring elements of one.
    in_registers : bool
        The whole slice is, in those of its threads.
    split : bool
        Several blocks share a slice.
    length : int
        Elements of a slice if they are few; 0: told at launch.
    core, batch : int
        Dims of a slice and of the batch, after those that lie together were merged.
    steps : tuple of int
        For each array, inputs first: its step along the slice if that is 0 or 1, -1: told at
        launch.
    wide : bool
        Offsets do not fit in 32 bits.
    """

    lanes: int
    slices: int
    vector: int = 1
    vectors: int = 1
    across: bool = False
    in_registers: bool = False
    split: bool = False
    length: int = 0
    core: int = 1
    batch: int = 1
    steps: tuple[int, ...] = ()
    wide: bool = False

    @property
    def threads(self) -> int:
        """Threads per block."""
        return self.lanes * self.slices

    @property
    def elements(self) -> int:
        """Elements that a thread holds at a time."""
        return self.vector * self.vectors

    @property
    def guarded(self) -> bool:
        """Whether a slice in registers may be shorter than its threads hold."""
        return self.length != self.lanes * self.elements

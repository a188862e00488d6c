"""The traversal of slices by a kernel: what its text depends on besides the graph.

Lengths, strides and counts are no part of it: a kernel finds them in a table of integers, its
*geometry*, so that it serves arrays of all sizes that lie alike.
"""

from __future__ import annotations

from dataclasses import dataclass

from ....ir.graph import Graph

ARGUMENTS = ("geometry", "scratch", "start", "stop")
"""The kernel's first arguments; addresses of arrays follow, then numbers."""


@dataclass(frozen=True)
class Form:
    """A traversal of slices.

    A *tile* is what it works on at a time. Slices lie in lanes (`across`), or the elements of one
    slice do. Tiles are counted through by several indices, the *nest*, of which one may count
    groups of slices, and one the pieces of a slice.

    Attributes
    ----------
    across : bool
        Whether a vector has one element of several slices, instead of several elements of one.
    lanes : int
        Numbers in a vector.
    inputs, outs : tuple of str
        How the elements of each array come into vectors. "direct": they lie side by side;
        "reversed": so they do, the last one first;
        "copied": so they do, and are kept when they are read first; "transposed": those of a
        slice lie side by side, `width` of them at least; "gathered": one by one; "same": one
        number for all lanes; "number" (results): one per slice; "value" (inputs): a number that
        is an argument.
    widths : tuple of int
        For each array that is transposed how many elements are moved at once.
    nest : int
        Indices that a tile has.
    lane, piece : int
        Which of them counts groups of slices, and pieces; -1: none.
    chains : int
        Elements that are worked on at the same time.
    tile : int
        Slices of a tile, where the text says it; 0: the geometry does.
    sums : int
        Sums of every eighth element that are in registers at the same time.
    leaves : bool
        Whether slices, or pieces of them, are so long that NumPy adds parts of them, the *leaves*
        of a tree, and then these sums.
    """

    across: bool
    lanes: int
    inputs: tuple[str, ...]
    outs: tuple[str, ...]
    widths: tuple[int, ...]
    nest: int
    lane: int = -1
    piece: int = -1
    chains: int = 4
    tile: int = 0
    sums: int = 8
    leaves: bool = False

    @property
    def has_parts(self) -> bool:
        """Whether the parts of a slice are listed after the fields of the geometry."""
        return self.piece >= 0 or self.leaves

    @property
    def moves(self) -> tuple[str, ...]:
        """The moves of inputs and results."""
        return self.inputs + self.outs

    def copied(self, graph: Graph) -> list[int]:
        """The nodes of inputs that are kept."""
        several = zip(graph.inputs, self.inputs, strict=True)
        return [i for i, move in several if move == "copied"]

    def fields(self, kept: int) -> list[str]:
        """The names of the integers in the geometry, in their order.

        ``n``: elements of a slice, ``size``: slices that the lanes go through, ``tile``: slices
        of a tile, ``count <d>``: how far index d counts; for array k how far apart are: ``step
        <k>``, the elements of a slice, ``lane <k>``, those of neighbouring slices, ``nest <k>
        <d>``, those of neighbouring tiles; ``scratch <k>``, ``kept <m>``: bytes into the scratch.

        Behind them are four integers for each piece, if `has_parts`: its first element, how many
        it has, and where in the geometry its leaves begin and end. A leaf is an integer:
        how many elements it has, and above `COUNT` bits how many sums before it are added to its
        own.
        """
        found = ["n", "size", "tile", *(f"count {d}" for d in range(self.nest))]
        for k, move in enumerate(self.moves):
            if move != "value":
                found += [f"step {k}", f"lane {k}", f"scratch {k}"]
                found += [f"nest {k} {d}" for d in range(self.nest)]
        return found + [f"kept {m}" for m in range(kept)]


COUNT = 16
"""Bits of a leaf for a number of elements."""

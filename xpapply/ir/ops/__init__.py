"""THE TABLE: one row per op.

A row says everything that xpapply knows about an op: what kind it is (which
fixes its shape rule, its batching rule and what may be fused with it), what
other libraries call it, how C++ writes it, or how it is composed of other
ops. Frontends find ops by the names, backends run them by the names, code
generation reads `c`, tests draw from `domain`, and the docs print the rows.
The rows stand by the kinds of ops in the files of this folder.
"""

from . import axes, composites, elementwise
from .row import F, Kind, Op

__all__ = ["OPS", "F", "Kind", "Op"]

_LEAVES = [
    Op("input", Kind.LEAF, "the slice"),
    Op("length", Kind.LEAF, "how many elements the slice has"),
    Op("const", Kind.LEAF, "a constant array: an argument of every kernel, never baked in"),
    Op("scalar", Kind.LEAF, "a number, part of the graph's structure"),
]

OPS: dict[str, Op] = {
    row.name: row
    for rows in (_LEAVES, elementwise.ROWS, axes.ROWS, composites.ROWS)
    for row in rows
}
